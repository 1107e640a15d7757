"""Workers that die under way, and threads: the numbers are the same."""

import os
import signal
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

BLOCKS, ROWS, D, DEADLY = 12, 500, 4, 7


def block_of(numbers, armed):
    """Records and target of a block; the deadly one kills its worker once, where that is armed."""
    number = int(numbers[0])
    if number == DEADLY and armed is not None and armed.exists():
        left = int(armed.read_text())
        if left:
            armed.write_text(str(left - 1))
        else:
            armed.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    i = np.arange(number * ROWS, (number + 1) * ROWS, dtype=float)
    X = np.sin(i[:, None] * np.sqrt(np.arange(2.0, D + 2.0)))
    return np.column_stack([X, X[:, 0] + 0.5 * np.cos(i * 7.3) > 0.0])


def records(armed=None):
    """Lazy records and labels, whose blocks are made anew in every pass."""
    chunks = ((ROWS,) * BLOCKS, (D + 1,))
    options = {"armed": armed, "chunks": chunks, "new_axis": 1, "dtype": float}
    numbers = da.arange(BLOCKS, chunks=1)
    table = numbers.map_blocks(block_of, **options, meta=np.empty((0, D + 1)))
    return table[:, :D], table[:, D].astype(int)


def fit(X, y, kind=PrivateLogisticRegression):
    return kind(alpha=0.01, random_state=0).fit(X, y)


def noiseless(model):
    return model._state.factor.coefficients


def expect_same(found, losses, expected):
    assert_allclose(noiseless(found), noiseless(expected), rtol=1e-10)
    assert_allclose(losses, expected.fisher_information_loss_, rtol=1e-9)
    assert found.n_iter_ == expected.n_iter_


@pytest.fixture(scope="module")
def expected():
    """The same records in memory."""
    return fit(*dask.compute(*records(), scheduler="sync"))


@pytest.fixture
def client():
    from distributed import Client, LocalCluster

    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as connected:
        yield connected


@pytest.mark.parametrize(
    "kind", mostly_slow([PrivateLinearRegression, PrivateLogisticRegression], 0)
)
def test_threads_give_what_one_thread_gives(kind):
    found = []
    for options in ({"scheduler": "sync"}, {"scheduler": "threads", "num_workers": 4}):
        with dask.config.set(options):
            model = fit(*records(), kind)
            found.append((noiseless(model), model.fisher_information_loss_.compute()))
    for one, many in zip(*found, strict=True):
        assert_allclose(many, one, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("passes_before", [0, 2])
def test_a_worker_killed_during_a_fit(client, tmp_path, expected, passes_before):
    armed = Path(tmp_path) / "armed"
    before = set(client.run(os.getpid).values())
    armed.write_text(str(passes_before))
    found = fit(*records(armed))
    assert not armed.exists()  # it was killed
    expect_same(found, found.fisher_information_loss_.compute(), expected)
    client.wait_for_workers(2)
    after = set(client.run(os.getpid).values())
    assert len(after - before) == 1  # and another one started


@pytest.mark.slow
def test_a_worker_killed_during_leakage(client, tmp_path, expected):
    armed = Path(tmp_path) / "armed"
    found = fit(*records(armed))
    armed.write_text("0")
    losses = found.fisher_information_loss_.compute()
    assert not armed.exists()
    expect_same(found, losses, expected)


@pytest.mark.slow
def test_a_worker_that_dies_with_the_records_it_keeps(client, expected):
    X, y = dask.persist(*records())
    found = fit(X, y)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    expect_same(found, found.fisher_information_loss_.compute(), expected)
    expect_same(fit(X, y), found.fisher_information_loss_.compute(), expected)
