"""Since when a replica has been in the ISR without a break, as the metadata log tells it."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.model import BrokerEvent, Election, IsrChange
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, in_sync_since
from replica_audit.protocol.cluster.leadership import nothing_known
from replica_audit.protocol.cluster.metadata_image import BrokerState

METADATA = nothing_known("state", 0)
NOBODY = ClusterHistory()


def elected(epoch: int, at: int, isr: tuple[int, ...], kind: str = "clean") -> Election:
    return Election(epoch, isr[0] if isr else -1, kind, isr, (), at, 1, at * 10)


def since(broker: int, *records: Election | IsrChange, cluster: ClusterHistory = NOBODY) -> int | None:
    elections = tuple(one for one in records if isinstance(one, Election))
    changes = tuple(one for one in records if isinstance(one, IsrChange))
    found = in_sync_since(replace(METADATA, elections=elections, isr_changes=changes), cluster, broker)
    return None if found is None else found.leader_epoch


def changed(epoch: int, at: int, isr: tuple[int, ...]) -> IsrChange:
    return IsrChange(epoch, isr, at, 1, at * 10)


def test_it_is_the_first_election_after_which_it_never_left():
    created = elected(0, 1, (1, 2, 3), "created")
    assert since(1, created) == 0
    assert since(1, created, elected(1, 5, (2, 1)), changed(1, 7, (2, 1, 3))) == 0
    assert since(3, created, elected(1, 5, (2, 1)), changed(1, 7, (2, 1, 3))) is None, "it came back within the epoch"
    assert since(3, created, elected(1, 5, (2, 1)), changed(1, 7, (2, 1, 3)), elected(2, 9, (1, 2, 3))) == 2
    assert since(1, created, changed(0, 3, (2, 3)), elected(1, 5, (2, 1))) == 1
    assert since(4, created) is None
    assert since(1) is None


def test_what_an_election_may_have_given_up_ends_it():
    created = elected(0, 1, (1, 2), "created")
    assert since(1, created, elected(1, 5, (1,), "unclean"), elected(2, 9, (1, 2))) == 2
    assert since(1, elected(3, 4, (1, 2), "snapshot"), elected(4, 9, (1, 2))) == 4, "what was before a snapshot is not known"
    assert since(1, elected(3, 4, (1, 2), "snapshot")) is None


def test_a_broker_that_started_again_may_have_lost_what_it_held():
    created = elected(0, 1, (1, 2), "created")
    for at, found in ((0, 0), (6, None)):
        cluster = ClusterHistory(broker_events=(BrokerEvent(1, BrokerState.STARTING, at, 1, at * 10),))
        assert since(1, created, elected(1, 5, (1,)), cluster=cluster) == found
        assert since(2, created, cluster=cluster) == 0
