"""Text of kafka-dump-log with --cluster-metadata-decoder tells what the segments themselves tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from replica_audit.errors import MetadataError
from replica_audit.formats.dump.dump_log import sections
from replica_audit.formats.metadata import metadata_log
from replica_audit.formats.metadata.metadata_log import read_text
from replica_audit.formats.metadata.metadata_records import decode, decode_json
from replica_audit.model import SegmentFile
from tests.formats import metadata_files as mf
from tests.formats.metadata_texts import Record, shown, written

PARTITION: dict[str, Any] = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
NAMED: dict[str, Any] = {"partitionId": 0, "topicId": mf.TOPIC_ID}
BROKER: dict[str, Any] = {"incarnationId": mf.OTHER_ID, "fenced": False, "inControlledShutdown": False}
LOG: list[list[Record]] = [
    [("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 25}), ("NO_OP_RECORD", {})],
    [("REGISTER_BROKER_RECORD", {"brokerId": broker, "brokerEpoch": broker} | BROKER) for broker in (1, 2, 3)],
    [("TOPIC_RECORD", {"name": "orders", "topicId": mf.TOPIC_ID}), ("PARTITION_RECORD", NAMED | PARTITION | {"directories": []})],
    [("CONFIG_RECORD", {"resourceType": 2, "resourceName": "orders", "name": "cleanup.policy", "value": "compact"})],
    [("PARTITION_CHANGE_RECORD", NAMED | {"isr": [2, 3], "leader": 2})],
    [("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 1, "brokerEpoch": 1, "fenced": 1})],
    [("BEGIN_TRANSACTION_RECORD", {}), ("PARTITION_CHANGE_RECORD", NAMED | {"isr": [3], "leader": 3}), ("ABORT_TRANSACTION_RECORD", {})],
    [("PARTITION_CHANGE_RECORD", NAMED | {"isr": [2], "eligibleLeaderReplicas": [3], "lastKnownElr": [1]})],
]
OTHERS: list[Record] = [
    ("UNREGISTER_BROKER_RECORD", {"brokerId": 3, "brokerEpoch": 9}),
    ("FENCE_BROKER_RECORD", {"id": 2, "epoch": 7}),
    ("UNFENCE_BROKER_RECORD", {"id": 2, "epoch": 7}),
    ("REMOVE_TOPIC_RECORD", {"topicId": mf.TOPIC_ID}),
    ("CLEAR_ELR_RECORD", {"topicName": "orders"}),
    ("PARTITION_RECORD", NAMED | PARTITION | {"removingReplicas": [1], "addingReplicas": [4], "leaderRecoveryState": 1, "directories": []}),
    ("PARTITION_CHANGE_RECORD", NAMED | {"leader": -1, "isr": [], "leaderRecoveryState": 0}),
    ("PARTITION_CHANGE_RECORD", NAMED | {"replicas": [1, 2], "removingReplicas": [3], "addingReplicas": []}),
    ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 1, "brokerEpoch": 1, "fenced": -1}),
    ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 1, "brokerEpoch": 1, "inControlledShutdown": 1}),
    ("CONFIG_RECORD", {"resourceType": 4, "resourceName": "", "name": "min.insync.replicas", "value": None}),
    ("END_TRANSACTION_RECORD", {}),
    ("PRODUCER_IDS_RECORD", {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 1000}),
]


@pytest.mark.parametrize(("kind", "values"), [*(record for batch in LOG for record in batch), *OTHERS])
def test_each_record_is_the_same_as_from_its_bytes(kind: str, values: dict[str, Any]) -> None:
    assert decode_json(shown(kind, values)) == decode(mf.record(kind, **values))


@pytest.mark.parametrize(
    "content",
    [
        '{"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topi',
        "Error at 7, skipping. null",
        '{"type":"TOPIC_RECORD","version":0,"data":{"name":"orders"}}',
        '{"type":"PARTITION_RECORD","version":0,"data":{"partitionId":"0"}}',
        '{"type":"PARTITION_CHANGE_RECORD","version":0,"data":{"partitionId":0,"topicId":"x","isr":["1"]}}',
        '{"type":"PARTITION_CHANGE_RECORD","version":0,"data":{"partitionId":0,"topicId":"x","leader":99999999999}}',
        "[]",
        '{"type":"TOPIC_RECORD","version":0,"data":{"name":"\\ud800","topicId":"x"}}',
        '{"type":"TOPIC_RECORD","data":[]}',
    ],
)
def test_what_is_not_a_record_is_refused(content: str) -> None:
    with pytest.raises(MetadataError):
        decode_json(content)


def of_text(path: Path, text: str) -> metadata_log.MetadataLog:
    path.write_text(text)
    with path.open("rb") as stream:
        found = list(sections(stream))
    files = [
        SegmentFile(
            path=str(path),
            source="dump",
            base_offset=one.segment_base_offset or 0,
            size_bytes=one.byte_end - one.byte_start,
            byte_start=one.byte_start,
            byte_end=one.byte_end,
            first_line=one.first_line,
        )
        for one in found
    ]
    return read_text(path.parent, files)


@pytest.mark.parametrize("with_offsets", [True, False])
def test_a_text_says_what_the_segment_says(tmp_path: Path, *, with_offsets: bool) -> None:
    segment, text = written(tmp_path / "__cluster_metadata-0", LOG, with_offsets=with_offsets)
    told = of_text(tmp_path / "dump.txt", text)
    assert told == metadata_log.read(segment.parent)
    (partition,) = told.partitions
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.elr, partition.compacted) == (2, 1, (2,), (3,), True)
    assert told.problems == ()


def test_one_that_begins_later_says_nothing(tmp_path: Path) -> None:
    _segment, text = written(tmp_path / "__cluster_metadata-0", LOG)
    last = text[text.rindex("baseOffset: ") :]
    later = f"Dumping {tmp_path}/__cluster_metadata-0/00000000000000000009.log\nLog starting offset: 9\n" + re.sub(
        r"position: \d+", "position: 0", last
    )
    told = of_text(tmp_path / "dump.txt", later)
    assert (told.partitions, [problem.code for problem in told.problems]) == ((), ["incomplete"])


def test_one_without_the_decoder_is_named(tmp_path: Path) -> None:
    _segment, text = written(tmp_path / "__cluster_metadata-0", LOG, decoded=False)
    told = of_text(tmp_path / "dump.txt", text)
    assert (told.partitions, [problem.code for problem in told.problems]) == ((), ["metadata-not-used"])


@pytest.mark.parametrize("cut", [-1, -5, -60, -200])
def test_a_record_that_is_cut_ends_what_is_read(tmp_path: Path, cut: int) -> None:
    _segment, text = written(tmp_path / "__cluster_metadata-0", LOG)
    told = of_text(tmp_path / "dump.txt", text[: cut - 1] + "\n")
    assert [partition.isr for partition in told.partitions] == [(2, 3)]
