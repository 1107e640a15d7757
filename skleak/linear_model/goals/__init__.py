"""Noise goals inside of a fit: what they may ask of it, and what their noise gives away."""

from skleak.linear_model.goals._large_problem import problem_of
from skleak.linear_model.goals._partial_blocks import warn_of_partial_blocks
from skleak.linear_model.goals._problem import LinearModelProblem
from skleak.linear_model.goals._rung import RungCheck, RungMoves, unchecked_moves
from skleak.linear_model.goals._together import asked, calibrated_together, is_one_block

__all__ = [
    "LinearModelProblem",
    "RungCheck",
    "RungMoves",
    "asked",
    "calibrated_together",
    "is_one_block",
    "problem_of",
    "unchecked_moves",
    "warn_of_partial_blocks",
]
