"""Generalised linear models trained with output perturbation that know what they leak."""

from skleak.linear_model._linear import PrivateLinearRegression
from skleak.linear_model._logistic import PrivateLogisticRegression
from skleak.linear_model._poisson import PrivatePoissonRegressor
from skleak.mechanisms import IRFIL, EvenTotal

__all__ = [
    "IRFIL",
    "EvenTotal",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
]
