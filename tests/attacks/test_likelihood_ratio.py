"""The exact membership test on released parameters: encodings, power, guarantees."""

import numpy as np
import pytest
from helpers import every, mostly_slow
from scipy import sparse
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from skleak.accounting import gaussian_delta, output_perturbation_sensitivity
from skleak.adversary.membership import removal_obstacle
from skleak.attacks._likelihood_ratio import LikelihoodRatioMembership
from skleak.bounds import dp_advantage, gdp_advantage
from skleak.bounds.priors import advantage_to_success
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import removal as _removals
from skleak.influence.refit import _changes
from skleak.influence.refit._changes import Change
from skleak.influence.removal import contraction, error_bound, removal_steps, second_order_change
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage
from skleak.metrics import binomial_interval

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def make_problem(estimator, rng, n=60, d=3):
    X = rng.normal(size=(n, d))
    a = X @ np.linspace(1.0, -0.5, d) + 0.2
    if estimator is PrivateLogisticRegression:
        return X, np.where(a + rng.logistic(size=n) > 0, "yes", "no")
    if estimator is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(a))
    return X, a + rng.normal(size=n)


def parameters(model):
    own = np.ravel(model.coef_)
    return np.append(own, model.intercept_) if model.fit_intercept else own


def refits(template, X, y, targets):
    others = [np.delete(np.arange(len(y)), i) for i in targets]
    return np.stack([parameters(clone(template).fit(X[k], y[k])) for k in others])


@pytest.fixture(params=["tensor", "passes", "refits"])
def way(request, monkeypatch):
    """Each of the ways by which an encoding may be found, and how close it then comes."""
    if request.param != "tensor":
        monkeypatch.setattr(_removals, "tensor_pays", lambda *_: False)
        monkeypatch.setattr(_removals, "_TOLERANCE", 1e-10)
    if request.param == "refits":
        monkeypatch.setattr(_changes, "_MAX_STEPS", 0)
    return 1e-6 if request.param == "tensor" else 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@every("fit_intercept", [True, False])
@every("alpha", [0.0, 1e-2, 1.0])
def test_encodings_are_refits(estimator, fit_intercept, alpha, way, rng):
    X, y = make_problem(estimator, rng)
    model = estimator(0.0, alpha=alpha, fit_intercept=fit_intercept)
    targets = np.array([0, 7, 31, 59])
    attack = LikelihoodRatioMembership(model, records=targets).fit(X, y)
    assert attack.encodings_.shape == (4, 2, 3 + fit_intercept)
    own = parameters(clone(model).fit(X, y))
    np.testing.assert_allclose(attack.encodings_[:, 1], np.tile(own, (4, 1)), atol=1e-10)
    error = np.linalg.norm(attack.encodings_[:, 0] - refits(model, X, y, targets), axis=1)
    assert np.all(error <= way * attack.distances_)


@pytest.mark.parametrize("estimator", mostly_slow(ESTIMATORS))
@pytest.mark.parametrize("alpha", mostly_slow([0.0, 1e-2]))
def test_a_record_leaves_with_all_of_its_weight(estimator, alpha, way, rng):
    X, y = make_problem(estimator, rng)
    weights = rng.uniform(0.3, 3.0, size=60)
    weights[[0, 7, 31]] = 12.0, 0.0, 1.5
    weights[58] = weights[59]
    targets = np.array([0, 7, 31, 58, 59])
    model = estimator(0.0, alpha=alpha).fit(X, y, sample_weight=weights)
    own, expected = parameters(model), []
    for i in targets:
        rest = np.delete(np.arange(60), i)
        expected.append(parameters(clone(model).fit(X[rest], y[rest], weights[rest])) - own)
    steps = removal_steps(model._confidential_state().objective, own, targets)
    distances = np.linalg.norm(expected, axis=1)
    assert np.all(np.linalg.norm(steps - expected, axis=1) <= way * distances + 1e-8)
    np.testing.assert_array_equal(steps[1], 0.0)
    # Their ratios alone count.
    model.fit(X, y, sample_weight=1000.0 * weights)
    again = removal_steps(model._confidential_state().objective, own, targets)
    np.testing.assert_allclose(again, steps, rtol=1e-4, atol=1e-8)


def test_the_only_record_cannot_leave(rng):
    X, y, weights = rng.normal(size=(3, 2)), rng.normal(size=3), np.array([0.0, 2.0, 0.0])
    model = PrivateLinearRegression(0.0, alpha=0.1).fit(X, y, weights)
    steps = removal_steps(
        model._confidential_state().objective, parameters(model), np.array([1, 0])
    )
    np.testing.assert_array_equal(steps, [[np.nan] * 3, [0.0] * 3])


@pytest.mark.slow
def test_a_record_far_off(rng):
    X, y = make_problem(PrivateLogisticRegression, rng)
    X[5] *= 40.0
    y[5] = "no" if X[5] @ [1.0, 0.25, -0.5] > 0 else "yes"
    model = PrivateLogisticRegression(0.0, alpha=1e-4)
    attack = LikelihoodRatioMembership(model).fit(X, y)
    expected = refits(model, X, y, range(60))
    np.testing.assert_allclose(attack.encodings_[:, 0], expected, rtol=1e-5, atol=1e-6)
    assert attack.distances_.max() > 0.1


@pytest.mark.slow
def test_no_third_derivative_no_short_cut(rng):
    """At zero coefficients the third order vanishes, and the fourth decides."""
    X = rng.normal(size=(30, 2))
    X = np.vstack([X, X])
    y = np.repeat([0, 1], 30)
    model = PrivateLogisticRegression(0.0, alpha=1e-3, fit_intercept=False)
    attack = LikelihoodRatioMembership(model).fit(X, y)
    np.testing.assert_allclose(attack.encodings_[:, 1], 0.0, atol=1e-12)
    error = attack.encodings_[:, 0] - refits(model, X, y, range(60))
    assert np.all(np.linalg.norm(error, axis=1) <= 1e-6 * attack.distances_)


@pytest.mark.parametrize("estimator", ESTIMATORS[1:])
@pytest.mark.parametrize("units", [1.0, 1e3])
def test_the_bound_on_the_error_holds(estimator, units, rng, monkeypatch):
    X, y = make_problem(estimator, rng, n=300)
    X[:, 1] *= units
    state = estimator(0.0, alpha=1e-6).fit(X, y)._confidential_state()
    w, rows = state.factor.coefficients, np.arange(300)
    monkeypatch.setattr(_removals, "_TOLERANCE", 1e-11)
    exact = removal_steps(state.objective, w, rows)
    removal = Change.without(state.objective, w, rows[:, None])
    steps = removal.first_steps()
    factor = contraction(removal, steps)
    assert np.median(factor) < 0.1
    correction = second_order_change(removal, steps)
    bound = error_bound(removal, steps, correction, factor)
    error = np.linalg.norm(steps - correction - exact, axis=1)
    certain = factor < 0.5
    assert np.all(error[certain] <= bound[certain] + 1e-12)
    # Where a correction is no small one, what is left is at most as long as it, in any direction.
    widest = np.tile(np.linalg.eigh(removal.inverse)[1][:, -1], (300, 1))
    assert np.all(error_bound(removal, widest, widest, np.ones(300)) >= 1.0 - 1e-9)
    assert np.all(error <= np.linalg.norm(steps - exact, axis=1) + 1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_records(estimator, rng):
    X, y = make_problem(estimator, rng)
    X[np.abs(X) < 0.5] = 0.0
    model = estimator(0.0)
    dense = clone(model).fit(X, y)._confidential_state()
    thin = clone(model).fit(sparse.csr_array(X), y)._confidential_state()
    rows = np.arange(60)
    steps = [removal_steps(s.objective, s.factor.coefficients, rows) for s in (dense, thin)]
    np.testing.assert_allclose(steps[1], steps[0], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_tables(estimator, kind, rng):
    X, y = make_problem(estimator, rng)
    X[np.abs(X) < 0.5] = 0.0
    model = estimator(0.1, random_state=0).fit(X, y)
    dense, thin = (LikelihoodRatioMembership(model).fit(table, y) for table in (X, kind(X)))
    assert thin.n_features_in_ == 3
    np.testing.assert_allclose(thin.encodings_, dense.encodings_, atol=1e-8)
    np.testing.assert_allclose(
        thin.decision_function(model), dense.decision_function(model), atol=1e-6
    )


def test_odds_are_those_of_the_densities(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    attack = LikelihoodRatioMembership(PrivateLinearRegression(0.05), prior=0.3).fit(X, y)
    released = attack.encodings_[3] + 0.05 * rng.normal(size=(2, 4))
    odds = attack.decision_function(released)
    assert odds.shape == (2, 60)
    for k, release in enumerate(released):
        for i in (0, 3, 59):
            without, own = (
                multivariate_normal(mean, 0.05**2).logpdf(release) for mean in attack.encodings_[i]
            )
            np.testing.assert_allclose(odds[k, i], own - without + np.log(0.3 / 0.7), atol=1e-8)
    np.testing.assert_allclose(attack.predict_proba(released)[..., 1], 1 / (1 + np.exp(-odds)))
    np.testing.assert_array_equal(attack.predict(released[0]), odds[0] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("prior", [0.5, 0.2, 0.7])
def test_measured_success_is_the_exact_one(estimator, prior, rng):
    X, y = make_problem(estimator, rng)
    attack = LikelihoodRatioMembership(estimator(), prior=prior).fit(X, y)
    scale = float(np.median(attack.distances_)) / 1.5
    exact = attack.expected_score(scale)
    assert np.all(exact >= max(prior, 1 - prior))
    for i in (0, 20, 40):
        member = rng.random(4_000) < prior
        released = attack.encodings_[i][member.astype(int)]
        released += scale * rng.normal(size=released.shape)
        right = attack.predict(released, scale)[:, i] == member
        interval = binomial_interval(int(right.sum()), 4_000, 0.9999)
        assert interval.low <= exact[i] <= interval.high


def test_measured_power_is_the_exact_one(rng):
    X, y = make_problem(PrivateLogisticRegression, rng)
    attack = LikelihoodRatioMembership(PrivateLogisticRegression()).fit(X, y)
    scale, row = float(attack.distances_[4]) / 2.0, 4
    noise = scale * rng.normal(size=(2, 20_000, 4))
    without, own = (
        attack.decision_function(attack.encodings_[row, t] + noise[t], scale)[:, row]
        for t in (0, 1)
    )
    for rate in (0.01, 0.1, 0.5):
        # Without the record the odds are N(-D^2 / 2, D^2).
        threshold = -2.0 + 2.0 * norm.isf(rate)
        for odds, expected in (
            (without, rate),
            (own, attack.expected_true_positive_rate(rate, scale)[row]),
        ):
            interval = binomial_interval(int(np.sum(odds > threshold)), 20_000, 0.9999)
            assert interval.low <= expected <= interval.high


def error_rates(attack, scale, prior):
    """Closed forms: odds are N(c - D^2 / 2, D^2) without the record, N(c + D^2 / 2, D^2) with it.

    The prior odds are c.
    """
    gap, log_odds = attack.distances_ / scale, np.log(prior / (1.0 - prior))
    return norm.sf(gap / 2 - log_odds / gap), norm.cdf(-gap / 2 - log_odds / gap)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("prior", [0.5, 0.1, 0.8])
def test_measured_error_rates_are_those_of_the_closed_form(estimator, fit_intercept, prior, rng):
    X, y = make_problem(estimator, rng)
    model = estimator(fit_intercept=fit_intercept)
    attack = LikelihoodRatioMembership(model, prior=prior).fit(X, y)
    scale = float(np.median(attack.distances_)) / 1.5
    false_positive, missed = error_rates(attack, scale, prior)
    # Together they are the success, and a point of the curve.
    right = prior * (1.0 - missed) + (1.0 - prior) * (1.0 - false_positive)
    np.testing.assert_allclose(right, attack.expected_score(scale), rtol=1e-9)
    power = attack.expected_true_positive_rate(false_positive, scale)[np.arange(60), np.arange(60)]
    np.testing.assert_allclose(power, 1.0 - missed, atol=1e-9)
    order = np.argsort(attack.distances_)
    for i in (order[0], order[30], order[-1], *rng.choice(60, 3)):
        for truth, rate in ((0, false_positive[i]), (1, 1.0 - missed[i])):
            noise = scale * rng.normal(size=(3_000, attack.encodings_.shape[2]))
            called = attack.predict(attack.encodings_[i, truth] + noise, scale)[:, i]
            interval = binomial_interval(int(called.sum()), 3_000, 0.99999)
            assert interval.low <= rate <= interval.high


def random_bounded_problem(rng):
    """Records of norm at most R: on the sphere, inside, copies of one, or alone against all."""
    n, d = int(rng.integers(5, 60)), int(rng.integers(1, 6))
    radius = 10.0 ** rng.uniform(-1, 1)
    X = rng.normal(size=(n, d))
    X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
    kind = rng.integers(4)
    if kind == 1:
        X *= rng.random((n, 1))
    if kind >= 2:
        X[:] = X[0]
    y = (X @ rng.normal(size=d) + rng.normal(size=n) > 0).astype(int)
    if kind == 3:
        X[1:], y = -X[0], np.full(n, 1)
        y[0] = 0
    y[:2] = [0, 1]
    return X, y, radius


@pytest.mark.slow
def test_random_problems_stay_below_the_models_own_guarantee(rng):
    closest, epsilon = 0.0, np.array([0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
    for _ in range(200):
        X, y, radius = random_bounded_problem(rng)
        alpha, share = 10.0 ** rng.uniform(-3, 1), 10.0 ** rng.uniform(-0.7, 1)
        sensitivity = output_perturbation_sensitivity(1.0, radius, len(y), alpha)
        model = PrivateLogisticRegression(
            share * sensitivity,
            alpha=alpha,
            fit_intercept=False,
            data_norm=1.000001 * radius,
            classes=np.unique(y),
            public="n_samples",
        ).fit(X, y)
        mu = model.leakage_report().differential_privacy.mu
        assert mu == pytest.approx(1.0 / share, rel=1e-3)
        prior = float(rng.choice([0.5, rng.uniform(0.05, 0.95)]))
        attack = LikelihoodRatioMembership(model, prior=prior).fit(X, y)
        closest = max(closest, attack.distances_.max() / (mu * model.noise_scale_))
        odds = [1.0 - prior, prior]
        success = attack.expected_score().max()
        delta = gaussian_delta(mu, epsilon)
        ceiling = advantage_to_success(dp_advantage(epsilon, delta, odds), odds)
        assert np.all(success <= ceiling + 1e-12)
        assert success <= advantage_to_success(gdp_advantage(mu, odds), odds) + 1e-12
        even = attack.set_params(prior=0.5).fit(X, y)
        advantage = 2.0 * even.expected_score().max() - 1.0
        assert np.all(advantage <= dp_advantage(epsilon, delta, 2) + 1e-12)
        rates = np.linspace(0.0, 1.0, 51)
        power = even.expected_true_positive_rate(rates).max(axis=0)
        assert np.all(power <= norm.cdf(norm.ppf(rates) + mu) + 1e-12)
    # Some problem comes near.
    assert 0.3 < closest <= 1.0


@pytest.mark.slow
def test_private_releases_are_told_apart_as_often_as_stated(rng):
    """Models that are fitted and released, with and without the record."""
    X, y = make_problem(PrivateLinearRegression, rng)
    scale = 0.02
    attack = LikelihoodRatioMembership(PrivateLinearRegression(scale), records=[8]).fit(X, y)
    others = np.delete(np.arange(60), 8)
    right = 0
    for seed in range(400):
        rows = np.arange(60) if seed % 2 else others
        model = PrivateLinearRegression(scale, random_state=seed).fit(X[rows], y[rows])
        right += int(attack.predict(model)[0] == seed % 2)
    interval = binomial_interval(right, 400, 0.9999)
    assert interval.low <= attack.expected_score()[0] <= interval.high


@pytest.mark.parametrize("alpha", [1e-2, 1.0])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_no_test_beats_the_guarantee(alpha, scale, rng):
    """Replacement bounds removal too: 2 L R / (n alpha), with n the records with the target."""
    n, radius = 50, 2.0
    X = rng.normal(size=(n, 3))
    X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
    y = (X[:, 0] > 0).astype(int)
    y[:3] = 1 - y[:3]
    sensitivity = output_perturbation_sensitivity(1.0, radius, n, alpha)
    model = PrivateLogisticRegression(
        scale * sensitivity, alpha=alpha, fit_intercept=False, data_norm=radius
    )
    attack = LikelihoodRatioMembership(model).fit(X, y)
    assert attack.distances_.max() <= sensitivity
    advantage = 2.0 * attack.expected_score() - 1.0
    rates = np.linspace(0.0, 1.0, 101)
    power = attack.expected_true_positive_rate(rates)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0):
        delta = gaussian_delta(1.0 / scale, epsilon)
        assert advantage.max() <= dp_advantage(epsilon, delta, 2) + 1e-12
        assert np.all(power <= np.exp(epsilon) * rates + delta + 1e-12)


def test_power_has_the_right_ends(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    attack = LikelihoodRatioMembership(PrivateLinearRegression(0.1)).fit(X, y)
    np.testing.assert_array_equal(attack.expected_true_positive_rate(0.0), 0.0)
    np.testing.assert_array_equal(attack.expected_true_positive_rate([1.0]), 1.0)
    assert attack.expected_true_positive_rate([0.1, 0.2]).shape == (60, 2)
    assert np.all(attack.expected_true_positive_rate(0.1) >= 0.1)
    # The best sum of two errors is at the middle of the densities.
    rates = np.linspace(0.0, 1.0, 2001)
    best = (attack.expected_true_positive_rate(rates) - rates).max(axis=1)
    np.testing.assert_allclose(0.5 + 0.5 * best, attack.expected_score(), atol=1e-6)


def test_without_noise_every_record_that_counts_is_found(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    X[3], y[3] = 0.0, 0.0
    model = PrivateLinearRegression(0.0, alpha=0.0, fit_intercept=False).fit(X, y)
    attack = LikelihoodRatioMembership(model, prior=0.4).fit(X, y)
    assert attack.distances_[3] == 0.0
    others = np.arange(60) != 3
    assert np.all(attack.predict(model)[others] == 1)
    assert attack.predict(model)[3] == 0
    np.testing.assert_array_equal(attack.expected_score(), np.where(others, 1.0, 0.6))
    np.testing.assert_allclose(attack.expected_true_positive_rate(0.2), np.where(others, 1.0, 0.2))
    without = attack.encodings_[others, 0]
    assert not np.any(attack.predict(without, 0.0)[:, others].diagonal())


@pytest.mark.filterwarnings("ignore:The released parameters are multiples of")
def test_pipelines_frames_and_released_models(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(1e-7)).fit(X, y)
    attack = LikelihoodRatioMembership(pipe).fit(X, y)
    assert list(attack.feature_names_in_) == list(X.columns)
    assert attack.classes_.tolist() == [0, 1]
    assert attack.predict(pipe).all()
    assert attack.predict([pipe, pipe]).shape == (2, 60)
    model = pipe[-1]
    np.testing.assert_array_equal(attack.predict(model.release()), attack.predict(pipe))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (Ridge(), "private estimator"),
        (PrivateLinearRegression(reweighting="irfil"), "reweighting"),
        (PrivateLinearRegression(reweighting="total"), "reweighting"),
    ],
)
def test_where_it_does_not_apply(model, match, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    with pytest.raises(AttackNotApplicableError, match=match):
        LikelihoodRatioMembership(model, method="exact").fit(X, y)


def test_many_classes_are_refused(rng):
    X = rng.normal(size=(30, 2))
    with pytest.raises(AttackNotApplicableError, match="3 classes"):
        LikelihoodRatioMembership(PrivateLogisticRegression(), method="exact").fit(
            X, np.arange(30) % 3
        )


def test_classes_that_are_declared_count_as_well(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = PrivateLogisticRegression(classes=[0, 1, 2])
    with pytest.raises(AttackNotApplicableError, match="3 classes"):
        LikelihoodRatioMembership(model, method="exact").fit(X, y)
    assert removal_obstacle(model, y) == "the model has 3 classes"
    assert removal_obstacle(PrivateLogisticRegression(), y) == ""


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_record_without_which_there_is_no_model(estimator, rng):
    X, y = make_problem(estimator, rng)
    X[:, 2] = 0.0
    X[9, 2] = 1.0
    if estimator is PrivatePoissonRegressor:
        y[9] = 2
    model = estimator(0.0, alpha=0.0)
    if estimator is PrivateLogisticRegression:
        # One record of its own column is separated; with one class left there is no intercept.
        X, y, model = X[:, :2], np.where(np.arange(60) == 9, "yes", "no"), estimator(0.0)
    attack = LikelihoodRatioMembership(model)
    with pytest.raises(AttackNotApplicableError, match=r"no unique minimizer"):
        attack.fit(X, y)
    attack.set_params(records=[0, 1, 2]).fit(X, y)
    np.testing.assert_allclose(
        attack.encodings_[:, 0], refits(model, X, y, [0, 1, 2]), rtol=1e-5, atol=1e-7
    )


def test_unknown_noise(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(MaxLeakage(1.0))
    attack = LikelihoodRatioMembership(model).fit(X, y)
    with pytest.raises(ValueError, match="noise scale"):
        attack.expected_score()
    assert attack.expected_score(0.1).shape == (60,)


@pytest.mark.parametrize("rate", [-0.1, 1.5, np.nan, [[0.1]]])
def test_bad_rates(rate, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    attack = LikelihoodRatioMembership(PrivateLinearRegression()).fit(X, y)
    with pytest.raises(ValueError, match="`false_positive_rate`"):
        attack.expected_true_positive_rate(rate)


def test_bad_parameters(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    with pytest.raises(ValueError, match="prior"):
        LikelihoodRatioMembership(PrivateLinearRegression(), prior=1.0).fit(X, y)
    with pytest.raises(NotFittedError):
        LikelihoodRatioMembership(PrivateLinearRegression()).expected_score(1.0)
    attack = LikelihoodRatioMembership(PrivateLinearRegression()).fit(X, y)
    for noise in (-1.0, np.nan):
        with pytest.raises(ValueError, match="noise"):
            attack.expected_score(noise)
    with pytest.raises(ValueError, match="released"):
        attack.predict(np.zeros(3))


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
def test_adult(estimator, adult):
    X, y = adult.X_train.to_numpy(dtype=float), np.asarray(adult.y_train)
    attack = LikelihoodRatioMembership(estimator(0.01)).fit(X, y)
    targets = [0, int(attack.distances_.argmax()), int(attack.distances_.argmin())]
    error = attack.encodings_[targets, 0] - refits(estimator(0.0), X, y, targets)
    assert np.all(np.linalg.norm(error, axis=1) <= 1e-6 * attack.distances_[targets] + 1e-10)
    assert attack.distances_.shape == (30_162,)
    assert 0.5 < attack.expected_score().mean() < 0.6


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
def test_error_rates_on_adult(estimator, adult, rng):
    X, y = adult.X_train.to_numpy(dtype=float), np.asarray(adult.y_train)
    attack = LikelihoodRatioMembership(estimator()).fit(X, y)
    rows = [0, int(attack.distances_.argmax()), int(attack.distances_.argmin())]
    some = LikelihoodRatioMembership(estimator(), records=rows).fit(X, y)
    for k in range(3):
        scale = some.distances_[k] / 2.0
        false_positive, missed = error_rates(some, scale, 0.5)
        for truth, rate in ((0, false_positive[k]), (1, 1.0 - missed[k])):
            noise = scale * rng.normal(size=(2_000, some.encodings_.shape[2]))
            called = some.predict(some.encodings_[k, truth] + noise, scale)[:, k]
            interval = binomial_interval(int(called.sum()), 2_000, 0.9999)
            assert interval.low <= rate <= interval.high


@pytest.mark.slow
@pytest.mark.data
def test_the_guarantee_on_adult(adult):
    X, y = adult.X_train.to_numpy(dtype=float), np.asarray(adult.y_train)
    X = X / np.linalg.norm(X, axis=1).max()
    for alpha in (1e-3, 1e-1):
        model = PrivateLogisticRegression(
            0.01,
            alpha=alpha,
            fit_intercept=False,
            data_norm=1.0,
            classes=np.unique(y),
            public="n_samples",
        ).fit(X, y)
        stated = model.leakage_report().differential_privacy
        attack = LikelihoodRatioMembership(model).fit(X, y)
        advantage = 2.0 * attack.expected_score().max() - 1.0
        assert 0.0 < advantage <= dp_advantage(stated.epsilon, stated.delta, 2)
        assert attack.distances_.max() <= stated.mu * model.noise_scale_
