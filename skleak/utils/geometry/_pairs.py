"""Two Gaussians some noise units apart, N(0, 1) and N(D, 1): how well they are told apart."""

import numpy as np
from scipy.special import erf, ndtr, ndtri

from skleak.utils._typing import FloatArray


def gained(distance: FloatArray) -> FloatArray:
    """Share of what a guess at even odds lacks that is added, ``2 Phi(D / 2) - 1``, (...)."""
    return np.asarray(erf(distance / np.sqrt(8.0)))


def success_even_odds(distance: FloatArray) -> FloatArray:
    """Share of right guesses between two as likely as each other, ``Phi(D / 2)``, (...)."""
    return np.asarray(ndtr(0.5 * distance))


def pair_success(distance: FloatArray, prior: FloatArray | float) -> FloatArray:
    """Share of right guesses of the best test where the second has a prior q in [0, 1].

    Shapes: ``distance`` (...), at least 0, infinite where they are told apart for sure and NaN
    where it is not known; ``prior`` (...); returns (...): with l the log odds of q,
    ``q Phi(D / 2 + l / D) + (1 - q) Phi(D / 2 - l / D)``. Where D is the largest of several
    distances, the share of right guesses among them is at most that.
    """
    distance, prior = np.asarray(distance), np.asarray(prior)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = (np.log(prior) - np.log1p(-prior)) / distance
        right = prior * ndtr(0.5 * distance + shift) + (1.0 - prior) * ndtr(0.5 * distance - shift)
    settled = (distance == 0.0) | (prior == 0.0) | (prior == 1.0)
    return np.where(settled, np.maximum(prior, 1.0 - prior), right)


def true_positives(distance: FloatArray, rate: FloatArray | float = 0.01) -> FloatArray:
    """Share of the true ones that the best test finds at a rate of false ones, (...).

    ``Phi(Phi^-1(rate) + D)``; what lies infinitely far is found at any rate, even at none.
    """
    with np.errstate(invalid="ignore"):
        power = ndtr(ndtri(rate) + distance)
    return np.where(np.isinf(distance), 1.0, power)
