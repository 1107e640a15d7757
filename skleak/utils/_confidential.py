"""What estimators that hold training records once they are fitted owe to those records."""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._sklearn_compat import ShownAttributesMixin

__all__ = ["ConfidentialMixin", "leaves_whole", "to_own_workers"]

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.Lock()
_own_runs = 0


@contextmanager
def to_own_workers() -> Iterator[None]:
    """Do not warn of pickles that the library itself sends to its worker processes.

    Other threads pickle them, so that this holds for the whole process.
    """
    global _own_runs
    with _lock:
        _own_runs += 1
    try:
        yield
    finally:
        with _lock:
            _own_runs -= 1


class ConfidentialMixin(ShownAttributesMixin):
    """Mixin, left of `BaseEstimator`, of what holds training records once it is fitted.

    Its pickles warn, and scikit-learn's diagram of it shows only the schema.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Warn of what is confidential: a pickle travels."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        if not _own_runs and any(name.endswith("_") for name in state if name[0] != "_"):
            warnings.warn(
                f"Pickling (or copying) a fitted {type(self).__name__}: it holds training "
                "records, or what was learned of each, and is confidential as they are. Pickle "
                "`sklearn.base.clone(...)` of it, which is not fitted.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        return state


def leaves_whole(fit: F) -> F:
    """Wrap a ``fit`` that is interrupted, or raises, to leave the fit before as it was."""

    @wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.__dict__.copy()
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return wrapped  # type: ignore[return-value]
