"""No two reports disagree about a person: the leakage report of a model, and audits of it."""

import re

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.adversary.knowledge import spread_left
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.inspection import attribute_leakage, leakage_report
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

FACTS = ["distance", "advantage_any_prior", "found_at_1pct"]
CHANCE = r"(?:at most|up to|more than) >?([\d.]+)% \(a coin: 50%\)"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(list(b"who is in two reports"))
    X = pd.DataFrame(
        {
            "age": rng.normal(size=40),
            "sex": rng.integers(0, 2, 40).astype(float),
            "ward": rng.integers(0, 3, 40).astype(float),
        },
        index=[f"patient {k}" for k in range(40)],
    )
    X["double"] = 2.0 * X["age"]
    X["near"] = X["age"] + 0.1 * rng.normal(size=40)
    X["dose"] = rng.exponential(size=40)
    return X, X[["age", "sex", "ward", "dose"]] @ [0.5, 1.0, -0.6, 0.4] + rng.normal(size=40)


@pytest.fixture(scope="module", params=[PrivateLinearRegression, PrivateLogisticRegression])
def model(request, people):
    y = people[1] > 0.0 if request.param is PrivateLogisticRegression else people[1]
    return request.param(noise_scale=0.3, alpha=0.05), people[0], y


@pytest.fixture(scope="module")
def report(model):
    estimator, X, y = model
    return estimator.fit(X, y).leakage_report()


@pytest.mark.parametrize("column", mostly_slow(["sex", "ward", "age", "double", "near", "dose"]))
def test_columns(model, report, column):
    estimator, X, y = model
    auditor = LeakageAuditor(estimator, column, noise_scales=[0.3], n_releases=5)
    audit = auditor.fit(X, y).report_
    records = audit.records.set_index("label")
    for label in X.index:
        row = report.person(label).columns.loc[column]
        own = row[FACTS].to_numpy(dtype=float)
        assert own == pytest.approx(records.loc[label, FACTS].to_numpy(dtype=float), rel=1e-6)
        if row["kind"] == "number":
            assert row["step"] == pytest.approx(records.loc[label, "step"], rel=1e-9)
        assert own[1] == pytest.approx(2.0 * norm.cdf(own[0] / 2.0) - 1.0, rel=1e-6)
    worst, row = records["distance"].idxmax(), report.features.loc[column]
    assert row["most_exposed_record"] == worst
    assert row["n_above"] == audit.decision()["n_above"]
    assert row[FACTS].to_numpy(float) == pytest.approx(records.loc[worst, FACTS].to_numpy(float))


@pytest.mark.slow
def test_membership_in_the_same_words(model, report):
    estimator, X, y = model
    auditor = MembershipAuditor(estimator, noise_scales=[0.3], n_releases=5, secrets="drawn")
    audit = auditor.fit(X, y).report_
    records = audit.records.set_index("label")
    for label in X.index:
        own = report.person(label).membership.iloc[0][FACTS].to_numpy(dtype=float)
        assert own == pytest.approx(records.loc[label, FACTS].to_numpy(dtype=float), rel=1e-4)
    told = report.facts["membership"]
    assert told["record"] == records["distance"].idxmax()
    assert [told[name] for name in FACTS] == pytest.approx(
        records.loc[told["record"], FACTS].to_numpy(float), rel=1e-4
    )
    # A person reads the same sentence in both, with the same number.
    words = r"hat (.*) was trained on can be told with " + CHANCE + ", whatever else is known"
    for label in X.index[:5]:
        texts = [" ".join(one.person(label).findings) for one in (report, audit)]
        assert len({re.search(words, text).groups() for text in texts}) == 1


@pytest.mark.parametrize(
    "column, another",
    mostly_slow(
        [
            ("ward", "another value"),
            ("near", r"one standard deviation given other columns \([\d.]+\) up or down"),
        ]
    ),
)
def test_a_column_in_the_same_words(model, column, another):
    estimator, X, y = model
    X, estimator = X[[column]], clone(estimator).set_params(private_target=False)
    report = estimator.fit(X, y).leakage_report()
    auditor = LeakageAuditor(estimator, column, noise_scales=[0.3], n_releases=5).fit(X, y)
    words = f"(`{column}` of .* can be told from {another}) with " + CHANCE
    for label in X.index:
        texts = (one.person(label).findings[0] for one in (report, auditor.report_))
        assert len({re.search(words, text).groups() for text in texts}) == 1


def test_a_step_is_what_other_columns_leave(people):
    """Collinear and nearly collinear columns leave little, independent ones all."""
    X, y = people
    features = PrivateLinearRegression(0.3, alpha=0.05).fit(X, y).leakage_report().features
    share = features["step"] / features["column_std"]
    assert (share[["age", "double"]] < 0.1).all()
    assert share["near"] < 0.2
    assert share["dose"] > 0.8
    assert features.loc[["sex", "ward"], "step"].isna().all()


@pytest.mark.slow
def test_behind_transformers_the_step_is_that_of_the_raw_column(people):
    """Raw columns of a pipeline, categories and missing numbers among them."""
    X, y = people
    X = X[["age", "near"]].assign(ward=X["ward"].map({0.0: "A", 1.0: "B", 2.0: "C"}))
    encode = make_column_transformer(
        (StandardScaler(), ["age", "near"]), (OneHotEncoder(), ["ward"])
    )
    model = make_pipeline(encode, PrivateLinearRegression(0.3, alpha=0.05)).fit(X, y)
    report = leakage_report(model, X, y)
    for column in ("near", "ward"):
        auditor = LeakageAuditor(model, column, noise_scales=[0.3], n_releases=5)
        records = auditor.fit(X, y).report_.records.set_index("label")
        for label in X.index:
            own = report.person(label).columns.loc[column, FACTS].to_numpy(dtype=float)
            assert own == pytest.approx(records.loc[label, FACTS].to_numpy(dtype=float), rel=1e-6)


def test_a_step_is_the_error_of_generalized_cross_validation(rng):
    """From hat matrices of ridge regressions, one for each column."""
    X = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 4))
    found = spread_left(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for j in range(4):
        others = np.delete(Z, j, axis=1)
        hat = others @ np.linalg.solve(others.T @ others + np.eye(3), others.T) + 1.0 / 30
        residual = Z[:, j] - hat @ Z[:, j]
        error = np.mean(residual**2) / (1.0 - np.trace(hat) / 30) ** 2
        assert found[j] == pytest.approx(min(1.0, np.sqrt(error)), rel=1e-9)


def test_what_is_hardly_a_number_has_its_whole_spread(rng):
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=20),
            "missing": np.where(np.arange(20) % 4, rng.normal(size=20), np.nan),
            "none": np.full(20, np.nan),
            "name": [f"person {k}" for k in range(20)],
            "mixed": ["a", 1] * 10,
        }
    )
    found = spread_left(frame)
    assert np.all((found > 0.5) & (found <= 1.0))
    assert np.all(found[2:] == 1.0)
    assert spread_left(rng.normal(size=(20, 30))).min() > 0.3  # more columns than records
    assert spread_left(np.ones((1, 2))).tolist() == [1e-6, 1e-6]


@pytest.mark.parametrize("column", mostly_slow(["age", "near"]))
@pytest.mark.parametrize("scaled", mostly_slow([False, True]))
def test_records_of_weight_zero_move_no_step(people, column, scaled):
    X, y = people
    X, weight = X.copy(), np.ones(40)
    X.iloc[:8] *= 5.0
    weight[:8] = 0.0
    model = PrivateLinearRegression(noise_scale=0.3, alpha=0.05)
    given = {"sample_weight": weight}
    if scaled:
        model = make_pipeline(StandardScaler(), model)
        given = {"privatelinearregression__sample_weight": weight}
    auditor = LeakageAuditor(clone(model), column, noise_scales=[0.3], n_releases=3)
    records = auditor.fit(X, y, sample_weight=weight).records_.set_index("record")
    model.fit(X, y, **given)
    told = attribute_leakage(model, X, y, [column], records=[20], sample_weight=weight)
    assert told["step"].item() == pytest.approx(records.loc[20, "step"])
    assert told["gain"].item() == pytest.approx(records.loc[20, "exposure"], rel=1e-6)
