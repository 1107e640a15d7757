"""What makes the weight of a record from what it leaks: IRFIL, and a rule that evens the total.

A reweighting balances the norm ``kappa`` of the Jacobian of each record at omega = 1. IRFIL
([FIL21] algorithm 1) sets ``omega = level / kappa``, so that with fixed weights all leak ``level``.
But weights are functions of the data. What a record leaks through them is large in two cases, and
a rule without them evens the total leakage, which counts it:

- A small ``kappa`` asks for a huge weight. Such a record rules the Hessian, and by it all other
  weights. So weights are bounded, smoothly: ``1 / omega^2 = (kappa / level)^2 + 1 / bound^2``.
- A large residual r asks for a small weight, through the part ``r A E`` of the Jacobian. As such a
  record moves, its weight and its residual move against each other, which cancels part of what
  ``kappa`` counts; relative to it, others leak too much. So r enters by a factor below one.

Bound and factor are constants of this file. They are not fitted to the data, of which they would be
functions then.
"""

from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from scipy import optimize

from skleak.influence.jacobian import Columns, FitFactor, Norm, record_norms
from skleak.utils._typing import Data, FloatArray

# Of "total": a compromise between IWPC, MNIST and Adult, two losses, and penalties from 0.1 to
# 1e-5. The factor matters under a strong penalty, the bound under a weak one.
_RESIDUAL_FACTOR, _MOST = 0.8, 4.0
# Relative accuracy of the level under which bounded weights have their sum, and the largest mean
# of such weights, relative to their bound.
_ACCURACY, _LARGEST_MEAN = 1e-14, 0.9


@dataclass(frozen=True)
class WeightRule:
    """Weights ``omega = level / hypot(kappa, level / largest_weight)`` of balanced norms kappa."""

    # what is balanced; by default all columns without the target
    columns: Columns = field(default_factory=Columns)
    norm: Norm = "spectral"  # in which norm
    residual_factor: float = 1.0  # by which the residual enters the balanced norm
    largest_weight: float = np.inf  # bound of all weights, relative to their mean of one
    name: Literal["irfil", "total"] = "irfil"  # what users call it

    @classmethod
    def total(cls, columns: Columns, norm: Norm) -> Self:
        """Return the rule that evens the total leakage."""
        return cls(columns, norm, _RESIDUAL_FACTOR, _MOST, "total")

    def norms(self, factor: FitFactor, X: Data, y: FloatArray) -> FloatArray:
        """``kappa`` of each record: the balanced norm at omega = 1 and unit noise.

        Returns (n,).
        """
        return record_norms(self.damped(factor), X, y, self.columns, self.norm)

    def damped(self, factor: FitFactor) -> FitFactor:
        """Return the factor whose Jacobians are balanced."""
        if self.residual_factor == 1.0:
            return factor
        solution = factor.coefficients, factor.inverse_hessian
        return _DampedFactor(*solution, factor.loss, factor.fit_intercept, self.residual_factor)

    def weights(self, kappa: FloatArray, level: float | FloatArray) -> FloatArray:
        """``omega`` of records; one for those that cannot leak what is balanced.

        Shapes: ``kappa`` (n,) or (n, b), of b fits with a level each; returns the same.
        """
        leaks = kappa > 0.0
        size = np.hypot(kappa, level / self.largest_weight)
        return np.divide(level, size, out=np.ones_like(kappa), where=leaks)

    def follows(self, kappa: FloatArray, level: float) -> FloatArray:
        """Minus the derivative of ``log omega`` in ``log kappa``, and that in ``log level``.

        Returns (n,): between 0, for a weight that is fixed or at its bound, and 1, for ``level /
        kappa``.
        """
        size = np.hypot(kappa, level / self.largest_weight)
        share = np.divide(kappa, size, out=np.zeros_like(kappa), where=kappa > 0.0)
        return np.asarray(share**2)

    def losses(self, reweights: FloatArray, kappa: FloatArray, copies: FloatArray) -> FloatArray:
        """Losses that the rule makes equal: ``omega hypot(kappa, level / largest_weight)``.

        Returns (n,): with unbounded weights, the leakage were the weights fixed. Equal to the level
        for all records that leak, if the factors are those of the rule.
        """
        floor = (
            self.level(reweights, kappa, copies) / self.largest_weight
            if np.isfinite(self.largest_weight)
            else 0.0
        )
        return np.where(kappa > 0.0, reweights * np.hypot(kappa, floor), 0.0)

    def level(self, reweights: FloatArray, kappa: FloatArray, copies: FloatArray) -> float:
        """Return the level under which the weights of the rule have the sum that they have now.

        Zero where no record leaks.
        """
        some = (kappa > 0.0) & (copies > 0.0)
        if not np.any(some):
            return 0.0
        kappa, copies = kappa[some], copies[some]
        # No weight can be larger than the bound, and so neither can their mean.
        wanted = float(np.average(reweights[some], weights=copies))
        wanted = min(wanted, _LARGEST_MEAN * self.largest_weight)
        low = float(np.log(wanted / np.average(1.0 / kappa, weights=copies)))
        if not np.isfinite(self.largest_weight):
            return float(np.exp(low))

        def excess(log_level: float) -> float:
            weights = self.weights(kappa, np.exp(log_level))
            return float(np.average(weights, weights=copies)) - wanted

        high = low + 1.0
        while excess(high) < 0.0:
            high += 1.0
        found = optimize.brentq(excess, low - 1e-9, high, xtol=_ACCURACY, rtol=_ACCURACY)
        return float(np.exp(found))


@dataclass(frozen=True)
class _DampedFactor(FitFactor):
    """A fit whose residuals count by a factor."""

    residual_factor: float = 1.0

    def derivatives(
        self, X: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        x, r, c, q = super().derivatives(X, y)
        return x, self.residual_factor * r, c, q
