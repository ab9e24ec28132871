"""The explanation of any two replicas, and of what an on-call engineer should not have to meet."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.report.facts.explanation import Explanation, explain
from replica_audit.report.facts.question import Question
from replica_audit.report.sections.follower import SECTIONS
from replica_audit.report.text.explanation_text import lines, render
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import comparisons
from tests.protocol.logs import compare, replica
from tests.report.audited import Row, TablesInMemory, tables_of

ASKED = Question(topic="orders", partition=0)


def explained(tables: dict[str, list[Row]], **asked: Any) -> tuple[Explanation, ...]:
    return explain(TablesInMemory(tables), dataclasses.replace(ASKED, **asked)).followers


def told(tables: dict[str, list[Row]], **asked: Any) -> str:
    text = render(explain(TablesInMemory(tables), dataclasses.replace(ASKED, **asked)), protocols=True)
    held(text)
    return text


def held(text: str) -> None:
    assert text.endswith("\n")
    assert text.isascii()
    for line in text.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


@given(comparisons())
def test_any_two_replicas_can_be_explained(c: Comparison) -> None:
    told(tables_of(c))


@given(comparisons())
def test_what_it_holds_afterwards_is_what_the_rules_leave(c: Comparison) -> None:
    """The bar `then`, offset by offset: the follower's own below the cut, the leader's from the fetch offset on."""
    (found,) = explained(tables_of(c))
    outcome, truncation = found.outcome, c.effect.truncation
    assert outcome is not None
    epochs = {offset: span.leader_epoch for span in outcome.history for offset in range(span.first_offset, span.end_offset)}
    log = c.follower.log
    own = {o: s.leader_epoch for s in c.follower.history for o in range(s.first_offset, s.end_offset)}
    theirs = {o: s.leader_epoch for s in c.leader.history for o in range(s.first_offset, s.end_offset)}
    cut = log.log_end_offset if outcome.physical_offset is None else outcome.physical_offset
    expected = {o: epoch for o, epoch in own.items() if log.log_start_offset <= o < min(cut, log.log_end_offset)}
    if not c.effect.fetcher_fails and not truncation.stuck:
        first = max(truncation.fetch_offset, c.leader.log.log_start_offset)
        expected |= {o: epoch for o, epoch in theirs.items() if first <= o < c.leader.log.log_end_offset}
    assert epochs == expected


def hole() -> dict[str, list[Row]]:
    """KIP-279's scenario 1 under KIP-101, n = 25 in one batch: the cut at 21 takes 11..25 away, and 11..20 never come back."""
    leader = replica(1, [(1, 0, 10), (1, 11, 20), (3, 21, 30)], high_watermark=31)
    follower = replica(2, [(1, 0, 10), (2, 11, 25)], high_watermark=11, alive=False)
    return tables_of(
        compare(
            leader,
            follower,
            protocol=Protocol.KIP_101,
            leader_batches=[(1, 0, 10), (1, 11, 20), (3, 21, 30)],
            follower_batches=[(1, 0, 10), (2, 11, 25)],
        )
    )


def test_a_hole_is_told_and_drawn() -> None:
    text = told(hole())
    assert "log_matching_violation (critical)" in text
    assert "Offset 21 lies inside a batch, which is removed whole: the file is truncated at 11" in " ".join(text.split())
    assert "offsets 11..20: a hole in the log of follower 2, leader 1 has epoch 1" in text
    (after,) = (line for line in text.splitlines() if "follower 2 then" in line)
    assert after.split("|")[1].startswith("-1-")
    assert after.split("|")[2].isspace()
    assert after.split("|")[3].startswith("-3-")
    assert "KIP-101; ReplicaFetcherThread.maybeTruncate of 1.1" in " ".join(text.split())


def interleaved(epochs: int) -> dict[str, list[Row]]:
    """Hundreds of epochs in common, then both sides led in turn."""
    shared = [(epoch, 50 * epoch, 50 * epoch + 49) for epoch in range(epochs)]
    end = 50 * epochs
    leader = replica(1, [*shared, (epochs, end, end + 9), (epochs + 2, end + 10, end + 19), (epochs + 4, end + 20, end + 29)])
    follower = replica(2, [*shared, (epochs + 1, end, end + 4), (epochs + 3, end + 5, end + 9)], high_watermark=end, alive=False)
    return tables_of(compare(leader, follower))


def test_a_long_history_is_cut_short_around_the_divergence() -> None:
    text = told(interleaved(300))
    assert "293 left out" in text
    assert len(text.splitlines()) < 116
    for epoch in (299, 300, 301, 302, 303, 304):
        assert any(line.split()[:1] == [str(epoch)] for line in text.splitlines()), "the table keeps what lies around the divergence"
    assert "truncates to 15005, asks again" in " ".join(text.split())
    assert "1 cut by that round" in " ".join(text.split())


def test_a_run_of_an_older_version_is_explained_from_what_there_is() -> None:
    """Neither the tables nor the columns that came later."""
    tables = hole()
    del tables["segment_epochs"], tables["input_errors"]
    for row in tables["replica_verdicts"]:
        del row["observed_truncation_offset"], row["removed_bytes"], row["first_removed_timestamp_ms"]
    for row in tables["replica_logs"]:
        del row["recovery_cut_offset"], row["cleaner_offset"]
    text = told(tables)
    assert "drawn from its epoch table" in " ".join(text.split())
    assert "15 offsets, 15 records." in text


def test_verdicts_alone_are_explained_as_far_as_they_go() -> None:
    tables = {name: rows for name, rows in hole().items() if name in ("audit_runs", "replica_verdicts")}
    text = told(tables)
    assert "None: an exchange needs two" in text
    assert "(not in the input)" in text


def test_a_directory_set_aside_beside_the_replica_is_not_drawn_into_it() -> None:
    """Rows of segment_epochs name the log directory, not the replica's."""
    tables = hole()
    aside = tables["replica_logs"][1] | {"directory": "orders-0.0123-delete", "state": "deleted"}
    tables["replica_logs"].append(aside)
    tables["segment_epochs"].append(tables["segment_epochs"][0] | {"broker_id": 2, "leader_epoch": 9, "first_offset": 3, "last_offset": 70})
    text = told(tables)
    assert "Broker 2 is drawn from its epoch table" in text
    assert "-9-" not in text


def test_problems_of_these_replicas_are_told_and_no_others() -> None:
    tables = hole()

    def error(broker: int | None, path: str, code: str) -> Row:
        return {
            "run_id": "first",
            "cluster_id": "c",
            "broker_id": broker,
            "path": path,
            "line": 3 if broker else None,
            "byte_offset": None,
            "code": code,
            "detail": f"is {code}",
            "remedy": "copy it again",
        }

    tables["input_errors"] = [
        error(2, "/logs/broker-2/data/orders-0/leader-epoch-checkpoint", "wanted-1"),
        error(2, "/logs/broker-2/data/replication-offset-checkpoint", "wanted-2"),
        error(None, "/logs/cluster-metadata.json", "wanted-3"),
        error(2, "/logs/broker-2/data/orders-01/00000000000000000000.log", "other-1"),
        error(3, "/logs/broker-3/data/orders-0/00000000000000000000.log", "other-2"),
    ]
    text = told(tables)
    assert [f"wanted-{number}" in text for number in (1, 2, 3)] == [True] * 3
    assert "other-" not in text
    assert "broker-2/data/orders-0/leader-epoch-checkpoint:3: is wanted-1. Remedy: copy it again" in " ".join(text.split())


def test_what_a_terminal_would_obey_is_escaped() -> None:
    tables = hole()
    for row in tables["replica_logs"]:
        row["log_dir"] = f"/l\u00f6gs/bro\x1b[31mker\n-{row['broker_id']}/data"
    for row in tables["segment_epochs"]:
        row["log_dir"] = f"/l\u00f6gs/bro\x1b[31mker\n-{row['broker_id']}/data"
    text = told(tables)
    assert "bro\\x1b[31mker\\n-2/data/orders-0" in text
    assert "/l\\xf6gs" in text


def test_paths_longer_than_a_line_break_between_their_parts() -> None:
    tables = hole()
    deep = "/".join(f"directory-{number}" for number in range(12))
    for table in ("replica_logs", "segment_epochs"):
        for row in tables[table]:
            row["log_dir"] = f"/{deep}/broker-{row['broker_id']}/data"
    text = told(tables)
    below = text[text.index("all below ") :].split("tables in")[0]
    assert "".join(below.split()) == f"allbelow/{deep}"
    assert all(line.endswith(("/", "11")) for line in below.strip().splitlines())


def test_several_followers_follow_each_other() -> None:
    tables = hole()
    tables["replica_verdicts"].insert(
        0, tables["replica_verdicts"][0] | {"follower_id": 3, "verdict": "inconclusive", "reason": "not collected: x"}
    )
    text = told(tables)
    assert [line.split(":")[1].split()[1] for line in text.splitlines() if line.startswith("orders-0:")] == ["2", "3"]
    assert text.count("=" * 80) == 1
    assert told(tables, follower_id=3).count("orders-0: follower") == 1


def test_a_cut_that_the_brokers_log_tells_of_has_happened() -> None:
    (verdict,) = interleaved(3)["replica_verdicts"]
    cut = {"observed_truncation_offset": verdict["truncation_offset"], "already_truncated": True}
    tables = interleaved(3) | {"replica_verdicts": [verdict | cut]}
    text = " ".join(told(tables).split())
    assert "What broker 2 did, according to its server.log It truncated to 150, as truncate-on-fetch requires." in text


def test_an_inferred_leader_and_an_unknown_one() -> None:
    tables = hole()
    tables["replica_verdicts"][0]["leader_source"] = "inferred"
    unknown = {"leader_id": -1, "verdict": "inconclusive", "reason": "leader unknown or unreadable: none"}
    tables["replica_verdicts"][0] |= unknown
    tables["truncation_points"] = []
    assert "follower 2 of an unknown leader" in told(tables)


@pytest.mark.parametrize("timestamp", [-1, 0, 2**63 - 1, -(2**63)])
def test_times_that_are_none_are_told_as_they_are(timestamp: int) -> None:
    tables = hole()
    tables["replica_verdicts"][0] |= {"first_removed_timestamp_ms": timestamp, "last_removed_timestamp_ms": timestamp}
    assert "Batches written" in told(tables)


def test_tables_that_were_not_read_whole_are_named() -> None:
    tables = TablesInMemory(hole())
    tables.cut_short = ["segment_epochs"]
    text = render(explain(tables, ASKED))
    held(text)
    assert " ".join(text.split()).endswith("Some rows of these tables were not read: segment_epochs. This explanation may be incomplete.")


def test_an_exchange_without_end_is_no_clean_verdict_to_an_operator() -> None:
    """The follower's last epoch is above all that the leader knows, and the leader is longer (reference, 5.5)."""
    leader = replica(1, [(1, 0, 11), (3, 12, 30)], alive=True)
    follower = replica(2, [(1, 0, 11)], epochs=[(1, 0), (9, 10)], high_watermark=10)
    text = " ".join(told(tables_of(compare(leader, follower))).split())
    assert "cannot_rejoin (error): follower 2's leader-epoch-checkpoint has the line `9 10` where its batches have no such epoch" in text
    assert "leader 1 answers OFFSET_OUT_OF_RANGE: it does not know where epoch 9 ends; its log ends at 31" in text
    assert "follower 2 ends at 12: fetches the same again" in text
    assert "This never ends: the same question gets the same answer" in text
    assert "follower 2 then" not in text
    down = " ".join(told(tables_of(compare(replace(leader, alive=False), follower))).split())
    assert "epoch_table_only (warning)" in down


def lacking() -> dict[str, list[Row]]:
    """A leader whose checkpoint lacks the line `7 1800` of its own batches."""
    leader = replica(1, [(6, 0, 1799), (7, 1800, 1849)], epochs=[(6, 0), (8, 1850)], alive=True)
    return tables_of(compare(leader, replica(2, [(6, 0, 1699)], high_watermark=1700, alive=False), leader_epoch=8))


def test_the_line_that_a_leaders_checkpoint_lacks_is_told() -> None:
    text = " ".join(told(lacking()).split())
    assert "cannot_rejoin (error): leader 1's leader-epoch-checkpoint lacks the line `7 1800` of its own batches" in text
    assert "Later follower 2 fetches from 1850, its last epoch is 7; leader 1 answers diverging: epoch 6 ends at 1850;" in text
    assert "follower 2 truncates to 1800. This never ends" in text
    sound = replica(1, [(6, 0, 1799), (7, 1800, 1849)], alive=True)
    assert "This never ends" not in told(tables_of(compare(sound, replica(2, [(6, 0, 1699)], alive=False))))


def test_a_hole_of_the_leader_is_not_to_be_fetched_by_the_follower() -> None:
    leader, follower = replica(1, [(1, 0, 9), (1, 20, 29)], epochs=[(1, 0)]), replica(2, [(1, 0, 29)], epochs=[(1, 0)])
    text = " ".join(told(tables_of(compare(leader, follower))).split())
    assert "offsets 10..19 are missing from leader 1, a hole in its log" in text
    assert "offsets 10..19: a hole in the log of leader 1, follower 2 has epoch 1" in text
    whole, holed = replica(1, [(1, 0, 29)], epochs=[(1, 0)]), replica(2, [(1, 0, 9), (1, 20, 29)], epochs=[(1, 0)])
    other = " ".join(told(tables_of(compare(whole, holed))).split())
    assert "offsets 10..19 are missing from follower 2" in other


def test_what_a_diverged_follower_loses_besides_is_told() -> None:
    text = " ".join(told(hole()).split())
    assert "a hole remains; it truncates to 21: offsets 11..25 are removed, none is known to have been committed" in text


def test_sections_are_functions_of_the_explanation_alone() -> None:
    (found,) = explained(hole())
    titles = [next((line for block in section(found) for line in lines(block)), "") for section in SECTIONS]
    assert titles[0].startswith("orders-0: follower 2 of leader 1")
    assert [title.split(" (")[0] for title in titles[1:] if title] == [
        "The logs",
        "The exchange",
        "The steps of KIP-101",
        "What is truncated",
        "Under the other protocols",
        "Evidence",
        "Epoch tables",
    ]


def test_other_protocols_are_shown_only_where_they_are_asked_for() -> None:
    found = explain(TablesInMemory(hole()), ASKED)
    assert "Under the other protocols" in render(found, protocols=True)
    assert "The steps of KIP-101" in render(found, protocols=True)
    assert "Under the other protocols" not in render(found)
    assert "The steps of KIP-101" not in render(found)
