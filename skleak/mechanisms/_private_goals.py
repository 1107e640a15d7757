"""Noise goals that state a guarantee of differential privacy."""

from dataclasses import dataclass

import numpy as np

from skleak.accounting import discrete_gaussian_mu
from skleak.mechanisms._goals import PublicNoiseGoal, PublicProblem, check_positive


@dataclass
class GaussianDP(PublicNoiseGoal):
    """No record moves the release by more than ``mu`` standard deviations of the noise.

    With Gaussian noise in exact arithmetic that is mu-Gaussian differential privacy under
    replacement of one row. With the noise of a release, on a grid, it is ``mu^2 / 2``
    zero-concentrated differential privacy, exactly. Needs a bounded derivative of the loss
    (logistic), ``data_norm``, ``classes``, ``public=("n_samples",)``, ``alpha > 0`` and
    ``fit_intercept=False``.

    Parameters
    ----------
    mu : float, positive
        Privacy parameter; smaller is more private.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLogisticRegression
    >>> X = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
    >>> model = PrivateLogisticRegression(
    ...     GaussianDP(1.0),
    ...     alpha=0.5,
    ...     data_norm=1.0,
    ...     fit_intercept=False,
    ...     classes=[0, 1],
    ...     public=("n_samples",),
    ... ).fit(X, [0, 1, 0, 1])
    >>> round(model.noise_scale_, 6)
    1.0
    """

    mu: float

    def resolve(self, problem: PublicProblem) -> float:
        """Smallest noise scale that reaches the goal.

        Parameters
        ----------
        problem : PublicProblem
            Public knowledge of the fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For a parameter that is not positive, or where no guarantee holds.
        """
        check_positive("GaussianDP.mu", self.mu)
        sensitivity = problem.sensitivity()
        # Less what rounding to the grid of the noise adds to the distance.
        mu = self.mu - np.sqrt(problem.n_parameters) * problem.relative_step
        _check_reachable("GaussianDP.mu", self.mu, mu)
        return sensitivity / mu


@dataclass
class EpsilonDelta(PublicNoiseGoal):
    """The release is (epsilon, delta)-differentially private under replacement of one row.

    The rounding to the grid of the noise is counted. Needs what `GaussianDP` needs.

    Parameters
    ----------
    epsilon : float, positive
        Privacy parameter.
    delta : float in (0, 1)
        Failure probability, far below 1 / n_samples.

    Examples
    --------
    >>> EpsilonDelta(1.0, 1e-6)
    EpsilonDelta(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def resolve(self, problem: PublicProblem) -> float:
        """Smallest noise scale that reaches the goal.

        Parameters
        ----------
        problem : PublicProblem
            Public knowledge of the fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For parameters out of range, or where no guarantee holds.
        """
        check_positive("EpsilonDelta.epsilon", self.epsilon)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(
                f"`EpsilonDelta.delta` must lie strictly between 0 and 1; got {self.delta}."
            )
        sensitivity = problem.sensitivity()
        sizes = {"n_parameters": problem.n_parameters, "relative_step": problem.relative_step}
        mu = float(discrete_gaussian_mu(self.epsilon, self.delta, **sizes))
        _check_reachable("EpsilonDelta.epsilon", self.epsilon, mu)
        return sensitivity / mu


def _check_reachable(name: str, value: float, mu: float) -> None:
    if not mu > 0.0:
        raise ValueError(
            f"`{name}={value:g}` is out of reach: rounding the parameters to the grid of the noise "
            "alone costs more. Pass a larger value."
        )
