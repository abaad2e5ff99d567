"""Every family through its estimator: fit, predict, and distributions in the user's units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import simpson
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, SCALARS, VECTORS, numbers, targets
from natpn import NatPNRegressor, families
from natpn.families import FAMILIES

ROWS = 160
DISCRETE = {"bernoulli", "poisson", "negative_binomial"}


@pytest.fixture(scope="module", params=FAMILIES)
def fitted(request):
    X, y = targets(request.param, ROWS)
    model = clone(CLASSIFIER) if request.param == "categorical" else clone(REGRESSOR).set_params(family=request.param)
    return request.param, model.set_params(max_epochs=25).fit(X, y), X, y


def test_predictions_follow_the_targets(fitted):
    name, model, X, y = fitted
    assert type(model.family_) is FAMILIES[name]
    prediction = model.predict(X)
    assert prediction.shape == y.shape
    assert np.isfinite(model.score(X, y))
    if name == "categorical":
        assert model.score(X, y) > 0.8
    else:
        assert np.corrcoef(prediction.ravel(), y.ravel())[0, 1] > 0.25
    if name != "categorical":
        centre, std = model.predict(X, return_std=True)
        assert_array_equal(centre, prediction)
        assert std.shape == y.shape
        assert (std > 0).all()


def test_a_distribution_has_all_that_was_promised(fitted):
    _, model, X, y = fitted
    distribution = model.predict_dist(X)
    assert len(distribution) == ROWS
    assert f"{ROWS} × " in repr(distribution)
    for attribute in ("aleatoric", "epistemic", "evidence", "familiarity", "novelty_p", "log_evidence"):
        values = getattr(distribution, attribute)
        assert values.shape == (ROWS,), attribute
        assert values.dtype == np.float64
        assert np.isfinite(values).all(), attribute
    for method in ("mean", "variance", "std", "entropy"):
        assert isinstance(getattr(distribution, method)(), np.ndarray)
    assert_allclose(distribution.std() ** 2, distribution.variance())
    assert np.isfinite(distribution.log_prob(y)).all()
    drawn = distribution.sample(3, random_state=1)
    assert drawn.shape == (3, *y.shape)
    assert_array_equal(drawn, distribution.sample(3, random_state=1))
    assert np.any(drawn != distribution.sample(3, random_state=2))
    assert_allclose(distribution.evidence, np.exp(model.score_samples(X)))
    n_prior = np.exp(model.model_.prior_log_n)
    assert_allclose(distribution.familiarity, distribution.evidence / (n_prior + distribution.evidence))
    assert_allclose(distribution.epistemic, -np.log(n_prior + distribution.evidence), atol=1e-12)


def test_far_away_the_prior_speaks(fitted):
    _, model, X, _ = fitted
    distribution = model.predict_dist(X[:1] + 1e4)
    assert distribution.familiarity < 1e-3
    assert_allclose(distribution.epistemic, -model.model_.prior_log_n, atol=1e-3)
    assert distribution.epistemic > np.median(model.predict_dist(X).epistemic) + 1
    assert_allclose(distribution.novelty_p, 1 / (len(model.calibration_.log_evidence) + 1))


@pytest.mark.parametrize("name", SCALARS)
def test_quantile_and_cdf_are_inverse(name):
    X, y = targets(name, 80)
    distribution = clone(REGRESSOR).set_params(family=name).fit(X, y).predict_dist(X[:20])
    y = y[:20]
    q = distribution.cdf(y)
    # a hair lower, since for counts the quantile is the smallest that reaches its level
    found = distribution.quantile(q * (1 - 1e-13)).diagonal()
    inner = (q > 1e-6) & (q < 1 - 1e-6)
    assert inner.mean() > 0.8 or name == "bernoulli"
    assert_allclose(found[inner], y[inner], rtol=1e-6, atol=1e-8)
    levels = distribution.quantile([0.1, 0.5, 0.9])
    assert levels.shape == (20, 3)
    assert (np.diff(levels, axis=1) >= 0).all()
    assert_array_equal(levels[:, 1], distribution.median())
    assert_allclose(distribution.interval(0.8), levels[:, [0, 2]], rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in SCALARS if name not in DISCRETE])
def test_log_prob_is_a_density_in_the_users_units(name):
    """It integrates to the difference of the cdf, for targets in thousands."""
    X, y = targets(name, 80)
    model = clone(REGRESSOR).set_params(family=name).fit(X, 1e3 * y)
    for low, high, x in zip(*model.predict_quantiles(X[:5], [0.1, 0.9]).T, X, strict=False):
        grid = np.linspace(low, high, 201)
        density = np.exp(model.predict_dist(np.tile(x, (201, 1))).log_prob(grid))
        assert_allclose(simpson(density, x=grid), 0.8, rtol=1e-3)


@pytest.mark.parametrize("name", [name for name in SCALARS if name in DISCRETE])
def test_probabilities_of_counts_sum_to_the_cdf(name):
    X, y = targets(name, 80)
    distribution = clone(REGRESSOR).set_params(family=name).fit(X, y).predict_dist(X[:5])
    top = 1 if name == "bernoulli" else 6
    total = sum(np.exp(distribution.log_prob(np.full(5, float(k)))) for k in range(top + 1))
    assert_allclose(total, distribution.cdf(np.full(5, float(top))), rtol=1e-9)


@pytest.mark.parametrize("name", ["normal", "multivariate_normal"])
def test_shifted_and_scaled_targets_give_shifted_and_scaled_predictions(name):
    X, y = targets(name, 80)
    plain, moved = (clone(REGRESSOR).set_params(family=name).fit(X, t) for t in (y, 1e3 * y + 5e3))
    assert_allclose(moved.predict(X), 1e3 * plain.predict(X) + 5e3, rtol=1e-4)
    a, b = plain.predict_dist(X), moved.predict_dist(X)
    assert_allclose(b.std(), 1e3 * a.std(), rtol=1e-3)
    change = np.log(1e3) * (y.shape[1] if y.ndim == 2 else 1)
    for method in ("entropy", "aleatoric"):
        first, second = (getattr(d, method) for d in (a, b))
        first, second = (value() if callable(value) else value for value in (first, second))
        assert_allclose(second, first + change, atol=1e-3)
    assert_allclose(b.log_prob(1e3 * y + 5e3), a.log_prob(y) - change, atol=1e-2)
    assert_allclose(a.familiarity, b.familiarity, rtol=1e-4)


@pytest.mark.parametrize("name", ["lognormal", "gamma", "exponential"])
def test_scaled_positive_targets_give_scaled_predictions(name):
    X, y = targets(name, 80)
    plain, scaled = (clone(REGRESSOR).set_params(family=name).fit(X, t) for t in (y, 1e3 * y))
    assert_allclose(scaled.predict(X), 1e3 * plain.predict(X), rtol=1e-4)
    assert_allclose(scaled.predict_interval(X), 1e3 * plain.predict_interval(X), rtol=1e-3)
    assert_allclose(
        scaled.predict_dist(X).log_prob(1e3 * y), plain.predict_dist(X).log_prob(y) - np.log(1e3), atol=1e-3
    )


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_vectors_have_no_intervals(name):
    X, y = targets(name, 40)
    model = clone(REGRESSOR).set_params(family=name).fit(X, y)
    for method in (model.predict_interval, model.predict_quantiles):
        with pytest.raises(ValueError, match="vectors as targets, which have no order"):
            method(X)
    with pytest.raises(ValueError, match="has vectors as targets, which have no intervals"):
        clone(model).set_params(calibrate="conformal").fit(X, y)
    with pytest.raises(ValueError, match=r"bad input shape|y should be"):
        clone(model).fit(X, y[:, 0])
    assert list(model.predict_frame(X).columns[:2]) == ["prediction_0", "prediction_1"]


def test_counts_of_classes_come_back_in_trials():
    """In counts where every row had as many trials, else in shares; R² compares shares."""
    X, y = targets("multinomial", 80)
    model = clone(REGRESSOR).set_params(family="multinomial", max_epochs=20).fit(X, y)
    assert_allclose(model.predict(X).sum(1), 10)
    assert (model.predict_dist(X).sample(2, random_state=0).sum(-1) == 10).all()
    uneven = y * np.where(np.arange(80) % 2, 1, 3)[:, None]
    other = clone(model).fit(X, uneven)
    assert_allclose(other.predict(X).sum(1), 1)
    assert_allclose(other.score(X, uneven), other.score(X, y))
    assert other.score(X, uneven) > 0.3


def test_classes_have_no_order():
    X, y = targets("categorical", 60)
    distribution = clone(CLASSIFIER).fit(X, y).predict_dist(X)
    for call in (lambda: distribution.cdf(y), lambda: distribution.quantile(0.5), lambda: distribution.interval(0.9)):
        with pytest.raises(ValueError, match="classes have no order"):
            call()
    with pytest.raises(ValueError, match="the label 'other' was not in training, where there were 'low', 'middle'"):
        distribution.log_prob(["other"] * 60)
    assert_array_equal(distribution.mode(), distribution.classes[distribution.mean().argmax(1)])
    assert set(distribution.sample(5, random_state=0).ravel()) <= {"low", "middle", "top"}


def test_a_family_may_be_given_with_its_parameters():
    X, y = targets("gamma", 60)
    model = clone(REGRESSOR).set_params(family=families.get("gamma", shape=2.0)).fit(X, y)
    assert model.family_.shape == 2.0
    with pytest.raises(ValueError, match="classes are for NatPNClassifier"):
        NatPNRegressor("categorical").fit(X, y)
    with pytest.raises(ValueError, match="Did you mean 'normal'"):
        NatPNRegressor("norml").fit(X, y)
    with pytest.raises(ValueError, match="family: expected a name, a Family or 'auto', got 3"):
        NatPNRegressor(3).fit(X, y)
    with pytest.raises(ValueError, match=r"y: expected a count \(0, 1, 2, …\), got .* at index"):
        NatPNRegressor("poisson").fit(X, y)


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("Normal", numbers(60)[1]),
        ("Normal", 1000 + np.arange(60.0)),
        ("Normal", np.full(60, 2.0)),
        ("Poisson", np.arange(60.0) % 5),
        ("LogNormal", 10 ** np.linspace(-3, 3, 60)),
        ("LogNormal", 50 * np.exp(0.4 * np.linspace(-2, 2, 60) ** 3 / 4)),  # less than two decades
        ("Normal", 100 * np.exp(0.05 * np.linspace(-2, 2, 60))),  # as good as a straight line
        ("Normal", 10 - 10 ** np.linspace(-3, 0.9, 60)),  # a long lower tail
        ("Normal", 10 ** np.linspace(-3, 3, 60) - 0.001),  # a zero
        ("MultivariateNormal", numbers(60)[0]),
        ("Normal", numbers(60)[1][:, None]),
    ],
)
def test_auto_picks_and_says_what(name, y, capsys):
    X = numbers(60)[0]
    model = NatPNRegressor("auto", max_epochs=1, random_state=0, verbose=1).fit(X, y)
    assert type(model.family_).__name__ == name
    assert f"family: {name}(" in capsys.readouterr().out


def test_a_lognormal_has_a_spread_in_place_of_a_standard_deviation():
    X, y = targets("lognormal", 60)
    model = clone(REGRESSOR).set_params(family="lognormal").fit(X, y)
    centre, spread = model.predict(X, return_std=True)
    lower, upper = model.predict_quantiles(X, [0.15865, 0.84135]).T
    assert_allclose(spread, (upper - lower) / 2, rtol=1e-6)
    assert_allclose(centre, model.predict_quantiles(X, 0.5))


@pytest.mark.parametrize(
    ("name", "chi", "mean"),
    [
        ("normal", (5e3, 1e6), 5e3),
        ("lognormal", (np.log(5e3), 1.0), None),
        ("poisson", 7.0, 7.0),
        ("gamma", 2e3, 2e3),
        ("exponential", 2e3, 2e3),
        ("bernoulli", 0.25, 0.25),
        ("multivariate_normal", (1.0, 2, 3, *(1.0, 0, 1, 0, 0, 1)), (1.0, 2, 3)),
    ],
)
def test_a_prior_is_in_the_users_units(name, chi, mean):
    """Far away the prediction is the prior's, whatever the units of the targets."""
    X, y = targets(name, 60)
    y = 1e3 * y + 300 if name == "normal" else y
    model = clone(REGRESSOR).set_params(family=name, prior=(chi, 50.0)).fit(X, y)
    far = model.predict_dist(X[:1] + 1e6)
    assert_allclose(np.exp(model.model_.prior_log_n), 50)
    if name == "lognormal":
        assert_allclose(far.median(), 5e3, rtol=1e-5)
    else:
        assert_allclose(far.mean()[0], mean, rtol=1e-5)
    if name == "normal":
        assert_allclose(far.quantile(0.5 + 0.34134), 6e3, rtol=0.01)
    evidence = model.family_.prior(np.atleast_1d(chi).tolist() if np.ndim(chi) else chi, 50.0)
    again = clone(model).set_params(prior=evidence).fit(X, y)
    assert_allclose(again.predict(X[:1] + 1e6), model.predict(X[:1] + 1e6), rtol=1e-5)
