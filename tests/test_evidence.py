"""Pooling: the algebra, the edge n = 0, shapes, gradients, and digits."""

import mpmath as mp
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from natpn import Evidence, families

INF = float("inf")


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 5), st.floats(-80, 80)), min_size=2, max_size=5),
    st.sampled_from(["poisson", "normal"]),
)
def test_sum_is_pooling_in_any_order(parts, name):
    family = families.get(name)
    evidence = [family.evidence(double(*chi)[: family.n_statistics], double(log_n)[0]) for *chi, log_n in parts]
    forward, backward = sum(evidence), sum(evidence[::-1])
    stacked = family.evidence(torch.stack([e.chi for e in evidence]), torch.stack([e.log_n for e in evidence])).sum(0)
    n = [mp.exp(e.log_n.item()) for e in evidence]
    mean = mp.fsum(k * e.chi[0].item() for k, e in zip(n, evidence, strict=True)) / mp.fsum(n)
    for pooled in (forward, backward, stacked):
        assert_close(pooled.chi[0].item(), float(mean), rtol=1e-12, atol=1e-12)
        assert_close(pooled.log_n.item(), float(mp.log(mp.fsum(n))), rtol=1e-14, atol=1e-13)
        assert_close(pooled.chi, forward.chi, rtol=1e-12, atol=1e-12)


def test_pooled_variance_adds_the_variance_of_the_means():
    family = families.get("normal")
    pooled = family.observe(double(1.0, 4.0, 7.0)).sum(0)
    assert_close(pooled.chi, double(4.0, 6.0))
    assert_close(pooled.log_n.exp(), torch.tensor(3.0, dtype=torch.float64))


@pytest.mark.parametrize("anything", [0.0, 1e30, INF, -INF, float("nan")])
@pytest.mark.parametrize("name", families.FAMILIES)
def test_no_evidence_is_the_prior_exactly(name, anything):
    family = FAMILY[name]
    for dtype in (torch.float32, torch.float64):
        prior = family.prior(dtype=dtype)
        chi = torch.full((4, family.n_statistics), anything, dtype=dtype, requires_grad=True)
        log_n = torch.full((4,), -INF, dtype=dtype, requires_grad=True)
        for updated in (prior + Evidence(chi, log_n), Evidence(chi, log_n) + prior):
            assert torch.equal(updated.chi, prior.chi.expand(4, -1))
            assert torch.equal(updated.log_n, prior.log_n.expand(4))
            posterior = family.posterior(updated)
            alone = family.posterior(prior)
            assert_close(posterior.entropy(), alone.entropy().expand(4), rtol=0, atol=0)
            loss = posterior.entropy().sum() + posterior.predictive().mean.nan_to_num(posinf=0).sum()
            for gradient in torch.autograd.grad(loss, [chi, log_n], allow_unused=True):
                assert gradient is None or bool((gradient == 0).all())


FAMILY = {
    name: families.get(
        name,
        **{
            "categorical": {"n_classes": 10},
            "multinomial": {"n_classes": 4},
            "multivariate_normal": {"dimension": 3},
        }.get(name, {}),
    )
    for name in families.FAMILIES
}


def test_no_evidence_at_all():
    nothing = Evidence(torch.full((2, 1), INF, requires_grad=True), torch.full((2,), -INF, requires_grad=True))
    both = nothing + nothing
    assert bool((both.log_n == -INF).all())
    prior = families.get("poisson").prior()
    assert torch.equal((prior + both).chi, prior.chi.expand(2, 1))
    gradients = torch.autograd.grad((prior + both).chi.sum(), [nothing.chi, nothing.log_n])
    assert all(bool((g == 0).all()) for g in gradients)


def test_what_is_nearly_certain_keeps_the_digits_of_its_opposite():
    """A probability of 1 beside a light prior is 1 − 10⁻¹⁸, which is 1 in float64; its complement is not 0."""
    family = families.get("bernoulli")
    pooled = family.prior(0.5, 1.0, dtype=torch.float64) + family.evidence(double(1.0), 40.0)
    assert pooled.chi.tolist() == [1.0]
    failure = family.posterior(pooled + family.evidence(double(1.0), 0.0)).failure.item()
    assert_close(failure, float(0.5 / (2 + mp.exp(40))), rtol=1e-14, atol=0)


def test_gradients_flow_to_every_summand():
    chi, log_n = torch.randn(3, 2, dtype=torch.float64, requires_grad=True), double(0.1, -1.0, 2.0).requires_grad_()

    def pool(chi, log_n):
        pooled = Evidence(chi, log_n).sum(0) + Evidence(chi[0], log_n[1])
        return pooled.chi, pooled.log_n

    assert torch.autograd.gradcheck(pool, (chi, log_n))


def test_batch_shapes_broadcast():
    a = Evidence(torch.zeros(5, 1, 2), torch.zeros(3))
    assert a.batch_shape == (5, 3)
    assert (a + Evidence(torch.ones(2), 0.0)).chi.shape == (5, 3, 2)
    assert a.sum(-1).batch_shape == (5,)
    assert a.sum(0).batch_shape == (3,)


def test_precision_is_the_higher_one():
    prior = families.get("categorical", n_classes=10).prior()
    assert prior.chi.dtype == torch.float32
    updated = prior + Evidence(torch.full((10,), 0.1, dtype=torch.float64), -INF)
    assert updated.chi.dtype == torch.float64
    assert_close(updated.chi, torch.full((10,), 0.1, dtype=torch.float64), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Evidence([1.0], 0.0), "chi: expected a floating-point tensor"),
        (lambda: Evidence(torch.tensor(1.0), 0.0), "chi: expected"),
        (lambda: Evidence(torch.ones(2).long(), 0.0), "chi: expected"),
        (lambda: Evidence(torch.ones(4, 2), torch.ones(3)), "chi has batch shape"),
        (lambda: Evidence(torch.ones(2), 0.0) + Evidence(torch.ones(3), 0.0), "same family"),
        (lambda: Evidence(torch.ones(2, 2), 0.0) + Evidence(torch.ones(3, 2), 0.0), "batch shape"),
        (lambda: Evidence(torch.ones(2), 0.0).sum(0), "dim: expected"),
        (lambda: Evidence(torch.ones(0, 2), 0.0).sum(0), "dim: expected a non-empty"),
        (lambda: families.get("normal").prior() + families.get("multinomial", n_classes=2).prior(), "different rules"),
    ],
)
def test_errors_say_what_came(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_plain_sums_are_refused_where_they_would_be_wrong():
    plain = Evidence(torch.ones(2), 0.0) + Evidence(torch.zeros(2), 0.0)
    with pytest.raises(ValueError, match=r"family\.evidence"):
        families.get("normal").posterior(plain)
    with pytest.raises(TypeError):
        plain + 1.0
