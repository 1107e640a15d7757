"""The only file that touches scikit-learn's private names."""

from typing import Any, ClassVar

from sklearn.base import _fit_context as fit_context
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples
from sklearn.utils.validation import validate_data

__all__ = [
    "COLUMN_TRANSFORMER_SCHEMA",
    "BaseSearchCV",
    "HasMethods",
    "Hidden",
    "Interval",
    "NoMetadataRequests",
    "RawTableMixin",
    "ShownAttributesMixin",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "num_samples",
    "output_container",
    "validate_data",
    "with_columns_of",
]

# What a fitted ColumnTransformer knows of the table: names, numbers and places of columns.
COLUMN_TRANSFORMER_SCHEMA = (
    "n_features_in_",
    "feature_names_in_",
    "_n_features",
    "_columns",
    "_transformer_to_input_indices",
    "output_indices_",
)


class NoMetadataRequests:
    """Mixin, left of `BaseEstimator`, that takes away the ``set_*_request`` methods.

    scikit-learn takes every argument but X and y for metadata, such as sample weights, that
    a meta-estimator may pass on; releases and true values are none.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remove what scikit-learn has generated for the methods of the subclass."""
        super().__init_subclass__(**kwargs)
        for name in [name for name in vars(cls) if name.startswith("set_")]:
            if name.endswith("_request"):
                delattr(cls, name)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the requests of this object: none."""
        return MetadataRequest(owner=self)


class ShownAttributesMixin:
    """Mixin, left of `BaseEstimator`, that shows in scikit-learn's diagram only what is public.

    From version 1.9 on the diagram lists the values of all fitted attributes.
    """

    _shown_attributes: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_")

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Leave what is confidential out of the table."""
        table = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        for name in table.keys() - {*self._shown_attributes}:
            del table[name]
        return table


class RawTableMixin:
    """Mixin, left of `BaseEstimator`, of what is fitted on raw records and their targets."""

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that raw records are taken, and that targets are needed."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


def output_container(estimator: Any) -> str | None:
    """Return what `set_output` was given; None where it was not called."""
    return getattr(estimator, "_sklearn_output_config", {}).get("transform")


def with_columns_of(source: Any, made: Any) -> Any:
    """Give an estimator the columns, and the kind of output, of another."""
    if hasattr(source, "n_features_in_"):
        made.n_features_in_ = source.n_features_in_
    if hasattr(source, "feature_names_in_"):
        made.feature_names_in_ = source.feature_names_in_.copy()
    container = output_container(source)
    return made if container is None else made.set_output(transform=container)
