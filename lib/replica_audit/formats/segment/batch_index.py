"""The headers of one segment's batches in a Parquet file of their own, which is opened only where replicas differ.

Rows are written from headers, or from the raw bytes of many at once: a segment of small batches has millions, each of which costs a
microsecond as a value of Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_audit.files.locations import opened
from replica_audit.formats.segment.record_batch import CODEC, CONTROL, TRANSACTIONAL, codec_name
from replica_audit.model import BatchHeader
from replica_audit.rows.arrow import BIGINT, BOOLEAN, INT, STRING, struct

_Numbers: TypeAlias = np.ndarray[Any, Any]
BATCHES = pa.schema(
    list(
        struct(
            position=BIGINT,
            base_offset=BIGINT,
            last_offset=BIGINT,
            size_bytes=BIGINT,
            magic=pa.int8(),
            leader_epoch=INT,
            record_count=BIGINT,
            max_timestamp_ms=BIGINT,
            crc=pa.uint32(),
            crc_valid=BOOLEAN,
            codec=pa.dictionary(pa.int32(), STRING),
            is_transactional=BOOLEAN,
            is_control=BOOLEAN,
            producer_id=BIGINT,
            producer_epoch=pa.int16(),
            base_sequence=INT,
        )
    )
)
_ROWS = 1 << 17  # of a row group: some 10 MB in memory
_RISING = ("position", "base_offset", "last_offset", "size_bytes", "record_count", "max_timestamp_ms")
_CONSTANT = ["magic", "leader_epoch", "codec", "producer_id", "producer_epoch", "base_sequence"]
_UNKNOWN = ("record_count", "crc_valid")  # may be null
_CODECS = tuple(codec_name(attributes) for attributes in range(8))
_NUMPY: dict[pa.DataType, type[np.generic]] = {BIGINT: np.int64, INT: np.int32, pa.int16(): np.int16}
_NUMPY |= {pa.int8(): np.int8, pa.uint32(): np.uint32}


class BatchIndexWriter:
    """Writes the index of one segment. `count` is the number of batches so far.

    While rows are encoded, by a thread that needs nothing of Python, the next are read: that takes as long. What failed there is raised by
    the next call.
    """

    def __init__(self, path: Path) -> None:
        """Begin the file; `close` completes it."""
        self.count = 0
        self._encoder: ThreadPoolExecutor | None = None
        self._encoding: Future[None] | None = None
        self._writer = pq.ParquetWriter(
            str(path),
            BATCHES,
            compression="zstd",
            compression_level=1,
            use_dictionary=cast(bool, _CONSTANT),  # its stubs know no names of columns
            column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
            write_statistics=False,
            write_page_checksum=True,
        )
        self._headers: list[BatchHeader] = []
        self._tables: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, header: BatchHeader) -> None:
        """Add the next batch."""
        self.count += 1
        self._headers.append(header)
        if len(self._headers) >= _ROWS // 8:
            self._gather()

    def add_columns(self, columns: Mapping[str, _Numbers]) -> None:
        """Add many, the columns of which are as `BatchColumns.for_index` has them; they are copied."""
        self.count += len(columns["position"])
        self._gather()
        attributes = columns["attributes"].astype(np.int16)
        flags = {"codec": attributes & CODEC, "is_transactional": attributes & TRANSACTIONAL, "is_control": attributes & CONTROL}
        self._take(_record_batch({**columns, **flags}))

    def _gather(self) -> None:
        if self._headers:
            rows = _from_headers(self._headers)
            self._headers = []
            self._take(rows)

    def _take(self, rows: pa.RecordBatch) -> None:
        self._tables.append(rows)
        self._rows += rows.num_rows
        if self._rows >= _ROWS:
            self._write()

    def _write(self) -> None:
        if self._encoder is None:
            self._encoder = ThreadPoolExecutor(1)
        self._finish_encoding()
        self._encoding = self._encoder.submit(self._encode, self._tables, self._rows)
        self._tables, self._rows = [], 0

    def _encode(self, tables: list[pa.RecordBatch], rows: int) -> None:
        self._writer.write_table(pa.Table.from_batches(tables, schema=BATCHES), row_group_size=rows)

    def _finish_encoding(self) -> None:
        if self._encoding is not None:
            encoding, self._encoding = self._encoding, None
            encoding.result()

    def close(self) -> None:
        """Complete the file."""
        self._gather()
        self._finish_encoding()
        if self._rows:
            self._encode(self._tables, self._rows)
        self._writer.close()
        self.stop()

    def stop(self) -> None:
        """Write no more; the file is not complete unless it was closed."""
        if self._encoder is not None:
            self._encoder.shutdown()


def _from_headers(headers: Sequence[BatchHeader]) -> pa.RecordBatch:
    columns = dict(zip(BatchHeader._fields, zip(*headers, strict=True), strict=True))
    columns["codec"] = tuple(map(_CODECS.index, columns["codec"]))
    if headers[0].crc_valid is None:
        del columns["crc_valid"]
    return _record_batch({name: np.array(column) for name, column in columns.items()})


def _record_batch(columns: Mapping[str, _Numbers]) -> pa.RecordBatch:
    """Columns of numbers as rows of BATCHES; `codec` by number. Without `pa.array`, which imports pandas to ask it what a list is."""
    made: list[pa.Array[Any]] = []
    for field in BATCHES:
        values = columns.get(field.name)
        if values is None:
            made.append(pa.nulls(len(columns["position"]), field.type))
        elif field.name == "codec":
            made.append(pa.DictionaryArray.from_arrays(_array(INT, values), _CODEC_NAMES))
        elif field.type == BOOLEAN:
            made.append(_bits(values))
        else:
            made.append(_array(field.type, values))
    return pa.RecordBatch.from_arrays(made, schema=BATCHES)


def _array(kind: pa.DataType, values: _Numbers) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, _NUMPY[kind], order="C").data)])


def _bits(values: _Numbers) -> pa.Array[Any]:
    return pa.Array.from_buffers(BOOLEAN, len(values), [None, pa.py_buffer(np.packbits(values.astype(bool), bitorder="little").data)])


def _texts(values: Sequence[str]) -> pa.Array[Any]:
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return pa.Array.from_buffers(STRING, len(values), [None, pa.py_buffer(ends.data), pa.py_buffer("".join(values).encode("ascii"))])


_CODEC_NAMES = _texts(_CODECS)


def read_index(path: Path, *, may_go_back: bool = False) -> Iterator[BatchHeader]:
    """The headers in a file, in order and in bounded memory; `may_go_back`: their offsets need not ascend.

    Raises:
        OSError: the file cannot be read, or not as an index.
    """
    try:
        with opened(path) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
            if not file.schema_arrow.equals(BATCHES):
                raise OSError(0, "not a batch index: it has other columns")
            next_offset, left = 0, _rows_of(file)
            for rows in file.iter_batches(batch_size=_ROWS // 8):
                left -= rows.num_rows
                if any(column.null_count for name, column in zip(rows.schema.names, rows.columns, strict=True) if name not in _UNKNOWN):
                    raise OSError(0, "not a batch index: it lacks values")
                if not pc.all(pc.is_in(cast("Any", rows["codec"]).dictionary, value_set=_CODEC_NAMES)).as_py():
                    raise OSError(0, "not a batch index: it has other codecs than Kafka")  # one text that fills memory once for each row
                for header in map(BatchHeader._make, zip(*(column.to_pylist() for column in rows.columns), strict=True)):
                    if not next_offset <= header.base_offset <= header.last_offset or header.size_bytes < 1:
                        raise OSError(0, f"not a batch index: a batch of offsets {header.base_offset}..{header.last_offset}")
                    next_offset = 0 if may_go_back else header.last_offset + 1
                    yield header
            if left:
                raise OSError(0, f"not a batch index: {left} of its rows are not there")
    except (pa.ArrowException, ValueError, TypeError, LookupError) as error:  # whatever comes of a damaged footer
        raise OSError(0, f"not a batch index: {error}") from None


def _rows_of(file: pq.ParquetFile) -> int:
    """How many rows a file says that it has. Its columns are not asked: Arrow ends the process for the metadata of a damaged one."""
    if sum(file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)) != file.metadata.num_rows:
        raise OSError(0, "not a batch index: it contradicts itself as to how many rows it has")
    return file.metadata.num_rows


def synthetic(rows: Iterable[BatchHeader], offset: int) -> Iterator[BatchHeader]:
    """Batches that stand for runs, where no index was collected: a run that an offset lies inside of is parted there.

    What a truncation to that offset takes is then told by offsets: records as if none were missing, bytes in proportion.
    """
    for run in rows:
        if not run.base_offset < offset <= run.last_offset:
            yield run
            continue
        width, records = run.last_offset - run.base_offset + 1, run.record_count or 0
        below = offset - run.base_offset
        kept_bytes, kept_records = run.size_bytes * below // width, records * below // width
        yield run._replace(last_offset=offset - 1, size_bytes=kept_bytes, record_count=kept_records)
        yield run._replace(base_offset=offset, size_bytes=run.size_bytes - kept_bytes, record_count=records - kept_records)
