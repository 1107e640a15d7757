"""Guessing a secret where only a trade-off curve between any two of its values is known.

With decision regions A_m, ``s_m = P_m(A_m)``, and f the curve, the test that rejects value m on A_k
has power s_k, so ``P_m(A_k) >= h(s_k)`` with ``h(s) = f^-1(1 - s)``; the regions fill the space:

    success = sum_m p_m s_m,    s_m + sum_{k != m} h(s_k) <= 1  for every m.

h is convex and piecewise linear, so this is a linear program. For any multipliers ``w_m >= 0`` with
sum W its dual function

    W + sum_m max_s [ (p_m - w_m) s - (W - w_m) h(s) ]

is an upper bound: solving badly only enlarges it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, kron, vstack

from skleak.bounds._prior import parse_prior
from skleak.utils._arguments import as_result, check_choice, check_in_range
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
        inside = self.beta < 1.0 - self.alpha[0]
        return bool(np.all(np.abs(mirrored - self.alpha)[inside & (self.beta > 0.0)] < 1e-12))

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
    alpha = np.ravel(check_in_range(f"alpha{name}", alpha, 0.0, 1.0))
    beta = np.ravel(check_in_range(f"beta{name}", beta, 0.0, 1.0))
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
    """Corners of the lower convex hull of points sorted by alpha, beta descending strictly."""
    kept: list[tuple[float, float]] = []
    for x, y in zip(alpha.tolist(), np.clip(beta, 0.0, 1.0 - alpha).tolist(), strict=True):
        if kept and y >= kept[-1][1]:
            continue
        while kept and (kept[-1][0] == x or _is_above(kept[-2:], x, y)):
            kept.pop()
        kept.append((x, y))
    corners: FloatArray = np.array(kept)
    return corners[:, 0], corners[:, 1]


def _is_above(last: list[tuple[float, float]], x: float, y: float) -> bool:
    """Tell whether the last of two points lies on or above the line from the first to (x, y)."""
    if len(last) < 2:
        return False
    (x0, y0), (x1, y1) = last
    return (y1 - y0) * (x - x0) >= (y - y0) * (x1 - x0)


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
