"""What an attacker gains from two values that lie some noise units apart: one scale for all."""

import numpy as np
from scipy.special import erf, ndtr, ndtri

from skleak.utils._typing import FloatArray

# An attacker who gains less learns little from the release.
LITTLE = 0.02
# From here on the answer is right three times in four, at even odds, or more often.
MUCH = 0.5
# Two values that lie further apart than this are told apart 97.7 times in 100: the noise protects
# nobody.
UNPROTECTED = 4.0
# Values that fewer records have than this share give away who has them.
RARE = 0.05
_FALSE_POSITIVES = 0.01


def gained(distance: FloatArray) -> FloatArray:
    """Share of what a guess at even odds lacks that the release adds, ``2 Phi(D / 2) - 1``."""
    return np.asarray(erf(distance / np.sqrt(8.0)))


def success_even_odds(distance: FloatArray) -> FloatArray:
    """Share of right guesses between two values as likely as each other, ``Phi(D / 2)``."""
    return np.asarray(ndtr(0.5 * distance))


def true_positives(distance: FloatArray) -> FloatArray:
    """Share of the true ones that a test finds at 1 % false ones, ``Phi(Phi^-1(0.01) + D)``."""
    return np.asarray(ndtr(ndtri(_FALSE_POSITIVES) + distance))


def success_prior(distance: FloatArray, share: FloatArray) -> FloatArray:
    """Share of right answers to whether a record has a value that a share of all records has.

    With q the share and l its log odds, ``q Phi(D / 2 + l / D) + (1 - q) Phi(D / 2 - l / D)``.
    Exact for two values D apart; at most that where D is the largest distance of one of many.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (np.log(share) - np.log1p(-share)) / distance
        right = share * ndtr(0.5 * distance + shift) + (1.0 - share) * ndtr(0.5 * distance - shift)
    settled = (distance == 0.0) | (share == 0.0) | (share == 1.0)
    return np.where(settled, np.maximum(share, 1.0 - share), right)
