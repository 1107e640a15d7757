"""The exact minimax shape: the largest leakage as small as it can be, at a given loss of accuracy.

    minimise over S   max_i lambda_max(J_i^T S^-1 J_i)     subject to   tr(H S) = p

over positive definite ``S``. Each ``v^T J^T S^-1 J v`` is a matrix fractional function, convex in
S, so that their supremum is convex; the constraint, an equal expected rise of the training
objective, is linear. In whitened coordinates (``A = L L^T``, ``Z = L^-1 S L^-T``,
``N_i = L^-1 J_i``) it asks for the smallest ellipsoid, by the sum ``tr Z`` of its squared half
axes, that holds every ``N_i v`` with ``|v| = 1`` (see `_design`). In the original
coordinates its optimum is the geometric mean of A and ``sum J_i Y_i J_i^T``, up to a factor, for
some weights ``Y_i``. Any weights give a lower bound on what any S can reach, and any Z an upper
bound: their gap certifies the solution. Points are generated: the ellipsoid is found for a few,
and the records that stick out of it give new ones.

The leakage minimised is that through the mean of the release. A shape computed from the training
data leaks as well, and this one follows single records: on IWPC (alpha=1e-2, whole record) two
records determine it. One of them has a loss of 0.54 through the shape alone, at any noise scale,
by differences of the whole solution; where noise raises the objective by more than 0.0023, that is
more than its loss through the mean, and from 0.006 on the curvature of the fit itself, which
depends on no record much, has the smaller largest loss with both terms counted
(`covariance_losses`). So release with a shape that was found on public records, not with this one;
or with `noise_covariance="minimax"`, which has equal weights in the place of the least favourable
ones (`_minimax_coordinates`), is no record's own, and accounts for what it leaks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.influence.jacobian import Columns, record_norms
from skleak.influence.noise._covariance import inverse_hessian_root
from skleak.influence.noise._design import enclosing_design
from skleak.influence.state import FitState
from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._typing import Data, FloatArray, IntArray

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
    estimator_state: Any,
    columns: Columns | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 60,
) -> MinimaxShape:
    """Find the exact minimax shape: that with the smallest largest leakage of a training record.

    Pass a model that was fitted on *public* records, and its ``shape`` as ``noise_covariance`` to
    the estimator that is fitted on confidential ones. A shape found on the confidential records
    follows single ones of them, and reveals more than it hides. ``noise_covariance="minimax"`` is
    not this shape but the one with equal weights of all records in the place of the least
    favourable ones; ``lower_bound`` certifies how close to the best a shape is.

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
    The leakage minimised is that through the mean of the release, as if the shape were public;
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
    atoms, rows = records.first_atoms()
    weights, z = np.ones(len(atoms)), best_z
    while n_iter < max_iter and best > (1.0 + tol) ** 2 * bound:
        n_iter += 1
        new, new_rows = records.atoms(z, squares, max(value, 0.5 * best if n_iter == 1 else 0.0))
        atoms, rows = np.concatenate([atoms, new]), np.concatenate([rows, new_rows])
        weights = np.concatenate([weights, np.full(len(new), 0.1 * weights.mean())])
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

    def blocks(self, which: IntArray) -> Iterator[IntArray]:
        size = len(self.root) * (self.state.n_features + 1)
        for rows in row_blocks(len(which), size, _ELEMENTS):
            yield which[rows]

    def first_atoms(self) -> tuple[FloatArray, IntArray]:
        """For every whitened coordinate the record that moves most along it, as one atom."""
        p = len(self.root)
        largest, atoms = np.zeros(p), np.zeros((p, p))
        owners = np.zeros(p, dtype=np.intp)
        coordinates = np.arange(p)
        for which in self.blocks(np.arange(len(self.rows))):
            jacobians = self.jacobians(which)
            sizes = np.einsum("bpk,bpk->bp", jacobians, jacobians)
            top = sizes.argmax(axis=0)
            better = sizes[top, coordinates] > largest
            for j in np.flatnonzero(better):
                edge = jacobians[top[j], j]
                largest[j] = sizes[top[j], j]
                atoms[j] = jacobians[top[j]] @ (edge / np.sqrt(largest[j]))
                owners[j] = self.rows[which[top[j]]]
        found = largest > 0.0
        return atoms[found], owners[found]

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
        for which in self.blocks(out):
            jacobians = self.jacobians(which)
            shaped = half @ jacobians
            sizes, directions = np.linalg.eigh(shaped.transpose(0, 2, 1) @ shaped)
            # Only the few largest of each record: the others may follow in a later pass.
            sizes, directions = sizes[:, -_DIRECTIONS:], directions[:, :, -_DIRECTIONS:]
            sticking = sizes > above
            points = (jacobians @ directions).transpose(0, 2, 1)[sticking]
            found.append(points)
            lengths.append(sizes[sticking])
            owners.append(np.repeat(self.rows[which], sticking.sum(axis=1)))
        order = np.argsort(-np.concatenate(lengths), kind="stable")[: 2 * len(z)]
        return np.concatenate(found)[order], np.concatenate(owners)[order]
