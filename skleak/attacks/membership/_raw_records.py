"""What attacks on raw records have in common: an earlier fit is forgotten, tags tell what goes."""

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from skleak.utils._sklearn_compat import RawTableMixin


class RawRecords(RawTableMixin, BaseEstimator):
    """An attack that is fitted on raw records and their targets."""

    def _forget(self) -> None:
        """Remove what an earlier fit has set."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that records may be sparse, too."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
