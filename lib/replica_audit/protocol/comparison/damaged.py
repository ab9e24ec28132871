"""Batches that changed on one disk, and what the other replicas' copies of the same offsets prove.

The rule is the product's own. It rests on this: followers append their leader's batches byte by byte, and a batch's CRC covers all but base
offset, length, leader epoch, magic and itself (DefaultRecordBatch.computeChecksum). So a copy that passes and has the CRC which the damaged
batch stores, or would have to store, is the batch that was written; and two copies that pass and agree were not changed alike by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import BatchHeader, StoredHeader

_UNCOUNTED = 12  # bytes of base offset and length, which the length does not count


class DamageKind(StrEnum):
    """How it shows that a batch changed after it was written."""

    CRC = "crc"  # its bytes do not match its CRC
    UNFRAMED = "unframed"  # what stands there is no batch: reading the segment stops
    BASE_OFFSET = "base_offset"  # it stands behind a gap, at other offsets than the same batch of other replicas
    LEADER_EPOCH = "leader_epoch"  # its leader epoch cannot be, and the same batch of other replicas has another


class Recovery(StrEnum):
    """What the other copies prove."""

    RECOVERABLE = "recoverable"  # a copy that passes is known to be the batch that was written
    UNCONFIRMED = "unconfirmed"  # one copy passes, and nothing tells that it is the same batch
    COPIES_DISAGREE = "copies_disagree"  # several pass, and are not the same
    NO_GOOD_COPY = "no_good_copy"


class Copy(NamedTuple):
    """Another replica's batch at the same offset, which passes its CRC, and its file."""

    broker_id: int
    path: str
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBatchFound:
    """A batch that is damaged on one broker.

    `last_offset` is inclusive, None where it is not known how far the damage goes. `stored`: its header as it is, None where too few bytes
    are left. `computed_crc`: of the bytes as they are. `overlaps`: it begins below the end of the batch before it.
    `cut_by_recovery`: the broker cuts it off when it starts.
    """

    broker_id: int
    kind: DamageKind
    first_offset: int
    last_offset: int | None
    path: str
    byte_offset: int | None
    stored: StoredHeader | None
    computed_crc: int | None = None
    overlaps: bool = False
    cut_by_recovery: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What the copies of a damaged batch prove.

    `good`: those that pass; of a recoverable batch those that are the batch as it was written. `fields`: what of the damaged batch is not
    theirs: names of fields of the header, or `payload`.
    """

    recovery: Recovery
    good: tuple[Copy, ...]
    fields: tuple[str, ...] = ()


def stored_header(header: BatchHeader) -> StoredHeader:
    """The first fields of a batch that could be read."""
    return StoredHeader(header.base_offset, header.size_bytes - _UNCOUNTED, header.leader_epoch, header.magic, header.crc)


def weigh(damaged: DamagedBatchFound, copies: Sequence[Copy]) -> Weighed:
    """Judge the copies of a damaged batch.

    Args:
        damaged: the batch.
        copies: the other replicas' batches that begin at the same offset and pass their CRC, by broker.
    """
    if not copies:
        return Weighed(recovery=Recovery.NO_GOOD_COPY, good=())
    known = {damaged.stored.crc if damaged.stored else None, damaged.computed_crc} - {None}
    if len({_same(copy) for copy in copies}) > 1:
        return Weighed(recovery=Recovery.COPIES_DISAGREE, good=tuple(copies))
    is_proven = len(copies) > 1 or copies[0].header.crc in known
    fields = wrong_fields(damaged, copies[0].header)
    return Weighed(recovery=Recovery.RECOVERABLE if is_proven else Recovery.UNCONFIRMED, good=tuple(copies), fields=fields)


def _same(copy: Copy) -> tuple[int, int, int, int, int]:
    header = copy.header
    return header.base_offset, header.last_offset, header.crc, header.leader_epoch, header.size_bytes


def wrong_fields(damaged: DamagedBatchFound, good: BatchHeader) -> tuple[str, ...]:
    """What of a damaged batch is not as in a good copy; the payload where no field of the header explains the CRC."""
    if damaged.stored is None:
        return ()
    right = stored_header(good)
    fields = [name for name, own, theirs in zip(StoredHeader._fields, damaged.stored, right, strict=True) if own != theirs]
    if damaged.kind is DamageKind.CRC and "length" not in fields and damaged.computed_crc != right.crc:
        fields.append("payload")
    return tuple(fields)


def same_but_for_place(own: BatchHeader, other: BatchHeader) -> bool:
    """Whether two batches are the same bytes as far as the CRC covers them."""
    spans = [one.last_offset - one.base_offset for one in (own, other)]
    return own.magic == other.magic == 2 and (own.crc, own.size_bytes, spans[0]) == (other.crc, other.size_bytes, spans[1])


class EpochPiece(NamedTuple):
    """Offsets [first, end) that two logs hold in different epochs, `own` and `other`, with what each holds before and behind them.

    None: nothing, or not adjacent.
    """

    first_offset: int
    end_offset: int
    own: int
    other: int
    own_before: int | None
    own_behind: int | None
    other_before: int | None
    other_behind: int | None


def is_impossible(piece: EpochPiece) -> bool:
    """Whether the first log's epoch breaks the order in which epochs only grow, and the other's does not."""
    return _breaks(piece.own_before, piece.own, piece.own_behind) and not _breaks(piece.other_before, piece.other, piece.other_behind)


def is_between_equals(piece: EpochPiece) -> bool:
    """Whether both logs go on alike behind the piece: then by the rule of log matching all before it was alike, too."""
    return piece.own_behind is not None and piece.own_behind == piece.other_behind


def _breaks(before: int | None, epoch: int, behind: int | None) -> bool:
    return (before is not None and before > epoch) or (behind is not None and behind < epoch)


def epoch_pieces(own: Sequence[tuple[int, int, int]], other: Sequence[tuple[int, int, int]]) -> list[EpochPiece]:
    """Where two logs hold offsets in different epochs; each is spans (first, end, epoch) by offset, no two alike side by side."""
    found: list[EpochPiece] = []
    left = right = 0
    while left < len(own) and right < len(other):
        first, end = max(own[left][0], other[right][0]), min(own[left][1], other[right][1])
        if first < end and own[left][2] != other[right][2]:
            around = [_around(spans, at, first, end) for spans, at in ((own, left), (other, right))]
            found.append(EpochPiece(first, end, own[left][2], other[right][2], *around[0], *around[1]))
        if own[left][1] <= other[right][1]:
            left += 1
        else:
            right += 1
    return found


def _around(spans: Sequence[tuple[int, int, int]], at: int, first: int, end: int) -> tuple[int | None, int | None]:
    """The epochs right before `first` and at `end`, which lie in the span at a place, or in its neighbours."""
    near = spans[max(at - 1, 0) : at + 2]
    before = next((epoch for begin, stop, epoch in near if begin <= first - 1 < stop), None)
    return before, next((epoch for begin, stop, epoch in near if begin <= end < stop), None)


def votes(copies: Sequence[Copy], epoch: int) -> int:
    """How many copies hold a batch in an epoch."""
    return Counter(copy.header.leader_epoch for copy in copies)[epoch]
