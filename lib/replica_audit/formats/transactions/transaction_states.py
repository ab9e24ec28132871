"""The last state of every transactional id in one partition of `__transaction_state`, from its segments or text of kafka-dump-log.

Source: TransactionStateManager.loadTransactionMetadata (core, 4.2.0): the last record of an id counts, one without a value removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.errors import SegmentError
from replica_audit.formats.coordinator_records.record_events import RecordDecoder
from replica_audit.formats.coordinator_records.records_of_log import ReportedAs, records_of_log
from replica_audit.formats.coordinator_records.text_records import TextRecord
from replica_audit.formats.segment.records import Record
from replica_audit.formats.transactions.transaction_record import transaction_value, transactional_id
from replica_audit.formats.transactions.transaction_text import DECODED, decoded_state
from replica_audit.formats.transactions.written_state import WrittenState
from replica_audit.model import BatchHeader, Problem, SegmentFile, TransactionState

KIND = "transaction-state"

_REMEDY = "how the transactions in it ended is unknown; another replica of the partition may have it intact"
_DUMP_AGAIN = {
    "not-decoded": "dump the segment again with --transaction-log-decoder, or give the segment itself",
    "not-copied": "collect with a higher --group-offsets-limit",
    "deletion-without-key": "the transactional ids found may include deleted ones: dump again with kafka-dump-log 2.4 or newer",
}


class _Written(NamedTuple):
    """A record of a transactional id; without a value it deletes."""

    record_offset: int
    transactional_id: str
    value: WrittenState | None


def transaction_states(files: Sequence[SegmentFile], log_end_offset: int | None = None) -> tuple[list[TransactionState], list[Problem]]:
    """The state that a coordinator that loads the partition would know of each transactional id.

    A batch or record that cannot be used is a problem, of kind `transaction-state`, and left out. Where a segment stops being a log what
    stands before counts.

    Args:
        files: the segments that make up the log of one partition, in any order.
        log_end_offset: where the log ends (exclusive); records at and above it are left out, but reported where they cannot be used. None:
            all count.

    Returns:
        States ordered by transactional id; problems in the order of the files, of each some more than `MAX_PROBLEMS` at most.
    """
    states: dict[str, WrittenState] = {}
    problems: list[Problem] = []
    for event, _path in records_of_log(files, log_end_offset, _DECODER, _REPORTED, problems):
        if event.value is None:
            states.pop(event.transactional_id, None)
        else:
            states[event.transactional_id] = event.value
    return [TransactionState(transactional_id=name, **value._asdict()) for name, value in sorted(states.items())], problems


def _of_bytes(record: Record, batch: BatchHeader) -> _Written | None:
    if batch.is_control:
        return None
    if record.key is None:
        raise SegmentError("it has no key")
    return _Written(record.offset, transactional_id(record.key), None if record.value is None else transaction_value(record.value))


def _of_text(record: TextRecord) -> _Written | None:
    return None if record.end_of_txn is not None else _Written(record.offset, *decoded_state(record))


_DECODER: RecordDecoder[_Written] = RecordDecoder(of_bytes=_of_bytes, of_text=_of_text, printed=DECODED, what="the state of transactions")
_REPORTED = ReportedAs(kind=KIND, remedy=_REMEDY, of_text=_DUMP_AGAIN)
