"""Conformal guarantees from held-out rows: how unusual an input is, and intervals that cover.

If a new row and the m calibration rows are exchangeable, then of a score and its m held-out values every rank is
equally likely. So

- p = (1 + #{held-out evidence ≤ evidence}) / (m + 1) is at most α with a probability of at most α: `novelty_p`;
- the ⌈(m + 1) c⌉-th smallest held-out score is at least as large as the new one with a probability of at least c. The
  score of a number y is how far it lies from the median in probability, max(½ − F(y), F(y⁻) − ½, 0), and the interval
  goes from quantile ½ − s to ½ + s; the score of a class is 1 − p_y, and the set has all classes with p ≥ 1 − s.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NOVEL = 0.05  # rows with a smaller p-value count as unlike training


@dataclass(frozen=True)
class Calibration:
    """What held-out rows showed, sorted.

    Attributes:
        log_evidence: Log evidence of the rows.
        scores: Conformal scores of the targets; None if intervals come from the posterior predictive alone.
    """

    log_evidence: Floats
    scores: Floats | None = None

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
    def of(cls, log_evidence: Floats, scores: Floats | None) -> "Calibration":
        """Return the calibration from the evidence and the scores of held-out rows."""
        return cls(np.sort(log_evidence), None if scores is None else np.sort(scores))

    def novelty_p(self, log_evidence: Floats) -> Floats:
        """Return conformal p-values: small for inputs with less evidence than held-out rows had."""
        below = np.searchsorted(self.log_evidence, log_evidence, side="right")
        p: Floats = (1 + below) / (len(self.log_evidence) + 1)
        return p

    def threshold(self, coverage: float) -> float | None:
        """Return the score that gives the coverage; inf if there are too few rows, None without scores."""
        if self.scores is None:
            return None
        rank = math.ceil((len(self.scores) + 1) * coverage - 1e-9)
        return float(self.scores[rank - 1]) if rank <= len(self.scores) else math.inf


def check_coverage(coverage: float) -> None:
    """Raise unless it is a share between 0 and 1."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage: expected a share between 0 and 1, such as 0.9, got {coverage!r}")
