"""Intervals of success over records and models, and of what training records lose beyond others."""

import numpy as np
from scipy import stats

from skleak.metrics import Interval, binomial_interval, mean_interval
from skleak.utils._typing import FloatArray


def success_interval(outcomes: FloatArray, level: float, *, bounded: bool) -> Interval:
    """Success against records of a population, and releases like those given.

    Shapes: ``outcomes`` (n_models, n_records).

    Against one model the records are the units: Clopper and Pearson where outcomes are 0 and 1.
    Against several the mean over models of every record takes the place of its outcome (Gaffke's
    interval, Student's where it is not bounded), and the spread of the models adds to the width by
    the method of variance estimates recovery, with Student's quantile for their number.
    """
    return _one_sample(outcomes, level, (0.0, 1.0) if bounded else None)


def difference_interval(
    training: FloatArray, control: FloatArray, level: float, *, bounded: bool
) -> Interval:
    """Success with training records less that with control records, against the same models.

    Shapes: ``training`` (n_models, n_training); ``control`` (n_models, n_control).

    The method of variance estimates recovery: distances from the estimates to the ends of their
    own intervals add up in squares. With Wilson's intervals it is Newcombe's (1998) method 10; with
    those of `success_interval`, which hold their level exactly, it is a little wider, and with
    Student's it is close to Welch's. The spread of the models is that of their differences: noise
    that helps with both kinds of record cancels.

    R. G. Newcombe. Interval estimation for the difference between independent proportions:
    comparison of eleven methods. Statistics in Medicine 17, 1998.

    G. Y. Zou and A. Donner. Construction of confidence limits about effect measures: a general
    approach. Statistics in Medicine 27, 2008.
    """
    ends = (0.0, 1.0) if bounded else None
    first, second = (_over_records(table, level, ends) for table in (training, control))
    of_models = _over_models(training.mean(axis=1) - control.mean(axis=1), level)
    below = np.hypot(np.hypot(first[0] - first[1], second[2] - second[0]), of_models)
    above = np.hypot(np.hypot(first[2] - first[0], second[0] - second[1]), of_models)
    limits = (-1.0, 1.0) if bounded else None
    return _interval(first[0] - second[0], below, above, limits)


def paired_interval(one: FloatArray, other: FloatArray, level: float, *, bounded: bool) -> Interval:
    """Success of one attack less that of another with the same records, (n_models, n_records)."""
    return _one_sample(one - other, level, (-1.0, 1.0) if bounded else None)


def _one_sample(table: FloatArray, level: float, ends: tuple[float, float] | None) -> Interval:
    """Interval of a mean over records and models, (n_models, n_records), within the ends."""
    estimate, low, high = _over_records(table, level, ends)
    of_models = _over_models(table.mean(axis=1), level)
    below, above = np.hypot(estimate - low, of_models), np.hypot(high - estimate, of_models)
    return _interval(estimate, below, above, ends)


def _over_records(
    outcomes: FloatArray, level: float, ends: tuple[float, float] | None
) -> tuple[float, float, float]:
    """Estimate and ends, given the models."""
    own = outcomes.mean(axis=0)
    if ends == (0.0, 1.0) and len(outcomes) == 1 and np.all((own == 0.0) | (own == 1.0)):
        # Equal to the general one, and quicker.
        result = binomial_interval(own.sum(), len(own), level)
    else:
        result = mean_interval(own, confidence_level=level, value_range=ends)
    return float(result.estimate), float(result.low), float(result.high)


def _over_models(means: FloatArray, level: float) -> float:
    """Half the width that the spread of models adds; a single model is taken as it is."""
    n = len(means)
    if n == 1:
        return 0.0
    return float(stats.t.isf(0.5 * (1.0 - level), n - 1) * means.std(ddof=1) / np.sqrt(n))


def _interval(
    estimate: float, below: float, above: float, ends: tuple[float, float] | None
) -> Interval:
    limits = (-np.inf, np.inf) if ends is None else ends
    low, high = max(estimate - below, limits[0]), min(estimate + above, limits[1])
    return Interval(float(estimate), float(low), float(high))
