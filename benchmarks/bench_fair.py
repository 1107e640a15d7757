"""What evening costs: test scores of ways of training at the noise at which nobody leaks too much.

For each way the noise scale is the least at which no record's loss is above the limit. Scores are
those of `leakage_tradeoff`: 20 releases on each of 5 folds, with common draws; R² or accuracy.
Between groups stands the largest mean loss of one over the smallest. The largest loss of a refit
at that scale must be the limit, and its ratio of groups that of the table. Where the covariance of
a shape alone tells somebody more than the limit, there is no such scale.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _common import exit_status, fetch_or_none, parse_options, print_table
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from skleak.datasets import fetch_iwpc
from skleak.exceptions import UnevenLeakageWarning
from skleak.inspection import leakage_tradeoff
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import MaxLeakage

WAYS = {
    "none": {},
    "irfil": {"reweighting": "irfil"},
    "total": {"reweighting": "total"},
    "curvature": {"noise_covariance": "curvature"},
    "minimax": {"noise_covariance": "minimax"},
}
HEADER = ["data", "way", "limit", "noise scale", "test score", "low", "high", "between groups"]
HEADER += ["seconds"]


@dataclass(frozen=True)
class Case:
    name: str
    X: Any
    y: Any
    groups: Any
    model: Any
    limit: float  # of anybody's loss


def cases(quick: bool) -> Iterator[Case]:
    """Yield data, small ones first; of real tables those that are there."""
    X, y = load_diabetes(return_X_y=True)
    linear = PrivateLinearRegression(0.01, alpha=1e-3, random_state=0)
    yield Case("diabetes", scale(X), scale(y), X[:, 1] > 0.0, linear, 2.0)
    if quick:
        return
    X, y = load_breast_cancer(return_X_y=True)
    logistic = PrivateLogisticRegression(noise_scale=0.01, alpha=1e-2, random_state=0)
    yield Case("breast cancer", scale(X), y, X[:, 0] > np.median(X[:, 0]), logistic, 2.0)
    found = fetch_or_none(fetch_iwpc, encoded=True)
    if found is not None:
        race = fetch_iwpc(download_if_missing=False).data["race"].to_numpy()
        yield Case("IWPC", *found, race, linear, 2.0)


def row(case: Case, way: str) -> tuple[list[str], list[str]]:
    """A way at its limit, and what does not agree with a refit."""
    start = time.process_time()
    own = clone(case.model).set_params(**WAYS[way])
    try:
        needed = MaxLeakage(case.limit).noise_scale_of(own.fit(case.X, case.y))
    except ValueError:  # the covariance alone tells more than that
        return [case.name, way, f"{case.limit:g}", "no such", *["-"] * 5], []
    candidates = {way: own} if WAYS[way] else []
    table, noise = None, needed
    for _ in range(2):  # the second time with the plain noise whose cost that of the way is
        plain = clone(case.model).set_params(noise_scale=noise)
        found = leakage_tradeoff(plain, case.X, case.y, groups=case.groups, candidates=candidates)
        table = found.ways_.loc[way]
        noise *= needed / table["noise_scale"]
    refit = clone(own).set_params(noise_scale=needed).fit(case.X, case.y)
    losses = pd.Series(refit.fisher_information_loss_)
    means, failures = losses.groupby(case.groups).mean(), []
    for what, value, expected in (
        ("largest loss", table["largest_loss"], case.limit),
        ("largest loss of a refit", losses.max(), case.limit),
        ("ratio of groups", table["group_ratio"], means.max() / means.min()),
    ):
        if not np.isclose(value, expected, rtol=1e-5):
            failures.append(f"{case.name}, {way}: {what} {value:.8g}, not {expected:.8g}")
    scores = (f"{table[name]:.3f}" for name in ("test_score", "test_score_low", "test_score_high"))
    line = [case.name, way, f"{case.limit:g}", f"{needed:.4f}", *scores]
    return [*line, f"{table['group_ratio']:.3f}", f"{time.process_time() - start:.1f}"], failures


def main():
    warnings.simplefilter("ignore", UnevenLeakageWarning)
    options = parse_options(__doc__)
    pairs = [row(case, way) for case in cases(options.quick) for way in WAYS]
    lines, failures = zip(*pairs, strict=True)
    print_table("Test scores where nobody leaks more than a limit", HEADER, lines, HEADER[:2])
    return exit_status([one for some in failures for one in some])


if __name__ == "__main__":
    sys.exit(main())
