"""Upper bounds on extracting one of M equally likely tokens, and the best attack's success."""

import numpy as np

from skleak.bounds import advantage_to_success, gdp_advantage, renyi_fano_advantage
from skleak.neural.gradients import Clipping

# Orders over which the generalised Fano bound is minimised.
_ORDERS = np.concatenate([[1.0], 1.0 + np.geomspace(1e-3, 255.0, 200)])
# Names in the order of the results, from the smallest.
BOUNDS = ("tradeoff", "generalized_fano", "fano_order_1")


def divergence(clipping: Clipping, n_steps: int, noise_multiplier: float) -> float:
    """Kullback-Leibler divergence of the releases under two tokens, at most, in nats.

    A step adds noise to a gradient that another token moves by at most twice the sensitivity S:
    ``2 T (S / (sigma C))^2`` after T steps, with hard clipping ``2 T / sigma^2``, the axis of
    [FANO23] 6.3; the divergence of order a is a times as large.
    """
    return 2.0 * _steps(clipping, n_steps, noise_multiplier) ** 2


def success_bounds(
    clipping: Clipping, n_steps: int, noise_multiplier: float, n_candidates: int
) -> dict[str, float]:
    """Bounds on the success of any attack, by name, from public quantities alone.

    Of the trade-off bound the reference is the run without the canary: no step of it is farther
    from that of a token than S, by GDP composition ``sqrt(T) S / (sigma C)`` in all.
    """
    epsilon = divergence(clipping, n_steps, noise_multiplier)
    mu = _steps(clipping, n_steps, noise_multiplier)
    published = {"refine": False}
    advantages = {
        "tradeoff": gdp_advantage(2.0 * mu, n_candidates, reference_mu=mu),
        "generalized_fano": renyi_fano_advantage(
            epsilon * _ORDERS, _ORDERS, n_candidates, **published
        ),
        "fano_order_1": renyi_fano_advantage(epsilon, 1.0, n_candidates, **published),
    }
    return {name: float(advantage_to_success(advantages[name], n_candidates)) for name in BOUNDS}


def _steps(clipping: Clipping, n_steps: int, noise_multiplier: float) -> float:
    """``sqrt(T) S / (sigma C)``, infinite without noise."""
    noise = noise_multiplier * clipping.max_grad_norm
    return float(np.sqrt(n_steps) * clipping.sensitivity / noise) if noise > 0.0 else np.inf
