"""The noise that an estimator really adds, and whether it is the one that it states."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning

from skleak.adversary.hypotheses import model_parameters, weight_argument
from skleak.audit.noise._checks import NO_NOISE, NoiseCheck, check_noise
from skleak.audit.noise._hypotheses import Hypotheses, warn_of_hypotheses
from skleak.exceptions import PrivacyLeakWarning
from skleak.influence.state import NoiseShape
from skleak.utils._typing import Array, FloatArray
from skleak.utils._warnings import outer_stacklevel

# Stream of the seeds of the checks at each noise level; games and utility have 0 and 1.
_CHECKS = 2

# Draws of the noise, over parameters and fits, among which another shape shows at the level of a
# check, and the fits that they may take: a correlation of two parameters shows from the fewest on.
_N_DRAWS = 500
_FEWEST_FITS, _MOST_FITS = 10, 100
# Fits that measure the noise of an estimator which failed a check.
_N_FITS = 50


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model as an audit trains it, with its noise. Confidential."""

    model: Any  # unfitted, with its noise
    # Preprocessed records, their targets, and their weights in every fit, (n, d), (n,) and (n,).
    X: Any
    y: Array
    weights: FloatArray | None
    noiseless: FloatArray  # parameters without noise, (p,)
    noise: NoiseShape  # with the matrix of the data as they are, where it follows the data
    hypotheses: Hypotheses | None = None  # what attacks take for the parameters without noise


@dataclass(frozen=True)
class MeasuredNoise:
    """Noise of an estimator at one noise scale.

    `noise` (p,) or (p, p) is the standard deviation of the noise on each parameter, or a root of
    its covariance: as stated where all checks were passed, else as measured. An estimator that is
    taken at its word has no checks. `releases` (n_fits, p) are the fits that were compared, and
    `held_against` their comparison with the hypotheses of attacks, where the noise is as stated.
    """

    noise: FloatArray
    checks: tuple[NoiseCheck, ...]
    releases: FloatArray
    held_against: NoiseCheck | None = None

    @property
    def as_stated(self) -> bool:
        """True if all checks of the noise were passed."""
        return all(check.passed for check in self.checks)


def colored(noise: FloatArray, draws: FloatArray) -> FloatArray:
    """Noise (..., p) from standard normal draws (..., p); ``noise`` is (p,), or a root (p, p)."""
    return noise * draws if noise.ndim == 1 else draws @ noise.T


def measured_noise(
    template: Any,
    X: Any,
    y: Any,
    noiseless: FloatArray,
    noise_scale: float,
    seed: np.random.SeedSequence,
    root: FloatArray | None = None,
    hypotheses: Hypotheses | None = None,
    sample_weight: FloatArray | None = None,
) -> MeasuredNoise:
    """Noise that an estimator really adds to each parameter.

    Fits with different seeds are compared with the parameters without noise. Where their
    differences are what Gaussian noise of the stated law gives, that law is returned; else more
    fits measure the noise. The games of an audit are then played with the noise that is there,
    against bounds for the one that is stated.

    Shapes: ``X``, ``y`` (n, d); ``noiseless`` (p,); ``root`` (p, p); ``sample_weight`` (n,).
    """
    p = len(noiseless)
    stated = np.full(p, noise_scale) if root is None else noise_scale * root
    if noise_scale == 0.0 or "noise_scale" not in template.get_params(deep=False):
        return MeasuredNoise(stated, (), np.empty((0, p)))

    weights = weight_argument(template, sample_weight)

    def fits(n_fits: int, seed: np.random.SeedSequence) -> FloatArray:
        seeds = [int(word) for word in seed.generate_state(n_fits)]
        if type(template).__module__.startswith("skleak.linear_model."):
            return _redrawn(_fit(template, X, y, weights, noise_scale, seeds[0]), seeds)
        models = (_fit(template, X, y, weights, noise_scale, word) for word in seeds)
        return np.stack([model_parameters(model) for model in models])

    def draws(releases: FloatArray) -> FloatArray:
        gaps = (releases - noiseless) / noise_scale
        white = gaps if root is None else np.linalg.solve(root, gaps.T).T
        return np.asarray(white, dtype=np.float64)

    first, second, moments = seed.spawn(3)
    n_fits = int(np.clip(-(-_N_DRAWS // p), _FEWEST_FITS, _MOST_FITS))
    releases = fits(n_fits, first)
    checks = check_noise(draws(releases), np.random.default_rng(moments))
    if all(check.passed for check in checks):
        held = None if hypotheses is None else hypotheses.check(releases, noise_scale, root)
        return MeasuredNoise(stated, checks, releases, held)
    enough = releases
    if n_fits < _N_FITS:
        enough = np.vstack([releases, fits(_N_FITS - n_fits, second)])
    dependent = any(check.name == "covariance" and not check.passed for check in checks)
    unit = _unit_noise(draws(enough), dependent)
    if root is not None:
        unit = root @ unit if dependent else root * unit
    return MeasuredNoise(noise_scale * unit, checks, releases)


def _unit_noise(draws: FloatArray, dependent: bool) -> FloatArray:
    """Return standard deviations of draws, of shape (p,), or a root of their covariance, (p, p)."""
    n, p = draws.shape
    if not dependent:
        spread = draws.std(axis=0, ddof=1)
        return np.where(spread < NO_NOISE, 0.0, spread)
    centered = draws - draws.mean(axis=0)
    values, axes = np.linalg.svd(centered / np.sqrt(n - 1.0), full_matrices=False)[1:]
    degenerate = np.any(values[: min(n - 1, p)] < NO_NOISE * values[0])
    if n < 2 * p and not degenerate:
        # So few draws span less than the noise does.
        squares, axes = np.linalg.eigh(ledoit_wolf(centered, assume_centered=True)[0])
        return np.asarray(axes * np.sqrt(np.maximum(squares, 0.0)))
    root = np.zeros((p, p))
    root[:, : len(values)] = axes.T * np.where(values < NO_NOISE * values[0], 0.0, values)
    return root


def noise_of_levels(
    trained: Trained, noise_scales: Sequence[float], entropy: list[int]
) -> tuple[dict[float, FloatArray], pd.DataFrame]:
    """Noise on each parameter at every level, as the estimator really adds it.

    Returns ``noise`` (p,) or (p, p); ``checks``: A row for each noise level and check; see
    `AuditReport`.
    """
    model, measured = trained.model, {}
    root = None if trained.noise.is_identity else trained.noise.matrix_root
    known = (model, trained.X, trained.y, trained.noiseless)
    rest = (root, trained.hypotheses, trained.weights)
    for k, scale in enumerate(noise_scales):
        seed = np.random.SeedSequence(entropy, spawn_key=(k, _CHECKS))
        measured[scale] = measured_noise(*known, scale, seed, *rest)
    wrong = {scale: found for scale, found in measured.items() if not found.as_stated}
    if wrong:
        warnings.warn(_complaint(model, wrong), PrivacyLeakWarning, stacklevel=outer_stacklevel())
    held = {scale: found.held_against for scale, found in measured.items()}
    warn_of_hypotheses(model, {scale: check for scale, check in held.items() if check is not None})
    return {scale: found.noise for scale, found in measured.items()}, _table(measured)


def check_rows(noise_scale: float, n_releases: int, checks: Iterable[NoiseCheck]) -> pd.DataFrame:
    """Rows of the table of checks; see `AuditReport`."""
    rows = [(c.name, c.statistic, c.p_value, c.passed) for c in checks]
    table = pd.DataFrame(rows, columns=["check", "statistic", "p_value", "passed"])
    table.insert(0, "noise_scale", noise_scale)
    table.insert(1, "n_releases", n_releases)
    return table


def _table(measured: "dict[float, MeasuredNoise]") -> pd.DataFrame:
    checks = {
        scale: found.checks + (() if found.held_against is None else (found.held_against,))
        for scale, found in measured.items()
    }
    tables = [check_rows(k, len(measured[k].releases), rows) for k, rows in checks.items() if rows]
    return pd.concat(tables, ignore_index=True) if tables else check_rows(0.0, 0, ())


def _complaint(model: Any, wrong: "dict[float, MeasuredNoise]") -> str:
    spreads = [
        found.noise if found.noise.ndim == 1 else np.linalg.norm(found.noise, axis=1)
        for found in wrong.values()
    ]
    measured = ", ".join(f"{spread.min():.3g} to {spread.max():.3g}" for spread in spreads)
    failed = [check.name for found in wrong.values() for check in found.checks if not check.passed]
    return (
        f"{type(model).__name__} does not add the noise that it states: measured were standard "
        f"deviations of {measured} where {', '.join(f'{scale:g}' for scale in wrong)} was stated. "
        f"Checks failed: {', '.join(dict.fromkeys(failed))}. The games are played with Gaussian "
        "noise of the covariance measured, against bounds for the noise stated. Repair the "
        "estimator."
    )


def _fit(
    template: Any,
    X: Any,
    y: Any,
    weights: dict[str, FloatArray],
    noise_scale: float,
    seed: int,
) -> Any:
    model = clone(template).set_params(noise_scale=noise_scale)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    with warnings.catch_warnings():
        # Said once already, by the fit without noise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **weights)


def _redrawn(model: Any, seeds: list[int]) -> FloatArray:
    """Parameters (n, p) of fits of our own classes, which differ by their noise alone.

    Classes derived from them may do anything in ``fit``, and are fitted every time.
    """
    releases = []
    for seed in seeds:
        model._redraw(seed)
        releases.append(model_parameters(model))
    return np.stack(releases)
