"""Private stochastic gradient descent that accounts for what it leaks.

The default module, a generalised linear model, needs NumPy only; others need the extra ``torch``.
"""

__all__: list[str] = []
