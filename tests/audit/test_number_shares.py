"""What attacks remove from the error about numbers, and what they may remove: one scale."""

import numpy as np
import pytest
from helpers import mostly_slow

from skleak.adversary import numbers
from skleak.adversary.numbers import NumberBounds, number_bounds
from skleak.attacks import BlackBoxAttributeInference, PosteriorMeanReconstruction
from skleak.audit import LeakageAuditor
from skleak.audit.tables._rates import SecretDesign, removed, share_at_most
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics.verdicts import EXCEEDED, INCOMPARABLE


def design(score, variance, *, drawn=False):
    n = len(score)
    return SecretDesign(
        targets=np.arange(n),
        attacks=("mine",),
        noise_scales=(1.0,),
        bounds=(),
        n_releases=50,
        drawn=drawn,
        confidence_level=0.95,
        verdict_level=0.99,
        etas={1.0: np.ones(n)},
        prior_score=np.asarray(score, dtype=float),
        baseline=0.0,
        imputation=np.nan,
        spread=1.0,
        prior_variance=np.asarray(variance, dtype=float),
    )


def test_what_is_removed_does_not_depend_on_how_far_the_numbers_are_from_their_means(rng):
    """A shrunk linear guess errs by (1 - k)^2 z^2 + k^2 r^2 about a number z."""
    k, noise, n = 0.3, 1.4, 200
    expected = 1.0 - (1.0 - k) ** 2 - k**2 * noise**2
    for far in (0.9, 1.0, 1.1):
        score = (far * rng.normal(size=n)) ** 2
        mse = (1.0 - k) ** 2 * score + k**2 * noise**2
        outcome = {"mse": mse, "exact": False, "mse_by_release": np.full(50, mse.mean())}
        share = removed(design(score, np.ones(n)), outcome, 0.95)
        assert share.estimate == pytest.approx(expected, rel=1e-9)
        # Numbers that are no draws from the prior are not made into some.
        off = removed(design(50.0 * score, np.ones(n)), outcome | {"mse": 50.0 * mse}, 0.95)
        assert off.estimate == pytest.approx(50.0 * np.mean(score - mse), rel=1e-9)
    guess = {"mse": score, "exact": True, "mse_by_release": np.ones(1)}
    assert removed(design(score, np.ones(n)), guess, 0.95) == (0.0, 0.0, 0.0)
    # Of one person, or one release, nothing is known of the error.
    for some in (slice(0, 1), slice(None)):
        one = {"mse": mse[some], "exact": False, "mse_by_release": np.ones(1)}
        assert np.isnan(removed(design(score[some], np.ones(n)[some]), one, 0.95).low)


@pytest.mark.slow
def test_what_a_black_box_knows_of_other_columns_is_not_held_against_the_prior(rng):
    """A target close to the number tells it through any model that is good, whoever is in it."""
    x = rng.normal(size=150)
    X, y = np.column_stack([x, rng.normal(size=150)]), x + 0.3 * rng.normal(size=150)
    model = PrivateLinearRegression(alpha=0.01)
    mine = BlackBoxAttributeInference(model, 0)
    attacks = ["black_box", "posterior_mean", mine]
    options = {"attacks": attacks, "noise_scales": 0.1, "n_releases": 20}
    auditor = LeakageAuditor(model, 0, prior="marginal", **options)
    results = auditor.fit(X, y).results_.set_index("attack")
    asked, informed = results.drop(index="posterior_mean"), results.loc["posterior_mean"]
    assert (asked["share_removed_low"] > 0.5).all()
    assert (asked["share_at_most"] < 0.1).all()
    assert set(asked["verdict"]) == {INCOMPARABLE}
    assert informed["verdict"] not in (EXCEEDED, INCOMPARABLE)
    # Where the prior knows them too, or the number is drawn whatever they are, there is a verdict.
    for known in ({"prior": "conditional"}, {"prior": "marginal", "secrets": "drawn"}):
        results = auditor.set_params(**known, attacks=["black_box"]).fit(X, y).results_
        assert set(results["verdict"]).isdisjoint({EXCEEDED, INCOMPARABLE})


@pytest.mark.parametrize("n_seeds", mostly_slow([1, 16]))
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"]))
def test_attacks_rarely_exceed_the_bound_and_the_best_reaches_it(secrets, n_seeds):
    gaps, n_exceeded = [], 0
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=90) if seed % 2 else rng.gamma(2.0, size=90)
        X, y = x[:, None], 0.2 * x + 2.0 * rng.normal(size=90)
        auditor = LeakageAuditor(
            PrivateLinearRegression(alpha=0.01),
            0,
            attacks=["white_box", "posterior_mean"],
            noise_scales=[0.1, 1.0],
            n_releases=5,
            secrets=secrets,
            records=rng.choice(90, 12, replace=False),
            max_advantage=[0.05, 0.3][seed % 2],
            random_state=seed,
        )
        results = auditor.fit(X, y).results_
        exceeded = results[results["verdict"] == EXCEEDED]
        assert (exceeded["share_removed_low"] > exceeded["share_at_most"]).all()
        n_exceeded += len(exceeded)
        own = results[results["attack"] == "posterior_mean"]
        gaps.append(own["share_removed"] - 1.0 + own["bayes_mse"] / own["prior_variance"])
    if n_seeds > 10:
        # The posterior mean removes what the Bayes risk leaves, on average over the numbers.
        gaps = np.array(gaps)
        assert (np.abs(gaps.mean(axis=0)) < 5.0 * gaps.std(axis=0) / np.sqrt(n_seeds)).all()
        assert n_exceeded <= 2 + 0.05 * gaps.size


def test_a_sample_of_the_risks_stands_for_all(rng, monkeypatch):
    X = rng.normal(size=(80, 2))
    y = X @ [1.0, 0.3] + rng.normal(size=80)
    attack = PosteriorMeanReconstruction(PrivateLinearRegression(alpha=0.1), 0).fit(X, y)
    known = NumberBounds.of(attack)
    own = design(np.ones(80), attack.prior_variance_)
    noise = 0.3 * np.linalg.norm(np.ptp(attack.encodings_, axis=1), axis=1).mean()
    whole = number_bounds(known, noise, np.random.SeedSequence(0))
    exact = share_at_most(own, whole)
    monkeypatch.setattr(numbers, "_RISKS", 20)
    shares = []
    for seed in range(6):
        some = number_bounds(known, noise, np.random.SeedSequence(seed))
        chosen = some["computed"]
        assert chosen.sum() == 20
        np.testing.assert_allclose(some["bayes_mse"][chosen], whole["bayes_mse"][chosen], rtol=1e-6)
        assert np.isnan(some["bayes_mse"][~chosen]).all()
        shares.append(share_at_most(own, some))
    # Four standard errors are allowed for, and van Trees holds for all: never too small.
    assert min(shares) >= exact - 1e-9
    assert max(shares) < exact + 0.15
    assert len(np.unique(np.round(shares, 9))) > 1 or shares[0] == pytest.approx(
        1.0 - whole["van_trees"].sum() / attack.prior_variance_.sum()
    )


@pytest.mark.slow
def test_where_nodes_do_not_resolve_a_number_van_trees_stands_in(rng, monkeypatch):
    risk = "skleak.adversary.numbers.truncation_error"
    monkeypatch.setattr(risk, lambda sizes: np.full(len(sizes), 1e-3))
    X = rng.normal(size=(30, 2))
    y = X @ [1.0, 0.3] + rng.normal(size=30)
    auditor = LeakageAuditor(
        PrivateLinearRegression(alpha=0.1),
        0,
        attacks="posterior_mean",
        noise_scales=[1e-7, 1e-4, 1.0],
        n_releases=3,
        records=range(2),
    )
    report = auditor.fit(X, y).report_
    names = ["van_trees", "bayes_mse", "bayes_mse_error", "share_at_most"]
    assert report.records[names].notna().all(axis=None)
    assert report.results[names].notna().all(axis=None)
    assert report.results["n_unresolved"].tolist() == [2, 2, 0]
    at = report.records[report.records["noise_scale"] == 1e-4]
    np.testing.assert_array_equal(at["bayes_mse"], at["van_trees"])
    # A risk that is not known is no reason to think that others are typical of it.
    removed_at_most = (at["share_at_most"] * at["prior_variance"]).sum()
    share = removed_at_most / at["prior_variance"].sum()
    assert report.results["share_at_most"][1] == pytest.approx(share)
    assert any("do not resolve" in line for line in report.assumptions)


@pytest.mark.slow
def test_numbers_are_drawn_beside_an_attack_that_is_about_those_of_the_data(rng):
    """The stacked attack is played on the numbers as they are: it has no share of drawn ones."""
    X = rng.normal(size=(30, 2))
    y = X @ [1.0, 0.3] + rng.normal(size=30)
    model = PrivateLinearRegression(0.1, alpha=0.1)
    auditor = LeakageAuditor(model, 0, secrets="drawn", n_releases=4, records=range(5))
    rows = auditor.fit(X, y).results_.set_index("attack")
    assert rows.loc["combined", "verdict"] == INCOMPARABLE
    assert rows["share_removed"].isna().tolist() == [name == "combined" for name in rows.index]
