"""Every verdict and every rule that keeps it honest: an example that makes it fire, and the near miss that must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.protocol.comparison.content import ContentComparison, ContentDifference
from replica_audit.protocol.epochs.lineage import history_of_runs
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import SEVERITIES, Judgement, Verdict, judge
from replica_audit.rows.codes import Protocol, Severity
from replica_audit.rows.pairs import ContradictingLine
from tests.protocol.logs import Batch, compare, replica

UP: dict[str, Any] = {"alive": True}
LIVE: dict[str, Any] = {"alive": True, "in_isr": True}
LEADER = replica(1, [(1, 0, 9), (5, 10, 24)], high_watermark=25, **LIVE)
DIVERGED = replica(2, [(1, 0, 19)], high_watermark=10, alive=False)


def _judged(leader: Replica, follower: Replica, *witnesses: Replica, **options: Any) -> Judgement:
    return judge(compare(leader, follower, *witnesses, **options))


def _verdict(leader: Replica, follower: Replica, *witnesses: Replica, **options: Any) -> Verdict:
    return _judged(leader, follower, *witnesses, **options).verdict


def _unstamped(found: Replica, first: int) -> Replica:
    """The replica without an epoch in the run at an offset, though its format has epochs."""
    held = tuple(run._replace(leader_epoch=-1) if run.first_offset == first else run for run in found.log.runs)
    return replace(found, log=replace(found.log, runs=held), history=history_of_runs(held))


# --- severities ---------------------------------------------------------------------------------------------------------------------------


def test_every_verdict_has_its_severity() -> None:
    by_severity = {severity: {verdict for verdict in Verdict if SEVERITIES[verdict] is severity} for severity in Severity}
    assert by_severity == {
        Severity.CRITICAL: {Verdict.COMMITTED_LOSS, Verdict.LOG_MATCHING_VIOLATION, Verdict.CONTENT_MISMATCH},
        Severity.ERROR: {
            Verdict.CANNOT_REJOIN,
            Verdict.TRUNCATED_OTHERWISE,
            Verdict.STALE_TAIL,
            Verdict.UNREADABLE,
            Verdict.STALE_TOPIC_ID,
            Verdict.COMPACTION_DIFFERS,
        },
        Severity.WARNING: {Verdict.EPOCH_TABLE_ONLY, Verdict.REBATCHED, Verdict.INCONCLUSIVE},
        Severity.NONE: {Verdict.IDENTICAL, Verdict.LAGGING, Verdict.CONSISTENT},
    }
    assert list(Severity) == [Severity.CRITICAL, Severity.ERROR, Severity.WARNING, Severity.NONE], "loudest first"
    assert _judged(LEADER, DIVERGED).severity is Severity.ERROR


# --- 1 unreadable, 2 stale topic id, 3 inconclusive ---------------------------------------------------------------------------------------


def test_unreadable_comes_first() -> None:
    broken = replace(DIVERGED, unreadable="the batch at offset 7 does not match its CRC", topic_id="b")
    found = _judged(replace(LEADER, topic_id="a", unreadable="its own"), broken)
    assert (found.verdict, found.reason) == (Verdict.UNREADABLE, "the batch at offset 7 does not match its CRC")


@pytest.mark.parametrize(
    ("theirs", "own", "expected"),
    [
        pytest.param("a", "b", Verdict.STALE_TOPIC_ID, id="another"),
        pytest.param("a", "a", Verdict.STALE_TAIL, id="the same"),
        pytest.param("a", None, Verdict.STALE_TAIL, id="the follower's is unknown"),
        pytest.param(None, "b", Verdict.STALE_TAIL, id="the leader's is unknown"),
        pytest.param(None, None, Verdict.STALE_TAIL, id="both are unknown"),
    ],
)
def test_stale_topic_id(theirs: str | None, own: str | None, expected: Verdict) -> None:
    assert _verdict(replace(LEADER, topic_id=theirs), replace(DIVERGED, topic_id=own)) is expected


def test_a_stale_topic_id_comes_before_an_unreadable_leader() -> None:
    leader = replace(LEADER, unreadable="bit rot", topic_id="a")
    assert _verdict(leader, replace(DIVERGED, topic_id="b")) is Verdict.STALE_TOPIC_ID
    found = _judged(leader, DIVERGED)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "leader unknown or unreadable: bit rot" in found.reason


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param(35, Verdict.INCONCLUSIVE, id="it ends below the leader's start"),
        pytest.param(48, Verdict.INCONCLUSIVE, id="one offset below"),
        pytest.param(49, Verdict.LAGGING, id="it ends where the leader starts: an empty range is clean"),
        pytest.param(55, Verdict.STALE_TAIL, id="it reaches into the leader's log"),
    ],
)
def test_no_common_range(end: int, expected: Verdict) -> None:
    leader = replica(1, [(5, 50, 79)], high_watermark=80, **LIVE)
    found = compare(leader, replica(2, [(1, 0, end)], high_watermark=10, alive=False))
    assert judge(found).verdict is expected
    if expected is Verdict.INCONCLUSIVE:
        assert "no common range" in judge(found).reason
        assert found.effect.truncation.restart_offset == 50


def test_an_empty_follower_is_lagging_wherever_the_leader_starts() -> None:
    for leader in (replica(1, [(5, 50, 79)]), replica(1, [(5, 0, 79)])):
        found = compare(leader, replica(2))
        assert judge(found).verdict is Verdict.LAGGING
    assert found.effect.truncation.restart_offset is None
    assert compare(replica(1, [(5, 50, 79)]), replica(2)).effect.truncation.restart_offset == 50
    assert _verdict(replica(1), replica(2)) is Verdict.IDENTICAL, "nothing was ever written"
    assert _verdict(replica(1, epochs=[(0, 0)]), replica(2)) is Verdict.IDENTICAL


def test_no_common_range_comes_before_what_would_be_lost() -> None:
    leader, follower = replica(1, [(5, 50, 79)]), replica(2, [(1, 0, 35)], high_watermark=36)
    assert _verdict(leader, follower) is Verdict.INCONCLUSIVE


# --- 4 log matching violation -------------------------------------------------------------------------------------------------------------


KAFKA_6361 = replica(1, [(1, 0, 20), (3, 21, 30)], high_watermark=31)
LEADER_BATCHES: list[Batch] = [(1, 0, 10), (1, 11, 20), (3, 21, 30)]


@pytest.mark.parametrize("n", [15, 20, 25])
def test_what_kip_101_leaves_is_a_violation_and_what_later_rules_leave_is_not(n: int) -> None:
    own: list[Batch] = [(1, 0, 10), (2, 11, n)]
    measured: dict[str, Any] = {"leader_batches": LEADER_BATCHES, "follower_batches": own}
    follower = replica(2, own, high_watermark=11)
    assert _verdict(KAFKA_6361, follower, protocol=Protocol.KIP_101, **measured) is Verdict.LOG_MATCHING_VIOLATION
    assert _verdict(KAFKA_6361, follower, protocol=Protocol.KIP_279, **measured) is Verdict.STALE_TAIL
    assert _verdict(KAFKA_6361, follower, **measured) is Verdict.STALE_TAIL


def test_a_hole_where_a_cut_falls_into_a_batch() -> None:
    leader, follower = replica(1, [(1, 0, 30)]), replica(2, [(1, 0, 25)], high_watermark=21)
    own: list[Batch] = [(1, 0, 10), (1, 11, 25)]
    holed: dict[str, Any] = {"protocol": Protocol.HIGH_WATERMARK, "follower_batches": own}
    found = _judged(leader, follower, leader_batches=[(1, 0, 20), (1, 21, 30)], **holed)
    assert found.verdict is Verdict.LOG_MATCHING_VIOLATION
    assert (
        "offsets 11..20 of follower 2 are truncated with the batch that holds the truncation offset, and never fetched again: a hole "
        "remains" in found.reason
    )
    fails = compare(leader, follower, leader_batches=[(1, 0, 19), (1, 20, 30)], **holed)
    assert fails.effect.fetcher_fails
    assert judge(fails).verdict is Verdict.STALE_TAIL, "the fetcher fails: it does not go on behind a hole"
    aligned: dict[str, Any] = {"leader_batches": [(1, 0, 20), (1, 21, 30)], "follower_batches": [(1, 0, 20), (1, 21, 25)]}
    assert _verdict(leader, follower, protocol=Protocol.HIGH_WATERMARK, **aligned) is Verdict.LAGGING, "it fetches them again"
    assert _verdict(leader, follower, leader_batches=[(1, 0, 20), (1, 21, 30)], compacted=True, **holed) is Verdict.LAGGING


@pytest.mark.parametrize(
    ("leader", "follower", "where"),
    [
        pytest.param([(1, 0, 29)], [(1, 0, 9), (2, 10, 19), (1, 20, 29)], "10..19 leader epoch 1, follower epoch 2", id="another epoch"),
        pytest.param(
            [(1, 0, 29)],
            [(1, 0, 9), (1, 20, 29)],
            "offsets 10..19 are missing from follower 2, a hole in its log; leader 1 holds 10 in epoch 1",
            id="the follower misses offsets",
        ),
        pytest.param(
            [(1, 0, 9), (1, 20, 29)],
            [(1, 0, 29)],
            "offsets 10..19 are missing from leader 1, a hole in its log; follower 2 holds 10 in epoch 1",
            id="the leader misses offsets",
        ),
    ],
)
def test_batches_that_differ_and_are_not_cut(leader: list[Batch], follower: list[Batch], where: str) -> None:
    found = _judged(replica(1, leader, epochs=[(1, 0)]), replica(2, follower, epochs=[(1, 0)]))
    assert found.verdict is Verdict.LOG_MATCHING_VIOLATION
    assert where in found.reason


def test_a_batch_without_an_epoch_where_the_leader_has_one_and_the_format_too() -> None:
    sides = [replica(broker, [(1, 0, 9), (2, 10, 19), (3, 20, 29)]) for broker in (1, 2)]
    found = _judged(sides[0], _unstamped(sides[1], 10))
    assert found.verdict is Verdict.LOG_MATCHING_VIOLATION
    assert "at 10..19 leader epoch 2, follower no epoch" in found.reason
    assert "at 10..19 leader no epoch, follower epoch 2" in _judged(_unstamped(sides[0], 10), sides[1]).reason


def test_offsets_missing_on_both_sides_or_at_an_edge_are_no_violation() -> None:
    gap = [(1, 0, 9), (1, 20, 29)]
    assert _verdict(replica(1, gap), replica(2, gap)) is Verdict.IDENTICAL
    assert _verdict(replica(1, [(1, 0, 29)]), replica(2, [(1, 20, 29)])) is Verdict.IDENTICAL, "retention"
    assert _verdict(replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 9)])) is Verdict.LAGGING
    assert _verdict(replica(1, [(1, 0, 29)]), replica(2, gap), compacted=True) is Verdict.CONSISTENT


def test_a_violation_comes_before_the_loss_that_the_same_cut_causes() -> None:
    leader = replica(1, [(1, 0, 30)])
    follower = replica(2, [(1, 0, 4), (2, 5, 9), (1, 10, 39)], epochs=[(1, 0)], high_watermark=40)
    assert compare(leader, follower).lost > 0
    assert _verdict(leader, follower) is Verdict.LOG_MATCHING_VIOLATION


ISR_LEADER = replica(1, [(1, 0, 9), (5, 10, 24)], high_watermark=20, **LIVE)


@pytest.mark.parametrize(
    ("leader", "follower", "expected"),
    [
        pytest.param(
            ISR_LEADER, replica(2, [(1, 0, 19)], high_watermark=20, **LIVE), Verdict.LOG_MATCHING_VIOLATION, id="in the ISR, below both"
        ),
        pytest.param(ISR_LEADER, replica(2, [(1, 0, 19)], high_watermark=20, **UP), Verdict.COMMITTED_LOSS, id="not in the ISR"),
        pytest.param(
            replace(ISR_LEADER, high_watermark=10),
            replica(2, [(1, 0, 19)], high_watermark=10, **LIVE),
            Verdict.STALE_TAIL,
            id="not below it",
        ),
        pytest.param(
            replace(ISR_LEADER, high_watermark=None),
            replica(2, [(1, 0, 19)], high_watermark=10, **LIVE),
            Verdict.STALE_TAIL,
            id="never persisted",
        ),
        pytest.param(ISR_LEADER, replica(2, [(1, 0, 9)], high_watermark=10, **LIVE), Verdict.LAGGING, id="in the ISR and behind"),
    ],
)
def test_a_member_of_the_isr_that_conflicts_below_the_leaders_high_watermark(leader: Replica, follower: Replica, expected: Verdict) -> None:
    found = _judged(leader, follower, leader_epoch=5, simultaneous=True)
    assert found.verdict is expected
    assert ("in the ISR" in found.reason) == (expected is Verdict.LOG_MATCHING_VIOLATION)


# --- 5 committed loss, 6 stale tail -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [(None, Verdict.STALE_TAIL), (10, Verdict.STALE_TAIL), (11, Verdict.COMMITTED_LOSS), (20, Verdict.COMMITTED_LOSS)],
)
def test_committed_loss_begins_below_the_followers_high_watermark(watermark: int | None, expected: Verdict) -> None:
    found = _judged(LEADER, replace(DIVERGED, high_watermark=watermark))
    assert found.verdict is expected
    if expected is Verdict.STALE_TAIL:
        assert "truncates to 10: whether offsets 10..19 were committed is unknown" in found.reason


def test_committed_loss_beyond_a_leader_that_is_shorter() -> None:
    leader = replica(1, [(1, 0, 9)], epochs=[(1, 0), (5, 10)], high_watermark=10)
    assert _judged(leader, replica(2, [(1, 0, 19)], high_watermark=18)).reason.startswith("8 of the removed offsets were committed")


def test_committed_loss_by_a_third_replica_as_witness() -> None:
    witness = replica(3, [(1, 0, 15)], high_watermark=14)
    assert _judged(LEADER, DIVERGED, witness).reason.startswith("4 of the removed offsets")
    assert _verdict(LEADER, DIVERGED, replace(witness, high_watermark=10)) is Verdict.STALE_TAIL
    assert _verdict(LEADER, DIVERGED, replica(3, [(1, 0, 9), (5, 10, 20)], high_watermark=20)) is Verdict.STALE_TAIL, "the leader's lineage"
    assert _verdict(LEADER, DIVERGED, replica(3, [(1, 0, 9)], high_watermark=99)) is Verdict.STALE_TAIL, "it holds none of what is cut"


def test_never_by_the_leaders_own_high_watermark() -> None:
    assert LEADER.high_watermark is not None
    assert LEADER.high_watermark > DIVERGED.log.log_end_offset
    assert _verdict(LEADER, DIVERGED) is Verdict.STALE_TAIL


def test_never_by_a_witness_of_logs_without_epochs() -> None:
    leader, follower = replica(1, [(-1, 0, 14)]), replica(2, [(-1, 0, 19)], high_watermark=15)
    witness = replica(3, [(-1, 0, 19)], high_watermark=20)
    assert _verdict(leader, follower, witness, protocol=Protocol.HIGH_WATERMARK) is Verdict.STALE_TAIL
    own = replace(follower, high_watermark=18)
    assert _verdict(leader, own, protocol=Protocol.HIGH_WATERMARK) is Verdict.COMMITTED_LOSS, "its own speaks of its own records"


def test_retention_on_the_leader_is_no_loss() -> None:
    leader = replica(1, [(5, 30, 79)], epochs=[(5, 30)])
    follower = replica(2, [(1, 0, 34)], high_watermark=30)
    assert _verdict(leader, follower) is Verdict.STALE_TAIL
    assert _verdict(leader, replace(follower, high_watermark=31)) is Verdict.COMMITTED_LOSS


def test_what_is_truncated_and_fetched_again_is_not_lost() -> None:
    leader, follower = replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 19)], high_watermark=10)
    assert _verdict(leader, follower, replica(3, [(1, 0, 19)], high_watermark=20), protocol=Protocol.HIGH_WATERMARK) is Verdict.LAGGING


# --- 7 content mismatch -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param(0, Verdict.CONTENT_MISMATCH, id="far below"),
        pytest.param(19, Verdict.CONTENT_MISMATCH, id="below the cut"),
        pytest.param(20, Verdict.STALE_TAIL, id="at the cut"),
        pytest.param(25, Verdict.STALE_TAIL, id="above it"),
    ],
)
def test_of_logs_without_epochs_another_batch_that_is_not_cut_comes_before_the_tail(first: int, expected: Verdict) -> None:
    cut = compare(replica(1, [(-1, 0, 29)]), replica(2, [(-1, 0, 29)], high_watermark=20))
    differing = ContentDifference(first_offset=first, end_offset=first + 1, leader_crc=1, follower_crc=2)
    found = judge(replace(cut, content=ContentComparison(difference=differing, whole=False)))
    assert (cut.cut, found.verdict) == (20, expected)
    says = (
        f"offsets {first}..{first} differ from the leader's batch: leader CRC 00000001, follower CRC 00000002; "
        "it truncates to 20: offsets 20..29 are removed, none is known to have been committed"
    )
    assert (found.reason == says) == (expected is Verdict.CONTENT_MISMATCH)


# --- 9 no epochs, 10 epoch table only -----------------------------------------------------------------------------------------------------


def test_equal_offsets_without_epochs_prove_nothing() -> None:
    leader, follower = replica(1, [(-1, 0, 29)]), replica(2, [(-1, 0, 29)], high_watermark=30)
    for protocol in Protocol:
        found = _judged(leader, follower, protocol=protocol)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "no epochs" in found.reason


def test_the_fallback_to_the_high_watermark_cuts_only_who_loads_it_at_start() -> None:
    leader, follower = replica(1, [(-1, 0, 29)], **LIVE), replica(2, [(-1, 0, 29)], high_watermark=20)
    for protocol in Protocol:
        assert _verdict(leader, replace(follower, alive=False, in_isr=True), protocol=protocol) is Verdict.STALE_TAIL
        assert _verdict(leader, replace(follower, alive=None), protocol=protocol) is Verdict.STALE_TAIL
        assert _verdict(leader, replace(follower, **LIVE), protocol=protocol) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("leader", "follower", "expected"),
    [
        pytest.param(replica(1, [(-1, 0, 29)]), replica(2), Verdict.LAGGING, id="the follower holds nothing"),
        pytest.param(replica(1), replica(2), Verdict.IDENTICAL, id="nobody holds anything"),
        pytest.param(
            replica(1, [(-1, 0, 9), (3, 10, 29)]), replica(2, [(-1, 0, 9), (3, 10, 29)]), Verdict.INCONCLUSIVE, id="both have epochs later"
        ),
        pytest.param(
            replica(1, [(-1, 0, 29)], epochs=[(3, 30)]),
            replica(2, [(-1, 0, 29)], high_watermark=30),
            Verdict.INCONCLUSIVE,
            id="the leader has one",
        ),
        pytest.param(
            replica(1, [(-1, 0, 29)]),
            replica(2, [(-1, 0, 29)], epochs=[(3, 30)], high_watermark=30),
            Verdict.INCONCLUSIVE,
            id="the follower has one",
        ),
        pytest.param(replica(1, [(-1, 0, 29)]), replica(2, [(-1, 0, 29)], high_watermark=20), Verdict.STALE_TAIL, id="something is cut"),
    ],
)
def test_no_epochs_needs_two_logs_and_nothing_cut(leader: Replica, follower: Replica, expected: Verdict) -> None:
    assert _verdict(leader, follower) is expected


SAME = [(1, 0, 9), (3, 10, 29)]


@pytest.mark.parametrize(
    ("leader_table", "follower_table", "whose"),
    [
        pytest.param([(1, 0), (3, 10)], [(1, 0), (3, 12)], "follower 2's", id="the follower's starts late"),
        pytest.param([(1, 0), (3, 12)], [(1, 0), (3, 10)], "leader 1's", id="the leader's starts late"),
        pytest.param([(1, 0), (3, 12)], [(1, 0), (3, 12)], "follower 2's", id="both alike"),
        pytest.param([(1, 0), (3, 10)], [(3, 10)], "follower 2's leader-epoch-checkpoint gives no epoch at offset 0", id="an epoch lost"),
        pytest.param([(1, 0), (3, 10)], [(1, 0), (2, 5), (3, 10)], "follower 2's", id="an epoch too many"),
    ],
)
def test_a_table_that_contradicts_its_own_batches(leader_table: Any, follower_table: Any, whose: str) -> None:
    found = _judged(replica(1, SAME, epochs=leader_table), replica(2, SAME, epochs=follower_table))
    assert found.verdict is Verdict.EPOCH_TABLE_ONLY
    assert found.reason.startswith(whose)


@pytest.mark.parametrize(
    ("leader", "follower"),
    [
        pytest.param(replica(1, SAME, epochs=[(1, 0), (3, 10), (7, 30)]), replica(2, SAME), id="the leader's epoch without a record"),
        pytest.param(replica(1, SAME), replica(2, SAME, epochs=[(1, 0), (3, 10), (5, 30)]), id="an entry at the follower's end"),
        pytest.param(replica(1, SAME), replica(2, SAME, epochs=[(1, 0), (3, 10), (5, 44)]), id="an entry beyond the follower's end"),
        pytest.param(replica(1, SAME), replica(2, SAME, epochs=[(1, 0), (3, 12)], cleaner_offset=30), id="below the cleaner checkpoint"),
        pytest.param(replica(1, SAME), replica(2, SAME, epochs=[(3, 10)], start=10), id="below the log start"),
        pytest.param(replica(1, SAME), replica(2, SAME, epochs=[(3, 15)], start=15), id="the first entry stands at the log start"),
        pytest.param(
            replica(1, SAME), replica(2, SAME, epochs=[(1, 0), (3, 12)], checkpoint_known=False), id="no checkpoint was collected"
        ),
    ],
)
def test_a_table_that_may_look_like_this(leader: Replica, follower: Replica) -> None:
    assert _verdict(leader, follower, compacted=True) is Verdict.IDENTICAL


def test_two_tables_that_differ_each_right_beside_its_own_batches() -> None:
    """One of them fetched a compacted range again."""
    leader = replica(1, [(1, 0, 9), (8, 58, 60)], epochs=[(1, 0), (4, 28), (8, 54)])
    assert _verdict(leader, replica(2, [(1, 0, 9), (8, 58, 60)]), compacted=True) is Verdict.CONSISTENT


@pytest.mark.parametrize("fields", [{}, {"alive": False}, LIVE])
def test_a_table_beside_a_batch_without_an_epoch(fields: dict[str, Any]) -> None:
    """Both fetched it; the format has epochs."""
    sides = [_unstamped(replica(broker, [(1, 0, 9), (2, 10, 19), (3, 20, 29)], **fields), 10) for broker in (1, 2)]
    assert sides[0].log.epochs == ((1, 0), (2, 10), (3, 20))
    found = _judged(*sides)
    assert found.verdict is Verdict.EPOCH_TABLE_ONLY
    assert found.reason == "follower 2's leader-epoch-checkpoint gives epoch 2 at offset 10, its batches none"


def test_a_table_that_contradicts_at_the_floor_itself() -> None:
    follower = replica(2, SAME, epochs=[(1, 0), (3, 12)], cleaner_offset=11)
    assert _verdict(replica(1, SAME), follower) is Verdict.EPOCH_TABLE_ONLY
    assert _verdict(replica(1, SAME), replace(follower, cleaner_offset=12)) is Verdict.IDENTICAL
    assert _verdict(replica(1, SAME, cleaner_offset=30), follower) is Verdict.EPOCH_TABLE_ONLY, "its own cleaner's checkpoint counts"


def test_a_table_that_begins_above_a_log_start_not_checkpointed_yet() -> None:
    trimmed = [replica(broker, [(3, 0, 99)], epochs=[(3, 50)], high_watermark=100, **LIVE) for broker in (1, 2)]
    assert _verdict(*trimmed, leader_epoch=3) is Verdict.IDENTICAL


@pytest.mark.parametrize(
    "epochs",
    [
        pytest.param([(3, 50)], id="to the border of two epochs"),
        pytest.param([(3, 100)], id="to the log end: everything was purged"),
    ],
)
def test_a_table_that_begins_where_a_log_start_may_be_moved_to(epochs: list[tuple[int, int]]) -> None:
    trimmed = [replica(broker, [(1, 0, 49), (3, 50, 99)], epochs=epochs, high_watermark=100, **LIVE) for broker in (1, 2)]
    assert _verdict(*trimmed, leader_epoch=3) is Verdict.IDENTICAL


def test_a_running_leaders_table_begins_above_its_log_start_beside_a_follower_that_is_down() -> None:
    leader = replica(1, [(3, 0, 99)], epochs=[(3, 50)], high_watermark=100, **LIVE)
    assert _verdict(leader, replica(2, [(3, 0, 79)], high_watermark=80, alive=False), leader_epoch=3) is Verdict.LAGGING


def test_a_table_that_begins_behind_batches_of_an_old_format() -> None:
    sides = [replica(broker, [(1, 0, 10), (-1, 11, 20), (3, 21, 30)], epochs=[(3, 21)], high_watermark=31) for broker in (1, 2)]
    assert _verdict(*sides) is Verdict.INCONCLUSIVE, "nothing was compared of what has no epochs"
    compared = replace(compare(*sides), content=ContentComparison(difference=None, whole=True))
    assert judge(compared).verdict is Verdict.IDENTICAL


def test_a_table_alone_comes_after_everything_that_is_cut_or_conflicts() -> None:
    wrong = replica(2, SAME, epochs=[(1, 0), (3, 12)])
    assert _verdict(replica(1, SAME), wrong) is Verdict.EPOCH_TABLE_ONLY
    assert _verdict(replica(1, [(1, 0, 9), (3, 10, 14), (5, 15, 40)]), wrong) is Verdict.STALE_TAIL
    assert _verdict(replica(1, [(1, 0, 14), (5, 15, 40)]), wrong) is Verdict.LOG_MATCHING_VIOLATION, "10 and 11 survive a cut to 12"


# --- 11 lagging, 12 identical -------------------------------------------------------------------------------------------------------------


def test_clean_verdicts() -> None:
    found = _judged(replica(1, SAME), replica(2, [(1, 0, 9), (3, 10, 19)]))
    assert (found.verdict, found.reason) == (Verdict.LAGGING, "a clean prefix of the leader, 10 offsets behind")
    assert _verdict(replica(1, SAME), replica(2, SAME)) is Verdict.IDENTICAL


@pytest.mark.parametrize(
    ("whole", "says"),
    [(True, "same batches over the same offsets"), (False, "same epochs over the same offsets; not all batches could be compared")],
)
def test_what_equal_logs_rest_on(whole: bool, says: str) -> None:
    comparison = replace(compare(replica(1, SAME), replica(2, SAME)), content=ContentComparison(difference=None, whole=whole))
    assert (judge(comparison).verdict, judge(comparison).reason) == (Verdict.IDENTICAL, says)


# --- what the broker's own log says, and a high watermark that was not collected ----------------------------------------------------------


def test_a_broker_that_truncated_otherwise() -> None:
    said = ContradictingLine(offset=9, path="server.log", line=3, rule_offset=10)
    judged = judge(replace(compare(LEADER, DIVERGED), did_otherwise=said))
    assert (judged.verdict, judged.severity) == (Verdict.TRUNCATED_OTHERWISE, Severity.ERROR)
    assert "the broker truncated to 9 (server.log, line 3), the rule truncates to 10" in judged.reason
    lost = compare(LEADER, replace(DIVERGED, high_watermark=20))
    assert judge(replace(lost, did_otherwise=said)).verdict is Verdict.COMMITTED_LOSS, "what is lost is said first"


@pytest.mark.parametrize(
    ("follower", "expected"),
    [
        pytest.param(replica(2, [(-1, 0, 19)], high_watermark_known=False), Verdict.INCONCLUSIVE, id="its file is not in the input"),
        pytest.param(replica(2, [(-1, 0, 19)]), Verdict.STALE_TAIL, id="its file is there and does not name it: 0, as for Kafka"),
        pytest.param(replica(2, [(-1, 0, 19)], high_watermark=15), Verdict.STALE_TAIL, id="it is known"),
    ],
)
def test_a_cut_to_a_high_watermark_that_was_not_collected_proves_nothing(follower: Replica, expected: Verdict) -> None:
    assert _verdict(replica(1, [(-1, 0, 29)]), follower, protocol=Protocol.HIGH_WATERMARK) is expected


def test_the_high_watermark_matters_only_where_the_cut_goes_to_it() -> None:
    assert _verdict(LEADER, replace(DIVERGED, high_watermark=None, high_watermark_known=False)) is Verdict.STALE_TAIL
