"""What a listing sees of a source of rows without reading it: enough to tell whether it is still what it was."""

from __future__ import annotations

from typing import NamedTuple

PartitionKey = tuple[str, str, int]  # cluster id, topic, partition


class Appearance(NamedTuple):
    """One replica directory, one claim of metadata or one logged event, as it looks from outside.

    `identity` is a digest of all that rows can depend on, but for the numbers beside it, which change every night though nothing happened;
    None where that cannot be told without reading everything. `log_dir` and `directory` are those of a replica, None of others.
    `captured_at_ms` and `verified_at_ms` are as of `ReplicaFiles`, `looked_at_ms` is that of its second look; `known_at_ms` is when the
    file beside the brokers was written; `log_epoch` and `log_end_offset` tell how far a copy of the metadata log reaches, -1 for others.
    `times_ms` are moments of the past that a claim tells, which others may be compared with.
    """

    identity: str | None
    log_dir: str | None = None
    directory: str | None = None
    captured_at_ms: int | None = None
    verified_at_ms: int | None = None
    looked_at_ms: int | None = None
    known_at_ms: int | None = None
    log_epoch: int = -1
    log_end_offset: int = -1
    times_ms: tuple[int, ...] = ()


class PartitionLook(NamedTuple):
    """The look of a replica directory, a claim or an event, with the partition that it is of."""

    topic: str
    partition: int
    look: Appearance
