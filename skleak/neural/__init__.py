"""Private stochastic gradient descent that accounts for what it leaks.

The default module, a generalised linear model, needs NumPy only; others need the extra ``torch``.
"""

from skleak.neural._classifier import PrivateSGDClassifier
from skleak.neural._network import ReleasedNetwork
from skleak.neural._regressor import PrivateSGDRegressor
from skleak.neural.canary import CanaryExtraction, causal_transformer

__all__ = [
    "CanaryExtraction",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "ReleasedNetwork",
    "causal_transformer",
]
