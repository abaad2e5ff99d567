"""Which model answers, and what it predicts: names for people, and a version that changes with the weights."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

from natpn.estimators.loading import Saved


@dataclass(frozen=True)
class Identity:
    """What `GET /model` says about a model besides what it learned.

    Attributes:
        name: What the model is called: the name of its directory.
        version: A hash of its weights; None if it was never saved.
        created: When it was fitted, in ISO form and UTC, if that is known.
        natpn: The version of natpn that saved it.
        target: The name of what is predicted; None if the model does not know it.
        unit: Its unit, if it has one.
    """

    name: str = "model"
    version: str | None = None
    created: str | None = None
    natpn: str | None = None
    target: str | None = None
    unit: str | None = None

    @classmethod
    def of(cls, saved: Saved, directory: str | PathLike[str]) -> Self:
        """Return what the files of a model say."""
        name = Path(directory).resolve().name
        return cls(name, saved.version, saved.created, saved.natpn, saved.target, saved.unit)

    def labels(self) -> dict[str, str]:
        """Return what tells models apart, for metrics."""
        return {"name": self.name, "version": self.version or "", "target": self.target or ""}

    def described(self) -> dict[str, Any]:
        """Return it in the form of `GET /model`."""
        model = {"name": self.name, "version": self.version, "created": self.created, "natpn": self.natpn}
        return {"target": {"name": self.target, "unit": self.unit}, "model": model}
