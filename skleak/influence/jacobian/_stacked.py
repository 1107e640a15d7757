"""Leakage of the same records in many fits, all at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.influence.jacobian._norms import Columns, Norm, completed_square
from skleak.influence.jacobian._secular import largest_eigenvalue
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class StackedParts:
    """`JacobianParts` of b fits, each in the coordinates of its own axes."""

    columns: Columns
    n_features: int
    length: FloatArray  # |w_S|, (b,)
    turned: FloatArray  # A, (b, p, p)
    along: FloatArray  # m, (b, p)
    diagonal: FloatArray  # of M M^T, ascending, (b, p)

    @classmethod
    def of(
        cls,
        coefficients: FloatArray,
        inverse_hessian: FloatArray,
        columns: Columns,
        n_features: int,
    ) -> Self:
        """Of minimisers (b, p), and inverses of their Hessians (b, p, p)."""
        b, p = coefficients.shape
        basis = columns.basis(n_features)
        w = coefficients[:, :n_features] @ basis
        length = np.linalg.norm(w, axis=1)
        direction = w / np.where(length > 0.0, length, 1.0)[:, None]
        embedded = inverse_hessian[:, :, :n_features] @ basis
        along = np.einsum("bpk,bk->bp", embedded, direction)
        rest = embedded - along[:, :, None] * direction[:, None, :]
        vectors, values, _ = np.linalg.svd(rest, full_matrices=True)
        vectors, diagonal = vectors[:, :, ::-1], np.zeros((b, p))
        diagonal[:, p - values.shape[1] :] = values[:, ::-1] ** 2
        turned = inverse_hessian @ vectors
        along = np.einsum("bp,bpk->bk", along, vectors)
        return cls(columns, n_features, length, turned, along, diagonal)

    def norms(
        self, x: FloatArray, r: FloatArray, c: FloatArray, q: FloatArray, norm: Norm
    ) -> FloatArray:
        """Norm of the Jacobian of every record in every fit.

        Shapes: ``x`` (n, p), or (n, b, p) where each fit has records of its own; the derivatives
        ``r``, ``c`` and ``q`` of the loss (n, b); returns (n, b).
        """
        b, p = self.along.shape
        size, by_u, h = completed_square(r, c * self.length, q * self.columns.target_length)
        if x.ndim == 2:
            u = (x @ self.turned.transpose(1, 0, 2).reshape(p, b * p)).reshape(-1, b, p)
        else:
            u = np.einsum("nbp,bpk->nbk", x, self.turned)
        u *= size[:, :, None]
        u += by_u[:, :, None] * self.along
        if norm == "trace":
            squares = r**2 * self.diagonal.sum(axis=1) + np.einsum("nbk,nbk->nb", u, u)
            squares += h * np.einsum("bk,bk->b", self.along, self.along)
            return np.sqrt(squares / self.columns.count(self.n_features))
        along, diagonal = (
            np.broadcast_to(table, u.shape).reshape(-1, p) for table in (self.along, self.diagonal)
        )
        squares = largest_eigenvalue(diagonal, (r**2).ravel(), u.reshape(-1, p), h.ravel(), along)
        return np.sqrt(squares).reshape(r.shape)
