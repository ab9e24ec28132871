"""The engine of this process, its tables as rows to look into."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_audit.audit import ClusterInput, judge_clusters
from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.rows import INPUT_ERRORS
from replica_audit.rows.arrow import AUDITED, schema_of_audited
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
    found, facts = (_kept if is_kept else _audited)(root, cluster, settings or Settings(), metadata)
    return {name: rows(table) for name, table in found.items()}, facts


def _audited(root: Path, cluster: ClusterFacts | None, settings: Settings, metadata: bool) -> tuple[dict[str, pa.Table], ClusterFacts]:
    (cluster_root,) = discover([str(root)], follow_links=settings.follow_links).roots
    whole = ClusterInput.of(cluster_root, None)
    if not metadata:
        whole = replace(whole, sources=[one for one in whole.sources if one.kind != "metadata"], head=None)
    engine = local.LocalEngine()
    made = judge_clusters(engine, [whole], settings, facts=None if cluster is None else {whole.cluster_id: cluster})
    problems = [{"cluster_id": one.cluster_id, "broker_id": one.broker_id, **asdict(one.value)} for one in made.problems]
    tables = {name: engine.rows(name) for name in AUDITED}
    tables["problems"] = pa.Table.from_pylist(problems, schema=schema_of_audited(INPUT_ERRORS.name))
    return tables, made.facts[whole.cluster_id]


_kept = lru_cache(200)(_audited)


def rows(table: pa.Table) -> list[Row]:
    """A table's rows without the keys of their run and cluster; maps are dictionaries."""
    return table.drop_columns([name for name in ("run_id", "cluster_id") if name in table.column_names]).to_pylist(maps_as_pydicts="strict")
