"""Leakage per record, column, block, group and data set, of training and other records."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import every, flat
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import null_space
from scipy.special import expit

from skleak.influence.reweighting import total_jacobian
from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression

NOISE = 0.2
NAMES = ["age", "bmi", "bp", "dose"]


@pytest.fixture(params=[True, False])
def target(request):
    return request.param


@pytest.fixture
def frame(data):
    return pd.DataFrame(data.X, columns=NAMES)


@pytest.fixture
def model(estimator_class, data, frame, target):
    model = estimator_class(NOISE, alpha=0.05, private_target=target)
    return model.fit(frame, data.y, sample_weight=data.weights)


def jacobians(model, X, y):
    """Every record's Jacobian, one by one, from the coefficients of a fit without noise.

    That of a row of the training data is times its weight; `X` are these rows, or others.
    """
    exact = type(model)(0, alpha=model.alpha, fit_intercept=model.fit_intercept)
    state = model._state
    training = state.objective
    exact.fit(training.X, _labels(model, training.y), sample_weight=training.weights)
    w, b = np.ravel(exact.coef_), np.ravel(exact.intercept_)[0]
    link = {"squared": lambda a: a, "logistic": expit, "poisson": np.exp}[model._loss.name]
    slope = {
        "squared": np.ones_like,
        "logistic": lambda a: expit(a) * expit(-a),
        "poisson": np.exp,
    }[model._loss.name]

    def extended(X):
        return np.column_stack([X, np.ones(len(X))]) if model.fit_intercept else X

    x = extended(training.X)
    c = training.weights * slope(training.X @ w + b)
    H = (x.T * c) @ x + training.sample_weight.sum() * model.alpha * np.diag(
        np.append(np.ones(len(w)), 0.0)[: x.shape[1]]
    )
    A, E = np.linalg.inv(H), np.eye(x.shape[1])[:, : len(w)]
    a = X @ w + b
    own = training.weights if len(X) == len(training.y) else np.ones(len(X))
    return own[:, None, None] * np.array(
        [
            -A @ np.column_stack([ci * np.outer(xi, w) + ri * E, -xi])
            for xi, ci, ri in zip(extended(X), slope(a), link(a) - y, strict=True)
        ]
    )


def _labels(model, y):
    return model.classes_[y.astype(int)] if hasattr(model, "classes_") else y


def _whole(J, target):
    return J if target else J[:, :, :-1]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_per_record(estimator_class, data, target, fit_intercept):
    model = estimator_class(NOISE, private_target=target, fit_intercept=fit_intercept)
    model.fit(data.X, data.y, sample_weight=data.weights)
    J = _whole(jacobians(model, data.X, data.y), target)
    spectral = np.linalg.norm(J, 2, axis=(1, 2)) / NOISE
    trace = np.sqrt(np.sum(J**2, axis=(1, 2)) / J.shape[2]) / NOISE
    assert_allclose(model.fisher_information_loss(), spectral, rtol=1e-6)
    assert_allclose(model.fisher_information_loss(norm="trace"), trace, rtol=1e-6)
    assert_array_equal(model.fisher_information_loss_, model.fisher_information_loss())
    found = model.fisher_information_loss(norm="trace")
    assert_array_equal(model.diagonal_fisher_information_loss_, found)


@every(
    "features, columns",
    [
        ("bmi", [1]),
        (-1, [3]),
        (["dose", "age"], [3, 0]),
        (slice(1, 3), [1, 2]),
        ([False, True, False, True], [1, 3]),
        (np.array([2, 0]), [2, 0]),
        (pd.Index(["bp", "bmi"]), [2, 1]),
        (NAMES, [0, 1, 2, 3]),
    ],
)
@every("norm", ["spectral", "trace"])
def test_a_block_of_features(model, data, features, columns, norm):
    J = jacobians(model, data.X, data.y)[:, :, columns]
    rank = len(columns)
    if norm == "spectral":
        expected = np.linalg.norm(J, 2, axis=(1, 2)) / NOISE
    else:
        expected = np.sqrt(np.sum(J**2, axis=(1, 2)) / rank) / NOISE
    found = model.fisher_information_loss(features=features, norm=norm)
    assert_allclose(found, expected, rtol=1e-6)


def test_per_feature(model, data):
    J = jacobians(model, data.X, data.y)
    expected = np.linalg.norm(J[:, :, :-1], axis=1) / NOISE
    table = model.fisher_information_loss(per="feature")
    assert table.shape == (60, 4)
    assert_allclose(table, expected, rtol=1e-6)
    for columns in (["dose", "age"], np.array([3, 0]), [3, 0], (-1, 0)):
        found = model.fisher_information_loss(per="feature", features=columns)
        assert_allclose(found, table[:, [3, 0]], rtol=1e-12)
    mask = model.fisher_information_loss(per="feature", features=[True, False, True, False])
    assert_allclose(mask, table[:, [0, 2]], rtol=1e-12)
    one = model.fisher_information_loss(per="feature", features="bp")
    assert_allclose(one, table[:, [2]], rtol=1e-12)
    some = model.fisher_information_loss(per="feature", features=slice(2))
    assert_allclose(some, table[:, :2], rtol=1e-12)


def test_a_table_of_blocks(model):
    blocks = ["age", ["bmi", "bp"], [3], np.array([0, 3]), [False, True, True, False]]
    table = model.fisher_information_loss(per="feature", features=blocks)
    assert table.shape == (60, 5)
    for k, block in enumerate(blocks):
        expected = model.fisher_information_loss(features=block)
        assert_allclose(table[:, k], expected, rtol=1e-12)
    trace = model.fisher_information_loss(per="feature", features=blocks, norm="trace")
    assert_allclose(trace[:, 0], table[:, 0], rtol=1e-12)
    expected = model.fisher_information_loss(features=["bmi", "bp"], norm="trace")
    assert_allclose(trace[:, 1], expected, rtol=1e-12)


@pytest.mark.parametrize("features", [None, ["bmi", "dose"]])
def test_the_whole_data_set(model, data, features, target):
    J = jacobians(model, data.X, data.y)
    J = _whole(J, target) if features is None else J[:, :, [1, 3]]
    joined = np.concatenate(list(J), axis=1)
    found = model.fisher_information_loss(per="dataset", features=features)
    assert isinstance(found, float)
    assert found == pytest.approx(np.linalg.norm(joined, 2) / NOISE, rel=1e-6)
    found = model.fisher_information_loss(per="dataset", features=features, norm="trace")
    assert found == pytest.approx(np.sqrt(np.mean(np.sum(joined**2, axis=0))) / NOISE, rel=1e-6)


@pytest.mark.parametrize("form", ["list", "array", "series", "categorical", "polars"])
def test_per_group(model, data, frame, form):
    labels = np.where(frame["age"] > 0.5, "old", np.where(frame["bmi"] > 0.0, "mid", "low"))
    groups = {
        "list": labels.tolist(),
        "array": labels,
        "series": pd.Series(labels),
        "categorical": pd.Series(pd.Categorical(labels, categories=["old", "mid", "low", "none"])),
        "polars": pl.Series(labels),
    }[form]
    found = model.fisher_information_loss(per="group", groups=groups)
    assert isinstance(found, pd.Series)
    assert set(found.index) == set(labels)
    J = _whole(jacobians(model, data.X, data.y), model.private_target)
    for label in set(labels):
        members = labels == label
        expected = np.linalg.norm(np.concatenate(list(J[members]), axis=1), 2) / NOISE
        assert found[label] == pytest.approx(expected, rel=1e-6)
        alone = model.fisher_information_loss(
            frame[members], np.asarray(data.y)[members], per="dataset"
        )
        assert alone == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("groups", ["sex", 1])
def test_groups_by_a_column(rng, groups):
    X = pd.DataFrame({"age": rng.normal(size=40), "sex": (rng.random(40) < 0.4).astype(float)})
    model = PrivateLinearRegression(NOISE).fit(X, X["age"] + rng.normal(size=40))
    found = model.fisher_information_loss(per="group", groups=groups)
    assert list(found.index) == [0.0, 1.0]
    expected = model.fisher_information_loss(per="group", groups=X["sex"])
    assert_array_equal(found, expected)
    part = model.fisher_information_loss(per="group", groups=groups, features="age", norm="trace")
    assert np.all(part > 0.0)


def test_groups_of_all_and_of_one(model, frame):
    everyone = model.fisher_information_loss(per="group", groups=np.zeros(60))
    joint = model.fisher_information_loss(per="dataset")
    assert everyone[0.0] == pytest.approx(joint, rel=1e-14)
    alone = model.fisher_information_loss(per="group", groups=np.arange(60))
    assert_allclose(alone, model.fisher_information_loss_, rtol=1e-9)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
@pytest.mark.parametrize("per", ["record", "dataset", "group"])
def test_a_one_hot_block_on_the_simplex(estimator_class, make_data, rng, norm, per):
    levels = rng.integers(3, size=50)
    X = np.column_stack([np.eye(3)[levels], rng.normal(size=50)])
    X = pd.DataFrame(X, columns=["gene_a", "gene_b", "gene_c", "age"])
    y = make_data(estimator_class, rng, n=50).y
    model = estimator_class(NOISE).fit(X, y)
    block = ["gene_a", "gene_b", "gene_c"]
    J = jacobians(model, X.to_numpy(), np.asarray(y))[:, :, :3] @ null_space(np.ones((1, 3)))
    options = {"features": block, "constrained": True, "norm": norm, "per": per}
    if per == "record":
        expected = (
            np.linalg.norm(J, 2, axis=(1, 2))
            if norm == "spectral"
            else np.sqrt(np.sum(J**2, axis=(1, 2)) / 2.0)
        )
        assert_allclose(model.fisher_information_loss(**options), expected / NOISE, rtol=1e-6)
        table = model.fisher_information_loss(
            per="feature", features=[block], constrained=True, norm=norm
        )
        assert_allclose(table[:, 0], expected / NOISE, rtol=1e-6)
        return
    groups = levels if per == "group" else np.zeros(50, dtype=int)
    found = model.fisher_information_loss(groups=groups, **options)
    for label in np.unique(groups):
        joined = np.concatenate(list(J[groups == label]), axis=1)
        expected = (
            np.linalg.norm(joined, 2)
            if norm == "spectral"
            else np.sqrt(np.mean(np.sum(joined**2, axis=0)))
        )
        value = found[label] if per == "group" else found
        assert value == pytest.approx(expected / NOISE, rel=1e-6)


def test_sparse_one_hot_blocks(rng):
    X = sparse.csr_array(np.eye(3)[np.append(np.arange(3), rng.integers(3, size=37))])
    y = rng.normal(size=40)
    options = {"features": [0, 1, 2], "constrained": True}
    found = PrivateLinearRegression(NOISE).fit(X, y).fisher_information_loss(**options)
    dense = PrivateLinearRegression(NOISE).fit(X.toarray(), y).fisher_information_loss(**options)
    assert_allclose(found, dense, rtol=1e-9)


def test_other_records(estimator_class, make_data, data, target, rng):
    model = estimator_class(NOISE, private_target=target).fit(data.X, data.y)
    other = make_data(estimator_class, rng, n=9)
    J = _whole(jacobians(model, other.X, other.y), target)
    expected = np.linalg.norm(J, 2, axis=(1, 2)) / NOISE
    assert_allclose(model.fisher_information_loss(other.X, other.y), expected, rtol=1e-6)
    joined = np.concatenate(list(J), axis=1)
    found = model.fisher_information_loss(other.X, other.y, per="dataset")
    assert found == pytest.approx(np.linalg.norm(joined, 2) / NOISE, rel=1e-6)
    table = model.fisher_information_loss(other.X, other.y, per="feature")
    assert table.shape == (9, 4)
    by_group = model.fisher_information_loss(
        other.X, other.y, per="group", groups=np.arange(9) // 3
    )
    assert len(by_group) == 3


def test_training_records_passed_again_carry_their_weights(model, frame, data, rng):
    again = model.fisher_information_loss(frame, data.y)
    assert_array_equal(again, model.fisher_information_loss_)
    some = rng.permutation(60)[:20]
    y = np.asarray(data.y)[some]
    found = model.fisher_information_loss(frame.iloc[some], y)
    assert_allclose(found, model.fisher_information_loss_[some], rtol=1e-12)
    joint = model.fisher_information_loss(frame.iloc[some], y, per="dataset")
    group = np.isin(np.arange(60), some)
    by_group = model.fisher_information_loss(per="group", groups=group)
    assert joint == pytest.approx(by_group[True], rel=1e-12)


def test_reweighted_records(numbers, make_data, rng):
    model = PrivateLinearRegression(NOISE, reweighting=IRFIL(tol=1e-9))
    model.fit(numbers.X, numbers.y, sample_weight=numbers.weights)
    J = jacobians(model, numbers.X, numbers.y)
    expected = np.linalg.norm(J, 2, axis=(1, 2)) / NOISE
    balanced = model.conditional_fisher_information_loss_
    assert_allclose(balanced, expected, rtol=1e-6)
    unit = balanced / numbers.weights
    assert np.std(unit) < 1e-8 * np.mean(unit)
    some = [5, 3, 40]
    X, y = numbers.X[some], numbers.y[some]
    found = model.fisher_information_loss(X, y, features=0, conditional=True)
    expected = np.linalg.norm(J[some][:, :, 0], axis=1) / NOISE
    assert_allclose(found, expected, rtol=1e-6)
    joined = np.concatenate(list(J), axis=1)
    found = model.fisher_information_loss(per="dataset", conditional=True)
    assert found == pytest.approx(np.linalg.norm(joined, 2) / NOISE, rel=1e-6)
    # A record that did not take part would get the weight that makes it leak the same.
    other = make_data(PrivateLinearRegression, rng, n=5)
    found = model.fisher_information_loss(other.X, other.y, conditional=True)
    assert_allclose(found, unit.mean(), rtol=1e-7)


@pytest.mark.filterwarnings(
    "ignore:.reweighting='total'. evens:skleak.exceptions.UnevenLeakageWarning"
)
@pytest.mark.parametrize("reweighting", ["irfil", "total"])
def test_total_leakage_at_every_grain(reweighting, numbers):
    options = {"reweighting": reweighting, "reweighting__tol": 1e-9, "reweighting__max_iter": 100}
    model = PrivateLinearRegression(NOISE, **flat(**options))
    model.fit(numbers.X, numbers.y, sample_weight=numbers.weights)
    J = total_jacobian(model._confidential_state(), np.arange(60)) / NOISE
    expected = np.linalg.norm(J, 2, axis=(1, 2))
    assert_allclose(model.fisher_information_loss_, expected, rtol=1e-9)
    assert_allclose(model.fisher_information_loss(), expected, rtol=1e-9)
    expected = np.linalg.norm(J, axis=(1, 2)) / np.sqrt(5)
    assert_allclose(model.diagonal_fisher_information_loss_, expected, rtol=1e-9)
    found = model.fisher_information_loss(per="feature", features=[2, [0, 1]])
    assert_allclose(found[:, 0], np.linalg.norm(J[:, :, 2], axis=1), rtol=1e-9)
    assert_allclose(found[:, 1], np.linalg.norm(J[:, :, :2], 2, axis=(1, 2)), rtol=1e-9)
    found = model.fisher_information_loss(per="dataset")
    assert found == pytest.approx(np.linalg.norm(np.hstack(list(J)), 2), rel=1e-9)
    groups = np.arange(60) % 3
    found = model.fisher_information_loss(per="group", groups=groups)
    inside = np.hstack(list(J[groups == 1]))
    assert found[1] == pytest.approx(np.linalg.norm(inside, 2), rel=1e-9)


def test_smaller_unknowns_leak_less(model):
    record = model.fisher_information_loss()
    block = model.fisher_information_loss(features=["age", "bmi"])
    one = model.fisher_information_loss(features="age")
    assert np.all(one <= block * (1.0 + 1e-12))
    assert np.all(block <= record * (1.0 + 1e-12))
    whole = model.fisher_information_loss(per="dataset")
    assert record.max() <= whole * (1.0 + 1e-12)


@pytest.mark.slow
def test_the_cramer_rao_bound_is_met_by_the_best_unbiased_attacker(rng):
    """Simulated: an attacker who knows all but one entry, and inverts the release to first order.

    The estimate is unbiased up to the curvature of the map, and its error is that of the bound.
    """
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = PrivateLinearRegression(1e-5, alpha=0.1, random_state=rng).fit(X, y)
    exact = PrivateLinearRegression(0, alpha=0.1).fit(X, y)
    bound = 1.0 / model.fisher_information_loss(per="feature")[4, 1]
    h, moved = 1e-4, []
    for step in (h, -h):
        changed = X.copy()
        changed[4, 1] += step
        fit = PrivateLinearRegression(0, alpha=0.1).fit(changed, y)
        moved.append(np.append(fit.coef_, fit.intercept_))
    slope = (moved[0] - moved[1]) / (2.0 * h)
    truth = np.append(exact.coef_, exact.intercept_)
    errors = []
    for _ in range(300):
        model.fit(X, y)
        release = np.append(model.coef_, model.intercept_)
        errors.append(slope @ (release - truth) / (slope @ slope))
    assert np.std(errors) == pytest.approx(bound, rel=4.5 / np.sqrt(2 * 300))


def test_a_single_row_and_integers(classes):
    model = PrivateLogisticRegression(NOISE).fit(classes.X, classes.y)
    found = model.fisher_information_loss(classes.X[:1], classes.y[:1])
    assert_allclose(found, model.fisher_information_loss_[:1], rtol=1e-12)
    whole = np.array([[1, 0, 2, 3]])
    assert_allclose(
        model.fisher_information_loss(whole, [1]),
        model.fisher_information_loss(whole.astype(float), [1.0]),
    )
