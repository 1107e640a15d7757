"""Summaries of blocks of records that are merged field by field."""

from dataclasses import fields
from typing import Any, Self


class Merged:
    """A dataclass of summaries, of tuples of them, and of counts."""

    def merged(self, other: Self) -> Self:
        """Summarize the records of both."""
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))  # type: ignore[arg-type]
        return type(self)(*(_together(*pair) for pair in pairs))


def _together(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one
    if isinstance(one, int):
        return one + other
    if isinstance(one, tuple):
        return tuple(_together(*pair) for pair in zip(one, other, strict=True))
    return one.merged(other)
