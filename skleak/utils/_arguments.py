"""Check arguments and random states, and import optional packages."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._typing import Array, FloatArray, IntArray, RandomState

# By how much round-off may take a number below its least value; and what that is called.
_ROUND_OFF = 1e-12
_LEAST = ("at least", "above")
# How far a prior may sum from 1: the round-off of a float32 table, and no more.
SUM_TOLERANCE = 1e-6


def as_result(array: npt.ArrayLike) -> Any:
    """Return a plain number for an array without axes, else the array."""
    array = np.asarray(array)
    return array.item() if array.ndim == 0 else array


def broadcast(**arrays: Array) -> tuple[Array, ...]:
    """Broadcast the named arrays against each other, or list their shapes."""
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError as error:
        listed = ", ".join(f"`{name}` {array.shape}" for name, array in arrays.items())
        raise ValueError(f"Shapes do not broadcast: {listed}. Pass matching shapes.") from error


def broadcast_shape(**shapes: Iterable[int]) -> tuple[int, ...]:
    """Shape that the named arguments broadcast to, or an error that lists their shapes."""
    try:
        return np.broadcast_shapes(*(tuple(shape) for shape in shapes.values()))
    except ValueError as error:
        listed = ", ".join(f"`{name}` {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(
            f"Shapes do not broadcast: {listed}. A batch of priors has shape (..., M), and its "
            "leading axes must match the other arguments."
        ) from error


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse what is not one of some strings."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {allowed}; got {value!r}. Pass one of them.")


def check_real(
    name: str,
    value: Any,
    *,
    low: float = 0.0,
    high: float = np.inf,
    low_open: bool = False,
    high_open: bool = False,
    finite: bool = False,
    empty: bool = True,
    missing: bool = False,
    hint: str = "",
) -> FloatArray:
    """Return a number or array of numbers as float64, or say which entry is out of range.

    With ``empty=False`` it has entries; it holds no NaN but with ``missing``. Entries that
    round-off took below a least value that is allowed are moved to it.
    """
    try:
        raw = np.asarray(value)
        if value is None or raw.dtype.kind not in "biufO":
            raise TypeError
        array = raw.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be a number or an array of numbers; got {type(value).__name__}."
        ) from error
    if array.size == 0 and not empty:
        raise ValueError(f"`{name}` is empty: expected at least one entry; got {array.shape}.")
    good = (array > low) if low_open else (array >= low - _ROUND_OFF)
    good &= (array < high) if high_open else (array <= high)
    if finite:
        good &= np.isfinite(array)
    if missing:
        good |= np.isnan(array)
    if not good.all():
        first, wanted = float(array[~good][0]), f"be {_LEAST[low_open]} {low:g}"
        if np.isneginf(low):
            wanted = "be finite"
            if np.isnan(first):
                wanted = "not hold NaN" + ", only finite numbers" * finite
        elif np.isfinite(high):
            wanted = f"lie in {'[('[low_open]}{low:g}, {high:g}{'])'[high_open]}"
        elif finite:
            wanted += " and finite"
        raise ValueError(f"`{name}` must {wanted}; got {first:g}. {hint}".rstrip())
    return array if low_open or np.isneginf(low) else np.maximum(array, low)


def check_numbers(name: str, value: Any, **limits: bool) -> FloatArray:
    """Return numbers of any size, as `check_real` does."""
    return check_real(name, value, low=-np.inf, hint="Drop or repair such entries.", **limits)


def check_scalar(name: str, value: Any, **limits: Any) -> float:
    """Return one number as a float, or say what is wrong with it."""
    array = check_real(name, value, **limits)
    if array.ndim:
        raise TypeError(f"`{name}` must be a single number; got an array of shape {array.shape}.")
    return float(array)


def check_integers(name: str, values: npt.ArrayLike, n_values: int) -> IntArray:
    """Return indices in ``range(n_values)`` as an integer array."""
    array = np.asarray(values)
    if array.dtype.kind not in "ui":
        raise TypeError(
            f"`{name}` must hold integers, the indices of values; got dtype {array.dtype}."
        )
    if array.size and (array.min() < 0 or array.max() >= n_values):
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"`{name}` must lie in 0, ..., {n_values - 1}; got {wrong}.")
    return array.astype(np.intp, copy=False)


def check_level(confidence_level: float) -> float:
    """Return a confidence level as a float strictly between 0 and 1."""
    limits = {"low_open": True, "high": 1.0, "high_open": True}
    hint = "Pass 0.95 for 95 percent."
    return check_scalar("confidence_level", confidence_level, **limits, hint=hint)


def has_missing(array: Array) -> bool:
    """Return True if an array of any type holds NaN, NaT, None or pandas.NA."""
    import pandas as pd  # late: most that check arguments need no pandas

    return bool(np.any(pd.isna(array)))


def is_uniform(prior: object) -> bool:
    """Return True if a prior is given as None or as the number of values, hence uniform."""
    return prior is None or (isinstance(prior, Integral) and not isinstance(prior, bool))


def check_count(prior: object, n_values: int) -> int:
    """Validate a uniform prior, None or the number of values, and return that number."""
    if prior is not None and prior != n_values:
        raise ValueError(
            "`prior` as an integer is uniform on that many values and must equal the channel's "
            f"{n_values}; got {prior}. Pass None for the uniform prior."
        )
    return n_values


def check_prior(prior: npt.ArrayLike | None, n_values: int) -> FloatArray:
    """Validate a prior on the secret and normalize its round-off.

    Shapes: ``prior`` (M,) or (n, M); returns (M,) or (n, M).
    """
    if is_uniform(prior):
        return np.full(check_count(prior, n_values), 1.0 / n_values)
    array = check_real("prior", prior, finite=True)
    if array.ndim not in (1, 2) or array.shape[-1] != n_values or array.size == 0:
        raise ValueError(
            f"`prior` must have shape ({n_values},) or (n, {n_values}), one probability for each "
            f"value of the secret; got shape {array.shape}."
        )
    total = array.sum(axis=-1, keepdims=True)
    worst = float(total.flat[np.abs(total - 1).argmax()])
    if abs(worst - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"`prior` must sum to 1; got {worst:.6g}. Pass counts through `prior / prior.sum()`."
        )
    return array / total


def make_generator(random_state: RandomState) -> np.random.Generator:
    """Turn any accepted ``random_state`` into a NumPy Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"`random_state` must be a non-negative integer; got {random_state}.")
        return np.random.default_rng(int(random_state))
    raise TypeError(
        "`random_state` must be None, an int, a numpy RandomState or a numpy Generator; "
        f"got {type(random_state).__name__}."
    )


def spawn_generators(random_state: RandomState, n_children: int) -> list[np.random.Generator]:
    """Independent Generators, one for each task of a parallel run.

    Returns: the same list for the same seed, however the tasks are then scheduled.
    """
    return list(make_generator(random_state).spawn(n_children))


class OwnSeed(int):
    """A seed that skleak writes into what it trains for itself, and never hands out."""


def seeded(estimator: Any, draw: Callable[[int], Array], names: Sequence[str] | None = None) -> Any:
    """Unfitted copy whose every ``random_state``, at any depth, is a seed of its own.

    `draw` gives so many seeds; `names` are those of `unseeded`, None takes every one.
    """
    # Late: bounds draw numbers, and need no scikit-learn.
    from sklearn.base import clone

    unfitted = clone(estimator, safe=False)
    if names is None:
        names = _own_seeds(unfitted)
    if not names:
        return unfitted
    seeds = dict(zip(names, map(OwnSeed, draw(len(names))), strict=True))
    own = deep_names("random_state", dict.fromkeys(names))
    splitters = {name: unfitted.get_params()[name] for name in names if name not in own}
    for name, splitter in splitters.items():
        splitter = copy.copy(splitter)
        splitter.random_state = seeds[name]
        seeds[name] = splitter
    return unfitted.set_params(**seeds)


def values_by_name(parameter: str, given: Mapping[Any, Any], names: Array | None) -> list[Any]:
    """Return the values of a mapping from column names, in the order of the columns."""
    if names is None:
        raise ValueError(
            f"`{parameter}` is a mapping from column names, but X has none. Pass a DataFrame with "
            "names that are strings (steps of a pipeline that come before hand over names after "
            "`pipeline.set_output(transform='pandas')`), or a list in the order of the columns."
        )
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in set(names)]
    if missing or unknown:
        raise ValueError(
            f"`{parameter}` must name the columns of X; it lacks {missing}, and names {unknown}, "
            "which X does not have. Choose columns with a ColumnTransformer where a step is for "
            "some of them only."
        )
    return [given[name] for name in names]


def column_bounds(name: str, given: Any, columns: Any, n_columns: int) -> FloatArray:
    """Check bounds on the size of each column, by the names of columns or in order, (d,).

    Parameters
    ----------
    name : str
        Of the parameter.
    given : mapping or array-like of shape (d,)
        The bounds.
    columns : array-like of str or None
        Names of the columns, if they have any.
    n_columns : int
        Their number.
    """
    bounds: Any = given
    if isinstance(given, Mapping):
        bounds = values_by_name(name, given, columns)
    bounds = np.asarray(bounds, dtype=np.float64)
    if bounds.shape != (n_columns,) or not np.all((bounds > 0.0) & (bounds < np.inf)):
        raise ValueError(
            f"`{name}` must be {n_columns} positive numbers, the largest size of each column of X; "
            f"got {given!r}."
        )
    return np.asarray(bounds)


def norm_of_bounds(given: Any) -> Any:
    """Return the largest norm of a row by a bound on it, or on each of its columns."""
    if given is None or isinstance(given, Real):
        return given
    return math.hypot(*(given.values() if isinstance(given, Mapping) else np.ravel(given)))


def stated_bounds(given: Any) -> Any:
    """Return bounds as plain numbers, which a document can hold."""
    if isinstance(given, Mapping):
        return {str(name): float(bound) for name, bound in given.items()}
    if given is None or isinstance(given, Real):
        return given
    return np.ravel(np.asarray(given, dtype=np.float64)).tolist()


def unseeded(estimator: Any) -> tuple[str, ...]:
    """Parameters that leave an estimator to chance, at any depth: every ``random_state`` of None.

    Or the name of a splitter of records that has one.
    """
    if not hasattr(estimator, "get_params"):
        return ()
    parameters = estimator.get_params(deep=True)
    seeds = [name for name in _own_seeds(estimator) if parameters[name] is None]
    splitters = [
        name
        for name, value in parameters.items()
        if getattr(value, "random_state", 0) is None
        and hasattr(value, "split")
        and getattr(value, "shuffle", True)
    ]
    return (*seeds, *sorted(splitters))


def _own_seeds(estimator: Any) -> list[str]:
    """Seeds of an estimator at any depth, but those that a private search sets for its trials."""
    parameters = estimator.get_params(deep=True)
    owners = {"": estimator} | {f"{name}__": value for name, value in parameters.items()}
    trials = [f"{name}estimator__" for name, each in owners.items() if hasattr(type(each), "cost_")]
    return [x for x in deep_names("random_state", parameters) if not x.startswith((*trials,))]


def deep_names(name: str, parameters: dict[str, Any]) -> list[str]:
    """Parameters of that name, at any depth, in an order that is always the same."""
    return sorted(key for key in parameters if key == name or key.endswith(f"__{name}"))


def dask_module(name: str) -> Any:
    """Return a module of Dask, which is imported only by whoever needs it."""
    return import_optional(name, "dask", "Records that are no arrays of this process")


def import_optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with `pip install 'skleak[{extra}]'`."
        ) from error
