"""What the records of a fit leak, and what can be computed of it: one class for each kind."""

from skleak.influence.leakage._kinds import FittedNoise, FixedNoise, Reweighted, leakage_model
from skleak.influence.leakage._model import Capability, LeakageModel

__all__ = [
    "Capability",
    "FittedNoise",
    "FixedNoise",
    "LeakageModel",
    "Reweighted",
    "leakage_model",
]
