"""The information about every record, added up over the steps of one run or averaged over runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skleak.utils._typing import FloatArray, IntArray


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
    trace, trace_error : ndarray of shape (k,)
        Trace, and its standard error: between runs, or within one from what was left out.
    norm, norm_error : ndarray of shape (k,), or None
        Sum of the largest eigenvalues of the steps: an upper bound on that of their sum.
    plain, plain_error : ndarray of shape (k,)
        Trace without amplification beyond the rate q, which the printed factor multiplies.
    """

    records: IntArray
    n_unknowns: int
    n_steps: int
    n_runs: int
    exact: bool
    trace: FloatArray
    trace_error: FloatArray
    plain: FloatArray
    plain_error: FloatArray
    norm: FloatArray | None = None
    norm_error: FloatArray | None = None

    @property
    def scope(self) -> str:
        """Say what the numbers are about."""
        return "this run only" if self.n_runs == 1 else f"mean of {self.n_runs} runs"


_PARTS = ("trace", "plain", "norm")


def mean_totals(runs: Sequence[Totals]) -> Totals:
    """Average independent runs, with standard errors from their differences."""
    first = runs[0]
    if len(runs) == 1:
        return first
    found = {}
    for name in _PARTS:
        if getattr(first, name) is None:
            continue
        table = np.stack([getattr(run, name) for run in runs])
        found[name] = table.mean(axis=0)
        between = table.std(axis=0, ddof=1) / np.sqrt(len(runs))
        errors = np.stack([getattr(run, f"{name}_error") for run in runs])
        # Of records that no run has drawn all runs say the same.
        found[f"{name}_error"] = np.maximum(between, np.linalg.norm(errors, axis=0) / len(runs))
    exact = all(run.exact for run in runs)
    return Totals(first.records, first.n_unknowns, first.n_steps, len(runs), exact, **found)
