"""Which column of a row is out of place, by principal components alone: in closed form, before networks are asked.

The mixture over [latents, principal components] has a mixture over the components alone, and these are linear in the
encoded row. With the row's number in one column free, the log of component k of that mixture is a parabola in it,

    s_k(x + δ) = s_k − δ g_k − ½ δ² H_k,   g_k = ⟨A_k v, A_k (u − μ_k)⟩,  H_k = ‖A_k v‖²,

with v the column's direction among the components. Its top is at δ = −g_k/H_k; one conditional deviation 1/√H_k nearer
to the row costs half a nat, and is taken. The best number is that of the component that is the highest there. Columns
that are no numbers try each of some encodings. The gain of a column is by how much max_k s_k rises.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.densities import GaussianMixture, Surprise
from natpn.network.default import PrincipalComponents, harden, soften
from natpn.network.natural_posterior import NaturalPosteriorNetwork

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_FARTHEST = 1e3  # standard deviations: beyond, all are as far, which leaves float32 digits enough
_TOGETHER = 512  # rows at once


@dataclass(frozen=True)
class Slot:
    """Where one column of a table is in the encoded row, and what may stand there.

    Attributes:
        places: Its numbers and 0/1 columns.
        encodings: What may stand there, (encodings, places).
        bounds: If not None, the first place may also be any number between these, its 0/1 columns being then those of
            the first encoding, which is no choice of its own.
    """

    places: list[int]
    encodings: Floats
    bounds: tuple[float, float] | None = None


class Screen:
    """The mixture of a network over principal components of encoded rows.

    Args:
        network: The network.
        bypass: Its components.
        mixture: Its density.
        slots: The columns of the table.
    """

    def __init__(
        self,
        network: NaturalPosteriorNetwork,
        bypass: PrincipalComponents,
        mixture: GaussianMixture,
        slots: Sequence[Slot],
    ) -> None:
        start = network.latent_dim
        log_weight, mean, whitener = (part.cpu() for part in mixture.marginal(start))
        self._log_weight = (log_weight + whitener.diagonal(dim1=1, dim2=2).log().sum(-1))[:, None].float()
        location, scale = mixture.location[start:].cpu().double(), mixture.scale[start:].cpu().double()
        direction = bypass.components.cpu().double() / scale
        origin = bypass.mean.cpu().double() @ direction + location / scale
        self._centre = ((origin + mean)[:, None] @ whitener.mT).float()  # (K, 1, components)
        self._axes = (direction @ whitener.mT).float()  # (K, inputs, components)
        self._slots = list(enumerate(slots))
        self._lines = Lines([(number, slot) for number, slot in self._slots if slot.bounds], self._axes)
        # Where there is a choice, and for how many of the first encodings there is none.
        self._choices = [(n, s, int(s.bounds is not None)) for n, s in self._slots if s.places]
        self._shifts = {n: _soft(s.encodings[out:]) @ self._axes[:, s.places] for n, s, out in self._choices}

    @classmethod
    def of(cls, network: NaturalPosteriorNetwork, slots: Sequence[Slot]) -> Self | None:
        """Return the screen of a network, None if its density is no mixture over principal components."""
        density = network.density.density if isinstance(network.density, Surprise) else network.density
        if not isinstance(network.bypass, PrincipalComponents) or not isinstance(density, GaussianMixture):
            return None
        return cls(network, network.bypass, density, slots)

    @torch.no_grad()
    def replace(self, x: NDArray[np.float32]) -> tuple[Floats, Floats, Places]:
        """Return by how many nats each column, replaced by what suits the row, makes the row denser, and by what.

        Args:
            x: Encoded rows, (rows, inputs).

        Returns:
            The gains, at least 0, free numbers that are put in, and the encodings that are put in, −1 for the free
            number; (rows, columns).
        """
        shape = (len(x), len(self._slots))
        gains, numbers, encodings = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.intp)
        for start in range(0, len(x), _TOGETHER):
            rows = slice(start, start + _TOGETHER)
            own = _soft(x[rows]).clamp(-_FARTHEST, _FARTHEST)
            self._fill(own, gains[rows], numbers[rows], encodings[rows])
        return gains, numbers, encodings

    def _fill(self, own: Tensor, gains: Floats, numbers: Floats, encodings: Places) -> None:
        white = own @ self._axes - self._centre  # (K, rows, components)
        score = self._log_weight - white.square().sum(-1) / 2
        before = score.amax(0)
        if len(self._lines.columns):
            after, best = self._lines.replace(white, score, own)
            gains[:, self._lines.columns] = (after - before[:, None]).clamp(min=0)
            numbers[:, self._lines.columns] = harden(best)
            encodings[:, self._lines.columns] = -1
        for number, slot, out in self._choices:
            shift = self._shifts[number]  # (K, encodings, components)
            if not shift.shape[1]:
                continue
            rest = white - own[:, slot.places] @ self._axes[:, slot.places]
            height = (self._log_weight - rest.square().sum(-1) / 2)[:, :, None] - rest @ shift.mT
            height -= (shift.square().sum(-1) / 2)[:, None]
            gain, place = (height.amax(0) - before[:, None]).clamp(min=0).max(1)
            better = (gain.numpy() > gains[:, number]) | (out == 0)
            gains[better, number] = gain.numpy()[better]
            encodings[better, number] = out + place.numpy()[better]


class Lines:
    """Columns with a free number, all at once."""

    def __init__(self, slots: Sequence[tuple[int, Slot]], axes: Tensor) -> None:
        self.columns = [number for number, _ in slots]
        self.places = [slot.places[0] for _, slot in slots]
        self.low, self.high = _soft(np.array([slot.bounds for _, slot in slots]).reshape(-1, 2)).T
        self._axis = axes[:, self.places]  # (K, columns, components)
        self._curvature = self._axis.square().sum(-1)[:, None].clamp(min=1e-12)  # (K, 1, columns)
        # Columns that also have a 0/1 column for missing values: where it is, and its value where one is known.
        flagged = [(place, slot) for place, (_, slot) in enumerate(slots) if len(slot.places) > 1]
        self._flagged = [place for place, _ in flagged]
        self._flags = [slot.places[1] for _, slot in flagged]
        self._known = _soft(np.array([slot.encodings[0, 1] for _, slot in flagged]))
        flag = axes[:, self._flags]
        self._flag_axis, self._flag_curvature = flag, flag.square().sum(-1)[:, None]
        self._both = (flag * self._axis[:, self._flagged]).sum(-1)[:, None]

    def replace(self, white: Tensor, score: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best log-density with each number free, and that number, both (rows, columns)."""
        numbers = own[:, self.places]
        slope = white @ self._axis.mT  # (K, rows, columns)
        score = score[:, :, None].expand_as(slope)
        if self._flags:  # first let the value be known
            change = self._known - own[:, self._flags]
            score = score.clone()
            score[:, :, self._flagged] -= (
                change * (white @ self._flag_axis.mT) + change.square() * self._flag_curvature / 2
            )
            slope[:, :, self._flagged] += change * self._both
        step = -slope / self._curvature
        step = step.sign() * (step.abs() - self._curvature.rsqrt()).clamp(min=0)  # one deviation nearer to the row
        step = (numbers + step).clamp(self.low, self.high) - numbers
        height = score - step * (slope + step * self._curvature / 2)
        after, best = height.max(0)
        return after, numbers + step.gather(0, best[None])[0]


def _soft(encoded: NDArray[Any]) -> Tensor:
    return soften(torch.from_numpy(encoded)).float()
