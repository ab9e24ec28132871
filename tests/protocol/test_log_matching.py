"""A difference below what both logs hold: a proof, whenever they were copied, and never there where logs were cut as the protocol cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.comparison.pair import agree_again
from replica_audit.protocol.epochs.lineage import first_difference
from replica_audit.protocol.exchange.replica import Replica
from tests.protocol.lineages import BROKERS, moments
from tests.protocol.logs import Batch, replica


def _in_segments(batches: Sequence[Batch], *bases: int, broker_id: int = 1) -> Replica:
    found = replica(broker_id, list(batches))
    return replace(found, log=replace(found.log, segment_bases=bases))


def _contradict(leader: Replica, follower: Replica) -> bool:
    start = max(leader.log.log_start_offset, follower.log.log_start_offset)
    difference = first_difference(leader.history, follower.history, start, 1 << 62, gaps_count=True)
    return difference is not None and agree_again(leader, follower, difference)


LEADER = [(1, 0, 3), (2, 4, 7), (3, 8, 9)]


@pytest.mark.parametrize(
    ("follower", "bases", "expected"),
    [
        pytest.param([(1, 0, 3), (1, 4, 7), (3, 8, 11)], (0,), True, id="in the middle"),
        pytest.param([(1, 0, 3), (2, 4, 5), (1, 6, 6), (2, 7, 7)], (0,), True, id="and again within the epoch"),
        pytest.param([(1, 0, 3), (1, 4, 7), (1, 8, 8), (3, 9, 9)], (0,), True, id="at the last offset that both hold"),
        pytest.param([(1, 0, 3), (1, 4, 7), (4, 8, 11)], (0,), False, id="up to the end"),
        pytest.param([(1, 0, 3), (2, 4, 7)], (0,), False, id="none"),
        pytest.param([(1, 0, 3), (3, 8, 9)], (0,), False, id="one holds nothing there: a file may be missing"),
        pytest.param([(1, 0, 3), (1, 4, 7), (3, 8, 11)], (0, 8), False, id="they agree in the next segment only, which may be of later"),
        pytest.param([(1, 0, 3), (1, 4, 7), (3, 8, 11)], (0, 4), True, id="in one segment of several"),
        pytest.param([(1, 0, 3), (-1, 4, 7), (3, 8, 11)], (0,), False, id="a format without epochs"),
    ],
)
def test_logs_that_agree_again(follower: list[Batch], bases: tuple[int, ...], expected: bool) -> None:
    whole, segmented = _in_segments(LEADER, 0), _in_segments(LEADER, *bases)
    assert _contradict(segmented, _in_segments(follower, 0, broker_id=2)) is expected
    assert _contradict(whole, _in_segments(follower, *bases, broker_id=2)) is expected


Copy = tuple[list[Batch], list[int]]


@st.composite
def _copies(draw: st.DrawFn) -> list[Copy]:
    """Copies of three logs at any moments of some thirty events, any of whose elections may be unclean; and bases of their segments.

    Of some the first segments are of an earlier moment than the others, between which nothing is missing.
    """
    logs: dict[int, list[list[Batch]]] = {broker: [] for broker in BROKERS}
    for partition in moments(draw, retention=True):
        for broker, log in partition.replicas.items():
            logs[broker].append(list(log.batches))
    made = []
    for batches in logs.values():
        for place in draw(st.lists(st.integers(0, len(batches) - 1), min_size=1, max_size=4)):
            later = batches[draw(st.integers(place, len(batches) - 1))]
            bases = sorted({base for _epoch, base, _last in later if draw(st.booleans())})
            before = [batch for batch in batches[place] if bases and batch[2] < bases[0]]
            made.append(([*before, *(batch for batch in later if not bases or batch[1] >= bases[0])], bases))
    return made


@given(_copies())
def test_no_copies_of_logs_that_were_cut_as_the_protocol_cuts_contradict_each_other(copies: list[Copy]) -> None:
    logs = [_in_segments(batches, *sorted({batches[0][1], *bases})) for batches, bases in copies if batches]
    assert not any(_contradict(leader, follower) for leader, follower in product(logs, logs))


@given(_copies(), st.data())
def test_a_batch_of_another_epoch_within_a_segment_contradicts(copies: list[Copy], data: st.DataObject) -> None:
    logs = [batches for batches, bases in copies if len(batches) > 2 and not bases]
    if logs:
        batches = data.draw(st.sampled_from(logs))
        place = data.draw(st.integers(0, len(batches) - 2))
        epoch, base, last = batches[place]
        wrong = [*batches[:place], (epoch + data.draw(st.integers(1, 3)), base, last), *batches[place + 1 :]]
        assert _contradict(_in_segments(batches, batches[0][1]), _in_segments(wrong, wrong[0][1]))
