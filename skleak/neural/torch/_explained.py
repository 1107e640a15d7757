"""What torch says of a module, as an error that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def explained(failure: str, advice: str = "") -> Iterator[None]:
    """Turn errors of torch into a ValueError that starts with ``failure``; not those of memory."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, TypeError, AttributeError, AssertionError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{failure}: {said[0]} {advice}".rstrip()) from error
