"""What a group finds at its committed offset: every case by example, then by brute force over the records of random lineages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.protocol.consumers import Known, ValidationResult, assess, unknown
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.epochs.lineage import history_with_remote
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.history import ConsumerImpact
from tests.protocol.lineages import Partition, held, partitions
from tests.protocol.logs import commit, replica

# unclean elections replaced what epoch 2 wrote from offset 15 on: epoch 1 went on to 19, and epochs 3 and 5 followed
LEADER = replica(1, [(1, 0, 19), (3, 20, 29), (5, 30, 39)])
CONSUMED = replica(2, [(1, 0, 14), (2, 15, 49)])
IN_SYNC = replica(3, [(1, 0, 19), (3, 20, 29), (5, 30, 39)])


def _assess(
    offset: int,
    epoch: int,
    *others: Replica,
    leader: Replica = LEADER,
    later: bool = True,
    compacted: bool = False,
    leads_in: int | None = None,
    replaced_from: int | None = None,
) -> ConsumerImpact:
    """By default the leader's copy is later than the commit, and all that is known is in the logs."""
    known = Known(
        leader_epoch=latest_epoch(leader.log.epochs) if leads_in is None else leads_in,
        later_than_commit=later,
        compacted=compacted,
        replaced_from=replaced_from,
    )
    return assess(leader, others, commit(offset, epoch), known)


def _counts(found: ConsumerImpact) -> tuple[int | None, int | None, int | None]:
    return found.records_gone, found.records_reread, found.records_missed


# --- nothing happened ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [
        pytest.param(10, 1, id="inside an epoch"),
        pytest.param(20, 1, id="exactly at the end of an epoch"),
        pytest.param(20, 3, id="at the start of an epoch, of which nothing was consumed yet"),
        pytest.param(40, 5, id="at the log end"),
        pytest.param(0, 1, id="at the beginning"),
    ],
)
@pytest.mark.parametrize("others", [(), (IN_SYNC,), (IN_SYNC, CONSUMED)], ids=["alone", "in sync", "one diverged"])
@pytest.mark.parametrize("later", [True, False], ids=["later", "apart"])
def test_a_group_whose_records_are_there_goes_on(offset: int, epoch: int, others: Sequence[Replica], later: bool) -> None:
    found = _assess(offset, epoch, *others, later=later)
    assert (found.validation_result, found.affected, found.reset_offset, found.history_rewritten) == (
        ValidationResult.VALID,
        False,
        offset,
        False,
    )
    assert _counts(found) == (0, 0, 0)
    assert (found.diverging_epoch, found.nearest_offset) == (None, None)


def test_what_is_in_remote_storage_is_there() -> None:
    """Below the local log start, and not below that of the whole log (KIP-405): a fetch is answered from remote storage."""
    local = replica(1, [(5, 50, 59)], epochs=[(0, 10), (2, 18), (5, 40)])
    remote = replace(local, begins_remotely=10, history=history_with_remote(local.log.epochs, 10, local.history, 50))
    assert (_assess(20, 2, leader=local).reset_offset, _assess(20, 2, leader=remote).reset_offset) == (None, 20)
    assert _assess(5, 0, leader=remote).reason.startswith("below the log start 10: ")
    other = replica(2, [(2, 18, 49)])
    by_policy, found = _assess(45, 2, other, leader=local), _assess(45, 2, other, leader=remote)
    assert (by_policy.validation_result, by_policy.reset_offset) == (ValidationResult.TRUNCATED, None)
    assert (found.validation_result, found.reset_offset, found.records_gone) == (ValidationResult.TRUNCATED, 40, 5)
    assert "the reset policy decides" in by_policy.reason and "the reset policy decides" not in found.reason


def test_epoch_0_is_an_epoch() -> None:
    leader = replica(1, [(0, 0, 9), (2, 10, 19)])
    assert _assess(10, 0, leader=leader).validation_result == ValidationResult.VALID
    lost = _assess(15, 0, leader=leader)
    assert (lost.validation_result, lost.affected, lost.reset_offset, lost.records_gone) == (ValidationResult.TRUNCATED, True, 10, 5)
    assert _assess(15, UNDEFINED_EPOCH, leader=leader).validation_result == ValidationResult.NOT_VALIDATED


@pytest.mark.parametrize("others", [(), (IN_SYNC,)], ids=["alone", "in sync"])
@pytest.mark.parametrize("offset", [5, 25, 40])
def test_a_commit_without_an_epoch_that_nothing_contradicts(offset: int, others: Sequence[Replica]) -> None:
    found = _assess(offset, UNDEFINED_EPOCH, *others, later=False)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.NOT_VALIDATED, False, offset)
    assert _counts(found) == (0, 0, 0)


# --- truncated ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [(), (replica(2, [(1, 0, 29)]),)], ids=["alone", "another holds it"])
@pytest.mark.parametrize("later", [True, False], ids=["later", "apart"])
def test_truncated_within_an_epoch_that_the_leader_has(others: Sequence[Replica], later: bool) -> None:
    """One leader wrote the epoch, so what the leader's log has of it is a prefix of what the group consumed: the count is exact."""
    found = _assess(26, 1, *others, later=later)
    assert (found.validation_result, found.affected, found.diverging_epoch) == (ValidationResult.TRUNCATED, True, 1)
    assert (found.reset_offset, found.nearest_offset) == (20, 20)
    assert _counts(found) == (6, 0, 0)
    assert "20..25" in found.reason


def test_truncated_out_of_an_epoch_that_the_leader_never_had() -> None:
    """The client is set back to the end of epoch 1; what stands at 15..19 now it never reads."""
    found = _assess(30, 2, CONSUMED)
    assert (found.validation_result, found.affected, found.diverging_epoch) == (ValidationResult.TRUNCATED, True, 1)
    assert (found.reset_offset, found.nearest_offset) == (20, 20)
    assert _counts(found) == (15, 0, 5)
    assert "15..29" in found.reason


@pytest.mark.parametrize(
    "others", [(), (IN_SYNC,), (replica(2, [(1, 0, 14), (4, 15, 49)]),)], ids=["alone", "in sync", "diverged otherwise"]
)
def test_what_is_gone_of_an_epoch_that_the_leader_never_had_cannot_be_counted_alone(others: Sequence[Replica]) -> None:
    """Epoch 2 may have begun anywhere below 30: ten records are the least that is gone, and CONSUMED shows fifteen."""
    found = _assess(30, 2, *others)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.TRUNCATED, True, 20)
    assert found.records_gone is None
    assert found.records_missed is None


def test_truncated_beyond_the_log_end() -> None:
    found = _assess(45, 5)
    assert (found.validation_result, found.affected, found.reset_offset, found.diverging_epoch) == (ValidationResult.TRUNCATED, True, 40, 5)
    assert _counts(found) == (5, 0, 0)


@pytest.mark.parametrize("epoch", [1, 3])
def test_an_epoch_that_ended_on_the_leader_needs_no_later_copy(epoch: int) -> None:
    """The leader's log was in a larger epoch at that offset when it was copied: no later copy holds the record."""
    assert _assess(45, epoch, later=False).affected is True


TRIMMED = replica(1, [(5, 30, 39)], epochs=[(1, 0), (3, 20), (5, 25)])  # its table was not cut yet when it was copied


def test_a_reset_below_the_log_start_is_the_policys() -> None:
    """The client seeks to 20, fetches, and is told that it is out of range."""
    found = _assess(26, 1, leader=TRIMMED)
    assert (found.validation_result, found.affected) == (ValidationResult.TRUNCATED, True)
    assert (found.reset_offset, found.nearest_offset) == (None, 20)
    assert (found.records_gone, found.records_reread) == (6, 0)
    assert "reset policy" in found.reason


def test_after_a_reset_below_the_log_start_latest_skips_the_whole_log() -> None:
    """As the column says: `where the policy decides, with latest`."""
    assert _assess(26, 1, leader=TRIMMED).records_missed == 10


# --- undefined ----------------------------------------------------------------------------------------------------------------------------


def test_undefined_where_another_replica_holds_what_was_consumed() -> None:
    found = _assess(45, 7, replica(2, [(1, 0, 19), (7, 20, 49)]))
    assert (found.validation_result, found.affected, found.reset_offset, found.diverging_epoch) == (
        ValidationResult.UNDEFINED,
        True,
        None,
        None,
    )
    # earliest reads 0..19 again; latest skips 20..39, which are other records than those consumed
    assert _counts(found) == (25, 20, 20)


@pytest.mark.parametrize("offset", [35, 45])
def test_undefined_alone(offset: int) -> None:
    found = _assess(offset, 7)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.UNDEFINED, True, None)
    assert found.records_gone is None, "epoch 7 may have begun anywhere below the offset"
    assert "reset policy" in found.reason


@pytest.mark.parametrize("offset", [35, 45])
def test_an_epoch_that_the_leader_does_not_know_yet_is_no_alarm(offset: int) -> None:
    assert _assess(offset, 7, later=False) == unknown(commit(offset, 7), _assess(offset, 7, later=False).reason)
    assert _assess(offset, 7, IN_SYNC, later=False).affected is None


# --- not validated ------------------------------------------------------------------------------------------------------------------------


def test_without_an_epoch_in_range_either_log_may_have_been_consumed() -> None:
    found = _assess(25, UNDEFINED_EPOCH, CONSUMED)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.NOT_VALIDATED, None, 25)
    assert (found.records_gone, found.records_missed) == (None, 10)
    assert "15..24" in found.reason


def test_without_an_epoch_below_the_divergence_nothing_is_doubtful() -> None:
    assert _assess(15, UNDEFINED_EPOCH, CONSUMED).affected is False


def test_without_an_epoch_out_of_range() -> None:
    found = _assess(45, UNDEFINED_EPOCH, CONSUMED)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.NOT_VALIDATED, True, None)
    # earliest reads the common 0..14 again, latest skips all that replaced the rest
    assert _counts(found) == (30, 15, 25)


def test_without_an_epoch_out_of_range_alone() -> None:
    found = _assess(45, UNDEFINED_EPOCH)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.NOT_VALIDATED, True, None)
    assert found.records_gone is None, "five are the least; CONSUMED shows that it may be thirty"


def test_an_unclean_election_after_the_commit_tells_what_no_log_does() -> None:
    found = _assess(35, UNDEFINED_EPOCH, replaced_from=30)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.NOT_VALIDATED, True, 35)
    assert (found.records_gone, found.records_missed) == (5, 5)
    assert _assess(30, UNDEFINED_EPOCH, replaced_from=30).affected is False, "it had consumed all that stayed"


def test_an_unclean_election_above_the_position_proves_nothing_about_what_lies_below_it() -> None:
    """The group committed 25 in epoch 3 or in epoch 2; the election of epoch 5, from 30 on, replaced nothing that it can have consumed."""
    found = _assess(25, UNDEFINED_EPOCH, CONSUMED, replaced_from=30)
    assert found.affected is None
    assert found.records_gone is None


def test_an_unclean_election_does_not_outweigh_an_epoch() -> None:
    assert _assess(35, 5, replaced_from=30).affected is False


# --- history rewritten --------------------------------------------------------------------------------------------------------------------


def test_history_that_was_rewritten_below_a_position_that_the_client_takes_for_valid() -> None:
    found = _assess(18, 2, CONSUMED)
    assert (found.validation_result, found.affected, found.history_rewritten) == (ValidationResult.VALID, True, True)
    assert (found.reset_offset, found.diverging_epoch) == (18, 1)
    assert _counts(found) == (3, 0, 3)


def test_rewritten_history_alone() -> None:
    found = _assess(18, 2)
    assert (found.validation_result, found.history_rewritten, found.reset_offset) == (ValidationResult.VALID, True, 18)
    assert found.affected is not False
    assert (found.records_gone, found.records_missed) == (None, None)


def test_an_epoch_in_which_nothing_was_written_was_not_rewritten() -> None:
    """A new group that starts at the latest offset commits it with the epoch of the leader that told it (ListOffsets: Partition.scala).

    If that epoch ends without a record no other replica ever learns it: the next leader, elected cleanly, answers the end of the epoch
    before, which is the committed offset. Every idle partition looks so after a rolling restart.
    """
    found = _assess(20, 2)
    assert found.affected is not True
    assert found.reset_offset == 20


def test_a_replica_tells_the_idle_epoch_from_the_rewritten_one() -> None:
    found = _assess(20, 2, CONSUMED)
    assert (found.affected, found.history_rewritten, found.records_gone, found.records_missed) == (True, True, 5, 5)


@pytest.mark.parametrize(
    ("leader", "compacted"),
    [
        pytest.param(LEADER, True, id="a compacted topic"),
        pytest.param(replica(1, [(1, 0, 19), (3, 20, 29)], cleaner_offset=18), False, id="below the cleaner checkpoint"),
    ],
)
def test_an_epoch_that_compaction_may_have_removed_is_no_alarm(leader: Replica, compacted: bool) -> None:
    """A follower that fetched a compacted range has no entry for an epoch of which nothing was left (seen on devices-0)."""
    found = _assess(18, 2, leader=leader, compacted=compacted)
    assert (found.validation_result, found.affected is True, found.history_rewritten) == (ValidationResult.VALID, False, False)


def test_compaction_explains_nothing_above_the_cleaner_checkpoint_or_against_a_replica() -> None:
    cleaned = replica(1, [(1, 0, 19), (3, 20, 29)], cleaner_offset=17)
    assert _assess(18, 2, leader=cleaned).affected is not False
    assert _assess(18, 2, CONSUMED, compacted=True).affected is True


# --- retention ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [1, UNDEFINED_EPOCH])
def test_what_retention_took_was_not_truncated(epoch: int) -> None:
    trimmed = replica(1, [(3, 30, 34), (5, 35, 39)])
    found = _assess(10, epoch, leader=trimmed)
    assert (found.affected, found.reset_offset, found.records_gone, found.records_reread) == (False, None, 0, 0)
    assert "log start 30" in found.reason
    assert _assess(30, epoch, leader=trimmed).reset_offset == 30, "at the log start nothing is missing"


def test_after_retention_latest_skips_the_whole_log() -> None:
    assert _assess(10, 1, leader=replica(1, [(3, 30, 34), (5, 35, 39)])).records_missed == 10


def test_a_replica_of_which_retention_left_nothing_to_compare_tells_nothing() -> None:
    trimmed = replica(1, [(3, 30, 34), (5, 35, 39)])
    assert _assess(25, UNDEFINED_EPOCH, CONSUMED, leader=trimmed).affected is False


# --- the leader's copy may be older than the commit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [5, UNDEFINED_EPOCH])
@pytest.mark.parametrize(
    "others",
    [
        pytest.param((), id="alone"),
        pytest.param((IN_SYNC,), id="in sync"),
        pytest.param((replica(3, [(1, 0, 19), (3, 20, 29), (5, 30, 49)]),), id="one copied later"),
    ],
)
def test_a_commit_beyond_a_copy_that_may_be_older_is_no_alarm(epoch: int, others: Sequence[Replica]) -> None:
    found = _assess(45, epoch, *others, later=False)
    assert (found.validation_result, found.affected, found.reset_offset) == (ValidationResult.UNKNOWN, None, None)
    assert _counts(found) == (None, None, None)
    assert found.reason


def test_another_replicas_older_epoch_beyond_the_end_needs_no_later_copy() -> None:
    """It holds 40..49 of epoch 3, while the leader was in epoch 5 from 30 on."""
    behind = replica(2, [(1, 0, 19), (3, 20, 49)])
    found = _assess(45, UNDEFINED_EPOCH, behind, later=False)
    assert (found.validation_result, found.affected, found.records_gone) == (ValidationResult.NOT_VALIDATED, True, 15)


def test_a_leader_that_enters_its_epoch_with_its_first_record() -> None:
    """Up to 2.0 (1.1.1 in the samples): no table tells that the leader is in epoch 3, the metadata does."""
    leader, lost = replica(2, [(0, 0, 24)]), replica(1, [(0, 0, 24), (1, 25, 36)])
    assert _assess(37, UNDEFINED_EPOCH, lost, leader=leader, later=False).affected is None
    found = _assess(37, UNDEFINED_EPOCH, lost, leader=leader, later=False, leads_in=3)
    assert (found.affected, found.reset_offset) == (True, None)
    assert _counts(found) == (12, 25, 0)


def test_a_table_that_was_copied_after_its_log() -> None:
    """The leader's table tells of an election at 150, its log was copied when it ended at 100."""
    leader = replica(1, [(1, 0, 99)], epochs=[(1, 0), (3, 150)], alive=True)
    assert _assess(120, 1, leader=leader, later=False).affected is False
    assert _assess(120, UNDEFINED_EPOCH, leader=leader, later=False).affected is None


# --- the draft's nearest offset -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch", "nearest"),
    [
        pytest.param(26, 1, 20, id="truncated: the start of epoch 3"),
        pytest.param(30, 2, 20, id="truncated out of a vanished epoch: of epoch 3, too"),
        pytest.param(35, 3, 30, id="of epoch 5"),
        pytest.param(45, 5, 40, id="no larger epoch: the log end"),
        pytest.param(18, 2, 20, id="rewritten: the epoch at the offset is not the committed one"),
        pytest.param(18, 1, None, id="nothing happened"),
    ],
)
def test_the_nearest_offset_of_the_draft(offset: int, epoch: int, nearest: int | None) -> None:
    """KIP-320, draft: `the first offset of the next largest leader epoch`."""
    assert _assess(offset, epoch, CONSUMED).nearest_offset == nearest


# --- gaps ---------------------------------------------------------------------------------------------------------------------------------


def test_offsets_that_the_leader_does_not_hold_are_neither_read_again_nor_missed() -> None:
    leader = replica(1, [(1, 0, 4), (1, 8, 16), (3, 20, 29), (5, 35, 39)], epochs=[(1, 0), (3, 20), (5, 30)])
    truncated = _assess(30, 2, CONSUMED, leader=leader)
    assert (truncated.records_missed, truncated.reset_offset) == (2, 20)  # 15 and 16
    out = _assess(45, UNDEFINED_EPOCH, CONSUMED, leader=leader)
    assert (out.records_reread, out.records_missed) == (5 + 7, 2 + 10 + 5)


def test_offsets_that_were_never_there_need_not_be_gone() -> None:
    """The records at 20..24 were compacted away from what the group consumed, before or after it did."""
    with_gap = replica(2, [(1, 0, 14), (2, 15, 19), (2, 25, 29)])
    gone = _assess(30, 2, with_gap).records_gone
    assert gone is not None
    assert 10 <= gone <= 15


def test_a_control_batch_is_an_offset_like_any_other() -> None:
    """A commit behind a transaction's marker: the marker is the last thing that was consumed."""
    marked = replica(2, [(1, 0, 18), (1, 19, 19)])
    leader = replica(1, [(1, 0, 18), (3, 19, 19)])
    found = _assess(20, 1, marked, leader=leader)
    assert (found.validation_result, found.reset_offset, found.records_gone) == (ValidationResult.TRUNCATED, 19, 1)


# --- what another replica is a witness of -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replica(2, [(1, 0, 9), (4, 10, 49)]), id="it went another way"),
        pytest.param(replica(2, [(1, 0, 19), (4, 20, 49)]), id="it has the leader's record there"),
        pytest.param(replica(2, [(1, 0, 14), (2, 15, 16)]), id="it ends below the last record"),
        pytest.param(replica(2, [(2, 18, 30)]), id="it starts at the position"),
    ],
)
def test_a_replica_that_does_not_hold_the_last_record_is_no_witness(other: Replica) -> None:
    assert _assess(18, 2, other) == _assess(18, 2)


# --- random lineages ----------------------------------------------------------------------------------------------------------------------


def _position(data: st.DataObject, found: Partition, broker: int, *, with_epoch: bool = True) -> tuple[int, int]:
    """A position that a group can have reached on one broker's log, with the epoch of its last record."""
    records = found.replicas[broker].records
    readable = sorted(offset for offset in records if offset >= found.replicas[broker].start)
    assume(readable)
    last = data.draw(st.sampled_from(readable))
    return last + 1, records[last] if with_epoch else UNDEFINED_EPOCH


def _replicas(found: Partition) -> tuple[Replica, list[Replica]]:
    others = [found.replicas[broker].replica(broker) for broker in found.followers]
    return found.replicas[found.leader].replica(found.leader), others


def _first_replaced(found: Partition, broker: int, offset: int) -> int | None:
    """The first offset below the position at which the leader does not hold what the broker's log does."""
    own, leader = found.replicas[broker], found.replicas[found.leader]
    shared = range(max(own.start, leader.start), offset)
    return next((at for at in shared if leader.records.get(at) != own.records.get(at)), None)


@given(partitions(retention=True), st.booleans(), st.booleans(), st.booleans(), st.data())
def test_a_group_of_the_leaders_log_is_never_affected(
    found: Partition, with_epoch: bool, later: bool, compacted: bool, data: st.DataObject
) -> None:
    leader, others = _replicas(found)
    offset, epoch = _position(data, found, found.leader, with_epoch=with_epoch)
    impact = _assess(offset, epoch, *others, leader=leader, later=later, compacted=compacted, leads_in=found.epoch)
    assert impact.reset_offset == offset
    assert impact.affected is False if with_epoch else impact.affected is not True
    if with_epoch:
        assert _counts(impact) == (0, 0, 0)


@given(partitions(retention=True), st.integers(0, 1), st.booleans(), st.booleans(), st.data())
def test_a_group_whose_records_were_replaced_is_never_called_unaffected(
    found: Partition, follower: int, with_epoch: bool, later: bool, data: st.DataObject
) -> None:
    """The replica that it consumed from is there; whether it tells is another matter, but 'not affected' would be wrong."""
    broker = found.followers[follower]
    leader, others = _replicas(found)
    offset, epoch = _position(data, found, broker, with_epoch=with_epoch)
    assume(_first_replaced(found, broker, offset) is not None)
    impact = _assess(offset, epoch, *others, leader=leader, later=later, leads_in=found.epoch)
    assert impact.affected is not False
    assert impact.reason
    if with_epoch and later:
        assert impact.affected is True


@given(partitions(retention=True), st.integers(0, 1), st.data())
def test_the_leaders_table_alone_never_calls_a_lost_group_unaffected(found: Partition, follower: int, data: st.DataObject) -> None:
    broker = found.followers[follower]
    leader, _others = _replicas(found)
    offset, epoch = _position(data, found, broker)
    assume(_first_replaced(found, broker, offset) is not None)
    assert _assess(offset, epoch, leader=leader, leads_in=found.epoch).affected is not False


@given(partitions(), st.integers(0, 1), st.booleans(), st.data())
def test_what_is_gone_is_counted_right_or_not_at_all(found: Partition, follower: int, with_others: bool, data: st.DataObject) -> None:
    """Without retention every lost record can be told apart."""
    broker = found.followers[follower]
    leader, others = _replicas(found)
    offset, epoch = _position(data, found, broker)
    replaced = _first_replaced(found, broker, offset)
    impact = _assess(offset, epoch, *(others if with_others else ()), leader=leader, leads_in=found.epoch)
    gone = 0 if replaced is None else offset - replaced
    if with_others:
        assert impact.records_gone == gone
    else:
        assert impact.records_gone in (None, gone)


@given(partitions(retention=True), st.integers(0, 1), st.booleans(), st.booleans(), st.data())
def test_counts_add_up(found: Partition, follower: int, with_epoch: bool, later: bool, data: st.DataObject) -> None:
    """What the group has read of the leader's log, misses, and will read, are the leader's log."""
    broker = found.followers[follower]
    leader, others = _replicas(found)
    offset, epoch = _position(data, found, broker, with_epoch=with_epoch)
    impact = _assess(offset, epoch, *others, leader=leader, later=later, leads_in=found.epoch)
    own = [at for at in held(leader) if at >= leader.log.log_start_offset]
    if impact.records_gone is None or impact.records_reread is None or impact.records_missed is None:
        return
    assert 0 <= impact.records_gone <= offset
    parts = offset - impact.records_gone
    read = sum(at < parts for at in own)
    if impact.reset_offset is not None:
        will_read = sum(at >= impact.reset_offset for at in own)
        assert read - impact.records_reread + impact.records_missed + will_read == len(own)
    elif impact.affected:
        assert impact.records_reread == read, "with earliest, from the log start"
        assert impact.records_missed == len(own) - read, "with latest, from the log end"


@given(partitions(retention=True), st.sampled_from([0, 1, 2]), st.booleans(), st.booleans(), st.data())
def test_another_replica_never_silences_an_alarm(
    found: Partition, consumed: int, with_epoch: bool, later: bool, data: st.DataObject
) -> None:
    broker = sorted(found.replicas)[consumed]
    leader, others = _replicas(found)
    offset, epoch = _position(data, found, broker, with_epoch=with_epoch)
    alone = _assess(offset, epoch, leader=leader, later=later, leads_in=found.epoch)
    together = _assess(offset, epoch, *others, leader=leader, later=later, leads_in=found.epoch)
    if alone.affected:
        assert together.affected


@given(partitions(elections="elect_cleanly", retention=True), st.booleans(), st.data())
def test_clean_elections_affect_nobody(found: Partition, with_epoch: bool, data: st.DataObject) -> None:
    """A group reads below the high watermark only, and what lies there no clean election takes."""
    leader, others = _replicas(found)
    committed = sorted({offset for _epoch, offset in found.committed if offset >= leader.log.log_start_offset})
    assume(committed)
    last = data.draw(st.sampled_from(committed))
    epochs = {epoch for epoch, offset in found.committed if offset == last}
    assert len(epochs) == 1
    epoch = epochs.pop() if with_epoch else UNDEFINED_EPOCH
    impact = _assess(last + 1, epoch, *others, leader=leader, leads_in=found.epoch)
    assert impact.affected is not True
    assert impact.reset_offset == last + 1


@given(partitions(elections="elect_cleanly"), st.integers(1, 2), st.booleans(), st.data())
def test_clean_elections_affect_no_group_that_starts_at_the_latest_offset(
    found: Partition, bump: int, with_others: bool, data: st.DataObject
) -> None:
    """It commits the high watermark with the epoch of the leader that told it, in which nothing need have been written."""
    log = found.replicas[found.leader]
    offset, epoch = log.high_watermark, found.epoch
    assume(log.table[epoch] <= offset)  # else the leader answers OFFSET_NOT_AVAILABLE
    found.elect_cleanly(data.draw(st.sampled_from(sorted(found.isr))), bump)
    leader, others = _replicas(found)
    impact = _assess(offset, epoch, *(others if with_others else ()), leader=leader, leads_in=found.epoch)
    assert impact.affected is not True
    assert impact.reset_offset == offset
