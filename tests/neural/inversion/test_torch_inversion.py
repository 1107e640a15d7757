"""Gradient inversion of torch modules: the same as in closed form, and a network read off."""

import numpy as np
import pytest

from skleak.losses import SoftmaxLoss
from skleak.neural.gradients import Clipping, LinearGradients
from skleak.neural.inversion import GradientInversion, observe_gradients

torch = pytest.importorskip("torch")
D, K, T = 5, 3, 2


def gradients_of(layers, clipping=None, seed=0):
    from skleak.neural.torch import TorchGradients

    return TorchGradients(
        lambda: torch.nn.Sequential(*layers()),
        Clipping("smooth", 1.0) if clipping is None else clipping,
        record_shape=(D,),
        n_classes=K,
        rng=np.random.default_rng(seed),
    )


def network():
    yield torch.nn.Linear(D, 6, dtype=torch.float64)
    yield torch.nn.Tanh()
    yield torch.nn.Linear(6, K, dtype=torch.float64)


def path_of(gradients, rng):
    start = gradients.parameters
    return start + 0.1 * rng.standard_normal((T, len(start)))


@pytest.mark.parametrize("clipping", [Clipping("smooth", 0.7), Clipping("hard", 0.7)])
def test_a_linear_module_is_as_in_closed_form(clipping, rng):
    module = gradients_of(lambda: [torch.nn.Linear(D, K, dtype=torch.float64)], clipping)
    closed = LinearGradients(SoftmaxLoss(), clipping, D, K)
    path, u = path_of(closed, rng), rng.standard_normal((T, K * (D + 1)))
    for x in (rng.standard_normal(D), np.zeros(D)):
        found, pull = module.at_steps(path)(x, 2.0)
        expected, pull_closed = closed.at_steps(path)(x, 2.0)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(pull(u), pull_closed(u), rtol=1e-11, atol=1e-13)


class TestNetwork:
    def test_derivative_by_differences(self, rng):
        gradients = gradients_of(network)
        steps, x = gradients.at_steps(path_of(gradients, rng)), rng.standard_normal(D)
        u = rng.standard_normal((T, gradients.n_parameters))
        own = steps(x, 1.0)[1](u)
        for k, step in enumerate(1e-6 * np.eye(D)):
            moved = [np.sum(u * steps(x + sign * step, 1.0)[0]) for sign in (1, -1)]
            assert own[k] == pytest.approx((moved[0] - moved[1]) / 2e-6, abs=1e-7)

    def test_a_record_is_read_off_without_noise(self, rng):
        gradients = gradients_of(network)
        before, known = gradients.parameters, rng.standard_normal((20, D))
        path = path_of(gradients, rng)
        seen = observe_gradients(gradients, known[0], 1, path, 0.0)
        attack = GradientInversion(gradients, noise_scale=0.0, prior=None, random_state=0)
        np.testing.assert_allclose(attack.fit(known).predict(seen), known[0], atol=1e-4)
        np.testing.assert_array_equal(gradients.parameters, before)

    @pytest.mark.slow
    def test_the_bounds_hold(self, rng):
        """Cramer-Rao is reached with little noise, and van Trees holds with more."""
        gradients, n_trials = gradients_of(network), 40
        path, known = path_of(gradients, rng), rng.standard_normal((100, D))
        options = {"max_iter": 60, "tol": 1e-7}
        attack = GradientInversion(gradients, noise_scale=1e-3, prior=None, **options)
        bound = attack.fit(known).cramer_rao_mse(known[:1], np.array([1]), path)[0]
        # From the record itself: whether the search finds it is not the question here.
        attack.mean_ = known[0]
        attack.set_params(n_starts=1)
        seen = [
            observe_gradients(gradients, known[0], 1, path, 1e-3, random_state=seed)
            for seed in rng.spawn(n_trials)
        ]
        errors = np.mean((attack.predict(seen) - known[0]) ** 2, axis=1)
        assert abs(errors.mean() - bound) < 5.0 * errors.std() / np.sqrt(n_trials)

        attack = GradientInversion(gradients, noise_scale=0.3, n_starts=1, **options)
        bound, error = attack.fit(known).van_trees_mse(1, path, n_draws=100, random_state=rng)
        records = attack.mean_ + attack.scale_ * rng.standard_normal((n_trials, D))
        seen = [
            observe_gradients(gradients, record, 1, path, 0.3, random_state=seed)
            for record, seed in zip(records, rng.spawn(n_trials), strict=True)
        ]
        errors = np.mean((attack.predict(seen) - records) ** 2, axis=1)
        deviation = np.hypot(errors.std() / np.sqrt(n_trials), error)
        assert errors.mean() > bound - 4.0 * deviation
        assert errors.mean() < np.mean(attack.scale_**2) + 4.0 * deviation


def test_a_digit_from_the_network_of_the_paper(rng):
    """[DRA22] table 1, one step with little noise: far better than the prior."""
    from skleak.neural.models import dra22_mnist
    from skleak.neural.torch import TorchGradients

    gradients = TorchGradients(
        dra22_mnist,
        Clipping("smooth", 1.0),
        record_shape=(784,),
        n_classes=10,
        rng=rng,
        device="cpu",
    )
    known = rng.random((30, 784))
    path = gradients.parameters[None]
    seen = observe_gradients(gradients, known[0], 3, path, 1e-6, random_state=0)
    attack = GradientInversion(gradients, noise_scale=1e-6, n_starts=1, max_iter=60)
    found = attack.fit(known[1:]).predict(seen)
    before = np.mean((known[0] - attack.mean_) ** 2)
    assert np.mean((found - known[0]) ** 2) < 0.7 * before
