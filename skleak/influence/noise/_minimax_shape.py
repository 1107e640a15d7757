"""The shape of noise that is least for the largest loss.

The smallest ellipsoid, by the sum of its squared half axes, that holds given points.

    minimize  tr Z   subject to   a_k^T Z^-1 a_k <= 1  for all k .

Its dual is an optimal design: with weights ``mu_k >= 0`` and ``M = sum mu_k a_k a_k^T``, the
minimum is the largest value of ``(tr M^(1/2))^2 / sum mu``, where ``Z = 2 M^(1/2)``. Any weights
give a lower bound on ``tr Z``.

The exact minimax shape: the largest leakage as small as it can be, at a given loss of accuracy.

    minimize over S   max_i lambda_max(J_i^T S^-1 J_i)     subject to   tr(H S) = p

over positive definite ``S``. Each ``v^T J^T S^-1 J v`` is a matrix fractional function, convex in
S, so that their supremum is convex; the constraint, an equal expected rise of the training
objective, is linear. In whitened coordinates (``A = L L^T``, ``Z = L^-1 S L^-T``,
``N_i = L^-1 J_i``) it asks for the smallest ellipsoid, by the sum ``tr Z`` of its squared half
axes, that holds every ``N_i v`` with ``|v| = 1``. In the original
coordinates its optimum is the geometric mean of A and ``sum J_i Y_i J_i^T``, up to a factor, for
some weights ``Y_i``. Any weights give a lower bound on what any S can reach, and any Z an upper
bound: their gap certifies the solution. Points are generated: the ellipsoid is found for a few,
and the records that stick out of it give new ones.

The leakage minimized is that through the mean of the release. A shape computed from the training
data leaks as well, and this one follows single records: on IWPC (alpha=1e-2, whole record) two
records determine it. One of them has a loss of 0.54 through the shape alone, at any noise scale,
by differences of the whole solution; where noise raises the objective by more than 0.0023, that is
more than its loss through the mean, and from 0.006 on the curvature of the fit itself, which
depends on no record much, has the smaller largest loss with both terms counted
(`covariance_losses`). So release with a shape that was found on public records, not with this one;
or with `noise_covariance="minimax"`, which has equal weights in the place of the least favorable
ones, is no record's own, and accounts for what it leaks.

The minimax shape of the noise with equal weights, which no record determines.

Noise of covariance C raises the training objective by ``tr(H C) / (2 N)``. At an equal rise the
largest loss through the mean, over records i with Jacobians ``J_i``, is smallest under
``S = A # M``, ``M = sum_i J_i Y_i J_i^T``, the geometric mean with the inverse Hessian A, for least
favorable weights ``Y_i`` that a few records share (see `_minimax_shape`): a shape that those
few determine, and that gives them away. With equal weights instead, for sample weights ``s_i``,

    S H S = M ,   M = sum_i s_i J_i J_i^T = A B A ,
    S = A # M = L (L^T B L)^(1/2) L^T ,   A = L L^T ,

minimizes the *mean* squared loss (the trace, over all entries of all records) at an equal rise,
and every record has its share of it. The shape is part of the fit, in which a weight of 2 is the
record twice; what a row leaks under it is that of its whole weight. It is not the exact minimax
shape: the ``lower_bound`` of `skleak.influence.minimax_shape` certifies how much is left. On IWPC
(whole record, 3,855 patients, a rise of 0.01, alpha = 1e-2) the largest loss is 2.51 under
isotropic noise, 0.492 under the curvature, 0.360 here, both terms counted, and through the mean
alone 0.257 at least under any shape; for alpha = 1e-4 these are 9.47, 0.958, 0.636 and 0.385. The
second term is at most 0.061 and 0.33, about twice that of the curvature: with so much noise that
nothing else is left, the curvature leaks less.

Always of the whole record, target included: with ``J = A Jhat`` and
``Jhat = -[c x~ w^T + r E, q x~]``,

    B = sum_i s_i [alpha x~ x~^T + beta (x~ w^T + w x~^T) + gamma P] ,
    alpha = c^2 |w|^2 + q^2 ,   beta = c r ,   gamma = r^2 ,

w with a zero for the intercept and P the identity on the features. L is rotated such that
``L^T B L = diag(z^2)``; then ``S = L diag(z) L^T`` up to its trace. What the shape reveals is in
`_data_shape`.

The least mean shape is the same geometric mean, ``A # N``, for the losses that are stated: a row
leaks with its whole weight, and a public target is not leaked,

    N = sum_i s_i^2 J_i J_i^T ,   alpha = c^2 |w|^2 , or + q^2 where the target is private.

At a given rise of the objective no shape has a smaller mean square of the trace losses of persons
through the mean. With equal weights and a private target it is the minimax shape above.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import Columns, record_norms
from skleak.influence.state import FitState
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add, dense_rows, row_blocks
from skleak.utils._linalg import ScaledCholesky
from skleak.utils._typing import Data, FloatArray, IntArray


def inverse_hessian_root(state: FitState) -> FloatArray:
    """Root of the inverse Hessian of a fit, as `triangular_root`. Confidential."""
    state.factor.check_one_predictor()
    factor = state.factor
    return triangular_root(state.objective, factor.coefficients, factor.inverse_hessian)


def triangular_root(objective: Objective, w: FloatArray, inverse: FloatArray) -> FloatArray:
    """Lower triangular ``L`` with ``L L^T = A``, accurate for columns far from zero.

    Shapes: ``w`` (p,); ``inverse`` (p, p), A, of one predictor; returns (p, p).
    """
    root, d = np.zeros_like(inverse), objective.X.shape[1]
    columns = ScaledCholesky.of(inverse[:d, :d])
    root[:d, :d] = columns.factor * columns.scale[:, None]
    if objective.fit_intercept:
        # The corner is that of the Hessian, which nothing penalizes: no difference is taken.
        root[d, :d] = linalg.solve_triangular(root[:d, :d], inverse[:d, d], lower=True)
        curvatures = Blocks.of(objective.curvatures(w), width=1)
        root[d, d] = 1.0 / np.sqrt(curvatures.map_reduce(_sum, add))
    return root


def _sum(values: FloatArray) -> float:
    return float(values.sum())


# Share of the longest half axis below which no half axis counts as shorter.
_AXIS_FLOOR = 1e-8
_NEWTON_STEPS = 100
# Added to a unit diagonal: atoms may be many times as many as their span has dimensions.
_JITTER = 1e-13


def enclosing_design(points: FloatArray, weights: FloatArray, *, tol: float = 1e-9) -> FloatArray:
    """Weights of the points that the smallest ellipsoid touches.

    Minimizes ``sum mu - tr M(mu)^(1/2)`` over ``mu >= 0``, which is the design up to a factor, by
    a primal-dual interior point method with the exact Hessian.

    Shapes: ``points`` (m, p); ``weights`` (m,); returns (m,): ``mu``, positive; ``2 M(mu)^(1/2)``
    is the ellipsoid.
    """
    size = float(np.sqrt(np.mean(np.sum(points**2, axis=1))))
    points = points / size
    mu = np.maximum(weights, 1e-3 * weights.mean())
    # Along its ray the objective is least where sum mu = tr M^(1/2) / 2.
    mu = mu * (_half_trace(points, mu) / mu.sum()) ** 2
    slack = np.maximum(1.0 - _touch(points, mu)[0], 1e-2)
    for _ in range(_NEWTON_STEPS):
        touch, hessian = _touch(points, mu)
        gap, outside = float(mu @ slack), float(touch.max()) - 1.0
        if gap <= tol * mu.sum() and outside <= tol:
            break
        target = 0.1 * gap / len(mu)
        system = hessian() + np.diag(slack / mu)
        step = _solve(system, touch - 1.0 + target / mu)
        slack_step = target / mu - slack - slack / mu * step
        length = min(1.0, _to_boundary(mu, step), _to_boundary(slack, slack_step))
        mu, slack = mu + length * step, slack + length * slack_step
    return mu * size**2


def _solve(system: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a positive definite system, scaled to a unit diagonal and kept off singularity."""
    scale = np.sqrt(np.diag(system))
    scaled = system / np.outer(scale, scale)
    scaled[np.diag_indices_from(scaled)] += _JITTER
    return linalg.cho_solve(linalg.cho_factor(scaled), right / scale) / scale


def _half_trace(points: FloatArray, mu: FloatArray) -> float:
    values = np.linalg.eigvalsh((points.T * mu) @ points)
    return 0.5 * float(np.sqrt(np.maximum(values, 0.0)).sum())


def _touch(points: FloatArray, mu: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
    """``a_k^T M^(-1/2) a_k / 2`` of every point, and the Hessian on demand."""
    values, vectors = np.linalg.eigh((points.T * mu) @ points)
    roots = np.sqrt(np.maximum(values, _AXIS_FLOOR**2 * values[-1]))
    turned = points @ vectors

    def hessian() -> FloatArray:
        theta = 0.5 / (np.outer(roots, roots) * np.add.outer(roots, roots))
        pairs = turned[:, :, None] * turned[:, None, :] * np.sqrt(theta)
        upper = np.triu_indices(len(roots), 1)
        flat = np.concatenate(
            [np.einsum("kii->ki", pairs), np.sqrt(2.0) * pairs[:, upper[0], upper[1]]], axis=1
        )
        return flat @ flat.T

    return 0.5 * (turned**2) @ (1.0 / roots), hessian


def _to_boundary(values: FloatArray, step: FloatArray) -> float:
    """Longest step, a little shortened, that keeps positive values positive."""
    falling = step < 0.0
    return 0.99 * float(np.min(-values[falling] / step[falling])) if np.any(falling) else 1.0


# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21
# Share of its mean below which no eigenvalue of Z lies: where nothing leaks, noise is not wanted.
_FLOOR = 1e-8
# Weight, relative to the mean, below which an atom is dropped that does not touch the ellipsoid,
# and how close, relative to the one that sticks out most, it touches.
_NEGLIGIBLE = 1e-2
_TOUCHING = 1e-6
# Most directions of one record that a pass adds.
_DIRECTIONS = 8


@dataclass(frozen=True)
class MinimaxShape:
    """The exact minimax shape of the noise, for leakage through the mean. Confidential.

    Parameters
    ----------
    shape : ndarray of shape (p, p)
        ``S`` with trace p. It depends on the training data, and leaks: see the module.
    largest : float
        Largest loss of a record, by the mean of the release, under noise S scaled to an expected
        rise of the training objective of ``p / (2 N)``, as noise of covariance A has it.
    lower_bound : float
        No shape has a smaller one at this rise.
    n_iter : int
        Passes over the records.
    converged : bool
        Whether the gap reached the tolerance.
    support : ndarray of int of shape (k,)
        Records that determine the shape.

    Examples
    --------
    >>> import numpy as np
    >>> MinimaxShape(np.eye(2), 1.02, 1.0, 3, True, np.arange(2)).gap
    0.02
    """

    shape: FloatArray
    largest: float
    lower_bound: float
    n_iter: int
    converged: bool
    support: IntArray

    @property
    def gap(self) -> float:
        """Relative gap of the largest loss to its lower bound."""
        return round(self.largest / self.lower_bound - 1.0, 12) if self.lower_bound > 0.0 else 0.0


def minimax_shape(
    estimator_state: Any, columns: Columns | None = None, *, tol: float = 1e-4, max_iter: int = 60
) -> MinimaxShape:
    """Find the exact minimax shape: that with the smallest largest leakage of a training record.

    Pass a model that was fitted on *public* records, and its ``shape`` as ``noise_covariance`` to
    the estimator that is fitted on confidential ones. A shape found on the confidential records
    follows single ones of them, and reveals more than it hides. ``noise_covariance="minimax"`` is
    not this shape but the one with equal weights of all records in the place of the least
    favorable ones; ``lower_bound`` certifies how close to the best a shape is.

    Parameters
    ----------
    estimator_state : FitState or fitted private estimator
        State of the fit. Its reweighting factors are held fixed, and its own noise plays no part.
    columns : Columns, default=None
        What is unknown of each record; by default the whole record.
    tol : float, default=1e-4
        Relative gap between the largest loss and its lower bound at which to stop.
    max_iter : int, default=60
        Most passes over the records.

    Returns
    -------
    MinimaxShape
        Always a valid shape, with a valid lower bound; ``converged`` is True if they meet.

    Notes
    -----
    The leakage minimized is that through the mean of the release, as if the shape were public;
    what a shape computed from the training data leaks by itself is not counted. The start is the
    shape of the curvature. A pass costs what `record_norms` costs, O(n p^2), and Newton steps of
    O(m^2 p^2) for the m points that stick out, a few hundred.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=50)
    >>> public = PrivateLinearRegression(1.0, alpha=0.1).fit(X[:25], y[:25])
    >>> found = minimax_shape(public)
    >>> found.converged, bool(found.gap <= 1e-4)
    (True, True)
    >>> model = PrivateLinearRegression(1.0, alpha=0.1, noise_covariance=found.shape)
    >>> model.fit(X[25:], y[25:]).noise_scale_
    1.0
    """
    state: FitState = getattr(estimator_state, "_confidential_state", lambda: estimator_state)()
    records = _Records.of(state, state.whole_record if columns is None else columns)
    p = len(records.root)
    best_z, squares = np.eye(p), records.squares(np.eye(p))
    best, bound, value, n_iter = float(squares.max(initial=0.0)), 0.0, 0.0, 0
    atoms, rows, weights, z = np.empty((0, p)), np.empty(0, dtype=np.intp), np.empty(0), best_z
    while n_iter < max_iter and best > (1.0 + tol) ** 2 * bound:
        n_iter += 1
        new, new_rows = records.atoms(z, squares, value)
        atoms, rows = np.concatenate([atoms, new]), np.concatenate([rows, new_rows])
        weights = np.concatenate(
            [weights, np.full(len(new), 0.1 * weights.mean() if len(weights) else 1.0)]
        )
        # On so few atoms the design costs little: it is solved closer than the gap that is left.
        gap = best / bound - 1.0 if bound > 0.0 else 1.0
        weights = enclosing_design(atoms, weights, tol=float(np.clip(0.1 * gap, 0.1 * tol, 1e-2)))
        z, value = _ellipsoid(atoms, weights)
        squares = records.squares(z)
        bound = max(bound, value)
        if squares.max() < best:
            best, best_z = float(squares.max()), z
        kept = _keep(atoms, weights, z)
        atoms, weights, rows = atoms[kept], weights[kept], rows[kept]
    shape = records.root @ best_z @ records.root.T
    shape = 0.5 * (shape + shape.T)
    return MinimaxShape(
        shape * (p / np.trace(shape)),
        float(np.sqrt(best)),
        float(np.sqrt(min(bound, best))),
        n_iter,
        bool(best <= (1.0 + tol) ** 2 * bound) or best == 0.0,
        np.unique(rows[weights > _NEGLIGIBLE * weights.max(initial=0.0)]),
    )


def _ellipsoid(atoms: FloatArray, weights: FloatArray) -> tuple[FloatArray, float]:
    """``Z`` with trace p from a design, and the lower bound that the design proves."""
    values, vectors = np.linalg.eigh((atoms.T * weights) @ atoms)
    half_axes = np.sqrt(np.maximum(values, 0.0))
    bound = half_axes.sum() ** 2 / (weights.sum() * len(values))
    axes = np.maximum(half_axes, _FLOOR * half_axes.mean())
    return (vectors * (axes * (len(axes) / axes.sum()))) @ vectors.T, float(bound)


def _keep(atoms: FloatArray, weights: FloatArray, z: FloatArray) -> IntArray:
    """Atoms that carry weight, or that touch the ellipsoid all the same."""
    touch = np.einsum("ki,ki->k", atoms, np.linalg.solve(z, atoms.T).T)
    used = weights > _NEGLIGIBLE * weights.mean()
    return np.flatnonzero(used | (touch >= (1.0 - _TOUCHING) * touch.max()))


@dataclass(frozen=True)
class _Records:
    """Training records in whitened coordinates."""

    state: FitState
    columns: Columns
    root: FloatArray  # L
    rows: IntArray  # those that take part
    X: Data
    y: FloatArray
    factors: FloatArray  # s omega

    @classmethod
    def of(cls, state: FitState, columns: Columns) -> "_Records":
        objective = state.objective
        rows = np.flatnonzero(objective.weights > 0.0)
        return cls(
            state,
            columns,
            inverse_hessian_root(state),
            rows,
            objective.X[rows],
            objective.y[rows],
            objective.weights[rows],
        )

    def squares(self, z: FloatArray) -> FloatArray:
        """``lambda_max(N_i^T Z^-1 N_i)`` of every record, of shape (n,)."""
        values, vectors = np.linalg.eigh(z)
        response = (vectors / np.sqrt(values)).T @ self.root.T
        shaped = self.state.factor.with_response(response)
        norms = record_norms(shaped, self.X, self.y, self.columns)
        return (norms * self.factors) ** 2

    def jacobians(self, which: IntArray) -> FloatArray:
        """``N_i`` of some records, of shape (b, p, k)."""
        shaped = self.state.factor.with_response(self.root.T)
        X = self.X[which]
        dense = shaped.jacobian(dense_rows(X, slice(None)), self.y[which])
        d = self.state.n_features
        result = dense[:, :, :d] @ self.columns.basis(d)
        if self.columns.target:
            result = np.concatenate([result, dense[:, :, d:]], axis=2)
        return result * self.factors[which, None, None]

    def atoms(
        self, z: FloatArray, squares: FloatArray, above: float
    ) -> tuple[FloatArray, IntArray]:
        """Points in which the records that stick out most do so, and their owners."""
        out = np.flatnonzero(squares > above)
        limit = 2 * len(self.root)
        if len(out) > limit:
            out = out[np.argpartition(squares[out], -limit)[-limit:]]
        values, vectors = np.linalg.eigh(z)
        half = (vectors / np.sqrt(values)).T
        found, owners, lengths = (
            [np.empty((0, len(z)))],
            [np.empty(0, dtype=np.intp)],
            [np.empty(0)],
        )
        for some in row_blocks(len(out), len(z) * (self.state.n_features + 1), _ELEMENTS):
            jacobians = self.jacobians(out[some])
            shaped = half @ jacobians
            sizes, directions = np.linalg.eigh(shaped.transpose(0, 2, 1) @ shaped)
            # Only the few largest of each record: the others may follow in a later pass.
            sizes, directions = sizes[:, -_DIRECTIONS:], directions[:, :, -_DIRECTIONS:]
            sticking = sizes > above
            found.append((jacobians @ directions).transpose(0, 2, 1)[sticking])
            lengths.append(sizes[sticking])
            owners.append(np.repeat(self.rows[out[some]], sticking.sum(axis=1)))
        order = np.argsort(-np.concatenate(lengths), kind="stable")[: 2 * len(z)]
        return np.concatenate(found)[order], np.concatenate(owners)[order]


# Ratio of eigenvalues of L^T B L below which five digits of the smallest may be lost.
_SINGULAR = 1e-11


@dataclass(frozen=True)
class Counting:
    """Count records in the moments B, of which a shape ``A # A B A`` is made."""

    name: str
    power: int  # of the weight of a record
    target: float  # 1.0, or 0.0 where the target does not count

    @classmethod
    def of(cls, name: str, state: FitState) -> "Counting":
        """Return that of a shape by name."""
        if name == "least_mean":
            return cls(name, 2, float(state.private_target))
        return cls(name, 1, 1.0)

    def more(self, s: FloatArray) -> FloatArray:
        """Weights in B of records of weights s over these weights."""
        return s ** (self.power - 1)

    def weights(
        self, r: FloatArray, c: FloatArray, q: FloatArray, length: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``alpha``, ``beta`` and ``gamma`` of records in the formula of B."""
        return c**2 * length + self.target * q**2, c * r, r**2

    def check(self, objective: Objective) -> None:
        """Refuse reweighting factors, whose dependence on the data is not counted."""
        factors = Blocks.of(objective.reweights, objective.sample_weight, width=1)
        if factors.map_reduce(_any_factor, add):
            raise ValueError(
                f"The {self.name} shape is for fits without a reweighting; got factors other than "
                "1. Use isotropic noise, or drop the reweighting."
            )

    def axes(self, moments: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues ``z^2`` and eigenvectors of ``L^T B L``, of one fit or of many.

        Returns ``values`` (..., p): ascending, all positive; ``vectors`` (..., p, p).
        """
        values, vectors = np.linalg.eigh(moments)
        if not np.all(values[..., 0] > _SINGULAR * values[..., -1]):
            raise ValueError(
                f"The {self.name} shape of the noise is singular: there are directions in which no "
                "record moves the model, as with one sample, or with a target that is constant or "
                "fitted without an error. How much noise they get would then hang on single "
                "records. Use `noise_covariance='curvature'` or 'isotropic'."
            )
        return values, vectors


def _any_factor(reweights: FloatArray, s: FloatArray) -> int:
    """Count the records of a block that take part and have a factor other than 1."""
    return int(np.sum(reweights[s > 0.0] != 1.0))
