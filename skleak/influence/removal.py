"""Leave-one-out and add-one minimizers, without refitting.

How far a minimizer can be at most that no iteration reached, by strong convexity.

With the intercept b at its minimum for given coefficients v, the objective is a function of v alone
that is strongly convex with the constant ``m = N alpha``, as the least of a jointly convex function
is convex. Its minimizer is within ``|g| / m`` of any v, g the gradient in v at ``(v, b(v))``. As v
moves by at most ``delta``, no predictor moves by more than ``R delta``, R the length of the longest
record, and b by no more than that, or the sum of the residuals would change its sign.

How far the model of each record is from the one without it, for records outside memory.

The fit without a record is a function of that record, of sums over all, and of the minimizer, up to
what the losses are not quadratic. With ``D_1`` the first Newton step, exact for the squared loss,
``H'`` the Hessian without the record, and rho the largest ``|x.v|`` of a record for a v of length 1
in the norm of ``H'``, no predictor moves by more than ``t = rho |D_1|``. Curvatures change by at
most ``exp(|t|)``, so that the gradient at ``D_1`` is at most ``Q = t exp(t) |D_1| / 2``, and the
minimizer within ``-log(1 - rho Q exp(t)) / rho`` of it: that is added, for an upper bound.

The minimizer had a record not been there, or one more, without refitting.

Without a record of weight s the sum of the losses has one term less, and the penalty, which is per
unit of weight, shrinks to that of N - s; with one more it is the other way round. The penalty is
the same for all records of one weight, and the term changes the Hessian by a matrix of rank one.
A person leaves, or joins, with all rows together: as many terms, and all of their weight.
For the squared loss one Newton step with the changed Hessian is exact. For other losses chord steps
on the exact gradient follow; a removal is corrected to third order in the loss before, which takes
one tensor for all records of a weight and mostly suffices.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.jacobian import Columns
from skleak.influence.moments_noise import moments_leaving
from skleak.influence.noise import measuring_state
from skleak.influence.objective_noise import leaving_distances
from skleak.influence.refit import (
    SINGULAR,
    Change,
    TableMaxima,
    candidate_encodings,
    contraction_form,
    factor_rounding,
    second_order,
    target_encodings,
    third_derivatives,
    way_left,
)
from skleak.influence.state import (
    FitState,
    RecordBatch,
    alone_in_class,
    lone_classes,
    partial_state,
)
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import BLOCK_ELEMENTS, Blocks, dense, is_large
from skleak.utils._linalg import SingularMatrixError, augment
from skleak.utils._records import Persons
from skleak.utils._typing import Data, FloatArray, IntArray

# Largest change of an intercept that is looked for.
_FAR = 1e3


def farthest_without(state: FitState, rows: IntArray) -> float:
    """Bound the distance from a fit to the minimizer without some records, over unit noise.

    Infinite without a penalty, or where there is no minimizer.
    """
    objective, w = state.objective, state.factor.coefficients
    if len(objective.y) <= len(rows) or is_large(objective.X):
        return np.inf
    widest = state.noise.widest(len(w))
    return float(_bound(objective.without(rows), w) * widest)


def _bound(objective: Objective, w: FloatArray) -> float:
    """Bound on the distance of the minimizer from ``w``, (p,)."""
    strength = objective.total * objective.alpha
    if not strength > 0.0:
        return np.inf
    shift = 0.0
    if objective.fit_intercept:
        if isinstance(objective, MultinomialObjective):
            return np.inf
        shift = _intercept_shift(objective, objective.predictor(w))
        if not np.isfinite(shift):
            return np.inf  # counts that are all zero, or labels that are all equal
    there = w.copy()
    if objective.fit_intercept:
        there[-1] += shift
    at = objective.at(there)
    gradient = at.gradient[: objective.X.shape[1]] if objective.fit_intercept else at.gradient
    size = objective.total * (float(np.linalg.norm(gradient)) + at.gradient_round_off)
    delta = size / strength
    if not objective.fit_intercept:
        return delta
    longest = Blocks.of(objective.X).map_reduce(_longest, max)
    return float(np.hypot(delta, abs(shift) + longest * delta))


def _intercept_shift(objective: Objective, a: FloatArray) -> float:
    """Change of the intercept that minimizes at predictors ``a``, (n,); infinite if none does."""
    weights, y, loss = objective.weights, objective.y, objective.loss

    def slope(shift: float) -> float:
        with np.errstate(over="ignore"):
            return float(weights @ loss.residual(a + shift, y))

    span = 1.0
    while span < _FAR and slope(-span) * slope(span) > 0.0:
        span *= 2.0
    if not slope(-span) < 0.0 < slope(span):
        return np.inf
    return float(optimize.brentq(slope, -span, span, xtol=1e-14 * span))


def _longest(X: Data) -> float:
    return float(np.linalg.norm(X, axis=1).max(initial=0.0))


# What rounding may take from a length that is the root of a difference of squares.
_ROUNDING = 1e-7


def removal_bounds(state: FitState) -> Any:
    """Upper bounds on the distances of the fits with and without each record, (n,), lazily.

    Over the noise at scale 1; exact for the squared loss. Otherwise as `removal_distances`.
    """
    objective: Any = state.objective
    if isinstance(objective, MultinomialObjective):
        raise AttackNotApplicableError(
            "The privacy of all records outside memory is bounded for models with one predictor; "
            f"this one has {objective.n_classes} classes. Name some of them by `records`."
        )
    sums = objective.at(state.factor.coefficients).sums.curvature
    longest = TableMaxima.of(state, None, Columns()).leverage
    rounding = factor_rounding(objective, state.factor.coefficients, state.factor.inverse_hessian)
    none = np.zeros(0)
    given = objective.loss, objective.alpha, objective.fit_intercept, none, none
    empty = np.zeros((0, objective.X.shape[1]))
    rest = _Rest(empty, none, *given, weight=objective.total, rounding=rounding)
    records = objective.X, objective.y, objective.sample_weight
    blocks = Blocks.of(*records, width=4 * objective.n_parameters)
    alone = state.once(lone_classes)
    return blocks.map(_distances, measuring_state(state), rest, sums, longest, alone)


@dataclass(frozen=True)
class _Rest(Objective):
    """An objective without its records, of which the sum of the weights is left."""

    weight: float = field(kw_only=True)
    rounding: float = field(kw_only=True)  # relative error of its inverse Hessian

    @property
    def total(self) -> float:
        """``N``, the sum of the sample weights."""
        return self.weight


def _distances(
    X: Data,
    y: FloatArray,
    s: FloatArray,
    state: FitState,
    rest: _Rest,
    sums: Any,
    longest: float,
    alone: FloatArray,
) -> FloatArray:
    """Upper bounds of a block, (b,)."""
    x = augment(dense(X), rest.fit_intercept)
    found = np.zeros(len(y))
    for weight in np.unique(s[s > 0.0]).tolist():
        some, left = np.flatnonzero(s == weight), rest.total - weight
        found[some] = np.inf
        if not left > 0.0:
            continue
        try:
            inverse = sums.factor(rest.alpha * left).inverse()
        except SingularMatrixError:
            continue
        found[some] = _farthest(state, rest, x[some], y[some], weight, sums.mean)
        own = x[some, None], y[some, None], np.full((len(some), 1), -weight)
        removal = Change.about(rest, state.factor.coefficients, *own, inverse=inverse)
        there = np.flatnonzero(removal.remaining >= SINGULAR)
        near = _bounded(state, removal.take(there), longest * rest.total / left)
        found[some[there]] = np.minimum(found[some[there]], near)
    found[np.isin(y, alone) & (s > 0.0)] = np.inf  # a release tells its label
    return found


def _bounded(state: FitState, removal: Change, longest: float) -> FloatArray:
    """Upper bounds for some records of one weight, (b,); ``longest`` bounds all leverages."""
    steps = removal.first_steps()
    lengths = np.linalg.norm(state.noise.whitened(steps), axis=1)
    rest: Any = removal.objective
    error = np.maximum(removal.rounding_error(steps), rest.rounding)
    # An estimate with a margin: up to a half, it is added.
    lengths = lengths / (1.0 - np.where(error > _ROUNDING, np.minimum(error, 0.5), 0.0))
    lengths = np.where(error > 0.5, np.inf, lengths)
    if rest.loss.quadratic:
        return lengths
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        energy = np.sqrt(removal.energy(steps)) * (1.0 + _ROUNDING)
        rho = np.sqrt(longest / removal.remaining) * (1.0 + _ROUNDING)
        white = state.noise.whitened(state.noise.whitened(removal.inverse).T)
        more = way_left(energy, rho) * np.sqrt(np.linalg.norm(white, 2) / removal.remaining)
        return np.nan_to_num(lengths + more, nan=np.inf, posinf=np.inf)


def _farthest(
    state: FitState,
    rest: _Rest,
    x: FloatArray,
    y: FloatArray,
    weight: float,
    mean: FloatArray | None,
) -> FloatArray:
    """Bounds by strong convexity in the coefficients, whatever rounding leaves of a Hessian, (b,).

    Infinite without a penalty, and with an intercept for losses that are not squared: where their
    intercepts would be without a record is not known here. ``mean`` (d,) is that of the columns.
    """
    w, left = state.factor.coefficients, rest.total - weight
    strength, penalty = rest.alpha * left, rest.alpha * weight * state.factor.weights
    if not strength > 0.0 or (rest.fit_intercept and not rest.loss.quadratic):
        return np.full(len(y), np.inf)
    pull = weight * rest.loss.residual(x @ w, y)
    widest = state.noise.widest(len(w))
    if mean is None:
        return np.asarray(widest * np.linalg.norm(pull[:, None] * x + penalty, axis=1) / strength)
    x = x[:, :-1]
    others = (rest.total * mean - weight * x) / left
    gradient = pull[:, None] * (x - others) + penalty
    delta = np.linalg.norm(gradient, axis=1) / strength
    intercept = np.abs(pull) / left + np.linalg.norm(others, axis=1) * delta
    return np.asarray(widest * np.hypot(delta, intercept))


# Entries of one block of a table of products of columns: 32 MB.
_TABLE_ELEMENTS = 1 << 22


def tensor_pays(objective: Objective, n_removals: int) -> bool:
    """Return True if the tensor fits in memory and costs less than a pass over the data."""
    p, n = objective.n_parameters, len(objective.y)
    return p**3 <= 2 * _TABLE_ELEMENTS and (n + n_removals) * p * p < 4 * n * n_removals


def second_order_change(removal: Change, steps: FloatArray) -> FloatArray:
    """Compute the second-order change of steps by the third derivatives of the losses, (b, p)."""
    rest = removal.objective
    second = second_order(steps, third_derivatives(rest, rest.third_derivatives(removal.w)))
    return removal.hessian.solve(second + removal.second_order(steps))


def contraction(removal: Change, steps: FloatArray) -> FloatArray:
    """Bound on the factor by which the error of a step falls from one order to the next, (b,).

    See `contraction_form`, from which the removed record is missing.
    """
    rest = removal.objective
    form = contraction_form(rest, rest.curvatures(removal.w), removal.inverse)
    own = np.einsum("bmj,bmj->bm", removal.x, removal.images)
    along = removal.along(steps)[..., 0]
    total = np.einsum("ij,ij->i", steps @ form, steps)
    # Which is negative: the records are not there.
    total += (removal.curvature * own * along**2).sum(axis=1)
    return np.sqrt(np.maximum(total, 0.0) / removal.remaining)


def error_bound(
    removal: Change, steps: FloatArray, correction: FloatArray, factor: FloatArray
) -> FloatArray:
    """Bound on the error after the correction by third derivatives, in Euclidean norm, (b,).

    Left are the correction of the correction and the fourth derivatives, a sixth of ``f^2`` of the
    step in the norm of the Hessian (a quarter, as derivatives change on the way).
    """
    size, change = removal.energy(steps), removal.energy(correction)
    error = factor * (np.sqrt(change) + 0.25 * factor * np.sqrt(size))
    widest = np.sqrt(np.linalg.eigvalsh(removal.inverse)[-1] / removal.remaining)
    return widest * np.where(factor < 0.5, error, np.sqrt(size))


# Entries of the records of a block of removals: 256 MB.
_ELEMENTS = 1 << 25
# Error, relative to how far a record moves the minimizer, at which it is settled.
_TOLERANCE = 1e-6
# The same where it is estimated from the last moves, and not proven.
_ESTIMATED = 1e-7


def removal_steps(
    objective: Objective,
    w: FloatArray,
    rows: "IntArray | Persons",
    measure: Callable[[FloatArray], FloatArray] = np.asarray,
) -> FloatArray:
    """Compute the steps of the minimizer when each of many records, or persons, is removed.

    Shapes: ``w`` (p,); ``rows`` (b,), or b persons; returns (b, p): minimizer without minus ``w``;
    zero for a weight of zero, and NaN where no minimizer is reached. Or what is measured of blocks
    of them, (b, ...).
    """
    shift = objective.far_means()
    if shift is not None:
        there = objective.shifted(shift), objective.moved(w, shift)
        return removal_steps(*there, rows, lambda steps: measure(objective.moved(steps, -shift)))
    persons = rows if isinstance(rows, Persons) else Persons.single(rows)
    some = objective.parts(persons.rows) if is_large(objective.X) else None
    own = objective.sample_weight[persons.rows] if some is None else some.sample_weight
    weights = persons.sums(own)
    known: dict[float, Change] = {}

    def found(which: IntArray) -> FloatArray:
        weight = float(weights[which[0]])
        if weight >= objective.total:
            return np.full((len(which), len(w)), np.nan)
        places = persons.places(which)
        gone = np.where(places < 0, -1, persons.rows[places])
        removal = Change.without(objective, w, gone, known.get(weight))
        known.setdefault(weight, removal.take(np.arange(0)))
        return _steps_without(removal)

    return _of_one_weight(objective, w, persons, weights, found, measure)


def addition_steps(
    objective: Objective,
    w: FloatArray,
    X: Data,
    y: FloatArray,
    sample_weight: FloatArray,
    persons: Persons | None = None,
) -> FloatArray:
    """Compute the steps of the minimizer when each of many records, or persons, is added.

    Shapes: ``w`` (p,); ``X`` (n, d); ``y``, ``sample_weight`` (n,); ``persons`` of these, each
    alone by default; returns (b, p): minimizer with them minus ``w``; zero for a weight of zero,
    and NaN where none is reached.
    """
    shift, X = objective.far_means(), dense(X)
    if shift is not None:
        there = objective.shifted(shift), objective.moved(w, shift)
        steps = addition_steps(*there, X - shift, y, sample_weight, persons)
        return objective.moved(steps, -shift)
    persons = Persons.single(np.arange(len(y))) if persons is None else persons
    x, weights = augment(X, objective.fit_intercept), persons.sums(sample_weight[persons.rows])

    def found(which: IntArray) -> FloatArray:
        places = persons.places(which)
        some = persons.rows[places]
        weight = np.where(places < 0, 0.0, sample_weight[some])
        addition = Change.about(objective, w, x[some], y[some], weight)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            steps = addition.first_steps()
            quadratic = objective.loss.quadratic
            addition.settle(steps, _TOLERANCE, None if quadratic else np.linalg.norm(steps, axis=1))
        return steps

    return _of_one_weight(objective, w, persons, weights, found)


def _of_one_weight(
    objective: Objective,
    w: FloatArray,
    persons: Persons,
    weights: FloatArray,
    found: Callable[[IntArray], FloatArray],
    measure: Callable[[FloatArray], FloatArray] = np.asarray,
) -> FloatArray:
    """Find the steps (b, p) of those of one weight together, or what is measured of them."""
    none = measure(np.zeros((1, len(w))))
    result = np.repeat(none, len(persons), axis=0)
    width = len(w) * objective.layout[0].size
    # Of other losses more share a pass over the data.
    elements = BLOCK_ELEMENTS if objective.loss.quadratic else _ELEMENTS
    for weight in np.unique(weights[weights > 0.0]):
        members = np.flatnonzero(weights == weight)
        for which in persons.take(members).blocks(width, elements):
            result[members[which]] = measure(found(members[which]))
    return result


def _steps_without(removal: Change) -> FloatArray:
    """Return steps without records of one weight, of shape (b, p)."""
    # A step that overflows is not settled, and its record is left to a refit.
    objective = removal.objective
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        steps = removal.first_steps()
        error = None if objective.loss.quadratic else np.linalg.norm(steps, axis=1)
        if error is None or isinstance(objective, MultinomialObjective):
            removal.settle(steps, _ESTIMATED, error)
            return steps
        factor = contraction(removal, steps)
        if tensor_pays(objective, len(steps)):
            correction = second_order_change(removal, steps)
            error = error_bound(removal, steps, correction, factor)
            steps = steps - correction
        removal.settle(steps, _TOLERANCE, error, factor)
    return steps


# Entries of the encodings of a block: 256 MB.
_ENCODING_ELEMENTS = 1 << 25


def removal_distances(state: FitState) -> FloatArray:
    """Distance of the fits with and without each training record, over the noise at scale 1.

    Or each of the persons of a fit, with all rows. For noise of a fixed covariance and no
    reweighting: right to 1e-5 of it, or, for a minimizer that is not reached, a proven upper bound.
    Infinite for a record without which there is no minimizer, or which a class that was read off
    the labels needs, and zero for one of weight zero.

    Returns (n,).
    """
    return distances_without(state, state.units)


def distances_without(state: FitState, rows: "IntArray | Persons") -> FloatArray:
    """Do the same for some training records, also outside memory, by their positions, or persons.

    Returns (n,).
    """
    persons = rows if isinstance(rows, Persons) else Persons.single(rows)
    objective, w = state.objective, state.factor.coefficients
    if state.noise_elsewhere is not None:
        return _leaving(state, persons.rows)
    distances = removal_steps(objective, w, persons, partial(_lengths, state))
    distances[alone_in_class(state, persons)] = np.inf
    for k in np.flatnonzero(np.isnan(distances)).tolist():
        distances[k] = farthest_without(state, persons.take(np.array([k])).rows)
    return distances


def _leaving(state: FitState, *given: Any) -> FloatArray:
    """Do the same where the noise is not on the minimizer, by bounds from rows alone."""
    moments = state.noise_elsewhere.mechanism.name == "moments"
    return (moments_leaving if moments else leaving_distances)(state, *given)


def secret_distances(
    state: FitState,
    columns: IntArray | None,
    values: FloatArray,
    rows: "IntArray | Persons | None" = None,
) -> FloatArray:
    """Largest distance from the fit without each record, over all values that it might have.

    The record's own value counts as well. Otherwise as `removal_distances`, of all records or of
    those at some positions, or of persons, all rows of whom would have the value.

    Shapes: ``columns`` (k,), or None for the target; ``values`` (n_values, k); ``rows`` (n,);
    returns (n,).
    """
    persons = state.units
    if rows is None:
        largest = state.once(removal_distances).copy()
    else:
        persons = rows if isinstance(rows, Persons) else Persons.single(rows)
        largest = distances_without(state, persons)
    if state.noise_elsewhere is not None:
        return np.maximum(largest, _leaving(state, persons.rows, columns, values))
    here, own = _fetched(state, persons)
    weights = own.sums(here.objective.parts(own.rows).sample_weight)
    rest = np.isfinite(largest) & (weights > 0.0)
    for block in _blocks(state, own, len(values)):
        some = block[rest[block]]
        if not len(some):
            continue
        members = own.take(some)
        if columns is None:
            encodings = target_encodings(here, members, values[:, 0])
        else:
            X, y = here.objective.X[members.rows], here.objective.y[members.rows]
            encodings = candidate_encodings(here, X, y, columns, values, rows=members)
        without = state.factor.coefficients + _steps(state, persons.take(some))
        # Where one of the two minimizers is not reached, nothing bounds the distance.
        gaps = np.nan_to_num(_lengths(state, encodings - without[:, None]), nan=np.inf)
        largest[some] = np.maximum(largest[some], gaps.max(axis=1))
    return largest


def _fetched(state: FitState, persons: Persons) -> tuple[FitState, Persons]:
    """Return the fit with the rows of some persons in memory, and where these are there."""
    if not is_large(state.objective.X):
        return state, persons
    some = state.objective.parts(persons.rows)
    batch = RecordBatch(some.X, some.y, some.sample_weight, some.reweights)
    places = Persons.single(np.arange(len(persons.rows)))
    return partial_state(state, persons.rows, batch), places


def _blocks(state: FitState, persons: Persons, n_values: int) -> list[IntArray]:
    """Positions of persons, a block at a time."""
    return list(persons.blocks(state.factor.coefficients.size * n_values, _ENCODING_ELEMENTS))


def _steps(state: FitState, persons: Persons) -> FloatArray:
    """Find steps of the minimizer without each, (b, p); NaN where none is reached."""
    return removal_steps(state.objective, state.factor.coefficients, persons)


def _lengths(state: FitState, steps: FloatArray) -> FloatArray:
    """Lengths of steps (..., p) over the noise at scale 1, of shape (...); NaN where unknown."""
    known = np.all(np.isfinite(steps), axis=-1)
    lengths = np.linalg.norm(state.noise.whitened(np.where(known[..., None], steps, 0.0)), axis=-1)
    return np.where(known, lengths, np.nan)
