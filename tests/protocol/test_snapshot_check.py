"""Producer snapshots against the log below their offset."""

from __future__ import annotations

import pytest

from replica_audit.model import Producers, ProducerState
from replica_audit.protocol.transactions.producer_spans import contradictions
from tests.protocol.test_lost_sequences import producers

# producer 7 wrote sequences 0 to 6 at offsets 0 to 4 and 7, 8; producer 8 sequences 0, 1 at 5, 6
LOG = producers((7, 0, 0, 5), (8, 3, 0, 2), (7, 0, 5, 2))
SEVEN, EIGHT = ProducerState(7, 0, 6, 8, 1, 1, -1, -1), ProducerState(8, 3, 1, 6, 1, 1, -1, -1)


def told(*states: ProducerState, below: Producers = LOG, log_start: int = 0) -> list[tuple[int, str]]:
    return [tuple(one) for one in contradictions(states, below, log_start)]  # type: ignore[misc]


def test_a_snapshot_that_agrees() -> None:
    assert told(SEVEN, EIGHT) == []


def test_a_producer_that_has_expired() -> None:
    assert told(EIGHT) == []
    assert told() == []


DIFFERS = {
    "epoch": (SEVEN._replace(producer_epoch=1), "its epoch is 1, by the log 0"),
    "sequence": (SEVEN._replace(last_sequence=5), "sequence 5 at offset 8, by the log 6 at offset 8"),
    "offset": (SEVEN._replace(last_offset=4, last_sequence=4), "sequence 4 at offset 4, by the log 6 at offset 8"),
    "nothing written": (SEVEN._replace(last_offset=-1, last_sequence=-1), "sequence -1 at offset -1, by the log 6 at offset 8"),
    "open": (SEVEN._replace(open_first_offset=7), "its transaction is open since offset 7, by the log not open"),
    "unknown": (SEVEN._replace(producer_id=9), "it wrote at offset 8, where the log has nothing of it"),
    "open of an unknown one": (ProducerState(9, 0, -1, -1, 0, 1, 0, 3), "it wrote at offset 3, where the log has nothing of it"),
}


@pytest.mark.parametrize("name", DIFFERS)
def test_a_snapshot_that_contradicts(name: str) -> None:
    state, detail = DIFFERS[name]
    ((place, found),) = told(EIGHT, state)
    assert (place, detail in found, found.startswith(f"producer {state.producer_id}: ")) == (1, True, True)


def test_what_lies_below_the_log_start_is_not_known() -> None:
    below = producers((8, 3, 0, 2), base=100)
    eight = EIGHT._replace(last_offset=101)
    assert told(eight, ProducerState(9, 0, 4, 50, 0, 1, 0, 40), below=below, log_start=100) == []
    assert told(eight._replace(open_first_offset=90), below=below, log_start=100) == []
    assert len(told(eight._replace(open_first_offset=100), below=below, log_start=100)) == 1


def test_batches_of_which_nothing_is_known() -> None:
    assert told(DIFFERS["epoch"][0], below=LOG._replace(untold_batches=1)) == []


def test_a_marker_of_a_new_epoch_empties_what_is_known_of_the_last_records() -> None:
    """As brokers of transactions version 2 write them, or one that fences a producer."""
    (seven, eight) = LOG.spans
    marked = LOG._replace(spans=(seven._replace(marker_count=1, last_marker_offset=9, last_marker_epoch=1), eight))
    after = SEVEN._replace(producer_epoch=1, last_sequence=-1, last_offset=-1)
    assert told(after, below=marked) == []
    assert told(after._replace(producer_epoch=0), below=marked) != []
    assert told(SEVEN._replace(producer_epoch=1), below=marked) == []


def test_a_transaction_that_the_snapshot_does_not_know() -> None:
    (seven, eight) = LOG.spans
    opened = LOG._replace(spans=(seven._replace(open_first_offset=7), eight))
    assert told(SEVEN._replace(open_first_offset=7), below=opened) == []
    ((_place, detail),) = told(SEVEN, below=opened)
    assert "its transaction is not open, by the log open since offset 7" in detail


def test_only_a_marker_is_left() -> None:
    """Retention took the records."""
    (seven, _eight) = LOG.spans
    left = seven._replace(batch_count=0, last_data_offset=-1, last_epoch=-1, last_sequence=-1, marker_count=1, last_marker_offset=60)
    below = Producers((left._replace(last_marker_epoch=0),), (), 0)
    assert told(SEVEN, below=below, log_start=50) == []
    assert len(told(SEVEN._replace(last_offset=55), below=below, log_start=50)) == 1
