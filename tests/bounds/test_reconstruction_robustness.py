import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from skleak.bounds import reconstruction_robustness_advantage, renyi_fano_advantage


def test_agrees_with_the_formula(rng):
    for prior in ([0.5, 0.5], [0.7, 0.2, 0.1], rng.dirichlet(np.ones(9))):
        q = np.max(prior)
        for order in (1.2, 2.0, 20.0):
            for epsilon in (0.0, 0.1, 3.0):
                success = min((np.exp(epsilon) * q) ** ((order - 1) / order), 1.0)
                found = reconstruction_robustness_advantage(epsilon, order, prior, refine=False)
                assert found == pytest.approx((success - q) / (1 - q), abs=1e-12)
                moment = q * (q + (1 - q) * np.exp((order - 1) * epsilon)) ** (1 / (order - 1))
                success = min(moment ** ((order - 1) / order), 1.0)
                found = reconstruction_robustness_advantage(epsilon, order, prior)
                assert found == pytest.approx((success - q) / (1 - q), abs=1e-12)


def test_published_value_for_ten_values():
    # Gaussian noise 1 on one-hot encodings has epsilon equal to the order.
    best = minimize_scalar(
        lambda order: reconstruction_robustness_advantage(order, order, 10, refine=False),
        bounds=(1.1, 2.5),
        method="bounded",
    )
    assert best.fun == pytest.approx(0.739, abs=5e-4)
    orders = np.linspace(1.01, 5.0, 4000)
    published = reconstruction_robustness_advantage(orders, orders, 10, refine=False)
    assert published == pytest.approx(best.fun, abs=1e-6)
    assert reconstruction_robustness_advantage(orders, orders, 10) < published - 0.01


def test_looser_than_generalized_fano_for_uniform_priors(rng):
    for size in (2, 10, 10**10):
        order, epsilon = rng.uniform(1.01, 20.0, 50), rng.uniform(0.0, 3.0, 50)
        looser = reconstruction_robustness_advantage(epsilon, order[0], size)
        assert np.all(looser >= renyi_fano_advantage(epsilon, order[0], size) - 1e-12)


def test_infinite_order_and_epsilon():
    assert reconstruction_robustness_advantage(0.0, np.inf, [0.6, 0.4]) == 0.0
    assert reconstruction_robustness_advantage(np.inf, 2.0, 10**10) == 1.0


def test_small_epsilon_keeps_its_digits():
    found = reconstruction_robustness_advantage(1e-12, np.inf, 4)
    assert found == pytest.approx(1e-12 / 3.0, rel=1e-9)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: reconstruction_robustness_advantage(1.0, 1.0, 3), "`order` must exceed 1"),
        (lambda: reconstruction_robustness_advantage(1.0, [1.0, 2.0], 3), "`order` must exceed 1"),
        (lambda: reconstruction_robustness_advantage(1.0, 0.5, 3), "`order` must be at least 1"),
        (lambda: reconstruction_robustness_advantage(-1.0, 2.0, 3), "`epsilon` must be at least 0"),
        (lambda: reconstruction_robustness_advantage(1.0, 2.0, [0.5, 0.6]), "must sum to 1"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
