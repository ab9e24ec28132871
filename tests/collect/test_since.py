"""`collect --since`: what did not change is taken over, and nobody can tell the collection from one that read everything."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replica_audit.collect import CollectResult, file_identity
from replica_audit.collect.file_identity import ReadCause
from replica_audit.collect.segment_capture import Read
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import Problem
from tests.collect.nights import CHANGES, Broker, at_rest, held, taken
from tests.formats import kafka_files as kf
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss" / "broker-1" / "data-0"
NEWEST = 2  # of the two replicas


@pytest.fixture(autouse=True)
def _at_rest() -> Iterator[None]:
    with at_rest():
        yield


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "data")


def causes(result: CollectResult) -> dict[str, int]:
    return dict(result.manifest.read_because)


def counted(result: CollectResult) -> tuple[int, int]:
    """How many segments were taken over, and read."""
    counts = result.manifest.counts
    assert counts["segments"] - counts["segments_taken_over"] == sum(result.manifest.read_because.values())
    return counts["segments_taken_over"], sum(result.manifest.read_because.values())


@pytest.mark.parametrize("what", CHANGES)
def test_the_second_night_is_equal_to_a_full_collection(broker: Broker, tmp_path: Path, what: str) -> None:
    first = taken(broker.path, tmp_path / "first")
    broker.change(what)
    second = taken(broker.path, tmp_path / "second", since=first.folder)
    assert held(second) == held(taken(broker.path, tmp_path / "full"))
    if what == "delete and come back":
        assert causes(second)[ReadCause.OTHER_FILE] + causes(second).get(ReadCause.CHANGED, 0) + causes(second).get(ReadCause.NEW, 0) >= 1
    assert counted(second)[0] > 0


def test_nothing_changed(broker: Broker, tmp_path: Path) -> None:
    first = taken(broker.path, tmp_path)
    assert causes(first) == {}
    second = taken(broker.path, tmp_path, since=tmp_path, replace=True)
    assert counted(second) == (len(broker.sealed()), NEWEST)
    assert causes(second) == {"newest of a replica": NEWEST}
    ends = 2 * file_identity.END_BYTES * len(broker.sealed())
    newest = sum(replica.file(-1).stat().st_size for replica in broker.replicas)
    assert second.manifest.counts["bytes_read"] == ends + newest
    assert second.manifest.counts["bytes_read"] < first.manifest.counts["bytes_read"]
    assert second.manifest.options["since"] == str(tmp_path)


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("rot in disguise", ReadCause.CHANGED),
        ("touch", ReadCause.CHANGED),
        ("copied back", ReadCause.OTHER_FILE),
        ("roll", ReadCause.WAS_NEWEST),
        ("vanish", ReadCause.NEW),
    ],
)
def test_why_a_segment_is_read_again(broker: Broker, tmp_path: Path, what: str, cause: ReadCause) -> None:
    first = taken(broker.path, tmp_path / "first")
    broker.change(what)
    assert causes(taken(broker.path, tmp_path / "second", since=first.folder))[cause] >= 1


def test_bytes_that_differ_though_size_and_times_do_not(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a change by the disk itself, at one of the ends."""
    first = taken(broker.path, tmp_path / "first")
    path = broker.sealed()[0]
    with path.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\xff")
    with monkeypatch.context() as patch:
        patch.setattr("replica_audit.collect.segment_reuse.difference", lambda *_args: None)
        second = taken(broker.path, tmp_path / "second", since=first.folder)
    assert causes(second)[ReadCause.ENDS] == 1
    assert held(second) == held(taken(broker.path, tmp_path / "full"))


def test_a_segment_that_had_just_been_written_is_read_once_more(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_identity, "_AT_REST_NS", 3600 * 10**9)
    first = taken(broker.path, tmp_path / "first")
    monkeypatch.setattr(file_identity, "_AT_REST_NS", 0)
    second = taken(broker.path, tmp_path / "second", since=first.folder)
    assert causes(second) == {ReadCause.NOT_AT_REST: len(broker.sealed()), ReadCause.NEWEST: NEWEST}
    third = taken(broker.path, tmp_path / "third", since=second.folder)
    assert causes(third) == {ReadCause.NEWEST: NEWEST}


def test_damage_is_looked_at_every_night(broker: Broker, tmp_path: Path) -> None:
    torn, rotten = broker.sealed()[:2]
    with torn.open("ab") as stream:
        stream.write(b"x")
    content = bytearray(rotten.read_bytes())
    content[-1] ^= 1
    rotten.write_bytes(content)
    first = taken(broker.path, tmp_path / "first")
    second = taken(broker.path, tmp_path / "second", since=first.folder)
    assert causes(second)[ReadCause.PROBLEMS] == 2
    assert held(second) == held(first)


SEEDS, NIGHTS = range(20), 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_nights(tmp_path: Path, seed: int) -> None:
    """Two hundred of them: each collection since the last is equal to a full one."""
    chance = random.Random(f"nights {seed}")  # noqa: S311
    broker = Broker(tmp_path / "data", seed, segments=chance.randrange(2, 6))
    out, since = tmp_path / "out", None
    over = 0
    for _night in range(NIGHTS):
        options = {"has_index": chance.random() < 0.8, "verify_crc": chance.random() < 0.8}
        last = taken(broker.path, out, since=since, replace=True, **options)
        full = taken(broker.path, tmp_path / "full", replace=True, **options)
        assert without_more(held(last), **options) == without_more(held(full), **options)
        assert [one.path for one in last.unread] == [one.path for one in full.unread]
        over += counted(last)[0] if since else 0
        since = out
        for what in chance.choices(list(CHANGES), k=chance.randrange(4)):
            broker.change(what)
    assert over


def without_more(found: dict[tuple[str, str], Any], *, verify_crc: bool, has_index: bool) -> object:
    """Without the CRCs that an earlier night verified and this one would not have."""
    if verify_crc or not has_index:
        return found
    plain = {}
    for key, (row, headers, content) in found.items():
        bare = {name: value for name, value in row.items() if name not in ("index_bytes", "kept_crc32c")}
        plain[key] = bare, [header._replace(crc_valid=None) for header in headers or ()], content
    return plain


class TestOptions:
    """What the earlier collection lacks is read; what it has more is taken over."""

    def test_crcs(self, broker: Broker, tmp_path: Path) -> None:
        headers = taken(broker.path, tmp_path / "headers", verify_crc=False)
        read = taken(broker.path, tmp_path / "read", since=headers.folder)
        assert causes(read) == {ReadCause.OPTIONS: len(broker.sealed()), ReadCause.NEWEST: NEWEST}
        again = taken(broker.path, tmp_path / "again", since=read.folder, verify_crc=False)
        assert counted(again) == (len(broker.sealed()), NEWEST)

    def test_index(self, broker: Broker, tmp_path: Path) -> None:
        without = taken(broker.path, tmp_path / "without", has_index=False)
        read = taken(broker.path, tmp_path / "read", since=without.folder)
        assert causes(read) == {ReadCause.OPTIONS: len(broker.sealed()), ReadCause.NEWEST: NEWEST}
        again = taken(broker.path, tmp_path / "again", since=read.folder, has_index=False)
        assert counted(again) == (len(broker.sealed()), NEWEST)
        assert held(again) == held(without)
        assert not list(again.folder.rglob("batches"))

    def test_topics(self, broker: Broker, tmp_path: Path) -> None:
        some = taken(broker.path, tmp_path / "some", topics="plain")
        both = taken(broker.path, tmp_path / "both", since=some.folder)
        assert causes(both) == {ReadCause.NEW: 3, ReadCause.NEWEST: NEWEST}
        assert held(both) == held(taken(broker.path, tmp_path / "full"))

    def test_copies(self, broker: Broker, tmp_path: Path) -> None:
        """Segments of internal topics are linked like indexes; not where they had not been copied."""
        offsets = broker.path / "__consumer_offsets-0"
        kf.replica(broker.path, offsets.name)
        kf.segment(offsets, 2, kf.batch(2, 0))
        first = taken(broker.path, tmp_path / "first")
        second = taken(broker.path, tmp_path / "second", since=first.folder)
        (old, new) = (one.folder / "data" / offsets.name / f"{0:020d}.log" for one in (first, second))
        assert new.samefile(old)
        assert causes(second) == {ReadCause.NEWEST: NEWEST + 1}
        indexed = taken(broker.path, tmp_path / "indexed", since=second.folder, group_offsets_limit=0)
        assert causes(indexed) == {ReadCause.NEWEST: NEWEST + 1, ReadCause.OPTIONS: 1}
        copied = taken(broker.path, tmp_path / "copied", since=indexed.folder)
        assert causes(copied) == {ReadCause.NEWEST: NEWEST + 1, ReadCause.OPTIONS: 1}
        assert held(copied) == held(second) == held(first)


class TestFilesOfTheEarlierCollection:
    """They are shared, never pointed to, and never written to."""

    def test_the_earlier_one_can_be_deleted(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first")
        expected = held(first)
        second = taken(broker.path, tmp_path / "second", since=first.folder)
        links = [path for path in second.folder.rglob("*") if path.is_file() and path.stat().st_nlink == 2]
        assert len(links) == len(broker.sealed())
        shutil.rmtree(tmp_path / "first")
        assert held(second) == expected
        assert not [one for one in replicas_of(second.folder) if isinstance(one, Problem)]
        assert not [path for path in second.folder.rglob("*") if path.is_symlink()]

    def test_the_earlier_one_is_never_written_to(self, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = taken(broker.path, tmp_path / "first")
        before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
        real, asked = Read.still_holds, []

        def changes_once(read: Read, *arguments: object) -> bool:
            asked.append(arguments)
            return len(asked) > 3 and real(read, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Read, "still_holds", changes_once)  # what was linked is let go, and made again
        broker.change("rot in disguise")
        second = taken(broker.path, tmp_path / "second", since=first.folder)
        assert len(asked) > 3
        shutil.rmtree(tmp_path / "second")
        assert {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()} == before
        assert second.manifest.counts["segments_taken_over"]

    def test_another_file_system(self, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = taken(broker.path, tmp_path / "first")

        def refuse(*_paths: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", refuse)
        second = taken(broker.path, tmp_path / "second", since=first.folder)
        assert counted(second) == (len(broker.sealed()), NEWEST)
        assert {path.stat().st_nlink for path in second.folder.rglob("*") if path.is_file()} == {1}
        assert held(second) == held(first)

    def test_a_real_other_file_system(self, broker: Broker, tmp_path: Path) -> None:
        memory = Path("/dev/shm")  # noqa: S108
        if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("there is one file system here")
        first = taken(broker.path, tmp_path / "first")
        elsewhere = memory / f"replica-audit-{os.getpid()}"
        try:
            second = taken(broker.path, elsewhere, since=first.folder)
            assert counted(second) == (len(broker.sealed()), NEWEST)
            assert held(second) == held(first)
        finally:
            shutil.rmtree(elsewhere)

    def test_killed_half_way(self, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = taken(broker.path, tmp_path)
        before = held(first)
        broker.change("roll")

        def killed(*_arguments: object) -> None:
            raise SystemExit

        with monkeypatch.context() as patch:
            patch.setattr("replica_audit.collect.output.Output.finish", killed)
            patch.setattr("replica_audit.collect.output.Output.abandon", lambda self: os.close(self._lock))
            with pytest.raises(SystemExit):
                taken(broker.path, tmp_path, since=tmp_path, replace=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == [".broker-1.collecting", "broker-1", "data"]
        assert held(first) == before
        second = taken(broker.path, tmp_path, since=tmp_path, replace=True)
        assert counted(second)[0] == len(before) - NEWEST
        assert sorted(path.name for path in tmp_path.iterdir()) == ["broker-1", "data"]
        second.folder.rename(tmp_path / ".broker-1.collecting.replaced")  # killed between the two renames of --replace
        third = taken(broker.path, tmp_path, since=tmp_path, replace=True)
        assert counted(third)[0] == len(held(third)) - NEWEST


def test_a_real_broker(tmp_path: Path) -> None:
    """Its replicas have one segment each, so one is rolled; the audit says the same of all three."""
    source = tmp_path / "data-0"
    shutil.copytree(SAMPLE, source)
    for name in ("billing-0", "__consumer_offsets-1", "__cluster_metadata-0"):
        last = max(end_of(source / name), 1)
        kf.segment(source / name, last, kf.batch(last, 9))
    first = taken(source, tmp_path / "first")
    second = taken(source, tmp_path / "second", since=first.folder)
    full = taken(source, tmp_path / "full")
    assert counted(second) == (3, 7)
    assert held(second) == held(full)
    told, expected = in_process.audit(tmp_path / "second"), in_process.audit(tmp_path / "full")
    assert {name: len(rows) for name, rows in told.items()} == {name: len(rows) for name, rows in expected.items()}
    assert told["segment_epochs"] == expected["segment_epochs"]


def end_of(replica: Path) -> int:
    (segment,) = replica.glob("*.log")
    return kf.decoded(segment.read_bytes())[-1].next_offset if segment.stat().st_size else 0
