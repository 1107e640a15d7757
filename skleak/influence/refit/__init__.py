"""Minimisers had a record been different or absent, without refitting."""

from skleak.influence.refit._brackets import loss_brackets
from skleak.influence.refit._candidates import candidate_encodings, target_encodings
from skleak.influence.refit._distances import distance_brackets, largest_distances
from skleak.influence.refit._one_step import OneStep, whitened
from skleak.influence.refit._removals import addition_steps, removal_steps
from skleak.influence.refit._shapes import candidate_shapes

__all__ = [
    "OneStep",
    "addition_steps",
    "candidate_encodings",
    "candidate_shapes",
    "distance_brackets",
    "largest_distances",
    "loss_brackets",
    "removal_steps",
    "target_encodings",
    "whitened",
]
