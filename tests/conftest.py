"""Fixtures shared by the whole suite: one seed, and the real data sets where they are."""

import gc
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from skleak.datasets import fetch_adult, fetch_iwpc, fetch_mnist

matplotlib.use("Agg")
if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core: more threads would slow them all
    threadpool_limits(1)
# What is collected stays: looking for garbage in it took a third of the time of collecting.
gc.disable()


# Tests by measured duration, and how many of their cases run with the quick ones, and of the slow
# ones how many run for each change: the others run every week. One case holds the property, the
# rest are more chances to refute it.
LONGER = {
    mark: dict(
        line.rsplit(" ", 1) for line in (Path(__file__).parent / name).read_text().splitlines()
    )
    for mark, name in (("slow", "slow.txt"), ("exhaustive", "weekly.txt"))
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases beyond those that run with the quick ones, and for each change."""
    seen = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0]
        for mark, kept in LONGER.items():
            if name in kept and (mark == "slow" or item.get_closest_marker("slow")):
                seen[mark, name] += 1
                if seen[mark, name] > int(kept[name]):
                    item.add_marker(mark)


def pytest_collection_finish():
    """Look for garbage from here on, and in nothing that is there already."""
    gc.collect()
    gc.freeze()
    gc.enable()


class Split(NamedTuple):
    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that tests and examples before this one have left open."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def evil_names():
    """Names that try to be markup, to steer a terminal, or to be too long."""
    return (
        "<script>alert(1)</script>",
        "</title></style><img src=x onerror=alert(1)>",
        "\"quoted\" & 'single' `tick",
        "escape\x1b[31m\nnext\x00line",
        "override\u202eexe.txt",
        "surrogate\ud800",
        "العمر",
        "年龄 (岁)",
        "{{ 7 * 7 }}{% raw %}",
        "x" * 3000,
        "$math_{",
    )


@pytest.fixture
def rng(request):
    """A Generator seeded by the name of the test: reproducible, and no two tests share draws."""
    return np.random.default_rng(list(request.node.name.encode()))


def _fetch_or_skip(fetch, **options):
    try:
        return fetch(return_X_y=True, download_if_missing=False, **options)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def _split(fetch, **options):
    parts = [_fetch_or_skip(fetch, subset=subset, **options) for subset in ("train", "test")]
    return Split(*parts[0], *parts[1])


@pytest.fixture(scope="session")
def iwpc():
    """IWPC as the papers encode it: DataFrame (4819, 14) and Series of doses. Not to be changed."""
    return _fetch_or_skip(fetch_iwpc, encoded=True)


@pytest.fixture(scope="session")
def adult():
    """Adult as the papers encode it: DataFrames (30162, 86) and (15060, 86), targets 0/1."""
    return _split(fetch_adult, encoded=True)


@pytest.fixture(scope="session")
def mnist01():
    """MNIST 0/1 in 20 principal components: read-only arrays (12665, 20) and (2115, 20)."""
    split = _split(fetch_mnist, preprocessing="pca20")
    for array in split:
        array.setflags(write=False)
    return split
