"""Attacks on released models: what a real adversary learns about the training records."""

from skleak.attacks.attribute import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.attacks.membership import (
    GaussianLinearMembership,
    LikelihoodRatioMembership,
    MembershipInference,
    RobustMembershipInference,
)
from skleak.attacks.reconstruction import InformedReconstruction

__all__ = [
    "BlackBoxAttributeInference",
    "GaussianLinearMembership",
    "ImputationAttack",
    "InformedAttributeInference",
    "InformedReconstruction",
    "LikelihoodRatioMembership",
    "MembershipInference",
    "PosteriorMeanReconstruction",
    "PriorAttack",
    "RobustMembershipInference",
    "WhiteBoxAttributeInference",
]
