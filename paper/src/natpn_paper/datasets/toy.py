"""Toy data as in the paper's first figure and its appendix, drawn by the seed.

The paper shows them only as figures, and states the number of training rows of each class. The positions of the classes
and the regression are ours: a cubic whose noise grows, with a gap in the middle where nothing is known.
"""

from collections.abc import Sequence

import numpy as np

from natpn_paper.datasets.base import Array, Pair, Request, Splits, choose, out_of_domain

CENTRES = np.array([[0.0, 2.0], [-1.5, -0.8], [0.6, -0.8]])
SPREAD = 0.6
N_TRAIN = 2_000
GAP = (-0.5, 1.5)
RANGE = (-4.0, 4.0)


def toy_classification(request: Request) -> Splits:
    """Draw three round classes in the plane, 900 training rows each, two of them touching."""
    return classes("toy-classification", (900, 900, 900), request)


def toy_classification_unequal(request: Request) -> Splits:
    """Draw the same three classes with 900, 600 and 300 training rows."""
    return classes("toy-classification-unequal", (900, 600, 300), request)


def toy_regression(request: Request) -> Splits:
    """Draw 2,000 training rows of y = x³ plus noise, for x from -4 to 4 without -0.5 to 1.5.

    The standard deviation of the noise is 1 + (x + 4)² / 4. The OOD set "Gap" has inputs inside the gap, "Far" inputs
    from 6 to 10 on both sides.
    """
    rng = np.random.default_rng(request.seed)
    train, validation, test = (cubic(n, rng) for n in (N_TRAIN, N_TRAIN // 3, N_TRAIN // 3))
    gap = rng.uniform(*GAP, (N_TRAIN // 3, 1))
    far = rng.uniform(6, 10, (N_TRAIN // 3, 1)) * rng.choice([-1, 1], (N_TRAIN // 3, 1))
    return cut("toy-regression", train, validation, test, {"Gap": gap, "Far": far}, request, None, ("x",))


def classes(name: str, counts: Sequence[int], request: Request) -> Splits:
    """Draw classes with these numbers of training rows, and a third of them for each of the other splits."""
    rng = np.random.default_rng(request.seed)
    thirds = [count // 3 for count in counts]
    train, validation, test = (blobs(c, rng) for c in (counts, thirds, thirds))
    angle = rng.uniform(0, 2 * np.pi, sum(thirds))
    far = 8 * np.stack([np.cos(angle), np.sin(angle)], axis=1)  # a circle round all classes
    return cut(name, train, validation, test, {"Far": far}, request, len(counts), ("x1", "x2"))


def blobs(counts: Sequence[int], rng: np.random.Generator) -> Pair:
    """Draw the given number of points of each class, in random order."""
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return rng.normal(CENTRES[y], SPREAD), y


def cubic(n_rows: int, rng: np.random.Generator) -> Pair:
    """Draw rows of the regression, uniformly over both sides of the gap."""
    room = RANGE[1] - RANGE[0] - (GAP[1] - GAP[0])
    x = RANGE[0] + rng.uniform(0, room, n_rows)
    x = np.where(x < GAP[0], x, x + GAP[1] - GAP[0])
    return x[:, None], x**3 + rng.normal(size=n_rows) * (1 + (x + 4) ** 2 / 4)


def cut(
    name: str,
    train: Pair,
    validation: Pair,
    test: Pair,
    ood: dict[str, Array],
    request: Request,
    n_classes: int | None,
    columns: tuple[str, ...],
) -> Splits:
    """Cut everything at the limit, and add "OODom"."""

    def cap(rows: Array) -> Array:
        return rows[choose(len(rows), request.limit, request.seed)]

    first, second, third = ((cap(X), cap(y)) for X, y in (train, validation, test))
    others = {other: cap(X) for other, X in ood.items()}
    unfamiliar = others | {"OODom": out_of_domain(others, third[0])}
    return Splits(name, first, second, third, unfamiliar, n_classes, columns)
