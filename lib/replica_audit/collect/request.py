"""What is asked of a collection, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from replica_audit.collect.retained_collection import RetainedCollection
from replica_audit.formats.collection.manifest import Manifest, Unread, utc_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """What to collect. `log_dirs` and `server_properties` exclude each other; `rate` is in bytes a second, None for as fast as it goes.

    `topics` is a regular expression for whole names, empty for all; `group_offsets_limit` how many bytes of `__consumer_offsets` and
    `__transaction_state` may be copied. `since` is an earlier collection to take over from, or the folder that holds it;
    `verify_within_s` how many seconds the CRCs of a segment that is taken over may be unverified, `time_limit_s` how long the run may last
    before it leaves what is due to the next one. `follow_links`: also out of the log directories.
    """

    output: Path
    log_dirs: tuple[Path, ...] = ()
    server_properties: Path | None = None
    broker_id: int | None = None
    replace: bool = False
    rate: int | None = None
    verify_crc: bool = True
    has_index: bool = True
    topics: str = ""
    group_offsets_limit: int = 2 << 30
    since: Path | None = None
    verify_within_s: int | None = None
    time_limit_s: int | None = None
    follow_links: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectResult:
    """Where the collection is, what its manifest says, and the earlier collection that is kept beside it."""

    folder: Path
    manifest: Manifest
    kept: RetainedCollection | None = None

    @property
    def unread(self) -> tuple[Unread, ...]:
        """Everything that could not be read."""
        return (*self.manifest.unread, *(unread for one in self.manifest.log_dirs for unread in one.unread))

    @property
    def exit_code(self) -> int:
        """0, or 3 if anything could not be read."""
        return 3 if self.unread else 0

    @property
    def oldest_check(self) -> str | None:
        """When the CRCs were verified of the segment whose last check is the longest ago, in UTC; None if those of none were."""
        known = [replica.verified_at_ms for one in self.manifest.log_dirs for replica in one.replicas if replica.verified_at_ms is not None]
        return utc_text(min(known)) if known else None

    @property
    def never_verified(self) -> int:
        """How many replicas have segments whose CRCs were never verified."""
        return sum(replica.segments > 0 and replica.verified_at_ms is None for one in self.manifest.log_dirs for replica in one.replicas)
