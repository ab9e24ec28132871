"""Logs that a broker does not use, or will not once it starts, and what only they hold, as findings.

Which logs a broker sets aside is a rule of Kafka's (protocol.cluster.set_aside); what nobody else holds follows from the batches' epochs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.formats.log_dir.names import METADATA_TOPIC, PARTITION_METADATA
from replica_audit.model import PartitionMetadata
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.pairs.second_read import by_transaction
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.topic_ids import AtStart, SetAsideBecause, at_start, set_aside_because
from replica_audit.protocol.epochs.lineage import Span, history_of_runs, without
from replica_audit.protocol.verdict.partition_findings import FindingAbout, PartitionCode
from replica_audit.rows.codes import Severity
from replica_audit.rows.findings import FoundFinding, SetAsideLog

Runs = Callable[[Loaded], bool | None]
_MOST = 5
_WHY = {
    SetAsideBecause.NO_TOPIC_ID: "has no partition.metadata",
    SetAsideBecause.UNKNOWN_TOPIC_ID: "has a topic id that the metadata does not know",
    SetAsideBecause.NOT_ASSIGNED: "is not assigned to the broker any more",
}
_DOES = {
    AtStart.SETS_ASIDE: "{when} the broker sets it aside (renames it to -stray) and does not read it again",
    AtStart.DELETES: "{when} the broker deletes it, a minute later",
    AtStart.DOES_NOT_START: "with it the broker does not start (3.7.0; later releases set it aside, renamed to -stray)",
}


class _Said(NamedTuple):
    severity: Severity
    text: str
    row: SetAsideLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """All that was read of a partition.

    `metadata` is None where none names it, or it is outdated; `loaded` are all directories, `apart` those of second copies of a broker.
    `runs`: whether the broker of one runs. Of `unknown_brokers`, which the metadata does not name, nothing is foretold.
    """

    metadata: PartitionMetadata | None
    loaded: Sequence[Loaded]
    apart: Sequence[Loaded]
    cluster: ClusterFacts
    runs: Runs
    unknown_brokers: Collection[int] = ()


def set_aside_findings(topic: str, partition: int, known: Replicas) -> Iterator[FoundFinding]:
    """What brokers will set aside, then what is set aside and holds what nobody else does; one finding for each broker and kind."""
    if topic == METADATA_TOPIC:
        return  # its replicas are not compared, and the metadata assigns them to nobody
    goes = {id(one): found for one in known.loaded if (found := _goes(one, known)) is not None}
    made: defaultdict[tuple[PartitionCode, int], list[_Said]] = defaultdict(list)
    for one in known.loaded:
        if id(one) in goes:
            because, does = goes[id(one)]
            alone = _alone(one, [other for other in known.loaded if other.is_compared and other is not one])
            said = _will_go(one, because, does, alone, _harm(one, known), runs=known.runs(one) is True)
            loud = _severity_of_going(one, because, does, alone, known, goes)
            made[PartitionCode.WILL_BECOME_STRAY, one.broker_id].append(_Said(loud, said, _row(one, because, does, alone)))
    for one in (*(one for one in known.loaded if one.files.state != "current"), *known.apart):
        alone = _alone(one, [other for other in known.loaded if other.is_compared and other is not one])
        is_copy = any(one is other for other in known.apart)
        heard = _severity_of_holding(one, alone, known, is_copy=is_copy)
        if heard is not None:
            row = _row(one, None, None, alone)
            made[PartitionCode.STRAY_HOLDS_RECORDS, one.broker_id].append(_Said(heard, _holds(one, alone, is_copy=is_copy), row))
    for (code, broker), all_said in sorted(made.items()):
        worst = sorted(all_said, key=_loudness)[:_MOST]
        yield FoundFinding(
            finding_key=f"{code}:{topic}-{partition}:{broker}",
            code=str(code),
            severity=str(worst[0].severity),
            topic=topic,
            partition=partition,
            broker_id=broker,
            summary="; ".join(told.text for told in worst),
            about=str(FindingAbout.REPLICA),
            is_certain=code is not PartitionCode.WILL_BECOME_STRAY or _has_topic_ids(known),
            set_aside=tuple(told.row for told in worst),
        )


def brokers_that_set_aside(known: Replicas) -> set[int]:
    """The brokers that will not use the log that they have as the current one: leaders of it would have an empty log."""
    return {one.broker_id for one in known.loaded if _goes(one, known) is not None}


def _loudness(told: _Said) -> int:
    return list(Severity).index(told.severity)


def _goes(one: Loaded, known: Replicas) -> tuple[SetAsideBecause, AtStart] | None:
    """Why a broker will not use a log that it has as a current one, and what it does with it."""
    files, cluster = one.files, known.cluster
    is_told = files.topic_id is not None or (files.checkpoint_state not in ("not-collected",) and not _is_text(one))
    is_refused = any(problem.kind == PARTITION_METADATA for problem in files.problems)
    if (
        not one.is_compared
        or one.is_known_empty
        or one.broker_id not in cluster.kraft
        or not is_told
        or is_refused
        or one.broker_id in known.unknown_brokers
    ):
        return None
    is_whole = cluster.metadata_log_end[0] >= 0
    because = set_aside_because(one.broker_id, files.topic_id, known.metadata, is_whole=is_whole)
    if because is None or (because is not SetAsideBecause.NO_TOPIC_ID and known.runs(one) is True):
        return None  # a broker that runs has what it is assigned: the metadata is of another moment
    does = at_start(because, cluster.kafka_version)
    return None if does is None else (because, does)


def _is_text(one: Loaded) -> bool:
    """Whether the replica is known by text of kafka-dump-log, which has no small files."""
    return any(file.source == "dump" for file in one.files.segments)


def _alone(one: Loaded, others: Sequence[Loaded]) -> tuple[Span, ...]:
    """What of a log no other log of its topic holds in the same epoch; below where another one starts retention may have taken it."""
    if one.log is None:
        return ()
    own = history_of_runs(one.log.runs)
    if not own:
        return ()
    same = [other for other in others if other.log is not None and _may_be_one_topic(one, other)]
    floor = max((other.log.log_start_offset for other in same if other.log is not None), default=0)
    cleaned = max((other.files.cleaner_offset or 0 for other in (one, *same)), default=0)
    held = [span for other in same if other.log is not None for span in history_of_runs(other.log.runs)]
    left = without(own, held)
    # below the cleaner checkpoint of any of them a batch that is missing is no evidence: where the others reach, it may have been compacted
    reached = max((span.end_offset for span in held), default=0)
    start = max(floor, min(cleaned, reached))
    return tuple(span._replace(first_offset=max(span.first_offset, start)) for span in left if span.end_offset > start)


def _may_be_one_topic(one: Loaded, other: Loaded) -> bool:
    return None in (one.files.topic_id, other.files.topic_id) or one.files.topic_id == other.files.topic_id


def _leads(one: Loaded, known: Replicas) -> bool:
    """Whether the broker leads with an empty log once it has set its own aside: it is the leader, or can be elected cleanly."""
    metadata = known.metadata
    return metadata is not None and one.broker_id in (metadata.leader, *metadata.isr, *metadata.elr)


def _harm(one: Loaded, known: Replicas) -> str:
    metadata = known.metadata
    if metadata is None or one.broker_id not in metadata.replicas:
        return ""
    if one.broker_id == metadata.leader:
        return ", makes an empty one and leads with it: the others truncate theirs"
    if _leads(one, known):
        return ", makes an empty one and, as a member of the ISR, may be elected with it: then the others truncate theirs"
    return ", makes an empty one and fetches the leader's log"


def _severity_of_going(
    one: Loaded,
    because: SetAsideBecause,
    does: AtStart,
    alone: Collection[Span],
    known: Replicas,
    goes: Mapping[int, tuple[SetAsideBecause, AtStart]],
) -> Severity:
    """An error where records are at stake; a log of a topic that was deleted or made again while its broker was down is none."""
    has_records = one.log is not None and bool(one.log.runs)
    if because is SetAsideBecause.NO_TOPIC_ID and not _has_topic_ids(known):
        return Severity.WARNING  # most likely the copy left the files out
    if does is AtStart.DOES_NOT_START or (has_records and because is SetAsideBecause.NO_TOPIC_ID and _leads(one, known)):
        return Severity.ERROR
    if not has_records or not alone:
        # all copies of a topic go at once: no broker has it any more
        together = [
            other for other in known.loaded if id(other) in goes and other.broker_id != one.broker_id and _may_be_one_topic(one, other)
        ]
        return Severity.ERROR if has_records and together and not _held_by(one, known, goes) else Severity.WARNING
    metadata = known.metadata
    is_of_topic = because is not SetAsideBecause.UNKNOWN_TOPIC_ID or (metadata is not None and not _has_records_of(metadata, known))
    return Severity.ERROR if is_of_topic else Severity.WARNING


def _has_topic_ids(known: Replicas) -> bool:
    """Whether anything in the input gives a topic id of the partition: the metadata, or the files of any replica."""
    of_metadata = known.metadata is not None and known.metadata.topic_id is not None
    return of_metadata or any(one.files.topic_id is not None for one in (*known.loaded, *known.apart))


def _held_by(one: Loaded, known: Replicas, goes: Mapping[int, tuple[SetAsideBecause, AtStart]]) -> bool:
    """Whether a log that stays holds anything of the same topic."""
    stay = (other for other in known.loaded if other.is_compared and id(other) not in goes and _may_be_one_topic(one, other))
    return any(other.log is not None and other.log.runs for other in stay)


def _has_records_of(metadata: PartitionMetadata, known: Replicas) -> bool:
    """Whether any replica in the input holds records of the topic that the metadata knows."""
    own = (one for one in known.loaded if one.is_compared and one.files.topic_id == metadata.topic_id)
    return any(one.log is not None and one.log.runs for one in own)


def _severity_of_holding(one: Loaded, alone: Collection[Span], known: Replicas, *, is_copy: bool) -> Severity | None:
    """How loud it is that a log which is set aside holds what no current one does; None: it does not, or is being deleted for good."""
    if not alone or one.unreadable:
        return None
    if is_copy:
        return Severity.WARNING  # an older copy mostly has what was truncated since
    metadata, files = known.metadata, one.files
    is_of_topic = metadata is not None and (metadata.topic_id is None or files.topic_id in (None, metadata.topic_id))
    if is_of_topic:
        held = {other.broker_id for other in known.loaded if other.is_compared and other.log is not None and not other.unreadable}
        is_sure = metadata is not None and set(metadata.replicas) <= held
        return Severity.ERROR if is_sure and files.state != "future" else Severity.WARNING
    return None if files.state == "deleted" and known.runs(one) is not False else Severity.WARNING


def _will_go(one: Loaded, because: SetAsideBecause, does: AtStart, alone: Sequence[Span], harm: str, *, runs: bool) -> str:
    topic = f" (topic id {one.files.topic_id})" if one.files.topic_id else ""
    when = "at its next start" if runs else "when it starts"
    stakes = f"; it alone holds {_ranges(alone)}" if alone else ""
    end = f" with offsets {_extent(one)}" if one.log is not None and one.log.runs else ", which is empty,"
    left_out = ", unless the copy left that file out" if because is SetAsideBecause.NO_TOPIC_ID else ""
    does_what = _DOES[does].format(when=when) + ("" if does is AtStart.DOES_NOT_START else harm)
    return f"{one.files.directory}{topic}{end} {_WHY[because]}{left_out}: {does_what}{stakes}"


def _holds(one: Loaded, alone: Sequence[Span], *, is_copy: bool) -> str:
    what = f"another copy of broker {one.broker_id} ({one.files.path})" if is_copy else one.files.directory
    topic = f"topic id {one.files.topic_id}" if one.files.topic_id else "no topic id"
    ends = ". A broker deletes it when it starts, or a minute later" if one.files.state == "deleted" else ""
    return f"{what} ({topic}, offsets {_extent(one)}) holds {_ranges(alone)}, which no current replica in the input holds{ends}"


def _extent(one: Loaded) -> str:
    return "none" if one.log is None else f"{one.log.log_start_offset}..{one.log.log_end_offset - 1}"


def _ranges(spans: Sequence[Span]) -> str:
    said = [
        f"{span.first_offset}..{span.end_offset - 1}" + (f" of epoch {span.leader_epoch}" if span.leader_epoch >= 0 else "")
        for span in spans
    ]
    more = f" and {len(said) - 3} more ranges" if len(said) > 3 else ""
    return f"offsets {', '.join(said[:3])}{more}"


def _range(span: Span) -> str:
    of_epoch = f" of epoch {span.leader_epoch}" if span.leader_epoch >= 0 else ""
    return f"{span.first_offset}..{span.end_offset - 1}{of_epoch}"


def _row(one: Loaded, because: SetAsideBecause | None, does: AtStart | None, alone: Sequence[Span]) -> SetAsideLog:
    """The row of a log; what it alone holds is read again only of one that its broker takes out of use."""
    return SetAsideLog(
        log_dir=one.files.log_dir,
        directory=one.files.directory,
        topic_id=one.files.topic_id,
        because=None if because is None else str(because),
        at_start=None if does is None else str(does),
        log_start_offset=None if one.log is None else one.log.log_start_offset,
        log_end_offset=None if one.log is None else one.log.log_end_offset,
        held_alone_offsets=sum(span.end_offset - span.first_offset for span in alone),
        held_alone_by_transaction=by_transaction(one, alone, one.log.log_end_offset) if does and alone and one.log is not None else None,
    )
