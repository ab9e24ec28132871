from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from replica_audit.formats.log_dir.server_properties import is_locked
from tests.formats.rights import as_nobody, open_to_all

_HOLD = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True); sys.stdin.read()"


def test_a_lock_is_held_as_long_as_a_process_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    lock.touch()
    assert is_locked(lock) is False
    with subprocess.Popen([sys.executable, "-c", _HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        assert is_locked(lock) is True
        holder.stdin.close()
    assert is_locked(lock) is False


def test_a_lock_that_cannot_be_looked_at_may_be_held() -> None:
    with open_to_all() as folder:
        (folder / ".lock").touch(mode=0o000)
        assert as_nobody(lambda: is_locked(folder / ".lock")) is None
