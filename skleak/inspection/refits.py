"""Leakage by refits of whole pipelines.

Leakage of raw columns through the whole pipeline, what its transformers learn included.

The pipeline is trained anew, without noise, for every number or value tried: what is differentiated
and told apart are the final parameters.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from skleak._release import chain
from skleak.adversary.hypotheses import last_step, noiseless, refit_tables, weight_argument
from skleak.adversary.knowledge import as_table, raw_column, with_attribute
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import check_reached, target_encodings
from skleak.influence.state import FitState
from skleak.inspection._columns import (
    OUTSIDE,
    Cells,
    Unknown,
    candidate_targets,
    describe,
    lent,
    read,
    resolved,
)
from skleak.inspection._held import JUMP, KINK, MISSING, HeldBlock, all_known, one_deviation
from skleak.inspection._pipeline import Inspected, inspected, numbered, separations
from skleak.inspection._slopes import STEP, Slopes, Worst, person_blocks, slopes, worst_of
from skleak.mechanisms.goals import MeasuredFit, PublicProblem
from skleak.utils._records import Persons
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

SHOWN = "another value changes the number of parameters, which the release shows"
# Largest relative difference of a refit from the fit itself, from where the solver stopped.
_SAME_FIT = 1e-6
_MOST_ROUNDS = 2


@dataclass(frozen=True)
class Refits:
    """Some training records, and the pipeline to train anew."""

    data: Inspected  # The pipeline with its training data
    rows: IntArray  # Positions of the records, (b,)

    def check(self) -> None:
        """Raise unless the pipeline, trained anew, is the one that was given."""
        refitted = self._parameters([(self.data.table, self.data.y)])[0]
        fitted = self.data.state.factor.coefficients
        same = refitted.shape == fitted.shape
        limit = _SAME_FIT * float(np.linalg.norm(fitted))
        if not same or np.linalg.norm(refitted - fitted) > limit:
            raise ValueError(
                "The pipeline, trained anew on `X` and `y`, is another one than was given: these "
                "are not its training data, or a step is random (give it a `random_state`) or was "
                "fitted with weights of its own, or stopped short (raise `max_iter`)."
            )

    def cells(self, unknown: Unknown) -> Cells:
        """Leakage of a column, a block of columns or the target of these records."""
        if unknown.is_target:
            return self._target(unknown)
        return self._numbers(unknown) if unknown.is_number else self._values(unknown)

    def _values(self, unknown: Unknown) -> Cells:
        data, everyone = self.data, np.arange(len(self.data.y))

        def with_value(row: int, carrier: int) -> tuple[Any, Array]:
            carriers = np.where(everyone == row, carrier, everyone)
            return lent(data, unknown.parts, data.table, carriers), data.y

        pair, from_own = np.full((2, len(self.rows)), np.inf)
        shown = np.ones(len(self.rows), dtype=bool)
        for i, row in enumerate(self.rows.tolist()):
            with suppress(AttackNotApplicableError):
                points = self._parameters(with_value(row, one) for one in unknown.carriers.tolist())
                pair[[i]], from_own[[i]] = separations(data.state, points[None])
                shown[i] = False
        notes = describe(len(self.rows), (True, unknown.note), (shown, SHOWN))
        return Cells(np.full(len(self.rows), np.nan), pair, from_own, notes)

    def _numbers(self, unknown: Unknown) -> Cells:
        some = Refits(self.data, self.rows[all_known(unknown.parts, self.rows)])
        found = [some._along(column) for column in unknown.parts] if len(some.rows) else []
        return self.numbers(unknown, found, np.ones(len(self.rows), dtype=bool))

    def numbers(self, unknown: Unknown, found: Sequence[Slopes], apart: BoolArray) -> Cells:
        """Leakage of numbers from the slopes of the final parameters, where all are known.

        Distances are measured of the records of a mask, (b,).
        """
        b, parts, state = len(self.rows), unknown.parts, self.data.state
        known = all_known(parts, self.rows)
        loss, pair, from_own = np.full((3, b), np.nan)
        kinks, jumps = np.zeros((2, b), dtype=bool)
        if np.any(known):
            worst, kinks[known], jumps[known] = worst_along(state, parts, found)
            loss[known] = worst.loss
        if np.any(apart & known):
            far = Refits(self.data, self.rows[apart & known])
            away = one_deviation(parts, far.rows, worst.direction[apart[known]])
            points = np.stack([far._with_numbers(parts, wanted) for wanted in away], axis=1)
            distances = separations(state, points, number=True)
            pair[apart & known], from_own[apart & known] = distances
        notes = describe(b, (~known, MISSING), (kinks, KINK), (jumps, JUMP))
        return Cells(loss, pair, from_own, notes)

    def _along(self, column: Unknown, least: float = -np.inf) -> Slopes:
        """Differentiate the final parameters along one number of these records, or the target."""

        def parameters(numbers: FloatArray, which: IntArray) -> FloatArray:
            some = Refits(self.data, self.rows[which])
            if column.is_target:
                return some._with_targets(numbers)
            return some._with_numbers([column], [numbers])

        x, limits = column.floats[self.rows], (least, np.inf)
        return slopes(parameters, x, STEP * column.sd, _MOST_ROUNDS, limits, noisy=True)

    def _with_numbers(self, parts: Sequence[Unknown], numbers: Sequence[FloatArray]) -> FloatArray:
        """Parameters with each record's numbers (b,) in some columns replaced, of shape (b, p)."""
        data = self.data

        def changed(position: int) -> tuple[Any, Array]:
            table = data.table
            for column, own in zip(parts, numbers, strict=True):
                old = raw_column(table, column.index)
                new = old.astype(np.result_type(old.dtype, own.dtype))
                new[self.rows[position]] = own[position]
                table = with_attribute(table, column.index, new)
            return table, data.y

        return self._parameters(map(changed, range(len(self.rows))))

    def _target(self, target: Unknown) -> Cells:
        """Leakage of the target, at which transformers may look."""
        b, state = len(self.rows), self.data.state
        candidates, outside = candidate_targets(state, target, self.rows)
        points = np.stack([self._with_targets(each) for each in candidates.T], axis=1)
        loss, (kinks, jumps) = np.full(b, np.nan), np.zeros((2, b), dtype=bool)
        if target.is_number:
            found = self._along(target, -np.inf if state.objective.loss.quadratic else 0.0)
            worst, kinks, jumps = worst_along(state, [target], [found])
            loss = worst.loss
        notes = describe(b, (kinks, KINK), (jumps, JUMP), (outside, OUTSIDE))
        return Cells(loss, *separations(state, points, number=target.is_number), notes)

    def _with_targets(self, targets: FloatArray) -> FloatArray:
        """Parameters with each record's target (b,) replaced, of shape (b, p)."""
        data, classes = self.data, getattr(self.data.model, "classes_", None)
        own = targets if classes is None else classes[targets.astype(np.intp)]

        def changed(position: int) -> tuple[Any, Array]:
            y = data.y.astype(np.result_type(data.y.dtype, own.dtype))
            y[self.rows[position]] = own[position]
            return data.table, y

        return self._parameters(map(changed, range(len(self.rows))))

    def _parameters(self, tables: Iterable[tuple[Any, Array]]) -> FloatArray:
        """Parameters of the pipeline trained on each of some tables and targets, (n_tables, p)."""
        weights = self.data.state.objective.sample_weight
        given: Any = None if np.all(weights == 1.0) else weights
        return refit_tables(self.data.whole, tables, given)


def worst_along(
    state: FitState, parts: Sequence[Unknown], found: Sequence[Slopes]
) -> tuple[Worst, BoolArray, BoolArray]:
    """Loss about some numbers from the slopes of the final parameters; kinks and jumps, (b,) each.

    One number counts in its own unit, and several in their standard deviations.
    """
    units = np.array([column.sd for column in parts]) if len(parts) > 1 else np.ones(1)
    right, left = (
        worst_of(state, units * np.stack([getattr(one, side) for one in found], axis=2))
        for side in ("right", "left")
    )
    jumps = np.any([one.jumps for one in found], axis=0)
    kinks = np.any([one.kinks for one in found], axis=0) & ~jumps
    loss = np.fmax(right.loss, left.loss)
    if state.converged:
        loss = np.where(jumps, np.inf, loss)
    return Worst(loss, right.direction), kinks, jumps


@dataclass(frozen=True)
class RawProblem:
    """Raw columns of a pipeline for a goal, the transformers held fixed.

    Parameters
    ----------
    data : Inspected
        The fitted pipeline, at unit noise, with its training data.
    fitted : MeasuredFit
        The same fit as a goal sees it that names no column.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skleak.inspection.refits import RawProblem
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> problem = RawProblem.of(make_pipeline(StandardScaler(), PrivateLinearRegression()), X, y)
    >>> problem.attribute_values("sex")[1].tolist()  # how often each value occurs
    [235.0, 207.0]
    >>> problem.sufficient_noise(0.1, "age").max().round(3).item()
    0.337
    """

    data: Inspected
    fitted: MeasuredFit

    @classmethod
    def of(cls, pipeline: Any, X: Any, y: Any, sample_weight: Any = None) -> "RawProblem":
        """Take a pipeline apart; one that is not fitted is copied, and the copy fitted.

        Parameters
        ----------
        pipeline : Pipeline or estimator
            Ends in a private estimator.
        X : DataFrame or array-like of shape (n, n_columns)
            Raw training records.
        y : array-like of shape (n,)
            Their targets.
        sample_weight : array-like of shape (n,), default=None
            Weights of the fit.

        Returns
        -------
        RawProblem
        """
        pipeline = _flat(pipeline)
        if not hasattr(last_step(pipeline), "_state"):
            covariance = last_step(pipeline).noise_covariance
            pipeline = noiseless(pipeline)
            last_step(pipeline).set_params(noise_covariance=covariance)
            weights = weight_argument(pipeline, sample_weight)
            pipeline = pipeline.fit(as_table(X), y, **weights)
        data = inspected(pipeline, X, y, sample_weight)
        data.check_records()
        equal = leakage_model(data.state).has_equal_noise
        if not equal:
            raise ValueError(
                "Raw columns are measured under noise of a covariance that is the same for all "
                f"their values; got `noise_covariance={data.state.noise.name!r}`: "
                f"{equal.missing}. Use isotropic noise, or a covariance from public knowledge."
            )
        return cls(data.with_state(data.state.at_noise(1.0)), data.model._fitted_problem())

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which each participating record's loss about raw columns is eta.

        Parameters
        ----------
        eta : float
            Largest loss, or distance between two of a few values over the noise.
        features : str, int, slice, mask or list
            Raw columns, or the target.

        Returns
        -------
        ndarray of shape (n,)
            Zero for a record of which the number is missing.
        """
        unknown = self._unknown(features, "features")
        measured = self._by_blocks(unknown, lambda block: _measure(block, unknown))
        if np.any(np.isinf(measured)):
            raise ValueError(
                f"No noise scale reaches a loss of {eta:g} about {unknown.label!r}: the "
                "preprocessing jumps at the number of some record. Bin it before, so that its "
                "values are few, or leave it out of `features`."
            )
        return np.nan_to_num(measured) / eta

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, ascending where they have an order, and their counts.

        Parameters
        ----------
        attribute : str, int, slice, mask or list
            Raw columns, or the target.

        Returns
        -------
        values : ndarray of int of shape (n_values,)
            Their codes, as `encodings` takes them.
        counts : ndarray of shape (n_values,)
            How many participating records have each.
        """
        unknown = self._unknown(attribute, "attribute")
        if unknown.is_number:
            raise ValueError(
                f"`MaxAdvantage.attribute` must be categorical; {unknown.label!r} holds numbers. "
                "Use `MaxLeakage(eta, features=...)` for it."
            )
        order, codes = self._order(unknown)
        counts = np.bincount(codes[self._participants], minlength=len(order))[order]
        return order, counts.astype(float)

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Return the encodings of values of an attribute for every participating record.

        Parameters
        ----------
        attribute : str, int, slice, mask or list
            Raw columns, or the target.
        values : ndarray of int of shape (n_values,)
            Codes of the values.

        Returns
        -------
        ndarray of shape (n, n_values, p)
            In coordinates in which the noise is isotropic.
        """
        unknown = self._unknown(attribute, "attribute")
        whitened = self.data.state.noise.whitened

        def encode(block: HeldBlock) -> FloatArray:
            found = _encoded(block, unknown)[:, values]
            check_reached(found, "The noise that `MaxAdvantage` needs")
            return whitened(found)

        return self._by_blocks(unknown, encode)

    def few_values(self, columns: Any) -> str:
        """Name of columns of few values, or of labels; empty for numbers.

        Parameters
        ----------
        columns : str, int, slice, mask or list
            Raw columns, or the target.

        Returns
        -------
        str
        """
        unknown = self._unknown(columns, "columns")
        return "" if unknown.is_number else str(unknown.label)

    @property
    def public(self) -> PublicProblem:
        """Public knowledge of the fit, as without raw columns."""
        return self.fitted.public

    @property
    def _participants(self) -> IntArray:
        return np.flatnonzero(self.data.state.objective.sample_weight > 0.0)

    def _unknown(self, columns: Any, parameter: str) -> Unknown:
        """One column, one block of columns, or the target."""
        if columns is None:
            raise ValueError(
                f"`{parameter}` must name raw columns; got None. A goal about all that the model "
                "sees is for `noise_scale` itself: pass it there."
            )
        items = resolved(columns, self.data)
        if len(items) > 1:
            items = resolved([list(columns)], self.data)
        return read(self.data, items, np.zeros(0, dtype=np.intp))[0]

    def _by_blocks(self, unknown: Unknown, f: Callable[[HeldBlock], FloatArray]) -> FloatArray:
        """Stack what a function makes of all participating records."""
        rows = self._participants
        blocks = person_blocks(self.data.state, Persons.single(rows), unknown.n_values)
        found = [f(HeldBlock.of(self.data, Persons.single(rows[some]), "")) for some in blocks]
        return np.concatenate(found)

    def _order(self, unknown: Unknown) -> tuple[IntArray, IntArray]:
        """Codes of values in ascending order, (n_values,), and the code of each record, (n,)."""
        if unknown.is_target:
            return np.arange(int(unknown.n_values)), unknown.codes
        codes, order = unknown.codes, np.arange(len(unknown.carriers))
        if not unknown.columns:
            table = self.data.rows(unknown.carriers)
            frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
            values = frame.iloc[:, unknown.index].reset_index(drop=True)
            with suppress(TypeError):  # values of several types have no order
                order = values.sort_values(kind="stable", na_position="last").index.to_numpy()
        return order, codes


def _measure(block: HeldBlock, unknown: Unknown) -> FloatArray:
    """Loss about a number, or about numbers each in its own unit; distance of values, (b,)."""
    if unknown.kind == "numbers":
        found, units = block.tangents(unknown), np.array([part.sd for part in unknown.parts])
        sides = [
            block.movements.worst(found.columns, side / units).loss
            for side in (found.right, found.left)
        ]
        loss = np.where(found.jumps, np.inf, np.fmax(*sides))
        return np.where(found.known, loss, np.nan)
    if unknown.is_number:
        return block.cells(unknown).loss
    return separations(block.data.state, _encoded(block, unknown))[0]


def _encoded(block: HeldBlock, unknown: Unknown) -> FloatArray:
    """Minimizers with each of the values of few in some records, of shape (b, n_values, p)."""
    if unknown.is_target:
        return target_encodings(block.data.state, block.persons, np.arange(unknown.n_values))
    return block.encodings(unknown)


def _flat(pipeline: Any) -> Any:
    """Return a pipeline without pipelines at its end, of the very same steps."""
    steps = chain(pipeline)[0]
    return Pipeline(numbered(steps)) if len(steps) > 1 else steps[0][1]
