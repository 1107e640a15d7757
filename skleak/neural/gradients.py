"""Clipped gradients of every record, and what they reveal of it: one interface of all models.

Sums of the clipped gradients of a linear model in integers, the same in whatever order.

The gradient of a record is ``r x~^T``. A record is rounded to integers times a power of two of its
own, and what its clipped gradient multiplies it by to an integer: the product is a vector of
integers, whose norm is held to a public bound exactly. Doubles hold integers up to 2^53 exactly, so
products of matrices of integers are exact, in any order, as long as no sum can pass that: larger
integers are cut into digits. What a record adds is hence a function of it and of public numbers
alone: neither round-off nor the other members of a batch have a part in it.

Gradients of a generalized linear model, and what they reveal, in closed form:

With predictors ``a = W x + b``, the gradient of a record's loss is ``r x~^T`` with the residual r,
(K,), and ``x~ = [x, 1]``. Its norm is ``N = R m`` with ``R = |r|``, ``m = |x~|``, its direction e
that of ``r^ x~^T``, ``r^ = r / R``. Clipping, ``g / h(N)``, divides changes across e by h, and
those along e by ``h^2 / (h - N h')``. With H the curvature, T the derivative of r with respect to
the target, ``U = [H W, T]`` and P the projection on the columns (not the target), the projections
of its derivative along e and across it give

    G^T M G = B [R^2 (P - x x^T / m^2) + m^2 U^T (I - r^ r^^T) U] + A v v^T,
    v = R x / m + m U^T r^,    A = along (1 - N h' / h)^2 / h^2,    B = across / h^2.

Where r vanishes so does ``r^``, e is any direction, and A = B.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy import linalg, sparse
from scipy.special import ndtr

from skleak.losses import PointwiseLoss, SoftmaxLoss
from skleak.utils._arguments import check_choice, check_scalar
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import Array, Data, FloatArray

# Largest norm under smooth clipping over C: the maximum of u / (GELU(u - 1) + 1), 1.115218908...
# at u = 1.5487, rounded upward. It covers the form of GELU with tanh, too (1.11524).
_SMOOTH_SENSITIVITY = 1.11524
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class Clipping:
    """Divide the gradient of a record by a function h of its norm N.

    Smooth clipping ([DRA22] section 6.1) has ``h = GELU(N / C - 1) + 1`` with
    ``GELU(x) = x Phi(x)``: norms stay below 1.11522 C, and not below C. Hard clipping has
    ``h = max(N / C, 1)``; it has no Fisher information.

    Attributes
    ----------
    name : {"smooth", "hard"}
        The kind.
    max_grad_norm : float
        C, in units of the gradient.

    Examples
    --------
    >>> Clipping("smooth", 2.0).divisor(np.array([0.0, 2.0, 200.0])).round(3)
    array([  0.841,   1.   , 100.   ])
    """

    name: Literal["smooth", "hard"]
    max_grad_norm: float

    @property
    def smooth(self) -> bool:
        """True if the clipped gradient is differentiable, and so has a Fisher information."""
        return self.name == "smooth"

    @property
    def sensitivity(self) -> float:
        """Upper bound on the norm of a clipped gradient: how far one record can move the sum."""
        return self.max_grad_norm * (_SMOOTH_SENSITIVITY if self.smooth else 1.0)

    def divisor(self, norms: FloatArray) -> FloatArray:
        """h, at least 0.83; the clipped gradient is ``g / h(N)``. Shapes: (n,), returns (n,)."""
        if not self.smooth:
            return np.maximum(norms / self.max_grad_norm, 1.0)
        x = norms / self.max_grad_norm - 1.0
        return np.asarray(x * ndtr(x) + 1.0)

    def slope(self, norms: FloatArray) -> FloatArray:
        """dh/dN, of hard clipping almost everywhere. Shapes: (n,), returns (n,)."""
        if not self.smooth:
            return np.where(norms > self.max_grad_norm, 1.0 / self.max_grad_norm, 0.0)
        x = norms / self.max_grad_norm - 1.0
        with np.errstate(over="ignore", under="ignore"):
            density = np.exp(-0.5 * x * x) / _SQRT_2PI
        return np.asarray(ndtr(x) + x * density) / self.max_grad_norm

    def factors(self, norms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Multiply changes of a gradient along it and across it by these, (n,) each."""
        h = self.divisor(norms)
        return (1.0 - norms * self.slope(norms) / h) / h, 1.0 / h


def make_clipping(name: Literal["smooth", "hard"], max_grad_norm: float) -> Clipping:
    """Return the clipping of that name, with its arguments checked."""
    check_choice("clipping", name, ("smooth", "hard"))
    return Clipping(name, check_scalar("max_grad_norm", max_grad_norm, low_open=True, finite=True))


def check_smooth(clipping: Clipping) -> None:
    """Refuse to ask for the information of gradients that have no derivative."""
    if not clipping.smooth:
        raise ValueError(
            "Gradients under hard clipping have no derivative where they reach the clipping norm, "
            "and no Fisher information. Use `clipping='smooth'`."
        )


# Bits of an integer that a double holds, and of the exponents of powers of two that it holds.
_MANTISSA, _LARGEST_SHIFT = 53, 1000
# Share by which norms are held below their bound, far above the rounding of what compares them.
_CAUTION = 2.0**-39


@dataclass(frozen=True)
class SumGrid:
    """Public numbers in which noisy sums of clipped gradients are counted.

    Parameters
    ----------
    log2_scale : int
        Binary logarithm of the standard deviation of the noise, in units.
    unit : float
        One unit, in those of the gradient.
    longest : int
        Largest norm of what one record adds, in units.
    """

    log2_scale: int
    unit: float
    longest: int


class IntegerRows:
    """Records rounded to integers times a power of two each, with the constant of the intercept.

    Shapes: X (b, d), dense or CSR.
    """

    def __init__(self, X: Data, fit_intercept: bool) -> None:
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()  # in place
        width = int(X.shape[1]) + fit_intercept
        self._room = _MANTISSA - _log2_ceil(width)
        # Squares add up below 2^53.
        self._bits = self._room // 2
        largest = _largest_entries(X)
        if fit_intercept:
            largest = np.maximum(largest, 1.0)
        # Row i stands for integers times 2^-shift_i.
        self.shift = np.minimum(self._bits - np.frexp(largest)[1], _LARGEST_SHIFT)
        scale = np.ldexp(1.0, self.shift)
        if sparse.issparse(X):
            data = np.rint(X.data * np.repeat(scale, np.diff(X.indptr)))
            self._values = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
            squares = np.ravel(self._values.multiply(self._values).sum(axis=1))
        else:
            self._values = np.rint(X * scale[:, None])
            squares = np.einsum("ij,ij->i", self._values, self._values)
        self._constants = np.rint(scale) if fit_intercept else np.zeros(len(scale))
        self.norms = np.sqrt(squares + self._constants**2)  # in their own units

    def predictors(self, weights: FloatArray) -> FloatArray:
        """Predictors without intercept, (b, K), of weights (K, d) rounded to 2^-40 or less."""
        digit = self._room - self._bits
        exponent = int(np.frexp(np.abs(weights).max(initial=0.0))[1])
        whole = np.rint(np.ldexp(weights, 2 * digit - exponent))
        high = np.floor(np.ldexp(whole, -digit))
        low = whole - np.ldexp(high, digit)
        products = np.asarray(self._values @ np.concatenate([high, low]).T)
        k = len(weights)
        sums = np.ldexp(products[:, :k], digit) + products[:, k:]
        return np.ldexp(sums, exponent - 2 * digit - self.shift[:, None])

    def weighted_sum(self, factors: FloatArray, grid: SumGrid) -> Array:
        """Sum of ``factors_i x~_i`` in units, (K, d + 1) of int64, with norms held to the bound.

        Shapes: ``factors`` (b, K), in units of the gradient.
        """
        whole = np.rint(np.ldexp(factors, -self.shift[:, None]) / grid.unit)
        sizes = np.linalg.norm(whole, axis=1) * self.norms
        # Whatever floating point came to: no record adds what the bound does not hold.
        whole[~((sizes > 0.0) & np.isfinite(sizes))] = 0.0
        beyond = sizes * (1.0 + 0.5 * _CAUTION) > grid.longest
        # Towards zero, so that norms can only fall.
        share = (1.0 - _CAUTION) * grid.longest / sizes[beyond]
        whole[beyond] = np.trunc(whole[beyond] * share[:, None])
        # Norms of records are above this power of two, but for records of nearly nothing.
        largest = grid.longest >> max(self._bits - 1, 0)
        return self._products(np.clip(whole, -largest, largest).astype(np.int64), largest)

    def _products(self, whole: Array, largest: int) -> Array:
        """``whole^T [values, constants]`` of integers (b, K) that are at most the largest."""
        digit = _MANTISSA - self._bits - _log2_ceil(len(whole))
        n_digits = max(1, -(-largest.bit_length() // digit))
        digits = [(whole >> (digit * j)) & ((1 << digit) - 1) for j in range(n_digits - 1)]
        digits.append(whole >> (digit * (n_digits - 1)))  # with the sign
        table = np.concatenate(digits, axis=1).astype(np.float64)
        products = np.column_stack([(self._values.T @ table).T, self._constants @ table])
        parts = products.astype(np.int64).reshape(n_digits, whole.shape[1], -1)
        return np.asarray(sum(part << (digit * j) for j, part in enumerate(parts)))


def _largest_entries(X: Data) -> FloatArray:
    """Largest absolute entry of each row, (b,)."""
    if sparse.issparse(X):
        return abs(X).max(axis=1).toarray().ravel() if X.shape[0] else np.zeros(0)
    return np.maximum(X.max(axis=1, initial=0.0), -X.min(axis=1, initial=0.0))


def _log2_ceil(number: int) -> int:
    """Least integer whose power of two is not below a number."""
    return max(number - 1, 0).bit_length()


Part: TypeAlias = Literal["trace", "plain", "norm", "matrix"]
# From norms of clipped gradients, (n,), to the factors of the information along and across them.
Weigh: TypeAlias = Callable[[FloatArray], tuple[Any, Any]]
# From weights of the entries of gradients, (T, p), to the derivative of the weighted sum by the
# record, (d,).
Pullback: TypeAlias = Callable[[FloatArray], FloatArray]
# From a record (d,) and its target to its gradients at T steps, (T, p), and their pullback.
StepGradients: TypeAlias = Callable[[FloatArray, float], tuple[FloatArray, Pullback]]


class Gradients(ABC):
    """Clipped gradients of the loss of every record, at the current parameters.

    Training sets ``parameters`` after each step. Records ``X`` have shape (n, ...) with d entries
    each, ``y`` shape (n,): class numbers 0, ..., K - 1 as integers, or targets as floats.

    Attributes
    ----------
    clipping : Clipping
        How gradients are clipped, and their largest norm.
    closed_form : bool
        Whether the exact information of every record at every step is cheap.
    """

    closed_form: ClassVar[bool] = False
    clipping: Clipping

    @property
    def has_cheap_norm(self) -> bool:
        """Return True if the largest eigenvalue of every record at every step is cheap, too."""
        return False

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of parameters p, over all tensors of the model."""

    @property
    @abstractmethod
    def parameters(self) -> FloatArray:
        """The current parameters, flat, float64, of shape (p,); a copy."""

    @parameters.setter
    @abstractmethod
    def parameters(self, values: FloatArray) -> None: ...

    @abstractmethod
    def clipped_sum(
        self, X: Array, y: Array, grid: SumGrid | None = None
    ) -> tuple[Array, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,).

        With a grid, which models in closed form have, the sum is exact, in its units, of int64:
        what a record adds is a vector of integers of norm at most ``grid.longest``, a function of
        the record and of the parameters alone. No records give zeros and no losses. Losses or
        gradients that are NaN or infinite raise FloatingPointError.
        """

    @abstractmethod
    def information(
        self,
        X: Array,
        y: Array,
        weigh: Weigh,
        *,
        parts: Collection[Part],
        n_probes: int | None = None,
        rng: np.random.Generator | None = None,
        private_target: bool = True,
    ) -> dict[str, FloatArray]:
        """Parts of ``G^T M G`` of every record, per unit of the noise.

        G is the Jacobian of the clipped gradient with respect to the record (and its target, last,
        with ``private_target``), ``M = along e e^T + across (I - e e^T)`` with e the direction of
        the gradient, and ``(along, across) = weigh(norms)``, each (n,), of the norms of the clipped
        gradients. Where the gradient vanishes e is any direction, and the two factors are equal.

        Shapes: X (n, ...), y (n,); returns for each name of ``parts``: "trace" (n,), "plain" (n,),
        the trace of ``G^T G`` without M, "matrix" (n, u, u) for u unknowns, and, of models with
        `has_cheap_norm`, "norm" (n,), its largest eigenvalue. With ``n_probes`` None all are exact;
        else "trace" and "plain" are unbiased estimates by so many Rademacher probes of
        ``M^(1/2) G``, fresh for every record and call, drawn from ``rng``. A class label counts as
        K - 1 unknowns for K > 2 classes, and as one for two; its derivative is formal.
        """

    def information_along(
        self, path: FloatArray, X: Array, y: Array, weigh: Weigh, private_target: bool
    ) -> FloatArray:
        """Sum the matrices of `information` over parameters (T, p), (n, u, u)."""
        u, before = self.n_unknowns(X, private_target), self.parameters
        total = np.zeros((X.shape[0], u, u))
        try:
            for self.parameters in path:
                found = self.information(
                    X, y, weigh, parts=["matrix"], private_target=private_target
                )
                total += found["matrix"]
        finally:
            self.parameters = before
        return total

    @abstractmethod
    def at_steps(self, path: FloatArray) -> StepGradients:
        """Clipped gradients of a record as a function of it, at parameters (T, p)."""

    def guess_record(self, signals: FloatArray) -> FloatArray | None:
        """Guess of a record, (d,), in closed form from noisy gradients (T, p), or None."""
        return None

    @abstractmethod
    def n_unknowns(self, X: Array, private_target: bool) -> int:
        """Return the number of entries of a record, with its target's where it is private."""

    @abstractmethod
    def predict_raw(self, X: Array) -> FloatArray:
        """Return the outputs of the model, (n, n_outputs): log-odds, class scores, or a number."""


def clipped_steps(clipping: Clipping, at: StepGradients) -> StepGradients:
    """Clip gradients that come as they are, with their derivative.

    The derivative of ``u.g / h(N)`` is that of g, weighted by ``u / h - (u.g) h' / (h^2 N) g``.
    """

    def clipped(record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
        raw, pull = at(record, target)
        norms = np.sqrt(np.einsum("tp,tp->t", raw, raw))
        h = clipping.divisor(norms)
        # Where the gradient vanishes, so does what this weighs.
        bend = clipping.slope(norms) / (h**2 * np.where(norms > 0.0, norms, 1.0))

        def pullback(u: FloatArray) -> FloatArray:
            return pull(u / h[:, None] - (np.einsum("tp,tp->t", u, raw) * bend)[:, None] * raw)

        return raw / h[:, None], pullback

    return clipped


_MAX_STEPS = 60


def largest_root(poles: FloatArray, squares: FloatArray) -> FloatArray:
    """Largest eigenvalue of ``diag(poles) + z z^T`` with ``squares = z^2``, never below it.

    With t the distance to the largest pole and ``d_k`` the gaps below it, t solves

        t = sum_k z_k^2 t / (t + d_k),

    the right side being concave. Newton's method from ``t = |z|^2`` comes down on the root and
    never passes it, so that stopping early errs upward.

    Shapes: ``poles`` (k, n); ``squares`` (k, n); returns (n,).
    """
    top = poles.max(axis=0)
    gaps = top - poles
    total = squares.sum(axis=0)
    t = total.copy()
    for _ in range(_MAX_STEPS):
        below = t + gaps
        # At the pole itself the quotient is one, whatever the distance to it.
        share = np.divide(t, below, out=np.ones_like(below), where=gaps > 0.0)
        value = t - np.sum(squares * share, axis=0)
        change = np.divide(gaps, below**2, out=np.zeros_like(below), where=gaps > 0.0)
        slope = 1.0 - np.sum(squares * change, axis=0)
        step = np.divide(value, slope, out=np.zeros_like(t), where=slope > 0.0)
        step = np.clip(step, 0.0, t)
        t = t - step
        if np.all(step <= 4.0 * np.finfo(float).eps * (t + top)):
            break
    return np.asarray((top + t) * (1.0 + 1e-15))


class LinearGradients(Gradients):
    """Gradients of a model with one linear predictor, or one for each of more than two classes.

    Parameters
    ----------
    loss : PointwiseLoss or SoftmaxLoss
        Logistic or squared loss of one predictor, or the loss of ``n_outputs`` of them.
    clipping : Clipping
        How gradients are clipped.
    n_features : int
        Number of columns d.
    n_outputs : int, default=1
        Number of predictors K.
    fit_intercept : bool, default=True
        Whether predictors have an intercept, which is clipped with the rest.
    """

    closed_form: ClassVar[bool] = True

    def __init__(
        self,
        loss: "PointwiseLoss | SoftmaxLoss",
        clipping: Clipping,
        n_features: int,
        n_outputs: int = 1,
        fit_intercept: bool = True,
    ) -> None:
        self.loss, self.clipping, self.fit_intercept = loss, clipping, fit_intercept
        self._weights = np.zeros((n_outputs, n_features))
        self._intercept = np.zeros(n_outputs)
        # Directions of the target: a number, or the simplex of class probabilities.
        self._directions = -np.ones((1, 1))
        if n_outputs > 1:
            self._directions = -linalg.null_space(np.ones((1, n_outputs)))

    @property
    def has_cheap_norm(self) -> bool:
        """Of one predictor it is the root of a secular equation."""
        return len(self._weights) == 1

    @property
    def n_parameters(self) -> int:
        """K times d, and K more with an intercept."""
        return int(self._weights.size + self.fit_intercept * len(self._weights))

    @property
    def parameters(self) -> FloatArray:
        """Weights class by class, then the intercepts, of shape (p,)."""
        kept = self._intercept if self.fit_intercept else self._intercept[:0]
        return np.concatenate([self._weights.ravel(), kept])

    @parameters.setter
    def parameters(self, values: FloatArray) -> None:
        self._weights, self._intercept = self.split(np.array(values))

    def split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (..., K, d) and intercepts (..., K), zeros without, of parameters (..., p)."""
        (k, d), lead = self._weights.shape, parameters.shape[:-1]
        weights, kept = parameters[..., : k * d], parameters[..., k * d :]
        intercept = kept if self.fit_intercept else np.zeros((*lead, k))
        return weights.reshape(*lead, k, d), intercept

    def n_unknowns(self, X: Data, private_target: bool) -> int:
        """Return the number of columns, and of directions of the target where it is private."""
        return int(X.shape[1] + private_target * self._directions.shape[1])

    def predict_raw(self, X: Data) -> FloatArray:
        """Predictors, (n, K)."""
        return np.asarray(X @ self._weights.T) + self._intercept

    def clipped_sum(
        self, X: Data, y: Array, grid: SumGrid | None = None
    ) -> tuple[Array, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,)."""
        if grid is not None:
            return self._sum_on_grid(X, y, grid)
        predictors = self.predict_raw(X)
        residual = self.residual(predictors, y)
        norms = _sizes(residual) * self._lengths(squared_norms(X))
        scaled = residual / self.clipping.divisor(norms)[:, None]
        parts = [np.ravel(np.asarray(X.T @ scaled).T)]
        if self.fit_intercept:
            parts.append(scaled.sum(axis=0))
        losses = self._of_loss("value", predictors, y)
        total = np.concatenate(parts)
        _check_finite(total, losses)
        return total, losses

    def _sum_on_grid(self, X: Data, y: Array, grid: SumGrid) -> tuple[Array, FloatArray]:
        k, d = self._weights.shape
        total, losses = np.zeros((k, d + 1), dtype=np.int64), np.empty(len(y))
        for rows in row_blocks(len(y), d + 1):
            records = IntegerRows(X[rows], self.fit_intercept)
            predictors = records.predictors(self._weights) + self._intercept
            residual = self.residual(predictors, y[rows])
            losses[rows] = self._of_loss("value", predictors, y[rows])
            _check_finite(residual, losses[rows])
            norms = np.linalg.norm(residual, axis=1) * np.ldexp(records.norms, -records.shift)
            factors = residual / self.clipping.divisor(norms)[:, None]
            total += records.weighted_sum(factors, grid)
        kept = total[:, d] if self.fit_intercept else total[:0, d]
        return np.concatenate([total[:, :d].ravel(), kept]), losses

    def information(
        self,
        X: Data,
        y: Array,
        weigh: Weigh,
        *,
        parts: Collection[Part],
        private_target: bool = True,
        **_: Any,
    ) -> dict[str, FloatArray]:
        """Parts of the information of every record; exact, whatever the number of probes."""
        check_smooth(self.clipping)
        squares, linear = squared_norms(X), np.asarray(X @ self._weights.T)
        predictors = linear + self._intercept
        record = _Records(
            X,
            self._weights,
            self._directions[:, : None if private_target else 0],
            linear,
            self.residual(predictors, y),
            self.curvature(predictors),
            squares,
            self._lengths(squares),
        )
        norms = record.sizes * record.lengths
        radial, flat = self.clipping.factors(norms)
        along, across = weigh(norms * flat)
        # A and B, and both without the factors of M.
        factors = np.asarray(along * radial**2), np.asarray(across * flat**2)
        found = {}
        if "trace" in parts or "plain" in parts:
            traces = record.traces()
            found["trace"] = factors[0] * traces[0] + factors[1] * traces[1]
            found["plain"] = radial**2 * traces[0] + flat**2 * traces[1]
        if "norm" in parts and self.has_cheap_norm:
            found["norm"] = record.norm(*factors)
        if "matrix" in parts:
            found["matrix"] = record.matrix(*factors)
        return {part: found[part] for part in parts}

    def at_steps(self, path: FloatArray) -> StepGradients:
        """Return clipped gradients ``r x~^T / h`` of a record at parameters (T, p)."""
        weights, intercepts = self.split(path)

        def at(x: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
            a = weights @ x + intercepts
            r, curvature = self.residual(a, np.full(len(a), target)), self.curvature(a)
            gradients = np.empty_like(path)
            along_x, along_one = self.split(gradients)
            along_x[...], along_one[...] = r[:, :, None] * x, r

            def pullback(u: FloatArray) -> FloatArray:
                along_x, along_one = self.split(u)
                through_a = curvature @ (along_x @ x + along_one)[:, :, None]
                both = weights * through_a + along_x * r[:, :, None]
                return np.asarray(both.sum(axis=(0, 1)))

            return gradients, pullback

        return clipped_steps(self.clipping, at)

    def guess_record(self, signals: FloatArray) -> FloatArray | None:
        """Gradient of the weights over that of the intercept, all steps taken together."""
        along_x, along_one = self.split(signals)
        total = np.sum(along_one**2)
        return np.einsum("tkd,tk->d", along_x, along_one) / total if total > 0.0 else None

    def _of_loss(self, name: str, a: FloatArray, y: Array | None = None) -> FloatArray:
        """Ask the loss at predictors (n, K); one predictor comes without its axis."""
        softmax = isinstance(self.loss, SoftmaxLoss)
        known = () if y is None else (np.asarray(y, dtype=np.float64),)
        return np.asarray(getattr(self.loss, name)(a if softmax else a[:, 0], *known))

    def residual(self, predictors: FloatArray, y: Array) -> FloatArray:
        """Residuals at predictors (n, K), of the same shape."""
        return self._of_loss("residual", predictors, y).reshape(predictors.shape)

    def curvature(self, predictors: FloatArray) -> FloatArray:
        """Second derivatives of the losses at predictors (n, K), of shape (n, K, K)."""
        found = self._of_loss("curvature", predictors)
        return found if found.ndim == 3 else found[:, None, None]

    def _lengths(self, squares: FloatArray) -> FloatArray:
        """m, from squared norms of records, (n,)."""
        return np.sqrt(squares + self.fit_intercept)


@dataclass(frozen=True)
class _Records:
    """Records at some parameters; ``G^T M G`` is ``A v v^T`` and B times what lies across."""

    X: Data  # (n, d)
    weights: FloatArray  # W, (K, d)
    targets: FloatArray  # T, (K, number of directions of the target)
    linear: FloatArray  # W x, (n, K)
    residual: FloatArray  # r, (n, K)
    curvature: FloatArray  # H, (n, K, K)
    squares: FloatArray  # |x|^2, (n,)
    lengths: FloatArray  # m, (n,)

    @cached_property
    def sizes(self) -> FloatArray:
        """R, (n,)."""
        return _sizes(self.residual)

    @cached_property
    def directions(self) -> FloatArray:
        """``r^``, (n, K); zero where the residual is, but for a single predictor."""
        if self.residual.shape[1] == 1:
            return np.where(self.residual < 0.0, -1.0, 1.0)
        return _divided(self.residual, self.sizes[:, None])

    @cached_property
    def bends(self) -> FloatArray:
        """``H r^``, (n, K)."""
        return np.einsum("nkl,nl->nk", self.curvature, self.directions)

    def traces(self) -> tuple[FloatArray, FloatArray]:
        """Traces along and across the gradient, (n,) each, from sums over classes only."""
        size, m, r, bends = self.sizes, self.lengths, self.directions, self.bends
        shares = _divided(self.squares, m**2)
        gram, labels = self.weights @ self.weights.T, r @ self.targets
        # |U^T r^|^2 and, where there are several predictors, |U|^2 less that.
        own = np.einsum("nk,kl,nl->n", bends, gram, bends) + np.sum(labels**2, axis=1)
        across = size**2 * (self.X.shape[1] - shares)
        if r.shape[1] > 1:
            whole = np.einsum("nkl,nlk->n", self.curvature @ gram, self.curvature)
            across += m**2 * np.maximum(whole + np.sum(self.targets**2) - own, 0.0)
        crossed = np.sum(self.linear * bends, axis=1)
        along = size**2 * shares + 2.0 * size * crossed + m**2 * own
        return np.maximum(along, 0.0), across

    def norm(self, along: FloatArray, across: FloatArray) -> FloatArray:
        """Largest eigenvalue for one predictor, (n,).

        That of a diagonal and one rank, in the plane of x and w, and the target's axis.
        """
        length, m, x = linalg.norm(self.weights), self.lengths, np.sqrt(self.squares)
        flat, bend = across * self.sizes**2, m * self.bends[:, 0]
        # Where there is no angle, the first axis is that of the weights.
        reach = x * length
        cosine = np.divide(self.linear[:, 0], reach, out=np.ones_like(x), where=reach > 0.0)
        cosine = np.clip(cosine, -1.0, 1.0)
        sine = np.sqrt(1.0 - cosine**2) if self.X.shape[1] > 1 else 0.0 * cosine
        shares = _divided(self.squares, m**2)
        v = np.stack(
            [
                self.sizes * np.sqrt(shares) + bend * length * cosine,
                bend * length * sine,
                m * linalg.norm(self.targets),
            ]
        )
        beside = flat if self.X.shape[1] > 1 else 0.0 * flat  # is there a direction across x?
        poles = np.stack([flat * (1.0 - shares), beside, 0.0 * flat])
        return largest_root(poles, along * v**2)

    def matrix(self, along: FloatArray, across: FloatArray) -> FloatArray:
        """All of ``G^T M G``, (n, u, u)."""
        m, r, X = self.lengths, self.directions, dense(self.X)
        n, d = X.shape
        labels = np.broadcast_to(self.targets, (n, *self.targets.shape))
        U = np.concatenate([self.curvature @ self.weights, labels], axis=2)
        own = np.einsum("nk,nku->nu", r, U)
        scaled = np.zeros_like(own)  # R x / m
        scaled[:, :d] = _divided(self.sizes[:, None] * X, m[:, None])
        v = scaled + m[:, None] * own
        U = m[:, None, None] * (U - r[:, :, None] * own[:, None, :])
        whole = np.swapaxes(U, 1, 2) @ U - scaled[:, :, None] * scaled[:, None, :]
        k = np.arange(d)
        whole[:, k, k] += (self.sizes**2)[:, None]
        whole *= across[:, None, None]
        whole += along[:, None, None] * v[:, :, None] * v[:, None, :]
        return np.asarray(whole)


def _sizes(residual: FloatArray) -> FloatArray:
    """Norms of residuals (n, K), (n,)."""
    single = residual.shape[1] == 1
    return np.abs(residual[:, 0]) if single else np.linalg.norm(residual, axis=1)


def _check_finite(gradients: FloatArray, losses: FloatArray) -> None:
    if not (np.isfinite(gradients).all() and np.isfinite(losses).all()):
        raise FloatingPointError("the loss or the gradient of a record is not finite")


def squared_norms(X: Data) -> FloatArray:
    """Squared norms of records (n, d), dense or CSR, (n,)."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.ravel(squares)


def _divided(a: FloatArray, b: FloatArray) -> FloatArray:
    """Quotient, zero where the divisor is: of a record whose entries vanish."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0.0)
