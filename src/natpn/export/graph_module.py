"""A model as one module: inputs in the user's units → a tuple of named outputs.

Network, update, units and predictive distributions are the library's own. What the model calculates in numpy is
repeated here: the encoding of inputs, familiarity, epistemic uncertainty and `novelty_p`. What depends on the family,
such as quantiles in closed form, is in the family's file.

A column states how it is encoded (`Column.arithmetic`), from one number a row: its value, the seconds of a date, or the
code of a text, which `natpn.export.column_inputs` looks up. The surprise is the sum of their events and of the distance
of the farthest number beyond its range. A table with any other column has to be encoded before.
"""

import copy
import math
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natpn.densities import Density, GaussianMixture
from natpn.densities import expectation_maximization as em
from natpn.families import Family, Graph, Posterior
from natpn.model import ArrayInputs, Inputs, Model, TableInputs, Units
from natpn.model.calibration import TIE
from natpn.tabular import Column, TableTransform
from natpn.tabular.moments import STANDARDISED_LIMIT as LIMIT
from natpn.tabular.surprise import HALF, MOST_STRANGE, SHARE, Ranges

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
COVERAGE = 0.9
_FAR = 1e6  # ranges: squares stay within float32


def graph_of(family: Family) -> Graph:
    """Return what a graph can calculate for a family; raise a ValueError if the family does not state it."""
    graph = family.graph
    if graph is None:
        raise ValueError(
            f"family: {family!r} cannot be exported: its class does not state what a graph can say of it; give it a "
            "property `graph` that returns a natpn.families.description.Graph"
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
    if graph.quantiles is not None and _interval_levels(model) is not None:
        ends = "" if model.calibration.scores is None else ", conformal"
        outputs["lower"] = f"the lower end of the {100 * COVERAGE:g} % interval{ends}"
        outputs["upper"] = f"the upper end of the {100 * COVERAGE:g} % interval{ends}"
    return outputs


def left_out(model: Model) -> list[str]:
    """Return sentences about what the model can do and the graph cannot."""
    graph = graph_of(model.family)
    sentences = list(graph.left_out)
    if model.calibration.scores is not None and (graph.quantiles is None or _interval_levels(model) is None):
        what = "prediction sets" if model.family.is_classes else "intervals"
        sentences.append(f"The conformal calibration of {what} is left out: ask the model for them.")
    return sentences


def _interval_levels(model: Model) -> tuple[float, float] | None:
    """Return the levels of the ends of the interval; None if they are not the same for all rows."""
    calibration = model.calibration
    if calibration.groups is not None or calibration.shift is not None:
        return None
    limit = calibration.threshold(COVERAGE)
    half = COVERAGE / 2 if limit is None else limit + (TIE if model.family.support.discrete else 0.0)
    return 0.5 - min(half, 0.5), 0.5 + min(half, 0.5)


class FrozenMixture(Density):
    """A Gaussian mixture as the coefficients of its quadratic features, for any number of rows at once."""

    def __init__(self, mixture: GaussianMixture) -> None:
        super().__init__(mixture.dim)
        self.location, self.scale = mixture.location, mixture.scale
        self.coefficients = mixture._coefficients().detach().clone()

    def _log_prob(self, u: Tensor) -> Tensor:
        return em.log_density_at_once(u.to(self.coefficients.dtype), self.coefficients).to(u.dtype)


class Answers(nn.Module):
    """Everything that a fitted model says about rows."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.prepare, self.input_shape = _prepare(model.inputs)
        self.network = _frozen(copy.deepcopy(model.network).cpu()).eval()
        self.dtype = next(model.network.parameters()).dtype
        self.family = model.family
        self.units = model.targets if isinstance(model.targets, Units) else None
        trials = None if self.units is None else self.units.trials
        self.trials = () if trials is None else (_constant(trials),)
        self.prior_log_n = model.prior_log_n
        self.outputs = list(describe_outputs(model))
        self.graph = graph_of(model.family)
        held_out = torch.from_numpy(model.calibration.log_evidence).double()
        self.n_held_out = len(held_out)
        self.n_steps = self.n_held_out.bit_length()
        padding = torch.full((2**self.n_steps - 1 - self.n_held_out,), torch.inf, dtype=torch.float64)
        self.held_out = torch.cat([held_out, padding])
        if self.graph.quantiles is not None:
            self.quantiles = self.graph.quantiles((*LEVELS, *(_interval_levels(model) or ())))

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
        quantiles = cache(lambda: self.quantiles(predictive))
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
            "quantiles": lambda: quantiles()[:, : len(LEVELS)],
            "lower": lambda: quantiles()[:, -2],
            "upper": lambda: quantiles()[:, -1],
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


def other_columns(inputs: Inputs) -> list[Column]:
    """Return the columns of a table that a graph cannot read."""
    return [column for column in inputs.columns or [] if column.arithmetic is None]


def takes_columns(inputs: Inputs) -> bool:
    """Say whether a graph has one input a column, because some of them are no plain numbers."""
    stated = [column.arithmetic for column in inputs.columns or []]
    return None not in stated and any(a is not None and (a.parts or a.codes) for a in stated)


def _prepare(inputs: Inputs) -> tuple[nn.Module, tuple[int, ...]]:
    """Return the module that prepares inputs, and the shape of one input that it takes."""
    if isinstance(inputs, ArrayInputs):
        return Standardise(inputs.mean, inputs.scale), inputs.shape
    if isinstance(inputs, TableInputs) and not other_columns(inputs):
        return Columns(inputs.table), (len(inputs.table.columns),)
    return Standardise(0.0, 1.0), inputs.shape  # they are encoded


class Standardise(nn.Module):
    """Standardise arrays of any shape."""

    def __init__(self, mean: Any, scale: Any) -> None:
        super().__init__()
        self.mean, self.scale = _constant(mean), _constant(scale)

    def forward(self, x: Tensor) -> Tensor:
        """Return (x − mean)/scale in float32."""
        return ((x - self.mean) / self.scale).float()


class Columns(nn.Module):
    """Prepare a table whose columns all have an arithmetic: one number a column, missing values as NaN."""

    def __init__(self, table: TableTransform) -> None:
        super().__init__()
        columns = table.columns
        stated = [arithmetic for column in columns if (arithmetic := column.arithmetic) is not None]
        self.parts = [(i, arithmetic.parts) for i, arithmetic in enumerate(stated) if arithmetic.parts is not None]
        numbers, place = [], len(columns)  # where the values of each number are, and its moments
        for i, arithmetic in enumerate(stated):
            for moments in arithmetic.numbers:
                numbers.append((i if arithmetic.parts is None else place, moments))
                place += int(arithmetic.parts is not None)
        self.varying = torch.tensor([i for i, _ in numbers], dtype=torch.int64)
        self.factor = _constant([math.ldexp(1.0, -m.exponent) for _, m in numbers])
        self.mean = _constant([m.mean for _, m in numbers])
        self.deviation = _constant([m.deviation for _, m in numbers])
        ranges = Ranges(columns)
        self.has_ranges = table.ranges is not None and bool(ranges.places)
        bounds = np.tile([[-math.inf], [math.inf], [1.0]], len(numbers))
        bounds[:, ranges.places] = ranges.low, ranges.high, ranges.width
        self.low, self.high, self.width = _constant(bounds)
        self.most = _FAR if table.version > 2 else 1.0
        flags = [(i, flag) for i, arithmetic in enumerate(stated) for flag in arithmetic.flags]
        self.flagged = torch.tensor([i for i, _ in flags], dtype=torch.int64)
        self.if_missing, self.if_one, self.otherwise = _constant([flag for _, flag in flags]).reshape(-1, 3).T
        coded = [(i, codes) for i, arithmetic in enumerate(stated) if (codes := arithmetic.codes) is not None]
        self.coded = [(i, _constant(codes.flags), _constant(codes.events)) for i, codes in coded]
        owners = [i for i, _ in flags] + [i for i, codes in coded for _ in range(codes.flags.shape[1])]
        self.order = torch.tensor(np.argsort(owners, kind="stable"), dtype=torch.int64)
        self.first = torch.tensor([column.missing == 0 for column in columns])
        self.constant = _constant([arithmetic.constant for arithmetic in stated])
        self.tolerance = _constant([arithmetic.tolerance for arithmetic in stated])
        self.log_never = _constant([column.log_never for column in columns])
        self.n_zeros = table.n_numbers - len(numbers)
        self.counts_several = table.version > 2

    def forward(self, x: Tensor) -> Tensor:
        """Return numbers, flags and the surprise, (rows, n_outputs), in float32."""
        parts = []
        if self.varying.shape[0]:
            found = [part.unsqueeze(1) for i, parts_of in self.parts for part in parts_of(x[:, i])]
            values = torch.cat([x, *found], 1).index_select(1, self.varying)
            z = (values * self.factor - self.mean) / self.deviation
            parts.append(torch.where(values.isnan(), 0.0, z.clamp(-LIMIT, LIMIT)))
        if self.n_zeros:
            parts.append(torch.zeros_like(x[:, :1]))
        missing = x.isnan()
        event = (missing & self.first) | ((x - self.constant).abs() > self.tolerance)
        surprise = torch.where(event, self.log_never, 0.0).sum(1, keepdim=True)
        flags = []
        if self.flagged.shape[0]:
            present = torch.where(x.index_select(1, self.flagged) == 1, self.if_one, self.otherwise)
            flags.append(torch.where(missing.index_select(1, self.flagged), self.if_missing, present))
        for i, table, events in self.coded:
            code = x[:, i].long()
            flags.append(table[code])
            surprise = surprise + events[code].unsqueeze(1)
        if self.coded:
            flags = [torch.cat(flags, 1).index_select(1, self.order)]
        if self.has_ranges:
            apart = torch.maximum(parts[0] - self.high, self.low - parts[0]) / self.width
            farthest = apart.amax(1, keepdim=True).clamp(0.0, _FAR)
            squared, growth = farthest.square(), farthest.clamp(1.0, self.most)
            surprise = surprise + SHARE * self.log_never[:1] * growth * squared / (squared + HALF**2)
        if self.counts_several:
            surprise = surprise / (1 - (surprise / self.log_never.sum()).clamp(max=MOST_STRANGE))
        return torch.cat([*parts, *flags, surprise], 1).float()


def _constant(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values, np.float64))
