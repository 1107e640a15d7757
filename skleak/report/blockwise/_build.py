"""Compute a leakage report of records outside memory."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.noise import measuring_state
from skleak.influence.removal import distances_without, removal_bounds
from skleak.influence.state import FitState, RecordBatch, partial_state
from skleak.report.blockwise._columns import blockwise_unknowns
from skleak.report.blockwise._losses import GroupSummary, LossSummary
from skleak.report.blockwise._passes import Measured, Survey, measure, survey
from skleak.report.blockwise._separator import Asked, Solved, solve
from skleak.report.blockwise._tables import columns_table, people_table
from skleak.report.guarantee._individual import (
    OUTSIDE,
    individual_obstacle,
    stated_privacy,
    takes_long,
)
from skleak.report.guarantee._output_perturbation import Promises, output_perturbation_guarantee
from skleak.report.leakage._facts import LossBins
from skleak.report.leakage._finish import (
    LEVELS,
    N_MOST_EXPOSED,
    LossTotals,
    dataset_facts,
    finished,
    group_row,
    groups_frame,
    label_facts,
)
from skleak.report.leakage._leakage_report import LeakageReport
from skleak.report.measures import GOAL, MOST_WORK, Separator
from skleak.solvers import MultinomialObjective
from skleak.utils._blocks import Blocks, positions_of, side_by_side
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large
from skleak.utils.summaries._rows import as_one_block, fetched

# Entries of the tables of a block: few blocks, as each leaves a summary to combine.
_ELEMENTS = 1 << 22


def build_blockwise_report(
    state: FitState,
    batch: RecordBatch,
    *,
    blocks: Sequence[Columns],
    labels: Sequence[str],
    promises: Promises,
    groups: Array | None = None,
    estimator: str = "",
    index: Array | None = None,
    trained: bool = True,
    rung_moves: Mapping[str, int | None] | None = None,
) -> LeakageReport:
    """Measure records where they are, in a few passes, and say what it means.

    Parameters
    ----------
    state : FitState
        State of the fit.
    batch : RecordBatch
        Records to report on.
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
    index : array or Index of shape (n,), default=None
        Labels of the records; their positions by default.
    trained : bool, default=True
        True if they are the training records, all of them in their order.
    rung_moves : mapping of str to int or None, default=None
        How many records could move the noise scale of a goal, by entry; None without a goal.

    Returns
    -------
    LeakageReport
        Its table of records has the most exposed ones alone.
    """
    if not is_large(batch.X):
        rows = (batch.X, batch.y, batch.sample_weight, batch.reweights)
        batch = RecordBatch(*map(as_one_block, rows))
    if isinstance(index, pd.Index):
        index = index.to_numpy(dtype=object)
    found = _Blockwise(state, batch, tuple(blocks), tuple(labels), promises, groups, index, trained)
    return found.report(estimator, None if rung_moves is None else dict(rung_moves))


# Records that are fitted without, to find the one that shows most.
_MOST_SOLVED = 16


def _highest(bounds: FloatArray, position: IntArray) -> FloatArray:
    """Return the largest bounds of a block with their positions, (b, 2), in order."""
    order = np.argsort(-bounds, kind="stable")[: _MOST_SOLVED + 1]
    return np.column_stack([bounds[order], position[order]])


def _highest_of(one: FloatArray, other: FloatArray) -> FloatArray:
    both = np.concatenate([one, other])
    return both[np.lexsort([both[:, 1], -both[:, 0]])[: _MOST_SOLVED + 1]]


@dataclass(frozen=True)
class _Blockwise:
    """Records outside memory, and what is asked about them."""

    state: FitState
    batch: RecordBatch
    blocks: tuple[Columns, ...]
    labels: tuple[str, ...]
    promises: Promises
    groups: Array | None
    index: Array | None
    trained: bool

    def report(self, estimator: str, rung_moves: dict[str, int | None] | None) -> LeakageReport:
        """Measure, and put the numbers together."""
        first, solved, second = self._measured()
        columns = columns_table(self._asked, solved, second.columns, first.columns)
        people = people_table(second.people)
        groups = self._groups(first.losses)
        privacy, individual = self._privacy(second.people.position)
        people = people.assign(**{name: privacy[name].to_numpy() for name in privacy})
        totals = self._totals(first.losses, people)
        weights = first.losses.weights
        dataset = dataset_facts(
            self._model,
            self.promises,
            totals,
            groups,
            n_records_moving_rung=rung_moves,
            raw_columns=False,
            individual_privacy=individual,
            unequal_weights=bool(weights.smallest[0] < weights.largest[0]),
            carriers=columns.counts,
            **label_facts(self.index, int(self.batch.X.shape[0])),
        )
        report = LeakageReport(
            estimator=estimator,
            records=people,
            features=columns.features,
            groups=groups,
            dataset=dataset,
            differential_privacy=output_perturbation_guarantee(self._model.state, self.promises),
            carriers=columns.carriers,
            losses=_bins(first.losses),
        )
        is_weighted = not (weights.smallest[0] == weights.largest[0] == 1.0)
        more = (_summarized(totals, len(people)),)
        shows_most = None if individual["missing"] else self._shows_most()
        return finished(self._model, report, is_weighted, more, shows_most)

    def _shows_most(self) -> tuple[Hashable, float] | None:
        """Return the record whose absence would show most, and how much; None if it is not proven.

        Bounds on all distances tell for which records the exact ones are needed: those are the
        largest of all where they reach the largest bound of the others. Models of several classes
        have no bounds: all records are solved for, where a report in memory does.
        """
        if isinstance(self.state.objective, MultinomialObjective):
            if takes_long(self.state):
                return None
            few, others = np.arange(self.state.objective.n_records), pd.Series(dtype=float)
        else:
            bounds = Blocks.of(removal_bounds(self.state), positions_of(self.batch.X), width=1)
            highest: FloatArray = bounds.map_reduce(_highest, _highest_of)
            few = highest[:_MOST_SOLVED, 1].astype(np.intp)
            others = stated_privacy(highest[_MOST_SOLVED:, 0], self.state, "")[0]["mu"]
        mu = self._privacy(few)[0]["mu"]
        place = int(np.argmax(mu))
        if np.any(others > mu[place]):
            return None
        label: Hashable = int(few[place])
        if self.index is not None:
            label = np.ravel(fetched(few[[place]], self.index)[0])[0]
        return label, float(mu[place])

    def _privacy(self, rows: IntArray) -> tuple[pd.DataFrame, dict[str, object]]:
        """Privacy of some records, (m,), which are fitted without each; those of the fit alone."""
        missing = individual_obstacle(self.state, self.promises)
        missing = missing or ("" if self.trained else OUTSIDE)
        distances = np.full(len(rows), np.nan) if missing else distances_without(self.state, rows)
        return stated_privacy(distances, self.state, missing)

    def _measured(self) -> tuple[Survey, list[Solved | None], Measured]:
        """Walk through all records twice, and solve for a few in between."""
        arrays, asked = self._arrays, self._asked
        width = 16 * (self.batch.X.shape[1] + len(asked.unknowns))
        records = Blocks.of(*arrays, width=width, elements=_ELEMENTS)
        first: Survey = records.map_reduce(survey, Survey.merged, len(arrays), asked)
        solved = self._solved(first)
        second: Measured = records.map_reduce(
            measure, Measured.merged, len(arrays), asked, solved, N_MOST_EXPOSED
        )
        return first, solved, second

    def _solved(self, first: Survey) -> list[Solved | None]:
        """Solve for the few records of which columns may be told best."""
        unknowns, state = self._asked.unknowns, self.state
        if not first.leads:
            return [None] * len(unknowns)
        positions = np.unique(np.concatenate([leads.positions for leads in first.leads]))
        batch = self.batch
        rows = (batch.X, batch.y, batch.sample_weight, batch.reweights)
        few = partial_state(state, positions, RecordBatch(*fetched(positions, *rows)))
        at = np.arange(len(positions)) if self.trained else np.full(len(positions), -1)
        separator = Separator(few, few.training, at, self._asked.work, self._asked.note)
        return [
            solve(separator, unknown, leads, positions)
            for unknown, leads in zip(unknowns, first.leads, strict=True)
        ]

    @cached_property
    def _model(self) -> LeakageModel:
        return leakage_model(self.state)

    @cached_property
    def _asked(self) -> Asked:
        unknowns, scale = blockwise_unknowns(self.state, self.blocks, self.labels)
        note = GOAL if self.promises.noise_goal is not None else ""
        n, work = self.state.objective.n_records, MOST_WORK / max(1, len(unknowns))
        alone = measuring_state(self.state)
        return Asked(alone, tuple(unknowns), scale, n, work, note, self.trained)

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        """Return what is known of each record, where it is; see `BlockRecords`."""
        batch, model, position = self.batch, self._model, positions_of(self.batch.X)
        labels = position if self.index is None else self.index
        columns = [one.block for one in self._asked.unknowns]
        unit = leakage_model(self.state.at_noise(1.0)).feature_loss(batch, columns)
        at_noise = model.feature_loss(batch, columns)
        losses = [model.record_loss(batch), model.record_loss(batch, norm="trace")]
        if model.conditional is not model:
            losses.append(model.conditional.record_loss(batch))
        terms = model.terms(batch, [self.state.whole_record])
        if terms is not None:
            losses += [terms.mean[:, 0], terms.covariance[:, 0]]
        known = side_by_side(losses), side_by_side([unit, at_noise])
        more = () if self.groups is None else (self.groups,)
        rows = (batch.X, batch.y, batch.sample_weight, batch.reweights)
        return (*rows, position, labels, *known, *more)

    def _totals(self, losses: LossSummary, people: pd.DataFrame) -> LossTotals:
        names = ["conditional"] if self._model.conditional is not self._model else []
        if len(losses.moments.mean) == 4:
            names = ["through_mean", "through_covariance"]
        moments, sketch = losses.moments, losses.quantiles
        return LossTotals(
            n=moments.n,
            mean=float(moments.mean[0]),
            spread=float(moments.spread[0]),
            smallest=float(moments.smallest[0]),
            median=float(sketch.quantile(0.5)),
            largest=float(moments.largest[0]),
            quantiles=np.asarray(sketch.quantile(LEVELS)),
            quantile_error=sketch.relative_error,
            joint=self._model.joint_loss(self.batch),
            most_exposed=people.index.tolist(),
            more={
                name: (float(moments.mean[k]), float(moments.largest[k]))
                for k, name in enumerate(names, start=2)
            },
        )

    def _groups(self, losses: LossSummary) -> pd.DataFrame:
        """Table of the groups."""
        if losses.groups is None:
            return groups_frame({})
        assert self.groups is not None
        joint = self._model.group_loss(self.batch, self.groups)
        rows, overall = {}, float(losses.moments.mean[0])
        for label in sorted(losses.groups.parts, key=_place(joint.index)):
            part = losses.groups.parts[label]
            assert isinstance(part, GroupSummary)
            found = part.moments
            ends = found.mean, found.largest, found.spread
            mean, largest, spread = (float(values[0]) for values in ends)
            worst = part.worst.columns["label"][0]
            rows[label] = group_row(
                (found.n, mean, largest, spread), float(joint[label]), worst, overall
            )
        return groups_frame(rows)


def _place(index: pd.Index) -> Any:
    places = {label: k for k, label in enumerate(index)}
    return places.__getitem__


def _bins(losses: LossSummary) -> LossBins:
    groups = {} if losses.groups is None else losses.groups.parts
    own = {
        label: part.quantiles for label, part in groups.items() if isinstance(part, GroupSummary)
    }
    return LossBins(losses.quantiles, own)


def _summarized(totals: LossTotals, n: int) -> str:
    error = (
        "are exact"
        if totals.quantile_error == 0.0
        else f"have a relative error of at most {totals.quantile_error:.2g}"
    )
    return (
        f"The records are outside memory: the table of records has the {n} of largest loss, all "
        f"else sums up all {totals.n}. Median and quantiles of the loss {error}; of rare values, "
        "the records that they give away most are listed."
    )
