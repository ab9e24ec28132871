"""Tables of what happens when brokers start: a row for each replica with something at stake, and one for each broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from replica_audit.rows.columns import Bigint, Int, OfReplica, RunKeys, table
from replica_audit.rows.pairs import ByTransaction


class StartOutcome(StrEnum):
    """What starting a broker does, from harmless to not known: a broker's is the last one that one of its replicas has."""

    SAFE = "safe"
    ORDER = "order"
    COPY_FIRST = "copy-first"
    REPAIR_FIRST = "repair-first"
    UNKNOWN = "unknown"


COSTLY = (StartOutcome.ORDER, StartOutcome.COPY_FIRST, StartOutcome.REPAIR_FIRST)
"""A start that loses something, or has to wait."""
WORST = {outcome: rank for rank, outcome in enumerate(StartOutcome)}
"""The rank of an outcome, the worst highest."""


class StartBecause(StrEnum):
    """Why a start is not safe."""

    # order
    OTHER_LOSES_LESS = "another-leader-loses-less"
    # copy-first
    EMPTIES = "empties-its-log"
    TRUNCATES = "truncates"
    RECOVERY_TRUNCATES = "recovery-truncates"
    SETS_ASIDE = "sets-aside-the-only-copy"
    DELETES = "deletes-the-only-copy"
    OTHERS_TRUNCATE = "others-truncate"
    # repair-first
    TORN_END = "torn-end"
    DOES_NOT_LOAD = "does-not-load"
    BECOMES_STRAY = "becomes-stray"
    CANNOT_FOLLOW = "cannot-follow"
    STAYS_DIVERGED = "stays-diverged"
    OTHER_RECORDS = "other-records-than-the-leader"
    # unknown
    NOT_COMPARED = "not-compared"
    NOT_READ = "not-read"
    SHORT_COPY = "short-copy"
    LEADER_GUESSED = "leader-guessed"
    LEADER_DAMAGED = "leader-damaged"
    MAY_BECOME_STRAY = "may-become-stray"
    ELECTION_UNKNOWN = "election-unknown"
    MISSING = "missing-from-the-input"
    COPIED_TWICE = "two-copies-of-the-broker"
    SAME_DIRECTORY_ID = "directory-id-of-two-brokers"
    MISLED_BY_INDEX = "misled-by-an-index"


OUTCOME_OF: Mapping[StartBecause, StartOutcome] = {
    StartBecause.OTHER_LOSES_LESS: StartOutcome.ORDER,
    StartBecause.EMPTIES: StartOutcome.COPY_FIRST,
    StartBecause.TRUNCATES: StartOutcome.COPY_FIRST,
    StartBecause.RECOVERY_TRUNCATES: StartOutcome.COPY_FIRST,
    StartBecause.SETS_ASIDE: StartOutcome.COPY_FIRST,
    StartBecause.DELETES: StartOutcome.COPY_FIRST,
    StartBecause.OTHERS_TRUNCATE: StartOutcome.COPY_FIRST,
    StartBecause.TORN_END: StartOutcome.REPAIR_FIRST,
    StartBecause.DOES_NOT_LOAD: StartOutcome.REPAIR_FIRST,
    StartBecause.BECOMES_STRAY: StartOutcome.REPAIR_FIRST,
    StartBecause.CANNOT_FOLLOW: StartOutcome.REPAIR_FIRST,
    StartBecause.STAYS_DIVERGED: StartOutcome.REPAIR_FIRST,
    StartBecause.OTHER_RECORDS: StartOutcome.REPAIR_FIRST,
    StartBecause.NOT_COMPARED: StartOutcome.UNKNOWN,
    StartBecause.NOT_READ: StartOutcome.UNKNOWN,
    StartBecause.SHORT_COPY: StartOutcome.UNKNOWN,
    StartBecause.LEADER_GUESSED: StartOutcome.UNKNOWN,
    StartBecause.LEADER_DAMAGED: StartOutcome.UNKNOWN,
    StartBecause.MAY_BECOME_STRAY: StartOutcome.UNKNOWN,
    StartBecause.ELECTION_UNKNOWN: StartOutcome.UNKNOWN,
    StartBecause.MISSING: StartOutcome.UNKNOWN,
    StartBecause.COPIED_TWICE: StartOutcome.UNKNOWN,
    StartBecause.SAME_DIRECTORY_ID: StartOutcome.UNKNOWN,
    StartBecause.MISLED_BY_INDEX: StartOutcome.UNKNOWN,
}
"""What each reason makes of a start."""

Outcome = Annotated[
    str,
    "safe: it removes nothing that nobody else holds; order: safe once another broker leads; copy-first: it removes records that no "
    "running replica holds; repair-first: a log does not load, is set aside, or its replica never follows again; unknown: something that "
    "decides it is not in the input, could not be read, or is a guess",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStart(OfReplica):
    """What the start of a broker does to one replica that it holds."""

    outcome: Outcome
    because: Annotated[
        tuple[str, ...],
        "every reason, the worst first: another-leader-loses-less (order); truncates, recovery-truncates, empties-its-log (it ends below "
        "the leader's log start), sets-aside-the-only-copy, deletes-the-only-copy (a log with -delete), others-truncate (it leads at once, "
        "and running followers truncate) (copy-first); torn-end, does-not-load, becomes-stray, cannot-follow, "
        "stays-diverged, other-records-than-the-leader (repair-first); not-compared, not-read, short-copy, leader-guessed, "
        "leader-damaged, may-become-stray, election-unknown, missing-from-the-input (unknown)",
    ]
    leader_id: Annotated[Int | None, "who leads, or has to lead, when it starts; null: not known"]
    election: Annotated[str | None, "of a partition that nobody leads and this broker is to lead: clean or unclean; null: it is not"]
    first_offset: Annotated[Bigint | None, "where what the start removes begins; null: it removes nothing, or that is not known"]
    lost_offsets: Annotated[Bigint | None, "offsets that it removes and its leader does not hold; null: not known"]
    lost_records: Annotated[Bigint | None, "records in them, transaction markers among them; null: not known"]
    lost_committed: Annotated[Bigint | None, "those offsets that are proven to have been committed; null: not known"]
    is_acknowledged: Annotated[bool, "whether somebody has acknowledged what was found of the replica"]
    lost_by_transaction: ByTransaction = None


REPLICA_STARTS = table(
    ReplicaStart,
    name="replica_starts",
    grain="one row per replica for which the start of its broker is not plainly safe, and per replica that is to lead where nobody does",
    constraints={"known_outcome": "outcome IN ('safe', 'order', 'copy-first', 'repair-first', 'unknown')"},
    is_dated=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStart(RunKeys):
    """Whether a broker may be started, or restarted if it runs."""

    broker_id: Annotated[Int, "the broker"]
    runs: Annotated[bool | None, "whether it ran when its replicas were copied; null: unknown"]
    outcome: Outcome
    replicas: Annotated[Bigint, "replicas that it holds, or that are assigned to it"]
    outcomes: Annotated[Mapping[str, Bigint], "how many of them have each outcome"]
    because: Annotated[
        Mapping[str, Bigint],
        "how many of them have each reason, as in replica_starts; not-read counts problems of its folder where they are more, and "
        "those of the broker as a whole (two-copies-of-the-broker, directory-id-of-two-brokers, misled-by-an-index) are there, too",
    ]
    partitions: Annotated[tuple[str, ...], "the first three partitions with the outcome of the broker; of safe: none"]
    lost_offsets: Annotated[Bigint, "offsets that its start removes and the leaders do not hold, as far as that is known"]
    lost_records: Annotated[Bigint, "records in them, as far as that is known"]
    lost_committed: Annotated[Bigint, "those offsets that are proven to have been committed"]
    lost_unknown: Annotated[Bigint, "replicas that lose something of which it is not known how much"]
    acknowledged: Annotated[
        Bigint, "replicas, not safe, of which somebody has acknowledged what was found: they do not raise the exit code"
    ]
    waits_for: Annotated[tuple[Int, ...], "brokers that have to lead before it starts"]
    leads: Annotated[Bigint, "partitions that nobody leads, and that it is to lead"]
    leads_uncleanly: Annotated[Bigint, "those of them for which it has to be elected uncleanly"]
    lost_by_transaction: ByTransaction = None

    @property
    def at_stake(self) -> int:
        """How many replicas are not plainly safe."""
        return sum(number for outcome, number in self.outcomes.items() if outcome != StartOutcome.SAFE)


BROKER_STARTS = table(
    BrokerStart,
    name="broker_starts",
    grain="one row per broker that holds replicas, or should: whether it may be started",
    constraints={"known_outcome": "outcome IN ('safe', 'order', 'copy-first', 'repair-first', 'unknown')"},
    is_dated=True,
)
