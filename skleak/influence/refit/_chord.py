"""Minimizers of changed objectives: one by one to rounding, and many at once by Newton's method.

A minimizer that is not reached is NaN: a number in its place might be too near.

Newton steps on many changed objectives at once, each with a Hessian of its own.

One matrix product over the records gives the Hessians of all of them: it weighs the outer products
of the records by the curvatures of each objective. They are taken in coordinates in which the
Hessian of the fit is the identity, so that nothing depends on the units of the columns.

How far one changed entry of a record moves the minimizer, by one Newton step, for all records.

With ``x' = x + t e_j`` the change of the gradient, ``k (r' x' - r x)``, and that of the Hessian,
``k (c' x' x'^T - c x x^T)``, lie in the span of ``V = [x~, e_j]``, so that the step is

    delta = -A V q,    q = (I + M V^T A V)^-1 g ,
    g = k [r' - r, r' t],    M = k [[c' - c, c' t], [c' t, c' t^2]] ,

and all distances follow from the 2 x 2 products of ``A x~`` and ``A e_j``. Exact for the squared
loss; for others it says which records to solve for. What it errs by is bounded: with ``E`` the
length of the step in the norm of H', the Hessian with the change, and ``rho`` the largest length
of a record in that of its inverse, no predictor moves by more than ``T = rho E``. The third
derivative of a loss is at most its curvature, which changes by at most ``exp(|t|)`` over a move t.
So the gradient after the step is at most ``T exp(T) E / 2``, the Hessian at a distance r from there
at least ``exp(-T - rho r) H'``, and the minimizer, by integration along the way to it, within

    r <= -log(1 - q) / rho <= q E / (T (1 - q)) ,      q = T^2 exp(2 T) / 2 .
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
from scipy import linalg

from skleak.exceptions import NoMinimizerWarning
from skleak.influence.noise import mean_factor, noise_root, triangular_root
from skleak.influence.state import FitState, RecordBatch
from skleak.solvers import Objective, SingularHessianError, is_minimum, is_settled, minimize
from skleak.utils._blocks import BLOCK_ELEMENTS, Blocks, add, is_large, row_blocks
from skleak.utils._linalg import SingularMatrixError, augment
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import BoolArray, Data, FloatArray, IntArray

# Relative error by rounding of a step by Woodbury's formula, from which on chord steps prove
# nothing.
LOST = 1e-3
# How many times the estimate of it may fall short.
SAFETY = 10.0
# Last move, relative to a step, at which a refit is exact, and up to which it counts as reached.
_EXACT, _REACHED = 1e-9, 1e-6
_MOST_CORRECTIONS, _WORSE = 12, 10.0


@dataclass(frozen=True)
class ChangedHessian:
    """``H' = H + U D U^T`` of b objectives, with U of low rank, inverted by Woodbury."""

    inverse: FloatArray  # A, the inverse of H, (p, p)
    basis: FloatArray  # A U, (b, r, p)
    core: FloatArray  # (I + D U^T A U)^-1 D, (b, r, r)

    def take(self, which: IntArray) -> "ChangedHessian":
        """Those of some objectives."""
        return ChangedHessian(self.inverse, self.basis[which], self.core[which])

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Solve ``H' x = gradient`` for every objective, of shape (b, p)."""
        if self.basis.shape[1] == 1:
            basis = self.basis[:, 0]
            along = self.core[:, 0, 0] * np.einsum("ij,ij->i", basis, gradient)
            found = basis * along[:, None]
        else:
            correction = self.core @ (self.basis @ gradient[:, :, None])
            found = (self.basis.transpose(0, 2, 1) @ correction)[:, :, 0]
        return np.asarray(gradient @ self.inverse - found)


def refitted_step(objective: Objective, w: FloatArray) -> FloatArray:
    """Step from ``w`` to the minimizer of an objective, (p,); NaN where none is reached.

    The difference of two minimizers has the rounding of both. Newton's steps on gradients whose
    change is computed from the step itself take it out.
    """
    # One record moves it little; where it moves it far, Newton's steps from there lead nowhere.
    here = objective.at(w)
    starts: list[FloatArray | None] = [w, None] if np.isfinite(here.value) else [None]
    for start in starts:
        try:
            found = minimize(objective, start=start)
            # With a penalty there is a minimizer, and the gradient says where.
            bounded = objective.alpha > 0.0 and np.isfinite(found.coefficients).all()
            if not (found.converged or bounded):
                continue
            there = objective.at(found.coefficients)
            hessian = there.hessian
        except (SingularHessianError, SingularMatrixError):
            continue
        step, last, most = found.coefficients - w, np.inf, there.value + _REACHED * abs(there.value)
        # Where the fit is so bad that its gradient is known worse than that after the step.
        far = not here.gradient_round_off <= _WORSE * there.gradient_round_off
        for _ in range(_MOST_CORRECTIONS):
            with np.errstate(over="ignore", invalid="ignore"):
                if far:
                    gradient = objective.total * objective.at(w + step).gradient
                else:
                    gradient = objective.gradient_changes(w, step[None])[0]
                    gradient += objective.total * here.gradient
            if not np.isfinite(gradient).all():
                break
            change = hessian.solve(gradient)
            moved, size = float(np.linalg.norm(change)), float(np.linalg.norm(step))
            if not moved < last:
                break
            step, last = step - change, moved
            if moved <= _EXACT * size:
                break
        # Corrections that lead far away become small beside the step, but lead uphill.
        if last <= _REACHED * np.linalg.norm(step) and objective.at(w + step).value <= most:
            return step
    return np.full_like(w, np.nan)


def rounding_left(objective: Objective, w: FloatArray) -> FloatArray:
    """Step from a fit ``w`` to its minimizer, which rounding keeps it from, (p,)."""
    here = objective.at(w)
    try:
        return -here.hessian.solve(here.gradient) * objective.total
    except SingularMatrixError:
        return np.zeros_like(w)


def factor_rounding(objective: Objective, w: FloatArray, inverse: FloatArray) -> float:
    """Estimate the relative error by rounding of the inverse Hessian (p, p) of an objective.

    Cholesky's factor has that of the condition number, with the columns in units of their own: at
    least the largest ``H_jj A_jj``, which one record that outweighs all others makes large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        condition = float(np.max(objective.hessian_diagonal(w) * np.diag(inverse), initial=0.0))
    error = SAFETY * np.finfo(float).eps * len(w) * condition
    return error if np.isfinite(error) else np.inf


def error_left(size: FloatArray, last: FloatArray, rate: "FloatArray | float" = 0.0) -> FloatArray:
    """Estimate what is left to go after a chord step, from its size and that of the one before.

    The iteration is linear: the next step would be smaller than this one by the same factor as
    this one than the last, or by ``rate``, which is known to be no less. A slow one proves nothing,
    nor does one after a step of length zero.
    """
    ratio = np.divide(size, last, out=np.full_like(size, np.inf), where=last > 0.0)
    ratio = np.maximum(ratio, rate)
    return size * np.where(ratio < 0.5, ratio, 1.0)


def unreached(encodings: FloatArray) -> BoolArray:
    """Mask of the records of which some encoding is not known, (n,) of (n, n_values, p)."""
    return np.asarray(np.isnan(encodings).any(axis=(1, 2)))


def warn_of_unreached(encodings: FloatArray) -> None:
    """Say of how many records some encoding is not known."""
    lost = int(unreached(encodings).sum())
    if lost:
        warnings.warn(
            f"{lost} of {len(encodings)} records: with some other value in place of the actual one "
            "the training objective has no unique minimizer that could be reached. The encodings "
            "there are NaN, and nothing bounds what a release tells of these values. Raise "
            "`alpha`, or leave out values far from all others; where all labels would be equal, "
            "or a class be gone, pass more records of each class, or declare `classes`.",
            NoMinimizerWarning,
            stacklevel=outer_stacklevel(),
        )


def check_reached(encodings: FloatArray, what: str, error: type[ValueError] = ValueError) -> None:
    """Raise where something cannot be told, as some encodings (n, n_values, p) are not known."""
    lost = int(unreached(encodings).sum())
    if lost:
        raise error(
            f"{what} cannot be found: for {lost} of {len(encodings)} records the training "
            "objective with some other value in place of the actual one has no unique minimizer "
            "that could be reached. Raise `alpha`, or leave out values that are far from all "
            "others."
        )


# Entries of the tables of a block of records, or of objectives: 32 MB.
_ELEMENTS = 1 << 22
# Points at which a gradient is taken. Whatever takes longer is left to a minimization of its own.
_MOST_POINTS = 40
_EXTRA_STEPS = 3
_TOLERANCE = 1e-10  # of a minimization alone
# Condition of a Hessian up to which a Newton step tells how far a minimizer is. Where classes are
# separable there is none: the Hessian fades, and what rounding leaves of it says that all is well.
_LARGEST_CONDITION = 1e10


@dataclass(frozen=True)
class NewtonBatch:
    """Objectives of one predictor in which some records go and others come, about a fit."""

    objective: Objective
    w: FloatArray  # minimizer of the fit, (p,)
    inverse: FloatArray  # A, (p, p)
    rows: IntArray  # of the records that go, (b, k); -1 for none
    new: FloatArray  # those that come, with the constant of an intercept, (b, m, p)
    weight: FloatArray  # their weights, 0 for none, (b, m)
    # Unnormalized gradients of some objectives at steps from the fit, (k, p).
    gradient: Callable[[IntArray, FloatArray], FloatArray]

    def steps(self) -> FloatArray:
        """Return the steps from the fit to the minimizers, (b, p); NaN where none was reached."""
        n, p = self.objective.X.shape[0], len(self.w)
        found = np.full((len(self.new), p), np.nan)
        if is_large(self.objective.X) or 2 * max(n, p * p) > _ELEMENTS:
            return found
        root = triangular_root(self.objective, self.w, self.inverse)
        for block in row_blocks(len(found), max(n, p * p), _ELEMENTS):
            self._solve(np.arange(len(found))[block], root, found)
        return found

    def _solve(self, pending: IntArray, root: FloatArray, found: FloatArray) -> None:
        """Put in the steps of a block of objectives."""
        total = self.objective.total
        at, direction, gradient = (np.zeros_like(found) for _ in range(3))
        length, extra = np.ones(len(found)), np.zeros(len(found), dtype=int)
        gradient[pending] = self.gradient(pending, at[pending])
        direction[pending] = self._directions(pending, at[pending], gradient[pending], root)
        for _ in range(_MOST_POINTS):
            pending = pending[np.isfinite(direction[pending]).all(axis=1)]
            if not len(pending):
                return
            trial = at[pending] + length[pending, None] * direction[pending]
            there = self.gradient(pending, trial)
            norm = np.linalg.norm(there, axis=1) / total
            # Along a line the slope of a convex function rises: where it is not far above zero,
            # the step went down, or not far past the lowest point.
            slope = np.einsum("ij,ij->i", gradient[pending], direction[pending])
            after = np.einsum("ij,ij->i", there, direction[pending])
            good = (after <= 0.5 * np.abs(slope)) | (norm <= _TOLERANCE)
            length[pending] *= 0.5
            some, norm = pending[good], norm[good]
            if not len(some):
                continue
            at[some], gradient[some], length[some] = trial[good], there[good], 1.0
            direction[some] = self._directions(some, at[some], gradient[some], root)
            low = norm <= _TOLERANCE
            move, size = self._moves(some[low], at[some[low]], direction[some[low]])
            reached = is_minimum(norm[low], move, size, _TOLERANCE)
            done = reached & (is_settled(move, size) | (extra[some[low]] == _EXTRA_STEPS))
            extra[some[low]] += reached
            over = some[low][done]
            found[over] = at[over] + direction[over]
            pending = np.setdiff1d(pending, over)

    def _directions(
        self, which: IntArray, at: FloatArray, gradient: FloatArray, root: FloatArray
    ) -> FloatArray:
        """Newton steps of some objectives, (k, p); NaN where a Hessian is nearly singular."""
        objective, p = self.objective, len(root)
        loss, points = objective.loss, self.w + at
        upper = np.triu_indices(p)

        def sums(X: FloatArray, weights: FloatArray, position: IntArray) -> FloatArray:
            x = augment(X, objective.fit_intercept)
            c = weights[:, None] * loss.curvature(x @ points.T)
            c[self._replaced(which, position)] = 0.0
            white = x @ root
            return c.T @ (white[:, upper[0]] * white[:, upper[1]])

        records = objective.X, objective.weights, np.arange(len(objective.y))
        width = max(len(upper[0]), len(which))
        blocks = Blocks.of(*records, width=width, elements=_ELEMENTS)
        entries = blocks.map_reduce(sums, add)
        weight = self.weight[which]
        own = np.where(weight > 0.0, np.einsum("ijk,ik->ij", self.new[which], points), 0.0)
        own, white = weight * loss.curvature(own), self.new[which] @ root
        squares = white.transpose(0, 2, 1) @ (own[:, :, None] * white)
        entries += squares[:, upper[0], upper[1]]
        hessian = np.empty((len(which), p, p))
        hessian[:, upper[0], upper[1]] = hessian[:, upper[1], upper[0]] = entries
        hessian += objective.total * (root.T * objective.penalty) @ root
        try:
            inverse = np.linalg.inv(hessian)
        except np.linalg.LinAlgError:  # of any of them
            return np.full_like(at, np.nan)
        condition = np.linalg.norm(hessian, axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
        found = -np.einsum("kij,kj->ki", inverse, gradient @ root) @ root.T
        return np.where((condition <= _LARGEST_CONDITION)[:, None], found, np.nan)

    def _moves(
        self, which: IntArray, at: FloatArray, step: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Largest change of a predictor by steps, and largest predictor, (k,) each."""
        objective, k = self.objective, len(which)
        both = np.concatenate([step, self.w + at])

        def largest(X: FloatArray, position: IntArray) -> FloatArray:
            table = np.abs(augment(X, objective.fit_intercept) @ both.T)
            rows, columns = self._replaced(which, position)
            table[rows, columns] = table[rows, columns + k] = 0.0
            return table.max(axis=0, initial=0.0)

        records = objective.X, np.arange(len(objective.y))
        blocks = Blocks.of(*records, width=2 * k, elements=_ELEMENTS)
        put = self.new[which] * (self.weight[which] > 0.0)[:, :, None]
        own = np.abs(np.einsum("ijk,ik->ij", np.tile(put, (2, 1, 1)), both)).max(axis=1)
        found = np.maximum(blocks.map_reduce(largest, np.maximum), own)
        return found[:k], found[k:]

    def _replaced(self, which: IntArray, position: IntArray) -> tuple[IntArray, IntArray]:
        """Positions, in a block of records by objectives, of the records that are replaced."""
        rows = self.rows[which]
        inside = np.nonzero((rows >= position[0]) & (rows <= position[-1]))
        return rows[inside] - position[0], inside[0]


def third_derivatives(objective: Objective, third: FloatArray) -> FloatArray:
    """Third derivatives of the losses of all records, (p, p, p).

    Shapes: ``third`` (n,), third derivatives in predictor space, times the weights.
    """
    fit_intercept, p = objective.fit_intercept, objective.n_parameters  # no records may travel

    def tensors(X: FloatArray, third: FloatArray) -> FloatArray:
        x, tensor = augment(X, fit_intercept), np.empty((p, p, p))
        weighted = third[:, None] * x
        for j in range(p):
            own = (weighted[:, [j]] * x[:, j:]).T @ x[:, j:]
            tensor[j, j:, j:] = tensor[j:, j, j:] = tensor[j:, j:, j] = own
        return tensor

    # Of many columns a tensor costs as much as many records.
    blocks = Blocks.of(objective.X, third, width=p, elements=max(BLOCK_ELEMENTS, p**3))
    return blocks.map_reduce(tensors, add)


def second_order(steps: FloatArray, tensor: FloatArray) -> FloatArray:
    """Second-order part of the gradient after steps (b, p) from a minimum, (b, p)."""
    p = steps.shape[1]
    flat = tensor.reshape(p, p * p)

    def contracted(steps: FloatArray) -> FloatArray:
        once = (steps @ flat).reshape(len(steps), p, p)
        return 0.5 * np.einsum("bjk,bk->bj", once, steps)

    return Blocks.of(steps, width=p * p).map(contracted)


def contraction_form(
    objective: Objective, curvature: FloatArray, inverse: FloatArray
) -> FloatArray:
    """Quadratic form (p, p) of a step that bounds how its error falls from order to order, squared.

    Third and fourth derivatives of the losses are at most the curvature. In the norm of the
    Hessian the change of a prediction is ``|x.step| <= sqrt(x.A x) |step|``, so that the terms of
    the next two orders, ``sum c (x.step)^2 x`` and ``sum c |x.step|^3 x``, are at most ``f |step|``
    and ``f^2 |step|`` with ``f^2 = sum c (x.A x) (x.step)^2``.

    Shapes: ``curvature`` (n,), in predictor space, times the weights; ``inverse`` (p, p), A.
    """
    fit_intercept = objective.fit_intercept

    def forms(X: FloatArray, curvature: FloatArray) -> FloatArray:
        x = augment(X, fit_intercept)
        reach = np.einsum("ij,ij->i", x @ inverse, x)
        return x.T @ ((curvature * reach)[:, None] * x)

    blocks = Blocks.of(objective.X, curvature, width=objective.n_parameters)
    form: FloatArray = blocks.map_reduce(forms, add)
    return form


# Pairs of values, over all records, that are compared.
_MOST_PAIRS = 2e7
# Entries of the tables of a block of records and columns: 64 KB, of which there are many.
_ENTRIES = 1 << 13
# What rounding may take from an energy, and from what is left of a Hessian.
_ROUNDED = 1e-7
# How the entries x of k columns change, by ``start + slope x``: start (k,), and slope.
Move = tuple[FloatArray, float]


def centered_state(state: FitState) -> tuple[FitState, FloatArray | None]:
    """Return the same fit with columns far from zero centred, and what was subtracted, (d,)."""
    shift = state.objective.far_means()
    if shift is None:
        return state, None
    objective = state.objective.shifted(shift)
    w = objective.moved(state.factor.coefficients, shift)
    try:
        inverse = objective.at(w).hessian.inverse()
    except SingularMatrixError:
        return state, None
    factor = replace(state.factor, coefficients=w, inverse_hessian=inverse, shaped=None)
    return replace(state, objective=objective, factor=factor), shift


def whitened(state: FitState, points: FloatArray) -> FloatArray:
    """Parameters of shape (..., p) in coordinates in which the noise is isotropic.

    At the covariance of this fit, where that is a function of the records.
    """
    if not state.noise.reads_data:
        return state.noise.whitened(points)
    root = noise_root(state)
    flat = linalg.solve_triangular(
        root, points.reshape(-1, len(root)).T, lower=True, check_finite=False
    )
    return np.asarray(flat.T.reshape(points.shape))


def way_left(energy: FloatArray, rho: "FloatArray | float") -> FloatArray:
    """Bound the way from one Newton step to the minimizer, in the norm of H', like ``energy``.

    Shapes: ``energy``, E, of any; ``rho``; see above. Zero where the step is, infinite where no
    bound holds.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        t = rho * energy
        q = 0.5 * t * t * np.exp(2.0 * t)
        left = np.where(q < 1.0, q * energy / (t * (1.0 - q)), np.inf)
    # Where the step is zero, the record says nothing, however long the others are.
    return np.where(energy > 0.0, left, 0.0)


def largest_leverage(state: FitState) -> float:
    """Largest ``x~^T A x~`` of the records that take part in a fit with one predictor."""
    centered, shift = state.once(centered_state)
    objective, inverse = state.objective, centered.factor.inverse_hessian
    fit_intercept = objective.fit_intercept

    def largest(X: FloatArray, weights: FloatArray) -> FloatArray:
        x = augment(less(X[weights > 0.0], shift), fit_intercept)
        return np.einsum("ij,ij->i", x @ inverse, x).max(initial=0.0, keepdims=True)

    blocks = Blocks.of(objective.X, objective.weights, width=len(inverse))
    return float(blocks.map_reduce(largest, np.maximum)[0])


def less(X: FloatArray, shift: FloatArray | None) -> FloatArray:
    """Return records less what is subtracted from all of them, if anything is."""
    return X if shift is None else X - shift


@dataclass(frozen=True)
class OneStep:
    """Records of a fit with one predictor, prepared for changes of single entries. Confidential.

    With columns far from zero centered, as the errors by rounding are relative to their means.
    Lengths are those over the noise at scale 1.
    """

    state: FitState
    X: Data
    y: FloatArray
    weight: FloatArray  # ``k``, (n,)
    predictor: FloatArray  # ``x~ . w``, (n,)
    leverage: FloatArray  # ``x~^T A x~``, (n,)
    length: FloatArray  # ``|A x~|^2``, (n,)
    response: FloatArray  # ``A S^-1 A``, (p, p)
    longest: float  # largest leverage of a record of the fit; infinite where it is not known
    shift: FloatArray | None  # what the fit has subtracted from the records, (d,)

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch, longest: float = np.inf) -> Self:
        """Prepare records, with the part that they take in the fit."""
        state.factor.check_one_predictor()
        shaped = mean_factor(state).response
        response = shaped.T @ shaped
        centered, shift = state.once(centered_state)
        factor = centered.factor
        if shift is not None:  # the noise is that of the parameters of the fit itself
            images = whitened(state, state.objective.moved(factor.inverse_hessian, -shift))
            response = images @ images.T

        def measured(X: FloatArray, y: FloatArray) -> FloatArray:
            x = factor.derivatives(less(X, shift), y)[0]
            leverage = np.einsum("ij,ij->i", x @ factor.inverse_hessian, x)
            length = np.einsum("ij,ij->i", x @ response, x)
            return np.stack([x @ factor.coefficients, leverage, length], axis=1)

        found = Blocks.of(batch.X, batch.y).map(measured)
        predictor, leverage, length = found.T
        given = centered, batch.X, batch.y, batch.factors, predictor, leverage, length, response
        return cls(*given, longest, shift)

    @cached_property
    def _variance(self) -> float:
        """Largest ``|A^1/2 v|^2`` over the noise, of a v of length 1."""
        inverse = self.state.factor.inverse_hessian
        try:  # |v|^2 over the noise is v^T H (A S^-1 A) H v
            root = linalg.cholesky(inverse, lower=True)
            left = linalg.solve_triangular(root, self.response, lower=True)
            square = linalg.solve_triangular(root, left.T, lower=True)
        except linalg.LinAlgError:
            return np.inf
        return float(np.linalg.norm(square, 2))

    def targets(self, targets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Largest distance of two targets, and of one from the record's own, (n,) each.

        With bounds on what either errs by, (n,). Shapes: ``targets`` (n_values,), or (n, n_values)
        for those of each record's own.
        """
        loss, a = self.state.objective.loss, self.predictor[:, None]
        own = loss.residual(self.predictor, self.y)[:, None]
        moved = loss.residual(a, np.broadcast_to(targets, (len(self.y), targets.shape[-1]))) - own
        size = self.weight * np.sqrt(self.length)
        both = np.concatenate([moved, np.zeros_like(own)], axis=1)
        most = np.abs(moved).max(axis=1)
        # A target changes no curvature, so that H' is H.
        error = self._error(self.weight * most * np.sqrt(self.leverage), self.longest, 1.0)
        return size * np.ptp(both, axis=1), size * most, 2.0 * error

    @property
    def of_target(self) -> FloatArray:
        """Squared speed of the minimizer in the target of each, (n,)."""
        return self.weight**2 * self.length

    def column(self, j: int, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Largest distance of two values of a column, and of one from the record's own, (n,) each.

        With bounds on what either errs by, (n,), infinite where not all values are compared.
        Shapes: ``values`` (n_values,).
        """
        compares_all, last = self.compares_all(len(values)), len(values) - 1

        def furthest(x: FloatArray, some: _Columns) -> FloatArray:
            steps = [some.step(value - x) for value in values]
            q = [step.q for step in steps]
            own = largest = np.max([some.squares(*each) for each in q], axis=0)
            for one in range(last) if compares_all else (0, last):
                for other in range(one + 1, len(q)):
                    gap = (there - here for there, here in zip(q[other], q[one], strict=True))
                    largest = np.maximum(largest, some.squares(*gap))
            error = np.full_like(own, np.inf)
            if compares_all:
                error = np.max([self._errors(some, step) for step in steps], axis=0)
            return np.concatenate([np.sqrt(largest), np.sqrt(own), 2.0 * error], axis=1)

        largest, own, error = self._by_block(np.array([j]), furthest)
        return largest, own, error

    def compares_all(self, n_values: int) -> bool:
        """Return True if all pairs of values are compared, not just those with first and last."""
        return n_values**2 * len(self.y) <= 2.0 * _MOST_PAIRS

    def moved(self, columns: IntArray, moves: Sequence[Move]) -> tuple[FloatArray, FloatArray]:
        """Largest distance of an entry from those it is moved to, (k, n) for k columns.

        And bounds on what it errs by, (k, n).
        """

        def furthest(x: FloatArray, some: _Columns) -> FloatArray:
            steps = [some.step(start + slope * x) for start, slope in moves]
            squares = reduce(np.maximum, (some.squares(*step.q) for step in steps))
            if self._flat is not None:
                return np.sqrt(squares)
            error = reduce(np.maximum, (self._errors(some, step) for step in steps))
            return np.concatenate([np.sqrt(squares), error], axis=1)

        found = self._by_block(columns, furthest)
        if self._flat is not None:
            return found, np.broadcast_to(self._flat, found.shape)
        return found[: len(columns)], found[len(columns) :]

    def _errors(self, some: "_Columns", step: "_Step") -> FloatArray:
        """Bound what the steps of some entries err by, of shape (b, k)."""
        if self._flat is not None:
            return np.full_like(step.t, self._flat)
        return self._error(*some.reach(step, self.longest))

    @cached_property
    def _flat(self) -> float | None:
        """Return what all steps err by; None where they differ."""
        if self.state.balanced is not None:  # the weights move as well
            return np.inf
        return 0.0 if self.state.objective.loss.quadratic else None

    def _error(
        self, energy: FloatArray, longest: "FloatArray | float", least: "FloatArray | float"
    ) -> FloatArray:
        """Bound the lengths, over the noise, of the ways from the steps to the minimizers.

        Shapes: ``energy``, E, any; ``longest``, ``rho^2``; ``least``, how little is left of H.
        """
        if self._flat is not None:
            return np.full_like(energy, self._flat)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = way_left(energy, np.sqrt(longest)) * np.sqrt(self._variance / least)
        return np.where(energy > 0.0, np.where(np.isnan(error), np.inf, error), 0.0)

    def information(
        self, column: int, nodes: FloatArray, weights: FloatArray, step: float
    ) -> FloatArray:
        """Squared speed of the minimizer in a column, averaged over nodes of it, (n,).

        By central differences; each node counts for all records. Shapes: ``nodes`` and ``weights``
        (n_nodes,).
        """

        def speeds(x: FloatArray, some: _Columns) -> FloatArray:
            below, above = (some.step(nodes + sign * step - x).q for sign in (-1.0, 1.0))
            gap = (there - here for there, here in zip(above, below, strict=True))
            return some.squares(*gap) / (4.0 * step**2)

        return weights @ self._by_block(np.repeat(column, len(nodes)), speeds)

    def take(self, which: IntArray) -> Self:
        """Return some of the records."""
        own = ("X", "y", "weight", "predictor", "leverage", "length")
        return replace(self, **{name: getattr(self, name)[which] for name in own})

    def _by_block(
        self, columns: IntArray, f: "Callable[[FloatArray, _Columns], FloatArray]"
    ) -> FloatArray:
        """Rows of what a function finds of entries (b, k), whatever it finds of each, (m, n)."""
        factor, loss = self.state.factor, self.state.objective.loss
        images = np.hstack([factor.inverse_hessian[:, columns], self.response[:, columns]])
        at = columns, columns
        own = factor.coefficients[columns], factor.inverse_hessian[at], self.response[at]

        def found(X: FloatArray, *vectors: FloatArray) -> FloatArray:
            y, weight, predictor, leverage, length = (values[:, None] for values in vectors)
            x = augment(less(X, self.shift), factor.fit_intercept)
            both = np.split(x @ images, 2, axis=1)
            before = loss.residual(predictor, y), loss.curvature(predictor)
            given = (weight, predictor, leverage, length, *before, *both, *own)
            return f(X[:, columns], _Columns(loss, *given))

        vectors = self.y, self.weight, self.predictor, self.leverage, self.length
        blocks = Blocks.of(self.X, *vectors, width=len(columns), elements=_ENTRIES)
        return blocks.map(found).T


@dataclass(frozen=True)
class _Columns:
    """Entries of a block of b records in k columns, prepared for changes of each."""

    loss: Any
    weight: FloatArray  # ``k``, (b, 1)
    predictor: FloatArray  # (b, 1)
    leverage: FloatArray  # (b, 1)
    length: FloatArray  # (b, 1)
    residual: FloatArray  # (b, 1)
    curvature: FloatArray  # (b, 1)
    along: FloatArray  # ``x~^T A e_j``, (b, k)
    cross: FloatArray  # ``x~^T A S^-1 A e_j``, (b, k)
    w: FloatArray  # (k,)
    inverse: FloatArray  # ``A_jj``, (k,)
    response: FloatArray  # ``(A S^-1 A)_jj``, (k,)

    def reach(self, step: "_Step", longest: float) -> tuple[FloatArray, ...]:
        """Energies of steps, the largest length of a record and how little H' may be.

        Of shape (b, k) each: E, ``rho^2``, and the least eigenvalue of H' relative to H.
        """
        h, u, inverse, t = self.leverage, self.along, self.inverse, step.t
        (g0, g1), (q0, q1) = step.g, step.q
        energy = q0 * (h * g0 + u * g1) + q1 * (u * g0 + inverse * g1)
        one, other = np.sqrt(np.maximum(h, 0.0)), np.sqrt(inverse)
        terms = np.abs(g0) * one + np.abs(g1) * other
        terms *= np.abs(q0) * one + np.abs(q1) * other
        mean, determinant = 0.5 * (step.diagonal[0] + step.diagonal[1]), step.determinant
        least = mean - np.sqrt(np.maximum(mean * mean - determinant, 0.0))
        least = np.maximum(np.minimum(least, 1.0) - _ROUNDED, 0.0)
        with np.errstate(divide="ignore"):
            farthest = np.maximum(longest, h + t * (2.0 * u + t * inverse)) / least
        return np.sqrt(np.maximum(energy, 0.0) + _ROUNDED**2 * terms), farthest, least

    def step(self, t: FloatArray) -> "_Step":
        """Solve for entries that change by ``t`` (b, k)."""
        k, h, u, inverse = self.weight, self.leverage, self.along, self.inverse
        change = self.loss.mean_change(self.predictor, t * self.w)
        g0, g1 = k * change, k * (self.residual + change) * t
        if self.loss.quadratic:
            m01 = k * t
            b00, b01 = 1.0 + m01 * u, m01 * inverse
            b10, b11 = m01 * (h + t * u), 1.0 + m01 * (u + t * inverse)
        else:
            curvature = self.loss.curvature(self.predictor + t * self.w)
            m00, m01 = k * (curvature - self.curvature), k * curvature * t
            b00, b01 = 1.0 + m00 * h + m01 * u, m00 * u + m01 * inverse
            b10, b11 = m01 * (h + t * u), 1.0 + m01 * (u + t * inverse)
        determinant = b00 * b11 - b01 * b10
        q = (b11 * g0 - b01 * g1) / determinant, (b00 * g1 - b10 * g0) / determinant
        return _Step(t, (g0, g1), q, (b00, b11), determinant)

    def squares(self, q0: FloatArray, q1: FloatArray) -> FloatArray:
        """Return ``|A V q|^2``, of shape (b, k)."""
        squares = q0 * (q0 * self.length + 2.0 * q1 * self.cross) + q1 * q1 * self.response
        return np.maximum(squares, 0.0)


@dataclass(frozen=True)
class _Step:
    """One Newton step for every entry of a block, each number of shape (b, k)."""

    t: FloatArray  # how far the entry moves
    g: tuple[FloatArray, FloatArray]
    q: tuple[FloatArray, FloatArray]
    diagonal: tuple[FloatArray, FloatArray]  # of ``I + M V^T A V``
    determinant: FloatArray
