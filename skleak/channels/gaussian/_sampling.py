"""Quasi Monte Carlo with a standard error, as many points as each record needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skleak.channels.gaussian._quadrature import sobol_points
from skleak.utils._random import make_generator
from skleak.utils._typing import FloatArray, RandomState

# Maps points (n, M, k), priors (n, M) and nodes of the unit cube to one value a record.
CubeIntegral = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
UnseenMass = Callable[[FloatArray, FloatArray, int], FloatArray]

# Independent scramblings of the Sobol points; their spread is the standard error.
N_SCRAMBLINGS = 16
# Nodes of the first attempt, for each secret; a power of two.
FEWEST_NODES = 64
# Standard error aimed at in nats, relative to that of a success probability.
NATS = 5.0
# Factor between attempts.
GROWTH = 4


@dataclass(frozen=True)
class Sampling:
    """Sampling plan: the standard error aimed at, the most points of a scrambling, the seed."""

    tolerance: float | FloatArray  # one, or one for each record
    max_points: int
    random_state: RandomState


def sampled_integral(
    integral: CubeIntegral,
    dimension: int,
    points: FloatArray,
    prior: FloatArray,
    sampling: Sampling,
    unseen: UnseenMass | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Quasi Monte Carlo estimate of an integral over the unit cube, and its standard error.

    Each record is done again with four times as many points until that should meet the tolerance,
    at the usual rate of 1 / n. What a record gets does not depend on the others.

    Shapes: ``points``, ``prior`` (n, M, k) and (n, M), encodings in standard deviations of the
    noise, and prior of the secret; returns ``value``, ``standard_error`` (n,).
    """
    n, n_values, _ = points.shape
    generator = make_generator(sampling.random_state)
    value, error = np.empty(n), np.empty(n)
    pending, last = np.arange(n), np.zeros(n, dtype=bool)
    tolerance = np.broadcast_to(sampling.tolerance, (n,))
    n_nodes = FEWEST_NODES
    while pending.size:
        estimates = []
        for scrambling in generator.spawn(N_SCRAMBLINGS):
            nodes = sobol_points(dimension, n_nodes, scrambling)
            estimates.append(integral(points[pending], prior[pending], nodes))
        value[pending] = np.mean(estimates, axis=0)
        error[pending] = np.std(estimates, axis=0, ddof=1) / np.sqrt(N_SCRAMBLINGS)
        if unseen is not None:
            missed = unseen(points[pending], prior[pending], N_SCRAMBLINGS * n_nodes)
            error[pending] = np.maximum(error[pending], missed)
        n_nodes *= GROWTH
        if n_nodes * n_values > sampling.max_points:
            break
        pending = pending[~last[pending]]
        # To stop at the first small error would select those that are too small by chance: it only
        # decides that the next, independent estimate is the last.
        last[pending] = error[pending] <= GROWTH * tolerance[pending]
    return value, error
