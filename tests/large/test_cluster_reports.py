"""Reports, pipelines and what is measured of them, by processes and on a cluster."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.inspection import attribute_leakage, leakage_report
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.preprocessing import BlockwiseTransformer

pytestmark = pytest.mark.slow

N, RAW = 120, ["age", "ward"]


@contextmanager
def two_workers():
    from distributed import Client, LocalCluster

    limits = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**limits) as cluster, Client(cluster):
        yield


@contextmanager
def two_processes():
    # A pool of its own: Dask would start processes anew for each pass.
    spawn = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(2, mp_context=spawn) as pool,
        dask.config.set(scheduler="processes", pool=pool),
    ):
        yield


@pytest.fixture(params=["processes", "cluster"], scope="module")
def engine(request):
    with two_workers() if request.param == "cluster" else two_processes():
        yield


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    columns = {"age": rng.normal(50.0, 9.0, size=N), "ward": rng.choice(["A", "B", "C"], size=N)}
    frame = pd.DataFrame(columns)
    frame.loc[3, "ward"] = "rare"
    signal = 0.1 * (frame["age"] - 50.0) + (frame["ward"] == "A")
    return frame.assign(cost=signal + rng.normal(size=N), w=rng.integers(1, 4, size=N))


@pytest.fixture(scope="module")
def encoder(table):
    parts = (StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["ward"])
    return make_column_transformer(*parts).fit(table[RAW])


@pytest.mark.parametrize(
    "kind, reweighting", [(PrivateLinearRegression, None), (PrivateLogisticRegression, "irfil")]
)
def test_reports(engine, table, encoder, kind, reweighting):
    y = table["cost"] if kind is PrivateLinearRegression else table["cost"] > 0.0
    X = pd.DataFrame(encoder.transform(table[RAW]), columns=encoder.get_feature_names_out())
    model = kind(noise_scale=0.1, alpha=0.1, reweighting=reweighting, random_state=0)
    frame = dd.from_pandas(X.assign(y=y, w=table["w"], ward=table["ward"]), npartitions=5)
    expected = model.fit(X, y, table["w"]).leakage_report(groups=table["ward"])
    model.fit(frame[X.columns.tolist()], frame["y"], frame["w"])
    found = model.leakage_report(groups=frame["ward"])
    tolerance = 1e-9 if reweighting is None else 1e-5  # ten times that of the search
    options = {"rtol": tolerance, "check_dtype": False, "check_index_type": False}
    numbers = ["n_records", "mean_loss", "max_loss"]
    pd.testing.assert_frame_equal(found.groups[numbers], expected.groups[numbers], **options)
    for name in ("mean_loss", "max_loss"):
        assert_allclose(found.dataset[name], expected.dataset[name], rtol=tolerance)
    assert found.findings[0] == expected.findings[0]


@pytest.mark.parametrize("source", ["parquet", "frame"])
def test_pipelines(engine, table, encoder, source, tmp_path):
    raw = table.drop(columns="w")
    raw.to_parquet(tmp_path / "rows.parquet", row_group_size=31)
    rows = tmp_path / "rows.parquet" if source == "parquet" else dd.from_pandas(raw, npartitions=5)
    model = PrivateLinearRegression(noise_scale=0.1, random_state=0)
    held = make_pipeline(FrozenEstimator(encoder), model)
    held.fit(raw.drop(columns="cost"), raw["cost"])
    expected = attribute_leakage(held, raw.drop(columns="cost"), raw["cost"])
    exposed = leakage_report(held, raw.drop(columns="cost"), raw["cost"]).features
    lazy = make_pipeline(BlockwiseTransformer(encoder), model).fit(rows, y="cost")
    options = {"rtol": 1e-8, "check_dtype": False, "check_index_type": False}
    pd.testing.assert_frame_equal(attribute_leakage(lazy, rows, "cost"), expected, **options)
    found = leakage_report(lazy, rows, "cost").features
    pd.testing.assert_frame_equal(found, exposed, **options)
    answers = lazy.predict(dd.from_pandas(raw, npartitions=3))
    assert_allclose(answers.compute(), lazy.predict(raw), rtol=1e-9)
