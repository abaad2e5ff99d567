"""The perceptron for tables, alone and with stacked weights."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from natpn.encoders import TabularEncoder
from natpn.encoders.base import LIMIT, Dropout
from natpn.encoders.tabular import Encoding

ENCODINGS: list[Encoding] = ["plain", "piecewise"]


def test_plain_encoder_is_the_perceptron_of_the_paper() -> None:
    torch.manual_seed(0)
    encoder = TabularEncoder(6, 5, hidden=16, n_layers=2)
    x = torch.randn(7, 6)
    linear = [layer for layer in encoder.layers if isinstance(layer, nn.Linear)]
    expected = x
    for layer in linear[:-1]:
        expected = nn.functional.leaky_relu(expected @ layer.weight.T + layer.bias, 0.01)
    expected = expected @ linear[-1].weight.T + linear[-1].bias
    torch.testing.assert_close(encoder(x), expected)
    torch.testing.assert_close(encoder.eval()(x), expected)


def test_piecewise_encoder_feeds_components_to_the_perceptron() -> None:
    torch.manual_seed(0)
    encoder = TabularEncoder(2, 5, encoding="piecewise", knots=4)
    X = torch.randn(100, 2)
    assert encoder.fit_knots(X) is encoder
    torch.testing.assert_close(encoder.encoding.knots[:, [0, -1]].T, torch.stack([X.amin(0), X.amax(0)]))
    torch.testing.assert_close(encoder(X), encoder.layers(encoder.encoding(X)))


def test_plain_encoder_has_no_knots_to_fit() -> None:
    encoder = TabularEncoder(2, 5)
    before = encoder.state_dict()
    assert encoder.fit_knots(torch.randn(10, 2)) is encoder
    assert encoder.state_dict().keys() == before.keys()


def test_latent_is_cut_at_the_limit() -> None:
    torch.manual_seed(0)
    encoder = TabularEncoder(2, 5).eval()
    with torch.no_grad():
        encoder.layers[-1].weight.fill_(1e3)
    assert encoder(torch.full((1, 2), 1e30)).abs().max() == torch.tensor(LIMIT)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_feature_alone_moves_the_latent_away(encoding: Encoding) -> None:
    torch.manual_seed(0)
    X = torch.randn(200, 4)
    X[:, 3] = 1.5
    encoder = TabularEncoder(4, 8, encoding=encoding).fit_knots(X).eval()
    typical = encoder(X).norm(dim=1).max()
    for column in range(4):
        for sign in (1, -1):
            norms = []
            for distance in (1e3, 1e5, 1e7):
                far = X[:20].clone()
                far[:, column] = sign * distance
                norms.append(encoder(far).norm(dim=1))
            assert (norms[0] > typical).all()
            assert (norms[1] > 50 * norms[0]).all()
            assert (norms[2] > 50 * norms[1]).all()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_stacked_members_equal_members_one_by_one(encoding: Encoding, training: bool) -> None:
    torch.manual_seed(0)
    X = torch.randn(32, 4)
    members = [TabularEncoder(4, 3, hidden=8, encoding=encoding).fit_knots(X).train(training) for _ in range(5)]
    if encoding == "piecewise":
        members[1].fit_knots(3 * X)
    parameters, buffers = stack_module_state(members)

    def member(weights: dict[str, Tensor], state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(members[0], (weights, state), (x,))

    together = vmap(member, in_dims=(0, 0, None))(parameters, buffers, X)
    apart = torch.stack([encoder(X) for encoder in members])
    torch.testing.assert_close(together, apart)
    together.square().sum().backward()
    apart.square().sum().backward()
    for name, stacked in parameters.items():
        expected = torch.stack([encoder.get_parameter(name).grad for encoder in members])
        torch.testing.assert_close(stacked.grad, expected, rtol=1e-4, atol=1e-5)


def test_stacked_members_take_rows_of_their_own() -> None:
    torch.manual_seed(0)
    members = [TabularEncoder(4, 3, encoding="piecewise") for _ in range(5)]
    parameters, buffers = stack_module_state(members)
    X = torch.randn(5, 32, 4)

    def member(weights: dict[str, Tensor], state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(members[0], (weights, state), (x,))

    together = vmap(member)(parameters, buffers, X)
    torch.testing.assert_close(together, torch.stack([encoder(x) for encoder, x in zip(members, X, strict=True)]))


def test_dropout_acts_in_training_alone():
    encoder = TabularEncoder(n_features=3, latent_dim=4, dropout=0.5)
    x = torch.randn(6, 3)
    assert not torch.equal(encoder(x), encoder(x))
    encoder.eval()
    assert torch.equal(encoder(x), encoder(x))
    with pytest.raises(ValueError, match=r"dropout = 1\.0"):
        TabularEncoder(n_features=3, dropout=1.0)


@pytest.mark.parametrize("shape", [(1000, 999), (3, 7), (0, 4)])
def test_dropout_keeps_the_mean_and_drops_its_share(shape):
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    out = Dropout(0.05)(x)
    assert out.shape == shape
    assert bool(torch.isin(out, torch.tensor([0.0, 256 / 243])).all())
    if out.numel() > 1000:  # four standard errors
        assert float((out == 0).float().mean()) == pytest.approx(13 / 256, abs=4 * 0.22 / 1000)
        assert float(out.detach()[:, 7::8].mean()) == pytest.approx(1, abs=4 * 0.23 / 350)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    assert torch.equal(Dropout(0.05).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert not Dropout(1.0)(x).detach().any()


@pytest.mark.parametrize(
    ("encoding", "wanted"),
    [("plain", [0, 1, 2]), ("piecewise", [0, 0, 1, 1, 2]), ("both", [0, 1, 0, 0, 1, 1, 2])],
)
def test_each_input_of_the_first_layer_has_its_column(encoding, wanted):
    encoder = TabularEncoder(3, 4, encoding=encoding, knots=3, n_numbers=2).fit_knots(torch.randn(50, 3))
    assert encoder.columns.tolist() == wanted
    x = torch.randn(20, 3)
    for column in range(3):
        moved = x.clone()
        moved[:, column] += 0.5
        changed = (encoder.prepare(moved) != encoder.prepare(x)).any(0)
        assert set(encoder.columns[changed].tolist()) == {column}
