"""Every reader of the product, with real files of its kind, and what it may make of them.

A reader gives what it found, in order, and whether it told a problem. It catches what is documented to be raised, and nothing else.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from replica_audit import config
from replica_audit.errors import AuditError, ConfigError, DumpLogError, InputError, MetadataError, UsageError
from replica_audit.formats import checkpoints, cluster_metadata, collection_manifest, dump_log, log_dir, metadata_log, server_log
from replica_audit.formats.dump_scan import scan_section
from replica_audit.formats.group_offsets import committed_offsets
from replica_audit.formats.java_properties import properties
from replica_audit.formats.logged_versions import logged_versions
from replica_audit.formats.packed_text import open_text, why_cut
from replica_audit.formats.records import UnreadableRecords, read_records
from replica_audit.formats.segment_scan import read_batches, scan
from replica_audit.formats.server_properties import server_properties
from replica_audit.model import BatchHeader, Damage, SegmentFile
from replica_audit.storage.cluster import client_properties
from replica_audit.transforms import server_logs
from tests.formats.segment_readers import natively
from tests.mutation.mutators import ANY, BINARY, Mutator

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
DUMPS = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"
MOST = 24_000  # bytes of a sample: more of the same finds nothing more, and takes longer


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
    known: dict[Any, Any] = field(default_factory=dict)


def contents(*patterns: str, roots: Sequence[Path] = (SAMPLE,), most: int = 12) -> list[bytes]:
    """Different contents of files, none of them empty."""
    found: dict[bytes, None] = {}
    for root in roots:
        for pattern in patterns:
            of_pattern = [path for path in sorted(root.rglob(pattern)) if path.is_file()]
            for path in of_pattern[:: max(1, len(of_pattern) // most)]:
                found[path.read_bytes()[:MOST]] = None
    return [content for content in found if content]


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
        sections = []
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
        server_log.looks_like_server_log(stream.read(8192))
    found = list(server_logs.read_events(path, 1))
    items = [one for one in found if isinstance(one, server_log.LogEvent)]
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
        made = collection_manifest.parse(content)
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


def readers() -> Iterator[tuple[str, Reader]]:
    """All of them by name; `weight` is how many of a million mutations each gets in proportion."""
    logs = contents("orders-*/*.log", "c-*/*.log", "txn-0/*.log", "small-segments-0/*.log", most=6)
    logs += contents("*.log", roots=[DUMPS / "dump-samples"])
    metadata_segments = contents("__cluster_metadata-0/*.log", most=4)
    offsets = [content for content in contents("__consumer_offsets-*/*.log", most=12) if len(content) > 300]
    texts = contents("*.txt", roots=[DUMPS / "dump-samples", DUMPS / "dump-log"], most=40)
    group_texts = contents("__consumer_offsets-*/*.txt", roots=[SHARED / "clusters"], most=12) or texts
    yield "segment", Reader(read=segment, samples=logs, name="00000000000000000000.log", mutators=BINARY, weight=4)
    yield "records", Reader(read=records, samples=[*logs, *offsets], name="00000000000000000000.log", mutators=BINARY, weight=4)
    one = {"name": "00000000000000000000.log", "mutators": BINARY, "weight": 3}
    yield "metadata log", Reader(read=metadata, samples=metadata_segments, covers=has_elections, **one)
    snapshots = contents("*.checkpoint", roots=[SAMPLE, SHARED / "clusters"], most=4)
    snapshot = "00000000000000000100-0000000001.checkpoint"
    yield (
        "metadata snapshot",
        Reader(read=metadata, samples=snapshots or metadata_segments, name=snapshot, mutators=BINARY, covers=has_elections),
    )
    yield "group offsets", Reader(read=group_offsets, samples=offsets, covers=has_commits, **one)
    yield "group offsets text", Reader(read=group_offsets, samples=group_texts, name="dump.txt", covers=has_commits, weight=2)
    yield "dump text", Reader(read=dump_text, samples=texts, name="dump.txt", weight=5)
    short = [text[:6000] for text in texts]
    yield "packed dump text", Reader(read=dump_text, samples=[gzip.compress(text, mtime=0) for text in short], name="dump.txt.gz", weight=2)
    wide = [text.decode("utf-8", "replace").encode("utf-16") for text in short]
    yield "dump text in UTF-16", Reader(read=dump_text, samples=wide, name="dump.txt", weight=1)
    logged = contents("*server.log", roots=[SAMPLE, SHARED / "clusters"], most=10)
    yield "server.log", Reader(read=events, samples=logged, name="server.log", weight=4)
    yield "server.log.gz", Reader(read=events, samples=[gzip.compress(log, mtime=0) for log in logged], name="server.log.gz", weight=1)
    tables = [*contents("leader-epoch-checkpoint"), b"0\n200\n" + b"".join(b"%d %d\n" % (i, 7 * i) for i in range(200))]
    yield "leader-epoch-checkpoint", Reader(read=epoch_checkpoint, samples=tables, ends=ends_of_lines, weight=4)
    for name in log_dir.OFFSET_CHECKPOINTS:
        yield name, Reader(read=offset_checkpoint, samples=contents(name), ends=ends_of_lines, weight=2)
    yield "meta.properties", Reader(read=small(checkpoints.meta_properties, MetadataError), samples=contents("meta.properties"), weight=2)
    yield "partition.metadata", Reader(read=small(checkpoints.topic_id, MetadataError), samples=contents("partition.metadata"), weight=2)
    documents = [content for content in contents("cluster-metadata.json", most=7) if len(content) < MOST]
    yield "cluster-metadata.json", Reader(read=cluster_document, samples=documents, ends=ends_of_partitions, weight=4)
    yield "manifest.json", Reader(read=manifest, samples=[_manifest()], ends=ends_of_replicas, weight=3)
    yield "configuration", Reader(read=settings, samples=[(ROOT / "conf" / "audit.yaml").read_bytes()[:3000], _SETTINGS], weight=1)
    yield "client properties", Reader(read=client, samples=[_CLIENT], weight=1)
    yield "java properties", Reader(read=small(properties, MetadataError), samples=[_CLIENT, _SERVER], weight=1)
    yield "server.properties", Reader(read=small(server_properties, MetadataError), samples=[_SERVER], weight=1)
    yield "names", Reader(read=names, samples=[_NAMES], weight=1)


def _manifest() -> bytes:
    replica = {
        "captured_at": "2026-01-02T03:04:05.678Z",
        "segments": 1,
        "batches": 3,
        "size_bytes": 400,
        "files": ["leader-epoch-checkpoint"],
    }
    replicas = [{"directory": f"orders-{i}", "capture": i + 1, **replica, "later": {"high_watermark": i}} for i in range(12)]
    log = {"path": "/data/kafka", "folder": "data-0", "directory_id": None, "in_use": True, "segments_bytes": 9, "segments_crc32c": 4}
    document = {
        "format": collection_manifest.FORMAT,
        "version": 1,
        "broker_id": 1,
        "cluster_id": "c",
        "host": "h",
        "unread": [],
        "counts": {},
    }
    times = {"started_at": "2026-01-02T03:04:05.678Z", "finished_at": "2026-01-02T03:05:05.678Z", "options": {}, "versions": {}}
    log_dirs = [{**log, "files": ["meta.properties"], "vanished": [], "unread": [], "replicas": replicas}]
    return json.dumps({**document, **times, "log_dirs": log_dirs}, indent=1).encode()


_SETTINGS = b"topics: 'orders|pay.*'\nprotocol: auto\nfail_on: error\nworst: 20\nwhat_if_leaders: false\nparallelism: 0\n"
_CLIENT = (
    b"# how to connect\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nclient.id=a\\u00fcdit\n"
    b'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username="a" password="b\\"c";\n'
)
_SERVER = b"node.id=3\nprocess.roles=broker\nlog.dirs=/data/a, /data/b\nmetadata.log.dir:/data/m\nlisteners = PLAINTEXT://:9092\n"
_NAMES = (
    b"orders-0\n00000000000000000000.log\n00000000000000000015.log.swap\norders-1.0123456789abcdef0123456789abcdef-delete\nbroker-3\n"
    b"broker=12\n7\nserver.log.2026-01-02\nbroker-3.server.log.gz\n00000000000000000100-0000000001.checkpoint\n.broker-1.collecting\n"
)
