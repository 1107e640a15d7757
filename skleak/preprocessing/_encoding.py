"""One-hot columns of public categories."""

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._blockwise import PublicTransformer, by_column, column_label, read_table
from skleak.utils._sklearn_compat import StrOptions, output_container, with_columns_of
from skleak.utils._typing import Array


class PublicOneHotEncoder(PublicTransformer):
    """One column of zeros and ones for each public category.

    A `sklearn.preprocessing.OneHotEncoder` whose categories come from outside knowledge and not
    from the records. ``fit`` learns the names and the number of the columns, and each row is
    transformed by itself.

    Parameters
    ----------
    categories : dict of str to list, list of lists, or list
        Categories of each column, by name or in order, or one list for all. None or NaN, as the
        last category, stands for all that is missing. Categories that are read off the records
        are not public: a rare one reveals that somebody has it. Take them from a code book.
    drop : {"first", "if_binary"} or None, default=None
        Leave out the first category of each column, or of columns with two categories.
    handle_unknown : {"ignore", "error", "other"}, default="ignore"
        What becomes of values that are no category, and of missing ones where that is none: a row
        of zeros, an error, or a column of their own, the last one, named as scikit-learn's encoder
        names infrequent categories. With "ignore" and "other" there is an output for every table;
        "error" finds misspelled categories. With "other" a list of categories may be empty.
    sparse_output : bool, default=False
        Whether to return a sparse matrix.

    Attributes
    ----------
    encoder_ : OneHotEncoder
        Scikit-learn's encoder with these categories. Public.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Column names, where the table has them.

    Notes
    -----
    Values are compared by equality, whatever their type: 1, 1.0 and True are one category, and
    "1" is another. None, NaN, ``pd.NA`` and ``NaT`` are one missing value.

    Examples
    --------
    >>> import pandas as pd
    >>> from skleak.preprocessing import PublicOneHotEncoder
    >>> X = pd.DataFrame({"gene": ["AA", "AB", "other"], "smoker": [1, None, 0]})
    >>> encoder = PublicOneHotEncoder({"gene": ["AA", "AB", "BB"], "smoker": [0, 1, None]})
    >>> encoder.fit_transform(X)
    array([[1., 0., 0., 0., 1., 0.],
           [0., 1., 0., 0., 0., 1.],
           [0., 0., 0., 1., 0., 0.]])
    >>> encoder.get_feature_names_out()
    array(['gene_AA', 'gene_AB', 'gene_BB', 'smoker_0', 'smoker_1', 'smoker_nan'],
          dtype=object)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "categories": [Mapping, "array-like"],
        "drop": [StrOptions({"first", "if_binary"}), None],
        "handle_unknown": [StrOptions({"ignore", "error", "other"})],
        "sparse_output": ["boolean"],
    }
    _input_tags: ClassVar[dict[str, bool]] = {
        "categorical": True,
        "string": True,
        "allow_nan": True,
    }

    encoder_: OneHotEncoder
    _listed: list[Array]  # the categories, without one that stands for all others

    def __init__(
        self,
        categories: Any,
        *,
        drop: Literal["first", "if_binary"] | None = None,
        handle_unknown: Literal["ignore", "error", "other"] = "ignore",
        sparse_output: bool = False,
    ) -> None:
        self.categories = categories
        self.drop = drop
        self.handle_unknown = handle_unknown
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names and the number of the columns, and check the categories against them.

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
            For categories of columns that X lacks, columns without categories, repeated
            categories; and for unknown values with ``handle_unknown="error"``.

        Warns
        -----
        UserWarning
            Where a column holds none of its categories, as with numbers read as text.
        """
        table = self._read(X, reset=True)
        self._prepare()
        self._warn_if_none_is_known(table)
        if self.handle_unknown == "error":
            self.encoder_.transform(table)
        return self

    def _prepare(self) -> Self:
        self._listed = categories = self._checked_categories()
        counted: dict[str, Any] = {"handle_unknown": self.handle_unknown}
        if self.handle_unknown == "other":
            categories = [_with_other(values) for values in categories]
            counted = {"handle_unknown": "infrequent_if_exist", "min_frequency": 2}
        encoder = OneHotEncoder(
            categories=categories, drop=self.drop, sparse_output=self.sparse_output, **counted
        )
        # Fitted on the categories themselves: what scikit-learn takes from a table (the type of a
        # column, which categories are infrequent) is then public as well.
        rows = _twice(self._listed)
        names = getattr(self, "feature_names_in_", None)
        public = pd.DataFrame(np.stack(rows, axis=1), columns=names, dtype=object)
        self.encoder_ = encoder.set_output(transform="default").fit(public)
        return self

    def transform(self, X: Any) -> Any:
        """Encode each value.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_encoded)
            Of zeros and ones, with at most one 1 for each column of X.

        Raises
        ------
        ValueError
            For unknown values with ``handle_unknown="error"``.
        """
        return self.encoder_.transform(self._read(X, reset=False))

    def inverse_transform(self, X: Any) -> Array:
        """Return to the categories.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_encoded)
            Encoded rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            None for a row of zeros, NaN where missing is a category, "infrequent_sklearn" for
            others.
        """
        return self.encoder_.inverse_transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the encoded columns ``<column>_<category>``.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; by default those of the table, or "x0", "x1", ...

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return self.encoder_.get_feature_names_out(input_features)

    def to_sklearn(self) -> OneHotEncoder:
        """Return scikit-learn's own transformer, for whoever has no skleak.

        Returns
        -------
        OneHotEncoder
            Fitted. Of numbers where all categories of a column are numbers. Missing values must
            come to it as NaN.
        """
        check_is_fitted(self)
        columns = [_of_plain_type(values) for values in self.encoder_.categories_]
        encoder = clone(self.encoder_).set_params(categories=columns)
        filled = _twice([_of_plain_type(values) for values in self._listed])
        table = pd.concat([pd.Series(column, dtype=column.dtype) for column in filled], axis=1)
        table.columns = getattr(self, "feature_names_in_", table.columns)
        made = with_columns_of(self, encoder.fit(table))
        names = self.get_feature_names_out()
        if output_container(self) and list(made.get_feature_names_out()) != list(names):
            raise ValueError(
                "scikit-learn's encoder would name its columns otherwise, "
                f"{list(made.get_feature_names_out())} in place of {list(names)}: numbers next to "
                "None become fractions there. Use text as categories, or leave out `set_output`."
            )
        return made

    def _used_parameters(self) -> dict[str, Any]:
        return {"categories": [values.tolist() for values in self._listed]}

    def _read(self, X: Any, *, reset: bool) -> pd.DataFrame:
        table = read_table(self, X, reset=reset).astype(object)
        return pd.DataFrame(table, columns=getattr(self, "feature_names_in_", None), dtype=object)

    def _checked_categories(self) -> list[Array]:
        shared = not isinstance(self.categories, Mapping) and not any(
            pd.api.types.is_list_like(values) for values in self.categories
        )
        checked = []
        for index, given in enumerate(by_column(self, "categories", shared)):
            label = column_label(self, index)
            least = 0 if self.handle_unknown == "other" else 1
            if not pd.api.types.is_list_like(given) or len(given) < least:
                raise ValueError(
                    f"`categories` of {label} must be a list of at least one; got {given!r}."
                )
            values = np.fromiter(given, dtype=object, count=len(given))
            values[pd.isna(values)] = np.nan
            repeated = pd.Series(values).duplicated()
            if repeated.any():
                raise ValueError(
                    f"`categories` of {label} must be distinct (1, 1.0 and True are the same, and "
                    f"so are None and NaN); got {list(values[repeated])} more than once."
                )
            checked.append(values)
        return checked

    def _warn_if_none_is_known(self, table: pd.DataFrame) -> None:
        for index, known in enumerate(self._listed):
            values = table.iloc[:, index].dropna()
            if len(known) and len(values) and not values.isin(known).any():
                encoded = "others" if self.handle_unknown == "other" else "zeros"
                warnings.warn(
                    f"No value of {column_label(self, index)} is among its `categories` "
                    f"{list(known[:3])}...: it is encoded as {encoded}. Are the categories "
                    f"of the type of the values ({type(values.iloc[0]).__name__})?",
                    UserWarning,
                    stacklevel=3,
                )


def _of_plain_type(values: Array) -> Array:
    """Make numbers an array of numbers, where scikit-learn's encoder takes them as such."""
    if not all(isinstance(value, Real) for value in values):
        return values
    return np.array(values.tolist())


def _with_other(values: Array) -> Array:
    """Add a category that never occurs and stands for all others; missing ones stay the last."""
    known = [value for value in values if not pd.isna(value)]
    other: Any = "other"
    if all(isinstance(value, Real) for value in known):
        other = max(known, default=-1) + 1
    while other in known:
        other += "_" if isinstance(other, str) else max(abs(other), 1)
    return np.insert(values.astype(object), len(known), other)


def _twice(columns: list[Array]) -> list[Array]:
    """Repeat each category, so that it is not infrequent, and fill columns up to equal lengths."""
    repeated = [np.repeat(values, 2) if len(values) else np.array([np.nan]) for values in columns]
    places = np.arange(max(map(len, repeated)))
    return [values[np.minimum(places, len(values) - 1)] for values in repeated]
