"""Subsampled Gaussian noise, by the privacy loss distributions of dp-accounting."""

from numbers import Integral

from skleak.utils._arguments import check_scalar
from skleak.utils._optional import import_optional

_RELATIONS = {"add-or-remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}


def subsampled_gaussian_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    *,
    relation: str = "add-or-remove",
) -> float:
    """The epsilon of many steps of Gaussian noise on Poisson-sampled batches.

    The accounting of private stochastic gradient descent: in each step every record enters the
    batch with probability ``sampling_rate``, its contribution is clipped to norm C, and noise of
    standard deviation ``noise_multiplier * C`` is added to the sum. The privacy loss distribution
    is discretised pessimistically: the result is never below the truth. Needs the extra
    ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch.
    n_steps : int, at least 1
        Number of batches.
    delta : float, strictly between 0 and 1
        Probability that the bound may fail; below about 1e-20 the discretisation gives infinity.
    relation : {"add-or-remove", "replace"}, default="add-or-remove"
        What neighbouring data sets are. Replacing a record moves the sum by up to 2 C, and is
        the relation of every other function here.

    Returns
    -------
    float
        epsilon in nats.

    Raises
    ------
    ImportError
        Where dp-accounting is not installed.
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range or an unknown relation.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> round(subsampled_gaussian_epsilon(1.0, 0.01, 1000, 1e-5), 2)
    1.83
    """
    sigma = check_scalar("noise_multiplier", noise_multiplier, low_open=True, finite=True)
    rate = check_scalar("sampling_rate", sampling_rate, low_open=True, high=1.0)
    failure = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    if not isinstance(n_steps, Integral) or isinstance(n_steps, bool) or n_steps < 1:
        raise ValueError(f"`n_steps` must be an integer of at least 1; got {n_steps!r}.")
    if relation not in _RELATIONS:
        raise ValueError(
            f"`relation` must be one of {', '.join(map(repr, _RELATIONS))}; got {relation!r}."
        )
    dp = import_optional("dp_accounting", "accounting", "Accounting for subsampled noise")
    pld = import_optional("dp_accounting.pld", "accounting", "Accounting for subsampled noise")
    accountant = pld.PLDAccountant(dp.NeighboringRelation[_RELATIONS[relation]])
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
    return float(accountant.compose(step, int(n_steps)).get_epsilon(failure))
