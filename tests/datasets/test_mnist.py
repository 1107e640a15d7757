import io

import numpy as np
import pytest

from skleak.datasets import fetch_mnist
from skleak.datasets._cache import SOURCES


@pytest.fixture
def arrays(rng):
    """Blurred noise, so that its principal axes are well apart; five digits, in no order."""
    shapes = {"train": 150, "test": 40}
    images = {}
    for part, n_images in shapes.items():
        scale = np.geomspace(1, 0.01, 784)[rng.permutation(784)]
        pixels = 255 * rng.random((n_images, 784)) * scale
        images[f"x_{part}"] = pixels.reshape(n_images, 28, 28).astype(np.uint8)
        images[f"y_{part}"] = rng.integers(0, 5, n_images).astype(np.uint8)
    return images


@pytest.fixture
def home(stand_in, arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return stand_in("mnist.npz", buffer.getvalue())


class TestSmall:
    @pytest.mark.parametrize("classes", [(0, 1), [3, 1], np.array([4]), {0, 2, 4}, iter([1, 2])])
    def test_classes(self, home, arrays, classes):
        wanted = list(classes) if not hasattr(classes, "__next__") else [1, 2]
        X, y = fetch_mnist(classes, data_home=home, return_X_y=True)
        keep = [i for i, label in enumerate(arrays["y_train"]) if label in wanted]
        np.testing.assert_array_equal(y, arrays["y_train"][keep])
        np.testing.assert_array_equal(X, arrays["x_train"][keep].reshape(-1, 784) / 255)
        assert (X.dtype, y.dtype) == (np.float64, np.int64)

    def test_defaults(self, home):
        bunch = fetch_mnist(data_home=home)
        assert set(bunch.target) == {0, 1}
        assert bunch.frame is None
        assert bunch.feature_names[::783] == ["pixel0", "pixel783"]
        assert bunch.target_names == ["digit"]
        np.testing.assert_array_equal(bunch.data, fetch_mnist((0, 1), data_home=home).data)

    def test_subsets(self, home, arrays):
        parts = {
            part: fetch_mnist(None, subset=part, data_home=home, return_X_y=True)
            for part in ("train", "test", "all")
        }
        for position in (0, 1):
            joined = np.concatenate([parts["train"][position], parts["test"][position]])
            np.testing.assert_array_equal(parts["all"][position], joined)
        np.testing.assert_array_equal(parts["test"][1], arrays["y_test"])

    def test_frame(self, home):
        bunch = fetch_mnist(as_frame=True, preprocessing="pca20", data_home=home)
        assert list(bunch.frame) == [*(f"component{j}" for j in range(20)), "digit"]
        arrays = fetch_mnist(preprocessing="pca20", data_home=home, return_X_y=True)
        np.testing.assert_array_equal(bunch.data, arrays[0])
        np.testing.assert_array_equal(bunch.target, arrays[1])

    def test_description(self, home):
        text = fetch_mnist(data_home=home).DESCR
        for word in ("LeCun", "CC BY-SA 3.0", "unit_interval", "pca20", "[FIL21]"):
            assert word in text

    def test_principal_components_by_svd(self, home, arrays):
        keep = np.isin(arrays["y_train"], [0, 1, 2])
        train = arrays["x_train"][keep].reshape(-1, 784) / 255
        norm = np.linalg.norm(train, axis=1).max()
        mean = train.mean(axis=0) / norm
        axes = np.linalg.svd(train / norm - mean, full_matrices=False)[2][:20]
        largest = axes[np.arange(20), np.abs(axes).argmax(axis=1)]
        axes *= np.sign(largest)[:, None]
        for subset in ("train", "test"):
            X = fetch_mnist(
                (0, 1, 2), subset=subset, preprocessing="pca20", data_home=home, return_X_y=True
            )[0]
            part = np.isin(arrays[f"y_{subset}"], [0, 1, 2])
            pixels = arrays[f"x_{subset}"][part].reshape(-1, 784) / 255
            np.testing.assert_allclose(X, (pixels / norm - mean) @ axes.T, atol=1e-9)


@pytest.mark.parametrize("classes", [3, 1.5])
def test_classes_must_be_iterable(classes):
    with pytest.raises(TypeError, match="`classes` must be None or an iterable of distinct digits"):
        fetch_mnist(classes)


@pytest.mark.parametrize("classes, entry", [("01", "'0'"), ([0, 1.0], "1.0"), ([True], "True")])
def test_classes_must_be_integers(classes, entry):
    with pytest.raises(TypeError, match=f"got the entry {entry}. Pass for instance"):
        fetch_mnist(classes)


@pytest.mark.parametrize("classes", [[], [0, 0], [-1, 1], [0, 10]])
def test_classes_must_be_distinct_digits(classes):
    with pytest.raises(ValueError, match=r"distinct digits 0 to 9; got .*Pass for instance"):
        fetch_mnist(classes)


def test_unknown_options():
    with pytest.raises(ValueError, match="`subset` must be one of 'train', 'test', 'all'; got 'x'"):
        fetch_mnist(subset="x")
    with pytest.raises(ValueError, match="`preprocessing` must be one of 'unit_interval', 'pca20'"):
        fetch_mnist(preprocessing="pca")


def test_missing(tmp_path, network):
    with pytest.raises(FileNotFoundError, match=r"mnist\.npz is not in .*tf-keras-datasets"):
        fetch_mnist(data_home=tmp_path)
    assert network.asked[0][0] == SOURCES["mnist.npz"].url


@pytest.mark.data
@pytest.mark.slow
class TestReal:
    def test_counts(self, mnist01):
        assert mnist01.X_train.shape == (12665, 20)
        assert mnist01.X_test.shape == (2115, 20)
        assert set(mnist01.y_train) == set(mnist01.y_test) == {0, 1}

    def test_ten_digits(self, mnist01):  # the fixture skips where the file is absent
        counts = np.bincount(fetch_mnist(None, subset="test", download_if_missing=False).target)
        assert counts.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]

    def test_principal_components(self, mnist01):
        X = mnist01.X_train
        np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
        covariance = np.cov(X.T)
        variances = np.diag(covariance)
        np.testing.assert_allclose(covariance, np.diag(variances), atol=1e-12)
        assert (np.diff(variances) < 0).all()

    def test_leakage_of_a_linear_model_as_published(self, mnist01):
        """[FIL21] table 1: least squares on -1/+1, no intercept: mean eta 0.040 +- 0.014."""
        X, target = mnist01.X_train, 2.0 * mnist01.y_train - 1.0
        A = np.linalg.inv(X.T @ X)
        w = A @ X.T @ target
        inner = X[:, :, None] * w + (X @ w - target)[:, None, None] * np.eye(20)
        eta = np.linalg.norm(A @ np.concatenate([inner, -X[:, :, None]], axis=2), 2, axis=(1, 2))
        assert round(eta.mean(), 3) == 0.040
        assert round(eta.std(), 3) == 0.014
        accuracy = np.mean((mnist01.X_test @ w > 0) == mnist01.y_test)
        assert accuracy > 0.9995
