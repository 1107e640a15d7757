"""Private stochastic gradient descent that accounts for what it leaks.

The default module, a generalised linear model, needs NumPy only; others need the extra ``torch``.
"""

from skleak.neural._classifier import PrivateSGDClassifier
from skleak.neural._network import ReleasedNetwork
from skleak.neural._regressor import PrivateSGDRegressor

__all__ = ["PrivateSGDClassifier", "PrivateSGDRegressor", "ReleasedNetwork"]
