"""The last state of every transactional id in one partition of `__transaction_state`, from its segments or text of kafka-dump-log."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.formats.coordinators.records import (
    RecordDecoder,
    ReportedAs,
    TextRecord,
    field_end,
    number_in,
    records_of_log,
    string,
    tagged_fields,
    unknown_version,
)
from replica_audit.formats.segment.record_batch import unsigned
from replica_audit.formats.segment.records import Record
from replica_audit.model import BatchHeader, Problem, SegmentFile, TransactionState

# What one record of `__transaction_state` says of a transactional id, wherever it was read.

_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")


def state_of(status: int) -> str | None:
    """Kafka's name of the state that a record stores as a number; None where there is no such state (TransactionState.fromId)."""
    return _STATES[status] if 0 <= status < len(_STATES) else None


def is_state(name: str) -> bool:
    """Whether Kafka has a state of this name."""
    return name in _STATES


# The records of `__transaction_state` as they are stored: TransactionLogKey and TransactionLogValue.
# Sources: TransactionLogKey.json, TransactionLogValue.json, TransactionLog.readTxnRecordKey and readTxnRecordValue,
# TransactionState.fromId (transaction-coordinator, 4.2.0). Version 1 of the value is flexible (KIP-482): of its tagged fields the previous
# and the next producer id are read, which brokers write from 4.3 on; the version of the client's transactions is skipped.

KEY_VERSIONS = range(1)
VALUE_VERSIONS = range(2)

_INT16, _INT32, _INT64 = (struct.Struct(form) for form in (">h", ">i", ">q"))
_FIXED = struct.Struct(">hqhib")  # up to the state
_EMPTY = 0
_PREVIOUS_PRODUCER, _NEXT_PRODUCER = range(2)  # tags
_TOPIC_BYTES, _ID_BYTES = 3, 4  # the least that a topic and its partitions, the bytes that a partition takes


def transactional_id(data: bytes) -> str:
    """Decode a TransactionLogKey.

    Raises:
        SegmentError: it is of no known version, or ends inside the id.
        IndexError, struct.error: it ends inside a field.
    """
    (version,) = _INT16.unpack_from(data)
    if version not in KEY_VERSIONS:
        raise SegmentError(unknown_version("TransactionLogKey", version, KEY_VERSIONS))
    found, _at = string(data, 2)
    return found


def transaction_value(name: str, data: bytes) -> TransactionState:
    """Decode a TransactionLogValue of a transactional id; bytes behind it do not matter, as they do not to Kafka.

    Raises:
        SegmentError: it is of no known version, state or form.
        IndexError, struct.error: it ends inside a field.
    """
    (version,) = _INT16.unpack_from(data)
    if version not in VALUE_VERSIONS:
        raise SegmentError(unknown_version("TransactionLogValue", version, VALUE_VERSIONS))
    _version, producer_id, epoch, timeout, status = _FIXED.unpack_from(data)
    state = state_of(status)
    if state is None:
        raise SegmentError(f"a transaction in state {status}, which is not a known state")
    partitions, at = _stored_partitions(data, _FIXED.size, is_flexible=version >= 1)
    if partitions is None and status != _EMPTY:
        raise SegmentError(f"a transaction in state {state} without a list of partitions")
    (updated,), (started,) = _INT64.unpack_from(data, at), _INT64.unpack_from(data, at + 8)
    told = tagged_fields(data, at + 16)[1] if version >= 1 else {}
    others = (_producer_id(told.get(tag)) for tag in (_PREVIOUS_PRODUCER, _NEXT_PRODUCER))
    held = () if status == _EMPTY else partitions or ()
    return TransactionState(name, producer_id, epoch, timeout, state, held, updated, started, *others)


def _producer_id(data: bytes | None) -> int:
    if data is None:
        return -1
    if len(data) != _INT64.size:
        raise SegmentError(f"a producer id of {len(data)} bytes")
    (found,) = _INT64.unpack(data)
    return int(found)


def _stored_partitions(data: bytes, at: int, *, is_flexible: bool) -> tuple[tuple[tuple[str, int], ...] | None, int]:
    """Topics and partitions in the order of the record, and where they end; None for null."""
    topics, at = _count(data, at, is_flexible=is_flexible, least_bytes=_TOPIC_BYTES)
    if topics < 0:
        return None, at
    found: list[tuple[str, int]] = []
    for _ in range(topics):
        topic, at = _compact_string(data, at) if is_flexible else string(data, at)
        ids, at = _count(data, at, is_flexible=is_flexible, least_bytes=_ID_BYTES)
        end = at + max(ids, 0) * _ID_BYTES
        found += [(topic, partition) for (partition,) in _INT32.iter_unpack(data[at:end])]
        at = tagged_fields(data, end)[0] if is_flexible else end
    return tuple(found), at


def _count(data: bytes, at: int, *, is_flexible: bool, least_bytes: int) -> tuple[int, int]:
    """How many are in a list, -1 for null, and where the first begins; as many must fit into the bytes that are left."""
    if is_flexible:
        number, at = unsigned(data, at)
        number -= 1
    else:
        (number,), at = _INT32.unpack_from(data, at), at + 4
    if number < -1 or number * least_bytes > len(data) - at:
        raise SegmentError(f"a list of {number} in {len(data) - at} bytes")
    return number, at


def _compact_string(data: bytes, at: int) -> tuple[str, int]:
    size, at = unsigned(data, at)
    end = field_end(data, at, size - 1)
    return data[at:end].decode("utf-8", "replace"), end


# What kafka-dump-log, run with --transaction-log-decoder, prints of the records of `__transaction_state`.
# Sources: DumpLogSegments.TransactionLogMessageParser (0.11 to 4.3), TransactionLog.formatRecordKeyAndValue (2.4 to 4.0). The key shows as
# `transactionalId=T` (to 2.3), `transaction_metadata::transactionalId=T` or, in later 4.x, JSON; the value as
# `producerId:N,producerEpoch:N, state=S,partitions=P,txnLastUpdateTimestamp=N,txnTimeoutMs=N` in one line, P being a set of Scala's (to
# 2.3) or a list in brackets, or as JSON, which alone has the start of the transaction, and the state as a number or, later, by its name
# (KAFKA-20712). Up to 2.3 the tool fails at a deletion. Transactional ids T may hold anything; what contradicts a record's sizes tells
# nothing.

Decoded = tuple[str, TransactionState | None]  # the transactional id; without a value it is deleted

_KEYS = (b"transaction_metadata::transactionalId=", b"transactionalId=")
_KEY_OVERHEAD = 4  # bytes of a TransactionLogKey beside the id
_JSON_KEY, _FAILED = b'{"type":', b"Error at offset "
_UNKNOWN = (b"unknown::version=", b"Unknown record type ")
DECODED = (_JSON_KEY, _FAILED, *_UNKNOWN, *_KEYS)
_DELETION = b"<DELETE>"
_PAYLOAD = " payload: "
_VALUE = re.compile(
    r"producerId:(-?\d{1,19}),producerEpoch:(-?\d{1,5}),state=(\w{1,40}),partitions=(?:\[(?P<list>.*)\]|\w*Set\((?P<set>.*)\)),"
    r"txnLastUpdateTimestamp=(-?\d{1,19}),txnTimeoutMs=(-?\d{1,10})"
)
_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})")
_FIXED_BYTES = (37, 35)  # of a TransactionLogValue of version 0 and 1 without partitions, of version 1 without tagged fields
_JSON = json.JSONDecoder()


def decoded_state(record: TextRecord) -> Decoded:
    """What a record says, without a value if it deletes.

    Raises:
        DumpLogError: kafka-dump-log could not decode it, or what it printed is not of a known form or has another size than it statess.
    """
    contents = record.contents or b""
    if contents.startswith(_FAILED):
        raise DumpLogError("kafka-dump-log could not decode it")
    if contents.startswith(_UNKNOWN):
        raise DumpLogError(f"kafka-dump-log does not know the version of its key; only {KEY_VERSIONS[0]} is known here")
    try:
        found = _from_json(contents.decode()) if contents.startswith(_JSON_KEY) else _from_forms(record, contents)
        name, value = found
        if len(name.encode()) + _KEY_OVERHEAD != record.key_size or (value is None) != (record.value_size < 0):
            raise ValueError
    except (ValueError, RecursionError):
        raise DumpLogError("what kafka-dump-log printed of it cannot be read, or has another size than it states") from None
    return found


def _from_forms(record: TextRecord, contents: bytes) -> Decoded:
    prefix = next(key for key in _KEYS if contents.startswith(key))
    # the size of the key tells where the id ends, whatever stands in it
    end = len(prefix) + max(record.key_size - _KEY_OVERHEAD, 0)
    name, rest = contents[len(prefix) : end].decode(), contents[end:]
    payload = rest.removeprefix(_PAYLOAD.encode())
    if payload == rest:
        raise ValueError
    if payload == _DELETION:
        return name, None
    match = _VALUE.fullmatch(payload.decode())
    if match is None or not is_state(match[3]):
        raise ValueError
    partitions = _partitions(match["list"].split(",") if match["list"] is not None else match["set"].split(", "))
    _check_size(record, match[3], partitions)
    updated, timeout = match.groups()[-2:]
    producer = number_in(int(match[1]), 64), number_in(int(match[2]), 16)
    return name, TransactionState(name, *producer, number_in(int(timeout), 32), match[3], partitions, number_in(int(updated), 64), -1)


def _partitions(names: list[str]) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for name in names if names != [""] else ():
        match = _PARTITION.fullmatch(name)
        if match is None:
            raise ValueError
        found.append((match[1], number_in(int(match[2]), 32)))
    return tuple(found)


def _check_size(record: TextRecord, state: str, partitions: tuple[tuple[str, int], ...]) -> None:
    """Refuse a value that cannot have the told size; that of version 1 is larger by tagged fields, which the text does not show."""
    topics = {topic for topic, _partition in partitions}
    named = sum(len(topic) for topic in topics) + 4 * len(partitions)
    of_version_0 = _FIXED_BYTES[0] + named + 6 * len(topics)
    if record.value_size != of_version_0 and record.value_size < _FIXED_BYTES[1] + named + 3 * len(topics):
        raise ValueError


def _from_json(text: str) -> Decoded:
    key, at = _JSON.raw_decode(text)
    match key:
        case {"type": "0", "data": {"transactionalId": str(name)}}:
            pass
        case {"type": str(version)} if version not in map(str, KEY_VERSIONS):
            raise DumpLogError(unknown_version("TransactionLogKey", version, KEY_VERSIONS))
        case _:
            raise ValueError
    if text[at:] == _PAYLOAD + _DELETION.decode():
        return name, None
    payload, end = _JSON.raw_decode(text, at + len(_PAYLOAD))
    if not text.startswith(_PAYLOAD, at) or end != len(text):
        raise ValueError
    match payload:
        case {"version": str(version)} if version not in map(str, VALUE_VERSIONS):
            raise DumpLogError(unknown_version("TransactionLogValue", version, VALUE_VERSIONS))
        case {
            "data": {
                "producerId": int(producer),
                "producerEpoch": int(epoch),
                "transactionTimeoutMs": int(timeout),
                "transactionStatus": status,
                "transactionPartitions": topics,
                "transactionLastUpdateTimestampMs": int(updated),
                "transactionStartTimestampMs": int(started),
                **tagged,
            }
        }:
            state = _state(status)
            partitions = _partitions_of(topics)
        case _:
            raise ValueError
    ids = number_in(producer, 64), number_in(epoch, 16), number_in(timeout, 32)
    others = (number_in(tagged.get(field, -1), 64) for field in ("previousProducerId", "nextProducerId"))
    return name, TransactionState(name, *ids, state, partitions, number_in(updated, 64), number_in(started, 64), *others)


def _state(status: object) -> str:
    found = state_of(number_in(status, 8)) if type(status) is int else status
    if not isinstance(found, str) or not is_state(found):
        raise ValueError
    return found


def _partitions_of(topics: object) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for one in topics if isinstance(topics, list) else ():
        match one:
            case {"topic": str(topic), "partitionIds": list(ids)}:
                found += [(topic, number_in(partition, 32)) for partition in ids]
            case _:
                raise ValueError
    return tuple(found)


# The last state of every transactional id in one partition of `__transaction_state`, from its segments or text of kafka-dump-log.
# Source: TransactionStateManager.loadTransactionMetadata (core, 4.2.0): the last record of an id counts, one without a value removes it.

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
    value: TransactionState | None


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
    states: dict[str, TransactionState] = {}
    problems: list[Problem] = []
    for event, _path in records_of_log(files, log_end_offset, _DECODER, _REPORTED, problems):
        if event.value is None:
            states.pop(event.transactional_id, None)
        else:
            states[event.transactional_id] = event.value
    return [state for _name, state in sorted(states.items())], problems


def _of_bytes(record: Record, batch: BatchHeader) -> _Written | None:
    if batch.is_control:
        return None
    if record.key is None:
        raise SegmentError("it has no key")
    name = transactional_id(record.key)
    return _Written(record.offset, name, None if record.value is None else transaction_value(name, record.value))


def _of_text(record: TextRecord) -> _Written | None:
    return None if record.end_of_txn is not None else _Written(record.offset, *decoded_state(record))


_DECODER: RecordDecoder[_Written] = RecordDecoder(of_bytes=_of_bytes, of_text=_of_text, printed=DECODED, what="the state of transactions")
_REPORTED = ReportedAs(kind=KIND, remedy=_REMEDY, of_text=_DUMP_AGAIN)
