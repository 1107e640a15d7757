"""Play any game anew or from its checkpoint, and keep what is finished whatever happens."""

import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from numbers import Real
from pathlib import Path
from pickle import PicklingError
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from joblib import hash as joblib_hash
from sklearn.base import clone
from tqdm import tqdm

from skleak._version import __version__
from skleak.adversary.hypotheses import last_step
from skleak.adversary.knowledge import as_table
from skleak.audit.games._game import Game, Task, hash_of
from skleak.audit.tables._rates import Outcome
from skleak.exceptions import CheckpointWarning, IncompleteAuditWarning
from skleak.utils._blocks import watched_by
from skleak.utils._confidential import to_own_workers
from skleak.utils._files import write_confidential
from skleak.utils._sklearn_compat import Task as Progress
from skleak.utils._sklearn_compat import no_task, outer_stacklevel
from skleak.utils._typing import Array

# A checkpoint is written whole: not more than this share of the time.
SHARE_OF_TIME = 0.1
# Bytes of all parts that a checkpoint keeps.
_MOST = 1 << 29
_HEADER = "header"
# Names of arrays that are no cells: what games are computed from.
_PART = "parts:"


class Checkpoint:
    """Finished cells of one audit, on disk. Confidential, as it tells what attacks got right.

    The folder of the file must exist; the entropy of the seeds is that of the file, where there is
    one. `fingerprint` is what decides the results: a file of another is refused. As a watcher it
    keeps the arrays that a game is made from as they are computed, too, and shows how many rows
    there are.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | None",
        entropy: list[int],
        fingerprint: Mapping[str, str] | None = None,
    ) -> None:
        self.path = None if path is None else Path(path).expanduser()
        self.entropy, self.fingerprint = entropy, dict(fingerprint or {})
        self.cells: dict[str, Outcome] = {}
        self.parts: dict[str, Array] = {}
        self.behind = False  # the file lacks something
        self._start, self._writing, self._warned = time.monotonic(), 0.0, False
        self._counts, self._part, self._full = Counter[str](), "", False
        self._verbose, self._bar = 0, tqdm(disable=True)
        if self.path is None:
            return
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise ValueError(
                f"`checkpoint` must be a file in a folder that exists; got {str(self.path)!r}. "
                "Create the folder first."
            )
        if self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        try:
            # Opened here: NumPy leaves a broken archive open.
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                header = json.loads(str(file[_HEADER]))
                kept = dict(header["fingerprint"])
                self.entropy = [int(word) for word in header["entropy"]]
                for name in file.files:
                    key, _, part = name.rpartition("/")
                    if name.startswith(_PART):
                        self.parts[name.removeprefix(_PART)] = file[name]
                    elif name != _HEADER:
                        self.cells.setdefault(key, {})[part] = file[name]
        except Exception as error:
            raise ValueError(
                f"`checkpoint` {str(path)!r} is not a checkpoint of an audit ({error}). "
                "Remove it, or name another file."
            ) from error
        for name in {**kept, **self.fingerprint}:
            found, expected = kept.get(name), self.fingerprint.get(name)
            if found != expected:
                raise ValueError(
                    f"`checkpoint` {str(path)!r} is of another audit: its {name} differs "
                    f"(expected {expected!s:.80}, got {found!s:.80}). Remove the file, or name "
                    "another one."
                )

    def keep(self) -> None:
        """Write, unless that has taken too large a share of the time; the first is free."""
        self.behind = True
        if self._writing <= SHARE_OF_TIME * (time.monotonic() - self._start):
            self.write()

    def write(self) -> None:
        """Write what the file lacks; it is whole at any time, and its owner's alone."""
        if self.path is None or not self.behind:
            return
        began = time.monotonic()
        try:
            write_confidential(self.path, self._fill)
            self.behind = False
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"The checkpoint {str(self.path)!r} cannot be written "
                    f"({error.strerror or error}). The audit goes on, and tries again after each "
                    "cell; if it is interrupted, what is not in the file is played anew. Make the "
                    "folder, or space in it.",
                    CheckpointWarning,
                    stacklevel=outer_stacklevel(),
                )
            self._warned = True
        finally:
            self._writing += time.monotonic() - began

    def _fill(self, file: BinaryIO) -> None:
        header = json.dumps({"fingerprint": self.fingerprint, "entropy": self.entropy})
        cells = {f"{k}/{part}": v for k, each in self.cells.items() for part, v in each.items()}
        parts = {f"{_PART}{name}": array for name, array in self.parts.items()}
        # Not compressed: numbers like these do not shrink, and there may be many.
        arrays: dict[str, Any] = {_HEADER: np.array(header), **cells, **parts}
        np.savez(file, **arrays)

    @contextmanager
    def watching(self, *, verbose: int) -> Iterator[None]:
        """Show what a game is computed from in parts, and keep it, whatever interrupts that."""
        self._verbose = verbose
        try:
            with watched_by(self):
                yield
        except BaseException:
            self.write()
            raise
        finally:
            self._bar.close()

    def begin(self, name: str, n: int) -> Array | None:
        """Rows that are kept, (k, ...); None where there are none."""
        # The same name again is the next array of that name.
        self._counts[name] += 1
        self._part = f"{name} {self._counts[name]}"
        self._bar.close()
        unit = "fit" if name.startswith("fits") else "record"
        self._bar = tqdm(total=n, desc=name, unit=unit, disable=self._verbose <= 0)
        return self.parts.get(self._part)

    def done(self, name: str, rows: Array, n: int) -> None:
        """Show how many rows there are, and keep them."""
        self._bar.update(len(rows) - self._bar.n)
        if self.path is None or self._full or len(rows) <= len(self.parts.get(self._part, ())):
            return
        others = sum(array.nbytes for part, array in self.parts.items() if part != self._part)
        size = rows.nbytes // len(rows) * n
        if size + others > _MOST:
            self._full = True
            warnings.warn(
                f"The {name} take {size / 2**30:.2g} GB, more than a checkpoint keeps (0.5 GB for "
                "all that a game is made from): an audit that goes on computes them anew. Audit "
                "fewer records, or fewer values.",
                CheckpointWarning,
                stacklevel=outer_stacklevel(),
            )
        else:
            self.parts[self._part] = rows
            self.keep()


def play(
    game: Game, store: Checkpoint, *, n_jobs: int | None, verbose: int, task: Progress | None = None
) -> None:
    """Play what is not finished of a prepared game, and tell of each cell.

    The store has every outcome at once, by key; errors stop no other cell.
    """
    cells = game.cells()
    pending = {key: cell for key, cell in cells.items() if key not in store.cells}
    phases = {key: game.phase(key) for key in cells}
    failed, bars = list[BaseException](), dict[str, Any]()
    try:
        with ExitStack() as stack:
            stack.enter_context(to_own_workers())
            told = stack.enter_context((task or no_task()).part("cells", len(pending)))
            for phase in dict.fromkeys(name for name, _ in phases.values()):
                sizes = {key: n for key, (name, n) in phases.items() if name == phase}
                done = sum(n for key, n in sizes.items() if key not in pending)
                shown = {"position": len(bars), "unit": "record", "disable": verbose <= 0}
                bar = tqdm(total=sum(sizes.values()), initial=done, desc=phase, **shown)
                bars[phase] = stack.enter_context(bar)
            # Arguments go as one tuple: joblib would leave large ones with a single worker of a
            # Dask cluster, and whoever dies with them takes the audit along.
            results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
                delayed(_played)(key, *cell) for key, cell in pending.items()
            )
            for key, outcome, wrong in results:
                if wrong is not None:
                    failed.append(wrong)
                else:
                    store.cells[key] = outcome
                    store.keep()
                bars[phases[key][0]].update(phases[key][1])
                told.done(key)
    except BaseException as error:  # an interrupt too: nothing that is finished is lost
        failed = [error]
    store.write()
    if not failed:
        return
    again = ""
    if store.path is not None and not store.behind:
        again = f" Call `fit` again to go on from {str(store.path)!r}."
    warnings.warn(
        f"The audit is incomplete: {len(store.cells)} of {len(cells)} cells are finished, "
        f"and their rows are in `partial_results_`.{again}",
        IncompleteAuditWarning,
        stacklevel=outer_stacklevel(),
    )
    raise failed[0]


def _played(
    key: str, function: Callable[..., Outcome], arguments: tuple[Any, ...]
) -> tuple[str, Outcome, Exception | None]:
    try:
        return key, function(*arguments), None
    except Exception as error:  # told to the caller, who has other cells to finish
        return key, {}, error


# Parameters of a private estimator that decide nothing in its audit, and of an auditor that decide
# nothing of what its checkpoint holds.
_UNUSED = ("ledger", "random_state", "verbose")
_UNDECIDING = ("checkpoint", "n_jobs", "verbose", "max_advantage", "groups")


def fingerprint(auditor: Any, task: Task) -> dict[str, str]:
    """Say what decides the results of an audit, for its checkpoint."""
    own, persons, test = auditor.get_params(deep=False), task.persons, task.X_test
    # Rates of drawn memberships are kept with their intervals.
    unused = {*_UNDECIDING, *(["confidence_level"] if "attribute" in own else [])}
    seed = own["random_state"]
    return {
        "version of skleak": __version__,
        "auditor": type(auditor).__name__,
        "data": data_digest(task),
        "test data": "None" if test is None else _digest(as_table(test), np.ravel(task.y_test)),
        "sample_weight": _identity(task.sample_weight),
        **{name: _identity(value) for name, value in own.items() if name not in unused},
        "persons": _identity(None if persons is None else [persons.rows, persons.starts]),
        # Without a seed, the checkpoint's is used.
        "random_state": repr(seed) if isinstance(seed, int | np.integer) else "None",
    }


def _identity(thing: Any) -> str:
    """Identify a parameter, whichever process made it and whatever an estimator has seen.

    A ``repr`` is cut short where it is long, and may hold an address of memory.
    """
    if thing is None or isinstance(thing, str | Real):
        # A column's name is not its position.
        return repr(thing) if isinstance(thing, str) else str(thing)
    if isinstance(thing, dict):
        thing = list(thing.items())
    if isinstance(thing, list | tuple):
        return ", ".join(map(_identity, thing))
    model = last_step(thing)
    if hasattr(model, "get_params"):
        thing = clone(thing)
        known = last_step(thing).get_params(deep=False)
        if "noise_scale" in known:
            # The noise of an audit is its own, and no ledger is charged.
            last_step(thing).set_params(**{name: None for name in _UNUSED if name in known})
    try:
        return f"{type(model).__qualname__} {joblib_hash(thing)}"
    except (PicklingError, AttributeError, TypeError):  # functions without a name
        return repr(thing)


def _digest(table: Any, y: Array) -> str:
    frame = pd.DataFrame(table)
    return str(hash_of(frame, y, start=repr(list(frame.columns)).encode()).hexdigest())


def data_digest(task: Task) -> str:
    """Hash of all training records; of those outside memory, block by block."""
    return _digest(task.table, task.y) if task.outside is None else task.outside.digest
