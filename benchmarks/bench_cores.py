"""Fits and leakage of records in memory: one core, threads of BLAS alone, and blocks by threads.

Rivals run in turns. Where blocks go to threads and each asks for all cores again, by threads of
BLAS, the cores are asked for twice: that is the last rival.
"""

import os
import sys
from contextlib import contextmanager, nullcontext
from unittest import mock

import numpy as np
from _common import (
    exit_status,
    make_parser,
    parse_options,
    print_table,
    ratio_and_range,
    time_in_turns,
)
from _out_of_core import ACCURACY, MODELS, SETTINGS, made_block, note_load, relative_error
from _results import legend, note
from threadpoolctl import threadpool_limits

from skleak.utils import _blocks as _threads

QUICK = {"n": 20_000, "d": 5, "rounds": 1}
FULL = {"n": 1_000_000, "d": 50, "rounds": 3}


@contextmanager
def one_core():
    with threadpool_limits(1):
        yield


def blas_alone():
    return mock.patch.object(_threads, "_FEWEST_BLOCKS", sys.maxsize)


def asked_twice():
    """Threads whose BLAS is not limited."""
    unlimited = mock.Mock()
    unlimited.limit = lambda limits: nullcontext()
    unlimited.lib_controllers = _threads._blas().lib_controllers
    return mock.patch.object(_threads, "_blas", return_value=unlimited)


RIVALS = {
    "one core": one_core,
    "blocks by threads": nullcontext,
    "threads of BLAS alone": blas_alone,
    "cores asked for twice": asked_twice,
}


def work(kind, X, y, setting):
    """Fit and measure every record."""
    with setting():
        model = MODELS[kind](**SETTINGS).fit(X, y)
        losses = model.fisher_information_loss_
    return np.append(model._state.factor.coefficients, losses.max())


def main():
    options = parse_options(__doc__, make_parser(__doc__))
    size = QUICK if options.quick else FULL
    lines, failures = [], []
    # `run.py` gives BLAS one thread.
    with threadpool_limits(os.cpu_count()):
        for kind in MODELS:
            table = made_block(0, size["n"], size["d"], kind)
            X, y = table[:, :-1], table[:, -1]
            calls = {
                name: lambda kind=kind, setting=setting, X=X, y=y: work(kind, X, y, setting)
                for name, setting in RIVALS.items()
            }
            timed = time_in_turns(calls, size["rounds"])
            slow = timed["one core"]
            for name, rival in timed.items():
                ratio, reach = ratio_and_range(slow, rival)
                lines.append([f"{kind}: {name}", f"{rival.best:.2f}", f"{ratio:.2f}", reach])
                note(f"{kind}, {name}: times as fast as one core", ratio)
                error = relative_error(rival.result, slow.result)
                if not error <= ACCURACY:
                    failures.append(f"{kind}, {name}: numbers apart by {error:.1e}")
    title = (
        f"Fit and leakage of {size['n']} x {size['d']} records in memory, {os.cpu_count()} cores"
    )
    print_table(title, ["rival", "seconds", "times as fast", "within a round"], lines)
    legend("seconds: the best round")
    note_load("at the end")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
