"""Numbers → sentences: what each figure says about this model, for a reader who has never heard of evidence.

A difference is mentioned only if chance alone would rarely produce it: two standard errors for shares, a one-sided test
at 5 % for errors (Fisher's for classes, Mann and Whitney's for numbers). The first sentence of each list is the short
form. Last come the rows that the model knows least, and what is unusual in them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact, mannwhitneyu

from natpn import metrics
from natpn.model import NOVEL
from natpn.model.inputs import take
from natpn.report.facts import Facts
from natpn.report.scores import LEVELS
from natpn.tabular import read_table

Floats = NDArray[np.float64]

FEW = 20  # rows below which nothing is compared
_ROWS = 10
_STANDS_OUT = 2.0  # standard deviations
_TEXT = 60


def share(x: float) -> str:
    """Return a share between 0 and 1 in %, never rounded to 0 or 100.

    Examples:
        >>> share(0.341), share(0.004), share(0.9999), share(1.0), share(0.00001)
        ('34 %', '0.4 %', 'more than 99.9 %', '100 %', 'less than 0.1 %')
    """
    percent = 100 * x
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    if 99.9 < percent < 100:
        return "more than 99.9 %"
    near = percent < 9.95 or percent > 99
    return f"{percent:.1f}".removesuffix(".0") + " %" if near else f"{percent:.0f} %"


def number(x: float) -> str:
    """Return a number with three significant digits.

    Examples:
        >>> number(1234.5), number(0.00012345), number(12.0), number(-2.5e9), number(float("inf"))
        ('1,234', '0.000123', '12', '−2.5e+09', 'not defined')
    """
    if not math.isfinite(x):
        return "not defined"
    large = 1000 <= abs(x) < 1e7
    text = f"{x:,.0f}" if large else f"{x:.3g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def rows(n: int, kind: str = "row") -> str:
    """Return a number of rows in words.

    Examples:
        >>> rows(1), rows(12000)
        ('1 row', '12,000 rows')
    """
    return f"{n:,} {kind}" + ("" if n == 1 else "s")


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
        f"Everything below was measured on {rows(facts.n_given)} with known answers, the test rows, and holds as "
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
        return [
            f"The model is right in {share(1 - facts.error.mean())} of the test rows; always answering the most "
            f"frequent label would be right in {share(counts.max() / len(facts))}."
        ]
    finite = facts.error[np.isfinite(facts.error)]
    if not len(finite):
        return ["For none of the test rows does the model give a finite prediction."]
    centre = facts.truth - facts.truth.mean(0)
    plain = np.abs(centre) if centre.ndim == 1 else np.linalg.norm(centre, axis=1)
    said = [f"The predictions are off by {number(float(finite.mean()))} on average."]
    if len(facts) > 1:
        guess = number(float(plain.mean()))
        said[0] = said[0][:-1] + f"; always guessing the mean of the test rows would be off by {guess}."
    if len(finite) < len(facts):
        said.append(f"This leaves out {rows(len(facts) - len(finite))} without a finite prediction.")
    return said


def calibration(facts: Facts) -> list[str]:
    """Say whether the model is as sure as it should be."""
    if facts.confidence is not None:
        right, sure = 1 - float(facts.error.mean()), float(facts.confidence.mean())
        doubt = 2 * math.sqrt(float((facts.confidence * (1 - facts.confidence)).sum())) / len(facts)
        said = f"On average the model is {share(sure)} sure of its answer, and right in {share(right)} of the rows"
        if abs(right - sure) <= max(doubt, 0.01):
            return [f"{said}: it is as sure as it should be."]
        return [f"{said}: it is too {'sure of itself' if sure > right else 'modest'}."]
    if facts.inside is None:
        return []
    held = float(facts.inside[np.abs(LEVELS - 0.9).argmin()])
    said = f"Of the intervals that should hold the true value in 90 % of the rows, {share(held)} do"
    if abs(held - 0.9) <= 2 * math.sqrt(0.09 / len(facts)):
        return [f"{said}: they are as wide as they should be."]
    if facts.discrete and held > 0.9:
        return [f"{said}; intervals of whole numbers hold at least their share, and often more."]
    return [f"{said}: they are too {'narrow' if held < 0.9 else 'wide'}."]


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
        be = "is" if len(facts) == 1 else "are"
        return [f"{rows(len(facts))} {be} too few to compare well-known with little-known ones; it takes {FEW}."]
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


@dataclass(frozen=True)
class Row:
    """One of the rows that the model knows least."""

    number: int  # which row of the data it is, from 1 on
    familiarity: str  # the weight of the data in the answer
    rarity: str  # how many held-out rows were as unfamiliar
    prediction: str
    truth: str
    column: str = ""  # the column whose value is the most unusual; "" without a table
    value: str = ""
    usual: str = ""  # what training had there
    alone: bool = True  # whether that value is unusual by itself


def least_trusted(model: Any, X: Any, facts: Facts) -> list[Row]:
    """Return the rows with the least evidence, the least known first."""
    chosen = np.argsort(facts.log_evidence, kind="stable")[:_ROWS]
    unusual = _unusual(model, take(X, facts.index[chosen]), len(chosen))
    return [
        Row(
            int(facts.index[i]) + 1,
            share(float(facts.familiarity[i])),
            share(float(facts.novelty_p[i])),
            _prediction(facts, i),
            _truth(facts, i),
            *found,
        )
        for i, found in zip(chosen, unusual, strict=True)
    ]


def _unusual(model: Any, X: Any, n: int) -> list[tuple[Any, ...]]:
    """Return column, value, usual values and whether it stands out, for each row; nothing without a table."""
    if model.inputs_.kind != "table":
        return [()] * n
    transform = model.inputs_.table
    names = transform.most_unusual(X)
    table = read_table(X)
    order = transform.match_columns(table.names, table.shape[1]) or list(range(table.shape[1]))
    place = {name: number for number, name in enumerate(transform.feature_names)}
    cells = list(table.columns(order))
    found = []
    for row, name in enumerate(names):
        column = transform.columns[place[name]]
        odd = float(column.oddness(cells[place[name]])[row])
        raw = table.values(order[place[name]])[row]
        found.append((name, cell(raw), column.usually(cell, share), odd >= _STANDS_OUT))
    return found


def cell(value: Any) -> str:
    """Return a value of a table in a few characters.

    Examples:
        >>> cell(0.123456), cell(None), cell(float("nan")), cell("red"), cell(3)
        ('0.123', 'missing', 'missing', 'red', '3')
    """
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)) or str(value) in ("NaT", "<NA>"):
        return "missing"
    if isinstance(value, (float, np.floating)):
        return number(float(value)) if np.isfinite(value) else str(value)
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _prediction(facts: Facts, i: int) -> str:
    if facts.classes is not None and facts.confidence is not None:
        label = facts.classes[int(facts.prediction[i])]
        return f"{cell(label)} ({share(float(facts.confidence[i]))} sure)"
    if facts.interval is None:
        return _vector(facts.prediction[i])
    low, high = facts.interval[i]
    return f"{number(facts.prediction[i])} ({_end(low)} to {_end(high)})"


def _truth(facts: Facts, i: int) -> str:
    if facts.classes is not None:
        return cell(facts.classes[int(facts.truth[i])])
    return number(facts.truth[i]) if facts.truth.ndim == 1 else _vector(facts.truth[i])


def _end(x: float) -> str:
    return number(x) if np.isfinite(x) else "−∞" if x < 0 else "∞"


def _vector(values: NDArray[np.float64]) -> str:
    values = np.atleast_1d(values)
    text = ", ".join(number(float(v)) for v in values[:4])
    return f"({text}{', …' if len(values) > 4 else ''})"
