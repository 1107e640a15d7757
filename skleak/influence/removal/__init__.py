"""Minimisers had a record been absent, or one more been there, without refitting."""

from skleak.influence.removal._outside import removal_bounds
from skleak.influence.removal._persons import distances_without, removal_distances, secret_distances
from skleak.influence.removal._removals import addition_steps, removal_steps

__all__ = [
    "addition_steps",
    "distances_without",
    "removal_bounds",
    "removal_distances",
    "removal_steps",
    "secret_distances",
]
