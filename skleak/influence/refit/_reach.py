"""How far a fit moves when one entry of one record changes: numbers that bound everything else.

Of every candidate, the rank-two change ``E`` of the Hessian H and the step ``D`` of the minimiser
leave a few norms, from which `skleak.influence.refit._brackets` bounds what becomes of the leakage
of all other records. In coordinates in which the noise is isotropic.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from skleak.influence.jacobian import FitFactor
from skleak.influence.refit._candidates import TABLE_ELEMENTS, encoded
from skleak.influence.refit._changes import Change, TargetChange
from skleak.influence.state import FitState, NoiseShape
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray, IntArray

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
    curvature: FloatArray  # ``c`` of the changed record at the old minimiser
    curvature_change: FloatArray  # by how much that differs from the record's own
    residual: FloatArray  # ``|r|`` of the changed record at the old minimiser
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
        for block in row_blocks(len(rows) or 1, len(values) * Change.width(state), TABLE_ELEMENTS):
            some = rows[block]
            X, y = dense(objective.X[some]), objective.y[some]
            if columns is None:
                change: Change = TargetChange.to(state, X, y, some, values[:, 0])
            else:
                change = Change.of(state, X, y, some, columns, values)
            parts.append(cls._of_changes(state, change, watched, longest))
        names = [field.name for field in fields(cls)]
        shape = (len(rows), len(values))
        return cls(*(np.concatenate([getattr(p, n) for p in parts]).reshape(shape) for n in names))

    @classmethod
    def _of_changes(
        cls, state: FitState, change: Change, watched: IntArray, longest: float | None
    ) -> Self:
        loss, w = state.objective.loss, state.factor.coefficients
        a_old, a_new = change.old @ w, change.new @ w
        c_old, c_new = loss.curvature(a_old), loss.curvature(a_new)
        least = _least(change, c_old, c_new)
        if longest is None:
            step = encoded(change) - w
            predictor, energy = _sizes(state, change, step)
            along = np.linalg.norm(step[:, watched], axis=1)
        else:
            predictor, energy, along = _bounded_sizes(change, watched, longest, least)
        difference = change.new - change.old
        images = state.noise.whitened(change.a_new)
        return cls(
            least=least,
            operator=_operator(state.noise, change),
            predictor=predictor,
            watched=along,
            energy=energy,
            weight=change.weight,
            length=np.linalg.norm(difference, axis=1),
            curvature=c_new,
            curvature_change=np.abs(c_new - c_old),
            residual=np.abs(loss.residual(a_new, change.new_target)),
            leverage=_dots(change.new, change.a_new),
            own_leverage=_dots(change.old, change.a_old),
            change_leverage=_dots(difference, change.a_new - change.a_old),
            image=np.linalg.norm(images, axis=1),
        )

    def largest(self) -> Self:
        """Return the number that bounds a record over all its values, each of shape (n,)."""
        values = {f.name: getattr(self, f.name).max(axis=1) for f in fields(self)}
        return replace(self, **values | {"least": self.least.min(axis=1)})

    def take(self, which: Any) -> Self:
        """Return some of the records, by any index of an array."""
        return replace(self, **{f.name: getattr(self, f.name)[which] for f in fields(self)})


def leverages(factor: FitFactor, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``x^T A x`` of a block of records, of shape (n,), and ``A x``, of shape (n, p)."""
    x = augment(X, factor.fit_intercept)
    images = x @ factor.inverse_hessian
    return _dots(x, images), images


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
    own = np.abs(np.einsum("ij,ij->i", change.new, step))
    return np.maximum(largest, own), np.sqrt(energy)


def _bounded_sizes(
    change: Change, watched: IntArray, longest: float, least: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bounds on the change of a predictor, on the energy and on ``|D_S|`` of steps, (b,) each.

    The first Newton step ``D_1`` of the changed objective is exact for the squared loss. Else, with
    t the largest ``|x.D_1|``, the gradient there is at most ``Q = t exp(t) / 2`` times its length
    in the norm of ``H' = H + E``, as the curvature changes by at most ``exp(|t|)``. Along the way
    to the minimiser, at a distance r, it is at least ``exp(-t) (1 - exp(-rho r)) / rho``, with rho
    the largest ``|x.v|`` of a v of length 1, so that ``r <= -log(1 - rho Q exp(t)) / rho``.
    """
    state, w = change.state, change.state.factor.coefficients
    gradient = change.own_gradient(np.broadcast_to(w, change.old.shape))
    hessian = change.hessian()
    first = -hessian.solve(gradient)
    # Both lie in the span of two vectors, of which A has the products.
    pair = np.stack([change.old, change.new], axis=2)
    loss = state.objective.loss
    r = [
        -loss.residual(change.old @ w, change.y),
        loss.residual(change.new @ w, change.new_target),
    ]
    part = change.weight[:, None] * np.stack(r, axis=1)
    gram = np.einsum("bpk,bpl->bkl", pair, hessian.basis)
    part -= np.einsum("bkl,blm,bm->bk", hessian.core, gram, part)
    squares = np.einsum("bk,bkl,bl->b", part, gram, part)
    bound = np.einsum("bk,bkk->b", part**2, gram)
    energy = np.sqrt(np.maximum(squares, 0.0)) + _ROUNDING * np.sqrt(bound)
    along = np.linalg.norm(first[:, watched], axis=1)
    length = np.sqrt(np.maximum(longest, _dots(change.new, change.a_new)))
    if not loss.quadratic:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t, root = length * energy, np.sqrt(np.where(least > 0.0, 1.0 / least, np.inf))
            # ``D_1`` is no longer in the norm of H' than its gradient in that of the inverse.
            own = np.sqrt(np.maximum(-np.einsum("bp,bp->b", gradient, first), 0.0))
            inner = length * root * 0.5 * t * np.exp(2.0 * t) * (own + _ROUNDING * np.sqrt(bound))
            rest = np.where(inner < 1.0, -np.log1p(-np.minimum(inner, 1.0)) / length, np.inf)
            inverse = state.factor.inverse_hessian[np.ix_(watched, watched)]
            rest = np.where(t == 0.0, 0.0, np.nan_to_num(rest, nan=np.inf, posinf=np.inf))
        energy, along = energy + rest, along + rest * np.sqrt(np.linalg.norm(inverse, 2))
    return length * energy, energy, along


def _least(change: Change, c_old: FloatArray, c_new: FloatArray) -> FloatArray:
    """Smallest eigenvalue of ``I + A^1/2 E A^1/2``, or 1 if that is smaller, of shape (b,)."""
    out, put = change.weight * c_old, change.weight * c_new
    cross = np.einsum("ij,ij->i", change.old, change.a_new)
    first = 1.0 - out * _dots(change.old, change.a_old)
    last = 1.0 + put * _dots(change.new, change.a_new)
    mean, determinant = 0.5 * (first + last), first * last + out * put * cross**2
    root = np.sqrt(np.maximum(mean**2 - determinant, 0.0))
    return np.minimum(mean - root, 1.0) - _ROUNDING


def _operator(noise: NoiseShape, change: Change) -> FloatArray:
    """Spectral norm of ``A U core U^T`` in whitened coordinates, of shape (b,)."""
    hessian = change.hessian()
    images = noise.whitened(hessian.basis.transpose(0, 2, 1))
    pair = noise.whitened_dual(np.stack([change.old, change.new], axis=1))
    left, right = images @ images.transpose(0, 2, 1), pair @ pair.transpose(0, 2, 1)
    product = left @ hessian.core @ right @ hessian.core.transpose(0, 2, 1)
    mean = 0.5 * np.trace(product, axis1=1, axis2=2)
    determinant = np.linalg.det(product)
    square = mean + np.sqrt(np.maximum(mean**2 - determinant, 0.0))
    terms = np.trace(left, axis1=1, axis2=2) * np.trace(right, axis1=1, axis2=2)
    slack = _ROUNDING * np.sqrt(terms) * np.linalg.norm(hessian.core, axis=(1, 2))
    return np.sqrt(np.maximum(square, 0.0)) + slack
