"""A residual network with 18 layers."""

from collections.abc import Iterable

from torch import Tensor, nn

from natpn.encoders.base import Activation, bound, check_positive, check_shape, convolution, flatten_images

# (channels, stride) of the eight blocks.
BLOCKS = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
SMALL_SIDE = 64


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a short cut, which is a 1 x 1 convolution where the size changes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            convolution(n_in, n_out, stride=stride), convolution(n_out, n_out, activation=False)
        )
        same = n_in == n_out and stride == 1
        self.shortcut = nn.Identity() if same else convolution(n_in, n_out, kernel=1, stride=stride, activation=False)
        self.activation = Activation()

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the sum of branch and short cut."""
        result: Tensor = self.activation(self.branch(x) + self.shortcut(x))
        return result


class ResNet18Encoder(nn.Module):
    """Map images to latent vectors with a ResNet-18.

    Images with a side below 64 pixels enter by a 3 x 3 convolution at full size; larger ones by a 7 x 7 convolution
    with stride 2 and max-pooling, as in the original network. After the last block the map is averaged and mapped
    linearly to the latent space. The activations are LeakyReLU, as in the paper's other encoders.

    Args:
        shape: (channels, height, width) of an image.
        latent_dim: The size of the latent vector.

    Example:
        >>> import torch
        >>> ResNet18Encoder(shape=(3, 32, 32), latent_dim=8)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 8])
    """

    n_dims = 3

    def __init__(self, shape: Iterable[int] = (3, 32, 32), latent_dim: int = 16) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.shape = check_shape(shape)
        self.latent_dim = latent_dim
        channels, height, width = self.shape
        if min(height, width) < SMALL_SIDE:
            self.stem = convolution(channels, 64)
        else:
            self.stem = convolution(channels, 64, kernel=7, stride=2).append(nn.MaxPool2d(3, stride=2, padding=1))
        blocks: list[nn.Module] = []
        n_in = 64
        for n_out, stride in BLOCKS:
            blocks.append(Block(n_in, n_out, stride))
            n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(n_in, latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., channels, height, width), to (..., latent_dim).

        Raises:
            ValueError: If the images have another shape.
        """
        images, leading = flatten_images(x, self.shape)
        features = self.blocks(self.stem(images)).mean(dim=(-2, -1))
        return bound(self.output(features)).reshape(*leading, self.latent_dim)
