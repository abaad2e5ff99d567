"""A model as the server uses it: checked rows → answers, and what can be told about the model."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from natpn.model import NOVEL, PIECE, Labels, Model, PredictiveDistribution
from natpn.serve.curves import curves
from natpn.serve.request_rows import Row
from natpn.tabular import Column

COVERAGE = 0.9


class Predictor:
    """Answers with a model; safe in threads, since a fitted model does not change.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        plain = all(column.numeric for column in model.inputs.columns or [])
        self._dtype: Any = np.float64 if plain else object

    def answers(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return prediction, interval or probabilities, uncertainties and the flag, for each row."""
        return [record for part in self._answers(rows) for record in part.records(COVERAGE)]

    def with_curves(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return answers that also have the curve of the distribution, and the most unusual feature."""
        unusual = iter(self._model.inputs.most_unusual(self._array(rows)))
        return [
            {**record, "most_unusual": name, "curve": curve}
            for part in self._answers(rows)
            for record, curve, name in zip(part.records(COVERAGE), curves(self._model, part), unusual, strict=False)
        ]

    def about(self) -> dict[str, Any]:
        """Describe the model: features, targets, and how it was trained."""
        model, columns = self._model, self._model.inputs.columns
        classes = model.targets.classes.tolist() if isinstance(model.targets, Labels) else []
        return {
            "kind": "classes" if model.family.is_classes else "numbers",
            "family": repr(model.family),
            "classes": classes,
            "features": None if columns is None else [_described(column) for column in columns],
            "shape": None if columns is not None else list(model.inputs.shape),
            "coverage": COVERAGE,
            "novel_below": NOVEL,
            "training": {
                "rows": model.n_rows,
                "calibration_rows": len(model.calibration.log_evidence),
                "conformal": model.calibration.scores is not None,
                "ensemble_size": len(model.members),
                "epochs": len(model.history),
                "phases": list({entry.get("phase"): entry for entry in model.history}.values()),
            },
            "natpn": version("natpn"),
        }

    def _array(self, rows: Sequence[Row]) -> Any:
        return np.array(rows, dtype=self._dtype)

    def _answers(self, rows: Sequence[Row]) -> Iterator[PredictiveDistribution]:
        for start in range(0, len(rows), PIECE):
            yield from self._model.answers(self._array(rows[start : start + PIECE]))


def _described(column: Column) -> dict[str, Any]:
    """Describe a feature, with a usual value that a form may begin with."""
    return {"name": column.name, "kind": column.kind, **column.described, "usual": column.usual}
