"""What the scan of a segment found wrong, as problems with a remedy; the same wherever the segment was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from replica_audit.errors import DumpLogError
from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.model import UNDEFINED_EPOCH, Problem, SegmentFile

_RESTORE = "else restore the segment from another replica"
_REMEDIES = {
    "torn-batch": f"none if it is the newest segment: the broker cuts the rest off when it recovers the log; {_RESTORE}",
    "trailing-bytes": f"none if it is the newest segment: the broker ignores the bytes; {_RESTORE}",
    "zero-filled-tail": f"none if it is the newest segment (a preallocated file after a crash); {_RESTORE}",
    "dump-truncated": "dump the segment again and keep the whole text",
    "dump-malformed": "dump the segment again with batch lines only, without --print-data-log",
}
TEXT_NOT_WHOLE = ("dump-truncated", "dump-malformed")  # what a text lacks the broker may well have
_DAMAGED = "the broker will not notice; move the replica's directory away on the broker and let it be recovered from the leader"
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
        return Scanned(NOTHING, [cannot_read(located(file.path), "segment", error)], True)
    runs = tuple(run._replace(leader_epoch=max(run.leader_epoch, UNDEFINED_EPOCH)) for run in found.runs)
    return Scanned(replace(found, runs=runs), list(_problems(file, found)), False)


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
    if found.damage is not None:
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code=found.damage.code,
            detail=found.damage.detail,
            remedy=_REMEDIES.get(found.damage.code, _DAMAGED),
            line=found.damage.line,
            byte_offset=found.damage.byte_offset,
        )
