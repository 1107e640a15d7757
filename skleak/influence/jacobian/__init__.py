"""Norms of influence Jacobians, from the d x d factor that a fit leaves behind."""

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._multinomial import MultinomialFactor
from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.influence.jacobian._norms import (
    Columns,
    JacobianParts,
    JointParts,
    Norm,
    feature_norms,
    joint_norm,
    joint_parts,
    norm_of_joint,
    record_norms,
)
from skleak.influence.jacobian._secular import largest_eigenvalue
from skleak.influence.jacobian._stacked import StackedParts

__all__ = [
    "Columns",
    "FitFactor",
    "JacobianParts",
    "JointParts",
    "MultinomialFactor",
    "Norm",
    "StackedParts",
    "check_one_predictor",
    "feature_norms",
    "joint_norm",
    "joint_parts",
    "largest_eigenvalue",
    "norm_of_joint",
    "record_norms",
]
