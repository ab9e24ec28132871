"""Copies of running brokers that hold segments which the cleaner had already merged into another; and overlaps that stay alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.formats import kafka_files
from tests.partition.test_deleted_while_copied import FOLLOWER, LEADER, _in_states
from tests.partition.test_what_if import _metadata
from tests.support import in_process

AS_WRITTEN = {0: range(33), 33: (33, 34), 35: (35,)}
MERGED = {0: (2, 9, 30, 34), 33: (33, 34), 35: (35,)}  # as of Kafka 4.3.1: 0 was copied after it was cleaned, 33 before it was deleted

STRANGER = 9  # a broker that has a log of an earlier topic


def _replica(root: Path, broker: int, segments: Mapping[int, Iterable[int]], cleaned: int | None) -> None:
    log_dir = root / f"broker-{broker}" / "data-0"
    directory = log_dir / "t-0"
    directory.mkdir(parents=True)
    for base, offsets in segments.items():
        batches = [kafka_files.batch(offset, 0, value=b"0") for offset in offsets]
        kafka_files.segment(directory, base, *batches)
    (directory / "leader-epoch-checkpoint").write_bytes(kafka_files.checkpoint([(0, 0)]))
    (directory / "partition.metadata").write_bytes(kafka_files.partition_metadata(kafka_files.TOPIC_ID))
    (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker))
    (log_dir / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, 36)]))
    if cleaned is not None:
        (log_dir / "cleaner-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, cleaned)]))


def _verdict(root: Path, segments: Mapping[int, Iterable[int]], cleaned: int | None = 35, **given: Any) -> tuple[str, list[str]]:
    _replica(root, LEADER, AS_WRITTEN, None)
    _replica(root, FOLLOWER, segments, cleaned)
    _metadata(root, LEADER, epoch=0, brokers=[LEADER, FOLLOWER], isr=[LEADER, FOLLOWER], state="up")
    _in_states(root, given.pop("states", {}))
    tables = in_process.audit(root, settings=Settings(**given))
    (row,) = [row for row in tables["replica_verdicts"] if row["topic"] == "t" and row["follower_id"] != STRANGER]
    return row["verdict"], sorted(problem["code"] for problem in tables["input_errors"])


@pytest.mark.parametrize("mode", ["epochs", "content"])
@pytest.mark.parametrize(
    "merged",
    [
        pytest.param(MERGED, id="as it was seen"),
        pytest.param({0: (2, 33), 10: range(10, 20), 20: range(20, 33), 33: (33,), 34: (34, 35)}, id="three segments became one"),
        pytest.param({0: (2, 33), 33: (33, 34), 35: (35,)}, id="what lay last was compacted away"),
        pytest.param({0: (2, 9, 34, 35), 33: (33, 34), 35: (35,)}, id="the newest was no longer the active one when the first was copied"),
    ],
)
def test_what_the_cleaner_had_replaced_is_left_out(tmp_path: Path, merged: Mapping[int, Iterable[int]], mode: str) -> None:
    assert _verdict(tmp_path, merged, compare=mode) == ("consistent", []), "the keys are not compared"


@pytest.mark.parametrize(
    ("segments", "given"),
    [
        pytest.param(MERGED, {"cleaned": None}, id="never cleaned"),
        pytest.param(MERGED, {"simultaneous_copies": True}, id="copied at one instant"),
        pytest.param(MERGED, {"states": {"of_3": "down"}}, id="the broker was down"),
        pytest.param({0: (2, 9, 40), 33: (33, 34), 35: (35,)}, {"states": {"of_3": "down"}}, id="an offset beyond the newest segment"),
    ],
)
def test_an_overlap_stays_an_alarm(tmp_path: Path, segments: Mapping[int, Iterable[int]], given: dict[str, Any]) -> None:
    verdict, _problems = _verdict(tmp_path, segments, **given)
    assert verdict == "unreadable"


def test_an_overlap_that_may_be_either_is_left_open(tmp_path: Path) -> None:
    # cleaned while much was written, or its base offset rotted
    verdict, _problems = _verdict(tmp_path, {0: (2, 9, 40), 33: (33, 34), 35: (35,)})
    assert verdict == "inconclusive"


def test_a_log_of_an_earlier_topic_of_the_name_proves_nothing(tmp_path: Path) -> None:
    _replica(tmp_path, STRANGER, {0: range(50)}, None)
    (tmp_path / f"broker-{STRANGER}" / "data-0" / "t-0" / "partition.metadata").write_bytes(
        kafka_files.partition_metadata("BBBBBBBBBBBBBBBBBBBBBA")
    )
    verdict, _problems = _verdict(tmp_path, {0: (2, 9, 40), 33: (33, 34), 35: (35,)})
    assert verdict == "inconclusive"
