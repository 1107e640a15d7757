"""Nodes for expectations under a standard normal: lattices and scrambled Sobol points."""

from functools import lru_cache

import numpy as np
from scipy.stats import qmc

from skleak.utils._typing import FloatArray


@lru_cache(maxsize=8)
def normal_lattice(dimension: int, step: float, radius: float) -> tuple[FloatArray, FloatArray]:
    """Trapezoidal rule for a standard normal in one or two dimensions.

    For integrands that are analytic in a strip the rule converges like ``exp(-2 pi a / step)``, a
    being the width of the strip, whatever their size: log-sums of well separated Gaussians, which
    Gauss-Hermite nodes miss, lose nothing here, because where they bend the density is small.

    Returns ``nodes`` (K, dimension); ``weights`` (K,): they sum to 1.
    """
    count = round(radius / step)
    line = np.arange(-count, count + 1) * step
    nodes = np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1)
    nodes = nodes.reshape(-1, dimension)
    squared = (nodes**2).sum(axis=1)
    kept = squared <= radius**2
    weights = np.exp(-squared[kept] / 2)
    return nodes[kept], weights / weights.sum()


def sobol_points(dimension: int, n_points: int, generator: np.random.Generator) -> FloatArray:
    """Scrambled Sobol points in the open unit cube.

    Returns (n_points, dimension).
    """
    exponent = int(n_points).bit_length() - 1
    points = qmc.Sobol(dimension, rng=generator).random_base2(exponent)
    # A scrambled coordinate may be 0 exactly: half the sequence's own resolution moves it inside.
    return 0.5 + (1 - 2.0**-30) * (points - 0.5)
