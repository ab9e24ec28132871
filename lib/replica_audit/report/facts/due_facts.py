"""What a cluster's decisions are made of: counts, sums, and the first partitions by name, never a row for each finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts
from replica_audit.recovery.still_open import NOTHING_OPEN, MissingPart, StillOpen
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.rows.pairs import ReplicaVerdict

NAMED = 3  # partitions, or groups, of each decision
STOPPED, UNKNOWN = "stopped", "unknown"  # `how` of elections besides the types of elections


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePartitions:
    """Rows about partitions: how many rows, of how many partitions, the first NAMED of these by name, and sums over the rows."""

    rows: int = 0
    count: int = 0
    first: tuple[PartitionKey, ...] = ()
    records: int = 0
    committed: int = 0


NONE = DuePartitions()


@dataclass(frozen=True, slots=True, kw_only=True)
class DueElection:
    """Partitions without a leader that one election brings back: of `broker_id`, or `how` says that none is known."""

    how: str
    broker_id: int | None
    partitions: DuePartitions


class KnownSum(NamedTuple):
    """A sum of numbers of which `unknown` are not known, and not in it."""

    known: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, numbers: Iterable[int | None]) -> KnownSum:
        """Their sum."""
        told = list(numbers)
        return cls(sum(number for number in told if number is not None), told.count(None))


NOTHING = KnownSum()


@dataclass(frozen=True, slots=True, kw_only=True)
class DueGroups:
    """Consumer groups behind a truncation. `names` are the first NAMED of `count`."""

    count: int = 0
    names: tuple[str, ...] = ()
    reread: KnownSum = NOTHING
    missed: KnownSum = NOTHING
    partitions: DuePartitions = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFacts:
    """One cluster. `elections` are in the order of how and broker, `leaderless` all partitions of them.

    `truncated`: followers that have truncated committed records, on the brokers `truncated_on`. `gone`: partitions of brokers that will not
    come back.
    """

    elections: tuple[DueElection, ...] = ()
    leaderless: DuePartitions = NONE
    truncated: DuePartitions = NONE
    truncated_on: tuple[int, ...] = ()
    groups: DueGroups = DueGroups()
    transactions: DuePartitions = NONE
    wrong_tables: DuePartitions = NONE
    gone: Mapping[int, DuePartitions] = field(default_factory=dict)
    still_open: StillOpen = NOTHING_OPEN
    missing: MissingPart | None = None


def due_of(facts: RecoveryFacts) -> DueFacts:
    """Of what a plan or an explanation has read row by row."""
    truncated = [one for one in (*facts.verdicts, *facts.cut_copies) if one.already_truncated and one.verdict == Verdict.COMMITTED_LOSS]
    groups = sorted({one.group_id for one in facts.groups})
    return DueFacts(
        elections=tuple(_elections(facts)),
        leaderless=_partitions(list(facts.leaderless)),
        truncated=_of_verdicts(truncated),
        truncated_on=tuple(sorted({one.follower_id for one in truncated})),
        groups=DueGroups(
            count=len(groups),
            names=tuple(groups[:NAMED]),
            reread=KnownSum.of(one.records_reread for one in facts.groups),
            missed=KnownSum.of(one.records_missed for one in facts.groups),
            partitions=_partitions([(one.topic, one.partition) for one in facts.groups]),
        ),
        transactions=_partitions([(one.topic, one.partition) for one in facts.transactions]),
        wrong_tables=_of_verdicts([one for one in facts.verdicts if one.verdict == Verdict.EPOCH_TABLE_ONLY]),
        gone={
            broker: _partitions([key for key, roles in facts.replicas.items() if any(role.broker_id == broker for role in roles)])
            for broker in sorted(facts.gone)
        },
        still_open=facts.still_open,
        missing=facts.missing,
    )


def _partitions(rows: Sequence[PartitionKey], records: int = 0, committed: int = 0) -> DuePartitions:
    keys = sorted(set(rows))
    first = tuple(keys[:NAMED])
    return DuePartitions(rows=len(rows), count=len(keys), first=first, records=records, committed=committed)


def _of_verdicts(rows: Sequence[ReplicaVerdict]) -> DuePartitions:
    lost = sum(one.lost_records or 0 for one in rows)
    return _partitions([one.key for one in rows], lost, sum(one.removed_committed or 0 for one in rows))


def _best(one: RunFinding) -> ElectionChoice | None:
    return next((choice for choice in one.candidates or () if choice.rank == 1), None)


def _elections(facts: RecoveryFacts) -> Iterable[DueElection]:
    found: dict[tuple[str, int | None], list[tuple[PartitionKey, ElectionChoice | None]]] = {}
    all_stopped = all(one.cluster_stopped for one in facts.offline)  # else it matters who is started first
    for key, one in facts.leaderless.items():
        best = _best(one)
        is_unread = best is not None and bool(best.unread_replicas)
        how = UNKNOWN if is_unread or (best is None and not all_stopped) else STOPPED if all_stopped else str(best and best.election)
        found.setdefault((how, best.candidate_id if best and how not in (STOPPED, UNKNOWN) else None), []).append((key, best))
    for (how, broker), rows in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        records, committed = (sum(getattr(best, name) or 0 for _key, best in rows if best) for name in ("lost_records", "lost_committed"))
        yield DueElection(how=how, broker_id=broker, partitions=_partitions([key for key, _best in rows], records, committed))
