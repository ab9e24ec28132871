"""What kafka-dump-log, run with --transaction-log-decoder, prints of the records of `__transaction_state`.

Sources: DumpLogSegments.TransactionLogMessageParser (0.11 to 4.3), TransactionLog.formatRecordKeyAndValue (2.4 to 4.0). The key shows as
`transactionalId=T` (to 2.3), `transaction_metadata::transactionalId=T` or, in later 4.x, JSON; the value as `producerId:N,producerEpoch:N,
state=S,partitions=P,txnLastUpdateTimestamp=N,txnTimeoutMs=N` in one line, P being a set of Scala's (to 2.3) or a list in brackets, or as
JSON, which alone has the start of the transaction, and the state as a number or, later, by its name (KAFKA-20712). Up to 2.3 the tool fails
at a deletion. Transactional ids T may hold anything; what contradicts a record's sizes tells nothing.
"""

from __future__ import annotations

import json
import re

from replica_audit.errors import DumpLogError
from replica_audit.formats.coordinator_records.text_records import TextRecord
from replica_audit.formats.transactions.transaction_record import KEY_VERSIONS, VALUE_VERSIONS
from replica_audit.formats.transactions.written_state import WrittenState, is_state, state_of, unknown_version

Decoded = tuple[str, WrittenState | None]  # the transactional id; without a value it is deleted

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
    producer = _number(int(match[1]), 64), _number(int(match[2]), 16)
    return name, WrittenState(*producer, _number(int(timeout), 32), match[3], partitions, _number(int(updated), 64), -1)


def _partitions(names: list[str]) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for name in names if names != [""] else ():
        match = _PARTITION.fullmatch(name)
        if match is None:
            raise ValueError
        found.append((match[1], _number(int(match[2]), 32)))
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
    ids = _number(producer, 64), _number(epoch, 16), _number(timeout, 32)
    others = (_number(tagged.get(field, -1), 64) for field in ("previousProducerId", "nextProducerId"))
    return name, WrittenState(*ids, state, partitions, _number(updated, 64), _number(started, 64), *others)


def _state(status: object) -> str:
    found = state_of(_number(status, 8)) if type(status) is int else status
    if not isinstance(found, str) or not is_state(found):
        raise ValueError
    return found


def _partitions_of(topics: object) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for one in topics if isinstance(topics, list) else ():
        match one:
            case {"topic": str(topic), "partitionIds": list(ids)}:
                found += [(topic, _number(partition, 32)) for partition in ids]
            case _:
                raise ValueError
    return tuple(found)


def _number(found: object, bits: int) -> int:
    if type(found) is not int or not -1 << bits - 1 <= found < 1 << bits - 1:
        raise ValueError
    return found
