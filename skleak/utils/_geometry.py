"""Geometry of points in the plane and in space."""

import numpy as np
import numpy.typing as npt
from scipy.special import erf, ndtr, ndtri, owens_t

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# No Gaussian mass is left so many standard deviations away.
FAR = 100.0
TINY = 1e-150
# A zero probability becomes the smallest that matters nowhere: against a likelihood ratio that
# could make up for it the noise would have to leave 37 standard deviations.
SMALLEST_PROBABILITY = 1e-300


def log_prior(prior: FloatArray) -> FloatArray:
    """Logarithm of a prior, with a floor that keeps zero entries finite."""
    return np.log(np.maximum(prior, SMALLEST_PROBABILITY))


def loses_tie(log_odds: FloatArray, secret: int) -> npt.NDArray[np.bool_]:
    """Return True where a competitor at the same place wins: likelier, or first of equals."""
    first = np.arange(log_odds.shape[1]) < secret
    return (log_odds < 0) | ((log_odds == 0) & first)


def half_spaces(
    points: FloatArray, log_priors: FloatArray, secret: int
) -> tuple[FloatArray, FloatArray]:
    """Return half-spaces where one secret beats each other: ``normal . z <= distance``.

    The release is ``e_m + z`` with m the secret; l loses to m up to a hyperplane at distance
    ``D / 2 + log(p_m / p_l) / D`` along the direction to l, D their distance.

    Shapes: ``points`` (n, M, k), encodings in standard deviations of the noise; ``log_priors`` (n,
    M); returns ``normals`` (n, M, k): unit vectors; ``distances`` (n, M): signed, never 0 and
    within +-FAR; the secret itself, and those that cannot win, are at FAR.
    """
    gaps = points - points[:, [secret]]
    lengths = np.linalg.norm(gaps, axis=2)
    odds = log_priors[:, [secret]] - log_priors
    apart = lengths > TINY
    safe = np.where(apart, lengths, 1.0)
    normals = np.where(apart[..., None], gaps / safe[..., None], np.eye(points.shape[2])[0])
    tied = np.where(loses_tie(odds, secret), -FAR, FAR)
    distances = np.where(apart, safe / 2 + odds / safe, tied)
    distances[:, secret] = FAR
    return normals, signed(distances)


def signed(distances: FloatArray) -> FloatArray:
    """Bring distances within +-FAR and away from 0: slopes are ratios to them."""
    clipped = np.clip(distances, -FAR, FAR)
    return np.where(np.abs(clipped) < TINY, TINY, clipped)


def without_wide_gaps(points: FloatArray, scale: FloatArray) -> FloatArray:
    """Narrow gaps that no release crosses, so that near points keep their digits beside far ones.

    Between groups of points more than ``2 FAR`` standard deviations apart no noise carries a
    release, before or after: guesses succeed as often. A group keeps its differences, which a
    common mean or scale of all would round off. The groups are moved onto one line along a
    difference of two points, so that points of a line, a plane or a space stay in it.

    Shapes: ``points`` (n, M, d); ``scale`` (n, 1, 1), the noise; returns (n, M, d): rows without
    such a gap as they are, others up to a translation.
    """
    widest = 2.0 * FAR * scale[:, 0, 0]
    with np.errstate(over="ignore"):
        extent = _lengths(np.ptp(points, axis=1))
    rows = np.flatnonzero(extent > widest)
    near = points if not rows.size else points.copy()
    for some in row_blocks(len(rows), points.shape[1] * (points.shape[1] + points.shape[2])):
        chosen = rows[some]
        near[chosen] = _together(points[chosen], widest[chosen])
    return near


def _together(points: FloatArray, widest: FloatArray) -> FloatArray:
    """Move groups of points together, where there are several.

    Shapes: ``points`` (n, M, d); ``widest`` (n,), the gap that is left between them.
    """
    n, n_values, _ = points.shape
    first = _groups(points, widest)
    everyone = np.arange(n)
    other = np.argmax(first > 0, axis=1)
    # Halves: the difference of two huge numbers is no float.
    along = 0.5 * points[everyone, other] - 0.5 * points[:, 0]
    size = np.abs(along).max(axis=1, keepdims=True)
    along /= np.where(size > 0.0, size, 1.0)
    along /= np.where(size > 0.0, np.linalg.norm(along, axis=1, keepdims=True), 1.0)
    own = points - np.take_along_axis(points, first[:, :, None], axis=1)
    place = np.einsum("nmd,nd->nm", own, along)
    moved, end = own.copy(), np.zeros(n)
    for m in range(n_values):
        group = (first == m) & (first[:, [m]] == m)
        starts = group.any(axis=1)
        low = np.where(group, place, np.inf).min(axis=1, initial=np.inf)
        high = np.where(group, place, -np.inf).max(axis=1, initial=-np.inf)
        shift = np.where(starts, end + widest - low, 0.0) if m else np.zeros(n)
        moved += np.where(group, shift[:, None], 0.0)[:, :, None] * along[:, None, :]
        end = np.where(starts, shift + high, end)
    return np.where((other > 0)[:, None, None], moved, points)


def _groups(points: FloatArray, widest: FloatArray) -> IntArray:
    """First point of the group of every point, (n, M): chains of gaps that are not wide."""
    n, n_values, _ = points.shape
    linked = np.empty((n, n_values, n_values), dtype=np.float32)
    with np.errstate(over="ignore"):
        for m in range(n_values):
            linked[:, m] = _lengths(points - points[:, [m]]) <= widest[:, None]
    for _ in range(int(np.ceil(np.log2(n_values)))):
        linked = np.minimum(linked @ linked, 1.0)
    return np.argmax(linked > 0.0, axis=2)


def _lengths(vectors: FloatArray) -> FloatArray:
    """Euclidean lengths (...), of vectors (..., d) whose squares may overflow."""
    size = np.abs(vectors).max(axis=-1)
    known = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = known * np.linalg.norm(vectors / known[..., None], axis=-1)
    return np.where(np.isinf(size), np.inf, lengths)


def lower_hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of the lower convex hull of points in the plane, as far as it descends.

    Shapes: ``x`` (n,), ascending, and ``y`` (n,); returns (k,) each, of y that falls strictly.
    """
    kept: list[tuple[float, float]] = []
    for right, low in zip(x.tolist(), y.tolist(), strict=True):
        if kept and low >= kept[-1][1]:
            continue
        while kept and (kept[-1][0] == right or _is_above(kept[-2:], right, low)):
            kept.pop()
        kept.append((right, low))
    corners: FloatArray = np.array(kept)
    return corners[:, 0], corners[:, 1]


def _is_above(last: list[tuple[float, float]], x: float, y: float) -> bool:
    """Tell whether the last of two points lies on or above the line from the first to (x, y)."""
    if len(last) < 2:
        return False
    (x0, y0), (x1, y1) = last
    return (y1 - y0) * (x - x0) >= (y - y0) * (x1 - x0)


def gained(distance: FloatArray | float) -> FloatArray:
    """Share of what a guess at even odds lacks that is added, ``2 Phi(D / 2) - 1``, (...)."""
    return np.asarray(erf(np.asarray(distance) / np.sqrt(8.0)))


def success_even_odds(distance: FloatArray | float) -> FloatArray:
    """Share of right guesses between two as likely as each other, ``Phi(D / 2)``, (...)."""
    return np.asarray(ndtr(0.5 * np.asarray(distance)))


def pair_success(distance: FloatArray | float, prior: FloatArray | float) -> FloatArray:
    """Share of right guesses of the best test where the second has a prior q in [0, 1].

    Shapes: ``distance`` (...), at least 0, infinite where they are told apart for sure and NaN
    where it is not known; ``prior`` (...); returns (...): with l the log odds of q,
    ``q Phi(D / 2 + l / D) + (1 - q) Phi(D / 2 - l / D)``. Where D is the largest of several
    distances, the share of right guesses among them is at most that.
    """
    distance, prior = np.asarray(distance), np.asarray(prior)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = (np.log(prior) - np.log1p(-prior)) / distance
        right = prior * ndtr(0.5 * distance + shift) + (1.0 - prior) * ndtr(0.5 * distance - shift)
    settled = (distance == 0.0) | (prior == 0.0) | (prior == 1.0)
    return np.where(settled, np.maximum(prior, 1.0 - prior), right)


def true_positives(distance: FloatArray | float, rate: FloatArray | float = 0.01) -> FloatArray:
    """Share of the true ones that the best test finds at a rate of false ones, (...).

    ``Phi(Phi^-1(rate) + D)``; what lies infinitely far is found at any rate, even at none.
    """
    with np.errstate(invalid="ignore"):
        power = ndtr(ndtri(rate) + distance)
    return np.where(np.isinf(distance), 1.0, power)


# Boundary lines at a smaller angle that do not part by more than FAR times it are one: round-off
# cannot order them, and what lies between has a measure below 1e-10.
SAME_ANGLE = 1e-12


def planar_success(points: FloatArray, prior: FloatArray) -> FloatArray:
    """Success where all encodings lie in a plane: the cells are convex polygons.

    The measure of a cell that holds its own encoding is 1 less, for every edge, the measure of the
    sector behind it, ``T(h, t_2) - T(h, t_1)`` with Owen's T function, h the edge's distance and
    t the slopes towards its ends. Distances are signed, so this stays exact where a prior pushes
    the cell off its encoding. Cost O(M^3) for each record.

    Shapes: ``points`` (n, M, 2), encodings in the plane, in standard deviations of the noise;
    ``prior`` (n, M), prior of the secret; zero entries allowed; returns (n,).
    """
    n, n_values, _ = points.shape
    logs = log_prior(prior)
    success = np.zeros(n)
    for rows in row_blocks(n, n_values**2):
        for secret in range(n_values):
            normals, distances = half_spaces(points[rows], logs[rows], secret)
            success[rows] += prior[rows, secret] * polygon_measure(normals, distances)
    return success


def polygon_measure(normals: FloatArray, distances: FloatArray) -> FloatArray:
    """Return the standard normal measure of an intersection of half-planes.

    Shapes: ``normals`` (n, M, 2); ``distances`` (n, M); returns (n,).
    """
    lower, upper = _edges(normals, distances)
    heights = np.abs(distances)
    sector = owens_t(heights, upper / heights) - owens_t(heights, lower / heights)
    behind = np.where(upper > lower, np.sign(distances) * sector, 0.0).sum(axis=1)
    return np.clip((distances > 0).all(axis=1) - behind, 0.0, 1.0)


def _edges(normals: FloatArray, distances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the segment that the half-planes leave of each boundary line, (n, M) each.

    Line i is ``h_i n_i + s t_i``; half-plane j keeps ``s sin_ij <= h_j - cos_ij h_i``. The right
    side is expanded around parallel lines, where two lines must cut each other in the same point.
    """
    x, y = normals[..., 0], normals[..., 1]
    cosine = x[:, :, None] * x[:, None] + y[:, :, None] * y[:, None]
    sine = x[:, :, None] * y[:, None] - y[:, :, None] * x[:, None]
    side = np.where(cosine >= 0, 1.0, -1.0)
    own, other = distances[:, :, None], distances[:, None]
    room = other - side * own
    cut = room / np.where(sine == 0, 1.0, sine) + side * sine * own / (1 + np.abs(cosine))
    index = np.arange(distances.shape[1])
    # Of lines that coincide the first is kept; opposite ones bound a strip together.
    same = (side > 0) & (np.abs(sine) < SAME_ANGLE) & (np.abs(room) < FAR * SAME_ANGLE)
    repeated = np.any(same & (index[:, None] > index), axis=2, keepdims=True)
    cuts = ~np.swapaxes(repeated, 1, 2)
    beyond = (cuts & ~same & (sine == 0) & (room < 0)).any(axis=2)
    upper = np.where(cuts & (sine > 0), cut, np.inf).min(axis=2)
    lower = np.where(cuts & (sine < 0), cut, -np.inf).max(axis=2)
    return np.where(repeated[..., 0] | beyond, np.inf, lower), upper
