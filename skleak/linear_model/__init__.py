"""Generalized linear models trained with output perturbation that know what they leak."""

from skleak.linear_model._linear import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms.grids import IRFIL, EvenTotal

__all__ = [
    "IRFIL",
    "EvenTotal",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
]
