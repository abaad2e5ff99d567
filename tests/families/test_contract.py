"""What every family promises, checked over the registry: none is skipped."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from families.accuracy import QUANTITIES, compare, evaluate, grid
from families.references import DIGITS, REFERENCES, Reference, numbers
from natpn.families import FAMILIES

ALL = [pytest.param(r, id=repr(r.family)) for references in REFERENCES.values() for r in references]
every_family = pytest.mark.parametrize("reference", ALL)


def points(reference: Reference, log_ns=(0.0, 1.0, 2.5)):
    """Everyday points: χ, log n and a target that fits, in float64."""
    for chi in reference.chis[: reference.ordinary]:
        for log_n in log_ns:
            for y in reference.targets(chi)[:3]:
                yield tuple(torch.tensor(v, dtype=torch.float64) for v in (chi, log_n, y))


def target(reference: Reference, y: torch.Tensor) -> torch.Tensor:
    return y if reference.family.support.event_shape else y[..., 0]


def posterior(reference: Reference, chi, log_n):
    return reference.family.posterior(reference.family.evidence(chi, log_n))


def exact(reference: Reference, chi, log_n):
    mp.mp.dps = DIGITS
    n = mp.exp(numbers(log_n)[0])
    return reference.tau(numbers(chi), n), n


def test_every_family_has_a_reference():
    assert set(REFERENCES) == set(FAMILIES)
    for name, references in REFERENCES.items():
        assert {type(r.family) for r in references} == {FAMILIES[name]}


@every_family
def test_expected_log_likelihood_is_the_derivative_of_g(reference):
    for chi, log_n, y in points(reference):
        want = reference.expected_log_likelihood(*exact(reference, chi, log_n), numbers(y))
        got = posterior(reference, chi, log_n).expected_log_likelihood(target(reference, y))
        assert_close(got.item(), float(want), rtol=1e-10, atol=1e-10)


@every_family
def test_predictive_is_the_unit_step_of_g_and_scipys(reference):
    for chi, log_n, y in points(reference):
        tau, n = exact(reference, chi, log_n)
        got = posterior(reference, chi, log_n).predictive().log_prob(target(reference, y)).item()
        assert_close(got, float(reference.log_predictive(tau, n, numbers(y))), rtol=1e-10, atol=1e-10)
        assert_close(got, reference.predictive([float(t) for t in tau], float(n), y.tolist()), rtol=1e-6, atol=1e-6)


@every_family
@pytest.mark.parametrize("kind", ["predictive", "likelihood"])
def test_distributions_of_targets_have_mass_one_and_their_moments(reference, kind):
    """Mass, entropy, mean and variance by summation or integration."""
    for chi in reference.chis[: reference.ordinary]:
        chi = torch.tensor(chi, dtype=torch.float64)
        distribution = getattr(posterior(reference, chi, torch.tensor(3.0, dtype=torch.float64)), kind)()
        y, weight = cells(reference, distribution)
        log_p = distribution.log_prob(y)
        p = weight * log_p.exp()
        assert_close(p.sum().item(), 1.0, rtol=1e-6, atol=1e-6)
        assert_close(-(p * log_p).sum().item(), distribution.entropy().item(), rtol=1e-5, atol=1e-5)
        if bool(distribution.variance.isfinite().all()):
            values = reference.family.statistics(y)[..., : distribution.mean.numel()] if y.dim() == 1 else y
            if type(distribution).__name__ == "LogStudentT":
                values = y.unsqueeze(-1)
            mean = (p.unsqueeze(-1) * values).sum(0)
            variance = (p.unsqueeze(-1) * (values - mean) ** 2).sum(0)
            assert_close(mean, distribution.mean.reshape(-1), rtol=1e-4, atol=1e-6)
            assert_close(variance, distribution.variance.reshape(-1), rtol=3e-3, atol=1e-6)


def cells(reference: Reference, distribution) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets and weights that make a sum over all targets, or an integral."""
    name = type(distribution).__name__
    if name in ("CategoricalDistribution", "BernoulliDistribution"):
        y = torch.arange(distribution.probs.shape[-1], dtype=torch.float64)
        return y, torch.ones_like(y)
    if name == "DirichletMultinomial":
        trials = int(distribution.total_count)
        size = distribution.concentration.shape[-1]
        y = torch.cartesian_prod(*[torch.arange(trials + 1, dtype=torch.float64)] * size)
        y = y[y.sum(-1) == trials]
        return y, torch.ones(len(y), dtype=torch.float64)
    if name in ("NegativeBinomialDistribution", "BetaNegativeBinomial"):
        y = torch.arange(200_000, dtype=torch.float64)
        return y, torch.ones_like(y)
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(40))
    if name in ("StudentT", "LogStudentT", "CompoundGamma"):
        # y = centre + width·sinh t, or log y likewise: tails of any weight
        edges = torch.linspace(-30, 30, 121, dtype=torch.float64)
        t = ((edges[1:] + edges[:-1]) / 2).unsqueeze(-1) + nodes * (edges[1] - edges[0]) / 2
        w = (weights * (edges[1] - edges[0]) / 2).expand_as(t).reshape(-1)
        t = t.reshape(-1)
        if name == "StudentT":
            return distribution.loc + distribution.scale * t.sinh(), w * distribution.scale * t.cosh()
        if name == "LogStudentT":
            log_y = (distribution.loc + distribution.scale * t.sinh()).clamp(-300, 300)
            inside = log_y.abs() < 300
            return log_y[inside].exp(), (w * distribution.scale * t.cosh() * log_y.exp())[inside]
        return distribution.scale * t.exp(), w * distribution.scale * t.exp()
    if name == "VonMisesFisherDistribution" and distribution.dim == 2:
        angle = torch.linspace(0, 2 * math.pi, 4001, dtype=torch.float64)[:-1]
        return torch.stack([angle.cos(), angle.sin()], -1), torch.full_like(angle, 2 * math.pi / 4000)
    if name == "VonMisesFisherDistribution":
        nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(200))
        angle = torch.linspace(0, 2 * math.pi, 201, dtype=torch.float64)[:-1]
        z, a = torch.meshgrid(nodes, angle, indexing="ij")
        y = torch.stack([(1 - z**2).sqrt() * a.cos(), (1 - z**2).sqrt() * a.sin(), z], -1).reshape(-1, 3)
        return y, weights.repeat_interleave(200) * 2 * math.pi / 200
    if name == "MultivariateT":
        # in whitened polar coordinates the density depends on the radius alone: r^(d−1) times the sphere's surface
        d = distribution.loc.shape[-1]
        edges = torch.linspace(-25, 25, 101, dtype=torch.float64)
        t = (((edges[1:] + edges[:-1]) / 2).unsqueeze(-1) + nodes * 0.25).reshape(-1)
        w = (weights * 0.25).repeat(100)
        radius = t.exp()
        surface = 2 * math.pi ** (d / 2) / math.gamma(d / 2)
        jacobian = distribution.factor.diagonal().prod() * surface * radius**d * w
        # each axis both ways, so that the mean comes out
        axes = torch.cat([torch.eye(d), -torch.eye(d)]).double() @ distribution.factor.mT
        y = distribution.loc + radius[:, None, None] * axes
        return y.reshape(-1, d), (jacobian[:, None] / (2 * d)).expand(-1, 2 * d).reshape(-1)
    raise AssertionError(f"no integration rule for {name}")


@every_family
def test_targets_are_exchangeable(reference):
    family = reference.family
    for chi, log_n, _ in points(reference):
        start = family.evidence(chi, log_n)
        first, second = (
            target(reference, torch.tensor(y, dtype=torch.float64)) for y in reference.targets(chi.tolist())[:2]
        )

        def chain(a, b, start=start):
            return family.posterior(start).predictive().log_prob(a) + family.posterior(
                start + family.observe(a)
            ).predictive().log_prob(b)

        assert_close(chain(first, second), chain(second, first), rtol=1e-9, atol=1e-9)


@every_family
def test_expected_is_below_predictive_and_the_gap_closes(reference):
    for chi, _, y in points(reference, (0.0,)):
        gaps = []
        for log_n in (0.0, 3.0, 8.0, 14.0, 20.0):
            p = posterior(reference, chi, torch.tensor(log_n, dtype=torch.float64))
            gaps.append(
                (p.predictive().log_prob(target(reference, y)) - p.expected_log_likelihood(target(reference, y))).item()
            )
        assert all(gap >= -1e-12 for gap in gaps)
        assert gaps[-1] < 1e-6
        assert all(b <= a + 1e-12 for a, b in itertools.pairwise(gaps))
        likelihood = p.likelihood().log_prob(target(reference, y)).item()
        assert_close(likelihood, p.expected_log_likelihood(target(reference, y)).item(), rtol=1e-5, atol=1e-5)


@every_family
def test_log_likelihood_is_that_of_the_likelihood(reference):
    """Families may state it in closed form; values and gradients are those of the general definition."""
    for chi, _, y in points(reference, (0.0,)):
        raw = reference.family.inverse_link(chi).clone().requires_grad_()
        likelihood = reference.family.posterior(reference.family.evidence(reference.family.link(raw), 0.0)).likelihood()
        want, got = (
            likelihood.log_prob(target(reference, y)),
            reference.family.log_likelihood(raw, target(reference, y)),
        )
        assert_close(got, want, rtol=1e-9, atol=1e-9)
        slopes = [torch.autograd.grad(value, raw)[0] for value in (got, want)]
        assert_close(slopes[0], slopes[1], rtol=1e-6, atol=1e-6)


@every_family
def test_slope_of_the_training_loss_is_that_of_autograd(reference):
    """Families may state it in closed form; the shares are those of rows in a batch."""
    family = reference.family
    values = [0.0, 1.0, -1.0, 20.0, -30.0, 40.0]
    raw = torch.tensor(values)[torch.randint(len(values), (200, family.n_statistics))]
    share = torch.rand(len(raw))
    for y in reference.targets(reference.chis[0]):
        y = target(reference, torch.tensor(y).expand(len(raw), -1))
        leaf = raw.clone().requires_grad_()
        usual = torch.linspace(0.3, 0.6, family.n_statistics)
        want = family.training_loss(leaf, y, usual)
        (slope,) = torch.autograd.grad(want, leaf, share)
        assert_close(family.training_slope(raw, y, usual, share), (want.detach(), slope), rtol=1e-5, atol=1e-6)


@every_family
def test_entropy_is_the_mean_surprise_of_draws(reference):
    """5,000 seeded draws from scipy's posterior; six standard errors of tolerance."""
    for chi in reference.chis[: reference.ordinary]:
        chi = torch.tensor(chi, dtype=torch.float64)
        log_n = torch.tensor(2.0, dtype=torch.float64)
        tau, n = exact(reference, chi, log_n)
        surprise = -reference.parameters([float(t) for t in tau], float(n), np.random.default_rng(0), 5_000)
        error = surprise.std() / math.sqrt(len(surprise))
        assert abs(posterior(reference, chi, log_n).entropy().item() - surprise.mean()) < 6 * error + 1e-9


@pytest.mark.slow
@every_family
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_right_to_the_last_digit(reference, dtype, tolerance):
    """The stated tolerances over the stated ranges; `benchmarks/numerics.py` prints the errors themselves."""
    for point in compare(reference, *grid(reference, dtype)):
        assert point.error <= tolerance, point


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_continuous_in_log_n(reference, dtype):
    """Between neighbouring log n, values move as smoothly as in the middle of the same step."""
    log_n = torch.linspace(-80, 80, 6401, dtype=dtype)
    for chi in reference.chis:
        y = torch.tensor(reference.targets(chi)[0], dtype=dtype).expand(len(log_n), -1)
        values, finite = evaluate(reference, torch.tensor(chi, dtype=dtype).expand(len(log_n), -1), log_n, y)
        assert finite
        for quantity in QUANTITIES:
            v = values[quantity].double()
            assert bool(v.isfinite().all())
            second = (v[2:] - 2 * v[1:-1] + v[:-2]).abs()
            rounding = max(8 * torch.finfo(dtype).eps, 1e-12) * (1 + v.abs())[1:-1]
            around = torch.nn.functional.max_pool1d(second[None], 81, 1, 40)[0]
            # a jump would stand out of the curvature around it by a factor of the grid's density
            quiet = torch.nn.functional.avg_pool1d(second[None], 81, 1, 40)[0]
            assert bool((around <= 60 * quiet + rounding).all()), quantity


@every_family
def test_any_raw_output_gives_a_finite_loss(reference):
    family = reference.family
    values = [0.0, 1.0, -1.0, 30.0, -30.0, 1e4, -1e4, 1e15, -1e15, 3e38, -3e38, math.inf, -math.inf]
    raw = torch.tensor(values)[torch.randint(len(values), (400, family.n_statistics))]
    raw[: len(values)] = torch.tensor(values).unsqueeze(-1)
    for log_n in (-80.0, 0.0, 80.0):
        x = raw.clone().requires_grad_()
        p = family.posterior(family.prior() + family.evidence(family.link(x), log_n))
        for y in reference.targets(reference.chis[0]):
            y = torch.tensor(y).expand(400, -1)
            loss = -p.expected_log_likelihood(target(reference, y)) - 1e-3 * p.entropy()
            assert bool(loss.isfinite().all())
            (gradient,) = torch.autograd.grad(loss.sum(), x, retain_graph=True)
            assert bool(gradient.isfinite().all())


@every_family
def test_link_leaves_nan_visible(reference):
    raw = torch.full((1, reference.family.n_statistics), math.nan)
    assert bool(reference.family.link(raw).isnan().any())


@every_family
@settings(max_examples=5)
@given(st.data())
def test_drawn_parameters(reference, data):
    """Raw outputs, evidence and a target, all drawn: right in both precisions."""
    family = reference.family
    raw = data.draw(st.lists(st.floats(-12, 12, width=32), min_size=family.n_statistics, max_size=family.n_statistics))
    log_n = data.draw(st.floats(-80, 80, width=32))
    chi = family.link(torch.tensor(raw, dtype=torch.float64))
    y = data.draw(st.sampled_from(reference.targets(chi.tolist())))
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        rows = (chi.to(dtype).unsqueeze(0), torch.tensor([log_n], dtype=dtype), torch.tensor([y], dtype=dtype))
        for point in compare(reference, *rows):
            assert point.error <= tolerance, point


@every_family
def test_dense_batches_are_just_batches(reference):
    family = reference.family
    chi = torch.tensor(reference.chis[0]).expand(2, 3, 4, -1)
    log_n = torch.randn(2, 3, 4)
    y = target(reference, torch.tensor(reference.targets(reference.chis[0])[0]).expand(2, 3, 4, -1))
    p = family.posterior(family.prior() + family.evidence(chi, log_n))
    assert p.entropy().shape == p.expected_log_likelihood(y).shape == p.predictive().log_prob(y).shape == (2, 3, 4)
    assert p.predictive().sample((5,)).shape == (5, *y.shape)
    one = family.posterior(family.prior() + family.evidence(chi[1, 2, 3], log_n[1, 2, 3]))
    assert_close(p.entropy()[1, 2, 3], one.entropy())
    empty = family.posterior(family.prior() + family.evidence(chi[:0], log_n[:0]))
    assert empty.entropy().shape == empty.predictive().entropy().shape == (0, 3, 4)


@every_family
def test_gradients_are_right(reference):
    family = reference.family
    raw = torch.randn(3, family.n_statistics, dtype=torch.float64, requires_grad=True)
    log_n = torch.tensor([-2.0, 0.5, 4.0], dtype=torch.float64, requires_grad=True)
    y = target(reference, torch.tensor(reference.targets(reference.chis[0])[0], dtype=torch.float64).expand(3, -1))

    def loss(raw, log_n):
        p = family.posterior(family.prior() + family.evidence(family.link(raw), log_n))
        return p.expected_log_likelihood(y), p.entropy(), p.predictive().log_prob(y)

    assert torch.autograd.gradcheck(loss, (raw, log_n), atol=1e-6)
