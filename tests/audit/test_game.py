"""The games: against plain loops, and against what theory says of them."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import stats

from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._trials import (
    Level,
    draw_secrets,
    play_actual,
    play_drawn,
    play_errors,
    played_by,
)
from skleak.channels import GaussianChannel
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics import error_decomposition


def seed():
    return np.random.SeedSequence(11)


@pytest.fixture
def data(rng):
    X = np.column_stack([np.r_[0, 1, 2, rng.integers(0, 3, 17)], rng.normal(size=20)])
    return X, X @ [1.0, -1.0] + rng.normal(size=20)


@pytest.fixture
def model():
    return PrivateLinearRegression(alpha=0.1)


def noiseless(model, X, y):
    fitted = PrivateLinearRegression(0.0, alpha=model.alpha).fit(X, y)
    return np.append(fitted.coef_, fitted.intercept_)


class Rounding:
    """An attack without `noise_scale`: the nearest whole number to the intercept, for all."""

    def predict(self, released):
        return np.tile(np.clip(np.rint(released[:, -1:]), 0, 2), (1, 20))


def test_actual_equals_a_plain_loop(data, model):
    X, y = data
    attack = WhiteBoxAttributeInference(model, 0).fit(X, y)
    w, noise = noiseless(model, X, y), np.array([0.05, 0.1, 0.0])
    outcome = play_actual(attack, w, X[:, 0], Level(noise, 0.1, 9, seed()))
    generator = np.random.default_rng(seed())
    hits = np.empty((9, 20), dtype=bool)
    for r in range(9):
        release = w + noise * generator.normal(size=3)
        for i in range(20):
            distance = ((release - attack.encodings_[i]) ** 2).sum(axis=1)
            score = np.log(attack.prior_[i]) - distance / (2 * 0.1**2)
            hits[r, i] = attack.values_[score.argmax()] == X[i, 0]
    np.testing.assert_allclose(outcome["shares"], hits.mean(axis=1))
    np.testing.assert_array_equal(outcome["counts"], hits.sum(axis=0))
    assert (outcome["hits"], outcome["games"]) == (hits.sum(), 180)
    assert not outcome["exact"]


def test_attacks_without_noise_scale_are_called_without(data, model):
    X, y = data
    w = noiseless(model, X, y)
    outcome = play_actual(Rounding(), w, X[:, 0], Level(np.full(3, 0.5), 0.5, 50, seed()))
    generator = np.random.default_rng(seed())
    guesses = np.clip(np.rint((w + 0.5 * generator.normal(size=(50, 3)))[:, -1]), 0, 2)
    np.testing.assert_allclose(outcome["shares"], (guesses[:, None] == X[:, 0]).mean(axis=1))


def test_facts_are_marked(data, model):
    X, y = data
    for attack in (PriorAttack(0), ImputationAttack(0)):
        level = Level(np.ones(3), 1.0, 3, seed())
        outcome = play_actual(attack.fit(X, y), np.zeros(3), X[:, 0], level)
        assert outcome["exact"]
        assert set(outcome["counts"]) <= {0, 3}


@pytest.mark.slow
def test_blocks_do_not_change_the_games(data, model, monkeypatch):
    X, y = data
    white = WhiteBoxAttributeInference(model, 0).fit(X, y)
    black = BlackBoxAttributeInference(model, 0).fit(X, y)
    level = Level(np.full(3, 0.1), 0.1, 37, seed())
    known = (white.encodings_, white.values_, white.prior_, level)

    def play():
        w = noiseless(model, X, y)
        numbers = InformedReconstruction(model).fit(X, y)
        return [
            play_actual(white, w, X[:, 0], level),
            play_drawn(black, *known),
            play_errors(numbers, w, X, np.ones(20), 1.0, replace(level, n_releases=7)),
        ]

    whole = play()
    monkeypatch.setattr("skleak.audit.games._trials._ELEMENTS", 50)
    for first, second in zip(whole, play(), strict=True):
        for name, value in first.items():
            np.testing.assert_allclose(value, second[name], err_msg=name)


def test_own_attacks_play_each_and_subclasses_do_not():
    class Mine(WhiteBoxAttributeInference):
        pass

    assert played_by(WhiteBoxAttributeInference(None, 0)) == "each"
    assert played_by(PriorAttack(0)) == played_by(ImputationAttack(0)) == "each"
    assert played_by(Mine(None, 0)) is None
    assert played_by(BlackBoxAttributeInference(None, 0)) == "some"


@pytest.mark.parametrize("kind", mostly_slow(["each", "one at a time"]))
@pytest.mark.parametrize("prior", mostly_slow(["uniform", "marginal", [0.1, 0.2, 0.7]]))
def test_success_of_the_best_attack_is_bayes(kind, prior, data, model):
    X, y = data
    own = WhiteBoxAttributeInference if kind == "each" else type("Mine", (Own,), {})
    attack = own(model, 0, prior=prior).fit(X, y)
    for scale in (0.05, 0.5):
        exact = GaussianChannel(attack.encodings_, scale, tolerance=1e-5).bayes_success(
            attack.prior_
        )
        known = (attack.encodings_, attack.values_, attack.prior_)
        n = 2000 if kind == "each" else 20_000
        outcome = play_drawn(attack, *known, Level(np.full(3, scale), scale, n, seed()))
        hits, games = int(outcome["hits"]), int(outcome["games"])
        assert games == (40_000 if kind == "each" else 20_000)
        assert stats.binomtest(hits, games, exact.mean()).pvalue > 1e-4
        if kind == "each":
            p_values = [
                stats.binomtest(int(k), 2000, min(p, 1.0)).pvalue
                for k, p in zip(outcome["counts"], exact, strict=True)
            ]
            assert min(p_values) > 1e-5


class Own(WhiteBoxAttributeInference):
    pass


@pytest.mark.slow
def test_attacks_that_read_a_release_whole_play_a_thousand_games(data, model):
    X, y = data
    attack = BlackBoxAttributeInference(model, 0).fit(X, y)
    white = WhiteBoxAttributeInference(model, 0).fit(X, y)
    known = (white.encodings_, white.values_, white.prior_)
    for n, games in ((3, 60), (100, 1000), (1500, 1500)):
        outcome = play_drawn(attack, *known, Level(np.full(3, 0.1), 0.1, n, seed()))
        assert outcome["games"] == games
        assert "counts" not in outcome


@pytest.mark.parametrize(
    "attack", mostly_slow([BlackBoxAttributeInference, InformedAttributeInference])
)
def test_guesses_about_one_target_change_no_game(attack, data, model):
    X, y = data
    white = WhiteBoxAttributeInference(model, 0).fit(X, y)
    level = Level(np.full(3, 0.1), 0.1, 5, seed())
    known = (white.encodings_, white.values_, white.prior_, level)
    own = attack(model, 0).fit(X, y)
    whole = type("Mine", (attack,), {})(model, 0).fit(X, y)  # asked about all targets
    assert play_drawn(own, *known) == play_drawn(whole, *known)


@pytest.mark.parametrize("attack", [PriorAttack(0), ImputationAttack(0)])
def test_baselines_win_as_often_as_the_prior_says(attack, data, model):
    X, y = data
    white = WhiteBoxAttributeInference(model, 0).fit(X, y)
    attack.fit(X, y)
    known = (white.encodings_, white.values_, white.prior_)
    outcome = play_drawn(attack, *known, Level(np.full(3, 0.1), 0.1, 1000, seed()))
    expected = white.prior_[np.arange(20), attack.prior_.argmax(axis=1)]
    spread = np.sqrt(expected * (1 - expected) / 1000)
    assert (np.abs(outcome["counts"] / 1000 - expected) < 4.5 * spread).all()


def test_secrets_follow_their_prior(rng):
    prior = rng.dirichlet(np.ones(4), size=5)
    prior[0] = [0.0, 0.5, 0.0, 0.5]
    prior[1] = [0.0, 0.0, 0.0, 1.0]
    prior[2] = [1.0, 0.0, 0.0, 0.0]
    secrets = draw_secrets(prior, 20_000, rng)
    assert secrets.shape == (20_000, 5)
    for j in range(5):
        counts = np.bincount(secrets[:, j], minlength=4)
        possible = prior[j] > 0
        assert (counts[~possible] == 0).all()
        if possible.sum() > 1:
            assert stats.chisquare(counts[possible], 20_000 * prior[j][possible]).pvalue > 1e-4
    # Draws of different targets and of different games are independent.
    correlation = np.corrcoef(secrets[:, 3], secrets[:, 4])[0, 1]
    assert abs(correlation) < 4.5 / np.sqrt(20_000)
    assert abs(np.corrcoef(secrets[1:, 3], secrets[:-1, 3])[0, 1]) < 4.5 / np.sqrt(20_000)


def test_errors_equal_the_decomposition(data, model):
    X, y = data
    attack = InformedReconstruction(model).fit(X, y)
    w, noise, bound = noiseless(model, X, y), np.full(3, 0.01), np.linspace(0.01, 0.4, 20)
    outcome = play_errors(attack, w, X, bound, 2.0, Level(noise, 0.01, 12, seed()))
    generator = np.random.default_rng(seed())
    releases = np.stack([w + noise * generator.normal(size=3) for _ in range(12)])
    guesses = np.stack([np.asarray(attack.predict(r[None])).reshape(X.shape) for r in releases])
    expected = error_decomposition(guesses, X)
    for name in ("mse", "variance", "squared_bias"):
        np.testing.assert_allclose(outcome[name], getattr(expected, name), rtol=1e-9)
    squares = ((guesses - X) ** 2).mean(axis=2)
    np.testing.assert_allclose(outcome["mse_by_release"], squares.mean(axis=1))
    sharp = bound <= 0.1 * 2.0
    assert 0 < sharp.sum() < 20
    ratio = (squares / bound)[:, sharp].mean(axis=1)
    np.testing.assert_allclose(outcome["ratio_by_release"], ratio)
    median = np.median((squares.mean(axis=0) / bound)[sharp])
    np.testing.assert_allclose(outcome["ratio"], median)
    bias = ((guesses.mean(axis=0) - X) ** 2).mean(axis=1)
    expected = np.median((12 * bias / expected.variance)[sharp])
    np.testing.assert_allclose(outcome["bias_over_noise"], expected)


def test_errors_stay_finite():
    class Wild:
        def predict(self, released):
            return np.tile([np.nan, np.inf, -np.inf, 1e200, 1.0], (len(released), 1))

    truth, bound = np.ones((5, 1)), np.full(5, 0.05)
    level = Level(np.ones(1), 1.0, 4, seed())
    outcome = play_errors(Wild(), np.zeros(1), truth, bound, 1.0, level)
    for name in ("mse", "mse_by_release", "ratio_by_release"):
        assert np.isfinite(outcome[name]).all()
    assert outcome["mse"].min() == 0.0
    assert (outcome["mse"][:4] >= 1e99).all()


def test_unusable_bounds_give_no_ratio(data, model):
    X, y = data
    attack = InformedReconstruction(model).fit(X, y)
    for bound in (np.full(20, np.nan), np.full(20, np.inf), np.full(20, 0.3)):
        arguments = (noiseless(model, X, y), X, bound, 2.0, Level(np.ones(3), 1.0, 3, seed()))
        assert np.isnan(play_errors(attack, *arguments)["ratio"])


def test_guesses_of_a_wrong_shape_are_refused():
    class Short:
        def predict(self, released):
            return np.zeros((len(released), 3))

    with pytest.raises(ValueError, match=r"one guess for each release and target, shape \(2, 4\)"):
        play_actual(Short(), np.zeros(2), np.zeros(4), Level(np.ones(2), 1.0, 2, seed()))
