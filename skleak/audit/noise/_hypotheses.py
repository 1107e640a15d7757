"""Releases held against what attacks take for the parameters without noise."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from skleak.adversary.hypotheses import ENCODING_ERROR
from skleak.audit.noise._checks import NoiseCheck
from skleak.exceptions import ReleaseMismatchWarning
from skleak.utils._typing import FloatArray
from skleak.utils._warnings import outer_stacklevel

# Name of the check, and its chance of a false alarm.
HYPOTHESES, _LEVEL = "hypotheses", 1e-6


@dataclass(frozen=True)
class Hypotheses:
    """Parameters that attacks suppose for the data as they are. Confidential.

    An audit knows the secrets, and so which of the hypotheses of each attack is the true one: the
    releases are the same point plus noise, whatever is secret and however many values it has.
    """

    points: FloatArray  # without noise under the true value of every target, (n_targets, p)
    # Bounds on their distance from what they stand for, (n_targets,); infinite where nothing is
    # known.
    errors: FloatArray

    @classmethod
    def near(cls, points: FloatArray, errors: "FloatArray | float" = 0.0) -> "Hypotheses":
        """Points that are known up to round-off, and errors beyond it."""
        sizes = np.maximum(1.0, np.linalg.norm(points, axis=1))
        return cls(points, errors + ENCODING_ERROR * sizes)

    def check(
        self,
        releases: FloatArray,
        noise_scale: float,
        root: FloatArray | None = None,
    ) -> NoiseCheck:
        """Compare the mean of releases with every point.

        Shapes: ``releases`` (n_releases, p); ``root`` (p, p); returns: the statistic is the
        largest distance over the one expected of noise. The squared distance, over the variance,
        is chi-squared with p degrees of freedom.
        """
        n, p = releases.shape
        gaps = (releases.mean(axis=0) - self.points).T
        steepest = 1.0
        if root is not None:
            gaps = np.linalg.solve(root, gaps)
            steepest = 1.0 / np.linalg.svd(root, compute_uv=False)[-1]
        lengths = np.maximum(np.linalg.norm(gaps, axis=0) - steepest * self.errors, 0.0)
        largest = np.sqrt(n) * float(lengths.max()) / noise_scale
        chance = len(lengths) * stats.chi2.sf(largest**2, p)
        return NoiseCheck(HYPOTHESES, largest / np.sqrt(p), float(min(1.0, chance)), _LEVEL)


def check_distances(distances: FloatArray, n_parameters: int, error: float) -> NoiseCheck:
    """Compare distances of releases, each from its own point, with those of noise.

    Shapes: ``distances`` (n_releases,); returns: the statistic is the root mean square distance
    over the one expected. The sum of squares is chi-squared with p degrees of freedom for every
    release.
    """
    n, p = len(distances), n_parameters
    near = np.maximum(distances - error, 0.0)
    farthest = n * stats.chi2.sf(near.max() ** 2, p)
    all_far = stats.chi2.sf((near**2).sum(), n * p)
    all_near = stats.chi2.cdf(((distances + error) ** 2).sum(), n * p)
    statistic = float(np.sqrt(np.mean(distances**2) / p))
    chance = 3.0 * min(farthest, all_far, all_near)
    return NoiseCheck(HYPOTHESES, statistic, float(min(1.0, chance)), _LEVEL)


def warn_of_hypotheses(model: Any, found: "dict[float, NoiseCheck]") -> None:
    """Warn where releases are not around what attacks take for the truth, by noise scale."""
    failed = {scale: check for scale, check in found.items() if not check.passed}
    if not failed:
        return
    how = ", ".join(f"{check.statistic:.3g} times at {scale:g}" for scale, check in failed.items())
    warnings.warn(
        f"Releases of {type(model).__name__} are not around what the attacks take for its "
        f"parameters without noise: {how} the distance that noise of that scale explains. The "
        "attacks suppose another training than the estimator's `fit`, and do worse than they "
        "could. Repair the estimator: what `fit` does must follow from its parameters and the "
        "data.",
        ReleaseMismatchWarning,
        stacklevel=outer_stacklevel(),
    )
