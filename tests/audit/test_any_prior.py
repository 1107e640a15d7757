"""What no attacker exceeds, whatever is known of a record: the theorem, and attacks on audits."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.games._game import COLUMNS, columns_of, least_noise, search_noise
from skleak.audit.games._secret import success_bounds
from skleak.audit.noise._mechanism import UnequalPairs
from skleak.channels import GaussianChannel
from skleak.influence.refit import largest_distances
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.neural import PrivateSGDClassifier, SGDGuarantee
from skleak.plotting.labels import BOUNDS

RATE = 0.01


def some_prior(rng, n_values):
    """Draw priors from nearly certain to uniform, some of them on few values."""
    prior = rng.dirichlet(np.full(n_values, 10.0 ** rng.uniform(-1.5, 1.5)))
    if rng.random() < 0.3:
        prior[rng.random(n_values) < 0.4] = 0.0
    return prior / prior.sum() if prior.sum() > 0.0 else np.full(n_values, 1.0 / n_values)


def power_of(null, other, rate=RATE):
    """Power of the best test between two laws on few outcomes, randomized at the threshold."""
    order = np.argsort(-other / np.maximum(null, 1e-300), kind="stable")
    false, true = np.r_[0.0, np.cumsum(null[order])], np.r_[0.0, np.cumsum(other[order])]
    return np.interp(rate, false, true)


def test_no_prior_exceeds_the_largest_total_variation_of_a_table(rng):
    for _ in range(300):
        n_values, n_outcomes = rng.integers(2, 7), rng.integers(2, 9)
        laws = rng.dirichlet(np.full(n_outcomes, rng.choice([0.2, 1.0, 5.0])), n_values)
        apart = 0.5 * np.abs(laws[:, None] - laws[None]).sum(axis=2)
        pairs = [[power_of(a, b) for a in laws] for b in laws]  # of testing for b against a
        prior = some_prior(rng, n_values)
        top = prior.max()
        if top < 1.0 - 1e-9:
            success = (prior[:, None] * laws).max(axis=0).sum()
            assert (success - top) / (1.0 - top) <= apart.max() + 1e-9
        v = rng.integers(n_values)
        others = np.delete(np.arange(n_values), v)
        mixture = some_prior(rng, n_values - 1) @ laws[others]
        assert power_of(mixture, laws[v]) <= np.array(pairs)[v, others].max() + 1e-9
        worst = laws[list(np.unravel_index(apart.argmax(), apart.shape))]
        reached = 2.0 * (0.5 * worst).max(axis=0).sum() - 1.0
        assert reached == pytest.approx(apart.max(), abs=1e-9)


@pytest.mark.slow
def test_no_prior_exceeds_what_is_stated_of_gaussians(rng):
    grid = np.linspace(-60.0, 60.0, 120_001)
    for _ in range(200):
        n_values, p = rng.integers(2, 5), rng.integers(1, 3)
        points = rng.normal(size=(n_values, p)) * 10.0 ** rng.uniform(-2.0, 0.7)
        stated = {k: v[0] for k, v in columns_of(largest_distances(points[None])).items()}
        prior = some_prior(rng, n_values)
        if prior.max() < 1.0 - 1e-6:
            advantage, error = GaussianChannel(points, 1.0).bayes_advantage(
                prior, return_standard_error=True
            )
            assert advantage <= stated["advantage_any_prior"] + 1e-9 + 6.0 * error
        gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
        worst = points[list(np.unravel_index(gaps.argmax(), gaps.shape))]
        reached = GaussianChannel(worst, 1.0).bayes_advantage()
        assert reached == pytest.approx(stated["advantage_any_prior"], abs=1e-9)
        # A mixture of the others on the line through the two, by integration.
        place = points @ (worst[1] - worst[0]) / max(gaps.max(), 1e-300)
        laws = norm.pdf(grid, place[:, None]) * (grid[1] - grid[0])
        mixture = some_prior(rng, n_values - 1) @ laws[1:]
        assert power_of(mixture, laws[0]) <= stated["found_at_1pct"] + 1e-6
        best = norm.cdf(norm.ppf(RATE) + gaps.max())
        assert stated["found_at_1pct"] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_unequal_covariances_are_told_apart_no_better_than_stated(seed):
    rng, n = np.random.default_rng(seed), 100_000
    n_values, p = rng.integers(2, 4), rng.integers(1, 5)
    points = rng.normal(size=(n_values, p)) * rng.choice([0.0, 0.1, 1.0])
    root = rng.normal(size=(p, p))
    steps = [rng.choice([0.05, 0.5, 3.0]) * np.outer(v, v) for v in rng.normal(size=(n_values, p))]
    shapes = np.stack([root @ root.T + np.eye(p) + step for step in steps])
    noise = rng.choice([0.5, 1.0, 3.0])
    gain, found = UnequalPairs.of(points[None], shapes[None], RATE).any_prior(noise, RATE)
    laws = [multivariate_normal(m, noise**2 * s) for m, s in zip(points, shapes, strict=True)]
    for a in laws:
        for b in (b for b in laws if b is not a):
            null, other = (
                b.logpdf(x) - a.logpdf(x)
                for x in (law.rvs(n, random_state=rng).reshape(n, p) for law in (a, b))
            )
            assert np.mean(other > 0.0) - np.mean(null > 0.0) <= gain[0] + 4.0 * n**-0.5
            power = np.mean(other > np.quantile(null, 1.0 - RATE))
            assert power <= found[0] + 4.0 * np.sqrt(found[0] / n) + 2e-3


def test_equal_covariances_lose_what_distances_say(rng):
    points, noise = rng.normal(size=(6, 3, 2)), 1.7
    shape = np.array([[2.0, 0.3], [0.3, 0.5]])
    shapes = np.broadcast_to(shape, (6, 3, 2, 2))
    gain, found = UnequalPairs.of(points, shapes, RATE).any_prior(noise, RATE)
    white = np.linalg.solve(np.linalg.cholesky(shape), points.swapaxes(1, 2)).swapaxes(1, 2)
    stated = columns_of(largest_distances(white) / noise)
    np.testing.assert_allclose(gain, stated["advantage_any_prior"], rtol=1e-9)
    np.testing.assert_allclose(found, stated["found_at_1pct"], rtol=1e-9)


def test_largest_distances_are_those_of_all_pairs(rng):
    for n_values in (1, 2, 5, 16):
        points = rng.normal(size=(9, n_values, 3)) * 10.0 ** rng.uniform(-160, 140)
        gaps = np.abs(points[:, :, None] - points[:, None])
        largest = gaps.max()
        expected = np.sqrt(((gaps / max(largest, 1e-300)) ** 2).sum(axis=3)).max(axis=(1, 2))
        found = largest_distances(points)
        np.testing.assert_allclose(found, expected * largest, rtol=1e-12)
    assert not largest_distances(np.full((2, 3, 4), 0.1)).any()
    points[0, 3] = np.inf
    assert np.isinf(largest_distances(points)[0])


@pytest.mark.slow
def test_tabulated_bounds_are_rounded_up(rng):
    apart, top = np.r_[0.0, 10.0 ** rng.uniform(-4, 1.4, 300), 1e9], rng.uniform(0.5, 1.0, 302)
    top[:3] = 0.5, 1.0, 1.0 - 1e-9
    some = top < 1.0 - 1e-6
    points = np.stack([np.zeros(302), apart], axis=1)[:, :, None]
    prior = np.stack([top, 1.0 - top], axis=1)
    for names in (list(BOUNDS), ["fano"]):
        tabulated = success_bounds(points, prior, 1.0, names)
        exact = GaussianChannel(points[some], 1.0).advantage_bounds(prior[some])
        bayes = tabulated["bayes"]
        for name in names:
            own = exact[exact["bound"] == BOUNDS[name]].sort_values("record")["success"].to_numpy()
            assert np.all(tabulated[name] >= bayes)
            assert np.all(tabulated[name][some] <= own + 0.02)
            if name in ("bayes", "tradeoff", "gdp"):
                np.testing.assert_allclose(tabulated[name][some], own, atol=1e-9)
        assert bayes[-1] == 1.0
        assert bayes[0] == 0.5


def refitted(model, X, y, row, column, values):
    """Parameters without noise with each value of one record, by fits from scratch."""
    found = []
    for value in values:
        changed = X.copy()
        changed.loc[row, column] = value
        fitted = model.fit(changed, y)
        found.append(np.r_[np.ravel(fitted.coef_), np.ravel(fitted.intercept_)])
    return np.stack(found)


def rare_disease(rng, n=200):
    X = pd.DataFrame({"age": rng.normal(size=n), "carrier": np.zeros(n)})
    X.loc[[3, 50], "carrier"] = 1.0
    y = np.where(X["age"] + 2.0 * X["carrier"] + rng.normal(size=n) > 0.0, "yes", "no")
    return X, y


def test_carriers_of_a_rare_disease_are_found_as_often_as_stated(rng):
    X, y = rare_disease(rng)
    model = PrivateLogisticRegression(alpha=0.1, random_state=0)
    noise = 0.02
    auditor = LeakageAuditor(model, "carrier", noise_scales=noise, attacks="prior", n_releases=2)
    records = auditor.fit(X, y).records_
    worst = records.loc[records["exposure"].idxmax()]
    quiet = PrivateLogisticRegression(alpha=0.1, noise_scale=0.0)
    points = refitted(quiet, X, y, worst["record"], "carrier", [0.0, 1.0])
    n = 40_000
    secret = rng.integers(2, size=n)
    released = points[secret] + noise * rng.normal(size=(n, points.shape[1]))
    score = (released - points.mean(axis=0)) @ (points[1] - points[0])
    reached = 2.0 * np.mean((score > 0.0) == secret) - 1.0
    assert reached == pytest.approx(worst["advantage_any_prior"], abs=8.0 * n**-0.5)
    threshold = np.quantile(score[secret == 0], 1.0 - RATE)
    found = np.mean(score[secret == 1] > threshold)
    assert found == pytest.approx(worst["found_at_1pct"], abs=0.03)
    # A prevalence of 1 % hides it from the average over that prior.
    row = auditor.results_.iloc[0]
    assert row["bayes"] - row["baseline"] < 0.1 * row["advantage_any_prior"]
    assert row["exposure"] == worst["exposure"] == worst["advantage_any_prior"]
    assert row["n_above"] == (records["exposure"] > 0.05).sum() > 0


@pytest.mark.slow
def test_a_ward_narrows_sixteen_diagnoses_to_two(rng):
    n = 160
    diagnosis = np.array([f"d{k:02d}" for k in range(16)])[np.arange(n) % 16]
    X = pd.DataFrame({"diagnosis": diagnosis, "age": rng.normal(size=n)})
    y = X["age"] + (np.arange(n) % 16 == 7) + 0.5 * rng.normal(size=n)
    encoder = make_column_transformer((OneHotEncoder(), ["diagnosis"]), remainder="passthrough")
    model = make_pipeline(encoder, PrivateLinearRegression(alpha=0.01)).set_output(
        transform="default"
    )
    usual = {"noise_scales": 0.3, "attacks": "white_box"}
    few = {"n_releases": 2, "bounds": "tradeoff"}
    whole = LeakageAuditor(model, "diagnosis", **usual, **few).fit(X, y)
    worst = whole.records_.loc[whole.records_["exposure"].idxmax()]
    row = int(worst["record"])
    points = whole.attacks_["white_box"].encodings_[row]
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert worst["distance"] == pytest.approx(gaps.max() / 0.3, rel=1e-9)
    ward = np.zeros(16)
    ward[list(np.unravel_index(gaps.argmax(), gaps.shape))] = 0.5
    told = LeakageAuditor(model, "diagnosis", prior=ward, records=[row], n_releases=1500, **usual)
    found = told.set_params(bounds="bayes").fit(X, y).results_.iloc[0]
    assert 2.0 * found["bayes"] - 1.0 == pytest.approx(worst["advantage_any_prior"], abs=1e-9)
    assert found["advantage"] == pytest.approx(worst["advantage_any_prior"], abs=0.1)
    average = whole.results_["tradeoff"].iloc[0] - whole.results_["baseline"].iloc[0]
    assert average < 0.3 * worst["advantage_any_prior"]


@pytest.mark.slow
def test_the_smallest_noise_keeps_everyone_and_a_little_less_does_not(rng):
    X, y = rare_disease(rng)
    model = PrivateLogisticRegression(alpha=0.1, random_state=0)
    usual = {"attacks": "prior", "n_releases": 2, "bounds": "bayes"}
    first = LeakageAuditor(model, "carrier", noise_scales=0.1, **usual).fit(X, y).report_.settings
    least = first["smallest_noise"]
    auditor = LeakageAuditor(model, "carrier", noise_scales=[0.99 * least, least], **usual)
    above = auditor.fit(X, y).results_.set_index("noise_scale")["n_above"]
    assert above[least] == 0 < above[0.99 * least]
    facts = auditor.report_.settings
    assert facts["smallest_noise"] == pytest.approx(least, rel=1e-9)
    assert facts["constant_utility"] == max(np.mean(y == "yes"), np.mean(y == "no"))
    score = auditor.results_.set_index("noise_scale").loc[least, "utility"]
    assert facts["smallest_noise_utility"] == pytest.approx(score, abs=0.15)
    curve = pd.DataFrame(facts["curve"])
    assert len(curve) == 60
    assert curve["noise"].is_monotonic_increasing
    assert curve["largest"].is_monotonic_decreasing
    assert (curve["above"] > 0.0).equals(curve["noise"] < least)


@pytest.mark.slow
def test_a_model_that_never_sees_the_column_tells_nothing(rng):
    X = pd.DataFrame({"age": rng.normal(size=80), "sex": rng.choice(["f", "m"], 80)})
    y = X["age"] + rng.normal(size=80)
    columns = make_column_transformer(("passthrough", ["age"]))
    model = make_pipeline(columns, PrivateLinearRegression(random_state=0))
    for noise in ([0.0], [0.1, 10.0]):
        auditor = LeakageAuditor(model, "sex", noise_scales=noise, n_releases=2).fit(X, y)
        for table in (auditor.results_, auditor.records_):
            assert not table[["distance", "advantage_any_prior", "exposure"]].any(axis=None)
            assert np.allclose(table["found_at_1pct"], RATE)
        assert not auditor.results_["n_above"].any()
        assert auditor.report_.settings["smallest_noise"] == 0.0


@pytest.mark.slow
def test_noise_that_is_not_as_stated_says_nothing_of_anyone(rng):
    class Half(PrivateLinearRegression):
        def fit(self, X, y, sample_weight=None):
            stated, self.noise_scale = self.noise_scale, 0.5 * self.noise_scale
            super().fit(X, y, sample_weight)
            self.noise_scale = stated
            return self

    X = pd.DataFrame({"age": rng.normal(size=60), "sex": rng.integers(0, 2, 60)})
    y = X["age"] + X["sex"] + rng.normal(size=60)
    auditor = LeakageAuditor(
        Half(noise_scale=0.5), "sex", attacks="white_box", n_releases=4, releases="simulated"
    )
    with pytest.warns(match="does not add the noise"):
        auditor.fit(X, y)
    assert auditor.results_[[*COLUMNS, "n_above"]].isna().all(axis=None)
    assert auditor.records_[list(COLUMNS)].isna().all(axis=None)
    facts = auditor.report_.settings
    assert np.isnan(facts["smallest_noise"])
    assert "curve" not in facts


@pytest.mark.slow
def test_every_record_of_many_is_judged(rng):
    n = 45_000
    X = pd.DataFrame({"age": rng.normal(size=n), "sex": rng.integers(0, 2, n)})
    y = X["age"] + X["sex"] + rng.normal(size=n)
    model = PrivateLinearRegression(noise_scale=1e-4, random_state=0)
    auditor = LeakageAuditor(model, "sex", attacks="prior", n_releases=1).fit(X, y)
    columns = [*COLUMNS, "bayes", "tightest_bound"]
    assert len(auditor.records_) == n
    assert not auditor.records_[columns].isna().any(axis=None)


@pytest.mark.slow
def test_the_curve_of_private_sgd_holds_for_everyone(rng):
    X = pd.DataFrame({"age": rng.normal(size=60), "sex": rng.integers(0, 2, 60).astype(float)})
    y = (X["age"] + X["sex"] > 0.5).astype(int)
    usual = {"max_steps": 4, "sampling_rate": 0.2, "learning_rate": 1.0}
    model = PrivateSGDClassifier(noise_multiplier=5.0, **usual)
    guarantee = SGDGuarantee(5.0 / 1.11524, 0.2, 4)
    auditor = LeakageAuditor(model, "sex", attacks="prior", n_releases=2).fit(X, y)
    members = MembershipAuditor(model, attacks="loss", n_releases=3).fit(X, y)
    for found, curve, membership in (
        (auditor, guarantee.curve, False),
        (members, guarantee.membership_curve, True),
    ):
        own = found.records_[list(COLUMNS)].drop_duplicates()
        assert len(own) == 1
        assert np.isnan(own["distance"].iloc[0])
        gain = np.max(1.0 - curve[0] - curve[1])
        assert own["exposure"].iloc[0] == pytest.approx(gain, rel=1e-3)
        power = guarantee.true_positives(RATE, membership=membership)
        assert own["found_at_1pct"].iloc[0] == pytest.approx(power, rel=1e-3)
        facts = found.report_.settings
        assert 1.0 < facts["smallest_noise"] < 20.0
        assert len(facts["curve"]["noise"]) == 12


@pytest.mark.slow
def test_membership_is_judged_by_the_farthest_of_all_releases(rng):
    X = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    y = X["a"] + rng.normal(size=40)
    model = PrivateLinearRegression(alpha=0.1, random_state=0)
    auditor = MembershipAuditor(model, noise_scales=[0.1, 0.4], attacks="exact", n_releases=4)
    records = auditor.fit(X, y).records_
    first, second = (records[records["noise_scale"] == s]["distance"] for s in (0.1, 0.4))
    np.testing.assert_allclose(first.to_numpy(), 4.0 * second.to_numpy(), rtol=1e-9)
    # In a training set of all others no record is farther than in the worst of four smaller ones.
    quiet = PrivateLinearRegression(alpha=0.1, noise_scale=0.0)
    own = quiet.fit(X, y)
    whole = np.r_[own.coef_, own.intercept_]
    rest = quiet.fit(X.drop(index=7), y.drop(index=7))
    apart = np.linalg.norm(whole - np.r_[rest.coef_, rest.intercept_]) / 0.1
    assert first.iloc[7] > apart
    drawn = auditor.set_params(secrets="drawn").fit(X, y).records_
    assert drawn["distance"].iloc[7] == pytest.approx(apart, rel=1e-8)


def test_the_least_noise_is_found_from_above():
    for limit in (1e-9, 0.05, 0.9):
        least = least_noise(2.0, limit)
        assert columns_of(np.array([2.0 / least]))["exposure"][0] == pytest.approx(limit, rel=1e-9)

        def exposure(noise):
            return float(columns_of(np.array([2.0 / noise]))["exposure"][0])

        for start in (1e-3 * least, least, 1e5 * least):
            found = search_noise(exposure, limit, start)
            assert least * (1.0 - 1e-9) <= found <= 1.002 * least
    assert least_noise(0.0, 0.0) == 0.0
    assert least_noise(1.0, 0.0) == np.inf
    assert search_noise(lambda _: 0.2, 0.1, 1.0) == np.inf
    assert np.isnan(search_noise(lambda _: np.nan, 0.1, 1.0))
