"""Candidates of a canary, and results of the search.

Gradients of all candidates of a token, by their inner products: never M times p numbers.

The secret token is the last of its sequence: the model never reads it, and with the logits z of the
position before, the loss is ``rest(w) + logsumexp(z) - z_m``. Its gradient under candidate m is
``g_m = a - v_m``: a common part, less the gradient of one logit. Where the logits are
``z_m = W_m . h + bias_m``, with e_m the row of the candidate in W and in the bias,

    v_m = kappa u_m + sum_j W_mj b_j,    kappa u_m = (h at row m of W, 1 at entry m of the bias),

with u_m orthonormal and b_j the gradient of ``h_j``. All inner products follow from those of the
d + 1 vectors ``(a, b_1, ..., b_d)`` among each other and with the u_m.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import softmax

from skleak.bounds import gdp_advantage, renyi_fano_advantage
from skleak.bounds.priors import advantage_to_success, success_to_advantage
from skleak.metrics import binomial_interval, verdict
from skleak.metrics.verdicts import simultaneous_confidence_level
from skleak.neural.gradients import Clipping
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Orders over which the generalized Fano bound is minimized.
_ORDERS = np.concatenate([[1.0], 1.0 + np.geomspace(1e-3, 255.0, 200)])
# Names in the order of the results, from the smallest.
BOUNDS = ("tradeoff", "generalized_fano", "fano_order_1")


def divergence(clipping: Clipping, n_steps: int, noise_multiplier: float) -> float:
    """Kullback-Leibler divergence of the releases under two tokens, at most, in nats.

    A step adds noise to a gradient that another token moves by at most twice the sensitivity S:
    ``2 T (S / (sigma C))^2`` after T steps, with hard clipping ``2 T / sigma^2``, the axis of
    [FANO23] 6.3; the divergence of order a is a times as large.
    """
    return 2.0 * _steps(clipping, n_steps, noise_multiplier) ** 2


def success_bounds(
    clipping: Clipping, n_steps: int, noise_multiplier: float, n_candidates: int
) -> dict[str, float]:
    """Bounds on the success of any attack, by name, from public quantities alone.

    Of the trade-off bound the reference is the run without the canary: no step of it is farther
    from that of a token than S, by GDP composition ``sqrt(T) S / (sigma C)`` in all.
    """
    epsilon = divergence(clipping, n_steps, noise_multiplier)
    mu = _steps(clipping, n_steps, noise_multiplier)
    advantages = (
        gdp_advantage(2.0 * mu, n_candidates, reference_mu=mu),
        renyi_fano_advantage(epsilon * _ORDERS, _ORDERS, n_candidates, refine=False),
        renyi_fano_advantage(epsilon, 1.0, n_candidates, refine=False),
    )
    successes = (float(advantage_to_success(each, n_candidates)) for each in advantages)
    return dict(zip(BOUNDS, successes, strict=True))


def _steps(clipping: Clipping, n_steps: int, noise_multiplier: float) -> float:
    """``sqrt(T) S / (sigma C)``, infinite without noise."""
    noise = noise_multiplier * clipping.max_grad_norm
    return float(np.sqrt(n_steps) * clipping.sensitivity / noise) if noise > 0.0 else np.inf


# Of the standard error of a simulated value, so many are allowed for in a verdict.
_ERRORS = 4.0


@dataclass(frozen=True)
class Training:
    """Rules of private SGD on one sequence, all of them public."""

    clipping: Clipping
    n_steps: int
    learning_rate: float


@dataclass(frozen=True)
class Played:
    """Games at one noise level; secrets and guesses are places among the candidates."""

    noise_multiplier: float
    secrets: IntArray  # (n_games,)
    guesses: dict[str, IntArray]  # by attack, (n_games,)
    top: FloatArray  # largest posterior probability, (n_games,); empty without that attack
    bayes: tuple[float, float]  # success of the best attack and its standard error, or NaN


def game_table(played: list[Played], candidates: IntArray) -> pd.DataFrame:
    """One row for each noise level and game."""
    parts = []
    for level in played:
        start = {"noise_multiplier": level.noise_multiplier, "secret": candidates[level.secrets]}
        guesses = {f"guess_{name}": candidates[each] for name, each in level.guesses.items()}
        top = {"top_posterior": level.top} if len(level.top) else {}
        parts.append(pd.DataFrame({**start, **guesses, **top}))
    return pd.concat(parts, ignore_index=True)


def result_table(
    played: list[Played], training: Training, n_candidates: int, confidence_level: float
) -> pd.DataFrame:
    """One row for each noise level and attack."""
    n_rows = sum(len(level.guesses) for level in played)
    strict = simultaneous_confidence_level(confidence_level, n_rows)
    rows = []
    for level in played:
        public = (training.clipping, training.n_steps, level.noise_multiplier)
        bounds = success_bounds(*public, n_candidates)
        value, error = level.bayes
        tightest = np.nanmin([value + _ERRORS * error, *bounds.values()])
        for name, guesses in level.guesses.items():
            counts = int(np.sum(guesses == level.secrets)), len(guesses)
            success = binomial_interval(*counts, confidence_level)
            gained = [float(success_to_advantage(end, n_candidates)) for end in success]
            judged = binomial_interval(*counts, strict)
            rows.append(
                {
                    "noise_multiplier": level.noise_multiplier,
                    "n_steps": training.n_steps,
                    "epsilon": divergence(*public),
                    "attack": name,
                    **_interval_columns("success", success),
                    "baseline": 1.0 / n_candidates,
                    **_interval_columns("advantage", gained),
                    "verdict": verdict(judged.low, judged.high, min(tightest, 1.0)),
                    "n_games": counts[1],
                    "bayes": value,
                    "bayes_error": error,
                    **bounds,
                }
            )
    return pd.DataFrame(rows)


def _interval_columns(name: str, interval: Sequence[float]) -> dict[str, float]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))


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
    return np.asarray(softmax(log_likelihood, axis=-1).max(axis=-1))
