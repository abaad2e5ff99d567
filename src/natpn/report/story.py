"""Numbers → sentences: what each figure says about this model, for a reader who has never heard of evidence.

A difference is mentioned only if chance alone would rarely produce it: two standard errors for shares, a one-sided test
at 5 % for errors (Fisher's for classes, Mann and Whitney's for numbers). The first sentence of each list is the short
form.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact, mannwhitneyu

from natpn import metrics
from natpn.model import LEVEL, NOVEL, DriftAlarm
from natpn.report.facts import Facts
from natpn.report.scores import LEVELS
from natpn.report.words import number, rows, share

Floats = NDArray[np.float64]

FEW = 20  # rows below which nothing is compared
BETTER = 0.98  # of the error of a guess: above that a model is no better
_FAR = 1e300  # an error without end
GAP = 0.03  # between a promise and what came true, in which nobody is interested


def model(fitted: Any, facts: Facts) -> list[str]:
    """Say what the model is, and what it was tried on."""
    shape = fitted.inputs_.shape
    if fitted.inputs_.kind == "table":
        inputs = "a table with " + rows(fitted.n_features_in_, "column")
    elif len(shape) > 1:
        inputs = "arrays of shape " + " × ".join(map(str, shape))
    else:
        inputs = rows(shape[0], "number") + " each"
    what = fitted.family_.predicts or fitted.family_.support.expected
    if facts.classes is not None:
        what = f"one of {len(facts.classes):,} labels"
    members = fitted.n_networks_
    kind = "Natural Posterior Network" if members == 1 else f"team of {members} Natural Posterior Networks"
    said = [
        f"This is a {kind}. It was trained on {rows(fitted.n_rows_)} ({inputs}) and predicts {what}. With every answer "
        "it gives a full distribution of what may come out, and says how well it knows such rows.",
        f"Everything here was measured on {rows(facts.n_given)} with known answers, the test rows, and holds as "
        "far as the model has not seen them in training.",
    ]
    if facts.n_given > len(facts):
        said.append(
            f"Scores are from all of them; figures and sentences use {rows(len(facts))}, evenly spaced over the data."
        )
    return said


def scores(facts: Facts) -> list[str]:
    """Say how good the predictions are, compared with the simplest guess."""
    if facts.classes is not None:
        counts = np.bincount(facts.truth.astype(np.int64), minlength=len(facts.classes))
        right, guess = 1 - float(facts.error.mean()), float(counts.max() / len(facts))
        said = [
            f"The model is right in {share(right)} of the test rows; always answering the most "
            f"frequent label would be right in {share(guess)}."
        ]
        return [*said, "So its most probable label is no better than that guess."] if right <= guess else said
    finite = facts.error[np.isfinite(facts.error)]
    if not len(finite):
        return ["For none of the test rows does the model give a finite prediction."]
    centre = facts.truth - facts.truth.mean(0)
    plain = np.abs(centre) if centre.ndim == 1 else np.linalg.norm(centre, axis=1)
    said = [f"The predictions are off by {number(float(finite.mean()))} on average."]
    if len(facts) > 1:
        guess = float(plain.mean())
        said[0] = said[0][:-1] + f"; always guessing the mean of the test rows would be off by {number(guess)}."
        if finite.mean() > BETTER * guess:
            said.append("So its predictions are no better than that guess.")
    if len(finite) < len(facts):
        said.append(f"This leaves out {rows(len(facts) - len(finite))} without a finite prediction.")
    return said


def calibration(facts: Facts) -> list[str]:
    """Say whether the model is as sure as it should be."""
    if facts.confidence is not None:
        return [_certainty(facts, facts.confidence)]
    if facts.inside is None or facts.central is None:
        return []
    held, doubt = float(facts.inside[np.abs(LEVELS - 0.9).argmin()]), 2 * math.sqrt(0.09 / len(facts))
    said = f"Of the intervals that should hold the true value in 90 % of the rows, {share(held)} do"
    if len(facts) < FEW:
        return [f"{said}; {rows(len(facts))} {_are(len(facts))} too few to say whether that is right."]
    other = _other_widths(facts.central, len(facts))
    if facts.discrete and held > 0.9 + doubt:
        said += "; intervals of whole numbers hold at least their share, and often more."
        return [said, other or "Apart from that the predicted distribution fits: see the figure."]
    if held < 0.9 - doubt or held > 0.9 + doubt:
        return [f"{said}: they are too {'narrow' if held < 0.9 else 'wide'}.", *([other] if other else [])]
    if other:
        return [f"{said}, as they should, but intervals of other widths do not.", other]
    return [f"{said}: they are as wide as they should be."]


def _certainty(facts: Facts, confidence: Floats) -> str:
    right, sure = 1 - float(facts.error.mean()), float(confidence.mean())
    doubt = 2 * math.sqrt(float((confidence * (1 - confidence)).sum())) / len(facts)
    said = f"On average the model is {share(sure)} sure of its answer, and right in {share(right)} of the rows"
    if len(facts) < FEW:
        return f"{said}; {rows(len(facts))} {_are(len(facts))} too few to say whether that is right."
    if abs(right - sure) > max(doubt, 0.01):
        return f"{said}: it is too {'sure of itself' if sure > right else 'modest'}."
    apart = metrics.expected_calibration_error(1 - facts.error, confidence) / 100
    if apart > GAP + math.sqrt(10 / len(facts)):  # twice what chance alone makes of 15 groups, at most
        return (
            f"{said}, as it should be on average, but not in every group of answers: they are off by {share(apart)}, "
            "some too sure and others too modest."
        )
    return f"{said}: it is as sure as it should be."


def _other_widths(central: Floats, n: int) -> str | None:
    """Say where promise and truth are furthest apart, if chance rarely does that (Kolmogorov's bound at 5 %)."""
    worst = int(np.abs(central - LEVELS).argmax())
    gap = float(central[worst] - LEVELS[worst])
    if abs(gap) <= GAP + 1.36 / math.sqrt(n):
        return None
    return (
        f"The middle {share(float(LEVELS[worst]))} of the predicted distribution holds {share(float(central[worst]))} "
        f"of the true values: there it is too {'wide' if gap > 0 else 'narrow'}."
    )


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def familiarity(facts: Facts) -> list[str]:
    """Say how many rows are unlike training, and whether other rows are noticed."""
    flagged = float((facts.novelty_p < NOVEL).mean())
    if not facts.can_flag:
        said = [
            f"Training left {rows(len(facts.held_out))} to compare with; at least {round(1 / NOVEL)} are needed "
            "before any row can be flagged as unlike training."
        ]
    else:
        wrong = 2 * math.sqrt(NOVEL * (1 - NOVEL) * (1 / len(facts) + 1 / len(facts.held_out)))
        said = [f"{share(flagged)} of the test rows are flagged as unlike training, where about 5 % are expected."]
        if flagged < NOVEL - wrong:
            said[0] = said[0].replace("where about 5 % are", "fewer than the about 5 %")
        if flagged > NOVEL + wrong:
            said[0] = said[0].replace("where about 5 % are", "more than the about 5 %")
            said.append(
                "So they may differ from it."
                if facts.exact
                else "Either they differ from it, or training suits the held-out rows of the comparison a little too "
                'well, since they also told it when to stop; calibrate="conformal" keeps rows apart and settles that.'
            )
    if facts.ood is not None and facts.ood_novelty_p is not None:
        _, area = metrics.detection(facts.log_evidence, facts.ood)
        said.append(
            f"Of the {rows(len(facts.ood))} from elsewhere, {share(float((facts.ood_novelty_p < NOVEL).mean()))} are "
            f"flagged. Of a test row and a row from elsewhere, picked at random, the model knows the test row better "
            f"in {share(area / 100)} of cases ({share(0.5)} would be chance)."
        )
    return said


def knowing(facts: Facts) -> list[str]:
    """Say whether errors are where the model knows least."""
    if len(facts) < FEW:
        few = f"{rows(len(facts))} {_are(len(facts))} too few"
        return [f"{few} to compare well-known with little-known ones; it takes {FEW}."]
    least = least_known(facts)
    low, rest = facts.error[least], facts.error[~least]
    if facts.classes is not None:
        said = (
            f"Of the 10 % of rows that the model knows least, {share(float(low.mean()))} are wrong; "
            f"of the rest {share(float(rest.mean()))}."
        )
        table = [[low.sum(), len(low) - low.sum()], [rest.sum(), len(rest) - rest.sum()]]
        p = float(fisher_exact(np.array(table, dtype=np.int64), alternative="greater")[1])
    else:
        said = (
            f"In the 10 % of rows that the model knows least, the typical error is {number(float(np.median(low)))}; "
            f"in the rest {number(float(np.median(rest)))}."
        )
        p = float(mannwhitneyu(low, rest, alternative="greater").pvalue)
    if facts.classes is not None and not facts.error.any():
        return [said, "There are no errors to tell apart."]
    if p < 0.05:
        return [said, "So it knows when it may be wrong: where it says that it knows little, trust it less."]
    return [
        said,
        "In these rows knowing little does not go with larger errors, or there are too few of them to tell: look at "
        "the probabilities and intervals rather than at familiarity alone.",
    ]


def drift(facts: Facts) -> list[str]:
    """Say whether rows or errors changed along the file, by the alarm that `natpn monitor` raises."""
    inputs = DriftAlarm(facts.held_out).see(facts.log_evidence)
    errors = DriftAlarm().see(-np.nan_to_num(facts.error, posinf=_FAR))
    first = next((alarm.raised_at for alarm in (inputs, errors) if alarm.raised_at is not None), None)
    if first is None:
        highest = max(inputs.highest, errors.highest)
        return [
            "Watched in the order of the file, neither the rows nor the errors raise a drift alarm: the evidence of a "
            f"change reached {number(highest)} at most, and an alarm is raised at {number(1 / LEVEL)}."
        ]
    what = "rows" if inputs.is_raised else "errors"
    place = int(facts.index[first]) + 1
    meaning = (
        "they become unlike the held-out rows of training, or those before them"
        if inputs.is_raised
        else "they become larger or smaller than those before them"
    )
    held = "" if facts.exact or not inputs.is_raised else ", if held-out rows were as new to the model as these"
    return [
        f"Watched in the order of the file, the {what} raise a drift alarm at row {place:,}: {meaning}. Without a "
        f"change at most {share(LEVEL)} of files would raise this one{held}.",
        "If the rows are in the order in which they came, scores of the whole file hide the change: look at those "
        "after it.",
    ]


def agreement(facts: Facts) -> list[str]:
    """Say what the mistakes are."""
    if facts.classes is not None:
        pairs = confusions(facts)
        if not pairs:
            return ["Every test row got its true label."]
        true, given, count = pairs[0]
        return [f"The most frequent mistake: “{true}” was taken for “{given}” ({rows(count)})."]
    finite = facts.error[np.isfinite(facts.error)]
    if not len(finite) or facts.truth.ndim > 1:
        return []
    half, most = np.quantile(finite, [0.5, 0.9])
    return [f"Half of the predictions are within {number(half)} of the truth, 9 of 10 within {number(most)}."]


def most_predicted(predicted: float, true: float, doubt: float) -> str:
    """Say whether as many come true as are predicted, in the rows with the largest predictions."""
    said = f"Where it predicts most, {number(predicted)} on average, {number(true)} came true"
    if abs(predicted - true) <= doubt:
        return f"{said}: no more of a difference than chance makes."
    return f"{said}: it predicts too {'many' if predicted > true else 'few'} there."


def least_known(facts: Facts) -> NDArray[np.bool_]:
    """Return which rows are the tenth with the least evidence."""
    mask = np.zeros(len(facts), bool)
    mask[np.argsort(facts.log_evidence, kind="stable")[: math.ceil(len(facts) / 10)]] = True
    return mask


def confusions(facts: Facts) -> list[tuple[Any, Any, int]]:
    """Return pairs (true label, predicted label, rows), the most frequent first."""
    if facts.classes is None:
        return []
    wrong = facts.error > 0
    pairs = np.stack([facts.truth[wrong], facts.prediction[wrong]], 1).astype(np.int64)
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [(facts.classes[found[i, 0]], facts.classes[found[i, 1]], int(counts[i])) for i in order]
