"""The noise of a release, and its shape."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from scipy import linalg, stats
from scipy.special import ndtr, ndtri
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning

from skleak.adversary.hypotheses import (
    ENCODING_ERROR,
    PublicModel,
    last_step,
    model_parameters,
    weight_argument,
)
from skleak.audit.noise._checks import (
    COLUMNS,
    LEVEL,
    NO_NOISE,
    NoiseCheck,
    check_draws,
    fits_needed,
    noise_check,
    unit_directions,
    whitened,
)
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning, ReleaseMismatchWarning
from skleak.influence.noise import noise_covariance
from skleak.influence.state import NoiseShape
from skleak.report.document import sentences
from skleak.utils._arguments import OwnSeed
from skleak.utils._blocks import row_blocks, stacked
from skleak.utils._geometry import gained, true_positives
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import Array, FloatArray, IntArray

# Stream of the seeds of the checks at each noise level; games and utility have 0 and 1.
_CHECKS = 2
# Chance that the checks accuse our own estimators, whose releases cost no fits, and that
# `HYPOTHESES` does.
_OWN_LEVEL = 1e-6
# Fits between two looks at the progress, of each process.
_BLOCK = 8
# Name of the check against what attacks suppose.
HYPOTHESES = "hypotheses"


@dataclass(frozen=True)
class Hypotheses:
    """Parameters that attacks suppose for the data as they are. Confidential.

    An audit knows the secrets, and so which of the hypotheses of each attack is the true one: the
    releases are the same point plus noise, whatever is secret and however many values it has.
    """

    points: FloatArray  # without noise under the true value of every target, (n_targets, p)
    # Bounds on their distance from what they stand for, (n_targets,); infinite where nothing is
    # known.
    errors: FloatArray

    @classmethod
    def near(cls, points: FloatArray, errors: FloatArray | float = 0.0) -> "Hypotheses":
        """Points that are known up to round-off, and errors beyond it."""
        sizes = np.maximum(1.0, np.linalg.norm(points, axis=1))
        return cls(points, errors + ENCODING_ERROR * sizes)

    def check(
        self, releases: FloatArray, noise_scale: float, root: FloatArray | None = None
    ) -> NoiseCheck:
        """Compare the mean of releases with every point.

        Shapes: ``releases`` (n_releases, p); ``root`` (p, p); returns: the statistic is the
        largest distance over the one expected of noise. The squared distance, over the variance,
        is chi-squared with p degrees of freedom.
        """
        n, p = releases.shape
        gaps = np.linalg.norm(whitened(releases.mean(axis=0) - self.points, root), axis=1)
        steepest = 1.0 if root is None else 1.0 / np.linalg.svd(root, compute_uv=False)[-1]
        lengths = np.maximum(gaps - steepest * self.errors, 0.0)
        largest = np.sqrt(n) * float(lengths.max()) / noise_scale
        chance = len(lengths) * stats.chi2.sf(largest**2, p)
        return noise_check(HYPOTHESES, largest / np.sqrt(p), chance, _OWN_LEVEL)


def check_distances(distances: FloatArray, n_parameters: int, error: float) -> NoiseCheck:
    """Compare distances of releases, each from its own point, with those of noise.

    Shapes: ``distances`` (n_releases,); returns: the statistic is the root mean square distance
    over the one expected. The sum of squares is chi-squared with p degrees of freedom for every
    release.
    """
    n, p = len(distances), n_parameters
    near = np.maximum(distances - error, 0.0)
    farthest = n * stats.chi2.sf(near.max() ** 2, p)
    all_far = stats.chi2.sf((near**2).sum(), n * p)
    all_near = stats.chi2.cdf(((distances + error) ** 2).sum(), n * p)
    statistic = np.sqrt(np.mean(distances**2) / p)
    chance = 3.0 * min(farthest, all_far, all_near)
    return noise_check(HYPOTHESES, statistic, chance, _OWN_LEVEL)


def level_table(model: Any, checks: Sequence[NoiseCheck]) -> pd.DataFrame:
    """Return the checks of all noise levels, see `AuditReport`.

    Warn where releases of the model are not around what attacks take for the truth.
    """
    table = pd.DataFrame(checks, columns=["noise_scale", "n_releases", *COLUMNS])
    failed = table[(table["check"] == HYPOTHESES) & ~table["passed"].astype(bool)]
    if len(failed):
        facts = {"model": type(model).__name__, "failed": failed.to_dict("records")}
        said = " ".join(sentences("audit_hypotheses", facts))
        warnings.warn(said, ReleaseMismatchWarning, stacklevel=outer_stacklevel())
    return table


@dataclass(kw_only=True, eq=False)
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

    def fitted_releases(
        self,
        name: str,
        noise_scale: float,
        seeds: IntArray,
        n_jobs: int | None,
        *,
        template: Any = None,
        data: Callable[[int], tuple[Any, Any]] | None = None,
    ) -> FloatArray:
        """Fit an estimator anew for each seed, on data of its number, and read what it releases.

        That is the model itself by default, on its own data. A watcher sees the fits as they come
        under `name`. Shapes: ``seeds`` (n_fits,); returns (n_fits, p).
        """
        template = self.model if template is None else template
        # Of all that is known only what fits need goes to workers.
        own, weights, p = (self.X, self.y), self.weights, len(self.noiseless)

        def release(k: int) -> FloatArray:
            X, y = own if data is None else data(k)
            return released_parameters(
                fit_seeded(template, X, y, noise_scale, int(seeds[k]), weights), p
            )

        with Parallel(n_jobs=n_jobs) as pool:

            def fit(block: slice) -> FloatArray:
                return np.stack(pool(delayed(release)(k) for k in range(block.start, block.stop)))

            blocks = row_blocks(len(seeds), 1, _BLOCK * effective_n_jobs(n_jobs))
            return stacked(name, len(seeds), blocks, fit, threads=False)


def colored(noise: FloatArray, draws: FloatArray) -> FloatArray:
    """Noise (..., p) from standard normal draws (..., p); ``noise`` is (p,), or a root (p, p)."""
    return noise * draws if noise.ndim == 1 else draws @ noise.T


def is_ours(estimator: Any) -> bool:
    """Return True for a class of ours itself, whose releases differ by a draw of known noise.

    Classes derived from them may do anything in ``fit``.
    """
    return type(last_step(estimator)).__module__.startswith("skleak.linear_model.")


def measured_noise(
    trained: Trained,
    noise_scale: float,
    seed: np.random.SeedSequence,
    *,
    n_levels: int = 1,
    n_jobs: int | None = None,
) -> tuple[FloatArray, list[NoiseCheck]]:
    """Noise that an estimator really adds to each parameter, and the checks of it.

    Fits with different seeds are compared with the parameters without noise. Where their
    differences are what Gaussian noise of the stated law gives, that law is returned; else they
    measure the noise. The games of an audit are then played with the noise that is there,
    against bounds for the one that is stated. All levels of an audit share the chance of a false
    alarm.

    Returns the standard deviation of the noise on each parameter, (p,), or a root of its covariance
    (p, p). An estimator that is taken at its word has no checks. Releases whose noise is as stated
    are also compared with what attacks suppose.
    """
    template, known, p = trained.model, (trained.X, trained.y), len(trained.noiseless)
    root = None if trained.noise.is_identity else trained.noise.matrix_root
    stated = np.full(p, noise_scale) if root is None else noise_scale * root
    if noise_scale == 0.0 or "noise_scale" not in template.get_params(deep=False):
        return stated, []
    towards, own = trained.directions, is_ours(template)
    towards = None if towards is None else unit_directions(whitened(towards, root))
    level = (_OWN_LEVEL if own else LEVEL) / n_levels
    n_fits = fits_needed(p, 0 if towards is None else len(towards), level)
    first, moments = seed.spawn(2)
    seeds = first.generate_state(n_fits).astype(np.int64)
    if own:  # fits of our own classes differ by their noise alone
        model = fit_seeded(template, *known, noise_scale, int(seeds[0]), trained.weights)
        releases = np.empty((n_fits, p))
        for k, number in enumerate(seeds.tolist()):
            model._redraw(number)
            releases[k] = model_parameters(model)
    else:
        name = f"fits that check the noise at {noise_scale:g}"
        releases = trained.fitted_releases(name, noise_scale, seeds, n_jobs)
    with np.errstate(over="ignore"):
        draws = whitened((releases - trained.noiseless) / noise_scale, root)
    checks = check_draws(draws, np.random.default_rng(moments), towards, level)
    wrong = {check["check"] for check in checks if not check["passed"]}
    if not wrong and trained.hypotheses is not None:
        checks.append(trained.hypotheses.check(releases, noise_scale, root))
    rows = [{"noise_scale": noise_scale, "n_releases": n_fits, **check} for check in checks]
    if not wrong:
        return stated, rows
    dependent = bool(wrong & {"covariance", "directions"})
    unit = _unit_noise(draws, dependent)
    if root is not None:
        unit = root @ unit if dependent else root * unit
    return noise_scale * unit, rows


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
    trained: Trained, noise_scales: Sequence[float], entropy: list[int], n_jobs: int | None = None
) -> tuple[dict[float, FloatArray], pd.DataFrame]:
    """Noise on each parameter at every level, as the estimator really adds it.

    Returns ``noise`` (p,) or (p, p); ``checks``: A row for each noise level and check; see
    `AuditReport`.
    """
    noise, checks, n_levels = {}, [], sum(scale > 0.0 for scale in noise_scales)
    for k, scale in enumerate(noise_scales):
        seed = np.random.SeedSequence(entropy, spawn_key=(k, _CHECKS))
        noise[scale], rows = measured_noise(trained, scale, seed, n_levels=n_levels, n_jobs=n_jobs)
        checks += rows
    table = level_table(trained.model, checks)
    failed = table[(table["check"] != HYPOTHESES) & ~table["passed"].astype(bool)]
    if len(failed):
        stated = failed["noise_scale"].unique().tolist()
        spreads = [noise[scale] for scale in stated]
        spreads = [each if each.ndim == 1 else np.linalg.norm(each, axis=1) for each in spreads]
        ends = [(float(each.min()), float(each.max())) for each in spreads]
        facts = {"model": type(trained.model).__name__, "stated": stated, "measured": ends}
        said = " ".join(sentences("audit_faults", facts | {"failed": failed["check"].unique()}))
        warnings.warn(said, PrivacyLeakWarning, stacklevel=outer_stacklevel())
    return noise, table


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
        model.set_params(random_state=OwnSeed(seed))
    with warnings.catch_warnings():
        # Said once already, by the fit without noise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return copy.fit(X, y, **weight_argument(template, sample_weight))


def handed_out(model: Any) -> Any:
    """Return what a model hands out: its ``release()`` where it has one, else itself."""
    if not hasattr(model, "release"):
        return model
    with warnings.catch_warnings():
        # Seeds of an audit are its own, and its messages say what noise protects.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.release()


def released_parameters(fitted: Any, n_parameters: int) -> FloatArray:
    """Parameters, (p,), of what a model hands out: of its ``release()`` where it has one."""
    model = handed_out(last_step(fitted))
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


# Entries of the roots that are held at once: 32 MB.
_ELEMENTS = 1 << 22


def audited_shape(model: PublicModel, fitted: Any, attribute: Any) -> NoiseShape:
    """Shape of the noise of a model, where an audit can do with it.

    Returns: without a matrix where it follows the data, see `shape_of_fit`.
    """
    noise = NoiseShape.of(model.noise_covariance, len(model_parameters(fitted)))
    if noise.reads_data and attribute is None:
        raise AttackNotApplicableError(
            "Without `attribute`, whole records are reconstructed by an attack that takes the "
            "covariance of the noise as known; that of `noise_covariance="
            f"{noise.name!r}` depends on them. Name an `attribute`, read the leakage of whole "
            "records off `leakage_report()`, or give a covariance from public knowledge."
        )
    if noise.name != "isotropic" and getattr(model.template, "reweighting", None) is not None:
        raise AttackNotApplicableError(
            "`estimator` cannot be fitted: a `noise_covariance` of its own does not go with a "
            "reweighting. Drop one of the two."
        )
    if noise.reads_data and not model.has_closed_form:
        raise AttackNotApplicableError(
            f"The covariance of noise that is {noise.name!r} is known for the private estimators "
            f"of skleak.linear_model; got {type(model.template).__name__}. Pass one of these, or "
            "give the covariance as a matrix."
        )
    return noise


def shape_of_fit(noise: NoiseShape, fitted: Any) -> NoiseShape:
    """Add to a shape of noise that follows the data its matrix for these. Confidential."""
    state = replace(fitted._confidential_state(), noise=noise)
    return replace(noise, matrix=noise_covariance(state))


@dataclass(frozen=True)
class ShapedNoise:
    """Noise whose covariance follows the data, had they been different. Confidential."""

    # Covariance S at unit noise scale under every value of every target, (n_targets, n_values, p,
    # p), and what standard normal draws z are multiplied with first, (p, p): the noise is
    # ``R inner z``, with R the lower triangular root of S. The noise scale times the identity,
    # where the estimator adds the noise that it states.
    shapes: FloatArray
    inner: FloatArray

    @classmethod
    def of(cls, shapes: FloatArray, root: FloatArray, noise: FloatArray) -> "ShapedNoise":
        """From the noise that was measured on the data as they are.

        Shapes: ``shapes`` (n_targets, n_values, p, p), covariances at unit noise scale; ``root``
        (p, p), lower triangular root of the one of the data as they are; ``noise`` (p,) or (p, p).
        """
        whole = np.diag(noise) if noise.ndim == 1 else noise
        return cls(shapes, linalg.solve_triangular(root, whole, lower=True))

    @classmethod
    def of_scales(cls, scales: FloatArray, noise_scale: float, noise: FloatArray) -> "ShapedNoise":
        """From the scale under every value, (n_targets, n_values), and noise of another scale."""
        ratio = np.where(np.isnan(scales), noise_scale, scales) / noise_scale
        unit = np.eye(len(noise))
        return cls.of(ratio[:, :, None, None] ** 2 * unit, unit, noise)

    def color(self, targets: IntArray, secrets: IntArray, draws: FloatArray) -> FloatArray:
        """Noise under the secrets of some targets, from standard normal draws.

        Shapes: ``targets`` (n_targets,); ``secrets`` (..., n_targets); ``draws`` (..., n_targets,
        p), as the noise.
        """
        _, n_values, p, _ = self.shapes.shape
        codes = (targets * n_values + secrets).ravel()
        order = np.argsort(codes, kind="stable")
        inner = draws.reshape(-1, p) @ self.inner.T
        noise, starts = np.empty_like(inner), np.flatnonzero(np.diff(codes[order]))
        for alike in np.split(order, starts + 1):
            root = np.linalg.cholesky(self.shapes[divmod(codes[alike[0]], n_values)])
            noise[alike] = inner[alike] @ root.T
        return noise.reshape(draws.shape)


@dataclass(frozen=True)
class UnequalPairs:
    """Pairs of values of a record, where each has a covariance of its own. Confidential.

    Shapes: (n, M, M), from the first value to the second, at unit noise.
    """

    distances: FloatArray  # of the means, in the noise of the second
    # Of the covariances alone: total variation at most, Kullback-Leibler divergence, and power at
    # the rate of false alarms at most.
    variation: FloatArray
    divergence: FloatArray
    power: FloatArray

    @classmethod
    def of(cls, points: FloatArray, shapes: FloatArray, rate: float) -> "UnequalPairs":
        """Compare all pairs of values.

        Shapes: ``points`` (n, M, p), ``shapes`` (n, M, p, p), covariances at unit noise.
        """
        n, n_values, p = points.shape
        found = np.zeros((4, n, n_values, n_values))
        for rows in row_blocks(n, n_values * p * (n_values + p), _ELEMENTS):
            roots = np.linalg.cholesky(shapes[rows])
            for m in range(n_values):
                gaps = (points[rows] - points[rows, m : m + 1]).swapaxes(1, 2)
                white = np.linalg.solve(roots[:, m], gaps)
                found[0, rows, :, m] = np.linalg.norm(white, axis=1)
                root = roots[:, m : m + 1]
                half = np.linalg.solve(root, shapes[rows, m + 1 :])
                ratio = np.linalg.eigvalsh(np.linalg.solve(root, half.swapaxes(2, 3)))
                same = (shapes[rows, m + 1 :] == shapes[rows, m : m + 1]).all(axis=(2, 3))
                ratio = np.where(same[:, :, None], 1.0, ratio)
                found[1:, rows, m, m + 1 :] = _between_covariances(ratio, rate)
                found[1:, rows, m + 1 :, m] = _between_covariances(1.0 / ratio, rate)
        return cls(*found)

    def any_prior(self, noise_scale: float, rate: float) -> tuple[FloatArray, FloatArray]:
        """Total variation of the furthest two values, and power at a rate, at most, (n,) each.

        From one Gaussian to the other by way of one with the mean of the first and the covariance
        of the second, or by Pinsker's and Bretagnolle's inequalities, whichever is less.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(self.distances > 0.0, self.distances / noise_scale, 0.0)
        divergence = self.divergence + 0.5 * apart**2
        whole = np.sqrt(np.minimum(0.5 * divergence, -np.expm1(-divergence)))
        steps = np.minimum(gained(apart) + self.variation, whole)
        variation = np.minimum(steps, steps.swapaxes(1, 2)).max(axis=(1, 2))
        power = true_positives(apart, np.maximum(self.power, rate))
        return variation, np.minimum(power, rate + variation[:, None, None]).max(axis=(1, 2))


def _between_covariances(ratio: FloatArray, rate: float) -> FloatArray:
    """Total variation, divergence and power between centered Gaussians, at most, (3, ...).

    Shapes: ``ratio`` (..., p), eigenvalues of the second covariance in units of the first. Total
    variation adds up over directions, each exact, and of the rest it is at most that by Hellinger's
    distance; the power after one direction is the rate at which the next one tests.
    """
    ratio = np.take_along_axis(ratio, np.argsort(-np.abs(np.log(ratio)), axis=-1), axis=-1)
    logs = np.log(ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        edge = np.where(ratio == 1.0, 1.0, np.sqrt(ratio * logs / (ratio - 1.0)))
    exact = 2.0 * np.abs(ndtr(edge) - ndtr(edge / np.sqrt(ratio)))
    affinity = 0.5 * logs - np.log(0.5 * (1.0 + ratio))  # twice the logarithm of Bhattacharyya's
    none = np.zeros((*ratio.shape[:-1], 1))
    head = np.concatenate([none, exact.cumsum(axis=-1)], axis=-1)
    rest = np.concatenate([affinity[..., ::-1].cumsum(axis=-1)[..., ::-1], none], axis=-1)
    variation = (head + np.sqrt(-np.expm1(np.minimum(rest, 0.0)))).min(axis=-1)
    divergence = 0.5 * np.maximum(1.0 / ratio - 1.0 + logs, 0.0).sum(axis=-1)
    power = np.full(variation.shape, rate)
    for each in np.moveaxis(ratio, -1, 0):
        # Large draws speak for the wider of two, small ones for the narrower.
        wide = 2.0 * ndtr(ndtri(0.5 * power) / np.sqrt(np.maximum(each, 1.0)))
        near = 2.0 * ndtr(ndtri(0.5 + 0.5 * power) / np.sqrt(np.minimum(each, 1.0))) - 1.0
        power = np.minimum(np.where(each > 1.0, wide, near), 1.0)
    power = np.minimum(power, rate + variation)
    return np.stack([variation, divergence, power])
