"""`small-files.parquet`: the small files of a log directory's replicas, whole, a row for each.

A cluster has hundreds of thousands of them: in files of their own they took longer to copy, to list and to open than all else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.files.locations import opened
from replica_audit.formats.collection.collected_rows import ForgedError, check_file, of_directories, told
from replica_audit.formats.collection.collection_manifest import CapturedReplica
from replica_audit.formats.log_dir.whole_file import limit_of
from replica_audit.rows.arrow import INT, STRING, struct

SMALL_FILE_ROWS = pa.schema(list(struct(capture=INT, directory=STRING, name=STRING, content=pa.binary())))
_TEXTS = ["directory", "name", "content"]
_ROWS_AT_ONCE = 1024
_MOST_BYTES = 2 << 30  # of all of them: ten thousand replicas with ten thousand epochs each have less
Contents = dict[str, dict[str, bytes]]  # by directory and name


class TooManyBytesError(OSError):
    """More small files than an audit keeps in memory. `code` and `remedy` are those of the problem that it becomes."""

    code = "too-large"
    remedy = "collect fewer topics at a time (--topics), or audit a copy of the log directory itself"

    def __init__(self, size: int) -> None:
        """There are `size` bytes."""
        super().__init__(0, f"holds {size} bytes, more than the {_MOST_BYTES} that are read; the log directory is left out")


def kept_small_files(path: Path, size_bytes: int, replicas: Mapping[str, CapturedReplica]) -> Contents:
    """The small files of some replica directories.

    Args:
        path: of the file.
        size_bytes: how large the manifest says that it is.
        replicas: what it says of each of these directories.

    Returns:
        By directory what each small file holds, by its name: those that the manifest names.

    Raises:
        OSError: the file cannot be read, is too large (TooManyBytesError), or (ForgedError) not what `collect` wrote.
    """
    found: Contents = {directory: {} for directory in replicas}
    size = 0
    with _opened(path, size_bytes) as file:
        directories = pa.array(replicas, STRING)
        for rows in file.iter_batches(batch_size=_ROWS_AT_ONCE):
            size += _add(of_directories(rows, directories), replicas, found)
            _refuse_too_much(size)
    for directory, replica in replicas.items():
        # what was found is in the manifest, so that the numbers tell nearly always
        if len(found[directory]) != len(replica.files) and found[directory].keys() != set(replica.files):
            lacking = ", ".join(sorted(set(replica.files) - found[directory].keys()))
            raise ForgedError(f"{directory} lacks {lacking}")
    return found


@contextmanager
def _opened(path: Path, size_bytes: int) -> Iterator[pq.ParquetFile]:
    # as dictionaries: what repeats is in memory once, as it is in the file
    with told(), opened(path) as source, pq.ParquetFile(source, page_checksum_verification=True, read_dictionary=_TEXTS) as file:
        check_file(file, size_bytes, SMALL_FILE_ROWS)
        _refuse_too_much(_said_bytes(file.metadata))
        yield file


def _said_bytes(file: pq.FileMetaData) -> int:
    """How many bytes a file says that it holds. Its columns are not asked: Arrow ends the process for the metadata of a damaged one."""
    return sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))


def _refuse_too_much(size: int) -> None:
    if size > _MOST_BYTES:
        raise TooManyBytesError(size)


def _add(rows: pa.RecordBatch, replicas: Mapping[str, CapturedReplica], found: Contents) -> int:
    """Add the small files of some rows; those of replicas that are not asked for, and of other captures of a replica, are left out.

    Returns:
        How many bytes they take: those that are equal are in memory once.
    """
    held: dict[int, int] = {}
    columns = [rows["capture"].to_pylist(), *(_values(rows[name]) for name in _TEXTS)]
    for capture, directory, name, content in zip(*columns, strict=True):
        replica = replicas.get(directory)
        if replica is None or capture != replica.capture:
            continue
        if name not in replica.files:
            raise ForgedError(f"{directory} has {name!r}, which is not in the manifest")
        if name in found[directory]:
            raise ForgedError(f"{directory} has {name} twice")
        if content is None or len(content) > limit_of(name):
            raise ForgedError(f"{directory} has {name} without content, or with more than {limit_of(name)} bytes")
        found[directory][name] = content
        held[id(content)] = len(content)
    return sum(held.values())


def _values(column: Any) -> list[Any]:
    """The values of a dictionary array; each is made once, where `to_pylist` makes it for every row."""
    if len(column) < len(column.dictionary):
        return cast("list[Any]", column.to_pylist())
    held = [*column.dictionary.to_pylist(), None]
    return [held[-1 if place is None else place] for place in column.indices.to_pylist()]
