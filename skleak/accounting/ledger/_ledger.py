"""The ledger of what was released."""

import json
import os
import pickle
import sqlite3
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.accounting.gaussian import gaussian_epsilon, mu_from_epsilon_delta
from skleak.accounting.ledger._rows import (
    HISTORY_TYPES,
    RESERVED,
    Ceilings,
    Totals,
    added_units,
    check_units,
    insert_ceilings,
    insert_release,
    insert_units,
    no_units,
    read_ceilings,
    read_history,
    read_totals,
    read_units,
    widths_of,
)
from skleak.accounting.ledger._store import MEMORY, LedgerStore
from skleak.exceptions import LeakageBudgetError, PrivacyLeakWarning
from skleak.utils._arguments import check_real, check_scalar
from skleak.utils._sklearn_compat import fits_of_search, outer_stacklevel
from skleak.utils._typing import FloatArray


def check_ceilings(max_leakage: Any, max_epsilon: Any, delta: Any) -> Ceilings:
    """Ceilings as numbers, with the mu that the one on epsilon allows; infinite for None."""
    leakage, epsilon, mu = np.inf, np.inf, np.inf
    if max_leakage is not None:
        leakage = check_scalar("max_leakage", max_leakage, low_open=True, finite=True)
    if max_epsilon is not None:
        epsilon = check_scalar("max_epsilon", max_epsilon, finite=True)
    delta = check_delta(delta)
    if max_epsilon is not None:
        mu = float(mu_from_epsilon_delta(epsilon, (1.0 - RESERVED) * delta))
    return Ceilings.of(leakage, mu, epsilon, delta)


def check_delta(delta: Any) -> float:
    """Return delta as a float strictly between 0 and 1."""
    return check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)


def check_path(path: Any) -> str:
    """Absolute path, so that a worker in another folder finds the same file."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"`path` must be a string or a path; got {type(path).__name__}. Pass the file of "
            "the ledger, or ':memory:'."
        )
    name = os.fsdecode(path)
    return name if name == MEMORY else os.path.abspath(os.path.expanduser(name))


def check_name(dataset: Any) -> str:
    """Name of a data set in the one form in which it is kept."""
    if not isinstance(dataset, str):
        raise TypeError(f"`dataset` must be a string; got {type(dataset).__name__}.")
    name = str(unicodedata.normalize("NFC", dataset).strip())
    if not name:
        raise ValueError("`dataset` must not be empty. Name the data set.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"`dataset` must be Unicode text; got {name!r}.") from error
    return name


def check_squared(losses: Any) -> FloatArray:
    """Return the squares of known losses, of shape (n_records,)."""
    hint = (
        "NaN is a loss that is not known, as after a fit that did not converge: nothing is "
        "recorded, so release nothing. Let the fit converge, for instance with a larger `max_iter`."
    )
    array = check_real("fisher_information_loss", losses, hint=hint)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"`fisher_information_loss` must have shape (n_records,); got {array.shape}. "
            "Pass one number per record."
        )
    with np.errstate(over="ignore"):
        return array**2


def to_json(description: Any) -> str:
    """Write a description of a release as JSON: names and numbers, no data."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(
            f"`description` must be made of JSON values; got a {type(value).__name__}. "
            "Pass names and numbers; no data."
        )

    return json.dumps(description, default=plain)


@dataclass(frozen=True, eq=False)
class LeakageTotal:
    """Leakage of all recorded releases on one data set together. Confidential.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    n_releases : int
        Number of releases.
    fisher_information_loss : ndarray of shape (n_records,)
        Bound on the composed Fisher information loss of each record, ``sqrt(sum eta^2)``; of
        shape (1,), one bound for all records, where every release was unaligned.
    mu : float
        mu of the composed mu-GDP guarantee; infinite once a release had none.
    mu_delta : float
        Delta up to which that holds: no test has a power above that of mu-GDP by more.
    delta : float
        The delta at which :attr:`epsilon` states the same guarantee; that of the ledger.
    max_leakage, max_mu, max_mu_delta : float
        The strictest ceilings of the ledger, infinite where there is none; a ceiling on epsilon
        is held as the mu it allows at nine tenths of its delta, and the rest for `mu_delta`.

    Examples
    --------
    >>> from skleak.accounting import LeakageLedger
    >>> ledger = LeakageLedger(":memory:")
    >>> ledger.record("clinic", [3.0, 1.0], mu=0.3).n_releases
    1
    """

    dataset: str
    n_releases: int
    fisher_information_loss: FloatArray
    mu: float
    mu_delta: float
    delta: float
    max_leakage: float
    max_mu: float
    max_mu_delta: float

    @property
    def epsilon(self) -> float:
        """The guarantee as epsilon at ``delta``, in nats; infinite where `mu_delta` passes that."""
        return epsilon_at(self.mu, self.mu_delta, self.delta)


def epsilon_at(mu: float, mu_delta: float, delta: float) -> float:
    """Epsilon at delta of what is mu-GDP up to `mu_delta`."""
    return float("inf") if mu_delta > delta else float(gaussian_epsilon(mu, delta - mu_delta))


def warn_of_search(n_fits: int, dataset: str, mu: float, delta: float) -> None:
    """Say what a search costs whose first fit is about to be entered, and that is none of 0 fits.

    Parameters
    ----------
    n_fits : int
        How many fits it makes.
    dataset : str
        Name of the data set.
    mu : float
        Of the first fit; infinite for no guarantee.
    delta : float
        Where to state epsilon.

    Warns
    -----
    PrivacyLeakWarning
        Where there is more than one.

    Examples
    --------
    >>> warn_of_search(0, "clinic", 0.3, 1e-6)
    """
    if n_fits < 2:
        return
    cost = f"{np.sqrt(n_fits):.3g} times the leakage of one, without differential privacy"
    if np.isfinite(mu):
        total = float(np.sqrt(n_fits) * mu)
        epsilon = float(gaussian_epsilon(total, delta))
        cost = f"mu={total:.3g}, epsilon={epsilon:.3g} at delta={delta:g}"
    warnings.warn(
        f"A search or cross-validation charges data set {dataset!r} for each of {n_fits} fits, "
        f"kept or not, and for a refit beyond: together {cost}, if all are as the first. Where a "
        "guarantee holds, skleak.linear_model.PrivateSearchCV chooses parameters at a price that "
        "does not grow with their number.",
        PrivacyLeakWarning,
        stacklevel=outer_stacklevel(),
    )


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
        Ceiling on the largest composed Fisher information loss of any record, positive, per width
        of the columns: at 1 no unbiased attacker has a standard error below the width. Needs
        `units`.
    max_epsilon : float, optional
        Ceiling on the epsilon of the composed mu-GDP guarantee at `delta`, at least 0. A release
        without a guarantee of differential privacy is then refused. A tenth of delta is kept for
        releases that are mu-GDP up to a `mu_delta`, as private SGD is (see `record`).
    delta : float, default=1e-6
        Probability that the (epsilon, delta) guarantee may fail, strictly between 0 and 1.
    units : float, "data_norm" or mapping of str to float, optional
        Public widths of the columns and of the target, in which losses are measured: an interval
        of that width holds every value that a person can have. A mapping has the width of each
        column by its name (``x0, x1, ...`` where data have none), of all others as "(columns)",
        and of the target as "(target)"; one number is that of all. "data_norm", also as the
        "(columns)" of a mapping, is twice the ``data_norm`` of the model. Labels are of width 1.
        What the file holds is kept: further columns may be added, and no width changes.
    timeout : float, default=60.0
        Seconds to wait while other processes write.

    Raises
    ------
    TypeError
        For an argument of the wrong type.
    ValueError
        For an argument out of range, a folder that does not exist, or a file that is no ledger,
        is empty or is damaged; for a ceiling on leakage without units, and for units other than
        those of the file.
    PermissionError
        For a stricter ceiling, or units, on a file that may not be written.

    Notes
    -----
    *Units.* A Fisher information loss is measured per unit of the data: with all numbers a hundred
    thousand times as large the same model has a loss that is as much smaller. A fit therefore
    charges the spectral norm of ``J diag(units)`` over the noise, J the derivative by the columns
    and by the target, whether or not that counts as private. It is refused where values span more
    than their width. Without units, which a ceiling on leakage needs, charges are per unit of the
    data, and units cannot be set after the first release. A file of an earlier version that has a
    ceiling on leakage may get units: its earlier releases then count as infinite.

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
    >>> ledger = LeakageLedger(":memory:", max_leakage=6.0, units=1.0)
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
        units: "float | Literal['data_norm'] | Mapping[str, float | str] | None" = None,
        delta: float = 1e-6,
        timeout: float = 60.0,
    ) -> None:
        ceilings, widths = check_ceilings(max_leakage, max_epsilon, delta), check_units(units)
        self.delta = ceilings.delta

        def fill(connection: sqlite3.Connection) -> None:
            insert_units(connection, widths or {})
            insert_ceilings(connection, ceilings)
            self._check_units(connection)

        self._attach(path, timeout, fill=fill)
        # Read first: a ledger that may only be read can be named with what it has.
        kept, known = self._store.read(lambda c: (read_ceilings(c), read_units(c)))
        if ceilings.is_stricter_than(kept) or added_units(known, widths or {}):
            with self._store.transaction(write=True) as connection:
                insert_units(connection, widths or {})
                if ceilings.is_stricter_than(kept):
                    insert_ceilings(connection, ceilings)
                self._check_units(connection)
        self._store.read(self._check_units)

    @classmethod
    def open(
        cls,
        path: "str | os.PathLike[str] | LeakageLedger",
        *,
        delta: float | None = None,
        timeout: float = 60.0,
    ) -> "LeakageLedger":
        """Open a ledger that exists, under its ceilings.

        Parameters
        ----------
        path : str, path-like or LeakageLedger
            The file. A relative path starts in the current folder. A ledger is returned as it is,
            unless a delta is asked for.
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
            is damaged, or has a ceiling on leakage and no units.
        PermissionError, OSError, TimeoutError
            Where the file cannot be read.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "leakage.sqlite")
        ...     _ = LeakageLedger(path, max_leakage=6.0, units={"(columns)": 1.0, "(target)": 5.0})
        ...     LeakageLedger.open(path).max_leakage
        6.0
        """
        stated = None if delta is None else check_delta(delta)
        if isinstance(path, LeakageLedger) and stated is None:
            return path
        ledger = cls.__new__(cls)
        ledger._attach(path, timeout, fill=None)
        ledger._store.read(ledger._check_units)
        ledger.delta = ledger._ceilings().delta if stated is None else stated
        return ledger

    def _attach(
        self,
        path: Any,
        timeout: float,
        fill: Callable[[sqlite3.Connection], None] | None,
    ) -> None:
        self.path = check_path(path)
        self.timeout = check_scalar("timeout", timeout, finite=True)
        self._store = LedgerStore(self.path, self.timeout, fill)

    def _check_units(self, connection: sqlite3.Connection) -> None:
        """Raise where a ceiling on leakage is kept, and no units in which it holds."""
        if read_ceilings(connection).max_leakage < np.inf and read_units(connection) is None:
            raise no_units(self.path)

    @property
    def units(self) -> "dict[str, float | str] | None":
        """Widths of the columns by name, in which losses are measured, or None."""
        units: dict[str, float | str] | None = self._store.read(read_units)
        return units

    def widths(
        self,
        columns: Sequence[str],
        spans: npt.ArrayLike,
        *,
        data_norm: float | None = None,
        classifies: bool = False,
    ) -> "FloatArray | None":
        """Find the widths of the columns and of the target of a fit, which hold all its values.

        Parameters
        ----------
        columns : sequence of str of length d
            Names of the columns.
        spans : array-like of shape (d + 1,)
            The largest less the smallest value of each column, and of the target last.
        data_norm : float, optional
            Public bound on the Euclidean norm of a row.
        classifies : bool, default=False
            The target is a label, of width 1.

        Returns
        -------
        ndarray of shape (d + 1,) or None
            The target last; None where the ledger has no units. The loss to record is the spectral
            norm of the Jacobian with its columns times these, over the noise.

        Raises
        ------
        ValueError
            Where a column has no width, or spans more than that.

        Examples
        --------
        >>> ledger = LeakageLedger(":memory:", units={"age": 120.0, "(target)": 10.0})
        >>> ledger.widths(["age"], [60.0, 9.0])
        array([120.,  10.])
        """
        units = self.units
        if units is None:
            return None
        known = np.asarray(spans, dtype=float)
        return widths_of(units, columns, known, data_norm=data_norm, classifies=classifies)

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
        return epsilon_at(kept.max_mu, kept.max_mu_delta, self.delta)

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
        fisher_information_loss: npt.ArrayLike | None,
        *,
        mu: float | None = None,
        mu_delta: float = 0.0,
        description: Any = None,
        aligned: bool = True,
        units: "Mapping[str, float | str] | None" = None,
    ) -> LeakageTotal:
        """Enter one release, or refuse it; call it before the noise is drawn.

        Parameters
        ----------
        dataset : str
            Name of the data set. One name stands for the same records in the same order; spaces
            around it and the form of its Unicode letters (NFC or not) do not count.
        fisher_information_loss : array-like of shape (n_records,)
            Fisher information loss of each record in this release, at least 0, in the `units` of
            the ledger (see `widths`) and with the target counted; infinite for a release without
            noise, or with noise that can be replayed, which any ceiling refuses. None where it is
            not known: the totals are infinite from then on, which ceilings on epsilon alone let
            pass while all releases have a guarantee.
        mu : float, optional
            mu-GDP guarantee of the release; None where no guarantee of differential privacy holds.
        mu_delta : float, default=0.0
            Probability with which that may fail, in [0, 1): at every epsilon, also below zero, and
            in both directions, delta is at most ``mu_delta + (1 - mu_delta) * H``, with H that of
            mu-GDP. It adds up over releases, and is taken off the delta of epsilon.
        description : JSON value, optional
            What was released, for instance the parameters of the model. No data.
        aligned : bool, default=True
            False where it is not known which record of the data set is which: a fold of a
            cross-validation, a shuffled or resampled copy. Then every record is charged the
            largest loss of the release, and any number of records is accepted.
        units : mapping, optional
            The `units` that the losses were measured in, empty for none: it is refused where the
            ledger has other ones by now, as another process has set some.

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

        Warns
        -----
        PrivacyLeakWarning
            At the first fit of a search or cross-validation of scikit-learn: what it costs.
        """
        dataset = check_name(dataset)
        unknown = fisher_information_loss is None
        squared = check_squared([np.inf] if unknown else fisher_information_loss)
        aligned = aligned and not unknown
        hint = "Pass None where no guarantee holds."
        release_mu = np.inf if mu is None else check_scalar("mu", mu, hint=hint)
        up_to = check_scalar("mu_delta", mu_delta, high=1.0, high_open=True)
        text = to_json(description)
        warn_of_search(fits_of_search(), dataset, release_mu, self.delta)
        with self._store.transaction(write=True) as connection:
            kept = read_units(connection)
            if units is not None and dict(units) != (kept or {}):
                raise ValueError(
                    "The units of the ledger have changed since the losses were measured: nothing "
                    "is recorded, so release nothing. Fit again."
                )
            before = read_totals(connection, dataset)
            expected = squared.size if before.squared is None else before.squared.size
            if aligned and squared.size != expected:
                raise ValueError(
                    f"Data set {dataset!r} has {expected} records; got {squared.size}. Use another "
                    "name for other records, or `aligned=False` for a part or a resample of these."
                )
            after = before.plus(squared, release_mu, aligned, up_to)
            refusal = read_ceilings(connection).refusal(
                dataset, before, after, unbounded=not unknown and bool(np.isinf(squared).any())
            )
            if refusal is None:
                row = (squared, release_mu, aligned, text, up_to)
                insert_release(connection, dataset, after, *row)
                result = self._present(connection, dataset, after)
        if refusal is not None:
            raise LeakageBudgetError(refusal)
        return result

    def mu_delta_left(self, dataset: str) -> float:
        """Return what releases on a data set may still add to `mu_delta`.

        Parameters
        ----------
        dataset : str
            Name of the data set, with releases or without.

        Returns
        -------
        float
            What is left of a tenth of `delta`, and of that of every ceiling on epsilon; at least 0.

        Examples
        --------
        >>> LeakageLedger(":memory:", max_epsilon=3.0, delta=1e-6).mu_delta_left("clinic")
        1e-07
        """
        dataset = check_name(dataset)
        with self._store.transaction(write=False) as connection:
            spent = read_totals(connection, dataset).mu_delta
            most = min(read_ceilings(connection).max_mu_delta, RESERVED * self.delta)
        return max(most - spent, 0.0)

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
            guarantee) and ``mu_delta``, ``composed_max_fisher_information_loss``, ``composed_mu``
            and ``composed_mu_delta`` with it, ``description`` and ``version`` of skleak.
        """
        if dataset is not None:
            dataset = check_name(dataset)
        rows = self._store.read(read_history, dataset)
        frame = pd.DataFrame(rows, columns=list(HISTORY_TYPES)).astype(HISTORY_TYPES)
        frame["time"] = pd.to_datetime(frame["time"], utc=True, format="ISO8601")
        frame["description"] = frame["description"].map(json.loads)
        return frame

    def _ceilings(self) -> Ceilings:
        ceilings: Ceilings = self._store.read(read_ceilings)
        return ceilings

    def _present(
        self, connection: sqlite3.Connection, dataset: str, totals: Totals
    ) -> LeakageTotal:
        ceilings = read_ceilings(connection)
        spent = totals.number, totals.losses, totals.mu, totals.mu_delta, self.delta
        limits = ceilings.max_leakage, ceilings.max_mu, ceilings.max_mu_delta
        return LeakageTotal(dataset, *spent, *limits)
