"""Rows of one audited partition without an audit: made by the rules of the protocol from any two replicas, or written down."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from replica_audit.partition.pairs.decided_columns import differing_offsets, mismatch_column
from replica_audit.partition.pairs.pair import learnt_epochs_column, rounds
from replica_audit.protocol.comparison.pair import (
    Comparison,
    Effect,
    catches_up,
    conflicts,
    differences,
    ends_with_election,
    removal_start,
    restarts_once_failed,
    still_diverged,
)
from replica_audit.protocol.exchange.cuts import can_fail_to_append
from replica_audit.protocol.exchange.replay import RULES, Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Judgement, Verdict, judge
from replica_audit.rows.encoding import as_dict, row_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")
Row = dict[str, Any]
KEYS: Row = {"run_id": "first", "cluster_id": "c", "topic": "orders", "partition": 0}
LEADER, FOLLOWER = 1, 2
FACTS = {
    "/logs/broker-1/data/orders-0/0.log": "leader 1: /logs/broker-1/data/orders-0/0.log ends",
    "/logs/broker-2/data/replication-offset-checkpoint": "/logs/broker-2/data/replication-offset-checkpoint: 3",
}


class TablesInMemory:
    """What `storage.warehouse.reader` gives, from lists of dictionaries."""

    def __init__(self, tables: dict[str, list[Row]], location: str = "warehouse") -> None:
        self.tables = tables
        self.location = location
        self.cut_short: list[str] = []

    def has(self, table: str) -> bool:
        return table in self.tables

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        found = [row for row in self.tables.get(table, []) if all(row[name] == value for name, value in equal.items())]
        return tuple(row_of(kind, row, of_any_version=True) for row in found)

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        return tuple(dict.fromkeys(self.rows(table, kind, **equal)))


def run_row(**changed: Any) -> Row:
    """A row of `audit_runs`."""
    return {
        "run_id": "first",
        "cluster_id": "c",
        "status": "complete",
        "started_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "run_date": date(2026, 1, 2),
        "protocol": "truncate-on-fetch",
        "protocol_reason": "metadata.version level 29 (KRaft)",
    } | changed


def tables_of(c: Comparison) -> dict[str, list[Row]]:
    """Every table that an audit of these two replicas fills: replica 1 leads, replica 2 follows."""
    return {
        "audit_runs": [run_row(protocol=str(c.effect.truncation.protocol))],
        "replica_verdicts": [_verdict(c)],
        "truncation_points": list(_points(c)),
        "replica_logs": [_log(c.leader), _log(c.follower)],
        "segment_epochs": [row for side in (c.leader, c.follower) for row in _batches(side)],
        "epoch_start_offsets": [*_epochs(c.leader, c.leader.as_leader().epochs), *_epochs(c.follower, c.follower.as_follower().epochs)],
        "input_errors": [],
    }


def _verdict(c: Comparison) -> Row:
    judged, truncation = judge(c), c.effect.truncation
    first = removal_start(c.follower, c.effect)
    goes = 0 if first is None else max(0, c.follower.log.log_end_offset - first)
    return KEYS | {
        "leader_id": LEADER,
        "follower_id": FOLLOWER,
        "leader_source": "cluster-metadata",
        "verdict": str(judged.verdict),
        "severity": str(judged.severity),
        "divergence_offset": c.divergence_offset,
        "truncation_offset": truncation.truncation_offset,
        "restart_offset": truncation.restart_offset,
        "protocol": str(truncation.protocol),
        "reason": judged.reason,
        "removed_offsets": goes,
        "removed_records": goes,
        "removed_bytes": 100 * goes,
        "removed_below_high_watermark": c.lost,
        "first_removed_timestamp_ms": 1_700_000_000_000 if goes else None,
        "last_removed_timestamp_ms": 1_700_000_001_500 if goes else None,
        "open_transactions": [4711] if goes else [],
        "observed_truncation_offset": None,
        "already_truncated": None,
        **_rejoin_columns(c, judged),
        "hole": _plain(c.hole) if judged.verdict is Verdict.LOG_MATCHING_VIOLATION else None,
        "leader_diverged_end_offset": c.leader.log.log_end_offset if (c.divergence_offset or 0) < c.leader.log.log_end_offset else None,
        "cause": judged.cause,
        "wrong_epoch": _plain(judged.wrong_epoch),
        "did_otherwise": _plain(c.did_otherwise),
        "differences": list(map(as_dict, differing_offsets(differences(c)))),
        "conflicts": list(map(as_dict, differing_offsets(conflicts(c)))),
        "cleaned_beyond_cut": c.cleaned_beyond_the_cut,
        "mismatch": _plain(mismatch_column(c, judged)),
        "differing_keys": None,
        "records_unread": None,
        "differing_records": None,
        "evidence": "; ".join(FACTS.values()),
        "rests_on": [{"path": path, "text": text} for path, text in FACTS.items()],
    }


def _rejoin_columns(c: Comparison, judged: Judgement) -> Row:
    """Why the follower never catches up."""
    found = None if judged.verdict is Verdict.INCONCLUSIVE else c.cannot_rejoin
    return {
        "stuck": _plain(found and found.refusal),
        "wrong_lines_broker_id": found and found.broker_id,
        "wrong_lines": list(map(as_dict, found.lines)) if found else [],
    }


def exchange_row(truncation: Truncation) -> Row:
    """The columns of `truncation_points` that keep an exchange as it was decided."""
    return {
        "round_trips": truncation.round_trips,
        "rounds": list(map(as_dict, rounds(truncation))),
        "falls_back_to_high_watermark": truncation.falls_back_to_high_watermark,
        "fallback": _plain(truncation.fallback),
        "fetch_offset": truncation.fetch_offset,
        "stuck": truncation.stuck,
    }


def _plain(row: Any) -> Row | None:
    return None if row is None else as_dict(row)


def _points(c: Comparison) -> Iterable[Row]:
    applies = c.effect.truncation.protocol
    for protocol, rule in RULES.items():
        truncation = c.effect.truncation if protocol is applies else rule(c.leader.as_leader(), c.follower.as_follower())
        effect = (
            c.effect
            if protocol is applies
            else Effect(truncation=truncation, physical_offset=truncation.truncation_offset, fetcher_fails=False)
        )
        first = removal_start(c.follower, effect)
        goes = truncation.truncation_offset is not None or truncation.restart_offset is not None
        removed = 0 if first is None else max(0, c.follower.log.log_end_offset - first)
        yield KEYS | {
            "leader_id": LEADER,
            "follower_id": FOLLOWER,
            "protocol": str(protocol),
            "applies": protocol is applies,
            "truncation_offset": truncation.truncation_offset,
            "restart_offset": truncation.restart_offset,
            "fetcher_fails": effect.fetcher_fails and can_fail_to_append(truncation),
            **exchange_row(truncation),
            "removed_offsets": removed,
            "still_diverged": still_diverged(c.leader, c.follower, c.context, effect),
            "catches_up": catches_up(c.leader, effect),
            "physical_offset": c.follower.log.log_end_offset - removed if goes else None,
            "ends_with_election": ends_with_election(c.leader, c.follower, truncation, c.context.leader_epoch),
            "restarts_once_failed": restarts_once_failed(c.leader, effect),
            "learnt_epochs": [as_dict(entry) for entry in learnt_epochs_column(c.leader.as_leader(), effect)]
            if protocol is applies
            else None,
        }


def _log(side: Replica) -> Row:
    return KEYS | {
        "broker_id": side.broker_id,
        "log_dir": f"/logs/broker-{side.broker_id}/data",
        "directory": "orders-0",
        "state": "current",
        "log_start_offset": side.log.log_start_offset,
        "log_end_offset": side.log.log_end_offset,
        "high_watermark": side.high_watermark,
        "cleaner_offset": side.cleaner_offset,
        "checkpoint_state": "ok",
        "recovery_cut_offset": None,
        "unreadable_reason": side.unreadable,
    }


def _batches(side: Replica) -> Iterable[Row]:
    for run in side.log.runs:
        yield KEYS | {
            "broker_id": side.broker_id,
            "log_dir": f"/logs/broker-{side.broker_id}/data",
            "segment_base_offset": side.log.first_segment_base,
            "leader_epoch": run.leader_epoch,
            "first_offset": run.first_offset,
            "last_offset": run.last_offset,
        }


def _epochs(side: Replica, in_effect: Iterable[tuple[int, int]]) -> Iterable[Row]:
    for epoch, start in in_effect:
        yield KEYS | {
            "broker_id": side.broker_id,
            "leader_epoch": epoch,
            "start_offset": start,
            "checkpoint_start_offset": start,
            "segment_start_offset": start,
            "in_effect": True,
            "difference": None,
        }
