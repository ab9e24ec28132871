"""An audit of a log of any shape takes as many steps as the log is long: twice the batches, at most about twice the steps.

Steps are lines that run, not seconds. What is looked at is how they grow from one doubling to the next, so that what an audit takes for
nothing does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import replica_audit
from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.protocol.epochs import checkpoint_repair
from replica_audit.protocol.epochs.epoch_table import epoch_for_offset
from replica_audit.protocol.epochs.replica_log import LoadedLog, epochs_from_runs
from tests.formats import kafka_files as kf

PRODUCT = str(Path(replica_audit.__file__).parent)
LENGTHS = (32, 64, 128)
MOST = 2.5  # 2 is linear, 4 quadratic
Logs = tuple[list[bytes], list[bytes]]


def steps(root: Path) -> int:
    """How many lines of the product an audit runs."""
    count = 0

    def line(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(PRODUCT) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        triage([str(root)], Settings(), tell=lambda _event: None, run_id="steps")
    finally:
        sys.settrace(before)
    return count


def pair(root: Path, logs: Logs, epochs: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([(1, 0)], [(1, 0)])) -> Path:
    """A leader and a follower."""
    for broker, batches in enumerate(logs):
        data = root / f"broker-{broker + 1}" / "data"
        kf.replica(data, "orders-0", epochs=epochs[broker], batches=batches)
        (data / "meta.properties").write_bytes(kf.meta_properties(broker + 1))
    return root


def growth(folder: Path, made: Callable[[Path, int], object]) -> float:
    """How steps grow with the second doubling of a log, against the first one."""
    counts: list[int] = []
    for length in (LENGTHS[-1] + 2, *LENGTHS):  # the first time modules are imported; answers are remembered, of the last logs
        made(folder / f"{len(counts)}", length)
        counts.append(steps(folder / f"{len(counts)}"))
    return (counts[3] - counts[2]) / max(counts[2] - counts[1], counts[1] // 20)


def in_epochs(epoch: Callable[[int], int], length: int) -> list[bytes]:
    return [kf.batch(offset, epoch(offset)) for offset in range(length)]


def wrong_crc(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def every_other(first: int, count: int) -> list[bytes]:
    return [kf.batch(2 * at + first, 1) for at in range(count)]


def tenth_wrong(count: int) -> list[bytes]:
    return [one if at % 10 else wrong_crc(one) for at, one in enumerate(in_epochs(lambda _at: 1, 10 * count))]


def of_producer(offset: int, producer: int) -> bytes:
    """A batch of a transaction that nothing ends."""
    batch = kf.with_field(kf.with_field(kf.batch(offset, 1), ">h", 21, 0x10), ">q", 43, producer)
    return kf.sealed(kf.with_field(kf.with_field(batch, ">h", 51, 0), ">i", 53, 0))


def opened(length: int, *, ended: bool) -> list[bytes]:
    markers = [kf.control_batch(2 * length + at, 1, producer_id=100 + at) for at in range(length)]
    return [*(of_producer(2 * at, 100 + at) for at in range(length)), *(markers if ended else ())]


SHAPES: dict[str, Callable[[Path, int], object]] = {
    "epochs go backward": lambda root, n: pair(root, (in_epochs(lambda at: n - at, n),) * 2),
    "epochs alternate on both": lambda root, n: pair(root, (in_epochs(lambda at: at % 2, n), in_epochs(lambda at: 1 - at % 2, n))),
    "epochs alternate on the leader": lambda root, n: pair(root, (in_epochs(lambda at: 1 + at % 2, n), in_epochs(lambda _at: 1, n))),
    "epochs alternate on the follower": lambda root, n: pair(root, (in_epochs(lambda _at: 0, n), in_epochs(lambda at: at % 2 * 2, n))),
    "epochs ascend, other ones on each": lambda root, n: pair(
        root,
        (in_epochs(lambda at: 2 * at, n), in_epochs(lambda at: 2 * at + (at > 3), n)),
        ([(2 * at, at) for at in range(n)], [(2 * at + (at > 3), at) for at in range(n)]),
    ),
    "every tenth CRC of the leader is wrong": lambda root, n: pair(root, (tenth_wrong(n), in_epochs(lambda _at: 1, 10 * n))),
    "every tenth CRC of the follower is wrong": lambda root, n: pair(root, (in_epochs(lambda _at: 1, 10 * n), tenth_wrong(n))),
    "holes everywhere": lambda root, n: pair(
        root, ([kf.batch(2 * at, 1) for at in range(n)], [kf.batch(2 * at + 1, 1) for at in range(n)])
    ),
    "offsets go back": lambda root, n: pair(root, ([kf.batch(at if at % 2 else max(at - 2, 0), 1) for at in range(n)],) * 2),
    "transactions are open": lambda root, n: pair(root, (opened(n, ended=False),) * 2),
    "transactions are open on the leader": lambda root, n: pair(root, (opened(n, ended=False), opened(n, ended=True))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_log_takes_twice_the_steps(tmp_path: Path, shape: str) -> None:
    assert growth(tmp_path, SHAPES[shape]) < MOST


def test_a_quadratic_audit_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of all batches made again for each epoch."""

    def made_again(log: LoadedLog, _of_batches: object, held: int) -> bool:
        table = epochs_from_runs(log.runs)
        return held < log.log_start_offset and epoch_for_offset(table, held) != epoch_for_offset(table, log.log_start_offset)

    monkeypatch.setattr(checkpoint_repair, "_ends_below_log_start", made_again)
    assert growth(tmp_path, SHAPES["epochs go backward"]) > MOST
