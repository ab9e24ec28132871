"""Between the compiled scans, which work on tables of 64-bit words, and the values that Python sums a segment up in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from replica_audit.formats.segment.record_batch import RAW_HEADER
from replica_audit.formats.segment.segment_fold import SegmentFold
from replica_audit.model import BatchRun

Words: TypeAlias = np.ndarray[Any, np.dtype[Any]]
RUN_ROOM, WINDOW_ROOM = 128, 256  # rows
DONE, MORE = 0, 1  # what a scan returns: what follows is not for it, or it is to be called again
SKIP_FROM = 4096  # size of a batch from which on a read of the next header alone costs less than one of all the bytes between
# The state of a scan; positions and sizes are in bytes. The file `fd` (-1: none) counts as `size` long; the scan pauses behind the first
# batch that ends at `stop` or later. The file from `begin` to `end` is in memory at `buffer`, which has room for `capacity` bytes.
_FILE = ("fd", "size", "stop", "verify_crc", "buffer", "capacity", "begin", "end")
# Where it goes on, with the size of the batch before; `first_bad_crc` is -1 as long as there is none.
_FOLD = ("position", "next_offset", "last_size", "first_bad_crc", "run_count", "runs_left", "window_count", "header_count")
# A text is read from byte `begin` of the buffer on. `form_line` is the address of a line of the form, `intact` what that says of the CRC;
# `records` counts lines since the last one of a batch, which begins at byte `last_line`, -1 if there was none.
_TEXT = ("form_line", "intact", "lines", "records", "is_deep", "last_line")
STATE = np.dtype([(name, np.int64) for name in (*_FILE, *_FOLD, *_TEXT)])
# A form has rows of five words: where in its line the bytes begin that have to be the same, how many, what follows them, and the least and
# most that it may be. What follows is the place for a number, or one of these.
FORM_WORD, FORM_END = -1, -2
# One row for each batch: where it begins, whether it matches its CRC, and its first 64 bytes as they stand in the file.
HEADER_ROW = np.dtype([("position", np.int64), ("intact", np.int64), ("header", RAW_HEADER), ("", f"V{64 - RAW_HEADER.itemsize}")])
_MOST = 1 << 62  # beyond which sums might overflow a word


class ScanTables:
    """The state of a scan, and the tables that it fills, from which `filled` moves what was found to a fold."""

    def __init__(self, fold: SegmentFold, header_room: int = 0, **state: int) -> None:
        """Go on where a fold is, with room for so many rows of headers, if any."""
        self.fold, self.words = fold, np.zeros(1, STATE)
        self.state: Any = self.words[0]
        self.runs, self.windows = np.zeros((RUN_ROOM, len(BatchRun._fields)), np.int64), np.zeros((WINDOW_ROOM, 3), np.int64)
        self.headers = np.zeros((header_room, HEADER_ROW.itemsize // 8), np.int64)
        self.set(**state)

    def set(self, **state: int) -> None:
        """Change fields of the state."""
        for name, value in state.items():
            self.state[name] = value

    def filled(self, scan: Callable[..., int], *more: Words) -> bool:
        """Scan once, and move what was found to the fold; whether there may be more."""
        fold, state = self.fold, self.state
        if max(fold.position, fold.next_offset) >= 1 << 63 or (fold.runs and fold.runs[-1].record_count >= _MOST):
            return False  # a word does not hold that, or not what one scan adds
        first_bad = -1 if fold.first_bad_crc is None else fold.first_bad_crc
        self.set(position=fold.position, next_offset=fold.next_offset, first_bad_crc=first_bad, header_count=0)
        self.set(run_count=bool(fold.runs), runs_left=fold.runs_left() + bool(fold.runs))
        if fold.runs:  # the next batch may continue it
            self.runs[0] = fold.runs.pop()
        is_more = scan(self.words, self.runs, self.windows, *more) == MORE
        for row in self.runs[: state["run_count"]].tolist():
            fold.runs.append(BatchRun._make((*row[:-1], bool(row[-1]))))
        for row in self.windows[: state["window_count"]].tolist():
            fold.windows.add(*row)
        fold.position, fold.next_offset = int(state["position"]), int(state["next_offset"])
        fold.first_bad_crc = None if state["first_bad_crc"] < 0 else int(state["first_bad_crc"])
        return is_more
