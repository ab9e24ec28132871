"""Healthy partitions as they were read, with one thing after the other changed: of a value, not of a file, so that many are tried fast."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replica_audit.model import (
    BatchHeader,
    BatchRun,
    CommittedOffset,
    Election,
    PartitionMetadata,
    Problem,
    Producers,
    ProducerSpan,
    ProducerState,
    ReplicaFiles,
    ScannedSegment,
    SecondLook,
    Segment,
    SegmentFile,
    SequenceGap,
    TransactionState,
    Window,
)
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition, ReadRecords
from replica_audit.partition.known.log_directories import OtherCopy
from replica_audit.protocol.cluster.versions import Generation, MessageFormats
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from replica_audit.protocol.epochs.epoch_table import joined
from replica_audit.rows.codes import Protocol
from replica_audit.stages import partitions

Known = tuple[KnownPartition, ClusterFacts]
_OTHER_TOPIC = "bbbbbbbbbbbbbbbbbbbbbb"
_TIME = 1_795_000_000_000
_PROBLEM = Problem(path="p", kind="directory", code="code", detail="detail", remedy="remedy")
_SPAN = ProducerSpan(7, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1)
STATE = ProducerState(
    producer_id=7,
    producer_epoch=0,
    last_sequence=0,
    last_offset=0,
    offset_delta=0,
    timestamp_ms=0,
    coordinator_epoch=0,
    open_first_offset=-1,
)
"""What every snapshot that is made up says: the same as `_SPAN`."""
_READ_AGAIN = partitions.read_again
_GAP = SequenceGap(7, 0, 1, 0, 0, 1, 3, 2, 0, 0)


def _replaced(rng: random.Random, items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """One of the items changed, or all of them."""
    if not items:
        return items
    if rng.random() < 0.25:
        return tuple(map(change, items))
    place = rng.randrange(len(items))
    return (*items[:place], change(items[place]), *items[place + 1 :])


def _near(rng: random.Random, value: int) -> int:
    return max(0, value + rng.choice((-1, 1, -2, 2, 3, -value, 7)))


def _files(rng: random.Random, files: ReplicaFiles) -> ReplicaFiles:
    """The small files of a replica, or what is known of its broker."""
    epochs = list(files.epochs)
    if epochs and rng.random() < 0.5:
        place = rng.randrange(len(epochs))
        epoch, start = epochs[place]
        epochs[place] = rng.choice(((epoch + 1, start), (epoch, _near(rng, start)), (max(0, epoch - 1), start)))
    elif epochs and rng.random() < 0.5:
        del epochs[rng.randrange(len(epochs))]
    else:
        last_epoch, last_start = epochs[-1] if epochs else (0, 0)
        epochs.append((last_epoch + 1, last_start + rng.choice((0, 1, 5, (files.high_watermark or 0) - last_start))))
    end = files.high_watermark or 0
    offset = rng.choice((None, 0, end, end + 1, max(end - 1, 0), end + 40, 1, 3))
    changes: list[dict[str, Any]] = [
        {"state": rng.choice(("future", "deleted", "stray"))},
        {"topic_id": rng.choice((None, _OTHER_TOPIC))},
        {"problems": (_PROBLEM,)},
        {"offline_reason": "because"},
        {"is_refused": True},
        {"checkpoint_state": rng.choice(("healed", "empty", "missing", "unreadable", "not-collected", "not-used"))},
        {"epochs": tuple(epochs), "checkpoint": tuple((line, *entry) for line, entry in enumerate(epochs, 3))},
        {"checkpoint": tuple((line, *entry) for line, entry in enumerate(epochs, 3))},
        {"epochs": (), "checkpoint": (), "checkpoint_state": rng.choice(("empty", "missing", "ok"))},
        {"high_watermark": offset},
        {"high_watermark": offset, "clean_shutdown": True},
        {"high_watermark": None, "high_watermarks_collected": False},
        {"recovery_point": offset},
        {"recovery_point": offset, "clean_shutdown": True},
        {"log_start_offset": offset},
        {"cleaner_offset": offset},
        {"cleaner_offsets_collected": not files.cleaner_offsets_collected},
        {"clean_shutdown": not files.clean_shutdown},
        {"clean_shutdown": True, "clean_shutdown_epoch": 5},
        {"in_use": not files.in_use},
        {"has_lock": not files.has_lock},
        {"captured_at_ms": rng.choice((None, _TIME, 1))},
        {"producer_files": (f"{end:020d}.snapshot",)},
        {"second_look": SecondLook(looked_at_ms=_TIME, log_start_offset=0, log_end_offset=end + 2, epochs=files.epochs[-1:])},
    ]
    return replace(files, **rng.choice(changes))


def _runs(rng: random.Random, runs: tuple[BatchRun, ...]) -> tuple[BatchRun, ...]:
    if not runs or rng.random() < 0.15:
        return runs[: rng.randrange(len(runs))] if runs else runs
    place = rng.randrange(len(runs))
    run = runs[place]
    changes: list[dict[str, Any]] = [
        {"leader_epoch": rng.choice((-1, run.leader_epoch + 1, max(0, run.leader_epoch - 1), 99))},
        {"first_offset": _near(rng, run.first_offset)},
        {"last_offset": _near(rng, run.last_offset)},
        {"record_count": rng.choice((0, run.record_count - 1, run.record_count + 1, -1))},
        {"batch_count": rng.choice((0, run.batch_count + 1))},
        {"size_bytes": 0},
        {"magic": rng.choice((0, 1))},
        {"intact": False},
        {"max_timestamp_ms": -1},
    ]
    return (*runs[:place], run._replace(**rng.choice(changes)), *runs[place + 1 :])


def _producers(rng: random.Random, found: Producers | None) -> Producers | None:
    known = found or Producers((), (), 0)
    opened = _SPAN._replace(open_first_offset=0, open_timestamp_ms=0)
    late = _SPAN._replace(first_sequence=3, last_sequence=3)
    return rng.choice(
        (
            None,
            known._replace(untold_batches=1),
            known._replace(gaps=(_GAP,), spans=(*known.spans, _SPAN)),
            *(known._replace(spans=(*known.spans, span)) for span in (_SPAN, opened, late)),
        )
    )


def _segment(rng: random.Random, segment: Segment) -> Segment:
    windows = segment.windows
    changed = tuple(window._replace(digest=window.digest + 1) for window in windows)
    counted = tuple(window._replace(batch_count=window.batch_count + 1) for window in windows)
    return rng.choice(
        (
            replace(segment, runs=_runs(rng, segment.runs)),
            replace(segment, runs=_runs(rng, segment.runs)),
            replace(segment, runs=_runs(rng, segment.runs)),
            replace(segment, damaged=True),
            replace(segment, swap=True),
            replace(segment, windows=rng.choice((changed, counted, ()))),
            replace(segment, producers=_producers(rng, segment.producers)),
            replace(segment, base_offset=_near(rng, segment.base_offset)),
        )
    )


def _scan(rng: random.Random, scan: ScannedSegment) -> ScannedSegment:
    if rng.random() < 0.1:
        return replace(scan, failed=True)
    if rng.random() < 0.1:
        return replace(scan, problems=(replace(_PROBLEM, kind="segment"),))
    segment = _segment(rng, scan.segment)
    return replace(scan, segment=segment, file=replace(scan.file, base_offset=segment.base_offset))


def _segments(rng: random.Random, known: KnownPartition) -> KnownPartition:
    if rng.random() < 0.1 and known.segments:
        place = rng.randrange(len(known.segments))
        return replace(known, segments=(*known.segments[:place], *known.segments[place + 1 :]))
    if rng.random() < 0.5:  # the same on every replica
        seed = rng.random()
        base = rng.choice([scan.segment.base_offset for _broker, scan in known.segments] or [0])
        same = tuple(
            (broker, _scan(random.Random(seed), scan) if scan.segment.base_offset == base else scan)  # noqa: S311
            for broker, scan in known.segments
        )
        return replace(known, segments=same)
    return replace(known, segments=_replaced(rng, known.segments, lambda one: (one[0], _scan(rng, one[1]))))


def _claim(rng: random.Random, claim: PartitionMetadata) -> PartitionMetadata:
    replicas = claim.replicas or (1,)
    elections = [
        Election(claim.leader_epoch, claim.leader, kind, claim.isr, (), 5, 1, _TIME, claim.isr) for kind in ("clean", "unclean", "created")
    ]
    changes: list[dict[str, Any]] = [
        {"leader": rng.choice((-1, replicas[-1], 9))},
        {"leader": -1, "no_leader": True},
        {"no_leader": True},
        {"leader_epoch": rng.choice((-1, claim.leader_epoch + 1, max(0, claim.leader_epoch - 1)))},
        {"topic_id": rng.choice((None, _OTHER_TOPIC))},
        {"isr": claim.isr[:-1]},
        {"isr": ()},
        {"replicas": replicas[:-1]},
        {"replicas": (*replicas, 9)},
        {"compacted": rng.choice((None, True, False))},
        {"remote_storage": True},
        {"elections": (rng.choice(elections),)},
        {"elections": (rng.choice(elections),), "compacted": True},
        {"message_format": rng.choice(("0.10.2", "2.8"))},
        {"known_at_ms": rng.choice((None, _TIME * 2))},
        {"min_insync_replicas": 2},
    ]
    return replace(claim, **rng.choice(changes))


def _claims(rng: random.Random, known: KnownPartition) -> KnownPartition:
    if rng.random() < 0.3 and known.claims:
        _broker, claim = rng.choice(known.claims)
        copy = replace(claim, source="metadata-log", log_epoch=rng.choice((1, 2)), log_end_offset=rng.choice((10, 20)))
        copy = _claim(rng, copy) if rng.random() < 0.7 else copy
        return replace(known, claims=(*known.claims, (rng.choice(claim.replicas or (1,)), copy)))
    if rng.random() < 0.1:
        return replace(known, claims=())
    return replace(known, claims=_replaced(rng, known.claims, lambda one: (one[0], _claim(rng, one[1]))))


def with_snapshots(known: KnownPartition, last_sequence: int) -> KnownPartition:
    """The partition with one batch of a producer, and a snapshot at the end of each log."""
    wrote, none = Producers((_SPAN._replace(last_sequence=last_sequence),), (), 0), Producers((), (), 0)
    front = min(scan.segment.base_offset for _broker, scan in known.segments)
    ends: dict[int, int] = {}
    segments = []
    for broker, scan in known.segments:
        producers = wrote if scan.segment.base_offset == front else none
        segments.append((broker, replace(scan, segment=replace(scan.segment, producers=producers))))
        ends[broker] = max(ends.get(broker, 0), scan.segment.next_offset)
    replicas = tuple((broker, replace(files, producer_files=(f"{ends[broker]:020d}.snapshot",))) for broker, files in known.replicas)
    return replace(known, segments=tuple(segments), replicas=replicas)


def _with_producers(rng: random.Random, known: KnownPartition) -> KnownPartition:
    """A producer in every segment, and perhaps a snapshot beside one log that cannot be read."""
    span = rng.choice((_SPAN, _SPAN._replace(first_sequence=3, last_sequence=3), _SPAN._replace(open_first_offset=0, open_timestamp_ms=0)))
    wrote = Producers((span,), (), 0)
    segments = tuple((broker, replace(scan, segment=replace(scan.segment, producers=wrote))) for broker, scan in known.segments)

    def with_snapshot(one: tuple[int, ReplicaFiles]) -> tuple[int, ReplicaFiles]:
        return one[0], replace(one[1], producer_files=(f"{one[1].high_watermark or 0:020d}.snapshot",))

    replicas = _replaced(rng, known.replicas, with_snapshot) if rng.random() < 0.7 else known.replicas
    return replace(known, segments=segments, replicas=replicas)


def _replicas(rng: random.Random, known: KnownPartition) -> KnownPartition:
    if rng.random() < 0.85 or not known.replicas:
        return replace(known, replicas=_replaced(rng, known.replicas, lambda one: (one[0], _files(rng, one[1]))))
    broker, files = rng.choice(known.replicas)
    if rng.random() < 0.5:
        return replace(known, replicas=tuple(one for one in known.replicas if one[0] != broker))
    other = replace(files, log_dir=f"{files.log_dir}-other", state=rng.choice(("current", "future", "stray")))
    same = tuple((of, replace(scan, log_dir=other.log_dir)) for of, scan in known.segments if of == broker)
    return replace(known, replicas=(*known.replicas, (rng.choice((broker, 9)), other)), segments=(*known.segments, *same))


def _event(rng: random.Random, known: KnownPartition) -> LogEvent:
    broker, files = rng.choice(known.replicas)
    return LogEvent(
        **dict.fromkeys(LogEvent._fields, None)  # type: ignore[arg-type]
        | {
            "broker_id": broker,
            "topic": known.topic,
            "partition": known.partition,
            "kind": rng.choice(list(EventKind)),
            "offset": rng.choice((0, 1, files.high_watermark or 0)),
            "path": "server.log",
            "line": 1,
            "time": "2026-11-21 05:43:41,716",
        }
    )


def _renamed(known: KnownPartition, topic: str) -> dict[str, Any]:
    """The same partition under another name."""
    claims = tuple((broker, replace(claim, topic=topic)) for broker, claim in known.claims)
    replicas = tuple((broker, replace(files, topic=topic)) for broker, files in known.replicas)
    return {"topic": topic, "claims": claims, "replicas": replicas}


def _others(rng: random.Random, known: KnownPartition) -> KnownPartition:
    """What groups, coordinators and brokers' own logs say."""
    end = max((files.high_watermark or 0 for _broker, files in known.replicas), default=0)
    commit = CommittedOffset(
        group_id="group",
        topic=known.topic,
        partition=known.partition,
        offset=rng.choice((0, end, end + 1, max(end - 1, 0), 2)),
        leader_epoch=rng.choice((-1, 0, 1, 3, 99)),
        commit_timestamp_ms=rng.choice((-1, _TIME)),
        topic_id=rng.choice((None, _OTHER_TOPIC)),
        record_offset=0,
        path="p",
    )
    state = TransactionState(
        transactional_id="t",
        producer_id=7,
        producer_epoch=0,
        timeout_ms=1000,
        state="Ongoing",
        partitions=((known.topic, known.partition),),
        last_update_ms=_TIME,
        start_ms=_TIME,
    )
    changes: list[dict[str, Any]] = [
        {"commits": (commit,)},
        {"commits": (commit,)},
        {"transactions": (state,)},
        {"records": ReadRecords()},
        _renamed(known, "__consumer_offsets"),
    ]
    if known.replicas and rng.random() < 0.4:
        changes = [{"events": (_event(rng, known),)}]
    return replace(known, **rng.choice(changes))


def _cluster(rng: random.Random, known: KnownPartition, cluster: ClusterFacts) -> ClusterFacts:
    brokers = [broker for broker, _files in known.replicas] or [1]
    state = rng.choice(("up", "down", "paused", "stopped"))
    states = dict.fromkeys(brokers, state) if rng.random() < 0.4 else dict(cluster.broker_states) | {rng.choice(brokers): state}
    path = known.replicas[0][1].log_dir if known.replicas else ""
    changes: list[dict[str, Any]] = [
        {"broker_states": states},
        {"broker_states": states},
        {"fenced": {rng.choice(brokers): True}},
        {"broker_epochs": dict.fromkeys(brokers, rng.choice((4, 6)))},
        {"simultaneous": not cluster.simultaneous},
        {"generation": Generation(rng.choice(list(Protocol)), "because")},
        {"moves": rng.choice(list(Protocol))},
        {"what_if_leaders": True},
        {"compare": rng.choice((CompareMode.EPOCHS, CompareMode.RECORDS))},
        {"kraft": tuple(brokers)},
        {"kraft": ()},
        {"named": rng.choice(((), (8,), tuple(brokers)))},
        {"formats": MessageFormats(leave_tables_alone=True, of_brokers=rng.choice((None, "0.10.2", "2.8")))},
        {"other_copies": (OtherCopy(brokers[0], path, "judged", True),)},
        {"metadata_log_end": (1, rng.choice((10, 20, 99)))},
        {"logs_go_on": True},
        {"kafka_version": rng.choice((None, "2.8.1", "3.7.0"))},
    ]
    return replace(cluster, **rng.choice(changes))


def history(rng: random.Random, known: KnownPartition, lag: float = 0.3) -> KnownPartition:
    """The replicas with another log, in segments that may begin elsewhere on each, and who leads in its last epoch; of the share `lag`
    some followers lag."""
    first, epoch = rng.choice((0, 0, 0, 40, 1000)), rng.choice((0, 0, 3))
    batches: list[tuple[int, int, int, int]] = []  # epoch, first and last offset, digest
    end = first
    for _ in range(rng.choice((0, 1, 2, 5, 9, 20))):
        epoch += rng.choice((0, 0, 0, 1, 2))
        records = rng.randint(1, 6)
        earlier = rng.choice(batches)[0] if batches and rng.random() < 0.02 else epoch
        batches.append((earlier, end, end + records - 1, rng.randrange(1 << 50)))
        end += records
    starts: dict[int, int] = {}
    for of, base, _last, _digest in batches:
        starts.setdefault(of, base)
    led_in = epoch + rng.choice((0, 1, 3)) if batches and rng.random() < 0.4 else epoch
    leader, isr = known.claims[0][1].leader, list(known.claims[0][1].isr)
    segments, replicas = [], []
    lags = rng.random() < lag
    committed = rng.randint(first, end) if lags and rng.random() < 0.6 else end
    whole, whole_end = batches, end
    for broker, files in known.replicas:
        batches, end = whole, whole_end
        if lags and broker != leader and rng.random() < 0.7:
            until = rng.randint(first, end)
            batches = [one for one in whole if one[2] < until]
            end = batches[-1][2] + 1 if batches else first
            if batches and rng.random() < 0.1:
                place = rng.randrange(len(batches))
                batches = [*batches[:place], (*batches[place][:3], rng.randrange(1 << 50)), *batches[place + 1 :]]
            if (rng.random() < 0.6 or end < committed) and rng.random() < 0.9 and broker in isr:
                isr.remove(broker)
        rolls = sorted({first, *(base for _epoch, base, *_rest in batches if rng.random() < 0.3), *([end] if rng.random() < 0.2 else [])})
        for base, until in zip(rolls, [*rolls[1:], end + 1], strict=True):
            segments.append((broker, _written(files, base, [one for one in batches if base <= one[1] < until])))
        own = {of: base for of, base in starts.items() if base < end}
        own |= {led_in: end} if broker == leader and led_in not in starts else {}
        entries = tuple(sorted(own.items()))
        replicas.append(
            (
                broker,
                replace(
                    files,
                    epochs=entries,
                    checkpoint=tuple((line, *entry) for line, entry in enumerate(entries, 3)),
                    checkpoint_state="ok" if entries else "empty",
                    high_watermark=min(end, committed) if rng.random() < 0.8 else rng.randint(first, end),
                    log_start_offset=rng.choice((None, first)),
                    recovery_point=rng.choice((None, first, end)),
                    producer_files=(),
                ),
            )
        )
    changed = {"leader_epoch": led_in, "isr": tuple(isr), "elections": (), "isr_changes": ()}
    claims = tuple((broker, replace(claim, **changed)) for broker, claim in known.claims)  # type: ignore[arg-type]
    return replace(known, claims=claims, replicas=tuple(replicas), segments=tuple(segments), commits=())


@dataclass(frozen=True, kw_only=True)
class MadeUp(SegmentFile):
    """A segment that is on no disk, and its batches."""

    batches: tuple[BatchHeader, ...]


def read_again(
    broker_id: int, files: ReplicaFiles, scanned: Mapping[SegmentFile, Sequence[BatchRun]], offset: int
) -> Iterator[BatchHeader]:
    """The batches of a replica, be it made up or not."""
    if not all(isinstance(file, MadeUp) for file in scanned):
        yield from _READ_AGAIN(broker_id, files, scanned, offset)
        return
    batches = [batch for file in scanned if isinstance(file, MadeUp) for batch in file.batches]
    yield from (batch for batch in batches if batch.last_offset >= offset)


def _header(epoch: int, first: int, last: int, digest: int) -> BatchHeader:
    return BatchHeader(first, first, last, 100, 2, epoch, last - first + 1, _TIME, digest, None, "none", False, False, -1, -1, -1)


def _written(files: ReplicaFiles, base: int, batches: list[tuple[int, int, int, int]]) -> ScannedSegment:
    runs: list[BatchRun] = []
    for epoch, first, last, _digest in batches:
        run = BatchRun(epoch, first, last, 1, last - first + 1, 100, _TIME, _TIME, 2, intact=True)
        same = runs and runs[-1].leader_epoch == epoch
        runs[-1:] = [joined(runs[-1], run)] if same else [*runs[-1:], run]
    window = (Window(0, 1 << 20, sum(one[3] for one in batches), len(batches)),) if batches else ()
    headers = tuple(_header(*one) for one in batches)
    path = files.inside(f"{base:020d}.log")
    file = MadeUp(path=path, source="raw", base_offset=base, size_bytes=100 * len(batches), batches=headers)
    segment = Segment(base_offset=base, runs=tuple(runs), windows=window, producers=Producers((), (), 0))
    return ScannedSegment(log_dir=files.log_dir, directory=files.directory, file=file, segment=segment, failed=False, problems=())


def disturbed(rng: random.Random, known: KnownPartition, cluster: ClusterFacts) -> Known:
    """The partition after one to three changes, half of them with another history."""
    if rng.random() < 0.5:
        known = history(rng, known)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        match rng.choices(("replicas", "segments", "producers", "claims", "others", "cluster"), (10, 10, 1, 6, 4, 6))[0]:
            case "replicas":
                known = _replicas(rng, known)
            case "segments":
                known = _segments(rng, known)
            case "producers":
                known = _with_producers(rng, known)
            case "claims":
                known = _claims(rng, known)
            case "others":
                known = _others(rng, known)
            case "cluster":
                cluster = _cluster(rng, known, cluster)
    return known, cluster
