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
    """Put a file into a data home and make a module expect its content."""

    def put(module, constant, raw):
        source = getattr(module, constant)
        content = raw if source.packed else _cache._unpack(source.name, raw)
        monkeypatch.setattr(module, constant, replace(source, sha256=content_hash(content)))
        (tmp_path / source.name).parent.mkdir(exist_ok=True)
        (tmp_path / source.name).write_bytes(raw)
        return tmp_path

    return put
