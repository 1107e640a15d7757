"""Start an audit anew or from its checkpoint, and keep what is finished whatever happens."""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from skleak.audit.games._game import Outcome
from skleak.audit.report._build import fingerprint
from skleak.audit.run._cells import Cell, run_cells
from skleak.audit.run._checkpoint import Checkpoint
from skleak.exceptions import CheckpointWarning, IncompleteAuditWarning
from skleak.utils._random import make_generator
from skleak.utils._typing import Array, FloatArray
from skleak.utils._warnings import outer_stacklevel

__all__ = ["resume", "run"]

# A checkpoint is written whole: with many cells, not more than this share of the time.
_SHARE_OF_TIME = 0.1


def resume(
    auditor: Any,
    table: Any,
    y: Array,
    design: Any,
    X_test: Any,
    y_test: Any,
    sample_weight: FloatArray | None = None,
) -> tuple[Checkpoint | None, dict[str, Outcome], list[int]]:
    """The checkpoint of an audit, what is finished in it, and the entropy of all seeds.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``X_test``, ``y_test`` (m, n_columns);
    ``sample_weight`` (n,); returns ``store``; ``done``: outcomes of finished cells by key;
    ``entropy``.
    """
    store: Checkpoint | None = None
    done: dict[str, Outcome] = {}
    entropy: list[int] | None = None
    if auditor.checkpoint is not None:
        identity = fingerprint(auditor, table, y, design, X_test, y_test, sample_weight)
        store = Checkpoint(auditor.checkpoint, identity)
        done, entropy = store.load()
    if entropy is None:
        entropy = make_generator(auditor.random_state).integers(0, 2**32, size=4).tolist()
    return store, done, entropy


def run(
    auditor: Any,
    cells: Mapping[str, Cell],
    done: dict[str, Outcome],
    store: Checkpoint | None,
    entropy: list[int],
    tabulate: Callable[[Mapping[str, Outcome]], pd.DataFrame],
) -> None:
    """Run the cells; whatever happens, finished rows are in ``partial_results_``."""
    keeper = _Keeper(store, entropy)
    failed: dict[str, BaseException] = {}
    try:
        failed |= run_cells(
            cells, done, n_jobs=auditor.n_jobs, verbose=auditor.verbose, keep=keeper
        )
    except BaseException as error:  # an interrupt too: nothing that is finished is lost
        failed[""] = error
    keeper.finish(done)
    auditor.partial_results_ = tabulate(done)
    if not failed:
        return
    again = (
        ""
        if store is None or keeper.behind
        else f" Call `fit` again to go on from {str(store.path)!r}."
    )
    warnings.warn(
        f"The audit is incomplete: {len(done)} of {len(cells)} cells are finished, and their "
        f"rows are in `partial_results_`.{again}",
        IncompleteAuditWarning,
        stacklevel=outer_stacklevel(),
    )
    raise next(iter(failed.values()))


class _Keeper:
    """Writes finished cells to the checkpoint, in a bounded share of the time."""

    def __init__(self, store: Checkpoint | None, entropy: list[int]) -> None:
        self.store, self.entropy = store, entropy
        self.start, self.writing = time.monotonic(), 0.0
        self.behind = False  # the file lacks cells
        self.warned = False

    def __call__(self, finished: dict[str, Outcome]) -> None:
        """Write, unless that has taken too large a share of the time; the first is free."""
        self.behind = True
        if self.writing <= _SHARE_OF_TIME * (time.monotonic() - self.start):
            self._write(finished)

    def finish(self, finished: dict[str, Outcome]) -> None:
        """Write what the file lacks."""
        if self.behind:
            self._write(finished)

    def _write(self, finished: dict[str, Outcome]) -> None:
        if self.store is None:
            return
        began = time.monotonic()
        try:
            self.store.save(finished, self.entropy)
            self.behind = False
        except OSError as error:
            self._warn(self.store, error)
        finally:
            self.writing += time.monotonic() - began

    def _warn(self, store: Checkpoint, error: OSError) -> None:
        if self.warned:
            return
        self.warned = True
        warnings.warn(
            f"The checkpoint {str(store.path)!r} cannot be written ({error.strerror or error}). "
            "The audit goes on, and tries again after each cell; if it is interrupted, what is not "
            "in the file is played anew. Make the folder, or space in it.",
            CheckpointWarning,
            stacklevel=outer_stacklevel(),
        )
