"""What the audit says of diverged replicas is what real brokers then do; the same bytes, the same batches, the same consumers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader
from tests.kafka_lab import consumers
from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.dump_tool import Row, dump
from tests.kafka_lab.history import draw
from tests.kafka_lab.perform import come_back
from tests.kafka_lab.predict import predict_in
from tests.kafka_lab.snapshot import copy_all
from tests.support import in_process

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.nightly]
_PARTITIONS = 12
_SEEDS = {"4.3": 217, "3.9": 266}  # each leaves transactions hanging


def test_brokers_truncate_as_predicted(lab: Lab, tmp_path: Path) -> None:
    result = predict_in(lab, draw(_SEEDS[lab.line], _PARTITIONS), keep=tmp_path)
    assert not result.differences
    assert len(result.partitions) == _PARTITIONS
    assert sum(result.cuts.values()) > result.cuts[0], "no follower was truncated"
    assert result.transactions["hanging"] > 0, "no transaction lost its marker"


def test_batches_are_those_that_kafkas_tool_prints(lab: Lab, tmp_path: Path) -> None:
    """After the truncations above; every segment of every broker, the internal topics and the metadata log, too."""
    root = copy_all(lab, tmp_path / "copy")
    segments = sorted(path for path in root.glob("broker-*/data-*/*/*.log") if path.stat().st_size)
    printed = dump(lab, segments)
    compared = 0
    for segment in segments:
        found = list(read_batches(segment))
        assert [_told(batch) for batch in found if isinstance(batch, BatchHeader)] == [_by_the_tool(row) for row in printed[segment]], (
            segment
        )
        compared += len(found)
    assert compared > 100


def _told(batch: BatchHeader) -> tuple[object, ...]:
    return (
        (batch.base_offset, batch.last_offset, batch.record_count, batch.leader_epoch, batch.position, batch.size_bytes, batch.magic),
        (batch.crc, batch.crc_valid, batch.codec, batch.is_transactional, batch.is_control, batch.max_timestamp_ms),
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
    )


def _by_the_tool(row: Row) -> tuple[object, ...]:
    time_ms = int(row.get("CreateTime") or row["LogAppendTime"])
    names = ("baseOffset", "lastOffset", "count", "partitionLeaderEpoch", "position", "size", "magic")
    return (
        tuple(int(row[name]) for name in names),
        (
            int(row["crc"]),
            row["isvalid"] == "true",
            row["compresscodec"],
            *(row[n] == "true" for n in ("isTransactional", "isControl")),
            int(time_ms),
        ),
        tuple(int(row[name]) for name in ("producerId", "producerEpoch", "baseSequence")),
    )


@pytest.mark.parametrize("lab", ["4.3"], indirect=True)
def test_groups_find_what_the_audit_says(lab: Lab, tmp_path: Path) -> None:
    consumed = consumers.perform(lab)
    time.sleep(1)
    tables = in_process.audit(copy_all(lab, tmp_path / "copy"))
    impacts = [row for row in tables["consumer_impacts"] if row["topic"] == consumers.TOPIC]
    assert {(row["group_id"], row["partition"]) for row in impacts} == {(g, p) for g in consumers.GROUPS for p in consumers.HISTORIES}
    assert {row["validation_result"] for row in impacts} >= {"truncated", "valid", "not-validated"}
    content = consumers.resume(lab, None, "earliest")
    wrong = []
    for group in consumers.GROUPS:
        by_policy = {policy: consumers.resume(lab, group, policy) for policy in ("earliest", "latest", "none")}
        for row in (row for row in impacts if row["group_id"] == group):
            partition = row["partition"]
            seen = {policy: found[partition] for policy, found in by_policy.items()}
            wrong += [
                f"{group} {partition}: {text}" for text in consumers.differences(row, consumed[group][partition], content[partition], seen)
            ]
        expected = sum(len(one.records) for one in by_policy["earliest"].values())
        java = consumers.resume_in_java(lab, group, "earliest", expected) if group.endswith("all") else {}
        for partition, offsets in java.items():
            if offsets != sorted(by_policy["earliest"][partition].records):
                wrong.append(f"{group} {partition}: Kafka's own client reads {offsets}")
    come_back(lab, lab.brokers[1])
    lab.wait_in_sync(consumers.TOPIC)
    assert not wrong
