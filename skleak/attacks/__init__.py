"""Attacks on released models: what a real adversary learns about the training records."""

from skleak.attacks._baseline import ImputationAttack, PriorAttack
from skleak.attacks._black_box import BlackBoxAttributeInference
from skleak.attacks._gaussian_membership import GaussianLinearMembership
from skleak.attacks._informed import InformedAttributeInference
from skleak.attacks._likelihood_ratio import LikelihoodRatioMembership
from skleak.attacks._membership import MembershipInference
from skleak.attacks._reconstruction import InformedReconstruction
from skleak.attacks._white_box import WhiteBoxAttributeInference

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
