"""What the model adds to imputation, and whom attacks find at few false alarms."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skleak.attacks import CombinedAttributeInference, ImputationAttack
from skleak.audit import LeakageAuditor
from skleak.audit.tables._rates import Found, found_columns
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics import binomial_interval
from skleak.metrics.verdicts import INCOMPARABLE

ADDED = ["adds_over_imputation", "adds_over_imputation_low", "adds_over_imputation_high"]
TPR = ["tpr_at_1pct_fpr", "tpr_at_1pct_fpr_low", "tpr_at_1pct_fpr_high"]


@pytest.fixture(scope="module")
def people():
    """Three hundred people; one in twelve carries what a model is asked about."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "bmi", "dose"])
    X["gene"] = np.where(X["age"] + 2.0 * rng.normal(size=300) > 3.0, "rare", "usual")
    return X, X["bmi"] + 3.0 * (X["gene"] == "rare") + 0.5 * rng.normal(size=300)


def _encoded(model):
    return make_pipeline(FunctionTransformer(_numbers), model)


def _numbers(table):
    return table.assign(gene=table["gene"] == "rare").astype(float)


def _rows(auditor):
    return auditor.results_.set_index(["noise_scale", "attack"])


@pytest.mark.slow
def test_what_the_model_adds_is_paired_with_imputation(people):
    X, y = people
    model = _encoded(RandomForestRegressor(20, random_state=0))
    table = _rows(LeakageAuditor(model, "gene").fit(X, y)).loc[0.0]
    own, imputation = table.loc["combined"], table.loc["imputation", "success"]
    fitted = model.fit(X, y)
    right = CombinedAttributeInference(model, "gene").fit(X, y).predict(fitted) == X["gene"]
    alone = ImputationAttack("gene").fit(X, y).predict() == X["gene"]
    assert own["success"] == right.mean() > imputation == own["imputation"] == alone.mean()
    more = right.to_numpy(float) - alone.to_numpy(float)
    assert own[ADDED[0]] == pytest.approx(more.mean())
    # No narrower than three records that differ make it.
    half = max(stats.t.isf(0.025, 299) * stats.sem(more), 0.01)
    ends = more.mean() - half, more.mean() + half
    np.testing.assert_allclose(own[ADDED[1:]].astype(float), ends)
    rest = 1.0 - imputation
    assert own["advantage_over_imputation_low"] == pytest.approx(own[ADDED[1]] / rest)
    assert table.drop(index="combined")[ADDED].isna().all(axis=None)


@pytest.mark.slow
def test_secrets_that_are_drawn_leave_it_to_those_that_are(people):
    X, y = people
    model = _encoded(PrivateLinearRegression())
    settings = {"noise_scales": [0.05, 50.0], "n_releases": 12}
    auditor = LeakageAuditor(model, "gene", **settings).fit(X, y)
    table = _rows(auditor)
    assert auditor.report_.settings["secrets"] == "drawn"
    own = table.xs("combined", level="attack")
    assert (own["verdict"] == INCOMPARABLE).all()
    assert own["n_games"].tolist() == [5 * 300] * 2
    alone = ImputationAttack("gene").fit(X, y).predict() == X["gene"]
    np.testing.assert_allclose(own["imputation"], alone.mean())
    np.testing.assert_allclose(own[ADDED[0]], own["success"] - alone.mean())
    # Noise that hides the model leaves what is known without it.
    assert own.loc[50.0, ADDED[1]] <= 0.0 <= own.loc[50.0, ADDED[2]]
    assert (own[ADDED[1]] < own[ADDED[0]]).all()
    names = ["prior", "imputation", "white_box", "black_box"]
    before = LeakageAuditor(model, "gene", attacks=names, **settings).fit(X, y)
    pd.testing.assert_frame_equal(
        auditor.records_.drop(columns="success_combined"), before.records_
    )
    for noise in settings["noise_scales"]:
        facts = [report.decision() for report in (auditor.report_, before.report_)]
        assert facts[0] == facts[1], noise


@pytest.mark.slow
def test_a_model_that_drops_the_column_adds_nothing(people):
    X, y = people
    blind = make_pipeline(FunctionTransformer(_without), RandomForestRegressor(10, random_state=0))
    own = _rows(LeakageAuditor(blind, "gene").fit(X, y)).loc[(0.0, "combined")]
    assert own[ADDED[1]] <= 0.0 <= own[ADDED[2]]


def _without(table):
    return table.drop(columns="gene")


@pytest.mark.slow
def test_of_numbers_it_adds_shares_of_the_error(people):
    X, y = people
    model = PrivateLinearRegression()
    settings = {"noise_scales": [0.05], "n_releases": 3, "attacks": ["imputation", "combined"]}
    table = _rows(LeakageAuditor(model, "age", **settings).fit(X.drop(columns="gene"), y)).loc[0.05]
    gained = table.loc["combined", "success"] - table.loc["imputation", "success"]
    assert table.loc["combined", ADDED[0]] == pytest.approx(gained)
    assert table.loc["combined", "verdict"] == INCOMPARABLE


@pytest.mark.parametrize("secrets", mostly_slow(["drawn", "actual"]))
def test_carriers_of_a_value_are_counted(people, secrets):
    X, y = people
    model = _encoded(PrivateLinearRegression())
    settings = {"noise_scales": [0.001], "n_releases": 4, "secrets": secrets}
    table = _rows(LeakageAuditor(model, "gene", **settings).fit(X, y)).loc[0.001]
    assert set(table["rare_value"]) == {"rare"}
    # The white box is certain; a prior that is all but the same for all finds nobody.
    assert table.loc["white_box", TPR[0]] == table.loc["white_box", TPR[2]] == 1.0
    assert table.loc["white_box", TPR[1]] > 0.8
    assert table.loc["prior", TPR[0]] < 0.05
    ordered = table[TPR].astype(float)
    assert (ordered[TPR[1]] <= ordered[TPR[0]]).all()
    assert (ordered[TPR[0]] <= ordered[TPR[2]]).all()
    auditor = LeakageAuditor(model, "gene", rare_value="usual", **settings)
    assert set(auditor.fit(X, y).results_["rare_value"]) == {"usual"}
    with pytest.raises(ValueError, match="rare_value"):
        auditor.set_params(rare_value="other").fit(X, y)


@pytest.mark.slow
def test_values_of_two_carriers_are_not_counted(people):
    X, y = people
    X = X.assign(gene=np.where(np.arange(300) < 2, "single", X["gene"]))
    table = LeakageAuditor(_encoded(Ridge()), "gene", noise_scales=0.1, n_releases=2).fit(X, y)
    assert set(table.results_["rare_value"]) == {"rare"}


def test_thresholds_of_releases_by_a_loop(rng):
    odds, carries = rng.normal(size=(6, 400)).round(1), rng.random((6, 400)) < 0.2
    odds[carries] += 1.0
    found = Found(400)
    for half in (slice(0, 2), slice(2, 6)):
        found.count(odds[half], carries[half])
    outcome = found.outcome()
    hits = np.zeros(400)
    for own, who in zip(odds, carries, strict=True):
        others = np.sort(own[~who])[::-1]
        threshold = others[int(0.01 * len(others))]
        assert np.mean(own[~who] > threshold) <= 0.01
        hits += who & (own > threshold)
    np.testing.assert_array_equal(outcome["found"], hits)
    np.testing.assert_array_equal(outcome["carried"], carries.sum(axis=0))
    exact = binomial_interval(hits.sum(), carries.sum(), 0.95)
    np.testing.assert_allclose([*found_columns(outcome, 0.95).values()], exact)
    few = Found(50)
    few.count(odds[:, :50], carries[:, :50])
    assert few.outcome() == {}
    assert np.isnan([*found_columns({}, 0.95).values()]).all()


@pytest.mark.slow
def test_intervals_hold_what_gaussian_scores_find(rng):
    """Scores N(2, 1) of 40 carriers, N(0, 1) of 4,000 others, in one release or in several."""
    truth = stats.norm.sf(stats.norm.isf(0.01) - 2.0)
    carries = np.zeros((1, 4040), dtype=bool)
    carries[0, :40] = True
    for n_releases in (1, 5):
        missed = 0
        for _ in range(60):
            person = rng.normal(size=(1, 4040)) * np.sqrt(0.5)
            odds = person + rng.normal(size=(n_releases, 4040)) * np.sqrt(0.5) + 2.0 * carries
            found = Found(4040)
            found.count(odds, np.repeat(carries, n_releases, axis=0))
            own = found_columns(found.outcome() | {"shares": np.zeros(1)}, 0.95)
            missed += not own[TPR[1]] <= truth <= own[TPR[2]]
        assert missed <= stats.binom.isf(1e-3, 60, 0.05)
