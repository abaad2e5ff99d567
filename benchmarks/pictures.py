"""What the density of pictures could see, and how sharp its predictions could be, of one fitted network.

    NATPN_DATA=... python benchmarks/pictures.py cifar10-left-out [mnist ...]

It takes the fit that `natpn reproduce` left in reproduce/checkpoints, or makes it, which takes an hour. Densities are
fitted to 8,000 training pictures, and scored on all test pictures, 2,500 corrupted ones and 2,000 of each OOD set.

The first table has areas under the ROC curve of several scores. A sum adds scores that were brought to one unit: from
the median of training pictures to their first percentile; a shortfall is 0 where the score is above the median. The
relative distance (Ren and others 2021) is the squared Mahalanobis distance of the pooled features from the nearest
class, with one covariance, minus that from the mean of all. The relative density is the same without classes: the
log-density of a mixture whose components share a covariance, minus that of a single Gaussian.

The second table has the scores of the predicted classes if raw outputs are multiplied by a factor. The fit has chosen
its own, the temperature, by the likelihood of held-out pictures: that is the factor 1.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from torch import Tensor

from natpn import metrics
from natpn.network.default import PrincipalComponents, default_mixture
from natpn.network.natural_posterior import _in_polar_coordinates
from natpn_paper import datasets
from natpn_paper.experiments.base import Run
from natpn_paper.experiments.paper_tables import CIFAR10_SETTING, MNIST_SETTING
from natpn_paper.experiments.table_rows import fitted

TRAIN, TEST, OTHERS = 8000, 2500, 2000
FACTORS = (1.0, 1.1, 1.2, 1.3, 1.5)
CORRUPTIONS = (("gaussian_noise", 1), ("fog", 5), ("defocus_blur", 3))
Sets = dict[str, Tensor]


def seen(data: str) -> tuple[dict[str, Sets], dict[str, NDArray[np.int64]]]:
    """Return what a network says of each set of pictures, by name, and the classes of training and test pictures."""
    splits = datasets.load(data, seed=0)
    setting = CIFAR10_SETTING if data.startswith("cifar10") else MNIST_SETTING
    model = fitted(Run(data, data, "NatPN", 0), "classes", splits, setting)
    network = model.network_
    images = {"train": splits.train[0][:TRAIN], "test": splits.test[0]}
    images |= {name: X[:OTHERS] for name, X in splits.ood.items() if name != "OODom"}
    if images["test"].shape[1] == 3:
        images |= {f"{name} {s}": datasets.corrupt(images["test"][:TEST], name, s, seed=0) for name, s in CORRUPTIONS}
    found: dict[str, Sets] = {name: {} for name in ("pooled", "latent", "raw", "texture", "components", "evidence")}
    texture = getattr(network.bypass, "parts", [network.bypass])[0]
    components = PrincipalComponents(images["train"].shape[1:])
    components.fit(torch.cat(list(model.inputs_.tensors(images["train"], 500))))
    for name, X in images.items():
        parts: list[tuple[Tensor, ...]] = []
        for x in model.inputs_.tensors(X, 500):
            with torch.no_grad():
                pooled = network.encoder.pooled(x)
                latent = network.encoder.output(pooled)
                parts.append((pooled, latent, network.decoder(latent), texture(x), components(x)))
        for key, column in zip(found, zip(*parts, strict=True), strict=False):
            found[key][name] = torch.cat(column).double()
        found["evidence"][name] = torch.from_numpy(np.asarray(model.score_samples(X)))
    return found, {"train": splits.train[1][:TRAIN], "test": splits.test[1]}


def mixture(*views: Sets) -> Sets:
    """Return the log-densities of a mixture over views, of the default's size."""
    joined = {name: torch.cat([view[name] for view in views], 1) for name in views[0]}
    rows, dim = joined["train"].shape
    density = default_mixture(dim, rows).double()
    density.refit(joined["train"], torch.ones(rows, dtype=torch.float64))
    with torch.no_grad():
        return {name: density(x) for name, x in joined.items()}


def standardised(score: Sets) -> Sets:
    """Bring a score to its own unit: 0 at the median of training pictures, −1 at their first percentile."""
    middle = score["train"].median()
    return {name: (values - middle) / (middle - score["train"].quantile(0.01)) for name, values in score.items()}


def total(*scores: Sets) -> Sets:
    """Add scores in units of their own."""
    parts = [standardised(score) for score in scores]
    return {name: torch.stack([part[name] for part in parts]).sum(0) for name in scores[0]}


def shortfall(*views: Sets) -> Sets:
    """Return by how much the density of views is below its median."""
    return {name: values.clamp(max=0) for name, values in standardised(mixture(*views)).items()}


def less(score: Sets, *shortfalls: Sets) -> Sets:
    """Return a score in its own unit, less what others fall short."""
    return {name: value + sum(part[name] for part in shortfalls) for name, value in standardised(score).items()}


def relative_distance(features: Sets, y: NDArray[np.int64]) -> Sets:
    """Return minus the distance from the nearest class, less that from the mean of all."""
    x, classes = features["train"], torch.from_numpy(y)
    means = torch.stack([x[classes == k].mean(0) for k in classes.unique()])
    within, across = x - means[torch.unique(classes, return_inverse=True)[1]], x - x.mean(0)

    def distance(deviations: Tensor) -> Callable[[Tensor], Tensor]:
        ridge = 1e-4 * torch.eye(deviations.shape[1], dtype=torch.float64)
        precision = torch.linalg.inv(deviations.T @ deviations / len(deviations) + ridge)
        return lambda d: ((d @ precision) * d).sum(-1)

    near, far = distance(within), distance(across)
    return {k: far(z - x.mean(0)) - torch.stack([near(z - m) for m in means]).amin(0) for k, z in features.items()}


def relative_density(features: Sets, components: int) -> Sets:
    """Return the log-density of a mixture with one covariance, less that of a single Gaussian."""
    near, far = (
        GaussianMixture(k, covariance_type="tied", n_init=2, reg_covar=1e-4, random_state=0).fit(features["train"])
        for k in (components, 1)
    )
    return {k: torch.from_numpy(near.score_samples(z) - far.score_samples(z)) for k, z in features.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="+", choices=("cifar10-left-out", "cifar10", "mnist", "fmnist"))
    torch.set_num_threads(1)
    for data in parser.parse_args().data:
        found, classes = seen(data)
        polar = {name: _in_polar_coordinates(z) for name, z in found["latent"].items()}
        texture, components = found["texture"], found["components"]
        probability = {name: raw.softmax(1) for name, raw in found["raw"].items()}
        strength = {name: raw.logsumexp(1) for name, raw in found["raw"].items()}
        apart = relative_distance(found["pooled"], classes["train"])
        kinds = len(np.unique(classes["train"]))
        relative = {k: relative_density(found["latent"], k) for k in (kinds, 2 * kinds)}
        latents, of_texture, of_components = mixture(polar), shortfall(texture), shortfall(components)
        two, three = less(latents, of_texture), less(latents, of_texture, of_components)
        default = two if data.startswith("cifar10") else three
        scores = {
            "evidence of the fit": found["evidence"],
            "minus the entropy of the softmax": {
                k: (p * p.clamp(min=1e-30).log()).sum(1) for k, p in probability.items()
            },
            "log of the sum of exponentials of raw outputs": strength,
            "direction and log-length of latents": latents,
            "texture": mixture(texture),
            "components of the pixels": mixture(components),
            "latents and texture": mixture(polar, texture),
            "latents, texture and components": mixture(polar, texture, components),
            "latents less the shortfall of texture (the default of photographs)": two,
            "latents less the shortfalls of texture and of components (the default of grey pictures)": three,
            "sum of the default and the raw outputs": total(default, strength),
            "sum of texture and the raw outputs": total(mixture(texture), strength),
            "relative distance of pooled features": apart,
            "sum of the default and the relative distance": total(default, apart),
            "sum of texture and the relative distance": total(mixture(texture), apart),
            "latents less the shortfall of texture and components": less(latents, shortfall(texture, components)),
            "relative distance less the shortfall of texture": less(apart, of_texture),
            "relative distance of latents": relative_distance(found["latent"], classes["train"]),
        }
        for k, score in relative.items():
            scores |= {
                f"relative density of latents, {k} components": score,
                f"… {k}, less the shortfall of texture": less(score, of_texture),
                f"… {k}, less the shortfalls of texture and of components": less(score, of_texture, of_components),
            }
        others = [name for name in polar if name not in ("train", "test")]
        print(f"\n| {data} | {' | '.join(others)} |\n|---|{'---|' * len(others)}")
        for name, score in scores.items():
            inside = score["test"]
            areas = [
                roc_auc_score(np.repeat([1, 0], [len(inside), len(score[k])]), torch.cat([inside, score[k]]))
                for k in others
            ]
            print(f"| {name} | {' | '.join(f'{100 * area:.1f}' for area in areas)} |")
        y = classes["test"]
        print("\n| raw outputs times | the paper's Brier | Brier score | negative log-likelihood |\n|---|---|---|---|")
        for factor in FACTORS:
            p = (factor * found["raw"]["test"]).softmax(1).numpy()
            likelihood = metrics.negative_log_likelihood(np.log(p[np.arange(len(y)), y]))
            brier = f"{metrics.brier_norm(y, p):.2f} | {metrics.brier_score(y, p):.5f}"
            print(f"| {factor:.1f} | {brier} | {likelihood:.4f} |")


if __name__ == "__main__":
    main()
