"""The private models as models: what they fit, what they set, and what noise they add."""

import inspect
import warnings

import numpy as np
import pytest
from helpers import every, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from skleak.exceptions import NoMinimizerWarning
from skleak.linear_model import (
    IRFIL,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)


def _of_scikit_learn(model, total):
    """The estimator of scikit-learn with the same minimizer."""
    alpha, intercept = model.alpha, model.fit_intercept
    if isinstance(model, PrivateLinearRegression):
        return Ridge(total * alpha, fit_intercept=intercept, solver="cholesky")
    if isinstance(model, PrivatePoissonRegressor):
        return PoissonRegressor(
            alpha=alpha, fit_intercept=intercept, tol=1e-12, solver="newton-cholesky"
        )
    return LogisticRegression(
        C=1.0 / (total * alpha), fit_intercept=intercept, tol=1e-12, solver="newton-cg"
    )


@pytest.mark.slow
@every("fit_intercept", [True, False])
@every("alpha", [1e-4, 1e-2, 1.0])
@every("weighted", [False, True])
@every("form", [np.asarray, sparse.csr_array])
def test_without_noise_it_is_scikit_learns(
    estimator_class, data, fit_intercept, alpha, weighted, form
):
    weights = data.weights if weighted else None
    model = estimator_class(0, alpha=alpha, fit_intercept=fit_intercept)
    model.fit(form(data.X), data.y, sample_weight=weights)
    total = data.weights.sum() if weighted else len(data.y)
    expected = _of_scikit_learn(model, total).fit(data.X, data.y, sample_weight=weights)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    assert np.shape(model.coef_) == np.shape(expected.coef_)
    assert np.shape(model.intercept_) == np.shape(expected.intercept_)
    assert_allclose(model.predict(data.X), expected.predict(data.X), rtol=1e-6)
    assert model.score(data.X, data.y) == pytest.approx(expected.score(data.X, data.y), rel=1e-6)


def test_nothing_is_explained_where_all_counts_are_equal(counts):
    model = PrivatePoissonRegressor(0).fit(counts.X, counts.y)
    equal = np.where(np.arange(len(counts.y)) == 0, 5, 2)
    assert np.isnan(model.score(counts.X[1:], equal[1:]))
    assert np.isnan(model.score(counts.X, equal, sample_weight=equal == 2))
    assert np.isfinite(model.score(counts.X, equal))


def test_without_noise_or_penalty_it_is_least_squares(numbers):
    model = PrivateLinearRegression(0, alpha=0).fit(numbers.X, numbers.y)
    expected = LinearRegression().fit(numbers.X, numbers.y)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-10)
    assert model.intercept_ == pytest.approx(expected.intercept_, rel=1e-10)


def test_without_noise_leakage_is_infinite(estimator_class, data):
    model = estimator_class(0).fit(data.X, data.y)
    assert np.all(model.fisher_information_loss_ == np.inf)
    assert np.all(model.diagonal_fisher_information_loss_ == np.inf)
    assert model.fisher_information_loss(per="dataset") == np.inf
    assert np.all(model.fisher_information_loss(per="feature") == np.inf)


def test_predictions_of_a_classifier(classes):
    y = np.where(classes.y == 1, "yes", "no")
    model = PrivateLogisticRegression(0.05, random_state=0).fit(classes.X, y)
    logits = classes.X @ model.coef_[0] + model.intercept_[0]
    assert_allclose(model.decision_function(classes.X), logits)
    probability = model.predict_proba(classes.X)
    assert_allclose(probability[:, 1], 1.0 / (1.0 + np.exp(-logits)))
    assert_allclose(probability.sum(axis=1), 1.0)
    assert_allclose(model.predict_log_proba(classes.X), np.log(probability))
    assert_array_equal(model.predict(classes.X), np.where(logits > 0.0, "yes", "no"))
    assert_array_equal(model.classes_, ["no", "yes"])
    far = model.predict_log_proba(1e4 * classes.X)
    assert np.all(np.isfinite(far))


def test_fitted_attributes(estimator_class, data):
    model = estimator_class(0.02).fit(data.X, data.y)
    n, d = data.X.shape
    assert model.noise_scale_ == 0.02
    assert model.n_features_in_ == d
    assert model.n_iter_ >= 1
    for name in ("fisher_information_loss_", "diagonal_fisher_information_loss_"):
        assert getattr(model, name).shape == (n,)
        assert np.all(getattr(model, name) > 0.0)
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "sample_reweights_")
    assert hasattr(model, "classes_") == (estimator_class is PrivateLogisticRegression)
    # A worst direction is at least a mean of directions, and at most their sum.
    assert np.all(model.diagonal_fisher_information_loss_ <= model.fisher_information_loss_)
    sums = np.sqrt(d + 1) * model.diagonal_fisher_information_loss_
    assert np.all(model.fisher_information_loss_ <= sums * (1 + 1e-12))


def test_leakage_is_that_of_the_exact_minimizer_over_the_noise(estimator_class, data):
    small, large = (estimator_class(s).fit(data.X, data.y) for s in (0.01, 0.5))
    for name in ("fisher_information_loss_", "diagonal_fisher_information_loss_"):
        assert_allclose(getattr(small, name), 50.0 * getattr(large, name), rtol=1e-12)


def test_the_signature():
    expected = {
        "noise_scale": 0.01,
        "alpha": 1e-2,
        "fit_intercept": True,
        "private_target": True,
        "reweighting": None,
        "data_norm": None,
        "max_iter": 100,
        "tol": 1e-10,
        "random_state": None,
        "verbose": 0,
    }
    for cls in (PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor):
        parameters = inspect.signature(cls).parameters
        assert {name: parameters[name].default for name in expected} == expected
        assert parameters["noise_scale"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        others = [p.kind for name, p in parameters.items() if name != "noise_scale"]
        assert set(others) == {inspect.Parameter.KEYWORD_ONLY}


def _parameters(model):
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def test_seeds(estimator_class, data):
    def fit(seed):
        return _parameters(estimator_class(0.1, random_state=seed).fit(data.X, data.y))

    assert_array_equal(fit(3), fit(3))
    assert_array_equal(fit(3), fit(np.random.default_rng(3)))
    assert np.all(fit(3) != fit(4))
    assert np.all(fit(None) != fit(None))
    generator = np.random.default_rng(0)
    assert np.all(fit(generator) != fit(generator))
    state = np.random.RandomState(0)
    first = fit(state)
    assert np.all(first != fit(state))
    assert_array_equal(first, fit(np.random.RandomState(0)))


def test_fresh_noise_does_not_follow_the_global_seed(estimator_class, data):
    state = np.random.get_state()  # noqa: NPY002
    try:
        fits = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            fits.append(_parameters(estimator_class(0.1).fit(data.X, data.y)))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert np.all(fits[0] != fits[1])


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_noise_is_gaussian_of_the_stated_scale(estimator_class, rng, fit_intercept):
    X = rng.normal(size=(60, 50))
    y = np.arange(60) % 2
    options = {"fit_intercept": fit_intercept, "alpha": 1.0, "random_state": rng}
    exact = _parameters(estimator_class(0, **options).fit(X, y))
    model = estimator_class(0.3, **options)
    noise = np.array([_parameters(model.fit(X, y)) - exact for _ in range(40)]) / 0.3
    if not fit_intercept:
        assert_array_equal(noise[:, 50], 0.0)
        noise = noise[:, :50]
    n, k = noise.shape
    assert abs(noise.mean()) < 4.0 / np.sqrt(n * k)
    assert abs(noise.var() - 1.0) < 4.0 * np.sqrt(2.0 / (n * k))
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    # Neither coefficients nor fits share noise, and the intercept has as much as the others.
    products = [noise[:, 1:] * noise[:, :-1], noise[1:] * noise[:-1], noise[:, [0]] * noise[:, 1:]]
    for product in products:
        assert abs(product.mean()) < 4.0 / np.sqrt(product.size)
    assert abs(np.mean(noise[:, -1] ** 2) - 1.0) < 4.5 * np.sqrt(2.0 / n)


def test_without_an_intercept_there_is_no_noise_on_it(estimator_class, data):
    model = estimator_class(0.5, fit_intercept=False).fit(data.X, data.y)
    assert_array_equal(model.intercept_, 0.0)


def test_a_refit_forgets_the_reweighting(numbers):
    model = PrivateLinearRegression(0.1, reweighting="irfil").fit(numbers.X, numbers.y)
    names = [
        "sample_reweights_",
        "reweighting_history_",
        "n_reweighting_iter_",
        "conditional_fisher_information_loss_",
    ]
    assert all(hasattr(model, name) for name in names)
    model.set_params(reweighting=None).fit(numbers.X, numbers.y)
    assert not any(hasattr(model, name) for name in names)


def test_fit_does_not_edit_parameters(estimator_class, data):
    features = [0, 2]
    model = estimator_class(0.1, reweighting=IRFIL(features=features), alpha=1.0)
    before = model.get_params()
    assert model.fit(data.X, data.y) is model
    assert model.get_params() == before
    assert features == [0, 2]
    assert clone(model).get_params() == before


def test_what_is_asked_before_fit(estimator_class, data):
    model = estimator_class()
    calls = [
        lambda: model.predict(data.X),
        model.fisher_information_loss,
        model.leakage_report,
        model.release,
    ]
    for call in calls:
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.parametrize("cls", [PrivateLogisticRegression, PrivatePoissonRegressor])
def test_a_fit_that_stops_short_says_that_leakage_is_unreliable(cls, rng):
    X = rng.normal(size=(40, 3))
    y = rng.poisson(np.exp(X[:, 0])) if cls is PrivatePoissonRegressor else X[:, 0] > 0.3
    with pytest.warns(ConvergenceWarning, match=r"did not converge after 1 steps .*unreliable"):
        cls(max_iter=1).fit(X, y)


def test_one_step_is_enough_for_the_squared_loss(numbers):
    model = PrivateLinearRegression(0, max_iter=1).fit(numbers.X, numbers.y)
    assert model.n_iter_ == 1


def test_separable_classes_without_a_penalty_warn(rng):
    X = rng.normal(size=(30, 2))
    with pytest.warns(ConvergenceWarning, match="separable data have no finite minimizer"):
        PrivateLogisticRegression(0.1, alpha=0).fit(X, X[:, 0] > 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateLogisticRegression(0.1, alpha=1e-6).fit(X, X[:, 0] > 0.0)


def test_collinear_and_constant_columns_with_a_penalty(estimator_class, data):
    X = np.column_stack([data.X, data.X[:, 0] - data.X[:, 1], np.full(60, 7.0), np.zeros(60)])
    model = estimator_class(0, alpha=1e-3).fit(X, data.y)
    assert_allclose(np.ravel(model.coef_)[-1], 0.0)
    # An intercept does the work of a constant column, which is penalized.
    assert_allclose(np.ravel(model.coef_)[-2], 0.0, atol=1e-10)
    losses = estimator_class(0.1, alpha=1e-3).fit(X, data.y).fisher_information_loss_
    assert np.all(np.isfinite(losses))


@pytest.mark.parametrize("n", mostly_slow([1, 2, 3], 1))
def test_very_few_records(estimator_class, rng, n):
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2 + (n == 1)
    model = estimator_class(0.1, alpha=0.1)
    if estimator_class is PrivateLogisticRegression and n == 1:
        with pytest.raises(ValueError, match="holds only one class"):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert model.fisher_information_loss_.shape == (n,)
    assert np.all(np.isfinite(model.fisher_information_loss_))
    assert np.isfinite(model.fisher_information_loss(per="dataset"))
    if estimator_class is not PrivateLogisticRegression:
        model.leakage_report()
        return
    # With another label of the only record of a class, all labels are equal.
    with pytest.warns(NoMinimizerWarning, match=f"of {n} records"):
        report = model.leakage_report()
    assert report.features.loc["(target)", "distance"] == np.inf


@pytest.mark.parametrize("target", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1e-2])
def test_perfect_fits_and_constant_targets(rng, target, alpha):
    X = rng.normal(size=(20, 3))
    for y in (X @ [1.0, 2.0, 3.0] + 1.0, np.full(20, 7.0), np.zeros(20)):
        model = PrivateLinearRegression(0.1, alpha=alpha, private_target=target).fit(X, y)
        losses = model.fisher_information_loss_
        assert np.all(np.isfinite(losses))
        assert np.all(losses >= 0.0)
        if target:
            assert losses.min() > 0.0


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_units_of_the_target(rng, size):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    plain = PrivateLinearRegression(1.0, private_target=False).fit(X, y)
    scaled = PrivateLinearRegression(size, private_target=False).fit(X, size * y)
    # Coefficients and noise in the target's unit: nothing of it is left in the leakage of X.
    assert_allclose(scaled.fisher_information_loss_, plain.fisher_information_loss_, rtol=1e-8)


def test_a_verbose_reweighting_shows_progress(numbers, capsys):
    PrivateLinearRegression(0.1, reweighting="irfil", verbose=1).fit(numbers.X, numbers.y)
    assert "reweighting" in capsys.readouterr().err
    PrivateLinearRegression(0.1, reweighting="irfil").fit(numbers.X, numbers.y)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
