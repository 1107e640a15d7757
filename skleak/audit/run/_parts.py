"""What a game is made from, computed in parts: shown while it comes, and kept."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from skleak.audit.run._checkpoint import Checkpoint
from skleak.exceptions import CheckpointWarning
from skleak.utils._blocks import watched_by
from skleak.utils._typing import Array
from skleak.utils._warnings import outer_stacklevel

# A checkpoint is written whole: not more than this share of the time.
SHARE_OF_TIME = 0.1
# Bytes of all parts that a checkpoint keeps.
_MOST = 1 << 29


@contextmanager
def kept_parts(store: Checkpoint | None, entropy: list[int], *, verbose: int) -> Iterator[None]:
    """Show what is computed in parts, and keep it, whatever interrupts that."""
    parts = Parts(store, entropy, verbose=verbose)
    try:
        with watched_by(parts):
            yield
    except BaseException:
        parts.save()
        raise
    finally:
        parts.close()


class Parts:
    """Progress bars of parts, and their rows in a checkpoint from which they go on."""

    def __init__(self, store: Checkpoint | None, entropy: list[int], *, verbose: int) -> None:
        self._entropy = entropy
        self.store = store if store is not None and store.load_parts() else None
        self._verbose, self._counts = verbose, dict[str, int]()
        self._bar: Any = None
        self._name = ""
        self._start, self._writing = time.monotonic(), 0.0
        self._behind = self._broken = False

    def begin(self, name: str, n: int) -> Array | None:
        """Rows that are kept, (k, ...); None where there are none."""
        # The same name again is the next array of that name.
        count = self._counts[name] = self._counts.get(name, 0) + 1
        self._name = f"{name} {count}"
        known = None if self.store is None else self.store.parts.get(self._name)
        self.close()
        if self._verbose > 0:
            unit = "fit" if name.startswith("fits") else "record"
            self._bar = tqdm(total=n, desc=name, unit=unit)
        return known

    def done(self, name: str, rows: Array, n: int) -> None:
        """Show how many rows there are, and keep them."""
        if self._bar is not None:
            self._bar.update(len(rows) - self._bar.n)
        if self.store is None or self._broken or not self._fits(name, rows, n):
            return
        known = len(self.store.parts.get(self._name, ()))
        if len(rows) < known:
            return  # those of the file
        self.store.parts[self._name] = rows
        if len(rows) == known:
            return
        self._behind = True
        if self._writing <= SHARE_OF_TIME * (time.monotonic() - self._start):
            self.save()

    def save(self) -> None:
        """Write what is not in the file yet."""
        if self.store is None or not self._behind or self._broken:
            return
        began = time.monotonic()
        try:
            self.store.save_parts(self._entropy)
            self._behind = False
        except OSError:
            self._broken = True  # said when cells cannot be written either
        finally:
            self._writing += time.monotonic() - began

    def close(self) -> None:
        """Leave the progress bar as it is."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def _fits(self, name: str, rows: Array, n: int) -> bool:
        assert self.store is not None
        others = sum(a.nbytes for k, a in self.store.parts.items() if k != self._name)
        size = rows.nbytes // max(len(rows), 1) * n
        if size + others <= _MOST:
            return True
        self._broken = True
        warnings.warn(
            f"The {name} take {size / 2**30:.2g} GB, more than a checkpoint keeps (0.5 GB for all "
            "that a game is made from): an audit that goes on computes them anew. Audit fewer "
            "records, or fewer values.",
            CheckpointWarning,
            stacklevel=outer_stacklevel(),
        )
        return False
