"""Noise goals inside of a fit: what they may ask of it, and what their noise gives away."""

from skleak.linear_model.goals._large_problem import (
    RungCheck,
    RungMoves,
    asked,
    calibrated_together,
    is_one_block,
    problem_of,
    unchecked_moves,
    warn_of_partial_blocks,
)
from skleak.linear_model.goals._problem import LinearModelProblem

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
