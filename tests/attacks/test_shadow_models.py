"""Shadow models: balanced training sets, seeds and noise of their own, ledgers, workers."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.accounting import LeakageLedger
from skleak.adversary.records import Records
from skleak.attacks import LikelihoodRatioMembership
from skleak.attacks._membership import balanced_halves, shadow_scores
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.utils._arguments import seeded
from skleak.utils._confidential import without_ledger


class Memory(RegressorMixin, BaseEstimator):
    """Remembers which numbers it was trained on."""

    def fit(self, X, y):
        self.seen_ = set(np.asarray(X)[:, 0].tolist())
        return self

    def predict(self, X):
        return np.array([float(x in self.seen_) for x in np.asarray(X)[:, 0].tolist()])


def reseeded(model, rng):
    return seeded(model, lambda n: rng.integers(2**31, size=n))


def problem(rng, n=40, d=3):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def scores_of(template, X, y, n_models=6, seed=0, **options):
    rng = np.random.default_rng(seed)
    halves = balanced_halves(y, len(y), n_models, rng)
    known = Records(X, y)
    return shadow_scores(template, known, known, None, halves, rng.spawn(n_models), **options)


# Training sets


@pytest.mark.parametrize("n_models", [4, 5, 64])
@pytest.mark.parametrize("n", [2, 3, 10, 31])
def test_halves_are_balanced(n, n_models, rng):
    for strata in (None, rng.integers(0, 3, size=n)):
        halves = balanced_halves(strata, n, n_models, rng)
        assert halves.shape == (n_models, n)
        often = halves.sum(axis=0)
        assert np.all((often == n_models // 2) | (often == (n_models + 1) // 2))
        assert np.all(np.abs(halves.sum(axis=1) - n / 2) <= 0.5)
        np.testing.assert_array_equal(halves[1], ~halves[0])


def test_classes_are_in_every_training_set(rng):
    y = np.array(["rare"] * 2 + ["odd"] * 7 + ["common"] * 40)
    for half in balanced_halves(y, 49, 20, rng):
        for label, count in (("rare", 2), ("odd", 7), ("common", 40)):
            inside = np.sum(y[half] == label)
            assert inside >= 1
            assert abs(inside - count / 2) <= 1.0


def test_halves_are_random(rng):
    halves = balanced_halves(None, 9, 8_000, rng)[::2]
    assert np.all(np.abs(halves.mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(4_000))
    together = (halves.T.astype(float) @ halves) / 4_000
    off = together[~np.eye(9, dtype=bool)]
    # Two records are a pair with probability 1 / 9, and then never in the same half; else they are
    # in it together in one case of four.
    assert np.all(np.abs(off - 2 / 9) < 5 * 0.5 / np.sqrt(4_000))


def test_models_are_trained_on_their_half(rng):
    X, y = np.arange(12.0)[:, None], np.zeros(12)
    halves = balanced_halves(None, 12, 6, rng)
    known, asked = Records(X, y), Records(X[3:7], y[3:7])
    scores = shadow_scores(Memory(), known, asked, None, halves, rng.spawn(6))
    np.testing.assert_array_equal(-scores, halves[:, 3:7])


@pytest.mark.parametrize("reference", [False, True])
def test_the_attack_knows_who_was_trained_on_what(reference):
    X, y = np.arange(20.0)[:, None], np.zeros(20)
    others = (X + 100.0, y) if reference else ()
    attack = LikelihoodRatioMembership(
        Memory(), method="online", n_shadow_models=6, records=[17, 2, 9], random_state=0
    ).fit(X, y, *others)
    np.testing.assert_array_equal(attack.shadow_scores_, -1.0 * attack.trained_on_)
    np.testing.assert_array_equal(attack.trained_on_.sum(axis=0), 3)
    np.testing.assert_array_equal(attack.means_, np.tile([0.0, -1.0], (3, 1)))


@pytest.mark.parametrize("model", [Ridge(0.5), make_pipeline(FunctionTransformer(), Ridge(0.5))])
def test_a_weight_of_two_is_two_copies_of_one_person(model, rng):
    X, _ = problem(rng, n=30)
    y = X[:, 0] + rng.normal(size=30)
    weights = rng.integers(1, 4, size=30)
    halves = balanced_halves(None, 30, 6, rng)
    copies = np.repeat(np.arange(30), weights)
    asked, known = Records(X, y), Records(X, y, weights.astype(float))
    one, other = (
        shadow_scores(model, records, asked, None, own, np.random.default_rng(0).spawn(6))
        for records, own in ((known, halves), (asked.at(copies), halves[:, copies]))
    )
    np.testing.assert_allclose(one, other, atol=1e-10)
    assert not np.allclose(one, scores_of(model, X, y))


# Seeds and noise


def test_every_model_has_its_own_seeds(rng):
    nested = BaggingClassifier(DecisionTreeClassifier(random_state=3), random_state=3)
    template = make_pipeline(StandardScaler(), nested)
    seeds = []
    for generator in rng.spawn(5):
        model = reseeded(template, generator)
        seeds += [model[-1].random_state, model[-1].estimator.random_state]
    assert len(set(seeds)) == 10
    assert template[-1].random_state == 3
    generators = [np.random.default_rng(7) for _ in range(2)]
    twins = [reseeded(template, generator)[-1].random_state for generator in generators]
    assert twins[0] == twins[1]


def test_an_estimator_without_seeds(rng):
    X, y = problem(rng)
    assert reseeded(Ridge(), rng).random_state is not None
    np.testing.assert_array_equal(scores_of(Memory(), X, y), scores_of(Memory(), X, y))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 0])
def test_private_models_draw_fresh_noise(seed, rng):
    """Even under a fixed seed: scores spread as much as those of releases."""
    X, _ = problem(rng, n=60)
    target = X[:, 0] + rng.normal(size=60)
    model = PrivateLinearRegression(5.0, random_state=seed)
    halves = np.tile(np.arange(60) < 30, (200, 1))
    known = Records(X, target)
    scores = shadow_scores(model, known, known, None, halves, rng.spawn(200))
    expected = 5.0 * np.sqrt((X**2).sum(axis=1) + 1.0)
    ratio = scores.std(axis=0, ddof=1) / expected
    assert abs(np.median(ratio) - 1.0) < 0.1


def test_the_ledger_is_not_charged(tmp_path, rng):
    X, y = problem(rng)
    ledger = LeakageLedger(tmp_path / "ledger.sqlite")
    private = PrivateLogisticRegression(0.1, ledger=ledger)
    for estimator in (
        private,
        make_pipeline(StandardScaler(), clone(private)),
        GridSearchCV(clone(private), {"alpha": [0.1, 1.0]}, cv=2),
        PrivateLogisticRegression(0.1, ledger=tmp_path / "other.sqlite"),
    ):
        method = LikelihoodRatioMembership(estimator, method="online", n_shadow_models=4)
        method.fit(X, y)
    assert ledger.datasets() == []
    assert not (tmp_path / "other.sqlite").exists()
    assert private.ledger is ledger


def test_the_estimator_is_left_alone(rng):
    X, y = problem(rng)
    model = RandomForestClassifier(5, random_state=1).fit(X, y)
    before = model.predict_proba(X)
    attack = LikelihoodRatioMembership(model, n_shadow_models=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.random_state == 1
    assert attack.estimator is model


def test_released_models_cannot_be_trained_anew(rng):
    X, y = problem(rng)
    with pytest.warns(PrivacyLeakWarning):
        released = PrivateLogisticRegression(0.1, random_state=0).fit(X, y).release()
    with pytest.raises(AttackNotApplicableError, match="released model"):
        LikelihoodRatioMembership(make_pipeline(StandardScaler(), released)).fit(X, y)


def test_frozen_preprocessing_is_used_as_it_is(rng):
    X, y = problem(rng)
    scaler = StandardScaler().fit(X + 5.0)
    frozen = make_pipeline(FrozenEstimator(scaler), LogisticRegression())
    np.testing.assert_allclose(
        scores_of(without_ledger(frozen), X, y),
        scores_of(LogisticRegression(), scaler.transform(X), y),
        atol=1e-6,
    )


# Runs


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_jobs(rng):
    X, y = problem(rng)
    template = RandomForestClassifier(3)
    alone = scores_of(template, X, y)
    with parallel_config("loky"):
        np.testing.assert_array_equal(scores_of(template, X, y, n_jobs=2), alone)
    with parallel_config("threading"):
        np.testing.assert_array_equal(scores_of(template, X, y, n_jobs=2), alone)
    assert np.any(scores_of(template, X, y, seed=1) != alone)


def test_a_progress_bar_on_demand(rng, capsys):
    X, y = problem(rng)
    scores_of(LogisticRegression(), X, y)
    assert capsys.readouterr().err == ""
    scores_of(LogisticRegression(), X, y, verbose=1)
    assert "shadow models: 100%" in capsys.readouterr().err


def test_a_label_that_a_model_has_not_seen(rng):
    X = rng.normal(size=(21, 2))
    y = np.array(["a", "b"] * 10 + ["once"])
    halves = balanced_halves(y, 21, 8, rng)
    template, generators, known = LogisticRegression(), rng.spawn(8), Records(X, y)
    for asked in (np.arange(21), [20]):
        scores = shadow_scores(template, known, known.at(asked), None, halves, generators)
        np.testing.assert_array_equal(np.isneginf(scores[:, -1]), ~halves[:, 20])


def test_failures_are_explained(rng):
    X = rng.normal(size=(10, 2))
    with pytest.raises(ValueError, match=r"trained on 5 of the 10 records failed.*at least 2"):
        scores_of(LogisticRegression(), X, np.zeros(10, dtype=int))
    codes = np.arange(10)[:, None].astype(float)
    pipe = make_pipeline(make_column_transformer((OneHotEncoder(), [0])), LogisticRegression())
    with pytest.raises(ValueError, match=r"unknown categories.*pass more of them"):
        scores_of(pipe, codes, np.arange(10) % 2)
