"""Vectors that name the verdict on two replicas of which only tables and persisted high watermarks are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.pair import Comparison, Effect
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replay import truncate_on_fetch
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import judge

Row = dict[str, Any]


def _replica(broker_id: int, row: Row) -> Replica:
    epochs = table(row["epochs"])
    start: int = row["log_start_offset"]
    end: int = row["log_end_offset"]
    log = LoadedLog(
        log_start_offset=start,
        log_end_offset=end,
        first_segment_base=row.get("first_segment_base", start),
        epochs=epochs,
        runs=(),
    )
    return Replica(
        broker_id=broker_id,
        log=log,
        history=lineage.history_of_table(epochs, start, end),
        high_watermark=row.get("high_watermark"),
        alive=False,
    )


def verdict(row: Row, _folder: Path) -> None:
    leader, follower = _replica(1, row["leader"]), _replica(2, row["follower"])
    result = truncate_on_fetch(leader.as_leader(), follower.as_follower())
    effect = Effect(truncation=result, physical_offset=result.truncation_offset, fetcher_fails=False)
    comparison = Comparison(leader=leader, follower=follower, context=Context(simultaneous=True), effect=effect)
    judgement = judge(comparison)
    assert str(judgement.verdict) == row["expect"]["verdict"], f"{judgement.verdict} ({judgement.reason})"
    assert comparison.divergence_offset == row["expect"]["divergence_offset"]
