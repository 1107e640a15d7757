"""Small tables, and the same tables outside memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl

from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

N, COLUMNS = 60, ["age", "year", "dose"]
MODELS = {
    "squared": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "softmax": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}


def table(kind, seed=0):
    """Records with columns far from zero, targets of a kind, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3)) * [1.0, 20.0, 0.1] + [0.0, 2000.0, -1.0]
    a = X[:, 0] + rng.normal(size=N)
    y = {
        "squared": a,
        "logistic": np.where(a > 0.0, "yes", "no"),
        "softmax": np.digitize(a, [-0.5, 0.5]),
        "poisson": rng.poisson(np.exp(0.5 * a)),
    }[kind]
    frame = pd.DataFrame(X, columns=COLUMNS)
    return frame, pd.Series(y, name="y"), rng.integers(0, 3, N).astype(float)


def outside(where, frame, y, weight, path, chunks=13):
    """The same records outside memory, as arguments of `fit`."""
    whole = frame.assign(y=y)
    special = ["y"]
    if weight is not None:
        whole = whole.assign(w=weight)
        special.append("w")
    if where == "arrays":
        arrays = [frame.to_numpy(), y.to_numpy(), weight]
        return [None if a is None else da.from_array(a, chunks=chunks) for a in arrays]
    if where == "frame":
        parts = dd.from_pandas(whole, npartitions=4)
        return [parts[COLUMNS], *(parts[name] for name in special)]
    if where == "parquet":
        whole.to_parquet(path / "rows.parquet", row_group_size=17)
        return [path / "rows.parquet", *special]
    if where == "folder":
        (path / "rows").mkdir()
        for k, rows in enumerate((whole[:20], whole[20:45], whole[45:])):
            rows.to_parquet(path / "rows" / f"part-{k}.parquet")
        return [str(path / "rows"), *special]
    return [pl.from_pandas(whole).lazy(), *special]


def records(kind, rng, n):
    """A binary column, one of three values, a numeric one; targets of a kind, and weights."""
    X = rng.normal(size=(n, 3))
    X[:, 0] = X[:, 0] > 0.3
    X[:, 1] = rng.integers(0, 3, size=n)
    a = X @ [0.6, 0.3, -0.4]
    y = {
        "squared": a + rng.normal(size=n),
        "logistic": (rng.random(n) < 1 / (1 + np.exp(-a))).astype(int),
        "softmax": np.digitize(a + rng.normal(size=n), [-0.5, 0.5]),
        "poisson": rng.poisson(np.exp(a / 2)),
    }[kind]
    return X, y, rng.integers(0, 3, n).astype(float)
