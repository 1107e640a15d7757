"""What the library relies on beyond scikit-learn's public interface."""

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import joblib
import numpy as np
import sklearn
from sklearn.base import _clone_parametrized as clone_parametrized
from sklearn.base import _fit_context as fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV as BaseSearchCV
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Hidden as Hidden
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples
from sklearn.utils.validation import validate_data as validate_data

F = TypeVar("F", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for the mixin of callbacks, of which there are none."""


__all__ = ["check_sample_weight", "clone_parametrized", "fit_context", "num_samples"]
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


def input_positions(transformer: Any, name: str) -> list[int]:
    """Positions of the columns that one of the transformers of a ColumnTransformer is given."""
    return list(transformer._transformer_to_input_indices[name])


def one_hot_widths(encoder: Any) -> list[int]:
    """Numbers of columns that a OneHotEncoder makes of each of its own."""
    return list(encoder._n_features_outs)


def unwrapped(model: Any) -> Any:
    """Return the model inside a search over parameters or a frozen estimator, where it is one.

    A search that releases what it found is a model itself.
    """
    while isinstance(model, FrozenEstimator) or (
        hasattr(model, "best_estimator_") and not hasattr(model, "release")
    ):
        model = getattr(model, "best_estimator_", None) or model.estimator
    return model


def training_fold(estimator: Any) -> Any:
    """Return the table that a search has fitted an estimator on and now scores, (n, n_columns).

    A scorer is handed the test fold alone; the loop that calls it has both. None outside of one.
    """
    known = _locals_of("_fit_and_score")
    return known.get("X_train") if known.get("estimator") is estimator else None


def _locals_of(name: str) -> dict[str, Any]:
    """Return what a function knows that is running, the innermost of its name; else nothing."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back  # type: ignore[assignment]
    return {} if frame is None else frame.f_locals


def fits_of_search() -> int:
    """Return how many fits a search or cross-validation makes whose first one is running; else 0.

    Of a cross-validation only where it runs in this process. A search refits once more.
    """
    known, outer = _locals_of("_fit_and_score"), _locals_of("cross_validate")
    steps = [known[n] for n in ("candidate_progress", "split_progress") if known.get(n)]
    if steps:
        return 0 if any(at for at, _ in steps) else math.prod(total for _, total in steps)
    if not (known and outer) or outer["cv"] is _last_seen[0]:
        return 0
    _last_seen[0] = outer["cv"]
    return int(outer["cv"].get_n_splits(outer["X"], outer["y"]))


_last_seen: list[Any] = [None]  # the splitter of a cross-validation, made anew by each


def output_container(estimator: Any) -> str | None:
    """Return what `set_output` was given; None where it was not called."""
    return getattr(estimator, "_sklearn_output_config", {}).get("transform")


def copy_attributes(source: Any, made: Any, names: Iterable[str]) -> None:
    """Give an object those attributes of another that this has, arrays as copies."""
    for name in names:
        if hasattr(source, name):
            value = getattr(source, name)
            setattr(made, name, value.copy() if isinstance(value, np.ndarray) else value)


def with_columns_of(source: Any, made: Any) -> Any:
    """Give an estimator the columns, and the kind of output, of another."""
    copy_attributes(source, made, ("n_features_in_", "feature_names_in_"))
    container = output_container(source)
    return made if container is None else made.set_output(transform=container)


class Task:
    """A part of a ``fit`` of which callbacks are told; of which nobody is where there are none.

    Callbacks of scikit-learn 1.9 are told names and numbers of tasks, and nothing that was fitted:
    no records, no coefficients and no losses. They show progress, and stop nothing.
    """

    def __init__(self, owner: Any, context: Any, n_left: int | None) -> None:
        self._owner, self._context, self._n_left = owner, context, n_left

    @contextmanager
    def part(self, name: str, n_parts: int | None = 0) -> Iterator["Task"]:
        """Tell of a part; ``n_parts`` of its own at most, None where that is not known."""
        if self._context is None or self._n_left == 0:
            yield no_task()
            return
        self._n_left = None if self._n_left is None else self._n_left - 1
        context = self._context.subcontext(task_name=name, max_subtasks=n_parts)
        with _told(self._owner, context):
            yield Task(self._owner, context, n_parts)

    def done(self, name: str) -> None:
        """Tell of a part that is over."""
        with self.part(name):
            pass


def no_task() -> Task:
    """Return a task of which nobody is told."""
    return Task(None, None, 0)


@contextmanager
def fit_task(estimator: Any, n_parts: int | None) -> Iterator[Task]:
    """Tell the callbacks of an estimator that its ``fit`` begins, and that it is over."""
    if not getattr(estimator, "_skl_callbacks", None):
        yield no_task()
        return
    context = estimator._init_callback_context(max_subtasks=n_parts)
    with _told(estimator, context):
        yield Task(estimator, context, n_parts)


@contextmanager
def _told(estimator: Any, context: Any) -> Iterator[None]:
    context.call_on_fit_task_begin(estimator=estimator)
    yield
    context.call_on_fit_task_end(estimator=estimator)


def kept_for_teardown(estimator: Any) -> dict[str, Any]:
    """Return the attributes by which scikit-learn finds the callbacks of a failed ``fit``."""
    names = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
    return {name: estimator.__dict__[name] for name in names if name in estimator.__dict__}


def leaves_whole(fit: F) -> F:
    """Wrap a ``fit`` that is interrupted, or raises, to leave the fit before as it was.

    What it has finished by then stays beside it, as ``partial_results_``.
    """

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.__dict__.copy()
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            finished = {n: v for n, v in vars(self).items() if n == "partial_results_"}
            before |= finished | kept_for_teardown(self)
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return wrapped  # type: ignore[return-value]


def forget_callbacks(estimator: Any) -> None:
    """Remove callbacks at any depth: internal refits report no progress."""
    parts = [estimator]
    if hasattr(estimator, "get_params"):
        parts += list(estimator.get_params(deep=True).values())
    for part in parts:
        if "_skl_callbacks" in getattr(part, "__dict__", {}):
            del part._skl_callbacks


# skleak itself, and what stands between it and whoever called it.
_PACKAGES = [str(Path(__file__).parent.parent), *sklearn.__path__, *joblib.__path__]
_INNER = (*_PACKAGES, contextlib.__file__, functools.__file__)


def called_from_outside() -> bool:
    """Return True where skleak itself, but for the file that asks, plays no part in the call."""
    frame: Any = sys._getframe(1)
    own = __file__, frame.f_code.co_filename
    while frame is not None:
        path, frame = frame.f_code.co_filename, frame.f_back
        if path.startswith(_PACKAGES[0]) and path not in own:
            return False
    return True


def outer_stacklevel() -> int:
    """``stacklevel`` under which a warning names the line that called skleak.

    What is computed on first use can be asked for at any depth, so that no fixed number does.

    Returns: for a call of `warnings.warn` in the function that asks.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level
