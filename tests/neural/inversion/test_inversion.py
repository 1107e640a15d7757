"""Gradient inversion of a linear model: exact without noise, and above the bounds with it."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skleak.exceptions import AttackNotApplicableError
from skleak.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skleak.neural import PrivateSGDClassifier
from skleak.neural.gradients import Clipping, LinearGradients
from skleak.neural.inversion import (
    GradientInversion,
    GradientObservation,
    Posterior,
    observe_gradients,
)

MODELS = {
    "logistic": lambda d, **kw: LinearGradients(LogisticLoss(), Clipping("smooth", 1.0), d, **kw),
    "squared": lambda d, **kw: LinearGradients(SquaredLoss(), Clipping("smooth", 2.0), d, **kw),
    "softmax": lambda d, **kw: LinearGradients(SoftmaxLoss(), Clipping("smooth", 1.0), d, 3, **kw),
    "hard": lambda d, **kw: LinearGradients(LogisticLoss(), Clipping("hard", 0.3), d, **kw),
}
D, T = 4, 5


def path_of(gradients, rng, scale=0.7):
    return scale * rng.standard_normal((T, gradients.n_parameters))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fit_intercept", [True, False])
class TestSteps:
    def test_gradients_are_those_of_training(self, name, fit_intercept, rng):
        gradients = MODELS[name](D, fit_intercept=fit_intercept)
        path = path_of(gradients, rng)
        for x in (rng.standard_normal(D), np.zeros(D), 1e6 * np.ones(D)):
            found, _ = gradients.at_steps(path)(x, 1.0)
            for point, own in zip(path, found, strict=True):
                gradients.parameters = point
                expected, _ = gradients.clipped_sum(x[None], np.array([1]))
                np.testing.assert_allclose(own, expected, atol=1e-14)

    def test_posterior_has_the_derivative_that_it_says(self, name, fit_intercept, rng):
        gradients = MODELS[name](D, fit_intercept=fit_intercept)
        path = path_of(gradients, rng)
        steps, ends = gradients.at_steps(path), np.full(D, np.inf)
        for rate, weight in [(1.0, 0.0), (0.3, 1.0)]:
            signals = 0.5 * rng.standard_normal(path.shape)
            posterior = Posterior(
                steps, signals, 0.4, rate, np.ones(D), 0.5 + rng.random(D), weight, -ends, ends
            )
            for z in rng.standard_normal((3, D)):
                error = check_grad(
                    lambda z, p=posterior: p(z, 1.0)[0], lambda z, p=posterior: p(z, 1.0)[1], z
                )
                assert error < 1e-5


def test_posterior_is_the_log_density_of_the_mixture(rng):
    gradients = MODELS["softmax"](D)
    path, q, s = path_of(gradients, rng), 0.2, 0.6
    steps, ends = gradients.at_steps(path), np.full(D, np.inf)
    signals = rng.standard_normal(path.shape)
    posterior = Posterior(steps, signals, s, q, np.zeros(D), np.ones(D), 0.0, -ends, ends)

    def log_density(x):
        own, _ = steps(x, 2.0)
        with_it = np.exp(-0.5 * np.sum((signals - own) ** 2, axis=1) / s**2)
        without = np.exp(-0.5 * np.sum(signals**2, axis=1) / s**2)
        return np.sum(np.log(q * with_it + (1 - q) * without))

    first, second = rng.standard_normal((2, D))
    difference = posterior(first, 2.0)[0] - posterior(second, 2.0)[0]
    assert difference == pytest.approx(log_density(second) - log_density(first), rel=1e-9)


class TestWithoutNoise:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("prior", ["normal", None])
    def test_a_record_is_read_off(self, name, prior, rng):
        """Also far from all known records, and where some steps are without it."""
        gradients = MODELS[name](D)
        path, known = path_of(gradients, rng), rng.standard_normal((20, D))
        for record in (rng.standard_normal(D), 30.0 * np.ones(D)):
            for rate in (1.0, 0.5):
                seed = 3  # of the five steps some have it, and some do not
                seen = observe_gradients(
                    gradients, record, 0, path, 0.0, sampling_rate=rate, random_state=seed
                )
                assert np.any(seen.signals)
                attack = GradientInversion(
                    gradients, noise_scale=0.0, sampling_rate=rate, prior=prior, n_starts=1
                ).fit(known)
                np.testing.assert_allclose(attack.predict(seen), record, rtol=1e-6, atol=1e-7)
                assert attack.score([seen], record[None]) > -1e-9

    def test_without_an_intercept_by_search(self, rng):
        """A gradient alone has the direction; several parameters give the length."""
        gradients = MODELS["logistic"](D, fit_intercept=False)
        path, record = path_of(gradients, rng), rng.standard_normal(D)
        seen = observe_gradients(gradients, record, 1, path, 0.0)
        attack = GradientInversion(gradients, noise_scale=0.0, prior=None, random_state=0)
        found = attack.fit(rng.standard_normal((20, D))).predict(seen)
        np.testing.assert_allclose(found, record, atol=1e-4)

    def test_an_unknown_class_is_found(self, rng):
        gradients = MODELS["softmax"](D)
        path, X = path_of(gradients, rng), rng.standard_normal((30, D))
        y = np.arange(30) % 3
        seen = [
            observe_gradients(gradients, X[k], y[k], path, 1e-4, known_target=False, random_state=k)
            for k in range(3)
        ]
        attack = GradientInversion(gradients, noise_scale=1e-4, n_starts=1).fit(X, y)
        np.testing.assert_allclose(attack.predict(seen), X[:3], atol=1e-2)
        with pytest.raises(AttackNotApplicableError, match="`fit` was given no classes"):
            attack.fit(X).predict(seen)


@pytest.mark.slow
class TestBounds:
    """The error of the attack, in simulations, against the bounds for every attack."""

    @pytest.mark.parametrize("name", ["logistic", "squared", "softmax"])
    def test_cramer_rao_is_reached_with_little_noise(self, name, rng):
        gradients, n_trials = MODELS[name](D), 200
        path, record = path_of(gradients, rng), rng.standard_normal(D)
        attack = GradientInversion(gradients, noise_scale=1e-3, prior=None, n_starts=1)
        attack.fit(rng.standard_normal((20, D)))
        bound = attack.cramer_rao_mse(record[None], np.array([1]), path)[0]
        seen = [
            observe_gradients(gradients, record, 1, path, 1e-3, random_state=seed)
            for seed in rng.spawn(n_trials)
        ]
        errors = np.mean((attack.predict(seen) - record) ** 2, axis=1)
        deviation = errors.std() / np.sqrt(n_trials)
        assert abs(errors.mean() - bound) < 5.0 * deviation
        assert deviation < 0.1 * bound

    @pytest.mark.parametrize("rate, noise", [(1.0, 0.1), (1.0, 1.0), (0.3, 0.2), (0.3, 1.0)])
    def test_van_trees_holds_on_average_over_the_prior(self, rate, noise, rng):
        """Far from trivial: the error is between the bound and the variance of the prior."""
        gradients, n_trials = MODELS["logistic"](D), 200
        path = path_of(gradients, rng)
        known = np.array([1.0, -0.5, 2.0, 0.0]) + rng.standard_normal((200, D))
        attack = GradientInversion(
            gradients, noise_scale=noise, sampling_rate=rate, n_starts=2, random_state=0
        ).fit(known)
        bound, error = attack.van_trees_mse(1, path, random_state=rng)
        records = attack.mean_ + attack.scale_ * rng.standard_normal((n_trials, D))
        seen = [
            observe_gradients(
                gradients, record, 1, path, noise, sampling_rate=rate, random_state=seed
            )
            for record, seed in zip(records, rng.spawn(n_trials), strict=True)
        ]
        errors = np.mean((attack.predict(seen) - records) ** 2, axis=1)
        deviation = np.hypot(errors.std() / np.sqrt(n_trials), error)
        assert errors.mean() > bound - 4.0 * deviation
        assert bound < np.mean(attack.scale_**2)
        if (rate, noise) == (1.0, 0.1):  # much is learned, and little more can be
            assert errors.mean() < 0.3 * np.mean(attack.scale_**2)
            assert errors.mean() < 2.0 * bound + 4.0 * deviation


class TestArguments:
    def test_columns_that_never_vary_are_known(self, rng):
        gradients = MODELS["logistic"](D)
        known = rng.standard_normal((20, D))
        known[:, 2] = 7.0
        attack = GradientInversion(gradients, noise_scale=1.0, random_state=0).fit(known)
        path = path_of(gradients, rng)
        seen = observe_gradients(gradients, known[0], 0, path, 1.0, random_state=0)
        assert attack.predict(seen)[2] == 7.0
        bound, _ = attack.van_trees_mse(0, path, random_state=0)
        assert 0.0 < bound < np.mean(attack.scale_**2)
        alike = attack.fit(np.ones((3, D)))
        np.testing.assert_array_equal(alike.predict(seen), 1.0)
        assert alike.van_trees_mse(0, path) == (0.0, 0.0)

    def test_much_noise_leaves_the_prior(self, rng):
        gradients, known = MODELS["logistic"](D), rng.standard_normal((20, D))
        path = path_of(gradients, rng)
        seen = observe_gradients(gradients, known[0], 0, path, 1e6, random_state=0)
        attack = GradientInversion(gradients, noise_scale=1e6, random_state=0).fit(known)
        np.testing.assert_allclose(attack.predict(seen), known.mean(axis=0), atol=1e-3)
        bounded = GradientInversion(
            gradients, noise_scale=1e6, prior=None, bounds=(-0.5, [0.5, 1.0, 2.0, 3.0])
        ).fit(known)
        found = bounded.predict(seen)
        assert np.all((found >= -0.5) & (found <= [0.5, 1.0, 2.0, 3.0]))

    def test_a_fitted_estimator_tells_gradients_and_noise(self, rng):
        X = rng.standard_normal((40, D))
        y = (X[:, 0] > 0).astype(int)
        model = PrivateSGDClassifier(
            noise_multiplier=0.25, max_grad_norm=2.0, max_steps=3, sampling_rate=0.5, random_state=0
        ).fit(X, y)
        gradients = LinearGradients(LogisticLoss(), Clipping("smooth", 2.0), D)
        path = path_of(gradients, rng)
        by_model = observe_gradients(model, X[0], y[0], path, random_state=0)
        by_hand = observe_gradients(gradients, X[0], y[0], path, 0.5, random_state=0)
        np.testing.assert_array_equal(by_model.signals, by_hand.signals)
        first = GradientInversion(model, random_state=0).fit(X).predict(by_model)
        second = GradientInversion(gradients, noise_scale=0.5, random_state=0).fit(X)
        np.testing.assert_array_equal(first, second.predict(by_hand))
        with pytest.raises(NotFittedError):
            GradientInversion(clone(model)).fit(X)
        with pytest.raises(TypeError, match="`model` must be a fitted PrivateSGDClassifier"):
            GradientInversion(LogisticRegression().fit(X, y)).fit(X)
        with pytest.raises(ValueError, match="`noise_scale` must be given with Gradients"):
            GradientInversion(gradients).fit(X)

    def test_seeds(self, rng):
        gradients, known = MODELS["softmax"](D), rng.standard_normal((20, D))
        path = path_of(gradients, rng)
        seen = [
            observe_gradients(gradients, known[0], 0, path, 0.3, random_state=seed)
            for seed in (0, 0, 1)
        ]
        np.testing.assert_array_equal(seen[0].signals, seen[1].signals)
        assert np.any(seen[0].signals != seen[2].signals)
        attack = GradientInversion(gradients, noise_scale=0.3, random_state=0).fit(known)
        np.testing.assert_array_equal(attack.predict(seen[0]), attack.predict(seen[:1])[0])
        assert gradients.parameters.tolist() == [0.0] * gradients.n_parameters

    def test_wrong_input(self, rng):
        gradients, known = MODELS["logistic"](D), rng.standard_normal((20, D))
        path = path_of(gradients, rng)
        with pytest.raises(ValueError, match=r"`parameters` must have shape \(n_steps, 5\); got"):
            observe_gradients(gradients, known[0], 0, path[:, :4], 1.0)
        with pytest.raises(ValueError, match="`sampling_rate` must lie in"):
            observe_gradients(gradients, known[0], 0, path, 1.0, sampling_rate=0.0)
        with pytest.raises(ValueError, match="`record` must not hold NaN"):
            observe_gradients(gradients, [np.nan] * D, 0, path, 1.0)
        with pytest.raises(ValueError, match="must have the same shape"):
            GradientObservation(path, path[:2])
        attack = GradientInversion(gradients, noise_scale=1.0)
        with pytest.raises(ValueError, match="`bounds` must be None or a pair"):
            attack.set_params(bounds=(1.0, 0.0)).fit(known)
        attack.set_params(bounds=None).fit(known)
        with pytest.raises(ValueError, match="with 5 parameters; got 3"):
            attack.predict(GradientObservation(np.zeros((2, 3)), np.zeros((2, 3)), 0.0))
        seen = observe_gradients(gradients, known[0], 0, path, 1.0)
        with pytest.raises(ValueError, match="`truth` must hold the records of the observations"):
            attack.score(seen, known)
        with pytest.raises(ValueError, match="`y` must hold the class numbers"):
            attack.fit(known, np.linspace(0, 1, 20))
