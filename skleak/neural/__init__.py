"""Private stochastic gradient descent that accounts for what it leaks.

The default module, a generalised linear model, needs NumPy only; others need the extra ``torch``.
"""

from skleak.neural.canary import CanaryExtraction, causal_transformer

__all__ = ["CanaryExtraction", "causal_transformer"]
