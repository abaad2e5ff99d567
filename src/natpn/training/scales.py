"""Factors of a table's columns, learned while the network is trained and then made part of its weights.

    first layer = W (s ⊙ x) + b,   afterwards W ← W · diag(s)

A gradient step changes every weight of a column by itself, while a factor turns the whole column, its number and its
pieces, up or down at once, and `RATE` times as fast as a weight. So the few columns that matter soon stand out from
those that do not (Holzmüller et al., "Better by Default", 2024, have such a layer for good, with a factor for each
input). The network that is left is a plain one.
"""

import torch
from torch import Tensor, nn

RATE = 24.0


class InputScales(nn.Module):
    """One factor for each column, 1 at the start.

    Args:
        columns: The column that each input of the first layer belongs to, from 0 on.
        n_members: How many stacked members have factors of their own; None for a single network.
    """

    columns: Tensor

    def __init__(self, columns: Tensor, n_members: int | None = None) -> None:
        super().__init__()
        self.register_buffer("columns", columns, persistent=False)
        shape = () if n_members is None else (n_members, 1)
        # a step of Adam is of one size for all parameters, so a share of 1 / RATE moves that much faster
        start = torch.full((*shape, int(columns.max()) + 1), 1 / RATE, device=columns.device)
        self.share = nn.Parameter(start)

    @property
    def factor(self) -> Tensor:
        """The factors of the inputs, (inputs,) or (M, 1, inputs)."""
        return (self.share * RATE).index_select(-1, self.columns)

    def forward(self, x: Tensor) -> Tensor:
        """Return inputs times their factors."""
        return x * self.factor

    @torch.no_grad()
    def fold(self, weight: Tensor) -> None:
        """Make the factors part of the first layer's weights, (out, in) or (M, in, out), and start again at 1."""
        weight.mul_(self.factor if weight.ndim == 2 else self.factor.mT)
        self.share.fill_(1 / RATE)
