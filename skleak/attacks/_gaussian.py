"""Membership inference of Gaussian releases."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.membership import as_membership, check_rate
from skleak.attacks._base import Attack, guarded
from skleak.bounds import information_projection_advantage, membership_lower_bound_exponential
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._arguments import check_numbers, make_generator
from skleak.utils._blocks import row_blocks
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import Interval, validate_data
from skleak.utils._typing import BoolArray, FloatArray, IntArray, RandomState

_N_NODES = 128
# Below this distance to 1 a leverage is 1 but for rounding.
_LEVERAGE_ROUND_OFF = 1e-13


def leverages(X: FloatArray) -> FloatArray:
    """``h_j = x_j^T (X^T X)^-1 x_j``, exactly 1 where it is so but for rounding.

    Shapes: ``X`` (n, d); returns (n,).
    """
    n, d = X.shape
    # Columns in units of their length: a rank does not depend on units.
    lengths = np.sqrt(np.einsum("ij,ij->j", X, X))
    scaled = X / np.where(lengths > 0.0, lengths, 1.0)
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    rank = int(np.sum(sizes > max(n, d) * np.finfo(float).eps * sizes[0]))
    if rank < d:
        raise ValueError(
            f"`X` must have full column rank for a unique least-squares fit; got rank {rank} with "
            f"{n} rows and {d} columns. Drop collinear columns, or add rows."
        )
    h = np.einsum("ij,ij->i", left, left)
    return np.where(h > 1.0 - _LEVERAGE_ROUND_OFF, 1.0, h)


def member_rates(h: FloatArray, threshold: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Probability that the log-likelihood ratio of membership exceeds a threshold.

    Shapes: ``h`` (n,); ``threshold`` (n,); returns ``fresh``, ``trained`` (n,): under no
    membership (independent pairs) and under membership (correlation ``sqrt(h)``).

    Along the axes of the correlation ``rho = sqrt(h)`` the pair is ``(P, Q)``, of unit variances
    for independent pairs and of variances ``1 + rho`` and ``1 - rho`` otherwise. The ratio exceeds
    the threshold t where ``rho P^2 / (1 + rho) - rho Q^2 / (1 - rho) > k = 2 t + log(1 - h)``. With
    half the squared radius exponential and the angle ``psi / 2`` uniform, that has
    probability ``exp(-k / (2 a))`` at an angle of coefficient a, where a is
    ``rho (cos psi - rho) / (1 - h)`` for independent pairs and ``rho cos psi`` for others.
    """
    fresh, trained = np.empty(len(h)), np.empty(len(h))
    threshold = np.broadcast_to(np.asarray(threshold, dtype=np.float64), h.shape)
    for rows in row_blocks(len(h), _N_NODES):
        fresh[rows], trained[rows] = _block_rates(h[rows], threshold[rows])
    return fresh, trained


def member_power(h: FloatArray, rate: FloatArray) -> FloatArray:
    """Largest share of members that any test of a false positive rate finds.

    Shapes: ``h`` (n,); ``rate`` (n,); returns (n,): that of the likelihood-ratio test at the
    threshold of that rate (Neyman and Pearson).

    The coefficient of `member_rates` is largest at ``rho / (1 + rho)`` and least at
    ``-rho / (1 - rho)``, so that the rate of a threshold lies between two exponentials: their
    thresholds enclose the one sought.
    """
    # Without leverage nothing but a coin tells members; with leverage 1 they are all found.
    power = np.where(h < 1.0, rate, 1.0)
    inside = (h > 0.0) & (h < 1.0) & (rate > 0.0) & (rate < 1.0)
    if not inside.any():
        return power
    h, rate = h[inside], rate[inside]
    rho, shift = np.sqrt(h), np.log1p(-h)
    high = -2.0 * rho / (1.0 + rho) * np.log(rate)
    low = 2.0 * rho / (1.0 - rho) * np.log1p(-rate)
    found = elementwise.find_root(
        lambda threshold, h, rate: member_rates(h, threshold)[0] - rate,
        (0.5 * (low - shift), 0.5 * (high - shift)),
        args=(h, rate),
    )
    power[inside] = member_rates(h, found.x)[1]
    return power


def _block_rates(h: FloatArray, threshold: FloatArray) -> tuple[FloatArray, FloatArray]:
    inside = (h > 0.0) & (h < 1.0)
    safe = np.where(inside, h, 0.5)
    rho, left = np.sqrt(safe), 1.0 - safe
    k = 2.0 * threshold + np.log(left)
    # Without leverage the ratio is zero; with leverage 1 it is infinite.
    constant = np.where(h < 1.0, threshold < 0.0, 0.0)
    other = np.where(h < 1.0, threshold < 0.0, 1.0)
    # atan2 keeps the digits of a small angle, which arccos of nearly 1 would lose.
    angle = np.arctan2(np.sqrt(left), rho)
    fresh = _beyond(k, 0.5 * np.abs(k) * left / rho, angle)
    trained = _beyond(k, 0.5 * np.abs(k) / rho, np.full_like(rho, 0.5 * np.pi))
    return np.where(inside, fresh, constant), np.where(inside, trained, other)


def _beyond(k: FloatArray, size: FloatArray, angle: FloatArray) -> FloatArray:
    """Probability that the quadratic form exceeds k; its sign changes at ``psi = angle``.

    The integrand vanishes with all derivatives at that end, and may rise steeply next to it.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    v = 0.5 * (nodes + 1.0)
    negative = k < 0.0
    length = np.where(negative, np.pi - angle, angle)[:, None]
    theta = length * v**4
    side = np.where(negative, 1.0, -1.0)[:, None]
    # |cos(angle + side theta) - cos(angle)|, without cancellation.
    height = 2.0 * np.sin(angle[:, None] + 0.5 * side * theta) * np.sin(0.5 * theta)
    with np.errstate(divide="ignore", under="ignore"):
        values = np.exp(-size[:, None] / height)
    integral = (length * values * (2.0 * v**3)) @ weights / np.pi
    return np.where(negative, 1.0 - integral, integral)


# At leverage 1 a member's residual is zero but for rounding: below this in units of the noise (a
# leverage a little below 1 passes for it), and relative to what it is the difference of.
_ROUND_OFF_NOISE = 1e-6
_ROUND_OFF = 1e-11


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianLinearMembership(Attack):
    """Tell members from non-members of a linear regression: the Bayes-optimal attack of [BIL23].

    The responses are ``y = X beta + N(0, sigma^2)`` on a design X that is fixed, and the model is
    that of ordinary least squares, ``theta = (X^T X)^-1 X^T y``. A row j is drawn at random. The
    response ``s`` that comes with it is the one the model was trained on (T = 1) or a fresh one
    (T = 0), and the attacker, who knows X, beta and sigma, guesses which from theta, j and s.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise of the responses, positive.
    coef : array-like of shape (d,)
        ``beta``, the true coefficients.
    prior : float, default=0.5
        Probability of T = 1, in (0, 1), ends excluded.

    Attributes
    ----------
    leverages_ : ndarray of shape (n,)
        ``h_j = x_j^T (X^T X)^-1 x_j``, in [0, 1]; they sum to d.
    classes_ : ndarray of shape (2,)
        0 for non-members and 1 for members.
    n_features_in_ : int
        Number of columns of the design, d.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    Notes
    -----
    With ``Q = (X^T X)^-1``, theta is ``N(beta, sigma^2 Q)`` given T = 0, and given T = 1 and s it
    is ``N(beta + Q x_j (s - x_j.beta), sigma^2 (Q - Q x_j x_j^T Q))`` ([BIL23] eq. 30 to 32 and
    appendix E). What theta says beyond its prediction ``x_j.theta`` has the same law under both,
    so that with the errors ``e = s - x_j.beta`` and ``r = s - x_j.theta`` the ratio of densities is

        log p_1 - log p_0 = log N(r; 0, sigma^2 (1 - h_j)) - log N(e; 0, sigma^2) :

    members are fitted better, by as much as the leverage says. No d x d density is evaluated. At
    leverage 1 the model goes through the response of a member, ``r = 0``, and nothing else does:
    the attack is perfect there.

    ``x_j.(theta - beta) / (sigma sqrt(h_j))`` and ``e / sigma`` are standard normal, with
    correlation ``sqrt(h_j)`` for members and independent otherwise. In polar coordinates along the
    axes of the correlation the squared radius is exponential and independent of the angle, so
    that each error rate is an integral over the angle alone.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 20))
    >>> attack = GaussianLinearMembership(sigma=1.0, coef=np.zeros(20)).fit(X)
    >>> theta, rows, s, member = attack.sample(2000, random_state=0)
    >>> abs(attack.score(theta, member, rows, s) - attack.expected_score().mean()) < 0.04
    np.True_
    """

    _parameter_constraints = Attack._parameter_constraints | {
        "sigma": [Interval(Real, 0, None, closed="neither")],
        "coef": ["array-like"],
    }

    sigma: float
    coef: Any
    prior: float = 0.5

    @guarded
    def fit(
        self,
        X: Any,
        y: Any = None,
        X_reference: None = None,
        y_reference: None = None,
        *,
        sample_weight: None = None,
    ) -> Self:
        """Learn the design.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Design, with a column of ones where the regression has an intercept.
        y : None
            Not used: the game draws the responses.
        X_reference, y_reference : None
            Not supported: the adversary knows the law of the responses, and learns nothing of it.
        sample_weight : None
            Not supported: the game is that of ordinary least squares.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a design without full column rank, or `coef` of another shape.
        AttackNotApplicableError
            Where weights or reference records are given.
        """
        if X_reference is not None or y_reference is not None:
            raise AttackNotApplicableError(
                "GaussianLinearMembership knows the design, `coef` and `sigma`, and learns nothing "
                "from reference records; got `X_reference` or `y_reference`. Leave them out, or "
                "use LikelihoodRatioMembership."
            )
        if sample_weight is not None:
            raise AttackNotApplicableError(
                "The closed forms of this game are those of ordinary least squares, in which all "
                "rows count alike; got `sample_weight`. Where the noise of a response has the "
                "variance `sigma**2 / weight`, pass rows and responses times the square root of "
                "their weights; else use LikelihoodRatioMembership."
            )
        X = validate_data(self, X, dtype=np.float64, copy=True)
        coef = np.asarray(self.coef, dtype=np.float64)
        if coef.shape != X.shape[1:] or not np.all(np.isfinite(coef)):
            raise ValueError(
                f"`coef` must be {X.shape[1]} finite numbers, one for each column of `X`; got "
                f"shape {coef.shape}."
            )
        self.leverages_ = leverages(X)
        self.classes_ = np.arange(2)
        self._X, self._coef, self._sigma = X, coef, float(self.sigma)
        self._prior = float(self.prior)
        self._log_odds = float(np.log(self._prior) - np.log1p(-self._prior))
        return self

    def decision_function(self, released: Any, rows: Any, s: Any) -> FloatArray:
        """Log posterior odds of membership.

        Parameters
        ----------
        released : array-like of shape (d,) or (m, d)
            Model, the same for all tests or one for each.
        rows : int or array-like of int of shape (m,)
            Position of the record in the design.
        s : float or array-like of shape (m,)
            Its response.

        Returns
        -------
        ndarray of shape (m,)
            Positive for members; infinite where the leverage is 1.

        Raises
        ------
        ValueError
            For shapes that do not go together, positions outside the design or values that are
            not finite.
        """
        check_is_fitted(self, "leverages_")
        n, d = self._X.shape
        theta = check_numbers("released", released, finite=True)
        s = check_numbers("s", s, finite=True)
        places = np.asarray(rows)
        if places.dtype.kind not in "iu" or not np.all((places >= 0) & (places < n)):
            raise ValueError(
                f"`rows` must be positions in the design, whole numbers from 0 to {n - 1}; got "
                f"{rows!r}."
            )
        try:
            (m,) = np.broadcast_shapes(theta.shape[:-1], places.shape, s.shape, (1,))
            theta = np.broadcast_to(theta, (m, d))
        except ValueError:
            raise ValueError(
                f"`released` must have shape ({d},) or (m, {d}), and `rows` and `s` one entry for "
                f"each test, or one for all; got shapes {theta.shape}, {places.shape} and "
                f"{s.shape}."
            ) from None
        rows, s = np.broadcast_to(places.astype(np.intp), m), np.broadcast_to(s, m)
        return self._log_ratio(theta, rows, s) + self._log_odds

    def _log_ratio(self, theta: FloatArray, rows: IntArray, s: FloatArray) -> FloatArray:
        x, left = self._X[rows], 1.0 - self.leverages_[rows]
        e = (s - x @ self._coef) / self._sigma
        r = (s - np.einsum("ij,ij->i", x, theta)) / self._sigma
        size = (np.abs(s) + np.einsum("ij,ij->i", abs(x), abs(theta))) / self._sigma
        exact = np.where(np.abs(r) <= _ROUND_OFF_NOISE + _ROUND_OFF * size, np.inf, -np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = 0.5 * (e**2 - r**2 / left - np.log(left))
        return np.where(left > 0.0, ratio, exact)

    def predict(self, released: Any, rows: Any, s: Any) -> IntArray:
        """Guess which responses were trained on.

        Parameters
        ----------
        released : array-like of shape (d,) or (m, d)
            As in `decision_function`.
        rows : int or array-like of int of shape (m,)
            As in `decision_function`.
        s : float or array-like of shape (m,)
            As in `decision_function`.

        Returns
        -------
        ndarray of int of shape (m,)
            1 for members, 0 for non-members.
        """
        return (self.decision_function(released, rows, s) > 0.0).astype(np.intp)

    def predict_proba(self, released: Any, rows: Any, s: Any) -> FloatArray:
        """Posterior probability of being no member, and of being one.

        Parameters
        ----------
        released : array-like of shape (d,) or (m, d)
            As in `decision_function`.
        rows : int or array-like of int of shape (m,)
            As in `decision_function`.
        s : float or array-like of shape (m,)
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (m, 2)
            In the order of ``classes_``; sums to 1.
        """
        odds = self.decision_function(released, rows, s)
        return np.column_stack([expit(-odds), expit(odds)])

    def sample(
        self, n_trials: int, random_state: RandomState = None
    ) -> tuple[FloatArray, IntArray, FloatArray, BoolArray]:
        """Play the game: draw training responses, fit, draw membership and the test record.

        Parameters
        ----------
        n_trials : int
            Number of games, each with a model of its own.
        random_state : None, int, RandomState or Generator, default=None
            Seed.

        Returns
        -------
        theta : ndarray of shape (n_trials, d)
            Models.
        rows : ndarray of int of shape (n_trials,)
            Positions of the test records.
        s : ndarray of shape (n_trials,)
            Their responses.
        member : ndarray of bool of shape (n_trials,)
            Whether the model was trained on that response.
        """
        check_is_fitted(self, "leverages_")
        rng = make_generator(random_state)
        n = len(self._X)
        mean = self._X @ self._coef
        y = mean + self._sigma * rng.normal(size=(n_trials, n))
        theta = np.linalg.lstsq(self._X, y.T, rcond=None)[0].T
        rows = rng.integers(n, size=n_trials)
        member = rng.random(n_trials) < self._prior
        fresh = mean[rows] + self._sigma * rng.normal(size=n_trials)
        return theta, rows, np.where(member, y[np.arange(n_trials), rows], fresh), member

    def error_rates(self) -> tuple[FloatArray, FloatArray]:
        """Exact error rates of `predict` on every row of the design.

        Returns
        -------
        false_positive_rate : ndarray of shape (n,)
            Probability that a fresh response is called a member's.
        false_negative_rate : ndarray of shape (n,)
            Probability that a training response is not.
        """
        check_is_fitted(self, "leverages_")
        fresh, trained = member_rates(self.leverages_, -self._log_odds)
        return fresh, 1.0 - trained

    def expected_score(self) -> FloatArray:
        """Exact probability that `predict` is right, for every row of the design.

        Returns
        -------
        ndarray of shape (n,)
            In [max(prior, 1 - prior), 1], over responses and membership. The mean is what
            `score` measures of games on random rows; no attacker does better.
        """
        false_positive, false_negative = self.error_rates()
        return 1.0 - self._prior * false_negative - (1.0 - self._prior) * false_positive

    def expected_true_positive_rate(self, false_positive_rate: npt.ArrayLike) -> FloatArray:
        """Receiver operating characteristic of the test on every row of the design: exact.

        Parameters
        ----------
        false_positive_rate : float or array-like of shape (k,)
            Share of fresh responses that are called a member's, in [0, 1].

        Returns
        -------
        ndarray of shape (n,) or (n, k)
            Largest share of training responses that any test of that false positive rate finds.

        Raises
        ------
        ValueError
            For a rate outside [0, 1].
        """
        check_is_fitted(self, "leverages_")
        rate = check_rate(false_positive_rate)
        h = self.leverages_[:, None] if rate.ndim else self.leverages_
        h, rate = np.broadcast_arrays(h, rate)
        return member_power(h.ravel(), rate.ravel()).reshape(h.shape)

    @withholding
    def score(self, released: Any, truth: Any, rows: Any, s: Any) -> float:
        """Share of right guesses.

        Parameters
        ----------
        released : array-like of shape (d,) or (m, d)
            As in `decision_function`.
        truth : array-like of shape (m,)
            1 or True for members, 0 or False for others.
        rows : int or array-like of int of shape (m,)
            As in `decision_function`.
        s : float or array-like of shape (m,)
            As in `decision_function`.

        Returns
        -------
        float
            In [0, 1]; over the games of `sample` it estimates the mean of `expected_score`.

        Raises
        ------
        ValueError
            As of `decision_function`, and where there is not one entry for each test.
        """
        guesses = self.predict(released, rows, s)
        return float(np.mean(guesses == as_membership(truth, guesses.shape)))

    def mutual_information(self) -> float:
        """Information between test record and model given membership, ``I(S; theta | T)``.

        Returns
        -------
        float
            ``-P(T=1) / (2 n) sum_j log(1 - h_j)`` nats ([BIL23] section 5); infinite where a
            leverage is 1. The record is the pair of row and response. About a fresh
            one the model leaks nothing; nor about the row of a member, whose law all rows share.
        """
        check_is_fitted(self, "leverages_")
        with np.errstate(divide="ignore"):
            return float(-0.5 * self._prior * np.log1p(-self.leverages_).mean())

    def generalization_gap(self) -> float:
        """Return the expected squared error on fresh responses minus that on training ones.

        Returns
        -------
        float
            ``2 d sigma^2 / n``: a fresh error has variance ``sigma^2 (1 + h_j)``, one of training
            ``sigma^2 (1 - h_j)``.
        """
        check_is_fitted(self, "leverages_")
        n, d = self._X.shape
        return 2.0 * d * self._sigma**2 / n

    def expected_score_bounds(self) -> tuple[float, float]:
        """Bounds on the mean of `expected_score` that need not know the attack.

        Returns
        -------
        lower : float
            From the generalization gap and the tail of the squared error ([BIL23] theorem 4, in the
            sharper form of `skleak.bounds.membership_lower_bound_exponential`).
        upper : float
            From the mutual information ([BIL23] theorem 5).

        Notes
        -----
        All errors have a variance of at most ``v = sigma^2 (1 + max h)``, so that a squared error
        exceeds t with probability at most ``exp(-t / (2 v))``.
        """
        information = self.mutual_information()
        largest = max(self._prior, 1.0 - self._prior)
        scale = 2.0 * self._sigma**2 * (1.0 + float(self.leverages_.max()))
        floor = membership_lower_bound_exponential(
            self.generalization_gap(), scale, prior=self._prior
        )
        odds = np.array([1.0 - self._prior, self._prior])
        ceiling = information_projection_advantage(information, odds)
        rest = 1.0 - largest
        return float(largest + rest * floor), float(largest + rest * ceiling)
