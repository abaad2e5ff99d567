"""What every encoder keeps, whatever it is made of."""

import io
import itertools

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from encoders.cases import CASES, Case
from natpn.encoders import ENCODERS

LARGE = {"image cifar", "resnet18 large"}  # the small ones beside them share all but the first layers


@pytest.fixture(
    params=[
        pytest.param(case, id=name, marks=pytest.mark.slow if name in LARGE else ()) for name, case in CASES.items()
    ]
)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_every_encoder_has_a_case() -> None:
    assert {case.name for case in CASES.values()} == set(ENCODERS)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (0,)])
def test_latent_is_the_last_dimension_after_any_leading_ones(
    case: Case, leading: tuple[int, ...], training: bool
) -> None:
    encoder = case.build().train(training)
    x = case.inputs(*leading)
    latent = encoder(x)
    assert latent.shape == (*leading, *case.output_shape)
    assert latent.shape[-1] == encoder.latent_dim
    assert latent.isfinite().all()


def test_leading_dimensions_only_group_rows(case: Case) -> None:
    encoder = case.build().eval().double()
    x = case.inputs(2, 3).double()
    torch.testing.assert_close(encoder(x).flatten(0, 1), encoder(x.flatten(0, 1)))


def test_every_parameter_gets_a_gradient(case: Case) -> None:
    encoder = case.build().train()
    latent = encoder(case.inputs(3))
    (latent * torch.randn(latent.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    without = [
        name
        for name, parameter in encoder.named_parameters()
        if parameter.grad is None or not parameter.grad.isfinite().all() or not parameter.grad.any()
    ]
    assert without == []


def test_saved_state_restores_the_function(case: Case) -> None:
    encoder, other = case.build(seed=0), case.build(seed=3)
    x = case.inputs(3)
    assert not torch.allclose(encoder.eval()(x), other.eval()(x))
    file = io.BytesIO()
    torch.save(encoder.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(encoder(x), other(x))


@torch.no_grad()
@pytest.mark.parametrize("training", [True, False])
def test_finite_for_inputs_of_any_size(case: Case, training: bool) -> None:
    encoder = case.build()
    state = {name: value.clone() for name, value in encoder.state_dict().items()}
    encoder.train(training)
    x = case.inputs(3)
    for exponent, sign in itertools.product(range(0, 31, 2), (1, -1)):
        latent = encoder(sign * 10.0**exponent * x)
        assert latent.isfinite().all(), (exponent, sign)
        assert latent.square().sum().isfinite(), (exponent, sign)
        if training:
            encoder.load_state_dict(state)
    assert encoder(torch.full_like(x, torch.inf)).isfinite().all()
    assert encoder(torch.full_like(x, -torch.inf)).isfinite().all()


def test_finite_for_steep_weights(case: Case) -> None:
    encoder = case.build().eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.mul_(1e6)
    for scale in (1.0, 1e10, 1e30):
        assert encoder(scale * case.inputs(3)).isfinite().all()


def test_latent_leaves_with_the_input_along_any_ray(case: Case) -> None:
    encoder = case.build().eval().double()
    x = case.inputs(4).double()
    x = x / x.abs().amax(dim=tuple(range(1, x.ndim)), keepdim=True)
    norms = torch.stack([encoder(scale * x).flatten(1).norm(dim=1) for scale in (1e4, 1e6, 1e8)])
    if case.options.get("encoding") == "both":  # grows like a logarithm, and says so
        assert (norms[1:] > 1.05 * norms[:-1]).all()
        return
    assert (norms[0] > 1).all()
    torch.testing.assert_close(norms[1:] / norms[:-1], torch.full_like(norms[1:], 100), rtol=0.05, atol=0)


def test_seed_decides(case: Case) -> None:
    x = case.inputs(3)
    first, again, other = (case.make(seed) for seed in (0, 0, 3))
    assert torch.equal(first(x), again(x))
    assert not torch.equal(first(x), other(x))


def test_trains_on_a_batch_of_one(case: Case) -> None:
    encoder = case.build().train()
    latent = encoder(case.inputs(1))
    latent.square().sum().backward()
    assert latent.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
    assert all(value.isfinite().all() for value in encoder.state_dict().values())


def test_rows_do_not_see_each_other_in_evaluation(case: Case) -> None:
    encoder = case.build().eval().double()
    x = case.inputs(4).double()
    x[3] *= 1e6
    together = encoder(x)
    for i in range(4):
        torch.testing.assert_close(together[i], encoder(x[i : i + 1])[0])


def test_evaluation_changes_no_state_and_draws_nothing(case: Case) -> None:
    encoder = case.build().eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    generator = torch.get_rng_state()
    x = case.inputs(3)
    copy = x.clone()
    encoder(x)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert torch.equal(generator, torch.get_rng_state())
    assert torch.equal(x, copy)


@pytest.mark.parametrize("training", [True, False])
def test_gradient_reaches_the_input_and_leaves_it_unchanged(case: Case, training: bool) -> None:
    encoder = case.build().train(training)
    x = case.inputs(3).requires_grad_()
    latent = encoder(x)
    (latent * torch.randn(latent.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad.flatten(1).any(dim=1).all()
    assert torch.equal(x.detach(), case.inputs(3))


def test_precision_follows_the_module(case: Case) -> None:
    encoder = case.build().eval()
    single = encoder(case.inputs(3))
    double = encoder.double()(case.inputs(3).double())
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


def test_stacked_members_equal_members_one_by_one(case: Case) -> None:
    members = [case.build(seed).train() for seed in range(2)]
    parameters, buffers = stack_module_state(members)
    x = case.inputs(3)

    def member(weights: dict[str, Tensor], state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(members[0], (weights, state), (x,))

    together = vmap(member, in_dims=(0, 0, None))(parameters, buffers, x)
    apart = torch.stack([encoder(x) for encoder in members])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-4)
    for name, stacked in buffers.items():
        torch.testing.assert_close(stacked, torch.stack([encoder.get_buffer(name) for encoder in members]))


def test_wrong_shape_is_named(case: Case) -> None:
    encoder = case.build()
    right = case.input_shape
    wrong = (right[0] + 1, *right[1:])
    with pytest.raises(ValueError, match=r"built for") as error:
        encoder(torch.zeros(2, *wrong))
    assert ", ".join(map(str, wrong)) in str(error.value)
    assert ", ".join(map(str, right)) in str(error.value)


def test_input_without_dimensions_is_an_error(case: Case) -> None:
    with pytest.raises(ValueError, match="shape"):
        case.build()(torch.tensor(1.0))
