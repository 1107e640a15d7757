"""Private stochastic gradient descent that accounts for what it leaks.

The default module, a generalised linear model, needs NumPy only; others need the extra ``torch``.
"""

from skleak.neural._classifier import PrivateSGDClassifier
from skleak.neural._network import ReleasedNetwork
from skleak.neural._regressor import PrivateSGDRegressor
from skleak.neural.canary import CanaryExtraction, causal_transformer
from skleak.neural.guarantee import SGDGuarantee
from skleak.neural.inversion import GradientInversion, GradientObservation, observe_gradients
from skleak.neural.report import PrivateSGDReport

__all__ = [
    "CanaryExtraction",
    "GradientInversion",
    "GradientObservation",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "PrivateSGDReport",
    "ReleasedNetwork",
    "SGDGuarantee",
    "causal_transformer",
    "observe_gradients",
]
