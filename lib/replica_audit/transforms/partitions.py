"""All replicas of one partition, side by side → every row that the audit says about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.model import Problem
from replica_audit.protocol.comparison import Context, Replica
from replica_audit.protocol.exchange import Protocol
from replica_audit.protocol.leadership import leadership
from replica_audit.protocol.verdict import Judgement, Verdict
from replica_audit.schemas import AUDITED
from replica_audit.transforms import pairs, replicas
from replica_audit.transforms.arrow import spark_schema
from replica_audit.transforms.rows import Row, map_rows, replica_files

_KEYS = ("cluster_id", "topic", "partition")
_ALIVE = {"up": True, "paused": True, "down": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What is true of a whole cluster. `broker_states` is empty where there is no metadata."""

    applies: Protocol
    broker_states: dict[int, str] = field(default_factory=dict)
    simultaneous: bool = False


def gather(inventory: DataFrame, segments: DataFrame) -> DataFrame:
    """One row per partition, in one shuffle: cluster_id, topic, partition, metadata, replicas and segments (arrays with broker_id)."""
    none = F.lit(None)
    replica = F.when(F.col("replica").isNotNull(), F.struct("broker_id", "replica"))
    found = inventory.where(F.col("problem").isNull()).select(
        *_KEYS, replica.alias("replica"), "metadata", none.cast(_struct(segments)).alias("segment")
    )
    scanned = segments.select(
        *_KEYS,
        none.cast(found.schema["replica"].dataType).alias("replica"),
        none.cast(found.schema["metadata"].dataType).alias("metadata"),
        F.struct("broker_id", "segment").alias("segment"),
    )
    return (
        found.unionByName(scanned)
        .groupBy(*_KEYS)
        .agg(
            F.first("metadata", ignorenulls=True).alias("metadata"),
            F.collect_list("replica").alias("replicas"),
            F.collect_list("segment").alias("segments"),
        )
    )


def _struct(segments: DataFrame) -> str:
    return f"struct<broker_id:int,segment:{segments.schema['segment'].dataType.simpleString()}>"


def audit(gathered: DataFrame, clusters: dict[str, ClusterFacts]) -> DataFrame:
    """Audit every partition inside tasks.

    Returns:
        One row per partition of the shape AUDITED: cluster_id and, for each table, an array of its rows without the run's keys.
    """
    return gathered.mapInArrow(map_rows(partial(_audit, clusters=clusters), AUDITED), spark_schema(AUDITED))


def _audit(row: Row, clusters: dict[str, ClusterFacts]) -> Iterator[Row]:
    yield PartitionAudit(row, clusters[row["cluster_id"]]).row()


class PartitionAudit:
    """The audit of one partition."""

    def __init__(self, row: Row, cluster: ClusterFacts) -> None:
        """Load every replica of the row that `gather` made."""
        self.cluster = cluster
        self.row_in = row
        self.topic, self.partition = row["topic"], row["partition"]
        self.metadata: Row = row["metadata"] or {}
        self.compacted = bool(self.metadata.get("compacted"))
        self.loaded = self._load(row)
        self.compared = {one.broker_id: one for one in self.loaded if one.is_compared}
        self.replicas = {
            broker: one.replica(alive=self._alive(broker), in_isr=broker in (self.metadata.get("isr") or ()))
            for broker, one in self.compared.items()
            if one.log is not None
        }
        self.leadership = leadership(self.metadata.get("leader", -1), list(self.replicas.values()))
        self.cleaned_until = max((one.files.cleaner_offset or 0 for one in self.compared.values()), default=0)
        self.context = Context(
            leader_epoch=self.metadata.get("leader_epoch", -1),
            enters_epoch_at_once=cluster.applies is Protocol.TRUNCATE_ON_FETCH,
            compacted=self.compacted
            or self.cleaned_until > 0
            or any(one.files.cleaner_offset is not None for one in self.compared.values()),
            simultaneous=cluster.simultaneous,
        )

    def row(self) -> Row:
        """Every row of every table about this partition."""
        leader = self.replicas.get(self.leadership.leader_id)
        points, verdicts, lookups = self._pairs()
        return {
            "cluster_id": self.row_in["cluster_id"],
            "replica_logs": [replicas.log_row(one) for one in self.loaded],
            "segment_epochs": [
                made
                for entry in self.row_in["segments"]
                for made in replicas.segment_rows(entry["broker_id"], entry["segment"], self.topic, self.partition)
            ],
            "epoch_start_offsets": [
                made
                for one in self.loaded
                for made in replicas.epoch_rows(one, leader=leader, cleaned_until=self.cleaned_until, compacted=self.context.compacted)
            ],
            "epoch_end_offsets": lookups,
            "truncation_points": points,
            "replica_verdicts": verdicts,
            "input_errors": [{"broker_id": one.broker_id, **asdict(problem)} for one in self.loaded for problem in one.problems],
            "unreadable_leaders": self._unreadable_leader(),
        }

    def _load(self, row: Row) -> list[replicas.Loaded]:
        scans: dict[tuple[int, str, str], list[Row]] = defaultdict(list)
        for entry in row["segments"]:
            segment = entry["segment"]
            scans[(entry["broker_id"], segment["log_dir"], segment["directory"])].append(segment)
        loaded = []
        for entry in row["replicas"]:
            broker, files = entry["broker_id"], replica_files(entry["replica"])
            found = scans[(broker, files.log_dir, files.directory)]
            loaded.append(replicas.load(broker, files, found, alive=self._alive(broker), compacted=self.compacted))
        loaded.sort(key=lambda one: (one.broker_id, one.files.log_dir, one.files.directory))
        return _refuse_twins(loaded)

    def _alive(self, broker_id: int) -> bool | None:
        return _ALIVE.get(self.cluster.broker_states.get(broker_id, ""))

    def _pairs(self) -> tuple[list[Row], list[Row], list[Row]]:
        points: list[Row] = []
        verdicts: list[Row] = []
        lookups: list[Row] = []
        followers = {*(self.metadata.get("replicas") or ()), *self.compared} - {self.leadership.leader_id}
        if len(followers) + (self.leadership.leader_id >= 0) < 2 and self.leadership.leader_id in self.compared:
            return points, verdicts, lookups
        for follower_id in sorted(followers):
            pair = self._pair(follower_id)
            if isinstance(pair, Judgement):
                keys = pairs.pair_keys(self.topic, self.partition, self.leadership, follower_id)
                verdicts.append(pairs.not_compared_row(keys, self.leadership.source, self.cluster.applies, pair))
                continue
            cuts, verdict = pairs.compare(pair)
            points += cuts
            verdicts.append(verdict)
            lookups += pairs.lookup_rows(pair)
        return points, verdicts, lookups

    def _pair(self, follower_id: int) -> pairs.Pair | Judgement:
        follower, leader = self.compared.get(follower_id), self.compared.get(self.leadership.leader_id)
        if follower is None:
            reason = "not collected: the metadata names this replica, the input does not hold it"
            return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason)
        if follower.log is None or follower.files.checkpoint_state == "unreadable":
            return Judgement(verdict=Verdict.UNREADABLE, reason=follower.unreadable or "no log")
        if leader is None:
            named = (
                "no replica can be inferred to lead"
                if self.leadership.leader_id < 0
                else f"the input does not hold the replica of leader {self.leadership.leader_id}"
            )
            return Judgement(verdict=Verdict.INCONCLUSIVE, reason=f"leader unknown or unreadable: {named}")
        if leader.log is None or leader.files.checkpoint_state == "unreadable":
            return Judgement(verdict=Verdict.INCONCLUSIVE, reason=f"leader unknown or unreadable: {leader.unreadable}")
        return pairs.Pair(
            leader=pairs.Side(loaded=leader, replica=self.replicas[leader.broker_id]),
            follower=pairs.Side(loaded=follower, replica=self.replicas[follower_id]),
            leadership=self.leadership,
            context=self.context,
            applies=self.cluster.applies,
            witnesses=self._witnesses(follower_id),
        )

    def _witnesses(self, follower_id: int) -> list[Replica]:
        """The readable replicas of the same topic besides the leader and the follower."""
        follower = self.replicas[follower_id]
        return [
            replica
            for broker, replica in self.replicas.items()
            if broker not in (follower_id, self.leadership.leader_id)
            and not replica.unreadable
            and (not replica.topic_id or not follower.topic_id or replica.topic_id == follower.topic_id)
        ]

    def _unreadable_leader(self) -> list[Row]:
        leader = self.compared.get(self.leadership.leader_id)
        if leader is None or not leader.unreadable:
            return []
        return [{"topic": self.topic, "partition": self.partition, "broker_id": leader.broker_id, "reason": leader.unreadable}]


def _refuse_twins(loaded: list[replicas.Loaded]) -> list[replicas.Loaded]:
    """A replica that stands in two log directories of one broker keeps the broker from starting; neither copy is to be trusted."""
    current = Counter(one.broker_id for one in loaded if one.is_compared)
    checked = []
    for one in loaded:
        if one.is_compared and current[one.broker_id] > 1:
            twins = current[one.broker_id]
            reason = f"{one.files.directory} stands in {twins} log directories of broker {one.broker_id}: the broker refuses to start"
            problem = Problem(
                path=one.files.log_dir,
                kind="directory",
                code="replica-in-two-log-dirs",
                detail=reason,
                remedy="find out which directory the broker used last, and leave the other one out",
            )
            one = replace(one, unreadable=reason, problems=(*one.problems, problem))
        checked.append(one)
    return checked
