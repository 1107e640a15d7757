"""How a model is made private: noise that may be published, goals for it, and reweightings."""

from skleak.mechanisms.calibration import MaxAdvantage, NoiseKind, calibrate
from skleak.mechanisms.goals import (
    EpsilonDelta,
    GaussianDP,
    MaxLeakage,
    NoiseGoal,
    PublicNoiseGoal,
    split_goal,
)
from skleak.mechanisms.grids import Reweighting, release_on_grid
from skleak.mechanisms.moments import SufficientStatistics
from skleak.mechanisms.objective import ObjectivePerturbation
from skleak.utils import announce as _announce

__all__ = [
    "EpsilonDelta",
    "GaussianDP",
    "MaxAdvantage",
    "MaxLeakage",
    "NoiseGoal",
    "NoiseKind",
    "ObjectivePerturbation",
    "PublicNoiseGoal",
    "Reweighting",
    "SufficientStatistics",
    "calibrate",
    "release_on_grid",
    "split_goal",
]

_announce(__name__)
