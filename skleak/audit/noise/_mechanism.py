"""The noise that an estimator really adds, and whether it is the one that it states."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning

from skleak.adversary.hypotheses import last_step, model_parameters, weight_argument
from skleak.audit.noise._checks import LEVEL, NO_NOISE, NoiseCheck, check_draws, fits_needed
from skleak.audit.noise._hypotheses import Hypotheses, warn_of_hypotheses
from skleak.exceptions import (
    AttackNotApplicableError,
    PrivacyLeakWarning,
    UnprotectedValueWarning,
)
from skleak.influence.state import NoiseShape
from skleak.utils._blocks import row_blocks, stacked
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

# Stream of the seeds of the checks at each noise level; games and utility have 0 and 1.
_CHECKS = 2

# Chance that the checks accuse our own estimators, whose releases cost no fits.
_OWN_LEVEL = 1e-6
# Fits between two looks at the progress, of each process.
_BLOCK = 8
# Directions between encodings along which the noise is compared, at most.
_MOST_DIRECTIONS = 1000


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
    # Differences of the parameters without noise under two values, (n_directions, p).
    directions: FloatArray | None = None


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


def is_ours(estimator: Any) -> bool:
    """Return True for a class of ours itself, whose releases differ by a draw of known noise.

    Classes derived from them may do anything in ``fit``.
    """
    return type(last_step(estimator)).__module__.startswith("skleak.linear_model.")


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
    directions: FloatArray | None = None,
    n_levels: int = 1,
    n_jobs: int | None = None,
) -> MeasuredNoise:
    """Noise that an estimator really adds to each parameter.

    Fits with different seeds are compared with the parameters without noise. Where their
    differences are what Gaussian noise of the stated law gives, that law is returned; else they
    measure the noise. The games of an audit are then played with the noise that is there,
    against bounds for the one that is stated. All levels of an audit share the chance of a false
    alarm.

    Shapes: ``X``, ``y`` (n, d); ``noiseless`` (p,); ``root`` (p, p); ``sample_weight`` (n,);
    ``directions`` (n_directions, p).
    """
    p = len(noiseless)
    stated = np.full(p, noise_scale) if root is None else noise_scale * root
    if noise_scale == 0.0 or "noise_scale" not in template.get_params(deep=False):
        return MeasuredNoise(stated, (), np.empty((0, p)))

    def white(gaps: FloatArray) -> FloatArray:
        return np.asarray(gaps if root is None else np.linalg.solve(root, gaps.T).T)

    level = (_OWN_LEVEL if is_ours(template) else LEVEL) / n_levels
    towards = None if directions is None else unit_directions(white(directions))
    n_fits = fits_needed(p, 0 if towards is None else len(towards), level)
    first, moments = seed.spawn(2)
    seeds = first.generate_state(n_fits).astype(np.int64)
    if is_ours(template):
        model = fit_seeded(template, X, y, noise_scale, int(seeds[0]), sample_weight)
        releases = _redrawn(model, seeds)
    else:

        def same(_: int) -> tuple[Any, Any]:
            return X, y

        name = f"fits that check the noise at {noise_scale:g}"
        releases = fitted_releases(
            name, template, same, noise_scale, seeds, p, sample_weight, n_jobs=n_jobs
        )
    with np.errstate(over="ignore"):
        draws = white((releases - noiseless) / noise_scale)
    checks = check_draws(draws, np.random.default_rng(moments), towards, level)
    if all(check.passed for check in checks):
        held = None if hypotheses is None else hypotheses.check(releases, noise_scale, root)
        return MeasuredNoise(stated, checks, releases, held)
    wrong = {check.name for check in checks if not check.passed}
    dependent = bool(wrong & {"covariance", "directions"})
    unit = _unit_noise(draws, dependent)
    if root is not None:
        unit = root @ unit if dependent else root * unit
    return MeasuredNoise(noise_scale * unit, checks, releases)


def unit_directions(differences: FloatArray) -> FloatArray | None:
    """Directions of unit length, (n_directions, p): evenly spaced ones of many; None of none."""
    lengths = np.linalg.norm(differences, axis=1)
    apart = np.flatnonzero((lengths > 0.0) & np.isfinite(lengths))
    if not len(apart):
        return None
    if len(apart) > _MOST_DIRECTIONS:
        apart = apart[np.linspace(0, len(apart) - 1, _MOST_DIRECTIONS).astype(np.intp)]
    return np.asarray(differences[apart] / lengths[apart, None])


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
    trained: Trained,
    noise_scales: Sequence[float],
    entropy: list[int],
    n_jobs: int | None = None,
) -> tuple[dict[float, FloatArray], pd.DataFrame]:
    """Noise on each parameter at every level, as the estimator really adds it.

    Returns ``noise`` (p,) or (p, p); ``checks``: A row for each noise level and check; see
    `AuditReport`.
    """
    model, measured = trained.model, {}
    root = None if trained.noise.is_identity else trained.noise.matrix_root
    known = (model, trained.X, trained.y, trained.noiseless)
    n_levels = sum(scale > 0.0 for scale in noise_scales)
    for k, scale in enumerate(noise_scales):
        seed = np.random.SeedSequence(entropy, spawn_key=(k, _CHECKS))
        measured[scale] = measured_noise(
            *known,
            scale,
            seed,
            root,
            trained.hypotheses,
            trained.weights,
            trained.directions,
            n_levels=n_levels,
            n_jobs=n_jobs,
        )
    wrong = {scale: found for scale, found in measured.items() if not found.as_stated}
    if wrong:
        warnings.warn(_complaint(model, wrong), PrivacyLeakWarning, stacklevel=outer_stacklevel())
    held = {scale: found.held_against for scale, found in measured.items()}
    warn_of_hypotheses(model, {scale: check for scale, check in held.items() if check is not None})
    return {scale: found.noise for scale, found in measured.items()}, _table(measured)


def check_table(checks: Iterable[NoiseCheck]) -> pd.DataFrame:
    """Return a row for each check; see `skleak.audit.check_noise`."""
    names = ["name", "statistic", "p_value", "passed", "level", "smallest_fault"]
    rows = [[getattr(check, name) for name in names] for check in checks]
    return pd.DataFrame(rows, columns=["check", *names[1:]])


def check_rows(noise_scale: float, n_releases: int, checks: Iterable[NoiseCheck]) -> pd.DataFrame:
    """Rows of the table of checks; see `AuditReport`."""
    table = check_table(checks)
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
        f"Checks failed: {', '.join(dict.fromkeys(failed))}. The games are played with the noise "
        "that is there, against bounds for the noise stated. Repair the estimator."
    )


def fit_seeded(
    template: Any,
    X: Any,
    y: Any,
    noise_scale: float,
    seed: int,
    sample_weight: FloatArray | None = None,
) -> Any:
    """Fit a copy of an estimator or pipeline at a noise scale, with a seed for its noise."""
    copy = clone(template)
    model = last_step(copy).set_params(noise_scale=noise_scale)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    with warnings.catch_warnings():
        # Said once already, by the fit without noise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return copy.fit(X, y, **weight_argument(template, sample_weight))


def fitted_releases(
    name: str,
    template: Any,
    data: Callable[[int], tuple[Any, Any]],
    noise_scale: float,
    seeds: IntArray,
    n_parameters: int,
    sample_weight: FloatArray | None = None,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    """Fit an estimator anew for each seed, on data of its number, and read what it releases.

    Shapes: ``seeds`` (n_fits,); ``sample_weight`` (n,); returns (n_fits, n_parameters). A watcher
    sees the fits as they come under `name`.
    """
    known = (template, data, noise_scale, seeds, n_parameters, sample_weight)
    n_workers = effective_n_jobs(n_jobs)
    with Parallel(n_jobs=n_jobs) as pool:

        def fit(block: slice) -> FloatArray:
            chunks = np.array_split(np.arange(block.start, block.stop), n_workers)
            parts = pool(delayed(_release_some)(some, *known) for some in chunks if len(some))
            return np.concatenate(parts)

        blocks = row_blocks(len(seeds), 1, _BLOCK * n_workers)
        return stacked(name, len(seeds), blocks, fit, threads=False)


def _release_some(
    numbers: IntArray,
    template: Any,
    data: Callable[[int], tuple[Any, Any]],
    noise_scale: float,
    seeds: IntArray,
    n_parameters: int,
    sample_weight: FloatArray | None,
) -> FloatArray:
    fits = (
        fit_seeded(template, *data(k), noise_scale, int(seeds[k]), sample_weight)
        for k in numbers.tolist()
    )
    return np.stack([released_parameters(fitted, n_parameters) for fitted in fits])


def released_parameters(fitted: Any, n_parameters: int) -> FloatArray:
    """Parameters, (p,), of what a model hands out: of its ``release()`` where it has one."""
    model = last_step(fitted)
    if hasattr(model, "release"):
        with warnings.catch_warnings():
            # Seeds of an audit are its own, and its messages say what noise protects.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            warnings.simplefilter("ignore", UnprotectedValueWarning)
            model = model.release()
    parameters = model_parameters(model)
    # A model without an intercept may still say that it is zero.
    if len(parameters) == n_parameters + np.size(getattr(model, "intercept_", ())):
        parameters = parameters[:n_parameters]
    if len(parameters) != n_parameters:
        raise AttackNotApplicableError(
            f"A release of {type(last_step(fitted)).__name__} must have the {n_parameters} "
            f"parameters of its fit without noise; got {len(parameters)}. Repair the estimator: "
            "their number must not depend on noise or on one record's value."
        )
    return parameters


def _redrawn(model: Any, seeds: IntArray) -> FloatArray:
    """Parameters (n, p) of fits of our own classes, which differ by their noise alone."""
    releases = []
    for seed in seeds.tolist():
        model._redraw(seed)
        releases.append(model_parameters(model))
    return np.stack(releases)
