"""The tables of a run against live leaders: OffsetForLeaderEpoch for every epoch, and each difference with its cause.

Asked as a debugging consumer (replica id -2), who sees what followers see and needs no more than DESCRIBE on the topics (KIP-320,
KafkaApis.handleOffsetForLeaderEpochRequest). Each broker gets one request at a time, of at most PARTITIONS_AT_ONCE partitions, one epoch
of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest, OffsetSpec
from kafka.protocol.metadata import MetadataRequest

from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.protocol.cluster.epoch_answers import AnswerCause, AnswerDifference, LeaderNow, LeaderThen, expected, judge
from replica_audit.protocol.epochs.epoch_table import EpochEntry, table
from replica_audit.rows import EPOCH_END_OFFSETS, EPOCH_START_OFFSETS, REPLICA_LOGS, REPLICA_ROLES, REPLICA_VERDICTS, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.storage.cluster.connection import Brokers, Missing, Unanswered, error_name
from replica_audit.storage.cluster.description import TOPIC, configs_request, kafka_uuid
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.words import count


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionThen:
    """A partition as the run recorded it. `epochs` are those of the leader's table and those its followers would request, ascending."""

    topic: str
    partition: int
    topic_id: str | None
    leader: LeaderThen
    epochs: tuple[int, ...]


@dataclass(slots=True)
class RunThen:
    """A cluster as the run recorded it. `unknown` names partitions without a leader's table."""

    partitions: list[PartitionThen] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def read(tables: WarehouseTables, run_id: str, cluster_id: str) -> RunThen:
    """Every partition of a cluster in a run.

    Raises:
        UsageError: a table cannot be read.
    """

    def rows(of: Table, *names: str) -> Iterator[tuple[Any, ...]]:
        schema = pa.schema([schema_of(of).field(name) for name in names])
        found = tables.columns(of.name, schema, run_id=run_id, cluster_id=cluster_id)
        return zip(*(column.to_pylist() for column in found.columns), strict=True)

    roles = rows(REPLICA_ROLES, "topic", "partition", "leader_id")
    leaders = {(topic, partition): leader for topic, partition, leader in roles if topic != METADATA_TOPIC}
    # an inferred leader leads by nothing but the comparisons that were made with it
    inferred = {(topic, partition): leader for topic, partition, leader in rows(REPLICA_VERDICTS, "topic", "partition", "leader_id")}
    leaders |= {key: leader for key, leader in inferred.items() if leaders.get(key, -1) < 0}
    logs = {
        (topic, partition, broker): (end, topic_id)
        for topic, partition, broker, state, end, topic_id in rows(
            REPLICA_LOGS, "topic", "partition", "broker_id", "state", "log_end_offset", "topic_id"
        )
        if state == "current"
    }
    entries: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, broker, epoch, start, in_effect in rows(
        EPOCH_START_OFFSETS, "topic", "partition", "broker_id", "leader_epoch", "start_offset", "in_effect"
    ):
        if in_effect is not False and leaders.get((topic, partition)) == broker:  # null: of an older version of the tables
            entries[topic, partition, broker].append((epoch, start))
    asked: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for topic, partition, leader, epoch in rows(EPOCH_END_OFFSETS, "topic", "partition", "leader_id", "requested_epoch"):
        asked[topic, partition, leader].add(epoch)
    made = RunThen()
    for (topic, partition), leader_id in sorted(leaders.items()):
        key = (topic, partition, leader_id)
        end, topic_id = logs.get(key, (None, None))
        if end is None:
            made.unknown.append(f"{topic}-{partition}")
            continue
        then = LeaderThen(leader_id=leader_id, entries=table(sorted(entries[key])), log_end_offset=end)
        epochs = sorted({entry.epoch for entry in then.entries} | {epoch for epoch in asked[key] if epoch >= 0})
        made.partitions.append(PartitionThen(topic=topic, partition=partition, topic_id=topic_id, leader=then, epochs=tuple(epochs)))
    return made


PARTITIONS_AT_ONCE = 1000
_TOPICS_AT_ONCE = 500
_DEBUGGING_CONSUMER = -2
_NOT_LEADER, _UNKNOWN_TOPIC = 6, 3
_GONE = "the cluster does not have it any more"


@dataclass(slots=True)
class Verification:
    """The outcome. `asked` counts answers; `explained` are differences that time alone makes, `differences` all others."""

    partitions: int = 0
    asked: int = 0
    differences: list[AnswerDifference] = field(default_factory=list)
    explained: list[AnswerDifference] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1: differences; 3: none, but not every question was answered; else 0."""
        return 1 if self.differences else 3 if self.missing else 0


@dataclass(slots=True, kw_only=True)
class Asked:
    """A partition under verification. `answers` by requested epoch."""

    then: PartitionThen
    leader: int
    leader_epoch: int
    waiting: list[int]
    answers: dict[int, EpochEntry] = field(default_factory=dict)
    answered_by: int = -1
    log_start_offset: int | None = None
    moved: bool = False

    @property
    def name(self) -> str:
        """As Kafka writes it."""
        return f"{self.then.topic}-{self.then.partition}"


def verify(brokers: Brokers, run: RunThen) -> Verification:
    """Ask the current leaders for every epoch of the run's partitions."""
    made = Verification(partitions=len(run.partitions))
    if run.unknown:
        made.missing.append(Missing(what=_some(run.unknown), why="the run has no log of the leader"))
    brokers.api_versions()  # tells who is there
    live = _located(brokers, run.partitions, made)
    _ask_epochs(brokers, live, made)
    moved = [one for one in live if one.moved]  # between two questions; once more is enough for all but a cluster in turmoil
    if moved:
        again = _located(brokers, [one.then for one in moved], made)
        live = [one for one in live if not one.moved] + again
        _ask_epochs(brokers, again, made)
        _tell(made, ((one.name, "its leader keeps changing") for one in again if one.moved))
    _ask_log_starts(brokers, [one for one in live if _differs(one)])
    compacted = _compacted(brokers, {one.then.topic for one in live if _differs(one)})
    _tell(made, [undecided for one in live for undecided in _judge(one, made, is_compacted=compacted.get(one.then.topic))])
    return made


def _located(brokers: Brokers, partitions: Sequence[PartitionThen], made: Verification) -> list[Asked]:
    """Return the partitions with their current leaders; report those that are gone, recreated or without a leader."""
    names = sorted({one.topic for one in partitions})
    topics: dict[str, Any] = {}
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names[start : start + _TOPICS_AT_ONCE]]
        try:
            answer = brokers.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        except Unanswered as none:
            made.missing.append(Missing(what=f"leaders of {count(len(asked), 'topic')}", why=none.reason))
            continue
        topics |= {topic.name: topic for topic in answer.topics}
    found, refused = [], []
    for then in partitions:
        topic = topics.get(then.topic)
        if topic is None:
            continue
        if topic.error_code not in (0, _UNKNOWN_TOPIC):
            refused.append((f"{then.topic}-{then.partition}", error_name(topic.error_code)))
        elif (live := _live(then, topic, made)) is not None:
            found.append(live)
    _tell(made, refused)
    leaderless = [one for one in found if one.leader < 0]
    _tell(made, ((one.name, "it has no leader") for one in leaderless))
    return [one for one in found if one.leader >= 0]


def _live(then: PartitionThen, topic: Any, made: Verification) -> Asked | None:
    """Return the partition as it is now; None, and a difference, if it no longer exists."""
    topic_id = getattr(topic, "topic_id", None)
    known = kafka_uuid(topic_id) if isinstance(topic_id, UUID) and topic_id.int else None
    one = next((one for one in topic.partitions if one.partition_index == then.partition), None)
    why = _GONE if one is None else ""
    if known and then.topic_id and known != then.topic_id:
        why = f"the topic was deleted and created again: its id is {known}, not {then.topic_id}"
    if why or one is None:
        different = AnswerDifference(
            topic=then.topic, partition=then.partition, cause=AnswerCause.DIFFERS, why=why, leader_then=then.leader.leader_id
        )
        made.differences.append(different)
        return None
    return Asked(then=then, leader=one.leader_id, leader_epoch=getattr(one, "leader_epoch", -1), waiting=list(then.epochs))


def _ask_epochs(brokers: Brokers, live: Sequence[Asked], made: Verification) -> None:
    """Ask until every epoch is answered or will not be: in each round one epoch of some partitions of every leader."""
    failed: list[tuple[str, str]] = []
    while rounds := _by_leader(one for one in live if one.waiting):
        answers = brokers.ask_each({leader: _epochs_request(chunk) for leader, chunk in rounds.items()})
        for leader, chunk in rounds.items():
            if isinstance(answers[leader], Unanswered):
                failed += [(one.name, f"broker {leader}, its leader: {answers[leader].reason}") for one in chunk]
                for one in chunk:
                    one.waiting.clear()
                continue
            by_key = {(topic.topic, part.partition): part for topic in answers[leader].topics for part in topic.partitions}
            for one in chunk:
                failed += taken(one, leader, by_key.get((one.then.topic, one.then.partition)))
    made.asked += sum(len(one.answers) for one in live if not one.moved)
    _tell(made, failed)


def taken(one: Asked, leader: int, part: Any) -> Iterator[tuple[str, str]]:
    """Take the answer to the first epoch that waits; what is wrong with it, if anything is."""
    epoch = one.waiting.pop(0)
    if part is not None and not part.error_code:
        answer = EpochEntry(getattr(part, "leader_epoch", -1), part.end_offset)
        if answer.epoch >= 0 or answer.start_offset < 0:
            one.answers[epoch] = answer
            one.answered_by = leader
            return
        why = "brokers before 2.0 do not say which epoch their answer is about"
    elif part is not None:
        why = error_name(part.error_code)
    else:
        why = f"broker {leader} left it out of its answer"
    one.waiting.clear()
    if part is not None and part.error_code == _NOT_LEADER:
        one.moved = True
    else:
        yield one.name, why


def _ask_log_starts(brokers: Brokers, live: Sequence[Asked]) -> None:
    """Ask for the current log start offsets."""
    waiting = list(live)
    while waiting:
        chunks = _by_leader(waiting)
        answers = brokers.ask_each({leader: _starts_request(chunk) for leader, chunk in chunks.items()})
        for leader, chunk in chunks.items():
            done = {id(one) for one in chunk}
            waiting = [one for one in waiting if id(one) not in done]
            if isinstance(answers[leader], Unanswered):
                continue
            parts = ((topic.name, part) for topic in answers[leader].topics for part in topic.partitions if not part.error_code)
            starts = {(name, part.partition_index): getattr(part, "offset", -1) for name, part in parts}
            for one in chunk:
                start = starts.get((one.then.topic, one.then.partition), -1)
                one.log_start_offset = start if start >= 0 else None


def _compacted(brokers: Brokers, topics: Iterable[str]) -> dict[str, bool]:
    """Return which topics are compacted, for those that were answered."""
    names = sorted(topics)
    found: dict[str, bool] = {}
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        try:
            answer = brokers.ask_any(configs_request(TOPIC, names[start : start + _TOPICS_AT_ONCE], ["cleanup.policy"]))
        except Unanswered:
            continue
        found |= {one.resource_name: "compact" in (config.value or "") for one in answer.results for config in one.configs}
    return found


def _judge(one: Asked, made: Verification, *, is_compacted: bool | None) -> Iterator[tuple[str, str]]:
    """Note the differences of a partition; those that cannot be judged, and why."""
    then = one.then
    for epoch, answer in sorted(one.answers.items()):
        now = LeaderNow(
            leader_id=one.answered_by, leader_epoch=one.leader_epoch, log_start_offset=one.log_start_offset, compacted=is_compacted
        )
        cause, why = judge(then.leader, now, epoch, answer)
        if cause is AnswerCause.SAME:
            continue
        if cause is AnswerCause.UNDECIDED:
            yield f"{one.name} epoch {epoch}", why
            continue
        before = expected(then.leader, epoch)
        different = AnswerDifference(
            topic=then.topic,
            partition=then.partition,
            cause=cause,
            why=why,
            leader_then=then.leader.leader_id,
            leader_now=one.answered_by,
            requested_epoch=epoch,
            table_epoch=before.epoch,
            table_end_offset=before.start_offset,
            answered_epoch=answer.epoch,
            answered_end_offset=answer.start_offset,
        )
        (made.differences if cause is AnswerCause.DIFFERS else made.explained).append(different)


def _differs(one: Asked) -> bool:
    return any(answer != expected(one.then.leader, epoch) for epoch, answer in one.answers.items())


def _by_leader(live: Iterable[Asked]) -> dict[int, list[Asked]]:
    found: dict[int, list[Asked]] = defaultdict(list)
    for one in live:
        if len(found[one.leader]) < PARTITIONS_AT_ONCE:
            found[one.leader].append(one)
    return dict(found)


def _epochs_request(chunk: Sequence[Asked]) -> Any:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition = topic.OffsetForLeaderPartition
    parts: dict[str, list[Any]] = defaultdict(list)
    for one in chunk:
        parts[one.then.topic].append(partition(partition=one.then.partition, current_leader_epoch=-1, leader_epoch=one.waiting[0]))
    topics = [topic(topic=name, partitions=of_topic) for name, of_topic in parts.items()]
    return OffsetForLeaderEpochRequest(replica_id=_DEBUGGING_CONSUMER, topics=topics)


def _starts_request(chunk: Sequence[Asked]) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition
    parts: dict[str, list[Any]] = defaultdict(list)
    for one in chunk:
        parts[one.then.topic].append(partition(partition_index=one.then.partition, timestamp=int(OffsetSpec.EARLIEST)))
    topics = [topic(name=name, partitions=of_topic) for name, of_topic in parts.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, min_version=1)


def _tell(made: Verification, failed: Iterable[tuple[str, str]]) -> None:
    """Report each reason in one line, however many partitions it concerns."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, why in failed:
        by_reason[why].append(name)
    made.missing += [Missing(what=_some(names), why=why) for why, names in by_reason.items()]


def _some(names: Sequence[str]) -> str:
    more = f" and {count(len(names) - 5, 'more partition')}" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
