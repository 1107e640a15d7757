"""The minimiser had a record not been there, without refitting.

Without a record of weight s the sum of the losses has one term less, and the penalty, which is per
unit of weight, shrinks to that of N - s. The shrunken penalty is the same for all records of one
weight, and the missing term changes the Hessian by a matrix of rank one. For the squared loss one
Newton step with the changed Hessian is exact. For other losses it is corrected to third order in
the loss, which takes one tensor for all records of a weight, and by chord steps on the exact
gradient where that does not suffice.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skleak.exceptions import AttackNotApplicableError
from skleak.solvers import Objective, SingularHessianError, minimize
from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._linalg import SingularMatrixError, augment
from skleak.utils._typing import FloatArray, IntArray

__all__ = ["removal_obstacle", "removal_steps"]

# Entries of the n x B table of predictors of a block of B records: 32 MB.
_TABLE_ELEMENTS = 1 << 22
# Error, relative to how far a record moves the minimiser, at which it is settled, and the distance,
# relative to the parameters, that is only rounding.
_TOLERANCE = 1e-6
_ROUND_OFF = 1e-14
_MAX_CHORD_STEPS = 12
# What is left of a record's Hessian without it, below which there is no unique minimiser.
_SINGULAR = 1e-11


def removal_obstacle(model: Any, y: Any) -> str:
    """Say why it is not known what a model would release without a record; empty where it is.

    Known are the two Gaussian laws of output perturbation with isotropic noise, without a
    reweighting and with one prediction for each record. ``y`` of shape (n,) holds the targets as
    the user passes them; the model need not be fitted.
    """
    if not hasattr(model, "_confidential_state"):
        return f"the training objective and the noise of {type(model).__name__} are not known"
    if model.reweighting is not None:
        return "a reweighting makes the weights of all records change with each"
    covariance = model.noise_covariance
    if not (isinstance(covariance, str) and covariance == "isotropic"):
        return "the noise has a `noise_covariance`"
    if is_classifier(model):
        declared = getattr(model, "classes", None)
        labels = np.ravel(np.asarray(y if declared is None else declared))
        n_classes = len(set(labels.tolist()))
        if n_classes > 2:
            return f"the model tells {n_classes} classes apart"
    return ""


def removal_steps(objective: Objective, w: FloatArray, targets: IntArray) -> FloatArray:
    """Compute the steps of the minimiser when each of many records is removed.

    Shapes: ``w`` (p,); ``targets`` (n_targets,); returns (n_targets, p): minimiser without the
    record minus ``w``; zero for a record of weight zero.
    """
    weights = objective.sample_weight[targets]
    steps = np.zeros((len(targets), len(w)))
    for weight in np.unique(weights[weights > 0.0]):
        members = np.flatnonzero(weights == weight)
        steps[members] = _equal_removals(objective, w, targets[members])
    return steps


def _equal_removals(objective: Objective, w: FloatArray, targets: IntArray) -> FloatArray:
    """Steps without records of one weight, of shape (n_targets, p)."""
    removal = Removal.of(objective, w, targets)
    steps = removal.solve(removal.first)
    if objective.loss.quadratic:
        return steps
    left = np.linalg.norm(steps, axis=1)
    # A step that overflows is not settled, and its record is left to a refit.
    with np.errstate(over="ignore", invalid="ignore"):
        factor = _contraction(removal, steps)
        if _tensor_pays(objective, len(targets)):
            correction = _third_order(removal, steps)
            left = _error_left(removal, steps, correction, factor)
            steps -= correction
        _settle(removal, steps, left, factor)
    return steps


@dataclass(frozen=True)
class Removal:
    """Training objectives that lack one record each, all of one weight, about the minimiser on all.

    Parameters
    ----------
    rest : Objective
        The training objective on all records with the penalty without one.
    w : ndarray of shape (p,)
        Minimiser on all records.
    rows : ndarray of int of shape (b,)
        Positions of the records removed.
    x : ndarray of shape (b, p)
        The records, with the constant of an intercept.
    first : ndarray of shape (b, p)
        Minus the gradient at ``w`` without the record.
    inverse : ndarray of shape (p, p)
        Inverse of the unnormalised Hessian of ``rest``, ``A``.
    images : ndarray of shape (b, p)
        ``A x``.
    factors : ndarray of shape (b,)
        ``s c / (1 - s c x.A x)``: the Hessian without the record has inverse
        ``A + factor A x (A x)^T``.
    """

    rest: Objective
    w: FloatArray
    rows: IntArray
    x: FloatArray
    first: FloatArray
    inverse: FloatArray
    images: FloatArray
    factors: FloatArray

    @classmethod
    def of(cls, objective: Objective, w: FloatArray, rows: IntArray) -> "Removal":
        """Remove records of one weight from an objective; see `removal_steps`."""
        total, s = objective.total, float(objective.sample_weight[rows[0]])
        if s >= total:
            raise _no_minimizer(rows)
        rest = replace(objective, alpha=objective.alpha * (total - s) / total)
        x = augment(dense_rows(objective.X[rows], slice(None)), objective.fit_intercept)
        a = objective.predictor(w)
        try:
            inverse = rest.hessian(a).inverse()
        except SingularMatrixError as error:
            raise _no_minimizer(rows[:1]) from error
        r = s * objective.loss.residual(a, objective.y)[rows]
        c = s * objective.loss.curvature(a)[rows]
        images = x @ inverse
        remaining = 1.0 - c * np.einsum("ij,ij->i", x, images)
        if np.any(remaining < _SINGULAR):
            raise _no_minimizer(rows[remaining < _SINGULAR])
        # On all records the gradients sum to zero.
        first = s * objective.penalty * w + r[:, None] * x
        return cls(rest, w, rows, x, first, inverse, images, c / remaining)

    def take(self, which: IntArray) -> "Removal":
        """Some of the records."""
        return replace(
            self,
            rows=self.rows[which],
            x=self.x[which],
            first=self.first[which],
            images=self.images[which],
            factors=self.factors[which],
        )

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Solve ``H' step = gradient`` without each record, of shape (b, p)."""
        along = self.factors * np.einsum("ij,ij->i", self.images, gradient)
        return gradient @ self.inverse + along[:, None] * self.images

    @property
    def reach(self) -> FloatArray:
        """``1 + factor x.A x``: how much larger the inverse Hessian is without each record."""
        return 1.0 + self.factors * np.einsum("ij,ij->i", self.x, self.images)

    def energy(self, steps: FloatArray) -> FloatArray:
        """``step.H step`` with the Hessian without each record, of shape (b,)."""
        energy = np.einsum("ij,ij->i", steps @ np.linalg.inv(self.inverse), steps)
        along = np.einsum("ij,ij->i", self.x, steps)
        return np.maximum(energy - self.factors / self.reach * along**2, 0.0)

    def gradient(self, steps: FloatArray) -> FloatArray:
        """Unnormalised gradient without each record at ``w`` plus its step, of shape (b, p)."""
        rest, d = self.rest, self.rest.X.shape[1]
        at = self.w + steps
        table = rest.X @ at[:, :d].T
        if rest.fit_intercept:
            table += at[:, d]
        table = rest.loss.inverse_link(table)
        table -= rest.y[:, None]
        table *= rest.sample_weight[:, None]
        # Left out, not subtracted again: a record may dwarf the others.
        table[self.rows, np.arange(len(self.rows))] = 0.0
        gradient = rest.total * rest.penalty * at
        gradient[:, :d] += (rest.X.T @ table).T
        if rest.fit_intercept:
            gradient[:, d] += table.sum(axis=0)
        return gradient

    def refit(self, k: int) -> FloatArray:
        """Minimise anew without a record, and return how far the minimiser moves."""
        others = np.delete(np.arange(len(self.rest.y)), self.rows[k])
        total, s = self.rest.total, self.rest.sample_weight[self.rows[k]]
        without = replace(
            self.rest,
            X=self.rest.X[others],
            y=self.rest.y[others],
            alpha=self.rest.alpha * total / (total - s),
            sample_weight=self.rest.sample_weight[others],
            reweights=self.rest.reweights[others],
        )
        try:
            minimum = minimize(without, start=self.w)
        except SingularHessianError as error:
            raise _no_minimizer(self.rows[k : k + 1]) from error
        if not minimum.converged:
            raise _no_minimizer(self.rows[k : k + 1])
        return minimum.coefficients - self.w


def _no_minimizer(rows: IntArray) -> AttackNotApplicableError:
    some = ", ".join(map(str, rows[:5].tolist())) + (", ..." if len(rows) > 5 else "")
    return AttackNotApplicableError(
        f"Without some record ({len(rows)} of them: {some}) the training objective has no unique "
        "minimiser: what would have been released then is not defined. Pass an estimator with a "
        "larger `alpha`, or leave these records out of `records`."
    )


def _tensor_pays(objective: Objective, n_targets: int) -> bool:
    """Return True if the tensor fits in memory and costs less than a pass over the data."""
    p, n = objective.n_parameters, len(objective.y)
    return p**3 <= 2 * _TABLE_ELEMENTS and (n + n_targets) * p * p < 4 * n * n_targets


def _third_order(removal: Removal, steps: FloatArray) -> FloatArray:
    """Compute the second-order change of steps by the third derivatives of the losses, (b, p)."""
    rest = removal.rest
    upper = np.triu_indices(rest.n_parameters)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    tensor = np.zeros((len(twice), rest.n_parameters))
    third = rest.sample_weight * rest.loss.third_derivative(rest.predictor(removal.w))
    for rows in row_blocks(len(third), len(twice), _TABLE_ELEMENTS):
        x = augment(dense_rows(rest.X, rows), rest.fit_intercept)
        tensor += (x[:, upper[0]] * x[:, upper[1]]).T @ (third[rows, None] * x)
    tensor *= 0.5 * twice[:, None]
    second = np.empty_like(steps)
    for rows in row_blocks(len(steps), len(twice), _TABLE_ELEMENTS):
        step = steps[rows]
        second[rows] = (step[:, upper[0]] * step[:, upper[1]]) @ tensor
    along = np.einsum("ij,ij->i", removal.x, steps)
    second -= (0.5 * third[removal.rows] * along**2)[:, None] * removal.x
    return removal.solve(second)


def _contraction(removal: Removal, steps: FloatArray) -> FloatArray:
    """Bound on the factor by which the error of a step falls from one order to the next, (b,).

    Third and fourth derivatives of the losses are at most the curvature. In the norm of the
    Hessian the change of a prediction is ``|x.step| <= sqrt(x.A x) |step|``, so that the terms of
    the next two orders, ``sum c (x.step)^2 x`` and ``sum c |x.step|^3 x``, are at most ``f |step|``
    and ``f^2 |step|`` with ``f^2 = sum c (x.A x) (x.step)^2``, a quadratic form in the step.
    """
    rest = removal.rest
    curvature = rest.sample_weight * rest.loss.curvature(rest.predictor(removal.w))
    form = np.zeros_like(removal.inverse)
    for rows in row_blocks(len(curvature), rest.n_parameters):
        x = augment(dense_rows(rest.X, rows), rest.fit_intercept)
        reach = np.einsum("ij,ij->i", x @ removal.inverse, x)
        form += x.T @ ((curvature[rows] * reach)[:, None] * x)
    own = np.einsum("ij,ij->i", removal.x, removal.images)
    along = np.einsum("ij,ij->i", removal.x, steps)
    total = np.einsum("ij,ij->i", steps @ form, steps)
    total -= curvature[removal.rows] * own * along**2
    return np.sqrt(np.maximum(total, 0.0) * removal.reach)


def _error_left(
    removal: Removal, steps: FloatArray, correction: FloatArray, factor: FloatArray
) -> FloatArray:
    """Bound on the error after the correction by third derivatives, in Euclidean norm, (b,).

    Left are the correction of the correction and the fourth derivatives, a sixth of ``f^2`` of the
    step in the norm of the Hessian (a quarter, as derivatives change on the way).
    """
    size, change = removal.energy(steps), removal.energy(correction)
    error = factor * (np.sqrt(change) + 0.25 * factor * np.sqrt(size))
    widest = np.sqrt(np.linalg.eigvalsh(removal.inverse)[-1] * removal.reach)
    return widest * np.where(factor < 0.5, error, np.sqrt(size))


def _settle(removal: Removal, steps: FloatArray, left: FloatArray, factor: FloatArray) -> None:
    """Chord steps on the exact gradient until they vanish; refit what does not settle.

    Shapes: ``steps`` (b, p); ``left`` (b,); ``factor`` (b,).
    """
    floor = _ROUND_OFF * max(1.0, float(np.linalg.norm(removal.w)))
    limit = _TOLERANCE * np.linalg.norm(steps, axis=1) + floor
    pending = np.flatnonzero(~(left <= limit))
    for _ in range(_MAX_CHORD_STEPS):
        if not len(pending):
            return
        size = np.empty(len(pending))
        for part in row_blocks(len(pending), len(removal.rest.y), _TABLE_ELEMENTS):
            which = pending[part]
            some = removal.take(which)
            step = some.solve(some.gradient(steps[which]))
            steps[which] -= step
            size[part] = np.linalg.norm(step, axis=1)
        # The iteration is linear: the next step would be smaller than this one by the same
        # factor as this one than the last.
        ratio = np.maximum(size / np.maximum(left[pending], floor), factor[pending])
        left[pending] = size
        remaining = size * np.where(ratio < 0.5, ratio, 1.0)
        pending = pending[~(remaining <= limit[pending])]
    for k in pending.tolist():
        steps[k] = removal.refit(k)
