"""What attacks on raw records have in common: columns are remembered, and tags tell what goes."""

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from skleak.adversary.knowledge import column_names
from skleak.utils._sklearn_compat import RawTableMixin


class RawRecords(RawTableMixin, BaseEstimator):
    """An attack that is fitted on raw records and their targets."""

    def _remember_columns(self, X: Any) -> None:
        """Set what is known of the columns, and forget an earlier fit."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if len(X.shape) == 2:
            self.n_features_in_ = X.shape[1]
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = names

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that records may be sparse, too."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
