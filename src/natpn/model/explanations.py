"""Why rows are unfamiliar: what each column adds to the surprise, the worst of them, and a familiar value for it.

The surprise of a row is the distance d of `natpn.network.budgets`, the mean of all networks: 0 is an ordinary row, 1
the first percentile of held-out ones. With another budget than the default it is how many nats of log evidence a row
lacks beside the median of held-out rows. It has two parts, both linear in log p:

- what training never had, which belongs to single columns exactly (`natpn.tabular.surprise`);
- the density of the row, in which columns have a part only together. Each column gets a share of it in proportion to
  how much nearer the row comes if the column alone is replaced by the value that suits the rest of the row best. All
  columns are judged by principal components alone (`natpn.network.screen`) and by how rare their values are, and the
  `TRIED` that seem the worst by the networks themselves; no other counts for more than the least of these. A row that
  is denser than ordinary ones has a part below 0, which all columns share alike.

So what the columns add sums to the surprise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.densities import Surprise
from natpn.model.calibration import NOVEL, Calibration
from natpn.model.inputs import n_rows, take
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.network.screen import Screen, Slot
from natpn.tabular import CellError, Column, TableTransform
from natpn.tabular.transform import TakenApart

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

TRIED = 3  # columns of a row that networks judge
_ALSO = 0.7  # the share of the worst column's part from which another is named beside it


@dataclass(frozen=True)
class Explanation:
    """Why rows are as unfamiliar as they are.

    Attributes:
        names: The names of the columns; "x0", "x1", … if training had none.
        adds: What each column adds to the surprise of each row, (rows, columns).
        worst: The column that adds the most.
        values: What stands there, as text; "" if it is missing.
        familiar: What would make the row more familiar there, as text; "" if it is missing, None if nothing is known.
        reasons: The same in a few words; "" for rows that are not novel.
    """

    names: list[str]
    adds: Floats
    worst: Places
    values: list[str]
    familiar: list[str | None]
    reasons: list[str]

    @property
    def surprise(self) -> Floats:
        """How far each row is from ordinary ones."""
        total: Floats = self.adds.sum(axis=1)
        return total

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all of it in named columns."""
        told = {
            "surprise": self.surprise,
            "column": np.array([self.names[place] for place in self.worst], object),
            "value": np.array(self.values, object),
            "familiar": np.array(["" if text is None else text for text in self.familiar], object),
            "reason": np.array(self.reasons, object),
        }
        return told | {f"adds_{name}": self.adds[:, place] for place, name in enumerate(self.names)}


def join(parts: Sequence[Explanation]) -> Explanation:
    """Return the explanation of all rows from those of pieces."""
    lists = {name: [x for part in parts for x in getattr(part, name)] for name in ("values", "familiar", "reasons")}
    adds, worst = (np.concatenate([getattr(part, name) for part in parts]) for name in ("adds", "worst"))
    return Explanation(parts[0].names, adds, worst, **lists)


class Explainer:
    """Explains rows of a table.

    Args:
        table: How rows are encoded.
        network: The network; a fast one will do.
        calibration: What held-out rows showed.
    """

    def __init__(
        self,
        table: TableTransform,
        network: NaturalPosteriorNetwork | NaturalPosteriorEnsemble,
        calibration: Calibration,
    ) -> None:
        self._table, self._network, self._calibration = table, network, calibration
        members = [network] if isinstance(network, NaturalPosteriorNetwork) else network.networks
        self._members = members
        self._values = [_values(column) for column in table.columns]
        pairs = zip(table.columns, table.places, self._values, strict=True)
        self._slots = [_slot(column, places, values) for column, places, values in pairs]
        self._screen = Screen.of(members[0], self._slots)  # one is enough to choose columns by
        self._names = table.feature_names
        self._spoken = self._names if table.named else [f"column {place}" for place in range(len(self._names))]
        step = torch.tensor([0.0, -1.0]).to(next(network.parameters()))
        slopes = [float(member.budget.distance(step).diff()) for member in members]
        weights = [float(m.density.weight) if isinstance(m.density, Surprise) else 0.0 for m in members]
        self._slope = float(np.mean(slopes))  # of the distance, for each nat
        self._event = float(np.mean(np.multiply(slopes, weights)))  # the same for each nat of what training never had
        self._ordinary = 0.0
        if not members[0].budget.centred and len(calibration.log_evidence):
            self._ordinary = np.log(len(members)) - float(np.median(calibration.log_evidence))

    def pieces(self, X: Any, size: int, always: bool = False) -> Iterator[Explanation]:
        """Yield the explanations of rows, in pieces; with reasons for all of them, or for novel ones."""
        for start in range(0, n_rows(X), size):
            try:
                yield self.explain(X if n_rows(X) <= size else take(X, slice(start, start + size)), always)
            except CellError as error:
                raise type(error)(error.column, start + error.row, error.problem) from None

    def explain(self, X: Any, always: bool = False) -> Explanation:
        """Explain a few thousand rows at most."""
        parts = self._table.take_apart(X)
        met = None if self._table.met is None else self._table.met.take_apart(X).events
        events = parts.events if met is None else met  # to rows after training it is no event what they had
        densities = self._densities(_with_met(parts.encoded, None if met is None else met.shares().sum(axis=1)))
        surprise = self._distances(densities)
        shares = -self._event * events.shares()
        gains, picks = self._judge(parts.encoded[:, :-1])
        odd = [column.oddness(cells) for column, cells in zip(self._table.columns, parts.cells, strict=True)]
        seems = self._slope * (gains + np.square(np.transpose(odd)) / 2) + shares
        tried = np.argsort(-seems, axis=1, kind="stable")[:, :TRIED]
        changed = [
            _with_met(self._replaced(parts, picks, places), None if met is None else met.without(places))
            for places in tried.T
        ]
        gained = surprise[:, None] - np.stack([self._distances(self._densities(rows)) for rows in changed], axis=1)
        adds = shares + _divided(surprise - shares.sum(axis=1), self._slope * gains, shares, gained, tried)
        novel = np.full(len(adds), True) if always else self._are_novel(densities)
        return self._told(parts, adds, picks, np.where(gained > 0, tried, -1), novel)

    def nothing(self) -> Explanation:
        """Return the explanation of no rows."""
        return Explanation(self._names, np.zeros((0, len(self._names))), np.zeros(0, np.intp), [], [], [])

    @torch.no_grad()
    def _densities(self, encoded: NDArray[np.float32]) -> list[Tensor]:
        """Return the log-density of encoded rows by each network."""
        parameter = next(self._network.parameters())
        x = torch.from_numpy(encoded).to(parameter.device, parameter.dtype)
        if isinstance(self._network, NaturalPosteriorNetwork):
            return [self._network.log_density(x)]
        return self._network.log_densities(x)

    def _distances(self, densities: list[Tensor]) -> Floats:
        pairs = zip(self._members, densities, strict=True)
        found = torch.stack([member.budget.distance(density) for member, density in pairs]).mean(0)
        distances: Floats = found.double().cpu().numpy() - self._ordinary
        return distances

    @torch.no_grad()
    def _are_novel(self, densities: list[Tensor]) -> NDArray[np.bool_]:
        log_n = torch.stack([m.budget(density) for m, density in zip(self._members, densities, strict=True)]).double()
        if isinstance(self._network, NaturalPosteriorEnsemble) and self._network.combination == "mean":
            log_n -= np.log(len(log_n))
        novel: NDArray[np.bool_] = self._calibration.novelty_p(log_n.logsumexp(0).cpu().numpy()) < NOVEL
        return novel

    def _judge(self, x: NDArray[np.float32]) -> tuple[Floats, "Picks"]:
        """Return gains in nats, and what is put in, by principal components; without them the most usual values."""
        if self._screen is not None:
            gains, numbers, encodings = self._screen.replace(x)
            return gains, Picks(numbers, encodings)
        usual = [-1 if s.bounds else int(np.square(s.encodings).sum(axis=1).argmin()) for s in self._slots]
        none = np.zeros((len(x), len(usual)))
        return none, Picks(none, np.broadcast_to(np.array(usual, np.intp), none.shape))

    def _replaced(self, parts: TakenApart, picks: "Picks", places: Places) -> NDArray[np.float32]:
        """Return encoded rows in which one column, which may differ by row, has another value."""
        result = parts.encoded.copy()
        for place in np.unique(places):
            rows = np.flatnonzero(places == place)
            encoded = self._slots[place].encodings[picks.encodings[rows, place]]
            free = picks.encodings[rows, place] < 0
            if free.any():
                column = self._table.columns[place]
                encoded[free] = _encode(column, column.values_at(picks.numbers[rows[free], place]))
            result[np.ix_(rows, parts.places[place])] = encoded
        result[:, -1] = parts.events.without(places)
        return result

    def _told(
        self, parts: TakenApart, adds: Floats, picks: "Picks", helpful: Places, novel: NDArray[np.bool_]
    ) -> Explanation:
        """Put it in words; `helpful` are the columns of each row in which another value was seen to help."""
        order = np.argsort(-adds, axis=1, kind="stable")
        worst, second = order[:, 0], order[:, min(1, adds.shape[1] - 1)]
        also = adds[np.arange(len(adds)), second] > _ALSO * adds[np.arange(len(adds)), worst]
        helps = (helpful == worst[:, None]).any(axis=1)
        values, reasons = [""] * len(worst), [""] * len(worst)
        familiar: list[str | None] = [None] * len(worst)
        for place in np.unique(worst):
            column, rows = self._table.columns[place], np.flatnonzero(worst == place)
            found = column.readable(parts.cells[place].take(rows))
            better = self._put_in(place, picks.numbers[rows, place], picks.encodings[rows, place])
            for row, value, other in zip(rows.tolist(), found, better, strict=True):
                values[row] = column.written(value)
                other = other if helps[row] else _NOTHING
                familiar[row] = None if other is _NOTHING else column.written(other)
                if novel[row]:
                    more = f"; {self._spoken[second[row]]} adds to it" if also[row] and second[row] != place else ""
                    reasons[row] = self._spoken[place] + " " + _reason(column, value, other) + more
        return Explanation(self._names, adds, worst, values, familiar, reasons)

    def _put_in(self, place: int, numbers: Floats, encodings: Places) -> list[Any]:
        """Return the values that were put in; `_NOTHING` where the column cannot say which they were."""
        known, free = self._values[place] or [_NOTHING], encodings < 0
        found = [known[number] for number in encodings.tolist()]
        if free.any():
            for row, value in zip(
                np.flatnonzero(free).tolist(), self._table.columns[place].values_at(numbers[free]), strict=True
            ):
                found[row] = value
        return found


@dataclass(frozen=True)
class Picks:
    """What is put into each column of each row: an encoding of its slot, or where that is −1 a free number."""

    numbers: Floats
    encodings: Places


_NOTHING = object()


def _with_met(encoded: NDArray[np.float32], surprise: Floats | None) -> NDArray[np.float32]:
    """Return encoded rows with their surprise beside training and rows after it, if there were such rows."""
    return encoded if surprise is None else np.column_stack([encoded, surprise]).astype(np.float32)


def _divided(density: Floats, seems: Floats, shares: Floats, gained: Floats, tried: Places) -> Floats:
    """Return each column's part of the density: in proportion to gains, those of tried columns being known."""
    known = np.maximum(gained - np.take_along_axis(shares, tried, 1), 0)
    gains = np.minimum(seems, known.min(axis=1, keepdims=True))
    np.put_along_axis(gains, tried, known, 1)
    total = gains.sum(axis=1, keepdims=True)
    by_gain = (total > 0) & (density[:, None] > 0)
    parts: Floats = density[:, None] * np.where(by_gain, gains / np.where(total > 0, total, 1), 1 / gains.shape[1])
    return parts


def _reason(column: Column, value: Any, better: Any) -> str:
    """Say what is wrong with a value, in words that follow the name of its column."""
    strange = column.why_strange(value)
    if strange:
        return strange
    text = f"{'is missing, which' if value is None else column.spoken(value)} does not go with the other columns"
    if better is _NOTHING:
        return text
    return f"{text}; {'a missing value' if better is None else column.spoken(better)} would"


def _values(column: Column) -> list[Any]:
    """Return values that may stand in a column: the first stands for any number if it has such, and is none itself."""
    if column.bounds and column.n_numbers == 1:
        return [*column.values_at(np.zeros(1)), *([None] if column.missing else [])]
    return column.familiar


def _slot(column: Column, places: list[int], values: list[Any]) -> Slot:
    encodings = _encode(column, values) if values else np.zeros((1, len(places)))
    return Slot(places, encodings, column.bounds[0] if column.bounds and column.n_numbers == 1 else None)


def _encode(column: Column, values: list[Any]) -> Floats:
    numbers, flags = (np.zeros((len(values), n), np.float32) for n in (column.n_numbers, column.n_flags))
    column.encode(column.cells_of(values), numbers, flags)
    return np.concatenate([numbers, flags], axis=1).astype(np.float64)
