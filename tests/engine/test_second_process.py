"""What a second process does is what one alone would have done; what it cannot do is done all the same."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.engine.second_process import both, can_share
from replica_audit.storage.inputs.sources import discover
from tests.house.checkout import ROOT

SAMPLE = ROOT / "tests" / "data" / "sample"
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Pythons that warn of a copy beside pytest's threads


def test_a_copy_of_the_process_does_the_second() -> None:
    first, second = both(os.getpid, os.getpid)
    assert first == os.getpid() != second


def test_what_the_copy_fails_at_is_done_here() -> None:
    here = os.getpid()

    def only_here() -> str:
        if os.getpid() != here:
            os._exit(9)  # as one that the system ends for want of memory
        return "done"

    assert both(lambda: "first", only_here) == ("first", "done")


def test_an_error_of_the_second_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        both(lambda: 0, lambda: 1 // 0)


def test_no_copy_is_left_when_the_first_is_interrupted(tmp_path: Path) -> None:
    def interrupted() -> int:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    def endless() -> int:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(250)
        return 0

    with pytest.raises(KeyboardInterrupt):
        both(interrupted, endless)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert can_share()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not can_share()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {1})
    assert not can_share()


def _audited(root: Any, *, shares: bool) -> dict[str, Any]:
    found = local.audit_cluster(root.sources(), root.head, Settings(), shares=shares)
    return {**{name: table.to_pylist() for name, table in found.tables.items()}, "problems": found.problems.to_pylist()}


@pytest.mark.parametrize("much", [1, 10_000])
def test_two_processes_find_what_one_finds(much: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(here: Any, there: Any) -> Any:
        made.append(there)
        return both(here, there)

    monkeypatch.setattr(local, "_MUCH", much)
    monkeypatch.setattr(local, "both", counted)
    for root in discover([str(SAMPLE)], None).roots:
        assert _audited(root, shares=True) == _audited(root, shares=False)
        assert len(made) == (2 if much == 1 else 0), root  # listing, and judging; what is little is not worth it
        made.clear()
