"""Start an audit anew or from its checkpoint, and keep what is finished whatever happens."""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from skleak.audit._build import fingerprint
from skleak.audit._cells import Cell, run_cells
from skleak.audit._checkpoint import Checkpoint
from skleak.audit._game import Outcome
from skleak.exceptions import IncompleteAuditWarning
from skleak.utils._random import make_generator
from skleak.utils._typing import Array

__all__ = ["resume", "run"]

# A checkpoint is written whole: with many cells, not more than this share of the time.
_SHARE_OF_TIME = 0.1


def resume(
    auditor: Any, table: Any, y: Array, design: Any, X_test: Any, y_test: Any
) -> tuple[Checkpoint | None, dict[str, Outcome], list[int]]:
    """The checkpoint of an audit, what is finished in it, and the entropy of all seeds.

    Parameters
    ----------
    auditor : LeakageAuditor
        Its parameters.
    table : DataFrame or ndarray of shape (n, n_columns)
        Raw records.
    y : ndarray of shape (n,)
        Targets of the model.
    design : Design or MembershipDesign
        Noise levels, bounds and attacks.
    X_test, y_test : table of shape (m, n_columns), array of shape (m,), or None
        Test records.

    Returns
    -------
    store : Checkpoint or None
    done : dict
        Outcomes of finished cells by key.
    entropy : list of int
    """
    store: Checkpoint | None = None
    done: dict[str, Outcome] = {}
    entropy: list[int] | None = None
    if auditor.checkpoint is not None:
        identity = fingerprint(auditor, table, y, design, X_test, y_test)
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
    *,
    stacklevel: int = 3,
) -> None:
    """Run the cells; whatever happens, finished rows are in ``partial_results_``.

    Parameters
    ----------
    auditor : LeakageAuditor
        Whose ``partial_results_`` are set.
    cells : dict
        All cells by key.
    done : dict
        Outcomes of finished cells, to which those that finish are added.
    store : Checkpoint or None
        Where they are kept.
    entropy : list of int
        Of all seeds.
    tabulate : callable
        Makes the table of results from outcomes.
    stacklevel : int, default=3
        Whose line a warning names.

    Raises
    ------
    Exception
        The first one that a cell raised, or what interrupted them.

    Warns
    -----
    IncompleteAuditWarning
        Before that.
    """
    spent = _Spent()

    def keep(finished: dict[str, Outcome]) -> None:
        if store is not None and spent.allows_writing():
            with spent:
                store.save(finished, entropy)

    failed: dict[str, BaseException] = {}
    try:
        failed |= run_cells(cells, done, n_jobs=auditor.n_jobs, verbose=auditor.verbose, keep=keep)
    except BaseException as error:  # an interrupt too: nothing that is finished is lost
        failed[""] = error
    if store is not None and done and spent.skipped:
        store.save(done, entropy)
    auditor.partial_results_ = tabulate(done)
    if not failed:
        return
    again = "" if store is None else f" Call `fit` again to go on from {str(store.path)!r}."
    warnings.warn(
        f"The audit is incomplete: {len(done)} of {len(cells)} cells are finished, and their "
        f"rows are in `partial_results_`.{again}",
        IncompleteAuditWarning,
        stacklevel=stacklevel,
    )
    raise next(iter(failed.values()))


class _Spent:
    """Time that went into writing, as a share of all."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.writing = 0.0
        self.skipped = False

    def allows_writing(self) -> bool:
        """Whether writing has not taken too large a share of the time; the first is free."""
        self.skipped = self.writing > _SHARE_OF_TIME * (time.monotonic() - self.start)
        return not self.skipped

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.writing += time.monotonic() - self._began
