"""KIP-279, scenario by scenario: what the text says, and what brokers of 1.1.1 and 2.4.1 did with the same logs.

Broker A of the KIP is 1, broker B is 2. B becomes A's follower; in scenario 3, the other way round.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.protocol.exchange.replay import RULES, kip_101
from replica_audit.rows.codes import Protocol
from tests.protocol.logs import Batch, Pairs
from tests.scenarios.disks import Audited, Cluster, Disk, Version

LATER = [Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH]
ALL = [Protocol.KIP_101, *LATER]
# an answer that cuts nothing: without its epoch in KIP-101, none but records where the fetch asks
ANSWERED = {
    Protocol.KIP_101: lambda epoch, end: (None, end),
    Protocol.KIP_279: lambda epoch, end: (epoch, end),
    Protocol.TRUNCATE_ON_FETCH: lambda epoch, end: (None, None),
}
Batches = list[Batch]

A = Disk(batches=[(1, 0, 10), (1, 11, 20), (3, 21, 30)], high_watermark=31)
A_BY_FIVE = Disk(batches=[(1, 0, 10), (1, 11, 15), (1, 16, 20), (3, 21, 30)], high_watermark=31)


def _b(*own: Batch) -> Disk:
    return Disk(batches=[(1, 0, 10), *own], high_watermark=11)


N_15, N_20, N_25 = _b((2, 11, 15)), _b((2, 11, 20)), _b((2, 11, 25))


def _scenario_1(root: Path, protocol: Protocol, b: Disk, a: Disk = A) -> Audited:
    """Step 3 of scenario 1: A leads in epoch 3, B comes back."""
    return Cluster(disks={1: a, 2: b}, leader=1, leader_epoch=3).audit(root, protocol)


def _kip_101(root: Path, b: Disk, a: Disk = A) -> Audited:
    """Under KIP-101 the answer to epoch 2 is 21, the start of the first larger epoch, in every variant."""
    found = _scenario_1(root, Protocol.KIP_101, b, a)
    cut = kip_101(a.state, b.state).truncation_offset
    assert found.rounds() == [(2, None, 21, cut, True)]
    assert not found.cut()["falls_back_to_high_watermark"]
    assert found.verdict() == "log_matching_violation"
    return found


def _after(root: Path, protocol: Protocol, batches: Batches, epochs: Pairs, *, a: Disk = A, clean: bool = True) -> Audited:
    """What B is left with, in the ISR or back from a restart: asked for epoch 3, A answers with B's own end, and nothing is cut."""
    b = Disk(batches=batches, epochs=epochs, high_watermark=31, clean=clean)
    for isr, up in (((1, 2), (1, 2)), ((1,), (1,))):
        found = Cluster(disks={1: a, 2: b}, leader=1, leader_epoch=3, isr=isr, up=up).audit(root, protocol)
        assert found.rounds()[0][0] == 3
        assert found.effect() == (None, 0, False, True)
        assert (found.verdict(), found.row()["divergence_offset"]) == ("log_matching_violation", 11)
    return found


# --- scenario 1 under KIP-101 (KAFKA-6361) ------------------------------------------------------------------------------------------------


def test_kip_279_scenario_1_n_15_kills_the_fetcher_under_kip_101(tmp_path: Path) -> None:
    """The KIP: no truncation, then an out of order offset error. The fetch offset is n + 1, inside A's batch 11..20."""
    assert _kip_101(tmp_path, N_15).effect() == (None, 0, True, True)
    assert kip_101(A.state, N_15.state).fetch_offset == 16


def test_kip_279_scenario_1_n_15_diverges_silently_where_a_batch_begins_at_16_under_kip_101(tmp_path: Path) -> None:
    """Not in the KIP: with batches 11..15 and 16..20 on A nothing fails."""
    assert _kip_101(tmp_path, N_15, A_BY_FIVE).effect() == (None, 0, False, True)


def test_kip_279_scenario_1_n_20_diverges_silently_under_kip_101(tmp_path: Path) -> None:
    found = _kip_101(tmp_path, N_20)
    assert found.effect() == (None, 0, False, True)
    assert found.row()["divergence_offset"] == 11


def test_kip_279_scenario_1_n_25_is_cut_inside_its_batch_under_kip_101(tmp_path: Path) -> None:
    """The KIP: it truncates all the way to 10 and fetches from 11. Kafka cuts the file there, and fetches from 21: 11..20 go missing."""
    assert _kip_101(tmp_path, N_25).effect() == (21, 15, False, True)
    after = kip_101(A.state, N_25.state).follower_after
    assert (after.log_end_offset, after.epochs) == (21, ((1, 0), (2, 11))), "epoch 2 is a phantom: none of its batches is left"


@pytest.mark.parametrize(
    ("own", "removed"),
    [
        pytest.param([(2, 11, 20), (2, 21, 25)], 5, id="11..20 stay diverged"),
        pytest.param([(2, 11, 14), (2, 15, 18), (2, 19, 22), (2, 23, 25)], 7, id="11..18 stay diverged, 19..20 go missing"),
    ],
)
def test_kip_279_scenario_1_n_25_with_other_batches_is_never_fine_under_kip_101(tmp_path: Path, own: Batches, removed: int) -> None:
    assert _kip_101(tmp_path, _b(*own)).effect() == (21, removed, False, True)


# --- and what that leaves behind, under whatever runs later -------------------------------------------------------------------------------

LEFT: Pairs = [(1, 0), (2, 11), (3, 21)]


@pytest.mark.parametrize("epochs", [LEFT, [(1, 16), (3, 21)]], ids=["by 1.1.1", "by 2.4.1 at 1.1: epoch 1 is said to begin at 16"])
@pytest.mark.parametrize("protocol", ALL)
def test_kip_279_scenario_1_n_15_leaves_epochs_that_go_backwards(tmp_path: Path, protocol: Protocol, epochs: Pairs) -> None:
    found = _after(tmp_path, protocol, [(1, 0, 10), (2, 11, 15), (1, 16, 20), (3, 21, 30)], epochs, a=A_BY_FIVE)
    assert found.epochs_on_disk(2) == [1, 2, 1, 3]


@pytest.mark.parametrize("protocol", ALL)
def test_kip_279_scenario_1_n_20_leaves_records_that_differ(tmp_path: Path, protocol: Protocol) -> None:
    _after(tmp_path, protocol, [(1, 0, 10), (2, 11, 20), (3, 21, 30)], LEFT)


HOLES = {"11..20 missing": [(3, 21, 30)], "11..18 diverged, 19..20 missing": [(2, 11, 14), (2, 15, 18), (3, 21, 30)]}


@pytest.mark.parametrize("left", HOLES.values(), ids=HOLES)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("protocol", ALL)
def test_kip_279_scenario_1_n_25_leaves_a_hole_for_ever(tmp_path: Path, protocol: Protocol, clean: bool, left: Batches) -> None:
    """Recovery of the log looks for no missing offsets either."""
    _after(tmp_path, protocol, [(1, 0, 10), *left], LEFT, clean=clean)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("protocol", ALL)
def test_kip_279_scenario_1_n_25_is_fine_only_after_a_restart_before_it_fetched(tmp_path: Path, protocol: Protocol, clean: bool) -> None:
    """The file ends at 11; the phantom entry 2 at 11 is dropped when the log is loaded."""
    found = _scenario_1(tmp_path, protocol, Disk(batches=[(1, 0, 10)], epochs=[(1, 0), (2, 11)], high_watermark=11, clean=clean))
    assert (found.verdict(), found.in_effect(2), found.rounds()[0][0]) == ("lagging", [(1, 0)], 1)


@pytest.mark.parametrize("protocol", ALL)
def test_kip_279_scenario_1_is_served_after_a_clean_fail_over_to_b(tmp_path: Path, protocol: Protocol) -> None:
    """B leads with what it kept; A asks for epoch 3, is told its own end, and keeps the other records."""
    b = Disk(batches=[(1, 0, 10), (2, 11, 20), (3, 21, 30)], epochs=[*LEFT, (4, 31)], high_watermark=31)
    found = Cluster(disks={1: A, 2: b}, leader=2, leader_epoch=4).audit(tmp_path, protocol)
    assert found.rounds(1) == [(3, *ANSWERED[protocol](3, 31), None, True)]
    assert found.effect(1) == (None, 0, False, True)
    assert found.verdict(1) == "log_matching_violation"


@pytest.mark.parametrize(
    ("version", "protocol", "verdict"),
    [
        pytest.param(Version("1.1.1", "0.10.2-IV0"), Protocol.HIGH_WATERMARK, "stale_tail", id="0.10.2: right by the high watermark"),
        pytest.param(Version("1.1.1", "0.11.0-IV2"), Protocol.KIP_101, "log_matching_violation", id="0.11.0"),
        pytest.param(Version("2.4.1", "1.1-IV0"), Protocol.KIP_101, "log_matching_violation", id="brokers of 2.4.1 at 1.1: half upgraded"),
        pytest.param(Version("2.4.1", "2.0-IV1"), Protocol.KIP_279, "stale_tail", id="2.0"),
    ],
)
def test_kip_279_scenario_1_follows_the_inter_broker_protocol(tmp_path: Path, version: Version, protocol: Protocol, verdict: str) -> None:
    found = Cluster(disks={1: A, 2: N_20}, leader_epoch=3).audit(tmp_path, protocol, version)
    assert found.verdict() == verdict
    assert found.cut()["truncation_offset"] == (None if protocol is Protocol.KIP_101 else 11)


# --- scenario 1 as proposed ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", LATER)
@pytest.mark.parametrize("b", [N_15, N_20, N_25], ids=["n_15", "n_20", "n_25"])
def test_kip_279_scenario_1_is_cut_at_11_whatever_n_is(tmp_path: Path, b: Disk, protocol: Protocol) -> None:
    """Asked for epoch 2, A answers (1, 21): B drops everything of epoch 2, and 21 is beyond what is left."""
    found = _scenario_1(tmp_path, protocol, b)
    closing = [(1, None, None, None, True)] if protocol is Protocol.TRUNCATE_ON_FETCH else []
    assert found.rounds() == [(2, 1, 21, 11, True), *closing]
    assert found.effect() == (11, b.end - 11, False, False)
    assert (found.verdict(), found.cut()["falls_back_to_high_watermark"]) == ("stale_tail", False)
    assert RULES[protocol](A.state, b.state).cuts == ((11, True),)


# --- scenario 2, which is scenario 1 of KIP-101 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ALL)
def test_kip_279_scenario_2_keeps_what_lies_above_the_high_watermark(tmp_path: Path, protocol: Protocol) -> None:
    """A restarts with high watermark 11, asks B for epoch 1, is told 21 and truncates nothing."""
    disks = {1: Disk(batches=[(1, 0, 10), (1, 11, 20)], high_watermark=11), 2: Disk(batches=[(1, 0, 10), (1, 11, 20)], high_watermark=21)}
    found = Cluster(disks=disks, leader=2, leader_epoch=1).audit(tmp_path, protocol)
    assert found.rounds(1) == [(1, *ANSWERED[protocol](1, 21), None, True)]
    assert found.verdict(1) == "identical"
    assert RULES[protocol](disks[2].state, disks[1].state).truncation_offset is None


# --- scenario 3, the second one of the motivation -----------------------------------------------------------------------------------------

B_WITH_1_AND_3 = Disk(batches=[(1, 0, 0), (3, 1, 1)], high_watermark=2)


def _a_with_0_and_2(watermark: int) -> Disk:
    return Disk(batches=[(0, 0, 0), (2, 1, 1)], high_watermark=watermark)


def _fast_fail_over(root: Path, protocol: Protocol, watermark: int) -> Audited:
    """Four unclean elections, one message each; B leads in epoch 3, A comes back."""
    return Cluster(disks={1: _a_with_0_and_2(watermark), 2: B_WITH_1_AND_3}, leader=2, leader_epoch=3).audit(root, protocol)


@pytest.mark.parametrize("watermark", [0, 2])
def test_kip_279_scenario_3_leaves_offset_0_diverged_under_kip_101(tmp_path: Path, watermark: int) -> None:
    """B replies with the first offset of epoch 3, which is 1."""
    found = _fast_fail_over(tmp_path, Protocol.KIP_101, watermark)
    assert found.rounds(1) == [(2, None, 1, 1, True)]
    assert found.effect(1) == (1, 1, False, True)
    assert found.verdict(1) == "log_matching_violation"
    assert kip_101(B_WITH_1_AND_3.state, _a_with_0_and_2(watermark).state).fetch_offset == 1


@pytest.mark.parametrize("protocol", LATER)
@pytest.mark.parametrize(("watermark", "verdict"), [(0, "stale_tail"), (2, "committed_loss")])
def test_kip_279_scenario_3_takes_two_rounds_and_no_watermark(tmp_path: Path, protocol: Protocol, watermark: int, verdict: str) -> None:
    """The KIP has the second request answered UNKNOWN, and a high watermark of 0. Kafka answers (0, 0), and does not look at the other."""
    found = _fast_fail_over(tmp_path, protocol, watermark)
    closing = [(None, None, None, None, True)] if protocol is Protocol.TRUNCATE_ON_FETCH else []
    assert found.rounds(1) == [(2, 1, 1, 1, False), (0, 0, 0, 0, True), *closing]
    assert found.effect(1) == (0, 2, False, False)
    assert (found.verdict(1), found.cut(1)["falls_back_to_high_watermark"]) == (verdict, False)
    assert RULES[protocol](B_WITH_1_AND_3.state, _a_with_0_and_2(watermark).state).cuts == ((1, False), (0, True))


OBSERVED = [
    ([(1, 0, 0), (5, 1, 1)], [(3, 0, 0), (7, 1, 1)], [(5, 3, 1, 1, False), (1, 1, 0, 0, True)]),
    ([(0, 0, 2), (1, 3, 3), (5, 4, 4)], [(0, 0, 2), (3, 3, 3), (7, 4, 4)], [(5, 3, 4, 4, False), (1, 0, 3, 3, True)]),
]


@pytest.mark.parametrize(("own", "theirs", "rounds"), OBSERVED, ids=["nothing shared", "three records shared"])
def test_kip_279_scenario_3_as_brokers_of_2_4_1_had_it(tmp_path: Path, own: Batches, theirs: Batches, rounds: list[object]) -> None:
    """Unclean elections step by two: nobody leads in between."""
    disks = {1: Disk(batches=own, high_watermark=len(own), clean=False), 2: Disk(batches=theirs)}
    assert Cluster(disks=disks, leader=2, leader_epoch=7).audit(tmp_path, Protocol.KIP_279).rounds(1) == rounds


def test_kip_279_step_3_repeats_until_the_answered_epoch_is_known(tmp_path: Path) -> None:
    """Three epochs that the leader does not know: a round for each, each cutting the newest own one."""
    leader = Disk(batches=[(1, 0, 9), (3, 10, 19), (5, 20, 29), (7, 30, 39)])
    follower = Disk(batches=[(1, 0, 4), (2, 5, 11), (4, 12, 24), (6, 25, 39)])
    found = Cluster(disks={1: leader, 2: follower}, leader_epoch=7).audit(tmp_path, Protocol.KIP_279)
    assert found.rounds() == [(6, 5, 30, 25, False), (4, 3, 20, 12, False), (2, 1, 10, 5, True)]


def test_kip_279_falls_back_to_the_high_watermark_where_the_leader_has_no_epochs(tmp_path: Path) -> None:
    leader = Disk(batches=[(-1, 0, 30)])
    found = Cluster(disks={1: leader, 2: N_20}, leader_epoch=3).audit(tmp_path, Protocol.KIP_279)
    assert found.rounds() == [(2, None, -1, None, True)]
    assert (found.cut()["falls_back_to_high_watermark"], found.cut()["truncation_offset"]) == (True, 11)


RECOVERED = [(True, True, [(1, 0), (2, 10), (3, 20)]), (False, False, [(1, 0), (3, 20)]), (False, True, [])]


@pytest.mark.parametrize(("checkpoint", "clean", "known"), RECOVERED, ids=["kept", "lost, then recovered", "lost, clean shutdown"])
def test_kip_279_impact_of_compaction_on_the_epoch_file(tmp_path: Path, checkpoint: bool, clean: bool, known: Pairs) -> None:
    """Compaction took epoch 2. The file still knows it; recovery learns what is left; without recovery nothing is learned."""
    follower = Disk(batches=[(1, 0, 9), (3, 20, 29)], epochs=[(1, 0), (2, 10), (3, 20)], checkpoint=checkpoint, clean=clean)
    leader = Disk(batches=[(1, 0, 9), (2, 10, 19), (3, 20, 39)])
    problems = ("checkpoint-contradicts-batches",) if clean and not checkpoint else ()
    cluster = Cluster(disks={1: leader, 2: follower}, leader_epoch=3, configs={"cleanup.policy": "compact"}, problems=problems)
    assert cluster.audit(tmp_path, Protocol.TRUNCATE_ON_FETCH).in_effect(2) == known


@pytest.mark.parametrize(("cleaned", "told"), [(15, True), (10, False), (None, False)])
def test_kip_279_a_cut_below_the_cleaner_checkpoint_is_told_behind_the_reason(tmp_path: Path, cleaned: int | None, told: bool) -> None:
    """Its cleaner took 3..6 for the sake of records of epoch 2, which are cut away: no broker gives 3..6 back to it."""
    leader = Disk(batches=[(1, 0, 9), (3, 10, 19)])
    follower = Disk(batches=[(1, 0, 2), (1, 7, 9), (2, 10, 14)], high_watermark=12, cleaned=cleaned)
    cluster = Cluster(disks={1: leader, 2: follower}, leader_epoch=3, configs={"cleanup.policy": "compact"})
    row = cluster.audit(tmp_path, Protocol.TRUNCATE_ON_FETCH).row()
    assert (row["verdict"], row["truncation_offset"]) == ("committed_loss", 10)
    assert ("permanently missing from this replica" in row["reason"]) is told
