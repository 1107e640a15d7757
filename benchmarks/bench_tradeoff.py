"""Ways of training at equal cost: the table of `leakage_tradeoff`, against 20 releases of refits.

The table gives each way noise that raises the training objective by as much, ``tr(H S) / 2`` times
its variance, and says what the way then leaks about whom it leaks most of. Here that cost is not
computed but measured: each way is refitted with 20 seeds at the noise scale of the table, as
`choose` hands it out, and the rise of the objective over its minimum is averaged. The objective is
that without weights, summed up by NumPy from its definition. The noise is then scaled so that the
measured costs are equal, and the largest loss is that of a fit with this noise. Around a minimizer
under weights the objective has a slope, by which it rises with one release and falls with another:
zero on average, but most of the error of plain means. The means that costs are scaled by leave it
out; plain ones, of all the rise over the minimum, stand beside, and are held to the table as well.

Twice: at equal cost of the noise, which the table states and is sorted by; and at equal cost of all
that a way does, the bias of its weights included, as `choose` counts it. The common cost is then
that of the dearest way. A pair of ways is a tie where the measured losses differ by less than three
standard errors of their ratio; all other pairs must stand as the table has them.
"""

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from _common import Array, exit_status, fetch_or_none, parse_options, print_table
from _results import legend, note
from scipy.special import expit, log_expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.preprocessing import scale

from skleak.datasets import fetch_adult, fetch_iwpc
from skleak.exceptions import UnevenLeakageWarning
from skleak.inspection import leakage_tradeoff
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

RELEASES, ERRORS = 20, 3.0  # standard errors within which two ways are a tie
COST_AGREES = 4.0  # standard errors between the stated cost of the squared loss and the measured
REFITTED = 10_000  # records up to which weights are sought again for every release
WEIGHTS = {"irfil": {"reweighting": "irfil"}, "total": {"reweighting": "total"}}
HEADER = ["data", "way", "noise scale", "bias / cost", "rise / stated", "cost / stated"]
HEADER += ["largest loss", "measured", "with bias", "measured, with bias"]
ORDERS = ["data", "records", "columns", "order at equal cost", "pairs", "ties", "ties, plain means"]
ORDERS += ["order with bias", "pairs with bias", "ties with bias", "ties with bias, plain means"]
ORDERS += ["seconds"]


def parameters(fitted: Any) -> Array:
    """Coefficients and intercept of a fit, (p,)."""
    w = np.ravel(fitted.coef_)
    return np.append(w, fitted.intercept_) if fitted.fit_intercept else w


@dataclass(frozen=True)
class Case:
    """A data set, and the model without noise of its own shape or weights."""

    name: str
    model: Any
    X: Array
    y: Array

    def objective(self, fitted: Any) -> float:
        """Mean loss without weights, and the penalty, at the parameters of a fit."""
        w, a = np.ravel(fitted.coef_), self.X @ np.ravel(fitted.coef_) + fitted.intercept_
        if isinstance(fitted, PrivateLinearRegression):
            losses = 0.5 * (a - self.y) ** 2
        else:
            losses = -log_expit(np.where(self.y == 1, a, -a))
        return float(losses.mean() + 0.5 * fitted.alpha * (w @ w))

    def slope(self, fitted: Any) -> Array:
        """Gradient of it at these parameters, (p,)."""
        w, a = np.ravel(fitted.coef_), self.X @ np.ravel(fitted.coef_) + fitted.intercept_
        r = (a if isinstance(fitted, PrivateLinearRegression) else expit(a)) - self.y
        own = r @ self.X / len(r) + fitted.alpha * w
        return np.append(own, r.mean()) if fitted.fit_intercept else own

    def fit(self, way: str, **parameters: Any) -> Any:
        shaped = WEIGHTS.get(way, {"noise_covariance": "isotropic" if way == "none" else way})
        return clone(self.model).set_params(**shaped, **parameters).fit(self.X, self.y)


@dataclass(frozen=True)
class Measured:
    """What 20 releases of a way cost, and what one of its fits leaks about whom most."""

    rises: Array  # of the objective by the noise of each release, (20,)
    sloped: Array  # the same without the slope of the objective at the minimizer left out
    bias: float  # rise of it by the minimizer
    loss: Callable[[float], float]  # largest loss at a noise scale
    noise_scale: float

    def at_cost(self, cost: float, rises: Array) -> float:
        """Largest loss where noise costs as much, by the rises of releases; NaN if it is free."""
        ratio = cost / float(rises.mean())
        return self.loss(self.noise_scale * math.sqrt(ratio)) if ratio > 0.0 else math.nan


def cases(quick: bool) -> Iterator[Case]:
    """The cases, the real ones first."""
    found = None if quick else fetch_or_none(fetch_iwpc, encoded=True)
    if found is not None:
        model = PrivateLinearRegression(0.01, alpha=0.01, fit_intercept=False)
        yield Case("IWPC", model, *(np.asarray(part, dtype=float) for part in found))
    found = None if quick else fetch_or_none(fetch_adult, encoded=True)
    if found is not None:
        model = PrivateLogisticRegression(0.01, alpha=1e-3)
        yield Case("Adult", model, *(np.asarray(part, dtype=float) for part in found))
    X, y = load_diabetes(return_X_y=True)
    yield Case("diabetes", PrivateLinearRegression(0.02, alpha=0.01), scale(X), scale(y))
    model = PrivateLogisticRegression(0.02, alpha=0.01)
    X, y = load_breast_cancer(return_X_y=True)
    if not quick:
        yield Case("breast cancer", model, scale(X), y)
    X, y = load_wine(return_X_y=True)
    yield Case("wine, class 1", model, scale(X), (y == 1).astype(int))


def measure(case: Case, way: str, noise_scale: float, least: float) -> tuple[Measured, list[str]]:
    """Refit a way with 20 seeds, and read off what it leaks."""
    minimum = case.fit(way, noise_scale=0.0)
    start, slope, at = case.objective(minimum), case.slope(minimum), parameters(minimum)
    weights, few = way in WEIGHTS, len(case.y) <= REFITTED
    fitted = first = case.fit(way, noise_scale=noise_scale, random_state=0)
    rises, along = [], []
    for seed in range(RELEASES):
        if weights and not few:
            fitted._redraw(seed)  # the noise of a refit, which finds the same weights
        elif seed:
            fitted = case.fit(way, noise_scale=noise_scale, random_state=seed)
        rises.append(case.objective(fitted) - start)
        # Without weights the minimizer is that of the objective, which has no slope there.
        along.append(slope @ (parameters(fitted) - at) if weights else 0.0)
    fixed = way == "none" or weights
    losses = first.fisher_information_loss_ if fixed or few else np.empty(0)
    again = fitted.fisher_information_loss_ if few else losses
    failures = [] if np.array_equal(losses, again) else [f"{case.name}, {way}: refits differ"]

    @cache
    def loss(scale: float) -> float:
        if fixed:
            return float(losses.max()) * noise_scale / scale
        return float(case.fit(way, noise_scale=scale).fisher_information_loss_.max())

    sloped = np.array(rises)
    found = Measured(sloped - along, sloped, max(start - least, 0.0), loss, noise_scale)
    return found, failures


def standing(
    name: str, stated: dict[str, float], found: dict[str, float], rises: dict[str, Array]
) -> tuple[int, int, list[str]]:
    """Pairs that stand as the table has them, ties, and what stands otherwise."""
    agree, ties, failures = 0, 0, []
    for a, b in combinations(sorted(stated, key=stated.__getitem__), 2):
        gap = np.log(found[b] / found[a])
        # A loss goes as the root of the cost; seeds are the same, and so is some of their error.
        error = ERRORS * error_of(rises[b] / rises[b].mean() - rises[a] / rises[a].mean())
        agree, ties = agree + (gap > error), ties + (abs(gap) <= error)
        if gap < -error:
            failures.append(f"{name}: {b} leaks less than {a}, by {-gap:.3f} +- {error:.3f} in log")
    return agree, ties, failures


def error_of(shares: Array) -> float:
    """Standard error of the logarithm of a loss, by those of its cost in each release."""
    return 0.5 * float(shares.std(ddof=1)) / np.sqrt(len(shares))


def compare(case: Case) -> tuple[list[list[str]], list[str], list[str]]:
    """Lines of the table of ways, the line of the order, and what failed."""
    began = time.process_time()
    table = leakage_tradeoff(clone(case.model).set_params(random_state=0), case.X, case.y)
    seconds, rows = time.process_time() - began, table.ways_
    least = case.objective(case.fit("none", noise_scale=0.0))
    found, failures = {}, [f"{case.name}: {text}" for text in table.notes]
    for way, row in rows.iterrows():
        found[way], failed = measure(case, way, row["noise_scale"], least)
        failures += failed
    cost = float(rows["cost"].iloc[0])
    whole = cost + float(rows["bias"].max())  # of the dearest way
    ways = {way.name: way for way in table._measured}
    scales = {way: np.sqrt((whole - own.bias) / own.cost) for way, own in ways.items()}
    losses = {
        "": (rows["largest_loss"].to_dict(), dict.fromkeys(ways, cost)),
        ", with bias": (
            {way: own.largest(scales[way]) for way, own in ways.items()},
            {way: whole - own.bias for way, own in found.items()},
        ),
    }
    columns, order = [], [case.name, f"{len(case.y):,}", str(case.X.shape[1])]
    for label, (stated, costs) in losses.items():
        measured = {way: own.at_cost(costs[way], own.rises) for way, own in found.items()}
        plain = {way: own.at_cost(costs[way], own.sloped) for way, own in found.items()}
        name, best = case.name + label, {way: own.rises for way, own in found.items()}
        agree, ties, failed = standing(name, stated, measured, best)
        sloped = {way: own.sloped for way, own in found.items()}
        _, more, also = standing(f"{name}, plain means", stated, plain, sloped)
        failures += failed + also
        columns += [stated, measured]
        order += [" < ".join(sorted(stated, key=stated.__getitem__))]
        order += [f"{agree} of {agree + ties + len(failed)}", str(ties), str(more)]
    lines = []
    for way, row in rows.iterrows():
        new_line, failed = described(case, row, found[way])
        lines.append([*new_line, *(f"{column[way]:.4g}" for column in columns)])
        failures += failed
    note(f"{case.name}: seconds of all ways", seconds)
    return lines, [*order, f"{seconds:.1f}"], failures


def described(case: Case, row: Any, own: Measured) -> tuple[list[str], list[str]]:
    """Cost of a way as measured, over that stated, and where they differ beyond error."""
    way, cost, bias = row.name, row["cost"], row["bias"]
    mean, whole = own.rises.mean() / cost, (own.sloped.mean() + own.bias) / (cost + bias)
    error = error_of(own.rises / own.rises.mean())
    several = own.sloped.std(ddof=1) / np.sqrt(RELEASES) / (cost + bias)
    failures = []
    exact = isinstance(case.model, PrivateLinearRegression)
    if exact and abs(mean - 1.0) > COST_AGREES * 2.0 * error * mean:
        failures.append(f"{case.name}, {way}: the measured cost is {mean:.3f} of the stated")
    if exact and abs(whole - 1.0) > COST_AGREES * several:
        failures.append(f"{case.name}, {way}: all the rise is {whole:.3f} of the stated")
    if not np.isclose(own.bias, bias, rtol=1e-6, atol=1e-6 * cost):
        failures.append(f"{case.name}, {way}: bias {own.bias:.6g}, not {bias:.6g}")
    line = [case.name, str(way), f"{row['noise_scale']:.3g}", f"{bias / cost:.3g}"]
    line += [f"{whole:.3f} +- {several:.3f}", f"{mean:.3f} +- {2.0 * error * mean:.3f}"]
    return line, failures


def main():
    warnings.simplefilter("ignore", UnevenLeakageWarning)
    options = parse_options(__doc__)
    lines, orders, failures = [], [], []
    for case in cases(options.quick):
        new_lines, order, new_failures = compare(case)
        lines += new_lines
        orders.append(order)
        failures += new_failures
        print(f"{case.name}: measured", flush=True)
    print_table("Largest loss at equal cost, stated and measured", HEADER, lines, HEADER[:2])
    legend("bias / cost: rise of the objective by the minimizer, over that by the noise;")
    legend("rise / stated: all of it, plain mean of 20 releases; cost / stated: that by the noise,")
    legend("without the slope; +-: standard errors; with bias: where noise and bias together cost")
    legend("as much as the dearest way above")
    print_table("Orders of the ways, the least largest loss first", ORDERS, orders)
    legend("pairs: those that stand as in the table, of all pairs of ways; ties: within the error;")
    legend("seconds: CPU time of `leakage_tradeoff`, all ways with their scores on 5 folds")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
