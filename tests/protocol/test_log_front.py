"""Logs whose oldest segments were deleted while they were copied: what is left of them is excused, and no hole that is the log's own."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.protocol.epochs.epoch_table import EMPTY, EpochTable, table
from replica_audit.protocol.epochs.replica_log import LoadedLog, deleted_until, known_start, load_log
from tests.protocol.logs import Batch, segment


def _log(*segments: tuple[int, int], epoch: int = 0, epochs: EpochTable = EMPTY) -> LoadedLog:
    """Of segments (base, last offset)."""
    made = tuple(segment(base, (epoch, base, last)) for base, last in segments)
    return load_log(made, checkpoint=epochs, log_start_checkpoint=None, recovery_point=0, recovers=False)


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        pytest.param(0, None, id="nothing was deleted"),
        pytest.param(61, None, id="the log starts before the hole"),
        pytest.param(62, 72, id="the log starts where the hole begins: what is deleted next was not copied"),
        pytest.param(71, 72, id="in the hole"),
        pytest.param(99, 72, id="behind the hole, before the next one"),
        pytest.param(100, 120, id="where the last hole begins"),
        pytest.param(120, 120, id="all holes lie below"),
    ],
)
def test_a_hole_counts_as_deleted_if_a_log_start_reaches_it(front: int, expected: int | None) -> None:
    log = _log((49, 50), (51, 61), (72, 79), (80, 99), (120, 129))
    assert log.missing == ((62, 71), (100, 119))
    assert deleted_until(log, front) == expected


@pytest.mark.parametrize(
    ("entries", "checkpoint", "log", "expected"),
    [
        pytest.param([], None, _log((100, 120)), 0, id="files that are missing prove no log start"),
        pytest.param([(0, 0), (3, 100)], None, _log((100, 120)), 0, id="nor do they where the table goes further back"),
        pytest.param([(3, 100)], None, _log((51, 61), (72, 120), epoch=3), 100, id="the table's first entry"),
        pytest.param([(3, 100)], 105, _log((51, 120), epoch=3), 105, id="DeleteRecords into a segment"),
        pytest.param([(3, 100)], 90, None, 100, id="a copy without a segment"),
        pytest.param([(3, 100)], None, _log((0, 120), epoch=-1), 0, id="batches of a format without epochs are in no table"),
        pytest.param([(3, 100)], 40, _log((0, 120), epoch=-1), 40, id="of which the checkpoint tells all the same"),
    ],
)
def test_where_a_log_starts_is_what_its_broker_wrote_down(
    entries: list[tuple[int, int]], checkpoint: int | None, log: LoadedLog | None, expected: int
) -> None:
    assert known_start(table(entries), checkpoint, log) == expected


@given(seed=st.integers(0, 2**32))
@settings(max_examples=600)
def test_what_is_left_of_a_copy_is_the_log_as_it_was(seed: int) -> None:
    """A log that is deleted from the front by and by while its files are copied in any order; half of them have a hole of their own."""
    chance = random.Random(seed)  # noqa: S311
    bases = sorted(chance.sample(range(500), chance.randrange(3, 12)))
    held: dict[int, Batch] = {base: (0, base, after - 1) for base, after in pairwise([*bases, bases[-1] + 10])}
    own = chance.choice(bases[1:-1]) if chance.random() < 0.5 else None
    if own is not None:
        del held[own]
    listed, start, copied, told = sorted(held), bases[0], list[int](), 0
    steps = [*listed, None]  # None: the table
    chance.shuffle(steps)
    for what in steps:
        if chance.random() < 0.5:
            start = max(start, chance.choice(listed))  # whole segments, the newest never
        if what is None:
            told = start
        elif what >= start:
            copied.append(what)
    if not copied:
        return
    log = load_log(
        tuple(segment(base, held[base]) for base in sorted(copied)),
        checkpoint=table([(0, told)]),
        log_start_checkpoint=None,
        recovery_point=0,
        recovers=False,
    )
    elsewhere = chance.choice([0, start])  # of another replica that was copied before, or later
    front = max(known_start(table([(0, told)]), None, log), elsewhere)
    first = deleted_until(log, front) or 0
    left = [hole for hole in log.missing if hole[0] >= first]
    if front == start:
        expected = [] if own is None or own < start else [hole for hole in log.missing if hole[0] <= own <= hole[1]]
        assert left == expected, "only the log's own hole stays, wherever it is not deleted with the rest"
    assert first <= start, "nothing is left out that the log still holds"
    assert all(hole in left for hole in log.missing if hole[0] > front), "a hole above every known start stays"
