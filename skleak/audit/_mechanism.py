"""Whether an estimator adds the noise that it states."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skleak.attacks._encodings import model_parameters
from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._typing import FloatArray

__all__ = ["coloured", "measured_noise", "noise_of_levels"]

# Stream of the seeds of the checks at each noise level; games and utility have 0 and 1.
_CHECKS = 2

# Chance of a false alarm of a check.
_LEVEL = 1e-6
# Draws of the noise, over parameters and fits, that tell a factor of 2 at that level.
_N_DRAWS = 100
# Fits that measure the noise of an estimator which failed the check.
_N_FITS = 50
# Noise below this share of what is stated is none.
_NONE = 1e-9


def coloured(noise: FloatArray, draws: FloatArray) -> FloatArray:
    """Noise from standard normal draws.

    Parameters
    ----------
    noise : ndarray of shape (p,) or (p, p)
        Standard deviation of the noise on each parameter, or a root of its covariance.
    draws : ndarray of shape (..., p)
        Standard normal.

    Returns
    -------
    ndarray of shape (..., p)

    Examples
    --------
    >>> coloured(np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([1., 7.])
    """
    return noise * draws if noise.ndim == 1 else draws @ noise.T


def measured_noise(
    template: Any,
    X: Any,
    y: Any,
    noiseless: FloatArray,
    noise_scale: float,
    seed: np.random.SeedSequence,
    root: FloatArray | None = None,
) -> tuple[FloatArray, bool]:
    """Noise that an estimator really adds to each parameter.

    A few fits with different seeds are compared with the parameters without noise. Where their
    differences are what Gaussian noise of the stated scale gives, that scale is returned; else
    more fits measure the noise of each parameter. The games of an audit are then played with the
    noise that is there, against bounds for the one that is stated.

    Parameters
    ----------
    template : estimator
        Unfitted, with a parameter ``noise_scale``; others are taken at their word.
    X, y : table of shape (n, d), array of shape (n,)
        Preprocessed records.
    noiseless : ndarray of shape (p,)
        Parameters without noise.
    noise_scale : float
        Stated standard deviation of the noise on each parameter.
    seed : SeedSequence
        Seed of the fits.
    root : ndarray of shape (p, p) or None, default=None
        Root of the stated covariance over the variance; None for isotropic noise.

    Returns
    -------
    noise : ndarray of shape (p,), or (p, p) with a root
        Standard deviation of the noise on each parameter, or a root of its covariance.
    as_stated : bool
        Whether the check was passed.
    """
    p = len(noiseless)
    stated = np.full(p, noise_scale) if root is None else noise_scale * root
    if noise_scale == 0.0 or "noise_scale" not in template.get_params(deep=False):
        return stated, True

    def draws(n_fits: int, seed: np.random.SeedSequence) -> FloatArray:
        seeds = seed.generate_state(n_fits)
        fits = [_fit(template, X, y, noise_scale, int(each)) for each in seeds]
        noise = (np.stack(fits) - noiseless) / noise_scale
        # In coordinates in which the noise is isotropic, if it is what is stated.
        return noise if root is None else np.asarray(np.linalg.solve(root, noise.T).T, float)

    few, many = seed.spawn(2)
    noise = draws(max(2, -(-_N_DRAWS // p)), few)
    total, freedom = float((noise**2).sum()), noise.size
    tail = min(stats.chi2.cdf(total, freedom), stats.chi2.sf(total, freedom))
    missing = np.any(np.abs(noise).max(axis=0) < _NONE)
    replayed = np.any(np.ptp(noise, axis=0) < _NONE)
    if 2.0 * tail > _LEVEL and not missing and not replayed:
        return stated, True
    spread = draws(_N_FITS, many).std(axis=0, ddof=1)
    spread = np.asarray(noise_scale * np.where(spread < _NONE, 0.0, spread), dtype=np.float64)
    return spread if root is None else root * spread, False


def noise_of_levels(
    model: Any,
    subject: Any,
    noise_scales: Sequence[float],
    entropy: list[int],
    *,
    stacklevel: int = 3,
) -> dict[float, FloatArray]:
    """Noise on each parameter at every level, as the estimator really adds it.

    Parameters
    ----------
    model : estimator
        Unfitted last step.
    subject : Subject
        With ``X``, ``y``, ``noiseless`` and ``noise``.
    noise_scales : sequence of float
        Noise levels.
    entropy : list of int
        Of all seeds.
    stacklevel : int, default=3
        Whose line a warning names.

    Returns
    -------
    dict of float to ndarray of shape (p,) or (p, p)

    Warns
    -----
    PrivacyLeakWarning
        Where the noise is not what is stated.
    """
    noise, wrong = {}, []
    root = None if subject.noise.is_identity else subject.noise.matrix_root
    for k, scale in enumerate(noise_scales):
        seed = np.random.SeedSequence(entropy, spawn_key=(k, _CHECKS))
        noise[scale], as_stated = measured_noise(
            model, subject.X, subject.y, subject.noiseless, scale, seed, root
        )
        if not as_stated:
            wrong.append(scale)
    if wrong:
        spreads = [np.linalg.norm(np.atleast_2d(noise[s].T), axis=0) for s in wrong]
        measured = ", ".join(f"{each.min():.3g} to {each.max():.3g}" for each in spreads)
        warnings.warn(
            f"{type(model).__name__} does not add the noise that it states: measured were "
            f"standard deviations of {measured} where {', '.join(f'{s:g}' for s in wrong)} "
            "was stated. The games are played with the noise measured, against bounds for the "
            "noise stated. Repair the estimator.",
            PrivacyLeakWarning,
            stacklevel=stacklevel,
        )
    return noise


def _fit(template: Any, X: Any, y: Any, noise_scale: float, seed: int) -> FloatArray:
    model = clone(template).set_params(noise_scale=noise_scale)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    with warnings.catch_warnings():
        # Said once already, by the fit without noise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model_parameters(model.fit(X, y))
