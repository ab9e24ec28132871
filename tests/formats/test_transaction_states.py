"""The state of transactions: from bytes, from text of every kafka-dump-log, and of real clusters against what the coordinator said."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from replica_audit.formats.coordinators.transactions import KIND, transaction_states
from replica_audit.model import SegmentFile, TransactionState
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats import transaction_files as tf

SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/clusters is not beside the project")
CLUSTERS = [SHARED / "clean-in-sync" / when for when in ("before", "stopped", "after")]
CLUSTERS += [SHARED / "txn-loss" / when for when in ("before", "after")]
TEXTS = sorted(tf.TEXTS.glob("*.txt"))


class Replayed:
    """What `transaction_states` gave, taken apart."""

    def __init__(self, files: Iterable[SegmentFile], log_end_offset: int | None = None) -> None:
        self.states, self.problems = transaction_states(list(files), log_end_offset)
        self.codes = [problem.code for problem in self.problems]
        self.by_id = {state.transactional_id: state for state in self.states}
        assert [*self.by_id] == sorted(self.by_id)
        assert {problem.kind for problem in self.problems} <= {KIND}
        assert all(problem.remedy and problem.detail for problem in self.problems)


Replay = Callable[..., Replayed]


@pytest.fixture
def replayed(tmp_path: Path) -> Replay:
    """Write the batches as one segment and replay it."""

    def write(*batches: bytes, base: int = 0, log_end_offset: int | None = None) -> Replayed:
        return Replayed(rf.raw(kf.segment(tmp_path, base, *batches)), log_end_offset)

    return write


# --- keys and values ---


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("status", range(8))
def test_every_version_and_state(replayed: Replay, version: int, status: int):
    topics = None if status == tf.EMPTY else {"orders": [0, 2], "a.b-1": [7]}
    found = replayed(rf.batch(5, (tf.key("größe"), tf.value(status, topics, version=version, producer_id=1 << 40, epoch=9))), base=5)
    assert found.problems == []
    names = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]
    assert found.states == [
        TransactionState(
            transactional_id="größe",
            producer_id=1 << 40,
            producer_epoch=9,
            timeout_ms=60_000,
            state=names[status],
            partitions=() if status == tf.EMPTY else (("orders", 0), ("orders", 2), ("a.b-1", 7)),
            last_update_ms=rf.TIMESTAMP,
            start_ms=rf.TIMESTAMP - 1_000,
        )
    ]


@pytest.mark.parametrize("tags", [{}, tf.ALL_TAGS, {0: struct.pack(">q", 5)}, {2: struct.pack(">h", 1), 300: b"later" * 40}], ids=len)
def test_tagged_fields_are_passed_over(replayed: Replay, tags: dict[int, bytes]):
    found = replayed(rf.batch(0, (tf.key("t"), tf.value(tf.ONGOING, {"x" * 200: range(200)}, version=1, tags=tags))))
    assert found.problems == []
    assert found.by_id["t"].partitions == tuple(("x" * 200, partition) for partition in range(200))


def test_the_producer_ids_before_and_next(replayed: Replay):
    found = replayed(rf.batch(0, (tf.key("t"), tf.value(tf.PREPARE_COMMIT, {"x": [0]}, version=1, tags=tf.ALL_TAGS)))).by_id["t"]
    assert (found.previous_producer_id, found.next_producer_id) == (6, 8)
    plain = replayed(rf.batch(0, (tf.key("t"), tf.value(tf.ONGOING, {"x": [0]}, version=1, tags={2: struct.pack(">h", 2)})))).by_id["t"]
    assert (plain.previous_producer_id, plain.next_producer_id) == (-1, -1)


def test_a_producer_id_of_another_size_is_reported(replayed: Replay):
    found = replayed(rf.batch(0, (tf.key("t"), tf.value(tf.ONGOING, {"x": [0]}, version=1, tags={0: b"1234567"}))))
    assert (found.states, [problem.code for problem in found.problems]) == ([], ["malformed-record"])
    assert "a producer id of 7 bytes" in found.problems[0].detail


@needs_shared
def test_the_bytes_are_those_of_a_real_broker():
    """The builder itself, against the records of a cluster of 4.2.0."""
    segments = [path for path in (SHARED / "txn-loss" / "before").rglob("__transaction_state-*/*.log") if path.stat().st_size]
    assert segments
    made = (
        tf.key("pre-0"),
        tf.value(
            tf.ONGOING,
            {"transfers": [0]},
            version=1,
            producer_id=0,
            epoch=0,
            updated=1795240990797,
            started=1795240990797,
            tags={2: struct.pack(">h", 2)},
        ),
    )
    assert any(all(part in path.read_bytes() for part in made) for path in segments)


KEY = tf.key()
MALFORMED: dict[str, rf.Pair] = {
    "no key": (None, tf.value()),
    "empty key": (b"", tf.value()),
    "half a version": (b"\0", tf.value()),
    "null id": (struct.pack(">hh", 0, -1), tf.value()),
    "id beyond the key": (struct.pack(">hh", 0, 9) + b"t", tf.value()),
    "key of version 1": (tf.key(version=1), tf.value()),
    "key of version -1": (tf.key(version=-1), tf.value()),
    "empty value": (KEY, b""),
    "value of version 2": (KEY, struct.pack(">h", 2) + tf.value(version=1)[2:]),
    "value of version -1": (KEY, struct.pack(">h", -1) + tf.value()[2:]),
    "state 8": (KEY, tf.value(8, {})),
    "state -1": (KEY, tf.value(-1, {})),
    "no list of partitions": (KEY, tf.value(has_list=False)),
    "cut": (KEY, tf.value(tf.ONGOING, {"t": [1]})[:-1]),
    "cut tags": (KEY, tf.value(tf.ONGOING, {"t": [1]}, version=1, tags=tf.ALL_TAGS)[:-1]),
    "two billion topics": (KEY, tf.value(tf.ONGOING, {})[:17] + struct.pack(">i", 1 << 30) + bytes(16)),
    "two billion partitions": (KEY, tf.value(tf.ONGOING, {"t": []})[:24] + struct.pack(">i", 1 << 30) + bytes(16)),
    "two billion compact topics": (KEY, tf.value(tf.ONGOING, {}, version=1)[:17] + b"\xff\xff\xff\xff\x07" + bytes(16)),
    "minus two topics": (KEY, tf.value(tf.ONGOING, {})[:17] + struct.pack(">i", -2) + bytes(16)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_a_problem_and_the_rest_counts(replayed: Replay, name: str):
    found = replayed(rf.batch(0, (tf.key("a"), tf.value())), rf.batch(1, MALFORMED[name], (tf.key("b"), tf.value())))
    assert found.by_id.keys() == {"a", "b"}
    (problem,) = found.problems
    assert problem.code == "malformed-record"
    assert problem.byte_offset == len(rf.batch(0, (tf.key("a"), tf.value())))
    assert "offset 1" in problem.detail
    if "version" in name and name != "half a version":
        assert f"version {name.split()[-1]} of TransactionLog{name.split()[0].capitalize()} is not known" in problem.detail


def test_bytes_behind_key_and_value_do_not_matter(replayed: Replay):
    assert replayed(rf.batch(0, (tf.key() + b"?", tf.value() + b"more"))).problems == []


# --- what counts ---


def test_the_last_record_counts_and_a_deletion_removes(replayed: Replay):
    found = replayed(tf.SEGMENTS["deleted"])
    assert {name: (state.state, state.producer_id) for name, state in found.by_id.items()} == {
        "stays": ("CompleteAbort", 3),
        "back": ("Ongoing", 4),
    }


# --- damage ---


# --- text of kafka-dump-log ---


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_text_of_every_version_tells_what_the_segment_does(replayed: Replay, path: Path):
    ours, theirs = replayed(tf.SEGMENTS[path.name.partition(".")[0]]), Replayed(rf.texts(path))
    assert ours.problems == []
    version = tuple(map(int, path.stem.split(".")[1:3]))
    is_json = version >= (4, 1)
    # an id with a line end cuts its line; what 0.11 shows behind it may be contents
    expected = {name: state for name, state in ours.by_id.items() if is_json or "\n" not in name}
    if version < (2, 2):
        expected.pop("", None)
    assert theirs.codes == ([] if len(expected) == len(ours.by_id) else ["malformed-record"])

    def told(state: TransactionState) -> tuple[object, ...]:
        start = state.start_ms if is_json else -1
        ids = (state.producer_id, state.producer_epoch, state.timeout_ms, state.state)
        others = (state.previous_producer_id, state.next_producer_id) if is_json else ()
        return (*ids, *others, sorted(state.partitions), state.last_update_ms, start)

    assert {name: told(state) for name, state in theirs.by_id.items()} == {name: told(state) for name, state in expected.items()}
    assert is_json or {state.start_ms for state in theirs.states} == {-1}


def test_there_are_texts_of_every_generation():
    assert len(TEXTS) == 13
    begins = {line.partition(b" payload: ")[0].rpartition(b"key: ")[2][:20] for path in TEXTS for line in path.read_bytes().splitlines()}
    assert {b"transactionalId=a", b"transaction_metadata", b'{"type":"0","data":{'} <= begins


HEAD = b"Dumping x/__transaction_state-0/00000000000000000000.log\nLog starting offset: 0\n"
BATCH = (
    b"baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 0 "
    b"isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 5 size: 90 magic: 2 "
    b"compresscodec: none crc: 1 isvalid: true\n"
)
JSON_KEY = '{"type":"0","data":{"transactionalId":"t"}}'
VALUE = {
    "producerId": 7,
    "previousProducerId": 7,
    "producerEpoch": 1,
    "transactionTimeoutMs": 9,
    "transactionStatus": "Ongoing",
    "transactionPartitions": [{"topic": "orders", "partitionIds": [3]}],
    "transactionLastUpdateTimestampMs": 20,
    "transactionStartTimestampMs": 10,
}


def text_of(tmp_path: Path, key: str, payload: str, *, key_size: int = 5, value_size: int = 48) -> Replayed:
    size = -1 if payload == "<DELETE>" else value_size
    record = f"| offset: 0 CreateTime: 5 keySize: {key_size} valueSize: {size} sequence: -1 headerKeys: [] key: {key} payload: {payload}\n"
    path = tmp_path / "text.txt"
    path.write_bytes(HEAD + BATCH + record.encode())
    return Replayed(rf.texts(path))


def payload(version: str = "1", **changed: object) -> str:
    return json.dumps({"version": version, "data": VALUE | changed}, separators=(",", ":"))


@pytest.mark.parametrize("status", ["Ongoing", 1])
def test_json_with_the_state_as_a_number_or_by_its_name(tmp_path: Path, status: object):
    (state,) = text_of(tmp_path, JSON_KEY, payload(transactionStatus=status)).states
    assert (state.state, state.partitions, state.start_ms) == ("Ongoing", (("orders", 3),), 10)
    assert (state.previous_producer_id, state.next_producer_id) == (7, -1)


FORM = "producerId:891464,producerEpoch:1,state=CompleteCommit,partitions=[],txnLastUpdateTimestamp=1630834794890,txnTimeoutMs=120000"


def test_a_line_as_people_paste_it(tmp_path: Path):
    key = "transaction_metadata::transactionalId=MY_TXNAL_ID"
    (state,) = text_of(tmp_path, key, FORM, key_size=15, value_size=37).states
    assert (state.transactional_id, state.producer_id, state.state, state.timeout_ms) == ("MY_TXNAL_ID", 891464, "CompleteCommit", 120_000)


LIES = {
    "state of another name": (JSON_KEY, payload(transactionStatus="Running"), 5, 48),
    "state 9": (JSON_KEY, payload(transactionStatus=9), 5, 48),
    "epoch of 32 bits": (JSON_KEY, payload(producerEpoch=40_000), 5, 48),
    "no producer id": (JSON_KEY, payload().replace("producerId", "producer"), 5, 48),
    "a partition that is a text": (JSON_KEY, payload(transactionPartitions=[{"topic": "t", "partitionIds": ["1"]}]), 5, 48),
    "value of version 2": (JSON_KEY, payload("2"), 5, 48),
    "key of version 1": (JSON_KEY.replace('"0"', '"1"'), payload(), 5, 48),
    "another size of the key": (JSON_KEY, payload(), 6, 48),
    "a value without its size": (JSON_KEY, payload(), 5, -1),
    "a deeply nested value": (JSON_KEY, "[" * 5000, 5, 48),
    "kafka-dump-log failed": ("Error at offset 0, skipping. Could not read record", "", 5, 48),
    "kafka-dump-log does not know the key": ("unknown::version=9", "", 5, 48),
    "form: another size": ("transactionalId=t", FORM, 5, 34),
    "form: too small for its partitions": ("transactionalId=t", FORM.replace("[]", "[orders-1]"), 5, 44),
    "form: not a partition": ("transactionalId=t", FORM.replace("[]", "[orders]"), 5, 53),
    "form: cut": ("transactionalId=t", FORM[:-18], 5, 37),
    "form: another state": ("transactionalId=t", FORM.replace("CompleteCommit", "Complete"), 5, 37),
}


@pytest.mark.parametrize("name", LIES)
def test_text_that_cannot_be_believed(tmp_path: Path, name: str):
    key, value, key_size, value_size = LIES[name]
    found = text_of(tmp_path, key, value, key_size=key_size, value_size=value_size)
    assert (found.states, found.codes, found.problems[0].line) == ([], ["malformed-record"], 4)
    if "of version" in name:
        assert "is not known" in found.problems[0].detail


def test_form_with_partitions_of_the_told_size(tmp_path: Path):
    """The near miss of the sizes above: version 0, and version 1 with tagged fields."""
    for size in (53, 49, 60):
        (state,) = text_of(tmp_path, "transactionalId=t", FORM.replace("[]", "[orders-1]"), value_size=size).states
        assert state.partitions == (("orders", 1),)


@needs_shared
def test_text_without_decoder_is_one_problem():
    found = [Replayed(rf.texts(path)) for path in sorted((SHARED / "txn-loss" / "dump-log").rglob("__transaction_state-*/*.txt"))]
    assert {tuple(one.codes) for one in found} == {("not-decoded",)}
    assert all("--transaction-log-decoder" in one.problems[0].remedy for one in found)


# --- real clusters ---


@needs_shared
@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_raw_segments_and_texts_of_real_clusters_agree(cluster: Path):
    texts = cluster.parent / {"before": "dump-log-data", "after": "dump-log-after-data", "stopped": "dump-log-stopped-data"}[cluster.name]
    compared = 0
    for segment in sorted(cluster.rglob("__transaction_state-*/*.log")):
        raw = Replayed(rf.raw(segment))
        assert raw.problems == []
        text = texts / segment.parts[-4] / segment.parent.name / f"{segment.stem}.txt"
        if text.exists():
            assert Replayed(rf.texts(text)).states == raw.states
            compared += bool(raw.states)
    assert compared or cluster.parent.name != "txn-loss"  # the other one was dumped without it


@needs_shared
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_coordinator_said_the_same(when: str):
    """transactions.json is what ListTransactions of the living cluster answered."""
    told = json.loads((SHARED / "txn-loss" / "transactions.json").read_text())[when]["coordinator"]
    found: dict[str, TransactionState] = {}
    for partition in range(3):
        found |= Replayed(rf.raw(*(SHARED / "txn-loss" / when).glob(f"broker-3/*/__transaction_state-{partition}/*.log"))).by_id
    assert {(one["id"], one["producer_id"], one["state"]) for one in told} == {
        (name, state.producer_id, state.state) for name, state in found.items()
    }
