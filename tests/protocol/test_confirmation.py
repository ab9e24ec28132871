"""When a finding of an earlier run is over: only by a clean comparison of the same pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.protocol.verdict.acknowledgement import is_resolved
from replica_audit.rows.findings import CheckedPartition, RunFinding
from tests.support.rows import sparse

PAIR = sparse(RunFinding, code="stale_tail", about="follower", broker_id=2, leader_id=1, leader_source="cluster-metadata")
CLEAN = CheckedPartition(
    topic="orders",
    partition=0,
    same_records=(),
    leader_id=1,
    leader_source="cluster-metadata",
    leader_has_epoch=True,
    has_no_hanging_transaction=True,
    isr=(1, 2, 3),
    clean=(1, 2, 3),
    same_batches=(2, 3),
)


def _resolved(finding: RunFinding = PAIR, /, **changed: Any) -> bool:
    return is_resolved(finding, replace(CLEAN, **changed))


def test_the_same_pair_clean() -> None:
    assert _resolved()


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"clean": (1, 3)}, id="the follower is inconclusive, unreadable, not collected, gone, or found otherwise"),
        pytest.param({"clean": ()}, id="the leader is unreadable or not in the input"),
        pytest.param({"leader_id": 3, "clean": (3, 2)}, id="clean against another leader, and of the first nothing is known"),
        pytest.param({"leader_source": "inferred"}, id="the metadata is missing now: a guess confirms nothing"),
        pytest.param({"leader_id": -1, "leader_source": "inferred", "clean": ()}, id="nobody leads"),
    ],
)
def test_it_stays_open(seen: dict[str, Any]) -> None:
    assert not _resolved(**seen)


def test_a_pair_that_both_agree_with_a_new_leader() -> None:
    """Each is a prefix of the same log, so they agree with each other."""
    assert _resolved(leader_id=3)
    assert _resolved(leader_id=2), "the follower leads now, and the leader of then follows it"


def test_what_was_inferred_is_confirmed_by_what_is_inferred() -> None:
    then = replace(PAIR, leader_source="inferred")
    assert is_resolved(then, replace(CLEAN, leader_source="inferred"))
    assert is_resolved(then, CLEAN)


def test_other_bytes_are_gone_only_if_the_bytes_were_compared() -> None:
    then = replace(PAIR, code="content_mismatch")
    assert _resolved(then)
    assert not _resolved(then, same_batches=(3,))
    assert _resolved(then, leader_id=3, same_batches=(1, 2))
    assert not _resolved(then, leader_id=3, same_batches=(2,)), "of the leader of then only the epochs were compared"


def test_rows_of_older_versions_know_no_leader() -> None:
    then = replace(PAIR, about=None, leader_id=None, leader_source=None)
    assert _resolved(then)
    assert not _resolved(then, clean=(1, 3))


def test_a_leader_that_could_not_be_read() -> None:
    then = replace(PAIR, code="unreadable", about="leader", broker_id=1)
    assert _resolved(then)
    assert _resolved(then, leader_id=3), "it is a clean follower now"
    assert not _resolved(then, clean=(2, 3), leader_id=3)


def test_a_partition_that_nobody_led() -> None:
    then = replace(PAIR, code="offline_partition", about="partition", broker_id=-1, leader_id=-1, leader_source="metadata-log")
    assert _resolved(then)
    assert _resolved(then, clean=()), "somebody leads, whatever the logs are like"
    assert not _resolved(then, leader_source="inferred"), "no metadata says that anybody does"
    assert not _resolved(then, leader_id=-1)


def test_a_table_that_lacked_its_epoch() -> None:
    then = replace(PAIR, code="leader_epoch_missing", about="leader", broker_id=1)
    assert _resolved(then)
    assert not _resolved(then, leader_has_epoch=False)
    assert not _resolved(then, leader_source="inferred")


def test_a_follower_that_was_outside_the_isr() -> None:
    then = replace(PAIR, code="in_sync_outside_isr")
    assert _resolved(then)
    assert not _resolved(then, isr=(1, 3)), "clean, and still outside"
    assert not _resolved(then, leader_source="inferred")
