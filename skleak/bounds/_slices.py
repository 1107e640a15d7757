"""The trade-off bound, sharpened by what each decision region looks like across its axis.

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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from skleak.bounds._prior import is_likeliest
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import log_prior
from skleak.utils.geometry._polygons import planar_success

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

    distance: FloatArray  # (n,) of the value to the centre
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
    # A value at the centre but for round-off: never one whose distance the noise could tell.
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
    """Minimise the bound over nu, roughly: it is convex, and valid wherever one stops.

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
    # At the centre itself the sign does not depend on t.
    start = np.where(distance > 0.0, start, np.where(probability > nu, -np.inf, np.inf))
    return np.clip(np.where(probability > 0.0, start, np.inf), -1e6, 1e6)


def _excess(slices: _Slices, probability: FloatArray, nu: FloatArray) -> FloatArray:
    """Integral of ``[p_m phi(t - d_m) - nu phi(t)]_+ H_m(t)`` over the slices of one value."""
    start = _start(nu, probability, slices.distance)
    t, w = _nodes(np.maximum(start, slices.lower), slices.upper, FINE[0])
    d = slices.distance[:, np.newaxis]
    integrand = probability[:, np.newaxis] * _density(t - d) - nu[:, np.newaxis] * _density(t)
    return (w * np.maximum(integrand, 0.0) * _share(slices, t, FINE[1])).sum(axis=1)
