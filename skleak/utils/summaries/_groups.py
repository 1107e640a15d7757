"""Summaries of the groups of a table that comes in blocks of rows."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import pandas as pd

from skleak.utils._typing import Array, IntArray

Part = TypeVar("Part", bound="Mergeable")
# More labels than this name records, and not groups.
MOST_GROUPS = 10_000


class Mergeable(Protocol):
    """Something that combines with another one of its kind."""

    def merged(self: Part, other: Part) -> Part:
        """Combine two."""
        ...


@dataclass(frozen=True)
class Once:
    """That there is a label, and nothing more."""

    rows: object = None

    def merged(self, other: "Once") -> "Once":
        """Tell that it is there in both."""
        return Once()


@dataclass(frozen=True)
class Groups:
    """One summary for each label."""

    parts: Mapping[Hashable, Mergeable]

    @classmethod
    def of(cls, labels: Array, summarize: Callable[[IntArray], Mergeable]) -> Self:
        """Summarize the rows of each label, (n,); ``summarize`` takes their positions."""
        rows = pd.Series(range(len(labels))).groupby(labels, sort=True).indices
        _check(len(rows))
        return cls({label: summarize(members) for label, members in rows.items()})

    def merged(self, other: "Groups") -> "Groups":
        """Summarize the rows of both."""
        parts = dict(self.parts)
        for label, part in other.parts.items():
            parts[label] = parts[label].merged(part) if label in parts else part
        _check(len(parts))
        return Groups(parts)


def _check(n: int) -> None:
    if n > MOST_GROUPS:
        raise ValueError(
            f"`groups` has more than {MOST_GROUPS} labels; expected few groups of many records. "
            "Pass a coarser column, for instance a region in place of an address."
        )


def merged(one: Mergeable, other: Mergeable) -> Mergeable:
    """Combine two summaries of one kind."""
    return one.merged(other)
