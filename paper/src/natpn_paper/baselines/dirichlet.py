"""What all models share that predict a Dirichlet distribution over class probabilities: raw outputs are log α_c.

With α₀ = Σ α_c:

- predictive, and the expected likelihood: probabilities α/α₀;
- aleatoric: the entropy of these;
- epistemic: −log α₀, the predicted evidence;
- log Dir(p | α) = log Γ(α₀) − Σ log Γ(α_c) + Σ (α_c − 1) log p_c;
- KL(Dir(α) ‖ Dir(β)) = −H(Dir(α)) + log B(β) − Σ (β_c − 1)(ψ(α_c) − ψ(α₀)), with log B(β) = Σ log Γ(β_c) − log Γ(β₀).
"""

import torch
from torch import Tensor

from natpn.families import CategoricalDistribution, dirichlet_entropy
from natpn.special import digamma, widen
from natpn_paper.baselines.base import BaselineClassifier
from natpn_paper.baselines.readings import Reading

_LOG_ALPHA = (-10.0, 30.0)


class DirichletClassifier(BaselineClassifier):
    """A classifier whose network returns log α, (B, C)."""

    def _read(self, raw: Tensor) -> Reading:
        probabilities = CategoricalDistribution(raw.softmax(-1))
        return Reading(probabilities, probabilities, -raw.logsumexp(-1))


def alpha_of(raw: Tensor) -> Tensor:
    """Return α in float64, from e⁻¹⁰ to e³⁰: training needs no more."""
    return widen(raw).clamp(*_LOG_ALPHA).exp()


def log_density(log_p: Tensor, alpha: Tensor) -> Tensor:
    """Return log Dir(p | α) of log-probabilities (..., C), in float64."""
    total = alpha.sum(-1)
    return torch.lgamma(total) - torch.lgamma(alpha).sum(-1) + ((alpha - 1) * log_p).sum(-1)


def divergence(alpha: Tensor, beta: Tensor) -> Tensor:
    """Return KL(Dir(α) ‖ Dir(β)) of float64 tensors (..., C)."""
    total = alpha.sum(-1)
    expected = digamma(alpha) - digamma(total).unsqueeze(-1)
    log_beta = torch.lgamma(beta).sum(-1) - torch.lgamma(beta.sum(-1))
    return log_beta - dirichlet_entropy(alpha, total) - ((beta - 1) * expected).sum(-1)
