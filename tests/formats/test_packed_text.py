"""Texts of kafka-dump-log that are packed or in UTF-16 tell what the plain ones tell; what cannot be unpacked is a problem."""

from __future__ import annotations

import gc
import gzip
import io
import tracemalloc
import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.files.text_files import open_text, why_cut
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import read_segment, scan_of
from replica_audit.model import BatchHeader, Problem, ReplicaFiles
from tests.formats.test_dump_log import RECORD, START, line

TEXT = START + b"".join(line(3 * i, 3 * i + 2, 100 * i) for i in range(500))
TWO = TEXT + START.replace(b"orders-0", b"orders-1") + line(0, 4, 0)
IN_OTHER_FORMS = {
    "plain": TWO,
    "gzip": gzip.compress(TWO),
    "gzip in members": gzip.compress(TWO[:1000]) + gzip.compress(b"") + gzip.compress(TWO[1000:]) + bytes(512),
    "utf-8 with a mark": "\ufeff".encode() + TWO,
    "utf-16 of PowerShell": "\ufeff".encode("utf-16-le") + TWO.decode().replace("\n", "\r\n").encode("utf-16-le"),
    "utf-16 big-endian": "\ufeff".encode("utf-16-be") + TWO.decode().encode("utf-16-be"),
    "gzip of utf-16": gzip.compress("\ufeff".encode("utf-16-le") + TWO.decode().encode("utf-16-le")),
}


def found_in(folder: Path) -> tuple[dict[str, ReplicaFiles], list[Problem]]:
    items = list(replicas_of(folder))
    replicas = {item.directory: item for item in items if isinstance(item, ReplicaFiles)}
    of_replicas = [problem for replica in replicas.values() for problem in replica.problems]
    return replicas, [*(item for item in items if isinstance(item, Problem)), *of_replicas]


@pytest.mark.parametrize("form", IN_OTHER_FORMS)
@pytest.mark.parametrize("name", ["dump.txt", "dump.txt.gz"])
def test_every_form_tells_the_same(tmp_path: Path, form: str, name: str) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / name).write_bytes(IN_OTHER_FORMS[form])
    replicas, problems = found_in(tmp_path / "broker-1")
    assert problems == []
    (first,), (second,) = replicas["orders-0"].segments, replicas["orders-1"].segments
    assert [scan_of(file).runs[-1].last_offset for file in (first, second)] == [1499, 4]
    batches = [item for item in read_segment(first) if isinstance(item, BatchHeader)]
    assert (len(batches), scan_of(first).damage, scan_of(second).damage) == (500, None, None)
    assert second.first_line == 503


@pytest.mark.parametrize("form", ["gzip", "utf-16 of PowerShell"])
def test_under_the_name_of_a_segment(tmp_path: Path, form: str) -> None:
    replica = tmp_path / "broker-1" / "orders-0"
    replica.mkdir(parents=True)
    (replica / "00000000000000000000.log").write_bytes(IN_OTHER_FORMS[form])
    (tmp_path / "broker-1" / "replication-offset-checkpoint").write_bytes(b"0\n0\n")
    replicas, _problems = found_in(tmp_path / "broker-1")
    assert scan_of(replicas["orders-0"].segments[0]).runs[-1].last_offset == 1499


@pytest.mark.parametrize("cut", [1, 4, 9, 2000])
def test_a_packed_text_that_ends_early_tells_what_is_there(tmp_path: Path, cut: int) -> None:
    (tmp_path / "broker-1").mkdir()
    path = tmp_path / "broker-1" / "dump.gz"
    path.write_bytes(IN_OTHER_FORMS["gzip"][:-cut])
    replicas, problems = found_in(tmp_path / "broker-1")
    ((code, detail),) = {(problem.code, problem.detail) for problem in problems}
    assert code == "dump-truncated"
    assert f"byte {path.stat().st_size}" in detail
    assert scan_of(replicas["orders-0"].segments[0]).runs[0].first_offset == 0


def test_a_packed_text_whose_bytes_changed(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    packed = bytearray(gzip.compress(TWO, 1))
    packed[len(packed) // 2] = 0xFF
    (tmp_path / "broker-1" / "dump.gz").write_bytes(packed)
    replicas, problems = found_in(tmp_path / "broker-1")
    assert [problem.code for problem in problems] == ["dump-truncated"]
    assert scan_of(replicas["orders-0"].segments[0]).runs[0].last_offset > 300


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Of what unpacks to a thousand times its size."""
    path = tmp_path / "dump.gz"
    path.write_bytes(gzip.compress(START + line(0, 2, 0) + RECORD + bytes(100 << 20)))
    tracemalloc.start()
    with open_text(path) as stream:
        while stream.read(1 << 16):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_closed_text_holds_nothing_back(tmp_path: Path) -> None:
    """It is gone at once, with its buffers: the collector of cycles may be long in coming."""
    path = tmp_path / "dump.gz"
    path.write_bytes(IN_OTHER_FORMS["gzip"])
    gc.disable()
    try:
        with open_text(path) as stream:
            stream.read(10)
            raw = weakref.ref(stream.raw)  # type: ignore[attr-defined]
        del stream
        assert raw() is None
    finally:
        gc.enable()


@given(st.binary(max_size=200), st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=6), st.sampled_from(["gzip", "utf-8"]))
def test_it_is_a_stream_like_any_other(tmp_path_factory: pytest.TempPathFactory, content: bytes, steps, form: str) -> None:
    content = content.removeprefix(b"\x1f\x8b").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff").removeprefix(b"\xef\xbb\xbf")
    path = tmp_path_factory.getbasetemp() / "streamed"
    path.write_bytes(gzip.compress(content) if form == "gzip" else b"\xef\xbb\xbf" + content)
    plain = io.BytesIO(content)
    with open_text(path) as stream:
        for is_seek, number in steps:
            if is_seek:
                assert stream.seek(min(number, len(content))) == plain.seek(min(number, len(content)))
            else:
                assert stream.read(number) == plain.read(number)
            assert stream.tell() == plain.tell()
        assert why_cut(stream) is None


@given(st.binary(max_size=100))
def test_any_bytes_behind_a_mark(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "marked"
    for mark in (b"\x1f\x8b", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"):
        path.write_bytes(mark + content)
        with open_text(path) as stream:
            stream.read()
