"""A model as the server uses it: checked rows → answers, requests of the same time together, and curves to draw.

A prediction of many rows takes hardly longer than one of a single row. Requests that come while a prediction runs wait,
and are answered together by the next. If the last prediction had several requests, the next waits for as many, up to
2 ms; a client that is alone never waits.

Curves are points of predictive distributions beside the prior's. Numbers get densities, counts and booleans
probabilities, and classes one bar each; vectors have no curve. The window holds the usual targets of training, if the
model knows them, and the middle of the predictive distribution: from 1 % to 99 %, or from 5 % to 95 %, and then from
10 % to 90 %, if heavy tails would squeeze the rest into a spike.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from natpn.families import ScalarDistribution
from natpn.few_rows import MAX_ROWS as FEW_ROWS
from natpn.model import NOVEL, PIECE, ClassDistribution, Labels, Model, PredictiveDistribution
from natpn.serve.request_rows import Row
from natpn.tabular.number import is_year_or_code

Floats = NDArray[np.float64]
Record = dict[str, Any]
Result = TypeVar("Result")

COVERAGE = 0.9
BATCH_ROWS = 256
LINGER = 0.002
POINTS = 121
LEVELS = (np.arange(80) + 0.5) / 80
MARGIN = 0.03  # of the window, on both sides
HEAVY = 4.0  # for a Normal, 1 % to 99 % is 1.8 times as wide as 10 % to 90 %; for a Cauchy 10 times


class Predictor:
    """Answers with a model; safe in threads, since a fitted model does not change."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._columns = model.columns
        self._exposed = model.targets.exposure is not None
        plain = all(column.numeric for column in self._columns or [])
        self._dtype: Any = np.float64 if plain else object

    def answers(self, rows: Sequence[Row], coverage: float = COVERAGE) -> list[Record]:
        """Return prediction, interval or probabilities, uncertainties and the flag, for each row."""
        return [record for part in self._answers(rows) for record in part.records(coverage)]

    def with_curves(self, rows: Sequence[Row], coverage: float = COVERAGE) -> list[Record]:
        """Return answers that also have the curve of the distribution, and what is most unusual."""
        exposure = self.apart(rows)[1]
        unusual = iter(self._unusual(rows))
        each = iter(() if exposure is None else exposure)
        found = []
        for part in self._answers(rows):
            drawn = curves(self._model, part, [next(each) for _ in range(len(part))] if self._exposed else None)
            for record, curve, told in zip(part.records(coverage), drawn, unusual, strict=False):
                found.append({**record, **told, "curve": curve})
        return found

    def _unusual(self, rows: Sequence[Row]) -> list[Record]:
        """Return for each row the feature that adds the most to its surprise, and why the row is novel."""
        if self._model.inputs.columns is None:
            return [{"most_unusual": None, "reason": ""}] * len(rows)
        told = self._model.explain(self.apart(rows)[0])
        pairs = zip(told.worst.tolist(), told.reasons, strict=True)
        return [{"most_unusual": told.names[place], "reason": reason} for place, reason in pairs]

    def explained(self, rows: Sequence[Row], coverage: float = COVERAGE) -> list[Record]:
        """Return answers that also say what each feature adds to the surprise, and why a row is novel.

        Raises:
            ValueError: If the model is not one of tables.
        """
        told = self._model.explain(self.apart(rows)[0])
        return [
            {
                **record,
                "surprise": float(adds.sum()),
                "adds": dict(zip(told.names, adds.tolist(), strict=True)),
                "most_unusual": told.names[place],
                "familiar": familiar,
                "reason": reason,
            }
            for record, adds, place, familiar, reason in zip(
                self.answers(rows, coverage), told.adds, told.worst.tolist(), told.familiar, told.reasons, strict=True
            )
        ]

    def warm_up(self) -> None:
        """Answer a few rows in every way that there is, so that the first request takes no longer than others."""
        shape, columns = self._model.inputs.shape, self._columns
        row = np.zeros(shape) if columns is None else [c.usual if c.required else None for c in columns]
        for count in (1, FEW_ROWS + 1):
            self.answers([row] * count)
        self.with_curves([row])

    def about(self) -> dict[str, Any]:
        """Describe the model: features with the values that a form may begin with, targets, and its training.

        These values are one row of training if the model keeps one (`example`), and else a usual one of each column.
        Years are targets whose `thousands` are not set apart.
        """
        model, columns = self._model, self._columns
        usual = [column.usual for column in columns or []]
        first = [*model.example, *usual[len(model.example) :]] if model.example else usual
        return {
            "kind": "classes" if model.family.is_classes else "numbers",
            "family": repr(model.family),
            "classes": model.targets.classes.tolist() if isinstance(model.targets, Labels) else [],
            "features": columns
            and [
                {"name": c.name, "kind": c.kind, **c.described, "usual": usual}
                for c, usual in zip(columns, first, strict=True)
            ],
            "shape": list(model.inputs.shape) if columns is None else None,
            "example": model.example is not None,
            "thousands": model.targets.usual is None or not is_year_or_code("", *model.targets.usual),
            "coverage": COVERAGE,
            "novel_below": NOVEL,
            "training": {
                "rows": model.n_rows,
                "learned_rows": 0 if model.memory is None else model.memory.n_rows,
                "calibration_rows": len(model.calibration.log_evidence),
                "conformal": model.calibration.scores is not None,
                "ensemble_size": len(model.members),
                "epochs": len(model.history),
                "phases": list({entry.get("phase"): entry for entry in model.history}.values()),
            },
            "natpn": version("natpn"),
        }

    def apart(self, rows: Sequence[Row]) -> tuple[Any, Floats | None]:
        """Return features, and exposures if rows have them, in their last cell."""
        values = np.array(rows, dtype=self._dtype)
        return (values[:, :-1], values[:, -1].astype(np.float64)) if self._exposed else (values, None)

    def _answers(self, rows: Sequence[Row]) -> Iterator[PredictiveDistribution]:
        for start in range(0, len(rows), PIECE):
            yield from self._model.answers(*self.apart(rows[start : start + PIECE]))


@dataclass
class _Request:
    rows: Sequence[Row]
    answer: "asyncio.Future[Sequence[Any]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batcher:
    """Answers rows in batches, in a worker thread.

    Args:
        function: Answers rows, one answer each. It must be safe in a thread.
        max_rows: The most rows of a batch. Larger requests run in a second thread.
        counted: Called for each batch.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Row]], Sequence[Any]],
        max_rows: int = BATCH_ROWS,
        counted: Callable[[], object] = lambda: None,
    ) -> None:
        self._function, self._max_rows, self._counted = function, max_rows, counted
        self._small, self._large = ThreadPoolExecutor(1, "natpn-batch"), ThreadPoolExecutor(1, "natpn-large")
        self._pending: list[_Request] = []
        self._arrived: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._expected = 1

    async def submit(self, rows: Sequence[Row]) -> Sequence[Any]:
        """Return the answers to some rows, or raise what the function raises for these rows."""
        if len(rows) > self._max_rows:
            self._counted()
            return await self.apart(self._function, rows)
        request = _Request(rows)
        self._pending.append(request)
        if self._arrived is not None:
            self._arrived.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await request.answer

    async def apart(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run something long in the second thread."""
        return await asyncio.get_running_loop().run_in_executor(self._large, function, *arguments)

    def close(self) -> None:
        """Finish what runs, and end the threads."""
        self._small.shutdown()
        self._large.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            if self._expected > 1:
                await self._linger()
            batch = self._take()
            self._expected = len(batch)
            self._counted()
            for request, answer in await loop.run_in_executor(self._small, self._answer, batch):
                if request.answer.done():  # its client has left
                    continue
                if isinstance(answer, Exception):
                    request.answer.set_exception(answer)
                else:
                    request.answer.set_result(answer)
            # Clients may ask again at once: let their requests arrive before the next batch is taken.
            await asyncio.sleep(0)

    async def _linger(self) -> None:
        """Wait for as many requests as the last batch had, but not long."""
        self._arrived = asyncio.Event()
        try:
            async with asyncio.timeout(LINGER):
                while len(self._pending) < self._expected:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass
        finally:
            self._arrived = None

    def _take(self) -> list[_Request]:
        """Take as many of the waiting requests as fit into a batch."""
        rows = count = 0
        while count < len(self._pending) and (rows := rows + len(self._pending[count].rows)) <= self._max_rows:
            count += 1
        batch, self._pending = self._pending[:count], self._pending[count:]
        return batch

    def _answer(self, batch: list[_Request]) -> list[tuple[_Request, Sequence[Any] | Exception]]:
        """Answer a batch; if it fails, answer each request alone, so that only the faulty one fails."""
        try:
            answers = self._function([row for request in batch for row in request.rows])
        except Exception as error:
            if len(batch) == 1:
                return [(batch[0], error)]
            return [pair for request in batch for pair in self._answer([request])]
        results: list[tuple[_Request, Sequence[Any] | Exception]] = []
        start = 0
        for request in batch:
            results.append((request, answers[start : start + len(request.rows)]))
            start += len(request.rows)
        return results


@torch.no_grad()
def curves(
    model: Model, distribution: PredictiveDistribution, exposure: Sequence[float] | None = None
) -> list[Record | None]:
    """Return points of the distribution of each row, and of the prior at the same places and exposures."""
    prior = model.answer_without_evidence()
    if isinstance(distribution, ClassDistribution):
        labels = [str(label) for label in distribution.classes.tolist()]
        before = prior.mean()[0].tolist()
        return [{"kind": "classes", "x": labels, "y": row, "prior": before} for row in distribution.mean().tolist()]
    if not isinstance(distribution.predictive, ScalarDistribution):
        return [None] * len(distribution)
    usual, target = model.targets.usual, distribution.predictive.target
    quantiles, inside = distribution.quantile([0.01, 0.05, 0.1, 0.9, 0.95, 0.99]), distribution.quantile(LEVELS)
    drawn: list[Record | None] = []
    for place, (q01, q05, q10, q90, q95, q99) in enumerate(quantiles):
        widest = HEAVY * (q90 - q10)
        pairs = ((q01, q99), (q05, q95), (q10, q90))
        low, high = next((pair for pair in pairs if pair[1] - pair[0] <= widest), pairs[-1])
        if usual is not None:
            low, high = min(low, usual[0]), max(high, usual[1])
        low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)
        x = _whole(low, high) if target.discrete else _grid(low, high, inside[place])
        x = x[target.holds(torch.from_numpy(x)).numpy()]
        if exposure is not None:
            prior = model.answer_without_evidence(np.array([exposure[place]]))
        drawn.append(
            {
                "kind": "probability" if target.discrete else "density",
                "x": x.tolist(),
                "y": _heights(distribution, x, place),
                "prior": _heights(prior, x, 0),
                "usual": None if usual is None else list(usual),
            }
        )
    return drawn


def _grid(low: float, high: float, inside: Floats) -> Floats:
    points = np.concatenate([np.linspace(low, high, POINTS), inside])
    return np.unique(points[(points >= low) & (points <= high) & np.isfinite(points)])


def _whole(low: float, high: float) -> Floats:
    low, high = np.floor(low), np.ceil(min(high, low + 1e15))
    return np.unique(np.round(np.linspace(low, high, int(min(high - low + 1, POINTS)))))


def _heights(distribution: PredictiveDistribution, x: Floats, place: int) -> list[float]:
    every = torch.from_numpy(x)[:, None].expand(-1, len(distribution))
    heights: list[float] = np.exp(distribution.predictive.log_prob(every)[:, place].numpy()).tolist()
    return heights
