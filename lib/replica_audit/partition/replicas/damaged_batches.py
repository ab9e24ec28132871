"""The replicas of a partition → the batches that are damaged on one of them, each with the replicas that hold them well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from replica_audit.formats.segment.segment_problems import NO_BATCH, WRONG_CRC
from replica_audit.formats.segment.segment_scan import TAILS
from replica_audit.model import BatchRun, Problem, SegmentFile, StoredBatch, StoredDamage
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.partition.replicas.replica_problems import EMPTIED
from replica_audit.protocol.comparison.damaged import (
    Copy,
    DamagedBatchFound,
    DamageKind,
    EpochPiece,
    Recovery,
    Weighed,
    epoch_pieces,
    is_between_equals,
    is_impossible,
    same_but_for_place,
    stored_header,
    votes,
    weigh,
)
from replica_audit.protocol.epochs.epoch_table import epoch_for_offset, table
from replica_audit.protocol.epochs.runs import ascending
from replica_audit.rows.damage import DamagedBatch
from replica_audit.rows.runs import ReportedProblem

MOST = 50  # of one replica; a disk that fails takes them all
_STOPS = (*TAILS, *NO_BATCH, EMPTIED)
Alive = Callable[[Loaded], bool | None]
_DAMAGED_EVERYWHERE = (
    "keep every copy: every replica in the input that holds offset {offset} has it damaged, so fetching the log again brings nothing "
    "better; let consumers seek beyond it, and producers send the records again"
)
_LEADER_HAS_IT = (
    "do not fetch it from leader {leader}, whose copy of the batch is damaged, too: let broker {good}, whose copy passes its CRC, lead "
    "first; keep this directory"
)


def damaged_rows(loaded: Sequence[Loaded], leader_id: int, alive: Alive, *, compacted: bool) -> Iterator[DamagedBatch]:
    """The damaged batches of all replicas that are compared, as rows of `damaged_batches`.

    Args:
        loaded: the replicas.
        leader_id: the leader, from which to recover where several copies are good.
        alive: whether the broker of a replica ran when it was copied.
        compacted: whether batches may be missing, and differ, without harm.
    """
    compared = [one for one in loaded if one.is_compared and one.log is not None]
    for one in compared:
        others = [other for other in compared if other is not one and other.files.topic_id == one.files.topic_id]
        yield from islice(_of_replica(one, others, leader_id, is_alive=bool(alive(one)), compacted=compacted), MOST)


def with_known_copies(problems: Sequence[ReportedProblem], damaged: Sequence[DamagedBatch], leader_id: int) -> Sequence[ReportedProblem]:
    """Problems whose remedy is to fetch the log again, as they are where the leader has the same damage, or every replica."""
    of_crc: dict[tuple[int | None, str, int | None], DamagedBatch]
    of_crc = {(row.broker_id, row.path, row.byte_offset): row for row in damaged if row.damage == DamageKind.CRC}
    held_by: dict[int, set[int]] = {}
    for row in of_crc.values():
        held_by.setdefault(row.first_offset, set()).add(row.broker_id)
    if all(len(brokers) == 1 for brokers in held_by.values()):
        return problems
    made = []
    for problem in problems:
        found = of_crc.get((problem.broker_id, problem.path, problem.byte_offset)) if problem.code == WRONG_CRC else None
        made.append(problem if found is None else replace(problem, remedy=_remedy(found, held_by, leader_id) or problem.remedy))
    return made


def _remedy(row: DamagedBatch, held_by: Mapping[int, Collection[int]], leader_id: int) -> str | None:
    others = [broker for broker in held_by[row.first_offset] if broker != row.broker_id]
    if others and not row.good_broker_ids:
        return _DAMAGED_EVERYWHERE.format(offset=row.first_offset)
    return _LEADER_HAS_IT.format(leader=leader_id, good=row.good_broker_ids[0]) if leader_id in others else None


def _of_replica(one: Loaded, others: Sequence[Loaded], leader_id: int, *, is_alive: bool, compacted: bool) -> Iterator[DamagedBatch]:
    try:
        for damaged in (*_wrong_crcs(one), *_unframed(one, is_alive=is_alive)):
            weighed = weigh(damaged, _of_its_epoch(one, damaged, _copies(others, damaged.first_offset)))
            if not _is_nothing(damaged, weighed) and not (damaged.overlaps and _is_sound(damaged, others)):
                yield _row(one, damaged, weighed, leader_id)
        if not compacted and not one.files.cleaner_offset:
            for damaged, copies in (*_moved(one, others), *_other_epochs(one, others)):
                yield _row(one, damaged, weigh(damaged, copies), leader_id)
    except UnreadBatchesError:
        return  # told with the input problems


def _of_its_epoch(one: Loaded, damaged: DamagedBatchFound, copies: list[Copy]) -> list[Copy]:
    """The copies that can be of a batch that was whole once: of the epoch that the replica's own table has there, if it has one.

    A batch of another epoch at the same offset is the leader's after a divergence, and other records.
    """
    told = epoch_for_offset(table(one.files.epochs), damaged.first_offset) if damaged.kind is DamageKind.CRC else None
    return copies if told is None else [copy for copy in copies if copy.header.leader_epoch == told]


def _is_nothing(damaged: DamagedBatchFound, weighed: Weighed) -> bool:
    """Whether nothing is known to be lost where reading stops: no replica has a batch there."""
    if damaged.kind is not DamageKind.UNFRAMED:
        return False
    return not weighed.good and (damaged.cut_by_recovery or damaged.stored is None)


def _is_sound(damaged: DamagedBatchFound, others: Sequence[Loaded]) -> bool:
    """Whether a batch that overlaps the one before it is where it is on other replicas: then the one before is wrong."""
    stored = damaged.stored
    return stored is not None and any(stored_header(copy.header) == stored for copy in _copies(others, stored.base_offset))


def _wrong_crcs(one: Loaded) -> Iterator[DamagedBatchFound]:
    """The batches that the scan found not to match their CRC, looked at again."""
    cut = one.log.recovery_cut if one.log else None
    for file, run in [(file, run) for file, runs in one.scanned.items() for run in runs if not run.intact]:
        for batch in _batches(one, run.first_offset, run.last_offset, file):
            computed = batch.read().computed_crc if batch.read else None
            if computed != batch.header.crc and batch.header.position >= 0:
                yield DamagedBatchFound(
                    broker_id=one.broker_id,
                    kind=DamageKind.CRC,
                    first_offset=batch.header.base_offset,
                    last_offset=batch.header.last_offset,
                    path=batch.path,
                    byte_offset=batch.header.position,
                    stored=stored_header(batch.header),
                    computed_crc=computed,
                    cut_by_recovery=cut is not None and batch.header.base_offset >= cut,
                )


def _unframed(one: Loaded, *, is_alive: bool) -> Iterator[DamagedBatchFound]:
    """Where reading a segment stops; not where a running broker may be writing."""
    stops = {problem.path: problem for problem in one.problems if problem.kind == "segment" and problem.code in _STOPS}
    files = one.files_in_log
    for place, file in enumerate(files):
        is_newest, problem = place == len(files) - 1, stops.get(file.path)
        if problem is None or (is_newest and is_alive and problem.code in TAILS):
            continue
        yield from _stop(one, file, problem, None if is_newest else files[place + 1].base_offset - 1)


def _stop(one: Loaded, file: SegmentFile, problem: Problem, last: int | None) -> Iterator[DamagedBatchFound]:
    cut = one.log.recovery_cut if one.log else None
    if problem.code == EMPTIED:
        yield DamagedBatchFound(
            broker_id=one.broker_id,
            kind=DamageKind.UNFRAMED,
            first_offset=file.base_offset,
            last_offset=last,
            path=file.path,
            byte_offset=0,
            stored=None,
        )
        return
    for item in one.stored_from(file.base_offset):
        if isinstance(item, StoredDamage) and item.path == file.path:
            if last is None or last >= item.next_offset:
                yield DamagedBatchFound(
                    broker_id=one.broker_id,
                    kind=DamageKind.UNFRAMED,
                    first_offset=item.next_offset,
                    last_offset=last,
                    path=file.path,
                    byte_offset=item.position,
                    stored=item.header if problem.code != "zero-filled-tail" else None,
                    overlaps=problem.code == "offsets-not-increasing",
                    cut_by_recovery=cut is not None and item.next_offset >= cut,
                )
            return
        if item.path != file.path:
            return


def _moved(one: Loaded, others: Sequence[Loaded]) -> Iterator[tuple[DamagedBatchFound, list[Copy]]]:
    """Batches behind a gap that stand elsewhere on other replicas: their base offset changed."""
    for file, place, run in _after(one):
        if place >= run.first_offset:
            continue
        batch = next(iter(_batches(one, run.first_offset, run.first_offset, file)), None)
        copies = [copy for copy in _copies(others, place) if batch and same_but_for_place(batch.header, copy.header)]
        if batch is not None and copies:
            yield _outside_crc(one, DamageKind.BASE_OFFSET, batch, copies[0]), copies


def _after(one: Loaded) -> Iterator[tuple[SegmentFile, int, BatchRun]]:
    """Each run with the offset that it should begin with: where the one before it ends, or the segment begins."""
    for file, runs in one.scanned.items():
        place = file.base_offset
        for run in runs:
            yield file, place, run
            place = run.last_offset + 1


def _other_epochs(one: Loaded, others: Sequence[Loaded]) -> Iterator[tuple[DamagedBatchFound, list[Copy]]]:
    """Batches whose leader epoch cannot be, and is another on other replicas.

    The same batch in two epochs is not damage by itself: a producer sends what was not acknowledged again, to the next leader.
    """
    own, told = _spans(one), set[int]()
    for other in others:
        if other.log is None or (one.log and other.log.runs == one.log.runs):
            continue
        for piece in epoch_pieces(own, _spans(other)):
            if not (is_impossible(piece) or is_between_equals(piece)):
                continue
            for batch in islice(_batches(one, piece.first_offset, piece.end_offset - 1), MOST):
                copies = [copy for copy in _copies(others, batch.header.base_offset) if same_but_for_place(batch.header, copy.header)]
                good = [copy for copy in copies if copy.header.leader_epoch == piece.other]
                if batch.header.base_offset not in told and _proves(piece, copies) and good:
                    told.add(batch.header.base_offset)
                    yield _outside_crc(one, DamageKind.LEADER_EPOCH, batch, good[0]), good


def _proves(piece: EpochPiece, copies: Sequence[Copy]) -> bool:
    """Whether it is this log whose epoch is wrong; where its order allows it, only two others that agree tell."""
    return is_impossible(piece) or votes(copies, piece.other) > 1


def _outside_crc(one: Loaded, kind: DamageKind, batch: StoredBatch, copy: Copy) -> DamagedBatchFound:
    return DamagedBatchFound(
        broker_id=one.broker_id,
        kind=kind,
        first_offset=copy.header.base_offset,
        last_offset=copy.header.last_offset,
        path=batch.path,
        byte_offset=batch.header.position if batch.header.position >= 0 else None,
        stored=stored_header(batch.header),
        computed_crc=batch.header.crc,
    )


def _runs(one: Loaded) -> list[BatchRun]:
    return [run for runs in one.scanned.values() for run in runs]


def _spans(one: Loaded) -> list[tuple[int, int, int]]:
    """The log as (first, end, epoch), neighbours of one epoch as one."""
    found: list[tuple[int, int, int]] = []
    for run in ascending(_runs(one)):
        if found and found[-1][1] == run.first_offset and found[-1][2] == run.leader_epoch:
            found[-1] = (found[-1][0], run.last_offset + 1, run.leader_epoch)
        else:
            found.append((run.first_offset, run.last_offset + 1, run.leader_epoch))
    return found


def _batches(one: Loaded, first: int, last: int, file: SegmentFile | None = None) -> Iterator[StoredBatch]:
    """The batches that hold any of these offsets, by what they say of themselves; of one file, or wherever they belong."""
    for item in one.stored_from(first if file is None else file.base_offset):
        if file is not None and item.path != file.path:
            return
        if isinstance(item, StoredBatch) and item.header.last_offset >= first:
            if item.header.base_offset > last:
                return
            yield item


def _copies(others: Sequence[Loaded], offset: int) -> list[Copy]:
    """The other replicas' batches that begin at an offset and pass their CRC, by broker."""
    return [copy for other in sorted(others, key=lambda one: one.broker_id) if (copy := _copy(other, offset)) is not None]


def _copy(other: Loaded, offset: int) -> Copy | None:
    run = next((run for run in _runs(other) if run.first_offset <= offset <= run.last_offset), None)
    if run is None or not run.intact:
        return None
    found = _batches(other, offset, offset)  # as long as it is there, its file is open
    try:
        batch = next(found, None)
        if batch is None or batch.header.position < 0 or batch.header.base_offset != offset:
            return None
        if batch.read is not None and batch.read().computed_crc != batch.header.crc:
            return None
    except UnreadBatchesError:
        return None
    return Copy(other.broker_id, batch.path, batch.header)


def _row(one: Loaded, damaged: DamagedBatchFound, weighed: Weighed, leader_id: int) -> DamagedBatch:
    good, is_known = weighed.good, weighed.recovery is Recovery.RECOVERABLE
    brokers = tuple(copy.broker_id for copy in good)
    source = next((copy for copy in good if copy.broker_id == leader_id), good[0]) if is_known else None
    stored = damaged.stored
    return DamagedBatch(
        topic=one.files.topic,
        partition=one.files.partition,
        broker_id=one.broker_id,
        damage=str(damaged.kind),
        first_offset=damaged.first_offset,
        last_offset=damaged.last_offset,
        path=damaged.path,
        byte_offset=damaged.byte_offset,
        size_bytes=stored.length + 12 if stored and damaged.kind is not DamageKind.UNFRAMED else None,
        leader_epoch=stored.leader_epoch if stored else None,
        stored_crc=stored.crc if stored else None,
        computed_crc=damaged.computed_crc,
        wrong_fields=weighed.fields,
        good_broker_ids=brokers,
        copies_agree=None if not good else weighed.recovery is not Recovery.COPIES_DISAGREE,
        recovery=str(weighed.recovery),
        recover_from_id=source.broker_id if source else None,
        good_path=source.path if source else None,
        good_leader_epoch=source.header.leader_epoch if source else None,
        good_crc=source.header.crc if source else None,
        cut_by_recovery=damaged.cut_by_recovery,
    )
