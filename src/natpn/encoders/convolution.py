"""Convolution, batch normalisation and activation: the brick of the image encoders."""

from torch import Tensor, nn
from torch.nn import functional

from natpn.encoders.base import Activation


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that also trains on a single value per channel.

    One image whose map has shrunk to one pixel has no variance: there the running statistics normalise it and stay as
    they are. With more values it is ``nn.BatchNorm2d``.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name in torch)
        """Normalise maps of shape (B, channels, height, width)."""
        if self.training and input.numel() > input.shape[1]:
            return super().forward(input)
        return functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )


def convolution(n_in: int, n_out: int, *, kernel: int = 3, stride: int = 1, activation: bool = True) -> nn.Sequential:
    """Build a convolution that keeps the size up to its stride, ⌈size / stride⌉, with its normalisation.

    Args:
        n_in: Channels that come in.
        n_out: Channels that go out.
        kernel: The side of the kernel, odd.
        stride: The step of the kernel.
        activation: Whether the activation follows.
    """
    weights = nn.Conv2d(n_in, n_out, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(weights.weight, mode="fan_out", nonlinearity="leaky_relu")
    layers: list[nn.Module] = [weights, BatchNorm(n_out)]
    return nn.Sequential(*layers, Activation()) if activation else nn.Sequential(*layers)
