"""Batch lines of one form in text of kafka-dump-log, many at a time: parsed by Arrow, judged as columns.

A form is what the line of one batch looks like: its keys, and the words that stay the same. Only lines of that form are taken that continue
the log; the first one that is of another, or does not continue it, is left to the reader of single lines, which alone knows what it is.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from replica_audit.formats.dump.dump_batches import BATCH
from replica_audit.formats.segment.batch_columns import BatchColumns
from replica_audit.formats.segment.record_batch import LAST_OFFSET, LOG_OVERHEAD, RAW_HEADER, V2_HEADER

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
}
_NEEDED = (b"baseOffset:", b"lastOffset:", b"position:", b"size:", b"partitionLeaderEpoch:", b"crc:")
_SAME = (b"magic:", b"compresscodec:", b"isvalid:", b"isTransactional:", b"isControl:")
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
        if not {*_NEEDED} <= {*keys} or len(times) != 1:
            raise ValueError("not every number once")
        self._time = times[0]
        self._is_intact = tokens[2 * keys.index(b"isvalid:") + 1] == b"true"
        columns = [(str(place), token) for place, token in enumerate(tokens)]
        self._number_columns = {key: columns[2 * place + 1][0] for place, key in enumerate(keys) if key in _NUMBERS}
        self._words = {name: token for name, token in columns[::2]}
        self._words |= {columns[2 * place + 1][0]: tokens[2 * place + 1] for place, key in enumerate(keys) if key in _SAME}
        self._names = [name for name, _token in columns]
        numbers = {*self._number_columns.values()}
        types = {name: pa.int64() if name in numbers else pa.binary() for name in self._names}
        self._conversion = csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False, check_utf8=False)

    def batches(self, text: bytes, position: int, next_offset: int) -> BatchColumns | None:
        """The batches that the first lines tell, as many as are of this form and continue the log; None if not even Arrow reads all lines.

        Args:
            text: whole lines, the first of which begins like a batch's.
            position: of the next batch.
            next_offset: the least that it may begin with.
        """
        if any(byte in text for byte in _READ_OTHERWISE):
            return None
        reading = csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=self._names)
        try:
            rows = csv.read_csv(cast(Any, pa.BufferReader(text)), reading, _PARSE, self._conversion)
        except pa.ArrowInvalid:
            return None
        (columns,) = rows.to_batches()
        if len(columns) != text.count(b"\n"):
            return None  # there are other ends of lines
        return self._as_batches(columns, self._alike(columns), position, next_offset)

    def _alike(self, rows: pa.RecordBatch) -> int:
        """How many of the first lines have the words of the form, and no empty ones."""
        alike = len(rows)
        for name, column in zip(self._names, rows.columns, strict=True):
            if name in self._words:
                same = pc.equal(column, pa.scalar(self._words[name], pa.binary()))
            elif column.type == pa.binary():
                same = pc.greater(pc.binary_length(column), pa.scalar(0))
            else:
                continue
            if same.true_count < len(rows):
                alike = min(alike, pc.index(same, False).as_py())
        return alike

    def _as_batches(self, rows: pa.RecordBatch, alike: int, position: int, next_offset: int) -> BatchColumns:
        # not by `to_numpy`, which imports pandas
        numbers: dict[bytes, Any] = {
            key: np.frombuffer(rows.column(name).buffers()[1], np.int64, len(rows))[:alike] for key, name in self._number_columns.items()
        }
        base, last, size, positions = (numbers[key] for key in (b"baseOffset:", b"lastOffset:", b"size:", b"position:"))
        delta = last - base
        count = numbers.get(b"count:", np.full(len(base), -1))
        possible = (delta >= 0) & (delta < _INT32 - 1) & (count <= delta + 1)
        for key, (least, most) in _NUMBERS.items():
            if key in numbers:
                possible &= (numbers[key] >= least) & (numbers[key] <= most)
        if len(base):
            possible &= (positions == np.append(position, positions[:-1] + size[:-1])) & (base >= np.append(next_offset, last[:-1] + 1))
        sound = len(base) if possible.all() else int(np.argmin(possible))
        headers = np.zeros(sound, RAW_HEADER)
        values = {"base_offset": base, "length": size - LOG_OVERHEAD, "leader_epoch": numbers[b"partitionLeaderEpoch:"], "magic": 2}
        values |= {"crc": numbers[b"crc:"], "last_offset_delta": delta, "max_timestamp": numbers[self._time]}
        values |= {"record_count": np.where(count < 0, delta + 1, count)}
        for name, column in values.items():
            headers[name] = column if name == "magic" else column[:sound]
        return BatchColumns(positions[:sound], headers, np.full(sound, self._is_intact))
