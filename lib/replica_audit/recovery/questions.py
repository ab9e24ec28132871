"""What of a cluster is a guess, and what has to be given so that it is none: until then nothing is done with these replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.errors import visible
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.commands import table_csv
from replica_audit.recovery.discharge import open_by_facts, unknown_brokers
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, known_cut
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.names import SOME, partition_shown, plain, shown, some
from replica_audit.recovery.steps import AskForInput, Check, PlanFile, PlanStep, Shows, Stage
from replica_audit.rows.codes import Cause
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.rows.starts import OUTCOME_OF, StartBecause, StartOutcome
from replica_audit.words import count

FILE = "wanted.csv"
_MOST = 20


class _Wanted(NamedTuple):
    """What is asked for. `of`: what of one partition, or of several, which are named between that and `how`."""

    how: str
    of: tuple[str, str] | None = None

    def said(self, keys: Sequence[PartitionKey]) -> str:
        """In words, of these partitions."""
        if self.of is None:
            return self.how
        one, several = self.of
        return f"{one} {partition_shown(*keys[0])}{self.how}" if len(keys) == 1 else f"{several} these {len(keys)} partitions{self.how}"


_Asked = tuple[ReplicaKey, _Wanted, str]  # the replica that waits, what for, and why


def questions(facts: RecoveryFacts) -> tuple[AskForInput, ...]:
    """All that is not known and decides something, one for each cause and what is wanted."""
    found: dict[tuple[_Wanted, str], set[ReplicaKey]] = {}
    known: set[ReplicaKey] = set()
    for replica, wanted, why in _all(facts):
        if replica[2] not in facts.gone:
            found.setdefault((wanted, why), set()).add(replica)
            known.add(replica)
    for replica, wanted, why in _of_starts(facts, known):
        found.setdefault((wanted, why), set()).add(replica)
    return tuple(
        AskForInput(
            replicas=tuple(sorted(replicas)),
            wanted=wanted.said(sorted({one[:2] for one in replicas})),
            why=why,
            is_of_files=wanted not in (_METADATA, _NEWER_METADATA, _BY_RECORDS),
        )
        for (wanted, why), replicas in found.items()
    )


def unknown_replicas(facts: RecoveryFacts) -> frozenset[ReplicaKey]:
    """The replicas that wait for an answer: their brokers are not started, nor stopped, before it is there."""
    return frozenset(replica for one in questions(facts) for replica in one.replicas)


def questions_about_brokers(facts: RecoveryFacts, known: Collection[int]) -> Iterator[AskForInput]:
    """Of brokers of which, as a whole, something is not known, besides those that are asked about already."""
    for broker, reasons in unknown_brokers(facts).items():
        if broker not in known:
            wanted = f"the folder of broker {broker}, copied again and given once"
            if StartBecause.MISLED_BY_INDEX in reasons:
                wanted += "; where the broker's own index is the same, that of the input problems done first"
            yield AskForInput(replicas=(), brokers=(broker,), wanted=wanted, why=" and ".join(_OF_BROKER[reason] for reason in reasons))


def _all(facts: RecoveryFacts) -> Iterator[_Asked]:
    for problem in facts.doubted:
        brokers = {role.broker_id for role in facts.roles} if problem.broker_id is None else {problem.broker_id}
        wanted = _Wanted(f"{plain(problem.remedy)} (`{visible(problem.path)}`)")
        for role in facts.roles:
            if role.broker_id in brokers:
                yield (role.topic, role.partition, role.broker_id), wanted, plain(problem.detail)
    for replica in facts.short_copies:
        yield replica, _copy_again(replica), "its copy ends below its own high watermark: the copy is short, or the broker lost records"
    yield from _of_candidates(facts)
    for verdict in facts.verdicts:
        yield from _of_verdict(facts, verdict)
    for topic, partition, broker in sorted(facts.had_a_tail - facts.corrected - facts.cut_once_corrected.keys()):
        if facts.verdict_of.get((topic, partition, broker)) is None:
            wanted = _copy_again((topic, partition, broker))
            yield (topic, partition, broker), wanted, "an earlier run found records in it that its leader does not hold"


def _of_candidates(facts: RecoveryFacts) -> Iterator[_Asked]:
    """Of partitions without a leader the replicas that cannot be judged, where others can."""
    for one in facts.offline:
        for choice in one.candidates or ():
            replica = (one.topic, one.partition, choice.candidate_id)
            if replica in facts.topic_ids:
                rest = f" on broker {replica[2]}, copied again after the step that writes its partition.metadata"
                wanted = _Wanted(rest, of=("the directory of", "the directories of"))
                yield replica, wanted, "without that file its broker sets it aside, so nobody has judged its election"
            elif choice.rank is None and replica not in facts.corrected and any(other.rank for other in one.candidates or ()):
                yield replica, _copy_again(replica), "it could not be read, or is not in the input, and may hold more than the others"


def _of_starts(facts: RecoveryFacts, known: Collection[ReplicaKey]) -> Iterator[_Asked]:
    """Of replicas of which it is not known what their broker's start does, besides those that are asked about already."""
    keys = {replica[:2] for replica in known}
    for one in open_by_facts(facts, corrected=facts.settled | facts.topic_ids.keys(), rebuilt=()):
        reason = one.reasons[0]
        is_leader = reason is StartBecause.NOT_COMPARED and one.replica not in facts.verdict_of  # its followers asked for its directory
        is_asked = one.replica in known or ((is_leader or reason is StartBecause.ELECTION_UNKNOWN) and one.replica[:2] in keys)
        if OUTCOME_OF[reason] is StartOutcome.UNKNOWN and not is_asked:
            yield one.replica, _wanted(facts, one.replica, reason), _OF_START[reason]


_METADATA = _Wanted(
    "`cluster-metadata.json` (command `describe-cluster`), or the directory `__cluster_metadata-0` of a broker or controller"
)
_NEWER_METADATA = _Wanted(f"{_METADATA.how}, made after the last election: what the input has is older")
_BY_RECORDS = _Wanted("", of=("an audit with `--compare records` of", "an audit with `--compare records` of"))
_OF_BROKER = {
    StartBecause.COPIED_TWICE: "the input has two copies of it",
    StartBecause.SAME_DIRECTORY_ID: "a log directory of another broker has the same directory.id",
    StartBecause.MISLED_BY_INDEX: "an index of a segment misleads whoever reads from it",
    StartBecause.NOT_READ: "a file or a folder of it could not be read",
    StartBecause.MISSING: "it is not in the input",
}
_OF_START = _OF_BROKER | {
    StartBecause.NOT_COMPARED: "it could not be compared with its leader",
    StartBecause.NOT_READ: "it could not be read, or not to its end: the input problems say why",
    StartBecause.SHORT_COPY: (
        "no copy reaches the high watermark: they are short, or the brokers' own logs are, and what had been committed beyond them is lost"
    ),
    StartBecause.LEADER_GUESSED: "who leads is only a guess",
    StartBecause.LEADER_DAMAGED: "it leads, and its log is damaged: keep every replica; `explain` says which copy is good",
    StartBecause.MAY_BECOME_STRAY: "it has no partition.metadata: where the broker has none, either, its start sets the log aside (-stray)",
    StartBecause.ELECTION_UNKNOWN: "nobody leads it, and what an election loses is not known",
}


_WANTED_FOR: Mapping[str, _Wanted] = {
    Cause.RECORDS_NOT_COMPARED: _BY_RECORDS,
    Cause.NO_EPOCHS: _Wanted(
        ": its batches are of a format without leader epochs (before 0.11); `kafka-dump-log.sh --print-data-log` shows both logs' records",
        of=("a decision by the records of", "a decision by the records of"),
    ),
    Cause.TEXT_NOT_WHOLE: _Wanted(", dumped again whole, or their segments", of=("the texts of", "the texts of")),
    Cause.UNKNOWN_BROKER: _Wanted("the meta.properties of these log directories: of which broker are they?"),
    Cause.SEGMENTS_NOT_COPIED: _Wanted(
        ", copied again with the .log files; if the broker has none, either, it must not be started: it would begin with an empty log",
        of=("the directory of", "the directories of"),
    ),
}


def _wanted(facts: RecoveryFacts, replica: ReplicaKey, reason: StartBecause) -> _Wanted:
    broker = replica[2]
    verdict = facts.verdict_of.get(replica)
    if reason is StartBecause.MISSING:
        return _Wanted(f"the folder of broker {broker}")
    if reason is StartBecause.LEADER_GUESSED:
        return _metadata(verdict)
    if reason is StartBecause.MAY_BECOME_STRAY:
        rest = f" on broker {broker}, or, where that has none, a copy of another replica of the topic with its own"
        return _Wanted(rest, of=("the file partition.metadata of", "the files partition.metadata of"))
    if reason is StartBecause.NOT_COMPARED and (verdict is None or verdict.keys_may_differ):  # no finding: only keys may differ
        return _BY_RECORDS
    return _copy_again(replica)


def _metadata(verdict: ReplicaVerdict | None) -> _Wanted:
    is_old = verdict is not None and verdict.inferred_because == InferredBecause.METADATA_OUTDATED
    return _NEWER_METADATA if is_old else _METADATA


def _of_verdict(facts: RecoveryFacts, verdict: ReplicaVerdict) -> Iterator[_Asked]:
    replica, leader = (*verdict.key, verdict.follower_id), (*verdict.key, verdict.leader_id)
    if verdict.already_truncated or verdict.key in facts.leaderless or replica in facts.settled:
        return
    if verdict.leader_source == INFERRED and verdict.inferred_because != InferredBecause.NO_LEADER:
        yield replica, _metadata(verdict), "who leads is only a guess"
    elif verdict.verdict == Verdict.INCONCLUSIVE and not known_cut(verdict):
        if verdict.cause == Cause.TOPIC_ID_IN_DOUBT:
            yield replica, _decision(facts, verdict.key), "nobody can tell by the files which topic id is right"
            return
        of = leader if verdict.cause in (Cause.LEADER_UNKNOWN, Cause.LEADER_COPIED_EARLIER) else replica
        wanted = _WANTED_FOR.get(verdict.cause or "")
        wanted = _copy_again(of) if wanted is None else wanted
        yield replica, wanted, f"what it holds beyond its leader is not known ({verdict.cause or 'it could not be compared'})"
    elif verdict.verdict == Verdict.UNREADABLE:
        log, led = facts.log_of(*replica), facts.log_of(*leader)
        if led is not None and led.unreadable_reason is not None:
            why = f"neither it nor its leader {verdict.leader_id} can be read: keep every replica; `explain` says which copy is good"
            yield replica, _copy_again(leader), why
        elif replica in facts.had_a_tail:
            yield replica, _copy_again(replica), "an earlier run found records in it that its leader does not hold"
        elif replica in facts.not_read:
            yield replica, _copy_again(replica), "a file of it could not be read, or not to its end: the input problems say why"
        elif log is None or (log.corrected_checkpoint is None and not log.batch_count and log.recovery_cut_offset is None):
            yield replica, _copy_again(replica), "nothing of it could be read: perhaps only the copy is broken"


def _decision(facts: RecoveryFacts, key: PartitionKey) -> _Wanted:
    """What somebody has to decide about the topic ids of a partition, by which evidence, and what follows."""
    brokers: dict[str, list[ReplicaLog]] = {}
    for role in facts.replicas.get(key, ()):
        log = facts.log_of(*key, role.broker_id)
        if log is not None and log.topic_id is not None:
            brokers.setdefault(log.topic_id, []).append(log)
    said = []
    for topic_id, logs in brokers.items():
        end = max(log.log_end_offset or 0 for log in logs)
        held = f"with records up to offset {end - 1}" if any(log.batch_count for log in logs) else "without records"
        said.append(f"{shown(topic_id)} of {brokers_shown([log.broker_id for log in logs])}, {held}")
    return _Wanted(
        f"a decision which topic id of {partition_shown(*key)} is right ({'; '.join(said)}): was the topic deleted and made again? Its "
        "owners, and the controller's log of that time, can tell; `kafka-topics.sh --describe` shows the id that the cluster has. If it "
        "was, the logs with another id are of the old topic: leave them out of the input, and audit again. If it was not, that id came "
        "about by mistake, and the other logs are all that is left: delete none, start no stopped broker that holds one, and send their "
        "records again from the copies of step 1 (`kafka-dump-log.sh --print-data-log` reads them)"
    )


def _copy_again(replica: ReplicaKey) -> _Wanted:
    how = "copied again; do not stop it for that: where it runs, from a snapshot of its disk, or by `collect`"
    return _Wanted(f" on broker {replica[2]}, {how}", of=("the directory of", "the directories of"))


def asking(asked: Sequence[AskForInput], *, has_more: bool) -> Iterator[PlanStep]:
    """One step that asks for all that is missing; nothing of these partitions is done before. Where it names only some, a file has all.

    `has_more`: the plan has later steps.
    """
    if not asked:
        return
    keys = {replica[:2] for one in asked for replica in one.replicas}
    brokers = sorted({replica[2] for one in asked for replica in one.replicas} | {broker for one in asked for broker in one.brokers})
    is_short = len(asked) > _MOST or any(len(one.replicas) > SOME for one in asked)
    yield PlanStep(
        stage=Stage.ASK,
        title=f"Give what is missing of {count(len(keys), 'partition') if keys else brokers_shown(brokers)}, then plan again",
        actions=tuple(asked),
        reasons=(
            f"Until then this plan does nothing with these replicas, and neither starts nor stops {brokers_shown(brokers)}."
            f"{' Steps below do without it: go on with them if it cannot be had.' if has_more else ''}",
            *(f"{_shown(one)}: {one.why}. Wanted: {one.wanted}." for one in asked[:_MOST]),
            *([f"and {len(asked) - _MOST} more."] if len(asked) > _MOST else []),
            *([f"All of them are in {FILE}."] if is_short else []),
        ),
        commands=("# add it to the input, audit again, and plan again into a new folder",),
        checks=(Check("# the new plan has no such step for these replicas", Shows.ANSWERED),),
        undo="Nothing to undo.",
        files=(PlanFile(name=FILE, content=_csv(asked)),) if is_short else (),
    )


def _shown(one: AskForInput) -> str:
    """The replicas, or the brokers, that a question is about, the first few by name."""
    brokers = {broker for *_key, broker in one.replicas}
    if not brokers:
        return brokers_shown(one.brokers)
    if len(brokers) > 1:
        return some([f"{partition_shown(topic, partition)} on broker {broker}" for topic, partition, broker in one.replicas])
    return f"{some([partition_shown(topic, partition) for topic, partition, _broker in one.replicas])} on {brokers_shown(brokers)}"


def _csv(asked: Sequence[AskForInput]) -> str:
    """A row for each replica, or for each broker that is asked about as a whole."""
    rows: list[tuple[str | int, ...]] = [("broker_id", "topic", "partition", "why", "wanted")]
    for one in asked:
        rows += [(broker, topic, partition, one.why, one.wanted) for topic, partition, broker in one.replicas]
        rows += [(broker, "", "", one.why, one.wanted) for broker in one.brokers]
    return table_csv(rows)
