"""Guarantees of an output perturbation: of differential privacy, and for single records.

With D the distance of the noiseless parameters with and without a record over the noise, telling
the two apart is exactly as hard as telling N(0, 1) from N(D, 1): for the record that there is, and
the other records that there are.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.accounting import discrete_gaussian_epsilon, output_perturbation_sensitivity
from skleak.accounting.discrete import rounded_sensitivity
from skleak.exceptions import NoGuaranteeError
from skleak.influence.leakage import leakage_model
from skleak.influence.removal import distances_without, removal_distances
from skleak.influence.state import FitState, PartialState
from skleak.losses import SquaredLoss
from skleak.mechanisms.grids import Grid
from skleak.mechanisms.moments import MomentsNoise
from skleak.mechanisms.objective import ObjectiveNoise
from skleak.mechanisms.protocol import OutputNoise, SelectionNoise
from skleak.report.document import sentences
from skleak.utils._blocks import is_large
from skleak.utils._geometry import true_positives
from skleak.utils._typing import FloatArray, IntArray

# What is stated where nothing else is asked for.
DELTA, BASELINE = 1e-6, 1e-3
# Work that a report takes on, in pairs of records times parameters: a second or a few.
_MOST_WORK = 2e10
OUTSIDE = "the records are outside memory"
# Distance from which on nothing is private, and squares would overflow.
_LARGEST = 1e100
_NOT_CONVERGED = "the solver did not reach the minimizer, whose sensitivity is known"


@dataclass(frozen=True)
class Promises:
    """Public knowledge of a fit, and how its noise came about. Holds nothing private.

    Parameters
    ----------
    data_norm : float or None, default=None
        The promised bound R on the norm of a record.
    public : frozenset of str, default=frozenset()
        Of "n_samples" and "sample_weight", those declared public.
    declares_classes : bool, default=True
        The classes were passed, or the model has none.
    tol : float, default=0.0
        Gradient norm to which the fit was solved: an inexact minimizer moves by ``tol / alpha``
        more on either side.
    seeded : bool, default=False
        The noise came from a seed or a generator, which can be copied.
    noise_goal : str or None, default=None
        The goal to which the noise was calibrated on the training records, if it was.
    weighted : bool, default=False
        Sample weights were passed, be they equal or not.
    calibrated : bool, default=False
        The noise scale is a number that `skleak.mechanisms.calibrate` read off records.
    target_bound : float or None, default=None
        The promised bound B on the size of a target.
    by_column : bool, default=False
        R is the norm of promised bounds on the columns.
    rows_per_person : int or None, default=None
        The guarantee is about persons, of whose rows so many count, and not about rows.
    alpha : float, default=0.0
        For persons, the penalty relative to as many rows as may count.

    Examples
    --------
    >>> Promises(data_norm=1.0, public=frozenset({"n_samples"})).seeded
    False
    """

    data_norm: float | None = None
    public: frozenset[str] = frozenset()
    declares_classes: bool = True
    tol: float = 0.0
    seeded: bool = False
    noise_goal: str | None = None
    weighted: bool = False
    calibrated: bool = False
    target_bound: float | None = None
    by_column: bool = False
    rows_per_person: int | None = None
    alpha: float = 0.0

    # Share by which a row may pass the promised norm: sums of squares are rounded.
    norm_rounding: ClassVar[float] = 1e-12

    @property
    def persons(self) -> bool:
        """True if the guarantee is about persons."""
        return self.rows_per_person is not None


Noise = OutputNoise | ObjectiveNoise | MomentsNoise | SelectionNoise


@dataclass(frozen=True)
class DifferentialPrivacy:
    """A differential-privacy guarantee under replacement of one row, or the lack of one.

    Parameters
    ----------
    holds : bool
        True if there is a guarantee.
    reasons : tuple of str
        Why there is none; empty where there is one.
    sensitivity : float
        Largest change of the coefficients (L2) when a row is replaced, their rounding to the grid
        of the noise counted; nan without guarantee.
    mu : float
        ``sensitivity`` over the noise scale. Gaussian noise in exact arithmetic would be
        mu-Gaussian differentially private; noise on a grid is zero-concentrated with ``rho``, and
        (epsilon, delta)-differentially private as that is but for rounding. nan without guarantee.
    delta : float
        The delta of ``epsilon``.
    epsilon : float
        A bound on epsilon at ``delta``; nan without guarantee.
    composed_mu : float
        The mu of Gaussian noise that is no more private, which a ledger composes; nan without
        guarantee.
    rho : float
        Zero-concentrated differential privacy, exact for isotropic noise (Canonne, Kamath,
        Steinke, NeurIPS 2020); nan without guarantee.
    exact : bool
        True if the guarantee holds for the released numbers to the last bit; False where the noise
        has a shape, whose arithmetic is taken as exact.
    mechanism : {"output perturbation", "objective perturbation", "sufficient statistics", ...}
        Where the noise is added; or "selection among trials". In the objective ``mu`` is that of
        its exact minimizer. ``sensitivity`` and ``rho`` are those of output perturbation alone.
    assumptions : tuple of str
        What a guarantee of noise in the objective or on sufficient statistics rests on.
    noise : OutputNoise, ObjectiveNoise, MomentsNoise, SelectionNoise or None
        Public numbers of the noise; None without guarantee.

    Examples
    --------
    >>> DifferentialPrivacy(False, ("the loss has no bounded derivative",)).holds
    False
    """

    holds: bool
    reasons: tuple[str, ...] = ()
    sensitivity: float = np.nan
    mu: float = np.nan
    delta: float = 1e-6
    epsilon: float = np.nan
    rho: float = np.nan
    composed_mu: float = np.nan
    exact: bool = False
    mechanism: str = "output perturbation"
    assumptions: tuple[str, ...] = ()
    noise: Noise | None = field(default=None, repr=False)

    def profile(self, epsilon: npt.ArrayLike) -> Any:
        """Bound delta at any epsilon.

        Parameters
        ----------
        epsilon : float or array-like, at least 0
            Bound on the log-likelihood ratio, in nats; finite.

        Returns
        -------
        float or ndarray
            Upper bound on delta.

        Raises
        ------
        NoGuaranteeError
            Where there is no guarantee.
        """
        if self.noise is None:
            raise NoGuaranteeError(
                "Without a guarantee of differential privacy there is no privacy profile: "
                f"{'; '.join(self.reasons)}."
            )
        return self.noise.profile(epsilon)

    @property
    def stated(self) -> dict[str, Any]:
        """Return what a release with noise in the objective may state of it."""
        names = ("mechanism", "epsilon", "delta", "mu", "composed_mu", "exact")
        return {n: getattr(self, n) for n in names} | {"assumptions": list(self.assumptions)}

    @property
    def fails_on_records(self) -> bool:
        """True if all was promised that a guarantee needs, and these records lack it all the same.

        Then that there is none is a function of the records, and must not be published.
        """
        return self.reasons == (_NOT_CONVERGED,)


def output_perturbation_guarantee(
    state: FitState, promises: Promises, *, delta: float = 1e-6
) -> DifferentialPrivacy:
    """Bound the privacy loss of a release: sensitivity ``2 L R / (n alpha)`` of [CMS11] over noise.

    Of the squared loss L is ``B (R / (2 sqrt(alpha)) + 1)``, B the bound on a target, and
    sensitivity ``B / sqrt(alpha)`` at most.

    Parameters
    ----------
    state : FitState
        State of the fit.
    promises : Promises
        What is public, and where the noise came from.
    delta : float, default=1e-6
        Delta at which epsilon is stated.

    Returns
    -------
    DifferentialPrivacy
        About rows as the estimator received them: replacing one of them by any other that keeps
        the promises. Under sample weights the row replaced keeps its weight, and the largest
        weight counts.
    """
    reasons = guarantee_obstacles(state, promises)
    reasons += _said("release", promises=promises, noise=state.noise_scale)
    if reasons or promises.data_norm is None:
        return DifferentialPrivacy(False, tuple(reasons), delta=delta)
    n_parameters, step = state.factor.coefficients.size, Grid.for_noise(state.noise_scale).step
    sensitivity = rounded_sensitivity(release_sensitivity(state, promises), n_parameters, step)
    # Against the noise in the direction where there is least of it.
    least = state.noise_scale * np.sqrt(state.noise.smallest_variance)
    # It counts the rounding itself.
    unrounded = float(release_sensitivity(state, promises) / least)
    whom = promises.rows_per_person
    noise = OutputNoise(state.noise_scale, unrounded, n_parameters, step / least, whom)
    return DifferentialPrivacy(
        True,
        (),
        float(sensitivity),
        float(sensitivity / least),
        delta,
        noise.epsilon(delta),
        noise.rho,
        noise.composed_mu,
        state.noise.is_identity,
        noise=noise,
    )


def noise_guarantee(
    noise: ObjectiveNoise | MomentsNoise | SelectionNoise,
    promises: Promises,
    *,
    delta: float = DELTA,
) -> DifferentialPrivacy:
    """State the privacy of noise in an objective, on moments and all that follows, or of a search.

    Parameters
    ----------
    noise : ObjectiveNoise, MomentsNoise or SelectionNoise
        Public numbers of the release.
    promises : Promises
        What is public, and where the noise came from.
    delta : float, default=1e-6
        Delta at which epsilon is stated.

    Returns
    -------
    DifferentialPrivacy
        About rows as the estimator received them, as that of output perturbation is.
    """
    title = noise.mechanism.title
    reasons = undeclared(promises, weighted=promises.weighted)
    reasons += _said("release", promises=promises, noise=noise.mu)
    if reasons:
        return DifferentialPrivacy(False, tuple(reasons), delta=delta, mechanism=title)
    return DifferentialPrivacy(
        True,
        mu=noise.mu,
        delta=delta,
        epsilon=noise.epsilon(delta),
        composed_mu=noise.composed_mu,
        exact=True,
        mechanism=title,
        assumptions=tuple(_said(noise.mechanism.name, promises=promises, noise=noise)),
        noise=noise,
    )


def guarantee_obstacles(state: FitState, promises: Promises) -> list[str]:
    """List why the coefficients have no finite, public sensitivity; empty where they have one.

    Parameters
    ----------
    state : FitState
        State of the fit.
    promises : Promises
        What is public.

    Returns
    -------
    list of str
    """
    objective = state.objective
    smallest, largest = objective.weight_range
    whose = None if promises.persons else state.persons
    before = _said("loss", promises=promises, objective=objective, persons=whose)
    # That weights are equal is a function of them: a guarantee must not tell it.
    uneven = smallest != largest and not promises.persons  # some of whose rows do not count
    declared = undeclared(promises, weighted=promises.weighted or uneven)
    after = [] if state.converged else [_NOT_CONVERGED]
    return [*before, *declared, *after, *_said("fit", state=state)]


def undeclared(promises: Promises, *, weighted: bool = False) -> list[str]:
    """List what any guarantee takes for public knowledge, and nobody declared to be.

    Parameters
    ----------
    promises : Promises
        What is public.
    weighted : bool, default=False
        The records have sample weights.

    Returns
    -------
    list of str
        Empty where all was declared.
    """
    return _said("declared", promises=promises, weighted=weighted)


def _said(part: str, **facts: Any) -> list[str]:
    """Say which reasons of a part there are against a guarantee."""
    return list(sentences("guarantee", {"part": part, **facts}))


def release_sensitivity(state: FitState, promises: Promises) -> float:
    """Bound the change (L2) of the coefficients when one record is replaced.

    Parameters
    ----------
    state : FitState
        State of a fit without obstacles.
    promises : Promises
        Holds the promised bound on the norm of a record, and the tolerance of the solver.

    Returns
    -------
    float
        Before the coefficients are rounded to the grid of the noise.
    """
    objective = state.objective
    assert promises.data_norm is not None
    # The gradient of one record is r (x) x, r the derivative of its loss in the predictors: its
    # norm is |r| |x|, with one predictor or with one per class. The objective is alpha-strongly
    # convex in all coefficients, so the minimizer moves by the change of the gradient over alpha.
    # A record of weight s is s of N records that change together.
    effective, alpha, rows = objective.total / objective.weight_range[1], objective.alpha, 1
    if promises.rows_per_person is not None and state.persons is not None:
        # Of persons only their number is public: as many rows as there may be, at the same ridge.
        rows, alpha = promises.rows_per_person, promises.alpha
        effective = float(len(state.persons) * rows)
    longest = promises.data_norm * (1.0 + promises.norm_rounding)
    slope, farthest = objective.loss.lipschitz, np.inf
    if promises.target_bound is not None and isinstance(objective.loss, SquaredLoss):
        # No minimizer of least squares is longer than half of the first, nor a residual at it
        # larger than the second.
        farthest = promises.target_bound / np.sqrt(alpha) * (1.0 + 1e-12)
        slope = 0.5 * longest * farthest + promises.target_bound
    sensitivity = rows * output_perturbation_sensitivity(slope, longest, effective, alpha)
    return float(min(sensitivity, farthest)) + 2.0 * promises.tol / alpha


def individual_obstacle(state: FitState, promises: Promises) -> str:
    """Say why the privacy of one record has no exact answer; empty where it has one.

    Parameters
    ----------
    state : FitState
        State of the fit.
    promises : Promises
        Where its noise came from.

    Returns
    -------
    str
    """
    if not state.converged:
        return "the solver did not converge"
    if promises.noise_goal is not None:
        return "the scale of the noise is a function of the records"
    if state.balanced is not None:
        return "a reweighting makes the weights of all records change with each"
    if state.noise_elsewhere is not None:
        return ""  # it has a bound
    return leakage_model(state).has_equal_noise.missing


def individual_privacy(
    distances: FloatArray, state: FitState, *, delta: float = DELTA, baseline: float = BASELINE
) -> pd.DataFrame:
    """State distances from the fit without a record as privacy of that record.

    Parameters
    ----------
    distances : ndarray of shape (n,)
        Distances of noiseless parameters, over the noise at scale 1.
    state : FitState
        State of the fit.
    delta : float in [0, 1], default=1e-6
        Delta at which epsilon is stated.
    baseline : float in (0, 1), default=1e-3
        How often an attack is right on the model without the record.

    Returns
    -------
    DataFrame
        One row per distance: ``mu``, ``epsilon``, ``true_positives_at_1pct``,
        ``success_at_baseline`` and ``once_in``.
    """
    still = distances == 0.0
    mu = np.where(still, 0.0, np.where(np.isnan(distances), np.nan, np.inf))
    if state.noise_scale > 0.0:
        with np.errstate(over="ignore"):
            mu = distances / state.noise_scale
    success = true_positives(mu, baseline)
    return pd.DataFrame(
        {
            "mu": mu,
            "epsilon": _epsilon(mu, state, delta),
            "true_positives_at_1pct": true_positives(mu),
            "success_at_baseline": np.where(still, baseline, success),
            "once_in": np.where(still, 1.0 / baseline, 1.0 / success),
        }
    )


def reported_privacy(
    state: FitState, promises: Promises, rows: IntArray
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Privacy of some training records for a report, and how it is to be read.

    Shapes: ``rows`` (n,), -1 for a record that was not trained on. ``missing`` says why all are
    NaN.
    """
    missing, outside = individual_obstacle(state, promises), is_large(state.objective.X)
    if isinstance(state, PartialState) or (outside and np.any(rows < 0)):
        missing = missing or OUTSIDE
    elif not outside and takes_long(state):
        missing = missing or "so many records take long: ask for `individual_privacy_`"
    known = np.full(len(rows), np.nan)
    if not missing and outside:
        known = distances_without(state, rows)
    elif not missing:
        known = np.where(rows < 0, np.nan, state.once(removal_distances)[rows])
    facts = {"delta": DELTA, "baseline": BASELINE, "missing": missing}
    return individual_privacy(known, state), facts


def takes_long(state: FitState) -> bool:
    """Return True if a report does not take on the fits without each training record."""
    n, p = state.objective.n_records, len(state.factor.coefficients)
    return not state.objective.loss.quadratic and float(n) * n * p > _MOST_WORK


def _epsilon(mu: FloatArray, state: FitState, delta: float) -> FloatArray:
    """Epsilon at some delta, the rounding to the grid of the noise counted, (n,)."""
    epsilon = np.where(mu > 0.0, np.inf, mu)
    known = np.flatnonzero((mu > 0.0) & (mu < _LARGEST))
    if len(known):
        least = state.noise_scale * np.sqrt(state.noise.smallest_variance)
        step = min(Grid.for_noise(state.noise_scale).step / least, 1.0)
        sizes = {"n_parameters": state.factor.coefficients.size, "relative_step": step}
        epsilon[known] = discrete_gaussian_epsilon(mu[known], delta, **sizes)
    return epsilon
