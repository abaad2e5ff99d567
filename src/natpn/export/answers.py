"""An estimator as one module: inputs in the user's units → a tuple of named outputs.

Inputs are prepared by `natpn.export.preparation`; network, update, units and predictive distributions are called, not
stated again. What stands here is what the estimators calculate in numpy: familiarity, epistemic uncertainty,
`novelty_p`, the median of `lognormal`, and the quantiles that have a closed form.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from natpn.densities import Density, GaussianMixture
from natpn.densities import expectation_maximization as em
from natpn.distributions import CompoundGamma, Distribution, LogStudentT
from natpn.distributions.multivariate_t import log_determinant
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.units import Units
from natpn.export.preparation import prepare
from natpn.families import FAMILIES, Family, Posterior
from natpn.families.gamma import Gamma, GammaPosterior
from natpn.families.lognormal import LogNormalPosterior
from natpn.families.multivariate_normal import MultivariateNormal, MultivariateNormalPosterior, pack

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)

PREDICTIONS = {
    "categorical": "the probability of each class, in the order of `classes`",
    "bernoulli": "the probability of 1",
    "multinomial": "the mean count of each class, in as many trials as training rows had; if these differ, its share",
    "lognormal": "the median of the predictive distribution, which has no mean",
    "von_mises_fisher": "the mean vector, which is shorter than 1",
}
PARAMETERS = {
    "categorical": "class probabilities; n·chi is the parameter of the Dirichlet posterior",
    "bernoulli": "the probability p of 1; n·p and n·(1 − p) are the parameters of the Beta posterior",
    "multinomial": "class probabilities; n·chi is the parameter of the Dirichlet posterior",
    "normal": "mean and variance; the predictive is Student's t with n degrees of freedom, that centre, and "
    "scale² = variance·(n + 1)/n",
    "lognormal": "mean and variance of the logarithm; the predictive is the exponential of Student's t with n degrees "
    "of freedom, that centre, and scale² = variance·(n + 1)/n",
    "multivariate_normal": "the mean and the lower triangle, by rows, of the Cholesky factor of the covariance; the "
    "predictive is the multivariate t with n degrees of freedom and scale matrix covariance·(n + 1)/n",
    "poisson": "the rate; n·chi and n are shape and rate of its Gamma posterior, and the predictive is negative "
    "binomial with mean chi and size n·chi",
    "negative_binomial": "the mean; n·chi and n·r + 1 are the parameters of the Beta posterior of the probability "
    "of success",
    "exponential": "the mean; n + 1 and n·chi are shape and rate of the Gamma posterior of its inverse",
    "gamma": "the mean; k·n + 1 and n·chi are shape and rate of the Gamma posterior of the rate, k being the shape",
    "von_mises_fisher": "the mean vector; concentration·n·chi is the parameter of the posterior of the direction",
}
_NO_ENTROPY = ("multinomial", "poisson", "negative_binomial", "von_mises_fisher")
_NO_DEVIATION = ("categorical", "multinomial", "lognormal", "multivariate_normal", "von_mises_fisher")


def name_of(family: Family) -> str:
    """Return the name of a family in `natpn.families.FAMILIES`."""
    return next(name for name, kind in FAMILIES.items() if kind is type(family))


def has_quantiles(family: Family) -> bool:
    """Say whether quantiles of the predictive distribution have a closed form."""
    return name_of(family) == "bernoulli" or (isinstance(family, Gamma) and family.shape == 1)


def describe_outputs(model: NatPNEstimator) -> dict[str, str]:
    """Return what the outputs of a model's graph are, in their order."""
    name = name_of(model.family_)
    outputs = {"prediction": PREDICTIONS.get(name, "the mean of the predictive distribution")}
    if name == "categorical":
        outputs["label"] = "the place of the most probable class in `classes`"
    outputs |= {
        "log_evidence": "log of the number of pseudo-observations that the network adds to the prior: the model's "
        "score_samples, higher is more familiar",
        "familiarity": "the weight of the data in the answer: 0 means that the prior speaks, 1 the data",
        "epistemic": "what is not known: −log n",
        "novelty_p": "the share of held-out rows that were as unfamiliar: small is novel",
        "chi": f"posterior parameters in the units of the targets: {PARAMETERS[name]}",
        "n": "posterior parameter: the number of pseudo-observations, those of the prior included",
    }
    if name not in _NO_DEVIATION:
        outputs["std"] = "the standard deviation of the predictive distribution; inf where there is none"
    if name not in _NO_ENTROPY:
        outputs["aleatoric"] = "the noise in the data: entropy, in nats, of the likelihood at the posterior mean"
    if has_quantiles(model.family_):
        outputs["quantiles"] = f"quantiles of the predictive distribution at {', '.join(map(str, LEVELS))}"
    return outputs


def left_out(model: NatPNEstimator) -> list[str]:
    """Return sentences about what the model can and the graph cannot."""
    name, sentences = name_of(model.family_), []
    if name in ("normal", "lognormal"):
        sentences.append(
            "Quantiles and intervals are left out: those of Student's t are not elementary. With scipy, "
            + ("exp of " if name == "lognormal" else "")
            + "stats.t.ppf(q, n, mean, sqrt(variance * (n + 1) / n)), where chi is mean and variance."
        )
    elif name in ("poisson", "negative_binomial", "gamma") and not has_quantiles(model.family_):
        what = "the compound Gamma" if name == "gamma" else "counts"
        sentences.append(f"Quantiles and intervals are left out: those of {what} are not elementary.")
    if name in ("poisson", "negative_binomial", "multinomial"):
        sentences.append("The aleatoric entropy is left out: that of counts is an infinite sum.")
    if name == "von_mises_fisher":
        sentences.append("The aleatoric entropy is left out: with a known concentration it is the same for all rows.")
    if name == "lognormal":
        sentences.append("The standard deviation is left out: the predictive distribution has none.")
    if name in ("multivariate_normal", "von_mises_fisher", "multinomial"):
        sentences.append("Standard deviations of the coordinates are left out: compute them from chi and n.")
    if model.calibration_.scores is not None:
        what = "prediction sets" if name == "categorical" else "intervals"
        sentences.append(f"The conformal calibration of {what} is left out: ask the model for them.")
    return sentences


class FrozenMixture(Density):
    """A Gaussian mixture as the coefficients of its quadratic features, for any number of rows at once."""

    coefficients: Tensor

    def __init__(self, mixture: GaussianMixture) -> None:
        super().__init__(mixture.dim)
        self.location, self.scale = mixture.location, mixture.scale
        self.register_buffer("coefficients", mixture._coefficients().detach().clone())

    def _log_prob(self, u: Tensor) -> Tensor:
        return em.log_density_at_once(u.to(self.coefficients.dtype), self.coefficients).to(u.dtype)


class Answers(nn.Module):
    """Everything that a fitted estimator says about rows.

    Args:
        model: The estimator.
    """

    held_out: Tensor
    levels: Tensor

    def __init__(self, model: NatPNEstimator) -> None:
        super().__init__()
        self.prepare, self.input_shape = prepare(model.inputs_)
        self.network = _frozen(copy.deepcopy(model.network_).cpu()).eval()
        self.dtype = next(model.network_.parameters()).dtype
        self.family = model.family_
        self.units: Units | None = getattr(model, "units_", None)
        trials = None if self.units is None else self.units.trials
        self.trials = () if trials is None else (torch.tensor(trials, dtype=torch.float64),)
        self.prior_log_n = model._prior_log_n
        self.outputs = list(describe_outputs(model))
        self.standard_entropy = _standard_entropy(model.family_)
        held_out = torch.from_numpy(model.calibration_.log_evidence).double()
        self.n_held_out = len(held_out)
        self.n_steps = self.n_held_out.bit_length()
        padding = torch.full((2**self.n_steps - 1 - self.n_held_out,), torch.inf, dtype=torch.float64)
        self.register_buffer("held_out", torch.cat([held_out, padding]))
        self.register_buffer("levels", torch.tensor(LEVELS, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs that `describe_outputs` names, for inputs in float64, shape (rows, *input_shape)."""
        posterior, evidence = self.network(self.prepare(x).to(self.dtype))
        chi = posterior.mean_statistics
        if self.units is not None:
            chi = self.units.restore(chi)
        restored = self.family.posterior(self.family.evidence(chi, posterior.evidence.log_n.to(chi.dtype)))
        found = self._answers(restored, evidence.log_n.double())
        return tuple(found[name]() if callable(found[name]) else found[name] for name in self.outputs)

    def _answers(self, posterior: Posterior[Any], log_evidence: Tensor) -> dict[str, Any]:
        """Return the outputs, those that not every family has as functions."""
        predictive = posterior.predictive(*self.trials)
        prediction = predictive.loc.exp() if isinstance(predictive, LogStudentT) else predictive.mean
        return {
            "prediction": prediction,
            "label": lambda: prediction.argmax(-1),
            "log_evidence": log_evidence,
            "familiarity": torch.sigmoid(log_evidence - self.prior_log_n),
            "epistemic": -torch.logaddexp(log_evidence, torch.full_like(log_evidence, self.prior_log_n)),
            "novelty_p": self._novelty_p(log_evidence),
            "chi": posterior.mean_statistics,
            "n": posterior.n,
            "std": lambda: predictive.variance.sqrt(),
            "aleatoric": lambda: self._aleatoric(posterior),
            "quantiles": lambda: self._quantiles(predictive),
        }

    def _novelty_p(self, log_evidence: Tensor) -> Tensor:
        """Count held-out values that are not above, by halving: one gather a step, however many rows were held out."""
        below = torch.zeros_like(log_evidence, dtype=torch.int64)
        for step in reversed(range(self.n_steps)):
            further = below + 2**step
            below = torch.where(self.held_out[further - 1] <= log_evidence, further, below)
        return (1 + below.double()) / (self.n_held_out + 1)

    def _aleatoric(self, posterior: Posterior[Any]) -> Tensor:
        """Return the entropy of the likelihood: that of a standard one, and by how much its units are larger."""
        if self.standard_entropy is None:
            entropy: Tensor = posterior.likelihood().entropy()
            return entropy
        chi = posterior.mean_statistics
        if isinstance(posterior, GammaPosterior):
            return self.standard_entropy + chi[..., 0].log()
        if isinstance(posterior, MultivariateNormalPosterior):
            return self.standard_entropy + log_determinant(posterior.factor)
        value = self.standard_entropy + 0.5 * chi[..., 1].log()
        return value + chi[..., 0] if isinstance(posterior, LogNormalPosterior) else value

    def _quantiles(self, predictive: Distribution) -> Tensor:
        """Return quantiles at `LEVELS`, (rows, levels)."""
        if isinstance(predictive, CompoundGamma):  # of shape 1: F(y) = 1 − (1 + y/(a s))^{−a}
            scale, a = predictive.scale.unsqueeze(-1), predictive.a.unsqueeze(-1)
            return scale * a * torch.expm1(-torch.log1p(-self.levels) / a)
        failure = 1 - predictive.mean.unsqueeze(-1)
        return (failure < self.levels).double()


def _standard_entropy(family: Family) -> float | None:
    """Return the entropy of a family's likelihood with mean 0 and variance 1, or mean 1; None if that is no unit."""
    name = name_of(family)
    if name in ("gamma", "exponential"):
        chi = [1.0]
    elif name in ("normal", "lognormal"):
        chi = [0.0, 1.0]
    elif isinstance(family, MultivariateNormal):
        chi = [*[0.0] * family.dimension, *pack(torch.eye(family.dimension)).tolist()]
    else:
        return None
    standard = family.posterior(family.evidence(torch.tensor(chi, dtype=torch.float64), 0.0))
    return float(standard.likelihood().entropy())


def _frozen(network: nn.Module) -> nn.Module:
    """Return the network with its mixtures frozen, and without gradients."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, GaussianMixture):
                setattr(module, name, FrozenMixture(child))
    return network.requires_grad_(False)
