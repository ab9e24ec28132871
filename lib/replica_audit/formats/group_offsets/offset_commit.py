"""The fields of the records of `__consumer_offsets` as they are stored: OffsetCommitValue, and the strings of its keys.

Sources: OffsetCommitValue.json (group-coordinator, 4.2.0); versions 4 and later are flexible (KIP-482).
"""

from __future__ import annotations

import base64
import struct

from replica_audit.errors import SegmentError
from replica_audit.formats.coordinator_records.fields import field_end, string
from replica_audit.formats.group_offsets.dump_text import VALUE_VERSIONS, OffsetCommitValue, unknown_version
from replica_audit.formats.segment.varints import unsigned

_INT16, _INT32, _INT64 = (struct.Struct(form) for form in (">h", ">i", ">q"))
_TOPIC_ID_TAG, _TOPIC_ID_BYTES = 0, 16


def commit_value(data: bytes) -> OffsetCommitValue:
    """Decode an OffsetCommitValue; bytes behind it do not matter, as they do not to Kafka.

    Raises:
        SegmentError: it has no known form.
        IndexError, struct.error: it ends inside a field.
    """
    (version,) = _INT16.unpack_from(data)
    if version not in VALUE_VERSIONS:
        raise SegmentError(unknown_version(version))
    (offset,) = _INT64.unpack_from(data, 2)
    epoch, at = -1, 10
    if version >= 3:
        (epoch,), at = _INT32.unpack_from(data, at), at + 4
    if version < 4:
        _metadata, at = string(data, at)
    else:
        size, at = unsigned(data, at)
        at = field_end(data, at, size - 1)
    (timestamp,) = _INT64.unpack_from(data, at)
    if version == 1:
        _INT64.unpack_from(data, at + 8)  # when it expires
    return OffsetCommitValue(offset, epoch, timestamp, _topic_id(data, at + 8) if version >= 4 else None)


def _topic_id(data: bytes, at: int) -> str | None:
    """The tagged field that holds it, if there is one."""
    fields, at = unsigned(data, at)
    found = None
    for _ in range(fields):
        tag, at = unsigned(data, at)
        size, at = unsigned(data, at)
        end = field_end(data, at, size)
        if tag == _TOPIC_ID_TAG:
            if size != _TOPIC_ID_BYTES:
                raise SegmentError(f"a topic id of {size} bytes")
            # the id of zeros stands for none
            found = base64.urlsafe_b64encode(data[at:end]).decode().rstrip("=") if any(data[at:end]) else None
        at = end
    return found
