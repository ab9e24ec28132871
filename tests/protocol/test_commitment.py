"""What is proven to have been committed: each evidence, each exception to it, and that nothing is claimed which never was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replica_audit.model import BrokerEvent, MinIsrSetting, PartitionMetadata
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, IsrState, Moment, Term, release_of
from replica_audit.protocol.cluster.metadata_image import CLUSTER_DEFAULT, values_between
from replica_audit.protocol.comparison.commitment import CommitHistory, Doubt, Evidence, by_evidence, lost_commits
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.replica import Replica
from tests.protocol.isr_model import BROKERS, World
from tests.protocol.logs import TIME, replica

S = 9000
ONE = [MinIsrSetting(1, 0)]
LEADER = replica(3, [(0, 0, 9), (6, 10, 14)])
LOST = {Evidence.SOLE: 10}


def at(offset: int, ms: int = 0, controller: int = 1) -> Moment:
    return Moment(offset, controller, TIME + ms)


def term(epoch: int, leader: int, *states: tuple[set[int], Moment], end: Moment, **fields: Any) -> Term:
    isrs = tuple(IsrState(isr=frozenset(isr), since=since) for isr, since in states)
    return Term(leader_epoch=epoch, leader_id=leader, states=isrs, end=end, **({"is_over": True, "begins": True} | fields))


def event(broker: int, state: str, offset: int, ms: int, controller: int = 1) -> BrokerEvent:
    return BrokerEvent(broker, state, offset, controller, TIME + ms)


# brokers 1 and 3 are up; 3 dies and is fenced in the record that leaves 1 alone, which is fenced much later
EVENTS = [event(1, "up", 1, -30_000), event(3, "up", 2, -20_000), event(3, "fenced", 21, 0), event(1, "fenced", 41, 30_000)]
SHRUNK = term(0, 1, ({1, 3}, at(5, -19_000)), ({1}, at(20, 0)), end=at(40, 30_000))
ALONE = term(4, 1, ({1}, at(30, 5000)), end=at(40, 30_000))


def history(*terms: Term, events: Sequence[BrokerEvent] = EVENTS, **fields: Any) -> CommitHistory:
    cluster: dict[str, Any] = {"broker_events": tuple(events), "end": at(99, 60_000), "release": (4, 3), "release_is_exact": True}
    cluster |= {name: fields.pop(name) for name in ("release", "release_is_exact", "end") if name in fields}
    given: dict[str, Any] = {"terms": terms, "cluster": ClusterHistory(**cluster), "min_isr": ONE, "ever_replicas": (1, 3)}
    return CommitHistory(**(given | fields))


def claims(known: CommitHistory, follower: Replica | None = None, *others: Replica, leader: Replica = LEADER) -> dict[Evidence, int]:
    follower = follower or replica(1, [(0, 0, 9), (0, 10, 19)])
    return by_evidence(lost_commits(leader, follower, others, known, 0))


def doubts(known: CommitHistory, follower: Replica | None = None) -> set[Doubt]:
    follower = follower or replica(1, [(0, 0, 9), (0, 10, 19)])
    return {doubt for one in lost_commits(LEADER, follower, (), known, 0) for doubt in one.bound.doubts}


# --- a leader that is alone in the ISR ----------------------------------------------------------------------------------------------------


def test_all_that_a_leader_wrote_is_committed_once_it_is_alone() -> None:
    assert claims(history(SHRUNK)) == LOST
    assert not doubts(history(SHRUNK))


def test_the_evidence_names_broker_and_record() -> None:
    (found,) = lost_commits(LEADER, replica(1, [(0, 0, 19)]), (), history(SHRUNK), 0)
    assert (found.bound.broker_id, found.bound.metadata_offset, found.spans) == (1, 20, (Span(0, 10, 20),))


def test_each_offset_counts_once_under_its_strongest_evidence() -> None:
    follower = replica(1, [(0, 0, 19)], high_watermark=13)
    assert claims(history(SHRUNK), follower) == {Evidence.CHECKPOINT: 3, Evidence.SOLE: 7}
    assert claims(history(SHRUNK), replace(follower, high_watermark=20)) == {Evidence.CHECKPOINT: 10}


def test_a_high_watermark_beyond_the_end_of_a_running_brokers_copy_was_written_later() -> None:
    """Kafka 3.9.2: a follower's log was copied while it stopped, its high watermark after it had come back, been cut, and fetched on."""
    living, ran = CommitHistory(may_be_older=True), replica(1, [(0, 0, 19)], high_watermark=21, alive=True, of_one_time=False)
    assert not claims(living, ran)
    assert claims(living, replace(ran, high_watermark=20)) == {Evidence.CHECKPOINT: 10}, "at the log end it may be of this log"
    others = [replace(ran, alive=False), replace(ran, alive=None), replace(ran, frozen=True)]  # a crash may have taken the end of the log
    assert [claims(living, one) for one in others] == [{Evidence.CHECKPOINT: 10}] * 3
    assert claims(living, replace(ran, of_one_time=True)) == {Evidence.CHECKPOINT: 10}, "copied at one instant"


def test_two_in_the_isr_prove_nothing_of_what_one_of_them_holds() -> None:
    assert not claims(history(term(0, 1, ({1, 3}, at(5, -19_000)), end=at(40, 30_000))))


def test_without_a_metadata_log_checkpoints_alone_count() -> None:
    assert not claims(CommitHistory())
    assert claims(CommitHistory(), replica(1, [(0, 0, 19)], high_watermark=12)) == {Evidence.CHECKPOINT: 2}


def test_the_history_of_another_topic_of_the_same_name_proves_nothing() -> None:
    follower = replica(1, [(0, 0, 19)], topic_id="A")
    assert claims(history(SHRUNK, topic_id="A"), follower) == LOST
    assert not claims(history(SHRUNK, topic_id="B"), follower)


def test_what_a_follower_fetched_from_the_lonely_leader_is_committed_as_well() -> None:
    """Whoever holds a record of the term got it from its leader's log."""
    assert claims(history(SHRUNK, ever_replicas=(1, 2, 3), events=[*EVENTS]), replica(2, [(0, 0, 14)])) == {Evidence.SOLE: 5}


def test_another_replica_can_hold_what_proves_it() -> None:
    """Broker 2 lacks the record of epoch 4; by the log of broker 1 all before that was committed when 1 led alone."""
    leader_of_4 = replica(1, [(0, 0, 14), (4, 15, 15)])
    assert not claims(history(ALONE), replica(2, [(0, 0, 14)]))
    assert claims(history(ALONE), replica(2, [(0, 0, 14)]), leader_of_4) == {Evidence.SOLE: 5}
    assert not claims(history(ALONE), replica(2, [(0, 0, 9), (1, 10, 14)]), leader_of_4), "other records at the same offsets"


# --- when a term began --------------------------------------------------------------------------------------------------------------------


def test_all_that_a_leader_holds_is_committed_when_it_begins_to_lead_alone() -> None:
    """No matter who may join the ISR: Partition.makeLeader waits for none of them."""
    follower = replica(1, [(0, 0, 19)], epochs=[(0, 0), (4, 20)])
    up = [*EVENTS[:2], event(1, "fenced", 41, 30_000)]
    assert claims(history(ALONE, events=up), follower) == LOST
    assert not doubts(history(ALONE, events=up), follower)


def test_only_a_leader_enters_an_epoch_without_a_record_in_it() -> None:
    assert not claims(history(ALONE), replica(2, [(0, 0, 19)], epochs=[(0, 0), (4, 20)]))
    assert claims(history(ALONE), replica(2, [(0, 0, 18), (4, 19, 19)])) == LOST


def test_what_was_written_behind_the_beginning_counts_by_the_end() -> None:
    grown = term(4, 1, ({1}, at(30, 5000)), ({1, 3}, at(33, 6000)), end=at(40, 30_000))
    follower = replica(1, [(0, 0, 14), (4, 15, 19)])
    assert claims(history(grown), follower) == {Evidence.SOLE: 5}
    assert claims(history(ALONE), follower) == LOST


def test_a_snapshot_does_not_tell_how_a_term_began() -> None:
    unknown = Moment(29, 1, -1)
    snapshot = term(4, 1, ({1}, unknown), end=at(40, 30_000), begins=False)
    follower = replica(1, [(0, 0, 14), (4, 15, 19)])
    assert not claims(history(snapshot), follower)
    later = term(4, 1, ({1}, unknown), ({1}, at(29, 5000)), end=at(40, 30_000), begins=False)
    assert claims(history(later), follower) == {Evidence.SOLE: 10}, "but its leader was heard of long after"


# --- exceptions: min.insync.replicas ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected", "doubted"),
    [
        pytest.param({"min_isr": [MinIsrSetting(2, 0)]}, {}, set(), id="too few in the ISR: the high watermark stays"),
        pytest.param({"min_isr": [MinIsrSetting(2, 0)], "release": (3, 6)}, LOST, set(), id="which it did not do before 3.7"),
        pytest.param({"min_isr": [MinIsrSetting(2, 0)], "release": (3, 6), "release_is_exact": False}, {}, set(), id="if that is known"),
        pytest.param({"min_isr": [MinIsrSetting(1, 0), MinIsrSetting(2, 25)]}, {}, set(), id="raised meanwhile"),
        pytest.param({"min_isr": [MinIsrSetting(2, 0), MinIsrSetting(1, 25)]}, {}, set(), id="lowered meanwhile: nobody saw an append"),
        pytest.param({"min_isr": [MinIsrSetting(2, 0), MinIsrSetting(1, 15)]}, LOST, set(), id="lowered before"),
        pytest.param({"min_isr": [MinIsrSetting(1, 0), MinIsrSetting(2, 50)]}, LOST, set(), id="raised later"),
        pytest.param({"min_isr": []}, LOST, {Doubt.MIN_ISR}, id="set in server.properties, if at all"),
        pytest.param({"min_isr": [], "release": (3, 6)}, LOST, set(), id="of no matter before 3.7"),
        pytest.param({"min_isr": [MinIsrSetting(1, 0), MinIsrSetting(None, 30)]}, LOST, {Doubt.MIN_ISR}, id="no longer set"),
    ],
)
def test_min_isr(changed: dict[str, Any], expected: dict[Evidence, int], doubted: set[Doubt]) -> None:
    assert claims(history(SHRUNK, **changed)) == expected
    assert doubts(history(SHRUNK, **changed)) == doubted


def test_min_isr_of_topic_broker_and_cluster() -> None:
    brokers = [MinIsrSetting(3, 0, CLUSTER_DEFAULT), MinIsrSetting(2, 0, 1)]
    assert values_between([MinIsrSetting(1, 0)], brokers, 1, 5, 9) == {1}
    assert values_between([], brokers, 1, 5, 9) == {2}
    assert values_between([], brokers, 2, 5, 9) == {3}
    assert values_between([], [], 2, 5, 9) == {None}
    assert values_between([], [*brokers, MinIsrSetting(1, 7, CLUSTER_DEFAULT)], 2, 5, 9) == {3, 1}
    assert values_between([], [*brokers, MinIsrSetting(1, 9, CLUSTER_DEFAULT)], 2, 5, 9) == {3}
    assert values_between([], [*brokers, MinIsrSetting(1, 9, CLUSTER_DEFAULT)], 2, 5, None) == {3, 1}
    assert values_between([MinIsrSetting(None, 3)], brokers, 2, 5, 9) == {3}, "a setting that was removed"


# --- exceptions: a replica that is about to join ------------------------------------------------------------------------------------------


def test_a_replica_that_is_up_may_be_waited_for() -> None:
    lagging = [*EVENTS[:2], event(1, "fenced", 41, 30_000)]
    assert Doubt.WAITED_FOR in doubts(history(SHRUNK, events=lagging))
    back = [*EVENTS[:3], event(3, "starting", 25, 9000), event(3, "up", 26, 10_000), EVENTS[3]]
    assert doubts(history(SHRUNK, events=back)) == {Doubt.WAITED_FOR}
    later = [*EVENTS, event(3, "starting", 42, 31_000), event(3, "up", 43, 32_000)]
    assert not doubts(history(SHRUNK, events=later)), "it came when the term was over"
    elected = [*EVENTS[:3], event(3, "up", 39, 30_000), event(1, "fenced", 41, 30_000)]
    assert not doubts(history(SHRUNK, events=elected)), "it came with the record that ended the term"


def test_up_to_3_5_fenced_brokers_are_waited_for_as_well() -> None:
    assert doubts(history(SHRUNK, release=(3, 5))) == {Doubt.WAITED_FOR}
    assert doubts(history(SHRUNK, release=(3, 6))) == set()


def test_a_third_replica_matters_as_well() -> None:
    assert doubts(history(SHRUNK, ever_replicas=(1, 2, 3), events=[event(2, "up", 3, -25_000), *EVENTS])) == {Doubt.WAITED_FOR}


# --- exceptions: a leader that did not learn that it was alone ----------------------------------------------------------------------------


def _fenced(ms: int, **fields: Any) -> CommitHistory:
    """Broker 1 is fenced so long after the record that left it alone. Of broker 2 the session's time is known: 3000 ms at most."""
    events = [event(2, "up", 3, -25_000), event(2, "fenced", 4, -22_000), *EVENTS[:3], event(1, "fenced", 41, ms)]
    return history(replace(SHRUNK, end=at(40, ms)), events=events, **fields)


def test_a_leader_that_died_with_its_follower_never_was_alone() -> None:
    """Both sessions end; one of the two is fenced first. Nothing says that the other one ever knew."""
    for ms in (1, 700, 2999, 3000, 3750):
        assert not claims(_fenced(ms))
    assert claims(_fenced(3751)) == LOST, "it was still heard of"
    assert not doubts(_fenced(3751))


def test_a_new_controller_waits_for_everybody_anew() -> None:
    events = [event(2, "up", 3, -25_000), event(2, "fenced", 4, -22_000), *EVENTS[:3], event(1, "fenced", 41, 8000, controller=2)]
    assert not claims(history(replace(SHRUNK, end=at(40, 8000, controller=2)), events=events))


def test_where_no_session_ended_its_default_is_likely() -> None:
    events = [*EVENTS[:2], event(3, "stopping", 19, -10), event(3, "stopped", 21, 0), event(1, "fenced", 41, 11_251)]
    known = history(replace(SHRUNK, end=at(40, 11_251)), events=events)
    assert known.cluster.session_ms == 41_251, "broker 1's own, which had been up for long: not 9000 by any proof"
    assert (claims(known), doubts(known)) == (LOST, {Doubt.NOT_LEARNED})
    events[-1] = event(1, "fenced", 41, 11_250)
    assert not claims(history(replace(SHRUNK, end=at(40, 11_250)), events=events))


def test_a_leader_that_stops_in_order_had_learned_all() -> None:
    stops = [*EVENTS[:3], event(1, "stopping", 30, 500), event(1, "stopped", 41, 900)]
    assert claims(history(replace(SHRUNK, end=at(40, 900)), events=stops)) == LOST
    before = [*EVENTS[:2], event(1, "stopping", 10, -100), EVENTS[2], event(1, "stopped", 41, 900)]
    assert not claims(history(replace(SHRUNK, end=at(40, 900)), events=before))


def test_a_leader_that_adds_to_its_isr_knows_what_it_was() -> None:
    grows = term(0, 1, ({1, 3}, at(5, -19_000)), ({1}, at(20, 0)), ({1, 2}, at(22, 10)), ({1}, at(24, 20)), end=at(40, 30))
    quick = [*EVENTS[:3], event(1, "fenced", 41, 30)]
    assert not claims(history(grows, events=quick)), "alone again, and dead at once"
    follower, second = replica(1, [(0, 0, 19)]), replica(2, [(0, 0, 14)])
    assert claims(history(grows, events=quick), follower, second) == {Evidence.ALL: 5}, "1 and 2 were its ISR, 3 no more"


def test_a_leader_that_asked_for_a_smaller_isr_very_likely_learned_of_it() -> None:
    """Its follower's broker was up: not the controller took it out of the ISR."""
    events = [*EVENTS[:2], event(3, "fenced", 30, 100), event(1, "fenced", 41, 200)]
    known = history(replace(SHRUNK, end=at(40, 200)), events=events)
    assert claims(known) == LOST
    assert Doubt.NOT_LEARNED in doubts(known)


def _written(ms: int) -> Replica:
    made = replica(1, [(0, 0, 19)])
    runs = tuple(run._replace(min_timestamp_ms=TIME - 50_000, max_timestamp_ms=TIME + ms) for run in made.log.runs)
    return replace(made, log=replace(made.log, runs=runs))


def test_records_that_are_younger_than_the_change_make_it_likely() -> None:
    assert (claims(_fenced(3300), _written(50)), doubts(_fenced(3300), _written(50))) == (LOST, {Doubt.NOT_LEARNED})
    assert not claims(_fenced(3300), _written(0)), "not younger"
    assert not claims(_fenced(3300), _written(3301)), "nor written by a leader of that time: a clock is wrong"


def test_what_a_frozen_leader_wrote_when_it_went_on_makes_nothing_likely() -> None:
    thawed = [
        event(2, "up", 3, -25_000),
        event(2, "fenced", 4, -22_000),
        *EVENTS[:3],
        event(1, "fenced", 41, 3300),
        event(1, "up", 50, 9000),
    ]
    assert not claims(history(replace(SHRUNK, end=at(40, 3300)), events=thawed), _written(50))
    started = [*thawed[:-1], event(1, "starting", 50, 8000), event(1, "up", 51, 9000)]
    assert claims(history(replace(SHRUNK, end=at(40, 3300)), events=started), _written(50)) == LOST


def test_a_high_watermark_that_a_clean_stop_wrote_down_is_exact() -> None:
    """A static min.insync.replicas shows there, if nowhere else."""
    stopped = replica(1, [(0, 0, 19)], high_watermark=12, stopped_cleanly=True)
    assert claims(history(SHRUNK), stopped) == {Evidence.CHECKPOINT: 2}
    assert claims(history(SHRUNK), replace(stopped, stopped_cleanly=False)) == {Evidence.CHECKPOINT: 2, Evidence.SOLE: 8}
    again = [*EVENTS, event(1, "starting", 60, 50_000)]
    assert claims(history(SHRUNK, events=again), stopped) == {Evidence.CHECKPOINT: 2, Evidence.SOLE: 8}, "stopped in another life"


def test_a_term_that_goes_on_counts_with_a_doubt_where_copies_are_apart() -> None:
    going_on = replace(ALONE, end=at(99, 60_000), is_over=False)
    follower = replica(1, [(0, 0, 14), (4, 15, 19)])
    assert doubts(history(going_on), follower) == set()
    assert doubts(history(going_on, may_be_older=True), follower) == {Doubt.METADATA_OLDER}
    assert claims(history(going_on, is_outdated=True), follower) == {Evidence.SOLE: 5}, "what it held when it began"


# --- every in-sync replica ----------------------------------------------------------------------------------------------------------------

BOTH = term(0, 1, ({1, 2}, at(5, -19_000)), end=at(40, 30_000))


def test_what_every_in_sync_replica_holds_is_committed() -> None:
    first, second = replica(1, [(0, 0, 19)]), replica(2, [(0, 0, 14)])
    assert claims(history(BOTH), first, second) == {Evidence.ALL: 5}
    assert claims(history(BOTH), second, first) == {Evidence.ALL: 5}
    assert not claims(history(BOTH), first), "the other one is not in the input"
    assert not claims(history(BOTH), first, replica(2, [(0, 0, 9), (1, 10, 14)])), "it holds others"
    assert not claims(history(BOTH, min_isr=[MinIsrSetting(3, 0)]), first, second), "min.insync.replicas is 3"


def test_the_leader_itself_does_not_hold_what_is_lost() -> None:
    three = term(0, 1, ({1, 2, 3}, at(5, -19_000)), end=at(40, 30_000))
    assert not claims(history(three), replica(1, [(0, 0, 19)]), replica(2, [(0, 0, 14)]))


def test_members_that_left_without_the_leaders_knowledge_count() -> None:
    """1 and 2 die together. What both hold was committed, what 1 alone holds may have been so or not."""
    died = term(0, 1, ({1, 2}, at(5, -19_000)), ({1}, at(20, 0)), end=at(40, 100))
    events = [event(2, "up", 2, -20_000), event(1, "up", 1, -30_000), event(2, "fenced", 21, 0), event(1, "fenced", 41, 100)]
    first, second = replica(1, [(0, 0, 19)]), replica(2, [(0, 0, 14)])
    assert claims(history(died, events=events), first, second) == {Evidence.ALL: 5}


# --- versions -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "level", "expected"),
    [
        ((3, 5), 11, ((3, 5), True)),
        (None, 29, ((3, 7), False)),
        (None, 15, ((3, 7), False)),
        (None, 14, ((3, 6), False)),
        (None, 11, ((3, 0), False)),
        (None, None, ((0, 0), False)),
    ],
)
def test_releases(version: tuple[int, int] | None, level: int | None, expected: object) -> None:
    assert release_of(version, level) == expected


# --- nothing is claimed that never was ----------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[World, int, int], None]] = {
    name: getattr(World, name) for name in ("wait", "append", "fetch", "write_down", "kill", "start", "freeze", "resume")
}
STEPS = st.lists(
    st.tuples(st.sampled_from([*OPERATIONS, "wait", "append", "fetch", "fetch"]), st.sampled_from(BROKERS), st.integers(1, 20)), max_size=50
)


def _claimed(world: World) -> dict[Evidence, set[tuple[int, int]]]:
    replicas, known = world.replicas(), world.history()
    leader = replicas[world.leader if world.leader > 0 else 1]
    found: dict[Evidence, set[tuple[int, int]]] = {evidence: set() for evidence in Evidence}
    for follower in (one for one in replicas.values() if one is not leader):
        others = [one for one in replicas.values() if one not in (leader, follower)]
        for one in lost_commits(leader, follower, others, known, 0):
            if not one.bound.doubts:
                found[one.bound.evidence] |= {(s.leader_epoch, offset) for s in one.spans for offset in range(s.first_offset, s.end_offset)}
    return found


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from([None, 1, 2]))
def test_no_record_is_claimed_that_no_high_watermark_passed(steps: list[tuple[str, int, int]], min_isr: int | None) -> None:
    world = World(min_isr)
    for name, broker, number in steps:
        OPERATIONS[name](world, broker, number)
    claimed = _claimed(world)
    assert claimed[Evidence.CHECKPOINT] <= world.passed
    assert claimed[Evidence.SOLE] <= world.passed


def _last_stand(ticks: int) -> tuple[set[tuple[int, int]], World]:
    """Brokers 2 and 3 die, and so many ticks later 1, which is written to first; 2 is then elected uncleanly."""
    world = World(1)
    world.kill(2, 0)
    world.kill(3, 0)
    world.wait(0, ticks)
    world.append(1, 3)
    world.kill(1, 0)
    world.wait(0, 20)
    world.start(2, 0)
    world.wait(0, 1)
    assert world.leader == 2
    return _claimed(world)[Evidence.SOLE], world


def test_the_last_stand_of_a_leader() -> None:
    """The same records of the same leader: committed where it had seen that it was alone, and only then."""
    died_at_once, world = _last_stand(2)
    assert not died_at_once
    assert not world.passed
    alone, world = _last_stand(40)
    assert alone == world.passed == {(0, 0), (0, 1), (0, 2)}


def test_the_only_member_of_an_isr_had_committed_all_that_it_holds() -> None:
    """Without a metadata log, as of a cluster of ZooKeeper: whoever is alone in the ISR has led last."""
    without = CommitHistory(sole_member=1)
    assert claims(without) == LOST
    assert doubts(without) == {Doubt.METADATA_OLDER}
    assert claims(CommitHistory(sole_member=3)) == {}
    places: dict[str, Any] = {"topic": "t", "partition": 0, "replicas": (1, 3), "topic_id": None, "compacted": False, "source": "given"}
    offline = PartitionMetadata(leader=-1, leader_epoch=6, isr=(1,), no_leader=True, **places)
    for changed, member in (
        ({}, 1),
        ({"isr": (1, 3)}, None),
        ({"leader": 3, "no_leader": False}, None),
        ({"min_insync_replicas": 2}, None),
    ):
        known = CommitHistory.of(replace(offline, **changed), ClusterHistory(), simultaneous=False, is_outdated=False)
        assert known.sole_member == member
