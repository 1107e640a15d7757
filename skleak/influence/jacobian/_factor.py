"""Jacobians of fits with one predictor, through one factor.

Largest eigenvalue of many matrices "diagonal plus two squares", all at once.

Each record's information is the matrix

    M = rho diag(D) + p p^T + h g g^T ,       D >= 0 ascending, rho >= 0, h >= 0 .

Every term is positive, so that nothing cancels. In the variable ``t = z - rho max(D) >= 0`` and
with the resolvent ``R_j = 1 / (t + rho (max(D) - D_j)) > 0``, a number ``z > rho max(D)`` is an
eigenvalue where the 2 x 2 matrix

    [[ sum p_j^2 R_j ,            sqrt(h) sum p_j g_j R_j ],
     [ sqrt(h) sum p_j g_j R_j ,  h sum g_j^2 R_j        ]]

has the eigenvalue 1. Its larger eigenvalue ``mu`` falls with ``t``, and is 1 at the largest
eigenvalue of M: O(d) per record and step. ``1 / mu`` is nearly linear in ``t``, and a secant method
needs a handful of steps. Where ``mu < 1`` all along, the largest eigenvalue is ``rho max(D)``.

Leakage of records, columns, groups and whole data sets: norms of influence Jacobians.

All functions return the norm of the Jacobian at omega = 1 and unit noise; under noise of a shape
of its own the ``response`` of the factor is in the place of A. Whoever calls them multiplies by
the reweighting factor and divides by the noise scale. Nothing of size
``n p (d + 1)`` is ever built: records are walked through in blocks of bounded memory. What is
here is for one predictor; a factor of another kind registers its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, Literal, Protocol, Self

import numpy as np
from scipy import linalg

from skleak.losses import PointwiseLoss
from skleak.solvers import Minimum, Objective
from skleak.utils._blocks import Blocks, add, dense, is_large, row_blocks, side_by_side
from skleak.utils._linalg import ScaledCholesky, augment, dense_seconds, warn_if_costly
from skleak.utils._typing import Data, FloatArray, IntArray


@dataclass(frozen=True)
class FitFactor:
    """Minimizer and inverse Hessian, all that a fit leaves behind. Confidential.

    With ``x~ = [x, 1]`` (or ``x`` without intercept), ``u = A x~`` and the derivatives r, c, q of
    the loss in predictor space, the influence of one copy of a record on the minimizer is
    ([FIL21] eq. 18 and 29)

        J = -omega [c u w^T + r A E,  q u] ,      shape (p, d + 1), the last column for the target.

    The reweighting factor omega and the noise scale are applied by the caller.

    Noise of a covariance ``sigma^2 S`` that does not depend on the data leaves a record the
    information ``J^T S^-1 J``: that of isotropic noise with ``K`` in the place of ``A``, where
    ``K^T K = A S^-1 A``. Any such K serves, and is the ``response`` that norms of Jacobians are
    computed from. Triangular ones keep the digits of columns in units far apart, as a symmetric
    root would not.
    """

    coefficients: FloatArray  # noiseless minimizer, the intercept last where there is one, (p,)
    inverse_hessian: FloatArray  # ``A``, the inverse of the unnormalized Hessian ``N F''``, (p, p)
    loss: PointwiseLoss
    fit_intercept: bool  # whether the last parameter is an intercept
    # ``K`` under noise of a shape of its own; None for isotropic noise, where it is ``A``, (p, p)
    shaped: FloatArray | None = field(default=None, kw_only=True)

    def check_one_predictor(self) -> None:
        """Refuse a fit with more predictors than one."""

    @classmethod
    def of(cls, objective: Objective, minimum: Minimum) -> "FitFactor":
        """Of a minimization."""
        solution = minimum.coefficients, minimum.inverse_hessian
        return cls(*solution, objective.loss, objective.fit_intercept)

    @property
    def response(self) -> FloatArray:
        """``K`` with ``K^T K = A S^-1 A`` for noise of the shape S, of shape (p, p)."""
        return self.inverse_hessian if self.shaped is None else self.shaped

    def with_response(self, response: FloatArray) -> Self:
        """Return the same fit under noise for which ``K`` is known, of shape (p, p)."""
        return replace(self, shaped=response)

    def confined(self, directions: FloatArray) -> Self:
        """Return the same fit seen only along directions of the noise, orthonormal, (p, r)."""
        return replace(self, shaped=directions @ (directions.T @ self.response))

    def under_noise(self, shape: FloatArray) -> Self:
        """Return the same fit under noise of a shape ``S``, positive definite with trace p.

        Where S, of shape (p, p), depends on the training data, what the factor measures is the
        first of two terms: leakage through the mean of the release alone.
        """
        cholesky = ScaledCholesky.of(shape)
        root = cholesky.factor * cholesky.scale[:, None]
        return self.with_response(linalg.solve_triangular(root, self.inverse_hessian, lower=True))

    @property
    def n_features(self) -> int:
        """Number of columns of a record, ``d``."""
        return len(self.coefficients) - self.fit_intercept

    @property
    def weights(self) -> FloatArray:
        """Coefficients without the intercept, ``w``, of shape (d,)."""
        return self.coefficients[: self.n_features]

    @property
    def n_target_directions(self) -> int:
        """Directions in which a target can move: one, as it is a number."""
        return 1

    def seconds_of_all(self, n: int) -> float:
        """Estimate what the losses of n whole records take: a decomposition, and two products."""
        return dense_seconds(len(self.coefficients), 2 * n, 20.0)

    def derivatives(
        self, X: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return ``x~`` of shape (n, p), and r, c and q of shape (n,), for a dense block."""
        x = augment(X, self.fit_intercept)
        a = x @ self.coefficients
        return x, self.loss.residual(a, y), self.loss.curvature(a), self.loss.cross(a)

    def jacobian(self, X: FloatArray, y: FloatArray, columns: IntArray | None = None) -> FloatArray:
        """Dense Jacobians of a few records, for checks and for ill-conditioned ones.

        Returns (n, p, d + 1): derivative of the minimizer with respect to ``[x, y]``, at omega = 1;
        over the noise, up to a rotation, where it has a shape of its own. Of k ``columns`` of x
        alone (n, p, k).
        """
        x, r, c, q = self.derivatives(X, y)
        u = x @ self.response.T
        some = np.arange(self.n_features) if columns is None else columns
        features = (c[:, None] * u)[:, :, None] * self.weights[some]
        features += r[:, None, None] * self.response[:, some]
        if columns is not None:
            return -features
        return -np.concatenate([features, (q[:, None] * u)[:, :, None]], axis=2)


# Relative to the scale of a record's matrix: a part this small is below the round-off of the rest.
_NEGLIGIBLE = 1e-17
# Width of the bracket at which a root is found, in that scale and relative to the root.
_XATOL, _XRTOL = 1e-16, 4e-15
# Every so many steps a bracket that has not halved is halved. Fifty halvings are round-off.
_PATIENCE = 5
_MAX_STEPS = 60 * _PATIENCE


def largest_eigenvalue(
    diagonal: FloatArray, rho: FloatArray, p: FloatArray, h: FloatArray, g: FloatArray
) -> FloatArray:
    """Largest eigenvalue of ``rho diag(D) + p p^T + h g g^T``.

    Shapes: ``diagonal``, ``g`` (k,), or (n, k) where records have their own; ``rho``, ``h`` (n,);
    ``p`` (n, k); returns (n,): to a few units of round-off.
    """
    top = rho * diagonal[..., -1]
    rise = _largest_of_two_by_two(_dot(p, p), np.sqrt(h) * _dot(p, g), h * _dot(g, g))
    scale = top + rise
    # The eigenvalue lies between the larger of `rise` and `top`, and their sum.
    result = np.maximum(top, rise)
    open_ = np.flatnonzero((top > _NEGLIGIBLE * scale) & (rise > _NEGLIGIBLE * scale))
    if len(open_):
        s = scale[open_]
        if diagonal.ndim == 2:
            diagonal, g = diagonal[open_], g[open_]
        secular = _Secular.of(diagonal, rho[open_] / s, p[open_], h[open_] / s, g, s)
        result[open_] = top[open_] + s * secular.root(rise[open_] / s)
    return result


def _largest_of_two_by_two(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Larger eigenvalue of the positive semi-definite matrix ``[[a, b], [b, c]]``."""
    return 0.5 * (a + c) + np.hypot(0.5 * (a - c), b)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """Inner products of rows, of two tables or with one vector."""
    return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)


@dataclass(frozen=True)
class _Secular:
    """Coefficients of the secular equations of a block of records."""

    gap: FloatArray  # rho (max D - D_j), (n, k)
    pp: FloatArray  # p_j^2, (n, k)
    pg: FloatArray  # p_j g_j, (n, k)
    gg: FloatArray  # g_j^2, (k,) or (n, k)
    h: FloatArray  # (n,)

    @classmethod
    def of(
        cls,
        diagonal: FloatArray,
        rho: FloatArray,
        p: FloatArray,
        h: FloatArray,
        g: FloatArray,
        scale: FloatArray,
    ) -> "_Secular":
        # Equal entries of the diagonal count as one: most are zero where the block is small.
        rises = np.any(np.atleast_2d(np.diff(diagonal)) > 0.0, axis=0)
        starts = np.concatenate([[0], 1 + np.flatnonzero(rises)])
        distinct = diagonal[..., starts]
        root = np.sqrt(scale)[:, None]
        p = p / root
        pp, pg, gg = p * p, p * g, g * g
        if len(starts) < diagonal.shape[-1]:
            pp, pg, gg = (np.add.reduceat(squares, starts, axis=-1) for squares in (pp, pg, gg))
        return cls(rho[:, None] * (distinct[..., -1:] - distinct), pp, pg, gg, h)

    def take(self, i: IntArray) -> "_Secular":
        """Return the equations of the records ``i``."""
        if len(i) == len(self.h):
            return self
        gg = self.gg[i] if self.gg.ndim == 2 else self.gg
        return replace(self, gap=self.gap[i], pp=self.pp[i], pg=self.pg[i], gg=gg, h=self.h[i])

    def excess(self, t: FloatArray) -> FloatArray:
        """``1 / mu(t) - 1`` of each record: it rises through zero at the root."""
        resolvent = self.gap + t[:, None]
        np.divide(1.0, resolvent, out=resolvent)
        a = _dot(self.pp, resolvent)
        if not np.any(self.h):
            return 1.0 / a - 1.0
        b = np.sqrt(self.h) * _dot(self.pg, resolvent)
        return 1.0 / _largest_of_two_by_two(a, b, self.h * _dot(resolvent, self.gg)) - 1.0

    def root(self, rise: FloatArray) -> FloatArray:
        """Root of each record's excess; zero where there is none."""
        t = np.zeros(len(rise))
        low = np.full(len(rise), _NEGLIGIBLE)
        at_low = self.excess(low)
        above = np.flatnonzero(at_low < 0.0)
        high = rise[above] * (1.0 + 1e-14)
        t[above] = _find_root(self.take(above), low[above], at_low[above], high)
        return t


@np.errstate(divide="ignore", invalid="ignore")
def _find_root(
    secular: _Secular, low: FloatArray, at_low: FloatArray, high: FloatArray
) -> FloatArray:
    """Anderson and Bjorck's regula falsi on every bracket, down to the width of round-off.

    Own code, because the bookkeeping of scipy's vectorized solver costs more than these few and
    cheap steps. Where round-off hides the change of sign, the root is the upper end.
    """
    root = high.copy()
    i = np.arange(len(high))
    a, at_a, b, at_b = low, at_low, high, secular.excess(high)
    done = at_b <= 0.0
    checked = high - low
    for k in range(_MAX_STEPS):
        if 2 * np.count_nonzero(done) > len(done):
            rest = np.flatnonzero(~done)
            secular, i, done = secular.take(rest), i[rest], done[rest]
            a, at_a, b, at_b = a[rest], at_a[rest], b[rest], at_b[rest]
            checked = checked[rest]
        if not len(i):
            break
        width, tol = a - b, _XATOL + _XRTOL * b
        step = at_b / (at_b - at_a) * width
        found = ~done & ((np.abs(width) <= tol) | (at_b == 0.0))
        root[i[found]] = (b + step)[found]
        done |= found
        # A step shorter than the tolerance would leave the other end where it is.
        size = np.clip(np.abs(step), 0.5 * tol, np.abs(width))
        if (k + 1) % _PATIENCE == 0:
            size = np.where(np.abs(width) > 0.5 * checked, 0.5 * np.abs(width), size)
            checked = np.abs(width)
        x = np.where(done, b, b + np.copysign(size, width))
        at_x = secular.excess(x)
        same = (at_x > 0.0) == (at_b > 0.0)
        left = 1.0 - at_x / at_b
        at_a = np.where(same, at_a * np.where(left > 0.0, left, 0.5), at_b)
        a, b, at_b = np.where(same, a, b), x, at_x
    return root


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
    def is_whole(self) -> bool:
        """True for all columns of a record, in units of the data."""
        return self.indices is None and not self.constrained and self.units is None

    @property
    def is_target(self) -> bool:
        """True if the block is the target alone, in units of the data."""
        none = self.indices is not None and not len(self.indices) and not self.constrained
        return none and self.target and self.units is None and self.target_unit == 1.0

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
        chosen = np.arange(n_features)
        chosen = chosen if self.indices is None else chosen[self.indices]
        basis = np.zeros((n_features, len(chosen)))
        basis[chosen, np.arange(len(chosen))] = 1.0 if self.units is None else self.units[chosen]
        if self.constrained:
            basis = basis @ linalg.null_space(np.ones((1, basis.shape[1])))
        return basis


def norms_of_jacobians(jacobians: FloatArray, norm: Norm) -> FloatArray:
    """Largest singular values of Jacobians (b, p, k), or root mean squares of columns."""
    if norm == "trace":
        return np.sqrt(np.einsum("ijk,ijk->i", jacobians, jacobians) / jacobians.shape[2])
    turned = jacobians.transpose(0, 2, 1)
    gram = turned @ jacobians if jacobians.shape[2] <= jacobians.shape[1] else jacobians @ turned
    largest, known = np.full(len(gram), np.nan), np.isfinite(gram).all(axis=(1, 2))
    largest[known] = np.linalg.eigvalsh(gram[known])[:, -1]
    return np.sqrt(np.maximum(largest, 0.0))


def _announce(factor: FitFactor, X: Data) -> None:
    """Warn of losses of records in memory that take long."""
    if not is_large(X):
        n, p = int(X.shape[0]), len(factor.coefficients)
        warn_if_costly(
            f"The loss of {n} records under {p} parameters",
            factor.seconds_of_all(n),
            48.0 * p**2,
            "Ask for the loss of chosen records over few columns, or fit fewer columns.",
        )


@singledispatch
def record_norms(
    factor: FitFactor, X: Data, y: FloatArray, columns: Columns, norm: Norm = "spectral"
) -> FloatArray:
    """Norm of every record's Jacobian over a block of columns.

    Shapes: ``X`` (n, d); ``y`` (n,); returns (n,): change of the parameters per unit change of the
    record.
    """
    _announce(factor, X)
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
    factor: FitFactor, X: Data, y: FloatArray, blocks: Sequence[Columns], norm: Norm = "spectral"
) -> FloatArray:
    """Norms over several blocks, single columns by one matrix product for all.

    Shapes: ``X`` (n, d); ``y`` (n,); returns (n, n_blocks).
    """
    targets: list[FloatArray] = []  # as single columns share all they are made of

    def squares(indices: IntArray) -> FloatArray:
        found = Blocks.of(X, y, width=len(factor.coefficients)).map(
            lambda X, y: _single_columns(factor, X, y, indices)
        )
        targets.append(np.sqrt(found[:, -1]))
        return found[:, :-1]

    def norms(block: Columns) -> FloatArray:
        if targets and block.is_target:
            return targets[0]
        return record_norms(factor, X, y, block, norm)

    return norms_by_block(blocks, squares, norms)


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
    if norm == "trace":  # of the Gram matrix it would lose digits
        count = columns.count(factor.n_features, factor.n_target_directions)
        norms = Blocks.of(record_norms(factor, X, y, columns, norm), weights, width=1)
        return float(np.sqrt(count * norms.map_reduce(_weighted_squares, add)))
    _announce(factor, X)
    parts = joint_parts(factor, columns)
    blocks = Blocks.of(X, y, weights, width=parts.joint_width)
    return norm_of_joint(parts.joint(blocks.map_reduce(parts.joint_sums, add)), norm)


def _weighted_squares(values: FloatArray, weights: FloatArray) -> float:
    return float(values**2 @ weights)


def norm_of_joint(joint: FloatArray, norm: Norm) -> float:
    """Norm of a joint Jacobian whose Gram matrix, (p, p), is given."""
    if norm == "trace":
        return float(np.sqrt(np.trace(joint)))
    # The driver for one eigenvalue alone fails on some Gram matrices of few records.
    return float(np.sqrt(max(linalg.eigvalsh(joint, driver="evd")[-1], 0.0)))


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
        w, embedded = factor.weights, factor.response[:, : factor.n_features]
        if not columns.is_whole:
            basis = columns.basis(factor.n_features)
            w, embedded = basis.T @ w, embedded @ basis
        length = float(np.linalg.norm(w))
        direction = w / length if length > 0.0 else w
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
        size = np.hypot(c, q)
        present = size > 0.0
        cosine = np.divide(c, size, out=np.zeros_like(c), where=present)
        sine = np.divide(q, size, out=np.ones_like(q), where=present)
        p = x @ turned
        p *= size[:, None]
        p += (r * cosine)[:, None] * along
        return r, p, (r * sine) ** 2


def _single_columns(
    factor: FitFactor, X: FloatArray, y: FloatArray, indices: IntArray
) -> FloatArray:
    """``r^2 (A^2)_jj + 2 r c w_j (A u)_j + c^2 w_j^2 |u|^2`` for every record and column j.

    Last ``q^2 |u|^2``, of the target.
    """
    x, r, c, q = factor.derivatives(X, y)
    embedded = factor.response[:, indices]
    u = x @ factor.response.T
    w = factor.weights[indices]
    diagonal = np.sum(embedded**2, axis=0)
    first, length = np.outer(r**2, diagonal), np.einsum("ij,ij->i", u, u)
    last = np.outer(c**2 * length, w**2)
    squares = first + last
    cross = 2.0 * (r * c)[:, None] * w * (u @ embedded)
    total = squares + cross
    record, column = np.nonzero(total < _CANCELLATION * squares)
    for k in row_blocks(len(record), x.shape[1]):
        i, j = record[k], column[k]
        direct = r[i, None] * embedded[:, j].T + (c[i] * w[j])[:, None] * u[i]
        total[i, j] = np.einsum("ij,ij->i", direct, direct)
    return np.column_stack([np.maximum(total, 0.0), q**2 * length])


def norms_of_fits(
    fits: Sequence[tuple[FitFactor, Data, FloatArray]], columns: Columns, norm: Norm = "spectral"
) -> list[FloatArray]:
    """Norm of every record's Jacobian in several fits, each with n records of its own, at once.

    Roots are sought together, which costs little more for small tables than for one of the fits.
    """
    if len(fits) == 1:
        return [record_norms(*fits[0], columns, norm)]
    tables = []
    for factor, X, y in fits:
        parts = JacobianParts.of(factor, columns)
        vectors, diagonal = parts.axes()
        along = parts.along @ vectors
        r, p, h = parts.of_records(dense(X), y, factor.response.T @ vectors, along)
        shared = (np.broadcast_to(table, p.shape) for table in (diagonal, along))
        tables.append((r**2, p, h, *shared))
    rho, p, h, diagonal, along = map(np.concatenate, zip(*tables, strict=True))
    if norm == "spectral":
        squares = largest_eigenvalue(diagonal, rho, p, h, along)
    else:
        squares = rho * diagonal.sum(axis=1) + _dot(p, p) + h * _dot(along, along)
        squares /= columns.count(fits[0][0].n_features)
    return np.split(np.sqrt(squares), len(fits))
