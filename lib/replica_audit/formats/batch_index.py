"""The headers of one segment's batches in a Parquet file of their own, which is opened only where replicas differ.

Rows are written from headers, or from the raw bytes of many at once: a segment of small batches has millions, each of which costs a
microsecond as a value of Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.formats.record_batch import LOG_OVERHEAD, codec_name
from replica_audit.model import BatchHeader
from replica_audit.schemas.columns import BIGINT, BOOLEAN, INT, STRING, struct

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
            codec=STRING,
            is_transactional=BOOLEAN,
            is_control=BOOLEAN,
            producer_id=BIGINT,
            producer_epoch=pa.int16(),
            base_sequence=INT,
        )
    )
)
RAW_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_ROWS = 1 << 17  # of a row group: some 10 MB in memory
_RISING = ("position", "base_offset", "last_offset", "size_bytes", "record_count", "max_timestamp_ms")
_CONSTANT = ["magic", "leader_epoch", "codec", "producer_id", "producer_epoch", "base_sequence"]
_CODECS = [codec_name(attributes) for attributes in range(8)]


class BatchIndexWriter:
    """Writes the index of one segment. `count` is the number of batches so far."""

    def __init__(self, path: Path) -> None:
        """Begin the file; `close` completes it."""
        self.count = 0
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

    def add_raw(self, positions: np.ndarray[Any, Any], headers: np.ndarray[Any, Any], crc_valid: np.ndarray[Any, Any] | None) -> None:
        """Add many of magic 2: where they begin, the first 61 bytes of each (RAW_HEADER), and whether their CRCs match if that is known."""
        self.count += len(positions)
        self._gather()
        self._take(_from_raw(positions, headers, crc_valid))

    def _gather(self) -> None:
        if self._headers:
            columns = [pa.array(column, type=field.type) for column, field in zip(zip(*self._headers, strict=True), BATCHES, strict=True)]
            self._headers = []
            self._take(pa.record_batch(columns, schema=BATCHES))

    def _take(self, rows: pa.RecordBatch) -> None:
        self._tables.append(rows)
        self._rows += rows.num_rows
        if self._rows >= _ROWS:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._tables, schema=BATCHES), row_group_size=self._rows)
        self._tables, self._rows = [], 0

    def close(self) -> None:
        """Complete the file."""
        self._gather()
        if self._rows:
            self._write()
        self._writer.close()

    def abandon(self) -> None:
        """Let go of the file, which stays as it is: of no use."""
        self._headers, self._tables, self._rows = [], [], 0
        self._writer.close()


def _from_raw(positions: np.ndarray[Any, Any], raw: np.ndarray[Any, Any], crc_valid: np.ndarray[Any, Any] | None) -> pa.RecordBatch:
    base = raw["base_offset"].astype(np.int64)
    attributes = raw["attributes"].astype(np.int16)
    columns = {
        "position": positions.astype(np.int64),
        "base_offset": base,
        "last_offset": base + raw["last_offset_delta"],
        "size_bytes": raw["length"].astype(np.int64) + LOG_OVERHEAD,
        "magic": raw["magic"].astype(np.int8),
        "leader_epoch": raw["leader_epoch"].astype(np.int32),
        "record_count": raw["record_count"].astype(np.int64),
        "max_timestamp_ms": raw["max_timestamp"].astype(np.int64),
        "crc": raw["crc"].astype(np.uint32),
        "crc_valid": crc_valid if crc_valid is not None else pa.nulls(len(positions), pa.bool_()),
        "codec": pa.DictionaryArray.from_arrays((attributes & 7).astype(np.int8), pa.array(_CODECS)).dictionary_decode(),
        "is_transactional": (attributes & 0x10) != 0,
        "is_control": (attributes & 0x20) != 0,
        "producer_id": raw["producer_id"].astype(np.int64),
        "producer_epoch": raw["producer_epoch"].astype(np.int16),
        "base_sequence": raw["base_sequence"].astype(np.int32),
    }
    return pa.record_batch([pa.array(columns[field.name], type=field.type) for field in BATCHES], schema=BATCHES)


def read_index(path: Path) -> Iterator[BatchHeader]:
    """The headers in a file, in order and in bounded memory.

    Raises:
        OSError: the file cannot be read, or not as an index.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for rows in file.iter_batches(batch_size=_ROWS // 8, columns=list(BatchHeader._fields)):
                yield from map(BatchHeader._make, zip(*(column.to_pylist() for column in rows.columns), strict=True))
    except pa.ArrowException as error:
        raise OSError(0, f"not a batch index: {error}") from None


def synthetic(rows: Sequence[BatchHeader], offset: int) -> Iterator[BatchHeader]:
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
