"""What is to be read → the scan of each segment: its runs of one epoch, read inside tasks by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from replica_audit.errors import InputError
from replica_audit.files.locations import located
from replica_audit.files.text_files import KeptText
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.collection import broker_folder as collected
from replica_audit.formats.collection.broker_folder import CollectedLogDir, OpenedCollections, SharedSegments
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.names import ReplicaDirectory
from replica_audit.formats.replicas.replica_reader import scan_of
from replica_audit.formats.segment.segment_scan import scanned
from replica_audit.model import ScannedSegment, Segment, SegmentFile
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.stages.fitting import fitting_scan
from replica_audit.stages.items import CollectedReading, Item, OpenProducers, SegmentPart


def scan(item: Item, mode: CompareMode, opened: OpenedCollections | None = None) -> Iterator[Item]:
    """The segments of a reading, and the producers that have a transaction open at the end of each.

    Args:
        item: with a Reading, whose text is unpacked once, or a CollectedReading.
        mode: how closely replicas are compared.
        opened: what the process keeps of collections; None to open the one that is needed.
    """
    reading = item.value
    for topic, partition, made in _collected(reading, opened) if isinstance(reading, CollectedReading) else _read(reading.parts, mode):
        yield Item(item.cluster_id, topic, partition, item.broker_id, made, item.is_audited)
        spans = made.segment.producers.spans if made.segment.producers else ()
        if ids := tuple(sorted({span.producer_id for span in spans if span.open_first_offset >= 0})):
            yield Item(item.cluster_id, topic, partition, item.broker_id, OpenProducers(ids), item.is_audited)


def _read(parts: Iterable[SegmentPart], mode: CompareMode) -> Iterator[tuple[str, int, ScannedSegment]]:
    with KeptText() as kept:
        for part in parts:
            yield part.topic, part.partition, scan_segment(part, kept, mode=mode)


def _collected(reading: CollectedReading, opened: OpenedCollections | None) -> Iterator[tuple[str, int, ScannedSegment]]:
    directories = set(reading.directories)
    found: Iterator[tuple[ReplicaDirectory, ScannedSegment]]
    try:
        store = opened.log_dirs[reading.scans] if opened else collected.log_dir_of(located(reading.scans), directories)
        found = collected_segments(store, directories, opened.segments if opened else {})
    except (OSError, InputError) as error:
        found = _failed(reading.scans, reading.log_dir, directories, error)
    for name, made in found:
        yield name.topic, name.partition, made


def scan_segment(part: SegmentPart, kept: KeptText | None = None, *, mode: CompareMode = CompareMode.CONTENT) -> ScannedSegment:
    """Scan one segment of a replica; `kept` as of `scan_of`.

    Where epochs alone are compared, CRCs are not verified, and there are no digests.
    """
    file, reads_content = part.file, mode is not CompareMode.EPOCHS
    if not reads_content:
        file = replace(file, beside="")  # indexes are held against batches that match their CRCs
    found, problems, failed = scanned(file, partial(scan_of, kept=kept, verify_crc=reads_content))
    segment = Segment(
        base_offset=file.base_offset,
        swap=file.swap,
        damaged=found.damage is not None,
        runs=tuple(found.runs),
        windows=tuple(found.windows) if reads_content else (),
        producers=None if failed else found.producers,
    )
    made = ScannedSegment(
        log_dir=part.log_dir, directory=part.directory, file=part.file, segment=segment, failed=failed, problems=tuple(problems)
    )
    return fitting_scan(made) if file.source == "dump" else made  # a file has no number that is larger than its column


def collected_segments(
    store: CollectedLogDir, directories: set[str], shared: SharedSegments
) -> Iterator[tuple[ReplicaDirectory, ScannedSegment]]:
    """The scans that were made on a broker; what is equal in several replicas is one object."""
    try:
        yield from store.segments(directories, shared)
    except (OSError, InputError) as error:
        yield from _failed(store.rows_path, store.said.path, directories, error)


def _failed(
    scans: str, place: str, directories: Iterable[str], error: OSError | InputError
) -> Iterator[tuple[ReplicaDirectory, ScannedSegment]]:
    """For each replica whose scans cannot be read any more, or not to their end, a segment that cannot be read."""
    problem = cannot_read(located(scans), "collection", error if isinstance(error, OSError) else OSError(0, str(error)))
    for directory in sorted(directories):
        name = log_dir.replica_directory(directory)
        if name is None:
            continue
        file = SegmentFile(path=scans, source=collected.SOURCE, base_offset=0, size_bytes=0)
        segment = Segment(base_offset=0, runs=())
        yield (
            name,
            ScannedSegment(log_dir=place, directory=directory, file=file, segment=segment, failed=True, problems=(problem,)),
        )
