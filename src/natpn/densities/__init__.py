"""Densities over the latent space: z → log p(z), whose level becomes the evidence.

- `gaussian_mixture`: normals with full covariances, fitted by expectation-maximisation. The default: clusters, fast.
- `radial`: a stack of radial flows. The paper's choice.
- `maf`: a masked autoregressive flow, for curved but connected latents.
- `spline`: an autoregressive spline flow. The most flexible, the slowest.

`RelativeMixture` and `Views` are for pictures, whose evidence has several sources; they do not integrate to one.

To add one: a file with a subclass of `Density` whose constructor is `(dim, **options)`, and a line in `DENSITIES`.
"""

import inspect
from typing import Any

from natpn.choices import check_choice
from natpn.densities.base import Density, Surprise
from natpn.densities.flows import RadialFlow, SplineFlow
from natpn.densities.gaussian_mixture import GaussianMixture
from natpn.densities.masked_autoregressive import MaskedAutoregressiveFlow
from natpn.densities.relative import RelativeMixture
from natpn.densities.views import Rising, Views

DENSITIES: dict[str, type[Density]] = {
    "radial": RadialFlow,
    "maf": MaskedAutoregressiveFlow,
    "spline": SplineFlow,
    "gaussian_mixture": GaussianMixture,
}

__all__ = [
    "DENSITIES",
    "Density",
    "GaussianMixture",
    "MaskedAutoregressiveFlow",
    "RadialFlow",
    "RelativeMixture",
    "Rising",
    "SplineFlow",
    "Surprise",
    "Views",
    "get",
]


def get(name: str, dim: int, **options: Any) -> Density:
    """Make a density by name.

    Args:
        name: A key of `DENSITIES`.
        dim: The number of latent features.
        **options: Passed to the density.

    Example:
        >>> get("radial", 16, n_layers=4).dim
        16
    """
    check_choice("density", name, DENSITIES)
    kind = DENSITIES[name]
    known = list(inspect.signature(kind).parameters)[1:]
    for option in options:
        check_choice(f"option of the density {name!r}", option, known)
    return kind(dim, **options)
