"""Depth of every pixel as a Normal target: the networks, their training, and what their outputs mean.

Pictures have 96 × 128 pixels, where the paper has 480 × 640; depth maps have half the height and width. Inputs are
standardised by channel, depths by the moments of the readings. Where a training map has no reading, the nearest reading
is used, since a loss needs a target everywhere; only readings are scored. Training pictures are also mirrored.

`NatPN` is the library's default without the principal components beside the latent vector: a picture has them, a pixel
does not. All models have the same encoder, trained from scratch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from torch import Tensor, nn

from natpn import families
from natpn.densities import GaussianMixture, RadialFlow
from natpn.encoders import DenseEncoder
from natpn.families import ScalarDistribution, StudentT
from natpn.model import ArrayInputs
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, Prediction
from natpn.network.default import COMPONENTS, ROWS_PER_COMPONENT, SHRINKAGE
from natpn.training import Descent, Paper, Staged, fit, minimise
from natpn_paper import datasets
from natpn_paper.baselines.deep_ensemble import Members
from natpn_paper.baselines.dropout import DropoutNetwork
from natpn_paper.baselines.evidential import EvidentialLoss, read_parameters
from natpn_paper.baselines.members import mixture
from natpn_paper.baselines.plain_network import LikelihoodLoss, PlainNetwork
from natpn_paper.baselines.readings import Reading
from natpn_paper.datasets import Splits
from natpn_paper.experiments.base import Run

Floats = NDArray[np.float64]

SIZE = (96, 128)
PICTURES = 1_000
NORMAL = families.get("normal")
_LATENT_DIM = 16
_MEMBERS = 5
_DROPOUT = 0.1
_REGULARISATION = 0.01
_BATCH = 8
_STEPS = 200
_QUICK_EPOCHS, _LEAST_EPOCHS = 2, 20
_FINE_TUNING = 10
_DENSITY_ROWS = 2_048


def load_pictures(run: Run) -> Splits:
    """Load NYU Depth v2 at a small size, with at most `PICTURES` of each part unless the run has a limit."""
    return datasets.load("nyu", seed=run.seed, limit=run.limit or PICTURES, size=SIZE)


def fill(depth: NDArray[Any]) -> NDArray[Any]:
    """Return depth maps, (N, height, width), with the nearest reading where there is none (NaN).

    Raises:
        ValueError: If a map has no reading at all.
    """
    filled = depth.copy()
    for one in filled:
        missing = np.isnan(one)
        if missing.all():
            raise ValueError("depth: expected at least one reading in every map, got one without")
        rows, columns = distance_transform_edt(missing, return_distances=False, return_indices=True)
        one[:] = one[rows, columns]
    return filled


def network(model: str, shape: tuple[int, ...], n_latents: int, seed: int) -> nn.Module:
    """Return an untrained network.

    Args:
        model: The row of a table.
        shape: (channels, height, width) of a picture.
        n_latents: The number of latent vectors that a mixture will be fitted to.
        seed: The seed of the weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = partial(DenseEncoder, shape, _LATENT_DIM, reduction=2)
        if model == "Encoder":
            return encoder()
        if model == "NatPE":
            single = [network("NatPN", shape, n_latents, seed + i) for i in range(_MEMBERS)]
            return NaturalPosteriorEnsemble(cast(list[NaturalPosteriorNetwork], single))
        if model == "NatPN":
            components = int(min(COMPONENTS, max(1, n_latents // (ROWS_PER_COMPONENT * _LATENT_DIM))))
            density = GaussianMixture(_LATENT_DIM, components, shrinkage=SHRINKAGE * _LATENT_DIM)
            return NaturalPosteriorNetwork(encoder(), NORMAL, density, _LATENT_DIM, "learned")
        if model == "NatPN (paper)":
            flow = RadialFlow(_LATENT_DIM, n_layers=16)
            return NaturalPosteriorNetwork(encoder(), NORMAL, flow, _LATENT_DIM, "normal")
        if model == "Dropout":
            return DropoutNetwork(encoder(), _LATENT_DIM, NORMAL.n_statistics, _DROPOUT, _MEMBERS, seed)
        if model == "Ensemble":
            return Members(PlainNetwork(encoder(), _LATENT_DIM, NORMAL.n_statistics) for _ in range(_MEMBERS))
        if model == "EvReg":
            return PlainNetwork(encoder(), _LATENT_DIM, 4)
    raise ValueError(f"model: expected one that predicts pixels, got {model!r}")


def read(output: Any) -> Reading:
    """Return the meaning of a network's output for each pixel, be it posteriors, members or parameters of EvReg."""
    if isinstance(output, Prediction):
        return Reading(output.posterior.predictive(), output.posterior.likelihood(), -output.evidence.log_n)
    if output.shape[-1] == 4:
        found = read_parameters(output)
        noise = StudentT(found.gamma, found.variance().sqrt(), torch.full_like(found.gamma, torch.inf))
        return Reading(found.predictive(), noise, -found.nu.log())
    chi = NORMAL.link(output.double())
    members = _likelihood(chi)
    return Reading(mixture(members), _likelihood(chi.mean(0)), members.mean.var(0, correction=0))


def _likelihood(chi: Tensor) -> ScalarDistribution:
    return cast(ScalarDistribution, NORMAL.posterior(NORMAL.evidence(chi, 0.0)).likelihood())


def train(run: Run, data: Splits) -> "PixelModel":
    """Train the model of a run."""
    (X, depth), (X_val, depth_val) = (_with_readings(*part) for part in (data.train, data.validation))
    inputs = ArrayInputs().fit(X)
    centre, scale = float(np.nanmean(depth)), float(np.nanstd(depth))

    def tensors(X: NDArray[Any], depth: NDArray[Any]) -> tuple[Tensor, Tensor]:
        y = (fill(depth) - centre) / scale
        return torch.from_numpy(inputs.transform(X)), torch.from_numpy(y.astype(np.float32))

    x, y = tensors(X, depth)
    rows = torch.cat([x, x.flip(-1)]), torch.cat([y, y.flip(-1)])
    held_out = tensors(X_val, depth_val)
    net = network(run.model, X.shape[1:], rows[1].numel(), run.seed)
    steps = max(1, len(rows[0]) // _BATCH)
    epochs = _QUICK_EPOCHS if run.quick else run.epochs or max(_LEAST_EPOCHS, _STEPS // steps)
    if isinstance(net, NaturalPosteriorNetwork):
        staged = Staged(max_epochs=epochs, batch_size=_BATCH)
        paper = Paper(
            epochs,
            _BATCH,
            patience=max(_LEAST_EPOCHS, epochs // 4),
            warm_up_epochs=1 if run.quick else 3,
            fine_tuning_epochs=1 if run.quick else _FINE_TUNING,
            density_rows=_DENSITY_ROWS // 8 if run.quick else _DENSITY_ROWS,
        )
        fit(net, rows, held_out, scheme=paper if run.model.endswith("(paper)") else staged, seed=run.seed)
    else:
        plain = cast(PlainNetwork, net)
        loss = (
            EvidentialLoss(plain, _REGULARISATION)
            if run.model == "EvReg"
            else LikelihoodLoss(plain, NORMAL, rows[1], torch.ones(len(rows[1])))
        )
        descent = Descent(epochs, _BATCH, 3e-3, "one_cycle", 0.998, evaluations=30)
        minimise(loss, rows, held_out, descent, seed=run.seed)
    if isinstance(net, DropoutNetwork):
        net.sample()
    return PixelModel(net.eval().requires_grad_(False), inputs, centre, scale)


def _with_readings(X: NDArray[Any], depth: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Leave out pictures whose depth map is empty."""
    kept = ~np.isnan(depth).all((1, 2))
    return X[kept], depth[kept]


@dataclass(frozen=True)
class PixelModel:
    """A trained network.

    Attributes:
        network: In evaluation mode.
        inputs: How pictures are standardised.
        centre: The mean depth in metres, which is 0 in the network's units.
        scale: The standard deviation of the depth in metres, which is 1 in the network's units.
    """

    network: nn.Module
    inputs: ArrayInputs
    centre: float
    scale: float

    @torch.no_grad()
    def outputs(self, X: NDArray[Any]) -> Iterator[Any]:
        """Yield the network's outputs for pictures, a few at a time."""
        for x in self.inputs.tensors(X, _BATCH):
            yield self.network(x)

    def uncertainties(self, X: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return aleatoric and epistemic uncertainty of each pixel, (N, height, width).

        The aleatoric is the entropy of the noise in nats with depth in metres; the scale of the epistemic is each
        model's own.
        """
        readings = [read(output) for output in self.outputs(X)]
        noise = torch.cat([reading.likelihood.entropy().double() for reading in readings]) + np.log(self.scale)
        return noise.numpy(), torch.cat([reading.epistemic.double() for reading in readings]).numpy()

    def depth(self, X: NDArray[Any]) -> Floats:
        """Return the predicted depth in metres, (N, height, width)."""
        means = torch.cat([read(output).predictive.mean.double() for output in self.outputs(X)])
        return self.centre + self.scale * means.numpy()

    def cdf(self, X: NDArray[Any], depth: NDArray[Any]) -> Floats:
        """Return the predictive distribution function at the given depths; at the mean depth where one is NaN."""
        parts = []
        for i, output in enumerate(self.outputs(X)):
            y = torch.from_numpy(np.nan_to_num((depth[i * _BATCH : (i + 1) * _BATCH] - self.centre) / self.scale))
            parts.append(cast(ScalarDistribution, read(output).predictive).cdf(y.double()).double())
        return torch.cat(parts).numpy()
