"""The decision cells of the Bayes-optimal attack as intersections of half-spaces."""

import numpy as np
import numpy.typing as npt

from skleak.utils._typing import FloatArray

# No Gaussian mass is left so many standard deviations away.
FAR = 100.0
TINY = 1e-150
# A zero probability becomes the smallest that matters nowhere: against a likelihood ratio that
# could make up for it the noise would have to leave 37 standard deviations.
SMALLEST_PROBABILITY = 1e-300


def log_prior(prior: FloatArray) -> FloatArray:
    """Logarithm of a prior, with a floor that keeps zero entries finite."""
    return np.log(np.maximum(prior, SMALLEST_PROBABILITY))


def loses_tie(log_odds: FloatArray, secret: int) -> npt.NDArray[np.bool_]:
    """Return True where a competitor at the same place wins: likelier, or first of equals."""
    first = np.arange(log_odds.shape[1]) < secret
    return (log_odds < 0) | ((log_odds == 0) & first)


def half_spaces(
    points: FloatArray, log_priors: FloatArray, secret: int
) -> tuple[FloatArray, FloatArray]:
    """Return half-spaces where one secret beats each other: ``normal . z <= distance``.

    The release is ``e_m + z`` with m the secret; l loses to m up to a hyperplane at distance
    ``D / 2 + log(p_m / p_l) / D`` along the direction to l, D their distance.

    Shapes: ``points`` (n, M, k), encodings in standard deviations of the noise; ``log_priors`` (n,
    M); returns ``normals`` (n, M, k): unit vectors; ``distances`` (n, M): signed, never 0 and
    within +-FAR; the secret itself, and those that cannot win, are at FAR.
    """
    gaps = points - points[:, [secret]]
    lengths = np.linalg.norm(gaps, axis=2)
    odds = log_priors[:, [secret]] - log_priors
    apart = lengths > TINY
    safe = np.where(apart, lengths, 1.0)
    normals = np.where(apart[..., None], gaps / safe[..., None], np.eye(points.shape[2])[0])
    tied = np.where(loses_tie(odds, secret), -FAR, FAR)
    distances = np.where(apart, safe / 2 + odds / safe, tied)
    distances[:, secret] = FAR
    return normals, signed(distances)


def signed(distances: FloatArray) -> FloatArray:
    """Bring distances within +-FAR and away from 0: slopes are ratios to them."""
    clipped = np.clip(distances, -FAR, FAR)
    return np.where(np.abs(clipped) < TINY, TINY, clipped)
