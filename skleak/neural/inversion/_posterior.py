"""How likely a record is, given noisy gradients and a normal prior, and its likeliest value."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from skleak.neural.inversion._base import StepGradients
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class Posterior:
    """Negative log density of a record, up to a constant.

    A step in which the record takes part with probability q releases a draw from the mixture
    ``q N(g(x), s^2) + (1 - q) N(0, s^2)``, g its clipped gradient.

    ``mean``, ``unit`` (d,): centre and scale of the coordinates in which the search moves; entries
    of scale 0 stay at the mean. ``weight``: 1 where these are a normal prior, 0 for none.
    ``low``, ``high`` (d,): ends of the range.
    """

    steps: StepGradients
    signals: FloatArray  # (T, p)
    noise_scale: float
    sampling_rate: float
    mean: FloatArray
    unit: FloatArray
    weight: float
    low: FloatArray
    high: FloatArray

    def __call__(self, z: FloatArray, target: float) -> tuple[float, FloatArray]:
        """Value and gradient at ``mean + unit z``, (d,)."""
        gradients, pullback = self.steps.at(self.mean + self.unit * z, target)
        miss = self.signals - gradients
        # In two factors: the square of a small noise scale underflows.
        scaled = miss / self.noise_scale
        # Log ratio of the density of a step with the record to that without it, (T,).
        ratio = np.sum((0.5 * gradients + miss) / self.noise_scale * gradients, axis=1)
        ratio /= self.noise_scale
        if self.sampling_rate == 1.0:
            value, member = 0.5 * float(np.sum(scaled**2)), np.ones(len(ratio))
        else:
            taken, left = np.log(self.sampling_rate) + ratio, np.log1p(-self.sampling_rate)
            both = np.logaddexp(taken, left)
            value, member = -float(np.sum(both)), np.exp(taken - both)
        slope = pullback(-member[:, None] * scaled / self.noise_scale)
        value += 0.5 * self.weight * float(z @ z)
        return value, self.unit * slope + self.weight * z

    def mode(
        self, start: FloatArray, target: float, max_iter: int, tol: float
    ) -> tuple[float, FloatArray]:
        """Lowest value that L-BFGS reaches from a record (d,), and the record there."""
        unit = np.where(self.unit > 0.0, self.unit, 1.0)
        z = np.where(self.unit > 0.0, (np.clip(start, self.low, self.high) - self.mean) / unit, 0.0)
        free = self.unit > 0.0
        ends = zip(
            np.where(free, (self.low - self.mean) / unit, 0.0),
            np.where(free, (self.high - self.mean) / unit, 0.0),
            strict=True,
        )
        # The search needs values near one, and with little noise they are far from it.
        typical = abs(self(np.zeros_like(z), target)[0]) or 1.0

        def scaled(z: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self(z, target)
            return value / typical, slope / typical

        options = {"maxiter": max_iter, "ftol": 0.0, "gtol": tol, "maxcor": 20}
        found = minimize(scaled, z, jac=True, method="L-BFGS-B", bounds=list(ends), options=options)
        return float(found.fun) * typical, self.mean + self.unit * found.x
