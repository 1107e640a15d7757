"""Real data sets of the papers: fetched once, checked, and served from a data home."""

from skleak.datasets._adult import fetch_adult
from skleak.datasets._cifar10 import fetch_cifar10
from skleak.datasets._fashion_mnist import fetch_fashion_mnist
from skleak.datasets._iwpc import fetch_iwpc
from skleak.datasets._mnist import fetch_mnist
from skleak.datasets._pendigits import fetch_pendigits

__all__ = [
    "fetch_adult",
    "fetch_cifar10",
    "fetch_fashion_mnist",
    "fetch_iwpc",
    "fetch_mnist",
    "fetch_pendigits",
]
