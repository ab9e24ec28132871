"""What an acknowledgement is about, of a run: the findings that one entry covers, or no longer covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from replica_audit.protocol.verdict.acknowledgement import AckState


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedPlace:
    """A partition that a finding is about."""

    cluster_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedGroup:
    """Open findings that one entry of the file is about, `count` of them; `partitions` are of the first. `until`: the last day."""

    state: AckState
    reason: str
    who: str
    until: date
    line: int
    count: int
    codes: tuple[str, ...]
    partitions: tuple[AcknowledgedPlace, ...]
