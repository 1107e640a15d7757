"""Limits on what single persons and groups leak, kept at the least cost in accuracy.

With ``P`` the inverse of the covariance of the noise, a person whose Jacobian is J leaks at most
eta where ``a^T P a <= eta^2`` for all ``a = J v``, ``|v| = 1``; the mean squared loss of a group is
``tr(P M_g)``, ``M_g`` the mean of ``J J^T``, and a limit rho on the ratio of two groups is
``tr(P (M_g - rho^2 M_h)) <= 0``. All are linear in P. Noise costs ``tr(H P^-1)``, which is convex.
With multipliers ``nu >= 0`` of limits ``tr(P W_k) <= b_k``, whitened such that H is the identity,

    W = sum nu_k W_k ,   P = W^(-1/2) ,   the dual   2 tr W^(1/2) - nu . b

is concave in as many numbers as there are limits, and bounds the cost from below.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from skleak._released import DelegatedPredictionMixin
from skleak.influence import minimax_shape
from skleak.influence.noise import inverse_hessian_root
from skleak.influence.state import FitState
from skleak.mechanisms import MaxAdvantage, MaxLeakage, NoiseGoal
from skleak.mechanisms.goals import MOST_VALUES
from skleak.utils._arguments import check_scalar
from skleak.utils._blocks import dense, is_large_source
from skleak.utils._confidential import without_ledger
from skleak.utils._records import checked_labels, named, row_labels
from skleak.utils._typing import Array, FloatArray, IntArray

# Ratio of eigenvalues of the moments of all persons below which they are singular, and of those
# that multipliers give them.
_SINGULAR, _FLAT = 1e-11, 1e-13
# Steps of one barrier, and cost, over that without limits on ratios, from which on these count as
# out of reach of any shape.
_STEPS, _RUNS_OFF, _LARGEST = 100, 1e6, 1e100
_NOT_REACHED = "No shape of the noise keeps `group_ratio` on the public records."
# Passes over the persons, and how far above its limit the largest loss is found.
_PASSES, _PERSON_TOL = 30, 1e-3
# Powers of what groups leak by which their weights are tried.
_POWERS = np.linspace(0.0, 2.0, 9)
# Entries of all Jacobians of public records: 1 GB.
_MOST_ENTRIES = 1 << 27
# Factor by which a noise scale found on public records is kept clear of the limit.
_CLEAR_SCALE = 2.0**0.5
# Standard errors of the ratio on public records that are kept clear of its limit.
_CLEAR = 2.0
# Steps to the ratio that plain noise keeps, and rises of limits that are named until one is kept.
_CLOSER, _RISES = 0.25, tuple(1.0 + 1e-5 * 3.0**k for k in range(16))


class _UnreachableError(ValueError):
    """No shape of the noise keeps the limits."""


class _NotKeptError(ValueError):
    """Limits are not kept: why, and parameters to try in their place."""


def least_cost(matrices: FloatArray, limits: FloatArray, tol: float = 1e-6) -> FloatArray:
    """Find the least ``tr P^-1`` with ``tr(P W_k) <= b_k`` by a barrier method on the dual.

    Shapes: ``matrices`` (m, p, p), the first of them positive definite; ``limits`` (m,), the first
    of them positive and all of them not negative; returns P (p, p), which keeps the limits.
    """
    values = np.linalg.eigvalsh(matrices[0])
    if not values[0] > _SINGULAR * values[-1]:
        raise ValueError(
            "There are directions in which no public record moves the model, as with a target that "
            "is constant or columns that are collinear: no shape of the noise is the best there. "
            "Pass more public records, or drop columns."
        )
    first = float(np.sqrt(values).sum()) ** 2 / limits[0]
    scale = np.where(limits > 0.0, limits, np.linalg.norm(matrices, axis=(1, 2)))
    unit = matrices / scale[:, None, None] / first
    b, m = (limits > 0.0).astype(float), len(limits)
    nu = np.full(m, 1e-3)
    nu[0] = 1.0
    while not np.isfinite(_value(nu, unit, b, 1.0)):
        nu[1:] *= 0.1
    mu = 0.1
    while True:
        for _ in range(_STEPS):
            nu, decrement = _newton(nu, unit, b, mu)
            bound = -_value(nu, unit, b, 0.0)
            if bound > _RUNS_OFF:
                raise _UnreachableError(_NOT_REACHED)
            if decrement < 1e-9 * mu * m:
                break
        if mu * m < tol * bound:
            break
        mu *= 0.2
    values, vectors = np.linalg.eigh(np.tensordot(nu, unit, 1))
    precision = (vectors / np.sqrt(values)) @ vectors.T / first
    above = np.einsum("ij,kij->k", precision, matrices) - limits
    if np.any(above > 1e-6 * np.where(limits > 0.0, limits, 0.1 * limits[0])):
        raise _UnreachableError(_NOT_REACHED)  # a search that stalled, far off
    return np.asarray(precision)


def _value(nu: FloatArray, unit: FloatArray, b: FloatArray, mu: float) -> float:
    """Barrier of the dual, to be minimized; infinite outside of its domain."""
    if not np.all((nu > 0.0) & (nu < _LARGEST)):
        return np.inf
    values = np.linalg.eigvalsh(np.tensordot(nu, unit, 1))
    if values[0] <= _FLAT * values[-1]:
        return np.inf
    return float(nu @ b - 2.0 * np.sqrt(values).sum() - mu * np.log(nu).sum())


def _newton(nu: FloatArray, unit: FloatArray, b: FloatArray, mu: float) -> tuple[FloatArray, float]:
    """Take a damped step; return also the decrement."""
    values, vectors = np.linalg.eigh(np.tensordot(nu, unit, 1))
    roots = np.sqrt(np.maximum(values, _FLAT * values[-1]))
    turned = vectors.T @ unit @ vectors
    gradient = b - np.diagonal(turned, 0, 1, 2) @ (1.0 / roots) - mu / nu
    theta = 1.0 / (np.outer(roots, roots) * np.add.outer(roots, roots))
    flat = (turned * np.sqrt(theta)).reshape(len(nu), -1)
    # In units of the multipliers themselves, so that the barrier is the identity.
    scaled, slope = flat * nu[:, None], gradient * nu
    system = scaled @ scaled.T + mu * np.eye(len(nu))
    step = -nu * np.linalg.solve(system, slope)
    decrement = float(-(gradient @ step))
    before, length = _value(nu, unit, b, mu), 1.0
    while _value(nu + length * step, unit, b, mu) > before - 1e-4 * length * decrement:
        length *= 0.5
        if length < 1e-12:
            return nu, 0.0
    return nu + length * step, decrement


def fair_precision(
    jacobians: FloatArray, codes: IntArray, max_loss: float | None, ratio: float | None
) -> FloatArray:
    """Find the precision of noise of the least ``tr P^-1`` that keeps limits of persons and groups.

    No person leaks more than ``max_loss`` in the worst direction; without it the mean square over
    persons and unknowns is one. Root mean squares of groups, over persons and unknowns, have ratios
    of ``ratio`` at most.

    Shapes: ``jacobians`` (n, p, k), whitened; ``codes`` (n,), groups from 0 on; returns (p, p).
    """
    moments = [_moments(jacobians[codes == g]) for g in range(int(codes.max()) + 1)]
    matrices, limits = [_moments(jacobians)], [1.0 if max_loss is None else max_loss**2]
    if ratio is not None:
        pairs = [(a, b) for a in moments for b in moments if a is not b]
        matrices += [a - ratio**2 * b for a, b in pairs]
        limits += [0.0] * len(pairs)
    if max_loss is None:
        return least_cost(np.array(matrices), np.array(limits))
    for _ in range(_PASSES):
        precision = least_cost(np.array(matrices), np.array(limits), 1e-5)
        values, vectors = np.linalg.eigh(jacobians.transpose(0, 2, 1) @ precision @ jacobians)
        squares = values[:, -1] / max_loss**2
        if squares.max() <= (1.0 + _PERSON_TOL) ** 2:
            break
        worst = np.argsort(-squares)[: 2 * len(precision)]
        worst = worst[squares[worst] > 1.0]
        atoms = np.einsum("bik,bk->bi", jacobians[worst], vectors[worst, :, -1])
        matrices += list(atoms[:, :, None] * atoms[:, None, :])
        limits += [max_loss**2] * len(atoms)
    return precision / max(1.0, float(squares.max()))


def _moments(jacobians: FloatArray) -> FloatArray:
    """Mean of ``J J^T`` over persons and unknowns, (p, p)."""
    found = np.einsum("nia,nja->ij", jacobians, jacobians)
    return found / (jacobians.shape[0] * jacobians.shape[2])


def _ratio(losses: FloatArray, codes: Array) -> float:
    """Largest over smallest root mean square of groups."""
    means = pd.Series(losses**2).groupby(np.asarray(codes)).mean()
    return float(np.sqrt(means.max() / means.min())) if means.max() > 0.0 else 1.0


def _ratio_error(losses: FloatArray, codes: Array) -> float:
    """Return the standard error of its logarithm, of the two groups that make it."""
    squares = pd.Series(losses**2).groupby(np.asarray(codes))
    means, errors = squares.mean(), squares.sem().fillna(np.inf)
    relative = (errors / means)[[means.idxmax(), means.idxmin()]]
    return float(0.5 * np.sqrt(np.sum(relative**2)))


@dataclass(frozen=True)
class _Choice:
    """Shape and weights chosen on public records."""

    cost: float  # rise of their objective, in units of the whole
    covariance: FloatArray  # of the noise, in the units of the parameters, (p, p)
    weights: FloatArray  # of the groups


@dataclass(frozen=True)
class _PublicFit:
    """Public records under a fit of their own."""

    estimator: Any
    X: Any
    y: Any
    codes: IntArray
    max_loss: float | None
    ratio: float | None

    def state(self, weights: FloatArray) -> FitState:
        """Fit with weights of groups."""
        model = without_ledger(self.estimator)
        model.set_params(noise_scale=1.0, noise_covariance="isotropic", random_state=0)
        model.fit(self.X, self.y, sample_weight=weights[self.codes])
        state: FitState = model._confidential_state()
        state.factor.check_one_predictor()
        return state

    def choose(self, powers: FloatArray) -> _Choice:
        """Return the choice of the least cost over weights of groups."""
        plain = self.state(np.ones(int(self.codes.max()) + 1))
        root = inverse_hessian_root(plain)
        ratio, jacobians, found = self.ratio, self._jacobians(plain, root), []
        sizes = np.linalg.norm(jacobians, axis=(1, 2))
        if ratio is not None:
            clear = _CLEAR * np.sqrt(2.0) * _ratio_error(sizes, self.codes)
            ratio = float(max(ratio * np.exp(-clear), np.sqrt(ratio)))
        means = pd.Series(sizes**2 / np.mean(sizes**2)).groupby(self.codes).mean().to_numpy()
        # Of plain noise at unit scale, through the mean.
        losses = np.linalg.norm(root @ jacobians, axis=(1, 2)) / np.sqrt(jacobians.shape[2])
        for power in powers:
            weights = np.maximum(means, 1e-6) ** (-0.5 * power)
            weights /= weights[self.codes].mean()
            try:
                found.append(self._choice(plain, root, weights, ratio, np.mean(losses**2)))
            except _UnreachableError:
                if ratio is None:
                    raise
        if not found:
            assert self.ratio is not None
            of_plain = _ratio(losses, self.codes)
            further = min(of_plain * np.exp(clear), of_plain**2) / self.ratio  # by plain noise
            raise _NotKeptError(
                f"No shape of the noise and no weights of groups that were tried keep "
                f"`group_ratio={self.ratio:g}` on the public records, where it is to be "
                f"{ratio:.4g} to be kept on others. The ratio of plain noise is {of_plain:.4g}.",
                {"group_ratio": self.ratio * further**_CLOSER},
            )
        return min(found, key=lambda choice: choice.cost)

    def minimax(self) -> _Choice:
        """Return the shape with the smallest largest loss, at the scale of the limit."""
        assert self.max_loss is not None
        state = self.state(np.ones(1))
        found = minimax_shape(state)
        rise = np.trace(np.linalg.solve(state.factor.inverse_hessian, found.shape))
        factor = len(found.shape) / rise * (found.largest / self.max_loss) ** 2
        return _Choice(0.5 * factor * rise, factor * found.shape, np.ones(1))

    def _choice(
        self,
        plain: FitState,
        root: FloatArray,
        weights: FloatArray,
        ratio: float | None,
        plain_square: float,
    ) -> _Choice:
        """Find the noise at given weights, and what both cost."""
        state = self.state(weights) if np.any(weights != 1.0) else plain
        jacobians = self._jacobians(state, root)
        precision = fair_precision(jacobians, self.codes, self.max_loss, ratio)
        whitened = np.linalg.inv(precision)
        covariance, spent = root @ whitened @ root.T, float(np.trace(whitened))
        if self.max_loss is None:
            # The scale is given: costs are compared at the mean square of plain noise.
            given = self.estimator.noise_scale
            variance = float(given) ** 2 if isinstance(given, Real) and float(given) > 0.0 else 1.0
            spent *= variance / plain_square
            covariance *= variance * len(root) / np.trace(covariance)
        at = plain.objective.at
        rise = at(state.factor.coefficients).value - at(plain.factor.coefficients).value
        cost = rise * plain.objective.total + 0.5 * spent
        return _Choice(cost, 0.5 * (covariance + covariance.T), weights)

    def _jacobians(self, state: FitState, root: FloatArray) -> FloatArray:
        """Return whitened Jacobians of whole records, (n, p, k)."""
        objective, d = state.objective, state.n_features
        if len(objective.y) * len(root) * (d + 1) > _MOST_ENTRIES:
            raise ValueError(
                f"{len(objective.y)} public records of {d} columns take too much memory at once. "
                "Pass fewer, at random."
            )
        found = state.factor.jacobian(dense(objective.X), objective.y)
        found = found[:, :, : d + state.private_target] * objective.weights[:, None, None]
        return np.asarray(np.linalg.solve(root, found))


@dataclass(eq=False, repr=False)
class FairLeakage(DelegatedPredictionMixin, MetaEstimatorMixin, BaseEstimator):
    """Noise that keeps limits on what persons and groups leak, at the least cost in accuracy.

    Choose the shape of the noise, weights of groups and the noise scale of a private linear model.
    On public records all of them are constants, which reveal nothing: the limits are linear in the
    inverse covariance, and the mean rise of the training objective is convex in it. The private
    records are then measured, and refused where they do not keep a limit.

    Without public records the shape is ``noise_covariance="least_mean"``, and what it reveals is
    counted; the noise scale for ``max_loss`` is that of a `skleak.mechanisms.MaxLeakage`, a rung of
    the public ladder, and ``fit`` refuses where that rung would give records away.

    What cannot be kept on the private records is refused, and the error names the nearest limit
    that can be reached. That a fit was not refused, and the limits that an error names, are
    functions of the records and are not counted: do not publish them, nor limits chosen by them.

    Parameters
    ----------
    estimator : private linear model
        Of one linear predictor, without a reweighting. Its ``noise_covariance`` plays no part.
        Its ``noise_scale`` is kept where there is no ``max_loss`` and no ``max_advantage``, and is
        the least noise scale with ``public``.
    max_loss : float or None, default=None
        Largest Fisher information loss of any person over the whole record, in 1 / (unit of the
        columns).
    max_advantage : float or None, default=None
        Largest advantage of an attacker on ``sensitive_features``, which must then be a column of
        few values that changes alone, so none of a one-hot block; see
        `skleak.mechanisms.MaxAdvantage`. Not with ``max_loss``; needs ``public``.
    group_ratio : float or None, default=None
        Largest ratio of two groups in what their members leak, root mean square over members and
        unknowns (`diagonal_fisher_information_loss_`); above 1.
    public : tuple or None, default=None
        Public records ``(X, y)``, or ``(X, y, sensitive_features)`` with ``group_ratio``. They must
        be like the private ones, and none of them: the shape and the weights are read off them.
        No step of a pipeline reaches them: pass them as the steps before return them.

    Attributes
    ----------
    estimator_ : private linear model
        The fit of the private records. Confidential, as it is; ``release()`` may be published.
    noise_covariance_ : ndarray of shape (p, p) or str
        Shape of the noise, with trace p; "least_mean" where it is a function of the records.
    noise_scale_ : float
        The noise scale.
    group_weights_ : dict
        Weight of each group, the same for all of its members; empty without ``group_ratio``.

    Notes
    -----
    A record counts with the weight of its group, and what it leaks is that of its whole weight.
    The weight itself is a function of its sensitive attribute, and what that does to the release is
    counted nowhere. So weights are all 1 where the attribute is named as a column of X, or where
    the values or a range of one column, or of a private target, make one of the groups in the
    public records, as in a one-hot block; a group that only several make together is not noticed.
    An attacker who is after any other group is not covered by the losses where weights differ.

    Ratios are kept clear of the limit by two standard errors on the public records, down to the
    square root of the limit, and noise scales by a factor of the square root of two. Losses fall
    with the number of records: with fewer public than private ones there is more noise than need
    be, with more of them limits are refused, unless the estimator declares ``public="n_samples"``:
    the scale then goes by both numbers. Weights are tried along one line, powers of what groups
    leak: others may cost a few per cent less.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import FairLeakage, PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=400)
    >>> public = X[:200], y[:200]
    >>> fair = FairLeakage(PrivateLinearRegression(), max_loss=0.5, public=public)
    >>> fair = fair.fit(X[200:], y[200:])
    >>> bool(fair.losses_.max() <= 0.5), fair.noise_covariance_.shape
    (True, (4, 4))
    """

    _made: ClassVar[str] = "estimator_"
    # By which inspection finds the private model.
    _limited = DelegatedPredictionMixin._predicting

    estimator: Any
    _: KW_ONLY
    max_loss: float | None = None
    max_advantage: float | None = None
    group_ratio: float | None = None
    public: Any = None

    def fit(self, X: Any, y: Any, sensitive_features: Any = None) -> Self:
        """Choose noise and weights, and fit the private records.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training records, in memory.
        y : array-like of shape (n_samples,)
            Targets.
        sensitive_features : array-like of shape (n_samples,), Series or str, default=None
            Group of each record; a Series is read by the index of X, and a name is that of a
            column of X, which stays a feature and so must hold numbers.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For limits that are out of range or out of reach, or that come without what they need.
        """
        self._check(sensitive_features)
        try:
            return self._fit(X, y, sensitive_features)
        except _NotKeptError as error:
            raise self._refusal(error, X, y, sensitive_features) from error

    def _fit(self, X: Any, y: Any, sensitive_features: Any) -> Self:
        groups = _groups(sensitive_features, X)
        goal, weights, chosen = self._goal(sensitive_features), None, {}
        params: dict[str, Any] = {"noise_covariance": "least_mean"}
        if self.public is not None:
            choice, labels = self._choose(sensitive_features, X, groups)
            mean = float(np.trace(choice.covariance)) / len(choice.covariance)
            params["noise_covariance"] = choice.covariance / mean
            if self.group_ratio is not None:
                chosen = dict(zip(labels, choice.weights.tolist(), strict=True))
                weights = pd.Series(groups).map(chosen).to_numpy(dtype=float)
            if goal is not None:
                scale = self._public_scale(goal, params, float(np.sqrt(mean)))
                given, n = self.estimator.noise_scale, np.shape(X)[0]
                if "n_samples" in self.estimator.public:  # by which losses fall
                    scale *= len(self.public[1]) / n
                params["noise_scale"] = max(scale, given) if isinstance(given, Real) else scale
        elif goal is not None:
            params["noise_scale"] = goal
        model = clone(self.estimator).set_params(**params)
        if goal is not None or self.group_ratio is not None:  # before anything is charged
            probe = self._probe(without_ledger(model), X, y, weights)
            self._check_kept(probe, goal, groups)
        fitted = model.fit(X, y, sample_weight=weights)
        self.estimator_, self.group_weights_ = fitted, chosen
        self._take_columns_of(fitted)
        self.noise_covariance_, self.noise_scale_ = params["noise_covariance"], fitted.noise_scale_
        return self

    def _check(self, sensitive_features: Any) -> None:
        """Refuse limits that are out of range, or come without what they need."""
        if not hasattr(self.estimator, "_confidential_state"):
            raise TypeError(
                "`estimator` must be a private linear model of skleak.linear_model; got "
                f"{type(self.estimator).__name__}. Steps of a pipeline go before `FairLeakage`."
            )
        for name, low in (("max_loss", 0.0), ("max_advantage", 0.0), ("group_ratio", 1.0)):
            if getattr(self, name) is not None:
                check_scalar(name, getattr(self, name), low=low, low_open=True, finite=True)
        column = isinstance(sensitive_features, str)
        limited = self.max_loss is not None or self.max_advantage is not None
        scale = self.estimator.noise_scale
        needs = {
            "`max_loss` or `max_advantage`, and not both": self.max_loss is None
            or self.max_advantage is None,
            "the name of a column of X as `sensitive_features` with `max_advantage`": column
            or self.max_advantage is None,
            "`public` records with `max_advantage`, which is measured under noise whose covariance "
            "is the same under every value": self.max_advantage is None or self.public is not None,
            "`sensitive_features`, the group of each record, with `group_ratio`": (
                self.group_ratio is None or sensitive_features is not None
            ),
            "`public` as (X, y, sensitive_features) with `group_ratio`, as (X, y) without": (
                self.public is None or len(self.public) == 2 + (self.group_ratio is not None)
            ),
            "a number as `noise_scale` of the estimator without `max_loss` and `max_advantage`, "
            "above 0 with `group_ratio`": limited
            or (isinstance(scale, Real) and (self.group_ratio is None or float(scale) > 0.0)),
        }
        for what, kept in needs.items():
            if not kept:
                raise ValueError(f"`FairLeakage` needs {what}.")

    def _goal(self, sensitive_features: Any) -> NoiseGoal | None:
        """Return the goal that finds the noise scale; None where that is given."""
        if self.max_loss is not None:
            return MaxLeakage(self.max_loss)
        if self.max_advantage is not None:
            return MaxAdvantage(self.max_advantage, sensitive_features)
        return None

    def _choose(
        self, sensitive_features: Any, X: Any, groups: Array | None
    ) -> tuple[_Choice, list[Any]]:
        """Choose shape and weights on the public records; return the labels of groups, too."""
        table, target = self.public[:2]
        if self.group_ratio is None:
            codes, labels, powers = np.zeros(len(target), dtype=np.intp), [None], np.zeros(1)
        else:
            assert groups is not None
            public = _groups(self.public[2], table, "public[2]")
            assert public is not None
            codes, found = pd.factorize(public, sort=True)
            labels = pd.Index(found).tolist()
            missing = set(pd.Index(groups).unique().tolist()) - set(labels)
            if missing:
                raise ValueError(
                    f"The public records have nobody of {len(missing)} groups of the private ones: "
                    "what these leak cannot be foreseen. Merge groups, or add public records."
                )
            order = pd.factorize(np.ravel(target), sort=True)[0][:, None]
            secret = [table, order] if self.estimator.private_target else [table]
            fixed = isinstance(sensitive_features, str) or len(labels) == 1
            fixed = fixed or any(_is_function(public, each) for each in secret)
            powers = _POWERS[:1] if fixed else _POWERS
        public_fit = _PublicFit(
            self.estimator, table, target, codes, self.max_loss, self.group_ratio
        )
        if self.max_loss is not None and self.group_ratio is None:
            return public_fit.minimax(), labels
        return public_fit.choose(powers), labels

    def _public_scale(self, goal: NoiseGoal, params: dict[str, Any], scale: float) -> float:
        """Return the noise scale that the public records ask for, clear of the limit."""
        if isinstance(goal, MaxAdvantage):
            model = without_ledger(self.estimator).set_params(**params, noise_scale=1.0)
            scale = float(goal.noise_scale_of(model.fit(*self.public[:2])))
        return _CLEAR_SCALE * scale

    def _probe(self, model: Any, X: Any, y: Any, weights: FloatArray | None) -> Any:
        """Fit the private records; say what is reached without a goal where one is refused."""
        given = self.estimator.noise_scale
        try:
            return model.fit(X, y, sample_weight=weights)
        except ValueError as error:
            named = isinstance(model.noise_scale, NoiseGoal) and isinstance(given, Real)
            if not (named and float(given) > 0.0):
                raise
            other = without_ledger(model).set_params(noise_scale=given)
            limit = other.fit(X, y, sample_weight=weights).fisher_information_loss_.max()
            raise ValueError(
                f"{error} The nearest limit reached by a noise scale which reads no record is "
                f"max_loss={limit * (1.0 + 1e-5):.6g}: what they leak at that of the estimator, "
                f"{given!r}. Pass `public` records, or a larger `noise_scale` and no `max_loss`."
            ) from error

    def _check_kept(self, probe: Any, goal: NoiseGoal | None, groups: Array | None) -> None:
        """Refuse limits that the private records do not keep."""
        reached, scale = {}, probe.noise_scale_
        if self.max_loss is not None:
            reached["max_loss"] = float(probe.fisher_information_loss_.max())
        if isinstance(goal, MaxAdvantage):
            distance = norm.ppf(0.5 * (1.0 + goal.advantage)) * probe._noise_for(goal) / scale
            reached["max_advantage"] = float(2.0 * norm.cdf(distance) - 1.0)
        if self.group_ratio is not None:
            losses = probe.diagonal_fisher_information_loss_
            reached["group_ratio"] = _ratio(losses, np.asarray(groups))
        for name, value in reached.items():
            if not value <= getattr(self, name):
                noise = {} if name == "group_ratio" else {"estimator__noise_scale": float(scale)}
                why = f"`{name}={getattr(self, name):g}` is not kept on these records."
                raise _NotKeptError(why, {name: value} | noise)

    def _refusal(self, error: _NotKeptError, X: Any, y: Any, sensitive_features: Any) -> ValueError:
        """Name limits that a fit keeps: under others its choice is another one, too."""
        why, other, named = error.args[0], without_ledger(self), dict[str, float]()
        for rise in _RISES:
            named |= {name: float(f"{value * rise:.6g}") for name, value in error.args[1].items()}
            try:
                other.set_params(**named)._fit(X, y, sensitive_features)
                break
            except _NotKeptError as again:
                error = again
        noise = named.pop("estimator__noise_scale", None)
        limits = " and ".join(f"{name}={value:g}" for name, value in named.items())
        limits += f", with noise_scale={noise} of the estimator" if noise else ""
        return ValueError(
            f"{why} The nearest limit that can be reached by this choice is {limits}. Raise the "
            "limit so, or pass `public` records (more of them) that are like these."
        )

    @property
    def losses_(self) -> FloatArray:
        """Fisher information loss of each person, (n_samples,). Confidential."""
        found: FloatArray = self._predicting.fisher_information_loss_
        return found

    def release(self, *, require_guarantee: bool = False) -> Any:
        """Return what may be published.

        Parameters
        ----------
        require_guarantee : bool, default=False
            Raise unless a guarantee of differential privacy holds.

        Returns
        -------
        ReleasedModel
        """
        return self._predicting.release(require_guarantee=require_guarantee)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator takes."""
        tags = get_tags(self.estimator)
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        return tags


def _groups(groups: Any, X: Any, name: str = "sensitive_features") -> Array | None:
    """Group of each record, (n,)."""
    if is_large_source(X):
        raise TypeError("`FairLeakage` takes records in memory; pass an array or a data frame.")
    if groups is None:
        return None
    if isinstance(groups, str):
        if not (hasattr(X, "columns") and groups in X.columns):
            raise ValueError(
                f"`{name}` is no column of X: {groups!r}. Pass a column, or one label per record."
            )
        groups = np.asarray(X[groups])
    return checked_labels(groups, np.shape(X)[0], named(row_labels(X)), name=name)


def _is_function(groups: Array, X: Any) -> bool:
    """Return True if some group is made by one column: by its values, or by a range of it."""
    codes = pd.factorize(groups)[0]
    members = (codes[:, None] == np.arange(codes.max() + 1)).astype(float)
    for column in dense(X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)).T:
        values, position = np.unique(column, return_inverse=True)
        table = pd.DataFrame(members).groupby(np.ravel(position))
        low, high = table.min().to_numpy(), table.max().to_numpy()
        made = np.all(low == high, axis=0)
        if len(values) > MOST_VALUES:
            made &= np.count_nonzero(np.diff(low, axis=0), axis=0) <= 2
        if np.any(made):
            return True
    return False
