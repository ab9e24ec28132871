"""Processes recognised again: a number alone is not enough."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from replica_audit.rows.runs import RunHolder
from replica_audit.storage.warehouse.attempts import is_alive, this_process

_SAYS_WHO_IT_IS = (
    "import sys, dataclasses, json; from replica_audit.storage.warehouse.attempts import this_process; "
    "print(json.dumps(dataclasses.asdict(this_process())), flush=True); sys.stdin.read()"
)


def test_a_process_is_alive_until_it_has_ended() -> None:
    import json

    with subprocess.Popen([sys.executable, "-c", _SAYS_WHO_IT_IS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        told = RunHolder(**json.loads(other.stdout.readline()))
        assert told.pid == other.pid
        assert is_alive(told) is True
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert is_alive(told) is False, "nobody has waited for it: a zombie is dead"
        other.communicate()
    assert is_alive(told) is False


def test_another_process_of_the_same_number_is_another() -> None:
    here = this_process()
    assert is_alive(here) is True
    assert is_alive(replace(here, began=str(int(here.began) - 1))) is False


def test_what_cannot_be_seen_from_here_is_neither() -> None:
    here = this_process()
    assert is_alive(replace(here, host="elsewhere")) is None
    assert is_alive(replace(here, machine="a container of this machine, or the machine before it was restarted")) is None


def test_it_is_named_as_a_person_looks_for_it() -> None:
    assert str(RunHolder(host="db1", machine="m", pid=42, began="7")) == "process 42 on db1"
