"""`PrivateLogisticRegression` with more than two classes, in all that surrounds a fit."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.accounting import LeakageLedger, gaussian_delta
from skleak.channels import GaussianChannel
from skleak.exceptions import LeakageBudgetError, PrivacyLeakWarning
from skleak.influence import candidate_encodings
from skleak.influence.jacobian import Columns
from skleak.linear_model import PrivateLogisticRegression
from skleak.linear_model._measured import training_loss
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxAdvantage, MaxLeakage

TREES = np.array(["ash", "elm", "oak", "yew"])


@pytest.fixture
def trees(rng):
    """Records of four named classes, unequally frequent, and integer weights."""
    X = rng.normal(size=(150, 3)) * [1.0, 2.0, 0.5]
    logits = X @ rng.normal(size=(3, 4)) + [0.0, 1.0, -1.0, 0.5] + rng.gumbel(size=(150, 4))
    y = TREES[logits.argmax(axis=1)]
    y[:4] = TREES
    return X, y, rng.integers(1, 4, size=150).astype(float)


@pytest.fixture
def unit_rows(trees):
    X, y = trees[0][:60], trees[1][:60]
    return X / (np.linalg.norm(X, axis=1, keepdims=True) * 1.001), y


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_without_noise_it_is_scikit_learns(trees, fit_intercept, form):
    X, y, weights = trees
    model = PrivateLogisticRegression(0, alpha=0.02, fit_intercept=fit_intercept)
    model.fit(form(X), y, sample_weight=weights)
    strength = 1.0 / (weights.sum() * 0.02)
    expected = LogisticRegression(
        C=strength, tol=1e-12, max_iter=1000, solver="newton-cg", fit_intercept=fit_intercept
    ).fit(X, y, sample_weight=weights)
    assert_array_equal(model.classes_, TREES)
    assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    shift = np.mean(expected.intercept_)
    assert_allclose(model.intercept_, expected.intercept_ - shift, atol=1e-6)
    assert_array_equal(model.predict(form(X)), expected.predict(X))
    assert_allclose(model.predict_proba(form(X)), expected.predict_proba(X), atol=1e-7)
    assert_allclose(model.predict_log_proba(X), np.log(expected.predict_proba(X)), atol=1e-6)
    centered = expected.decision_function(X) - shift
    assert_allclose(model.decision_function(X), centered, atol=1e-6)
    assert model.score(X, y, weights) == expected.score(X, y, weights)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "c"]),
        np.array([7, -2, 30]),
        np.array([0.5, 1.0, 2.0]).astype(str).astype(object),
        pd.Categorical(["low", "mid", "high"], ordered=True),
    ],
    ids=["strings", "integers", "objects", "categories"],
)
def test_labels_of_any_kind(trees, labels):
    X, codes = trees[0], np.arange(150) % 3
    y = pd.Series(labels[codes]) if isinstance(labels, pd.Categorical) else labels[codes]
    model = PrivateLogisticRegression(0).fit(X, y)
    expected = PrivateLogisticRegression(0).fit(X, codes)
    order = np.argsort(np.asarray(labels))
    assert_array_equal(model.classes_, np.asarray(labels)[order])
    assert_allclose(model.coef_, expected.coef_[order], atol=1e-12)
    assert set(model.predict(X)) <= set(np.asarray(labels))
    assert_allclose(model.fisher_information_loss(X, y), model.fisher_information_loss_)


@pytest.mark.slow
def test_noise_on_every_parameter(trees):
    X, y, _ = trees
    quiet = PrivateLogisticRegression(0).fit(X, y)
    draws = []
    for seed in range(300):
        model = PrivateLogisticRegression(0.3, random_state=seed).fit(X, y)
        draws.append(np.append(model.coef_ - quiet.coef_, model.intercept_ - quiet.intercept_))
    draws = np.array(draws)
    covariance = draws.T @ draws / len(draws)
    assert_allclose(covariance, 0.09 * np.eye(16), atol=0.09 * 5.0 / np.sqrt(300))
    assert model.noise_scale_ == 0.3


@pytest.mark.slow
def test_a_row_moves_all_of_its_copies(trees):
    X, y, weights = trees
    times = weights.astype(int)
    weighted = PrivateLogisticRegression(0.1).fit(X, y, sample_weight=weights)
    repeated = PrivateLogisticRegression(0.1).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    expected = np.repeat(weights, times) * repeated.fisher_information_loss_
    assert_allclose(np.repeat(weighted.fisher_information_loss_, times), expected, rtol=1e-8)
    # Together they are one group to whom the whole weights belong.
    one = weighted.fisher_information_loss(per="group", groups=np.arange(len(y)))
    assert_allclose(one, weighted.fisher_information_loss_, rtol=1e-8)


def test_every_grain(trees):
    X = pd.DataFrame(trees[0], columns=["age", "bmi", "dose"])
    y = trees[1]
    model = PrivateLogisticRegression(0.1, private_target=False).fit(X, y)
    jacobian = model._state.factor.jacobian(X.to_numpy(), model._encode_targets(y, X)) / 0.1
    losses = np.linalg.norm(jacobian[:, :, :3], 2, axis=(1, 2))
    assert_allclose(model.fisher_information_loss(), losses, rtol=1e-8)
    table = model.fisher_information_loss(per="feature", features=["bmi", ["age", "dose"]])
    assert_allclose(table[:, 0], np.linalg.norm(jacobian[:, :, 1], axis=1), rtol=1e-8)
    pair = np.linalg.norm(jacobian[:, :, [0, 2]], 2, axis=(1, 2))
    assert_allclose(table[:, 1], pair, rtol=1e-8)
    whole = np.linalg.norm(np.hstack(jacobian[:, :, :3]), 2)
    assert_allclose(model.fisher_information_loss(per="dataset"), whole, rtol=1e-8)
    groups = model.fisher_information_loss(per="group", groups=y)
    for tree in TREES:
        expected = np.linalg.norm(np.hstack(jacobian[y == tree][:, :, :3]), 2)
        assert_allclose(groups[tree], expected, rtol=1e-8)
    private = PrivateLogisticRegression(0.1).fit(X, y)
    assert_allclose(
        private.fisher_information_loss(), np.linalg.norm(jacobian, 2, axis=(1, 2)), rtol=1e-8
    )
    trace = np.linalg.norm(jacobian, axis=(1, 2)) / np.sqrt(6.0)
    assert_allclose(private.diagonal_fisher_information_loss_, trace, rtol=1e-8)
    with pytest.raises(ValueError, match="fir"):
        private.fisher_information_loss(X.head(1), ["fir"])


def test_reweighting_is_for_two_classes(trees):
    X, y, weights = trees
    model = PrivateLogisticRegression(0.1, reweighting="irfil", alpha=0.1)
    with pytest.raises(ValueError, match=r"Only binary .* Got 4 classes\. Make .* or drop `rewei"):
        model.fit(X, y, sample_weight=weights)


@pytest.mark.slow
def test_targets_of_the_noise(trees):
    X, y, _ = trees
    unit = PrivateLogisticRegression(1.0).fit(X, y)
    model = PrivateLogisticRegression(MaxLeakage(0.3).noise_scale_of(unit)).fit(X, y)
    assert model.fisher_information_loss_.max() == pytest.approx(0.3)
    goal = MaxLeakage(0.2, features=[0, 1])
    model = PrivateLogisticRegression(goal.noise_scale_of(unit)).fit(X, y)
    assert model.fisher_information_loss(features=[0, 1]).max() == pytest.approx(0.2)
    X = X.copy()
    X[:, 0] = np.arange(150) % 3
    goal = MaxAdvantage(0.1, 0, prior="uniform")
    unit = PrivateLogisticRegression(1.0).fit(X, y)
    model = PrivateLogisticRegression(goal.noise_scale_of(unit)).fit(X, y)
    encodings = candidate_encodings(model, X, y, 0, [0.0, 1.0, 2.0])
    channel = GaussianChannel(encodings, model.noise_scale_)
    advantage = channel.bayes_advantage(np.full(3, 1.0 / 3.0)).max()
    assert 0.097 < advantage < 0.1 + 1e-6


@pytest.mark.slow
def test_sensitivity_covers_every_replacement(unit_rows, rng):
    X, y = unit_rows
    options = {"alpha": 0.05, "fit_intercept": False}
    promises = {"data_norm": 1.0, "classes": np.unique(y), "public": "n_samples"}
    model = PrivateLogisticRegression(
        GaussianDP(0.5), mechanism="output", **promises, **options
    ).fit(X, y)
    guarantee = model.leakage_report().differential_privacy
    assert guarantee.holds
    assert guarantee.mu == pytest.approx(0.5)
    bound = 2.0 * np.sqrt(2.0) / (len(y) * 0.05)
    assert guarantee.sensitivity == pytest.approx(bound, rel=1e-6)
    assert model.noise_scale_ == pytest.approx(bound / 0.5, rel=1e-6)
    fit = PrivateLogisticRegression(0, **options).fit
    before = fit(X, y).coef_
    largest = 0.0
    for i in rng.choice(len(y), size=20, replace=False):
        for tree in TREES:
            changed, labels = X.copy(), y.copy()
            direction = rng.normal(size=3)
            changed[i], labels[i] = direction / np.linalg.norm(direction), tree
            largest = max(largest, np.linalg.norm(fit(changed, labels).coef_ - before))
    assert largest < bound


def test_the_sensitivity_has_the_size_of_a_gradient():
    # Under a heavy penalty the coefficients are those of the gradient at zero, where the residual
    # of one of three classes has norm sqrt(2 / 3); where another is certain it has sqrt(2).
    n, alpha, ends = 2, 1e3, []
    for x in (1.0, -1.0):
        model = PrivateLogisticRegression(0, alpha=alpha, fit_intercept=False)
        X = np.array([[x], [0.0], [0.0]])
        ends.append(model.fit(X, [0, 1, 2], sample_weight=[1.0, 0.5, 0.5]).coef_)
    moved = np.linalg.norm(ends[1] - ends[0])
    assert moved == pytest.approx(2.0 * np.sqrt(2.0 / 3.0) / (n * alpha), rel=1e-3)


@pytest.mark.slow
def test_epsilon_and_why_there_is_none(unit_rows):
    X, y = unit_rows
    options = {"alpha": 0.1, "fit_intercept": False, "data_norm": 1.0}
    options |= {"classes": np.unique(y), "public": "n_samples"}
    model = PrivateLogisticRegression(EpsilonDelta(1.0, 1e-5), mechanism="output", **options).fit(
        X, y
    )
    guarantee = model.leakage_report().differential_privacy
    assert gaussian_delta(guarantee.mu, epsilon=1.0) <= 1e-5 * (1.0 + 1e-9)
    free = PrivateLogisticRegression(0.1, data_norm=1.0).fit(X, y).leakage_report()
    assert not free.differential_privacy.holds
    assert "intercept is not penalized" in free.differential_privacy.reasons[0]
    assert "softmax" not in " ".join(free.differential_privacy.reasons)
    with pytest.raises(ValueError, match="No differential-privacy guarantee"):
        PrivateLogisticRegression(GaussianDP(1.0), mechanism="output").fit(X, y)


@pytest.mark.slow
def test_a_ledger_adds_up(trees, tmp_path):
    X, y, _ = trees
    width = float(np.ptp(X, axis=0).max())
    columns = Columns(target=True, units=np.full(X.shape[1], width))
    units = {"(columns)": width}
    ledger = LeakageLedger(tmp_path / "ledger.sqlite", max_leakage=1e3, units=units)
    goal, fits = MaxLeakage(2.0), []
    for a in (0.01, 1.0):
        noise = goal.noise_scale_of(PrivateLogisticRegression(1.0, alpha=a).fit(X, y))
        model = PrivateLogisticRegression(noise, alpha=a, ledger=ledger)
        fits.append(model.fit(X, y))
    losses = [training_loss(fit._state, columns=columns) for fit in fits]
    expected = np.sqrt(sum(loss.max() ** 2 for loss in losses))
    assert ledger.total("default").fisher_information_loss.max() == pytest.approx(expected)
    # By the dense Jacobian of the worst record, its columns times their widths.
    state, i = fits[-1]._state, int(losses[-1].argmax())
    lengths = np.ones(state.factor.jacobian(X[[i]], state.objective.y[[i]]).shape[2])
    lengths[: X.shape[1]] = width
    dense = state.factor.jacobian(X[[i]], state.objective.y[[i]])[0] * lengths
    norm = np.linalg.norm(dense, 2) / fits[-1].noise_scale_
    assert losses[-1].max() == pytest.approx(norm)
    LeakageLedger(ledger.path, max_leakage=1.01 * float(expected))
    with pytest.raises(LeakageBudgetError):
        clone(model).fit(X, y)


@pytest.mark.slow
def test_a_report_in_every_form(trees, tmp_path):
    X, y = pd.DataFrame(trees[0][:60], columns=["age", "bmi", "dose"]), trees[1][:60]
    model = PrivateLogisticRegression(0.1).fit(X, y)
    report = model.leakage_report(groups=y)
    assert report.dataset["loss"] == "softmax"
    assert report.dataset["joint_loss"] == pytest.approx(
        model.fisher_information_loss(per="dataset")
    )
    assert set(report.features.index) == {"age", "bmi", "dose", "(target)"}
    # A class number has no spread to compare with.
    assert np.isnan(report.features.loc["(target)", "column_std"])
    assert set(report.groups.index) == set(TREES)
    assert "PrivateLogisticRegression" in report.to_text(full=True)
    assert "<html" in report.to_html().lower()
    assert json.loads(report.to_json())["dataset"]["n_records"] == 60
    assert report.records["fisher_information_loss"].max() == pytest.approx(
        model.fisher_information_loss_.max()
    )


@pytest.mark.slow
def test_a_release_predicts_like_the_model_and_travels(trees):
    X = pd.DataFrame(trees[0], columns=["age", "bmi", "dose"])
    model = PrivateLogisticRegression(0.1).fit(X, trees[1])
    released = model.release()
    assert released.provenance_["loss"] == "softmax"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(released))
    for one in (released, again):
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            assert_array_equal(getattr(one, name)(X), getattr(model, name)(X))
        assert one.score(X, trees[1]) == model.score(X, trees[1])
        assert one.coef_.shape == (4, 3)
    assert np.all(np.isfinite(released.predict_log_proba(X * 1e6)))
    with pytest.warns(PrivacyLeakWarning):
        copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X), model.predict(X))
    assert not hasattr(copy, "_state")


@pytest.mark.slow
def test_inside_a_pipeline_and_a_search(trees):
    frame = pd.DataFrame(trees[0], columns=["age", "bmi", "dose"])
    frame["sex"] = np.where(np.arange(150) % 2, "f", "m")
    prepare = ColumnTransformer(
        [
            ("numbers", StandardScaler(), make_column_selector(dtype_include="number")),
            ("words", OneHotEncoder(sparse_output=False), ["sex"]),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(prepare, PrivateLogisticRegression(0.01))
    search = GridSearchCV(
        pipeline, {"privatelogisticregression__alpha": [1e-3, 10.0]}, cv=3, scoring="neg_log_loss"
    )
    search.fit(frame, trees[1])
    assert search.best_params_ == {"privatelogisticregression__alpha": 1e-3}
    model = search.best_estimator_[-1]
    sexes = ["sex_f", "sex_m"]
    assert list(model.feature_names_in_) == ["age", "bmi", "dose", *sexes]
    free = model.fisher_information_loss(features=sexes)
    tied = model.fisher_information_loss(features=sexes, constrained=True)
    assert np.all(tied <= free * (1.0 + 1e-9))
    assert search.predict_proba(frame).shape == (150, 4)


def test_the_estimator_says_what_it_can(trees):
    tags = PrivateLogisticRegression().__sklearn_tags__()
    assert tags.classifier_tags.multi_class
    balanced = PrivateLogisticRegression(reweighting="irfil").__sklearn_tags__()
    assert not balanced.classifier_tags.multi_class
    # One model per class is another model, and each of its fits is binary.
    X, y, _ = trees
    several = OneVsRestClassifier(PrivateLogisticRegression(0)).fit(X, y)
    assert [one.coef_.shape for one in several.estimators_] == [(1, 3)] * 4
    model = PrivateLogisticRegression(0).fit(X, y)
    assert model.fit(X, y == "oak").coef_.shape == (1, 3)
    assert model.fit(X, y).intercept_.shape == (4,)
    assert_array_equal(PrivateLogisticRegression(0, fit_intercept=False).fit(X, y).intercept_, 0.0)
