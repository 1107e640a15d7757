"""Generalized linear models trained with output perturbation that know what they leak."""

from skleak.linear_model._linear import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.linear_model.fair import FairLeakage
from skleak.linear_model.moments import PrivateMoments
from skleak.linear_model.search import PrivateSearchCV
from skleak.mechanisms.grids import IRFIL, EvenTotal

__all__ = [
    "IRFIL",
    "EvenTotal",
    "FairLeakage",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMoments",
    "PrivatePoissonRegressor",
    "PrivateSearchCV",
]
