"""The two convolutional encoders and the residual network."""

import pytest
import torch
from torch import nn

from natpn.encoders import ImageEncoder, ResNet18Encoder
from natpn.encoders.base import BatchNorm, convolution


def widths(encoder: nn.Module, kind: type[nn.Module], attribute: str) -> list[int]:
    return [getattr(layer, attribute) for layer in encoder.modules() if isinstance(layer, kind)]


@pytest.mark.parametrize(
    ("shape", "filters"),
    [
        ((1, 28, 28), [32, 32, 32, 64, 64, 64]),
        ((3, 32, 32), [32, 32, 32, 64, 64, 128, 128, 128]),
        ((3, 40, 31), [32, 32, 32, 64, 64, 64]),
        ((1, 200, 90), [32, 32, 32, 64, 64, 128, 128, 128]),
    ],
)
def test_layers_of_the_paper(shape: tuple[int, int, int], filters: list[int]) -> None:
    encoder = ImageEncoder(shape, latent_dim=5)
    assert widths(encoder, nn.Conv2d, "out_channels") == filters
    assert widths(encoder, nn.Linear, "out_features") == [1024, 128, 64, 5]
    assert encoder.layers[0].in_features <= filters[-1] * 16
    assert encoder(torch.zeros(2, *shape)).shape == (2, 5)


@pytest.mark.parametrize(
    ("shape", "stem", "final"), [((3, 32, 32), 3, 4), ((1, 28, 28), 3, 4), ((3, 64, 64), 7, 2), ((3, 97, 65), 7, 3)]
)
def test_residual_network_has_its_layers(shape: tuple[int, int, int], stem: int, final: int) -> None:
    encoder = ResNet18Encoder(shape, latent_dim=5)
    kernels = [layer.kernel_size[0] for layer in encoder.modules() if isinstance(layer, nn.Conv2d)]
    assert kernels[0] == stem
    assert kernels.count(3) == 16 + (stem == 3)
    assert kernels.count(1) == 3
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in encoder.modules()) == (stem == 7)
    maps = encoder.blocks(encoder.stem(torch.zeros(2, *shape)))
    assert maps.shape[:3] == (2, 512, final if shape[1] != 97 else 4)
    assert maps.shape[3] == final


def test_number_of_weights_of_resnet18() -> None:
    encoder = ResNet18Encoder((3, 224, 224), latent_dim=1000)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 11_689_512


def test_batch_norm_is_that_of_torch_for_several_values() -> None:
    torch.manual_seed(0)
    ours, theirs = BatchNorm(3), nn.BatchNorm2d(3)
    x = 2 * torch.randn(4, 3, 2, 2) + 1
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x[:1]), theirs(x[:1]))
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_batch_norm_takes_a_single_value_by_its_running_statistics() -> None:
    torch.manual_seed(0)
    norm = BatchNorm(3)
    norm(2 * torch.randn(4, 3, 2, 2) + 1)
    state = {name: value.clone() for name, value in norm.state_dict().items()}
    x = torch.randn(1, 3, 1, 1)
    trained = norm(x)
    assert all(torch.equal(value, state[name]) for name, value in norm.state_dict().items())
    assert torch.equal(trained, norm.eval()(x))


@pytest.mark.parametrize("size", [1, 2, 7, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_convolution_rounds_sizes_up(size: int, stride: int, kernel: int) -> None:
    maps = convolution(2, 4, kernel=kernel, stride=stride)(torch.zeros(2, 2, size, size))
    assert maps.shape == (2, 4, -(-size // stride), -(-size // stride))
