"""Interrupted audits: what is finished is kept, and a checkpoint goes on from it."""

import copy
import errno
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow

from skleak.attacks import WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor
from skleak.audit._run import Checkpoint
from skleak.exceptions import CheckpointWarning, IncompleteAuditWarning
from skleak.linear_model import PrivateLinearRegression

NOISE = [0.01, 0.1, 1.0]


class Log:
    """Calls of all copies of an attack: a copy shares the list."""

    def __init__(self):
        self.calls = []

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Log, ()


class Counting:
    """A white box that logs the noise of each call, and fails at some."""

    def __init__(self, fail_at=(), error=ValueError):
        self.fail_at, self.error, self.log = fail_at, error, Log()

    def fit(self, X, y):
        self.attack_ = WhiteBoxAttributeInference(PrivateLinearRegression(), 0).fit(X, y)
        return self

    def predict(self, released, noise_scale=None):
        self.log.calls.append(float(noise_scale))
        if noise_scale in self.fail_at:
            raise self.error("cannot guess here")
        return self.attack_.predict(released, noise_scale)


@pytest.fixture
def data(rng):
    X = np.column_stack([rng.integers(0, 2, 16), rng.normal(size=16)])
    return X, X @ [1.0, 1.0] + rng.normal(size=16)


def make(attack=None, path=None, random_state=0, **options):
    attacks = {"prior": "prior", "mine": Counting() if attack is None else attack}
    options = {"noise_scales": NOISE, "n_releases": 5, "bounds": "bayes"} | options
    options = {"estimator": PrivateLinearRegression()} | options
    return LeakageAuditor(
        attribute=0, attacks=attacks, checkpoint=path, random_state=random_state, **options
    )


def interrupted(auditor, data, error=ValueError):
    with pytest.warns(IncompleteAuditWarning, match="cells are finished"), pytest.raises(error):
        auditor.fit(*data)


@pytest.mark.slow
def test_other_cells_finish_when_an_attack_fails(data):
    auditor = make(Counting(fail_at=[0.1]))
    interrupted(auditor, data)
    assert not hasattr(auditor, "results_")
    assert not hasattr(auditor, "report_")
    table = auditor.partial_results_
    expected = [(s, a) for s in NOISE for a in ("prior", "mine") if (s, a) != (0.1, "mine")]
    assert list(zip(table["noise_scale"], table["attack"], strict=True)) == expected
    whole = make().fit(*data).results_
    kept = whole[~((whole["noise_scale"] == 0.1) & (whole["attack"] == "mine"))]
    pd.testing.assert_frame_equal(table, kept.reset_index(drop=True))


@pytest.mark.slow
def test_the_error_says_what_went_wrong(data):
    with pytest.warns(IncompleteAuditWarning) as caught, pytest.raises(ValueError, match="guess"):
        make(Counting(fail_at=NOISE)).fit(*data)
    assert "Call `fit` again" not in str(caught[0].message)


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished(data):
    auditor = make(Counting(fail_at=[0.1], error=KeyboardInterrupt))
    interrupted(auditor, data, KeyboardInterrupt)
    table = auditor.partial_results_
    assert set(zip(table["noise_scale"], table["attack"], strict=True)) >= {
        (0.01, "prior"),
        (0.01, "mine"),
    }
    assert (1.0, "mine") not in set(zip(table["noise_scale"], table["attack"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("error", mostly_slow([ValueError, KeyboardInterrupt], 0))
def test_a_failed_fit_leaves_the_earlier_one_whole(error, data):
    auditor = make().fit(*data)
    before = dict(vars(auditor))
    auditor.set_params(attacks={"mine": Counting(fail_at=[0.1], error=error)})
    table = pd.DataFrame(data[0], columns=["a", "b"])
    interrupted(auditor, (table, data[1]), error)
    after = dict(vars(auditor))
    assert after.keys() == before.keys()  # no names of columns, which the first fit had not
    changed = {name for name in before if after[name] is not before[name]}
    assert changed == {"attacks", "partial_results_"}
    assert set(after["partial_results_"]["attack"]) == {"mine"}


@pytest.mark.slow
@pytest.mark.parametrize("random_state", [0, None])
@pytest.mark.parametrize("error", mostly_slow([ValueError, KeyboardInterrupt], 1))
def test_a_checkpoint_goes_on(random_state, error, data, tmp_path, monkeypatch):
    path = tmp_path / "audit.npz"
    attack = Counting(fail_at=[0.1], error=error)
    auditor = make(attack, path, random_state)
    with pytest.warns(IncompleteAuditWarning, match="Call `fit` again"), pytest.raises(error):
        auditor.fit(*data)
    assert 0.01 in attack.log.calls
    done = set(attack.log.calls) - {0.1}
    attack.log.calls.clear()
    # The reason is gone; the attack is still the same one.
    monkeypatch.setattr(Counting, "predict", _without_failure)
    table = auditor.fit(*data).results_
    assert set(attack.log.calls) == {*NOISE} - done
    # As if it had never stopped, from the entropy that the file holds.
    header = _header(path)
    save(tmp_path / "b.npz", {}, header["entropy"], header["fingerprint"])
    other = make(attack, tmp_path / "b.npz", random_state).fit(*data)
    pd.testing.assert_frame_equal(table, other.results_)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["audit.npz", "b.npz"]


def _without_failure(self, released, noise_scale=None):
    self.log.calls.append(float(noise_scale))
    return self.attack_.predict(released, noise_scale)


def save(path, cells, entropy, fingerprint):
    store = Checkpoint(path, entropy, fingerprint)
    store.cells, store.behind = cells, True
    store.write()
    return store


def _header(path):
    with np.load(path) as file:
        return json.loads(str(file["header"]))


@pytest.mark.slow
def test_a_finished_checkpoint_plays_nothing(data, tmp_path):
    path = tmp_path / "audit.npz"
    first = make(path=path).fit(*data)
    again = make(path=str(path))
    table = again.fit(*data).results_
    assert again.attacks["mine"].log.calls == []
    pd.testing.assert_frame_equal(table, first.results_)
    pd.testing.assert_frame_equal(again.records_, first.records_)
    assert (
        first.report_.reproducibility["entropy of the seeds"]
        == (again.report_.reproducibility["entropy of the seeds"])
    )


@pytest.mark.slow
def test_intervals_can_be_changed_afterwards(data, tmp_path):
    path = tmp_path / "audit.npz"
    narrow = make(path=path, confidence_level=0.5).fit(*data).results_
    wide = make(path=path, confidence_level=0.99).fit(*data).results_
    assert (wide["success_low"] <= narrow["success_low"]).all()
    np.testing.assert_array_equal(wide["success"], narrow["success"])


OTHERS = {
    "estimator": {"estimator": PrivateLinearRegression(alpha=0.123)},
    "noise_scales": {"noise_scales": [0.01, 0.1]},
    "n_releases": {"n_releases": 6},
    "secrets": {"secrets": "actual"},
    "prior": {"prior": "uniform"},
    "bounds": {"bounds": ["bayes", "gdp"]},
    "values": {"values": [0.0, 1.0, 2.0]},
    "records": {"records": [0, 1]},
    "rare_value": {"rare_value": 1.0},
    "random_state": {"random_state": 1},
    "attacks": {"attack": WhiteBoxAttributeInference(PrivateLinearRegression(), 0)},
}


@pytest.mark.slow
def test_checkpoints_of_other_audits_are_refused(data, tmp_path):
    path = tmp_path / "audit.npz"
    make(path=path).fit(*data)
    before = path.read_bytes()
    for name, options in OTHERS.items():
        with pytest.raises(ValueError, match=f"is of another audit: its {name} differs"):
            make(path=path, **options).fit(*data)
        assert path.read_bytes() == before


@pytest.mark.slow
def test_a_column_named_as_a_position_is_another_one(data, tmp_path):
    X, y = data
    X = pd.DataFrame(X, columns=["1", *map(str, range(2, X.shape[1] + 1))])
    auditor = make(path=tmp_path / "audit.npz").set_params(attribute="1").fit(X, y)
    with pytest.raises(ValueError, match="its attribute differs"):
        auditor.set_params(attribute=1).fit(X, y)


@pytest.mark.slow
def test_checkpoints_of_other_data_are_refused(data, tmp_path):
    path = tmp_path / "audit.npz"
    X, y = data
    make(path=path).fit(X, y)
    changed = X.copy()
    changed[3, 1] += 1e-9
    for other in ((changed, y), (X, -y), (X[::-1], y[::-1])):
        with pytest.raises(ValueError, match="its data differs"):
            make(path=path).fit(*other)
    with pytest.raises(ValueError, match="its test data differs"):
        make(path=path).fit(X, y, X[:5], y[:5])


@pytest.mark.slow
def test_long_parameters_are_compared_whole(data, tmp_path):
    """Their text is cut short, and would be equal."""
    path = tmp_path / "audit.npz"
    priors = np.full((16, 2), 0.5)
    attacks = [
        WhiteBoxAttributeInference(PrivateLinearRegression(), 0, prior=p)
        for p in (priors, priors.copy())
    ]
    attacks[1].prior[8] = [0.4, 0.6]
    make(attacks[0], path).fit(*data)
    with pytest.raises(ValueError, match="its attacks differs"):
        make(attacks[1], path).fit(*data)
    make(copy.deepcopy(attacks[0]), path).fit(*data)


@pytest.mark.slow
def test_seed_and_ledger_of_the_estimator_do_not_count(data, tmp_path):
    path = tmp_path / "audit.npz"
    for seed in (None, 3, np.random.default_rng(0)):
        model = PrivateLinearRegression(random_state=seed)
        auditor = make(path=path, estimator=model).fit(*data)
    assert auditor.attacks["mine"].log.calls == []


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 broken"])
def test_files_that_are_no_checkpoint_are_refused(content, data, tmp_path):
    path = tmp_path / "audit.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint of an audit"):
        make(path=path).fit(*data)
    assert path.read_bytes() == content


@pytest.mark.slow
def test_foreign_archives_are_refused(data, tmp_path):
    path = tmp_path / "audit.npz"
    for arrays in ({"a": np.ones(3)}, {"header": np.array("{}")}, {"header": np.array("[1]")}):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=r"not a checkpoint|another audit"):
            make(path=path).fit(*data)
    np.savez(path, header=np.array({"a": 1}, dtype=object))
    with pytest.raises(ValueError, match="not a checkpoint"):
        make(path=path).fit(*data)


@pytest.mark.slow
def test_half_a_checkpoint_is_refused(data, tmp_path):
    path = tmp_path / "audit.npz"
    make(path=path).fit(*data)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a checkpoint"):
        make(path=path).fit(*data)


def test_places_that_do_not_exist_are_refused(data, tmp_path):
    attack = Counting()
    for path in (tmp_path / "missing" / "audit.npz", tmp_path):
        with pytest.raises(ValueError, match="must be a file in a folder that exists"):
            make(attack, path).fit(*data)
    assert attack.log.calls == []


def test_a_write_that_fails_leaves_the_old_file(data, tmp_path, monkeypatch):
    path = tmp_path / "audit.npz"
    store = save(path, {"0.1|x": {"hits": np.array(3)}}, [1, 2], {"a": "b"})
    before = path.read_bytes()

    def broken(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    store.behind = True
    with pytest.warns(CheckpointWarning, match="disk full"):
        store.write()
    assert store.behind
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["audit.npz"]


class Vandal(Counting):
    """Removes the folder of the checkpoint while the audit runs."""

    folder = None

    def predict(self, released, noise_scale=None):
        shutil.rmtree(self.folder, ignore_errors=True)
        return super().predict(released, noise_scale)


@pytest.mark.slow
def test_a_folder_that_vanishes_does_not_end_the_audit(data, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    attack = Vandal()
    attack.folder = folder
    with pytest.warns(CheckpointWarning, match="cannot be written .*The audit goes on") as caught:
        table = make(attack, folder / "audit.npz").fit(*data).results_
    assert [warning.filename for warning in caught] == [__file__]  # once, at the line of `fit`
    assert not folder.exists()
    pd.testing.assert_frame_equal(table, make(Counting()).fit(*data).results_)


@pytest.mark.slow
def test_a_full_disk_does_not_end_the_audit(data, tmp_path, monkeypatch):
    def full(file, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "audit.npz"
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.warns(CheckpointWarning, match="No space left on device"):
            auditor = make(path=path).fit(*data)
    assert len(auditor.results_) == 2 * len(NOISE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_is_not_in_the_file_is_not_promised(data, tmp_path, monkeypatch):
    def full(file, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with (
        pytest.warns((CheckpointWarning, IncompleteAuditWarning)) as caught,
        pytest.raises(ValueError, match="guess"),
    ):
        make(Counting(fail_at=NOISE), tmp_path / "audit.npz").fit(*data)
    assert [warning.category for warning in caught] == [CheckpointWarning, IncompleteAuditWarning]
    assert "Call `fit` again" not in str(caught[1].message)


def test_round_trip(tmp_path):
    cells = {
        "0.1|a/b": {"hits": np.array(3), "shares": np.array([0.5])},
        "0.0|é": {"games": np.array(4)},
    }
    save(tmp_path / "a", cells, [1, 2**32 - 1], {"a": "b"})
    store = Checkpoint(tmp_path / "a", [5], {"a": "b"})
    loaded = store.cells
    assert store.entropy == [1, 2**32 - 1]
    assert loaded.keys() == cells.keys()
    for key, outcome in cells.items():
        for name, array in outcome.items():
            np.testing.assert_array_equal(loaded[key][name], array)
