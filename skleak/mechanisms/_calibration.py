"""Noise targets that stand in for a number in ``noise_scale``.

A target is resolved inside ``fit``, when the minimiser and its derivatives are known and no noise
has been drawn. Two of them, `MaxLeakage` and `MaxAdvantage`, read the noise off the data: the
noise scale is then itself a function of the records, which no guarantee here accounts for.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from scipy.optimize import brentq

from skleak.accounting import mu_from_epsilon_delta
from skleak.channels import GaussianChannel
from skleak.utils._typing import Array, FloatArray

__all__ = [
    "EpsilonDelta",
    "FittedProblem",
    "GaussianDP",
    "MaxAdvantage",
    "MaxLeakage",
    "NoiseTarget",
]

# More distinct values than this are no longer a categorical attribute.
_MAX_VALUES = 64
# Targets are met from the private side, by this relative margin in the noise.
_MARGIN = 1e-9


class FittedProblem(Protocol):
    """What a noise target may ask of a fit before noise is drawn."""

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which each participating record's loss is eta, (n,); may be infinite."""

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, (n_values, k), and how often each occurs."""

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Encodings for every record, (n, n_values, p), where the noise is isotropic."""

    def sensitivity(self) -> float:
        """Largest change by a record, over the noise at scale 1; ValueError if there is none."""


@dataclass(frozen=True)
class NoiseTarget(ABC):
    """A goal for which `fit` finds the smallest sufficient noise scale.

    Attributes
    ----------
    data_dependent : bool
        Whether the noise scale is read off the training records.
    """

    data_dependent: ClassVar[bool] = False

    @abstractmethod
    def resolve(self, problem: FittedProblem) -> float:
        """Smallest noise scale that reaches the target."""


@dataclass(frozen=True)
class MaxLeakage(NoiseTarget):
    """No record's Fisher information loss exceeds ``eta``.

    The noise scale depends on the data.

    Parameters
    ----------
    eta : float, positive
        Largest Fisher information loss, in 1 / (unit of the columns).
    features : str, int, slice, mask or list, default=None
        Block of columns it is measured on; by default the whole record.
    quantile : float in (0, 1], default=1.0
        Share of the records that must stay below ``eta``; 1 for all.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(MaxLeakage(eta=0.5)).fit(X, y)
    >>> round(float(model.fisher_information_loss_.max()), 6)
    0.5
    """

    data_dependent: ClassVar[bool] = True

    eta: float
    features: Any = None
    quantile: float = 1.0

    def resolve(self, problem: FittedProblem) -> float:
        """Smallest noise scale that reaches the target.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For a loss that is not positive, a quantile outside (0, 1], or where no noise scale
            reaches it, as the shape of the noise alone tells too much.
        """
        _check_positive("MaxLeakage.eta", self.eta)
        if not 0.0 < self.quantile <= 1.0:
            raise ValueError(
                f"`MaxLeakage.quantile` must lie in (0, 1]; got {self.quantile}. Pass 1.0 to "
                "protect every record."
            )
        scales = problem.sufficient_noise(self.eta, self.features)
        scale = float(np.quantile(scales, self.quantile, method="higher"))
        if np.isinf(scale):
            raise ValueError(
                f"No noise scale reaches `MaxLeakage.eta={self.eta:g}`: the covariance of the "
                "noise depends on the records, and tells more than that by itself. Raise `eta`, or "
                "use isotropic noise."
            )
        return scale


@dataclass(frozen=True)
class MaxAdvantage(NoiseTarget):
    """No attacker gains more than ``advantage`` on an attribute of any record.

    For every record the Bayes-optimal attacker, who knows everything but the attribute and has
    the given prior, guesses it from the release with an advantage (success beyond the best blind
    guess, over what is left to gain, [FANO23] eq. 1) of at most this. The noise scale depends on
    the data.

    Parameters
    ----------
    advantage : float in (0, 1)
        Largest advantage.
    attribute : str, int, or list
        Categorical column of the data the estimator sees, or the block of its one-hot columns.
    prior : "marginal", "uniform" or array-like of shape (n_values,), default="marginal"
        What the attacker knows beforehand: the frequencies in the training data, nothing, or a
        probability of each distinct value in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> X[:, 0] = X[:, 0] > 0
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=200)
    >>> model = PrivateLinearRegression(MaxAdvantage(0.1, attribute=0)).fit(X, y)
    >>> bool(model.noise_scale_ > 0)
    True
    """

    data_dependent: ClassVar[bool] = True

    advantage: float
    attribute: Any
    prior: "Literal['marginal', 'uniform'] | Any" = "marginal"

    def resolve(self, problem: FittedProblem) -> float:
        """Smallest noise scale that reaches the target.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For an advantage outside (0, 1), an attribute with fewer than two or too many
            values, or a prior that does not fit them.
        """
        if not 0.0 < self.advantage < 1.0:
            raise ValueError(
                f"`MaxAdvantage.advantage` must lie strictly between 0 and 1; got {self.advantage}."
            )
        values, counts = problem.attribute_values(self.attribute)
        if not 2 <= len(values) <= _MAX_VALUES:
            raise ValueError(
                f"`MaxAdvantage.attribute` must be categorical, with 2 to {_MAX_VALUES} distinct "
                f"values; {self.attribute!r} has {len(values)}. For a numeric attribute use "
                "`MaxLeakage(eta, features=...)`."
            )
        prior = self._prior(counts)
        encodings = problem.encodings(self.attribute, values)
        return _noise_for_advantage(encodings, prior, self.advantage)

    def _prior(self, counts: FloatArray) -> FloatArray:
        if isinstance(self.prior, str):
            if self.prior == "marginal":
                return counts / counts.sum()
            if self.prior == "uniform":
                return np.full(len(counts), 1.0 / len(counts))
            raise ValueError(
                "`MaxAdvantage.prior` must be 'marginal', 'uniform' or one probability per "
                f"value; got {self.prior!r}."
            )
        prior = np.asarray(self.prior, dtype=float)
        if prior.shape != counts.shape or np.any(prior < 0.0) or abs(prior.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"`MaxAdvantage.prior` must hold {len(counts)} probabilities that sum to 1, one "
                f"per distinct value; got {self.prior!r}."
            )
        return prior


@dataclass(frozen=True)
class GaussianDP(NoiseTarget):
    """The release is mu-Gaussian differentially private under replacement of one record.

    Needs a bounded derivative of the loss (logistic), ``data_norm``, ``alpha > 0`` and
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
    ...     GaussianDP(1.0), alpha=0.5, data_norm=1.0, fit_intercept=False
    ... ).fit(X, [0, 1, 0, 1])
    >>> round(model.noise_scale_, 6)
    1.0
    """

    mu: float

    def resolve(self, problem: FittedProblem) -> float:
        """Smallest noise scale that reaches the target.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For a parameter that is not positive, or where no guarantee holds.
        """
        _check_positive("GaussianDP.mu", self.mu)
        return problem.sensitivity() / self.mu


@dataclass(frozen=True)
class EpsilonDelta(NoiseTarget):
    """The release is (epsilon, delta)-differentially private under replacement of one record.

    Exact for Gaussian noise; needs what `GaussianDP` needs.

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

    def resolve(self, problem: FittedProblem) -> float:
        """Smallest noise scale that reaches the target.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For parameters out of range, or where no guarantee holds.
        """
        _check_positive("EpsilonDelta.epsilon", self.epsilon)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(
                f"`EpsilonDelta.delta` must lie strictly between 0 and 1; got {self.delta}."
            )
        return problem.sensitivity() / float(mu_from_epsilon_delta(self.epsilon, self.delta))


def _check_positive(name: str, value: float) -> None:
    if not (np.isreal(value) and 0.0 < value < np.inf):
        raise ValueError(f"`{name}` must be positive and finite; got {value!r}.")


def _advantages(encodings: FloatArray, prior: FloatArray, noise_scale: float) -> FloatArray:
    """Largest advantage of each record's channel that its numerical error allows."""
    channel = GaussianChannel(encodings, noise_scale)
    success, error = channel.bayes_success(prior, return_standard_error=True)
    best = prior.max()
    return (np.asarray(success) + 4.0 * np.asarray(error) - best) / (1.0 - best)


def _noise_for_advantage(encodings: FloatArray, prior: FloatArray, target: float) -> float:
    """Smallest noise at which no record's Bayes advantage exceeds the target.

    Advantage falls with noise. Solve for the record that is worst at the current noise; the noise
    only ever grows, and the loop ends when nobody exceeds the target.
    """
    centred = encodings - encodings.mean(axis=1, keepdims=True)
    reach = np.sqrt(np.einsum("nmp,nmp->nm", centred, centred).max(axis=1))
    if prior.max() == 1.0 or reach.max() == 0.0:
        return 0.0
    worst = int(reach.argmax())
    noise = 0.0
    for _ in range(len(encodings) + 1):
        one, scale = encodings[worst : worst + 1], np.log(reach[worst])

        def excess(log_noise: float, one: FloatArray = one) -> float:
            return float(_advantages(one, prior, np.exp(log_noise))[0]) - target

        low, high = scale - 5.0, scale + 5.0
        while excess(high) > 0.0:
            high += 5.0
        while excess(low) < 0.0:
            low -= 5.0
        noise = max(noise, np.exp(brentq(excess, low, high, xtol=1e-12)) * (1.0 + _MARGIN))
        advantages = _advantages(encodings, prior, noise)
        worst = int(advantages.argmax())
        if advantages[worst] <= target:
            return float(noise)
    return float(noise)
