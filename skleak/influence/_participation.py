"""How records take part in a fit, and which rows of the training data they are."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.solvers import Objective
from skleak.utils._rows import row_keys, same_rows
from skleak.utils._typing import Array, Data, FloatArray, IntArray

__all__ = ["Participation", "TrainingLookup"]


@dataclass(frozen=True)
class Participation:
    """How records take part in a fit.

    Parameters
    ----------
    copies : ndarray of shape (n,)
        ``s``: how many times each record counts.
    reweights : ndarray of shape (n,)
        ``omega``: its reweighting factor.

    Examples
    --------
    >>> Participation(np.ones(2), np.array([0.5, 1.5])).reweights
    array([0.5, 1.5])
    """

    copies: FloatArray
    reweights: FloatArray


@dataclass(frozen=True)
class TrainingLookup:
    """Finds records in the training data.

    Parameters
    ----------
    objective : Objective
        Training records. Confidential.

    Examples
    --------
    >>> from skleak.losses import SquaredLoss
    >>> X, y, one = np.array([[1.0], [2.0]]), np.array([2.0, 4.0]), np.ones(2)
    >>> lookup = TrainingLookup(Objective(X, y, SquaredLoss(), 0.0, False, one, one))
    >>> lookup.rows(np.array([[2.0], [3.0]]), np.array([4.0, 4.0]))
    array([ 1, -1])
    """

    objective: Objective

    def rows(self, X: Data, y: FloatArray) -> IntArray:
        """Position of each record in the training data, -1 where it is not there.

        The training data as a whole are themselves, row by row. Other records are found by
        value; a training row of weight zero took no part, so that one like it is new.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.

        Returns
        -------
        ndarray of int of shape (n,)
        """
        if same_rows(X, self.objective.X) and np.array_equal(y, self.objective.y):
            return np.arange(X.shape[0])
        keys = row_keys(X, y)
        order, known = self._keys
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        found = (known[at] == keys) & (self.objective.sample_weight[order[at]] > 0.0)
        return np.where(found, order[at], -1)

    @cached_property
    def _keys(self) -> tuple[Array, Array]:
        """Training rows by ascending key; of equal rows, the one that counts most first."""
        keys = row_keys(self.objective.X, self.objective.y)
        order = np.lexsort((-self.objective.weights, keys))
        return order, keys[order]
