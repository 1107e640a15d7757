"""Clip to public bounds and scale."""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import OneToOneFeatureMixin
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._columns import PublicTransformer, by_column, column_label, read_records
from skleak.utils._sklearn_compat import fit_context, with_columns_of
from skleak.utils._typing import FloatArray

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

    def __init__(
        self,
        bounds: Any,
        *,
        feature_range: tuple[float, float] = (-1.0, 1.0),
    ) -> None:
        self.bounds = bounds
        self.feature_range = feature_range

    @fit_context(prefer_skip_nested_validation=True)
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
        check_is_fitted(self)
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
        check_is_fitted(self)
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
