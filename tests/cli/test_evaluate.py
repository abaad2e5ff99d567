"""`natpn evaluate` and the scores behind it."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    log_loss,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)

import natpn
from cli.conftest import COLUMNS, refused, rows, run, write
from natpn.report.scores import METRICS, scores


@pytest.fixture
def other(tmp_path):
    return write(
        tmp_path / "other.csv", [[r[0], str(1e4 + i), *r[2:5]] for i, r in enumerate(rows(40, 2))], COLUMNS[:5]
    )


def test_numbers_are_scored_as_scikit_learn_does(model, new, other):
    result = run("evaluate", model, new, "--ood", other, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    frame, prediction = pd.read_csv(new), run("predict", model, new, "--out", "-")
    lines = [line.split(",") for line in prediction.stdout.splitlines()[1:]]
    guess, low, high = np.array([[float(x) for x in line[:3]] for line in lines]).T
    assert found["rmse"] == pytest.approx(root_mean_squared_error(frame["rent"], guess))
    assert found["mae"] == pytest.approx(mean_absolute_error(frame["rent"], guess))
    assert found["r2"] == pytest.approx(r2_score(frame["rent"], guess))
    assert found["coverage_90"] == pytest.approx(100 * ((low <= frame["rent"]) & (frame["rent"] <= high)).mean())
    assert found["rows"] == 50
    assert found["ood_rows"] == 40
    assert found["ood_novel"] == 100
    assert found["ood_evidence_auc_pr"] == found["ood_evidence_auc_roc"] == 100
    assert found["ood_familiarity"] < 0.5 < found["familiarity"]


def test_rows_are_told_apart_by_evidence_and_by_noise(model, new, other):
    found = json.loads(run("evaluate", model, new, "--ood", other, "--json").stdout)
    estimator = natpn.load(model)
    parts = [estimator.predict_dist(pd.read_csv(p, parse_dates=["built"])[COLUMNS[1:5]]) for p in (new, other)]
    truth = [1] * 50 + [0] * 40
    noise = -np.concatenate([part.aleatoric for part in parts])
    assert found["ood_aleatoric_auc_roc"] == pytest.approx(100 * roc_auc_score(truth, noise))
    assert found["ood_aleatoric_auc_pr"] == pytest.approx(100 * average_precision_score(truth, noise))
    assert found["ood_evidence_auc_roc"] == 100


def test_classes_are_scored_as_scikit_learn_does(classes, new, tmp_path):
    found = json.loads(run("evaluate", classes, new, "--json").stdout)
    estimator, frame = natpn.load(classes), pd.read_csv(new)
    p = estimator.predict_proba(frame[["area", "rent"]])
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(frame["district"], estimator.classes_[p.argmax(1)]))
    assert found["negative_log_likelihood"] == pytest.approx(log_loss(frame["district"], p, labels=estimator.classes_))
    sure, right = p.max(1), estimator.classes_[p.argmax(1)] == frame["district"].to_numpy()
    place = np.floor(15 * sure)
    bins = [abs((right[place == b] - sure[place == b]).sum()) for b in range(16)]
    assert found["expected_calibration_error"] == pytest.approx(100 * sum(bins) / len(sure))
    e = np.eye(3)[np.searchsorted(estimator.classes_, frame["district"])]
    assert found["brier_score"] == pytest.approx(((p - e) ** 2).sum(1).mean())
    assert found["brier"] == pytest.approx(100 * np.sqrt(((p - e) ** 2).sum(1)).mean())


def test_pieces_change_nothing_but_memory(model, classes, new, monkeypatch):
    frame = pd.read_csv(new, parse_dates=["built"])
    for path, columns, target in ((model, COLUMNS[1:5], "rent"), (classes, ["area", "rent"], "district")):
        estimator = natpn.load(path)
        X, y = frame[columns], frame[target].to_numpy()
        monkeypatch.setattr("natpn.model.fitted.PIECE", 4096)
        whole = scores(estimator, X, y, ood=X)
        monkeypatch.setattr("natpn.model.fitted.PIECE", 7)
        assert scores(estimator, X, y, ood=X) == pytest.approx(whole)


@pytest.fixture(scope="module")
def truths(place, train):
    """A model of two classes: whether there is a lift."""
    arguments = ["--target", "lift", "--drop", "flat", "--drop", "built", "--max-epochs", 1]
    assert run("fit", train, *arguments, "--out", place / "truths").exit_code == 0
    return str(place / "truths")


def test_every_score_has_a_meaning_and_every_meaning_a_score(model, classes, truths, new, other):
    found = [
        json.loads(run("evaluate", m, new, "--ood", o, "--json").stdout)
        for m, o in ((model, other), (classes, new), (truths, new))
    ]
    assert set().union(*found) == set(METRICS) | {"rows", "ood_rows", "baselines"}
    assert all(set(one["baselines"]) < set(one) for one in found)
    for metric in METRICS.values():
        assert metric.meaning.endswith(".")
    text = run("evaluate", model, new).stdout
    assert METRICS["rmse"].meaning in text


def test_two_classes_have_auc_precision_and_recall(truths, classes, new):
    found = json.loads(run("evaluate", truths, new, "--json").stdout)
    estimator, frame = natpn.load(truths), pd.read_csv(new)
    p = estimator.predict_proba(frame[["area", "district", "rent"]])[:, 1]
    truth, guess = frame["lift"].to_numpy(), p > 0.5
    assert found["auc"] == pytest.approx(100 * roc_auc_score(truth, p))
    if guess.any():
        assert found["precision"] == pytest.approx(100 * precision_score(truth, guess))
    else:  # nothing was called true, of which a share could be
        assert found["precision"] is None
    assert found["recall"] == pytest.approx(100 * recall_score(truth, guess))
    share = 100 * truth.mean()
    assert (found["baselines"]["precision"], found["baselines"]["auc"]) == pytest.approx((share, 50))
    assert "Of the two classes, 'True' is the second." in run("evaluate", truths, new).stdout
    assert "auc" not in run("evaluate", classes, new).stdout


def test_rows_of_one_class_have_no_ranking(truths, tmp_path):
    one = write(tmp_path / "a.csv", [row for row in rows(60, 1) if row[3] == "false"])
    found = json.loads(run("evaluate", truths, one, "--json").stdout)
    assert (found["auc"], found["recall"], found["precision"] or 0) == (None, None, 0)


def test_baselines_are_what_scikit_learn_says_of_the_same_answer(model, classes, new):
    frame = pd.read_csv(new)
    y = frame["rent"].to_numpy()
    same = json.loads(run("evaluate", model, new, "--json").stdout)["baselines"]
    guess = DummyRegressor().fit(y, y).predict(y)
    assert same["rmse"] == pytest.approx(root_mean_squared_error(y, guess))
    assert same["mae"] == pytest.approx(mean_absolute_error(y, guess))
    assert same["r2"] == 0
    assert same["crps"] == pytest.approx(np.abs(y[:, None] - y).mean() / 2)
    assert same["negative_log_likelihood"] == pytest.approx(-norm.logpdf(y, y.mean(), y.std()).mean(), rel=0.01)
    labels = frame["district"].to_numpy()
    same = json.loads(run("evaluate", classes, new, "--json").stdout)["baselines"]
    shares = DummyClassifier(strategy="prior").fit(labels, labels).predict_proba(labels)
    assert same["accuracy"] == pytest.approx(100 * pd.Series(labels).value_counts(normalize=True).max())
    assert same["negative_log_likelihood"] == pytest.approx(log_loss(labels, shares))
    line = next(line for line in run("evaluate", classes, new).stdout.splitlines() if "accuracy" in line)
    assert line.split()[2] == f"{same['accuracy']:.4g}"


def test_vectors_have_scores_too():
    X = np.linspace(-1, 1, 60)[:, None]
    estimator = natpn.NatPNRegressor("multivariate_normal", max_epochs=1, random_state=0).fit(X, np.c_[X, -X])
    found = scores(estimator, X, np.c_[X, -X])
    assert {"rmse", "mae", "r2", "negative_log_likelihood", "familiarity", "novel"} == set(found)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("rent", "dear", "line 4, column 'rent': 'dear' is not a finite number"),
        ("area", "large", "line 4, column 'area': 'large'"),
        ("lift", "perhaps", "line 4, column 'lift': 'perhaps' is no truth value"),
    ],
)
def test_a_value_that_does_not_fit_has_a_line(column, value, sentence, model, tmp_path):
    table = rows(6, 0)
    table[2][COLUMNS.index(column)] = value
    assert sentence in refused(run("evaluate", model, write(tmp_path / "a.csv", table)))


def test_labels_that_training_never_had(classes, tmp_path):
    table = rows(6, 0)
    table[1][2], table[3][2] = "", "airport"
    sentence = refused(run("evaluate", classes, write(tmp_path / "a.csv", table)))
    assert "line 5, column 'district': the label 'airport' was not in training" in sentence


def test_targets_that_are_missing(model, new, tmp_path):
    without = write(tmp_path / "a.csv", [row[:5] for row in rows(4, 0)], COLUMNS[:5])
    assert "--target rent: " in refused(run("evaluate", model, without))
    empty = write(tmp_path / "b.csv", [[*row[:5], ""] for row in rows(4, 0)])
    assert "no row with a 'rent'" in refused(run("evaluate", model, empty))
    some = write(tmp_path / "c.csv", [*rows(4, 0), *([*row[:5], ""] for row in rows(4, 0))])
    result = run("evaluate", model, some)
    assert result.stderr.startswith("note: 4 of 8 rows have no 'rent' and are left out\n")
    assert result.stdout.startswith("4 rows\n")
    assert "did you mean 'rent'?" in refused(run("evaluate", model, new, "--target", "rentt"))


def test_a_value_of_parquet_that_does_not_fit_has_its_file_and_row(model, new, tmp_path):
    frame = pd.read_csv(new, parse_dates=["built"])
    frame.loc[0, "rent"] = np.nan  # a row that is left out comes before it
    frame.loc[2, "area"] = np.inf
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    expected = f"Error: {path}, row 3, column 'area': the value is infinity"
    assert expected in run("evaluate", model, path).stderr
    assert refused(run("evaluate", model, new, "--ood", path)).startswith(expected)
    assert expected in run("report", model, path, "--out", tmp_path / "a.html").stderr
