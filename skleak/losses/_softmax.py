"""Loss of one linear predictor per class, for more than two classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class SoftmaxLoss:
    """Negative log-likelihood of a class, ``log(sum_k exp(a_k)) - a_y``.

    Every method takes predictors ``a`` of shape (n, K), one per class, and class numbers ``y`` in
    {0, ..., K - 1} of shape (n,). Adding the same number to all predictors of a record changes
    nothing: the residuals, and the rows of the curvature, sum to zero over the classes.

    Attributes
    ----------
    name : str
        Short name.
    lipschitz : float
        Supremum of the Euclidean norm of the residual: ``sqrt(2)``, where another class is
        certain.
    quadratic : bool
        Whether the curvature is constant: it is not.

    Examples
    --------
    >>> import numpy as np
    >>> SoftmaxLoss().residual(np.zeros((1, 4)), np.array([2.0]))
    array([[ 0.25,  0.25, -0.75,  0.25]])
    """

    name: ClassVar[str] = "softmax"
    lipschitz: ClassVar[float] = float(np.sqrt(2.0))
    quadratic: ClassVar[bool] = False

    def value(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each record, of shape (n,)."""
        # Own code for both sums: SciPy's take longer than all else where records are few.
        above = a - np.take_along_axis(a, y.astype(np.intp)[:, None], axis=1)
        top = above.argmax(axis=1)[:, None]
        largest = np.take_along_axis(above, top, axis=1)
        others = np.exp(above - largest)
        np.put_along_axis(others, top, 0.0, axis=1)
        return np.asarray(largest[:, 0] + np.log1p(others.sum(axis=1)))

    def inverse_link(self, a: FloatArray) -> FloatArray:
        """Probability of each class, of the shape (..., K) of the predictors."""
        odds = np.exp(a - a.max(axis=-1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=-1, keepdims=True))

    def mean_change(self, a: FloatArray, t: FloatArray) -> FloatArray:
        """Change of each probability as ``t`` is added to ``a``, of their common shape (..., K).

        With p and q the probabilities before and after, ``sum_j (q_k p_j - p_k q_j)``. The terms
        are ``(q_k p_j + p_k q_j) tanh((t_k - t_j) / 2)``: nothing cancels in them for a small
        ``t``, nor where a class is nearly certain, and far away none overflows or divides by a
        probability of which nothing is left.

        Parameters
        ----------
        a : ndarray of shape (..., K)
            Predictors.
        t : ndarray of shape (..., K)
            Their changes.
        """
        p, q = self.inverse_link(a), self.inverse_link(a + t)
        change = np.zeros_like(q)
        for k in range(1, t.shape[-1]):
            flow = q[..., [k]] * p[..., :k] + p[..., [k]] * q[..., :k]
            flow *= np.tanh((t[..., [k]] - t[..., :k]) / 2.0)
            change[..., k] += flow.sum(axis=-1)
            change[..., :k] -= flow
        return change

    def residual(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """First derivative in ``a``, probability minus indicator, of shape (n, K).

        Without cancellation for confident correct predictions: the entry of the own class is
        minus the sum of the others.

        Parameters
        ----------
        a : ndarray of shape (n, K)
            Predictors.
        y : ndarray of shape (n,)
            Class numbers.
        """
        residual = self.inverse_link(a)
        codes = y.astype(np.intp)[:, None]
        np.put_along_axis(residual, codes, 0.0, axis=1)
        np.put_along_axis(residual, codes, -residual.sum(axis=1, keepdims=True), axis=1)
        return residual

    def curvature(self, a: FloatArray) -> FloatArray:
        """Second derivative in ``a``, ``diag(p) - p p^T``, of shape (n, K, K).

        Exact far into the tails: ``1 - p_k`` is the sum of the other probabilities.

        Parameters
        ----------
        a : ndarray of shape (n, K)
            Predictors.
        """
        p = self.inverse_link(a)
        curvature = -p[:, :, None] * p[:, None, :]
        k = np.arange(p.shape[1])
        curvature[:, k, k] = 0.0
        curvature[:, k, k] = -curvature.sum(axis=2)
        return curvature
