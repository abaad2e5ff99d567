"""The few numbers that a person acts on first, each with what to hold beside it."""

from dataclasses import dataclass

import numpy as np

from natpn.model import NOVEL
from natpn.report.facts import Facts
from natpn.report.words import number, rows, share

SURE = 0.9  # the probability from which on an answer may go without a second look


@dataclass(frozen=True)
class KeyNumber:
    """A number in large type: what it is, the number, and what to hold beside it."""

    title: str
    value: str
    beside: str


def key_numbers(facts: Facts, unit: str | None = None) -> list[KeyNumber]:
    """Return how good answers are, how far to trust their certainty, and how many rows are strange."""
    found = _of_classes(facts) if facts.classes is not None else _of_numbers(facts, f" {unit}" if unit else "")
    return [*found, _strange(facts), *_elsewhere(facts)]


def _of_classes(facts: Facts) -> list[KeyNumber]:
    right = 1 - facts.error
    most = np.bincount(facts.truth.astype(np.int64)).max() / len(facts)
    found = [KeyNumber("right answers", share(float(right.mean())), f"the most frequent label alone: {share(most)}")]
    if facts.confidence is not None:
        sure = facts.confidence >= SURE
        of_these = f"right in {share(float(right[sure].mean()))} of them" if sure.any() else "so nothing is certain"
        found.append(KeyNumber(f"answers at least {share(SURE)} sure", share(float(sure.mean())), of_these))
    return found


def _of_numbers(facts: Facts, unit: str) -> list[KeyNumber]:
    finite = facts.error[np.isfinite(facts.error)]
    if not len(finite):
        return []
    half, most = np.quantile(finite, [0.5, 0.9])
    found = [KeyNumber("typical error", number(half) + unit, f"9 of 10 within {number(most)}{unit}")]
    if facts.interval is not None:
        low, high = facts.interval.T
        held = float(((low <= facts.truth) & (facts.truth <= high)).mean())
        width = float(np.median(high - low))
        typical = f"half are at most {number(width)}{unit} wide" if np.isfinite(width) else "most have no end"
        found.append(KeyNumber("truth inside the 90 % interval", share(held), typical))
    return found


def _strange(facts: Facts) -> KeyNumber:
    title = "unlike training"
    if not facts.can_flag:
        return KeyNumber(title, "cannot tell", f"{rows(len(facts.held_out))} to compare with are too few")
    novel = facts.novelty_p < NOVEL
    beside = f"{share(NOVEL)} is ordinary"
    if novel.any() and not novel.all():
        errors = [facts.error[mask] for mask in (novel, ~novel)]
        if facts.classes is not None:
            strange, others = (share(float(e.mean())) for e in errors)
            beside += f"; {strange} of them are wrong, {others} of the others"
        else:
            strange, others = (number(float(np.median(e))) for e in errors)
            beside += f"; their typical error is {strange}, that of the others {others}"
    return KeyNumber(title, share(float(novel.mean())), beside)


def _elsewhere(facts: Facts) -> list[KeyNumber]:
    if facts.ood_novelty_p is None or not facts.can_flag:
        return []
    caught = share(float((facts.ood_novelty_p < NOVEL).mean()))
    return [
        KeyNumber("noticed of those from elsewhere", caught, f"of {rows(len(facts.ood_novelty_p))} unlike training")
    ]
