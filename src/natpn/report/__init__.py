"""A fitted model and rows with known targets → scores, and one HTML page that says how far to trust it.

`natpn.report.scores` needs nothing beyond natpn; `render` draws and needs the extra `report`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natpn.report.page import render as render

__all__ = ["render"]


def __getattr__(name: str) -> object:
    if name != "render":
        raise AttributeError(f"module 'natpn.report' has no attribute {name!r}")
    try:
        from natpn.report.page import render
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("jinja2", "matplotlib"):
            raise
        raise ImportError(
            f"natpn.report.render needs {missing}, which is missing; in a clone of natpn, run: pip install '.[report]'",
            name=missing,
        ) from error
    return render


def __dir__() -> list[str]:
    return sorted(__all__)
