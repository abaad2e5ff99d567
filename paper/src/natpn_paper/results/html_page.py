"""Results → one HTML page that is complete in itself: no network, no scripts, no fonts."""

import base64
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from natpn_paper.results.svg_figures import Drawing
from natpn_paper.results.tables import Table
from natpn_paper.results.tally import Agreement, counts
from natpn_paper.results.words import LEGEND, QUICK, about, heading, ours, paper, spread


def page(
    tables: Sequence[Table], agreements: Sequence[Agreement], drawings: Sequence[Drawing] = (), quick: bool = False
) -> str:
    """Return all results as one HTML text that opens offline.

    Args:
        tables: The tables.
        agreements: How well they agree with the paper's.
        drawings: The figures, which become part of the page.
        quick: Whether they are of quick runs.
    """
    text: str = _template().render(
        tables=tables,
        agreements=counts(agreements),
        drawings=[(drawing, _embedded(drawing.svg)) for drawing in drawings],
        quick=QUICK if quick else "",
        legend=LEGEND,
        about=about,
        heading=heading,
        ours=ours,
        spread=spread,
        paper=paper,
        version=version("natpn"),
    )
    return text


def _embedded(svg: str) -> str:
    # as a separate image: identifiers and styles of several SVGs in one page would clash
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


@cache
def _template() -> Template:
    text = (files("natpn_paper.results") / "page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text)
