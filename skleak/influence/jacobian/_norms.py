"""Leakage of records, columns, groups and whole data sets: norms of influence Jacobians.

All functions return the norm of the Jacobian at omega = 1 and unit noise; under noise of a shape
of its own the ``response`` of the factor is in the place of A. Whoever calls them multiplies by
the reweighting factor and divides by the noise scale. Nothing of size
``n p (d + 1)`` is ever built: records are walked through in blocks of bounded memory. What is
here is for one predictor; a factor of another kind registers its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Literal, Protocol

import numpy as np
from scipy import linalg

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._secular import largest_eigenvalue
from skleak.utils._blocks import Blocks, add, row_blocks, side_by_side
from skleak.utils._typing import Data, FloatArray, IntArray

Norm = Literal["spectral", "trace"]

# Sums this small against their terms have lost half their digits: they are computed directly.
_CANCELLATION = 1e-5


@dataclass(frozen=True)
class Columns:
    """Columns of a record that an attacker is after."""

    # columns of X that form one block; None for all of them, empty for the target alone, (k,)
    indices: IntArray | None = None
    target: bool = False  # whether the target belongs to the block
    # measure on the tangent of the simplex: the block is one-hot and its entries sum to one
    constrained: bool = False
    # lengths in which columns, (d,), and the target are measured, for losses of single records;
    # None for those of the data
    units: FloatArray | None = None
    target_unit: float = 1.0

    @property
    def target_length(self) -> float:
        """Length in which the target is measured; 0 where it does not belong to the block."""
        return self.target_unit if self.target else 0.0

    @property
    def is_single(self) -> bool:
        """True if the block is one column."""
        return (
            self.indices is not None
            and len(self.indices) == 1
            and not self.target
            and not self.constrained
            and self.units is None
        )

    def count(self, n_features: int, n_target_directions: int = 1) -> int:
        """Return the number of directions of the block."""
        n = n_features if self.indices is None else len(self.indices)
        return n - self.constrained + self.target * n_target_directions

    def basis(self, n_features: int) -> FloatArray:
        """Directions of the block in the space of records, (d, k): orthonormal without units."""
        basis = np.eye(n_features) if self.units is None else np.diag(self.units)
        if self.indices is not None:
            basis = basis[:, self.indices]
        if self.constrained:
            basis = basis @ linalg.null_space(np.ones((1, basis.shape[1])))
        return basis


@singledispatch
def record_norms(
    factor: FitFactor,
    X: Data,
    y: FloatArray,
    columns: Columns,
    norm: Norm = "spectral",
) -> FloatArray:
    """Norm of every record's Jacobian over a block of columns.

    Shapes: ``X`` (n, d); ``y`` (n,); returns (n,): change of the parameters per unit change of the
    record.
    """
    parts = JacobianParts.of(factor, columns)
    vectors, diagonal = parts.axes()
    turned, along = factor.response.T @ vectors, parts.along @ vectors

    def squares(X: FloatArray, y: FloatArray) -> FloatArray:
        r, p, h = parts.of_records(X, y, turned, along)
        if norm == "spectral":
            return largest_eigenvalue(diagonal, r**2, p, h, along)
        trace = r**2 * diagonal.sum() + np.einsum("ij,ij->i", p, p) + h * (along @ along)
        return trace / columns.count(factor.n_features)

    return np.sqrt(Blocks.of(X, y, width=len(diagonal)).map(squares))


@singledispatch
def feature_norms(
    factor: FitFactor,
    X: Data,
    y: FloatArray,
    blocks: Sequence[Columns],
    norm: Norm = "spectral",
) -> FloatArray:
    """Norms over several blocks, single columns by one matrix product for all.

    Shapes: ``X`` (n, d); ``y`` (n,); returns (n, n_blocks).
    """

    def squares(indices: IntArray) -> FloatArray:
        return Blocks.of(X, y, width=len(factor.coefficients)).map(
            lambda X, y: _single_columns(factor, X, y, indices)
        )

    return norms_by_block(blocks, squares, lambda block: record_norms(factor, X, y, block, norm))


def norms_by_block(
    blocks: Sequence[Columns],
    squares: Callable[[IntArray], FloatArray],
    norms: Callable[[Columns], FloatArray],
) -> FloatArray:
    """Put together the norms of single columns, found at once as squares, and those of blocks.

    Returns (n, n_blocks).
    """
    single = [k for k, block in enumerate(blocks) if block.is_single]
    several = [k for k in range(len(blocks)) if k not in single]
    if len(several) == len(blocks) == 1:
        return norms(blocks[0])[:, None]
    indices = np.array([blocks[k].indices[0] for k in single], dtype=np.intp)  # type: ignore[index]
    tables = [np.sqrt(squares(indices))] if single else []
    tables += [norms(blocks[k]) for k in several]
    return side_by_side(tables)[:, np.argsort([*single, *several])]


@singledispatch
def joint_norm(
    factor: FitFactor,
    X: Data,
    y: FloatArray,
    weights: FloatArray,
    columns: Columns,
    norm: Norm = "spectral",
) -> float:
    """Norm of the joint Jacobian of many records, through one p x p Gram matrix.

    ``||[J_1 ... J_n]||^2 = lambda_max(sum_i weights_i J_i J_i^T)``: time O(n d^2), where [FIL21]
    4.1 states O(d^3 n^2).

    Shapes: ``X`` (n, d); ``y``, ``weights`` (n,).
    """
    parts = JacobianParts.of(factor, columns)
    blocks = Blocks.of(X, y, weights, width=parts.joint_width)
    return norm_of_joint(parts.joint(blocks.map_reduce(parts.joint_sums, add)), norm)


def norm_of_joint(joint: FloatArray, norm: Norm) -> float:
    """Norm of a joint Jacobian whose Gram matrix, (p, p), is given."""
    if norm == "trace":
        return float(np.sqrt(np.trace(joint)))
    last = len(joint) - 1
    largest = linalg.eigvalsh(joint, subset_by_index=[last, last])[0]
    return float(np.sqrt(max(largest, 0.0)))


class JointParts(Protocol):
    """Parts that make the Gram matrix of a joint Jacobian from sums over blocks of records."""

    @property
    def joint_width(self) -> int:
        """Entries of the largest table that the sums make of one record."""

    def joint_sums(self, X: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[Any, ...]:
        """Return the sums over a dense block; those of several blocks are added."""

    def joint(self, sums: tuple[Any, ...]) -> FloatArray:
        """Sum of ``weights_i J_i J_i^T``, of shape (p, p), up to a rotation."""


@singledispatch
def joint_parts(factor: FitFactor, columns: Columns) -> JointParts:
    """Return what the joint Jacobians of any records over a block of columns have in common."""
    return JacobianParts.of(factor, columns)


@dataclass(frozen=True)
class JacobianParts:
    """The information of every record as a sum of squares, in which nothing cancels.

    With ``r A E_S = r A E_S (I - n n^T) + r (A E_S n) n^T`` along ``n = w_S / |w_S|``,

        J J^T = r^2 M M^T + (c |w_S| u + r m)(c |w_S| u + r m)^T + q^2 u u^T ,
        M = A E_S (I - n n^T),   m = A E_S n,   u = A x~ ,

    and the last two terms, by completing the square in u, are ``p p^T + h m m^T`` with
    ``p = s u + (c |w_S| r / s) m``, ``h = (q r / s)^2`` and ``s^2 = c^2 |w_S|^2 + q^2``.
    """

    factor: FitFactor
    target: float  # length in which it is measured; 0 where it does not belong to the block
    length: float  # |w_S|
    rest: FloatArray  # M, of shape (p, k)
    along: FloatArray  # m, of shape (p,)

    @classmethod
    def of(cls, factor: FitFactor, columns: Columns) -> "JacobianParts":
        basis = columns.basis(factor.n_features)
        w = basis.T @ factor.weights
        length = float(np.linalg.norm(w))
        direction = w / length if length > 0.0 else w
        embedded = factor.response[:, : factor.n_features] @ basis
        along = embedded @ direction
        return cls(
            factor, columns.target_length, length, embedded - np.outer(along, direction), along
        )

    def axes(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates, (p, p), in which ``M M^T`` is a diagonal, and that, ascending, (p,)."""
        # Squared singular values of M keep all their digits.
        vectors, values, _ = np.linalg.svd(self.rest, full_matrices=True)
        diagonal = np.zeros(len(vectors))
        diagonal[len(vectors) - len(values) :] = values[::-1] ** 2
        return vectors[:, ::-1], diagonal

    @property
    def joint_width(self) -> int:
        """Entries of the largest table that joint sums make of one record."""
        return len(self.factor.response)

    def joint_sums(
        self, X: FloatArray, y: FloatArray, weight: FloatArray
    ) -> tuple[FloatArray, float, float]:
        """Return the sums over a dense block of which the matrix of `joint` is made."""
        # The Gram matrix of A x~, and not A times that of x~ times A: it would square the loss of
        # digits where A is ill-conditioned, as with more columns than records.
        turned = self.factor.response.T
        r, own, h = self.of_records(X, y, turned, self.along, np.sqrt(weight))
        return own.T @ own, float(r @ r), float(h.sum())

    def joint(self, sums: tuple[FloatArray, float, float]) -> FloatArray:
        """Sum of ``weights_i J_i J_i^T``, of shape (p, p)."""
        joint, rr, hh = sums
        return joint + rr * (self.rest @ self.rest.T) + hh * np.outer(self.along, self.along)

    def of_records(
        self,
        X: FloatArray,
        y: FloatArray,
        turned: FloatArray,
        along: FloatArray,
        factors: FloatArray | float = 1.0,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return r, p and h of a dense block, of Jacobians times ``factors``.

        ``turned`` is the transpose of A and ``along`` is m in the coordinates wanted.
        """
        x, r, c, q = self.factor.derivatives(X, y)
        r, c, q = r * factors, c * (factors * self.length), q * (factors * self.target)
        size, by_u, h = completed_square(r, c, q)
        p = x @ turned
        p *= size[:, None]
        p += by_u[:, None] * along
        return r, p, h


def completed_square(
    r: FloatArray, c: FloatArray, q: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``s``, ``c |w_S| r / s`` and ``h`` of `JacobianParts`, given ``c |w_S|`` for c."""
    size = np.hypot(c, q)
    present = size > 0.0
    cosine = np.divide(c, size, out=np.zeros_like(c), where=present)
    sine = np.divide(q, size, out=np.ones_like(q), where=present)
    return size, r * cosine, (r * sine) ** 2


def _single_columns(
    factor: FitFactor, X: FloatArray, y: FloatArray, indices: IntArray
) -> FloatArray:
    """``r^2 (A^2)_jj + 2 r c w_j (A u)_j + c^2 w_j^2 |u|^2`` for every record and column j."""
    x, r, c, _ = factor.derivatives(X, y)
    embedded = factor.response[:, indices]
    u = x @ factor.response.T
    w = factor.weights[indices]
    diagonal = np.sum(embedded**2, axis=0)
    first = np.outer(r**2, diagonal)
    last = np.outer(c**2 * np.einsum("ij,ij->i", u, u), w**2)
    squares = first + last
    cross = 2.0 * (r * c)[:, None] * w * (u @ embedded)
    total = squares + cross
    record, column = np.nonzero(total < _CANCELLATION * squares)
    for k in row_blocks(len(record), x.shape[1]):
        i, j = record[k], column[k]
        direct = r[i, None] * embedded[:, j].T + (c[i] * w[j])[:, None] * u[i]
        total[i, j] = np.einsum("ij,ij->i", direct, direct)
    return np.maximum(total, 0.0)
