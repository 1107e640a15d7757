"""Copies of estimators to train on the side: without a ledger, and with seeds of their own."""

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from skleak.utils._typing import Array

__all__ = ["seeded", "without_ledger"]


def without_ledger(estimator: Any) -> Any:
    """Unfitted copy that charges no ledger, at any depth: what it is trained for releases nothing.

    Grids of searches count too, which may set a ledger, or hold estimators that have one.
    """
    copy = clone(estimator)
    parameters = copy.get_params(deep=True)
    silent = {name: None for name in _named("ledger", parameters) if parameters[name] is not None}
    grids = {name: _quiet_grid(value) for name, value in parameters.items() if _is_grid(value)}
    changed = grids | silent
    return copy.set_params(**changed) if changed else copy


def seeded(estimator: Any, draw: Callable[[int], Array]) -> Any:
    """Unfitted copy whose every ``random_state``, at any depth, is a seed of its own.

    `draw` gives so many seeds.
    """
    copy = clone(estimator)
    names = _named("random_state", copy.get_params(deep=True))
    if not names:
        return copy
    return copy.set_params(**dict(zip(names, map(int, draw(len(names))), strict=True)))


def _named(name: str, parameters: dict[str, Any]) -> list[str]:
    """Parameters of that name, at any depth, in an order that is always the same."""
    return sorted(key for key in parameters if key == name or key.endswith(f"__{name}"))


def _is_grid(value: Any) -> bool:
    several = value if isinstance(value, list | tuple) else [value]
    return bool(several) and all(isinstance(each, dict) for each in several)


def _quiet_grid(grid: Any) -> Any:
    if isinstance(grid, list | tuple):
        return [_quiet_grid(each) for each in grid]
    silent = _named("ledger", grid)
    return {
        name: [None] if name in silent else _quiet_values(values) for name, values in grid.items()
    }


def _quiet_values(values: Any) -> Any:
    """Candidates of a grid; what is no list of them, such as a distribution, holds no estimator."""
    if not isinstance(values, list | tuple) and getattr(values, "dtype", "") != "object":
        return values
    return [without_ledger(value) if hasattr(value, "get_params") else value for value in values]
