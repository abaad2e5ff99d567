"""One column as it came: an array of numbers, truth values or instants, or a list of objects.

Whatever the library, a column becomes one of these, and the rest of the package knows no other:

- "number": an array of numbers; missing values are NaN, durations are in seconds,
- "boolean": an array of truth values, or of 0, 1 and NaN,
- "date": seconds since 1970 as float64, in UTC where a time zone is given; missing values are NaN,
- "categories": a list that its library calls categories, whatever its elements,
- "objects": a list, whose kind its elements tell.

An array is a column of the kind that has the name of its form.
"""

from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from natpn.tabular.objects import known_types

LONG = (nw.Int128, nw.UInt128)  # which numpy does not have


@dataclass(frozen=True)
class Cells:
    """The values of one column.

    Attributes:
        form: "number", "boolean", "date", "categories" or "objects".
        values: The values, as described for each form in this module.
        zone: The time zone of dates, None where they have none.
    """

    form: Literal["number", "boolean", "date", "categories", "objects"]
    values: NDArray[Any] | list[Any]
    zone: str | None = None

    def is_empty(self) -> bool:
        """Say whether all values are missing."""
        if isinstance(self.values, list):
            return not known_types(self.values)
        return np.asarray(self.values).dtype.kind == "f" and bool(np.isnan(self.values).all())


def cells_of_array(array: NDArray[Any]) -> Cells:
    """Read one column of a numpy array."""
    kind = array.dtype.kind
    if kind in "iuf":
        return Cells("number", array)
    if kind == "b":
        return Cells("boolean", array)
    if kind in "Mm":
        micro = array.astype(f"{kind}8[us]")
        seconds = np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
        return Cells("date" if kind == "M" else "number", seconds)
    return Cells("objects", array.tolist())


def cells_of_series(series: "nw.Series[Any]") -> Cells:
    """Read one column of a data frame."""
    dtype = series.dtype
    if dtype.is_integer() and dtype not in LONG and not series.null_count():
        return Cells("number", series.to_numpy())
    if dtype.is_numeric():
        return Cells("number", _floats(series))
    if dtype == nw.Boolean:
        return Cells("boolean", series.cast(nw.Float64).to_numpy())
    if dtype in (nw.Datetime, nw.Date):
        seconds = _floats(series.dt.timestamp("us")) / 1e6
        return Cells("date", seconds, getattr(dtype, "time_zone", None))
    if dtype == nw.Duration:
        return Cells("number", _floats(series.dt.total_microseconds()) / 1e6)
    return Cells("categories" if dtype in (nw.Categorical, nw.Enum) else "objects", series.to_list())


def _floats(series: "nw.Series[Any]") -> NDArray[np.float64]:
    """Return numbers as float64, NaN where they are missing."""
    if not series.dtype.is_integer() or series.dtype in LONG:
        return series.cast(nw.Float64).to_numpy()
    # By numpy, which rounds: pyarrow refuses whole numbers beyond 2^53.
    numbers = series.fill_null(0).to_numpy().astype(np.float64)
    numbers[series.is_null().to_numpy().astype(np.bool_)] = np.nan
    return numbers
