"""The engine of this process, its tables as rows to look into."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.storage.inputs.sources import discover

Row = dict[str, Any]
_ROOT = Path(__file__).resolve().parents[2]
_UNCHANGED = (f"{_ROOT}/tests/data/", f"{_ROOT.parent}/shared/")


def audit(
    root: Path, cluster: ClusterFacts | None = None, *, settings: Settings | None = None, metadata: bool = True, anew: bool = False
) -> dict[str, list[Row]]:
    """Audit one root. Returns the rows of every table, and of `problems` that belong to no replica.

    `metadata` is False to leave cluster-metadata.json out. A cluster that no test changes is audited once in a process, unless `anew`.
    """
    return audit_cluster(root, cluster, settings=settings, metadata=metadata, anew=anew)[0]


def audit_cluster(
    root: Path, cluster: ClusterFacts | None = None, *, settings: Settings | None = None, metadata: bool = True, anew: bool = False
) -> tuple[dict[str, list[Row]], ClusterFacts]:
    """The same, with the facts of the cluster."""
    is_kept = cluster is None and not anew and str(root).startswith(_UNCHANGED)
    found = (_kept if is_kept else _audited)(root, cluster, settings or Settings(), metadata)
    return {name: rows(table) for name, table in (*found.tables.items(), ("problems", found.problems))}, found.facts


def _audited(root: Path, cluster: ClusterFacts | None, settings: Settings, metadata: bool) -> local.ClusterAudit:
    (cluster_root,) = discover([str(root)], follow_links=settings.follow_links).roots
    sources = [source for source in cluster_root.sources() if metadata or source[3] != "metadata"]
    return local.audit_cluster(sources, cluster_root.head if metadata else None, settings, facts=cluster)


_kept = lru_cache(200)(_audited)


def rows(table: pa.Table) -> list[Row]:
    """A table's rows without the keys of their run and cluster; maps are dictionaries."""
    return table.drop_columns([name for name in ("run_id", "cluster_id") if name in table.column_names]).to_pylist(maps_as_pydicts="strict")
