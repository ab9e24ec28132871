"""What every reader of the product makes of one file.

A reader gives what it found, in order, and whether it told a problem. It catches what is documented to be raised, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from replica_audit import config
from replica_audit.errors import AuditError, ConfigError, DumpLogError, InputError, MetadataError, UsageError
from replica_audit.files.text_files import open_text, why_cut
from replica_audit.formats.collection import manifest as manifests
from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.dump import dump_log
from replica_audit.formats.dump.dump_log import scan_section
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.metadata import cluster_metadata, metadata_log
from replica_audit.formats.segment.records import UnreadableRecords, read_records
from replica_audit.formats.segment.segment_scan import read_batches, scan
from replica_audit.formats.server_log import log_lines
from replica_audit.formats.server_log.events import logged_versions
from replica_audit.model import BatchHeader, Damage, LoggedVersions, SegmentFile
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.stages import server_logs
from replica_audit.storage.cluster import client_properties
from tests.formats.segment_readers import natively
from tests.mutation.mutators import ANY, Mutator


class Outcome(NamedTuple):
    """What a reader found, in order; `told`: it told a problem."""

    items: Sequence[Hashable]
    told: bool


Read = Callable[[Path, bytes], Outcome]
Covers = Callable[[Sequence[Any], Sequence[Any]], bool]


def begins_with(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether all that was expected was found, in order, before anything else."""
    return list(found[: len(expected)]) == list(expected)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One reader. `samples` are real contents; `name` is that of the file that is read.

    `covers` says whether what was found holds all that the sound beginning gives; `ends` gives, for a format that is read all or not at
    all, where each item of a whole file ends.
    """

    read: Read
    samples: Sequence[bytes]
    name: str = "file"
    mutators: Sequence[Mutator] = ANY
    covers: Covers = begins_with
    ends: Callable[[bytes, Sequence[Any]], list[int]] | None = None
    weight: int = 1
    by_lines: bool = False  # an item is a line, and is not there before its line end
    known: dict[Any, Any] = field(default_factory=dict)


# ---------------------------------------------------------------------------------------------------------------- segments


def segment(path: Path, _content: bytes) -> Outcome:
    """Batches, read in Python; natively the very same is found."""
    items = list(read_batches(path))
    assert natively(path) == scan(items), "native code and Python differ"
    told = (
        isinstance(items[-1], Damage) or any(item.crc_valid is False for item in items if isinstance(item, BatchHeader)) if items else False
    )
    return Outcome([item for item in items if isinstance(item, BatchHeader)], told)


def records(path: Path, _content: bytes) -> Outcome:
    """Records, decompressed and decoded."""
    items = list(read_records(path))
    good = [item for item in items if not isinstance(item, Damage | UnreadableRecords)]
    return Outcome(good, len(good) < len(items))


def metadata(path: Path, _content: bytes) -> Outcome:
    """The metadata log: every partition with its elections."""
    found = metadata_log.read(path.parent)
    return Outcome([(one.topic_id, one.partition, one.elections) for one in found.partitions], bool(found.problems))


def has_elections(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Of every partition at least the elections that are expected; a record further on may have removed a topic."""
    by_key = {(topic_id, partition): elections for topic_id, partition, elections in found}
    return all(
        key not in by_key or by_key[key][: len(elections)] == elections
        for key, elections in (((topic_id, partition), elections) for topic_id, partition, elections in expected)
    )


def group_offsets(path: Path, content: bytes) -> Outcome:
    """Committed offsets, of a segment or of a text."""
    told = False
    if path.suffix == ".log":
        files = [SegmentFile(path=str(path), source="raw", base_offset=0, size_bytes=len(content))]
    else:
        files = []
        try:
            with path.open("rb") as stream:
                for part in dump_log.sections(stream):
                    base = part.segment_base_offset or 0
                    begin, end = part.byte_start, part.byte_end
                    file = SegmentFile(path=str(path), source="dump", base_offset=base, size_bytes=0, byte_start=begin, byte_end=end)
                    files.append(file)
        except DumpLogError:
            told = True
    found, problems = committed_offsets(files)
    return Outcome([(one.group_id, one.topic, one.partition, one.record_offset) for one in found], told or bool(problems) or not files)


def has_commits(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Every commit that is expected, or a later one of the same group and partition."""
    last = {one[:3]: one[3] for one in found}
    return all(last.get(one[:3], -1) >= one[3] for one in expected)


# ------------------------------------------------------------------------------------------------------------------- texts


def dump_text(path: Path, _content: bytes) -> Outcome:
    """Sections and their batches, packed or not; natively the very same is found."""
    items: list[Hashable] = []
    told = False
    with open_text(path) as stream:
        head = stream.read(4096)
        if not dump_log.looks_like_dump(head):
            return Outcome(items, True)  # `unrecognised-files`
        stream.seek(0)
        sections: list[dump_log.DumpSection] = []
        try:
            sections.extend(dump_log.sections(stream))
        except DumpLogError:
            told = True
        told = told or why_cut(stream) is not None or not sections
        for section in sections:
            try:
                batches = list(dump_log.batches(stream, section))
                assert scan_section(stream, section) == scan(batches), "native code and Python differ"
            except DumpLogError:
                told = True
                continue
            told = told or any(isinstance(item, Damage) or item.crc_valid is False for item in batches)
            items += [(section.path, item) for item in batches if isinstance(item, BatchHeader)]
    return Outcome(items, told)


def events(path: Path, _content: bytes) -> Outcome:
    """What a server.log says, and its versions."""
    with path.open("rb") as stream:
        logged_versions(stream)
        stream.seek(0)
        log_lines.looks_like_server_log(stream.read(8192))
    found = [one for one in server_logs.read_log(path, 1) if not isinstance(one, LoggedVersions)]
    items = [one._replace(text="") for one in found if isinstance(one, LogEvent)]  # of a line whose end is damaged the beginning counts
    return Outcome(items, len(items) < len(found))


# ------------------------------------------------------------------------------------------------------------- small files


def epoch_checkpoint(_path: Path, content: bytes) -> Outcome:
    """The lines of an epoch checkpoint; healing keeps each or tells it."""
    try:
        lines = checkpoints.leader_epoch_lines(content)
    except InputError:
        return Outcome((), True)
    healed = checkpoints.healed(lines)
    return Outcome(lines, bool(healed.notes))


def offset_checkpoint(_path: Path, content: bytes) -> Outcome:
    """The lines of an offset checkpoint."""
    try:
        return Outcome(checkpoints.offset_lines(content), False)
    except InputError:
        return Outcome((), True)


def ends_of_lines(content: bytes, items: Sequence[Any]) -> list[int]:
    """Where the lines end that items were read of."""
    ends = [match.end() for match in re.finditer(rb"\r\n|\n|\r|\Z", content)]
    return [ends[item.line - 1] for item in items]


def small(parser: Callable[[bytes], object], *allowed: type[AuditError]) -> Read:
    """A file that is parsed as a whole: what it says may change, how it fails may not."""

    def read(_path: Path, content: bytes) -> Outcome:
        try:
            parser(content)
        except allowed:
            return Outcome((), True)
        return Outcome((), False)

    return read


def cluster_document(_path: Path, content: bytes) -> Outcome:
    """Partitions of a cluster-metadata.json, with what stands before the end of each."""
    try:
        _head, document = cluster_metadata.parse(content)
        return Outcome([(one.topic, one.partition) for one in cluster_metadata.partitions(document)], False)
    except MetadataError:
        return Outcome((), True)


def ends_of_partitions(content: bytes, items: Sequence[Any]) -> list[int]:
    """Where the objects end that name a partition."""
    ends = [content.index(b"}", match.start()) + 1 for match in re.finditer(rb'"partition": ?\d+', content)]
    assert len(ends) == len(items)
    return ends


def manifest(_path: Path, content: bytes) -> Outcome:
    """Replicas of a manifest."""
    try:
        made = manifests.parse(content)
    except MetadataError:
        return Outcome((), True)
    return Outcome([replica.directory for one in made.log_dirs for replica in one.replicas], False)


def ends_of_replicas(content: bytes, items: Sequence[Any]) -> list[int]:
    """Where the objects end that name a replica's directory."""
    ends = [content.find(b'"directory":', match.end()) for match in re.finditer(rb'"directory": ', content)]
    assert len(ends) == len(items)
    return [end if end >= 0 else len(content) for end in ends]


def settings(path: Path, _content: bytes) -> Outcome:
    """The configuration file."""
    try:
        config.load(path, {}, {})
    except ConfigError:
        return Outcome((), True)
    return Outcome((), False)


def client(path: Path, _content: bytes) -> Outcome:
    """The properties of a client."""
    try:
        client_properties.read(path)
    except UsageError:
        return Outcome((), True)
    return Outcome((), False)


def names(_path: Path, content: bytes) -> Outcome:
    """Names of files and folders."""
    for name in content.decode("utf-8", "surrogateescape").split("\n"):
        replica, of_segment = log_dir.replica_directory(name), log_dir.segment_name(name)
        assert replica is None or 0 <= replica.partition < 2**31
        assert of_segment is None or 0 <= of_segment.base_offset < 2**63
        log_dir.is_known(name), log_dir.is_server_log(name), log_dir.is_broker_folder(name), log_dir.is_cleaned(name)
    return Outcome((), False)
