"""Named columns → a frame of the library that the input came in."""

import sys
from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from natpn.tabular.input_tables import is_pandas


def make_frame(columns: dict[str, NDArray[Any]], like: Any) -> Any:
    """Return a frame of the library of `like`, with its index if it has one.

    Args:
        columns: The columns.
        like: A data frame; for anything else pandas, polars or pyarrow is used, whichever is installed.

    Raises:
        ImportError: If there is no library to make a frame with.
    """
    if is_pandas(like):
        return sys.modules["pandas"].DataFrame(_plain(columns), index=like.index)
    frame = nw.from_native(like, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        made = nw.from_dict(_plain(columns), backend=frame.implementation)
        return _with_index(made.to_native(), like)
    for library in ("pandas", "polars", "pyarrow"):
        if find_spec(library):
            return nw.from_dict(_plain(columns), backend=library).to_native()
    raise ImportError("predict_frame needs pandas, polars or pyarrow: pip install pandas")


def _with_index(made: Any, like: Any) -> Any:
    if hasattr(made, "index") and hasattr(like, "index"):
        made.index = like.index
    return made


def _plain(columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {
        name: values.tolist() if values.dtype.kind in "OU" else np.ascontiguousarray(values)
        for name, values in columns.items()
    }
