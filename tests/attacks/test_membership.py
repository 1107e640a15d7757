"""Membership inference: scores by hand, thresholds, curves, and models that do or do not leak."""

import numpy as np
import pytest
from helpers import CODINGS, Fixed, mostly_slow, numbered
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score, roc_curve
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.attacks._membership import MembershipAttack, MembershipInference
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

SCORES = ["loss", "likelihood", "modified_entropy", "gradient_norm"]


def records(rng, n=300, d=5, signal=1.0):
    X = rng.normal(size=(n, d))
    return X, (signal * X[:, 0] + rng.normal(size=n) > 0).astype(int)


def thirds(X, y):
    """Members, other candidates, and reference records; the truth of the first two."""
    k = len(X) // 3
    return (X[: 2 * k], y[: 2 * k], X[2 * k :], y[2 * k :]), np.arange(2 * k) < k, k


# Scores


def test_scores_of_classifiers_by_hand(rng):
    p = rng.dirichlet(np.ones(3), size=30)
    codes = rng.integers(0, 3, 30)
    y, model = np.array(["a", "b", "c"])[codes], Fixed(p, ["a", "b", "c"])
    own = p[np.arange(30), codes]
    entropy = [
        -(1 - own[i]) * np.log(own[i])
        - sum(p[i, k] * np.log(1 - p[i, k]) for k in range(3) if k != codes[i])
        for i in range(30)
    ]
    for score, expected in (
        ("loss", np.log(own)),
        ("likelihood", own),
        ("modified_entropy", -np.array(entropy)),
    ):
        attack = MembershipInference(statistic=score, threshold=0.0).fit(numbered(30), y)
        np.testing.assert_allclose(attack.decision_function(model), expected, rtol=1e-12)
    mean = -MembershipInference().fit(numbered(30), y).decision_function(model).mean()
    assert mean == pytest.approx(log_loss(y, p))


def test_scores_of_regressors_by_hand(rng):
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60)
    model = Ridge().fit(X[:20], y[:20])
    errors = y[:40] - model.predict(X[:40])
    attack = MembershipInference().fit(X[:40], y[:40])
    np.testing.assert_allclose(attack.decision_function(model), -(errors**2))
    attack = MembershipInference(statistic="likelihood").fit(X[:40], y[:40], X[40:], y[40:])
    spread = np.sqrt(np.mean((y[40:] - model.predict(X[40:])) ** 2))
    expected = np.exp(-0.5 * (errors / spread) ** 2) / np.sqrt(2 * np.pi) / spread
    np.testing.assert_allclose(attack.decision_function(model), expected)
    attack = MembershipInference(statistic="likelihood").fit(X[:40], y[:40])
    spread = np.sqrt(np.mean(errors**2))
    expected = np.exp(-0.5 * (errors / spread) ** 2) / np.sqrt(2 * np.pi) / spread
    np.testing.assert_allclose(attack.decision_function(model), expected)


def test_probabilities_at_both_ends_stay_finite_and_apart():
    p = [[1.0, 0.0], [1.0, 1e-20], [1.0, 1e-300], [0.0, 1.0], [1e-300, 1.0]]
    y, model = ["a"] * 5, Fixed(p, ["a", "b"])
    loss = MembershipInference(statistic="loss").fit(numbered(5), y).decision_function(model)
    np.testing.assert_allclose(loss, [0.0, -1e-20, -1e-300, -708.396, -690.776], rtol=1e-5)
    entropy = MembershipInference(statistic="modified_entropy").fit(numbered(5), y)
    found = entropy.decision_function(model)
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, [0.0, -2e-40, 0.0, -2 * 708.396, -2 * 690.776], rtol=1e-5)


@pytest.mark.parametrize("score", ["loss", "likelihood", "modified_entropy"])
def test_an_unseen_label_has_probability_zero(score):
    model = Fixed([[0.7, 0.3], [0.2, 0.8], [0.4, 0.6]], ["a", "b"])
    attack = MembershipInference(statistic=score).fit(numbered(3), ["z", "a", "b"])
    scores = attack.decision_function(model)
    assert np.all(np.isfinite(scores))
    assert scores.argmin() == 0
    seen = Fixed([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0], [0.4, 0.6, 0.0]], ["a", "b", "z"])
    np.testing.assert_allclose(attack.decision_function(seen), scores)


def test_gradient_norms_by_function(rng):
    X, y = records(rng, 60)
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[:30], y[:30])
    attack = MembershipInference(statistic="gradient_norm").fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="gradient_norm"):
        attack.decision_function(model)
    attack.set_params(gradient_norm=lambda model, X, y: 1.0 - model.predict_proba(X)[:, 1] * y)
    expected = -(1.0 - model.predict_proba(X)[:, 1] * y)
    np.testing.assert_allclose(attack.decision_function(model), expected)
    for wrong in (
        lambda m, X, y: np.ones(3),
        lambda m, X, y: -np.ones(60),
        lambda m, X, y: y + np.nan,
    ):
        attack.set_params(gradient_norm=wrong)
        with pytest.raises(ValueError, match="must return a norm"):
            attack.decision_function(model)


# Models that leak, and models that do not


@pytest.mark.parametrize(
    "model, scores",
    [
        (DecisionTreeClassifier(random_state=0), SCORES[:3]),
        (KNeighborsClassifier(1), SCORES[:3]),
        (
            MLPClassifier((60,), solver="lbfgs", alpha=1e-6, max_iter=2000, random_state=0),
            SCORES,
        ),
        (LogisticRegression(C=1e3, max_iter=5000), SCORES),
    ],
)
def test_overfitted_classifiers_are_found_out(model, scores, rng):
    X, y = records(rng, 180, 30, signal=0.3)
    known, member, k = thirds(X, y)
    model.fit(X[:k], y[:k])
    other = clone(model).fit(known[2], known[3])
    for score in scores:
        attack = MembershipInference(statistic=score).fit(*known)
        assert roc_auc_score(member, attack.decision_function(model)) > 0.65
        # Trained on other records, the model tells nothing of these.
        chance = roc_auc_score(member, attack.decision_function(other))
        assert abs(chance - 0.5) < 4.0 * np.sqrt(1.0 / (6.0 * k))


@pytest.mark.parametrize(
    "model, scores",
    [
        (DecisionTreeRegressor(random_state=0), ["loss", "likelihood"]),
        (LinearRegression(), ["loss", "likelihood", "gradient_norm"]),
        (
            MLPRegressor(
                hidden_layer_sizes=(60,), solver="lbfgs", alpha=1e-6, max_iter=2000, random_state=0
            ),
            ["loss", "likelihood", "gradient_norm"],
        ),
    ],
)
def test_overfitted_regressors_are_found_out(model, scores, rng):
    X = rng.normal(size=(180, 40))
    y = X[:, 0] + rng.normal(size=180)
    known, member, k = thirds(X, y)
    model.fit(X[:k], y[:k])
    for score in scores:
        attack = MembershipInference(statistic=score).fit(*known)
        assert roc_auc_score(member, attack.decision_function(model)) > 0.75
        assert attack.score(model, member) > 0.6


# Thresholds


def test_the_calibrated_threshold_by_hand():
    p = np.arange(1, 20)[:, None] / 20.0
    model = Fixed(np.hstack([p, 1 - p]), ["a", "b"])
    X, y = numbered(19), ["a"] * 19
    attack = MembershipInference(statistic="likelihood", prior=0.25).fit(X, y, X, y)
    # The fifth of 19: k = 0.25 * 20; ties with it are no members.
    assert attack.decision_threshold(model) == np.nextafter(0.75, 1.0)
    assert attack.predict(model).sum() == 4
    for prior, count in ((0.5, 9), (0.05, 0), (0.1, 1), (0.999, 18)):
        attack.set_params(prior=prior)
        assert attack.fit(X, y, X, y).predict(model).sum() == count
    with pytest.raises(ValueError, match="at least 24 reference records; got 19"):
        attack.set_params(prior=0.04).fit(X, y, X, y)


@pytest.mark.slow
@pytest.mark.parametrize("prior", mostly_slow([0.1, 0.3, 0.5, 0.9], 0, 2))
@pytest.mark.parametrize("m", mostly_slow([10, 37], 1))
def test_calibration_controls_the_false_positive_rate(prior, m, rng):
    # Non-members and references are exchangeable: the rate is k / (m + 1), at most the prior.
    n, rates = 50, []
    for _ in range(400):
        p = rng.random(n + m)
        model = Fixed(np.column_stack([p, 1 - p]), ["a", "b"])
        X, y = numbered(n + m), np.array(["a"] * (n + m))
        attack = MembershipInference(prior=prior).fit(X[:n], y[:n], X[n:], y[n:])
        rates.append(attack.predict(model).mean())
    error = np.std(rates, ddof=1) / 20.0
    expected = np.floor(prior * (m + 1)) / (m + 1)
    assert abs(np.mean(rates) - min(expected, m / (m + 1))) < 4.5 * error
    assert expected <= prior


def test_ties_are_no_members_so_that_the_rate_still_holds(rng):
    known, _, _ = thirds(*records(rng, 60))
    model = DummyClassifier().fit(known[2], known[3])
    attack = MembershipInference().fit(known[0], np.zeros(40, int), known[2], np.zeros(20, int))
    assert attack.predict(model).sum() == 0


def test_a_threshold_given_as_a_number(rng):
    X, y = records(rng, 80)
    model = LogisticRegression().fit(X[:40], y[:40])
    attack = MembershipInference(threshold=-0.3).fit(X, y)
    scores = attack.decision_function(model)
    np.testing.assert_array_equal(attack.predict(model), scores >= -0.3)
    one = MembershipInference(threshold=float(scores[7])).fit(X, y)
    assert one.predict(model)[7] == 1
    assert one.decision_threshold([model, model]).tolist() == [scores[7]] * 2


def test_without_references_scores_but_no_guesses(rng):
    X, y = records(rng, 40)
    model = LogisticRegression().fit(X, y)
    attack = MembershipInference().fit(X, y)
    assert attack.n_reference_ == 0
    assert attack.decision_function(model).shape == (40,)
    for ask in (attack.predict, attack.decision_threshold, lambda m: attack.score(m, y)):
        with pytest.raises(ValueError, match=r"X_reference, y_reference.*float"):
            ask(model)


def test_references_of_a_single_class(rng):
    X, y = records(rng, 120)
    model = LogisticRegression().fit(X[:40], y[:40])
    one = y[80:] == 1
    attack = MembershipInference().fit(X[:80], y[:80], X[80:][one], y[80:][one])
    assert 0 < attack.predict(model).sum() < 80


# Curves


def test_curves_and_rates(rng):
    X, y = records(rng, 200, signal=0.2)
    known, member, k = thirds(X, y)
    model = KNeighborsClassifier(3).fit(X[:k], y[:k])
    attack = MembershipInference().fit(*known)
    scores = attack.decision_function(model)
    for drop in (True, False):
        found = attack.roc_curve(model, member, drop_intermediate=drop)
        for one, other in zip(
            found, roc_curve(member, scores, drop_intermediate=drop), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    for rate in (0.0, 0.01, 0.1, 0.37, 1.0):
        best = max(
            np.mean(scores[member] >= t)
            for t in [*scores, np.inf]
            if np.mean(scores[~member] >= t) <= rate
        )
        assert attack.true_positive_rate(model, member, rate) == best
    assert attack.score(model, member) == np.mean(attack.predict(model) == member)


def test_the_rate_asked_for_may_lie_on_a_straight_line():
    class Given(MembershipAttack):
        def decision_function(self, released):
            return released

        def predict(self, released):
            return released > 2

    scores, truth = np.repeat([4.0, 3.0, 2.0, 1.0], 2), np.tile([0, 1], 4)
    for rate in (0.0, 0.25, 0.5, 0.75, 1.0):
        assert Given().true_positive_rate(scores, truth, rate) == rate
        assert Given().true_positive_rate(scores, truth, min(rate + 0.2, 1.0)) == rate


def test_several_models(rng):
    X, y = records(rng, 90)
    known, member, k = thirds(X, y)
    models = [DecisionTreeClassifier(max_depth=d, random_state=0).fit(X[:k], y[:k]) for d in (2, 9)]
    attack = MembershipInference().fit(*known)
    scores = attack.decision_function(models)
    assert scores.shape == attack.predict(models).shape == (2, 2 * k)
    for row, model in enumerate(models):
        np.testing.assert_array_equal(scores[row], attack.decision_function(model))
        np.testing.assert_array_equal(attack.predict(models)[row], attack.predict(model))
    assert attack.decision_function(models[:1]).shape == (1, 2 * k)
    both = np.stack([member, member])
    fpr, tpr, _ = attack.roc_curve(models, member)
    expected = roc_curve(both.ravel(), scores.ravel())
    np.testing.assert_array_equal(np.stack([fpr, tpr]), np.stack(expected[:2]))
    assert attack.score(models, both) == attack.score(models, member)
    each = [attack.score(model, member) for model in models]
    assert attack.score(models, member) == pytest.approx(np.mean(each))


def test_wrong_memberships(rng):
    X, y = records(rng, 40)
    model = LogisticRegression().fit(X, y)
    attack = MembershipInference(threshold=0.0).fit(X, y)
    with pytest.raises(ValueError, match="each of the 40 candidates"):
        attack.score(model, np.ones(39))
    with pytest.raises(ValueError, match="1 for members and 0"):
        attack.roc_curve(model, np.full(40, 2))
    for n_members in (0, 40):
        with pytest.raises(ValueError, match=f"members and non-members; got {n_members} "):
            attack.roc_curve(model, np.full(40, n_members // 40))
    for rate in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="must lie in"):
            attack.true_positive_rate(model, np.arange(40) % 2, rate)


# Labels and records in any form


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("score", SCORES)
def test_codings_of_labels_give_the_same_guesses(coding, score, rng):
    X, codes = records(rng, 120)
    known, _, k = thirds(X, codes)
    plain = LogisticRegression().fit(X[:k], codes[:k])
    expected = MembershipInference(statistic=score).fit(*known)
    y = CODINGS[coding](codes)
    model = LogisticRegression().fit(X[:k], y[:k])
    attack = MembershipInference(statistic=score).fit(known[0], y[: 2 * k], known[2], y[2 * k :])
    np.testing.assert_allclose(
        attack.decision_function(model), expected.decision_function(plain), rtol=1e-9
    )
    np.testing.assert_array_equal(attack.predict(model), expected.predict(plain))


def test_data_frames_go_by_name(make_table, rng):
    X, _ = make_table(n=90)
    y = rng.choice(["no", "yes"], 90)
    X.loc[X.index[::7], "age"] = np.nan
    encode = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "dose"]),
        (OneHotEncoder(), ["gene", "city"]),
    )
    model = make_pipeline(encode, LogisticRegression()).fit(X[:30], y[:30])
    expected = MembershipInference().fit(X[:60], y[:60], X[60:], y[60:])
    shuffled = X[["dose", "city", "age", "gene"]]
    attack = MembershipInference().fit(shuffled[:60], y[:60], X[60:], y[60:])
    assert attack.feature_names_in_.tolist() == list(shuffled)
    np.testing.assert_array_equal(attack.predict(model), expected.predict(model))
    norms = (
        MembershipInference(statistic="gradient_norm")
        .fit(shuffled[:60], y[:60])
        .decision_function(model)
    )
    direct = model[-1]
    features = model[:-1].transform(X[:60])
    bare = (
        MembershipInference(statistic="gradient_norm")
        .fit(features, y[:60])
        .decision_function(direct)
    )
    np.testing.assert_allclose(norms, bare)
    with pytest.raises(ValueError, match=r"lack columns.*age"):
        MembershipInference().fit(X[["dose"]], y).decision_function(model)
    with pytest.raises(ValueError, match="by name"):
        MembershipInference().fit(X, y, X.rename(columns={"age": "old"}), y)
    with pytest.raises(ValueError, match="columns of `X`"):
        MembershipInference().fit(X, y, X[["age"]], y)


def test_sparse_records_missing_values_and_texts(rng):
    X, y = records(rng, 60)
    X[X < 0.5] = 0.0
    model = LogisticRegression().fit(X, y)
    for score in SCORES:
        dense = MembershipInference(statistic=score).fit(X, y, X, y)
        for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
            attack = MembershipInference(statistic=score).fit(kind(X), y, kind(X), y)
            np.testing.assert_allclose(
                attack.decision_function(model), dense.decision_function(model)
            )
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    trees = HistGradientBoostingClassifier(max_iter=3).fit(holes, y)
    assert MembershipInference().fit(holes, y, holes, y).predict(trees).shape == (60,)
    texts = ["good day", "bad day", "good night", "bad night"]
    pipe = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(texts, [1, 0, 1, 0])
    assert MembershipInference().fit(texts, [1, 0, 1, 0]).decision_function(pipe).shape == (4,)


@pytest.mark.parametrize("score", SCORES)
def test_released_models(score, rng):
    X, y = records(rng, 90)
    known, _, k = thirds(X, np.where(y, "yes", "no"))
    private = PrivateLogisticRegression(0.1, random_state=0).fit(X[:k], known[1][:k])
    with pytest.warns(PrivacyLeakWarning):
        released = private.release()
    attack = MembershipInference(statistic=score).fit(*known)
    np.testing.assert_allclose(
        attack.decision_function(released), attack.decision_function(private)
    )
    np.testing.assert_array_equal(attack.predict(released), attack.predict(private))
    if score != "modified_entropy":
        numbers = X[:, 0] + rng.normal(size=90)
        private = PrivateLinearRegression(0.1)
        private.fit(X[:k], numbers[:k])
        attack = MembershipInference(statistic=score).fit(X, numbers, X, numbers)
        np.testing.assert_allclose(
            attack.decision_function(private.release()), attack.decision_function(private)
        )


def test_noise_hides_members(rng):
    X, y = records(rng, 240, 40, signal=0.3)
    known, member, k = thirds(X, y)
    areas = []
    for noise in (0.0, 100.0):
        generator = np.random.default_rng(0)
        model = PrivateLogisticRegression(noise, alpha=1e-4, random_state=generator)
        model.fit(X[:k], y[:k])
        scores = MembershipInference().fit(*known).decision_function(model)
        areas.append(roc_auc_score(member, scores))
    assert areas[0] > 0.65
    assert abs(areas[1] - 0.5) < 0.2
    assert areas[1] < areas[0]


# Contract


def test_contract(rng):
    X, y = records(rng, 30)
    model = LogisticRegression().fit(X, y)
    attack = MembershipInference(statistic="likelihood", threshold=0.2, prior=0.3)
    params = {"statistic": "likelihood", "threshold": 0.2, "prior": 0.3, "gradient_norm": None}
    assert attack.get_params() == params
    assert clone(attack).get_params() == params
    assert "likelihood" in repr(attack)
    assert "likelihood" in attack._repr_html_()
    attack.set_params(statistic="loss")
    assert attack.get_params()["statistic"] == "loss"
    kept = X.copy(), y.copy()
    assert attack.fit(X, y, X, y) is attack
    attack.predict(model)
    assert 0.0 <= attack.score(model, np.arange(30) % 2) <= 1.0
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    assert (attack.n_candidates_, attack.n_reference_, attack.n_features_in_) == (30, 30, 5)
    assert attack.get_params() == params | {"statistic": "loss"}
    attack.fit(X[:10], y[:10])
    assert (attack.n_candidates_, attack.n_reference_) == (10, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"statistic": "luck"},
        {"threshold": "high"},
        {"threshold": np.inf},
        {"prior": 0.0},
        {"prior": 1},
    ],
)
def test_wrong_parameters(wrong, rng):
    X, y = records(rng, 10)
    with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
        MembershipInference(**wrong).fit(X, y)


def test_wrong_records(rng):
    X, y = records(rng, 10)
    attack = MembershipInference()
    with pytest.raises(NotFittedError):
        attack.predict(LogisticRegression())
    with pytest.raises(ValueError, match="`y` is needed"):
        attack.fit(X, None)
    with pytest.raises(ValueError, match="each of the 10 records; got 9"):
        attack.fit(X, y[:9])
    with pytest.raises(ValueError, match="1 missing values of 10"):
        attack.fit(X, np.where(np.arange(10) == 2, np.nan, y))
    with pytest.raises(ValueError, match="`X_reference` must have the columns"):
        attack.fit(X, y, X[:, 1:], y)
    with pytest.raises(ValueError, match="without `X_reference`"):
        attack.fit(X, y, None, y)
    with pytest.raises(ValueError, match="`y_reference` is needed"):
        attack.fit(X, y, X)
    with pytest.raises(ValueError, match="at least one record"):
        attack.fit(X[:0], y[:0])


def test_wrong_models(rng):
    X, y = records(rng, 30)
    attack = MembershipInference().fit(X, y)
    with pytest.raises(NotFittedError):
        attack.decision_function(LogisticRegression())
    for wrong in (np.zeros((2, 5)), None, [3.0], LogisticRegression):
        with pytest.raises(TypeError, match="must be a fitted model or a list"):
            attack.decision_function(wrong)
    with pytest.raises(ValueError, match="empty list"):
        attack.decision_function([])
    with pytest.raises(AttackNotApplicableError, match="without `predict_proba`"):
        attack.decision_function(LinearSVC().fit(X, y))
    with pytest.raises(AttackNotApplicableError, match="is a regressor"):
        MembershipInference(statistic="modified_entropy").fit(X, y).decision_function(
            Ridge().fit(X, y)
        )
    with pytest.raises(ValueError, match="knows none of the labels"):
        attack.decision_function(LogisticRegression().fit(X, y.astype(str)))
    with pytest.raises(TypeError, match="needs numbers"):
        MembershipInference().fit(X, y.astype(str)).decision_function(DummyRegressor().fit(X, y))
    several = DecisionTreeClassifier().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one target at a time"):
        attack.decision_function(several)
    with pytest.raises(ValueError, match="sum 1"):
        MembershipInference().fit(numbered(4), [0] * 4).decision_function(
            Fixed(np.full((4, 2), 0.7), [0, 1])
        )
