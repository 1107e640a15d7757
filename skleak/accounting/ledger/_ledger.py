"""A ledger of everything released, in a file that copies and crashes cannot forget."""

import json
import os
import pickle
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.accounting._gaussian import gaussian_epsilon
from skleak.accounting.ledger._arguments import (
    check_ceilings,
    check_delta,
    check_name,
    check_path,
    check_same_records,
    check_squared,
    to_json,
)
from skleak.accounting.ledger._rows import (
    HISTORY_TYPES,
    Ceilings,
    Totals,
    insert_ceilings,
    insert_release,
    read_ceilings,
    read_history,
    read_totals,
)
from skleak.accounting.ledger._store import MEMORY, LedgerStore
from skleak.accounting.ledger._total import LeakageTotal
from skleak.exceptions import LeakageBudgetError
from skleak.utils._arguments import check_scalar


class LeakageLedger:
    """An append-only file of every noisy fit, that refuses the fit which passes a ceiling.

    Each release on a named data set is one row, with its Fisher information loss per record and
    its mu-GDP guarantee. A row is written as a whole or not at all, by any number of processes on
    one machine, and is there before the noise is drawn: clones, workers, crashes and restarts
    all spend from the same account. Rows cannot be changed or deleted.

    The constructor makes the file with its ceilings, which hold for each data set in it and for
    everybody who opens it. On a file that exists it only adds ceilings: stricter ones bind from
    then on, laxer ones do nothing. :meth:`open` never makes a file.

    **The file is confidential**, and readable by its owner alone: it holds the squared Fisher
    information loss of every record. So is a refusal, which depends on the records.

    Parameters
    ----------
    path : str or path-like
        The file, made if it does not exist; ``":memory:"`` for one that ends with the process.
    max_leakage : float, optional
        Ceiling on the largest composed Fisher information loss of any record, positive.
    max_epsilon : float, optional
        Ceiling on the epsilon of the composed mu-GDP guarantee at `delta`, at least 0. A release
        without a guarantee of differential privacy is then refused.
    delta : float, default=1e-6
        Probability that the (epsilon, delta) guarantee may fail, strictly between 0 and 1.
    timeout : float, default=60.0
        Seconds to wait while other processes write.

    Raises
    ------
    TypeError
        For an argument of the wrong type.
    ValueError
        For an argument out of range, a folder that does not exist, or a file that is no ledger,
        is empty or is damaged.
    PermissionError
        For a stricter ceiling on a file that may not be written.

    Notes
    -----
    *Data sets.* Ceilings hold for each name: a person in two data sets leaks from both, and other
    names for the same records escape the ceilings.

    *Sums.* The noise of every release must be independent of all others. A release without noise,
    or with noise that can be replayed, is infinite for ever, and refused under any ceiling. See
    the user guide, docs/theory/differential_privacy.md, "Ledgers".

    - A ceiling on epsilon set before the first release is a *filter*: each release may be chosen
      in view of all earlier ones ([1]_, [2]_). A stricter one set later is not itself a guarantee.
    - Totals of mu-GDP guarantee only what was fixed in advance, noise and number of releases.
    - Totals and ceilings of the Fisher information loss bound the information only where no
      release is chosen in view of earlier ones (a grid of parameters set in advance).

    *Files.* A copy is the ledger itself; a pickle opens the same file again, and never makes it. A
    file that vanished or was replaced is an error; an older copy is noticed only by whoever saw
    the newer one. Keep the file on a local disk (network file systems do not lock reliably), with
    any ``-journal`` file beside it, which undoes half an entry after a crash.

    References
    ----------
    .. [1] Smith and Thakurta, "Fully adaptive composition for Gaussian differential privacy",
       arXiv:2210.17520, 2022.
    .. [2] Koskela, Tobaben and Honkela, "Individual privacy accounting with Gaussian differential
       privacy", arXiv:2209.15596, 2022.

    Examples
    --------
    >>> ledger = LeakageLedger(":memory:", max_leakage=6.0)
    >>> ledger.record("clinic", [3.0, 1.0]).fisher_information_loss
    array([3., 1.])
    >>> ledger.record("clinic", [4.0, 0.0]).fisher_information_loss
    array([5., 1.])
    >>> ledger.record("clinic", [4.0, 0.0])
    Traceback (most recent call last):
        ...
    skleak.exceptions.LeakageBudgetError: ...
    >>> ledger.total("clinic").n_releases
    2
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        max_leakage: float | None = None,
        max_epsilon: float | None = None,
        *,
        delta: float = 1e-6,
        timeout: float = 60.0,
    ) -> None:
        ceilings = check_ceilings(max_leakage, max_epsilon, delta)
        self.delta = ceilings.delta
        self._attach(path, timeout, fill=partial(insert_ceilings, ceilings=ceilings))
        # Read first: a ledger that may only be read can be named with the ceilings it has.
        if ceilings.is_stricter_than(self._ceilings()):
            with self._store.transaction(write=True) as connection:
                insert_ceilings(connection, ceilings)

    @classmethod
    def open(
        cls,
        path: "str | os.PathLike[str]",
        *,
        delta: float | None = None,
        timeout: float = 60.0,
    ) -> Self:
        """Open a ledger that exists, under its ceilings.

        Parameters
        ----------
        path : str or path-like
            The file. A relative path starts in the current folder.
        delta : float, optional
            Where to state epsilon, strictly between 0 and 1; by default as the ceiling on epsilon
            does, or whoever made the ledger.
        timeout : float, default=60.0
            Seconds to wait while other processes write.

        Returns
        -------
        LeakageLedger

        Raises
        ------
        FileNotFoundError
            Where there is no such file.
        TypeError
            For an argument of the wrong type.
        ValueError
            For an argument out of range, ``":memory:"``, or a file that is no ledger, is empty or
            is damaged.
        PermissionError, OSError, TimeoutError
            Where the file cannot be read.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "leakage.sqlite")
        ...     _ = LeakageLedger(path, max_leakage=6.0)
        ...     LeakageLedger.open(path).max_leakage
        6.0
        """
        stated = None if delta is None else check_delta(delta)
        ledger = cls.__new__(cls)
        ledger._attach(path, timeout, fill=None)
        ledger.delta = ledger._ceilings().delta if stated is None else stated
        return ledger

    def _attach(
        self,
        path: "str | os.PathLike[str]",
        timeout: float,
        fill: Callable[[sqlite3.Connection], None] | None,
    ) -> None:
        self.path = check_path(path)
        self.timeout = check_scalar("timeout", timeout, finite=True)
        self._store = LedgerStore(self.path, self.timeout, fill)

    @property
    def max_leakage(self) -> float | None:
        """Strictest ceiling on the largest composed loss that the file holds now, or None."""
        ceiling = self._ceilings().max_leakage
        return None if np.isinf(ceiling) else ceiling

    @property
    def max_epsilon(self) -> float | None:
        """Strictest ceiling on epsilon that the file holds now, stated at `delta`, or None."""
        kept = self._ceilings()
        if np.isinf(kept.max_mu):
            return None
        if kept.delta == self.delta:
            return kept.max_epsilon
        return float(gaussian_epsilon(kept.max_mu, self.delta))

    def __repr__(self) -> str:
        return f"LeakageLedger({self.path!r}, delta={self.delta:g})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        if self.path == MEMORY:
            raise pickle.PicklingError(
                "A `:memory:` ledger cannot be pickled: the copy would forget what was released. "
                "Give the ledger a file, for instance LeakageLedger('leakage.sqlite')."
            )
        return self.__dict__.copy()

    def record(
        self,
        dataset: str,
        fisher_information_loss: npt.ArrayLike,
        *,
        mu: float | None = None,
        description: Any = None,
        aligned: bool = True,
    ) -> LeakageTotal:
        """Enter one release, or refuse it; call it before the noise is drawn.

        Parameters
        ----------
        dataset : str
            Name of the data set. One name stands for the same records in the same order; spaces
            around it and the form of its Unicode letters (NFC or not) do not count.
        fisher_information_loss : array-like of shape (n_records,)
            Fisher information loss of each record in this release, at least 0; infinite for a
            release without noise, or with noise that can be replayed, which any ceiling refuses.
        mu : float, optional
            mu-GDP guarantee of the release; None where no guarantee of differential privacy holds.
        description : JSON value, optional
            What was released, for instance the parameters of the model. No data.
        aligned : bool, default=True
            False where it is not known which record of the data set is which: a fold of a
            cross-validation, a shuffled or resampled copy. Then every record is charged the
            largest loss of the release, and any number of records is accepted.

        Returns
        -------
        LeakageTotal
            The totals with this release.

        Raises
        ------
        LeakageBudgetError
            Where the totals would pass a ceiling. Nothing is recorded then, and nothing may be
            released.
        FileNotFoundError, PermissionError, TimeoutError, OSError
            Where the file has vanished or was replaced, may not be written, stayed locked by
            another process, or the disk is full or fails.
        TypeError, ValueError
            For arguments of the wrong type, negative losses or NaN (the leakage is not known),
            another number of records than before under this name, or a damaged ledger.
        """
        dataset = check_name(dataset)
        squared = check_squared(fisher_information_loss)
        hint = "Pass None where no guarantee holds."
        release_mu = np.inf if mu is None else check_scalar("mu", mu, hint=hint)
        text = to_json(description)
        with self._store.transaction(write=True) as connection:
            before = read_totals(connection, dataset)
            if aligned and before.squared is not None:
                check_same_records(dataset, before.squared.size, squared.size)
            after = before.plus(squared, release_mu, aligned)
            refusal = read_ceilings(connection).refusal(dataset, before, after)
            if refusal is None:
                insert_release(connection, dataset, after, squared, release_mu, aligned, text)
                result = self._present(connection, dataset, after)
        if refusal is not None:
            raise LeakageBudgetError(refusal)
        return result

    def total(self, dataset: str) -> LeakageTotal:
        """Totals of all releases on a data set.

        Parameters
        ----------
        dataset : str
            Name of the data set.

        Returns
        -------
        LeakageTotal

        Raises
        ------
        ValueError
            For a name without releases, or a damaged ledger.
        """
        dataset = check_name(dataset)
        with self._store.transaction(write=False) as connection:
            totals = read_totals(connection, dataset)
            result = self._present(connection, dataset, totals)
        if not totals.number:
            known = ", ".join(map(repr, self.datasets())) or "none"
            raise ValueError(
                f"The ledger has no release on a data set {dataset!r}; it knows {known}. "
                "Check the name."
            )
        return result

    def datasets(self) -> list[str]:
        """Names of all data sets with a release, sorted.

        Returns
        -------
        list of str
        """
        query = "SELECT DISTINCT dataset FROM release ORDER BY dataset"
        with self._store.transaction(write=False) as connection:
            return [name for (name,) in connection.execute(query)]

    def history(self, dataset: str | None = None) -> pd.DataFrame:
        """All releases in order, one row each.

        Parameters
        ----------
        dataset : str, optional
            Only this data set.

        Returns
        -------
        DataFrame
            Columns ``dataset``, ``number`` (within the data set), ``time`` (UTC), ``n_records``,
            ``aligned``, ``max_fisher_information_loss`` of the release, ``mu`` (infinite for no
            guarantee), ``composed_max_fisher_information_loss`` and ``composed_mu`` with it,
            ``description`` and ``version`` of skleak.
        """
        if dataset is not None:
            dataset = check_name(dataset)
        with self._store.transaction(write=False) as connection:
            rows = read_history(connection, dataset)
        frame = pd.DataFrame(rows, columns=list(HISTORY_TYPES)).astype(HISTORY_TYPES)
        frame["time"] = pd.to_datetime(frame["time"], utc=True, format="ISO8601")
        frame["description"] = frame["description"].map(json.loads)
        return frame

    def _ceilings(self) -> Ceilings:
        with self._store.transaction(write=False) as connection:
            return read_ceilings(connection)

    def _present(
        self, connection: sqlite3.Connection, dataset: str, totals: Totals
    ) -> LeakageTotal:
        ceilings = read_ceilings(connection)
        return LeakageTotal(
            dataset=dataset,
            n_releases=totals.number,
            fisher_information_loss=totals.losses,
            mu=totals.mu,
            delta=self.delta,
            max_leakage=ceilings.max_leakage,
            max_mu=ceilings.max_mu,
        )
