"""Bounds on guesses from trade-off curves of pairs of values.

Where to put the reference of the trade-off bound: smallest ball, then descent.

Everything works on a batch of ``n`` channels at once. Any center gives a valid bound, so none of
this needs to converge for the bound to hold.

The trade-off bound, sharpened by what each decision region looks like across its axis.

Let A_m be the regions of the Bayes attack on Y ~ N(e_m, I), Q = N(c, I) the reference, and t the
coordinate of y - c along e_m - c. P_m and Q differ in t alone, so with h_m(t) the share of the
slice at t that lies in A_m, for any nu >= 0,

    success = nu + sum_m [p_m P_m(A_m) - nu Q(A_m)]
            = nu + sum_m int [p_m phi(t - d_m) - nu phi(t)] h_m(t) dt
           <= nu + sum_m int [p_m phi(t - d_m) - nu phi(t)]_+ H_m(t) dt     for any H_m >= h_m.

``H_m = 1`` is water filling. Here H_m comes from Slepian's lemma. Within a slice, m beats l if one
standard normal X_l lies below a linear function x_l(t), and X_l, X_k have the correlation rho_lk of
what e_l - c and e_k - c leave beside the axis. Raising correlations raises the probability of a
common orthant, and ``lambda_l^2 = max_k max(rho_lk, 0)`` makes ``lambda_l lambda_k >= rho_lk``, so

    h_m(t) <= H_m(t) = E_z prod_l Phi((x_l(t) - lambda_l z) / sqrt(1 - lambda_l^2)),  z ~ N(0, 1).

Leaving out a competitor l also only raises the product; that is done where two are nearly aligned.

*Encodings in a plane* leave one coordinate beside the axis, every X_l is that coordinate or its
negative, and h_m is exact: ``[Phi(min x_l) + Phi(min x_k) - 1]_+`` over the two signs. At nu = 0
nothing is lost to the positive part, ``t`` is integrated in closed form over polygons, and the
bound is the success of the Bayes attack. Points that leave their plane by delta_m may be moved into
it: that changes ``P_m(A_m)`` by at most the total variation ``2 Phi(delta_m / 2) - 1``.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from skleak.bounds.priors import Prior, is_likeliest, parse_prior, water_filling
from skleak.utils._arguments import as_result, broadcast_shape, check_numbers, check_real
from skleak.utils._blocks import row_blocks
from skleak.utils._geometry import log_prior, planar_success, without_wide_gaps
from skleak.utils._typing import FloatArray

BALL_ITERATIONS = 300
BALL_TOLERANCE = 1e-12
DESCENT_ITERATIONS = 40
DESCENT_TOLERANCE = 1e-6


def affine_coordinates(encodings: FloatArray) -> FloatArray:
    """Rotate M points of a high dimension into the space they span around their mean.

    Shapes: ``encodings`` (n, M, d); returns (n, M, r), ``r = min(d, M)``, at the same distances.
    """
    centered = encodings - encodings.mean(axis=1, keepdims=True)
    if encodings.shape[2] <= encodings.shape[1]:
        return centered
    return np.swapaxes(np.linalg.qr(np.swapaxes(centered, 1, 2), mode="r"), 1, 2)


def distances_to(points: FloatArray, center: FloatArray) -> FloatArray:
    """Euclidean distances of shape (n, M) from (n, M, r) points to an (n, r) center."""
    return np.linalg.norm(points - center[:, np.newaxis, :], axis=2)


def ball_weights(points: FloatArray) -> FloatArray:
    """Convex weights of the center of the smallest ball around each set of points.

    Frank-Wolfe with away steps and exact line search on the dual, ``max sum_m w_m |x_m|^2 -
    |sum_m w_m x_m|^2`` over the simplex; it converges linearly.

    Shapes: ``points`` (n, M, r); returns (n, M): rows sum to 1; the center is ``weights @
    points``.
    """
    n, n_values, _ = points.shape
    rows = np.arange(n)
    weights = np.full((n, n_values), 1.0 / n_values)
    for _ in range(BALL_ITERATIONS):
        center = (weights[:, np.newaxis, :] @ points)[:, 0, :]
        square = ((points - center[:, np.newaxis, :]) ** 2).sum(axis=2)
        average = (weights * square).sum(axis=1)
        far = square.argmax(axis=1)
        near = np.where(weights > 0.0, square, np.inf).argmin(axis=1)
        gain_far = square[rows, far] - average
        gain_near = average - square[rows, near]
        if np.all(gain_far <= BALL_TOLERANCE * average):  # the gap to the dual
            break
        toward = gain_far >= gain_near
        pick = np.where(toward, far, near)
        own = weights[rows, pick]
        # Best step towards (or away from) one point, kept inside the simplex.
        size = square[rows, pick]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = 0.5 * np.where(toward, gain_far, -gain_near) / size
            lowest = np.where(own < 1.0, -own / (1.0 - own), 0.0)
        step = np.where(size > 0.0, np.clip(np.nan_to_num(step), lowest, 1.0), lowest)
        weights = weights * (1.0 - step)[:, np.newaxis]
        weights[rows, pick] += step
        weights[rows, pick] = np.where(step <= lowest, 0.0, weights[rows, pick])
    return weights


def descend(
    points: FloatArray, prior: FloatArray, center: FloatArray, max_iter: int = DESCENT_ITERATIONS
) -> FloatArray:
    """Move the centers downhill on the trade-off bound.

    By the envelope theorem the bound changes by ``p_m phi(u_m)`` per unit of ``d_m``. Setting the
    gradient in the center to zero makes it the mean of the encodings with weights
    ``p_m phi(u_m) / d_m``; that fixed point is iterated, with shorter steps where one fails.

    Shapes: ``points`` (n, M, r), encodings in units of the noise; ``prior`` (n, M), rows sum to 1;
    ``center`` (n, r); returns (n, r): centers whose bound is no larger than at the start.
    """
    center = np.array(center, dtype=float)
    distances = distances_to(points, center)
    value, pull = water_filling(distances, prior)
    step = np.ones(len(points))
    active = np.arange(len(points))
    for _ in range(max_iter):
        here, near = points[active], np.maximum(distances[active], 1e-9)
        with np.errstate(over="ignore"):
            weights = np.minimum(pull[active] / near, 1e9)
        total = weights.sum(axis=1, keepdims=True)
        target = np.einsum("nm,nmr->nr", weights, here) / np.where(total > 0.0, total, 1.0)
        start = center[active]
        move = np.where(total > 0.0, target - start, 0.0)
        trial = start + step[active, np.newaxis] * move
        trial_distances = distances_to(here, trial)
        trial_value, trial_pull = water_filling(trial_distances, prior[active])
        drop = value[active] - trial_value
        better = drop > 0.0
        won = active[better]
        center[won], distances[won] = trial[better], trial_distances[better]
        value[won], pull[won] = trial_value[better], trial_pull[better]
        step[active] *= np.where(better, 1.5, 0.3)
        step = np.minimum(step, 4.0)
        go_on = np.where(better, drop > DESCENT_TOLERANCE * trial_value, step[active] > 1e-2)
        active = active[go_on & (total[:, 0] > 0.0)]
        if active.size == 0:
            break
    return center


# Normal tails are cut here; what is cut off is added to the bound as if no region shared it.
REACH = 6.0
TAIL = float(ndtr(-REACH))
# Of two competitors seen in nearly the same direction the further one is left out.
MAX_CORRELATION = 0.5
MAX_COMPETITORS = 48
# A competitor whose threshold is steeper than this only limits the range of t.
STEEP = 30.0
# Relative to the size of the set: closer values are one, thinner triangles are segments.
TWIN = 1e-7
ALIGNED = 1e-9
ROUGH = (24, 9)
FINE = (80, 16)
LOWEST_LOG_MULTIPLIER = -60.0
BISECTIONS = 30
# More than ten times the relative error of the quadrature seen against many more nodes.
QUADRATURE_ERROR = 1e-6
# More than the round-off of a sum of polygons, in a success probability.
POLYGON_ERROR = 1e-9


class _Slices(NamedTuple):
    """Competitors of one value across the slices of a batch of channels; see the module."""

    distance: FloatArray  # (n,) of the value to the center
    slope: FloatArray  # (n, K) thresholds are slope * t - shift
    shift: FloatArray  # (n, K)
    loading: FloatArray  # (n, K) lambda
    lower: FloatArray  # (n,) outside [lower, upper] the share is at most TAIL
    upper: FloatArray  # (n,)


def slice_advantage(points: FloatArray, prior: FloatArray, center: FloatArray) -> FloatArray:
    """Bound the advantage of guessing which of M Gaussians a point was drawn from.

    Shapes: ``points`` (n, M, r), encodings in units of the noise; ``prior`` (n, M), rows sum to 1,
    at least two entries of each are positive; ``center`` (n, r); returns (n,): upper bounds on the
    advantage, at most 1.
    """
    n, n_values, rank = points.shape
    competitors = min(n_values - 1, MAX_COMPETITORS)
    size = competitors * (FINE[0] * FINE[1] + competitors + rank)
    blocks = [
        _block_advantage(points[rows], prior[rows], center[rows]) for rows in row_blocks(n, size)
    ]
    return np.concatenate(blocks)


def flattened(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Move points (n, M, r) into their planes: coordinates (n, M, 2), error of the success (n,)."""
    centered = points - points.mean(axis=1, keepdims=True)
    if points.shape[2] <= 2:
        wide = np.zeros((*points.shape[:2], 2))
        wide[..., : points.shape[2]] = centered
        return wide, np.zeros(len(points))
    left, extents, _ = np.linalg.svd(centered, full_matrices=False)
    turned = left * extents[:, np.newaxis, :]
    beside = np.linalg.norm(turned[..., 2:], axis=2).max(axis=1)
    return turned[..., :2], 2.0 * ndtr(0.5 * beside) - 1.0


def planar_advantage(points: FloatArray, prior: FloatArray, error: FloatArray) -> FloatArray:
    """Bound the advantage where all encodings lie in a plane: the Bayes attack, enlarged.

    Shapes: ``points`` (n, M, 2), encodings in units of the noise; ``prior`` (n, M), rows sum to 1,
    at least two entries of each are positive; ``error`` (n,); returns (n,): upper bounds on the
    advantage, at most 1.
    """
    success = planar_success(points, prior) + error + POLYGON_ERROR
    return _as_advantage(success, prior)


def _as_advantage(success: FloatArray, prior: FloatArray) -> FloatArray:
    rest = np.where(is_likeliest(prior), 0.0, prior).sum(axis=1)
    return np.minimum((success - prior.max(axis=1)) / rest, 1.0)


def _block_advantage(points: FloatArray, prior: FloatArray, center: FloatArray) -> FloatArray:
    n_values = points.shape[1]
    logs = log_prior(prior)
    slices = [_slices(points, logs, center, m) for m in range(n_values)]
    nu = _choose_multiplier(slices, prior)
    success = nu.copy()
    for m in range(n_values):
        success += _excess(slices[m], prior[:, m], nu) * (1.0 + QUADRATURE_ERROR)
        success += 2.0 * TAIL * prior[:, m]
    return _as_advantage(success, prior)


def _slices(points: FloatArray, logs: FloatArray, center: FloatArray, m: int) -> _Slices:
    """Thresholds, range and loadings of the competitors of value ``m``."""
    own = points[:, m] - center
    others = np.delete(np.arange(points.shape[1]), m)
    away = points[:, others] - center[:, np.newaxis, :]
    distance = np.linalg.norm(own, axis=1)
    scale = distance + np.linalg.norm(away, axis=2).max(axis=1)
    # A value at the center but for round-off: never one whose distance the noise could tell.
    distance = np.where(distance <= ALIGNED * np.minimum(scale, 1.0), 0.0, distance)
    axis = own / np.where(distance > 0.0, distance, np.inf)[:, np.newaxis]
    # Value m beats value l where gap.(y - c) exceeds shift; gap = slope * axis - side.
    gap = own[:, np.newaxis, :] - away
    shift = 0.5 * (gap * (own[:, np.newaxis, :] + away)).sum(axis=2)
    shift += logs[:, others] - logs[:, [m]]
    slope = np.einsum("nkr,nr->nk", gap, axis)
    side = slope[..., np.newaxis] * axis[:, np.newaxis, :] - gap
    width = np.linalg.norm(side, axis=2)
    # Values that cannot be told apart from m are no competitors.
    twin = slope**2 + width**2 <= (TWIN * scale[:, np.newaxis]) ** 2
    width = np.maximum(width, ALIGNED * scale[:, np.newaxis] + np.finfo(float).tiny)
    lower, upper = _range(slope, shift - REACH * width, twin)
    skip = twin | (np.abs(slope) > STEEP * width)
    thresholds = (slope / width, shift / width)
    return _Slices(
        distance,
        *_select(*thresholds, side / width[..., np.newaxis], skip, distance),
        np.clip(lower, distance - REACH, distance + REACH),
        np.clip(upper, distance - REACH, distance + REACH),
    )


def _range(
    slope: FloatArray, shift: FloatArray, twin: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Find the interval of t in which ``slope * t`` exceeds ``shift`` for every competitor."""
    with np.errstate(divide="ignore", invalid="ignore"):
        end = np.where(slope == 0.0, np.copysign(np.inf, shift), shift / slope)
    lower = np.where((slope >= 0.0) & ~twin, end, -np.inf).max(axis=1)
    upper = np.where((slope < 0.0) & ~twin, end, np.inf).min(axis=1)
    return lower, upper


def _select(
    slope: FloatArray,
    shift: FloatArray,
    side: FloatArray,
    skip: npt.NDArray[np.bool_],
    distance: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Keep the most binding competitors; return their slopes, shifts and loadings."""
    binding = np.where(skip, np.inf, slope * distance[:, np.newaxis] - shift)
    order = np.argsort(binding, axis=1)[:, :MAX_COMPETITORS]
    side = np.take_along_axis(side, order[..., np.newaxis], axis=1)
    dropped, loading = _loadings(side, np.take_along_axis(skip, order, axis=1))
    # As many columns as the fullest row needs; a dropped one in a shorter row never binds.
    count = max(1, int((~dropped).sum(axis=1).max()))
    first = np.argsort(dropped, axis=1, kind="stable")[:, :count]
    slope, shift = (
        np.where(dropped, gone, np.take_along_axis(kept, order, axis=1))
        for kept, gone in ((slope, 0.0), (shift, -np.inf))
    )
    slope, shift, loading = (np.take_along_axis(a, first, axis=1) for a in (slope, shift, loading))
    return slope, shift, loading


def _loadings(
    side: FloatArray, skip: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], FloatArray]:
    """Drop near-aligned competitors, then find lambda with products above the correlations."""
    correlation = side @ np.swapaxes(side, 1, 2)
    both = ~skip[:, :, np.newaxis] & ~skip[:, np.newaxis, :]
    correlation = np.where(both, correlation, 0.0)
    earlier = np.tri(side.shape[1], k=-1, dtype=bool)
    skip = skip | np.any((correlation > MAX_CORRELATION) & earlier, axis=2)
    keep = ~skip[:, :, np.newaxis] & ~skip[:, np.newaxis, :]
    keep &= ~np.eye(side.shape[1], dtype=bool)
    largest = np.where(keep, correlation, 0.0).max(axis=2)
    return skip, np.where(skip, 0.0, np.sqrt(np.clip(largest, 0.0, MAX_CORRELATION)))


def _share(slices: _Slices, t: FloatArray, n_normal: int) -> FloatArray:
    """Slepian's bound on the share of each slice, at ``t`` of shape (n, T)."""
    spread = np.sqrt(1.0 - slices.loading**2)
    thresholds = slices.slope[:, np.newaxis] * t[..., np.newaxis] - slices.shift[:, np.newaxis]
    thresholds /= spread[:, np.newaxis]
    if not np.any(slices.loading):
        return ndtr(thresholds).prod(axis=2)
    z, weights = np.polynomial.hermite_e.hermegauss(n_normal)
    common = (slices.loading / spread)[:, np.newaxis, np.newaxis, :] * z[:, np.newaxis]
    arguments = thresholds[:, :, np.newaxis, :] - common
    return ndtr(arguments, out=arguments).prod(axis=3) @ (weights / weights.sum())


def _nodes(lower: FloatArray, upper: FloatArray, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights of shape (n, T); weights are 0 on an empty interval."""
    x, w = np.polynomial.legendre.leggauss(n_nodes)
    lower = np.where(lower < upper, lower, upper)
    half = 0.5 * (upper - lower)[:, np.newaxis]
    return lower[:, np.newaxis] + half * (1.0 + x), half * w


def _density(x: FloatArray) -> FloatArray:
    return np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)


def _choose_multiplier(slices: list[_Slices], prior: FloatArray) -> FloatArray:
    """Minimize the bound over nu, roughly: it is convex, and valid wherever one stops.

    Its slope in nu is 1 minus the reference's mass of the slices with ``t`` above `_start`.
    """
    grids = [_nodes(part.lower, part.upper, ROUGH[0]) for part in slices]
    masses = [
        w * _density(t) * _share(part, t, ROUGH[1])
        for part, (t, w) in zip(slices, grids, strict=True)
    ]
    mass = np.stack(masses, axis=1)
    nodes = np.stack([t for t, _ in grids], axis=1)
    widths = np.maximum(np.stack([w for _, w in grids], axis=1), 1e-300)
    distance = np.stack([part.distance for part in slices], axis=1)
    low, high = np.full(len(prior), LOWEST_LOG_MULTIPLIER), np.zeros(len(prior))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        start = _start(np.exp(middle)[:, np.newaxis], prior, distance)
        covered = np.clip((nodes - start[..., np.newaxis]) / widths + 0.5, 0.0, 1.0)
        enough = (covered * mass).sum(axis=(1, 2)) >= 1.0
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.exp(high)


def _start(nu: FloatArray, probability: FloatArray, distance: FloatArray) -> FloatArray:
    """Smallest ``t`` with ``p_m phi(t - d_m) >= nu phi(t)``, clipped to finite numbers."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        start = np.log(nu / probability) / distance + 0.5 * distance
    # At the center itself the sign does not depend on t.
    start = np.where(distance > 0.0, start, np.where(probability > nu, -np.inf, np.inf))
    return np.clip(np.where(probability > 0.0, start, np.inf), -1e6, 1e6)


def _excess(slices: _Slices, probability: FloatArray, nu: FloatArray) -> FloatArray:
    """Integral of ``[p_m phi(t - d_m) - nu phi(t)]_+ H_m(t)`` over the slices of one value."""
    start = _start(nu, probability, slices.distance)
    t, w = _nodes(np.maximum(start, slices.lower), slices.upper, FINE[0])
    d = slices.distance[:, np.newaxis]
    integrand = probability[:, np.newaxis] * _density(t - d) - nu[:, np.newaxis] * _density(t)
    return (w * np.maximum(integrand, 0.0) * _share(slices, t, FINE[1])).sum(axis=1)


# What flattening encodings to a plane may add to a success probability; slices cost more.
FLAT = 1e-6


def gaussian_tradeoff_advantage(distances: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Upper bound on the advantage from the distances of M Gaussians to one reference ([HMB23]).

    The release is N(e_m, sigma^2 I) under value m, and ``d_m = |e_m - c| / sigma`` for any fixed
    point c. The decision regions partition the space, so their masses ``kappa_m`` under N(c,
    sigma^2 I) sum to one, and by the lemma of Neyman and Pearson

        success <= max { sum_m p_m Phi(Phi^-1(kappa_m) + d_m) : sum_m kappa_m = 1 }.

    The maximum is found by water filling on one multiplier, and evaluated through its dual, which
    is an upper bound at any multiplier.

    Parameters
    ----------
    distances : array-like of shape (..., M)
        ``d_m``, non-negative, in units of the noise; zeros and infinity are allowed.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or the integer M for the uniform prior.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; 0 where all distances are 0.

    Raises
    ------
    ValueError
        For negative distances, an invalid prior, or shapes that do not match.

    See Also
    --------
    tradeoff_advantage : Chooses the center, and sharpens the bound, from the encodings themselves.

    Notes
    -----
    Assumptions: Gaussian noise of the same covariance under every value (whiten first if it is not
    isotropic); no assumption on the attacker.

    Examples
    --------
    Ten one-hot encodings, noise 1, seen from the center of their smallest ball:

    >>> round(gaussian_tradeoff_advantage([0.9**0.5] * 10, 10), 4)
    0.2996
    """
    distances = check_real("distances", distances)
    parsed = parse_prior(prior)
    if distances.ndim == 0:
        raise ValueError(
            "`distances` must have the values of the secret along its last axis; got a number. "
            "Use `gdp_advantage` where all distances are equal."
        )
    probabilities = prior_table(parsed, distances.shape[-1], "distances")
    shape = broadcast_shape(distances=distances.shape, prior=probabilities.shape)
    flat = np.broadcast_to(distances, shape).reshape(-1, shape[-1])
    table = np.broadcast_to(probabilities, shape).reshape(-1, shape[-1])
    result = np.empty(len(flat))
    for rows in row_blocks(*flat.shape):
        result[rows] = water_filling(flat[rows], table[rows]).advantage
    return as_result(result.reshape(shape[:-1]))


def prior_table(prior: Prior, n_values: int, name: str) -> FloatArray:
    """Probabilities of shape (..., n_values), or an error if the prior has another size."""
    if prior.probabilities is None:
        size: float = float(prior.n_values)
        probabilities = np.full(n_values, 1.0 / n_values)
    else:
        size = prior.probabilities.shape[-1]
        probabilities = prior.probabilities
    if size != n_values:
        raise ValueError(
            f"`prior` has {size:g} values but `{name}` has {n_values}; they must agree."
        )
    return probabilities


def tradeoff_advantage(
    encodings: npt.ArrayLike,
    noise_scale: npt.ArrayLike,
    prior: npt.ArrayLike,
    center: npt.ArrayLike | None = None,
    *,
    refine: bool = True,
    max_iter: int | None = None,
) -> Any:
    """Upper bound on the advantage against a Gaussian release, from the encodings.

    The trade-off bound of `gaussian_tradeoff_advantage` around an optimized center c. With
    ``refine=True`` the decision regions are moreover bounded slice by slice across the axis from c
    to each encoding, by Slepian's lemma:

        success <= min_nu nu + sum_m int [p_m phi(t - d_m) - nu phi(t)]_+ H_m(t) dt,
        H_m(t) = E_z prod_l Phi((x_l(t) - lambda_l z) / sqrt(1 - lambda_l^2)),  z ~ N(0, 1),

    where value m beats value l in the slice at t if a standard normal stays below ``x_l(t)``, and
    ``lambda_l lambda_k`` is at least the correlation of those for l and k. ``H_m = 1`` gives the
    unrefined bound; the smaller of the two is returned. Encodings in a plane have slices that are
    lines, whose shares are known exactly: there the bound is the success of the Bayes-optimal
    attack itself. The proof is in the docstrings of the modules ``priors`` and ``_tradeoff``.

    Parameters
    ----------
    encodings : array-like of shape (M, d) or (n, M, d)
        Mean of the release under each value of the secret, for one channel or for n.
    noise_scale : float or array-like of shape (n,)
        Standard deviation of the noise in every coordinate, positive, in units of the encodings.
    prior : int or array-like of shape (M,) or (n, M)
        Probabilities of the secret's values, or the integer M for the uniform prior.
    center : array-like of shape (d,) or (n, d), default=None
        Center of the reference; None optimizes it. Any center gives a valid bound.
    refine : bool, default=True
        Sharpen the bound. It costs some milliseconds a channel at M = 10 and a tenth of a second at
        M = 50, ten times the plain bound, which is exact for two values; less in a plane.
    max_iter : int or None, default=None
        Most steps towards the best center, from the mean under the prior alone. None descends from
        three starts until nothing is gained; four steps take a tenth of that.

    Returns
    -------
    float or ndarray of shape (n,)
        Advantage in [0, 1], never below that of the Bayes-optimal attack.

    Raises
    ------
    ValueError
        For fewer than two encodings, non-finite ones, a noise scale that is not positive, an
        invalid prior, or shapes that do not match.

    Notes
    -----
    Assumptions: isotropic Gaussian noise of the same scale under every value (whiten first if it
    is not). The quadrature of the refinement is enlarged by more than its error.

    Examples
    --------
    The Bayes-optimal attack on this channel has advantage 0.2677:

    >>> import numpy as np
    >>> round(tradeoff_advantage(np.eye(10), 1.0, 10), 3)
    0.273
    >>> round(tradeoff_advantage(np.eye(10), 1.0, 10, refine=False), 3)
    0.3
    """
    points, scale, table, single = _channels(encodings, noise_scale, prior)
    fixed = None if center is None else _check_center(center, points)
    result = np.empty(len(points))
    for rows in row_blocks(len(points), points.shape[1] * points.shape[2]):
        if fixed is None:
            near = without_wide_gaps(points[rows], scale[rows])
            local = affine_coordinates(near / scale[rows])
            middle = _near_center(local, table[rows], max_iter)
        else:
            both = np.concatenate([points[rows], fixed[rows][:, np.newaxis, :]], axis=1)
            near = without_wide_gaps(both, scale[rows])
            local = (near[:, :-1] - near[:, -1:]) / scale[rows]
            middle = np.zeros((len(local), local.shape[2]))
        bound = water_filling(distances_to(local, middle), table[rows]).advantage
        if refine and points.shape[1] > 2:
            bound = np.minimum(bound, _refined(local, table[rows], middle, bound))
        result[rows] = bound
    return as_result(result[0] if single else result)


def _refined(
    points: FloatArray, prior: FloatArray, center: FloatArray, bound: FloatArray
) -> FloatArray:
    """Sharpen the bounds that are neither 0 nor 1 already."""
    refined = bound.copy()
    plane, error = flattened(points)
    is_open = (bound > 0.0) & (bound < 1.0)
    flat = np.flatnonzero(is_open & (error <= FLAT))
    if flat.size:
        refined[flat] = planar_advantage(plane[flat], prior[flat], error[flat])
    rest = np.flatnonzero(is_open & (error > FLAT))
    if rest.size:
        refined[rest] = slice_advantage(points[rest], prior[rest], center[rest])
    return np.maximum(refined, 0.0)


def _near_center(points: FloatArray, prior: FloatArray, max_iter: int | None) -> FloatArray:
    """Best center (n, r) of three descents, or where a few steps from the mean lead."""
    if max_iter is None:
        return _best_center(points, prior)
    return descend(points, prior, np.einsum("nm,nmr->nr", prior, points), max_iter)


def _best_center(points: FloatArray, prior: FloatArray) -> FloatArray:
    """Best of three descents, for points in units of the noise.

    They start at the mean under the prior, at the center of the smallest ball, and at the best of
    the encodings themselves, which is where local minima of uneven clouds lie.
    """
    at_encodings = [
        water_filling(distances_to(points, points[:, m]), prior).advantage
        for m in range(points.shape[1])
    ]
    best_encoding = np.argmin(at_encodings, axis=0)
    starts = (
        np.einsum("nm,nmr->nr", prior, points),
        np.einsum("nm,nmr->nr", ball_weights(points), points),
        points[np.arange(len(points)), best_encoding],
    )
    ends = np.stack([descend(points, prior, start) for start in starts])
    bounds = [water_filling(distances_to(points, end), prior).advantage for end in ends]
    return ends[np.argmin(bounds, axis=0), np.arange(len(points))]


def _channels(
    encodings: npt.ArrayLike, noise_scale: npt.ArrayLike, prior: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
    """Validate; return (n, M, d) encodings, (n, 1, 1) scales, (n, M) priors, and whether n was."""
    points = check_numbers("encodings", encodings, finite=True)
    if points.ndim not in (2, 3) or points.shape[-2] < 2 or points.shape[-1] < 1:
        raise ValueError(
            "`encodings` must have shape (M, d) or (n, M, d) with at least M = 2 values; got "
            f"{points.shape}."
        )
    hint = "Without noise every encoding that is unique is recovered with certainty."
    scale = check_real("noise_scale", noise_scale, low_open=True, finite=True, hint=hint)
    table = prior_table(parse_prior(prior), points.shape[-2], "encodings")
    single = points.ndim == 2 and scale.ndim == 0 and table.ndim == 1
    shape = broadcast_shape(
        encodings=points.shape[:-2], noise_scale=scale.shape, prior=table.shape[:-1]
    )
    if len(shape) > 1:
        raise ValueError(
            f"One batch axis is allowed; got `noise_scale` {scale.shape} and `prior` {table.shape}."
        )
    n = shape[0] if shape else 1
    return (
        np.broadcast_to(points, (n, *points.shape[-2:])),
        np.broadcast_to(scale, (n,))[:, np.newaxis, np.newaxis],
        np.broadcast_to(table, (n, points.shape[-2])),
        single,
    )


def _check_center(center: npt.ArrayLike, points: FloatArray) -> FloatArray:
    array = check_numbers("center", center, finite=True)
    n, _, dimension = points.shape
    if array.shape not in ((dimension,), (n, dimension)):
        raise ValueError(
            f"`center` must have shape ({dimension},) or ({n}, {dimension}); got {array.shape}."
        )
    return np.broadcast_to(array, (n, dimension))
