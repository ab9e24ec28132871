"""What a segment comes to while it is read: runs of one epoch, digests of what they hold, and where reading stopped."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, TypeAlias

import crc32c
import numpy as np

from replica_audit.formats.segment.producer_sums import NO_PRODUCERS, ProducerSums, producers_of
from replica_audit.formats.segment.record_batch import LAST_OFFSET, LOG_OVERHEAD, RAW_HEADER, V2_AT, V2_CRC_FROM, V2_HEADER
from replica_audit.model import BatchHeader, BatchRun, Damage, Problem, Producers, Window
from replica_audit.protocol.comparison.content import add_digest, window
from replica_audit.protocol.epochs.epoch_table import continues, joined, same_kind
from replica_audit.protocol.exchange.cuts import records_in

WINDOW_BITS = 16
MAX_WINDOWS = 4096  # per segment; Kafka lets a segment span 2**31 offsets, which only a compacted one needs
SEED, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64
_MASK = (1 << 64) - 1


def batch_digest(batch: BatchHeader) -> int:
    """What one batch adds to the digest of its window: 0 to 2**64 - 1."""
    first = digest_offset(batch)
    found: int = digest(first, batch.last_offset - first, batch.crc)
    return found


def digest_offset(batch: BatchHeader) -> int:
    """The offset by which a batch belongs to a window."""
    return batch.base_offset if batch.magic == 2 else batch.last_offset


def digest(first: Any, delta: Any, crc: Any) -> Any:
    """The digest of a batch by the offset that it counts by, how many offsets further its last one is, and its stored CRC.

    All are numbers of Python, unsigned 64-bit numbers of compiled code, or columns of such.
    """
    return mixed(mixed(first + SEED) ^ (crc << 32 | delta))


def mixed(x: Any) -> Any:
    """The finalizer of SplitMix64: a bijection of 64-bit numbers in which every bit of x changes half of the result."""
    x &= _MASK
    x = (x ^ x >> 30) * FIRST_FACTOR & _MASK
    x = (x ^ x >> 27) * SECOND_FACTOR & _MASK
    return x ^ x >> 31


class WindowSums:
    """The windows of one segment while it is read, in bounded memory.

    Beyond MAX_WINDOWS windows their width is doubled, for all of the segment, until they are few enough.
    """

    def __init__(self) -> None:
        self._bits = WINDOW_BITS
        self._sums: dict[int, tuple[int, int]] = {}  # by number of the window: digest, batch count

    def add_batch(self, batch: BatchHeader) -> None:
        """Count a batch in the window that it begins in."""
        self.add(digest_offset(batch) >> WINDOW_BITS, batch_digest(batch), 1)

    def add(self, number: int, digest: int, batch_count: int) -> None:
        """Count batches in the window that begins at offset `number` << WINDOW_BITS; they may be the rest of those counted before."""
        number >>= self._bits - WINDOW_BITS
        add_digest(self._sums, number, digest, batch_count)
        while len(self._sums) > MAX_WINDOWS:
            finer, self._sums = self._sums, {}
            self._bits += 1
            for number, sums in finer.items():
                add_digest(self._sums, number >> 1, *sums)

    def windows(self) -> tuple[Window, ...]:
        """The windows that hold batches, by offset."""
        return tuple(window(number, self._bits, *sums) for number, sums in sorted(self._sums.items()))


# Batches of magic 2 that stand one behind the other, many at a time: read by plain Python, judged and summed up as columns by numpy.
# A batch costs a microsecond so, a tenth of what it costs as a value of its own. Only batches are taken that continue the log, whatever
# their CRC says; the first one that does not, or is of another kind, is left to `segment_scan.batches_between`, which alone knows what is
# wrong.

_Numbers: TypeAlias = np.ndarray[Any, Any]
_SMALLEST = V2_HEADER.size - LOG_OVERHEAD
_WINDOW = 1 << 20  # bytes read at once
_LARGEST = 1 << 18  # larger batches are left to the reader that takes them in parts
_WINDOWS, _BATCHES = 16, 1 << 12  # after which what was read is summed up
_LENGTH, _MAGIC = V2_AT["length"], V2_AT["magic"]
_length_of = struct.Struct(">i").unpack_from


@dataclass(frozen=True)
class BatchColumns:
    """Batches in file order: the bytes where they begin, their first 61 bytes (RAW_HEADER), and whether each matches its CRC.

    `crc_valid` is None where CRCs were not verified.
    """

    positions: _Numbers
    headers: _Numbers
    crc_valid: _Numbers | None

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def each(self) -> BatchRun:
        """Every batch as a run of its own, the fields of which are columns."""
        raw, ones = self.headers, np.ones(len(self), np.int64)
        base, times = raw["base_offset"].astype(np.int64), raw["max_timestamp"].astype(np.int64)
        columns = [
            *(raw["leader_epoch"].astype(np.int64), base, base + raw["last_offset_delta"], ones, raw["record_count"].astype(np.int64)),
            *(raw["length"].astype(np.int64) + LOG_OVERHEAD, times, times, 2 * ones),
            ones if self.crc_valid is None else self.crc_valid.astype(np.int64),
        ]
        return BatchRun._make(columns)

    def for_index(self) -> dict[str, _Numbers]:
        """The columns of a batch index, in any types; codec and flags as `attributes`, no `crc_valid` where CRCs were not verified."""
        each, raw = self.each, self.headers
        made: dict[str, Any] = {"position": self.positions, "base_offset": each.first_offset, "last_offset": each.last_offset}
        made |= {"size_bytes": each.size_bytes, "max_timestamp_ms": each.max_timestamp_ms}
        same = ("magic", "leader_epoch", "record_count", "crc", "attributes", "producer_id", "producer_epoch", "base_sequence")
        made |= {name: raw[name] for name in same}
        return made if self.crc_valid is None else made | {"crc_valid": self.crc_valid}

    def first_bad_crc(self) -> int | None:
        """Where the first batch begins that does not match its CRC."""
        if self.crc_valid is None or self.crc_valid.all():
            return None
        return int(self.positions[np.argmin(self.crc_valid)])

    def runs(self) -> list[BatchRun]:
        """The runs that they make up, in file order."""
        each: Any = self.each
        before, behind = (BatchRun._make(column[part] for column in each) for part in (slice(None, -1), slice(1, None)))
        starts = np.flatnonzero(np.append(True, ~np.asarray(continues(before, behind))))
        lasts = np.append(starts[1:], len(self)) - 1
        sums = (np.add.reduceat(column, starts) for column in (each.batch_count, each.record_count, each.size_bytes))
        times = (np.minimum.reduceat(each.min_timestamp_ms, starts), np.maximum.reduceat(each.max_timestamp_ms, starts))
        ends = (each.leader_epoch[starts], each.first_offset[starts], each.last_offset[lasts])
        columns = [column.tolist() for column in (*ends, *sums, *times, each.magic[starts], each.intact[starts] != 0)]
        return [BatchRun._make(row) for row in zip(*columns, strict=True)]

    def add_to(self, windows: WindowSums) -> None:
        """Count every batch in the window that it begins in."""
        first = self.each.first_offset
        numbers: Any = np.asarray(first) >> WINDOW_BITS
        digests = digest(
            *(np.asarray(column).astype(np.uint64) for column in (first, self.headers["last_offset_delta"], self.headers["crc"]))
        )
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        counts = np.diff(np.append(starts, len(self)))
        for number, total, count in zip(numbers[starts].tolist(), np.add.reduceat(digests, starts).tolist(), counts.tolist(), strict=True):
            windows.add(number, total, count)

    def producers(self) -> Producers:
        """Who wrote them."""
        return producers_of(self.each, self.headers, self.crc_valid)


def read_columns(stream: BinaryIO, size: int, position: int, next_offset: int, *, verify_crc: bool) -> BatchColumns:
    """Some of the next batches of a file, as far as they can be taken: those of a window, or so many headers.

    Args:
        stream: the file, seekable.
        size: as long as the file counts, in bytes.
        position: of the next batch.
        next_offset: the least that it may begin with.
        verify_crc: whether to read every byte.
    """
    places: list[int] = []
    heads: list[bytes] = []
    crcs: list[int] = []
    stream.seek(position)
    if verify_crc:
        _whole_batches(stream, size, places, heads, crcs)
    else:
        _headers_alone(stream, size, places, heads)
    headers = np.frombuffer(b"".join(heads), RAW_HEADER)
    sound = _sound(headers, next_offset)
    valid = np.array(crcs[:sound], np.uint32) == headers["crc"][:sound] if verify_crc else None
    return BatchColumns(np.array(places[:sound], np.int64), headers[:sound], valid)


def _whole_batches(stream: BinaryIO, size: int, places: list[int], heads: list[bytes], crcs: list[int]) -> None:
    """Add place, header and actual CRC of the next batches."""
    begin, windows, at = stream.tell(), _WINDOWS, 1
    while at and windows and len(heads) < _BATCHES:
        content = stream.read(min(_WINDOW, size - begin))
        view, at, last = memoryview(content), 0, len(content) - V2_HEADER.size
        while at <= last and content[at + _MAGIC] == 2:
            (length,) = _length_of(content, at + _LENGTH)
            end = at + LOG_OVERHEAD + length
            if not _SMALLEST <= length <= _LARGEST or end > len(content):
                break
            places.append(begin + at)
            heads.append(content[at : at + V2_HEADER.size])
            crcs.append(crc32c.crc32c(view[at + V2_CRC_FROM : end]))
            at = end
        begin, windows = begin + at, windows - 1
        stream.seek(begin)


def _headers_alone(stream: BinaryIO, size: int, places: list[int], heads: list[bytes]) -> None:
    """Add place and header of the next batches; what is between is not read."""
    at = stream.tell()
    while at + V2_HEADER.size <= size and len(heads) < _BATCHES:
        head = stream.read(V2_HEADER.size)
        if len(head) < V2_HEADER.size or head[_MAGIC] != 2:
            break
        (length,) = _length_of(head, _LENGTH)
        end = at + LOG_OVERHEAD + length
        if length < _SMALLEST or end > size:
            break
        places.append(at)
        heads.append(head)
        at = end
        stream.seek(at)


def _sound(headers: _Numbers, next_offset: int) -> int:
    """How many of the first ones have a possible header, and offsets above those of the one before."""
    base, delta = headers["base_offset"].astype(np.int64), headers["last_offset_delta"].astype(np.int64)
    possible = (delta >= 0) & (headers["record_count"] >= 0) & (base >= 0) & (base <= LAST_OFFSET - delta)
    following = np.concatenate(([next_offset], base[:-1] + delta[:-1] + 1)) if len(base) else base
    wrong = np.flatnonzero(~(possible & (base >= following)))
    return int(wrong[0]) if len(wrong) else len(headers)


MAX_RUNS = 10_000  # per segment; only a compacted one has that many holes, and there they prove nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One segment in few rows: `runs` in file order, where reading stopped, and the byte position of the first batch with a wrong CRC.

    `went_back`: where its offsets first do, though reading goes on.
    `windows` are digests of the batches before the damage, by offset; `producers` are theirs. `index_problems`: which of the index files
    beside it mislead a broker.
    """

    runs: tuple[BatchRun, ...]
    damage: Damage | None
    first_bad_crc: int | None
    windows: tuple[Window, ...] = ()
    producers: Producers = NO_PRODUCERS
    went_back: Damage | None = None
    index_problems: tuple[Problem, ...] = ()


class SegmentFold:
    """What was read of a segment so far. The next batch begins at byte `position` and may not begin below `next_offset`.

    A run ends where the epoch changes, an offset is missing, or CRCs start or stop to match. Beyond `MAX_RUNS` missing offsets end none.
    """

    def __init__(self, base_offset: int) -> None:
        self.position = 0
        self.next_offset = base_offset
        self.runs: list[BatchRun] = []
        self.windows = WindowSums()
        self.producers = ProducerSums()
        self.first_bad_crc: int | None = None
        self._damage: Damage | None = None
        self._went_back: Damage | None = None

    def add(self, item: BatchHeader | Damage) -> None:
        """Add the next batch, or what is wrong behind the last one."""
        if isinstance(item, Damage):
            if not item.goes_on:
                self._damage = item
            elif self._went_back is None:
                self._went_back = item
            return
        intact, time = item.crc_valid is not False, item.max_timestamp_ms
        if not intact and self.first_bad_crc is None:
            self.first_bad_crc = item.position
        counts = (1, records_in(item), item.size_bytes)
        self._add_run(BatchRun(item.leader_epoch, item.base_offset, item.last_offset, *counts, time, time, item.magic, intact))
        self.windows.add_batch(item)
        self.producers.add_batch(item)
        self.position, self.next_offset = item.position + item.size_bytes, item.last_offset + 1

    def add_columns(self, batches: BatchColumns) -> None:
        """Add the next batches, of which there is at least one."""
        if self.first_bad_crc is None:
            self.first_bad_crc = batches.first_bad_crc()
        runs = batches.runs()
        for run in runs:
            self._add_run(run)
        batches.add_to(self.windows)
        self.producers.add(*batches.producers())
        self.position += sum(run.size_bytes for run in runs)
        self.next_offset = runs[-1].last_offset + 1

    def runs_left(self) -> int:
        """How many more runs missing offsets may begin."""
        return MAX_RUNS - len(self.runs)

    def _add_run(self, run: BatchRun) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and (continues(last, run) or (self.runs_left() <= 0 and same_kind(last, run))):
            self.runs[-1] = joined(last, run)
        else:
            self.runs.append(run)

    def scan(self) -> Scan:
        """All that was read."""
        return Scan(
            runs=tuple(self.runs),
            damage=self._damage,
            first_bad_crc=self.first_bad_crc,
            windows=self.windows.windows(),
            producers=self.producers.producers(),
            went_back=self._went_back,
        )
