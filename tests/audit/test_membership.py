"""Membership as the secret: games, bounds, attacks and planted faults."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_wine,
    make_classification,
    make_friedman1,
)
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.attacks import LikelihoodRatioMembership, MembershipInference
from skleak.audit import MembershipAuditor
from skleak.audit.games._game import constant_score
from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.metrics import binomial_interval
from skleak.metrics.verdicts import CONSISTENT, EXCEEDED, VACUOUS
from skleak.report.audit._results import best_rows


def audit(model, X, y, *test, **options):
    options = {"n_releases": 20, "random_state": 0} | options
    return MembershipAuditor(model, **options).fit(X, y, *test)


@pytest.fixture
def binary(rng):
    X = rng.normal(size=(60, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, (X @ [2.0, -1.0, 0.5] + 0.5 * rng.normal(size=60) > 0.0).astype(int)


@pytest.fixture
def noise_labels(rng):
    """Labels that no record tells: whatever fits them has learnt them by heart."""
    return rng.normal(size=(80, 4)), rng.choice(["no", "yes"], size=80)


def row(auditor, attack, noise=None):
    table = auditor.results_[auditor.results_["attack"] == attack]
    table = table if noise is None else table[table["noise_scale"] == noise]
    assert len(table) == 1
    return table.iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", mostly_slow([PrivateLinearRegression, PrivateLogisticRegression], 1)
)
@pytest.mark.parametrize("prior", mostly_slow([0.5, 0.3], 1))
def test_drawn_is_the_exact_test(model, prior, binary):
    X, y = binary
    noise = [0.05, 0.5]
    # Verdicts: one false alarm in 10,000 audits.
    options = {"n_releases": 100, "prior": prior, "confidence_level": 0.9999}
    auditor = audit(model(), X, y, secrets="drawn", noise_scales=noise, **options)
    exact = LikelihoodRatioMembership(model(), prior=prior).fit(X, y)
    for level in noise:
        found = row(auditor, "exact", level)
        assert np.isclose(found["bayes"], exact.expected_score(level).mean(), atol=1e-6)
        # Five standard errors; games about different records spread less than a binomial.
        error = np.sqrt(found["bayes"] * (1.0 - found["bayes"]) / found["n_games"])
        assert abs(found["success"] - found["bayes"]) < 5 * error
        ends = binomial_interval(found["success"] * 6000, 6000, 0.9999)[1:]
        np.testing.assert_allclose(found[["success_low", "success_high"]].astype(float), ends)
        assert found["baseline"] == max(prior, 1.0 - prior)
        assert found["verdict"] == CONSISTENT
        others = ["tradeoff", "fano", "information_projection", "renyi_projection"]
        assert (found[others] >= found["bayes"] - 1e-9).all()
    records = auditor.records_
    assert len(records) == 120
    np.testing.assert_allclose(
        records.query("noise_scale == 0.5")["bayes"], exact.expected_score(0.5), atol=1e-6
    )
    np.testing.assert_allclose(
        records.query("noise_scale == 0.5")["distance"], exact.distances_ / 0.5, rtol=1e-6
    )
    assert (records["verdict"] == CONSISTENT).all()


@pytest.mark.slow
def test_drawn_rates_are_exact_where_records_are_alike(rng):
    """Of one target there is one threshold: the power of the test at one false alarm in 100."""
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    auditor = audit(
        PrivateLinearRegression(),
        X,
        y,
        secrets="drawn",
        noise_scales=0.02,
        n_releases=2000,
        records=[3],
        bounds="bayes",
    )
    exact = LikelihoodRatioMembership(PrivateLinearRegression(), records=[3]).fit(X, y)
    power = stats.norm.cdf(stats.norm.ppf(0.01) + exact.distances_[0] / 0.02)
    found = row(auditor, "exact")
    assert found["tpr_at_1pct_fpr_low"] - 0.05 <= power <= found["tpr_at_1pct_fpr_high"] + 0.05
    assert found["n_games"] == 2000


@pytest.mark.slow
def test_drawn_attacks_on_models_stay_below(binary):
    X, y = binary
    auditor = audit(
        PrivateLogisticRegression(alpha=1e-3),
        X[:40],
        y[:40],
        X[40:],
        y[40:],
        secrets="drawn",
        noise_scales=[0.5],
        attacks=["exact", "loss", MembershipInference(statistic="modified_entropy")],
    )
    assert set(auditor.attacks_) == {"exact", "loss", "MembershipInference"}
    for name in ("loss", "MembershipInference"):
        assert row(auditor, name)["verdict"] == CONSISTENT
        assert row(auditor, name)["n_games"] == 800
        assert np.isnan(auditor.records_[f"success_{name}"]).all()
    assert auditor.report_.settings["utility_data"] == "test records"


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    mostly_slow([PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor], 0),
)
@pytest.mark.parametrize("prior", mostly_slow([0.5, 0.35], 1))
def test_the_exact_attack_reaches_bayes(model, prior, binary):
    X, y = binary
    auditor = audit(model(), X, y, noise_scales=0.2, n_releases=60, prior=prior)
    found = row(auditor, "exact")
    assert found["success_low"] <= found["bayes"] <= found["success_high"]
    assert abs(found["success"] - found["bayes"]) < 0.03
    assert (auditor.results_["verdict"] == CONSISTENT).all()


@pytest.mark.slow
def test_bayes_is_the_mean_over_all_training_sets(rng):
    """Against every subset of a few records, weighted by its probability."""
    X, y = rng.normal(size=(8, 1)), rng.normal(size=8)
    X_always, y_always = rng.normal(size=(12, 1)), rng.normal(size=12)
    X, y = np.r_[X, X_always], np.r_[y, y_always]
    model, q, noise = PrivateLinearRegression(alpha=0.1), 0.4, 0.1
    auditor = audit(
        model,
        X,
        y,
        X,
        y,
        noise_scales=noise,
        prior=q,
        records=slice(8),
        n_releases=400,
        attacks="exact",
    )
    expected = np.zeros(8)
    for code in range(1 << 8):
        inside = np.array([bool(code >> i & 1) for i in range(8)])
        rows = np.r_[np.flatnonzero(inside), np.arange(8, 20)]
        if not inside.any():
            continue
        attack = LikelihoodRatioMembership(model, prior=q, records=np.arange(inside.sum()))
        success = attack.fit(X[rows], y[rows]).expected_score(noise)
        weight = q ** (inside.sum() - 1) * (1.0 - q) ** (8 - inside.sum())
        expected[inside] += weight * success
    records = auditor.records_
    np.testing.assert_allclose(records["bayes"], expected, atol=0.01)
    assert abs(row(auditor, "exact")["bayes"] - expected.mean()) < 0.005


class Quiet(PrivateLogisticRegression):
    """Adds half the noise that it states."""

    def fit(self, X, y, sample_weight=None):
        stated = self.noise_scale
        self.noise_scale = 0.5 * stated
        super().fit(X, y, sample_weight)
        self.noise_scale = self.noise_scale_ = stated
        return self

    def _confidential_state(self):
        return super()._confidential_state().at_noise(self.noise_scale)


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 1))
def test_half_the_noise_is_found(secrets, binary):
    X, y = binary
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise"):
        auditor = audit(
            Quiet(alpha=0.01),
            X,
            y,
            secrets=secrets,
            noise_scales=[0.3],
            n_releases=100,
            attacks="exact",
        )
    assert row(auditor, "exact")["verdict"] == EXCEEDED
    choice = auditor.report_.decision()
    assert (choice["failed"], choice["passes"]) == (True, False)
    # Of secrets as they are the prior may be at fault; of drawn ones it is the prior of the bound.
    assert choice["contradicted"] == (secrets == "drawn")
    assert np.isnan([choice["largest"], choice["found_at_1pct"]]).all()


class Peeks:
    """Reads the secret: the members of all trainings."""

    seen: list

    def fit(self, X, y, X_reference=None, y_reference=None):
        self.X_ = X
        return self

    def predict(self, model):
        return np.isin(self.X_[:, 0], model.rows_).astype(int)


class Remembers(PrivateLogisticRegression):
    """Releases its training records."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.rows_ = X[:, 0].copy()
        return self

    def release(self):
        released = super().release()
        released.rows_ = self.rows_
        return released


@pytest.mark.slow
def test_an_attack_that_reads_the_secret_is_found(binary):
    auditor = audit(Remembers(), *binary, noise_scales=[1.0], attacks={"spy": Peeks()})
    found = row(auditor, "spy")
    assert found["success"] == 1.0
    assert found["verdict"] == EXCEEDED
    assert np.isnan(found["auc"])
    assert found["bayes"] < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 1))
def test_differential_privacy_is_above_bayes(secrets, binary):
    auditor = audit(
        PrivateLogisticRegression(alpha=0.1, fit_intercept=False, data_norm=1.0 + 1e-9),
        *binary,
        secrets=secrets,
        noise_scales=[0.0, 0.2, 1.0, 5.0],
        n_releases=10,
    )
    table = auditor.results_.drop_duplicates("noise_scale")
    assert np.isnan(table["dp"].iloc[0])
    assert (table["dp"].iloc[1:] >= table["bayes"].iloc[1:]).all()
    assert table["dp"].iloc[-1] < 0.7
    chosen = table.set_index("noise_scale")["dp"].loc[auditor.report_.decision()["noise"]]
    assert auditor.report_._said["guarantee"] == chosen


@pytest.mark.slow
def test_without_a_promise_there_is_no_bound_from_differential_privacy(binary):
    auditor = audit(PrivateLogisticRegression(), *binary, noise_scales=1.0, n_releases=4)
    assert np.isnan(auditor.results_["dp"]).all()
    assert np.isnan(auditor.report_._said["guarantee"])


@pytest.mark.slow
def test_a_tree_has_learnt_by_heart(noise_labels):
    auditor = audit(DecisionTreeClassifier(), *noise_labels, n_releases=40)
    found = row(auditor, "loss")
    assert found["lower_bound"] > 0.65
    assert found["success"] >= found["lower_bound"]
    assert abs(found["success"] - 0.75) < 0.05
    assert abs(found["gap"] - 0.5) < 0.1
    assert found["gap_low"] < found["gap"] < found["gap_high"]
    assert found["verdict"] == VACUOUS
    assert np.isnan(found[["dp", "bayes"]].astype(float)).all()
    assert set(auditor.results_["attack"]) == {"loss", "likelihood_ratio"}


@pytest.mark.slow
def test_a_constant_model_tells_nothing(noise_labels):
    model = DummyClassifier(strategy="constant", constant="yes")
    auditor = audit(model, *noise_labels, n_releases=30)
    assert (auditor.results_["success_low"] <= 0.5).all()
    assert (auditor.results_["success_high"] >= 0.5).all()
    assert (auditor.results_["lower_bound"] == 0.5).all()
    assert np.allclose(auditor.results_["auc"], 0.5, atol=0.03)


@pytest.mark.slow
def test_a_better_attack_than_those_played_is_known(noise_labels):
    class Blind:
        def fit(self, X, y, X_reference=None, y_reference=None):
            self.n_ = len(y)
            return self

        def predict(self, model):
            return np.zeros(self.n_, dtype=int)

    auditor = audit(DecisionTreeClassifier(), *noise_labels, n_releases=80, attacks=[Blind()])
    found = row(auditor, "Blind")
    assert found["lower_bound"] > found["success_high"]
    gap = auditor.report_._said["gap"]
    assert gap["floor"] > gap["reached"]


@pytest.mark.slow
@pytest.mark.parametrize("test_records", [True, False])
def test_regressors(test_records, rng):
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=120)
    test = (X[80:], y[80:]) if test_records else ()
    attacks = ["loss", "likelihood", "likelihood_ratio"]
    auditor = audit(DecisionTreeRegressor(), X[:80], y[:80], *test, attacks=attacks)
    # No error at all on members, and some on others: whoever looks at it is always right.
    for attack in ("loss", "likelihood_ratio"):
        assert (row(auditor, attack)[["success", "tpr_at_1pct_fpr", "auc"]] == 1.0).all()
    assert row(auditor, "likelihood")["success"] > 0.6
    assert (auditor.results_["lower_bound"] > 0.75).all()
    assert auditor.report_.settings["gap_loss"] == "clipped_squared"
    assert auditor.report_.settings["n_reference"] == (40 if test_records else 20)


@pytest.mark.slow
def test_a_ridge_leaks_little(rng):
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=120)
    auditor = audit(Ridge(alpha=10.0), X, y, n_releases=30)
    # A record moves its own residual by about the root of its leverage, 4 / 45, in units of what
    # its prediction varies by: whoever knows its laws is right in Phi(0.15) = 56 % of cases.
    assert (auditor.results_["success_low"] < 0.57).all()
    assert (auditor.results_["lower_bound"] < 0.55).all()


@pytest.mark.slow
def test_networks(noise_labels):
    model = MLPClassifier((24,), solver="lbfgs", alpha=0.0, max_iter=2000, max_fun=100_000)
    attacks = ["loss", "gradient_norm", "likelihood_ratio"]
    auditor = audit(model, *noise_labels, n_releases=12, attacks=attacks)
    assert (auditor.results_["success"] > 0.6).all()


@pytest.fixture
def frame(rng):
    color = rng.choice(["red", "green", "blue"], size=90)
    X = pd.DataFrame({"color": color, "size": rng.normal(size=90)})
    X["grade"] = pd.Categorical(rng.choice(["a", "b"], size=90))
    return X, np.where(X["size"] + (color == "red") + rng.normal(size=90) > 0.0, "up", "down")


def pipeline(model):
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["color", "grade"]),
        remainder=StandardScaler(),
    )
    return make_pipeline(encode, model)


@pytest.mark.slow
@pytest.mark.parametrize("refit", mostly_slow([True, False], 0))
@pytest.mark.parametrize("model", [LogisticRegression(), PrivateLogisticRegression(noise_scale=1)])
def test_pipelines_on_frames(refit, model, frame):
    X, y = frame
    auditor = audit(
        pipeline(model),
        X[:60],
        y[:60],
        X[60:],
        y[60:],
        n_releases=10,
        refit_preprocessing=refit,
        attacks=["loss", "likelihood_ratio", MembershipInference()],
    )
    exact = not refit and isinstance(model, PrivateLogisticRegression)
    assert auditor.results_["bayes"].notna().all() == exact
    assert auditor.report_.settings["preprocessing"] == ("refitted" if refit else "public")
    assert bool(auditor.report_.settings["exact_test"]) is not exact
    assert list(auditor.feature_names_in_) == ["color", "size", "grade"]


@pytest.mark.slow
def test_public_preprocessing_is_fitted_once(frame):
    X, y = frame
    model = pipeline(PrivateLogisticRegression(noise_scale=0.5))
    raw = audit(model, X, y, n_releases=5, attacks=["exact"])
    prepared = audit(
        PrivateLogisticRegression(noise_scale=0.5),
        model[0].fit_transform(X),
        y,
        n_releases=5,
        attacks=["exact"],
    )
    pd.testing.assert_frame_equal(raw.results_, prepared.results_)


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels",
    mostly_slow(
        [
            lambda codes: codes == 1,
            lambda codes: np.array(["no", "yes"])[codes],
            lambda codes: np.array(["no", "yes"], dtype=object)[codes],
            lambda codes: codes + 1,
            lambda codes: pd.Categorical.from_codes(codes, ["no", "yes"]),
        ],
        1,
        4,
    ),
)
def test_codings_of_labels_do_not_matter(labels, binary):
    X, codes = binary
    options = {"noise_scales": 0.3, "n_releases": 8}
    one = audit(PrivateLogisticRegression(), X, codes, **options)
    other = audit(PrivateLogisticRegression(), X, labels(codes), **options)
    pd.testing.assert_frame_equal(one.results_, other.results_)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    mostly_slow(
        [
            PrivateLogisticRegression(noise_scale=0.5),
            PrivateLogisticRegression(noise_scale=0.5, reweighting="irfil"),
            PrivateLogisticRegression(noise_scale=0.5, reweighting="total"),
            PrivateLinearRegression(
                noise_scale=0.5, noise_covariance=np.diag([1.0, 2.0, 1.0, 1.0])
            ),
            PrivateLinearRegression(noise_scale=0.5, noise_covariance="curvature"),
        ],
        0,
        4,
    ),
    ids=["multinomial", "irfil", "total", "covariance", "curvature"],
)
def test_private_models_without_an_exact_test(model, rng):
    X = rng.normal(size=(60, 3))
    y = np.argmax(X, axis=1) if model.__class__ is PrivateLogisticRegression else X[:, 0]
    if model.reweighting is not None:
        y = (y > 0).astype(int)
    auditor = audit(model, X, y, n_releases=8)
    assert "exact" not in set(auditor.results_["attack"])
    assert np.isnan(auditor.results_["bayes"]).all()
    assert auditor.report_.settings["exact_test"]
    with pytest.raises(ValueError, match="needs the exact test"):
        audit(model, X, y, secrets="drawn")
    with pytest.raises(ValueError, match="'exact' is not known for this estimator"):
        audit(model, X, y, attacks="exact")


@pytest.mark.slow
def test_many_classes_have_a_bound_from_differential_privacy(rng):
    X = rng.normal(size=(80, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = PrivateLogisticRegression(alpha=0.2, fit_intercept=False, data_norm=1.001)
    auditor = audit(model, X, np.argmax(X, axis=1), noise_scales=[2.0], n_releases=10)
    assert auditor.results_["dp"].notna().all()
    assert (auditor.results_["verdict"] == CONSISTENT).all()
    assert "modified_entropy" in set(auditor.results_["attack"])


@pytest.mark.slow
def test_noise_is_added_to_models_that_have_coefficients(noise_labels):
    X, y = noise_labels
    auditor = audit(LogisticRegression(C=1e4), X, y, noise_scales=[0.0, 1.0, 100.0])
    utility = auditor.results_.drop_duplicates("noise_scale")["utility"]
    assert len(utility) == 3
    gap = auditor.results_.drop_duplicates("noise_scale")["gap"].to_numpy()
    assert gap[0] > abs(gap[2])
    with pytest.raises(ValueError, match="has no `coef_` after `fit`"):
        audit(DecisionTreeClassifier(), X, y, noise_scales=[0.0, 1.0])


@pytest.mark.slow
def test_members_are_the_same_at_all_noise_levels(binary):
    X, y = binary
    options = {"n_releases": 6, "attacks": ["exact"]}
    one = audit(PrivateLogisticRegression(), X, y, noise_scales=[0.3], **options)
    two = audit(PrivateLogisticRegression(), X, y, noise_scales=[0.1, 0.3], **options)
    same = ["success", "bayes", "gap", "utility", "auc", "n_games"]
    assert (row(one, "exact")[same] == row(two, "exact", 0.3)[same]).all()


@pytest.mark.slow
def test_candidates_that_are_no_targets_are_always_trained_on(binary):
    X, y = binary

    class Counts(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            assert np.isin(rest, X[:, 0]).all()
            assert len(X) < 60
            return self

        def predict(self, X):
            return np.full(len(X), self.classes_[0])

        def predict_proba(self, X):
            return np.full((len(X), len(self.classes_)), 1.0 / len(self.classes_))

    rest = X[20:, 0]
    auditor = audit(Counts(), X, y, records=slice(20))
    assert auditor.report_.settings["n_always"] == 40
    assert list(auditor.records_["record"]) == list(range(20))
    assert (auditor.records_["n_games"] <= 20).all()
    assert auditor.records_["n_games"].sum() == 20 * 15


@pytest.mark.slow
@pytest.mark.parametrize("prior", mostly_slow([0.25, 0.75], 0))
def test_the_prior_is_the_share_of_members(prior, noise_labels):
    options = {"prior": prior, "attacks": "loss", "n_releases": 40}
    X, y = noise_labels
    found = row(audit(DecisionTreeRegressor(), X, X.sum(axis=1), **options), "loss")
    assert found["baseline"] == 0.75
    assert found["success"] > 0.95
    assert np.isclose(found["advantage"], (found["success"] - 0.75) / 0.25)
    # Half of the others are right by chance: with few members that gives nobody away.
    found = row(audit(DecisionTreeClassifier(), X, y, **options), "loss")
    assert abs(found["success"] - (0.75 if prior < 0.5 else 0.875)) < 0.05


@pytest.mark.parametrize("n_releases", mostly_slow([2, 3, 5, 7]))
def test_few_releases_give_away_who_is_given_away(noise_labels, n_releases):
    """A tree that fits every member without error: one threshold tells members from others."""
    X, _ = noise_labels
    auditor = audit(DecisionTreeRegressor(), X, X[:, 0] ** 2, n_releases=n_releases)
    loss = row(auditor, "loss")
    assert loss["success"] > 0.99
    assert loss["success_low"] > (0.8 if n_releases > 2 else 0.1)
    assert best_rows(auditor.report_)["attack"].iloc[0] in ("loss", "likelihood_ratio")


def test_a_single_release_is_calibrated_on_reference_records(noise_labels):
    X, _ = noise_labels
    one = audit(DecisionTreeRegressor(), X, X[:, 0] ** 2, n_releases=1)
    assert one.results_["success_low"].iloc[0] < 0.5
    assert one.results_["lower_bound"].iloc[0] == 0.5


@pytest.mark.slow
def test_a_seed_that_is_fixed_in_the_estimator_is_drawn_anew(noise_labels):
    X, y = noise_labels
    free, fixed = (
        audit(DecisionTreeClassifier(max_features=1, random_state=seed), X, y).results_
        for seed in (None, 5)
    )
    pd.testing.assert_frame_equal(free, fixed)


@pytest.mark.slow
def test_no_ledger_is_charged(binary, tmp_path):
    path = tmp_path / "ledger.json"
    model = PrivateLogisticRegression(noise_scale=0.5, ledger=path, ledger_dataset="people")
    audit(model, *binary, n_releases=3)
    audit(model, *binary, n_releases=3, secrets="drawn")
    assert not path.exists()


@pytest.mark.slow
def test_verdicts_are_right(rng):
    """The exact attack reaches its bound: only chance takes it beyond, in 5 of 100 audits."""
    exceeded = 0
    for seed in range(100):
        X = rng.normal(size=(16, 2))
        y = X[:, 0] + rng.normal(size=16)
        options = {"attacks": "exact", "n_releases": 15, "random_state": seed}
        auditor = audit(PrivateLinearRegression(noise_scale=0.3), X, y, **options)
        found = row(auditor, "exact")
        exceeded += found["verdict"] == EXCEEDED
    assert exceeded <= 9


@pytest.mark.exhaustive
@pytest.mark.slow
def test_what_is_surely_reached_is_below_the_best_attack(rng):
    """Where the best attack is known, at every noise level, in 30 problems."""
    for seed in range(30):
        # So many that no release will lack a class, without which nothing can be trained.
        X = rng.normal(size=(60, 16))
        y = rng.integers(0, 2, size=60)
        auditor = audit(
            PrivateLogisticRegression(alpha=1e-3),
            X,
            y,
            noise_scales=[0.05, 0.5, 5.0],
            attacks="exact",
            n_releases=20,
            random_state=seed,
            confidence_level=0.999,
        )
        table = auditor.results_
        assert (table["lower_bound"] <= table["bayes"] + 0.02).all()
        assert table["lower_bound"].iloc[0] > 0.5


def gain_of_the_ratio(model, X, y, seed):
    """By how much its areas and rates exceed those of the loss, and how exact an audit is.

    Beyond the audit's own interval it must not lose.
    """
    options = {"attacks": ["loss", "likelihood_ratio"], "random_state": seed, "n_releases": 20}
    auditor = audit(model, X, y, **options)
    loss, ratio = row(auditor, "loss"), row(auditor, "likelihood_ratio")
    for name in ("success", "tpr_at_1pct_fpr"):
        assert ratio[f"{name}_high"] >= loss[name]
    gain = [ratio[name] - loss[name] for name in ("auc", "tpr_at_1pct_fpr", "success")]
    return [*gain, 0.5 * (ratio["success_high"] - ratio["success_low"])]


def assert_no_loss(gains):
    """Mean gains over audits of several seeds are not negative beyond the interval of a mean.

    The interval is that of the success of one attack; differences of two attacks on the same
    releases, and areas, spread less.
    """
    *mean, half = np.mean(gains, axis=0)
    assert np.all(np.array(mean) > -half / np.sqrt(len(gains)))


FOUR = {
    "forest": (RandomForestClassifier(15), RandomForestRegressor(15)),
    "tree": (DecisionTreeClassifier(), DecisionTreeRegressor()),
    "neighbors": (KNeighborsClassifier(), KNeighborsRegressor()),
    "boosting": (GradientBoostingClassifier(n_estimators=15), GradientBoostingRegressor()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(FOUR, 1))
def test_the_likelihood_ratio_does_not_lose_to_the_loss(name):
    """Nor beyond the audit's own 95 % interval in any audit, nor on average over three."""
    X, y = make_classification(80, 8, n_informative=5, flip_y=0.2, random_state=0)
    gains = [gain_of_the_ratio(FOUR[name][0], X, y, seed) for seed in range(3)]
    assert_no_loss(gains)
    # A forest's odds are infinite for many members: what they count as decides whether it sees any.
    if name == "forest":
        assert np.mean(gains, axis=0)[0] > 0.03
    # All of a tree's members have the best score: the ratio cannot be right less often.
    if name == "tree":
        assert np.mean(gains, axis=0)[2] > -1e-3


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("name", FOUR)
def test_the_likelihood_ratio_does_not_lose_to_the_loss_on_real_data(name, task):
    if task == "numbers":
        tables = [load_diabetes(return_X_y=True), make_friedman1(200, noise=2.0, random_state=0)]
    else:
        tables = [load_breast_cancer(return_X_y=True), load_wine(return_X_y=True)]
    model = FOUR[name][task == "numbers"]
    for X, y in tables:
        rows = np.random.default_rng(0).permutation(len(y))[:250]
        assert_no_loss([gain_of_the_ratio(model, X[rows], y[rows], seed) for seed in range(4)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    mostly_slow(
        [KNeighborsClassifier(1), KNeighborsRegressor(1), DecisionTreeRegressor(max_depth=4)], 2
    ),
)
def test_the_likelihood_ratio_copes_with_ties_and_copies(model, rng):
    """Records of few values, many of them copies, of which any member hides the others."""
    X = rng.integers(0, 3, size=(90, 3)).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=90) > 3.0).astype(int)
    assert_no_loss([gain_of_the_ratio(model, X, y, seed) for seed in range(3)])


@pytest.mark.slow
def test_a_utility_that_is_not_defined_in_some_releases_is_the_mean_of_the_others(rng):
    """Nothing is explained of counts that are all equal, as few that were held out can be."""
    X = rng.normal(size=(40, 2))
    y = (np.arange(40) % 8 == 0).astype(int)
    options = {"attacks": "loss", "noise_scales": 0.1, "n_releases": 12, "records": np.arange(12)}
    auditor = audit(PrivatePoissonRegressor(alpha=0.1), X, y, **options)
    assert np.isfinite(auditor.results_["utility"]).all()
    assert np.isfinite(auditor.report_.settings["noiseless_utility"])
    auditor = audit(PrivatePoissonRegressor(alpha=0.1), X, np.ones(40, dtype=int), **options)
    assert auditor.results_["utility"].isna().all()
    choice = auditor.report_.decision()
    assert np.isnan([choice["levels"][0]["utility"], choice["smallest"]["constant_utility"]]).all()
    assert np.isnan(constant_score(PrivatePoissonRegressor(), np.zeros(3), np.arange(4)))


@pytest.mark.slow
def test_distances_are_the_largest_of_all_releases(rng):
    """Whom one training set hides another gives away: the worst that was played counts."""
    seen, model = [], PrivateLinearRegression(alpha=0.1)

    class Notes(Peeks):
        def predict(self, model):
            seen.append(np.isin(self.X_[:, 0], model.rows_))
            return np.zeros(len(self.X_), dtype=int)

    class Open(PrivateLinearRegression):
        def fit(self, X, y, sample_weight=None):
            self.rows_ = X[:, 0].copy()
            return super().fit(X, y, sample_weight)

        def release(self):
            released = super().release()
            released.rows_ = self.rows_
            return released

    X, y = rng.normal(size=(10, 2)), rng.normal(size=10)
    options = {"attacks": {"exact": "exact", "notes": Notes()}, "n_releases": 3}
    auditor = audit(Open(alpha=0.1), X, y, noise_scales=0.5, **options)
    expected = np.zeros((len(seen), 10))
    for found, inside in zip(expected, seen, strict=True):
        for i in range(10):
            rows = np.r_[i, np.flatnonzero(inside & (np.arange(10) != i))]
            exact = LikelihoodRatioMembership(model, records=[0]).fit(X[rows], y[rows])
            found[i] = exact.distances_[0] / 0.5
    assert (np.ptp(expected, axis=0) > 0.0).all()
    records = auditor.records_
    np.testing.assert_allclose(records["distance"], expected.max(axis=0), rtol=1e-6)
    gains = 2.0 * stats.norm.cdf(records["distance"] / 2.0) - 1.0
    for name in ("exposure", "advantage_any_prior"):
        np.testing.assert_allclose(records[name], gains)
    power = stats.norm.cdf(stats.norm.ppf(0.01) + records["distance"])
    np.testing.assert_allclose(records["found_at_1pct"], power)
