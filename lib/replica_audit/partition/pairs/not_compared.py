"""A leader and a follower that cannot be compared, as a row of `replica_verdicts`."""

from __future__ import annotations

from replica_audit.partition.pairs.decided_columns import optional_text
from replica_audit.partition.pairs.pair import PairKeys
from replica_audit.protocol.exchange.replay import Protocol
from replica_audit.protocol.verdict.verdict import Judgement
from replica_audit.tables.pairs import ReplicaVerdict


def not_compared_row(
    keys: PairKeys, leader_source: str, protocol: Protocol, judgement: Judgement, *, inferred_because: str | None = None
) -> ReplicaVerdict:
    """What is known of a pair all the same; `inferred_because` as the column."""
    return ReplicaVerdict(
        topic=keys.topic,
        partition=keys.partition,
        leader_id=keys.leader_id,
        follower_id=keys.follower_id,
        leader_source=leader_source,
        verdict=str(judgement.verdict),
        severity=str(judgement.severity),
        common_prefix_end_offset=None,
        divergence_offset=None,
        follower_diverged_end_offset=None,
        leader_diverged_end_offset=None,
        truncation_offset=None,
        restart_offset=None,
        protocol=str(protocol),
        removed_offsets=None,
        removed_records=None,
        removed_bytes=None,
        removed_below_high_watermark=None,
        commit_evidence=None,
        removed_committed=None,
        removed_committed_offsets=None,
        removed_commits=None,
        first_removed_timestamp_ms=None,
        last_removed_timestamp_ms=None,
        open_transactions=None,
        observed_truncation_offset=None,
        already_truncated=None,
        stuck=None,
        wrong_lines_broker_id=None,
        wrong_lines=None,
        hole=None,
        compacted=None,
        evidence=None,
        reason=judgement.reason,
        inferred_because=inferred_because,
        cause=optional_text(judgement.cause),
        wrong_epoch=None,
        did_otherwise=None,
        differences=None,
        conflicts=None,
        cleaned_beyond_cut=None,
        rests_on=None,
    )
