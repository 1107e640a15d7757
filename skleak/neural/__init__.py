"""Private stochastic gradient descent that accounts for what it leaks.

The default module, a generalized linear model, needs NumPy only; others need the extra ``torch``.
"""

from skleak.neural._estimators import PrivateSGDClassifier, PrivateSGDRegressor
from skleak.neural.canary import CanaryExtraction, causal_transformer
from skleak.neural.guarantee import SGDGuarantee
from skleak.neural.inversion import GradientInversion, observe_gradients
from skleak.utils import announce as _announce

__all__ = [
    "CanaryExtraction",
    "GradientInversion",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "SGDGuarantee",
    "causal_transformer",
    "observe_gradients",
]

_announce(__name__)
