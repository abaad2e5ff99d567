"""Adam (Kingma and Ba 2015): m and v are moving averages of gradients g and of g², corrected for their start at zero.

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   p ← p − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

torch's own optimisers load torch's compiler when the first of them is made: two seconds, which is more than a fit on
small data takes.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam over a list of parameters.

    Args:
        parameters: What to change; those without a gradient are left as they are.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = [0 for _ in self.parameters]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Take a step at a learning rate."""
        for i, parameter in enumerate(self.parameters):
            gradient = parameter.grad
            if gradient is None:
                continue
            self.steps[i] += 1
            first = self.first[i].lerp_(gradient, 1 - _FIRST)
            second = self.second[i].mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
            correction = math.sqrt(1 - _SECOND ** self.steps[i])
            parameter.addcdiv_(
                first,
                second.sqrt().add_(_EPSILON * correction),
                value=-rate * correction / (1 - _FIRST ** self.steps[i]),
            )

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.steps = list(state["steps"])
        for own, given in ((self.first, state["first"]), (self.second, state["second"])):
            for to, source in zip(own, given, strict=True):
                to.copy_(source)
