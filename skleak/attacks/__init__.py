"""Attacks on released models: what a real adversary learns about the training records."""

from skleak.attacks.attribute._baseline import ImputationAttack, PriorAttack
from skleak.attacks.attribute._black_box import BlackBoxAttributeInference
from skleak.attacks.attribute._informed import InformedAttributeInference
from skleak.attacks.attribute._white_box import WhiteBoxAttributeInference
from skleak.attacks.membership._gaussian import GaussianLinearMembership
from skleak.attacks.membership._inference import MembershipInference
from skleak.attacks.membership._likelihood_ratio import LikelihoodRatioMembership
from skleak.attacks.reconstruction._informed import InformedReconstruction

__all__ = [
    "BlackBoxAttributeInference",
    "GaussianLinearMembership",
    "ImputationAttack",
    "InformedAttributeInference",
    "InformedReconstruction",
    "LikelihoodRatioMembership",
    "MembershipInference",
    "PriorAttack",
    "WhiteBoxAttributeInference",
]
