"""What the benchmarks of records outside memory share: records, fits, lines through times."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import dask.array as da
import numpy as np
from _common import Array, peak_memory
from _results import legend, note

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

MODELS = {"linear": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
ACCURACY = 1e-10  # of coefficients; that of leakage is ten times it
SETTINGS = {"noise_scale": 1.0, "alpha": 1e-3, "random_state": 0}

# Dask's nannies tell the allocator to give memory back at once, and each large array then faults
# its pages in anew: a third of the CPU time of such fits.
KEEP_MEMORY = {
    f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": 1 << 25
    for name in ("TRIM", "MMAP")
}


def made_block(block: int, rows: int, d: int, kind: str) -> Array:
    """Records of a block and their target as the last column, (rows, d + 1).

    They are functions of the number of the block: uniform columns of variance 1, and a target that
    depends on the first half of them.
    """
    rng = np.random.default_rng([block, d])
    table = rng.random((rows, d + 1))
    table -= 0.5
    table *= np.sqrt(12.0)
    predictor = table[:, : d // 2] @ np.sqrt(1.0 / np.arange(1.0, d // 2 + 1.0)) / 2.0
    table[:, d] += predictor
    if kind == "logistic":
        table[:, d] = table[:, d] > 0.0
    return table


def _block_of(numbers: Array, rows: int, d: int, kind: str) -> Array:
    return made_block(int(numbers[0]), rows, d, kind)


def made_records(n: int, d: int, rows: int, kind: str) -> tuple[da.Array, da.Array]:
    """Lazy records (n, d) and targets (n,), in blocks of so many rows, made anew in each pass."""
    numbers = da.arange(n // rows, chunks=1)
    chunks = ((rows,) * (n // rows), (d + 1,))
    meta = np.empty((0, d + 1))
    options = {"rows": rows, "d": d, "kind": kind, "chunks": chunks, "new_axis": 1}
    table = numbers.map_blocks(_block_of, **options, dtype=float, meta=meta)
    y = table[:, d]
    return table[:, :d], y.astype(int) if kind == "logistic" else y


@dataclass(frozen=True)
class Fitted:
    """What a fit took and found."""

    seconds: float
    passes: int
    coefficients: Array
    memory: float  # peak of this process, in GB
    cpu: float  # seconds of CPU that this process took


def fitted(kind: str, X: object, y: object) -> tuple[Fitted, object]:
    """Fit on records outside memory; what it took, and the model."""
    start, cpu = time.perf_counter(), time.process_time()
    model = MODELS[kind](**SETTINGS).fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    # Below the noise: what the fit itself found.
    found = np.array(model._state.factor.coefficients)
    return Fitted(seconds, model.n_passes_, found, peak_memory(), cpu), model


def relative_error(found: Array, expected: Array) -> float:
    """Largest difference, relative to the largest entry."""
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def line_through(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, Array]:
    """The a and b of ``time = a + b n`` of least relative squares, a >= 0; residuals in percent."""
    n, t = np.array(sizes, dtype=float), np.array(seconds)
    design = np.column_stack([1.0 / t, n / t])
    a, b = np.linalg.lstsq(design, np.ones(len(t)), rcond=None)[0]
    if a < 0.0:
        a, b = 0.0, float(np.sum(n / t) / np.sum((n / t) ** 2))
    return float(a), float(b), 100.0 * (t / (a + b * n) - 1.0)


def note_load(when: str) -> None:
    """Keep how many processes wanted the cores, on average over the last minute."""
    load = os.getloadavg()[0]
    note(f"load average of the machine, {when}", load)
    legend(f"load average of the machine, {when}: {load:.1f} on {os.cpu_count()} cores")
