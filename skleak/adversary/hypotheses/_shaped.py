"""Likelihoods under noise whose covariance, too, depends on the value of the attribute."""

from dataclasses import dataclass

import numpy as np

from skleak.adversary.hypotheses._releases import Releases
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._typing import FloatArray

# Entries of the covariances of all candidates: 1 GB.
_MOST_ENTRIES = 1 << 27


def check_size(n_targets: int, n_values: int, n_parameters: int) -> None:
    """Check that the covariances of all candidates fit into memory."""
    entries = n_targets * n_values * n_parameters**2
    if entries > _MOST_ENTRIES:
        raise AttackNotApplicableError(
            "Under noise whose shape depends on the data every candidate of every target has a "
            f"covariance of its own: {n_targets} x {n_values} matrices of {n_parameters} "
            f"parameters do not fit into memory. Attack at most "
            f"{max(1, n_targets * _MOST_ENTRIES // entries)} `records` at a time."
        )


@dataclass(frozen=True)
class ShapedHypotheses:
    """Gaussians that releases may come from, at unit noise scale. Confidential."""

    encodings: FloatArray  # Their means, (n_targets, n_values, p)
    shapes: FloatArray  # Their covariances ``S``, with trace p, (n_targets, n_values, p, p)
    # Lower triangular ``R^-1`` with ``R R^T = S``, (n_targets, n_values, p, p)
    whiteners: FloatArray
    log_scales: FloatArray  # ``log det R``, (n_targets, n_values)

    @classmethod
    def of(cls, encodings: FloatArray, shapes: FloatArray) -> "ShapedHypotheses":
        """From the encodings and the shape of the noise of every candidate."""
        # Scaled to a unit diagonal, so that the units of the columns do not matter.
        sizes = np.sqrt(np.einsum("imkk->imk", shapes))
        roots = np.linalg.cholesky(shapes / (sizes[..., :, None] * sizes[..., None, :]))
        whiteners = np.tril(np.linalg.inv(roots)) / sizes[..., None, :]
        diagonals = np.einsum("imkk->imk", roots) * sizes
        return cls(encodings, shapes, whiteners, np.log(diagonals).sum(axis=2))

    def scores(self, releases: Releases, rows: slice) -> FloatArray:
        """Log-likelihoods of some releases, but for a constant of each.

        Returns shape (n_rows, n_targets, n_values).
        """
        released = releases.parameters[rows]
        variance = releases.variance(rows, self.encodings.mean(axis=(0, 1)))
        n_targets, n_values, _ = self.encodings.shape
        scores = np.empty((len(released), n_targets, n_values))
        for i in range(n_targets):
            own = released[:, i] if released.ndim == 3 else released
            gaps = own - self.encodings[i][:, None]
            white = gaps @ self.whiteners[i].transpose(0, 2, 1)
            squares = np.einsum("mrk,mrk->rm", white, white)
            scores[:, i] = -0.5 * squares / variance[:, None] - self.log_scales[i]
        return scores
