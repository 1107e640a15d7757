"""Reports about the raw columns of a pipeline: what is first, who is named, and one person."""

import json

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

from skleak.exceptions import CostWarning
from skleak.inspection import attribute_leakage, leakage_report
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression


@pytest.fixture
def clinic(rng):
    """Raw records of 600 patients, four of whom have a rare diagnosis; a target; who they are."""
    n = 600
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n),
            "ward": rng.choice(["north", "south", "west"], n),
            "diagnosis": 0,
        },
        index=[f"patient {i}" for i in range(n)],
    )
    carriers = X.index[[3, 77, 205, 590]]
    X.loc[carriers, "diagnosis"] = 1
    y = (0.02 * X["age"] + 2.0 * X["diagnosis"] + rng.normal(size=n)).to_numpy()
    return X, y, set(carriers)


def _pipeline(model):
    encoder = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"]), remainder="passthrough"
    )
    return make_pipeline(encoder, model)


@pytest.mark.slow
def test_the_table_is_that_of_attribute_leakage(clinic):
    X, y, _ = clinic
    for model, target in (
        (PrivateLinearRegression(0.1, alpha=1e-3), y),
        (PrivateLogisticRegression(0.2, alpha=1e-2), y > 1.0),
    ):
        pipeline = _pipeline(model).fit(X[::4], target[::4])
        leakage = attribute_leakage(pipeline, X[::4], target[::4])
        report = leakage_report(pipeline, X[::4], target[::4], groups="ward")
        assert report.features["advantage_any_prior"].is_monotonic_decreasing
        for name, cells in leakage.groupby("column"):
            row, worst = report.features.loc[name], cells.loc[cells["distance"].idxmax()]
            assert row["most_exposed_record"] == worst["record"]
            named = {"advantage_any_prior": "gain", "found_at_1pct": "true_positives_at_1pct"}
            for own in ("distance", "success_even_odds", *named):
                assert row[own] == pytest.approx(worst[named.get(own, own)])
            assert row["kind"] == worst["kind"]
        label = X.index[8]
        person, own = report.person(label), leakage[leakage["record"] == label]
        own = own.set_index("column")["gain"]
        assert person.columns["advantage_any_prior"].to_dict() == pytest.approx(own.to_dict())
        mu = model.individual_privacy_.loc[2, "mu"]  # the model saw no labels
        assert person.membership["distance"].tolist() == [pytest.approx(mu)]
        assert set(report.groups.index) == set(X["ward"])


@pytest.mark.slow
def test_carriers_of_a_rare_value_are_named_everywhere(clinic):
    X, y, carriers = clinic
    model = PrivateLinearRegression(0.02, alpha=1e-3, private_target=False)
    report = leakage_report(_pipeline(model).fit(X, y), X, y)
    answer, found = report.facts["most"], report.facts["carriers"][0]
    assert answer["column"] == found["column"] == report.features.index[0] == "diagnosis"
    assert set(found["records"]) == carriers
    assert answer["advantage_any_prior"] > 0.99
    loaded = json.loads(report.to_json())
    assert {row["record"] for row in loaded["carriers"]} == carriers
    for form in (" ".join(report.lead), report.to_html(), report.to_text(full=True)):
        for label in carriers:
            assert label in " ".join(form.split())
    assert report.records.index.equals(X.index)


@pytest.mark.slow
def test_what_tells_little_is_reported_with_its_figure(clinic):
    X, y, _ = clinic
    report = leakage_report(_pipeline(PrivateLinearRegression(30.0)).fit(X, y), X, y)
    assert report.facts["above"] == []
    assert (
        report.facts["most"]["advantage_any_prior"] == report.features["advantage_any_prior"].max()
    )
    assert report.features["advantage_any_prior"].max() <= report.facts["limit"]
    assert not report.carriers.size


@pytest.mark.slow
def test_shares_removed_are_those_of_a_linear_release(clinic):
    """With a linear model and a public target, information about age is an average of squares."""
    X, y, _ = clinic
    pipeline = _pipeline(PrivateLinearRegression(0.05)).fit(X, y)
    row = leakage_report(pipeline, X, y, ["age"]).features.loc["age"]
    place = X.index.get_loc(row["most_exposed_record"])
    sd, squares = X["age"].std(ddof=0), []
    rng = np.random.default_rng(0)
    for age in rng.normal(X["age"].mean(), sd, 30):
        ends = []
        for step in (-0.1, 0.1):
            changed = X.copy()
            changed.iloc[place, 0] = age + step
            encoded = pipeline[:-1].transform(changed)
            twin = PrivateLinearRegression(0.0).fit(encoded, y)
            ends.append(twin._confidential_state().factor.coefficients)
        squares.append(np.sum((ends[1] - ends[0]) ** 2) / 0.2**2 / 0.05**2)
    error = 4.0 * np.std(squares) / np.sqrt(len(squares))
    share = row["share_removed"]
    # Of the two records of the largest local loss the larger average counts.
    assert share / (1.0 - share) >= (np.mean(squares) - error) * sd**2
    left = row["van_trees_error"] ** 2
    assert 1.0 - left / sd**2 == pytest.approx(share)
    assert row["van_trees_error"] < sd


@pytest.mark.slow
def test_labels_that_are_unknown_or_occur_twice(clinic):
    X, y, _ = clinic
    X = X[:40].copy()
    X.index = ["a", "b", *X.index[:37], "a"]
    report = leakage_report(_pipeline(PrivateLinearRegression(0.1)).fit(X, y[:40]), X, y[:40])
    twice = report.person("a")
    assert sorted(twice.membership.index) == [0, 39]
    assert len(twice.columns) == 2 * len(report.features)
    for form in (twice.to_html(), twice.to_text(full=True), twice.to_json()):
        assert "a" in form
    for wrong in ("nobody", 3, ("a", "b"), [1]):
        with pytest.raises(KeyError, match="No record is labeled"):
            report.person(wrong)


@pytest.mark.slow
def test_some_records_weights_and_noise_without_an_exact_answer(clinic):
    X, y, _ = clinic
    X, y = X[:60], y[:60]
    weight = np.ones(60)
    weight[5] = 0.0
    pipeline = _pipeline(PrivateLinearRegression(0.1))
    pipeline.fit(X, y, privatelinearregression__sample_weight=weight)
    some = leakage_report(pipeline, X, y, sample_weight=weight, records=[5, 3])
    assert list(some.records.index) == ["patient 5", "patient 3"]
    assert some.person("patient 5").columns["advantage_any_prior"].max() == 0.0
    assert (some.features["most_exposed_record"] == "patient 3").all()
    shaped = _pipeline(PrivateLinearRegression(0.1, noise_covariance="curvature")).fit(X, y)
    features = leakage_report(shaped, X, y).features
    assert not features["exact"].any()
    assert features.loc[["ward", "diagnosis", "age"], "note"].str.contains("covariance").all()
    assert features.loc["age", "advantage_any_prior"] > 0.0


@pytest.mark.slow
def test_the_model_reports_the_same_distances_by_its_own_labels(clinic):
    X, y, carriers = clinic
    X = X.assign(ward=(X["ward"] == "west").astype(float))
    for model, target in (
        (PrivateLinearRegression(0.02, alpha=1e-3), y),
        (PrivateLogisticRegression(0.05, alpha=1e-3), y > 1.0),
    ):
        report = model.fit(X, target).leakage_report()
        assert set(report.carriers.loc[report.carriers["feature"] == "diagnosis", "record"]) == (
            carriers
        )
        label = "patient 77"
        row = report.person(label).columns.loc["diagnosis"]
        other = X.copy()
        other.loc[label, "diagnosis"] = 0
        quiet = type(model)(0.0, alpha=1e-3, tol=1e-12)
        ends = [
            quiet.fit(each, target)._confidential_state().factor.coefficients for each in (X, other)
        ]
        distance = np.linalg.norm(ends[1] - ends[0]) / model.noise_scale
        assert row["distance"] == pytest.approx(distance, rel=1e-6)
        assert row["found_at_1pct"] == pytest.approx(norm.cdf(norm.ppf(0.01) + distance), rel=1e-5)


@pytest.mark.slow
def test_of_too_many_records_the_most_exposed_and_some_others_are_reported(clinic, monkeypatch):
    X, y, _ = clinic
    pipeline = _pipeline(PrivateLogisticRegression(0.2, alpha=1e-2)).fit(X, y > 1.0)
    monkeypatch.setattr("skleak.inspection._pipeline._MOST_WORK", 1.0)
    some = leakage_report(pipeline, X, y > 1.0, columns=["age", "ward"])
    assert 90 <= len(some.records) <= 100
    loss = pd.Series(pipeline[-1].fisher_information_loss_, index=X.index)
    assert set(loss.nlargest(50).index) <= set(some.records.index)
    assert any(f"of {len(X)} records" in line for line in some.assumptions)
    everyone = leakage_report(pipeline, X, y > 1.0, columns="age", records=np.arange(len(X)))
    assert len(everyone.records) == len(X)
    with pytest.warns(CostWarning, match=f"for 100 of {len(X)} records"):
        table = attribute_leakage(pipeline, X, y > 1.0, "ward")
    assert set(loss.nlargest(50).index) <= set(table["record"])
    assert table.attrs["records"] == "some"
    assert len(attribute_leakage(pipeline, X, y > 1.0, "ward", records=slice(None))) == len(X)


@pytest.mark.slow
def test_of_costly_preprocessing_few_records_are_refitted_and_said_so(clinic, monkeypatch):
    X, y = clinic[0][:60], clinic[1][:60]
    X = X.assign(age=X["age"].round(-1))
    bins = KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform")
    columns = make_column_transformer((bins, ["age"]), ("passthrough", ["diagnosis"]))
    pipeline = make_pipeline(columns, PrivateLinearRegression(0.1)).fit(X, y)
    monkeypatch.setattr("skleak.inspection._leakage._MOST_SECONDS", 1e-9)
    with pytest.warns(CostWarning, match=f"for 2 of {len(X)} records"):
        report = leakage_report(pipeline, X, y, ["age"], refit_preprocessing=True)
    loss = pipeline[-1].fisher_information_loss_
    assert report.person(X.index[np.argmax(loss)]).columns["distance"].notna().iloc[0]
    assert (report.persons[0].distance >= 0.0).sum() == 2
    assert any("few records alone" in line for line in report.assumptions)
    # Nobody is said to be found whose models were not compared.
    rare = report.carriers
    (told,) = report.facts["carriers"]
    assert told["n_carriers"] == rare["distance"].notna().sum()
    assert told["n_unmeasured"] == rare["distance"].isna().sum()
    with pytest.warns(CostWarning, match="refitted for 3 records"):
        some = attribute_leakage(pipeline, X, y, "age", records=[1, 2, 3], refit_preprocessing=True)
    assert some["distance"].notna().all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    mostly_slow(
        [PrivateLinearRegression(0.1, alpha=1e-3), PrivateLogisticRegression(0.2, alpha=1e-2)], 0
    ),
)
def test_a_report_of_what_predictions_tell(clinic, model):
    X, y = clinic[0][::4], clinic[1][::4]
    target = y > 1.0 if isinstance(model, PrivateLogisticRegression) else y
    pipeline, queries = _pipeline(model).fit(X, target), X.iloc[[3, 50]]
    whole = leakage_report(pipeline, X, target)
    seen = leakage_report(pipeline, X, target, queries=queries)
    leakage = attribute_leakage(pipeline, X, target, queries=queries)
    for name, cells in leakage.groupby("column"):
        assert seen.features.loc[name, "distance"] == pytest.approx(cells["distance"].max())
    losses = ["fisher_information_loss", "mu"]
    assert (seen.records[losses] <= whole.records[losses] * (1.0 + 1e-9)).all(axis=None)
    apart = whole.features["distance"].loc[seen.features.index]
    assert (seen.features["distance"] <= apart).all()
    assert seen.dataset["joint_loss"] < whole.dataset["joint_loss"]
    alone = pipeline[-1].individual_privacy(queries=pipeline[:-1].transform(queries))
    assert seen.records["mu"].to_numpy() == pytest.approx(alone["mu"].to_numpy(), rel=1e-9)
    assert any("sees predictions" in line for line in seen.assumptions)
    # Whoever asks more learns more, and nobody more than from the model.
    more = leakage_report(pipeline, X, target, queries=X).features["distance"]
    assert (seen.features["distance"] <= more.loc[seen.features.index] * (1.0 + 1e-9)).all()
    assert (more <= whole.features["distance"].loc[more.index] * (1.0 + 1e-9)).all()
