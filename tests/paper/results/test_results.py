"""Results as tables: means, errors, marks, and the same in a terminal, in Markdown and on a page."""

import base64
import math
import re

import numpy as np
import pytest

from natpn_paper.experiments import EXPERIMENTS, Experiment, View, registry
from natpn_paper.experiments.published import scores, table_names
from natpn_paper.results.html_page import page
from natpn_paper.results.listing import legend, markdown, read_notes, summary, text
from natpn_paper.results.svg_figures import drawings
from natpn_paper.results.tables import tables
from natpn_paper.results.tally import (
    LEFT_OUT,
    TABULAR,
    agreement,
    best_single_pass,
    counted_near,
    counted_rank,
    counts,
    total,
)
from natpn_paper.results.words import about
from report.test_page import Page

COLUMNS = ("Accuracy", "Brier", "9/10 Alea.", "9/10 Epist.", "OODom Alea.", "OODom Epist.")
MODELS = ("PostNet", "NatPN (paper)", "NatPN", "Dropout", "NatPE")
VIEW = View("sensorless-drive", "there", COLUMNS)
MADE = {"made": Experiment("made", "Made up & <i>", ("there",), MODELS, lambda run: None, (VIEW,))}


def line(model, seed=0, data="there", experiment="made", quick=False, limit=None, epochs=None, **more):
    facts = {"seconds": 60.0, "date": f"2026-01-0{1 + seed}", "versions": {"natpn": "1.0", "torch": "2.0"}, "note": ""}
    key = {"experiment": experiment, "data": data, "model": model, "seed": seed, "quick": quick, "limit": limit}
    key["epochs"] = epochs
    return facts | key | {"scores": {}, "values": {}} | more


def accuracy(model, *values, column="Accuracy"):
    return [line(model, seed, scores={column: value}) for seed, value in enumerate(values)]


def cells(lines, column="Accuracy", **options):
    (table,) = tables(lines, MADE, **options)
    return {row.model: row.cells[COLUMNS.index(column)] for row in table.rows}


def everything():
    """Return two seeds of every row of every table."""
    rng = np.random.default_rng(0)
    made = []
    for name, experiment in EXPERIMENTS.items():
        for run in experiment.runs(2):
            views = [view for view in experiment.views if view.data == run.data]
            scores = {view.prefix + column: rng.uniform(0, 100) for view in views for column in view.columns}
            made.append(line(run.model, run.seed, run.data, name, scores=scores))
    return made


def test_a_cell_is_mean_and_standard_error_as_numpy_says():
    values = np.random.default_rng(0).normal(90, 3, 5)
    cell = cells(accuracy("NatPN", *values))["NatPN"]
    assert cell.mean == pytest.approx(values.mean())
    assert cell.error == pytest.approx(values.std(ddof=1) / np.sqrt(5))
    assert cell.paper == scores("sensorless-drive")["NatPN", "Accuracy"]
    assert cells(accuracy("NatPN", 5.0))["NatPN"].error is None


def test_models_with_several_passes_come_first_and_both_ways_have_the_same_figure_of_the_paper():
    lines = [made for model in MODELS for made in accuracy(model, 1.0)]
    found = cells(lines)
    assert list(found) == ["Dropout", "NatPE", "PostNet", "NatPN (paper)", "NatPN"]
    assert found["NatPN (paper)"].paper == found["NatPN"].paper
    assert list(cells(lines[2:4])) == ["Dropout", "NatPN"]


@pytest.mark.parametrize(
    ("column", "values", "best", "best_single"),
    [
        ("Accuracy", {"Dropout": 99.0, "PostNet": 98.0, "NatPN": 97.0}, {"Dropout"}, {"PostNet"}),
        ("Brier", {"Dropout": 99.0, "PostNet": 98.0, "NatPN": 97.0}, {"NatPN"}, {"NatPN"}),
        ("Accuracy", {"Dropout": 99.001, "PostNet": 99.004, "NatPN": 98.0}, {"Dropout", "PostNet"}, {"PostNet"}),
        ("Accuracy", {"Dropout": 1.0, "PostNet": math.nan, "NatPN": 0.5}, {"Dropout"}, {"NatPN"}),
        ("Accuracy", {"Dropout": 1.0, "NatPE": 0.5}, {"Dropout"}, set()),
        ("Accuracy", {"NatPN": math.nan}, set(), set()),
    ],
)
def test_the_best_is_marked(column, values, best, best_single):
    found = cells([made for model, value in values.items() for made in accuracy(model, value, column=column)], column)
    assert {model for model, cell in found.items() if cell.best} == best
    assert {model for model, cell in found.items() if cell.best_single} == best_single


def test_the_last_line_of_a_run_counts_and_the_most_data():
    twice = [*accuracy("NatPN", 1.0), *accuracy("NatPN", 2.0)]
    assert cells(twice)["NatPN"].mean == 2.0
    part = [line("NatPN", seed, limit=limit, scores={"Accuracy": limit}) for seed in (0, 1) for limit in (10, 20)]
    assert cells(part)["NatPN"].mean == 20.0
    assert cells([*twice, *part])["NatPN"].mean == 2.0
    short = [line("NatPN", limit=20, epochs=n, scores={"Accuracy": n}) for n in (3, 7, 5)]
    assert cells(short)["NatPN"].mean == 7.0
    assert cells([*short, *part])["NatPN"].mean == 20.0


def test_quick_runs_are_kept_apart():
    lines = [*accuracy("NatPN", 1.0), line("NatPN", quick=True, scores={"Accuracy": 7.0})]
    assert cells(lines)["NatPN"].mean == 1.0
    assert cells(lines, quick=True)["NatPN"].mean == 7.0
    assert tables(lines[1:], MADE) == []
    assert "quick runs" in markdown(tables(lines, MADE, quick=True), [], quick=True)


def test_what_stands_behind_a_table_is_said():
    lines = [line("NatPN", seed, note="at most 5 rows") for seed in (0, 1)] + [line("PostNet", versions={"natpn": "2"})]
    said = " ".join(about(lines))
    assert said == (
        "2 seeds (PostNet 1); 3 runs, 3 min in all; 2026-01-01 to 2026-01-02; natpn 1.0, torch 2.0; natpn 2. "
        "At most 5 rows (NatPN)."
    )


@pytest.mark.parametrize(
    ("lines", "heading"),
    [
        ([line("NatPN"), line("PostNet", part="")], "sensorless-drive"),
        ([line("NatPN", part="5 pictures")], "sensorless-drive (5 pictures)"),
        (
            [line("NatPN"), line("PostNet", limit=2000, epochs=9)],
            "sensorless-drive (some runs: at most 2,000 rows of each part, 9 epochs)",
        ),
    ],
)
def test_a_heading_says_that_runs_are_small(lines, heading):
    found = tables(lines, MADE)
    assert f"\n### {heading}\n" in markdown(found, [])
    assert f">{heading}: Made up" in page(found, [])
    assert text(found[0]).startswith(f"{heading}: ")


@pytest.mark.slow
def test_every_table_of_the_paper_is_shown_with_its_figures():
    lines = everything()
    found = tables(lines)
    filled = {view.table for experiment in EXPERIMENTS.values() for view in experiment.views}
    assert filled - set(table_names()) == {"cifar10-left-out"}  # of ours
    assert {table.view.table for table in found} == filled
    assert len({table.name for table in found}) == len(found) == sum(len(e.views) for e in EXPERIMENTS.values())
    written, html = markdown(found, agreement(lines)), page(found, agreement(lines))
    read = Page(html)
    for table in found:
        assert f"\n### {table.name}\n" in written
        assert f"#{table.name}" in read.links
        shown = text(table, 10_000)
        for model, column in scores(table.view.table, table.view.trained_on):
            if model.endswith(table.view.suffix):
                value, _ = scores(table.view.table, table.view.trained_on)[model, column]
                assert f"({value:.2f})" in shown, (table.name, model, column)
                assert f"({value:.2f}" in written
                assert f"({value:.2f}" in read.text
    assert not re.search(r"https?:|//\w|@import|<script", html)
    assert len(read.ids) == len(set(read.ids))
    assert all(link[1:] in read.ids for link in read.links if link.startswith("#"))


def test_markdown_and_page_show_the_marks():
    lines = [*accuracy("Dropout", 99.0, 99.5), *accuracy("NatPN", 98.0, 98.5), *accuracy("PostNet", 90.0)]
    found = tables(lines, MADE)
    written = markdown(found, agreement(lines, MADE))
    assert "| Dropout | 99.25\\* ±0.25 (98.62 ±0.11) |" in written
    assert "| NatPN | **98.25** ±0.25 (99.61 ±0.05) |" in written
    assert "| PostNet | 90.00 (" in written
    rows = [row for row in written.splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows[-5:]}) == 1
    html = page(found, agreement(lines, MADE))
    assert re.search(r"<td>99\.25\* <span class=\"spread\">±0\.25</span>", html)
    assert "<strong>98.25</strong> " in html
    assert "Made up &amp; &lt;i&gt;" in html
    Page(html)


@pytest.mark.parametrize("width", [30, 80, 200])
def test_a_terminal_gets_lines_that_fit(width):
    lines = [made for model in MODELS for made in accuracy(model, 99.0, 98.0)]
    for made in lines:
        made["scores"] = dict.fromkeys(COLUMNS, 50.0)
    (table,) = tables(lines, MADE)
    _, _, *grid = text(table, width).splitlines()
    assert max(map(len, grid)) <= max(width, 40)
    heads = [row.split("  ") for row in grid if "Acc" in row or "Brier" in row or "Epist" in row]
    assert sum(map(len, heads)) >= len(COLUMNS)
    assert sum(row.startswith("NatPN (paper)") for row in grid) == {30: 6, 80: 3, 200: 1}[width]
    assert "*°50.00 ±0.00 (99.61)" in "\n".join(grid)
    assert "° best with a single pass" in legend()


def test_agreement_counts_cells_with_the_papers_errors():
    value, error = scores("sensorless-drive")["NatPN", "Accuracy"]
    best = best_single_pass(VIEW, "Brier")
    assert best == min(v for (m, c), (v, _) in scores("sensorless-drive").items() if c == "Brier" and m in SINGLE)
    near = line("NatPN (paper)", scores={"Accuracy": value + 2 * error, "Brier": 50.0, "OODom Epist.": 99.999})
    ours = line("NatPN", scores={"Brier": best + 0.001, "Accuracy": 50.0, "9/10 Epist.": 99.0})
    (one,) = agreement([near, ours], MADE)
    assert {key[2]: found for key, found in one.near.items()} == {
        "Accuracy": "near",
        "Brier": "worse",
        "OODom Epist.": "tie",
    }
    assert {key[2]: found for key, found in one.rank.items()} == {
        "Brier": "equal",
        "Accuracy": "behind",
        "9/10 Epist.": "better",
    }
    (far,) = agreement([line("NatPN (paper)", scores={"Accuracy": value + 2 * error + 0.01})], MADE)
    assert (counted_near(far), counted_rank(far)) == ("0 of 1 (1 better, 0 worse)", "")
    wide = [line("NatPN (paper)", seed, scores={"Accuracy": value + 5 + shift}) for seed, shift in ((0, -4), (1, 4))]
    assert counted_near(agreement(wide, MADE)[0]).startswith("0 of 1")  # our own error does not excuse a difference
    assert agreement([], MADE) == []
    assert "| sensorless-drive | 1 of 2 (0 better, 1 worse), 1 tie | 1 better, 1 equal, 1 behind |" in markdown(
        tables([near, ours], MADE), [one]
    )
    assert re.search(
        r"sensorless-drive +1 of 2 \(0 better, 1 worse\), 1 tie +1 better, 1 equal, 1 behind", summary([one])
    )


def test_an_error_that_prints_as_zero_is_not_zero():
    value, error = scores("sensorless-drive")["NatPN", "OODom Alea."]
    assert error == 0.0
    found = {
        shift: agreement([line("NatPN (paper)", scores={"OODom Alea.": value + shift})], MADE)[0]
        for shift in (-0.01, 0.01, -0.02)
    }
    near = {shift: counted_near(one)[:6] for shift, one in found.items()}
    assert near == {-0.01: "1 of 1", 0.01: "1 of 1", -0.02: "0 of 1"}


SINGLE = {"R-PriorNet", "EnD2", "PostNet", "NatPN"}


def test_the_total_counts_a_score_once():
    lines = everything()
    found = agreement(lines)
    assert {one.table for one in found if one.rank} == {
        "sensorless-drive",
        "bike-sharing-normal",
        "bike-sharing-poisson",
        "uci-kin8nm",
        "uci-concrete",
    }
    bike = [one for one in found if one.table in ("bike-sharing-normal", "bike-sharing-app")]
    assert len(total(bike).near) == len(bike[0].near) == len(bike[1].near) == 6
    assert len(total(found).rank) == 6 * 5
    tabular = total(found, tabular=True)
    assert {key[0] for key in tabular.near} == set(TABULAR)
    assert len(tabular.near) < len(total(found).near)
    assert [row[0] for row in counts(found)][-2:] == [tabular.table, total(found).table]
    assert [row[0] for row in counts(bike)] == [*(one.table for one in bike), total(bike).table]
    assert not {one.table for one in found} & set(LEFT_OUT)


def test_figures_are_drawn_by_their_experiments(monkeypatch):
    from matplotlib.figure import Figure

    def draw(lines):
        figure = Figure()
        figure.subplots().plot([made["values"]["height"] for made in lines])
        return figure

    monkeypatch.setattr(registry, "DRAWINGS", {"made": draw, "nothing": draw})
    lines = [line("NatPN", seed, values={"height": seed}) for seed in (0, 1)]
    (drawing,), problems = drawings(lines, MADE)
    assert not problems
    assert drawing.svg.startswith("<?xml")
    assert drawings(lines, MADE)[0][0].svg == drawing.svg
    assert "![Made up & <i>](figures/made.svg)" in markdown([], [], [drawing])
    html = page([], [], [drawing])
    (embedded,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert base64.b64decode(embedded).decode() == drawing.svg
    assert "#made-figure" in Page(re.sub(r"<img [^>]*>", "", html)).links
    drawn, problems = drawings([line("NatPN")], MADE)
    assert drawn == []
    assert problems == ["made cannot be drawn from these 1 runs: KeyError: 'height'"]


def test_remarks_stand_below_their_table():
    notes = read_notes("About all.\n\n## sensorless-drive\nIt agrees.\n\nMostly.\n## other\n\n")
    assert notes == {"": "About all.", "sensorless-drive": "It agrees.\n\nMostly."}
    made = tables(accuracy("NatPN", 5.0), MADE)
    text = markdown(made, agreement([], MADE), notes=notes)
    title, rest = text.split("\n\n", 1)
    assert title.startswith("# ")
    assert rest.startswith("About all.\n\n## Tables")
    assert rest.endswith("|\n\nIt agrees.\n\nMostly.\n")
    assert "It agrees" not in markdown(made, agreement([], MADE))


def test_two_remarks_on_one_table_are_refused():
    with pytest.raises(ValueError, match="'uci' has two headings"):
        read_notes("## uci\na\n## uci\nb")


@pytest.mark.parametrize("part", [{"limit": 10}, {"epochs": 3}])
def test_runs_on_a_part_are_not_compared_with_the_paper(part):
    scores = {"scores": {"Accuracy": 99.9}}
    assert agreement([line("NatPN", **scores), line("NatPN (paper)", **scores)], MADE)[0].near
    assert agreement([line("NatPN", **scores, **part), line("NatPN (paper)", **scores, **part)], MADE) == []
