"""Exact success of the Bayes-optimal attack: the Gaussian measure of its decision cells.

The attacker who sees a release guesses the secret of the largest posterior ([BIL23] theorem 1). In
standard deviations of the noise, m wins against l where the release lies on m's side of a
hyperplane at distance ``D / 2 + log(p_m / p_l) / D`` from e_m, D = |e_m - e_l|. The success
probability is ``sum_m p_m P(cell of m | m)``.
"""

import numpy as np
from scipy.special import ndtr

from skleak.channels.gaussian._quadrature import normal_lattice
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import log_prior, loses_tie


def interval_success(positions: FloatArray, prior: FloatArray) -> FloatArray:
    """Success where all encodings lie on a line: the cells are intervals.

    Exact for any number of secrets. With two it is the closed form
    ``sum_k p_k Phi(D / 2 -+ log(p_2 / p_1) / D)``.

    Shapes: ``positions`` (n, M), encodings on the line, in standard deviations of the noise;
    ``prior`` (n, M), prior of the secret; zero entries allowed; returns (n,).
    """
    n_values = positions.shape[1]
    logs = log_prior(prior)
    success = np.zeros(len(positions))
    for secret in range(n_values):
        gap = positions - positions[:, [secret]]
        odds = logs[:, [secret]] - logs
        # A tiny gap sends the boundary to infinity, which is where it belongs.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            boundary = gap / 2 + odds / gap
        upper = np.where(gap > 0, boundary, np.inf).min(axis=1)
        lower = np.where(gap < 0, boundary, -np.inf).max(axis=1)
        beaten = ((gap == 0) & loses_tie(odds, secret)).any(axis=1)
        cell = np.maximum(ndtr(upper) - ndtr(lower), 0.0)
        success += prior[:, secret] * np.where(beaten, 0.0, cell)
    return success


def interval_gain(positions: FloatArray, prior: FloatArray) -> FloatArray:
    """Success beyond that of the likeliest value on a line, without the digits that cancel.

    What the others win in their cells, less what the likeliest value loses beside its own.
    Parameters and shapes as in :func:`interval_success`.
    """
    logs, top = log_prior(prior), prior.argmax(axis=1)
    gain = np.zeros(len(positions))
    for secret in range(positions.shape[1]):
        gap = positions - positions[:, [secret]]
        odds = logs[:, [secret]] - logs
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            boundary = gap / 2 + odds / gap
        upper = np.where(gap > 0, boundary, np.inf).min(axis=1)
        lower = np.where(gap < 0, boundary, -np.inf).max(axis=1)
        beaten = ((gap == 0) & loses_tie(odds, secret)).any(axis=1) | (lower >= upper)
        # From the nearer tail: one minus almost one has no digits.
        far = lower > 0.0
        cell = np.where(far, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
        won = np.where(beaten, 0.0, cell)
        lost = np.where(beaten, 1.0, ndtr(lower) + ndtr(-upper))
        gain += prior[:, secret] * np.where(top == secret, -lost, won)
    return np.maximum(gain, 0.0)


def equidistant_success(distance: FloatArray, prior: FloatArray) -> FloatArray:
    """Success where every two encodings are equally far apart: a one-dimensional integral.

    They then look like the corners ``a u_m`` of a simplex, ``a = distance / sqrt(2)``, whose
    coordinates carry independent noise:
    ``sum_m p_m E prod_(l != m) Phi(z + a + log(p_m / p_l) / a)``, z standard normal.

    Shapes: ``distance`` (n,), distance of every pair, positive, in standard deviations of the
    noise; ``prior`` (n, M), prior of the secret; zero entries allowed; returns (n,).
    """
    n, n_values = prior.shape
    logs = log_prior(prior)
    nodes, weights = normal_lattice(1, 1 / 32, 9.0)
    uniform = bool((logs == logs[:, :1]).all())
    success = np.zeros(n)
    for rows in row_blocks(n, n_values * len(nodes)):
        corner = distance[rows, None] / np.sqrt(2.0)
        # Under a uniform prior every secret has the same cell, up to a rotation.
        for secret in range(1 if uniform else n_values):
            shift = corner + (logs[rows, [secret]] - logs[rows]) / corner
            shift[:, secret] = np.inf
            cell = ndtr(nodes[:, :1] + shift[:, None, :]).prod(axis=2) @ weights
            success[rows] += cell * (1.0 if uniform else prior[rows, secret])
    return success
