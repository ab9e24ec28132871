"""The replicas of a partition → the batches that are damaged on one of them, each with the replicas that hold them well."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import itemgetter

from replica_audit.formats.segment.record_batch import LAST_OFFSET
from replica_audit.formats.segment.segment_scan import NO_BATCH, TAILS, WRONG_CRC
from replica_audit.model import BatchHeader, BatchRun, Problem, SegmentFile, StoredBatch, StoredDamage
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
from replica_audit.protocol.epochs.epoch_table import ascending, epoch_for_offset, table
from replica_audit.rows.records import DamagedBatch
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
        copies, elsewhere = Copies(others), Copies(others)
        for damaged in chain(_wrong_crcs(one), _unframed(one, is_alive=is_alive)):
            weighed = weigh(damaged, _of_its_epoch(one, damaged, copies.at(damaged.first_offset)))
            if not _is_nothing(damaged, weighed) and not (damaged.overlaps and _is_sound(damaged, elsewhere)):
                yield _row(one, damaged, weighed, leader_id)
        if not compacted and not one.files.cleaner_offset:
            for damaged, good in chain(_moved(one, others), _other_epochs(one, others)):
                yield _row(one, damaged, weigh(damaged, good), leader_id)
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


def _is_sound(damaged: DamagedBatchFound, others: Copies) -> bool:
    """Whether a batch that overlaps the one before it is where it is on other replicas: then the one before is wrong."""
    stored = damaged.stored
    return stored is not None and any(stored_header(copy.header) == stored for copy in others.at(stored.base_offset))


def _wrong_crcs(one: Loaded) -> Iterator[DamagedBatchFound]:
    """The batches that the scan found not to match their CRC, looked at again."""
    cut = one.log.recovery_cut if one.log else None
    for file, runs in one.scanned.items():
        wrong = _wrong_offsets(runs)
        for batch in _batches(one, wrong[0][0], wrong[-1][1], file) if wrong else ():
            if not _touches(wrong, batch.header):
                continue
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


def _wrong_offsets(runs: Sequence[BatchRun]) -> list[tuple[int, int]]:
    """The offsets (first, last) of runs that do not match their CRCs, ascending and apart."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((run.first_offset, run.last_offset) for run in runs if not run.intact):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _touches(offsets: Sequence[tuple[int, int]], header: BatchHeader) -> bool:
    """Whether a batch holds any of some offsets, as of `_wrong_offsets`."""
    place = bisect_right(offsets, header.last_offset, key=itemgetter(0))
    return place > 0 and offsets[place - 1][1] >= header.base_offset


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
    held = Copies(others)
    for file, runs in one.scanned.items():
        gaps = _behind_gaps(file, runs)
        for number, batch in enumerate(_batches(one, 0, LAST_OFFSET, file) if gaps else ()):
            place, first = gaps.get(number, (0, -1))
            if batch.header.base_offset != first:
                continue
            copies = [copy for copy in held.at(place) if same_but_for_place(batch.header, copy.header)]
            if copies:
                yield _outside_crc(one, DamageKind.BASE_OFFSET, batch, copies[0]), copies


def _behind_gaps(file: SegmentFile, runs: Sequence[BatchRun]) -> dict[int, tuple[int, int]]:
    """The batches that stand behind a gap, by their number in the file: the offset that each should begin with, and the one that it has."""
    found, number, place = {}, 0, file.base_offset
    for run in runs:
        if place < run.first_offset:
            found[number] = place, run.first_offset
        number, place = number + run.batch_count, run.last_offset + 1
    return found


def _other_epochs(one: Loaded, others: Sequence[Loaded]) -> Iterator[tuple[DamagedBatchFound, list[Copy]]]:
    """Batches whose leader epoch cannot be, and is another on other replicas.

    The same batch in two epochs is not damage by itself: a producer sends what was not acknowledged again, to the next leader.
    """
    own, told = _spans(one), set[int]()
    for other in others:
        batches, held = LogCursor(one), Copies(others)
        if other.log is None or (one.log and other.log.runs == one.log.runs):
            continue
        for piece in epoch_pieces(own, _spans(other)):
            if not (is_impossible(piece) or is_between_equals(piece)):
                continue
            for batch in islice(batches.between(piece.first_offset, piece.end_offset - 1), MOST):
                copies = [copy for copy in held.at(batch.header.base_offset) if same_but_for_place(batch.header, copy.header)]
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


def _spans(one: Loaded) -> list[tuple[int, int, int]]:
    """The log as (first, end, epoch), neighbours of one epoch as one."""
    found: list[tuple[int, int, int]] = []
    for run in ascending([run for runs in one.scanned.values() for run in runs]):
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


class LogCursor:
    """The batches of a replica by offset. Asked in ascending order, it reads each once."""

    def __init__(self, one: Loaded) -> None:
        self._one, self._bases = one, [file.base_offset for file in one.files_in_log]
        self._items: Iterator[StoredBatch | StoredDamage] = iter(())
        self._item: StoredBatch | None = None
        self._place, self._offset = -1, -1

    def at(self, offset: int) -> StoredBatch | None:
        """The first batch that reaches an offset, in the segment that holds the offset or behind it. Its file is open until the next call.

        Raises:
            UnreadBatchesError: it can no longer be read.
        """
        place = max(bisect_right(self._bases, offset) - 1, 0)
        if place != self._place or offset < self._offset:
            self._place, self._offset = place, offset
            self._items, self._item = self._one.stored_from(offset), None
            self._go_on()
        self._offset = offset
        while self._item is not None and self._item.header.last_offset < offset:
            self._go_on()
        return self._item

    def _go_on(self) -> None:
        self._item = next((item for item in self._items if isinstance(item, StoredBatch)), None)

    def between(self, first: int, last: int) -> Iterator[StoredBatch]:
        """The batches that hold any of these offsets."""
        batch = self.at(first)
        while batch is not None and batch.header.base_offset <= last:
            if batch.header.last_offset >= first:
                yield batch
            if batch.header.last_offset > last:
                return  # it may hold what is asked for next
            self._go_on()
            batch = self._item


class Copies:
    """The batches of other replicas, by offset, that pass their CRC. Asked in ascending order, each of their logs is read once."""

    def __init__(self, others: Sequence[Loaded]) -> None:
        self._cursors = {one.broker_id: LogCursor(one) for one in sorted(others, key=lambda one: one.broker_id)}

    def at(self, offset: int) -> list[Copy]:
        """Those that begin at an offset, by broker."""
        return [copy for broker in self._cursors if (copy := self._of(broker, offset)) is not None]

    def _of(self, broker: int, offset: int) -> Copy | None:
        try:
            batch = self._cursors[broker].at(offset)
            if batch is None or batch.header.position < 0 or batch.header.base_offset != offset or batch.header.crc_valid is False:
                return None
            if batch.read is not None and batch.read().computed_crc != batch.header.crc:
                return None
        except UnreadBatchesError:
            return None
        return Copy(broker, batch.path, batch.header)


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
