"""Batches as they are stored, read a second time with all their bytes: what tells two replicas apart beyond a header."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.model.batches import BatchHeader, Damage
from replica_audit.model.transactions import EndMarker


class HashedRecord(NamedTuple):
    """One record without its contents: enough to tell whether two are equal.

    `key_bytes` and `value_bytes` are their sizes, None where there is none. Digests are of 128 bits; that of the headers is of all of them.
    """

    offset: int
    timestamp_ms: int
    key_bytes: int | None
    value_bytes: int | None
    key: bytes
    value: bytes
    headers: bytes


class BatchBody(NamedTuple):
    """What lies behind a batch's header: the CRC of its bytes as they are, and its records, or why they cannot be had."""

    computed_crc: int
    records: tuple[HashedRecord, ...]
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch and the file that holds it.

    `read` gives its body until the next batch is asked for; None where the input has headers only (collected batches, text). `marker`
    gives, as long, which transaction marker a control batch is, None if it is none or that cannot be read; None where the input does not
    have it. `read_keys` gives, as long, the keys of its records by offset; empty if they cannot be had.
    """

    path: str
    header: BatchHeader
    read: Callable[[], BatchBody] | None
    marker: Callable[[], EndMarker | None] | None = None
    read_keys: Callable[[], Mapping[int, bytes | None]] | None = None


class StoredHeader(NamedTuple):
    """The first fields of a batch as they are stored, whether or not they make sense; `length` counts what is behind it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int


@dataclass(frozen=True, slots=True)
class StoredDamage:
    """Where a segment stops being a log, before `next_offset`, and what stands there.

    `position` is the byte behind the last batch that could be read; `header` is None if there are too few bytes.
    """

    path: str
    damage: Damage
    position: int
    next_offset: int
    header: StoredHeader | None
