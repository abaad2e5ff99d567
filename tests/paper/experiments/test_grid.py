"""The search through the paper's grid: what it tries, what it chooses, and that test rows play no part."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from natpn.cli import cli
from natpn_paper import baselines, datasets
from natpn_paper.experiments import execute, grid, read_lines, scoring
from natpn_paper.experiments.base import Outcome, Run
from natpn_paper.experiments.grid import PARTS, POINTS, Measured, Point, search, steps
from natpn_paper.experiments.table_rows import Setting
from natpn_paper.reproduce import choice

HERE = Path(os.environ.get("NATPN_DATA", "/nowhere")).is_dir()


def badness(point: Point) -> float:
    """Best at a rate of 5e-3, maf 4, H = 32 and the budget e^H."""
    wanted = {"learning_rate": 5e-3, "flow": ("maf", 4), "latent_dim": 32, "budget": "exp"}
    return float(sum(getattr(point, name) != value for name, value in wanted.items()))


def test_every_point_has_a_name_of_its_own():
    assert len(POINTS) == 4 * 4 * 3 * 5
    assert all(POINTS[point.name] == point for point in POINTS.values())


def test_the_search_finds_the_best_of_each_coordinate():
    best, tried = search("kin8nm", Point(), lambda points: {point: Measured(badness(point), 0.5) for point in points})
    assert badness(best) == 0
    assert len(tried) == 4 + 3 + 2 + 4  # the best so far is not tried again
    best, tried = search("kin8nm", Point(), lambda points: {})  # all runs failed
    assert best == Point()


def test_what_is_better_by_less_than_an_error_is_not_chosen():
    best, _ = search("kin8nm", Point(), lambda points: {point: Measured(badness(point), 1.5) for point in points})
    assert best == Point()


def test_what_the_paper_says_is_not_searched():
    for part in ("bike-sharing-normal", "bike-sharing-poisson"):
        assert set(steps(part)) == {"learning_rate"}
    assert steps("kin8nm") == grid.STEPS


def test_a_point_replaces_the_fields_of_a_setting():
    setting = Setting((16, 2), patience=7)
    made = Point(5e-3, ("maf", 4), 32, "exp").applied(setting)
    assert made == Setting((16, 2), 7, learning_rate=5e-3, latent_dim=32, flow=("maf", 4), budget="exp")


@pytest.mark.skipif(not HERE, reason="NATPN_DATA names no directory")
def test_test_rows_play_no_part(monkeypatch):
    run = Run("choose", "concrete", Point(flow=("radial", 8)).name, 0, quick=True)
    scores = execute(grid.CHOICE, run)["scores"]
    assert {"NLL", "RMSE"} <= set(scores)
    assert not any("Epist." in name for name in scores)
    load = datasets.load

    def spoiled(*arguments, **options):
        data = load(*arguments, **options)
        data.test[0][:], data.test[1][:] = np.nan, np.nan
        return data

    monkeypatch.setattr(datasets, "load", spoiled)
    assert execute(grid.CHOICE, run)["scores"] == scores


@pytest.mark.skipif(not HERE, reason="NATPN_DATA names no directory")
def test_a_fit_does_not_see_the_rows_that_judge_it(monkeypatch):
    seen = {}

    class Recorder:
        def fit(self, X, y, X_val, y_val):
            seen.update(fitted=X, stopped=X_val)
            return self

        def predict_dist(self, X):
            seen.update(judged=X)
            return self

        def log_prob(self, y):
            return np.zeros(len(y))

    def score(model, data):
        assert not data.ood
        assert np.array_equal(data.test[0], seen["judged"])
        return {"NLL": 0.0}

    monkeypatch.setattr(baselines, "get", lambda *_, **__: Recorder())
    monkeypatch.setattr(scoring, "score", score)
    execute(grid.CHOICE, Run("choose", "concrete", Point().name, 0))
    whole = datasets.load("concrete", seed=0)
    fitted, judged = seen["fitted"], seen["judged"]
    assert len(judged) == -(-len(whole.train[0]) // 5)
    assert np.array_equal(seen["stopped"], whole.validation[0])
    together = np.concatenate([fitted, judged])
    assert np.array_equal(together[np.lexsort(together.T)], whole.train[0][np.lexsort(whole.train[0].T)])


def made(run: Run) -> Outcome:
    return Outcome({"NLL": badness(POINTS[run.model]) + run.seed, "NLL error": 0.1})


def test_the_command_searches_and_writes_what_it_chose(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "CHOICE", grid.Experiment("choose", "", tuple(PARTS), tuple(POINTS), made))
    results, out = tmp_path / "choice.jsonl", tmp_path / "out"
    arguments = ["reproduce", "--choose", "concrete", "--seeds", "2", "--results", results, "--out", out]
    first = CliRunner().invoke(cli, [*map(str, arguments)])
    assert first.exit_code == 0, first.output
    assert first.output.count("chosen") >= 1
    written = json.loads((out / "chosen.json").read_text())
    chosen = {"budget": "exp", "flow": ["maf", 4], "latent_dim": 32, "learning_rate": 0.005}
    assert written == {"concrete": chosen}
    lines = read_lines(results)
    assert len(lines) == 2 * 13
    arguments[2] = "uci"
    again = CliRunner().invoke(cli, [*map(str, arguments)])
    assert again.exit_code == 0, again.output
    assert set(json.loads((out / "chosen.json").read_text())) == {"concrete", "kin8nm"}
    assert read_lines(results)[: len(lines)] == lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--choose"], "--choose needs the name"), (["--choose", "kin8mn"], "did you mean 'kin8nm'?")],
)
def test_wrong_names_are_explained(arguments, words):
    found = CliRunner().invoke(cli, ["reproduce", *arguments])
    assert found.exit_code == 2
    assert words in found.output
