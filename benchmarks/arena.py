"""Real tables, each with a natural shift: rows for training, and ordinary and shifted rows for testing.

`NATPN_DATA/arena/tasks.json` names the target of each table, the columns to drop, and the condition by which rows count
as shifted. Shifted rows are never trained on, and the columns of the condition are removed. The data sets of
`quality.py` are read in the same way. `leave_out` makes a shift of any table, by leaving out a group of its ordinary
rows.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from quality import bike as bike_rows
from quality import directory, load, uci
from sklearn.cluster import KMeans

Floats = NDArray[np.float64]
CLASSES = ("binary", "multiclass")
OF_PAPER = ("bike", "concrete", "energy", "kin8nm", "digits", "mnist", "sensorless")


@dataclass(frozen=True)
class Part:
    """Rows and their targets."""

    X: Any
    y: NDArray[Any]

    def __len__(self) -> int:
        return len(self.y)

    def first(self, rows: NDArray[Any] | slice) -> "Part":
        """Return some of the rows."""
        X = self.X.iloc[rows].reset_index(drop=True) if isinstance(self.X, pd.DataFrame) else self.X[rows]
        return Part(X, self.y[rows])


@dataclass(frozen=True)
class Table:
    """A table, split.

    Attributes:
        kind: "number", "positive", "count", "binary" or "multiclass".
        train: For training.
        test: Ordinary rows.
        shifted: Rows of another kind; empty if the table has none.
    """

    kind: str
    train: Part
    test: Part
    shifted: Part

    @property
    def is_numeric(self) -> bool:
        """Whether targets are numbers."""
        return self.kind not in CLASSES


def tasks() -> dict[str, dict[str, Any]]:
    """Return the tasks of `tasks.json` by name."""
    return {task["name"]: task for task in json.loads((directory() / "arena" / "tasks.json").read_text())}


def read(name: str, seed: int, n_train: int, n_test: int) -> Table:
    """Return a table of the arena or of the paper, with at most the given numbers of rows."""
    if name in OF_PAPER:
        return _of_paper(name, seed, n_train, n_test)
    task = tasks()[name]
    frame = pd.read_parquet(Path(directory()) / "arena" / task["file"])
    target, kind = task["target"], task["kind"]
    if target not in frame.columns:  # "column > number"
        column, limit = (part.strip() for part in target.split(">"))
        frame[target] = (frame.pop(column) > float(limit)).astype(int)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    out, gone = np.zeros(len(frame), bool), set(task["drop"])
    if task["ood"]:
        out = frame.eval(task["ood"], engine="python").fillna(False).to_numpy(bool)
        named = [c for c in frame.columns if re.search(rf"(?<![\w']){re.escape(c)}(?![\w'])", task["ood"])]
        gone |= {*named} - {target}
    frame = frame.drop(columns=[c for c in frame.columns if c in gone])
    y = frame.pop(target)
    values = y.astype(str).to_numpy() if kind in CLASSES else y.astype(float).to_numpy()
    for column in frame.columns:  # objects that are no texts, such as numbers of a decimal type
        if frame[column].dtype == object and not frame[column].map(lambda v: isinstance(v, str) or pd.isna(v)).all():
            frame[column] = frame[column].astype(str)
    return _split(kind, Part(frame, values), out, seed, n_train, n_test)


GROUPS = ("component", "cluster", "category", "column")
_CLUSTERS = 6
_LEVELS = (0.03, 0.35)  # the share of rows that a level to be left out may have
_END = 0.12  # of a column


def leave_out(table: Table, group: str, seed: int, n_train: int, n_test: int) -> Table | None:
    """Return the table with another shift: a group of its ordinary rows is left out of training.

    Args:
        table: A table, whose shifted rows are not used.
        group: "component", the last 15 % along the first principal direction; "cluster", one of six by k-means;
            "category", a level of a column, which is removed; "column", an end of a column of numbers.
        seed: Chooses cluster, level and column.
        n_train: The largest number of rows for training.
        n_test: The largest number of ordinary rows, and of shifted rows, for testing.

    Returns:
        The table, or None if it has no such group of at least 25 rows, or too few others.
    """
    X = (
        pd.concat([table.train.X, table.test.X], ignore_index=True)
        if isinstance(table.train.X, pd.DataFrame)
        else pd.DataFrame(np.concatenate([table.train.X, table.test.X]))
    )
    y = np.concatenate([table.train.y, table.test.y])
    rng = np.random.default_rng(seed)
    kinds = {c: X[c].dtype for c in X}
    numbers = [c for c in X if pd.api.types.is_numeric_dtype(kinds[c]) and not pd.api.types.is_bool_dtype(kinds[c])]
    others = [c for c in X if c not in numbers and not pd.api.types.is_datetime64_any_dtype(kinds[c])]
    if group in ("component", "cluster"):
        ranks = X[numbers].rank(pct=True).fillna(0.5).to_numpy(float) * np.sqrt(12)
        few = [c for c in others if X[c].nunique() <= 12]
        parts = [ranks, *(pd.get_dummies(X[c].astype(str)).to_numpy(float) for c in few)]
        matrix = np.concatenate(parts, 1) - np.concatenate(parts, 1).mean(0)
        if group == "component":
            along = matrix @ np.linalg.svd(matrix, full_matrices=False)[2][0]
            out = along > np.quantile(along, 0.85)
        else:
            out = KMeans(_CLUSTERS, n_init=2, random_state=seed).fit_predict(matrix) == rng.integers(_CLUSTERS)
    elif group == "category":
        low, high = _LEVELS
        shares = [(c, X[c].value_counts(normalize=True)) for c in others if 2 <= X[c].nunique() <= 60]
        found = [(c, v) for c, share in shares for v in share.index[(share >= low) & (share <= high)]]
        if not found:
            return None
        column, level = found[rng.integers(len(found))]
        out = (X.pop(column) == level).to_numpy(bool)
    else:
        found = [c for c in numbers if X[c].nunique() > 20]
        if not found:
            return None
        values = X[found[rng.integers(len(found))]].astype(float).to_numpy()
        out = values > np.nanquantile(values, 1 - _END) if rng.random() < 0.5 else values < np.nanquantile(values, _END)
    if out.sum() < 25 or (~out).sum() < 150:
        return None
    rows = Part(X if isinstance(table.train.X, pd.DataFrame) else X.to_numpy(), y)
    made = _split(table.kind, rows, out, seed, n_train, n_test)
    if made.is_numeric:
        return made
    known = np.flatnonzero(np.isin(made.shifted.y, made.train.y))
    return replace(made, shifted=made.shifted.first(known)) if len(known) >= 25 else None


def _of_paper(name: str, seed: int, n_train: int, n_test: int) -> Table:
    """Return a data set of the paper; Concrete and Energy are shifted by their last 15 % along the first component."""
    if name in ("digits", "mnist", "sensorless"):
        task = load(name + ("" if name == "sensorless" else "-89"), seed)
        X, y = (np.concatenate(parts) for parts in zip(task.train, task.validation, strict=True))
        strange = task.unfamiliar["left-out"][:n_test]
        return Table(
            "multiclass",
            Part(X[:n_train], y[:n_train].astype(int)),
            Part(*task.test).first(slice(n_test)),
            Part(strange, np.full(len(strange), -1)),
        )
    if name == "bike":
        X, y, season = bike_rows()
        known = season % 2 == 0  # summer, and winter to be left out
        return _split("count", Part(X[known], y[known]), season[known] == 4, seed, n_train, n_test)
    X, y = uci(name)
    out = np.zeros(len(X), bool)
    if name != "kin8nm":
        standard = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)
        along = standard @ np.linalg.svd(standard, full_matrices=False)[2][0]
        out = along > np.quantile(along, 0.85)
    return _split("number", Part(X, y), out, seed, n_train, n_test)


def _split(kind: str, rows: Part, out: NDArray[np.bool_], seed: int, n_train: int, n_test: int) -> Table:
    rng = np.random.default_rng(seed)
    inside, outside = rng.permutation(np.flatnonzero(~out)), rng.permutation(np.flatnonzero(out))
    k = min(n_train, int(0.8 * len(inside)))
    train, test = rows.first(inside[:k]), rows.first(inside[k : k + n_test])
    if kind in CLASSES:  # a row of a class that is not in training is no ordinary row
        test = test.first(np.flatnonzero(np.isin(test.y, train.y)))
    return Table(kind, train, test, rows.first(outside[:n_test]))
