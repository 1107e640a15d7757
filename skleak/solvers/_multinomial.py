"""The regularized empirical risk of one linear predictor per class.

Parameters are the coefficients ``W`` of shape (K, d), class by class, and then the K intercepts.
Adding the same vector to the parameters of every class changes no probability: only parameters
that sum to zero over the classes are identified. With ``alpha > 0`` the penalized ones sum to zero
at the minimum by themselves; the intercepts, and without a penalty all, are kept there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from skleak.losses import SoftmaxLoss
from skleak.solvers._objective import CurvatureSums, Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import ScaledCholesky, augment, is_constant, transpose_product
from skleak.utils._typing import Array, Data, FloatArray, IntArray

# Entries of one block of products of columns: 32 MB.
_ELEMENTS = 1 << 22
# Relative size of a standard deviation that is only rounding.
_ROUND_OFF = 1e-14
# Columns from which on their products are formed pair of classes by pair.
_WIDE = 100
# Parameters below which Hessians cost less than what saves them; products with a Hessian to find a
# step by, at most; and what is left to the minimizer, relative to the predictors.
_FEW, _MOST_PRODUCTS, _NEAR = 150, 50, 1e-11


def by_class(n_classes: int, n_features: int, fit_intercept: bool) -> IntArray:
    """Positions of the parameters of each class, its intercept last.

    Parameters
    ----------
    n_classes : int
        Number of classes, K.
    n_features : int
        Number of columns, d.
    fit_intercept : bool
        Whether every class has an intercept.

    Returns
    -------
    ndarray of int of shape (K, d + 1) or (K, d)
        ``parameters[by_class(...)]`` has one row per class.

    Examples
    --------
    >>> by_class(2, 3, True)
    array([[0, 1, 2, 6],
           [3, 4, 5, 7]])
    """
    positions = np.arange(n_classes * n_features).reshape(n_classes, n_features)
    if not fit_intercept:
        return positions
    return np.column_stack([positions, n_classes * n_features + np.arange(n_classes)])


@dataclass(frozen=True)
class MultinomialObjective(Objective):
    """``F = sum_i s_i omega_i (logsumexp(a_i) - a_i[y_i]) / N + alpha / 2 ||W||^2``.

    The predictor ``a_i = W x_i + b`` has one entry per class.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Records.
    y : ndarray of shape (n,)
        Class numbers, 0.0 to K - 1.
    loss : SoftmaxLoss
        The loss.
    alpha : float
        Strength of the penalty; intercepts are not penalized.
    fit_intercept : bool
        Whether the last K parameters are intercepts.
    sample_weight : ndarray of shape (n,)
        ``s``: how many times each record counts.
    reweights : ndarray of shape (n,)
        ``omega``: reweighting factors with ``sum s omega = sum s``.
    n_classes : int
        Number of classes, K.
    center : tuple of ndarray of shape (d,), default=None
        What to subtract from every column, and which columns are constant, where that is known of
        all records, and these are some of them.

    Examples
    --------
    >>> X, y, one = np.array([[1.0], [2.0], [4.0]]), np.array([0.0, 1.0, 2.0]), np.ones(3)
    >>> objective = MultinomialObjective(X, y, SoftmaxLoss(), 0.5, True, one, one, 3)
    >>> round(objective.at(np.zeros(6)).value, 4)
    1.0986
    """

    loss: SoftmaxLoss  # type: ignore[assignment]
    n_classes: int
    center: tuple[FloatArray, Array] | None = field(default=None, kw_only=True)

    @cached_property
    def layout(self) -> IntArray:
        """Positions of the parameters by column and class, of shape (d~, K)."""
        return by_class(self.n_classes, self.X.shape[1], self.fit_intercept).T

    def initial(self) -> FloatArray:
        """Return the start of a fit: the best lone intercepts, of shape (p,)."""
        w = np.zeros(self.n_parameters)
        if self.fit_intercept:
            logs = np.log(self._class_weights())
            w[-self.n_classes :] = logs - logs.mean()
        return w

    def _class_weights(self) -> FloatArray:
        if self.moments is not None:
            return self.moments.target_sums
        return np.bincount(self.y.astype(np.intp), self.weights, self.n_classes).astype(np.float64)

    @property
    def bare(self) -> Self:
        """The objective as it may go to where its records are: centred where all are."""
        return self if self.moments is None else replace(super().bare, center=self._center)

    def approach(self, w: FloatArray, max_iter: int) -> tuple[FloatArray, int]:
        """Return parameters near the minimizer, and how many Newton steps led there from ``w``.

        Steps by conjugate gradients, each as exact as the one before was short: the Hessian costs
        as much as many products with it, and is left to the last step. Where a step is not found
        soon, or gains little, the rest is for Newton's method with its line search.
        """
        if self.moments is not None or self.n_parameters < _FEW:
            return w, 0
        axes, shape = self._column_axes(), (len(w), len(w))
        here, apart, left = self.at(w), 1.0, 1.0
        for n_iter in range(max_iter):
            p, rtol = self.loss.inverse_link(self.predictor(here.w)), max(apart, 0.1 * _NEAR / left)
            times = LinearOperator(shape, matvec=partial(self._times_hessian, p))
            solve = LinearOperator(shape, matvec=self._average_solver(p, *axes))
            given = {"rtol": min(rtol, 0.1), "maxiter": _MOST_PRODUCTS, "M": solve}
            step, missed = cg(times, self._identified(-here.gradient), **given)
            there = self.at(self._identified(here.w + step))
            gained = np.linalg.norm(there.gradient) < 0.5 * np.linalg.norm(here.gradient)
            if missed or not gained:
                return here.w, n_iter
            here, apart = there, self.reach(step) / (1.0 + there.sums.size)
            left = apart * max(apart, given["rtol"])
            if left < _NEAR:
                return here.w, n_iter + 1
        return here.w, max_iter

    def _identified(self, v: FloatArray) -> FloatArray:
        """Subtract from a vector, (p,), its means over the classes: where they are rounding."""
        v[self.layout] -= v[self.layout].mean(axis=1, keepdims=True)
        return v

    def _times_hessian(self, p: FloatArray, step: FloatArray) -> FloatArray:
        """Return the normalized Hessian at probabilities ``p``, (n, K), times a step (p,)."""
        change = p * self.predictor(step)
        change -= p * change.sum(axis=1, keepdims=True)
        change *= self.weights[:, None]
        return self.transpose_product(change) / self.total + self.penalty * step

    def _column_axes(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (d~,) and eigenvectors (d~, d~) of the Gram matrix, centred."""
        sums = CurvatureSums.of(self.X, self.weights, self.fit_intercept)
        squares, axes = np.linalg.eigh(sums.gram)
        if sums.mean is None:
            return squares, axes
        edge = -sums.mean @ axes
        axes = np.block([[axes, np.zeros((len(edge), 1))], [edge, np.ones(1)]])
        return np.append(squares, sums.total), axes

    def _average_solver(
        self, p: FloatArray, squares: FloatArray, axes: FloatArray
    ) -> Callable[[FloatArray], FloatArray]:
        """Return what solves with the Hessian as if all records had their average curvature."""
        shares = p * self.weights[:, None]
        curvature = np.diag(shares.sum(axis=0)) - shares.T @ p
        own, classes = np.linalg.eigh(curvature / self.weights.sum())
        sizes = np.outer(own, squares) / self.total + self.penalty[self.layout].T
        sizes[0] = np.inf  # the same for all classes: nothing changes

        def solve(b: FloatArray) -> FloatArray:
            result = np.empty_like(b)
            rows = classes.T @ b[self.layout].T @ axes / np.maximum(sizes, np.finfo(float).tiny)
            result[self.layout] = (classes @ rows @ axes.T).T
            return result

        return solve

    def curvature_sums(self, a: FloatArray) -> "EdgeSums":
        """Return the sums of which the Hessian at predictor ``a`` is made."""
        p = self.loss.inverse_link(a)
        return EdgeSums.of(self.X, p, self.weights, self.fit_intercept, self._center)

    def _own_curvatures(self, w: FloatArray) -> FloatArray:
        p = self.loss.inverse_link(self.predictor(w))
        return (p * (1.0 - p)) * self.weights[:, None]

    @property
    def _target_sizes(self) -> FloatArray:
        return np.ones(len(self.y))

    def _residual_sizes(self, a: FloatArray, terms: FloatArray) -> FloatArray:
        p = self.loss.inverse_link(a)
        size = np.abs(self.loss.residual(a, self.y))
        size += p * ((1.0 - 2.0 * p) * terms + np.sum(p * terms, axis=1, keepdims=True))
        size[np.arange(len(size)), self.y.astype(np.intp)] += 1.0
        return size

    @cached_property
    def _center(self) -> tuple[FloatArray, Array]:
        """Mean of every column where there is an intercept, and which columns are constant."""
        d = self.X.shape[1]
        if self.center is not None:
            return self.center
        if not self.fit_intercept:
            return np.zeros(d), np.zeros(d, dtype=bool)
        if (known := self.moments) is not None:
            return known.mean, is_constant(known.spread, known.mean, known.total)

        def squares(X: FloatArray, weights: FloatArray, mean: FloatArray) -> FloatArray:
            return np.stack([weights @ (X - mean) ** 2, weights @ X**2])

        mean = transpose_product(self.X, self.weights) / self.weights.sum()
        spread, sizes = Blocks.of(self.X, self.weights).map_reduce(squares, add, mean)
        return mean, spread <= _ROUND_OFF**2 * sizes


@dataclass(frozen=True)
class EdgeSums:
    """Sums over records of which a multinomial Hessian is made; see `MultinomialHessian`."""

    edges: FloatArray  # ``sum_i v_i p_ik p_il x~_i x~_i^T`` of classes k < l, (pairs, d~, d~)
    masses: FloatArray  # ``sum_i v_i p_i``, (K,)
    mean: FloatArray  # what was subtracted from the columns, (d,)
    fit_intercept: bool

    @classmethod
    def of(
        cls,
        X: Data,
        p: FloatArray,
        weights: FloatArray,
        fit_intercept: bool,
        center: tuple[FloatArray, Array],
    ) -> "EdgeSums":
        """Of some records.

        Shapes: ``X`` (n, d); ``p`` (n, K); ``weights`` (n,); ``center`` (d,).
        """
        edges = _edges(X, p, weights, fit_intercept, center)
        return cls(edges, weights @ p, center[0], fit_intercept)

    def plus(self, other: "EdgeSums") -> "EdgeSums":
        """Of these records and others, whose columns were centred at the same point."""
        edges, masses = self.edges + other.edges, self.masses + other.masses
        return EdgeSums(edges, masses, self.mean, self.fit_intercept)

    def factor(self, ridge: float) -> "MultinomialHessian":
        """Factorize the Hessian, whose penalty is ``ridge``."""
        n_classes, d = len(self.masses), len(self.mean)
        # The most frequent class: what is measured against a rare one is known badly.
        reference = int(np.argmax(self.masses))
        others = np.delete(np.arange(n_classes), reference)
        place, size = np.argsort(np.append(others, reference)), self.edges.shape[-1]  # it is last
        laplacian = np.zeros((n_classes, size, n_classes, size))
        for edge, i, j in zip(self.edges, *place[[*np.triu_indices(n_classes, 1)]], strict=True):
            laplacian[i, :, j] = laplacian[j, :, i] = -edge
            laplacian[i, :, i] += edge
            laplacian[j, :, j] += edge
        share = np.eye(n_classes) - 1.0 / n_classes
        for column in range(d):
            laplacian[:, column, :, column] += ridge * share
        width = len(others) * size
        factor = ScaledCholesky.of(laplacian[:-1, :, :-1].reshape(width, width))
        return MultinomialHessian(factor, self.mean, reference, n_classes, self.fit_intercept)


@dataclass(frozen=True)
class MultinomialHessian:
    """Factor of ``H = sum_i v_i C_i (x) x~_i x~_i^T + ridge (I_K - 1 1^T / K) (x) P``.

    With ``C = diag(p) - p p^T``, H is the Laplacian of a graph whose nodes are the classes and
    whose edges carry positive matrices, ``sum_i v_i p_ik p_il x~_i x~_i^T``: nothing cancels in
    them. It vanishes on parameters that are the same for all classes. With the parameters of one
    class, the reference, held at zero, what is left is regular, and its inverse B gives the
    pseudo-inverse of H as ``Pi B Pi``, where Pi subtracts the mean over the classes.
    """

    # factor of the matrix of all classes but the reference, class by class, the columns centred, of
    # shape ((K - 1) d~, (K - 1) d~)
    grounded: ScaledCholesky
    mean: FloatArray  # what was subtracted from the columns; zero without an intercept, (d,)
    reference: int  # the class held at zero
    n_classes: int  # K
    fit_intercept: bool  # whether the last parameter of a class is an intercept

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` in the identified parameters, for one ``b`` of shape (p,)."""
        positions, d = self._by_class, len(self.mean)
        rows = b[positions]
        if self.fit_intercept:
            rows[:, :d] -= np.outer(rows[:, d], self.mean)
        solution = np.zeros_like(rows)
        solution[self._others] = self.grounded.solve(rows[self._others].ravel()).reshape(
            self.n_classes - 1, -1
        )
        solution -= solution.mean(axis=0)
        if self.fit_intercept:
            solution[:, d] -= solution[:, :d] @ self.mean
        result = np.empty_like(b)
        result[positions] = solution
        return result

    def inverse(self) -> FloatArray:
        """Pseudo-inverse ``A``, exactly symmetric, of shape (p, p)."""
        n, d, positions = self.n_classes, len(self.mean), self._by_class
        size = positions.shape[1]
        inverse = np.zeros((n, size, n, size))
        grounded = self.grounded.inverse().reshape(n - 1, size, n - 1, size)
        inverse[self._others[:, None], :, self._others] = grounded.swapaxes(1, 2)
        inverse -= inverse.mean(axis=0)
        inverse -= inverse.mean(axis=2, keepdims=True)
        if self.fit_intercept:
            inverse[:, d] -= np.tensordot(self.mean, inverse[:, :d], axes=(0, 1))
            inverse[:, :, :, d] -= inverse[:, :, :, :d] @ self.mean
        flat = inverse.reshape(n * size, n * size)
        result = np.empty_like(flat)
        result[np.ix_(positions.ravel(), positions.ravel())] = 0.5 * (flat + flat.T)
        return result

    @property
    def _others(self) -> IntArray:
        return np.delete(np.arange(self.n_classes), self.reference)

    @cached_property
    def _by_class(self) -> IntArray:
        return by_class(self.n_classes, len(self.mean), self.fit_intercept)


def _edges(
    X: Data,
    p: FloatArray,
    weights: FloatArray,
    fit_intercept: bool,
    center: tuple[FloatArray, Array],
) -> FloatArray:
    """``sum_i v_i p_ik p_il x~_i x~_i^T`` of every pair of classes k < l, columns centred.

    All pairs at once, as one product of the weights of the pairs with the products of the
    columns: (n, K (K - 1) / 2) against (n, d~ (d~ + 1) / 2). With many columns, whose products
    would fill a block by a few records, pair by pair.
    """
    first, second = np.triu_indices(p.shape[1], 1)
    size = X.shape[1] + fit_intercept
    row, column = np.triu_indices(size)
    wide = size > _WIDE

    def sums(
        X: FloatArray, p: FloatArray, weights: FloatArray, mean: FloatArray, constant: Array
    ) -> FloatArray:
        if fit_intercept:
            X = X - mean
            X[:, constant] = 0.0  # and not noise
        x = augment(X, fit_intercept)
        pairs = p[:, first] * p[:, second] * weights[:, None]
        if not wide:
            return pairs.T @ (x[:, row] * x[:, column])
        edges = np.empty((len(first), size, size))
        for edge, root in zip(edges, np.sqrt(pairs).T, strict=True):
            scaled = x * root[:, None]
            edge[:] = scaled.T @ scaled
        return edges

    width = max(size if wide else len(row), len(first))
    blocks = Blocks.of(X, p, weights, width=width, elements=_ELEMENTS)
    found = blocks.map_reduce(sums, add, *center)
    if wide:
        return found
    edges = np.empty((len(first), size, size))
    edges[:, row, column] = edges[:, column, row] = found
    return edges
