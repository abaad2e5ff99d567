"""The paper's two convolutional encoders for small images: MNIST size and CIFAR size."""

from collections.abc import Iterable

from torch import Tensor, nn

from natpn.encoders.base import bound, check_positive, check_shape, convolution, flatten_images, perceptron

# (filters, stride) of each convolution. The paper gives the filters; the strides are chosen so that both end on 4 x 4
# maps.
SMALL = ((32, 1), (32, 2), (32, 1), (64, 2), (64, 1), (64, 2))
LARGE = ((32, 1), (32, 1), (32, 2), (64, 1), (64, 2), (128, 1), (128, 1), (128, 2))
GRID = 4


class ImageEncoder(nn.Module):
    """Map small images to latent vectors.

    Images with a side below 32 pixels get the paper's MNIST encoder, 6 convolutions with 32/32/32/64/64/64 filters;
    others its CIFAR encoder, 8 with 32/32/32/64/64/128/128/128. Hidden layers of width 1024/128/64 and a linear map to
    the latent space follow. The convolutions are 3 x 3 with batch normalisation; some have stride 2 in place of
    pooling, which saves the work at full size. Maps that end larger than 4 x 4 are averaged to it, so that the number
    of weights does not grow with the image.

    Args:
        shape: (channels, height, width) of an image.
        latent_dim: The size of the latent vector.

    Example:
        >>> import torch
        >>> ImageEncoder(shape=(1, 28, 28), latent_dim=8)(torch.randn(2, 1, 28, 28)).shape
        torch.Size([2, 8])
    """

    n_dims = 3

    def __init__(self, shape: Iterable[int] = (1, 28, 28), latent_dim: int = 16) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.shape = check_shape(shape)
        self.latent_dim = latent_dim
        n_in, height, width = self.shape
        layers: list[nn.Module] = []
        for filters, stride in SMALL if min(height, width) < 32 else LARGE:
            layers.append(convolution(n_in, filters, stride=stride))
            n_in, height, width = filters, -(-height // stride), -(-width // stride)
        if max(height, width) > GRID:
            height, width = min(height, GRID), min(width, GRID)
            layers.append(nn.AdaptiveAvgPool2d((height, width)))
        self.convolutions = nn.Sequential(*layers)
        self.layers = perceptron(n_in * height * width, 1024, 128, 64, latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., channels, height, width), to (..., latent_dim).

        Raises:
            ValueError: If the images have another shape.
        """
        images, leading = flatten_images(x, self.shape)
        return bound(self.layers(self.convolutions(images).flatten(1))).reshape(*leading, self.latent_dim)
