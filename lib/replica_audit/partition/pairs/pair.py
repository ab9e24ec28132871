"""One leader and one follower → what each protocol truncates, and the verdict, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT, HIGH_WATERMARKS
from replica_audit.frozen import made_quickly, once
from replica_audit.model import UNDEFINED_EPOCH, Election
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.pairs import content, second_read
from replica_audit.partition.pairs.decided_columns import differing_offsets, key_counts, mismatch_column, record_counts, record_differences
from replica_audit.partition.pairs.second_read import lost_by_transaction
from replica_audit.partition.pairs.sides import Side, committed_spans, removed_committed
from replica_audit.protocol.cluster.leadership import INFERRED, Leadership
from replica_audit.protocol.comparison.commitment import Context, Evidence, by_evidence
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.comparison.copied_earlier import Since, has_truncated
from replica_audit.protocol.comparison.observed import LogEvent, ObservedTruncation, agrees, observe
from replica_audit.protocol.comparison.pair import (
    Comparison,
    Effect,
    catches_up,
    conflicts,
    difference,
    differences,
    ends_with_election,
    learnt_epochs,
    removal_start,
    restarts_once_failed,
    still_diverged,
)
from replica_audit.protocol.epochs.epoch_table import EpochEntry, EpochTable, end_offset_for, kip101_end_offset_for
from replica_audit.protocol.epochs.lineage import Span, covered
from replica_audit.protocol.exchange.alternatives import traffic
from replica_audit.protocol.exchange.cuts import Removal, measure_loss
from replica_audit.protocol.exchange.replay import RULES, Step, Truncation, is_round
from replica_audit.protocol.exchange.replica import Replica, ReplicaState
from replica_audit.protocol.verdict.verdict import Judgement, Verdict, judge
from replica_audit.rows.codes import Protocol, RuleKind, Severity
from replica_audit.rows.pairs import (
    AddedTableEntry,
    ContradictingLine,
    EpochEndOffset,
    EvidenceFact,
    ExchangeRound,
    RecordsByTransaction,
    ReplicaVerdict,
    TruncationPoint,
)


def in_log_order(events: Iterable[LogEvent]) -> Sequence[LogEvent]:
    """Events in the order of their times; of equal ones in that of the file, or the other way round where it has the newest line first.

    A line without a date stands where its file has it. Times of different files are compared by UTC where every line tells it, else as
    the logs have them.
    """
    by_file: dict[str, list[LogEvent]] = {}
    for event in sorted(events, key=lambda event: (event.path, event.line, event.byte_offset)):
        by_file.setdefault(event.path, []).append(event)
    is_utc = all(event.time_ms is not None for found in by_file.values() for event in found)
    placed: list[tuple[str | int, str, int, LogEvent]] = []
    for path, found in by_file.items():
        oriented = found[::-1] if found[0].newest_first else found
        dated = [event.time for event in oriented if event.time]
        told = dated[0] if dated else ""
        for place, event in enumerate(oriented):
            told = event.time or told
            placed.append((event.time_ms if is_utc and event.time_ms is not None else told, path, place, event))
    began = {path: min(time for time, of, _, _ in placed if of == path) for path in by_file}
    return [event for *_, event in sorted(placed, key=lambda one: (one[0], began[one[1]], one[1], one[2]))]


def did_otherwise(seen: ObservedTruncation, comparison: Comparison, *, leader_epoch: int, after_copy: bool) -> ContradictingLine | None:
    """What the broker did that the rule does not say, with file and line; None if nothing contradicts the rule."""
    return agrees(
        seen,
        comparison.effect.truncation,
        comparison.follower.log.log_end_offset,
        leader_id=comparison.leader.broker_id,
        leader_epoch=leader_epoch if leader_epoch >= 0 else None,
        after_copy=after_copy,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceColumns:
    """The columns of the same names."""

    rests_on: tuple[EvidenceFact, ...] | None = None
    evidence: str | None = None


def evidence_columns(leader: Side, follower: Side, leadership: Leadership, comparison: Comparison, judgement: Judgement) -> EvidenceColumns:
    """The columns `rests_on`, fact by fact, and `evidence`, all of it as one text; null where nothing had to be shown."""
    if judgement.verdict in (Verdict.IDENTICAL, Verdict.LAGGING, Verdict.CONSISTENT):
        return EvidenceColumns()
    at = next((v for v in (comparison.divergence_offset, comparison.cut) if v is not None), comparison.follower.log.log_end_offset)
    leads = "compared with" if leadership.source == INFERRED else "leader"  # who is inferred may not lead
    facts = [_at(role, side, at) for role, side in ((leads, leader), ("follower", follower))]
    facts += _of_checkpoints(leader, follower, judgement)
    return EvidenceColumns(rests_on=tuple(facts), evidence="; ".join(fact.text for fact in facts))


def _of_checkpoints(leader: Side, follower: Side, judgement: Judgement) -> Iterator[EvidenceFact]:
    files = follower.loaded.files
    if files.high_watermark is not None:
        path = files.beside(HIGH_WATERMARKS)
        yield _fact(path, follower, f"{path}: {files.high_watermark}", files.high_watermark)
    if judgement.verdict in (Verdict.EPOCH_TABLE_ONLY, Verdict.CANNOT_REJOIN):
        for side in (leader, follower):
            path = side.loaded.files.inside(EPOCH_CHECKPOINT)
            yield _fact(path, side, path)


def _at(role: str, side: Side, offset: int) -> EvidenceFact:
    """What a replica's file has at an offset."""
    path = str(side.loaded.file_at(offset))
    held = next((span for span in side.replica.history if span.first_offset <= offset < span.end_offset), None)
    if held is None:
        text = f"{role} {side.replica.broker_id}: {path} ends at {side.replica.log.log_end_offset}, nothing at {offset}"
        return _fact(path, side, text, offset)
    name = f"epoch {held.leader_epoch}" if held.leader_epoch >= 0 else "no epoch"
    return _fact(path, side, f"{role} {side.replica.broker_id}: {path} has {name} at {offset}", offset, held.leader_epoch)


def _fact(path: str, side: Side, text: str, offset: int | None = None, leader_epoch: int | None = None) -> EvidenceFact:
    return EvidenceFact(path=path, broker_id=side.replica.broker_id, offset=offset, leader_epoch=leader_epoch, text=text)


@once
def rounds(truncation: Truncation) -> tuple[ExchangeRound, ...]:
    """Return the leader's answers of an exchange, in order."""
    return tuple(_round(step) for step in truncation.steps if is_round(step, truncation.protocol))


def learnt_epochs_column(leader: ReplicaState, effect: Effect) -> tuple[AddedTableEntry, ...]:
    """The entries that the follower's table gets with what it fetches."""
    found = learnt_epochs(leader, effect)
    return tuple(AddedTableEntry(epoch=entry.epoch, start_offset=entry.start_offset) for entry in found)


def _round(step: Step) -> ExchangeRound:
    def known(epoch: int | None) -> int | None:
        return None if epoch is None or epoch < 0 else epoch

    own = step.own_lookup
    return ExchangeRound(
        requested_epoch=known(step.requested_epoch),
        answered_epoch=known(step.answered_epoch),
        answered_end_offset=step.answered_end_offset,
        truncate_to=step.truncate_to,
        complete=step.complete,
        request=step.request,
        decided_by=step.case,
        log_end_offset=step.log_end_offset,
        own_epoch=None if own is None else own.epoch,
        own_end_offset=None if own is None else own.start_offset,
        out_of_range=step.out_of_range,
        restart_offset=step.restart_offset,
        dropped_epochs=tuple(step.dropped_epochs),
    )


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A leader and a follower that both have a log."""

    leader: Side
    follower: Side
    leadership: Leadership
    context: Context
    applies: Protocol
    witnesses: Sequence[Replica]
    inferred_because: str | None = None

    @property
    def keys(self) -> PairKeys:
        """The columns that every row of the pair begins with."""
        files = self.follower.loaded.files
        return PairKeys(files.topic, files.partition, self.leadership.leader_id, self.follower.replica.broker_id)


class PairKeys(NamedTuple):
    """The key columns of a pair's rows."""

    topic: str
    partition: int
    leader_id: int
    follower_id: int


def lookup_rows(keys: PairKeys, leader: ReplicaState, follower: ReplicaState) -> Iterator[EpochEndOffset]:
    """Rows of `epoch_end_offsets`: the leader's answer for every epoch in the follower's table."""
    for epoch, answer, kip101 in _answers(leader.epochs, leader.log_end_offset, follower.epochs):
        yield EpochEndOffset(
            topic=keys.topic,
            partition=keys.partition,
            leader_id=keys.leader_id,
            follower_id=keys.follower_id,
            requested_epoch=epoch,
            answered_epoch=answer.epoch,
            end_offset=answer.start_offset,
            kip101_end_offset=kip101,
        )


@once
def _answers(leader: EpochTable, log_end_offset: int, follower: EpochTable) -> list[tuple[int, EpochEntry, int]]:
    """Each epoch of the follower, what a leader answers to it now, and what one of 0.11 to 1.1 answered."""
    return [
        (epoch, end_offset_for(leader, epoch, log_end_offset), kip101_end_offset_for(leader, epoch, log_end_offset))
        for epoch, _start in follower
    ]


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A pair with what the batches tell: the comparison under the protocol that applies, and what it and each other protocol remove.

    `observed` is what the follower's broker logged, and `since` when it must have logged a cut of these files; None without a log.
    `unread` is why the batches could not be read a second time, None if they could: what goes is then known by its offsets only.
    """

    comparison: Comparison
    removal: Removal | None
    effects: tuple[Effect, ...]
    observed: ObservedTruncation | None = None
    since: Since | None = None
    unread: UnreadBatchesError | None = None


def measure(pair: Pair, protocols: Sequence[Protocol] = tuple(RULES)) -> Measured:
    """Run the rules over a pair.

    Batches are read a second time only where the protocol that applies cuts, or where the logs differ or have nothing in common:
    from the follower's batch that holds the cut, and from the leader's that holds the fetch offset.

    Args:
        pair: to measure.
        protocols: of which the effects are wanted; that of the protocol that applies is always made.
    """
    try:
        return _measured(pair, protocols, read_batches=True)
    except UnreadBatchesError as unread:  # on a broker that runs, what was scanned may be gone by now
        return replace(_measured(pair, protocols, read_batches=False), unread=unread)


def _measured(pair: Pair, protocols: Sequence[Protocol], *, read_batches: bool) -> Measured:
    leader, follower = pair.leader.replica, pair.follower.replica
    sides = leader.as_leader(), follower.as_follower()
    truncations = [rule(*sides) for protocol, rule in RULES.items() if protocol is pair.applies or protocol in protocols]
    end = min(leader.log.log_end_offset, follower.log.log_end_offset)
    overlaps = end > max(leader.log.log_start_offset, follower.log.log_start_offset)
    cuts = any(one.protocol is pair.applies and one.truncation_offset is not None for one in truncations)
    looks_closer = read_batches and (cuts or not overlaps or difference(leader, follower, pair.context, end) is not None)
    effects, removal = [], None
    for truncation in truncations:
        effect, measured = second_read.effect(pair.leader, pair.follower, truncation, reads=looks_closer)
        effects.append(effect)
        if truncation.protocol is pair.applies:
            removal = measured
    applied = next(effect for effect in effects if effect.truncation.protocol is pair.applies)
    comparison = Comparison(leader=leader, follower=follower, context=pair.context, effect=applied, witnesses=pair.witnesses)
    return Measured(comparison=comparison, removal=removal, effects=tuple(effects))


def with_content(pair: Pair, measured: Measured, mode: CompareMode) -> Measured:
    """The pair with its batches compared, where nothing else can still tell the logs apart, and the mode looks at more than epochs.

    Compared is what the follower keeps, and what it loses and the leader holds by its epochs: that is fetched again, if it is the same.
    """
    comparison = measured.comparison
    if mode is CompareMode.EPOCHS:
        return measured
    sides = pair.leader.loaded, pair.follower.loaded
    if comparison.content_decides:
        found = content.compare(comparison, *sides, every_record=mode is CompareMode.RECORDS)
        comparison = replace(comparison, content=found)
    if measured.unread is None and comparison.held_by_epochs:
        comparison = replace(comparison, found_again=content.found_again(comparison, *sides))
    return measured if comparison is measured.comparison else replace(measured, comparison=comparison)


def with_events(
    pair: Pair, measured: Measured, events: Sequence[LogEvent], *, after_copy: bool, elections: Sequence[Election], until_ms: int
) -> Measured:
    """The pair with what the follower's broker logged.

    Args:
        pair: as it was measured.
        measured: without events.
        events: of the follower's broker, in the order of its log.
        after_copy: as in `observed.agrees`.
        elections: of the partition, by the metadata log.
        until_ms: when the audit began.
    """
    if not events:
        return measured
    truncation, follower = measured.comparison.effect.truncation, measured.comparison.follower
    physical = measured.comparison.effect.physical_offset
    begins = truncation.truncation_offset if physical is None else physical
    since = Since.of(follower, follower.log.log_start_offset if begins is None else begins, elections, until_ms)
    seen = observe(events)
    said = did_otherwise(seen, measured.comparison, leader_epoch=pair.context.leader_epoch, after_copy=after_copy)
    return replace(measured, observed=seen, since=since, comparison=replace(measured.comparison, did_otherwise=said))


def compare(pair: Pair, measured: Measured) -> tuple[list[TruncationPoint], ReplicaVerdict]:
    """The pair's four rows of `truncation_points` and its row of `replica_verdicts`."""
    rows = [_truncation_row(pair, effect) for effect in measured.effects]
    return rows, _verdict_row(pair, measured, judge(measured.comparison))


def uncut_rows(keys: PairKeys, source: str, applies: Protocol, leader: ReplicaState, follower: ReplicaState) -> Iterator[TruncationPoint]:
    """The same rows of a follower whose log is its leader's, or the beginning of it: no rule cuts anything.

    Args:
        keys: of the pair.
        source: where the leader is known from.
        applies: the rule that the cluster runs.
        leader: its side of the exchange.
        follower: likewise.
    """
    for protocol, rule in RULES.items():
        truncation = rule(leader, follower)
        row = _point_row(keys, source, truncation, applies=protocol is applies)
        effect = Effect(truncation=truncation, physical_offset=None, fetcher_fails=False)
        yield row(learnt_epochs=learnt_epochs_column(leader, effect) if protocol is applies else None)


def _truncation_row(pair: Pair, effect: Effect) -> TruncationPoint:
    truncation, leader, follower = effect.truncation, pair.leader.replica, pair.follower.replica
    removed_from = removal_start(follower, effect)
    count = 0 if removed_from is None else max(0, follower.log.log_end_offset - removed_from)
    is_cut = truncation.truncation_offset is not None or truncation.restart_offset is not None
    applies = truncation.protocol is pair.applies
    row = _point_row(pair.keys, pair.leadership.source, truncation, applies=applies)
    return row(
        fetcher_fails=effect.fetcher_fails,
        removed_offsets=count,
        still_diverged=still_diverged(leader, follower, pair.context, effect),
        catches_up=catches_up(leader, effect),
        physical_offset=follower.log.log_end_offset - count if is_cut else None,
        ends_with_election=ends_with_election(leader, follower, truncation, pair.context.leader_epoch),
        restarts_once_failed=restarts_once_failed(leader, effect),
        learnt_epochs=learnt_epochs_column(leader.as_leader(), effect) if applies else None,
    )


def _point_row(keys: PairKeys, source: str, truncation: Truncation, *, applies: bool) -> Callable[..., TruncationPoint]:
    """A row of `truncation_points` but for what the batches tell; where that is not given, nothing goes, and the follower catches up."""
    asked = traffic(truncation)
    return partial(
        TruncationPoint,
        topic=keys.topic,
        partition=keys.partition,
        leader_id=keys.leader_id,
        follower_id=keys.follower_id,
        leader_source=source,
        kind=RuleKind.PROTOCOL,
        protocol=str(truncation.protocol),
        applies=applies,
        epoch_requests=asked.requests,
        request_bytes=asked.request_bytes,
        response_bytes=asked.response_bytes,
        truncation_offset=truncation.truncation_offset,
        restart_offset=truncation.restart_offset,
        round_trips=truncation.round_trips,
        rounds=rounds(truncation),
        falls_back_to_high_watermark=truncation.falls_back_to_high_watermark,
        fetch_offset=truncation.fetch_offset,
        stuck=truncation.stuck,
        fallback=truncation.fallback,
        fetcher_fails=False,
        removed_offsets=0,
        still_diverged=False,
        catches_up=True,
        physical_offset=None,
        ends_with_election=False,
        restarts_once_failed=False,
    )


def verdict_row(keys: PairKeys, leader_source: str, protocol: Protocol, judgement: Judgement) -> Callable[..., ReplicaVerdict]:
    """A row of `replica_verdicts` but for what a comparison tells; what of that is not given is unknown."""
    return partial(
        ReplicaVerdict,
        topic=keys.topic,
        partition=keys.partition,
        leader_id=keys.leader_id,
        follower_id=keys.follower_id,
        leader_source=leader_source,
        protocol=str(protocol),
        verdict=str(judgement.verdict),
        severity=str(judgement.severity),
        reason=judgement.reason,
        cause=judgement.cause,
        inferred_because=None,
        common_prefix_end_offset=None,
        divergence_offset=None,
        follower_diverged_end_offset=None,
        leader_diverged_end_offset=None,
        truncation_offset=None,
        restart_offset=None,
        removed_offsets=None,
        removed_records=None,
        removed_bytes=None,
        lost_offsets=None,
        lost_records=None,
        lost_bytes=None,
        removed_below_high_watermark=None,
        commit_evidence=None,
        removed_committed=None,
        removed_committed_offsets=None,
        removed_commits=None,
        first_removed_timestamp_ms=None,
        last_removed_timestamp_ms=None,
        open_transactions=None,
        observed_truncation_offset=None,
        already_truncated=None,
        stuck=None,
        wrong_lines_broker_id=None,
        wrong_lines=None,
        hole=None,
        compacted=None,
        evidence=None,
        wrong_epoch=None,
        did_otherwise=None,
        differences=None,
        conflicts=None,
        cleaned_beyond_cut=None,
        rests_on=None,
        mismatch=None,
        differing_keys=None,
        differing_records=None,
        records_unread=None,
        not_compared_offsets=None,
        bounded_by=None,
    )


def _verdict_row(pair: Pair, measured: Measured, judgement: Judgement) -> ReplicaVerdict:
    comparison, removal, seen, keys = measured.comparison, measured.removal, measured.observed, pair.keys
    truncation = comparison.effect.truncation
    leader_end, follower_end = comparison.leader.log.log_end_offset, comparison.follower.log.log_end_offset
    parts = comparison.divergence_offset
    common = max(comparison.end, comparison.start) if parts is None else parts
    offsets, records, size = removed(measured)
    gone = lost(pair.follower, measured)
    # where the comparison proves nothing, no loss may be summed up
    committed = removed_committed(comparison, judgement)
    evidence = by_evidence(committed)
    rejoin = None if judgement.verdict is Verdict.INCONCLUSIVE else comparison.cannot_rejoin
    differing = record_differences(comparison)
    unread = [one.unread for one in (comparison.records, differing) if one is not None and one.unread]
    seen_later = comparison.follower.seen
    facts = evidence_columns(pair.leader, pair.follower, pair.leadership, comparison, judgement)
    return ReplicaVerdict(
        topic=keys.topic,
        partition=keys.partition,
        leader_id=keys.leader_id,
        follower_id=keys.follower_id,
        leader_source=pair.leadership.source,
        verdict=str(judgement.verdict),
        severity=str(judgement.severity),
        common_prefix_end_offset=None if comparison.no_common_range else common,
        divergence_offset=parts,
        follower_diverged_end_offset=follower_end if parts is not None and parts < follower_end else None,
        leader_diverged_end_offset=leader_end if parts is not None and parts < leader_end else None,
        truncation_offset=truncation.truncation_offset,
        restart_offset=truncation.restart_offset,
        protocol=str(truncation.protocol),
        removed_offsets=offsets,
        removed_records=records,
        removed_bytes=size,
        lost_offsets=gone.offsets,
        lost_records=gone.records,
        lost_bytes=gone.size_bytes,
        removed_below_high_watermark=evidence.get(Evidence.CHECKPOINT, 0),
        commit_evidence=next((str(one) for one in evidence), None),
        removed_committed=sum(evidence.values()),
        removed_committed_offsets={str(one): count for one, count in evidence.items()},
        removed_commits=committed_spans(committed),
        first_removed_timestamp_ms=removal.first_timestamp_ms if removal else None,
        last_removed_timestamp_ms=removal.last_timestamp_ms if removal else None,
        open_transactions=tuple(removal.open_producer_ids) if removal else (),
        observed_truncation_offset=seen.truncation_offset if seen else None,
        already_truncated=truncation.truncation_offset is not None and has_truncated(seen, truncation, measured.since),
        stuck=rejoin.refusal if rejoin else None,
        wrong_lines_broker_id=rejoin.broker_id if rejoin else None,
        wrong_lines=rejoin.lines if rejoin else (),
        hole=comparison.hole if judgement.verdict is Verdict.LOG_MATCHING_VIOLATION else None,
        compacted=comparison.context.compacted,
        evidence=facts.evidence,
        reason=judgement.reason,
        inferred_because=pair.inferred_because,
        cause=judgement.cause,
        wrong_epoch=judgement.wrong_epoch,
        did_otherwise=comparison.did_otherwise,
        differences=differing_offsets(differences(comparison)),
        conflicts=differing_offsets(conflicts(comparison)),
        cleaned_beyond_cut=comparison.cleaned_beyond_the_cut,
        rests_on=facts.rests_on,
        mismatch=mismatch_column(comparison, judgement),
        differing_keys=key_counts(comparison.records),
        records_unread=unread[0] if unread else None,
        not_compared_offsets=comparison.written_since,
        bounded_by=None if seen_later is None or seen_later.bound is None else str(seen_later.bound),
        differing_records=record_counts(differing),
        keys_may_differ=comparison.keys_may_differ if judgement.severity is Severity.NONE else None,
        lost_by_transaction=gone.by_transaction,
    )


def removed(measured: Measured) -> tuple[int, int, int] | tuple[None, None, None]:
    """Offsets, records and bytes that the protocol that applies removes; None where the batches could not be read again."""
    if measured.unread is not None:
        return None, None, None
    removal = measured.removal
    return (removal.offsets, removal.records, removal.size_bytes) if removal else (0, 0, 0)


class Lost(NamedTuple):
    """What a follower loses and its leader does not hold; None where batches could not be read again, `by_transaction` also of nothing."""

    offsets: int | None
    records: int | None
    size_bytes: int | None
    by_transaction: RecordsByTransaction | None = None


def lost(follower: Side, measured: Measured) -> Lost:
    """What goes that the leader does not hold in the same epochs. Of a batch that it holds in part as many records count as offsets."""
    offsets, records, size = removed(measured)
    if offsets is None or records is None or measured.removal is None:
        return Lost(offsets, records, size)
    held, left = measured.comparison.held_by_the_leader, measured.comparison.lost_spans
    if held and not left:
        return Lost(0, 0, 0)
    end_offset = follower.replica.log.log_end_offset
    spans = [Span(UNDEFINED_EPOCH, measured.removal.physical_offset, end_offset)]
    if held:
        with suppress(UnreadBatchesError):  # gone since the cut was measured: all that goes counts
            records, size = measure_loss(follower.loaded.batches_from(left[0].first_offset), left)
            offsets, spans = offsets - covered((span.first_offset, span.end_offset) for span in held), left
    return Lost(offsets, records, size, lost_by_transaction(follower.loaded, spans, end_offset, records))
