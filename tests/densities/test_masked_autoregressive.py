"""The masked autoregressive flow: zuko's layers, and batch norm between them."""

import torch

from natpn.densities import MaskedAutoregressiveFlow
from natpn.densities.masked_autoregressive import BatchNormLayer


def flow(n_layers: int = 3) -> MaskedAutoregressiveFlow:
    torch.manual_seed(0)
    return MaskedAutoregressiveFlow(4, n_layers, (12,)).double()


def sample(rows: int = 200) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(1)).double() * torch.arange(1, 5) + 2


def test_without_moments_the_layers_are_zukos() -> None:
    density, z = flow().eval(), sample() / 4
    base, log_det = density.layers().call_and_ladj(z)
    normal = torch.distributions.Normal(torch.zeros(4).double(), 1.0)
    torch.testing.assert_close(density(z), normal.log_prob(base).sum(-1) + log_det)


def test_log_det_is_that_of_the_jacobian() -> None:
    density, z = flow(), sample(6)
    density.settle(sample())
    density.eval()
    u = z[0].requires_grad_()
    jacobian = torch.autograd.functional.jacobian(lambda one: density._to_base(one[None])[0][0], u)
    torch.testing.assert_close(density._to_base(u[None])[1][0], torch.linalg.slogdet(jacobian)[1])


def test_batch_norm_is_torchs() -> None:
    ours, theirs = BatchNormLayer(4).double(), torch.nn.BatchNorm1d(4, affine=False, momentum=0.1).double()
    for i in range(3):
        z = sample() * (i + 1)
        torch.testing.assert_close(ours(z)[0], theirs(z))
        torch.testing.assert_close(ours.mean, theirs.running_mean)
    ours.eval()
    z = sample(5)
    torch.testing.assert_close(ours(z)[1], -0.5 * (ours.variance + 1e-5).log().sum())
    one = BatchNormLayer(4).double()
    torch.testing.assert_close(one(sample(1))[0], sample(1))  # a single row has no variance


def test_settled_moments_are_those_of_the_sample() -> None:
    density, z = flow(), sample()
    want = density(z)  # in training mode, by the moments of the batch
    fresh = flow().eval()
    assert not torch.allclose(fresh(z), want)
    fresh.settle(z)
    assert not fresh.norms[0].training
    torch.testing.assert_close(fresh(z), want)
    torch.testing.assert_close(fresh(z[:3]), want[:3])  # and they stay


def test_states_without_batch_norm_load_as_they_were() -> None:
    density, other, z = flow().eval(), flow(), sample()
    other.settle(5 * z)
    old = {name: value for name, value in density.state_dict().items() if not name.startswith("norms.")}
    other.load_state_dict(old)
    torch.testing.assert_close(other.eval()(z), density(z))
