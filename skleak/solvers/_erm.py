"""Minimize an objective.

The regularised empirical risk of records outside memory, by reduction over their blocks.

One pass over the records gives, at one vector of parameters, all that Newton's method asks for:
each block computes it with the objective of records in memory, and the sums are combined as a tree
where the blocks are. What reaches this process is as large as a Hessian.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse

from skleak.losses import SoftmaxLoss
from skleak.solvers._multinomial import MultinomialObjective
from skleak.solvers._objective import (
    FactorizedHessian,
    HessianSums,
    MemorySums,
    Minimum,
    Objective,
    Point,
)
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, computed, positions_of
from skleak.utils._linalg import SingularMatrixError
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# At a minimiser one more Newton step hardly moves any prediction. Where the infimum lies at
# infinity (separable classes without a penalty) the gradient vanishes too, but each step still
# moves predictions by about one.
_LARGEST_LAST_STEP = 1e-2
# The inverse Hessian is that before the last step: it has an error of about that step's move.
# Columns of tiny values have tiny gradients, so that `tol` alone would stop far too early.
_SETTLED = 1e-10
_EXTRA_STEPS = 3


class SingularHessianError(ValueError):
    """The objective has no unique minimiser.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.solvers import SingularHessianError
    >>> try:
    ...     PrivateLinearRegression(alpha=0.0).fit(np.ones((5, 2)), np.arange(5.0))
    ... except SingularHessianError:
    ...     print("two columns are the same: raise alpha")
    two columns are the same: raise alpha
    """


def minimize(
    objective: Objective,
    *,
    start: FloatArray | None = None,
    max_iter: int = 100,
    tol: float = 1e-10,
) -> Minimum:
    """Minimise to a gradient norm of ``tol``, or to rounding noise where that is larger.

    Parameters
    ----------
    objective : Objective
        What to minimise.
    start : ndarray of shape (p,), default=None
        Where to start; by default the best lone intercept.
    max_iter : int, default=100
        Largest number of Newton steps.
    tol : float, default=1e-10
        Gradient norm of the normalised objective at which to stop.

    Returns
    -------
    Minimum
        ``converged`` is True if it is one.

    Raises
    ------
    SingularHessianError
        Where the Hessian is singular; the message names the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.losses import SquaredLoss
    >>> one = np.ones(2)
    >>> X, y = np.array([[1.0], [2.0]]), np.array([2.0, 4.0])
    >>> minimize(Objective(X, y, SquaredLoss(), 0.0, False, one, one)).coefficients
    array([2.])
    """
    here = objective.at(objective.initial() if start is None else np.array(start))
    hessian = _factorize(objective, here)
    norm = float(np.linalg.norm(here.gradient))
    floor, n_iter, extra, converged = 0.0, 0, 0, False
    while True:
        step = -hessian.solve(here.gradient) * objective.total
        size, reach = here.sums.size, objective.reach(step)
        still = objective.loss.quadratic or bool(is_settled(reach, size))
        if still and is_minimum(norm, reach, size, max(tol, floor)):
            converged = True  # whatever the move is: no record need be looked at for it
            break
        there = objective.at(here.w + step, step)
        # Elsewhere nothing hangs on the move.
        move = there.sums.move if norm <= max(tol, floor) else np.inf
        converged = bool(is_minimum(norm, move, size, max(tol, floor)))
        settled = objective.loss.quadratic or bool(is_settled(move, size))
        if n_iter >= max_iter or (converged and (settled or extra == _EXTRA_STEPS)):
            break
        n_iter += 1
        extra += converged
        trial = _line_search(objective, here, there, step)
        if trial is None or np.linalg.norm(trial.gradient) > 0.5 * norm:
            # Little or no descent is left: a gradient made of rounding noise is as good as zero.
            floor = here.gradient_round_off
        if trial is None:
            converged = bool(is_minimum(norm, there.sums.move, size, max(tol, floor)))
            break
        here = trial
        norm = float(np.linalg.norm(here.gradient))
        if not objective.loss.quadratic:
            hessian = _factorize(objective, here)
    # The last step is known already, and it squares what error is left.
    w = here.w + step if converged else here.w
    return Minimum(w, hessian.inverse(), norm, max(1, n_iter), converged)


def is_minimum(
    norm: float | FloatArray, move: float | FloatArray, size: float | FloatArray, tol: float
) -> bool | BoolArray:
    """Return True at a minimiser: no gradient, and no Newton step that moves a prediction.

    Of one objective, or of many, of shape (b,).

    Parameters
    ----------
    norm : float or ndarray of shape (b,)
        Norm of the gradient of the normalised objective.
    move, size : float or ndarray of shape (b,)
        Largest change of a predictor by one more Newton step, and largest predictor.
    tol : float
        Largest norm of a gradient that counts as zero.

    Returns
    -------
    bool or ndarray of shape (b,)

    Examples
    --------
    >>> is_minimum(1e-12, 1e-6, 3.0, tol=1e-10), is_minimum(1e-12, 1.0, 30.0, tol=1e-10)
    (True, False)
    """
    return (norm <= tol) & (move <= _LARGEST_LAST_STEP + 1e-6 * size)


def is_settled(move: float | FloatArray, size: float | FloatArray) -> bool | BoolArray:
    """Return True where even the Hessian before the last step is that of the minimiser.

    Parameters
    ----------
    move, size : float or ndarray of shape (b,)
        Largest change of a predictor by one more Newton step, and largest predictor.

    Returns
    -------
    bool or ndarray of shape (b,)

    Examples
    --------
    >>> is_settled(1e-12, 3.0), is_settled(1e-6, 3.0)
    (True, False)
    """
    return move <= _SETTLED * (1.0 + size)


def _factorize(objective: Objective, point: Point) -> FactorizedHessian:
    try:
        return point.hessian
    except SingularMatrixError as error:
        raise SingularHessianError(
            f"The Hessian of the training objective is singular at alpha={objective.alpha:g} "
            f"({error}): the minimiser is not unique and leakage is not defined. Expected a "
            "positive definite Hessian; pass a larger `alpha`, or drop constant and collinear "
            "columns and set `fit_intercept=False` if a column is constant."
        ) from error


def _line_search(objective: Objective, here: Point, there: Point, step: FloatArray) -> Point | None:
    """Halve the step until it descends; near round-off, take it if the gradient shrinks."""
    slope = float(here.gradient @ step)
    norm = np.linalg.norm(here.gradient)
    noise = here.value_round_off
    # A descent below the noise of the objective cannot be told from a rise.
    visible = -slope > noise
    for halving in range(60 if visible else 1):
        t = 0.5**halving
        trial = objective.at(here.w + t * step) if halving else there
        if not np.isfinite(trial.value) or trial.value > here.value + noise:
            continue
        sufficient = visible and trial.value <= here.value + 1e-4 * t * slope
        if sufficient or np.linalg.norm(trial.gradient) < norm:
            return trial
    return None


@dataclass(frozen=True)
class _CenteredMultinomial(MultinomialObjective):
    """The records of one block, whose columns are centred where those of all blocks are."""

    center: tuple[FloatArray, Array] = field(kw_only=True)

    @cached_property
    def _center(self) -> tuple[FloatArray, Array]:
        return self.center


@dataclass(frozen=True)
class Template:
    """Common parts of the objectives of all blocks; it holds no record."""

    loss: Any
    alpha: float
    fit_intercept: bool
    center: tuple[FloatArray, Array] | None  # of several predictors; None for one
    n_classes: int

    @classmethod
    def of(cls, objective: Any) -> Self:
        several = isinstance(objective, MultinomialObjective)
        center = objective._center if several else None
        n_classes = objective.n_classes if several else 2
        return cls(objective.loss, objective.alpha, objective.fit_intercept, center, n_classes)

    def objective(self, X: Any, y: FloatArray, s: FloatArray, omega: FloatArray) -> Objective:
        given = X, y, self.loss, self.alpha, self.fit_intercept, s, omega
        if self.center is None:
            return Objective(*given)
        assert isinstance(self.loss, SoftmaxLoss)
        return _CenteredMultinomial(*given, self.n_classes, center=self.center)


@dataclass(frozen=True)
class LargeSums:
    """Sums over the records of some blocks; see `PointSums`."""

    loss: float
    size: float
    move: float
    value_noise: float
    # Gradient, its noise, and curvature (None where it is not asked for); or why there are none,
    # as the losses overflow, or their derivatives do.
    derivatives: tuple[FloatArray, FloatArray, HessianSums | None] | str

    def plus(self, other: "LargeSums") -> "LargeSums":
        """Of these records and others."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.loss + other.loss
            noise = self.value_noise + other.value_noise
        mine, theirs = self.derivatives, other.derivatives
        found: Any = mine if isinstance(mine, str) else theirs
        if not (isinstance(mine, str) or isinstance(theirs, str)):
            curvature = mine[2] if mine[2] is None else mine[2].plus(theirs[2])
            found = mine[0] + theirs[0], mine[1] + theirs[1], curvature
        size, move = max(self.size, other.size), max(self.move, other.move)
        return LargeSums(loss, size, move, noise, found)

    @property
    def gradient(self) -> FloatArray:
        """Weighted sum of the gradients, of shape (p,)."""
        return self._derivatives[0]

    @property
    def gradient_noise(self) -> FloatArray:
        """Weighted sum of the sizes of what gradients are computed from, of shape (p,)."""
        return self._derivatives[1]

    @property
    def curvature(self) -> HessianSums:
        """Sums of which the Hessian is made."""
        found = self._derivatives[2]
        assert found is not None
        return found

    @property
    def _derivatives(self) -> tuple[FloatArray, FloatArray, HessianSums | None]:
        if isinstance(self.derivatives, str):
            raise FloatingPointError(self.derivatives)
        return self.derivatives


def block_sums(
    X: Any,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    template: Template,
    w: FloatArray,
    step: FloatArray | None,
    with_curvature: bool,
) -> LargeSums:
    """Compute the sums of one block at parameters ``w``, to which a step led; both (p,)."""
    found = MemorySums(template.objective(X, y, s, omega), w, step)
    if not np.isfinite(found.loss):
        return LargeSums(np.inf, found.size, found.move, np.inf, "the loss is not finite")
    try:
        noise = found.value_noise
        gradient, sizes = found.gradient, found.gradient_noise
        curvature = found.curvature if with_curvature else None
    except FloatingPointError as error:
        # Whoever goes there is told; from a trial that is too far there may be a way back.
        return LargeSums(found.loss, found.size, found.move, np.inf, str(error))
    return LargeSums(found.loss, found.size, found.move, noise, (gradient, sizes, curvature))


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
        # The curvature of the squared loss is the same everywhere: it is summed at the start.
        with_curvature = step is None or not self.loss.quadratic
        aligned = self.y, self.sample_weight, self.reweights
        # A block is computed with as a whole: what it is cut into is for the objective to say.
        blocks = Blocks.of(self.X, *aligned, width=0, keep_sparse=True)
        given = Template.of(self), w, step, with_curvature
        this: Any = self
        return Point(this, w, blocks.map_reduce(block_sums, LargeSums.plus, *given))

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
        return one.map_reduce(_of_block, _only, Template.of(self), f, small)

    def without(self, row: Any) -> Any:
        """Return the same objective without one of the records."""
        own = self.parts(np.array([row]))
        weights = self.sample_weight.copy()
        weights[row] = 0.0
        sums = self._exchanged(float(own.y[0]), None, own.total)
        return self._with(-own.total, sums, sample_weight=weights)

    def with_record(self, row: Any, x: FloatArray, y: Any = None) -> Any:
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

    def with_more(self, x: FloatArray, y: Any, weight: Any) -> Any:
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
        return self._pointwise("curvatures", w)

    def third_derivatives(self, w: FloatArray) -> Any:
        """Third derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        return self._pointwise("third_derivatives", w)

    @property
    def _travelling(self) -> Objective:
        none = np.zeros(0)
        return Template.of(self).objective(np.zeros((0, self.X.shape[1])), none, none, none)

    @cached_property
    def largest(self) -> FloatArray:
        return self.moments.largest

    def _pointwise(self, name: str, w: FloatArray) -> Any:
        """Return what the objective of each block has for its records, lazily, (n,)."""
        records = self.X, self.y, self.sample_weight, self.reweights
        blocks = Blocks.of(*records, width=0, keep_sparse=True)
        return blocks.map(_of_block, Template.of(self), operator.methodcaller(name, w), ())

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


def _of_block(
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
    start : tuple, default=None
        These four arrays, and sums over them at parameters of zero, where they are known.

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
    # Sums at zero over these very arrays, as whoever checked the records may have found them.
    start: tuple[tuple[Any, ...], LargeSums] | None = field(default=None, kw_only=True)

    @property
    def _is_started(self) -> bool:
        mine = self.X, self.y, self.sample_weight, self.reweights
        return self.start is not None and all(map(operator.is_, mine, self.start[0]))

    def initial(self) -> FloatArray:
        """Return the start of a fit: where the sums are known, else the best lone intercept."""
        return np.zeros(self.n_parameters) if self._is_started else super().initial()

    def at(self, w: FloatArray, step: FloatArray | None = None) -> Point:
        """Return the objective at ``w``, to which ``step`` led; one pass, where that is needed."""
        if self.start is not None and self._is_started and step is None and not np.any(w):
            return Point(self, w, self.start[1])
        return super().at(w, step)

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
