"""Copies of `__cluster_metadata-0` replayed: whole ones, ones that begin with a snapshot, and what is left of damaged ones.

Logs and snapshots come from `metadata_files`, but for one snapshot that RecordsSnapshotWriter of Kafka 4.2.0 wrote, and real segments.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replica_audit.formats.metadata import metadata_log
from replica_audit.formats.metadata.metadata_log import MetadataLog
from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.metadata_image import BrokerRegistered, MetadataImage, Position
from tests.formats import kafka_files as kf
from tests.formats import metadata_files as mf
from tests.formats.rights import as_nobody, open_to_all

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
REAL = SAMPLE / "multi-round" / "broker-1" / "data-0" / "__cluster_metadata-0" / f"{0:020d}.log"
T, OTHER = mf.TOPIC_ID, mf.OTHER_ID
ORDERS = [mf.topic("orders"), mf.partition()]  # orders-0: replicas and ISR 1, 2, 3, leader 1 in epoch 0

# Written by RecordsSnapshotWriter 4.2.0 as 00000000000000000100-0000000004.checkpoint with kraft.version 1: metadata.version 29, and
# orders-0 with replicas 1, 2, ISR 2, ELR 1, led by 2 in epoch 7.
KAFKAS_SNAPSHOT = bytes.fromhex(
    "0000000000000000000000570000000402f7e282c1002000000001000001a1fecd8ede000001a1fecd8edeffffffffffffffffffffffffffff00000002"
    "2a00000008000000031600000000018bcfe5680000001e00000208000000050a0000000100000000000000000002000000d600000004028487b0ff0000"
    "00000002000001a1fecd8f75000001a1fecd8f75ffffffffffffffffffffffffffff000000033a000000012e010c00116d657461646174612e76657273"
    "696f6e001d0000420000020136010200076f7264657273429e895a45cc405f9ed80e715b7fa6050000c60100000401b80101030200000000429e895a45"
    "cc405f9ed80e715b7fa6050300000001000000020200000002010100000002000000070000000b0317043c27a7324a669d2400e84bb94a4617043c27a7"
    "324a669d2400e84bb94a4601010502000000010000000000000000050000003f000000040237f102a3002000000000000001a1fecd8fba000001a1fecd"
    "8fbaffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


def leads(leader: int, *isr: int, **values: Any) -> bytes:
    """orders-0 gets a new leader and ISR."""
    return mf.change(leader=leader, isr=list(isr), **values)


def only(copy: MetadataLog) -> PartitionMetadata:
    (partition,) = copy.partitions
    return partition


def told(copy: MetadataLog) -> list[tuple[int, int, str]]:
    """The elections of the one partition: epoch, leader, kind."""
    return [(election.leader_epoch, election.leader_id, election.kind) for election in only(copy).elections]


def codes(copy: MetadataLog) -> list[str]:
    for problem in copy.problems:
        assert problem.kind == "metadata-log"
        assert problem.remedy
        assert problem.detail
    return [problem.code for problem in copy.problems]


# --- whole logs ---


def test_a_log_from_its_beginning(tmp_path):
    end = mf.log(
        tmp_path,
        [mf.record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=29)],
        [*ORDERS, mf.partition(1, replicas=[2, 3], leader=2)],
        [leads(2, 2, 3)],
        epoch=4,
    )
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert (copy.log_epoch, copy.log_end_offset, copy.last_timestamp_ms) == (4, end, mf.TIME + 2) == (4, 5, mf.TIME + 2)
    assert copy.metadata_version == 29
    first, second = sorted(copy.partitions, key=lambda partition: partition.partition)
    assert (first.topic, first.topic_id, first.source) == ("orders", T, "metadata-log")
    assert (first.leader, first.leader_epoch, first.replicas, first.isr, first.elr) == (2, 1, (1, 2, 3), (2, 3), ())
    assert (second.leader, second.leader_epoch, second.replicas, second.isr) == (2, 0, (2, 3), (2, 3))
    assert (first.known_at_ms, second.known_at_ms) == (mf.TIME + 2, mf.TIME + 1), "when each changed last"
    assert {(one.log_epoch, one.log_end_offset) for one in (first, second)} == {(4, 5)}
    assert [election[:8] for election in first.elections] == [
        (0, 1, "created", (1, 2, 3), (), 2, 4, mf.TIME + 1),
        (1, 2, "clean", (2, 3), (), 4, 4, mf.TIME + 2),
    ]


def test_segments_follow_one_another(tmp_path):
    middle = mf.log(tmp_path, ORDERS, [leads(2, 2, 3)])
    end = mf.log(tmp_path, [leads(3, 3)], base=middle, epoch=2)
    mf.log(tmp_path, base=end)  # a new segment, still empty
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(0, 1, "created"), (1, 2, "clean"), (2, 3, "clean")]
    assert (copy.log_epoch, copy.log_end_offset) == (2, end)


def test_a_compressed_batch(tmp_path):
    mf.log(tmp_path, mf.batch(0, 1, *ORDERS, leads(2, 2), codec=kf.GZIP))
    assert told(metadata_log.read(tmp_path)) == [(0, 1, "created"), (1, 2, "clean")]


def test_control_batches_move_the_log_but_change_nothing(tmp_path):
    """Of a dynamic quorum: voters and kraft.version stand in the log, and every new controller begins with a leader change."""
    beginning = mf.control(0, 1, mf.LEADER_CHANGE) + mf.control(1, 1, mf.KRAFT_VERSION, mf.KRAFT_VOTERS)
    mf.log(tmp_path, beginning, mf.batch(3, 1, *ORDERS), mf.control(5, 7, mf.LEADER_CHANGE, timestamp=mf.TIME + 9))
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(0, 1, "created")]
    assert only(copy).elections[0].metadata_offset == 4
    assert (copy.log_epoch, copy.log_end_offset, copy.last_timestamp_ms) == (7, 6, mf.TIME + 9)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([mf.record("NO_OP_RECORD"), mf.record("PRODUCER_IDS_RECORD", brokerId=1)], id="of no use"),
        pytest.param([mf.framed(30, 0, b"\xff\xff")], id="of a later Kafka"),
        pytest.param([None], id="without a value"),
    ],
)
def test_records_of_other_kinds_are_passed_over(tmp_path, values):
    mf.log(tmp_path, ORDERS, values, [leads(2, 2)])
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(0, 1, "created"), (1, 2, "clean")]


def test_brokers_and_their_fencing(tmp_path):
    def registered(broker: int, fenced: bool) -> bytes:
        return mf.record("REGISTER_BROKER_RECORD", brokerId=broker, fenced=fenced)

    def changed(broker: int, **values: int) -> bytes:
        return mf.record("BROKER_REGISTRATION_CHANGE_RECORD", brokerId=broker, **values)

    mf.log(
        tmp_path,
        [registered(1, True), registered(2, True), registered(3, False), registered(4, True), registered(5, True), registered(6, True)],
        [changed(1, fenced=-1), changed(2, fenced=-1), changed(2, inControlledShutdown=1), changed(3, fenced=1)],
        [
            mf.record("UNREGISTER_BROKER_RECORD", brokerId=4),
            mf.record("UNFENCE_BROKER_RECORD", id=5),
            mf.record("FENCE_BROKER_RECORD", id=1),
        ],
    )
    found = [(one.broker_id, one.state, one.fenced) for one in metadata_log.read(tmp_path).brokers]
    assert found == [(1, "fenced", True), (2, "stopping", False), (3, "fenced", True), (5, "up", False), (6, "starting", True)]


def test_a_controlled_shutdown_is_told_from_a_broker_that_is_gone(tmp_path):
    def changed(broker: int, **values: int) -> bytes:
        return mf.record("BROKER_REGISTRATION_CHANGE_RECORD", brokerId=broker, **values)

    started = [mf.record("REGISTER_BROKER_RECORD", brokerId=broker, fenced=True) for broker in (1, 2, 3)]
    unfenced = [changed(broker, fenced=-1) for broker in (1, 2, 3)]
    ended = [changed(1, inControlledShutdown=1), changed(1, fenced=1), changed(1, fenced=1), changed(2, fenced=1)]
    again = [changed(3, inControlledShutdown=1), changed(3, fenced=1), mf.record("REGISTER_BROKER_RECORD", brokerId=3, fenced=True)]
    mf.log(tmp_path, started, unfenced, ended, again)
    assert [one.state for one in metadata_log.read(tmp_path).brokers] == ["stopped", "fenced", "starting"]


def test_a_snapshot_tells_of_a_controlled_shutdown_but_not_of_a_start():
    image = MetadataImage()
    at = Position(offset=0, epoch=0, timestamp_ms=0)
    image.apply(BrokerRegistered(1, True), at, from_snapshot=True)
    image.apply(BrokerRegistered(2, False), at, from_snapshot=True)
    image.apply(BrokerRegistered(3, True, True), at, from_snapshot=True)
    image.apply(BrokerRegistered(4, False, True), at, from_snapshot=True)
    assert {broker: one.state for broker, one in image.brokers.items()} == {1: "fenced", 2: "up", 3: "stopped", 4: "stopping"}


def test_a_topic_that_was_removed_is_gone(tmp_path):
    mf.log(tmp_path, ORDERS, [mf.topic("kept", OTHER), mf.partition(topic_id=OTHER)], [mf.record("REMOVE_TOPIC_RECORD", topicId=T)])
    assert [one.topic for one in metadata_log.read(tmp_path).partitions] == ["kept"]


def test_a_topic_that_was_created_again_is_another(tmp_path):
    again = [mf.topic("orders", OTHER), mf.partition(topic_id=OTHER, leader=3)]
    mf.log(tmp_path, ORDERS, [leads(2, 2), leads(3, 3)], [mf.record("REMOVE_TOPIC_RECORD", topicId=T)], again)
    copy = metadata_log.read(tmp_path)
    assert told(copy) == [(0, 3, "created")]
    assert (only(copy).topic_id, only(copy).leader_epoch) == (OTHER, 0)


def test_a_reassignment(tmp_path):
    """1, 2, 3 become 4, 5, 6: as AlterPartitionReassignments and the leader's AlterPartition requests make the records."""
    mf.log(
        tmp_path,
        ORDERS,
        [mf.change(replicas=[4, 5, 6, 1, 2, 3], removingReplicas=[1, 2, 3], addingReplicas=[4, 5, 6])],
        [mf.change(isr=[1, 2, 3, 4]), mf.change(isr=[1, 2, 3, 4, 5])],
        [mf.change(isr=[4, 5, 6], leader=4, replicas=[4, 5, 6], removingReplicas=[], addingReplicas=[])],
    )
    copy = metadata_log.read(tmp_path)
    partition = only(copy)
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((4, 5, 6), (4, 5, 6), 4, 1)
    assert told(copy) == [(0, 1, "created"), (1, 4, "clean")]


def test_partitions_that_were_added_later(tmp_path):
    mf.log(tmp_path, ORDERS, [leads(2, 2)], [mf.partition(1, leader=3)])
    found = {one.partition: (one.leader, one.leader_epoch) for one in metadata_log.read(tmp_path).partitions}
    assert found == {0: (2, 1), 1: (3, 0)}


# --- metadata transactions (KIP-868) ---

BEGIN, END = mf.record("BEGIN_TRANSACTION_RECORD", name="x"), mf.record("END_TRANSACTION_RECORD")
ABORT = mf.record("ABORT_TRANSACTION_RECORD", reason="new controller")


def test_a_transaction_that_was_committed_counts(tmp_path):
    mf.log(tmp_path, ORDERS, [BEGIN, leads(2, 2)], [mf.topic("b", OTHER), mf.partition(topic_id=OTHER), END], [leads(3, 3)])
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    orders, b = sorted(copy.partitions, key=lambda one: one.topic, reverse=True)
    assert [(one.leader_epoch, one.leader_id, one.metadata_offset) for one in orders.elections] == [(0, 1, 1), (1, 2, 3), (2, 3, 7)]
    assert b.elections[0].metadata_offset == 5, "the record's own offset, not that of the end"


@pytest.mark.parametrize("ending", [[ABORT], []], ids=["aborted", "still open"])
def test_a_transaction_that_was_not_committed_does_not(tmp_path, ending):
    mf.log(tmp_path, ORDERS, [BEGIN, leads(2, 2), mf.topic("b", OTHER), mf.partition(topic_id=OTHER)], [leads(3, 3), *ending])
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(0, 1, "created")]
    assert only(copy).isr == (1, 2, 3)
    assert copy.log_end_offset == 7 + len(ending)


def test_after_an_aborted_transaction_the_log_goes_on(tmp_path):
    mf.log(tmp_path, ORDERS, [BEGIN, leads(2, 2), ABORT], [leads(3, 3)], [BEGIN, leads(1, 1)], [END])
    assert told(metadata_log.read(tmp_path)) == [(0, 1, "created"), (1, 3, "clean"), (2, 1, "unclean")]


# --- snapshots ---

STATE = [mf.topic("orders"), mf.partition(isr=[2, 3], leader=2, leaderEpoch=5, partitionEpoch=9)]
NEWER = [mf.topic("orders"), mf.partition(isr=[3], leader=3, leaderEpoch=6, partitionEpoch=12)]


def test_a_snapshot_that_kafka_wrote(tmp_path):
    (tmp_path / f"{100:020d}-{4:010d}.checkpoint").write_bytes(KAFKAS_SNAPSHOT)
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    partition = only(copy)
    assert (partition.topic, partition.partition, partition.topic_id) == ("orders", 0, T)
    assert (partition.leader, partition.leader_epoch, partition.replicas, partition.isr, partition.elr) == (2, 7, (1, 2), (2,), (1,))
    assert (copy.log_epoch, copy.log_end_offset, copy.metadata_version) == (4, 100, 29)
    assert told(copy) == [(7, 2, "snapshot")]


def test_the_snapshots_of_these_tests_are_like_kafkas(tmp_path):
    theirs = kf.decoded(KAFKAS_SNAPSHOT)
    ours = kf.decoded(mf.snapshot(tmp_path, 100, 4, STATE).read_bytes())
    assert [(one.base_offset, one.is_control_batch, one.leader_epoch) for one in theirs] == [(0, True, 4), (2, False, 4), (5, True, 4)]
    assert [(one.base_offset, one.is_control_batch, one.leader_epoch) for one in ours] == [(0, True, 4), (2, False, 4), (4, True, 4)]
    kinds = [[[record.key for record in one] for one in batches if one.is_control_batch] for batches in (theirs, ours)]
    assert kinds[0] == kinds[1]


def test_a_snapshot_and_the_log_behind_it(tmp_path):
    mf.snapshot(tmp_path, 20, 3, STATE, timestamp=mf.TIME)
    end = mf.log(tmp_path, [leads(3, 3)], [leads(1, 1, leaderRecoveryState=1)], base=20, epoch=4, timestamp=mf.TIME + 10)
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(5, 2, "snapshot"), (6, 3, "clean"), (7, 1, "unclean")]
    assert [(one.metadata_offset, one.metadata_epoch) for one in only(copy).elections] == [(19, 3), (20, 4), (21, 4)]
    assert (copy.log_epoch, copy.log_end_offset) == (4, end)
    assert only(copy).known_at_ms == mf.TIME + 11


def test_when_an_election_before_the_snapshot_was_is_not_known(tmp_path):
    """The timestamps in a snapshot are of its writing, which is minutes or days after the elections that it sums up."""
    mf.snapshot(tmp_path, 20, 3, STATE, timestamp=mf.TIME)
    (election,) = only(metadata_log.read(tmp_path)).elections
    assert election.timestamp_ms == -1


def test_a_snapshot_is_not_needed_while_the_log_has_its_beginning(tmp_path):
    mf.snapshot(tmp_path, 0, 0, [])  # kafka-storage format --standalone leaves one like it
    mf.log(tmp_path, ORDERS, [leads(2, 2)], [leads(3, 3)])
    mf.snapshot(tmp_path, 3, 1, NEWER)
    assert told(metadata_log.read(tmp_path)) == [(0, 1, "created"), (1, 2, "clean"), (2, 3, "unclean")]


def test_a_directory_that_was_only_formatted(tmp_path):
    mf.snapshot(tmp_path, 0, 0, [])
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert (copy.partitions, copy.log_end_offset) == ((), 0)


def test_the_oldest_snapshot_that_the_log_continues_has_the_longest_history(tmp_path):
    mf.snapshot(tmp_path, 10, 1, ORDERS)  # the log begins behind it
    mf.snapshot(tmp_path, 20, 3, STATE)
    mf.snapshot(tmp_path, 21, 3, NEWER)
    mf.log(tmp_path, [mf.record("NO_OP_RECORD")] * 5, [leads(3, 3)], [leads(1, 1)], base=15, epoch=3)
    assert told(metadata_log.read(tmp_path)) == [(5, 2, "snapshot"), (6, 3, "clean"), (7, 1, "unclean")]


def test_what_the_snapshot_holds_is_not_replayed_again(tmp_path):
    """A segment that begins before the snapshot's end, and a batch across it."""
    mf.snapshot(tmp_path, 22, 3, STATE)
    mf.log(tmp_path, [leads(9, 9)], [leads(8, 8), leads(3, 3)], [leads(1, 1)], base=20, epoch=3)
    assert told(metadata_log.read(tmp_path)) == [(5, 2, "snapshot"), (6, 3, "clean"), (7, 1, "unclean")]


def test_the_newest_snapshot_counts_where_there_is_no_log(tmp_path):
    mf.snapshot(tmp_path, 20, 3, STATE)
    mf.snapshot(tmp_path, 30, 4, NEWER)
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(6, 3, "snapshot")]
    assert (copy.log_epoch, copy.log_end_offset) == (4, 30)


def unfinished(folder: Path) -> None:
    mf.snapshot(folder, 20, 3, [mf.topic("half"), mf.partition()], footer=False)


def torn(folder: Path) -> None:
    path = mf.snapshot(folder, 20, 3, [mf.topic("half"), mf.partition()])
    path.write_bytes(path.read_bytes()[:-90])


def rotten(folder: Path) -> None:
    path = mf.snapshot(folder, 20, 3, [mf.topic("half"), mf.partition()])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(folder: Path) -> None:
    (folder / f"{20:020d}-{3:010d}.checkpoint").write_bytes(b"")


@pytest.mark.parametrize("spoil", [unfinished, torn, rotten, empty])
def test_a_snapshot_that_is_not_whole_gives_way_to_the_next(tmp_path, spoil):
    spoil(tmp_path)
    mf.snapshot(tmp_path, 23, 3, STATE)
    middle = mf.log(tmp_path, [mf.record("NO_OP_RECORD")] * 3, [leads(3, 3)], base=20, epoch=3)
    end = mf.log(tmp_path, [leads(1, 1, 2)], base=middle, epoch=3)
    copy = metadata_log.read(tmp_path)
    assert told(copy) == [(5, 2, "snapshot"), (6, 3, "clean"), (7, 1, "unclean")], "every segment behind it counts"
    assert copy.log_end_offset == end
    assert "incomplete" in codes(copy)
    assert {Path(problem.path).name for problem in copy.problems} == {f"{20:020d}-{3:010d}.checkpoint"}


@pytest.mark.parametrize("spoil", [unfinished, torn, rotten, empty])
def test_without_a_whole_snapshot_nothing_is_known(tmp_path, spoil):
    spoil(tmp_path)
    mf.log(tmp_path, [leads(3, 3)], base=20, epoch=3)
    copy = metadata_log.read(tmp_path)
    assert not copy.partitions
    assert codes(copy).count("incomplete") == 2, "the snapshot, and the log without it"
    assert copy.log_end_offset < 20 or copy.log_epoch < 3, "it must not win over a whole copy"


@pytest.mark.parametrize("suffix", ["-12937951336336584364.checkpoint.part", ".checkpoint.deleted"])
def test_snapshots_that_are_being_written_or_deleted_do_not_count(tmp_path, suffix):
    """The name of the first is Files.createTempFile's."""
    for end in (10, 30):
        mf.snapshot(tmp_path, end, 3, NEWER, suffix=suffix)
    mf.snapshot(tmp_path, 20, 3, STATE)
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(5, 2, "snapshot")], "the newest without a log"
    mf.log(tmp_path, [mf.record("NO_OP_RECORD")] * 10, [leads(3, 3)], base=10, epoch=3)
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(5, 2, "snapshot"), (6, 3, "clean")], "the oldest with one"


def test_a_log_that_lost_its_beginning_without_a_snapshot_says_so(tmp_path):
    mf.log(tmp_path, [leads(3, 3)], base=20, epoch=3)
    copy = metadata_log.read(tmp_path)
    assert codes(copy) == ["incomplete"]
    assert "offset 20" in copy.problems[0].detail
    assert not copy.partitions
    assert (copy.log_epoch, copy.log_end_offset) == (-1, 0), "any other copy must win over this one"


def test_a_snapshot_that_the_log_does_not_reach_is_the_end_of_what_is_known(tmp_path):
    mf.snapshot(tmp_path, 19, 3, STATE)
    mf.log(tmp_path, [leads(3, 3)], base=20, epoch=4)
    copy = metadata_log.read(tmp_path)
    assert codes(copy) == ["incomplete"]
    assert told(copy) == [(5, 2, "snapshot")]
    assert (copy.log_epoch, copy.log_end_offset) == (3, 19), "a copy that goes on must win over this one"


def test_a_snapshot_beyond_the_end_of_the_log_wins(tmp_path):
    """A follower that fell behind fetches a snapshot; its old segments end before it."""
    mf.log(tmp_path, ORDERS, [leads(2, 2)])
    mf.snapshot(tmp_path, 50, 6, NEWER)
    copy = metadata_log.read(tmp_path)
    assert (only(copy).leader, only(copy).leader_epoch) == (3, 6)
    assert (copy.log_epoch, copy.log_end_offset) == (6, 50)


# --- damage ---


def test_a_torn_tail_is_no_problem(tmp_path):
    """A broker that is killed while it writes leaves it, and cuts it away when it starts."""
    mf.log(tmp_path, ORDERS, [leads(2, 2)], mf.batch(3, 1, leads(3, 3))[:-5])
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(0, 1, "created"), (1, 2, "clean")]
    assert copy.log_end_offset == 3


def test_a_tail_of_zeros_is_no_problem(tmp_path):
    mf.log(tmp_path, ORDERS, [leads(2, 2)])
    with (tmp_path / f"{0:020d}.log").open("ab") as stream:
        stream.write(bytes(5000))
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert told(copy) == [(0, 1, "created"), (1, 2, "clean")]


def test_what_is_missing_inside_the_log_is_told_and_ends_it(tmp_path):
    """A torn batch is a tail only in the last segment: behind it here stands an election that must not be taken for the next one."""
    mf.log(tmp_path, ORDERS, mf.batch(2, 1, leads(2, 2))[:-5])
    mf.log(tmp_path, [leads(3, 3)], base=3)
    copy = metadata_log.read(tmp_path)
    assert told(copy) == [(0, 1, "created")]
    assert copy.log_end_offset == 2
    assert len(codes(copy)) == 1


def test_a_segment_that_is_missing_is_told_and_ends_the_log(tmp_path):
    """Leader epochs are counted, record by record: behind a hole all of them would be too low."""
    mf.log(tmp_path, ORDERS)
    mf.log(tmp_path, [leads(3, 3)], base=7)  # 2 to 6 are in a segment that was not copied
    copy = metadata_log.read(tmp_path)
    assert told(copy) == [(0, 1, "created")]
    assert copy.log_end_offset == 2
    assert len(codes(copy)) == 1


def missing(folder: Path) -> None:
    mf.log(folder, ORDERS)
    mf.log(folder, [leads(3, 3)], base=7)


def rotten_batch(folder: Path) -> None:
    bad = bytearray(mf.batch(2, 1, leads(2, 2)))
    bad[-1] ^= 1
    mf.log(folder, ORDERS, bytes(bad), [leads(3, 3)] * 5)


def no_record(folder: Path) -> None:
    mf.log(folder, ORDERS, [leads(2, 2)[:-1]], [leads(3, 3)] * 5)


@pytest.mark.parametrize("spoil", [missing, rotten_batch, no_record])
@pytest.mark.parametrize("rolled", [True, False], ids=["next segment", "same segment"])
def test_a_snapshot_behind_the_damage_goes_on(tmp_path, spoil, rolled):
    """Its state is whole, whatever stands before it, and so is the log behind it."""
    spoil(tmp_path)
    mf.snapshot(tmp_path, 8, 1, NEWER)
    if rolled:
        end = mf.log(tmp_path, [leads(1, 1)], base=8)
    else:
        last = max(tmp_path.glob("*.log"))
        last.write_bytes(last.read_bytes() + mf.batch(8, 1, leads(1, 1)))
        end = 9
    copy = metadata_log.read(tmp_path)
    assert (only(copy).leader, only(copy).leader_epoch, copy.log_end_offset) == (1, 7, end)


def test_a_batch_with_a_wrong_crc_ends_the_log(tmp_path):
    bad = bytearray(mf.batch(2, 1, leads(2, 2)))
    bad[-1] ^= 1
    mf.log(tmp_path, ORDERS, bytes(bad), mf.batch(3, 1, leads(3, 3)))
    mf.log(tmp_path, [leads(1, 1)], base=4)
    copy = metadata_log.read(tmp_path)
    assert codes(copy) == ["bad-crc"]
    assert copy.problems[0].byte_offset == len(mf.batch(0, 1, *ORDERS))
    assert copy.problems[0].path == str(tmp_path / f"{0:020d}.log")
    assert told(copy) == [(0, 1, "created")]
    assert copy.log_end_offset == 2, "a whole copy must win over this one"


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param(b"\x02\x05\x02" + leads(2, 2)[3:], id="frame"),
        pytest.param(leads(2, 2)[:-2], id="cut"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_record_that_cannot_be_decoded_ends_the_log(tmp_path, spoiled):
    """Kafka's loaders take it for fatal. Behind it the epoch of orders-0 would be one too low for ever."""
    mf.log(tmp_path, ORDERS, [spoiled], [leads(3, 3)])
    copy = metadata_log.read(tmp_path)
    assert codes(copy) == ["malformed-record"]
    assert "offset 2" in copy.problems[0].detail
    assert told(copy) == [(0, 1, "created")]
    assert copy.log_end_offset == 2, "a whole copy must win over this one"


def test_a_change_of_a_partition_that_was_never_created_is_told(tmp_path):
    mf.log(tmp_path, ORDERS, [mf.change(7, leader=2), mf.change(0, OTHER, leader=3)])
    copy = metadata_log.read(tmp_path)
    assert codes(copy) == ["incomplete"]
    assert told(copy) == [(0, 1, "created")]


# --- directories ---


def test_an_empty_directory(tmp_path):
    copy = metadata_log.read(tmp_path)
    assert codes(copy) == ["no-segments"]
    assert (copy.partitions, copy.brokers, copy.metadata_version, copy.last_timestamp_ms) == ((), (), None, None)
    assert (copy.log_epoch, copy.log_end_offset) == (-1, 0)


def test_an_empty_segment(tmp_path):
    mf.log(tmp_path)
    copy = metadata_log.read(tmp_path)
    assert not codes(copy)
    assert not copy.partitions


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_segments_that_are_no_part_of_the_log(tmp_path, suffix):
    mf.log(tmp_path, ORDERS)
    mf.log(tmp_path, [leads(2, 2)], base=2, suffix=suffix)
    assert told(metadata_log.read(tmp_path)) == [(0, 1, "created")]


def test_what_else_stands_in_the_directory_is_left_alone(tmp_path):
    mf.log(tmp_path, ORDERS)
    for name in ("quorum-state", "leader-epoch-checkpoint", "partition.metadata", f"{0:020d}.index", f"{2:020d}.snapshot", "x.checkpoint"):
        (tmp_path / name).write_bytes(b"\xff\x00anything")
    (tmp_path / f"{2:020d}.log").mkdir()
    (tmp_path / f"{3:020d}.log").symlink_to(tmp_path / "nowhere")
    copy = metadata_log.read(tmp_path)
    assert told(copy) == [(0, 1, "created")]
    assert not codes(copy)


def test_no_such_directory(tmp_path):
    assert codes(metadata_log.read(tmp_path / "none")) == ["cannot-read"]


def test_a_directory_that_may_not_be_read():
    with open_to_all() as parent:
        folder = parent / "__cluster_metadata-0"
        mf.log(folder, ORDERS)
        folder.chmod(0)
        copy = as_nobody(lambda: metadata_log.read(folder))
    assert codes(copy) == ["cannot-read"]
    assert copy.problems[0].path == str(folder)


def test_a_segment_that_may_not_be_read():
    with open_to_all() as parent:
        folder = parent / "__cluster_metadata-0"
        mf.log(folder, ORDERS, [leads(2, 2)])
        mf.log(folder, [leads(3, 3)], base=3)
        (folder / f"{3:020d}.log").chmod(0)
        copy = as_nobody(lambda: metadata_log.read(folder))
    assert codes(copy) == ["cannot-read"]
    assert copy.problems[0].path.endswith(f"{3:020d}.log")
    assert told(copy) == [(0, 1, "created"), (1, 2, "clean")], "what was replayed before stays"


# --- any damage to what a real controller wrote ---


@cache
def whole() -> MetadataLog:
    return metadata_log.read(REAL.parent)


def damaged(content: bytes, folder: Path) -> MetadataLog:
    shutil.rmtree(folder, ignore_errors=True)
    kf.segment(folder, 0, content)
    return metadata_log.read(folder)


def test_the_real_segment_is_one():
    assert not whole().problems
    assert len(whole().partitions) > 1
    assert max(len(partition.elections) for partition in whole().partitions) > 3
