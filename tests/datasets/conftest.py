"""Small files that stand in for the real ones, and a network that is never reached by accident."""

from dataclasses import replace
from pathlib import Path

import pooch
import pytest

from skleak.datasets import _cache
from skleak.datasets._cache import content_hash


class Network:
    """Serves bytes by address, raises what it is told to, and records what was asked of it."""

    def __init__(self):
        self.pages = {}
        self.asked = []

    def downloader(self, timeout):
        def download(url, output_file, pooch):
            self.asked.append((url, timeout))
            page = self.pages.get(url, OSError(f"unexpected request of {url}"))
            if isinstance(page, Exception):
                raise page
            Path(output_file).write_bytes(page)

        return download


@pytest.fixture(autouse=True)
def network(monkeypatch):
    fake = Network()
    monkeypatch.setattr(pooch, "HTTPDownloader", fake.downloader)
    return fake


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Put a file into a data home and make the fetchers expect its content."""

    def put(name, raw):
        source = _cache.SOURCES[name]
        content = raw if source.packed else _cache._unpack(source.name, raw)
        fake = replace(source, sha256=content_hash(content))
        monkeypatch.setitem(_cache.SOURCES, name, fake)
        (tmp_path / source.name).parent.mkdir(exist_ok=True)
        (tmp_path / source.name).write_bytes(raw)
        return tmp_path

    return put
