"""Small fitted models of every family, and what is asked of them."""

from functools import cache

import numpy as np
import torch

from natpn import NatPNClassifier, NatPNRegressor
from natpn.export.graph_module import Answers
from natpn.families import FAMILIES
from natpn.tabular.cells import text_of

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(120, 3)) * [1.0, 20.0, 300.0] + [0.0, 5.0, 1000.0]
ROWS[::9, 2] = np.nan  # training had missing values in the last column, and in no other


def targets(family: str) -> np.ndarray:
    draw = np.random.default_rng(1)
    signal = ROWS[:, 0]
    if family in ("normal", "lognormal", "gamma", "exponential"):
        return 5e4 + 300 * signal if family == "normal" else 40 * np.exp(signal)
    if family in ("poisson", "negative_binomial"):
        return draw.poisson(np.exp(signal)).astype(float)
    if family in ("bernoulli", "categorical"):
        return (signal > 0).astype(float)
    if family == "multivariate_normal":
        return np.stack([signal, 100 * ROWS[:, 1] + signal], 1)
    if family == "multinomial":
        return draw.multinomial(5, [0.2, 0.3, 0.5], len(ROWS)).astype(float)
    vectors = np.stack([signal, draw.normal(size=len(ROWS)) + 1, draw.normal(size=len(ROWS))], 1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@cache
def fitted(family: str, density: str = "gaussian_mixture", ensemble_size: int = 1):
    options = {"density": density, "latent_dim": 4, "max_epochs": 2, "random_state": 0, "ensemble_size": ensemble_size}
    if family == "categorical":
        return NatPNClassifier(**options).fit(ROWS, np.array(["no", "yes"])[targets(family).astype(int)])
    assert family in FAMILIES
    return NatPNRegressor(family=family, **options).fit(ROWS, targets(family))


def questions(n: int, sound: np.ndarray = ROWS) -> np.ndarray:
    """Return n rows: like training, far, very far, and with missing values where training had none."""
    rows = np.resize(sound, (n, *sound.shape[1:])).copy()
    rows[1::5] *= 1e3
    rows[2::5] *= 1e8
    rows[3::5, 0] = np.nan
    rows[4::5, 2] = np.nan
    return rows


def expected(model, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return what the estimator says, by the names of a graph's outputs."""
    distribution = model.predict_dist(rows)
    answers = {
        "log_evidence": model.score_samples(rows),
        "familiarity": distribution.familiarity,
        "epistemic": distribution.epistemic,
        "chi": distribution.posterior.mean_statistics.numpy(),
        "n": distribution.posterior.n.numpy(),
    }
    if isinstance(model, NatPNClassifier):
        answers["prediction"] = model.predict_proba(rows)
        answers["label"] = np.searchsorted(model.classes_, model.predict(rows))
        answers["aleatoric"] = distribution.aleatoric
        return answers
    answers["prediction"] = model.predict(rows)
    name = type(model.family_).__name__
    if name not in ("Multinomial", "Poisson", "NegativeBinomial", "VonMisesFisher"):
        answers["aleatoric"] = distribution.aleatoric
    if name not in ("Multinomial", "LogNormal", "MultivariateNormal", "VonMisesFisher"):
        answers["std"] = distribution.std()
    closed = name in ("Bernoulli", "Exponential", "Normal", "LogNormal")
    if closed or (name == "Gamma" and model.family_.shape == 1):
        answers["quantiles"] = distribution.quantile([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
        answers["lower"], answers["upper"] = distribution.interval(0.9).T
    return answers


def feed(model, frame) -> dict[str, np.ndarray]:
    """Return what a graph that takes columns is given for a data frame of pandas, by column."""
    found = {}
    for column in model.model_.inputs.columns:
        values = frame[column.name]
        if column.arithmetic.codes is not None:
            known = values.astype(object).where(values.notna(), "")
            found[column.name] = np.array([text_of(value) for value in known], object)
        elif column.kind == "date":
            plain = values if column.zone is None else values.dt.tz_convert("UTC").dt.tz_localize(None)
            seconds = plain.to_numpy("M8[us]").astype(np.int64) / 1e6
            found[column.name] = np.where(values.isna(), np.nan, seconds)
        else:
            found[column.name] = values.to_numpy(float, na_value=np.nan)
    return found


def matrix(model, frame) -> np.ndarray:
    """Return the numbers that a graph makes of columns: codes for texts."""
    given = feed(model, frame)
    columns = []
    for column in model.model_.inputs.columns:
        codes, values = column.arithmetic.codes, given[column.name]
        columns.append(values if codes is None else [float(codes.of.get(text, codes.otherwise)) for text in values])
    return np.stack([np.asarray(values, float) for values in columns], 1)


@torch.no_grad()
def ask(model, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return what the module says that is exported."""
    answers = Answers(model.model_)
    return {n: t.numpy() for n, t in zip(answers.outputs, answers(torch.from_numpy(rows)), strict=True)}


def assert_agree(found: dict[str, np.ndarray], model, rows: np.ndarray, tolerance: float = 1e-4) -> None:
    """Compare all outputs, relative to 1 + |value|."""
    wanted = expected(model, rows)
    assert set(found) == {*wanted, "novelty_p"}
    for name, value in wanted.items():
        assert found[name].shape == value.shape, name
        assert not np.isnan(found[name]).any(), name
        with np.errstate(invalid="ignore"):
            gap = np.where(found[name] == value, 0.0, np.abs(found[name] - value) / (1 + np.abs(value)))
        assert gap.max() <= tolerance, f"{name}: {gap.max()}"
    # Rows of the calibration tie with themselves, so p is compared for the evidence that the graph found.
    assert np.array_equal(found["novelty_p"], model.calibration_.novelty_p(found["log_evidence"]))
