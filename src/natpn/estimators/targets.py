"""Targets of every kind → arrays: sequences, arrays, tensors, and series and frames of any library."""

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def read_targets(y: Any) -> NDArray[Any]:
    """Return targets as an array of truth values, whole numbers, numbers or objects.

    Columns that can hold missing values, and have none, become what they are without: pandas' Int64 whole numbers.

    Raises:
        ValueError: If a target is missing.
    """
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    column = nw.from_native(y, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(column, nw.DataFrame) and column.shape[1] == 1:
        return read_targets(column[column.columns[0]].to_native())[:, None]
    if isinstance(column, nw.Series):
        return _read_series(column)
    values = np.asarray(y)
    _check_missing(_is_missing(values))
    if values.dtype.kind == "O" and values.ndim == 1:
        return _plain(values)
    return values


def _read_series(column: "nw.Series[Any]") -> NDArray[Any]:
    _check_missing(column.is_null().to_numpy().astype(bool))
    if column.dtype.is_numeric():
        # pandas' Int64 without missing values comes out as objects or floats
        kind = np.dtype(np.int64) if column.dtype.is_integer() else np.dtype(np.float64)
        values: NDArray[Any] = column.to_numpy()
        values = values if values.dtype.kind in "iuf" else values.astype(kind)
        values = values.astype(kind) if column.dtype.is_integer() and values.dtype.kind == "f" else values
        _check_missing(_is_missing(values))
        return values
    if column.dtype == nw.Boolean:
        return column.to_numpy().astype(bool)
    if column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object):
        return _plain(np.array([*column.to_list(), None], dtype=object)[:-1])
    return column.to_numpy()


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are all whole numbers, truth values or numbers as an array of these."""
    kinds = {type(value) for value in values.tolist()}
    for kind in (bool, int, float):
        if kinds == {kind}:
            return values.astype(kind)
    return values


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        missing: NDArray[np.bool_] = np.isnan(values)
        return missing
    if values.dtype.kind == "O":
        return np.array([value is None or value != value or type(value).__name__ == "NAType" for value in values.flat])
    return np.zeros(0, bool)


def _check_missing(missing: NDArray[np.bool_]) -> None:
    if missing.any():
        row = int(np.flatnonzero(missing.reshape(len(missing), -1).any(1))[0])
        raise ValueError(f"Input y contains NaN: the target of row {row} is missing; leave such rows out")
