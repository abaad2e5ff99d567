"""A latent vector per pixel, with the small backbone and with others."""

import pytest
import torch
from torch import Tensor, nn

from natpn.encoders import DenseEncoder


class Backbone(nn.Module):
    """Maps at a half, a quarter and an eighth, by pooling; the sizes are rounded down."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.mix = nn.Conv2d(channels, 4, kernel_size=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = self.norm(self.mix(x))
        return [nn.functional.avg_pool2d(maps, stride) for stride in (2, 4, 8)]


class Returns(nn.Module):
    def __init__(self, *shapes: tuple[int, ...], as_list: bool = True) -> None:
        super().__init__()
        self.shapes, self.as_list = shapes, as_list

    def forward(self, x: Tensor) -> list[Tensor] | Tensor:
        maps = [x.new_zeros(shape) for shape in self.shapes]
        return maps if self.as_list else maps[0]


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (16, 16), (17, 31), (33, 47)])
@pytest.mark.parametrize("reduction", [1, 2, 3])
def test_a_latent_for_every_pixel_of_odd_sizes(size: tuple[int, int], reduction: int) -> None:
    encoder = DenseEncoder((2, *size), latent_dim=5, reduction=reduction)
    rounded = tuple(-(-side // reduction) for side in size)
    assert encoder(torch.randn(2, 2, *size)).shape == (2, *rounded, 5)


@pytest.mark.parametrize(("reduction", "size"), [(1, (21, 30)), (2, (11, 15))])
def test_backbone_of_ones_own(reduction: int, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    encoder = DenseEncoder((3, 21, 30), latent_dim=5, backbone=Backbone(), reduction=reduction)
    latent = encoder(torch.randn(2, 3, 21, 30))
    assert latent.shape == (2, *size, 5)
    latent.square().sum().backward()
    assert all(parameter.grad.any() for parameter in encoder.backbone.mix.parameters())
    assert encoder.eval()(torch.full((2, 3, 21, 30), 1e30)).isfinite().all()


@pytest.mark.parametrize("norm_trains", [True, False])
def test_building_leaves_the_backbone_as_it_was(norm_trains: bool) -> None:
    backbone = Backbone()
    backbone.norm.train(norm_trains)
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    DenseEncoder((3, 21, 30), backbone=backbone)
    assert backbone.training
    assert backbone.norm.training == norm_trains
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_latent_of_a_pixel_follows_that_pixel() -> None:
    torch.manual_seed(0)
    encoder = DenseEncoder((1, 32, 32), latent_dim=5).eval()
    x = torch.zeros(1, 1, 32, 32)
    y = x.clone()
    y[..., 20, 9] = 1
    change = (encoder(y) - encoder(x)).norm(dim=-1)[0]
    assert divmod(int(change.argmax()), 32) in {(20 + i, 9 + j) for i in (-2, -1, 0, 1, 2) for j in (-2, -1, 0, 1, 2)}


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (Returns((1, 4, 8, 8), as_list=False), "returned Tensor"),
        (Returns(), "returned list"),
        (Returns((1, 4, 8)), r"\[\(1, 4, 8\)\]"),
        (Returns((1, 4, 4, 4), (1, 4, 8, 8)), "reverse the list"),
    ],
)
def test_wrong_backbone_is_named(backbone: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DenseEncoder((3, 8, 8), backbone=backbone)
