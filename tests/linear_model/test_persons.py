"""Fits in which persons have several rows: what they leak, guarantee and report is by person."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.accounting import LeakageLedger
from skleak.audit import LeakageAuditor
from skleak.exceptions import AttackNotApplicableError, UnprotectedValueWarning
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import person_losses
from skleak.inspection import leakage_report
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import GaussianDP, MaxAdvantage, MaxLeakage
from skleak.utils._records import Persons

every = pytest.mark.parametrize


def parameters(model):
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


@pytest.fixture
def visits(rng):
    """60 rows of 12 persons, one of whom has half of them, with weights."""
    who = rng.integers(0, 11, 60)
    who[rng.permutation(60)[:30]] = 11
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["age", "dose"])
    X["sex"] = (who % 2).astype(float)
    a = X.to_numpy() @ [0.5, 1.0, -1.0]
    return X, a, who, rng.uniform(0.5, 2.0, 60)


TARGETS = {
    "squared": (PrivateLinearRegression, lambda a, rng: a + rng.normal(size=len(a))),
    "logistic": (
        PrivateLogisticRegression,
        lambda a, rng: (a + rng.logistic(size=len(a)) > 0.0).astype(int),
    ),
    "poisson": (PrivatePoissonRegressor, lambda a, rng: rng.poisson(np.exp(0.3 * a))),
    "multinomial": (PrivateLogisticRegression, lambda a, rng: rng.integers(0, 3, len(a))),
}


@every("kind", TARGETS)
def test_a_column_moves_alike_in_all_rows(kind, visits, rng):
    """The loss over a column is the speed of refits as it moves in all rows of a person."""
    X, a, who, weights = visits
    estimator, drawn = TARGETS[kind]
    y, step = drawn(a, rng), 1e-4
    model = estimator(1.0, alpha=0.05, tol=1e-13).fit(X, y, sample_weight=weights, persons=who)
    found = model.fisher_information_loss(per="feature")
    assert found.shape == (len(np.unique(who)), 3)
    quiet = clone(model).set_params(noise_scale=0.0)
    for i, person in enumerate(pd.unique(who)):
        ends = []
        for sign in (1.0, -1.0):
            moved = X.copy()
            moved.loc[who == person, "dose"] += sign * step
            ends.append(parameters(clone(quiet).fit(moved, y, sample_weight=weights)))
        speed = np.linalg.norm(ends[0] - ends[1]) / (2.0 * step)
        assert_allclose(found[i, 1], speed, rtol=1e-5, atol=1e-9)


@every("kind", TARGETS)
def test_of_the_whole_record_each_row_moves_for_itself(kind, visits, rng):
    X, a, who, weights = visits
    estimator, drawn = TARGETS[kind]
    y = drawn(a, rng)
    by_row = estimator(1.0, alpha=0.05).fit(X, y, sample_weight=weights)
    by_person = clone(by_row).fit(X, y, sample_weight=weights, persons=who)
    joint = by_row.fisher_information_loss(per="group", groups=who).loc[pd.unique(who)]
    assert_allclose(by_person.fisher_information_loss_, joint, rtol=1e-8)
    whole = [each.fisher_information_loss(per="dataset") for each in (by_row, by_person)]
    assert_allclose(*whole, rtol=1e-12)
    assert_array_equal(parameters(by_row).shape, parameters(by_person).shape)


@every("kind", TARGETS)
def test_equal_rows(kind, visits, rng):
    """Of k equal rows a column leaks k times that of one, and the whole record its root."""
    X, a, *_ = visits
    estimator, drawn = TARGETS[kind]
    y, rows = drawn(a, rng), np.repeat(np.arange(12), 5)
    X = X.iloc[rows].reset_index(drop=True)
    state = estimator(1.0).fit(X, y[rows])._confidential_state()
    persons = Persons.of(rows, 60)
    for norm in ("spectral", "trace"):
        for columns in (Columns(np.array([0, 1])), Columns(np.array([2])), Columns()):
            one = person_losses(state, Persons.single(persons.first), [columns], norm)[:, 0]
            found = person_losses(state, persons, [columns], norm)[:, 0]
            root = norm == "spectral" and columns.indices is None
            times = np.sqrt(5.0) if root else 1.0 if columns.indices is None else 5.0
            assert_allclose(found, times * one, rtol=1e-9)


def test_individual_privacy_is_that_of_refits_without_all_rows(visits, rng):
    X, a, who, weights = visits
    y = TARGETS["logistic"][1](a, rng)
    model = PrivateLogisticRegression(0.3, alpha=0.05, tol=1e-13)
    model.fit(X, y, sample_weight=weights, persons=who)
    quiet = clone(model).set_params(noise_scale=0.0)
    own = parameters(clone(quiet).fit(X, y, sample_weight=weights))
    privacy = model.individual_privacy()
    assert privacy.index.tolist() == pd.unique(who).tolist()
    for person, mu in privacy["mu"].items():
        left = who != person
        without = clone(quiet).fit(X[left], y[left], sample_weight=weights[left])
        assert_allclose(mu, np.linalg.norm(parameters(without) - own) / 0.3, rtol=1e-5)
    some = model.individual_privacy(records=[0, 1])
    assert_allclose(some["mu"], privacy.loc[some.index, "mu"])
    about = model.individual_privacy(features="sex")
    assert np.all(about["mu"] >= privacy["mu"] * (1.0 - 1e-5))


@pytest.mark.slow
def test_reports_and_audits_agree_about_persons(visits, rng):
    X, a, who, weights = visits
    y = TARGETS["squared"][1](a, rng)
    names = np.array([f"p{k}" for k in who])
    model = PrivateLinearRegression(0.5, alpha=0.05)
    audit = LeakageAuditor(model, "sex", attacks="white_box", n_releases=2)
    audited = audit.fit(X, y, sample_weight=weights, persons=names).records_.set_index("label")
    report = clone(model).fit(X, y, sample_weight=weights, persons=names).leakage_report()
    table = X.assign(id=names)
    pipeline = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(drop="if_binary"), ["sex"]), (StandardScaler(), ["age", "dose"])
        ),
        PrivateLinearRegression(0.5, alpha=0.05),
    ).fit(table, y, privatelinearregression__sample_weight=weights)
    raw = leakage_report(pipeline, table, y, sample_weight=weights, persons="id")
    of_raw = LeakageAuditor(pipeline, "sex", attacks="white_box", n_releases=2, persons="id")
    of_raw = of_raw.fit(table, y, sample_weight=weights).records_.set_index("label")
    for found, expected in ((report, audited), (raw, of_raw)):
        assert found.dataset["n_records"] == len(np.unique(who))
        assert found.records.index.tolist() == expected.index.tolist()
        worst = found.features.loc["sex"]
        assert worst["most_exposed_record"] == expected["distance"].idxmax()
        assert_allclose(worst["distance"], expected["distance"].max(), rtol=1e-8)
        own = [found.person(each).columns.loc["sex", "distance"] for each in expected.index]
        assert_allclose(own, expected["distance"], rtol=1e-8)
    assert "id" not in raw.features.index
    privacy = clone(model).fit(X, y, sample_weight=weights, persons=names).individual_privacy()
    assert_allclose(report.records["mu"], privacy["mu"], rtol=1e-9)
    whose = pipeline.fit(
        table,
        y,
        privatelinearregression__sample_weight=weights,
        privatelinearregression__persons=names,
    )
    kept = leakage_report(whose, table, y, sample_weight=weights)
    assert kept.dataset["n_records"] == len(np.unique(who))
    assert_allclose(kept.features.loc["sex", "distance"], raw.features.loc["sex", "distance"])


def test_numbers_move_alike_and_their_distances_are_those_of_refits(visits, rng):
    X, a, who, weights = visits
    y = TARGETS["squared"][1](a, rng)
    model = PrivateLinearRegression(0.5, alpha=0.05)
    report = model.fit(X, y, sample_weight=weights, persons=who).leakage_report()
    quiet, points = clone(model).set_params(noise_scale=0.0), {}
    found = report.features.loc["age"]
    # The standard deviation of the report counts weights as rows do.
    assert found["column_std"] == pytest.approx(X["age"].std(ddof=0), rel=0.2)
    assert 0.5 * found["column_std"] < found["step"] <= found["column_std"]
    for person in pd.unique(who):
        made = [parameters(clone(quiet).fit(X, y, sample_weight=weights))]
        for step in (-found["step"], found["step"]):
            moved = X.assign(age=np.where(who == person, X["age"] + step, X["age"]))
            made.append(parameters(clone(quiet).fit(moved, y, sample_weight=weights)))
        points[person] = max(np.linalg.norm(one - made[0]) for one in made[1:])
    assert found["distance"] == pytest.approx(max(points.values()) / 0.5, rel=1e-6)


def test_a_ledger_is_charged_for_the_person(visits, rng, tmp_path):
    X, a, who, _ = visits
    y, spent = TARGETS["squared"][1](a, rng), []
    for name, persons in (("rows", None), ("persons", who)):
        ledger = LeakageLedger(tmp_path / f"{name}.db")
        model = PrivateLinearRegression(5.0, alpha=0.05, ledger=ledger, ledger_dataset="clinic")
        model.fit(X, y, persons=persons)
        spent.append(float(np.max(ledger.total("clinic").fisher_information_loss)))
        assert spent[-1] == pytest.approx(model.fisher_information_loss_.max())
    assert spent[1] > spent[0]


def test_a_release_warns_of_persons(rng):
    who = np.repeat(np.arange(20), 10)
    X = np.column_stack([who % 2, rng.normal(size=200)])
    y = X @ [1.0, 1.0] + rng.normal(size=200)
    distances = [
        PrivateLinearRegression(1.0).fit(X, y, persons=persons).leakage_report().features
        for persons in (None, who)
    ]
    rows, persons = (each.loc["x0", "distance"] for each in distances)
    assert persons > 2.0 * rows
    noise = np.sqrt(rows * persons) / 4.0
    PrivateLinearRegression(noise).fit(X, y).release()
    with pytest.warns(UnprotectedValueWarning, match="'x0'"):
        PrivateLinearRegression(noise).fit(X, y, persons=who).release()


@pytest.mark.slow
def test_no_guarantee_counts_rows_where_persons_are_meant(visits, rng):
    X, a, who, _ = visits
    y = TARGETS["logistic"][1](a, rng)
    options = {"data_norm": 10.0, "fit_intercept": False, "public": ["n_samples", "sample_weight"]}
    options |= {"alpha": 0.1, "classes": [0, 1]}
    by_row = PrivateLogisticRegression(1.0, **options).fit(X, y)
    assert by_row.leakage_report().differential_privacy.holds
    by_person = clone(by_row).fit(X, y, persons=who)
    guarantee = by_person.leakage_report().differential_privacy
    assert not guarantee.holds
    assert any("about one row" in reason for reason in guarantee.reasons)
    with pytest.raises(ValueError, match="about one row"):
        PrivateLogisticRegression(GaussianDP(1.0), **options).fit(X, y, persons=who)


def test_goals_count_persons(visits, rng):
    X, a, who, _ = visits
    y = TARGETS["squared"][1](a, rng)
    model = PrivateLinearRegression(1.0, alpha=0.05).fit(X, y, persons=who)
    sex = MaxLeakage(0.5, features="sex")
    loss = model.fisher_information_loss(features="sex")
    assert_allclose(sex.noise_scale_of(model), loss.max() / 0.5, rtol=1e-9)
    whole = MaxLeakage(0.5).noise_scale_of(model)
    assert_allclose(whole, model.fisher_information_loss_.max() / 0.5, rtol=1e-9)
    X["ward"] = rng.integers(0, 2, 60).astype(float)
    other = clone(model).fit(X, y, persons=who)
    with pytest.raises(ValueError, match="differs between the rows"):
        MaxAdvantage(0.1, attribute="ward").noise_scale_of(other)


@pytest.mark.slow
def test_the_rung_of_a_goal_is_safe_for_all_rows_of_a_person(rng):
    """Another value in all rows of a person, and not in one of them, must leave the noise."""
    who = np.repeat(np.arange(100), 2)
    X = pd.DataFrame({"sex": who % 2 * 1.0, "age": rng.normal(size=200)})
    y = X["sex"] + X["age"] + rng.normal(size=200)
    for advantage in np.linspace(0.05, 0.5, 40):
        goal = MaxAdvantage(advantage, attribute="sex")
        try:
            model = PrivateLinearRegression(goal, alpha=0.1).fit(X, y, persons=who)
        except ValueError as error:
            assert "would give records away" in str(error)  # noqa: PT017
            continue
        for person in range(100):
            moved = X.assign(sex=np.where(who == person, 1.0 - X["sex"], X["sex"]))
            unit = PrivateLinearRegression(1.0, alpha=0.1).fit(moved, y, persons=who)
            needed = goal.noise_scale_of(unit)
            assert needed <= model.noise_scale_ * (1.0 + 1e-9) < needed * 2.0**0.5 * (1.0 + 1e-6)
        return
    pytest.fail("no rung is safe")


@every(
    ("own", "given", "match"),
    [
        ({}, {"persons": np.arange(7)}, "one label per record"),
        ({}, {"persons": [None, *range(59)]}, "missing labels"),
        ({"noise_covariance": "curvature"}, {"persons": np.arange(60)}, "of such noise"),
        ({"reweighting": "irfil"}, {"persons": np.arange(60)}, "evens what rows leak"),
    ],
)
def test_what_is_not_known_is_refused(own, given, match, visits, rng):
    X, a, *_ = visits
    model = PrivateLinearRegression(1.0, **own)
    with pytest.raises(ValueError, match=match):
        model.fit(X, a, **given)
    assert not hasattr(model, "coef_")


def test_records_outside_memory_are_refused(visits):
    array = pytest.importorskip("dask.array")
    X, a, who, _ = visits
    X, y = array.from_array(X.to_numpy(), chunks=20), array.from_array(a, chunks=20)
    with pytest.raises(ValueError, match="of records outside memory"):
        PrivateLinearRegression(1.0).fit(X, y, persons=who)


def test_refits_of_preprocessing_are_refused(visits):
    X, a, who, _ = visits
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(1.0)).fit(X, a)
    with pytest.raises(AttackNotApplicableError, match="leave `persons` out"):
        leakage_report(pipeline, X, a, persons=who, refit_preprocessing=True)


def test_persons_are_routed_metadata(visits):
    X, a, who, _ = visits
    with sklearn.config_context(enable_metadata_routing=True):
        model = PrivateLinearRegression(1.0).set_fit_request(persons=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, a, persons=who)
        assert pipeline[-1].fisher_information_loss_.shape == np.unique(who).shape
        auditor = LeakageAuditor(PrivateLinearRegression(1.0), "sex")
        routed = auditor.set_fit_request(persons=True).get_metadata_routing()
        assert routed.fit.requests["persons"] is True
