"""`small-files.parquet`: the small files of a log directory's replicas, whole, a row for each.

A cluster has hundreds of thousands of them: in files of their own they took longer to copy, to list and to open than all else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.files.locations import random_access
from replica_audit.formats.collection.collected_rows import ForgedError, check_file, told
from replica_audit.formats.collection.collection_manifest import CapturedReplica
from replica_audit.formats.log_dir.whole_file import limit_of
from replica_audit.tables.columns import INT, STRING, struct

SMALL_FILES = pa.schema(list(struct(capture=INT, directory=STRING, name=STRING, content=pa.binary())))
_ROWS_AT_ONCE = 4096


def read_small_files(path: Path, size_bytes: int, replicas: Mapping[str, CapturedReplica]) -> dict[str, dict[str, bytes]]:
    """The small files of some replica directories.

    Args:
        path: of the file.
        size_bytes: how large the manifest says that it is.
        replicas: what it says of each of these directories.

    Returns:
        By directory what each small file holds, by its name: those that the manifest names.

    Raises:
        OSError: the file cannot be read, or (ForgedError) is not what `collect` wrote.
    """
    found: dict[str, dict[str, bytes]] = {directory: {} for directory in replicas}
    captures = {directory: replica.capture for directory, replica in replicas.items()}
    with told(), random_access(path) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
        check_file(file, size_bytes, SMALL_FILES)
        for rows in file.iter_batches(batch_size=_ROWS_AT_ONCE):
            columns: list[list[Any]] = [rows[name].to_pylist() for name in ("directory", "capture")]
            places = [place for place, (one, capture) in enumerate(zip(*columns, strict=True)) if captures.get(one) == capture]
            held: list[list[Any]] = [rows[name].take(pa.array(places, pa.int64())).to_pylist() for name in ("name", "content")]
            for place, name, content in zip(places, *held, strict=True):
                found[columns[0][place]][name] = content
    for directory, replica in replicas.items():
        of_replica = found[directory]
        if of_replica.keys() != set(replica.files) or any(not _is_whole(*one) for one in of_replica.items()):
            raise ForgedError(f"the small files of {directory} are not those that the manifest names, or not whole")
    return found


def _is_whole(name: str, content: bytes | None) -> bool:
    return content is not None and len(content) <= limit_of(name)
