"""What the benchmarks share: timing in turns, peak memory, data, and the dense reference."""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _results import keep_table, write
from scipy.special import expit

Array = np.ndarray
Loss = Literal["logistic", "squared"]


_run: dict[str, Any] = {"json": None}


def make_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, to check the results")
    parser.add_argument("--json", metavar="FILE", help="write what was found, if results agree")
    return parser


def parse_options(
    description: str, parser: argparse.ArgumentParser | None = None
) -> argparse.Namespace:
    """Options of the command line; `exit_status` writes the file that they name."""
    options = (parser or make_parser(description)).parse_args()
    _run.update(vars(options), description=description, start=time.perf_counter())
    return options


@dataclass(frozen=True)
class Timed:
    """Seconds of each round, and what the last one returned."""

    seconds: list[float]
    result: Any

    @property
    def best(self) -> float:
        return min(self.seconds)


def time_in_turns(
    functions: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timed]:
    """Time rivals one after the other, round by round, after one warm-up each.

    A slow phase of a shared machine then hits all of them.
    """
    results = {name: function() for name, function in functions.items()}
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = clock()
            results[name] = function()
            seconds[name].append(clock() - start)
    return {name: Timed(seconds[name], results[name]) for name in functions}


def ratio_and_range(slow: Timed, fast: Timed, scale: float = 1.0) -> tuple[float, str]:
    """Ratio of the best times, and the range of the ratios within a round."""
    ratios = scale * np.array(slow.seconds) / np.array(fast.seconds)
    digits = 1 if ratios.max() < 100 else 0
    return scale * slow.best / fast.best, f"{ratios.min():.{digits}f} .. {ratios.max():.{digits}f}"


def peak_memory() -> float:
    """Largest resident memory of this process so far, in GB; NaN where the system hides it."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of a module in a process of its own, whose peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def print_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    keys: Sequence[str] | None = None,
) -> None:
    """Print columns, the first aligned left and the others right, and keep them.

    The cells below `keys` name a row where figures are looked up; by default the first one does.
    """
    keep_table(title, header, rows, header[:1] if keys is None else keys)
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[j]) for row in table) for j in range(len(header))]
    print(f"\n{title}")
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())


def exit_status(failures: Sequence[str]) -> int:
    """Print what failed; 1 if anything did, else the results are written where asked for."""
    for failure in failures:
        print(f"FAILED: {failure}")
    if not failures:
        print("All results agree.")
        if _run["json"]:
            seconds = time.perf_counter() - _run["start"]
            script = Path(sys.argv[0]).stem
            write(_run["json"], script, _run["description"], _run["quick"], seconds)
    return int(bool(failures))


def fetch_or_none(fetch: Callable[..., Any], **options: Any) -> tuple[Any, Any] | None:
    """Real data where the data home (SKLEAK_DATA) has them; else None, and a line that says so."""
    try:
        return fetch(return_X_y=True, download_if_missing=False, **options)
    except FileNotFoundError as error:
        print(f"absent: {error}")
        return None


def synthetic(n: int, d: int, constant: int = 0, seed: int = 0) -> tuple[Array, Array]:
    """Records like a one-hot table or an image, and 0/1 labels.

    A fifth of the columns are normal, the others are 0/1 with frequencies from 1 to 50 %, and the
    first ``constant`` are zero.
    """
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < np.geomspace(0.01, 0.5, d)).astype(float)
    numeric = rng.permutation(d)[: d // 5]
    X[:, numeric] = rng.normal(size=(n, len(numeric)))
    X[:, :constant] = 0.0
    a = X @ rng.normal(scale=2.0 / np.sqrt(d), size=d)
    return X, (a + rng.logistic(size=n) > np.median(a)).astype(float)


@dataclass(frozen=True)
class DenseReference:
    """The textbook way, from the definitions alone and without any code of skleak.

    Newton's method with a dense Hessian and its inverse; for every record the Jacobian
    ``[c (A x~) w^T + r A E, -A x~]`` of shape (p, d + 1) is built, and its largest singular value
    taken by ``numpy.linalg.norm(J, 2)``. Intercept last, not penalized; private target.
    """

    records: Array  # with the column of ones, (n, p)
    inverse: Array
    coefficients: Array
    first: Array  # derivatives of the loss in the predictor, (n,)
    second: Array

    @classmethod
    def fit(cls, X: Array, y: Array, loss: Loss, alpha: float) -> "DenseReference":
        n, d = X.shape
        x = np.column_stack([X, np.ones(n)])
        penalty = n * alpha * np.append(np.ones(d), 0.0)
        w = np.zeros(d + 1)
        for _ in range(30):
            a = x @ w
            first, second = derivatives(a, y, loss)
            hessian = x.T @ (second[:, None] * x) + np.diag(penalty)
            step = np.linalg.solve(hessian, x.T @ first + penalty * w)
            if np.max(np.abs(step)) <= 1e-12 * max(1.0, np.max(np.abs(w))):
                break
            w -= step
        return cls(x, np.linalg.inv(hessian), w, first, second)

    def jacobians(self, rows: Array) -> Array:
        """Jacobians of some records, up to a common sign, of shape (len(rows), p, d + 1)."""
        d = len(self.coefficients) - 1
        u = self.records[rows] @ self.inverse
        jacobians = np.empty((len(rows), d + 1, d + 1))
        jacobians[:, :, :d] = (self.second[rows, None] * u)[:, :, None] * self.coefficients[:d]
        jacobians[:, :, :d] += self.first[rows, None, None] * self.inverse[:, :d]
        jacobians[:, :, d] = -u
        return jacobians

    def norms_batched(self, rows: Array, batch: int = 64) -> Array:
        """Spectral norms, with Jacobians and singular values of a batch of records at a time."""
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        return np.concatenate(
            [np.linalg.norm(self.jacobians(some), 2, axis=(1, 2)) for some in batches]
        )

    def norms_one_by_one(self, rows: Array) -> Array:
        """Spectral norms, one record after the other."""
        w, d = self.coefficients[:-1], len(self.coefficients) - 1
        norms = np.empty(len(rows))
        for k, i in enumerate(rows):
            u = self.inverse @ self.records[i]
            left = self.second[i] * np.outer(u, w) + self.first[i] * self.inverse[:, :d]
            norms[k] = np.linalg.norm(np.column_stack([left, -u]), 2)
        return norms


def derivatives(a: Array, y: Array, loss: Loss) -> tuple[Array, Array]:
    """First and second derivative of the loss in the predictor."""
    if loss == "squared":
        return a - y, np.ones_like(a)
    return expit(a) - y, expit(a) * expit(-a)
