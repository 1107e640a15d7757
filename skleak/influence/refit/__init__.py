"""Minimisers had a record been different, without refitting."""

from skleak.influence.refit._brackets import TableMaxima, loss_brackets
from skleak.influence.refit._candidates import (
    TABLE_ELEMENTS,
    candidate_encodings,
    operations_each,
    prepare_candidates,
)
from skleak.influence.refit._chord import (
    ChangedHessian,
    ChordSolver,
    check_reached,
    factor_rounding,
    refitted_step,
    rounding_error,
    rounding_left,
)
from skleak.influence.refit._distances import distance_brackets, largest_distances
from skleak.influence.refit._one_step import OneStep, whitened
from skleak.influence.refit._shapes import candidate_shapes
from skleak.influence.refit._targets import target_encodings
from skleak.influence.refit._third_derivatives import (
    contraction_form,
    second_order,
    third_derivatives,
)

__all__ = [
    "TABLE_ELEMENTS",
    "ChangedHessian",
    "ChordSolver",
    "OneStep",
    "TableMaxima",
    "candidate_encodings",
    "candidate_shapes",
    "check_reached",
    "contraction_form",
    "distance_brackets",
    "factor_rounding",
    "largest_distances",
    "loss_brackets",
    "operations_each",
    "prepare_candidates",
    "refitted_step",
    "rounding_error",
    "rounding_left",
    "second_order",
    "target_encodings",
    "third_derivatives",
    "whitened",
]
