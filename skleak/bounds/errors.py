"""Bounds on squared errors of reconstruction."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import (
    SUM_TOLERANCE,
    as_result,
    broadcast_shape,
    check_numbers,
    check_real,
    check_scalar,
    make_generator,
)
from skleak.utils._typing import FloatArray, RandomState

# Standard deviations of the noise beyond the encodings up to which releases are integrated.
_TAILS = 7.0
# Spacing of the nodes, in standard deviations: sums of normal densities are exact at half of them.
_SPACING = 0.5
_MOST_DIMENSIONS = 3
# Nodes times values of one quadrature; beyond, the risk is simulated.
_MOST_TERMS = 1 << 25
_BLOCK = 1 << 22
# What may be left out of the encodings, as a share of the root of the risk.
_LEFT_OUT = 1e-3
# Neighbors this many standard deviations of the noise apart are told apart by a release.
_TOLD_APART = 2.0
# Encodings are known to this share of their spread: noise below it counts as that much.
_ROUND_OFF = 1e-10
# What sums lose, as a share of the variance of the prior.
_LOST = 1e-12
_N_ERRORS = 4.0


def bayes_mse(
    encodings: npt.ArrayLike,
    values: npt.ArrayLike,
    prior: npt.ArrayLike,
    noise_scale: npt.ArrayLike,
    *,
    n_draws: int = 4096,
    random_state: RandomState = None,
) -> tuple[Any, Any]:
    """Bayes risk of a number under Gaussian noise: no attacker who knows the prior errs less.

    A number Z with a prior is released as ``Y ~ N(e(Z), noise_scale^2 I)``. The risk is that of
    the posterior mean, ``E[Var(Z | Y)]``.

    Parameters
    ----------
    encodings : array-like of shape (..., n_values, n_parameters)
        Mean of the release ``e(z)`` at every value.
    values : array-like of shape (n_values,) or (..., n_values)
        Ascending nodes z of a grid over the range of the number, in its units.
    prior : array-like of shape (n_values,) or (..., n_values)
        Probability of every node: the density of the number times the spacing, summing to 1.
    noise_scale : float or array-like of shape (...)
        Standard deviation of the noise on every parameter, 0 or more.
    n_draws : int, default=4096
        Simulated releases, where the risk is not integrated.
    random_state : None, int, RandomState or Generator, default=None
        Seed of the simulation.

    Returns
    -------
    mse : float or ndarray of shape (...)
        Bayes risk, in squared units of the number, between 0 and the variance of the prior.
    error : float or ndarray of shape (...)
        By how much the risk of the number, which lies between the nodes too, may differ from it:
        four standard errors where it is simulated, and the error of the grid.

    Raises
    ------
    ValueError
        For shapes that do not match, values that do not ascend, a prior that is negative or does
        not sum to 1, a negative noise scale, NaN or infinity.

    See Also
    --------
    van_trees_mse : A lower bound on this risk, from Fisher information alone.
    cramer_rao_mse : The bound for unbiased attackers, who have no prior.

    Notes
    -----
    Encodings that lie on a line, in a plane or in three dimensions, but for what the noise hides,
    are integrated over all releases by the trapezoidal rule; others are simulated, each draw with
    the exact variance of its posterior. What the noise hides lowers the risk R by at most
    ``sqrt(exp((r / noise_scale)^2) - 1) sqrt(R)`` times the range of the number, r being the
    largest distance from those dimensions (Cauchy and Schwarz), and is part of the error.

    The error holds the difference to an integral over every other release. That of the grid is the
    mean difference between the posterior variances of all nodes and of every other one. It is tiny
    where the encodings of neighbors lie within a standard deviation of the noise; nodes that a
    release tells apart add a quarter of their squared spacing.

    Examples
    --------
    A number with standard deviation 2, and a release with a standard error of 1:

    >>> import numpy as np
    >>> z = np.linspace(-16.0, 16.0, 201)
    >>> density = np.exp(-z**2 / 8.0)
    >>> mse, error = bayes_mse(z[:, None], z, density / density.sum(), 1.0)
    >>> round(mse, 6), error < 1e-6
    (0.8, True)
    """
    encodings = check_numbers("encodings", encodings, finite=True, empty=False)
    values = check_numbers("values", values, finite=True, empty=False)
    prior = check_real("prior", prior, finite=True)
    scale = check_real("noise_scale", noise_scale, finite=True)
    draws = int(check_scalar("n_draws", n_draws, low=2, finite=True))
    if encodings.ndim < 2:
        raise ValueError(
            "`encodings` must have shape (..., n_values, n_parameters); got "
            f"{encodings.shape}. Reshape a single parameter with `[:, None]`."
        )
    shape = _batch_shape(encodings, values, prior, scale)
    if np.any(np.diff(values, axis=-1) <= 0.0):
        raise ValueError("`values` must ascend strictly; got a step down or a repeated value.")
    if np.any(np.abs(prior.sum(axis=-1) - 1.0) > SUM_TOLERANCE):
        raise ValueError(
            "`prior` must sum to 1 over the values. Pass the density through `prior / prior.sum()`."
        )
    generator = make_generator(random_state)
    count = encodings.shape[-2]
    batch = zip(
        np.broadcast_to(encodings, shape + encodings.shape[-2:]).reshape(-1, *encodings.shape[-2:]),
        np.broadcast_to(values, (*shape, count)).reshape(-1, count),
        np.broadcast_to(prior, (*shape, count)).reshape(-1, count),
        np.broadcast_to(scale, shape).ravel(),
        strict=True,
    )
    found = np.array([_Number.of(*one).risk(draws, generator) for one in batch]).reshape(-1, 2)
    return as_result(found[:, 0].reshape(shape)), as_result(found[:, 1].reshape(shape))


def _batch_shape(
    encodings: FloatArray, values: FloatArray, prior: FloatArray, scale: FloatArray
) -> tuple[int, ...]:
    """Shape of the batch, ``()`` for a single problem."""
    count = encodings.shape[-2]
    for name, array in (("values", values), ("prior", prior)):
        if array.ndim == 0 or array.shape[-1] != count:
            raise ValueError(
                f"`{name}` must have one entry for each of the {count} values of `encodings`; got "
                f"shape {array.shape}."
            )
    return broadcast_shape(
        encodings=encodings.shape[:-2],
        values=values.shape[:-1],
        prior=prior.shape[:-1],
        noise_scale=scale.shape,
    )


@dataclass(frozen=True)
class _Number:
    """One number, centered, and its release in units of the noise."""

    points: FloatArray  # principal coordinates of the encodings, (n_values, k)
    values: FloatArray  # minus their mean under the prior, (n_values,)
    prior: FloatArray  # (n_values,)
    unresolved: float  # variance of the number within nodes that a release tells apart

    @classmethod
    def of(
        cls, encodings: FloatArray, values: FloatArray, prior: FloatArray, scale: float
    ) -> "_Number":
        """Rotate into the coordinates that the encodings fill."""
        prior = prior / prior.sum()
        points = encodings - prior @ encodings
        # By columns first: their number may be that of the features of a model.
        if points.shape[1] > points.shape[0]:
            points = np.linalg.qr(points.T)[1].T
        _, sizes, axes = np.linalg.svd(points, full_matrices=False)
        points = points @ axes[sizes > _ROUND_OFF * sizes[:1]].T
        spread = float(np.abs(points).max(initial=0.0))
        points = points / max(scale, _ROUND_OFF * spread, np.finfo(float).tiny)
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        shares = 0.5 * (prior[1:] + prior[:-1])
        apart = np.where(steps > _TOLD_APART, shares * (0.5 * np.diff(values)) ** 2, 0.0)
        return cls(points, values - prior @ values, prior, float(apart.sum()))

    @property
    def variance(self) -> float:
        """Variance of the prior."""
        return float(self.prior @ self.values**2)

    def _first_moments(self) -> tuple[FloatArray, FloatArray]:
        return self.prior * self.values, self.prior * self.values**2

    def risk(self, n_draws: int, generator: np.random.Generator) -> tuple[float, float]:
        """Bayes risk and its error, by quadrature where the encodings allow."""
        if self.variance == 0.0 or self.points.shape[1] == 0:
            return self.variance, self.unresolved
        for k in range(1, min(_MOST_DIMENSIONS, self.points.shape[1]) + 1):
            hidden = self._hidden(k)
            if not self._affordable(k) or hidden > _LEFT_OUT * np.sqrt(self.variance):
                continue
            risk, error = self._integrated(k)
            if (left_out := hidden * np.sqrt(risk)) <= _LEFT_OUT * risk:
                return self._clipped(risk, error + left_out)
        risk, error = self._simulated(n_draws, generator)
        return self._clipped(risk, error)

    def _clipped(self, risk: float, error: float) -> tuple[float, float]:
        error += self.unresolved + _LOST * self.variance
        return min(max(risk, 0.0), self.variance), error

    def _hidden(self, k: int) -> float:
        """Bound what the coordinates after the first k lower the risk by, over its root."""
        rest = float((self.points[:, k:] ** 2).sum(axis=1).max(initial=0.0))
        if rest > 1.0:
            return np.inf
        return float(np.sqrt(np.expm1(rest)) * np.ptp(self.values))

    def _axes(self, k: int) -> list[FloatArray]:
        """Nodes along the first k coordinates, about all encodings that are possible."""
        points = self.points[self.prior > 0.0, :k]
        low, high = points.min(axis=0) - _TAILS, points.max(axis=0) + _TAILS
        counts = np.ceil((high - low) / _SPACING).astype(np.intp) + 1
        ends = zip(low, high, counts, strict=True)
        return [np.linspace(start, stop, int(n)) for start, stop, n in ends]

    def _affordable(self, k: int) -> bool:
        points = self.points[:, :k]
        nodes = np.prod((np.ptp(points, axis=0) + 2.0 * _TAILS) / _SPACING)
        return bool(nodes * len(points) <= _MOST_TERMS)

    def _integrated(self, k: int) -> tuple[float, float]:
        """Risk given the first k coordinates of a release, and the error of the grid."""
        axes = self._axes(k)
        factors = [
            np.exp(-0.5 * (axis[:, None] - self.points[:, j]) ** 2) for j, axis in enumerate(axes)
        ]
        left, last = np.ones((1, len(self.values))), factors[-1]
        for factor in factors[:-1]:
            left = (left[:, None] * factor[None]).reshape(-1, len(self.values))
        cell = np.prod([(axis[1] - axis[0]) / np.sqrt(2.0 * np.pi) for axis in axes])
        # Every other node is a quadrature as well, whose error is larger.
        parity = sum(np.ix_(*(np.arange(len(axis)) for axis in axes[:-1])), np.zeros(1, np.intp))
        signs = np.where((np.ravel(parity)[:, None] + np.arange(len(last))) % 2, -1.0, 1.0)
        risk = error = gap = 0.0
        for start in range(0, len(left), rows := max(1, _BLOCK // last.size)):
            # Moments over the even and over the odd nodes of the grid, (2, 3, n_left, n_last).
            moments = np.stack(
                [
                    [
                        (left[start : start + rows, half] * weight[half]) @ last[:, half].T
                        for weight in (self.prior, *self._first_moments())
                    ]
                    for half in (slice(0, None, 2), slice(1, None, 2))
                ]
            )
            weights, variances, gaps = _variances(moments[0], moments[1])
            risk += float((weights * variances).sum() * cell)
            error += float((weights * gaps).sum() * cell)
            gap += float((signs[start : start + rows] * weights * variances).sum() * cell)
        return risk, error + abs(gap)

    def _simulated(self, n_draws: int, generator: np.random.Generator) -> tuple[float, float]:
        """Risk over drawn releases, and four standard errors with the error of the grid.

        Only what the other coordinates lower the variances by is drawn where the risk given the
        first ones is integrated.
        """
        # One value of each slice of the prior: the variance over them does not grow.
        shares = (np.arange(n_draws) + generator.random(n_draws)) / n_draws
        drawn = np.searchsorted(np.cumsum(self.prior)[:-1], shares)
        noise = generator.normal(size=(n_draws, self.points.shape[1]))
        known = [k for k in range(1, _MOST_DIMENSIONS + 1) if self._affordable(k)]
        found = []
        for start in range(0, n_draws, rows := max(1, _BLOCK // len(self.values))):
            some = slice(start, start + rows)
            releases = self.points[drawn[some]] + noise[some]
            variances, gaps = self._given(releases)
            control = self._given(releases[:, : known[-1]])[0] if known else variances
            found.append([variances, variances - control, gaps])
        variances, differences, gaps = np.concatenate(found, axis=1)
        risk, error = 0.0, float(gaps.mean())
        if known and np.std(differences) < np.std(variances):
            risk, more = self._integrated(known[-1])
            variances, error = differences, error + more
        error += _N_ERRORS * float(np.std(variances, ddof=1)) / np.sqrt(n_draws)
        return risk + float(variances.mean()), error

    def _given(self, releases: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior variances and errors of the grid, (n_releases,), given coordinates.

        Shapes: ``releases`` (n_releases, k), the first k coordinates.
        """
        points = self.points[:, : releases.shape[1]]
        scores = releases @ points.T - 0.5 * (points**2).sum(axis=1)
        scores[:, self.prior == 0.0] = -np.inf
        likelihood = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = np.stack([self.prior, *self._first_moments()], axis=1)
        even, odd = (
            (likelihood[:, half] @ weights[half]).T
            for half in (slice(0, None, 2), slice(1, None, 2))
        )
        return _variances(even, odd)[1:]


def _variance(moments: FloatArray) -> FloatArray:
    """Posterior variances (...) from the sums of weights, and of first and second moments (3, ...).

    Zero where nothing has any weight.
    """
    total, first, second = moments
    safe = np.where(total > 0.0, total, 1.0)
    return np.where(total > 0.0, np.maximum(second / safe - (first / safe) ** 2, 0.0), 0.0)


def _variances(even: FloatArray, odd: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, posterior variances, and their largest difference to those of half of the nodes.

    Shapes: ``even``, ``odd`` (3, ...), sums over every other node; returns (...) each.
    """
    both = even + odd
    variance = _variance(both)
    gap = np.maximum(np.abs(_variance(even) - variance), np.abs(_variance(odd) - variance))
    return both[0], variance, gap


def cramer_rao_mse(
    fisher_information: npt.ArrayLike,
    bias_jacobian: npt.ArrayLike | None = None,
    squared_bias: npt.ArrayLike = 0.0,
) -> Any:
    """Cramer-Rao bound on the mean squared error per coordinate ([DRA22] theorem 2).

    An estimator of z in R^d with bias b(z) has mean ``mu(z) = z + b(z)``, whose Jacobian is
    ``J = I + db/dz``, and

        E |z^ - z|^2 / d >= tr(J F^-1 J^T) / d + |b|^2 / d

    with F the Fisher information matrix of the release about z.

    Parameters
    ----------
    fisher_information : float or array-like of shape (..., d, d)
        Fisher information; symmetric and positive semi-definite, or one number for a scalar z.
    bias_jacobian : array-like of shape (..., d, d), default=None
        ``db/dz``, the Jacobian of the *bias* (not of the mean): zero, the default, for an unbiased
        estimator, minus the identity for a constant one.
    squared_bias : array-like of shape (...), default=0
        ``|b|^2 / d``, mean squared bias of a coordinate.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of z. Infinite where the information is singular in a direction that the
        estimator's mean moves along: no estimator with that bias has finite variance. A direction
        that it does not move along costs nothing.

    Raises
    ------
    ValueError
        For shapes that do not match, infinite entries, a matrix that is not symmetric or has a
        negative eigenvalue, or a negative `squared_bias`.

    Notes
    -----
    The spectral norm alone, a Fisher information loss eta, gives the weaker bound ``1 / eta^2``.

    Assumptions: the attacker knows all but z; the density of the release is differentiable in z
    (Gaussian noise is enough). Biased attackers, for instance ones with a prior, may err less than
    the unbiased bound. Eigenvalues below ``d`` machine epsilons of the largest count as zero,
    once each coordinate is in units of its own information.

    Examples
    --------
    >>> cramer_rao_mse([[4.0, 0.0], [0.0, 1.0]])
    0.625
    >>> cramer_rao_mse([[4.0, 0.0], [0.0, 0.0]])
    inf
    >>> cramer_rao_mse([[4.0, 0.0], [0.0, 0.0]], bias_jacobian=[[0, 0], [0, -1]])
    0.125
    """
    information = check_information("fisher_information", fisher_information)
    d = information.shape[-1]
    slope = np.eye(d)
    if bias_jacobian is not None:
        jacobian = check_numbers("bias_jacobian", bias_jacobian)
        jacobian = jacobian.reshape(1, 1) if jacobian.ndim == 0 else jacobian
        if jacobian.shape[-2:] != (d, d) or not np.all(np.isfinite(jacobian)):
            raise ValueError(
                f"`bias_jacobian` must be finite and of shape (..., {d}, {d}); got "
                f"{jacobian.shape}."
            )
        slope = slope + jacobian
    bias = check_real("squared_bias", squared_bias)
    broadcast_shape(
        fisher_information=information.shape[:-2],
        bias_jacobian=slope.shape[:-2],
        squared_bias=bias.shape,
    )
    values, directions = _eigen("fisher_information", information)
    top = np.maximum(values[..., -1:], 0.0)
    moved = ((slope @ directions) ** 2).sum(axis=-2)
    eps = np.finfo(float).eps
    singular = values <= d * eps * top
    # Motion at the level of round-off is none: the bound must not become infinite by it.
    lengths = (slope**2).sum(axis=(-2, -1))[..., None] * (directions**2).sum(axis=-2)
    terms = np.where(
        singular,
        np.where(moved <= eps * lengths, 0.0, np.inf),
        moved / np.where(singular, 1.0, values),
    )
    return as_result(terms.sum(axis=-1) / d + bias)


def check_information(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return symmetric finite matrices of shape (..., d, d)."""
    information = check_numbers(name, value, finite=True)
    if information.ndim == 0:
        information = information.reshape(1, 1)
    if information.ndim < 2 or information.shape[-1] != information.shape[-2]:
        raise ValueError(
            f"`{name}` must be a number or square matrices of shape (..., d, d); got "
            f"shape {information.shape}. Pass n scalar informations as shape (n, 1, 1)."
        )
    flipped = np.swapaxes(information, -1, -2)
    scale = np.abs(information).max(axis=(-2, -1), keepdims=True)
    if np.any(np.abs(information - flipped) > 1e-8 * scale):
        raise ValueError(f"`{name}` must be symmetric; it differs from its transpose.")
    return 0.5 * (information + flipped)


def fisher_information_loss_mse(eta: npt.ArrayLike) -> Any:
    """Lower bound ``1 / eta^2`` on the mean squared error per coordinate ([FIL21], [DRA22]).

    The Fisher information loss ``eta`` is the root of the largest eigenvalue of the Fisher
    information matrix, so that ``tr(F^-1) / d >= 1 / eta^2`` ([DRA22] theorem 2).

    Parameters
    ----------
    eta : array-like of shape (...)
        Fisher information loss, in reciprocal units of the attacked quantity; at least 0, infinite
        without noise. The diagonal loss ``sqrt(tr(F) / d)`` is also allowed, and gives the tighter
        bound ``d / tr(F)``.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of the attacked quantity; infinite at ``eta = 0``, 0 at infinity.

    Raises
    ------
    ValueError
        For negative `eta`.

    Notes
    -----
    Assumptions: an unbiased attacker who knows everything else. (The line below [FIL21] eq. 12
    misprints the reciprocal.)

    Examples
    --------
    >>> fisher_information_loss_mse([0.0, 0.5, 2.0])
    array([ inf, 4.  , 0.25])
    """
    eta = check_real("eta", eta)
    with np.errstate(divide="ignore", over="ignore"):
        return as_result((1.0 / eta) ** 2)


def hammersley_chapman_robbins_mse(
    epsilon: npt.ArrayLike,
    diameters: npt.ArrayLike,
    contraction: npt.ArrayLike = 1.0,
    squared_bias: npt.ArrayLike = 0.0,
) -> Any:
    """Lower bound on the mean squared error from Renyi DP of order 2 ([DRA22] theorem 1).

    By the inequality of Hammersley, Chapman and Robbins, for an estimator of bias b at z,

        E |z^ - z|^2 / d >= sum_i gamma_i^2 diam_i^2 / (4 d (exp(epsilon) - 1)) + |b|^2 / d.

    Parameters
    ----------
    epsilon : array-like of shape (...)
        (2, epsilon)-RDP of the release under replacement of the record, at least 0. For output
        perturbation it is ``(2 L R / (n alpha sigma))^2``: the square, which [DRA22] 7.1 omits.
    diameters : array-like of shape (..., d)
        Width of the domain in each coordinate with the others fixed; at least 0, finite.
    contraction : array-like of shape (..., d), default=1
        ``gamma_i``, smallest absolute derivative of the estimator's i-th mean in z_i over the
        domain; 1 where it is unbiased, 0 where it is constant.
    squared_bias : array-like of shape (...), default=0
        ``|b|^2 / d``, mean squared bias of a coordinate at z.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of the attacked quantity. Infinite at ``epsilon = 0``, unless the
        estimator's mean is constant: that costs the squared bias and nothing else.

    Raises
    ------
    ValueError
        For negative arguments, infinite `diameters` or `contraction`, a scalar `diameters`, shapes
        that do not match, or a bound of zero: all-zero widths without bias.

    Notes
    -----
    Assumptions: the attacker knows every other record; the domain is a box with these widths. The
    bound holds at every z of it, since one end is at least half a diameter away.

    Examples
    --------
    >>> round(hammersley_chapman_robbins_mse(2.0, [1.0, 1.0]), 4)
    0.0391

    Half the way from a guess of 0.5 to an unbiased estimate, at z = (1, 1): bias 0.25.

    >>> round(hammersley_chapman_robbins_mse(2.0, [1.0, 1.0], 0.5, 0.25**2), 4)
    0.0723
    """
    epsilon = check_real("epsilon", epsilon)
    diameters = check_real("diameters", diameters)
    contraction = check_real("contraction", contraction)
    bias = check_real("squared_bias", squared_bias)
    if diameters.ndim == 0 or diameters.shape[-1] == 0:
        raise ValueError(
            "`diameters` must have the coordinates along its last axis; got shape "
            f"{diameters.shape}. Pass `[diameter]` for a scalar secret."
        )
    if not (np.all(np.isfinite(diameters)) and np.all(np.isfinite(contraction))):
        raise ValueError("`diameters` and `contraction` must be finite; got infinite entries.")
    shape = broadcast_shape(diameters=diameters.shape, contraction=contraction.shape)
    broadcast_shape(epsilon=epsilon.shape, diameters=shape[:-1], squared_bias=bias.shape)
    reach = np.broadcast_to((contraction * diameters) ** 2, shape).sum(axis=-1)
    if np.any((reach == 0.0) & (bias == 0.0)):
        raise ValueError(
            "`contraction * diameters` is zero in every coordinate, and so is `squared_bias`: the "
            "bound is vacuous. Give the domain a width."
        )
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        variance = reach / (4.0 * shape[-1] * np.expm1(epsilon))
    return as_result(np.where(reach > 0.0, variance, 0.0) + bias)


def van_trees_mse(fisher_information: npt.ArrayLike, prior_information: npt.ArrayLike) -> Any:
    """Lower bound on the mean squared error per coordinate for any attacker (van Trees 1968).

    An attacker with a prior of density f on z in R^d errs, on average over z and the release, by

        E |z^ - z|^2 / d >= tr((E_f[F(z)] + J(f))^-1) / d,    J(f) = E_f[grad log f grad log f^T],

    whatever the bias (for this setting: Maeng, Guo, Kariyappa, Suh, NeurIPS 2023).

    Parameters
    ----------
    fisher_information : float or array-like of shape (..., d, d)
        ``E_f[F(z)]``, the Fisher information of the release **averaged over the prior**, not that
        at the actual value; symmetric and positive semi-definite, or one number for a scalar z.
    prior_information : float or array-like of shape (..., d, d)
        ``J(f)``, the Fisher information of the prior about its location: for a normal prior the
        inverse of its covariance, ``1 / s^2`` for a number with standard deviation s.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of z; infinite where neither the release nor the prior says anything about
        a coordinate.

    Raises
    ------
    ValueError
        For shapes that do not match, NaN or infinite entries, or a matrix that is not symmetric or
        has a negative eigenvalue.

    See Also
    --------
    bayes_mse : The least error itself, where the encodings of all values are known.
    cramer_rao_mse : The bound for unbiased attackers, who have no prior.

    Notes
    -----
    Assumptions: f is differentiable and falls to zero at the ends of its support, and the density
    of the release is differentiable in z. Priors with a jump or an edge, such as the uniform one,
    have infinite information: their bound is 0. The bound is reached where prior and release are
    normal, and the mean of the release linear in z.

    Examples
    --------
    A number with standard deviation 2, and a release with a standard error of 1: Cramer-Rao allows
    unbiased attackers an error of 1, and whoever knows the prior 0.8.

    >>> round(van_trees_mse(1.0, 0.25), 4)
    0.8
    >>> van_trees_mse([[4.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    0.6
    """
    information = check_information("fisher_information", fisher_information)
    prior = check_information("prior_information", prior_information)
    if information.shape[-1] != prior.shape[-1]:
        raise ValueError(
            "`fisher_information` and `prior_information` must be about the same d numbers; got "
            f"d = {information.shape[-1]} and {prior.shape[-1]}."
        )
    broadcast_shape(fisher_information=information.shape[:-2], prior_information=prior.shape[:-2])
    for name, matrix in (("fisher_information", information), ("prior_information", prior)):
        _eigen(name, matrix)
        # A coordinate without variance has no covariance either.
        bare = np.diagonal(matrix, axis1=-2, axis2=-1) == 0.0
        if np.any(bare[..., None] & (matrix != 0.0)):
            raise _indefinite(name)
    total = information + prior
    values, directions = _eigen("fisher_information", total)
    # An eigenvalue that drowns in round-off may be as large as this: infinity would promise more.
    values = np.maximum(values, values.shape[-1] * np.finfo(float).eps)
    with np.errstate(over="ignore"):  # beyond the largest double: infinite
        variances = ((directions**2).sum(axis=-2) / values).sum(axis=-1)
    unknown = (np.diagonal(total, axis1=-2, axis2=-1) == 0.0).any(axis=-1)
    return as_result(np.where(unknown, np.inf, variances / total.shape[-1]))


def _eigen(name: str, information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues in units in which each coordinate has information one, whatever the user's are.

    Shapes: ``information`` (..., d, d); returns the values (..., d), ascending, and the vectors
    (..., d, d), in columns and in the units of the user.
    """
    diagonal = np.diagonal(information, axis1=-2, axis2=-1)
    units = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(information * units[..., :, None] * units[..., None, :])
    if np.any(values < -1e-8 * np.maximum(values[..., -1:], 0.0)):
        raise _indefinite(name)
    return values, units[..., :, None] * vectors


def _indefinite(name: str) -> ValueError:
    return ValueError(f"`{name}` must be positive semi-definite; got an eigenvalue below zero.")
