"""The results in the repository are those of its runs, and what the README says of them is so."""

import re
from pathlib import Path

from natpn_paper.experiments import read_lines
from natpn_paper.experiments.registry import DRAWINGS, EXPERIMENTS
from natpn_paper.results.listing import markdown, read_notes, without_table
from natpn_paper.results.tables import tables
from natpn_paper.results.tally import agreement, counted, total

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "results.md"
LINES = read_lines(ROOT / "results" / "runs.jsonl")
NOTES = read_notes((ROOT / "results" / "notes.md").read_text(encoding="utf-8"))


def test_the_page_is_what_the_runs_and_the_remarks_give():
    made = markdown(tables(LINES), agreement(LINES), notes=NOTES)
    assert PAGE.read_text(encoding="utf-8").split("\n## Figures\n")[0].rstrip() == made.rstrip()


def test_every_table_and_figure_has_its_remark():
    tabled = {table.name for table in tables(LINES)}
    drawn = set(re.findall(r"\(figures/(.+?)\.svg\)", PAGE.read_text(encoding="utf-8")))
    assert drawn == {line["experiment"] for line in LINES} & set(DRAWINGS) == set(DRAWINGS)
    assert all((PAGE.parent / "figures" / f"{name}.svg").stat().st_size for name in drawn)
    assert tabled | drawn | {""} == set(NOTES)
    assert without_table(NOTES, tabled | drawn) == []


def test_runs_are_of_experiments_that_are_there_and_are_full():
    for line in LINES:
        experiment = EXPERIMENTS[line["experiment"]]
        assert line["data"] in experiment.data
        assert line["model"] in experiment.models
        assert not line["quick"]


def test_the_readme_says_how_many_cells_agree():
    every = total(agreement(LINES))
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"in {counted(every.good)} cells" in text
    assert f"in {counted(every.near)}" in text
