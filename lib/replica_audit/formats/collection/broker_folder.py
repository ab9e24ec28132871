"""What `collect` wrote, read as a broker's folder: which segments each replica had, and the scans of them.

    broker-1/manifest.json                                       what was taken, written last
    broker-1/data-0/meta.properties, ...-checkpoint              copies of a log directory's small files
    broker-1/data-0/small-files.parquet                          those of its replicas, one row for each
    broker-1/data-0/__consumer_offsets-0/...                     copies of segments, of internal topics alone
    broker-1/data-0/segments.parquet                             one row per segment
    broker-1/data-0/batches/orders-0/00000000000000000000.parquet   the headers of a segment's batches

Everything is named by where it lay on the broker: tables made of a collection name the broker's files, not the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_audit.errors import MetadataError
from replica_audit.files.locations import located, opened
from replica_audit.files.tree_walk import Folder, cannot_read
from replica_audit.formats.collection.collected_rows import (
    COPY_AGAIN,
    LATER_COLUMNS,
    OF_COLLECTING,
    ROWS,
    Contents,
    ForgedError,
    check_file,
    check_scan,
    check_segment,
    errors_as_forged,
    kept_small_files,
    not_as_written,
    of_directories,
    opened_rows,
    plain_values,
    reports_descending_offsets,
    runs_fit,
    unpacked,
    without_claims,
)
from replica_audit.formats.collection.manifest import (
    MANIFEST,
    SEGMENTS_FILE,
    SMALL_FILES_FILE,
    CapturedLogDir,
    CapturedReplica,
    Manifest,
    file_digest,
    read,
)
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import SharedCheckpoints, whole_content
from replica_audit.formats.segment.batch_index import read_index, synthetic
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.formats.values import Row, producers_value
from replica_audit.model import (
    INCOMPLETE_COLLECTION,
    BatchHeader,
    BatchRun,
    Problem,
    ReplicaFiles,
    ScannedSegment,
    Segment,
    SegmentFile,
    Window,
)
from replica_audit.protocol.epochs.epoch_table import goes_back
from replica_audit.rows.arrow import BOOLEAN, STRING

SharedSegments = dict[tuple[str, int], Segment]  # by replica directory and base offset: replicas mostly have the same
_BATCH_RUN = partial(tuple.__new__, BatchRun)  # as `_make`, which looks at the length of each


def scanned_segments(
    rows: pa.RecordBatch, made: Sequence[Row], files: Sequence[SegmentFile], place: str, store: Path, shared: SharedSegments
) -> Iterator[tuple[log_dir.ReplicaDirectory, ScannedSegment]]:
    """Scans as values, each with what the name of its replica directory says; what `shared` has already is not made twice.

    A row that is no scan comes without what it claims, and with a problem.

    Args:
        rows: of the columns that an audit reads.
        made: the same but for the runs, which are most of a row.
        files: the segment of each.
        place: path of the log directory on the broker.
        store: the `segments.parquet`.
        shared: segments that are known already.
    """
    checked = _checked(rows, made, store)
    if checked is not rows:
        made = checked.drop_columns(["runs"]).to_pylist()
    for row, file, runs in zip(made, files, _runs(cast("pa.ListArray[Any]", checked["runs"])), strict=True):
        name, problems = log_dir.replica_directory(row["directory"]), row["problems"]
        if name is None:  # refused when the manifest was read
            continue
        segment = Segment(
            base_offset=file.base_offset,
            swap=file.swap,
            damaged=row["damaged"],
            runs=runs,
            windows=tuple([Window(**window) for window in row["windows"] or ()]),
            producers=producers_value(row["producers"]),
        )
        key = (row["directory"], file.base_offset)
        known = shared.get(key)
        if known == segment:
            segment = known
        else:
            shared[key] = segment
        yield (
            name,
            ScannedSegment(
                log_dir=place,
                directory=row["directory"],
                file=file,
                segment=segment,
                failed=row["failed"],
                problems=tuple([Problem(**problem) for problem in problems or ()]),
            ),
        )


def _checked(rows: pa.RecordBatch, made: Sequence[Row], store: Path) -> pa.RecordBatch:
    """The rows, those that are no scans without what they claim, and with a problem."""
    unfit = {}
    has_runs = runs_fit(cast("pa.ListArray[Any]", rows["runs"]), list(map(reports_descending_offsets, made)))
    for number, (row, fits) in enumerate(zip(made, has_runs, strict=True)):
        try:
            check_scan(row, has_runs=fits)
        except ForgedError as error:
            unfit[number] = asdict(cannot_read(store, "collection", error))
    return without_claims(rows, unfit) if unfit else rows


def _runs(column: pa.ListArray[Any]) -> Iterator[tuple[BatchRun, ...]]:
    """The runs of each row."""
    parts = dict(zip((field.name for field in column.type.value_type), cast("pa.StructArray", column.flatten()).flatten(), strict=True))
    made = list(map(_BATCH_RUN, zip(*(plain_values(parts[name]) for name in BatchRun._fields), strict=True)))
    first = 0
    for count in pc.list_value_length(column).to_pylist():
        yield tuple(made[first : first + (count or 0)])
        first += count or 0


# What `collect` wrote of segments and a collection lacks: batch indexes and copies that were lost, and indexes that were never made.

BATCHES_FOLDER = "batches"
_BY_OFFSETS = "what a truncation removes is known by offsets, not by batches"


def index_path(directory: str, file_name: str) -> str:
    """Where a segment's batch index lies in its log directory: `batches/orders-0/00000000000000000000.parquet`, or `...swap.parquet`."""
    return f"{BATCHES_FOLDER}/{directory}/{file_name.replace('.log', '', 1)}.parquet"


@dataclass(slots=True)
class MissingFiles:
    """Of one log directory: the files that were written and are not here, or not as long as they were; by their paths in it.

    `never_made`: whether a segment was collected with neither an index of its batches nor a copy.
    """

    indexes: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    never_made: bool = False

    def problems(self, folder: Path) -> Iterator[Problem]:
        """What is to be reported of it; `folder` is where the log directory is now."""
        if self.never_made:
            yield Problem(
                path=str(folder / SEGMENTS_FILE),
                kind="collection",
                code="no-batch-index",
                detail=f"segments were collected without an index of their batches: {_BY_OFFSETS}",
                remedy="collect without --no-batch-index, and copy the whole folder",
            )
        if self.indexes:
            yield _lost(folder, "batch indexes", self.indexes, f"; there {_BY_OFFSETS}")
        if self.copies:
            yield _lost(folder, "copied segments", self.copies, "")


def _lost(folder: Path, what: str, paths: Sequence[str], effect: str) -> Problem:
    detail = f"{what} that are missing, or not as long as they were: {len(paths)}; the first is {min(paths)}{effect}"
    return Problem(path=str(folder), kind="collection", code=INCOMPLETE_COLLECTION, detail=detail, remedy=COPY_AGAIN)


SOURCE = "collected"
_FILE_COLUMNS = ["capture", "directory", "name", "base_offset", "swap", "size_bytes", "batch_count", "index_bytes", "kept_crc32c"]
_OF_FILE = itemgetter("base_offset", "swap", "size_bytes", "batch_count", "index_bytes", "kept_crc32c")
_SCAN_COLUMNS = [name for name in ROWS.names if name not in OF_COLLECTING]
_ROWS_AT_ONCE = 256  # those of a compacted log may be large
_NUMBERS_AT_ONCE = 2048  # of some numbers and names each, or such as stay in Arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedLogDir:
    """One log directory of a collection: where it is, and what the manifest says of it."""

    folder: Path
    said: CapturedLogDir  # with those of its replicas that are wanted
    captured: Mapping[str, CapturedReplica] = field(init=False, repr=False, compare=False)  # by directory
    _indexes: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)  # by path, whether it is whole; those of `of`, too
    _files: dict[tuple[str, str], tuple[Any, SegmentFile]] = field(default_factory=dict, repr=False, compare=False)  # likewise, by names

    def __post_init__(self) -> None:
        """Have each replica at hand: there may be tens of thousands."""
        object.__setattr__(self, "captured", {replica.directory: replica for replica in self.said.replicas})

    @property
    def store(self) -> Path:
        """Its `segments.parquet`."""
        return self.folder / SEGMENTS_FILE

    @property
    def rows_path(self) -> str:
        """The same as a text: a Path made for each of tens of thousands of replicas takes longer than all else."""
        return f"{self.folder}/{SEGMENTS_FILE}"

    def original(self, path: str) -> str:
        """Where a file of the collection lay on the broker; other paths stay as they are."""
        below = str(self.folder)
        return self.said.path + path[len(below) :] if path == below or path.startswith(below + "/") else path

    def problem(self) -> str | None:
        """Why what was collected cannot be used: a file has not the bytes that were written."""
        of_rows = self.problem_of_rows()
        if of_rows is not None:
            return f"{self.store.name}: {of_rows}"
        if self.said.small_files_bytes is None:
            return None
        of_small = not_as_written(self.small_files_path, self.said.small_files_bytes, self.said.small_files_crc32c)
        return None if of_small is None else f"{self.small_files_path.name}: {of_small}"

    def problem_of_rows(self) -> str | None:
        """The same of the rows of segments alone."""
        return not_as_written(self.store, self.said.segments_bytes, self.said.segments_crc32c)

    @property
    def small_files_path(self) -> Path:
        """Its `small-files.parquet`."""
        return self.folder / SMALL_FILES_FILE

    def small_files(self) -> Contents | None:
        """Of replica directories what their small files hold, by name; None: they are files in a folder of its name.

        Raises:
            OSError: as `kept_small_files`.
        """
        size = self.said.small_files_bytes
        return None if size is None else kept_small_files(self.small_files_path, size, self.captured)

    def segment_files(self, missing: MissingFiles | None = None) -> dict[str, list[SegmentFile]]:
        """The segments of every replica directory; their batches from the indexes that are here and whole, else from the scans.

        Args:
            missing: takes the batch indexes and copies of segments that were made and are not here, or not whole.

        Raises:
            OSError: the file cannot be read, or (ForgedError) is not what `collect` wrote.
        """
        found: dict[str, list[SegmentFile]] = {replica.directory: [] for replica in self.said.replicas}
        for rows in self._rows(_FILE_COLUMNS, _NUMBERS_AT_ONCE):
            for row in rows.to_pylist():
                found[row["directory"]].append(self._segment_file(row))
            if missing is not None:
                self._add_missing(rows, missing)
        self._refuse_lacking({directory: len(files) for directory, files in found.items()})
        return found

    def of(self, wanted: Callable[[str], bool]) -> CollectedLogDir:
        """The same with those of its replica directories that are wanted, by their names."""
        return replace(self, said=replace(self.said, replicas=tuple(one for one in self.said.replicas if wanted(one.directory))))

    def _add_missing(self, rows: pa.RecordBatch, missing: MissingFiles) -> None:
        is_made: Any = rows["index_bytes"].is_valid()
        has_batches: Any = pc.greater(rows["batch_count"], pa.scalar(0))
        without = rows.filter(pc.and_not(has_batches, is_made))
        for directory, name, size in zip(*(_values(without, one) for one in ("directory", "name", "size_bytes")), strict=True):
            if not self.captured[directory].is_copied:
                missing.never_made = True
            elif not _has_size(f"{self.folder}/{directory}/{name}", size):
                missing.copies.append(f"{directory}/{name}")
        for row in rows.filter(is_made).to_pylist():
            if self._index(row) in (None, self.rows_path):
                missing.indexes.append(index_path(row["directory"], row["name"]))

    def _segment_file(self, row: Mapping[str, Any]) -> SegmentFile:
        """What a row names, which is made once: it is read where replicas are listed, and where they are scanned."""
        key, numbers = (row["directory"], row["name"]), _OF_FILE(row)
        known = self._files.get(key)
        if known is None or known[0] != numbers:
            known = self._files[key] = (numbers, self._made_file(row))
        return known[1]

    def _made_file(self, row: Mapping[str, Any]) -> SegmentFile:
        check_segment(row)
        directory, name = row["directory"], row["name"]
        return SegmentFile(
            path=f"{self.said.path}/{directory}/{name}",
            source=SOURCE,
            base_offset=row["base_offset"],
            size_bytes=row["size_bytes"],
            swap=row["swap"],
            batch_index=self._index(row),
            copy=str(self.folder / directory / name) if self.captured[directory].is_copied else None,
            kept_crc32c=row["kept_crc32c"],
        )

    def _refuse_lacking(self, found: Mapping[str, int]) -> None:
        """Refuse a file that has not as many segments of a replica as were collected; `found` counts them by directory."""
        for directory, count in found.items():
            if count != self.captured[directory].segments:
                raise ForgedError(f"{count} segments of {directory}, {self.captured[directory].segments} were collected")

    def _index(self, row: Mapping[str, Any]) -> str | None:
        if row["index_bytes"] is not None:
            path = f"{self.folder}/{index_path(row['directory'], row['name'])}"
            if path not in self._indexes:
                self._indexes[path] = _has_size(path, row["index_bytes"])
            if self._indexes[path]:
                return path
        return self.rows_path if row["batch_count"] else None

    def segments(self, directories: set[str], shared: SharedSegments) -> Iterator[tuple[log_dir.ReplicaDirectory, ScannedSegment]]:
        """The scans of some replica directories, in the order of the file, as of `scanned_segments`.

        Raises:
            OSError: as `segment_files`.
        """
        for rows, made in self._scanned(directories):
            files = [self._segment_file(row) for row in made]
            yield from scanned_segments(rows, made, files, self.said.path, self.store, shared)

    def _scanned(self, directories: set[str]) -> Iterator[tuple[pa.RecordBatch, list[dict[str, Any]]]]:
        """The scans of some replica directories, in the order of the file, and the same without runs in Python."""
        found = dict.fromkeys(directories & self.captured.keys(), 0)
        for rows in self.of(found.__contains__)._rows(_SCAN_COLUMNS):
            for directory in _values(rows, "directory"):
                found[directory] += 1
            yield rows, rows.drop_columns(["runs"]).to_pylist()
        self._refuse_lacking(found)

    def _rows(self, columns: list[str], at_once: int = _ROWS_AT_ONCE) -> Iterator[pa.RecordBatch]:
        """The rows that the manifest counts, in few at a time."""
        captures = {replica.directory: replica.capture for replica in self.said.replicas}
        directories = pa.array(captures, STRING)
        with errors_as_forged(), opened(self.store) as source, opened_rows(source) as file:
            left = check_file(file, self.said.segments_bytes, ROWS)
            for packed in _batches(file, columns, at_once):
                rows = unpacked(packed)
                left -= rows.num_rows
                for name in (name for name in LATER_COLUMNS if name in columns and name not in rows.schema.names):
                    rows = rows.append_column(ROWS.field(name), pa.nulls(rows.num_rows, ROWS.field(name).type))
                rows = of_directories(rows, directories)
                if not rows.num_rows:
                    continue
                keys = zip(_values(rows, "directory"), _values(rows, "capture"), strict=True)
                is_counted = [captures.get(directory) == capture for directory, capture in keys]
                yield rows if all(is_counted) else rows.filter(pa.array(is_counted, BOOLEAN))
            if left:
                raise ForgedError(f"{left} of its rows are not there")

    def runs(self, path: str) -> list[BatchRun]:
        """The runs of one segment; every other is skipped, so this is for a few of them."""
        directory, _, name = path.removeprefix(self.said.path + "/").partition("/")
        for rows in self._rows(["capture", "directory", "name", "runs"]):
            names = zip(_values(rows, "directory"), _values(rows, "name"), strict=True)
            for row in rows.filter(pa.array([found == (directory, name) for found in names], BOOLEAN)).to_pylist():
                return [BatchRun(**run) for run in row["runs"]]
        return []

    def listed(self, replica: CapturedReplica | None, contents: Mapping[str, bytes]) -> Folder:
        """The copied small files, of a replica or the log directory, as a folder: what was not read on the broker is no ordinary file."""
        path, files = (self.folder / replica.directory, replica.files) if replica else (self.folder, self.said.files)
        return Folder(path=path, files=files, folders=(), others=self.unread_of(replica), contents=contents)

    def unread_of(self, replica: CapturedReplica | None) -> tuple[str, ...]:
        """The small files, of a replica or of the log directory itself, that could not be read on the broker, by their names."""
        if not self.said.unread:
            return ()
        place = f"{self.said.path}/{replica.directory}" if replica else self.said.path
        names = [name for parent, _, name in (one.path.rpartition("/") for one in self.said.unread) if parent == place]
        return tuple(sorted(name for name in names if log_dir.is_known(name) and not log_dir.segment_name(name)))

    def unread(self) -> dict[str, OSError]:
        """Why small files could not be read on the broker, by where their copies would be."""
        return {
            str(self.folder) + one.path[len(self.said.path) :]: OSError(0, one.reason)
            for one in self.said.unread
            if one.path.startswith(self.said.path + "/")
        }

    def own_files(self) -> tuple[dict[str, bytes], dict[str, OSError]]:
        """The small files of the log directory itself, by name, and why some cannot be used, by path; none where there are no digests."""
        kept: dict[str, bytes] = {}
        unusable: dict[str, OSError] = {}
        digests = self.said.file_digests
        if digests is None:
            return kept, unusable
        for name in self.said.files:
            path = self.folder / name
            try:
                found = whole_content(path)
                if file_digest(found) != digests.get(name):
                    raise ForgedError("it was changed since, by the digest that the manifest has of it")
                kept[name] = found
            except OSError as error:
                unusable[str(path)] = error
        return kept, unusable


def _batches(file: pq.ParquetFile, columns: list[str], at_once: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, none of which are of two row groups: these are as much as `collect` had in memory."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=at_once, row_groups=[group], columns=columns)


def _has_size(path: str, size_bytes: int) -> bool:
    try:
        return located(path).stat().st_size == size_bytes
    except OSError:
        return False


def _values(rows: pa.RecordBatch, column: str) -> list[Any]:
    return cast("list[Any]", rows[column].to_pylist())


@dataclass(frozen=True, slots=True)
class OpenedCollections:
    """What a process keeps of brokers' folders: log directories of collections, by where their scans are, and what is equal once."""

    log_dirs: dict[str, CollectedLogDir] = field(default_factory=dict)
    segments: SharedSegments = field(default_factory=dict)
    checkpoints: SharedCheckpoints = field(default_factory=dict)


def log_dirs_of(folder: Path, wanted: Callable[[str], bool] | None = None) -> tuple[Manifest, dict[str, CollectedLogDir]]:
    """The manifest of a collection, and its log directories by the folders that they are in; of replicas only those that are wanted.

    Raises:
        MetadataError: the manifest cannot be understood.
        OSError: it cannot be read.
    """
    manifest = read(folder / MANIFEST, wanted)
    return manifest, {str(folder / said.folder): CollectedLogDir(folder=folder / said.folder, said=said) for said in manifest.log_dirs}


def log_dir_of(store: Path, directories: Collection[str] | None = None) -> CollectedLogDir:
    """The log directory of a `segments.parquet`, with some of its replica directories, or all.

    Raises:
        MetadataError, OSError: as `log_dirs_of`, or the manifest does not name it.
    """
    _manifest, found = log_dirs_of(store.parent.parent, None if directories is None else directories.__contains__)
    if str(store.parent) not in found:
        raise MetadataError(f"the manifest does not name {store.parent.name}")
    return found[str(store.parent)]


# What a collection holds, named by where it lay on the broker.


def as_on_the_broker(replica: ReplicaFiles, store: CollectedLogDir | None) -> ReplicaFiles:
    """A replica of a collection as it was on the broker, with what was read later than the copies of the offset checkpoints."""
    said = store.captured.get(replica.directory) if store else None
    if store is None or said is None:
        return replica
    return replace(
        replica,
        log_dir=store.said.path,
        folder=f"{store.folder}/{replica.directory}",  # a path made for each of them costs as much as all else here
        scans=store.rows_path,
        captured_at_ms=said.captured_at_ms,
        verified_at_ms=said.verified_at_ms,
        in_use=store.said.in_use is True,
        second_look=said.second_look,
        problems=(*(problem_on_the_broker(problem, (store,)) for problem in replica.problems), *_no_files(replica, store.said)),
        **cast(Any, said.later),
    )


def _no_files(replica: ReplicaFiles, said: CapturedLogDir) -> Iterator[Problem]:
    """What had a segment's name in the replica directory and was none."""
    scanned = {segment.path for segment in replica.segments} if said.unread else ()
    for one in said.unread:
        if one.kind == "segment" and one.path not in scanned and one.path.startswith(f"{said.path}/{replica.directory}/"):
            yield cannot_read(Path(one.path), "segment", OSError(0, one.reason))


def problem_on_the_broker(problem: Problem, stores: Iterable[CollectedLogDir]) -> Problem:
    """Name the broker's file in a problem of its copy; one of what `collect` itself wrote stays."""
    for store in stores if problem.kind != "collection" else ():
        if (path := store.original(problem.path)) != problem.path:
            return replace(problem, path=path)
    return problem


# The batches of a collected segment: from its copy or its index; made up from its runs where neither was collected or is there.


def batches(file: SegmentFile, offset: int, runs: Sequence[BatchRun] | None = None) -> Iterator[BatchHeader]:
    """The batches of a collected segment, from its copy or its index; of a segment without one, made up from its runs as `synthetic` does.

    Args:
        file: of the source SOURCE.
        offset: to which the log may be cut: where batches are made up, one begins there.
        runs: what the scan of the segment found; None to look it up, for which the scans of the whole log directory are skipped.

    Raises:
        OSError: the copy, or the index, cannot be read, or no longer holds what the scan found.
    """
    path = _recorded(file)
    if path is not None:
        yield from _as_recorded(file, path, runs)
        return
    if file.batch_index is None:
        return  # there are no batches
    if runs is None:
        runs = log_dir_of(located(file.batch_index)).runs(file.path)  # without an index it names the scans
    yield from synthetic(map(_as_batch, runs), offset)


def _recorded(file: SegmentFile) -> Path | None:
    """The copy of a segment, or its index; None if neither was there when the collection was listed."""
    if file.copy is not None:
        return located(file.copy)
    index = None if file.batch_index is None else located(file.batch_index)
    return index if index is not None and index.name != SEGMENTS_FILE else None


def _as_recorded(file: SegmentFile, path: Path, runs: Sequence[BatchRun] | None) -> Iterator[BatchHeader]:
    last, may_go_back = -1, runs is None or goes_back(runs) is not None
    try:
        changed = None if file.kept_crc32c is None else not_as_written(path, path.stat().st_size, file.kept_crc32c)
        if changed is not None:
            raise ForgedError(changed)
        for item in read_index(path, may_go_back=may_go_back) if file.copy is None else read_batches(path, verify_crc=False):
            if isinstance(item, BatchHeader):
                yield item
                last = item.last_offset
        if runs and last < runs[-1].last_offset:
            raise ForgedError(f"its last batch ends at offset {last}, that of the segment ended at {runs[-1].last_offset}")
    except OSError as error:
        forged = error if error.errno or isinstance(error, ForgedError) else ForgedError(error.strerror or str(error))
        forged.filename = error.filename or str(path)
        raise forged from None


def _as_batch(run: BatchRun) -> BatchHeader:
    return BatchHeader(
        position=-1,
        base_offset=run.first_offset,
        last_offset=run.last_offset,
        size_bytes=run.size_bytes,
        magic=run.magic,
        leader_epoch=run.leader_epoch,
        record_count=run.record_count,
        max_timestamp_ms=run.max_timestamp_ms,
    )
