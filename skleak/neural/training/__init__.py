"""Batches, noise and the steps of private stochastic gradient descent."""

from skleak.neural.training._budget import affordable_steps, epsilon_of, resolve_noise
from skleak.neural.training._loop import Descent, Training
from skleak.neural.training._source import SecretSource, SeededSource, Source, make_sources

__all__ = [
    "Descent",
    "SecretSource",
    "SeededSource",
    "Source",
    "Training",
    "affordable_steps",
    "epsilon_of",
    "make_sources",
    "resolve_noise",
]
