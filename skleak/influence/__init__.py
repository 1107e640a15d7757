"""Fisher information of fitted linear models: encodings without refits, and shapes of noise."""

from skleak.influence.noise import MinimaxShape, minimax_shape
from skleak.influence.refit import candidate_encodings

__all__ = ["MinimaxShape", "candidate_encodings", "minimax_shape"]
