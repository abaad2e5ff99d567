"""Bad input: which argument, what came, what was expected."""

import pytest
import torch

from natpn import families
from natpn.families import FAMILIES, get

BAD_TARGETS = [
    ("categorical", {"n_classes": 3}, [0.0, 3.0], r"y: expected a class index from 0 to 2, got 3\.0 at index \(1,\)"),
    ("categorical", {"n_classes": 3}, [-1.0, 0.0], "y: expected a class index"),
    ("categorical", {"n_classes": 3}, [0.5, 0.0], "y: expected a class index"),
    ("bernoulli", {}, [2.0, 0.0], "y: expected a class index from 0 to 1"),
    (
        "multinomial",
        {"n_classes": 2},
        [[1.0, -1.0], [0.0, 2.0]],
        r"y: expected a vector of 2 counts, got \[1\.0, -1\.0\]",
    ),
    ("multinomial", {"n_classes": 2}, [[1.0, 1.0, 0.0]] * 2, r"of size 2, got shape \(2, 3\)"),
    ("normal", {}, [float("nan"), 0.0], "y: expected a finite number, got nan"),
    ("normal", {}, [float("inf"), 0.0], "y: expected a finite number"),
    ("lognormal", {}, [0.0, 1.0], "y: expected a positive number"),
    ("multivariate_normal", {"dimension": 2}, [[0.0, float("nan")]] * 2, "y: expected a vector of 2 finite numbers"),
    ("poisson", {}, [1.0, -2.0], r"y: expected a count \(0, 1, 2, …\), got -2\.0 at index \(1,\)"),
    ("poisson", {}, [1.5, 2.0], "y: expected a count"),
    ("negative_binomial", {}, [1.0, -2.0], "y: expected a count"),
    ("exponential", {}, [1.0, -2.0], "y: expected a positive number"),
    ("gamma", {}, [0.0, 2.0], "y: expected a positive number"),
    ("von_mises_fisher", {"dimension": 2}, [[1.0, 1.0], [1.0, 0.0]], "y: expected a vector of 2 numbers of length 1"),
]


def test_every_family_has_a_bad_target():
    assert {name for name, *_ in BAD_TARGETS} == set(FAMILIES)


@pytest.mark.parametrize(("name", "parameters", "y", "words"), BAD_TARGETS)
def test_bad_targets(name, parameters, y, words):
    family = get(name, **parameters)
    y = torch.tensor(y)
    chi = family.prior().chi.expand(2, -1)
    posterior = family.posterior(family.prior() + family.evidence(chi, 0.0))
    for call in (family.statistics, family.observe, posterior.expected_log_likelihood):
        with pytest.raises(ValueError, match=words):
            call(y)
    with pytest.raises(ValueError, match=words.replace("y: ", "value: ", 1)):
        posterior.predictive().log_prob(y)


def test_targets_of_the_wrong_shape():
    family = get("normal")
    posterior = family.posterior(family.prior() + family.evidence(torch.zeros(5, 2) + 1, 0.0))
    with pytest.raises(ValueError, match=r"y: expected one target for each of the batch \(5,\), got shape \(5, 1\)"):
        posterior.expected_log_likelihood(torch.zeros(5, 1))
    assert posterior.expected_log_likelihood(torch.zeros(7, 5)).shape == (7, 5)
    with pytest.raises(ValueError, match="value: expected a shape that broadcasts"):
        posterior.predictive().log_prob(torch.zeros(4))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: get("posson"),
            r"family = 'posson' is unknown; choose one of 'categorical', .* Did you mean 'poisson'\?",
        ),
        (lambda: get("categorical"), r"categorical needs n_classes, as in get\('categorical', n_classes=3\)"),
        (
            lambda: get("categorical", n_clases=3),
            "parameter of the family 'categorical' = 'n_clases' is unknown.* Did you mean 'n_classes'",
        ),
        (lambda: get("exponential", shape=2.0), "exponential has no parameters, got 'shape'"),
        (lambda: get("categorical", n_classes=1), "n_classes: expected a whole number from 2 on, got 1"),
        (lambda: get("categorical", n_classes=2.5), "n_classes: expected a whole number"),
        (lambda: get("gamma", shape=-1.0), "shape: expected a positive number, got -1.0"),
        (lambda: get("negative_binomial", r=0), "r: expected a positive number"),
        (lambda: get("von_mises_fisher", dimension=4), "dimension: expected a whole number from 2 to 3, got 4"),
        (lambda: get("von_mises_fisher", concentration=float("inf")), "concentration: expected a positive number"),
        (lambda: get("normal").prior(n=0), "n: expected a positive number of pseudo-observations"),
        (lambda: get("normal").prior(chi=[0.0, -1.0]), "not a proper prior"),
        (lambda: get("normal").prior(chi=[0.0]), r"2 statistics in the last dimension, got shape \(1,\)"),
        (lambda: get("poisson").prior(chi=-1.0), "not a proper prior"),
        (lambda: get("normal").evidence(torch.zeros(3), 0.0), "2 statistics"),
        (lambda: get("normal").posterior(get("poisson").prior()), "2 statistics"),
    ],
)
def test_bad_parameters_and_priors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_priors_can_be_set():
    prior = get("normal").prior(chi=[1.0, 4.0], n=3.0, dtype=torch.float64)
    assert prior.chi.tolist() == [1.0, 4.0]
    assert prior.log_n.exp().item() == pytest.approx(3.0)
    assert get("poisson").prior(chi=2.5).chi.tolist() == [2.5]


def test_the_papers_priors():
    assert get("categorical", n_classes=4).prior().chi.tolist() == [0.25] * 4
    assert get("categorical", n_classes=4).prior().log_n.exp().item() == pytest.approx(4)
    assert get("normal").prior().chi.tolist() == [0, 100]
    assert get("poisson").prior().chi.tolist() == [1]


def test_families_are_values():
    import pickle

    for name, family in FAMILIES.items():
        parameters = {"n_classes": 3} if "nomial" in name and "neg" not in name else {}
        parameters |= {"n_classes": 3} if name == "categorical" else {}
        parameters |= {"dimension": 2} if name == "multivariate_normal" else {}
        made = get(name, **parameters)
        assert made == family(**parameters)
        assert pickle.loads(pickle.dumps(made)) == made
        assert hash(made) == hash(family(**parameters))
    assert families.get("gamma", shape=2.0) != families.get("gamma", shape=3.0)
