"""What a computation costs in time and memory, and a warning before one that takes long."""

import os
import warnings

from skleak.exceptions import CostWarning
from skleak.utils._sklearn_compat import outer_stacklevel

# Measured on one core: multiplications a second of dense products and factorizations, and seconds
# for one stored entry and one column of a product with a CSR matrix and its transpose.
_DENSE_RATE, _SPARSE_SECONDS = 2e10, 4e-9
# Seconds that a call takes unasked.
_MOST_SECONDS = 60.0
# Bytes of which no system need be asked.
_LITTLE = 1e8


def dense_seconds(p: int, n: int = 0, cubes: float = 3.0) -> float:
    """Estimate the time of some multiples of p^3 multiplications and a Gram matrix of n rows.

    An inverse by Cholesky's factor takes three.
    """
    return (cubes * float(p) ** 3 + float(n) * float(p) ** 2) / _DENSE_RATE


def sparse_seconds(entries: int, columns: float) -> float:
    """Estimate the time of so many columns of ``X^T (X v)`` for a CSR matrix of some entries."""
    return _SPARSE_SECONDS * entries * columns


def free_memory() -> float:
    """Bytes of memory that a computation may take; infinite where the system does not say.

    That which is free, or half of what there is: files that are cached make way.
    """
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * max(os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PHYS_PAGES") / 2.0)
    except (AttributeError, ValueError, OSError):  # Windows; others have no such names
        return float("inf")


def takes_long(seconds: float, memory: float = 0.0) -> bool:
    """Return True for more than a minute, or more bytes than there are."""
    return seconds > _MOST_SECONDS or (memory > _LITTLE and memory > free_memory())


def warn_if_costly(what: str, seconds: float, memory: float, instead: str) -> None:
    """Warn, before it starts, of what takes more than a minute or more bytes than there are."""
    if takes_long(seconds, memory):
        there = free_memory() / 1e9
        limit = f", where about {there:.1f} are free" if memory > 1e9 * there else ""
        warnings.warn(
            f"{what} takes about {max(seconds / 60.0, 0.1):.2g} minutes of one core and "
            f"{memory / 1e9:.2g} GB of memory{limit}. {instead}",
            CostWarning,
            stacklevel=outer_stacklevel(),
        )
