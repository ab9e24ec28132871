from __future__ import annotations

import io
import json
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from replica_audit.formats.server_log.events import events
from replica_audit.formats.server_log.log_lines import looks_like_server_log
from replica_audit.protocol.comparison.observed import EventKind, LogEvent

SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"  # only beside the sources
TIME = "2026-11-21 06:36:15,750"
FETCHER = "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] "
LOG_OF = "[Log partition=orders-0, dir=/kafka/data-0] "


def read(text: str | bytes) -> list[LogEvent]:
    return list(events(io.BytesIO(text if isinstance(text, bytes) else text.encode())))


def told(event: LogEvent) -> dict[str, Any]:
    """What an event says beyond its place in the text."""
    place = ("time", "line", "byte_offset", "text", "path", "newest_first", "time_ms")
    return {name: value for name, value in event._asdict().items() if value is not None and name not in place}


def one(message: str, level: str = "INFO") -> dict[str, Any]:
    (event,) = read(f"[{TIME}] {level} {message} (kafka.log.Log)\n")
    assert (event.time, event.line, event.byte_offset) == (TIME, 1, 0)
    return told(event)


def of(topic: str, partition: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "kind": kind, **more}


FROM_LEADER = {"broker_id": 1, "leader_id": 2}
MESSAGES = [
    # 3.1 and later
    (
        FETCHER + "Truncating partition orders-0 with TruncationState(offset=21, completed=false) due to leader epoch and offset "
        "EpochEndOffset(errorCode=0, partition=0, leaderEpoch=2, endOffset=16)",
        of("orders", 0, "fetcher_truncation", **FROM_LEADER, offset=21, complete=False, answered_epoch=2, answered_end_offset=16),
    ),
    (
        FETCHER + "Truncating partition a.b_c-d.1-0-1 with TruncationState(offset=7, completed=true) due to leader epoch and offset "
        "EpochEndOffset(errorCode=0, partition=1, leaderEpoch=-1, endOffset=-1)",
        of("a.b_c-d.1-0", 1, "fetcher_truncation", **FROM_LEADER, offset=7, complete=True, answered_epoch=-1, answered_end_offset=-1),
    ),
    (
        FETCHER + "Truncating partition orders-0 with TruncationState(offset=0, completed=true) due to local high watermark 0",
        of("orders", 0, "high_watermark_truncation", **FROM_LEADER, offset=0, complete=True),
    ),
    (
        FETCHER + "Truncate fully and reset fetch offset for partition audit-0 from 17 to the current leader's start offset 25 because the "
        "local replica's end offset is smaller than the current leader's start offsets.",
        of("audit", 0, "full_truncation", **FROM_LEADER, offset=25, log_end_offset=17),
    ),
    (
        FETCHER + "Unexpected error occurred while processing data for partition audit-1 at offset 25",
        of("audit", 1, "fetcher_failed", **FROM_LEADER, offset=25),
    ),
    (
        "[UnifiedLog partition=orders-0, dir=/kafka/data-0] Truncating to offset 11",
        of("orders", 0, "log_truncation", offset=11, log_dir="/kafka/data-0"),
    ),
    (
        "[UnifiedLog partition=orders-0, dir=/kafka/data-0] Truncating to 31 has no effect as the largest offset in the log is 30",
        of("orders", 0, "no_effect", offset=31, log_end_offset=31, log_dir="/kafka/data-0"),
    ),
    (
        "[UnifiedLog partition=billing-0, dir=/kafka/data-0] Truncating billing-0 to offset 10 below high watermark 30",
        of("billing", 0, "below_high_watermark", offset=10, high_watermark=30),
    ),
    (
        FETCHER + "Truncating billing-0 to offset 10 below high watermark 30",
        of("billing", 0, "below_high_watermark", **FROM_LEADER, offset=10, high_watermark=30),
    ),
    # 2.8 to 3.4, 3.5 to 3.8, 3.9 and later
    *(
        (
            f"[{log} partition=billing-0, dir=/kafka/data-0] Non-monotonic update of high watermark from "
            f"(offset=30{between}segment=[0:1420]) to (offset=10{between}segment=[0:363])",
            of("billing", 0, "high_watermark_fell", offset=10, high_watermark=30, log_dir="/kafka/data-0"),
        )
        for log, between in (("Log", " "), ("UnifiedLog", ""), ("UnifiedLog", ", "))
    ),
    # a follower knows the offset of its high watermark alone; a truncation to the beginning of a segment, and of the whole log
    *(
        (
            f"[UnifiedLog partition=orders-2, dir=/kafka/data-0] Non-monotonic update of high watermark from (offset=17, segment={was}) "
            f"to (offset={to}, segment={now})",
            of("orders", 2, "high_watermark_fell", offset=to, high_watermark=17, log_dir="/kafka/data-0"),
        )
        for was, to, now in (("[-1:-1]", 11, "[0:382]"), ("[8:553]", 8, "[8:0]"), ("[0:628]", 0, "[0:0]"), ("[17:0]", 11, "[8:209]"))
    ),
    # 0.8, 0.9 and 0.10, 0.11, 1.0
    (
        "[ReplicaFetcherThread-0-1], Exiting because log truncation is not allowed for topic [test,0], Current leader 1's latest offset "
        "2051 is less than replica 2's latest offset 2391",
        of("test", 0, "truncation_refused", leader_id=1, offset=2051, log_end_offset=2391),
    ),
    (
        "[ReplicaFetcherThread-0-1], Exiting because log truncation is not allowed for partition test-0, Current leader 1's latest offset "
        "2051 is less than replica 2's latest offset 2391",
        of("test", 0, "truncation_refused", leader_id=1, offset=2051, log_end_offset=2391),
    ),
    (
        "[ReplicaFetcherThread-0-1]: Exiting because log truncation is not allowed for partition test-0, current leader 1's latest offset "
        "2051 is less than replica 2's latest offset 2391",
        of("test", 0, "truncation_refused", leader_id=1, offset=2051, log_end_offset=2391),
    ),
    (
        FETCHER
        + "Exiting because log truncation is not allowed for partition test-produce-consume-0, current leader's latest offset 2051 is "
        "less than replica's latest offset 2391",
        of("test-produce-consume", 0, "truncation_refused", **FROM_LEADER, offset=2051, log_end_offset=2391),
    ),
    # ZooKeeper's controller until 0.10, then until 1.0
    (
        "[OfflinePartitionLeaderSelector]: No broker in ISR is alive for [orders,7]. Elect leader 2 from live brokers 2,3. There's "
        "potential data loss.",
        of("orders", 7, "unclean_election", leader_id=2),
    ),
    (
        "[OfflinePartitionLeaderSelector]: No broker in ISR is alive for orders-7. Elect leader 2 from live brokers 2,3. There's potential "
        "data loss.",
        of("orders", 7, "unclean_election", leader_id=2),
    ),
    # KRaft's controller
    (
        "[QuorumController id=3000] UNCLEAN partition change for orders-0 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: isr: [1] -> [2], leader: "
        "1 -> 2, leaderRecoveryState: RECOVERED -> RECOVERING, leaderEpoch: 2 -> 3, partitionEpoch: 5 -> 6",
        of("orders", 0, "unclean_election", leader_id=2, leader_epoch=3),
    ),
    (
        "[QuorumController id=1] UNCLEAN partition change for a.b_c-d-11 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: replicas: [1, 2, 3] -> "
        "[2, 3], isr: [] -> [2], leader: -1 -> 2, leaderEpoch: 4 -> 5, elr: [1, 3] -> [], lastKnownElr: [1] -> [], partitionEpoch: 5 -> 6",
        of("a.b_c-d", 11, "unclean_election", leader_id=2, leader_epoch=5),
    ),
    (
        "[QuorumController id=1] UNCLEAN partition change for orders-0 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: leader: -1 -> 2",
        of("orders", 0, "unclean_election", leader_id=2),
    ),
    (
        "[LogLoader partition=cc-0, dir=/kafka/data-0] Corruption found in segment 44, truncating to offset 46",
        of("cc", 0, "recovery_truncation", offset=46, log_dir="/kafka/data-0"),
    ),
    (
        "Completed load of Log(dir=/kafka/data-0/ledger-7, topicId=flYyNs1kTVOXCvYW-KWnWA, topic=ledger, partition=7, highWatermark=0, "
        "lastStableOffset=0, logStartOffset=0, logEndOffset=25) with 1 segments, local-log-start-offset 0 and log-end-offset 25 in 4ms",
        of("ledger", 7, "loaded", offset=25, log_end_offset=25, log_dir="/kafka/data-0"),
    ),
    (
        "[Broker id=2] Follower ledger-1 starts at leader epoch 4 from offset 19 with partition epoch 5 and high watermark 19. Current "
        "leader is 1. Previous leader None and previous leader epoch was -1.",
        of("ledger", 1, "became_follower", broker_id=2, leader_id=1, leader_epoch=4, offset=19, log_end_offset=19),
    ),
    (
        "[Broker id=2] Leader ledger-1 with topic id Some(flYyNs1kTVOXCvYW-KWnWA) starts at leader epoch 4 from offset 19 with partition "
        "epoch 3, high watermark 11, ISR [2], adding replicas [] and removing replicas [] . Previous leader Some(1) and previous leader "
        "epoch was 0.",
        of("ledger", 1, "became_leader", broker_id=2, leader_id=2, leader_epoch=4, offset=19, log_end_offset=19),
    ),
    (
        "[Broker id=1] The topic partition wander-0 was marked as RECOVERING. Marking the topic partition as RECOVERED.",
        of("wander", 0, "unclean_recovery", broker_id=1),
    ),
    # 2.6 to 3.2: the follower's line does not name the leader
    (
        "[Broker id=2] Follower ledger-1 starts at leader epoch 4 from offset 19 with high watermark 19. Previous leader epoch was 3.",
        of("ledger", 1, "became_follower", broker_id=2, leader_epoch=4, offset=19, log_end_offset=19),
    ),
    (
        "Completed load of Log(dir=C:\\kafka\\data-0\\ledger-7, topic=ledger, partition=7, highWatermark=0, lastStableOffset=0, "
        "logStartOffset=0, logEndOffset=25) with 1 segments in 4ms (1/1 loaded in C:\\kafka\\data-0)",
        of("ledger", 7, "loaded", offset=25, log_end_offset=25, log_dir="C:\\kafka\\data-0"),
    ),
    # 2.0 to 4.2
    (
        FETCHER
        + "Based on replica's leader epoch, leader replied with epoch 3 unknown to the replica for ledger-2. Will truncate to 21 and "
        "send another leader epoch request to the leader.",
        of("ledger", 2, "more_rounds", **FROM_LEADER, offset=21, answered_epoch=3),
    ),
    (
        FETCHER + "Based on replica's leader epoch, leader replied with epoch 3 below any replica's tracked epochs for ledger-2. The "
        "leader's offset only 21 will be used for truncation.",
        of("ledger", 2, "epoch_response", **FROM_LEADER, answered_epoch=3, answered_end_offset=21),
    ),
    (
        FETCHER
        + "Leader or replica is on protocol version where leader epoch is not considered in the OffsetsForLeaderEpoch response. The "
        "leader's offset 21 will be used for truncation in orders-0.",
        of("orders", 0, "epoch_response", **FROM_LEADER, answered_epoch=-1, answered_end_offset=21),
    ),
    (
        FETCHER + "Truncating partition v1orders-1 to local high watermark 21",
        of("v1orders", 1, "high_watermark_truncation", **FROM_LEADER, offset=21, complete=True),
    ),
    # 1.0 and later
    (
        FETCHER + "Reset fetch offset for partition orders-3 from 41 to current leader's latest offset 31",
        of("orders", 3, "out_of_range_reset", **FROM_LEADER, offset=31, log_end_offset=41, complete=True),
    ),
    (
        FETCHER + "Reset fetch offset for partition orders-3 from 41 to current leader's start offset 50",
        of("orders", 3, "full_truncation", **FROM_LEADER, offset=50, log_end_offset=41),
    ),
    (LOG_OF + "Truncating to offset 21", of("orders", 0, "log_truncation", offset=21, log_dir="/kafka/data-0")),
    (
        LOG_OF + "Truncating to 16 has no effect as the largest offset in the log is 15",
        of("orders", 0, "no_effect", offset=16, log_end_offset=16, log_dir="/kafka/data-0"),
    ),
    (
        LOG_OF + "Completed load of log with 2 segments, log start offset 3 and log end offset 26 in 63 ms",
        of("orders", 0, "loaded", offset=26, log_end_offset=26, log_dir="/kafka/data-0"),
    ),
    (
        LOG_OF + "Corruption found in segment 44, truncating to offset 46",
        of("orders", 0, "recovery_truncation", offset=46, log_dir="/kafka/data-0"),
    ),
    (
        "[Partition orders-0 broker=1] orders-0 starts at leader epoch 3 from offset 21 with high watermark 11. Previous leader epoch",
        of("orders", 0, "became_leader", broker_id=1, leader_id=1, leader_epoch=3, offset=21, log_end_offset=21),
    ),
    # 0.11 to 1.1
    (
        FETCHER + "Based on follower's leader epoch, leader replied with an offset 21 >= the follower's log end offset 16 in orders-0. No "
        "truncation needed.",
        of("orders", 0, "epoch_response", **FROM_LEADER, answered_end_offset=21, log_end_offset=16),
    ),
    (
        FETCHER
        + "Based on follower's leader epoch, leader replied with an unknown offset in billing-3. The initial fetch offset 0 will be "
        "used for truncation.",
        of("billing", 3, "high_watermark_truncation", **FROM_LEADER, offset=0, complete=True),
    ),
    (
        FETCHER + "Based on follower's leader epoch, leader replied with an unknown offset in billing-3. High watermark 4 will be used for "
        "truncation.",
        of("billing", 3, "high_watermark_truncation", **FROM_LEADER, offset=4, complete=True),
    ),
    (
        "[Partition orders-0 broker=1] orders-0 starts at Leader Epoch 3 from offset 21. Previous Leader Epoch was: 2",
        of("orders", 0, "became_leader", broker_id=1, leader_id=1, leader_epoch=3, offset=21, log_end_offset=21),
    ),
    # 0.10 and 0.11
    ("Truncating log orders-0 to offset 11.", of("orders", 0, "log_truncation", offset=11)),
    (
        "Truncating orders-0 to 31 has no effect as the largest offset in the log is 30.",
        of("orders", 0, "no_effect", offset=31, log_end_offset=31),
    ),
    (
        "Completed load of log orders-0 with 2 log segments and log end offset 31 in 5 ms",
        of("orders", 0, "loaded", offset=31, log_end_offset=31),
    ),
    (
        "Completed load of log orders-0 with 2 log segments, log start offset 3 and log end offset 31 in 5 ms",
        of("orders", 0, "loaded", offset=31, log_end_offset=31),
    ),
    (
        "Corruption found in segment 44 of log orders-0, truncating to offset 46.",
        of("orders", 0, "recovery_truncation", offset=46),
    ),
    (
        "[ReplicaFetcherThread-0-2], Replica 1 for partition orders-3 reset its fetch offset from 41 to current leader 2's latest offset "
        "31",
        of("orders", 3, "out_of_range_reset", **FROM_LEADER, offset=31, log_end_offset=41, complete=True),
    ),
    (
        "[ReplicaFetcherThread-0-2], Replica 1 for partition orders-3 reset its fetch offset from 41 to current leader 2's start offset 50",
        of("orders", 3, "full_truncation", **FROM_LEADER, offset=50, log_end_offset=41),
    ),
]


@pytest.mark.parametrize(("message", "expected"), MESSAGES, ids=lambda case: case[:60] if isinstance(case, str) else case["kind"])
def test_messages(message: str, expected: dict[str, Any]) -> None:
    assert one(message) == expected


def test_every_kind_has_a_message_here() -> None:
    in_lists = {EventKind.FETCHER_ADDED, EventKind.FETCHER_REMOVED}
    assert {expected["kind"] for _, expected in MESSAGES} | in_lists == set(EventKind)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(FETCHER + "Partition audit-1 marked as failed", id="any change of the leader marks partitions as failed"),
        pytest.param(
            FETCHER + "Reset fetch offset for partition orders-3 from 41 to current leader's start offset 3", id="goes on from its end"
        ),
        pytest.param(
            FETCHER + "Reset fetch offset for partition o-3 from 41 to the current local replica's end offset 41", id="likewise, 3.6"
        ),
        pytest.param(
            FETCHER + "Current offset 37 for partition a-1 is out of range. Reset fetch offset to 25", id="told by the line before"
        ),
        pytest.param(FETCHER + "Error while processing data for partition a-1 at offset 5", id="the disk failed"),
        pytest.param("[ReplicaAlterLogDirsThread-0]: Truncating partition mover-0 to local high watermark 3", id="a copy's fetcher"),
        pytest.param(LOG_OF + "Truncating to offset 21 (kafka.log.Log) [ReplicaAlterLogDirsThread-0]", id="a copy's log, by its thread"),
        pytest.param("[ReplicaAlterLogDirsManager on broker 1] Removed fetcher for partitions Set(mover-0)", id="a copy's manager"),
        pytest.param(
            FETCHER + "replied with epoch 3 unknown to the future replica for m-2. Will truncate to 2 and send another", id="a copy"
        ),
        pytest.param(
            "Completed load of Log(dir=/d/mover-0.53ab9b42a62c409f8b6c163877b5e279-future, topic=mover, partition=0, logEndOffset=5)",
            id="a copy is loaded",
        ),
        pytest.param(LOG_OF + "Truncating to offset 12345678901234567890", id="no offset"),
        pytest.param(
            "[LeaderEpochCache orders-0] Cleared entries [] and rewrote first entry after truncating to start offset 0", id="a table"
        ),
        pytest.param(
            "[Broker id=1] Truncated logs and checkpointed recovery boundaries for partition orders-0 as part of", id="always logged"
        ),
        pytest.param(
            "[UnifiedLog partition=audit-0, dir=/d] Non-monotonic update of high watermark from (offset=25, segment=[25:0]) to (offset=24, "
            "segment=[24:0])",
            id="an emptied log that starts again at an earlier offset",
        ),
        pytest.param(
            "[UnifiedLog partition=audit-0, dir=/d] Non-monotonic update of high watermark from (offset=25, segment=[0:900]) to "
            "(offset=24, segment=[-1:-1])",
            id="a follower takes over the lower high watermark of a new leader",
        ),
        pytest.param(
            "[RaftManager id=1] Non-monotonic update of high watermark attempted from 9 to 8", id="the metadata log's own high watermark"
        ),
        pytest.param(
            "[QuorumController id=1] UNCLEAN partition change for orders-0 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: isr: [] -> [1], leader: "
            "-1 -> 1, leaderEpoch: 1 -> 2, elr: [1] -> [], partitionEpoch: 3 -> 4",
            id="an eligible leader replica is elected",
        ),
        pytest.param(
            "[QuorumController id=1] UNCLEAN partition change for orders-0 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: isr: [1] -> [1, 2], "
            "leaderEpoch: 1 -> 2",
            id="no leader is elected",
        ),
        pytest.param(
            "[QuorumController id=1] partition change for orders-0 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: leader: 1 -> 2", id="a clean one"
        ),
        pytest.param(
            "[OfflinePartitionLeaderSelector]: Some broker in ISR is alive for [orders,7]. Select 2 from ISR 2,3", id="likewise, 0.8"
        ),
        pytest.param("Cleaner 0: Building offset map for log orders-0 for 36 segments in offset range [0, 152).", id="the cleaner"),
    ],
)
def test_lines_that_tell_nothing(message: str) -> None:
    assert read(f"[{TIME}] INFO {message} (kafka.x)\n") == []


def test_answers_for_several_partitions() -> None:
    first = (
        FETCHER + "Receive leaderEpoch response Map(invoices-1 -> EpochEndOffset{error=NONE, endOffset=-1}, __consumer_offsets-0 -> "
        "EpochEndOffset{error=NONE, endOffset=10}, gone-0 -> EpochEndOffset{error=UNKNOWN_SERVER_ERROR, endOffset=-1})"
    )
    middle = (
        FETCHER + "Received leaderEpoch response ClientResponse(receivedTimeMs=1, responseBody=(type=OffsetsForLeaderEpochResponse, , "
        "epochEndOffsetsByPartition={a-0=EpochEndOffset{error=NONE, leaderEpoch=3, endOffset=16}, "
        "b-7=EpochEndOffset{error=NONE, leaderEpoch=-1, endOffset=5}}))"
    )
    last = (
        FETCHER + "Received leaderEpoch response ClientResponse(responseBody=OffsetForLeaderEpochResponseData(throttleTimeMs=0, topics=["
        "OffsetForLeaderTopicResult(topic='a', partitions=[EpochEndOffset(errorCode=0, partition=0, leaderEpoch=3, endOffset=16), "
        "EpochEndOffset(errorCode=6, partition=1, leaderEpoch=-1, endOffset=-1)]), "
        "OffsetForLeaderTopicResult(topic='b-1', partitions=[EpochEndOffset(errorCode=0, partition=7, leaderEpoch=2, endOffset=5)])]))"
    )
    found = read("".join(f"[{TIME}] DEBUG {message} (kafka.server.ReplicaFetcherThread)\n" for message in (first, middle, last)))
    assert {event.kind for event in found} == {EventKind.EPOCH_RESPONSE}
    assert {(event.broker_id, event.leader_id) for event in found} == {(1, 2)}
    answers = [(event.line, event.topic, event.partition, event.answered_epoch, event.answered_end_offset) for event in found]
    assert answers == [
        (1, "invoices", 1, None, -1),
        (1, "__consumer_offsets", 0, None, 10),
        (2, "a", 0, 3, 16),
        (2, "b", 7, -1, 5),
        (3, "a", 0, 3, 16),
        (3, "b-1", 7, 2, 5),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Added fetcher for partitions List([a-1, initOffset 30 to broker BrokerEndPoint(2,127.0.0.1,32002)] , [b-0, initOffset 2 to "
            "broker BrokerEndPoint(0,127.0.0.1,32000)] )",
            [("a", 1, 2, None), ("b", 0, 0, None)],
        ),
        (
            "Added fetcher to broker BrokerEndPoint(id=2, host=127.0.0.1:33001) for partitions Map(a-1 -> (offset=11, leaderEpoch=3), "
            "b-0 -> (offset=12, leaderEpoch=4))",
            [("a", 1, 2, 3), ("b", 0, 2, 4)],
        ),
        (
            "Added fetcher to broker 2 for partitions Map(a-1 -> InitialFetchState(BrokerEndPoint(id=2, host=127.0.0.1:33001),3,11))",
            [("a", 1, 2, 3)],
        ),
        (
            "Added fetcher to broker 2 for partitions HashMap(a-1 -> InitialFetchState(Some(iQ1IZhmFTn61SqxfoQwKkQ),BrokerEndPoint(id=2, "
            "host=127.0.0.1:29002),6,31), b-0 -> InitialFetchState(None,BrokerEndPoint[id=2, host=127.0.0.1, port=29002],7,0))",
            [("a", 1, 2, 6), ("b", 0, 2, 7)],
        ),
    ],
)
def test_fetchers_that_were_added(message: str, expected: list[tuple[str, int, int, int | None]]) -> None:
    found = read(f"[{TIME}] INFO [ReplicaFetcherManager on broker 1] {message} (kafka.server.ReplicaFetcherManager)\n")
    assert {(event.kind, event.broker_id) for event in found} == {(EventKind.FETCHER_ADDED, 1)}
    assert [(event.topic, event.partition, event.leader_id, event.leader_epoch) for event in found] == expected


@pytest.mark.parametrize("partitions", ["a-1,b-c-0", "Set(a-1, b-c-0)", "HashSet(a-1, b-c-0)", "ArrayBuffer(a-1, b-c-0)"])
def test_fetchers_that_were_removed(partitions: str) -> None:
    found = read(f"[{TIME}] INFO [ReplicaFetcherManager on broker 1] Removed fetcher for partitions {partitions} (kafka.server.x)")
    assert [(event.kind, event.topic, event.partition) for event in found] == [
        (EventKind.FETCHER_REMOVED, "a", 1),
        (EventKind.FETCHER_REMOVED, "b-c", 0),
    ]
    assert read("[ConsumerFetcherManager-1] Removed fetcher for partitions a-1\n") == []


@pytest.mark.parametrize("partition", ["partition orders-0 offset 16", "partition orders-0 at offset 16", "partition [orders,0] offset 16"])
def test_failure_that_only_the_stack_trace_tells(partition: str) -> None:
    first = "Error" if "orders-0" in partition else "error"
    text = (
        f"[{TIME}] ERROR {FETCHER}Error due to (kafka.server.ReplicaFetcherThread)\n"
        f"kafka.common.KafkaException: {first} processing data for {partition}\n"
        "\tat kafka.server.AbstractFetcherThread.$anonfun$processFetchRequest$7(AbstractFetcherThread.scala:205)\n"
    )
    (event,) = read(text)
    assert told(event) == of("orders", 0, "fetcher_failed", **FROM_LEADER, offset=16)
    assert (event.time, event.line) == (TIME, 2)
    (alone,) = read(text.split("\n", 1)[1])
    assert (alone.time, alone.broker_id) == ("", None)


LINE = FETCHER + "Truncating partition orders-0 to local high watermark 21"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(f"{TIME} INFO {LINE} (kafka.server.ReplicaFetcherThread) [ReplicaFetcherThread-0-2]", TIME, id="no brackets"),
        pytest.param(f"{TIME} INFO kafka.server.ReplicaFetcherThread: {LINE}", TIME, id="logger first"),
        pytest.param(f"2026-11-21T08:00:00.123456789Z stdout F [{TIME}] INFO {LINE}", TIME, id="Kubernetes in front"),
        pytest.param(f"Nov 21 06:36:15 host kafka[77]: [{TIME}] INFO {LINE}", TIME, id="syslog in front"),
        pytest.param(f"<14>1 2026-11-21T06:36:15.75+00:00 host kafka - - - INFO {LINE}", TIME, id="syslog alone"),
        pytest.param(f"Nov 21 06:36:15 host kafka[77]: INFO {LINE}", "", id="syslog without a year"),
        pytest.param(f"kafka-1  | [{TIME}] INFO {LINE}", TIME, id="Docker Compose"),
        pytest.param(f"\x1b[32m[{TIME}] INFO {LINE}\x1b[0m", TIME, id="coloured"),
        pytest.param(LINE, "", id="the message alone"),
        pytest.param(json.dumps({"@timestamp": "2026-11-21T06:36:15.750Z", "message": LINE, "level": "INFO"}), TIME, id="JSON"),
        pytest.param(json.dumps({"message": LINE, "timestamp": "2026-11-21T06:36:15Z"}), "2026-11-21 06:36:15,000", id="time behind"),
        pytest.param(
            json.dumps({"log": f"[{TIME}] INFO {LINE} (kafka.server.ReplicaFetcherThread)\n", "stream": "stdout"}), TIME, id="wrapped"
        ),
    ],
)
def test_layouts(line: str, expected: str) -> None:
    for end in ("", "\n", "\r\n"):
        (event,) = read(line + end)
        assert told(event) == of("orders", 0, "high_watermark_truncation", **FROM_LEADER, offset=21, complete=True)
        assert event.time == expected
        assert event.text == line[:400].rstrip()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("2020-04-01 08:53:15,277 INFO {} (kafka.log.Log) [ReplicaFetcherThread-0-1]", "2020-04-01 08:53:15,277", id="Strimzi"),
        pytest.param(
            "2025-07-03 12:03:09 INFO  [ReplicaFetcherThread-0-2] UnifiedLog:66 - {}", "2025-07-03 12:03:09,000", id="Strimzi with Kafka 4"
        ),
        pytest.param(
            "2025-07-03T12:03:09.123456789Z 2025-07-03 14:03:09 INFO  [main] UnifiedLog:66 - {}",
            "2025-07-03 14:03:09,000",
            id="the own time",
        ),
        pytest.param(
            "2019-04-11T12:32:24.676797004Z [2019-04-11 12:32:24,676] INFO {} (kafka.log.Log)", "2019-04-11 12:32:24,676", id="kubectl"
        ),
        pytest.param(
            "[pod/my-cluster-kafka-0/kafka] 2025-07-03 12:03:09 INFO  [x] UnifiedLog:66 - {}", "2025-07-03 12:03:09,000", id="--prefix"
        ),
        pytest.param("my-kafka-0 kafka [2024-05-06 07:08:09,100] INFO {} (x)", "2024-05-06 07:08:09,100", id="stern"),
        pytest.param("\x1b[36mkafka-0  | \x1b[0m[2024-05-06 07:08:09,100] INFO {} (x)", "2024-05-06 07:08:09,100", id="Docker Compose"),
        pytest.param(
            "Jan 02 03:04:05 host kafka-server-start.sh[123]: [2024-01-02 03:04:05,678] INFO {} (x)",
            "2024-01-02 03:04:05,678",
            id="journald",
        ),
        pytest.param("[12:32:24,676] INFO {} (kafka.log.Log)", "", id="no date"),
        pytest.param("14:24:45,813  INFO || - [Log] data-plane-kafka-request-handler-2 - {}", "", id="no date, no brackets"),
        pytest.param("2024-05-06T07:08:09.1Z stderr F 07:08:09.100 INFO {}", "2024-05-06 07:08:09,100", id="containerd's date"),
        pytest.param(
            "2019-01-18 22:01:00,802 INFO kafka.server.ReplicaFetcherThread: {}", "2019-01-18 22:01:00,802", id="the logger in front"
        ),
        pytest.param(
            "[2025-07-08 18:09:24,746] INFO {} (org.apache.kafka.storage.internals.log.UnifiedLog:66)",
            "2025-07-08 18:09:24,746",
            id="its line",
        ),
    ],
)
def test_layouts_of_public_logs(line: str, expected: str) -> None:
    """Layouts of logs that people published, and of the files that Kafka and Strimzi come with; the message is ours."""
    for own in (LINE, LOG_OF + "Truncating to offset 21"):
        text = line.format(own) + "\n"
        (event,) = read(text.encode())
        assert (event.topic, event.partition, event.offset, event.time) == ("orders", 0, 21, expected)
        assert looks_like_server_log(text.encode())


ANSWER = (
    FETCHER + "Based on follower's leader epoch, leader replied with an offset 21 >= the follower's log end offset 16 in a-0. No truncation"
)
ANSWER += " needed."


@pytest.mark.parametrize(
    ("before", "fields", "expected"),
    [
        pytest.param("", {"@timestamp": "2025-07-03T12:03:09.5Z", "message": "{}"}, "2025-07-03 12:03:09,500", id="logstash, ECS"),
        pytest.param(
            "", {"timeMillis": 1751544189500, "level": "INFO", "message": "{}"}, "2025-07-03 12:03:09,500", id="log4j2 JsonLayout"
        ),
        pytest.param(
            "",
            {"instant": {"epochSecond": 1751544189, "nanoOfSecond": 500_000_000}, "message": "{}"},
            "2025-07-03 12:03:09,500",
            id="instant",
        ),
        pytest.param("", {"ts": 1751544189.5, "msg": "{}"}, "2025-07-03 12:03:09,500", id="seconds"),
        pytest.param("", {"message": "{}", "loggerName": "kafka.server.X"}, "", id="no time"),
        pytest.param("", {"message": "{}", "timestamp": 1e14}, "5138-11-16 09:46:40,000", id="a time far away"),
        pytest.param("", {"message": "{}", "timestamp": 9e14}, "", id="a time that is none"),
        pytest.param(
            "", {"log": "[2025-07-03 12:03:09,500] INFO {} (x)\n", "time": "2025-07-03T10:03:10Z"}, "2025-07-03 12:03:09,500", id="Docker"
        ),
        pytest.param(
            "2025-07-03T10:03:10Z stdout F ",
            {"message": "{}", "timestamp": "2025-07-03T12:03:09.5"},
            "2025-07-03 12:03:09,500",
            id="in CRI",
        ),
        pytest.param("kafka-0  | ", {"a": {"b": [{"message": "{}"}], "timestamp": 1}}, "", id="nested"),
    ],
)
def test_json_lines(before: str, fields: dict[str, Any], expected: str) -> None:
    text = before + json.dumps(fields).replace("{}", ANSWER) + "\n"
    for line in (text, text.replace(">", "\\u003e").replace("'", "\\u0027")):  # as encoders for web pages have it
        (event,) = read(line)
        assert (event.kind, event.answered_end_offset, event.log_end_offset, event.time) == ("epoch_response", 21, 16, expected)
        assert event.text == line[:400].rstrip()


@pytest.mark.parametrize(
    "line", ['{"message": "' + LINE, '{"message": ' + "[" * 5000 + '"' + LINE + '"', '{"a": ' + "9" * 5000 + ', "b": "' + LINE + '"}']
)
def test_json_that_is_none_is_read_as_text(line: str) -> None:
    (event,) = read(line)
    assert (event.offset, event.time) == (21, "")


def test_failure_with_its_stack_trace_in_one_line() -> None:
    thrown = "kafka.common.KafkaException: Error processing data for partition orders-0 offset 16\n\tat kafka.server.x"
    (event,) = read(json.dumps({"time": f"[{TIME}]", "message": FETCHER + "Error due to", "thrown": thrown}))
    assert told(event) == of("orders", 0, "fetcher_failed", **FROM_LEADER, offset=16)


def test_thread_name_tells_the_leader() -> None:
    (event,) = read(f"{TIME} INFO {LOG_OF}Truncating to offset 3 (kafka.log.Log) [ReplicaFetcherThread-0-2]\n")
    assert event.leader_id == 2


def test_places_in_the_text() -> None:
    padding = [
        b"\xff\xfe\x00 no text at all",
        b"",
        b"x" * 700_000,
        b"[2026-11-21 06:36:15,750] INFO starting (kafka.server.KafkaServer)",
        b"\tat x",
    ]
    lines = []
    for number in range(40):
        lines += [*padding, f"[{TIME}] INFO {LOG_OF}Truncating to offset {number}".encode()]
    content = b"\n".join(lines)
    found = read(content)
    assert [event.offset for event in found] == list(range(40))
    for event in found:
        assert lines[event.line - 1].decode() == event.text
        assert content[event.byte_offset :].startswith(event.text.encode())


def test_lines_without_end_are_cut() -> None:
    """What is far behind the beginning of a line of megabytes is not found, and nothing behind that line is lost."""
    line = f"[{TIME}] INFO {LOG_OF}Truncating to offset 5 "
    content = (line + "y" * 3_000_000 + line + "\n" + line + "\n").encode()
    assert [(event.line, event.byte_offset) for event in read(content)] == [(1, 0), (2, len(content) - len(line) - 1)]
    assert read("z" * 5_000_000) == []


def test_a_stream_that_gives_little_at_a_time() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(7)

    line = f"[{TIME}] INFO {LOG_OF}Truncating to offset 5\n".encode()
    assert list(events(Slow(line * 50), "p")) == [event._replace(path="p") for event in read(line * 50)]
    assert [event.line for event in read(line * 50)] == list(range(1, 51))


def test_memory_is_bounded() -> None:
    line = f"[{TIME}] INFO {LOG_OF}Rolled new log segment at offset 5 in 1 ms. (kafka.log.Log)\n".encode()
    content = io.BytesIO(line * 200_000 + b"q" * 20_000_000)
    tracemalloc.start()
    assert not list(events(content))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000


@pytest.mark.parametrize(
    ("line", "seconds_at_most"),
    [
        pytest.param(b"a" * 1490 + b" starts at " + b"a" * 1480 + b"\n", 8, id="one long word"),
        pytest.param(
            b"ReplicaFetcher leaderEpoch response " + b"EpochEndOffset(errorCode=0, partition=x" * 70 + b"\n", 8, id="a list of answers"
        ),
        pytest.param(b"[UnifiedLog partition=a-0, dir=" * 90 + b"Truncating to offset x\n", 8, id="one beginning after the other"),
        pytest.param(
            b"ReplicaFetcherManager Added fetcher " + b" -> InitialFetchState(BrokerEndPoint" * 70 + b"\n", 8, id="a list of beginnings"
        ),
    ],
)
def test_lines_that_are_made_to_be_slow(line: bytes, seconds_at_most: int) -> None:
    began = time.process_time()
    assert read(line * 300) == []
    assert time.process_time() - began < seconds_at_most


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param(f"[{TIME}] INFO starting (kafka.server.KafkaServer)\n", True, id="the beginning of a log"),
        pytest.param(f"\tat x(y)\n\n[{TIME}] INFO {LOG_OF}Rolled new log segment (org.apache.kafka.x)\n", True, id="the middle of one"),
        pytest.param(
            '{"@timestamp":"2026-11-21T06:36:15.750Z","logger":"kafka.server.KafkaServer","message":"started"}\n', True, id="JSON"
        ),
        pytest.param(f"[{TIME}] INFO [Broker id=2] Follower x (state.change.logger)", True, id="state changes"),
        pytest.param(
            "STRIMZI_BROKER_ID=0\nPreparing truststore\n2025-07-03 12:03:09 INFO  [main] KafkaRaftServer:66 - x\n", True, id="Strimzi"
        ),
        pytest.param('{"timeMillis":1751544189500,"loggerName":"kafka.log.LogManager","message":"x"}\n', True, id="JSON, a number"),
        pytest.param('{"instant":{"epochSecond":1751544189},"message":"[BrokerServer id=1] x"}\n', True, id="JSON, an instant"),
        pytest.param("[12:32:24,676] INFO [BrokerLifecycleManager id=1] x (x)\n", True, id="no date"),
        pytest.param("INFO [BrokerLifecycleManager id=1] x\n", False, id="no time"),
        pytest.param("12:03:09 INFO [main] MyServer:66 - KafkaServer:9092 is up\n", False, id="an application's"),
        pytest.param("2025-07-03 12:03:09 INFO  Partition:66 - [Consumer clientId=x] y\n", False, id="a client's short name"),
        pytest.param("127.0.0.1:10:20:30 [BrokerServer id=1]\n", False, id="an address"),
        pytest.param("", False, id="nothing"),
        pytest.param("Dumping /data/orders-0/00000000000000000000.log\nLog starting offset: 0\n", False, id="a dump"),
        pytest.param("#\n#Sat Nov 21 06:36:15 UTC 2026\nlog.dirs=/kafka.log.x\n", False, id="properties"),
        pytest.param(
            f'{{\n  "lines": [\n    "[{TIME}] INFO starting (kafka.server.KafkaServer)"\n  ]\n}}\n', False, id="lines quoted elsewhere"
        ),
        pytest.param(f"[{TIME}] INFO [Consumer clientId=c] Resetting (org.apache.kafka.clients.consumer.x)\n", False, id="a client"),
        pytest.param(f"[{TIME}] INFO starting (kafka.server.KafkaServer)\n\0", False, id="binary"),
    ],
)
def test_what_looks_like_a_server_log(head: str, expected: bool) -> None:
    assert looks_like_server_log(head.encode()) is expected


def test_logs_of_real_brokers() -> None:
    """Every line that has a truncation's number in it is read, in every log; held against a plain search line by line."""
    seen = 0
    for path in sorted(SHARED.glob("*/broker-logs/*.log")):
        content = path.read_bytes()
        assert not content or looks_like_server_log(content[:8192])
        found = read(content)
        lines = content.split(b"\n")
        for event in found:
            assert lines[event.line - 1].decode()[:400].rstrip() == event.text
            assert event.time
        plain = [
            i
            for i, line in enumerate(lines, 1)
            if re.search(rb"Truncat(ing|e fully) .*\d|set fetch offset for partition|processing data", line)
        ]
        told_by = {event.line for event in found}
        assert set(plain) <= told_by, path
        seen += len(found)
    assert seen > 2500 or not SHARED.is_dir()
