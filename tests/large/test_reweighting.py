"""Reweighted fits of records outside memory are those of the same records in memory."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from sklearn.base import clone

from skleak.linear_model import IRFIL, EvenTotal, PrivateLinearRegression, PrivateLogisticRegression

# Ten times the tolerance of the searches.
TOL = 1e-6
RTOL = 10 * TOL
MODELS = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}


def make_records(rng, kind, n=90, d=3):
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + [0.0, 3.0, 0.0]
    y = X @ rng.normal(size=d) + rng.standard_t(4, size=n)
    y = (y > np.median(y)).astype(int) if kind == "logistic" else y
    return X, y, rng.integers(0, 3, size=n).astype(float)


def fit_both(kind, reweighting, X, y, weight, chunks, alpha=0.1):
    model = MODELS[kind](noise_scale=0.5, alpha=alpha, reweighting=reweighting)
    memory = model.fit(X, y, sample_weight=weight)
    large = clone(model)
    arrays = [da.from_array(values, chunks=(chunks,) * values.ndim) for values in (X, y, weight)]
    return memory, large.fit(arrays[0].rechunk({1: -1}), *arrays[1:])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skleak.exceptions.UnevenLeakageWarning")
@pytest.mark.parametrize("kind", mostly_slow(MODELS, 1))
@pytest.mark.parametrize("reweighting", mostly_slow([IRFIL(), IRFIL(norm="trace"), EvenTotal()], 0))
def test_weights_and_leakage_are_those_of_memory(reweighting, kind, rng):
    X, y, weight = make_records(rng, kind)
    memory, large = fit_both(kind, reweighting, X, y, weight, 40)
    there = weight > 0.0
    coefficients = [m._state.factor.coefficients for m in (memory, large)]
    assert_allclose(coefficients[1], coefficients[0], rtol=RTOL)
    for name in ("sample_reweights_", "fisher_information_loss_"):
        expected, found = getattr(memory, name), getattr(large, name)
        assert isinstance(found, da.Array)
        assert_allclose(np.asarray(found)[there], expected[there], rtol=RTOL)
    found = np.asarray(large.conditional_fisher_information_loss_)
    assert_allclose(found, memory.conditional_fisher_information_loss_, rtol=RTOL)
    whole = [m.fisher_information_loss(per="dataset") for m in (memory, large)]
    assert_allclose(whole[1], whole[0], rtol=RTOL)
    assert large.reweighting_history_[-1] <= TOL
    assert large.n_passes_ > large.n_reweighting_iter_


@pytest.mark.parametrize("method", mostly_slow(["plain", "newton"], 1))
def test_every_method(method, rng):
    X, y, weight = make_records(rng, "squared")
    memory, large = fit_both("squared", IRFIL(method=method, max_iter=100), X, y, weight, 90)
    assert_allclose(large.sample_reweights_, memory.sample_reweights_, rtol=2 * RTOL)
    assert_allclose(large.reweighting_history_[0], memory.reweighting_history_[0], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [1, 7])
def test_whatever_the_chunks(chunks, rng):
    X, y, weight = make_records(rng, "squared", n=24)
    memory, large = fit_both("squared", EvenTotal(), X, y, weight + 1.0, chunks, alpha=2.0)
    assert_allclose(large._state.factor.coefficients, memory._state.factor.coefficients, rtol=RTOL)


@pytest.mark.slow
def test_a_table_on_disk(rng, tmp_path):
    X, y, weight = make_records(rng, "squared")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=weight)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=32)
    memory = PrivateLinearRegression(0.5, alpha=0.1, reweighting=IRFIL(features=["b"]))
    memory.fit(frame[["a", "b", "c"]], y, sample_weight=weight)
    large = PrivateLinearRegression(0.5, alpha=0.1, reweighting=IRFIL(features=["b"]))
    large.fit(str(tmp_path / "rows.parquet"), y="y", sample_weight="w")
    expected = memory.fisher_information_loss_
    assert_allclose(np.asarray(large.fisher_information_loss_), expected, rtol=RTOL)


@pytest.mark.slow
def test_no_record_travels_with_the_functions(rng, monkeypatch):
    """What is sent to the records is as large as a fit, whatever the number of records."""
    import cloudpickle

    from skleak.utils import _blocks as _dask

    sizes, kernel = {}, _dask.DaskBlocks._kernel
    for n in (64, 1024):
        X, y, weight = make_records(rng, "logistic", n=n)
        sent = []

        def watched(blocks, f, combine, small, sent=sent):
            sent.append(len(cloudpickle.dumps((f, combine, small))))
            return kernel(blocks, f, combine, small)

        monkeypatch.setattr(_dask.DaskBlocks, "_kernel", watched)
        _, large = fit_both("logistic", "total", X, y, weight, n // 2)
        large.fisher_information_loss_.sum().compute()
        sizes[n] = max(sent)
    assert abs(sizes[1024] - sizes[64]) < 2000
