"""What `maintain` prints and writes: which runs go and why the others stay, and what each table was rid of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from replica_audit.errors import visible
from replica_audit.report.facts.upkeep_facts import FailedStep, Restoration, RunFate, Upkeep, UpkeptTable
from replica_audit.retention.choice import Reason
from replica_audit.words import count

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
