"""Whether the topic of a partition is compacted, as far as the input tells."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.model import Segment
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.protocol.comparison.compaction import lacks_records, shows_cleaning


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Whether batches of a partition may be missing without harm.

    `is_known`: by its topic, its cleanup.policy or a cleaner checkpoint; None where the input has none of these. Only then what the logs
    show counts: `cleaned` are the brokers whose replica does.
    """

    is_known: bool | None
    cleaned: frozenset[int] = frozenset()

    @property
    def anywhere(self) -> bool:
        """Whether in any replica."""
        return self.of(*self.cleaned)

    def of(self, *brokers: int) -> bool:
        """Whether in the replicas of these brokers; what one of the others shows says nothing of them."""
        return bool(self.is_known) or (self.is_known is None and not self.cleaned.isdisjoint(brokers))


def compaction(known: KnownPartition, policy: bool | None) -> Compaction:
    """Whether batches may be missing: by cleanup.policy or a cleaner checkpoint, or else by the logs themselves.

    A policy that is known is believed: no broker takes a record out of a batch where it is `delete`. A log that was compacted before the
    policy changed has its entry in the cleaner's checkpoint (LogCleanerManager.updateCheckpoints keeps those of all logs that are there).
    Where the policy is unknown, a batch that lacks records shows a cleaner; holes do only where its checkpoint is not in the input either:
    text of kafka-dump-log, and single directories, come alone.

    Args:
        known: what was read of the partition.
        policy: whether cleanup.policy says so, None if it is unknown.
    """
    files = [one for _broker, one in known.replicas if one.state == "current"]
    if known.topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or policy or any(one.cleaner_offset is not None for one in files):
        return Compaction(is_known=True)
    if policy is not None:
        return Compaction(is_known=False)
    has_checkpoints = all(one.cleaner_offsets_collected for one in files)  # none of them names it
    shows = lacks_records if has_checkpoints else shows_cleaning
    logs: defaultdict[tuple[int, str, str], list[Segment]] = defaultdict(list)
    for broker, scan in known.segments:
        logs[broker, scan.log_dir, scan.directory].append(scan.segment)
    cleaned = {broker for (broker, *_), segments in logs.items() if shows(sorted(segments, key=lambda one: one.base_offset))}
    return Compaction(is_known=None, cleaned=frozenset(cleaned))
