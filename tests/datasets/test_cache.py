import gzip
import hashlib
import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from requests.exceptions import ChunkedEncodingError, ConnectTimeout

from skleak.datasets._cache import SOURCES, SourceFile, content_hash, get_data_home, load_file

TEXT = b"race,dose\nwhite,1.5\nasian,0.5\n"
PLAIN = SourceFile("plain.csv", "https://example.org/plain.csv", hashlib.sha256(TEXT).hexdigest())
ZIPPED = SourceFile("plain.gz", "https://example.org/plain", hashlib.sha256(TEXT).hexdigest())


def npz(save=np.savez_compressed, **arrays):
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


# What the program `compress` 4.2.4 makes of "abab".
OLD, OLD_PAGE = b"abab", bytes.fromhex("1f9d9061c40404")
UNIX = SourceFile("old.gz", "https://example.org/old.Z", hashlib.sha256(OLD).hexdigest())
needs_gzip = pytest.mark.skipif(shutil.which("gzip") is None, reason="needs the program gzip")


ARRAYS = {"x": np.arange(12, dtype=np.uint8).reshape(3, 4), "a": np.array([7, 9], np.uint8)}
BYTES = bytes([7, 9, *range(12)])  # the arrays in the order of their names
ARCHIVE = SourceFile("x.npz", "https://example.org/x.npz", hashlib.sha256(BYTES).hexdigest())


class TestDataHome:
    def test_argument_before_variable_before_home(self, monkeypatch):
        monkeypatch.setenv("HOME", "/nobody")
        monkeypatch.setenv("SKLEAK_DATA", "~/elsewhere")
        assert get_data_home("here") == Path("here")
        assert get_data_home(Path("~/here")) == Path("/nobody/here")
        assert get_data_home() == Path("/nobody/elsewhere")
        monkeypatch.delenv("SKLEAK_DATA")
        assert get_data_home() == Path("/nobody/skleak_data")

    def test_empty_variable_is_unset(self, monkeypatch):
        monkeypatch.setenv("HOME", "/nobody")
        monkeypatch.setenv("SKLEAK_DATA", "")
        assert get_data_home() == Path("/nobody/skleak_data")

    def test_wrong_type(self):
        with pytest.raises(TypeError, match="`data_home` must be None, a string or a path; got in"):
            get_data_home(3)

    def test_variable_is_used(self, monkeypatch, tmp_path):
        (tmp_path / "plain.csv").write_bytes(TEXT)
        monkeypatch.setenv("SKLEAK_DATA", str(tmp_path))
        assert load_file(PLAIN) == TEXT


class TestLocalFile:
    def test_plain(self, tmp_path, network):
        (tmp_path / "plain.csv").write_bytes(TEXT)
        assert load_file(PLAIN, tmp_path) == TEXT
        assert not network.asked

    @pytest.mark.parametrize("level, mtime", [(1, 0), (9, 12345)])
    def test_gzip_header_and_level_do_not_matter(self, tmp_path, level, mtime):
        (tmp_path / "plain.gz").write_bytes(gzip.compress(TEXT, level, mtime=mtime))
        assert load_file(ZIPPED, tmp_path) == TEXT

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_npz_container_does_not_matter(self, tmp_path, save):
        (tmp_path / "x.npz").write_bytes(npz(save, **ARRAYS))
        loaded = load_file(ARCHIVE, tmp_path)
        assert loaded.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(loaded[name], array)

    @pytest.mark.parametrize("name", ["old.gz", "old.Z", "old"])
    @needs_gzip
    def test_a_file_of_old_may_be_packed_in_any_way(self, tmp_path, network, name):
        packed = {"old.gz": gzip.compress(OLD), "old.Z": OLD_PAGE, "old": OLD}
        (tmp_path / name).write_bytes(packed[name])
        assert load_file(UNIX, tmp_path) == OLD
        assert not network.asked

    def test_wrong_content(self, tmp_path, network):
        (tmp_path / "plain.csv").write_bytes(TEXT + b" ")
        with pytest.raises(ValueError) as caught:
            load_file(PLAIN, tmp_path)
        message = str(caught.value)
        assert str(tmp_path / "plain.csv") in message
        assert f"SHA-256 {PLAIN.sha256}; got {content_hash(TEXT + b' ')}" in message
        assert f"Delete the file to download it again from {PLAIN.url}" in message
        assert not network.asked
        assert (tmp_path / "plain.csv").exists()

    def test_wrong_array(self, tmp_path):
        (tmp_path / "x.npz").write_bytes(npz(**ARRAYS | {"a": np.array([7, 8], np.uint8)}))
        with pytest.raises(ValueError, match=f"must hold content with SHA-256 {ARCHIVE.sha256}"):
            load_file(ARCHIVE, tmp_path)

    @pytest.mark.parametrize(
        "source, raw",
        [
            (ZIPPED, TEXT),
            (ZIPPED, gzip.compress(TEXT)[:-9]),
            (ARCHIVE, TEXT),
            (ARCHIVE, npz(**ARRAYS)[:-30]),
            (ARCHIVE, npz(np.savez, **ARRAYS).replace(b"\x07\x09", b"\x07\x08")),
        ],
        ids=["no gzip", "cut gzip", "no zip", "cut zip", "corrupt zip"],
    )
    def test_cannot_be_unpacked(self, tmp_path, source, raw):
        (tmp_path / source.name).write_bytes(raw)
        with pytest.raises(ValueError, match=r"SHA-256 .* cannot be unpacked") as caught:
            load_file(source, tmp_path)
        assert source.sha256 in str(caught.value)
        assert "Delete the file" in str(caught.value)

    def test_pickled_code_is_not_run(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "sprung"),)

        (tmp_path / "x.npz").write_bytes(npz(x=np.array([Trap()], object)))
        with pytest.raises(ValueError, match=r"cannot be unpacked \(Object arrays cannot"):
            load_file(ARCHIVE, tmp_path)
        assert not (tmp_path / "sprung").exists()


class TestDownload:
    def test_stored_once(self, tmp_path, network):
        home = tmp_path / "new" / "folder"
        network.pages[PLAIN.url] = TEXT
        assert load_file(PLAIN, home) == TEXT
        assert [path.name for path in home.iterdir()] == ["plain.csv"]
        assert (home / "plain.csv").read_bytes() == TEXT
        assert load_file(PLAIN, home) == TEXT
        assert len(network.asked) == 1
        assert 0 < network.asked[0][1] <= 120

    def test_stays_as_it_was_downloaded(self, tmp_path, network):
        network.pages[ZIPPED.url] = TEXT
        for _ in range(2):
            assert load_file(ZIPPED, tmp_path) == TEXT
        assert (tmp_path / "plain").read_bytes() == TEXT
        assert len(network.asked) == 1

    @needs_gzip
    def test_file_of_old(self, tmp_path, network):
        network.pages[UNIX.url] = OLD_PAGE
        for _ in range(2):
            assert load_file(UNIX, tmp_path) == OLD
        assert (tmp_path / "old.Z").read_bytes() == OLD_PAGE
        assert len(network.asked) == 1

    def test_file_of_old_without_gzip(self, tmp_path, network, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda program: None)
        network.pages[UNIX.url] = OLD_PAGE
        with pytest.raises(ValueError, match=r"takes the program `gzip`.*put it there as old"):
            load_file(UNIX, tmp_path)

    def test_archive(self, tmp_path, network):
        network.pages[ARCHIVE.url] = npz(**ARRAYS)
        np.testing.assert_array_equal(load_file(ARCHIVE, tmp_path)["x"], ARRAYS["x"])
        assert (tmp_path / "x.npz").read_bytes() == npz(**ARRAYS)

    @pytest.mark.parametrize(
        "source", [PLAIN, ZIPPED, UNIX, ARCHIVE], ids=lambda source: source.name
    )
    def test_wrong_content_is_not_stored(self, tmp_path, network, source):
        network.pages[source.url] = b"<html>Please log in</html>"
        with pytest.raises(ValueError) as caught:
            load_file(source, tmp_path)
        message = str(caught.value)
        assert f" must hold content with SHA-256 {source.sha256}; got " in message
        assert source.url in message
        assert f"{source.name} is not in {tmp_path} and nothing was stored" in message
        assert "SKLEAK_DATA" in message
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "failure",
        [ConnectionError("no route"), ConnectTimeout("timed out"), ChunkedEncodingError("cut")],
        ids=lambda failure: type(failure).__name__,
    )
    def test_no_network(self, tmp_path, network, failure):
        network.pages[ZIPPED.url] = failure
        with pytest.raises(FileNotFoundError) as caught:
            load_file(ZIPPED, tmp_path)
        message = str(caught.value)
        assert f"plain.gz is not in {tmp_path} and it could not be downloaded" in message
        assert type(failure).__name__ in message
        assert f"Get {ZIPPED.url} and put it there as plain" in message
        assert "`data_home` or the environment variable SKLEAK_DATA" in message
        assert caught.value.__cause__ is failure
        assert not list(tmp_path.iterdir())

    def test_not_wanted(self, tmp_path, network):
        with pytest.raises(FileNotFoundError, match=r"plain.csv is not in .* is False\. Get http"):
            load_file(PLAIN, tmp_path, download_if_missing=False)
        assert not network.asked

    def test_folder_that_cannot_be_made(self, tmp_path, network):
        network.pages[PLAIN.url] = TEXT
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(FileNotFoundError, match=r"could not be downloaded .*file"):
            load_file(PLAIN, tmp_path / "file")

    def test_interrupted_writing_leaves_nothing(self, tmp_path, network, monkeypatch):
        def full(source, target):
            raise OSError("disk full")

        network.pages[PLAIN.url] = TEXT
        monkeypatch.setattr(shutil, "move", full)
        with pytest.raises(FileNotFoundError, match="disk full"):
            load_file(PLAIN, tmp_path)
        assert not list(tmp_path.iterdir())


class TestPacked:
    """Where only the hash of a file as it stands at the source is known."""

    @staticmethod
    def source(raw):
        url = "https://example.org/plain.gz"
        return SourceFile("folder/plain.gz", url, hashlib.sha256(raw).hexdigest(), packed=True)

    def test_downloaded_into_its_folder(self, tmp_path, network):
        raw = gzip.compress(TEXT, mtime=0)
        network.pages["https://example.org/plain.gz"] = raw
        (tmp_path / "plain.gz").write_bytes(b"that of another data set")
        for _ in range(2):
            assert load_file(self.source(raw), tmp_path) == TEXT
        assert (tmp_path / "folder" / "plain.gz").read_bytes() == raw
        assert len(network.asked) == 1

    def test_other_container_of_the_same_content_is_refused(self, tmp_path):
        source = self.source(gzip.compress(TEXT, mtime=0))
        (tmp_path / "folder").mkdir()
        (tmp_path / source.name).write_bytes(gzip.compress(TEXT, mtime=1))
        with pytest.raises(ValueError, match=f"must be the file with SHA-256 {source.sha256}; got"):
            load_file(source, tmp_path)


def test_sources():
    names = {"iwpc-scaled.csv", "adult.data.gz", "adult.test.gz", "mnist.npz"}
    names |= {"pendigits-orig.tra.gz", "pendigits-orig.tes.gz", "cifar-10-binary.tar.gz"}
    fashion = {name for name in SOURCES if name.startswith("fashion-mnist/")}
    assert len(fashion) == 4
    assert set(SOURCES) == names | fashion
    assert all(source.url.startswith("https://") for source in SOURCES.values())
    assert all(len(bytes.fromhex(source.sha256)) == 32 for source in SOURCES.values())
    packed = {name for name, source in SOURCES.items() if source.packed}
    assert packed == {"cifar-10-binary.tar.gz", *fashion}
