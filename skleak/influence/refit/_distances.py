"""Distances between fits.

How far a fit moves when one entry of one record changes: numbers that bound everything else.

Of every candidate, the rank-two change ``E`` of the Hessian H and the step ``D`` of the minimizer
leave a few norms, from which `skleak.influence.refit._distances` bounds what becomes of the leakage
of all other records. In coordinates in which the noise is isotropic.

Proven bounds on what one changed entry of one record does to the leakage of all records.

With ``M = c x w_S^T + r E_S`` the Jacobian of a record over the columns S is ``A M``. A candidate
changes A to A' and M to M', for every record by a little:

    | ||A' M'|| - ||A M|| |  <=  ||I - A1 H|| ||A M|| + ||(A' - A1) M|| + ||A' (M' - M)|| ,

with ``A1 = (H + E)^-1``, E the change of rank two at the old minimizer. The curvature of the losses
here changes by a factor of at most ``exp(|t|)`` over a step t of the predictor, so that
``A1^-1`` and ``A'^-1`` differ by at most ``k = exp(max |x.D|) - 1`` relative to either.

Proven bounds on what one changed entry of one record does to distances of encodings.

The encodings of two values of record j, less those had record i another value, are a second
difference: from ``z = w + D_i + D_j`` the changed fit is one step away, whose gradient is

    G = E_i D_j + E_j D_i + sum_k s x (r(a + t_i + t_j) - r(a + t_i) - r(a + t_j) + r(a)) ,

the E at integrated curvatures; record i may have changed in other columns than j, or in its target.
With ``Q = ||G||`` in the norm of the inverse Hessian the minimizer
lies within ``Q / (1 - k)`` of z in the norm of the Hessian, as F is convex.

The shape of the noise had a record been different, where it is a function of the records.

A candidate changes one record, so the fit, so the shape. Under the minimax shape with equal weights
(`_minimax_shape`) everything is taken in the whitened coordinates of the fit itself, in which
the changed Hessian is close to the identity and nothing depends on the units of the columns. For
the squared loss a few moments of the records give every changed fit exactly: with the residuals r
of the fit and a step delta of the minimizer, the new residuals are ``r + x'.delta``, so that

    sum s r'^2 = sum s r^2 + 2 delta^T sum s r x' + delta^T (sum s x' x'^T) delta .
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import Columns
from skleak.influence.noise import Counting, fixed_losses, inverse_hessian_root, measuring_state
from skleak.influence.refit._candidates import (
    TABLE_ELEMENTS,
    Candidates,
    candidate_encodings,
    encoded,
    inverse_hessians,
)
from skleak.influence.refit._changes import Change, change_width, changed_columns
from skleak.influence.refit._chord import check_reached
from skleak.influence.state import FITTED_SHAPES, FitState, NoiseShape, RecordBatch, partial_state
from skleak.utils._blocks import Blocks, add, dense, is_large, row_blocks
from skleak.utils._linalg import augment
from skleak.utils._summaries import around_quantile
from skleak.utils._typing import BoolArray, Data, FloatArray, IntArray

# What rounding may take from a norm that is the root of a difference of squares.
_ROUNDING = 1e-7


@dataclass(frozen=True)
class Reach:
    """Norms of the change of every candidate, each of shape (b,), or (n, n_values) in the end."""

    least: FloatArray  # A lower bound on ``H + E`` relative to H; at most 0 where there is none
    operator: FloatArray  # ``||I - A' H||`` for ``A' = (H + E)^-1``, in the spectral norm
    # largest change ``|x.D|`` of the predictor of a record, the changed one included
    predictor: FloatArray
    watched: FloatArray  # ``|D_S|`` for the columns that are watched
    energy: FloatArray  # ``sqrt(D^T H D)``
    weight: FloatArray  # ``s omega`` of the record
    length: FloatArray  # how far its entries move
    curvature: FloatArray  # ``c`` of the changed record at the old minimizer
    curvature_change: FloatArray  # by how much that differs from the record's own
    residual: FloatArray  # ``|r|`` of the changed record at the old minimizer
    leverage: FloatArray  # ``x^T A x`` of the changed record
    own_leverage: FloatArray  # of the record
    change_leverage: FloatArray  # of their difference
    image: FloatArray  # ``|A x|`` of the changed record

    @classmethod
    def of(
        cls,
        state: FitState,
        rows: IntArray,
        columns: IntArray | None,
        values: FloatArray,
        watched: IntArray,
        longest: float | None = None,
    ) -> Self:
        """Every value of a secret in some records, each number of shape (n, n_values).

        With ``longest``, the largest leverage of a training record, steps and what they do to other
        records are bounded, without a look at these.

        Shapes: ``rows`` (n,); ``columns`` (k,); ``values`` (n_values, k).
        """
        objective, parts = state.objective, []
        given, width = changed_columns(columns, values), len(values) * change_width(state)
        for block in row_blocks(len(rows) or 1, width, TABLE_ELEMENTS):
            some = rows[block]
            change = Change.of(state, dense(objective.X[some]), objective.y[some], some, *given)
            parts.append(cls._of_changes(state, change, watched, longest))
        names = [field.name for field in fields(cls)]
        shape = (len(rows), len(values))
        return cls(*(np.concatenate([getattr(p, n) for p in parts]).reshape(shape) for n in names))

    @classmethod
    def _of_changes(
        cls, state: FitState, change: Change, watched: IntArray, longest: float | None
    ) -> Self:
        loss, w = state.objective.loss, state.factor.coefficients
        old, new, image_old, image_new = change.pair
        a_old, a_new = old @ w, new @ w
        c_old, c_new = loss.curvature(a_old), loss.curvature(a_new)
        least = _least(change, c_old, c_new)
        if longest is None:
            step = encoded(change) - w
            predictor, energy = _sizes(state, change, step)
            along = np.linalg.norm(step[:, watched], axis=1)
        else:
            predictor, energy, along = _bounded_sizes(change, watched, longest, least)
        difference = new - old
        images = state.noise.whitened(image_new)
        return cls(
            least=least,
            operator=_operator(state.noise, change),
            predictor=predictor,
            watched=along,
            energy=energy,
            weight=change.weight[:, 1],
            length=np.linalg.norm(difference, axis=1),
            curvature=c_new,
            curvature_change=np.abs(c_new - c_old),
            residual=np.abs(loss.residual(a_new, change.y[:, 1])),
            leverage=_dots(new, image_new),
            own_leverage=_dots(old, image_old),
            change_leverage=_dots(difference, image_new - image_old),
            image=np.linalg.norm(images, axis=1),
        )

    def largest(self) -> Self:
        """Return the number that bounds a record over all its values, each of shape (n,)."""
        values = {f.name: getattr(self, f.name).max(axis=1) for f in fields(self)}
        return replace(self, **values | {"least": self.least.min(axis=1)})

    def take(self, which: Any) -> Self:
        """Return some of the records, by any index of an array."""
        return replace(self, **{f.name: getattr(self, f.name)[which] for f in fields(self)})


def _dots(x: FloatArray, images: FloatArray) -> FloatArray:
    """``x^T A x`` from x and ``A x``, never below what rounding may hide."""
    return np.maximum(np.einsum("ij,ij->i", x, images), 0.0)


def _sizes(state: FitState, change: Change, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest change of a predictor, and the energy of the step, of shape (b,) each."""
    objective, d = state.objective, state.n_features
    table = objective.X @ step[:, :d].T
    if objective.fit_intercept:
        table += step[:, d]
    curvature = objective.loss.curvature(objective.predictor(state.factor.coefficients))
    weights = objective.weights * curvature
    energy = weights @ table**2 + objective.total * (step**2 @ objective.penalty)
    present = objective.weights > 0.0
    largest = np.abs(table[present]).max(axis=0)
    own = np.abs(np.einsum("ij,ij->i", change.x[:, 1], step))
    return np.maximum(largest, own), np.sqrt(energy)


def _bounded_sizes(
    change: Change, watched: IntArray, longest: float, least: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bounds on the change of a predictor, on the energy and on ``|D_S|`` of steps, (b,) each.

    The first Newton step ``D_1`` of the changed objective is exact for the squared loss. Else, with
    t the largest ``|x.D_1|``, the gradient there is at most ``Q = t exp(t) / 2`` times its length
    in the norm of ``H' = H + E``, as the curvature changes by at most ``exp(|t|)``. Along the way
    to the minimizer, at a distance r, it is at least ``exp(-t) (1 - exp(-rho r)) / rho``, with rho
    the largest ``|x.v|`` of a v of length 1, so that ``r <= -log(1 - rho Q exp(t)) / rho``.
    """
    loss, gradient, hessian = change.objective.loss, change.first_gradient, change.hessian
    first = change.first_steps()
    # Both lie in the span of two vectors, of which A has the products.
    part = change.weight * loss.residual(change.x @ change.w, change.y)
    gram = np.einsum("bkp,blp->bkl", change.x, hessian.basis)
    part -= np.einsum("bkl,blm,bm->bk", hessian.core, gram, part)
    squares = np.einsum("bk,bkl,bl->b", part, gram, part)
    bound = np.einsum("bk,bkk->b", part**2, gram)
    energy = np.sqrt(np.maximum(squares, 0.0)) + _ROUNDING * np.sqrt(bound)
    along = np.linalg.norm(first[:, watched], axis=1)
    length = np.sqrt(np.maximum(longest, _dots(change.x[:, 1], change.images[:, 1])))
    if not loss.quadratic:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t, root = length * energy, np.sqrt(np.where(least > 0.0, 1.0 / least, np.inf))
            # ``D_1`` is no longer in the norm of H' than its gradient in that of the inverse.
            own = np.sqrt(np.maximum(-np.einsum("bp,bp->b", gradient, first), 0.0))
            inner = length * root * 0.5 * t * np.exp(2.0 * t) * (own + _ROUNDING * np.sqrt(bound))
            rest = np.where(inner < 1.0, -np.log1p(-np.minimum(inner, 1.0)) / length, np.inf)
            inverse = change.inverse[np.ix_(watched, watched)]
            rest = np.where(t == 0.0, 0.0, np.nan_to_num(rest, nan=np.inf, posinf=np.inf))
        energy, along = energy + rest, along + rest * np.sqrt(np.linalg.norm(inverse, 2))
    return length * energy, energy, along


def _least(change: Change, c_old: FloatArray, c_new: FloatArray) -> FloatArray:
    """Smallest eigenvalue of ``I + A^1/2 E A^1/2``, or 1 if that is smaller, of shape (b,)."""
    old, new, image_old, image_new = change.pair
    out, put = change.weight[:, 1] * c_old, change.weight[:, 1] * c_new
    cross = np.einsum("ij,ij->i", old, image_new)
    first, last = 1.0 - out * _dots(old, image_old), 1.0 + put * _dots(new, image_new)
    mean, determinant = 0.5 * (first + last), first * last + out * put * cross**2
    root = np.sqrt(np.maximum(mean**2 - determinant, 0.0))
    return np.minimum(mean - root, 1.0) - _ROUNDING


def _operator(noise: NoiseShape, change: Change) -> FloatArray:
    """Spectral norm of ``A U core U^T`` in whitened coordinates, of shape (b,)."""
    hessian = change.hessian
    images, pair = noise.whitened(hessian.basis), noise.whitened_dual(change.x)
    left, right = images @ images.transpose(0, 2, 1), pair @ pair.transpose(0, 2, 1)
    product = left @ hessian.core @ right @ hessian.core.transpose(0, 2, 1)
    mean = 0.5 * np.trace(product, axis1=1, axis2=2)
    determinant = np.linalg.det(product)
    square = mean + np.sqrt(np.maximum(mean**2 - determinant, 0.0))
    terms = np.trace(left, axis1=1, axis2=2) * np.trace(right, axis1=1, axis2=2)
    slack = _ROUNDING * np.sqrt(terms) * np.linalg.norm(hessian.core, axis=(1, 2))
    return np.sqrt(np.maximum(square, 0.0)) + slack


# Relative error of losses and distances that were computed.
_SLACK = 1e-9


def loss_brackets(
    state: FitState,
    rows: IntArray,
    columns: IntArray | None,
    values: FloatArray,
    measured: Columns,
    quantile: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Bound a quantile of the losses of all records, had one of them another value of a secret.

    For one predictor, noise of a fixed covariance and no reweighting. ``rows`` are the training
    rows that take part, ``columns`` None for the target, and ``quantile`` is the share of records
    that stay below; the higher of two neighbors. Of records outside memory all have a row, lazily;
    how far a candidate moves their predictors is bounded, and not measured.

    Shapes: ``rows`` (n,); ``columns`` (k,); ``values`` (n_values, k); returns (n, n_values) twice,
    at unit noise: entry ``[i, m]`` is for the data in which record i carries ``values[m]``.
    """
    asked = (columns, values, measured)
    objective, large = state.objective, is_large(state.objective.X)
    unit = state.at_noise(1.0)
    batch = state.training if large else state.training.take(rows)
    losses: Any = fixed_losses(unit, batch, [measured])[:, 0]
    known = np.where(batch.present, losses, np.nan) if large else losses
    around = around_quantile(known, quantile, 1)
    maxima = TableMaxima.of(state, None if large else rows, measured)
    if not large:
        return _Bounds(unit, *asked, around, maxima, None).of_rows(rows, batch, losses)
    bounds = _Bounds(measuring_state(unit), *asked, around, maxima, maxima.leverage)
    width = len(values) * 8 * objective.n_parameters
    vectors = objective.y, objective.sample_weight, objective.reweights, losses
    found = Blocks.of(objective.X, *vectors, width=width).map(_of_block, bounds)
    return found[:, 0], found[:, 1]


def _of_block(
    X: FloatArray,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    losses: FloatArray,
    bounds: "_Bounds",
) -> FloatArray:
    """Brackets of the records of a block far from all others, (b, 2, n_values)."""
    batch, rows = RecordBatch(X, y, s, omega), np.arange(len(y))
    near = replace(bounds, state=partial_state(bounds.state, rows, batch))
    return np.stack(near.of_rows(rows, batch, losses), axis=1)


@dataclass(frozen=True)
class _Bounds:
    """Bounds of every candidate: what is asked, and what all records give."""

    state: FitState  # at unit noise
    columns: IntArray | None
    values: FloatArray
    measured: Columns
    around: FloatArray  # the losses at the rank that counts and at those next to it, (3,)
    maxima: "TableMaxima"
    longest: float | None  # largest leverage, where predictors of other records are not at hand

    def of_rows(
        self, rows: IntArray, batch: RecordBatch, losses: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Brackets of some training records, (n, n_values) twice, from their losses (n,)."""
        given = self.columns, self.values
        own, same = _own_losses(self.state, batch, *given, self.measured)
        indices = _indices(self.state, self.measured)
        reach = Reach.of(self.state, rows, *given, indices, longest=self.longest)
        start, error = _with_one_replaced(losses, own, self.around), self._error(reach, indices)
        with np.errstate(invalid="ignore", over="ignore"):
            relative = reach.operator + _SLACK
            low, high = start * (1.0 - relative) - error, start * (1.0 + relative) + error
        actual = self.around[1]
        return (
            np.where(same, actual, np.maximum(np.nan_to_num(low, nan=0.0), 0.0)),
            np.where(same, actual, np.nan_to_num(high, nan=np.inf, posinf=np.inf)),
        )

    def _error(self, reach: Reach, indices: IntArray) -> FloatArray:
        """Largest change of a norm that does not scale with it, of shape (n, n_values)."""
        state, inverse = self.state, self.state.factor.inverse_hessian
        slope, root = _slope_and_root(state, self.measured)
        block = float(np.linalg.norm(state.noise.whitened(inverse[indices]), 2))  # ||A E_S||
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inverse_least = np.where(reach.least > 0.0, 1.0 / reach.least, np.inf)
            change = 0.0 if state.objective.loss.quadratic else np.expm1(reach.predictor)
            left = np.where(change < 1.0, change / (1.0 - change), np.inf)
            tail = inverse_least * np.sqrt(_largest_variance(state)) * left
            tail = np.where(left == 0.0, 0.0, tail)
            norms = reach.weight, reach.curvature, reach.residual, reach.leverage, reach.image
            own = _record_sizes(*norms, (slope, root, self.measured.target))
            first, images, roots, weights = (
                np.maximum(one, most) for one, most in zip(own, self.maxima.sizes, strict=True)
            )
            grown = 1.0 + reach.operator
            moved = change * slope + (1.0 + change) * reach.watched
            through_slope = moved * (grown * images + tail * roots)
            through_residual = (1.0 + change) * reach.predictor * weights
            through_residual = through_residual * (grown * block + tail * root)
            return np.asarray(tail * first + through_slope + through_residual)


def _record_sizes(
    weight: FloatArray,
    curvature: FloatArray,
    residual: FloatArray,
    leverage: FloatArray,
    image: FloatArray,
    measured: tuple[float, float, bool],
) -> list[FloatArray]:
    """Sizes of records, before or after a change, by which errors of norms are bounded.

    Of norms of some records; ``measured`` are slope and root of the columns that are measured, and
    whether the target is.
    """
    slope, root, target = measured
    first = (slope * curvature + target) * np.sqrt(leverage) + residual * root
    curved = weight * curvature
    return [weight * first, curved * image, curved * np.sqrt(leverage), curved]


@dataclass(frozen=True)
class TableMaxima:
    """Largest numbers of the training records that take part."""

    sizes: FloatArray  # see `_sizes`, (4,)
    leverage: float  # largest ``x^T A x``

    @classmethod
    def of(cls, state: FitState, rows: IntArray | None, measured: Columns) -> Self:
        """Find them in one pass; in all records for ``rows`` None."""
        objective, alone = state.objective, measuring_state(state)
        records = objective.X, objective.y, objective.weights
        blocks = Blocks.of(*records, width=objective.n_parameters, rows=rows)
        found = blocks.map_reduce(_maxima, np.maximum, alone, measured)
        return cls(found[:-1], float(found[-1]))


def _maxima(
    X: FloatArray, y: FloatArray, weight: FloatArray, state: FitState, measured: Columns
) -> FloatArray:
    """Maxima of a block, (5,)."""
    some = weight > 0.0
    X, y, weight = X[some], y[some], weight[some]
    x, r, c, _ = state.factor.derivatives(X, y)
    images = x @ state.factor.inverse_hessian
    leverage = _dots(x, images)
    image = np.linalg.norm(state.noise.whitened(images), axis=1)
    known = (*_slope_and_root(state, measured), measured.target)
    sizes = _record_sizes(weight, c, np.abs(r), leverage, image, known)
    return np.array([one.max(initial=0.0) for one in (*sizes, leverage)])


def _slope_and_root(state: FitState, measured: Columns) -> tuple[float, float]:
    """``|w_S|`` and ``||A^1/2 E_S||`` of the columns that are measured."""
    indices, inverse = _indices(state, measured), state.factor.inverse_hessian
    slope = float(np.linalg.norm(state.factor.weights[indices]))
    return slope, float(np.sqrt(np.linalg.norm(inverse[np.ix_(indices, indices)], 2)))


def _indices(state: FitState, measured: Columns) -> IntArray:
    return np.arange(state.n_features) if measured.indices is None else measured.indices


def _own_losses(
    state: FitState,
    batch: RecordBatch,
    columns: IntArray | None,
    values: FloatArray,
    measured: Columns,
) -> tuple[FloatArray, BoolArray]:
    """Loss of each record at each value, at the old minimizer, and which value is its own."""
    losses = np.empty((len(batch), len(values)))
    for block in row_blocks(len(batch), len(state.factor.coefficients)):
        own = batch.take(block)
        X, y = dense(own.X).copy(), own.y
        for m, value in enumerate(values):
            if columns is None:
                y = np.full(len(own), value[0])
            else:
                X[:, columns] = value
            moved = replace(own, X=X, y=y)
            losses[block, m] = fixed_losses(state, moved, [measured])[:, 0]
    return losses, is_own(batch, columns, values)


def is_own(batch: RecordBatch, columns: IntArray | None, values: FloatArray) -> BoolArray:
    """Mask of the value that each record has, of shape (n, n_values)."""
    if columns is None:
        return np.asarray(batch.y[:, None] == values[:, 0])
    return np.all(dense(batch.X[:, columns])[:, None, :] == values, axis=2)


def _with_one_replaced(losses: FloatArray, own: FloatArray, around: FloatArray) -> FloatArray:
    """Return the loss of a rank, had each record another loss, of shape (n, n_values).

    ``around`` are the losses of the rank before, of the rank, and of the rank after, (3,).
    """
    before, at, after = around
    # Without a record, those above it move down by one. Of equal losses any may be the one at the
    # rank: the neighbors of that are then as good as equal to it.
    slack = 1e-12 * abs(at)
    below = np.where(losses < at - slack, at, before)
    above = np.where(losses <= at + slack, after, at)
    return np.clip(own, below[:, None], above[:, None])


def _largest_variance(state: FitState) -> float:
    """Largest eigenvalue of A, in coordinates in which the noise is isotropic."""
    noise = state.noise
    return float(np.linalg.norm(noise.whitened(noise.whitened(state.factor.inverse_hessian).T), 2))


# Columns of what is changed, None for the target, and their values; and those of an attribute.
Block = tuple[IntArray | None, FloatArray]
Attribute = tuple[IntArray | None, FloatArray]


def distance_brackets(
    state: FitState, rows: IntArray, secret: Block, attribute: Attribute, distances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the largest distance between two values of an attribute, had one record another entry.

    For one predictor, noise of a fixed covariance and no reweighting. The ``secret`` is what is
    changed in one of the training ``rows``: the attribute itself or something else. ``distances``
    are the largest ones between the encodings of two values of the attribute of each record, over
    the noise at scale 1. Where the attribute is the target, of columns None, so is the secret.

    Shapes: ``rows``, ``distances`` (n,); returns (n, n_values) twice, at unit noise: entry
    ``[i, m]`` is for the data in which record i carries the m-th value of the secret.

    The distances of record i itself do not depend on its own attribute; had it another entry, they
    are computed.
    """
    (columns, values), (ends, end_values) = secret, attribute
    n, n_values = len(rows), len(values)
    watched = np.zeros(0, dtype=np.intp) if ends is None else ends
    reach = Reach.of(state, rows, columns, values, watched)
    own = np.repeat(distances[:, None], n_values, axis=1)
    if ends is None and columns is not None:
        raise ValueError("Distances of targets are bounded for changes of targets alone.")
    if ends is None or (columns is not None and np.array_equal(columns, ends)):
        others = reach
    else:
        found = tuple(rows.tolist()), tuple(ends.tolist()), tuple(end_values.ravel().tolist())
        others, steps = state.once(_Steps(*found))
        if columns is not None:
            others = replace(others, watched=np.linalg.norm(steps[:, :, columns], axis=2))
        _measure_own(state, rows, secret, attribute, own)
    pairs = _Pairs.of(state, rows, reach, others)
    # Of two values one is the actual one; of more, both ends of a distance may move.
    moving = 1.0 if len(end_values) == 2 else 2.0
    # Records whose distance stays below that of another one are never the largest.
    farthest = moving * pairs.cross_differences(reach.largest().take(np.s_[None]).largest())[0]
    near = np.flatnonzero(distances + farthest >= np.sort(distances)[-2:][0])
    pairs = replace(pairs, others=pairs.others.take(near))
    low, high = own.copy(), own.copy()
    for m in range(n_values):
        for block in row_blocks(n, len(near)):
            moved = moving * pairs.cross_differences(reach.take((block, m)))
            itself = near == np.arange(n)[block, None]
            for bounds, sign in ((low, -1.0), (high, 1.0)):
                rest = np.where(itself, -np.inf, distances[near] + sign * moved)
                bounds[block, m] = np.maximum(bounds[block, m], rest.max(axis=1))
    same, actual = is_own(state.training.take(rows), columns, values), float(distances.max())
    # Where a minimizer is not reached, the distance may be any.
    low = np.maximum(np.nan_to_num(low, nan=0.0, posinf=np.inf), 0.0) * (1.0 - _SLACK)
    high = np.nan_to_num(high, nan=np.inf, posinf=np.inf) * (1.0 + _SLACK)
    return np.where(same, actual, low), np.where(same, actual, high)


def largest_distances(points: FloatArray) -> FloatArray:
    """Find the largest distance of two encodings of every record.

    Shapes: ``points`` (n, n_values, p); returns (n,). Exactly 0 where all are equal, bit by bit.
    Squares from products of encodings less the first lose nothing: the largest distance is at least
    their largest length.
    """
    n, n_values, p = points.shape
    largest = np.empty(n)
    for rows in row_blocks(n, n_values * (p + n_values), TABLE_ELEMENTS):
        gaps = points[rows, 1:] - points[rows, :1]
        size = np.abs(gaps).max(axis=(1, 2), initial=0.0)
        far, unit = np.isinf(size), np.where((size > 0.0) & np.isfinite(size), size, 1.0)
        gaps = np.where(far[:, None, None], 0.0, gaps / unit[:, None, None])
        products = gaps @ gaps.swapaxes(1, 2)
        squares = np.einsum("nmm->nm", products)
        pairs = squares[:, :, None] + squares[:, None] - 2.0 * products
        most = np.maximum(squares.max(axis=1, initial=0.0), pairs.max(axis=(1, 2), initial=0.0))
        largest[rows] = np.where(far, np.inf, unit * np.sqrt(most))
    return largest


@dataclass(frozen=True)
class _Steps:
    """Steps of the fit at every value of an attribute in some records, found once a fit."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: tuple[float, ...]  # of all columns, one value of the attribute after the other

    def __call__(self, state: FitState) -> tuple[Reach, FloatArray]:
        """Reach with no column watched, (n, n_values), and steps, (n, n_values, p)."""
        rows, columns, values = map(np.array, (self.rows, self.columns, self.values))
        values = values.reshape(-1, len(columns))
        X, y = state.objective.X[rows], state.objective.y[rows]
        encodings = candidate_encodings(state, X, y, columns, values, rows=rows)
        reach = Reach.of(state, rows, columns, values, np.zeros(0, dtype=np.intp))
        return reach, encodings - state.factor.coefficients


def _measure_own(
    state: FitState, rows: IntArray, secret: Block, attribute: Attribute, distances: FloatArray
) -> None:
    """Put in the largest distance of each record itself at other values, (n, n_values)."""
    (columns, values), (ends, end_values) = secret, attribute
    assert ends is not None
    objective, n_ends = state.objective, len(end_values)
    same = is_own(state.training.take(rows), columns, values)
    for m, value in enumerate(np.repeat(values[:, None], n_ends, axis=1)):
        changed = np.flatnonzero(~same[:, m])
        both = ends, end_values, value[:, 0]
        if columns is not None:
            both = np.append(columns, ends), np.hstack([value, end_values]), None
        for block in row_blocks(len(changed), n_ends * change_width(state), TABLE_ELEMENTS):
            some = rows[changed[block]]
            change = Change.of(state, dense(objective.X[some]), objective.y[some], some, *both)
            encodings = state.noise.whitened(encoded(change))
            encodings = encodings.reshape(len(some), n_ends, -1)
            distances[changed[block], m] = largest_distances(encodings)


@dataclass(frozen=True)
class _Pairs:
    """Bounds on second differences of the minimizer, over a changed record and all others."""

    others: Reach  # of every record over all its values, of shape (n,)
    quadratic: bool
    longest: float  # largest leverage of a record, changed or not
    variance: float  # largest eigenvalue of A, in coordinates in which the noise is isotropic

    @classmethod
    def of(cls, state: FitState, rows: IntArray, changed: Reach, others: Reach) -> "_Pairs":
        longest = TableMaxima.of(state, rows, Columns()).leverage
        return cls(
            others.largest(),
            state.objective.loss.quadratic,
            max(longest, float(changed.leverage.max()), float(others.leverage.max())),
            _largest_variance(state),
        )

    def cross_differences(self, changed: Reach) -> FloatArray:
        """Norm of ``(w_ij - w_i) - (w_j - w)`` over the noise, (b, n) for changes of shape (b,)."""
        i = changed.take(np.s_[:, None])
        j = self.others
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            least = i.least + j.least - 1.0
            inverse = np.where(least > 0.0, 1.0 / least, np.inf)
            far = i.predictor + j.predictor + i.length * j.watched + j.length * i.watched
            growth = 1.0 if self.quadratic else np.exp(far)
            gradient = _crossing(i, j, growth) + _crossing(j, i, growth)
            if not self.quadratic:
                gradient += growth * np.minimum(i.predictor * j.energy, j.predictor * i.energy)
            gradient *= np.sqrt(inverse)
            if not self.quadratic:
                reached = far + 2.0 * gradient * np.sqrt(inverse * self.longest)
                change = np.expm1(reached)
                gradient = np.where(change <= 0.5, gradient / (1.0 - change), np.inf)
            result = gradient * np.sqrt(inverse * self.variance)
        return np.nan_to_num(result, nan=np.inf, posinf=np.inf)


def _crossing(i: Reach, j: Reach, growth: FloatArray | float) -> FloatArray:
    """Bound ``E_i D_j`` in the norm of A, of shape (b, n)."""
    along = i.length * j.watched  # of D_j along the change of x_i
    own = np.sqrt(i.own_leverage)
    curvature = i.curvature * growth
    uneven = i.curvature_change + (growth - 1.0) * (2.0 * i.curvature + i.curvature_change)
    return i.weight * (
        curvature * np.sqrt(i.change_leverage) * (j.predictor + along)
        + curvature * own * along
        + uneven * own * j.predictor
    )


# Entries of the matrices of one block of candidates: 32 MB.
_ELEMENTS = 1 << 22


def candidate_shapes(
    estimator_state: Any,
    X: Data,
    y: FloatArray,
    attribute: Any,
    values: Any,
    shape: str,
    *,
    encodings: FloatArray | None = None,
    rows: IntArray | None = None,
) -> FloatArray:
    """Shapes of the noise of the fits with one record's attribute set to each value.

    Matrix ``[i, m]`` is the ``S`` that the noise would have had with record i carrying
    ``values[m]``: together with the encodings it makes the hypotheses of an attacker on noise
    whose covariance depends on the data. All copies of a weighted record change together.

    Shapes: ``X`` (n, d); ``y``, ``rows`` (n,); ``values`` (n_values,); ``encodings`` (n, n_values,
    p); returns (n, n_values, p, p): with trace p.

    Squared loss: O(p^3) per candidate, exact. Other losses: one pass over the data per candidate,
    O(N p^2) for N training records.
    """
    if shape not in FITTED_SHAPES:
        raise ValueError(
            f"`shape` must be 'curvature', 'minimax' or 'least_mean'; got {shape!r}. Other noise "
            "has the same covariance under every value."
        )
    candidates = Candidates.of(estimator_state, X, y, attribute, values, rows)
    if encodings is None:
        encodings = candidates.encodings()
    check_reached(encodings, "The shape of the noise")
    if shape == "curvature":
        result = inverse_hessians(candidates, encodings)
    else:
        result = _mean_shapes(candidates, encodings, Counting.of(shape, candidates.state))
    p = result.shape[-1]
    return result * (p / np.trace(result, axis1=2, axis2=3))[:, :, None, None]


def _mean_shapes(candidates: Candidates, encodings: FloatArray, counting: Counting) -> FloatArray:
    """Return ``A # A B A`` of every candidate, up to a factor, of shape (n, n_values, p, p)."""
    state, change = candidates.state, candidates.changes()
    counting.check(state.objective)
    points = np.asarray(encodings).reshape(len(change.y), -1)
    p = points.shape[1]
    whitened = _Whitened.of(state, counting)
    result = np.empty((len(change.y), p, p))
    for part in row_blocks(len(result), p * p, _ELEMENTS):
        some = change.take(np.arange(len(result))[part])
        pair = (whitened.exact if state.objective.loss.quadratic else whitened.by_a_pass)(
            some, points[part]
        )
        result[part] = whitened.shapes(*pair)
    return result.reshape(*candidates.shape, p, p)


@dataclass(frozen=True)
class _Whitened:
    """A fit in coordinates in which its Hessian is the identity."""

    state: FitState
    root: FloatArray  # ``L``, lower triangular, (p, p)
    features: FloatArray  # ``P'``, (p, p)
    counting: Counting  # of records in B

    @classmethod
    def of(cls, state: FitState, counting: Counting) -> "_Whitened":
        root = inverse_hessian_root(state)
        features = root[: state.n_features]
        return cls(state, root, features.T @ features, counting)

    def shapes(self, hessians: FloatArray, moments: FloatArray) -> FloatArray:
        """``L (A # A B A) L^T`` from whitened H and B, of shape (b, p, p)."""
        inverse = np.linalg.inv(np.linalg.cholesky(hessians))  # C^-1, and A = C^-T C^-1
        axes, vectors = self.counting.axes(inverse @ moments @ inverse.transpose(0, 2, 1))
        half = self.root @ inverse.transpose(0, 2, 1) @ vectors * axes[:, None, :] ** 0.25
        return np.asarray(half @ half.transpose(0, 2, 1))

    def assembled(
        self, gram: FloatArray, edge: FloatArray, rest: FloatArray, points: FloatArray
    ) -> FloatArray:
        """B from ``sum s alpha x' x'^T``, ``sum s beta x'`` and ``sum s gamma``."""
        d = self.state.n_features
        along = points[:, :d] @ self.root[:d]
        pair = edge[:, :, None] * along[:, None, :]
        return gram + pair + pair.transpose(0, 2, 1) + rest[:, None, None] * self.features

    def exact(self, change: Change, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whitened H and B of candidates under the squared loss, each of shape (b, p, p)."""
        objective, w = self.state.objective, self.state.factor.coefficients
        gram, edge, rest = self._moments
        step = linalg.solve_triangular(self.root, (points - w).T, lower=True).T
        x, y, s = change.x, change.y[:, 1], change.weight[:, 1]
        old, new = x[:, 0] @ self.root, x[:, 1] @ self.root
        left = x[:, 0] @ w - y + np.einsum("bi,bi->b", old, step)
        put = np.einsum("bi,bi->b", x[:, 1], points) - y
        own = s[:, None, None] * (new[:, :, None] * new[:, None, :])
        own -= s[:, None, None] * (old[:, :, None] * old[:, None, :])
        more = self.counting.more(s)
        counted, s = own * more[:, None, None], s * more
        image = step @ gram
        edges = edge + image + (s * put)[:, None] * new - (s * left)[:, None] * old
        rests = rest + step @ (2.0 * edge) + np.einsum("bi,bi->b", image, step)
        rests += s * (put**2 - left**2)
        d = objective.X.shape[1]
        alpha = self.counting.target + np.sum(points[:, :d] ** 2, axis=1)
        moments = self.assembled(alpha[:, None, None] * (gram + counted), edges, rests, points)
        return np.eye(len(self.root)) + own, moments

    @property
    def _moments(self) -> tuple[FloatArray, FloatArray, float]:
        """``sum s x' x'^T``, ``sum s r x'`` and ``sum s r^2`` of the fit, as B counts them."""
        objective, factor = self.state.objective, self.state.factor

        def sums(
            X: FloatArray, y: FloatArray, s: FloatArray
        ) -> tuple[FloatArray, FloatArray, float]:
            x, r, _, _ = factor.derivatives(X, y)
            x, s = x @ self.root, s * self.counting.more(s)
            return (s[:, None] * x).T @ x, (s * r) @ x, float(s @ r**2)

        records = objective.X, objective.y, objective.weights
        blocks = Blocks.of(*records, width=len(self.root), elements=_ELEMENTS)
        return blocks.map_reduce(sums, add)

    def by_a_pass(self, change: Change, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same for any loss, from the records one by one."""
        objective = self.state.objective
        length = np.sum(points[:, : self.state.n_features] ** 2, axis=1)

        def sums(
            X: FloatArray, y: FloatArray, weights: FloatArray, position: IntArray
        ) -> tuple[FloatArray, ...]:
            x = augment(X, objective.fit_intercept)
            s = np.repeat(weights[:, None], len(points), axis=1)
            inside = np.flatnonzero(np.isin(change.rows[:, 0], position))
            place = np.searchsorted(position, change.rows[inside, 0])
            s[place, inside] = 0.0  # replaced below
            c, alpha, beta, gamma = self._weights(x @ points.T, y[:, None], s, length)
            white = x @ self.root
            hessians = np.stack([(own[:, None] * white).T @ white for own in c.T])
            moments = np.stack([(own[:, None] * white).T @ white for own in alpha.T])
            return hessians, moments, beta.T @ white, gamma.sum(axis=0)

        records = objective.X, objective.y, objective.weights, np.arange(len(objective.y))
        blocks = Blocks.of(*records, width=max(points.shape), elements=_ELEMENTS)
        hessians, moments, edges, rests = blocks.map_reduce(sums, add)
        new = change.x[:, 1]
        white, own = new @ self.root, np.einsum("bi,bi->b", new, points)
        c, alpha, beta, gamma = self._weights(own, change.y[:, 1], change.weight[:, 1], length)
        squares = white[:, :, None] * white[:, None, :]
        hessians += c[:, None, None] * squares
        hessians += objective.total * objective.alpha * self.features
        moments += alpha[:, None, None] * squares
        edges += beta[:, None] * white
        return hessians, self.assembled(moments, edges, rests + gamma, points)

    def _weights(
        self, a: FloatArray, y: FloatArray, s: FloatArray, length: FloatArray
    ) -> tuple[FloatArray, ...]:
        """``s c``, and ``alpha``, ``beta`` and ``gamma`` by what B counts, of records."""
        loss = self.state.objective.loss
        r, c, q = loss.residual(a, y), loss.curvature(a), loss.cross(a)
        counted = s * self.counting.more(s)
        return s * c, *(counted * weight for weight in self.counting.weights(r, c, q, length))
