"""Fisher information of training.

Add up, while a run is under way, what its steps reveal of every record.

Given all that was released before, a step reveals ``q I_t`` of each record, whether it takes part
or not; its expectation over the releases is what a whole run reveals ([DRA22] theorem 3). Records
that are followed at every step have exactly that sum for this run. Following the members of each
batch only, with ``I_t`` in the place of ``q I_t``, has the same expectation for every record, and a
variance that is estimated from the same terms. Where every k-th step is counted, k times, the first
is drawn at random among k: the sum is unbiased, and no upper bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.interpolate import CubicSpline

from skleak.accounting.subsampled import subsampled_fisher_factors
from skleak.neural.gradients import Clipping, SumGrid
from skleak.neural.guarantee import SGDGuarantee
from skleak.utils._typing import FloatArray, IntArray

# Nodes of the table, and how much is added for interpolation over what it was seen to be wrong by.
_NODES, _CAUTION = 2000, 4.0
# Tables that are wrong by more than this are not used.
_WORST = 1e-8


class FactorTable:
    """Factors ``(along, across)`` at one rate, for distances up to a largest one.

    Cubic splines, whose largest relative error in the middle between nodes is measured, and added
    four times; where it is too large for that, the integrals themselves.
    """

    def __init__(self, rate: float, largest: float) -> None:
        self.rate = rate
        nodes = np.linspace(0.0, largest, _NODES)
        self._splines = CubicSpline(nodes, np.stack(subsampled_fisher_factors(rate, nodes), axis=1))
        between = 0.5 * (nodes[1:] + nodes[:-1])
        true = np.stack(subsampled_fisher_factors(rate, between), axis=1)
        error = float(np.max(np.abs(self._splines(between) / true - 1.0))) if rate > 0.0 else np.inf
        self._round_up = 1.0 + 1e-10 + _CAUTION * error
        self._largest = largest if error < _WORST else -1.0

    def __call__(self, distances: FloatArray) -> tuple[Any, Any]:
        """Factors, rounded upward; shapes (n,), returns two of (n,)."""
        if np.any(distances > self._largest):
            return subsampled_fisher_factors(self.rate, distances)
        found = np.minimum(self._splines(distances) * self._round_up, 1.0)
        return found[:, 0], np.maximum(found[:, 1], self.rate)


# Kept here, and not by what is pickled.
_factor_table = lru_cache(maxsize=8)(FactorTable)
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

    def guarantee(self, n_steps: int, delta: float) -> SGDGuarantee:
        """Return the guarantee of so many steps; there is none without noise."""
        sigma = self.effective_noise_multiplier
        return SGDGuarantee(sigma, self.sampling_rate, n_steps, self.sampling, delta)

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
    def settings(self) -> dict[str, Any]:
        """Public settings of a step."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "max_grad_norm": self.clipping.max_grad_norm,
            "clipping": self.clipping.name,
            "sensitivity": self.clipping.sensitivity,
            "sampling": self.sampling,
            "sampling_rate": self.sampling_rate,
        }

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

    @property
    def _table(self) -> FactorTable:
        reach = self.clipping.sensitivity * (1 if self.sampling == "poisson" else 2)
        return _factor_table(self.sampling_rate, reach / self.noise_scale)

    def printed_factor(self, delta: float) -> float:
        """Factor of [DRA22] theorem 4, ``kappa = q / (q + (1 - q) exp(-epsilon))``.

        epsilon is that of the Gaussian mechanism at distance 2 C', ``2 C' sqrt(2 log(1.25 / delta))
        / s`` with C' the sensitivity: a formula for epsilon below 1, put into a theorem for
        mechanisms with delta = 0. Nothing is proved of it; for comparison only.
        """
        q = self.sampling_rate
        epsilon = 2.0 * np.sqrt(2.0 * np.log(1.25 / delta)) / self.effective_noise_multiplier
        return float(q / (q + (1.0 - q) * np.exp(-epsilon)))


@dataclass(frozen=True)
class Totals:
    """Sums over the steps, of every record that was followed. Confidential.

    Fisher information in 1 / (unit of the entries)^2, about one record given all others.

    Attributes
    ----------
    records : ndarray of int of shape (k,)
        Rows that were followed.
    n_unknowns : int
        Entries of a record, with its target's where that is private.
    n_steps : int
        Steps of a run.
    n_runs : int
        Independent runs that this is the mean of; 1 is "this run only": what is promised is the
        expectation over what is released.
    exact : bool
        Whether nothing was estimated within a run: every step, every record, no probes.
    sums, errors : dict of str to ndarray of shape (k,)
        By part: "trace"; "plain", the trace without amplification beyond the rate q, which the
        printed factor multiplies; and where it is cheap "norm", the sum of the largest eigenvalues
        of the steps, an upper bound on that of their sum. Standard errors are between runs, or
        within one from what was left out.
    """

    records: IntArray
    n_unknowns: int
    n_steps: int
    n_runs: int
    exact: bool
    sums: dict[str, FloatArray]
    errors: dict[str, FloatArray]

    @property
    def scope(self) -> str:
        """Say what the numbers are about."""
        return "this run only" if self.n_runs == 1 else f"mean of {self.n_runs} runs"

    def losses(self, part: str, n: int, unknowns: int = 1) -> tuple[FloatArray, FloatArray]:
        """Square roots of a part over so many unknowns, and their standard errors, (n,) each.

        To first order; NaN for those of the n records that were not followed.
        """
        loss, error = np.sqrt(self.sums[part] / unknowns), self.errors[part] / unknowns
        slope = np.divide(0.5, loss, out=np.zeros_like(loss), where=loss > 0.0)
        found = np.full((2, n), np.nan)
        found[:, self.records] = loss, np.where(loss > 0.0, slope * error, np.sqrt(error))
        return found[0], found[1]


def mean_totals(runs: Sequence[Totals]) -> Totals:
    """Average independent runs, with standard errors from their differences."""
    first, n = runs[0], len(runs)
    if n == 1:
        return first
    sums, errors = {}, {}
    for part in first.sums:
        table = np.stack([run.sums[part] for run in runs])
        within = np.linalg.norm([run.errors[part] for run in runs], axis=0) / n
        # Of records that no run has drawn all runs say the same.
        sums[part] = table.mean(axis=0)
        errors[part] = np.maximum(table.std(axis=0, ddof=1) / np.sqrt(n), within)
    exact = all(run.exact for run in runs)
    return replace(first, n_runs=n, exact=exact, sums=sums, errors=errors)
