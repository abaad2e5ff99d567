"""What every density promises, for every member of the registry."""

import copy
import math

import pytest
import torch
from torch import Tensor

from natpn.densities import DENSITIES, Density, RelativeMixture, Rising, Surprise, Views, get

OPTIONS = {"gaussian_mixture": {"n_components": 4}}


def make(name: str, dim: int, seed: int = 0, fitted: bool = True, noise: float = 0.1) -> Density:
    """A density off its initial values, in a frame of its own, in evaluation mode."""
    torch.manual_seed(seed)
    density = get(name, dim, **OPTIONS.get(name, {}))
    if fitted:
        density.refit(sample(100, dim))
    with torch.no_grad():
        for parameter in density.parameters():
            parameter += noise * torch.randn_like(parameter)
    if fitted:
        density.settle(sample(100, dim))
    return density.eval()


def sample(n: int, dim: int) -> Tensor:
    return torch.randn(n, dim) * torch.linspace(0.5, 2, dim) + torch.linspace(1, -2, dim)


@pytest.fixture(params=DENSITIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("seed", range(3))
def test_integrates_to_one_in_one_dimension(name: str, seed: int) -> None:
    density = make(name, 1, seed, noise=0.3).double()
    grid = torch.linspace(-60, 60, 200_001, dtype=torch.float64)
    with torch.no_grad():
        total = torch.trapezoid(density(grid[:, None]).exp(), grid)
    assert total == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_integrates_to_one_in_two_dimensions(name: str, seed: int) -> None:
    density = make(name, 2, seed).double()
    x = torch.linspace(-6, 8, 401, dtype=torch.float64)
    y = torch.linspace(-22, 18, 401, dtype=torch.float64)
    with torch.no_grad():
        lines = [density(torch.cartesian_prod(part, y)).exp().reshape(-1, 401) for part in torch.split(x, 20)]
    assert torch.trapezoid(torch.trapezoid(torch.cat(lines), y), x) == pytest.approx(1, abs=1e-3)


def test_is_not_the_trivial_density(name: str) -> None:
    z = sample(50, 2)
    frame = make(name, 2)
    plain = torch.distributions.Normal(frame.location, frame.scale).log_prob(z).sum(-1)
    assert (frame(z) - plain).std() > 0.05


@pytest.mark.parametrize("dim", [1, 2, 16])
@pytest.mark.parametrize("fitted", [False, True])
def test_every_parameter_gets_a_gradient(name: str, dim: int, fitted: bool) -> None:
    density = make(name, dim, fitted=fitted, noise=0.0)
    z = sample(64, dim).requires_grad_()
    density(z).sum().backward()
    assert z.grad is not None
    assert z.grad.abs().sum() > 0
    for label, parameter in density.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.abs().sum() > 0, label
        assert parameter.grad.isfinite().all(), label


@pytest.mark.parametrize("fitted", [False, True])
def test_saves_and_loads(name: str, fitted: bool) -> None:
    density, z = make(name, 3, fitted=fitted), sample(20, 3)
    other = make(name, 3, seed=1, fitted=not fitted)
    assert not torch.equal(density(z), other(z))
    other.load_state_dict(density.state_dict())
    assert torch.equal(density(z), other(z))


@pytest.mark.parametrize("dim", [1, 3])
def test_takes_any_batch_shape(name: str, dim: int) -> None:
    density, z = make(name, dim), sample(24, dim)
    flat = density(z)
    assert flat.shape == (24,)
    torch.testing.assert_close(density(z.reshape(2, 3, 4, dim)), flat.reshape(2, 3, 4))
    torch.testing.assert_close(density(z[0]), flat[0])
    assert density(z[:0]).shape == (0,)
    assert density(z[:0].reshape(0, 5, dim)).shape == (0, 5)


def test_refuses_a_wrong_shape(name: str) -> None:
    with pytest.raises(ValueError, match=r"\(\.\.\., 3\), got \(5, 2\)"):
        make(name, 3)(torch.zeros(5, 2))


@pytest.mark.parametrize("dim", [1, 2, 16])
@pytest.mark.parametrize("seed", range(3))
def test_stays_finite_however_far(name: str, dim: int, seed: int) -> None:
    density = make(name, dim, seed)
    direction = torch.cat([torch.randn(40, dim), torch.eye(dim), -torch.eye(dim), torch.ones(1, dim)])
    z = (direction * 10.0 ** torch.arange(-10, 31)[:, None, None]).requires_grad_()
    value = density(z)
    assert value.isfinite().all()
    assert value.max() < 50
    value.sum().backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    for label, parameter in density.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all(), label


def test_stays_finite_with_mixed_magnitudes(name: str) -> None:
    density = make(name, 16)
    z = (torch.randn(2000, 16) * 10.0 ** torch.randint(-30, 31, (2000, 16))).requires_grad_()
    value = density(z)
    assert value.isfinite().all()
    (slope,) = torch.autograd.grad(value.sum(), z)
    assert slope.isfinite().all()
    edge = torch.tensor([math.inf, -math.inf, 3e38, -3e38])[:, None].expand(4, 16)
    assert density(edge).isfinite().all()
    assert density(torch.full((1, 16), math.nan)).isnan().all()


@pytest.mark.parametrize("dim", [1, 2, 16])
@pytest.mark.parametrize("seed", range(3))
def test_never_rises_along_a_ray(name: str, dim: int, seed: int) -> None:
    density = make(name, dim, seed)
    direction = torch.nn.functional.normalize(
        torch.cat([torch.randn(200, dim), torch.eye(dim), -torch.eye(dim)]), dim=-1
    )
    value = density(30 * math.sqrt(dim) * direction * 10.0 ** torch.arange(30)[:, None, None])
    assert (value.diff(dim=0) <= 0).all()
    assert (value[1] < value[0]).all()
    assert (value[-1] < -1e29).all()


@pytest.mark.parametrize("dim", [1, 2, 16])
def test_float32_agrees_with_float64(name: str, dim: int) -> None:
    density, z = make(name, dim), sample(200, dim)
    single = density(z)
    assert single.dtype == torch.float32
    double = density.double()(z.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)


def test_computes_in_its_own_precision(name: str) -> None:
    density, z = make(name, 3), sample(20, 3)
    torch.testing.assert_close(density(z.double()), density(z))
    assert density(z.bfloat16()).dtype == torch.float32
    density, near = density.double(), z.double() + 1e-10
    assert not torch.equal(density(near), density(z))
    torch.testing.assert_close(density(near), density(z), rtol=1e-6, atol=1e-6)


def test_ignores_autocast(name: str) -> None:
    density, z = make(name, 4), sample(20, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(density(z), density.log_prob(z))
        value = density(z)
    assert torch.equal(value, density(z))


@pytest.mark.parametrize("dim", [1, 2, 16])
def test_every_parameter_gets_a_gradient_in_training(name: str, dim: int) -> None:
    density = make(name, dim).train()
    before = {label: buffer.clone() for label, buffer in density.named_buffers()}
    density(sample(64, dim)).sum().backward()
    for label, parameter in density.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
    moved = [label for label, buffer in density.named_buffers() if not torch.equal(buffer, before[label])]
    assert all(".norms." in f".{label}" for label in moved)


def test_is_determined_by_the_seed(name: str) -> None:
    z = sample(20, 3)
    assert torch.equal(make(name, 3, seed=4)(z), make(name, 3, seed=4)(z))
    assert not torch.equal(make(name, 3, seed=4)(z), make(name, 3, seed=5)(z))


def test_refit_sets_the_frame(name: str) -> None:
    torch.manual_seed(0)
    density = get(name, 3, **OPTIONS.get(name, {})).eval()
    z = sample(500, 3) * 100
    weight = torch.rand(500)
    before = density(z).mean()
    density.refit(z, weight)
    mean = (weight @ z) / weight.sum()
    torch.testing.assert_close(density.location, mean)
    torch.testing.assert_close(density.scale, ((weight @ (z - mean) ** 2) / weight.sum()).sqrt())
    assert density(z).mean() > before


def test_refit_survives_constant_and_equal_rows(name: str) -> None:
    density = get(name, 3, **OPTIONS.get(name, {})).eval()
    for z in (torch.ones(10, 3) * 7, sample(50, 3) * torch.tensor([1.0, 0.0, 1.0]), sample(1, 3), sample(2, 3)):
        density.refit(z)
        assert density(z).isfinite().all()
        assert (density(z + 1e6) < density(z)).all()


@pytest.mark.parametrize(
    ("z", "weight", "message"),
    [
        (torch.zeros(4, 2), None, r"\(N, 3\), got \(4, 2\)"),
        (torch.tensor([[0.0, 0, 0], [0, math.nan, 0]]), None, "row 1"),
        (torch.zeros(4, 3), torch.ones(3), r"shape \(4,\)"),
        (torch.zeros(4, 3), -torch.ones(4), "expected 0 or more"),
        (torch.zeros(4, 3), torch.zeros(4), "positive weight"),
        (torch.zeros(0, 3), None, "at least one row"),
    ],
)
def test_refit_explains_bad_samples(name: str, z: Tensor, weight: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get(name, 3).refit(z, weight)


def test_get_suggests_names_and_options(name: str) -> None:
    with pytest.raises(ValueError, match=rf"radial.*Did you mean '{name}'\?"):
        get(name[:-1] + "x" if len(name) > 3 else name + "s", 3)
    with pytest.raises(ValueError, match=r"nonsense.*choose one of"):
        get(name, 3, nonsense=1)
    option = "n_components" if name == "gaussian_mixture" else "n_layers"
    with pytest.raises(ValueError, match=f"Did you mean '{option}'"):
        get(name, 3, **{option[:-1]: 2})
    with pytest.raises(ValueError, match=option):
        get(name, 3, **{option: 0})
    with pytest.raises(ValueError, match="dim: expected"):
        get(name, 0)


def test_the_registry_holds_every_final_density() -> None:
    def leaves(kind: type[Density]) -> set[type[Density]]:
        below = kind.__subclasses__()
        return set().union(*map(leaves, below)) if below else {kind}

    own = {kind for kind in leaves(Density) if kind.__module__.startswith("natpn.densities.")}
    others = {RelativeMixture, Rising, Surprise, Views}  # which wrap others, or do not integrate to one
    assert own - others == set(DENSITIES.values())


def test_coefficients_of_frozen_mixtures_are_kept_until_the_parameters_change() -> None:
    torch.manual_seed(0)
    mixture, z = get("gaussian_mixture", 3, n_components=2), torch.randn(50, 3)
    want = mixture(z)
    mixture.requires_grad_(False)
    assert torch.equal(mixture(z), want)
    assert mixture._coefficients() is mixture._coefficients()
    copied = copy.deepcopy(mixture)
    assert copied._kept is None
    for change in (lambda: mixture.mean.add_(1.0), lambda: mixture.double(), lambda: mixture.refit(z)):
        before = mixture._coefficients()
        change()
        assert mixture._coefficients() is not before
        fresh = copy.deepcopy(mixture).requires_grad_(True)
        assert torch.equal(mixture(z), fresh(z))
