"""Leakage and answers about records outside memory are those of the same records in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import polars as pl
import pytest
from helpers import mostly_slow
from large_tables import MODELS, N, outside, table
from numpy.testing import assert_allclose, assert_array_equal

GRAINS = [
    {},
    {"norm": "trace"},
    {"features": [0, 2]},
    {"per": "feature"},
    {"per": "feature", "features": [[1, 2], 0]},
    {"per": "dataset"},
    {"per": "dataset", "norm": "trace"},
]


def both(kind, chunks=13):
    """The same fit in memory and outside of it, and its records."""
    frame, y, weight = table(kind)
    arrays = frame.to_numpy(), y.to_numpy(), weight
    large = [da.from_array(values, chunks=chunks) for values in arrays]
    options = {"noise_scale": 0.1, "random_state": 0}
    return MODELS[kind](**options).fit(*arrays), MODELS[kind](**options).fit(*large), arrays


def computed(losses):
    return losses.compute() if isinstance(losses, da.Array) else losses


@pytest.mark.parametrize("kind", mostly_slow(MODELS, 0, 2))
def test_training_records_at_every_grain(kind):
    inside, found, _ = both(kind)
    for grain in GRAINS:
        expected = inside.fisher_information_loss(**grain)
        assert_allclose(computed(found.fisher_information_loss(**grain)), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(MODELS, 2))
def test_other_records_wherever_they_and_the_model_lie(kind):
    inside, found, (X, y, weight) = both(kind)
    # New records, of which one is a training record of weight zero; and training records, twice.
    rows = np.r_[np.flatnonzero(weight == 0.0)[:1], 5:15, 5:15]
    batch = np.vstack([X[:6] + 0.5, X[rows]]), np.r_[y[:6], y[rows]]
    large = [da.from_array(values, chunks=7) for values in batch]
    for grain in GRAINS:
        expected = inside.fisher_information_loss(*batch, **grain)
        for model, records in ((inside, large), (found, batch), (found, large)):
            losses = model.fisher_information_loss(*records, **grain)
            assert isinstance(losses, da.Array) == (
                records is large and grain.get("per") != "dataset"
            )
            assert_allclose(computed(losses), expected, rtol=1e-9)


def test_the_training_table_opened_again_is_the_training_table(tmp_path):
    frame, y, weight = table("logistic")
    # Equal records of other weights: by value the heavier one would be meant for both.
    frame.iloc[1], y.iloc[1] = frame.iloc[0], y.iloc[0]
    weight[:2] = [1.0, 2.0]
    where = outside("parquet", frame, y, weight, tmp_path)
    model = MODELS["logistic"]().fit(*where)
    losses = model.fisher_information_loss(*where[:1], "y").compute()
    assert losses[1] == pytest.approx(2.0 * losses[0])
    assert_array_equal(losses, model.fisher_information_loss_.compute())


@pytest.mark.parametrize("kind", mostly_slow(["squared", "softmax"], 0))
def test_groups(kind):
    inside, found, _ = both(kind)
    for groups in (np.arange(N) % 5, np.array(["b", "a", "c"])[np.arange(N) % 3]):
        for options in ({}, {"norm": "trace"}, {"features": 1}):
            expected = inside.fisher_information_loss(per="group", groups=groups, **options)
            for labels in (groups, da.from_array(groups, chunks=11)):
                losses = found.fisher_information_loss(per="group", groups=labels, **options)
                assert_array_equal(losses.index, expected.index)
                assert losses.index.name == expected.index.name
                assert_allclose(losses, expected, rtol=1e-9)


def test_groups_in_several_passes(monkeypatch):
    inside, found, _ = both("squared")
    monkeypatch.setattr("skleak.influence.noise._noise._GROUP_ELEMENTS", 32)
    groups = np.arange(N) % 7
    expected = inside.fisher_information_loss(per="group", groups=groups)
    assert_allclose(found.fisher_information_loss(per="group", groups=groups), expected, rtol=1e-9)


def test_a_column_of_groups_and_one_hot_blocks(rng):
    codes = rng.integers(0, 3, N)
    X = np.column_stack([np.eye(3)[codes], rng.normal(size=N)])
    y = rng.normal(size=N)
    inside = MODELS["squared"]().fit(X, y)
    found = MODELS["squared"]().fit(da.from_array(X, chunks=(20, 2)), y)
    block = {"features": [0, 1, 2], "constrained": True}
    expected = inside.fisher_information_loss(**block)
    assert_allclose(found.fisher_information_loss(**block).compute(), expected, rtol=1e-9)
    by_column = [m.fisher_information_loss(per="group", groups=0) for m in (inside, found)]
    assert_allclose(by_column[1], by_column[0], rtol=1e-9)
    with pytest.raises(ValueError, match="sum to one"):
        found.fisher_information_loss(features=[1, 3], constrained=True)


def test_without_noise_and_with_a_covariance(rng):
    frame, y, _ = table("squared")
    X, y = frame.to_numpy(), y.to_numpy()
    shape = np.diag([1.0, 2.0, 0.5, 0.5])
    for options in ({"noise_scale": 0.0}, {"noise_covariance": shape, "noise_scale": 0.3}):
        inside = MODELS["squared"](**options).fit(X, y)
        found = MODELS["squared"](**options).fit(da.from_array(X, chunks=20), y)
        losses = found.fisher_information_loss_.compute()
        assert_allclose(losses, inside.fisher_information_loss_, rtol=1e-9)


@pytest.mark.parametrize("kind", mostly_slow(MODELS, 0, 2))
def test_answers_are_lazy_and_the_same(kind, tmp_path):
    frame, y, weight = table(kind)
    where = outside("parquet", frame, y, weight, tmp_path)
    model = MODELS[kind](random_state=0).fit(*where)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        if not hasattr(model, name):
            continue
        expected = getattr(model, name)(frame)
        with pytest.raises(TypeError, match="opens no file"):
            getattr(model, name)(where[0])
        for records in (pl.from_pandas(frame).lazy(), dd.from_pandas(frame, npartitions=3)):
            answer = getattr(model, name)(records)
            assert isinstance(answer, da.Array)
            if expected.dtype.kind == "f":
                assert_allclose(answer.compute(), expected, rtol=1e-12)
            else:
                assert_array_equal(answer.compute(), expected)
