"""Changes of records, and the fits after them.

Each Hessian differs from that of the fit by a matrix of low rank: one factor serves all. A Newton
step with it is exact for the squared loss. For other losses it is the start of a chord iteration:
the factor stays, and the exact gradients over all data are matrix products for a whole block of
objectives at once. What does not settle is minimized anew.

Steps to the minimizers with a record changed, to second order without a pass over the data.

With s the Newton step with the changed Hessian H', the gradient there is half of T[s, s] and terms
of third order, T the third derivatives of all losses with the record changed: a tensor of p^3
entries that is made once. Where what is left is small enough, no pass over the data is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from skleak.influence.refit._chord import (
    LOST,
    SAFETY,
    ChangedHessian,
    NewtonBatch,
    contraction_form,
    error_left,
    factor_rounding,
    refitted_step,
    rounding_left,
    second_order,
    third_derivatives,
)
from skleak.influence.state import FitState
from skleak.solvers import Objective
from skleak.utils._blocks import dense, is_large, row_blocks
from skleak.utils._linalg import SingularMatrixError, augment, each_or_nan
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Relative error by rounding of a Hessian, from which on Newton's steps are taken one by one.
_ROUNDED = 1e-6
# The same of a step by Woodbury's formula, from which on chord steps follow; and how many.
_ROUNDED_STEP, _MAX_STEPS = 1e-8, 12
# Steps from a fit whose gradients are computed together, in tables that stay in the cache.
_STEPS = 512
# What is left of a Hessian, relative to that of the fit, below which it is only rounding.
SINGULAR = 1e-11


def change_width(state: FitState, n_parts: int = 1) -> int:
    """Entries of the largest table of a row of a candidate, for parts of the records at once."""
    objective = state.objective
    n = 0 if is_large(objective.X) else int(objective.X.shape[0])
    return _n_predictors(objective) * max(n // n_parts, 2 * objective.n_parameters)


def _n_predictors(objective: Objective) -> int:
    return int(objective.layout[0].size)


@dataclass(frozen=True)
class Change:
    """Objectives that differ from a fitted one in up to m records: b of them.

    Records of a negative weight go, and those of a positive one come: a person leaves, joins, or
    has other entries in all of its rows. A weight of zero stands for none. With K predictors, one
    for each of several classes, a record enters the Hessian by ``C (x) x~ x~^T``, else by
    ``c x~ x~^T``.
    """

    objective: Objective  # on the records of the fit, with the penalty of those that are changed
    w: FloatArray  # minimizer on the records of the fit, (p,)
    inverse: FloatArray  # A, of the unnormalized Hessian of `objective`, (p, p)
    x: FloatArray  # records, with the constant of an intercept, (b, m, d~)
    y: FloatArray  # their targets, (b, m)
    weight: FloatArray  # ``s omega``, and its sign, (b, m)
    images: FloatArray  # ``A (I (x) x~)``, (b, m K, p)
    rows: IntArray  # positions of those that go, (b, k); -1 for none
    rounding: float  # relative error of A by rounding
    left: Callable[[], FloatArray]  # step from the fit to its minimizer, (p,)
    more: float = 0.0  # of the sum of the weights

    @classmethod
    def of(
        cls,
        state: FitState,
        X: FloatArray,
        y: FloatArray,
        rows: IntArray,
        columns: IntArray,
        values: FloatArray,
        targets: FloatArray | None = None,
    ) -> Self:
        """Put every value in the columns of all rows of a person, for each of n persons.

        Shapes: ``X`` (n, k, d), or (n, d) for one row each; ``y``, ``rows`` (n, k) or (n,),
        positions in the training data, -1 for none; ``columns`` (c,); ``values`` (n_values, c), or
        (n, n_values, k, c), those of each row, or (n, n_values, c); ``targets`` (n_values,), (n,
        n_values) or (n, n_values, k), that change as well.
        """
        n, objective, d = len(rows), state.objective, X.shape[-1]
        rows = rows if rows.ndim == 2 else rows[:, None]
        k, there = rows.shape[1], rows >= 0
        X, y = X.reshape(n, k, d), y.reshape(n, 1, k)
        m = values.shape[-2 if values.ndim < 4 else 1]
        values = values if values.ndim == 4 else values[..., None, :]
        values = np.broadcast_to(values, (n, m, k, len(columns)))
        old = augment(X.reshape(n * k, d), objective.fit_intercept)
        old = old.reshape(n, 1, k, old.shape[1])
        shift = values - X[:, None, :, columns]
        new = np.repeat(old, m, axis=1)
        new[..., columns] = values
        put = y
        if targets is not None:
            put = targets if targets.ndim == 3 else np.atleast_2d(targets)[..., None]
        put, y = (np.broadcast_to(one, (n, m, k)) for one in (put, y))
        moved = (np.any(shift != 0.0, axis=3) | (put != y)) & there[:, None]
        weights = objective.parts(rows.ravel()).weights.reshape(n, 1, k)
        weight = np.where(moved, weights, 0.0)
        inverse = state.factor.inverse_hessian
        matrix = inverse[objective.layout].reshape(old.shape[-1], -1)
        a_old = np.repeat(_times(old, matrix), m, axis=1)
        a_new = a_old + _times(shift, matrix[columns])
        pairs = (old, new), (y, put), (-weight, weight), (a_old, a_new)
        x, both, signed, images = (np.concatenate(_alike(*pair), axis=2) for pair in pairs)
        p = len(inverse)
        return cls(
            objective=objective,
            w=state.factor.coefficients,
            inverse=inverse,
            x=x.reshape(n * m, 2 * k, x.shape[-1]),
            y=both.reshape(n * m, 2 * k),
            weight=signed.reshape(n * m, 2 * k),
            images=images.reshape(n * m, 2 * k * (matrix.shape[1] // p), p),
            rows=np.where(weight > 0.0, rows[:, None], -1).reshape(n * m, k),
            rounding=state.once(_factor_rounding),
            left=partial(state.once, _rounding_left),
        )

    @classmethod
    def without(
        cls, objective: Objective, w: FloatArray, rows: IntArray, like: Self | None = None
    ) -> Self:
        """Take away records of one weight together, not that of all: those at ``rows`` (b, k).

        ``like`` is the same of other records of that weight.
        """
        some = objective.parts(rows.ravel())
        x = augment(dense(some.X), objective.fit_intercept)
        weight = np.where(rows >= 0, -some.sample_weight.reshape(rows.shape), 0.0)
        x, y = x.reshape(*rows.shape, -1), some.y.reshape(rows.shape)
        known = (None, 0.0) if like is None else (like.inverse, like.rounding)
        return cls.about(objective, w, x, y, weight, rows, *known)

    @classmethod
    def about(
        cls,
        objective: Objective,
        w: FloatArray,
        x: FloatArray,
        y: FloatArray,
        weight: FloatArray,
        rows: IntArray | None = None,
        inverse: FloatArray | None = None,
        rounding: float = 0.0,
    ) -> Self:
        """Add records, (b, m), or take those at ``rows`` away, of one weight together.

        ``inverse`` is that of the Hessian of the fit, with the penalty of those that are changed,
        and ``rounding`` its error.
        """
        more = float(weight[0].sum())
        # The penalty is per unit of weight: with less of it, it weighs less beside the same losses.
        alpha = objective.alpha * (objective.total + more) / objective.total
        rest = replace(objective, alpha=alpha)
        if inverse is None:
            try:
                inverse = rest.at(w).hessian.inverse()
            except SingularMatrixError:  # every record is left to a refit
                inverse = np.full((len(w), len(w)), np.nan)
            rounding = factor_rounding(rest, w, inverse)
        images = _times(x, inverse[rest.layout].reshape(x.shape[-1], -1)).reshape(
            len(x), -1, len(w)
        )
        rows = np.full((len(x), 1), -1) if rows is None else rows
        left = partial(rounding_left, objective, w)
        return cls(rest, w, inverse, x, y, weight, images, rows, rounding, left, more)

    def take(self, which: IntArray) -> Self:
        """Return some of the objectives."""
        own = ("x", "y", "weight", "images", "rows")
        return replace(self, **{name: getattr(self, name)[which] for name in own})

    @property
    def moves(self) -> BoolArray:
        """Mask of the objectives that differ from that of the fit, of shape (b,)."""
        return np.any(self.weight != 0.0, axis=1)

    @property
    def pair(self) -> tuple[FloatArray, ...]:
        """Record and variant, and their images, (b, p) each, of candidates of one row."""
        return *np.moveaxis(self.x, 1, 0), *np.moveaxis(self.images, 1, 0)

    @property
    def _layout(self) -> IntArray:
        """Positions of the parameters, (d~, K)."""
        return self.objective.layout.reshape(self.x.shape[2], -1)

    @property
    def comes(self) -> BoolArray:
        """Mask of the records that come, (b, m)."""
        return self.weight > 0.0

    @cached_property
    def predictors(self) -> FloatArray:
        """Predictors of the records at the minimizer of the fit, (b, m, K)."""
        return _times(self.x, self.w[self._layout])

    def along(self, steps: FloatArray) -> FloatArray:
        """Return the moves of the predictors by steps (b, p), (b, m, K)."""
        return self.x @ steps[:, self._layout]

    @cached_property
    def first_gradient(self) -> FloatArray:
        """Gradient at the minimizer of the fit, (b, p)."""
        return self._own_gradient(self.predictors)

    def _own_gradient(self, a: FloatArray) -> FloatArray:
        """Gradient of what comes less that of what goes, at predictors (b, m, K), (b, p).

        With its part of the penalty. At the fit the gradients of all records sum to zero: without
        those that go, the others have minus theirs there.
        """
        total = self.objective.total
        own = a[..., 0] if a.shape[2] == 1 else a.reshape(-1, a.shape[2])
        y = self.y if a.shape[2] == 1 else self.y.ravel()
        terms = self.weight[..., None] * self.objective.loss.residual(own, y).reshape(a.shape)
        terms[self.weight == 0.0] = 0.0  # what is not there may overflow
        if terms.shape[1:] == (1, 1):
            gradient = self.x[:, 0] * terms[:, 0]
        else:
            gradient = np.empty((len(a), len(self.w)))
            gradient[:, self._layout] = self.x.transpose(0, 2, 1) @ terms
        if self.more:
            gradient += self.more * self.objective.penalty * total / (total + self.more) * self.w
        return gradient

    def gradient(self, which: IntArray, steps: FloatArray) -> FloatArray:
        """Unnormalized gradients of some objectives at the fit plus their steps, (k, p)."""
        if len(which) > _STEPS and not is_large(self.objective.X):  # whose pass has a price
            parts = row_blocks(len(which), 1, _STEPS)
            return np.concatenate([self.gradient(which[k], steps[k]) for k in parts])
        some = self.take(which)
        changes = self.objective.gradient_changes(self.w, steps, some.rows)
        moved = np.where(some.comes[..., None], some.along(steps), 0.0)
        return np.asarray(changes + some._own_gradient(some.predictors + moved))

    @cached_property
    def curvature(self) -> FloatArray:
        """``s c`` of every record, and its sign, (b, m); ``s C`` of K predictors, (b, m, K, K)."""
        a, loss = self.predictors, self.objective.loss
        if a.shape[2] == 1:
            return self.weight * loss.curvature(a[..., 0])
        own = loss.curvature(a.reshape(-1, a.shape[2])).reshape(*a.shape, a.shape[2])
        return self.weight[..., None, None] * own

    @cached_property
    def _terms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``A U``, (b, r, p), D and ``I + D U^T A U``, (b, r, r) each, of ``H' = H + U D U^T``.

        U is what the records make of it, or of as many columns as there are parameters.
        """
        basis, p = self.images, len(self.w)
        b, n_terms, K = len(basis), basis.shape[1], self.predictors.shape[2]
        if n_terms <= max(p, 2 * K):
            if K == 1:
                d, gram = self.curvature[:, :, None], self.x @ basis.transpose(0, 2, 1)
                return basis, d * np.eye(n_terms), np.eye(n_terms) + d * gram
            gram = np.einsum("brjk,bmj->brmk", basis[:, :, self._layout], self.x)
            gram, d = gram.reshape(b, n_terms, n_terms), np.zeros((b, n_terms, n_terms))
            for m in range(self.x.shape[1]):
                own = slice(m * K, (m + 1) * K)
                d[:, own, own] = self.curvature[:, m]
            return basis, d, np.eye(n_terms) + d @ gram
        # In coordinates in which H is the identity, so that nothing depends on units.
        root = _root(self.inverse)
        white = _times(self.x, root[self._layout].reshape(self.x.shape[2], -1))
        white = white.reshape(b, -1, K, p)
        turned = self.curvature.reshape(b, -1, K, K) @ white
        d = white.reshape(b, -1, p).transpose(0, 2, 1) @ turned.reshape(b, -1, p)
        return np.broadcast_to(root.T, (b, p, p)), d, np.eye(p) + d

    @cached_property
    def _inverse_system(self) -> FloatArray:
        system = self._terms[2]
        if system.shape[1] == 1:
            nothing = np.full_like(system, np.nan)
            return np.divide(1.0, system, out=nothing, where=system != 0.0)
        return each_or_nan(np.linalg.inv, system)

    @cached_property
    def hessian(self) -> ChangedHessian:
        """Hessians with the changes."""
        basis, d, _ = self._terms
        return ChangedHessian(self.inverse, basis, self._inverse_system @ d)

    @cached_property
    def remaining(self) -> FloatArray:
        """Least eigenvalue of the Hessian with the change, relative to that of the fit, (b,)."""
        system = self._terms[2]
        if system.shape[1] == 1:
            return system[:, 0, 0]
        least = np.full(len(system), np.nan)
        known = np.flatnonzero(np.isfinite(system).all(axis=(1, 2)))
        least[known] = np.linalg.eigvals(system[known]).real.min(axis=1)
        return least

    def first_steps(self) -> FloatArray:
        """One Newton step each, of shape (b, p): exact for the squared loss."""
        return -self.hessian.solve(self.first_gradient)

    def rounding_error(self, steps: FloatArray, *, moved: bool = True) -> FloatArray:
        """Estimate the relative error by rounding of the first steps, or of Hessians alone, (b,).

        Fewer records than columns, or one that outweighs all others, leave next to nothing of the
        Hessian along a record without it: the difference of two numbers near 1, each with the error
        of ``x.A x``, which is that of its largest terms. As A is positive definite, its entries are
        at most ``sqrt(A_jj A_kk)``.

        Shapes: ``steps`` (b, p).
        """
        remaining = 1.0 / np.abs(self._inverse_system).max(axis=(1, 2))
        spread = np.sqrt(np.abs(np.diag(self.inverse)))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            error = (self._spans @ spread) ** 2 / remaining
            if moved:
                far = (np.abs(self.first_gradient) @ spread) * np.linalg.norm(spread)
                error += np.where(far > 0.0, far / np.linalg.norm(steps, axis=1), 0.0)
            error *= SAFETY * np.finfo(float).eps
        # Where that of the factor is larger, chord steps on exact gradients show what it is worth.
        error = np.where(np.isnan(error), np.inf, np.maximum(error, min(self.rounding, LOST)))
        return np.where(remaining > SINGULAR, error, np.inf)

    @property
    def _spans(self) -> FloatArray:
        """Records times the root of their curvature, of those that go or that come, (b, p)."""
        c = self.curvature
        if c.shape[1:] == (1,):
            return np.asarray(np.sqrt(np.abs(c)) * np.abs(self.x[:, 0]))
        c = c[..., None] if c.ndim == 2 else np.einsum("bmkk->bmk", c)
        spans = np.empty((len(self.x), len(self.w)))
        squares = [np.maximum(s * c, 0.0).transpose(0, 2, 1) @ self.x**2 for s in (-1.0, 1.0)]
        spans[:, self._layout] = np.sqrt(np.maximum(*squares)).transpose(0, 2, 1)
        return spans

    def second_order(self, steps: FloatArray) -> FloatArray:
        """Half the third derivatives of the records along steps, for one predictor, (b, p)."""
        third = self.weight * self.objective.loss.third_derivative(self.predictors[..., 0])
        along = self.along(steps)[..., 0]
        return np.einsum("bm,bmj->bj", 0.5 * third * along**2, self.x)

    def energy(self, steps: FloatArray) -> FloatArray:
        """``step.H step`` with the Hessian of each, for one predictor, of shape (b,)."""
        energy = np.einsum("ij,ij->i", steps @ np.linalg.inv(self.inverse), steps)
        own = self.curvature * self.along(steps)[..., 0] ** 2
        return np.maximum(energy + own.sum(axis=1), 0.0)

    def settle(
        self,
        steps: FloatArray,
        tolerance: "float | FloatArray",
        error: FloatArray | None = None,
        rate: FloatArray | float = 0.0,
        moved: FloatArray | None = None,
    ) -> None:
        """Improve steps (b, p) in place by chord steps on exact gradients until they are settled.

        The Hessians stay those of `hessian`. Steps whose errors are below ``tolerance``, relative
        to the step, are; those that do not come there are minimized anew, and are NaN where no
        minimizer is reached, or none exists. So is what rounding made of a Hessian that is nearly
        singular, which leads nowhere, in small steps.

        Shapes: ``tolerance``; ``error`` (b,), bounds or last moves, None for steps exact but for
        rounding; ``rate`` (b,), a lower bound on the rate; ``moved`` (b,), the last moves where
        these are not the errors.
        """
        rounding = self.rounding_error(steps)
        lost = np.flatnonzero(~(rounding <= LOST))
        if len(lost):
            steps[lost] = self.refit(lost)
        size = np.linalg.norm(steps, axis=1)
        limit, rate = tolerance * size, np.maximum(rate, rounding)
        if error is None:
            last, error = size.copy(), np.where(rounding > _ROUNDED_STEP, np.inf, 0.0)
        else:
            last = np.array(error if moved is None else moved)
            error = np.maximum(error, rounding * size)
        error[lost], limit[lost] = 0.0, np.inf  # those are found, or are none
        pending = np.flatnonzero(~(error <= limit))
        for _ in range(_MAX_STEPS):
            if not len(pending):
                return
            gradient = self.gradient(pending, steps[pending])
            change = self.hessian.take(pending).solve(gradient)
            steps[pending] -= change
            before, last[pending] = last[pending], np.linalg.norm(change, axis=1)
            left = error_left(last[pending], before, rate[pending])
            pending = pending[~(left <= limit[pending])]
        if len(pending):
            steps[pending] = self.refit(pending)

    def refit(self, which: IntArray) -> FloatArray:
        """Find anew the steps to the minimizers of some objectives.

        Returns (k, p): NaN where no minimizer is reached, for which no other number may stand.
        """
        steps = self.newton_steps(which)
        for k in np.flatnonzero(np.isnan(steps).any(axis=1)).tolist():
            steps[k] = self._refit_one(int(which[k]))
        return steps

    def newton_steps(self, which: IntArray) -> FloatArray:
        """Step to some minimizers, all at once, (k, p); NaN where that does not lead there."""
        some, steps = self.take(which), np.full((len(which), len(self.w)), np.nan)
        if self.predictors.shape[2] > 1:
            return steps
        # Its coordinates have the errors by rounding of Woodbury's formula.
        still = np.zeros_like(steps)
        sound = np.flatnonzero(some.rounding_error(still, moved=False) <= _ROUNDED)
        if len(sound):
            some = some.take(sound)
            put = np.maximum(some.weight, 0.0)
            base = self.objective, self.w, self.inverse
            steps[sound] = NewtonBatch(*base, some.rows, some.x, put, some.gradient).steps()
        return steps

    def _refit_one(self, k: int) -> FloatArray:
        """Step to one minimizer, of shape (p,); NaN where it is not reached."""
        fit, total, comes = self.objective, self.objective.total, self.comes[k]
        if self.more:
            fit = replace(fit, alpha=fit.alpha * total / (total + self.more))
        rows = _alone(self.rows[k][self.rows[k] >= 0])
        given = self.x[k, comes][:, : fit.X.shape[1]], self.y[k, comes], self.weight[k, comes]
        x, y, weight = map(_alone, given)
        if np.size(rows) == np.size(y):
            changed = fit.with_record(rows, x, y)
        else:
            changed = fit.without(rows) if np.size(rows) else fit.with_more(x, y, weight)
        return refitted_step(changed, self.w) - self.left()


def changed_columns(
    columns: IntArray | None, values: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Arguments of `Change.of` for values (n_values, c) of some columns, or of the target."""
    if columns is not None:
        return columns, values, None
    return np.zeros(0, dtype=np.intp), values[:, :0], values[:, 0]


def _times(x: FloatArray, matrix: FloatArray) -> FloatArray:
    """Product (..., q) of records (..., d~) with a matrix (d~, q), as one of matrices."""
    flat = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    return (flat @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def _alike(one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.broadcast_to(one, other.shape), other


def _alone(values: Any) -> Any:
    """Return what is alone without its axis."""
    return values[0] if len(values) == 1 else values


def _root(inverse: FloatArray) -> FloatArray:
    """Root R of ``A = R R^T``, (p, p), whatever the units, and where A is singular."""
    scale = np.sqrt(np.diag(inverse))
    if not np.all(np.isfinite(inverse)):
        return inverse
    scale = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(inverse / np.outer(scale, scale))
    return scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))


def _rounding_left(state: FitState) -> FloatArray:
    return rounding_left(state.objective, state.factor.coefficients)


def _factor_rounding(state: FitState) -> float:
    factor = state.factor
    return factor_rounding(state.objective, factor.coefficients, factor.inverse_hessian)


# Entries of the tensor, at most: 64 MB.
_MOST = 1 << 23
# Operations of a pass over the data for each of its entries, and for the loss of each record.
_PRODUCTS, _LOSS = 4, 60
# Contraction from which on a series is not trusted.
_SLOW = 0.5


def expansion_pays(objective: Objective, n_candidates: int) -> bool:
    """Return True if the tensor is small, and costs less than a pass for each candidate."""
    p, n = objective.n_parameters, objective.n_records
    one_pass = n * (_PRODUCTS * p + _LOSS)
    fits = not objective.loss.quadratic and p**3 <= _MOST
    return fits and (n + n_candidates) * p**3 < n_candidates * one_pass


@dataclass(frozen=True)
class Expansion:
    """Third derivatives of all losses at a fit, and a quadratic form that bounds the next terms."""

    tensor: FloatArray  # (p, p, p)
    form: FloatArray  # (p, p)

    @classmethod
    def of(cls, state: FitState) -> Self:
        """Differentiate the losses at the minimum."""
        objective, w = state.objective, state.factor.coefficients
        form = contraction_form(objective, objective.curvatures(w), state.factor.inverse_hessian)
        return cls(third_derivatives(objective, objective.third_derivatives(w)), form)

    def improved(
        self, change: Change, steps: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Newton steps (b, p) with their second-order change, its size and what is left, (b,) each.

        The terms of the series fall by the rate of `contraction_form` from one order to the next;
        the changed record counts as well, and what was seen of the first two may say more.
        """
        gradient = second_order(steps, self.tensor) + change.second_order(steps)
        square = np.einsum("ij,ij->i", steps @ self.form, steps)
        own = np.maximum(change.curvature, 0.0) * change.along(steps)[..., 0] ** 2
        square += (own * np.einsum("bmp,bmp->bm", change.images, change.x)).sum(axis=1)
        second = change.hessian.solve(gradient)
        first, moved = np.linalg.norm(steps, axis=1), np.linalg.norm(second, axis=1)
        ratio = np.divide(moved, first, out=np.zeros_like(moved), where=first > 0.0)
        rate = np.maximum(np.sqrt(np.maximum(square, 0.0)), ratio)
        left = rate * (moved + 0.25 * rate * first)
        return steps - second, moved, np.where(rate < _SLOW, left, first)
