"""Seeds: fresh operating-system entropy by default, never NumPy's global state."""

import copy
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from skleak.utils._typing import Array, RandomState


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


def seeded(estimator: Any, draw: Callable[[int], Array], names: Sequence[str] | None = None) -> Any:
    """Unfitted copy whose every ``random_state``, at any depth, is a seed of its own.

    `draw` gives so many seeds; `names` are those of `unseeded`, None takes every one.
    """
    # Late: bounds draw numbers, and need no scikit-learn.
    from sklearn.base import clone

    unfitted = clone(estimator, safe=False)
    if names is None:
        names = deep_names("random_state", unfitted.get_params(deep=True))
    if not names:
        return unfitted
    seeds = dict(zip(names, map(int, draw(len(names))), strict=True))
    splitters = {name: unfitted.get_params()[name] for name in names if not _is_seed(name)}
    for name, splitter in splitters.items():
        splitter = copy.copy(splitter)
        splitter.random_state = seeds[name]
        seeds[name] = splitter
    return unfitted.set_params(**seeds)


def unseeded(estimator: Any) -> tuple[str, ...]:
    """Parameters that leave an estimator to chance, at any depth: every ``random_state`` of None.

    Or the name of a splitter of records that has one.
    """
    if not hasattr(estimator, "get_params"):
        return ()
    parameters = estimator.get_params(deep=True)
    seeds = [name for name in deep_names("random_state", parameters) if parameters[name] is None]
    splitters = [
        name
        for name, value in parameters.items()
        if getattr(value, "random_state", 0) is None
        and hasattr(value, "split")
        and getattr(value, "shuffle", True)
    ]
    return (*seeds, *sorted(splitters))


def _is_seed(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")


def deep_names(name: str, parameters: dict[str, Any]) -> list[str]:
    """Parameters of that name, at any depth, in an order that is always the same."""
    return sorted(key for key in parameters if key == name or key.endswith(f"__{name}"))
