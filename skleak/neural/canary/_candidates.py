"""Gradients of all candidates of a token, by their inner products: never M times p numbers.

The secret token is the last of its sequence: the model never reads it, and with the logits z of the
position before, the loss is ``rest(w) + logsumexp(z) - z_m``. Its gradient under candidate m is
``g_m = a - v_m``: a common part, less the gradient of one logit. Where the logits are
``z_m = W_m . h + bias_m``, with e_m the row of the candidate in W and in the bias,

    v_m = kappa u_m + sum_j W_mj b_j,    kappa u_m = (h at row m of W, 1 at entry m of the bias),

with u_m orthonormal and b_j the gradient of ``h_j``. All inner products follow from those of the
d + 1 vectors ``(a, b_1, ..., b_d)`` among each other and with the u_m.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.neural.gradients import Clipping
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Entries of one table of draws and candidates.
_ENTRIES = 1 << 20


@dataclass(frozen=True)
class CandidateGradients:
    """Gradients ``g_m = sum_k c_mk s_k - kappa u_m`` of M candidates, u_m orthonormal."""

    coefficients: FloatArray  # c: 1 and -W_m for each candidate, (M, d + 1)
    length: float  # kappa, 0 where the output layer is not trained
    gram: FloatArray  # inner products of the vectors s = (a, b_1, ..., b_d), (d + 1, d + 1)
    along: FloatArray  # inner products of each s with each u, (d + 1, M)

    @property
    def n_candidates(self) -> int:
        """M."""
        return len(self.coefficients)

    @cached_property
    def norms(self) -> FloatArray:
        """Norms of the gradients, (M,)."""
        c = self.coefficients
        crossed = np.einsum("mk,km->m", c, self.along)
        squares = np.einsum("mk,mk->m", c @ self.gram, c) - 2.0 * self.length * crossed
        return np.sqrt(np.maximum(squares + self.length**2, 0.0))

    def inner_products(self, candidates: IntArray) -> FloatArray:
        """Inner products of the gradients of some candidates (n,) with those of all, (n, M)."""
        c, some = self.coefficients, self.coefficients[candidates]
        products = (some @ self.gram - self.length * self.along[:, candidates].T) @ c.T
        products -= self.length * (some @ self.along)
        products[np.arange(len(candidates)), candidates] += self.length**2
        return products

    def project_noise(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Inner products of isotropic unit noise with the gradients of all candidates, (n, M).

        Drawn in the coordinates along each u, and in those of what the vectors s have beside them.
        """
        values, vectors = np.linalg.eigh(self.gram - self.along @ self.along.T)
        beside = vectors * np.sqrt(np.maximum(values, 0.0))
        own = rng.standard_normal((n_draws, self.n_candidates))
        shared = own @ self.along.T + rng.standard_normal((n_draws, len(values))) @ beside.T
        return shared @ self.coefficients.T - self.length * own


def posterior_of_one_step(
    gradients: CandidateGradients,
    clipping: Clipping,
    noise: float,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Success of the best attack on one noisy step, with its standard error.

    The mean over releases of the largest posterior probability, uniform prior; ``noise`` is the
    standard deviation in units of the gradient. Releases are drawn through their inner products
    with the gradients, which are all that the posterior reads.
    """
    factor = 1.0 / clipping.divisor(gradients.norms)
    half = 0.5 * (factor * gradients.norms) ** 2
    top = np.empty(n_draws)
    for rows in row_blocks(n_draws, gradients.n_candidates, _ENTRIES):
        secrets = rng.integers(gradients.n_candidates, size=rows.stop - rows.start)
        signal = factor[secrets, np.newaxis] * gradients.inner_products(secrets)
        signal += noise * gradients.project_noise(len(secrets), rng)
        top[rows] = top_posterior((factor * signal - half) / noise**2)
    return float(top.mean()), float(top.std(ddof=1) / np.sqrt(n_draws))


def top_posterior(log_likelihood: FloatArray) -> FloatArray:
    """Largest posterior probability under a uniform prior. Shapes: (..., M), returns (...)."""
    highest = log_likelihood.max(axis=-1, keepdims=True)
    return np.asarray(1.0 / np.exp(log_likelihood - highest).sum(axis=-1))
