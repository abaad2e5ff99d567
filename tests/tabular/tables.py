"""One table of every kind of column, for each library, and how to write tables as JSON would."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl

from natpn.tabular import TableTransform

DAY = datetime.datetime(2024, 1, 30, 22, 15)


def mixed(n: int = 60) -> dict[str, list]:
    rng = np.random.default_rng(0)
    return {
        "age": [None if i % 7 == 3 else float(v) for i, v in enumerate(rng.normal(40, 9, n))],
        "rooms": rng.integers(1, 6, n).tolist(),
        "smoker": [None if i % 11 == 2 else bool(v) for i, v in enumerate(rng.random(n) < 0.3)],
        "city": [None if i % 13 == 5 else v for i, v in enumerate(rng.choice(["Rome", "Oslo", "Bonn"], n).tolist())],
        "day": [None if i % 9 == 4 else DAY + datetime.timedelta(hours=37 * i) for i in range(n)],
        "wait": [datetime.timedelta(seconds=1.5 * i * i) for i in range(n)],
        "same": [3.0] * n,
    }


def frames(table: dict[str, list]) -> dict[str, object]:
    objects = np.empty((len(next(iter(table.values()))), len(table)), dtype=object)
    for place, values in enumerate(table.values()):
        objects[:, place] = values
    arrow = pl.DataFrame(table).to_arrow()
    return {
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table),
        "pyarrow": arrow,
        "pandas on pyarrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas nullable": pd.DataFrame(table).convert_dtypes(),
        "numpy": objects,
        "rows": [list(row) for row in zip(*table.values(), strict=True)],
    }


def again(transform: TableTransform) -> TableTransform:
    """Save and load through JSON text."""
    return TableTransform.from_config(json.loads(json.dumps(transform.to_config(), allow_nan=False)))
