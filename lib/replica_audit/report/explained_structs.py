"""What single columns of the tables hold: structs, named as their fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """The fetch that the leader refuses for good: `replica_verdicts.stuck`."""

    fetch_offset: int
    requested_epoch: int | None
    answered_epoch: int | None
    answered_end_offset: int | None
    back_to_offset: int
    before_records: bool
    fresh_replica_too: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongLine:
    """A line of a leader-epoch-checkpoint that its batches contradict: an element of `replica_verdicts.wrong_lines`."""

    epoch: int
    start_offset: int | None
    found_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets [first, end) that one of the two logs misses: `replica_verdicts.hole`."""

    broker_id: int
    first_offset: int
    end_offset: int
    segment_before: int | None
    segment_after: int | None
    is_cut: bool
