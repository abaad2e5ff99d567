"""Where the latents of an encoder with batch norm start: around 0, with spread 1.

Such encoders for pictures hand out latents far from 0 before they are trained, the further before their batch norms
have seen a picture: on MNIST a `ResNet9Encoder` has vectors of length 63 then, and of length 11 in training. A flow
that starts as a standard normal density gives them no evidence. The last layer is scaled once; nothing is normalised
afterwards.
"""

from typing import cast

import torch
from torch import Tensor, nn

from natpn.encoders.base import BatchNorm

_TOGETHER = 256
_NARROWEST = 1e-6  # latents that are all the same are not scaled


@torch.no_grad()
def centre_latents(encoder: nn.Module, sample: Tensor) -> None:
    """Fix the batch norms of an encoder by a sample of inputs, and let its latents have mean 0 and variance 1 there.

    The encoder is one of this library; one without `BatchNorm` stays as it is. What it defines last is its output.
    """
    norms = [layer for layer in encoder.modules() if isinstance(layer, BatchNorm)]
    if not norms:
        return
    last = [layer for layer in encoder.modules() if isinstance(layer, nn.Linear | nn.Conv2d)][-1]
    was_training, momenta = encoder.training, [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = cast(float, None)  # the mean of all batches
    encoder.train()
    apart = -(-len(sample) // _TOGETHER)
    parts = [sample[first::apart] for first in range(apart)]  # rows may come class by class
    for part in parts:
        encoder(part)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    encoder.eval()
    latents = torch.cat([encoder(part).flatten(0, -2) for part in parts]).double()
    mean, spread = latents.mean(0), latents.std(0, correction=0)
    spread = spread.where(spread > _NARROWEST, torch.ones_like(spread))
    weight, bias = last.weight, cast(Tensor, last.bias)
    bias.copy_((bias - mean) / spread)
    weight.copy_(weight / spread.reshape(-1, *[1] * (weight.ndim - 1)))
    encoder.train(was_training)
