"""A release that no hypothesis explains is a warning; one that some does is none."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.hypotheses import release_consistency
from skleak.attacks import LikelihoodRatioMembership, WhiteBoxAttributeInference
from skleak.exceptions import ReleaseMismatchWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

SCALE = 0.01


@pytest.fixture
def data(rng):
    X = np.column_stack([rng.integers(0, 2, 80), rng.normal(size=(80, 4))]).astype(float)
    return X, X @ [1.0, 1.0, -0.5, 0.2, 0.0] + rng.normal(size=80)


def brute_force(released, hypotheses, scale):
    """The three numbers from all distances and from least squares on the differences."""
    squares = ((released - hypotheses.reshape(-1, len(released))) ** 2).sum(axis=1)
    parts = []
    for own in hypotheses:
        design = (own[1:] - own[0]).T
        gap = released - own[0]
        parts.append(gap - design @ np.linalg.lstsq(design, gap)[0])
    p, k = len(released), hypotheses.shape[1] - 1
    far = stats.chi2.sf(squares.min() / scale**2, p)
    near = stats.chi2.cdf(max(part @ part for part in parts) / scale**2, p - k)
    return np.sqrt(squares.min()) / scale, far, near


def test_the_numbers_are_those_of_brute_force(rng):
    hypotheses = rng.normal(size=(7, 3, 5))
    released, scale = rng.normal(size=(4, 5)), np.array([0.3, 0.7, 1.0, 2.0])
    found = release_consistency(released, hypotheses, scale)
    for r in range(4):
        expected = brute_force(released[r], hypotheses, scale[r])
        np.testing.assert_allclose([each[r] for each in found], expected, rtol=1e-9)


@pytest.mark.parametrize("n_values", [2, 4, 12])
def test_the_truth_is_rarely_called_a_mismatch(n_values, rng):
    """Small p-values are rarer than their size says, whichever hypothesis is true."""
    hypotheses = rng.normal(size=(9, n_values, 6))
    truth = hypotheses[:, 0] = hypotheses[0, 0]
    truth = np.concatenate([truth[None], hypotheses[2, 1:]])
    for center in truth:
        released = center + 0.4 * rng.normal(size=(4000, 6))
        found = release_consistency(released, hypotheses, np.full(4000, 0.4))
        for level in (0.3, 0.05, 0.005):
            for values in (found.too_far, found.too_near):
                assert np.mean(values <= level) <= level + 4.0 * np.sqrt(level / 4000)


def test_far_encodings_keep_their_digits(rng):
    hypotheses = 1e6 + 1e-3 * rng.normal(size=(5, 2, 4))
    released = hypotheses[3, 1] + 1e-6 * rng.normal(size=(3, 4))
    found = release_consistency(released, hypotheses, np.full(3, 1e-6), error=1e-9)
    assert found.p_value > 1e-4
    np.testing.assert_allclose(
        found.distance, 1e6 * np.linalg.norm(released - hypotheses[3, 1], axis=1), rtol=1e-9
    )


def test_without_noise_nothing_is_tested(rng):
    hypotheses = rng.normal(size=(5, 2, 4))
    for scale in (0.0, np.nan):
        assert release_consistency(np.ones((2, 4)), hypotheses, np.full(2, scale)).p_value == 1.0


def made(attack, estimator, X, y):
    if attack is WhiteBoxAttributeInference:
        return attack(estimator, 0).fit(X, y)
    return attack(estimator, method="exact").fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [WhiteBoxAttributeInference, LikelihoodRatioMembership])
@pytest.mark.parametrize("classify", [False, True])
def test_releases_of_the_data_are_no_mismatch(attack, classify, data):
    X, y = data
    estimator = PrivateLogisticRegression if classify else PrivateLinearRegression
    y = (y > 0.5).astype(int) if classify else y
    other = X.copy()
    other[3, 0] = 1.0 - other[3, 0]
    fitted = made(attack, estimator(SCALE), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseMismatchWarning)
        for seed in range(20):
            model = estimator(SCALE, random_state=seed)
            fitted.predict(model.fit(X, y))
            if attack is WhiteBoxAttributeInference:
                fitted.predict(model.fit(other, y))
            else:
                fitted.predict(model.fit(np.delete(X, 3, axis=0), np.delete(y, 3)))


@pytest.mark.parametrize("attack", [WhiteBoxAttributeInference, LikelihoodRatioMembership])
@pytest.mark.parametrize("fault", ["data", "weights", "preprocessing", "more noise", "less noise"])
def test_a_mismatch_is_a_warning_at_the_line_of_the_caller(attack, fault, data, rng):
    X, y = data
    fitted = made(attack, make_pipeline(PrivateLinearRegression(SCALE)), X, y)
    model, noise_scale, weight = PrivateLinearRegression(SCALE, random_state=0), None, None
    if fault == "data":
        y = y + rng.normal(size=80)
    elif fault == "weights":
        weight = np.where(np.arange(80) < 20, 10.0, 1.0)
    elif fault == "preprocessing":
        X = StandardScaler().fit_transform(X)
    elif fault == "more noise":
        model.set_params(noise_scale=20 * SCALE)
        noise_scale = SCALE
    else:
        model.set_params(noise_scale=1e-4 * SCALE)
        noise_scale = SCALE
    model.fit(X, y, sample_weight=weight)
    released = model
    if fault == "weights":
        # A model states that it had weights, and is refused; its parameters do not.
        released, noise_scale = np.append(model.coef_, model.intercept_), SCALE
    ends = "nearer to" if fault == "less noise" else "farther from"
    with pytest.warns(ReleaseMismatchWarning, match=ends) as caught:
        fitted.predict(released, noise_scale)
    assert caught[0].filename == __file__
    # Of several releases, corrected for their number.
    with pytest.warns(ReleaseMismatchWarning, match="Release 0 lies"):
        fitted.predict([released] * 3, noise_scale)
