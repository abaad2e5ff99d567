"""Predict a full distribution, and say how much is known."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natpn import families as families
    from natpn.evidence import Evidence as Evidence

__version__ = "0.1.0"

# Where each public name lives; it is imported when it is first asked for, so that `import natpn` alone stays light.
_HOMES = {"Evidence": "natpn.evidence"}
_MODULES = ("distributions", "families")

__all__ = ["Evidence", "__version__", "distributions", "families"]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"natpn.{name}")
    raise AttributeError(f"module 'natpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
