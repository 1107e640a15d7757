"""Confidential files, as somebody else on the machine finds them."""

import os
import stat

import numpy as np
import pytest

from skleak.audit._run import Checkpoint
from skleak.report import reports as _render
from skleak.utils._files import write_confidential

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


@pytest.fixture
def umask():
    """Set the umask; nothing is taken away by default, the laxest that a user may have."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def by_render(path):
    _render.write("secret", path)


def by_checkpoint(path):
    store = Checkpoint(path.with_name("new"), [1])
    store.path, store.cells["0.1|x"] = path, {"hits": np.array(3)}
    store.keep()


WRITERS = pytest.mark.parametrize("write", [by_render, by_checkpoint])


@WRITERS
def test_only_the_owner_reads_a_new_file(write, tmp_path, umask):
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o600


@WRITERS
@pytest.mark.parametrize(
    "before, after",
    [(0o644, 0o600), (0o666, 0o600), (0o640, 0o600), (0o600, 0o600), (0o400, 0o400)],
)
def test_a_stricter_mode_is_kept_and_a_laxer_one_is_not(write, before, after, tmp_path, umask):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(before)
    for _ in range(2):
        write(path)
        assert mode(path) == after


@WRITERS
def test_a_stricter_umask_holds(write, tmp_path, umask):
    umask(0o277)
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o400


def test_at_no_moment_may_anybody_else_open_it(tmp_path, umask):
    path = tmp_path / "file"
    path.write_text("old")
    seen = []

    def spy(file):
        file.write(b"secret")
        seen.extend(mode(other) for other in tmp_path.iterdir() if other != path)

    write_confidential(path, spy)
    assert seen == [0o600]


def test_a_link_stays_and_what_it_leads_to_is_the_owners(tmp_path, umask):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    by_checkpoint(link)
    assert link.is_symlink()
    assert mode(target) == 0o600


def test_a_filler_that_fails_leaves_the_old_file_and_its_mode(tmp_path, umask):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_confidential(path, fail)
    assert path.read_text() == "old"
    assert mode(path) == 0o640
    assert list(tmp_path.iterdir()) == [path]
