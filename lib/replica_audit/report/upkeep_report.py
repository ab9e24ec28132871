"""What the upkeep of a warehouse did, or would do, and the words for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date

from replica_audit.errors import visible
from replica_audit.retention.choice import Reason
from replica_audit.words import count

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


_LISTED = 20  # runs; --json has all
WHY = {
    Reason.RUNNING: "a process is at it",
    Reason.NEWEST: "the newest complete run of its cluster",
    Reason.AMONG_NEWEST: "among the newest complete runs of its cluster that --keep-runs keeps",
    Reason.YOUNG: "not older than --keep-days",
    Reason.OLD: "older than --keep-days",
    Reason.REMOVAL_BEGUN: "its removal was begun before",
}


def summary(upkeep: Upkeep) -> str:
    """What the command prints at its end."""
    return "\n".join(map(visible, _lines(upkeep))) + "\n"


def restored(restoration: Restoration) -> str:
    """What the command prints at the end of a restoration."""
    return "\n".join(map(visible, _restored_lines(restoration))) + "\n"


def as_json(upkeep: Upkeep | Restoration) -> str:
    """The same with every run and every table, for programs."""
    return json.dumps(asdict(upkeep) | {"exit_code": upkeep.exit_code}, default=str, indent=1) + "\n"


def _lines(upkeep: Upkeep) -> Iterator[str]:
    going = [run for run in upkeep.runs if run.goes]
    yield f"Of {count(len(upkeep.runs), 'run')} in {upkeep.warehouse}, {_verb(upkeep, len(going))}:"
    yield from _listed(going)
    for reason, number in sorted(Counter(run.reason for run in upkeep.runs if not run.goes).items()):
        yield f"  {number} {'stays' if number == 1 else 'stay'}: {WHY[reason]}"
    yield ""
    touched = [one for one in upkeep.tables if one != UpkeptTable(table=one.table)]
    for one in touched:
        yield f"  {one.table}: {_of_table(one)}"
    rows, files = sum(one.rows for one in upkeep.tables), sum(one.removed_files or 0 for one in upkeep.tables)
    freed = _size(sum(one.freed_bytes or 0 for one in upkeep.tables))
    would = "would be " if upkeep.is_dry else ""
    runs = f"{count(len(upkeep.removed_runs), 'run')} and {count(rows, 'row')} {would}deleted"
    yield f"{runs}, {count(files, 'file')} {would}removed, {freed} {would}freed."
    if rows or any(one.merged_files for one in upkeep.tables):
        yield (
            f"Files that are no longer used from now on are removed by a later start, once they have not been used for "
            f"{upkeep.vacuum_hours} hours."
        )
    if upkeep.is_dry:
        yield "Nothing was changed: this was a dry run."
    yield from _failed(upkeep.failures)


def _restored_lines(made: Restoration) -> Iterator[str]:
    would = "would be " if made.is_dry else ""
    if not made.tables and not made.lost_runs:
        yield f"{made.warehouse}: every table is whole, and no complete run lacks rows."
    for one in made.tables:
        back = "no version of it is whole" if one.version is None else f"{would}taken back to version {one.version}"
        yield f"{one.table}: {back}"
        yield from (f"  {file}" for file in one.damaged)
        if one.set_aside:
            yield f"  {would}renamed into {one.table}/_damaged: {', '.join(one.set_aside)}"
    if made.lost_runs:
        counts = "would count" if made.is_dry else "counts" if len(made.lost_runs) == 1 else "count"
        yield f"{count(len(made.lost_runs), 'run')} {counts} no more; audit again, with the same --run-id:"
    yield from (f"  {lost.run_id}: {lost.why}" for lost in made.lost_runs)
    if made.is_dry:
        yield "Nothing was changed: this was a dry run."
    yield from _failed(made.failures)


def _failed(failures: Sequence[FailedStep]) -> Iterator[str]:
    if failures:
        yield f"Not everything was done, {count(len(failures), 'step')} failed; start it again after the remedy, and it goes on:"
    for failed in failures:
        yield f"  {failed.table}: {failed.what}: {failed.reason}; {failed.remedy}"


def _verb(upkeep: Upkeep, number: int) -> str:
    if upkeep.is_dry:
        return f"{number} would be removed"
    left = number - len(upkeep.removed_runs)
    counts = f"{'which counts' if left == 1 else 'which count'} for no reader any more"
    return f"{len(upkeep.removed_runs)} removed" + (f", {left} more to be removed, {counts}" if left else "")


def _listed(going: list[RunFate]) -> Iterator[str]:
    for run in going[:_LISTED]:
        yield f"  {run.run_id} of {run.run_date}: {WHY[run.reason]}"
    if len(going) > _LISTED:
        yield f"  and {count(len(going) - _LISTED, 'more run', 'more runs')}"


def _of_table(one: UpkeptTable) -> str:
    said = [count(one.rows, "row") + " deleted"] if one.rows else []
    if one.merged_files:
        said.append(f"{count(one.merged_files, 'file')} merged into {one.made_files}")
    if one.removed_files:
        said.append(f"{count(one.removed_files, 'unused file')} removed, {_size(one.freed_bytes or 0)}")
    if one.removed_files is None:
        said.append("unused files removed, how many is unknown of a store or a catalog")
    return ", ".join(said)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else count(size_bytes, "byte")
