"""While one thing is made of an audit, what is derived from its results is derived once.

Its tables may be changed between two calls, so that nothing is kept for longer than one.
"""

import copy
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

# What was derived: the audit, which keeps its place in memory, and the result.
_DERIVED: ContextVar[dict[tuple[Any, int], tuple[Any, Any]] | None] = ContextVar(
    "derived", default=None
)


def made_at_once(
    make: Callable[Concatenate[Any, P], Result],
) -> Callable[Concatenate[Any, P], Result]:
    """Let a function of an audit derive everything once."""

    @wraps(make)
    def making(audit: Any, /, *args: P.args, **options: P.kwargs) -> Result:
        if _DERIVED.get() is not None:
            return make(audit, *args, **options)
        token = _DERIVED.set({})
        try:
            return make(audit, *args, **options)
        finally:
            _DERIVED.reset(token)

    return making


def derived(derive: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Keep what is derived from an audit for as long as something is made of it."""

    @wraps(derive)
    def derives(audit: Any) -> Result:
        known = _DERIVED.get()
        if known is None:
            return derive(audit)
        key = derive, id(audit)
        if key not in known:
            known[key] = audit, derive(audit)
        result: Result = copy.copy(known[key][1])  # whoever gets it may change it
        return result

    return derives
