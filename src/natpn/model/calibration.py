"""Conformal guarantees from held-out rows: how unusual an input is, and intervals that cover.

If a new row and the m calibration rows are exchangeable, then of a score and its m held-out values every rank is
equally likely. So

- p = (1 + #{held-out evidence ≤ evidence}) / (m + 1) is at most α with a probability of at most α: `novelty_p`;
- the ⌈(m + 1) c⌉-th smallest held-out score is at least as large as the new one with a probability of at least c. The
  score of a number y is how far it lies from the median in probability, max(½ − F(y), F(y⁻) − ½, 0), and the interval
  goes from quantile ½ − s to ½ + s; the score of a class is 1 − p_y, and the set has all classes with p ≥ 1 − s.

The same holds among the rows of one group, with the scores of that group alone. And if new rows come from another
distribution of inputs, with w(x) its density divided by that of the calibration rows, then the threshold of a row x is
the smallest held-out score s_k with

    Σ {w_i : s_i ≤ s_k} ≥ c (Σ w_i + w(x)),

and infinite if there is none (Tibshirani and others, 2019). With w = 1 it is the rule above.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from natpn.model.groups import Groups, Keys
from natpn.model.shift import Shift

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

TIE = 1e-12  # counts and labels that are as unlikely as a calibration row are in the set, rounding or not
NOVEL = 0.05  # rows with a smaller p-value count as unlike training
ENOUGH = 20
"""Calibration rows that a group has at least, if it has a threshold of its own."""
_NOTICED = 0.05  # a share of rows with infinite intervals that is told


@dataclass(frozen=True)
class Calibration:
    """What held-out rows showed, sorted.

    Attributes:
        log_evidence: Log evidence of the rows.
        scores: Conformal scores of the targets; None if intervals come from the posterior predictive alone.
        groups: How rows fall into groups that have thresholds of their own; None if all are one.
        keys: The group of each score, as `groups` tells them apart.
        features: What `shift` sees of the row of each score, (m, D); None if it is not kept.
        shift: How often rows are new in proportion to the calibration rows; None if they come from one distribution.
    """

    log_evidence: Floats
    scores: Floats | None = None
    groups: Groups | None = None
    keys: Keys | None = None
    features: NDArray[np.float32] | None = None
    shift: Shift | None = None

    @classmethod
    def of_folds(cls, log_evidence: Floats, folds: NDArray[np.int64]) -> "Calibration":
        """Return the calibration of an ensemble whose members each held out a fold of their own.

        No row is new to all members, and rows look too familiar to a member that was trained on them. So its evidence
        there is replaced by the evidence of the same rank among held-out rows of all members together: members have the
        same median evidence, and every row is held out once.

        Args:
            log_evidence: The log evidence of every row by each member, (members, rows).
            folds: Which member held out each row; rows that none held out have no say.
        """
        judged = log_evidence[:, folds >= 0]
        new = folds[folds >= 0] == np.arange(len(judged))[:, None]
        known = judged[~new]
        rank = (np.searchsorted(np.sort(known), known) + 0.5) / len(known)
        judged[~new] = np.quantile(judged[new], rank)
        return cls(np.sort(np.logaddexp.reduce(judged, 0)))

    @classmethod
    def of(
        cls,
        log_evidence: Floats,
        scores: Floats | None,
        groups: Groups | None = None,
        keys: Keys | None = None,
        features: NDArray[np.float32] | None = None,
    ) -> "Calibration":
        """Return the calibration from what is known of held-out rows, in any order."""
        if scores is None:
            return cls(np.sort(log_evidence))
        order = np.argsort(scores, kind="stable")
        keys, features = (None if rows is None else rows[order] for rows in (keys, features))
        return cls(np.sort(log_evidence), scores[order], groups, keys, features)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all but `groups` as arrays by name."""
        found = {"log_evidence": self.log_evidence, "scores": self.scores, "keys": self.keys, "features": self.features}
        known = {name: values for name, values in found.items() if values is not None}
        return known if self.shift is None else known | {f"shift.{k}": v for k, v in self.shift.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], groups: Groups | None) -> "Calibration":
        """Return what `to_arrays` described.

        Raises:
            ValueError: If arrays do not go together.
        """
        scores, keys, features = (arrays.get(name) for name in ("scores", "keys", "features"))
        for name in ("log_evidence", "scores"):
            values = arrays.get(name, np.zeros(0))
            if values.ndim != 1 or bool((values[1:] < values[:-1]).any()):
                raise ValueError(f"the tensor calibration.{name}: expected a sorted list, got something else")
        n_scores = 0 if scores is None else len(scores)
        width = None if groups is None else 1 + len(groups.places)
        for name, rows, n_columns in (("keys", keys, width), ("features", features, None)):
            if rows is not None and (rows.ndim != 2 or len(rows) != n_scores or n_columns not in (None, rows.shape[1])):
                raise ValueError(
                    f"the tensor calibration.{name}: expected a row for each of {n_scores} scores, got {rows.shape}"
                )
        if (keys is None) != (groups is None or scores is None):
            raise ValueError("the tensor calibration.keys: expected it with groups, and not without")
        shift = {name.removeprefix("shift."): values for name, values in arrays.items() if name.startswith("shift.")}
        return cls(
            arrays["log_evidence"],
            scores,
            groups,
            None if keys is None else keys.astype(np.float32),
            features,
            Shift.from_arrays(shift, n_scores, 0 if features is None else features.shape[1]) if shift else None,
        )

    def joined(self, other: "Calibration") -> "Calibration":
        """Return this calibration with the rows of another; both have scores, keys and features, or neither has."""
        rows = (
            None if mine is None or theirs is None else np.concatenate([mine, theirs])
            for mine, theirs in (
                (self.log_evidence, other.log_evidence),
                (self.scores, other.scores),
                (self.keys, other.keys),
                (self.features, other.features),
            )
        )
        log_evidence, scores, keys, features = rows
        return self.of(cast(Floats, log_evidence), scores, self.groups, keys, features)

    def novelty_p(self, log_evidence: Floats) -> Floats:
        """Return conformal p-values: small for inputs with less evidence than held-out rows had."""
        below = np.searchsorted(self.log_evidence, log_evidence, side="right")
        p: Floats = (1 + below) / (len(self.log_evidence) + 1)
        return p

    def threshold(self, coverage: float) -> float | None:
        """Return the score that gives the coverage to rows of all groups alike, and without a shift.

        It is inf if there are too few calibration rows, and None without scores.
        """
        if self.scores is None:
            return None
        return float(_thresholds(self.scores, np.ones(len(self.scores)), np.ones(1), coverage)[0])

    def thresholds(self, coverage: float, numbers: Numbers | None, weights: Floats | None) -> Floats | None:
        """Return the score of each of certain rows that gives the coverage; inf if there are too few calibration rows.

        A group has its own if it has 20 calibration rows or more, and as many as the coverage needs. All smaller groups
        together, and groups that no calibration row has, share one; all calibration rows do for them if they are too
        few together.

        Args:
            coverage: The coverage.
            numbers: Their groups, as `numbers_of` returns them; None if all are one.
            weights: How often each is new in proportion to the calibration rows; None without a shift.
        """
        if self.scores is None:
            return None
        known = np.ones(len(self.scores)) if self.shift is None else self.shift.weights
        new = np.ones(0 if numbers is None else len(numbers)) if weights is None else weights
        if numbers is None:
            return _thresholds(self.scores, known, new, coverage)
        least = max(ENOUGH, math.ceil(coverage / (1 - coverage) - 1e-9))
        large = np.append(np.bincount(self._own_numbers[self._own_numbers >= 0]) >= least, False)
        own, asked = (np.where(large[group], group, -1) for group in (self._own_numbers, numbers))
        found = np.empty(len(asked))
        for group in np.unique(asked):
            used = own == group
            if group < 0 and used.sum() < least:
                used = np.ones(len(own), bool)
            rows = asked == group
            found[rows] = _thresholds(self.scores[used], known[used], new[rows], coverage)
        return found

    def at(self, numbers: Numbers | None, weights: Floats | None) -> "LocalCalibration":
        """Return what it says about certain rows, given what `thresholds` asks for."""
        return LocalCalibration(self, numbers, weights)

    def numbers_of(self, keys: Keys) -> Numbers:
        """Return the number of the group of each row, -1 for a group that no calibration row has."""
        different, place = np.unique(keys, axis=0, return_inverse=True)
        return np.array([self._numbers.get(key.tobytes(), -1) for key in different], np.int64)[place.reshape(-1)]

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The number of each group that calibration rows have."""
        known = np.zeros((0, 1), np.float32) if self.keys is None else np.unique(self.keys, axis=0)
        return {key.tobytes(): number for number, key in enumerate(known[known[:, 0] == 0])}

    @cached_property
    def _own_numbers(self) -> Numbers:
        """The number of the group of each score."""
        return np.zeros(0, np.int64) if self.keys is None else self.numbers_of(self.keys)

    @property
    def largest_group(self) -> int:
        """How many calibration rows the largest group has."""
        return int(np.bincount(self._own_numbers[self._own_numbers >= 0]).max(initial=0))

    @property
    def effective_rows(self) -> float:
        """How many calibration rows of equal weight say as much about new rows as the weighted ones."""
        n_scores = 0 if self.scores is None else len(self.scores)
        return n_scores if self.shift is None else self.shift.effective_rows

    def too_few(self, endless: float) -> str | None:
        """Say that calibration rows are too few for rows of which a share has no finite 90 % interval; None if not."""
        if self.effective_rows >= ENOUGH and endless <= _NOTICED:
            return None
        n_scores = 0 if self.scores is None else len(self.scores)
        return (
            f"the {n_scores:,} calibration rows count as {self.effective_rows:.1f} for these rows, and "
            f"{100 * endless:.0f} % of them have an infinite 90 % interval or a set of all classes: too few of the "
            "former are like them; label some and fit again"
        )

    def of_one_network(self, n_networks: int) -> Self:
        """Return the calibration for one of several networks, each with an equal share of the evidence."""
        share = self.log_evidence - np.log(n_networks)
        return replace(self, log_evidence=share, features=None, shift=None)


@dataclass(frozen=True)
class LocalCalibration:
    """What held-out rows show about certain new rows.

    Attributes:
        whole: What they show.
        numbers: The groups of the new rows.
        weights: Their weights.
    """

    whole: Calibration
    numbers: Numbers | None
    weights: Floats | None

    def novelty_p(self, log_evidence: Floats) -> Floats:
        """Return conformal p-values: small for inputs with less evidence than held-out rows had."""
        return self.whole.novelty_p(log_evidence)

    def threshold(self, coverage: float) -> Floats | None:
        """Return the score of each row that gives the coverage."""
        return self.whole.thresholds(coverage, self.numbers, self.weights)


def _thresholds(scores: Floats, known: Floats, new: Floats, coverage: float) -> Floats:
    """Return the thresholds of new rows, given sorted scores and all weights."""
    total = np.cumsum(known)
    whole = total[-1] if len(total) else 0.0
    place = np.searchsorted(total, coverage * (whole + new) - 1e-9 * min(whole, 1.0))
    return np.append(scores, np.inf)[place]


def check_coverage(coverage: float) -> None:
    """Raise unless it is a share between 0 and 1."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage: expected a share between 0 and 1, such as 0.9, got {coverage!r}")
