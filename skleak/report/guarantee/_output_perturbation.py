"""Which differential-privacy guarantee an output perturbation carries, or why it has none."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skleak.accounting import (
    discrete_gaussian_cover,
    discrete_gaussian_epsilon,
    discrete_gaussian_rho,
    gaussian_dp,
    output_perturbation_sensitivity,
    rounded_sensitivity,
)
from skleak.influence.state import FitState
from skleak.mechanisms import Grid

_NOT_CONVERGED = "the solver did not reach the minimiser, whose sensitivity is known"


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
        Gradient norm to which the fit was solved: an inexact minimiser moves by ``tol / alpha``
        more on either side.
    seeded : bool, default=False
        The noise came from a seed or a generator, which can be copied.
    noise_goal : str or None, default=None
        The goal to which the noise was calibrated on the training records, if it was.
    weighted : bool, default=False
        Sample weights were passed, be they equal or not.
    calibrated : bool, default=False
        The noise scale is a number that `skleak.mechanisms.calibrate` read off records.

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

    # Share by which a row may pass the promised norm: sums of squares are rounded.
    norm_rounding: ClassVar[float] = 1e-12


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
    if state.noise_scale == 0.0:
        reasons.append("no noise was added (`noise_scale=0`)")
    if promises.noise_goal is not None or promises.calibrated:
        reasons.append("the noise scale was read off the training records")
    if promises.seeded:
        reasons.append(
            "the noise came from a seed or a generator (`random_state`), and can be drawn again"
        )
    if reasons or promises.data_norm is None:
        return DifferentialPrivacy(False, tuple(reasons), delta=delta)
    n_parameters, step = state.factor.coefficients.size, Grid.for_noise(state.noise_scale).step
    sensitivity = rounded_sensitivity(release_sensitivity(state, promises), n_parameters, step)
    # Against the noise in the direction where there is least of it.
    least = state.noise_scale * np.sqrt(state.noise.smallest_variance)
    mu = float(gaussian_dp(sensitivity, least))
    sizes = {"n_parameters": n_parameters, "relative_step": step / least}
    # Both functions count the rounding themselves.
    unrounded = float(gaussian_dp(release_sensitivity(state, promises), least))
    return DifferentialPrivacy(
        True,
        (),
        float(sensitivity),
        mu,
        delta,
        float(discrete_gaussian_epsilon(unrounded, delta, **sizes)),
        float(discrete_gaussian_rho(unrounded, **sizes)),
        float(discrete_gaussian_cover(unrounded, **sizes)),
        state.noise.is_identity,
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
    objective, reasons = state.objective, []
    if not np.isfinite(objective.loss.lipschitz):
        reasons.append(
            f"the {objective.loss.name} loss has no bounded derivative, so one record can move the "
            "coefficients without limit"
        )
    if promises.data_norm is None:
        reasons.append("no bound on the norm of a record was promised (`data_norm`)")
    if objective.fit_intercept:
        reasons.append(
            "the intercept is not penalised, so the objective is not strongly convex in it "
            "(`fit_intercept=False` removes it)"
        )
    if objective.alpha == 0.0:
        reasons.append("there is no penalty (`alpha=0`)")
    smallest, largest = objective.weight_range
    # That weights are equal is a function of them: a guarantee must not tell it.
    reasons += undeclared(promises, weighted=promises.weighted or smallest != largest)
    if not state.converged:
        reasons.append(_NOT_CONVERGED)
    if state.noise.reads_data:
        reasons.append(
            f"the covariance of the noise ({state.noise.name!r}) is a function of the training "
            "records"
        )
    elif not state.noise.smallest_variance > 0.0:
        reasons.append("the covariance of the noise is singular to working precision")
    if state.balanced is not None:
        reasons.append(
            "the reweighting makes every record's weight a function of the others, which the "
            "sensitivity does not cover"
        )
    return reasons


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
    reasons = []
    if not promises.declares_classes:
        reasons.append(
            "the classes were read off the labels: a data set that differs in one label may have "
            "others (pass the public list of them as `classes`)"
        )
    if "n_samples" not in promises.public:
        reasons.append(
            "the number of records is not said to be public, and the noise needed reveals it "
            "(`public=('n_samples',)` says so)"
        )
    if "sample_weight" not in promises.public and weighted:
        reasons.append(
            "the sample weights are not said to be public (`public=('n_samples', "
            "'sample_weight')` says so)"
        )
    return reasons


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
    # convex in all coefficients, so the minimiser moves by the change of the gradient over alpha.
    # A record of weight s is s of N records that change together.
    effective = objective.total / objective.weight_range[1]
    longest = promises.data_norm * (1.0 + promises.norm_rounding)
    sensitivity = output_perturbation_sensitivity(
        objective.loss.lipschitz, longest, effective, objective.alpha
    )
    return float(sensitivity) + 2.0 * promises.tol / objective.alpha
