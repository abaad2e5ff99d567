"""Draw toy data as in the paper's first figure: noise, lack of knowledge, and a Gaussian process beside them.

python examples/toy.py [FILE]        needs matplotlib: pip install -e '.[figures]'
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from natpn import families
from natpn.network import NaturalPosteriorNetwork, default_network
from natpn.training import fit

mpl.use("Agg")
from matplotlib import pyplot as plt


def train(x: torch.Tensor, y: torch.Tensor, family: families.Family) -> NaturalPosteriorNetwork:
    torch.manual_seed(0)
    network = default_network(x.shape[1], family, n_rows=len(x) * 4 // 5)
    held_out = torch.arange(len(x)) % 5 == 0
    fit(network, (x[~held_out], y[~held_out]), (x[held_out], y[held_out]), seed=0)
    return network


def regression() -> tuple[torch.Tensor, torch.Tensor]:
    """Return a cubic with noise that grows to the right, and a gap in the middle."""
    x = np.random.default_rng(0).uniform(-4, 4, 3000)
    x = x[np.abs(x - 0.5) > 1]
    noise = np.random.default_rng(1).normal(size=len(x)) * (1 + (x + 4) ** 2 / 4)
    return torch.tensor(x[:, None]).float(), torch.tensor(x**3 + noise).float()


def classes() -> tuple[torch.Tensor, torch.Tensor]:
    """Return three round classes of 900 rows, two of them touching."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 2.0], [-1.5, -0.8], [0.6, -0.8]])
    x = np.concatenate([rng.normal(c, 0.6, (900, 2)) for c in centres])
    order = rng.permutation(len(x))
    return torch.tensor(x[order]).float(), torch.tensor(np.repeat(np.arange(3), 900)[order])


def gaussian_process(x: torch.Tensor, y: torch.Tensor, grid: torch.Tensor) -> list[np.ndarray]:
    """Return the 5, 50 and 95 % quantiles of a Gaussian process of 600 rows, whose noise is the same everywhere."""
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(x[:600], y[:600])
    mean, deviation = model.predict(grid, return_std=True)
    return [mean + q * deviation for q in (-1.645, 0, 1.645)]


@torch.no_grad()
def draw(path: Path) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(14, 7.5), layout="constrained")
    x, y = regression()
    mean, scale = y.mean(), y.std()
    with torch.enable_grad():
        network = train(x / 2.5, (y - mean) / scale, families.get("normal"))
    grid = torch.linspace(-8, 8, 801)[:, None]
    posterior, evidence = network(grid / 2.5)
    levels = (0.05, 0.5, 0.95)
    noise, predictive = (
        [distribution.icdf(torch.tensor(q)) * scale + mean for q in levels]
        for distribution in (posterior.likelihood(), posterior.predictive())
    )
    for axis, (low, centre, high), title in (
        (axes[0, 0], noise, "Aleatoric: 90 % of the noise alone"),
        (axes[0, 1], predictive, "With the epistemic part: 90 % of the predictive"),
        (axes[0, 2], gaussian_process(x, y, grid), "A Gaussian process: 90 % of its predictive"),
    ):
        axis.plot(x, y, ".", ms=1.5, color="#888888", alpha=0.5, rasterized=True)
        axis.fill_between(grid[:, 0], low, high, color="#1f77b4", alpha=0.25, lw=0)
        axis.plot(grid[:, 0], centre, color="#1f77b4")
        axis.set(ylim=(-150, 150), xlim=(-8, 8), title=title, xlabel="x")
    familiarity = axes[0, 1].twinx()
    familiarity.plot(grid[:, 0], torch.sigmoid(evidence.log_n - network.prior.log_n), color="#d62728", lw=1)
    familiarity.set_ylabel("familiarity", color="#d62728")
    familiarity.set_ylim(-0.02, 1.5)
    x, y = classes()
    with torch.enable_grad():
        network = train(x, y, families.get("categorical", n_classes=3))
    side = torch.linspace(-6, 6, 241)
    points = torch.cartesian_prod(side, side)
    posterior, evidence = network(points)
    for axis, values, title in (
        (axes[1, 0], posterior.likelihood().entropy(), "Aleatoric: entropy of the class"),
        (axes[1, 1], 1 - torch.sigmoid(evidence.log_n - network.prior.log_n), "Epistemic: 1 − familiarity"),
    ):
        image = axis.imshow(values.view(241, 241).T, origin="lower", extent=(-6, 6, -6, 6), cmap="viridis")
        figure.colorbar(image, ax=axis)
        axis.scatter(*x.T, c=y, s=1, cmap="Set1", alpha=0.4, rasterized=True)
        axis.set(title=title)
    axes[1, 2].axis("off")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "toy.png"))
