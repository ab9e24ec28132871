"""What an upkeep of a warehouse did, or would do: runs, rows, files and bytes, and what failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from replica_audit.retention.choice import Reason

DONE, PARTLY_DONE = 0, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFate:
    """What becomes of a run. `cluster_ids` are the clusters that it is about, `kept_for` those for whose sake it stays."""

    run_id: str
    cluster_ids: tuple[str, ...]
    run_date: date
    goes: bool
    reason: Reason
    kept_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeptTable:
    """A table.

    Args:
        table: its name.
        rows: rows of runs that go, deleted.
        merged_files: small files that were put together; they stay on the disk until they are old enough to be removed.
        made_files: what they were put together to.
        removed_files: files that no run uses, removed from the disk; None of a table whose files cannot be listed from here.
        freed_bytes: their size; None likewise.
    """

    table: str
    rows: int = 0
    merged_files: int = 0
    made_files: int = 0
    removed_files: int | None = 0
    freed_bytes: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTable:
    """A damaged table.

    Args:
        table: its name.
        version: the last version that is whole, which it is taken back to; None if none is.
        damaged: the files that are damaged, and how.
        set_aside: the files of its log that are in the way, renamed into the folder `_damaged` beside the log.
    """

    table: str
    version: int | None
    damaged: tuple[str, ...]
    set_aside: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A run of which rows are lost, and what of it: `table findings has 0 rows of run b, which wrote 15`."""

    run_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """A step that failed for a table: `what` was to be done, `reason` and `remedy` in a sentence each."""

    table: str
    what: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What came of an upkeep.

    Args:
        warehouse: where the tables are.
        is_dry: nothing was changed; the numbers are what would be.
        vacuum_hours: files that have not been used for so many hours are removed.
        runs: every run, in the order in which they began.
        removed_runs: ids of the runs of which nothing is left; of a dry run, would be.
        tables: every table that is there, in the order of the catalogue.
        failures: what could not be done.
    """

    warehouse: str
    is_dry: bool
    vacuum_hours: int
    runs: tuple[RunFate, ...]
    removed_runs: tuple[str, ...]
    tables: tuple[UpkeptTable, ...]
    failures: tuple[FailedStep, ...]

    @property
    def exit_code(self) -> int:
        """0 done, 3 partly."""
        return PARTLY_DONE if self.failures else DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """What came of a restoration.

    Args:
        warehouse: where the tables are.
        is_dry: nothing was changed; this is what would be.
        tables: those that were damaged.
        lost_runs: the runs that lack rows then, which count for no reader any more.
        failures: what could not be done.
    """

    warehouse: str
    is_dry: bool
    tables: tuple[RestoredTable, ...]
    lost_runs: tuple[LostRun, ...]
    failures: tuple[FailedStep, ...]

    @property
    def exit_code(self) -> int:
        """0 done, 3 partly."""
        return PARTLY_DONE if self.failures else DONE
