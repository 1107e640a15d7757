"""Noise goals, which stand in for a number in ``noise_scale``.

A goal is resolved inside ``fit``, when the minimizer and its derivatives are known and no noise
has been drawn. Two of them, `MaxLeakage` and `MaxAdvantage`, read the noise off the data. What
they need is rounded up to a rung of a public ladder, and only the rung is used; ``fit`` refuses
where another value of few in one record would have moved the rung.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from skleak.accounting.discrete import discrete_gaussian_mu
from skleak.accounting.gaussian import mu_from_epsilon_delta
from skleak.utils._arguments import check_real, check_scalar
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._summaries import around_quantile
from skleak.utils._typing import Array, FloatArray, IntArray

# More distinct values than this are no longer a categorical attribute.
MOST_VALUES = 64
# What a part of a goal reserves of its delta for steps that need one, as ledgers do; and what is
# kept of every mu for the grids of the noise, whose costs are far below.
RESERVED_DELTA, _KEPT, _ROUNDED = 0.1, 1e-8, 1e-6


@dataclass(frozen=True)
class Secret:
    """Entries of a record of which an attacker knows that they have one of a few values.

    Parameters
    ----------
    columns : ndarray of int of shape (k,) or None
        Their columns; None for the target.
    values : ndarray of shape (n_values, k)
        What they may be.
    label : str
        Their name.

    Examples
    --------
    >>> Secret(np.array([0]), np.array([[0.0], [1.0]]), "x0").values.shape
    (2, 1)
    """

    columns: IntArray | None
    values: FloatArray
    label: str

    def is_in(self, other: "Secret") -> bool:
        """Return True if all its entries are among those of another secret."""
        if self.columns is None or other.columns is None:
            return self.columns is other.columns
        return bool(np.all(np.isin(self.columns, other.columns)))


class MeasuredFit(Protocol):
    """Measurements of a fit that the noise of a goal is found from.

    Examples
    --------
    A goal of your own asks it for what it needs:

    >>> from dataclasses import dataclass
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import NoiseGoal
    >>> from skleak.mechanisms.goals import MeasuredFit
    >>> @dataclass
    ... class MeanLeakage(NoiseGoal):
    ...     eta: float = 1.0
    ...
    ...     def resolve(self, problem: MeasuredFit) -> float:
    ...         return float(problem.sufficient_noise(self.eta, None).mean())
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scale = MeanLeakage(0.5).noise_scale_of(PrivateLinearRegression().fit(X, y))
    >>> PrivateLinearRegression(scale).fit(X, y).fisher_information_loss_.mean().round(6).item()
    0.5
    """

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which each participating record's loss is eta, (n,); may be infinite."""

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, (n_values, k), and how often each occurs."""

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Return the encodings for every record, (n, n_values, p), where the noise is isotropic."""

    @property
    def public(self) -> "PublicProblem":
        """Public knowledge of the fit."""


@dataclass(frozen=True)
class PublicProblem:
    """Public knowledge of a fit: numbers that are no function of its records.

    It is all that a `PublicNoiseGoal` is given, so that its noise scale cannot depend on records.

    Parameters
    ----------
    n_parameters : int
        Number of parameters that are released.
    relative_step : float
        Bound on the step of the grid of the noise, over its least standard deviation; nan where
        the covariance of the noise depends on the records.
    n_samples : int or None, default=None
        Number of records, where it was declared public.
    unit_sensitivity : float, default=nan
        Largest change of the parameters (L2) when a record is replaced, over the noise at scale 1;
        nan where there is none.
    obstacles : tuple of str, default=()
        Why there is none.
    rows_per_person : int or None, default=None
        That change is of so many records together, those of a person.

    Examples
    --------
    >>> PublicProblem(n_parameters=2, relative_step=2**-30, unit_sensitivity=0.1).sensitivity()
    0.1
    """

    n_parameters: int
    relative_step: float
    n_samples: int | None = None
    unit_sensitivity: float = np.nan
    obstacles: tuple[str, ...] = ()
    rows_per_person: int | None = None

    def sensitivity(self) -> float:
        """Return the largest change by a record, over the noise at scale 1.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            Where there is none.
        """
        if self.obstacles:
            raise ValueError(
                "No differential-privacy guarantee can be calibrated: "
                f"{'; '.join(self.obstacles)}. Use "
                "PrivateLogisticRegression with `data_norm`, `classes`, `public=('n_samples',)`, "
                "`fit_intercept=False`, `alpha > 0`, no reweighting and no `noise_covariance` that "
                "depends on the data; PrivateLinearRegression with `data_norm`, `target_bound` and "
                "`public`; PrivateSGDRegressor of skleak.neural; or another goal such as "
                "`MaxLeakage`."
            )
        return self.unit_sensitivity

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of Python, which ask whether there are such
            raise AttributeError(name)
        raise AttributeError(
            f"A PublicNoiseGoal sees no records, and so no {name!r}: of a fit it is given "
            "`n_parameters`, `n_samples`, `relative_step` and `sensitivity()` alone. Derive a goal "
            "that reads the records from NoiseGoal."
        )


class FittedProblem(MeasuredFit, Protocol):
    """Interface of a fit to noise goals, before noise is drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import MaxLeakage
    >>> from skleak.mechanisms.goals import FittedProblem
    >>> class Noisy(MaxLeakage):
    ...     def secrets(self, problem: FittedProblem):
    ...         return problem.secrets("sex")
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(Noisy(10.0), random_state=0).fit(X, y)
    >>> bool(model.fisher_information_loss_.max() <= 10.0)
    True
    """

    def block(self, features: Any) -> Secret:
        """Return a block of columns, at the values that records have in it."""

    def secrets(self, features: Any) -> list[Secret]:
        """Secrets of few values in a block of columns, or in the whole record for None."""

    def entries(self) -> list[Secret]:
        """Each column and a private target, at its values or, if they are many, in their range."""

    def attribute_codes(self, secret: Secret) -> IntArray:
        """Position of each participating record's own value among those of the secret, (n,)."""

    def loss_brackets(
        self, secret: Secret, features: Any, quantile: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on a quantile of the losses at unit noise, (n, n_values) each; None if unknown."""

    def distance_brackets(
        self, secret: Secret, attribute: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on the largest distance of two values of an attribute; None if unknown."""


@dataclass
class NoiseGoal(BaseEstimator, ABC):
    """A goal for which `fit` finds the smallest sufficient noise scale.

    It is given the fit (`MeasuredFit`), and so its noise scale counts as read off the records: it
    is rounded up to a rung of the public ladder, and no guarantee of differential privacy holds. A
    goal that needs public knowledge alone derives from `PublicNoiseGoal`.

    Attributes
    ----------
    data_dependent : bool
        True unless the goal is a `PublicNoiseGoal`. It cannot be declared.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import NoiseGoal
    >>> @dataclass
    ... class Median(NoiseGoal):
    ...     eta: float = 1.0
    ...
    ...     def resolve(self, problem):
    ...         return float(np.median(problem.sufficient_noise(self.eta, None)))
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(Median(0.5)).fit(X, y)
    >>> Median(0.5).data_dependent, round(float(np.log2(model.noise_scale_)), 6)
    (True, 5.0)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("data_dependent", True) is not True:
            raise TypeError(
                f"{cls.__name__} declares `data_dependent`; whether a goal depends on the records "
                "follows from what it is given. Remove the declaration, and derive a goal that "
                "needs public knowledge alone from PublicNoiseGoal."
            )

    @property
    def data_dependent(self) -> bool:
        """True if the noise scale counts as read off the training records."""
        return not isinstance(self, PublicNoiseGoal)

    @property
    def named_columns(self) -> Any:
        """Columns that the goal names; None where it is about no column, or about all."""
        return None

    @abstractmethod
    def resolve(self, problem: Any) -> float:
        """Smallest noise scale that reaches the goal, of a `MeasuredFit` or `PublicProblem`."""

    def noise_scale_of(self, estimator: Any) -> float:
        """Find the noise scale that the goal needs on the data of an estimator.

        With an estimator fitted on public data the result reads nothing private: pass it as
        ``noise_scale`` to an estimator for private data. The report of that fit shows if the goal
        is then met on the private data.

        Parameters
        ----------
        estimator : private estimator
            Fitted on public data, in this process: pickles and copies forget what is needed. Its
            own noise plays no part.

        Returns
        -------
        float
            The smallest sufficient noise scale, in units of the coefficients; not rounded. Of a
            goal that reads the records it is a `CalibratedNoise`, with which no guarantee of
            differential privacy holds; where the records are public, ``float`` takes that off.

        Raises
        ------
        ValueError
            Where the goal cannot be reached, or the fit did not converge.
        NotFittedError
            Before ``fit``, and after unpickling.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skleak.linear_model import PrivateLinearRegression
        >>> from skleak.mechanisms import MaxLeakage
        >>> X, y = load_diabetes(return_X_y=True)
        >>> public = PrivateLinearRegression().fit(X[:200], y[:200])
        >>> noise_scale = MaxLeakage(0.5).noise_scale_of(public)
        >>> model = PrivateLinearRegression(noise_scale).fit(X[200:], y[200:])
        >>> model.noise_scale_ == noise_scale
        True
        """
        noise_scale: float = estimator._noise_for(self)
        return noise_scale

    def secrets(self, problem: FittedProblem) -> list[Secret]:
        """Secrets of few values whose owners the noise scale must not give away.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        list of Secret
        """
        return []

    def brackets(
        self, problem: FittedProblem, secret: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bracket the noise needed, had each record each value of a secret.

        Parameters
        ----------
        problem : FittedProblem
            The fit.
        secret : Secret
            The secret.

        Returns
        -------
        low, high : ndarray of shape (n, n_values), or None
            Bounds; None where none are known.
        """
        return None


class PublicNoiseGoal(NoiseGoal):
    """A goal that is reached on public knowledge alone, of which a `PublicProblem` holds all.

    Its ``resolve`` is given no records, so that its noise scale is public, too. Its author must not
    bring records along by another way (a parameter, a closure): no program can tell, and a
    guarantee would be stated that does not hold.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import PublicNoiseGoal
    >>> @dataclass
    ... class PerParameter(PublicNoiseGoal):
    ...     scale: float = 1.0
    ...
    ...     def resolve(self, problem):
    ...         return self.scale * problem.n_parameters
    >>> X, y = load_diabetes(return_X_y=True)
    >>> PrivateLinearRegression(PerParameter(3.0)).fit(X, y).noise_scale_
    33.0
    """

    @abstractmethod
    def resolve(self, problem: PublicProblem) -> float:
        """Smallest noise scale that reaches the goal."""


class GuaranteeGoal(PublicNoiseGoal):
    """A goal of differential privacy, about one row or all rows of a person."""

    rows_per_person: int | None

    @property
    def rows(self) -> int:
        """Number of rows that are protected together."""
        return self.rows_per_person or 1

    def check(self, *, persons: bool = False) -> None:
        """Raise for parameters out of range, and for rows of persons unless these are taken."""
        rows = self.rows_per_person
        if rows is not None and not (
            isinstance(rows, Integral) and not isinstance(rows, bool) and rows > 0
        ):
            raise ValueError(
                f"`{type(self).__name__}.rows_per_person` must be a whole number from 1 on, or "
                f"None; got {rows!r}."
            )
        if rows is not None and not persons:
            raise ValueError(
                f"`rows_per_person` of {self} protects persons in `fit(..., persons=)` of logistic "
                "and linear regression. Here a guarantee is about one row: leave it out, or pass "
                "one row of each person."
            )

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        usual = {f.name: f.default for f in fields(self)}
        told = [f"{n}={v!r}" for n, v in given.items() if usual[n] is MISSING or v != usual[n]]
        return f"{type(self).__name__}({', '.join(told)})"


def resolve_goal(goal: NoiseGoal, problem: MeasuredFit) -> float:
    """Find the noise scale of a goal, which sees the records only if it counts as reading them.

    Parameters
    ----------
    goal : NoiseGoal
        The goal.
    problem : MeasuredFit
        The fit.

    Returns
    -------
    float
        A `CalibratedNoise`, unless the goal is a `PublicNoiseGoal`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from skleak.mechanisms import GaussianDP
    >>> from skleak.mechanisms.goals import PublicProblem, resolve_goal
    >>> public = PublicProblem(n_parameters=1, relative_step=0.0, unit_sensitivity=0.1)
    >>> resolve_goal(GaussianDP(0.5), SimpleNamespace(public=public))
    0.2
    """
    if isinstance(goal, PublicNoiseGoal):
        return float(goal.resolve(problem.public))
    return CalibratedNoise(goal.resolve(problem))


@dataclass
class MaxLeakage(NoiseGoal):
    """No record's Fisher information loss exceeds ``eta``.

    The noise that this needs depends on the data. It is rounded up to a power of the square root
    of two, so that the largest loss lies between ``eta / sqrt(2)`` and ``eta``. ``fit`` raises
    where another value in one record would have moved the rung: of the block if it has few values,
    else of one of its columns that has few; without ``features``, of any one column or the target.
    Few are up to 64 values, and not more than half as many as there are records. Numeric columns
    and those outside of the block may move it, and the report counts records that could.

    Parameters
    ----------
    eta : float, positive
        Largest Fisher information loss, in 1 / (unit of the columns).
    features : str, int, slice, mask or list, default=None
        Block of columns it is measured on; by default the whole record. Inside ``fit`` these are
        columns as the model is given them; `calibrate` takes raw columns of a pipeline.
    quantile : float in (0, 1], default=1.0
        Share of the records that must stay below ``eta``; 1 for all.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(MaxLeakage(eta=0.5)).fit(X, y)
    >>> bool(0.5 / 2**0.5 < model.fisher_information_loss_.max() <= 0.5)
    True
    >>> round(float(np.log2(model.noise_scale_)), 6)  # in steps of one half
    6.5
    """

    eta: float
    features: Any = None
    quantile: float = 1.0

    @property
    def named_columns(self) -> Any:
        """Block of columns that leakage is measured on; None for the whole record."""
        return self.features

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
            For a loss that is not positive, a quantile outside (0, 1], or where no noise scale
            reaches it, as the shape of the noise alone leaks too much.
        """
        check_scalar("MaxLeakage.eta", self.eta, low_open=True, finite=True)
        if not 0.0 < self.quantile <= 1.0:
            raise ValueError(
                f"`MaxLeakage.quantile` must lie in (0, 1]; got {self.quantile}. Pass 1.0 to "
                "protect every record."
            )
        scales = problem.sufficient_noise(self.eta, self.features)
        scale = float(around_quantile(scales, self.quantile)[0])
        if np.isinf(scale):
            raise ValueError(
                f"No noise scale reaches `MaxLeakage.eta={self.eta:g}`: the covariance of the "
                "noise depends on the records, and leaks more than that by itself. Raise `eta`, or "
                "use isotropic noise."
            )
        return scale

    def secrets(self, problem: FittedProblem) -> list[Secret]:
        """Secrets of few values in the block, or in the whole record and its target.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        list of Secret
        """
        return problem.secrets(self.features)

    def brackets(
        self, problem: FittedProblem, secret: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bracket the noise needed, had each record each value of a secret.

        Parameters
        ----------
        problem : FittedProblem
            The fit.
        secret : Secret
            The secret.

        Returns
        -------
        low, high : ndarray of shape (n, n_values), or None
            Bounds; None where none are known.
        """
        losses = problem.loss_brackets(secret, self.features, self.quantile)
        return None if losses is None else (losses[0] / self.eta, losses[1] / self.eta)


@dataclass(repr=False)
class GaussianDP(GuaranteeGoal):
    """No record moves the release by more than ``mu`` standard deviations of the noise.

    With Gaussian noise in exact arithmetic that is mu-Gaussian differential privacy under
    replacement of one row. With the noise of a release, on a grid, it is ``mu^2 / 2``
    zero-concentrated differential privacy, exactly, on the coefficients. Needs a bounded
    derivative of the loss (logistic) or a ``target_bound`` (squared), ``data_norm``, ``classes``,
    ``public=("n_samples",)``, ``alpha > 0`` and ``fit_intercept=False``. Where ``mechanism`` is
    None, logistic regression adds the noise to its objective instead, and linear regression to
    sums.

    Parameters
    ----------
    mu : float, positive
        Privacy parameter; smaller is more private.
    delta : float in [0, 0.1], default=0.0
        Probability with which that may fail, for steps that need one (`PrivateOneHotEncoder` of
        skleak.preprocessing). Others leave it unused.
    rows_per_person : int or None, default=None
        Protect a person, of whose rows at most so many count, the first ones; None to protect one
        row. `fit` is told whose rows are whose as ``persons``, and ``public`` holds "n_persons" in
        place of "n_samples"; ``alpha`` is relative to so many rows of each. Sums take no intercept.

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
    ...     mechanism="output",
    ... ).fit(X, [0, 1, 0, 1])
    >>> round(model.noise_scale_, 6)
    1.0
    """

    mu: float
    delta: float = 0.0
    rows_per_person: int | None = field(default=None, kw_only=True)

    def check(self, *, persons: bool = False) -> None:
        """Raise for a parameter out of range."""
        super().check(persons=persons)
        check_scalar("GaussianDP.mu", self.mu, low_open=True, finite=True)
        check_scalar("GaussianDP.delta", self.delta, high=0.1)

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
        self.check(persons=problem.rows_per_person == self.rows_per_person)
        sensitivity = problem.sensitivity()
        # Less what rounding to the grid of the noise adds to the distance.
        mu = self.mu - np.sqrt(problem.n_parameters) * problem.relative_step
        _check_reachable("GaussianDP.mu", self.mu, mu)
        return sensitivity / mu


@dataclass(repr=False)
class EpsilonDelta(GuaranteeGoal):
    """The release is (epsilon, delta)-differentially private under replacement of one row.

    The rounding to the grid of the noise is counted. Needs what `GaussianDP` needs.

    Parameters
    ----------
    epsilon : float, positive
        Privacy parameter.
    delta : float in (0, 1)
        Failure probability, far below 1 / n_samples.
    rows_per_person : int or None, default=None
        As for `GaussianDP`.

    Examples
    --------
    >>> EpsilonDelta(1.0, 1e-6)
    EpsilonDelta(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float
    rows_per_person: int | None = field(default=None, kw_only=True)

    def check(self, *, persons: bool = False) -> None:
        """Raise for parameters out of range."""
        super().check(persons=persons)
        check_scalar("EpsilonDelta.epsilon", self.epsilon, low_open=True, finite=True)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(
                f"`EpsilonDelta.delta` must lie strictly between 0 and 1; got {self.delta}."
            )

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
        self.check(persons=problem.rows_per_person == self.rows_per_person)
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


def split_goal(
    goal: "EpsilonDelta | GaussianDP", shares: Sequence[float]
) -> "list[EpsilonDelta | GaussianDP]":
    """Split a goal into one for each step of a pipeline.

    Shares are of ``mu^2``, which adds up over steps. A tenth of the delta of an `EpsilonDelta` is
    reserved for steps that may fail with some probability, and the rest sets the mu that is split.
    Together the steps keep the goal, whatever they are: `skleak.release` of a pipeline says so.

    Parameters
    ----------
    goal : EpsilonDelta or GaussianDP
        The guarantee of all steps together.
    shares : sequence of float
        Public positive numbers that sum to 1, one for each step.

    Returns
    -------
    list of GaussianDP
        With a ``delta`` that `PrivateOneHotEncoder` uses and other steps leave.

    Raises
    ------
    TypeError
        For another goal.
    ValueError
        For shares that are not positive or do not sum to 1, and a goal out of range.

    Examples
    --------
    >>> small, large = split_goal(EpsilonDelta(1.0, 1e-6), [0.1, 0.9])
    >>> round(small.mu, 4), round(large.mu, 4), round(small.delta + large.delta, 12)
    (0.0745, 0.2234, 1e-07)
    """
    if not isinstance(goal, EpsilonDelta | GaussianDP):
        raise TypeError(
            "`goal` must be an EpsilonDelta or a GaussianDP, whose parts add up to it; got "
            f"{type(goal).__name__}."
        )
    parts = check_real("shares", shares, low_open=True, finite=True, empty=False)
    if parts.ndim != 1 or not abs(parts.sum() - 1.0) <= 1e-9:
        raise ValueError(
            f"`shares` must be a list of numbers that sum to 1; got shape {parts.shape}, sum "
            f"{parts.sum():.12g}. Pass them through `shares / shares.sum()`."
        )
    parts /= parts.sum()
    delta = reserved_delta(goal)
    if isinstance(goal, GaussianDP):
        mu = goal.mu
    else:
        mu = float(mu_from_epsilon_delta(goal.epsilon, goal.delta - delta))
    mu = check_scalar("the mu of the goal", mu * (1.0 - _ROUNDED), low_open=True)
    return [GaussianDP(float(mu * np.sqrt(part)), float(delta * part)) for part in parts]


def reserved_delta(goal: "EpsilonDelta | GaussianDP") -> float:
    """Check a goal, and return the delta that it has for steps which need one.

    Parameters
    ----------
    goal : EpsilonDelta or GaussianDP
        The goal.

    Returns
    -------
    float
        At most 0.1.

    Raises
    ------
    ValueError
        For a goal out of range.
    """
    goal.check()
    return float(goal.delta * (1.0 if isinstance(goal, GaussianDP) else RESERVED_DELTA))


def grid_mu(
    goal: "EpsilonDelta | GaussianDP", n_parameters: int, *, reserved: float = 0.0
) -> float:
    """Find the largest mu, sensitivity over noise on a grid, that keeps a goal.

    Parameters
    ----------
    goal : EpsilonDelta or GaussianDP
        The goal.
    n_parameters : int
        Number of released parameters.
    reserved : float, default=0.0
        What the step spends of the delta of an `EpsilonDelta` otherwise.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For a goal out of range, or below the cost of the grid.
    """
    reserved_delta(goal)
    if isinstance(goal, GaussianDP):
        mu = goal.mu - np.sqrt(n_parameters) * 2.0**-30
    else:
        left = goal.delta - reserved
        mu = discrete_gaussian_mu(goal.epsilon, left, n_parameters=n_parameters)
    mu *= 1.0 - _KEPT
    if not mu > np.sqrt(n_parameters) * 2.0**-30:
        raise ValueError(
            f"{goal} is out of reach: the grid of the noise costs as much. Pass larger values."
        )
    return float(mu)
