"""Two brokers known by nothing but texts of kafka-dump-log, as people keep them: a wrong verdict is worse than none.

The texts are those of a real cluster's brokers (Kafka 1.1.1, unclean elections), whose logs differ.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample" / "multi-round"
DUMPS = ROOT / "tests" / "data" / "dump-log" / "multi-round"
Row = dict[str, Any]


def _texts() -> dict[int, Path]:
    """By broker, the texts of the partition that differs."""
    found = {int(path.relative_to(DUMPS).parts[0][-1]): path for path in sorted(DUMPS.rglob("ledger-0/*.txt"))}
    assert len(found) == 2
    return found


def _verdicts(root: Path, *, metadata: bool = True) -> tuple[dict[str, list[Row]], dict[tuple[str, int], str]]:
    tables = in_process.audit(root, metadata=metadata)
    assert {row["topic"] for row in tables["replica_verdicts"]} <= {"ledger", "__consumer_offsets"}, "a topic was made of a folder's name"
    return tables, {(row["topic"], row["follower_id"]): row["verdict"] for row in tables["replica_verdicts"]}


def _with(to: Path, change: Callable[[int, bytes], bytes], name: str = "ledger-0.txt") -> Path:
    """A root of two broker folders, each with the changed text of its replica."""
    for broker, text in _texts().items():
        folder = to / f"broker-{broker}"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(change(broker, text.read_bytes()))
    return to


def _without_path(_broker: int, text: bytes) -> bytes:
    return b"Dumping 00000000000000000000.log\n" + text.partition(b"\n")[2]


def test_whole_texts_are_compared(tmp_path: Path) -> None:
    """The measure of the tests below."""
    _tables, verdicts = _verdicts(_with(tmp_path, lambda _broker, text: text), metadata=False)
    assert list(verdicts.values()) == ["stale_tail"]


def test_named_by_their_files_as_well(tmp_path: Path) -> None:
    _tables, verdicts = _verdicts(_with(tmp_path, _without_path), metadata=False)
    assert list(verdicts.values()) == ["stale_tail"]


def test_under_nothing_but_the_brokers_folders_no_partition_is_invented(tmp_path: Path) -> None:
    tables, verdicts = _verdicts(_with(tmp_path, _without_path, "dump.txt"), metadata=False)
    assert (verdicts, tables["replica_logs"]) == ({}, [])
    assert [row["code"] for row in tables["problems"]] == ["unknown-replica"] * 2


@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("mark", [b"......\n", b""])
def test_of_a_text_that_is_not_whole_nothing_is_said(tmp_path: Path, cut: int, mark: bytes) -> None:
    """Cut on either side, it would be a leader that lost its tail, or a follower that only lags."""

    def shorter(broker: int, text: bytes) -> bytes:
        if broker != cut:
            return text
        lines = text.splitlines(keepends=True)
        kept = len(lines) // 2 + 1
        return b"".join(lines[:kept]) + (mark or lines[kept][:60])

    tables, verdicts = _verdicts(_with(tmp_path, shorter), metadata=False)
    assert list(verdicts.values()) == ["inconclusive"]
    assert [row["code"] for row in tables["input_errors"]] == ["dump-truncated"]
    assert not [row for row in tables["found"] if row["code"] == "unreadable"]
    assert all(
        row["unreadable_reason"] is None or "does not show the whole log" in row["unreadable_reason"] for row in tables["replica_logs"]
    )


def test_a_broker_of_which_nothing_was_copied_is_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(SAMPLE, root)
    folder = next(path for path in sorted(root.glob("broker-*")))
    shutil.rmtree(folder)
    folder.mkdir()
    tables, _ = _verdicts(root)
    assert [(row["code"], row["path"]) for row in tables["problems"]] == [("empty-broker-folder", str(folder))]
