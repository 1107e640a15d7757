"""Releases held against the hypotheses of an attack: can any be true, and are the weights known?"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from skleak.exceptions import AttackNotApplicableError, ReleaseMismatchWarning
from skleak.utils._blocks import row_blocks
from skleak.utils._sklearn_compat import check_sample_weight
from skleak.utils._typing import FloatArray
from skleak.utils._warnings import outer_stacklevel

# Chance of a false alarm.
MISMATCH_LEVEL = 1e-6
# Encodings are known to about this, relative to the parameters.
ENCODING_ERROR = 1e-10
# Records whose hypotheses are held against releases that lie too near.
_N_RECORDS = 16
_ELEMENTS = 1 << 22


def encoding_error(parameters: FloatArray) -> float:
    """Return what encodings near some parameters differ by, at least, to be told apart.

    Even by a release without noise.
    """
    return ENCODING_ERROR * max(1.0, float(np.linalg.norm(parameters)))


class Consistency(NamedTuple):
    """Fit of releases to the hypotheses of an attack.

    ``distance`` (n_releases,): from the nearest hypothesis, over the noise.
    ``too_far``, ``too_near`` (n_releases,): at most the probability that a release lies as far from
        all hypotheses, or as near to one of every record, if one of them is true and the noise is
        what is stated; 1 without noise.
    """

    distance: FloatArray
    too_far: FloatArray
    too_near: FloatArray

    @property
    def p_value(self) -> float:
        """Of all releases together, corrected for their number and both ends."""
        least = np.minimum(self.too_far, self.too_near).min(initial=1.0)
        return float(min(1.0, 2.0 * max(len(self.distance), 1) * least))


def release_consistency(
    released: FloatArray, hypotheses: FloatArray, noise_scale: FloatArray, error: float = 0.0
) -> Consistency:
    """Test whether releases can be one of the hypotheses plus the noise that is stated.

    Shapes: ``released`` (n_releases, p), parameters, in coordinates in which the noise is
    isotropic; ``hypotheses`` (n_targets, n_values, p); ``noise_scale`` (n_releases,).

    The squared distance of a release from the truth, over the variance, is chi-squared with p
    degrees of freedom, and that from the nearest hypothesis no larger. Its part orthogonal to the
    differences of the hypotheses of one record, k of them, is chi-squared with p - k where the
    truth is one of these, stochastically larger where it is not, and the largest such part of
    several records no smaller. So both tests hold for any number of hypotheses.
    """
    _, n_values, p = hypotheses.shape
    noisy = noise_scale > 0.0
    scale = np.where(noisy, noise_scale, 1.0)
    nearest = _nearest_distance(released, hypotheses.reshape(-1, p))
    far = stats.chi2.sf((np.maximum(nearest - error, 0.0) / scale) ** 2, p)
    near, freedom = np.ones(len(released)), p - min(n_values - 1, p)
    if freedom:
        apart = _largest_part_beside(released, hypotheses)
        near = stats.chi2.cdf(((apart + error) / scale) ** 2, freedom)
    return Consistency(nearest / scale, np.where(noisy, far, 1.0), np.where(noisy, near, 1.0))


def _nearest_distance(released: FloatArray, points: FloatArray) -> FloatArray:
    """Distance of each release from the nearest of the points (n_points, p)."""
    center = points.mean(axis=0)
    best, least = np.zeros(len(released), dtype=np.intp), np.full(len(released), np.inf)
    for rows in row_blocks(len(points), len(released) + points.shape[1], _ELEMENTS):
        some = points[rows] - center
        # Half the squared distance but for a constant of the release.
        gaps = 0.5 * np.einsum("ij,ij->i", some, some) - (released - center) @ some.T
        place = gaps.argmin(axis=1)
        found = gaps[np.arange(len(gaps)), place]
        best = np.where(found < least, place + rows.start, best)
        least = np.minimum(found, least)
    return np.asarray(np.linalg.norm(released - points[best], axis=1))


def _largest_part_beside(released: FloatArray, hypotheses: FloatArray) -> FloatArray:
    """Largest length, over a few records, of what no difference of their hypotheses explains."""
    n_targets = len(hypotheses)
    rows = np.unique(np.linspace(0, n_targets - 1, min(n_targets, _N_RECORDS)).astype(int))
    largest = np.zeros(len(released))
    for own in hypotheses[rows]:
        axes = np.linalg.svd(own[1:] - own[0], full_matrices=False)[2]
        gap = released - own[0]
        largest = np.maximum(largest, np.linalg.norm(gap - gap @ axes.T @ axes, axis=1))
    return largest


@contextmanager
def ignoring_mismatches() -> Iterator[None]:
    """Give no warning of a mismatch: for simulated releases, of which a report says it once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseMismatchWarning)
        yield


def warn_of_mismatch(
    released: FloatArray, hypotheses: FloatArray, noise_scale: FloatArray, error: float
) -> None:
    """Warn where no hypothesis of an attack goes with a release; see `release_consistency`."""
    found = release_consistency(released, hypotheses, noise_scale, error)
    if found.p_value > MISMATCH_LEVEL:
        return
    p = hypotheses.shape[-1]
    farther = found.too_far.min() <= found.too_near.min()
    ends = (
        (found.too_far, "farther from", "larger")
        if farther
        else (found.too_near, "nearer to", "smaller")
    )
    worst = int(np.argmin(ends[0]))
    warnings.warn(
        f"Release {worst} lies {ends[1]} the hypotheses of the attack than noise of scale "
        f"{noise_scale[worst]:.3g} explains: {found.distance[worst]:.3g} of it from the nearest, "
        f"where about {np.sqrt(p):.3g} is expected (p-value {found.p_value:.1g}). The model was "
        f"trained on other data, weights or preprocessing than the attack supposes, or its noise "
        f"is {ends[2]} than stated. Fit the attack on what the model was trained on, and check "
        "the noise scale.",
        ReleaseMismatchWarning,
        stacklevel=outer_stacklevel(),
    )


def fitted_with_weights(estimator: Any) -> bool:
    """Return True if a model says that its records counted unequally; weights of one do not.

    Private estimators know it, released ones state it in their provenance, others tell nothing.
    """
    model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    state = getattr(model, "_state", None)
    if state is not None:
        return bool(np.ptp(state.objective.sample_weight) > 0.0)
    made = getattr(model, "provenance_", getattr(model, "_made_as", {}))
    return bool(made.get("sample_weight", False))


def check_weights_known(estimator: Any, *, weighted: bool) -> None:
    """Refuse a model that was fitted with weights where the attack was not given them."""
    if not weighted and fitted_with_weights(estimator):
        name = type(estimator).__name__
        raise ValueError(
            f"The {name} was fitted with sample weights; this attack was fitted without them, and "
            "would take the release for that of another fit. Pass the same weights to `fit` of the "
            "attack as `sample_weight`, where it takes them; else attack a model without weights."
        )


def check_weights(sample_weight: Any, X: Any) -> FloatArray | None:
    """Weights of shape (n,), finite and non-negative; None where none were given."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
    )
    if not np.any(weights > 0.0):
        raise ValueError(
            "`sample_weight` must contain at least one positive number; got only zeros."
        )
    return np.asarray(weights)


def weights_of_both(
    X: Any, others: Any, given: tuple[Any, Any], name: str
) -> tuple[FloatArray | None, FloatArray | None]:
    """Weights of training records and of other ones; ones for the latter where only they lack.

    The name is that of the argument with the latter; `others` is None where there are none.
    """
    sample_weight, other_weight = given
    if other_weight is not None and (sample_weight is None or others is None):
        missing = "`sample_weight`" if sample_weight is None else "such records"
        raise ValueError(
            f"`{name}` goes with `sample_weight` and with the records that it is about; got no "
            f"{missing}. Pass both, or none."
        )
    weights = check_weights(sample_weight, X)
    if weights is None or others is None:
        return weights, None
    if other_weight is None:
        return weights, np.ones(others.shape[0])
    return weights, check_weights(other_weight, others)


def weight_argument(estimator: Any, sample_weight: FloatArray | None) -> dict[str, FloatArray]:
    """Keyword of `fit` that takes the weights: in a pipeline that of its last step."""
    if sample_weight is None:
        return {}
    pipeline = isinstance(estimator, Pipeline)
    model = estimator.steps[-1][1] if pipeline else estimator
    if not has_fit_parameter(model, "sample_weight"):
        raise AttackNotApplicableError(
            f"`sample_weight` is for models that are fitted with weights; `fit` of "
            f"{type(model).__name__} takes none. Leave the weights out, or pass an estimator whose "
            "`fit` has a parameter `sample_weight`."
        )
    last = f"{estimator.steps[-1][0]}__" if pipeline else ""
    return {f"{last}sample_weight": sample_weight}


def attack_weights(attack: Any, **weights: FloatArray | None) -> dict[str, FloatArray]:
    """Keywords of `fit` of an attack for the weights that there are."""
    given = {name: value for name, value in weights.items() if value is not None}
    for name in given:
        if not has_fit_parameter(attack, name):
            raise AttackNotApplicableError(
                f"The model is fitted with sample weights; {type(attack).__name__}.fit does not "
                f"take them. Give it a keyword `{name}`, or leave the attack out."
            )
    return given
