"""Reconstruction of a record from the noisy gradients that private SGD releases."""

import copy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, minimize
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skleak.accounting.subsampled import subsampled_fisher_factors
from skleak.bounds import cramer_rao_mse, van_trees_mse
from skleak.exceptions import AttackNotApplicableError
from skleak.neural.gradients import Gradients, StepGradients
from skleak.utils._arguments import check_numbers, check_scalar, make_generator
from skleak.utils._confidential import ConfidentialMixin
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import (
    HasMethods,
    Interval,
    NoMetadataRequests,
    StrOptions,
    fit_context,
    leaves_whole,
    validate_data,
)
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState

__all__ = ["GradientInversion", "GradientObservation", "observe_gradients"]


def _read_model(model: Any, noise_scale: float | None) -> tuple[Gradients, float]:
    """Return a copy of the gradients of a fitted estimator, or of those passed, and the noise."""
    passed = isinstance(model, Gradients)
    if not passed:
        check_is_fitted(model)
    gradients = model if passed else getattr(model, "_gradients", None)
    if not isinstance(gradients, Gradients):
        raise TypeError(
            "`model` must be a fitted PrivateSGDClassifier or PrivateSGDRegressor, or Gradients; "
            f"got {type(model).__name__}."
        )
    if noise_scale is None and passed:
        raise ValueError(
            "`noise_scale` must be given with Gradients, which have none; got None. Pass the noise "
            "multiplier times the clipping norm."
        )
    if noise_scale is None:
        noise_scale = float(model.noise_multiplier_) * float(model.max_grad_norm)
    return copy.deepcopy(gradients), float(noise_scale)


@dataclass(frozen=True, eq=False)
class GradientObservation:
    """Steps of private SGD, as an adversary sees them who knows all records but one.

    Attributes
    ----------
    parameters : ndarray of shape (n_steps, n_parameters)
        Parameters at which the gradients of each step were taken.
    signals : ndarray of shape (n_steps, n_parameters)
        Noisy sum of clipped gradients that each step released, less the clipped gradients of the
        members that the adversary knows: what is left is that of the record, where it took part,
        and noise.
    target : float or None
        Its target, in the form that the gradients take: a class number 0, 1, ... or a number. None
        where the adversary does not know it.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.neural import PrivateSGDClassifier, observe_gradients
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> options = {"max_steps": 9, "sampling_rate": 0.5, "random_state": 0}
    >>> model = PrivateSGDClassifier(noise_multiplier=1.0, **options).fit(X, y)
    >>> path = np.zeros((4, 4))  # parameters at four steps: weights and intercept
    >>> observe_gradients(model, [1.0, -2.0, 0.5], 1, path, random_state=0).signals.shape
    (4, 4)
    """

    parameters: FloatArray
    signals: FloatArray
    target: float | None = None

    def __post_init__(self) -> None:
        """Check the shapes."""
        for name in ("parameters", "signals"):
            values = np.atleast_2d(check_numbers(name, getattr(self, name), finite=True))
            object.__setattr__(self, name, values)
        if self.parameters.shape != self.signals.shape or self.parameters.ndim != 2:
            raise ValueError(
                "`parameters` and `signals` must have the same shape (n_steps, n_parameters); got "
                f"{self.parameters.shape} and {self.signals.shape}."
            )


def observe_gradients(
    model: Any,
    record: npt.ArrayLike,
    target: Any,
    parameters: npt.ArrayLike,
    noise_scale: float | None = None,
    *,
    sampling_rate: float = 1.0,
    known_target: bool = True,
    random_state: RandomState = None,
) -> GradientObservation:
    """Play steps of private SGD on one record, and return what its adversary observes.

    Parameters
    ----------
    model : PrivateSGDClassifier, PrivateSGDRegressor or Gradients
        A fitted estimator, or model, loss and clipping. It is not changed.
    record : array-like of shape (n_features,)
        The record.
    target : int or float
        Its target: a class number 0, 1, ..., the position in ``classes_``, or a number.
    parameters : array-like of shape (n_steps, n_parameters) or (n_parameters,)
        Parameters before each step.
    noise_scale : float or None, default=None
        Standard deviation of the noise on the sum, noise multiplier times clipping norm; at least
        0. None is that of the estimator.
    sampling_rate : float, default=1.0
        Probability of the record to take part in a step, above 0.
    known_target : bool, default=True
        Whether the adversary knows the target.
    random_state : int, RandomState, Generator or None, default=None
        Draws the steps of which the record is a member, and the noise.

    Returns
    -------
    GradientObservation

    Raises
    ------
    ValueError
        For parameters that are not those of the model, a rate or a scale out of range, or a record
        with NaN or infinite entries.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.losses import LogisticLoss
    >>> from skleak.neural.gradients import Clipping, LinearGradients
    >>> gradients = LinearGradients(LogisticLoss(), Clipping("smooth", 1.0), n_features=2)
    >>> observation = observe_gradients(gradients, [3.0, 4.0], 0, np.zeros(3), noise_scale=0.0)
    >>> (observation.signals / observation.signals[0, -1]).round(6)
    array([[3., 4., 1.]])
    """
    own, scale = _read_model(model, noise_scale)
    check_scalar("noise_scale", scale, finite=True)
    rate = check_scalar("sampling_rate", sampling_rate, low_open=True, high=1.0)
    X, y = np.atleast_2d(check_numbers("record", record, finite=True)), np.asarray([target])
    path = np.atleast_2d(check_numbers("parameters", parameters, finite=True))
    if path.shape[1:] != (own.n_parameters,):
        raise ValueError(
            f"`parameters` must have shape (n_steps, {own.n_parameters}); got {path.shape}."
        )
    rng = make_generator(random_state)
    member = rng.random(len(path)) < rate
    signals = scale * rng.standard_normal(path.shape)
    for step in np.flatnonzero(member):
        own.parameters = path[step]
        signals[step] += own.clipped_sum(X, y)[0]
    return GradientObservation(path, signals, float(target) if known_target else None)


@dataclass(frozen=True)
class Posterior:
    """Negative log density of a record, up to a constant.

    A step in which the record takes part with probability q releases a draw from the mixture
    ``q N(g(x), s^2) + (1 - q) N(0, s^2)``, g its clipped gradient.

    ``mean``, ``unit`` (d,): center and scale of the coordinates in which the search moves; entries
    of scale 0 stay at the mean. ``weight``: 1 where these are a normal prior, 0 for none.
    ``low``, ``high`` (d,): ends of the range.
    """

    steps: StepGradients
    signals: FloatArray  # (T, p)
    noise_scale: float
    sampling_rate: float
    mean: FloatArray
    unit: FloatArray
    weight: float
    low: FloatArray
    high: FloatArray

    def __call__(self, z: FloatArray, target: float) -> tuple[float, FloatArray]:
        """Value and gradient at ``mean + unit z``, (d,)."""
        gradients, pullback = self.steps(self.mean + self.unit * z, target)
        miss = self.signals - gradients
        # In two factors: the square of a small noise scale underflows.
        scaled = miss / self.noise_scale
        # Log ratio of the density of a step with the record to that without it, (T,).
        ratio = np.sum((0.5 * gradients + miss) / self.noise_scale * gradients, axis=1)
        ratio /= self.noise_scale
        if self.sampling_rate == 1.0:
            value, member = 0.5 * float(np.sum(scaled**2)), np.ones(len(ratio))
        else:
            taken, left = np.log(self.sampling_rate) + ratio, np.log1p(-self.sampling_rate)
            both = np.logaddexp(taken, left)
            value, member = -float(np.sum(both)), np.exp(taken - both)
        slope = pullback(-member[:, None] * scaled / self.noise_scale)
        value += 0.5 * self.weight * float(z @ z)
        return value, self.unit * slope + self.weight * z

    def mode(
        self, start: FloatArray, target: float, max_iter: int, tol: float
    ) -> tuple[float, FloatArray]:
        """Lowest value that L-BFGS reaches from a record (d,), and the record there."""

        def inner(record: FloatArray) -> FloatArray:
            none, free = np.zeros_like(self.mean), self.unit > 0.0
            return np.divide(record - self.mean, self.unit, out=none, where=free)

        z, ends = inner(np.clip(start, self.low, self.high)), (inner(self.low), inner(self.high))
        # The search needs values near one, and with little noise they are far from it.
        typical = abs(self(np.zeros_like(z), target)[0]) or 1.0

        def scaled(z: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self(z, target)
            return value / typical, slope / typical

        options = {"maxiter": max_iter, "ftol": 0.0, "gtol": tol, "maxcor": 20}
        found = minimize(
            scaled, z, jac=True, method="L-BFGS-B", bounds=Bounds(*ends), options=options
        )
        return float(found.fun) * typical, self.mean + self.unit * found.x


@dataclass(eq=False, repr=False)
class GradientInversion(ConfidentialMixin, NoMetadataRequests, BaseEstimator):
    """Reconstruct a record from the noisy gradients that private SGD releases ([DRA22] section 6).

    The adversary knows all other members of the batches, hence their clipped gradients, and
    subtracts them from what every step released. Left is the clipped gradient of the record, where
    it took part, and Gaussian noise. The guess is the likeliest record, under a normal prior
    learned from records that the adversary knows, or under none: least squares in the gradients.

    Parameters
    ----------
    model : PrivateSGDClassifier, PrivateSGDRegressor or Gradients
        What was trained: a fitted estimator, or model, loss and clipping as
        `skleak.neural.gradients` has them. It is never changed.
    noise_scale : float or None, default=None
        Standard deviation s of the noise on the sum of gradients: noise multiplier times clipping
        norm; at least 0. None is that of the estimator. Without noise a step tells membership, and
        there is no use for a prior.
    sampling_rate : float, default=1.0
        Probability of the record to take part in a step, above 0. One means that the adversary
        knows that it does.
    prior : {"normal", None}, default="normal"
        What the adversary knows of the record: "normal" has independent entries with the means and
        standard deviations of the records in `fit`; entries that never vary there count as known.
        None is no prior.
    bounds : pair (low, high) or None, default=None
        Range of the entries, each end a number or an array of shape (n_features,); infinite ends
        are allowed. Pixels lie in (0, 1).
    n_starts : int, default=4
        Number of searches for each record: from the closed form where there is one, from the mean,
        and from draws of the prior. The likeliest result counts.
    max_iter : int, default=500
        Largest number of steps of L-BFGS in a search.
    tol : float, default=1e-9
        A search ends where the gradient, over the value at the mean, is below it; at least 0.
    random_state : int, RandomState, Generator or None, default=None
        Draws the starts.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and standard deviation of the records known.
    class_prior_ : ndarray of shape (n_classes,) or None
        Shares of the classes among them, where `fit` was given targets.
    n_features_in_ : int
        Number of features of a record.

    Notes
    -----
    With a known target and little noise the guess without a prior is nearly unbiased and errs as
    the Cramer-Rao bound says (:meth:`cramer_rao_mse`). A prior makes it biased: its error may lie
    below that bound, and on average over the prior never below van Trees'
    (:meth:`van_trees_mse`). Both hold for every attack of their kind on these observations,
    and this one is not the best: the likeliest record is not the mean of the posterior, and the
    search may end in a local optimum.

    Of a linear model gradients and derivatives are in closed form, in NumPy, and the gradient of
    the weights over that of the intercept is the record but for noise: the first start.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.neural import GradientInversion, PrivateSGDClassifier, observe_gradients
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> options = {"max_steps": 9, "sampling_rate": 0.5, "random_state": 0}
    >>> model = PrivateSGDClassifier(noise_multiplier=1e-4, **options).fit(X, y)
    >>> path = np.zeros((4, 4))  # parameters at four steps: weights and intercept
    >>> seen = observe_gradients(model, [1.0, -2.0, 0.5], 1, path, random_state=0)
    >>> GradientInversion(model, random_state=0).fit(X).predict(seen).round(2)
    array([ 1. , -2. ,  0.5])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "model": [Gradients, HasMethods(["fit", "predict"])],
        "noise_scale": [Interval(Real, 0, None, closed="left"), None],
        "sampling_rate": [Interval(Real, 0, 1, closed="right")],
        "prior": [StrOptions({"normal"}), None],
        "bounds": ["array-like", None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    model: Any
    _: KW_ONLY
    noise_scale: float | None = None
    sampling_rate: float = 1.0
    prior: str | None = "normal"
    bounds: Any = None
    n_starts: int = 4
    max_iter: int = 500
    tol: float = 1e-9
    random_state: RandomState = None

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the prior from records that the adversary knows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Records of the population, such as the other training records.
        y : array-like of int of shape (n,), default=None
            Their classes 0, 1, ..., for records whose target the adversary does not know.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            For an estimator that is not fitted.
        TypeError
            For an estimator that is not trained by private SGD.
        ValueError
            For `bounds` that are no range, classes that are no numbers 0, 1, ..., or Gradients
            without a noise scale.
        """
        X = validate_data(self, X, dtype=np.float64)
        self._gradients, self._noise = _read_model(self.model, self.noise_scale)
        self.mean_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        self.class_prior_: FloatArray | None = None if y is None else _shares(y, len(X))
        low, high = (-np.inf, np.inf) if self.bounds is None else self.bounds
        ends = [np.asarray(end, dtype=np.float64) for end in (low, high)]
        if not {end.shape for end in ends} <= {(), self.mean_.shape} or not np.all(
            ends[0] < ends[1]
        ):
            raise ValueError(
                "`bounds` must be None or a pair (low, high), low below high, each a number or one "
                f"for each of the {len(self.mean_)} features; got {self.bounds!r}."
            )
        self._low, self._high = (np.broadcast_to(end, self.mean_.shape) for end in ends)
        return self

    def predict(self, observations: Any) -> FloatArray:
        """Reconstruct the record of every observation.

        Parameters
        ----------
        observations : GradientObservation or list of them
            What the adversary saw, of one record each.

        Returns
        -------
        ndarray of shape (n_features,) or (n_observations, n_features)

        Raises
        ------
        AttackNotApplicableError
            For targets that are not known, where `fit` was given no classes.
        ValueError
            For observations of another model.
        """
        check_is_fitted(self, "mean_")
        if isinstance(observations, GradientObservation):
            return self._reconstruct(observations, make_generator(self.random_state))
        rng = make_generator(self.random_state)
        return np.stack([self._reconstruct(each, rng) for each in observations])

    @withholding
    def score(self, observations: Any, truth: Any) -> float:
        """Negative mean squared error per entry, over records.

        Parameters
        ----------
        observations : GradientObservation or list of them
            As in `predict`.
        truth : array-like of shape (n_features,) or (n_observations, n_features)
            The records.

        Returns
        -------
        float
            At most 0.

        Raises
        ------
        ValueError
            Where the records are not those of the observations.
        """
        guesses, records = self.predict(observations), check_numbers("truth", truth, finite=True)
        if records.shape != guesses.shape:
            raise ValueError(
                f"`truth` must hold the records of the observations, {guesses.shape}; got "
                f"{records.shape}."
            )
        return -float(np.mean((guesses - records) ** 2))

    def cramer_rao_mse(self, X: Any, y: Any, parameters: npt.ArrayLike) -> FloatArray:
        """Lower bound on the error of unbiased attackers who know the target ([DRA22] theorem 2).

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Actual records.
        y : array-like of shape (n,)
            Their targets, as in an observation.
        parameters : array-like of shape (n_steps, n_parameters)
            Parameters before each step.

        Returns
        -------
        ndarray of shape (n,)
            Mean squared error per entry, over noise and memberships; infinite for a record of which
            a direction is not seen.
        """
        check_is_fitted(self, "mean_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        if self._noise == 0.0:
            return np.zeros(len(X))
        information = self._information(X, np.asarray(y), parameters)
        return np.atleast_1d(cramer_rao_mse(information))

    def van_trees_mse(
        self,
        target: float,
        parameters: npt.ArrayLike,
        *,
        n_draws: int = 256,
        random_state: RandomState = None,
    ) -> tuple[float, float]:
        """Lower bound on the error of any attacker, over records drawn from the normal prior.

        The information is averaged over draws, with which the bound comes out too high by less
        than its standard error, as a rule.

        Parameters
        ----------
        target : float
            Target of the records, which the attacker knows.
        parameters : array-like of shape (n_steps, n_parameters)
            Parameters before each step.
        n_draws : int, default=256
            Number of records drawn, at least 2.
        random_state : int, RandomState, Generator or None, default=None
            Draws them.

        Returns
        -------
        bound : float
            Mean squared error per entry, over records, noise and memberships.
        standard_error : float
            That of the bound.
        """
        check_is_fitted(self, "mean_")
        d, free = len(self.mean_), np.flatnonzero(self.scale_ > 0.0)
        if self._noise == 0.0 or not len(free):
            return 0.0, 0.0
        rng = make_generator(random_state)
        X = self.mean_ + self.scale_ * rng.standard_normal((n_draws, d))
        draws = self._information(X, np.full(n_draws, target), parameters)
        draws = draws[:, free[:, None], free]
        mean, own = draws.mean(axis=0), np.diag(self.scale_[free] ** -2.0)
        share = len(free) / d  # what never varies is known
        inverse = np.linalg.inv(mean + own)
        slopes = np.einsum("ij,njk,ki->n", inverse, draws, inverse) / d
        error = float(np.std(slopes, ddof=1) / np.sqrt(n_draws))
        return share * float(van_trees_mse(mean, own)), error

    def _information(self, X: FloatArray, y: IntArray, parameters: npt.ArrayLike) -> FloatArray:
        """Fisher information of all steps about records, (n, d, d).

        The sum over steps of ``(q / s^2) G^T [along e e^T + across (1 - e e^T)] G``.
        """
        path = np.atleast_2d(check_numbers("parameters", parameters, finite=True))
        noise, rate = self._noise, self.sampling_rate

        def weigh(norms: FloatArray) -> tuple[Array, Array]:
            along, across = subsampled_fisher_factors(rate, norms / noise)
            return np.asarray(along), np.asarray(across)

        total = self._gradients.information_along(path, X, y, weigh, False)
        return rate * (total / noise) / noise

    def _reconstruct(self, seen: GradientObservation, rng: np.random.Generator) -> FloatArray:
        """Likeliest record, (d,), of the likeliest target."""
        targets: list[tuple[float, float]] = []
        if seen.target is not None:
            targets = [(0.0, seen.target)]
        elif self.class_prior_ is not None:
            known = np.flatnonzero(self.class_prior_)
            targets = [(-float(np.log(self.class_prior_[k])), float(k)) for k in known]
        else:
            raise AttackNotApplicableError(
                "The target is not known, and `fit` was given no classes to try. Call "
                "`fit(X, y)` with class numbers 0, 1, ..., or give the target."
            )
        if seen.signals.shape[1] != self._gradients.n_parameters:
            raise ValueError(
                "Observations must be of the model of this attack, with "
                f"{self._gradients.n_parameters} parameters; got {seen.signals.shape[1]}."
            )
        if self._noise == 0.0:  # steps without the record are silent
            spoke = np.any(seen.signals != 0.0, axis=1)
            seen = GradientObservation(seen.parameters[spoke], seen.signals[spoke], seen.target)
        noiseless = self._noise == 0.0
        normal = self.prior == "normal" and not noiseless
        spread = float(np.sqrt(np.mean(self.scale_**2))) or 1.0
        posterior = Posterior(
            self._gradients.at_steps(seen.parameters),
            seen.signals,
            1.0 if noiseless else self._noise,
            1.0 if noiseless else float(self.sampling_rate),
            self.mean_,
            self.scale_ if normal else np.full_like(self.scale_, spread),
            float(normal),
            self._low,
            self._high,
        )
        guess = self._gradients.guess_record(seen.signals)
        starts = [self.mean_] if guess is None else [guess, self.mean_]
        scale = self.scale_ if np.any(self.scale_) else np.ones_like(self.scale_)
        while len(starts) < self.n_starts:
            starts.append(self.mean_ + scale * rng.standard_normal(len(scale)))
        best, record = np.inf, self.mean_
        for cost, target in targets:
            for start in starts[: self.n_starts]:
                value, found = posterior.mode(start, target, self.max_iter, self.tol)
                if value + cost < best:
                    best, record = value + cost, found
        return record


def _shares(y: Any, n: int) -> FloatArray:
    """Share of each class number, (n_classes,)."""
    classes = np.asarray(y)
    if classes.shape != (n,) or classes.dtype.kind not in "biu" or (classes < 0).any():
        raise ValueError(
            "`y` must hold the class numbers 0, 1, ... of the records; got "
            f"{classes.dtype} of shape {classes.shape}."
        )
    return np.bincount(classes) / n
