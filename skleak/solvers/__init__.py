"""Minimisation of a weighted, regularised empirical risk to round-off."""

from skleak.solvers._erm import (
    SingularHessianError,
    is_minimum,
    is_settled,
    minimize,
)
from skleak.solvers._multinomial import MultinomialObjective, by_class
from skleak.solvers._objective import Objective
from skleak.solvers._point import Minimum
from skleak.solvers._reduced import LargeMultinomialObjective, LargeObjective, Moments

__all__ = [
    "LargeMultinomialObjective",
    "LargeObjective",
    "Minimum",
    "Moments",
    "MultinomialObjective",
    "Objective",
    "SingularHessianError",
    "by_class",
    "is_minimum",
    "is_settled",
    "minimize",
]
