"""Discrete Gaussian noise, drawn exactly from the operating system's randomness."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache, partial

import numpy as np
import numpy.typing as npt

# OpenDP's feature flags are one set for the whole process: threads take turns in changing it.
_FLAGS = threading.Lock()
# Bits of a word, and half the width of the interval in which a comparison in doubles decides
# nothing: far more than the rounding of an exponential, and met once in 2^39 comparisons.
_WORD, _UNDECIDED = 64, 2.0**-40


def discrete_gaussian(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Draw integers z with probabilities proportional to ``exp(-z^2 / (2 scale^2))``.

    The sampler of Canonne, Kamath and Steinke (The Discrete Gaussian for Differential Privacy,
    NeurIPS 2020, algorithms 1 to 3) in OpenDP: integers and rational coin flips only, made of
    random bits of the operating system. There is no seed.

    Parameters
    ----------
    scale : float, positive and at most 2^48
        Scale parameter, in units of the integers; taken as exactly this double.
    size : int, at least 0
        Number of independent draws.

    Returns
    -------
    ndarray of int64 of shape (size,)

    Raises
    ------
    ValueError
        For a scale out of range: beyond it the tails would leave the integers of 64 bits.

    Examples
    --------
    >>> from skleak.mechanisms import discrete_gaussian
    >>> discrete_gaussian(2.0**30, 1000).shape
    (1000,)
    """
    if not 0.0 < scale <= 2.0**48:
        raise ValueError(
            f"`scale` must be positive and at most 2**48; got {scale!r}. Draw on a coarser grid."
        )
    # Loaded late: models that add no noise need no shared library.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    with _contributed_features():
        measurement = make_gaussian(
            vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=float(scale)
        )
    return np.array(measurement([0] * size), dtype=np.int64)


def dyadic_discrete_gaussian(log2_scale: int, size: int) -> npt.NDArray[np.int64]:
    """Draw integers z with probabilities proportional to ``exp(-z^2 / 2^(2 log2_scale + 1))``.

    As exact as :func:`discrete_gaussian` and fast, for scales s that are powers of two: the
    algorithm of Karney (Sampling exactly from the normal distribution, ACM TOMS 42, 2016) on
    integers. ``z = +-(k s + x)`` with k of probability proportional to ``exp(-k^2 / 2)`` and x
    uniform on 0, ..., s - 1 is kept with probability ``exp(-(x / s) (k + x / (2 s)))``, and a
    negative zero never. A word of 64 random bits begins the binary digits of a uniform number;
    where it does not decide a comparison, as in one of 2^39, further digits do, against as many
    digits of the exponential as that takes. There is no seed.

    Parameters
    ----------
    log2_scale : int, from 1 to 52
        Binary logarithm of the scale s.
    size : int, at least 0
        Number of independent draws.

    Returns
    -------
    ndarray of int64 of shape (size,)

    Raises
    ------
    ValueError
        For a scale out of range.

    Examples
    --------
    >>> from skleak.mechanisms import dyadic_discrete_gaussian
    >>> dyadic_discrete_gaussian(30, 1000).shape
    (1000,)
    """
    if not 1 <= log2_scale <= 52:
        raise ValueError(f"`log2_scale` must be an integer from 1 to 52; got {log2_scale!r}.")
    found = [np.empty(0, dtype=np.int64)]
    missing = size
    while missing > 0:
        # Seven of ten candidates are kept, whatever the scale.
        words = _words(3 * (int(1.5 * missing) + 16)).reshape(3, -1)
        blocks = _blocks(words[0])
        x = (words[1] >> np.uint64(_WORD - log2_scale)).astype(np.int64)
        negative = (words[1] & np.uint64(1)).astype(bool)  # a bit that x does not hold
        kept = _accepted(words[2], blocks, x, log2_scale) & ~(negative & (blocks + x == 0))
        z = (blocks << log2_scale) + x
        found.append(np.where(negative, -z, z)[kept])
        missing -= len(found[-1])
    return np.concatenate(found)[:size]


def _words(number: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(number * _WORD // 8), dtype=np.uint64)


def _blocks(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Integers k of probability proportional to ``exp(-k^2 / 2)``, by inversion; (n,)."""
    floors = _survival_floors()
    first, last = (np.searchsorted(floors, words, side=side) for side in ("left", "right"))
    blocks = (len(floors) - last).astype(np.int64)
    for i in np.flatnonzero(first < last).tolist():
        uniform, k = _Uniform(int(words[i])), int(blocks[i])
        while uniform.is_below(partial(_survival, k + 1)):
            k += 1
        blocks[i] = k
    return blocks


def _accepted(
    words: npt.NDArray[np.uint64],
    blocks: npt.NDArray[np.int64],
    x: npt.NDArray[np.int64],
    log2_scale: int,
) -> npt.NDArray[np.bool_]:
    """Tell of each candidate whether it is kept; all of shape (n,)."""
    share = np.ldexp(x.astype(np.float64), -log2_scale)  # exact
    gap = np.exp(-share * (blocks + 0.5 * share)) - np.ldexp(words.astype(np.float64), -_WORD)
    accepted = gap > 0.0
    for i in np.flatnonzero(np.abs(gap) < _UNDECIDED).tolist():
        numerator = int(x[i]) * ((int(blocks[i]) << (log2_scale + 1)) + int(x[i]))
        probability = partial(_exponential, numerator, 2 * log2_scale + 1)
        accepted[i] = _Uniform(int(words[i])).is_below(probability)
    return accepted


class _Uniform:
    """A uniform number in [0, 1] that begins with a word; further digits are drawn when needed."""

    def __init__(self, word: int) -> None:
        self._digits, self._n_bits = word, _WORD

    def is_below(self, value: Callable[[], Decimal]) -> bool:
        """Tell whether it is below a number in [0, 1].

        ``value`` returns that in the current decimal context, wrong by less than 10^3 of its last
        digits.
        """
        while True:
            with localcontext() as context:
                context.prec = self._n_bits // 3 + 10
                number, error = Fraction(value()), Fraction(1, 10 ** (context.prec - 4))
            shift = 1 << self._n_bits
            if self._digits + 1 <= (number - error) * shift:
                return True
            if self._digits >= (number + error) * shift:
                return False
            self._digits = (self._digits << _WORD) + int(_words(1)[0])
            self._n_bits += _WORD


def _exponential(numerator: int, log2_denominator: int) -> Decimal:
    """``exp(-numerator / 2^log2_denominator)`` in the current decimal context."""
    return (-Decimal(numerator) / Decimal(1 << log2_denominator)).exp()


def _survival(k: int) -> Decimal:
    """Probability of k or more, proportional to ``sum_{j >= k} exp(-j^2 / 2)``, in the context."""
    digits = getcontext().prec
    # Terms from here on are below a digit of the last place of the first one.
    end = k + int((4.7 * digits) ** 0.5) + 2
    weights = [(-Decimal(j * j) / 2).exp() for j in range(end)]
    return sum(weights[k:], Decimal(0)) / sum(weights)


@cache
def _survival_floors() -> npt.NDArray[np.uint64]:
    """First words of the probabilities of k or more, ascending: of k = 10, where it is 0, to 1."""
    with localcontext() as context:
        context.prec = 60
        return np.array([int(_survival(k) * 2**_WORD) for k in range(10, 0, -1)], dtype=np.uint64)


@contextmanager
def _contributed_features() -> Iterator[None]:
    """Allow OpenDP's contributed parts, and leave its flags as they were."""
    from opendp.mod import GLOBAL_FEATURES

    with _FLAGS:
        enabled = "contrib" in GLOBAL_FEATURES
        GLOBAL_FEATURES.add("contrib")
        try:
            yield
        finally:
            if not enabled:
                GLOBAL_FEATURES.discard("contrib")
