"""The trade-off bound: success against a reference Gaussian around an optimised centre."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.bounds._center import affine_coordinates, ball_weights, descend, distances_to
from skleak.bounds._prior import Prior, broadcast_shape, parse_prior
from skleak.bounds._slices import flattened, planar_advantage, slice_advantage
from skleak.bounds._water_filling import water_filling
from skleak.utils._arguments import as_result, check_at_least, check_numbers
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._gaps import without_wide_gaps

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
    tradeoff_advantage : Chooses the centre, and sharpens the bound, from the encodings themselves.

    Notes
    -----
    Assumptions: Gaussian noise of the same covariance under every value (whiten first if it is not
    isotropic); no assumption on the attacker.

    Examples
    --------
    Ten one-hot encodings, noise 1, seen from the centre of their smallest ball:

    >>> round(gaussian_tradeoff_advantage([0.9**0.5] * 10, 10), 4)
    0.2996
    """
    distances = check_at_least("distances", distances, 0.0)
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


def optimized_center(
    encodings: npt.ArrayLike, noise_scale: npt.ArrayLike, prior: npt.ArrayLike
) -> FloatArray:
    """Centre for which the trade-off bound is small.

    Descends from the centre of the smallest ball around the encodings, from their mean under the
    prior and from the best encoding, and keeps the lowest. The bound holds at any centre, so the
    result need not be, and is not claimed to be, the global optimum.

    Parameters
    ----------
    encodings : array-like of shape (M, d) or (n, M, d)
        Mean of the release under each value of the secret.
    noise_scale : float or array-like of shape (n,)
        Standard deviation of the noise in every coordinate, positive, in units of the encodings.
    prior : int or array-like of shape (M,) or (n, M)
        Probabilities of the secret's values, or the integer M for the uniform prior.

    Returns
    -------
    ndarray of shape (d,) or (n, d)

    Raises
    ------
    ValueError
        For fewer than two encodings, non-finite ones, a noise scale that is not positive, an
        invalid prior, or shapes that do not match.

    Examples
    --------
    >>> import numpy as np
    >>> optimized_center(np.eye(3), 1.0, 3).round(3)
    array([0.333, 0.333, 0.333])
    """
    points, scale, table, single = _channels(encodings, noise_scale, prior)
    centers = np.empty(points.shape[::2])
    for rows in row_blocks(len(points), points.shape[1] * points.shape[2]):
        local, origin, basis = affine_coordinates(points[rows] / scale[rows])
        center = _best_center(local, table[rows])
        moved = center if basis is None else np.einsum("ndr,nr->nd", basis, center)
        centers[rows] = origin[:, 0] * scale[rows][:, 0] + moved * scale[rows][:, 0]
    return centers[0] if single else centers


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

    The trade-off bound of `gaussian_tradeoff_advantage` around an optimised centre c. With
    ``refine=True`` the decision regions are moreover bounded slice by slice across the axis from c
    to each encoding, by Slepian's lemma:

        success <= min_nu nu + sum_m int [p_m phi(t - d_m) - nu phi(t)]_+ H_m(t) dt,
        H_m(t) = E_z prod_l Phi((x_l(t) - lambda_l z) / sqrt(1 - lambda_l^2)),  z ~ N(0, 1),

    where value m beats value l in the slice at t if a standard normal stays below ``x_l(t)``, and
    ``lambda_l lambda_k`` is at least the correlation of those for l and k. ``H_m = 1`` gives the
    unrefined bound; the smaller of the two is returned. Encodings in a plane have slices that are
    lines, whose shares are known exactly: there the bound is the success of the Bayes-optimal
    attack itself. The proof is in the docstrings of the modules ``_water_filling`` and ``_slices``.

    Parameters
    ----------
    encodings : array-like of shape (M, d) or (n, M, d)
        Mean of the release under each value of the secret, for one channel or for n.
    noise_scale : float or array-like of shape (n,)
        Standard deviation of the noise in every coordinate, positive, in units of the encodings.
    prior : int or array-like of shape (M,) or (n, M)
        Probabilities of the secret's values, or the integer M for the uniform prior.
    center : array-like of shape (d,) or (n, d), default=None
        Centre of the reference; None optimises it. Any centre gives a valid bound.
    refine : bool, default=True
        Sharpen the bound. It costs some milliseconds a channel at M = 10 and a tenth of a second at
        M = 50, ten times the plain bound, which is exact for two values; less in a plane.
    max_iter : int or None, default=None
        Most steps towards the best centre, from the mean under the prior alone. None descends from
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
            local, _, _ = affine_coordinates(near / scale[rows])
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
    return np.clip(refined, 0.0, 1.0)


def _near_center(points: FloatArray, prior: FloatArray, max_iter: int | None) -> FloatArray:
    """Best centre (n, r) of three descents, or where a few steps from the mean lead."""
    if max_iter is None:
        return _best_center(points, prior)
    return descend(points, prior, np.einsum("nm,nmr->nr", prior, points), max_iter)


def _best_center(points: FloatArray, prior: FloatArray) -> FloatArray:
    """Best of three descents, for points in units of the noise.

    They start at the mean under the prior, at the centre of the smallest ball, and at the best of
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
    scale = check_numbers("noise_scale", noise_scale)
    if np.any(scale <= 0.0) or not np.all(np.isfinite(scale)):
        raise ValueError(
            f"`noise_scale` must be positive and finite; got {scale.min():g}. Without noise every "
            "encoding that is unique is recovered with certainty."
        )
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
