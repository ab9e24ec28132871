"""A follower that is ahead of its leader's copy: what it can only have from that leader, and what may hide a divergence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.copied_earlier import seen_as_far
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.exchange.replica import LaterBound, Look, Replica
from replica_audit.protocol.verdict.verdict import Verdict, judge
from replica_audit.rows.codes import Protocol, Severity
from tests.protocol.logs import Batch, compare, replica

UP: dict[str, Any] = {"alive": True, "in_isr": True}
LEADER = replica(1, [(1, 0, 3), (5, 4, 7)], **UP)
AHEAD = replica(2, [(1, 0, 3), (5, 4, 11)], **UP)


def compared(
    leader: Replica, follower: Replica, *others: Replica, protocol: Protocol = Protocol.TRUNCATE_ON_FETCH, **options: Any
) -> Comparison:
    """The comparison as the audit makes it, of brokers that enter an epoch when they are elected."""
    options = {"enters_epoch_at_once": True, **options}
    seen = seen_as_far(leader, follower, Context(**options), others)
    return compare(leader, replace(follower, seen=seen), *others, protocol=protocol, **options)


@pytest.mark.parametrize("protocol", list(Protocol))
def test_what_the_leader_wrote_since_is_no_divergence(protocol: Protocol) -> None:
    """Whatever rule is tried: none cuts."""
    found = compared(LEADER, AHEAD, leader_epoch=5, protocol=protocol)
    judged = judge(found)
    assert (judged.verdict, judged.severity, judged.cause) == (Verdict.CONSISTENT, Severity.NONE, None)
    assert judged.reason.startswith(
        "agrees with the leader up to offset 8, where the leader's copy ends; 4 offsets beyond were not compared"
    )
    assert (found.written_since, found.cut, found.divergence_offset, found.end) == (4, None, None, 8)


def test_of_one_instant_it_is_cut() -> None:
    found = compared(LEADER, AHEAD, leader_epoch=5, simultaneous=True)
    assert (found.written_since, found.cut) == (None, 8)


@pytest.mark.parametrize(
    ("leader", "follower", "epoch", "others"),
    [
        pytest.param(LEADER, AHEAD, -1, (), id="no metadata"),
        pytest.param(LEADER, AHEAD, 6, (), id="by the metadata it was elected again"),
        pytest.param(LEADER, AHEAD, 4, (), id="the metadata is older than its table"),
        pytest.param(replace(LEADER, alive=False), AHEAD, 5, (), id="it does not run"),
        pytest.param(replace(LEADER, alive=None), AHEAD, 5, (), id="nobody knows whether it runs"),
        pytest.param(replace(LEADER, frozen=True), AHEAD, 5, (), id="it is frozen, and writes nothing"),
        pytest.param(LEADER, replica(2, [(1, 0, 3), (5, 4, 7), (6, 8, 11)], **UP), 5, (), id="the follower has a later epoch"),
        pytest.param(LEADER, replica(2, [(1, 0, 3), (5, 4, 11)], epochs=[(1, 0), (5, 4), (6, 11)], **UP), 5, (), id="its table has one"),
        pytest.param(LEADER, AHEAD, 5, (replica(3, [(1, 0, 3), (5, 4, 9), (6, 10, 10)], **UP),), id="another replica has one"),
        pytest.param(LEADER, replica(2, [(1, 0, 3), (5, 4, 7), (4, 8, 11)], **UP), 5, (), id="what lies beyond is of an older epoch"),
        pytest.param(
            replica(1, [(1, 0, 3)], epochs=[(1, 0), (5, 9)], **UP),
            AHEAD,
            5,
            (),
            id="the log was copied before the table: beyond may be cut",
        ),
        pytest.param(replica(1, [(1, 0, 2), (5, 3, 7)], **UP), AHEAD, 5, (), id="they differ below"),
        pytest.param(LEADER, replica(2, [(5, 20, 29)], **UP), 5, (), id="they have nothing in common"),
    ],
)
def test_what_may_hide_a_divergence_is_not_clean(leader: Replica, follower: Replica, epoch: int, others: tuple[Replica, ...]) -> None:
    found = compared(leader, follower, *others, leader_epoch=epoch)
    assert found.written_since is None
    assert judge(found).verdict is not Verdict.CONSISTENT


def test_an_old_leader_may_have_come_back_in_its_epoch() -> None:
    """Without the records that it had not flushed: its length alone tells it."""
    found = compared(LEADER, AHEAD, leader_epoch=5, enters_epoch_at_once=False)
    assert (found.written_since, judge(found).verdict) == (None, Verdict.INCONCLUSIVE)


def test_an_epoch_without_records_in_the_leaders_copy() -> None:
    """The leader entered its epoch at the end of its log, which was then copied."""
    found = compared(replica(1, [(1, 0, 3)], epochs=[(1, 0), (5, 4)], **UP), AHEAD, leader_epoch=5)
    assert judge(found).verdict is Verdict.CONSISTENT


def test_a_wrong_table_is_still_found() -> None:
    wrong = replica(2, [(1, 0, 3), (5, 4, 11)], epochs=[(1, 0), (5, 6)], **UP)
    assert judge(compared(LEADER, replace(wrong, alive=False), leader_epoch=5)).verdict is Verdict.EPOCH_TABLE_ONLY


def test_a_cleaner_may_have_left_nothing_where_the_leaders_copy_ends() -> None:
    """The follower came back when the leader had cleaned the first batches of the epoch, and entered it at the first that was left.

    As a follower that ended at 12, in epoch 1, it would be sent back to 8.
    """
    leader = replica(1, [(1, 0, 7), (5, 8, 11)], cleaner_offset=4, **UP)
    follower = replica(2, [(1, 5, 5), (5, 17, 20)], epochs=[(1, 0), (5, 17)], start=0, cleaner_offset=7, **UP)
    found = compared(leader, follower, leader_epoch=5, compacted=True)
    assert found.follower.seen == (12, LaterBound.CURRENT_EPOCH, 12, 6)
    assert (judge(found).verdict, found.cut, found.written_since) == (Verdict.CONSISTENT, None, 9)


def test_a_follower_of_which_a_cleaner_left_nothing_below_still_reaches_the_leaders_log_start() -> None:
    leader = replica(1, [(1, 6, 7), (5, 8, 11)], **UP)
    follower = replica(2, [(5, 17, 20)], epochs=[(1, 0), (5, 17)], start=0, cleaner_offset=17, **UP)
    found = compared(leader, follower, leader_epoch=5, compacted=True)
    assert found.follower.seen == (12, LaterBound.CURRENT_EPOCH, 12, 6)
    assert (judge(found).verdict, found.cut) == (Verdict.CONSISTENT, None)


class TestLaterLooks:
    """The leader's log was looked at again after it had been copied, or its epoch table was copied later than its log."""

    EARLY = replica(1, [(1, 0, 3)], **UP)
    BEYOND = replica(2, [(1, 0, 3), (5, 4, 11)], **UP)

    @staticmethod
    def looked(leader: Replica, end: int, *epochs: tuple[int, int]) -> Replica:
        return replace(leader, second_look=Look(table(epochs), end))

    def test_it_reached_as_far_in_the_same_epochs(self) -> None:
        found = compared(self.looked(self.EARLY, 12, (1, 0), (5, 4)), self.BEYOND, leader_epoch=5)
        judged = judge(found)
        assert (judged.verdict, judged.severity, found.written_since) == (Verdict.CONSISTENT, Severity.NONE, 8)
        assert found.follower.seen == (4, LaterBound.SECOND_LOOK, 12, 4)
        assert "8 offsets beyond were not compared: the leader's log held them, in the same epochs, when collect looked" in judged.reason

    def test_beyond_it_the_leader_wrote_in_its_epoch(self) -> None:
        """Elected after it had been copied, as the second look shows."""
        found = compared(self.looked(self.EARLY, 9, (1, 0), (5, 4)), self.BEYOND, leader_epoch=5)
        assert found.follower.seen == (4, LaterBound.CURRENT_EPOCH, 9, 4)
        assert "up to offset 9 the leader's log had them later, in the same epochs; the rest are of epoch 5" in judge(found).reason

    def test_all_of_it_was_there_before_a_later_election(self) -> None:
        """Bounded from both sides as of the second look, whoever was elected since."""
        found = compared(self.looked(self.EARLY, 12, (1, 0), (5, 4)), self.BEYOND, leader_epoch=6)
        assert judge(found).verdict is Verdict.CONSISTENT

    def test_a_table_that_was_copied_later_than_the_log(self) -> None:
        leader = replica(1, [(1, 0, 3)], epochs=[(1, 0), (5, 9)], **UP)
        whole = compared(leader, replica(2, [(1, 0, 8)], **UP), leader_epoch=5)
        assert whole.follower.seen == (4, LaterBound.LATER_TABLE, 9, 4)
        assert "copied after its log, reaches offset 9" in judge(whole).reason
        beyond = compared(leader, replica(2, [(1, 0, 8), (5, 9, 11)], **UP), leader_epoch=5)
        assert beyond.follower.seen == (4, LaterBound.CURRENT_EPOCH, 9, 4)

    def test_a_look_that_retention_has_shortened_takes_nothing_away(self) -> None:
        """It tells nothing of where the copy ends; the copy's own table does."""
        found = compared(self.looked(LEADER, 12, (5, 9)), AHEAD, leader_epoch=5)
        assert found.follower.seen == (8, LaterBound.CURRENT_EPOCH, 8, 8)
        assert (
            compared(self.looked(LEADER, 10, (5, 9), (6, 10)), replica(2, [(1, 0, 3), (5, 4, 9)], **UP), leader_epoch=5).follower.seen
            is None
        )

    @pytest.mark.parametrize(
        ("end", "epochs", "epoch"),
        [
            pytest.param(12, [(1, 0), (5, 4)], None, id="nobody looked again"),
            pytest.param(12, [(1, 0), (5, 6)], 5, id="in another epoch where the logs meet"),
            pytest.param(12, [(1, 0), (5, 4), (6, 10)], 6, id="in another epoch at the end"),
            pytest.param(12, [(5, 5)], 5, id="retention had taken the table's first entries"),
            pytest.param(12, [], 5, id="without a table"),
            pytest.param(9, [(1, 0), (5, 4)], 6, id="not as far, and elected again since"),
            pytest.param(9, [(1, 0), (5, 4), (6, 9)], 5, id="not as far, and a later epoch had begun"),
            pytest.param(3, [(1, 0)], 1, id="it had been cut"),
        ],
    )
    def test_what_a_look_does_not_show_is_not_clean(self, end: int, epochs: list[tuple[int, int]], epoch: int | None) -> None:
        leader = self.EARLY if epoch is None else self.looked(self.EARLY, end, *epochs)
        found = compared(leader, self.BEYOND, leader_epoch=5 if epoch is None else epoch)
        assert found.written_since is None
        assert judge(found).verdict is not Verdict.CONSISTENT

    @pytest.mark.parametrize("change", [{"alive": False}, {"alive": None}, {"frozen": True}])
    def test_nor_is_it_of_a_leader_that_does_not_run(self, change: dict[str, Any]) -> None:
        leader = replace(self.looked(self.EARLY, 12, (1, 0), (5, 4)), **change)
        assert compared(leader, self.BEYOND, leader_epoch=5).written_since is None

    def test_a_difference_in_the_copies_is_found_all_the_same(self) -> None:
        leader = self.looked(replica(1, [(1, 0, 1), (2, 2, 3)], **UP), 12, (1, 0), (5, 4))
        found = compared(leader, self.BEYOND, leader_epoch=5)
        assert found.difference is not None
        assert judge(found).severity is not Severity.NONE


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """What a leader has written, epoch after epoch."""
    batches, offset, epoch = [], 0, 0
    for _ in range(draw(st.integers(2, 8))):
        epoch += draw(st.integers(0, 2))
        length = draw(st.integers(1, 4))
        batches.append((epoch, offset, offset + length - 1))
        offset += length
    return batches


@given(histories(), st.data())
def test_copies_of_one_history_are_clean_however_they_were_taken(batches: list[Batch], data: st.DataObject) -> None:
    """The leader's is earlier, and knows the current epoch; nothing was elected since."""
    epoch = batches[-1][0]
    of_epoch = [number for number, batch in enumerate(batches) if batch[0] == epoch]
    until = data.draw(st.integers(of_epoch[0] + 1, len(batches)))
    held = data.draw(st.integers(1, len(batches)))
    found = compared(replica(1, batches[:until], **UP), replica(2, batches[:held], **UP), leader_epoch=epoch)
    expected = {True: Verdict.CONSISTENT, False: Verdict.LAGGING if held < until else Verdict.IDENTICAL}[held > until]
    assert judge(found).verdict is expected
    assert found.written_since == (batches[held - 1][2] + 1 - batches[until - 1][2] - 1 if held > until else None)


def cleaned(broker_id: int, batches: list[Batch], data: st.DataObject) -> Replica:
    """A copy that lacks batches. Some it never had: they had been cleaned away when it fetched, and it entered epochs behind them."""
    kept = [batch for batch in batches[:-1] if data.draw(st.booleans())] + batches[-1:]
    gone = [batch[2] + 1 for batch in batches if batch not in kept]
    entries = []
    for epoch in sorted({batch[0] for batch in batches}):
        firsts = [next(batch[1] for batch in some if batch[0] == epoch) for some in (batches, kept) if epoch in {one[0] for one in some}]
        entries.append((epoch, data.draw(st.sampled_from(firsts))))
    cleaner_offset = data.draw(st.integers(0, max(gone, default=0)))
    return replica(broker_id, kept, epochs=entries, start=0, cleaner_offset=cleaner_offset, high_watermark=kept[-1][2] + 1, **UP)


@given(histories(), st.data())
def test_cleaned_copies_of_one_history_are_no_alarm(batches: list[Batch], data: st.DataObject) -> None:
    """The leader's is earlier, and has the current epoch in its table; nothing was elected since."""
    epoch = batches[-1][0]
    first = next(number for number, batch in enumerate(batches) if batch[0] == epoch)
    until, held = data.draw(st.integers(first + 1, len(batches))), data.draw(st.integers(1, len(batches)))
    leader, follower = cleaned(1, batches[:until], data), cleaned(2, batches[:held], data)
    judged = judge(compared(leader, follower, leader_epoch=epoch, compacted=True))
    assert judged.severity in (Severity.NONE, Severity.WARNING), judged.reason


@given(histories(), st.data())
def test_no_other_history_is_clean_by_a_second_look(batches: list[Batch], data: st.DataObject) -> None:
    """The follower once took other records, of an epoch that the leader's log does not have there; its leader was copied at any time."""
    batches = [(epoch * 2, first, last) for epoch, first, last in batches]
    at = data.draw(st.integers(1, len(batches) - 1))
    until = data.draw(st.integers(1, at))
    first, last = batches[at][1:]
    other = [*batches[:at], (batches[at][0] + 1, first, last)]
    whole = replica(1, batches, **UP)
    leader = replace(replica(1, batches[:until], **UP), second_look=Look(whole.log.epochs, whole.log.log_end_offset))
    found = compared(leader, replica(2, other, **UP), leader_epoch=batches[-1][0])
    assert judge(found).verdict is not Verdict.CONSISTENT


@given(histories(), st.data())
def test_one_history_is_clean_by_a_second_look(batches: list[Batch], data: st.DataObject) -> None:
    """However early the leader was copied, and whatever was elected since."""
    until, held = data.draw(st.integers(1, len(batches) - 1)), data.draw(st.integers(1, len(batches)))
    whole = replica(1, batches, **UP)
    leader = replace(replica(1, batches[:until], **UP), second_look=Look(whole.log.epochs, whole.log.log_end_offset))
    found = compared(leader, replica(2, batches[:held], **UP), leader_epoch=batches[-1][0] + data.draw(st.integers(0, 1)))
    assert judge(found).severity is Severity.NONE


@given(histories(), st.data())
def test_no_other_history_is_clean(batches: list[Batch], data: st.DataObject) -> None:
    """The follower once took other records, of an epoch that the leader's log does not have there."""
    batches = [(epoch * 2, first, last) for epoch, first, last in batches]
    at = data.draw(st.integers(0, len(batches) - 1))
    _epoch, first, last = batches[at]
    other = [*batches[:at], (batches[at][0] + 1, first, last + data.draw(st.integers(0, 5)))]
    found = compared(replica(1, batches, **UP), replica(2, other, **UP), leader_epoch=batches[-1][0])
    assert judge(found).severity is not Severity.NONE
