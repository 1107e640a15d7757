"""Upper bounds on the success of any attack, for every record, as the auditor names them."""

from collections.abc import Sequence

import numpy as np

from skleak.bounds import tradeoff_advantage
from skleak.channels import GaussianChannel
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray

__all__ = ["BOUNDS", "check_bounds", "success_bounds"]

# Column of the results -> name in the table of a channel, tightest first as a rule.
BOUNDS = {
    "bayes": "Bayes",
    "tradeoff": "trade-off",
    "gdp": "Gaussian differential privacy",
    "fano": "Fano, exact information",
    "information_projection": "information projection",
    "fano_pairwise": "Fano, pairwise information bound",
    "fano_information_bound": "Fano, information bound",
    "fano_order_1": "Fano, order 1",
    "generalised_fano": "generalised Fano",
    "renyi_projection": "Rényi projection",
    "closed_form_fano": "closed-form Fano",
    "reconstruction_robustness": "reconstruction robustness",
}
# Rows of a table of bounds that are held at once.
_ROWS = 1 << 17
# Standard error of quasi Monte Carlo for a single record; the mean over n needs less of each.
_TOLERANCE = 2e-5
_MOST_TOLERANCE = 1e-3
# Nothing is left to bound where the prior is this certain.
_CERTAIN = 1.0 - 1e-12


def check_bounds(bounds: "str | Sequence[str]") -> tuple[str, ...]:
    """Names of the bounds to compute, in the order of the results.

    Parameters
    ----------
    bounds : "all" or sequence of str
        Names, or a single one.

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        For a name that is none of the bounds.

    Examples
    --------
    >>> check_bounds(["fano", "bayes"])
    ('bayes', 'fano')
    """
    if isinstance(bounds, str):
        bounds = list(BOUNDS) if bounds == "all" else [bounds]
    unknown = [name for name in bounds if name not in BOUNDS]
    if unknown:
        raise ValueError(
            f"`bounds` must be 'all' or name some of {', '.join(map(repr, BOUNDS))}; got "
            f"{unknown[0]!r}."
        )
    return tuple(name for name in BOUNDS if name in bounds)


def success_bounds(
    encodings: FloatArray, prior: FloatArray, noise_scale: float, names: Sequence[str]
) -> dict[str, FloatArray]:
    """Upper bounds on the success probability of any attack on each record.

    Parameters
    ----------
    encodings : ndarray of shape (n, M, p)
        Parameters without noise under every value of every record.
    prior : ndarray of shape (n, M)
        Prior of every record.
    noise_scale : float
        Standard deviation of the noise; 0 bounds nothing.
    names : sequence of str
        Names of `BOUNDS`. The Bayes success is always computed.

    Returns
    -------
    dict
        Arrays of shape (n,) by name, and ``standard_error`` of the Bayes success.

    Examples
    --------
    >>> bounds = success_bounds(np.eye(2)[None], np.array([[0.5, 0.5]]), 1.0, ["fano"])
    >>> [name for name in bounds]
    ['bayes', 'fano', 'standard_error']
    >>> bool(bounds["bayes"][0] <= bounds["fano"][0])
    True
    """
    names = [name for name in BOUNDS if name in names or name == "bayes"]
    n = len(encodings)
    result = {name: np.ones(n) for name in names} | {"standard_error": np.zeros(n)}
    # A prior that is certain leaves nothing to gain: all bounds are 1 there.
    open_rows = np.flatnonzero(prior.max(axis=1) < _CERTAIN)
    if noise_scale == 0.0 or not len(open_rows):
        return result
    tolerance = min(_TOLERANCE * np.sqrt(len(open_rows)), _MOST_TOLERANCE)
    for block in row_blocks(len(open_rows), len(BOUNDS) * prior.shape[1], _ROWS):
        rows = open_rows[block]
        channel = GaussianChannel(encodings[rows], noise_scale, tolerance=tolerance)
        for name, values in _of_channel(channel, prior[rows], names).items():
            result[name][rows] = values
    return result


def _of_channel(
    channel: GaussianChannel, prior: FloatArray, names: Sequence[str]
) -> dict[str, FloatArray]:
    if set(names) <= {"bayes", "tradeoff"}:
        success, error = channel.bayes_success(prior, return_standard_error=True)
        result = {"bayes": success, "standard_error": error}
        if "tradeoff" in names:
            top = prior.max(axis=1)
            advantage = tradeoff_advantage(channel.encodings, channel.noise_scale, prior)
            result["tradeoff"] = np.maximum(top + advantage * (1.0 - top), success)
        return result
    table = channel.advantage_bounds(prior)
    by_name = dict(tuple(table.groupby("bound", sort=False)))
    result = {}
    for name in names:
        own = by_name[BOUNDS[name]].sort_values("record")
        result[name] = own["success"].to_numpy()
    bayes = by_name["Bayes"].sort_values("record")
    result["standard_error"] = bayes["standard_error"].to_numpy()
    return result
