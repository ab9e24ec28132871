"""The index files of a segment against its batches, while these are read: what misleads a broker that follows an index.

Entries are read before the segment: a running broker writes a batch before the entry that names it. Of the batches nothing is kept but what
transactions take.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from replica_audit.formats.log_dir.names import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from replica_audit.formats.log_dir.small_files import LIST_LIMIT
from replica_audit.formats.producer_files import ENTRY_BYTES, MOST_BYTES, aborted_transactions, marker_in
from replica_audit.formats.segment.record_batch import CONTROL, TRANSACTIONAL, V2_HEADER
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import TAILS
from replica_audit.model import MISLEADING_INDEX, PERHAPS_MISLEADING_INDEX, BatchHeader, Problem
from replica_audit.protocol.transactions.producer_spans import index_contradictions

Numbers: TypeAlias = np.ndarray[Any, Any]
OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_BYTES_AT_ONCE = 24 << 10  # a multiple of both sizes
_ZEROS = bytes(_BYTES_AT_ONCE)


class IndexEntries:
    """The entries in the order of the file. `is_cut`: the file ends with them, as that of a segment that was rolled or closed does."""

    def __init__(self, content: bytes, entry: np.dtype[Any], count: int, base_offset: int, *, is_cut: bool) -> None:
        """So many entries of a kind at the beginning of some content."""
        self.is_cut, self._count, self._base_offset = is_cut, count, base_offset
        self._content, self._entry = content, entry

    def __len__(self) -> int:
        return self._count

    @cached_property
    def offsets(self) -> Numbers:
        """The offset of each."""
        return self._rows["offset"].astype(np.int64) + self._base_offset

    @cached_property
    def values(self) -> Numbers:
        """The position, or the timestamp, of each."""
        return self._rows["position" if self._entry is OFFSET_ENTRY else "timestamp"].astype(np.int64)

    @cached_property
    def _rows(self) -> Numbers:
        return np.frombuffer(self._content, self._entry, self._count)

    def is_older(self, timestamp: int) -> bool:
        """Whether an entry of a time index has a lower timestamp."""
        if self._count == 1:  # as of most segments
            return int.from_bytes(self._content[:8], "big", signed=True) < timestamp
        return bool((self.values < timestamp).any())


def index_entries(stream: BinaryIO, entry: np.dtype[Any], base_offset: int) -> IndexEntries | None:
    """Read the entries of an index, and at most some KiB of the zeros behind them; None if there are none.

    Args:
        stream: at the beginning of the file.
        entry: OFFSET_ENTRY or TIME_ENTRY.
        base_offset: of the segment.

    Raises:
        OSError: the file cannot be read.
    """
    content, is_cut, is_more = b"", True, True
    while is_more:
        part = stream.read(_BYTES_AT_ONCE)
        is_more = len(part) == _BYTES_AT_ONCE
        if part == _ZEROS[: len(part)]:
            is_cut, is_more = not part, False
        else:
            content += part
    whole = len(content) // entry.itemsize
    count = min(whole, -(-len(content.rstrip(b"\0")) // entry.itemsize))
    if not count:
        return None
    return IndexEntries(content, entry, count, base_offset, is_cut=is_cut and count == whole)


# When an entry of an offset index or a time index leads a broker past records.
# Sources: LogSegment.translateOffset and findOffsetByTimestamp, OffsetIndex.lookup, TimeIndex.lookup (0.10.1 to 4.0). A lookup takes an
# entry that is not above what is looked for, wherever the entry stands, and the log is searched from its batch on. So each entry is right
# or wrong by itself. One that points too early only takes longer: brokers write one for all that was appended at once, with the position
# of the first batch, and since 2.0 the offset of the last.
# Written so that the same functions take numbers of Python and whole columns.


def skips_offsets(offset: int, *, last_before: int, begins_batch: bool) -> bool:
    """Whether a read of an offset, or of a later one, that follows an entry does not find its batch.

    Args:
        offset: of the entry.
        last_before: the last offset of the batches that begin before its position; below every offset if there are none.
        begins_batch: whether a batch begins at its position.
    """
    return (last_before >= offset) | (begins_batch ^ True)


def skips_times(timestamp: int, *, newest_before: int) -> bool:
    """Whether a search for a timestamp that follows an entry passes over a record that is as new.

    Args:
        timestamp: of the entry.
        newest_before: the largest timestamp of the batches that end before its offset; below every timestamp if there are none.
    """
    return newest_before > timestamp


# The index files of a segment against its batches, while these are read: what misleads a broker that follows an index.
# Entries are read before the segment: a running broker writes a batch before the entry that names it. Of the batches nothing is kept but
# what transactions take.

Opened = Callable[[str], BinaryIO]  # opens the file beside the segment whose name ends so
ReadAt = Callable[[int, int], bytes]  # so many bytes of the segment, from a position on
TRANSACTION_INDEX_KIND = "transaction-index"
REMEDY = (
    "stop the broker and move this file and the .index of the same segment away: a broker that starts without the .index recovers the "
    "segment, and writes both again"
)
_KINDS = {OFFSET_INDEX: "offset-index", TIME_INDEX: "time-index"}
_COLUMNS = ("position", "size_bytes", "base_offset", "last_offset", "max_timestamp_ms", "attributes", "producer_id", "record_count")
_AT_ONCE = 1 << 12  # batches
_BELOW_ALL = -(1 << 63)


def reader_of(descriptor: int) -> ReadAt:
    """Read an open segment at positions."""
    return lambda position, size: os.pread(descriptor, size, position)


class _Followed:
    """The entries of one index in the order in which the batches pass them, and what is found of each.

    `before` is the last offset, or the largest timestamp, of the batches before an entry; `begins`: a batch begins where it points;
    `fits`: it is what a broker would write of a batch that is there.
    """

    def __init__(self, entries: IndexEntries, by: str) -> None:
        """Pass entries in the order of a field of theirs."""
        self.entries, self._by, self._passed = entries, by, 0

    @cached_property
    def before(self) -> Numbers:
        return np.full(len(self.entries), _BELOW_ALL)

    @cached_property
    def begins(self) -> Numbers:
        return np.zeros(len(self.entries), bool)

    @cached_property
    def fits(self) -> Numbers:
        return np.zeros(len(self.entries), bool)

    @cached_property
    def _order(self) -> tuple[Numbers, Numbers]:
        keys: Numbers = getattr(self.entries, self._by)
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    def until(self, key: int) -> Numbers:
        """The places of the entries below a key that were not passed yet."""
        order, keys = self._order
        begin = self._passed
        self._passed = begin + int(np.searchsorted(keys[begin:], key))
        return order[begin : self._passed]


class IndexCheck:
    """The index files of a segment, held against the headers of its batches, which are handed over in order."""

    def __init__(self, base_offset: int, offsets: IndexEntries | None, times: IndexEntries | None, aborted: bytes | None) -> None:
        """Check entries; None of a file that is not there, or was not read. `aborted` is the content of the transaction index."""
        self._base_offset, self._aborted = base_offset, aborted
        self.has_offsets = offsets is not None
        self._offsets = _Followed(offsets, "values") if offsets is not None else None
        self._times = _Followed(times, "offsets") if times is not None else None
        self._rows: list[tuple[int, ...]] = []
        self._transactions: list[Numbers] = []
        self._last, self._newest = _BELOW_ALL, _BELOW_ALL  # offset and timestamp so far

    def may_find(self, scan: Scan) -> bool:
        """Whether batches have to be taken to know that nothing misleads, by the scan of a segment whose offset index has no entry."""
        newest = max((run.max_timestamp_ms for run in scan.runs), default=_BELOW_ALL)
        if self._times is not None and self._times.entries.is_older(newest):
            return True
        return bool(self._aborted) or (self._aborted is not None and any(span.marker_count for span in scan.producers.spans))

    def add(self, header: BatchHeader) -> None:
        """Take the next batch."""
        flags = (TRANSACTIONAL if header.is_transactional else 0) | (CONTROL if header.is_control else 0)
        place = (header.position, header.size_bytes, header.base_offset, header.last_offset, header.max_timestamp_ms)
        self._rows.append((*place, flags, header.producer_id, header.record_count or 0))
        if len(self._rows) == _AT_ONCE:
            self._gather()

    def add_columns(self, columns: Mapping[str, Numbers]) -> None:
        """Take the next ones, as `BatchColumns.for_index` has them."""
        self._gather()
        self._take({name: columns[name] for name in _COLUMNS})

    def _gather(self) -> None:
        if self._rows:
            columns = dict(zip(_COLUMNS, np.array(self._rows, np.int64).T, strict=True))
            self._rows = []
            self._take(columns)

    def _take(self, columns: Mapping[str, Numbers]) -> None:
        positions, firsts, lasts = columns["position"], columns["base_offset"], columns["last_offset"]
        newest = np.maximum.accumulate(np.maximum(columns["max_timestamp_ms"], self._newest))
        if self._offsets is not None:
            self._follow_offsets(self._offsets, positions, int(positions[-1] + columns["size_bytes"][-1]), firsts, lasts)
        if self._times is not None:
            self._follow_times(self._times, firsts, lasts, newest, columns["max_timestamp_ms"])
        if self._aborted is not None:
            self._keep_transactions(columns)
        self._last, self._newest = int(lasts[-1]), int(newest[-1])

    def _follow_offsets(self, index: _Followed, positions: Numbers, end: int, firsts: Numbers, lasts: Numbers) -> None:
        places = index.until(end)
        if not len(places):
            return
        offsets, wanted = index.entries.offsets[places], index.entries.values[places]
        at = np.searchsorted(positions, wanted, "right") - 1
        begins = (at >= 0) & (positions[at] == wanted)
        ends = np.append(lasts, self._last)  # the last one is of the batch before these
        before = ends[np.where(begins, at - 1, at)]
        ending = np.minimum(np.searchsorted(lasts, offsets), len(lasts) - 1)
        index.begins[places], index.before[places] = begins, before
        index.fits[places] = begins & (before < offsets) & ((lasts[ending] == offsets) | (firsts[at] == offsets))

    def _follow_times(self, index: _Followed, firsts: Numbers, lasts: Numbers, newest: Numbers, times: Numbers) -> None:
        places = index.until(int(lasts[-1]) + 1)
        if not len(places):
            return
        offsets, wanted = index.entries.offsets[places], index.entries.values[places]
        holding = np.searchsorted(lasts, offsets)
        before = np.append(newest, self._newest)[holding - 1]
        index.before[places] = before
        index.fits[places] = (firsts[holding] <= offsets) & (times[holding] == wanted) & (before <= wanted)

    def _keep_transactions(self, columns: Mapping[str, Numbers]) -> None:
        """Keep the markers, and of each producer the first batch behind one."""
        flags = columns["attributes"]
        rows = np.flatnonzero(flags & TRANSACTIONAL)
        if not len(rows):
            return
        rows = rows[np.argsort(columns["producer_id"][rows], kind="stable")]
        producers, are_markers = columns["producer_id"][rows], (flags[rows] & CONTROL) != 0
        follows = np.append(False, (producers[1:] == producers[:-1]) & ~are_markers[:-1])
        kept = np.sort(rows[are_markers | ~follows])
        self._transactions.append(np.stack([columns[name][kept].astype(np.int64) for name in _COLUMNS]))

    def problems(self, path: str, scan: Scan, read_at: ReadAt | None) -> list[Problem]:
        """What misleads a broker, at most one problem for each index file.

        Nothing of a segment with damage inside it, and nothing of what lies behind its last batch: the log may have been copied first.
        PERHAPS_MISLEADING_INDEX is the code of what may also come of a copy: of a log that was truncated, or cleaned, between the copies of
        two files.

        Args:
            path: of the segment.
            scan: of it, the batches of which were taken.
            read_at: reads the segment; None where that would take a request for each marker.

        Raises:
            OSError: a marker cannot be read.
        """
        self._gather()
        is_inside = scan.damage is not None and scan.damage.code not in TAILS
        if scan.went_back is not None or scan.first_bad_crc is not None or is_inside:
            return []
        stem = path.removesuffix(".log")
        found = [self._of_offsets(stem), self._of_times(stem), self._of_transactions(stem, read_at)]
        return [problem for problem in found if problem is not None]

    def _of_offsets(self, stem: str) -> Problem | None:
        index = self._offsets
        if index is None:
            return None
        offsets, positions = index.entries.offsets, index.entries.values
        index.before[index.until(1 << 62)] = self._last  # behind the last batch
        wrong: Any = skips_offsets(offsets, last_before=index.before, begins_batch=index.begins)  # type: ignore[arg-type]
        wrong &= offsets <= self._last

        def detail(place: int) -> str:
            offset, before = int(offsets[place]), int(index.before[place])
            leads = f"leads reads of offset {offset} to byte {positions[place]}"
            if not index.begins[place]:
                return f"{leads}, where no batch begins: they fail"
            return f"{leads}, behind offset {before}: they skip offsets {offset}..{before}"

        return _problem(index, wrong, stem + OFFSET_INDEX, OFFSET_ENTRY.itemsize, detail)

    def _of_times(self, stem: str) -> Problem | None:
        index = self._times
        if index is None:
            return None
        offsets, times = index.entries.offsets, index.entries.values
        wrong: Any = skips_times(times, newest_before=index.before)  # type: ignore[arg-type]
        wrong &= offsets <= self._last
        is_last_too_old = index.entries.is_cut and times[-1] < self._newest and not wrong[-1]
        if is_last_too_old and offsets[-1] <= self._last:
            wrong[-1] = True

        def detail(place: int) -> str:
            if is_last_too_old and place == len(times) - 1:
                return (
                    f"says that the newest record of the segment has timestamp {times[place]}, where one has {self._newest}: retention by "
                    "time deletes the segment too early"
                )
            before = int(index.before[place])
            return (
                f"says that no record before offset {offsets[place]} is newer than timestamp {times[place]}, where one has {before}: "
                f"lookups of timestamps up to that skip it"
            )

        return _problem(index, wrong, stem + TIME_INDEX, TIME_ENTRY.itemsize, detail)

    def _of_transactions(self, stem: str, read_at: ReadAt | None) -> Problem | None:
        if self._aborted is None or read_at is None:
            return None
        entries, error = aborted_transactions(self._aborted, self._base_offset)
        if error is not None or not (entries or self._transactions):
            return None
        batches = list(self._marked(read_at))
        found = index_contradictions(entries, batches, {}, log_start_offset=self._base_offset, is_sealed=True)
        return transaction_index_problem(stem + TRANSACTION_INDEX, "it", list(found))

    def _marked(self, read_at: ReadAt) -> Iterator[tuple[BatchHeader, bool | None]]:
        for columns in self._transactions:
            for position, size, first, last, _time, flags, producer_id, count in columns.T.tolist():
                is_abort = None
                if flags & CONTROL and count:
                    marker = marker_in(read_at(position + V2_HEADER.size, min(MOST_BYTES, size - V2_HEADER.size)))
                    is_abort = None if marker is None else not marker.is_commit
                yield _header(first, last, producer_id, flags), is_abort
        yield _header(self._last, self._last, -1, 0), None  # the end of the log


def _header(first: int, last: int, producer_id: int, flags: int) -> BatchHeader:
    flagged = bool(flags & TRANSACTIONAL), bool(flags & CONTROL)
    return BatchHeader(0, first, last, 0, 2, -1, None, -1, 0, None, "none", *flagged, producer_id, -1, -1)


def _problem(index: _Followed, wrong: Numbers, path: str, entry_bytes: int, detail: Callable[[int], str]) -> Problem | None:
    places = np.flatnonzero(wrong)
    if not len(places):
        return None
    fitting = np.flatnonzero(index.fits) if index.entries.is_cut else np.zeros(0, np.int64)
    # a log that changed after its index was copied differs from there on
    is_certain = bool(len(fitting)) and places[0] < fitting[-1]
    place = int(places[0])
    more = f"; and {len(places) - 1} more of its {len(wrong)} entries" if len(places) > 1 else ""
    return Problem(
        path=path,
        kind=_KINDS[path[path.rindex(".") :]],
        code=MISLEADING_INDEX if is_certain else PERHAPS_MISLEADING_INDEX,
        detail=f"entry {place} {detail(place)}{more}",
        remedy=REMEDY,
        byte_offset=place * entry_bytes,
    )


def transaction_index_problem(path: str, name: str, contradictions: list[str]) -> Problem | None:
    """That an index of aborted transactions contradicts its segment; None if it does not. `name` is how the file is called."""
    if not contradictions:
        return None
    more = f"; and {len(contradictions) - 1} more" if len(contradictions) > 1 else ""
    detail = f"{name} contradicts its segment: {contradictions[0]}{more}"
    return Problem(path=path, kind=TRANSACTION_INDEX_KIND, code=MISLEADING_INDEX, detail=detail, remedy=REMEDY)


def index_check(base_offset: int, beside: Collection[str], opened: Opened, *, reads_markers: bool) -> IndexCheck | None:
    """Read the indexes of a segment, to be checked while it is read; None where there is nothing to check.

    An index that cannot be read is not checked: where it matters, the broker finds that out when it starts.

    Args:
        base_offset: of the segment.
        beside: how the names of the files beside it end.
        opened: opens one of them.
        reads_markers: whether the segment can be read at markers, so that aborted transactions can be checked. Where the others are there,
            a transaction index that is not there has no entries.
    """
    offsets = _entries(OFFSET_INDEX, OFFSET_ENTRY, base_offset, beside, opened)
    times = _entries(TIME_INDEX, TIME_ENTRY, base_offset, beside, opened)
    aborted: bytes | None = None
    if reads_markers and OFFSET_INDEX in beside:
        aborted = b""
        if TRANSACTION_INDEX in beside:
            aborted = _aborted(opened)
    return IndexCheck(base_offset, offsets, times, aborted) if offsets or times or aborted is not None else None


def _aborted(opened: Opened) -> bytes | None:
    try:
        with opened(TRANSACTION_INDEX) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            return stream.read(size - size % ENTRY_BYTES) if size <= LIST_LIMIT else None
    except OSError:
        return None


def _entries(suffix: str, entry: np.dtype[Any], base_offset: int, beside: Collection[str], opened: Opened) -> IndexEntries | None:
    if suffix not in beside:
        return None
    try:
        with opened(suffix) as stream:
            return index_entries(stream, entry, base_offset)
    except OSError:
        return None
