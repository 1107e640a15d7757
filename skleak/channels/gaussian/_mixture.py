"""Expectations over a mixture of Gaussians: the largest posterior, and the information.

Given the secret m, a release is ``e_m + z`` with standard normal z (in standard deviations of the
noise), and every likelihood ratio is ``exp(z . (e_l - e_m) - |e_l - e_m|^2 / 2)``. Both integrals
below average over the secret exactly and over z by given nodes.
"""

from collections.abc import Iterator

import numpy as np

from skleak.channels.gaussian._hull import squared_distances_from
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import log_prior

LARGEST_EXPONENT = 700.0


def _log_ratios(
    points: FloatArray, nodes: FloatArray, axis_elements: int
) -> Iterator[tuple[slice, int, FloatArray]]:
    """Yield (records, secret, log-likelihood ratios to that secret of shape (M, B, K))."""
    n, n_values, _ = points.shape
    for rows in row_blocks(n, n_values * axis_elements):
        block = points[rows]
        projected = block.transpose(1, 0, 2) @ nodes.T
        for secret in range(n_values):
            half = squared_distances_from(block, secret).T[:, :, None] / 2
            yield rows, secret, projected - projected[secret] - half


def expected_top_posterior(
    points: FloatArray, prior: FloatArray, nodes: FloatArray, weights: FloatArray
) -> FloatArray:
    """Success probability of the Bayes-optimal guess as the expected largest posterior.

    ``sum_m p_m E max_l posterior_l(e_m + z)``: bounded, and of far smaller variance than counting
    right guesses ([BIL23] theorem 1).

    Shapes: ``points`` (n, M, k), encodings in standard deviations of the noise; ``prior`` (n, M);
    ``nodes``, ``weights`` (K, k) and (K,); returns (n,).
    """
    result = np.zeros(len(points))
    logs = log_prior(prior).T[:, :, None]
    for rows, secret, ratios in _log_ratios(points, nodes, len(nodes)):
        ratios += logs[:, rows]
        ratios -= ratios.max(axis=0)
        top = 1 / np.exp(ratios, out=ratios).sum(axis=0)
        result[rows] += prior[rows, secret] * (top @ weights)
    return result


def expected_gain(
    points: FloatArray, prior: FloatArray, nodes: FloatArray, weights: FloatArray
) -> FloatArray:
    """Advantage of the Bayes-optimal guess over the likeliest value, *.

    ``E [(max_l p_l f_l - p_* f_*)_+ / sum_l p_l f_l]`` over the mixture of all values but *, which
    both the maximum and the sum are over: in [0, 1], however certain * is. Parameters and shapes as
    in :func:`expected_top_posterior`.
    """
    result, n_values = np.zeros(len(points)), prior.shape[1]
    logs, star = log_prior(prior).T[:, :, None], prior.argmax(axis=1)
    others = np.where(np.arange(n_values) == star[:, None], 0.0, prior)
    share = others / np.maximum(others.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    for rows, secret, ratios in _log_ratios(points, nodes, len(nodes)):
        ratios += logs[:, rows]
        at = star[rows][None, :, None]
        own = np.take_along_axis(ratios, at, axis=0)[0]
        np.put_along_axis(ratios, at, -np.inf, axis=0)
        best = ratios.max(axis=0)
        total = np.exp(ratios - best).sum(axis=0)
        gain = np.maximum(-np.expm1(np.minimum(own - best, 0.0)), 0.0) / total
        result[rows] += share[rows, secret] * (gain @ weights)
    return result


def expected_information(
    points: FloatArray, prior: FloatArray, nodes: FloatArray, weights: FloatArray
) -> FloatArray:
    """Mutual information of secret and release in nats.

    ``-sum_m p_m E log sum_l p_l exp(ratio_l)``, with the ratios to the likelihood of m. Written
    with ``expm1`` and ``log1p`` so that it vanishes exactly where the encodings coincide: bounds
    behave like its square root. Parameters and shapes as in :func:`expected_top_posterior`.
    """
    result = np.zeros(len(points))
    for rows, secret, ratios in _log_ratios(points, nodes, len(nodes)):
        np.minimum(ratios, LARGEST_EXPONENT, out=ratios)
        excess = np.einsum("bm,mbk->bk", prior[rows], np.expm1(ratios, out=ratios))
        # Only a secret of probability below 1e-16 can come this close to -1; its share is nil.
        log_mixture = np.log1p(np.maximum(excess, 2.0**-53 - 1))
        result[rows] -= prior[rows, secret] * (log_mixture @ weights)
    return result
