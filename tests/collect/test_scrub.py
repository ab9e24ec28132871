"""`--verify-within`: every byte is verified within the cycle, though nothing was written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica_audit.collect import CollectResult, scrub
from replica_audit.collect.file_identity import ReadCause
from replica_audit.formats.collection.collected_rows import ROWS
from replica_audit.formats.collection.manifest import MANIFEST, SEGMENTS_FILE
from tests.collect.collections import resealed
from tests.collect.nights import Broker, at_rest, rot, taken
from tests.support import in_process

DAY_MS = 86_400_000
CYCLE_S = 10 * 86_400


@pytest.fixture(autouse=True)
def _at_rest() -> Iterator[None]:
    with at_rest():
        yield


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "data", segments=6)


class Nights:
    """A collection each night, by a clock that goes on a day from one to the next."""

    def __init__(self, broker: Broker, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker, self.output, self.number = broker, output, 0
        self._real, self._monkeypatch = time.time_ns, monkeypatch

    def collect(self, **options: Any) -> CollectResult:
        """The next night's."""
        ahead = self.number * DAY_MS
        self.number += 1
        with self._monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda: self._real() + ahead * 1_000_000)
            return taken(self.broker.path, self.output, since=self.output, replace=True, **{"verify_within_s": CYCLE_S, **options})


@pytest.fixture
def nights(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(broker, tmp_path / "out", monkeypatch)


def rows_of(result: CollectResult) -> list[dict[str, Any]]:
    return list(pq.read_table(result.folder / "data" / SEGMENTS_FILE).to_pylist())


def checks(result: CollectResult) -> dict[tuple[str, str], int | None]:
    return {(row["directory"], row["name"]): row["verified_at_ms"] for row in rows_of(result)}


def test_every_segment_has_its_turn_within_the_cycle(broker: Broker, nights: Nights) -> None:
    first = nights.collect()
    assert first.manifest.counts["verified_again"] == 0, "all was read, and verified so"
    assert len(broker.sealed()) == 10
    before, again = checks(first), []
    for night in range(1, 21):
        result = nights.collect()
        now = checks(result)
        there = {replica.directory for replica in result.manifest.log_dirs[0].replicas}
        again.append({key for key in now if now[key] != before[key] and key[0] in there})
        before = now
        sealed = {(path.parent.name, path.name) for path in broker.sealed()}
        assert result.manifest.read_because[ReadCause.DUE] == result.manifest.counts["verified_again"] == len(again[-1] & sealed)
        oldest = min(time for key, time in now.items() if time is not None)
        assert first.manifest.started_at_ms + night * DAY_MS - oldest <= CYCLE_S * 1000 + DAY_MS
        assert result.oldest_check is not None
        assert result.never_verified == 0
    for begin in (0, 10):
        assert set.union(*again[begin : begin + 10]) >= sealed, "each in every cycle"
    assert max(len(one & sealed) for one in again) <= 3, "a share of the bytes each night, not all in one"


def test_the_share_is_that_of_the_time_since_the_last_run(broker: Broker, nights: Nights) -> None:
    nights.collect()
    nights.number += 2  # three days
    result = nights.collect()
    assert 3 <= result.manifest.counts["verified_again"] <= 4
    nights.number += 40
    assert nights.collect().manifest.counts["verified_again"] == len(broker.sealed()), "all are overdue"


def damaged(result: CollectResult) -> list[tuple[str, str]]:
    return [(row["directory"], row["name"]) for row in rows_of(result) if any(one["code"] == "crc-mismatch" for one in row["problems"])]


def test_a_change_that_keeps_size_and_mtime_is_found_at_once(broker: Broker, nights: Nights) -> None:
    nights.collect()
    path = broker.sealed()[3]
    before = path.stat()
    rot(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert damaged(nights.collect(verify_within_s=None)) == [(path.parent.name, path.name)]


def test_rot_that_leaves_no_trace_is_found_within_the_cycle(broker: Broker, nights: Nights) -> None:
    """The disk changed the bytes: size, times and both ends are as they were when the segment was read."""
    folder = nights.collect().folder
    path = broker.sealed()[7]
    rot(path)
    forge(folder, path)
    found: list[list[tuple[str, str]]] = []
    for _night in range(10):
        result = nights.collect()
        found.append(damaged(result))
        if found[-1]:
            break
    assert found[0] == [], "nothing says that it changed"
    assert found[-1] == [(path.parent.name, path.name)]
    said = in_process.audit(result.folder.parent)
    told = [row for row in [*said["input_errors"], *said["problems"]] if row["code"] == "crc-mismatch"]
    assert [row["path"] for row in told] == [str(path)]
    oldest = min(row["crcs_verified_at"] for row in said["replica_logs"])
    assert result.oldest_check is not None
    assert oldest.isoformat(timespec="milliseconds")[:23] == result.oldest_check[:23]


def test_without_it_rot_that_leaves_no_trace_is_not_found(broker: Broker, nights: Nights) -> None:
    folder = nights.collect().folder
    rot(broker.sealed()[7])
    forge(folder, broker.sealed()[7])
    assert [damaged(nights.collect(verify_within_s=None)) for _night in range(3)] == [[]] * 3


def forge(folder: Path, path: Path) -> None:
    """Let the rows of a collection say of a file what its file system says of it now."""
    store = folder / "data" / SEGMENTS_FILE
    rows = pq.read_table(store).to_pylist()
    (row,) = [row for row in rows if (row["directory"], row["name"]) == (path.parent.name, path.name)]
    row["identity"] |= {"mtime_ns": path.stat().st_mtime_ns, "ctime_ns": path.stat().st_ctime_ns}
    pq.write_table(pa.Table.from_pylist(rows, schema=ROWS), store)
    content, document = store.read_bytes(), json.loads((folder / MANIFEST).read_text())
    document["log_dirs"][0] |= {"segments_bytes": len(content), "segments_crc32c": crc32c.crc32c(content)}
    (folder / MANIFEST).write_bytes(resealed(document))


def test_headers_by_day_and_every_crc_within_the_cycle(broker: Broker, nights: Nights) -> None:
    """Without --verify-crc nothing was verified at first: no night has to read it all."""
    result = nights.collect(verify_crc=False)
    assert result.oldest_check is None
    assert result.never_verified == 2
    counts = []
    for _night in range(10):
        result = nights.collect(verify_crc=False)
        counts.append(result.manifest.counts["verified_again"])
    assert max(counts) <= 2
    sealed = {(path.parent.name, path.name) for path in broker.sealed()}
    assert None not in {time for key, time in checks(result).items() if key in sealed}


class TestTimeLimit:
    """What there is no time for comes first in the next run."""

    def limited(self, monkeypatch: pytest.MonkeyPatch, segments: int) -> None:
        """Time passes by the segments that are verified: one takes a minute."""
        real: Callable[..., bool] = scrub.Scrub.is_due
        clock = [0.0]

        def takes(self: scrub.Scrub, *arguments: Any) -> bool:
            self._clock = lambda: clock[0]
            self._until = segments * 60
            is_taken = real(self, *arguments)
            clock[0] += 60 * is_taken
            return is_taken

        monkeypatch.setattr(scrub.Scrub, "is_due", takes)

    def test_it_ends_and_goes_on(self, broker: Broker, nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
        first = nights.collect()
        nights.number += 40
        order: list[set[tuple[str, str]]] = []
        for _night in range(5):
            with monkeypatch.context() as patch:
                self.limited(patch, 2)
                before = checks(first)
                first = nights.collect(time_limit_s=120)
                counts = first.manifest.counts
                order.append({key for key, time in checks(first).items() if time != before[key]} & set(keys(broker)))
            assert counts["verified_again"] == 2
            assert counts["verification_left"] > 0 or len(order) == 5
            assert (counts["bytes_of_verification_left"] > 0) == (counts["verification_left"] > 0)
        assert set.union(*order) == set(keys(broker)), "none is passed over for ever"

    def test_the_command_says_what_is_left(self, broker: Broker, nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
        from replica_audit.commands.collect import _checks

        nights.collect()
        nights.number += 40
        result = nights.collect(time_limit_s=0)
        assert result.manifest.counts["verified_again"] == 0
        assert "; left to the next run by --time-limit: 10 segments (0.1 MB)" in _checks(result)


def keys(broker: Broker) -> list[tuple[str, str]]:
    return [(path.parent.name, path.name) for path in broker.sealed()]
