"""A stopped broker that is started alone does to each of its replicas what the audit said of its start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replica_audit.rows.starts import ReplicaStart
from tests.kafka_lab.files import FileBatch
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.predicted import Performed
from tests.kafka_lab.starts import Seen, held, starts
from tests.recovery.blank_rows import row

_HISTORIES, _PARTITIONS = 3, 20


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("line", VERSIONS)
def test_a_start_is_what_its_outcome_says(line: str, tmp_path: Path) -> None:
    found = starts(line, seed=1, histories=_HISTORIES, partitions=_PARTITIONS, keep=tmp_path)
    assert not found.differences
    assert (found.histories, found.failed) == (_HISTORIES, 0)
    assert found.lost_records, "no start truncated anything"
    assert found.replicas["safe"]


def _batches(*bases: int, epoch: int = 1) -> list[FileBatch]:
    return [FileBatch(base, base, epoch, 1, b"%d of %d" % (base, epoch)) for base in bases]


SAME = _batches(0, 1)
LEADS = [*SAME, *_batches(2, epoch=2)]
CUT: dict[str, Any] = {"was": [*SAME, *_batches(2, 3)], "became": LEADS, "leads": LEADS, "did": Performed(cuts=[(2, True, 1, 2)])}
SAFE: dict[str, Any] = {"was": SAME, "became": LEADS, "leads": LEADS}
TRUNCATES = row(
    ReplicaStart, broker_id=2, outcome="copy-first", because=("truncates",), leader_id=1, first_offset=2, lost_offsets=2, lost_records=2
)
STRAY = row(ReplicaStart, broker_id=2, outcome="repair-first", because=("becomes-stray",), leader_id=1)
BROKEN = row(ReplicaStart, broker_id=2, outcome="repair-first", because=("cannot-follow",), leader_id=1)
LEADS_ITSELF = row(ReplicaStart, broker_id=2, outcome="safe", because=(), leader_id=2, election="clean")
UNKNOWN = row(ReplicaStart, broker_id=2, outcome="unknown", because=("not-compared",), leader_id=1)


@pytest.mark.parametrize(
    ("said", "did", "wrong"),
    [
        (None, SAFE, False),
        (None, CUT, True),
        (None, SAFE | {"became": SAME, "is_in_sync": False}, True),
        (None, SAFE | {"became": SAME}, True),
        (TRUNCATES, CUT, False),
        (TRUNCATES, CUT | {"did": Performed(cuts=[(3, True, 1, 3)])}, True),
        (TRUNCATES, CUT | {"was": [*SAME, *_batches(2)]}, True),
        (TRUNCATES, SAFE, True),
        (STRAY, SAFE | {"became": [], "is_stray": True}, False),
        (STRAY, SAFE, True),
        (None, SAFE | {"is_stray": True}, True),
        (BROKEN, SAFE | {"became": SAME, "is_in_sync": False}, False),
        (BROKEN, SAFE, True),
        (LEADS_ITSELF, SAFE | {"became": SAME, "leads": SAME, "leader_id": 2}, False),
        (LEADS_ITSELF, SAFE | {"became": SAME, "leads": [], "leader_id": -1}, True),
        (UNKNOWN, CUT, False),
    ],
)
def test_every_difference_is_noticed(said: ReplicaStart | None, did: dict[str, Any], wrong: bool) -> None:
    usual: dict[str, Any] = {"leaders_start": 0, "start": 0, "did": Performed(), "is_stray": False, "is_in_sync": True, "leader_id": 1}
    assert bool([*held(said, Seen(**(usual | did)), compacted=False)]) is wrong
