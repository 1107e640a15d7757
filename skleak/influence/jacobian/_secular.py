"""Largest eigenvalue of many matrices "diagonal plus two squares", all at once.

Each record's information is the matrix

    M = rho diag(D) + p p^T + h g g^T ,       D >= 0 ascending, rho >= 0, h >= 0 .

Every term is positive, so that nothing cancels. In the variable ``t = z - rho max(D) >= 0`` and
with the resolvent ``R_j = 1 / (t + rho (max(D) - D_j)) > 0``, a number ``z > rho max(D)`` is an
eigenvalue where the 2 x 2 matrix

    [[ sum p_j^2 R_j ,            sqrt(h) sum p_j g_j R_j ],
     [ sqrt(h) sum p_j g_j R_j ,  h sum g_j^2 R_j        ]]

has the eigenvalue 1. Its larger eigenvalue ``mu`` falls with ``t``, and is 1 at the largest
eigenvalue of M: O(d) per record and step. ``1 / mu`` is nearly linear in ``t``, and a secant method
needs a handful of steps. Where ``mu < 1`` all along, the largest eigenvalue is ``rho max(D)``.
"""

from dataclasses import dataclass, replace

import numpy as np

from skleak.utils._typing import FloatArray, IntArray

# Relative to the scale of a record's matrix: a part this small is below the round-off of the rest.
_NEGLIGIBLE = 1e-17
# Width of the bracket at which a root is found, in that scale and relative to the root.
_XATOL, _XRTOL = 1e-16, 4e-15
# Every so many steps a bracket that has not halved is halved. Fifty halvings are round-off.
_PATIENCE = 5
_MAX_STEPS = 60 * _PATIENCE


def largest_eigenvalue(
    diagonal: FloatArray, rho: FloatArray, p: FloatArray, h: FloatArray, g: FloatArray
) -> FloatArray:
    """Largest eigenvalue of ``rho diag(D) + p p^T + h g g^T``.

    Shapes: ``diagonal``, ``g`` (k,), or (n, k) where records have their own; ``rho``, ``h`` (n,);
    ``p`` (n, k); returns (n,): to a few units of round-off.
    """
    top = rho * diagonal[..., -1]
    rise = _largest_of_two_by_two(_dot(p, p), np.sqrt(h) * _dot(p, g), h * _dot(g, g))
    scale = top + rise
    # The eigenvalue lies between the larger of `rise` and `top`, and their sum.
    result = np.maximum(top, rise)
    open_ = np.flatnonzero((top > _NEGLIGIBLE * scale) & (rise > _NEGLIGIBLE * scale))
    if len(open_):
        s = scale[open_]
        if diagonal.ndim == 2:
            diagonal, g = diagonal[open_], g[open_]
        secular = _Secular.of(diagonal, rho[open_] / s, p[open_], h[open_] / s, g, s)
        result[open_] = top[open_] + s * secular.root(rise[open_] / s)
    return result


def _largest_of_two_by_two(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Larger eigenvalue of the positive semi-definite matrix ``[[a, b], [b, c]]``."""
    return 0.5 * (a + c) + np.hypot(0.5 * (a - c), b)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """Inner products of rows, of two tables or with one vector."""
    return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)


@dataclass(frozen=True)
class _Secular:
    """Coefficients of the secular equations of a block of records."""

    gap: FloatArray  # rho (max D - D_j), (n, k)
    pp: FloatArray  # p_j^2, (n, k)
    pg: FloatArray  # p_j g_j, (n, k)
    gg: FloatArray  # g_j^2, (k,) or (n, k)
    h: FloatArray  # (n,)

    @classmethod
    def of(
        cls,
        diagonal: FloatArray,
        rho: FloatArray,
        p: FloatArray,
        h: FloatArray,
        g: FloatArray,
        scale: FloatArray,
    ) -> "_Secular":
        # Equal entries of the diagonal count as one: most are zero where the block is small.
        rises = np.any(np.atleast_2d(np.diff(diagonal)) > 0.0, axis=0)
        starts = np.concatenate([[0], 1 + np.flatnonzero(rises)])
        distinct = diagonal[..., starts]
        root = np.sqrt(scale)[:, None]
        p = p / root
        pp, pg, gg = p * p, p * g, g * g
        if len(starts) < diagonal.shape[-1]:
            pp, pg, gg = (np.add.reduceat(squares, starts, axis=-1) for squares in (pp, pg, gg))
        return cls(rho[:, None] * (distinct[..., -1:] - distinct), pp, pg, gg, h)

    def take(self, i: IntArray) -> "_Secular":
        """Return the equations of the records ``i``."""
        if len(i) == len(self.h):
            return self
        gg = self.gg[i] if self.gg.ndim == 2 else self.gg
        return replace(self, gap=self.gap[i], pp=self.pp[i], pg=self.pg[i], gg=gg, h=self.h[i])

    def excess(self, t: FloatArray) -> FloatArray:
        """``1 / mu(t) - 1`` of each record: it rises through zero at the root."""
        resolvent = self.gap + t[:, None]
        np.divide(1.0, resolvent, out=resolvent)
        a = _dot(self.pp, resolvent)
        if not np.any(self.h):
            return 1.0 / a - 1.0
        b = np.sqrt(self.h) * _dot(self.pg, resolvent)
        return 1.0 / _largest_of_two_by_two(a, b, self.h * _dot(resolvent, self.gg)) - 1.0

    def root(self, rise: FloatArray) -> FloatArray:
        """Root of each record's excess; zero where there is none."""
        t = np.zeros(len(rise))
        low = np.full(len(rise), _NEGLIGIBLE)
        at_low = self.excess(low)
        above = np.flatnonzero(at_low < 0.0)
        high = rise[above] * (1.0 + 1e-14)
        t[above] = _find_root(self.take(above), low[above], at_low[above], high)
        return t


@np.errstate(divide="ignore", invalid="ignore")
def _find_root(
    secular: _Secular, low: FloatArray, at_low: FloatArray, high: FloatArray
) -> FloatArray:
    """Anderson and Bjorck's regula falsi on every bracket, down to the width of round-off.

    Own code, because the bookkeeping of scipy's vectorised solver costs more than these few and
    cheap steps. Where round-off hides the change of sign, the root is the upper end.
    """
    root = high.copy()
    i = np.arange(len(high))
    a, at_a, b, at_b = low, at_low, high, secular.excess(high)
    done = at_b <= 0.0
    checked = high - low
    for k in range(_MAX_STEPS):
        if 2 * np.count_nonzero(done) > len(done):
            rest = np.flatnonzero(~done)
            secular, i, done = secular.take(rest), i[rest], done[rest]
            a, at_a, b, at_b = a[rest], at_a[rest], b[rest], at_b[rest]
            checked = checked[rest]
        if not len(i):
            break
        width, tol = a - b, _XATOL + _XRTOL * b
        step = at_b / (at_b - at_a) * width
        found = ~done & ((np.abs(width) <= tol) | (at_b == 0.0))
        root[i[found]] = (b + step)[found]
        done |= found
        # A step shorter than the tolerance would leave the other end where it is.
        size = np.clip(np.abs(step), 0.5 * tol, np.abs(width))
        if (k + 1) % _PATIENCE == 0:
            size = np.where(np.abs(width) > 0.5 * checked, 0.5 * np.abs(width), size)
            checked = np.abs(width)
        x = np.where(done, b, b + np.copysign(size, width))
        at_x = secular.excess(x)
        same = (at_x > 0.0) == (at_b > 0.0)
        left = 1.0 - at_x / at_b
        at_a = np.where(same, at_a * np.where(left > 0.0, left, 0.5), at_b)
        a, b, at_b = np.where(same, a, b), x, at_x
    return root
