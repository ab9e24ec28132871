"""Copies of a broker that restarted while its files were copied one by one: part of them is of before the stop, part of after the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.model import ReplicaFiles
from replica_audit.partition.known.cluster_facts import ClusterFacts, is_alive, may_be_of_different_times, may_have_run
from replica_audit.protocol.cluster.versions import generation
from tests.formats import kafka_files
from tests.formats import metadata_files as mf
from tests.support import in_process
from tests.support.in_process import Row

LEADER, FOLLOWER = 1, 3
_REGISTRATION: dict[str, object] = {
    "incarnationId": mf.DIRECTORY_ID,
    "endPoints": [],
    "features": [],
    "rack": None,
    "fenced": False,
    "logDirs": [],
}


def _files(**changed: object) -> ReplicaFiles:
    values: dict[str, object] = dict.fromkeys(
        ("topic_id", "high_watermark", "recovery_point", "log_start_offset", "cleaner_offset", "offline_reason")
    )
    values |= {"log_dir": "d", "directory": "t-0", "topic": "t", "partition": 0, "state": "current", "segments": (), "problems": ()}
    values |= {"checkpoint_state": "ok", "checkpoint": (), "epochs": (), "high_watermarks_collected": True, "clean_shutdown": True}
    return ReplicaFiles(**{**values, "clean_shutdown_epoch": 40, **changed})  # type: ignore[arg-type]


def _cluster(state: str = "up", epoch: int = 57, *, simultaneous: bool = False) -> ClusterFacts:
    chosen = generation(requested=None, inter_broker_protocol=None, metadata_version=25, broker_version=None)
    return ClusterFacts(generation=chosen, broker_states={3: state}, broker_epochs={3: epoch}, simultaneous=simultaneous)


def test_a_broker_that_registered_again_since_its_marker_was_written_has_started_since() -> None:
    assert is_alive(3, _files(), _cluster()) is True
    assert may_be_of_different_times(3, _files(), _cluster())


@pytest.mark.parametrize(
    ("files", "cluster"),
    [
        pytest.param({}, _cluster(epoch=40), id="it has not registered since"),
        pytest.param({}, _cluster(epoch=-1), id="no metadata log knows"),
        pytest.param({"clean_shutdown_epoch": None}, _cluster(), id="the marker has no epoch, before 3.7"),
        pytest.param({"captured_at_ms": 5}, _cluster(), id="collected: the marker was there before and after"),
        pytest.param({}, _cluster(simultaneous=True), id="copied at one instant"),
    ],
)
def test_a_marker_counts_where_no_start_is_known(files: dict[str, object], cluster: ClusterFacts) -> None:
    assert is_alive(3, _files(**files), cluster) is False


@pytest.mark.parametrize(
    ("files", "state", "expected"),
    [
        pytest.param({"clean_shutdown": False}, "stopped", True, id="neither the marker nor the lock was copied"),
        pytest.param({"clean_shutdown": False, "has_lock": True}, "stopped", True, id="copied before it stopped"),
        pytest.param({}, "stopped", False, id="copied after it had stopped"),
        pytest.param({"clean_shutdown": False}, "up", True, id="it runs"),
        pytest.param({"clean_shutdown": False}, "down", False, id="it was down"),
        pytest.param({"clean_shutdown": False}, "", False, id="nothing tells of it"),
    ],
)
def test_who_may_have_run_while_it_was_copied(files: dict[str, object], state: str, expected: bool) -> None:
    assert may_have_run(3, _files(**files), _cluster(state, epoch=40)) is expected


def _replica(root: Path, broker: int, *batches: tuple[int, int, int], table: list[tuple[int, int]], high_watermark: int) -> Path:
    """A replica of t-0 of batches (first offset, leader epoch, records)."""
    log_dir = root / f"broker-{broker}" / "data-0"
    directory = log_dir / "t-0"
    directory.mkdir(parents=True)
    content = b"".join(kafka_files.batch(first, epoch, deltas=range(count), value=b"0") for first, epoch, count in batches)
    kafka_files.segment(directory, 0, content)
    (directory / "leader-epoch-checkpoint").write_bytes(kafka_files.checkpoint(table))
    (directory / "partition.metadata").write_bytes(kafka_files.partition_metadata(kafka_files.TOPIC_ID))
    (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker))
    (log_dir / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, high_watermark)]))
    return log_dir


@pytest.fixture
def restarted(tmp_path: Path) -> Path:
    """The follower's log was copied while it stopped, with 8..9 that nobody else has; its high watermark after it had come back."""
    _replica(tmp_path, LEADER, (0, 0, 8), (8, 1, 12), table=[(0, 0), (1, 8)], high_watermark=20)
    log_dir = _replica(tmp_path, FOLLOWER, (0, 0, 8), (8, 0, 2), table=[(0, 0)], high_watermark=18)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return tmp_path


def _metadata(root: Path, last_epoch: int) -> Path:
    """The metadata log: broker 3 registers twice, the second time in `last_epoch`; broker 1 leads in epoch 1."""
    registered = [
        mf.record("REGISTER_BROKER_RECORD", **_REGISTRATION, brokerId=broker, brokerEpoch=epoch)
        for broker, epoch in ((LEADER, 0), (FOLLOWER, 1), (FOLLOWER, last_epoch))
    ]
    created = [mf.topic("t"), mf.partition(replicas=[LEADER, FOLLOWER], isr=[LEADER], leaderEpoch=1)]
    level = mf.record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=25)
    mf.log(root / f"broker-{LEADER}" / "data-0" / "__cluster_metadata-0", [level, *registered, *created])
    return root


def _verdict(root: Path) -> Row:
    (row,) = [row for row in in_process.audit(root)["replica_verdicts"] if row["topic"] == "t"]
    return row


def test_what_it_truncates_was_not_committed_by_a_high_watermark_of_after_the_start(restarted: Path) -> None:
    """Seen on Kafka 4.3.1: a log of 3205 offsets, a high watermark of 3439, a marker of epoch 4929, a registration of 5771."""
    row = _verdict(_metadata(restarted, 7))
    assert (row["verdict"], row["cause"]) == ("inconclusive", "follower copied earlier")


def test_one_that_has_not_started_since_is_judged_by_it(restarted: Path) -> None:
    row = _verdict(_metadata(restarted, 1))
    assert (row["verdict"], row["removed_committed"]) == ("committed_loss", 2)


def test_a_leaders_high_watermark_of_after_the_start_does_not_say_that_its_log_is_the_one_it_leads_with(tmp_path: Path) -> None:
    """Seen on Kafka 4.3.1: its log was copied while it stopped, with 967..968 of epoch 10; its table, later, began 11 at 967."""
    _replica(tmp_path, LEADER, (0, 0, 8), (8, 0, 2), table=[(0, 0)], high_watermark=18)
    _replica(tmp_path, FOLLOWER, (0, 0, 8), (8, 1, 12), table=[(0, 0), (1, 8)], high_watermark=20)
    assert _verdict(_metadata(tmp_path, 7))["verdict"] == "inconclusive"


def _stopped(root: Path) -> Path:
    """The metadata log: broker 1 leads; broker 3 stopped, once its files had been copied."""
    registered = [mf.record("REGISTER_BROKER_RECORD", **_REGISTRATION, brokerId=one, brokerEpoch=one) for one in (LEADER, FOLLOWER)]
    created = [mf.topic("t"), mf.partition(replicas=[LEADER, FOLLOWER], isr=[LEADER], leaderEpoch=1)]
    stops = [
        mf.record("BROKER_REGISTRATION_CHANGE_RECORD", brokerId=FOLLOWER, brokerEpoch=FOLLOWER, **changed)
        for changed in ({"fenced": -1}, {"inControlledShutdown": 1}, {"fenced": 1})
    ]
    level = mf.record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=25)
    mf.log(root / f"broker-{LEADER}" / "data-0" / "__cluster_metadata-0", [level, *registered, *created, *stops])
    return root


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_hole_in_the_copy_of_a_broker_that_stopped_later_may_be_the_copys_own(tmp_path: Path, is_marked: bool) -> None:
    """Seen on Kafka 4.3.1: it started while it was copied, no marker nor lock was, a reassignment deleted the replica meanwhile."""
    _replica(tmp_path, LEADER, (0, 0, 8), (8, 0, 12), table=[(0, 0)], high_watermark=20)
    log_dir = _replica(tmp_path, FOLLOWER, (0, 0, 4), table=[(0, 0)], high_watermark=20)
    kafka_files.segment(log_dir / "t-0", 12, kafka_files.batch(12, 0, deltas=range(8), value=b"0"))
    if is_marked:  # nothing is deleted after it
        (log_dir / ".kafka_cleanshutdown").write_text(f'{{"version":0,"brokerEpoch":{FOLLOWER}}}')
    row = _verdict(_stopped(tmp_path))
    expected = ("log_matching_violation", None) if is_marked else ("inconclusive", "deleted while copied")
    assert (row["verdict"], row["cause"]) == expected
    assert is_marked or "the broker may have run then, before it was stopped, and have deleted them" in row["reason"]
    assert is_marked or ".kafka_cleanshutdown" in row["reason"]


def test_so_may_be_a_replica_without_a_segment(tmp_path: Path) -> None:
    _replica(tmp_path, LEADER, (0, 0, 20), table=[(0, 0)], high_watermark=20)
    log_dir = _replica(tmp_path, FOLLOWER, (0, 0, 4), table=[(0, 0)], high_watermark=0)
    (log_dir / "t-0" / f"{0:020d}.log").unlink()
    row = _verdict(_stopped(tmp_path))
    assert (row["verdict"], row["cause"]) == ("inconclusive", "deleted while copied")
    assert "the copy has no segment, and the broker may have run then" in row["reason"]
    (log_dir / ".kafka_cleanshutdown").write_text(f'{{"version":0,"brokerEpoch":{FOLLOWER}}}')
    row = _verdict(tmp_path)
    assert (row["verdict"], row["cause"]) == ("inconclusive", "segments not copied")


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_table_may_be_of_after_retention_in_the_copy_of_a_broker_that_stopped_later(tmp_path: Path, is_marked: bool) -> None:
    """Seen on Kafka 4.3.1: the first segment was copied, retention deleted it on the broker, the table was copied, the broker stopped."""
    _replica(tmp_path, LEADER, (0, 0, 8), (8, 0, 4), (12, 0, 8), table=[(0, 0)], high_watermark=20)
    log_dir = _replica(tmp_path, FOLLOWER, (0, 0, 8), table=[(0, 8)], high_watermark=12)
    kafka_files.segment(log_dir / "t-0", 8, kafka_files.batch(8, 0, deltas=range(4), value=b"0"))
    if is_marked:
        (log_dir / ".kafka_cleanshutdown").write_text(f'{{"version":0,"brokerEpoch":{FOLLOWER}}}')
    assert _verdict(_stopped(tmp_path))["verdict"] == ("epoch_table_only" if is_marked else "lagging")


def _without_its_table(root: Path) -> Path:
    """The leader's copy is of epoch 0 and lacks its table; the follower has an epoch more."""
    log_dir = _replica(root, LEADER, (0, 0, 8), table=[(0, 0)], high_watermark=8)
    (log_dir / "t-0" / "leader-epoch-checkpoint").unlink()
    _replica(root, FOLLOWER, (0, 0, 8), (8, 1, 4), table=[(0, 0), (1, 8)], high_watermark=8)
    return log_dir


def _about_tables(root: Path) -> tuple[str, list[Row]]:
    """The verdict, and the problems of epoch tables."""
    tables = in_process.audit(root)
    (row,) = [row for row in tables["replica_verdicts"] if row["topic"] == "t"]
    return row["verdict"], [one for one in tables["input_errors"] if one["kind"] == "leader-epoch-checkpoint"]


def test_a_leader_that_runs_has_a_table_though_the_copy_has_none(tmp_path: Path) -> None:
    """Seen on Kafka 4.3.1: a reassignment renamed the replica while it was copied, and it came back to lead in a later epoch."""
    _without_its_table(tmp_path)
    verdict, (told,) = _about_tables(_elected_again(tmp_path, is_stopped=False))
    assert (verdict, told["code"]) == ("inconclusive", "missing-from-copy")
    assert "this one runs, and may have moved or deleted the replica" in told["detail"]
    assert told["remedy"].startswith("if the replica is no longer on that broker, remove its folder from the copy")


def test_so_may_one_that_was_stopped_later(tmp_path: Path) -> None:
    _without_its_table(tmp_path)
    verdict, (told,) = _about_tables(_elected_again(tmp_path, is_stopped=True))
    assert (verdict, told["code"]) == ("inconclusive", "missing-from-copy")
    assert "this one may have run then, before it was stopped, and may have moved or deleted the replica" in told["detail"]
    assert told["remedy"].startswith("do not start the broker yet: copy its log directory again with hidden files (.kafka_cleanshutdown")


def test_of_a_stopped_one_it_was_deleted(tmp_path: Path) -> None:
    (_without_its_table(tmp_path) / ".kafka_cleanshutdown").write_text(f'{{"version":0,"brokerEpoch":{LEADER}}}')
    _verdict, (told,) = _about_tables(_elected_again(tmp_path, is_stopped=True))
    assert told["code"] == "checkpoint-contradicts-batches"


def test_so_it_was_where_all_was_copied_at_one_instant(tmp_path: Path) -> None:
    _without_its_table(tmp_path)
    tables = in_process.audit(_elected_again(tmp_path, is_stopped=False), settings=Settings(simultaneous_copies=True))
    (told,) = [one for one in tables["input_errors"] if one["kind"] == "leader-epoch-checkpoint"]
    assert told["code"] == "checkpoint-contradicts-batches"


def test_a_log_without_epochs_has_none(tmp_path: Path) -> None:
    """Brokers up to 3.9 delete the file of a topic whose format is older than v2."""
    for broker in (LEADER, FOLLOWER):
        log_dir = _replica(tmp_path, broker, (0, 0, 8), table=[], high_watermark=8)
        kafka_files.segment(log_dir / "t-0", 0, kafka_files.legacy(1, range(8)))
    (tmp_path / f"broker-{LEADER}" / "data-0" / "t-0" / "leader-epoch-checkpoint").unlink()
    _verdict, told = _about_tables(_elected_again(tmp_path, is_stopped=False))
    assert told == []


@pytest.mark.parametrize(
    ("leads_in", "expected"),
    [
        pytest.param(1, "cannot_rejoin", id="the epoch that its table lacks"),
        pytest.param(4, "lagging", id="a later one, which its copy does not know"),
    ],
)
def test_a_table_that_was_copied_before_the_log_is_not_wrong_for_what_came_later(tmp_path: Path, leads_in: int, expected: str) -> None:
    """Seen on Kafka 4.3.1: the table ended in epoch 13, the log in 14, and the metadata, copied last, knew 19."""
    _replica(tmp_path, LEADER, (0, 0, 8), (8, 1, 4), table=[(0, 0)], high_watermark=8)
    _replica(tmp_path, FOLLOWER, (0, 0, 8), table=[(0, 0)], high_watermark=8)
    verdict, _told = _about_tables(_elected_again(tmp_path, is_stopped=False, leads_in=leads_in))
    assert verdict == expected


def _elected_again(root: Path, *, is_stopped: bool, leads_in: int = 3) -> Path:
    """The metadata log: broker 1 leads in an epoch; in the end it runs, or has stopped."""
    registered = [mf.record("REGISTER_BROKER_RECORD", **_REGISTRATION, brokerId=one, brokerEpoch=one) for one in (LEADER, FOLLOWER)]
    created = [mf.topic("t"), mf.partition(replicas=[LEADER, FOLLOWER], isr=[LEADER], leaderEpoch=leads_in)]
    runs = [mf.record("BROKER_REGISTRATION_CHANGE_RECORD", brokerId=one, brokerEpoch=one, fenced=-1) for one in (LEADER, FOLLOWER)]
    stops = [
        mf.record("BROKER_REGISTRATION_CHANGE_RECORD", brokerId=LEADER, brokerEpoch=LEADER, **changed)
        for changed in ({"inControlledShutdown": 1}, {"fenced": 1})
    ]
    level = mf.record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=25)
    records = [level, *registered, *created, *runs, *(stops if is_stopped else [])]
    mf.log(root / f"broker-{FOLLOWER}" / "data-0" / "__cluster_metadata-0", records)
    return root


@pytest.mark.parametrize(("snapshots", "is_short"), [((), True), ((0, 9), False), ((0, 12), True), ((0, 20), True)])
def test_a_log_that_was_copied_before_its_broker_stopped_misses_nothing(tmp_path: Path, snapshots: tuple[int, ...], is_short: bool) -> None:
    """Seen on Kafka 4.3.1: the logs were copied first, then the broker stopped, then the checkpoints and the marker were copied.

    A clean stop writes a producer snapshot at the log end: 12 here if the copy is of after it, beyond it if the end is gone.
    """
    _replica(tmp_path, LEADER, (0, 0, 8), (8, 1, 4), (12, 1, 8), table=[(0, 0), (1, 8)], high_watermark=20)
    log_dir = _replica(tmp_path, FOLLOWER, (0, 0, 8), (8, 1, 4), table=[(0, 0), (1, 8)], high_watermark=20)
    (log_dir / ".kafka_cleanshutdown").write_text(f'{{"version":0,"brokerEpoch":{FOLLOWER}}}')
    for offset in snapshots:
        (log_dir / "t-0" / f"{offset:020d}.snapshot").write_bytes(b"")
    tables = in_process.audit(_stopped(tmp_path))
    assert [row["code"] for row in tables["found"]] == ["ends_below_high_watermark"] * is_short
