"""Reading a segment file: batch headers in order, the point where they stop, and runs of one epoch.

Source: FileLogInputStream.nextBatch (clients, 4.2.0): reading ends where 17 bytes or fewer are left or the next batch does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from replica_audit.errors import SegmentError
from replica_audit.formats.record_batch import HEADER_UP_TO_MAGIC, SMALLEST_LENGTH, V2_HEADER, checksum, decode_header
from replica_audit.model import BatchHeader, Damage, Run
from replica_audit.protocol.cuts import records_in

_BUFFER = 1 << 20
MAX_RUNS = 10_000  # per segment; only a compacted log has that many holes, and there they prove nothing


def base_offset_of(path: Path) -> int:
    """The base offset in a segment's file name; 0 if the name has none."""
    digits = path.name.split(".", 1)[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def read_batches(path: Path, *, verify_crc: bool = True) -> Iterator[BatchHeader | Damage]:
    """The batches of a segment file in order; a `Damage` is the last item if reading stops before the end of the file.

    Args:
        path: of the file.
        verify_crc: whether to read every byte and set `crc_valid`; a wrong CRC does not stop the reading, as it does not stop Kafka's.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=_BUFFER) as stream:
        size = path.stat().st_size
        yield from _batches(stream, size, base_offset_of(path), verify_crc=verify_crc)


def _batches(stream: BinaryIO, size: int, base_offset: int, *, verify_crc: bool) -> Iterator[BatchHeader | Damage]:
    position, next_offset = 0, base_offset
    while size - position > HEADER_UP_TO_MAGIC:
        stream.seek(position)
        head = stream.read(min(V2_HEADER.size, size - position))
        if len(head) < min(V2_HEADER.size, size - position):  # the file became shorter while it was read
            size = position + len(head)
            break
        length = int.from_bytes(head[8:12], "big", signed=True)
        if length < SMALLEST_LENGTH:
            yield _impossible_length(stream, head, length, position, size)
            return
        if length > size - position - 12:
            yield Damage(code="torn-batch", detail=f"{size - position} bytes behind the last batch", byte_offset=position)
            return
        try:
            header = decode_header(head, position, next_offset)
        except SegmentError as error:
            yield Damage(code="bad-batch-header", detail=error.reason, byte_offset=error.byte_offset)
            return
        if header.base_offset < next_offset:
            detail = f"batch begins at offset {header.base_offset}, below {next_offset} where the log already is"
            yield Damage(code="offsets-not-increasing", detail=detail, byte_offset=position)
            return
        if verify_crc:
            header = header._replace(crc_valid=checksum(stream, header, head) == header.crc)
        yield header
        position += header.size_bytes
        next_offset = header.last_offset + 1
    if size > position:
        yield Damage(code="trailing-bytes", detail=f"{size - position} bytes behind the last batch", byte_offset=position)


def _impossible_length(stream: BinaryIO, head: bytes, length: int, position: int, size: int) -> Damage:
    stream.seek(position)
    if not any(head) and not any(any(chunk) for chunk in iter(lambda: stream.read(_BUFFER), b"")):
        return Damage(code="zero-filled-tail", detail=f"{size - position} zero bytes behind the last batch", byte_offset=position)
    return Damage(code="bad-batch-length", detail=f"batch length {length} is below the minimum of {SMALLEST_LENGTH}", byte_offset=position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One segment in few rows: `runs` in file order, where reading stopped, and the byte position of the first batch with a wrong CRC."""

    runs: tuple[Run, ...]
    damage: Damage | None
    first_bad_crc: int | None


def scan(items: Iterable[BatchHeader | Damage]) -> Scan:
    """Fold batches into runs: a run ends where the epoch changes, an offset is missing, or the CRC starts or stops to match.

    Beyond `MAX_RUNS` missing offsets no longer end a run.
    """
    runs: list[Run] = []
    damage: Damage | None = None
    bad: int | None = None
    for item in items:
        if isinstance(item, Damage):
            damage = item
            continue
        intact = item.crc_valid is not False
        if not intact and bad is None:
            bad = item.position
        if runs and _continues(runs[-1], item, intact, any_gap=len(runs) >= MAX_RUNS):
            runs[-1] = _extended(runs[-1], item)
        else:
            runs.append(_started(item, intact))
    return Scan(runs=tuple(runs), damage=damage, first_bad_crc=bad)


def _continues(run: Run, batch: BatchHeader, intact: bool, *, any_gap: bool) -> bool:
    if run.leader_epoch != batch.leader_epoch or run.intact != intact:
        return False
    return any_gap or batch.base_offset == run.last_offset + 1


def _started(batch: BatchHeader, intact: bool) -> Run:
    return Run(
        leader_epoch=batch.leader_epoch,
        first_offset=batch.base_offset,
        last_offset=batch.last_offset,
        batch_count=1,
        record_count=records_in(batch),
        size_bytes=batch.size_bytes,
        min_timestamp_ms=batch.max_timestamp_ms,
        max_timestamp_ms=batch.max_timestamp_ms,
        magic=batch.magic,
        intact=intact,
    )


def _extended(run: Run, batch: BatchHeader) -> Run:
    return run._replace(
        last_offset=batch.last_offset,
        batch_count=run.batch_count + 1,
        record_count=run.record_count + records_in(batch),
        size_bytes=run.size_bytes + batch.size_bytes,
        min_timestamp_ms=min(run.min_timestamp_ms, batch.max_timestamp_ms),
        max_timestamp_ms=max(run.max_timestamp_ms, batch.max_timestamp_ms),
        magic=max(run.magic, batch.magic),
    )
