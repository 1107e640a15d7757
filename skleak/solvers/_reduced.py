"""The regularised empirical risk of records outside memory, by reduction over their blocks.

One pass over the records gives, at one vector of parameters, all that Newton's method asks for:
each block computes it with the objective of records in memory, and the sums are combined as a tree
where the blocks are. What reaches this process is as large as a Hessian.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from skleak.solvers._block_sums import Template, large_point
from skleak.solvers._multinomial import MultinomialObjective
from skleak.solvers._objective import Objective
from skleak.solvers._point import Point
from skleak.utils._blocks import Blocks, positions_of
from skleak.utils._optional import dask_module
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.blocks._passes import computed

Result = TypeVar("Result")


@dataclass(frozen=True)
class Moments:
    """Sums over records outside memory, found once, when they are checked.

    Parameters
    ----------
    n : int
        Number of records.
    total : float
        Sum of the sample weights.
    smallest_weight : float
        Smallest sample weight.
    largest_weight : float
        Largest sample weight.
    largest : ndarray of shape (d,)
        Largest absolute entry of every column.
    mean : ndarray of shape (d,)
        Weighted mean of every column.
    constant : ndarray of bool of shape (d,)
        Whether every column has one value.
    target_sums : ndarray of shape (1,) or (K,)
        Weighted sum of the targets, or weight of the records of every class.

    Examples
    --------
    >>> one = np.ones(1)
    >>> Moments(4, 4.0, 1.0, 1.0, one, one, one == 0.0, one).total
    4.0
    """

    n: int
    total: float
    smallest_weight: float
    largest_weight: float
    largest: FloatArray
    mean: FloatArray
    constant: Array
    target_sums: FloatArray


class _OutsideMemory:
    """Common parts of objectives whose records are Dask arrays."""

    # Of the objective that this is part of.
    X: Any
    y: Any
    sample_weight: Any
    reweights: Any
    loss: Any
    fit_intercept: bool
    moments: Moments

    @property
    def total(self) -> float:
        """``N``, the sum of the sample weights."""
        return self.moments.total

    @property
    def weight_range(self) -> tuple[float, float]:
        """Smallest and largest sample weight."""
        return self.moments.smallest_weight, self.moments.largest_weight

    def at(self, w: FloatArray, step: FloatArray | None = None) -> Point:
        """Return the objective at ``w``, to which ``step`` led; one pass over the records."""
        return large_point(self, w, step)

    def parts(self, rows: IntArray) -> Any:
        """Return the same objective on a few of the records, held in memory."""
        vectors = (self.X, self.y, self.sample_weight, self.reweights)
        return Template.of(self).objective(*computed([v[np.asarray(rows)] for v in vectors]))

    def far_means(self) -> None:
        """Leave the columns as they are: the records are elsewhere."""
        return

    def together(self, f: Callable[..., Result], *small: Any) -> Result:
        """Return ``f(objective, *small)`` of all records in one block, made where they lie."""
        vectors = (self.X, self.y, self.sample_weight, self.reweights)
        one = Blocks.of(*(v.rechunk(-1) for v in vectors), width=0, keep_sparse=True)
        return one.map_reduce(_together, _only, Template.of(self), f, small)

    def without(self, row: int) -> Any:
        """Return the same objective without one of the records."""
        own = self.parts(np.array([row]))
        weights = self.sample_weight.copy()
        weights[row] = 0.0
        sums = self._exchanged(float(own.y[0]), None, own.total)
        return self._with(-own.total, sums, sample_weight=weights)

    def with_record(self, row: int, x: FloatArray, y: float | None = None) -> Any:
        """Return the same objective with other entries, of shape (d,), in one row."""
        changed = super().with_record(row, x, y)  # type: ignore[misc]
        if y is None:
            return changed
        own = self.parts(np.array([row]))
        sums = self._exchanged(float(own.y[0]), y, own.total)
        return replace(changed, moments=replace(self.moments, target_sums=sums))

    def with_entries(self, row: int, columns: IntArray | None, values: FloatArray) -> Any:
        """Return the same objective, all weights one, with other entries, (k,), in a row."""
        # The row stays where it is; ``columns`` (k,) are None for the target.
        array, at = dask_module("dask.array"), positions_of(self.X)
        ones = array.ones_like(self.sample_weight)
        if columns is not None:
            given = self.X, at[:, None], row, columns, values
            X = array.map_blocks(_with_entries, *given, dtype=self.X.dtype, meta=self.X._meta)
            return replace(self, X=X, reweights=ones)  # type: ignore[type-var]
        new = float(values[0])
        own, weight = computed([self.y[row], self.sample_weight[row]])
        sums = self._exchanged(float(own), new, float(weight))
        return self._with(0.0, sums, y=array.where(at == row, new, self.y), reweights=ones)

    def with_more(self, x: FloatArray, y: float, weight: float) -> Any:
        """Return the same objective with one record more, of entries (d,) and of this weight."""
        array, one = dask_module("dask.array"), ("y", "sample_weight", "reweights")
        more = [array.from_array(x[None], chunks=-1)]
        more += [array.full(1, value, chunks=1) for value in (float(y), weight, 1.0)]
        own = {name: getattr(self, name) for name in ("X", *one)}
        pairs = zip(own.items(), more, strict=True)
        joined = {name: array.concatenate([values, new]) for (name, values), new in pairs}
        return self._with(weight, self._exchanged(None, float(y), weight), **joined)

    def curvatures(self, w: FloatArray) -> Any:
        """Second derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        return self._pointwise(w, "curvature")

    def third_derivatives(self, w: FloatArray) -> Any:
        """Third derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        return self._pointwise(w, "third_derivative")

    @property
    def _travelling(self) -> Objective:
        none = np.zeros(0)
        return Template.of(self).objective(np.zeros((0, self.X.shape[1])), none, none, none)

    @cached_property
    def _largest(self) -> FloatArray:
        return self.moments.largest

    def _pointwise(self, w: FloatArray, name: str) -> Any:
        template = Template.of(self)
        records = self.X, self.y, self.sample_weight, self.reweights
        return Blocks.of(*records, width=0, keep_sparse=True).map(_pointwise, template, w, name)

    def _with(self, weight: float, target_sums: FloatArray, **vectors: Any) -> Any:
        """Return the objective on other records, with ``weight`` more of them in all."""
        moments = replace(self.moments, total=self.moments.total + weight, target_sums=target_sums)
        changed: Any = self
        return replace(changed, moments=moments, **vectors)

    def _exchanged(self, old: float | None, new: float | None, weight: float) -> FloatArray:
        """Sum the targets with another one, or one more or less, of such a weight."""
        raise NotImplementedError


def _with_entries(
    X: Any, position: IntArray, row: int, columns: IntArray, values: FloatArray
) -> Any:
    """Put other entries into a row of a block, if it is there."""
    (found,) = np.nonzero(position[:, 0] == row)
    if not len(found):
        return X
    changed = X.tolil(copy=True) if sparse.issparse(X) else X.copy()
    changed[found[0], columns] = values
    return sparse.csr_array(changed) if sparse.issparse(X) else changed


def _together(
    X: Any,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    template: Template,
    f: Callable[..., Result],
    small: tuple[Any, ...],
) -> Result:
    return f(template.objective(X, y, s, omega), *small)


def _only(one: Result, other: Result) -> Result:
    raise AssertionError("all records are one block")


def _pointwise(
    X: Any, y: FloatArray, s: FloatArray, omega: FloatArray, template: Any, w: FloatArray, name: str
) -> FloatArray:
    """Return the derivatives of one block, (n,)."""
    objective = template.objective(X, y, s, omega)
    found: FloatArray = getattr(objective, name + "s")(w)
    return found


@dataclass(frozen=True)
class LargeObjective(_OutsideMemory, Objective):
    """An `Objective` whose records are Dask arrays, by reduction over their blocks.

    Parameters
    ----------
    X : Dask array of shape (n, d)
        Records.
    y : Dask array of shape (n,)
        Targets in the range of the loss.
    loss : PointwiseLoss
        The loss.
    alpha : float
        Strength of the penalty; the intercept is not penalised.
    fit_intercept : bool
        Whether the last parameter is an intercept.
    sample_weight : Dask array of shape (n,)
        ``s``: how many times each record counts.
    reweights : Dask array of shape (n,)
        ``omega``: reweighting factors with ``sum s omega = sum s``.
    moments : Moments
        What is known of the records.

    Examples
    --------
    >>> import dask.array as da
    >>> from skleak.losses import SquaredLoss
    >>> X, one = da.from_array(np.array([[1.0], [2.0]]), chunks=1), da.ones(2, chunks=1)
    >>> sums = (np.array([2.0]), np.array([1.5]), np.array([False]), np.array([4.0]))
    >>> moments = Moments(2, 2.0, 1.0, 1.0, *sums)
    >>> given = X, 4.0 * (one - 0.5), SquaredLoss(), 0.5, False, one, one
    >>> LargeObjective(*given, moments=moments).at(np.array([1.0])).value
    0.5
    """

    moments: Moments = field(kw_only=True)

    def _exchanged(self, old: float | None, new: float | None, weight: float) -> FloatArray:
        own, other = (0.0 if y is None else y for y in (old, new))
        return self.moments.target_sums + weight * (other - own)

    def _mean_target(self) -> float:
        return float(self.moments.target_sums[0]) / self.total


@dataclass(frozen=True)
class LargeMultinomialObjective(_OutsideMemory, MultinomialObjective):
    """A `MultinomialObjective` whose records are Dask arrays; see `LargeObjective`.

    Parameters
    ----------
    X : Dask array of shape (n, d)
        Records.
    y : Dask array of shape (n,)
        Class numbers, 0.0 to K - 1.
    loss : SoftmaxLoss
        The loss.
    alpha : float
        Strength of the penalty; the intercept is not penalised.
    fit_intercept : bool
        Whether the last K parameters are intercepts.
    sample_weight : Dask array of shape (n,)
        ``s``: how many times each record counts.
    reweights : Dask array of shape (n,)
        ``omega``: reweighting factors with ``sum s omega = sum s``.
    n_classes : int
        Number of classes, K.
    moments : Moments
        What is known of the records.

    Examples
    --------
    >>> import dask.array as da
    >>> from skleak.losses import SoftmaxLoss
    >>> X = da.from_array(np.array([[1.0], [2.0], [4.0]]), chunks=1)
    >>> y, one = da.arange(3.0, chunks=1), da.ones(3, chunks=1)
    >>> sums = (np.array([4.0]), np.array([7 / 3]), np.array([False]), np.ones(3))
    >>> moments = Moments(3, 3.0, 1.0, 1.0, *sums)
    >>> given = X, y, SoftmaxLoss(), 0.5, True, one, one, 3
    >>> round(LargeMultinomialObjective(*given, moments=moments).at(np.zeros(6)).value, 4)
    1.0986
    """

    moments: Moments = field(kw_only=True)

    def _exchanged(self, old: float | None, new: float | None, weight: float) -> FloatArray:
        sums = self.moments.target_sums.copy()
        for y, change in ((old, -weight), (new, weight)):
            if y is not None:
                sums[int(y)] += change
        return sums

    def _class_weights(self) -> FloatArray:
        return self.moments.target_sums

    def _column_means(self) -> tuple[FloatArray, Array]:
        return self.moments.mean, self.moments.constant
