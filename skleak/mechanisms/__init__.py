"""How a model is made private: noise that may be published, goals for it, and reweightings."""

from skleak.mechanisms._advantage import MaxAdvantage
from skleak.mechanisms._calibrate import calibrate
from skleak.mechanisms._discrete_gaussian import discrete_gaussian, dyadic_discrete_gaussian
from skleak.mechanisms._goals import (
    MOST_VALUES,
    FittedProblem,
    MaxLeakage,
    MeasuredFit,
    NoiseGoal,
    PublicNoiseGoal,
    PublicProblem,
    Secret,
    resolve_goal,
)
from skleak.mechanisms._grid import Grid, GridRelease, release_on_grid
from skleak.mechanisms._ladder import ladder_rung
from skleak.mechanisms._noise_kind import NoiseKind
from skleak.mechanisms._private_goals import EpsilonDelta, GaussianDP
from skleak.mechanisms._reweighting import IRFIL, EvenTotal, Reweighting, as_reweighting
from skleak.utils._confidential import CalibratedNoise

__all__ = [
    "IRFIL",
    "MOST_VALUES",
    "CalibratedNoise",
    "EpsilonDelta",
    "EvenTotal",
    "FittedProblem",
    "GaussianDP",
    "Grid",
    "GridRelease",
    "MaxAdvantage",
    "MaxLeakage",
    "MeasuredFit",
    "NoiseGoal",
    "NoiseKind",
    "PublicNoiseGoal",
    "PublicProblem",
    "Reweighting",
    "Secret",
    "as_reweighting",
    "calibrate",
    "discrete_gaussian",
    "dyadic_discrete_gaussian",
    "ladder_rung",
    "release_on_grid",
    "resolve_goal",
]
