"""Attribute inference, with and without the model."""

from skleak.attacks.attribute._baseline import ImputationAttack, PriorAttack
from skleak.attacks.attribute._black_box import BlackBoxAttributeInference
from skleak.attacks.attribute._informed import InformedAttributeInference
from skleak.attacks.attribute._posterior_mean import PosteriorMeanReconstruction
from skleak.attacks.attribute._white_box import WhiteBoxAttributeInference

__all__ = [
    "BlackBoxAttributeInference",
    "ImputationAttack",
    "InformedAttributeInference",
    "PosteriorMeanReconstruction",
    "PriorAttack",
    "WhiteBoxAttributeInference",
]
