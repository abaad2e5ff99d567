"""Distributions of targets: what a posterior predicts, with quantiles where torch has none."""

from natpn.distributions.base import Distribution, ScalarDistribution
from natpn.distributions.beta_negative_binomial import BetaNegativeBinomial
from natpn.distributions.categorical import Bernoulli, Categorical
from natpn.distributions.compound_gamma import CompoundGamma
from natpn.distributions.dirichlet_multinomial import DirichletMultinomial
from natpn.distributions.multivariate_t import MultivariateT
from natpn.distributions.negative_binomial import NegativeBinomial
from natpn.distributions.student_t import LogStudentT, StudentT
from natpn.distributions.support import SupportError
from natpn.distributions.von_mises_fisher import VonMisesFisher

__all__ = [
    "Bernoulli",
    "BetaNegativeBinomial",
    "Categorical",
    "CompoundGamma",
    "DirichletMultinomial",
    "Distribution",
    "LogStudentT",
    "MultivariateT",
    "NegativeBinomial",
    "ScalarDistribution",
    "StudentT",
    "SupportError",
    "VonMisesFisher",
]
