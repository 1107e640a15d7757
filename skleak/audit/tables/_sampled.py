"""The mean of a bound over all records, where it is known of a sample of them."""

from typing import NamedTuple

import numpy as np

from skleak.audit.tables._design import Outcome
from skleak.utils._typing import FloatArray

# Standard errors of a bound that are allowed for.
N_ERRORS = 4.0


class MeanBound(NamedTuple):
    """Mean of a bound over all records, its standard error, and what it is at most."""

    value: float
    standard_error: float
    limit: float


def mean_bound(bounds: Outcome, name: str, prior: FloatArray) -> MeanBound:
    """Mean of a bound over all records: at most four standard errors more.

    Records that are known to be exposed count as they are. Of all others the bound of a sample is
    regressed on one that is known of every record (Cochran 1977, chapter 7): what a straight line
    leaves is all that varies by chance. One more record as far off as any could be is counted with
    the sample, so that it is never taken for a better one than it may be. No success is above the
    mean of what is known of every record, however wide the errors.

    Shapes: ``bounds`` as `BoundsPlan.joined` returns it; ``prior`` (n,), largest probabilities.
    """
    values, errors = bounds[name], bounds["standard_error"]
    # Points of quasi Monte Carlo are shared: errors of the records may all lie on one side.
    if "computed" not in bounds:
        return _allowed(float(values.mean()), float(errors.mean()), 1.0)
    computed, leading, known = bounds["computed"], bounds["leading"], bounds["upper"]
    numeric = float(errors[computed].mean())
    n, rest = len(values), ~leading
    sample = computed & rest
    total, count, m = values[leading].sum(), int(rest.sum()), int(sample.sum())
    most = float(np.where(computed, np.fmin(values + N_ERRORS * errors, known), known).mean())
    if m < 3:  # too few to tell anything of the others
        return _allowed(float(np.where(computed, values, known).mean()), numeric, most)
    x, y = known[sample], values[sample]
    off = x - x.mean()
    slope = float(off @ y / (off @ off)) if off @ off > 0.0 else 0.0
    mean = y.mean() + slope * (known[rest].mean() - x.mean())
    residual = y - y.mean() - slope * off
    upper = known if name in ("bayes", "tradeoff") else 1.0
    furthest = float(np.max(upper - bounds["lower"], where=rest, initial=0.0))
    unseen = 1.0 - m / count
    variance = unseen * ((residual @ residual) / max(m - 2, 1) + furthest**2 / m) / m
    mean = float(np.clip(mean, prior[rest].mean(), 1.0))
    error = count / n * float(np.sqrt(variance)) + numeric
    return _allowed((total + count * mean) / n, error, most)


def sample_bound(bounds: Outcome, name: str) -> MeanBound:
    """Mean of a bound over all records, of which those that it is known of are a random sample.

    One more record as far off as any could be is counted with the sample, so that it is never
    taken for a better one than it may be. ``bounds`` holds ``n_all``, the number of all records.
    """
    values, errors = bounds[name], bounds["standard_error"]
    m, n = len(values), int(bounds["n_all"])
    furthest = 1.0 - float(values.min())
    variance = (1.0 - m / n) * (float(values.var(ddof=1)) + furthest**2 / m) / m
    return _allowed(float(values.mean()), float(np.sqrt(variance) + errors.mean()), 1.0)


def _allowed(value: float, error: float, most: float) -> MeanBound:
    return MeanBound(value, error, max(value, min(value + N_ERRORS * error, most)))
