"""Membership inference."""

from skleak.attacks.membership._gaussian import GaussianLinearMembership
from skleak.attacks.membership._inference import MembershipInference
from skleak.attacks.membership._likelihood_ratio import LikelihoodRatioMembership
from skleak.attacks.membership._robust import RobustMembershipInference

__all__ = [
    "GaussianLinearMembership",
    "LikelihoodRatioMembership",
    "MembershipInference",
    "RobustMembershipInference",
]
