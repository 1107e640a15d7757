"""The posterior mean of a number: nothing beats it, and it errs as the Bayes risk says."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.attacks import (
    ImputationAttack,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
)


def problem(k):
    """Problem of number k: a model, records, a prior, and noise of every size."""
    rng = np.random.default_rng([k, 1])
    n, d = int(rng.integers(25, 60)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    X[:, 0] = [rng.normal(size=n), rng.exponential(size=n), rng.choice([-2.0, 1.0], n)][k % 3]
    X[:, 0] += 0.2 * rng.normal(size=n)
    a = X @ rng.normal(size=d)
    options = {"alpha": 0.1, "fit_intercept": bool(k % 5)}
    if k % 2:
        model, y = PrivateLogisticRegression(0.0, **options), (a > np.median(a)).astype(int)
    else:
        model, y = PrivateLinearRegression(0.0, **options), a + rng.normal(size=n)
    prior = ["marginal", "conditional", "uniform", stats.norm(X[:, 0].mean(), X[:, 0].std())][
        k // 3 % 4
    ]
    attack = PosteriorMeanReconstruction(model, 0, prior=prior, records=rng.choice(n, 2, False))
    return attack.fit(X, y), rng


def encoded(attack, z):
    """Parameters without noise at numbers (n_draws, n_targets), from the nodes by barycenters."""
    nodes, points = attack.values_, attack.encodings_
    signs = (-1.0) ** np.arange(nodes.shape[1]) * np.r_[0.5, np.ones(nodes.shape[1] - 2), 0.5]
    gaps = z[:, :, None] - nodes
    weights = signs / np.where(gaps == 0.0, 1e-300, gaps)
    weights /= weights.sum(axis=2, keepdims=True)
    return np.einsum("rtm,tmp->rtp", weights, points)


def play(attack, noise, n_draws, rng):
    """Squared errors of the attack and of the likeliest value, for numbers drawn from the prior."""
    z = attack._density.draw(n_draws, rng)
    releases = encoded(attack, z)
    releases += noise * rng.normal(size=releases.shape)
    return (attack.predict_each(releases, noise) - z) ** 2


def check_problem(k, n_draws):
    attack, rng = problem(k)
    steps = np.linalg.norm(np.ptp(attack.encodings_, axis=1), axis=1).mean()
    noise = steps * 10.0 ** rng.uniform(-1.5, 1.0)
    risk, error = attack.expected_mse(noise)
    errors = play(attack, noise, n_draws, rng)
    mse, spread = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(n_draws)
    bound = attack._encodings_of_numbers().van_trees(
        attack._encodings_of_numbers().information / noise**2
    )
    # Not known where 33 nodes do not resolve what so few records encode.
    known = ~np.isnan(risk)
    assert (bound[~known] == 0.0).all(), k
    # Five and a half standard errors: one in 1e7, of 400 comparisons of each kind.
    assert (mse + 5.5 * spread >= bound).all(), k
    risk, error, mse, spread, bound, variance = (
        part[known] for part in (risk, error, mse, spread, bound, attack.prior_variance_)
    )
    assert (mse + 5.5 * spread >= risk - error).all(), k
    assert (mse - 5.5 * spread <= 1.05 * risk + error).all(), k
    assert (risk + error >= bound * (1.0 - 1e-3)).all(), k
    assert (risk <= variance * 1.001).all(), k
    return risk, bound, variance


def test_errs_as_the_bayes_risk_in_some_problems():
    for k in range(4):
        check_problem(k, 400)


@pytest.mark.slow
def test_errs_as_the_bayes_risk_in_200_problems():
    found = [check_problem(k, 4000) for k in range(200)]
    risk, bound, variance = (np.concatenate(part) for part in zip(*found, strict=True))
    assert len(risk) >= 380
    # And the problems are of all kinds: some tell almost all, some almost nothing.
    shares = 1.0 - risk / variance
    assert shares.min() < 0.02
    assert shares.max() > 0.9
    assert (bound > 0.3 * risk).mean() > 0.5


@pytest.mark.parametrize(
    "estimator", mostly_slow([PrivateLinearRegression, PrivateLogisticRegression], 0)
)
def test_is_the_posterior_mean_over_refits(estimator, rng):
    """By hand: a model refitted for every value of a fine grid, and a normal prior."""
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=40)
    if estimator is PrivateLogisticRegression:
        y = (y > 0.0).astype(int)
    model, prior = estimator(0.0, alpha=0.1), stats.norm(0.2, 0.9)
    attack = PosteriorMeanReconstruction(model, 0, prior=prior, records=[3]).fit(X, y)
    low, high = attack.values_[0, [0, -1]]
    assert low < -2.0
    assert high > 2.0
    grid, points = np.linspace(low, high, 121), []
    for value in grid:
        changed = X.copy()
        changed[3, 0] = value
        fit = model.fit(changed, y)
        points.append(np.append(fit.coef_, fit.intercept_))
    points = np.array(points)
    inside = (
        prior.pdf(grid)
        * np.sin(2.0 * np.pi * np.minimum(np.minimum(grid - low, high - grid) / (high - low), 0.25))
        ** 2
    )
    for noise in (0.02, 0.1, 1.0):
        releases = points[60] + noise * rng.normal(size=(5, 3))
        gaps = ((releases[:, None] - points) ** 2).sum(axis=2)
        weights = inside * np.exp(-0.5 * (gaps - gaps.min(axis=1, keepdims=True)) / noise**2)
        expected = weights @ grid / weights.sum(axis=1)
        guesses = attack.predict(releases, noise_scale=noise)[:, 0]
        np.testing.assert_allclose(guesses, expected, atol=2e-3)


@pytest.mark.slow
def test_limits_of_noise(rng):
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=60)
    model = PrivateLinearRegression(0.0, alpha=0.1).fit(X, y)
    released = np.append(model.coef_, model.intercept_)
    for prior in ("marginal", "conditional", "uniform", (np.linspace(-4, 4, 9), np.ones(9))):
        attack = PosteriorMeanReconstruction(model, 0, prior=prior, records=range(4)).fit(X, y)
        # Without noise the release tells all but of those beyond the range of the others.
        own = X[:4, 0]
        inside = (own > attack.values_[:, 0]) & (own < attack.values_[:, -1])
        assert inside.any()
        np.testing.assert_allclose(attack.predict(model)[inside], own[inside], atol=1e-5)
        far = attack.predict(released + 1e3 * rng.normal(size=3), noise_scale=1e7)
        np.testing.assert_allclose(far, attack.prior_mean_, atol=1e-2)
        few = attack.expected_mse(0.0)
        assert (few[0] <= few[1]).all()
        assert (few[1] < 1e-3 * attack.prior_variance_).all()
        much = attack.expected_mse(1e7)
        np.testing.assert_allclose(much[0], attack.prior_variance_, rtol=1e-3)


def test_own_value_enters_neither_prior_nor_guess(rng):
    X = rng.normal(size=(200, 3))
    X[:, 1] += X[:, 0]
    y = X @ [1.0, 0.5, 0.2] + rng.normal(size=200)
    changed = X.copy()
    changed[7, 1] = 1.7
    model = PrivateLinearRegression(0.0, alpha=0.1)
    for prior in ("marginal", "conditional", "uniform", stats.norm()):
        found = []
        for table in (X, changed):
            attack = PosteriorMeanReconstruction(model, 1, prior=prior, records=[7]).fit(table, y)
            guess = attack.predict(np.full((1, 4), 0.1), noise_scale=0.01)
            found.append([attack.prior_mean_, attack.prior_variance_, guess[0]])
        np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_priors_have_the_moments_of_what_they_are_made_of(rng):
    X = np.column_stack([rng.normal(170.0, 10.0, size=300), rng.normal(size=(300, 2))])
    X[:, 1] = 0.8 * (X[:, 0] - 170.0) / 10.0 + 0.6 * rng.normal(size=300)
    y = X[:, 2] + rng.normal(size=300)
    model = PrivateLinearRegression(0.0, alpha=0.1)
    fit = {
        name: PosteriorMeanReconstruction(model, 0, prior=prior).fit(X, y)
        for name, prior in (
            ("marginal", "marginal"),
            ("conditional", "conditional"),
            ("given", stats.norm(171.0, 8.0)),
            ("pair", (np.arange(120.0, 230.0), stats.norm.pdf(np.arange(120.0, 230.0), 171, 8))),
        )
    }
    others = np.array([np.delete(X[:, 0], i) for i in range(300)])
    mean = fit["marginal"].prior_mean_
    np.testing.assert_allclose(mean, others.mean(axis=1), atol=0.05)
    np.testing.assert_allclose(mean, PriorAttack(0).fit(X).predict(), atol=0.05)
    np.testing.assert_allclose(fit["marginal"].prior_variance_, others.var(axis=1), rtol=0.01)
    imputed = ImputationAttack(0).fit(X, y).predict()
    # Ends of the range cut a few.
    assert np.quantile(np.abs(fit["conditional"].prior_mean_ - imputed), 0.9) < 0.05
    residual = np.mean((imputed - X[:, 0]) ** 2)
    assert fit["conditional"].prior_variance_.mean() == pytest.approx(residual, rel=0.1)
    for name in ("given", "pair"):
        np.testing.assert_allclose(fit[name].prior_mean_, 171.0, atol=0.1)
        np.testing.assert_allclose(fit[name].prior_variance_, 64.0, rtol=0.02)
    # Of the normal priors the information is that of a normal density.
    for name in ("conditional", "given"):
        density = fit[name]._density
        np.testing.assert_allclose(density.information * density.variance, 1.0, rtol=0.1)
        assert (density.information * density.variance >= 0.999).all()


@pytest.mark.slow
def test_pipelines_and_other_models(make_table, make_pipe, rng):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(1e-4, random_state=0)).fit(X, y)
    attack = PosteriorMeanReconstruction(pipe, "age", records=[1, 2, 9]).fit(X, y)
    assert attack.score(pipe, X["age"].to_numpy()[[1, 2, 9]]) > 0.5
    assert attack.predict([pipe, pipe]).shape == (2, 3)
    encode = make_column_transformer((OneHotEncoder(), ["gene"]), (StandardScaler(), ["age"]))
    ridge = make_pipeline(encode, Ridge()).fit(X, y)
    attack = PosteriorMeanReconstruction(ridge, "age", records=[0]).fit(X, y)
    assert attack.predict(ridge, noise_scale=1e-6)[0] == pytest.approx(X["age"][0], rel=1e-3)
    white = WhiteBoxAttributeInference(ridge, "age", records=[0]).fit(X, y)
    shared = PosteriorMeanReconstruction._sharing(white, "marginal", X, y)
    released = rng.normal(size=(4, attack.encodings_.shape[2]))
    np.testing.assert_array_equal(shared.predict(released, 0.3), attack.predict(released, 0.3))
    for shape in ("curvature", "minimax"):
        model = make_pipe(PrivateLinearRegression(1e-3, noise_covariance=shape, random_state=0))
        attack = PosteriorMeanReconstruction(model.fit(X, y), "age", records=[0, 4]).fit(X, y)
        assert np.isfinite(attack.predict(model)).all()
        with pytest.raises(AttackNotApplicableError, match="van Trees"):
            attack.expected_mse()


def test_bad_priors(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c="x")
    frame.loc[:10, "c"] = "y"
    for prior, match in (
        ("flat", "prior"),
        (stats.norm(50.0, 1.0), "lie in the range of the other records"),
        (np.ones(4), "pair of ascending values"),
        ((np.ones(4), np.ones(4)), "ascending values"),
        ((np.arange(4.0), -np.ones(4)), "none negative"),
    ):
        with pytest.raises(ValueError, match=match):
            PosteriorMeanReconstruction(PrivateLinearRegression(), 0, prior=prior).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="is no number"):
        PosteriorMeanReconstruction(PrivateLinearRegression(), "c").fit(frame, y)
