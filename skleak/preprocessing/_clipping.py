"""Rows of bounded Euclidean norm."""

from numbers import Real
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._columns import PublicTransformer, read_records
from skleak.utils._sklearn_compat import Interval, fit_context
from skleak.utils._typing import BoolArray, FloatArray


class RowNormClipper(OneToOneFeatureMixin, PublicTransformer):
    """Shorten rows to a public norm.

    Rows that are longer (Euclidean norm) are scaled down to ``norm``; others stay as they are.
    `sklearn.preprocessing.Normalizer` makes all rows equally long: the length of a row, and with
    it a part of its meaning, is gone. As the last step before a private estimator with
    ``data_norm=norm`` it keeps the promise that no row is longer.

    Parameters
    ----------
    norm : float, positive
        Largest norm of a row after ``transform``. A norm that is read off the records (the
        longest, a quantile) is not public.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Column names, where the table has them.

    Notes
    -----
    Each row is transformed by itself and nothing is learned. Rows are shortened by a little more
    than to ``norm`` (a relative ``(n_features + 4) * 2.2e-16``), so that their norm is at most
    ``norm`` in spite of rounding. Output is in double precision; sparse rows stay sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.preprocessing import RowNormClipper
    >>> RowNormClipper(norm=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]]).round(6)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "norm": [Interval(Real, 0, None, closed="neither")]
    }
    _input_tags: ClassVar[dict[str, bool]] = {"sparse": True}

    def __init__(self, norm: float) -> None:
        self.norm = norm

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names and the number of the columns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records. Their values are not kept.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
        """
        read_records(self, X, reset=True, accept_sparse="csr")
        return self

    def transform(self, X: Any) -> Any:
        """Shorten each row that is too long.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records. Finite; as large as doubles can be.

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_features)
            Sparse where X is.
        """
        check_is_fitted(self)
        X = read_records(self, X, reset=False, accept_sparse="csr", copy=True, order="C")
        if sparse.issparse(X):
            X.sum_duplicates()
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            peaks = np.zeros(X.shape[0])
            np.maximum.at(peaks, rows, np.abs(X.data))
            unit = X.data / _positive(peaks)[rows]
            squares = np.bincount(rows, unit**2, X.shape[0]).astype(np.float64)
            is_long, factors = self._shortening(peaks, squares, X.shape[1])
            X.data = np.where(is_long[rows], unit * factors[rows], X.data)
            return X
        peaks = np.abs(X).max(axis=1)
        unit = X / _positive(peaks)[:, None]
        is_long, factors = self._shortening(peaks, np.einsum("ij,ij->i", unit, unit), X.shape[1])
        return np.where(is_long[:, None], unit * factors[:, None], X)

    def to_sklearn(self) -> NoReturn:
        """Raise: scikit-learn has nothing that shortens long rows only.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError(
            "scikit-learn has no transformer that shortens long rows only, as RowNormClipper does. "
            "Train without it: k columns that a PublicScaler scales to [-1, 1] and m columns that "
            "a PublicOneHotEncoder encodes have rows of norm at most sqrt(k + m), which can be "
            "promised as `data_norm`. Or publish the release itself, for use with skleak."
        )

    def _used_parameters(self) -> dict[str, Any]:
        return {"norm": float(self.norm)}

    def _shortening(
        self, peaks: FloatArray, squares: FloatArray, n_features: int
    ) -> tuple[BoolArray, FloatArray]:
        """Find the rows that are too long, (n,), and what shortens them once divided by peaks.

        Entries of a row divided by the largest of them have squares that neither overflow nor
        vanish.
        """
        lengths = np.sqrt(_positive(squares))
        with np.errstate(over="ignore"):  # longer than any double, hence than the norm
            is_long = peaks * lengths > self.norm
        margin = (n_features + 4) * np.finfo(np.float64).eps
        return is_long, self.norm / lengths * (1.0 - margin)


def _positive(values: FloatArray) -> FloatArray:
    """Put 1 in place of zeros, to divide by."""
    return np.where(values > 0.0, values, 1.0)
