"""Between the compiled scans, which work on tables of 64-bit words, and the values that Python sums a segment up in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from replica_audit.formats.segment.producer_sums import MAX_GAPS
from replica_audit.formats.segment.segment_fold import SegmentFold
from replica_audit.model import BatchRun, ProducerSpan, SequenceGap

Words: TypeAlias = np.ndarray[Any, np.dtype[Any]]
RUN_ROOM, WINDOW_ROOM = 128, 256  # rows
# Rows, a power of two, half of which are used. Few at first: to get the memory of many takes longer than to scan a small file.
PRODUCER_ROOM, MOST_PRODUCER_ROOM = 1 << 6, 1 << 14
DONE, MORE = 0, 1  # what a scan returns: what follows is not for it, or it is to be called again
SKIP_FROM = 4096  # size of a batch from which on a read of the next header alone costs less than one of all the bytes between
_STATE = (
    # Positions and sizes are in bytes. The file `fd` (-1: none) counts as `size` long; the scan pauses behind the first batch that ends at
    # `stop` or later. The file from `begin` to `end` is in memory at `buffer`, which has room for `capacity` bytes.
    *("fd", "size", "stop", "verify_crc", "buffer", "capacity", "begin", "end"),
    # Where it goes on, with the size of the batch before; `first_bad_crc` is -1 as long as there is none.
    *("position", "next_offset", "last_size", "first_bad_crc", "run_count", "runs_left", "window_count", "header_count"),
    *("producer_count", "gap_count", "untold_batches"),
)
HEADER = (  # what is told of every batch, if that is asked for
    *("position", "size_bytes", "crc_valid", "base_offset", "last_offset", "magic", "leader_epoch", "record_count", "max_timestamp_ms"),
    *("crc", "attributes", "producer_id", "producer_epoch", "base_sequence"),
)
_SPAN = (*ProducerSpan._fields, "place")  # stands where its producer's id is hashed to; the n-th to be used is named in the n-th row
STATE, RUN, WINDOW, HEADERS, SPAN, GAP = KINDS = tuple(
    np.dtype([(name, np.int64) for name in names])
    for names in (_STATE, BatchRun._fields, ("number", "digest", "batch_count"), HEADER, _SPAN, SequenceGap._fields)
)
_MOST = 1 << 62  # beyond which sums might overflow a word


class ScanTables:
    """The state of a scan, and the tables that it fills, from which `filled` moves what was found to a fold."""

    def __init__(self, fold: SegmentFold, header_room: int = 0, **state: int) -> None:
        """Go on where a fold is, with room for so many headers, if any."""
        self.fold, self.words = fold, np.zeros(1, STATE)
        self.state: Any = self.words[0]
        self.runs, self.windows, self.headers = np.zeros(RUN_ROOM, RUN), np.zeros(WINDOW_ROOM, WINDOW), np.zeros(header_room, HEADERS)
        # the last rows are for the batch at hand, and for gaps that are not listed
        self.producers, self.gaps = np.zeros(PRODUCER_ROOM + 1, SPAN), np.zeros(MAX_GAPS + 1, GAP)
        self.set(**state)

    def set(self, **state: int) -> None:
        """Change fields of the state."""
        for name, value in state.items():
            self.state[name] = value

    def filled(self, scan: Callable[..., int]) -> bool:
        """Scan once, and move what was found to the fold, except headers, which are gathered; whether there may be more."""
        fold, state = self.fold, self.state
        if max(fold.position, fold.next_offset) >= 1 << 63 or (fold.runs and fold.runs[-1].record_count >= _MOST):
            return False  # a word does not hold that, or not what one scan adds
        first_bad = -1 if fold.first_bad_crc is None else fold.first_bad_crc
        self.set(position=fold.position, next_offset=fold.next_offset, first_bad_crc=first_bad)
        self.set(run_count=bool(fold.runs), runs_left=fold.runs_left() + bool(fold.runs))
        if fold.runs:  # the next batch may continue it
            self.runs[0] = tuple(fold.runs.pop())
        is_more = scan(self.words, self.runs, self.windows, self.headers, self.producers, self.gaps) == MORE
        for row in self.runs[: state["run_count"]].tolist():
            fold.runs.append(BatchRun._make((*row[:-1], bool(row[-1]))))
        for row in self.windows[: state["window_count"]].tolist():
            fold.windows.add(*row)
        self._move_producers()
        fold.position, fold.next_offset = int(state["position"]), int(state["next_offset"])
        fold.first_bad_crc = None if state["first_bad_crc"] < 0 else int(state["first_bad_crc"])
        return is_more

    def _move_producers(self) -> None:
        state = self.state
        used = self.producers["place"][: state["producer_count"]].copy()
        spans = (ProducerSpan._make(row[:-1]) for row in self.producers[used].tolist())
        gaps = map(SequenceGap._make, self.gaps[:-1][: state["gap_count"]].tolist())
        self.fold.producers.add(spans, gaps, int(state["untold_batches"]))
        self.producers[used] = 0
        room = len(self.producers) - 1
        if len(used) >= room // 2 and room < MOST_PRODUCER_ROOM:
            self.producers = np.zeros(4 * room + 1, SPAN)
        self.set(producer_count=0, gap_count=0, untold_batches=0)
