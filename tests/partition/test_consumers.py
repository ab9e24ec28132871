"""From the records of `__consumer_offsets` to rows of `consumer_impacts`: which log a commit is held against, and what proves its age."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from replica_audit.model import CommittedOffset, Election, PartitionMetadata
from replica_audit.partition.findings.consumers import impact_rows, is_election_open
from replica_audit.protocol.cluster.leadership import INFERRED, Leadership, nothing_known
from replica_audit.protocol.cluster.metadata_image import (
    METADATA_LOG,
)
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.history import CONSUMER_IMPACTS
from replica_audit.rows.what_if import WhatIfLeader
from tests.formats import kafka_files
from tests.protocol.logs import TIME, commit, replica
from tests.recovery.blank_rows import row as blank_row
from tests.support import in_process
from tests.support.in_process import Row

TOPIC_ID = kafka_files.TOPIC_ID
EARLIER_TOPIC_ID = "of0c-xKGRRmD8aklHRJqwg"
SECOND = 1_000
# every record is of TIME; epoch 2 replaced what had been written from 10 on
LEADER = replica(1, [(0, 0, 9), (2, 10, 19)], topic_id=TOPIC_ID, alive=True)
LOST = replica(2, [(0, 0, 29)], topic_id=TOPIC_ID, alive=False)


def _commit(offset: int, epoch: int = -1, *, group: str = "g", at: int = TIME, topic_id: str | None = TOPIC_ID) -> CommittedOffset:
    return commit(offset, epoch, at_ms=at, group_id=group, topic_id=topic_id)


def _metadata(*elections: Election, **fields: Any) -> PartitionMetadata:
    given: dict[str, Any] = {"topic_id": TOPIC_ID, "leader": 1, "leader_epoch": 2, "replicas": (1, 2), "isr": (1,), "source": METADATA_LOG}
    return replace(nothing_known("t", 0), elections=elections, **(given | fields))


def _election(epoch: int, kind: str, at: int) -> Election:
    return Election(
        leader_epoch=epoch, leader_id=1, kind=kind, isr=(1,), elr=(), metadata_offset=100 + epoch, metadata_epoch=1, timestamp_ms=at
    )


def _rows(
    commits: Sequence[CommittedOffset],
    *,
    leader: Replica | None = LEADER,
    others: Sequence[Replica] = (),
    metadata: PartitionMetadata | None = None,
    leader_is_down: bool = False,
    **context: Any,
) -> list[Row]:
    known = metadata or _metadata()
    replicas = {one.broker_id: one for one in ([leader, *others] if leader else others) if not one.unreadable}
    facts = Context(**({"leader_epoch": known.leader_epoch, "enters_epoch_at_once": True} | context))
    return [as_dict(row) for row in impact_rows(known, commits, leader, replicas, context=facts, leader_is_down=leader_is_down)]


def _row(commit: CommittedOffset, **options: Any) -> Row:
    (row,) = _rows([commit], **options)
    return row


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def test_a_row_has_every_column_of_its_table() -> None:
    row = _row(_commit(15, 2))
    assert sorted(row) == sorted(
        column.name for column in CONSUMER_IMPACTS.columns if column.name not in ("run_id", "cluster_id", "run_date")
    )
    assert (row["group_id"], row["topic"], row["partition"]) == ("g", "t", 0)
    assert (row["committed_offset"], row["committed_leader_epoch"], row["validation_result"], row["affected"]) == (15, 2, "valid", False)
    assert row["committed_at"] == datetime.fromtimestamp(TIME / 1000, UTC)
    assert row["evidence"] == "/b/__consumer_offsets-3/00000000000000000000.log: offset 7"


def test_a_time_that_a_text_does_not_tell_is_none() -> None:
    assert _row(_commit(15, 2, at=-1))["committed_at"] is None


def test_one_row_per_group() -> None:
    rows = _rows([_commit(15, 0, group="b"), _commit(5, 0, group="a"), _commit(15, 2, group="c")])
    assert [(row["group_id"], row["affected"]) for row in rows] == [("a", False), ("b", True), ("c", False)]
    assert not _rows([])


def test_a_group_without_a_name_is_one() -> None:
    """Simple consumers may commit under the empty name."""
    assert [row["group_id"] for row in _rows([_commit(5, group="a"), _commit(5, group="")])] == ["", "a"]


# --- whose log it is held against ---------------------------------------------------------------------------------------------------------


def test_without_a_leaders_log_nothing_is_known() -> None:
    row = _row(_commit(30, 0), leader=None, others=[LOST])
    assert (row["validation_result"], row["affected"], row["records_gone"]) == ("unknown", None, None)
    assert row["reason"]


def test_an_unreadable_leader_tells_nothing() -> None:
    row = _row(_commit(30, 0), leader=replace(LEADER, unreadable="garbled"), others=[LOST])
    assert (row["validation_result"], row["affected"]) == ("unknown", None)


def test_a_commit_of_an_earlier_topic_is_not_of_this_one() -> None:
    assert not _rows([_commit(500, 7, topic_id=EARLIER_TOPIC_ID)])
    assert len(_rows([_commit(15, 2, topic_id=None)])) == 1, "before 4.2 commits have no topic id"


def test_a_commit_of_an_earlier_topic_is_known_by_the_leaders_directory_too() -> None:
    """Without metadata the topic id stands in the leader's partition.metadata."""
    unknown = nothing_known("t", 0)
    rows = _rows([_commit(500, 0, topic_id=EARLIER_TOPIC_ID)], metadata=unknown, leader=replace(LEADER, alive=False))
    assert not [row for row in rows if row["affected"] is not None]


@pytest.mark.parametrize("commit", [_commit(500, 0), _commit(500), _commit(15, 2)], ids=["epoch", "no epoch", "in range"])
def test_a_leaders_directory_of_an_earlier_topic_tells_nothing(commit: CommittedOffset) -> None:
    """The metadata's leader has not got the topic that was created anew: its directory is the old one's, as `replica_verdicts` says."""
    stale = replace(LEADER, topic_id=EARLIER_TOPIC_ID, alive=False)
    row = _row(commit, leader=stale, others=[replica(2, [(0, 0, 599)], topic_id=TOPIC_ID)])
    assert (row["validation_result"], row["affected"]) == ("unknown", None)


def test_a_replica_of_an_earlier_topic_is_no_witness() -> None:
    stale = replace(LOST, topic_id=EARLIER_TOPIC_ID)
    assert _row(_commit(15), others=[stale])["affected"] is False
    assert _row(_commit(15), others=[LOST])["affected"] is None


def test_a_replica_without_a_topic_id_may_be_a_witness() -> None:
    assert _row(_commit(15), others=[replace(LOST, topic_id=None)])["affected"] is None


# --- what proves that the leader's copy is later than the commit --------------------------------------------------------------------------


BEYOND = [pytest.param(25, 2, id="current epoch"), pytest.param(25, -1, id="no epoch"), pytest.param(25, 9, id="later epoch")]


@pytest.mark.parametrize(("offset", "epoch"), BEYOND)
def test_on_a_running_cluster_a_commit_beyond_the_leaders_copy_is_newer_than_it(offset: int, epoch: int) -> None:
    row = _row(_commit(offset, epoch, at=TIME + SECOND))
    assert (row["validation_result"], row["affected"], row["records_gone"]) == ("unknown", None, None)


@pytest.mark.parametrize(("offset", "epoch"), BEYOND)
def test_of_copies_of_one_instant_it_is_lost(offset: int, epoch: int) -> None:
    assert _row(_commit(offset, epoch, at=TIME + SECOND), simultaneous=True)["affected"] is True


@pytest.mark.parametrize(("offset", "epoch"), BEYOND)
def test_a_leader_that_is_down_writes_nothing_more(offset: int, epoch: int) -> None:
    commit = _commit(offset, epoch, at=TIME + SECOND)
    assert _row(commit, leader_is_down=True)["affected"] is True
    assert _row(commit, leader=replace(LEADER, alive=False))["affected"] is None, "it was stopped, and may have been started again"


def test_an_election_after_the_commit_in_the_leaders_table_proves_it() -> None:
    entered = replica(1, [(0, 0, 9), (2, 10, 19)], epochs=[(0, 0), (2, 10), (5, 20)], alive=True)
    for kind in ("clean", "unclean"):
        after = _metadata(_election(5, kind, TIME + 2 * SECOND), leader_epoch=5)
        assert _row(_commit(25, at=TIME + SECOND), leader=entered, metadata=after)["affected"] is True
    before = _metadata(_election(5, "clean", TIME + SECOND), leader_epoch=5)
    assert _row(_commit(25, at=TIME + 2 * SECOND), leader=entered, metadata=before)["affected"] is None


def test_an_election_that_the_leaders_table_does_not_hold_proves_nothing() -> None:
    after = _metadata(_election(5, "clean", TIME + 2 * SECOND), leader_epoch=5)
    assert _row(_commit(25, at=TIME + SECOND), metadata=after)["affected"] is None


def test_a_table_that_was_copied_after_the_log_dates_only_itself() -> None:
    """The table has the election at 150; the log, copied before, ends at 100, where its leader did not end: 145 may well be there."""
    leader = replica(1, [(0, 0, 99)], epochs=[(0, 0), (2, 150)], alive=True)
    after = _metadata(_election(2, "clean", TIME + 2 * SECOND))
    row = _row(_commit(145, at=TIME + SECOND), leader=leader, metadata=after)
    assert row["affected"] is None


@pytest.mark.parametrize("ahead_ms", [1, 250, 30 * SECOND, 10**12], ids=["1 ms", "250 ms", "30 s", "decades"])
def test_a_producers_clock_proves_nothing(ahead_ms: int) -> None:
    """CreateTime is whatever the producer's clock, or the application, says; the commit's time is the coordinator's.

    On a busy partition the leader's copy is followed by a commit within milliseconds, and clocks differ by more.
    """
    row = _row(_commit(25, 2, at=TIME - ahead_ms))  # the leader's last record claims to be `ahead_ms` younger
    assert (row["validation_result"], row["affected"]) == ("unknown", None)


def test_a_commit_of_unknown_time_is_not_older_than_everything() -> None:
    """Text of kafka-dump-log before 3.8 shows no time: -1 is not the year 1969."""
    unclean = _metadata(_election(0, "created", TIME - 9 * SECOND), _election(2, "unclean", TIME - 5 * SECOND))
    assert _row(_commit(25, at=-1), metadata=unclean)["affected"] is None
    assert _row(_commit(15, at=-1), metadata=unclean)["affected"] is not True, "it may be of yesterday, long after the election"


# --- elections that replaced what had been consumed ---------------------------------------------------------------------------------------


def test_an_unclean_election_after_the_commit_replaced_what_lies_above_its_start() -> None:
    """committed-loss, `after`: no replica holds the lost records any more, the metadata log still has the election."""
    known = _metadata(_election(0, "created", TIME - 9 * SECOND), _election(2, "unclean", TIME + SECOND))
    row = _row(_commit(15), metadata=known)
    assert (row["validation_result"], row["affected"], row["reset_offset"]) == ("not-validated", True, 15)
    assert (row["records_gone"], row["records_missed"]) == (5, 5)
    assert _row(_commit(10), metadata=known)["affected"] is False


@pytest.mark.parametrize(
    "election",
    [
        pytest.param(_election(2, "unclean", TIME - SECOND), id="before the commit"),
        pytest.param(_election(4, "unclean", TIME + SECOND), id="of an epoch that the leader's table does not hold"),
    ],
)
def test_an_election_that_proves_nothing(election: Election) -> None:
    assert _row(_commit(15), metadata=_metadata(election))["affected"] is False


def test_a_later_unclean_election_does_not_decide_an_earlier_doubt() -> None:
    """Epoch 2 began at 10 before the group committed 15, epoch 4 at 20 after it: nothing says which 10..14 it has consumed."""
    leader = replica(1, [(0, 0, 9), (2, 10, 19), (4, 20, 24)], topic_id=TOPIC_ID, alive=True)
    known = _metadata(_election(2, "unclean", TIME - SECOND), _election(4, "unclean", TIME + SECOND), leader_epoch=4)
    assert _row(_commit(15), leader=leader, others=[LOST], metadata=known)["affected"] is None


def test_a_compacted_topic_is_no_alarm_for_an_epoch_without_an_entry() -> None:
    leader = replica(1, [(0, 0, 9), (2, 10, 19)], alive=True)
    assert _row(_commit(8, 1), leader=leader, compacted=True)["affected"] is not True
    assert _row(_commit(8, 1), leader=leader)["affected"] is not False


def test_a_leader_of_1_1_1_is_in_the_epoch_of_the_metadata() -> None:
    """It enters its table with the first record, so metadata alone tells that 20..29 of epoch 0 cannot come any more."""
    leader = replica(1, [(0, 0, 19)], alive=True)
    row = _row(_commit(30, at=TIME + SECOND), leader=leader, others=[LOST], metadata=_metadata(leader_epoch=3), enters_epoch_at_once=False)
    assert (row["affected"], row["records_gone"]) == (True, 10)
    at_once = _row(_commit(30, at=TIME + SECOND), leader=leader, others=[LOST], metadata=_metadata(leader_epoch=3))
    assert at_once["affected"] is None


# --- files --------------------------------------------------------------------------------------------------------------------------------


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _varint(value: int) -> bytes:
    value, made = value << 1, bytearray()  # zigzag of what is not negative
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _offset_commit(group: str, partition: int, offset: int, epoch: int, *, at: int = TIME) -> tuple[bytes, bytes]:
    """OffsetCommitKey version 1 and OffsetCommitValue version 3, of topic t."""
    key = struct.pack(">h", 1) + _string(group) + _string("t") + struct.pack(">i", partition)
    return key, struct.pack(">hqi", 3, offset, epoch) + _string("") + struct.pack(">q", at)


def _batch(base_offset: int, epoch: int, *records: tuple[bytes, bytes]) -> bytes:
    bodies = [
        b"\0" + _varint(0) + _varint(delta) + _varint(len(key)) + key + _varint(len(value)) + value + _varint(0)
        for delta, (key, value) in enumerate(records)
    ]
    content = b"".join(_varint(len(body)) + body for body in bodies)
    last = len(records) - 1
    head = struct.pack(">qiibIhiqqqhii", base_offset, 49 + len(content), epoch, 2, 0, 0, last, TIME, TIME, -1, -1, -1, len(records))
    return kafka_files.sealed(head + content)


def _broker(root: Path, broker: int, *, offsets: Sequence[bytes] | None, batches: Sequence[bytes] = (), epochs: Sequence[Any] = ()) -> None:
    log_dir = root / f"broker-{broker}" / "data-0"
    log_dir.mkdir(parents=True)
    (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker))
    if offsets is not None:
        found = {entry.leader_epoch: entry.base_offset for content in reversed(offsets) for entry in kafka_files.decoded(content)}
        kafka_files.replica(log_dir, "__consumer_offsets-0", epochs=sorted(found.items()), batches=offsets)
    if batches:
        kafka_files.replica(log_dir, "t-0", epochs=epochs, batches=batches)


DATA = [kafka_files.batch(0, 0, deltas=range(10)), kafka_files.batch(10, 2, deltas=range(10))]
TABLE = [(0, 0), (2, 10)]


def test_commits_are_read_from_the_log_and_held_against_the_partition(tmp_path: Path) -> None:
    commits = _batch(0, 0, _offset_commit("lost", 0, 15, 0), _offset_commit("safe", 0, 10, 0), _offset_commit("none", 0, 15, -1))
    _broker(tmp_path, 1, offsets=[commits], batches=DATA, epochs=TABLE)
    rows = {row["group_id"]: row for row in in_process.audit(tmp_path)["consumer_impacts"]}
    assert {group: (row["validation_result"], row["affected"], row["reset_offset"]) for group, row in rows.items()} == {
        "lost": ("truncated", True, 10),
        "safe": ("valid", False, 10),
        "none": ("not-validated", False, 15),
    }
    path = tmp_path / "broker-1" / "data-0" / "__consumer_offsets-0" / "00000000000000000000.log"
    assert {group: row["evidence"] for group, row in rows.items()} == {
        group: f"{path}: offset {at}" for at, group in enumerate(("lost", "safe", "none"))
    }


@pytest.mark.parametrize(
    ("offset", "affected", "reset_offset"),
    [
        pytest.param(30, True, 20, id="what was written in epoch 3 is gone"),
        pytest.param(20, False, 20, id="nothing was written in epoch 3"),
    ],
)
def test_whoever_is_inferred_to_lead_enters_a_new_epoch_before_a_group_reads(
    tmp_path: Path, offset: int, affected: bool, reset_offset: int
) -> None:
    """The leader of epoch 3 is not in the input, and nobody else has led since: an election makes the answer for 3 defined."""
    commits = _batch(0, 0, _offset_commit("g", 0, offset, 3))
    _broker(tmp_path, 1, offsets=[commits], batches=DATA, epochs=TABLE)
    (row,) = in_process.audit(tmp_path)["consumer_impacts"]
    assert row["validation_result"] == ("truncated" if affected else "valid")
    assert row["reset_offset"] == reset_offset
    assert row["affected"] in (affected, None)


def test_the_last_commit_of_a_group_counts(tmp_path: Path) -> None:
    commits = [_batch(0, 0, _offset_commit("g", 0, 15, 0)), _batch(1, 0, _offset_commit("g", 0, 5, 0))]
    _broker(tmp_path, 1, offsets=commits, batches=DATA, epochs=TABLE)
    (row,) = in_process.audit(tmp_path)["consumer_impacts"]
    assert (row["committed_offset"], row["affected"]) == (5, False)


def test_commits_are_the_leaders_not_those_of_a_stale_tail(tmp_path: Path) -> None:
    """Broker 1's copy of the offsets is longer, but of an epoch that broker 2's has replaced; the inferred leader is broker 2."""
    common = _batch(0, 0, _offset_commit("g", 0, 5, 0))
    stale = [common, *(_batch(at, 0, _offset_commit("g", 0, 15, 0)) for at in (1, 2, 3))]
    _broker(tmp_path, 1, offsets=stale, batches=DATA, epochs=TABLE)
    _broker(tmp_path, 2, offsets=[common, _batch(1, 3, _offset_commit("g", 0, 10, 0))])
    (row,) = in_process.audit(tmp_path)["consumer_impacts"]
    assert (row["committed_offset"], row["affected"]) == (10, False)


def test_commits_of_the_newest_epoch_count_where_the_leaders_copy_is_missing(tmp_path: Path) -> None:
    """As above, with metadata that names a leader whose files are not there: the longest log may be a stale one."""
    test_commits_are_the_leaders_not_those_of_a_stale_tail(tmp_path)
    topics = [
        {
            "topic": "__consumer_offsets",
            "partitions": [{"partition": 0, "leader": 3, "leader_epoch": 3, "replicas": [1, 2, 3], "isr": [3]}],
        },
        {"topic": "t", "partitions": [{"partition": 0, "leader": 1, "leader_epoch": 2, "replicas": [1], "isr": [1]}]},
    ]
    written = {"version": 1, "cluster_id": kafka_files.CLUSTER_ID, "brokers": [], "topics": topics}
    (tmp_path / "cluster-metadata.json").write_text(str(written).replace("'", '"'), encoding="utf-8")
    (row,) = in_process.audit(tmp_path)["consumer_impacts"]
    assert row["committed_offset"] == 10


def test_a_partition_whose_leader_is_not_in_the_input_has_rows_too(tmp_path: Path) -> None:
    _broker(tmp_path, 1, offsets=[_batch(0, 0, _offset_commit("g", 0, 15, 0))])
    topics = [{"topic": "t", "partitions": [{"partition": 0, "leader": 2, "leader_epoch": 2, "replicas": [2], "isr": [2]}]}]
    written = {"version": 1, "cluster_id": kafka_files.CLUSTER_ID, "brokers": [], "topics": topics}
    (tmp_path / "cluster-metadata.json").write_text(str(written).replace("'", '"'), encoding="utf-8")
    (row,) = in_process.audit(tmp_path)["consumer_impacts"]
    assert (row["group_id"], row["validation_result"], row["affected"]) == ("g", "unknown", None)


@pytest.mark.parametrize(("began_at", "affected"), [(30, None), (20, True)], ids=["beyond the copy's end", "at the copy's end"])
def test_an_epoch_that_began_beyond_the_end_of_the_leaders_copy_replaced_nothing(began_at: int, affected: bool | None) -> None:
    """Seen on brokers: a leader that was still fetching when its log was copied, whose table was copied later."""
    leader = replica(1, [(0, 0, 19)], epochs=[(0, 0), (2, began_at)], topic_id=TOPIC_ID, alive=True)
    other = replica(3, [(0, 0, 29), (2, 30, 39), (3, 40, 49)], topic_id=TOPIC_ID, alive=True)
    row = _row(_commit(45, 3), leader=leader, others=[other], metadata=_metadata(leader_epoch=2))
    assert row["affected"] is affected


@pytest.mark.parametrize(
    ("options", "affected"),
    [
        pytest.param({"alive": True}, None, id="its broker runs: copied before its election, its log was cut since"),
        pytest.param({"alive": True, "epochs": [(2, 0), (4, 24)]}, True, id="its table knows the epoch: a leader's copy"),
        pytest.param({"alive": False}, True, id="its broker is down: nothing changed since"),
    ],
)
def test_a_leader_that_was_copied_before_its_election_proves_nothing_of_groups(options: dict[str, Any], affected: bool | None) -> None:
    """Seen on brokers (3.9.2): the copy holds 20..23 of epoch 2, which the broker cut before it was elected in epoch 4."""
    leader = replica(1, [(2, 0, 23)], topic_id=TOPIC_ID, **options)
    other = replica(2, [(2, 0, 19), (3, 20, 29), (4, 30, 39)], topic_id=TOPIC_ID, alive=True)
    row = _row(_commit(26, 3), leader=leader, others=[other], metadata=_metadata(leader_epoch=4))
    assert row["affected"] is affected


def _nobody_leads(root: Path, replicas: list[int]) -> Row:
    """Broker 1 is all that the input has; the group has consumed what broker 1 does not hold."""
    _broker(root, 1, offsets=[_batch(0, 0, _offset_commit("g", 0, 15, 0))], batches=DATA, epochs=TABLE)
    partition = {"partition": 0, "leader": -1, "leader_epoch": 3, "replicas": replicas, "isr": replicas[-1:]}
    topics = [{"topic": "t", "partitions": [partition]}]
    (root / "cluster-metadata.json").write_text(
        json.dumps({"version": 1, "cluster_id": kafka_files.CLUSTER_ID, "topics": topics}), encoding="utf-8"
    )
    (row,) = in_process.audit(root)["consumer_impacts"]
    return row


def test_a_group_whose_next_leader_is_not_in_the_input_has_lost_an_unknown_number_and_not_none(tmp_path: Path) -> None:
    row = _nobody_leads(tmp_path, [1, 2])
    assert row["affected"] is None
    assert {row[name] for name in ("records_gone", "records_reread", "records_missed")} == {None}
    assert "nobody leads" in row["reason"]


def test_a_group_whose_next_leader_is_the_only_replica_has_lost_what_that_lacks(tmp_path: Path) -> None:
    row = _nobody_leads(tmp_path, [1])
    assert (row["affected"], row["records_reread"]) == (True, 0)


def _choice(broker: int, rank: int | None, lost: int | None = 0) -> WhatIfLeader:
    return blank_row(WhatIfLeader, candidate_id=broker, rank=rank, lost_offsets=lost)


@pytest.mark.parametrize(
    ("choices", "is_open"),
    [
        pytest.param([_choice(1, 1), _choice(2, 2, 9)], False, id="it loses least"),
        pytest.param([_choice(2, 1), _choice(1, 2)], False, id="nor does it lose anything"),
        pytest.param([_choice(2, 1), _choice(1, 2, 5)], True, id="another one loses less"),
        pytest.param([_choice(1, 1), _choice(2, None, None)], True, id="another one is not known"),
        pytest.param([_choice(2, 1)], True, id="it cannot lead"),
    ],
)
def test_whose_records_the_next_leader_has(choices: list[WhatIfLeader], is_open: bool) -> None:
    nobody = replace(nothing_known("t", 0), leader=-1, no_leader=True)
    assert is_election_open(nobody, Leadership(1, INFERRED), choices) is is_open
    assert not is_election_open(replace(nobody, no_leader=False), Leadership(1, INFERRED), choices), "no metadata says so"
