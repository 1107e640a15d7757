"""The generalized-linear reconstruction: exact without noise, efficient with it."""

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from skleak.attacks import InformedReconstruction
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def make_problem(estimator, rng, n=80):
    X = rng.normal(size=(n, 3))
    a = X @ [1.0, -0.5, 0.3] + 0.2
    if estimator is PrivateLogisticRegression:
        return X, (a + rng.logistic(size=n) > 0).astype(int)
    if estimator is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(a))
    return X, a + rng.normal(size=n)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("known_target", [True, False])
def test_exact_without_noise(estimator, known_target, rng):
    X, y = make_problem(estimator, rng)
    model = estimator(noise_scale=0).fit(X, y)
    attack = InformedReconstruction(model, known_target=known_target, bounds=None).fit(X, y)
    records = attack.predict(model)
    np.testing.assert_allclose(records[:, :3], X, atol=1e-8)
    assert attack.n_reconstructed_ == records.shape[1] == 3 + (not known_target)
    if not known_target:
        np.testing.assert_allclose(records[:, 3], y, atol=1e-8)
    assert attack.score(model, X if known_target else (X, y)) > -1e-12


@pytest.mark.slow
@pytest.mark.parametrize("estimator", mostly_slow(ESTIMATORS, 0))
def test_known_target_reaches_the_cramer_rao_bound(estimator, rng):
    X, y = make_problem(estimator, rng)
    model = estimator(noise_scale=0).fit(X, y)
    scale, n_releases = 1e-7, 400
    noiseless = np.append(model.coef_, model.intercept_)
    released = noiseless + scale * rng.normal(size=(n_releases, 4))
    attack = InformedReconstruction(model).fit(X, y)
    errors = attack.predict(released) - X
    assert attack.score(released[:3], X) == pytest.approx(-np.mean(errors[:3] ** 2))
    jacobian = model._confidential_state().factor.jacobian(X, y)[:, :, :3]
    information = np.swapaxes(jacobian, 1, 2) @ jacobian / scale**2
    bound = np.diagonal(np.linalg.inv(information), axis1=1, axis2=2)
    ratio = (errors**2).mean(axis=0) / bound
    # 400 draws know a variance to 7 %: extremes lie within 5 deviations. Records share the noise,
    # so that their mean is hardly better known.
    assert ratio.min() > 0.65
    assert ratio.max() < 1.45
    assert abs(ratio.mean() - 1.0) < 0.2


@pytest.mark.parametrize("estimator", mostly_slow(ESTIMATORS, 1))
def test_coordinates_do_not_matter_where_the_noise_follows_them(estimator, rng):
    """Of columns ``X A + b`` with isotropic noise the same guesses as with that noise on X."""
    X, y = make_problem(estimator, rng)
    M = np.eye(4) + 0.4 * rng.normal(size=(4, 4))
    M[:, 3] = [0.0, 0.0, 0.0, 1.0]  # [x, 1] M = [x A + b, 1]
    turned = np.column_stack([X, np.ones(80)]) @ M
    released = rng.normal(size=(5, 4)) * 0.3 + [1.0, -0.5, 0.3, 0.2]
    first, second = (
        InformedReconstruction(
            estimator(1.0, alpha=0.0, noise_covariance=covariance), bounds=None
        ).fit(records, y)
        for records, covariance in ((X, M @ M.T), (turned[:, :3], "isotropic"))
    )
    guesses = np.dstack([first.predict(released), np.ones((5, 80))]) @ M
    expected = second.predict(released @ np.linalg.inv(M).T)
    size = np.abs(expected).max(axis=2, keepdims=True)
    near = np.abs(guesses[..., :3] - expected) <= 1e-6 * size
    assert np.mean(near) > 0.9  # of two equally likely predictions either may be found


def test_own_record_does_not_enter(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    released = np.array([0.9, -0.4, 0.2, 0.3])
    first = InformedReconstruction(PrivateLinearRegression(), records=[4]).fit(X, y)
    changed = X.copy()
    changed[4] = [3.0, -5.0, 2.0]
    second = clone(first).fit(changed, y)
    # A minimizer is known to the square root of round-off only.
    np.testing.assert_allclose(first.predict(released), second.predict(released), rtol=1e-6)


def test_pipelines_are_reconstructed_as_the_model_sees_them(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(noise_scale=0)).fit(X, y)
    attack = InformedReconstruction(pipe, records=[2, 7]).fit(X, y)
    assert attack.predict([pipe, pipe]).shape == (2, 2, 7)
    np.testing.assert_allclose(attack.predict(pipe), pipe[:-1].transform(X)[[2, 7]], atol=1e-8)
    assert attack.score(pipe, X.iloc[[2, 7]]) > -1e-12
    with pytest.raises(ValueError, match="records of the 2 targets; got 3"):
        attack.score(pipe, X.iloc[:3])


def test_labels_of_reference_records_tell_the_range_of_labels(rng):
    X, y = make_problem(PrivateLogisticRegression, rng)
    model = PrivateLogisticRegression(noise_scale=0).fit(X, y)
    attack = InformedReconstruction(model, known_target=False)
    low, high = attack.fit(X, y, 9.0 * np.vstack([X, -X]), np.append(y, 1 - y))._range
    np.testing.assert_allclose([low[3], high[3]], [-0.5, 1.5])  # widened by half of it
    np.testing.assert_allclose(attack.predict(model), np.column_stack([X, y]), atol=1e-6)


def test_where_it_cannot_be_played(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    with pytest.raises(AttackNotApplicableError, match="objective of Ridge is not known"):
        InformedReconstruction(Ridge()).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="DecisionTreeRegressor is not known"):
        InformedReconstruction(DecisionTreeRegressor()).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="Without an intercept"):
        InformedReconstruction(PrivateLinearRegression(fit_intercept=False)).fit(X, y)
    attack = InformedReconstruction(PrivateLinearRegression(), known_target=False)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        attack.fit(X, y[1:])
    with pytest.raises(ValueError, match="1d array"):
        attack.fit(X, np.column_stack([y, y]))
    attack.fit(X, y)
    with pytest.raises(ValueError, match="4 parameters a release"):
        attack.predict(np.zeros((2, 3)))
    for truth in (X, (X,), (X, y, y)):
        with pytest.raises(ValueError, match=r"`truth=\(X, y\)`"):
            attack.score(np.ones(4), truth)


@pytest.mark.slow
def test_diverging_guesses_stay_in_the_range_of_the_others(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    released = 50.0 * rng.normal(size=(20, 4))
    wild = InformedReconstruction(PrivateLinearRegression(), bounds=None).fit(X, y)
    assert np.abs(wild.predict(released)).max() > 10.0 * np.abs(X).max()
    tame = InformedReconstruction(PrivateLinearRegression()).fit(X, y)
    found = tame.predict(released)
    for i in range(len(X)):
        others = np.delete(X, i, axis=0)
        half = 0.5 * np.ptp(others, axis=0)
        assert np.all(found[:, i] >= others.min(axis=0) - half - 1e-12)
        assert np.all(found[:, i] <= others.max(axis=0) + half + 1e-12)
    assert tame.score(released, X) > wild.score(released, X)
    given = InformedReconstruction(PrivateLinearRegression(), bounds=(-1.0, [1.0, 2.0, 3.0]))
    found = given.fit(X, y).predict(released)
    assert found.min() == -1.0
    np.testing.assert_array_equal(found.max(axis=(0, 1)), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0,), (0.0, [1.0, 2.0]), "range", (0.0, np.nan)])
def test_bounds_that_are_no_range(bounds, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    with pytest.raises(ValueError, match="bounds"):
        InformedReconstruction(PrivateLinearRegression(), bounds=bounds).fit(X, y)
