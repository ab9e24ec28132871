"""Producer snapshots (`%020d.snapshot`): what a broker knew of the producers of a partition below an offset.

Sources: ProducerStateManager.readSnapshot, ProducerSnapshot.json (storage, 4.2.0).
"""

from __future__ import annotations

import struct

import crc32c

from replica_audit.errors import SegmentError
from replica_audit.model import ProducerState

VERSION = 1
_HEAD, _ENTRY = struct.Struct(">hIi"), struct.Struct(">qhiqiqiq")
_CRC_FROM = 6  # the first byte that the CRC covers


def producer_states(data: bytes) -> tuple[ProducerState, ...]:
    """The producers in a snapshot, in its order. Bytes behind them are covered by the CRC and do not matter, as they do not to Kafka.

    Raises:
        SegmentError: Kafka would not load it; its `byte_offset` is that of the field.
    """
    if len(data) < _HEAD.size:
        raise SegmentError(f"a snapshot of {len(data)} bytes, which is less than its head has", byte_offset=len(data))
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SegmentError(f"version {version} of a producer snapshot is not known, only {VERSION} is", byte_offset=0)
    if not 0 <= count * _ENTRY.size <= len(data) - _HEAD.size:
        raise SegmentError(f"{count} producers in {len(data) - _HEAD.size} bytes", byte_offset=_CRC_FROM)
    computed: int = crc32c.crc32c(data[_CRC_FROM:])
    if computed != crc:
        raise SegmentError(f"the snapshot does not match its CRC: it stores {crc}, its bytes come to {computed}", byte_offset=2)
    entries = (_ENTRY.unpack_from(data, _HEAD.size + place * _ENTRY.size) for place in range(count))
    return tuple(_state(*entry) for entry in entries)


def entry_at(place: int) -> int:
    """The byte at which the entry of a producer begins, the first of which is at place 0."""
    return _HEAD.size + place * _ENTRY.size


def _state(
    producer_id: int, epoch: int, sequence: int, offset: int, delta: int, timestamp: int, coordinator_epoch: int, open_first: int
) -> ProducerState:
    """As a broker takes it: without an offset there is no last batch, below 0 there is no transaction."""
    last = (sequence, offset, delta) if offset >= 0 else (-1, -1, 0)
    return ProducerState(producer_id, epoch, *last, timestamp, coordinator_epoch, max(open_first, -1))
