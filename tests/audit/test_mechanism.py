"""Estimators that do not add the noise they state are found; those that do are not accused."""

import inspect
import warnings
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.hypotheses import model_parameters
from skleak.attacks import BlackBoxAttributeInference
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.noise._checks import fits_needed
from skleak.audit.noise._mechanism import Trained, measured_noise
from skleak.cli import main
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.influence.state import NoiseShape
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
    PrivateSearchCV,
)
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxLeakage, ObjectivePerturbation
from skleak.metrics.verdicts import CONSISTENT, EXCEEDED
from skleak.preprocessing import RowNormClipper


class Planted(PrivateLinearRegression):
    """Fits without noise, and adds the noise of `spoil` to coefficients and intercept."""

    def fit(self, X, y, sample_weight=None):
        scale = self.noise_scale
        self.set_params(noise_scale=0.0)
        super().fit(X, y, sample_weight)
        self.set_params(noise_scale=scale)
        if scale > 0.0:
            noise = scale * self.spoil(np.random.default_rng(self.random_state))
            self.coef_ = self.coef_ + noise[:-1]
            self.intercept_ = self.intercept_ + noise[-1]
        return self

    def spoil(self, generator):
        return generator.normal(size=len(self.coef_) + 1)


class Half(Planted):
    def spoil(self, generator):
        return 0.5 * super().spoil(generator)


class Twice(Planted):
    def spoil(self, generator):
        return 2.0 * super().spoil(generator)


class NoiselessIntercept(Planted):
    def spoil(self, generator):
        noise = super().spoil(generator)
        noise[-1] = 0.0
        return noise


class Replaying(Planted):
    def spoil(self, generator):
        return super().spoil(np.random.default_rng(7))


class Shared(Planted):
    def spoil(self, generator):
        return np.full(len(self.coef_) + 1, generator.normal())


class Heavy(Planted):
    def spoil(self, generator):
        return generator.laplace(size=len(self.coef_) + 1) / np.sqrt(2.0)


class Stale(Planted):
    """Hands out the release of its first fit, whatever it is fitted on."""

    memory: ClassVar[dict[float, Any]] = {}

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.noise_scale > 0.0:
            first = self.memory.setdefault(self.noise_scale, (self.coef_, self.intercept_))
            self.coef_, self.intercept_ = first
        return self


class Nothing(Planted):
    def spoil(self, generator):
        return np.zeros(len(self.coef_) + 1)


def make_data(rng, n=30):
    X = np.column_stack([rng.integers(0, 2, n), rng.normal(size=(n, 2))])
    return X, X @ [1.0, 1.0, -0.5] + rng.normal(size=n)


def audit(model, X, y, **options):
    options = {
        "noise_scales": 0.02,
        "n_releases": 40,
        "secrets": "drawn",
        "bounds": "bayes",
    } | options
    return LeakageAuditor(model, 0, attacks=["prior", "white_box"], random_state=0, **options).fit(
        X, y
    )


def measure(model, X, y, scale, seed=0):
    exact = type(model)(0.0).fit(X, y)
    noiseless = np.append(exact.coef_, exact.intercept_)
    known = trained(model, X, y, noiseless)
    noise, checks = measured_noise(known, scale, np.random.SeedSequence(seed))
    return noise, all(check["passed"] for check in checks)


def trained(model, X, y, noiseless):
    return Trained(model=model, X=X, y=y, weights=None, noiseless=noiseless, noise=NoiseShape())


@pytest.mark.slow
@pytest.mark.parametrize("factor", [("Half", 0.5), ("Twice", 2.0)])
def test_wrong_scale_is_measured(factor, rng):
    name, share = factor
    X, y = make_data(rng)
    noise, as_stated = measure(globals()[name](), X, y, 0.1)
    assert not as_stated
    # Of fifty fits: a relative standard error of a tenth.
    np.testing.assert_allclose(noise, 0.1 * share, rtol=0.5)


@pytest.mark.slow
def test_missing_and_replayed_noise_is_measured(rng):
    X, y = make_data(rng)
    noise, as_stated = measure(NoiselessIntercept(), X, y, 0.1)
    assert not as_stated
    assert noise[-1] == 0.0
    np.testing.assert_allclose(noise[:-1], 0.1, rtol=0.5)
    for estimator in (Replaying, Nothing):
        noise, as_stated = measure(estimator(), X, y, 0.1)
        assert not as_stated
        assert (noise == 0.0).all()


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e6])
@pytest.mark.parametrize(
    "estimator", [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
)
def test_honest_estimators_pass(estimator, scale, rng):
    X, y = make_data(rng)
    if estimator is not PrivateLinearRegression:
        y = (y > 0).astype(int)
    noise, as_stated = measure(estimator(random_state=5), X, y, scale)
    assert as_stated
    np.testing.assert_array_equal(noise, scale)


@pytest.mark.slow
def test_irfil_passes(rng):
    X, y = make_data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(PrivateLinearRegression(reweighting="irfil"), X, y, n_releases=2)


def test_others_are_taken_at_their_word(rng):
    X, y = make_data(rng)
    known = trained(Ridge(), X, y, np.zeros(4))
    noise, checks = measured_noise(known, 0.3, np.random.SeedSequence(0))
    assert not checks
    assert (noise == 0.3).all()
    noise, as_stated = measure(Half(), X, y, 0.0)
    assert as_stated
    assert (noise == 0.0).all()


@pytest.mark.slow
def test_no_false_alarm_of_many(rng):
    """A chance of 1e-6 each: none of a few hundred, also where the fits are few."""
    X, y = make_data(rng, n=8)
    assert all(measure(PrivateLinearRegression(), X, y, 0.1, seed)[1] for seed in range(200))


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", mostly_slow([Half, NoiselessIntercept, Shared, Replaying, Nothing], 0, 2)
)
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
def test_faults_are_reported_and_exceed_the_bound(estimator, secrets, rng):
    X, y = make_data(rng)
    X[:, 0] -= X[:, 0].mean()
    X[:, 0] = X[:, 0] > 0
    options = {"n_releases": 400, "secrets": secrets, "prior": "uniform", "noise_scales": 0.12}
    options["releases"] = "simulated"
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise that it states"):
        auditor = audit(estimator(), X, y, **options)
    table = auditor.results_.set_index("attack")
    # The bound is for the noise that is stated: what an honest estimator is held to.
    options["confidence_level"] = 1.0 - 1e-6  # no luck of a seed
    honest = audit(PrivateLinearRegression(), X, y, **options)
    np.testing.assert_allclose(auditor.results_["bayes"], honest.results_["bayes"], rtol=1e-9)
    judged = honest.results_[~honest.results_["attack"].isin(["prior", "imputation"])]
    assert set(judged["verdict"]) == {"consistent with the bound"}
    if secrets == "drawn":
        assert table.loc["white_box", "verdict"] == EXCEEDED
        if estimator in (Replaying, Nothing):
            assert (auditor.records_["verdict"] == EXCEEDED).any()
    assert table.loc["white_box", "success"] > table.loc["white_box", "bayes"]
    assert table.loc["prior", "verdict"] != EXCEEDED


@pytest.mark.slow
def test_warning_says_where_and_how_much(rng):
    X, y = make_data(rng)
    with pytest.warns(PrivacyLeakWarning, match=r"measured .* 0\.1\d* .* where 0\.3 was") as caught:
        audit(Half(), X, y, noise_scales=[0.0, 0.3], n_releases=2)
    assert len(caught) == 1
    assert caught[0].filename == __file__ or "sklearn" in caught[0].filename


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "name"),
    mostly_slow(
        [
            (Shared, "covariance"),
            (Heavy, "shape"),
            (NoiselessIntercept, "missing"),
            (Stale, "replayed"),
        ],
        0,
    ),
)
def test_planted_faults_are_named_in_the_report(estimator, name, rng):
    """Of five parameters, in a hundred releases."""
    X = np.column_stack([rng.integers(0, 2, 40), rng.normal(size=(40, 3))])
    y = X @ [1.0, 1.0, -0.5, 0.2] + rng.normal(size=40)
    if estimator is Stale:
        estimator.memory.clear()
        estimator(0.3, random_state=1).fit(X[:20], y[:20])
    with pytest.warns(PrivacyLeakWarning, match=f"Checks failed: .*{name}"):
        auditor = audit(estimator(), X, y, noise_scales=0.3, n_releases=2)
    report = auditor.report_
    failed = report.checks[~report.checks["passed"]]
    assert name in set(failed["check"])
    assert set(failed["n_releases"]) == {100}
    assert {"check": name, "passed": False}.items() <= next(
        row for row in report.to_dict()["checks"] if row["check"] == name
    ).items()
    said = "The estimator does not add the noise that it states."
    for text in (report.to_text(full=True), report.to_html(), report.to_json()):
        assert said in " ".join(text.split())


@pytest.mark.slow
def test_one_sentence_where_all_is_well(rng):
    X, y = make_data(rng)
    report = audit(PrivateLinearRegression(), X, y, noise_scales=[0.3, 3.0], n_releases=2).report_
    assert report.checks["passed"].all()
    assert list(report.checks["check"].unique()) == [
        "mean",
        "spread",
        "directions",
        "missing",
        "replayed",
        "covariance",
        "shape",
        "shape_by_parameter",
        "hypotheses",
    ]
    for text in (report.to_text(full=True), report.to_html(), report.to_json()):
        assert "The estimator adds the noise that it states" in " ".join(text.split())


class Released(PrivateLinearRegression):
    """Its coefficients are noisy, and what it hands out is not."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        scale = self.noise_scale
        self._quiet = clone(self).set_params(noise_scale=0.0)
        if scale > 0.0:
            PrivateLinearRegression.fit(self._quiet, X, y, sample_weight)
        return self

    def release(self, *, require_guarantee=False):
        if self.noise_scale == 0.0:
            return super().release()
        return PrivateLinearRegression.release(self._quiet)


class Another(LinearRegression):
    """A private estimator of another maker: normal noise, and a fault on its first coefficient."""

    def __init__(self, noise_scale=0.0, fault="none", random_state=None):
        super().__init__()
        self.noise_scale, self.fault, self.random_state = noise_scale, fault, random_state

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        generator = np.random.default_rng(self.random_state)
        noise = generator.normal(size=self.coef_.size + 1)
        if self.fault == "tenth":
            noise[0] *= 0.1
        elif self.fault == "coin":
            noise[0] = np.sign(noise[0])
        elif self.fault == "some":
            noise[0] *= 0.1 if generator.random() < 0.5 else np.sqrt(1.99)
        elif self.fault == "same":
            noise[0] = noise[1]
        self.coef_ = self.coef_ + self.noise_scale * noise[:-1]
        self.intercept_ = self.intercept_ + self.noise_scale * noise[-1]
        return self


def wide_data(rng, n=200, d=60):
    X = rng.normal(size=(n, d))
    X[:, 0] = rng.integers(0, 2, n)
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@pytest.mark.parametrize(
    ("fault", "checks"),
    mostly_slow(
        [
            ("tenth", {"spread"}),
            ("coin", {"shape_by_parameter"}),
            ("some", {"shape_by_parameter"}),
            ("same", {"covariance"}),
            ("none", set()),
        ],
        0,
        1,
    ),
)
def test_faults_of_the_secrets_coefficient_are_found_among_many(fault, checks, rng):
    """Sixty-one parameters, of which one is what tells the secret."""
    X, y = wide_data(rng)
    auditor = LeakageAuditor(
        Another(fault=fault), 0, attacks=["white_box"], noise_scales=0.5, n_releases=20,
        secrets="actual", records=range(4), bounds="bayes",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        report = auditor.fit(X, y).report_
    failed = set(report.checks["check"][~report.checks["passed"]])
    assert bool(checks) == bool(failed)
    assert checks <= failed
    assert set(report.checks["n_releases"]) == {fits_needed(61, 4)}
    assert report.settings["releases"] == "fitted"
    faults = report.checks.set_index("check")["smallest_fault"]
    assert faults["spread"] >= 0.5
    assert faults["covariance"] <= 0.75
    assert faults["shape_by_parameter"] <= 0.5
    if not failed:
        assert "Found 99 times in 100, and larger faults more often: " in " ".join(report.findings)


@pytest.mark.slow
def test_the_command_line_fails_where_the_noise_is_not_as_stated(tmp_path, rng, monkeypatch):
    X, y = wide_data(rng)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)
    frame["x0"] = frame["x0"].astype(int)
    frame.to_csv(tmp_path / "data.csv", index=False)
    lines = [
        "import numpy as np",
        "from sklearn.linear_model import LinearRegression",
        inspect.getsource(Another),
        *(f"def {name}(): return Another(fault={name!r})" for name in ("none", "tenth", "coin")),
    ]
    (tmp_path / "anothers.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    options = [
        *("audit", str(tmp_path / "data.csv"), "--target", "y", "--sensitive", "x0"),
        *("--noise-scale", "30", "--max-records", "5", "--n-releases", "20", "--quiet"),
        *("--fail-above", "0.9", "--of", "0.5", "--out", str(tmp_path / "audit.json")),
    ]
    assert main([*options, "--model", "anothers:none"]) == 0
    for fault in ("tenth", "coin"):
        assert main([*options, "--model", f"anothers:{fault}"]) == 3


@pytest.mark.slow
def test_what_is_released_is_what_is_compared_and_attacked(rng):
    """Whose coefficients are noisy, and whose release is not."""
    X, y = make_data(rng)
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise"):
        auditor = audit(Released(), X, y, noise_scales=2.0, n_releases=3, prior="uniform")
    found = auditor.report_.checks
    assert {"missing", "replayed"} <= set(found["check"][~found["passed"]])
    played = auditor.results_.set_index("attack").loc["white_box"]
    assert played["success"] == 1.0
    assert played["n_games"] == 3 * 30
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise"):
        members = MembershipAuditor(
            Released(), attacks="exact", noise_scales=2.0, n_releases=4, random_state=0
        ).fit(X, y)
    # Its distance is that of what is handed out.
    off = members.report_.checks
    assert not off["passed"].all()


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"]))
def test_real_fits_of_honest_estimators_keep_the_bound(secrets, rng):
    """Ours, fitted anew in every game, does as well as the exact channel says, and no better."""
    X, y = make_data(rng)
    options = {"noise_scales": 0.3, "prior": "uniform", "secrets": secrets, "n_releases": 40}
    options |= {"confidence_level": 1.0 - 1e-6}
    fitted = audit(PrivateLinearRegression(), X, y, releases="fitted", **options)
    assert fitted.report_.settings["releases"] == "fitted"
    own = fitted.results_.set_index("attack").loc["white_box"]
    assert own["verdict"] == CONSISTENT
    if secrets == "drawn":
        # At the sixth standard error of games that are independent.
        assert fitted.report_.settings["n_fitted"] == 34
        assert own["n_games"] == 34 * 30
        assert abs(own["success"] - own["bayes"]) < 6.0 * np.sqrt(0.25 / own["n_games"])
        assert fitted.records_["success_white_box"].between(0.0, 1.0).all()
    simulated = audit(PrivateLinearRegression(), X, y, **options)
    assert simulated.report_.settings["releases"] == "simulated"


@pytest.mark.slow
@pytest.mark.parametrize("attribute", [1, None, "(target)"])
def test_real_fits_are_played_for_numbers_records_and_targets(attribute, rng):
    X, y = make_data(rng)
    for secrets in ("actual", "drawn") if attribute is not None else ("actual",):
        attacks = "default" if attribute is None else ["prior", "white_box"]
        auditor = LeakageAuditor(
            PrivateLinearRegression(0.05), attribute, attacks=attacks, n_releases=3,
            secrets=secrets, releases="fitted", confidence_level=1.0 - 1e-6, bounds="bayes",
        ).fit(X, y)  # fmt: skip
        assert auditor.report_.settings["releases"] == "fitted"
        assert EXCEEDED not in set(auditor.results_["verdict"])
        played = auditor.results_["n_games"].to_numpy()
        assert (played == 3 * 30).all()


@pytest.mark.slow
def test_real_fits_of_pipelines_whose_preprocessing_is_refitted(rng):
    X, y = make_data(rng)
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.3))
    auditor = audit(
        pipeline, X, y, releases="fitted", refit_preprocessing=True, noise_scales=0.3,
        confidence_level=1.0 - 1e-6, prior="uniform",
    )  # fmt: skip
    own = auditor.results_.set_index("attack").loc["white_box"]
    assert own["verdict"] == CONSISTENT
    assert abs(own["success"] - own["bayes"]) < 6.0 * np.sqrt(0.25 / own["n_games"])


@pytest.mark.slow
def test_fits_do_not_depend_on_the_number_of_jobs_or_on_an_interruption(tmp_path, rng):
    X, y = make_data(rng)
    options = {"noise_scales": 0.3, "n_releases": 3, "random_state": 1}
    first = LeakageAuditor(Planted(), 0, **options).fit(X, y)
    second = LeakageAuditor(Planted(), 0, n_jobs=2, **options).fit(X, y)
    pd.testing.assert_frame_equal(first.results_, second.results_)
    pd.testing.assert_frame_equal(first.report_.checks, second.report_.checks)
    kept = LeakageAuditor(Planted(), 0, checkpoint=tmp_path / "audit.npz", **options)
    kept.fit(X, y)
    again = clone(kept).fit(X, y)
    pd.testing.assert_frame_equal(kept.results_, again.results_)


@pytest.mark.slow
def test_real_fits_need_noise_of_the_estimator(rng):
    X, y = make_data(rng)
    with pytest.raises(AttackNotApplicableError, match="which has no `noise_scale`"):
        LeakageAuditor(Ridge(), 0, releases="fitted").fit(X, y)
    auditor = LeakageAuditor(Ridge(), 0, noise_scales=0.3, n_releases=2).fit(X, y)
    assert auditor.report_.settings["releases"] == "simulated"
    assert auditor.report_.checks.empty


def test_the_shared_draw_is_played(rng):
    """Marginally it is what is stated; all differences of parameters are without noise."""
    X, y = make_data(rng)
    noise, as_stated = measure(Shared(), X, y, 0.1)
    assert not as_stated
    np.testing.assert_allclose(noise @ noise.T, 0.01 * np.ones((4, 4)), rtol=0.5)
    assert np.linalg.matrix_rank(noise @ noise.T) == 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_another_draw_is_what_a_fit_with_that_seed_gives(intercept, n_classes, rng):
    X, y = make_data(rng)
    model = PrivateLinearRegression(0.3, fit_intercept=intercept)
    if n_classes:
        y = np.arange(30) % n_classes
        model = PrivateLogisticRegression(0.3, fit_intercept=intercept)
    fitted = clone(model).set_params(random_state=1).fit(X, y)
    fitted._redraw(5)
    expected = clone(model).set_params(random_state=5).fit(X, y)
    np.testing.assert_array_equal(model_parameters(fitted), model_parameters(expected))


GOALS = [EpsilonDelta(1.0, 1e-6), GaussianDP(2.0)]
SHARED = {"data_norm": 1.0, "public": ("n_samples",), "fit_intercept": False, "alpha": "auto"}
ELSEWHERE = {
    "objective": PrivateLogisticRegression(
        GOALS[0], mechanism="objective", classes=[0, 1], **SHARED
    ),
    "softmax": PrivateLogisticRegression(
        GOALS[0], mechanism="objective", classes=[0, 1, 2], **SHARED
    ),
    "pseudo-Huber": PrivateLinearRegression(
        GOALS[0], mechanism=ObjectivePerturbation(0.1), target_bound=1.0, **SHARED
    ),
    "moments": PrivateLinearRegression(GOALS[0], target_bound=1.0, **SHARED),
}


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(40, 3))
    X[:, 0] = np.arange(40) % 2 / 2.0
    return X, np.clip(X @ [1.0, -2.0, 0.5], -1.0, 1.0)


def _of(name, y):
    edges = {"objective": [0.0], "softmax": [-0.2, 0.3]}.get(name)
    return y if edges is None else np.digitize(y, edges)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_column_is_audited_at_goals_under_their_guarantee(name, small):
    X, y = small[0], _of(name, small[1])
    given = {"n_releases": 3, "records": [0, 1, 2, 3], "random_state": 0}
    model = make_pipeline(RowNormClipper(1.0), ELSEWHERE[name])
    asked = {"attacks": ["prior", "black_box"], "noise_scales": GOALS}
    auditor = LeakageAuditor(model, 0, **asked, **given).fit(X, y)
    table = auditor.results_.query("attack == 'black_box'")
    mu = 1.0 / table["noise_scale"].to_numpy()
    assert mu[0] == pytest.approx(2.0, rel=1e-5)
    assert 0.0 < mu[1] < 1.0
    even = stats.norm.cdf(mu / 2.0)  # of equal odds; those of the other records are nearly so
    assert np.all((table["dp"] >= even) & (table["dp"] < even + 0.01))
    assert_allclose(table["exposure"], 2.0 * stats.norm.cdf(mu / 2.0) - 1.0, rtol=1e-9)
    stated = auditor.report_.settings["goals"]
    assert sorted(stated.values()) == sorted(map(repr, GOALS))
    assert any("1 / mu of the guarantee" in line for line in auditor.report_.assumptions)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_membership_is_audited_at_goals_and_has_no_bound(name, small):
    X, y = small[0], _of(name, small[1])
    given = {"n_releases": 3, "random_state": 0, "attacks": "loss"}
    own, both = (
        MembershipAuditor(ELSEWHERE[name], noise_scales=goals, **given).fit(X, y).results_
        for goals in (None, GOALS)
    )
    assert len(own) == 1
    assert own["noise_scale"][0] == both["noise_scale"].max()
    assert both["dp"].isna().all()
    assert both["exposure"].isna().all()


def test_goals_of_noise_on_the_minimizer_are_their_noise_scales(small):
    X, y = small[0], _of("objective", small[1])
    model = clone(ELSEWHERE["objective"]).set_params(mechanism="output", alpha=0.1)
    given = {"attacks": "prior", "n_releases": 2, "random_state": 0, "bounds": "bayes"}
    auditor = LeakageAuditor(model, 0, noise_scales=GOALS, **given).fit(X, y)
    scales = [clone(model).set_params(noise_scale=goal).fit(X, y).noise_scale_ for goal in GOALS]
    assert_allclose(auditor.results_["noise_scale"], sorted(scales))


def test_a_private_search_is_audited_with_seeds_of_its_own(small):
    X, y = small[0], _of("objective", small[1])
    inner = ELSEWHERE["objective"]
    search = PrivateSearchCV(inner, {"alpha": [0.1]}, GOALS[0], expected_trials=2)
    given = {"attacks": "black_box", "n_releases": 2, "records": [0, 1], "random_state": 0}
    one, two = (LeakageAuditor(search, 0, **given).fit(X, y).results_ for _ in range(2))
    assert one["noise_scale"][0] == pytest.approx(1.0 / search.cost_["composed_mu"])
    pd.testing.assert_frame_equal(one, two)


def test_what_goals_cannot_be_levels_of_says_so(small):
    X, y = small[0], _of("objective", small[1])
    persons = GaussianDP(1.0, rows_per_person=2)
    for wrong in ([0.5], 0.0, [GOALS[0], 1.0], MaxLeakage(1.0), persons):
        auditor = LeakageAuditor(ELSEWHERE["objective"], 0, noise_scales=wrong)
        with pytest.raises(ValueError, match="all of them and about one row"):
            auditor.fit(X, y)
    for auditor in (
        LeakageAuditor(LogisticRegression(), 0),
        MembershipAuditor(LogisticRegression()),
    ):
        with pytest.raises(AttackNotApplicableError, match="Goals as `noise_scales` need"):
            auditor.set_params(noise_scales=GOALS).fit(X, y)
    moments = PrivateMoments(GOALS[0], data_norm=1.0, target_bound=1.0)
    with pytest.raises(AttackNotApplicableError, match="releases sums, and answers nothing"):
        MembershipAuditor(moments).fit(X, small[1])
    attack = BlackBoxAttributeInference(ELSEWHERE["moments"], 0).fit(X, small[1])
    released = moments.set_params(clip=True).fit(X, small[1]).release()
    with pytest.raises(TypeError, match=r"what `regress\(\)` returns"):
        attack.predict(released)
