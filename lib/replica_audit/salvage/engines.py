"""A salvage in this process, for little, and on Spark, for much: the same stages, and equal files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from replica_audit.model.salvage import ReplayOutcome, ReplayUnit, SalvageUnit, UnitOutcome
from replica_audit.past.run import PastRun
from replica_audit.progress import Progress, TellsEvent
from replica_audit.report.salvage_report import SavedRecords
from replica_audit.salvage.output import writing
from replica_audit.salvage.run import SalvageRequest, Tell, salvage
from replica_audit.stages.salvage import salvaged
from replica_audit.stages.salvage_replay import replayed

_TOLD_EVERY = 100  # segments


def salvage_here(run: PastRun, request: SalvageRequest, tell: Tell) -> SavedRecords:
    """Save records in this process, as `salvage`."""
    return salvage(run, request, partial(_save_here, tell=tell), _replay_here, tell)


def _save_here(units: Sequence[SalvageUnit], tell: Tell) -> Iterator[UnitOutcome]:
    for number, unit in enumerate(units):
        if number and number % _TOLD_EVERY == 0:
            tell(f"... {number} of {len(units)} segments")
        with writing(Path(unit.output)):
            yield salvaged(unit)


def _replay_here(units: Sequence[ReplayUnit]) -> Iterator[ReplayOutcome]:
    for unit in units:
        with writing(Path(unit.console)):
            yield replayed(unit)


def salvage_on_spark(run: PastRun, request: SalvageRequest, tell: TellsEvent) -> SavedRecords:
    """Save records in tasks of Spark, as `salvage`; `tell` takes its progress."""
    from replica_audit.engine.spark_salvage import replay_units, save_units
    from replica_audit.storage.session import StageProgress, session

    spark, progress = session(), Progress(tell)
    with StageProgress(spark, progress):
        return salvage(run, request, partial(save_units, spark), partial(replay_units, spark), progress.say)
