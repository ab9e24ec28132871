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
PRODUCER_ROOM = 1 << 14  # rows, a power of two, half of which are used; those that are not cost nothing
DONE, MORE = 0, 1  # what a scan returns: what follows is not for it, or it is to be called again
SKIP_FROM = 4096  # size of a batch from which on a read of the next header alone costs less than one of all the bytes between
# The state of a scan; positions and sizes are in bytes. The file `fd` (-1: none) counts as `size` long; the scan pauses behind the first
# batch that ends at `stop` or later. The file from `begin` to `end` is in memory at `buffer`, which has room for `capacity` bytes.
_FILE = ("fd", "size", "stop", "verify_crc", "buffer", "capacity", "begin", "end")
# Where it goes on, with the size of the batch before; `first_bad_crc` is -1 as long as there is none.
_FOLD = ("position", "next_offset", "last_size", "first_bad_crc", "run_count", "runs_left", "window_count", "header_count")
_PRODUCERS = ("producer_count", "gap_count", "untold_batches")
STATE = np.dtype([(name, np.int64) for name in (*_FILE, *_FOLD, *_PRODUCERS)])
# What is told of every batch, if that is asked for: a row of the table for each of these, a column for each batch.
HEADER = (
    *("position", "base_offset", "last_offset", "size_bytes", "magic", "leader_epoch", "record_count", "max_timestamp_ms", "crc"),
    *("attributes", "producer_id", "producer_epoch", "base_sequence", "crc_valid"),
)
_MOST = 1 << 62  # beyond which sums might overflow a word


class ScanTables:
    """The state of a scan, and the tables that it fills, from which `filled` moves what was found to a fold."""

    def __init__(self, fold: SegmentFold, header_room: int = 0, **state: int) -> None:
        """Go on where a fold is, with room for so many headers, if any."""
        self.fold, self.words = fold, np.zeros(1, STATE)
        self.state: Any = self.words[0]
        self.runs, self.windows = np.zeros((RUN_ROOM, len(BatchRun._fields)), np.int64), np.zeros((WINDOW_ROOM, 3), np.int64)
        self.headers = np.zeros((len(HEADER), header_room), np.int64)
        # the row of a producer is where its id is hashed to; the n-th to be used is named behind the n-th row
        self.producers = np.zeros((PRODUCER_ROOM, len(ProducerSpan._fields) + 1), np.int64)
        self.gaps = np.zeros((MAX_GAPS, len(SequenceGap._fields)), np.int64)
        self.set(**state)

    def set(self, **state: int) -> None:
        """Change fields of the state."""
        for name, value in state.items():
            self.state[name] = value

    def filled(self, scan: Callable[..., int]) -> bool:
        """Scan once, and move what was found to the fold, but for headers, which are gathered; whether there may be more."""
        fold, state = self.fold, self.state
        if max(fold.position, fold.next_offset) >= 1 << 63 or (fold.runs and fold.runs[-1].record_count >= _MOST):
            return False  # a word does not hold that, or not what one scan adds
        first_bad = -1 if fold.first_bad_crc is None else fold.first_bad_crc
        self.set(position=fold.position, next_offset=fold.next_offset, first_bad_crc=first_bad)
        self.set(run_count=bool(fold.runs), runs_left=fold.runs_left() + bool(fold.runs))
        if fold.runs:  # the next batch may continue it
            self.runs[0] = fold.runs.pop()
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
        state, count = self.state, int(self.state["producer_count"])
        used = self.producers[:count, -1]
        spans = map(ProducerSpan._make, self.producers[used, :-1].tolist())
        gaps = map(SequenceGap._make, self.gaps[: state["gap_count"]].tolist())
        self.fold.producers.add(spans, gaps, int(state["untold_batches"]))
        self.producers[used, :-1] = 0
        self.set(producer_count=0, gap_count=0, untold_batches=0)
