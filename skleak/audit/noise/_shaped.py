"""Noise of games in which its covariance, too, depends on the secret that was drawn."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from skleak.audit.noise._mechanism import colored
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

__all__ = ["ShapedNoise", "noise_of_each", "noise_of_some"]

# Entries of the roots that are held at once: 32 MB.
_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class ShapedNoise:
    """Noise whose covariance follows the data, had they been different. Confidential.

    Parameters
    ----------
    shapes : ndarray of shape (n_targets, n_values, p, p)
        Covariance ``S`` of the noise at unit noise scale under every value of every target.
    inner : ndarray of shape (p, p)
        What standard normal draws z are multiplied with first: the noise is ``R inner z``, with R
        the lower triangular root of S. The noise scale times the identity, where the estimator
        adds the noise that it states.

    Examples
    --------
    >>> shapes = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[1.6, 0.0], [0.0, 0.4]]]])
    >>> ShapedNoise(shapes, 2.0 * np.eye(2)).of_some(
    ...     np.array([0, 0]), np.array([0, 1]), np.ones((2, 2))
    ... ).round(2)
    array([[2.  , 2.  ],
           [2.53, 1.26]])
    """

    shapes: FloatArray
    inner: FloatArray

    @classmethod
    def of(cls, shapes: FloatArray, root: FloatArray, noise: FloatArray) -> "ShapedNoise":
        """From the noise that was measured on the data as they are.

        Shapes: ``shapes`` (n_targets, n_values, p, p), covariances at unit noise scale; ``root``
        (p, p), lower triangular root of the one of the data as they are; ``noise`` (p,) or (p, p).
        """
        whole = np.diag(noise) if noise.ndim == 1 else noise
        return cls(shapes, linalg.solve_triangular(root, whole, lower=True))

    def of_each(self, secrets: IntArray, draws: FloatArray) -> FloatArray:
        """Noise of games that every target plays.

        Shapes: ``secrets`` (n_games, n_targets); ``draws`` (n_games, n_targets, p); returns
        (n_games, n_targets, p).
        """
        n_targets, n_values, p, _ = self.shapes.shape
        noise = np.empty_like(draws)
        for part in row_blocks(n_targets, n_values * p * p + len(draws) * p, _ELEMENTS):
            roots = np.linalg.cholesky(self.shapes[part]).swapaxes(2, 3)
            inner = (draws[:, part] @ self.inner.T).swapaxes(0, 1)
            own, drawn = np.empty_like(inner), secrets[:, part].T
            for m in range(n_values):
                chosen = drawn == m
                own[chosen] = (inner @ roots[:, m])[chosen]
            noise[:, part] = own.swapaxes(0, 1)
        return noise

    def of_some(self, targets: IntArray, secrets: IntArray, draws: FloatArray) -> FloatArray:
        """Noise of games about one target each.

        Shapes: ``targets``, ``secrets`` (n_games,); ``draws`` (n_games, p); returns (n_games, p).
        """
        noise, p = np.empty_like(draws), draws.shape[1]
        for rows in row_blocks(len(draws), p * p, _ELEMENTS):
            roots = np.linalg.cholesky(self.shapes[targets[rows], secrets[rows]])
            inner = draws[rows] @ self.inner.T
            noise[rows] = np.einsum("gij,gj->gi", roots, inner)
        return noise


def noise_of_each(
    noise: "FloatArray | ShapedNoise", secrets: IntArray, draws: FloatArray
) -> FloatArray:
    """Noise of games that every target plays, of shape (n_games, n_targets, p).

    Shapes: ``noise`` (p,) or (p, p); ``secrets`` (n_games, n_targets); ``draws`` (n_games,
    n_targets, p).
    """
    if isinstance(noise, ShapedNoise):
        return noise.of_each(secrets, draws)
    return colored(noise, draws)


def noise_of_some(
    noise: "FloatArray | ShapedNoise", targets: IntArray, secrets: IntArray, draws: FloatArray
) -> FloatArray:
    """Noise of games about one target each, of shape (n_games, p).

    Shapes: ``noise`` (p,) or (p, p); ``targets``, ``secrets`` (n_games,); ``draws`` (n_games, p).
    """
    if isinstance(noise, ShapedNoise):
        return noise.of_some(targets, secrets, draws)
    return colored(noise, draws)
