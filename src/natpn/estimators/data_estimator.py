"""Inputs and targets of a fit → tensors: read, checked, weighted, sorted, and split into training and held-out rows."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import narwhals as nw
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data
from torch.utils.data import DataLoader, Dataset

from natpn import parallel
from natpn.encoders.base import EncoderChoice
from natpn.estimators.rows import (
    CANDIDATES,
    Prepared,
    Split,
    distinct_rows,
    fold_rows,
    halves,
    split_rows,
    weighted_rows,
)
from natpn.families import Family
from natpn.model import ArrayInputs, Inputs, TableInputs, Targets
from natpn.model.answers import Predictive
from natpn.model.inputs import as_array, evenly, n_rows, read_dataset, take
from natpn.tabular.input_tables import is_pandas

if TYPE_CHECKING:
    from natpn.estimators.shares import Share

Floats = NDArray[np.float64]


def is_files(X: Any) -> bool:
    """Say whether it is what `natpn.data.parquet` returns, without importing pyarrow for it."""
    return type(X).__module__ == "natpn.data"


class DataEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator that reads inputs and targets; subclasses train and predict."""

    # Parameters of every subclass.
    encoder: EncoderChoice
    validation_fraction: float
    calibrate: str | None
    random_state: int | np.random.RandomState | None
    verbose: int

    # Set by fit.
    inputs_: Inputs
    targets_: Targets
    family_: Family
    n_features_in_: int
    n_rows_: int
    n_held_out_: int
    held_out_: NDArray[np.intp]
    folds_: list[NDArray[np.intp]]

    # What a subclass adds.

    @abstractmethod
    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        """Check training targets and return them as numbers, with the group of each row: its class, or 0."""

    @abstractmethod
    def _encode_targets(self, y: Any) -> Floats:
        """Return further targets as numbers."""

    @abstractmethod
    def _learn_targets(self, y: Floats, weight: Floats) -> Targets:
        """Return what targets are, from those of training."""

    @abstractmethod
    def answers(self, X: Any, exposure: ArrayLike | None = None) -> Iterator[Predictive]:
        """Yield the predictive distributions of rows, in pieces of a few thousand, whatever the length of X."""

    @abstractmethod
    def predict_dist(self, X: Any, exposure: ArrayLike | None = None) -> Any:
        """Return the predictive distribution of each row, with its uncertainties."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter has a wrong value."""

    @abstractmethod
    def _fit(self, data: Prepared, seed: int) -> None:
        """Train, and keep what predicting needs."""

    @property
    def _n_folds(self) -> int:
        """How many networks hold out rows of their own."""
        return 1

    # Reading.

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: A table (array or data frame), an array of more dimensions, a torch data set of pairs (x, y) or a loader
                of such batches, or files as `natpn.data.parquet` returns them. Data sets, loaders and files need not
                fit into memory.
            y: The targets, one a row; None for a data set or loader; of files the name of the column, or a pair of this
                and the name of the column of exposures.
            sample_weight: How much each row counts: a row of weight 2 is that row twice.
            X_val: Rows for early stopping and calibration, in any form that X may have; by default a share of X is held
                out.
            y_val: Their targets; None for a data set.

        Returns:
            This estimator.
        """
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        share = self._share(X, y)
        if share is None:
            self._fit_rows(X, y, seed, sample_weight, X_val, y_val)
        elif sample_weight is not None or X_val is not None or y_val is not None:
            raise ValueError(f"X: {share.kind} have no sample_weight, X_val and y_val; leave them out, or give arrays")
        elif share.fits and parallel.world_size() == 1:  # several processes would each hold all rows
            from natpn.estimators.shares import located

            rows, targets, paths = share.whole()
            with located("X" if paths is None else paths[0], paths):
                self._fit_rows(rows, targets, seed)
        else:
            self._fit_pieces(share, seed)
        return self

    def _share(self, X: Any, y: Any) -> "Share | None":
        """Return what reads inputs in parts: files, and data sets that are larger than memory; None for all others."""
        if not is_files(X) and not isinstance(X, Dataset | DataLoader):
            return None
        from natpn.estimators.shares import FileShare, LoaderShare

        if not is_files(X):
            if y is not None:
                raise ValueError("y: a torch data set brings its own targets, so y should be None")
            share = LoaderShare.of(X, bool(self.verbose))
            return None if share.fits else share
        parallel.start(torch.device("cpu"))
        target, exposure = y if isinstance(y, tuple) else (y, None)
        return FileShare.of(X, target, bool(self.verbose), exposure)

    def _fit_rows(
        self, X: Any, y: Any, seed: int, sample_weight: ArrayLike | None = None, X_val: Any = None, y_val: Any = None
    ) -> None:
        """Fit on rows in memory."""
        data = self._prepare(X, y, sample_weight, X_val, y_val, seed)
        self.n_rows_, self.n_held_out_ = len(data.train[0]), len(self.held_out_)
        self._fit(data, seed)

    def _fit_pieces(self, share: "Share", seed: int) -> None:
        """Fit on rows that are read in pieces."""
        raise ValueError(
            f"X: {type(self).__name__} reads all rows into memory, in one process; give fewer, and start it alone"
        )

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None, X_val: Any, y_val: Any, seed: int) -> Prepared:
        """Learn what inputs and targets are, and return them as training sees them."""
        X, y = self._read_inputs(X, y)
        y, groups = self._read_targets(y)
        if len(y) != n_rows(X):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[n_rows(X), len(y)]} in X and y"
            )
        X = self.inputs_.read(X)
        index, weight, rows = self._arrange(X, y, sample_weight)
        X, y = take(X, index), y[index]
        self.held_out_, self.folds_ = np.zeros(0, np.intp), []
        if X_val is None and y_val is None:
            split = self._split(groups[index], index, seed)
            rows = self._without_held_out(X, rows, split)
        else:
            rows, y, weight, split = self._append(rows, y, weight, X_val, y_val)
        self.targets_ = self._learn_targets(y[split.train], weight[split.train])
        self.family_ = self.targets_.family
        inputs, targets = torch.from_numpy(rows), self.targets_.standardise(y)
        weights = torch.from_numpy(weight).float()
        train, validation = ((inputs[i], targets[i], weights[i]) for i in (split.train, split.validation))
        some = take(X, evenly(n_rows(X), CANDIDATES))
        if split.folds is None:
            return Prepared(train, validation, inputs[split.calibration], y[split.calibration], some=some)
        folds = torch.from_numpy(split.folds)
        if self.calibrate is not None:
            return Prepared(train, folds, inputs[split.calibration], y[split.calibration], some=some)
        return Prepared(train, folds, train[0], y[split.train], folds, some)

    def _arrange(
        self, X: Any, y: Floats, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[np.intp], Floats, NDArray[np.float32]]:
        """Return the rows to use, each once and sorted by content, their weights, 1 on average, and them encoded."""
        index, weight = weighted_rows(sample_weight, n_rows(X))
        while True:
            some = X if len(index) == n_rows(X) else take(X, index)
            rows = self.inputs_.fit(some).transform(some)
            chosen, weight = distinct_rows(rows, y[index], weight)
            index, all_differ = index[chosen], len(chosen) == len(index)
            if all_differ:  # else again without the copies, on which the encoding must not depend
                return index, weight / weight.mean(), rows[chosen]

    def _split(self, groups: NDArray[np.int64], index: NDArray[np.intp], seed: int) -> Split:
        """Hold out rows, and note which they are in X."""
        calibrate = self.calibrate is not None
        split = fold_rows(groups, self._n_folds, self.validation_fraction, calibrate, seed)
        if split is None:
            split = split_rows(groups, self.validation_fraction, calibrate, seed)
            self.held_out_ = np.sort(np.delete(index, split.train))
        else:
            self.folds_ = [index[split.train[split.folds == i]] for i in range(self._n_folds)]
            self.held_out_ = np.sort(np.concatenate([index[split.calibration], *self.folds_]))
        return split

    def _without_held_out(self, X: Any, rows: NDArray[np.float32], split: Split) -> NDArray[np.float32]:
        """Encode rows again where held-out ones must not count as seen: new rows would look stranger than these."""
        if len(split.train) < len(rows):
            rows = self.inputs_.fit(take(X, split.train)).transform(X)
        for i in range(len(self.folds_)):
            held_out, seen = split.train[split.folds == i], split.train[split.folds != i]
            self.inputs_.forget(rows, X, held_out, seen)
        return rows

    def _read_inputs(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return inputs and targets after scikit-learn's checks, and note the kind of inputs."""
        if isinstance(X, Dataset | DataLoader):
            X, y = read_dataset(X)
        X = as_array(X)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None")
        self.inputs_ = self._inputs(getattr(X, "ndim", 2))
        X = self._checked(X, reset=True)
        return X, y

    def _inputs(self, n_dims: int) -> Inputs:
        """Return what learns inputs of so many dimensions, that of the rows included."""
        return ArrayInputs() if n_dims > 2 or not isinstance(self.encoder, str) else TableInputs()

    def _checked(self, X: Any, reset: bool) -> Any:
        """Let scikit-learn check the number and the names of columns; frames and arrays are returned unchanged."""
        if isinstance(X, Dataset | DataLoader) or (not reset and self._is_plain(X)):
            return X
        if isinstance(self.inputs_, ArrayInputs):
            _check_feature_names(self, X, reset=reset)
            values = np.asarray(as_array(X))
            if not len(values):
                raise ValueError(
                    f"Found array with 0 sample(s) (shape={values.shape}) while a minimum of 1 is required."
                )
            if reset:
                self.n_features_in_ = int(np.prod(values.shape[1:]))
            return values
        if not hasattr(X, "shape") or isinstance(X, np.ndarray) or hasattr(X, "toarray"):
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self)
        validate_data(self, X, skip_check_array=True, reset=reset)
        if not n_rows(X):
            raise ValueError(f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
        return X

    def _is_plain(self, X: Any) -> bool:
        """Say whether X is an array or a frame that needs no check, which saves time for single rows."""
        columns: Any = getattr(X, "columns", None)
        if hasattr(columns, "tolist") and hasattr(self, "feature_names_in_") and len(X) > 0:  # pandas'
            return columns.tolist() == self.feature_names_in_.tolist() and isinstance(self.inputs_, TableInputs)
        return (
            type(X) is np.ndarray
            and X.dtype.kind in "fiu"
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and isinstance(self.inputs_, TableInputs)
        )

    def _append(
        self, rows: NDArray[np.float32], y: Floats, weight: Floats, X_val: Any, y_val: Any
    ) -> tuple[NDArray[np.float32], Floats, Floats, Split]:
        """Append the validation rows that the user gave."""
        if isinstance(X_val, Dataset | DataLoader) and y_val is None:
            X_val, y_val = read_dataset(X_val)
        if X_val is None or y_val is None:
            raise ValueError("X_val and y_val go together: give both or none")
        extra = self.inputs_.transform(self._checked(X_val, reset=False))
        y_extra = self._encode_targets(y_val)
        if len(extra) != len(y_extra):
            raise ValueError(f"X_val has {len(extra)} rows, y_val {len(y_extra)}: expected as many")
        held_out = len(rows) + np.arange(len(extra))
        split = halves(np.arange(len(rows)), held_out, np.arange(len(rows) + len(extra)), self.calibrate is not None)
        weight = np.concatenate([weight, np.ones(len(extra))])
        return np.concatenate([rows, extra]), np.concatenate([y, y_extra]), weight, split

    # Answering.

    def _rows(self, X: Any) -> Any:
        """Check rows before they are answered; a column of exposures is left out.

        Raises:
            NotFittedError: Before a fit.
            ValueError: If they have other columns than those of training.
        """
        check_is_fitted(self)
        return self._checked(self.targets_.without_exposures(X), reset=False)

    def _exposed_rows(self, X: Any, exposure: ArrayLike | None) -> tuple[Any, Floats | None]:
        """Check rows, and return them with their exposures, if the model was fitted with some."""
        check_is_fitted(self)
        X, found = self.targets_.read_exposures(X, exposure)
        return self._checked(X, reset=False), found

    def predict_frame(self, X: Any, coverage: float = 0.9, exposure: ArrayLike | None = None) -> Any:
        """Return predictions and uncertainties in named columns, in the frame library that X came in.

        A row counts as novel if its `novelty_p` is below 0.05; for a novel row of a table `reason` says why in a few
        words (see `explain`). For arrays the frame is pandas', polars' or pyarrow's, whichever is installed.
        `exposure` is as in the fit.
        """
        return make_frame(self.predict_columns(X, coverage, exposure=exposure), X)

    def predict_columns(
        self,
        X: Any,
        coverage: float = 0.9,
        names: Iterable[str] | None = None,
        exposure: ArrayLike | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Return the columns of `predict_frame`.

        Args:
            X: The rows.
            coverage: The probability with which the interval holds the target.
            names: Which columns, in this order; all if None. No other is calculated.
            exposure: As in the fit.
        """
        found: dict[str, NDArray[Any]] = self.predict_dist(X, exposure).columns(coverage, names)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags


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
