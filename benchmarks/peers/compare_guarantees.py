"""Predictions at epsilon 1 by skleak, private SGD, AdaSSP and diffprivlib, on the same splits.

    pip install -e . && python benchmarks/peers/compare_guarantees.py

The tables and rows of `bench_guarantees.py` at epsilon 1. diffprivlib promises pure epsilon, which
is stronger; its logistic regression has the best of five penalties on the test sets, which flatters
it, and its linear regression has none. Both take the bounds of the rows as given.
"""

import sys

import _peer
import numpy as np

DIFFPRIVLIB = ("diffprivlib", ["diffprivlib==0.6.6", "scikit-learn==1.5.2"])
EPSILON, PENALTIES = 1.0, (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # relative to the mean loss


def worker(X, y, train, norm, classifies):
    """Predictions of each penalty and split for all rows, (penalties, splits, n)."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    penalties = PENALTIES if classifies else (0.0,)
    found = np.empty((len(penalties), len(train), len(y)))
    for i, penalty in enumerate(penalties):
        for seed, rows in enumerate(train):
            given = {"epsilon": EPSILON, "fit_intercept": False, "random_state": seed}
            if classifies:
                C = 1.0 / (len(rows) * penalty)
                model = LogisticRegression(data_norm=float(norm), C=C, max_iter=1_000, **given)
            else:
                bounds = {"bounds_X": (-1.0, 1.0), "bounds_y": (-1.0, 1.0)}
                model = LinearRegression(**bounds, **given)
            found[i, seed] = model.fit(X[rows], y[rows]).predict(X)
    return {"predictions": found}


def main():
    from _common import exit_status, parse_options
    from _results import legend
    from bench_guarantees import SPLITS, line_of, report, tables

    options = parse_options(__doc__)
    n_splits = 3 if options.quick else SPLITS
    python = _peer.environment(*DIFFPRIVLIB)

    def rival(table):
        splits = list(table.splits(n_splits))
        task = {
            "X": table.X,
            "y": table.y,
            "train": np.array([train for train, _ in splits]),
            "norm": np.array(table.norm),
            "classifies": np.array(table.is_classification),
        }
        predictions = _peer.ask(__file__, python, task)["predictions"]
        scores = np.array(
            [
                [table.score(own[test], test) for own, (_, test) in zip(rows, splits, strict=True)]
                for rows in predictions
            ]
        )
        best = table.best(scores.mean(axis=1))
        chosen = f"alpha {PENALTIES[best]:g}" if table.is_classification else "-"
        return [line_of(table, "diffprivlib", EPSILON, scores, chosen)]

    failures = report(tables(options.quick), n_splits, (EPSILON,), rival)
    legend(_peer.versions(python, ["diffprivlib", "scikit-learn"]))
    return exit_status(failures)


if __name__ == "__main__":
    if _peer.is_worker():
        _peer.answer(worker)
    else:
        sys.exit(main())
