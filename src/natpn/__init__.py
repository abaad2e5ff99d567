"""Predict a full distribution, and say how much is known."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natpn import data as data
    from natpn import densities as densities
    from natpn import encoders as encoders
    from natpn import estimators as estimators
    from natpn import export as export
    from natpn import families as families
    from natpn import mlflow as mlflow
    from natpn import model as model
    from natpn import network as network
    from natpn import parallel as parallel
    from natpn import ray as ray
    from natpn import tabular as tabular
    from natpn import training as training
    from natpn.estimators import NatPNClassifier as NatPNClassifier
    from natpn.estimators import NatPNRegressor as NatPNRegressor
    from natpn.estimators import load as load
    from natpn.evidence import Evidence as Evidence
    from natpn.network import NaturalPosteriorEnsemble as NaturalPosteriorEnsemble
    from natpn.network import NaturalPosteriorNetwork as NaturalPosteriorNetwork

__version__ = "0.1.0"

# Where each public name lives; it is imported when it is first asked for, so that `import natpn` alone stays light.
_HOMES = {
    "Evidence": "natpn.evidence",
    "NaturalPosteriorEnsemble": "natpn.network",
    "NaturalPosteriorNetwork": "natpn.network",
    "NatPNClassifier": "natpn.estimators",
    "NatPNRegressor": "natpn.estimators",
    "load": "natpn.estimators",
}
_MODULES = (
    "data",
    "densities",
    "encoders",
    "estimators",
    "export",
    "families",
    "mlflow",
    "model",
    "network",
    "parallel",
    "ray",
    "tabular",
    "training",
)

__all__ = [
    "Evidence",
    "NatPNClassifier",
    "NatPNRegressor",
    "NaturalPosteriorEnsemble",
    "NaturalPosteriorNetwork",
    "__version__",
    "data",
    "densities",
    "encoders",
    "estimators",
    "export",
    "families",
    "load",
    "mlflow",
    "model",
    "network",
    "parallel",
    "ray",
    "tabular",
    "training",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"natpn.{name}")
    raise AttributeError(f"module 'natpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
