"""Sums over blocks of records outside memory, at one vector of parameters."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from skleak.losses import SoftmaxLoss
from skleak.solvers._hessian import FactorizedHessian, HessianSums
from skleak.solvers._multinomial import MultinomialObjective
from skleak.solvers._objective import Objective
from skleak.utils._blocks import Blocks
from skleak.utils._typing import Array, FloatArray


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
class _Sums:
    """All that is asked of records at one vector of parameters, summed over some of them."""

    loss: float
    size: float  # largest absolute predictor
    move: float  # by the step that led there
    value_noise: float
    # Nothing more where the losses overflow, or their derivatives do, whose error this is.
    gradient: FloatArray | None = None
    gradient_noise: FloatArray | None = None
    curvature: HessianSums | None = None  # or where it is not asked for
    overflow: str = ""

    def plus(self, other: "_Sums") -> "_Sums":
        """Of these records and others."""
        overflow = self.overflow or other.overflow
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.loss + other.loss
            noise = self.value_noise + other.value_noise
        size, move = max(self.size, other.size), max(self.move, other.move)
        first = _Sums(loss, size, move, noise, overflow=overflow)
        if overflow or self.gradient is None or other.gradient is None:
            return first
        assert self.gradient_noise is not None
        assert other.gradient_noise is not None
        gradient = self.gradient + other.gradient
        sizes, curvature = self.gradient_noise + other.gradient_noise, self.curvature
        if curvature is not None:
            curvature = curvature.plus(other.curvature)
        return replace(first, gradient=gradient, gradient_noise=sizes, curvature=curvature)


def _sums(
    X: Any,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    template: Template,
    w: FloatArray,
    step: FloatArray | None,
    with_curvature: bool,
) -> _Sums:
    """Compute the sums of one block at parameters ``w``, to which a step led; both (p,)."""
    objective = template.objective(X, y, s, omega)
    move = 0.0
    if step is not None:
        move = float(np.max(np.abs(objective.predictor(step)), initial=0.0))
    a = objective.predictor(w)
    size = float(np.max(np.abs(a), initial=0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        loss = objective.loss_sum(a)
    if not np.isfinite(loss):
        return _Sums(np.inf, size, move, np.inf)
    try:
        noise = objective.value_noise(a)
        gradient, sizes = objective.gradient_sum(a), objective.gradient_noise(w, a)
        curvature = objective.curvature_sums(a) if with_curvature else None
    except FloatingPointError as error:
        # Whoever goes there is told; from a trial that is too far there may be a way back.
        return _Sums(loss, size, move, np.inf, overflow=str(error))
    return _Sums(loss, size, move, noise, gradient, sizes, curvature)


def large_point(objective: Any, w: FloatArray, step: FloatArray | None) -> "LargePoint":
    """Take one pass over records at ``w``, to which ``step`` led; both of shape (p,)."""
    # The curvature of the squared loss is the same everywhere: it is summed at the start.
    with_curvature = step is None or not objective.loss.quadratic
    template = Template.of(objective)
    aligned = objective.y, objective.sample_weight, objective.reweights
    # A block is computed with as a whole: what it is cut into is for the objective to say.
    blocks = Blocks.of(objective.X, *aligned, width=0, keep_sparse=True)
    sums = blocks.map_reduce(_sums, _Sums.plus, template, w, step, with_curvature)
    return LargePoint(objective, w, sums)


@dataclass(frozen=True)
class LargePoint:
    """An objective at one vector of parameters, after one pass over its records; see `Point`."""

    objective: Any  # whose records are Dask arrays
    w: FloatArray  # (p,)
    sums: _Sums

    @property
    def value(self) -> float:
        """Objective; infinite where the loss overflows."""
        penalty = self.objective.penalty
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.sums.loss / self.objective.total + 0.5 * float(penalty @ self.w**2)
        return value if np.isfinite(value) else np.inf

    @cached_property
    def gradient(self) -> FloatArray:
        """Gradient, of shape (p,)."""
        self._check()
        assert self.sums.gradient is not None
        return self.sums.gradient / self.objective.total + self.objective.penalty * self.w

    @property
    def hessian(self) -> FactorizedHessian:
        """Factor of the unnormalised Hessian."""
        self._check()
        assert self.sums.curvature is not None
        return self.sums.curvature.factor(self.objective.total * self.objective.alpha)

    @property
    def size(self) -> float:
        """Largest absolute predictor."""
        return self.sums.size

    @property
    def move(self) -> float:
        """Largest absolute change of a predictor by the step that led here."""
        return self.sums.move

    @property
    def value_round_off(self) -> float:
        """Difference of objectives below which it is only rounding noise."""
        return self.objective._value_floor(self.w, self.value, self.sums.value_noise)

    @property
    def gradient_round_off(self) -> float:
        """Norm below which a computed gradient is only rounding noise."""
        self._check()
        assert self.sums.gradient_noise is not None
        return self.objective._gradient_floor(self.w, self.sums.gradient_noise)

    def _check(self) -> None:
        if self.sums.overflow:
            raise FloatingPointError(self.sums.overflow)
        if self.sums.gradient is None:
            raise FloatingPointError("the loss is not finite")
