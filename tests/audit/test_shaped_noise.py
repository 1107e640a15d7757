"""Audits of noise whose covariance follows the data: every value of a secret has its own noise."""

import numpy as np
import pandas as pd
import pytest
from helpers import HalfNoise, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.attacks import (
    BlackBoxAttributeInference,
    InformedAttributeInference,
    WhiteBoxAttributeInference,
)
from skleak.audit import LeakageAuditor
from skleak.audit.games._secret import BOUNDS, check_bounds, success_bounds
from skleak.audit.games._trials import Level, play_drawn
from skleak.audit.noise._mechanism import ShapedNoise
from skleak.channels import UnequalGaussianChannel
from skleak.datasets import fetch_iwpc
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.influence.leakage import ShapedInformation
from skleak.influence.noise import noise_covariance
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

SHAPES = ("curvature", "minimax")
# A test of many games fails by chance once in 30,000 times.
SIGMAS = 4.0


@pytest.fixture
def table(rng):
    X = rng.normal(size=(40, 3)) * [1.0, 5.0, 0.3]
    X[:, 0] = X[:, 0] > 0.3
    return X, X @ [1.0, -0.3, 2.0] + rng.normal(size=40)


@pytest.fixture
def patients(rng):
    """Strings with three values and booleans, one of them the secret, in a data frame."""
    X = pd.DataFrame(
        {
            "gene": rng.choice(["CC", "CT", "TT"], size=50),
            "smoker": rng.random(50) < 0.4,
            "age": rng.normal(60.0, 15.0, size=50),
        }
    )
    mean = (X["gene"] == "TT") + 0.02 * X["age"] + X["smoker"]
    return X, mean.to_numpy() + rng.normal(size=50)


def encoder(*columns):
    return make_column_transformer(
        (OneHotEncoder(sparse_output=False), list(columns)), remainder=StandardScaler()
    )


def random_shapes(rng, n, n_values, p):
    roots = rng.normal(size=(n, n_values, p, p)) + 2.0 * np.eye(p)
    return roots @ roots.swapaxes(2, 3)


def test_noise_has_the_covariance_of_every_secret(rng):
    shapes, inner = random_shapes(rng, 3, 2, 2), np.array([[0.5, 0.0], [0.2, 1.5]])
    noise, n = ShapedNoise(shapes, inner), 40_000
    secrets = rng.integers(0, 2, size=(n, 3))
    drawn = noise.color(np.arange(3), secrets, rng.normal(size=(n, 3, 2)))
    for i in range(3):
        for m in range(2):
            root = np.linalg.cholesky(shapes[i, m]) @ inner
            own = drawn[secrets[:, i] == m, i]
            white = np.linalg.solve(root, own.T)
            assert_allclose(white @ white.T / len(own), np.eye(2), atol=0.05)
    draws = rng.normal(size=(n, 3, 2))
    each = noise.color(np.arange(3), secrets, draws)
    for i in range(3):
        some = noise.color(np.full(n, i), secrets[:, i], draws[:, i])
        assert_allclose(some, each[:, i], atol=1e-12)


@pytest.mark.parametrize("measured", [np.array([2.0, 1.0]), np.array([[2.0, 0.0], [3.0, 1.0]])])
def test_what_was_measured_on_the_data_is_played_everywhere(rng, measured):
    shapes = random_shapes(rng, 1, 2, 2)
    root = np.linalg.cholesky(shapes[0, 1])
    noise = ShapedNoise.of(shapes, root, measured)
    draws = rng.normal(size=(6, 1, 2))
    own = noise.color(np.arange(1), np.ones((6, 1), dtype=int), draws)
    whole = np.diag(measured) if measured.ndim == 1 else measured
    assert_allclose(own[:, 0], draws[:, 0] @ whole.T)


@pytest.mark.slow
def test_bounds_are_those_of_the_channel(rng):
    encodings, prior = rng.normal(size=(5, 3, 2)), rng.dirichlet(np.ones(3), size=5)
    shapes = random_shapes(rng, 5, 3, 2)
    prior[3] = [0.0, 1.0, 0.0]
    found = success_bounds(encodings, prior, 0.7, list(BOUNDS), shapes)
    some = [0, 1, 2, 4]
    channel = UnequalGaussianChannel(encodings[some], 0.49 * shapes[some], tolerance=1e-4)
    tables = channel.advantage_bounds(prior[some])
    for column in check_bounds("all", equal_noise=False):
        own = tables[tables["bound"] == BOUNDS[column]].sort_values("record")["success"]
        assert_allclose(found[column][some], own, atol=2e-3)
        assert np.all(found[column] >= found["bayes"] - 1e-3)
        assert found[column][3] == 1.0
    for column in ("tradeoff", "gdp"):
        assert np.isnan(found[column]).all()
    # No less than an attack that knows everything reaches in play.
    n = 20_000
    for i in some:
        secrets = rng.choice(3, size=n, p=prior[i])
        roots = np.linalg.cholesky(shapes[i])
        z = rng.normal(size=(n, 2))
        releases = encodings[i, secrets] + 0.7 * np.einsum("nij,nj->ni", roots[secrets], z)
        gaps = releases[:, None] - encodings[i]
        squares = np.einsum("nmi,mij,nmj->nm", gaps, np.linalg.inv(0.49 * shapes[i]), gaps)
        scores = np.log(prior[i]) - 0.5 * squares - 0.5 * np.linalg.slogdet(shapes[i])[1]
        share = (scores.argmax(axis=1) == secrets).mean()
        assert abs(share - found["bayes"][i]) < SIGMAS * np.sqrt(0.25 / n)


@pytest.mark.slow
def test_blocks_of_bounds_do_not_matter(rng, monkeypatch):
    encodings, prior = rng.normal(size=(5, 2, 2)), np.full((5, 2), 0.5)
    shapes, names = random_shapes(rng, 5, 2, 2), ["bayes", "fano", "generalized_fano"]
    whole = success_bounds(encodings, prior, 0.7, names, shapes)
    monkeypatch.setattr("skleak.audit.games._secret._MAPS", 1)
    for name, values in success_bounds(encodings, prior, 0.7, names, shapes).items():
        assert_allclose(values, whole[name], atol=1e-9)
    without = success_bounds(encodings, prior, 0.0, ["bayes", "gdp"], shapes)
    assert_array_equal(without["bayes"], np.ones(5))


def test_bounds_of_equal_noise_are_refused_by_name():
    assert set(BOUNDS) - set(check_bounds("all", equal_noise=False)) == {"tradeoff", "gdp"}
    for bounds in ("gdp", ["bayes", "tradeoff"]):
        assert check_bounds(bounds)
        with pytest.raises(AttackNotApplicableError, match="same covariance under every value"):
            check_bounds(bounds, equal_noise=False)


def test_both_terms_make_a_loss(rng):
    mean, covariance = random_shapes(rng, 4, 1, 3)[:, 0], random_shapes(rng, 4, 1, 3)[:, 0]
    mean[2] = 0.0
    known = ShapedInformation(mean, covariance)
    for scale in (0.1, 3.0):
        values = np.linalg.eigvalsh(mean / scale**2 + covariance)[:, -1]
        assert_allclose(known.loss(scale) ** 2, values)
    alone = known.loss(0.0)
    assert_array_equal(np.isinf(alone), [True, True, False, True])
    assert_allclose(alone[2] ** 2, np.linalg.eigvalsh(covariance[2])[-1])


@pytest.mark.slow
@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 1))
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 1))
def test_bayes_value_is_that_of_the_white_box(shape, secrets, table):
    X, y = table
    model = PrivateLinearRegression(0.3, noise_covariance=shape)
    auditor = LeakageAuditor(
        model,
        0,
        noise_scales=[0.05, 0.5],
        records=range(12),
        n_releases=600,
        secrets=secrets,
        bounds=["bayes", "fano"],
        random_state=0,
    ).fit(X, y)
    attack = WhiteBoxAttributeInference(model, 0, records=range(12)).fit(X, y)
    for scale in (0.05, 0.5):
        bayes = attack.channel(scale).bayes_success(attack.prior_)
        own = auditor.records_[auditor.records_["noise_scale"] == scale]
        assert_allclose(own["bayes"], bayes, atol=5e-4)  # of quasi Monte Carlo
        assert np.all(own["tightest_bound"] >= own["bayes"])
        row = auditor.results_.query("noise_scale == @scale and attack == 'white_box'").iloc[0]
        if secrets == "drawn":
            spread = np.sqrt(np.mean(bayes * (1.0 - bayes)) / row["n_games"])
            assert abs(row["success"] - bayes.mean()) < SIGMAS * spread
    assert not (auditor.results_["verdict"] == "bound exceeded").any()
    assert auditor.report_.settings["noise_covariance"] == shape


@pytest.mark.slow
@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 1))
def test_tables_have_the_losses_of_both_terms(shape, table):
    X, y = table
    model = PrivateLinearRegression(noise_covariance=shape)
    scales = [0.0, 0.01, 0.3, 10.0]
    auditor = LeakageAuditor(
        model,
        0,
        attacks="white_box",
        noise_scales=scales,
        n_releases=2,
        bounds="bayes",
        records=range(9),
    )
    records = auditor.fit(X, y).records_
    for scale in scales:
        fitted = PrivateLinearRegression(scale, noise_covariance=shape).fit(X, y)
        own = records.loc[records["noise_scale"] == scale, "eta"]
        losses = fitted.fisher_information_loss(features=[0])
        assert_allclose(own, losses[:9], rtol=1e-8)
    # Noise does not hide its own shape: a thousand times of it leave more than a thousandth.
    first, last = (records.loc[records["noise_scale"] == s, "eta"].to_numpy() for s in (0.01, 10.0))
    assert np.all(last > 1.0001 * first / 1000.0)


@pytest.mark.slow
def test_the_tables_leave_out_bounds_of_equal_noise(table):
    X, y = table
    model = PrivateLinearRegression(0.3, noise_covariance="curvature")
    auditor = LeakageAuditor(model, 0, attacks="white_box", records=[0, 1], n_releases=2).fit(X, y)
    assert not {"tradeoff", "gdp"} & set(auditor.results_)
    assert auditor.records_["tightest_bound"].notna().all()
    with pytest.raises(AttackNotApplicableError, match="'gdp'"):
        LeakageAuditor(model, 0, bounds=["bayes", "gdp"], n_releases=2).fit(X, y)


@pytest.mark.slow
def test_the_report_says_what_noise_it_is(table):
    X, y = table
    model = PrivateLinearRegression(0.3, noise_covariance="minimax")
    options = {"records": [1], "bounds": "bayes", "n_releases": 2}
    auditor = LeakageAuditor(model, 0, attacks="white_box", **options).fit(X, y)
    assert "covariance of the noise follows the data" in auditor.report_.to_text(full=True).replace(
        "\n  ", " "
    )
    assert "covariance of the noise follows the data" in auditor.report_.to_html()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (PrivateLinearRegression(0.25), "minimax"),
        (PrivateLogisticRegression(0.2, alpha=0.05), "curvature"),
        (PrivatePoissonRegressor(0.06, alpha=0.05), "minimax"),
    ],
)
def test_games_are_those_of_the_estimator(model, shape, rng):
    """The real mechanism, refitted under every value: nothing of the library but its releases."""
    X = rng.normal(size=(25, 2))
    X[:, 0] = X[:, 0] > 0.0
    linear = X @ [1.0, 0.5]
    y = {
        "PrivateLinearRegression": linear + rng.normal(size=25),
        "PrivateLogisticRegression": (linear + rng.normal(size=25) > 0.5).astype(int),
        "PrivatePoissonRegressor": rng.poisson(np.exp(0.5 * linear)),
    }[type(model).__name__]
    model = model.set_params(noise_covariance=shape)
    auditor = LeakageAuditor(
        model, 0, attacks="white_box", records=[3], secrets="drawn", n_releases=4000, bounds="bayes"
    )
    auditor = auditor.set_params(prior=[0.4, 0.6], random_state=1).fit(X, y)
    fits, n = [], 3000
    for value in (0.0, 1.0):
        changed = X.copy()
        changed[3, 0] = value
        releases = np.empty((n, 3))
        for r in range(n):
            fitted = model.set_params(random_state=r + int(value) * n).fit(changed, y)
            releases[r] = np.append(fitted.coef_, fitted.intercept_)
        fits.append(releases)
    # Gaussians with the moments of half of the releases, judged on the other half.
    known = [(half.mean(axis=0), np.cov(half.T)) for half in (each[::2] for each in fits)]
    share = 0.0
    for m, (p, each) in enumerate(zip((0.4, 0.6), fits, strict=True)):
        scores = []
        for q, (mean, covariance) in zip((0.4, 0.6), known, strict=True):
            gaps = each[1::2] - mean
            squares = np.einsum("ni,ij,nj->n", gaps, np.linalg.inv(covariance), gaps)
            scores.append(np.log(q) - 0.5 * squares - 0.5 * np.linalg.slogdet(covariance)[1])
        share += p * np.mean(np.argmax(scores, axis=0) == m)
    bayes = auditor.records_["bayes"].iloc[0]
    played = auditor.results_["success"].iloc[0]
    assert bayes > 0.62  # there is something to find
    assert abs(share - bayes) < SIGMAS * np.sqrt(0.25 / n) + 0.005
    assert abs(played - bayes) < SIGMAS * np.sqrt(0.25 / 4000)


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 0))
def test_strings_and_booleans(secrets, patients):
    X, y = patients
    pipeline = make_pipeline(
        encoder("gene", "smoker"),
        PrivateLinearRegression(0.2, alpha=0.01, noise_covariance="curvature"),
    )
    options = {"records": range(10), "random_state": 0}
    for attribute, n_values in (("gene", 3), ("smoker", 2)):
        auditor = LeakageAuditor(
            pipeline, attribute, n_releases=40, secrets=secrets, bounds="bayes", **options
        ).fit(X, y)
        assert list(auditor.attacks_) == [
            "prior",
            "imputation",
            "white_box",
            "black_box",
            "combined",
        ]
        assert auditor.attacks_["white_box"].values_.shape == (n_values,)
        assert not (auditor.results_["verdict"] == "bound exceeded").any()


@pytest.mark.slow
def test_near_the_identity_it_is_the_audit_of_isotropic_noise(rng):
    X = np.column_stack([np.where(np.arange(32) % 2, 1.0, -1.0), np.repeat([1.0, -1.0], 16)])
    y = X @ [1.0, 2.0] + rng.normal(size=32)
    found = []
    for shape in ("isotropic", "curvature"):
        model = PrivateLinearRegression(
            1e-4, alpha=1e3, fit_intercept=False, noise_covariance=shape
        )
        found.append(
            LeakageAuditor(
                model, 0, n_releases=50, bounds=["bayes", "fano"], secrets="drawn", random_state=0
            ).fit(X, y)
        )
    plain, shaped = found
    columns = ["bayes", "fano", "success", "baseline"]
    assert_allclose(shaped.results_[columns], plain.results_[columns], atol=2e-3)
    assert plain.results_["bayes"].max() > 0.55
    assert_allclose(shaped.records_["bayes"], plain.records_["bayes"], atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 0))
def test_quantities_have_the_bound_of_both_terms(shape, table):
    X, y = table
    X = X + np.array([0.0, 3.0, 0.0])
    model = PrivateLinearRegression(noise_covariance=shape)
    auditor = LeakageAuditor(
        model, 1, noise_scales=[0.001, 0.5], n_releases=60, random_state=0
    ).fit(X, y)
    assert list(auditor.attacks_) == [
        "prior",
        "imputation",
        "white_box",
        "black_box",
        "posterior_mean",
        "combined",
    ]
    records = auditor.records_
    for scale in (0.001, 0.5):
        fitted = PrivateLinearRegression(scale, noise_covariance=shape).fit(X, y)
        losses = fitted.fisher_information_loss(features=[1])
        own = records[records["noise_scale"] == scale]
        assert_allclose(own["cramer_rao"], 1.0 / losses**2, rtol=1e-4)
    results = auditor.results_.set_index("attack")
    beyond = results[results["verdict"] == "bound exceeded"]
    # Answers tell what the other columns do, which the prior leaves out, as imputation does.
    assert set(beyond.index) <= {"black_box"}
    assert (beyond["share_removed_low"] < results.loc["imputation", "share_removed"].max()).all()
    first = auditor.results_.query("attack == 'white_box'").iloc[0]
    assert first["success"] > 0.99


@pytest.mark.slow
def test_half_the_noise_is_found(table):
    X, y = table
    model = HalfNoise(0.1, noise_covariance="curvature")
    options = {"records": range(12), "bounds": "bayes", "n_releases": 600, "random_state": 0}
    for secrets in ("actual", "drawn"):
        auditor = LeakageAuditor(model, 0, attacks="white_box", secrets=secrets, **options)
        with pytest.warns(PrivacyLeakWarning, match="does not add the noise"):
            auditor.fit(X, y)
    # Games are played with the noise that is there, against the bound for the one that is stated.
    assert auditor.results_["verdict"].iloc[0] == "bound exceeded"


@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 0))
def test_isotropic_noise_instead_is_found(shape, table):
    class Isotropic(PrivateLinearRegression):
        """States a covariance, and adds noise of the same mean square in all directions."""

        def fit(self, X, y, sample_weight=None):
            stated = self.noise_covariance
            self.set_params(noise_covariance="isotropic")
            super().fit(X, y, sample_weight)
            self.set_params(noise_covariance=stated)
            return self

    X, y = table
    model = Isotropic(0.4, noise_covariance=shape)
    options = {"records": [0], "bounds": "bayes", "random_state": 0}
    auditor = LeakageAuditor(model, 0, attacks="white_box", n_releases=5, **options)
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise"):
        auditor.fit(X, y)


def test_a_game_with_half_the_noise_exceeds_the_bound(table):
    X, y = table
    model = PrivateLinearRegression(0.04, noise_covariance="minimax")
    attack = WhiteBoxAttributeInference(model, 0, records=range(12)).fit(X, y)
    shapes, prior = attack._shaped.shapes, attack.prior_
    bayes = success_bounds(attack.encodings_, prior, 0.04, ["bayes"], shapes)["bayes"].mean()
    success = []
    for played in (0.04, 0.02):
        outcome = play_drawn(
            attack,
            attack.encodings_,
            attack.values_,
            prior,
            Level(ShapedNoise(shapes, played * np.eye(4)), 0.04, 1500, np.random.SeedSequence(3)),
        )
        success.append(float(outcome["hits"] / outcome["games"]))
    error = np.sqrt(0.25 / (1500 * len(prior)))
    assert abs(success[0] - bayes) < SIGMAS * error
    assert success[1] > bayes + SIGMAS * error


@pytest.mark.slow
def test_attacks_suppose_the_same_noise(table):
    X, y = table
    models = {
        name: PrivateLinearRegression(0.1, noise_covariance=name) for name in ("isotropic", *SHAPES)
    }
    for audited, supposed in (
        ("curvature", "isotropic"),
        ("curvature", "minimax"),
        ("isotropic", "curvature"),
    ):
        attack = WhiteBoxAttributeInference(models[supposed], 0)
        with pytest.raises(AttackNotApplicableError, match="another covariance"):
            LeakageAuditor(models[audited], 0, attacks=[attack], n_releases=2).fit(X, y)
    informed = InformedAttributeInference(models["isotropic"], 0)
    with pytest.raises(AttackNotApplicableError, match="another covariance"):
        LeakageAuditor(models["minimax"], 0, attacks=[informed], n_releases=2).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="isotropic"):
        LeakageAuditor(models["minimax"], 0, attacks="informed", n_releases=2).fit(X, y)
    own = {
        "a": WhiteBoxAttributeInference(models["curvature"], 0),
        "b": BlackBoxAttributeInference(models["isotropic"], 0),
    }
    for secrets in ("actual", "drawn"):
        auditor = LeakageAuditor(
            models["curvature"], 0, attacks=own, secrets=secrets, bounds="bayes", n_releases=3
        )
        assert list(auditor.fit(X, y).attacks_) == ["a", "b"]


@pytest.mark.slow
def test_what_is_not_audited(table):
    class WithoutClosedForm(PrivateLinearRegression):
        _confidential_state = property()

    X, y = table
    for shape in SHAPES:
        for model, attribute, message in (
            (PrivateLinearRegression(noise_covariance=shape), None, f"='{shape}'"),
            (
                PrivateLinearRegression(noise_covariance=shape, reweighting="irfil"),
                0,
                "reweighting",
            ),
            (WithoutClosedForm(noise_covariance=shape), 0, "private estimators"),
        ):
            with pytest.raises(AttackNotApplicableError, match=message):
                LeakageAuditor(model, attribute, n_releases=2).fit(X, y)
    pipeline = make_pipeline(
        StandardScaler(), PrivateLinearRegression(noise_covariance="curvature")
    )
    auditor = LeakageAuditor(pipeline, 0, refit_preprocessing=True, n_releases=2)
    with pytest.raises(AttackNotApplicableError, match="refit_preprocessing=False"):
        auditor.fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 0))
def test_jobs_and_checkpoints_do_not_matter(secrets, table, tmp_path):
    X, y = table
    model = PrivateLinearRegression(0.3, noise_covariance="minimax")
    options = {"records": range(9), "n_releases": 20, "secrets": secrets, "bounds": "bayes"}
    options |= {"random_state": 4}
    one = LeakageAuditor(model, 0, **options).fit(X, y)
    file = tmp_path / "audit.npz"
    two = LeakageAuditor(model, 0, n_jobs=2, checkpoint=file, **options).fit(X, y)
    again = LeakageAuditor(model, 0, checkpoint=file, **options).fit(X, y)
    for other in (two, again):
        pd.testing.assert_frame_equal(one.results_, other.results_)
        pd.testing.assert_frame_equal(one.records_, other.records_)


def test_without_noise_nothing_is_bounded(table):
    X, y = table
    model = PrivateLinearRegression(0.0, noise_covariance="curvature")
    for secrets in ("actual", "drawn"):
        auditor = LeakageAuditor(
            model, 0, attacks="white_box", secrets=secrets, bounds="bayes", n_releases=5
        ).fit(X, y)
        assert auditor.results_["success"].iloc[0] == 1.0
        assert (auditor.records_["bayes"] == 1.0).all()


@pytest.mark.slow
@pytest.mark.data
def test_a_gene_of_patients_who_are_exposed(iwpc):
    """At an equal rise of the objective, shaped noise hides the gene better."""
    encoded, dose = iwpc
    encoded, dose = encoded.to_numpy(dtype=float), np.asarray(dose)
    train, _ = train_test_split(np.arange(len(dose)), train_size=3855, random_state=0)
    raw = fetch_iwpc(encoded=False, return_X_y=True, download_if_missing=False)[0]
    raw, X, dose = raw.iloc[train].reset_index(drop=True), encoded[train], dose[train]
    options = {"alpha": 1e-2, "fit_intercept": False}
    plain = PrivateLinearRegression(1.0, **options).fit(X, dose)
    exposed = np.argsort(plain.fisher_information_loss_, kind="stable")[-100:]
    hessian = X.T @ X + len(dose) * options["alpha"] * np.eye(X.shape[1])
    encode = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["race", "cyp2c9", "vkorc1"]),
        remainder="passthrough",
    )
    advantages = {}
    for shape in ("isotropic", *SHAPES):
        fitted = PrivateLinearRegression(1.0, noise_covariance=shape, **options).fit(X, dose)
        state = fitted._confidential_state()
        rise = np.trace(hessian @ noise_covariance(state)) / (2.0 * len(dose))
        scale = float(np.sqrt(1e-4 / rise))
        pipeline = make_pipeline(
            encode, PrivateLinearRegression(scale, noise_covariance=shape, **options)
        )
        auditor = LeakageAuditor(
            pipeline,
            "vkorc1",
            attacks="white_box",
            records=exposed,
            prior="uniform",
            secrets="drawn",
            n_releases=300,
            bounds="bayes",
            random_state=0,
        ).fit(raw, dose)
        row = auditor.results_.iloc[0]
        assert abs(row["success"] - row["bayes"]) < SIGMAS * np.sqrt(0.25 / row["n_games"])
        advantages[shape] = 1.5 * (row["bayes"] - 1.0 / 3.0)
    expected = {"isotropic": 0.183, "curvature": 0.114, "minimax": 0.134}
    for shape, advantage in expected.items():
        assert_allclose(advantages[shape], advantage, atol=1e-3)
