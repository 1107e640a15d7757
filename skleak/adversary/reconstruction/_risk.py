"""What no attacker who knows a prior beats, from the encodings of a number at Chebyshev nodes."""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from skleak.adversary.hypotheses import N_NODES, chebyshev_coefficients, truncation_error
from skleak.adversary.knowledge import NumberPrior
from skleak.adversary.reconstruction._posterior import basis, places
from skleak.bounds import bayes_mse, van_trees_mse
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

_GRID = 257
# Nodes of a risk: at least these, and so many that a release hardly tells neighbors apart.
_FEWEST = 129
_MOST = 513
_STEP = 0.5
_DRAWS = 2048
# Encodings are known to this share of their spread: noise below it counts as that much.
_ROUND_OFF = 1e-9
# Mean degree of the terms that are left out, in numbers of nodes: they fall by half every eighth.
_DEGREES = 1.5
_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class NumberEncodings:
    """Noiseless releases under every value of a number, at Chebyshev nodes. Confidential.

    Examples
    --------
    >>> ends = np.array([-8.0]), np.array([8.0])
    >>> prior = NumberPrior(*ends, -0.5 * np.linspace(-8.0, 8.0, 513)[None] ** 2)
    >>> nodes = chebyshev.chebpts2(N_NODES)
    >>> known = NumberEncodings(8.0 * nodes[None, :, None], *ends, prior)
    >>> risk, error = known.bayes(1.0, np.random.default_rng(0))
    >>> risk.round(3), known.information.round(3)
    (array([0.5]), array([1.]))
    """

    points: FloatArray  # where the noise is isotropic, (n_targets, N_NODES, p)
    low: FloatArray  # ends of the nodes, (n_targets,)
    high: FloatArray
    prior: NumberPrior

    def take(self, rows: IntArray) -> "NumberEncodings":
        """Those of some targets."""
        ends = self.low[rows], self.high[rows]
        return NumberEncodings(self.points[rows], *ends, self.prior.take(rows))

    def at(self, values: FloatArray) -> FloatArray:
        """Noiseless releases had the numbers been others.

        Shapes: ``values`` (n_draws, n_targets); returns (n_draws, n_targets, p).
        """
        matrices = basis(places(values.T, self.low, self.high))
        return np.einsum("tmr,tmp->rtp", matrices, self.points)

    @property
    def information(self) -> FloatArray:
        """Information at unit noise, averaged over the prior, (n_targets,).

        NaN where the nodes do not resolve the encodings.
        """
        return mean_information(self.points, self.low, self.high, self.prior)

    def van_trees(self, information: FloatArray) -> FloatArray:
        """Bound of van Trees by information at the noise of a release, (n_targets,).

        0 where the information is not known or infinite.
        """
        known = np.isfinite(information)
        bounds = np.zeros(len(information))
        told = information[known, None, None], self.prior.information[known, None, None]
        bounds[known] = van_trees_mse(*told)
        return bounds

    def bayes(
        self, noise_scale: float, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Bayes risk and its error, (n_targets,) each; NaN where the nodes do not tell."""
        found = [self._bayes(i, noise_scale, generator) for i in range(len(self.points))]
        risk, error = np.array(found).reshape(-1, 2).T
        return risk, error

    def _bayes(
        self, i: int, noise_scale: float, generator: np.random.Generator
    ) -> tuple[float, float]:
        points = _centered(self.points[[i]])[0]
        if points.shape[1] > N_NODES:
            points = np.linalg.qr(points.T)[1].T
        series = chebyshev_coefficients() @ points
        doubt = float(truncation_error(np.linalg.norm(series, axis=1)[None])[0])
        ends = self.low[[i]], self.high[[i]]

        def at(n_nodes: int) -> tuple[FloatArray, FloatArray]:
            nodes = self.prior.nodes(n_nodes, [i])
            return nodes[0], basis(places(nodes, *ends))[0].T @ points

        nodes, encodings = at(_FEWEST)
        scale = max(noise_scale, _ROUND_OFF * float(np.abs(points).max()), np.finfo(float).tiny)
        length = np.linalg.norm(np.diff(encodings, axis=0), axis=1).sum() / scale
        if length > _STEP * _FEWEST:
            nodes, encodings = at(int(min(length / _STEP, _MOST)) // 2 * 2 + 1)
        density = np.exp(self.prior.log_at(nodes[None], np.array([i]))[0])
        prior = density / density.sum()
        risk, error = bayes_mse(
            encodings, nodes, prior, scale, n_draws=_DRAWS, random_state=generator
        )
        # As for what the noise hides: encodings that are off by less than it.
        off = doubt / scale
        if off > 1.0:
            return np.nan, np.nan
        return risk, error + 2.0 * np.sqrt(np.expm1(off**2) * risk) * (nodes[-1] - nodes[0])


def mean_information(
    points: FloatArray, low: FloatArray, high: FloatArray, prior: NumberPrior
) -> FloatArray:
    """Mean over the prior of the squared derivative of what is known at nodes, (n_targets,).

    Shapes: ``points`` (n_targets, N_NODES, p); ``low``, ``high`` (n_targets,), their ends. NaN
    where the nodes do not resolve it. Rounded upward by what the terms that are left out may add:
    the derivative of one of degree k, at a place x, is at most k / sqrt(1 - x^2) (Bernstein).
    """
    found = np.empty(len(points))
    slopes = chebyshev.chebder(chebyshev_coefficients())
    for some in row_blocks(len(points), (_GRID + points.shape[2]) * N_NODES, _ELEMENTS):
        targets = np.arange(len(points))[some]
        nodes = prior.nodes(_GRID, targets)
        density = np.exp(prior.log_at(nodes, targets))
        weights = density / density.sum(axis=1, keepdims=True)
        where = places(nodes, low[some], high[some])
        terms = chebyshev.chebvander(where, N_NODES - 2) @ slopes
        moments = np.matmul((terms * weights[:, :, None]).swapaxes(1, 2), terms)
        own = _centered(points[some])
        gram = np.matmul(own, own.swapaxes(1, 2))
        series = np.einsum("km,tmp->tkp", chebyshev_coefficients(), own)
        doubt = truncation_error(np.linalg.norm(series, axis=2))
        half = 0.5 * (high - low)[some]
        steep = (weights / np.maximum(1.0 - where**2, 1.0 / N_NODES**2)).sum(axis=1)
        missed = _DEGREES * N_NODES * doubt * np.sqrt(steep)
        size = np.sqrt(np.maximum(np.einsum("tij,tij->t", moments, gram), 0.0)) + missed
        found[some] = np.where(np.isinf(doubt), np.nan, (size / half) ** 2)
    return found


def _centered(points: FloatArray) -> FloatArray:
    """Points (n, N_NODES, p) less their mean: nothing is left of those that are all the same."""
    same = np.all(points == points[:, :1], axis=(1, 2), keepdims=True)
    return points - np.where(same, points[:, :1], points.mean(axis=1, keepdims=True))
