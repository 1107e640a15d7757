"""Bounds on the squared error about a number, for attackers with a prior."""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from skleak.adversary.hypotheses import N_NODES, chebyshev_coefficients, truncation_error
from skleak.adversary.reconstruction import NumberEncodings, basis, places
from skleak.attacks import PosteriorMeanReconstruction
from skleak.audit.tables._design import Outcome
from skleak.utils._typing import FloatArray

# Records whose Bayes risk is computed, at most; of the others the bound of van Trees is known.
_MOST = 1000
# Share of an information that its series may leave in doubt.
_DOUBT = 0.1
_GRID = 257


@dataclass(frozen=True)
class NumberBounds:
    """Information and encodings that bounds at every noise level need. Confidential."""

    encodings: NumberEncodings
    # Information averaged over the prior, (n_targets,): through the mean of the release at unit
    # noise, and through the covariance of the noise at any; NaN where it is not known.
    mean: FloatArray
    covariance: FloatArray
    integrable: bool  # whether the covariance of the noise is the same under every value

    @classmethod
    def of(cls, attack: PosteriorMeanReconstruction) -> "NumberBounds":
        """From the encodings and the prior of a fitted attack."""
        encodings = attack._encodings_of_numbers()
        if attack._shaped is None:
            information = encodings.information
            return cls(encodings, information, np.zeros_like(information), True)
        slopes = _slopes(attack.encodings_, encodings)
        white = np.einsum("tmij,tmj->tmi", attack._shaped.whiteners, slopes)
        flat = attack._shaped.shapes.reshape(*slopes.shape[:2], -1)
        change = _slopes(flat, encodings).reshape(attack._shaped.shapes.shape)
        half = attack._shaped.whiteners @ change @ attack._shaped.whiteners.swapaxes(2, 3)
        parts = np.sum(white**2, axis=2), 0.5 * np.sum(half**2, axis=(2, 3))
        mean, covariance = (_averaged(part, encodings) for part in parts)
        return cls(encodings, mean, covariance, False)

    def information(self, noise_scale: float) -> FloatArray:
        """Information at a noise scale, averaged over the prior, (n_targets,)."""
        if noise_scale == 0.0:
            return np.where(self.mean > 0.0, np.inf, self.mean + self.covariance)
        return self.mean / noise_scale**2 + self.covariance


def number_bounds(known: NumberBounds, noise_scale: float, seed: np.random.SeedSequence) -> Outcome:
    """Lower bounds on the squared error of every attacker with the prior.

    Returns ``van_trees``, ``bayes_mse`` and its ``bayes_mse_error``, (n_targets,) each: 0 and NaN
    where they are not known; ``computed``, whose risk was to be computed, which of many records is
    a random sample; and ``resolved``, for whom the nodes tell it. For the others of these the bound
    of van Trees stands in its place.
    """
    encodings, generator = known.encodings, np.random.default_rng(seed)
    n = len(encodings.low)
    risk, error = np.full((2, n), np.nan)
    van_trees = encodings.van_trees(known.information(noise_scale))
    computed, resolved = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    if known.integrable:
        rows = np.arange(n) if n <= _MOST else np.sort(generator.choice(n, _MOST, replace=False))
        risk[rows], error[rows] = encodings.take(rows).bayes(noise_scale, generator)
        computed = np.isin(np.arange(n), rows)
        resolved = ~np.isnan(risk)
        stands_in = computed & ~resolved
        risk[stands_in], error[stands_in] = van_trees[stands_in], 0.0
    return {
        "van_trees": van_trees,
        "bayes_mse": risk,
        "bayes_mse_error": error,
        "computed": computed,
        "resolved": resolved if known.integrable else computed,
    }


def _slopes(values: FloatArray, encodings: NumberEncodings) -> FloatArray:
    """Return derivatives at the nodes of what is known there, (n_targets, N_NODES, k)."""
    terms = chebyshev.chebvander(chebyshev.chebpts2(N_NODES), N_NODES - 2)
    matrix = terms @ chebyshev.chebder(chebyshev_coefficients())
    half = 0.5 * (encodings.high - encodings.low)
    return np.einsum("km,tmp->tkp", matrix, values) / half[:, None, None]


def _averaged(values: FloatArray, encodings: NumberEncodings) -> FloatArray:
    """Means over the priors of what is known at the nodes, (n_targets,); rounded upward."""
    series = values @ chebyshev_coefficients().T
    doubt = truncation_error(np.abs(series))
    everyone = np.arange(len(values))
    nodes = encodings.prior.nodes(_GRID)
    density = np.exp(encodings.prior.log_at(nodes, everyone))
    matrices = basis(places(nodes, encodings.low, encodings.high))
    means = np.einsum("tm,tmk,tk->t", values, matrices, density) / density.sum(axis=1)
    means = np.maximum(means, 0.0) + np.where(np.isinf(doubt), 0.0, doubt)
    return np.where(doubt <= _DOUBT * means, means, np.nan)
