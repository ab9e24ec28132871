"""What replicas of partitions without a leader truncate once the plan's leaders are there: nobody leads them yet, so no verdict says it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from replica_audit.past.recovery import recovery_of
from replica_audit.past.run import PastRun
from replica_audit.protocol.verdict.confirmation import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.recovery.elections import leaders_by_plan
from replica_audit.recovery.facts import PartitionKey
from replica_audit.rows import FINDINGS
from replica_audit.rows.what_if import FollowerCut

_OFFLINE = PartitionCode.OFFLINE_PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCut:
    """A replica that truncates, and for which leader."""

    key: PartitionKey
    leader_id: int
    cut: FollowerCut

    def as_row(self, cluster_id: str, *, compacted: bool | None) -> dict[str, Any]:
        """As a row of `replica_verdicts` has it, as much as cuts are made of."""
        topic, partition = self.key
        return {
            "cluster_id": cluster_id,
            "topic": topic,
            "partition": partition,
            "leader_id": self.leader_id,
            "follower_id": self.cut.broker_id,
            "verdict": str(_OFFLINE),
            "truncation_offset": self.cut.truncation_offset,
            "restart_offset": self.cut.restart_offset,
            "divergence_offset": self.cut.divergence_offset,
            "removed_offsets": self.cut.removed_offsets,
            "removed_records": self.cut.removed_records,
            "removed_bytes": self.cut.removed_bytes,
            "already_truncated": False,
            "compacted": compacted,
        }


def planned_cuts(run: PastRun, cluster_id: str, gone: Collection[int] = ()) -> dict[PartitionKey, list[PlannedCut]]:
    """The cuts in each partition that gets a leader by the plan: an empty list where nothing is cut. Other partitions are not there.

    Of brokers that are `gone`: what their audited copies hold and the leader does not.

    Raises:
        UsageError: a table cannot be read.
    """
    if not gone and not clusters_offline(run, cluster_id):
        return {}
    facts = recovery_of(run, cluster_id, gone=gone)
    found = {key: (choice.candidate_id, facts.cuts_under(*key, choice.candidate_id)) for key, choice in leaders_by_plan(facts).items()}
    return {key: list(_of(key, leader, cuts)) for key, (leader, cuts) in found.items() if cuts}


def clusters_offline(run: PastRun, cluster_id: str | None = None) -> list[str]:
    """The clusters, or this one, with partitions that nobody leads."""
    is_offline = ds.field("status").isin(FOUND_NOW) & (ds.field("code") == str(_OFFLINE))
    found = sorted(str(cluster) for (cluster,) in run.counts(FINDINGS, ["cluster_id"], is_offline))
    return [cluster for cluster in found if cluster_id in (None, cluster)]


def _of(key: PartitionKey, leader: int, cuts: tuple[FollowerCut, ...]) -> Iterator[PlannedCut]:
    for cut in cuts:
        if (cut.truncation_offset is not None or cut.restart_offset is not None) and cut.removed_offsets != 0:
            yield PlannedCut(key=key, leader_id=leader, cut=cut)
