"""IRFIL: what the plain iteration of [FIL21] and Newton's method need.

Besides fits, passes over the data are counted: one for every Newton step of a fit, one for the
leakage of all records after it, and of each Newton direction of the weights one for the gradients
and one for every product of the Krylov method.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from _common import Array, exit_status, fetch_or_none, parse_options, print_table, synthetic
from sklearn.exceptions import ConvergenceWarning

from skleak.datasets import fetch_adult, fetch_iwpc, fetch_mnist
from skleak.influence.reweighting import _search
from skleak.influence.state import WeightRule
from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression, _measured

LEVELS = (1e-6, 1e-8)  # relative spread of the leakage
MOST_FITS = 60
MOST_DEFAULT = 31  # fits of the default to the last level: its default limit
METHODS = ("plain", "newton")  # values of `method` of IRFIL; the default is Newton's


@dataclass(frozen=True)
class Case:
    name: str
    model: type
    X: Any
    y: Array
    options: dict[str, Any]


def real_cases():
    """Recipes of the papers, as far as the data are there."""
    cases = []
    iwpc = fetch_or_none(fetch_iwpc, encoded=True)
    if iwpc is not None:
        X, y = iwpc
        block = [name for name in X.columns if name.startswith("vkorc1")]
        for alpha in (1e-2, 1e-5):
            options = {"alpha": alpha, "features": block}
            name = f"IWPC vkorc1, alpha {alpha:g}"
            cases.append(Case(name, PrivateLinearRegression, X, y, options))
            name = f"IWPC record, alpha {alpha:g}"
            cases.append(Case(name, PrivateLinearRegression, X, y, {"alpha": alpha}))
    mnist = fetch_or_none(fetch_mnist, preprocessing="pca20")
    if mnist is not None:
        X, y = mnist
        options = {"alpha": 0.0, "fit_intercept": False, "noise_scale": 1.0}
        cases.append(Case("MNIST 0/1, linear", PrivateLinearRegression, X, 2.0 * y - 1.0, options))
        options = {**options, "alpha": 8e-4}
        cases.append(Case("MNIST 0/1, logistic", PrivateLogisticRegression, X, y, options))
    adult = fetch_or_none(fetch_adult, encoded=True)
    if adult is not None:
        options = {"alpha": 1e-3, "features": ["married"]}
        cases.append(Case("Adult married, linear", PrivateLinearRegression, *adult, options))
        for alpha in (1e-2, 1e-3):
            for kind in (PrivateLogisticRegression, PrivateLinearRegression):
                word = "logistic" if kind is PrivateLogisticRegression else "linear"
                name = f"Adult record, {word}, alpha {alpha:g}"
                cases.append(Case(name, kind, *adult, {"alpha": alpha}))
    return cases


def synthetic_cases():
    """Well-conditioned small problems, for data homes without the files and for `--quick`."""
    X, y = synthetic(300, 6)
    rng = np.random.default_rng(1)
    dose = X @ rng.normal(size=6) + rng.normal(size=300)
    return [
        Case("synthetic, linear", PrivateLinearRegression, X, dose, {"alpha": 1e-1}),
        Case("synthetic, logistic", PrivateLogisticRegression, X, y, {"alpha": 1e-1}),
    ]


@dataclass
class Passes:
    """Passes over the data of everything a reweighting calls."""

    count: int = 0

    def counted(self, function: Callable[..., Any], cost: Callable[[Any], int]) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            result = function(*args, **options)
            self.count += cost(result)
            return result

        return call


@contextmanager
def watched() -> Iterator[Passes]:
    """Count passes."""
    passes = Passes()
    costs = [
        (_measured, "minimize", lambda minimum: minimum.n_iter),
        (WeightRule, "norms", lambda _: 1),
        (_search, "newton_direction", lambda direction: 1 + direction.n_products),
    ]
    with ExitStack() as stack:
        for place, name, cost in costs:
            counted = passes.counted(getattr(place, name), cost)
            stack.enter_context(patch.object(place, name, counted))
        yield passes


def run(case, method):
    """The reweighted fit, its passes over the data, and its seconds."""
    options = {**case.options}
    model = case.model(
        reweighting=IRFIL(
            features=options.pop("features", None),
            method=method,
            max_iter=MOST_FITS - 1,
            tol=LEVELS[-1],
        ),
        **options,
    )
    start = time.perf_counter()
    with warnings.catch_warnings(), watched() as passes:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the plain iteration stops short
        model.fit(case.X, case.y)
    return model, passes.count, time.perf_counter() - start


def fits_to(history, level):
    """Number of fits to a relative spread, or None."""
    reached = np.flatnonzero(np.asarray(history) <= level)
    return int(reached[0]) + 1 if len(reached) else None


def compare(case):
    """Lines of the table, and what failed."""
    lines, models = [], {}
    for method in METHODS:
        model, passes, seconds = run(case, method)
        history = model.reweighting_history_
        fits = [fits_to(history, level) for level in LEVELS]
        shown = [f"{n}" if n is not None else f"> {len(history)}" for n in fits]
        ending = [f"{min(history):.0e}", f"{passes}", f"{seconds:.2f}"]
        lines.append([case.name, method, *shown, *ending])
        models[method] = model
    return lines, list(failures_of(case, models))


def failures_of(case, models):
    """Sentences about what should hold and does not."""
    default = models["newton"]
    fits = [fits_to(models[method].reweighting_history_, LEVELS[-1]) for method in METHODS]
    if fits[1] is None or fits[1] > MOST_DEFAULT:
        yield f"{case.name}: no spread of {LEVELS[-1]:g} in {MOST_DEFAULT} fits by default"
    elif fits[0] is not None and fits[1] > fits[0]:
        yield f"{case.name}: {fits[1]} fits, and {fits[0]} by the plain iteration"
    losses = default.fisher_information_loss(
        features=case.options.get("features"), conditional=True
    )
    spread = float(np.std(losses) / np.mean(losses))
    if not spread <= 2.0 * LEVELS[-1]:
        yield f"{case.name}: the leakage measured afterwards has a spread of {spread:.1e}"
    for name, model in models.items():
        gap = np.max(np.abs(default.sample_reweights_ / model.sample_reweights_ - 1.0))
        if min(model.reweighting_history_) <= LEVELS[0] and not gap <= 1e-3:
            yield f"{case.name}: {name} and the default reach weights {gap:.1e} apart"


def main():
    options = parse_options(__doc__)
    cases = synthetic_cases() + ([] if options.quick else real_cases())
    lines, failures = [], []
    for case in cases:
        new_lines, new_failures = compare(case)
        lines += new_lines
        failures += new_failures
    header = ["data", "iteration", *[f"fits to {level:g}" for level in LEVELS]]
    header += ["best spread", "passes", "seconds"]
    print_table("Fits to a relative spread", header, lines, ["data", "iteration"])
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
