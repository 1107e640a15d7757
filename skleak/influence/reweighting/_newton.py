"""Newton's direction for the weights under which every record leaks the same.

A change ``d`` of the logarithms of the weights moves the minimiser and its Hessian by

    dw = - sum t r d x~ ,   dH = sum t (c d + c' x~ . dw) x~ x~^T ,      t = s omega ,

in coordinates where the Hessian is the identity, and these move the balanced norms by
``d log kappa = h . dw - <S, dH>`` (`_total_gradient`). With ``K`` for the first map, ``J`` for the
second, and ``f`` for what the logarithms of the leakages lack to their mean, Newton's direction
solves ``d + J K d = f`` among the changes that keep the sum of the weights. (J is that of minus the
log weights of a `WeightRule`: where these are bounded, they follow ``log kappa`` only in part.) As
``(dw, dH)`` has far fewer entries than there are records, it is found there:

    (I + K J)(dw, dH) = K f ,     d = f - J (dw, dH) ,

the transpose of the adjoint system (`_total_system`). There are as many unknowns as before, but
one right-hand side instead of p: a Krylov method needs some 5 to 30 products of O(n p^2) each,
against O(n p^4) for writing the system out, which therefore never pays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from skleak.influence.jacobian import FitFactor
from skleak.influence.reweighting._total_gradient import Balance, Gradients, packed, unpacked
from skleak.influence.state import WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray, IntArray

# Entries of all tables up to which they are kept from product to product: 1 GB.
_KEPT_ELEMENTS = 1 << 27
_LARGEST_BASIS = 100


@dataclass(frozen=True)
class NewtonDirection:
    """Result of `newton_direction`."""

    change: FloatArray  # change of ``log omega``; zero for records of weight zero, (n,)
    n_products: int  # products with the linearised system, each of them one pass over the data
    residual: float  # relative residual of that system


def newton_direction(
    objective: Objective,
    factor: FitFactor,
    rule: WeightRule,
    residual: FloatArray,
    *,
    rtol: float = 1e-2,
) -> NewtonDirection:
    """Change of the log weights that would equalise the leakage, were it linear in them.

    The ``residual`` (n,) is by how much the logarithm of what is balanced (`WeightRule.losses`) is
    to change for each record, up to a common constant. Where the linear system was not solved to
    the relative residual ``rtol``, the direction may be a poor one.

    The leakage of a record that cannot leak does not answer to anything; its weight changes by
    its residual. One gradient of all norms, O(n p^2), and O(n p^2) a product; the memory is
    bounded, and where the tables of all records pass 1 GB they are computed anew in every product.
    """
    level = 1.0  # plays no part where weights are unbounded
    if np.isfinite(rule.largest_weight):
        kappa = rule.norms(factor, objective.X, objective.y)
        level = rule.level(objective.reweights, kappa, objective.sample_weight)
    system = _LinearizedWeights(objective, Balance.of(factor, rule, level))
    wanted = system.balanced(residual[system.present])
    right = system.response(wanted)
    norms: list[float] = []

    def product(v: FloatArray) -> FloatArray:
        return v + system.response(system.balanced(system.effect(v)))

    solution, _ = gmres(
        LinearOperator((len(right), len(right)), matvec=product, dtype=np.float64),
        right,
        rtol=rtol,
        restart=min(_LARGEST_BASIS, len(right)),
        maxiter=1,
        callback=norms.append,
        callback_type="pr_norm",
    )
    change = np.zeros(len(residual))
    change[system.present] = system.balanced(wanted - system.effect(solution))
    return NewtonDirection(change, len(norms), float(norms[-1]) if norms else 0.0)


# Derivatives of a block of records, and the weights of the rule, times copies, (b,).
_Rows = tuple[Gradients, FloatArray]


@dataclass(frozen=True)
class _LinearizedWeights:
    """Weights to fit (``response``, K) and fit to leakage (``effect``, J), at one point."""

    objective: Objective
    balance: Balance

    @cached_property
    def present(self) -> IntArray:
        """Records that take part."""
        return np.flatnonzero(self.objective.sample_weight > 0.0)

    def balanced(self, change: FloatArray) -> FloatArray:
        """Shift a change of log weights so that their sum stays, to first order."""
        return change - np.average(change, weights=self._weights)

    def response(self, change: FloatArray) -> FloatArray:
        """Change of the fit with the log weights, packed: ``dw`` and the entries of ``dH``."""
        p = len(self.balance.root)
        dw, dh = np.zeros(p), np.zeros((p, p))
        r, c, third = self._derivatives
        for rows, x in self._records():
            dw -= (r[rows] * change[rows]) @ x
        for rows, x in self._records():
            dh += (x * (c[rows] * change[rows] + third[rows] * (x @ dw))[:, None]).T @ x
        return packed(dw, dh)

    def effect(self, point: FloatArray) -> FloatArray:
        """Change of minus the log weights of the rule with the fit, of shape (n_present,)."""
        dw, dh = unpacked(point, len(self.balance.root))
        by_common = float(np.sum(self.balance.common * dh))
        change, follows, weights = np.empty((3, len(self.present)))
        for rows, (block, own) in self._gradients():
            change[rows] = block.effect(dw, dh, by_common)
            follows[rows], weights[rows] = block.follows, own
        # The level moves so that the weights of the rule keep their sum.
        shared = float(weights @ follows)
        if shared > 0.0:
            change -= follows * (weights @ change / shared)
        return change

    @cached_property
    def _weights(self) -> FloatArray:
        return self.objective.weights[self.present]

    @cached_property
    def _derivatives(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """First to third derivative of the loss, times the weights."""
        factor, loss = self.balance.factor, self.objective.loss
        a = self.objective.predictor(factor.coefficients)[self.present]
        y, t = self.objective.y[self.present], self._weights
        return t * loss.residual(a, y), t * loss.curvature(a), t * loss.third_derivative(a)

    def _records(self) -> Iterator[tuple[slice, FloatArray]]:
        """Return the records in coordinates where the Hessian is the identity, block by block."""
        if self._kept is not None:
            yield from ((rows, block.x) for rows, (block, _) in self._kept)
            return
        for rows in self._slices():
            dense = dense_rows(self.objective.X[self.present[rows]], slice(None))
            yield rows, augment(dense, self.objective.fit_intercept) @ self.balance.root

    def _gradients(self) -> Iterator[tuple[slice, _Rows]]:
        """Return the derivatives of the balanced norms, block by block."""
        if self._kept is not None:
            yield from self._kept
            return
        for rows in self._slices():
            yield rows, self._block(rows)

    @cached_property
    def _kept(self) -> list[tuple[slice, _Rows]] | None:
        """All blocks, where there is room for them."""
        if 5 * len(self.present) * len(self.balance.root) > _KEPT_ELEMENTS:
            return None
        return [(rows, self._block(rows)) for rows in self._slices()]

    def _slices(self) -> Iterator[slice]:
        return row_blocks(len(self.present), len(self.balance.root))

    def _block(self, rows: slice) -> _Rows:
        some = self.present[rows]
        dense = dense_rows(self.objective.X[some], slice(None))
        g = self.balance.gradients(dense, self.objective.y[some])
        weights = self.balance.rule.weights(g.kappa, self.balance.level)
        weights *= self.objective.sample_weight[some]
        return g, weights
