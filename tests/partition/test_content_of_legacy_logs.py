"""Logs without leader epochs: only the batches themselves tell where two of them part, whether or not a follower is cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.rows.codes import Protocol
from tests.protocol.logs import Batch
from tests.scenarios.disks import Audited, Cluster, Disk
from tests.support import in_process

LEADER: list[Batch] = [(-1, 0, 19), (-1, 20, 29)]


def _audited(tmp_path: Path, follower: Disk, protocol: Protocol = Protocol.HIGH_WATERMARK) -> Audited:
    """Single messages of magic 1 on both sides; the follower's broker is down and will cut to the high watermark that it persisted."""
    disks = {1: Disk(batches=LEADER, high_watermark=30), 2: follower}
    return Cluster(disks=disks, leader_epoch=3, isr=(1,)).audit(tmp_path, protocol)


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize(
    ("other_from", "verdict"),
    [
        pytest.param(0, "content_mismatch", id="from the beginning"),
        pytest.param(19, "content_mismatch", id="in the last message that is not cut"),
        pytest.param(20, "stale_tail", id="from the cut on"),
        pytest.param(None, "identical", id="nowhere: it is fetched again"),
    ],
)
def test_what_differs_below_the_cut_stays_different(tmp_path: Path, protocol: Protocol, other_from: int | None, verdict: str) -> None:
    batches = [(-1, offset, offset) for offset in range(30)]
    found = _audited(tmp_path, Disk(batches=batches, high_watermark=20, other_from=other_from), protocol)
    row = found.row()
    assert (row["truncation_offset"], row["removed_offsets"]) == (20, 10)
    assert (row["verdict"], row["divergence_offset"]) == (verdict, other_from)


def test_where_a_longer_log_differs_tells_where_it_parts(tmp_path: Path) -> None:
    """It would else be taken to part where the leader ends."""
    row = _audited(tmp_path, Disk(batches=[*LEADER, (-1, 30, 39)], high_watermark=20, other_from=20)).row()
    assert (row["verdict"], row["divergence_offset"], row["truncation_offset"]) == ("stale_tail", 20, 20)
    row = _audited(tmp_path, Disk(batches=[*LEADER, (-1, 30, 39)], high_watermark=20)).row()
    assert (row["verdict"], row["divergence_offset"], row["truncation_offset"]) == ("stale_tail", 30, 20)


OLD = [(-1, at, at) for at in range(30)]
MIXED: list[Batch] = [*OLD, *((3, at, at) for at in range(30, 40))]  # brokers that went on to magic 2 at offset 30


def _mixed(
    tmp_path: Path, follower: Sequence[Batch], leader: Sequence[Batch] = MIXED, configs: dict[str, str] | None = None, **given: Any
) -> Path:
    """Two logs of which a part has no epochs; the metadata knows the leader's last epoch."""
    ends = [batches[-1][2] + 1 for batches in (leader, follower)]
    disks = {1: Disk(batches=leader, high_watermark=ends[0]), 2: Disk(batches=follower, high_watermark=ends[1], **given)}
    epoch = max(3, *(batch[0] for batch in leader))
    Cluster(disks=disks, leader_epoch=epoch, isr=(1,), configs=configs or {}).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    return next(tmp_path.iterdir())


@pytest.mark.parametrize(
    "follower",
    [
        pytest.param(MIXED, id="as far as the leader"),
        pytest.param(OLD, id="the older format only"),
        pytest.param(MIXED[:35], id="shorter"),
        pytest.param([*OLD, *((-1, at, at) for at in range(30, 40))], id="converted from 30 on"),
        pytest.param([*OLD, *((-1, at, at) for at in range(30, 35))], id="converted, and shorter"),
        pytest.param([*OLD, *((-1, at, at) for at in range(30, 35)), *MIXED[35:]], id="converted in the middle"),
    ],
)
@pytest.mark.parametrize("other_from", [None, 0, 29, 34])
def test_a_window_of_two_formats_is_compared(tmp_path: Path, follower: Sequence[Batch], other_from: int | None) -> None:
    home = _mixed(tmp_path, follower, other_from=other_from)
    (row,) = in_process.audit(home)["replica_verdicts"]
    is_same = other_from is None or other_from >= len(follower)
    if is_same:
        assert row["verdict"] in ("lagging", "identical") and "not all" not in row["reason"]
    else:
        assert (row["verdict"], row["divergence_offset"]) == ("content_mismatch", other_from)


def _held(epoch: int, first: int, end: int) -> list[Batch]:
    return [(epoch, at, at) for at in range(first, end)]


LOWERED = [*_held(3, 0, 20), *_held(-1, 20, 30)]  # message.format.version was set back at 20


@pytest.mark.parametrize("other_from", [None, 20, 29])
@pytest.mark.parametrize(
    ("leader", "follower"),
    [
        pytest.param(LOWERED, LOWERED, id="on both"),
        pytest.param(LOWERED, _held(3, 0, 30), id="on the leader"),
        pytest.param(_held(3, 0, 30), LOWERED, id="on the follower"),
        pytest.param(_held(3, 0, 32), LOWERED, id="on the follower, which is shorter"),
    ],
)
def test_an_older_format_behind_an_epoch_is_compared(
    tmp_path: Path, leader: Sequence[Batch], follower: Sequence[Batch], other_from: int | None
) -> None:
    (row,) = in_process.audit(_mixed(tmp_path, follower, leader, other_from=other_from))["replica_verdicts"]
    clean = "identical" if leader[-1][2] == follower[-1][2] else "lagging"
    assert (row["verdict"], row["divergence_offset"]) == (clean if other_from is None else "content_mismatch", other_from)


def test_an_older_format_behind_another_epoch_is_lost_with_it(tmp_path: Path) -> None:
    """The logs part at 20: what the follower wrote without epochs from 25 on, the leader cannot hold."""
    follower = [*_held(2, 0, 20), *_held(3, 20, 25), *_held(-1, 25, 30)]
    leader = [*_held(2, 0, 20), *_held(4, 20, 40)]
    home = _mixed(tmp_path, follower, leader)
    (row,) = in_process.audit(home)["replica_verdicts"]
    assert (row["verdict"], row["truncation_offset"]) == ("committed_loss", 20)
    assert row["removed_committed_offsets"] == {"checkpointed-high-watermark": 5}  # of those that have an epoch
    assert row["reason"].endswith("whether 5 more that it does not hold were committed is unknown")


@pytest.mark.parametrize(
    ("compare", "policy", "lacks", "verdict", "cause"),
    [
        pytest.param("content", "delete", None, "content_mismatch", None, id="content"),
        pytest.param("content", "compact", None, "content_mismatch", None, id="content, no cleaner took a record"),
        pytest.param("content", "compact", 31, "inconclusive", "no epochs", id="content, a cleaner took one"),
        pytest.param("epochs", "delete", None, "inconclusive", "no epochs", id="epochs"),
        pytest.param("epochs", "compact", None, "inconclusive", "no epochs", id="epochs, no cleaner took a record"),
        pytest.param("epochs", "compact", 31, "inconclusive", "no epochs", id="epochs, a cleaner took one"),
    ],
)
def test_what_nothing_can_tell_is_inconclusive(
    tmp_path: Path, compare: str, policy: str, lacks: int | None, verdict: str, cause: str | None
) -> None:
    follower = [*OLD, *((-1, at, at) for at in range(30, 40) if at != lacks)]
    home = _mixed(tmp_path, follower, other_from=34, configs={"cleanup.policy": policy})
    (row,) = in_process.audit(home, settings=Settings.model_validate({"compare": compare}))["replica_verdicts"]
    assert (row["verdict"], row["cause"]) == (verdict, cause)
