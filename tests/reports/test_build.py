"""The numbers of a report, the guarantee it states, and the sentences it writes."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from helpers import flat
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak import inspection
from skleak.accounting import LeakageLedger
from skleak.exceptions import CostWarning, NoGuaranteeError, UnevenLeakageWarning
from skleak.linear_model import (
    IRFIL,
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage
from skleak.report.guarantee import DifferentialPrivacy

NAMES = ["age", "bmi", "bp"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(list(b"records of the reports"))
    return pd.DataFrame(rng.normal(size=(50, 3)) * [10.0, 1.0, 3.0], columns=NAMES)


@pytest.fixture(scope="module", params=[False, True], ids=["equal", "weighted"])
def weights(request):
    rng = np.random.default_rng(list(b"weights of the reports"))
    return rng.integers(0, 4, size=50).astype(float) if request.param else None


@pytest.fixture(
    scope="module",
    params=[PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor],
    ids=lambda cls: cls.__name__,
)
def model(request, frame, weights):
    predictor = frame @ [0.05, 0.5, -0.1]
    y = predictor > 0.1 if request.param is PrivateLogisticRegression else np.exp(predictor).round()
    return request.param(0.2).fit(frame, y, sample_weight=weights)


@pytest.fixture(scope="module")
def report(model):
    """What several tests look at, and none changes."""
    return model.leakage_report()


def _all(weights):
    return np.ones(50) if weights is None else weights


def _mean_and_spread(values, weights):
    """Over people: a row of positive weight counts once."""
    present = values[weights > 0.0]
    return present.mean(), present.std() / present.mean()


def test_records(model, report, weights):
    records = report.records
    assert_array_equal(records["sample_weight"], _all(weights))
    loss = model.fisher_information_loss()
    assert_allclose(records["fisher_information_loss"], loss)
    assert_allclose(
        records["diagonal_fisher_information_loss"], model.fisher_information_loss(norm="trace")
    )
    with np.errstate(divide="ignore"):
        assert_allclose(records["standard_error"], 1.0 / loss)
    assert list(records.index) == list(range(50))
    assert records.index.name == "record"
    assert "group" not in records


def test_features(model, report, frame, weights):
    weights = _all(weights)
    features = report.features
    assert set(features.index) == {*NAMES, "(target)"}
    table = model.fisher_information_loss(per="feature")
    for j, name in enumerate(NAMES):
        row, column = features.loc[name], table[:, j]
        mean, spread = _mean_and_spread(column, weights)
        assert row["max_loss"] == pytest.approx(column.max())
        assert row["min_loss"] == pytest.approx(column[weights > 0.0].min())
        assert row["mean_loss"] == pytest.approx(mean)
        assert row["spread"] == pytest.approx(spread)
        assert row["standard_error"] == pytest.approx(1.0 / column.max())
        std = frame[name].to_numpy()[weights > 0.0].std()
        assert row["column_std"] == pytest.approx(std)
        assert weights[row["most_exposed_record"]] > 0.0
    assert features["advantage_any_prior"].round(3).is_monotonic_decreasing


def test_the_target_is_a_column_where_it_is_private(model, report, frame, weights):
    features = report.features
    # The target's own share: what is in the record and not in all of its other columns.
    record = model.fisher_information_loss(norm="trace") ** 2 * 4
    columns = np.sum(model.fisher_information_loss(per="feature") ** 2, axis=1)
    target = np.sqrt(np.maximum(record - columns, 0.0))
    assert features.loc["(target)", "max_loss"] == pytest.approx(target.max(), rel=1e-6)
    public = type(model)(0.2, private_target=False)
    y = model._state.objective.y
    y = model.classes_[y.astype(int)] if hasattr(model, "classes_") else y
    report = public.fit(frame, y, sample_weight=weights).leakage_report()
    assert set(report.features.index) == set(NAMES)
    assert report.dataset["private_target"] is False


def test_the_table_of_features_is_made_in_blocks_of_rows(model, report, monkeypatch):
    whole = report.features
    monkeypatch.setattr(
        "skleak.report.leakage._build.row_blocks",
        lambda n, *_: (slice(i, min(i + 7, n)) for i in range(0, n, 7)),
    )
    pd.testing.assert_frame_equal(model.leakage_report().features, whole, rtol=1e-9)


def test_chosen_features(model):
    report = model.leakage_report(features=["bmi", ["age", "bp"]])
    assert set(report.features.index) == {"bmi", "age + bp", "(target)"}
    block = report.features.loc["age + bp"]
    assert block["max_loss"] == pytest.approx(
        model.fisher_information_loss(features=["age", "bp"]).max()
    )
    assert np.isnan(block["column_std"])
    assert np.isnan(block["share_removed"])
    assert block["kind"] == "numbers"


@pytest.mark.slow
def test_groups(model, frame, weights):
    weights = _all(weights)
    labels = np.where(frame["age"] > 5.0, "old", np.where(frame["age"] > 0.0, "mid", "young"))
    report = model.leakage_report(groups=labels)
    assert_array_equal(report.records["group"], labels)
    loss = model.fisher_information_loss()
    joint = model.fisher_information_loss(per="group", groups=labels)
    overall, _ = _mean_and_spread(loss, weights)
    for label in set(labels):
        row, members = report.groups.loc[label], labels == label
        mean, spread = _mean_and_spread(loss[members], weights[members])
        assert row["n_records"] == np.sum(weights[members] > 0)
        assert row["mean_loss"] == pytest.approx(mean)
        assert row["spread"] == pytest.approx(spread)
        assert row["max_loss"] == pytest.approx(loss[members].max())
        assert row["joint_loss"] == pytest.approx(joint[label])
        assert row["relative_mean"] == pytest.approx(mean / overall)
        worst = int(row["most_exposed_record"])
        assert members[worst]
        assert loss[worst] == loss[members].max()
    means = report.groups["mean_loss"]
    assert report.dataset["group_spread"] == pytest.approx(means.std(ddof=0) / means.mean())
    high, low = means.idxmax(), means.idxmin()
    line = next(line for line in report.findings if line.startswith("Over groups"))
    assert (
        f"largest for {high} ({means[high]:.3g}) and smallest for {low} ({means[low]:.3g})" in line
    )


def test_groups_nobody_takes_part_in_are_not_there(frame):
    weights = np.ones(50)
    labels = np.arange(50) // 10
    weights[labels == 3] = 0.0
    model = PrivateLinearRegression(0.2).fit(frame, frame["age"], sample_weight=weights)
    assert list(model.leakage_report(groups=labels).groups.index) == [0, 1, 2, 4]


def test_data_set(model, report, weights):
    weights = _all(weights)
    data = report.dataset
    loss = model.fisher_information_loss()
    present = loss[weights > 0.0]
    mean, spread = _mean_and_spread(loss, weights)
    assert data["n_records"] == len(present)
    assert data["n_features"] == 3
    assert data["noise_scale"] == 0.2
    assert data["alpha"] == 1e-2
    assert data["loss"] == model._loss.name
    assert data["reweighting"] is None
    assert data["mean_loss"] == pytest.approx(mean)
    assert data["std_loss"] == pytest.approx(spread * mean)
    assert data["spread"] == pytest.approx(spread)
    assert data["min_loss"] == pytest.approx(present.min())
    assert data["median_loss"] == pytest.approx(np.median(present))
    assert data["max_loss"] == pytest.approx(present.max())
    assert data["joint_loss"] == pytest.approx(model.fisher_information_loss(per="dataset"))
    assert np.isnan(data["group_spread"])
    worst = data["most_exposed_records"]
    assert len(worst) == 10
    assert_array_equal(loss[worst], np.sort(present)[::-1][:10])


def test_other_records(model, rng):
    X = pd.DataFrame(rng.normal(size=(6, 3)), columns=NAMES)
    y = np.array([0, 1, 1, 0, 1, 0])
    y = y.astype(bool) if hasattr(model, "classes_") else y
    report = model.leakage_report(X, y, groups="bmi")
    assert_allclose(report.records["fisher_information_loss"], model.fisher_information_loss(X, y))
    assert report.dataset["n_records"] == 6
    assert len(report.groups) == 6


@pytest.mark.slow
def test_no_raw_rows(model, frame):
    """No entry of a record, and no target, is among the numbers of the report."""
    report = model.leakage_report(groups=np.arange(50) % 2)
    numbers = np.concatenate(
        [
            table.select_dtypes("number").to_numpy(dtype=float).ravel()
            for table in (report.records, report.features, report.groups)
        ]
    )
    assert not np.any(np.isin(frame.to_numpy(), numbers))
    text = report.to_json() + report.to_html()
    assert not any(repr(value) in text for value in frame.to_numpy().ravel()[:30].tolist())


def test_a_report_is_frozen(report):
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.estimator = "mine"
    frame = report.to_frame()
    frame["fisher_information_loss"] = 0.0
    assert np.any(report.records["fisher_information_loss"] > 0.0)


# Sentences


def test_the_answer_is_the_first_row_of_the_table(report):
    found, row = report.facts["most"], report.features.iloc[0]
    assert report.facts["state"] == "known"
    assert found["column"] == report.features.index[0]
    assert found["record"] == row["most_exposed_record"]
    for name in ("advantage_any_prior", "distance", "found_at_1pct", "kind", "n_known"):
        assert found[name] == row[name]
    assert found["advantage_any_prior"] == pytest.approx(2.0 * norm.cdf(row["distance"] / 2) - 1.0)
    assert found["found_at_1pct"] == pytest.approx(norm.cdf(norm.ppf(0.01) + row["distance"]))
    number, removed = report.facts["number"], report.features["share_removed"]
    assert number["share_removed"] == removed.max()
    assert number["column"] == removed.idxmax()


def test_who_shows_most_is_the_first_of_the_records(report):
    found, mu = report.facts["membership"], report.records["mu"]
    assert found["record"] == mu.idxmax()
    assert found["distance"] == mu.max()
    assert found["advantage_any_prior"] == pytest.approx(2.0 * norm.cdf(mu.max() / 2) - 1.0)


def test_the_verdict_turns_with_the_noise(frame):
    y = frame["age"] + 1.0
    quiet = PrivateLinearRegression(1e-6).fit(frame, y).leakage_report()
    loud = PrivateLinearRegression(1e4).fit(frame, y).leakage_report()
    assert len(quiet.facts["above"]) == 4
    assert quiet.facts["most"]["advantage_any_prior"] > 0.99
    assert loud.facts["above"] == []
    assert (quiet.features["n_above"] >= 27).all()
    assert (loud.features["n_above"] == 0).all()


# Words of those who compute, not of those who decide.
JARGON = ("prior", "game", "encoding", "drawn", "vacuous", "noise unit", "distance", "nan", "None")


@pytest.mark.slow
def test_the_first_sentence_decides_in_forty_words(frame, report):
    """Whatever is found: the name of a column, and a number with its unit, count as one."""
    y = frame["age"] + 1.0
    rare = frame.assign(rare=np.arange(50.0) < 1.0)
    some = [PrivateLinearRegression(noise).fit(frame, y) for noise in (0.0, 1e-4, 1e4)]
    some.append(PrivateLinearRegression(0.1).fit(rare, y))
    some.append(PrivateLinearRegression(0.1, reweighting="irfil").fit(frame, y))
    some.append(PrivateLinearRegression(0.1, noise_covariance="curvature").fit(rare, y))
    some.append(PrivateLinearRegression(0.1, private_target=False).fit(frame, np.zeros(50)))
    reports = [report, *(model.leakage_report() for model in some)]
    for found in reports:
        first = found.findings[0]
        assert first.count(". ") == 0
        assert len(first.split()) <= 40
        assert not [word for word in JARGON if word in first.replace("(target)", "")]
    assert len({found.findings[0] for found in reports}) == len(reports)


def test_nobody_is_said_to_be_safe_who_was_not_measured(frame):
    """A few records of a table stand for themselves alone."""
    X = frame.assign(sex=(np.arange(50) % 3 == 0).astype(float))
    model = make_pipeline(StandardScaler(), PrivateLinearRegression(1e3)).fit(X, X["age"])
    every = inspection.leakage_report(model, X, X["age"])
    some = inspection.leakage_report(model, X, X["age"], records=[3, 4, 5])
    assert every.facts["most"]["n_known"] == every.facts["total"] == 50
    assert (some.facts["most"]["n_known"], some.facts["total"]) == (3, 50)
    assert "of no record" in every.findings[0]
    assert "of no record" not in some.findings[0]


def test_the_most_exposed_records(report):
    worst, largest = report.dataset["most_exposed_records"][:5], report.dataset["max_loss"]
    shown = ", ".join(map(str, worst)), f"{largest:.3g}", f"{1.0 / largest:.3g}"
    assert any(all(part in line for part in shown) for line in report.findings)


def test_of_many_records_few_are_solved_for_and_all_on_request(model, weights, monkeypatch):
    whole = model.leakage_report(exact=True)
    monkeypatch.setattr("skleak.report.leakage._build.MOST_WORK", 0.0)
    monkeypatch.setattr("skleak.report.measures._MOST_EXPOSED", 8)
    few, again = model.leakage_report(), model.leakage_report(exact=True)
    columns, present = ["distance"], _all(weights) > 0.0
    for report in (few, again):
        expected = whole.features.loc[report.features.index, columns]
        assert_allclose(report.features[columns], expected, rtol=1e-6)
    for one, other, third in zip(whole.persons, few.persons, again.persons, strict=True):
        assert one.exact[present].all()
        assert third.exact[present].all()
        assert one.exact[other.exact].all()
        assert_allclose(other.distance[other.exact], one.distance[other.exact], rtol=1e-6)


@pytest.mark.parametrize("estimator", [PrivateLogisticRegression, PrivatePoissonRegressor])
def test_the_most_exposed_of_many_records_is_proven_from_few(estimator, rng, monkeypatch):
    n = 1500
    X = np.column_stack([rng.random(n) < 0.3, rng.integers(0, 4, n), rng.normal(size=(n, 2))])
    y = rng.integers(0, 2, n)
    whole = estimator(0.1, alpha=1e-2).fit(X, y).leakage_report(exact=True)
    monkeypatch.setattr("skleak.report.leakage._build.MOST_WORK", 1e7)
    few = estimator(0.1, alpha=1e-2).fit(X, y).leakage_report()
    assert few.features["exact"].all()
    rows = few.features.index[few.features["kind"] != "target"]
    for name in ("distance", "most_exposed_record"):
        expected = whole.features.loc[rows, name]
        if name == "distance":
            assert_allclose(few.features.loc[rows, name], expected, rtol=1e-6)
        else:
            assert (few.features.loc[rows, name] == expected).all()
    assert max(one.exact.sum() for one in few.persons) < 100
    # A record that outweighs all others leaves no bound, and nothing is said to be proven.
    X[0, 2:] = 1e3
    few = estimator(0.1, alpha=1e-9).fit(X, y).leakage_report()
    assert not few.features["exact"].all()


def test_labels_of_carriers_keep_their_type(rng):
    X = pd.DataFrame({"rare": np.arange(200) < 4, "age": rng.normal(size=200)}).astype(float)
    y = rng.integers(0, 2, 200)  # of which no value is rare
    carriers = PrivateLogisticRegression(0.01, alpha=1e-3).fit(X, y).leakage_report().carriers
    assert sorted(carriers["record"]) == [0, 1, 2, 3]
    assert carriers["record"].dtype.kind == "i"


def test_solving_for_all_is_announced(model, monkeypatch):
    monkeypatch.setattr("skleak.report.measures._RATE", 1.0)
    with pytest.warns(CostWarning, match="Solving for .* records exactly takes about"):
        model.leakage_report(exact=True)


def test_the_distances_of_a_number_are_those_of_refits(model, frame, weights):
    report = model.leakage_report(exact=True)
    bmi = next(one for one in report.persons if one.name == "bmi")
    fit = model._confidential_state()
    start, y = fit.factor.coefficients, fit.objective.y
    for i in np.flatnonzero(_all(weights) > 0.0)[:6]:
        distances = []
        for sign in (-1.0, 1.0):
            moved = frame.copy()
            moved.loc[i, "bmi"] += sign * bmi.step
            target = y > 0.5 if isinstance(model, PrivateLogisticRegression) else y
            again = type(model)(0.2, tol=1e-12).fit(moved, target, sample_weight=weights)
            end = again._confidential_state().factor.coefficients
            distances.append(np.linalg.norm(end - start) / model.noise_scale_)
        assert_allclose(bmi.distance[i], max(distances), rtol=1e-5)


def test_without_noise_there_is_one_thing_to_say(frame):
    report = PrivateLinearRegression(0).fit(frame, frame["age"]).leakage_report()
    assert report.facts["state"] == "no_noise"
    assert not any("nan" in line for line in report.findings)
    assert report.dataset["max_loss"] == np.inf
    assert_array_equal(report.records["standard_error"], 0.0)
    reasons = report.differential_privacy.reasons
    assert any("no noise was added" in reason for reason in reasons)


def test_a_reweighted_report(frame):
    y = frame["age"] / 10.0 + frame["bmi"] ** 2
    model = PrivateLinearRegression(0.2, reweighting=IRFIL(tol=1e-8, max_iter=100))
    report = model.fit(frame, y).leakage_report()
    assert report.dataset["reweighting"] == "irfil"
    data, given = report.dataset, model.conditional_fisher_information_loss_
    assert np.std(given) < 1e-7 * np.mean(given)
    assert data["conditional_mean_loss"] == pytest.approx(given.mean())
    assert data["conditional_max_loss"] == pytest.approx(given.max())
    assert data["max_loss"] == pytest.approx(model.fisher_information_loss_.max())
    assert data["max_loss"] > 1.01 * data["conditional_max_loss"]
    assert data["joint_loss"] == pytest.approx(model.fisher_information_loss(per="dataset"))
    table = model.fisher_information_loss(per="feature")
    assert_allclose(report.features["max_loss"].drop("(target)").max(), table.max())
    counted = [line for line in report.assumptions if "through its own weight" in line]
    assert len(counted) == 1
    assert "is counted" in counted[0]
    shown = [f"{data[name]:.3g}" for name in ("conditional_max_loss", "max_loss")]
    assert any(all(part in line for part in shown) for line in report.findings)
    assert json.loads(report.to_json())["dataset"]["conditional_max_loss"] == pytest.approx(
        given.max()
    )
    assert any("the reweighting makes" in r for r in report.differential_privacy.reasons)


WAYS = {
    "irfil": {"reweighting": "irfil"},
    "total": {"reweighting": "total"},
    "curvature": {"noise_covariance": "curvature"},
    "minimax": {"noise_covariance": "minimax"},
    "least_mean": {"noise_covariance": "least_mean"},
    "given": {"noise_covariance": np.diag([1.0, 3.0, 2.0])},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["squared", "logistic", "Poisson"])
def test_the_plain_fit_is_stated_beside(kind, way, rng):
    X, s = rng.normal(size=(30, 2)), rng.integers(0, 3, 30).astype(float)
    s[:3], linear = 1.0, X @ [1.0, -0.5]
    estimator, y = {
        "squared": (PrivateLinearRegression, linear + rng.normal(size=30)),
        "logistic": (PrivateLogisticRegression, (linear + rng.normal(size=30) > 0.0).astype(int)),
        "Poisson": (PrivatePoissonRegressor, rng.poisson(np.exp(linear)).astype(float)),
    }[kind]
    weights = s if way in ("total", "minimax") else None
    goal = kind == "squared" and way in ("irfil", "curvature")
    noise = MaxLeakage(3.0) if goal else 0.3
    model = estimator(noise, alpha=0.05, **WAYS[way]).fit(X, y, sample_weight=weights)
    plain = estimator(float(model.noise_scale_), alpha=0.05).fit(X, y, sample_weight=weights)
    losses = plain.fisher_information_loss()
    losses = losses if weights is None else losses[weights > 0.0]
    expected = losses.max(), losses.mean(), losses.std() / losses.mean()
    report = model.leakage_report()
    data, names = report.dataset, ("plain_max_loss", "plain_mean_loss", "plain_spread")
    assert_allclose([data[name] for name in names], expected, rtol=1e-9)
    assert_allclose([report.to_dict()["dataset"][name] for name in names], expected, rtol=1e-9)
    (said,) = [line for line in report.findings if line.startswith("Without th")]
    assert ("the reweighting" in said) == (way in ("irfil", "total"))
    own = data["max_loss"], data["mean_loss"], data["spread"]
    largest, mean, spread = (f"{part:.3g}" for part in expected)
    assert f"would be {largest} (mean {mean}, relative spread {spread}); with it " in said
    assert "; with it {:.3g} ({:.3g}, {:.3g}).".format(*own) in said
    # Of other records, too; and of a plain fit nothing.
    few = model.leakage_report(X[:4] + 1.0, y[:4]).dataset
    others = plain.fisher_information_loss(X[:4] + 1.0, y[:4])
    assert few["plain_max_loss"] == pytest.approx(others.max(), rel=1e-9)
    assert {plain.leakage_report().dataset[name] for name in names} == {None}


@pytest.mark.slow
def test_a_report_of_the_rule_that_evens_the_total(frame, weights):
    y = frame["age"] / 10.0 + frame["bmi"] ** 2
    model = PrivateLinearRegression(0.2, reweighting=EvenTotal(tol=1e-8))
    report = model.fit(frame, y, sample_weight=weights).leakage_report()
    data, losses = report.dataset, model.fisher_information_loss()
    assert data["reweighting"] == "total"
    assert data["max_loss"] == pytest.approx(losses.max())
    present = _all(weights) > 0.0
    mean, spread = _mean_and_spread(losses, _all(weights))
    assert data["spread"] == pytest.approx(spread)
    given = model.conditional_fisher_information_loss_
    assert data["conditional_mean_loss"] == pytest.approx(given[present].mean())
    assert data["conditional_max_loss"] == pytest.approx(given.max())
    beside = [line for line in report.findings if "The reweighting evens" in line]
    assert len(beside) == 1
    shown = spread, mean, losses.max(), data["conditional_mean_loss"], given.max()
    assert all(f"{part:.3g}" in beside[0] for part in shown)
    assert any("through its own weight" in line for line in report.assumptions)
    assert any("the reweighting makes" in r for r in report.differential_privacy.reasons)
    told = json.loads(report.to_json())["dataset"]
    assert told["reweighting"] == "total"
    assert told["spread"] == pytest.approx(spread)
    # What the attribute warns of is what was to be even: leakage per unit of weight.
    s = _all(weights)[present]
    unit = losses[present] / s
    mean = np.average(unit, weights=s)
    spread = np.sqrt(np.average((unit / mean - 1.0) ** 2, weights=s))
    assert (weights is not None) == ("per unit of sample weight" in beside[0])
    with pytest.warns(UnevenLeakageWarning, match=f"is {spread:.2g}. ".replace(".", r"\.")):
        assert_allclose(model.fisher_information_loss_, losses)


@pytest.mark.slow
def test_without_noise_a_reweighting_has_nothing_to_even(frame):
    some = frame[:15]
    model = PrivateLinearRegression(0, alpha=1.0, reweighting="total").fit(some, some["age"] + 1.0)
    report = model.leakage_report()
    assert report.dataset["max_loss"] == np.inf
    assert not any("The reweighting" in line for line in report.findings)


@pytest.mark.slow
def test_of_a_reweighting_that_stopped_short_a_report_knows_nothing(frame):
    some = frame[:12]
    y = some["age"] / 10.0 + some["bmi"] ** 2
    model = PrivateLinearRegression(0.2, reweighting=IRFIL(max_iter=2))
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        model.fit(some, y)
    report = model.leakage_report()
    assert report.findings[0].startswith("The fit, or its reweighting, did not converge")
    assert np.isnan(report.dataset["max_loss"])


def test_weights_are_explained_where_there_are_any(frame):
    y = frame["age"]
    weights = np.where(np.arange(50) == 3, 2.0, 1.0)
    weighted = PrivateLinearRegression(0.2).fit(frame, y, sample_weight=weights).leakage_report()
    plain = PrivateLinearRegression(0.2).fit(frame, y).leakage_report()
    sentence = "A row is one person: its loss is that of its whole sample weight"
    assert any(sentence in line for line in weighted.assumptions)
    assert not any(sentence in line for line in plain.assumptions)


def test_the_assumptions_of_every_report(report):
    text = " ".join(report.assumptions)
    for words in (
        "unbiased",
        "know everything else",
        "local measure",
        "secret",
        "this one release",
    ):
        assert words in text


def test_nothing_leaks(frame):
    model = PrivateLinearRegression(0.1, private_target=False).fit(frame, np.zeros(50))
    report = model.leakage_report()
    assert report.dataset["max_loss"] == 0.0
    assert any("standard error of at least infinity" in line for line in report.findings)
    assert report.facts["state"] == "nothing"


# The guarantee


@pytest.fixture
def bounded(rng):
    X = rng.normal(size=(50, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    return X, rng.random(50) < 0.5


OPTIONS = {"alpha": 0.1, "fit_intercept": False, "data_norm": 1.0, "public": "n_samples"}
PROMISES = {**OPTIONS, "classes": [False, True], "public": ("n_samples", "sample_weight")}


def _guarantee(model):
    return model.leakage_report().differential_privacy


def test_the_guarantee_and_its_numbers(bounded):
    model = PrivateLogisticRegression(0.3, **PROMISES).fit(*bounded)
    report = model.leakage_report()
    guarantee = report.differential_privacy
    assert guarantee.holds
    assert guarantee.exact
    assert guarantee.reasons == ()
    sensitivity = 2.0 * 1.0 * 1.0 / (50 * 0.1)
    assert guarantee.sensitivity == pytest.approx(sensitivity, rel=1e-6)
    assert guarantee.sensitivity >= sensitivity
    mu = guarantee.mu
    assert mu == pytest.approx(sensitivity / 0.3, rel=1e-6)
    epsilon, delta = guarantee.epsilon, guarantee.delta
    gaussian = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert gaussian == pytest.approx(delta, rel=1e-6)
    # Rounding both vectors to the grid moves them at most a step times the root of 3 apart.
    step = model.noise_step_
    tolerance = 2.0 * model.tol / 0.1  # of the solver, on either side
    assert guarantee.sensitivity == pytest.approx(
        sensitivity + tolerance + np.sqrt(3.0) * step, rel=1e-12
    )
    assert guarantee.rho == pytest.approx(mu**2 / 2.0, rel=1e-12)
    assert f"({epsilon:.4g}, {delta:g})" in report.findings[-1]
    stated = model.release().provenance_["differential_privacy"]
    assert (stated["epsilon"], stated["delta"], stated["rho"]) == (epsilon, delta, guarantee.rho)
    assert "one row of the table that the model received" in stated["about"]


@pytest.mark.parametrize("weighted", [False, True])
def test_no_replacement_moves_the_minimizer_by_more(bounded, rng, weighted):
    X, y = bounded
    weights = rng.integers(1, 6, size=50).astype(float) if weighted else np.ones(50)
    model = PrivateLogisticRegression(0.3, **PROMISES).fit(X, y, sample_weight=weights)
    sensitivity = _guarantee(model).sensitivity
    if weighted:
        assert sensitivity == pytest.approx(2.0 * weights.max() / (weights.sum() * 0.1), rel=1e-6)
    exact = PrivateLogisticRegression(0, **OPTIONS)
    base = exact.fit(X, y, sample_weight=weights).coef_.copy()
    largest, heaviest = 0.0, int(weights.argmax())
    for i in (heaviest, 0, 1, 2):
        direction = base[0] / np.linalg.norm(base)
        for record in (direction, -direction, *rng.normal(size=(3, 3))):
            for label in (False, True):
                changed, target = X.copy(), y.copy()
                changed[i], target[i] = record / np.linalg.norm(record), label
                moved = exact.fit(changed, target, sample_weight=weights).coef_
                largest = max(largest, np.linalg.norm(moved - base))
    assert 0.1 * sensitivity < largest <= sensitivity


@pytest.mark.parametrize(
    "cls, options, reason",
    [
        (PrivateLinearRegression, {}, "the squared loss has no bounded derivative"),
        (PrivatePoissonRegressor, {}, "the poisson loss has no bounded derivative"),
        (PrivateLogisticRegression, {"data_norm": None}, "no bound on the norm of a record"),
        (PrivateLogisticRegression, {"fit_intercept": True}, "the intercept is not penalized"),
        (PrivateLogisticRegression, {"alpha": 0.0}, "there is no penalty (`alpha=0`)"),
        (PrivateLogisticRegression, {"reweighting": "irfil"}, "the reweighting makes every record"),
        (PrivateLogisticRegression, {"reweighting": "total"}, "the reweighting makes every record"),
        (PrivateLogisticRegression, {"noise_scale": 0.0}, "no noise was added"),
        (
            PrivateLogisticRegression,
            {"random_state": 0},
            "the noise came from a seed or a generator",
        ),
        (PrivateLogisticRegression, {"classes": None}, "the classes were read off the labels"),
        (
            PrivateLogisticRegression,
            {"public": ()},
            "number of records is not said to be",
        ),
    ],
    ids=str,
)
def test_no_guarantee_and_why(bounded, cls, options, reason):
    made = {"noise_scale": 0.3, **PROMISES, "reweighting__max_iter": 100, **options}
    if cls is not PrivateLogisticRegression:
        del made["classes"]
    model = cls(**flat(**made))
    report = model.fit(*bounded).leakage_report()
    guarantee = report.differential_privacy
    assert not guarantee.holds
    assert len(guarantee.reasons) == 1
    assert reason in guarantee.reasons[0]
    assert np.isnan([guarantee.mu, guarantee.epsilon, guarantee.sensitivity]).all()
    assert reason in report.findings[-1]


def test_a_generator_is_a_seed(bounded):
    model = PrivateLogisticRegression(0.3, **PROMISES, random_state=np.random.default_rng(0))
    reasons = _guarantee(model.fit(*bounded)).reasons
    assert [reason[:45] for reason in reasons] == ["the noise came from a seed or a generator (`r"]


def test_all_reasons_at_once(bounded):
    model = PrivateLinearRegression(0, alpha=0, random_state=3).fit(*bounded)
    assert len(_guarantee(model).reasons) == 7


def test_weights_are_public_by_statement_or_there_is_no_guarantee(bounded, rng):
    weights = rng.uniform(0.5, 2.0, 50)
    silent = {**PROMISES, "public": "n_samples"}
    model = PrivateLogisticRegression(0.3, **silent).fit(*bounded, sample_weight=weights)
    assert [reason[:18] for reason in _guarantee(model).reasons] == ["the sample weights"]
    # That weights are equal is a function of them too.
    assert not _guarantee(model.fit(*bounded, sample_weight=np.full(50, 3.0))).holds
    assert _guarantee(model.fit(*bounded)).holds
    stated = PrivateLogisticRegression(0.3, **PROMISES).fit(*bounded, sample_weight=weights)
    assert _guarantee(stated).holds


def test_a_guarantee_about_sparse_records(bounded):
    X, y = bounded
    guarantee = _guarantee(PrivateLogisticRegression(0.3, **PROMISES).fit(sparse.csr_array(X), y))
    assert guarantee == _guarantee(PrivateLogisticRegression(0.3, **PROMISES).fit(X, y))
    assert isinstance(guarantee, DifferentialPrivacy)


def test_no_guarantee_without_a_minimizer(rng):
    X = rng.normal(size=(60, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    y = X[:, 0] + 0.2 * rng.normal(size=60) > 0
    params = {**PROMISES, "alpha": 1e-3}
    with pytest.warns(ConvergenceWarning):
        stopped = PrivateLogisticRegression(max_iter=1, **params).fit(X, y)
    guarantee = stopped.leakage_report().differential_privacy
    assert not guarantee.holds
    assert any("did not reach the minimizer" in reason for reason in guarantee.reasons)
    report = stopped.leakage_report()
    assert report.facts["state"] == "not_converged"
    assert not report.dataset["converged"]
    assert "nan" not in report.to_text(full=True).lower().replace("unan", "")
    assert report.to_text(full=True).index("did not converge") < report.to_text(full=True).index(
        "Assumptions"
    )
    assert report.to_html().index("did not converge") < report.to_html().index("<dl")
    assert report.to_dict()["dataset"]["max_loss"] is None
    for table in (report.records, report.features):
        assert table.filter(regex="loss|standard_error").isna().all(axis=None)
    for per in ("record", "feature", "dataset"):
        assert np.isnan(stopped.fisher_information_loss(per=per)).all()
    assert stopped.fisher_information_loss(per="group", groups=y).isna().all()
    with pytest.raises(NoGuaranteeError, match="did not reach the minimizer"):
        stopped.release(require_guarantee=True)
    with (
        pytest.raises(ValueError, match="The fit did not converge, and a noise goal needs"),
        pytest.warns(ConvergenceWarning),
    ):
        PrivateLogisticRegression(MaxLeakage(0.5), max_iter=1, **params).fit(X, y)
    ledger = LeakageLedger(":memory:")
    with (
        pytest.raises(ValueError, match="the ledger takes no release of unknown leakage"),
        pytest.warns(ConvergenceWarning),
    ):
        PrivateLogisticRegression(max_iter=1, ledger=ledger, **params).fit(X, y)
    assert ledger.datasets() == []
    assert PrivateLogisticRegression(**params).fit(X, y).leakage_report().differential_privacy.holds


def test_the_median_counts_people(rng):
    X, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    weights = np.array([3.0, 1.0, 1.0, 2.0, 0.0, 1.0, 5.0])
    model = PrivateLinearRegression().fit(X, y, sample_weight=weights)
    expected = np.median(model.fisher_information_loss_[weights > 0.0])
    assert model.leakage_report().dataset["median_loss"] == pytest.approx(expected, rel=1e-9)
