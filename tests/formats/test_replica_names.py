"""Which names of folders and files say a TOPIC-PARTITION, and which as well say something else."""

from __future__ import annotations

import pytest

from replica_audit.formats.dump import dump_texts


@pytest.mark.parametrize(
    "name", ["orders-0", "__consumer_offsets-12", "a.b_c-d-7", "audit-log-3", "kafkaesque-1", "data.orders-0", "test-0", "node_events-2"]
)
def test_names_of_replicas(name: str) -> None:
    found = dump_texts.of_folder(name)
    assert found is not None
    assert f"{found.topic}-{found.partition}" == name


@pytest.mark.parametrize(
    "name",
    [
        *("broker-1", "node-3", "kafka-0", "Kafka-0", "data-0", "kafka-logs-1", "kafka-log-0", "host-12", "controller-2"),
        *("my-cluster-kafka-0", "my-cluster-dual-role-1", "data-my-cluster-kafka-0", "prod-broker-3", "ip-10-0-0-12", "pvc-7"),
        *("dump-1", "dumps-2", "segment-1", "leader-1", "copy-2", "backup-20261120", "2026-11-20", "2026-11", "orders-20261120"),
        *("partition-0", "part-1", "p-0", "disk-1", "zone-a", "orders", "orders-", "-0", "a b-0"),
    ],
)
def test_names_that_are_of_something_else_as_well(name: str) -> None:
    assert dump_texts.of_folder(name) is None


@pytest.mark.parametrize(
    ("name", "replica", "base_offset"),
    [
        ("orders-0", "orders-0", None),
        ("orders-0.txt", "orders-0", None),
        ("orders-0.dump.txt.gz", "orders-0", None),
        ("a.b-12.log", "a.b-12", None),
        ("orders-0-00000000000000000042.txt", "orders-0", 42),
        ("orders-0.00000000000000000042.log", "orders-0", 42),
        ("00000000000000000042.txt", None, 42),
        ("broker-1.txt", None, None),
        ("dump-1.txt", None, None),
        ("kafka-0.log", None, None),
        ("text", None, None),
    ],
)
def test_names_of_files(name: str, replica: str | None, base_offset: int | None) -> None:
    assert (dump_texts.of_file(name), dump_texts.segment_of_file(name)) == (replica, base_offset)
