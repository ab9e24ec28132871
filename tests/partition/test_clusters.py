"""What brokers do, where a file and the metadata log both tell of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_audit.config import Settings
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.model import BrokerStanding, MetadataCopy
from replica_audit.partition.known.cluster_facts import cluster_facts

HEAD = ClusterMetadata(
    cluster_id="abc",
    captured_at_ms=1_000,
    kafka_version="4.2.0",
    inter_broker_protocol=None,
    metadata_version=29,
    broker_states={1: "down", 2: "up", 3: "paused", 4: "unknown"},
)


def states(head: ClusterMetadata | None, *log: tuple[int, str, int]) -> dict[int, str]:
    brokers = tuple(BrokerStanding(broker, fenced=False, state=state, changed_ms=changed_ms) for broker, state, changed_ms in log)
    copy = MetadataCopy(metadata_version=29, log_epoch=1, log_end_offset=9, brokers=brokers)
    return dict(cluster_facts(head, [copy], Settings()).broker_states)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ((1, "up", 999), "down"),  # it died, and the controller has not noticed
        ((1, "up", 1_000), "down"),
        ((1, "up", 1_001), "up"),
        ((1, "starting", 1_001), "up"),
        ((2, "stopped", 999), "up"),
        ((2, "stopped", 1_001), "stopped"),
        ((3, "up", 999), "paused"),
        ((3, "fenced", 1_001), "paused"),  # the log does not tell frozen ones from dead ones
        ((4, "stopping", 1), "up"),  # the file does not know
    ],
)
def test_the_newer_of_file_and_log(log: tuple[int, str, int], expected: str) -> None:
    assert states(HEAD, log)[log[0]] == expected


def test_a_file_without_a_time_is_not_older() -> None:
    assert states(replace(HEAD, captured_at_ms=None), (1, "up", 5_000))[1] == "down"


def test_without_a_file_the_log_tells_what_it_knows() -> None:
    assert states(None, (1, "up", 1), (2, "fenced", 1), (3, "stopped", 1)) == {1: "up", 3: "stopped"}


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_copies_the_one_counts_that_reaches_farthest(order: int) -> None:
    shorter, longer, of_earlier_epoch = (
        MetadataCopy(
            metadata_version=29,
            log_epoch=epoch,
            log_end_offset=end,
            brokers=(BrokerStanding(1, fenced=False, state=state, changed_ms=1),),
        )
        for epoch, end, state in [(3, 9, "up"), (3, 10, "stopped"), (2, 99, "up")]
    )
    facts = cluster_facts(None, [shorter, longer, of_earlier_epoch][::order], Settings())
    assert (dict(facts.broker_states), facts.metadata_log_end) == ({1: "stopped"}, (3, 10))
