"""The files of a collection, forged: the manifest has the size and the checksum of what stands there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import crc32c

from replica_audit.formats.collection.broker_folder import CollectedLogDir, log_dirs_of
from replica_audit.formats.segment.batch_index import read_index
from tests.collect.collections import collect_broker
from tests.mutation.reading import Outcome, Reader

SAMPLE = Path(__file__).parents[1] / "data" / "sample"


def collected_readers() -> Iterator[tuple[str, Reader]]:
    """Of the scans and the small files of a log directory, and of the index of a segment's batches."""
    with tempfile.TemporaryDirectory() as folder:
        collect_broker(SAMPLE / "clean-in-sync" / "broker-1", Path(folder))
        _manifest, found = log_dirs_of(Path(folder) / "broker-1")
        (log_dir,) = found.values()
        scans, small = log_dir.store.read_bytes(), log_dir.small_files_path.read_bytes()
        indexes = [path.read_bytes() for path in sorted(log_dir.folder.rglob("batches/*/*.parquet"))[:40:4]]

    def read_scans(path: Path, content: bytes) -> Outcome:
        said = replace(log_dir.said, segments_bytes=len(content), segments_crc32c=crc32c.crc32c(content))
        forged = CollectedLogDir(folder=path.parent, said=said)
        try:
            forged.segment_files()
            scanned = [scan for _name, scan in forged.segments({one.directory for one in said.replicas}, {})]
        except OSError:
            return Outcome((), True)
        told = [str(replace(scan, file=replace(scan.file, batch_index=None))) for scan in scanned]
        return Outcome(told, any(scan.failed for scan in scanned))

    def read_small(path: Path, content: bytes) -> Outcome:
        said = replace(log_dir.said, small_files_bytes=len(content), small_files_crc32c=crc32c.crc32c(content))
        try:
            found = CollectedLogDir(folder=path.parent, said=said).small_files() or {}
        except OSError:
            return Outcome((), True)
        return Outcome(
            [(directory, name, held) for directory, files in sorted(found.items()) for name, held in sorted(files.items())], False
        )

    yield "small-files.parquet", Reader(read=read_small, samples=[small], name="small-files.parquet", ends=all_of_them)
    yield "segments.parquet", Reader(read=read_scans, samples=[scans], name="segments.parquet", ends=all_of_them)
    yield "batch index", Reader(read=read_batch_index, samples=indexes, name="index.parquet", ends=all_of_them)


def read_batch_index(path: Path, _content: bytes) -> Outcome:
    """The headers in an index."""
    try:
        return Outcome(list(read_index(path)), False)
    except OSError:
        return Outcome((), True)


def all_of_them(_content: bytes, items: Sequence[Any]) -> list[int]:
    """Parquet has its directory at the end: all is there, or it is told."""
    return [0] * len(items)
