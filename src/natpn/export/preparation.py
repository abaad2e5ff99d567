"""Inputs in the user's units → what the network sees, as modules: `natpn.estimators.inputs` for numbers.

Every column of numbers or truth values is three simple maps, of which each column has its own constants:

- a standardised number, (x · 2^−e − mean)/deviation cut at ±10³⁰, 0 where missing;
- flags, one value where missing, one where x = 1, one otherwise;
- its share of the surprise, if it is missing for the first time, or differs from the constant that it was; and how far
  the farthest number lies beyond its range.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from natpn.estimators.inputs import ArrayInputs, Inputs, TableInputs
from natpn.tabular import TableTransform
from natpn.tabular.base import Column
from natpn.tabular.beyond import HALF, SHARE, Ranges
from natpn.tabular.boolean import BooleanColumn
from natpn.tabular.empty import EmptyColumn
from natpn.tabular.moments import LIMIT, standardised_flags
from natpn.tabular.number import TOLERANCE, NumberColumn
from natpn.tabular.strange import MOST

_FAR = 1e6  # ranges: squares stay within float32
_NUMERIC = (NumberColumn, BooleanColumn, EmptyColumn)


def prepare(inputs: Inputs) -> tuple[nn.Module, tuple[int, ...]]:
    """Return the module that prepares inputs, and the shape of one input that it takes."""
    if isinstance(inputs, ArrayInputs):
        return Standardise(inputs), inputs.shape
    if isinstance(inputs, TableInputs) and not other_columns(inputs):
        return Columns(inputs.table), (len(inputs.table.columns),)
    return Narrow(), inputs.shape


def other_columns(inputs: Inputs) -> list[Column]:
    """Return the columns of a table that a graph cannot read: categories and dates."""
    if not isinstance(inputs, TableInputs):
        return []
    return [column for column in inputs.table.columns if not isinstance(column, _NUMERIC)]


class Narrow(nn.Module):
    """Take inputs that are prepared already."""

    def forward(self, x: Tensor) -> Tensor:
        """Return them in float32."""
        return x.float()


class Standardise(nn.Module):
    """Standardise arrays of any shape."""

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: ArrayInputs) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(np.asarray(inputs.mean, np.float64)))
        self.register_buffer("scale", torch.from_numpy(np.asarray(inputs.scale, np.float64)))

    def forward(self, x: Tensor) -> Tensor:
        """Return (x − mean)/scale in float32."""
        return ((x - self.mean) / self.scale).float()


class Columns(nn.Module):
    """Prepare a table whose columns are numbers and truth values, missing ones as NaN."""

    varying: Tensor
    factor: Tensor
    mean: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor
    width: Tensor
    flagged: Tensor
    if_missing: Tensor
    if_one: Tensor
    otherwise: Tensor
    first: Tensor
    constant: Tensor
    tolerance: Tensor
    log_never: Tensor

    def __init__(self, table: TableTransform) -> None:
        super().__init__()
        columns = table.columns
        numbers = [(i, c.moments) for i, c in enumerate(columns) if isinstance(c, NumberColumn) and c.n_numbers]
        self._indices("varying", [i for i, _ in numbers])
        self._values("factor", [math.ldexp(1.0, -m.exponent) for _, m in numbers])
        self._values("mean", [m.mean for _, m in numbers])
        self._values("deviation", [m.deviation for _, m in numbers])
        self.has_ranges = table.ranges is not None and bool(numbers)
        ranges = Ranges(columns)
        self._values("low", ranges.low.tolist())
        self._values("high", ranges.high.tolist())
        self._values("width", ranges.width.tolist())
        self.most = _FAR if table.version > 2 else 1.0
        flags = [(i, *flag) for i, column in enumerate(columns) for flag in _flags(column)]
        self._indices("flagged", [flag[0] for flag in flags])
        for place, name in enumerate(("if_missing", "if_one", "otherwise"), start=1):
            self._values(name, [flag[place] for flag in flags])
        self.register_buffer("first", torch.tensor([column.missing == 0 for column in columns]))
        constants = [_constant(column) for column in columns]
        self._values("constant", [value for value, _ in constants])
        self._values("tolerance", [tolerance for _, tolerance in constants])
        self._values("log_never", [column.log_never for column in columns])
        self.n_zeros = table.n_numbers - len(numbers)
        self.counts_several = table.version > 2

    def _indices(self, name: str, values: Sequence[int]) -> None:
        self.register_buffer(name, torch.tensor(values, dtype=torch.int64))

    def _values(self, name: str, values: Sequence[float]) -> None:
        self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Return numbers, flags and the surprise, (rows, n_outputs), in float32."""
        missing = x.isnan()
        parts = []
        if self.varying.shape[0]:
            z = (x.index_select(1, self.varying) * self.factor - self.mean) / self.deviation
            parts.append(torch.where(missing.index_select(1, self.varying), 0.0, z.clamp(-LIMIT, LIMIT)))
        if self.n_zeros:
            parts.append(torch.zeros_like(x[:, :1]))
        if self.flagged.shape[0]:
            present = torch.where(x.index_select(1, self.flagged) == 1, self.if_one, self.otherwise)
            parts.append(torch.where(missing.index_select(1, self.flagged), self.if_missing, present))
        event = (missing & self.first) | ((x - self.constant).abs() > self.tolerance)
        surprise = torch.where(event, self.log_never, 0.0).sum(1, keepdim=True)
        if self.has_ranges:
            apart = torch.maximum(parts[0] - self.high, self.low - parts[0]) / self.width
            farthest = apart.amax(1, keepdim=True).clamp(0.0, _FAR)
            squared, growth = farthest.square(), farthest.clamp(1.0, self.most)
            surprise = surprise + SHARE * self.log_never[:1] * growth * squared / (squared + HALF**2)
        if self.counts_several:
            surprise = surprise / (1 - (surprise / self.log_never.sum()).clamp(max=MOST))
        parts.append(surprise)
        return torch.cat(parts, 1).float()


def _flags(column: Column) -> list[tuple[float, float, float]]:
    """Return the values of a column's flags: if missing, if 1, otherwise."""
    flags = []
    if isinstance(column, BooleanColumn) and 0 < column.true < 1:
        no, yes = standardised_flags(column.true)
        usual = yes if column.true > 0.5 else no
        flags.append((0.0 if column.missing_flag is not None else usual, yes, no))
    if column.missing_flag is not None:
        no, yes = column.missing_flag
        flags.append((yes, no, no))
    return flags


def _constant(column: Column) -> tuple[float, float]:
    """Return from what value, and by more than how much, a present one must differ to be an event."""
    if isinstance(column, NumberColumn) and column.minimum == column.maximum:
        return column.minimum, TOLERANCE * abs(column.minimum)
    if isinstance(column, BooleanColumn) and column.true in (0, 1):
        return column.true, 0.0
    if isinstance(column, EmptyColumn):
        return 0.0, -1.0  # any value
    return 0.0, math.inf
