"""What a step of private SGD adds, in public numbers, and how much of a record it reveals."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from skleak.neural.gradients import Clipping, SumGrid
from skleak.neural.information._factors import FactorTable
from skleak.utils._typing import FloatArray

Sampling = Literal["poisson", "fixed"]

# Binary logarithms of the scale of the noise in units of a grid: 52 bits of it are drawn; below 24
# the rounding of gradients would be seen. Sums are integers of 63 bits, with one for the noise.
_LEAST_LOG2_SCALE, _LARGEST_LOG2_SCALE, _LOG2_ROOM = 24, 52, 61


@dataclass(frozen=True)
class StepMechanism:
    """Noise on the sum of the clipped gradients of a random batch.

    Parameters
    ----------
    noise_multiplier : float, at least 0
        Standard deviation of the noise over C.
    clipping : Clipping
        Bounds what a record adds to the sum.
    sampling : {"poisson", "fixed"}
        Every record by itself, or a fixed number of records without replacement; afresh in each
        step.
    sampling_rate : float in (0, 1]
        Probability of a record to be in the batch; of batches of a fixed size b, b / n.
    """

    noise_multiplier: float
    clipping: Clipping
    sampling: Sampling
    sampling_rate: float

    @property
    def noise_scale(self) -> float:
        """Standard deviation s of the noise on the sum, in units of the gradient."""
        return self.noise_multiplier * self.clipping.max_grad_norm

    @property
    def effective_noise_multiplier(self) -> float:
        """S over the sensitivity, as an accountant of differential privacy takes it."""
        return self.noise_scale / self.clipping.sensitivity

    def grid(self, n_records: int) -> SumGrid | None:
        """Grid of exact sums of clipped gradients, as fine as 63 bits allow; a public choice.

        The noise is 2^k units wide, k from 24 to 52, and the largest norm of what a record adds is
        rounded down to integers, so that it is nowhere above what accounting assumes. None without
        noise, or with less than 63 bits can be accurate with.
        """
        if self.noise_scale == 0.0:
            return None
        # A batch of n q records on average is larger than this in one of 10^30 steps. A sum that
        # leaves the integers of 64 bits wraps: a function of the exact one, as private as that.
        mean = self.sampling_rate * n_records
        batch = min(n_records, int(mean + 13.0 * np.sqrt(mean) + 100.0))
        reach = 1 / Fraction(self.effective_noise_multiplier)
        room = Fraction(2**_LOG2_ROOM) / (batch * reach)
        log2_scale = min(int(room).bit_length() - 1, _LARGEST_LOG2_SCALE)
        if log2_scale < _LEAST_LOG2_SCALE:
            return None
        unit = float(np.ldexp(self.noise_scale, -log2_scale))
        return SumGrid(log2_scale, unit, int(reach * 2**log2_scale))

    @property
    def scale(self) -> float:
        """``q / s^2``, what the parts of a step are multiplied by."""
        return self.sampling_rate / self.noise_scale**2

    def weigh(self, norms: FloatArray) -> tuple[Any, Any]:
        """Factors ``(along, across)`` of the information from norms of clipped gradients, (n,).

        Under sampling of a fixed size the record that takes the place of this one is unknown: the
        distance is at most the sum of the norm and the sensitivity, in any direction, and the
        factors grow with it up to a rate of 2/3; beyond, they are at most one.
        """
        if self.sampling == "poisson":
            return self._table(norms / self.noise_scale)
        if self.sampling_rate > 2.0 / 3.0:
            return np.ones_like(norms), np.ones_like(norms)
        largest = np.maximum(*self._table((norms + self.clipping.sensitivity) / self.noise_scale))
        return largest, largest

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the table, which is made again from the rest."""
        return {name: value for name, value in vars(self).items() if name != "_table"}

    @cached_property
    def _table(self) -> FactorTable:
        reach = self.clipping.sensitivity * (1 if self.sampling == "poisson" else 2)
        return FactorTable(self.sampling_rate, reach / self.noise_scale)

    def printed_factor(self, delta: float) -> float:
        """Factor of [DRA22] theorem 4, ``kappa = q / (q + (1 - q) exp(-epsilon))``.

        epsilon is that of the Gaussian mechanism at distance 2 C', ``2 C' sqrt(2 log(1.25 / delta))
        / s`` with C' the sensitivity: a formula for epsilon below 1, put into a theorem for
        mechanisms with delta = 0. Nothing is proved of it; for comparison only.
        """
        q = self.sampling_rate
        epsilon = 2.0 * np.sqrt(2.0 * np.log(1.25 / delta)) / self.effective_noise_multiplier
        return float(q / (q + (1.0 - q) * np.exp(-epsilon)))
