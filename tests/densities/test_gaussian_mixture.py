"""The mixture against scipy, and expectation-maximisation against known mixtures."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from torch import Tensor

from natpn.densities import GaussianMixture
from natpn.densities import expectation_maximization as em


def clusters(n: int, k: int, dim: int, spread: float = 20.0, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of k normals with their own covariances, the centres and the labels."""
    generator = torch.Generator().manual_seed(seed)
    centre = spread * torch.nn.functional.one_hot(torch.arange(k) % dim, dim) * (1 + torch.arange(k) // dim)[:, None]
    shape = torch.eye(dim) + 0.3 * torch.randn(k, dim, dim, generator=generator)
    label = torch.randint(k, (n,), generator=generator)
    noise = torch.randn(n, dim, generator=generator)
    return centre[label] + (shape[label] @ noise[:, :, None]).squeeze(-1), centre, label


def covariance(density: GaussianMixture) -> Tensor:
    """Component covariances in the coordinates of z."""
    factor = density.factor.detach()
    whitener = factor.tril(-1) + torch.diag_embed(factor.diagonal(dim1=1, dim2=2).exp())
    root = density.scale[:, None] * torch.linalg.inv(whitener)
    return root @ root.mT


def in_parallel(run: Callable[[int, em.Reduce], None]) -> None:
    """Run two workers at once; their `reduce` adds the two tensors."""
    barrier = threading.Barrier(2, timeout=60)
    slots: list[Tensor] = [torch.empty(0), torch.empty(0)]
    failures: list[BaseException] = []

    def work(rank: int) -> None:
        def reduce(summed: Tensor) -> Tensor:
            slots[rank] = summed
            barrier.wait()
            both = slots[0] + slots[1]
            barrier.wait()
            return both

        try:
            run(rank, reduce)
        except BaseException as failure:
            failures.append(failure)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_agrees_with_scipy(dim: int) -> None:
    torch.manual_seed(0)
    density = GaussianMixture(dim, n_components=3).double()
    z = torch.randn(50, dim, dtype=torch.float64) * 4
    density.refit(z)
    with torch.no_grad():
        density.logits += torch.randn(3)
        density.factor += 0.3 * torch.randn(3, dim, dim)
    log_weight = density.logits.log_softmax(0).detach().numpy()
    mean = (density.mean * density.scale + density.location).detach().numpy()
    parts = [
        w + np.atleast_1d(multivariate_normal(m, c).logpdf(z.numpy()))
        for w, m, c in zip(log_weight, mean, covariance(density).numpy(), strict=True)
    ]
    np.testing.assert_allclose(density(z).detach().numpy(), logsumexp(parts, axis=0), rtol=1e-8)


@pytest.mark.parametrize("rows", [0, 1, 500, 2500])
def test_many_rows_in_chunks_agree_with_the_plain_sum(rows: int) -> None:
    density = GaussianMixture(32, 20).double().requires_grad_(False)
    u = 10 ** torch.linspace(-1, 4, rows, dtype=torch.float64)[:, None] * torch.randn(rows, 32, dtype=torch.float64)
    theta, (i, j) = density._coefficients(), torch.triu_indices(32, 32)
    plain = torch.logsumexp(torch.cat([torch.ones(rows, 1), u, u[:, i] * u[:, j]], 1) @ theta.T, 1)
    with torch.no_grad():
        torch.testing.assert_close(em.log_density(u, theta), plain, rtol=1e-12, atol=1e-9)


def test_recovers_a_known_mixture() -> None:
    z, centre, label = clusters(6000, 5, 4, spread=8)
    density = GaussianMixture(4, n_components=5)
    density.refit(z)
    mean = (density.mean * density.scale + density.location).detach()
    match = torch.cdist(centre.float(), mean).argmin(1)
    assert match.unique().numel() == 5
    torch.testing.assert_close(mean[match], centre.float(), atol=0.15, rtol=0)
    share = torch.stack([(label == k).float().mean() for k in range(5)])
    torch.testing.assert_close(density.logits.softmax(0)[match].detach(), share, atol=0.01, rtol=0)
    truth = torch.stack([z[label == k].T.cov() for k in range(5)])
    torch.testing.assert_close(covariance(density)[match], truth, atol=0.1, rtol=0.05)


@pytest.mark.parametrize("shrinkage", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("flat", [False, True])
def test_each_step_increases_the_objective(shrinkage: float, flat: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    z = clusters(800, 4, 3, spread=3)[0].double()
    if flat:  # a plane in space: one eigenvalue of every covariance sits on the floor
        z = torch.stack([z[:, 0], z[:, 1], z[:, 0] + z[:, 1]], dim=1)
    z, weight = (z - z.mean(0)) / z.std(0), torch.rand(len(z), dtype=torch.float64)
    mixture, prior = em.start(z, weight, 6, shrinkage, generator)
    values = []
    for _ in range(40):
        statistics = em.sufficient_statistics(z, weight, mixture)
        values.append(statistics.log_likelihood + em.penalty(mixture, prior))
        mixture = em.maximise(statistics, prior)
    gain = torch.stack(values).diff()
    assert (gain > -1e-7).all()
    assert gain[0] > 1e-3
    if shrinkage == 0:
        torch.testing.assert_close(
            values[-1], em.sufficient_statistics(z, weight, mixture).log_likelihood, rtol=1e-3, atol=0
        )


def test_statistics_agree_with_their_definition() -> None:
    z, weight = clusters(300, 3, 2, spread=3)[0].double(), torch.rand(300, dtype=torch.float64)
    mixture = em.Mixture(
        torch.tensor([0.2, 0.3, 0.5]).double().log(),
        torch.randn(3, 2, dtype=torch.float64),
        torch.tensor([[1.0, 0.0], [0.5, 2.0]]).double().expand(3, 2, 2),
    )
    cover = torch.linalg.inv(mixture.whitener.mT @ mixture.whitener)
    normal = torch.distributions.MultivariateNormal(mixture.mean, cover)
    joint = normal.log_prob(z[:, None]) + mixture.log_weight
    share = joint.softmax(1) * weight[:, None]
    result = em.sufficient_statistics(z, weight, mixture)
    torch.testing.assert_close(result.rows, share.sum(0))
    torch.testing.assert_close(result.total, share.T @ z)
    torch.testing.assert_close(result.outer, torch.einsum("nk,ni,nj->kij", share, z, z))
    torch.testing.assert_close(result.log_likelihood, weight @ joint.logsumexp(1))
    alone = em.sufficient_statistics(z, weight, mixture, hard=True)
    torch.testing.assert_close(alone.rows, torch.zeros(3).double().index_add(0, joint.argmax(1), weight))


@pytest.mark.parametrize("n_components", [6, "auto"])
def test_processes_that_share_the_rows_agree_with_one(n_components: int | str) -> None:
    z, weight = clusters(1500, 4, 3, spread=5)[0], torch.rand(1500)
    whole = GaussianMixture(3, n_components)
    whole.refit(z, weight, torch.Generator().manual_seed(3))
    halves = [GaussianMixture(3, n_components) for _ in range(2)]
    cut = [slice(0, 400), slice(400, None)]  # unequal on purpose

    def run(rank: int, reduce: em.Reduce) -> None:
        halves[rank].refit(z[cut[rank]], weight[cut[rank]], torch.Generator().manual_seed(3), reduce)

    in_parallel(run)
    for label, expected in whole.state_dict().items():
        assert torch.equal(halves[0].state_dict()[label], halves[1].state_dict()[label]), label
        torch.testing.assert_close(halves[0].state_dict()[label], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_components", [4, "auto"])
def test_a_weight_is_a_number_of_repetitions(n_components: int | str) -> None:
    z, weight = clusters(600, 3, 2)[0], torch.arange(600) % 4
    weighted, repeated = GaussianMixture(2, n_components), GaussianMixture(2, n_components)
    weighted.refit(z, weight)
    repeated.refit(z.repeat_interleave(weight, 0)[torch.randperm(int(weight.sum()))])
    for label, expected in repeated.state_dict().items():
        torch.testing.assert_close(weighted.state_dict()[label], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("k", "dim"), [(1, 3), (2, 1), (4, 2), (8, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_auto_finds_the_number_of_clusters(k: int, dim: int, seed: int) -> None:
    density = GaussianMixture(dim, "auto")
    density.refit(clusters(4000, k, dim, seed=seed)[0])
    assert density.n_components == k


def test_auto_does_not_follow_chance() -> None:
    density = GaussianMixture(1, "auto")
    for seed in range(20):
        density.refit(clusters(1000, 1, 1, seed=seed)[0], generator=torch.Generator().manual_seed(seed))
        assert density.n_components == 1, seed


def test_refit_repeats_itself() -> None:
    z = clusters(500, 4, 2, spread=2)[0]
    first, second, third = (GaussianMixture(2, 8) for _ in range(3))
    first.refit(z)
    second.refit(z)
    third.refit(z, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first(z), second(z))
    assert not torch.equal(first(z), third(z))


def test_few_or_equal_rows_give_fewer_components() -> None:
    torch.manual_seed(0)
    density = GaussianMixture(2, n_components=8)
    distinct = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) + 0.1 * torch.randn(3, 2)
    for z in (distinct, distinct.repeat(100, 1)):
        density.refit(z)
        assert density.n_components == 3
        assert density(z).isfinite().all()
        assert (density(z) > density(z + 0.5)).all()
    density.refit(distinct[:1].repeat(5, 1))
    assert density.n_components == 1


def test_auto_works_on_the_fewest_rows() -> None:
    torch.manual_seed(0)
    density = GaussianMixture(2, "auto")
    for z in (torch.ones(1, 2), torch.ones(50, 2), torch.randn(2, 2), torch.randn(3, 2).repeat(40, 1)):
        density.refit(z)
        assert 1 <= density.n_components <= 3
        assert density(z).isfinite().all()
        assert (density(z) > density(z + 100)).all()


def test_auto_chooses_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    start = em.start

    def counting(z: Tensor, *rest: Any) -> tuple[em.Mixture, em.Prior]:
        seen.append(len(z))
        return start(z, *rest)

    monkeypatch.setattr(em, "start", counting)
    density = GaussianMixture(1, "auto")
    z = clusters(40_000, 2, 1)[0]
    density.refit(z)
    assert density.n_components == 2
    assert max(seen) == pytest.approx(0.8 * 16384, rel=0.05)
    torch.testing.assert_close(density.logits.softmax(0), torch.tensor([0.5, 0.5]), atol=0.02, rtol=0)


def test_an_empty_component_is_dropped() -> None:
    z, weight = clusters(200, 2, 2)[0].double(), torch.ones(200, dtype=torch.float64)
    mixture, prior = em.start(z, weight, 2, 1.0, torch.Generator().manual_seed(0))
    far = em.Mixture(
        torch.cat([mixture.log_weight, torch.tensor([-1.0]).double()]),
        torch.cat([mixture.mean, torch.full((1, 2), 1e4).double()]),
        torch.cat([mixture.whitener, mixture.whitener[:1]]),
    )
    result = em.improve(z, weight, far, prior)
    assert len(result.log_weight) == 2
    assert all(part.isfinite().all() for part in result)


def test_a_flat_latent_space_stays_positive_definite() -> None:
    torch.manual_seed(0)
    z = torch.randn(500, 2) @ torch.randn(2, 10) * 1e-3 + 5
    density = GaussianMixture(10, n_components=4)
    density.refit(z)
    assert (torch.linalg.eigvalsh(covariance(density).double()) > 0).all()
    value = density(z)
    assert value.isfinite().all()
    away = density(z + 1e-3 * torch.randn(10))
    assert (away < value - 100).float().mean() > 0.95
    ray = (torch.randn(50, 10) * 10.0 ** torch.arange(31)[:, None, None]).requires_grad_()
    value = density(ray)
    assert value.isfinite().all()
    assert (value.diff(dim=0) <= 0).all()
    (slope,) = torch.autograd.grad(value.sum(), ray)
    assert slope.isfinite().all()


def test_a_state_with_another_number_of_components_loads() -> None:
    z = clusters(1000, 4, 2)[0]
    source = GaussianMixture(2, "auto")
    source.refit(z)
    assert source.n_components == 4
    target = torch.nn.ModuleDict({"density": GaussianMixture(2, n_components=16)})
    target.requires_grad_(False)
    target.load_state_dict({f"density.{key}": value for key, value in source.state_dict().items()})
    assert torch.equal(target["density"](z), source(z))
    assert not any(parameter.requires_grad for parameter in target.parameters())


def test_gradient_descent_goes_on_after_refit() -> None:
    z = clusters(500, 4, 2, spread=3)[0]
    density = GaussianMixture(2, n_components=4)
    density.refit(z)
    optimiser = torch.optim.Adam(density.parameters(), lr=1e-2)
    before = density(z + 1).mean().item()
    for _ in range(50):
        optimiser.zero_grad()
        (-density(z + 1).mean()).backward()
        optimiser.step()
    assert density(z + 1).mean().item() > before
    assert (torch.linalg.eigvalsh(covariance(density)) > 0).all()


@pytest.mark.parametrize("wrong", [{"n_components": "many"}, {"n_components": True}, {"shrinkage": -1.0}])
def test_explains_wrong_options(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GaussianMixture(2, **wrong)  # type: ignore[arg-type]


def test_a_bandwidth_blurs_a_thin_sheet():
    along = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0))
    sheet = torch.cat([along, along + 1e-4 * along.roll(1, 0)], 1)
    thin, blurred = GaussianMixture(2, 1, 0.0), GaussianMixture(2, 1, 0.0, bandwidth=0.05)
    for density in (thin, blurred):
        density.requires_grad_(False).refit(sheet)
    frame = blurred.scale.detach().double()
    growth = covariance(blurred)[0] - covariance(thin)[0]
    torch.testing.assert_close(growth, torch.diag(0.05**2 * frame**2).to(growth), rtol=1e-3, atol=1e-6)
    off = torch.tensor([[0.0, 0.05]])
    assert float(blurred(sheet).mean() - blurred(off)) < 5 < 500 < float(thin(sheet).mean() - thin(off))


def test_a_negative_bandwidth_is_refused():
    with pytest.raises(ValueError, match="bandwidth: expected 0 or more"):
        GaussianMixture(2, bandwidth=-0.1)


def test_a_single_row_beside_another_mixture_borrows_its_shape():
    torch.manual_seed(0)
    z = torch.randn(500, 3, dtype=torch.float64) * torch.tensor([1.0, 5.0, 0.2])
    before = GaussianMixture(3, 2, bandwidth=0.05).double()
    before.refit(z)
    made = GaussianMixture(4, 1, bandwidth=0.05).double()
    row = torch.tensor([[20.0, 10.0, 0.3, -8.0]], dtype=torch.float64)
    made.refit_beside(before, row, torch.ones(1, dtype=torch.float64))
    # borrowed as if seen in as many rows as there are features, of which this row is one more without scatter
    root = torch.linalg.inv(made.factor[0].tril(-1) + torch.diag(made.factor[0].diagonal().exp()))
    borrowed = torch.eye(4, dtype=torch.float64)
    borrowed[:3, :3] = before.pooled_covariance()
    pooled = borrowed * 4 / 5 * 4 / 5 + 0.05**2 * torch.eye(4)
    torch.testing.assert_close(root @ root.T, pooled)
    u = torch.cat([(row[0, :3] - before.location) / before.scale, row[0, 3:]])
    torch.testing.assert_close(made.mean[0].data, u)


def test_the_pooled_covariance_is_the_weighted_mean():
    torch.manual_seed(0)
    mixture = GaussianMixture(3, 4).double()
    total = torch.zeros(3, 3, dtype=torch.float64)
    for weight, factor in zip(mixture.logits.softmax(0), mixture.factor, strict=True):
        whitener = factor.tril(-1) + torch.diag(factor.diagonal().exp())
        total += weight * torch.linalg.inv(whitener.T @ whitener)
    torch.testing.assert_close(mixture.pooled_covariance(), total)


def test_rows_beyond_all_measure_do_no_harm():
    torch.manual_seed(0)
    before = GaussianMixture(2, 1).double()
    before.refit(torch.randn(100, 2, dtype=torch.float64))
    made = GaussianMixture(2, 1).double()
    made.refit_beside(before, torch.tensor([[1e30, -1e30], [0.0, 0.0]]), torch.ones(2))
    assert bool(made(torch.tensor([[0.0, 0.0], [1e30, -1e30]], dtype=torch.float64)).isfinite().all())
