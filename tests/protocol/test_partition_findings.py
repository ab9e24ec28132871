"""What is found of a partition besides its followers' verdicts: who could lead it, tables without their epoch, equals outside the ISR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.model import Election, PartitionMetadata
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.partition_findings import (
    CLOCKS_DIFFER_MS,
    election_type,
    last_leader,
    leaderless_since_ms,
    missing_epoch,
    outside_isr,
    was_stopped_in_order,
)
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.codes import Severity
from tests.protocol.logs import replica

OFFLINE = PartitionMetadata(
    topic="t",
    partition=0,
    topic_id=None,
    compacted=False,
    leader=-1,
    no_leader=True,
    leader_epoch=3,
    replicas=(1, 2, 3),
    isr=(),
    elr=(2,),
    source="metadata-log",
)
LED = replace(OFFLINE, leader=1, no_leader=False, isr=(1, 3), elr=(), known_at_ms=1_000_000)


def _election(epoch: int, leader: int, at: int = 0) -> Election:
    kind = "clean" if leader >= 0 else "leaderless"
    return Election(
        leader_epoch=epoch, leader_id=leader, kind=kind, isr=(), elr=(), metadata_offset=epoch, metadata_epoch=1, timestamp_ms=at
    )


# --- who could lead -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "kinds"),
    [
        pytest.param(OFFLINE, ["unclean", "clean", "unclean"], id="the ELR counts where the ISR is empty"),
        pytest.param(replace(OFFLINE, isr=(3,)), ["unclean", "unclean", "clean"], id="and only there (PartitionChangeBuilder)"),
        pytest.param(replace(OFFLINE, elr=()), ["unclean"] * 3, id="with neither, nobody is elected cleanly"),
        pytest.param(replace(OFFLINE, no_leader=False), [None] * 3, id="metadata that does not name the leader tells nothing"),
    ],
)
def test_who_is_elected_cleanly(metadata: PartitionMetadata, kinds: list[str | None]) -> None:
    assert [election_type(metadata, broker) for broker in (1, 2, 3)] == kinds


def test_who_led_last() -> None:
    history = (_election(1, 3), _election(2, 1), _election(3, -1, at=7))
    assert last_leader(replace(OFFLINE, elections=history)) == 1
    assert leaderless_since_ms(replace(OFFLINE, elections=history)) == 7
    assert last_leader(replace(OFFLINE, last_known_elr=(3,))) == 3
    assert last_leader(replace(OFFLINE, last_known_elr=(2, 3))) is None, "of several members none is known to be the leader"
    assert last_leader(OFFLINE) is None
    assert leaderless_since_ms(replace(OFFLINE, elections=history[:2])) is None, "the log ends before the partition lost its leader"


@pytest.mark.parametrize(
    ("metadata", "cleanly", "runs", "losing", "expected"),
    [
        pytest.param(OFFLINE, [1, 2, 3], [False, False, False], [], True, id="all brokers stopped"),
        pytest.param(OFFLINE, [1, 2, 3], [False, False, False], [2], False, id="who leads then makes others truncate what only they have"),
        pytest.param(OFFLINE, [1, 2, 3], [False, False, False], [1, 3], True, id="only who does not lead would"),
        pytest.param(OFFLINE, [2], [False, True], [], False, id="another broker of the cluster runs: an outage"),
        pytest.param(OFFLINE, [1, 3], [False, False], [], False, id="who could lead crashed"),
        pytest.param(replace(OFFLINE, isr=(), elr=()), [1, 2, 3], [False], [], False, id="nobody could lead"),
        pytest.param(OFFLINE, [1, 2, 3], [], [], False, id="of no broker anything is known"),
    ],
)
def test_a_cluster_that_was_shut_down_is_no_outage(
    metadata: PartitionMetadata, cleanly: list[int], runs: list[bool], losing: list[int], *, expected: bool
) -> None:
    assert was_stopped_in_order(metadata, cleanly, runs, losing) is expected


# --- a live leader's table without its epoch ----------------------------------------------------------------------------------------------

AT_ONCE = Context(leader_epoch=7, enters_epoch_at_once=True)
LEADS = replica(1, [(5, 0, 9)], alive=True)
BEGAN = 1_000_000


def _missing(leader: Replica = LEADS, context: Context = AT_ONCE, **changed: Any) -> Any:
    times: dict[str, Any] = {"began_at_ms": BEGAN, "copied_at_ms": None, "known_epoch": None}
    return missing_epoch(leader, context, **(times | changed))


def test_a_table_that_ends_before_the_metadata_s_epoch() -> None:
    """KAFKA-20961: metadata knows epoch 7, the live leader's table ends at 5."""
    found = _missing()
    assert (found.table_epoch, found.leader_epoch, found.is_certain, found.severity) == (5, 7, False, Severity.WARNING)
    assert "ends at epoch 5" in found.reason
    assert "copy it again" in found.reason
    assert "KAFKA-20961" in found.reason


@pytest.mark.parametrize(
    ("leader", "context", "times"),
    [
        pytest.param(LEADS, replace(AT_ONCE, simultaneous=True), {}, id="copies of one instant"),
        pytest.param(LEADS, AT_ONCE, {"copied_at_ms": BEGAN + CLOCKS_DIFFER_MS}, id="copied after the epoch began"),
        pytest.param(replace(LEADS, frozen=True), AT_ONCE, {"known_epoch": 7}, id="frozen when it knew of the election"),
    ],
)
def test_no_later_copy_explains_it(leader: Replica, context: Context, times: dict[str, int]) -> None:
    found = _missing(leader, context, **times)
    assert (found.is_certain, found.severity) == (True, Severity.ERROR)
    assert "copy it again" not in found.reason


@pytest.mark.parametrize(
    ("leader", "times"),
    [
        pytest.param(LEADS, {"copied_at_ms": BEGAN + CLOCKS_DIFFER_MS - 1}, id="clocks may differ by that"),
        pytest.param(LEADS, {"copied_at_ms": BEGAN - 1}, id="copied before"),
        pytest.param(replace(LEADS, frozen=True), {}, id="a frozen broker may not have heard of its election"),
        pytest.param(LEADS, {"copied_at_ms": BEGAN + CLOCKS_DIFFER_MS, "known_epoch": 6}, id="nor one whose metadata log ends before it"),
    ],
)
def test_a_warning_where_something_else_may_explain_it(leader: Replica, times: dict[str, Any]) -> None:
    found = _missing(leader, **times)
    assert (found.is_certain, found.severity) == (False, Severity.WARNING)


@pytest.mark.parametrize(
    ("leader", "context"),
    [
        pytest.param(replica(1, [(5, 0, 9)], epochs=[(5, 0), (7, 10)], alive=True), AT_ONCE, id="it has the epoch, without a batch"),
        pytest.param(replica(1, [(5, 0, 9), (7, 10, 12)], alive=True), AT_ONCE, id="it has written in it"),
        pytest.param(replica(1, [(5, 0, 9)], alive=False), AT_ONCE, id="its broker is down"),
        pytest.param(replica(1, [(5, 0, 9)]), AT_ONCE, id="whether its broker runs is not known"),
        pytest.param(LEADS, replace(AT_ONCE, enters_epoch_at_once=False), id="versions that write it with the first record"),
        pytest.param(LEADS, replace(AT_ONCE, leader_epoch=-1), id="no metadata"),
        pytest.param(replace(LEADS, checkpoint_known=False), AT_ONCE, id="its checkpoint was not collected"),
        pytest.param(replace(LEADS, unreadable="garbled"), AT_ONCE, id="its checkpoint cannot be read"),
        pytest.param(replica(1, [(-1, 0, 9)], alive=True), AT_ONCE, id="a format without epochs"),
        pytest.param(replica(1, [], alive=True), AT_ONCE, id="an empty log, whose format nobody knows"),
    ],
)
def test_a_table_that_is_as_it_should_be(leader: Replica, context: Context) -> None:
    assert _missing(leader, replace(context, simultaneous=True)) is None


# --- a live follower that equals its leader, outside the ISR ------------------------------------------------------------------------------

FOLLOWS = replica(2, [(5, 0, 9)], alive=True)


def _outside(
    verdict: str = Verdict.IDENTICAL,
    leader: Replica = LEADS,
    follower: Replica = FOLLOWS,
    metadata: PartitionMetadata = LED,
    *,
    fenced: bool = False,
    copied_at_ms: int | None = None,
) -> Any:
    return outside_isr(verdict, leader, follower, metadata, fenced=fenced, copied_at_ms=copied_at_ms)


def test_an_equal_follower_outside_the_isr() -> None:
    found = _outside()
    assert (found.isr, found.is_certain) == ((1, 3), False)
    assert "just caught up" in found.reason
    later = _outside(copied_at_ms=1_000_000 - CLOCKS_DIFFER_MS)
    assert later.is_certain
    assert "just caught up" not in later.reason
    assert not _outside(copied_at_ms=1_000_001 - CLOCKS_DIFFER_MS).is_certain


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param({"metadata": replace(LED, isr=(1, 2))}, id="in the ISR"),
        pytest.param({"verdict": Verdict.LAGGING}, id="behind its leader"),
        pytest.param({"follower": replica(2, [(5, 0, 9)], alive=False)}, id="its broker is down"),
        pytest.param({"follower": replica(2, [(5, 0, 9)])}, id="whether its broker runs is not known"),
        pytest.param({"follower": replace(FOLLOWS, frozen=True)}, id="frozen"),
        pytest.param({"leader": replace(LEADS, frozen=True)}, id="a frozen leader takes nobody into the ISR"),
        pytest.param({"leader": replace(LEADS, alive=False)}, id="nor one that is down"),
        pytest.param({"fenced": True}, id="fenced: it may not be in the ISR"),
        pytest.param({"metadata": replace(LED, isr=())}, id="the ISR is not known"),
        pytest.param({"metadata": replace(LED, replicas=(1, 3))}, id="it is no replica any more"),
    ],
)
def test_followers_that_are_rightly_where_they_are(healthy: dict[str, Any]) -> None:
    assert _outside(**healthy) is None
