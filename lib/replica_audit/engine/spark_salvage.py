"""Units of a salvage, mapped by Spark: each is a row, and what came of it another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from replica_audit.engine.arrow import frame_of, map_files
from replica_audit.errors import OutputError
from replica_audit.model.salvage import ReplayOutcome, ReplayUnit, SalvageUnit, UnitOutcome
from replica_audit.stages.salvage import OUTCOME, UNIT, salvaged
from replica_audit.stages.salvage_replay import REPLAY_OUTCOME, REPLAY_UNIT, replayed

_UNIT, _OUTCOME = pa.schema([("unit", pa.string())]), pa.schema([("outcome", pa.string()), ("error", pa.string())])
_MOST_TASKS = 10_000
T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]


def save_units(spark: SparkSession, units: Sequence[SalvageUnit]) -> list[UnitOutcome]:
    """Save units inside tasks.

    Raises:
        OutputError: a task cannot write a file.
    """
    return [OUTCOME.validate_json(told) for told in _mapped(spark, [UNIT.dump_json(unit).decode() for unit in units], _saved)]


def replay_units(spark: SparkSession, units: Sequence[ReplayUnit]) -> list[ReplayOutcome]:
    """Make replay files inside tasks.

    Raises:
        OutputError: a task cannot write a file.
    """
    rows = [REPLAY_UNIT.dump_json(unit).decode() for unit in units]
    return [REPLAY_OUTCOME.validate_json(told) for told in _mapped(spark, rows, _replayed)]


def _mapped(spark: SparkSession, units: Sequence[str], work: Callable[[Batches], Batches]) -> list[str]:
    if not units:
        return []
    frame = frame_of(spark, [(unit,) for unit in units], _UNIT).repartition(min(len(units), _MOST_TASKS))
    rows = map_files(frame, work, _OUTCOME).collect()
    failed = next((row["error"] for row in rows if row["error"]), None)
    if failed is not None:
        raise OutputError(failed)
    return [row["outcome"] for row in rows]


def _saved(batches: Batches) -> Batches:
    yield from _each(batches, lambda unit: OUTCOME.dump_json(salvaged(UNIT.validate_json(unit))).decode())


def _replayed(batches: Batches) -> Batches:
    yield from _each(batches, lambda unit: REPLAY_OUTCOME.dump_json(replayed(REPLAY_UNIT.validate_json(unit))).decode())


def _each(batches: Batches, work: Callable[[str], str]) -> Batches:
    for batch in batches:
        for unit in map(str, batch["unit"].to_pylist()):
            try:
                row = {"outcome": work(unit), "error": None}
            except OSError as error:  # the output: what cannot be read of the input is an outcome
                path = error.filename or json.loads(unit).get("output") or "--output"
                row = {"outcome": None, "error": f"{path} cannot be written: {error.strerror or error}; salvage again, and it continues"}
            yield pa.RecordBatch.from_pylist([row], schema=_OUTCOME)
