"""Random nights without Spark: a partition that looks as it did has the same rows, table by table, in the engine of this process.

REPLICA_AUDIT_LOOKS says how many nights are played of raw and of collected clusters together (default: 24).
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.engine.moved_logs import _MOMENTS
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from replica_audit.formats.shapes import SEEN
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.fingerprint import ClusterIdentity, Fingerprint
from replica_audit.rows import OF_PARTITIONS
from replica_audit.rows.fingerprints import NEVER_IF_COLLECTED, NEVER_TAKEN_OVER, NEVER_WITH_PROBLEMS, QUIET_TABLES
from replica_audit.stages.fingerprints import compared
from replica_audit.stages.inventory import SOURCE_COLUMNS, Listing
from replica_audit.stages.packed_looks import list_with_looks
from replica_audit.storage.inputs.sources import discover
from tests.collect.nights import at_rest
from tests.incremental.clusters_of_nights import CHANGES, Cluster
from tests.support import in_process

NIGHTS = int(os.environ.get("REPLICA_AUDIT_LOOKS", "24"))
OF_ONE_PARTITION = [table.name for table in OF_PARTITIONS] + ["found", "checked"]
Key = tuple[str, int]
Row = dict[str, Any]


def rows_of(root: Path) -> tuple[dict[Key, dict[str, list[str]]], ClusterFacts]:
    """The rows of each partition, by table, without the moments that a run takes from its listing."""
    tables, facts = in_process.audit_cluster(root, settings=Settings(), anew=True)
    found: dict[Key, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for table in OF_ONE_PARTITION:
        for row in tables[table]:
            left = {name: value for name, value in row.items() if table != "replica_logs" or name not in _MOMENTS}
            found[row["topic"], row["partition"]][table].append(json.dumps(left, default=str, sort_keys=True))
    return {key: {table: sorted(rows) for table, rows in of_one.items()} for key, of_one in found.items()}, facts


def fingerprints_of(root: Path, facts: ClusterFacts) -> dict[Key, Fingerprint]:
    """The fingerprint of each partition, of the rows that Spark would gather."""
    (cluster,) = discover([str(root)]).roots
    sources = list(cluster.sources())
    keys = ("cluster_id", "topic", "partition")
    seen: list[Row] = []
    for source in sources:
        for row in list_with_looks(dict(zip(SOURCE_COLUMNS, source, strict=True)), Listing(replicas=frozenset())):
            if row.get("looks"):
                seen.append({**row, "looks": row["looks"]["rows"]})
    for (topic, partition), commits in commits_of(sources, facts).items():
        seen += ({**dict(zip(keys, (cluster.cluster_id, topic, partition), strict=True)), "commit": commit} for commit in commits)
    random.Random(1).shuffle(seen)  # noqa: S311 - as a shuffle of Spark's leaves them
    rows = pa.Table.from_pylist([{name: row.get(name) for name in SEEN.names} for row in seen], schema=SEEN)
    found = {}
    for batch in compared(rows.to_batches(max_chunksize=7), {cluster.cluster_id: ClusterIdentity.of(facts)}):
        for row in batch.to_pylist():
            assert row["since_last_run"] == "new"
            found[row["topic"], row["partition"]] = Fingerprint(whole=row["fingerprint"], quiet=row["quiet_fingerprint"])
    return found


def commits_of(sources: list[local.Source], facts: ClusterFacts) -> dict[Key, list[Row]]:
    known = local._Known()
    local._list(sources, "", known, shares=False)
    of_groups = [row for row in known.partitions.values() if row["topic"] == GROUP_OFFSETS_TOPIC]
    local._scan(of_groups, facts.compare)
    local._add_commits(of_groups, known, facts)
    return {key: row["commits"] for key, row in known.partitions.items() if row["commits"]}


def is_taken_over(before: Fingerprint, now: Fingerprint, rows: dict[str, list[str]], *, is_collected: bool) -> bool:
    """What the tables of the run before and the digests of both say."""
    if any(rows.get(table) for table in (*NEVER_TAKEN_OVER, *(NEVER_IF_COLLECTED if is_collected else ()))):
        return False
    if any(json.loads(row)["code"] in NEVER_WITH_PROBLEMS for row in rows.get("input_errors", ())):
        return False
    is_quiet = not any(rows.get(table.name) for table in OF_PARTITIONS if table.name not in QUIET_TABLES) and not rows.get("found")
    return (before.whole is not None and before.whole == now.whole) or (is_quiet and before.quiet is not None and before.quiet == now.quiet)


@pytest.mark.slow
@pytest.mark.parametrize("has_log", [False, True], ids=["no-metadata-log", "metadata-log"])
@pytest.mark.parametrize("is_collected", [False, True], ids=["raw", "collected"])
def test_who_looks_the_same_has_the_same_rows(tmp_path: Path, is_collected: bool, has_log: bool) -> None:
    kept, with_findings, changed, seen = 0, 0, 0, Counter[str]()
    with at_rest():
        for seed in range(NIGHTS // 12 or 1):
            cluster = Cluster(tmp_path / str(seed), 1000 + seed, is_collected=is_collected, has_log=has_log)
            rows, facts = rows_of(cluster.root)
            looks = fingerprints_of(cluster.root, facts)
            for _night in range(6):
                cluster.next_night()
                seen.update(cluster.changes)
                rows_now, facts = rows_of(cluster.root)
                looks_now = fingerprints_of(cluster.root, facts)
                assert looks_now.keys() == rows_now.keys()
                for key in looks.keys() & looks_now.keys():
                    if is_taken_over(looks[key], looks_now[key], rows[key], is_collected=is_collected):
                        assert rows[key] == rows_now[key], f"{key} after {cluster.changes} in night {cluster.night} of seed {1000 + seed}"
                        kept += 1
                        with_findings += bool(rows[key].get("found"))
                    changed += rows[key] != rows_now[key]
                rows, looks = rows_now, looks_now
            shutil.rmtree(cluster.place)
    assert kept > 10 * max(1, NIGHTS // 24)
    assert has_log or with_findings, "what was found and did not change is kept, too"
    assert changed > NIGHTS // 4
    if NIGHTS >= 400:
        assert seen.keys() == CHANGES.keys()
    print(f"{NIGHTS // 2} nights, {kept} partitions kept, {with_findings} with findings, {changed} changed; {dict(sorted(seen.items()))}")  # noqa: T201
