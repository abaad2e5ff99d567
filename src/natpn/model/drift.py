"""A drift alarm with a guarantee: a conformal test martingale (Vovk and others, 2003 and 2021).

Rows come one after the other, each with a score that is low where the row is unusual, such as its log evidence. The
rank of a score among those of the reference rows and of all rows before it, with ties decided at random,

    p_t = (#{s_i < s_t} + U_t (1 + #{s_i = s_t})) / (1 + #{s_i}),

is uniform and independent of the ranks before it as long as all rows are exchangeable. Each bet multiplies a stake by
f(p_t) ≥ 0 with ∫ f = 1, so its expected value stays as it is; f(p) = κ p^(κ−1) wins where rows are unusual, and
f(1 − p) where they are suspiciously usual. A share 1/(s (s + 1)) of the stake is put in at row s, so that drift after
many quiet rows is found too:

    M_t = mean over bets of  Σ_{s ≤ t} 1/(s (s + 1)) Π_{i = s … t} f(p_i)  +  1/(t + 1)

M starts at 1 and is a martingale. By Ville's inequality it ever reaches 1/α with a probability of at most α, however
long one looks. That is the guarantee: without drift, at most a share α of all streams ever raises an alarm.

Scores are rounded to multiples of `STEP`, and those that are then equal are tied: only their counts are kept. The grid
does not depend on the data, so rounded rows are as exchangeable as the rows, and the guarantee stays exact.
"""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from natpn.model.answers import PredictiveDistribution
from natpn.model.calibration import Calibration

Floats = NDArray[np.float64]

LEVEL = 0.01
STEP = 1 / 1024
BETS = (0.2, 0.5, 0.8)  # κ, each in both directions
_CHUNK = 256
_FARTHEST = 2.0**40  # steps


class DriftAlarm:
    """Watch a stream of rows for a change, with a bound on false alarms however long it runs.

    The bound is exact if the reference rows are as new to the model as those of the stream: of a model with
    calibrate="conformal", or rows of your own. Otherwise the first rows of a stream may differ a little from the
    reference without any drift; they soon outnumber it.

    Args:
        reference: Scores of rows without drift; there may be none.
        level: The probability with which an alarm is ever raised without drift, at most.
        random_state: For ties.

    Attributes:
        n_rows: How many rows it has seen.
        log_martingale: The logarithm of M now.
        raised_at: The number of the row, from 0, at which the alarm was raised; None if it was not.

    Example:
        >>> lot = np.random.default_rng(0)
        >>> alarm = DriftAlarm(lot.normal(size=500))
        >>> alarm.see(lot.normal(size=1000)).raised_at is None
        True
        >>> alarm.see(lot.normal(size=100) - 3).raised_at < 1100
        True
    """

    def __init__(self, reference: ArrayLike = (), level: float = LEVEL, random_state: int = 0) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level: expected a probability between 0 and 1, such as 0.01, got {level!r}")
        scores = _checked("reference", reference)
        self.level = level
        self.n_rows = 0
        self.log_martingale = 0.0
        self.raised_at: int | None = None
        self._highest = 0.0
        self._generator = np.random.default_rng(random_state)
        self._keys, self._counts = np.unique(_rounded(scores), return_counts=True)
        self._stakes = np.full(2 * len(BETS), -np.inf)  # the logarithms of what each bet has made

    @property
    def is_raised(self) -> bool:
        """Whether the alarm was ever raised."""
        return self.raised_at is not None

    @property
    def value(self) -> float:
        """M now, at most 10³⁰⁰."""
        return _exp(self.log_martingale)

    @property
    def highest(self) -> float:
        """The largest value that M has had, at most 10³⁰⁰."""
        return _exp(self._highest)

    def refer_to(self, other: "DriftAlarm") -> None:
        """Compare with the rows of another alarm from now on, as after a model has learned; M stays as it is.

        Without drift p of the next row is as uniform among these as it was among the others, so the bound holds.
        """
        self._keys, self._counts = other._keys, other._counts

    def see(self, scores: ArrayLike) -> Self:
        """Take the scores of further rows, in the order in which they came."""
        values = _checked("scores", scores)
        for start in range(0, len(values), _CHUNK):
            self._bet(self._ranks(values[start : start + _CHUNK]))
        return self

    def _ranks(self, scores: Floats) -> Floats:
        """Return p of each score, and count it for those that follow."""
        rounded = _rounded(scores)
        keys = np.union1d(self._keys, rounded)
        counts = np.zeros(len(keys), np.int64)
        counts[np.searchsorted(keys, self._keys)] = self._counts
        places = np.searchsorted(keys, rounded)
        before = np.tri(len(places), k=-1, dtype=bool)
        below = (np.cumsum(counts) - counts)[places] + ((places < places[:, None]) & before).sum(1)
        tied = counts[places] + ((places == places[:, None]) & before).sum(1)
        seen = counts.sum() + np.arange(len(places))
        self._keys, self._counts = keys, counts + np.bincount(places, minlength=len(keys))
        p: Floats = (below + self._generator.random(len(places)) * (1 + tied)) / (1 + seen)
        return p

    def _bet(self, p: Floats) -> None:
        kappa = np.array(BETS)
        sides = np.stack([np.log(np.maximum(side, 1e-300)) for side in (p, 1 - p)])
        gains = (np.log(kappa)[:, None, None] + (kappa - 1)[:, None, None] * sides).reshape(-1, len(p))
        row = self.n_rows + np.arange(1, len(p) + 1)
        # Σ_s π_s exp(G_t − G_{s−1}) = exp(G_t) Σ_s π_s exp(−G_{s−1}): a running sum of logarithms
        total = np.cumsum(gains, 1)
        entering = -np.log(row * (row + 1.0)) - (total - gains)
        running = np.logaddexp.accumulate(np.concatenate([self._stakes[:, None], entering], 1), 1)[:, 1:]
        stakes = total + running
        self._stakes = stakes[:, -1]
        log_m = np.logaddexp(np.logaddexp.reduce(stakes, 0) - math.log(len(stakes)), -np.log(row + 1.0))
        raised = np.flatnonzero(log_m >= -math.log(self.level))
        if self.raised_at is None and len(raised):
            self.raised_at = self.n_rows + int(raised[0])
        self.n_rows += len(p)
        self.log_martingale = float(log_m[-1])
        self._highest = max(self._highest, float(log_m.max()))

    def summary(self) -> dict[str, Any]:
        """Return what there is to say, as JSON can hold it."""
        return {
            "rows": self.n_rows,
            "level": self.level,
            "martingale": self.value,
            "highest": self.highest,
            "raised_at": self.raised_at,
        }


def _exp(logarithm: float) -> float:
    return math.exp(min(logarithm, math.log(1e300)))


class Watch:
    """Watch rows that a model answers, and their targets where they come back.

    Args:
        calibration: What held-out rows showed.
        prior_log_n: The log of the number of observations that the prior is worth.
        level: The probability with which each of the two alarms is ever raised without drift, at most.

    Attributes:
        novelty: The alarm about inputs; its scores are −`epistemic`.
        errors: The alarm about targets; its scores are low where a target is far from its prediction, in probability.
        n_novel: How many rows were flagged as novel.
    """

    def __init__(self, calibration: Calibration, prior_log_n: float, level: float = LEVEL) -> None:
        known = () if calibration.scores is None else -calibration.scores
        self.novelty = DriftAlarm(np.logaddexp(calibration.log_evidence, prior_log_n), level)
        self.errors = DriftAlarm(known, level)
        self.n_novel = 0

    def see(self, answers: PredictiveDistribution, y: ArrayLike | None = None) -> Self:
        """Take the answers to further rows, in the order in which they came, and their targets if they are known."""
        self.novelty.see(-answers.epistemic)
        self.n_novel += int(answers.novel.sum())
        if y is not None:
            scores = answers.conformal_scores(y)
            if scores is None:
                raise ValueError("y: targets are vectors, whose errors have no order; leave them out")
            self.errors.see(-scores)
        return self

    @property
    def is_raised(self) -> bool:
        """Whether one of the alarms was ever raised."""
        return self.novelty.is_raised or self.errors.is_raised

    def summary(self) -> dict[str, Any]:
        """Return what there is to say, as JSON can hold it."""
        found: dict[str, Any] = {
            "raised": self.is_raised,
            "novel_rows": self.n_novel,
            "novelty": self.novelty.summary(),
        }
        return found | ({"errors": self.errors.summary()} if self.errors.n_rows else {})


def _rounded(scores: Floats) -> NDArray[np.int64]:
    return np.round((scores / STEP).clip(-_FARTHEST, _FARTHEST)).astype(np.int64)


def _checked(name: str, scores: ArrayLike) -> Floats:
    values = np.asarray(scores, float)
    if values.ndim != 1 or np.isnan(values).any():
        raise ValueError(f"{name}: expected one number a row, got shape {values.shape}, or NaN")
    return values
