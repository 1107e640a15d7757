"""Where noise and batches come from: the operating system, or a seed that can be replayed."""

import os
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from skleak.mechanisms import dyadic_discrete_gaussian
from skleak.utils._random import make_generator
from skleak.utils._typing import FloatArray, IntArray, RandomState


class Source(ABC):
    """Random numbers of a run.

    Attributes
    ----------
    generator : numpy.random.Generator
        For what need not be secret: initial weights, probes, which steps are counted.
    """

    generator: np.random.Generator

    @abstractmethod
    def normal(self, size: int) -> FloatArray:
        """Return the standard normal numbers, (size,), in floating point."""

    def integers(self, log2_scale: int, size: int) -> IntArray:
        """Return normal numbers of standard deviation ``2^log2_scale``, rounded, (size,)."""
        return np.rint(np.ldexp(self.normal(size), log2_scale)).astype(np.int64)

    @abstractmethod
    def uniform(self, size: int) -> FloatArray:
        """Uniform numbers in [0, 1), (size,)."""

    def members(self, n: int, rate: float) -> IntArray:
        """Draw a batch to which each of n records belongs with probability ``rate``, sorted."""
        return np.flatnonzero(self.uniform(n) < rate)

    def subset(self, n: int, size: int) -> IntArray:
        """Draw a batch of a fixed size without replacement, sorted."""
        return np.sort(np.argpartition(self.uniform(n), size - 1)[:size])


class SecretSource(Source):
    """The cryptographic randomness of the operating system."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()

    def normal(self, size: int) -> FloatArray:
        """By inversion, with a bit for the sign and 63 for the tail."""
        bits = _words(size)
        tail = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
        signs = np.where(bits & np.uint64(1), 1.0, -1.0)
        return np.asarray(signs * ndtri(tail))

    def integers(self, log2_scale: int, size: int) -> IntArray:
        """Return discrete Gaussian numbers of that scale, drawn exactly, (size,)."""
        return dyadic_discrete_gaussian(log2_scale, size)

    def uniform(self, size: int) -> FloatArray:
        """53 bits each."""
        return (_words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def members(self, n: int, rate: float) -> IntArray:
        """Draw a batch, with a probability that is rounded down by at most 2^-64: more private."""
        limit = int(Fraction(rate) * 2**64)
        if limit == 2**64:
            return np.arange(n)
        return np.flatnonzero(_words(n) < np.uint64(limit))

    def subset(self, n: int, size: int) -> IntArray:
        """Draw a batch by the smallest of n words; again where two at its border are equal."""
        while True:
            words = _words(n)
            order = np.argpartition(words, [size - 1, min(size, n - 1)])
            chosen, next_word = order[:size], words[order[min(size, n - 1)]]
            if size == n or words[order[size - 1]] < next_word:
                return np.sort(chosen)


class SeededSource(Source):
    """A generator: for experiments, as whoever has the seed has the noise."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._secret, self.generator = generator.spawn(2)

    def normal(self, size: int) -> FloatArray:
        """Return the standard normal numbers of the generator."""
        return self._secret.normal(size=size)

    def uniform(self, size: int) -> FloatArray:
        """Uniform numbers of the generator."""
        return self._secret.random(size)


def _words(size: int) -> npt.NDArray[np.uint64]:
    """Random words of 64 bits of the operating system, (size,)."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def make_sources(random_state: RandomState, n_runs: int) -> list[Source]:
    """One independent source for each run; from the operating system for None."""
    if random_state is None:
        return [SecretSource() for _ in range(n_runs)]
    return [SeededSource(child) for child in make_generator(random_state).spawn(n_runs)]
