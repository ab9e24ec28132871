"""The metadata after a number of records: partitions, elections, brokers, configurations, and which of several sources counts.

The changes under "elections" are, field by field, what PartitionChangeBuilder of Kafka 4.2.0 answers in the situation that each names.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats.metadata.metadata_records import decode
from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.leadership import latest, nothing_known
from replica_audit.protocol.cluster.metadata_image import (
    METADATA_LOG,
    METADATA_VERSION,
    NO_LEADER_CHANGE,
    BrokerFenced,
    BrokerRegistered,
    BrokerStops,
    ConfigSet,
    ElectionKind,
    ElrCleared,
    FeatureSet,
    MetadataImage,
    MetadataRecord,
    Position,
    TopicCreated,
    TopicRemoved,
    values_between,
)
from tests.formats import metadata_files as mf

T, OTHER = "Qp6JWkXMQF-e2A5xW3-mBQ", "FwQ8J6cySmadJADoS7lKRg"
TIME = 1_700_000_000_000
LOG, FILE = METADATA_LOG, "cluster-metadata"


def made(value: bytes) -> MetadataRecord:
    """A record by way of its bytes, so that fields have Kafka's names here."""
    found = decode(value)
    assert isinstance(found, tuple)
    return found


def created(*isr: int, replicas: tuple[int, ...] = (1, 2, 3), topic_id: str = T, **values: Any) -> MetadataRecord:
    """orders-0 as a PartitionRecord sets it: led by 1, everybody in the ISR, unless told otherwise."""
    return made(mf.partition(topic_id=topic_id, replicas=list(replicas), isr=list(isr or replicas), **values))


def change(leader: int = NO_LEADER_CHANGE, isr: tuple[int, ...] | None = None, **values: Any) -> MetadataRecord:
    """A change of orders-0; what is left out stays as it was."""
    return made(mf.change(leader=leader, isr=None if isr is None else list(isr), **values))


def replayed(*records: MetadataRecord) -> MetadataImage:
    """An image after these records, each at its own offset, a millisecond after the one before."""
    image = MetadataImage()
    for offset, record in enumerate([TopicCreated("orders", T), *records]):
        image.apply(record, Position(offset, 4, TIME + offset))
    return image


def state(*records: MetadataRecord) -> PartitionMetadata:
    """orders-0 after these records."""
    (found,) = replayed(*records).partitions(4, 100)
    return found


def kinds(*records: MetadataRecord) -> list[str]:
    """The kind of each election after the first."""
    return [election.kind for election in state(*records).elections][1:]


# --- replaying ---


def test_a_partition_as_it_was_created():
    found = state(created(1, 2, leader=2, leaderEpoch=3, eligibleLeaderReplicas=[3]))
    assert (found.topic, found.partition, found.topic_id) == ("orders", 0, T)
    assert (found.replicas, found.isr, found.elr, found.leader, found.leader_epoch) == ((1, 2, 3), (1, 2), (3,), 2, 3)
    assert (found.source, found.known_at_ms, found.log_epoch, found.log_end_offset) == (LOG, TIME + 1, 4, 100)
    assert [election[:8] for election in found.elections] == [(3, 2, "created", (1, 2), (3,), 1, 4, TIME + 1)]


def test_a_change_replaces_what_it_names_and_nothing_else():
    found = state(created(eligibleLeaderReplicas=[9], lastKnownElr=[8]), change(isr=(1, 2)))
    assert (found.replicas, found.isr, found.elr, found.leader, found.leader_epoch) == ((1, 2, 3), (1, 2), (9,), 1, 0)
    assert found.known_at_ms == TIME + 2
    found = state(created(), change(isr=(), replicas=[4, 1], eligibleLeaderReplicas=[5]))
    assert (found.replicas, found.isr, found.elr) == ((4, 1), (), (5,))


@pytest.mark.parametrize("leader", [1, 2, -1, 0])
def test_naming_a_leader_begins_an_epoch_even_if_it_leads_already(leader):
    """PartitionRegistration.merge"""
    found = state(created(leaderEpoch=7), change(leader))
    assert (found.leader, found.leader_epoch) == (leader, 8)
    assert [election.leader_epoch for election in found.elections] == [7, 8]


def test_not_naming_one_begins_none():
    assert state(created(leaderEpoch=7), change(isr=(1,)), change(leaderRecoveryState=0)).leader_epoch == 7


def test_a_change_of_what_was_never_created_is_counted():
    image = replayed(created(), change(2, number=1), change(2, topic_id=OTHER))
    assert image.orphans == 2
    (found,) = image.partitions(0, 0)
    assert (found.leader, found.leader_epoch) == (1, 0)


def test_a_partition_without_its_topic_is_not_shown():
    assert not replayed(created(topic_id=OTHER)).partitions(0, 0)


def test_a_topic_that_was_removed_takes_its_partitions_along():
    image = replayed(created(), TopicCreated("kept", OTHER), created(topic_id=OTHER), TopicRemoved(T))
    assert [found.topic for found in image.partitions(0, 0)] == ["kept"]
    image.apply(change(2), Position(9, 4, TIME))
    assert image.orphans == 1


def test_a_topic_of_the_same_name_begins_anew():
    image = replayed(created(), change(2), TopicRemoved(T), TopicCreated("orders", OTHER), created(topic_id=OTHER, leader=3))
    (found,) = image.partitions(0, 0)
    assert (found.topic_id, found.leader, found.leader_epoch) == (OTHER, 3, 0)
    assert [election.kind for election in found.elections] == ["created"]


def test_removing_a_topic_that_is_not_known_does_nothing():
    assert len(replayed(created(), TopicRemoved(OTHER)).partitions(0, 0)) == 1


@given(st.lists(st.tuples(st.sampled_from([NO_LEADER_CHANGE, -1, 0, 1, 2]), st.sampled_from([None, (), (1,), (1, 2)])), max_size=30))
def test_every_epoch_has_one_election_in_the_order_of_the_log(changes):
    found = state(created(), *(change(leader, isr) for leader, isr in changes))
    assert [election.leader_epoch for election in found.elections] == list(range(found.leader_epoch + 1))
    assert found.leader_epoch == sum(leader != NO_LEADER_CHANGE for leader, _ in changes)
    offsets = [election.metadata_offset for election in found.elections]
    assert offsets == sorted(set(offsets))
    assert found.elections[-1].leader_id == found.leader
    assert {election.kind for election in found.elections} <= {*ElectionKind}


def test_elections_of_different_partitions_have_one_order():
    """A broker dies, and the controller moves its partitions one after the other: the log's offsets are the order of events."""
    image = MetadataImage()
    records = [
        TopicCreated("a", T),
        created(),
        TopicCreated("b", OTHER),
        created(topic_id=OTHER),
        change(2, (2, 3)),
        change(3, (2, 3), topic_id=OTHER),
        change(3, (3,), topic_id=OTHER),
        change(3, (3,)),
    ]
    for offset, record in enumerate(records):
        image.apply(record, Position(offset, 4, TIME))
    elections = [
        (election.metadata_offset, found.topic, election.leader_id) for found in image.partitions(0, 0) for election in found.elections
    ]
    assert sorted(elections) == [(1, "a", 1), (3, "b", 1), (4, "a", 2), (5, "b", 3), (6, "b", 3), (7, "a", 3)]


# --- elections ---


def test_a_leader_out_of_the_isr_is_elected_cleanly():
    assert kinds(created(), change(2, (2, 3))) == ["clean"]


def test_a_preferred_leader_comes_back():
    assert kinds(created(), change(2, (2, 3)), change(isr=(1, 2, 3)), change(1)) == ["clean", "clean"]


def test_the_leader_dies_and_comes_back_without_anyone_else():
    """ELR off: the last ISR member stays in the ISR."""
    assert kinds(created(1), change(-1), change(1)) == ["leaderless", "clean"]


def test_a_leader_from_outside_of_the_isr_is_elected_uncleanly():
    first = change(2, (2,), leaderRecoveryState=1)
    assert kinds(created(1), change(-1), first) == ["leaderless", "unclean"]
    assert kinds(created(1), first) == ["unclean"]


def test_an_unclean_election_before_3_2_is_known_by_the_isr_alone():
    """leaderRecoveryState came with metadata.version 3.2."""
    assert kinds(created(1), change(2, (2,))) == ["unclean"]


def test_the_second_of_two_unclean_elections_does_not_set_the_state_again():
    """It is RECOVERING already: the second record has no leaderRecoveryState."""
    found = kinds(created(1), change(-1), change(2, (2,), leaderRecoveryState=1), change(-1), change(3, (3,)))
    assert found == ["leaderless", "unclean", "leaderless", "unclean"]


def test_after_it_was_confirmed_an_election_is_clean_again():
    found = kinds(created(1), change(2, (2,), leaderRecoveryState=1), change(isr=(2, 3), leaderRecoveryState=0), change(3, (3,)))
    assert found == ["unclean", "clean"]


def test_an_unclean_leader_that_is_recovering_may_be_followed_cleanly():
    assert kinds(created(1), change(2, (2,), leaderRecoveryState=1), change(isr=(2, 3)), change(3, (3,))) == ["unclean", "clean"]


def test_an_eligible_leader_replica_is_elected_cleanly():
    """KIP-966: the ISR is empty, 2 was in it when it fell below min.insync.replicas. The change names ISR [2] and the ELR that is left."""
    records = (
        created(1, 2),
        change(isr=(1,), eligibleLeaderReplicas=[2]),
        change(-1, (), eligibleLeaderReplicas=[1, 2], lastKnownElr=[1]),
        change(2, (2,), eligibleLeaderReplicas=[1]),
    )
    assert kinds(*records) == ["leaderless", "clean"]
    assert [(election.isr, election.elr) for election in state(*records).elections[1:]] == [((), (1, 2)), ((2,), (1,))]


def test_an_eligible_leader_replica_is_elected_in_the_record_that_empties_the_isr():
    assert kinds(created(1, 2), change(isr=(1,), eligibleLeaderReplicas=[2]), change(2, (2,), eligibleLeaderReplicas=[1])) == ["clean"]


def test_a_leader_from_outside_of_isr_and_elr_is_elected_uncleanly():
    found = kinds(
        created(1, 2),
        change(-1, (), eligibleLeaderReplicas=[1, 2]),
        change(3, (3,), eligibleLeaderReplicas=[], lastKnownElr=[], leaderRecoveryState=1),
    )
    assert found == ["leaderless", "unclean"]


def test_an_eligible_leader_replica_is_none_while_somebody_is_in_the_isr():
    """The ISR is behind the ELR: with a member in it that cannot lead, 2 is elected uncleanly, and the record says so."""
    assert kinds(created(1, eligibleLeaderReplicas=[2]), change(2, (2,), eligibleLeaderReplicas=[], leaderRecoveryState=1)) == ["unclean"]


def test_a_last_known_leader_that_lost_data_is_elected_uncleanly():
    """unclean.recovery.strategy=Balanced: 1 was the last leader, but it did not shut down in order and left the ELR."""
    found = kinds(
        created(1),
        change(-1, (), eligibleLeaderReplicas=[1], lastKnownElr=[1]),
        change(eligibleLeaderReplicas=[]),
        change(1, (1,), leaderRecoveryState=1),
    )
    assert found == ["leaderless", "unclean"]


def test_a_last_known_leader_is_elected_uncleanly_though_the_state_is_set_already():
    found = kinds(
        created(1),
        change(2, (2,), leaderRecoveryState=1),
        change(-1, (), eligibleLeaderReplicas=[2], lastKnownElr=[2]),
        change(eligibleLeaderReplicas=[]),
        change(2, (2,), lastKnownElr=[]),
    )
    assert found == ["unclean", "leaderless", "unclean"]


def test_an_eligible_leader_replica_before_that_time_is_not_eligible_now():
    """ELR members are forgotten with an unclean election, and when the ISR is large enough again."""
    assert kinds(created(1, eligibleLeaderReplicas=[2]), change(isr=(1, 3), eligibleLeaderReplicas=[]), change(2, (2,))) == ["unclean"]


@pytest.mark.parametrize(
    ("before", "completed"),
    [
        pytest.param(
            [created(1, replicas=(1,)), change(replicas=[2, 1], removingReplicas=[1], addingReplicas=[2])],
            change(2, (2,), replicas=[2], removingReplicas=[], addingReplicas=[]),
            id="one replica moves",
        ),
        pytest.param(
            [
                created(1, 2, 3),
                change(replicas=[4, 5, 6, 1, 2, 3], removingReplicas=[1, 2, 3], addingReplicas=[4, 5, 6]),
                change(isr=(1, 2, 3, 5)),
                change(isr=(1, 2, 3, 5, 6)),
            ],
            change(4, (4, 5, 6), replicas=[4, 5, 6], removingReplicas=[], addingReplicas=[]),
            id="the new leader is the last to catch up",
        ),
        pytest.param(
            [
                created(1, 2, 3),
                change(replicas=[2, 3, 4, 1], removingReplicas=[1], addingReplicas=[4]),
                change(isr=(1, 3)),
                change(isr=(1, 3, 4)),
            ],
            change(2, (2, 3, 4), replicas=[2, 3, 4], removingReplicas=[], addingReplicas=[]),
            id="the new leader is an old replica that had fallen out of the ISR",
        ),
    ],
)
def test_a_reassignment_that_the_new_leader_completes_is_clean(before, completed):
    """The leader asks for an ISR with the last of the new replicas in it; the controller's one record ends the move and elects out of it.

    The new leader is in no ISR of the log before that record, has every committed record all the same, and nothing is recovering.
    """
    assert kinds(*before, completed) == ["clean"]


@pytest.mark.parametrize("state", [{}, {"leaderRecoveryState": 1}], ids=["recovered", "recovering"])
@pytest.mark.parametrize("old", [[1], [1, 2]])
def test_a_reassignment_that_is_cancelled_with_none_of_the_old_replicas_in_the_isr_is_unclean(old, state):
    """PartitionReassignmentRevert: "This is considered an unclean leader election". No leaderRecoveryState tells of it."""
    begun = (created(1, replicas=tuple(old)), change(replicas=[4, *old], addingReplicas=[4]))
    grown = (change(isr=(1, 4)), change(4, (4,), **state))
    cancelled = change(1, (1,), replicas=old, addingReplicas=[])
    assert kinds(*begun, *grown, cancelled)[-1] == "unclean"


def test_an_unclean_election_of_a_new_replica_during_a_reassignment_is_unclean():
    """It ends no reassignment; the second one in a row does not even set the state."""
    begun = (created(1, replicas=(1, 2)), change(replicas=[4, 5, 1, 2], removingReplicas=[1, 2], addingReplicas=[4, 5]), change(-1))
    first = (change(4, (4,), leaderRecoveryState=1), change(-1))
    assert kinds(*begun, *first, change(5, (5,))) == ["leaderless", "unclean", "leaderless", "unclean"]


def test_a_reassignment_with_a_leader_that_stays_begins_an_epoch():
    """Replicas are dropped: triggerLeaderEpochBumpForReplicaReassignmentIfNeeded"""
    assert kinds(created(1, 2, 3, 4), change(1, (1, 4), replicas=[1, 4])) == ["same-leader"]


def test_a_leader_that_loses_an_isr_member_begins_an_epoch_before_3_6():
    """KAFKA-15021"""
    assert kinds(created(), change(1, (1, 2)), change(1, (1,))) == ["same-leader", "same-leader"]


def test_nobody_leads_twice():
    assert kinds(created(1), change(-1), change(-1)) == ["leaderless", "leaderless"]


def test_broker_0_is_a_leader():
    assert kinds(created(0, 1, replicas=(0, 1), leader=0), change(1, (1,)), change(isr=(1, 0)), change(0)) == ["clean", "clean"]


def test_the_first_epoch_of_a_snapshot_tells_nothing_of_its_election():
    image = MetadataImage()
    for record in (TopicCreated("orders", T), created(2, leader=2, leaderEpoch=9, leaderRecoveryState=1)):
        image.apply(record, Position(99, 3, TIME), from_snapshot=True)
    image.apply(change(3, (3,)), Position(100, 4, TIME + 1))
    (found,) = image.partitions(4, 101)
    assert [(election.leader_epoch, election.kind) for election in found.elections] == [(9, "snapshot"), (10, "unclean")]


# --- eligible leader replicas, brokers, features, configurations ---


def test_eligible_leader_replicas_are_cleared_by_topic_or_all():
    records = (created(eligibleLeaderReplicas=[2]), TopicCreated("b", OTHER), created(topic_id=OTHER, eligibleLeaderReplicas=[3]))

    def left(cleared: str) -> dict[str, tuple[int, ...]]:
        return {found.topic: found.elr for found in replayed(*records, ElrCleared(cleared)).partitions(0, 0)}

    assert left("orders") == {"orders": (), "b": (3,)}
    assert left("") == {"orders": (), "b": ()}
    assert left("another") == {"orders": (2,), "b": (3,)}


def test_brokers():
    image = replayed(*(BrokerFenced(*pair) for pair in [(1, True), (2, True), (3, False), (2, False), (3, None), (4, None)]))
    assert {broker: one.fenced for broker, one in image.brokers.items()} == {1: True, 2: False}


def test_features_have_their_last_level():
    image = replayed(FeatureSet(METADATA_VERSION, 7), FeatureSet("other", 1), FeatureSet(METADATA_VERSION, 29))
    assert image.features[METADATA_VERSION] == 29


TOPIC_CONFIG, DEFAULT = (2, "orders", "cleanup.policy"), (4, "", "log.cleanup.policy")  # ConfigResource.Type: TOPIC 2, BROKER 4


@pytest.mark.parametrize(
    ("configs", "compacted"),
    [
        pytest.param([], False, id="nothing said"),
        pytest.param([(TOPIC_CONFIG, "compact")], True, id="topic"),
        pytest.param([(TOPIC_CONFIG, "compact,delete")], True, id="both"),
        pytest.param([(TOPIC_CONFIG, "delete")], False, id="delete"),
        pytest.param([(TOPIC_CONFIG, "compact"), (TOPIC_CONFIG, "delete")], False, id="changed"),
        pytest.param([(TOPIC_CONFIG, "compact"), (TOPIC_CONFIG, None)], False, id="taken back"),
        pytest.param([(DEFAULT, "compact")], True, id="default"),
        pytest.param([(DEFAULT, "compact"), (TOPIC_CONFIG, "delete")], False, id="topic before default"),
        pytest.param([(DEFAULT, "compact"), (TOPIC_CONFIG, "delete"), (TOPIC_CONFIG, None)], True, id="taken back to the default"),
        pytest.param([(DEFAULT, "compact"), (DEFAULT, None)], False, id="default taken back"),
        pytest.param([((2, "other", "cleanup.policy"), "compact")], False, id="another topic"),
        pytest.param([((4, "orders", "cleanup.policy"), "compact")], False, id="a broker"),
        pytest.param([((2, "orders", "compression.type"), "compact")], False, id="another key"),
    ],
)
def test_whether_a_topic_is_compacted(configs, compacted):
    assert state(created(), *(ConfigSet(key[0], key[1], key[2], value) for key, value in configs)).compacted is compacted


def test_the_delete_retention_of_a_topic():
    key = (2, "orders", "delete.retention.ms")
    assert state(created()).delete_retention_ms is None
    assert state(created(), ConfigSet(*key, "300")).delete_retention_ms == 300
    assert state(created(), ConfigSet(*key, "300"), ConfigSet(*key, None)).delete_retention_ms is None


def test_the_delete_retention_is_the_logs_or_else_the_files():
    file, log = claim("cluster-metadata", 1, 5), claim(METADATA_LOG, 1, 5)
    for of_file, of_log, expected in ((7, 8, 8), (7, None, 7), (None, 8, 8), (None, None, None)):
        found = latest([replace(file, delete_retention_ms=of_file), replace(log, delete_retention_ms=of_log)])
        assert found is not None and found.delete_retention_ms == expected


def test_the_settings_that_elections_and_reassignments_go_by():
    """Of both sources the log's unclean.leader.election.enable counts, min.insync.replicas of the file is of one moment."""
    key = (2, "orders", "unclean.leader.election.enable")
    assert state(created()).unclean_leader_election is None
    assert state(created(), ConfigSet(*key, "TRUE")).unclean_leader_election is True
    assert state(created(), ConfigSet(*key, "false")).unclean_leader_election is False
    assert state(created(), ConfigSet(*key, "maybe")).unclean_leader_election is None
    file, log = claim("cluster-metadata", 1, 5, min_insync_replicas=2), claim(METADATA_LOG, 1, 5)
    for of_file, of_log, expected in ((True, False, False), (True, None, True), (None, True, True), (None, None, None)):
        found = latest([replace(file, unclean_leader_election=of_file), replace(log, unclean_leader_election=of_log)])
        assert found is not None and (found.unclean_leader_election, found.min_insync_replicas) == (expected, 2)
    newer = latest([file, replace(log, leader_epoch=6)])
    assert newer is not None and newer.min_insync_replicas == 2


def test_a_topic_of_the_same_name_does_not_inherit_the_configuration():
    image = replayed(
        created(), ConfigSet(*TOPIC_CONFIG, "compact"), TopicRemoved(T), TopicCreated("orders", OTHER), created(topic_id=OTHER)
    )
    assert [found.compacted for found in image.partitions(0, 0)] == [False]


def test_the_configuration_may_stand_before_or_behind_the_topic():
    """In a log the topic comes first, in a snapshot configurations have their own place."""
    image = MetadataImage()
    for record in (ConfigSet(*TOPIC_CONFIG, "compact"), TopicCreated("orders", T), created()):
        image.apply(record, Position(1, 1, TIME), from_snapshot=True)
    assert [found.compacted for found in image.partitions(0, 0)] == [True]


# --- which source counts ---


def claim(source: str, leader: int, leader_epoch: int, **values: Any) -> PartitionMetadata:
    ordinary: dict[str, Any] = {
        "topic": "orders",
        "partition": 0,
        "topic_id": T,
        "compacted": False,
        "replicas": (1, 2, 3),
        "isr": (leader,),
        "known_at_ms": TIME,
    }
    return PartitionMetadata(source=source, leader=leader, leader_epoch=leader_epoch, **ordinary | values)


def test_nobody_claims_anything():
    assert latest([]) is None
    assert (nothing_known("t", 3).leader, nothing_known("t", 3).leader_epoch, nothing_known("t", 3).isr) == (-1, -1, ())


def test_one_claim_is_taken_as_it_is():
    for source in (LOG, FILE):
        only = claim(source, 2, 5)
        assert latest([only]) == only


@pytest.mark.parametrize(
    ("file", "log", "winner"),
    [
        pytest.param({"epoch": 5}, {"epoch": 5}, FILE, id="the same"),
        pytest.param({"epoch": 5}, {"epoch": 6}, LOG, id="a newer epoch in the log"),
        pytest.param({"epoch": 6, "at": TIME}, {"epoch": 5, "at": TIME + 9}, FILE, id="a newer epoch in the file, whatever the clocks say"),
        pytest.param({"epoch": 5, "at": TIME}, {"epoch": 5, "at": TIME + 1}, LOG, id="changed after the file was written"),
        pytest.param({"epoch": 5, "at": TIME}, {"epoch": 5, "at": TIME}, FILE, id="changed in that millisecond"),
        pytest.param({"epoch": 5, "at": TIME}, {"epoch": 5, "at": TIME - 1}, FILE, id="changed before"),
        pytest.param({"epoch": 5, "at": None}, {"epoch": 5, "at": TIME}, FILE, id="no time in the file"),
        pytest.param({"epoch": 5, "at": TIME}, {"epoch": 5, "at": None}, FILE, id="no time in the log"),
        pytest.param({"epoch": -1}, {"epoch": 0}, LOG, id="the file names no epoch"),
    ],
)
def test_the_file_counts_unless_the_log_is_newer(file, log, winner):
    in_file = claim(FILE, 3, file["epoch"], known_at_ms=file.get("at", TIME), isr=(2, 3))
    in_log = claim(LOG, 3, log["epoch"], known_at_ms=log.get("at", TIME), isr=(3,), elr=(1,), log_epoch=4, log_end_offset=9)
    expected = {FILE: in_file, LOG: in_log}[winner]
    for claims in itertools.permutations([in_file, in_log]):
        found = latest(list(claims))
        assert found == expected, "leader, epoch, ISR and ELR are of one source"


def test_what_only_one_of_them_knows_is_kept():
    elections = state(created(), change(2, (2,))).elections
    in_log = claim(LOG, 2, 5, elections=elections, compacted=True, log_epoch=4, log_end_offset=9)
    found = latest([claim(FILE, 2, 5, topic_id=None), in_log])
    assert found is not None
    assert (found.source, found.elections, found.compacted, found.topic_id) == (FILE, elections, True, T)
    found = latest([claim(FILE, 2, 4, compacted=True), replace(in_log, compacted=False)])
    assert found is not None
    assert (found.source, found.elections, found.compacted) == (LOG, elections, True)


@pytest.mark.parametrize("missing", ["isr", "replicas"])
def test_what_the_file_leaves_out_the_log_tells(missing):
    """README: what is left out is unknown, not false. Both are of the same epoch."""
    in_log = claim(LOG, 2, 5, isr=(2, 3), log_epoch=4, log_end_offset=9)
    found = latest([claim(FILE, 2, 5, **{missing: ()}), in_log])
    assert found is not None
    assert getattr(found, missing) == getattr(in_log, missing)


def test_a_topic_that_was_created_again_after_the_file_was_written_is_the_logs():
    """The file cannot know it, and every replica on disk belongs to the new one."""
    begun = state(created()).elections  # at TIME + 1
    in_file = claim(FILE, 2, 7, known_at_ms=TIME - 1000)
    in_log = claim(LOG, 1, 0, topic_id=OTHER, known_at_ms=TIME + 1, elections=begun, log_epoch=4, log_end_offset=9)
    found = latest([in_file, in_log])
    assert found is not None
    assert (found.topic_id, found.leader, found.leader_epoch) == (OTHER, 1, 0)


def test_a_topic_that_was_created_again_before_the_file_was_written_is_the_files():
    """The copies of the log are older than the file."""
    in_file = claim(FILE, 2, 0, topic_id=OTHER, known_at_ms=TIME + 1000)
    in_log = claim(LOG, 1, 7, elections=state(created()).elections, log_epoch=4, log_end_offset=9)
    found = latest([in_file, in_log])
    assert found is not None
    assert (found.topic_id, found.leader, found.leader_epoch, found.elections) == (OTHER, 2, 0, ())


def copies() -> list[PartitionMetadata]:
    reach = [(4, 100), (4, 99), (3, 500), (4, 100 - 1)]
    return [
        claim(LOG, broker, broker, log_epoch=epoch, log_end_offset=end, known_at_ms=TIME - broker)
        for broker, (epoch, end) in enumerate(reach, 1)
    ]


def test_of_several_copies_the_one_that_reaches_farthest_counts():
    """As raft compares logs: the epoch of the last batch, then the end offset. 500 records of an epoch that lost are worth nothing."""
    for order in itertools.permutations(copies()):
        found = latest(list(order))
        assert found is not None
        assert found.leader == 1


def test_the_longest_copy_is_held_against_the_file():
    found = latest([*copies(), claim(FILE, 1, 1, known_at_ms=TIME)])
    assert found is not None
    assert (found.source, found.leader) == (FILE, 1), "copies 2 to 4 name later epochs, but they are behind"


# --- what proves that records were committed ---


def test_changes_of_the_isr_within_an_epoch_are_kept():
    found = state(
        created(leaderEpoch=3), change(isr=(1, 2)), change(isr=(1, 2)), change(2, isr=(2,)), change(isr=(2, 3)), change(replicas=[4])
    )
    assert [tuple(one) for one in found.isr_changes] == [(3, (1, 2), 2, 4, TIME + 2), (4, (2, 3), 5, 4, TIME + 5)]
    assert found.ever_replicas == (1, 2, 3, 4)


def test_a_snapshot_tells_an_isr_that_holds_since_the_log_goes_on_at_the_latest():
    image = MetadataImage()
    for offset, record in enumerate([TopicCreated("orders", T), created(leaderEpoch=3), change(isr=(1, 2))]):
        image.apply(record, Position(offset, 4, TIME + offset))
    after = image.restarted(Position(99, 4, -1))
    for record in (TopicCreated("orders", T), created(1, leaderEpoch=3)):
        after.apply(record, Position(99, 4, -1), from_snapshot=True)
    after.apply(change(isr=(1, 3)), Position(100, 4, TIME + 500))
    (found,) = after.partitions(4, 101)
    expected = [(3, (1, 2), 2, 4, TIME + 2), (3, (1,), 99, 4, TIME + 500), (3, (1, 3), 100, 4, TIME + 500)]
    assert [tuple(one) for one in found.isr_changes] == expected
    (before,) = image.partitions(4, 3)
    assert len(before.isr_changes) == 1, "a snapshot that cannot be read to its end leaves nothing behind"


def test_every_registration_is_kept_in_order():
    records = (
        BrokerRegistered(1, True),
        BrokerFenced(1, False),
        BrokerFenced(1, True),
        BrokerFenced(1, False),
        BrokerStops(1),
        BrokerFenced(1, True),
        BrokerFenced(1, None),
    )
    events = replayed(*records).broker_events
    assert [event.state for event in events] == ["starting", "up", "fenced", "up", "stopping", "stopped", "unregistered"]
    assert [tuple(event)[2:] for event in events] == [(offset, 4, TIME + offset) for offset in range(1, 8)]


def test_min_isr_of_topics_brokers_and_the_cluster():
    def isr(kind: int, name: str, value: str | None) -> ConfigSet:
        return ConfigSet(kind, name, "min.insync.replicas", value)

    records = (isr(4, "", "1"), created(), isr(2, "orders", "2"), isr(2, "others", "3"), isr(4, "7", "2"), isr(2, "orders", None))
    image = replayed(
        *records, isr(4, "", "many"), isr(4, "a name", "5"), isr(8, "1", "5"), ConfigSet(2, "orders", "min.compaction.lag", "1")
    )
    (found,) = image.partitions(4, 100)
    assert [tuple(one) for one in found.min_isr] == [(2, 3, None), (None, 6, None)]
    assert [tuple(one) for one in image.min_isr.of_brokers] == [(1, 1, -1), (2, 5, 7), (None, 7, -1)]


def test_a_snapshot_ends_every_setting_and_sets_again_what_holds():
    image = replayed(created(), ConfigSet(2, "orders", "min.insync.replicas", "2"), ConfigSet(4, "", "min.insync.replicas", "3"))
    after = image.restarted(Position(99, 4, -1))
    for record in (TopicCreated("orders", T), created(), ConfigSet(4, "", "min.insync.replicas", "1")):
        after.apply(record, Position(99, 4, -1), from_snapshot=True)
    (found,) = after.partitions(4, 100)
    assert values_between(found.min_isr, after.min_isr.of_brokers, 1, 5, 50) == {2}
    assert values_between(found.min_isr, after.min_isr.of_brokers, 1, 99, None) == {1}
    assert values_between([], image.min_isr.of_brokers, 1, 99, None) == {3}


def test_the_history_is_the_logs_where_the_file_is_newer():
    log = state(created(leaderEpoch=3), change(isr=(1, 2)), ConfigSet(2, "orders", "min.insync.replicas", "2"))
    file = replace(log, source=FILE, isr_changes=(), min_isr=(), ever_replicas=(), elections=(), known_at_ms=TIME + 9999)
    both = latest([file, log])
    assert both is not None
    assert both.source == FILE
    assert (both.isr_changes, both.min_isr, both.ever_replicas) == (log.isr_changes, log.min_isr, (1, 2, 3))
