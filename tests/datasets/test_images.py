"""Fashion-MNIST and CIFAR-10, from small files in the formats of the real ones."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest

from skleak.datasets import fetch_cifar10, fetch_fashion_mnist


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.tobytes(), mtime=0)


@pytest.fixture
def fashion(stand_in, rng):
    """Two parts of small images, and the data home that holds them."""
    arrays = {}
    for part, name, n_images in (("train", "train", 30), ("test", "t10k", 12)):
        images = rng.integers(0, 256, (n_images, 28, 28)).astype(np.uint8)
        labels = rng.integers(0, 10, n_images).astype(np.uint8)
        home = stand_in(f"fashion-mnist/{name}-images-idx3-ubyte.gz", idx(images))
        stand_in(f"fashion-mnist/{name}-labels-idx1-ubyte.gz", idx(labels))
        arrays[part] = images.reshape(n_images, -1) / 255, labels
    return home, arrays


@pytest.fixture
def cifar(stand_in, rng):
    arrays, buffer = {"train": [], "test": []}, io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        folder = tarfile.TarInfo("cifar-10-batches-bin")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        # Not in the order of the batches; beside them lie texts.
        for name in ["readme.html", "data_batch_5.bin", "test_batch.bin"] + [
            f"data_batch_{k}.bin" for k in (2, 1, 4, 3)
        ]:
            records = rng.integers(0, 256, (6, 3073)).astype(np.uint8)
            records[:, 0] = rng.integers(0, 10, 6)
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = records.nbytes
            archive.addfile(info, io.BytesIO(records.tobytes()))
            arrays["test" if name.startswith("test") else "train"].append((name, records))
    stacked = {}
    for part, batches in arrays.items():
        records = np.concatenate([each for name, each in sorted(batches) if "batch" in name])
        stacked[part] = records[:, 1:] / 255, records[:, 0]
    return stand_in("cifar-10-binary.tar.gz", buffer.getvalue()), stacked


@pytest.mark.parametrize(
    "fetch, small", [(fetch_fashion_mnist, "fashion"), (fetch_cifar10, "cifar")]
)
class TestSmall:
    def test_parts_and_classes(self, fetch, small, request):
        home, arrays = request.getfixturevalue(small)
        for part in ("train", "test"):
            X, y = fetch(subset=part, data_home=home, return_X_y=True)
            np.testing.assert_array_equal(X, arrays[part][0])
            np.testing.assert_array_equal(y, arrays[part][1])
            assert (X.dtype, y.dtype) == (np.float64, np.int64)
        everything = fetch(subset="all", data_home=home)
        joined = np.concatenate([arrays["train"][1], arrays["test"][1]])
        np.testing.assert_array_equal(everything.target, joined)
        some = fetch((1, 7, 4), subset="all", data_home=home)
        keep = np.isin(joined, [1, 4, 7])
        np.testing.assert_array_equal(some.data, everything.data[keep])
        np.testing.assert_array_equal(some.target, joined[keep])

    def test_frame_and_facts(self, fetch, small, request):
        home, arrays = request.getfixturevalue(small)
        bunch = fetch(as_frame=True, data_home=home)
        assert list(bunch.frame) == [*bunch.feature_names, "class"]
        np.testing.assert_array_equal(bunch.data, arrays["train"][0])
        assert len(set(bunch.class_names)) == 10
        assert "Source: https://" in bunch.DESCR
        assert "License: " in bunch.DESCR

    def test_wrong_file(self, fetch, small, request):
        home, _ = request.getfixturevalue(small)
        for path in home.rglob("*.gz"):
            path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(ValueError, match=r"must be the file with SHA-256 .*Delete the file"):
            fetch(data_home=home)

    def test_options(self, fetch, small):
        with pytest.raises(
            TypeError, match="`classes` must be None or an iterable of distinct cla"
        ):
            fetch(3)
        with pytest.raises(ValueError, match="classes 0 to 9; got"):
            fetch([0, 10])
        with pytest.raises(ValueError, match="`subset` must be one of 'train', 'test', 'all'"):
            fetch(subset="x")

    def test_missing(self, fetch, small, tmp_path, network):
        with pytest.raises(FileNotFoundError, match=r"is not in .*could not be downloaded"):
            fetch(data_home=tmp_path)
        assert len(network.asked) == 1


def test_channels_come_first(cifar):
    home, arrays = cifar
    bunch = fetch_cifar10(data_home=home)
    image = bunch.data.reshape(-1, 3, 32, 32)[4]
    position = bunch.feature_names.index("green33")  # second row, second column
    assert image[1, 1, 1] == arrays["train"][0][4, position]


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("fetch", [fetch_fashion_mnist, fetch_cifar10])
def test_real(fetch):
    try:
        y = fetch(subset="test", download_if_missing=False).target
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert np.bincount(y).tolist() == [1000] * 10
