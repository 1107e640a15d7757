"""Sums of the clipped gradients of a linear model in integers, the same in whatever order.

The gradient of a record is ``r x~^T``. A record is rounded to integers times a power of two of its
own, and what its clipped gradient multiplies it by to an integer: the product is a vector of
integers, whose norm is held to a public bound exactly. Doubles hold integers up to 2^53 exactly, so
products of matrices of integers are exact, in any order, as long as no sum can pass that: larger
integers are cut into digits. What a record adds is hence a function of it and of public numbers
alone: neither round-off nor the other members of a batch have a part in it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skleak.utils._typing import Array, Data, FloatArray

# Bits of an integer that a double holds, and of the exponents of powers of two that it holds.
_MANTISSA, _LARGEST_SHIFT = 53, 1000
# Share by which norms are held below their bound, far above the rounding of what compares them.
_CAUTION = 2.0**-39


@dataclass(frozen=True)
class SumGrid:
    """What noisy sums of clipped gradients are counted in: public numbers.

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
