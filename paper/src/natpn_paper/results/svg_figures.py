"""Results of figures → SVG texts; each experiment draws its own lines."""

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from natpn_paper.experiments import EXPERIMENTS, Experiment, registry
from natpn_paper.results.tables import Line, chosen


@dataclass(frozen=True)
class Drawing:
    """A figure of the paper, drawn from our runs."""

    name: str
    title: str
    svg: str
    lines: tuple[Line, ...]


def drawings(
    lines: Iterable[Line], experiments: Mapping[str, Experiment] = EXPERIMENTS, quick: bool = False
) -> tuple[list[Drawing], list[str]]:
    """Draw all figures for which there are lines, and return them with a sentence for each that cannot be drawn.

    Args:
        lines: What `natpn_paper.experiments.read_lines` read.
        experiments: Whose figures, by name.
        quick: Whether to show quick runs instead of full ones.
    """
    known, found, problems = list(lines), [], []
    for name, draw in registry.DRAWINGS.items():
        own = chosen(known, experiments[name], quick) if name in experiments else []
        if not own:
            continue
        try:
            svg = _svg(draw(own))
        except Exception as error:  # runs may still be missing; the tables are written anyway
            problems.append(f"{name} cannot be drawn from these {len(own)} runs: {type(error).__name__}: {error}")
            continue
        found.append(Drawing(name, experiments[name].title, svg, tuple(own)))
    return found, problems


def _svg(figure: object) -> str:
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "natpn"}):  # the same lines give the same text
        metadata = {"Date": None, "Creator": "natpn"}
        figure.savefig(text, format="svg", facecolor="white", metadata=metadata)  # type: ignore[attr-defined]
    return text.getvalue()
