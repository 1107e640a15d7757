"""Columns of several files in audits and pipelines, and tables that do not hold what is named."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.audit import LeakageAuditor
from skleak.inspection import attribute_leakage
from skleak.linear_model import PrivateLinearRegression
from skleak.preprocessing import BlockwiseTransformer

COLUMNS, N = ["age", "sex"], 60


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def table(rng):
    frame = pd.DataFrame({"age": rng.normal(size=N), "sex": rng.integers(0, 2, size=N)})
    return frame.assign(dose=frame.sum(axis=1) + rng.normal(size=N), w=rng.integers(1, 3, size=N))


@pytest.fixture
def files(table, tmp_path):
    for k in range(9):
        table[7 * k : 7 * k + 7].to_parquet(tmp_path / f"{k}.parquet")
    return dd.read_parquet(tmp_path)


def audit(*given, **options):
    auditor = LeakageAuditor(
        PrivateLinearRegression(0.3),
        "sex",
        attacks=["prior", "white_box"],
        n_releases=5,
        bounds="bayes",
        random_state=0,
    )
    return auditor.fit(*given, **options).report_


@pytest.mark.slow
def test_series_of_several_files_are_audited_as_in_memory(table, files):
    expected = audit(table[COLUMNS], table["dose"], sample_weight=table["w"])
    found = audit(files[COLUMNS], files["dose"], sample_weight=files["w"])
    pd.testing.assert_frame_equal(found.results, expected.results, rtol=1e-8, check_dtype=False)


@pytest.mark.slow
def test_targets_of_several_files_are_those_of_a_pipeline(table, files):
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    encoder.fit(table[COLUMNS])
    model = PrivateLinearRegression(0.3)
    inside = make_pipeline(FrozenEstimator(encoder), model).fit(table[COLUMNS], table["dose"])
    expected = attribute_leakage(inside, table[COLUMNS], table["dose"])
    model = PrivateLinearRegression(0.3)
    outside = make_pipeline(BlockwiseTransformer(encoder), model)
    outside.fit(files[COLUMNS], files["dose"])
    found = attribute_leakage(outside, files[COLUMNS], files["dose"])
    assert_allclose(found["gain"], expected["gain"], rtol=1e-8)


def test_what_a_table_to_audit_lacks(table, files, tmp_path):
    with pytest.raises(
        ValueError, match=r"name the column 'price', which .* does not have. Expected one of"
    ):
        audit(tmp_path, "price")
    with pytest.raises(
        ValueError, match=r"name the column 'price', which .* does not have. Expected one of"
    ):
        audit(files, "dose", sample_weight="price")
    others = dd.from_pandas(table["dose"], npartitions=2)
    with pytest.raises(ValueError, match="have 2 partitions, and the table 9"):
        audit(files[COLUMNS], others)
    unknown = dd.from_pandas(table[COLUMNS], npartitions=2).values
    with pytest.raises(ValueError, match=r"Call `X\.compute_chunk_sizes\(\)`"):
        audit(unknown, da.from_array(table["dose"].to_numpy()))


@pytest.mark.slow
def test_records_that_were_left_on_a_cluster_that_is_shut_down(table):
    from distributed import Client, LocalCluster

    options = {"n_workers": 1, "processes": False, "dashboard_address": None}
    with dask.config.set(scheduler=None), LocalCluster(**options) as cluster:
        with Client(cluster):
            kept = dd.from_pandas(table, npartitions=3).persist()
            model = PrivateLinearRegression().fit(kept, "dose", "w")
        assert np.isfinite(model.coef_).all()
        with pytest.raises(ConnectionError, match="records can no longer be reached"):
            model.fit(kept, "dose", "w")
