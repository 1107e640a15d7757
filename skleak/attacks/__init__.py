"""Attacks on released models: what a real adversary learns about the training records."""

from skleak.attacks._black_box import BlackBoxAttributeInference
from skleak.attacks._gaussian import GaussianLinearMembership
from skleak.attacks._imputation import CombinedAttributeInference, ImputationAttack, PriorAttack
from skleak.attacks._informed import InformedAttributeInference, InformedReconstruction
from skleak.attacks._likelihood_ratio import LikelihoodRatioMembership, RobustMembershipInference
from skleak.attacks._membership import MembershipInference
from skleak.attacks._white_box import PosteriorMeanReconstruction, WhiteBoxAttributeInference

__all__ = [
    "BlackBoxAttributeInference",
    "CombinedAttributeInference",
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
