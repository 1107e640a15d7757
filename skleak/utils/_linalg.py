"""Weighted Gram matrices in bounded memory, a scaled Cholesky factor, and what both cost."""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from skleak.exceptions import CostWarning
from skleak.utils._blocks import BLOCK_ELEMENTS, Blocks, add, is_large
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import BoolArray, Data, FloatArray

# Relative size of a standard deviation that is only rounding.
_ROUND_OFF = 1e-14
# Share of its second moment below which the variance of a sparse column is not what is left of it
# after the mean is subtracted, which would cost more than two of its sixteen digits.
_FAR_FROM_ZERO = 1e-2


class SingularMatrixError(np.linalg.LinAlgError):
    """A matrix that must be positive definite is singular to working precision."""


def augment(X: FloatArray, fit_intercept: bool) -> FloatArray:
    """Append the column of ones that stands for the intercept.

    Shapes: ``X`` (n, d); returns (n, d + 1) or (n, d).
    """
    return np.column_stack([X, np.ones(len(X))]) if fit_intercept else X


def shares_of_bounds(X: Data, bounds: "float | FloatArray") -> FloatArray:
    """Norm of each row over its bound; or its largest entry over those of the columns.

    Shapes: ``X`` (n, d), ``bounds`` () or (d,); returns (n,).
    """
    sparse_rows = sparse.issparse(X)
    if np.ndim(bounds):
        X = abs(X @ sparse.diags_array(1.0 / bounds) if sparse_rows else X / bounds)
        return np.ravel(X.max(axis=1).toarray() if sparse_rows else X.max(axis=1))
    X = X / bounds  # squares of tiny numbers would vanish
    squares = X.multiply(X).sum(axis=1) if sparse_rows else np.einsum("ij,ij->i", X, X)
    return np.sqrt(np.ravel(squares))


def each_or_nan(function: Callable[..., FloatArray], *stacks: FloatArray) -> FloatArray:
    """Apply a function to stacks of matrices; NaN where it raises ``LinAlgError`` for one alone.

    Shapes: all (b, ...); returns the shape of the last of them.
    """
    try:
        return function(*stacks)
    except np.linalg.LinAlgError:
        b = len(stacks[0])
        if b == 1:
            return np.full_like(stacks[-1], np.nan)
    halves = slice(None, b // 2), slice(b // 2, None)
    return np.concatenate([each_or_nan(function, *(s[half] for s in stacks)) for half in halves])


def product(X: Data, w: FloatArray) -> FloatArray:
    """``X w`` for w of shape (d,) or (d, k)."""
    if not (is_large(X) or np.any(w)):  # as where a fit starts
        return np.zeros((X.shape[0], *w.shape[1:]))
    # The transpose is faster, and what is computed of each predictor lies together in it.
    return Blocks.of(X, width=0, keep_sparse=True).map(lambda X, w: (w.T @ X.T).T, w)


def transpose_product(X: Data, values: FloatArray) -> FloatArray:
    """``X^T values`` for values of shape (n,) or (n, k)."""
    blocks = Blocks.of(X, values, width=0, keep_sparse=True)
    # The transpose is faster.
    return blocks.map_reduce(lambda X, values: (values.T @ X).T, add)


def largest_entries(X: Data) -> FloatArray:
    """Largest absolute entry of every column, of shape (d,)."""

    def largest(X: Data) -> FloatArray:
        low, high = X.min(axis=0), X.max(axis=0)
        if sparse.issparse(X):
            low, high = np.ravel(low.toarray()), np.ravel(high.toarray())
        return np.maximum(np.abs(low), np.abs(high))

    width = 0 if sparse.issparse(X) else X.shape[1]
    return Blocks.of(X, width=width, keep_sparse=True).map_reduce(largest, np.maximum)


def weighted_gram(X: Data, weights: FloatArray) -> FloatArray:
    """Sum of ``weights_i x_i x_i^T``, one pass over the data, never a copy of all of it.

    Shapes: ``X`` (n, d); ``weights`` (n,); returns (d, d).
    """
    return _shifted_gram(X, weights, np.zeros(X.shape[1]))[0]


def centered_gram(X: Data, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum of ``weights_i (x_i - m)(x_i - m)^T`` with the weighted mean ``m``, in one pass.

    Columns far from zero, such as a year, keep their digits: in the plain Gram matrix they would
    lose a share of ``(mean / standard deviation)^2``. So do sparse columns far from zero, which
    have hardly a zero to be stored without; the others are centred afterwards.

    Shapes: ``X`` (n, d); ``weights`` (n,); returns ``gram`` (d, d): zero, and not noise, where a
    column is constant; ``mean`` (d,): weighted mean of each column; zero where all weights are.
    """
    total = weights.sum()
    if not total > 0.0:
        return np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
    shift = transpose_product(X, weights) / total
    gram, edge = _shifted_gram(X, weights, shift)
    if sparse.issparse(X):
        squares = np.diag(gram)
        far = squares - total * shift**2 < _FAR_FROM_ZERO * squares
        shift = np.where(far, shift, 0.0)
        _shift_columns(gram, edge, X, weights, shift)
    rest = edge / total  # what rounding left of the mean
    gram -= total * np.outer(rest, rest)
    clear_constants(gram, shift, total)
    return gram, shift + rest


def clear_constants(gram: FloatArray, mean: FloatArray, total: float) -> None:
    """Put zeros, and not noise, where a column of a centred Gram matrix (d, d) is constant.

    Shapes: ``mean`` (d,), under weights of the sum ``total``.
    """
    constant = is_constant(np.diag(gram), mean, total)
    gram[constant] = gram[:, constant] = 0.0


def is_constant(spread: FloatArray, mean: FloatArray, total: float) -> BoolArray:
    """Return True for columns whose squares around the mean (d,) are only rounding."""
    return spread <= _ROUND_OFF**2 * (spread + total * mean**2)


def _shifted_gram(X: Data, weights: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``sum weights (x - shift)(x - shift)^T`` and ``sum weights (x - shift)``; no shift if CSR."""

    def sums(X: Data, weights: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        if sparse.issparse(X):
            return (X.T @ (X.multiply(weights[:, None]))).toarray(), X.T @ weights
        # The square root keeps the product symmetric, which halves its cost.
        root = np.sqrt(weights)
        scaled = X - shift
        if np.any(root != 1.0):
            scaled *= root[:, None]
        return scaled.T @ scaled, scaled.T @ root

    width = 0 if sparse.issparse(X) else X.shape[1]
    # In the cache, but of several times as many rows as the product has, or adding it would cost.
    elements = max(BLOCK_ELEMENTS, 4 * width**2)
    blocks = Blocks.of(X, weights, width=width, elements=elements, keep_sparse=True)
    return blocks.map_reduce(sums, add, shift)


def _shift_columns(
    gram: FloatArray, edge: FloatArray, X: Data, weights: FloatArray, shift: FloatArray
) -> None:
    """Replace in sums over CSR records, (d, d) and (d,), what belongs to columns with a shift."""
    columns = np.flatnonzero(shift)
    if not len(columns):
        return

    def sums(X: Data, weights: FloatArray, shift: FloatArray) -> tuple[FloatArray, ...]:
        shifted = X[:, columns].toarray() - shift
        scaled = shifted * weights[:, None]
        return X.T @ scaled, shifted.T @ scaled, scaled.sum(axis=0)

    blocks = Blocks.of(X, weights, width=len(columns), elements=BLOCK_ELEMENTS, keep_sparse=True)
    gram[:, columns], own, edge[columns] = blocks.map_reduce(sums, add, shift[columns])
    gram[columns] = gram[:, columns].T
    gram[np.ix_(columns, columns)] = own


@dataclass(frozen=True)
class ScaledCholesky:
    """Cholesky factor of a symmetric positive definite matrix scaled to a unit diagonal.

    The scaling makes the factor, and the verdict of singularity, independent of the units of
    the columns: a column in cents is as good as one in millions.
    """

    factor: FloatArray  # lower Cholesky factor of ``S^-1 M S^-1``, (p, p)
    scale: FloatArray  # diagonal of ``S``, (p,)

    @classmethod
    def of(cls, matrix: FloatArray) -> "ScaledCholesky":
        """Factorize.

        Shapes: ``matrix`` (p, p).
        """
        diagonal = np.diag(matrix)
        if not np.all(np.isfinite(matrix)) or np.any(diagonal <= 0.0):
            raise SingularMatrixError("a diagonal entry is zero or not finite")
        scale = np.sqrt(diagonal)
        scaled = matrix / np.outer(scale, scale)
        norm = np.abs(scaled).sum(axis=0).max()
        # The transpose is as LAPACK stores it.
        factor, minor = linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True)
        if minor:
            raise SingularMatrixError("Matrix is not positive definite")
        reciprocal, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
        if reciprocal < 4.0 * len(scale) * np.finfo(float).eps:
            raise SingularMatrixError(f"reciprocal condition number {reciprocal:.1e}")
        return cls(factor, scale)

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``M x = b`` for one right-hand side of shape (p,)."""
        return linalg.lapack.dpotrs(self.factor, b / self.scale, lower=True)[0] / self.scale

    def inverse(self) -> FloatArray:
        """Inverse matrix, exactly symmetric, of shape (p, p)."""
        inverse = linalg.lapack.dpotri(self.factor, lower=True)[0]  # its lower triangle
        inverse /= self.scale
        inverse /= self.scale[:, None]
        inverse += np.tril(inverse, -1).T
        return np.asarray(inverse)


# Measured on one core: multiplications a second of dense products and factorizations, and seconds
# for one stored entry and one column of a product with a CSR matrix and its transpose.
_DENSE_RATE, _SPARSE_SECONDS = 2e10, 4e-9
# Seconds that a call takes unasked.
_MOST_SECONDS = 60.0
# Bytes of which no system need be asked.
_LITTLE = 1e8


def dense_seconds(p: int, n: int = 0, cubes: float = 3.0) -> float:
    """Estimate the time of some multiples of p^3 multiplications and a Gram matrix of n rows.

    An inverse by Cholesky's factor takes three.
    """
    return (cubes * float(p) ** 3 + float(n) * float(p) ** 2) / _DENSE_RATE


def sparse_seconds(entries: int, columns: float) -> float:
    """Estimate the time of so many columns of ``X^T (X v)`` for a CSR matrix of some entries."""
    return _SPARSE_SECONDS * entries * columns


def free_memory() -> float:
    """Bytes of memory that a computation may take; infinite where the system does not say.

    That which is free, or half of what there is: files that are cached make way.
    """
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * max(os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PHYS_PAGES") / 2.0)
    except (AttributeError, ValueError, OSError):  # Windows; others have no such names
        return float("inf")


def takes_long(seconds: float, memory: float = 0.0) -> bool:
    """Return True for more than a minute, or more bytes than there are."""
    return seconds > _MOST_SECONDS or (memory > _LITTLE and memory > free_memory())


def warn_if_costly(what: str, seconds: float, memory: float, instead: str) -> None:
    """Warn, before it starts, of what takes more than a minute or more bytes than there are."""
    if takes_long(seconds, memory):
        there = free_memory() / 1e9
        limit = f", where about {there:.1f} are free" if memory > 1e9 * there else ""
        warnings.warn(
            f"{what} takes about {max(seconds / 60.0, 0.1):.2g} minutes of one core and "
            f"{memory / 1e9:.2g} GB of memory{limit}. {instead}",
            CostWarning,
            stacklevel=outer_stacklevel(),
        )
