"""Everything that is said of one follower of one partition: the single source of its text. Built from table rows alone, without Spark."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from replica_audit.protocol.epochs.epoch_table import EpochEntry
from replica_audit.protocol.epochs.lineage import History, Span
from replica_audit.protocol.exchange.alternatives import Alternative
from replica_audit.recovery.steps import Action, PlanRefusal
from replica_audit.report.facts.partition_facts import (
    PartitionFacts,
    Tables,
    below,
    common_folder,
    lies_in,
    partition_facts,
)
from replica_audit.report.facts.question import Question, Subject, find
from replica_audit.rows.codes import Case, EpochRequest, FallsBack, OutOfRange, Protocol, RuleKind
from replica_audit.rows.pairs import BatchMismatch, DifferingOffsets, ExchangeRound, HighWatermarkFallback, ReplicaVerdict, TruncationPoint
from replica_audit.rows.records import Difference
from replica_audit.rows.replicas import EpochStartOffset, ReplicaLog, SegmentEpoch
from replica_audit.rows.runs import AuditRun, ReportedProblem
from replica_audit.rows.starts import ReplicaStart


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """One side's log: its table in effect, and its offsets."""

    epochs: tuple[EpochEntry, ...]
    log_start_offset: int
    log_end_offset: int


def history_of_batches(rows: Iterable[SegmentEpoch], state: LogState) -> list[Span]:
    """The batches' epochs inside the log, neighbours of one epoch joined."""
    spans: list[Span] = []
    reached = state.log_start_offset
    for row in sorted(rows, key=lambda row: (row.first_offset, row.last_offset)):
        first, end = max(row.first_offset, reached), min(row.last_offset + 1, state.log_end_offset)
        if first >= end:
            continue
        spans.append(Span(row.leader_epoch, first, end))
        reached = end
    return joined(spans)


def history_of_entries(entries: Sequence[EpochStartOffset], state: LogState) -> list[Span]:
    """The epochs of a table inside the log, where its batches are not known; what lies below the first one has none."""
    spans: list[Span] = []
    for entry in entries:
        end = state.log_end_offset if entry.end_offset is None else entry.end_offset
        first, end = max(entry.start_offset, state.log_start_offset), min(end, state.log_end_offset)
        if first < end:
            spans.append(Span(entry.leader_epoch, first, end))
    first = spans[0].first_offset if spans else state.log_end_offset
    return [Span(-1, state.log_start_offset, first), *spans] if state.log_start_offset < first else spans


def clipped(history: History, first_offset: int, end_offset: int) -> list[Span]:
    """What of a history lies in [first, end)."""
    cut = ((span.leader_epoch, max(span.first_offset, first_offset), min(span.end_offset, end_offset)) for span in history)
    return [Span(epoch, first, end) for epoch, first, end in cut if first < end]


def joined(history: Iterable[Span]) -> list[Span]:
    """Neighbours of one epoch joined."""
    spans: list[Span] = []
    for span in history:
        if spans and spans[-1].leader_epoch == span.leader_epoch and spans[-1].end_offset == span.first_offset:
            spans[-1] = spans[-1]._replace(end_offset=span.end_offset)
        else:
            spans.append(span)
    return spans


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """One request, its answer and what the follower does; or its fallback to the high watermark.

    `number` counts the leader's answers from 1; None for the fallback, which is none, and happens `because` of something.
    `log_end_offset` is the follower's before the step. `own_epoch` and `own_end_offset` are what its own table says of the answered epoch.
    `truncate_to` is None where nothing is cut; `offset` where the fallback points, or the leader's log starts. `in_memory`: it points to
    the high watermark of a broker that runs.
    """

    case: Case
    log_end_offset: int
    number: int | None = None
    fetches: bool = False
    requested_epoch: int | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    own_epoch: int | None = None
    own_end_offset: int | None = None
    out_of_range: OutOfRange | None = None
    truncate_to: int | None = None
    offset: int | None = None
    dropped_epochs: tuple[int, ...] = ()
    because: FallsBack | None = None
    in_memory: bool = False


def exchange_steps(point: TruncationPoint) -> Iterator[ExplainedStep]:
    """The steps as the run recorded them; none where a version wrote it that did not."""
    fallback = point.fallback
    if fallback is not None and not fallback.after_round:
        yield _falls_back(fallback)
    for number, answer in enumerate(point.rounds or (), 1):
        yield from _step(number, answer)
        if fallback is not None and fallback.after_round == number:
            yield _falls_back(fallback)


def _falls_back(fallback: HighWatermarkFallback) -> ExplainedStep:
    return ExplainedStep(
        case=Case.HIGH_WATERMARK,
        log_end_offset=fallback.log_end_offset,
        truncate_to=fallback.truncate_to,
        offset=fallback.high_watermark,
        because=fallback.because,
        in_memory=fallback.in_memory,
    )


def _step(number: int, answer: ExchangeRound) -> Iterator[ExplainedStep]:
    if answer.decided_by is None or answer.log_end_offset is None:
        return
    yield ExplainedStep(
        case=answer.decided_by,
        log_end_offset=answer.log_end_offset,
        number=number,
        fetches=answer.request is EpochRequest.FETCH,
        requested_epoch=answer.requested_epoch,
        answered_epoch=answer.answered_epoch,
        answered_end_offset=answer.answered_end_offset,
        own_epoch=answer.own_epoch,
        own_end_offset=answer.own_end_offset,
        out_of_range=answer.out_of_range,
        truncate_to=answer.truncate_to,
        offset=answer.restart_offset,
        dropped_epochs=answer.dropped_epochs or (),
    )


_CURRENT = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedReplica:
    """One side.

    `log` is None where the input does not hold the replica. `history` is what its batches tell, or, where these cannot be told apart
    from those of another directory of the same name, its epoch table (`by_table`).
    """

    broker_id: int
    log: ReplicaLog | None = None
    history: tuple[Span, ...] = ()
    by_table: bool = False
    epochs: tuple[EpochStartOffset, ...] = ()

    @property
    def state(self) -> LogState | None:
        """The side of the exchange; None where there is no log."""
        if self.log is None or self.log.log_start_offset is None or self.log.log_end_offset is None:
            return None
        return LogState(
            epochs=tuple(EpochEntry(entry.leader_epoch, entry.start_offset) for entry in self.in_effect),
            log_start_offset=self.log.log_start_offset,
            log_end_offset=self.log.log_end_offset,
        )

    @property
    def in_effect(self) -> list[EpochStartOffset]:
        """The entries of its table; of a replica that cannot be read none is in effect, and the exchange took what its file says."""
        is_unreadable = self.log is not None and self.log.unreadable_reason is not None
        return [entry for entry in self.epochs if entry.in_effect] or [
            entry for entry in self.epochs if is_unreadable and entry.checkpoint_start_offset is not None
        ]

    @property
    def path(self) -> str | None:
        """The replica's directory."""
        return None if self.log is None else posixpath.join(self.log.log_dir, self.log.directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the protocol that applies does to the follower, besides what its truncation point says.

    `physical_offset` is where its files are really cut, None if they are not. `history` is what it holds once records flow again, up to
    what the leader holds now. Of a run of an older version, which did not record the rounds, there are no `steps` and no `history`.
    """

    steps: tuple[ExplainedStep, ...]
    physical_offset: int | None
    history: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One follower of one partition.

    Paths are relative to `folder`, the deepest one that holds all log directories of the partition; empty if there is none.
    `points` are the protocols' truncation points, oldest protocol first; `rejected` those of the rules that were never built,
    empty where nothing is cut and nothing differs. `applied` is the point of the protocol that applies, None where the pair
    could not be compared. `differences` are where both logs differ from `verdict.divergence_offset` on. `cut_short` names the tables that
    were too long to be read whole. `records` are the keys or records that differ, as far as the run kept them.
    """

    run: AuditRun
    warehouse: str
    folder: str
    verdict: ReplicaVerdict
    leader: ExplainedReplica
    follower: ExplainedReplica
    points: tuple[TruncationPoint, ...]
    rejected: tuple[TruncationPoint, ...]
    applied: TruncationPoint | None
    outcome: Outcome | None
    differences: tuple[DifferingOffsets, ...]
    input_errors: tuple[ReportedProblem, ...]
    cut_short: tuple[str, ...]
    records: tuple[Difference, ...] = ()

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        return f"{self.verdict.topic}-{self.verdict.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDo:
    """What the plan of the run does about a partition: the numbers of its steps, each with its actions; and what it refuses to do.

    `no_plan`: why there is none; empty where there is one.
    """

    steps: tuple[tuple[int, tuple[Action, ...]], ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()
    no_plan: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The answer to a question: one follower after the other, then the partition as a whole.

    `starts`: what happens to its replicas when their brokers start, by broker, of those for which that is not plainly safe. `to_do` is
    None where nobody asked for a plan.
    """

    followers: tuple[Explanation, ...]
    partition: PartitionFacts
    starts: tuple[ReplicaStart, ...] = ()
    to_do: ToDo | None = None


def explain(tables: Tables, question: Question) -> Explained:
    """Explain what was asked for.

    Raises:
        UsageError: there is no such run, partition or follower, or a table cannot be read.
    """
    subject = find(tables, question)
    run, topic, partition = subject.run, subject.topic, subject.partition
    keys: dict[str, str | int] = {"run_id": run.run_id, "cluster_id": run.cluster_id, "topic": topic, "partition": partition}
    found = tables.rows("replica_logs", ReplicaLog, **keys)
    folder = common_folder(found)
    followers = tuple(_followers(tables, subject, keys, found, folder))
    facts = partition_facts(tables, run, topic, partition, alone=subject.alone, folder=folder)
    return Explained(
        followers=followers,
        partition=facts,
        starts=tuple(sorted(tables.rows("replica_starts", ReplicaStart, **keys), key=lambda one: one.broker_id)),
    )


def _followers(
    tables: Tables, subject: Subject, keys: dict[str, str | int], found: Sequence[ReplicaLog], folder: str
) -> Iterator[Explanation]:
    if not subject.verdicts:
        return
    logs = [
        replace(log, log_dir=below(folder, log.log_dir), unreadable_reason=log.unreadable_reason and below(folder, log.unreadable_reason))
        for log in found
    ]
    batches = [replace(row, log_dir=below(folder, row.log_dir)) for row in tables.rows("segment_epochs", SegmentEpoch, **keys)]
    epochs = tables.rows("epoch_start_offsets", EpochStartOffset, **keys)
    points = tables.rows("truncation_points", TruncationPoint, **keys)
    for judged in subject.verdicts:
        verdict = _below(folder, judged)
        leader, follower = (_replica(broker, logs, batches, epochs) for broker in (verdict.leader_id, verdict.follower_id))
        of_pair = sorted((point for point in points if point.follower_id == verdict.follower_id), key=_generation)
        applied = next((point for point in of_pair if point.applies), None)
        yield Explanation(
            run=subject.run,
            warehouse=tables.location,
            folder=folder,
            verdict=verdict,
            leader=leader,
            follower=follower,
            points=tuple(point for point in of_pair if point.kind is not RuleKind.REJECTED),
            rejected=tuple(point for point in of_pair if point.kind is RuleKind.REJECTED),
            applied=applied,
            outcome=_outcome(applied, leader, follower),
            differences=verdict.differences or (),
            input_errors=_input_errors(tables, subject.run, (leader, follower), verdict, folder),
            cut_short=tuple(dict.fromkeys(tables.cut_short)),
            records=_records(tables, keys, verdict),
        )


def _records(tables: Tables, keys: dict[str, str | int], verdict: ReplicaVerdict) -> tuple[Difference, ...]:
    """The keys that differ, in the order of their causes and offsets, or the first records that do, by offset."""
    causes = [one.cause for one in verdict.differing_keys or ()]
    if not causes and not verdict.differing_records:
        return ()
    found = tables.rows("differences", Difference, **keys, follower_id=verdict.follower_id)
    return tuple(sorted(found, key=lambda one: (causes.index(one.cause) if one.cause else -1, _newest(one), one.key_hash or "")))


def _newest(one: Difference) -> int:
    """The newest offset at which either side holds something."""
    held = [side.offset for side in (one.leader, one.follower) if side is not None]
    return max((offset for offset in (one.offset, *held) if offset is not None), default=-1)


def _below(folder: str, verdict: ReplicaVerdict) -> ReplicaVerdict:
    """The verdict with its paths shortened."""
    facts = verdict.rests_on and tuple(replace(one, path=below(folder, one.path), text=below(folder, one.text)) for one in verdict.rests_on)
    evidence = verdict.evidence and below(folder, verdict.evidence)
    mismatch = verdict.mismatch and _mismatch_below(folder, verdict.mismatch)
    return replace(verdict, reason=below(folder, verdict.reason), evidence=evidence, rests_on=facts, mismatch=mismatch)


def _mismatch_below(folder: str, found: BatchMismatch) -> BatchMismatch:
    sides = (side and replace(side, path=below(folder, side.path)) for side in (found.leader, found.follower))
    leader, follower = sides
    return replace(found, leader=leader, follower=follower, unread=found.unread and below(folder, found.unread))


def _generation(point: TruncationPoint) -> tuple[int, str]:
    known: tuple[str, ...] = (*Protocol, *Alternative)
    return (known.index(point.protocol) if point.protocol in known else len(known), point.protocol)


def _replica(
    broker_id: int, logs: Sequence[ReplicaLog], batches: Sequence[SegmentEpoch], epochs: Sequence[EpochStartOffset]
) -> ExplainedReplica:
    own = [log for log in logs if log.broker_id == broker_id]
    log = next((log for log in own if log.state == _CURRENT), None)
    if log is None:
        return ExplainedReplica(broker_id=broker_id)
    rows = [row for row in batches if row.broker_id == broker_id and row.log_dir == log.log_dir]
    entries = tuple(sorted((entry for entry in epochs if entry.broker_id == broker_id), key=lambda entry: entry.leader_epoch))
    made = ExplainedReplica(broker_id=broker_id, log=log, epochs=entries)
    state = made.state
    if state is None:
        return made
    # rows of segment_epochs do not name the directory: one set aside beside the current one would be drawn into it
    ambiguous = sum(one.log_dir == log.log_dir for one in own) > 1
    by_table = ambiguous or (not rows and state.log_start_offset < state.log_end_offset)
    history = history_of_entries(made.in_effect, state) if by_table else history_of_batches(rows, state)
    return replace(made, history=tuple(history), by_table=by_table)


def _outcome(applied: TruncationPoint | None, leader: ExplainedReplica, follower: ExplainedReplica) -> Outcome | None:
    if applied is None or leader.state is None or follower.state is None:
        return None
    end = follower.state.log_end_offset
    physical = applied.physical_offset
    if not applied.is_recorded and (applied.truncation_offset is not None or applied.restart_offset is not None):
        physical = end - (applied.removed_offsets or 0)  # which a run of an older version counts from there
    history: list[Span] = []
    if applied.fetch_offset is not None:
        history = clipped(follower.history, 0, end if physical is None else physical)
        if not applied.fetcher_fails and not applied.stuck:
            history += clipped(leader.history, applied.fetch_offset, leader.state.log_end_offset)
    return Outcome(steps=tuple(exchange_steps(applied)), physical_offset=physical, history=tuple(joined(history)))


def _input_errors(
    tables: Tables, run: AuditRun, sides: Sequence[ExplainedReplica], verdict: ReplicaVerdict, folder: str
) -> tuple[ReportedProblem, ...]:
    """The problems of these replicas' files, of what their log directories share, and of files that belong to no broker."""
    found: list[ReportedProblem] = []
    for side in sides:
        if side.log is None or side.path is None:
            continue
        for error in _errors(tables, run, side.broker_id, folder):
            is_shared = posixpath.dirname(error.path) == side.log.log_dir
            if is_shared or lies_in(side.path, error.path) or any(lies_in(error.path, fact.path) for fact in verdict.rests_on or ()):
                found.append(error)
    found += _errors(tables, run, None, folder)
    return tuple(sorted(found, key=lambda error: (error.path, error.line or 0, error.byte_offset or 0)))


def _errors(tables: Tables, run: AuditRun, broker_id: int | None, folder: str) -> Iterator[ReportedProblem]:
    for error in tables.rows("input_errors", ReportedProblem, run_id=run.run_id, cluster_id=run.cluster_id, broker_id=broker_id):
        yield replace(error, path=below(folder, error.path), detail=below(folder, error.detail))
