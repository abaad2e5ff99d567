"""Adam (Kingma and Ba 2015) on parameters that lie in one tensor, so that a step is a few operations in all.

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   p ← p − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

m and v are moving averages of gradients g and of g², corrected for their start at zero. With a penalty λ the gradient
has λp added, that of ½λp². torch's own optimisers load
torch's compiler when the first of them is made: two seconds, which is more than a fit on small data takes.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


class FlatParameters:
    """Parameters as views of one tensor of shape (M, P), where M is the first dimension of stacked members.

    Args:
        parameters: At least one, all of one precision and on one device.
        n_members: How many members are stacked in each; None if they are those of one network.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], n_members: int | None = None) -> None:
        self.parameters = list(parameters)
        self.n_members = n_members or 1
        self.value = self._join([p.detach() for p in self.parameters])
        for parameter, part in zip(self.parameters, self.views(self.value), strict=True):
            parameter.data = part

    def gradient(self) -> Tensor:
        """Return the gradients, (M, P), with 0 where there are none, and forget them."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return self._join(gradients)

    def release(self) -> None:
        """Give each parameter memory of its own again."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone()

    def _join(self, tensors: list[Tensor]) -> Tensor:
        return torch.cat([t.reshape(self.n_members, -1) for t in tensors], 1)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the parts of a flat tensor, (M, P), in the shapes of the parameters."""
        sizes = [p.numel() // self.n_members for p in self.parameters]
        parts = flat.split(sizes, 1)
        return [
            part.unflatten(1, p.shape[1:]) if self.n_members > 1 else part[0].view(p.shape)
            for part, p in zip(parts, self.parameters, strict=True)
        ]


class Adam:
    """Adam on one tensor.

    Args:
        value: What to change.
        penalty: λ.
    """

    def __init__(self, value: Tensor, penalty: float = 0.0) -> None:
        self.value, self.penalty = value, penalty
        self.first, self.second = torch.zeros_like(value), torch.zeros_like(value)
        self.steps = 0

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: float) -> None:
        """Take a step against a gradient, at a learning rate."""
        self.steps += 1
        if self.penalty:
            gradient = gradient.add(self.value, alpha=self.penalty)
        self.first.lerp_(gradient, 1 - _FIRST)
        self.second.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
        correction = math.sqrt(1 - _SECOND**self.steps)
        spread = self.second.sqrt().add_(_EPSILON * correction)
        self.value.addcdiv_(self.first, spread, value=-rate * correction / (1 - _FIRST**self.steps))

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.steps = state["steps"]
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
