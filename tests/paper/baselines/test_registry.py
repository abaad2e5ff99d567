import inspect

import pytest

import natpn_paper.baselines
from natpn_paper.baselines import BASELINES, Baseline, get
from paper.baselines.problems import CASES


@pytest.mark.parametrize(("name", "target"), CASES)
def test_every_entry_is_what_it_says(name, target):
    model = get(name, target, max_epochs=3)
    assert model.max_epochs == 3
    assert hasattr(model, "predict_proba") == (target == "classes")
    assert target == "classes" or model.family == target


def test_every_public_baseline_has_an_entry():
    offered = {
        kind
        for _, kind in inspect.getmembers(natpn_paper.baselines, inspect.isclass)
        if issubclass(kind, Baseline) and kind is not Baseline
    }
    registered = {kind for entry in BASELINES.values() for kind in (entry.classifier, entry.regressor)}
    assert offered <= registered


def test_the_ensemble_of_natural_posterior_networks_has_five():
    assert get("NatPE", "normal").ensemble_size == 5
    assert get("NatPE", "normal", ensemble_size=2).ensemble_size == 2
    assert get("NatPN", "classes").ensemble_size == 1


def test_unknown_names_are_answered_with_the_choices():
    with pytest.raises(ValueError, match=r"name = 'Dropuot' is unknown; choose one of .* Did you mean 'Dropout'"):
        get("Dropuot", "classes")
    with pytest.raises(ValueError, match=r"target = 'class' is unknown.*Did you mean 'classes'"):
        get("Dropout", "class")
    with pytest.raises(ValueError, match="target: PostNet is for classes, got 'poisson'; choose one of StandardNet"):
        get("PostNet", "poisson")
    with pytest.raises(ValueError, match="target: EvReg is for normal, got 'classes'"):
        get("EvReg", "classes")


def test_what_was_changed_is_shown():
    assert repr(get("Dropout", "poisson", rate=0.25)) == "DropoutRegressor(family='poisson', rate=0.25)"
    assert repr(get("SNGP", "classes")) == "SNGPClassifier()"


def test_a_baseline_takes_no_other_parameters():
    with pytest.raises(TypeError, match="rte"):
        get("Dropout", "classes", rte=0.1)
    with pytest.raises(ValueError, match="family = 'gamma' is unknown"):
        BASELINES["Dropout"].regressor(family="gamma").fit([[0.0], [1.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="family = 'poisson' is unknown"):
        BASELINES["EvReg"].regressor(family="poisson").fit([[0.0], [1.0]], [1.0, 2.0])
