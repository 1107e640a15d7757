"""Minimisers of many objectives that differ from a fitted one in one record each, all at once.

Each Hessian differs from that of the fit by a matrix of low rank: one factor serves all. A Newton
step with it is exact for the squared loss. For other losses it is the start of a chord iteration:
the factor stays, and the exact gradients over all data are matrix products for a whole block of
objectives at once. What does not settle is minimised anew. A minimiser that even that does not
reach is NaN: a number in its place might be too near.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skleak.exceptions import NoMinimizerWarning
from skleak.solvers import Objective, SingularHessianError, minimize
from skleak.utils._linalg import SingularMatrixError
from skleak.utils._typing import BoolArray, FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

_MAX_STEPS = 12
# Relative errors by rounding of a step by Woodbury's formula, from which on chord steps follow, and
# from which on these prove nothing either.
_ROUNDED, _LOST = 1e-8, 1e-3
# How many times the estimate of it may fall short.
_SAFETY = 10.0
# Last move, relative to a step, at which a refit is exact, and up to which it counts as reached.
_EXACT, _REACHED = 1e-9, 1e-6
_MOST_CORRECTIONS, _WORSE = 12, 10.0


@dataclass(frozen=True)
class ChangedHessian:
    """``H' = H + U D U^T`` of b objectives, with U of low rank, inverted by Woodbury."""

    inverse: FloatArray  # A, the inverse of H, (p, p)
    basis: FloatArray  # A U, (b, p, r)
    core: FloatArray  # (I + D U^T A U)^-1 D, (b, r, r)

    def take(self, which: IntArray) -> "ChangedHessian":
        """Those of some objectives."""
        return ChangedHessian(self.inverse, self.basis[which], self.core[which])

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Solve ``H' x = gradient`` for every objective, of shape (b, p)."""
        inner = np.einsum("bpk,bp->bk", self.basis, gradient)
        correction = np.einsum("bkl,bl->bk", self.core, inner)
        return gradient @ self.inverse - np.einsum("bpk,bk->bp", self.basis, correction)


def rounding_error(
    inverse: FloatArray,
    change: FloatArray,
    remaining: FloatArray,
    gradient: FloatArray,
    steps: FloatArray,
    factor: float,
) -> FloatArray:
    """Estimate the relative error by rounding of the steps ``-H'^-1 gradient``, (b,).

    Fewer records than columns, or one that outweighs all others, leave next to nothing of the
    Hessian along a record without it: the difference of two numbers near 1, each with the error of
    ``x.A x``, which is that of its largest terms. As A is positive definite, its entries are at
    most ``sqrt(A_jj A_kk)``.

    Shapes: ``inverse`` (p, p); ``change`` (b, p), records times the root of their curvature, and
    the larger where there are two; ``remaining`` (b,), what is left; ``gradient``, ``steps`` (b,
    p). ``factor`` is the error of A as a whole.
    """
    spread = np.sqrt(np.abs(np.diag(inverse)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        left = (np.abs(change) @ spread) ** 2 / np.abs(remaining)
        moved = (np.abs(gradient) @ spread) * np.linalg.norm(spread)
        moved = np.where(moved > 0.0, moved / np.linalg.norm(steps, axis=1), 0.0)
        error = _SAFETY * np.finfo(float).eps * (left + moved)
    # Where that of the factor is larger, chord steps on exact gradients show what it is worth.
    return np.where(np.isnan(error), np.inf, np.maximum(error, min(factor, _LOST)))


@dataclass(frozen=True)
class ChordSolver:
    """Chord steps on exact gradients, for as long as each of b objectives needs them.

    A minimiser is that of the fit plus a step; a step that overflows does not settle.
    """

    hessian: ChangedHessian
    # Gradients of some objectives, each at its own step from the fit: both of shape (k, p).
    gradient: Callable[[IntArray, FloatArray], FloatArray]
    # Steps of some objectives, by minimisations of their own, (k, p); NaN where none is reached.
    refit: Callable[[IntArray], FloatArray]

    def settle_rounded(
        self,
        steps: FloatArray,
        rounding: FloatArray,
        tolerance: "float | FloatArray",
        error: FloatArray | None = None,
        contraction: FloatArray | None = None,
        moved: FloatArray | None = None,
    ) -> None:
        """Improve steps (b, p) in place whose Hessians are rounded, of relative error (b,).

        What rounding made of a Hessian that is nearly singular leads nowhere, in small steps: such
        objectives are minimised anew. ``error`` is None for steps exact but for rounding. Steps are
        settled where it is below ``tolerance``, relative to the step; the others as in `settle`.
        """
        lost = np.flatnonzero(~(rounding <= _LOST))
        if len(lost):
            steps[lost] = self.refit(lost)
        size = np.linalg.norm(steps, axis=1)
        if error is None:
            moved, error = size, np.where(rounding > _ROUNDED, np.inf, 0.0)
        else:
            moved = error if moved is None else moved
            error = np.maximum(error, rounding * size)
        rate = rounding if contraction is None else np.maximum(contraction, rounding)
        limit = tolerance * size
        error[lost], limit[lost] = 0.0, np.inf  # those are found, or are none
        self.settle(steps, error, limit, rate, moved=moved)

    def settle(
        self,
        steps: FloatArray,
        error: FloatArray,
        limit: FloatArray,
        contraction: FloatArray | None = None,
        moved: FloatArray | None = None,
    ) -> None:
        """Improve steps (b, p) in place until their errors, bounded or last moves, are small.

        Steps to minimisers that are not reached, or do not exist, become NaN.

        Shapes: ``error``, ``limit``, ``contraction`` (b,), a lower bound on the rate; ``moved``
        (b,), the last moves where these are not the errors.
        """
        rate = np.zeros(len(steps)) if contraction is None else contraction
        size = np.array(error if moved is None else moved)
        pending = np.flatnonzero(~(error <= limit))
        for _ in range(_MAX_STEPS):
            if not len(pending):
                return
            gradient = self.gradient(pending, steps[pending])
            change = self.hessian.take(pending).solve(gradient)
            steps[pending] -= change
            last, size[pending] = size[pending], np.linalg.norm(change, axis=1)
            left = error_left(size[pending], last, rate[pending])
            pending = pending[~(left <= limit[pending])]
        if len(pending):
            steps[pending] = self.refit(pending)


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
    error = _SAFETY * np.finfo(float).eps * len(w) * condition
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
            "the training objective has no unique minimiser that could be reached. The encodings "
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
            "objective with some other value in place of the actual one has no unique minimiser "
            "that could be reached. Raise `alpha`, or leave out values that are far from all "
            "others."
        )
