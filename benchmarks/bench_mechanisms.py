"""What records leak by where the noise is: at one mu, and at one test score.

One split of each table. At one mu: that of (1, 1e-6)-differential privacy of the Gaussian mechanism
for output and moments, and that goal for noise in the objective. At one score: the least mu of a
grid, steps of 2^(1/4), at which the mean score of some releases reaches that of noise in the
objective at epsilon 1. Noise on the minimizer has the penalty of the best score on the test set.
Losses are those of whole rows, in units of columns over their public bounds, and of targets; of
noise in the objective means over simulated fits, with the largest relative standard error. Gains,
for even odds, are the largest of the twenty longest records: about a target, and about one column;
of noise in the objective about the column by simulation, with its standard error. Gaussian
distances beside them are exact.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _common import exit_status, fetch_or_none, parse_options, print_table
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge

from skleak.accounting.gaussian import mu_from_epsilon_delta
from skleak.datasets import fetch_iwpc
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.objective_noise import candidate_success, noisy_losses
from skleak.influence.refit import candidate_encodings, target_encodings
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression, PrivateMoments
from skleak.mechanisms import EpsilonDelta, GaussianDP, ObjectivePerturbation

DELTA, MU = 1e-6, float(mu_from_epsilon_delta(1.0, 1e-6))
ALPHAS = (1e-3, 1e-2, 1e-1)
GRID = MU * 2.0 ** (np.arange(-12, 33) / 4.0)
NOT_ASKED = np.full((1, 2), np.nan)
TARGET = Columns(np.zeros(0, dtype=np.intp), target=True)
HEADER = ["data", "mechanism", "at", "mu", "score", "median loss", "max loss"]
HEADER += ["median target loss", "max target loss", "target gain", "column gain", "error"]


@dataclass(frozen=True)
class Data:
    """A table in a ball of public bounds, and what is asked about."""

    name: str
    X: np.ndarray
    y: np.ndarray
    n_train: int
    longest: float  # largest norm of a row
    column: int
    values: np.ndarray  # of the column
    targets: np.ndarray  # of the target

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.random.default_rng(0).permutation(len(self.y))[: self.n_train]
        return self.X[order], self.y[order]

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.random.default_rng(0).permutation(len(self.y))[self.n_train :]
        return self.X[order], self.y[order]

    @property
    def classifies(self) -> bool:
        return len(self.targets) == 2 and set(self.targets) == {0, 1}


@dataclass(frozen=True)
class Fitted:
    """Parts of what is told of a fit by one mechanism."""

    score: Callable[[], float]  # of one release
    losses: np.ndarray  # of rows and targets, of targets, (n, 2)
    error: float  # largest standard error of a loss, relative
    target_gain: float
    column_gain: float
    gain_error: float
    mu: float


def gain(distance: Any) -> float:
    return float(2.0 * norm.cdf(0.5 * np.max(distance)) - 1.0)


def longest_rows(X: np.ndarray) -> np.ndarray:
    return np.argsort(-np.linalg.norm(X, axis=1))[:20]


def scored(data: Data, coef: np.ndarray, intercept: float = 0.0) -> float:
    X, y = data.test
    predictor = X @ coef + intercept
    if data.classifies:
        return float(np.mean((predictor > 0.0) == y))
    return float(1.0 - np.mean((predictor - y) ** 2) / np.var(y))


def output(data: Data, mu: float, alpha: float, told: bool = True) -> Fitted:
    """Noise on the minimizer, by the sensitivity of its public bounds."""
    X, y = data.train
    bound, n = data.longest, len(y)
    slope = 1.0 if data.classifies else 1.0 + bound / (2.0 * np.sqrt(alpha))
    scale = 2.0 * bound * slope / (n * alpha) / mu
    kind = PrivateLogisticRegression if data.classifies else PrivateLinearRegression
    model = kind(scale, alpha=alpha, fit_intercept=False, random_state=0).fit(X, y)
    state, rows = model._state, longest_rows(X)
    exact, rng = state.factor.coefficients, np.random.default_rng(0)

    def score() -> float:
        return scored(data, exact + scale * rng.normal(size=len(exact)))

    if not told:
        return Fitted(score, NOT_ASKED, 0.0, 0.0, 0.0, 0.0, mu)
    found = leakage_model(state).feature_loss(state.training, [Columns(target=True), TARGET])
    labels = target_encodings(state, rows, data.targets)
    given = X[rows], y[rows], [data.column], data.values[:, None]
    columns = candidate_encodings(state, *given, rows=rows)
    gaps = [np.linalg.norm(e[:, 1] - e[:, 0], axis=1) / scale for e in (labels, columns)]
    return Fitted(score, found, 0.0, gain(gaps[0]), gain(gaps[1]), 0.0, mu)


def objective(data: Data, mu: float | None) -> Fitted:
    """Noise in the objective; at (1, 1e-6)-differential privacy for None."""
    X, y = data.train
    goal: Any = EpsilonDelta(1.0, DELTA) if mu is None else GaussianDP(mu)
    given = {"alpha": "auto", "data_norm": data.longest, "fit_intercept": False}
    given |= {"public": ("n_samples",), "random_state": 0}
    if data.classifies:
        model = PrivateLogisticRegression(goal, classes=[0, 1], mechanism="objective", **given)
    else:
        mechanism = ObjectivePerturbation(huber=0.1)
        model = PrivateLinearRegression(goal, mechanism=mechanism, target_bound=1.0, **given)
    model.fit(X, y)
    state, rows, noise = model._state, longest_rows(X), model._state.noise_elsewhere
    found, errors = noisy_losses(state, state.training, [Columns(target=True), TARGET], "spectral")
    gains, n_draws = [], 400
    for row in rows[:3]:
        candidates = np.repeat(X[[row]], 2, axis=0)
        candidates[:, data.column] = data.values
        same = y[[row, row]]
        gains.append(candidate_success(state, candidates, same, row, np.full(2, 0.5), n_draws))
        if not data.classifies:
            own = X[[row, row]], data.targets
            gains.append(candidate_success(state, *own, row, np.full(2, 0.5), n_draws))
    told = gain(leakage_model(state).apart(state.training, None, data.targets[:, None])[0])
    best = max(gains if data.classifies else gains[::2])
    if not data.classifies:
        told = 2.0 * max(gains[1::2])[0] - 1.0
    rng = np.random.default_rng(0)
    return Fitted(
        lambda: scored(data, noise.release(X, y, np.ones(len(y)), rng)[0].parameters),
        found, float(np.max(errors / found)), told, 2.0 * best[0] - 1.0, 2.0 * best[1], noise.mu,
    )  # fmt: skip


def moments(data: Data, mu: float, told: bool = True) -> Fitted:
    """Noise on sums."""
    X, y = data.train
    given = {"data_norm": data.longest, "target_bound": 1.0, "fit_intercept": False}
    model = PrivateMoments(GaussianDP(mu), random_state=0, **given).fit(X, y)
    noise, rows, rng = model.noise_, longest_rows(X), np.random.default_rng(0)

    def score() -> float:
        again = PrivateMoments(GaussianDP(mu), random_state=rng, **given).fit(X, y)
        sums = again._moments
        penalty = 0.5 * np.sqrt(2.0 * X.shape[1] / noise.a)
        values, vectors = np.linalg.eigh(sums["xx"])
        kept = vectors / (np.maximum(values, 0.0) + penalty) @ vectors.T
        return scored(data, kept @ sums["xy"] * noise.target_bound / noise.unit)

    if not told:
        return Fitted(score, NOT_ASKED, 0.0, 0.0, 0.0, 0.0, mu)
    scaled, targets = noise.scaled(X, y)
    t = np.sum(scaled**2, axis=1)
    own = np.sqrt(noise.b * t + 4.0 * noise.c * targets**2 + noise.f) / noise.target_bound
    gaps: list[list[float]] = [[], []]
    for row in rows:
        low, high = np.repeat(X[[row]], 2, axis=0)
        low[data.column], high[data.column] = data.values
        gaps[0].append(noise.distance((X[row], data.targets[0]), (X[row], data.targets[1])))
        gaps[1].append(noise.distance((low, y[row]), (high, y[row])))
    found = np.column_stack([model.leakage_, own])
    return Fitted(score, found, 0.0, gain(gaps[0]), gain(gaps[1]), 0.0, noise.mu)


OUTPUT = [partial(output, alpha=alpha) for alpha in ALPHAS]


def tables(quick: bool) -> Iterator[tuple[Data, dict[str, Any]]]:
    X, y = load_breast_cancer(return_X_y=True)
    # The ranges that its description prints; rows are clipped to length 1, a constant among them.
    X = 2.0 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1.0
    X = np.column_stack([X, np.ones(len(X))])
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    ends = np.mean(X[:, 0]) + np.array([-1.0, 1.0]) * np.std(X[:, 0])
    cancer = Data("breast cancer", X, y, 400, 1.0, 0, ends, np.array([0.0, 1.0]))
    yield cancer, {"objective": objective, "output": OUTPUT}
    found = fetch_or_none(fetch_iwpc, encoded=True)
    if quick or found is None:
        return
    X, y = found[0].to_numpy(float), found[1].to_numpy(float)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    X = np.column_stack([X, np.ones(len(X))])
    y = 2.0 * (y - y.min()) / np.ptp(y) - 1.0
    column = next(k for k, name in enumerate(found[0]) if name.startswith("vkorc1"))
    longest, step = float(np.sqrt(X.shape[1])), np.array([-1.0, 1.0]) * np.std(y)
    iwpc = Data("IWPC", X, y, int(0.8 * len(y)), longest, column, np.array([0.0, 1.0]), step)
    yield iwpc, {"objective": objective, "moments": [moments], "output": OUTPUT}


def line(data: Data, way: str, at: str, one: Fitted, score: float) -> list[str]:
    whole, target = one.losses.T
    numbers = [np.median(whole), whole.max(), np.median(target), target.max()]
    shown = [data.name, way, at, f"{one.mu:.3g}", f"{score:.3f}", *(f"{x:.3g}" for x in numbers)]
    errors = f"{one.error:.1%} / {one.gain_error:.1%}" if one.error else "0"
    return [*shown, f"{one.target_gain:.1%}", f"{one.column_gain:.1%}", errors]


def least_mu(
    data: Data, make: Any, grid: Any, least: float, n_releases: int
) -> tuple[Fitted, float] | None:
    """Find the fit of the least mu whose mean score reaches one, and the score."""
    for mu in grid:
        scores = [
            np.mean([one.score() for _ in range(n_releases)])
            for one in (each(data, mu, told=False) for each in make)
        ]
        if max(scores) >= least:
            return make[int(np.argmax(scores))](data, mu), float(max(scores))
    return None


def main() -> int:
    options = parse_options(__doc__)
    n_releases, lines, failures = 5 if options.quick else 20, [], []
    for data, ways in tables(options.quick):
        X, y = data.train
        exact: Any = LogisticRegression(C=1.0, fit_intercept=False)
        exact = exact if data.classifies else Ridge(1.0, fit_intercept=False)
        coef = exact.fit(X, y).coef_.ravel()
        print(f"{data.name}: score without privacy {scored(data, coef):.3f}")
        goal = 0.0
        objective_way, *others = ways.items()
        one = objective_way[1](data, None)
        goal = float(np.mean([one.score() for _ in range(n_releases)]))
        lines.append(line(data, "objective", "one mu", one, goal))
        if one.target_gain > gain(one.mu):
            failures.append(f"{data.name}: targets gain more than mu = {one.mu:.3g}")
        for way, make in others:
            for at, grid, least in (("one mu", [MU], -np.inf), ("one score", GRID, goal)):
                found = least_mu(data, make, grid, least, n_releases)
                if found is None:
                    print(f"{data.name}, {way}: no mu up to {grid[-1]:.3g} has that score")
                else:
                    lines.append(line(data, way, at, *found))
    print_table("Losses and gains", HEADER, lines, HEADER[:3])
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
