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

from skleak.solvers._multinomial import MultinomialObjective
from skleak.solvers._objective import (
    FactorizedHessian,
    LargeSums,
    MemorySums,
    Minimum,
    Objective,
    Point,
)
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, computed, positions_of
from skleak.utils._linalg import SingularMatrixError, is_constant, largest_entries
from skleak.utils._typing import BoolArray, FloatArray, IntArray

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


def block_sums(
    X: Any,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    bare: Objective,
    w: FloatArray,
    step: FloatArray | None,
    with_curvature: bool,
) -> LargeSums:
    """Compute the sums of one block at parameters ``w``, to which a step led; both (p,)."""
    found = MemorySums(bare.on(X, y, s, omega), w, step)
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
    spread : ndarray of shape (d,)
        Weighted sum of the squares around it.
    target_sums : ndarray of shape (1,) or (K,)
        Weighted sum of the targets, or weight of the records of every class; where fits start, also
        once a record is another one.

    Examples
    --------
    >>> one = np.ones(1)
    >>> some = Moments.of(np.array([[1.0], [3.0]]), np.array([2.0, 4.0]), np.ones(2))
    >>> both = some.plus(some)
    >>> both.total, both.mean, both.spread, both.target_sums
    (4.0, array([2.]), array([4.]), array([12.]))
    """

    n: int
    total: float
    smallest_weight: float
    largest_weight: float
    largest: FloatArray
    mean: FloatArray
    spread: FloatArray
    target_sums: FloatArray

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, s: FloatArray) -> Self:
        """Of a block, whose targets are numbers.

        Shapes: ``X`` (n, d); ``y``, ``s`` (n,), weights.
        """
        total = float(s.sum())
        mean = s @ X / total if total > 0.0 else np.zeros(X.shape[1])
        spread = s @ (X - mean) ** 2
        weights = total, float(s.min()), float(s.max())
        return cls(len(s), *weights, largest_entries(X), mean, spread, np.array([s @ y]))

    def plus(self, other: "Moments") -> "Moments":
        """Of these records and others."""
        total = self.total + other.total
        share = other.total / total if total > 0.0 else 0.0
        apart = other.mean - self.mean
        return Moments(
            self.n + other.n,
            total,
            min(self.smallest_weight, other.smallest_weight),
            max(self.largest_weight, other.largest_weight),
            np.maximum(self.largest, other.largest),
            self.mean + share * apart,
            self.spread + other.spread + self.total * share * apart**2,
            self.target_sums + other.target_sums,
        )


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
        given = self.bare, w, step, with_curvature
        this: Any = self
        return Point(this, w, blocks.map_reduce(block_sums, LargeSums.plus, *given))

    def parts(self, rows: IntArray) -> Any:
        """Return the same objective on a few of the records, held in memory."""
        vectors = (self.X, self.y, self.sample_weight, self.reweights)
        return self.bare.on(*computed([v[np.asarray(rows)] for v in vectors]))

    def far_means(self) -> None:
        """Leave the columns as they are: the records are elsewhere."""
        return

    def together(self, f: Callable[[Objective], Result]) -> Result:
        """Return ``f(objective)`` of all records in one block, made where they lie."""
        vectors = (self.X, self.y, self.sample_weight, self.reweights)
        one = Blocks.of(*(v.rechunk(-1) for v in vectors), width=0, keep_sparse=True)
        return one.map_reduce(_of_block, _only, self.bare, f)

    def without(self, row: Any) -> Any:
        """Return the same objective without one of the records."""
        (own,) = computed([self.sample_weight[row]])
        weights = self.sample_weight.copy()
        weights[row] = 0.0
        return self._with(-float(own), sample_weight=weights)

    def with_entries(self, row: int, columns: IntArray | None, values: FloatArray) -> Any:
        """Return the same objective, all weights one, with other entries, (k,), in a row."""
        # The row stays where it is; ``columns`` (k,) are None for the target.
        array, at = dask_module("dask.array"), positions_of(self.X)
        ones = array.ones_like(self.sample_weight)
        if columns is None:
            y = array.where(at == row, float(values[0]), self.y)
            return self._with(0.0, y=y, reweights=ones)
        given = self.X, at[:, None], row, columns, values
        X = array.map_blocks(_with_entries, *given, dtype=self.X.dtype, meta=self.X._meta)
        return self._with(0.0, X=X, reweights=ones)

    def with_more(self, x: FloatArray, y: Any, weight: Any) -> Any:
        """Return the same objective with one record more, of entries (d,) and of this weight."""
        array, own = dask_module("dask.array"), {"y": y, "sample_weight": weight, "reweights": 1.0}
        more = {name: array.full(1, float(value), chunks=1) for name, value in own.items()}
        more["X"] = array.from_array(x[None], chunks=-1)
        joined = {name: array.concatenate([getattr(self, name), v]) for name, v in more.items()}
        return self._with(weight, **joined)

    def curvatures(self, w: FloatArray) -> Any:
        """Second derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        return self._pointwise("curvatures", w)

    def third_derivatives(self, w: FloatArray) -> Any:
        """Third derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        return self._pointwise("third_derivatives", w)

    @property
    def bare(self) -> Objective:
        """The objective without records, as it travels to where these are."""
        this: Any = self
        none, table = np.zeros(0), np.zeros((0, this.X.shape[1]))
        given = table, none, this.loss, this.alpha, this.fit_intercept, none, none
        if isinstance(this, MultinomialObjective):
            # Columns are centred where those of all records are.
            return MultinomialObjective(*given, this.n_classes, center=this._center)
        return Objective(*given)

    @cached_property
    def largest(self) -> FloatArray:
        return self.moments.largest

    def _pointwise(self, name: str, w: FloatArray) -> Any:
        """Return what the objective of each block has for its records, lazily, (n,)."""
        records = self.X, self.y, self.sample_weight, self.reweights
        blocks = Blocks.of(*records, width=0, keep_sparse=True)
        return blocks.map(_of_block, self.bare, operator.methodcaller(name, w))

    def _with(self, weight: float, **vectors: Any) -> Any:
        """Return the objective on other records, with ``weight`` more of them in all."""
        moments = replace(self.moments, total=self.moments.total + weight)
        changed: Any = self
        return replace(changed, moments=moments, **vectors)


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
    bare: Objective,
    f: Callable[[Objective], Result],
) -> Result:
    return f(bare.on(X, y, s, omega))


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
    >>> moments = Moments.of(X.compute(), np.array([2.0, 2.0]), np.ones(2))
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
    >>> moments = replace(Moments.of(X.compute(), np.ones(3), np.ones(3)), target_sums=np.ones(3))
    >>> given = X, y, SoftmaxLoss(), 0.5, True, one, one, 3
    >>> round(LargeMultinomialObjective(*given, moments=moments).at(np.zeros(6)).value, 4)
    1.0986
    """

    moments: Moments = field(kw_only=True)

    def _class_weights(self) -> FloatArray:
        return self.moments.target_sums

    def _column_means(self) -> tuple[FloatArray, BoolArray]:
        known = self.moments
        return known.mean, is_constant(known.spread, known.mean, known.total)
