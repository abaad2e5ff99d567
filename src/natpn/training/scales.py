"""Factors of the inputs of the first layer, learned while the network is trained and then made part of its weights.

    first layer = W (s ⊙ x) + b,   afterwards W ← W · diag(s)

A gradient step changes every weight of an input by itself, while a factor turns the whole input up or down at once, and
`RATE` times as fast as a weight. So the few columns of a table that matter soon stand out from those that do not
(Holzmüller et al., "Better by Default", 2024, have such a layer for good). The network that is left is a plain one.
"""

import torch
from torch import Tensor, nn

RATE = 24.0


class InputScales(nn.Module):
    """One factor for each input, 1 at the start.

    Args:
        n_inputs: How many inputs the first layer has.
        n_members: How many stacked members have factors of their own; None for a single network.
    """

    def __init__(self, n_inputs: int, n_members: int | None = None) -> None:
        super().__init__()
        shape = (n_inputs,) if n_members is None else (n_members, 1, n_inputs)
        self.share = nn.Parameter(torch.full(shape, 1 / RATE))  # a step of Adam is of one size for all parameters

    @property
    def factor(self) -> Tensor:
        """The factors, (inputs,) or (M, 1, inputs)."""
        return self.share * RATE

    def forward(self, x: Tensor) -> Tensor:
        """Return inputs times their factors."""
        return x * self.factor

    @torch.no_grad()
    def fold(self, weight: Tensor) -> None:
        """Make the factors part of the first layer's weights, (out, in) or (M, in, out), and start again at 1."""
        weight.mul_(self.factor if weight.ndim == 2 else self.factor.mT)
        self.share.fill_(1 / RATE)
