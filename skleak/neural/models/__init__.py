"""Networks of the papers, built by torch when they are called for.

Each function is a ``module=`` of the private estimators: it returns a new ``torch.nn.Module``, to
which rows of pixels go as the fetchers of `skleak.datasets` give them. Importing this package
imports no torch; building a network needs the extra ``torch``.
"""

from skleak.neural.models._bil23 import bil23_convnet, bil23_writers, squared_probability_loss
from skleak.neural.models._dra22 import dra22_cifar10, dra22_mnist

__all__ = [
    "bil23_convnet",
    "bil23_writers",
    "dra22_cifar10",
    "dra22_mnist",
    "squared_probability_loss",
]
