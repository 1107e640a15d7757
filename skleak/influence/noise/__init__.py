"""Noise with a covariance of its own, and what that covariance reveals."""

from skleak.influence.noise._minimax_shape import MinimaxShape, minimax_shape
from skleak.influence.noise._shape import NoiseShape
from skleak.influence.noise._terms import LossTerms

__all__ = [
    "LossTerms",
    "MinimaxShape",
    "NoiseShape",
    "minimax_shape",
]
