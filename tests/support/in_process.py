"""The audit's stages run in this process, without Spark: the same functions that the tasks call, in the same order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from replica_audit.formats import cluster_metadata
from replica_audit.formats.log_dir import CLUSTER_METADATA, is_broker_folder
from replica_audit.protocol.exchange import Protocol
from replica_audit.protocol.generation import generation
from replica_audit.transforms.inventory import list_source
from replica_audit.transforms.partitions import ClusterFacts, PartitionAudit
from replica_audit.transforms.segments import scan_segment

Row = dict[str, Any]


def facts(root: Path) -> ClusterFacts:
    """The cluster's facts as the pipeline derives them from cluster-metadata.json."""
    path = root / CLUSTER_METADATA
    if not path.exists():
        return ClusterFacts(applies=Protocol.TRUNCATE_ON_FETCH)
    head, _document = cluster_metadata.parse(path.read_bytes())
    chosen = generation(
        requested=None,
        inter_broker_protocol=head.inter_broker_protocol,
        metadata_version=head.metadata_version,
        broker_version=head.kafka_version,
    )
    return ClusterFacts(applies=chosen.protocol, broker_states=head.broker_states)


def audit(root: Path, cluster: ClusterFacts | None = None) -> dict[str, list[Row]]:
    """Audit one root. Returns the rows of every table, and of `problems` that belong to no replica."""
    sources = [
        {"cluster_id": "c", "broker_id": broker, "path": str(folder), "kind": "broker"}
        for folder in sorted(root.iterdir())
        if folder.is_dir() and (broker := is_broker_folder(folder.name)) is not None
    ]
    if (root / CLUSTER_METADATA).exists():
        sources.append({"cluster_id": "c", "broker_id": None, "path": str(root / CLUSTER_METADATA), "kind": "metadata"})
    partitions: dict[tuple[str, int], Row] = {}
    tables: dict[str, list[Row]] = defaultdict(list)
    for row in (made for source in sources for made in list_source(source)):
        if row.get("problem"):
            tables["problems"].append(row["problem"])
            continue
        key = (row["topic"], row["partition"])
        entry = partitions.setdefault(
            key, {"cluster_id": "c", "topic": key[0], "partition": key[1], "metadata": None, "replicas": [], "segments": []}
        )
        if row.get("metadata"):
            entry["metadata"] = row["metadata"]
            continue
        entry["replicas"].append({"broker_id": row["broker_id"], "replica": row["replica"]})
        for file in row["replica"]["segments"]:
            keys = {name: row["replica"][name] for name in ("log_dir", "directory", "topic", "partition")}
            for scanned in scan_segment({"cluster_id": "c", "broker_id": row["broker_id"], **keys, "file": file}):
                entry["segments"].append({"broker_id": row["broker_id"], "segment": scanned["segment"]})
    cluster = cluster or facts(root)
    for _key, entry in sorted(partitions.items()):
        for table, rows in PartitionAudit(entry, cluster).row().items():
            if table != "cluster_id":
                tables[table] += rows
    return tables
