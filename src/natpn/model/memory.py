"""What a model keeps of the rows that it learned from after training, so that it can learn from more of them.

Each network's features (latent vector and principal components) and raw outputs are kept, not the rows themselves, with
targets and weights. Of more than `CAPACITY` rows a sample is kept, by a hash of their content, in which each counts for
as many more. So the order of rows and of updates does not matter, and the model stays small.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from natpn.model.calibration import Calibration

CAPACITY = 2_000
FOLDS = 5
ROWS = ("keys", "features", "raw", "surprise", "groups", "y", "weight")  # arrays with an entry a row
ARRAYS = (*ROWS, "log_evidence", "scores")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Memory:
    """Rows that came after training, N of which are kept, as M networks see them.

    Attributes:
        before: What held-out rows of training showed.
        n_rows: How many rows came.
        total: How often they count together.
        keys: A hash of each row that is kept, (N,), sorted.
        features: What the density of each network sees, (N, M, D), in float32.
        raw: What the decoder of each network says, (N, M, S), in float32.
        surprise: That beside training and other rows, (N,), before the row itself was learned.
        groups: The group of each row, as `Calibration.groups` tells them apart, (N, K), in float32; K is 0 without any.
        y: Targets as numbers, (N,) or (N, size).
        weight: How often each row counts, (N,).
        log_evidence: What each row had by networks that had not learned from it, (N,).
        scores: Conformal scores of the targets by the same; None if intervals are not calibrated.
    """

    before: Calibration
    n_rows: int
    total: float
    keys: NDArray[np.int64]
    features: NDArray[np.float32]
    raw: NDArray[np.float32]
    surprise: Floats
    groups: NDArray[np.float32]
    y: Floats
    weight: Floats
    log_evidence: Floats = field(default_factory=lambda: np.zeros(0))
    scores: Floats | None = None

    @property
    def folds(self) -> NDArray[np.int64]:
        """The fold of each row; equal rows are in one."""
        folds: NDArray[np.int64] = self.keys % FOLDS
        return folds

    @property
    def counts(self) -> Floats:
        """How often each row counts, together with those that it stands for."""
        counts: Floats = self.weight * (self.total / self.weight.sum())
        return counts

    @property
    def calibration(self) -> Calibration:
        """What held-out rows of training and these rows showed."""
        features = np.column_stack([self.features[:, 0], self.log_evidence]).astype(np.float32)
        keys = None if self.before.groups is None else self.groups
        return self.before.joined(Calibration(self.log_evidence, self.scores, keys=keys, features=features))

    def with_more(self, other: Self) -> Self:
        """Return this memory with the rows of another; nothing is judged yet."""
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ROWS}
        return replace(self, n_rows=self.n_rows + other.n_rows, total=self.total + other.total, **joined).cut()  # type: ignore[arg-type]

    def cut(self) -> Self:
        """Return the memory in order, with the rows of the smallest hashes if there are too many."""
        order = np.argsort(self.keys, kind="stable")[:CAPACITY]
        return replace(self, **{name: getattr(self, name)[order] for name in ROWS})
