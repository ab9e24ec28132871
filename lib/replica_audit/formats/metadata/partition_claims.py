"""Claims on partitions as texts and documents of tools make them: what they lack stays unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata.cluster_metadata import CLUSTER_METADATA_FILE, contradiction, delete_retention_ms
from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.leader_settings import UNCLEAN_ELECTION, count_in, flag_in
from replica_audit.protocol.cluster.min_isr import NAME as MIN_ISR

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a tool prints of a partition. `leader` is -1 where nobody leads; `configs` None where they are not known."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    topic_id: str | None = None
    configs: Mapping[str, str] | None = None


def described(one: Described, line: int | None = None) -> PartitionMetadata:
    """The claim that it makes: without a leader epoch, and of an unknown time.

    Raises:
        MetadataError: a number that no partition or broker has, a broker twice, a leader or an ISR that no controller writes.
    """
    named = (one.partition, *one.replicas, *one.isr, *one.elr, *one.last_known_elr)
    if min(named) < 0 or max(*named, one.leader) > _INT32_MAX:
        raise MetadataError(f"a number of {one.topic}-{one.partition} is none that a partition or a broker has", line=line)
    if len(set(one.replicas)) < len(one.replicas) or len(set(one.isr)) < len(one.isr):
        raise MetadataError(f"a broker is given twice among the replicas of {one.topic}-{one.partition}", line=line)
    wrong = contradiction(one.leader, one.replicas, one.isr)
    if wrong is not None:
        raise MetadataError(f"of {one.topic}-{one.partition} {wrong}", line=line)
    configs = one.configs or {}
    return PartitionMetadata(
        topic=one.topic,
        partition=one.partition,
        topic_id=one.topic_id,
        compacted=None if one.configs is None else "compact" in configs.get("cleanup.policy", ""),
        leader=one.leader,
        leader_epoch=-1,
        replicas=one.replicas,
        isr=one.isr,
        elr=one.elr,
        last_known_elr=one.last_known_elr,
        no_leader=one.leader < 0,
        source=CLUSTER_METADATA_FILE,
        delete_retention_ms=delete_retention_ms(configs),
        unclean_leader_election=flag_in(configs.get(UNCLEAN_ELECTION)),
        min_insync_replicas=count_in(configs.get(MIN_ISR)),
    )


def no_partition_twice(claims: Sequence[tuple[int | None, PartitionMetadata]]) -> tuple[PartitionMetadata, ...]:
    """The claims, each with its line, of which two on one partition may only be the same.

    Raises:
        MetadataError: two are not.
    """
    made: dict[tuple[str, int], PartitionMetadata] = {}
    for line, claim in claims:
        first = made.setdefault((claim.topic, claim.partition), claim)
        if first != claim:
            raise MetadataError(f"{claim.topic}-{claim.partition} is given twice, with different values", line=line)
    return tuple(made.values())
