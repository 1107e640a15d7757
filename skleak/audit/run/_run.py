"""Play any game anew or from its checkpoint, and keep what is finished whatever happens."""

import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

from joblib import Parallel, delayed
from tqdm import tqdm

from skleak.audit.games._game import Cell, Game
from skleak.audit.run._checkpoint import Checkpoint
from skleak.audit.run._parts import SHARE_OF_TIME
from skleak.audit.tables._design import Outcome
from skleak.exceptions import CheckpointWarning, IncompleteAuditWarning
from skleak.utils._confidential import to_own_workers
from skleak.utils._sklearn_compat import Task, no_task
from skleak.utils._warnings import outer_stacklevel


class Run:
    """A game that is prepared: outcomes of finished cells by key, and the entropy of all seeds."""

    def __init__(self, game: Game, store: Checkpoint | None, entropy: list[int]) -> None:
        self.game, self.store = game, store
        self.outcomes: dict[str, Outcome] = {}
        if store is not None:
            self.outcomes, stored = store.load()
            entropy = entropy if stored is None else stored
        self.entropy = entropy
        game.prepare(entropy)
        self._start, self._writing = time.monotonic(), 0.0
        self._behind = False  # the file lacks cells
        self._warned = False

    def play(self, *, n_jobs: int | None, verbose: int, task: Task | None = None) -> None:
        """Play what is not finished, and tell of each cell; outcomes are kept if a cell fails."""
        cells = self.game.cells()
        failed: dict[str, BaseException] = {}
        try:
            self._play_open(cells, failed, n_jobs, verbose, task or no_task())
        except BaseException as error:  # an interrupt too: nothing that is finished is lost
            failed = {"": error}
        if self._behind:
            self._write()
        if not failed:
            return
        again = ""
        if self.store is not None and not self._behind:
            again = f" Call `fit` again to go on from {str(self.store.path)!r}."
        warnings.warn(
            f"The audit is incomplete: {len(self.outcomes)} of {len(cells)} cells are finished, "
            f"and their rows are in `partial_results_`.{again}",
            IncompleteAuditWarning,
            stacklevel=outer_stacklevel(),
        )
        raise next(iter(failed.values()))

    def _play_open(
        self,
        cells: dict[str, Cell],
        failed: dict[str, BaseException],
        n_jobs: int | None,
        verbose: int,
        task: Task,
    ) -> None:
        """Play what is open; every outcome is kept at once, and errors stop no other cell."""
        pending = {key: cell for key, cell in cells.items() if key not in self.outcomes}
        with (
            to_own_workers(),
            _Bars(self.game, cells, pending, verbose) as bars,
            task.part("cells", len(pending)) as told,
        ):
            # Arguments go as one tuple: joblib would leave large ones with a single worker of a
            # Dask cluster, and whoever dies with them takes the audit along.
            results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
                delayed(_played)(key, *cell) for key, cell in pending.items()
            )
            for key, outcome, error in results:
                if error is None:
                    self.outcomes[key] = outcome
                    self._keep()
                else:
                    failed[key] = error
                bars.update(key)
                told.done(key)

    def _keep(self) -> None:
        """Write, unless that has taken too large a share of the time; the first is free."""
        self._behind = True
        if self._writing <= SHARE_OF_TIME * (time.monotonic() - self._start):
            self._write()

    def _write(self) -> None:
        if self.store is None:
            return
        began = time.monotonic()
        try:
            self.store.save(self.outcomes, self.entropy)
            self._behind = False
        except OSError as error:
            self._warn(self.store, error)
        finally:
            self._writing += time.monotonic() - began

    def _warn(self, store: Checkpoint, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"The checkpoint {str(store.path)!r} cannot be written ({error.strerror or error}). "
            "The audit goes on, and tries again after each cell; if it is interrupted, what is not "
            "in the file is played anew. Make the folder, or space in it.",
            CheckpointWarning,
            stacklevel=outer_stacklevel(),
        )


class _Bars:
    """A progress bar for each phase of a game, in records; and what it is about to cost."""

    def __init__(
        self, game: Game, cells: Mapping[str, Cell], pending: Collection[str], verbose: int
    ) -> None:
        self._phases = {key: game.phase(key) for key in cells}
        self._pending, self._bars = set(pending), dict[str, Any]()
        if verbose <= 0:
            return
        for line in game.outlook():
            tqdm.write(line, file=sys.stderr)
        totals: dict[str, list[int]] = {}
        for key, (name, n_records) in self._phases.items():
            total = totals.setdefault(name, [0, 0])
            total[0] += n_records
            total[1] += 0 if key in self._pending else n_records
        for name, (n, done) in totals.items():
            place = {"position": len(self._bars), "unit": "record"}
            self._bars[name] = tqdm(total=n, initial=done, desc=name, **place)

    def __enter__(self) -> "_Bars":
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()

    def update(self, key: str) -> None:
        """Count the records of a cell that was played."""
        name, n_records = self._phases[key]
        if name in self._bars:
            self._bars[name].update(n_records)


def _played(
    key: str, function: Callable[..., Outcome], arguments: tuple[Any, ...]
) -> tuple[str, Outcome, Exception | None]:
    try:
        return key, function(*arguments), None
    except Exception as error:  # told to the caller, who has other cells to finish
        return key, {}, error
