"""What is missing from producers' sequences, and when it must have been lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_audit.formats.segment.producer_sums import ProducerSums
from replica_audit.model import BatchHeader, Producers
from replica_audit.protocol.transactions.open_transactions import EXPIRATION_MS, GapDoubt, LogOfProducers, LostSequences, lost_sequences

TIME = 1_700_000_000_000
LAST = (1 << 31) - 1
Batch = tuple[int, int, int, int]  # producer id, epoch, first sequence, records


def producers(*batches: Batch, base: int = 0, step_ms: int = 1_000) -> Producers:
    """Of batches that follow each other in a log."""
    sums, offset = ProducerSums(), base
    for number, (producer_id, epoch, sequence, count) in enumerate(batches):
        sums.add_batch(
            BatchHeader(
                position=0,
                base_offset=offset,
                last_offset=offset + count - 1,
                size_bytes=100,
                magic=2,
                leader_epoch=0,
                record_count=count,
                max_timestamp_ms=TIME + number * step_ms,
                crc=0,
                crc_valid=True,
                codec="none",
                is_transactional=False,
                is_control=False,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )
        offset += count
    return sums.producers()


def log(found: Producers, first_offset: int = 0, starts: tuple[int, ...] = (0,), **others: Producers | None) -> LogOfProducers:
    return LogOfProducers(
        producers=found,
        first_offset=first_offset,
        log_start_offsets=starts,
        others={int(name.removeprefix("b")): other for name, other in others.items()},
    )


def lost(of: LogOfProducers, appended_ms: int | None = TIME + 60_000) -> list[LostSequences]:
    return list(lost_sequences(of, {gap.first_offset_after: appended_ms for gap in of.producers.gaps}))


GAP = producers((7, 0, 0, 5), (8, 0, 0, 3), (7, 0, 9, 2))


def test_a_batch_that_does_not_follow() -> None:
    (found,) = lost(log(GAP))
    gap = found.gap
    assert (gap.expected_sequence, gap.found_sequence, gap.missing_count) == (5, 9, 4)
    assert (gap.last_offset_before, gap.first_offset_after) == (4, 8)
    assert (gap.timestamp_before_ms, gap.timestamp_after_ms) == (TIME, TIME + 2_000)
    assert (found.is_certain, found.doubt, found.held_by) == (True, None, ())


IN_SEQUENCE = {
    "one after the other": [(7, 0, 0, 5), (7, 0, 5, 1), (8, 0, 0, 2), (7, 0, 6, 3)],
    "a new epoch begins at 0": [(7, 0, 0, 5), (7, 1, 0, 2), (7, 4, 0, 1)],
    "after the last sequence comes 0": [(7, 0, 0, 1), (7, 0, LAST - 1, 2), (7, 0, 0, 3)],
    "a batch over the last sequence": [(7, 0, 0, 1), (7, 0, LAST, 3), (7, 0, 2, 1)],
    "no sequences": [(7, 0, -1, 5), (7, 0, -1, 5)],
    "no producer": [(-1, -1, -1, 5), (-1, -1, -1, 5)],
}


@pytest.mark.parametrize("name", IN_SEQUENCE)
def test_what_a_leader_takes(name: str) -> None:
    certain = [one for one in lost(log(producers(*IN_SEQUENCE[name]))) if one.gap.found_sequence < LAST - 1]
    assert certain == []


def test_a_new_epoch_that_does_not_begin_at_0() -> None:
    (found,) = lost(log(producers((7, 0, 0, 5), (7, 1, 3, 2))))
    assert (found.gap.missing_count, found.is_certain) == (3, True)


def test_a_sequence_that_goes_back_lacks_nothing() -> None:
    """A client that was told UNKNOWN_PRODUCER_ID began again at 0 in the same epoch (1.0 to 2.4)."""
    assert lost(log(producers((7, 0, 0, 5), (7, 0, 0, 2), (7, 0, 2, 1)))) == []


def test_a_gap_over_the_last_sequence() -> None:
    sums = producers((7, 0, LAST - 1, 1), (7, 0, 2, 1))
    assert [one.gap.missing_count for one in lost(log(sums, first_offset=1))] == [3]


# --- doubts ---


def test_the_first_batch_in_the_log_is_never_certain() -> None:
    (found,) = lost(log(producers((7, 0, 40, 5))))
    assert (found.doubt, found.gap.missing_count, found.gap.last_offset_before, found.is_certain) == (GapDoubt.FIRST_IN_LOG, 40, -1, False)


def test_retention_has_the_first_batches_of_a_log_that_begins_later() -> None:
    assert lost(log(producers((7, 0, 40, 5), base=100), first_offset=100, starts=(100,))) == []


@pytest.mark.parametrize(("starts", "doubt"), [((4, 0), None), ((0, 5), GapDoubt.LOG_START_MOVED), ((8,), GapDoubt.LOG_START_MOVED)])
def test_a_log_start_that_moved(starts: tuple[int, ...], doubt: GapDoubt | None) -> None:
    assert [one.doubt for one in lost(log(GAP, starts=starts))] == [doubt]


@pytest.mark.parametrize(
    ("appended", "doubt"),
    [(None, GapDoubt.TIME_UNKNOWN), (TIME + EXPIRATION_MS - 1, None), (TIME + EXPIRATION_MS, GapDoubt.STATE_EXPIRED)],
)
def test_a_producer_that_may_have_been_forgotten(appended: int | None, doubt: GapDoubt | None) -> None:
    assert [one.doubt for one in lost(log(GAP), appended)] == [doubt]


def test_batches_of_which_nothing_is_known() -> None:
    (found,) = lost(log(GAP._replace(untold_batches=1)))
    assert (found.doubt, found.is_certain) == (GapDoubt.DAMAGED_BATCHES, False)


# --- other replicas ---


WHOLE = producers((7, 0, 0, 5), (8, 0, 0, 3), (7, 0, 5, 4), (7, 0, 9, 2))


@pytest.mark.parametrize(
    ("other", "holds"),
    [
        (WHOLE, True),
        (producers((7, 0, 0, 6)), True),
        (GAP, False),
        (producers((7, 0, 0, 5)), False),
        (producers((7, 0, 9, 2)), False),
        (producers((8, 0, 0, 3)), False),
        (None, False),
    ],
    ids=["all", "the first one", "the same gap", "nothing beyond", "only what is behind", "another producer", "not known"],
)
def test_what_another_replica_holds_is_not_lost(other: Producers | None, holds: bool) -> None:
    (found,) = lost(log(GAP, b2=other))
    assert (found.held_by, found.is_certain) == ((2,) if holds else (), not holds)


def test_gaps_come_by_offset() -> None:
    found = lost(log(producers((9, 0, 3, 1), (7, 0, 0, 1), (7, 0, 2, 1), (9, 0, 5, 1))))
    assert [one.gap.first_offset_after for one in found] == [0, 2, 3]


def test_a_value_is_frozen() -> None:
    (found,) = lost(log(GAP))
    assert not replace(found, held_by=(3,)).is_certain
