"""What the density of pictures could see, and how sharp its predictions could be.

    NATPN_DATA=... python benchmarks/pictures.py cifar10-left-out [mnist ...] [--small --seeds 0 1 2 3 4]

It takes the fits that `natpn reproduce` left in reproduce/checkpoints, or makes them. With --small, networks have half
the width, 20,000 training pictures and five epochs: two to three minutes of a core each. Seed s of cifar10-left-out
leaves out the classes 2s and 2s + 1. Densities are fitted to 8,000 training pictures, and scored on all test pictures,
2,500 corrupted ones and 2,000 of each OOD set.

The first table has areas under the ROC curve of several scores, their mean over the seeds. A shortfall is what a score
is below the median of training pictures, 0 above it, in the score's own unit: from that median to their first
percentile. The relative distance (Ren and others 2021) is the squared Mahalanobis distance of the pooled features from
the nearest class, with one covariance, minus that from the mean of all.

The second table has the scores of the predicted classes if raw outputs are multiplied by a factor. The fit has chosen
its own, the temperature, by the likelihood of held-out pictures: that is the factor 1.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor

from natpn import NatPNClassifier, encoders, metrics
from natpn.densities import Density, RelativeMixture
from natpn.network.default import BANDWIDTH, CLUSTERS, PrincipalComponents, default_mixture
from natpn.network.natural_posterior import in_polar_coordinates
from natpn_paper import datasets
from natpn_paper.experiments.base import Run
from natpn_paper.experiments.paper_tables import CIFAR10_SETTING, MNIST_SETTING
from natpn_paper.experiments.table_rows import fitted

TRAIN, TEST, OTHERS = 8000, 2500, 2000
SMALL_ROWS, SMALL_EPOCHS = 20_000, 5
FACTORS = (1.0, 1.1, 1.2, 1.3, 1.5)
CORRUPTIONS = (("gaussian_noise", 1), ("fog", 5), ("defocus_blur", 3))
Sets = dict[str, Tensor]


def small(splits: datasets.Splits, seed: int) -> NatPNClassifier:
    """Fit a network of half the width to a part of the pictures for a few epochs."""
    (X, y), (X_val, y_val) = splits.train, splits.validation
    sizes = {"shape": X.shape[1:], "latent_dim": 16, "width": 32 if X.shape[1] == 3 else 16}
    encoder = partial(encoders.get, "resnet9", **sizes)
    model = NatPNClassifier(encoder=encoder, latent_dim=16, max_epochs=SMALL_EPOCHS, random_state=seed)
    held_out = SMALL_ROWS // 4
    return model.fit(X[:SMALL_ROWS], y[:SMALL_ROWS], X_val=X_val[:held_out], y_val=y_val[:held_out])


def seen(data: str, seed: int, is_small: bool) -> tuple[dict[str, Sets], dict[str, NDArray[np.int64]]]:
    """Return what a network says of each set of pictures, by name, and the classes of training and test pictures."""
    splits = datasets.load(data, seed=seed)
    setting = CIFAR10_SETTING if data.startswith("cifar10") else MNIST_SETTING
    model = small(splits, seed) if is_small else fitted(Run(data, data, "NatPN", seed), "classes", splits, setting)
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


def log_density(density: Density, features: Sets) -> Sets:
    """Return the log-densities of features by a density that is fitted to those of training pictures."""
    density = density.double().requires_grad_(False)
    density.refit(features["train"])
    return {name: density(x) for name, x in features.items()}


def mixture(*views: Sets) -> Sets:
    """Return the log-densities of a mixture over views, of the default's size."""
    joined = {name: torch.cat([view[name] for view in views], 1) for name in views[0]}
    rows, dim = joined["train"].shape
    return log_density(default_mixture(dim, rows), joined)


def relative_density(features: Sets, components: int) -> Sets:
    """Return the log-densities of a mixture with one covariance, relative to a single normal."""
    return log_density(RelativeMixture(features["train"].shape[1], components, BANDWIDTH), features)


def standardised(score: Sets) -> Sets:
    """Bring a score to its own unit: 0 at the median of training pictures, −1 at their first percentile."""
    middle = score["train"].median()
    return {name: (values - middle) / (middle - score["train"].quantile(0.01)) for name, values in score.items()}


def less(score: Sets, *others: Sets) -> Sets:
    """Return a score in its own unit, less what others fall short."""
    short = [{name: values.clamp(max=0) for name, values in standardised(other).items()} for other in others]
    return {name: value + sum(part[name] for part in short) for name, value in standardised(score).items()}


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


def scores(found: dict[str, Sets], y: NDArray[np.int64]) -> dict[str, Sets]:
    """Return all scores by name; higher is more familiar."""
    polar = {name: in_polar_coordinates(z) for name, z in found["latent"].items()}
    length = {name: x[:, -1] for name, x in polar.items()}
    latents, texture, components = mixture(polar), mixture(found["texture"]), mixture(found["components"])
    apart = relative_distance(found["pooled"], y)
    relative = {k: relative_density(polar, k) for k in (CLUSTERS // 2, CLUSTERS, 2 * CLUSTERS)}
    default = relative[CLUSTERS]
    probability = {name: raw.softmax(1) for name, raw in found["raw"].items()}
    return {
        "evidence of the fit": found["evidence"],
        "minus the entropy of the softmax": {k: (p * p.clamp(min=1e-30).log()).sum(1) for k, p in probability.items()},
        "log of the sum of exponentials of raw outputs": {k: raw.logsumexp(1) for k, raw in found["raw"].items()},
        "log-length of latents": length,
        "density of direction and log-length": latents,
        "… of the texture": texture,
        "… of the components of the pixels": components,
        "… of direction, log-length, texture and components": mixture(polar, found["texture"], found["components"]),
        "relative density of direction and log-length": default,
        "relative distance of the pooled features": apart,
        "density less the shortfall of the texture": less(latents, texture),
        "… less that of the components too": less(latents, texture, components),
        "relative density less the shortfall of the texture": less(default, texture),
        "… and of the log-length (the default of photographs)": less(default, length, texture),
        "… and of the components (the default of grey pictures)": less(default, length, texture, components),
        **{
            f"… and of the log-length, {k} components": less(relative[k], length, texture)
            for k in relative
            if k != CLUSTERS
        },
        "relative distance less the shortfalls of log-length and texture": less(apart, length, texture),
    }


def areas(score: Sets, others: list[str]) -> list[float]:
    """Return the areas under the ROC curve of test pictures against others, in percent."""
    inside = score["test"]
    labels = [np.repeat([1, 0], [len(inside), len(score[name])]) for name in others]
    return [
        100 * roc_auc_score(label, torch.cat([inside, score[name]])) for label, name in zip(labels, others, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="+", choices=("cifar10-left-out", "cifar10", "mnist", "fmnist"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for data in arguments.data:
        found: dict[str, list[list[float]]] = {}
        sharpness: dict[float, list[list[float]]] = {factor: [] for factor in FACTORS}
        for seed in arguments.seeds:
            sets, classes = seen(data, seed, arguments.small)
            others = [name for name in sets["raw"] if name not in ("train", "test")]
            for name, score in scores(sets, classes["train"]).items():
                found.setdefault(name, []).append(areas(score, others))
            y = classes["test"]
            for factor in FACTORS:
                p = (factor * sets["raw"]["test"]).softmax(1).numpy()
                likelihood = metrics.negative_log_likelihood(np.log(p[np.arange(len(y)), y]))
                sharpness[factor].append([metrics.brier_norm(y, p), metrics.brier_score(y, p), likelihood])
        print(f"\n| {data} | {' | '.join(others)} |\n|---|{'---|' * len(others)}")
        for name, rows in found.items():
            print(f"| {name} | {' | '.join(f'{area:.1f}' for area in np.mean(rows, 0))} |")
        if len(arguments.seeds) > 1:
            print(f"\nThe first column by seed ({', '.join(map(str, arguments.seeds))}):")
            for name, rows in found.items():
                print(f"| {name} | {' | '.join(f'{row[0]:.1f}' for row in rows)} |")
        print("\n| raw outputs times | the paper's Brier | Brier score | negative log-likelihood |\n|---|---|---|---|")
        for factor, rows in sharpness.items():
            norm, brier, likelihood = np.mean(rows, 0)
            print(f"| {factor:.1f} | {norm:.2f} | {brier:.5f} | {likelihood:.4f} |")


if __name__ == "__main__":
    main()
