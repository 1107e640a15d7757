"""Search for the weights that even a loss.

Weights as functions of the fit, where records are too many to hold a number for each.

At the fixed point of a reweighting the weight of a record is a function of the record and of p x p
numbers, the minimizer w and its Hessian H. So weights are sought among those of some ``(w, H)``:

    (w, H)  ->  omega = level / kappa(z; w, H)  ->  refit  ->  (w, H)

The plain iteration is that of [FIL21], and Newton's method is that of memory, in other
coordinates: of ``(w, H)`` relative to the fit without weights. All that they need of the records
are sums. A direction of Newton's method solves ``(I + K J)(dw, dH) = K f``
(`WeightSystem`), each product in one pass over the records, or two where the loss is not quadratic.

IRFIL: weights under which every record leaks the same ([FIL21] algorithm 1).

The algorithm is the fixed-point iteration ``log omega <- log omega - log eta`` (up to the
normalization ``sum s omega = sum s``), with a refit at every step. It converges linearly. Newton's
method squares the spread each time.

Newton's direction for the weights under which every record leaks the same.

A change ``d`` of the logarithms of the weights moves the minimizer and its Hessian by

    dw = - sum t r d x~ ,   dH = sum t (c d + c' x~ . dw) x~ x~^T ,      t = s omega ,

in coordinates where the Hessian is the identity, and these move the balanced norms by
``d log kappa = h . dw - <S, dH>`` (`_total_system`). With ``K`` for the first map, ``J`` for the
second, and ``f`` for what the logarithms of the leakages lack to their mean, Newton's direction
solves ``d + J K d = f`` among the changes that keep the sum of the weights. (J is that of minus the
log weights of a `WeightRule`: where these are bounded, they follow ``log kappa`` only in part.) As
``(dw, dH)`` has far fewer entries than there are records, it is found there:

    (I + K J)(dw, dH) = K f ,     d = f - J (dw, dH) ,

the transpose of the adjoint system (`_total_system`). There are as many unknowns as before, but
one right-hand side instead of p: a Krylov method needs some 5 to 30 products of O(n p^2) each,
against O(n p^4) for writing the system out, which therefore never pays.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from skleak.influence.jacobian import FitFactor
from skleak.influence.reweighting._iteration import Equalized, State, Step, iterate
from skleak.influence.reweighting._total_system import (
    Balance,
    Gradients,
    hessian_root,
    level_of,
    losses_under,
    packed,
    unpacked,
)
from skleak.influence.state import WeightRule
from skleak.solvers import (
    Minimum,
    Objective,
    SingularHessianError,
)
from skleak.utils._blocks import Blocks, add, is_large, keep
from skleak.utils._typing import Array, FloatArray

_LARGEST_BASIS = 100
_NOT_HELD = np.zeros(0)  # losses of all records
# Share of the mean below which a loss counts as that share, as in memory.
_LEAST = 1e-6


@dataclass(frozen=True)
class FitWeights:
    """Weights that a rule makes of a fit: ``level / kappa``, and one number where kappa is zero."""

    rule: WeightRule
    factor: FitFactor
    level: float
    rest: float  # weight of records that cannot leak: the geometric mean of all others

    @classmethod
    def of(cls, rule: WeightRule, factor: FitFactor, objective: Objective) -> Self:
        """Weights whose sum is that of the sample weights; one pass, several if bounded."""
        level, rest = level_of(rule, factor, objective)
        return cls(rule, factor, level, rest)

    def __call__(self, X: FloatArray, y: FloatArray, copies: FloatArray) -> FloatArray:
        """Weights of a block of records, (b,), by their sample weights; one for those absent."""
        kappa = self.rule.norms(self.factor, X, y)
        weights = np.where(kappa > 0.0, self.rule.weights(kappa, self.level), self.rest)
        return np.where(copies > 0.0, weights, 1.0)


@dataclass(frozen=True)
class Coordinates:
    """Fits as vectors, ``[F^-1 dw, F^T dH F]``, relative to a fit with ``A = F F^T``."""

    origin: FitFactor
    root: FloatArray  # ``F``, (p, p)

    @classmethod
    def of(cls, origin: FitFactor) -> Self:
        """Relative to a fit."""
        return cls(origin, hessian_root(origin.inverse_hessian))

    @property
    def start(self) -> FloatArray:
        """Vector of the fit to which all are relative, of shape (size,)."""
        p = len(self.root)
        return np.zeros(p + p * (p + 1) // 2)

    def pack(self, factor: FitFactor) -> FloatArray:
        """Vector of a fit, of shape (size,)."""
        gap = factor.coefficients - self.origin.coefficients
        moved = np.asarray(np.linalg.solve(self.root, gap), dtype=np.float64)
        half = np.linalg.solve(self.root, factor.inverse_hessian)
        hessian = np.linalg.inv(np.linalg.solve(self.root, half.T))
        hessian[np.diag_indices_from(hessian)] -= 1.0
        return packed(moved, 0.5 * (hessian + hessian.T))

    def unpack(self, point: FloatArray) -> FitFactor | None:
        """Fit of a vector; None where its Hessian is not positive definite."""
        moved, hessian = unpacked(point, len(self.root))
        hessian[np.diag_indices_from(hessian)] += 1.0
        try:
            half = np.linalg.solve(np.linalg.cholesky(hessian), self.root.T)
        except np.linalg.LinAlgError:
            return None
        coefficients = self.origin.coefficients + self.root @ moved
        return replace(self.origin, coefficients=coefficients, inverse_hessian=half.T @ half)


@dataclass(frozen=True)
class WeightedFit:
    """One fit of a search, judged by a rule."""

    spread: float
    reweights: Array  # factors ``omega`` of all records, or what stands for an array of them, (n,)
    minimum: Minimum
    level: float  # of what the rule makes equal
    factor: FitFactor


def _lack(balance: Balance, X: FloatArray, y: FloatArray, omega: FloatArray) -> FloatArray:
    """Return what the logarithms of the losses lack to a common constant, (b,)."""
    kappa, floor = balance.rule.norms(balance.factor, X, y), balance.level
    losses = omega * np.hypot(kappa, floor / balance.rule.largest_weight)
    leaks = (kappa > 0.0) & (omega > 0.0)
    shares = np.maximum(losses / balance.level, _LEAST)
    return -np.log(shares, out=np.zeros_like(losses), where=leaks)


# Entries of all tables up to which they are kept from product to product: 1 GB.
_KEPT_ELEMENTS = 1 << 27
# Change of the log weights of a block, from the derivatives of their norms and what is wanted.
_Column = Callable[[Gradients, FloatArray], FloatArray]
# Derivatives of the norms of a block, sample weights and weights, and what is wanted, (b,) each.
_Rows = tuple[Gradients, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class WeightSystem:
    """The equation linearized at a fit with weights; all it needs of the records are sums."""

    objective: Objective  # with the weights of the fit
    balance: Balance  # of the fit
    # By how much the logarithm of each loss is to change, up to a common constant, (n,).
    wanted: Array
    residuals: list[float] = field(default_factory=list)  # after each product, relative

    def solve(self, rtol: float) -> tuple[FloatArray, FloatArray]:
        """Change of the minimizer and of the Hessian under which the losses change so."""
        right = self._response(None)

        def product(v: FloatArray) -> FloatArray:
            return v + self._response(v)

        solution, _ = gmres(
            LinearOperator((len(right), len(right)), matvec=product, dtype=np.float64),
            right,
            rtol=rtol,
            restart=min(_LARGEST_BASIS, len(right)),
            maxiter=1,
            callback=self.residuals.append,
            callback_type="pr_norm",
        )
        return unpacked(solution, len(self.balance.root))

    def change(self, dw: FloatArray, dh: FloatArray) -> FloatArray:
        """Change of the log weights for such a solution, in memory, (n,)."""
        balance, follows = self.balance, self._following(dw, dh)
        mix, _, _ = self._moved(follows)

        def moved(g: Gradients, *aligned: FloatArray) -> FloatArray:
            return np.asarray(aligned[-1] - follows(g, aligned[-1]) - mix[1] * g.follows)

        if self._kept is not None:
            change = np.concatenate([moved(*rows) for rows in self._kept])
        else:
            change = self._blocks.map(lambda X, y, *rest: moved(balance.gradients(X, y), *rest))
        present = self.objective.sample_weight > 0.0
        change -= np.average(change, weights=self.objective.weights[present])
        found = np.zeros(len(present))
        found[present] = change
        return found

    def _following(self, dw: FloatArray, dh: FloatArray) -> _Column:
        """``J`` of a change of the fit: how the log weights of the rule follow it."""
        by_common = float(np.sum(self.balance.common * dh))
        return lambda g, _: g.effect(dw, dh, by_common)

    def _response(self, v: FloatArray | None) -> FloatArray:
        """``K`` of the log weights that follow from a change of the fit, or of those wanted."""
        if v is None:
            _, dw, dh = self._moved(_wanted, level_stays=True)
        else:
            _, dw, dh = self._moved(self._following(*unpacked(v, len(self.balance.root))))
        return packed(dw, dh if self.objective.loss.quadratic else dh + self._by_third(dw))

    def _moved(
        self, column: _Column, *, level_stays: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Change of the fit with the log weights, but for what the minimizer does to the Hessian.

        The level follows the weights, and their sum stays, to first order: returns by how much of
        each, (3,), the change of the minimizer, (p,), and of the Hessian, (p, p).
        """
        own = self._sums(column)
        parts = [own, *self._shared]
        mix = np.array([1.0, 0.0, 0.0])
        if not level_stays and parts[1][3] > 0.0:
            mix[1] = -own[3] / parts[1][3]
        mix[2] = -(own[2] + mix[1] * parts[1][2]) / parts[2][2]
        pairs = list(zip(mix, parts, strict=True))
        return mix, sum(m * part[0] for m, part in pairs), sum(m * part[1] for m, part in pairs)

    @cached_property
    def _shared(self) -> list["_Sums"]:
        """Sums for a change of the level, and for one that all log weights have in common."""
        return [self._sums(lambda g, _: g.follows), self._sums(lambda g, _: np.ones(len(g.x)))]

    def _sums(self, column: _Column) -> "_Sums":
        """Sum what a change of the log weights does; see `_sums_of`."""
        if self._kept is not None:
            return reduce(add, (_sums_of(self.balance, column, *rows) for rows in self._kept))
        balance = self.balance  # all that travels to the records

        def sums(X: FloatArray, y: FloatArray, *aligned: FloatArray) -> "_Sums":
            return _sums_of(balance, column, balance.gradients(X, y), *aligned)

        return self._blocks.map_reduce(sums, add)

    def _by_third(self, dw: FloatArray) -> FloatArray:
        """Change of the Hessian with the minimizer, (p, p)."""
        if self._kept is not None:
            return reduce(add, (_curved(g.x, t * g.third, dw) for g, _, t, _ in self._kept))
        factor, root = self.balance.factor, self.balance.root

        def sums(X: FloatArray, y: FloatArray, s: FloatArray, t: FloatArray, _: Any) -> FloatArray:
            x = factor.derivatives(X, y)[0]
            third = t * factor.loss.third_derivative(x @ factor.coefficients)
            return _curved(x @ root, third, dw)

        return self._blocks.map_reduce(sums, add)

    @cached_property
    def _kept(self) -> list[_Rows] | None:
        """Derivatives of all blocks, where there is room for them."""
        objective, balance = self.objective, self.balance
        large = 5 * len(objective.y) * len(balance.root) > _KEPT_ELEMENTS
        if large or is_large(objective.X):
            return None
        return self._blocks.map_reduce(
            lambda X, y, *aligned: [(balance.gradients(X, y), *aligned)], add
        )

    @property
    def _blocks(self) -> Blocks:
        objective, copies = self.objective, self.objective.sample_weight
        aligned = objective.y, copies, objective.weights, self.wanted
        rows = None if is_large(objective.X) else np.flatnonzero(copies > 0.0)
        return Blocks.of(objective.X, *aligned, width=4 * len(self.balance.root), rows=rows)


# Changes of the minimizer (p,) and of the Hessian (p, p), and of the sums of the weights and of
# those of the rule.
_Sums = tuple[FloatArray, FloatArray, float, float]


def _wanted(_: Gradients, wanted: FloatArray) -> FloatArray:
    return wanted


def _sums_of(
    balance: Balance,
    column: _Column,
    g: Gradients,
    s: FloatArray,
    t: FloatArray,
    wanted: FloatArray,
) -> _Sums:
    """Sum what a change of the log weights of a block does to the fit, and to all weights."""
    change = column(g, wanted)
    first, second = -(t * g.r * change) @ g.x, (g.x * (t * g.c * change)[:, None]).T @ g.x
    by_rule = s * balance.rule.weights(g.kappa, balance.level)
    return first, second, float(t @ change), float(by_rule @ change)


def _curved(x: FloatArray, third: FloatArray, dw: FloatArray) -> FloatArray:
    """``sum third (x . dw) x x^T`` of a block, (p, p)."""
    return np.asarray((x * (third * (x @ dw))[:, None]).T @ x)


# Factors, state of the fit, wanted change of the log losses, accuracy -> change of log factors.
Newton = Callable[[FloatArray, State, FloatArray, float], FloatArray]


def relative_spread(losses: FloatArray, sample_weight: FloatArray) -> float:
    """Divide the standard deviation of the losses by their mean; weights of zero do not count.

    Shapes: ``losses``, ``sample_weight`` (n,).
    """
    present = sample_weight > 0.0
    losses, weights = losses[present], sample_weight[present]
    mean = np.average(losses, weights=weights)
    if not np.isfinite(mean) or mean == 0.0:
        return 0.0 if mean == 0.0 else np.inf
    return float(np.sqrt(np.average((losses / mean - 1.0) ** 2, weights=weights)))


def equalize(
    measure: Callable[[FloatArray], tuple[FloatArray, State]],
    sample_weight: FloatArray,
    *,
    max_iter: int = 30,
    tol: float = 1e-6,
    newton: Newton[State] | None = None,
    start: FloatArray | None = None,
    patience: int | None = None,
    callback: Callable[[float], None] | None = None,
) -> Equalized[State]:
    """Find reweighting factors under which all records leak the same.

    Parameters
    ----------
    measure : callable
        Maps factors of shape (n,) to the losses of shape (n,) after a refit with them, and to
        whatever state the caller wants back. Infinite losses say that the fit is of no use.
    sample_weight : ndarray of shape (n,)
        How many times each record counts; at least one is positive.
    max_iter : int, default=30
        Largest number of refits after the first.
    tol : float, default=1e-6
        Relative spread at which to stop.
    newton : callable, default=None
        ``newton(reweights, state, residual, rtol)`` returns the change of the log factors, of
        shape (n,), under which the logarithms of the losses change by ``residual`` up to a common
        constant, to a relative accuracy of ``rtol``: see `newton_direction`. None is the plain
        iteration of [FIL21].
    start : ndarray of shape (n,), default=None
        Factors of the first fit; by default ones.
    patience : int, default=None
        Stop as well where that many refits have not halved the spread.
    callback : callable, default=None
        Called with the spread after every refit.

    Returns
    -------
    Equalized
        The best step; whether its spread is small enough is for the caller to judge.

    Notes
    -----
    Newton steps, too, are judged by the spread after a refit. Where they do not lower it, the plain
    iteration goes on from where it was left, as if there had been none; the next search waits for
    longer, and for a better fit to begin at. A record that leaks nothing keeps its share of the
    weights, and all others end up alike.

    Examples
    --------
    Losses proportional to the weights are equalized in one step.

    >>> import numpy as np
    >>> result = equalize(lambda w: (w * np.array([1.0, 3.0]), None), np.ones(2))
    >>> result.reweights
    array([1.5, 0.5])
    """
    present = sample_weight > 0.0
    copies = sample_weight[present]

    def everyone(values: FloatArray, others: float) -> FloatArray:
        result = np.full(len(present), others)
        result[present] = values
        return result

    def at(point: FloatArray) -> Step[State]:
        largest = point.max()
        total = np.average(np.exp(point - largest), weights=copies)
        log_weights = point - largest - np.log(total)
        reweights = everyone(np.exp(log_weights), 1.0)
        losses, state = measure(reweights)
        residual = _residual(losses[present], copies)
        spread = relative_spread(losses, sample_weight)
        return Step(spread, log_weights, residual, reweights, losses, state)

    def turn(step: Step[State], rtol: float) -> FloatArray:
        assert newton is not None
        residual = everyone(step.residual, 0.0)
        return newton(step.reweights, step.state, residual, rtol)[present]

    return iterate(
        at,
        np.zeros(len(copies)) if start is None else np.log(start[present]),
        max_iter=max_iter,
        tol=tol,
        newton=None if newton is None else turn,
        patience=patience,
        callback=callback,
    )


def _residual(losses: FloatArray, copies: FloatArray) -> FloatArray:
    """Plain step: minus the deviation of ``log eta`` from its mean.

    A record that leaks very little would ask for a huge weight: its loss counts as at least one
    millionth of the mean, so that its weight grows by a bounded factor per step. To one that
    leaks nothing at all no weight makes a difference.
    """
    result, leaks = np.zeros(len(losses)), losses > 0.0
    if np.any(leaks) and np.all(np.isfinite(losses)):
        copies = copies[leaks]
        least = 1e-6 * np.average(losses[leaks], weights=copies)
        logs = np.log(np.maximum(losses[leaks], least))
        result[leaks] = np.average(logs, weights=copies) - logs
    return result


@dataclass(frozen=True)
class NewtonDirection:
    """Result of `newton_direction`."""

    change: FloatArray  # change of ``log omega``; zero for records of weight zero, (n,)
    n_products: int  # products with the linearized system, each of them one pass over the data
    residual: float  # relative residual of that system


def newton_direction(
    objective: Objective,
    factor: FitFactor,
    rule: WeightRule,
    residual: FloatArray,
    *,
    rtol: float = 1e-2,
) -> NewtonDirection:
    """Change of the log weights that would equalize the leakage, were it linear in them.

    The ``residual`` (n,) is by how much the logarithm of what is balanced (`WeightRule.losses`) is
    to change for each record, up to a common constant. Where the linear system was not solved to
    the relative residual ``rtol``, the direction may be a poor one.

    The leakage of a record that cannot leak does not answer to anything; its weight changes by
    its residual. One gradient of all norms, O(n p^2), and O(n p^2) a product; the memory is
    bounded, and where the tables of all records pass 1 GB they are computed anew in every product.
    """
    level = 1.0  # plays no part where weights are unbounded
    if np.isfinite(rule.largest_weight):
        kappa = rule.norms(factor, objective.X, objective.y)
        level = rule.level(objective.reweights, kappa, objective.sample_weight)
    system = WeightSystem(objective, Balance.of(factor, rule, level), residual)
    change = system.change(*system.solve(rtol))
    norms = system.residuals
    return NewtonDirection(change, len(norms), float(norms[-1]) if norms else 0.0)


# Refits in which a search should halve the spread, or is given up; not one of fewer in all.
_PATIENCE = 30


@dataclass
class WeightSearch(ABC):
    """The search for the weights of a rule, and the best fit that it found."""

    objective: Objective  # with the factors of the first fit
    rule: WeightRule
    plain: bool  # whether to iterate as [FIL21] does, without Newton's method
    max_iter: int  # refits after the first
    tol: float  # relative spread to reach
    minimize: Callable[..., Minimum]  # fits an objective, from a start or from none
    note: Callable[[float], None] = lambda spread: None  # told of the spread of every fit
    first: WeightedFit | None = None  # that of the objective as it is
    best: WeightedFit | None = None
    n_fits: int = 0

    @abstractmethod
    def run(self) -> None:
        """Search, until the spread is reached, no refits are left, or nothing helps."""

    @property
    def _limits(self) -> dict[str, Any]:
        """Return the limits of the search."""
        patience = None if self.plain or self.max_iter <= _PATIENCE else _PATIENCE
        return {"max_iter": self.max_iter - self.n_fits, "tol": self.tol, "patience": patience}

    def _refit(self, reweights: Array, start: FloatArray | None) -> Minimum | None:
        """Fit with such weights; None where there is no minimum, but a fit to go back to."""
        try:
            minimum = self.minimize(self.objective.reweighted(reweights), start=start)
        except SingularHessianError:
            if not self._may_turn_back:
                raise
            minimum = None
        if minimum is None or (not minimum.converged and self._may_turn_back):
            self._count(np.inf)
            return None
        return minimum

    @property
    def _may_turn_back(self) -> bool:
        """True if there is a fit to go back to, and a method that does."""
        return not self.plain and self.best is not None and self.best.minimum.converged

    def _keep(self, fit: WeightedFit) -> None:
        self.first = self.first or fit
        if self.best is None or fit.spread < self.best.spread:
            self.best = fit
        self._count(fit.spread)

    def _count(self, spread: float) -> None:
        self.n_fits += 1
        self.note(spread)


@dataclass
class RecordSearch(WeightSearch):
    """The search among a number for each record, which are held in memory."""

    last: FloatArray | None = None  # coefficients of the last fit

    def run(self) -> None:
        """Search from the weights of the objective."""
        objective = self.objective
        start, newton = objective.reweights, None if self.plain else self._newton
        copies = objective.sample_weight
        equalize(self._measure, copies, newton=newton, start=start, **self._limits)

    def _measure(self, reweights: FloatArray) -> tuple[FloatArray, Minimum]:
        """Measure what the rule balances, after a refit."""
        objective, copies = self.objective, self.objective.sample_weight
        minimum = self._refit(reweights, self.last)
        if minimum is None:
            assert self.best is not None
            return np.full(len(objective.y), np.inf), self.best.minimum
        self.last = minimum.coefficients
        factor = FitFactor.of(objective, minimum)
        kappa = self.rule.norms(factor, objective.X, objective.y)
        losses = self.rule.losses(reweights, kappa, copies)
        leaks = (copies > 0.0) & (losses > 0.0)
        level = float(losses[leaks].mean()) if leaks.any() else 0.0
        spread = relative_spread(losses, copies)
        self._keep(WeightedFit(spread, reweights, minimum, level, factor))
        return losses, minimum

    def _newton(
        self, reweights: FloatArray, minimum: Minimum, residual: FloatArray, rtol: float
    ) -> FloatArray:
        objective = self.objective.reweighted(reweights)
        factor = FitFactor.of(self.objective, minimum)
        return newton_direction(objective, factor, self.rule, residual, rtol=rtol).change


@dataclass
class FitSearch(WeightSearch):
    """The search among weights that are functions of a fit: all it needs of records are sums."""

    coordinates: Coordinates = field(init=False)  # relative to the fit without weights

    def run(self) -> None:
        """Search from the fit without weights, which is the first."""
        fit = self._judged(self.objective.reweights, self.minimize(self.objective))
        self._keep(fit)
        self.coordinates = Coordinates.of(fit.factor)
        if fit.spread > self.tol and self.n_fits <= self.max_iter:
            newton, start = None if self.plain else self.turn, self.coordinates.start
            iterate(self.at, start, newton=newton, **self._limits)

    def _judged(self, reweights: Array, minimum: Minimum) -> WeightedFit:
        factor = FitFactor.of(self.objective, minimum)
        losses, level = losses_under(self.rule, factor, self.objective, reweights)
        return WeightedFit(losses.spread, reweights, minimum, level, factor)

    def at(self, point: FloatArray) -> Step[WeightedFit | None]:
        """Fit with the weights of a fit, (size,)."""
        origin = self.coordinates.unpack(point)
        minimum = None
        if origin is not None:
            weights = FitWeights.of(self.rule, origin, self.objective)
            records = self.objective.X, self.objective.y, self.objective.sample_weight
            reweights = Blocks.of(*records).map(weights)
            reweights = keep(reweights) if is_large(reweights) else reweights
            minimum = self._refit(reweights, origin.coefficients)
        if minimum is None:
            return Step(np.inf, point, np.zeros(len(point)), point, _NOT_HELD, None)
        fit = self._judged(reweights, minimum)
        self._keep(fit)
        residual = self.coordinates.pack(fit.factor) - point
        return Step(fit.spread, point, residual, point, _NOT_HELD, fit)

    def turn(self, step: Step[WeightedFit | None], rtol: float) -> FloatArray:
        """Newton's direction at a fit, of shape (size,)."""
        assert step.state is not None
        balance = Balance.of(step.state.factor, self.rule, step.state.level)
        objective = self.objective.reweighted(step.state.reweights)
        records = objective.X, objective.y, objective.reweights
        wanted = Blocks.of(*records, width=len(balance.root)).map(partial(_lack, balance))
        moved, hessian = WeightSystem(objective, balance, wanted).solve(rtol)
        # From the coordinates of this fit to those of the search.
        turn = np.linalg.solve(balance.root, self.coordinates.root)
        change = np.linalg.solve(self.coordinates.root, balance.root @ moved)
        return step.residual + packed(np.asarray(change), turn.T @ hessian @ turn)
