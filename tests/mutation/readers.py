"""Every reader with real files of its kind; the weights are in which proportion they share the mutations."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from replica_audit.errors import MetadataError
from replica_audit.formats.collection import manifest as manifests
from replica_audit.formats.collection.manifest import sealed
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.server_properties import properties, server_properties
from tests.mutation.collections import collected_readers
from tests.mutation.mutators import BINARY
from tests.mutation.reading import (
    Reader,
    client,
    cluster_document,
    dump_text,
    ends_of_lines,
    ends_of_partitions,
    ends_of_replicas,
    epoch_checkpoint,
    events,
    group_offsets,
    has_commits,
    has_elections,
    manifest,
    metadata,
    names,
    offset_checkpoint,
    records,
    segment,
    settings,
    small,
)

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
DUMPS = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"
MOST = 24_000  # bytes of a sample: more of the same finds nothing more, and takes longer


_LOG = "00000000000000000000.log"


def contents(*patterns: str, roots: Sequence[Path] = (SAMPLE,), most: int = 12) -> list[bytes]:
    """Different contents of files, none of them empty."""
    found: dict[bytes, None] = {}
    for root in roots:
        for pattern in patterns:
            of_pattern = [path for path in sorted(root.rglob(pattern)) if path.is_file()]
            for path in of_pattern[:: max(1, len(of_pattern) // most)]:
                found[path.read_bytes()[:MOST]] = None
    return [content for content in found if content]


def readers() -> Iterator[tuple[str, Reader]]:
    """All of them by name; `weight` is how many of a million mutations each gets in proportion."""
    logs = contents("orders-*/*.log", "c-*/*.log", "txn-0/*.log", "small-segments-0/*.log", most=6)
    logs += contents("*.log", roots=[DUMPS / "dump-samples"])
    metadata_segments = contents("__cluster_metadata-0/*.log", most=4)
    offsets = [content for content in contents("__consumer_offsets-*/*.log", most=12) if len(content) > 300]
    texts = contents("*.txt", roots=[DUMPS / "dump-samples", DUMPS / "dump-log"], most=40)
    group_texts = contents("__consumer_offsets-*/*.txt", roots=[SHARED / "clusters"], most=12) or texts
    yield "segment", Reader(read=segment, samples=logs, name=_LOG, mutators=BINARY, weight=4)
    yield "records", Reader(read=records, samples=[*logs, *offsets], name=_LOG, mutators=BINARY, weight=4)
    yield "metadata log", Reader(read=metadata, samples=metadata_segments, covers=has_elections, name=_LOG, mutators=BINARY, weight=3)
    snapshots = contents("*.checkpoint", roots=[SAMPLE, SHARED / "clusters"], most=4)
    snapshot = "00000000000000000100-0000000001.checkpoint"
    yield (
        "metadata snapshot",
        Reader(read=metadata, samples=snapshots or metadata_segments, name=snapshot, mutators=BINARY, covers=has_elections),
    )
    yield "group offsets", Reader(read=group_offsets, samples=offsets, covers=has_commits, name=_LOG, mutators=BINARY, weight=3)
    yield "group offsets text", Reader(read=group_offsets, samples=group_texts, name="dump.txt", covers=has_commits, weight=2)
    yield "dump text", Reader(read=dump_text, samples=texts, name="dump.txt", weight=5)
    short = [text[:6000] for text in texts]
    yield "packed dump text", Reader(read=dump_text, samples=[gzip.compress(text, mtime=0) for text in short], name="dump.txt.gz", weight=2)
    wide = [text.decode("utf-8", "replace").encode("utf-16") for text in short]
    yield "dump text in UTF-16", Reader(read=dump_text, samples=wide, name="dump.txt", weight=1)
    logged = contents("*server.log", roots=[SAMPLE, SHARED / "clusters"], most=10)
    yield "server.log", Reader(read=events, samples=logged, name="server.log", weight=4, by_lines=True)
    yield "server.log.gz", Reader(read=events, samples=[gzip.compress(log, mtime=0) for log in logged], name="server.log.gz", weight=1)
    tables = [*contents("leader-epoch-checkpoint"), b"0\n200\n" + b"".join(b"%d %d\n" % (i, 7 * i) for i in range(200))]
    yield "leader-epoch-checkpoint", Reader(read=epoch_checkpoint, samples=tables, ends=ends_of_lines, weight=4)
    for name in log_dir.OFFSET_CHECKPOINTS:
        yield name, Reader(read=offset_checkpoint, samples=contents(name), ends=ends_of_lines, weight=2)
    yield "meta.properties", Reader(read=small(checkpoints.meta_properties, MetadataError), samples=contents("meta.properties"), weight=2)
    yield "partition.metadata", Reader(read=small(checkpoints.topic_id, MetadataError), samples=contents("partition.metadata"), weight=2)
    documents = [content for content in contents("cluster-metadata.json", most=7) if len(content) < MOST]
    yield "cluster-metadata.json", Reader(read=cluster_document, samples=documents, ends=ends_of_partitions, weight=4)
    yield "manifest.json", Reader(read=manifest, samples=[_manifest(), sealed(_manifest().decode())], ends=ends_of_replicas, weight=3)
    yield from collected_readers()
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
    log |= {"small_files_bytes": 7, "small_files_crc32c": 5}
    document = {
        "format": manifests.FORMAT,
        "version": manifests.VERSION,
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
