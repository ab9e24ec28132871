"""What a segment comes to while it is read: runs of one epoch, digests of what they hold, and where reading stopped."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.formats.segment.batch_columns import BatchColumns
from replica_audit.formats.segment.content_digest import WindowSums
from replica_audit.formats.segment.producer_sums import NO_PRODUCERS, ProducerSums
from replica_audit.model import BatchHeader, BatchRun, Damage, Problem, Producers, Window
from replica_audit.protocol.epochs.runs import continues, joined, same_kind
from replica_audit.protocol.exchange.cuts import records_in

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
