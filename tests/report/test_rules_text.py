"""Every rule side by side, the documents' steps, and what a broker's own log says beside what the rule gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.exchange.alternatives import traffic, what_if
from replica_audit.protocol.exchange.replay import RULES
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.explanation import explain
from replica_audit.report.facts.question import Question
from replica_audit.report.text.explanation_text import render
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import comparisons
from tests.protocol.logs import compare, replica
from tests.report.audited import KEYS, Row, TablesInMemory, tables_of

ASKED = Question(topic="orders", partition=0)
TITLE = "Under the other protocols"


def told(tables: dict[str, list[Row]]) -> str:
    text = render(explain(TablesInMemory(tables), ASKED), protocols=True)
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())
    return text


def section(text: str, title: str) -> str:
    """One section's words."""
    (found,) = (part for part in text.split("\n\n") if part.startswith(title))
    return " ".join(found.split())


def scenario_1(last: int, protocol: Protocol) -> Comparison:
    """KIP-279's scenario 1: A has (1, 0..20), (3, 21..30), B has (1, 0..10), (2, 11..last); B follows."""
    leader = replica(1, [(1, 0, 20), (3, 21, 30)], high_watermark=31)
    follower = replica(2, [(1, 0, 10), (2, 11, last)], high_watermark=11, alive=False)
    return compare(leader, follower, protocol=protocol)


def scenario_3(protocol: Protocol) -> Comparison:
    """KIP-279's scenario 3: A has epochs 0 and 2 at offsets 0 and 1, B has 1 and 3; A follows."""
    leader = replica(1, [(1, 0, 0), (3, 1, 1)], high_watermark=0)
    return compare(leader, replica(2, [(0, 0, 0), (2, 1, 1)], high_watermark=0, alive=False), protocol=protocol)


def rule(name: str, **changed: Any) -> Row:
    return (
        KEYS
        | {
            "leader_id": 1,
            "follower_id": 2,
            "leader_source": "cluster-metadata",
            "kind": "rejected",
            "protocol": name,
            "applies": False,
            "truncation_offset": None,
            "falls_back_to_high_watermark": False,
            "epoch_requests": 1,
            "request_bytes": 8,
            "response_bytes": 14,
            "reason": f"because of {name}",
        }
        | changed
    )


def with_rules(c: Comparison) -> dict[str, list[Row]]:
    """The tables with what the questions cost, and the rejected alternatives, as they are computed."""
    costs = {str(protocol): traffic(of(c.leader.as_leader(), c.follower.as_follower())) for protocol, of in RULES.items()}
    outcomes = what_if(c.leader.as_leader(), c.follower.as_follower())
    rejected = [
        rule(
            str(outcome.alternative),
            truncation_offset=outcome.truncation_offset,
            falls_back_to_high_watermark=outcome.falls_back_to_high_watermark,
            epoch_requests=outcome.round_trips,
            request_bytes=outcome.request_bytes,
            response_bytes=outcome.response_bytes,
            reason=outcome.reason,
        )
        for outcome in outcomes
    ]
    tables = tables_of(c)
    names = ("epoch_requests", "request_bytes", "response_bytes")
    points = [row | dict(zip(names, costs[row["protocol"]], strict=True)) for row in tables["truncation_points"]]
    return with_points(tables | {"truncation_points": points}, rejected)


def with_points(tables: dict[str, list[Row]], more: list[Row]) -> dict[str, list[Row]]:
    return tables | {"truncation_points": [*tables["truncation_points"], *more]}


@given(comparisons())
def test_any_two_replicas_fit(c: Comparison) -> None:
    text = told(with_rules(c))
    assert text.count("high-watermark-epoch  ") <= 1


def test_the_numbers_are_the_documents() -> None:
    """docs/protocol.md, scenario 1 with n = 20: cut; requests; bytes asked + answered."""
    text = told(with_rules(scenario_1(20, Protocol.KIP_101)))
    said = section(text, TITLE)
    assert said.startswith(f"{TITLE} (> applies here, x rejected by KIP-279) ")
    rows = (
        "high-watermark 11 0 0+0 yes 10 > kip-101 - 1 8+14 no 0 still differs kip-279 11 1 8+18 no 10 truncate-on-fetch 11 1 4+12 no 10 "
        "x unknown-offset-rounds 11 2 16+28 no x epoch-sequence-exchange 11 1 28+14 no x high-watermark-epoch 11 1 8+14 no "
    )
    assert rows in said
    assert text.count(TITLE) == 1


def test_why_is_told_where_an_alternative_cuts_elsewhere() -> None:
    rules = [
        rule("unknown-offset-rounds", truncation_offset=11),
        rule("high-watermark-epoch", truncation_offset=3),
        rule("leave-isr-on-preferred-election", truncation_offset=11),
    ]
    said = section(told(with_points(tables_of(scenario_1(20, Protocol.KIP_279)), rules)), TITLE)
    assert said.endswith(
        "high-watermark-epoch: because of high-watermark-epoch leave-isr-on-preferred-election: because of leave-isr-on-preferred-election"
    )
    assert "because of unknown-offset-rounds" not in said


def test_without_rules_the_protocols_stand_alone() -> None:
    said = section(told(tables_of(scenario_1(20, Protocol.KIP_101))), TITLE)
    assert said.startswith(
        f"{TITLE} (> applies here) cut round falls removed then to trips back offsets high-watermark 11 0 yes 10 > kip-101"
    )
    assert "bytes" not in said.lower()


def test_rules_of_another_follower_are_not_this_ones() -> None:
    tables = tables_of(scenario_1(20, Protocol.KIP_101))
    assert told(with_points(tables, [rule("epoch-sequence-exchange", follower_id=3)])) == told(tables)


KIP_279_STEPS = "The steps of KIP-101 (4.2 to 4.6 as KIP-279 has them, its numbers in brackets)"
RECOVERS = "1 batches carry the leader epoch of who wrote them 2 the sequence file of follower 2:"


@pytest.mark.parametrize(
    ("c", "title", "said"),
    [
        (
            scenario_1(20, Protocol.KIP_101),
            "The steps of KIP-101",
            f"{RECOVERS} epoch 1 at 0, epoch 2 at 11 3 leader 1 entered epoch 3 at 21 4.1 it recovers epoch 1 at 0, epoch 2 at 11 4.2 the "
            "request holds its latest epoch, 2 4.3 LastOffset is 21 4.4 its sequence file stays as it is 4.5 it truncates nothing 4.6 it "
            "fetches from 21 4.7.1 while it fetches it adds epoch 3 at 21",
        ),
        (
            scenario_3(Protocol.KIP_101),
            "The steps of KIP-101",
            "4.2 the request holds its latest epoch, 2 4.3 LastOffset is 1 4.4 its sequence file loses epoch 2 4.5 it truncates to 1 4.6 "
            "it fetches from 1 4.7.1 while it fetches it adds epoch 3 at 1",
        ),
        (
            scenario_1(20, Protocol.KIP_279),
            KIP_279_STEPS,
            "4.2 (1) it asks for epoch 2 4.3 (2) LeaderEpoch is 1, LastOffset 21 4.5 (4) it truncates to 11 4.6 (5) it fetches from 11 "
            "4.7.1 while it fetches it adds epoch 3 at 21",
        ),
        (
            compare(
                replica(1, [(0, 0, 9), (3, 10, 19), (5, 20, 29)]),
                replica(2, [(0, 0, 9), (2, 10, 14), (4, 15, 24)], high_watermark=10, alive=False),
                protocol=Protocol.KIP_279,
            ),
            KIP_279_STEPS,
            "4.2 (1) it asks for epoch 4 4.3 (2) LeaderEpoch is 3, LastOffset 20 4.5 (3a) it truncates to 15 4.2 (3b) it asks for epoch 2 "
            "4.3 (2) LeaderEpoch is 0, LastOffset 10 4.5 (4) it truncates to 10 4.6 (5) it fetches from 10 4.7.1 while it fetches it adds "
            "epoch 3 at 10, epoch 5 at 20",
        ),
        (
            compare(
                replica(1, [(0, 0, 9)], epochs=[]),
                replica(2, [(0, 0, 14)], high_watermark=8, alive=False),
                protocol=Protocol.KIP_101,
            ),
            "The steps of KIP-101",
            "4.3 the leader cannot find the LastOffset 4.5 for compatibility it falls back to its high watermark 8 and truncates to 8 4.6 "
            "it fetches from 8 4.7.1 while it fetches no later epoch comes",
        ),
        (
            compare(replica(1, [(0, 0, 9), (3, 10, 19)]), replica(2, [(0, 0, 14)])),
            "The steps of KIP-101 (4.2 to 4.5 by the fetch itself)",
            f"{RECOVERS} epoch 0 at 0 3 leader 1 entered epoch 3 at 10 4.1 it recovers epoch 0 at 0 4.5 it truncates to 10 4.6 it fetches "
            "from 10 4.7.1 while it fetches it adds epoch 3 at 10",
        ),
        (
            compare(replica(1, [(5, 50, 59)]), replica(2, [(1, 0, 9)])),
            "The steps of KIP-101 (4.2 to 4.5 by the fetch itself)",
            "4.5 it empties its log and starts again at 50 4.6 it fetches from 50 4.7.1 while it fetches it adds epoch 5 at 50",
        ),
    ],
)
def test_the_steps_of_the_document(c: Comparison, title: str, said: str) -> None:
    text = section(told(tables_of(c)), title)
    assert text.startswith(f"{title} 1 ")
    assert text.endswith(said) or said in text


def test_what_the_file_says_and_what_is_loaded_may_differ() -> None:
    tables = tables_of(scenario_1(20, Protocol.KIP_101))
    (second,) = (row for row in tables["epoch_start_offsets"] if (row["broker_id"], row["leader_epoch"]) == (2, 2))
    dropped = {**second, "leader_epoch": 5, "start_offset": 21, "checkpoint_start_offset": 21, "in_effect": False}
    second |= {"checkpoint_start_offset": None}
    tables["epoch_start_offsets"].append(dropped)
    said = section(told(tables), "The steps of KIP-101")
    assert "2 the sequence file of follower 2: epoch 1 at 0, epoch 5 at 21 3" in said
    recovers = (
        "4.1 it recovers epoch 1 at 0, epoch 2 at 11; epoch 2 at 11 by its batches or its log start; it drops epoch 5 at 21, because its"
    )
    assert f"{recovers} log ends at 21 4.2" in said


def test_where_records_never_flow_nothing_is_learnt() -> None:
    stuck = compare(replica(1, [(0, 0, 9)]), replica(2, [(0, 0, 4), (3, 5, 8)]))
    assert stuck.effect.truncation.stuck
    assert "4.6" not in section(told(tables_of(stuck)), "The steps of KIP-101 (4.2 to 4.5 by the fetch itself)")


def test_a_protocol_older_than_the_document_has_no_steps() -> None:
    assert "The steps of" not in told(tables_of(scenario_1(20, Protocol.HIGH_WATERMARK)))


def test_a_contradiction_that_another_verdict_hides_is_told() -> None:
    tables = tables_of(scenario_1(20, Protocol.KIP_279))
    contradiction = {"offset": 20, "path": "server.log", "line": 3, "rule_offset": 11}
    tables["replica_verdicts"][0] |= {"observed_truncation_offset": 20, "did_otherwise": contradiction}
    assert "no contradiction" not in section(told(tables), "What broker 2 did, according to its server.log")


def observed(seen: int, **changed: Any) -> str:
    tables = tables_of(scenario_1(20, Protocol.KIP_279))
    tables["replica_verdicts"][0] |= {"observed_truncation_offset": seen} | changed
    return section(told(tables), "What broker 2 did, according to its server.log")


def test_what_the_broker_did_beside_what_the_rule_gives() -> None:
    assert observed(11).endswith("log It truncated to 11, as kip-279 requires.")
    assert "What broker 2 did" not in told(tables_of(scenario_1(20, Protocol.KIP_279)))
    other = observed(12)
    assert "It truncated to 12; kip-279 gives 11. That alone is not a contradiction" in other
    assert "It truncated to 12; kip-279 gives no truncation. That alone" in observed(12, truncation_offset=None)


def test_a_contradiction_is_called_one_and_another_rule_that_gives_it_is_named() -> None:
    tables = tables_of(scenario_1(25, Protocol.KIP_279))
    contradiction = {"offset": 21, "path": "server.log", "line": 3, "rule_offset": 11}
    judged = {"verdict": str(Verdict.TRUNCATED_OTHERWISE), "did_otherwise": contradiction}
    tables["replica_verdicts"][0] |= {"observed_truncation_offset": 21} | judged
    said = section(told(tables), "What broker 2 did")
    assert said.endswith("It truncated to 21; kip-279 gives 11. The same offset: kip-101.")
