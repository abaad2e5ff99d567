"""Errors about one cell: their parts, and that another process can raise them again."""

import pickle

import numpy as np
import pandas as pd
import pytest

from natpn.tabular import CellError, CellTypeError, TableTransform

FRAME = pd.DataFrame({"area": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]})


@pytest.mark.parametrize(
    ("column", "values", "kind", "problem"),
    [
        ("area", [1.0, 2.0, np.inf, 4.0], CellError, "infinity"),
        ("area", [1.0, 2.0, "much", 4.0], CellError, "'much'"),
        ("colour", ["red", "blue", ["red"], "blue"], CellTypeError, "must be a string or a number, not 'list'"),
    ],
)
def test_the_cell_is_named_by_column_and_row(column, values, kind, problem):
    transform = TableTransform().fit(FRAME)
    with pytest.raises(kind) as found:
        transform.transform(FRAME.assign(**{column: pd.Series(values, dtype=object)}))
    error = found.value
    assert (error.column, error.row) == (column, 2)
    assert problem in error.problem
    assert str(error) == f"Column {column!r}, row 2: {error.problem}"
    assert isinstance(error, TypeError) == (kind is CellTypeError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))
