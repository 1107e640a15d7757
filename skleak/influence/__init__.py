"""Fisher information of fitted linear models: encodings without refits, and shapes of noise."""

from skleak.influence.noise import minimax_shape
from skleak.influence.refit import candidate_encodings
from skleak.utils import announce as _announce

__all__ = ["candidate_encodings", "minimax_shape"]

_announce(__name__)
