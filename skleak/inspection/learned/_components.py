"""Principal components: eigenvectors of the covariance of all records, by perturbation theory.

With ``S q_m = lambda_m q_m``, a change dS of the covariance turns the component l by

    dv_l = sum_m q_m (q_m . dS v_l) / (lambda_l - lambda_m)    over all m but l,

and one of a record u by t makes ``dS = (z t^T + t z^T) / (n - 1)`` with ``z = u - mean``: what the
mean does cancels. The sign of a component is fixed by its largest entry, and does not change by a
small step, unless two entries of opposite signs are equally large, as of two standardised columns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.decomposition import PCA

from skleak.inspection.learned._leaf import LearnedLeaf, NothingLearned, rounding
from skleak.utils._typing import FloatArray, IntArray

# Relative to the largest, the least distance of two eigenvalues, and of two loadings.
_GAP = 1e-9


@dataclass(frozen=True)
class ComponentsRate:
    """``G``: derivatives in the mean, and in the covariance by eigenvectors."""

    mean: FloatArray  # (p, w)
    # Coefficients of ``q_m . dS v_l``, with 1 / (n - 1), (p, w, k)
    covariance: FloatArray


@dataclass(frozen=True)
class Components(LearnedLeaf):
    """A fitted PCA at its training records. Confidential."""

    centered: FloatArray  # z, (n, w)
    components: FloatArray  # v_l, (k, w)
    basis: FloatArray  # all eigenvectors as columns, the components first, (w, w)
    eigenvalues: FloatArray  # in the same order, (w,)
    whiten: bool

    @classmethod
    def of(cls, transformer: PCA, records: FloatArray) -> "Components":
        """Check that these are the components of the records, (n, w)."""
        n, components = len(records), transformer.components_
        centered = records - records.mean(axis=0)
        covariance = centered.T @ centered / (n - 1)
        values, vectors = linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1].copy()
        k, size = len(components), float(values[0])
        own = values[:k]
        error = np.abs(components @ covariance - own[:, None] * components).max(initial=0.0)
        off = np.abs(transformer.mean_ - records.mean(axis=0)).max()
        allowed = 10.0 * rounding(components)
        if error > allowed * size or off > allowed * np.abs(records).max():
            raise NothingLearned("PCA that is approximate, or of other records")
        gaps = np.abs(own[:, None] - values)
        gaps[np.arange(k), np.arange(k)] = np.inf
        if gaps.min() <= _GAP * size:
            raise NothingLearned("PCA of equal variances, whose components are not unique")
        sizes = np.abs(components)
        largest = sizes >= (1.0 - _GAP) * sizes.max(axis=1, keepdims=True)
        both = [np.any(largest & (side * components > 0.0), axis=1) for side in (1.0, -1.0)]
        if np.any(both[0] & both[1]):
            raise NothingLearned("PCA whose signs are decided by rounding")
        vectors[:, :k] = components.T
        return cls(centered, components, vectors, values, bool(transformer.whiten))

    @property
    def _axes(self) -> FloatArray:
        """Encoded records over ``z``, of shape (k, w)."""
        if not self.whiten:
            return self.components
        k = len(self.components)
        return self.components / np.sqrt(self.eigenvalues[:k])[:, None]

    def pull(self, outer: FloatArray, rows: IntArray) -> FloatArray:
        return np.asarray(outer @ self._axes)

    def gather(self, outer: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of M, (p, k), and of M by z, (p, k, w)."""
        flat = outer.reshape(len(outer), -1)
        return outer.sum(axis=0), (flat.T @ self.centered[rows]).reshape(*outer.shape[1:], -1)

    def settle(self, gathered: Any) -> ComponentsRate:
        total, turned = gathered
        k, n = len(self.components), len(self.centered)
        own = self.eigenvalues[:k]
        if self.whiten:
            turned = turned / np.sqrt(own)[:, None]
        by_axis = turned @ self.basis  # (p, k, w)
        gaps = own[:, None] - self.eigenvalues
        gaps[np.arange(k), np.arange(k)] = np.inf
        covariance = by_axis / gaps
        if self.whiten:
            at = np.arange(k)
            covariance[:, at, at] = -0.5 * by_axis[:, at, at] / own
        return ComponentsRate(-total @ self._axes / n, covariance.swapaxes(1, 2) / (n - 1))

    def spread(self, G: ComponentsRate, rows: IntArray) -> FloatArray:
        z = self.centered[rows]
        turned = self._by(z @ self.basis, G) @ self.components
        turned += self._by(z @ self.components.T, G, inner=True) @ self.basis.T
        return np.asarray(turned + G.mean)

    def along(
        self, G: ComponentsRate, rows: IntArray, tangents: FloatArray, side: float
    ) -> FloatArray:
        z = self.centered[rows]
        moved = np.einsum("bpl,bl->bp", self._by(z @ self.basis, G), tangents @ self.components.T)
        both = self._by(tangents @ self.basis, G)
        moved += np.einsum("bpl,bl->bp", both, z @ self.components.T)
        return np.asarray(moved + tangents @ G.mean.T)

    @staticmethod
    def _by(left: FloatArray, G: ComponentsRate, *, inner: bool = False) -> FloatArray:
        """Contract the basis, (b, w), to (b, p, k), or the components, (b, k), to (b, p, w)."""
        C = G.covariance.swapaxes(1, 2) if inner else G.covariance
        p, m, k = C.shape
        flat = left @ C.transpose(1, 0, 2).reshape(m, p * k)
        return np.asarray(flat.reshape(len(left), p, k))
