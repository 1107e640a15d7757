"""Scale, clip, and impute columns with public numbers."""

import copy
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._blockwise import (
    PublicTransformer,
    by_column,
    column_label,
    read_records,
    read_table,
)
from skleak.utils._sklearn_compat import Interval, with_columns_of
from skleak.utils._typing import Array, BoolArray, FloatArray

_LARGEST = np.finfo(np.float64).max
# Below this scikit-learn's scaler takes a column for a constant.
_NARROWEST = 10.0 * np.finfo(np.float64).eps


class PublicScaler(OneToOneFeatureMixin, PublicTransformer):
    """Clip columns to public bounds and scale them to a range.

    A `sklearn.preprocessing.MinMaxScaler` that takes the smallest and largest value of each
    column from outside knowledge and not from the records. ``fit`` learns the names and the number
    of the columns, and each row is transformed by itself.

    Parameters
    ----------
    bounds : dict of str to (float, float), array-like of shape (n_features, 2), or (float, float)
        Smallest and largest value of each column, by name or in order, or one pair for all.
        Values beyond are moved to the bound. Bounds that are read off the records (their minimum,
        a quantile) are not public: they carry records into every row, and no guarantee covers
        them. Take them from what is known without the records.
    feature_range : (float, float), default=(-1, 1)
        What the bounds are mapped to. The middle of the bounds is then 0, so that rows of d
        columns have norm at most ``sqrt(d)`` and usual ones are much shorter than that, and
        `RowNormClipper` changes few of them.

    Attributes
    ----------
    scaler_ : MinMaxScaler
        Scikit-learn's scaler with these bounds. Public.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Column names, where the table has them.

    See Also
    --------
    RowNormClipper : Bounds the norm of whole rows.
    PublicTargetScaler : The same for the target of a regression.

    Notes
    -----
    NaN stays NaN (put a `PublicImputer` before or after); infinite values are moved to the bound.
    Output is in double precision for every type of input.

    Examples
    --------
    >>> import pandas as pd
    >>> from skleak.preprocessing import PublicScaler
    >>> X = pd.DataFrame({"age": [18, 59, 130], "dose": [0.0, 2.0, 1.0]})
    >>> PublicScaler(bounds={"age": (18, 100), "dose": (0, 4)}).fit_transform(X)
    array([[-1. , -1. ],
           [ 0. ,  0. ],
           [ 1. , -0.5]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bounds": [Mapping, "array-like"],
        "feature_range": [tuple, list],
    }
    _input_tags: ClassVar[dict[str, bool]] = {"allow_nan": True}

    scaler_: MinMaxScaler

    def __init__(self, bounds: Any, *, feature_range: tuple[float, float] = (-1.0, 1.0)) -> None:
        self.bounds = bounds
        self.feature_range = feature_range

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names and the number of the columns, and check the bounds against them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records. Their values are not kept.
        y : object, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bounds of columns that X lacks, columns without bounds, and bounds that are not
            finite or not in ascending order.
        """
        self._read(X, reset=True)
        return self._prepare()

    def _prepare(self) -> Self:
        low, high = self._checked_bounds()
        start, stop = _pair(self.feature_range, "`feature_range`")
        scaler = MinMaxScaler((start, stop), clip=True).set_output(transform="default")
        self.scaler_ = scaler.fit(np.stack([low, high]))
        return self

    def transform(self, X: Any) -> FloatArray:
        """Clip and scale each value.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Within ``feature_range``, or NaN.
        """
        X = self._read(X, reset=False)
        with np.errstate(over="ignore"):  # beyond the bounds, wherever
            return self.scaler_.transform(np.clip(X, -_LARGEST, _LARGEST))

    def inverse_transform(self, X: npt.ArrayLike) -> FloatArray:
        """Return to the units of the columns; values that were clipped stay at the bound.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Scaled values. Values beyond ``feature_range`` are continued, not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return self.scaler_.inverse_transform(X)

    def to_sklearn(self) -> MinMaxScaler:
        """Return scikit-learn's own transformer, for whoever has no skleak.

        Returns
        -------
        MinMaxScaler
            Fitted. Infinite values, which are clipped here, are an error there.
        """
        check_is_fitted(self)
        return with_columns_of(self, copy.deepcopy(self.scaler_))

    def _used_parameters(self) -> dict[str, Any]:
        scaler = self.scaler_
        bounds = np.stack([scaler.data_min_, scaler.data_max_], axis=1)
        return {"bounds": bounds.tolist(), "feature_range": tuple(scaler.feature_range)}

    def _read(self, X: Any, *, reset: bool) -> FloatArray:
        return read_records(self, X, reset=reset, ensure_all_finite=False)

    def _checked_bounds(self) -> tuple[FloatArray, FloatArray]:
        shared = not isinstance(self.bounds, Mapping) and np.ndim(self.bounds) == 1
        pairs = [
            _pair(pair, f"`bounds` of {column_label(self, index)}")
            for index, pair in enumerate(by_column(self, "bounds", shared))
        ]
        low, high = np.array(pairs).T
        return low, high


class PublicTargetScaler(PublicScaler):
    """Clip the target of a regression to public bounds and scale it.

    For the ``transformer`` of a `sklearn.compose.TransformedTargetRegressor`. Give that
    ``check_inverse=False``: it would warn about targets beyond the bounds, which are clipped
    for the sake of the guarantee and do not come back.

    Parameters
    ----------
    bounds : (float, float)
        Smallest and largest value of the target. Bounds that are read off the targets (their
        minimum, a quantile) are not public.
    feature_range : (float, float), default=(-1, 1)
        What the bounds are mapped to: targets are then at most 1 in absolute value.

    Attributes
    ----------
    scaler_ : MinMaxScaler
        Scikit-learn's scaler with these bounds. Public.
    n_features_in_ : int
        Number of targets.

    See Also
    --------
    PublicScaler : The same for columns.

    Notes
    -----
    Predictions beyond the bounds are continued linearly, so that a linear model stays one.

    Examples
    --------
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.preprocessing import PublicTargetScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TransformedTargetRegressor(
    ...     PrivateLinearRegression(), transformer=PublicTargetScaler((0, 400)), check_inverse=False
    ... )
    >>> model.fit(X, y).predict(X).shape
    (442,)
    """

    _input_tags: ClassVar[dict[str, bool]] = {"allow_nan": False}

    def _read(self, X: Any, *, reset: bool) -> FloatArray:
        return read_records(self, X, reset=reset)

    def _used_parameters(self) -> dict[str, Any]:
        used = super()._used_parameters()
        return {**used, "bounds": tuple(used["bounds"][0])}

    def _checked_bounds(self) -> tuple[FloatArray, FloatArray]:
        low, high = _pair(self.bounds, "`bounds` of the target")
        return np.full(self.n_features_in_, low), np.full(self.n_features_in_, high)


def _pair(pair: Any, what: str) -> tuple[float, float]:
    """Check a pair of finite numbers in ascending order."""
    try:
        low, high = (float(number) for number in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a pair of numbers (low, high); got {pair!r}.") from None
    if not (low < high and np.isfinite(high - low)):
        raise ValueError(
            f"{what} must be finite and in ascending order, low < high; got ({low:g}, {high:g}). "
            "Take them from what is known of the column without its records."
        )
    if high - low < _NARROWEST:
        raise ValueError(
            f"{what} must be at least {_NARROWEST:.1e} apart; got ({low:g}, {high:g}). Choose "
            "another unit."
        )
    return low, high


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


class PublicImputer(OneToOneFeatureMixin, PublicTransformer):
    """Put public values in place of missing ones.

    A `sklearn.impute.SimpleImputer` of constants, one a column, which come from outside knowledge
    and not from the records. ``fit`` learns the names and the number of the columns, and each row
    is transformed by itself.

    Parameters
    ----------
    values : dict of str to scalar, list of scalars, or scalar
        What replaces a missing value of each column, by name or in order, or one for all. The mean
        or the most frequent value of the records is not public.
    add_indicator : bool, default=False
        Whether to append a column of zeros and ones for every column that tells where values were
        missing, whether or not any is.

    Attributes
    ----------
    values_ : ndarray of shape (n_features,)
        The value of each column. Public.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Column names, where the table has them.

    Notes
    -----
    Missing are None, NaN, ``pd.NA`` and ``NaT``. Where all ``values`` are numbers the output is in
    double precision, and text in X is an error; else it is an array of objects. Use one imputer
    for columns of numbers and another for columns of text.

    Examples
    --------
    >>> import pandas as pd
    >>> from skleak.preprocessing import PublicImputer
    >>> X = pd.DataFrame({"age": [30, None], "dose": [None, 2.0]})
    >>> PublicImputer(values={"age": 50, "dose": 1}).fit_transform(X)
    array([[30.,  1.],
           [50.,  2.]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "values": "no_validation",
        "add_indicator": ["boolean"],
    }
    _input_tags: ClassVar[dict[str, bool]] = {"allow_nan": True, "string": True}

    values_: Array

    def __init__(self, values: Any, *, add_indicator: bool = False) -> None:
        self.values = values
        self.add_indicator = add_indicator

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names and the number of the columns, and check the values against them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records. Their values are not kept.
        y : object, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For values of columns that X lacks, columns without a value, values that are missing or
            infinite themselves; and for text in X where all values are numbers.
        """
        table = read_table(self, X, reset=True)
        self._prepare()
        self._filled(table)
        return self

    def _prepare(self) -> Self:
        self.values_ = self._checked_values()
        return self

    def transform(self, X: Any) -> Array:
        """Replace what is missing.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, 2 * n_features)
            With the indicators last.
        """
        return self._filled(read_table(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the columns as they were, and indicators ``missingindicator_<column>``.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; by default those of the table, or "x0", "x1", ...

        Returns
        -------
        ndarray of str
        """
        names = super().get_feature_names_out(input_features)
        if not self.add_indicator:
            return names
        return np.append(names, [f"missingindicator_{name}" for name in names]).astype(object)

    def to_sklearn(self) -> SimpleImputer:
        """Return scikit-learn's own transformer, for whoever has no skleak.

        Returns
        -------
        SimpleImputer
            Fitted. Tables of text must come to it as arrays of objects with NaN where missing.
        """
        check_is_fitted(self)
        # Fitted on rows of what is missing, so that it indicates every column.
        names = getattr(self, "feature_names_in_", None)
        missing = np.full((1, self.n_features_in_), np.nan, dtype=self.values_.dtype)
        imputer = SimpleImputer(
            strategy="constant",
            fill_value=self.values_[0],
            add_indicator=self.add_indicator,
            keep_empty_features=True,
        )
        imputer.fit(missing if names is None else pd.DataFrame(missing, columns=names))
        imputer.statistics_ = self.values_.copy()
        return with_columns_of(self, imputer)

    def _used_parameters(self) -> dict[str, Any]:
        return {"values": self.values_.tolist()}

    def _filled(self, table: Array) -> Array:
        missing = pd.isna(table)
        try:
            filled = np.where(missing, self.values_, table).astype(self.values_.dtype)
        except (ValueError, TypeError):
            numbers = pd.DataFrame(table).apply(pd.to_numeric, errors="coerce").to_numpy()
            column = int(np.flatnonzero((pd.isna(numbers) & ~missing).any(axis=0))[0])
            raise ValueError(
                "Where all `values` of a PublicImputer are numbers, so must be those of X; but "
                f"could not convert {column_label(self, column)} to numbers. Impute columns of "
                "text by another PublicImputer, with texts as values."
            ) from None
        return np.hstack([filled, missing]) if self.add_indicator else filled

    def _checked_values(self) -> Array:
        shared = not pd.api.types.is_list_like(self.values)
        values = np.fromiter(by_column(self, "values", shared), dtype=object)
        is_number = [isinstance(value, Real) for value in values]
        for index, value in enumerate(values):
            if pd.api.types.is_list_like(value) or pd.isna(value) or value in (np.inf, -np.inf):
                raise ValueError(
                    f"`values` of {column_label(self, index)} must be a finite number, a text or "
                    f"another scalar; got {value!r}."
                )
        return values.astype(np.float64) if all(is_number) else values
