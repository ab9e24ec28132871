"""What a run's replicas say of their brokers' starts, broker by broker: counted as columns, for there is a row for each replica."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.errors import UsageError
from replica_audit.formats.log_dir.names import SERVER_LOG
from replica_audit.model.replicas import MISLEADING_INDEX, NOT_READ_WHOLE
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.past.run import PastRun, counted
from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.recovery.outcomes import GARBLED_TABLE
from replica_audit.report.facts.run_report import BrokerAnswer
from replica_audit.rows import BROKER_STARTS, INPUT_ERRORS, REPLICA_LOGS, REPLICA_STARTS
from replica_audit.rows.columns import hints_of
from replica_audit.rows.pairs import RecordsByTransaction
from replica_audit.rows.starts import OUTCOME_OF, WORST, BrokerStart, ReplicaStart, StartBecause, StartOutcome
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

_SHOWN = 20  # replicas in the answer about one broker
_NAMED = 3  # partitions of a broker
_LOSSES = ("lost_offsets", "lost_records", "lost_committed")
_BROKER = ["cluster_id", "broker_id"]
_OF_PROBLEMS = {MISLEADING_INDEX: StartBecause.MISLED_BY_INDEX, "directory-id-of-two-brokers": StartBecause.SAME_DIRECTORY_ID}
Broker = tuple[str, int]  # cluster id, broker id


def broker_starts(tables: ArrowTables, run_id: str, known: Mapping[Broker, StartBecause] | None = None) -> list[BrokerStart]:
    """A row for each broker that holds replicas, or should, in the order of cluster and id.

    Args:
        tables: those of the run's partitions, and the problems of its input, are there.
        run_id: of the run.
        known: what is known of brokers as a whole: that the input lacks one which an earlier run read, or has two copies of it.

    Raises:
        UsageError: a table cannot be read.
    """
    starts = tables.of_table(REPLICA_STARTS, [name for name in REPLICA_STARTS.names if name not in REPLICA_STARTS.of_run], run_id=run_id)
    logs = _held(tables, run_id)
    outcomes, because = _counts(starts, "outcome"), _because(starts)
    of_brokers = known or {}
    for broker, reason in of_brokers.items():
        because[broker][reason] += 1
    for (cluster, broker_id, reason), problems in _problems(tables, run_id).items():
        of_broker = because[cluster, broker_id]
        of_broker[reason] = max(of_broker[reason], problems)  # a replica's file is one of them
    return [
        _row(run_id, broker, starts, logs.get(broker, (0, None)), outcomes[broker], because[broker])
        for broker in sorted({*logs, *outcomes, *of_brokers})
    ]


def known_of_brokers(facts: Mapping[str, ClusterFacts], missing: Mapping[str, Collection[int]] | None = None) -> dict[Broker, StartBecause]:
    """What is known of brokers as a whole, by the facts of their clusters; `missing`: by cluster, those that an earlier run read."""
    twice = {(cluster, one.broker_id) for cluster, of in facts.items() for one in of.other_copies}
    shared = {(cluster, broker) for cluster, of in facts.items() for one in of.shared_ids for broker, _path in one.directories}
    lacking = {(cluster, broker) for cluster, brokers in (missing or {}).items() for broker in brokers}
    reasons = {StartBecause.SAME_DIRECTORY_ID: shared, StartBecause.COPIED_TWICE: twice, StartBecause.MISSING: lacking}
    return {broker: reason for reason, brokers in reasons.items() for broker in brokers}


def open_outcomes(tables: ArrowTables, run_id: str) -> Counter[str]:
    """How many replicas have each outcome, without those of which what was found is acknowledged: for the exit code of the run."""
    found = tables.of_table(REPLICA_STARTS, ["outcome", "is_acknowledged"], run_id=run_id)
    is_open: Any = pc.invert(found["is_acknowledged"])
    return Counter({str(outcome): number for (outcome,), number in counted(found.filter(is_open), ["outcome"]).items()})


def starts_of(run: PastRun, cluster_id: str | None = None) -> tuple[BrokerStart, ...]:
    """The brokers of a run, or of one of its clusters, in the order of cluster and id; none where an older version wrote it."""
    equal = {"run_id": run.run_id} | ({} if cluster_id is None else {"cluster_id": cluster_id})
    return tuple(sorted(run.tables.rows(BROKER_STARTS.name, BrokerStart, **equal), key=lambda one: (one.cluster_id, one.broker_id)))


def broker_answer(run: PastRun, broker_id: int, cluster_id: str | None = None) -> BrokerAnswer:
    """Whether a broker may be started.

    Raises:
        UsageError: the run has no such broker, or several clusters have one and none is named.
    """
    every = starts_of(run, cluster_id)
    found = [one for one in every if one.broker_id == broker_id]
    if not found:
        known = ", ".join(sorted({str(one.broker_id) for one in every}, key=int)) or "none"
        where = "" if cluster_id is None else f" in cluster {cluster_id}"
        raise UsageError(f"--broker {broker_id}: run {run.run_id} has no such broker{where}; it has: {known}")
    if len(found) > 1:
        clusters = ", ".join(one.cluster_id for one in found)
        raise UsageError(f"--broker {broker_id}: of {len(found)} clusters; give one with --cluster: {clusters}")
    return BrokerAnswer(start=found[0], replicas=_worst_of(run, found[0]))


def _worst_of(run: PastRun, start: BrokerStart) -> tuple[ReplicaStart, ...]:
    """The replicas of a broker with something at stake, the worst first, _SHOWN at most."""
    own = (ds.field("cluster_id") == start.cluster_id) & (ds.field("broker_id") == start.broker_id)
    keys = ["topic", "partition", "broker_id"]
    found = run.read(REPLICA_STARTS, [*keys, "outcome", "cluster_id"], own)
    ranks: Any = pc.index_in(found["outcome"], pa.array(list(map(str, WORST))))
    ranked = found.append_column("rank", ranks)
    first = ranked.sort_by([("rank", "descending"), ("topic", "ascending"), ("partition", "ascending")]).slice(0, _SHOWN)
    return tuple(run.whole(REPLICA_STARTS, ReplicaStart, first, ["cluster_id", *keys]).values())


def _held(tables: ArrowTables, run_id: str) -> dict[Broker, tuple[int, bool | None]]:
    """How many replicas each broker holds, and whether it ran."""
    names = ["cluster_id", "broker_id", "broker_ran"]
    held: Counter[Broker] = Counter()
    ran: defaultdict[Broker, set[bool | None]] = defaultdict(set)
    for (cluster, broker, did_run), number in counted(
        tables.of_table(REPLICA_LOGS, names, ds.field("state") == "current", run_id=run_id), names
    ).items():
        held[cluster, broker] += number
        ran[cluster, broker].add(did_run)
    return {broker: (count, True if True in ran[broker] else False if ran[broker] == {False} else None) for broker, count in held.items()}


def _problems(tables: ArrowTables, run_id: str) -> Counter[tuple[str, int, StartBecause]]:
    """How many problems of each broker's folder leave unknown what its start does: not those of `server.log`, which no start depends on."""
    code, kind = GARBLED_TABLE
    is_known = ((ds.field("code") == code) & ds.field("kind").isin([kind])) | ds.field("kind").isin([SERVER_LOG])  # never null, unlike `==`
    decides = ds.field("code").isin(sorted(NOT_READ_WHOLE)) & ds.field("broker_id").is_valid() & ~is_known
    found: Counter[tuple[str, int, StartBecause]] = Counter()
    for (cluster, broker, problem), number in counted(
        tables.of_table(INPUT_ERRORS, [*_BROKER, "code"], decides, run_id=run_id), [*_BROKER, "code"]
    ).items():
        found[cluster, broker, _OF_PROBLEMS.get(problem, StartBecause.NOT_READ)] += number
    return found


def _because(starts: pa.Table) -> defaultdict[Broker, Counter[str]]:
    """How many replicas of each broker have each reason; a replica may have several."""
    places = pc.list_parent_indices(starts["because"])
    each = starts.select(_BROKER).take(places)
    return _counts(each.append_column("because", pc.list_flatten(starts["because"])), "because")


def _counts(rows: pa.Table, name: str) -> defaultdict[Broker, Counter[str]]:
    found: defaultdict[Broker, Counter[str]] = defaultdict(Counter)
    for (cluster, broker, value), number in counted(rows, [*_BROKER, name]).items():
        found[cluster, broker][value] += number
    return found


def _with(starts: pa.Table, reason: StartBecause) -> pa.Table:
    """The rows that have a reason."""
    has_it: Any = pc.equal(pc.list_flatten(starts["because"]), pa.scalar(str(reason)))
    return starts.take(pc.list_parent_indices(starts["because"]).filter(has_it))


def _row(
    run_id: str,
    broker: Broker,
    starts: pa.Table,
    held: tuple[int, bool | None],
    outcomes: Counter[str],
    because: Counter[str],
) -> BrokerStart:
    own = starts.filter((pc.field("cluster_id") == broker[0]) & (pc.field("broker_id") == broker[1]))
    outcome = max((OUTCOME_OF[StartBecause(one)] for one in because), key=WORST.__getitem__, default=StartOutcome.SAFE)
    is_it = pc.field("outcome") == str(outcome)
    worst = own.filter(is_it).sort_by([("topic", "ascending"), ("partition", "ascending")]).slice(0, _NAMED)
    waits = counted(_with(own, StartBecause.OTHER_LOSES_LESS), ["leader_id"])
    is_cut = own.filter(pc.field("lost_offsets").is_null() | pc.field("lost_records").is_null())
    elections = counted(own.filter(pc.is_valid(own["election"])), ["election"])
    replicas = held[0] + len(_with(own, StartBecause.MISSING))
    return BrokerStart(
        run_id=run_id,
        cluster_id=broker[0],
        broker_id=broker[1],
        runs=held[1],
        outcome=str(outcome),
        replicas=replicas,
        outcomes={str(StartOutcome.SAFE): replicas - outcomes.total() + outcomes[StartOutcome.SAFE]}
        | {name: count for name, count in sorted(outcomes.items()) if name != StartOutcome.SAFE},
        because=dict(sorted(because.items())),
        partitions=tuple(f"{row['topic']}-{row['partition']}" for row in worst.to_pylist()) if outcome is not StartOutcome.SAFE else (),
        **{name: pc.sum(own[name]).as_py() or 0 for name in _LOSSES},
        lost_by_transaction=_by_transaction(own),
        lost_unknown=len(is_cut),
        acknowledged=len(own.filter(pc.field("is_acknowledged") & (pc.field("outcome") != str(StartOutcome.SAFE)))),
        waits_for=tuple(sorted(leader for (leader,) in waits if leader is not None)),
        leads=elections.total(),
        leads_uncleanly=elections[str(ElectionType.UNCLEAN),],
    )


def _by_transaction(starts: pa.Table) -> RecordsByTransaction | None:
    """What the replicas lose, by transaction; None if that is nothing, or of no replica known how much."""
    is_split: Any = pc.is_valid(starts["lost_by_transaction"])
    unsplit = pc.sum(starts.filter(pc.invert(is_split))["lost_records"]).as_py() or 0
    split = starts.filter(is_split)["lost_by_transaction"]
    if not len(split) and not unsplit:
        return None
    sums = {name: pc.sum(pc.struct_field(split, name)).as_py() or 0 for name in hints_of(RecordsByTransaction)}
    return RecordsByTransaction(**sums) + RecordsByTransaction(unknown=unsplit)
