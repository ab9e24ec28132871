"""Incidents of a partition by its brokers' logs: each once, whatever number of lines shows it."""

from __future__ import annotations

import io

from replica_audit.formats.server_log.events import events
from replica_audit.protocol.verdict.partition_findings import IncidentKind, incidents

BELOW = "WARN [UnifiedLog partition=a-0, dir=/d] Truncating a-0 to offset 10 below high watermark 30 (x)"
FELL = (
    "WARN [UnifiedLog partition=a-0, dir=/d] Non-monotonic update of high watermark from (offset=30, segment=[0:1420]) to (offset=10, "
    "segment=[0:363]) (x)"
)
LOADED = "INFO Completed load of Log(dir=/d/a-0, topicId=x, topic=a, partition=0, logStartOffset=0, logEndOffset=10) with 1 segments (x)"
REFUSED = (
    "FATAL [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Exiting because log truncation is not allowed for partition a-0, current "
    "leader's latest offset 2051 is less than replica's latest offset 2391 (x)"
)
UNCLEAN = (
    "INFO [QuorumController id=1] UNCLEAN partition change for a-0 with topic ID iQ1IZhmFTn61SqxfoQwKkQ: isr: [1] -> [2], leader: 1 -> 2, "
    "leaderEpoch: 2 -> 3 (x)"
)
ZOOKEEPER = "WARN [X]: No broker in ISR is alive for [a,0]. Elect leader 2 from live brokers 2,3. There's potential data loss. (x)"


def found(*lines: str, broker_id: int | None = 2) -> list[tuple[str, int | None, int | None, int | None, int | None, int]]:
    text = "".join(f"[2026-01-02 03:04:{second:02d},000] {line}\n" for second, line in enumerate(lines))
    of_broker = [event._replace(broker_id=broker_id) for event in events(io.BytesIO(text.encode()), "p")]
    return [(one.kind, one.truncation_offset, one.end_offset, one.leader_id, one.leader_epoch, one.line) for one in incidents(of_broker)]


REMOVED = IncidentKind.REMOVED_BELOW_HIGH_WATERMARK


def test_one_truncation_has_up_to_two_lines() -> None:
    assert found(BELOW, FELL) == [(REMOVED, 10, 30, None, None, 1)]
    assert found(FELL) == [(REMOVED, 10, 30, None, None, 1)]
    assert found(BELOW) == [(REMOVED, 10, 30, None, None, 1)]


def test_another_of_the_same_offsets_comes_after_a_change_of_the_replica() -> None:
    assert found(BELOW, FELL, LOADED, FELL) == [(REMOVED, 10, 30, None, None, 1), (REMOVED, 10, 30, None, None, 4)]
    assert [one[-1] for one in found(FELL, FELL.replace("=30", "=31"), FELL.replace("=10", "=11"))] == [1, 2, 3]


def test_a_broker_that_crashes_again_and_again_refused_once() -> None:
    assert found(REFUSED, LOADED, REFUSED) == [(IncidentKind.TRUNCATION_REFUSED, 2051, 2391, 1, None, 1)]


def test_a_controller_logs_an_election_whenever_it_reads_its_log() -> None:
    assert found(UNCLEAN, LOADED, UNCLEAN) == [(IncidentKind.UNCLEAN_ELECTION, None, None, 2, 3, 1)]
    assert len(found(UNCLEAN, UNCLEAN.replace("2 -> 3", "4 -> 5"))) == 2
    assert [one[-1] for one in found(ZOOKEEPER, ZOOKEEPER)] == [1, 2], "without an epoch the time tells them apart"


def test_other_lines_are_no_incident() -> None:
    assert not found(LOADED, "INFO [UnifiedLog partition=a-0, dir=/d] Truncating to offset 10 (x)")
    assert incidents([]) == []
