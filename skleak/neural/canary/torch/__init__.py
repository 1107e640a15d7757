"""What of the extraction game needs torch: the model, its derivatives, and the games."""

from skleak.neural.canary.torch._games import KnownStep, check_structure, play
from skleak.neural.canary.torch._sequence import SecretSequence
from skleak.neural.canary.torch._transformer import CausalTransformer

__all__ = ["CausalTransformer", "KnownStep", "SecretSequence", "check_structure", "play"]
