"""Noise of games in which its covariance, too, depends on the secret that was drawn."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Entries of the roots that are held at once: 32 MB.
_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class ShapedNoise:
    """Noise whose covariance follows the data, had they been different. Confidential."""

    # Covariance S at unit noise scale under every value of every target, (n_targets, n_values, p,
    # p), and what standard normal draws z are multiplied with first, (p, p): the noise is
    # ``R inner z``, with R the lower triangular root of S. The noise scale times the identity,
    # where the estimator adds the noise that it states.
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
