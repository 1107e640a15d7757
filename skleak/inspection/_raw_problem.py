"""A fit as a noise goal sees it that names raw columns."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import last_step, noiseless, weight_argument
from skleak.adversary.knowledge import as_table
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import check_reached, target_encodings
from skleak.inspection._columns import RawColumn
from skleak.inspection._directions import record_blocks
from skleak.inspection._held import HeldBlock
from skleak.inspection._pipeline import Inspected, flat_steps, inspected, numbered
from skleak.inspection._selection import RawBlock, Target, Unknown, read, resolved
from skleak.inspection._separation import separations
from skleak.mechanisms import MeasuredFit, PublicProblem
from skleak.utils._typing import Array, FloatArray, IntArray


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
    >>> from skleak.inspection import RawProblem
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
        blocks = record_blocks(self.data.state, len(rows), unknown.n_values)
        return np.concatenate([f(HeldBlock.of(self.data, rows[some], "")) for some in blocks])

    def _order(self, unknown: Unknown) -> tuple[IntArray, IntArray]:
        """Codes of values in ascending order, (n_values,), and the code of each record, (n,)."""
        if isinstance(unknown, Target):
            return np.arange(unknown.classes), unknown.y.astype(np.intp)
        codes, order = unknown.codes, np.arange(len(unknown.carriers))
        if isinstance(unknown, RawColumn):
            table = self.data.rows(unknown.carriers)
            frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
            values = frame.iloc[:, unknown.index].reset_index(drop=True)
            with suppress(TypeError):  # values of several types have no order
                order = values.sort_values(kind="stable", na_position="last").index.to_numpy()
        return order, codes


def _measure(block: HeldBlock, unknown: Unknown) -> FloatArray:
    """Loss about a number, or about numbers each in its own unit; distance of values, (b,)."""
    if isinstance(unknown, RawBlock) and unknown.is_number:
        found, units = block.tangents(unknown), np.array([part.sd for part in unknown.parts])
        sides = [
            block.prepared.worst(found.columns, side / units).loss
            for side in (found.right, found.left)
        ]
        loss = np.where(found.jumps, np.inf, np.fmax(*sides))
        return np.where(found.known, loss, np.nan)
    if unknown.is_number:
        return block.cells(unknown).loss
    return separations(block.data.state, _encoded(block, unknown))[0]


def _encoded(block: HeldBlock, unknown: Unknown) -> FloatArray:
    """Minimisers with each of the values of few in some records, of shape (b, n_values, p)."""
    if isinstance(unknown, Target):
        return target_encodings(
            block.data.state, block.rows, np.arange(unknown.classes, dtype=float)
        )
    return block.encodings(unknown)


def _flat(pipeline: Any) -> Any:
    """Return a pipeline without pipelines at its end, of the very same steps."""
    steps = flat_steps(pipeline)
    return Pipeline(numbered(steps)) if len(steps) > 1 else steps[0][1]
