"""The audit's stages run in this process, without Spark: the same functions that the tasks call, in the same order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_audit.config import Settings
from replica_audit.formats.kept_text import KeptText
from replica_audit.formats.log_dir import GROUP_OFFSETS_TOPIC
from replica_audit.schemas import Table
from replica_audit.storage.sources import discover
from replica_audit.transforms.clusters import ClusterFacts, cluster_facts
from replica_audit.transforms.gathering import list_commits
from replica_audit.transforms.inventory import list_source
from replica_audit.transforms.partitions import PartitionAudit
from replica_audit.transforms.segments import collected_scans, scan_segment

Row = dict[str, Any]


def audit(
    root: Path, cluster: ClusterFacts | None = None, *, settings: Settings | None = None, metadata: bool = True
) -> dict[str, list[Row]]:
    """Audit one root. Returns the rows of every table, and of `problems` that belong to no replica.

    `metadata` is False to leave cluster-metadata.json out.
    """
    return audit_cluster(root, cluster, settings=settings, metadata=metadata)[0]


def audit_cluster(
    root: Path, cluster: ClusterFacts | None = None, *, settings: Settings | None = None, metadata: bool = True
) -> tuple[dict[str, list[Row]], ClusterFacts]:
    """The same, with the facts of the cluster."""
    (cluster_root,) = discover([str(root)]).roots
    has_file = metadata and cluster_root.head is not None
    names = ("cluster_id", "broker_id", "path", "kind")
    sources = [dict(zip(names, source, strict=True)) for source in cluster_root.sources() if metadata or source[3] != "metadata"]
    partitions: dict[tuple[str, int], Row] = {}
    tables: dict[str, list[Row]] = defaultdict(list)
    copies: list[Row] = []
    logged: list[Row] = []
    with KeptText() as kept:
        for row in (made for source in sources for made in list_source(source)):
            if row.get("problem"):
                tables["problems"].append(row["problem"])
            elif row.get("metadata_copy"):
                copies.append(row["metadata_copy"])
            elif row.get("versions"):
                logged.append(row["versions"])
            else:
                _gather(partitions, row, kept)
    head = cluster_root.head if has_file else None
    best = max(copies, key=lambda copy: (copy["log_epoch"], copy["log_end_offset"]), default=None)
    cluster = cluster or cluster_facts(head, best, settings or Settings(), logged)
    tables["problems"] += _give_commits(partitions, {cluster_root.cluster_id: cluster})
    for _key, entry in sorted(partitions.items()):
        for table, rows in PartitionAudit(entry, cluster).row().items():
            if table != "cluster_id":
                tables[table] += rows
    return tables, cluster


def as_read_back(table: Table, rows: list[Row]) -> list[Row]:
    """The rows as a reader of the table gets them: what is a map in them is a list of pairs then."""
    schema = pa.schema([field for field in table.arrow if rows and field.name in rows[0]])
    return pa.Table.from_pylist(rows, schema=schema).to_pylist()


def _give_commits(partitions: dict[tuple[str, int], Row], clusters: dict[str, ClusterFacts]) -> list[Row]:
    problems = []
    for row in [row for (topic, _), row in partitions.items() if topic == GROUP_OFFSETS_TOPIC]:
        for found in list_commits(row, clusters):
            if found.get("problem"):
                problems.append(found["problem"])
            elif (found["topic"], found["partition"]) in partitions:
                partitions[found["topic"], found["partition"]]["commits"].append(found["commit"])
    return problems


def _gather(partitions: dict[tuple[str, int], Row], row: Row, kept: KeptText) -> None:
    key = (row["topic"], row["partition"])
    empty = {"cluster_id": row["cluster_id"], "topic": key[0], "partition": key[1], "claims": [], "replicas": [], "segments": []}
    empty |= {"events": [], "commits": []}
    entry = partitions.setdefault(key, empty)
    if row.get("event"):
        entry["events"].append({"broker_id": row["broker_id"], "event": row["event"]})
        return
    if row.get("metadata"):
        entry["claims"].append({"broker_id": row["broker_id"], "metadata": row["metadata"]})
        return
    entry["replicas"].append({"broker_id": row["broker_id"], "replica": row["replica"]})
    if row["replica"]["scans"]:
        place = {
            **{name: row[name] for name in ("cluster_id", "broker_id")},
            **{n: row["replica"][n] for n in ("scans", "log_dir", "directory")},
        }
        for scans in collected_scans(iter([pa.RecordBatch.from_pylist([place])])):
            entry["segments"] += [{"broker_id": row["broker_id"], "segment": scan} for scan in scans["segment"].to_pylist()]
        return
    for file in row["replica"]["segments"]:
        keys = {name: row["replica"][name] for name in ("log_dir", "directory", "topic", "partition")}
        for scanned in scan_segment({"cluster_id": row["cluster_id"], "broker_id": row["broker_id"], **keys, "file": file}, kept):
            entry["segments"].append({"broker_id": row["broker_id"], "segment": scanned["segment"]})
