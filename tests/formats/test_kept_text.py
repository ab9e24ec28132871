"""Sections of one packed text that are read one after the other: it is unpacked once, and tells what the plain text tells."""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from replica_audit.files import text_files
from replica_audit.files.text_files import KeptText
from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import batches_from, batches_in, scan_of
from replica_audit.model import ReplicaFiles, SegmentFile
from tests.formats import packed_dumps
from tests.formats import record_files as rf
from tests.formats.packed_dumps import BATCHES, PACKED

SECTIONS = range(7)  # none of them damaged
TEXT = packed_dumps.text(SECTIONS)


def segments(folder: Path, content: bytes) -> tuple[SegmentFile, ...]:
    packed_dumps.write(folder / "broker-1", "dump", content)
    (replica,) = (found for found in replicas_of(folder / "broker-1") if isinstance(found, ReplicaFiles))
    return replica.segments


@pytest.mark.parametrize("form", PACKED)
def test_the_listing_tells_which_texts_are_packed(tmp_path: Path, form: str) -> None:
    assert {file.unpacked_bytes for file in segments(tmp_path / "plain", TEXT)} == {0}
    assert {file.unpacked_bytes for file in segments(tmp_path / "packed", PACKED[form](TEXT))} == {len(TEXT)}


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("first", [0, 3 * BATCHES * 5 + 7])
def test_batches_are_unpacked_once(tmp_path: Path, form: str, first: int) -> None:
    plain, packed = segments(tmp_path / "plain", TEXT), segments(tmp_path / "packed", PACKED[form](TEXT))
    with packed_dumps.unpacked() as sizes:
        assert list(batches_from(packed, first)) == list(batches_from(plain, first))
    assert sizes == [len(TEXT)]
    with packed_dumps.unpacked() as sizes:
        assert [one.item for one in batches_in(packed, first, before=2)] == [one.item for one in batches_in(plain, first, before=2)]
    assert sizes == [len(TEXT)]


def test_segments_in_another_order_than_in_the_text(tmp_path: Path) -> None:
    reverse = packed_dumps.text(reversed(SECTIONS))
    plain, packed = segments(tmp_path / "plain", TEXT), segments(tmp_path / "packed", gzip.compress(reverse))
    assert list(batches_from(packed, 0)) == list(batches_from(plain, 0))


def test_two_readers_at_a_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    files = segments(tmp_path, gzip.compress(TEXT))
    pairs = list(zip(batches_from(files, 0), batches_from(files, 0), strict=True))
    assert len(pairs) == len(SECTIONS) * BATCHES
    assert all(left == right for left, right in pairs)


def test_committed_offsets_are_unpacked_once(tmp_path: Path) -> None:
    one = rf.OFFSETS_TEXTS["magic-2", "1.1.1"]
    one = (b"" if one.startswith(b"Dumping ") else b"Dumping /data/__consumer_offsets-0/00000000000000000000.log\n") + one
    content = one * 40
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "packed").write_bytes(gzip.compress(content))
    plain = rf.texts(tmp_path / "plain")
    assert len(plain) == 40

    def found(files: list[SegmentFile]) -> list[Any]:
        commits, problems = committed_offsets(files)
        assert commits
        return [[repr(row).replace(files[0].path, "PATH") for row in rows] for rows in (commits, problems)]

    packed = [replace(file, path=str(tmp_path / "packed")) for file in plain]
    with packed_dumps.unpacked() as sizes:
        assert found(packed) == found(plain)
    assert sizes == [len(content)]


def test_one_text_is_open_and_none_for_longer_than_asked_for(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(gzip.compress(TEXT))
    with KeptText() as kept:
        with kept.at(tmp_path / "a") as first:
            first.read(10)
        with kept.at(tmp_path / "a") as again:
            assert (again is first, again.tell()) == (True, 10)
        with kept.at(tmp_path / "b") as second:
            assert (first.closed, second.closed) == (True, False)
    assert second.closed


def test_nothing_is_kept_of_a_file_that_is_replaced_between_tasks(tmp_path: Path) -> None:
    (file, *_others) = segments(tmp_path, gzip.compress(TEXT))
    with KeptText() as kept:
        before = scan_of(file, kept)
    Path(file.path).write_bytes(gzip.compress(TEXT.replace(b"partitionLeaderEpoch: 0", b"partitionLeaderEpoch: 1")))
    with KeptText() as kept:
        after = scan_of(file, kept)
    assert [run.leader_epoch for run in (*before.runs, *after.runs)] == [0, 1]


def test_a_text_that_could_not_be_read_is_opened_again(tmp_path: Path) -> None:
    """Else the sections behind would seem to be cut off."""
    (tmp_path / "dump").write_bytes(gzip.compress(TEXT))
    with KeptText() as kept:
        with pytest.raises(OSError, match="lost"), kept.at(tmp_path / "dump") as stream:
            stream.read(100)
            raise OSError("connection lost")
        with kept.at(tmp_path / "dump") as again:
            assert stream.closed
            assert again.read(len(TEXT)) == TEXT
        with pytest.raises(FileNotFoundError), kept.at(tmp_path / "gone"):
            pass
        assert again.closed
        with kept.at(tmp_path / "dump") as once_more:
            assert once_more.read(8) == b"Dumping "


def test_batches_that_are_not_read_to_the_end_leave_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, really_open = [], text_files.open_text

    def open_text(path: Path) -> Any:
        opened.append(really_open(path))
        return opened[-1]

    monkeypatch.setattr("replica_audit.files.text_files.open_text", open_text)
    batches = batches_from(segments(tmp_path, gzip.compress(TEXT)), 0)
    assert len(list(islice(batches, 5))) == 5
    batches.close()  # type: ignore[attr-defined]
    assert [stream.closed for stream in opened] == [True]
