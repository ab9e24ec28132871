"""The end of a log: torn after a clean stop, below what had been committed, or inside a batch of the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cases.ran import Ran, ran
from tests.formats import kafka_files
from tests.partition.test_what_if import COMMON, _metadata, _write
from tests.protocol import logs

END = COMMON[-1][2] + 1
LONGER = [*COMMON, (0, END, END + 4)]
HALF = kafka_files.batch(END, 0, value=b"x" * 200)[:100]
Batches = Mapping[int, Sequence[logs.Batch]]


def _log_dir(root: Path, broker: int) -> Path:
    return root / f"broker-{broker}" / "data-0"


def _append(root: Path, broker: int, content: bytes) -> None:
    path = max((_log_dir(root, broker) / "t-0").glob("*.log"))
    path.write_bytes(path.read_bytes() + content)


def _stop(root: Path, *brokers: int) -> None:
    for broker in brokers:
        (_log_dir(root, broker) / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}', encoding="utf-8")


def _led_by_1(root: Path, held: Batches, marks: Mapping[int, int], *, isr: Sequence[int], state: str = "up") -> Path:
    written = _write(root, held, high_watermarks=marks)
    return _metadata(written, 1, epoch=0, brokers=sorted(held), isr=isr, state=state)


def _codes(found: Ran) -> list[tuple[str, int]]:
    return [(code, broker) for code, severity, broker in found.findings if severity == "error"]


# --- torn after a clean stop --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [1, 2])
@pytest.mark.parametrize("tail", [HALF, b"\x00\x01\x02", b"\0" * 300], ids=["half a batch", "a few bytes", "zeros"])
def test_an_end_that_is_no_batch_after_a_clean_stop_is_an_error(tmp_path: Path, torn: int, tail: bytes) -> None:
    root = _led_by_1(tmp_path, {1: COMMON, 2: COMMON}, {1: END, 2: END}, isr=[1, 2], state="down")
    _stop(root, 1, 2)
    assert ran(root).exit_code == 0
    _append(root, torn, tail)
    found = ran(root)
    assert found.exit_code == 1
    assert _codes(found) == [("torn_after_clean_stop", torn)]
    assert {one.broker_id: one.outcome for one in found.report.broker_starts}[torn] == "repair-first"


def test_without_any_metadata_the_marker_alone_tells(tmp_path: Path) -> None:
    root = _write(tmp_path, {1: COMMON, 2: COMMON}, high_watermarks={1: END, 2: END})
    _stop(root, 2)
    _append(root, 2, HALF)
    assert ("torn_after_clean_stop", 2) in _codes(ran(root))


@pytest.mark.parametrize("state", ["up", "down"])
def test_a_torn_end_that_recovery_cuts_off_or_that_is_being_written_is_none(tmp_path: Path, state: str) -> None:
    """A crash, or a copy that was taken while the broker wrote."""
    root = _led_by_1(tmp_path, {1: COMMON, 2: COMMON}, {1: END, 2: END}, isr=[1, 2], state=state)
    _append(root, 2, HALF)
    found = ran(root)
    assert (found.exit_code, _codes(found)) == (0, [])


# --- below what had been committed --------------------------------------------------------------------------------------------------------


def test_a_member_of_the_isr_below_its_leaders_high_watermark(tmp_path: Path) -> None:
    root = _led_by_1(tmp_path, {1: LONGER, 2: COMMON}, {1: END + 5, 2: END}, isr=[1, 2], state="down")
    found = ran(root)
    assert (found.exit_code, _codes(found)) == (1, [("ends_below_high_watermark", 2)])
    assert found.verdicts == {("t", 0, 2): "lagging"}
    assert f"offsets {END}..{END + 4}" in found.report.others[0].summary


def test_a_replica_below_its_own_checkpoint_after_a_clean_stop_in_the_isr_or_not(tmp_path: Path) -> None:
    root = _led_by_1(tmp_path, {1: LONGER, 2: COMMON}, {1: END + 5, 2: END + 5}, isr=[1], state="up")
    _stop(root, 2)
    assert _codes(ran(root)) == [("ends_below_high_watermark", 2)]


@pytest.mark.parametrize(
    ("marks", "isr", "state"),
    [
        pytest.param({1: END + 5, 2: END}, [1], "down", id="outside the ISR a follower may lag"),
        pytest.param({1: END, 2: END}, [1, 2], "down", id="what is not committed may be behind"),
        pytest.param({1: END + 5, 2: END}, [1, 2], "up", id="copied while it ran, the follower first"),
        pytest.param({1: END + 5, 2: END + 5}, [1], "down", id="a crash lost what was not flushed, and it is fetched again"),
    ],
)
def test_a_follower_that_may_end_there(tmp_path: Path, marks: Mapping[int, int], isr: Sequence[int], state: str) -> None:
    root = _led_by_1(tmp_path, {1: LONGER, 2: COMMON}, marks, isr=isr, state=state)
    found = ran(root)
    assert (found.exit_code, found.findings) == (0, [])


def test_a_crash_explains_no_end_beyond_which_the_leader_has_other_records(tmp_path: Path) -> None:
    """By its high watermark the follower held more of its epoch, which nobody can send it again: its copy is short, or that is lost."""
    later = [*COMMON, (1, END, END + 4)]
    written = _write(tmp_path, {1: later, 2: COMMON}, high_watermarks={1: END + 5, 2: END + 5})
    found = ran(_metadata(written, 1, epoch=1, brokers=[1, 2], isr=[1], state="down"))
    assert (found.exit_code, _codes(found)) == (1, [("ends_below_high_watermark", 2)])
    assert {one.broker_id: one.outcome for one in found.report.broker_starts} == {1: "safe", 2: "unknown"}


def test_metadata_from_before_the_brokers_stopped_proves_nothing_about_the_isr(tmp_path: Path) -> None:
    """Broker 2 was stopped first, left the ISR, and the leader went on; the file still has it as it was before."""
    root = _led_by_1(tmp_path, {1: LONGER, 2: COMMON}, {1: END + 5, 2: END}, isr=[1, 2], state="up")
    _stop(root, 1, 2)
    assert _codes(ran(root)) == []


def test_what_every_log_lacks_is_gone(tmp_path: Path) -> None:
    root = _led_by_1(tmp_path, {1: COMMON, 2: COMMON}, {1: END, 2: END + 3}, isr=[1, 2], state="down")
    found = ran(root)
    assert (found.exit_code, _codes(found)) == (1, [("committed_records_gone", -1)])
    assert {(one.broker_id, one.outcome) for one in found.report.broker_starts} == {(1, "unknown"), (2, "unknown")}, "a copy may be short"


# --- a leader's copy that is short --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [COMMON, LONGER])
def test_nothing_is_clean_below_a_leader_whose_copy_is_short(tmp_path: Path, second: Sequence[logs.Batch]) -> None:
    root = _led_by_1(tmp_path, {1: COMMON, 2: second, 3: COMMON}, {1: END + 5, 2: END, 3: END}, isr=[1, 2, 3], state="down")
    found = ran(root)
    assert set(found.verdicts.values()) == {"inconclusive"}
    assert found.exit_code == 1


def test_nor_where_nobody_knows_whether_it_ran(tmp_path: Path) -> None:
    root = _led_by_1(tmp_path, {1: COMMON, 2: COMMON}, {1: END + 5, 2: END}, isr=[1, 2], state="unknown")
    found = ran(root)
    assert (set(found.verdicts.values()), found.exit_code) == ({"inconclusive"}, 3)


def test_the_checkpoint_of_a_leader_that_went_on_may_be_later_than_its_log(tmp_path: Path) -> None:
    root = _led_by_1(tmp_path, {1: COMMON, 2: COMMON}, {1: END + 5, 2: END}, isr=[1, 2], state="up")
    apart = ran(root)
    assert ({row["cause"] for row in apart.rows("replica_verdicts")}, apart.exit_code) == ({"leader copied earlier"}, 3)
    assert {one.broker_id: one.outcome for one in apart.report.broker_starts} == {1: "unknown", 2: "unknown"}
    at_once = ran(root, simultaneous_copies=True)
    assert (set(at_once.verdicts.values()), at_once.exit_code) == ({"inconclusive"}, 1)


# --- inside a batch of the leader ---------------------------------------------------------------------------------------------------------


def _trimmed(root: Path, second: Sequence[logs.Batch]) -> Path:
    """The leader's log starts at 25, inside its first batch that is left: DeleteRecords moves the start into a batch."""
    _write(root, {1: [(4, 24, 34)], 2: second}, epochs={1: {4: 25}}, starts={1: 24})
    (_log_dir(root, 1) / "log-start-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, 25)]))
    return _metadata(root, 1, epoch=4, brokers=[1, 2], isr=[1], state="up")


def test_a_follower_that_ends_inside_a_batch_of_its_leader_never_comes_back(tmp_path: Path) -> None:
    found = ran(_trimmed(tmp_path, [(0, 0, 11), (2, 12, 24)]))
    assert found.verdicts == {("t", 0, 2): "lagging"}
    assert (found.exit_code, _codes(found)) == (1, [("fetch_fails_forever", 2)])


@pytest.mark.parametrize(("high_watermark", "fails"), [(25, True), (24, False), (35, False), (None, False)])
def test_a_running_follower_whose_fetcher_failed_by_its_checkpoint(tmp_path: Path, high_watermark: int | None, fails: bool) -> None:
    """It truncated to 25 in memory, its files end at 24, and nobody's high watermark lies inside a batch otherwise."""
    root = _trimmed(tmp_path, [(0, 0, 11), (2, 12, 23)])
    if high_watermark is not None:
        (_log_dir(root, 2) / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, high_watermark)]))
    found = ran(root)
    assert found.verdicts == {("t", 0, 2): "inconclusive"}
    assert (found.exit_code, _codes(found)) == ((1, [("fetch_fails_forever", 2)]) if fails else (3, []))


def test_one_whose_files_end_between_batches_goes_on_once_restarted(tmp_path: Path) -> None:
    """It agrees with its leader, which was clean; the high watermark inside the batch says that it truncated there."""
    root = _write(tmp_path, {1: [(0, 0, 16), (4, 17, 34)], 2: [(0, 0, 16)]})
    (_log_dir(root, 2) / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, 19)]))
    found = ran(_metadata(root, 1, epoch=4, brokers=[1, 2], isr=[1], state="up"))
    assert (found.exit_code, _codes(found)) == (1, [("fetch_fails_forever", 2)])
    assert found.rows("findings")[0]["summary"].endswith("then it fetches from 17")
    healthy = ran(_metadata(root, 1, epoch=4, brokers=[1, 2], isr=[1, 2], state="up"))
    assert (healthy.exit_code, _codes(healthy)) == (0, [])


_FETCHER = "ERROR [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0]"
_FAILED = f"{_FETCHER} Unexpected error occurred while processing data for partition t-0 at offset 25"
_FOLLOWS = "INFO [Broker id=2] Follower t-0 starts at leader epoch 5 from offset 24 with high watermark 24. Previous leader is 1"


@pytest.mark.parametrize(("lines", "fails"), [((_FAILED,), True), ((_FOLLOWS, _FAILED), True), ((_FAILED, _FOLLOWS), False)])
def test_one_whose_log_says_so_last(tmp_path: Path, lines: Sequence[str], fails: bool) -> None:
    root = _trimmed(tmp_path, [(0, 0, 11), (2, 12, 23)])
    text = "".join(f"[2026-11-21 06:01:3{at},387] {line} (kafka.server.ReplicaFetcherThread)\n" for at, line in enumerate(lines))
    (root / "broker-2" / "server.log").write_text(text)
    found = ran(root)
    assert (found.exit_code, _codes(found)) == ((1, [("fetch_fails_forever", 2)]) if fails else (3, []))


def test_one_that_ends_behind_it_does(tmp_path: Path) -> None:
    found = ran(_trimmed(tmp_path, [(4, 24, 34)]))
    assert (found.exit_code, _codes(found)) == (0, [])


def test_a_running_leader_whose_log_start_lies_beyond_its_segments_decides_nothing(tmp_path: Path) -> None:
    """Its segments were copied before its checkpoint: what its followers would find there nobody knows."""
    root = _led_by_1(tmp_path, {1: COMMON, 2: COMMON}, {1: END, 2: END}, isr=[1, 2])
    (_log_dir(root, 1) / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1000\n", encoding="utf-8")
    found = ran(root)
    assert found.exit_code == 3
    assert {one.broker_id: one.outcome for one in found.report.broker_starts} == {1: "unknown", 2: "unknown"}
