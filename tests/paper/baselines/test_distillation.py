import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from torch import nn

from natpn_paper.baselines import EnD2Classifier, EnsembleClassifier
from natpn_paper.baselines.distillation import DistillationLoss, smoothed
from paper.baselines.problems import clusters, quick


def test_the_loss_is_scipys_dirichlet():
    generator = np.random.default_rng(0)
    raw, logits = generator.normal(size=(4, 3)), generator.normal(size=(4, 5, 3))
    loss = DistillationLoss(nn.Identity(), 10.0, 0.01, 100).eval()(torch.tensor(raw), torch.tensor(logits))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True) * 0.99 + 0.01 / 3
    want = [-np.mean([stats.dirichlet.logpdf(q, np.exp(a)) for q in rows]) / 3 for rows, a in zip(p, raw, strict=True)]
    assert_allclose(loss, want)


def test_both_sides_have_the_temperature():
    raw, logits = torch.randn(4, 3).double(), torch.randn(4, 5, 3).double()
    warm = DistillationLoss(nn.Identity(), 10.0, 0.01, 100)
    cold = DistillationLoss(nn.Identity(), 1.0, 0.01, 100).eval()
    assert_allclose(warm.train()(raw, logits), cold(raw / 10, logits / 10))


def test_the_temperature_falls_to_one():
    loss = DistillationLoss(nn.Identity(), 10.0, 1e-4, 100).train()
    found = []
    for step in (0, 20, 40, 60, 100):
        loss.step.fill_(step)
        found.append(loss.current())
    assert found == pytest.approx([10, 10, 5.5, 1, 1])
    loss.step.fill_(0)
    assert loss.eval().current() == 1.0


def test_smoothed_probabilities_sum_to_one():
    p = smoothed(torch.tensor([[1e4, 0.0, -1e4]]), 0.03).exp()
    assert_allclose(p, [[0.98, 0.01, 0.01]])


@pytest.mark.slow
def test_it_answers_like_the_ensemble():
    X, y = clusters(400, spread=0.6)
    student = EnD2Classifier(ensemble_size=3, max_epochs=25, random_state=0).fit(X, y)
    teachers = EnsembleClassifier(ensemble_size=3, max_epochs=25, random_state=0).fit(X, y)
    new, _ = clusters(300, seed=1, spread=0.6)
    assert np.abs(student.predict_proba(new) - teachers.predict_proba(new)).mean() < 0.03
    assert student.history_[-1]["phase"] == "distillation"


@pytest.mark.parametrize("patience", [None, 1])
def test_the_last_state_counts_whatever_held_out_rows_say(patience):
    student = quick("EnD2", "classes", max_epochs=40, patience=patience).fit(*clusters(200))
    epochs = [entry for entry in student.history_ if entry["phase"] == "distillation"]
    assert len(epochs) == 40
    assert ["validation_loss" in entry for entry in epochs] == [False] * 39 + [True]


@pytest.mark.parametrize(("name", "value"), [("ensemble_size", 0), ("temperature", 0.5), ("smoothing", 0.0)])
def test_wrong_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        quick("EnD2", "classes", **{name: value}).fit(*clusters(20))
