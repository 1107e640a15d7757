"""Reconstruction of a record from the noisy gradients that private SGD releases."""

from skleak.neural.inversion._attack import GradientInversion
from skleak.neural.inversion._observation import GradientObservation, observe_gradients

__all__ = ["GradientInversion", "GradientObservation", "observe_gradients"]
