"""Which differential-privacy guarantee an output perturbation carries, or why it has none."""

from dataclasses import dataclass

import numpy as np

from skleak.accounting import epsilon_delta, gaussian_dp, output_perturbation_sensitivity
from skleak.influence import FitState

__all__ = [
    "DifferentialPrivacy",
    "guarantee_obstacles",
    "output_perturbation_guarantee",
    "release_sensitivity",
]


@dataclass(frozen=True)
class DifferentialPrivacy:
    """A differential-privacy guarantee under replacement of one record, or the lack of one.

    Parameters
    ----------
    holds : bool
        Whether there is a guarantee.
    reasons : tuple of str
        Why there is none; empty where there is one.
    sensitivity : float
        Largest change of the coefficients (L2) when a record is replaced; nan without guarantee.
    mu : float
        Gaussian differential privacy; nan without guarantee.
    delta : float
        The delta of ``epsilon``.
    epsilon : float
        Exact epsilon at ``delta``; nan without guarantee.

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


def output_perturbation_guarantee(
    state: FitState,
    data_norm: float | None,
    *,
    tol: float = 0.0,
    seeded: bool = False,
    data_dependent_noise: bool = False,
    delta: float = 1e-6,
) -> DifferentialPrivacy:
    """The guarantee of [CMS11]: sensitivity ``2 L R / (n alpha)`` against Gaussian noise.

    Parameters
    ----------
    state : FitState
        State of the fit.
    data_norm : float or None
        The promised bound R on the norm of a record.
    tol : float, default=0.0
        Gradient norm to which the fit was solved: an inexact minimiser moves by ``tol / alpha``
        more on either side.
    seeded : bool, default=False
        Whether the noise came from an integer seed.
    data_dependent_noise : bool, default=False
        Whether the noise scale was calibrated to the training records.
    delta : float, default=1e-6
        Delta at which epsilon is stated.

    Returns
    -------
    DifferentialPrivacy
        Under sample weights, taken as public, the record replaced keeps its weight and the
        largest weight counts.
    """
    reasons = guarantee_obstacles(state, data_norm)
    if state.noise_scale == 0.0:
        reasons.append("no noise was added (`noise_scale=0`)")
    if data_dependent_noise:
        reasons.append("the noise scale was read off the training records")
    if seeded:
        reasons.append("the noise came from an integer seed and can be drawn again")
    if reasons or data_norm is None:
        return DifferentialPrivacy(False, tuple(reasons), delta=delta)
    sensitivity = release_sensitivity(state, data_norm, tol)
    # Against the noise in the direction where there is least of it.
    least = state.noise_scale * np.sqrt(state.noise.smallest_variance)
    mu = float(gaussian_dp(sensitivity, least))
    epsilon = float(epsilon_delta(mu, delta=delta))
    return DifferentialPrivacy(True, (), sensitivity, mu, delta, epsilon)


def guarantee_obstacles(state: FitState, data_norm: float | None) -> list[str]:
    """Why the coefficients have no finite sensitivity; empty where they have one.

    Parameters
    ----------
    state : FitState
        State of the fit.
    data_norm : float or None
        The promised bound on the norm of a record.

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
    if data_norm is None:
        reasons.append("no bound on the norm of a record was promised (`data_norm`)")
    if objective.fit_intercept:
        reasons.append(
            "the intercept is not penalised, so the objective is not strongly convex in it "
            "(`fit_intercept=False` removes it)"
        )
    if objective.alpha == 0.0:
        reasons.append("there is no penalty (`alpha=0`)")
    if not state.converged:
        reasons.append("the solver did not reach the minimiser, whose sensitivity is known")
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


def release_sensitivity(state: FitState, data_norm: float, tol: float = 0.0) -> float:
    """Largest change (L2) of the coefficients when one record is replaced.

    Parameters
    ----------
    state : FitState
        State of a fit without obstacles.
    data_norm : float
        The promised bound on the norm of a record.
    tol : float, default=0.0
        Gradient norm to which the fit was solved.

    Returns
    -------
    float
    """
    objective = state.objective
    # The gradient of one record is r (x) x, r the derivative of its loss in the predictors: its
    # norm is |r| |x|, with one predictor or with one per class. The objective is alpha-strongly
    # convex in all coefficients, so the minimiser moves by the change of the gradient over alpha.
    # A record of weight s is s of N records that change together.
    effective = objective.total / float(objective.sample_weight.max())
    sensitivity = output_perturbation_sensitivity(
        objective.loss.lipschitz, data_norm, effective, objective.alpha
    )
    return float(sensitivity) + 2.0 * tol / objective.alpha
