"""Some training records of a fit in memory, while the others stay where they are."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from skleak.influence.state._state import FitState, RecordBatch
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._typing import FloatArray, IntArray


@dataclass(frozen=True)
class _Partial:
    """Common part of objectives with some records of another, that answer for all of them."""

    whole: Objective = field(kw_only=True)
    positions: IntArray = field(kw_only=True)  # of the records among all, (m,)

    @property
    def total(self) -> float:
        """``N``, the sum of the sample weights of all records."""
        return self.whole.total

    @property
    def n_records(self) -> int:
        """The number of all records."""
        return self.whole.n_records

    @property
    def weight_range(self) -> tuple[float, float]:
        """Smallest and largest sample weight of all records."""
        return self.whole.weight_range

    def gradient_changes(
        self, w: FloatArray, steps: FloatArray, without: IntArray | None = None
    ) -> FloatArray:
        """Change the gradient of all records; ``without`` are positions among these."""
        rows = None if without is None else np.where(without < 0, -1, self.positions[without])
        return self.whole.gradient_changes(w, steps, rows)

    def far_means(self) -> None:
        """Leave the columns as they are: the records are elsewhere."""
        return

    def with_record(self, row: Any, x: FloatArray, y: Any = None) -> Any:
        """Return the objective of all records with other entries in one of these."""
        return self.whole.with_record(int(self.positions[row]), x, y)


@dataclass(frozen=True)
class PartialObjective(_Partial, Objective):
    """Some records of an objective, which answers for all of them."""


@dataclass(frozen=True)
class PartialMultinomialObjective(_Partial, MultinomialObjective):
    """Some records of a multinomial objective; see `PartialObjective`."""


@dataclass(frozen=True)
class PartialState(FitState):
    """A fit of which some training records are in memory, with positions of their own.

    What is found of the fit as a whole is found of all records.
    """

    whole: FitState = field(kw_only=True)

    def once(self, find: Any) -> Any:
        """Return what a function finds of the fit to all records."""
        return self.whole.once(find)

    def knows(self, find: Any) -> bool:
        """Return True if that is found already."""
        return self.whole.knows(find)


def partial_state(state: FitState, positions: IntArray, records: RecordBatch) -> PartialState:
    """Return the same fit with some of its training records in memory, which are given.

    Shapes: ``positions`` (m,), of the records among all.
    """
    part = {"whole": state.objective, "positions": np.asarray(positions)}
    kinds = PartialObjective, PartialMultinomialObjective
    some = _objective_of(state.objective, records, kinds, **part)
    return PartialState(**_fields(state, FitState) | {"objective": some, "whole": state})


def without_records(state: FitState) -> FitState:
    """Return the same fit without any record, for whoever brings records along."""
    none = RecordBatch(np.empty((0, state.n_features)), *np.empty((3, 0)))
    empty = _objective_of(state.objective, none, (Objective, MultinomialObjective))
    return FitState(**_fields(state, FitState) | {"objective": empty, "row_labels": None})


def _objective_of(
    objective: Objective, records: RecordBatch, kinds: tuple[type[Any], type[Any]], **more: Any
) -> Any:
    """Make an objective of one of two kinds, for one predictor and for several, of records."""
    several = isinstance(objective, MultinomialObjective)
    own = _fields(objective.bare, MultinomialObjective if several else Objective)
    names = "X", "y", "sample_weight", "reweights"
    return kinds[several](**own | {name: getattr(records, name) for name in names} | more)


def _fields(one: Any, kind: type[Any]) -> dict[str, Any]:
    """Return what a dataclass of some kind is made of, from one of a narrower kind."""
    return {field.name: getattr(one, field.name) for field in fields(kind) if field.init}
