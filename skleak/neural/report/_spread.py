"""Ranges and variances of the entries of records, and what is left to know of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skleak.utils._typing import Array, FloatArray

# Candidates for the weights of the bound with a prior; any of them gives a valid one.
_N_CANDIDATES = 200


@dataclass(frozen=True)
class Spread:
    """Spread of the unknown entries of records over the training records. Confidential."""

    widths: FloatArray  # largest less smallest value of every entry, (u,)
    variances: FloatArray  # mean squared error of who guesses every entry by its mean, (u,)

    @classmethod
    def of(cls, X: Any, y: Array, n_unknowns: int) -> "Spread":
        """Measure records X (n, ...) and, where more is unknown than their entries, y (n,)."""
        if sparse.issparse(X):
            X = sparse.csc_array(X)
            widths = (X.max(axis=0) - X.min(axis=0)).toarray().ravel()
            mean = np.asarray(X.mean(axis=0)).ravel()
            squares = np.asarray((X.multiply(X)).mean(axis=0)).ravel()
            variances = np.maximum(squares - mean**2, 0.0)
        else:
            flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
            widths, variances = np.ptp(flat, axis=0), flat.var(axis=0)
        more = n_unknowns - len(widths)
        if more > 0:
            # A class of two is one unknown, of more one less than there are; a number is itself.
            target = np.asarray(y, dtype=np.float64)[:, None]
            if more > 1:
                target = (np.asarray(y)[:, None] == np.arange(more)).astype(np.float64)
            widths = np.r_[widths, np.ptp(target, axis=0)]
            variances = np.r_[variances, target.var(axis=0)]
        return cls(widths, variances)

    @property
    def guess_mse(self) -> float:
        """Mean squared error per entry of who guesses the mean."""
        return float(self.variances.mean())

    def van_trees_mse(self, trace: float) -> float:
        """Bound the mean squared error per entry of who expects normal laws, from a trace alone.

        With J the inverse variances and A the Fisher information, for any weights w in [0, 1]

            tr (A + J)^-1 >= sum_j 1 / (A + J)_jj >= (sum w)^2 / (tr A + sum w^2 / v)

        by the inequality of Cauchy and Schwarz; the best have the form ``min(1, t v)``.
        """
        v = self.variances[self.variances > 0.0]
        if not len(v) or not np.isfinite(trace):
            return 0.0
        t = np.geomspace(1.0 / v.max(), 1.0 / v.min(), _N_CANDIDATES)
        best = 0.0
        for scale in t.tolist():
            w = np.minimum(1.0, scale * v)
            best = max(best, float(w.sum() ** 2 / (trace + (w**2 / v).sum())))
        return best / len(self.variances)
