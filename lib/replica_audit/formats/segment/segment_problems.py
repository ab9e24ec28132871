"""What the scan of a segment found wrong, as problems with a remedy; the same wherever the segment was read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from errno import ENOENT
from typing import NamedTuple

import crc32c

from replica_audit.errors import DumpLogError
from replica_audit.files.locations import located, opened
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.segment.record_batch import LOG_OVERHEAD, V2_AT, V2_CRC_FROM, V2_HEADER, length_in
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.model import GONE, UNDEFINED_EPOCH, Problem, SegmentFile

_RESTORE = "else restore the segment from another replica"
_IF_RECOVERED = (
    "none if it is the newest segment of a broker that recovers its log, as after a crash: it truncates them. After a clean stop it "
    "does not, and what it appends after them is unreadable"
)
_REMEDIES = {
    "torn-batch": f"{_IF_RECOVERED}; {_RESTORE}",
    "trailing-bytes": f"{_IF_RECOVERED}; {_RESTORE}",
    "zero-filled-tail": f"none if it is the newest segment (a preallocated file after a crash); {_RESTORE}",
    "dump-truncated": "dump the segment again and keep the whole text",
    "dump-malformed": "dump the segment again with batch lines only, without --print-data-log",
}
TEXT_NOT_WHOLE = ("dump-truncated", "dump-malformed")  # what a text lacks the broker may well have
IF_IT_LEADS = "if this is the leader, let another member of the ISR lead first, and leave the directory in place if there is none"
_DAMAGED = (
    "the broker will not notice; stop it, move the replica's directory away and let it fetch the log from the leader; keep the "
    f"directory; {IF_IT_LEADS}"
)
WRONG_CRC = "crc-mismatch"
TORN = ("torn-batch", "trailing-bytes")
ENDS_IN_NO_BATCH = (*TORN, "zero-filled-tail")  # what recovery cuts off, and nothing else does
APPENDED_BEHIND = "appended-behind-torn-batch"
# what a batch that is only half written never looks like: whatever is behind it cannot be read, though it may be whole
NO_BATCH = (APPENDED_BEHIND, "bad-batch-length", "bad-batch-header", "offsets-not-increasing")
_NOT_RECOVERED = (
    "the broker did not recover this log when it started, and wrote on after unreadable bytes: stop it, move the replica's "
    f"directory away and let it fetch the log from the leader; {IF_IT_LEADS}"
)
_WENT_BACK = (
    "copy the replica's directory before its broker starts or stops: log recovery does not truncate here, it keeps all of the segment or, "
    "where its index cannot take the offset (InvalidOffsetException), empties it and deletes what follows. Followers cannot fetch beyond "
    f"this batch. Keep the copy and rebuild the replica from one whose offsets rise; {IF_IT_LEADS}"
)
_LOOKED_AT = 4 << 20  # bytes behind the last batch; a batch has 1 MiB unless brokers are told otherwise
NOTHING = Scan(runs=(), damage=None, first_bad_crc=None)


class Scanned(NamedTuple):
    """A scan with its problems. `failed`: the file could not be read, or not as a segment, and nothing is known of it."""

    scan: Scan
    problems: list[Problem]
    failed: bool


def scanned(file: SegmentFile, scan: Callable[[SegmentFile], Scan]) -> Scanned:
    """Scan one segment; what fails becomes a problem."""
    try:
        found = scan(file)
    except DumpLogError as error:
        remedy = "dump the segment again, batch lines only"
        problem = Problem(path=file.path, kind="dump", code="unusable-dump", detail=error.reason, remedy=remedy, line=error.line)
        return Scanned(NOTHING, [problem], True)
    except OSError as error:
        problem = cannot_read(located(file.path), "segment", error)
        return Scanned(NOTHING, [replace(problem, code=GONE) if error.errno == ENOENT else problem], True)
    runs = tuple(run._replace(leader_epoch=max(run.leader_epoch, UNDEFINED_EPOCH)) for run in found.runs)
    return Scanned(replace(found, runs=runs), list(_problems(file, found)), False)


def _appended_behind(file: SegmentFile, position: int | None, next_offset: int) -> int | None:
    """Where a whole batch begins behind a torn one, as a broker leaves it that has not recovered the log; None if none is found.

    It is at the offset where the readable log ends, because there such a broker goes on.
    """
    if file.source != "raw" or position is None:
        return None
    try:
        with opened(located(file.path)) as stream:
            stream.seek(position)
            behind = stream.read(_LOOKED_AT)
    except OSError:
        return None
    begins = struct.pack(">q", next_offset)
    at = behind.find(begins, 1)
    while at >= 0:
        head = behind[at : at + V2_HEADER.size]
        if len(head) == V2_HEADER.size and head[V2_AT["magic"]] == 2:
            *_fields, crc = V2_HEADER.unpack(head)[:5]
            end = at + LOG_OVERHEAD + length_in(head)
            if at + V2_HEADER.size <= end <= len(behind) and crc32c.crc32c(behind[at + V2_CRC_FROM : end]) == crc:
                return position + at
        at = behind.find(begins, at + 1)
    return None


def _problems(file: SegmentFile, found: Scan) -> Iterator[Problem]:
    if found.first_bad_crc is not None:
        yield Problem(
            path=file.path,
            kind="segment",
            code="crc-mismatch",
            detail="the batch at this byte does not match its CRC: its bytes changed after they were written",
            remedy=_DAMAGED,
            byte_offset=found.first_bad_crc,
        )
    unstamped = next((run for run in found.runs if run.magic == 2 and run.leader_epoch < 0), None)
    if unstamped is not None:
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code="bad-leader-epoch",
            detail=f"the batch at offset {unstamped.first_offset} has leader epoch {unstamped.leader_epoch}, and no broker writes one "
            "below 0 in its format; the CRC does not cover it",
            remedy=_DAMAGED,
        )
    if found.went_back is not None:
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code=found.went_back.code,
            detail=f"{found.went_back.detail}; it matches its CRC, and so may what is behind it",
            remedy=_WENT_BACK,
            line=found.went_back.line,
            byte_offset=found.went_back.byte_offset,
        )
    if found.damage is not None:
        next_offset = found.runs[-1].last_offset + 1 if found.runs else file.base_offset
        behind = _appended_behind(file, found.damage.byte_offset, next_offset) if found.damage.code in TORN else None
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code=found.damage.code if behind is None else APPENDED_BEHIND,
            detail=found.damage.detail if behind is None else f"{found.damage.detail}, and a whole batch at byte {behind} among them",
            remedy=_REMEDIES.get(found.damage.code, _DAMAGED) if behind is None else _NOT_RECOVERED,
            line=found.damage.line,
            byte_offset=found.damage.byte_offset,
        )
    yield from found.index_problems
