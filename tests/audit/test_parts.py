"""What a game is made from is shown while it comes, and kept: interrupted, it goes on."""

import stat

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from skleak.adversary import hypotheses as _refits
from skleak.audit import LeakageAuditor, _run
from skleak.audit._run import Checkpoint
from skleak.exceptions import CheckpointWarning
from skleak.influence.refit import _candidates
from skleak.influence.refit import _candidates as _reweighted
from skleak.linear_model import PrivateLogisticRegression

# Each computes its encodings in blocks by one function, which is called for every block.
CASES = {
    "closed form": (PrivateLogisticRegression(alpha=0.01), _candidates, "encoded"),
    "reweighted": (
        PrivateLogisticRegression(alpha=0.1, reweighting="irfil"),
        _reweighted,
        "_settle",
    ),
    "refitted": (Ridge(), _refits, "_refit_chunk"),
}


@pytest.fixture
def data(rng):
    X = np.column_stack([rng.integers(0, 2, 40), rng.normal(size=(40, 2))])
    return X, (X.sum(axis=1) + rng.normal(size=40) > 0.5).astype(int)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_candidates, "TABLE_ELEMENTS", 100)
    monkeypatch.setattr(_reweighted, "_TABLE_ELEMENTS", 100)
    monkeypatch.setattr(_refits, "_BLOCK", 4)
    # What is finished is written at once.
    monkeypatch.setattr(_run, "SHARE_OF_TIME", np.inf)


def make(model, path=None, **options):
    options = {"noise_scales": [0.05], "n_releases": 3, "attacks": "white_box"} | options
    return LeakageAuditor(model, 0, checkpoint=path, random_state=0, **options)


class Spy:
    """Count the calls of a function, and break one of them off."""

    def __init__(self, function, break_at=None):
        self.function, self.break_at, self.count = function, break_at, 0

    def __call__(self, *arguments):
        self.count += 1
        if self.count == self.break_at:
            raise KeyboardInterrupt
        return self.function(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("small_blocks")
def test_interrupted_encodings_go_on(case, data, tmp_path, monkeypatch):
    model, module, name = CASES[case]
    path, function = tmp_path / "audit.npz", getattr(module, name)
    whole = Spy(function)
    monkeypatch.setattr(module, name, whole)
    expected = make(model).fit(*data)
    all_calls = whole.count
    monkeypatch.setattr(module, name, Spy(function, break_at=all_calls // 2 + 1))
    with pytest.raises(KeyboardInterrupt):
        make(model, path).fit(*data)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["audit.npz"]
    rest = Spy(function)
    monkeypatch.setattr(module, name, rest)
    found = make(model, path).fit(*data)
    assert rest.count < all_calls
    pd.testing.assert_frame_equal(found.results_, expected.results_)
    pd.testing.assert_frame_equal(found.records_, expected.records_)
    np.testing.assert_array_equal(
        found.attacks_["white_box"].encodings_, expected.attacks_["white_box"].encodings_
    )
    # Finished, nothing is computed again; another audit of the same model takes the encodings.
    rest.count = 0
    pd.testing.assert_frame_equal(make(model, path).fit(*data).results_, expected.results_)
    assert rest.count == 0


@pytest.mark.usefixtures("small_blocks")
def test_parts_of_another_audit_are_not_taken(data, tmp_path, monkeypatch):
    model, module, name = CASES["closed form"]
    path = tmp_path / "audit.npz"
    encoded = module.encoded
    monkeypatch.setattr(module, name, Spy(encoded, break_at=3))
    with pytest.raises(KeyboardInterrupt):
        make(model, path).fit(*data)
    before = path.read_bytes()
    X, y = data
    monkeypatch.setattr(module, name, encoded)
    others = [(make(model, path), (X + 1e-9, y)), (make(model, path, records=[0, 1, 2]), data)]
    others.append((make(PrivateLogisticRegression(alpha=0.02), path), data))
    for other, given in others:
        with pytest.raises(ValueError, match="is of another audit"):
            other.fit(*given)
        assert path.read_bytes() == before


def test_what_is_too_large_is_said(data, tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "_MOST", 100)
    with pytest.warns(CheckpointWarning, match="more than a checkpoint keeps"):
        auditor = make(CASES["closed form"][0], tmp_path / "a.npz").fit(*data)
    with np.load(tmp_path / "a.npz") as file:
        assert not [name for name in file.files if name.startswith("parts:")]
    assert len(auditor.results_) == 1


def saved(store):
    store.behind = True
    store.write()


def test_cells_and_parts_are_kept_side_by_side(tmp_path):
    path, own = tmp_path / "a.npz", {"a": "b"}
    store = Checkpoint(path, [3, 4], own)
    store.parts = {"encodings 1": np.arange(6.0).reshape(3, 2)}
    saved(store)
    early = Checkpoint(path, [1, 2], own)
    assert (early.cells, early.entropy) == ({}, [3, 4])
    for other, name in (({"a": "c"}, "a"), ({}, "a"), (own | {"d": "e"}, "d")):
        with pytest.raises(ValueError, match=f"another audit: its {name} differs"):
            Checkpoint(path, [1, 2], other)
    early.cells["0.1|x"] = {"hits": np.array(3)}
    saved(early)
    again = Checkpoint(path, [1, 2], own)
    again.parts["encodings 1"] = np.arange(8.0).reshape(4, 2)
    saved(again)
    last = Checkpoint(path, [1, 2], own)
    assert (last.cells["0.1|x"]["hits"], last.entropy) == (3, [3, 4])
    np.testing.assert_array_equal(last.parts["encodings 1"], again.parts["encodings 1"])


@pytest.mark.slow
def test_progress_names_its_phases_and_counts_records(data, capfd):
    make(CASES["closed form"][0], verbose=1).fit(*data)
    shown = capfd.readouterr().err
    assert "encodings: 100%" in shown
    assert "40/40" in shown
    for phase in ("bounds", "attacks", "utility"):
        assert f"{phase}:" in shown
    make(CASES["closed form"][0]).fit(*data)
    assert capfd.readouterr().err == ""
