"""Compute a leakage report, wherever the records lie: an array in memory is one block of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from skleak.bounds import van_trees_mse
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.removal import removal_bounds
from skleak.influence.state import FitState, RecordBatch, partial_state, same_table
from skleak.report.document import sentences
from skleak.report.guarantee import (
    OUTSIDE,
    DifferentialPrivacy,
    Promises,
    individual_privacy,
    output_perturbation_guarantee,
    reported_privacy,
    takes_long,
)
from skleak.report.leakage._report import CARRIERS, MOST_NAMED, LeakageReport, LossBins, decision
from skleak.report.measures import (
    ESTIMATED,
    GOAL,
    LIMIT,
    MOST_WORK,
    RARE,
    BoundedSeparator,
    Leads,
    Separator,
    Solved,
    longest_record,
    solve,
)
from skleak.report.tables import Separation, attacker
from skleak.report.unknowns import Unknown, unknowns, with_steps
from skleak.solvers import MultinomialObjective
from skleak.utils._blocks import Blocks, is_large, positions_of, row_blocks
from skleak.utils._geometry import gained, true_positives
from skleak.utils._records import Persons, named
from skleak.utils._summaries import (
    CAPACITY,
    Groups,
    Largest,
    Merged,
    Moments,
    Quantiles,
    as_one_block,
    fetched,
)
from skleak.utils._typing import Array, Data, FloatArray, IntArray

# Records that a report lists, where it cannot list all, and quantiles of the loss that it states.
_N_MOST_EXPOSED = 10
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
# Carriers of a rare value of one column that are listed of records outside memory.
_MOST_CARRIERS = 1000
# Records that are fitted without, to find the one that shows most.
_MOST_SOLVED = 16
# Entries of the table of records and columns that a report keeps, and of the tables of a block
# outside memory: few blocks, as each leaves a summary to combine.
_MOST_KEPT, _ELEMENTS = 1 << 21, 1 << 22
# Parts of a loss that not every fit has.
_PARTS = ("conditional", "through_mean", "through_covariance", "plain")
# A gain that counts as certainty.
_CERTAIN = 1.0 - 1e-5


@dataclass(frozen=True)
class MeasuredTable:
    """Measured columns, those that a person has before they are encoded; aligned with the records.

    Parameters
    ----------
    separations : sequence of Separation
        How far the values of each column are apart.
    losses : sequence of Moments
        Statistics of the Fisher information loss of each, in the same order.
    assumptions : tuple of str
        Conditions under which these hold.
    """

    separations: Sequence[Separation]
    losses: Sequence[Moments]
    assumptions: tuple[str, ...] = field(default=())


def build_leakage_report(
    state: FitState,
    X: Any,
    y: Any,
    *,
    blocks: Sequence[Columns],
    labels: Sequence[str],
    promises: Promises,
    groups: Array | None = None,
    estimator: str = "",
    rung_moves: Mapping[str, int | None] | None = None,
    index: Any = None,
    rows: IntArray | None = None,
    table_index: pd.Index | None = None,
    raw: MeasuredTable | None = None,
    exact: bool = False,
    guarantee: DifferentialPrivacy | None = None,
) -> LeakageReport:
    """Measure records, columns, groups and the whole data set, and say what it means.

    Parameters
    ----------
    state : FitState
        State of the fit.
    X : ndarray, CSR matrix or Dask array of shape (n, d)
        Records to report on.
    y : array of shape (n,)
        Their targets, encoded.
    blocks : sequence of Columns
        Columns, or blocks of columns, to report on.
    labels : sequence of str
        Their names.
    promises : Promises
        What is public knowledge of the fit, and where its noise came from.
    groups : array of shape (n,), default=None
        Group label of each record.
    estimator : str, default=""
        Name of the estimator.
    rung_moves : mapping of str to int or None, default=None
        Under a goal that reads the records, how many of them may move the rung of the noise by
        another value of each entry that was not checked; None where they were not counted.
    index : Index or Dask array of length n, default=None
        Labels of the records; their positions by default.
    rows : ndarray of int of shape (n,), default=None
        Their positions in the training data, -1 for records that are not in it. By default they
        are found by value.
    table_index : Index, default=None
        Labels of all rows of the table that the records are of; by default those of the records.
    raw : MeasuredTable, default=None
        Columns before they were encoded, to report on in place of the blocks.
    exact : bool, default=False
        Solve for every record and column that has an exact answer, however long it takes.
    guarantee : DifferentialPrivacy, default=None
        The guarantee; by default that of noise on the minimizer.

    Returns
    -------
    LeakageReport
        Of records outside memory its table of records has the most exposed ones alone.
    """
    outside = is_large(X) or is_large(state.objective.X)
    if state.persons is not None:
        persons = state.persons
        if rows is not None:
            persons = persons.take(np.searchsorted(persons.first, rows))
        batch, rows = state.by_person(persons), persons.first
        index = pd.Index(persons.labels)
    elif outside:
        trained = X is state.objective.X or same_table(X, y, state.objective)
        batch = state.batch(X, y)
        given = batch.X, batch.y, batch.sample_weight, batch.reweights
        batch = RecordBatch(*(given if is_large(X) else map(as_one_block, given)))
        rows = positions_of(batch.X) if trained else None
    elif rows is None:
        rows, batch = state.training_rows(X, y), state.batch(X, y)
    else:
        batch = state.training.take(rows)
    if outside and isinstance(index, pd.Index):
        index = index.to_numpy(dtype=object)
    if not outside:
        index = pd.RangeIndex(len(batch)) if index is None else index
    more = groups, index, table_index, outside, raw, exact
    asked = _Records(state, batch, rows, promises, *more)
    return asked.report(estimator, tuple(blocks), tuple(labels), rung_moves, guarantee)


@dataclass(frozen=True)
class _Asked:
    """Questions to every block of records. It holds none where these lie outside memory."""

    model: LeakageModel
    unknowns: tuple[Unknown, ...]
    given: tuple[Separation, ...]  # those that were measured before
    n: int  # training records
    n_kept: int  # records that are listed
    rows: IntArray | None  # positions in the training data of all records, in memory
    trained: bool  # whether those outside memory are those of the fit, in their order
    outside: bool
    note: str
    persons: Persons | None = None  # of whom the records are the first rows
    exact: bool = False  # whether all records are solved for
    longest: float | None = None  # see `longest_record`
    # The one of records in memory, which both passes look at.
    kept: list[Separator] = field(default_factory=list)

    def separator(self, batch: RecordBatch) -> Separator:
        """Return a block of records, to be measured."""
        if self.kept:
            return self.kept[0]
        there = np.full(len(batch), 0 if self.trained else -1)
        rows = there if self.rows is None else self.rows
        work = MOST_WORK / max(1, len(self.unknowns))
        given = self.model.state, batch, rows, work, self.note, self.n, self.outside
        kind = Separator if self.model.state.noise_elsewhere is None else BoundedSeparator
        found = kind(*given, exact=self.exact, longest=self.longest)
        if not self.outside:
            self.kept.append(found)
        return found

    @property
    def capacity(self) -> int:
        """Bins of a summary: of records in memory all numbers are kept."""
        return CAPACITY if self.outside else max(CAPACITY, self.n_kept)


@dataclass(frozen=True)
class _Group(Merged):
    """Losses of the records of one group."""

    moments: Moments
    quantiles: Quantiles
    worst: Largest  # the one record of the largest loss

    @classmethod
    def of(cls, loss: FloatArray, position: IntArray) -> Self:
        """Summarize some records of a group, (n,) each."""
        worst = Largest.of(1, loss, position, {})
        return cls(Moments.of(loss[:, None]), Quantiles.of(loss, 1 << 12), worst)


@dataclass(frozen=True)
class _Survey(Merged):
    """Findings of the first pass: losses, and the few records of which columns may tell most."""

    losses: Moments  # of the loss, that by the trace, and what the loss is made of
    quantiles: Quantiles  # of the loss
    weights: Moments  # of the sample weights of all records, those of zero among them
    groups: Groups | None  # a `_Group` for each label
    columns: Moments  # of the losses about each column
    people: Largest  # by loss
    leads: tuple[Leads, ...]


def _look(
    X: Data, y: FloatArray, weights: FloatArray, reweights: FloatArray, *more: Any
) -> "_Survey | _Measured":
    """Look at a block of records: their positions and groups, if any, and how it is done."""
    position, *groups, look, asked, known = more
    batch = RecordBatch(X, y, weights, reweights, asked.persons)
    found: _Survey | _Measured = look(asked, batch, position, *known, *groups)
    return found


def _survey(
    asked: _Asked, batch: RecordBatch, position: IntArray, groups: Array | None = None
) -> _Survey:
    """Look for what matters in a block of records."""
    model = asked.model
    blocks, taking_part = [one.block for one in asked.unknowns], batch.participants()
    diagonal = (
        None if _single(model.state, batch, blocks) else model.record_loss(batch, norm="trace")
    )
    present = np.flatnonzero(batch.present)
    # Of the n x d table of leakage only one block of rows exists at once.
    columns, most = Moments.of(np.empty((0, len(blocks)))), max(len(blocks), model.state.n_features)
    squares = np.zeros(len(batch))
    for rows in row_blocks(len(taking_part), most) if blocks else ():
        table = model.feature_loss(taking_part.take(rows), blocks)
        columns = columns.merged(Moments.of(table))
        if diagonal is None:
            squares[present[rows]] = _root_mean_square(table)
    losses = [model.record_loss(batch), squares if diagonal is None else diagonal]
    if model.conditional is not model:
        losses.append(model.conditional.record_loss(batch))
    terms = model.terms(batch, [model.state.whole_record])
    if terms is not None:
        losses += [terms.mean[:, 0], terms.covariance[:, 0]]
    plain = model.plain_loss(batch)
    if plain is not None:
        losses.append(plain)
    loss, parts = losses[0], None
    told = {"sample_weight": batch.sample_weight, "diagonal": losses[1]}
    if groups is not None:
        own, place = loss[present], position[present]
        parts = Groups.of(groups[present], lambda some: _Group.of(own[some], place[some]))
        told["group"] = groups
    leads: tuple[Leads, ...] = ()
    if model.state.converged:
        separator = asked.separator(batch)
        separator.look(asked.unknowns)
        leads = tuple(Leads.of(separator, one, position) for one in asked.unknowns)
    return _Survey(
        Moments.of(np.column_stack(losses)[present]),
        Quantiles.of(loss[present], asked.capacity),
        Moments.of(batch.sample_weight[:, None]),
        parts,
        columns,
        Largest.of(asked.n_kept, loss, position, told, batch.present if asked.outside else None),
        leads,
    )


def _single(state: FitState, batch: RecordBatch, blocks: Sequence[Columns]) -> bool:
    """Return True if these are all unknowns of a whole record, one by one."""
    sizes = [block.count(state.n_features, state.factor.n_target_directions) for block in blocks]
    found = [block.indices for block in blocks if block.indices is not None and not block.target]
    every = np.sort(np.concatenate(found)) if found else np.zeros(0)
    whole = state.whole_record.target == any(block.target for block in blocks)
    alone = batch.persons is None and state.converged and set(sizes) == {1} and whole
    return alone and np.array_equal(every, np.arange(state.n_features))


def _root_mean_square(table: FloatArray) -> FloatArray:
    """Root mean square of each row, whose squares may overflow, (n,)."""
    unit = table.max(axis=1, keepdims=True)
    unit = np.where((unit > 0.0) & np.isfinite(unit), unit, 1.0)
    return np.asarray(unit[:, 0] * np.sqrt(np.mean((table / unit) ** 2, axis=1)))


@dataclass(frozen=True)
class _Column(Merged):
    """Distances between the values of a column, over records that take part in a fit."""

    worst: Largest  # the one record of the largest distance
    gains: Quantiles  # of records in memory their median alone
    carriers: Largest  # records with a rare value, by how far it is from others
    rare: Moments  # of how surely such a value is found
    n_found: int  # records with a rare value that is found more often than not
    n_unmeasured: int  # records with a rare value of which it is not known how surely
    n_above: int  # records of which more is gained than the limit
    n_known: int  # records of which it is known
    note: str

    @classmethod
    def of(cls, one: Separation, batch: RecordBatch, position: IntArray, asked: _Asked) -> Self:
        """Summarize a block of records."""
        present, gain = batch.present, gained(one.distance)
        told = {name: getattr(one, name) for name in ("distance", "from_own", "share", "exact")}
        known = np.where(np.isnan(one.distance), -1.0, one.distance)
        carrying = present & (one.share <= RARE)
        surely = true_positives(one.from_own[carrying])
        sure = ~np.isnan(surely)
        most = _MOST_CARRIERS if asked.outside else len(position)
        shown = gain if present.all() else gain[present]
        missing = np.isnan(shown)
        gains = shown if not missing.any() else shown[~missing]
        if not asked.outside and len(gains):  # more than their median is not asked of them
            middle = [(len(gains) - 1) // 2, len(gains) // 2]
            gains = np.partition(gains, middle)[middle].mean(keepdims=True)
        return cls(
            Largest.of(1, known, position, told, present),
            Quantiles.of(gains, 1 << 12),
            Largest.of(most, one.from_own, position, told, carrying),
            Moments.of(surely[sure][:, None]),
            int(np.sum(surely[sure] > 0.5)),
            int(np.sum(~sure)),
            int(np.sum(shown > LIMIT)),
            int(np.sum(~missing)),
            one.note,
        )


@dataclass(frozen=True)
class _Measured(Merged):
    """Findings of the second pass."""

    columns: tuple[_Column, ...]
    telling: Largest  # what is gained of each record that is listed, and of which column
    separations: tuple[Separation, ...] | None  # of all records, in memory


def _measure(
    asked: _Asked,
    batch: RecordBatch,
    position: IntArray,
    solved: Sequence[Solved | None],
    people: IntArray,
    *_: Any,
) -> _Measured:
    """Measure a block of records, of which some were solved for, and some are listed."""
    separator, n = asked.separator(batch), len(batch)
    if asked.outside and asked.model.state.converged:
        separator.look(asked.unknowns)
    pairs = zip(asked.unknowns, solved, strict=True)
    found = asked.given or (separator.put(*pair, position) for pair in pairs)
    keeps = not asked.outside and n * max(len(asked.unknowns), len(asked.given)) <= _MOST_KEPT
    largest, telling = np.full(n, -np.inf), np.full(n, -1)
    columns, separations = list[_Column](), list[Separation]()
    for one in found:
        better = one.distance > largest  # where it is known
        largest[better], telling[better] = one.distance[better], len(columns)
        columns.append(_Column.of(one, batch, position, asked))
        separations.append(one if keeps else one.without_records())
    largest[telling < 0] = np.nan
    names = np.array([*(one.name for one in separations), None], dtype=object)  # -1 is the last
    told = {"advantage_any_prior": gained(largest), "most_telling": names[telling]}
    listed = Largest.of(asked.n_kept, np.zeros(n), position, told, np.isin(position, people))
    return _Measured(tuple(columns), listed, None if asked.outside else tuple(separations))


@dataclass(frozen=True)
class _Records:
    """Records, and what is asked about them."""

    state: FitState
    batch: RecordBatch
    rows: IntArray | None  # positions in the training data; None where they are not those
    promises: Promises
    groups: Array | None
    index: Any  # labels; None for positions
    table_index: pd.Index | None  # labels of the table that they are some of, if they are
    outside: bool
    raw: MeasuredTable | None
    exact: bool  # whether all records are solved for

    def report(
        self,
        estimator: str,
        blocks: tuple[Columns, ...],
        names: tuple[str, ...],
        rung_moves: Mapping[str, int | None] | None,
        guarantee: DifferentialPrivacy | None,
    ) -> LeakageReport:
        """Measure, and put the numbers together."""
        asked = self._asked(blocks, names)
        first: _Survey = self._walk(_survey, asked)
        solved = self._solved(asked, first)
        second: _Measured = self._walk(_measure, asked, solved, first.people.position)
        asked.kept.clear()
        separations = second.separations
        if separations is None:
            nobody = RecordBatch(np.empty((0, self.state.n_features)), *np.empty((3, 0)))
            separator, none = asked.separator(nobody), np.zeros(0, dtype=np.intp)
            pairs = zip(asked.unknowns, solved, strict=True)
            separations = tuple(separator.put(one, found, none) for one, found in pairs)
        losses = [first.columns] if self.raw is None else self.raw.losses
        features = self._features(separations, second.columns, losses)
        records, privacy, shows_most = self._people(first.people, second.telling)
        groups = self._groups(first)
        dataset = self._dataset(first, records, groups) | {
            "n_features": self.state.n_features if self.raw is None else len(features),
            "n_records_moving_rung": None if rung_moves is None else dict(rung_moves),
            "raw_columns": self.raw is not None,
            "individual_privacy": privacy,
        }
        carriers, counts = self._carriers(features, separations, second.columns)
        conditions = [] if self.raw is None else list(self.raw.assumptions)
        if self.outside:
            error = first.quantiles.relative_error
            told = {"listed": len(records), "n": first.losses.n, "error": error}
            conditions += sentences("leakage_outside", told)
        weights = first.weights
        facts = decision(
            features,
            dataset,
            counts,
            shows_most,
            total=first.losses.n + dataset["n_rows"] - int(self.batch.X.shape[0]),
            weighted=not (weights.smallest[0] == weights.largest[0] == 1.0),
            doubts=self._model.doubts,
            conditions=conditions,
        )
        persons, bins = None, None
        if self.outside:
            parts: Any = {} if first.groups is None else first.groups.parts
            groups_of = {label: part.quantiles for label, part in parts.items()}
            bins = LossBins(first.quantiles, groups_of)
        elif len(self.batch) * len(separations) <= _MOST_KEPT:
            persons = tuple(separations)
        if guarantee is None:
            guarantee = output_perturbation_guarantee(self.state, self.promises)
        return LeakageReport(
            estimator, records, features, groups, dataset, guarantee, facts, carriers, persons, bins
        )

    @cached_property
    def _model(self) -> LeakageModel:
        return leakage_model(self.state)

    def _walk(self, look: Any, asked: _Asked, *more: Any) -> Any:
        """Look at all records, which in memory are one block, and take those outside together."""
        batch, position = self.batch, positions_of(self.batch.X)
        groups = () if self.groups is None else (self.groups,)
        rows = (batch.X, batch.y, batch.sample_weight, batch.reweights, position, *groups)
        if not self.outside:
            return _look(*rows, look, asked, more)
        width = 16 * (batch.X.shape[1] + len(asked.unknowns))
        walk = Blocks.of(*rows, width=width, elements=_ELEMENTS)
        return walk.map_reduce(_look, Merged.merged, look, asked, more)

    def _asked(self, blocks: tuple[Columns, ...], names: tuple[str, ...]) -> _Asked:
        state, found = self.state, list[Unknown]()
        if self.raw is None:
            every = np.arange(state.n_features)
            chosen = [every if one.indices is None else one.indices for one in blocks]
            found = with_steps(state, unknowns(state, chosen, names))
            if self.batch.persons is not None:
                found = [one.by_person(state.objective, self.batch.persons) for one in found]
        return _Asked(
            self._model.alone() if self.outside else self._model,
            tuple(found),
            () if self.raw is None else tuple(self.raw.separations),
            state.objective.n_records,
            _N_MOST_EXPOSED if self.outside else len(self.batch),
            None if self.outside else self.rows,
            self.rows is not None,
            self.outside,
            GOAL if self.promises.noise_goal is not None else "",
            self.batch.persons,
            self.exact,
            longest_record(state) if self.outside and found else None,
        )

    def _solved(self, asked: _Asked, first: _Survey) -> list[Solved | None]:
        """Solve for the few records of which columns may be told best."""
        if not first.leads:
            return [None] * len(asked.unknowns)
        every = [some for one in first.leads for some in (one.far, one.rare, one.exposed)]
        positions = np.unique(np.concatenate([some.position for some in every])).astype(np.intp)
        if self.outside:
            batch, state = self.batch, self.state
            rows = (batch.X, batch.y, batch.sample_weight, batch.reweights)
            few = partial_state(state, positions, RecordBatch(*fetched(positions, *rows)))
            at = np.arange(len(positions)) if asked.trained else np.full(len(positions), -1)
            some = replace(asked, model=leakage_model(few), rows=at, kept=[]).separator(
                few.training
            )
        else:
            assert asked.rows is not None
            some = replace(asked, rows=asked.rows[positions], kept=[]).separator(
                self.batch.take(positions)
            )
        if self.exact:
            some.announce(asked.unknowns)
        return list(solve(some, asked.unknowns, first.leads, positions))

    def _labels(self, positions: IntArray) -> Any:
        """Labels of some records, (m,)."""
        if self.index is None:
            return positions
        if not self.outside:
            return self.index[positions]
        some, place = np.unique(positions, return_inverse=True)
        return np.ravel(fetched(some, self.index)[0])[np.ravel(place)]

    def _features(
        self,
        separations: Sequence[Separation],
        columns: Sequence[_Column],
        losses: Sequence[Moments],
    ) -> pd.DataFrame:
        """Table of columns, those first of which most is gained."""
        worst = np.array([one.worst.position[0] for one in columns], dtype=np.intp)
        labels = self._labels(worst) if len(worst) else []
        table = pd.DataFrame(
            [
                _row(*each)
                for each in zip(separations, columns, labels, _errors(separations), strict=True)
            ],
            index=pd.Index([one.name for one in separations], name="feature"),
        )
        parts = {"max_loss": "largest", "mean_loss": "mean", "min_loss": "smallest"}
        for name, part in (parts | {"spread": "std"}).items():
            table[name] = np.concatenate([getattr(one, part) for one in losses])
        mean = table["mean_loss"]
        table["spread"] = (table["spread"] / mean).where(np.isfinite(mean))
        table["standard_error"] = 1.0 / table["max_loss"]
        if not self.state.converged:
            table[[*parts, "spread", "standard_error"]] = np.nan
        table["column_std"] = [one.column_std for one in separations]
        # Of certainties columns of few values come first, then by distance.
        gain = table["advantage_any_prior"].fillna(-1.0).to_numpy(dtype=float)
        distance = table["distance"].fillna(-1.0).to_numpy(dtype=float)
        gain = np.where(gain >= _CERTAIN, 1.0, gain)
        return table.iloc[np.lexsort([-distance, (table["kind"] != "values").to_numpy(), -gain])]

    def _carriers(
        self, features: pd.DataFrame, separations: Sequence[Separation], columns: Sequence[_Column]
    ) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
        """Table of who has a rare value of columns that are told, and how many they are."""
        parts, counts = [], []
        names = [one.name for one in separations]
        for name in features.index[features["advantage_any_prior"] > LIMIT]:
            found = columns[names.index(name)]
            rare, known = found.carriers, found.rare
            labels = self._labels(rare.position) if len(rare) else []
            own, share = rare.columns["from_own"], rare.columns["share"]
            measures = (share, own, gained(own), true_positives(own))
            part = dict(zip(CARRIERS, (name, labels, *measures), strict=True))
            parts += [pd.DataFrame(part)] if len(rare) else []  # labels of nobody have no type
            count: dict[str, Any] = {"column": name, "n_carriers": known.n}
            count |= {"n_unmeasured": found.n_unmeasured, "n_found": found.n_found}
            for end, values in (("least", known.smallest), ("most", known.largest)):
                count[f"{end}_found"] = float(values[0]) if known.n else np.nan
            named = list(labels[~np.isnan(own)][:MOST_NAMED]) if len(rare) else []
            counts.append(count | {"records": named})
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*CARRIERS])
        return table, counts

    def _people(
        self, people: Largest, telling: Largest
    ) -> tuple[pd.DataFrame, dict[str, Any], tuple[Any, float] | None]:
        """Table of the records that are listed, with their privacy, and who shows most."""
        order = np.arange(len(people)) if self.outside else np.argsort(people.position)
        position, told, loss = people.position[order], people.columns, people.score[order]
        place = np.searchsorted(telling.position, position)
        labels = self._labels(position)
        if isinstance(labels, pd.Index):
            labels = labels.to_flat_index()
        rows = position if self.outside and self.rows is not None else np.full(len(position), -1)
        if not self.outside:
            assert self.rows is not None
            rows = self.rows[position]
            if self.state.persons is not None:
                rows = np.searchsorted(self.state.persons.first, rows)
        privacy, facts = reported_privacy(self.state, self.promises, rows)
        with np.errstate(divide="ignore"):
            columns = {
                "sample_weight": told["sample_weight"][order],
                "fisher_information_loss": loss,
                "diagonal_fisher_information_loss": told["diagonal"][order],
                "standard_error": 1.0 / loss,
                **{name: privacy[name].to_numpy() for name in privacy},
                **{name: values[place] for name, values in telling.columns.items()},
            }
        if self.groups is not None:
            columns["group"] = told["group"][order]
        table = pd.DataFrame(columns, index=pd.Index(labels, name="record"))
        if self.outside:
            known = self.rows is not None
            facts["missing"] = facts["missing"] or ("" if known else OUTSIDE)
            return table, facts, None if facts["missing"] else self._shows_most()
        mu = table["mu"]
        most = int(np.argmax(mu.fillna(-1.0))) if mu.notna().any() else None
        return table, facts, None if most is None else (table.index[most], float(mu.iloc[most]))

    def _shows_most(self) -> tuple[Any, float] | None:
        """Return who shows most by being absent, and how much; None if it is not proven.

        Bounds on all distances tell for which records the exact ones are needed: those are the
        largest of all where they reach the largest bound of the others. Models of several classes
        have no bounds: all records are solved for, where a report in memory does.
        """
        state = self.state
        few, others = np.arange(state.objective.n_records), np.zeros(0)
        if not isinstance(state.objective, MultinomialObjective):
            bounds = Blocks.of(removal_bounds(state), positions_of(self.batch.X), width=1)
            highest = bounds.map_reduce(_highest, Largest.merged, _MOST_SOLVED + 1)
            few, others = highest.position[:_MOST_SOLVED], highest.score[_MOST_SOLVED:]
        elif takes_long(state):
            return None
        mu = reported_privacy(state, self.promises, few)[0]["mu"].to_numpy()
        place = int(np.argmax(mu))
        if np.any(individual_privacy(others, state)["mu"] > mu[place]):
            return None
        return self._labels(few[[place]])[0], float(mu[place])

    def _groups(self, first: _Survey) -> pd.DataFrame:
        """Table of the groups that take part."""
        names = ["n_records", "mean_loss", "max_loss", "spread", "joint_loss"]
        names += ["most_exposed_record", "relative_mean"]
        if first.groups is None or self.groups is None:
            return pd.DataFrame(columns=names, dtype=float).rename_axis("group")
        joint = self._model.group_loss(self.batch, self.groups)
        parts: dict[Any, Any] = dict(first.groups.parts)
        parts = {one: parts[one] for one in joint.index if one in parts}
        worst = np.array([part.worst.position[0] for part in parts.values()], dtype=np.intp)
        overall, rows = float(first.losses.mean[0]), {}
        for (name, part), label in zip(parts.items(), self._labels(worst), strict=True):
            ends = part.moments.mean, part.moments.largest, part.moments.spread
            mean, largest, spread = (float(values[0]) for values in ends)
            over = mean / overall if 0.0 < overall < np.inf else np.nan
            given = part.moments.n, mean, largest, spread, float(joint[name]), label, over
            rows[name] = dict(zip(names, given, strict=True))
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")

    def _dataset(
        self, first: _Survey, records: pd.DataFrame, groups: pd.DataFrame
    ) -> dict[str, Any]:
        """Put together the settings of a fit, and the losses of all records."""
        state, losses, sketch = self.state, first.losses, first.quantiles
        mean, spread = float(losses.mean[0]), float(losses.spread[0])
        known, names = bool(np.isfinite(mean)), list(_PARTS)
        there = {3: names[3:], 4: [names[0], names[3]], 5: names[1:]}.get(len(losses.mean), [])
        ends = {"mean": losses.mean, "max": losses.largest}
        more = dict.fromkeys([f"{name}_{end}_loss" for name in names for end in ends])
        for k, name in enumerate(there, 2):
            more |= {f"{name}_{end}_loss": float(values[k]) for end, values in ends.items()}
        more["plain_spread"] = float(losses.spread[-1]) if there else None
        means = groups["mean_loss"].to_numpy(dtype=float)
        even = len(means) and np.all(np.isfinite(means)) and np.mean(means) > 0.0
        present = records[records["sample_weight"] > 0.0]["fisher_information_loss"]
        worst = np.argsort(-present.to_numpy(), kind="stable")[:_N_MOST_EXPOSED]
        calibrated = {"noise_calibrated": True} if self.promises.calibrated else {}
        return {
            "converged": state.converged,
            "n_records": losses.n,
            "noise_scale": state.noise_scale,
            "noise_covariance": state.noise.name,
            "alpha": state.objective.alpha,
            "loss": state.objective.loss.name,
            "private_target": state.private_target,
            "reweighting": None if state.balanced is None else state.balanced.name,
            "mean_loss": mean,
            "std_loss": spread * mean if known else np.nan,
            "min_loss": float(losses.smallest[0]),
            "median_loss": float(sketch.quantile(0.5)),
            "max_loss": float(losses.largest[0]),
            "loss_quantiles": {f"{level:g}": float(sketch.quantile(level)) for level in _LEVELS},
            "quantile_error": sketch.relative_error,
            "spread": spread if known else np.nan,
            "joint_loss": self._model.joint_loss(self.batch),
            **more,
            "group_spread": float(np.std(means) / np.mean(means)) if even else np.nan,
            "most_exposed_records": present.index[worst].tolist(),
            "noise_goal": self.promises.noise_goal,
            **calibrated,
            "seeded": self.promises.seeded,
            "unequal_weights": bool(first.weights.smallest[0] < first.weights.largest[0]),
            **self._label_facts(),
            **self._model.described,
        }

    def _label_facts(self) -> dict[str, Any]:
        """Say whether records are called by the index of their table, of so many rows."""
        index, n = self.index, int(self.batch.X.shape[0])
        if self.table_index is not None:
            index, n = self.table_index, len(self.table_index)
        if isinstance(index, np.ndarray):
            index = pd.Index(index)
        own = named(index) if index is None or isinstance(index, pd.Index) else index
        return {"labels": "position" if own is None else "index", "n_rows": n}


def _highest(bounds: FloatArray, position: IntArray, most: int) -> Largest:
    return Largest.of(most, bounds, position, {})


def _row(one: Separation, found: _Column, label: Any, error: float) -> dict[str, Any]:
    """Statistics of a column, those of an attacker at its most exposed record."""
    worst, number = found.worst.columns, one.kind == "number"
    distance, own, share = (float(worst[name][0]) for name in ("distance", "from_own", "share"))
    return {
        "kind": one.kind,
        **{name: float(value) for name, value in attacker(distance, own, share).items()},
        "step": one.step,
        "share_removed": one.share_removed if number else np.nan,
        "van_trees_error": error,
        "most_exposed_record": label,
        "n_values": one.n_values,
        "fewest": one.fewest,
        "share": share,
        "median_advantage": float(found.gains.quantile(0.5)),
        "n_above": found.n_above,
        "n_known": found.n_known,
        # The estimate of another may be too low, so that it, and not this one, were the worst.
        "exact": bool(worst["exact"][0]) and ESTIMATED not in one.note,
        "note": found.note,
    }


def _errors(separations: Sequence[Separation]) -> FloatArray:
    """Root of the least squared error about numbers for normal priors, in units of the columns."""
    pairs = [(one.information if one.kind == "number" else np.nan, one.sd) for one in separations]
    information, sd = np.reshape(pairs, (-1, 2)).T
    errors, known = np.where(np.isnan(information), np.nan, 0.0), np.isfinite(information)
    known &= sd > 0.0
    if np.any(known):
        matrices = information[known, None, None], sd[known, None, None] ** -2
        errors[known] = np.sqrt(van_trees_mse(*matrices))
    return errors
