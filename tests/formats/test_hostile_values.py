"""One hostile value in one file: a problem that names it, and whatever else stands there counts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from replica_audit.errors import MetadataError
from replica_audit.files.tree_walk import Folder
from replica_audit.formats.collection import manifest
from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir.server_properties import properties
from replica_audit.formats.log_dir.small_files import SmallFiles
from replica_audit.formats.metadata import cluster_metadata, metadata_log
from replica_audit.model import LoggedVersions, Problem
from replica_audit.protocol.cluster.metadata_image import MetadataImage, PartitionChanged, PartitionSet, Position, TopicCreated
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.stages.server_logs import read_log
from tests.formats import metadata_files as mf
from tests.formats import record_files

FOLLOWER = (
    "[2026-01-02 03:04:05,678] INFO [Broker id=1] Follower orders-0 starts at leader epoch {} from offset 12 with partition epoch 4 and "
    "high watermark 12. Current leader is 2. (state.change.logger)\n"
)


def server_log(path: Path, *epochs: int) -> list[LogEvent | Problem]:
    path.write_text("".join(FOLLOWER.format(epoch) for epoch in epochs), encoding="ascii")
    return [one for one in read_log(path, 1) if not isinstance(one, LoggedVersions)]


def test_an_epoch_beyond_int32_in_a_server_log_costs_its_line(tmp_path: Path):
    found = server_log(tmp_path / "server.log", 4, 2**31, 2**31 - 1)
    assert [one.leader_epoch for one in found if isinstance(one, LogEvent)] == [4, 2**31 - 1]
    (problem,) = [one for one in found if isinstance(one, Problem)]
    assert (problem.code, problem.line) == ("impossible-epoch", 2)
    assert problem.detail == "leader epoch 2147483648 is not valid: the line is left out"


def test_of_many_such_lines_the_first_are_told(tmp_path: Path):
    found = server_log(tmp_path / "server.log", *[10**12] * 300, 7)
    problems = [one for one in found if isinstance(one, Problem)]
    assert len(problems) == 21
    assert problems[-1].detail == "280 more lines have impossible epochs"
    assert [one.leader_epoch for one in found if isinstance(one, LogEvent)] == [7]


def test_no_leader_epoch_follows_the_last_one():
    image = MetadataImage()
    at = Position(1, 1, 1)
    image.apply(TopicCreated("orders", mf.TOPIC_ID), at)
    image.apply(PartitionSet(0, mf.TOPIC_ID, (1, 2), (1, 2), 1, 2**31 - 2, 0, False, (), ()), at)
    changed = PartitionChanged(0, mf.TOPIC_ID, None, 2, None, None, None, None)
    image.apply(changed, at)
    with pytest.raises(OverflowError, match="no leader epoch follows 2147483647"):
        image.apply(changed, at)
    (partition,) = image.partitions(1, 2)
    assert partition.leader_epoch == 2**31 - 1


@pytest.mark.parametrize("name", ["99999999999999999999-0000000001.checkpoint", "00000000000000000007-9999999999.checkpoint"])
def test_the_name_of_a_snapshot_beyond_all_offsets_or_epochs(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"")
    problems = metadata_log.read(tmp_path).problems
    assert ("malformed", str(tmp_path / name)) in [(problem.code, problem.path) for problem in problems]


def document(**changed: object) -> bytes:
    partition = {"partition": 0, "leader": 1, "leader_epoch": 3, "replicas": [1, 2], "isr": [1]}
    return json.dumps({"version": 1, "topics": [{"topic": "orders", "partitions": [partition]}], **changed}).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (document(kafka_version="9" * 5000), "kafka_version is .*, which is not a version"),
        (document(kafka_version="4.2." + "9" * 40), "kafka_version is .*, which is not a version"),
        (document(inter_broker_protocol_version="2.4-IV" + "1" * 4999), "inter_broker_protocol_version"),
        (document(cluster_id="\ud800"), r'cluster_id is "\\ud800", which contains half of a character'),
        (document(topics=[{"topic": "a\udfff", "partitions": []}]), r"topics\[0\].topic"),
        (document(captured_at=10**400), "captured_at is a number of"),
        (document().replace(b'"leader": 1', b'"leader": ' + b"9" * 5000), "not JSON"),
        (document().replace(b'"leader": 1', b'"leader": NaN'), "leader is NaN"),
        (document().replace(b'"leader": 1', b'"leader": 1e999'), "leader is Infinity"),
        (document().replace(b'"leader": 1', b'"leader": 1, "leader": 2'), 'the key "leader" occurs twice'),
        (b'{"version": 1, "topics": ' + b"[" * 100_000, "not JSON"),
    ],
)
def test_a_hostile_value_of_a_cluster_metadata(content: bytes, reason: str):
    with pytest.raises(MetadataError, match=reason):
        head, found = cluster_metadata.parse(content)
        list(cluster_metadata.partitions(found))
        raise AssertionError(head)


@pytest.mark.parametrize("version", ["4.2.0", "3.9.1-cp2", "2.4-IV1", "0.10.2.2", "4.3.0-SNAPSHOT", "7.6.1-ccs.build.123456789"])
def test_versions_that_brokers_have(version: str):
    head, found = cluster_metadata.parse(
        document(kafka_version=version, cluster_id="\u043a\u043b\u0430\u0441\u0442\u0435\u0440-\U0001f600")
    )
    assert head.kafka_version == version
    assert [one.topic for one in cluster_metadata.partitions(found)] == ["orders"]


def test_java_escapes_a_character_beyond_the_first_plane_as_two():
    assert properties(b"a=\\ud83d\\ude00\n")["a"] == (1, "\U0001f600")
    with pytest.raises(MetadataError, match="half of a character") as raised:
        properties(b"b=1\na=\\ud83d\n")
    assert raised.value.line == 2


@pytest.mark.parametrize("name", ["files", "vanished"])
def test_a_manifest_names_no_file_that_cannot_be(name: str):
    content = (
        b'{"format": "%s", "version": 1, "broker_id": 1, "host": "h", "started_at": "2026-01-01T00:00:00Z", '
        b'"finished_at": "2026-01-01T00:00:00Z", "unread": [], "log_dirs": [%s]}'
    )
    said: dict[str, object] = {
        "path": "/d",
        "folder": "d",
        "in_use": None,
        "segments_bytes": 1,
        "segments_crc32c": 1,
        "files": [],
        "replicas": [],
        "unread": [],
    }
    healthy = json.dumps({**said, name: ["\u0444\u0430\u0439\u043b"]}).encode()
    assert manifest.parse(content % (manifest.FORMAT.encode(), healthy)).broker_id == 1
    with pytest.raises(MetadataError, match=name):
        manifest.parse(content % (manifest.FORMAT.encode(), json.dumps({**said, name: ["\ud800"]}).encode()))


@pytest.mark.parametrize(
    "line",
    [
        b"| offset: 0 keySize: 99999999999999999999 valueSize: 24 payload\n",
        b"| offset: 0 keySize: 20 valueSize: -99999999999999999999 payload\n",
    ],
)
def test_sizes_of_a_record_that_none_has(tmp_path: Path, line: bytes):
    """Found by a mutated text: the size of a key was taken for a place in the line."""
    batch = (
        b"baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 0 "
        b"isTransactional: false isControl: false position: 0 CreateTime: 1 size: 200 magic: 2 compresscodec: none crc: 1 isvalid: true\n"
    )
    key = line.replace(b" payload", b" key: offset_commit::group=g1,partition=t-0 payload: offset=1")
    path = tmp_path / "dump.txt"
    path.write_bytes(b"Dumping /d/__consumer_offsets-0/00000000000000000000.log\nStarting offset: 0\n" + batch + key)
    commits, problems = committed_offsets(record_files.texts(path))
    assert not commits
    assert [problem.code for problem in problems] == ["malformed-record"]


class TestManyEntries:
    """160,000 lines are legal: they are loaded in linear time, in whatever order they stand."""

    MANY = 160_000

    def seconds(self, lines: list[checkpoints.EpochLine]) -> float:
        began = time.process_time()
        checkpoints.healed(lines)
        return time.process_time() - began

    @pytest.mark.parametrize("order", ["rising", "falling", "sawtooth"])
    def test_healing_is_linear(self, order: str):
        place = {"rising": lambda n: n, "falling": lambda n: self.MANY - n, "sawtooth": lambda n: n % 700 + n // 700}[order]
        lines = [checkpoints.EpochLine(n + 3, place(n), place(n) if order == "falling" else n) for n in range(self.MANY)]
        assert self.seconds(lines) < 5, "of these lines a quadratic walk takes minutes"

    def test_notes_of_one_file_are_bounded(self, tmp_path: Path):
        lines = b"0\n1000\n" + b"".join(b"%d %d\n" % (1000 - n, n) for n in range(1000))
        (tmp_path / "leader-epoch-checkpoint").write_bytes(lines)
        problems: list[Problem] = []
        folder = Folder(path=tmp_path, files=("leader-epoch-checkpoint",), folders=(), others=())
        loaded = SmallFiles().epoch_checkpoint(folder, problems)
        assert (loaded.state, loaded.epochs) == ("healed", ((1, 999),))
        assert len(problems) == 21
        assert (problems[0].line, problems[-1].line) == (4, 24)
        assert problems[-1].detail == "from this line on 979 more entries are out of order"
