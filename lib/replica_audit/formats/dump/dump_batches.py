"""The lines of one segment in text of kafka-dump-log → its batches, and how the text says that the segment ends."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from sys import maxsize
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from replica_audit.errors import DumpLogError
from replica_audit.formats.dump import pasted_text
from replica_audit.formats.segment.record_batch import (
    CONTROL,
    LAST_OFFSET,
    LOG_OVERHEAD,
    RAW_HEADER,
    SMALLEST_SIZE,
    TRANSACTIONAL,
    V2_HEADER,
)
from replica_audit.formats.segment.segment_fold import BatchColumns
from replica_audit.formats.segment.segment_scan import GOES_BACK
from replica_audit.model import BatchHeader, Damage

DUMPING = b"Dumping "
STARTING = (b"Starting offset: ", b"Log starting offset: ")
BATCH = (b"baseOffset: ", b"offset: ")
_NUMBERS = b"baseOffset: lastOffset: count: position: CreateTime: size: baseSequence: crc:".split()
_NUMBER_WIDTHS = struct.Struct(">qqiqqiiI")  # in which Kafka stores them
_STEADY = b"magic: partitionLeaderEpoch: producerId: producerEpoch: payloadsize: keysize:".split()
_STEADY += b"compresscodec: isvalid: isTransactional: isControl:".split()  # what is often the same as in the batch before
_STEADY_WIDTHS = struct.Struct(">biqhii")
_TIMES = {b"LogAppendTime:": b"CreateTime:", b"NoTimestampType:": b"CreateTime:"}
_FLAGS = {b"true": True, b"false": False}
_ABSENT = [b"-1", b"false"]  # put behind the tokens of a line: what it says by not printing a number or a flag
_OPTIONAL = b"count: baseSequence: producerId: producerEpoch: payloadsize: keysize: isTransactional: isControl:".split()
_TRAILING = 17  # bytes behind the last batch that Kafka does not take for the head of another
_SHALLOW = "the text lists records, not batches: dump the segment again without --deep-iteration and --print-data-log"
_NEWER = "kafka-dump-log could not read the segment: dump it again with the one of the broker's version, or a newer one"
_BLANKS = re.compile(rb"(?:[\s\0]|\xc2[\x85\xa0]|\xe2\x80[\x80-\x8f\xa8-\xaf]|\xe3\x80\x80)+$")  # and those beyond ASCII
_JOINED = re.compile(  # where another line begins in one, as editors join them
    rb"[ \t]*(?=baseOffset: \d+ lastOffset: \d)|[ \t]+(?=offset: \d+ position: \d|\| (?:offset|key|payload): )"
    rb"|(?<=\.log)[ \t]*(?=(?:Log s|S)tarting offset: \d)|[ \t]+(?=Dumping \S)|[ \t]+(?=Found \d+ invalid bytes at )"
)
_CONTENTS = (b" payload: ", b" key: ")
_FOUND = re.compile(rb"Found (\d{1,19}) inv")
_INVALID = b" invalid bytes at the end of "
_BEGINNINGS = (*BATCH, *STARTING, b"| offset: ", b"Found ")
_LAST_NUMBERS = (b"crc:", b"keysize:")  # up to 2.1 a batch line ends with a number, which looks whole where it is cut
_Pick = Callable[[list[bytes]], tuple[bytes, ...]]


def lines_in(line: bytes) -> tuple[bytes, ...]:
    """The lines of kafka-dump-log that one line of a text is: without the blanks at its end, and each apart of several that were joined."""
    if not line.startswith((*BATCH, *STARTING, DUMPING)):
        return (line,)
    bare, end = (line[:-1], b"\n") if line.endswith(b"\n") else (line, b"")
    if not bare[-1:].isalnum() and (without := _BLANKS.sub(b"", bare)).startswith((*BATCH, *STARTING, DUMPING)):
        bare = without
    places = [] if any(contents in bare for contents in _CONTENTS) else [found.span() for found in _JOINED.finditer(bare, 1)]
    begins = [0, *(behind for _before, behind in places)]
    ends = [before for before, _behind in places]
    return (*(bare[begin:stop] + b"\n" for begin, stop in zip(begins, ends, strict=False)), bare[begins[-1] :] + end)


def number_in(digits: bytes) -> int | None:
    """The number that these digits are; None if they are none that Kafka could store."""
    return int(digits) if digits.strip().isdigit() and len(digits) <= 22 and int(digits) < 1 << 63 else None


@lru_cache(maxsize=8)
def _columns(keys: tuple[bytes, ...]) -> tuple[_Pick, _Pick]:
    """What picks _NUMBERS and _STEADY from the tokens of a line with these keys and _ABSENT behind them."""
    where = {_TIMES.get(key, key): 2 * i + 1 for i, key in reversed(list(enumerate(keys)))}
    optional = set(_OPTIONAL)
    if keys[0] == b"offset:":
        if not where.keys().isdisjoint((b"valuesize:", b"key:", b"payload:")):
            raise DumpLogError(_SHALLOW)
        where |= {b"baseOffset:": where[b"offset:"], b"lastOffset:": where[b"offset:"]}
        optional |= {b"partitionLeaderEpoch:"} | ({b"size:", b"CreateTime:"} if b"payloadsize:" in where else set())
    missing = [key.decode() for key in (*_NUMBERS, *_STEADY) if key not in where and key not in optional]
    if missing:
        raise ValueError(f"no {' '.join(missing)}")
    numbers = [where.get(key, -2) for key in _NUMBERS]
    steady = [where.get(key, -1 if key in _STEADY[-2:] else -2) for key in _STEADY]
    return itemgetter(*numbers), itemgetter(*steady)


def _pairs(tokens: list[bytes]) -> list[bytes]:
    """Keys and values in turn; of a value with blanks in it the first word."""
    pairs: list[bytes] = []
    for token in tokens:
        if token.endswith(b":"):
            pairs += (token, b"")
        elif not pairs[-1]:
            pairs[-1] = token
    return pairs


def _steady(words: tuple[bytes, ...]) -> tuple[int, int, int, int, int, int, str, bool, bool, bool]:
    """The values of _STEADY, with the least size and the size that 0.10 tells instead of the two sizes."""
    magic, epoch, producer, producer_epoch, payload, key = numbers = [int(word) for word in words[:6]]
    _STEADY_WIDTHS.pack(*numbers)
    least_size = SMALLEST_SIZE[magic] if 0 <= magic <= 2 else maxsize
    # 0.10 prints its objects (NoCompressionCodec, GZIPCompressionCodec), later versions NONE or none
    codec = words[6].decode("ascii", "replace").lower().removesuffix("compressioncodec")
    codec = {"no": "none", "default": "gzip"}.get(codec, codec)
    size = least_size + max(payload, 0) + max(key, 0)
    return magic, epoch, producer, producer_epoch, least_size, size, codec, _FLAGS[words[7]], _FLAGS[words[8]], _FLAGS[words[9]]


class SectionLog:
    """What a section has told up to a line, and thus whether the next one continues it."""

    def __init__(self, first_line: int, segment_base_offset: int | None, *, stops_early: bool = False) -> None:
        self._first_line, self._stops_early = first_line, stops_early
        self._next_offset = segment_base_offset
        self._position: int | None = None  # where the next batch has to begin; None: anywhere, the head of the text is missing
        self._last: BatchHeader | None = None
        self._is_deep = False
        self._records = 0  # record lines since the last batch line
        self._suspect: Damage | None = None  # what may be a batch behind a hole in the text; void once a batch follows
        self._ending: Damage | None = None  # how the dump ended; void once a batch follows
        self._left_out: Damage | None = None  # a mark that something was left out; void once a batch continues the log
        self._headless: Damage | None = None  # the first batch is not the segment's
        self._wrapped: Damage | None = None  # a number of a batch line goes on in another line
        self._cut: Damage | None = None  # a line that is the beginning of a batch line; void once a record or a batch follows
        self._failed = False
        self.went_back: Damage | None = None  # offsets do at the batch that was taken last
        self._file = b""
        self._keys: list[bytes] = []
        self._pick_numbers: _Pick
        self._pick_steady: _Pick
        self._words: tuple[bytes, ...] = ()
        self._values: tuple[int, int, int, int, int, int, str, bool, bool, bool]
        self._is_possible, self._tells_control = False, True

    def take(self, line: bytes, number: int) -> BatchHeader | Damage | None:
        """Take a line that begins like a batch line; None if it is the content of a record."""
        batch, damage = self._read(line, number)
        is_ended = line.endswith((b"\n",) if batch is None else (b"\n", b"isvalid: true", b"isvalid: false"))
        if not is_ended:
            return self._damage("dump-truncated", "the text ends inside this line", number)
        self.went_back = damage if damage is not None and damage.goes_on else None
        if batch is not None and (damage is None or damage.goes_on):
            if self._position is None and batch.position:
                detail = f"the text begins with the batch at byte {batch.position}: earlier ones are missing"
                self._headless = self._damage("dump-truncated", detail, number)
            self._took(batch)
            return batch
        if not self._records:
            if batch is not None and b" payloadsize: " in line:
                raise DumpLogError(_SHALLOW, line=number)
            return self._left_out or damage
        if batch is not None:
            self._cut = None
        # the content of a record can claim any position, a batch behind a hole in the text only one ahead
        is_ahead = self._continues(line) if batch is None else batch.position >= (self._position or 0)
        if self._suspect is None and is_ahead:
            self._suspect = damage
        return None

    def _continues(self, line: bytes) -> bool:
        """Whether a line that cannot be read names the very byte where the next batch begins."""
        return self._position is not None and b" position: %d " % self._position in line

    def _read(self, line: bytes, number: int) -> tuple[BatchHeader | None, Damage | None]:
        """The batch of a line, None if it cannot be read, and why it cannot stand here."""
        batch = None
        try:
            batch = self._header(line)
            return batch, self._misfit(batch, number)
        except DumpLogError as error:
            if not self._records:
                raise DumpLogError(error.reason, line=number) from None
            return batch, self._damage("dump-malformed", "a batch line and a record line in one", number)
        except (ValueError, KeyError, struct.error) as error:
            damage = self._damage("dump-malformed", f"a batch line that cannot be read: {error}", number)
            self._cut = damage if self._is_cut(line) else self._cut
            return batch, damage

    def _is_cut(self, line: bytes) -> bool:
        """Whether a line that cannot be read is the beginning of the next batch's, among lines of records."""
        tokens = line.split()
        keys, known = tokens[::2], self._keys
        if len(tokens) > 2:
            return keys[:-1] == known[: len(keys) - 1] and b"".join(known[len(keys) - 1 : len(keys)]).startswith(keys[-1])
        return len(tokens) == 2 and str(self._next_offset or 0).encode().startswith(tokens[1])

    def _took(self, batch: BatchHeader) -> None:
        self._last, self._position, self._next_offset = batch, batch.position + batch.size_bytes, batch.last_offset + 1
        self._records, self._suspect, self._ending, self._left_out, self._failed, self._cut = 0, None, None, None, False, None

    def _header(self, line: bytes) -> BatchHeader:
        tokens = line.split()
        if len(tokens) & 1 or tokens[::2] != self._keys:
            tokens = _pairs(tokens)
            self._pick_numbers, self._pick_steady = _columns(tuple(tokens[::2]))
            self._keys, self._tells_control = tokens[::2], b"isControl:" in tokens
        tokens += _ABSENT
        words = self._pick_steady(tokens)
        if words != self._words:
            self._values, self._words = _steady(words), words
        magic, epoch, producer, producer_epoch, least_size, old_size, codec, valid, transactional, control = self._values
        base, last, count, position, timestamp, size, sequence, crc = numbers = tuple(map(int, self._pick_numbers(tokens)))
        _NUMBER_WIDTHS.pack(*numbers)
        records = None if count == -1 else count
        if line.startswith(BATCH[1]):
            if not 0 <= magic <= 1:
                raise DumpLogError(_NEWER)
            size = old_size if size == -1 else size
            records = 1 if codec == "none" else None
            base = last if records or self._next_offset is None else min(self._next_offset, last)
        elif magic < 2:
            raise ValueError(f"magic {magic} with a base offset")
        control |= not self._tells_control and transactional and sequence < 0  # before 2.0 a line does not say that it is a marker
        self._is_possible = size >= least_size and LAST_OFFSET >= last >= base and count >= -1
        told = (position, base, last, size, magic, epoch, records, timestamp, crc, valid, codec, transactional, control)
        return BatchHeader._make((*told, producer, producer_epoch, sequence))

    def _misfit(self, batch: BatchHeader, number: int) -> Damage | None:
        """Why a batch cannot stand here, or None."""
        if batch.position != self._position and self._position is not None:
            detail = f"byte {batch.position} does not follow the batches before, which end at byte {self._position}"
            return self._damage("dump-malformed", detail, number)
        if not self._is_possible:
            return self._damage("bad-batch-header", "no batch can have this header", number)
        if (batch.record_count or 0) > batch.last_offset - batch.base_offset + 1:
            detail = f"{batch.record_count} records have no room in offsets {batch.base_offset}..{batch.last_offset}"
            return self._damage("dump-malformed", detail, number)
        if batch.base_offset < (self._next_offset or 0):
            detail = f"batch begins at offset {batch.base_offset}, below {self._next_offset} where the log already is"
            # behind records that are still to come it is the content of one
            is_next = self._last is not None and self._records in (0, self._last.record_count)
            return replace(self._damage(GOES_BACK, detail, number), goes_on=is_next and batch.crc_valid is True and batch.base_offset >= 0)
        return None

    def note(self, line: bytes, number: int) -> None:
        """Take any other line: of the dump's head, of a record, how the dump ended, or something else; b"" at the end of the text."""
        if line[:1] == b"|" or (self._is_deep and line.isspace()):  # records without metadata and contents are blank lines
            self._is_deep, self._records = True, self._records + 1
            self._cut = self._cut if line.isspace() else None
        elif number == self._first_line and line.startswith(DUMPING):
            self._position, self._file = 0, line.replace(b"\\", b"/").rpartition(b"/")[2].rstrip(b"\r\n")
            self._ending = self._damage("dump-truncated", "nothing follows the 'Dumping' line", number)
        elif self._last is None and line.startswith(STARTING):
            self._position, self._ending = 0, None
            said = number_in(line.rpartition(b"offset: ")[2])
            if said is None or self._next_offset not in (None, said):  # it is that in the file's name
                code = "dump-malformed" if line.endswith(b"\n") else "dump-truncated"
                self._wrapped = self._damage(code, "the offset with which the log starts is not whole", number)
            self._next_offset = said if self._next_offset is None else self._next_offset
        else:
            self._ending = self._told_ending(line, number) or self._not_whole(line, number) or self._ending
        if line and not line.endswith(b"\n") and self._ending is None and not line[:1].isspace() and not _BLANKS.match(line):
            self._ending = self._damage("dump-truncated", "the text ends inside this line", number)

    def _not_whole(self, line: bytes, number: int) -> Damage | None:
        """What a line shows that is none of kafka-dump-log's: that something was left out, or a batch that does not begin its line."""
        if self._failed or not line:
            return None
        if pasted_text.leaves_out(line):
            self._left_out = self._damage("dump-truncated", "something was left out of the text at this line", number)
            return self._left_out
        if not self._records and self._last is not None and line.strip().isdigit() and self._keys[-1] in _LAST_NUMBERS:
            self._wrapped = self._damage("dump-malformed", "the last number of the batch line above may go on in this line", number)
        bare = line.strip()
        if not self._records and bare and line.endswith(b"\n") and any(start.startswith(bare) for start in _BEGINNINGS):
            return self._damage("dump-malformed", "a line that ends after its first word", number)
        if not self._records and pasted_text.holds_output(line):
            return self._damage("dump-malformed", "output of kafka-dump-log that does not start its line", number)
        return None

    def _told_ending(self, line: bytes, number: int) -> Damage | None:
        found = _FOUND.match(line)
        if found is not None and self._tells_bytes(line.rstrip(), b"Found %s%s" % (found[1], _INVALID)):
            if self._stops_early:
                return None  # it has not read them
            count = number_in(found[1]) or 0
            return self._damage("torn-batch" if count > _TRAILING else "trailing-bytes", f"{count} bytes behind the last batch", number)
        if b"CorruptRecordException: " in line and b"ecord size " in line:
            code = "zero-filled-tail" if b"ecord size 0 " in line else "bad-batch-length"
            return self._damage(code, "kafka-dump-log stopped at an impossible batch length", number)
        if line.startswith(b"Exception in thread ") or (b"Exception: " in line and not self._records and line[:1] not in b" \t["):
            self._failed = True
            return self._ending or self._damage("dump-truncated", "kafka-dump-log stopped with an error", number)
        return None

    def _tells_bytes(self, line: bytes, begins: bytes) -> bool:
        """Whether a line says that bytes follow the last batch, be it cut or wrapped."""
        return (line.startswith(begins) and line.endswith(self._file)) or (not self._records and (begins + self._file).startswith(line))

    def passed(self, line: bytes) -> None:
        """Count batch lines that others have judged, the last of which is `line`."""
        self._took(self._header(line))

    def end(self) -> Damage | None:
        """What is wrong at the end of the section, or None."""
        if self._failed and self._last is None:
            raise DumpLogError(_NEWER, line=self._first_line)
        damage = self._wrapped or self._left_out or self._suspect or self._cut or self._ending or self._headless
        if damage is None and self._last is not None and self._is_deep and self._records < (self._last.record_count or 0):
            return self._damage("dump-truncated", "records of the last batch are missing: kafka-dump-log stopped there", None)
        return damage

    def _damage(self, code: str, detail: str, line: int | None) -> Damage:
        return Damage(code=code, detail=detail, byte_offset=self._position or 0, line=line)


# Batch lines of one form in text of kafka-dump-log, many at a time: parsed by Arrow, judged as columns.
# A form is the keys of a line. Only lines of that form are taken that continue the log; the first one that is of another, or does not
# continue it, is left to the reader of single lines, which alone knows what it is.

_INT16, _INT32, _INT64 = 2**15, 2**31, 2**63
_TIME_COLUMNS = (b"CreateTime:", b"LogAppendTime:", b"NoTimestampType:")
_NUMBER_COLUMNS = {  # by key: least, most
    b"baseOffset:": (0, LAST_OFFSET),
    b"lastOffset:": (0, LAST_OFFSET),
    b"count:": (-1, _INT32 - 1),
    b"position:": (0, _INT64 - 1),
    **dict.fromkeys(_TIME_COLUMNS, (-_INT64, _INT64 - 1)),
    b"size:": (V2_HEADER.size, _INT32 - 1),
    b"partitionLeaderEpoch:": (-_INT32, _INT32 - 1),
    b"crc:": (0, 2**32 - 1),
    b"baseSequence:": (-_INT32, _INT32 - 1),
    b"producerId:": (-_INT64, _INT64 - 1),
    b"producerEpoch:": (-_INT16, _INT16 - 1),
    b"magic:": (2, 2),
}
_FLAG_COLUMNS = (b"isvalid:", b"isTransactional:", b"isControl:")
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
        times = [key for key in keys if key in _TIME_COLUMNS]
        if tokens[0] + b" " != BATCH[0] or any(key in keys for key in _OF_OLDER_LINES):
            raise ValueError("not of magic 2")
        if len(times) != 1 or not {*keys} >= _NEEDED:
            raise ValueError("not every number once")
        self._keys, self._time = keys, times[0]
        self._names = [str(place) for place in range(len(tokens))]
        types: list[pa.DataType] = []
        for key in keys:
            types.append(pa.binary(len(key)))
            types.append(pa.int64() if key in _NUMBER_COLUMNS else pa.bool_() if key in _FLAG_COLUMNS else pa.binary())
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
            key: np.frombuffer(_values(values[key]), np.int64, len(values[key])) for key in values if key in _NUMBER_COLUMNS
        }
        base, last, size, positions = (numbers[key] for key in (b"baseOffset:", b"lastOffset:", b"size:", b"position:"))
        delta = last - base
        count = numbers.get(b"count:", np.full(len(base), -1))
        possible = (delta >= 0) & (delta < _INT32 - 1) & (count <= delta + 1)
        for key, column in numbers.items():
            least, most = _NUMBER_COLUMNS[key]
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
