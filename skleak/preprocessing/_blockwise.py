"""Transformers of rows applied to tables outside memory, block by block."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._columns import PublicTransformer
from skleak.preprocessing._large import (
    dense_of,
    first_rows,
    named,
    transform_large,
)
from skleak.utils._predictions import select_columns
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import clone_parametrized, copy_attributes, fit_context
from skleak.utils._typing import Array
from skleak.utils.blocks._dask import is_large
from skleak.utils.sources import is_large_source, refuse_path

# Relative to the largest entry, rows that differ by less are encoded alike.
_ROUNDING = 1e-8


class BlockwiseTransformer(  # type: ignore[call-arg]
    TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """Apply a transformer to tables outside memory, block by block.

    For the steps of a pipeline before a private model. The transformer is fitted already, on public
    data or on a sample, or it learns nothing from records: a transformer of
    `skleak.preprocessing`, one of scikit-learn without state, or a ColumnTransformer, Pipeline or
    FeatureUnion of such. It has to transform each row by itself.

    Parameters
    ----------
    transformer : estimator
        Fitted, or one that learns nothing. A fitted one is used as it is: `fit` does not touch it,
        and neither does `sklearn.base.clone`.
    keep : sequence of str, default=()
        Columns that `fit_transform` hands on as they are, beside those of the transformer: of
        sample weights, for instance. The column of the target is handed on whenever `y` names it.

    Attributes
    ----------
    transformer_ : estimator
        The fitted transformer.
    n_features_in_ : int
        Number of columns it takes.
    feature_names_in_ : ndarray of str
        Their names.

    See Also
    --------
    PublicScaler, PublicOneHotEncoder : Transformers that take tables outside memory themselves.

    Notes
    -----
    Parquet files, Polars lazy frames and Dask data frames become Dask data frames, Dask arrays
    become Dask arrays; nothing is loaded but a few rows, for the names and types of the columns.
    Columns go by name: those the transformer was fitted with are taken, in their order.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.preprocessing import BlockwiseTransformer
    >>> public = pd.DataFrame({"age": [20.0, 50.0, 80.0], "ward": ["A", "B", "A"]})
    >>> encoder = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"]))
    >>> blockwise = BlockwiseTransformer(encoder.fit(public))
    >>> blockwise.fit_transform(public).shape
    (3, 3)
    >>> pipeline = make_pipeline(blockwise, PrivateLinearRegression())
    >>> # pipeline.fit("rows.parquet", y="dose")
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "transformer": [BaseEstimator],
        "keep": ["array-like"],
    }

    transformer_: Any
    feature_names_in_: Array

    def __init__(self, transformer: Any, *, keep: Sequence[str] = ()) -> None:
        self.transformer = transformer
        self.keep = keep

    @fit_context(prefer_skip_nested_validation=True)
    @withholding
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names of the columns from a few rows.

        Parameters
        ----------
        X : path, Polars lazy frame, Dask data frame or array, DataFrame or array-like
            Records of shape (n_samples, n_features).
        y : str or object, default=None
            The column of the target, where it is in the table; else ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a transformer that is not fitted and learns from records, one that mixes rows, and
            columns that the table lacks.
        """
        rows = first_rows(X, [*self.keep, *named(y)])
        if _is_fitted(self.transformer):
            self.transformer_ = self.transformer
        else:
            _check_learns_nothing(self.transformer)
            self.transformer_ = clone(self.transformer).fit(rows)
        copy_attributes(self.transformer_, self, ("n_features_in_", "feature_names_in_"))
        # Columns of tables outside memory keep their names, and so do others from then on.
        self._named_output = is_large_source(X) and not is_large(X)
        _check_by_rows(self.transformer_, select_columns(self.transformer_, rows))
        return self

    @withholding
    def transform(self, X: Any) -> Any:
        """Transform each row; lazily where the table is outside memory.

        Parameters
        ----------
        X : Polars lazy frame, Dask data frame or array, DataFrame or array-like
            Records of shape (n_samples, n_features). Only `fit` opens paths.

        Returns
        -------
        Dask data frame, Dask array, or what the transformer returns
            Of shape (n_samples, n_encoded).

        Raises
        ------
        TypeError
            For a path.
        """
        check_is_fitted(self)
        refuse_path(X, "transform")
        if is_large_source(X):
            return transform_large(self.transformer_, X)
        return self._contained(self.transformer_.transform(select_columns(self.transformer_, X)), X)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and transform; hand on the columns of the target and of ``keep``.

        Parameters
        ----------
        X : path, Polars lazy frame, Dask data frame or array, DataFrame or array-like
            Records of shape (n_samples, n_features).
        y : str or object, default=None
            The column of the target, where it is in the table; else ignored.
        **fit_params : dict
            None are taken.

        Returns
        -------
        Dask data frame, Dask array, or what the transformer returns
            Of shape (n_samples, n_encoded), and the columns that are handed on.
        """
        self.fit(X, y, **fit_params)
        if is_large_source(X) and not is_large(X):
            return transform_large(self.transformer_, X, [*self.keep, *named(y)])
        return self.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; by default those of the table.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of tables in memory; those outside keep theirs.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            None leaves it as it is.

        Returns
        -------
        self
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise ValueError(
                "`transform` must be 'default', 'pandas', 'polars' or None; got "
                f"{transform!r}. Choose one of these."
            )
        if transform is not None:
            self._container = transform
        return self

    def _contained(self, encoded: Any, X: Any) -> Any:
        """Return the encoded rows in the container that was chosen."""
        usual = "pandas" if getattr(self, "_named_output", False) else "default"
        container = getattr(self, "_container", usual)
        is_plain = isinstance(encoded, np.ndarray) or sparse.issparse(encoded)
        if container == "default" or not is_plain:
            return encoded
        names = [str(name) for name in self.get_feature_names_out()]
        if container == "pandas":
            return pd.DataFrame(dense_of(encoded), columns=names, index=getattr(X, "index", None))
        from polars import DataFrame

        return DataFrame(dense_of(encoded), schema=names)

    def __sklearn_clone__(self) -> Self:
        """Keep what is fitted already."""
        if not _is_fitted(self.transformer):
            return clone_parametrized(self)
        made = type(self)(self.transformer, keep=self.keep)
        return made.set_output(transform=getattr(self, "_container", None))

    def __sklearn_is_fitted__(self) -> bool:
        """Return True after `fit`, and where the transformer came fitted."""
        if not hasattr(self, "transformer_") and _is_fitted(self.transformer):
            self.transformer_ = self.transformer
        return hasattr(self, "transformer_")


def _is_fitted(transformer: Any) -> bool:
    if not get_tags(transformer).requires_fit:
        return hasattr(transformer, "n_features_in_")
    try:
        check_is_fitted(transformer)
    except (NotFittedError, TypeError):
        return False
    return True


def _check_learns_nothing(transformer: Any) -> None:
    learning = [type(one).__name__ for one in _leaves(transformer) if not _is_stateless(one)]
    if learning:
        raise ValueError(
            f"The transformer is not fitted, and {learning} would learn from the records: that "
            "takes all of them, and is not covered by a guarantee. Fit it on public data or a "
            "sample, and pass it fitted; or use the transformers of `skleak.preprocessing`."
        )


def _is_stateless(transformer: Any) -> bool:
    return isinstance(transformer, PublicTransformer) or not get_tags(transformer).requires_fit


def _leaves(transformer: Any) -> list[Any]:
    """Return the transformers that are not made of others."""
    if isinstance(transformer, str) or transformer is None:  # "drop", "passthrough"
        return []
    for name in ("transformers", "transformer_list", "steps"):
        parts = getattr(transformer, name, None)
        if parts is not None:
            rest = getattr(transformer, "remainder", None)
            return [leaf for part in (*(p[1] for p in parts), rest) for leaf in _leaves(part)]
    return [transformer]


def _check_by_rows(transformer: Any, rows: Any) -> None:
    """Refuse a transformer whose output for a row depends on the rows beside it."""
    n = len(rows)
    if n < 2:
        return
    take = rows.iloc if isinstance(rows, pd.DataFrame) else np.asarray(rows)
    whole = dense_of(transformer.transform(rows))
    halves = [dense_of(transformer.transform(take[some])) for some in (slice(1), slice(1, n))]
    apart = np.vstack(halves)
    if whole.dtype.kind != "f" or apart.shape != whole.shape:
        same = apart.shape == whole.shape and bool(np.all(apart == whole))
    else:
        size = np.nanmax(np.abs(whole), axis=0, initial=0.0)
        same = np.allclose(apart, whole, rtol=0.0, atol=_ROUNDING * size.max(), equal_nan=True)
    if not same:
        raise ValueError(
            f"{type(transformer).__name__} transforms a row otherwise beside other rows: block by "
            "block it would depend on how the table is cut. Pass one that takes each row by itself."
        )
