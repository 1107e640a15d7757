"""Facts of reports, audits and releases are those that are kept (see ``cases.py``)."""

import json

import numpy as np
import pytest
from golden.cases import FOLDER, cases, compute, versions

KEPT = {file: json.loads((FOLDER / f"{file}.json").read_text()) for file in cases()}
# Other versions of SciPy end their searches a little elsewhere.
SAME = versions() == json.loads((FOLDER / "versions.json").read_text())
# What differs by less is the rounding of a zero.
ROUND_OFF = 1e-12


def _tolerance(file, name):
    """Attacks on numbers and whole records are searches: processors end them a little elsewhere."""
    searches = file == "audit_attribute" and name.split(", ")[1] in ("age", "None")
    return 1e-10 if SAME and not searches else 1e-5


def _differs(found, kept, tolerance):
    numbers = [
        np.array(value, dtype=float, ndmin=1) if _is_number(value) else np.array([])
        for value in (found, kept)
    ]
    if not (numbers[0].size and numbers[0].shape == numbers[1].shape):
        return found != kept
    scale = np.nanmax(np.abs(np.where(np.isfinite(numbers[1]), numbers[1], 0.0)), initial=0.0)
    return not np.allclose(
        *numbers, rtol=tolerance, atol=tolerance * scale + ROUND_OFF, equal_nan=True
    )


def _is_number(value):
    if isinstance(value, list):
        return bool(value) and all(_is_number(part) or part is None for part in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cases():
    """All cases; what takes seconds is slow, but for one audit."""
    for file, kept in KEPT.items():
        for name in kept:
            long = file.startswith(("audit_attribute", "sgd")) or "dask" in name
            marks = pytest.mark.slow if long and name != "squared, sex, None" else ()
            yield pytest.param(file, name, marks=marks)


@pytest.mark.parametrize("file, name", list(_cases()))
def test_the_facts_are_those_kept(file, name):
    found, kept = compute(cases()[file][name]), KEPT[file][name]
    assert found.keys() == kept.keys()
    limit = _tolerance(file, name)
    changed = {k: (kept[k], found[k]) for k in kept if _differs(found[k], kept[k], limit)}
    assert not changed, f"kept and found: {changed}"


def test_every_case_is_kept():
    assert {file: list(group) for file, group in cases().items()} == {
        file: list(group) for file, group in KEPT.items()
    }
