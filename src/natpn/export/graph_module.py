"""A model as one module: inputs in the user's units → a tuple of named outputs.

Inputs are prepared by `natpn.export.preparation`; network, update, units and predictive distributions are the library's
own. What the model calculates in numpy is repeated here: familiarity, epistemic uncertainty and `novelty_p`. What
depends on the family, such as quantiles in closed form, is in the family's file.
"""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from natpn.densities import Density, GaussianMixture
from natpn.densities import expectation_maximization as em
from natpn.export.preparation import prepare
from natpn.families import Family, Graph, Posterior
from natpn.model import Model, Units

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def graph_of(family: Family) -> Graph:
    """Return what a graph can calculate for a family.

    Raises:
        ValueError: If the family does not state it.
    """
    graph = family.graph
    if graph is None:
        raise ValueError(
            f"family: {family!r} cannot be exported: its class does not state what a graph can say of it; give it a "
            "property `graph` that returns a natpn.families.Graph"
        )
    return graph


def describe_outputs(model: Model) -> dict[str, str]:
    """Return what the outputs of a model's graph are, in their order."""
    graph = graph_of(model.family)
    outputs = {"prediction": graph.prediction}
    if model.family.is_classes:
        outputs["label"] = "the place of the most probable class in `classes`"
    outputs |= {
        "log_evidence": "log of the number of pseudo-observations that the network adds to the prior: the model's "
        "score_samples, higher is more familiar",
        "familiarity": "the weight of the data in the answer: 0 means that the prior speaks, 1 the data",
        "epistemic": "what is not known: −log n",
        "novelty_p": "the share of held-out rows that were as unfamiliar: small is novel",
        "chi": f"posterior parameters in the units of the targets: {graph.parameters}",
        "n": "posterior parameter: the number of pseudo-observations, those of the prior included",
    }
    if graph.deviation:
        outputs["std"] = "the standard deviation of the predictive distribution; inf where there is none"
    if graph.aleatoric is not None:
        outputs["aleatoric"] = "the noise in the data: entropy, in nats, of the likelihood at the posterior mean"
    if graph.quantiles is not None:
        outputs["quantiles"] = f"quantiles of the predictive distribution at {', '.join(map(str, LEVELS))}"
    return outputs


def left_out(model: Model) -> list[str]:
    """Return sentences about what the model can do and the graph cannot."""
    sentences = list(graph_of(model.family).left_out)
    if model.calibration.scores is not None:
        what = "prediction sets" if model.family.is_classes else "intervals"
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
    """Everything that a fitted model says about rows.

    Args:
        model: The model.
    """

    held_out: Tensor
    levels: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.prepare, self.input_shape = prepare(model.inputs)
        self.network = _frozen(copy.deepcopy(model.network).cpu()).eval()
        self.dtype = next(model.network.parameters()).dtype
        self.family = model.family
        self.units = model.targets if isinstance(model.targets, Units) else None
        trials = None if self.units is None else self.units.trials
        self.trials = () if trials is None else (torch.tensor(trials, dtype=torch.float64),)
        self.prior_log_n = model.prior_log_n
        self.outputs = list(describe_outputs(model))
        self.graph = graph_of(model.family)
        held_out = torch.from_numpy(model.calibration.log_evidence).double()
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
        """Return the outputs by name; outputs that some families lack are functions."""
        predictive = posterior.predictive(*self.trials)
        prediction, graph = self.graph.predict(predictive), self.graph
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
            "aleatoric": graph.aleatoric and partial(graph.aleatoric, posterior),
            "quantiles": graph.quantiles and partial(graph.quantiles, predictive, self.levels),
        }

    def _novelty_p(self, log_evidence: Tensor) -> Tensor:
        """Count held-out values that are not larger, by binary search: one gather for each halving."""
        below = torch.zeros_like(log_evidence, dtype=torch.int64)
        for step in reversed(range(self.n_steps)):
            further = below + 2**step
            below = torch.where(self.held_out[further - 1] <= log_evidence, further, below)
        return (1 + below.double()) / (self.n_held_out + 1)


def _frozen(network: nn.Module) -> nn.Module:
    """Return the network with its mixtures frozen, and without gradients."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, GaussianMixture):
                setattr(module, name, FrozenMixture(child))
    return network.requires_grad_(False)
