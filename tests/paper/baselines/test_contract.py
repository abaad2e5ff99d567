"""What holds for every baseline: scikit-learn's checks, a known answer, finite answers far away, and determinism."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

from natpn.training.session import Session
from paper.baselines.problems import CASES, NOISE, OWN, clusters, counts, line, problem, quick

ALL = pytest.mark.parametrize(("name", "target"), CASES)
EACH = pytest.mark.parametrize(("name", "target"), OWN)
# These ask for accuracy. All others are about the interface, where few epochs do.
ACCURATE = ("check_classifiers_train", "check_regressors_train")
ACCURATE_EPOCHS = {"PostNetClassifier": {"max_epochs": 20}}  # for the others five long steps do
# Dropout takes its own noise for that of the data, and the likelihood of EvReg does not tell one from the other.
STD, COVERAGE = {"Dropout": 0.35}, {"Dropout": 0.08}
ALEATORIC = {"Dropout": 0.3, "EvReg": 0.5}
# Of each base class one baseline has all of scikit-learn's checks, the others those of what they write themselves.
SHARED = (
    "StandardNetClassifier",
    "StandardNetRegressor",
    "DropoutClassifier",
    "DropoutRegressor",
    "RPriorNetClassifier",
)
OWN_CHECKS = (
    *ACCURATE,
    "check_classifiers_classes",
    "check_dict_unchanged",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dont_overwrite_parameters",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_get_params_invariance",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
)


def names(target):
    """The baselines that have a kind of target."""
    return [name for name, other in OWN if other == target]


def checks():
    """Yield scikit-learn's checks with the models that they are for."""
    for name, target in OWN:
        kind = type(quick(name, target)).__name__
        if target == "poisson":
            continue
        for model, check in estimator_checks_generator(quick(name, target, random_state=None)):
            what, options = getattr(check, "func", check).__name__, getattr(check, "keywords", {})
            own = what in OWN_CHECKS and not options.get("readonly_memmap")
            if own or kind in SHARED:
                yield pytest.param(model, check, id="-".join([kind, what, *options]))


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else the check of the array API skips itself
    if getattr(check, "func", check).__name__ in ACCURATE:
        enough = ACCURATE_EPOCHS.get(type(estimator).__name__, {"max_epochs": 5, "learning_rate": 1e-2})
        estimator = clone(estimator).set_params(**enough)
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("classes"))
def test_separable_classes_are_told_apart(name):
    X, y = clusters(400)
    model = quick(name, "classes", max_epochs=40).fit(X, y)
    new, truth = clusters(400, seed=1)
    assert model.score(new, truth) > 0.95
    assert (model.predict_dist(new).mode() == truth).mean() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", names("classes"))
def test_probabilities_of_overlapping_normals_are_those_of_bayes(name):
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=1000)
    X = generator.normal(size=(1000, 1)) + (2 * y - 1)[:, None]
    model = quick(name, "classes", max_epochs=40).fit(X, y)
    grid = np.linspace(-2, 2, 41)[:, None]
    p = model.predict_proba(grid)[:, 1]
    assert np.abs(p - 1 / (1 + np.exp(-2 * grid[:, 0]))).mean() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", names("normal"))
def test_a_plane_and_its_noise_are_found(name):
    X, y = line(1000)
    model = quick(name, "normal", max_epochs=40).fit(X, y)
    new, truth = line(1000, seed=1)
    distribution = model.predict_dist(new)
    assert np.sqrt(np.mean((distribution.mean() - truth) ** 2)) < 1.1 * NOISE
    assert np.median(distribution.std()) == pytest.approx(NOISE, rel=STD.get(name, 0.15))
    low, high = distribution.interval(0.9).T
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(0.9, abs=COVERAGE.get(name, 0.05))
    want = 0.5 * np.log(2 * np.pi * np.e * NOISE**2)
    assert np.median(distribution.aleatoric) == pytest.approx(want, abs=ALEATORIC.get(name, 0.15))


@pytest.mark.slow
@pytest.mark.parametrize("name", names("poisson"))
def test_rates_of_counts_are_found(name):
    X, y = counts(1000)
    model = quick(name, "poisson", max_epochs=40).fit(X, y)
    new, _ = counts(500, seed=1)
    assert_allclose(model.predict(new), np.exp(2 + new @ [0.5, -0.3]), rtol=0.4)
    assert np.mean(np.abs(np.log(model.predict(new)) - (2 + new @ [0.5, -0.3]))) < 0.07


@EACH
def test_far_inputs_have_finite_answers(name, target):
    X, y = problem(target, 120)
    model = quick(name, target).fit(X, y)
    for scale in (1e6, -1e6, 1e30):
        found = model.predict_dist(scale * X[:20])
        values = [found.mean(), found.variance(), found.aleatoric, found.entropy()]
        values += [] if name == "StandardNet" else [found.epistemic]
        assert all(np.isfinite(value).all() for value in values)


@EACH
def test_only_a_plain_network_has_no_epistemic_uncertainty(name, target):
    X, y = problem(target, 60)
    model = quick(name, target).fit(X, y)
    epistemic = model.predict_dist(X).epistemic
    assert epistemic.shape == (60,)
    assert np.isnan(epistemic).all() == np.isnan(epistemic).any() == (name == "StandardNet")
    assert_array_equal(model.score_samples(X), -epistemic)


@EACH
def test_the_seed_decides_and_pickles_agree(name, target):
    X, y = problem(target, 60)
    first, again, other = (quick(name, target, random_state=seed).fit(X, y) for seed in (3, 3, 4))
    want = first.predict_dist(X).mean()
    assert_array_equal(again.predict_dist(X).mean(), want)
    assert_array_equal(pickle.loads(pickle.dumps(first)).predict_dist(X).mean(), want)
    assert_array_equal(first.predict_dist(X).mean(), want)
    assert not np.allclose(other.predict_dist(X).mean(), want)


@EACH
def test_a_killed_fit_goes_on_to_the_same_result(name, target, tmp_path, monkeypatch):
    X, y = problem(target, 60)
    want = quick(name, target, max_epochs=4).fit(X, y)
    save, saved = Session.save, []

    def killed(self, running):
        save(self, running)
        saved.append(running)
        if running is not None and running["epoch"] == 3 and running["phase"] in ends:
            raise KeyboardInterrupt

    ends = {"training 1", want.history_[-1]["phase"]}
    model = quick(name, target, max_epochs=4, checkpoint_dir=tmp_path)
    monkeypatch.setattr(Session, "save", killed)
    for _ in ends.copy():
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    before = len(saved)
    ends.clear()
    assert_array_equal(model.fit(X, y).predict_dist(X).mean(), want.predict_dist(X).mean())
    assert len(saved) == before + 2  # the epoch that was left, and the end
    assert model.history_ == want.history_


@EACH
def test_the_global_generator_is_left_alone(name, target):
    X, y = problem(target, 60)
    state = torch.get_rng_state()
    quick(name, target).fit(X, y).predict_dist(X)
    assert torch.equal(torch.get_rng_state(), state)


@EACH
def test_whole_weights_are_repetitions(name, target):
    X, y = problem(target, 60)
    weight = np.random.default_rng(1).integers(0, 3, 60)
    weighted = quick(name, target).fit(X, y, sample_weight=weight)
    repeated = quick(name, target).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    assert_allclose(weighted.predict_dist(X).mean(), repeated.predict_dist(X).mean(), rtol=1e-6)


@EACH
def test_validation_rows_may_be_given(name, target):
    X, y = problem(target, 60)
    model = quick(name, target).fit(X[:40], y[:40], X_val=X[40:], y_val=y[40:])
    assert model.n_rows_ == 40
    assert "validation_loss" in model.history_[-1]


@EACH
def test_frames_come_with_uncertainties(name, target):
    pandas = pytest.importorskip("pandas")
    X, y = problem(target, 60)
    X = pandas.DataFrame(X, columns=["a", "b"])
    frame = quick(name, target).fit(X, y).predict_frame(X)
    assert {"prediction", "aleatoric", "epistemic"} <= set(frame.columns)
    assert frame.index.equals(X.index)


@EACH
def test_an_encoder_of_ones_own_is_copied(name, target):
    X, y = problem(target, 60)
    encoder = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 5))
    before = [p.clone() for p in encoder.parameters()]
    model = quick(name, target, encoder=encoder, latent_dim=5).fit(X, y)
    assert len(model.predict(X)) == 60
    assert all(torch.equal(p, q) for p, q in zip(encoder.parameters(), before, strict=True))
    with pytest.raises(ValueError, match=r"encoder: expected outputs with latent_dim = 4 .* got shape"):
        quick(name, target, encoder=encoder, latent_dim=4).fit(X, y)


@EACH
def test_images_use_the_image_encoder(name, target):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(12, 1, 8, 8))
    y = {"classes": np.arange(12) % 2, "normal": X[:, 0, 0, 0], "poisson": np.arange(12)}[target]
    found = quick(name, target, max_epochs=1).fit(X, y).predict_dist(X)
    assert np.isfinite(found.aleatoric).all()


@EACH
@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("latent_dim", 0, "latent_dim: expected a whole number of at least 1, got 0"),
        ("max_epochs", 1.5, "max_epochs: expected a whole number"),
        ("batch_size", 0, "batch_size: expected a whole number"),
        ("patience", 0, "patience: expected a whole number"),
        ("learning_rate", -1.0, "learning_rate: expected a number above 0, got -1.0"),
        ("validation_fraction", 1.0, "validation_fraction: expected a share between 0 and 1, got 1.0"),
        ("encoder", "image", "encoder: 'image' is not for inputs of shape"),
    ],
)
def test_wrong_parameters_are_named(name, target, parameter, value, message):
    X, y = problem(target, 20)
    with pytest.raises(ValueError, match=message):
        quick(name, target, **{parameter: value}).fit(X, y)


@ALL
def test_intervals_and_samples_agree_with_the_distribution(name, target):
    X, y = problem(target, 60)
    found = quick(name, target).fit(X, y).predict_dist(X)
    drawn = found.sample(4000, random_state=0)
    assert drawn.shape == (4000, 60)
    if target == "classes":
        shares = (drawn[..., None] == found.classes).mean(0)
        assert_allclose(shares, found.probabilities, atol=0.05)
        return
    assert_allclose((drawn <= found.quantile(0.7)).mean(0), found.cdf(found.quantile(0.7)), atol=0.04)
    assert found.interval(0.8).shape == (60, 2)
    assert_allclose(found.interval(0.8), found.quantile([0.1, 0.9]))
