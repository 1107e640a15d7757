"""What is owed to confidential records: by estimators, by audits, and by numbers read off them."""

import dis
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from sklearn.base import clone

from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._arguments import OwnSeed, deep_names
from skleak.utils._sklearn_compat import ShownAttributesMixin, forget_callbacks, outer_stacklevel

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


def global_names(code: types.CodeType) -> set[str]:
    """Names of its module that a function reads, those in functions within it included."""
    names = {
        step.argval for step in dis.get_instructions(code) if step.opname.startswith("LOAD_GLOBAL")
    }
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return names.union(*map(global_names, within))


def without_ledger(estimator: Any) -> Any:
    """Unfitted copy that charges no ledger, at any depth: what it is trained for releases nothing.

    No callback is told of it either. Grids of searches count too, which may set a ledger, or hold
    estimators that have one. A mechanism that follows from a goal stays, whatever noise is set.
    """
    copy = clone(estimator, safe=False)
    if not hasattr(copy, "get_params"):
        return copy
    forget_callbacks(copy)
    parameters = copy.get_params(deep=True)
    silent = {
        name: None for name in deep_names("ledger", parameters) if parameters[name] is not None
    }
    grids = {name: _quiet_grid(value) for name, value in parameters.items() if _is_grid(value)}
    owners = {"": estimator, **estimator.get_params(deep=True)}
    kept = {
        name: getattr(owners[name.removesuffix("mechanism").removesuffix("__")], "_kept", None)
        for name in deep_names("mechanism", parameters)
    }
    changed = grids | silent | {name: value for name, value in kept.items() if value is not None}
    return copy.set_params(**changed) if changed else copy


def _is_grid(value: Any) -> bool:
    several = value if isinstance(value, list | tuple) else [value]
    return bool(several) and all(isinstance(each, dict) for each in several)


def _quiet_grid(grid: Any) -> Any:
    if isinstance(grid, list | tuple):
        return [_quiet_grid(each) for each in grid]
    silent = deep_names("ledger", grid)
    return {
        name: [None] if name in silent else _quiet_values(values) for name, values in grid.items()
    }


def _quiet_values(values: Any) -> Any:
    """Candidates of a grid; what is no list of them, such as a distribution, holds no estimator."""
    if not isinstance(values, list | tuple) and getattr(values, "dtype", "") != "object":
        return values
    return [without_ledger(value) if hasattr(value, "get_params") else value for value in values]


_said: set[tuple[str, int]] = set()


def warn_of_written_seed(random_state: Any) -> None:
    """Warn of the seed of a private model that an ensemble wrote, once for each line of a caller.

    Fits open contexts of warnings, which make Python's own filter forget what it has shown.
    """
    # No person types so large a seed; of those that scikit-learn draws, one in 32768 is smaller.
    is_seed = isinstance(random_state, Integral) and not isinstance(random_state, OwnSeed)
    if not is_seed or random_state < 2**16:
        return
    level = outer_stacklevel()
    frame = sys._getframe(level - 1)
    place = frame.f_code.co_filename, frame.f_lineno
    asked = (r[0] for r in warnings.filters if not r[1] and issubclass(PrivacyLeakWarning, r[2]))
    if next(asked, "default") == "default" and place in _said:
        return
    warnings.warn(
        "The noise of a private model comes from a seed as large as those that ensembles (Bagging, "
        "AdaBoost) write into their members: whoever guesses the seed, draws it from the "
        "`random_state` of the ensemble, or reads it in a pickled member can subtract the noise. "
        "Publish neither the models nor what they predict; fit one with `random_state=None`.",
        PrivacyLeakWarning,
        stacklevel=level,
    )
    _said.add(place)


class CalibratedNoise(float):
    """A noise scale that was read off records.

    It is a number in all respects, and an exact function of the records: a private estimator that
    is given one claims no guarantee of differential privacy. The mark survives arithmetic with
    numbers (``+ - * / // % **``), ``round``, copies, clones, pickles and the JSON of releases.
    ``float(noise)``, NumPy and `math` forget it: use ``float`` for a number that was read off
    records that are public.

    Examples
    --------
    >>> noise = CalibratedNoise(0.5)
    >>> noise == 0.5, type(round(2 * noise, 1)) is CalibratedNoise, type(float(noise)) is float
    (True, True, True)
    """


def _marked(name: str) -> Any:
    of_float = getattr(float, name)

    def method(self: CalibratedNoise, *others: Any) -> Any:
        found = of_float(self, *others)
        return CalibratedNoise(found) if isinstance(found, int | float) else found

    method.__name__, method.__doc__ = name, of_float.__doc__
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _side in ("", "r"):
        setattr(CalibratedNoise, f"__{_side}{_name}__", _marked(f"__{_side}{_name}__"))
for _name in ("neg", "pos", "abs", "round", "trunc", "floor", "ceil"):
    setattr(CalibratedNoise, f"__{_name}__", _marked(f"__{_name}__"))
