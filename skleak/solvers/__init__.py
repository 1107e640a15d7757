"""Minimisation of a weighted, regularised empirical risk to round-off."""

from skleak.solvers._erm import SingularHessianError, minimize
from skleak.solvers._multinomial import MultinomialObjective, by_class
from skleak.solvers._objective import Minimum, Objective

__all__ = [
    "Minimum",
    "MultinomialObjective",
    "Objective",
    "SingularHessianError",
    "by_class",
    "minimize",
]
