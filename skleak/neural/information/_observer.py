"""Add up, while a run is under way, what its steps reveal of every record.

Given all that was released before, a step reveals ``q I_t`` of each record, whether it takes part
or not; its expectation over the releases is what a whole run reveals ([DRA22] theorem 3). Records
that are followed at every step have exactly that sum for this run. Following the members of each
batch only, with ``I_t`` in the place of ``q I_t``, has the same expectation for every record, and a
variance that is estimated from the same terms. Where every k-th step is counted, k times, the first
is drawn at random among k: the sum is unbiased, and no upper bound.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from skleak.neural.gradients import Gradients, Part, SumGrid
from skleak.neural.information._mechanism import StepMechanism
from skleak.neural.information._totals import Totals
from skleak.utils._typing import Array, FloatArray, IntArray

# Steps whose predictors are made by one product.
_STEPS = 32


@dataclass(frozen=True)
class Accounting:
    """Choice of what to add up of a run.

    Parameters
    ----------
    records : ndarray of int of shape (k,) or None
        Rows to follow at every counted step; None for the members of its batch.
    every : int, at least 1
        Which steps are counted: every so many, as many times.
    parts : collection of str
        What is added up: "trace", "plain", "norm".
    n_probes : int or None
        Probes for each record and step; None for exact traces.
    private_target : bool
        Whether the target is among the unknowns.
    """

    records: IntArray | None
    every: int = 1
    parts: Collection[Part] = ("trace", "plain")
    n_probes: int | None = None
    private_target: bool = True


@dataclass
class Observer:
    """Sees each step, at the parameters that its gradients are taken at."""

    gradients: Gradients
    mechanism: StepMechanism
    accounting: Accounting
    X: Any
    y: Array
    rng: np.random.Generator
    _sums: dict[str, FloatArray] = field(default_factory=dict, init=False)
    _squares: dict[str, FloatArray] = field(default_factory=dict, init=False)
    _last: dict[str, FloatArray] = field(default_factory=dict, init=False)
    _path: list[FloatArray] = field(default_factory=list, init=False)
    _n_steps: int = field(default=0, init=False)
    _n_counted: int = field(default=0, init=False)
    _n_drawn: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Draw the first step that counts, and take the records that are followed."""
        rows = self.accounting.records
        self._first = int(self.rng.integers(self.accounting.every))
        self._all = rows is not None and len(rows) == self.X.shape[0]
        if rows is not None:
            self._records = (self.X, self.y) if self._all else (self.X[rows], self.y[rows])
        n = self.X.shape[0] if rows is None else len(rows)
        for part in self.accounting.parts:
            self._sums[part], self._squares[part] = np.zeros(n), np.zeros(n)

    def step(self, members: IntArray, grid: SumGrid | None = None) -> tuple[Array, FloatArray]:
        """Sum of the clipped gradients of a batch, (p,), and its losses; note what it reveals.

        The sum is in units of the grid where there is one.
        """
        batch, gradients = (self.X[members], self.y[members]), self.gradients
        if grid is None:
            clipped_sum = gradients.clipped_sum
        else:
            clipped_sum = partial(gradients.grid_sum, grid=grid)
        counts = (self._n_steps - self._first) % self.accounting.every == 0
        self._n_steps += 1
        self._n_counted += counts
        if not counts:
            return clipped_sum(*batch)
        if self.accounting.records is None:
            weigh = self.mechanism.weigh
            if grid is None:
                total, losses, found = gradients.sum_and_information(*batch, weigh, **self._options)
            else:
                total, losses = clipped_sum(*batch)
                found = gradients.information(*batch, weigh, **self._options)
            self._n_drawn += len(members)
            self._count_members(members, found)
            return total, losses
        if self._is_plain_sum:
            self._path.append(self.gradients.parameters)
            if len(self._path) == _STEPS:
                self._flush()
        else:
            self._count_differences(
                self.gradients.information(*self._records, self.mechanism.weigh, **self._options)
            )
        return clipped_sum(*batch)

    def totals(self) -> Totals:
        """Return what was added up so far."""
        self._flush()
        rows = self.accounting.records
        n = self.X.shape[0]
        exact = self._is_plain_sum and rows is not None
        found: dict[str, Any] = {}
        # Followed records carry the factor q, members of batches do not.
        scale = self.mechanism.scale * self.accounting.every
        if rows is None:
            scale /= self.mechanism.sampling_rate
        for part in self.accounting.parts:
            found[part] = scale * self._sums[part]
            found[f"{part}_error"] = scale * np.sqrt(self._variance(part))
        return Totals(
            np.arange(n) if rows is None else rows,
            self.gradients.n_unknowns(self.X, self.accounting.private_target),
            self._n_steps,
            1,
            exact,
            **found,
        )

    @property
    def _is_plain_sum(self) -> bool:
        """Return True if every step counts and nothing of it is estimated."""
        estimated = self.accounting.n_probes is not None and not self.gradients.closed_form
        return self.accounting.every == 1 and not estimated

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "parts": self.accounting.parts,
            "n_probes": self.accounting.n_probes,
            "rng": self.rng,
            "private_target": self.accounting.private_target,
        }

    def _flush(self) -> None:
        if not self._path:
            return
        path = np.stack(self._path)
        self._path = []
        found = self.gradients.summed_information(
            *self._records, path, self.mechanism.weigh, **self._options
        )
        for part, values in found.items():
            self._sums[part] += values

    def _count_members(self, members: IntArray, found: dict[str, FloatArray]) -> None:
        """Add what members of a batch reveal, and the squares that its variance is made of."""
        for part, values in found.items():
            self._sums[part][members] += values
            self._squares[part][members] += values**2

    def _count_differences(self, found: dict[str, FloatArray]) -> None:
        """Add what a step reveals, and the square of its change since the one counted before."""
        for part, values in found.items():
            self._sums[part] += values
            if part in self._last:
                self._squares[part] += (values - self._last[part]) ** 2
            self._last[part] = values

    def _variance(self, part: str) -> FloatArray:
        """Estimate the variance of a sum over counted steps, before it is scaled, (n,).

        Of memberships, ``sum x^2`` (Horvitz and Thompson, an upper estimate), with one more draw of
        the average kind, as who was never drawn has no zero leakage; of steps left out, and of
        probes, by successive differences.
        """
        if self._is_plain_sum and self.accounting.records is not None:
            return self._squares[part]
        if self.accounting.records is None:
            return self._squares[part] + self._squares[part].sum() / max(1, self._n_drawn)
        m = self._n_counted
        if m < 2:
            return np.full_like(self._squares[part], np.inf if m else 0.0)
        return m / (2.0 * (m - 1)) * self._squares[part]
