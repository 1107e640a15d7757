"""Private SGD as an audit trains it: its noise is a multiplier, its bounds those of its curve."""

import functools
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from skleak.adversary.hypotheses import last_step
from skleak.bounds import advantage_to_success
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor, SGDGuarantee
from skleak.neural.gradients import make_clipping
from skleak.utils._typing import FloatArray

# Probability with which a training set is smaller than is accounted for; added to the bound.
_UNLIKELY = 1e-9


def is_private_sgd(estimator: Any) -> bool:
    """Return True if a model, or the last step of a pipeline, is trained by private SGD."""
    return isinstance(last_step(estimator), PrivateSGDClassifier | PrivateSGDRegressor)


def noise_multiplier(estimator: Any, X: Any, y: Any) -> float:
    """Noise multiplier of a model, unfitted, which may have a goal instead."""
    own = last_step(estimator).noise_multiplier
    if isinstance(own, int | float | np.number):
        return float(own)
    fitted = clone(estimator)
    quick(last_step(fitted))
    return float(last_step(fitted.fit(X, y)).noise_multiplier_)


def quick(model: Any) -> Any:
    """Set an unfitted model to what an audit needs: one training, and no account of leakage."""
    return model.set_params(accounting=None, n_runs=1, ledger=None, verbose=0)


def with_public_size(model: Any, n: int, usual: float) -> Any:
    """Set an unfitted model to divide its sums by a number that does not depend on its members.

    Batches have the size that they have with the usual number of records: in expectation they grow
    with n under Poisson sampling, and what they are divided by does not.
    """
    if model.sampling == "fixed":
        size = _batch_size(model, usual)
        return model.set_params(sampling_rate=min(1.0, size / n))
    return model.set_params(learning_rate=model.learning_rate * n / usual)


def membership_success(
    model: Any, multiplier: float, prior: float, usual: float, others: int, candidates: int
) -> float:
    """Bound the success of telling one member, of trainings on random members at this noise.

    ``others`` records are always trained on, each of the ``candidates`` with probability `prior`.
    """
    rate, slack = float(model.sampling_rate), 0.0
    if model.sampling == "fixed":
        # The share of a batch is largest in the smallest training set.
        fewest = others + int(stats.binom.ppf(_UNLIKELY, candidates, prior))
        rate, slack = min(1.0, _batch_size(model, usual) / max(fewest, 1)), _UNLIKELY
    guarantee = _guarantee(model, multiplier, rate)
    if guarantee is None:
        return 1.0
    success = advantage_to_success(guarantee.membership_advantage(prior), [prior, 1.0 - prior])
    return float(min(1.0, success + slack))


def attribute_success(model: Any, multiplier: float, prior: FloatArray, n: int) -> FloatArray:
    """Bound the success of guessing a secret of each of some records; prior (n_targets, M)."""
    rate = float(model.sampling_rate)
    if model.sampling == "fixed":
        rate = _batch_size(model, n) / n
    guarantee = _guarantee(model, multiplier, rate)
    if guarantee is None:
        return np.ones(len(prior))
    different, place = np.unique(prior, axis=0, return_inverse=True)
    certain = different.max(axis=1) >= 1.0 - 1e-12
    success = np.ones(len(different))
    if not certain.all():
        known = different[~certain]
        success[~certain] = advantage_to_success(guarantee.advantage(known), known)
    return np.asarray(success[place.ravel()])


def _batch_size(model: Any, n: float) -> int:
    return max(1, round(float(model.sampling_rate) * n))


def _guarantee(model: Any, multiplier: float, rate: float) -> SGDGuarantee | None:
    """Guarantee of a training; None without noise."""
    if multiplier == 0.0:
        return None
    over = make_clipping(model.clipping, 1.0).sensitivity
    return _kept(multiplier / over, rate, int(model.max_steps), model.sampling)


@functools.lru_cache(maxsize=16)
def _kept(multiplier: float, rate: float, n_steps: int, sampling: str) -> SGDGuarantee:
    return SGDGuarantee(multiplier, rate, n_steps, sampling)
