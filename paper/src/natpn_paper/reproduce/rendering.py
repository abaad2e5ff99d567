"""Results → what is printed and written: the tables, results.md, results.html and the figures."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from natpn.cli.writing import PAGE, Problem, check_output, note, of_system, say, write_text
from natpn.outputs import Kind, check_apart
from natpn_paper.experiments import EXPERIMENTS, read_lines, registry
from natpn_paper.results.html_page import page
from natpn_paper.results.listing import TITLE, legend, markdown, read_notes, summary, text, without_table
from natpn_paper.results.svg_figures import Drawing, drawings
from natpn_paper.results.tables import tables
from natpn_paper.results.tally import agreement

_CREATOR = re.compile(rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>natpn<")
FIGURE = Kind("a figure that natpn drew", lambda file: bool(_CREATOR.search(file.read(1 << 11))))
TABLES = Kind(
    "tables that natpn reproduce wrote", lambda file: file.readline().decode(errors="replace").rstrip() == TITLE
)


def read_remarks(path: str) -> dict[str, str]:
    """Read remarks.

    Raises:
        Problem: If the file cannot be read, or has two remarks on one table.
    """
    try:
        return read_notes(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise of_system(error, path) from None
    except ValueError as error:  # two headings, or not UTF-8
        raise Problem(f"{path}: {error}") from None


def check_outputs(out: str, results: str, notes: str | None) -> None:
    """Raise if an output would replace a file that natpn did not write, or one that is read."""
    if notes:
        check_apart(results, notes)
    figures = [(os.path.join("figures", f"{name}.svg"), FIGURE) for name in registry.DRAWINGS]
    for name, kind in [("results.md", TABLES), ("results.html", PAGE), *figures]:
        path = os.path.join(out, name)
        if os.path.isdir(os.path.dirname(path)):
            check_output(path, kind, results, notes)


def render(path: str, out: str, quick: bool, shown: Sequence[str], notes: Mapping[str, str]) -> None:
    """Print the tables of some experiments, and write those of all runs in a file.

    Args:
        path: The results.
        out: The directory to write to.
        quick: Whether to show quick runs instead of full ones.
        shown: The names of the experiments whose tables are printed.
        notes: Remarks, by the name of a table or figure.
    """
    lines = read_lines(path)
    found, agreements = tables(lines, EXPERIMENTS, quick), agreement(lines, EXPERIMENTS, quick)
    width = shutil.get_terminal_size((120, 24)).columns
    for table in found:
        if table.experiment.name in shown:
            say()
            say(text(table, width))
    if found:
        say()
        say(legend())
    if agreements:
        say()
        say(summary(agreements))
    if not any(bool(line["quick"]) == quick for line in lines):
        note(f"{path} has no {'quick' if quick else 'full'} runs; there is nothing to write")
        return
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as error:
        raise of_system(error, out) from None
    drawn = _draw(lines, out, quick)
    for name in without_table(notes, [*(table.name for table in found), *(drawing.name for drawing in drawn)]):
        note(f"the remark on {name!r} is left out: there is no table or figure of that name")
    write_text(os.path.join(out, "results.md"), markdown(found, agreements, drawn, quick, notes), TABLES)
    say()
    say(f"tables  {os.path.join(out, 'results.md')}")
    write_text(os.path.join(out, "results.html"), page(found, agreements, drawn, quick), PAGE)
    say(f"page    {os.path.join(out, 'results.html')}")


def _draw(lines: list[dict[str, Any]], out: str, quick: bool) -> list[Drawing]:
    drawn, problems = drawings(lines, quick=quick)
    for problem in problems:
        note(problem)
    if drawn:
        os.makedirs(os.path.join(out, "figures"), exist_ok=True)
    for drawing in drawn:
        write_text(os.path.join(out, "figures", f"{drawing.name}.svg"), drawing.svg, FIGURE)
        say(f"figure  {os.path.join(out, 'figures', drawing.name)}.svg")
    return drawn
