"""Images, arrays of any shape, modules as encoders, and torch data sets."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers
from natpn import NatPNClassifier, NatPNRegressor
from natpn.densities import DENSITIES, GaussianMixture
from natpn.model import ArrayInputs
from natpn.model.inputs import ArrayParts
from natpn.network.budgets import BUDGETS

ROWS = 60


def images(channels=1, size=8):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, channels, size, size)).astype(np.float32)
    y = generator.integers(0, 2, ROWS)
    X[:, :, : size // 2] += 2 * y[:, None, None, None]
    return X, y


def flattener(n_features=64, latent_dim=16):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(n_features, latent_dim))


@pytest.mark.parametrize("channels", [1, 3])
def test_images(channels):
    X, y = images(channels)
    model = NatPNClassifier(max_epochs=20, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.n_features_in_ == channels * 64
    far = model.predict_dist(X + 100)
    assert (far.familiarity < 0.01).all()
    assert_array_equal(model.predict(torch.from_numpy(X)), model.predict(X))
    assert_array_equal(model.predict(X.tolist()), model.predict(X))
    with pytest.raises(ValueError, match=r"in training one input had shape \(\d, 8, 8\)"):
        model.predict(X[..., :4])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.predict(X[:0])


def test_bytes_of_pixels_and_numbers_as_targets():
    X, y = images()
    pixels = np.clip(30 * X + 100, 0, 255).astype(np.uint8)
    model = clone(REGRESSOR).fit(pixels, y * 100.0)
    assert model.predict(pixels).shape == (ROWS,)
    assert model.predict_interval(pixels).shape == (ROWS, 2)
    assert_allclose(model.predict(pixels[:1]), model.predict(pixels)[:1], rtol=1e-4)


def test_an_encoder_by_name():
    X, y = images(size=16)
    model = clone(CLASSIFIER).set_params(encoder="resnet18", ensemble_size=1, max_epochs=1).fit(X[:12], y[:12])
    assert model.predict(X[:12]).shape == (12,)
    with pytest.raises(
        ValueError, match=r"'tabular' is not for inputs of shape .* choose 'auto', 'image', 'resnet9', 'resnet18'"
    ):
        clone(CLASSIFIER).set_params(encoder="tabular").fit(X, y)
    with pytest.raises(ValueError, match=r"'image' is not for inputs of shape \(2,\); choose 'auto', 'tabular'"):
        clone(CLASSIFIER).set_params(encoder="image").fit(*classes(40))
    with pytest.raises(ValueError, match=r"'image' is not for inputs of shape \(16, 16\)"):
        clone(CLASSIFIER).set_params(encoder="image").fit(X[:, 0], y)


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 8, 8), (2, 2, 4, 4)])
def test_a_module_for_inputs_of_any_number_of_dimensions(shape):
    X, y = images()
    X = X.reshape(ROWS, *shape)
    module = flattener()
    start = module[1].weight.clone()
    model = NatPNClassifier(encoder=module, max_epochs=30, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert torch.equal(module[1].weight, start)  # fit trains a copy, as clone has to give an unfitted one
    assert model.predict_dist(X).familiarity.shape == (ROWS,)


@pytest.mark.parametrize("shape", [(8, 8), (2, 2, 4, 4)])
def test_inputs_of_other_shapes_are_flattened_without_an_encoder(shape):
    X, y = images()
    X = X.reshape(ROWS, *shape)
    assert NatPNClassifier(max_epochs=10, random_state=0).fit(X, y).score(X, y) > 0.9


def test_a_module_keeps_the_names_of_a_frame():
    pandas = pytest.importorskip("pandas")
    X, y = classes(40)
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = clone(CLASSIFIER).set_params(encoder=nn.Linear(2, 16)).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "c"}))


def test_a_module_of_another_size_is_refused():
    X, y = images()
    with pytest.raises(ValueError, match=r"encoder: it returned shape .* latent_dim = 16 is needed"):
        clone(CLASSIFIER).set_params(encoder=flattener(latent_dim=5)).fit(X, y)
    model = clone(CLASSIFIER).set_params(encoder=flattener(latent_dim=5), latent_dim=5).fit(X, y)
    assert model.predict(X).shape == (ROWS,)


@pytest.mark.parametrize(
    ("X", "message"), [(np.full((4, 1, 8, 8), np.nan), "finite"), (np.full((4, 1, 8, 8), "a"), "numbers")]
)
def test_arrays_hold_finite_numbers(X, message):
    with pytest.raises(ValueError, match=f"X: expected .*{message}"):
        clone(CLASSIFIER).fit(X, [0, 1, 0, 1])


class Squares(Dataset):
    """A data set that makes its items when asked."""

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        X, y = images()
        return X[i], int(y[i])


def test_a_data_set_is_its_arrays():
    X, y = images()
    want = clone(CLASSIFIER).fit(X, y)
    for data in (TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), Squares()):
        model = clone(CLASSIFIER).fit(data)
        assert_array_equal(model.predict_proba(X), want.predict_proba(X))
        assert_array_equal(model.predict_proba(data), want.predict_proba(X))
        assert model.score(data, y) == want.score(X, y)
        assert len(model.predict_frame(data)) == ROWS
    without = TensorDataset(torch.from_numpy(X))
    assert_array_equal(want.predict(without), want.predict(X))


def test_a_data_set_may_be_a_table():
    X, y = numbers(60)
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    model = clone(REGRESSOR).fit(data)
    assert_array_equal(model.predict(data), clone(REGRESSOR).fit(X, y).predict(X))


def test_a_data_set_with_weights_and_one_to_validate():
    X, y = images()
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    weight = np.arange(ROWS) % 3
    weighted = clone(CLASSIFIER).fit(data, sample_weight=weight)
    assert_array_equal(weighted.predict_proba(X), clone(CLASSIFIER).fit(X, y, weight).predict_proba(X))
    held_out = clone(CLASSIFIER).fit(data, X_val=data)
    assert_array_equal(held_out.predict_proba(X), clone(CLASSIFIER).fit(X, y, X_val=X, y_val=y).predict_proba(X))


def test_a_data_set_that_cannot_be_is_named():
    X, y = images()
    pairs = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    with pytest.raises(ValueError, match="y: a torch data set brings its own targets"):
        clone(CLASSIFIER).fit(pairs, y)
    with pytest.raises(ValueError, match=r"expected a data set with items \(x, y\)"):
        clone(CLASSIFIER).fit(TensorDataset(torch.from_numpy(X)))
    with pytest.raises(ValueError, match="with a length above 0"):
        clone(CLASSIFIER).fit(TensorDataset(torch.zeros(0, 2), torch.zeros(0)))


def test_tensors_are_arrays():
    X, y = numbers(60)
    model = clone(REGRESSOR).fit(torch.from_numpy(X), torch.from_numpy(y))
    assert_array_equal(model.predict(torch.from_numpy(X)), clone(REGRESSOR).fit(X, y).predict(X))


@pytest.mark.parametrize("density", DENSITIES)
def test_every_density(density):
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(density=density, latent_dim=2, ensemble_size=1).fit(X, y)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.median(model.score_samples(X)) > model.score_samples(X[:1] + 1e4)[0]


def test_a_density_may_be_given():
    X, y = numbers(60)
    given = GaussianMixture(19, 2)  # 16 latent numbers, 2 components of the input
    with pytest.raises(ValueError, match="density: it is over"):
        clone(REGRESSOR).set_params(density=given).fit(X, y)
    given = GaussianMixture(18, 2)
    model = NatPNRegressor(density=given, max_epochs=2, random_state=0).fit(X, y)
    assert model.predict_dist(X[:1] + 1e4).familiarity < 1e-3
    assert all(member.density is not given for member in model.network_.members)
    assert clone(model).density is not given


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("scheme", ["staged", "paper"])
def test_every_budget_and_scheme(budget, scheme):
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(budget=budget, scheme=scheme).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.predict_dist(X[:1] + 1e6).familiarity < 1e-2


def test_devices():
    X, y = numbers(40)
    want = clone(REGRESSOR).fit(X, y).predict(X)
    for device in ("cpu", "auto"):
        assert_allclose(clone(REGRESSOR).set_params(device=device).fit(X, y).predict(X), want, rtol=1e-3)
    with pytest.raises(ValueError, match="device: expected"):
        clone(REGRESSOR).set_params(device="abacus").fit(X, y)


def test_a_bar_is_shown_if_asked_for(capsys):
    X, y = numbers(40)
    for verbose in (0, 1):
        NatPNRegressor(max_epochs=2, ensemble_size=2, random_state=0, verbose=verbose).fit(X, y)
        shown = capsys.readouterr()
        assert shown.out == (
            "family: Normal(), for numbers of either sign, or without a long upper tail\n" if verbose else ""
        )
        assert bool(shown.err) == bool(verbose)
    assert shown.err.count("\n") == 1  # one bar, however many members


def test_a_checkpoint_of_a_fit_on_other_data_is_refused(tmp_path):
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(checkpoint_dir=tmp_path)
    first = clone(model).fit(X, y).predict(X)
    assert_array_equal(clone(model).fit(X, y).predict(X), first)
    with pytest.raises(ValueError, match="of a run with other training data"):
        clone(model).fit(X, y**2)


def test_a_function_makes_an_encoder_for_each_member():
    """Copies of a module start alike; what a function makes starts with weights of its own, the same for a seed."""
    X, y = images()

    def starts(encoder):
        model = NatPNClassifier(encoder=encoder, ensemble_size=2, max_epochs=1, learning_rate=1e-12, random_state=0)
        members = model.fit(X, y).network_.members
        return [next(member.encoder.parameters()).float() for member in members]

    copies, made = starts(flattener()), starts(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16)))
    assert torch.allclose(copies[0], copies[1], atol=1e-6)
    assert not torch.allclose(made[0], made[1], atol=1e-2)
    again = starts(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16)))
    assert torch.equal(made[1], again[1])


def test_a_cell_far_down_is_named_by_its_row_in_the_whole_table(monkeypatch):
    monkeypatch.setattr("natpn.model.inputs._AT_ONCE", 8192)
    X, y = numbers(60)
    model = NatPNRegressor(max_epochs=1, random_state=0).fit(X, y)
    many = np.resize(X, (20_000, X.shape[1]))
    many[17_000, 0] = np.inf
    with pytest.raises(ValueError, match="row 17000: the value is infinity"):
        model.predict(many)
    many[17_000, 0] = 0
    assert_allclose(model.predict(many)[[0, 9000, 19_999]], model.predict(many[[0, 9000, 19_999]]), rtol=1e-9)


@pytest.mark.parametrize("shape", [(4,), (3, 2, 2), (5, 2)])
def test_arrays_in_parts_are_standardised_as_a_whole(shape):
    rows = np.random.default_rng(0).normal(size=(90, *shape)) + np.arange(90).reshape(90, *[1] * len(shape))
    parts, others = ArrayParts(), [ArrayParts(), ArrayParts(), ArrayParts()]
    for part, some in zip(others[:2], (rows[:10], rows[10:]), strict=True):
        part.add(some)
    parts.join(others)  # one of which saw nothing
    whole, joined = ArrayInputs().fit(rows), ArrayInputs().fit_parts(parts, None)
    assert_allclose(joined.mean, whole.mean, atol=1e-4)
    assert_allclose(joined.scale, whole.scale, rtol=1e-6)
    with pytest.raises(ValueError, match="expected inputs of one shape"):
        parts.add(np.zeros((1, 7)))
