"""What the leader wrote where its log differs, as far as it concerns some records: newer records of their keys, and retries of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from replica_audit.files.locations import located
from replica_audit.formats.replicas.keyed_records import FLAGS, HIGH, LOW, OFFSET, TIMESTAMP, KeyedRecords
from replica_audit.formats.salvage.log_records import bytes_at, sequence_of
from replica_audit.formats.segment.hashed_records import MARKER, Rows, hashed
from replica_audit.formats.segment.records import Record
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, Damage
from replica_audit.model.salvage import AuditedSegment, LeaderLog
from replica_audit.protocol.salvage.replay_choice import LeadersKey

_FOLLOWING = 3  # segments in which the end of a transaction is looked for
_NONE = -1


class KeysOnLeader:
    """The newest record of each key that some records have, from an offset of the leader's log on.

    A key takes 32 bytes, however long it is. What the leader's producers aborted does not count; what is open there does.
    """

    def __init__(self, segment: AuditedSegment, end_offset: int) -> None:
        """Take the keys of a segment's records below an offset.

        Raises:
            OSError: it cannot be read.
        """
        parts = [rows[:, (HIGH, LOW)] for rows in _rows_of(segment, (), end_offset)]
        keys = np.unique(np.concatenate(parts), axis=0) if parts else np.empty((0, 2), np.int64)
        self._high, self._low = keys[:, 0].copy(), keys[:, 1].copy()
        self._offsets = np.full(len(keys), _NONE, np.int64)
        self._timestamps = np.full(len(keys), _NONE, np.int64)
        self._epochs: list[tuple[int, int]] = []  # first offset and epoch, ascending

    def look_through(self, leader: LeaderLog) -> None:
        """Look for the keys in the leader's log.

        Raises:
            OSError: it cannot be read.
        """
        self._epochs = sorted((run.first_offset, run.leader_epoch) for segment in leader.segments for run in segment.runs or ())
        if not len(self._high):
            return
        paths = [bytes_at(segment.file) or segment.file.path for segment in leader.segments]
        for place, segment in enumerate(leader.segments):
            for rows in _rows_of(segment, paths[place + 1 : place + 1 + _FOLLOWING], leader.log_end_offset):
                rows = rows[rows[:, OFFSET] >= leader.from_offset]
                rows = rows[np.argsort(rows[:, OFFSET], kind="stable")]  # of a key that comes twice the later one stays
                places = self._places(rows)
                is_known = places >= 0
                places, rows = places[is_known], rows[is_known]
                is_later = rows[:, OFFSET] > self._offsets[places]
                self._offsets[places[is_later]] = rows[is_later, OFFSET]
                self._timestamps[places[is_later]] = rows[is_later, TIMESTAMP]

    def of(self, records: Sequence[Record]) -> list[LeadersKey | None]:
        """For each record what the leader has of its key."""
        if not len(self._high):
            return [None] * len(records)
        places = self._places(hashed(records))
        return [
            self._found(place) if record.key is not None and place >= 0 else None for place, record in zip(places, records, strict=True)
        ]

    def _found(self, place: int) -> LeadersKey | None:
        offset = int(self._offsets[place])
        if offset < 0:
            return None
        at = bisect_right(self._epochs, (offset, 1 << 31)) - 1
        return LeadersKey(offset=offset, leader_epoch=self._epochs[at][1] if at >= 0 else -1, timestamp_ms=int(self._timestamps[place]))

    def _places(self, rows: Rows) -> Rows:
        """Where the key of each row is among the known ones; -1: nowhere."""
        places = np.searchsorted(self._high, rows[:, HIGH])
        places[places == len(self._high)] = 0
        found: Rows = np.where((self._high[places] == rows[:, HIGH]) & (self._low[places] == rows[:, LOW]), places, _NONE)
        return found


def _rows_of(segment: AuditedSegment, following: Sequence[str], end_offset: int) -> Iterable[Rows]:
    path = located(bytes_at(segment.file) or segment.file.path)
    for rows in KeyedRecords((), end_offset).read(path, [located(one) for one in following]):
        yield rows[(rows[:, FLAGS] & MARKER) == 0]


class Resent:
    """Which records the leader got again from their producer: those of the same producer id, epoch and sequence."""

    def __init__(self) -> None:
        """Nothing is wanted yet."""
        self._wanted: dict[tuple[int, int], tuple[int, int]] = {}
        self._found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def want(self, batch: BatchHeader) -> None:
        """Look for the records of a batch."""
        if batch.producer_id < 0 or batch.base_sequence < 0 or batch.is_control:
            return
        producer, last = (batch.producer_id, batch.producer_epoch), sequence_of(batch, batch.last_offset)
        if last >= batch.base_sequence:  # beyond the largest sequence nothing is recognised
            lowest, highest = self._wanted.get(producer, (batch.base_sequence, last))
            self._wanted[producer] = (min(lowest, batch.base_sequence), max(highest, last))

    def look_through(self, leader: LeaderLog) -> None:
        """Look for them in the leader's log.

        Raises:
            OSError: it cannot be read.
        """
        for segment in leader.segments if self._wanted else ():
            for batch in read_batches(located(bytes_at(segment.file) or segment.file.path), verify_crc=False):
                if isinstance(batch, Damage):
                    continue  # the last one, or offsets go back at the next
                if batch.base_offset >= leader.log_end_offset:
                    break
                producer = (batch.producer_id, batch.producer_epoch)
                if batch.base_offset < leader.from_offset or producer not in self._wanted or batch.is_control:
                    continue
                lowest, highest = self._wanted[producer]
                last = sequence_of(batch, batch.last_offset)
                if batch.base_sequence >= 0 and batch.base_sequence <= highest and last >= lowest:
                    self._found.setdefault(producer, []).append((batch.base_sequence, last, batch.base_offset))
        for spans in self._found.values():
            spans.sort()

    def offset_of(self, batch: BatchHeader, offset: int) -> int | None:
        """The offset at which the leader has a record of a batch again; None if it does not."""
        spans = self._found.get((batch.producer_id, batch.producer_epoch))
        if not spans or batch.base_sequence < 0:
            return None
        sequence = sequence_of(batch, offset)
        place = bisect_right(spans, (sequence, 1 << 62, 0)) - 1
        if place < 0 or not spans[place][0] <= sequence <= spans[place][1]:
            return None
        return spans[place][2] + sequence - spans[place][0]
