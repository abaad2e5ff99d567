"""What families say of themselves agrees with what they are."""

import numpy as np
import pytest
import torch

from families.references import REFERENCES
from natpn.families import FAMILIES, Family, Graph, get, has_vectors, name_of

every_family = pytest.mark.parametrize(
    "family", [r.family for several in REFERENCES.values() for r in several], ids=repr
)


@every_family
def test_vectors_and_classes_are_those_of_the_support(family):
    assert family.is_vectors == bool(family.support.event_shape) == has_vectors(family) == has_vectors(name_of(family))
    assert family.is_classes == (name_of(family) == "categorical")


@every_family
def test_discrete_targets_have_nothing_between_them(family):
    """Half-way between two counts or classes is none."""
    between = torch.full((1, *family.support.event_shape), 0.5, dtype=torch.float64)
    between = between / between.norm() if name_of(family) == "von_mises_fisher" else between
    assert bool(family.support.holds(between).all()) != family.support.discrete
    posterior = family.posterior(family.prior())
    for distribution in (posterior.predictive(), posterior.likelihood()):
        assert distribution.target.discrete == family.support.discrete


@every_family
def test_a_graph_has_its_outputs_described(family):
    graph = family.graph
    assert isinstance(graph, Graph)
    assert graph.parameters
    assert graph.prediction
    posterior = family.posterior(family.evidence(family.prior(dtype=torch.float64).chi[None], torch.ones(1)))
    predictive = posterior.predictive()
    assert graph.predict(predictive).shape == (1, *predictive.mean.shape[1:])
    if graph.aleatoric is not None:
        torch.testing.assert_close(graph.aleatoric(posterior), posterior.likelihood().entropy(), check_dtype=False)
    if graph.quantiles is not None:
        levels = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
        found = graph.quantiles(levels.tolist())(predictive)
        torch.testing.assert_close(found, predictive.icdf(levels[:, None]).T)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_wider_family_finds_its_limit_on_held_out_rows(name):
    wider = FAMILIES[name].wider
    if wider is not None:
        opened = get(wider).opened()
        generator = torch.Generator().manual_seed(0)
        y = torch.poisson(torch.full((2000,), 3.0), generator=generator)
        raw = opened.inverse_link(torch.full((2000, 1), 3.0))
        assert opened.refined(raw, y, torch.ones(2000)) == get(name)


def test_a_family_that_says_nothing_has_defaults():
    class Silent(Family):
        pass

    y = np.ones((4, 2))
    assert Silent.suited(y) is None
    assert Silent.parameters(y) == {}
    assert [part.tolist() for part in Family.location_and_scale(None, y, None)] == [[0, 0], [1, 1]]
    assert (Silent.predicts, Silent.noise, Silent.wider) == ("", None, None)


def test_a_family_that_is_not_registered_is_named_in_the_error():
    class Unknown(FAMILIES["poisson"]):
        pass

    with pytest.raises(ValueError, match=r"Unknown\(\) is not in natpn.families.FAMILIES"):
        name_of(Unknown())
