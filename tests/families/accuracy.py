"""The library against mpmath, at every point of a family's grid, for the tests and `benchmarks/numerics.py`."""

from collections.abc import Iterator
from dataclasses import dataclass

import mpmath as mp
import torch

from families.references import DIGITS, Reference, numbers

LOG_N = [-80.0, -50.0, -20.0, -7.0, -2.0, 0.0, 1.3, 3.0, 7.0, 9.2, 12.0, 20.0, 28.0, 35.0, 41.0, 50.0, 65.0, 80.0]
QUANTITIES = ("expected log-likelihood", "entropy", "predictive log-probability")


@dataclass(frozen=True)
class Point:
    """One comparison: what was asked, what the library said, and what is right."""

    quantity: str
    chi: list[float]
    log_n: float
    y: list[float]
    ours: float
    right: float

    @property
    def error(self) -> float:
        return abs(self.ours - self.right) / (1 + abs(self.right))


def evaluate(
    reference: Reference, chi: torch.Tensor, log_n: torch.Tensor, y: torch.Tensor
) -> tuple[dict[str, torch.Tensor], bool]:
    """Return the three quantities of prior + evidence, and whether all gradients are finite."""
    family = reference.family
    chi, log_n = chi.clone().requires_grad_(), log_n.clone().requires_grad_()
    posterior = family.posterior(family.prior() + family.evidence(chi, log_n))
    targets = y if family.support.event_shape else y[..., 0]
    values = (
        posterior.expected_log_likelihood(targets),
        posterior.entropy(),
        posterior.predictive().log_prob(targets),
    )
    finite = True
    for value in values:
        gradients = torch.autograd.grad(
            value.sum(), [chi, log_n], retain_graph=True, materialize_grads=True, allow_unused=True
        )
        finite = finite and all(bool(g.isfinite().all()) for g in gradients)
    return dict(zip(QUANTITIES, (v.detach() for v in values), strict=True)), finite


def compare(reference: Reference, chi: torch.Tensor, log_n: torch.Tensor, y: torch.Tensor) -> Iterator[Point]:
    """Yield every quantity at every row beside its exact value for the very numbers that came in."""
    mp.mp.dps = DIGITS
    values, finite = evaluate(reference, chi, log_n, y)
    if not finite:
        raise AssertionError(f"{reference.family!r}: a gradient is not finite")
    prior_chi, prior_log_n = reference.family.prior().wide()
    prior = numbers(prior_chi), mp.exp(numbers(prior_log_n)[0])
    entropies: dict[object, object] = {}
    for i in range(len(log_n)):
        row, log, target = numbers(chi[i]), numbers(log_n[i])[0], numbers(y[i])
        tau, n = reference.update([prior, (row, mp.exp(log))])
        if (key := (*row, log)) not in entropies:
            entropies[key] = reference.entropy(tau, n)
        right = (
            reference.expected_log_likelihood(tau, n, target),
            entropies[key],
            reference.log_predictive(tau, n, target),
        )
        for quantity, value in zip(QUANTITIES, right, strict=True):
            ours = float(values[quantity][i])
            yield Point(quantity, chi[i].tolist(), float(log_n[i]), y[i].tolist(), ours, float(value))


def grid(reference: Reference, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return χ, log n and y over the whole range that a network can produce."""
    rows = [(chi, log_n, y) for chi in reference.chis for log_n in LOG_N for y in reference.targets(chi)]
    chi, log_n, y = (torch.tensor(column, dtype=dtype) for column in zip(*rows, strict=True))
    return chi, log_n, y
