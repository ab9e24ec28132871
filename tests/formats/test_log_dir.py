"""What the names in a log directory say. Rules: LocalLog.parseTopicPartitionName, LogLoader, LogFileUtils and Snapshots of Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.names import (
    ReplicaDirectory,
    SegmentName,
    is_broker_folder,
    is_cleaned,
    is_known,
    replica_directory,
    segment_name,
)

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
HEX = "0d02eb550ef647d8a7344545600c601f"
INT32_LAST = 2**31 - 1


@pytest.mark.parametrize(
    ("name", "topic", "partition", "state"),
    [
        ("orders-0", "orders", 0, "current"),
        ("a-b-c-12", "a-b-c", 12, "current"),
        ("a.b_c-d.1-0-7", "a.b_c-d.1-0", 7, "current"),
        ("1-2", "1", 2, "current"),
        ("a-1-0", "a-1", 0, "current"),
        ("orders--1", "orders-", 1, "current"),
        ("--0", "-", 0, "current"),
        ("__consumer_offsets-49", "__consumer_offsets", 49, "current"),
        ("__cluster_metadata-0", "__cluster_metadata", 0, "current"),
        (f"orders-{INT32_LAST}", "orders", INT32_LAST, "current"),
        # topics whose names look like suffixes: rules for suffixes are about whole names
        ("x-delete-0", "x-delete", 0, "current"),
        ("x-future-1", "x-future", 1, "current"),
        ("x-stray-2", "x-stray", 2, "current"),
        (f"x-1.{HEX}-delete-0", f"x-1.{HEX}-delete", 0, "current"),
        ("a.b-delete-3", "a.b-delete", 3, "current"),
        # set aside
        (f"orders-0.{HEX}-delete", "orders", 0, "deleted"),
        (f"orders-11.{HEX}-future", "orders", 11, "future"),
        (f"orders-0.{HEX}-stray", "orders", 0, "stray"),
        (f"a.b-c.d-e-5.{HEX}-delete", "a.b-c.d-e", 5, "deleted"),
        (f"x-delete-0.{HEX}-delete", "x-delete", 0, "deleted"),
        (f"x-delete-0.{HEX}-future", "x-delete", 0, "future"),
        (f"a-1.b-2.{HEX}-stray", "a-1.b", 2, "stray"),
        ("orders-0.0d02eb55-0ef6-47d8-a734-4545600c601f-delete", "orders", 0, "deleted"),  # what follows the last dot does not matter
    ],
)
def test_replica_directories(name: str, topic: str, partition: int, state: str):
    assert replica_directory(name) == ReplicaDirectory(topic, partition, state)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "orders",
        "orders-",
        "-0",
        "orders-zero",
        "orders-0a",
        "orders-0 ",
        "orders-\N{SUPERSCRIPT TWO}",
        "orders-\N{ARABIC-INDIC DIGIT THREE}",
        "orders-1.0",
        "orders-delete",  # a suffix without the rest: Kafka refuses the directory
        "orders-0-delete",
        "orders-0-future",
        f"orders.{HEX}-delete",
        f"orders-x.{HEX}-delete",
        f"orders-0.a.{HEX}-delete",  # only what follows the last dot is dropped
        f"orders-0.{HEX}-deleted",
        f"orders-0.{HEX}-delete ",
        f"my orders-0.{HEX}-delete",  # the pattern takes no blanks
        "lost+found",
        ".snapshot",
        "remote-log-index-cache",
        "orders-0.bak",
        "orders-0~",
        "orders-0 (copy)",
        "._orders-0.",
    ],
)
def test_directories_that_are_no_replicas(name: str):
    assert replica_directory(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("orders-2147483648", "orders-0-20261121120000", f"orders-99999999999.{HEX}-stray", "orders-" + "9" * 200),
        *("orders-" + "0" * 30 + "2147483648", "orders-" + "0" * 12 + "9" * 5000),  # found by mutation
    ],
)
def test_a_number_that_no_partition_can_have(name: str):
    """Integer.parseInt refuses it, and so does every table of the audit: a dated copy must not end the run."""
    assert replica_directory(name) is None


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,200}", fullmatch=True), st.integers(0, INT32_LAST))
def test_every_topic_is_found_in_the_names_that_kafka_gives_it(topic: str, partition: int):
    for suffix, state in (("delete", "deleted"), ("future", "future"), ("stray", "stray")):
        assert replica_directory(f"{topic}-{partition}.{HEX}-{suffix}") == ReplicaDirectory(topic, partition, state)
    assert replica_directory(f"{topic}-{partition}") == ReplicaDirectory(topic, partition, "current")


@given(st.text(max_size=60))
def test_any_name_is_judged(name: str):
    found = replica_directory(name)
    assert found is None or (found.topic and 0 <= found.partition <= INT32_LAST)
    segment = segment_name(name)
    assert segment is None or segment.base_offset >= 0
    broker = is_broker_folder(name)
    assert broker is None or 0 <= broker <= INT32_LAST
    assert isinstance(is_known(name), bool)
    is_cleaned(name)


# --- segments ---


@pytest.mark.parametrize(
    ("name", "base", "suffix"),
    [
        ("00000000000000000000.log", 0, ""),
        ("00000000000000001234.log", 1234, ""),
        ("09223372036854775807.log", 2**63 - 1, ""),
        ("00000000000000000007.log.swap", 7, ".swap"),
        ("00000000000000000007.log.cleaned", 7, ".cleaned"),
        ("00000000000000000007.log.deleted", 7, ".deleted"),
    ],
)
def test_segments(name: str, base: int, suffix: str):
    assert segment_name(name) == SegmentName(base, suffix)
    assert is_known(name)


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.index",
        "00000000000000000000.log.gz",
        "00000000000000000000.log.swap.swap",
        "00000000000000000000.log.SWAP",
        "00000000000000000000.log~",
        "00000000000000000000.LOG",
        "._00000000000000000000.log",
        " 00000000000000000000.log",
        "0000000000000000000x.log",
        "-0000000000000000001.log",
        "00000000000000000000",
        "00000000000000000000.txt",
        "server.log",
        "",
    ],
)
def test_files_that_are_no_segments(name: str):
    assert segment_name(name) is None


@pytest.mark.parametrize("name", ["09223372036854775808.log", "99999999999999999999.log", "99999999999999999999.log.swap"])
def test_a_base_offset_that_no_log_can_have(name: str):
    """Long.parseLong refuses it, and no table of the audit can hold it."""
    assert segment_name(name) is None


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("00000000000000000042.log.cleaned", 42),
        ("00000000000000000042.index.cleaned", 42),  # KAFKA-6264: any file counts, not only the log
        ("00000000000000000042.timeindex.cleaned", 42),
        ("00000000000000000042.txnindex.cleaned", 42),
        ("00000000000000000042.log", None),
        ("00000000000000000042.log.swap", None),
        ("00000000000000000042.cleaned.bak", None),
        ("notes.cleaned", None),
        (".cleaned", None),
        ("\N{SUPERSCRIPT TWO}" * 20 + ".log.cleaned", None),
    ],
)
def test_cleaned_files(name: str, base: int | None):
    assert is_cleaned(name) == base


# --- known and unknown ---

SNAPSHOT = "00000000000000000148-0000000002.checkpoint"


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "partition.metadata",
        "leader-epoch-checkpoint",
        "replication-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        ".kafka_cleanshutdown",
        ".lock",
        "quorum-state",
        "bootstrap.checkpoint",
        "cluster-metadata.json",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000042.snapshot",
        "00000000000000000042.snapshot.deleted",
        "00000000000000000000.index.swap",
        "00000000000000000000.timeindex.cleaned",
        "00000000000000000000.txnindex.deleted",
        SNAPSHOT,
        f"{SNAPSHOT}.part",
        f"{SNAPSHOT}.deleted",
        "leader-epoch-checkpoint.tmp",
        "replication-offset-checkpoint.tmp",
        "recovery-point-offset-checkpoint.tmp",
        "partition.metadata.tmp",
        "meta.properties.tmp",
        "quorum-state.tmp",
    ],
)
def test_files_that_belong_in_a_log_directory(name: str):
    assert is_known(name)


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        "._leader-epoch-checkpoint",
        "._00000000000000000000.log",
        "leader-epoch-checkpoint.bak",
        "leader-epoch-checkpoint~",
        "Leader-Epoch-Checkpoint",
        "notes.tmp",
        "data.tar",
        "broker-1.tar.gz",
        "node_exporter.prom",
        "00000000000000000000.log.gz",
        "00000000000000000000.txt",
        f"{SNAPSHOT}.bak",
        "1-2.checkpoint",
        "core.4711",
        "",
    ],
)
def test_files_that_do_not(name: str):
    assert not is_known(name)


def test_every_file_of_the_sample_is_known():
    names = {path.name for path in SAMPLE.rglob("*") if path.is_file()}
    assert not [name for name in names if not is_known(name) and not log_dir.is_server_log(name)]
    assert {log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA, log_dir.CLEAN_SHUTDOWN} <= names


# --- brokers' folders ---


@pytest.mark.parametrize(
    ("name", "broker"),
    [
        ("broker-3", 3),
        ("broker=3", 3),
        ("broker_3", 3),
        ("broker3", 3),
        ("3", 3),
        ("0", 0),
        ("broker-0", 0),
        ("broker-1001", 1001),
        ("broker-007", 7),
        (str(INT32_LAST), INT32_LAST),
        ("broker-", None),
        ("broker", None),
        ("", None),
        ("broker--3", None),
        ("-3", None),
        ("+3", None),
        ("3.5", None),
        ("broker-3.bak", None),
        ("broker-3.tar", None),
        ("broker-3 (copy)", None),
        ("broker-3-data", None),
        ("3\n", None),
        ("kafka-3", None),
        ("data-0", None),
        ("kafka-logs-1", None),
        ("orders-0", None),
    ],
)
def test_broker_folders(name: str, broker: int | None):
    assert is_broker_folder(name) == broker


@pytest.mark.parametrize("name", ["2147483648", "broker-9999999999", "20261121120000"])
def test_a_number_that_no_broker_can_have(name: str):
    assert is_broker_folder(name) is None


@pytest.mark.parametrize("digits", ["0" * 40 + "7", "0" * 5000 + "7"])
def test_leading_zeros_without_end_are_a_number_all_the_same(digits):
    """As for Integer.parseInt; a text of kafka-dump-log can name such a directory, though no disk can have it."""
    assert replica_directory(f"orders-{digits}") == ReplicaDirectory("orders", 7, "current")
    assert replica_directory("orders-" + "0" * 5000) == ReplicaDirectory("orders", 0, "current")
