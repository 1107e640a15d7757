"""Fisher information about a secret where the covariance of the noise follows the data.

A release then tells through its mean and through its covariance. Larger noise hides the mean; that
the noise has the shape it has does not depend on its scale.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import Columns
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class ShapedInformation:
    """Both terms of the Fisher information about every target, at unit noise. Confidential.

    Examples
    --------
    >>> one = np.ones((1, 1, 1))
    >>> ShapedInformation(9.0 * one, 16.0 * one).loss(1.0)
    array([5.])
    """

    # Through the mean of the release, and through the covariance of the noise, over k directions of
    # what is unknown, (n_targets, k, k).
    mean: FloatArray
    covariance: FloatArray

    @classmethod
    def of_columns(
        cls, state: FitState, batch: RecordBatch, columns: Columns
    ) -> "ShapedInformation":
        """About a block of columns of records."""
        return cls(*information_terms(batch, columns, noise=fitted_noise(state)))

    @classmethod
    def of_a_quantity(
        cls, slope: FloatArray, change: FloatArray, root: FloatArray
    ) -> "ShapedInformation":
        """About one number of every record.

        Shapes: ``slope`` (n_targets, p); ``change`` (n_targets, p, p), derivative of the
        covariance of unit noise; ``root`` (p, p), lower triangular root of that covariance.
        """
        white = linalg.solve_triangular(root, slope.T, lower=True).T
        p = len(root)
        half = linalg.solve_triangular(root, change.transpose(1, 0, 2).reshape(p, -1), lower=True)
        half = half.reshape(p, len(change), p).transpose(2, 1, 0).reshape(p, -1)
        both = linalg.solve_triangular(root, half, lower=True)
        second = 0.5 * np.sum(both.reshape(p, len(change), p) ** 2, axis=(0, 2))
        return cls(np.sum(white**2, axis=1)[:, None, None], second[:, None, None])

    def loss(self, noise_scale: float) -> FloatArray:
        """Fisher information loss ``sqrt(lambda_max(mean / noise_scale^2 + covariance))``.

        Returns (n_targets,): infinite without noise, but where the mean tells nothing; NaN where
        it is not known.
        """
        known = ~np.isnan(self.mean + self.covariance).any(axis=(1, 2))
        losses = np.where(known, np.inf, np.nan)
        told = np.any(self.mean != 0.0, axis=(1, 2))
        some = known & ~told if noise_scale == 0.0 else known
        # Without noise only the records are left whose mean tells nothing.
        variance = noise_scale**2 if noise_scale > 0.0 else 1.0
        both = self.mean[some] / variance + self.covariance[some]
        losses[some] = np.sqrt(np.maximum(np.linalg.eigvalsh(both)[:, -1], 0.0))
        return losses
