"""Whether the topic of a partition is compacted, as far as the input tells."""

from __future__ import annotations

from collections import defaultdict

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.model import Segment
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.protocol.comparison.signs_of_cleaning import lacks_records, shows_cleaning


def is_compacted(known: KnownPartition, policy: bool | None) -> bool:
    """Whether batches may be missing without harm: by cleanup.policy or a cleaner checkpoint, or else by the logs themselves.

    A batch that lacks records proves it whatever they say: a policy that is changed leaves the batches as they are, and the entry of the
    checkpoint goes. Holes do only where neither is in the input: text of kafka-dump-log, and single directories, come alone.

    Args:
        known: what was read of the partition.
        policy: whether cleanup.policy says so, None if it is unknown.
    """
    files = [one for _broker, one in known.replicas if one.state == "current"]
    if known.topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or policy:
        return True
    if any(one.cleaner_offset is not None for one in files):
        return True
    if lacks_records([scan.segment for _broker, scan in known.segments]):
        return True  # only a cleaner takes records out of a batch
    if policy is not None or all(one.cleaner_offsets_collected for one in files):
        return False  # none of the checkpoints names it
    logs: defaultdict[tuple[int, str, str], list[Segment]] = defaultdict(list)
    for broker, scan in known.segments:
        logs[broker, scan.log_dir, scan.directory].append(scan.segment)
    return any(shows_cleaning(sorted(segments, key=lambda one: one.base_offset)) for segments in logs.values())
