"""Without torch the game is there, and says what it needs."""

import sys

import pytest

from skleak.neural import CanaryExtraction, causal_transformer


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"skleak\[torch\]"):
        CanaryExtraction().fit([1])
    with pytest.raises(ImportError, match=r"skleak\[torch\]"):
        causal_transformer(10)
