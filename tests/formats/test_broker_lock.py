from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from replica_audit.formats.broker_lock import is_cold, is_locked
from tests.formats import kafka_files as kf
from tests.formats.rights import as_nobody, open_to_all

_HOLD = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True); sys.stdin.read()"


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    return kf.segment(kf.replica(tmp_path / "data", "orders-0"), 0, kf.batch(0, 0))


def test_a_copy_without_a_lock_is_cold(segment: Path) -> None:
    assert is_cold(segment)


def test_a_log_directory_is_cold_unless_a_process_holds_its_lock(segment: Path) -> None:
    lock = segment.parent.parent / ".lock"
    lock.touch()
    assert is_locked(lock) is False
    assert is_cold(segment)
    with subprocess.Popen([sys.executable, "-c", _HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        assert is_locked(lock) is True
        assert not is_cold(segment)
        holder.stdin.close()
    assert is_cold(segment)


def test_a_lock_that_cannot_be_looked_at_may_be_held() -> None:
    with open_to_all() as folder:
        found = kf.segment(kf.replica(folder / "data", "orders-0"), 0, kf.batch(0, 0))
        (folder / "data" / ".lock").touch(mode=0o000)
        assert as_nobody(lambda: (is_locked(folder / "data" / ".lock"), is_cold(found))) == (None, False)
