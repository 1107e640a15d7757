"""Names that went say what replaces them."""

import importlib
import re
from pathlib import Path

import pytest

from skleak.utils import gone

PAGE = Path(__file__).parents[1] / "docs" / "migration.md"
GONE = gone()
NAMES = [(package, name) for package, names in GONE.items() for name in names]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_an_import_says_what_replaces_a_name(package, name):
    instead = GONE[package][name]
    with pytest.raises(ImportError, match=re.escape(f"`{package}.{name}` is gone: {instead}.")):
        exec(f"from {package} import {name}")
    assert f"| `{package}.{name}` | {instead} |\n" in PAGE.read_text()


@pytest.mark.parametrize("package", GONE)
def test_other_names_are_misspelled(package):
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing
    assert not hasattr(importlib.import_module(package), "__wrapped__")
