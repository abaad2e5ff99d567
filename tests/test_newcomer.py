"""A new member of a registry is one class and one line: everything from the fit to the server takes it as it is."""

import io
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import natpn
from cli.conftest import refused, run
from natpn import NatPNRegressor, report
from natpn.densities import DENSITIES, Density
from natpn.encoders import ENCODERS
from natpn.estimators.regressor import automatic
from natpn.export import export_onnx
from natpn.export.graph_module import Answers
from natpn.families import FAMILIES, CompoundGamma, Graph, PositiveMeanFamily, Support
from natpn.families.gamma import GammaPosterior

ABOVE_ONE = Support("a number above 1", lambda y: (y > 1) & y.isfinite())


class ParetoDistribution(CompoundGamma):
    """The exponential of waiting times of an uncertain rate."""

    has_moments = False

    def __init__(self, *parameters):
        super().__init__(*parameters)
        self.target = ABOVE_ONE

    def _mean(self):
        return torch.full_like(self.scale, torch.inf)

    _variance = _mean

    def _log_prob(self, y):
        return super()._log_prob(y.log()) - y.log()

    def _sample(self, shape):
        return super()._sample(shape).exp()

    def _entropy(self):
        return super()._entropy() + super()._mean()

    def _cdf(self, y):
        return super()._cdf(np.log(np.maximum(y, 1.0)))

    def _icdf(self, q):
        with np.errstate(over="ignore"):
            return np.exp(super()._icdf(q))


@dataclass(frozen=True, repr=False)
class Pareto(PositiveMeanFamily):
    """Numbers above 1 whose logarithm is a waiting time: u(y) = log y, with a Gamma prior on the rate."""

    predicts: ClassVar[str] = "how often a word occurs"
    shape: ClassVar[float] = 1.0
    support = ABOVE_ONE

    def location_and_scale(self, y, weight):
        return np.zeros(1), np.average(np.log(y), weights=weight).reshape(1)

    def standardise(self, y, location, scale):
        return np.maximum(y ** (1 / scale), 1 + 1e-6)

    def rescaling(self, location, scale):
        return scale, torch.zeros_like(scale)

    def _statistics(self, y):
        return y.log().unsqueeze(-1)

    def _marginal_n(self, mean, square):
        ratio = square / mean.square()
        return ratio / (ratio - 2)

    def _posterior(self, evidence):
        return ParetoPosterior(self, evidence)


class ParetoPosterior(GammaPosterior):
    """Gamma over the rate."""

    def _expected_log_likelihood(self, y):
        return super()._expected_log_likelihood(y.log()) - y.log()

    def predictive(self):
        return ParetoDistribution(self.k, self.scale, self.alpha, self.dtype)

    def likelihood(self):
        return ParetoDistribution(self.k, self.mean, torch.full_like(self.k, torch.inf), self.dtype)


# Nothing below is part of the family.

QUICK = {"max_epochs": 10, "random_state": 0}


@pytest.fixture(scope="module")
def pareto():
    """A fitted model, while the family is in the registry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FAMILIES, "pareto", Pareto)
        yield fitted(family="pareto")


def table(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows)})
    return frame.assign(y=np.exp(np.exp(1 + frame["a"]) * rng.exponential(size=rows)).clip(1.0001))


def fitted(**options) -> NatPNRegressor:
    data = table()
    return NatPNRegressor(**QUICK | options).fit(data[["a", "b"]], data["y"])


def saved_and_loaded(model: NatPNRegressor, place) -> pd.DataFrame:
    """Return answers of a model that was saved and loaded, which are those of the model."""
    rows = table(40, 1)[["a", "b"]]
    model.save(place)
    answers = natpn.load(place).predict_frame(rows)
    pd.testing.assert_frame_equal(answers, model.predict_frame(rows))
    assert np.isfinite(answers.drop(columns=["novel", "reason"])).all().all()
    return answers


def same_graph(model: NatPNRegressor) -> None:
    """Compare what would be exported with what the model says."""
    rows, answers = table(40, 1)[["a", "b"]], Answers(model.model_)
    found = dict(zip(answers.outputs, answers(torch.tensor(rows.to_numpy())), strict=True))
    np.testing.assert_allclose(found["prediction"], model.predict(rows), rtol=1e-6)
    np.testing.assert_allclose(found["log_evidence"], model.score_samples(rows), rtol=1e-6)


def test_a_family_is_fitted_saved_and_loaded(pareto, tmp_path):
    answers = saved_and_loaded(pareto, tmp_path / "model")
    assert (answers["lower"] >= 1).all()
    assert (answers["lower"] < answers["prediction"]).all()
    rows = table(2000, 2)
    low, high = pareto.predict_interval(rows[["a", "b"]]).T
    assert 0.85 < np.mean((low <= rows["y"]) & (rows["y"] <= high)) < 0.95
    assert np.corrcoef(np.log(np.log(answers["prediction"])), table(40, 1)["a"])[0, 1] > 0.9
    assert pareto.predict(rows[["a", "b"]], return_std=True)[1].min() > 0


def test_a_family_in_other_units_is_the_same(pareto):
    data = table()
    cubed = NatPNRegressor("pareto", **QUICK).fit(data[["a", "b"]], data["y"] ** 3)
    answers = [np.log(model.predict(data[["a", "b"]])) for model in (pareto, cubed)]
    np.testing.assert_allclose(answers[1], 3 * answers[0], rtol=1e-3)


def test_a_family_is_refused_what_it_does_not_predict(pareto):
    with pytest.raises(ValueError, match=r"expected a number above 1, got 0\.5"):
        NatPNRegressor("pareto").fit(np.arange(6.0)[:, None], [2.0, 3, 4, 0.5, 6, 7])


def test_a_family_on_the_command_line(pareto, tmp_path):
    data, model, page = tmp_path / "data.csv", tmp_path / "model", tmp_path / "page.html"
    table().to_csv(data, index=False)
    told = run("fit", data, "--target", "y", "--family", "pareto", "--max-epochs", 3, "--out", model)
    assert told.exit_code == 0, told.output
    assert "family Pareto()" in told.stdout
    predicted = run("predict", model, data)
    assert predicted.exit_code == 0, predicted.output
    expected = natpn.load(model).predict_frame(table()[["a", "b"]])
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(predicted.stdout), keep_default_na=False), expected)
    assert run("report", model, data, "--out", page).exit_code == 0
    assert "predicts how often a word occurs." in page.read_text()
    assert run("evaluate", model, data).exit_code == 0
    sentence = refused(run("export", model, tmp_path / "model.onnx"))
    assert "Pareto() cannot be exported: " in sentence
    assert not (tmp_path / "model.onnx").exists()


def test_a_family_that_says_nothing_is_described_by_its_support(pareto, monkeypatch):
    monkeypatch.delattr(Pareto, "predicts")
    data = table(60)
    assert "predicts a number above 1." in report.render(pareto, data[["a", "b"]], data["y"])


def test_a_family_is_served(pareto):
    serve, serving = pytest.importorskip("natpn.serve"), pytest.importorskip("serve.serving")
    with serving.client_of(serve.create_app(pareto)) as client:
        answer = client.post("/predict?curve=true", json={"a": 0.5, "b": 0.0}).json()
        assert client.get("/model").json()["family"] == "Pareto()"
    expected = pareto.predict_frame(pd.DataFrame({"a": [0.5], "b": [0.0]})).iloc[0]
    assert answer["prediction"] == pytest.approx(expected["prediction"])
    assert answer["curve"]["kind"] == "density"
    assert min(answer["curve"]["x"]) > 1


@pytest.mark.slow
def test_a_family_that_says_what_a_graph_has_is_exported(pareto, monkeypatch, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    stated = Graph(
        "the mean of log y",
        "the median",
        predict=lambda predictive: (predictive.scale * predictive.a * torch.expm1(np.log(2) / predictive.a)).exp(),
        deviation=False,
        aleatoric=None,
    )
    monkeypatch.setattr(Pareto, "graph", stated)
    same_graph(pareto)
    small = fitted(
        family="pareto", ensemble_size=1, latent_dim=2
    )  # a graph of two networks takes twice as long to make
    assert export_onnx(small, tmp_path / "model.onnx") == []
    rows = table(40, 1)[["a", "b"]]
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(["prediction"], {"X": rows.to_numpy()})
    np.testing.assert_allclose(found, small.predict(rows), rtol=1e-6)


def test_a_family_is_chosen_where_it_says_so(pareto, monkeypatch):
    assert automatic(table()["y"].to_numpy()) == "lognormal"
    monkeypatch.setattr(Pareto, "suited", classmethod(lambda cls, y: 9 if y.min() > 1 else None))
    assert automatic(table()["y"].to_numpy()) == "pareto"
    assert automatic(np.arange(9.0)) == "poisson"


class Ball(Density):
    """A Normal of learned width."""

    def __init__(self, dim):
        super().__init__(dim)
        self.log_width = nn.Parameter(torch.zeros(dim))

    def _log_prob(self, u):
        return (-0.5 * (u / self.log_width.exp()).square() - self.log_width - 0.9189385).sum(-1)


def test_a_density_is_one_class_and_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(DENSITIES, "ball", Ball)
    model = fitted(density="ball")
    assert any(isinstance(module, Ball) for module in model.network_.modules())
    saved_and_loaded(model, tmp_path / "model")
    same_graph(model)
    near, far = model.score_samples(pd.DataFrame({"a": [0.0, 50.0], "b": [0.0, 50.0]}))
    assert near > far


class Cosines(nn.Module):
    """Rows of numbers as cosines of random directions."""

    n_dims = 1

    def __init__(self, n_features, latent_dim=16, n_ignored=0):
        super().__init__()
        self.n_features = n_features
        self.first, self.last = nn.Linear(n_features, 64), nn.Linear(64, latent_dim)

    def forward(self, x):
        return self.last(torch.cos(self.first(x[..., : self.n_features])))


@pytest.mark.parametrize("scheme", ["staged", "paper"])
def test_an_encoder_is_one_class_and_one_line(monkeypatch, tmp_path, scheme):
    monkeypatch.setitem(ENCODERS, "cosines", Cosines)
    model = fitted(encoder="cosines", scheme=scheme)
    assert any(isinstance(module, Cosines) for module in model.network_.modules())
    saved_and_loaded(model, tmp_path / "model")
    same_graph(model)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["parameters"]["encoder"] == "cosines"
    with pytest.raises(ValueError, match=r"'image' is not for inputs of shape \(2,\); choose 'auto', 'tabular', 'cos"):
        fitted(encoder="image")
