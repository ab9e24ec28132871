"""Copies that were not taken at one instant: what they do not prove, as properties of the comparison and as verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.leadership import InferredBecause, inferred_because, latest
from replica_audit.protocol.cluster.metadata_image import METADATA_LOG
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Judgement, Verdict, judge
from replica_audit.rows.codes import Protocol
from tests.protocol.logs import Batch, compare, replica

UP: dict[str, Any] = {"alive": True}
LIVE: dict[str, Any] = {"alive": True, "in_isr": True}
ISR_LEADER = replica(1, [(1, 0, 9), (5, 10, 24)], high_watermark=20, **LIVE)


def _judged(leader: Replica, follower: Replica, *witnesses: Replica, **options: Any) -> Judgement:
    return judge(compare(leader, follower, *witnesses, **options))


def _verdict(leader: Replica, follower: Replica, *witnesses: Replica, **options: Any) -> Verdict:
    return _judged(leader, follower, *witnesses, **options).verdict


# --- what the comparison sees -------------------------------------------------------------------------------------------------------------


def test_a_leader_copied_earlier_diverges_nowhere() -> None:
    leader, follower = replica(1, [(5, 0, 7)], **UP), replica(2, [(5, 0, 11)], **UP)
    assert compare(leader, follower).divergence_offset is None
    assert compare(leader, follower, simultaneous=True).divergence_offset == 8


def _copied_earlier(leader: Replica, follower: Replica, *, leader_epoch: int = -1, simultaneous: bool = False) -> bool:
    return compare(leader, follower, leader_epoch=leader_epoch, simultaneous=simultaneous).leader_copied_earlier


LONGER = replica(2, [(1, 0, 3), (5, 4, 11)], **UP)


@pytest.mark.parametrize(
    ("leader", "follower", "leader_epoch", "expected"),
    [
        pytest.param(replica(1, [(1, 0, 3), (5, 4, 7)], **UP), LONGER, 5, True, id="ahead in the current epoch"),
        pytest.param(replica(1, [(1, 0, 3), (5, 4, 7)], **UP), LONGER, -1, True, id="the leader's last entry tells the current epoch"),
        pytest.param(replica(1, [(1, 0, 3)], epochs=[(1, 0), (5, 4)], **UP), LONGER, 5, True, id="the current epoch had no record yet"),
        pytest.param(
            replica(1, [(1, 0, 3), (4, 4, 7)], **UP), replica(2, [(1, 0, 3), (4, 4, 7), (6, 8, 11)], **UP), 4, True, id="a later epoch"
        ),
        pytest.param(
            replica(1, [(1, 0, 3), (5, 4, 7)], epochs=[(1, 0), (5, 4), (6, 8)], **UP), LONGER, 6, False, id="an epoch begins below its end"
        ),
        pytest.param(replica(1, [(1, 0, 3), (5, 4, 7)], alive=False), LONGER, 5, False, id="the leader is down"),
        pytest.param(replica(1, [(1, 0, 3), (5, 4, 11)], **UP), LONGER, 5, False, id="of one length"),
        pytest.param(replica(1, [(1, 0, 3), (5, 4, 14)], **UP), LONGER, 5, False, id="the follower is behind"),
        pytest.param(replica(1, [(1, 0, 2), (5, 3, 7)], **UP), LONGER, 5, False, id="they differ below"),
        pytest.param(replica(1, [(-1, 0, 7)], **UP), replica(2, [(-1, 0, 11)], **UP), -1, False, id="no epoch is current"),
    ],
)
def test_leader_copied_earlier(leader: Replica, follower: Replica, leader_epoch: int, expected: bool) -> None:
    assert _copied_earlier(leader, follower, leader_epoch=leader_epoch) is expected
    assert not _copied_earlier(leader, follower, leader_epoch=leader_epoch, simultaneous=True)


@pytest.mark.parametrize(
    ("leader", "options", "expected"),
    [
        pytest.param(
            replica(1, [(1, 0, 7)], **UP), {"leader_epoch": 5, "enters_epoch_at_once": True}, True, id="its table lacks the epoch"
        ),
        pytest.param(
            replica(1, [(1, 0, 7)], alive=False, stopped_cleanly=True),
            {"leader_epoch": 5, "enters_epoch_at_once": True},
            True,
            id="copied between a clean stop and the start after which it was elected",
        ),
        pytest.param(replica(1, [(1, 0, 7)], **UP), {"leader_epoch": 5}, False, id="it may enter an epoch with its first record"),
        pytest.param(
            replica(1, [(1, 0, 7)], epochs=[(1, 0), (5, 8)], **UP),
            {"leader_epoch": 5, "enters_epoch_at_once": True},
            False,
            id="its table has it",
        ),
        pytest.param(
            replica(1, [(1, 0, 7)], epochs=[(1, 0), (5, 9)], **UP), {"leader_epoch": 5}, True, id="an entry beyond the copied log end"
        ),
        pytest.param(
            replica(1, [(1, 0, 7)], epochs=[(1, 0), (5, 9)]), {"leader_epoch": 5}, False, id="such an entry, of a leader that is down"
        ),
        pytest.param(replica(1, [(2, 0, 7)], epochs=[(2, 0), (5, 9)], **UP), {"leader_epoch": 5}, False, id="they differ below"),
        pytest.param(replica(1, [], **UP), {"leader_epoch": 5, "enters_epoch_at_once": True}, True, id="an empty log without an epoch"),
        pytest.param(
            replica(1, [], epochs=[(5, 0)], **UP), {"leader_epoch": 5, "enters_epoch_at_once": True}, False, id="elected with an empty log"
        ),
        pytest.param(
            replica(1, [], alive=False),
            {"leader_epoch": 5, "enters_epoch_at_once": True},
            False,
            id="an empty log of a broker that is down",
        ),
        pytest.param(
            replica(1, [], start=5, end=8, **UP),
            {"leader_epoch": 5, "enters_epoch_at_once": True},
            True,
            id="a log whose segments retention has emptied one by one",
        ),
        pytest.param(
            replica(1, [(1, 0, 7)], epochs=[], **UP),
            {"leader_epoch": 5, "enters_epoch_at_once": True},
            True,
            id="a table without an entry, copied while its broker wrote it",
        ),
        pytest.param(
            replica(1, [], checkpoint_known=False, **UP),
            {"leader_epoch": 5, "enters_epoch_at_once": True},
            False,
            id="an empty log, and no table was collected",
        ),
    ],
)
def test_leader_copied_before_its_election(leader: Replica, options: dict[str, Any], expected: bool) -> None:
    follower = replica(2, [(1, 0, 11)], **UP)
    assert compare(leader, follower, **options).leader_copied_earlier is expected
    assert not compare(leader, follower, simultaneous=True, **options).leader_copied_earlier


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        pytest.param({}, {}, True, id="committed, and all elections since were clean"),
        pytest.param({"high_watermark": 4}, {}, False, id="above the high watermark: it may have been cut"),
        pytest.param({"high_watermark": None}, {}, False, id="no high watermark"),
        pytest.param({}, {"clean_elections": frozenset({5})}, False, id="of one of the elections it is not known"),
        pytest.param({}, {"clean_elections": frozenset()}, False, id="no metadata log"),
    ],
)
def test_what_was_committed_differs_though_the_leader_was_copied_earlier(
    fields: dict[str, Any], options: dict[str, Any], expected: bool
) -> None:
    leader = replica(1, [(1, 0, 3), (2, 4, 7), (3, 8, 9)], **{**UP, "high_watermark": 10, **fields})
    follower = replica(2, [(1, 0, 3), (1, 4, 7), (4, 8, 11)], epochs=[(1, 0), (4, 8)], **UP)
    context = {"leader_epoch": 5, "enters_epoch_at_once": True, "clean_elections": frozenset({4, 5}), **options}
    found = compare(leader, follower, **context)
    assert found.leader_copied_earlier is not expected
    assert judge(found).verdict is (Verdict.LOG_MATCHING_VIOLATION if expected else Verdict.INCONCLUSIVE)


def test_logs_that_agree_again_differ_though_the_leader_was_copied_earlier() -> None:
    leader = replica(1, [(1, 0, 3), (2, 4, 7), (3, 8, 9)], **UP)
    follower = replica(2, [(1, 0, 3), (1, 4, 7), (3, 8, 11)], epochs=[(1, 0), (3, 8)], **UP)
    found = compare(leader, follower, leader_epoch=5, enters_epoch_at_once=True)
    assert not found.leader_copied_earlier
    assert judge(found).verdict is Verdict.LOG_MATCHING_VIOLATION
    assert found.divergence_offset == 4


def test_a_tail_that_is_cut_is_none_of_that() -> None:
    leader = replica(1, [(1, 0, 3), (3, 4, 9)], high_watermark=10, **UP)
    follower = replica(2, [(1, 0, 3), (2, 4, 7)], **UP)
    found = compare(leader, follower, leader_epoch=5, enters_epoch_at_once=True, clean_elections=frozenset({4, 5}))
    assert found.difference is not None
    assert found.leader_copied_earlier


@pytest.mark.parametrize(
    ("follower", "leader_epoch", "expected"),
    [
        pytest.param(replica(2, [(1, 0, 7), (4, 8, 11)]), 3, True, id="an epoch above both"),
        pytest.param(replica(2, [(1, 0, 7), (4, 8, 11)]), 4, False, id="the metadata knows it"),
        pytest.param(replica(2, [(1, 0, 7), (3, 8, 11)]), 2, False, id="the leader knows it"),
        pytest.param(replica(2, [(1, 0, 7), (4, 8, 11)]), -1, False, id="no metadata"),
        pytest.param(replica(2, [(1, 0, 11)], epochs=[(1, 0), (4, 12)]), 3, False, id="an election won without a record"),
        pytest.param(
            replica(2, [(1, 0, 7), (4, 8, 11)], epochs=[(1, 0)]), 3, False, id="an epoch that only batches know: stamped otherwise"
        ),
    ],
)
def test_metadata_older_than_the_copies(follower: Replica, leader_epoch: int, expected: bool) -> None:
    leader = replica(1, [(1, 0, 9), (3, 10, 14)])
    assert compare(leader, follower, leader_epoch=leader_epoch).metadata_is_older is expected
    assert (compare(leader, follower, leader_epoch=leader_epoch).divergence_offset is None) == expected
    assert not compare(leader, follower, leader_epoch=leader_epoch, simultaneous=True).metadata_is_older


@pytest.mark.parametrize(
    ("fields", "batches", "expected"),
    [
        pytest.param(LIVE, [(1, 0, 19)], True, id="it runs, is in the ISR, and would be cut"),
        pytest.param(UP, [(1, 0, 19)], True, id="it runs: whoever runs has fetched"),
        pytest.param(LIVE, [(1, 0, 9)], False, id="nothing to cut"),
        pytest.param({**LIVE, "frozen": True}, [(1, 0, 19)], False, id="frozen: it has not"),
        pytest.param({"alive": False, "in_isr": True}, [(1, 0, 19)], False, id="down"),
        pytest.param({"in_isr": True}, [(1, 0, 19)], False, id="unknown"),
    ],
)
def test_follower_copied_earlier(fields: dict[str, Any], batches: list[Batch], expected: bool) -> None:
    leader, follower = replica(1, [(1, 0, 9), (5, 10, 24)]), replica(2, batches, **fields)
    assert compare(leader, follower).follower_copied_earlier is expected
    assert not compare(leader, follower, simultaneous=True).follower_copied_earlier


# --- verdicts -----------------------------------------------------------------------------------------------------------------------------


AHEAD = replica(2, [(1, 0, 3), (5, 4, 11)], high_watermark=12, **LIVE)


@pytest.mark.parametrize(
    ("leader", "options", "expected"),
    [
        pytest.param(
            replica(1, [(1, 0, 3), (5, 4, 7)], **LIVE), {"leader_epoch": 5}, Verdict.INCONCLUSIVE, id="ahead in the current epoch"
        ),
        pytest.param(
            replica(1, [(1, 0, 3), (5, 4, 7)], **LIVE),
            {"leader_epoch": 5, "simultaneous": True},
            Verdict.COMMITTED_LOSS,
            id="at one instant",
        ),
        pytest.param(replica(1, [(1, 0, 3), (5, 4, 7)], alive=False), {"leader_epoch": 5}, Verdict.COMMITTED_LOSS, id="the leader is down"),
        pytest.param(
            replica(1, [(1, 0, 3), (5, 4, 7)], epochs=[(1, 0), (5, 4), (7, 8)], **LIVE),
            {"leader_epoch": 7},
            Verdict.COMMITTED_LOSS,
            id="an epoch of the leader begins below the follower's end",
        ),
    ],
)
def test_a_leader_copied_earlier_proves_nothing(leader: Replica, options: dict[str, Any], expected: Verdict) -> None:
    found = _judged(leader, replace(AHEAD, in_isr=False, alive=False), **options)
    assert found.verdict is expected
    assert found.reason.startswith("leader copied earlier: offsets 8..11") == (expected is Verdict.INCONCLUSIVE)


def test_a_difference_below_is_no_matter_of_the_copies() -> None:
    leader = replica(1, [(1, 0, 2), (5, 3, 7)], **LIVE)
    assert _verdict(leader, replace(AHEAD, in_isr=False, alive=False), leader_epoch=5) is not Verdict.INCONCLUSIVE


def test_before_2_0_1_only_metadata_knows_an_epoch_that_nothing_was_written_in() -> None:
    leader, follower = replica(1, [(1, 0, 7)], **LIVE), replica(2, [(1, 0, 11)], high_watermark=5, alive=False)
    assert _verdict(leader, follower, leader_epoch=3, protocol=Protocol.KIP_101) is Verdict.STALE_TAIL
    assert _verdict(leader, follower, leader_epoch=1, protocol=Protocol.KIP_101) is Verdict.INCONCLUSIVE


def test_metadata_newer_than_the_leaders_copy_proves_nothing() -> None:
    leader, follower = replica(1, [(3, 0, 899)], high_watermark=890, **LIVE), replica(2, [(3, 0, 999)], high_watermark=990, **LIVE)
    assert _verdict(leader, follower, leader_epoch=5, enters_epoch_at_once=True) is Verdict.INCONCLUSIVE


def test_a_leaders_log_older_than_its_table_proves_nothing() -> None:
    leader = replica(1, [(3, 0, 899)], epochs=[(3, 0), (5, 1000)], high_watermark=890, **LIVE)
    assert _verdict(leader, replica(2, [(3, 0, 949)], high_watermark=940, **LIVE), leader_epoch=5) is Verdict.INCONCLUSIVE


def test_metadata_older_than_the_copies_proves_nothing() -> None:
    leader = replica(1, [(3, 0, 1099)], high_watermark=1000, **LIVE)
    assert _verdict(leader, replica(2, [(3, 0, 999), (4, 1000, 1999)], high_watermark=1990, **LIVE), leader_epoch=3) is Verdict.INCONCLUSIVE


def test_a_running_member_of_the_isr_copied_before_an_election_proves_nothing() -> None:
    leader = replica(1, [(4, 0, 999), (5, 1000, 1499)], high_watermark=1500, **LIVE)
    assert _verdict(leader, replica(2, [(4, 0, 1009)], high_watermark=1000, **LIVE), leader_epoch=5) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("in_isr", "expected"),
    [
        pytest.param(True, {Verdict.LAGGING, Verdict.INCONCLUSIVE}, id="in the ISR"),
    ],
)
def test_a_running_follower_whose_table_was_copied_before_its_log_is_not_cut(in_isr: bool, expected: set[Verdict]) -> None:
    leader = replica(1, [(3, 0, 999), (5, 1000, 1199)], high_watermark=1200, **LIVE)
    follower = replica(2, [(3, 0, 999), (5, 1000, 1099)], epochs=[(3, 0)], high_watermark=1090, alive=True, in_isr=in_isr)
    assert _verdict(leader, follower, leader_epoch=5) in expected


@pytest.mark.parametrize(
    ("follower", "expected"),
    [
        pytest.param({"epochs": [(1, 30), (3, 50)]}, Verdict.LAGGING, id="inside of an epoch, where a segment begins"),
        pytest.param({"epochs": [(1, 31), (3, 50)]}, Verdict.EPOCH_TABLE_ONLY, id="inside of a segment: the table was lost"),
        pytest.param({"epochs": [(3, 72)]}, Verdict.LAGGING, id="inside of a later one"),
        pytest.param({"epochs": [(3, 50)]}, Verdict.EPOCH_TABLE_ONLY, id="where an epoch begins: it may lack the entry of the one before"),
        pytest.param({"epochs": [(3, 50)], "start": 20, "leader_start": 50}, Verdict.LAGGING, id="which the leader's log no longer has"),
        pytest.param({"epochs": [(3, 50)], "start": 20, "leader_start": 49}, Verdict.EPOCH_TABLE_ONLY, id="all but for one offset"),
        pytest.param(
            {"epochs": [(1, 30), (3, 50)], "alive": False}, Verdict.EPOCH_TABLE_ONLY, id="it is down, and will not move it any more"
        ),
        pytest.param({"epochs": [(1, 30), (3, 50)], "alive": None}, Verdict.EPOCH_TABLE_ONLY, id="nobody says that it runs"),
        pytest.param({"epochs": [(1, 30), (3, 50)], "simultaneous": True}, Verdict.EPOCH_TABLE_ONLY, id="at one instant"),
        pytest.param({"epochs": [(1, 30), (3, 52)]}, Verdict.EPOCH_TABLE_ONLY, id="and a later entry is wrong"),
    ],
)
def test_a_running_followers_own_retention_moves_its_table_after_its_log_was_copied(follower: dict[str, Any], expected: Verdict) -> None:
    """UnifiedLog.deleteOldSegments runs on every replica by itself."""
    fields = LIVE | follower
    start, simultaneous = fields.pop("leader_start", 0), fields.pop("simultaneous", False)
    leader = replica(1, [(1, 0, 49), (3, 50, 109)], start=start, epochs=[(3, 50)] if start == 50 else None, high_watermark=100, **LIVE)
    copied = replica(2, [(1, 0, 49), (3, 50, 99)], high_watermark=100, **fields)
    copied = replace(copied, log=replace(copied.log, segment_bases=(0, 30, 50, 72)))
    assert _verdict(leader, copied, leader_epoch=3, simultaneous=simultaneous) is expected


@pytest.mark.parametrize(
    ("alive", "simultaneous", "expected"),
    [
        pytest.param(True, False, Verdict.LAGGING, id="it runs, its files were copied one after the other"),
        pytest.param(True, True, Verdict.EPOCH_TABLE_ONLY, id="at one instant"),
        pytest.param(False, False, Verdict.EPOCH_TABLE_ONLY, id="it is down"),
        pytest.param(None, False, Verdict.EPOCH_TABLE_ONLY, id="nobody says that it runs"),
    ],
)
def test_a_leaders_table_that_lacks_its_latest_epochs(alive: bool | None, simultaneous: bool, expected: Verdict) -> None:
    leader = replica(1, [(3, 0, 999), (5, 1000, 1199)], epochs=[(3, 0)], high_watermark=1200, alive=alive)
    follower = replica(2, [(3, 0, 999), (5, 1000, 1099)], high_watermark=1090, **LIVE)
    assert _verdict(leader, follower, leader_epoch=5, simultaneous=simultaneous) is expected


@pytest.mark.parametrize(
    ("fields", "simultaneous", "violates"),
    [
        pytest.param({"alive": True}, True, True, id="at one instant the leader's high watermark alone decides"),
        pytest.param({"alive": True}, False, False, id="copied apart, the leader's may be minutes newer than the follower's log"),
        pytest.param(
            {"alive": None},
            False,
            False,
            id="copied apart, nobody says that it is down",
        ),
    ],
)
def test_log_matching_is_bounded_by_both_high_watermarks_of_copies_taken_apart(fields: Any, simultaneous: bool, violates: bool) -> None:
    follower = replica(2, [(1, 0, 19)], high_watermark=10, in_isr=True, **fields)
    found = _verdict(ISR_LEADER, follower, leader_epoch=5, simultaneous=simultaneous)
    assert (found is Verdict.LOG_MATCHING_VIOLATION) == violates
    both = _verdict(ISR_LEADER, replace(follower, high_watermark=11), leader_epoch=5, simultaneous=simultaneous)
    has_been_cut = bool(follower.alive) and not simultaneous  # by its first fetch, before it joined the ISR
    assert both is (Verdict.COMMITTED_LOSS if has_been_cut else Verdict.LOG_MATCHING_VIOLATION)


@pytest.mark.parametrize(
    ("leader_runs", "simultaneous", "violates"),
    [
        pytest.param(True, False, False, id="it started again after it was copied, and is in the ISR of a leader that runs"),
        pytest.param(True, True, True, id="at one instant it is in the ISR as it is"),
        pytest.param(False, False, True, id="the leader does not run either: nothing has changed since"),
    ],
)
def test_a_follower_that_was_copied_between_a_stop_in_order_and_its_start(leader_runs: bool, simultaneous: bool, violates: bool) -> None:
    """Seen on brokers (3.9.2): what it wrote as the leader until it heard of its successor is still in the copy of the stopped broker."""
    follower = replica(2, [(1, 0, 19)], high_watermark=10, in_isr=True, alive=False, stopped_cleanly=True)
    found = _verdict(replace(ISR_LEADER, alive=leader_runs), follower, leader_epoch=5, simultaneous=simultaneous)
    assert (found is Verdict.LOG_MATCHING_VIOLATION) == violates


@pytest.mark.parametrize(
    ("leader", "follower", "verdict"),
    [
        pytest.param([(1, 0, 9)], [(1, 0, 8), (2, 9, 19)], Verdict.INCONCLUSIVE, id="what it had in epoch 1 was cut before it led in 3"),
        pytest.param([(1, 0, 9)], [(1, 0, 14)], Verdict.INCONCLUSIVE, id="longer"),
        pytest.param([(1, 0, 9)], [(1, 0, 7)], Verdict.LAGGING, id="a clean prefix stays clean"),
    ],
)
def test_a_leader_that_was_copied_before_it_was_elected_proves_nothing(
    leader: list[Batch], follower: list[Batch], verdict: Verdict
) -> None:
    given: dict[str, Any] = {"leader_epoch": 3, "enters_epoch_at_once": True}
    pair = replica(1, leader, **UP), replica(2, follower, high_watermark=8)
    found = judge(compare(*pair, **given))
    assert found.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert found.reason == "leader copied earlier: its copy does not know its epoch 3, and may be older than that epoch"
    assert judge(compare(*pair, **given, simultaneous=True)).verdict is not Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("leader", "verdict"),
    [
        pytest.param({"start": 6}, Verdict.INCONCLUSIVE, id="retention of the leader of then had overtaken it"),
        pytest.param({}, Verdict.INCONCLUSIVE, id="a new replica's, of a new topic"),
        pytest.param({"epochs": [(3, 0)]}, Verdict.COMMITTED_LOSS, id="a new replica's that was elected: its disk was lost"),
        pytest.param({"start": 6, "epochs": [(3, 6)]}, Verdict.COMMITTED_LOSS, id="it knows its epoch"),
    ],
)
def test_a_leader_whose_log_had_just_begun_anew_when_it_was_copied_proves_nothing(leader: dict[str, Any], verdict: Verdict) -> None:
    """Seen on 4.3.1: a follower that was emptied and begun anew at 5456, copied, and elected before its own follower was copied.

    On 3.9.2: the broker that was elected, copied while __transaction_state was being made.
    """
    pair = replica(1, **leader, **UP), replica(2, [(2, 0, 9)], high_watermark=8, alive=False)
    given: dict[str, Any] = {"leader_epoch": 3, "enters_epoch_at_once": True}
    assert _verdict(*pair, **given) is verdict
    assert _verdict(*pair, **given, simultaneous=True) is Verdict.COMMITTED_LOSS


# --- the file beside the brokers, and copies of the metadata log --------------------------------------------------------------------------


def _claim(source: str, leader: int, leader_epoch: int, **fields: Any) -> PartitionMetadata:
    ordinary: dict[str, Any] = {"topic": "t", "partition": 0, "topic_id": None, "compacted": False, "replicas": (1, 2), "isr": (1, 2)}
    return PartitionMetadata(source=source, leader=leader, leader_epoch=leader_epoch, **ordinary | fields)


def test_of_two_leaders_of_one_epoch_neither_is_believed() -> None:
    found = latest([_claim("cluster-metadata", 1, 5), _claim(METADATA_LOG, 2, 5, log_epoch=4, log_end_offset=9)])
    assert found is not None
    assert (found.leader, found.isr, found.no_leader) == (-1, (), False)
    assert inferred_because(found, outdated=False) == InferredBecause.LEADER_NOT_NAMED


@pytest.mark.parametrize(
    ("in_file", "in_log", "leader"),
    [
        pytest.param((-1, 5), (2, 5), 2, id="the file leaves it out"),
        pytest.param((1, 5), (1, 5), 1, id="both tell it"),
        pytest.param((0, 5), (0, 5), 0, id="broker 0 is one"),
        pytest.param((1, 5), (2, 4), 1, id="the log knows an earlier one"),
        pytest.param((-1, 5), (2, 4), -1, id="the log knows an earlier epoch's"),
        pytest.param((-1, 5), (-1, 5), -1, id="nobody leads"),
        pytest.param((1, 5), (-1, 5), 1, id="the log leaves it out"),
    ],
)
def test_a_leader_that_the_file_leaves_out_is_the_logs_of_that_epoch(
    in_file: tuple[int, int], in_log: tuple[int, int], leader: int
) -> None:
    found = latest([_claim("cluster-metadata", *in_file), _claim(METADATA_LOG, *in_log, log_epoch=4, log_end_offset=9)])
    assert found is not None
    assert (found.leader, found.leader_epoch, found.source) == (leader, 5, "cluster-metadata")
