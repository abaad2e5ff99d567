"""The sentences are right where the answer is known."""

import re
from dataclasses import replace

import numpy as np
import pytest

from natpn import metrics
from natpn.families import FAMILIES
from natpn.model.inputs import evenly
from natpn.report import count_figure, figures, story
from natpn.report.facts import Facts
from natpn.report.key_numbers import key_numbers
from natpn.report.scores import LEVELS
from natpn.report.words import share


def facts(error, *, classes=None, **more):
    """Facts of rows whose evidence grows with their number."""
    n = len(error)
    given = {
        "n_given": n,
        "index": np.arange(n),
        "truth": np.asarray(error, float),
        "prediction": np.zeros(n),
        "error": np.asarray(error, float),
        "log_evidence": np.arange(n, dtype=float),
        "familiarity": np.ones(n),
        "novelty_p": np.ones(n),
        "held_out": np.arange(100.0),
        "log_prob": -np.asarray(error, float),
        "classes": classes,
        "central": more.get("inside"),
    }
    return Facts(**(given | more))


LABELS = np.array(["cat", "dog"])


def test_every_family_is_described():
    said = {kind.predicts for kind in FAMILIES.values()}
    assert "" not in said
    assert len(said) == len(FAMILIES)


def test_errors_among_the_least_known_rows_are_counted():
    error = np.zeros(1000)
    error[:34] = 1  # of the 100 least known
    error[200:218] = 1  # of the other 900
    said = story.knowing(facts(error, classes=LABELS))
    assert said[0] == "Of the 10 % of rows that the model knows least, 34 % are wrong; of the rest 2 %."
    assert said[1].startswith("So it knows when it may be wrong")


def test_errors_everywhere_are_no_knowledge():
    said = story.knowing(facts(np.arange(1000) % 10 == 0, classes=LABELS))
    assert said[0].endswith("10 % are wrong; of the rest 10 %.")
    assert "does not go with larger errors" in said[1]
    assert story.knowing(facts(np.zeros(100), classes=LABELS))[1] == "There are no errors to tell apart."
    assert story.knowing(facts([1.0, 0.0], classes=LABELS)) == [
        "2 rows are too few to compare well-known with little-known ones; it takes 20."
    ]


def test_errors_of_numbers_are_compared_by_their_median_even_if_infinite():
    error = np.linspace(1, 1.2, 200)
    error[:20] = 7.0
    error[0] = np.inf
    said = story.knowing(facts(error))
    assert said[0].startswith("In the 10 % of rows that the model knows least, the typical error is 7; in the rest 1.1")
    assert said[1].startswith("So it knows")
    middle, low, high = figures.error_groups(facts(error))
    assert np.isfinite([middle, low, high]).all()
    assert middle[0] == 7
    assert np.all(low <= middle)
    assert np.all(middle <= high)


def test_the_first_bar_is_the_tenth_that_the_sentence_is_about():
    error = (np.random.default_rng(0).random(343) < 0.3).astype(float)
    some = facts(error, classes=LABELS)
    assert figures.error_groups(some)[0][0] == error[story.least_known(some)].mean()


@pytest.mark.parametrize(
    ("sure", "wrong", "verdict"),
    [(0.9, 100, "as sure as it should be"), (0.99, 100, "too sure of itself"), (0.7, 100, "too modest")],
)
def test_certainty_is_compared_with_accuracy(sure, wrong, verdict):
    error = np.arange(1000) < wrong
    said = story.calibration(facts(error, classes=LABELS, confidence=np.full(1000, sure)))[0]
    assert f"{share(sure)} sure" in said
    assert "right in 90 %" in said
    assert verdict in said


@pytest.mark.parametrize("seed", range(3))
def test_drift_is_told_where_it_begins(seed):
    lot = np.random.default_rng(seed)
    known, evidence, error = lot.normal(size=500), lot.normal(size=1000), lot.exponential(size=1000)
    quiet = facts(error, log_evidence=evidence, held_out=known)
    assert len(story.drift(quiet)) == 1
    assert "raise a drift alarm: the evidence of a change reached" in story.drift(quiet)[0]
    strange = facts(error, log_evidence=evidence - 3 * (np.arange(1000) >= 600), held_out=known)
    assert 600 < alarm_row(story.drift(strange), "the rows raise") < 640
    wrong = facts(np.where(np.arange(1000) < 600, error, np.inf), log_evidence=evidence, held_out=known)
    assert 600 < alarm_row(story.drift(wrong), "the errors raise") < 640
    half = facts(error[::2], log_evidence=strange.log_evidence[::2], held_out=known, index=np.arange(0, 1000, 2))
    assert 600 < alarm_row(story.drift(half), "the rows raise") < 680


def alarm_row(said, what):
    assert what in said[0]
    return int(re.search(r"at row ([\d,]+)", said[0])[1].replace(",", ""))


def test_ten_rows_are_too_few_for_a_verdict():
    some = facts(np.arange(10) < 2, classes=LABELS, confidence=np.full(10, 0.9))
    assert story.calibration(some)[0].endswith("10 rows are too few to say whether that is right.")
    some = facts(np.ones(10), inside=np.full(19, 0.9))
    assert story.calibration(some)[0].endswith("10 rows are too few to say whether that is right.")


@pytest.mark.parametrize(
    ("held", "discrete", "verdict"),
    [
        (0.9, False, "as wide as they should be"),
        (0.8, False, "too narrow"),
        (0.97, False, "too wide"),
        (0.97, True, "at least their share"),
    ],
)
def test_intervals_are_compared_with_their_promise(held, discrete, verdict):
    inside = np.where(np.isclose(LEVELS, 0.9), held, LEVELS)
    said = story.calibration(facts(np.ones(1000), inside=inside, discrete=discrete))[0]
    assert f"{share(held)} do" in said
    assert verdict in said


FITS = "as wide as they should be"


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("n", [5, 19, 20, 100, 1000, 100_000])
def test_a_verdict_on_intervals_never_stands_beside_numbers_that_contradict_it(n, discrete):
    for held in np.linspace(0.5, 1, 26):
        for bend in np.linspace(-0.4, 0.4, 33):  # by how much the middle of the distribution is off
            inside = np.where(np.isclose(LEVELS, 0.9), held, LEVELS)
            central = np.clip(LEVELS + bend * np.sin(np.pi * LEVELS), 0, 1)
            said = story.calibration(facts(np.ones(n), inside=inside, central=central, discrete=discrete))
            text, doubt = " ".join(said), 2 * np.sqrt(0.09 / n)
            gap = np.abs(central - LEVELS).max()
            if n < 20:
                assert said[0].endswith("too few to say whether that is right.")
                assert len(said) == 1
                continue
            off = gap > 0.03 + 1.36 / np.sqrt(n)
            assert (FITS in text) == (abs(held - 0.9) <= doubt and not off)
            assert ("they are too narrow" in text) == (held < 0.9 - doubt)
            assert ("they are too wide" in text) == (held > 0.9 + doubt and not discrete)
            assert ("there it is too wide" in text) == (off and bend > 0)
            assert ("there it is too narrow" in text) == (off and bend < 0)


@pytest.mark.parametrize("n", [20, 200, 20_000])
def test_a_verdict_on_certainty_never_stands_beside_numbers_that_contradict_it(n):
    half = np.arange(n) < n // 2
    for low in np.linspace(0.5, 1, 11):
        for apart in np.linspace(0, 0.4, 9):  # one half of the answers is too sure, the other too modest
            sure = np.where(half, low, 0.75)
            right = np.clip(np.where(half, low - apart, 0.75 + apart), 0, 1)
            error = np.where(
                half, np.arange(n) / (n // 2) % 1 >= right, (np.arange(n) - n // 2) / (n - n // 2) >= right
            )
            some = facts(error, classes=LABELS, confidence=sure)
            (text,) = story.calibration(some)
            mean = abs(sure.mean() - 1 + error.mean())
            off = metrics.expected_calibration_error(1 - error, sure) / 100 > 0.03 + np.sqrt(10 / n)
            doubt = max(0.01, 2 * np.sqrt((sure * (1 - sure)).sum()) / n)
            assert ("it is as sure as it should be" in text) == (mean <= doubt and not off)
            assert ("not in every group" in text) == (mean <= doubt and off)
            assert ("it is too" in text) == (mean > doubt)


def test_a_model_no_better_than_a_guess_is_called_so():
    truth = np.arange(100.0)
    plain = np.abs(truth - truth.mean())
    for factor in np.linspace(0.5, 1.5, 21):
        said = story.scores(facts(factor * plain, truth=truth))
        assert ("no better than that guess" in " ".join(said)) == (factor > 0.98)
    for wrong in range(0, 100, 5):
        some = facts(np.arange(100) < wrong, classes=LABELS, truth=(np.arange(100) < 40).astype(float))
        assert ("no better than that guess" in " ".join(story.scores(some))) == (wrong >= 40)


def test_flagged_rows_are_more_or_fewer_than_expected_only_beyond_chance():
    for flagged in range(0, 200, 2):
        p = np.where(np.arange(1000) < flagged, 0.01, 0.5)
        said = story.familiarity(facts(np.zeros(1000), novelty_p=p, held_out=np.arange(1000.0)))[0]
        chance = 2 * np.sqrt(0.05 * 0.95 * 2 / 1000)
        assert ("more than the about 5 %" in said) == (flagged / 1000 > 0.05 + chance)
        assert ("fewer than the about 5 %" in said) == (flagged / 1000 < 0.05 - chance)


@pytest.mark.parametrize(
    ("predicted", "true", "verdict"),
    [(15.7, 17.1, "no more of a difference"), (20.0, 17.1, "too many there"), (14.0, 17.1, "too few there")],
)
def test_what_comes_true_of_the_most_predicted(predicted, true, verdict):
    assert verdict in story.most_predicted(predicted, true, 2.0)


def test_counts_are_grouped_by_what_was_predicted():
    rng = np.random.default_rng(0)
    rate = rng.gamma(0.5, 6, 1000)
    truth = rng.poisson(rate).astype(float)
    interval = np.stack([np.maximum(rate - 2 * np.sqrt(rate), 0), rate + 2 * np.sqrt(rate)], 1)
    some = facts(np.abs(truth - rate), truth=truth, prediction=rate, interval=interval, discrete=True)
    groups = count_figure.count_groups(some)
    most = np.argsort(rate)[-100:]
    assert groups.predicted[-1] == pytest.approx(rate[most].mean())
    assert groups.true[-1] == pytest.approx(truth[most].mean())
    assert groups.doubt[-1] == pytest.approx(2 * truth[most].std() / 10)
    assert np.all(np.diff(groups.predicted) > 0)
    assert np.abs(groups.true - groups.predicted).max() < 1.5
    svg = count_figure.counts(some)
    assert "nan" not in svg
    assert svg.count("%") >= 10  # the share inside each group's intervals
    few = facts([0.0, 1.0], truth=np.array([1.0, 0]), prediction=np.array([1.0, np.inf]), interval=np.zeros((2, 2)))
    assert len(count_figure.count_groups(few).true) == 1


def test_logarithmic_axes_have_no_formulas():
    truth = np.logspace(2, 7, 100)
    svg = figures.agreement(facts(np.ones(100), truth=truth, prediction=truth))
    assert "mathdefault" not in svg
    assert "$" not in svg
    assert ">10⁶<" in svg
    years = facts(np.ones(100), truth=np.linspace(1950, 2020, 100), prediction=np.linspace(1950, 2020, 100))
    assert ">1,960<" in figures.agreement(years)
    assert ">1960<" in figures.agreement(replace(years, thousands=False))
    prices = facts(np.ones(100), truth=np.linspace(1e5, 3e6, 100), prediction=np.linspace(1e5, 3e6, 100))
    assert ">1,000,000<" in figures.agreement(prices)  # and not 1.0 beside a factor of a million


def test_the_numbers_to_act_on():
    error = np.arange(100.0)
    interval = np.stack([error - 50, np.full(100, 200.0)], 1)
    novel = np.where(error >= 90, 0.01, 0.5)
    some = facts(error, interval=interval, novelty_p=novel)
    typical, inside, strange = key_numbers(some, "€")
    assert (typical.value, typical.beside) == ("49.5 €", "9 of 10 within 89.1 €")
    assert (inside.value, inside.beside) == ("100 %", "half are at most 200 € wide")
    assert (strange.value, strange.beside.count(";")) == ("10 %", 1)
    assert "their typical error is 94.5, that of the others 44.5" in strange.beside
    sure = np.where(np.arange(100) < 60, 0.95, 0.6)
    labels = facts(np.arange(100) >= 80, classes=LABELS, confidence=sure, truth=(np.arange(100) < 30).astype(float))
    right, certain, strange = key_numbers(labels)
    assert (right.value, right.beside) == ("80 %", "the most frequent label alone: 70 %")
    assert (certain.value, certain.beside) == ("60 %", "right in 100 % of them")
    assert strange.value == "0 %"
    few = facts(error, held_out=np.arange(5.0))
    assert key_numbers(few)[-1].value == "cannot tell"
    other = facts(error, ood=np.zeros(4), ood_novelty_p=np.array([0.01, 0.01, 0.01, 0.9]))
    assert (key_numbers(other)[-1].value, key_numbers(other)[-1].beside) == ("75 %", "of 4 rows unlike training")


def test_rows_unlike_training_are_counted_and_compared():
    p = np.where(np.arange(200) < 60, 0.01, 0.5)
    ood = {"ood": np.full(50, -1.0), "ood_novelty_p": np.where(np.arange(50) < 40, 0.01, 0.5)}
    said = story.familiarity(facts(np.zeros(200), novelty_p=p, **ood))
    assert said[0].startswith("30 % of the test rows are flagged as unlike training, more than")
    assert said.pop(1) == "So they may differ from it."
    assert (
        "Either they differ from it, or training suits"
        in story.familiarity(facts(np.zeros(200), novelty_p=p, exact=False))[1]
    )
    assert said[1].startswith("Of the 50 rows from elsewhere, 80 % are flagged.")
    assert "knows the test row better in 100 % of cases" in said[1]
    usual = np.where(np.arange(200) < 12, 0.01, 0.5)
    assert "6 % of the test rows" in story.familiarity(facts(np.zeros(200), novelty_p=usual))[0]
    assert "where about 5 % are expected" in story.familiarity(facts(np.zeros(200), novelty_p=usual))[0]


@pytest.mark.parametrize("m", [1, 19, 20, 21, 39, 40, 100, 1000])
def test_the_line_in_the_histogram_is_where_rows_begin_to_be_flagged(m):
    held_out = np.sort(np.random.default_rng(m).normal(size=m))
    some = facts(np.zeros(3), held_out=held_out)
    assert some.can_flag == (m >= 20)
    if not some.can_flag:
        assert "at least 20 are needed" in story.familiarity(some)[0]
        return
    from natpn.model.calibration import Calibration

    line = figures.alarm(held_out)
    below, at = Calibration(held_out).novelty_p(np.array([np.nextafter(line, -9), line]))
    assert below < 0.05 <= at


def test_mistakes_are_named():
    truth, prediction = np.array([0.0, 1, 1, 1, 0]), np.array([0.0, 0, 0, 1, 1])
    some = facts(truth != prediction, classes=LABELS, truth=truth, prediction=prediction)
    assert story.confusions(some) == [("dog", "cat", 2), ("cat", "dog", 1)]
    assert story.agreement(some) == ["The most frequent mistake: “dog” was taken for “cat” (2 rows)."]
    assert "right in 40 % of the test rows" in story.scores(some)[0]
    assert "most frequent label would be right in 60 %" in story.scores(some)[0]
    right = facts(np.zeros(5), classes=LABELS, truth=truth, prediction=truth)
    assert story.agreement(right) == ["Every test row got its true label."]


def test_errors_of_numbers_stand_beside_the_plainest_guess():
    some = facts([1.0, 1.0, 3.0, np.inf], truth=np.array([0.0, 0.0, 0.0, 4.0]))
    said = story.scores(some)
    assert (
        said[0]
        == "The predictions are off by 1.67 on average; always guessing the mean of the test rows would be off by 1.5."
    )
    assert said[1:] == [
        "So its predictions are no better than that guess.",
        "This leaves out 1 row without a finite prediction.",
    ]


def test_points_of_the_reliability_diagram():
    confidence = np.array([0.55, 0.55, 0.95, 1.0])
    sure, right, count = figures.reliability_points(facts([1, 0, 0, 0], classes=LABELS, confidence=confidence))
    assert sure == pytest.approx([0.55, 0.975])
    assert right == pytest.approx([0.5, 1])
    assert count == pytest.approx([2, 2])


def test_wilson_is_scipys():
    from scipy.stats import binomtest

    for hits, n in ((0, 5), (3, 7), (90, 100), (1, 1)):
        low, high = figures.wilson(np.array([float(hits)]), np.array([float(n)]))
        expected = binomtest(hits, n).proportion_ci(0.95, "wilson")
        assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_wild_predictions_do_not_set_the_axes_and_are_counted():
    truth = np.linspace(0, 10, 100)
    prediction = truth.copy()
    prediction[:3] = [1e9, -np.inf, np.nan]
    some = facts(np.zeros(100), truth=truth, prediction=prediction)
    low, high = figures.limits(some)
    assert -11 < low < 0
    assert 10 < high < 21
    assert figures.n_outside(some) == 3


def test_rows_are_spaced_evenly():
    assert evenly(3, 5).tolist() == [0, 1, 2]
    assert evenly(10, 5).tolist() == [0, 2, 4, 6, 8]
    assert len(np.unique(evenly(100_001, 100_000))) == 100_000
