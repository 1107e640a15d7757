"""Noise with a covariance of its own, and what that covariance reveals."""

from skleak.influence.noise._fitted import (
    fitted_noise,
    mean_factor,
    noise_covariance,
    noise_root,
)
from skleak.influence.noise._minimax_shape import MinimaxShape, minimax_shape
from skleak.influence.noise._terms import LossTerms, information_terms

__all__ = [
    "LossTerms",
    "MinimaxShape",
    "fitted_noise",
    "information_terms",
    "mean_factor",
    "minimax_shape",
    "noise_covariance",
    "noise_root",
]
