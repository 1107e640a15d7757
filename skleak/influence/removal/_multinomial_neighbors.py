"""Training objectives that lack one record, or have one more, with one predictor per class."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.influence.refit import ChangedHessian
from skleak.influence.removal._neighbors import Neighbors
from skleak.utils._linalg import each_or_nan
from skleak.utils._typing import FloatArray, IntArray


@dataclass(frozen=True)
class MultinomialNeighbors(Neighbors):
    """Neighbors of a multinomial objective: a record changes the Hessian by ``s C (x) x~ x~^T``."""

    @property
    def _by_class(self) -> IntArray:
        """Positions of the parameters of each class, of shape (K, d~)."""
        return self.rest.layout.T

    def _predictors(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Predictors of some of the records, each at parameters of its own, of shape (k, K)."""
        return np.asarray(np.einsum("bkj,bj->bk", at[:, self._by_class], self.x[which]))

    @cached_property
    def images(self) -> FloatArray:
        """``A (I (x) x~)``, of shape (b, p, K)."""
        blocks = self.inverse[:, self._by_class]  # (p, K, d~)
        return np.asarray(np.einsum("pkj,bj->bpk", blocks, self.x))

    @cached_property
    def curvature(self) -> FloatArray:
        """``s C`` of every record at the minimiser, of shape (b, K, K)."""
        a = self.x @ self.w[self._by_class].T
        return self.weight * self.rest.loss.curvature(a)

    @property
    def _spans(self) -> FloatArray:
        """Records times the root of their curvature in each class, (b, p)."""
        spans = np.empty((len(self.y), len(self.w)))
        of_class = np.sqrt(np.abs(np.einsum("bkk->bk", self.curvature)))
        spans[:, self._by_class] = of_class[:, :, None] * self.x[:, None, :]
        return spans

    @cached_property
    def _system(self) -> FloatArray:
        """``I + s C U^T A U`` with ``U = I (x) x~``, of shape (b, K, K)."""
        gram = np.einsum("bj,bkjl->bkl", self.x, self.images[:, self._by_class])
        return np.eye(len(self._by_class)) + self.curvature @ gram

    @cached_property
    def remaining(self) -> FloatArray:
        """Least eigenvalue of the Hessian with the change, relative to that of `rest`, (b,)."""
        known = np.flatnonzero(np.isfinite(self._system).all(axis=(1, 2)))
        least = np.full(len(self.y), np.nan)
        least[known] = np.linalg.eigvals(self._system[known]).real.min(axis=1)
        return least

    @cached_property
    def hessian(self) -> ChangedHessian:
        """Hessians with the changes, which are of rank K - 1."""
        core = each_or_nan(np.linalg.solve, self._system, self.curvature)
        return ChangedHessian(self.inverse, self.images, core)

    def own_gradients(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Gradients of the losses of some of the records, times their weight, (k, p)."""
        residual = self.rest.loss.residual(self._predictors(which, at), self.y[which])
        gradients = np.empty_like(at)
        gradients[:, self._by_class] = (
            self.weight * residual[:, :, None] * self.x[which][:, None, :]
        )
        return gradients
