"""What a fit with one linear predictor per class leaves behind."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian._factor import FitFactor
from skleak.losses import SoftmaxLoss
from skleak.solvers import Minimum, MultinomialObjective, Objective, by_class
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray, IntArray


@dataclass(frozen=True)
class Root:
    """A square root of ``A^2`` on changes of the parameters that sum to zero over the classes.

    The gradient of a record is such a change: its parts of all classes but one, the reference,
    say everything. ``A`` times it is ``root`` times these parts, but for a rotation that no norm
    of a Jacobian feels.
    """

    root: FloatArray  # with m = (K - 1) d~, (m, K - 1, d~)
    others: IntArray  # all classes but the reference, (K - 1,)


@dataclass(frozen=True)
class MultinomialFactor(FitFactor):
    """Minimiser and pseudo-inverse Hessian of a multinomial fit. Confidential.

    With residuals ``r = p - e_y``, ``C = diag(p) - p p^T`` and ``x~ = [x, 1]`` (or ``x`` without
    intercept), the influence of one copy of a record on the minimiser is

        J = -omega A [(C W) (x) x~ + r (x) E,  -T (x) x~] ,      shape (p, d + K - 1).

    ``(u (x) v)`` has the entry ``u_k v_j`` for column j of class k. The last K - 1 columns are
    those of the target: the label is a vertex of the simplex of class probabilities, and the
    columns of T are orthonormal directions ``t`` in it, ``sum t = 0``. For two classes that is
    one direction, along which the vertices lie ``sqrt(2)`` apart, where a label of 0 or 1 has
    them one apart: its column is ``1 / sqrt(2)`` times that of the same model with such a label.

    The Hessian is singular, as the same change of the parameters of all classes changes nothing;
    ``A`` is its inverse on the changes that sum to zero, where every J lies. Noise on all
    parameters covers more than that: what it adds along the rest is independent of the records
    and of the noise in the range of J, so ``J^T J / sigma^2`` is exact.
    """

    loss: SoftmaxLoss  # type: ignore[assignment]
    n_classes: int  # number of classes, K

    @classmethod
    def of(cls, objective: Objective, minimum: Minimum) -> "MultinomialFactor":
        """Of a minimisation."""
        assert isinstance(objective, MultinomialObjective)
        solution = minimum.coefficients, minimum.inverse_hessian
        return cls(*solution, objective.loss, objective.fit_intercept, objective.n_classes)

    @property
    def n_features(self) -> int:
        """Number of columns of a record, ``d``."""
        return len(self.coefficients) // self.n_classes - self.fit_intercept

    @property
    def weights(self) -> FloatArray:
        """Coefficients without the intercepts, ``W``, of shape (K, d)."""
        d = self.n_features
        return self.coefficients[: self.n_classes * d].reshape(self.n_classes, d)

    @property
    def n_target_directions(self) -> int:
        """Directions in which a label can move: ``K - 1``."""
        return self.n_classes - 1

    def with_response(self, response: FloatArray) -> Self:
        """Refuse noise of a shape of its own, which is not known for several predictors."""
        check_one_predictor(self)
        return super().with_response(response)

    def derivatives(
        self, X: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return ``x~`` (n, d~), residuals (n, K), curvatures (n, K, K) and q (n,), of a block."""
        x = augment(X, self.fit_intercept)
        a = x @ self.coefficients[self.by_class].T
        return x, self.loss.residual(a, y), self.loss.curvature(a), np.full(len(x), -1.0)

    def jacobian(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Dense Jacobians of a few records, for checks and for ill-conditioned ones.

        Returns (n, p, d + K - 1): derivative of the minimiser with respect to ``[x, y]``, at omega
        = 1.
        """
        x, r, c, _ = self.derivatives(X, y)
        d, n = self.n_features, len(x)
        inverse = self.response[:, self.by_class]  # (p, K, d~)
        u = np.einsum("pkj,nj->npk", inverse, x)
        jacobian = np.empty((n, len(self.coefficients), d + self.n_target_directions))
        jacobian[:, :, :d] = -(u @ (c @ self.weights))
        jacobian[:, :, :d] -= np.einsum("nk,pkj->npj", r, inverse[:, :, :d])
        jacobian[:, :, d:] = u @ label_directions(self.n_classes)
        return jacobian

    @cached_property
    def by_class(self) -> IntArray:
        """Positions of the parameters of each class, of shape (K, d~)."""
        return by_class(self.n_classes, self.n_features, self.fit_intercept)

    @cached_property
    def root(self) -> Root:
        """Square root of ``A^2``; see `Root`."""
        own, inverse = (a[:, self.by_class] for a in (self.inverse_hessian, self.response))
        # The best known class. Differences to it are taken before anything is squared: a rare
        # class has large entries, which are in those of all classes, and cancel in them.
        reference = int(np.argmin(np.einsum("kjkj->k", own[self.by_class])))
        others = np.delete(np.arange(self.n_classes), reference)
        apart = inverse[:, others] - inverse[:, [reference]]
        width = apart[0].size
        root = linalg.qr(apart.reshape(-1, width), mode="r", check_finite=False)[0][:width]
        return Root(root.reshape(width, len(others), -1), others)


def check_one_predictor(factor: FitFactor) -> None:
    """Refuse a fit with one predictor for each class."""
    if isinstance(factor, MultinomialFactor):
        raise ValueError(
            "Noise of a shape of its own is for models with one predictor; got one with a "
            f"predictor for each of {factor.n_classes} classes. Use isotropic noise."
        )


def label_directions(n_classes: int) -> FloatArray:
    """Orthonormal directions in the simplex of class probabilities.

    Returns (K, K - 1): every column sums to zero.
    """
    return linalg.null_space(np.ones((1, n_classes)))
