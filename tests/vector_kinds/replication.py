"""Vectors about two replicas: the leader's fetch check, the follower's step, whole truncations, consumers, verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replica_audit.protocol.consumers import validate_position
from replica_audit.protocol.epochs.epoch_table import UNDEFINED, EpochEntry, table
from replica_audit.protocol.exchange import replay as tr
from replica_audit.protocol.exchange.replay import RULES
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.rows.codes import EpochRequest, Protocol

Row = dict[str, Any]


def state(replica: Row) -> ReplicaState:
    start: int = replica["log_start_offset"]
    return ReplicaState(
        log_start_offset=start,
        log_end_offset=replica["log_end_offset"],
        epochs=table(replica["epochs"]),
        high_watermark=replica.get("high_watermark", start),
        first_segment_base=replica.get("first_segment_base", start),
    )


def divergence(row: Row, _folder: Path) -> None:
    request, expect = row["request"], row["expect"]
    try:
        answer = tr.diverging_epoch(state(row["leader"]), request["fetch_offset"], request["last_fetched_epoch"])
    except tr.OffsetOutOfRange:
        assert expect.get("error") == "OFFSET_OUT_OF_RANGE", "raised OFFSET_OUT_OF_RANGE"
        return
    assert "error" not in expect, f"no error but {answer}"
    assert (list(answer) if answer else None) == expect["diverging_epoch"]


def follower_step(row: Row, _folder: Path) -> None:
    lookup = EpochEntry(*row["follower_lookup"]) if row["follower_lookup"] else UNDEFINED
    offset, completed, _case = tr.follower_step(
        EpochEntry(*row["leader_reply"]), lookup, row["follower_log_end_offset"], row["initial_fetch_offset"]
    )
    assert {"truncate_to": offset, "completed": completed} == row["expect"]


def _round(step: tr.Step) -> Row:
    seen: Row = {"kind": str(step.request)}
    if step.request is EpochRequest.OFFSET_FOR_LEADER_EPOCH:
        answer = [step.answered_end_offset] if step.answered_epoch is None else [step.answered_epoch, step.answered_end_offset]
        return seen | {"epoch": step.requested_epoch, "response": answer}
    if step.request is not EpochRequest.FETCH:
        return seen | {"offset": step.answered_end_offset}
    seen["fetch_offset"] = step.fetch_offset
    if step.requested_epoch is not None:
        seen["last_fetched_epoch"] = step.requested_epoch
    if step.out_of_range:
        return seen | {"error": "OFFSET_OUT_OF_RANGE"}
    if step.answered_epoch is not None:
        return seen | {"diverging_epoch": [step.answered_epoch, step.answered_end_offset]}
    return seen | {"ok": True}


def truncation(row: Row, _folder: Path) -> None:
    expect = row["expect"]
    protocol = Protocol(row["protocol"])
    result = RULES[protocol](state(row["leader"]), state(row["follower"]))
    rounds = [_round(step) for step in result.steps]
    with_complete = protocol in (Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH)
    cuts: list[Any] = [[offset, complete] if with_complete else offset for offset, complete in result.cuts]
    if result.restart_offset is not None:
        cuts.append(["full", result.restart_offset])
    if expect["outcome"] == "stuck":
        assert result.stuck, "comes to a clean fetch where Kafka never does"
        first = expect["first_rounds"]
        assert (rounds * (len(first) // len(rounds) + 1))[: len(first)] == first
        assert cuts == expect["truncations"]
        assert result.follower_after.log_end_offset == expect["log_end_offset"]
        return
    got = {
        "outcome": "stuck" if result.stuck else "clean",
        "fetch_from": result.fetch_offset,
        "truncation_offset": result.fetch_offset,
        "full_restart": result.restart_offset is not None,
        "truncations": cuts,
        "rounds": rounds,
        "follower_log_start_after": result.follower_after.log_start_offset,
        "follower_epochs_after": [list(entry) for entry in result.follower_after.epochs],
    }
    for key, want in expect.items():
        assert got[key] == want, f"{key}: {got[key]}, Kafka {want}"


def consumer_validation(row: Row, _folder: Path) -> None:
    leader, position = row["leader"], row["position"]
    got = validate_position(table(leader["epochs"]), leader["log_end_offset"], position["offset"], position["offset_epoch"])
    for key, want in row["expect"].items():
        value = {"result": str(got.result), "reset_to": got.reset_offset, "reset_epoch": got.reset_epoch}[key]
        assert value == want, f"{key}: {value}, Kafka {want}"
