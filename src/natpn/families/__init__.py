"""Exponential families: likelihood, conjugate prior, posterior and predictive, all in closed form, one file each."""

from dataclasses import MISSING, fields

from natpn.choices import check_choice
from natpn.families.base import Family, Posterior
from natpn.families.bernoulli import Bernoulli, BernoulliDistribution
from natpn.families.categorical import Categorical, CategoricalDistribution, DirichletFamily, dirichlet_entropy
from natpn.families.description import Graph
from natpn.families.distribution import CountDistribution, Distribution, ScalarDistribution, Support, SupportError
from natpn.families.exposure import ExposedCounts
from natpn.families.gamma import CompoundGamma, Exponential, Gamma
from natpn.families.lognormal import LogNormal, LogStudentT
from natpn.families.multinomial import DirichletMultinomial, Multinomial
from natpn.families.multivariate_normal import MultivariateNormal, MultivariateT
from natpn.families.negative_binomial import BetaNegativeBinomial, NegativeBinomial
from natpn.families.normal import Normal, StudentT, normal_crps
from natpn.families.poisson import NegativeBinomialDistribution, Poisson, PositiveMeanFamily
from natpn.families.von_mises_fisher import VonMisesFisher, VonMisesFisherDistribution

FAMILIES: dict[str, type[Family]] = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "multinomial": Multinomial,
    "normal": Normal,
    "lognormal": LogNormal,
    "multivariate_normal": MultivariateNormal,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "exponential": Exponential,
    "gamma": Gamma,
    "von_mises_fisher": VonMisesFisher,
}

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "BernoulliDistribution",
    "BetaNegativeBinomial",
    "CategoricalDistribution",
    "CompoundGamma",
    "CountDistribution",
    "DirichletFamily",
    "DirichletMultinomial",
    "Distribution",
    "ExposedCounts",
    "Family",
    "Graph",
    "LogStudentT",
    "MultivariateT",
    "NegativeBinomial",
    "NegativeBinomialDistribution",
    "Normal",
    "Poisson",
    "PositiveMeanFamily",
    "Posterior",
    "ScalarDistribution",
    "StudentT",
    "Support",
    "SupportError",
    "VonMisesFisherDistribution",
    "dirichlet_entropy",
    "get",
    "has_vectors",
    "name_of",
    "normal_crps",
]


def get(name: str, **parameters: int | float) -> Family:
    """Return the family of that name.

    Examples:
        >>> get("categorical", n_classes=3)
        Categorical(n_classes=3)
    """
    check_choice("family", name, FAMILIES)
    family = FAMILIES[name]
    known = {f.name: f for f in fields(family) if f.init}  # type: ignore[arg-type]
    for parameter in parameters:
        if not known:
            raise ValueError(f"family: {name} has no parameters, got {parameter!r}; leave it out")
        check_choice(f"parameter of the family {name!r}", parameter, known)
    missing = [n for n, f in known.items() if f.default is MISSING and n not in parameters]
    if missing:
        raise ValueError(f"family: {name} needs {', '.join(missing)}, as in get({name!r}, {missing[0]}=3)")
    return family(**parameters)


def has_vectors(family: object) -> bool:
    """Say whether the targets of a family, or of the one of that name, are vectors."""
    if isinstance(family, Family):
        return bool(family.support.event_shape)
    return isinstance(family, str) and family in FAMILIES and FAMILIES[family].is_vectors


def name_of(family: Family) -> str:
    """Return the name of a family in `FAMILIES`.

    Examples:
        >>> name_of(get("gamma", shape=2.0))
        'gamma'
    """
    found = next((name for name, kind in FAMILIES.items() if kind is type(family)), None)
    if found is None:
        raise ValueError(f"family: {family!r} is not in natpn.families.FAMILIES; add its class there under a name")
    return found
