"""The model that answers now, and how it learns from rows whose truth came back.

A model that has learned is another model: a request is answered by the old one or by the new one, whole. Requests that
teach wait for each other; those that ask wait for none of them.
"""

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

from natpn.estimators.base import NatPNEstimator
from natpn.serve.predictor import COVERAGE, Predictor, Record
from natpn.serve.request_rows import Reader, RequestError, Row
from natpn.tabular.texts import brief


class Served:
    """The model that answers now.

    Args:
        model: The fitted model.
        keep: Called with a model that has learned, before it answers, as to save it.
    """

    def __init__(self, model: NatPNEstimator, keep: Callable[[NatPNEstimator], None] | None = None) -> None:
        self._model, self._keep = model, keep
        self._lock = threading.Lock()
        self.predictor = Predictor(model.model_)

    def answers(self, rows: Sequence[Row], coverage: float = COVERAGE) -> list[Record]:
        """Return the answers of the model of this moment."""
        return self.predictor.answers(rows, coverage)

    def learn(self, rows: Sequence[Row], targets: Sequence[Any]) -> NatPNEstimator:
        """Let the model learn, and return it; if it cannot, the old one goes on answering.

        Raises:
            RequestError: If targets are not like those of training, or the model cannot be saved.
        """
        with self._lock:
            model = copy.copy(self._model)
            X, exposure = self.predictor.apart(rows)
            try:
                model = model.learn_rows(X, list(targets), None, exposure) if len(rows) else model
            except (ValueError, TypeError) as error:
                raise RequestError(422, f"{error}.", "targets") from None
            try:
                if self._keep is not None:
                    self._keep(model)
            except (OSError, ValueError) as error:
                raise RequestError(500, f"The model cannot be saved, and has not learned: {error}.") from None
            self._model, self.predictor = model, Predictor(model.model_)
            return model


def read_lessons(reader: Reader, body: bytes) -> tuple[list[Row], list[Any]]:
    """Return the rows of a body and their targets.

    Raises:
        RequestError: If it has another form.
    """
    data = reader.parse_tensors(body)
    fits = type(data) is dict and data.keys() == {"rows", "targets"}
    if not fits or any(type(part) is not list for part in data.values()):
        raise RequestError(
            422, f'Expected {{"rows": [{{…}}, …], "targets": [truth, …]}}, got {brief(data)}. Send both, as lists.'
        )
    rows, targets = reader.rows(data["rows"]), data["targets"]
    if len(rows) != len(targets):
        raise RequestError(422, f"Expected one target for each of {len(rows)} rows, got {len(targets)}.", "targets")
    for place, target in enumerate(targets):
        if target is None or type(target) is dict:
            message = f"targets in row {place}: expected the truth, got {brief(target)}. Leave the row out."
            raise RequestError(422, message, "targets", place)
    return rows, targets
