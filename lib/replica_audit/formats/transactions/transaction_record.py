"""The records of `__transaction_state` as they are stored: TransactionLogKey and TransactionLogValue.

Sources: TransactionLogKey.json, TransactionLogValue.json, TransactionLog.readTxnRecordKey and readTxnRecordValue, TransactionState.fromId
(transaction-coordinator, 4.2.0). Version 1 of the value is flexible (KIP-482): of its tagged fields the previous and the next producer id
are read, which brokers write from 4.3 on; the version of the client's transactions is skipped.
"""

from __future__ import annotations

import struct

from replica_audit.errors import SegmentError
from replica_audit.formats.coordinator_records.fields import field_end, string
from replica_audit.formats.segment.varints import unsigned
from replica_audit.formats.transactions.written_state import WrittenState, state_of, unknown_version

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


def transaction_value(data: bytes) -> WrittenState:
    """Decode a TransactionLogValue; bytes behind it do not matter, as they do not to Kafka.

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
    partitions, at = _partitions(data, _FIXED.size, is_flexible=version >= 1)
    if partitions is None and status != _EMPTY:
        raise SegmentError(f"a transaction in state {state} without a list of partitions")
    (updated,), (started,) = _INT64.unpack_from(data, at), _INT64.unpack_from(data, at + 8)
    told = _tagged_fields(data, at + 16)[1] if version >= 1 else {}
    others = (_producer_id(told.get(tag)) for tag in (_PREVIOUS_PRODUCER, _NEXT_PRODUCER))
    return WrittenState(producer_id, epoch, timeout, state, () if status == _EMPTY else partitions or (), updated, started, *others)


def _producer_id(data: bytes | None) -> int:
    if data is None:
        return -1
    if len(data) != _INT64.size:
        raise SegmentError(f"a producer id of {len(data)} bytes")
    (found,) = _INT64.unpack(data)
    return int(found)


def _partitions(data: bytes, at: int, *, is_flexible: bool) -> tuple[tuple[tuple[str, int], ...] | None, int]:
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
        at = _tagged_fields(data, end)[0] if is_flexible else end
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


def _tagged_fields(data: bytes, at: int) -> tuple[int, dict[int, bytes]]:
    """Where the tagged fields that begin at `at` end, and their contents by tag."""
    fields, at = unsigned(data, at)
    found: dict[int, bytes] = {}
    for _ in range(fields):
        tag, at = unsigned(data, at)
        size, at = unsigned(data, at)
        end = field_end(data, at, size)
        found[tag], at = data[at:end], end
    return at, found


def _compact_string(data: bytes, at: int) -> tuple[str, int]:
    size, at = unsigned(data, at)
    end = field_end(data, at, size - 1)
    return data[at:end].decode("utf-8", "replace"), end
