"""A fitted model and rows → one HTML page that needs nothing else: no network, no scripts, no fonts."""

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from natpn.report import count_figure, figures, story
from natpn.report.columns_used import UsedColumn, columns_used
from natpn.report.facts import Facts, collect, read
from natpn.report.key_numbers import key_numbers
from natpn.report.listed_rows import Row, least_trusted, most_surprising
from natpn.report.scores import METRICS, baseline_words, baselines, judge, totals
from natpn.report.words import number, rows, share

_MAX_LABELS = 12
_CONFUSIONS = 12


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption, and a description for readers who cannot see it."""

    svg: Markup
    alt: str
    caption: str


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    name: str  # its anchor
    title: str  # a question that it answers
    sentences: list[str]  # what it says about this model
    picture: Drawing | None = None
    body: str = ""  # what else it shows: "scores", "rows", "columns", "matrix", "pairs" or nothing
    rows: list[Row] = field(default_factory=list)
    columns: list[UsedColumn] = field(default_factory=list)


def render(
    model: Any,
    X: Any,
    y: Any,
    *,
    ood: Any = None,
    title: str | None = None,
    name: str | None = None,
    target: str | None = None,
    unit: str | None = None,
    source: str | None = None,
    ids: Sequence[Any] | None = None,
    date: datetime.date | None = None,
) -> str:
    """Return a page about a model: one HTML text that opens offline.

    Args:
        model: A fitted `NatPNClassifier` or `NatPNRegressor`.
        X: Rows that the model has not seen.
        y: Their targets.
        ood: Rows that are unlike training, to see whether the model notices.
        title: The heading; by default a question about the target.
        name: What the model is called.
        target: What it predicts.
        unit: In which unit.
        source: Where the rows come from, such as the name of a file.
        ids: What each row is called; by default they are counted from 1.
        date: When the report is made; by default today.

    Raises:
        ValueError: If the model cannot be reported on, or the targets do not fit.
    """
    X, y, ood = read(model, X, y, ood)
    if ids is not None and len(ids) != len(y):
        raise ValueError(f"ids: expected one for each of {rows(len(y))}, got {len(ids)}; give as many, or none")
    judged = judge(model, X, y, ood)
    inputs = model.model_.targets.without_exposures(X)
    facts, found, same = collect(model.model_, judged), totals(judged), baselines(model, y)
    sections = [
        Section("scores", "How good are its predictions?", story.scores(facts), body="scores"),
        _calibration(facts),
        _familiarity(facts),
        _knowing(facts),
        Section("drift", "Did anything change along the way?", story.drift(facts)),
        Section(
            "least",
            "Which rows does it trust least?",
            [_LEAST],
            body="rows",
            rows=least_trusted(model, inputs, facts, ids),
        ),
        Section(
            "surprise",
            "Which rows surprised it most?",
            [_SURPRISE],
            body="rows",
            rows=most_surprising(model, inputs, facts, ids),
        ),
        _agreement(facts),
        *_columns(model, X, y),
        Section("model", "What is this model?", story.model(model, facts)),
    ]
    text: str = _template().render(
        title=title or (f"{target}: " if target else "") + "How far can this model be trusted?",
        made=_made(name, source, facts.n_given, date or datetime.date.today()),
        keys=key_numbers(facts, unit),
        sections=sections,
        short=[s.sentences[0] for s in sections if s.name in _SHORT and s.sentences],
        scores=[
            (METRICS[k].title, score_text(k, v), score_text(k, same[k]) if k in same else "", METRICS[k].meaning)
            for k, v in found.items()
        ],
        baseline=baseline_words(model),
        second=str(model.classes_[1]) if "precision" in found else None,
        named=ids is not None,
        is_table=model.inputs_.kind == "table",
        matrix=_matrix(facts),
        pairs=[(str(a), str(b), n) for a, b, n in story.confusions(facts)[:_CONFUSIONS]],
        has_ood=ood is not None,
        numbers=facts.interval is not None,
        version=version("natpn"),
    )
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


_SHORT = ("scores", "calibration", "familiarity", "knowing")
_LEAST = "These are the test rows with the least evidence, the least known first. Look at them before you rely on them."
_SURPRISE = (
    "These are the test rows whose true value the model held for the least likely. Here errors in the data show, and "
    "what the columns do not tell."
)


def _made(name: str | None, source: str | None, n: int, date: datetime.date) -> str:
    """Say of what the report is, and when it was made."""
    parts = [f"Model {name}" if name else "", f"{source or 'test rows'}, {rows(n)}"]
    return ", tried on ".join(filter(None, parts)) + f". Report of {date.day} {date:%B %Y}."


def score_text(name: str, value: float) -> str:
    """Return a score as it is printed, with its unit.

    Examples:
        >>> score_text("accuracy", 97.25), score_text("r2", float("nan"))
        ('97.2 %', 'not defined')
        >>> score_text("familiarity", 1e-119)
        'less than 0.0001'
    """
    if not math.isfinite(value):
        return "not defined"
    if "in %" in METRICS[name].meaning:
        return f"{value:.1f} %"
    return "less than 0.0001" if 0 < value < 1e-4 else number(value)


def _columns(model: Any, X: Any, y: Any) -> list[Section]:
    said, listed = columns_used(model, X, y)
    title = "Which columns does it depend on?"
    return [Section("columns", title, said, body="columns", columns=listed)] if listed else []


def _calibration(facts: Facts) -> Section:
    sentences = story.calibration(facts)
    if facts.confidence is not None:
        sure, right, count = figures.reliability_points(facts)
        points = "; ".join(
            f"{share(s)} sure, {share(r)} right ({rows(int(n))})" for s, r, n in zip(sure, right, count, strict=True)
        )
        picture = Drawing(
            Markup(figures.reliability(facts)),
            f"How often answers are right against how sure the model was: {points}. {sentences[0]}",
            "Answers in groups by how sure the model was of them; a larger dot is more rows, a line what chance leaves "
            "open. On the dashed line the model is right as often as it says.",
        )
        return Section("calibration", "Is it as sure as it should be?", sentences, picture)
    title = "Do its intervals hold what they promise?"
    if facts.inside is None:
        return Section("calibration", title, ["The targets are vectors, which have no intervals, so this is left out."])
    inside = facts.inside if facts.central is None else facts.central
    points = "; ".join(f"{p} %: {share(float(inside[i]))}" for i, p in ((1, 10), (9, 50), (17, 90)))
    halves = (
        " A count on the edge of an interval counts in part, so that the line can be met." if facts.discrete else ""
    )
    picture = Drawing(
        Markup(figures.coverage(facts)),
        f"Share of true values inside intervals that promise {points}. {sentences[0]}",
        "For intervals of every width: how many true values they should hold, and how many they do. On the dashed line "
        f"they hold what they promise; the band is what chance leaves open.{halves}",
    )
    return Section("calibration", title, sentences, picture)


def _familiarity(facts: Facts) -> Section:
    sentences = story.familiarity(facts)
    sets = [("held-out training rows", facts.held_out), ("test rows", facts.log_evidence)]
    if facts.ood is not None:
        sets.append(("rows from elsewhere", facts.ood))
    medians = "; ".join(f"{name}: {_observations(float(np.median(values)))}" for name, values in sets)
    picture = Drawing(
        Markup(figures.evidence(facts)),
        f"Histogram of the evidence. Medians, in observations: {medians}. {' '.join(sentences)}",
        "Evidence is how many observations the model’s knowledge of a row is worth: much near the training data, "
        "hardly any far from it. Below each name: how many rows. All strips are drawn equally high. Rows with less "
        "evidence than fits are in the first bar.",
    )
    return Section("familiarity", "Does it know such rows?", sentences, picture)


def _knowing(facts: Facts) -> Section:
    sentences = story.knowing(facts)
    title = "Does it know when it is wrong?"
    if len(facts) < story.FEW:
        return Section("knowing", title, sentences)
    middle, _, _ = figures.error_groups(facts)
    values = ", ".join(share(float(m)) if facts.classes is not None else number(float(m)) for m in middle)
    what = "Share of wrong answers" if facts.classes is not None else "Median error"
    picture = Drawing(
        Markup(figures.knowing(facts)),
        f"{what} in groups of rows, from the least to the best known: {values}. {sentences[0]}",
        f"{what} in each group, from the rows with the least evidence to those with the most. If the bars fall from "
        "left to right, the model is wrong where it says that it knows little. Lines are what chance leaves open.",
    )
    return Section("knowing", title, sentences, picture)


def _agreement(facts: Facts) -> Section:
    sentences, title = story.agreement(facts), "What did it predict, and what was true?"
    if facts.classes is not None:
        return Section("agreement", title, sentences, body="matrix" if len(facts.classes) <= _MAX_LABELS else "pairs")
    if facts.truth.ndim > 1:
        sentence = "The targets are vectors, which one figure cannot show, so it is left out."
        return Section("agreement", title, [sentence])
    if facts.discrete:
        return _counts(facts, title, sentences)
    outside = figures.n_outside(facts)
    if outside:
        sentences.append(f"The figure leaves out {rows(outside)} with a prediction far from every true value.")
    drawn = "" if len(facts) <= figures.POINTS else f" Of {rows(len(facts))}, {figures.POINTS:,} are drawn."
    picture = Drawing(
        Markup(figures.agreement(facts)),
        f"True against predicted values. {' '.join(sentences)}",
        "Each point is a row; on the dashed line the prediction is the truth. Vertical bars are 90 % intervals of some "
        f"of the rows: nine of ten points should lie on theirs.{drawn}",
    )
    return Section("agreement", title, sentences, picture)


def _counts(facts: Facts, title: str, sentences: list[str]) -> Section:
    groups = count_figure.count_groups(facts)
    last = (float(values[-1]) for values in (groups.predicted, groups.true, groups.doubt))
    sentences = [*sentences, story.most_predicted(*last)]
    pairs = zip(groups.predicted, groups.true, strict=True)
    means = "; ".join(f"{number(float(a))} and {number(float(b))}" for a, b in pairs)
    picture = Drawing(
        Markup(count_figure.counts(facts)),
        f"Predicted and true mean of groups of rows: {means}. {sentences[0]}",
        "Rows in groups of equal size, from the fewest to the most predicted. A dot should meet the line of its group; "
        "the vertical line is what chance leaves open. Above each bar, the mean 90 % interval, is how many true counts "
        "were inside their own.",
    )
    return Section("agreement", title, sentences, picture)


def _observations(log_n: float) -> str:
    if log_n < -4:
        return "next to none"
    return number(math.exp(log_n)) if log_n < 16 else figures.power(round(log_n / math.log(10)))


def _matrix(facts: Facts) -> dict[str, Any] | None:
    """Return how often each label was predicted for each true one; shares are of the true label's rows."""
    if facts.classes is None or len(facts.classes) > _MAX_LABELS:
        return None
    n = len(facts.classes)
    index = facts.truth.astype(np.int64) * n + facts.prediction.astype(np.int64)
    counts = np.bincount(index, minlength=n * n).reshape(n, n)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    labels = [str(label) for label in facts.classes]
    return {"labels": labels, "counts": counts.tolist(), "shares": shares.round(3).tolist()}


@cache
def _template() -> Template:
    text = (files("natpn.report") / "template.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text)
