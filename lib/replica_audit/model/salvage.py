"""What is saved of the records that a cut removes: the work of one task, and what came of it. Ends are exclusive unless named `last_`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.model.replicas import SegmentFile


class AuditedRun(NamedTuple):
    """A row of `segment_epochs`: batches of one leader epoch in a segment, as the audit read them. `last_offset` is inclusive."""

    leader_epoch: int
    first_offset: int
    last_offset: int
    batch_count: int
    record_count: int
    size_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSegment:
    """A segment of a replica, and what the audit read of it, by which it is known whether the file is still the same.

    `runs`: neighbouring runs of one epoch joined; None where the tables do not tell this segment from another one.
    """

    file: SegmentFile
    runs: tuple[AuditedRun, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """What one follower's cut removes of its log: the offsets from `first_offset` to `end_offset`, as the run's tables have it.

    `record_count` and `size_bytes` are `removed_records` and `removed_bytes`, None where the audit could not read the batches.
    `differs_from`: the first offset at which the leader's log differs, None if none is known. `already_truncated`: its broker has made the
    cut since it was copied. `compacted`: batches may be missing in the topic without harm.
    """

    cluster_id: str
    topic: str
    partition: int
    leader_id: int
    broker_id: int
    verdict: str
    first_offset: int
    end_offset: int
    record_count: int | None
    size_bytes: int | None
    differs_from: int | None
    already_truncated: bool
    compacted: bool

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLog:
    """The leader's log as far as it matters to a cut: its segments from `from_offset` on, which the audit found between two offsets.

    `unread`: why its records cannot be looked at; None if they can.
    """

    log_start_offset: int
    log_end_offset: int
    from_offset: int
    segments: tuple[AuditedSegment, ...]
    unread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedLog:
    """A replica directory of a run: where it lay, and from where to where its log went."""

    log_dir: str
    directory: str
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedBefore:
    """Offsets that a broker's own log says it had removed before its files were copied."""

    topic: str
    partition: int
    broker_id: int | None
    first_offset: int
    end_offset: int
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageUnit:
    """The part of a cut that lies in one segment: what one task saves into one file.

    `following` and `preceding` are the paths of the other segments of the log, the nearest first: the markers of transactions are looked
    for in those, their beginnings in these; `has_all_preceding`: the last of `preceding` is the first segment of the log.
    """

    cut: LogCut
    output: str
    segment: AuditedSegment
    following: tuple[str, ...]
    preceding: tuple[str, ...]
    has_all_preceding: bool
    leader: LeaderLog


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsavedRange:
    """Offsets of a cut whose records could not be saved, and why. `record_count` is what the batch's header says, None if not known."""

    first_offset: int
    last_offset: int
    record_count: int | None
    code: str
    detail: str
    remedy: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """What came of a unit.

    `output`: its file, None if there is none. `made_of`: a digest of the unit, except where its file is. `record_count`: records of users
    that were saved. `control_count`: control records, which are not. `header_records` and `header_bytes`: what the headers of the batches
    sum up to, as `removed_records` does. `kept_back`: how many of the saved records are not for the replay, by reason; `transactions`: how
    many by the state of their transaction, `begun_below_cut`: how many of one that begins below the cut. `changed`: why the file is not the
    one that was audited; None if it is.
    """

    broker_id: int
    topic: str
    partition: int
    output: str | None
    made_of: str = ""
    record_count: int = 0
    control_count: int = 0
    header_records: int = 0
    header_bytes: int = 0
    kept_back: tuple[tuple[str, int], ...] = ()
    transactions: tuple[tuple[str, int], ...] = ()
    begun_below_cut: int = 0
    unsaved: tuple[UnsavedRange, ...] = ()
    changed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayUnit:
    """The saved files of one partition, and the replay files that are to be made of them.

    `saved`: for each holder its files in the order of their offsets, with `saved_records` in all of them. `asked_for`: reasons for which a
    record that would be kept back is replayed all the same.
    """

    topic: str
    partition: int
    saved: tuple[tuple[str, ...], ...]
    saved_records: int
    console: str
    encoded: str
    asked_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What came of it. A file without records is not made, its name is None.

    `duplicates`: records that another broker had, too, and that are replayed once. `unsendable`: those that no client can send again, for
    the name of a header is not UTF-8.
    """

    topic: str
    partition: int
    saved_records: int
    console: str | None
    console_records: int
    encoded: str | None
    encoded_records: int
    duplicates: int
    unsendable: int
    console_sha256: str | None = None
    encoded_sha256: str | None = None
