"""Replicas whose `leader-epoch-checkpoint` is malformed or contradicts their batches → with the lines that the file should have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from replica_audit.formats.log_dir.checkpoints import leader_epoch_checkpoint
from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT
from replica_audit.formats.segment.segment_scan import IF_THE_SAME
from replica_audit.model import NOT_OPENED, Problem, ReplicaFiles
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.epochs.checkpoint_repair import CorrectedEntry, Correction, EntrySource, Undetermined, as_table, corrected
from replica_audit.protocol.epochs.epoch_table import EpochTable
from replica_audit.protocol.epochs.replica_log import LoadedLog, contradiction, moved_start

_SHOWN = 40  # entries of a table in a sentence; more are in replica_logs.corrected_checkpoint
_NEVER = "do not delete or rename the file: after a clean stop a broker does not rebuild it from the log"
_UNDETERMINED = {
    Undetermined.CORRUPT_BATCH: "one of them does not match its CRC",
    Undetermined.BROKEN_SEGMENT: "a segment is damaged, or overlaps the one before it",
    Undetermined.BATCH_WITHOUT_EPOCH: "one of them has no epoch, though its format has one",
    Undetermined.EPOCHS_GO_BACKWARDS: "their epochs go backwards: the log holds two histories",
}
_FROM = {
    EntrySource.FILE: "kept from the file, no batch contradicts them",
    EntrySource.OTHER_REPLICA: "from the tables of other replicas",
    EntrySource.FIRST_BATCH_LEFT: "from the first batch that compaction left, the epoch may have started earlier",
}


def with_corrections(loaded: Sequence[Loaded], *, alive: Callable[[Loaded], bool | None]) -> list[Loaded]:
    """Give each replica whose checkpoint is wrong the lines that it should have, and the problems about it a remedy that prints them.

    Args:
        loaded: every replica directory of one partition.
        alive: whether the broker of a replica ran when its files were copied; None if unknown.
    """
    tables = _tables(loaded)
    return [_corrected(one, _but(tables, one.broker_id), alive(one)) for one in loaded]


def _corrected(one: Loaded, others: Mapping[int, EpochTable], alive: bool | None) -> Loaded:
    files, log = one.files, one.log
    told = {problem.code for problem in one.problems if problem.kind == EPOCH_CHECKPOINT}
    if log is None or not files.has_known_table or not NOT_OPENED.isdisjoint(told):
        return one
    found = None if files.checkpoint_state == "unreadable" else _contradiction(one, log, alive)
    if found is None and files.checkpoint_state not in ("unreadable", "healed"):
        return one
    made = corrected(_lines(one), log, others)
    remedy = _remedy(made, files, heals=files.checkpoint_state == "healed" and found is None)
    problems = [replace(problem, remedy=remedy) if _is_about_lines(problem) else problem for problem in one.problems]
    if found and not isinstance(made, Undetermined) and files.checkpoint_state != "healed":
        problems.append(replace(found, remedy=remedy))
    return replace(one, problems=tuple(problems), correction=made)


def with_refused(loaded: Sequence[Loaded], brokers: Collection[int | None]) -> list[Loaded]:
    """Give the replicas of these brokers the lines that they should have too: a fetch that the leader refuses proves their files wrong.

    A running leader's file may have been copied before its batches, so that a line which is missing proves nothing until a follower is
    seen to be kept out by it.
    """
    tables = _tables(loaded)
    return [
        replace(one, correction=corrected(_lines(one), one.log, _but(tables, one.broker_id)))
        if one.broker_id in brokers and one.log is not None and one.is_compared and one.correction is None
        else one
        for one in loaded
    ]


def corrected_tables(loaded: Sequence[Loaded]) -> dict[int, EpochTable]:
    """The tables of the files that are corrected, by broker."""
    made = {one.broker_id: one.correction for one in loaded if one.is_compared and one.correction is not None}
    return {broker: as_table(entries) for broker, entries in made.items() if not isinstance(entries, Undetermined)}


def with_right_table(one: Loaded) -> LoadedLog | None:
    """Its log with the table that its file should hold, if it has a wrong one."""
    if one.log is None or one.correction is None or isinstance(one.correction, Undetermined):
        return one.log
    return replace(one.log, epochs=as_table(one.correction))


def corrected_content(correction: Correction | None) -> str | None:
    """What the file should hold, byte for byte as Kafka writes it; None where it is right or no table can be made."""
    return None if correction is None or isinstance(correction, Undetermined) else leader_epoch_checkpoint(as_table(correction)).decode()


def _tables(loaded: Sequence[Loaded]) -> dict[int, EpochTable]:
    return {one.broker_id: one.log.epochs for one in loaded if one.log and one.is_compared and not one.unreadable}


def _but(tables: Mapping[int, EpochTable], broker: int) -> dict[int, EpochTable]:
    return {other: found for other, found in tables.items() if other != broker}


def _lines(one: Loaded) -> list[tuple[int, int]]:
    return [(epoch, start) for _line, epoch, start in one.files.checkpoint]


def _is_about_lines(problem: Problem) -> bool:
    return problem.kind == EPOCH_CHECKPOINT and problem.code in ("malformed", "checkpoint-out-of-order")


def _contradiction(one: Loaded, log: LoadedLog, alive: bool | None) -> Problem | None:
    """Where the table that the broker would use contradicts the batches, below neither the cleaner checkpoint nor a moved log start."""
    start = moved_start(log.epochs, log) if alive is not False else None
    floor = max(log.log_start_offset, one.files.cleaner_offset or 0, start or 0)
    found = contradiction(log.epochs, log.runs, floor, copied_apart=bool(alive)) if one.is_compared else None
    if found is None:
        return None
    run, offset, epoch = found
    state = {"missing": "the file is missing: it", "empty": "the file has no entry: it"}.get(one.files.checkpoint_state, "the table")
    return Problem(
        path=one.files.inside(EPOCH_CHECKPOINT),
        kind=EPOCH_CHECKPOINT,
        code="checkpoint-contradicts-batches",
        detail=f"{state} gives {'no epoch' if epoch is None else f'epoch {epoch}'} at offset {offset}, the batch there has "
        f"{f'epoch {run.leader_epoch}' if run.leader_epoch >= 0 else 'none'}",
        remedy="",
        line=next((line for line, known, _start in one.files.checkpoint if known == epoch), None),
    )


def _remedy(entries: Correction, files: ReplicaFiles, *, heals: bool) -> str:
    if heals:
        return "none needed: the table that a broker loads from these lines agrees with the batches"
    if isinstance(entries, Undetermined):
        return f"the batches of this log do not determine a table ({_UNDETERMINED[entries]}); {IF_THE_SAME}; {_NEVER}"
    again = "copy the file again; if the broker has the same file, " if files.checkpoint_state != "missing" else ""
    return (
        f"{again}correct it while the broker is stopped: the plan (--plan DIR) writes the corrected file and the script that puts it in "
        f"place, or says why not. {_entries(entries)}{_sources(entries)}; {_NEVER}"
    )


def _entries(entries: tuple[CorrectedEntry, ...]) -> str:
    """The corrected lines below the count of them."""
    if len(entries) > _SHOWN:
        return f"Its {len(entries)} entries are in replica_logs.corrected_checkpoint"
    return "Its entries: " + ", ".join(f"'{entry.epoch} {entry.start_offset}'" for entry in entries)


def _sources(entries: tuple[CorrectedEntry, ...]) -> str:
    """Where the lines are from that are not exact by the batches alone."""
    said = "".join(f"; {', '.join(lines)}: {_FROM[source]}" for source, lines in _by_source(entries))
    return f" (they follow from the replica's batches{said})"


def _by_source(entries: tuple[CorrectedEntry, ...]) -> Iterator[tuple[EntrySource, list[str]]]:
    for source in _FROM:
        lines = [f"'{entry.epoch} {entry.start_offset}'" for entry in entries if entry.source is source]
        if lines:
            yield source, lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], "..."]
