import gzip

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.datasets import _tables, fetch_adult
from skleak.datasets._cache import SOURCES

TRAIN = b"""\
39, State-gov, 100, Bachelors, 13, Never-married, Sales, Not-in-family, White, Male, 0, 0, 40, Cuba, <=50K
50, Private, 300, HS-grad, 9, Married-civ-spouse, Sales, Husband, Black, Male, 10, 0, 20, Cuba, >50K
38, ?, 200, HS-grad, 9, Divorced, ?, Not-in-family, White, Male, 0, 7, 40, Cuba, <=50K
20, Private, 500, Masters, 14, Married-AF-spouse, Craft-repair, Wife, White, Female, 20, 5, 30, Peru, >50K
31, Private, 100, HS-grad, 9, Married-spouse-absent, Sales, Unmarried, White, Female, 0, 0, 30, Peru, <=50K
60, Local-gov, 100, HS-grad, 9, Separated, Sales, Unmarried, White, Female, 0, 0, 35, Cuba, <=50K

"""  # noqa: E501
TEST = b"""\
|1x3 Cross validator
25, Private, 400, HS-grad, 9, Separated, Sales, Unmarried, White, Male, 0, 0, 40, Peru, <=50K.
38, Private, 100, HS-grad, 9, Married-civ-spouse, Sales, Husband, White, Male, 30, 10, 50, Peru, >50K.
44, Private, 200, HS-grad, 9, Married-civ-spouse, Sales, Husband, White, Male, 0, 0, 40, ?, >50K.

"""  # noqa: E501


@pytest.fixture
def home(stand_in):
    stand_in("adult.data.gz", gzip.compress(TRAIN))
    return stand_in("adult.test.gz", gzip.compress(TEST))


class TestSmallRaw:
    def test_train(self, home):
        bunch = fetch_adult(data_home=home)
        assert bunch.feature_names == [*_tables.COLUMNS[:-1], "married"]
        assert list(bunch.data["age"]) == [39, 50, 20, 31, 60]
        assert list(bunch.data["married"]) == [0, 1, 1, 1, 0]
        assert list(bunch.target) == ["<=50K", ">50K", ">50K", "<=50K", "<=50K"]
        assert list(bunch.data.index) == list(range(5))
        assert list(bunch.data.select_dtypes("category")) == bunch.categorical_features
        assert list(bunch.frame) == [*bunch.feature_names, "income"]
        assert bunch.sensitive == ["married"]

    def test_comment_and_dots_of_the_test_file(self, home):
        X, y = fetch_adult(subset="test", return_X_y=True, data_home=home)
        assert list(X["age"]) == [25, 38]
        assert list(y) == ["<=50K", ">50K"]

    def test_levels_of_the_training_part(self, home):
        train, test = (fetch_adult(subset=part, data_home=home).data for part in ("train", "test"))
        assert (train.dtypes == test.dtypes).all()
        assert list(test["workclass"].cat.categories) == ["Local-gov", "Private", "State-gov"]
        assert list(test["native-country"].cat.categories) == ["Cuba", "Peru"]

    def test_all(self, home):
        bunch = fetch_adult(subset="all", data_home=home)
        assert list(bunch.data["age"]) == [39, 50, 20, 31, 60, 25, 38]
        assert list(bunch.target) == ["<=50K", ">50K", ">50K", *["<=50K"] * 3, ">50K"]
        assert list(bunch.data.index) == list(range(7))
        assert bunch.data["race"].dtype == "category"

    def test_incomplete(self, home):
        X, y = fetch_adult(complete_records=False, return_X_y=True, data_home=home)
        assert len(X) == len(y) == 6
        assert X.isna().to_numpy().sum() == 2
        assert X.loc[2, ["workclass", "occupation"]].isna().all()

    def test_training_file_suffices_for_train(self, home):
        (home / "adult.test.gz").unlink()
        assert len(fetch_adult(data_home=home, download_if_missing=False).data) == 5
        with pytest.raises(FileNotFoundError, match=r"adult\.test\.gz is not in"):
            fetch_adult(subset="test", data_home=home, download_if_missing=False)

    def test_arrays(self, home):
        X, y = fetch_adult(as_frame=False, return_X_y=True, data_home=home)
        assert (X.dtype, y.dtype) == (object, object)
        assert X[1].tolist()[:4] == [50, "Private", 300, "HS-grad"]
        assert y.tolist()[:2] == ["<=50K", ">50K"]


class TestSmallEncoded:
    NAMES = (
        *_tables.NUMERIC,
        "married",
        "workclass_Private",
        "workclass_State-gov",
        "education_HS-grad",
        "education_Masters",
        "occupation_Sales",
        "race_White",
        "sex_Male",
        "native-country_Peru",
    )

    def test_columns(self, home):
        bunch = fetch_adult(encoded=True, data_home=home)
        assert tuple(bunch.data) == self.NAMES
        assert bunch.one_hot_blocks["workclass"] == list(self.NAMES[7:9])
        assert not {"marital-status", "relationship"} & set(bunch.one_hot_blocks)
        assert set().union(*bunch.one_hot_blocks.values()) == set(self.NAMES[7:])

    def test_values(self, home):
        X, y = fetch_adult(encoded=True, return_X_y=True, data_home=home)
        expected = [[0, 0, 1, 0, 0, 1, 1, 1, 0], [1, 1, 0, 1, 0, 1, 0, 1, 0]]
        np.testing.assert_array_equal(X.iloc[:2, 6:], expected)
        np.testing.assert_allclose(X[_tables.NUMERIC].mean(), 0, atol=1e-12)
        np.testing.assert_allclose(X[_tables.NUMERIC].std(ddof=0), 1, rtol=1e-12)
        assert y.tolist() == [0, 1, 1, 0, 0]

    def test_test_part_has_training_moments(self, home):
        X, y = fetch_adult(subset="test", encoded=True, return_X_y=True, data_home=home)
        assert tuple(X) == self.NAMES
        ages = np.array([39, 50, 20, 31, 60])
        np.testing.assert_allclose(X["age"], (np.array([25, 38]) - ages.mean()) / ages.std())
        losses = np.array([0, 0, 5, 0, 0])
        np.testing.assert_allclose(X["capital-loss"], (np.array([0, 10]) - 1) / losses.std())
        assert y.tolist() == [0, 1]

    def test_all_is_train_then_test(self, home):
        parts = {
            part: fetch_adult(subset=part, encoded=True, data_home=home).frame
            for part in ("train", "test", "all")
        }
        joined = pd.concat([parts["train"], parts["test"]], ignore_index=True)
        pd.testing.assert_frame_equal(parts["all"], joined)

    def test_arrays(self, home):
        X, y = fetch_adult(encoded=True, as_frame=False, return_X_y=True, data_home=home)
        assert (X.dtype, y.dtype) == (np.float64, np.int64)
        assert X.shape == (5, len(self.NAMES))

    def test_incomplete_records_are_refused(self, home):
        with pytest.raises(ValueError, match="`encoded` needs `complete_records=True`; got False"):
            fetch_adult(encoded=True, complete_records=False, data_home=home)


def test_unknown_subset():
    with pytest.raises(ValueError, match="`subset` must be one of 'train', 'test', 'all'; got 'v"):
        fetch_adult(subset="validation")


def test_missing(tmp_path, network):
    with pytest.raises(FileNotFoundError, match=r"adult\.data\.gz is not in .* as adult\.data,"):
        fetch_adult(data_home=tmp_path)
    assert network.asked[0][0] == SOURCES["adult.data.gz"].url


def test_description(home):
    text = fetch_adult(data_home=home).DESCR
    for word in ("CC BY 4.0", "uci.edu", "married", "relationship dropped", "training part"):
        assert word in text


@pytest.mark.data
class TestReal:
    @pytest.mark.slow
    def test_counts(self, adult):
        assert adult.X_train.shape == (30162, 86)
        assert adult.X_test.shape == (15060, 86)
        assert list(adult.X_train) == list(adult.X_test)
        for subset, n_records, n_complete in [("train", 32561, 30162), ("test", 16281, 15060)]:
            X = fetch_adult(subset=subset, complete_records=False, download_if_missing=False).data
            assert len(X) == n_records
            assert X.notna().all(axis=1).sum() == n_complete

    @pytest.mark.slow
    def test_against_scikit_learn(self, adult):
        raw = fetch_adult(download_if_missing=False).data
        raw_test = fetch_adult(subset="test", download_if_missing=False).data
        nominal = list(fetch_adult(download_if_missing=False).one_hot_blocks)
        scaler = StandardScaler().fit(raw[_tables.NUMERIC])
        encoder = OneHotEncoder(drop="first", sparse_output=False).fit(raw[nominal])
        for source, X in [(raw, adult.X_train), (raw_test, adult.X_test)]:
            expected = scaler.transform(source[_tables.NUMERIC])
            np.testing.assert_allclose(X.iloc[:, :6], expected, atol=1e-10)
            np.testing.assert_array_equal(X["married"], source["married"])
            np.testing.assert_array_equal(X.iloc[:, 7:], encoder.transform(source[nominal]))

    def test_targets(self, adult):
        assert adult.y_train.sum() == 7508
        assert adult.y_test.sum() == 3700
        assert set(adult.y_train) == {0, 1}
