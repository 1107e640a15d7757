"""Norms of influence Jacobians, from the d x d factor that a fit leaves behind."""

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._multinomial import MultinomialFactor
from skleak.influence.jacobian._norms import Columns, feature_norms, joint_norm, record_norms
from skleak.influence.jacobian._secular import largest_eigenvalue

__all__ = [
    "Columns",
    "FitFactor",
    "MultinomialFactor",
    "feature_norms",
    "joint_norm",
    "largest_eigenvalue",
    "record_norms",
]
