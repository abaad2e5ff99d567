import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paper.baselines.problems import clusters, line, problem, quick


@pytest.mark.parametrize("target", ["classes", "normal", "poisson"])
def test_an_ensemble_of_one_is_its_member(target):
    X, y = problem(target, 60)
    one = quick("Ensemble", target, ensemble_size=1).fit(X, y).predict_dist(X)
    plain = quick("StandardNet", target).fit(X, y).predict_dist(X)
    assert_allclose(one.mean(), plain.mean(), rtol=1e-12)
    assert_allclose(one.entropy(), plain.entropy(), rtol=1e-6)
    assert_array_equal(one.epistemic, 0.0)


def test_models_of_plain_networks_share_them_on_disk(tmp_path):
    X, y = clusters(60)
    apart = {name: quick(name, "classes").fit(X, y) for name in ("Ensemble", "EnD2")}
    kept = []
    for name in ("StandardNet", "Ensemble", "EnD2"):
        model = quick(name, "classes", checkpoint_dir=tmp_path).fit(X, y)
        kept.append({path: path.stat().st_mtime_ns for path in tmp_path.glob("training */*")})
        if name in apart:
            assert_array_equal(model.predict_proba(X), apart[name].predict_proba(X))
    assert [len(files) for files in kept] == [1, 2, 2]
    assert kept[0].items() <= kept[1].items() == kept[2].items()


def test_members_differ():
    X, y = line(60)
    model = quick("Ensemble", "normal", ensemble_size=3).fit(X, y)
    assert (model.predict_dist(X).epistemic > 0).all()
    assert {entry["phase"] for entry in model.history_} == {"training 1", "training 2", "training 3"}


def test_members_disagree_far_away():
    X, y = line(300)
    model = quick("Ensemble", "normal", max_epochs=30).fit(X, y)
    assert model.score_samples(30 * X).mean() < 10 * model.score_samples(X).mean()


def test_its_spread_is_part_of_the_prediction():
    X, y = line(60)
    found = quick("Ensemble", "normal").fit(X, y).predict_dist(X)
    noise = np.exp(found.aleatoric) / np.sqrt(2 * np.pi * np.e)
    assert_allclose(found.variance(), noise**2 + found.epistemic)


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="ensemble_size: expected a whole number of at least 1, got 0"):
        quick("Ensemble", "normal", ensemble_size=0).fit(*line(20))
