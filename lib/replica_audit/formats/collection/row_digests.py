"""A digest of what a collection holds of a replica, which says whether another collection holds the same.

Rows of a `segments.parquet` are digested by columns, without making Python values of them, to 64 bits each; numbers are mixed as SplitMix64
does it (Steele, Lea and Flood, 2014), lists by the places of their items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.digests import digest

Hashes = npt.NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL, _TEXT, _LIST, _STRUCT = (np.uint64(number) for number in (0x5851F42D, 0x2545F491, 0x1D8E4E27, 0x3C6EF372))


def replica_digest(rows: Sequence[int], small: str) -> str:
    """The digest of a replica directory.

    Args:
        rows: those of its rows, as of `row_digests`, in the order of the file.
        small: that of its small files, as of `small_files_digest`.
    """
    return digest((list(rows), small))


def small_files_digest(small: Mapping[str, bytes]) -> str:
    """The digest of the small files of a replica directory, by name."""
    return digest([(name, blake2b(content).digest()) for name, content in sorted(small.items())])


def row_digests(rows: pa.RecordBatch) -> list[int]:
    """The digest of each row."""
    names = [pa.field(name, column.type) for name, column in zip(rows.schema.names, rows.columns, strict=True)]
    made: list[int] = _hashes(pa.StructArray.from_arrays(rows.columns, fields=names)).tolist()
    return made


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _hashes(values: Any) -> Hashes:
    if pa.types.is_struct(values.type):
        found = np.full(len(values), _STRUCT, np.uint64)
        for child in values.flatten():
            found = _mixed(found * _STEP + _hashes(child))
    elif pa.types.is_list(values.type):
        found = _of_lists(values)
    elif pa.types.is_string(values.type):
        found = _of_texts(values)
    else:
        numbers: Any = _filled(values.cast(pa.int64()), 0)
        found = _mixed(numbers.astype(np.uint64, copy=False) + _STEP)
    if values.null_count:
        found = np.where(_filled(values.is_null().cast(pa.uint8()), 0) != 0, _NULL, found)
    return found


def _of_lists(values: Any) -> Hashes:
    lengths: npt.NDArray[np.int64] = _filled(pc.list_value_length(values), 0).astype(np.int64)
    ends = np.cumsum(lengths)
    places = (np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)).astype(np.uint64)
    items = _mixed(_hashes(values.flatten()) + (places + np.uint64(1)) * _STEP)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
    return _mixed((sums[ends] - sums[ends - lengths]) ^ (lengths.astype(np.uint64) * _STEP + _LIST))


def _of_texts(values: Any) -> Hashes:
    encoded = values.dictionary_encode()
    texts = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) for text in encoded.dictionary.to_pylist()]
    known = np.array([*texts, 0], np.uint64)  # one more, for null
    places = _filled(encoded.indices, len(texts))
    return _mixed(known[places] + _TEXT)


def _filled(values: Any, number: int) -> npt.NDArray[Any]:
    """Numbers, with one in the place of null. `pa.scalar` and `to_numpy` import pandas, which collecting has no use for."""
    kind = values.type.to_pandas_dtype()
    if not len(values):  # it may have no buffer
        return np.zeros(0, kind)
    held = pa.Array.from_buffers(values.type, 1, [None, pa.py_buffer(np.array([number], kind).data)])
    filled: Any = pc.fill_null(values, held[0])
    return np.frombuffer(filled.buffers()[1], kind)[filled.offset : filled.offset + len(filled)]
