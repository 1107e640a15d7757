"""Fits of records outside memory are those of the same records in memory."""

import pickle
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from large_tables import COLUMNS, MODELS, N, outside, table
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.accounting import LeakageLedger
from skleak.exceptions import PrivacyLeakWarning, UnprotectedValueWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivatePoissonRegressor,
)


def noiseless(model):
    return model._state.factor.coefficients


@pytest.mark.parametrize("where", ["arrays", "frame", "parquet", "folder", "polars"])
@pytest.mark.parametrize("kind", mostly_slow(MODELS, 0))
def test_every_kind_of_table_gives_the_fit_of_memory(kind, where, tmp_path):
    frame, y, weight = table(kind)
    model = MODELS[kind](random_state=0)
    inside = model.fit(frame, y, weight)
    expected, losses = noiseless(inside), inside.fisher_information_loss_
    diagonal, coef = inside.diagonal_fisher_information_loss_, inside.coef_
    found = MODELS[kind](random_state=0).fit(*outside(where, frame, y, weight, tmp_path))
    assert_allclose(noiseless(found), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    assert_allclose(found.coef_, coef, rtol=1e-9)
    assert isinstance(found.fisher_information_loss_, da.Array)
    assert_allclose(found.fisher_information_loss_.compute(), losses, rtol=1e-9)
    assert_allclose(found.diagonal_fisher_information_loss_.compute(), diagonal, rtol=1e-9)
    assert found.n_iter_ == inside.n_iter_
    # One look at the records, the start, and one pass for every step; of the last one none where
    # it is small whatever the records. The look is the start of a linear regression. The rows of
    # partitions are counted.
    counted = where == "frame"
    if kind == "squared":
        assert found.n_passes_ == 2 + counted
    else:
        assert found.n_iter_ + 2 <= found.n_passes_ - counted <= found.n_iter_ + 3
    if where == "arrays":
        assert not hasattr(found, "feature_names_in_")
    else:
        assert_array_equal(found.feature_names_in_, COLUMNS)
    if kind in ("logistic", "softmax"):
        assert_array_equal(found.classes_, inside.classes_)


@pytest.mark.parametrize("chunks", mostly_slow([1, (1, 14, 5), 20], 1))
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("kind", mostly_slow(MODELS))
def test_chunks_and_intercept_make_no_difference(kind, fit_intercept, chunks):
    frame, y, _ = table(kind, seed=1)
    chunks = (chunks, -1)
    X, y = frame.to_numpy()[:20] - [0.0, 2000.0, 0.0], y.to_numpy()[:20]
    options = {"fit_intercept": fit_intercept, "alpha": 0.1, "random_state": 0}
    inside = MODELS[kind](**options).fit(X, y)
    with dask.config.set(scheduler="sync"):
        found = MODELS[kind](**options).fit(da.from_array(X, chunks=chunks), y)
        losses = found.fisher_information_loss_.compute()
    expected = noiseless(inside)
    assert_allclose(noiseless(found), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    assert_allclose(losses, inside.fisher_information_loss_, rtol=1e-9)


@pytest.mark.slow
def test_targets_in_other_chunks_are_cut_as_the_records():
    frame, y, weight = table("squared")
    X, arrays = frame.to_numpy(), [da.from_array(v, chunks=7) for v in (y.to_numpy(), weight)]
    found = PrivateLinearRegression().fit(da.from_array(X, chunks=(23, 2)), *arrays)
    expected = noiseless(PrivateLinearRegression().fit(X, y, weight))
    assert_allclose(noiseless(found), expected, rtol=1e-10, atol=1e-12)


def test_integers_and_single_precision_are_numbers():
    X = np.arange(40, dtype=np.float32).reshape(20, 2) ** 1.5
    y = np.arange(20) % 7
    found = PrivateLinearRegression().fit(da.from_array(X, chunks=6), da.from_array(y, chunks=6))
    expected = noiseless(PrivateLinearRegression().fit(X, y))
    assert_allclose(noiseless(found), expected, rtol=1e-10)


def test_a_release_and_a_pickle_hold_nothing_that_reads_the_records(tmp_path):
    frame, y, _ = table("squared")
    path, *_ = outside("parquet", frame, y, None, tmp_path)
    model = PrivateLinearRegression().fit(path, "y")
    assert len(model.fisher_information_loss_) == N
    with pytest.warns(UnprotectedValueWarning, match="not checked.*outside memory"):
        released = model.release()
    assert_array_equal(released.coef_, model.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        texts = [pickle.dumps(released), pickle.dumps(model)]
    for text in texts:
        assert b"rows.parquet" not in text
        assert b"dask" not in text
        assert not hasattr(pickle.loads(text), "_state")


@pytest.mark.slow
def test_the_largest_loss_is_charged_to_a_ledger(tmp_path):
    frame, y, weight = table("poisson")
    ledger = LeakageLedger(tmp_path / "ledger")
    model = PrivatePoissonRegressor(ledger=ledger)
    model.fit(*outside("arrays", frame, y, weight, tmp_path))
    losses = model.fisher_information_loss_.compute()
    (charged,) = ledger.history()["max_fisher_information_loss"]
    assert charged == pytest.approx(losses.max(), rel=1e-12)


def test_a_bar_for_every_pass_where_it_is_wanted(capsys):
    frame, y, _ = table("squared")
    X = da.from_array(frame.to_numpy(), chunks=20)
    PrivateLinearRegression(verbose=1).fit(X, y.to_numpy())
    shown = capsys.readouterr().err
    assert all(f"pass {k}" in shown for k in (1, 2))
    PrivateLinearRegression().fit(X, y.to_numpy())
    assert not capsys.readouterr().err


def test_sparse_entries_that_cancel_are_their_sum():
    # 1e100 - 1e100, in the last row, would take what all other rows add along with it.
    entries, starts = np.r_[np.ones(39), 1e100, 0.5, -1e100], np.r_[np.arange(40), 42]
    X = sparse.csr_array((entries, np.zeros(42, dtype=int), starts), shape=(40, 1))
    summed, y = X.copy(), np.arange(40.0)
    summed.sum_duplicates()

    def block(rows, table):
        return table[int(rows[0, 0]) : int(rows[-1, 0]) + 1]

    rows = da.arange(40, chunks=20)[:, None]
    tables = [rows.map_blocks(block, one, dtype=float, meta=X[:0]) for one in (X, summed)]
    fits = [PrivateLinearRegression(fit_intercept=False).fit(one, y) for one in tables]
    assert noiseless(fits[0]) == noiseless(fits[1])
