"""Gaussians with unequal means and covariances, rotated into the space where they differ.

Whitened by the mean covariance, hypothesis m is ``N(b_m, K_m)``. Let ``c_m`` be the eigenvalue of
``K_m`` that most directions share, and V the span of all ``b_m - b_0`` and of the ranges of all
``K_m - c_m I``. Orthogonal to V, in q directions, hypothesis m is ``N(0, c_m I)``, independent of
what happens in V: the coordinates in V and the squared length of the rest are sufficient, and all
that follows costs O(k^2) for each release in place of O(d^2). Exact, up to directions in which
nothing differs by more than 1e-9 standard deviations.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.special import chdtri, ndtr, ndtri

from skleak.channels.gaussian._mixture import LARGEST_EXPONENT
from skleak.channels.gaussian._quadrature import normal_lattice
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import log_prior

# What moves a Gaussian by less than this, in standard deviations, cannot matter: it changes any
# success probability by less.
NEGLIGIBLE = 1e-9
# Largest deviation of a covariance's root from the mean one that counts as small.
NEARLY = 0.3
# Step and radius of the lattice that integrates the information on a line.
STEP, RADIUS = 1 / 32, 9.0
# Entries of one table of likelihoods.
ELEMENTS = 1 << 20
# Share of all values but the likeliest below which a success is averaged over those.
LIKELY = 0.1


@dataclass(frozen=True)
class Hypotheses:
    """Distributions of one record's releases under each value of the secret.

    Examples
    --------
    >>> import numpy as np
    >>> covariances = np.array([np.eye(3), np.diag([2.0, 1.0, 1.0])])
    >>> found = Hypotheses.of(np.zeros((2, 3)), covariances)
    >>> found.means.shape, found.n_rest
    ((2, 1), 0)
    """

    means: FloatArray  # Where the hypotheses differ, (M, k)
    roots: FloatArray  # Lower Cholesky factors of their covariances there, (M, k, k)
    scales: FloatArray  # Standard deviation in each of the remaining directions, (M,)
    n_rest: int  # How many there are; 0 where the hypotheses do not differ in them

    @classmethod
    def of(cls, means: FloatArray, covariances: FloatArray) -> "Hypotheses":
        """Reduce means of shape (M, d) and covariances of shape (M, d, d)."""
        n_values, d = means.shape
        root = np.linalg.cholesky(covariances.mean(axis=0))
        gaps = means - means[0]
        gaps = linalg.solve_triangular(root, (gaps - gaps.mean(axis=0)).T, lower=True).T
        half = np.stack(
            [linalg.solve_triangular(root, covariance, lower=True) for covariance in covariances]
        )
        shapes = np.stack([linalg.solve_triangular(root, block.T, lower=True) for block in half])
        shapes = 0.5 * (shapes + shapes.transpose(0, 2, 1))
        variances = np.median(np.linalg.eigvalsh(shapes), axis=1)
        excess = shapes - variances[:, None, None] * np.eye(d)
        span = np.concatenate([gaps, excess.reshape(n_values * d, d)])
        _, sizes, axes = np.linalg.svd(span, full_matrices=False)
        basis = axes[sizes > NEGLIGIBLE]
        n_rest = d - len(basis)
        if np.ptp(np.log(variances)) * np.sqrt(n_rest) <= NEGLIGIBLE:
            n_rest = 0
        elif n_rest == 1:  # as many coordinates as with its length, and on a line an exact result
            basis, n_rest = np.eye(d), 0
        inside = basis @ shapes @ basis.T
        return cls(gaps @ basis.T, np.linalg.cholesky(inside), np.sqrt(variances), n_rest)

    @property
    def n_values(self) -> int:
        """M, the number of values of the secret."""
        return len(self.means)

    @property
    def dimension(self) -> int:
        """Number of coordinates that releases are reduced to."""
        return self.means.shape[1] + (self.n_rest > 0)

    @property
    def on_a_line(self) -> bool:
        """True if they differ in one coordinate alone."""
        return self.means.shape[1] == 1 and self.n_rest == 0

    @property
    def equal(self) -> bool:
        """True if all covariances are the same."""
        return self.n_rest == 0 and bool(
            np.abs(self.roots - self.roots[:1]).max(initial=0.0) <= NEGLIGIBLE
        )

    @property
    def nearly_equal(self) -> bool:
        """True if the covariances differ little enough for their mean to stand in for them."""
        largest = np.abs(self.roots - np.eye(self.means.shape[1])).max(initial=0.0)
        return self.means.shape[1] > 0 and bool(largest <= NEARLY)

    def averaged(self) -> "Hypotheses":
        """Return the same means with the mean covariance, the identity in these coordinates."""
        n_values, k = self.means.shape
        roots = np.broadcast_to(np.eye(k), (n_values, k, k))
        return Hypotheses(self.means, roots, np.ones(n_values), 0)

    @cached_property
    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """For every x, l: variances of x in the axes of l, and squared gaps, (M, M, k + q)."""
        n_values, k = self.means.shape
        variances = np.ones((n_values, n_values, k + self.n_rest))
        gaps = np.zeros_like(variances)
        for other in range(n_values):
            scale = self.scales**2 / self.scales[other] ** 2
            variances[:, other, k:] = scale[:, None]
            for secret in range(n_values):
                if k == 0 or secret == other:
                    continue
                whitened = linalg.solve_triangular(
                    self.roots[other],
                    np.column_stack([self.roots[secret], self.means[secret] - self.means[other]]),
                    lower=True,
                )
                axes, lengths, _ = np.linalg.svd(whitened[:, :k])
                variances[secret, other, :k] = lengths**2
                gaps[secret, other, :k] = (axes.T @ whitened[:, k]) ** 2
        return variances, gaps

    def divergences(self, secret: int, order: float) -> FloatArray:
        """Rényi divergences of one hypothesis from all, of shape (M,); infinite where they are."""
        variances, gaps = (table[secret] for table in self.pairs)
        near = np.abs(variances - 1.0) <= 1e-12
        excess = np.where(near, 0.0, variances - 1.0)
        if order == 1.0:
            return 0.5 * np.sum(excess - np.log1p(excess) + gaps, axis=1)
        if np.isinf(order):
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = np.where(gaps > 0.0, gaps / -excess, 0.0)
                terms = np.where(excess <= 0.0, 0.5 * (moved - np.log1p(excess)), np.inf)
            return np.sum(terms, axis=1)
        mixed = 1.0 + (1.0 - order) * excess
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(mixed) / (order - 1.0) + np.log1p(excess)
            terms = 0.5 * (order * gaps / mixed - logarithms)
        return np.sum(np.where(mixed > 0.0, terms, np.inf), axis=1)

    @cached_property
    def _transforms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """From deviates of x to those of all l: (M, k, M k), (M, M, k), and log-determinants."""
        n_values, k = self.means.shape
        inverse = np.linalg.inv(self.roots)
        maps = np.einsum("lij,xjk->xkli", inverse, self.roots).reshape(n_values, k, n_values * k)
        shifts = np.einsum("lij,xlj->xli", inverse, self.means[:, None] - self.means)
        diagonals = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        return maps, shifts, diagonals[:, None] - diagonals

    def deviates(self, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return standard normal deviates, and the squared length of the rest over its variance.

        Shapes: ``nodes`` (K, dimension).
        """
        k = self.means.shape[1]
        length = chdtri(self.n_rest, nodes[:, k]) if self.n_rest else np.zeros(len(nodes))
        return ndtri(nodes[:, :k]), length

    def log_ratios(self, secret: int, z: FloatArray, length: FloatArray) -> FloatArray:
        """Log-likelihood ratios to one hypothesis of releases from it, of shape (K, M).

        Shapes: ``z``, ``length`` (K, k) and (K,).
        """
        maps, shifts, logarithms = self._transforms
        k = z.shape[1]
        gaps = (z @ maps[secret]).reshape(len(z), self.n_values, k) + shifts[secret]
        result = 0.5 * np.einsum("ki,ki->k", z, z)[:, None] + logarithms[secret]
        result -= 0.5 * np.einsum("kmi,kmi->km", gaps, gaps)
        if self.n_rest:
            ratio = self.scales[secret] / self.scales
            result += self.n_rest * np.log(ratio) + 0.5 * length[:, None] * (1.0 - ratio**2)
        result[:, secret] = 0.0
        return result


def top_posterior_over_cube(hypotheses: Hypotheses, prior: FloatArray, nodes: FloatArray) -> float:
    """Success of the Bayes-optimal guess as the expected largest posterior.

    Where a value is likely, what the release changes is rare under it: it is averaged over the
    other values instead, as in `expected_gain`.

    Shapes: ``prior`` (M,); ``nodes`` (K, dimension).
    """
    total, logs, star = 0.0, log_prior(prior), int(prior.argmax())
    others = np.delete(np.arange(len(prior)), star)
    if prior[others].sum() < LIKELY:
        for secret in others[prior[others] > 0.0].tolist():
            for rows in row_blocks(len(nodes), nodes.shape[1] + len(prior), ELEMENTS):
                ratios = hypotheses.log_ratios(secret, *hypotheses.deviates(nodes[rows])) + logs
                own, rest = ratios[:, star], ratios[:, others]
                best = rest.max(axis=1)
                gain = -np.expm1(np.minimum(own - best, 0.0))
                gain /= np.exp(rest - best[:, None]).sum(axis=1)
                total += float(prior[secret] * gain.sum())
        return float(prior[star]) + total / len(nodes)
    for secret in np.flatnonzero(prior > 0.0).tolist():
        for rows in row_blocks(len(nodes), nodes.shape[1] + len(prior), ELEMENTS):
            ratios = hypotheses.log_ratios(secret, *hypotheses.deviates(nodes[rows])) + logs
            ratios -= ratios.max(axis=1, keepdims=True)
            total += float(prior[secret] * np.sum(1.0 / np.exp(ratios).sum(axis=1)))
    return total / len(nodes)


def information_over_cube(hypotheses: Hypotheses, prior: FloatArray, nodes: FloatArray) -> float:
    """Mutual information of secret and release in nats; parameters as above."""
    total = 0.0
    for rows in row_blocks(len(nodes), nodes.shape[1] + len(prior), ELEMENTS):
        weights = np.full(len(nodes[rows]), 1.0 / len(nodes))
        z, length = hypotheses.deviates(nodes[rows])
        total += _expected_information(hypotheses, prior, z, length, weights)
    return total


def line_information(hypotheses: Hypotheses, prior: FloatArray) -> float:
    """Return the same where the hypotheses differ in one coordinate, on a lattice."""
    nodes, weights = normal_lattice(1, STEP, RADIUS)
    return _expected_information(hypotheses, prior, nodes, np.zeros(len(nodes)), weights)


def _expected_information(
    hypotheses: Hypotheses,
    prior: FloatArray,
    z: FloatArray,
    length: FloatArray,
    weights: FloatArray,
) -> float:
    total = 0.0
    for secret in np.flatnonzero(prior > 0.0).tolist():
        ratios = hypotheses.log_ratios(secret, z, length)
        excess = np.expm1(np.minimum(ratios, LARGEST_EXPONENT)) @ prior
        log_mixture = np.log1p(np.maximum(excess, 2.0**-53 - 1))
        total -= float(prior[secret] * (log_mixture @ weights))
    return total


def line_success(hypotheses: Hypotheses, prior: FloatArray) -> float:
    """Success of the Bayes-optimal guess where the hypotheses differ in one coordinate."""
    return interval_success(hypotheses.means[:, 0], hypotheses.roots[:, 0, 0], prior)


def interval_success(means: FloatArray, scales: FloatArray, prior: FloatArray) -> float:
    """Success of the Bayes-optimal guess among Gaussians on a line, exactly.

    The most likely value changes only where two weighted densities cross, at roots of a
    quadratic equation; between two such points one value is guessed.

    Shapes: ``means``, ``scales``, ``prior`` (M,).
    """
    present = prior > 0.0
    means, scales, prior = means[present], scales[present], prior[present]
    first, second = np.triu_indices(len(means), 1)
    precision = 1.0 / scales**2
    # log p - log s - (y - b)^2 / (2 s^2) = c + l y - h y^2
    square = 0.5 * precision
    linear = precision * means
    constant = np.log(prior / scales) - 0.5 * precision * means**2
    crossings = _roots(
        square[first] - square[second],
        linear[second] - linear[first],
        constant[second] - constant[first],
    )
    ends = np.concatenate([[-np.inf], np.unique(crossings), [np.inf]])
    if len(ends) == 2:
        inner = np.zeros(1)
    else:
        reach = 1.0 + np.abs(ends[1:-1]).max()
        inner = np.concatenate(
            [[ends[1] - reach], 0.5 * (ends[1:-2] + ends[2:-1]), [ends[-2] + reach]]
        )
    weights = constant + linear * inner[:, None] - square * inner[:, None] ** 2
    guess = weights.argmax(axis=1)
    low, high = ((end - means[guess]) / scales[guess] for end in (ends[:-1], ends[1:]))
    # On the side where both are small, so that tails keep their digits.
    share = np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return float(prior[guess] @ share)


def _roots(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Real roots of ``a y^2 + b y + c``, without cancellation."""
    inside = b**2 - 4.0 * a * c
    a, b, c, inside = (array[inside >= 0.0] for array in (a, b, c, inside))
    q = -0.5 * (b + np.copysign(np.sqrt(inside), b))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.concatenate([q / a, c / q])
    return roots[np.isfinite(roots)]
