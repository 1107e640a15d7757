import gzip
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from skleak.datasets import fetch_pendigits

X_NAMES = [f"x_{k}" for k in range(32)]
Y_NAMES = [f"y_{k}" for k in range(32)]
STAR = [(0, 0), (10, 30), (40, 20), (25, 60), (25, 60), (60, 10), (5, 45)]


def unipen(samples):
    """File of samples: digit, writer and strokes, which are lists of points."""
    lines = [".INCLUDE        dene.doc", "", '.LEXICON "0" "1"', ".HIERARCHY      DIGIT", ""]
    first = 0
    for digit, writer, strokes in samples:
        last = first + len(strokes) - 1
        which = f"{first}" if first == last else f"{first}-{last}"
        lines += [f'.SEGMENT DIGIT {which:>4} ? "{digit}"', f".COMMENT {digit} {writer:>2}  138"]
        for stroke in strokes:
            lines += [".PEN_DOWN", *(f" {x:>3}  {y:>3}" for x, y in stroke), ".PEN_UP", ".DT 100"]
        lines.append("")
        first = last + 1
    return "\n".join(lines).encode()


TRAIN = [
    (7, 3, [[(100, 50), (100, 150), (200, 150)], [(200, 100), (50, 100)]]),
    (1, 30, [STAR]),
    (0, 1, [[(222, 333)]]),
    (4, 3, [[(7, 7), (7, 7)], [(7, 7)]]),
    (5, 2, [[(0, 100), (310, 100)]]),
]
TEST = [(9, 14, [STAR[:3], STAR[3:]]), (8, 1, [STAR[::-1]])]


@pytest.fixture
def home(stand_in):
    stand_in("pendigits-orig.tra.gz", gzip.compress(unipen(TRAIN)))
    return stand_in("pendigits-orig.tes.gz", gzip.compress(unipen(TEST)))


@pytest.fixture
def path_of(stand_in):
    """Resampled movement, (32, 2), of one sample."""

    def fetch(strokes):
        home = stand_in("pendigits-orig.tra.gz", gzip.compress(unipen([(0, 1, strokes)])))
        row = fetch_pendigits(subset="train", data_home=home).data.iloc[0]
        return np.column_stack([row[X_NAMES], row[Y_NAMES]])

    return fetch


class TestParsing:
    def test_samples(self, home):
        bunch = fetch_pendigits(subset="train", data_home=home)
        assert bunch.target.tolist() == [7, 1, 0, 4, 5]
        assert bunch.writer.tolist() == [3, 30, 1, 3, 2]
        assert bunch.data["strokes"].tolist() == [2, 1, 1, 2, 1]
        assert bunch.data["duration"].tolist() == [5, 7, 1, 3, 2]
        assert (bunch.target.dtype, bunch.writer.dtype) == (np.int64, np.int64)

    def test_recorded_points(self, home):
        bunch = fetch_pendigits(subset="train", data_home=home)
        drawn = [point for _, _, strokes in TRAIN for stroke in strokes for point in stroke]
        np.testing.assert_array_equal(bunch.points, drawn)
        assert bunch.data["duration"].sum() == len(bunch.points)

    def test_writers_of_the_test_part(self, home):
        bunch = fetch_pendigits(subset="test", data_home=home)
        assert bunch.writer.tolist() == [44, 31]
        assert bunch.target.tolist() == [9, 8]

    def test_all_is_the_default(self, home):
        assert fetch_pendigits(data_home=home).writer.tolist() == [3, 30, 1, 3, 2, 44, 31]

    def test_all_is_train_then_test(self, home):
        parts = {
            part: fetch_pendigits(subset=part, data_home=home) for part in ("train", "test", "all")
        }
        for name in ("data", "target", "frame"):
            joined = pd.concat([parts["train"][name], parts["test"][name]], ignore_index=True)
            assert joined.equals(parts["all"][name])
        assert parts["all"].writer.tolist() == [3, 30, 1, 3, 2, 44, 31]

    def test_training_file_suffices_for_train(self, home):
        (home / "pendigits-orig.tes.gz").unlink()
        assert (
            len(fetch_pendigits(subset="train", data_home=home, download_if_missing=False).data)
            == 5
        )
        with pytest.raises(FileNotFoundError, match=r"pendigits-orig\.tes\.gz is not in"):
            fetch_pendigits(subset="all", data_home=home, download_if_missing=False)


class TestForm:
    def test_columns(self, home):
        bunch = fetch_pendigits(subset="train", data_home=home)
        block = [f"writer_{k}" for k in range(1, 45)]
        assert list(bunch.data) == bunch.feature_names
        assert bunch.feature_names == [*X_NAMES, *Y_NAMES, "strokes", "duration", *block]
        assert bunch.one_hot_blocks == {"writer": block}
        assert bunch.categorical_features == bunch.sensitive == ["writer"]
        assert bunch.target_names == [bunch.target.name] == ["digit"]
        assert set(bunch.data.dtypes) == {np.dtype(np.float64)}
        np.testing.assert_array_equal(bunch.data[block].to_numpy().nonzero()[1] + 1, bunch.writer)
        assert (bunch.data[block].sum(axis=1) == 1.0).all()

    def test_frame_is_raw(self, home):
        bunch = fetch_pendigits(subset="train", data_home=home)
        assert list(bunch.frame) == [*bunch.feature_names[:66], "writer", "digit"]
        assert bunch.frame["writer"].cat.categories.tolist() == list(range(1, 45))
        assert bunch.frame["writer"].tolist() == bunch.writer.tolist()
        assert bunch.frame["digit"].equals(bunch.target)
        one_hot = pd.get_dummies(bunch.frame.drop(columns="digit"), dtype=np.float64)
        pd.testing.assert_frame_equal(one_hot, bunch.data)

    def test_without_writers(self, home):
        bunch = fetch_pendigits(subset="train", writers=False, data_home=home)
        full = fetch_pendigits(subset="train", data_home=home)
        pd.testing.assert_frame_equal(bunch.data, full.data.iloc[:, :66])
        assert list(bunch.frame) == [*bunch.feature_names, "digit"]
        assert bunch.one_hot_blocks == {}
        assert bunch.sensitive == bunch.categorical_features == []
        assert bunch.writer.tolist() == full.writer.tolist()

    def test_tuple_and_arrays(self, home):
        bunch = fetch_pendigits(subset="train", data_home=home)
        X, y = fetch_pendigits(subset="train", data_home=home, return_X_y=True)
        assert X.equals(bunch.data)
        assert y.equals(bunch.target)
        arrays = fetch_pendigits(subset="train", data_home=home, as_frame=False)
        assert arrays.frame is None
        np.testing.assert_array_equal(arrays.data, X)
        np.testing.assert_array_equal(arrays.target, y)
        assert (arrays.data.dtype, arrays.target.dtype) == (np.float64, np.int64)
        arrays.data[0, 0] = 0.5  # writable

    def test_description(self, home):
        text = fetch_pendigits(subset="train", data_home=home).DESCR
        for word in ("Alpaydin", "CC BY 4.0", "10,992", "aspect ratio", "44 persons", "one-hot"):
            assert word in text


def walked(polygon, distance):
    """Point of a polygon at a distance from its start, step by step."""
    for a, b in pairwise(polygon):
        step = np.linalg.norm(b - a)
        if distance <= step:
            return a + (b - a) * (distance / step if step else 0.0)
        distance -= step
    return polygon[-1]


class TestMovement:
    def test_straight_line(self, path_of):
        path = path_of([[(0, 100), (3, 100), (310, 100)]])
        np.testing.assert_allclose(path[:, 0], np.arange(32) / 31, atol=1e-14)
        np.testing.assert_array_equal(path[:, 1], 0.0)

    def test_equidistant_along_the_path(self, path_of):
        polygon = np.array(STAR, float) / 60.0
        total = np.linalg.norm(np.diff(polygon, axis=0), axis=1).sum()
        expected = [walked(polygon, k / 31 * total) for k in range(32)]
        np.testing.assert_allclose(path_of([STAR]), expected, atol=1e-12)

    def test_strokes_are_joined_by_a_line(self, path_of):
        np.testing.assert_array_equal(path_of([STAR]), path_of([STAR[:2], STAR[2:3], STAR[3:]]))

    def test_no_dependence_on_other_samples(self, path_of, home):
        X = fetch_pendigits(subset="train", data_home=home).data
        for (_, _, strokes), (_, row) in zip(TRAIN, X.iterrows(), strict=True):
            alone = path_of(strokes)
            np.testing.assert_allclose(row[X_NAMES], alone[:, 0], atol=1e-12)
            np.testing.assert_allclose(row[Y_NAMES], alone[:, 1], atol=1e-12)

    def test_box(self, path_of):
        """Recorded points fill it; the shorter side starts at 0 and keeps its ratio."""
        path = path_of([[(50, 400), (50, 100), (150, 100), (150, 300)]])
        np.testing.assert_array_equal(path[[0, -1]], [[0.0, 1.0], [1 / 3, 2 / 3]])
        assert path.min() == 0.0
        assert path[:, 0].max() == 1 / 3

    @pytest.mark.parametrize("scale, shift", [(1, (7, 40)), (3, (0, 0)), (2, (300, 1))])
    def test_shift_and_scale_of_the_strokes(self, path_of, scale, shift):
        moved = [(scale * x + shift[0], scale * y + shift[1]) for x, y in STAR]
        np.testing.assert_allclose(path_of([moved]), path_of([STAR]), atol=1e-13)

    def test_turned_strokes_are_another_sample(self, path_of):
        turned = path_of([[(y, x) for x, y in STAR]])
        np.testing.assert_allclose(turned[:, ::-1], path_of([STAR]), atol=1e-12)
        assert np.abs(turned - path_of([STAR])).max() > 0.1

    @pytest.mark.parametrize(
        "strokes", [[[(222, 333)]], [[(7, 7), (7, 7)], [(7, 7)]], [[(0, 0)] * 50]]
    )
    def test_without_extent(self, path_of, strokes):
        np.testing.assert_array_equal(path_of(strokes), 0.0)

    def test_repeated_points_change_nothing(self, path_of):
        twice = [point for point in STAR for _ in range(2)]
        np.testing.assert_allclose(path_of([twice]), path_of([STAR]), atol=1e-13)

    def test_stroke_of_a_single_point(self, path_of):
        """A dot is a place that the joined path goes through."""
        path = path_of([[(0, 0), (10, 0)], [(10, 21)]])
        np.testing.assert_allclose(path[[10, 31]], [[10 / 21, 0.0], [10 / 21, 1.0]], atol=1e-12)


class TestErrors:
    def test_unknown_subset(self):
        with pytest.raises(ValueError, match="`subset` must be one of 'train', 'test', 'all'; got"):
            fetch_pendigits(subset="validation")

    def test_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"tra\.gz is not in .*uci\.edu.*orig\.tra\.Z"):
            fetch_pendigits(data_home=tmp_path, download_if_missing=False)

    def test_corrupted(self, home):
        (home / "pendigits-orig.tra.gz").write_bytes(gzip.compress(unipen(TEST)))
        with pytest.raises(ValueError, match="must hold content with SHA-256"):
            fetch_pendigits(subset="train", data_home=home)
        (home / "pendigits-orig.tra.gz").write_bytes(b"no gzip")
        with pytest.raises(ValueError, match="cannot be unpacked"):
            fetch_pendigits(subset="train", data_home=home)


@pytest.fixture(scope="module")
def real():
    try:
        return fetch_pendigits(subset="all", download_if_missing=False)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.data
class TestReal:
    def test_counts(self, real):
        assert real.data.shape == (10992, 110)
        assert set(real.writer[:7494]) == set(range(1, 31))
        assert set(real.writer[7494:]) == set(range(31, 45))
        assert np.bincount(real.writer)[1:].min() == 247
        assert np.bincount(real.writer)[1:].max() == 250

    def test_digits(self, real):
        """Counts of the source's own description."""
        train = np.bincount(real.target[:7494]).tolist()
        assert train == [780, 779, 780, 719, 780, 720, 720, 778, 719, 719]
        test = np.bincount(real.target[7494:]).tolist()
        assert test == [363, 364, 364, 336, 364, 335, 336, 364, 336, 336]

    def test_ranges(self, real):
        path = real.data[[*X_NAMES, *Y_NAMES]].to_numpy()
        assert (path.min(), path.max()) == (0.0, 1.0)
        assert np.isfinite(path).all()
        assert np.bincount(real.data["strokes"].astype(int)).tolist() == [0, 8308, 2671, 12, 1]
        assert (real.data["duration"].min(), real.data["duration"].max()) == (9, 231)

    @pytest.mark.slow
    def test_digits_are_recognisable(self, real):
        """The movement tells the digit of writers never seen: 1-nearest neighbor, 97 percent."""
        path = real.data[[*X_NAMES, *Y_NAMES]].to_numpy()
        train, test = path[:7494], path[7494:]
        distances = (train**2).sum(axis=1) - 2.0 * test @ train.T
        guesses = real.target.to_numpy()[distances.argmin(axis=1)]
        assert np.mean(guesses == real.target[7494:]) > 0.96
