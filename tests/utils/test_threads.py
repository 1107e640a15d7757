"""Blocks of one process on all of its cores."""

import threading
import time
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from skleak.linear_model import PrivateLogisticRegression
from skleak.utils import _blocks as _memory
from skleak.utils import _blocks as _threads
from skleak.utils._blocks import Blocks, add, in_order


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(_threads, "_blas_threads", lambda: 3)


def _blas():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def test_results_come_in_order_and_from_threads(three):
    seen = set()

    def slow_first(k):
        seen.add(threading.get_ident())
        time.sleep(0.02 if k % 3 == 0 else 0.0)
        return k, max(_blas())

    before = _blas()
    found = list(in_order(slow_first, range(20)))
    assert [k for k, _ in found] == list(range(20))
    assert len(seen) == 3
    assert threading.get_ident() not in seen
    assert {threads for _, threads in found} == {1}
    assert _blas() == before


def test_few_blocks_and_one_thread_are_left_alone(three, monkeypatch):
    here = threading.get_ident()
    assert set(in_order(lambda _: threading.get_ident(), range(7))) == {here}
    monkeypatch.undo()
    with threadpool_limits(1):
        assert set(in_order(lambda _: threading.get_ident(), range(20))) == {here}


def test_no_more_blocks_are_under_way_than_wait(three):
    begun = []
    results = in_order(lambda k: begun.append(k) or k, range(100))
    assert next(results) == 0
    time.sleep(0.05)
    assert len(begun) <= 2 * 3 + 1
    results.close()
    assert len(begun) <= 2 * 3 + 1


def test_an_error_of_a_block_is_that_of_the_walk(three):
    def fails(k):
        if k == 4:
            raise ValueError("block 4")
        return k

    found, before = [], _blas()
    with pytest.raises(ValueError, match="block 4"):
        found.extend(in_order(fails, range(50)))
    assert found == [0, 1, 2, 3]
    assert _blas() == before


def test_how_errors_of_numbers_are_handled_holds_in_threads(three):
    blocks = Blocks.of(np.full((30, 1), 1e300), elements=2)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        blocks.map(lambda X: X[:, 0] ** 2)
    with np.errstate(over="ignore"):
        assert np.isinf(blocks.map(lambda X: X[:, 0] ** 2)).all()


@pytest.mark.parametrize("task", ["", "records"])
def test_the_same_bits_with_threads(rng, monkeypatch, task):
    X, y = rng.normal(size=(101, 5)), rng.normal(size=101)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(_threads, "_blas_threads", lambda threads=threads: threads)
        blocks = Blocks.of(X, y, elements=20, task=task)
        sums = blocks.map_reduce(lambda X, y: X.T @ y, add)
        found.append((blocks.map(lambda X, y: X @ X[0] + y), sums))
    for one, several in zip(*found, strict=True):
        assert_array_equal(one, several)


def test_a_model_has_the_same_numbers_with_threads(rng, monkeypatch):
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] + rng.logistic(size=400) > 0.0).astype(int)
    cut = partial(_memory.row_blocks, elements=100)
    monkeypatch.setattr(_memory, "row_blocks", lambda n, width, _: cut(n, width))
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(_threads, "_blas_threads", lambda threads=threads: threads)
        model = PrivateLogisticRegression(noise_scale=1.0, random_state=0).fit(X, y)
        found.append((model.coef_, model.fisher_information_loss_))
    for one, several in zip(*found, strict=True):
        assert_array_equal(one, several)
