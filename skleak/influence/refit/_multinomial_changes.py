"""Training objectives in which one record has been changed, with one predictor per class."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.influence.jacobian import FitFactor, MultinomialFactor
from skleak.influence.refit._changes import Change, records_here
from skleak.influence.refit._chord import ChangedHessian
from skleak.influence.state import FitState
from skleak.utils._typing import FloatArray, IntArray


@dataclass(frozen=True)
class MultinomialChange(Change):
    """Candidates of a block of records of a multinomial fit.

    A record enters the Hessian by ``C (x) x~ x~^T``, of rank K - 1. Parameters that sum to zero
    over the classes keep doing so: A maps into them, and the columns of C sum to zero.
    """

    @classmethod
    def images(cls, factor: FitFactor) -> FloatArray:
        """Matrix that takes ``x~`` to ``A (I (x) x~)``, of shape (d~, p K)."""
        assert isinstance(factor, MultinomialFactor)
        inverse = factor.inverse_hessian[:, factor.by_class]  # (p, K, d~)
        return inverse.transpose(2, 0, 1).reshape(inverse.shape[2], -1)

    @classmethod
    def width(cls, state: FitState) -> int:
        """Entries of the largest table that a candidate needs."""
        p, n_classes = len(state.factor.coefficients), len(state.factor.weights)
        return n_classes * max(2 * p, records_here(state))

    def _gradient(self, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
        own, gradient = at[:, self._by_class], np.empty_like(at)
        r = self.state.objective.loss.residual(np.einsum("bkj,bj->bk", own, x), y)
        r *= self.weight[:, None]
        gradient[:, self._by_class] = r[:, :, None] * x[:, None, :]
        return gradient

    @cached_property
    def _terms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``A U``, (b, p, 2 K), D and ``I + D U^T A U``, (b, 2 K, 2 K) each."""
        factor = self.state.factor
        w, n_classes = factor.coefficients[self._by_class], len(self._by_class)
        b, p = len(self.y), factor.coefficients.size
        basis = np.concatenate(
            [self.a_old.reshape(b, p, n_classes), self.a_new.reshape(b, p, n_classes)], axis=2
        )
        images = basis[:, self._by_class]  # (b, K, d~, 2 K)
        gram = np.concatenate(
            [np.einsum("bj,bkjl->bkl", x, images) for x in (self.old, self.new)], axis=1
        )
        c = np.zeros((b, 2 * n_classes, 2 * n_classes))
        for half, x, sign in ((0, self.old, -1.0), (1, self.new, 1.0)):
            own = slice(half * n_classes, (half + 1) * n_classes)
            curvature = factor.loss.curvature(x @ w.T)
            c[:, own, own] = (sign * self.weight)[:, None, None] * curvature
        return basis, c, np.eye(2 * n_classes) + c @ gram

    def hessian(self) -> ChangedHessian:
        """``H' = H - k C (x) x~ x~^T + k C' (x) x~' x~'^T`` of every candidate."""
        basis, c, system = self._terms
        core = np.asarray(np.linalg.solve(system, c), dtype=np.float64)
        return ChangedHessian(self.state.factor.inverse_hessian, basis, core)

    def _left(self) -> tuple[FloatArray, FloatArray]:
        """Return records times the root of their curvature, (b, p), and what is left, (b,)."""
        factor, w = self.state.factor, self.state.factor.coefficients[self._by_class]
        spans = np.zeros((len(self.y), factor.coefficients.size))
        for x in (self.old, self.new):
            p = factor.loss.inverse_link(x @ w.T)
            size = np.sqrt(self.weight[:, None] * p * (1.0 - p))
            own = size[:, :, None] * np.abs(x)[:, None, :]
            spans[:, self._by_class] = np.maximum(spans[:, self._by_class], own)
        system = self._terms[2]
        least = np.abs(np.linalg.eigvals(system)).min(axis=1)
        return spans, least / np.maximum(1.0, np.abs(system).max(axis=(1, 2)))

    def newton_steps(self, which: IntArray) -> FloatArray:
        """Leave all to minimisations one by one: (k, p) of NaN."""
        return np.full((len(which), self.state.factor.coefficients.size), np.nan)

    @property
    def _by_class(self) -> IntArray:
        assert isinstance(self.state.factor, MultinomialFactor)
        return self.state.factor.by_class
