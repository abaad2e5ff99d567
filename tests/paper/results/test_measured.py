"""The results in the repository are those of its runs, and what the README says of them is so."""

import re
from pathlib import Path
from statistics import fmean

from natpn_paper.experiments import published, read_lines
from natpn_paper.experiments.registry import DRAWINGS, EXPERIMENTS
from natpn_paper.results.listing import markdown, read_notes, without_table
from natpn_paper.results.tables import tables
from natpn_paper.results.tally import agreement, best_single_pass, counted_near, counted_rank, total

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
    every = total(agreement(LINES), tabular=True)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{counted_rank(every)}" in text
    assert f"in {counted_near(every)}" in text


QUOTED = {  # rows of the README: data and score of benchmarks/quality.py, and the table, part and column of the paper
    ("Sensorless Drive", "accuracy in %"): (
        "sensorless",
        "accuracy",
        "sensorless-drive",
        "sensorless-drive",
        "Accuracy",
    ),
    ("Sensorless Drive", "unseen classes, AUC-PR"): (
        *("sensorless", "left-out"),
        *("sensorless-drive", "sensorless-drive", "9/10 Epist."),
    ),
    ("Bike Sharing, Normal", "RMSE"): ("bike-normal", "rmse", "bike-sharing", "bike-sharing-normal", "RMSE"),
    ("Bike Sharing, Normal", "winter, AUC-PR"): (
        *("bike-normal", "winter"),
        *("bike-sharing", "bike-sharing-normal", "Winter Epist."),
    ),
    ("Bike Sharing, Poisson", "RMSE"): ("bike-poisson", "rmse", "bike-sharing", "bike-sharing-poisson", "RMSE"),
    ("Bike Sharing, Poisson", "winter, AUC-PR"): (
        *("bike-poisson", "winter"),
        *("bike-sharing", "bike-sharing-poisson", "Winter Epist."),
    ),
    ("Kin8nm", "RMSE"): ("kin8nm", "rmse", "uci", "kin8nm", "RMSE"),
    ("Concrete", "RMSE"): ("concrete", "rmse", "uci", "concrete", "RMSE"),
}


def test_the_readme_quotes_the_method_and_the_paper():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Measured results")[1]
    method = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    data, found = "", set()
    for first, score, *cells in re.findall(r"^\| (.*?) ?\| (.+?) \| (.+?) \| ([\d.]+) \| ([\d.]+) \|$", section, re.M):
        data = first or data
        found.add((data, score))
        name, key, table, part, column = QUOTED[data, score]
        assert f"| {name} | {key} | {cells[0]} |" in method
        (view,) = (v for v in EXPERIMENTS[table].views if (v.table, v.data) == (table, part))
        paper = published.scores(view.table, view.trained_on)["NatPN" + view.suffix, column][0]
        assert [float(cell) for cell in cells[1:]] == [paper, best_single_pass(view, column)]
    assert found == set(QUOTED)


PICTURES = {
    "MNIST": "mnist",
    "Fashion-MNIST": "fmnist",
    "CIFAR-10": "cifar10",
    "CIFAR-10 without two classes": "cifar10-left-out",
}
OTHERS = {"KMNIST": "K.", "Fashion-MNIST": "F.", "MNIST": "M.", "SVHN": "SVHN", "the two classes": "Left out"}


def test_the_readme_quotes_the_runs_on_pictures():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Measured results")[1]
    rows = re.findall(r"^\| (.+?) \| ([\d.]+) \| ([\d.]+) \| (.+?) \|$", section, re.M)
    assert {name for name, *_ in rows} == set(PICTURES)
    for name, accuracy, brier, areas in rows:
        runs = [one["scores"] for one in LINES if (one["experiment"], one["model"]) == (PICTURES[name], "NatPN")]
        told = {"Accuracy": accuracy, "Brier": brier}
        told |= {
            f"ROC {OTHERS[other]} Epist.": area for other, area in re.findall(r"([A-Za-z][\w -]+?) ([\d.]+)", areas)
        }
        assert len(told) == 2 + len(areas.split(", "))
        assert told == {score: f"{fmean(run[score] for run in runs):.2f}" for score in told}
