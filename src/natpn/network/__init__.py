"""Networks: encoder, decoder and density → posterior; single, and combined to an ensemble."""

from natpn.network.budgets import BUDGETS, Budget, GradualBudget, LearnedBudget
from natpn.network.default import PrincipalComponents, default_network
from natpn.network.ensemble import NaturalPosteriorEnsemble
from natpn.network.feedback import Feedback
from natpn.network.natural_posterior import NaturalPosteriorNetwork, Prediction

__all__ = [
    "BUDGETS",
    "Budget",
    "Feedback",
    "GradualBudget",
    "LearnedBudget",
    "NaturalPosteriorEnsemble",
    "NaturalPosteriorNetwork",
    "Prediction",
    "PrincipalComponents",
    "default_network",
]
