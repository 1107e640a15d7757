"""Steps to the minimisers with a record changed, to second order without a pass over the data.

With s the Newton step with the changed Hessian H', the gradient there is half of T[s, s] and terms
of third order, T the third derivatives of all losses with the record changed: a tensor of p^3
entries that is made once. Where what is left is small enough, no pass over the data is needed.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.influence.refit._changes import Change
from skleak.influence.refit._chord import ChangedHessian
from skleak.influence.refit._third_derivatives import (
    contraction_form,
    second_order,
    third_derivatives,
)
from skleak.influence.state import FitState
from skleak.solvers import Objective
from skleak.utils._typing import FloatArray

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

    tensor: FloatArray  # (p (p + 1) / 2, p)
    form: FloatArray  # (p, p)

    @classmethod
    def of(cls, state: FitState) -> Self:
        """Differentiate the losses at the minimum."""
        objective, w = state.objective, state.factor.coefficients
        form = contraction_form(objective, objective.curvatures(w), state.factor.inverse_hessian)
        return cls(third_derivatives(objective, objective.third_derivatives(w)), form)

    def improved(
        self, change: Change, hessian: ChangedHessian, steps: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Newton steps (b, p) with their second-order change, its size and what is left, (b,) each.

        The terms of the series fall by the rate of `contraction_form` from one order to the next;
        the changed record counts as well, and what was seen of the first two may say more.
        """
        loss, w = change.state.objective.loss, change.state.factor.coefficients
        gradient = second_order(steps, self.tensor)
        square = np.einsum("ij,ij->i", steps @ self.form, steps)
        for sign, x in ((-1.0, change.old), (1.0, change.new)):
            predictor, along = x @ w, np.einsum("ij,ij->i", x, steps)
            third = sign * change.weight * loss.third_derivative(predictor)
            gradient += (0.5 * third * along**2)[:, None] * x
        # After the loop, of the new record.
        reach = np.einsum("ij,ij->i", change.a_new, change.new)
        square += change.weight * loss.curvature(predictor) * reach * along**2
        second = hessian.solve(gradient)
        first, moved = np.linalg.norm(steps, axis=1), np.linalg.norm(second, axis=1)
        ratio = np.divide(moved, first, out=np.zeros_like(moved), where=first > 0.0)
        rate = np.maximum(np.sqrt(np.maximum(square, 0.0)), ratio)
        left = rate * (moved + 0.25 * rate * first)
        return steps - second, moved, np.where(rate < _SLOW, left, first)
