"""KIP-101: its two scenarios as audits of what was left on disk, its steps as a trace, and its file as Kafka really keeps it.

Broker A of the KIP is 1, broker B is 2; m1, m2 and m3 are batches of one message.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.formats.log_dir.checkpoints import leader_epoch_lines
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader
from replica_audit.protocol.epochs.epoch_table import (
    appended,
    assign,
    kip101_assign,
    kip101_end_offset_for,
    table,
    truncate_from_end,
    truncate_from_start,
)
from replica_audit.protocol.exchange.replay import high_watermark, kip_101
from replica_audit.rows.codes import EpochRequest, Protocol
from tests.formats import kafka_files as kf
from tests.protocol.logs import Pairs, state
from tests.scenarios.disks import Cluster, Disk

EPOCHS_ASKED = [Protocol.KIP_101, Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH]
M1_M2 = [(0, 0, 0), (0, 1, 1)]


# --- scenario 1: high watermark truncation followed by immediate leader election ----------------------------------------------------------


def test_kip_101_scenario_1_a_restarts_and_drops_m2_by_its_high_watermark(tmp_path: Path) -> None:
    disks = {1: Disk(batches=M1_M2, high_watermark=1), 2: Disk(batches=M1_M2, high_watermark=2)}
    found = Cluster(disks=disks, leader=2, leader_epoch=0).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut(1)["truncation_offset"], found.cut(1)["removed_offsets"], found.rounds(1)) == (1, 1, [])
    assert found.verdict(1) == "identical", "B still has it, and sends it again: nothing is lost yet"


def test_kip_101_scenario_1_m2_is_lost_when_a_leads_and_b_comes_back(tmp_path: Path) -> None:
    """A wrote m3 where B has m2, which was committed: by B's high watermark nothing is cut, and the logs differ for ever."""
    disks = {1: Disk(batches=[(0, 0, 0), (1, 1, 1)], high_watermark=2), 2: Disk(batches=M1_M2, high_watermark=2)}
    cluster = Cluster(disks=disks, leader=1, leader_epoch=1)
    found = cluster.audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut()["truncation_offset"], found.cut()["still_diverged"], found.verdict()) == (None, True, "log_matching_violation")
    asked = cluster.audit(tmp_path, Protocol.KIP_101)
    assert (asked.rounds(), asked.verdict(), asked.row()["removed_below_high_watermark"]) == ([(0, None, 1, 1, True)], "committed_loss", 1)


@pytest.mark.parametrize("protocol", EPOCHS_ASKED)
def test_kip_101_scenario_1_a_asks_and_keeps_m2(tmp_path: Path, protocol: Protocol) -> None:
    disks = {1: Disk(batches=M1_M2, high_watermark=0), 2: Disk(batches=M1_M2, high_watermark=2)}
    found = Cluster(disks=disks, leader=2, leader_epoch=0).audit(tmp_path, protocol)
    assert (found.cut(1)["truncation_offset"], found.verdict(1)) == (None, "identical")
    if protocol is Protocol.KIP_101:
        assert found.rounds(1) == [(0, None, 2, None, True)]


@pytest.mark.parametrize("protocol", EPOCHS_ASKED)
def test_kip_101_scenario_1_then_a_leads_with_m2_and_b_comes_back_clean(tmp_path: Path, protocol: Protocol) -> None:
    disks = {1: Disk(batches=[*M1_M2, (1, 2, 2)], high_watermark=3), 2: Disk(batches=M1_M2, high_watermark=2)}
    found = Cluster(disks=disks, leader=1, leader_epoch=1).audit(tmp_path, protocol)
    assert (found.cut()["truncation_offset"], found.verdict()) == (None, "lagging")


def test_kip_101_scenario_1_as_brokers_of_protocol_0_10_2_had_it(tmp_path: Path) -> None:
    """Messages of format 1. A was cut to 11 and wrote on to 36: broker 2 (high watermark 21) notices nothing, broker 3 (11) heals.

    No epoch tells of it; that the batches from 11 on are others does.
    """
    disks = {
        1: Disk(batches=[(-1, 0, 10), (-1, 11, 35)], high_watermark=36, other_from=11),
        2: Disk(batches=[(-1, 0, 10), (-1, 11, 20)], high_watermark=21),
        3: Disk(batches=[(-1, 0, 10), (-1, 11, 20)], high_watermark=11),
    }
    found = Cluster(disks=disks, leader=1, leader_epoch=2).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert [found.cut(broker)["truncation_offset"] for broker in (2, 3)] == [None, 11]
    assert [found.verdict(broker) for broker in (2, 3)] == ["content_mismatch", "stale_tail"]
    assert found.row(2)["divergence_offset"] == 11


# --- scenario 2: divergence after several hard failures -----------------------------------------------------------------------------------

M3_ON_B = Disk(batches=[(0, 0, 0), (1, 1, 1)], high_watermark=1)


def test_kip_101_scenario_2_diverges_silently_by_the_high_watermark(tmp_path: Path) -> None:
    disks = {1: Disk(batches=M1_M2, high_watermark=2, clean=False), 2: M3_ON_B}
    found = Cluster(disks=disks, leader=2, leader_epoch=1).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut(1)["truncation_offset"], found.cut(1)["fetcher_fails"]) == (None, False)
    assert found.verdict(1) == "log_matching_violation"


@pytest.mark.parametrize("protocol", EPOCHS_ASKED)
@pytest.mark.parametrize(("watermark", "verdict"), [(1, "stale_tail"), (2, "committed_loss")])
def test_kip_101_scenario_2_truncates_m2_at_the_first_offset_of_epoch_1(
    tmp_path: Path, protocol: Protocol, watermark: int, verdict: str
) -> None:
    disks = {1: Disk(batches=M1_M2, high_watermark=watermark, clean=False), 2: M3_ON_B}
    found = Cluster(disks=disks, leader=2, leader_epoch=1).audit(tmp_path, protocol)
    assert found.rounds(1)[0] == (0, None if protocol is Protocol.KIP_101 else 0, 1, 1, True)
    assert not found.cut(1)["still_diverged"]
    assert found.verdict(1) == verdict


def test_kip_101_scenario_2_sticks_where_a_compressed_set_begins_before_the_fetch_offset(tmp_path: Path) -> None:
    """B's message set 1..4 spans A's log end offset 3."""
    disks = {
        1: Disk(batches=[(0, 0, 0), (0, 1, 2)], high_watermark=3, codec=kf.GZIP),
        2: Disk(batches=[(0, 0, 0), (1, 1, 4)], high_watermark=5, codec=kf.GZIP),
    }
    cluster = Cluster(disks=disks, leader=2, leader_epoch=1)
    assert cluster.audit(tmp_path, Protocol.HIGH_WATERMARK).cut(1)["fetcher_fails"]
    asked = cluster.audit(tmp_path, Protocol.KIP_101)
    assert (asked.cut(1)["truncation_offset"], asked.cut(1)["fetcher_fails"]) == (1, False)


# --- the steps ----------------------------------------------------------------------------------------------------------------------------


def test_kip_101_step_1_every_message_set_carries_a_4_byte_epoch(tmp_path: Path) -> None:
    path = kf.segment(tmp_path, 0, kf.batch(0, 0x01020304))
    assert path.read_bytes()[12:16] == b"\x01\x02\x03\x04"
    assert [batch.leader_epoch for batch in read_batches(path) if isinstance(batch, BatchHeader)] == [0x01020304]


def test_kip_101_step_2_the_sequence_file_is_text_with_a_count() -> None:
    """The KIP: a version, then epoch and start offset. Kafka's file has the number of entries in between."""
    assert [(line.epoch, line.start_offset) for line in leader_epoch_lines(b"0\n2\n0 0\n3 20\n")] == [(0, 0), (3, 20)]


@pytest.mark.parametrize("wrote", [True, False], ids=["2.0.1: at the election", "1.1.1: at the first append"])
def test_kip_101_step_3_a_leader_adds_its_epoch_at_its_log_end_offset(tmp_path: Path, wrote: bool) -> None:
    """Brokers of 0.11 to 2.0.0 did so with the first message: asked for an epoch that they never had, they know no end for it."""
    entered = [(0, 0), (2, 25)] if wrote else [(0, 0)]
    assert assign(table([(0, 0)]), 2, 25) == kip101_assign(table([(0, 0)]), 2, 25) == ((0, 0), (2, 25))
    disks = {
        1: Disk(batches=[(0, 0, 24)], epochs=entered, high_watermark=25),
        2: Disk(batches=[(0, 0, 24), (1, 25, 36)], high_watermark=37),
    }
    found = Cluster(disks=disks, leader=1, leader_epoch=2).audit(tmp_path, Protocol.KIP_101)
    by_epoch, by_length = [(1, None, 25, 25, True)], [(1, None, -1, None, True), (None, None, 25, 25, True)]
    assert found.rounds() == (by_epoch if wrote else by_length), "the second cuts to the leader's end for the log is longer, no more"
    assert found.cut()["falls_back_to_high_watermark"] is not wrote


def test_kip_101_steps_4_1_to_4_7_1_as_a_trace_of_one_follower(tmp_path: Path) -> None:
    leader = Disk(batches=[(0, 0, 9), (1, 10, 19), (4, 20, 29)], high_watermark=30)
    follower = Disk(batches=[(0, 0, 9), (1, 10, 24)], epochs=[(0, 0)], high_watermark=10, clean=False)
    found = Cluster(disks={1: leader, 2: follower}, leader_epoch=4).audit(tmp_path, Protocol.KIP_101)
    assert found.in_effect(2) == [(0, 0), (1, 10)], "4.1: recovery learns from the batches what the file lacks"
    replay = kip_101(leader.state, state([(0, 0), (1, 10)], 25, high_watermark=10))
    asked, fetched = replay.steps
    assert (asked.request, asked.requested_epoch) == (EpochRequest.OFFSET_FOR_LEADER_EPOCH, 1), "4.2: the latest own epoch"
    assert asked.answered_end_offset == 20, "4.3: the start of the first larger epoch, which is 4"
    assert replay.follower_after.log_end_offset == 20, "4.5"
    assert (fetched.request, fetched.fetch_offset) == (EpochRequest.FETCH, 20)
    assert appended(replay.follower_after.epochs, 4, 20, magic=2) == ((0, 0), (1, 10), (4, 20)), "4.7.1: a larger epoch in what is fetched"
    assert found.rounds() == [(1, None, 20, 20, True)]


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        pytest.param(5, 55, id="the leader's own epoch: its log end offset"),
        pytest.param(2, 40, id="an older one: the start of the first larger, not of epoch 2 + 1"),
        pytest.param(3, 40, id="one that it never had: likewise"),
    ],
)
def test_kip_101_step_4_3_last_offset(requested: int, answer: int) -> None:
    assert kip101_end_offset_for(table([(0, 0), (2, 10), (5, 40)]), requested, 55) == answer


def test_kip_101_step_4_4_removes_entries_at_the_last_offset_too() -> None:
    """The KIP: start offsets larger than LastOffset. Kafka: an entry that starts there goes as well, none of its messages is left."""
    assert truncate_from_end(table([(0, 0), (1, 20), (2, 25)]), 20) == ((0, 0),)


@pytest.mark.parametrize("leader", [Disk(batches=[(-1, 0, 30)]), Disk(batches=[(0, 0, 30)], epochs=[])], ids=["format 1", "file lost"])
def test_kip_101_falls_back_to_the_high_watermark_where_the_leader_tracks_no_epochs(tmp_path: Path, leader: Disk) -> None:
    disks = {1: leader, 2: Disk(batches=[(0, 0, 20)], high_watermark=5)}
    problems = ("checkpoint-contradicts-batches",) if leader.epochs == [] else ()
    found = Cluster(disks=disks, leader_epoch=1, problems=problems).audit(tmp_path, Protocol.KIP_101)
    assert found.rounds() == [(0, None, -1, None, True)]
    assert (found.cut()["falls_back_to_high_watermark"], found.cut()["truncation_offset"]) == (True, 5)


def test_kip_101_needs_a_new_epoch_when_a_leader_comes_back_without_an_election(tmp_path: Path) -> None:
    """It lost its tail and still leads in epoch 5. The rule goes by its length, and only until it has written as much again.

    After that nothing but the batches themselves tells.
    """
    follower = Disk(batches=[(5, 0, 7), (5, 8, 11)], high_watermark=8)
    short = Cluster(disks={1: Disk(batches=[(5, 0, 7)]), 2: follower}, leader_epoch=5, up=()).audit(tmp_path, Protocol.KIP_101)
    assert (short.rounds(), short.verdict()) == ([(5, None, 8, 8, True)], "stale_tail")
    again = Cluster(disks={1: Disk(batches=[(5, 0, 7), (5, 8, 9), (5, 10, 11)]), 2: follower}, leader_epoch=5)
    silent = again.audit(tmp_path, Protocol.KIP_101)
    assert (silent.cut()["truncation_offset"], silent.verdict()) == (None, "content_mismatch")


# --- maintaining the file -----------------------------------------------------------------------------------------------------------------


def test_kip_101_deleted_segments_move_the_covering_epoch_to_the_log_start(tmp_path: Path) -> None:
    """The KIP removes every entry up to the end of the deleted segment, and with it the epoch of what follows; Kafka keeps that one."""
    before: Pairs = [(1, 0), (2, 5), (5, 20)]
    assert truncate_from_start(table(before), 10) == ((2, 10), (5, 20))
    follower = Disk(batches=[(2, 10, 19), (5, 20, 29)], epochs=before, log_start=10, segments=(20,), high_watermark=30)
    leader = Disk(batches=[(1, 0, 4), (2, 5, 9), (2, 10, 19), (5, 20, 29)], high_watermark=30)
    found = Cluster(disks={1: leader, 2: follower}, leader_epoch=5).audit(tmp_path, Protocol.KIP_101)
    assert found.in_effect(2) == [(2, 10), (5, 20)]
    assert found.verdict() == "identical"


def test_kip_101_compaction_never_touches_the_file(tmp_path: Path) -> None:
    """The KIP's cleaner regenerates it. As it does not, a follower that fetches what compaction left learns other starts: no divergence."""
    leader = Disk(batches=[(1, 0, 9), (8, 58, 60)], epochs=[(1, 0), (4, 28), (8, 54)], high_watermark=61)
    follower = Disk(batches=[(1, 0, 9), (8, 58, 60)], high_watermark=61)
    cluster = Cluster(disks={1: leader, 2: follower}, leader_epoch=8, configs={"cleanup.policy": "compact"})
    found = cluster.audit(tmp_path, Protocol.KIP_101)
    assert found.in_effect(1) == [(1, 0), (4, 28), (8, 54)]
    assert found.in_effect(2) == [(1, 0), (8, 58)]
    assert found.verdict() == "consistent", "the keys are not compared"


@pytest.mark.parametrize("clean", [True, False])
def test_kip_101_a_file_ahead_of_the_log_loses_the_entries_at_and_above_its_end(tmp_path: Path, clean: bool) -> None:
    """The KIP: after an unclean shutdown, those above. Kafka: at every load, those at the end as well."""
    follower = Disk(batches=[(0, 0, 9)], epochs=[(0, 0), (3, 10), (4, 17)], high_watermark=10, clean=clean)
    disks = {1: Disk(batches=[(0, 0, 9), (5, 10, 19)]), 2: follower}
    cluster = Cluster(disks=disks, leader_epoch=5, problems=("checkpoint-beyond-log-end",))
    found = cluster.audit(tmp_path, Protocol.KIP_101)
    assert found.in_effect(2) == [(0, 0)]
    assert found.rounds() == [(0, None, 10, None, True)]
    assert found.verdict() == "lagging"


def test_kip_101_is_used_only_where_all_brokers_support_it(tmp_path: Path) -> None:
    """As inter.broker.protocol.version says; until then the high watermark decides."""
    disks = {1: Disk(batches=M1_M2, high_watermark=1), 2: Disk(batches=M1_M2, high_watermark=2)}
    found = Cluster(disks=disks, leader=2, leader_epoch=0).audit(tmp_path, Protocol.HIGH_WATERMARK)
    applied = {row["protocol"]: row["truncation_offset"] for row in found.tables["truncation_points"] if row["kind"] == "protocol"}
    assert applied == {"high-watermark": 1, "kip-101": None, "kip-279": None, "truncate-on-fetch": None}
    assert found.cut(1)["protocol"] == "high-watermark"
    assert high_watermark(disks[2].state, disks[1].state).truncation_offset == 1
