"""Fits by threads, by processes and on a cluster, and what reaches this process."""

import subprocess
import sys
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from large_tables import MODELS, table
from numpy.testing import assert_allclose

from skleak.mechanisms import MaxAdvantage, MaxLeakage
from skleak.mechanisms.calibration import ladder_rung

CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
N, D, CHUNK = 100_000, 10, 20_000


@contextmanager
def cluster_elsewhere(path):
    """A scheduler and two workers in processes of their own; ends with what is yielded."""
    script = path / "cluster.py"
    script.write_text(CLUSTER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, str(script)], text=True, **pipes) as process:
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def rows_of(i, module):
    """Records (n, D) that are functions of their positions, and their targets."""
    X = module.sin(i[:, None] * np.sqrt(np.arange(2.0, D + 2.0)))
    return X, X[:, 0] + 0.1 * module.cos(i * 7.3)


def made_elsewhere():
    return rows_of(da.arange(N, chunks=CHUNK, dtype=float), da)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_schedulers_of_one_machine(scheduler):
    frame, y, weight = table("logistic")
    X, y = frame.to_numpy(), y.to_numpy()
    inside = MODELS["logistic"](random_state=0).fit(X, y, weight)
    large = [da.from_array(values, chunks=25) for values in (X, y, weight)]
    with dask.config.set(scheduler=scheduler):
        found = MODELS["logistic"](random_state=0).fit(*large)
        losses = found.fisher_information_loss_.compute()
    expected = inside._state.factor.coefficients
    assert_allclose(found._state.factor.coefficients, expected, rtol=1e-10, atol=1e-12)
    assert_allclose(losses, inside.fisher_information_loss_, rtol=1e-9)


@pytest.fixture
def received(monkeypatch):
    """What the client receives, while it is watched."""
    from distributed.comm import tcp

    found, read = [], tcp.from_frames

    def watched(frames, *args, **kwargs):
        found.append(b"".join(bytes(frame) for frame in frames))
        return read(frames, *args, **kwargs)

    monkeypatch.setattr(tcp, "from_frames", watched)
    return found


def check_received(received, rows):
    """No row, and nothing large: by columns or by rows, two neighbors of any table of records."""
    traces = [rows[i, :2].tobytes() for i in range(997, N, 997)]  # the first row is zero
    traces += [rows[i : i + 2, 0].tobytes() for i in range(997, N, 997)]
    assert max(map(len, received)) < 16 * (D + 1) ** 2 + 1_000_000 < 8 * CHUNK * D
    everything = b"".join(received)
    assert not any(trace in everything for trace in traces)
    # The watch sees rows where there are some.
    assert rows[997:1000].tobytes().find(traces[0]) == 0


@pytest.mark.slow
def test_no_row_and_nothing_large_reaches_the_client_of_a_cluster(tmp_path, received):
    from distributed import Client

    X, y = made_elsewhere()
    rows, targets = rows_of(np.arange(N, dtype=float), np)
    inside = MODELS["squared"](random_state=0).fit(rows, targets)
    with cluster_elsewhere(tmp_path) as (address, _), Client(address):
        kept = X.persist(), y.persist()
        found = MODELS["squared"](random_state=0).fit(*kept)
        most = found.fisher_information_loss_.max().compute()
    expected = inside._state.factor.coefficients
    assert_allclose(found._state.factor.coefficients, expected, rtol=1e-10, atol=1e-13)
    assert most == pytest.approx(inside.fisher_information_loss_.max(), rel=1e-9)
    assert len(received) > found.n_passes_
    check_received(received, rows)


@pytest.mark.slow
def test_goals_and_shapes_of_the_noise_bring_no_row(tmp_path, received):
    from distributed import Client

    rows, targets = rows_of(np.arange(N, dtype=float), np)
    rows[:, -1] = rows[:, -1] > 0.0
    few = slice(0, N, 200)  # which fit into one block, elsewhere
    expected = outcome(MaxAdvantage(0.2, D - 1), rows[few], targets[few])
    largest = MODELS["squared"](0.1).fit(rows, targets).individual_privacy_["mu"].max()
    with cluster_elsewhere(tmp_path) as (address, _), Client(address):
        X, y = made_elsewhere()
        X = da.concatenate([X[:, :-1], X[:, -1:] > 0.0], axis=1).rechunk({1: -1})
        X, y = X.persist(), y.persist()
        told = outcome(MaxLeakage(0.01, features=D - 1), X, y)
        assert outcome(MaxAdvantage(0.2, D - 1), X[few], y[few]) == expected
        for shape in ("curvature", "minimax"):
            MODELS["squared"](noise_covariance=shape).fit(X, y)
        found = MODELS["squared"](0.1).fit(X, y).individual_privacy_["mu"].max().compute()
    assert found == pytest.approx(largest, rel=1e-8)
    plain = MODELS["squared"]().fit(rows, targets)
    assert told == ladder_rung(MaxLeakage(0.01, features=D - 1).noise_scale_of(plain))
    check_received(received, rows)


def outcome(goal, X, y):
    """The rung of a goal, or why there is none."""
    try:
        return MODELS["squared"](goal).fit(X, y).noise_scale_
    except ValueError as error:
        return str(error)


@pytest.mark.slow
def test_a_scheduler_that_is_gone(tmp_path):
    from distributed import Client

    X, y = made_elsewhere()
    limits = {"distributed.comm.timeouts.connect": "1s", "distributed.comm.retry.count": 0}
    with dask.config.set(limits), cluster_elsewhere(tmp_path) as (address, process):
        client = Client(address, timeout="20s")
        kept = X.persist(), y.persist()
        model = MODELS["squared"]().fit(*kept)
        coef = model.coef_
        process.kill()
        process.wait()
        with pytest.raises(ConnectionError, match=r"scheduler at .* is gone"):
            model.fit(*kept)
        assert model.coef_ is coef
        client.close()


@pytest.mark.slow
def test_a_bar_on_a_cluster(tmp_path, capsys):
    from distributed import Client

    X, y = made_elsewhere()
    with cluster_elsewhere(tmp_path) as (address, _), Client(address):
        model = MODELS["squared"](verbose=1).fit(X, y)
    assert f"pass {model.n_passes_}" in capsys.readouterr().err
