"""What the rows of `segments.parquet` and `small-files.parquet` may hold: bytes that fit the manifest need not be what `collect` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_audit.files.locations import opened
from replica_audit.formats.collection.manifest import CapturedReplica
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import limit_of
from replica_audit.formats.segment.record_batch import LAST_OFFSET
from replica_audit.formats.segment.segment_scan import GOES_BACK
from replica_audit.formats.values import PROBLEM, PRODUCERS, RUN, WINDOW
from replica_audit.model import INCOMPLETE_COLLECTION
from replica_audit.rows.arrow import BIGINT, BOOLEAN, INT, STRING, struct

_CHUNK = 1 << 20
_MOST_BYTES = 1 << 40  # of a segment, which Kafka lets have 2 GiB
_COUNTS = ("batch_count", "record_count", "size_bytes")
_COUNTS_OF_PRODUCER = ("batch_count", "record_count", "marker_count", "gap_count", "missing_count")
# what tells whether the file is still the one that was read: null of the newest segment of a replica, and of one that changed meanwhile.
# `ends` is a digest of the bytes at both ends, `was_at_rest` whether nothing had changed it for a while when it was read
IDENTITY = struct(device=STRING, inode=STRING, mtime_ns=BIGINT, ctime_ns=BIGINT, ends=STRING, was_at_rest=BOOLEAN)
# one row per segment. `index_bytes` is the size of its batch index, null where there is none; `verified_at_ms` when its CRCs were last
# verified, null: never to its end; `kept_crc32c` the CRC of its batch index, or of its copy
ROWS = pa.schema(
    list(
        struct(
            capture=INT,
            directory=STRING,
            topic=STRING,
            partition=INT,
            name=STRING,
            base_offset=BIGINT,
            swap=BOOLEAN,
            size_bytes=BIGINT,
            batch_count=BIGINT,
            index_bytes=BIGINT,
            runs=pa.list_(RUN),
            damaged=BOOLEAN,
            failed=BOOLEAN,
            problems=pa.list_(PROBLEM),
            windows=pa.list_(WINDOW),
            producers=PRODUCERS,
            identity=IDENTITY,
            verified_at_ms=BIGINT,
            kept_crc32c=BIGINT,
        )
    )
)
OF_COLLECTING = ("identity", "verified_at_ms")  # what the next collection asks, and no audit
LATER_COLUMNS = ("producers", "kept_crc32c", *OF_COLLECTING)  # which an earlier release did not write
_TEXTS = ("path", "kind", "code", "detail", "remedy")
# of what is read at once, at most a row group, for which `collect` takes 4 MiB of text and one row more: of a list in it, and of its texts
_MOST_ELEMENTS = 1 << 17
_MOST_TEXT = 1 << 26
COPY_AGAIN = "copy the whole folder again; or collect again"


class ForgedError(OSError):
    """A file that `collect` did not write, or that was changed since. `code` is that of the problem that it becomes."""

    code = INCOMPLETE_COLLECTION
    remedy = COPY_AGAIN

    def __init__(self, reason: str) -> None:
        """It cannot be used for a reason."""
        super().__init__(0, f"not what collect wrote: {reason}")


def of_directories(rows: pa.RecordBatch, directories: pa.StringArray) -> pa.RecordBatch:
    """Rows without those of other replica directories; all rows where many directories are wanted: whoever asks looks at each anyway."""
    if len(directories) > rows.num_rows:
        return rows
    names: Any = rows["directory"]
    if isinstance(names, pa.DictionaryArray):
        names = names.dictionary_decode()
    return rows.filter(pc.is_in(names, value_set=directories))


def not_as_written(path: Path, size_bytes: int, checksum: int | None) -> str | None:
    """How a file differs from what its manifest says; None: not at all."""
    try:
        size, found = path.stat().st_size, 0
        if size != size_bytes:
            return f"{size} bytes, {size_bytes} were collected"
        size = 0
        with opened(path) as stream:
            while chunk := stream.read(_CHUNK):
                size, found = size + len(chunk), crc32c.crc32c(chunk, found)
    except OSError as error:
        return error.strerror or str(error)
    if (size, found) == (size_bytes, checksum):
        return None
    return f"{size} bytes with CRC {found:08x}, {size_bytes} bytes with CRC {checksum:08x} were collected"


@contextmanager
def errors_as_forged() -> Iterator[None]:
    """What Arrow says of a file that is not as it should be, as a ForgedError."""
    try:
        yield
    except (pa.ArrowException, ValueError, TypeError, LookupError) as error:
        raise ForgedError(str(error).partition("\n")[0][:200]) from None


def check_file(file: pq.ParquetFile, size_bytes: int, schema: pa.Schema) -> int:
    """Refuse a file with other columns, or with more rows than its bytes can hold: each has a name and a place of its own.

    It may lack LATER_COLUMNS.

    Returns:
        How many rows it says that it has.

    Raises:
        ForgedError: so it is.
    """
    found = {field.name: field.with_type(_undone(field.type)) for field in file.schema_arrow}
    expected = [field for field in schema if field.name not in LATER_COLUMNS or field.name in found]
    other = [field.name for field in expected if field.name not in found or not found[field.name].equals(field)]
    if other:
        raise ForgedError(f"the column {other[0]} is missing, or of another type")
    if file.metadata.num_rows > size_bytes:
        raise ForgedError(f"{file.metadata.num_rows} rows in {size_bytes} bytes")
    return int(file.metadata.num_rows)


def _undone(kind: pa.DataType) -> pa.DataType:
    """A type without the dictionaries that a column is read with."""
    if isinstance(kind, pa.DictionaryType):
        return cast("pa.DataType", kind.value_type)
    if isinstance(kind, pa.ListType):
        return pa.list_(_undone(kind.value_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_undone(field.type)) for field in kind])
    return kind


def opened_rows(source: BinaryIO) -> pq.ParquetFile:
    """A `segments.parquet`, whose texts are read as dictionaries, which hold what repeats once: for `unpacked`."""
    read = pq.ParquetFile(source)
    # its columns are not asked: Arrow ends the process for the metadata of a damaged one
    texts = [path for field in read.schema_arrow for path in _paths_of_texts(field.name, field.type)]
    return pq.ParquetFile(source, metadata=read.metadata, page_checksum_verification=True, read_dictionary=texts)


def _paths_of_texts(path: str, kind: pa.DataType) -> Iterator[str]:
    """Where Parquet has the texts of a column."""
    if isinstance(kind, pa.ListType):
        yield from _paths_of_texts(f"{path}.list.{kind.value_field.name}", kind.value_type)
    elif isinstance(kind, pa.StructType):
        for field in kind:
            yield from _paths_of_texts(f"{path}.{field.name}", field.type)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield path


def unpacked(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of at most a row group without dictionaries. Looked at are the rows: what the file says of their size may be forged, too.

    Raises:
        ForgedError: they hold more than `collect` writes at once: a few bytes of a file may stand for any number of equal values.
    """
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        for values in _leaves(column):
            if len(values) > max(_MOST_ELEMENTS, rows.num_rows):
                raise ForgedError(f"{len(values)} elements of {name} in {rows.num_rows} rows")
            if isinstance(values, pa.DictionaryArray) and (size := _text_bytes(values)) > _MOST_TEXT:
                raise ForgedError(f"{size} bytes of text of {name} in {rows.num_rows} rows")
    kinds = pa.schema([field.with_type(_undone(field.type)) for field in rows.schema])
    return rows if rows.schema.equals(kinds) else rows.cast(kinds)


def _leaves(values: Any) -> Iterator[pa.Array[Any]]:
    if isinstance(values, pa.ListArray):
        yield from _leaves(values.flatten())
    elif isinstance(values, pa.StructArray):
        for number in range(values.type.num_fields):
            yield from _leaves(values.field(number))
    else:
        yield values


def _text_bytes(values: pa.DictionaryArray[Any, Any]) -> int:
    texts: Any = values.dictionary
    lengths: Any = pc.binary_length(texts).cast(pa.int64())
    return int(pc.sum(lengths.take(values.indices)).as_py() or 0)


def check_segment(row: Mapping[str, Any]) -> None:
    """Refuse a row that names no segment.

    Raises:
        ForgedError: so it is.
    """
    name = log_dir.segment_name(row["name"]) if isinstance(row["name"], str) else None
    numbers = [row[column] for column in ("base_offset", "size_bytes", "batch_count")]
    index = row["index_bytes"]
    fits = all(isinstance(number, int) and number >= 0 for number in numbers) and (index is None or index >= 0)
    if name is None or not fits or row["base_offset"] != name.base_offset or row["size_bytes"] > _MOST_BYTES or row["swap"] is None:
        raise ForgedError(f"a row of {row['directory']} that is of no segment")


def check_scan(row: Mapping[str, Any], *, has_runs: bool) -> None:
    """Refuse a row whose windows, producers or problems no scan has; its directory says which replica it is of.

    Args:
        row: without its runs, of a segment as `check_segment` lets it pass.
        has_runs: whether a scan can have its runs, as `runs_fit` tells.

    Raises:
        ForgedError: so it is.
    """
    replica = log_dir.replica_directory(row["directory"])
    if replica is None or (replica.topic, replica.partition) != (row["topic"], row["partition"]):
        raise ForgedError(f"a row of {row['directory']} that names another partition")
    fits = (
        row["damaged"] is not None
        and row["failed"] is not None
        and has_runs
        and _are_windows(row["windows"])
        and _are_producers(row["producers"])
        and _are_problems(row["problems"])
    )
    if not fits:
        raise ForgedError(f"the scan of {row['name']} of {row['directory']} cannot be one")


def reports_descending_offsets(row: Mapping[str, Any]) -> bool:
    """Whether one of the problems of a row is that: then its runs need not ascend."""
    return any(problem is not None and problem["code"] == GOES_BACK for problem in row["problems"] or ())


def runs_fit(column: pa.ListArray[Any], may_go_back: Sequence[bool]) -> list[bool]:
    """Of each list of runs whether a scan can have it, asked of all at once: all can be runs, in the order of their offsets.

    `may_go_back`: of each list whether they may be in another order.
    """
    runs, of_row = cast("pa.StructArray", column.flatten()), _numbers(pc.list_parent_indices(column))
    values = {field.name: part for field, part in zip(runs.type, runs.flatten(), strict=True)}
    has_null = np.zeros(len(runs), bool)
    for part in values.values():
        if part.null_count:
            has_null |= _numbers(part.is_null()) != 0

    def numbers(name: str) -> npt.NDArray[np.int64]:
        return _numbers(values[name])

    first, last = numbers("first_offset"), numbers("last_offset")
    fits = ~has_null & (numbers("leader_epoch") >= -1) & (first >= 0) & (first <= last) & (last <= LAST_OFFSET)
    for name in _COUNTS:
        fits &= numbers(name) >= 0
    fits &= (numbers("batch_count") >= 1) & (numbers("size_bytes") > 0) & (numbers("size_bytes") <= _MOST_BYTES)
    fits[1:] &= (last[:-1] < first[1:]) | (of_row[:-1] != of_row[1:]) | np.array(may_go_back, bool)[of_row[1:]]
    of_rows = _numbers(column.is_valid()) != 0
    of_rows[of_row[~fits]] = False
    return cast("list[bool]", of_rows.tolist())


def _numbers(values: pa.Array[Any]) -> npt.NDArray[np.int64]:
    """Numbers or booleans, 0 for null. Neither by `np.asarray` nor by `fill_null`, for which Arrow imports pandas."""
    found = values.cast(pa.int64())
    if found.null_count:
        zeros = np.zeros(len(found), np.int64)
        found = pc.coalesce(found, pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(zeros.data)]))
    return cast("npt.NDArray[np.int64]", np.from_dlpack(found))


def plain_values(values: pa.Array[Any]) -> list[Any]:
    """Numbers or booleans, none of them null, in Python: a tenth of what `to_pylist` takes, which makes a scalar of each."""
    found = _numbers(values)
    return cast("list[Any]", (found != 0 if pa.types.is_boolean(values.type) else found).tolist())


def without_claims(rows: pa.RecordBatch, problems: Mapping[int, Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows, some of which, by their number, are no scans: these have a problem, and nothing that they claim."""
    made = rows.to_pylist()
    for number, problem in problems.items():
        row = made[number]
        row |= {"runs": [], "windows": [], "producers": None, "damaged": False, "failed": True, "problems": [problem]}
        parsed = log_dir.replica_directory(row["directory"])
        row |= {"topic": parsed.topic, "partition": parsed.partition} if parsed else {}
    return pa.RecordBatch.from_pylist(made, schema=rows.schema)


def _are_windows(windows: Any) -> bool:
    return all(
        window is not None
        and None not in window.values()
        and 0 <= window["window_start_offset"] < window["window_end_offset"]
        and window["batch_count"] >= 1
        for window in windows or ()
    )


def _are_producers(producers: Any) -> bool:
    if producers is None:
        return True
    spans, gaps, untold = producers["spans"], producers["gaps"], producers["untold_batches"]
    return (
        spans is not None
        and gaps is not None
        and untold is not None
        and untold >= 0
        and all(one is not None and None not in one.values() and one["producer_id"] >= 0 for one in (*spans, *gaps))
        and all(0 <= span["first_offset"] <= span["last_offset"] <= LAST_OFFSET for span in spans)
        and all(span[count] >= 0 for span in spans for count in _COUNTS_OF_PRODUCER)
        and all(0 <= gap["last_offset_before"] < gap["first_offset_after"] <= LAST_OFFSET for gap in gaps)
    )


def _are_problems(problems: Any) -> bool:
    return all(
        problem is not None
        and all(problem[name] is not None for name in _TEXTS)
        and (problem["line"] is None or problem["line"] >= 1)
        and (problem["byte_offset"] is None or problem["byte_offset"] >= 0)
        for problem in problems or ()
    )


# `small-files.parquet`: the small files of a log directory's replicas, whole, a row for each.
# A cluster has hundreds of thousands of them: in files of their own they took longer to copy, to list and to open than all else.

SMALL_FILE_ROWS = pa.schema(list(struct(capture=INT, directory=STRING, name=STRING, content=pa.binary())))
_SMALL_FILE_TEXTS = ["directory", "name", "content"]
_ROWS_AT_ONCE = 1024
_MOST_SMALL_FILE_BYTES = 2 << 30  # of all of them: ten thousand replicas with ten thousand epochs each have less
Contents = dict[str, dict[str, bytes]]  # by directory and name


class TooManyBytesError(OSError):
    """More small files than an audit keeps in memory. `code` and `remedy` are those of the problem that it becomes."""

    code = "too-large"
    remedy = "collect fewer topics at a time (--topics), or audit a copy of the log directory itself"

    def __init__(self, size: int) -> None:
        """There are `size` bytes."""
        super().__init__(0, f"holds {size} bytes, more than the {_MOST_SMALL_FILE_BYTES} that are read; the log directory is left out")


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
    with (
        errors_as_forged(),
        opened(path) as source,
        pq.ParquetFile(source, page_checksum_verification=True, read_dictionary=_SMALL_FILE_TEXTS) as file,
    ):
        check_file(file, size_bytes, SMALL_FILE_ROWS)
        _refuse_too_much(_declared_bytes(file.metadata))
        yield file


def _declared_bytes(file: pq.FileMetaData) -> int:
    """How many bytes a file says that it holds. Its columns are not asked: Arrow ends the process for the metadata of a damaged one."""
    return sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))


def _refuse_too_much(size: int) -> None:
    if size > _MOST_SMALL_FILE_BYTES:
        raise TooManyBytesError(size)


def _add(rows: pa.RecordBatch, replicas: Mapping[str, CapturedReplica], found: Contents) -> int:
    """Add the small files of some rows; those of replicas that are not asked for, and of other captures of a replica, are left out.

    Returns:
        How many bytes they take: those that are equal are in memory once.
    """
    held: dict[int, int] = {}
    columns = [rows["capture"].to_pylist(), *(_values(rows[name]) for name in _SMALL_FILE_TEXTS)]
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
    places = column.indices.unique()
    held = dict(zip(places.to_pylist(), column.dictionary.take(places).to_pylist(), strict=True))
    return list(map(held.__getitem__, column.indices.to_pylist()))
