"""Facts → figures, as SVG text to be put into a page.

The page decides how figures look: colours are its variables (`--known`, `--test`, `--other`, `--faint`) and its text
colour, and text is in its font. Figures are 5.2 inches wide, so that they can be read on a telephone. They contain no
text of the user's, such as labels or names of columns.
"""

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

from natpn.model import NOVEL
from natpn.model.inputs import evenly
from natpn.report.facts import Facts
from natpn.report.scores import LEVELS

Floats = NDArray[np.float64]

# Stand-ins that matplotlib writes, and what they become.
INK, KNOWN, TEST, OTHER, FAINT = "#010203", "#010204", "#010205", "#010206", "#010207"
_COLOURS = {INK: "currentColor", KNOWN: "var(--known)", TEST: "var(--test)", OTHER: "var(--other)"}
_COLOURS[FAINT] = "var(--faint)"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "natpn",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}
POINTS = 2_000
_BARS, _GROUPS, _BINS = 150, 10, 36
_LOG_10 = float(np.log(10))


def draw(name: str, content: Callable[[Axes], None], height: float = 2.9) -> str:
    """Return the SVG text of a figure of some inches' height; no other figure of the page has its name."""
    # The user's settings are ignored, and restored afterwards.
    with mpl.rc_context(), style.context("default"):
        mpl.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(5.2, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        content(axes)
        text = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    return _for_page(text.getvalue(), name)


def reliability(facts: Facts) -> str:
    """Draw how often answers are right against how sure the model was, in ten steps."""
    sure, right, count = reliability_points(facts)
    low, high = wilson(right * count, count)

    def content(axes: Axes) -> None:
        _diagonal(axes, "too modest", "too sure")
        axes.vlines(100 * sure, 100 * low, 100 * high, color=TEST, lw=1, alpha=0.6)
        axes.scatter(100 * sure, 100 * right, s=15 + 150 * count / count.sum(), color=TEST, lw=0, zorder=3)
        axes.set(xlim=(0, 104), ylim=(-4, 105), xlabel="how sure the model was, %", ylabel="answers that are right, %")

    return draw("reliability", content)


def coverage(facts: Facts) -> str:
    """Draw the share of targets inside intervals against what the intervals promise."""
    inside = np.zeros(0) if facts.central is None else facts.central
    low, high = wilson(inside * len(facts), np.full(len(inside), len(facts)))

    def content(axes: Axes) -> None:
        _diagonal(axes, "intervals too wide", "intervals too narrow")
        axes.fill_between(100 * LEVELS, 100 * low, 100 * high, color=TEST, alpha=0.2, lw=0)
        axes.plot(100 * LEVELS, 100 * inside, "o-", color=TEST, lw=1.2, ms=3.5)
        axes.set(xlim=(0, 100), ylim=(0, 103), xlabel="what the interval promises, %", ylabel="true values inside, %")

    return draw("coverage", content)


def _diagonal(axes: Axes, above: str, below: str) -> None:
    """Draw the line on which promises are kept, and say what it means to be above or below."""
    axes.plot([0, 100], [0, 100], color=INK, lw=0.8, ls="--", alpha=0.6)
    axes.text(2, 93, above, alpha=0.7, size=8)
    axes.text(98, 4, below, alpha=0.7, size=8, ha="right")
    axes.grid(True)


def evidence(facts: Facts) -> str:
    """Draw histograms of the evidence of held-out training rows, test rows and rows from elsewhere, in strips."""
    sets = [("training", facts.held_out, KNOWN), ("test", facts.log_evidence, TEST)]
    if facts.ood is not None:
        sets.append(("elsewhere", facts.ood, OTHER))
    edges = _edges([values / _LOG_10 for _, values, _ in sets])
    strips = [np.histogram(np.clip(v / _LOG_10, edges[0], edges[-1]), edges)[0] for _, v, _ in sets]

    def content(axes: Axes) -> None:
        floors = 1.15 * np.arange(len(sets))[::-1]
        for (_, _, colour), strip, floor in zip(sets, strips, floors, strict=True):
            axes.stairs(floor + strip / strip.max(), edges, baseline=floor, fill=True, color=colour, alpha=0.45, lw=0)
            axes.stairs(floor + strip / strip.max(), edges, baseline=floor, color=colour, lw=1.2)
        top = floors[0] + 1.3
        if facts.can_flag:
            _mark(axes, alarm(facts.held_out) / _LOG_10, edges, "flagged as novel", top)
        axes.set(
            xlim=(edges[0], edges[-1]),
            ylim=(0, top),
            xlabel="evidence: how many observations the model’s knowledge is worth",
        )
        places = [p for p in axes.get_xticks() if edges[0] <= p <= edges[-1] and p == round(p)]
        axes.set_xticks(places, [power(int(p)) for p in places])
        axes.set_yticks(floors + 0.4, [f"{label}\n{len(values):,}" for label, values, _ in sets])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)

    return draw("evidence", content, 1.3 + 0.7 * len(sets))


def knowing(facts: Facts) -> str:
    """Draw the error in groups of rows, from the least to the best known."""
    middle, low, high = error_groups(facts)

    def content(axes: Axes) -> None:
        place = np.arange(len(middle))
        scale = 100 if facts.classes is not None else 1
        bars = axes.bar(place, scale * middle, color=TEST, alpha=0.75, width=0.8)
        bars[0].set_color(OTHER)
        axes.vlines(place, scale * low, scale * high, color=INK, lw=0.9)
        ends = ["least\nknown"] + [""] * (len(middle) - 2) + ["best\nknown"]
        axes.set_xticks(place, ends)
        axes.tick_params(axis="x", length=0)
        axes.set(
            ylim=(0, scale * min(1.05 * float(high.max()), 3 * float(middle.max())) or None),
            xlabel=f"test rows in {len(middle)} groups of equal size",
            ylabel="answers that are wrong, %" if facts.classes is not None else "typical error (median)",
        )
        axes.yaxis.set_major_formatter(tick)
        axes.grid(True, axis="y")

    return draw("knowing", content)


def agreement(facts: Facts) -> str:
    """Draw true against predicted numbers, with the 90 % intervals of some rows."""
    rows = evenly(len(facts), POINTS)
    prediction, truth, novel = facts.prediction[rows], facts.truth[rows], facts.novelty_p[rows] < NOVEL
    low, high = limits(facts)

    def content(axes: Axes) -> None:
        written: Callable[[float, float], str] = tick if facts.thousands else lambda x, _: f"{x:g}"
        if is_logarithmic(facts):
            axes.set(xscale="log", yscale="log")
            written = lambda x, _: power(round(np.log10(x)))  # noqa: E731
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(written)
            axis.set_minor_formatter(lambda x, _: "")
        span = (low, high)
        axes.set(xlim=span, ylim=span, xlabel="predicted", ylabel="true")
        if facts.interval is not None:
            some = rows[evenly(len(rows), _BARS)]
            bottom, top = np.clip(facts.interval[some].T, low, high)
            seen = (facts.prediction[some] >= low) & (facts.prediction[some] <= high)
            axes.vlines(facts.prediction[some][seen], bottom[seen], top[seen], color=TEST, alpha=0.25, lw=1.2)
        axes.plot(span, span, color=INK, lw=0.8, ls="--", alpha=0.6)
        for mask, marker, colour, label in ((~novel, "o", TEST, "familiar"), (novel, "D", OTHER, "flagged as novel")):
            seen = mask & (prediction >= low) & (prediction <= high) & (truth >= low) & (truth <= high)
            if seen.any():
                axes.plot(prediction[seen], truth[seen], marker, color=colour, ms=3, mew=0, alpha=0.7, label=label)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper left", handletextpad=0.1)
        axes.grid(True)

    return draw("agreement", content, 3.6)


def reliability_points(facts: Facts) -> tuple[Floats, Floats, Floats]:
    """Return mean confidence, share of right answers and number of rows, for each tenth of confidence that has rows."""
    confidence = np.ones(0) if facts.confidence is None else facts.confidence
    step = np.clip((10 * confidence).astype(np.int64), 0, 9)
    count = np.bincount(step, minlength=10)
    some = count > 0
    sure = np.bincount(step, confidence, 10)[some] / count[some]
    right = np.bincount(step, 1 - facts.error, 10)[some] / count[some]
    return sure, right, count[some].astype(np.float64)


def error_groups(facts: Facts) -> tuple[Floats, Floats, Floats]:
    """Return the error in groups of rows of equal size, the least known first, with the range that chance leaves it.

    Classes: the share that is wrong. Numbers: the median, between order statistics that hold it in 95 % of cases.
    """
    order = np.argsort(facts.log_evidence, kind="stable")
    groups = np.array_split(facts.error[order], min(_GROUPS, max(2, len(facts) // 10)))
    if facts.classes is not None:
        wrong, size = np.array([g.sum() for g in groups]), np.array([float(len(g)) for g in groups])
        return wrong / size, *wilson(wrong, size)
    largest = facts.error[np.isfinite(facts.error)].max(initial=0.0)
    sorted_groups = [np.sort(np.minimum(g, largest)) for g in groups]
    ends = []
    for group in sorted_groups:
        step = 0.98 * np.sqrt(len(group))  # 1.96 standard deviations of a rank around the median, √n / 2 each
        low, high = int(max(0, np.floor(len(group) / 2 - step))), int(min(len(group) - 1, len(group) / 2 + step))
        ends.append((np.median(group), group[low], group[high]))
    middle, bottom, top = np.array(ends).T
    return middle, bottom, top


def is_logarithmic(facts: Facts) -> bool:
    """Say whether true values span so many powers of ten that axes should be logarithmic."""
    low, high = facts.truth.min(), facts.truth.max()
    return bool(low > 0 and high > 200 * low and not facts.discrete)


def limits(facts: Facts) -> tuple[float, float]:
    """Return the ends of both axes: all true values, and all but the wildest predictions."""
    finite = facts.prediction[np.isfinite(facts.prediction)]
    low, high = float(facts.truth.min()), float(facts.truth.max())
    least, most = float(finite.min(initial=low)), float(finite.max(initial=high))
    if is_logarithmic(facts):
        return min(low, max(least, low / 10)) / 1.1, max(high, min(most, 10 * high)) * 1.1
    spread = high - low if high > low else max(abs(high), 1.0)
    low, high = min(low, max(least, low - spread / 2)), max(high, min(most, high + spread / 2))
    return low - 0.04 * spread, high + 0.04 * spread


def n_outside(facts: Facts) -> int:
    """Return how many rows have a prediction beyond the axes."""
    low, high = limits(facts)
    return int((~((facts.prediction >= low) & (facts.prediction <= high))).sum())


def alarm(held_out: Floats) -> float:
    """Return the log evidence below which rows are flagged as novel."""
    p = (1 + np.arange(len(held_out))) / (len(held_out) + 1)
    return float(np.sort(held_out)[np.count_nonzero(p < NOVEL) - 1])


def wilson(hits: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's 95 % interval of a share."""
    z = 1.96
    centre = (hits + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * np.sqrt(hits * (n - hits) / n + z**2 / 4)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)


def tick(x: float, place: float = 0) -> str:
    """Return a number on an axis; matplotlib's own texts are formulas on logarithmic axes, and factors on others.

    Examples:
        >>> tick(2500.0), tick(1e6), tick(0.25), tick(1e-5), tick(-3e9), tick(1e12)
        ('2,500', '1,000,000', '0.25', '10⁻⁵', '−3·10⁹', '10¹²')
    """
    if x == 0 or 1e-3 <= abs(x) < 1e7:
        return (f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.6g}").replace("-", "−")
    exponent = int(np.floor(np.log10(abs(x)) + 1e-9))
    factor = f"{x / 10.0**exponent:.3g}".replace("-", "−")
    return power(exponent) if factor == "1" else f"{factor}·{power(exponent)}"


def power(exponent: int) -> str:
    """Return a power of ten as people write it.

    Examples:
        >>> power(0), power(2), power(6), power(-12)
        ('1', '100', '10⁶', '10⁻¹²')
    """
    if 0 <= exponent <= 3:
        return f"{10**exponent:,}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _edges(sets: list[Floats]) -> Floats:
    """Return common bins for all sets; rows far below training fall into the first bin."""
    known = sets[0][np.isfinite(sets[0])]
    bottom, top = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    every = np.concatenate(sets)
    every = every[np.isfinite(every)]
    reach = max(2 * (top - bottom), 4.0)
    low, high = max(every.min(initial=bottom), bottom - reach), min(every.max(initial=top), top + reach)
    margin = 0.02 * max(high - low, 1.0)
    return np.linspace(low - margin, high + margin, _BINS + 1)


def _mark(axes: Axes, place: float, edges: Floats, text: str, top: float) -> None:
    """Draw a line, and on the side with more room a text that says what lies left of it."""
    if not edges[0] < place < edges[-1]:
        return
    axes.axvline(place, color=INK, lw=0.8, ls=":")
    left = place - edges[0] > 0.45 * (edges[-1] - edges[0])
    side = "right" if left else "left"
    axes.text(place, top, f"{text} ← " if left else f" ← {text}", size=8, ha=side, va="top")


def _for_page(svg: str, name: str) -> str:
    """Return the svg element alone, with the page's colours, and identifiers that no other figure has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    head, rest = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    svg = f'<svg {box.group(0) if box else ""} aria-hidden="true" focusable="false">{rest}'
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return svg
