"""Audits by person: all rows of a person change, or leave, together."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import PriorAttack
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.games._levels import PublishedScale
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import MaxAdvantage
from skleak.utils._records import Persons

SEXES = np.array(["f", "m"])
every = pytest.mark.parametrize


def pipeline(model):
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(drop="if_binary"), ["sex"]), (StandardScaler(), ["age", "dose"])
        ),
        model,
    )


@pytest.fixture
def visits(rng):
    """30 persons with 1 to 12 visits, one with half of all, whose rows differ but for the sex."""
    sizes = np.append(rng.integers(1, 12, 29), 0)
    sizes[-1] = sizes.sum()
    who = rng.permutation(np.repeat(np.arange(30), sizes))
    sex = np.array(rng.permuted(SEXES[np.arange(30) % 2]))[who]
    X = pd.DataFrame({"sex": sex, "age": rng.normal(50, 9, len(who))})
    X["dose"] = rng.normal(size=len(who))
    X["patient_id"] = [f"p{k}" for k in who]
    y = 0.5 * (sex == "m") + 0.02 * X["age"] + X["dose"] + rng.normal(size=len(who))
    return X, y.to_numpy()


@pytest.fixture
def copies(rng):
    """30 persons with ten equal rows each."""
    one = pd.DataFrame({"sex": SEXES[np.arange(30) % 2], "age": rng.normal(50, 9, 30)})
    one["dose"] = rng.normal(size=30)
    y = 0.5 * (one["sex"] == "m") + 0.02 * one["age"] + 0.5 * rng.normal(size=30)
    rows = np.repeat(np.arange(30), 10)
    return one.iloc[rows].reset_index(drop=True), y.to_numpy()[rows], rows


def by_refits(X, y, who, alpha, weights=None):
    """Largest distance between the fits with all rows of each person set to either sex."""
    encoder = pipeline(None)[:-1].fit(X, y)
    weights = np.ones(len(y)) if weights is None else weights
    ridge, points = Ridge(alpha=alpha * weights.sum(), tol=1e-14, solver="cholesky"), {}
    for sex in SEXES:
        points[sex] = []
        for person in pd.unique(who):
            changed = X.copy()
            changed.loc[who == person, "sex"] = sex
            fit = clone(ridge).fit(encoder.transform(changed), y, sample_weight=weights)
            points[sex].append(np.append(fit.coef_, fit.intercept_))
    return np.linalg.norm(np.subtract(*points.values()), axis=1)


@pytest.mark.slow
def test_ten_equal_rows_are_one_person(copies):
    """The attack of who counts rows: a tenth of the distance of the person, and tiny advantages."""
    X, y, who = copies
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(alpha=1e-3)), "sex", noise_scales=0.5, n_releases=20
    )
    by_row = clone(auditor).fit(X, y)
    assert by_row.report_.settings["repeated"] == {"rows": 300, "by": "equal rows"}
    by_person = auditor.fit(X, y, persons=who)
    assert "repeated" not in by_person.report_.settings
    expected = by_refits(X, y, who, 1e-3) / 0.5
    assert_allclose(by_person.records_["distance"], expected, rtol=1e-8)
    assert_allclose(by_person.records_["exposure"], 2.0 * norm.cdf(0.5 * expected) - 1.0, rtol=1e-7)
    rows, persons = by_row.records_["exposure"].max(), by_person.records_["exposure"].max()
    assert persons > 5.0 * rows
    decisions = [each.report_.decision(np.sqrt(rows * persons)) for each in (by_row, by_person)]
    assert [each["passes"] for each in decisions] == [True, False]
    assert decisions[1]["n_records"] == decisions[1]["n_attacked"] == 30
    played = by_person.results_.set_index("attack").loc["white_box"]
    assert played["success_low"] <= played["bayes"] + 1e-9


@pytest.mark.slow
@every("weighted", mostly_slow([True, False], 0))
def test_rows_that_differ_and_a_person_of_half_the_table(visits, rng, weighted):
    X, y = visits
    who, weights = X["patient_id"], rng.uniform(0.2, 3.0, len(y)) if weighted else None
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(alpha=1e-2)), "sex", noise_scales=0.3, n_releases=4
    )
    auditor.set_params(persons="patient_id").fit(X, y, sample_weight=weights)
    expected = by_refits(X.drop(columns="patient_id"), y, who, 1e-2, weights) / 0.3
    records = auditor.records_
    assert_allclose(records["distance"], expected, rtol=1e-7)
    assert records["label"].tolist() == pd.unique(who).tolist()
    sizes = who.value_counts()
    assert_array_equal(records["n_rows"], sizes[records["label"]])
    assert_array_equal(records["record"], [who.tolist().index(each) for each in records["label"]])
    assert set(auditor.results_["attack"]) >= {"prior", "imputation", "white_box", "black_box"}
    assert auditor.report_.settings["n_rows"] == len(y)
    assert auditor.report_.settings["labels"] == "column patient_id"
    assert "patient_id" in auditor.feature_names_in_
    by_array = clone(auditor).set_params(persons=None)
    by_array.fit(X.drop(columns="patient_id"), y, sample_weight=weights, persons=who)
    pd.testing.assert_frame_equal(by_array.records_, records)
    pd.testing.assert_frame_equal(by_array.results_, auditor.results_)
    by_index = clone(by_array)
    table = X.set_index("patient_id")
    by_index.fit(table, y, sample_weight=weights, persons=table.index)
    pd.testing.assert_frame_equal(by_index.records_, records)


@pytest.mark.slow
def test_identifiers_that_repeat_are_noticed(visits):
    X, y = visits
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(1.0)), "sex", attacks="prior", n_releases=2, bounds=[]
    )
    n = int(X["patient_id"].duplicated(keep=False).sum())
    found = clone(auditor).fit(X, y).report_.settings["repeated"]
    assert found == {"rows": n, "by": "patient_id"}
    found = clone(auditor).fit(X.set_index("patient_id"), y).report_.settings["repeated"]
    assert found == {"rows": n, "by": "patient_id"}
    plain = clone(auditor).fit(X.drop(columns="patient_id"), y)
    assert "repeated" not in plain.report_.settings


@pytest.mark.slow
def test_one_row_each_is_the_audit_of_rows(visits):
    X, y = visits[0].drop(columns="patient_id"), visits[1]
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression()), "sex", noise_scales=0.1, n_releases=20
    )
    rows = clone(auditor).fit(X, y).records_
    own = auditor.fit(X, y, persons=np.arange(len(y))).records_
    numbers = ["record", "prior", "eta", "distance", "exposure", "bayes", "success_white_box"]
    pd.testing.assert_frame_equal(own[numbers], rows[numbers])


@pytest.mark.slow
def test_positions_of_columns_leave_out_that_of_persons(rng):
    who, sex = np.repeat(np.arange(10), 4), np.repeat(np.arange(10) % 2, 4)
    X = np.column_stack([rng.normal(size=40), who, sex])
    y = X @ [1.0, 0.0, 1.0] + rng.normal(size=40)
    auditor = LeakageAuditor(
        PrivateLinearRegression(0.1), 2, persons=1, attacks="white_box", n_releases=2
    ).fit(X, y)
    without = LeakageAuditor(
        PrivateLinearRegression(0.1), 1, attacks="white_box", n_releases=2
    ).fit(X[:, [0, 2]], y, persons=who)
    assert_array_equal(auditor.records_["distance"], without.records_["distance"])
    assert auditor.n_features_in_ == 3


@pytest.mark.slow
def test_some_persons_by_any_of_their_rows(visits):
    X, y = visits
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(0.1)), "sex", persons="patient_id", n_releases=2
    ).fit(X, y)
    of_two = X["patient_id"].iloc[[5, 40]].unique()
    some = clone(auditor).set_params(records=[5, 40]).fit(X, y).records_
    whole = auditor.records_.set_index("label").loc[some["label"]]
    assert sorted(some["label"]) == sorted(of_two)
    assert_allclose(some["distance"], whole["distance"])


@pytest.mark.slow
@every("estimator", mostly_slow([Ridge(), LogisticRegression(), PrivateLogisticRegression(0.1)], 0))
def test_models_of_any_maker_and_labels_as_the_secret(visits, estimator):
    X, y = visits
    y = (
        np.where(X["patient_id"].str[1:].astype(int) % 3 == 0, 1, 0)
        if hasattr(estimator, "decision_function")
        else y
    )
    names = ["sex", "(target)"] if hasattr(estimator, "decision_function") else ["sex"]
    for attribute in names:
        auditor = LeakageAuditor(
            pipeline(estimator), attribute, persons="patient_id", noise_scales=0.5, n_releases=10
        ).fit(X, y)
        assert len(auditor.records_) == 30
        assert np.all(auditor.records_["distance"] > 0.0)


def test_a_model_that_is_only_asked(visits):
    X, y = visits
    labels = (y > np.median(y)).astype(int)
    tree = pipeline(DecisionTreeClassifier(max_depth=3, random_state=0))
    auditor = LeakageAuditor(tree, "sex", persons="patient_id").fit(X, labels)
    results = auditor.results_.set_index("attack")
    assert results.loc["black_box_proba", "n_games"] == 30


WRONG = {
    "length": ({}, {"persons": np.arange(7)}, "one label per record"),
    "missing": ({}, {"persons": [None, *range(89)]}, "missing labels. Give those records each"),
    "twice": ({"persons": "patient_id"}, {"persons": np.arange(90)}, "Leave one out"),
    "same": ({"persons": "sex"}, {}, "name the same column"),
    "unknown": ({"persons": "nobody"}, {}, "nobody"),
    "number": ({"attribute": "age", "persons": "patient_id"}, {}, "is a number"),
    "differs": ({"attribute": "ward", "persons": "patient_id"}, {}, "differs between their rows"),
    "whole": ({"attribute": None, "persons": "patient_id"}, {}, "reconstructed row by row"),
    "informed": ({"attacks": "informed", "persons": "patient_id"}, {}, "informed"),
    "passed": ({"attacks": PriorAttack("sex"), "persons": "patient_id"}, {}, "guesses rows"),
    "shape": (
        {
            "estimator": pipeline(PrivateLinearRegression(1.0, noise_covariance="curvature")),
            "persons": "patient_id",
        },
        {},
        "several rows of a person change together",
    ),
}


@every("case", WRONG)
def test_what_is_not_known_of_persons_is_refused(case, rng):
    own, given, match = WRONG[case]
    who = np.repeat(np.arange(30), 3)
    X = pd.DataFrame({"sex": SEXES[who % 2], "ward": rng.choice(["A", "B"], 90)})
    X["age"], X["dose"], X["patient_id"] = rng.normal(50, 9, 90), rng.normal(size=90), who
    y = X["age"] + rng.normal(size=90)
    auditor = LeakageAuditor(pipeline(PrivateLinearRegression(1.0)), "sex").set_params(**own)
    with pytest.raises(ValueError, match=match):
        auditor.fit(X, y, **given)
    assert not hasattr(auditor, "report_")


def test_rows_outside_memory_are_refused(tmp_path, rng):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    table = pd.DataFrame({"sex": [0, 1] * 20, "id": np.arange(40) // 4, "y": rng.normal(size=40)})
    table.to_parquet(path)
    auditor = LeakageAuditor(PrivateLinearRegression(1.0), "sex", persons="id")
    with pytest.raises(AttackNotApplicableError, match="Rows outside memory are audited one by"):
        auditor.fit(path, "y")


@pytest.mark.slow
@every("secrets", ["drawn", "actual"])
def test_members_come_and_go_with_all_rows(visits, secrets):
    X, y = visits
    labels, who = (y > np.median(y)).astype(int), X["patient_id"].to_numpy()
    numbers = X[["age", "dose"]]
    model = PrivateLogisticRegression(0.2, alpha=0.05, tol=1e-12)
    auditor = MembershipAuditor(model, secrets=secrets, attacks=["exact"], n_releases=6)
    auditor.fit(numbers, labels, numbers.iloc[:20], labels[:20], persons=who)
    records = auditor.records_
    assert records["label"].tolist() == pd.unique(who).tolist()
    assert_array_equal(records["n_rows"], pd.Series(who).value_counts()[records["label"]])
    if secrets == "actual":
        assert set(auditor.report_.groups.get("kind", [])) <= {"class"}
        by_row = clone(auditor).fit(numbers, labels, numbers.iloc[:20], labels[:20])
        assert auditor.results_["success"].iloc[0] > by_row.results_["success"].iloc[0] + 0.05
        return
    quiet = clone(model).set_params(noise_scale=0.0)

    def fitted(rows):
        made = clone(quiet).fit(numbers[rows], labels[rows])
        return np.append(made.coef_, made.intercept_)

    own = fitted(np.ones(len(y), dtype=bool))
    expected = [np.linalg.norm(fitted(who != each) - own) / 0.2 for each in pd.unique(who)]
    assert_allclose(records["distance"], expected, rtol=1e-4)
    by_row = clone(auditor).fit(numbers, labels, numbers.iloc[:20], labels[:20])
    distances = by_row.records_.groupby(who)["distance"].max().loc[records["label"]]
    several = records["n_rows"].to_numpy() > 2
    assert records["distance"].to_numpy()[several].max() > distances[several].max()
    assert "dp" not in auditor.report_.settings["bounds"]


@pytest.mark.slow
def test_scores_of_members_are_those_of_all_rows(visits):
    X, y = visits
    labels = (y > np.median(y)).astype(int)
    tree = DecisionTreeClassifier(random_state=0)
    auditor = MembershipAuditor(tree, n_releases=12, persons="patient_id")
    results = auditor.fit(X.drop(columns="sex"), labels).results_.set_index("attack")
    by_row = clone(auditor).set_params(persons=None).fit(X[["age", "dose"]], labels).results_
    for name in ("loss", "likelihood_ratio"):
        assert results.loc[name, "success"] > by_row.set_index("attack").loc[name, "success"] + 0.05


@pytest.mark.slow
def test_who_alone_has_a_class_is_always_told(rng):
    X, y, who = rng.normal(size=(60, 2)), np.r_[np.zeros(56), np.ones(4)].astype(int), np.arange(60)
    who[56:] = 56
    auditor = MembershipAuditor(PrivateLogisticRegression(1.0), n_releases=6)
    with pytest.warns(UserWarning, match="each the only one of a class"):
        auditor.fit(X, y, persons=who)
    assert 56 not in auditor.records_["record"].to_numpy()
    drawn = clone(auditor).set_params(secrets="drawn")
    with pytest.raises(ValueError, match="Each candidate is the only record of its class"):
        drawn.set_params(records=[56]).fit(X, y, persons=who)


def test_checkpoints_know_whose_rows_are_whose(visits, tmp_path):
    X, y = visits
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(0.1)), "sex", n_releases=2, checkpoint=tmp_path / "audit"
    )
    table = X.drop(columns="patient_id")
    auditor.fit(table, y, persons=X["patient_id"])
    with pytest.raises(ValueError, match="another audit"):
        auditor.fit(table, y)


def test_a_goal_counts_persons_and_its_scale_is_that_of_fits(copies):
    X, y, who = copies
    numbers = pd.DataFrame({"sex": (X["sex"] == "m") * 1.0, "age": (X["age"] - 50.0) / 9.0})
    goal = MaxAdvantage(0.1, attribute="sex")
    unit = PrivateLinearRegression(1.0, alpha=1e-2)
    by_row = goal.noise_scale_of(clone(unit).fit(numbers, y))
    by_person = goal.noise_scale_of(clone(unit).fit(numbers, y, persons=who))
    audit = LeakageAuditor(unit, "sex", attacks="white_box", n_releases=2)
    distance = audit.fit(numbers, y, persons=who).records_["distance"].max()
    assert_allclose(by_person, distance / (2.0 * norm.ppf(0.55)), rtol=1e-6)
    assert by_person > 5.0 * by_row
    persons = Persons.of(who, len(y))
    scale = PublishedScale.of(unit, goal, numbers, y, None, persons)
    found = scale.without(np.arange(300), persons.take(np.array([0, 7])))
    for k, each in enumerate((0, 7)):
        left = who != each
        needed = goal.noise_scale_of(clone(unit).fit(numbers[left], y[left], persons=who[left]))
        assert needed <= found[k] * (1.0 + 1e-9) < needed * 2.0**0.5 * (1.0 + 1e-8)


@pytest.mark.slow
def test_an_audit_of_a_goal_has_the_noise_that_counts_persons(rng):
    """The scale is published: audits find it anew with each value of all rows of a person."""
    who = np.repeat(np.arange(80), 2)
    X = pd.DataFrame({"sex": who % 2 * 1.0, "age": rng.normal(size=160)})
    y = X["sex"] + X["age"] + rng.normal(size=160)
    for advantage in np.linspace(0.05, 0.5, 40):
        model = PrivateLinearRegression(MaxAdvantage(advantage, attribute="sex"), alpha=0.1)
        try:
            scale = clone(model).fit(X, y, persons=who).noise_scale_
        except ValueError:  # the rung would give somebody away
            continue
        audit = LeakageAuditor(model, "sex", attacks="white_box", n_releases=2)
        audit.fit(X, y, persons=who)
        assert audit.results_["noise_scale"].unique() == [float(scale)]
        assert audit.report_.settings.get("uncounted", "") == ""
        assert advantage / 2.0 < audit.records_["exposure"].max() <= advantage * (1.0 + 1e-9)
        return
    pytest.fail("no rung is safe")


@every("releases", mostly_slow(["fitted", "simulated"], 1))
def test_games_change_all_rows(visits, releases):
    X, y = visits
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(0.05)),
        "sex",
        attacks="white_box",
        n_releases=40,
        persons="patient_id",
        releases=releases,
    ).fit(X, y)
    played = auditor.results_.iloc[0]
    assert played["success_low"] <= played["bayes"] <= played["success_high"]
    assert played["bayes"] > played["baseline"] + 0.1


@pytest.mark.slow
def test_a_series_is_read_by_the_index(visits, rng):
    X, y = visits
    who, table = X["patient_id"], X.drop(columns="patient_id")
    auditor = LeakageAuditor(
        pipeline(PrivateLinearRegression(0.1)), "sex", attacks="white_box", n_releases=2
    )
    expected = clone(auditor).fit(table, y, persons=who.to_numpy()).records_
    own = table.set_axis([f"row {k}" for k in range(len(table))])
    shuffled = who.set_axis(own.index).sample(frac=1.0, random_state=0)
    found = auditor.fit(own, y, persons=shuffled).records_
    pd.testing.assert_frame_equal(found, expected)
