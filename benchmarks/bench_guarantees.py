"""Predictions under a guarantee of differential privacy, by mechanism.

Test scores over 20 fixed splits, one release on each, at equal (epsilon, 1e-6) for replacing a row:
accuracy, or the mean squared error of a target in [-1, 1]. Bounds are public: one-hot levels, and
numbers clipped to given ranges and divided by them. Rows are clipped to the root mean square that
values spread evenly within these bounds would have, or that is said of them, and a constant of half
of that is a column of each. Nothing is tuned, but for noise on the minimizer and private SGD, which
have the penalty and the learning rate of their best mean score on the test sets: that flatters
them. AdaSSP (Wang, UAI 2018) is written here by its paper, with the noise of the Gaussian mechanism
at its best and the sensitivities of a replacement. Without a seed, each release of a linear model
must state a guarantee that keeps its goal. `peers/compare_guarantees.py` puts diffprivlib beside
these.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from _common import exit_status, fetch_or_none, parse_options, print_table
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, mean_squared_error

from skleak.accounting import gaussian_noise_scale
from skleak.datasets import fetch_adult, fetch_iwpc, fetch_pendigits
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMoments,
)
from skleak.mechanisms import EpsilonDelta, ObjectivePerturbation
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor

DELTA, EPSILONS, SPLITS = 1e-6, (0.5, 1.0, 3.0), 20
ALPHAS = (3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
NUMBERS = {  # of Adult: the ranges to which they are clipped
    "age": (17.0, 90.0),
    "education-num": (1.0, 16.0),
    "capital-gain": (0.0, 20_000.0),
    "capital-loss": (0.0, 4_000.0),
    "hours-per-week": (1.0, 99.0),
}
RATES = (0.03, 0.1, 0.3, 1.0)  # of private SGD
PLAN = {"max_steps": 300, "sampling_rate": 0.05, "accounting": None, "delta": DELTA}
# Goals of the mean score, at epsilon 1, of the best mechanism of each.
GOALS = {"Adult": 0.826, "IWPC dose": 0.0590, "diabetes": 0.145, "Adult hours": 0.0515}
HEADER = ["data", "mechanism", "epsilon", "mean score", "s.d. over splits", "chosen"]

# The ways of a goal: several where the best on the test sets is taken.
Ways = Callable[["Table", EpsilonDelta], list[Any]]


@dataclass(frozen=True)
class Table:
    """Rows with a constant column last, of a norm by public bounds, and a target in [-1, 1]."""

    name: str
    X: Any
    y: Any
    norm: float
    n_train: int
    mechanisms: Mapping[str, Ways]
    baselines: Mapping[str, Any]  # without noise

    @property
    def is_classification(self) -> bool:
        return self.y.dtype.kind == "i"

    def splits(self, n: int) -> Iterator[tuple[Any, Any]]:
        for seed in range(n):
            order = np.random.default_rng(seed).permutation(len(self.y))
            yield order[: self.n_train], order[self.n_train :]

    def score(self, predictions: Any, rows: Any) -> float:
        found = accuracy_score if self.is_classification else mean_squared_error
        return float(found(self.y[rows], predictions))

    def best(self, means: Any) -> int:
        return int(np.argmax(means) if self.is_classification else np.argmin(means))

    def meets(self, score: float) -> bool:
        goal = GOALS[self.name]
        return score >= goal if self.is_classification else score <= goal


@dataclass
class AdaSSP:
    """Least squares with the ridge that the smallest eigenvalue allows, of three noisy moments."""

    goal: EpsilonDelta
    norm: float
    random_state: Any = None
    failure: float = 0.05

    def fit(self, X: Any, y: Any) -> "AdaSSP":
        rng, d = np.random.default_rng(self.random_state), X.shape[1]
        whole = float(gaussian_noise_scale(1.0, epsilon=self.goal.epsilon, delta=self.goal.delta))
        third = whole * np.sqrt(3.0)
        noise = np.triu(rng.normal(size=(d, d)), 1)
        noise = noise + noise.T + np.diag(rng.normal(size=d))
        scale = third * np.sqrt(2.0) * self.norm**2  # of X^T X, in the Frobenius norm
        gram = X.T @ X
        low = np.linalg.eigvalsh(gram)[0] + third * self.norm**2 * rng.normal()
        low = max(low - third * self.norm**2 * np.sqrt(2.0 * np.log(6.0 / self.failure)), 0.0)
        edge = scale * np.sqrt(d * np.log(2.0 * d**2 / self.failure))
        cross = X.T @ y + third * 2.0 * self.norm * rng.normal(size=d)
        noisy = gram + scale * noise + max(edge - low, 0.0) * np.eye(d)
        self.coef_ = np.linalg.solve(noisy, cross)
        return self

    def predict(self, X: Any) -> Any:
        return X @ self.coef_


class FromMoments(PrivateMoments):
    """Moments with an intercept of their own, in place of the constant column."""

    def fit(self, X: Any, y: Any) -> "FromMoments":
        super().fit(X[:, :-1], y)
        return self

    def predict(self, X: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the seed
            return self.release().regress().predict(X[:, :-1])


def logistic(goal: Any, norm: float, **changed: Any) -> PrivateLogisticRegression:
    given = {"fit_intercept": False, "classes": [0, 1], "public": ("n_samples",)}
    return PrivateLogisticRegression(goal, data_norm=norm, **given, **changed)


def linear(goal: Any, norm: float, **changed: Any) -> PrivateLinearRegression:
    given = {"fit_intercept": False, "target_bound": 1.0, "public": ("n_samples",)}
    return PrivateLinearRegression(goal, data_norm=norm, **given, **changed)


@functools.cache
def multiplier(epsilon: float) -> float:
    """Noise of private SGD that keeps a goal, whatever the table."""
    rows = np.linspace(-1.0, 1.0, 40)[:, None]
    model = PrivateSGDRegressor(noise_multiplier=EpsilonDelta(epsilon, DELTA), **PLAN)
    return float(model.fit(rows, rows[:, 0]).noise_multiplier_)


def descent(kind: Any, goal: EpsilonDelta, **given: Any) -> list[Any]:
    """Private SGD, at some learning rates."""
    noise = multiplier(goal.epsilon)
    return [kind(noise_multiplier=noise, learning_rate=rate, **PLAN, **given) for rate in RATES]


CLASSIFICATION: dict[str, Ways] = {
    "objective": lambda table, goal: [
        logistic(goal, table.norm, mechanism="objective", alpha="auto")
    ],
    "output": lambda table, goal: [
        logistic(goal, table.norm, mechanism="output", alpha=alpha) for alpha in ALPHAS
    ],
    "private SGD": lambda _, goal: descent(PrivateSGDClassifier, goal, classes=[0, 1]),
}
REGRESSION: dict[str, Ways] = {
    "objective, h = 0.1": lambda table, goal: [
        linear(goal, table.norm, mechanism=ObjectivePerturbation(huber=0.1), alpha="auto")
    ],
    "moments": lambda table, goal: [
        FromMoments(goal, data_norm=table.norm / np.sqrt(1.25), target_bound=1.0)
    ],
    "private SGD": lambda _, goal: descent(PrivateSGDRegressor, goal),
    "AdaSSP": lambda table, goal: [AdaSSP(goal, table.norm)],
}


def classification(name: str, X: Any, y: Any, norm: float, n_train: int) -> Table:
    exact = logistic(0.0, norm, alpha=1.0 / n_train)
    baselines = {"no privacy": exact, "majority": DummyClassifier()}
    return Table(name, X, y, norm, n_train, CLASSIFICATION, baselines)


def regression(name: str, X: Any, y: Any, norm: float, n_train: int) -> Table:
    baselines = {"no privacy": LinearRegression(), "mean": DummyRegressor()}
    return Table(name, X, y, norm, n_train, REGRESSION, baselines)


def bounded(X: Any, square: float) -> tuple[Any, float]:
    """Rows clipped to a root mean square, with half of it as a constant, and their norm."""
    most = np.sqrt(square)
    rows = X * np.minimum(most / np.linalg.norm(X, axis=1), 1.0)[:, None]
    return np.column_stack([rows, np.full(len(X), 0.5 * most)]), most * np.sqrt(1.25)


def tables(quick: bool) -> Iterator[Table]:
    """Yield data, small ones first; of those of SKLEAK_DATA the ones that are there."""
    X, y = load_breast_cancer(return_X_y=True)
    # The ranges that its description prints.
    X, norm = bounded(2.0 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1.0, 30.0 / 3.0)
    yield classification("breast cancer", X, y, norm, 400)
    X, y = load_diabetes(return_X_y=True)
    X, norm = bounded(X, 10.0 / 442.0)  # as its description says: the squares of a column sum to 1
    yield regression("diabetes", X, (y - 185.5) / 160.5, norm, 353)
    if quick:
        return
    found = fetch_or_none(fetch_iwpc, encoded=True)
    if found is not None:  # three numbers in units of their deviations, two flags, 3 + 5 + 2 levels
        X = found[0].to_numpy(float, copy=True)
        X[:, :3] = np.clip(X[:, :3], -3.0, 3.0) / 3.0
        y = np.clip(found[1].to_numpy(float), -3.0, 3.0) / 3.0
        X, norm = bounded(X, 3.0 / 3.0 + 2.0 / 2.0 + 2.0 / 3.0 + 5.0 / 6.0 + 2.0 / 3.0)
        yield regression("IWPC dose", X, y, norm, 3_855)
    found = fetch_or_none(fetch_pendigits, writers=False)
    if found is not None:  # 32 points in a box of side 1; is the digit odd?
        points = 2.0 * found[0].filter(regex="^[xy]_").to_numpy() - 1.0
        X, norm = bounded(points, points.shape[1] / 3.0)
        yield classification("pen digits", X, found[1].to_numpy() % 2, norm, 7_500)
    found = fetch_or_none(fetch_adult)
    if found is not None:
        yield from adult(*found)


def adult(frame: pd.DataFrame, income: Any) -> Iterator[Table]:
    nominal = frame.select_dtypes("category").drop(columns="married", errors="ignore")
    levels = pd.get_dummies(nominal).to_numpy(float)
    numbers = {
        name: (frame[name].clip(low, high) - low) / (high - low)
        for name, (low, high) in NUMBERS.items()
    }
    hours = 2.0 * numbers["hours-per-week"].to_numpy() - 1.0
    square = nominal.shape[1] + len(numbers) / 3.0
    X, norm = bounded(np.column_stack([levels, *numbers.values()]), square)
    yield classification("Adult", X, (income == ">50K").to_numpy(int), norm, 10_000)
    del numbers["hours-per-week"]
    X, norm = bounded(np.column_stack([levels, *numbers.values()]), square - 1.0 / 3.0)
    yield regression("Adult hours", X, hours, norm, 20_000)


def broken_promise(table: Table, model: Any, goal: EpsilonDelta) -> list[str]:
    """What a release without a seed states beyond its goal."""
    if isinstance(model, AdaSSP | PrivateSGDClassifier | PrivateSGDRegressor):
        return []
    train = np.arange(table.n_train)
    unseeded = clone(model).set_params(random_state=None).fit(table.X[train], table.y[train])
    stated = unseeded._guarantee
    if stated.holds and stated.delta <= goal.delta and stated.epsilon <= goal.epsilon:
        return []
    return [f"{table.name}: {model} states {stated} where {goal} was asked for"]


def seeded(model: Any, seed: int) -> Any:
    if isinstance(model, AdaSSP):
        return replace(model, random_state=seed)
    given = {"random_state": seed} if "random_state" in model.get_params() else {}
    return clone(model).set_params(**given)


def line_of(table: Table, way: str, epsilon: float, scores: Any, chosen: str) -> list[str]:
    """Row of the best of some ways, scores of shape (ways, splits)."""
    best = table.best(np.mean(scores, axis=1))
    cells = [f"{np.mean(scores[best]):.4f}", f"{np.std(scores[best], ddof=1):.4f}"]
    return [table.name, way, "-" if epsilon == np.inf else f"{epsilon:g}", *cells, chosen]


def lines_of(table: Table, n_splits: int, epsilons: Any) -> tuple[list[list[str]], list[str]]:
    """Rows of a table, and failures."""
    splits, lines, failures = list(table.splits(n_splits)), [], []

    def add(way: str, epsilon: float, models: list[Any]) -> None:
        scores = np.empty((len(models), n_splits))
        for i, model in enumerate(models):
            for seed, (train, test) in enumerate(splits):
                made = seeded(model, seed).fit(table.X[train], table.y[train])
                scores[i, seed] = table.score(made.predict(table.X[test]), test)
        best = models[table.best(scores.mean(axis=1))]
        alpha = getattr(made, "alpha_", None) if len(models) == 1 else getattr(best, "alpha", None)
        rate = getattr(best, "learning_rate", None)
        chosen = f"rate {rate:g}" if rate else "-" if alpha is None else f"alpha {alpha:.2g}"
        lines.append(line_of(table, way, epsilon, scores, chosen))

    for way, model in table.baselines.items():
        add(way, np.inf, [model])
    for epsilon in epsilons:
        goal = EpsilonDelta(epsilon, DELTA)
        for way, ways in table.mechanisms.items():
            models = ways(table, goal)
            failures += broken_promise(table, models[0], goal)
            add(way, epsilon, models)
    return lines, failures


def report(some: Iterator[Table], n_splits: int, epsilons: Any, more: Any = None) -> list[str]:
    """Print the rows of some tables, with more rows of each; returns failures."""
    lines, failures, goals = [], [], []
    for table in some:
        own, missed = lines_of(table, n_splits, epsilons)
        lines, failures = lines + own + ([] if more is None else more(table)), failures + missed
        if table.name in GOALS:
            tuned = "AdaSSP", "private SGD"
            ours = [line for line in own if line[2] == "1" and line[1] not in tuned]
            best = ours[table.best([float(line[3]) for line in ours])]
            met = "" if table.meets(float(best[3])) else ", MISSED"
            goals.append(f"{table.name} {GOALS[table.name]}: {best[1]} has {best[3]}{met}")
        print(f"{table.name}: done", flush=True)
    print_table(f"Test scores at delta = {DELTA:g}, {n_splits} splits", HEADER, lines, HEADER[:3])
    print(f"goals at epsilon 1: {'; '.join(goals)}")
    return failures


def main() -> int:
    options = parse_options(__doc__)
    n_splits = 3 if options.quick else SPLITS
    warnings.filterwarnings("ignore", message="Releasing a model whose noise came from a seed")
    return exit_status(report(tables(options.quick), n_splits, EPSILONS))


if __name__ == "__main__":
    sys.exit(main())
