"""Rows of many partitions, packed into a few values: Spark moves them without looking into them.

All rows of a partition are packed under one number, so that what is known of it meets in one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PACKS = 128  # of which a partition belongs to one; a task has one at least
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def pack_of(cluster_id: str, topic: str, partition: int) -> int:
    """The pack that the rows of a partition are in; `engine.arrow.pack` is the same for Spark."""
    return crc32(f"{cluster_id}/{topic}/{partition}".encode("utf-8", "backslashreplace")) % PACKS


def by_pack(rows: pa.RecordBatch, packs: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows, those of each pack together.

    Args:
        rows: any.
        packs: of each row its pack.
    """
    numbers = np.array(packs, np.int64)
    order: npt.NDArray[np.int64] = np.argsort(numbers, kind="stable")
    of_packs, firsts = np.unique(numbers[order], return_index=True)
    arranged: Any = rows.take(order)
    bounds = pairwise([*firsts.tolist(), len(numbers)])
    for pack, (first, end) in zip(of_packs.tolist(), bounds, strict=True):
        yield pack, arranged.slice(first, end - first)


def packed(rows: pa.RecordBatch) -> bytes:
    """Rows as one value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
        stream.write_batch(rows)
    return sink.getvalue().to_pybytes()


def unpacked(pack: bytes) -> pa.RecordBatch:
    """The rows of such a value."""
    with pa.ipc.open_stream(pack) as stream:
        return stream.read_next_batch()
