import gzip
from dataclasses import replace

import numpy as np
import pytest

from skleak.datasets import _unix_compress
from skleak.datasets._cache import SourceFile, content_hash
from skleak.datasets._unix_compress import load_unix_compressed, uncompress

CLEAR = 256


def compress(content, most_bits=16, clear_every=None):
    """Greedy LZW from the description of the format; forgets its words after so many codes."""
    data = bytearray([0x1F, 0x9D, 0x80 | most_bits])
    group, bits = [], 9

    def flush():
        number = sum(code << (bits * k) for k, code in enumerate(group))
        data.extend(number.to_bytes(bits, "little"))
        group.clear()

    def put(code):
        group.append(code)
        if len(group) == 8:
            flush()

    words, n_words, written, position = {}, CLEAR + 1, 0, 0
    while position < len(content):
        end = position + 1
        while end < len(content) and content[position : end + 1] in words:
            end += 1
        word = content[position:end]
        put(words.get(word, word[0]))
        written, position = written + 1, end
        if n_words < 1 << most_bits and end < len(content):
            words[content[position - len(word) : end + 1]] = n_words
            n_words += 1
        # A word enters the reader's table one code after it enters the writer's.
        if n_words > 1 << bits and bits < most_bits:
            if group:
                flush()
            bits += 1
        if clear_every and written % clear_every == 0:
            put(CLEAR)
            if group:
                flush()
            words, n_words, bits = {}, CLEAR + 1, 9
    if group:
        used = -(-len(group) * bits // 8)
        before = len(data)
        flush()
        del data[before + used :]
    return bytes(data)


class TestUncompress:
    @pytest.mark.parametrize("most_bits", [9, 10, 12, 16])
    @pytest.mark.parametrize("clear_every", [None, 1, 7, 8, 1000])
    def test_round_trip(self, rng, most_bits, clear_every):
        letters = rng.choice([*b"0123456789 \n"], 30_000, p=[0.3, *[0.07] * 10, 0.0])
        content = letters.astype(np.uint8).tobytes() + rng.bytes(3_000)
        assert uncompress(compress(content, most_bits, clear_every)) == content

    @pytest.mark.parametrize("content", [b"", b"a", b"aaaaaaaaaa", b"abababab", bytes(5000)])
    def test_short_and_repetitive(self, content):
        assert uncompress(compress(content)) == content

    @pytest.mark.parametrize(
        "raw, content",
        # Written by the program `compress` 4.2.4.
        [("1f9d90", b""), ("1f9d9061c40404", b"abab"), ("1f9d9061020a1c1806", b"a" * 11)],
    )
    def test_of_the_original_program(self, raw, content):
        assert uncompress(bytes.fromhex(raw)) == content

    @pytest.mark.parametrize(
        "raw",
        [b"", b"\x1f\x9d", b"\x1f\x8b\x90", b"\x1f\x9d\x10", b"\x1f\x9d\x88", b"\x1f\x9d\x91"],
    )
    def test_other_files(self, raw):
        with pytest.raises(ValueError, match="must start with 1f 9d"):
            uncompress(raw)

    @pytest.mark.parametrize("codes", [[257], [97, 258], [97, CLEAR + 2]])
    def test_damaged(self, codes):
        number = sum(code << (9 * k) for k, code in enumerate(codes))
        with pytest.raises(ValueError, match=f"words that it has built; got code {codes[-1]}"):
            uncompress(b"\x1f\x9d\x90" + number.to_bytes(9, "little"))


@pytest.fixture
def source():
    return SourceFile("a.gz", "https://example.org/a.Z", content_hash(b"abab"))


class TestLoad:
    def test_local_file(self, source, tmp_path, network):
        (tmp_path / "a.gz").write_bytes(gzip.compress(b"abab"))
        assert load_unix_compressed(source, tmp_path) == b"abab"
        assert not network.asked

    def test_download_is_stored_with_gzip(self, source, tmp_path, network, monkeypatch):
        monkeypatch.setattr(_unix_compress, "urlopen", network)
        network.pages[source.url] = compress(b"abab")
        for _ in range(2):
            assert load_unix_compressed(source, tmp_path) == b"abab"
        assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"abab"
        assert len(network.asked) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]

    def test_missing(self, source, tmp_path, network, monkeypatch):
        monkeypatch.setattr(_unix_compress, "urlopen", network)
        with pytest.raises(FileNotFoundError, match=r"could not be downloaded.*`gzip -d`.* a\.gz"):
            load_unix_compressed(source, tmp_path)
        with pytest.raises(FileNotFoundError, match=r"`download_if_missing` is False. Get https"):
            load_unix_compressed(source, tmp_path, download_if_missing=False)
        assert len(network.asked) == 1

    @pytest.mark.parametrize(
        "page, got", [(compress(b"else"), "got [0-9a-f]{64}"), (b"<html>", "cannot be unpacked")]
    )
    def test_other_content_is_not_stored(self, source, tmp_path, network, monkeypatch, page, got):
        monkeypatch.setattr(_unix_compress, "urlopen", network)
        network.pages[source.url] = page
        with pytest.raises(ValueError, match=f"{got}.*nothing was stored"):
            load_unix_compressed(source, tmp_path)
        assert not list(tmp_path.iterdir())

    def test_corrupted_local_file(self, source, tmp_path):
        (tmp_path / "a.gz").write_bytes(gzip.compress(b"abab"))
        with pytest.raises(ValueError, match="must hold content with SHA-256 000"):
            load_unix_compressed(replace(source, sha256="000"), tmp_path)
