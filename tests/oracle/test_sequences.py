"""What our rule calls a gap in a producer's sequence against what Kafka's leaders refuse."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replica_audit.protocol.transactions.producer_spans import LAST_SEQUENCE, gap_between, of_batch
from tests.oracle.kafka_classes import Kafka

pytestmark = pytest.mark.oracle

SEQUENCES = st.integers(0, 6) | st.integers(LAST_SEQUENCE - 4, LAST_SEQUENCE)
BATCHES = st.tuples(SEQUENCES, st.integers(1, 5))


@settings(max_examples=max(400, settings().max_examples))
@given(before=BATCHES, after=BATCHES, bumps=st.integers(0, 2), follows=st.booleans())
@example(before=(LAST_SEQUENCE - 1, 2), after=(0, 1), bumps=0, follows=False)
@example(before=(LAST_SEQUENCE, 3), after=(2, 1), bumps=0, follows=False)
@example(before=(0, 5), after=(0, 1), bumps=1, follows=False)
def test_the_next_batch(kafka: Kafka, before: tuple[int, int], after: tuple[int, int], bumps: int, follows: bool) -> None:
    def last(sequence: int, count: int) -> int:
        return (sequence + count - 1) & LAST_SEQUENCE

    first, count = before
    following = (last(*before) + 1) & LAST_SEQUENCE if follows else after[0]
    span = of_batch(7, 3, first, 0, count - 1, count, 1_000, 0, 0)
    next_one = of_batch(7, 3 + bumps, following, count, count + after[1] - 1, after[1], 1_000, 0, 0)
    batches = [(3, first, last(*before)), (3 + bumps, following, last(following, after[1]))]
    assert kafka.takes_in_order(batches) == (gap_between(span, next_one) is None)


def test_of_a_producer_that_is_not_known_any_sequence_is_taken(kafka: Kafka) -> None:
    """Why the first batch in a log proves nothing."""
    assert kafka.takes_in_order([(0, 40, 44)])
    assert not kafka.takes_in_order([(0, 0, 4), (0, 40, 44)])
