"""What a run keeps of each partition so that a later one need not audit it again if nothing about it has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from replica_audit.model import CANNOT_READ, GONE, INCOMPLETE_COLLECTION
from replica_audit.rows.columns import BY_PARTITION, PARTITION_CHECK, Bigint, PartitionNumber, Topic, table
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.runs import ReportedProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFingerprint:
    """A partition as a run found it: what its rows depend on, as digests, and what is left to know of them once they are written."""

    topic: Topic
    partition: PartitionNumber
    fingerprint: Annotated[
        str | None,
        "digest of all that its rows depend on; null where quiet_fingerprint stands for it. Both null: every run audits the partition "
        "again, since not all of that can be seen from outside",
    ]
    quiet_fingerprint: Annotated[
        str | None,
        "the same without what counts only for findings: acknowledgements, the end of the metadata log; null where something was found "
        "or may be told by these, and where every run audits the partition again",
    ]
    row_counts: Annotated[tuple[Bigint, ...], "its rows in each table, in the order of this version's tables"]
    verdicts: Annotated[tuple[str, ...], "those on its followers"]
    input_errors: Annotated[tuple[ReportedProblem, ...], "problems of its files, as in input_errors"]
    found: Annotated[tuple[FoundFinding, ...], "its findings, as in findings"]
    checked: Annotated[tuple[CheckedPartition, ...], "what of it was found in order, which resolves earlier findings"]


PARTITION_FINGERPRINTS = table(
    PartitionFingerprint,
    name="partition_fingerprints",
    grain="one row per partition: what the next run compares with what it finds, to take the rows of an unchanged partition over",
    constraints=PARTITION_CHECK,
    cluster_by=BY_PARTITION,
)
# A partition whose rows are of these tables alone, and of which nothing was found, is quiet:
# they depend neither on acknowledgements nor on the end of the metadata log.
QUIET_TABLES = (
    "segment_epochs",
    "replica_logs",
    "epoch_start_offsets",
    "epoch_end_offsets",
    "truncation_points",
    "replica_verdicts",
    "replica_roles",
    "leader_epochs",
    "consumer_impacts",
    "content_windows",
    "input_errors",
)
# the state of an open transaction is also told by coordinators, whatever its partition looks like
NEVER_TAKEN_OVER = ("open_transactions",)
# whether the leader may have forgotten a producer by then depends on the moment of the collection itself, not only on its order
NEVER_IF_COLLECTED = ("sequence_gaps",)
# what could not be read, or not as it was collected, may be readable by then, and looks the same
NEVER_WITH_PROBLEMS = (CANNOT_READ, GONE, INCOMPLETE_COLLECTION)
