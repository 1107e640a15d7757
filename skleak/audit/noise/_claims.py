"""The check of any mechanism's claim about its noise."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from skleak.audit.noise._checks import LEVEL, check_draws
from skleak.audit.noise._mechanism import check_table, unit_directions
from skleak.utils._arguments import check_numbers
from skleak.utils._random import make_generator
from skleak.utils._typing import FloatArray, RandomState

_FEWEST = 4


def check_noise(
    releases: npt.ArrayLike,
    noise_scale: npt.ArrayLike = 1.0,
    *,
    covariance: npt.ArrayLike | None = None,
    center: npt.ArrayLike | None = None,
    directions: npt.ArrayLike | None = None,
    law: Literal["gaussian", "laplace"] = "gaussian",
    level: float = LEVEL,
    random_state: RandomState = 0,
) -> pd.DataFrame:
    """Test whether releases of the same data have the noise that a mechanism claims.

    On each parameter, along each direction and for all of them together. P-values are exact or
    proven bounds for any number of releases. 90 releases are enough to find half of the noise on
    any one of 1,000 parameters, and faults like it (``smallest_fault`` says which).

    Parameters
    ----------
    releases : array-like of shape (n_releases, n_parameters)
        Outputs of the mechanism on the same data, with noise drawn anew in each; at least 4.
    noise_scale : float or array-like of shape (n_parameters,), default=1.0
        Claimed standard deviation of the noise on each parameter.
    covariance : array-like of shape (n_parameters, n_parameters), default=None
        Claimed covariance over ``noise_scale ** 2``; None for independent parameters.
    center : array-like of shape (n_parameters,), default=None
        Parameters without noise. None if unknown: the mean is not tested, and Laplace noise is
        tested by differences of two releases, which takes twice as many.
    directions : array-like of shape (n_directions, n_parameters), default=None
        Directions along which an attacker looks: differences of the parameters without noise under
        two values of a secret. Their lengths do not matter; of more than 1,000 some are tested.
    law : {"gaussian", "laplace"}, default="gaussian"
        Claimed law of the noise.
    level : float, default=0.001
        Probability at most that any of the checks accuses a sound mechanism, in (0, 1).
    random_state : None, int, RandomState or Generator, default=0
        Draws means and lengths that are unknown or were found wrong, so that the other checks stay
        exact.

    Returns
    -------
    DataFrame
        A row per check: ``check``, ``statistic``, ``p_value``, ``passed``, ``level`` (its share)
        and ``smallest_fault``, the smallest statistic of its kind found 99 times in 100 (NaN: none
        known). Statistics are for "mean" the largest in standard errors (fault: a shift in standard
        deviations), "spread" and "directions" the standard deviation farthest from claimed, over
        the claimed one, "missing" the parameters without noise, "replayed" the pairs of releases
        with the same noise, "covariance" the largest correlation, "shape" the mean of ``x^2 / 2 -
        sqrt(2) |x|`` over all parameters, and "shape_by_parameter" the decimal logarithm of the
        odds against the claimed law of one (fault: share of releases with a tenth of the noise).

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For shapes that do not match, noise scales that are not positive, a covariance that is not
        positive definite or given for Laplace noise, too few releases, or an unknown law.

    Notes
    -----
    A coin in place of a Gaussian, noise that is missing in some releases and mixtures of scales are
    found by the odds of a Polya tree and of mixtures, a mean of likelihood ratios that exceeds
    ``1 / a`` with probability a at most.

    References
    ----------
    V. Vovk, R. Wang. E-values: calibration, combination and applications. Annals of Statistics 49,
    2021.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> releases = 3.0 + 0.5 * rng.normal(size=(90, 20))
    >>> bool(check_noise(releases, 0.5)["passed"].all())
    True
    >>> releases[:, 7] = 3.0 + 0.5 * rng.choice([-1.0, 1.0], size=90)
    >>> found = check_noise(releases, 0.5)
    >>> found["check"][~found["passed"]].tolist()
    ['shape_by_parameter']
    """
    if law not in ("gaussian", "laplace"):
        raise ValueError(f'`law` must be "gaussian" or "laplace"; got {law!r}.')
    if not 0.0 < (total := float(check_numbers("level", level))) < 1.0:
        raise ValueError(f"`level` must lie strictly between 0 and 1; got {total:g}.")
    x = check_numbers("releases", releases)
    if x.ndim != 2 or len(x) < _FEWEST or not x.shape[1] or not np.isfinite(x).all():
        raise ValueError(
            f"`releases` must be finite and of shape (n_releases, n_parameters) with at least "
            f"{_FEWEST} releases; got shape {x.shape}. Release more often, and drop releases with "
            "NaN."
        )
    scale, root = _claim(noise_scale, covariance, x.shape[1], law)
    generator = make_generator(random_state)
    gaps = x - x.mean(axis=0) if center is None else x - _row("center", center, x.shape[1])
    with np.errstate(over="ignore"):
        gaps = gaps / scale  # infinite ones are just wrong
    if law == "laplace":
        draws = _normal_scores(gaps, center is None)
    else:
        draws = gaps if root is None else np.linalg.solve(root, gaps.T).T
        if center is None:
            # The mean of normal draws is independent of their differences.
            draws += generator.normal(size=draws.shape[1]) / np.sqrt(len(draws))
    towards = None
    if directions is not None:
        given = _matrix("directions", directions, x.shape[1]) / scale
        if root is not None:
            given = np.asarray(np.linalg.solve(root, given.T).T)
        towards = unit_directions(given)
    checks = check_draws(draws, generator, towards, total)
    return check_table([check for check in checks if center is not None or check.name != "mean"])


def _claim(
    noise_scale: Any, covariance: Any, p: int, law: str
) -> tuple[FloatArray, FloatArray | None]:
    """Return the claimed standard deviations, and a root of the covariance over their squares."""
    scale = np.asarray(check_numbers("noise_scale", noise_scale))
    if scale.shape not in ((), (p,)) or not np.all((scale > 0.0) & np.isfinite(scale)):
        raise ValueError(
            f"`noise_scale` must be positive and finite, a number or one for each of the {p} "
            f"parameters; got {scale.tolist()}."
        )
    if covariance is None:
        return scale, None
    matrix = _matrix("covariance", covariance, p)
    if law == "laplace" or scale.ndim:
        raise ValueError(
            "`covariance` is that of Gaussian noise, over the square of one `noise_scale`. Leave "
            "one of them out."
        )
    try:
        if matrix.shape != (p, p) or not np.allclose(matrix, matrix.T):
            raise np.linalg.LinAlgError
        return scale, np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"`covariance` must be symmetric and positive definite, of shape {(p, p)}; got shape "
            f"{matrix.shape}. Drop parameters that are functions of others."
        ) from None


def _matrix(name: str, values: Any, p: int) -> FloatArray:
    matrix = np.asarray(check_numbers(name, values))
    if matrix.ndim != 2 or matrix.shape[1] != p:
        raise ValueError(f"`{name}` must have {p} columns; got shape {matrix.shape}.")
    return matrix


def _row(name: str, values: Any, p: int) -> FloatArray:
    row = np.asarray(check_numbers(name, values))
    if row.shape != (p,) or not np.isfinite(row).all():
        raise ValueError(f"`{name}` must be finite, of shape {(p,)}; got shape {row.shape}.")
    return row


def _normal_scores(gaps: FloatArray, differences: bool) -> FloatArray:
    """Turn Laplace noise of variance 1 into standard normal draws, or differences of two of them.

    With b the scale and t = |x| / b, tails are ``exp(-t) / 2``, and ``exp(-t) (1 + t / 2) / 2`` for
    the difference of two.
    """
    if differences:
        half = len(gaps) // 2
        gaps = gaps[:half] - gaps[half : 2 * half]
    t = np.sqrt(2.0) * np.abs(gaps)
    log_tail = np.log(0.5) - t + (np.log1p(0.5 * t) if differences else 0.0)
    return np.asarray(-np.sign(gaps) * special.ndtri_exp(log_tail))
