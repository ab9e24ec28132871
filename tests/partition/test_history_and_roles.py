"""Rows of `leader_epochs` and `replica_roles`: who led, what was given up, and what each replica's broker takes it for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from replica_audit.model import Election, IsrChange, PartitionMetadata
from replica_audit.partition.findings.roles import Reach, role_rows
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.replicas.replica_rows import leader_epoch_rows
from replica_audit.protocol.cluster.leadership import leadership
from replica_audit.protocol.cluster.metadata_image import METADATA_LOG
from replica_audit.protocol.cluster.versions import Generation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows import LEADER_EPOCHS, REPLICA_ROLES, Table
from replica_audit.rows.arrow import type_of
from replica_audit.rows.codes import Protocol
from replica_audit.rows.columns import utc
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.pairs import ReplicaVerdict
from tests.protocol.logs import replica
from tests.support.rows import sparse

Row = dict[str, Any]
TIME = 1_700_000_000_000
T, OTHER = "Qp6JWkXMQF-e2A5xW3-mBQ", "FwQ8J6cySmadJADoS7lKRg"
FILE = "cluster-metadata"
FENCED, UNKNOWN, NOT_LEADER = "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"
OF_THE_RUN = ("run_id", "cluster_id", "run_date")


def election(leader_epoch: int, leader: int, kind: str = "clean", **values: Any) -> Election:
    ordinary: Row = {
        "isr": (leader,),
        "elr": (),
        "metadata_offset": 10 + leader_epoch,
        "metadata_epoch": 4,
        "timestamp_ms": TIME + leader_epoch,
    }
    return Election(leader_epoch=leader_epoch, leader_id=leader, kind=kind, **ordinary | values)


def metadata(leader: int = 1, leader_epoch: int = 5, **values: Any) -> PartitionMetadata:
    ordinary: Row = {
        "topic": "orders",
        "partition": 3,
        "topic_id": T,
        "compacted": False,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "source": METADATA_LOG,
    }
    return PartitionMetadata(leader=leader, leader_epoch=leader_epoch, **ordinary | values)


def typed(rows: Sequence[Row], table: Table) -> Sequence[Row]:
    """The rows, once it is sure that they are those of the table: its columns, their types, nothing missing where null is refused."""
    for row in rows:
        assert [*row] == [column.name for column in table.columns if column.name not in OF_THE_RUN]
    for column in table.columns:
        if column.name not in OF_THE_RUN:
            values = pa.array([row[column.name] for row in rows], type=type_of(column.hint))
            assert column.nullable or not values.null_count, column.name
    return rows


# --- leader_epochs ---


def history(elections: Sequence[Election], leader: Replica | None, *replicas: Replica, **values: Any) -> list[Row]:
    rows = leader_epoch_rows(metadata(elections=tuple(elections), **values), leader, [*replicas, *([leader] if leader else [])])
    return list(typed([as_dict(row) for row in rows], LEADER_EPOCHS))


def test_no_elections_are_known_without_a_metadata_log():
    assert not history([], replica(1, [(0, 0, 9)]))


def test_an_epoch_as_the_log_tells_it():
    (row,) = history([election(7, 2, isr=(2, 3), elr=(1,))], replica(2, [(6, 20, 29), (7, 30, 39)]))
    assert row == {
        "topic": "orders",
        "partition": 3,
        "topic_id": T,
        "leader_epoch": 7,
        "leader_id": 2,
        "election": "clean",
        "isr": [2, 3],
        "elr": [1],
        "isr_at_end": [2, 3],
        "metadata_offset": 17,
        "metadata_epoch": 4,
        "began_at": datetime.fromtimestamp((TIME + 7) / 1000, UTC),
        "start_offset": 30,
        "given_up_offsets": None,
        "given_up_held_by": None,
    }


def test_the_isr_with_which_an_epoch_ended():
    changes = (IsrChange(7, (2, 3), 20, 4, TIME + 8), IsrChange(7, (2,), 21, 4, TIME + 9), IsrChange(9, (3,), 40, 4, TIME + 20))
    rows = history([election(7, 2, isr=(1, 2, 3)), election(8, 3, isr=(3,))], replica(2, [(7, 30, 39)]), isr_changes=changes)
    assert [(row["isr"], row["isr_at_end"]) for row in rows] == [([1, 2, 3], [2]), ([3], [3])]


def test_one_row_for_each_epoch_in_their_order():
    made = [election(0, 1, "created"), election(1, -1, "leaderless"), election(2, 2, "unclean"), election(3, 2, "same-leader")]
    rows = history(made, replica(2, [(0, 0, 9), (2, 10, 19)]))
    assert [(row["leader_epoch"], row["leader_id"], row["election"]) for row in rows] == [one[:3] for one in made]
    assert [row["start_offset"] for row in rows] == [0, None, 10, None], "nobody wrote in the second and fourth"


def test_where_an_epoch_starts_the_leaders_table_tells_first():
    """After a compaction the tables of a topic differ; the leader's is the one that followers are asked to match."""
    leader, follower = replica(2, [(4, 0, 19), (5, 20, 29)]), replica(1, [(4, 0, 24), (5, 25, 29)], epochs=[(3, 0), (4, 3), (5, 25)])
    rows = history([election(3, 1), election(4, 1), election(5, 2)], leader, follower)
    assert [row["start_offset"] for row in rows] == [0, 0, 20], "epoch 3 is in the follower's table alone"


def test_where_an_epoch_starts_without_a_leader():
    assert [row["start_offset"] for row in history([election(3, 1)], None, replica(2), replica(3, [(1, 0, 6), (3, 7, 9)]))] == [7]
    assert [row["start_offset"] for row in history([election(3, 1)], replica(3, [(3, 7, 9)]))] == [None], "the log start may have moved it"
    assert [row["start_offset"] for row in history([election(3, 1)], None)] == [None]


def test_an_unclean_election_gives_up_what_its_leader_did_not_have():
    """2 had 10 of the 30 records of epoch 0; 1 still holds the other 20, 3 five of them."""
    rows = history(
        [election(0, 1, "created"), election(2, 2, "unclean")],
        replica(2, [(0, 0, 9), (2, 10, 14)]),
        replica(1, [(0, 0, 29)]),
        replica(3, [(0, 0, 14)]),
    )
    assert [(row["given_up_offsets"], row["given_up_held_by"]) for row in rows] == [(None, None), (20, [1, 3])]


def test_every_offset_that_was_given_up_counts_once():
    rows = history(
        [election(3, 1), election(4, 2, "unclean")],
        replica(2, [(1, 0, 9), (4, 10, 12)]),
        replica(3, [(1, 0, 19)]),
        replica(1, [(1, 0, 14), (3, 15, 24)]),
    )
    assert [(row["given_up_offsets"], row["given_up_held_by"]) for row in rows] == [(None, None), (15, [1, 3])]


def test_an_unreadable_replica_holds_what_its_batches_are():
    """A broker that cannot load a checkpoint has the records still: they may be the last copy."""
    made = [election(0, 1, "created"), election(2, 2, "unclean")]
    leader, holder = replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(0, 0, 29)], epochs=[], unreadable="its table cannot be loaded")
    rows = history(made, leader, holder)
    assert [(row["given_up_offsets"], row["given_up_held_by"]) for row in rows] == [(None, None), (20, [1])]
    assert [row["start_offset"] for row in rows] == [0, 10]
    alone = history(made, None, holder)
    assert [(row["start_offset"], row["given_up_offsets"]) for row in alone] == [(None, None), (None, None)], "its table tells nothing"


def test_what_a_replica_holds_that_was_read_in_part_is_not_known():
    holder = replica(1, [(0, 0, 9), (0, 20, 29)], unreadable="a segment cannot be read", is_partly_read=True)
    (row,) = history([election(2, 2, "unclean")], replica(2, [(0, 0, 9), (2, 10, 14)]), holder)
    assert (row["start_offset"], row["given_up_offsets"], row["given_up_held_by"]) == (10, None, None)


def test_an_elected_replica_that_is_unreadable_did_not_lack_what_is_not_seen_of_it():
    damaged = replica(2, [(0, 5, 9), (2, 10, 14)], start=0, epochs=[(0, 0), (2, 10)], unreadable="a segment cannot be read")
    others = replica(1, [(0, 0, 11)]), replica(3, [(0, 0, 9), (2, 10, 14)])
    rows = history([election(2, 2, "unclean")], None, damaged, *others)
    assert [(row["given_up_offsets"], row["given_up_held_by"]) for row in rows] == [(2, [1])], "10 and 11 alone"


def test_what_nobody_holds_any_more_counts_nothing():
    """The followers were cut: there is no telling how much it was."""
    (row,) = history([election(2, 2, "unclean")], replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(0, 0, 9), (2, 10, 12)]))
    assert (row["given_up_offsets"], row["given_up_held_by"]) == (0, [])


def test_what_came_later_was_not_given_up_by_it():
    """1 led again in epoch 4, uncleanly, with what it had: its records of epoch 0 were given up in epoch 2, those of 2 in epoch 4."""
    made = [election(0, 1, "created"), election(2, 2, "unclean"), election(4, 1, "unclean")]
    rows = history(made, replica(1, [(0, 0, 20), (4, 21, 30)]), replica(2, [(0, 0, 10), (2, 11, 15)]))
    assert [(row["start_offset"], row["given_up_offsets"], row["given_up_held_by"]) for row in rows] == [
        (0, None, None),
        (11, 10, [1]),
        (21, 5, [2]),
    ]


def test_batches_without_an_epoch_prove_nothing():
    (row,) = history([election(2, 2, "unclean")], replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(-1, 0, 29)]))
    assert (row["given_up_offsets"], row["given_up_held_by"]) == (0, [])


@pytest.mark.parametrize("kind", ["created", "snapshot", "clean", "same-leader", "leaderless"])
def test_other_elections_give_up_nothing(kind):
    (row,) = history([election(2, 2, kind)], replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(0, 0, 29)]))
    assert (row["given_up_offsets"], row["given_up_held_by"]) == (None, None)


def test_an_unclean_election_whose_start_no_table_has():
    (row,) = history([election(2, 2, "unclean")], None, replica(1, [(0, 0, 29)]))
    assert (row["start_offset"], row["given_up_offsets"], row["given_up_held_by"]) == (None, None, None)


def test_replicas_of_an_earlier_topic_of_the_name_are_left_out():
    made = [election(2, 2, "unclean")]
    rows = history(made, replica(2, [(0, 0, 9), (2, 10, 14)], topic_id=T), replica(1, [(0, 0, 29)], topic_id=OTHER))
    assert [(row["given_up_offsets"], row["given_up_held_by"]) for row in rows] == [(0, [])]
    assert history(made, None, replica(1, [(2, 5, 29)], topic_id=OTHER))[0]["start_offset"] is None
    unknown = history(made, replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(0, 0, 29)], topic_id=OTHER), topic_id=None)
    assert unknown[0]["given_up_held_by"] == [1], "without an id in the metadata nothing is left out"


def test_a_leader_of_an_earlier_topic_of_the_name_tells_nothing():
    """Its broker missed that the topic was deleted and created again; epoch 2 of that topic has nothing to do with epoch 2 of this one."""
    rows = history([election(2, 2)], replica(2, [(0, 0, 9), (2, 10, 14)], topic_id=OTHER), replica(1, [(1, 0, 3), (2, 4, 9)], topic_id=T))
    assert [row["start_offset"] for row in rows] == [4]


def test_where_an_epoch_starts_batches_below_the_first_table_tell():
    """The leader's log start moved its entry; the follower still holds where the epoch began."""
    leader, follower = replica(2, [(2, 15, 29)]), replica(1, [(0, 0, 9), (2, 10, 24)])
    assert leader.log.epochs == ((2, 15),)
    (row,) = history([election(2, 2)], leader, follower)
    assert row["start_offset"] == 10
    (row,) = history([election(2, 2, "unclean")], leader, follower, replica(3, [(0, 0, 12)]))
    assert (row["start_offset"], row["given_up_offsets"], row["given_up_held_by"]) == (10, 3, [3])


def test_what_retention_took_from_a_holder_was_not_given_up():
    """Of 10..29 broker 1 still serves 20..29; its batch begins below its log start."""
    (row,) = history([election(2, 2, "unclean")], replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(0, 0, 29)], start=20))
    assert (row["start_offset"], row["given_up_offsets"], row["given_up_held_by"]) == (10, 10, [1])
    (row,) = history([election(2, 2, "unclean")], replica(2, [(0, 0, 9), (2, 10, 14)]), replica(1, [(0, 0, 29)], start=30))
    assert (row["given_up_offsets"], row["given_up_held_by"]) == (0, [])


@pytest.mark.parametrize("unknown", [None, -1, -(2**63), 2**63 - 1])
def test_times_that_are_none(unknown):
    assert utc(unknown) is None


def test_times():
    assert utc(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert utc(TIME + 7) == datetime(2023, 11, 14, 22, 13, 20, 7_000, tzinfo=UTC)
    (row,) = history([election(2, 2, timestamp_ms=-1)], replica(2))
    assert row["began_at"] is None


# --- replica_roles ---


def facts(states: Mapping[int, str] | None = None, fenced: Mapping[int, bool] | None = None, *, simultaneous: bool = False) -> ClusterFacts:
    return ClusterFacts(
        generation=Generation(Protocol.TRUNCATE_ON_FETCH, ""), broker_states=states or {}, fenced=fenced or {}, simultaneous=simultaneous
    )


def roles(
    known: PartitionMetadata | None = None,
    copies: Mapping[int, tuple[int, int] | PartitionMetadata] | None = None,
    cluster: ClusterFacts | None = None,
    *,
    replicas: Sequence[Replica] = (),
    verdicts: Sequence[ReplicaVerdict] = (),
) -> dict[int, Row]:
    """Rows by broker. `copies`: leader and leader epoch by each broker's own copy of the metadata log."""
    said = metadata() if known is None else known
    held = {broker: metadata(*copy) if isinstance(copy, tuple) else copy for broker, copy in (copies or {}).items()}
    reaches = {one.broker_id: Reach(one.known_end, one.high_watermark) for one in replicas}
    rows = role_rows(said, leadership(said, replicas), reaches, held, cluster or facts(), verdicts)
    return {row["broker_id"]: row for row in typed([as_dict(row) for row in rows], REPLICA_ROLES)}


def standings(*arguments: Any, **named: Any) -> dict[int, str]:
    return {broker: row["standing"] for broker, row in roles(*arguments, **named).items()}


def errors(*arguments: Any, **named: Any) -> dict[int, str | None]:
    return {broker: row["fetch_error"] for broker, row in roles(*arguments, **named).items()}


def test_a_row_as_it_is_written():
    rows = roles(
        metadata(isr=(1,), elr=(2,)),
        {1: (1, 5), 2: (1, 5)},
        facts(fenced={1: False, 2: True}),
        replicas=[replica(1, [(5, 0, 9)]), replica(2, [(5, 0, 6)], high_watermark=4)],
    )
    assert rows[2] == {
        "topic": "orders",
        "partition": 3,
        "broker_id": 2,
        "leader_id": 1,
        "leader_epoch": 5,
        "known_leader_id": 1,
        "known_leader_epoch": 5,
        "standing": "follower",
        "fetch_error": None,
        "in_isr": False,
        "in_elr": True,
        "fenced": True,
        "log_end_offset": 7,
        "high_watermark": 4,
        "isr_objection": None,
        "position": 1,
        "min_insync_replicas": None,
        "unclean_leader_election": None,
    }
    assert (rows[1]["standing"], rows[1]["in_isr"], rows[1]["in_elr"], rows[1]["fenced"], rows[1]["log_end_offset"]) == (
        "leader",
        True,
        False,
        False,
        10,
    )
    assert (rows[3]["fenced"], rows[3]["log_end_offset"], rows[3]["high_watermark"]) == (None, None, None)


def test_every_replica_has_a_row_that_is_named_or_there():
    """4 is left over from before a reassignment, 3 was not copied."""
    assert sorted(roles(replicas=[replica(1), replica(4)])) == [1, 2, 3, 4]
    assert not roles(metadata(replicas=(), isr=()))


def test_who_knows_the_latest_epoch_stands_where_it_believes():
    assert standings(copies={1: (1, 5), 2: (1, 5), 3: (1, 5)}) == {1: "leader", 2: "follower", 3: "follower"}


def test_without_a_copy_of_its_own_nothing_is_known_of_a_brokers_belief():
    rows = roles()
    assert {row["standing"] for row in rows.values()} == {"unknown"}
    assert {row["known_leader_epoch"] for row in rows.values()} == {None}
    assert {row["fetch_error"] for row in rows.values()} == {None}


OLD = {1: (1, 5), 2: (2, 4), 3: (2, 4)}  # 2 led in epoch 4, and 3 followed it


def test_an_old_copy_alone_makes_no_zombie():
    assert standings(copies=OLD) == {1: "leader", 2: "behind", 3: "behind"}
    assert standings(None, OLD, facts({1: "up", 2: "up", 3: "up"})) == {1: "leader", 2: "behind", 3: "behind"}


def test_copies_of_one_instant_do():
    assert standings(None, OLD, facts({2: "up"}, simultaneous=True)) == {1: "leader", 2: "zombie-leader", 3: "zombie-follower"}


def test_a_broker_that_is_paused_is_one():
    """It was frozen while the cluster went on: once it wakes, it acts in the old epoch."""
    found = standings(None, OLD, facts({1: "up", 2: "paused", 3: "paused"}))
    assert found == {1: "leader", 2: "zombie-leader", 3: "zombie-follower"}


def test_a_broker_that_is_down_takes_itself_for_nothing():
    for simultaneous in (False, True):
        found = standings(None, OLD, facts({1: "down", 2: "down", 3: "up"}, simultaneous=simultaneous))
        assert found == {1: "down", 2: "down", 3: "zombie-follower" if simultaneous else "behind"}


def test_a_leader_that_has_not_heard_of_its_epoch_lets_others_be_ahead():
    """The followers' copies of the log reach farther: their fetches are refused until the leader learns that it leads."""
    copies = {1: (2, 4), 2: (1, 5), 3: (2, 4)}
    assert standings(copies=copies) == {1: "behind", 2: "ahead", 3: "behind"}
    assert errors(copies=copies) == {1: None, 2: UNKNOWN, 3: NOT_LEADER}


def test_how_a_fetch_is_answered():
    assert errors(copies=OLD) == {1: None, 2: FENCED, 3: FENCED}
    assert errors(copies={1: (1, 5), 2: (1, 5), 3: (1, 4)}) == {1: None, 2: None, 3: FENCED}
    assert errors(copies={2: (1, 5), 3: (2, 4)}) == {1: None, 2: None, 3: FENCED}, "without the leader's copy: by what is known last"


def test_nobody_fetches_where_nobody_leads():
    known = metadata(-1, 6, isr=(), elr=(1,))
    assert errors(known, {1: (-1, 6), 2: (1, 5), 3: (-1, 6)}, replicas=[replica(1, [(5, 0, 9)])]) == {1: None, 2: None, 3: None}
    assert standings(known, {1: (-1, 6), 2: (1, 5), 3: (-1, 6)}) == {1: "follower", 2: "behind", 3: "follower"}


def test_broker_0_is_a_leader():
    known = metadata(0, 5, replicas=(0, 1), isr=(0, 1))
    assert standings(known, {0: (0, 5), 1: (0, 4)}) == {0: "leader", 1: "behind"}
    assert errors(known, {0: (0, 5), 1: (0, 4)}) == {0: None, 1: FENCED}


def test_a_copy_that_tells_of_an_earlier_topic_of_the_name_is_no_belief():
    """Epochs of two topics have no order, and Kafka looks at the topic id first: UNKNOWN_TOPIC_ID."""
    old = metadata(2, 9, topic_id=OTHER)
    rows = roles(metadata(1, 0), {1: metadata(1, 0), 2: old, 3: metadata(1, 0)})
    assert rows[2]["standing"] == "unknown"
    assert rows[2]["fetch_error"] not in (FENCED, UNKNOWN)
    rows = roles(metadata(1, 0), {1: metadata(1, 9, topic_id=OTHER), 2: metadata(1, 0)})
    assert (rows[2]["standing"], rows[2]["fetch_error"]) == ("follower", None), "nor does the leader's tell in which epoch it answers"


# --- objections to the ISR ---


def objections(*arguments: Any, **named: Any) -> dict[int, str | None]:
    return {broker: row["isr_objection"] for broker, row in roles(*arguments, **named).items()}


def verdict(follower: int, name: str) -> ReplicaVerdict:
    return sparse(ReplicaVerdict, follower_id=follower, verdict=name, reason="at 3..4 leader epoch 5, follower epoch 2")


def test_an_isr_in_order():
    clean = [verdict(2, "identical"), verdict(3, "lagging")]
    assert objections(None, {}, facts(fenced={1: False, 2: False}), verdicts=clean) == {1: None, 2: None, 3: None}


def test_a_member_that_is_fenced_should_not_be_one():
    assert objections(metadata(isr=(1, 2)), {}, facts(fenced={2: True, 3: True})) == {1: None, 2: "its broker is fenced", 3: None}


def test_the_last_member_stays_in_the_isr_though_it_is_fenced():
    """Without KIP-966 the controller leaves it there: it is the only one who may lead again."""
    assert objections(metadata(-1, 6, isr=(2,)), {}, facts(fenced={1: True, 2: True, 3: True})) == {1: None, 2: None, 3: None}


def test_the_fencing_in_an_old_copy_is_no_objection_to_the_isr_of_a_newer_file():
    """Only the copy of a dead broker was given. The controller takes a fenced broker out of every ISR in the same batch of records: both in
    one are of two times, and by the file that tells the ISR the broker is up."""
    known = metadata(isr=(1, 2), source=FILE)
    assert objections(known, {}, facts({1: "up", 2: "up"}, {2: True})) == {1: None, 2: None, 3: None}


def test_a_member_whose_log_is_not_the_leaders_should_not_be_one():
    found = objections(metadata(isr=(1, 2)), {}, verdicts=[verdict(2, "log_matching_violation"), verdict(3, "log_matching_violation")])
    assert found == {1: None, 2: "its log is not the leader's: at 3..4 leader epoch 5, follower epoch 2", 3: None}


@pytest.mark.parametrize("name", ["stale_tail", "committed_loss", "inconclusive", "unreadable", "epoch_table_only"])
def test_other_verdicts_are_no_objection(name):
    """A member that will be cut notices it by itself, or the copies are not of one time."""
    assert objections(verdicts=[verdict(2, name)])[2] is None


@pytest.mark.parametrize(
    ("states", "isr", "objected"),
    [
        pytest.param({1: "up", 2: "down"}, (1, 2), "its broker does not run", id="the leader goes on without it"),
        pytest.param({1: "down", 2: "down"}, (1, 2), None, id="nobody was there to take it out"),
        pytest.param({1: "up", 2: "paused"}, (1, 2), None, id="frozen"),
        pytest.param({1: "up", 2: "down"}, (2,), None, id="the last one"),
        pytest.param({1: "up", 2: "down"}, (1,), None, id="not in it"),
    ],
)
def test_a_member_that_does_not_run_should_not_be_one(states, isr, objected):
    assert objections(metadata(isr=isr), {}, facts(states))[2] == objected
