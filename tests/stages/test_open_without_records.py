"""Open transactions that a replica has no records of: below the log start its broker may remember them, what was cleaned is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.model import ProducerState
from tests.formats import kafka_files as kf
from tests.formats.test_producer_snapshots import snapshot
from tests.support import in_process
from tests.support.in_process import Row

_OPEN = ProducerState(7, 0, 4, 4, 0, 1, -1, 0)
_END = 9


def _rows(tmp_path: Path, *snapshots: tuple[int, tuple[ProducerState, ...] | None], start: int) -> list[Row]:
    """A transaction at 0..4 that no marker ends, and more behind it; the log start is moved up, as DeleteRecords does it."""
    data = kf.log_dir(tmp_path / "cluster" / "broker-1" / "data")
    opens = kf.batch(0, 0, deltas=range(5), producer=(7, 0, 0), transactional=True)
    replica = kf.replica(data, "orders-0", batches=[opens, kf.batch(5, 0, deltas=range(4))])
    (data / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, _END)]))
    (data / "log-start-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, start)]))
    for offset, states in snapshots:
        (replica / f"{offset:020d}.snapshot").write_bytes(b"damaged" if states is None else snapshot(*states))
    return in_process.audit(tmp_path / "cluster")["open_transactions"]


@pytest.mark.parametrize(
    ("snapshots", "is_open"),
    [
        pytest.param([(_END, (_OPEN,))], True, id="the newest snapshot has it"),
        pytest.param([(5, (_OPEN,)), (_END, ())], False, id="an older one had it: it was forgotten since"),
        pytest.param([(_END, (_OPEN._replace(open_first_offset=-1),))], False, id="the producer has nothing open"),
        pytest.param([(_END, None)], True, id="not known: the snapshot cannot be read"),
        pytest.param([], True, id="not known: there is none, as in a collection"),
        pytest.param([(3, ())], False, id="none was taken behind it, and the broker is not known to run"),
        pytest.param([(_END + 1, ()), (6, (_OPEN,))], True, id="one is newer than the copy of the log"),
    ],
)
def test_a_transaction_below_the_log_start(tmp_path: Path, snapshots: list[tuple[int, tuple[ProducerState, ...]]], is_open: bool) -> None:
    """Seen on 3.9.2 and 4.3.1: consumers stand still at the log start, and find-hanging tells the transaction."""
    rows = _rows(tmp_path, *snapshots, start=5)
    assert [(row["first_offset"], row["last_stable_offset"]) for row in rows] == ([(0, 5)] if is_open else [])


def test_one_that_reaches_into_the_log_needs_no_snapshot(tmp_path: Path) -> None:
    (row,) = _rows(tmp_path, (_END, ()), start=4)
    assert (row["first_offset"], row["last_stable_offset"]) == (0, 4)


@pytest.mark.parametrize(("is_cleaned", "standing"), [(True, "not-there"), (False, "open")])
def test_a_transaction_that_the_followers_cleaner_has_removed(tmp_path: Path, is_cleaned: bool, standing: str) -> None:
    """Seen on 4.3.1: it was aborted there, cleaned, and the marker was cut with the leader's epoch."""
    opens, rest = kf.batch(0, 0, deltas=range(5), producer=(7, 0, 0), transactional=True), [kf.batch(5, 0), kf.batch(6, 0)]
    for broker, batches in ((1, [opens, *rest]), (2, rest[:1] if is_cleaned else [opens, rest[0]])):
        data = kf.log_dir(tmp_path / "cluster" / f"broker-{broker}" / "data", broker_id=broker)
        kf.replica(data, "orders-0", batches=batches)
        (data / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 6)]))
        (data / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 5)]))
    (row,) = in_process.audit(tmp_path / "cluster")["open_transactions"]
    assert row["leader_id"] == 1
    assert [(one["broker_id"], one["standing"]) for one in row["elsewhere"]] == [(2, standing)]
