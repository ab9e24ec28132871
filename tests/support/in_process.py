"""The engine of this process, its tables as rows to look into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.storage.inputs.sources import discover

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
    sources = [source for source in cluster_root.sources() if metadata or source[3] != "metadata"]
    head = cluster_root.head if metadata else None
    found = local.audit_cluster(sources, head, settings or Settings(), facts=cluster)
    return {name: rows(table) for name, table in (*found.tables.items(), ("problems", found.problems))}, found.facts


def rows(table: pa.Table) -> list[Row]:
    """A table's rows without the keys of their run and cluster; maps are dictionaries."""
    return table.drop_columns([name for name in ("run_id", "cluster_id") if name in table.column_names]).to_pylist(maps_as_pydicts="strict")
