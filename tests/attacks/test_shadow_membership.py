"""Membership by shadow models: what it finds, what it cannot, and the exact test above it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import CODINGS
from scipy import sparse
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import LikelihoodRatioMembership, MembershipInference
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.metrics import mean_interval


class GaussianOdds(ClassifierMixin, BaseEstimator):
    """Log odds of the true label are N(gap, 1) for members and N(0, 1) for others.

    Records are numbered by their first column; all are of class 1.
    """

    def __init__(self, gap=2.0, random_state=None):
        self.gap = gap
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.seen_ = np.asarray(X)[:, 0].astype(int)
        return self

    def predict_proba(self, X):
        rows = np.asarray(X)[:, 0].astype(int)
        noise = np.random.default_rng(self.random_state).normal(size=rows.max() + 1)
        odds = self.gap * np.isin(rows, self.seen_) + noise[rows]
        return np.column_stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])


def problem(rng, n=120, d=4, flips=0.3):
    X = rng.normal(size=(n, d))
    y = (X[:, 0] > 0).astype(int)
    return X, np.where(rng.random(n) < flips, 1 - y, y)


def halves(rng, n, n_models):
    return np.array([rng.permutation(n) < n // 2 for _ in range(n_models)])


def trained(model, X, y, member):
    return [clone(model).fit(X[one], y[one]) for one in member]


def shadow(model, n=12, **options):
    options = {"method": "online", "random_state": 0} | options
    return LikelihoodRatioMembership(model, n_shadow_models=n, **options)


# How well it does


@pytest.mark.slow
@pytest.mark.parametrize("method", ["online", "offline"])
def test_gaussian_scores_are_told_apart_as_well_as_they_can_be(method, rng):
    n, gap = 400, 2.0
    X, y = np.arange(2 * n)[:, None], np.ones(2 * n, dtype=int)
    reference = (X[n:], y[n:]) if method == "offline" else ()
    attack = shadow(GaussianOdds(gap), 200, method=method).fit(X[:n], y[:n], *reference)
    member = halves(rng, n, 20)
    models = [
        GaussianOdds(gap, random_state=k).fit(X[:n][one], y[:n][one])
        for k, one in enumerate(member)
    ]
    area = roc_auc_score(member.ravel(), attack.decision_function(models).ravel())
    assert abs(area - norm.cdf(gap / np.sqrt(2))) < 0.015
    if method == "online":
        assert abs(attack.score(models, member) - norm.cdf(gap / 2)) < 0.015
        np.testing.assert_allclose(attack.means_.mean(axis=0), [0.0, gap], atol=0.03)
        np.testing.assert_allclose(attack.scales_.mean(axis=0), 1.0, atol=0.02)
    else:
        # The false positive rate of a guess is the prior.
        guesses = attack.set_params(prior=0.1).fit(X[:n], y[:n], *reference).predict(models)
        assert abs(guesses[~member].mean() - 0.1) < 0.015
        assert abs(guesses[member].mean() - norm.sf(norm.isf(0.1) - gap)) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [RandomForestClassifier(15, random_state=0), DecisionTreeClassifier(random_state=0)]
)
def test_more_members_are_found_than_by_one_threshold(model, rng):
    X, y = problem(rng, 300, 6)
    member = halves(rng, 300, 4)
    models = trained(model, X, y, member)
    online = shadow(model, 32).fit(X, y)
    loss = MembershipInference().fit(X, y)
    rates = [attack.true_positive_rate(models, member, 0.01) for attack in (online, loss)]
    assert rates[0] > rates[1] + 0.03
    areas = [
        roc_auc_score(member.ravel(), attack.decision_function(models).ravel())
        for attack in (online, loss)
    ]
    assert areas[0] > areas[1] + 0.02
    assert online.score(models, member) > 0.65


@pytest.mark.slow
def test_regressors_are_found_out(rng):
    X = rng.normal(size=(200, 50))
    y = X[:, 0] + rng.normal(size=200) * np.exp(rng.normal(size=200))
    member = halves(rng, 200, 4)
    models = trained(Ridge(0.1), X, y, member)
    loss = MembershipInference().fit(X, y)
    online = shadow(Ridge(0.1), 64).fit(X, y)
    assert online.score(models, member) > 0.6
    assert online.true_positive_rate(models, member) > loss.true_positive_rate(models, member)
    X_other = rng.normal(size=(200, 50))
    y_other = X_other[:, 0] + rng.normal(size=200) * np.exp(rng.normal(size=200))
    offline = shadow(Ridge(0.1), 64, method="offline").fit(X, y, X_other, y_other)
    area = roc_auc_score(member.ravel(), offline.decision_function(models).ravel())
    assert area > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("method", ["online", "offline"])
@pytest.mark.parametrize("kind", ["constant", "noise", "blind to the labels"])
def test_models_that_do_not_leak(method, kind, rng):
    """Nothing is found where nothing is: the area is one half within its error."""
    X, y = problem(rng, 200)
    reference = problem(rng, 200) if method == "offline" else ()
    model = {
        "constant": DummyClassifier(strategy="constant", constant=1),
        "noise": PrivateLogisticRegression(1e6),
        "blind to the labels": DummyClassifier(strategy="uniform", random_state=0),
    }[kind]
    attack = shadow(model, 16, method=method).fit(X, y, *reference)
    areas = []
    for one in halves(rng, 200, 20):
        scores = attack.decision_function(clone(model).fit(X[one], y[one]))
        assert np.all(np.isfinite(scores))
        areas.append(roc_auc_score(one, scores))
    if kind == "noise":
        low, high = mean_interval(np.array(areas), confidence_level=0.9999)[1:]
        assert low <= 0.5 <= high
    else:
        np.testing.assert_allclose(areas, 0.5, atol=1e-12)
        guesses = attack.predict(clone(model).fit(X, y))
        assert not guesses.any()


def test_a_model_trained_on_others_gives_no_members(rng):
    X, y = problem(rng, 240)
    attack = shadow(DecisionTreeClassifier(random_state=0), 16).fit(X[:120], y[:120])
    areas = []
    for seed in range(20):
        other = problem(np.random.default_rng([seed, *rng.integers(2**31, size=2)]), 60)
        model = DecisionTreeClassifier(random_state=seed).fit(*other)
        member = rng.random(120) < 0.5
        areas.append(roc_auc_score(member, attack.decision_function(model)))
    low, high = mean_interval(np.array(areas), confidence_level=0.9999)[1:]
    assert low <= 0.5 <= high


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 0.3])
@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
def test_never_better_than_the_exact_test(estimator, noise, rng):
    """Whoever knows all other records and the parameters does no worse than shadow models."""
    n = 40
    X = rng.normal(size=(n, 3))
    a = X @ [1.0, -1.0, 0.5]
    if estimator is PrivateLogisticRegression:
        y = (a + rng.logistic(size=n) > 0).astype(int)
    else:
        y = a + rng.normal(size=n)
    model = estimator(noise, alpha=1e-2)
    attack = shadow(model, 400).fit(X, y)
    shares, exact = [], []
    for seed in range(150):
        member = rng.random(n) < 0.5
        if len(np.unique(y[member])) < 2:
            continue
        released = clone(model).set_params(random_state=seed).fit(X[member], y[member])
        shares.append(np.mean(attack.predict(released) == member))
        own = []
        for i in rng.choice(n, 8, replace=False):
            # The game about record i: the other members, with it and without it.
            rows = np.append(np.flatnonzero(member & (np.arange(n) != i)), i)
            test = LikelihoodRatioMembership(model, method="exact", records=[-1])
            own.append(test.fit(X[rows], y[rows]).expected_score()[0])
        exact.append(np.mean(own))
    difference = np.array(shares) - np.array(exact)
    assert mean_interval(difference, confidence_level=0.999)[1] <= 0.0
    # It is no straw man either.
    assert mean_interval(np.array(shares), confidence_level=0.999)[1] > 0.5


# What it is


def test_the_statistic_is_that_of_the_scores(rng):
    X, y = problem(rng, 60)
    model = LogisticRegression().fit(X[:30], y[:30])
    attack = shadow(model, 16, prior=0.2, records=[3, 40], variance="per_record").fit(X, y)
    assert attack.shadow_scores_.shape == attack.trained_on_.shape == (16, 2)
    odds = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    laws, evidence = attack._laws, attack._evidence
    for k, i in enumerate((3, 40)):
        scores, inside = attack.shadow_scores_[:, k], attack.trained_on_[:, k]
        assert inside.sum() == 8
        expected = 0.0
        for part, sign in ((scores[inside], 1.0), (scores[~inside], -1.0)):
            expected += sign * norm.logpdf(odds[i], part.mean(), part.std(ddof=1))
        assert laws.log_ratio(odds[[3, 40]])[k] == pytest.approx(expected, rel=1e-9)
    expected = np.log(0.2 / 0.8) + evidence.log_ratio(odds[[3, 40]])
    np.testing.assert_allclose(attack.decision_function(model), expected, rtol=1e-9)
    ratio = attack.decision_function(model)
    np.testing.assert_allclose(attack.predict_proba(model)[:, 1], 1 / (1 + np.exp(-ratio)))
    np.testing.assert_allclose(attack.predict_proba(model).sum(axis=-1), 1.0)
    np.testing.assert_array_equal(attack.predict(model), ratio > 0.0)


def test_log_odds_alone_have_a_limit(rng):
    """Residuals and scores of the user's own may be as large as they are."""
    X, y = problem(rng)
    for model, options, limited in (
        (LogisticRegression(), {}, True),
        (LogisticRegression(), {"statistic": lambda model, X, y: np.zeros(len(y))}, False),
        (Ridge(), {}, False),
        (Ridge(), {"statistic": lambda model, X, y: model.predict(X) - y}, False),
    ):
        attack = shadow(model, 4, **options).fit(X, y)
        assert np.isfinite(attack._laws.limit) == limited


def test_offline_shadow_models_see_no_candidate(rng):
    X, y = problem(rng, 60)
    X_other, y_other = problem(rng, 80)
    attack = shadow(LogisticRegression(), 32, method="offline").fit(X, y, X_other, y_other)
    assert not attack.trained_on_.any()
    assert np.isnan(attack.means_[:, 1]).all()
    twice = shadow(LogisticRegression(), 32, method="offline").fit(X[:5], y[:5], X_other, y_other)
    # Without the other candidates nothing changes.
    np.testing.assert_allclose(twice.shadow_scores_, attack.shadow_scores_[:, :5])
    model = LogisticRegression().fit(X, y)
    scores = attack.decision_function(model)
    assert np.all(scores >= 0.0)
    p = norm.sf(
        np.where(y == 1, 1.0, -1.0) * model.decision_function(X),
        attack.means_[:, 0],
        attack.scales_[:, 0],
    )
    np.testing.assert_allclose(scores, -np.log(p), rtol=1e-8)
    np.testing.assert_array_equal(attack.predict(model), p < 0.5)
    with pytest.raises(AttackNotApplicableError, match="no probability"):
        attack.predict_proba(model)
    with pytest.raises(ValueError, match="trained on reference records alone"):
        attack.fit(X, y)


@pytest.mark.slow
def test_the_method_of_choice(rng):
    X, y = problem(rng, 60)
    private = PrivateLogisticRegression(0.1)
    other = problem(rng, 60)
    for estimator, args, labels, expected in (
        (private, (), y, "exact"),
        (make_pipeline(StandardScaler(), private), (), y, "exact"),
        (private, other, y, "online"),
        (private, (), np.arange(60) % 3, "online"),
        (PrivateLinearRegression(0.1, reweighting="irfil"), (), X[:, 0] + y, "online"),
        (PrivateLinearRegression(0.1, reweighting="total"), (), X[:, 0] + y, "online"),
        (PrivateLinearRegression(0.1, noise_covariance="curvature"), (), X[:, 0] + y, "online"),
        (LogisticRegression(), (), y, "online"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=Warning)
            attack = LikelihoodRatioMembership(estimator, n_shadow_models=4, random_state=0)
            attack.fit(X, labels, *args)
        assert attack.method_ == expected
        assert hasattr(attack, "encodings_") == (expected == "exact")
        assert hasattr(attack, "shadow_scores_") == (expected == "online")
    with pytest.raises(ValueError, match="exact test takes no reference records"):
        LikelihoodRatioMembership(private, method="exact").fit(X, y, *other)


@pytest.mark.parametrize("half", ["X_reference", "y_reference"])
def test_half_of_a_reference_is_not_passed_over(half, rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    attack = LikelihoodRatioMembership(PrivateLinearRegression(0.1), method="exact")
    with pytest.raises(ValueError, match="_reference`"):
        attack.fit(X, y, **{half: X if half == "X_reference" else y})


def test_what_is_known_in_closed_form_only(rng):
    X, y = problem(rng, 60)
    model = PrivateLogisticRegression(0.1, random_state=0).fit(X, y)
    attack = shadow(model, 4).fit(X, y)
    for ask in (attack.expected_score, lambda: attack.expected_true_positive_rate(0.1)):
        with pytest.raises(AttackNotApplicableError, match="closed form"):
            ask()
    with pytest.raises(ValueError, match="`noise_scale` is for the exact test"):
        attack.predict(model, 0.1)
    with pytest.raises(TypeError, match="must be a fitted model"):
        attack.predict(np.zeros(5))


def test_measured_rates_of_the_exact_test(rng):
    X, y = problem(rng, 60)
    template = PrivateLogisticRegression(1e-8)
    others = np.arange(60) != 7
    models = [clone(template).fit(X, y), clone(template).fit(X[others], y[others])]
    attack = LikelihoodRatioMembership(template, records=[7]).fit(X, y)
    truth = [[1], [0]]
    assert attack.score(models, truth) == 1.0
    assert attack.true_positive_rate(models, truth) == 1.0
    np.testing.assert_array_equal(attack.roc_curve(models, truth)[1], [0.0, 1.0, 1.0])


@pytest.mark.slow
def test_seeds_and_jobs(rng):
    X, y = problem(rng, 60)
    forest = RandomForestClassifier(3)
    model = clone(forest).set_params(random_state=1).fit(X[:30], y[:30])
    found = [
        shadow(forest, 8, random_state=seed, n_jobs=jobs).fit(X, y).decision_function(model)
        for seed, jobs in ((0, None), (0, 2), (1, None))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.any(found[0] != found[2])
    fresh = [shadow(forest, 4, random_state=None).fit(X, y).shadow_scores_ for _ in range(2)]
    assert np.any(fresh[0] != fresh[1])


def test_reference_records_widen_the_training_sets(rng):
    X, y = problem(rng, 40)
    sizes = []

    def note(model, X, y):
        sizes.append(model.n_samples_)
        return np.zeros(len(y))

    class Sized(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            self.n_samples_ = len(y)
            return super().fit(X, y)

    for method, expected in (("online", {50}), ("offline", {30})):
        sizes.clear()
        shadow(Sized(), 4, method=method, statistic=note).fit(X, y, *problem(rng, 60))
        assert set(sizes) == expected


def test_scores_by_function(rng):
    X, y = problem(rng, 80, 40)
    member = halves(rng, 80, 4)
    models = trained(LinearSVC(random_state=0, max_iter=20_000), X, y, member)

    def margin(model, X, y):
        return (2 * y - 1) * model.decision_function(X)

    with pytest.raises(AttackNotApplicableError, match="without `predict_proba`"):
        shadow(LinearSVC(max_iter=20_000), 4).fit(X, y)
    attack = shadow(LinearSVC(max_iter=20_000), 16, statistic=margin).fit(X, y)
    assert roc_auc_score(member.ravel(), attack.decision_function(models).ravel()) > 0.7


# Labels and records in any form


@pytest.mark.slow
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("method", ["online", "offline"])
def test_codings_of_labels_give_the_same_guesses(coding, method, rng):
    X, codes = problem(rng, 120)
    y = CODINGS[coding](codes)
    scores = []
    for labels in (codes, y):
        reference = (X[80:], labels[80:]) if method == "offline" else ()
        attack = shadow(LogisticRegression(), 8, method=method)
        attack.fit(X[:80], labels[:80], *reference)
        scores.append(attack.decision_function(LogisticRegression().fit(X[:40], labels[:40])))
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-7)


def test_labels_in_another_coding(rng):
    X, y = problem(rng, 60)
    names = np.array(["no", "yes"])
    attack = shadow(LogisticRegression(), 4).fit(X, y)
    for wrong in (y.astype(str), names[y], y + 5):
        with pytest.raises(ValueError, match="knows none of the labels"):
            attack.decision_function(LogisticRegression().fit(X, wrong))
    with pytest.raises(ValueError, match="must be coded alike"):
        attack.fit(X[:30], y[:30], X[30:], y[30:].astype(str))
    with pytest.raises(ValueError, match="no label in common"):
        attack.fit(X[:30], y[:30], X[30:], y[30:] + 5)


@pytest.mark.slow
def test_tables_by_name(make_table, make_pipe, rng):
    X, _ = make_table(n=90)
    y = rng.choice(["no", "yes"], 90)
    pipe = make_pipe(LogisticRegression())
    model = clone(pipe).fit(X[:30], y[:30])
    attack = shadow(pipe, 8).fit(X[:60], y[:60])
    assert attack.feature_names_in_.tolist() == list(X)
    assert attack.n_features_in_ == 4
    expected = attack.decision_function(model)
    shuffled = X[["dose", "city", "age", "gene"]]
    again = shadow(pipe, 8).fit(shuffled[:60], y[:60])
    np.testing.assert_allclose(again.decision_function(model), expected, atol=1e-5)
    with_reference = [
        shadow(pipe, 8).fit(X[:60], y[:60], table[60:], y[60:]) for table in (X, shuffled)
    ]
    np.testing.assert_array_equal(*(one.shadow_scores_ for one in with_reference))
    wide = shadow(pipe, 4).fit(X.assign(extra=rng.normal(size=90))[:60], y[:60])
    with pytest.raises(ValueError, match=r"has not seen: \['extra'\]"):
        wide.decision_function(model)
    with pytest.raises(ValueError, match="by name"):
        attack.fit(X, y, X.rename(columns={"age": "old"}), y)
    narrow = shadow(LogisticRegression(), 4).fit(X[["dose"]], y)
    with pytest.raises(ValueError, match=r"lack columns.*age"):
        narrow.decision_function(LogisticRegression().fit(X[["dose", "age"]], y))


def test_sparse_polars_missing_values_and_texts(rng):
    X, y = problem(rng, 80)
    X[np.abs(X) < 0.5] = 0.0
    dense = shadow(LogisticRegression(tol=1e-10), 8).fit(X, y)
    model = LogisticRegression(tol=1e-10).fit(X[:40], y[:40])
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        thin = shadow(LogisticRegression(tol=1e-10), 8).fit(kind(X), y)
        np.testing.assert_allclose(
            thin.decision_function(model), dense.decision_function(model), atol=1e-3
        )
    names = list("abcd")
    frame = pl.DataFrame(X, schema=names)
    polars = shadow(LogisticRegression(tol=1e-10), 8).fit(frame, y)
    named = LogisticRegression(tol=1e-10).fit(frame[:40], y[:40])
    np.testing.assert_allclose(
        polars.decision_function(named), dense.decision_function(model), atol=1e-5
    )
    holes = pd.DataFrame(np.where(rng.random(X.shape) < 0.2, np.nan, X), columns=names)
    holes["kind"] = pd.Categorical(rng.choice(["u", "v"], 80))
    trees = HistGradientBoostingClassifier(
        max_iter=3, min_samples_leaf=5, categorical_features="from_dtype", early_stopping=False
    )
    attack = shadow(trees, 4).fit(holes[:60], y[:60], holes[60:], y[60:])
    assert attack.predict(clone(trees).fit(holes[:30], y[:30])).shape == (60,)


def test_single_class_candidates(rng):
    X, y = problem(rng, 200)
    ones = np.flatnonzero(y == 1)[:20]
    rest = np.setdiff1d(np.arange(200), ones)
    model = LogisticRegression().fit(X[rest], y[rest])
    for method in ("online", "offline"):
        attack = shadow(LogisticRegression(), 8, method=method)
        attack.fit(X[ones], y[ones], X[rest], y[rest])
        assert attack.predict(model).shape == (20,)
    with pytest.raises(ValueError, match=r"failed.*pass more of them"):
        shadow(LogisticRegression(), 8).fit(X[ones], y[ones])


def test_duplicates(rng):
    X, y = problem(rng, 60)
    with pytest.raises(ValueError, match="60 of 60 candidates are among the reference"):
        shadow(LogisticRegression()).fit(X, y, X, y)
    with pytest.warns(UserWarning, match="1 of 60 candidates equal a reference record"):
        shadow(LogisticRegression(), 4).fit(X, y, np.vstack([X[:1], X + 9.0]), np.append(y[:1], y))
    # A copy among the candidates hides its twin, and nothing breaks.
    twice = shadow(LogisticRegression(), 8).fit(np.vstack([X, X]), np.append(y, y))
    assert np.all(np.isfinite(twice.decision_function(LogisticRegression().fit(X, y))))


def test_few_records(rng):
    X, y = rng.normal(size=(4, 1)), np.array([0.0, 1.0, 2.0, 3.0])
    attack = shadow(LinearRegression(), 4).fit(X, y)
    assert attack.predict(LinearRegression().fit(X[:3], y[:3])).shape == (4,)
    one = shadow(LinearRegression(), 4, records=[2]).fit(X, y)
    assert one.predict(LinearRegression().fit(X[:3], y[:3])).shape == (1,)


def test_another_kind_of_model(rng):
    X, y = problem(rng, 60)
    attack = shadow(LogisticRegression(), 4).fit(X, y)
    with pytest.raises(ValueError, match=r"is a regressor and the shadow models are not"):
        attack.predict(Ridge().fit(X, y))
    attack = shadow(Ridge(), 4).fit(X, y)
    with pytest.raises(ValueError, match=r"is a classifier and the shadow models are not"):
        attack.predict(LogisticRegression().fit(X, y))
    with pytest.raises(NotFittedError):
        attack.predict(Ridge())
    with pytest.raises(ValueError, match="features"):
        attack.predict(Ridge().fit(X[:, :2], y))


def test_preprocessing_is_fitted_in_every_shadow_model(rng):
    X = pd.DataFrame({"site": rng.choice(list("ab"), 60), "x": rng.normal(size=60)})
    y = rng.integers(0, 2, 60)
    X.loc[0, "site"] = "rare"
    for encoder in (OneHotEncoder(handle_unknown="ignore"), OneHotEncoder()):
        encode = make_column_transformer((encoder, ["site"]), remainder="passthrough")
        attack = shadow(make_pipeline(encode, LogisticRegression()), 4)
        if encoder.handle_unknown == "error":
            with pytest.raises(ValueError, match=r"unknown categories.*has not seen"):
                attack.fit(X, y)
        else:
            attack.fit(X, y)


# Contract


def test_contract(rng):
    X, y = problem(rng, 60)
    attack = shadow(LogisticRegression(C=2.0), 4, prior=0.3)
    assert clone(attack).get_params()["estimator__C"] == 2.0
    assert "online" in repr(attack)
    assert "LogisticRegression" in attack._repr_html_()
    with pytest.raises(NotFittedError):
        attack.predict(LogisticRegression())
    kept = X.copy(), y.copy()
    params = attack.get_params(deep=False).copy()
    assert attack.fit(X, y) is attack
    assert attack.get_params(deep=False) == params
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    model = LogisticRegression().fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="a fitted LikelihoodRatioMembership"):
        again = pickle.loads(pickle.dumps(attack))
    np.testing.assert_array_equal(again.decision_function(model), attack.decision_function(model))
    exact = attack.set_params(estimator=PrivateLogisticRegression(0.1), method="auto").fit(X, y)
    assert not hasattr(exact, "shadow_scores_")
    online = exact.set_params(method="online").fit(X, y)
    assert not hasattr(online, "encodings_")
    attack.set_params(estimator=LogisticRegression()).fit(X, y)
    before = attack.predict(model)
    with pytest.raises(ValueError, match="missing values"):
        attack.fit(X, np.where(np.arange(60) == 1, np.nan, y))
    np.testing.assert_array_equal(attack.predict(model), before)  # the fit before is whole


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "both"},
        {"n_shadow_models": 3},
        {"n_shadow_models": 8.0},
        {"statistic": "loss"},
        {"variance": "local"},
        {"prior": 1.0},
        {"n_jobs": 1.5},
        {"random_state": "seed"},
    ],
)
def test_wrong_parameters(wrong, rng):
    X, y = problem(rng, 20)
    with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
        LikelihoodRatioMembership(LogisticRegression(), **wrong).fit(X, y)


def test_wrong_records(rng):
    X, y = problem(rng, 20)
    attack = shadow(LogisticRegression(), 4)
    with pytest.raises(ValueError, match="`y` is needed"):
        attack.fit(X, None)
    with pytest.raises(ValueError, match="each of the 20 records; got 19"):
        attack.fit(X, y[:19])
    with pytest.raises(ValueError, match="without `X_reference`"):
        attack.fit(X, y, None, y)
    with pytest.raises(ValueError, match="`y_reference` is needed"):
        attack.fit(X, y, X + 1.0)
    with pytest.raises(ValueError, match="`X_reference` must have the columns"):
        attack.fit(X, y, X[:, 1:], y)
    with pytest.raises(ValueError, match="`records` must lie"):
        attack.set_params(records=[25]).fit(X, y)


@pytest.mark.slow
def test_a_fitted_attack_travels_without_its_models(rng):
    X, y = problem(rng, 60)
    big = RandomForestClassifier(50, random_state=0)
    attack = shadow(big, 8).fit(X, y)
    with pytest.warns(PrivacyLeakWarning):
        assert len(pickle.dumps(attack)) < 40_000
    private = shadow(PrivateLogisticRegression(0.1), 4).fit(X, y)
    with pytest.warns(PrivacyLeakWarning) as caught:
        pickle.dumps(private)
    assert ["a fitted Like" in str(each.message) for each in caught] == [True]  # no model's
