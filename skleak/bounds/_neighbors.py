"""Bounds of membership from curves of neighboring tables.

Guessing a secret where only a trade-off curve between any two of its values is known.

With decision regions A_m, ``s_m = P_m(A_m)``, and f the curve, the test that rejects value m on A_k
has power s_k, so ``P_m(A_k) >= h(s_k)`` with ``h(s) = f^-1(1 - s)``; the regions fill the space:

    success = sum_m p_m s_m,    s_m + sum_{k != m} h(s_k) <= 1  for every m.

h is convex and piecewise linear, so this is a linear program. For any multipliers ``w_m >= 0`` with
sum W its dual function

    W + sum_m max_s [ (p_m - w_m) s - (W - w_m) h(s) ]

is an upper bound: solving badly only enlarges it.

Guessing where every two releases are mu-GDP neighbors and no common reference is known.

With decision regions A_m, ``s_m = P_m(A_m)`` and ``g(s) = Phi(Phi^-1(s) - mu)``, the trade-off
between the values k and m says ``P_m(A_k) >= g(s_k)``, and the regions fill the space:

    success = sum_m p_m s_m,    s_m + sum_{k != m} g(s_k) <= 1  for every m.

g is convex, so this is a convex program. Its Lagrangian separates: for any ``w_m >= 0`` with sum W

    success <= W + sum_m max_s [ (p_m - w_m) s - (W - w_m) g(s) ]
             = W + sum_m (p_m - w_m)_+ Phi(u_m) - (W - w_m) Phi(u_m - mu),
    u_m = mu / 2 + log((p_m - w_m)_+ / (W - w_m)) / mu.

What is returned is this expression, an upper bound for *any* w: solving badly only enlarges it.

The best w. At W the best weights equalize ``s_m - g(s_m)`` over the values that have one. That
function of s is the same at the likelihood ratios r < 1 and 1 / r, so that one number r decides
all: ``w_m = (min(p_m, W) - r max(p_m, W))_+ / (1 - r)``, with r such that their sum is W. The dual
is convex in W, with slope ``1 - sum_m g(s_m) - c``, c being the common ``s - g(s)``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, kron, vstack
from scipy.special import log_ndtr, ndtr, ndtri

from skleak.bounds._fano import root_above
from skleak.bounds._tradeoff import gaussian_tradeoff_advantage
from skleak.bounds.priors import MAX_DISTANCE, TINY, Prior, is_likeliest, parse_prior
from skleak.utils._arguments import as_result, broadcast_shape, check_choice, check_real
from skleak.utils._blocks import row_blocks
from skleak.utils._geometry import lower_hull
from skleak.utils._typing import FloatArray

# Points may lie above a convex curve by this much, as rounding leaves them.
_ROUND_OFF = 1e-9


def curve_advantage(
    alpha: npt.ArrayLike,
    beta: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    reference: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    between: str = "below",
) -> Any:
    """Upper bound on the advantage from a trade-off curve between any two values of a secret.

    Let ``s_m`` be the probability of a right guess where the secret has value m, f the curve, and
    ``h(s) = f^-1(1 - s)``, the least that the region of a guess with that success weighs under any
    other value. The regions fill the space, so

        success <= max { sum_m p_m s_m : s_m + sum_{k != m} h(s_k) <= 1 for all m },

    a linear program, evaluated through its dual.

    Parameters
    ----------
    alpha, beta : array-like of shape (n_points,)
        Points of the curve, in any order: ``beta`` is the least false-negative rate of a test at
        the false-positive rate ``alpha``, both in [0, 1]. The curve has to hold for every ordered
        pair of values, as it does under replacement of a record.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    reference : tuple of two array-like of shape (n_points_reference,), default=None
        Points of a curve that holds for tests of one common reference, such as a run without the
        secret, against every value. It adds the bound
        ``max { sum_m p_m (1 - f(kappa_m)) : sum_m kappa_m = 1 }`` ([HMB23]), and the smaller of the
        two is returned.
    between : {"below", "linear"}, default="below"
        What is taken between points: for "below" the least that a convex curve through them can
        be, which the curve has to be (the smallest of several curves is not); for "linear" the
        straight line, which is right for the corners of a polygon that is a curve or lies below
        one (a discrete privacy loss), and too high, hence too optimistic, for points of a smooth
        curve.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1].

    Raises
    ------
    ValueError
        For rates outside [0, 1], fewer than two points, points that no decreasing curve below
        ``1 - alpha`` has, for "below" points that no convex curve has, or an invalid prior.

    See Also
    --------
    gdp_advantage : The curve of a Gaussian mechanism, in closed form.
    dp_advantage : The curve of (epsilon, delta)-differential privacy, in closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.bounds import gdp_advantage
    >>> from scipy.special import ndtr, ndtri
    >>> alpha = np.linspace(0.0, 1.0, 1001)
    >>> beta = ndtr(ndtri(1.0 - alpha) - 1.0)
    >>> round(curve_advantage(alpha, beta, 10), 3), round(gdp_advantage(1.0, 10), 3)
    (0.254, 0.254)
    """
    curve = _Curve.of("", alpha, beta, between)
    parsed = parse_prior(prior)
    p, success = parsed.probabilities, np.empty(parsed.batch_shape)
    center = None if reference is None else _Curve.of(" of `reference`", *reference, between)
    if p is None:
        success[...] = curve.uniform_success(float(parsed.n_values))
        if center is not None:
            success[...] = min(float(success), 1.0 - float(center.at(parsed.largest)))
    else:
        for index in np.ndindex(parsed.batch_shape):
            found = [curve.success(p[index])]
            if center is not None:
                found.append(center.reference_success(p[index]))
            success[index] = min(found)
    return as_result(np.clip((success - parsed.largest) / parsed.rest, 0.0, 1.0))


@dataclass(frozen=True)
class _Curve:
    """A convex, decreasing, piecewise linear curve from (0, beta_0) to (1, 0), below a true one."""

    alpha: FloatArray  # Ascending, from 0 to 1, (K,)
    beta: FloatArray  # Descending, to 0, (K,)

    @classmethod
    def of(cls, name: str, alpha: npt.ArrayLike, beta: npt.ArrayLike, between: str) -> "_Curve":
        check_choice("between", between, ("below", "linear"))
        points = _points(name, alpha, beta)
        x, y = _hull(*points)
        if between == "below":
            if np.any(points[1] > np.interp(points[0], x, y) + _ROUND_OFF):
                raise ValueError(
                    f"`alpha` and `beta`{name} must be points of one convex curve where `between` "
                    "is 'below'; got some that lie above the line through two others, as those of "
                    "the smallest of several curves do. Pass the corners of polygons below these "
                    "curves, all together, with `between='linear'`."
                )
            x, y = _hull(*_below(x, y))
        if x[0] > 0.0:
            x, y = np.r_[0.0, x], np.r_[y[0], y]  # it decreases
        return cls(x, y)

    def at(self, alpha: FloatArray) -> FloatArray:
        """Least false-negative rate at given false-positive rates."""
        return np.asarray(np.interp(alpha, self.alpha, self.beta))

    @property
    def least(self) -> tuple[FloatArray, FloatArray]:
        """Vertices ``(s, h(s))`` of ``h(s) = f^-1(1 - s)``, s ascending from 0 to 1."""
        s, h = 1.0 - self.beta, self.alpha
        if s[0] > 0.0:
            s, h = np.r_[0.0, s], np.r_[0.0, h]
        # Corners so near each other that they have one s: the least mass is that of the first.
        kept = np.r_[True, np.diff(s) > 0.0]
        return s[kept], h[kept]

    def uniform_success(self, n_values: float) -> float:
        """Solve ``s + (M - 1) h(s) = 1``: by symmetry and convexity all s_m are equal."""
        s, h = self.least
        total = s + (n_values - 1.0) * h
        k = int(np.searchsorted(total, 1.0))  # ascending from 0 to 1 at least
        if k == 0:
            return float(s[0])
        share = (1.0 - total[k - 1]) / (total[k] - total[k - 1])
        return float(min(1.0, s[k - 1] + share * (s[k] - s[k - 1])))

    def success(self, p: FloatArray) -> float:
        """Bound the success for a prior of shape (M,), by the dual at the multipliers of HiGHS."""
        p = p[p > 0.0]
        if len(p) == 2 and self._symmetric:
            # Both constraints say that (1 - s_1, 1 - s_2) lies on the curve or above it.
            corners = np.stack([self.alpha, self.beta])
            return float(1.0 - min((p @ corners).min(), (p @ corners[::-1]).min()))
        s, h = self.least
        slopes = np.diff(h) / np.diff(s)
        offsets = h[1:] - slopes * s[1:]
        m, k = len(p), len(slopes)
        eye = csr_array(np.eye(m))
        # Unknowns s_m and t_m >= h(s_m): s_m - t_m + sum_k t_k <= 1, and a line for each piece.
        fill = hstack([eye, csr_array(np.ones((m, m)) - np.eye(m))])
        lines = hstack([kron(eye, slopes[:, None]), -kron(eye, np.ones((k, 1)))])
        found = linprog(
            np.r_[-p, np.zeros(m)],
            vstack([fill, lines]),
            np.r_[np.ones(m), np.tile(-offsets, m)],
            bounds=[(0.0, 1.0)] * m + [(0.0, None)] * m,
            method="highs",
        )
        candidates = [np.where(np.arange(m) == np.argmax(p), p, 0.0), np.zeros(m)]
        if found.status == 0:
            candidates.append(np.maximum(-found.ineqlin.marginals[:m], 0.0))
        return min(_dual(p, w, s, h) for w in candidates)

    @property
    def _symmetric(self) -> bool:
        """Return True if the curve is its own inverse."""
        mirrored = np.interp(self.beta, self.alpha, self.beta)
        return bool(np.all(np.abs(mirrored - self.alpha)[self.beta > 0.0] < 1e-12))

    def reference_success(self, p: FloatArray) -> float:
        """Fill the steepest pieces of ``sum_m p_m (1 - f(kappa_m))`` first."""
        gain = np.multiply.outer(p, -np.diff(self.beta)).ravel()
        width = np.tile(np.diff(self.alpha), len(p))
        order = np.argsort(-gain / width)
        filled = np.cumsum(width[order])
        share = np.clip(1.0 - (filled - 1.0) / width[order], 0.0, 1.0)
        return float(p.sum() * (1.0 - self.beta[0]) + share @ gain[order])


def _dual(p: FloatArray, w: FloatArray, s: FloatArray, h: FloatArray) -> float:
    """Dual function: the inner maxima of a piecewise linear function lie at its vertices."""
    total = w.sum()
    inner = np.multiply.outer(p - w, s) - np.multiply.outer(total - w, h)
    return float(total + inner.max(axis=1).sum())


def _points(name: str, alpha: npt.ArrayLike, beta: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Validate and sort points, and add the one that every curve has, f(1) = 0."""
    alpha = np.ravel(check_real(f"alpha{name}", alpha, high=1.0))
    beta = np.ravel(check_real(f"beta{name}", beta, high=1.0))
    if len(alpha) != len(beta) or len(alpha) < 2:
        raise ValueError(
            f"`alpha` and `beta`{name} must hold at least 2 points of a curve, as many of each; "
            f"got {len(alpha)} and {len(beta)}."
        )
    order = np.lexsort((-beta, alpha))
    alpha, beta = alpha[order], beta[order]
    if np.any(alpha + beta > 1.0 + _ROUND_OFF) or np.any(np.diff(beta) > _ROUND_OFF):
        raise ValueError(
            f"`alpha` and `beta`{name} must be points of a trade-off curve, which decreases and "
            "lies at or below `1 - alpha`. Exchange power for the false-negative rate, "
            "`beta = 1 - power`."
        )
    return np.r_[alpha, 1.0], np.r_[beta, 0.0]


def _hull(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of the largest convex curve below points, which guessing bounds as well."""
    return lower_hull(alpha, np.clip(beta, 0.0, 1.0 - alpha))


def _below(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lowest points that a convex curve through given corners can have between them.

    Between two corners it lies above the lines through the two before and through the two after:
    lowest is where these cross.
    """
    if len(alpha) < 3:
        return np.array([0.0, 1.0]), np.zeros(2)
    slope = np.diff(beta) / np.diff(alpha)
    before, after = slope[:-2], slope[2:]
    x0, y0, x1, y1 = alpha[1:-2], beta[1:-2], alpha[2:-1], beta[2:-1]
    bend = before - after
    x = x0 + (y1 - y0 - after * (x1 - x0)) / np.where(bend < 0.0, bend, -np.inf)
    x = np.clip(x, x0, x1)
    y = y0 + before * (x - x0)
    start = beta[1] - slope[1] * alpha[1]
    end = alpha[-2] - beta[-2] / slope[-2]
    return np.r_[0.0, x, end], np.r_[start, y, 0.0]


# Bisections of log W, whose optimum lies within the first factor of the likeliest value.
LOWEST_LOG_TOTAL = -30.0
BISECTIONS = 60


def pairwise_advantage(mu: FloatArray, prior: FloatArray) -> FloatArray:
    """Bound the advantage for mu of shape (n,) and priors of shape (n, M), from the dual."""
    mu = np.clip(mu, TINY, MAX_DISTANCE)[:, np.newaxis]
    largest = prior.max(axis=1, keepdims=True)
    # Relative to the likeliest value: only its weight is 1 where the prior decides alone.
    p = prior / largest
    low, high = np.full(len(p), LOWEST_LOG_TOTAL), -np.log(largest[:, 0])
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        rising = _slope(mu, p, np.exp(middle)[:, np.newaxis]) >= 0.0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    total = np.exp(0.5 * (low + high))[:, np.newaxis]
    star = is_likeliest(p)
    rest = np.where(star, 0.0, p).sum(axis=1)
    solved = _dual_gain(mu, p, _weights(p, total)[0])
    prior_alone = _dual_gain(mu, p, np.where(star, 1.0, 0.0))
    return np.clip(np.minimum(solved, prior_alone) / rest, 0.0, 1.0)


def _weights(p: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Best weights of shape (n, M) with that sum, and the likelihood ratio r of shape (n, 1).

    ``sum_m (low_m - r high_m)_+ = (1 - r) W`` is solved exactly: its left side is a maximum of
    lines, each the sum over the values above some ratio ``low_m / high_m``.
    """
    low, high = np.minimum(p, total), np.maximum(p, total)
    order = np.argsort(-low / high, axis=1)
    lows = np.cumsum(np.take_along_axis(low, order, axis=1), axis=1) - total
    highs = np.cumsum(np.take_along_axis(high, order, axis=1), axis=1) - total
    roots = np.where((lows > 0.0) & (highs > 0.0), lows / np.where(highs > 0.0, highs, 1.0), 0.0)
    ratio = np.minimum(roots.max(axis=1, keepdims=True), 1.0 - 1e-15)
    return np.maximum(low - ratio * high, 0.0) / (1.0 - ratio), ratio


def _slope(mu: FloatArray, p: FloatArray, total: FloatArray) -> FloatArray:
    """Return the derivative of the dual in W, of shape (n,)."""
    weights, ratio = _weights(p, total)
    thresholds = _thresholds(mu, p, weights, total)
    with np.errstate(divide="ignore", over="ignore"):
        common = 0.5 * mu + np.log(ratio) / mu
    level = (ndtr(common) - ndtr(common - mu))[:, 0]
    return 1.0 - ndtr(thresholds - mu).sum(axis=1) - level


def _thresholds(
    mu: FloatArray, p: FloatArray, weights: FloatArray, total: FloatArray
) -> FloatArray:
    """``u_m = Phi^-1(s_m)`` of shape (n, M)."""
    gain, loss = np.maximum(p - weights, 0.0), np.maximum(total - weights, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        thresholds = 0.5 * mu + (np.log(gain) - np.log(loss)) / mu
    return np.where(gain > 0.0, thresholds, -np.inf)


def _dual_gain(mu: FloatArray, p: FloatArray, weights: FloatArray) -> FloatArray:
    """Dual function at any weights, less the prior's best guess, over p*; shape (n,)."""
    total = weights.sum(axis=1, keepdims=True)
    u = _thresholds(mu, p, weights, total)
    gain, loss = np.maximum(p - weights, 0.0), np.maximum(total - weights, 0.0)
    return (total[:, 0] - 1.0) + (gain * ndtr(u) - loss * ndtr(u - mu)).sum(axis=1)


def uniform_pairwise_advantage(mu: FloatArray, n_values: FloatArray) -> FloatArray:
    """Bound the advantage for M equally likely values, however many: a root in one dimension.

    All ``s_m`` are equal by symmetry and convexity, so ``s + (M - 1) g(s) = 1``, which is solved
    for ``Phi^-1(s)`` above that of 1 / M as ``Phi(-u) = (M - 1) Phi(u - mu)``.
    """
    mu, n_values = np.broadcast_arrays(np.clip(mu, 0.0, MAX_DISTANCE), n_values)
    start = ndtri(1.0 / n_values)
    log_others = np.log(n_values - 1.0)

    def excess(
        step: FloatArray, mu: FloatArray, start: FloatArray, log_others: FloatArray
    ) -> FloatArray:
        return log_others + log_ndtr(start + step - mu) - log_ndtr(-(start + step))

    # s lies between 1 / M and what a reference among the values would allow.
    bracket = np.full(mu.shape, -1e-9), mu + 1e-9
    step = np.clip(root_above(excess, *bracket, mu, start, log_others), 0.0, mu)
    growth = np.expm1(log_ndtr(start + step) - log_ndtr(start))
    gain = growth / (n_values - 1.0)
    loss = ndtr(-(start + step)) * (n_values / (n_values - 1.0))
    # Small gains as a ratio, small failures directly: each keeps its digits.
    return np.clip(np.where(gain < 0.5, gain, 1.0 - loss), 0.0, 1.0)


def gdp_advantage(
    mu: npt.ArrayLike, prior: npt.ArrayLike, reference_mu: npt.ArrayLike | None = None
) -> Any:
    """Upper bound on the advantage from mu-Gaussian differential privacy alone.

    Let ``s_m`` be the probability of a right guess where the secret has value m. Any two values
    being mu-GDP neighbors, and the decision regions filling the space,

        success <= max { sum_m p_m s_m : s_m + sum_{k != m} Phi(Phi^-1(s_k) - mu) <= 1 for all m },

    a convex program that is evaluated through its dual, an upper bound at any multipliers. For M
    equally likely values it is the root of ``s + (M - 1) Phi(Phi^-1(s) - mu) = 1``, for two values
    exact: ``2 Phi(mu / 2) - 1``.

    Parameters
    ----------
    mu : array-like of shape (...)
        Parameter of Gaussian differential privacy between any two values of the secret, at least
        0; infinity is allowed.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    reference_mu : array-like of shape (...), default=None
        Parameter between every value and one common reference, for instance a run without the
        secret; half of `mu` for clipped sums of gradients. It adds the trade-off bound
        ``max { sum_m p_m Phi(Phi^-1(kappa_m) + reference_mu) : sum_m kappa_m = 1 }`` ([HMB23]), and
        the smaller of the two is returned. None where no such run is known.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; 0 at ``mu = 0``.

    Raises
    ------
    ValueError
        For negative `mu` or `reference_mu`, an invalid prior, or shapes that do not broadcast.

    See Also
    --------
    tradeoff_advantage : Tighter where the encodings are known.

    Notes
    -----
    Assumptions: distinguishing the releases under two values of the secret is no easier than
    distinguishing N(0, 1) from N(mu, 1); replacement adjacency. Best possible from the pairs alone,
    although no Gaussian mechanism reaches it for three values or more.

    Examples
    --------
    >>> round(gdp_advantage(1.0, 2), 4)
    0.3829
    >>> gdp_advantage([0.0, 0.5], [0.7, 0.2, 0.1]).round(4)
    array([0.    , 0.0012])

    Ten values, each half as far from a run without the secret:

    >>> round(gdp_advantage(1.0, 10), 4), round(gdp_advantage(1.0, 10, reference_mu=0.5), 4)
    (0.2544, 0.1303)
    """
    mu = check_real("mu", mu)
    parsed = parse_prior(prior)
    shape = broadcast_shape(mu=mu.shape, prior=parsed.batch_shape)
    if parsed.probabilities is None:
        bound = uniform_pairwise_advantage(mu, parsed.n_values)
    else:
        table = np.broadcast_to(parsed.probabilities, (*shape, parsed.probabilities.shape[-1]))
        flat = np.broadcast_to(mu, shape).reshape(-1), table.reshape(-1, table.shape[-1])
        bound = np.empty(len(flat[0]))
        for rows in row_blocks(*flat[1].shape):
            bound[rows] = pairwise_advantage(flat[0][rows], flat[1][rows])
        bound = bound.reshape(shape)
    if reference_mu is not None:
        reference = check_real("reference_mu", reference_mu)
        broadcast_shape(mu=mu.shape, prior=parsed.batch_shape, reference_mu=reference.shape)
        bound = np.minimum(bound, _reference_advantage(reference, parsed))
    return as_result(bound)


def _reference_advantage(mu: FloatArray, prior: Prior) -> FloatArray:
    """Trade-off bound with every value at the distance ``mu`` from one reference."""
    if prior.probabilities is not None:
        shape = np.broadcast_shapes(mu.shape, prior.batch_shape)
        distances = np.broadcast_to(mu[..., np.newaxis], (*shape, prior.probabilities.shape[-1]))
        return np.asarray(gaussian_tradeoff_advantage(distances, prior.probabilities))
    start = ndtri(prior.largest)
    with np.errstate(invalid="ignore"):
        # Small gains as a ratio, small failures directly: each keeps its digits.
        growth = np.expm1(log_ndtr(start + mu) - log_ndtr(start))
    gain = prior.largest * growth / prior.rest
    loss = ndtr(-(start + mu)) / prior.rest
    return np.clip(np.where(gain < 0.5, gain, 1.0 - loss), 0.0, 1.0)


def dp_advantage(epsilon: npt.ArrayLike, delta: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Largest advantage of guessing a secret under (epsilon, delta)-differential privacy: exact.

    With ``P_k`` the sum of the k largest prior probabilities, the best success probability over
    all (epsilon, delta)-DP mechanisms and all attacks is

        delta + (1 - delta) max_k P_k / (1 + (k - 1) exp(-epsilon)).

    Parameters
    ----------
    epsilon : array-like of shape (...)
        At least 0; infinity is allowed.
    delta : array-like of shape (...)
        In [0, 1].
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; 0 at ``epsilon = delta = 0``.

    Raises
    ------
    ValueError
        For negative `epsilon`, `delta` outside [0, 1], an invalid prior, or shapes that do not
        broadcast.

    Notes
    -----
    Assumptions: replacement adjacency, so that data sets that differ in the secret's value are
    neighbors; the adversary may know everything else.

    *It is a bound.* Let A_m be the decision regions, ``s_m = P_m(A_m)``, ``w = exp(-epsilon)``.
    Since ``P_m(A_m) <= exp(epsilon) P_l(A_m) + delta``, the regions' masses under P_l give, with
    ``x_m = max(s_m - delta, 0)``, that ``s_l + w sum_{m != l} x_m <= 1`` for every l. Where
    ``x_l > 0`` this says ``(1 - w) x_l + w X <= 1 - delta`` with ``X = sum_m x_m``; where
    ``x_l = 0`` it follows from that of any positive one. The success is at most
    ``delta + sum_m p_m x_m``, a linear program whose vertices have k equal entries
    ``(1 - delta) / (1 - w + w k)``, best placed on the k likeliest values.

    *It is attained* by releasing the secret itself with probability delta, and else answering at
    random among the k likeliest values, the true one ``exp(epsilon)`` times as often as any other
    (uniformly if the truth is not among them).

    Examples
    --------
    >>> round(dp_advantage(1.0, 0.0, 10), 4)
    0.1466
    >>> round(dp_advantage(1.0, 1e-5, [0.7, 0.2, 0.1]), 5)
    1e-05
    """
    epsilon = check_real("epsilon", epsilon)
    delta = check_real("delta", delta, high=1.0)
    parsed = parse_prior(prior)
    broadcast_shape(epsilon=epsilon.shape, delta=delta.shape, prior=parsed.batch_shape)
    w = np.exp(-epsilon)
    if parsed.probabilities is None:
        # 1 - w written so that a small epsilon keeps its digits.
        pure = -np.expm1(-epsilon) / (1.0 + (parsed.n_values - 1.0) * w)
    else:
        ordered = -np.sort(-parsed.probabilities, axis=-1)
        others, first = ordered[..., 1:], ordered[..., :1]
        terms = others - first - first * np.expm1(-epsilon)[..., np.newaxis]
        size = 1.0 + np.arange(1, ordered.shape[-1]) * w[..., np.newaxis]
        best = (np.cumsum(terms, axis=-1) / size).max(axis=-1)
        pure = np.maximum(best, 0.0) / parsed.rest
    return as_result(np.clip(delta + (1.0 - delta) * pure, 0.0, 1.0))
