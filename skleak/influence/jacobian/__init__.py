"""Norms of influence Jacobians, from the d x d factor that a fit leaves behind."""

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._multinomial import MultinomialFactor
from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.influence.jacobian._norms import (
    Columns,
    JacobianParts,
    Norm,
    feature_norms,
    joint_norm,
    record_norms,
)
from skleak.influence.jacobian._secular import largest_eigenvalue

__all__ = [
    "Columns",
    "FitFactor",
    "JacobianParts",
    "MultinomialFactor",
    "Norm",
    "check_one_predictor",
    "feature_norms",
    "joint_norm",
    "largest_eigenvalue",
    "record_norms",
]
