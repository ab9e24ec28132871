"""Batch lines of one form in text of kafka-dump-log, many at a time: parsed by Arrow, judged as columns.

A form is the keys of a line. Only lines of that form are taken that continue the log; the first one that is of another, or does not
continue it, is left to the reader of single lines, which alone knows what it is.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from replica_audit.formats.dump.dump_batches import BATCH
from replica_audit.formats.segment.batch_columns import BatchColumns
from replica_audit.formats.segment.record_batch import CONTROL, LAST_OFFSET, LOG_OVERHEAD, RAW_HEADER, TRANSACTIONAL, V2_HEADER

_INT16, _INT32, _INT64 = 2**15, 2**31, 2**63
_TIMES = (b"CreateTime:", b"LogAppendTime:", b"NoTimestampType:")
_NUMBERS = {  # by key: least, most
    b"baseOffset:": (0, LAST_OFFSET),
    b"lastOffset:": (0, LAST_OFFSET),
    b"count:": (-1, _INT32 - 1),
    b"position:": (0, _INT64 - 1),
    **dict.fromkeys(_TIMES, (-_INT64, _INT64 - 1)),
    b"size:": (V2_HEADER.size, _INT32 - 1),
    b"partitionLeaderEpoch:": (-_INT32, _INT32 - 1),
    b"crc:": (0, 2**32 - 1),
    b"baseSequence:": (-_INT32, _INT32 - 1),
    b"producerId:": (-_INT64, _INT64 - 1),
    b"producerEpoch:": (-_INT16, _INT16 - 1),
    b"magic:": (2, 2),
}
_FLAGS = (b"isvalid:", b"isTransactional:", b"isControl:")
_NEEDED = {b"baseOffset:", b"lastOffset:", b"position:", b"size:", b"magic:", b"partitionLeaderEpoch:", b"crc:", b"isvalid:"}
_OF_OLDER_LINES = (b"payloadsize:", b"keysize:")
_READ_OTHERWISE = b"\t\v\fxX"  # Arrow reads hexadecimal numbers; Python parts words at these blanks, too
_PARSE = csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False)


class LineForm:
    """What batch lines like one look like."""

    def __init__(self, line: bytes) -> None:
        """Take the form of a line that was judged to be a batch's.

        Raises:
            ValueError: it has none.
        """
        tokens = line.split()
        keys = tokens[::2]
        if b" ".join(tokens) != line.rstrip(b"\r\n") or len(tokens) % 2 or len(set(keys)) < len(keys) or not line.endswith(b"\n"):
            raise ValueError("not pairs of a key and a value with one blank between")
        times = [key for key in keys if key in _TIMES]
        if tokens[0] + b" " != BATCH[0] or any(key in keys for key in _OF_OLDER_LINES):
            raise ValueError("not of magic 2")
        if len(times) != 1 or not {*keys} >= _NEEDED:
            raise ValueError("not every number once")
        self._keys, self._time = keys, times[0]
        self._names = [str(place) for place in range(len(tokens))]
        types: list[pa.DataType] = []
        for key in keys:
            types.append(pa.binary(len(key)))
            types.append(pa.int64() if key in _NUMBERS else pa.bool_() if key in _FLAGS else pa.binary())
        column_types = dict(zip(self._names, types, strict=True))
        words: dict[str, Any] = {"null_values": [], "true_values": ["true"], "false_values": ["false"], "strings_can_be_null": False}
        self._conversion = csv.ConvertOptions(column_types=column_types, check_utf8=False, **words)

    def batches(self, text: bytes, position: int, next_offset: int) -> BatchColumns | None:
        """The batches that the first lines tell, as many as continue the log; None if any line is not of this form.

        Args:
            text: whole lines, the first of which begins like a batch's.
            position: of the next batch.
            next_offset: the least that it may begin with.
        """
        if any(byte in text for byte in _READ_OTHERWISE):
            return None
        reading = csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=self._names)
        try:
            (rows,) = csv.read_csv(cast(Any, pa.BufferReader(text)), reading, _PARSE, self._conversion).to_batches()
        except pa.ArrowInvalid:
            return None
        if len(rows) != text.count(b"\n"):
            return None  # there are other ends of lines
        for key, found in zip(self._keys, rows.columns[::2], strict=True):
            if not _values(found).slice(0, len(key) * len(rows)).equals(pa.py_buffer(key * len(rows))):
                return None
        values: dict[bytes, Any] = dict(zip(self._keys, rows.columns[1::2], strict=True))
        for value in values.values():
            if value.type == pa.binary() and pc.min(pc.binary_length(value)).as_py() == 0:
                return None
        return self._continuing(values, position, next_offset)

    def _continuing(self, values: dict[bytes, Any], position: int, next_offset: int) -> BatchColumns:
        numbers: dict[bytes, Any] = {
            key: np.frombuffer(_values(values[key]), np.int64, len(values[key])) for key in values if key in _NUMBERS
        }
        base, last, size, positions = (numbers[key] for key in (b"baseOffset:", b"lastOffset:", b"size:", b"position:"))
        delta = last - base
        count = numbers.get(b"count:", np.full(len(base), -1))
        possible = (delta >= 0) & (delta < _INT32 - 1) & (count <= delta + 1)
        for key, column in numbers.items():
            least, most = _NUMBERS[key]
            possible &= (column >= least) & (column <= most)
        possible &= (positions == np.append(position, positions[:-1] + size[:-1])) & (base >= np.append(next_offset, last[:-1] + 1))
        sound = len(base) if possible.all() else int(np.argmin(possible))
        headers = np.zeros(sound, RAW_HEADER)
        told = {
            "base_offset": base,
            "length": size - LOG_OVERHEAD,
            "leader_epoch": numbers[b"partitionLeaderEpoch:"],
            "magic": numbers[b"magic:"],
        }
        told |= {"crc": numbers[b"crc:"], "last_offset_delta": delta, "max_timestamp": numbers[self._time]}
        told |= {"record_count": np.where(count < 0, delta + 1, count)} | _producers(numbers, values)
        for name, column in told.items():
            headers[name] = column[:sound]
        return BatchColumns(positions[:sound], headers, _flags(values[b"isvalid:"])[:sound])


def _producers(numbers: dict[bytes, Any], values: dict[bytes, Any]) -> dict[str, Any]:
    """What lines tell of producers, as the columns of headers."""
    none = np.full(len(numbers[b"baseOffset:"]), -1)
    keys = {"producer_id": b"producerId:", "producer_epoch": b"producerEpoch:", "base_sequence": b"baseSequence:"}
    told = {name: numbers.get(key, none) for name, key in keys.items()}
    transactional = _flags(values[b"isTransactional:"]) if b"isTransactional:" in values else none == 0
    control = _flags(values[b"isControl:"]) if b"isControl:" in values else transactional & (told["base_sequence"] < 0)
    return told | {"attributes": np.where(transactional, TRANSACTIONAL, 0) | np.where(control, CONTROL, 0)}


def _flags(column: pa.Array[Any]) -> Any:
    return np.unpackbits(np.frombuffer(_values(column), np.uint8), count=len(column), bitorder="little") != 0


def _values(column: pa.Array[Any]) -> Any:
    """The bytes of a column's values. `to_numpy` imports pandas."""
    return column.buffers()[1]
