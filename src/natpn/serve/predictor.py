"""A model as the server uses it: checked rows → answers, and what can be told about the model."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from natpn.estimators import ClassDistribution, NatPNRegressor, PredictiveDistribution
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.inputs import TableInputs
from natpn.serve.curves import curves
from natpn.serve.rows import Row
from natpn.serve.schema import columns_of, features

COVERAGE = 0.9
NOVEL = 0.05
_CHUNK = 4096


class Predictor:
    """Answers with a model; safe in threads, since a fitted model does not change.

    Args:
        model: The fitted estimator.
    """

    def __init__(self, model: NatPNEstimator) -> None:
        self.model = model
        columns = columns_of(model)
        plain = columns is None or all(column.numeric for column in columns)
        self._dtype: Any = np.float64 if plain else object

    def answers(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return prediction, interval or probabilities, uncertainties and the flag, for each row."""
        return [answer for part in self._distributions(rows) for answer in self._answers(part)]

    def with_curves(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return answers that also have the curve of the distribution, and the most unusual feature."""
        unusual: list[Any] = [None] * len(rows)
        if isinstance(self.model.inputs_, TableInputs):
            unusual = self.model.inputs_.table.most_unusual(self._array(rows))
        found: list[dict[str, Any]] = []
        for part in self._distributions(rows):
            for answer, curve in zip(self._answers(part), curves(self.model, part), strict=True):
                found.append({**answer, "most_unusual": unusual[len(found)], "curve": curve})
        return found

    def about(self) -> dict[str, Any]:
        """Describe the model: features, targets, and how it was trained."""
        model = self.model
        columns = columns_of(model)
        last = {entry.get("phase"): entry for entry in model.history_}
        return {
            "kind": "numbers" if isinstance(model, NatPNRegressor) else "classes",
            "family": repr(model.family_),
            "classes": getattr(model, "classes_", np.zeros(0)).tolist(),
            "features": None if columns is None else features(columns),
            "shape": None if columns is not None else list(model.inputs_.shape),
            "coverage": COVERAGE,
            "novel_below": NOVEL,
            "training": {
                "rows": model.n_rows_,
                "calibration_rows": len(model.calibration_.log_evidence),
                "conformal": model.calibration_.scores is not None,
                "ensemble_size": model.n_networks_,
                "epochs": len(model.history_),
                "phases": list(last.values()),
            },
            "natpn": version("natpn"),
        }

    def _array(self, rows: Sequence[Row]) -> Any:
        return np.array(rows, dtype=self._dtype)

    def _distributions(self, rows: Sequence[Row]) -> Iterator[PredictiveDistribution]:
        model = self.model
        for start in range(0, len(rows), _CHUNK):
            array = self._array(rows[start : start + _CHUNK])
            if not isinstance(model.inputs_, TableInputs):
                yield model.predict_dist(array)
                continue
            # Checked already, and in training's order: the estimator would ask for a frame with names.
            yield model.answer(torch.from_numpy(model.inputs_.transform(array)))

    @torch.no_grad()
    def _answers(self, distribution: PredictiveDistribution) -> list[dict[str, Any]]:
        p = distribution.novelty_p
        columns = self._predictions(distribution) | {
            "aleatoric": distribution.aleatoric.tolist(),
            "epistemic": distribution.epistemic.tolist(),
            "familiarity": distribution.familiarity.tolist(),
            "novelty_p": p.tolist(),
            "novel": (p < NOVEL).tolist(),
        }
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _predictions(self, distribution: PredictiveDistribution) -> dict[str, list[Any]]:
        if isinstance(distribution, ClassDistribution):
            names = [str(label) for label in distribution.classes.tolist()]
            shares = distribution.probabilities
            return {
                "prediction": distribution.classes[shares.argmax(1)].tolist(),
                "probabilities": [dict(zip(names, row, strict=True)) for row in shares.tolist()],
            }
        columns = self.model.frame_columns(distribution, COVERAGE)
        if "prediction" in columns:
            return {name: values.tolist() for name, values in columns.items()}
        return {"prediction": np.stack(list(columns.values()), 1).tolist()}
