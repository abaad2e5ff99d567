"""Targets of every kind → arrays: sequences, arrays, tensors, and series and frames of any library."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def read_targets(y: Any) -> NDArray[Any]:
    """Return targets as an array of booleans, whole numbers, floats or objects.

    A nullable column without missing values becomes a plain array: pandas' Int64 becomes int64.

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
    values = _array(y)
    _check_missing(_is_missing(values))
    if values.dtype.kind == "O" and values.ndim == 1:
        return _plain(values)
    return values


def read_numbers(y: Any) -> NDArray[Any]:
    """Return targets that are numbers.

    Raises:
        ValueError: If a target is missing, or a text.
    """
    values = read_targets(y)
    objects: Iterable[Any] = values.flat if values.dtype.kind in "OUS" else []
    text = next((value for value in objects if isinstance(value, str | bytes)), None)
    if text is not None:
        raise ValueError(
            f"y: expected numbers, got texts such as {text[:60]!r}; use NatPNClassifier if they are classes, or "
            "convert them, as by y.astype(float)"
        )
    return values


def _array(y: Any) -> NDArray[Any]:
    """Return an array that keeps distinct targets distinct.

    numpy turns numbers beside texts into texts, and large whole numbers into floats.
    """
    if isinstance(y, list | tuple):
        kinds = {type(value) for value in y}
        if kinds == {int} or (str in kinds and len(kinds) > 1):
            return _objects(y)
    return np.asarray(y)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    return np.array([*values, None], dtype=object)[:-1]


def _read_series(column: "nw.Series[Any]") -> NDArray[Any]:
    _check_missing(column.is_null().to_numpy().astype(bool))
    if column.dtype in (nw.Int128, nw.UInt128):  # numpy has no such type
        return _plain(_objects(column.to_list()))
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
        return _plain(_objects(column.to_list()))
    return column.to_numpy()


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects as a typed array if all are booleans, whole numbers or floats that fit one; else as they are."""
    kinds = {type(value) for value in values.tolist()}
    for kind, types in ((bool, [np.bool_]), (int, [np.int64, np.uint64]), (float, [np.float64])):
        for dtype in types if kinds == {kind} else []:
            with contextlib.suppress(OverflowError):
                return values.astype(dtype)
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
