"""Where two logs diverge, what survives the cut, what was committed and is lost: by example, and by brute force over offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.protocol.comparison.pair import Comparison, Effect, removal_start, still_diverged
from replica_audit.protocol.exchange.replay import high_watermark
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.codes import Protocol
from tests.protocol.logs import compare, replica

UP: dict[str, Any] = {"alive": True}
LIVE: dict[str, Any] = {"alive": True, "in_isr": True}
FROZEN: dict[str, Any] = {"alive": True, "frozen": True}


# --- a replica as either side -------------------------------------------------------------------------------------------------------------


def test_only_a_leader_keeps_the_entry_at_its_log_end() -> None:
    found = replica(1, [(1, 0, 9)], epochs=[(1, 0), (4, 10), (5, 12)])
    assert found.as_leader().epochs == ((1, 0), (4, 10), (5, 12))
    assert found.as_follower().epochs == ((1, 0),)


@pytest.mark.parametrize(
    ("persisted", "fields", "loaded"),
    [
        pytest.param(7, {}, 7, id="inside"),
        pytest.param(2, {}, 5, id="below the log start"),
        pytest.param(99, {}, 20, id="above the log end"),
        pytest.param(None, {}, 5, id="missing means 0"),
        pytest.param(7, {"alive": False, "in_isr": True}, 7, id="down: it will load the file"),
        pytest.param(7, {"alive": None, "in_isr": True}, 7, id="unknown: it may load the file"),
        pytest.param(7, UP, 20, id="up: the file is old"),
        pytest.param(7, LIVE, 20, id="up and in the ISR"),
        pytest.param(7, FROZEN, 7, id="frozen: it has yet to learn whom it follows"),
        pytest.param(99, FROZEN, 20, id="frozen, above the log end"),
        pytest.param(7, {**FROZEN, "in_isr": True}, 20, id="frozen and in the ISR: it holds what is committed"),
        pytest.param(7, {"alive": False, "frozen": True}, 7, id="frozen, and then down"),
    ],
)
def test_the_high_watermark_that_the_fallback_cuts_to(persisted: int | None, fields: dict[str, Any], loaded: int) -> None:
    assert replica(1, [(1, 5, 19)], high_watermark=persisted, **fields).as_follower().high_watermark == loaded


def test_a_running_follower_is_not_cut_by_an_old_file() -> None:
    leader, follower = replica(1, [(-1, 0, 99)], **LIVE), replica(2, [(-1, 0, 89)], high_watermark=80, **UP)
    assert compare(leader, follower, protocol=Protocol.HIGH_WATERMARK).cut is None
    assert compare(leader, replace(follower, frozen=True), protocol=Protocol.HIGH_WATERMARK).cut == 80, "it will be, once it wakes"


def test_epochs_are_known_from_the_table_or_from_the_batches() -> None:
    assert replica(1, [(1, 0, 9)], epochs=[]).has_epochs
    assert replica(1, [(-1, 0, 9)], epochs=[(2, 10)]).has_epochs
    assert not replica(1, [(-1, 0, 9)]).has_epochs
    assert replica(1, [(-1, 0, 9), (0, 10, 10)], epochs=[]).has_epochs, "epoch 0 is one"


def test_an_empty_log_may_stand_anywhere() -> None:
    assert replica(1).empty
    assert replica(1, start=50).empty
    assert not replica(1, [(1, 50, 50)]).empty


# --- the comparable range -----------------------------------------------------------------------------------------------------------------


def test_the_comparable_range_lies_above_both_starts_and_below_both_ends() -> None:
    found = compare(replica(1, [(1, 10, 49)]), replica(2, [(1, 0, 39)], start=5))
    assert (found.start, found.end, found.cleaned) == (10, 40, 0)
    assert compare(replica(1, [(1, 0, 9)], cleaner_offset=4), replica(2, [(1, 0, 9)], cleaner_offset=7)).cleaned == 7


def test_retention_hides_what_lies_below_the_larger_log_start() -> None:
    old = [(1, 0, 9), (3, 10, 29)]
    assert compare(replica(1, old), replica(2, [(2, 0, 9), (3, 10, 29)], start=10)).difference is None
    assert compare(replica(1, old, start=10), replica(2, [(2, 0, 9), (3, 10, 29)])).difference is None
    near = compare(replica(1, old, start=9), replica(2, [(2, 0, 9), (3, 10, 29)])).difference
    assert near is not None
    assert near.first_offset == 9


@pytest.mark.parametrize("cleaned_by", [1, 2])
def test_offsets_missing_below_the_larger_cleaner_checkpoint_prove_nothing(cleaned_by: int) -> None:
    def difference(cleaner: int) -> object:
        sides = [replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 9), (1, 15, 29)])]
        return compare(*(replace(side, cleaner_offset=cleaner if side.broker_id == cleaned_by else 3) for side in sides)).difference

    assert difference(15) is None
    assert difference(14) is not None


def test_offsets_missing_from_a_compacted_log_prove_nothing_anywhere() -> None:
    sides = replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 9), (1, 15, 29)])
    assert compare(*sides).difference is not None
    assert compare(*sides, compacted=True).difference is None
    assert compare(sides[0], replica(2, [(1, 0, 9), (2, 15, 29)], epochs=[(1, 0)]), compacted=True).difference is not None, (
        "another epoch does"
    )


def test_a_batch_without_an_epoch_conflicts_with_no_epoch() -> None:
    assert compare(replica(1, [(3, 0, 9), (5, 10, 19)]), replica(2, [(-1, 0, 9), (5, 10, 19)])).difference is None


# --- the divergence offset ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader", "follower", "expected"),
    [
        pytest.param(replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 29)]), None, id="same"),
        pytest.param(replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 19)]), None, id="behind"),
        pytest.param(replica(1, [(1, 0, 9), (3, 10, 29)]), replica(2, [(1, 0, 14)]), 10, id="fork"),
        pytest.param(
            replica(1, [(1, 0, 9)], epochs=[(1, 0), (3, 10)]), replica(2, [(1, 0, 14)]), 10, id="ahead: the first offset the leader lacks"
        ),
        pytest.param(replica(1, [(5, 50, 79)], epochs=[(5, 50)]), replica(2, [(1, 0, 35)]), None, id="no common range"),
        pytest.param(replica(1, [(5, 50, 79)]), replica(2, [(1, 0, 49)]), None, id="it ends where the leader starts"),
        pytest.param(
            replica(1, [(1, 30, 39)], epochs=[(1, 30), (4, 32)], start=30),
            replica(2, [(1, 0, 39)], start=35),
            32,
            id="the leader's table knows an end below what both hold",
        ),
        pytest.param(
            replica(1, [(1, 0, 7)], epochs=[(1, 0), (9, 8)]), replica(2, [(1, 20, 35)]), 8, id="the leader ends below the follower's start"
        ),
    ],
)
def test_divergence_offset(leader: Replica, follower: Replica, expected: int | None) -> None:
    assert compare(leader, follower).divergence_offset == expected


def test_below_the_cleaner_checkpoint_the_cut_is_the_divergence_offset() -> None:
    leader, follower = replica(1, [(1, 0, 9), (3, 10, 29)]), replica(2, [(1, 0, 5), (2, 6, 29)], cleaner_offset=12)
    assert compare(leader, follower, compacted=True).divergence_offset == 6
    refetched = replica(2, [(1, 0, 9), (2, 12, 29)], cleaner_offset=12)
    assert compare(leader, refetched, compacted=True).cut == 10
    assert compare(leader, refetched, compacted=True).divergence_offset == 10, "though no batch differs before 12"
    assert compare(leader, replace(refetched, cleaner_offset=10), compacted=True).divergence_offset == 12


NO_EPOCHS = replica(1, [(-1, 0, 29)]), replica(2, [(-1, 0, 29)], high_watermark=20)


@pytest.mark.parametrize(
    ("leader", "follower", "expected"),
    [
        pytest.param(*NO_EPOCHS, True, id="a cut to the high watermark"),
        pytest.param(NO_EPOCHS[0], replace(NO_EPOCHS[1], high_watermark=30), True, id="no cut"),
        pytest.param(replica(1, [(-1, 0, 29)], epochs=[(3, 30)]), NO_EPOCHS[1], True, id="a cut, and the leader has an epoch"),
        pytest.param(replica(1, [(1, 0, 9), (3, 10, 29)]), replica(2, [(1, 0, 14)]), True, id="a cut by epochs: what is below it"),
        pytest.param(replica(1, [(1, 0, 9), (3, 10, 29)]), replica(2, [(1, 0, 9), (2, 10, 14)]), True, id="another epoch above the cut"),
        pytest.param(replica(1, [(2, 0, 9)]), replica(2, [(1, 0, 9)]), False, id="nothing is left below the cut"),
        pytest.param(replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 14)]), True, id="epochs agree"),
        pytest.param(NO_EPOCHS[0], replace(NO_EPOCHS[1], unreadable="bit rot"), False, id="unreadable"),
        pytest.param(replica(1, [(-1, 50, 79)]), NO_EPOCHS[1], False, id="a restart"),
    ],
)
def test_where_content_decides(leader: Replica, follower: Replica, expected: bool) -> None:
    assert compare(leader, follower).content_decides is expected
    assert compare(leader, follower, compacted=True).content_decides is expected, "a cleaner that took nothing changes nothing"
    assert not compare(_cleaned(leader), follower, compacted=True).content_decides
    assert not compare(leader, _cleaned(follower), compacted=True).content_decides


def _cleaned(whole: Replica) -> Replica:
    """The replica without a record of its first batch, as a cleaner leaves it."""
    first, *others = whole.log.runs
    return replace(whole, log=replace(whole.log, runs=(first._replace(record_count=first.record_count - 1), *others)))


# --- what survives the cut ----------------------------------------------------------------------------------------------------------------


KAFKA_6361 = replica(1, [(1, 0, 20), (3, 21, 30)])
LEADER_BATCHES = [(1, 0, 10), (1, 11, 20), (3, 21, 30)]


@pytest.mark.parametrize(
    ("n", "physical", "fails", "diverged"),
    [
        pytest.param(15, None, True, True, id="n < 20: the fetcher fails, the diverged batch is there"),
        pytest.param(20, None, False, True, id="n = 20: silent divergence"),
        pytest.param(25, 11, False, True, id="n > 20: the batch goes whole, a hole stays"),
    ],
)
def test_what_kip_101_leaves(n: int, physical: int | None, fails: bool, diverged: bool) -> None:
    follower, own = replica(2, [(1, 0, 10), (2, 11, n)]), [(1, 0, 10), (2, 11, n)]
    found = compare(KAFKA_6361, follower, protocol=Protocol.KIP_101, leader_batches=LEADER_BATCHES, follower_batches=own)
    assert (found.effect.physical_offset, found.effect.fetcher_fails, found.still_diverged) == (physical, fails, diverged)
    for protocol in (Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH):
        healed = compare(KAFKA_6361, follower, protocol=protocol, leader_batches=LEADER_BATCHES, follower_batches=own)
        assert (healed.cut, healed.effect.fetcher_fails, healed.still_diverged) == (11, False, False)


def test_a_hole_is_missing_unless_the_fetcher_fails_there() -> None:
    leader, follower = replica(1, [(-1, 0, 30)]), replica(2, [(-1, 0, 25)], high_watermark=21)
    own = [(-1, 0, 10), (-1, 11, 25)]

    def measured(theirs: list[tuple[int, int, int]]) -> Comparison:
        return compare(leader, follower, protocol=Protocol.HIGH_WATERMARK, leader_batches=theirs, follower_batches=own)

    hole = measured([(-1, 0, 10), (-1, 11, 20), (-1, 21, 30)])
    assert (hole.cut, hole.effect.physical_offset, hole.effect.fetcher_fails, hole.still_diverged) == (21, 11, False, True)
    failing = Effect(truncation=hole.effect.truncation, physical_offset=11, fetcher_fails=True)
    assert not still_diverged(leader, follower, hole.context, failing), (
        "it retries from the cut for ever, and restarts from the physical end"
    )
    at_a_bound = Effect(truncation=hole.effect.truncation, physical_offset=21, fetcher_fails=False)
    assert not still_diverged(leader, follower, hole.context, at_a_bound)
    assert not still_diverged(leader, follower, replace(hole.context, compacted=True), hole.effect), "offsets may be missing there"


def test_nothing_survives_a_restart() -> None:
    leader, follower = replica(1, [(5, 50, 79)]), replica(2, [(1, 0, 35)])
    found = compare(leader, follower)
    assert found.effect.truncation.restart_offset == 50
    assert not found.still_diverged
    assert removal_start(follower, found.effect) == 0
    assert removal_start(replica(3), compare(leader, replica(3)).effect) is None, "nothing goes from an empty log"


def test_removal_starts_at_the_physical_cut() -> None:
    follower = replica(2, [(1, 0, 25)])
    cut = high_watermark(replica(1, [(1, 0, 30)]).as_leader(), replace(follower, high_watermark=21).as_follower())
    assert removal_start(follower, Effect(truncation=cut, physical_offset=11, fetcher_fails=False)) == 11
    assert removal_start(follower, Effect(truncation=cut, physical_offset=None, fetcher_fails=False)) == 21
    uncut = compare(replica(1, [(1, 0, 30)]), follower)
    assert removal_start(follower, uncut.effect) is None


# --- what is lost -------------------------------------------------------------------------------------------------------------------------


NEW_LEADER = replica(1, [(1, 0, 9), (5, 10, 24)], high_watermark=25)


@pytest.mark.parametrize(
    ("watermark", "lost"),
    [(None, 0), (0, 0), (10, 0), (11, 1), (18, 8), (20, 10), (99, 10)],
)
def test_lost_by_the_followers_own_high_watermark(watermark: int | None, lost: int) -> None:
    assert compare(NEW_LEADER, replica(2, [(1, 0, 19)], high_watermark=watermark)).lost == lost


@pytest.mark.parametrize(
    ("witness", "lost"),
    [
        pytest.param(replica(3, [(1, 0, 19)], high_watermark=18), 8, id="it holds the same records"),
        pytest.param(replica(3, [(1, 0, 14)], high_watermark=18), 5, id="it holds some of them"),
        pytest.param(replica(3, [(1, 0, 9)], high_watermark=18), 0, id="it holds none of them"),
        pytest.param(replica(3, [(1, 0, 9), (5, 10, 24)], high_watermark=25), 0, id="its lineage is the leader's"),
        pytest.param(replica(3, [(1, 0, 12), (2, 13, 19)], high_watermark=18), 3, id="its lineage parts inside the cut"),
        pytest.param(replica(3, [(1, 12, 19)], start=12, high_watermark=18), 6, id="retention took its older records"),
    ],
)
def test_lost_by_a_third_replica(witness: Replica, lost: int) -> None:
    follower = replica(2, [(1, 0, 19)], high_watermark=10)
    assert compare(NEW_LEADER, follower, witness).lost == lost
    assert compare(NEW_LEADER, follower, replace(witness, high_watermark=None)).lost == 0


def test_witnesses_are_not_counted_twice() -> None:
    follower = replica(2, [(1, 0, 19)], high_watermark=13)
    third, fourth = replica(3, [(1, 0, 19)], high_watermark=15), replica(4, [(1, 12, 19)], high_watermark=18)
    assert compare(NEW_LEADER, follower, third, fourth).lost == 8


def test_the_leaders_own_high_watermark_proves_nothing_about_what_it_does_not_hold() -> None:
    assert compare(replace(NEW_LEADER, high_watermark=99), replica(2, [(1, 0, 19)], high_watermark=10)).lost == 0


def test_a_witness_without_epochs_shares_no_lineage() -> None:
    leader, follower = replica(1, [(-1, 0, 14)], high_watermark=15), replica(2, [(-1, 0, 19)], high_watermark=15)
    witness = replica(3, [(-1, 0, 19)], high_watermark=20)
    assert compare(leader, follower, witness, protocol=Protocol.HIGH_WATERMARK).lost == 0
    own = compare(leader, replace(follower, high_watermark=18), protocol=Protocol.HIGH_WATERMARK)
    assert (own.cut, own.lost) == (15, 3), "its own high watermark speaks of its own records"


def test_what_the_leader_still_holds_is_not_lost() -> None:
    """The high watermark rule cuts what the leader has, and it is fetched again."""
    follower, witness = replica(2, [(1, 0, 19)], high_watermark=10), replica(3, [(1, 0, 19)], high_watermark=20)
    found = compare(replica(1, [(1, 0, 29)]), follower, witness, protocol=Protocol.HIGH_WATERMARK)
    assert (found.cut, found.lost) == (10, 0)


def test_what_compaction_or_retention_took_from_the_leader_is_not_lost() -> None:
    follower = replica(2, [(1, 0, 19), (2, 20, 29)], high_watermark=30)
    compacted = replica(1, [(1, 0, 9), (1, 15, 19), (4, 25, 39)], epochs=[(1, 0), (4, 20)])
    assert compare(compacted, follower, compacted=True).lost == 5, "20..24 are gone without a trace, 25..29 are other records"
    retained = replica(1, [(4, 26, 39)], epochs=[(4, 26)], start=26)
    assert compare(retained, follower).lost == 4


def test_a_restart_loses_what_the_leader_has_replaced_above_its_start() -> None:
    leader, follower = (
        replica(1, [(1, 50, 54), (6, 55, 79)], epochs=[(1, 0), (3, 20), (6, 55)]),
        replica(2, [(1, 0, 19), (2, 20, 59)], high_watermark=58),
    )
    found = compare(leader, follower)
    assert (found.cut, found.effect.truncation.restart_offset) == (20, 50)
    assert found.lost == 8, "50..57: all its offsets from the leader's start on are of another epoch"


def test_lost_beyond_a_leader_that_ends_in_an_empty_segment() -> None:
    leader = replica(1, [(1, 0, 9)], epochs=[(1, 0), (5, 12)], end=12)
    follower, own = replica(2, [(1, 0, 19)], high_watermark=20), [(1, 0, 9), (1, 10, 19)]
    found = compare(leader, follower, follower_batches=own)
    assert (found.cut, found.effect.physical_offset, found.lost) == (12, 10, 8)
