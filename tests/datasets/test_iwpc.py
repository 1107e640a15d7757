import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder

from skleak.datasets import fetch_iwpc
from skleak.datasets._cache import SOURCES

SMALL = b"""\
race,age,height,weight,amiodarone,decr,cyp2c9,vkorc1,dose
white,0.5,2.25,1.75,0,0,13,CT,1.25
black,-0.5,0.75,3.0,1,0,11,TT,0.75
asian,0.25,1.5,0.5,0,1,11,CC,-0.5
white,0.0,-1.5,-0.5,0,0,22,CT,2.0
"""


@pytest.fixture
def home(stand_in):
    return stand_in("iwpc-scaled.csv", SMALL)


class TestSmall:
    def test_raw(self, home):
        bunch = fetch_iwpc(data_home=home)
        assert list(bunch.data["cyp2c9"]) == ["13", "11", "11", "22"]
        assert list(bunch.data["race"].cat.categories) == ["asian", "black", "white"]
        assert list(bunch.target) == [1.25, 0.75, -0.5, 2.0]
        assert bunch.categorical_features == ["race", "cyp2c9", "vkorc1"]
        assert bunch.feature_names == list(bunch.data)
        assert list(bunch.frame) == [*bunch.feature_names, "dose"]
        assert set(bunch.sensitive) <= set(bunch.categorical_features)

    def test_encoded(self, home):
        X, y = fetch_iwpc(encoded=True, return_X_y=True, data_home=home)
        expected = {
            "age": [0.5, -0.5, 0.25, 0],
            "height": [2.25, 0.75, 1.5, -1.5],
            "weight": [1.75, 3, 0.5, -0.5],
            "amiodarone": [0, 1, 0, 0],
            "decr": [0, 0, 1, 0],
            "race_black": [0, 1, 0, 0],
            "race_white": [1, 0, 0, 1],
            "cyp2c9_13": [1, 0, 0, 0],
            "cyp2c9_22": [0, 0, 0, 1],
            "vkorc1_CT": [1, 0, 0, 1],
            "vkorc1_TT": [0, 1, 0, 0],
        }
        pd.testing.assert_frame_equal(X, pd.DataFrame(expected, dtype=float))
        assert y.name == "dose"

    def test_arrays(self, home):
        X, y = fetch_iwpc(as_frame=False, return_X_y=True, data_home=home)
        assert X.tolist()[1] == ["black", -0.5, 0.75, 3.0, 1, 0, "11", "TT"]
        assert (X.dtype, y.dtype) == (object, np.float64)
        bunch = fetch_iwpc(encoded=True, as_frame=False, data_home=home)
        assert bunch.data.dtype == np.float64
        assert bunch.frame is None
        assert bunch.feature_names[5:7] == bunch.one_hot_blocks["race"]

    def test_description(self, home):
        text = fetch_iwpc(data_home=home).DESCR
        for word in ("MIT", "Yeom", "vkorc1", "first level in alphabetical order dropped"):
            assert word in text

    def test_other_file(self, home):
        (home / "iwpc-scaled.csv").write_bytes(SMALL + b"white,0,0,0,0,0,11,CC,0\n")
        with pytest.raises(ValueError, match=r"iwpc-scaled.csv must hold content with SHA-256"):
            fetch_iwpc(data_home=home)


def test_missing(tmp_path, network):
    with pytest.raises(FileNotFoundError, match=r"iwpc-scaled.csv is not in .*ml-privacy-csf18"):
        fetch_iwpc(data_home=tmp_path)
    assert network.asked[0][0] == SOURCES["iwpc-scaled.csv"].url


@pytest.mark.data
def test_real(iwpc):
    X, y = iwpc
    raw = fetch_iwpc(download_if_missing=False).data
    assert X.shape == (4819, 14)
    assert raw.shape == (4819, 8)
    assert sorted(raw["cyp2c9"].unique()) == ["11", "12", "13", "22", "23", "33"]
    numbers = ["age", "height", "weight"]
    np.testing.assert_allclose(X[numbers].mean(), 0, atol=1e-4)
    np.testing.assert_allclose(X[numbers].std(), 1, atol=1e-3)
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-3)
    independent = OneHotEncoder(drop="first", sparse_output=False)
    nominal = ["race", "cyp2c9", "vkorc1"]
    np.testing.assert_array_equal(X.iloc[:, 5:], independent.fit_transform(raw[nominal]))
    np.testing.assert_array_equal(X.iloc[:, :5], raw.drop(columns=nominal))
