"""The auditor as a whole: its tables for every kind of secret, model and option."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.accounting import LeakageLedger
from skleak.attacks import PriorAttack, WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor
from skleak.audit.games._secret import BOUNDS
from skleak.channels import GaussianChannel
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.reweighting import total_jacobian
from skleak.linear_model import (
    IRFIL,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage
from skleak.metrics.verdicts import CONSISTENT, EXCEEDED, INCOMPARABLE, VACUOUS
from skleak.report import AuditReport

FAST = ["bayes"]
SCORES = ["success", "success_low", "success_high", "baseline", "advantage", "advantage_low"]
SCORES += ["advantage_high", "imputation", "advantage_over_imputation"]
SCORES += ["advantage_over_imputation_low", "advantage_over_imputation_high", "verdict"]
SCORES += ["utility", "n_games"]
ERRORS = ["mse", "mse_low", "mse_high", "variance", "squared_bias", "mse_over_bound"]
ERRORS += ["mse_over_bound_low", "mse_over_bound_high", "cramer_rao", "cramer_rao_mean"]


def make_table(rng, n=24):
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n),
            "gene": np.r_[
                ["A", "B", "C"] * 2, rng.choice(["A", "B", "C"], n - 6, p=[0.5, 0.3, 0.2])
            ],
            "sex": np.r_[["f", "m"], rng.choice(["f", "m"], n - 2)],
        }
    )
    score = (X["age"] - 50) / 10 + (X["gene"] == "A") - (X["sex"] == "f")
    return X, (score + rng.normal(0.0, 0.7, n)).to_numpy()


def make_pipe(model, one_hot=True):
    options = {} if one_hot else {"drop": "first"}
    encode = make_column_transformer(
        (OneHotEncoder(**options), ["gene"]),
        (OneHotEncoder(drop="if_binary"), ["sex"]),
        (StandardScaler(), ["age"]),
    )
    return make_pipeline(encode, model)


def audit(X, y, attribute="gene", model=None, **options):
    options = {"noise_scales": [0.02, 0.3], "n_releases": 6, "bounds": FAST} | options
    options = {"attacks": ["prior", "white_box"]} | options
    model = make_pipe(PrivateLinearRegression(alpha=0.1)) if model is None else model
    return LeakageAuditor(model, attribute, random_state=3, **options).fit(X, y)


def expect_complete(table):
    """Nothing is missing but what is told of a hundred people and more, or with a verdict."""
    table = table.drop(columns=["verdict", "detectable_excess", "rare_value"])
    assert not table.loc[:, ~table.columns.str.startswith("tpr_at_1pct_fpr")].isna().any(axis=None)


def same(first, second):
    tables = [each.results_.drop(columns="rare_value") for each in (first, second)]
    pd.testing.assert_frame_equal(*tables)
    pd.testing.assert_frame_equal(first.records_, second.records_)


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 1))
@pytest.mark.parametrize("attribute", mostly_slow(["gene", "sex"], 0))
def test_tables_of_categories(attribute, secrets, rng):
    X, y = make_table(rng)
    options = {"bounds": "all", "noise_scales": [0.3, 0.0, 0.02], "attacks": "default"}
    auditor = audit(X, y, attribute, secrets=secrets, **options)
    table = auditor.results_
    any_prior = ["distance", "advantage_any_prior", "found_at_1pct", "exposure", "n_above"]
    rare = ["tpr_at_1pct_fpr", "tpr_at_1pct_fpr_low", "tpr_at_1pct_fpr_high", "rare_value"]
    added = [f"adds_over_imputation{end}" for end in ("", "_low", "_high")]
    known = ["noise_scale", "attack", *SCORES, "detectable_excess", *BOUNDS, *rare, *added]
    assert sorted(table.columns) == sorted([*known, *any_prior])
    names = ["prior", "imputation", "white_box", "black_box", "combined"]
    assert list(zip(table.noise_scale, table.attack, strict=True)) == [
        (scale, name) for scale in (0.0, 0.02, 0.3) for name in names
    ]
    words = ("attack", "verdict", "rare_value")
    assert {table[c].dtype.kind for c in table.columns if c not in words} <= {*"fi"}
    assert table["success"].between(table["success_low"], table["success_high"]).all()
    assert table[["success_low", "success_high", "baseline", *BOUNDS]].stack().between(0, 1).all()
    assert (table["baseline"] == auditor.attacks_["white_box"].prior_.max(axis=1).mean()).all()
    for end in ("", "_low", "_high"):
        success = table[f"success{end}"]
        for name, base in (("advantage", "baseline"), ("advantage_over_imputation", "imputation")):
            expected = (success - table[base]) / (1.0 - table[base])
            # What is stacked is paired with imputation.
            paired = (table["attack"] == "combined") & (name != "advantage") & (end != "")
            found = table[f"{name}{end}"][~paired]
            np.testing.assert_allclose(found, expected[~paired], atol=1e-12)
    assert set(table["verdict"]) <= {CONSISTENT, VACUOUS, INCOMPARABLE}
    more = ["prior", "imputation", "combined", *["black_box"] * (secrets == "actual")]
    assert ((table["verdict"] == INCOMPARABLE) == table["attack"].isin(more)).all()
    others = table[[*BOUNDS][1:]]
    assert (table["bayes"].to_numpy()[:, None] <= others + 1e-9).all(axis=None)
    assert (table["bayes"] >= table["baseline"] - 1e-12).all()
    assert (table[list(BOUNDS)].diff(12).dropna() <= 1e-9).all(axis=None)  # noise protects
    for _, rows in table.groupby("noise_scale"):
        assert (rows[["utility", *BOUNDS]].nunique() == 1).all()
    if secrets == "actual":
        stacked = (
            table["attack"] == "combined"
        )  # on few releases, and on one of those without noise
        assert (table["n_games"][~stacked] == 6 * 24).all()
        assert table["n_games"][stacked].tolist() == [24, 5 * 24, 5 * 24]
        exact = table[table.attack.isin(["prior", "imputation"])]
        assert (exact["success_low"] == exact["success_high"]).all()
        assert (table.success[table.attack == "imputation"] == table.imputation.iloc[0]).all()
    white = table[(table.attack == "white_box") & (table.noise_scale == 0.0)]
    assert white["success"].item() == 1.0
    assert white["verdict"].item() == VACUOUS


@pytest.mark.slow
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
def test_records_of_categories(secrets, rng):
    X, y = make_table(rng)
    auditor = audit(X, y, secrets=secrets, records=[7, 2, 11], attacks="default")
    records = auditor.records_
    columns = ["noise_scale", "record", "label", "prior", "eta", "bayes", "tightest_bound"]
    attacks = ["prior", "imputation", "white_box", "black_box", "combined"]
    columns += [f"success_{name}" for name in attacks] + ["verdict"] * (secrets == "drawn")
    any_prior = ["distance", "advantage_any_prior", "found_at_1pct", "exposure"]
    assert list(records.columns) == columns + any_prior
    assert records["record"].tolist() == [7, 2, 11] * 2
    assert records["noise_scale"].tolist() == [0.02] * 3 + [0.3] * 3
    means = records.groupby("noise_scale")
    np.testing.assert_allclose(means["bayes"].mean(), auditor.results_["bayes"].unique())
    for name in ("prior", "white_box"):
        own = auditor.results_.query("attack == @name").set_index("noise_scale")["success"]
        np.testing.assert_allclose(means[f"success_{name}"].mean(), own)
    assert records["success_black_box"].isna().all() == (secrets == "drawn")
    np.testing.assert_allclose(records["eta"][:3] * 0.02, records["eta"][3:] * 0.3)


def noiseless_ridge(X, y, alpha):
    """Coefficients and an unpenalized intercept, from normal equations."""
    A = np.column_stack([X, np.ones(len(y))])
    penalty = len(y) * alpha * np.diag(np.r_[np.ones(X.shape[1]), 0.0])
    return np.linalg.solve(A.T @ A + penalty, A.T @ y)


@pytest.mark.slow
@pytest.mark.parametrize("one_hot", mostly_slow([True, False], 1))
def test_bayes_and_eta_by_independent_computation(one_hot, rng):
    X, y = make_table(rng)
    pipe = make_pipe(PrivateLinearRegression(0.05, alpha=0.1, random_state=0), one_hot)
    auditor = audit(X, y, model=pipe, noise_scales=[0.05], bounds="all")
    encode = clone(pipe[0]).fit(X)
    encodings = np.empty((24, 3, 6 + one_hot - 1))
    for i in range(24):
        for m, value in enumerate("ABC"):
            changed = X.copy()
            changed.loc[i, "gene"] = value
            encodings[i, m] = noiseless_ridge(encode.transform(changed), y, 0.1)
    counts = (X["gene"].to_numpy()[:, None] == np.array(["A", "B", "C"])).astype(float)
    # A record's own vote is spread evenly.
    prior = (counts.sum(axis=0) - counts + 1 / 3) / 24
    channel = GaussianChannel(encodings, 0.05, tolerance=1e-4)
    np.testing.assert_allclose(auditor.records_["bayes"], channel.bayes_success(prior), atol=1e-3)
    np.testing.assert_allclose(auditor.records_["prior"], prior.max(axis=1))
    fitted = clone(pipe).fit(X, y)
    eta = fitted[-1].fisher_information_loss(
        features=[0, 1, 2] if one_hot else [0, 1], constrained=one_hot
    )
    np.testing.assert_allclose(auditor.records_["eta"], eta, rtol=1e-7)
    table = channel.advantage_bounds(prior).groupby("bound")["success"].mean()
    for column, name in BOUNDS.items():
        assert auditor.results_[column][0] == pytest.approx(table[name], abs=1e-3)


@pytest.mark.slow
def test_tables_of_numbers(rng):
    X, y = make_table(rng)
    auditor = audit(X, y, "age", noise_scales=[0.001, 0.3], prior="marginal")
    table, records = auditor.results_, auditor.records_
    assert {"noise_scale", "attack", "share_removed", *SCORES, *ERRORS} <= set(table.columns)
    assert auditor.report_.kind == "numeric"
    spread = X["age"].var(ddof=0)
    for end, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
        expected = np.minimum(1.0 - table[f"mse{other}"] / spread, 1.0)
        np.testing.assert_allclose(table[f"success{end}"], expected)
    others = (X["age"].sum() - X["age"]) / 23
    np.testing.assert_allclose(records["prior"], np.tile((others - X["age"]) ** 2, 2))
    assert table["mse"][0] == pytest.approx(((others - X["age"]) ** 2).mean())
    np.testing.assert_allclose(table["mse"], table["variance"] + table["squared_bias"])
    means = records.groupby("noise_scale")
    np.testing.assert_allclose(means["mse_white_box"].mean(), table["mse"][[1, 3]])
    fitted = make_pipe(PrivateLinearRegression(0.001, alpha=0.1)).fit(X, y)
    eta = fitted[-1].fisher_information_loss(features=6 - 2) / X["age"].std(ddof=0)
    np.testing.assert_allclose(records["eta"][:24], eta, rtol=1e-5)
    np.testing.assert_allclose(records["cramer_rao"], records["eta"] ** -2.0)
    assert table["mse"][1] < 0.01 * spread
    assert table["verdict"][1] == CONSISTENT


@pytest.mark.slow
def test_tables_of_whole_records(rng):
    X = rng.normal(size=(20, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=20)
    model = PrivateLinearRegression(alpha=0.1)
    auditor = audit(X, y, None, model, noise_scales=[1e-6, 1e-2], attacks="default")
    table, records = auditor.results_, auditor.records_
    assert {"noise_scale", "attack", "share_removed", *SCORES, *ERRORS} <= set(table.columns)
    assert set(table["attack"]) == {"informed"}
    assert auditor.report_.attribute is None
    assert table["imputation"].isna().all()
    fitted = PrivateLinearRegression(1e-2, alpha=0.1).fit(X, y)
    np.testing.assert_allclose(records["eta"][20:], fitted.fisher_information_loss(), rtol=1e-7)
    fitted.set_params(private_target=False).fit(X, y)
    state = fitted._confidential_state()
    jacobian = state.factor.jacobian(X, y)[:, :, :3]
    information = np.swapaxes(jacobian, 1, 2) @ jacobian / 1e-2**2
    # Errors in variances of the columns.
    bound = (np.linalg.inv(information).diagonal(axis1=1, axis2=2) / X.var(axis=0)).mean(axis=1)
    np.testing.assert_allclose(records["cramer_rao"][20:], bound, rtol=1e-7)
    np.testing.assert_allclose(table["cramer_rao"][1], np.median(records["cramer_rao"][20:]))
    others = (X.sum(axis=0) - X) / 19
    errors = (others - X) ** 2 / X.var(axis=0)
    np.testing.assert_allclose(records["prior"][:20], errors.mean(axis=1))
    assert table["success"][0] > 0.999


CODES = {
    "strings": (["no", "yes"], "str"),
    "booleans": ([False, True], bool),
    "one and two": ([1, 2], int),
    "objects": (["no", "yes"], object),
    "categories": (["no", "yes"], "category"),
    "floats": ([-1.5, 0.5], float),
}


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 1))
def test_coding_of_the_secret_changes_nothing(secrets, rng):
    codes, ages = rng.integers(0, 2, 20), rng.normal(size=20)
    y = codes + ages + rng.normal(size=20)
    encode = make_column_transformer((OneHotEncoder(), ["s"]), ("passthrough", ["age"]))
    tables = {}
    for name, (values, dtype) in CODES.items():
        column = pd.Series(np.array(values)[codes]).astype(dtype)
        X = pd.DataFrame({"s": column, "age": ages})
        pipe = make_pipeline(encode, PrivateLinearRegression())
        tables[name] = audit(X, y, "s", pipe, secrets=secrets, attacks=["white_box", "black_box"])
    for other in tables.values():
        same(tables["strings"], other)


@pytest.mark.slow
def test_coding_of_the_labels_changes_nothing(rng):
    X, y = make_table(rng)
    labels = (y > np.median(y)).astype(int)
    pipe = make_pipe(PrivateLogisticRegression(alpha=0.1))
    first = audit(X, labels, model=pipe)
    assert first.report_.settings["utility_name"] == "accuracy"
    for values in (["no", "yes"], [False, True], [1, 2]):
        same(first, audit(X, np.array(values)[labels], model=pipe))
    same(first, audit(X, pd.Series(np.array(["no", "yes"])[labels], dtype="category"), model=pipe))


@pytest.mark.slow
def test_noise_scales_in_any_form(rng):
    X, y = make_table(rng, n=10)
    for noise in (np.float64(0.1), 0.1, [0.1], (0.1, 0.1), pd.Series([0.1])):
        table = audit(X, y, noise_scales=noise, attacks="prior").results_
        assert table["noise_scale"].tolist() == [0.1]


@pytest.mark.slow
def test_noise_of_the_estimator(rng):
    X, y = make_table(rng)
    model = make_pipe(PrivateLinearRegression(0.07, alpha=0.1))
    own = audit(X, y, model=model, noise_scales=None)
    same(own, audit(X, y, model=model, noise_scales=0.07))
    # A goal with room: no other value of few in one record would move its rung.
    target = make_pipe(PrivateLinearRegression(MaxLeakage(2.0, features=4), alpha=0.1))
    auditor = audit(X, y, model=target, noise_scales=None, attacks="white_box")
    scale = clone(target).fit(X, y)[-1].noise_scale_
    assert auditor.results_["noise_scale"].tolist() == [pytest.approx(scale)]


MODELS = {
    "linear": (Ridge(alpha=0.2 * 18), PrivateLinearRegression(alpha=0.2)),
    "unpenalized": (LinearRegression(), PrivateLinearRegression(alpha=0.0)),
    "logistic": (
        LogisticRegression(C=1.0 / (0.2 * 18), tol=1e-10, max_iter=1000),
        PrivateLogisticRegression(alpha=0.2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(MODELS, 1, 2))
def test_foreign_estimators_are_refitted(name, rng):
    X, y = make_table(rng, n=18)
    if name == "logistic":
        y = np.where(y > np.median(y), "yes", "no")
    foreign, own = MODELS[name]
    options = {"records": [0, 3, 7], "noise_scales": [0.05]}
    first = audit(X, y, model=make_pipe(foreign, False), **options)
    second = audit(X, y, model=make_pipe(own, False), **options)
    assert first.records_["eta"].isna().all()
    np.testing.assert_allclose(first.records_["bayes"], second.records_["bayes"], atol=1e-5)
    np.testing.assert_allclose(first.results_["utility"], second.results_["utility"], atol=1e-5)
    np.testing.assert_allclose(first.results_["success"], second.results_["success"])
    quiet = audit(X, y, model=make_pipe(foreign), records=[0, 3, 7], noise_scales=None)
    assert quiet.results_["noise_scale"].unique().tolist() == [0.0]
    assert quiet.results_.set_index("attack")["success"]["white_box"] == 1.0
    with pytest.raises(AttackNotApplicableError, match="whole records"):
        audit(X[["age"]], y, None, model=foreign)


@pytest.mark.slow
def test_reweighting_is_audited_in_all(rng):
    X, y = make_table(rng)
    model = PrivateLinearRegression(alpha=0.1, reweighting="irfil")
    auditor = audit(X, y, model=make_pipe(model))
    assert auditor.report_.settings["reweighting"] == "irfil"
    fitted = make_pipe(clone(model).set_params(noise_scale=0.02)).fit(X, y)
    eta = fitted[-1].fisher_information_loss(features=[0, 1, 2], constrained=True)
    np.testing.assert_allclose(auditor.records_["eta"][:24], eta, rtol=1e-6)
    fixed = fitted[-1].fisher_information_loss(
        features=[0, 1, 2], constrained=True, conditional=True
    )
    assert np.abs(eta / fixed - 1.0).max() > 0.01  # what the weights reveal is counted
    plain = audit(X, y)
    assert np.abs(auditor.records_["bayes"] - plain.records_["bayes"]).max() > 1e-3


@pytest.mark.slow
def test_cramer_rao_bounds_of_reweighted_models_count_the_weights(rng):
    X, y = make_table(rng)
    model = PrivateLinearRegression(alpha=0.1, reweighting=IRFIL(tol=1e-9, max_iter=100))
    fitted = make_pipe(clone(model).set_params(noise_scale=0.02)).fit(X, y)
    records = audit(X, y, "age", model=make_pipe(model), records=[2, 7]).records_
    eta = fitted[-1].fisher_information_loss(features=4)[[2, 7]] / X["age"].std(ddof=0)
    np.testing.assert_allclose(records["eta"][:2], eta, rtol=1e-6)
    np.testing.assert_allclose(records["cramer_rao"][:2], eta**-2.0, rtol=1e-6)
    table = fitted[:-1].transform(X)
    records = audit(table, y, None, model, attacks="default").records_
    state = fitted[-1]._confidential_state()
    J = total_jacobian(state, np.arange(24))[:, :, :-1] / 0.02
    information = np.swapaxes(J, 1, 2) @ J
    variances = np.linalg.inv(information).diagonal(axis1=1, axis2=2)
    expected = (variances / table.var(axis=0)).mean(axis=1)
    np.testing.assert_allclose(records["eta"][:24], fitted[-1].fisher_information_loss_)
    np.testing.assert_allclose(records["cramer_rao"][:24], expected, rtol=1e-6)


@pytest.mark.slow
def test_counts(rng):
    X, y = make_table(rng)
    y = rng.poisson(np.exp(0.3 * y))
    auditor = audit(X, y, model=make_pipe(PrivatePoissonRegressor(alpha=0.1)), noise_scales=0.01)
    assert auditor.report_.settings["utility_name"] == "D²"
    assert auditor.results_.query("attack == 'white_box'")["success"].item() > 0.8


@pytest.mark.slow
def test_nothing_is_charged_to_a_ledger(tmp_path, rng):
    X, y = make_table(rng)
    ledger = LeakageLedger(tmp_path / "ledger", max_leakage=1e-9, units=1.0)
    before = (tmp_path / "ledger").read_bytes()
    model = PrivateLinearRegression(0.1, alpha=0.1, ledger=ledger)
    audit(X, y, model=make_pipe(model), attacks=["white_box", "black_box", "informed"])
    audit(X, y, model=make_pipe(model), attacks="white_box", refit_preprocessing=True, records=[0])
    assert (tmp_path / "ledger").read_bytes() == before
    assert model.ledger is ledger


@pytest.mark.slow
@pytest.mark.parametrize("n", mostly_slow(range(3, 11), 0, 1, 4))
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
def test_few_records(n, secrets, rng):
    X = np.column_stack([np.r_[0, 1, rng.integers(0, 2, n - 2)], rng.normal(size=n)])
    y = X @ [1.0, 1.0] + rng.normal(size=n)
    model = PrivateLinearRegression(alpha=0.5)
    auditor = audit(X, y, 0, model, secrets=secrets, attacks=["prior", "white_box", "informed"])
    expect_complete(auditor.results_)
    assert EXCEEDED not in set(auditor.results_["verdict"])


@pytest.mark.slow
@pytest.mark.parametrize("n_releases", mostly_slow([1, 2], 0))
def test_few_releases(n_releases, rng):
    X, y = make_table(rng)
    for secrets in ("actual", "drawn"):
        table = audit(X, y, n_releases=n_releases, secrets=secrets).results_
        assert set(table["verdict"]) <= {CONSISTENT, VACUOUS, "not comparable"}
    table = audit(X, y, "age", n_releases=n_releases).results_
    assert EXCEEDED not in set(table["verdict"])


@pytest.mark.slow
def test_values_make_a_number_a_category(rng):
    X, y = make_table(rng)
    X["age"] = X["age"].round(-1)
    values = [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]
    auditor = audit(X, y, "age", values=values, secrets="drawn", prior="uniform")
    assert auditor.report_.kind == "categorical"
    assert auditor.report_.settings["values"] == values
    assert (auditor.results_["baseline"] == 1 / 8).all()
    with pytest.raises(ValueError, match="`values` does not contain"):
        audit(X, y, "age", values=[40.0, 50.0])
    # A value that nobody carries is possible, but hardly probable.
    wider = audit(X, y, "sex", values=["f", "m", "x"], model=_open_pipe())
    assert wider.attacks_["prior"].prior_[:, 2] == pytest.approx(1 / 3 / 24)


def _open_pipe():
    encode = make_column_transformer(
        (OneHotEncoder(categories=[["f", "m", "x"]]), ["sex"]), (StandardScaler(), ["age"])
    )
    return make_pipeline(encode, PrivateLinearRegression(alpha=0.1))


@pytest.mark.slow
def test_targets_in_any_form(rng):
    X, y = make_table(rng)
    mask = np.zeros(24, dtype=bool)
    mask[[2, 5, 6]] = True
    tables = [audit(X, y, records=t) for t in ([2, 5, 6], mask, np.array([2, 5, -18]))]
    for other in tables:
        assert other.records_["record"].tolist() == [2, 5, 6] * 2
        same(tables[0], other)
    assert audit(X, y, records=slice(3, 5)).records_["record"].tolist() == [3, 4] * 2
    everyone = audit(X, y, noise_scales=[0.02, 0.3]).records_
    own = everyone[everyone["record"].isin([2, 5, 6])]
    for column in ("bayes", "eta", "prior"):
        np.testing.assert_allclose(own[column], tables[0].records_[column], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", mostly_slow(["uniform", "marginal", "conditional", [0.2, 0.3, 0.5]], 2, 3)
)
def test_priors(prior, rng):
    X, y = make_table(rng)
    auditor = audit(X, y, prior=prior, secrets="drawn", noise_scales=0.1, attacks="default")
    expected = WhiteBoxAttributeInference(auditor.estimator, "gene", prior=prior).fit(X, y).prior_
    np.testing.assert_allclose(auditor.records_["prior"], expected.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(auditor.attacks_["black_box"].prior_, expected, rtol=1e-12)
    # A secrets that is drawn is guessed by its prior as often as it is probable.
    table = auditor.results_.set_index("attack")
    games = 6 * 24
    spread = np.sqrt(0.25 / games)
    assert abs(table.loc["prior", "success"] - table.loc["prior", "baseline"]) < 4.5 * spread
    assert abs(table.loc["imputation", "success"] - table["imputation"].iloc[0]) < 4.5 * spread
    stated = auditor.report_.settings["prior"]
    assert stated == (prior if isinstance(prior, str) else "given")


@pytest.mark.slow
def test_refitted_preprocessing(rng):
    X, y = make_table(rng, n=14)
    options = {"records": [0, 1], "attacks": "white_box", "noise_scales": 0.05}
    encode = make_column_transformer(
        (OneHotEncoder(categories=[list("ABC")]), ["gene"]), (StandardScaler(), ["age"])
    )
    pipe = make_pipeline(encode, StandardScaler(), PrivateLinearRegression(alpha=0.1))
    refitted = audit(X, y, model=pipe, refit_preprocessing=True, **options)
    assert refitted.report_.settings["preprocessing"] == "refitted"
    public = audit(X, y, model=pipe, **options)
    assert public.report_.settings["preprocessing"] == "public"
    assert np.abs(refitted.records_["bayes"] - public.records_["bayes"]).max() > 1e-6
    encodings = refitted.attacks_["white_box"].encodings_
    changed = X.copy()
    changed.loc[1, "gene"] = "C"
    expected = clone(pipe).set_params(privatelinearregression__noise_scale=0.0).fit(changed, y)
    found = np.append(expected[-1].coef_, expected[-1].intercept_)
    np.testing.assert_allclose(encodings[1, 2], found, atol=1e-10)


@pytest.mark.slow
def test_missing_values_elsewhere(rng):
    X, y = make_table(rng)
    X.loc[[1, 4], "age"] = np.nan
    encode = make_column_transformer((OneHotEncoder(), ["gene", "sex"]), (SimpleImputer(), ["age"]))
    pipe = make_pipeline(encode, StandardScaler(), PrivateLinearRegression(alpha=0.1))
    for prior in ("marginal", "conditional"):
        table = audit(X, y, model=pipe, prior=prior).results_
        expect_complete(table)


@pytest.mark.slow
def test_utility_on_records_of_its_own(rng):
    X, y = make_table(rng)
    X_test, y_test = make_table(rng)
    model = make_pipe(PrivateLinearRegression(alpha=0.1))
    auditor = LeakageAuditor(
        model, "gene", attacks="prior", noise_scales=[0.0, 0.5], n_releases=500
    )
    auditor.set_params(random_state=0, bounds="tradeoff").fit(X, y, X_test, y_test)
    utility = auditor.results_["utility"]
    fitted = clone(model).set_params(privatelinearregression__noise_scale=0.0).fit(X, y)
    assert utility[0] == pytest.approx(fitted.score(X_test, y_test))
    settings = auditor.report_.settings
    assert settings["noiseless_utility"] == pytest.approx(utility[0])
    assert settings["utility_data"] == "test records"
    # The expected loss of R^2 is the mean squared length of the noise along the test records.
    rows = np.column_stack([fitted[0].transform(X_test), np.ones(24)])
    loss = 0.5**2 * (rows**2).sum() / ((y_test - y_test.mean()) ** 2).sum()
    assert utility[0] - utility[1] == pytest.approx(loss, rel=0.25)
    with pytest.raises(ValueError, match="needs its targets"):
        auditor.fit(X, y, X_test)


@pytest.mark.slow
def test_attacks_in_any_form(rng):
    X, y = make_table(rng)
    model = make_pipe(PrivateLinearRegression(alpha=0.1))
    own = WhiteBoxAttributeInference(model, "gene")
    auditor = audit(X, y, attacks=["white_box", own, PriorAttack("gene")])
    assert list(auditor.attacks_) == ["white_box", "white_box-2", "prior"]
    first, second = (auditor.results_.query("attack == @n") for n in ("white_box", "white_box-2"))
    np.testing.assert_array_equal(first["success"], second["success"])
    assert not hasattr(own, "encodings_")
    named = audit(X, y, attacks={"mine": own, "theirs": "prior"})
    assert list(named.attacks_) == ["mine", "theirs"]
    assert audit(X, y, attacks="informed").results_["attack"].tolist() == ["informed"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds", mostly_slow(["bayes", "tradeoff", "fano", ["gdp", "bayes"], []], 3)
)
def test_choice_of_bounds(bounds, rng):
    X, y = make_table(rng, n=12)
    auditor = audit(X, y, bounds=bounds, attacks="white_box")
    names = [bounds] if isinstance(bounds, str) else bounds
    columns = [name for name in auditor.results_.columns if name in BOUNDS]
    assert columns == [name for name in BOUNDS if name in names]
    every = audit(X, y, bounds="all", attacks="white_box")
    assert every.records_["tightest_bound"].ge(every.records_["bayes"]).all()
    for name in names:
        np.testing.assert_allclose(auditor.results_[name], every.results_[name], atol=1e-9)
    np.testing.assert_allclose(auditor.records_["bayes"], every.records_["bayes"], atol=1e-9)
    if not names:
        assert set(auditor.results_["verdict"]) == {VACUOUS}


@pytest.mark.slow
def test_report_and_partial_results(rng):
    X, y = make_table(rng)
    auditor = audit(X, y)
    assert isinstance(auditor.report_, AuditReport)
    pd.testing.assert_frame_equal(auditor.report_.results, auditor.results_)
    pd.testing.assert_frame_equal(auditor.partial_results_, auditor.results_)
    settings = auditor.report_.settings
    assert settings["n_records"] == settings["n_targets"] == 24
    assert settings["verdict_level"] == pytest.approx(1 - 0.05 / 2)  # baselines have no verdict
