"""The Natural Posterior Network (Sec. 3.2 of the paper): encoder, linear decoder and density → posterior, in one pass.

    z = encoder(x)                    the latent vector
    χ = link(decoder(z))              what a target looks like there
    log n = budget(log p(z, bypass))  how many observations that is worth
    posterior = prior + (χ, n)        Eq. 4

With `polar` the density sees z as its direction z/‖z‖ and the logarithm of its length. A network for pictures pulls
what it recognises far out, where it scatters widely; what it does not recognise stays near the origin, and there a
density over z itself is the highest.

Rows that come after training add a density and a decoder of their own (`natpn.network.feedback`).

Far from the training data p falls to 0, n with it, and the posterior is the prior (Sec. 3.3, Theorem 1).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from natpn.choices import check_choice
from natpn.densities import Density
from natpn.densities import get as get_density
from natpn.encoders import ChainEncoder
from natpn.encoders.base import bound, check_positive
from natpn.evidence import Evidence, rounded
from natpn.families import Family, Posterior
from natpn.few_rows import Floats, array, form_of
from natpn.network import budgets
from natpn.network.feedback import Feedback

_EPSILON = 1e-5  # added to variances of latents
_SHORTEST = 1e-6  # no latent counts as shorter

Quick = Callable[[Floats], Evidence]


class Prediction(NamedTuple):
    """What a network says about a batch.

    Attributes:
        posterior: The distribution over the family's parameters, prior included.
        evidence: What the network adds to the prior.
    """

    posterior: Posterior[Any]
    evidence: Evidence


class LatentFrame(nn.Module):
    """Shift and scale latents by fixed numbers, z = (f − m)/√(v + ε).

    m = 0 and v = 1 except in networks that earlier versions trained by the paper's scheme: those normalised latents.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.register_buffer("running_mean", torch.zeros(latent_dim))
        self.register_buffer("running_variance", torch.ones(latent_dim))

    @property
    def factor(self) -> Tensor:
        """What latents less m are multiplied with."""
        return (self.running_variance + _EPSILON).rsqrt()

    def forward(self, latent: Tensor) -> Tensor:
        """Return latents of shape (..., latent_dim) in the frame, cut at the encoders' limit."""
        return (bound(latent.to(self.running_mean.dtype)) - self.running_mean) * self.factor


class NaturalPosteriorNetwork(nn.Module):
    """Predict a posterior over the parameters of a target's distribution.

    Leading dimensions are just batch: an encoder that keeps a latent vector per pixel predicts a posterior per pixel.
    In evaluation mode latents that are NaN count as no evidence, so the answer is the prior.

    Args:
        encoder: Any module x → (..., latent_dim).
        family: What the targets are.
        density: A name in `natpn.densities.DENSITIES`, or a density over latent_dim features and those of the bypass.
        latent_dim: The size of the latent vector.
        budget: A name in `natpn.network.budgets.BUDGETS`.
        prior: What is believed without any evidence: the paper's prior of the family if None; "marginal" for what the
            training targets say of any row, which the staged scheme fills in.
        bypass: A module x → (..., latent_dim of its own) whose output the density sees beside the latent vector, such
            as `PrincipalComponents`.
        polar: Whether the density sees direction and log-length of the latent vector, one number more, in its place.

    Example:
        >>> from natpn import encoders, families
        >>> network = NaturalPosteriorNetwork(encoders.get("tabular", n_features=4), families.get("poisson")).eval()
        >>> network(torch.randn(8, 4)).posterior.predictive().mean.shape
        torch.Size([8])
    """

    prior_chi: Tensor
    prior_log_n: Tensor
    feedback: Feedback | None  # what it has learned after training

    def __init__(
        self,
        encoder: nn.Module,
        family: Family,
        density: str | Density = "gaussian_mixture",
        latent_dim: int = 16,
        budget: str = "gradual",
        prior: Evidence | Literal["marginal"] | None = None,
        bypass: nn.Module | None = None,
        polar: bool = False,
    ) -> None:
        super().__init__()
        self.has_marginal_prior = isinstance(prior, str)
        if isinstance(prior, str):
            check_choice("prior", prior, ["marginal"])
            prior = None
        check_positive(latent_dim=latent_dim)
        if not isinstance(family, Family):
            raise ValueError(
                f"family: expected a Family, got {family!r}; make one with natpn.families.get('categorical', "
                "n_classes=3)"
            )
        dim = latent_dim + int(polar) + (0 if bypass is None else _size_of(bypass))
        if isinstance(density, str):
            density = get_density(density, dim)
        if density.dim != dim:
            raise ValueError(
                f"density: it is over {density.dim} features, but latent_dim = {latent_dim}, polar = {polar} and the "
                f"bypass make {dim}"
            )
        self.encoder = encoder
        self.family = family
        self.latent_dim = latent_dim
        self.normalisation = LatentFrame(latent_dim)  # the name that saved tensors have
        self.decoder = nn.Linear(latent_dim, family.n_statistics)
        self.bypass = bypass
        self.polar = polar
        self.density = density
        self.budget = budgets.get(budget, density.n_continuous)
        self.feedback = None
        chi, log_n = _checked_prior(family, prior)
        # float64, as `prior()` makes it: sums with evidence need those digits
        self.register_buffer("prior_chi", chi)
        self.register_buffer("prior_log_n", log_n)

    @property
    def prior(self) -> Evidence:
        """What is believed without any evidence."""
        exact = self.prior_chi.double(), self.prior_log_n.double()
        return rounded(exact, self.family.n_statistics, self.family.pool, self.decoder.weight.dtype)

    def see_targets(self, y: Tensor, weight: Tensor) -> None:
        """Set the prior to the marginal of training targets, if "marginal" was asked for."""
        if self.has_marginal_prior:
            chi, log_n = self.family.marginal(y, weight).wide()
            self.prior_chi.copy_(chi)
            self.prior_log_n.copy_(log_n)

    def represent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents, (..., latent_dim), and raw outputs of the decoder, (..., S)."""
        return self.read(self.encoder(x))

    def read(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents and raw outputs from the output of the encoder."""
        if latent.shape[-1:] != (self.latent_dim,):
            raise ValueError(
                f"encoder: it returned shape {tuple(latent.shape)}, but latent_dim = {self.latent_dim} is needed in "
                "the last dimension"
            )
        with _full_precision(latent):
            latent = self.normalisation(latent)
            return latent, self.decoder(latent)

    def features(self, x: Tensor, latent: Tensor, beside: Tensor | None = None) -> Tensor:
        """Return what the density sees: latents, and the output of the bypass, which may be known."""
        if self.polar:
            latent = in_polar_coordinates(latent)
        if self.bypass is None:
            return latent
        if beside is None:
            with _full_precision(latent):
                beside = cast(Tensor, self.bypass(x))
        if beside.shape[:-1] != latent.shape[:-1]:
            raise ValueError(
                f"bypass: expected an output for each of the latents of shape {tuple(latent.shape)}, got shape "
                f"{tuple(beside.shape)}"
            )
        return torch.cat([latent, beside.to(latent.dtype)], -1)

    def evidence(self, raw: Tensor, features: Tensor, met: Tensor | None = None) -> Evidence:
        """Return the evidence from raw outputs, what the density sees, and the surprise that `Feedback` needs."""
        log_density = self.density(features)
        if self.feedback is not None:
            raw, log_density = self.feedback(raw, features, log_density, met)
        if not self.training:
            log_density = log_density.masked_fill(log_density.isnan(), -torch.inf)
        log_n = self.budget(log_density)
        with _full_precision(raw):
            return self.family.evidence(self.family.link(raw), log_n.to(raw.dtype))

    def update(self, evidence: Evidence) -> Evidence:
        """Return prior and evidence together, of which at most e^`LARGEST` observations count."""
        chi, log_n = evidence.wide()
        exact = chi, log_n.clamp(max=budgets.LARGEST)
        return self.prior + rounded(exact, self.family.n_statistics, evidence.pool, evidence.chi.dtype)

    def predict(self, evidence: Evidence) -> Prediction:
        """Return the Bayesian update of the prior by the evidence."""
        return Prediction(self.family.posterior(self.update(evidence)), evidence)

    def forward(self, x: Tensor) -> Prediction:
        """Return posterior and evidence for a batch of inputs."""
        return self.predict(self.see(x))

    def divide(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return inputs as encoder and bypass take them, and the surprise that `Feedback` needs, if there is one."""
        return (x, None) if self.feedback is None else self.feedback.divide(x)

    def see(self, x: Tensor, prepared: Tensor | None = None, beside: Tensor | None = None) -> Evidence:
        """Return the evidence for a batch of inputs.

        Args:
            x: The inputs.
            prepared: What a `ChainEncoder` prepares them as, if it is known.
            beside: The output of the bypass, if it is known.
        """
        x, met = self.divide(x)
        latent = self.encoder(x) if prepared is None else cast(ChainEncoder, self.encoder).map(prepared)
        latent, raw = self.read(latent)
        return self.evidence(raw, self.features(x, latent, beside), met)

    def log_density(self, x: Tensor, prepared: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        """Return the log-density of inputs; the arguments are those of `see`."""
        x, met = self.divide(x)
        latent = self.encoder(x) if prepared is None else cast(ChainEncoder, self.encoder).map(prepared)
        features = self.features(x, self.normalisation(latent), beside)
        log_density: Tensor = self.density(features)
        return log_density if self.feedback is None else self.feedback.log_density(features, log_density, met)[1]

    def _said_in_numpy(self) -> Callable[[Floats], tuple[Floats, Floats]] | None:
        """Return raw outputs and log n as a function of inputs, if all parts have numpy forms."""
        encode, density, beside = form_of(self.encoder), self.density.in_numpy(), form_of(self.bypass)
        feedback = None if self.feedback is None else self.feedback.in_numpy()
        events = self.feedback is not None and self.feedback.sees_events
        exact = all(t.dtype == torch.float64 and t.device.type == "cpu" for t in self.parameters())
        if not exact or encode is None or density is None or (beside is None and self.bypass is not None) or self.polar:
            return None
        mean, factor = array(self.normalisation.running_mean), array(self.normalisation.factor)
        weight, bias = array(self.decoder.weight).T.copy(), array(self.decoder.bias)
        budget = self.budget.in_numpy()

        def said(x: Floats) -> tuple[Floats, Floats]:
            x, met = (x[:, :-1], x[:, -1]) if events else (x, None)
            latent = (encode(x) - mean) * factor
            features = latent if beside is None else np.concatenate([latent, beside(x)], 1)
            raw, log_density = latent @ weight + bias, density(features)
            if feedback is not None:
                raw, log_density = feedback(raw, features, log_density, met)
            return raw, budget(log_density)

        return said

    def quick(self) -> Quick | None:
        """Return `see` as a function of a few rows (see `natpn.few_rows`), if there is a quick way.

        The network has to be frozen, in evaluation mode, in float64 and on the CPU.
        """
        return quick_way([self], lambda chi, log_n: self.family.evidence(chi[0], log_n[0]))


def quick_way(members: list[NaturalPosteriorNetwork], combine: Callable[[Tensor, Tensor], Evidence]) -> Quick | None:
    """Return the quick way of members together, whose χ and log n, (M, …), are combined."""
    found = [member._said_in_numpy() for member in members]
    known = [said for said in found if said is not None]
    if len(known) < len(found):
        return None

    @torch.no_grad()
    def see(x: Floats) -> Evidence:
        parts = zip(*(said(x) for said in known), strict=True)
        raw, log_n = (torch.from_numpy(np.stack(part)) for part in parts)
        return combine(members[0].family.link(raw), log_n)

    return see


def in_polar_coordinates(latent: Tensor) -> Tensor:
    """Return direction and log-length of latents (..., H), as (..., H + 1)."""
    length = torch.linalg.vector_norm(latent, dim=-1, keepdim=True).clamp(min=_SHORTEST)
    return torch.cat([latent / length, length.log()], -1)


def _size_of(bypass: nn.Module) -> int:
    size = getattr(bypass, "latent_dim", None)
    if not isinstance(size, int):
        raise ValueError(f"bypass: {type(bypass).__name__} needs an attribute latent_dim, the size of its output")
    return size


def _checked_prior(family: Family, prior: Evidence | None) -> tuple[Tensor, Tensor]:
    if prior is None:
        prior = family.prior()
    if prior.batch_shape or prior.chi.shape != (family.n_statistics,):
        raise ValueError(
            f"prior: expected {family.n_statistics} statistics and one number of observations, as family.prior() makes "
            f"them, got chi of shape {tuple(prior.chi.shape)}"
        )
    chi, log_n = prior.wide()
    chi = chi[: family.n_statistics]
    if not bool(chi.isfinite().all() & log_n.isfinite()):
        raise ValueError("prior: expected finite chi and log_n, got NaN or inf; make it with family.prior(chi, n)")
    return chi.detach().clone(), log_n.detach().clone()


@contextlib.contextmanager
def _full_precision(like: Tensor) -> Iterator[None]:
    """Leave autocast, if it is on: head and density are cheap, and half precision is too coarse for them."""
    if not torch.is_autocast_enabled(like.device.type):
        yield
        return
    with torch.autocast(like.device.type, enabled=False):
        yield
