"""Tables that are read several times: the same rows, in the same order, each time."""

import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from uuid import uuid4

import numpy as np
import pandas as pd

from skleak.utils._typing import Array


@dataclass(frozen=True)
class Opening:
    """One opening of a table, which another one of the same table does not know."""

    unique: str = field(default_factory=lambda: uuid4().hex)

    def __dask_tokenize__(self) -> str:
        """Return the same for all: what is computed does not depend on it."""
        return "opening"

    def expect(self, found: int, *place: object, advice: str) -> None:
        """Refuse another checksum of a place than this process found at first."""
        if _first_seen(self.unique, *place).setdefault("rows", found) != found:
            raise RuntimeError(
                "The table gave other rows than before, or the same in another order, and records "
                f"and targets are read apart, several times. {advice} Let nobody write to its "
                "files."
            )


@lru_cache(maxsize=1 << 16)
def _first_seen(*place: object) -> dict[str, int]:
    """Return what holds the checksum of a place as this process first found it."""
    return {}


def checksum(values: Array) -> int:
    """Return a number that tells values (n,) in their order from others."""
    if values.dtype.kind not in "biuf":
        values = pd.util.hash_array(values.astype(object))
    return zlib.crc32(np.ascontiguousarray(values).data.cast("B"))
