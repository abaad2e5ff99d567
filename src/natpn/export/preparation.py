"""Inputs in the user's units → what the network sees, as modules: `natpn.model.inputs` for numbers.

A column of numbers states the constants of its encoding (`Column.arithmetic`); the surprise is the sum of their events
and of the distance of the farthest number beyond its range. A table with any other column has to be encoded before.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from natpn.model import ArrayInputs, Inputs, TableInputs
from natpn.tabular import Column, TableTransform
from natpn.tabular.number import STANDARDISED_LIMIT as LIMIT
from natpn.tabular.transform import HALF, MOST_STRANGE, SHARE, Ranges

_FAR = 1e6  # ranges: squares stay within float32


def prepare(inputs: Inputs) -> tuple[nn.Module, tuple[int, ...]]:
    """Return the module that prepares inputs, and the shape of one input that it takes."""
    if isinstance(inputs, ArrayInputs):
        return Standardise(inputs), inputs.shape
    if isinstance(inputs, TableInputs) and not other_columns(inputs):
        return Columns(inputs.table), (len(inputs.table.columns),)
    return Narrow(), inputs.shape


def other_columns(inputs: Inputs) -> list[Column]:
    """Return the columns of a table that a graph cannot read, such as categories and dates."""
    return [column for column in inputs.columns or [] if column.arithmetic is None]


class Narrow(nn.Module):
    """Take inputs that are already encoded."""

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
    """Prepare a table whose columns all have an arithmetic, missing values as NaN."""

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
        stated = [arithmetic for column in columns if (arithmetic := column.arithmetic) is not None]
        numbers = [(i, moments) for i, arithmetic in enumerate(stated) for moments in arithmetic.numbers]
        self._indices("varying", [i for i, _ in numbers])
        self._values("factor", [math.ldexp(1.0, -m.exponent) for _, m in numbers])
        self._values("mean", [m.mean for _, m in numbers])
        self._values("deviation", [m.deviation for _, m in numbers])
        ranges = Ranges(columns)
        self.has_ranges = table.ranges is not None and bool(ranges.places)
        for name, known, unbounded in (
            ("low", ranges.low, -math.inf),
            ("high", ranges.high, math.inf),
            ("width", ranges.width, 1.0),
        ):
            values = np.full(len(numbers), unbounded)
            values[ranges.places] = known
            self._values(name, values.tolist())
        self.most = _FAR if table.version > 2 else 1.0
        flags = [(i, *flag) for i, arithmetic in enumerate(stated) for flag in arithmetic.flags]
        self._indices("flagged", [flag[0] for flag in flags])
        for place, name in enumerate(("if_missing", "if_one", "otherwise"), start=1):
            self._values(name, [flag[place] for flag in flags])
        self.register_buffer("first", torch.tensor([column.missing == 0 for column in columns]))
        self._values("constant", [arithmetic.constant for arithmetic in stated])
        self._values("tolerance", [arithmetic.tolerance for arithmetic in stated])
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
            surprise = surprise / (1 - (surprise / self.log_never.sum()).clamp(max=MOST_STRANGE))
        parts.append(surprise)
        return torch.cat(parts, 1).float()
