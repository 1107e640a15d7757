"""Scales of noise that keep a limit.

The public ladder on which a noise scale that was read off the records is published.

A noise scale in 16 digits is a release by itself. Rounded up to a power of the square root of two,
it is the same number for almost all tables.
"""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skleak.channels import GaussianChannel
from skleak.exceptions import PrivacyLeakWarning
from skleak.mechanisms.goals import (
    MOST_VALUES,
    FittedProblem,
    MeasuredFit,
    NoiseGoal,
    PublicNoiseGoal,
    Secret,
    resolve_goal,
)
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._typing import FloatArray

# A scale above a rung by this little, relative to it, is rounding noise of that rung.
RUNG_TOLERANCE = 1e-12


def ladder_rung(noise_scale: float) -> float:
    """Round a noise scale up to the next power of the square root of two.

    Parameters
    ----------
    noise_scale : float, non-negative
        The noise scale that is needed. One within a relative 1e-12 above a rung is taken to be
        that rung.

    Returns
    -------
    float
        ``2**(k / 2)`` for the smallest sufficient integer k; 0 for 0.

    Raises
    ------
    ValueError
        For a noise scale that is negative, infinite or no number.

    Examples
    --------
    >>> ladder_rung(0.3), ladder_rung(0.5), ladder_rung(1.1)
    (0.3535533905932738, 0.5, 1.4142135623730951)
    """
    if not (math.isfinite(noise_scale) and noise_scale >= 0.0):
        raise ValueError(
            f"A noise scale must be finite and not negative; got {noise_scale!r}. Pass a number "
            "that a goal found."
        )
    _, exponent = math.frexp(noise_scale)  # in [2**(exponent - 1), 2**exponent)
    # Each as the double nearest to it.
    halves = [math.ldexp(mantissa, exponent - 1) for mantissa in (1.0, math.sqrt(2.0), 2.0)]
    rungs = [rung for rung in halves if rung * (1.0 + RUNG_TOLERANCE) >= noise_scale]
    return 0.0 if noise_scale == 0.0 else rungs[0]


def calibrate(
    pipeline: Any, goal: NoiseGoal, X: Any, y: Any, *, sample_weight: Any = None
) -> float:
    """Find the noise scale at which a pipeline meets a goal that names raw columns.

    Inside ``fit`` a private estimator sees columns as the transformers before it have made them,
    and a goal can name these only. Here it names the columns of the raw records. A number is
    followed through the fitted transformers to all encoded columns that it moves, and a column of
    few values (a category, a 0/1 column) is measured by the exact models under each of them, as
    `skleak.inspection.attribute_leakage` does, with the transformers held fixed.

    Parameters
    ----------
    pipeline : Pipeline or private estimator
        Ends in a private estimator of this library, whose own noise plays no part. It is not
        modified: if it is not fitted, a copy of it is.
    goal : NoiseGoal
        ``features`` of `MaxLeakage` and ``attribute`` of `MaxAdvantage` are raw columns, by name or
        by position, or "(target)"; a list is one block, of numbers or of columns of few values.
        For values `MaxLeakage` limits the largest distance between two of them over the noise; for
        a block of numbers the loss in their own units. `GaussianDP` and `EpsilonDelta` name none.
    X : DataFrame or array-like of shape (n, n_columns)
        Raw training records.
    y : array-like of shape (n,)
        Their targets.
    sample_weight : array-like of shape (n,), default=None
        Weights of the fit.

    Returns
    -------
    float
        The noise scale, to be set as ``noise_scale`` of the estimator. For a goal that reads the
        records it is a rung of the public ladder of powers of the square root of two, and a
        `CalibratedNoise`.

    Raises
    ------
    TypeError
        For a goal that is none, or a pipeline that does not end in a private estimator.
    ValueError
        For unknown columns, records other than a fitted pipeline was trained on, noise whose
        covariance is a function of the records, and goals that no noise reaches.

    Warns
    -----
    PrivacyLeakWarning
        For a goal about columns of few values that reads the records.

    Notes
    -----
    A noise scale that was read off the records is a release by itself. The ladder keeps it the same
    for almost all tables, but unlike a goal inside ``fit`` it is not checked here that no value of
    a record would have moved the rung: whoever knows all else rules out the values that would have.
    Calibrate on public records. What the transformers learned from the records is not counted.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    >>> from skleak.inspection import attribute_leakage
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import MaxLeakage
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(20, 80, size=100), "bmi": rng.normal(25, 4, size=100)})
    >>> y = X["age"] + rng.normal(size=100)
    >>> pipeline = make_pipeline(PolynomialFeatures(2), StandardScaler(), PrivateLinearRegression())
    >>> noise = calibrate(pipeline, MaxLeakage(0.05, features="age"), X, y)
    >>> pipeline = pipeline.set_params(privatelinearregression__noise_scale=noise).fit(X, y)
    >>> loss = attribute_leakage(pipeline, X, y, "age")["fisher_information_loss"]
    >>> bool(0.05 / 2**0.5 < loss.max() <= 0.05)
    True
    """
    if not isinstance(goal, NoiseGoal):
        raise TypeError(
            "`goal` must be a noise goal such as MaxLeakage(0.5, features='age'); got "
            f"{type(goal).__name__}."
        )
    model = pipeline
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    # Pipelines are inspected by packages above this one: the estimator knows them.
    if not hasattr(model, "_raw_problem"):
        raise TypeError(
            "`pipeline` must end in a private estimator of skleak.linear_model; got "
            f"{type(model).__name__}. Of a search, pass `best_estimator_`; the noise of models of "
            "other kinds is not found from a goal."
        )
    mechanism = model._chosen_mechanism()
    if not mechanism.adds_to_minimizer:
        raise ValueError(
            f"No number is the scale of the noise of {type(model).__name__} ({mechanism.title}). "
            'Pass the goal itself as its `noise_scale`, or an estimator with `mechanism="output"`.'
        )
    problem = model._raw_problem(pipeline, X, y, sample_weight)
    noise_scale = resolve_goal(goal, problem)
    if isinstance(goal, PublicNoiseGoal):
        return noise_scale
    if name := problem.few_values(goal.named_columns):
        warnings.warn(
            f"The noise scale was read off the records: another value of {name!r} in one of them "
            "may have given another one, and whoever knows all else then rules that value out "
            "with certainty. `fit` refuses a goal of its own where that is so; here it is not "
            "checked. Calibrate on public records, and use the noise for private ones.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return CalibratedNoise(ladder_rung(noise_scale))


# Goals are met from the private side, by this relative margin in the noise.
_MARGIN = 1e-9


@dataclass
class MaxAdvantage(NoiseGoal):
    """No attacker gains more than ``advantage`` on an attribute of any record.

    For every record the Bayes-optimal attacker, who knows everything but the attribute and has
    the given prior, guesses it from the release with an advantage (success beyond the best blind
    guess, over what is left to gain, [FANO23] eq. 1) of at most this. The noise that this needs
    depends on the data. It is rounded up to a power of the square root of two, and ``fit`` raises
    where another value of the attribute in one record would have moved the rung. Other columns may
    move it, and the report counts records that could.

    Parameters
    ----------
    advantage : float in (0, 1)
        Largest advantage.
    attribute : str, int, or list
        Categorical column of the data the estimator sees, or the block of its one-hot columns, or
        "(target)", for labels. `calibrate` takes raw columns of a pipeline.
    prior : "worst", "marginal", "uniform" or array-like of shape (n_values,), default="worst"
        What the attacker knows beforehand. "worst" covers every attacker: for any prior the
        advantage is at most the total variation between the two values furthest apart,
        ``2 Phi(D / 2) - 1`` at distance D over the noise, and even odds on these two reach it.
        The others protect from one attacker only: who knows the frequencies in the training data,
        nothing, or a probability of each distinct value in ascending order. With "marginal" and a
        value that 1 % have, 0.05 leaves an advantage of 0.68 to who holds both for equally likely.

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

    advantage: float
    attribute: Any
    prior: "Literal['worst', 'marginal', 'uniform'] | Any" = "worst"

    @property
    def named_columns(self) -> Any:
        """Block of columns of the attribute."""
        return self.attribute

    def resolve(self, problem: MeasuredFit) -> float:
        """Smallest noise scale that reaches the goal.

        Parameters
        ----------
        problem : MeasuredFit
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
        if not 2 <= len(values) <= MOST_VALUES:
            raise ValueError(
                f"`MaxAdvantage.attribute` must be categorical, with 2 to {MOST_VALUES} distinct "
                f"values; {self.attribute!r} has {len(values)}. For a numeric attribute use "
                "`MaxLeakage(eta, features=...)`."
            )
        worst = isinstance(self.prior, str) and self.prior == "worst"
        prior = None if worst else self._prior(counts)
        encodings = problem.encodings(self.attribute, values)
        if prior is None:
            return _largest_distance(encodings) * (1.0 + _MARGIN) / self._worst_distance
        return _noise_for_advantage(encodings, prior, self.advantage)

    @property
    def _worst_distance(self) -> float:
        """Distance over noise at which the best attack on two values has the advantage."""
        return 2.0 * float(norm.ppf(0.5 * (1.0 + self.advantage)))

    def secrets(self, problem: FittedProblem) -> list[Secret]:
        """Return the attribute.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        list of Secret
        """
        return [problem.block(self.attribute)]

    def brackets(
        self, problem: FittedProblem, secret: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bracket the noise needed, had each record each value of a secret.

        With the marginal prior the counts change with the value.

        Parameters
        ----------
        problem : FittedProblem
            The fit.
        secret : Secret
            The attribute, or another entry.

        Returns
        -------
        low, high : ndarray of shape (n, n_values), or None
            Bounds; None where none are known.
        """
        attribute = problem.block(self.attribute)
        worst = isinstance(self.prior, str) and self.prior == "worst"
        if not worst and len(attribute.values) > 2:
            return None
        found = problem.distance_brackets(secret, attribute)
        if found is None:
            return None
        factor: Any = 1.0 / self._worst_distance
        if not worst:
            needed = self._noise_per_distance(problem.attribute_values(self.attribute)[1])
            if not secret.is_in(attribute):  # nobody's attribute changes
                needed = np.diag(needed)[:, None]
            factor = needed[problem.attribute_codes(attribute)]
        return found[0] * factor, found[1] * factor

    def _noise_per_distance(self, counts: FloatArray) -> FloatArray:
        """Noise needed for two values at distance one, had a record one instead of one, (2, 2)."""
        moved = counts + np.eye(2)[None, :, :] - np.eye(2)[:, None, :]  # from, to
        unit = np.array([[[0.0], [1.0]]])
        return np.array(
            [
                [_noise_for_advantage(unit, self._prior(after), self.advantage) for after in row]
                for row in moved
            ]
        )

    def _prior(self, counts: FloatArray) -> FloatArray:
        if isinstance(self.prior, str):
            if self.prior == "marginal":
                return counts / counts.sum()
            if self.prior == "uniform":
                return np.full(len(counts), 1.0 / len(counts))
            raise ValueError(
                "`MaxAdvantage.prior` must be 'worst', 'marginal', 'uniform' or one probability "
                f"per value; got {self.prior!r}."
            )
        prior = np.asarray(self.prior, dtype=float)
        if prior.shape != counts.shape or np.any(prior < 0.0) or abs(prior.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"`MaxAdvantage.prior` must hold {len(counts)} probabilities that sum to 1, one "
                f"per distinct value; got {self.prior!r}."
            )
        return prior


def _largest_distance(encodings: FloatArray) -> float:
    """Largest distance between two values of one record, of encodings (n, n_values, p)."""
    gaps = (
        np.linalg.norm(encodings[:, m + 1 :] - encodings[:, m, None], axis=2)
        for m in range(encodings.shape[1] - 1)
    )
    return max(float(gap.max()) for gap in gaps)


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
    centered = encodings - encodings.mean(axis=1, keepdims=True)
    reach = np.sqrt(np.einsum("nmp,nmp->nm", centered, centered).max(axis=1))
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


class NoiseKind(BaseEstimator, ABC):
    """Shape of the noise by a public rule: derive from it, and pass it as ``noise_covariance``.

    All that holds for a matrix given by hand holds for it: leakage, reports, attacks and audits
    take its covariance into account, and a release states that one was given. The rule must not
    read the training records: what a covariance that does would leak is not counted.

    See Also
    --------
    skleak.influence.minimax_shape : The shape with the smallest largest leakage, of public records.

    Examples
    --------
    Noise that all coefficients share in part:

    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> class Shared(NoiseKind):
    ...     def __init__(self, share=0.5):
    ...         self.share = share
    ...
    ...     def covariance(self, n_parameters):
    ...         own = (1.0 - self.share) * np.eye(n_parameters)
    ...         return own + np.full((n_parameters, n_parameters), self.share)
    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], [0.0, 1.0, 3.0]
    >>> model = PrivateLinearRegression(0.1, noise_covariance=Shared(0.2)).fit(X, y)
    >>> model.fisher_information_loss().shape
    (3,)
    """

    @abstractmethod
    def covariance(self, n_parameters: int) -> npt.ArrayLike:
        """Return the covariance up to a factor.

        Parameters
        ----------
        n_parameters : int
            p, the number of coefficients and the intercept, which comes last.

        Returns
        -------
        array-like of shape (p, p)
            Symmetric positive definite; scaled to a trace of p by the estimator.
        """
