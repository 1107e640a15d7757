"""Real data sets of the papers: fetched once, checked, and served from a data home."""

from skleak.datasets._images import fetch_cifar10, fetch_fashion_mnist, fetch_mnist
from skleak.datasets._pendigits import fetch_pendigits
from skleak.datasets._tables import fetch_adult, fetch_iwpc

__all__ = [
    "fetch_adult",
    "fetch_cifar10",
    "fetch_fashion_mnist",
    "fetch_iwpc",
    "fetch_mnist",
    "fetch_pendigits",
]
