"""The paper's competitors behind the estimators' interface: `get("Dropout", "classes")`.

`BASELINES` has all models of the paper's tables by name: the baselines, and the two estimators they are compared with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from natpn.choices import check_choice
from natpn.estimators import NatPNClassifier, NatPNRegressor
from natpn_paper.baselines.base import Baseline
from natpn_paper.baselines.deep_ensemble import EnsembleClassifier, EnsembleRegressor
from natpn_paper.baselines.distillation import EnD2Classifier
from natpn_paper.baselines.dropout import DropoutClassifier, DropoutRegressor
from natpn_paper.baselines.evidential import EvRegRegressor
from natpn_paper.baselines.posterior_network import POSTNET_DIM, PostNetClassifier
from natpn_paper.baselines.prior_network import RPriorNetClassifier
from natpn_paper.baselines.readings import BaselineClassDistribution, BaselineDistribution
from natpn_paper.baselines.sngp import SNGPClassifier
from natpn_paper.baselines.standard import StandardNetClassifier, StandardNetRegressor

__all__ = [
    "BASELINES",
    "POSTNET_DIM",
    "Baseline",
    "BaselineClassDistribution",
    "BaselineDistribution",
    "DropoutClassifier",
    "DropoutRegressor",
    "EnD2Classifier",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "Entry",
    "EvRegRegressor",
    "PostNetClassifier",
    "RPriorNetClassifier",
    "SNGPClassifier",
    "StandardNetClassifier",
    "StandardNetRegressor",
    "get",
]

Model = Baseline | NatPNClassifier | NatPNRegressor


@dataclass(frozen=True)
class Entry:
    """A model by its kinds of targets.

    Attributes:
        classifier: The class for classes, if it has one.
        regressor: The class for numbers, if it has one.
        families: The families of the regressor.
        parameters: The parameters that distinguish it from another entry of the same class.
    """

    classifier: Callable[..., Model] | None = None
    regressor: Callable[..., Model] | None = None
    families: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def targets(self) -> tuple[str, ...]:
        """What targets it supports: "classes", "normal", "poisson"."""
        return (*(("classes",) if self.classifier else ()), *self.families)


_BOTH = ("normal", "poisson")

BASELINES: dict[str, Entry] = {
    "StandardNet": Entry(StandardNetClassifier, StandardNetRegressor, _BOTH),
    "Dropout": Entry(DropoutClassifier, DropoutRegressor, _BOTH),
    "Ensemble": Entry(EnsembleClassifier, EnsembleRegressor, _BOTH),
    "SNGP": Entry(SNGPClassifier),
    "R-PriorNet": Entry(RPriorNetClassifier),
    "EnD2": Entry(EnD2Classifier),
    "PostNet": Entry(PostNetClassifier),
    "EvReg": Entry(None, EvRegRegressor, ("normal",)),
    "NatPN": Entry(NatPNClassifier, NatPNRegressor, _BOTH, parameters={"ensemble_size": 1}),
    "NatPE": Entry(NatPNClassifier, NatPNRegressor, _BOTH, parameters={"ensemble_size": 5}),
}


def get(name: str, target: str, **parameters: Any) -> Model:
    """Return a model that is not fitted yet.

    Args:
        name: A key of `BASELINES`.
        target: "classes", "normal" or "poisson".
        **parameters: Parameters of the model.

    Raises:
        ValueError: If there is no such model, or it does not support the target.

    Example:
        >>> get("Dropout", "poisson", rate=0.25)
        DropoutRegressor(family='poisson', rate=0.25)
    """
    check_choice("name", name, BASELINES)
    entry = BASELINES[name]
    check_choice("target", target, ("classes", *_BOTH))
    if target not in entry.targets:
        fitting = [other for other, found in BASELINES.items() if target in found.targets]
        raise ValueError(
            f"target: {name} is for {' and '.join(entry.targets)}, got {target!r}; choose one of {', '.join(fitting)}"
        )
    given = {**entry.parameters, **parameters}
    if target == "classes" and entry.classifier is not None:
        return entry.classifier(**given)
    if entry.regressor is None:
        raise ValueError(f"name: {name} has no regressor")
    return entry.regressor(family=target, **given)
