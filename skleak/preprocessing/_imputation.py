"""Public values in place of missing ones."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import OneToOneFeatureMixin
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._columns import PublicTransformer, by_column, column_label, read_table
from skleak.utils._sklearn_compat import fit_context, with_columns_of
from skleak.utils._typing import Array


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

    @fit_context(prefer_skip_nested_validation=True)
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
        check_is_fitted(self)
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
