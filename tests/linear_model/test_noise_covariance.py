"""Noise of a covariance of its own: what is drawn, what it leaks, and what is refused."""

import json
import pickle

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse, stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.accounting import LeakageLedger
from skleak.attacks import (
    BlackBoxAttributeInference,
    InformedAttributeInference,
    InformedReconstruction,
    WhiteBoxAttributeInference,
)
from skleak.audit import LeakageAuditor
from skleak.channels import GaussianChannel
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.influence import candidate_encodings, minimax_shape
from skleak.influence.jacobian import Columns
from skleak.influence.noise import fitted_noise, noise_covariance
from skleak.influence.noise._noise import covariance_joint_loss
from skleak.influence.noise._terms import covariance_losses
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxAdvantage, MaxLeakage

WHOLE = Columns(target=True)
FITTED = ["curvature", "minimax", "least_mean"]  # shapes that depend on the data


def _terms(state, X, y, blocks):
    batch = state.batch(X, y)
    return covariance_losses(state, batch, blocks, noise=fitted_noise(state))


def _shape(rng, p):
    root = rng.normal(size=(p, p)) + 2.0 * np.eye(p)
    return root @ root.T


def _state(model):
    return model._confidential_state()


def _parameters(model):
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def _covariance(model):
    """Of the noise, from the definition."""
    state = _state(model)
    shape = inverse = state.factor.inverse_hessian
    if model.noise_covariance != "curvature":
        objective = state.objective
        J = state.factor.jacobian(objective.X, objective.y)
        power = 2 if model.noise_covariance == "least_mean" else 1
        M = np.einsum("n,nia,nja->ij", objective.sample_weight**power, J, J)
        half = linalg.sqrtm(inverse).real
        back = np.linalg.inv(half)
        shape = half @ linalg.sqrtm(back @ M @ back).real @ half
    return model.noise_scale_**2 * shape * len(shape) / np.trace(shape)


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(["given", *FITTED], 1))
def test_the_noise_has_the_covariance_stated(estimator_class, data, rng, kind):
    given = _shape(rng, 5)
    value = given if kind == "given" else kind
    model = estimator_class(0.7, noise_covariance=value).fit(data.X, data.y)
    state = _state(model)
    covariance = _covariance(model) if kind in FITTED else 0.49 * given * 5 / np.trace(given)
    assert np.trace(covariance) == pytest.approx(5 * 0.49)
    assert_allclose(noise_covariance(state) * 0.49, covariance, rtol=1e-9, atol=1e-12)
    draws = np.array(
        [
            _parameters(
                estimator_class(0.7, noise_covariance=value, random_state=seed).fit(data.X, data.y)
            )
            for seed in range(150)
        ]
    )
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - state.factor.coefficients).T)
    # Unit variance in every direction, and none in common.
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-4
    squares = 150 * np.cov(white, bias=True)
    assert_allclose(squares / 150, np.eye(5), atol=5.0 * np.sqrt(2.0 / 150))


@pytest.mark.parametrize("per", ["record", "feature", "dataset", "group"])
def test_the_identity_is_isotropic_bit_for_bit(estimator_class, data, per):
    models = [
        estimator_class(0.3, random_state=0, noise_covariance=value).fit(data.X, data.y)
        for value in ("isotropic", 3.0 * np.eye(5))
    ]
    assert_array_equal(*[_parameters(model) for model in models])
    groups = np.arange(60) % 4 if per == "group" else None
    losses = [model.fisher_information_loss(per=per, groups=groups) for model in models]
    assert_array_equal(*losses)
    assert_array_equal(*[model.diagonal_fisher_information_loss_ for model in models])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_losses_under_a_given_covariance(estimator_class, data, rng, fit_intercept):
    p = 4 + fit_intercept
    given = _shape(rng, p)
    model = estimator_class(0.3, noise_covariance=given, fit_intercept=fit_intercept)
    model.fit(data.X, data.y, sample_weight=data.weights)
    state = _state(model)
    jacobians = state.factor.jacobian(state.objective.X, state.objective.y)
    jacobians *= data.weights[:, None, None]
    precision = np.linalg.inv(0.09 * given * p / np.trace(given))
    information = jacobians.transpose(0, 2, 1) @ precision @ jacobians
    largest = np.sqrt(np.linalg.eigvalsh(information)[:, -1])
    assert_allclose(model.fisher_information_loss_, largest, rtol=1e-8)
    diagonal = np.einsum("ijj->ij", information)
    assert_allclose(model.diagonal_fisher_information_loss_, np.sqrt(diagonal.mean(axis=1)))
    assert_allclose(model.fisher_information_loss(per="feature"), np.sqrt(diagonal[:, :4]))
    root = np.linalg.cholesky(precision).T
    stacked = np.concatenate(list(root @ jacobians), 1)
    joint = np.linalg.norm(stacked, 2)
    assert model.fisher_information_loss(per="dataset") == pytest.approx(joint, rel=1e-8)


def _features(model, X, y, fit, step=1e-4):
    """What each entry of each record moves, whitened: mean and covariance, by refits.

    Of shape (n, d + 1, p + p * p): inner products are the Fisher information.
    """

    def of(X, y):
        changed = fit(X, y)
        return _state(changed).factor.coefficients, _covariance(changed)

    root = np.linalg.cholesky(_covariance(model))
    d = X.shape[1]
    result = []
    for i in range(len(y)):
        rows = []
        for j in range(d + 1):
            ends = []
            for sign in (1.0, -1.0):
                moved, target = X.copy(), y.copy()
                if j < d:
                    moved[i, j] += sign * step
                else:
                    target[i] += sign * step
                ends.append(of(moved, target))
            dw, dC = ((up - down) / (2.0 * step) for up, down in zip(*ends, strict=True))
            half = linalg.solve_triangular(root, dC, lower=True)
            half = linalg.solve_triangular(root, half.T, lower=True)
            mean = linalg.solve_triangular(root, dw, lower=True)
            rows.append(np.append(mean, half.ravel() / np.sqrt(2.0)))
        result.append(rows)
    return np.array(result)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("noise_scale", mostly_slow([0.3, 30.0], 0))
def test_both_terms_are_counted(numbers, noise_scale, kind):
    X, y = numbers.X[:12, :2], numbers.y[:12]

    def fit(X, y):
        model = PrivateLinearRegression(noise_scale, alpha=0.1, noise_covariance=kind)
        return model.fit(X, y)

    model = fit(X, y)
    features = _features(model, X, y, fit)
    own = np.linalg.norm(features, 2, axis=(1, 2))
    assert_allclose(model.fisher_information_loss_, own, rtol=1e-5)
    joint = np.linalg.norm(features.reshape(36, -1), 2)
    assert model.fisher_information_loss(per="dataset") == pytest.approx(joint, rel=1e-5)
    trace = np.sqrt(np.mean(features.reshape(36, -1) ** 2) * features.shape[-1])
    found = model.fisher_information_loss(per="dataset", norm="trace")
    assert found == pytest.approx(trace, rel=1e-5)
    groups = np.array([0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3])
    by_group = model.fisher_information_loss(per="group", groups=groups, features=[1, 0])
    for label in range(4):
        some = features[groups == label][:, :2]
        expected = np.linalg.norm(some.reshape(-1, some.shape[-1]), 2)
        assert by_group[label] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("noise_scale", mostly_slow([0.3, 30.0], 0))
def test_joint_loss_of_losses_with_a_third_derivative(noise_scale, counts, kind):
    X, y = counts.X[:10, :2] / 3.0, counts.y[:10] + 0.5

    def fit(X, y):
        model = PrivatePoissonRegressor(noise_scale, alpha=0.1, noise_covariance=kind)
        return model.fit(X, y)

    model = fit(X, y)
    features = _features(model, X, y, fit)
    own = np.linalg.norm(features, 2, axis=(1, 2))
    assert_allclose(model.fisher_information_loss_, own, rtol=1e-4)
    joint = np.linalg.norm(features.reshape(30, -1), 2)
    assert model.fisher_information_loss(per="dataset") == pytest.approx(joint, rel=1e-4)


@pytest.mark.parametrize("kind", mostly_slow(FITTED, 1))
def test_losses_are_those_of_the_layer(estimator_class, data, kind):
    model = estimator_class(0.3, noise_covariance=kind, private_target=False)
    model.fit(data.X, data.y, sample_weight=data.weights)
    state = _state(model)
    X, y = state.objective.X, state.objective.y
    losses = _terms(state, X, y, [Columns(), Columns(np.array([2]))])
    assert_array_equal(model.fisher_information_loss_, losses.total[:, 0])
    single = model.fisher_information_loss(per="feature", features=[2])
    assert_array_equal(single, losses.total[:, 1:])
    assert np.all(losses.total > losses.mean)
    batch, noise = state.batch(X, y), fitted_noise(state)
    joint = covariance_joint_loss(state, batch, Columns(), noise=noise)
    assert model.fisher_information_loss(per="dataset") == joint
    # One record alone is itself.
    one = model.fisher_information_loss(per="group", groups=np.arange(60))
    assert_allclose(one, losses.total[:, 0], rtol=1e-8)


@pytest.mark.parametrize("kind", FITTED)
def test_a_row_moves_all_of_its_copies_and_records_may_be_sparse(estimator_class, data, kind):
    options = {"noise_covariance": kind, "noise_scale": 0.3}
    weighted = estimator_class(**options).fit(data.X, data.y, sample_weight=data.weights)
    copies = np.repeat(np.arange(60), data.weights.astype(int))
    repeated = estimator_class(**options).fit(data.X[copies], data.y[copies])
    losses = weighted.fisher_information_loss_
    if kind != "least_mean":  # for which a weight of 2 is one person, and not two
        expected = data.weights[copies] * repeated.fisher_information_loss_
        assert_allclose(losses[copies], expected, rtol=1e-6)
    joint = weighted.fisher_information_loss(per="dataset")
    thin = estimator_class(**options)
    thin.fit(sparse.csr_matrix(data.X), data.y, sample_weight=data.weights)
    assert_allclose(thin.fisher_information_loss_, losses, rtol=1e-6)
    assert thin.fisher_information_loss(per="dataset") == pytest.approx(joint, rel=1e-6)
    single = estimator_class(**options).fit(data.X.astype(np.float32), data.y, data.weights)
    assert_allclose(single.fisher_information_loss_, losses, rtol=1e-3)
    assert single.coef_.dtype == np.float64


@pytest.mark.parametrize("kind", FITTED)
def test_weight_zero_takes_no_part(numbers, kind):
    weights = np.ones(60)
    weights[[3, 7]] = 0.0
    kept = weights > 0.0
    models = [
        PrivateLinearRegression(0.3, noise_covariance=kind).fit(X, y, s)
        for X, y, s in (
            (numbers.X, numbers.y, weights),
            (numbers.X[kept], numbers.y[kept], None),
        )
    ]
    losses = models[0].fisher_information_loss_
    assert_array_equal(losses[[3, 7]], 0.0)
    assert_allclose(losses[kept], models[1].fisher_information_loss_, rtol=1e-8)
    joint = [model.fisher_information_loss(per="dataset") for model in models]
    assert joint[0] == pytest.approx(joint[1], rel=1e-8)
    assert models[0].fisher_information_loss(numbers.X[:1] + 0.1, numbers.y[:1]) > 0.0


def test_without_noise_all_is_known(numbers):
    for value in (*FITTED, np.diag([1.0, 2.0, 3.0, 4.0, 5.0])):
        model = PrivateLinearRegression(0.0, noise_covariance=value).fit(numbers.X, numbers.y)
        assert np.all(np.isinf(model.fisher_information_loss_))
        assert np.isinf(model.fisher_information_loss(per="dataset"))
        assert "infinite" in model.leakage_report().to_text(full=True)


def test_a_given_shape_has_no_scale(classes, rng):
    given = _shape(rng, 5)
    models = [
        PrivateLogisticRegression(0.3, noise_covariance=k * given, random_state=0).fit(
            classes.X, classes.y
        )
        for k in (1.0, 1e6)
    ]
    assert_allclose(*[_parameters(model) for model in models], rtol=1e-12)
    assert_allclose(*[model.fisher_information_loss_ for model in models], rtol=1e-10)
    listed = PrivateLogisticRegression(0.3, noise_covariance=given.tolist())
    losses = listed.fit(classes.X, classes.y).fisher_information_loss_
    assert_allclose(losses, models[0].fisher_information_loss_)


@pytest.mark.parametrize("kind", ["given", *FITTED])
@pytest.mark.parametrize("options", [{}, {"features": [0, 2]}, {"quantile": 0.8}])
def test_max_leakage(estimator_class, data, rng, kind, options):
    value = _shape(rng, 5) if kind == "given" else kind
    first = estimator_class(1e6, noise_covariance=value).fit(data.X, data.y)
    floor = first.fisher_information_loss(features=options.get("features")).max()
    eta = 3.0 * floor
    target = MaxLeakage(eta, **options)
    model = estimator_class(target.noise_scale_of(first), noise_covariance=value)
    model.fit(data.X, data.y)
    losses = model.fisher_information_loss(features=options.get("features"))
    reached = np.quantile(losses, options.get("quantile", 1.0), method="higher")
    assert reached == pytest.approx(eta, rel=1e-6)
    assert reached <= eta * (1.0 + 1e-9)


@pytest.mark.parametrize("kind", FITTED)
def test_max_leakage_that_no_noise_reaches(numbers, kind):
    first = PrivateLinearRegression(1e6, noise_covariance=kind).fit(numbers.X, numbers.y)
    eta = 0.9 * first.fisher_information_loss_.max()
    model = PrivateLinearRegression(MaxLeakage(eta), noise_covariance=kind)
    with pytest.raises(ValueError, match="No noise scale reaches"):
        model.fit(numbers.X, numbers.y)
    assert MaxLeakage(eta, quantile=0.5).noise_scale_of(first) > 0.0


def test_max_advantage(numbers, rng):
    X, given = numbers.X.copy(), _shape(rng, 5)
    X[:, 0] = X[:, 0] > 0
    target = MaxAdvantage(0.2, attribute=0, prior="uniform")
    model = PrivateLinearRegression(1.0, noise_covariance=given).fit(X, numbers.y)
    model.set_params(noise_scale=target.noise_scale_of(model)).fit(X, numbers.y)
    encodings = candidate_encodings(model, X, numbers.y, 0, [0.0, 1.0])
    root = np.linalg.cholesky(given * 5 / np.trace(given)) * model.noise_scale_
    white = np.linalg.solve(root, encodings.reshape(-1, 5).T).T.reshape(encodings.shape)
    success = GaussianChannel(white, 1.0).bayes_success([0.5, 0.5])
    assert 2.0 * success.max() - 1.0 == pytest.approx(0.2, rel=1e-6)
    for kind in FITTED:
        shaped = PrivateLinearRegression(target, noise_covariance=kind)
        with pytest.raises(ValueError, match=f"same under every value(.|\n)*{kind}"):
            shaped.fit(X, numbers.y)


@pytest.mark.parametrize("target", mostly_slow([GaussianDP(1.5), EpsilonDelta(2.0, 1e-6)]))
def test_differential_privacy(classes, rng, target):
    X = classes.X / np.linalg.norm(classes.X, axis=1).max()
    given = _shape(rng, 4)
    options = {"alpha": 0.1, "data_norm": 1.0, "fit_intercept": False}
    options |= {"classes": np.unique(classes.y), "public": "n_samples"}
    model = PrivateLogisticRegression(target, noise_covariance=given, **options).fit(X, classes.y)
    plain = PrivateLogisticRegression(target, mechanism="output", **options).fit(X, classes.y)
    least = np.sqrt(np.linalg.eigvalsh(given * 4 / np.trace(given))[0])
    assert model.noise_scale_ * least == pytest.approx(plain.noise_scale_)
    guarantee = model.leakage_report().differential_privacy
    expected = plain.leakage_report().differential_privacy
    assert guarantee.mu == pytest.approx(expected.mu)
    assert guarantee.mu * (1.0 + 1e-8) >= expected.mu
    assert expected.exact
    assert not guarantee.exact
    assert guarantee.sensitivity == pytest.approx(expected.sensitivity, rel=1e-8)
    for kind in FITTED:
        shaped = PrivateLogisticRegression(target, noise_covariance=kind, **options)
        with pytest.raises(ValueError, match=f"covariance of the noise .'{kind}'. is a function"):
            shaped.fit(X, classes.y)
        shaped.set_params(noise_scale=0.1).fit(X, classes.y)
        report = shaped.leakage_report()
        assert not report.differential_privacy.holds
        assert "covariance of the noise" in report.differential_privacy.reasons[0]


@pytest.mark.parametrize("kind", mostly_slow(FITTED))
def test_reports_state_both_terms(numbers, kind):
    model = PrivateLinearRegression(0.5, noise_covariance=kind).fit(numbers.X, numbers.y)
    report, state = model.leakage_report(groups=np.arange(60) % 2), _state(model)
    X, y = state.objective.X, state.objective.y
    losses = _terms(state, X, y, [WHOLE])
    data = report.dataset
    assert data["noise_covariance"] == kind
    assert data["max_loss"] == losses.total.max()
    assert data["through_mean_max_loss"] == losses.mean.max()
    assert data["through_mean_mean_loss"] == pytest.approx(losses.mean.mean())
    assert data["through_covariance_max_loss"] == losses.covariance.max()
    assert data["through_covariance_mean_loss"] == pytest.approx(losses.covariance.mean())
    assert data["joint_loss"] == model.fisher_information_loss(per="dataset")
    text, page = report.to_text(full=True), report.to_html()
    for form in (" ".join(text.split()), page):
        assert "Through the mean of the release" in form
        assert "through its covariance" in form
        assert f"{losses.covariance.max():.3g}" in form
        assert f"{losses.mean.max():.3g}" in form
    assert json.loads(report.to_json())["dataset"]["noise_covariance"] == kind
    names = {
        "curvature": "the shape of the curvature",
        "minimax": "the minimax shape",
        "least_mean": "the shape of the least mean squared loss",
    }
    assert any(names[kind] in line for line in report.assumptions)
    assert any(names[kind] in line for line in report.findings)


@pytest.mark.slow
def test_reports_state_a_given_covariance(numbers, rng):
    model = PrivateLinearRegression(0.5, noise_covariance=_shape(rng, 5))
    report = model.fit(numbers.X, numbers.y).leakage_report()
    assert report.dataset["noise_covariance"] == "given"
    assert report.dataset["through_mean_max_loss"] is None
    assert any("counts as public" in line for line in report.assumptions)
    assert "a given covariance" in report.to_text(full=True)
    assert "a given covariance" in report.to_html()
    plain = PrivateLinearRegression(0.5).fit(numbers.X, numbers.y).leakage_report()
    assert "covariance" not in plain.to_text(full=True)
    assert "equal variance in all directions" in plain.to_html()


@pytest.mark.parametrize("kind", FITTED)
def test_the_ledger_is_charged_both_terms(numbers, kind):
    ledger = LeakageLedger(":memory:")
    model = PrivateLinearRegression(30.0, noise_covariance=kind, ledger=ledger)
    model.fit(numbers.X, numbers.y)
    state = _state(model)
    X, y = state.objective.X, state.objective.y
    losses = _terms(state, X, y, [WHOLE])
    assert losses.total.max() > 1.1 * losses.mean.max()
    charged = ledger.total("default").fisher_information_loss
    assert charged.max() == pytest.approx(losses.total.max())


def test_a_release_does_not_hold_the_covariance(numbers, rng):
    given = _shape(rng, 5)
    names = ["isotropic", *FITTED, "given"]
    for value, name in zip([*names[:-1], given], names, strict=True):
        model = PrivateLinearRegression(0.5, noise_covariance=value).fit(numbers.X, numbers.y)
        released = model.release()
        assert released.provenance_["noise_covariance"] == name
        arrays = [each for each in vars(released).values() if isinstance(each, np.ndarray)]
        assert all(array.ndim < 2 for array in arrays)


def test_contract(numbers, rng):
    given = _shape(rng, 5)
    model = PrivateLinearRegression(0.5, noise_covariance=given, random_state=0)
    assert model.get_params()["noise_covariance"] is given
    copy = clone(model)
    assert_array_equal(copy.noise_covariance, given)
    assert copy.noise_covariance is not given
    assert "noise_covariance" in repr(clone(model).set_params(noise_covariance="curvature"))
    assert "array" in repr(model)
    model.fit(numbers.X, numbers.y)
    with pytest.warns(PrivacyLeakWarning, match="Pickling"):
        loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.fisher_information_loss_, model.fisher_information_loss_)
    assert not hasattr(loaded, "_state")
    given *= 2.0  # what is published does not follow later edits
    assert_array_equal(model.fisher_information_loss(), model.fisher_information_loss_)
    for kind in FITTED:
        pipe = make_pipeline(StandardScaler(), PrivateLinearRegression(noise_covariance=kind))
        pipe.fit(numbers.X, numbers.y)
        assert pipe[-1].fisher_information_loss_.shape == (60,)


def test_minimax_shapes_of_public_records(numbers, rng):
    public = PrivateLinearRegression(0.0).fit(numbers.X[:30], numbers.y[:30])
    found = minimax_shape(public)
    assert_array_equal(found.shape, minimax_shape(_state(public)).shape)
    model = PrivateLinearRegression(0.5, noise_covariance=found.shape)
    model.fit(numbers.X[30:], numbers.y[30:])
    assert_allclose(_state(model).noise.matrix, found.shape)
    # On the records themselves it is the best of all shapes, for equal cost.
    shape = minimax_shape(_state(public), tol=1e-6).shape
    state = _state(public)
    inverse = state.factor.inverse_hessian
    hessian = np.linalg.inv(inverse)
    scores = []
    for matrix in (shape, np.eye(5), inverse * 5 / np.trace(inverse)):
        scale = np.sqrt(1.0 / np.trace(hessian @ matrix))
        fit = PrivateLinearRegression(scale, noise_covariance=matrix)
        scores.append(fit.fit(numbers.X[:30], numbers.y[:30]).fisher_information_loss_.max())
    assert scores[0] < min(scores[1:])


@pytest.mark.parametrize(
    "value, error, message",
    [
        ("diagonal", ValueError, "'isotropic', 'curvature', 'minimax'"),
        (np.eye(4), ValueError, r"shape \(5, 5\)"),
        (np.ones(5), ValueError, r"shape \(5, 5\)"),
        (np.zeros((5, 5)), ValueError, "positive definite"),
        (np.triu(np.ones((5, 5))), ValueError, "symmetric"),
        (np.full((5, 5), np.nan), ValueError, "finite"),
        (np.full((5, 5), "a"), TypeError, "real numbers"),
    ],
)
def test_errors(value, error, message, numbers):
    model = PrivateLinearRegression(noise_covariance=value)
    with pytest.raises(error, match=message) as caught:
        model.fit(numbers.X, numbers.y)
    assert "noise_covariance" in str(caught.value)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("value", [*FITTED, np.eye(5)])
def test_what_cannot_be_accounted_for(value, numbers, rng):
    model = PrivateLinearRegression(noise_covariance=value, reweighting="irfil")
    with pytest.raises(ValueError, match="isotropic noise only"):
        model.fit(numbers.X, numbers.y)
    several = PrivateLogisticRegression(noise_covariance=value)
    with pytest.raises(ValueError, match="Only binary classification"):
        several.fit(numbers.X, rng.integers(0, 3, 60))
    assert not several.__sklearn_tags__().classifier_tags.multi_class


def test_too_many_parameters_for_the_third_derivatives(rng):
    X, y = rng.normal(size=(30, 401)), np.arange(30) % 2
    for estimator, kind in (
        (PrivateLogisticRegression, "curvature"),
        (PrivateLogisticRegression, "minimax"),
        (PrivateLinearRegression, "minimax"),
    ):
        with pytest.raises(ValueError, match="at most 400 parameters"):
            estimator(noise_covariance=kind).fit(X, y)


@pytest.mark.parametrize("value", [*FITTED, np.diag([1.0, 2.0, 3.0, 4.0, 5.0])])
def test_no_attack_takes_the_noise_to_be_isotropic(value, numbers):
    X, y = numbers.X.copy(), numbers.y
    X[:, 0] = X[:, 0] > 0
    model = PrivateLinearRegression(0.5, noise_covariance=value).fit(X, y)
    plain = PrivateLinearRegression(0.5).fit(X, y)
    for attack in (
        InformedAttributeInference(model, 0),
        InformedReconstruction(model),
        LeakageAuditor(model, n_releases=2),
    ):
        if not isinstance(value, str) and not isinstance(attack, InformedAttributeInference):
            attack.fit(X, y)  # which reads records off noise of a covariance that was given
            continue
        with pytest.raises(AttackNotApplicableError, match="noise_covariance"):
            attack.fit(X, y)
    for attack in (
        InformedAttributeInference(plain, 0),
        InformedReconstruction(plain),
        WhiteBoxAttributeInference(plain, 0),
    ):
        attack.fit(X, y)
        for released in (model, model.release()):
            with pytest.raises(AttackNotApplicableError, match="noise_covariance"):
                attack.predict(released)
    attack = BlackBoxAttributeInference(model, 0).fit(X, y)
    assert attack.predict(model).shape == (60,)


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("value", [3.0, 0.0])
def test_a_constant_target(numbers, kind, value):
    # Without residuals no record moves what the penalty holds: how much noise the minimax shape
    # has there would hang on single records.
    X, y = np.column_stack([numbers.X, numbers.X[:, 0]]), np.full(60, value)
    model = PrivateLinearRegression(0.5, noise_covariance=kind)
    if kind == "curvature":
        assert np.all(np.isfinite(model.fit(X, y).fisher_information_loss_))
        return
    with pytest.raises(ValueError, match=f"{kind} shape of the noise is singular"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    # Whatever the columns span is moved by the targets.
    assert np.all(np.isfinite(model.fit(numbers.X, y).fisher_information_loss_))


@pytest.mark.parametrize("kind", FITTED)
def test_more_columns_than_records(estimator_class, make_data, rng, kind):
    data = make_data(estimator_class, rng, n=6, d=9)
    model = estimator_class(0.5, alpha=0.1, noise_covariance=kind).fit(data.X, data.y)
    losses = model.fisher_information_loss_
    assert np.all(np.isfinite(losses))
    assert model.fisher_information_loss(per="dataset") >= losses.max() * (1.0 - 1e-9)


def test_the_least_mean_is_least(estimator_class, data):
    # Mean squared trace loss through the mean at the same rise of the objective: of persons with
    # their whole weights, and of the unknowns alone.
    for private_target in (True, False):
        options = {"private_target": private_target}
        models = {
            name: estimator_class(1.0, noise_covariance=name, **options)
            for name in ("isotropic", *FITTED)
        }
        mean, shapes = {}, {}
        for name, model in models.items():
            shapes[name] = noise_covariance(_state(model.fit(data.X, data.y, data.weights)))
            cost = np.trace(np.linalg.solve(_state(model).factor.inverse_hessian, shapes[name]))
            given = estimator_class(cost**-0.5, noise_covariance=shapes[name], **options)
            given.fit(data.X, data.y, data.weights)
            mean[name] = np.sum(given.diagonal_fisher_information_loss_**2)
        assert min(mean, key=mean.get) == "least_mean"
        # With equal weights and a private target it is the other geometric mean.
        least, other = (
            noise_covariance(_state(models[name].fit(data.X, data.y)))
            for name in ("least_mean", "minimax")
        )
        assert np.allclose(least, other, rtol=1e-12, atol=0.0) == private_target


def test_the_minimax_shape_is_the_best_on_average(estimator_class, data):
    # Mean squared trace loss of unit weights through the mean, at the same rise of the objective.
    models = {
        name: estimator_class(1.0, noise_covariance=name).fit(data.X, data.y, data.weights)
        for name in ("isotropic", *FITTED)
    }
    state = _state(models["isotropic"])
    hessian = np.linalg.inv(state.factor.inverse_hessian)
    mean = {}
    for name, model in models.items():
        shape = noise_covariance(_state(model))
        given = estimator_class(np.sqrt(1.0 / np.trace(hessian @ shape)), noise_covariance=shape)
        given.fit(data.X, data.y, data.weights)
        mean[name] = np.sum(given.diagonal_fisher_information_loss_**2 / data.weights)
    assert mean["minimax"] < mean["curvature"]
    assert mean["minimax"] < mean["isotropic"]
