"""Our epoch table against LeaderEpochFileCache: every small case, then sequences of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.formats.log_dir import checkpoints
from replica_audit.protocol.epochs import epoch_table as et
from tests.oracle.kafka_classes import EpochCache, Kafka, Refused
from tests.oracle.strategies import mostly

pytestmark = pytest.mark.oracle

CHANGES: dict[str, Callable[..., et.EpochTable]] = {
    "assign": et.assign,
    "truncate_from_end": et.truncate_from_end,
    "truncate_from_start": et.truncate_from_start,
    "clear": lambda _entries: et.EMPTY,
}
LOOKUPS: dict[str, Callable[..., Any]] = {
    "latest_epoch": lambda entries: et.latest_epoch(entries) if entries else None,
    "end_offset_for": et.end_offset_for,
    "epoch_for_offset": et.epoch_for_offset,
    "entries_in_range": et.entries_in_range,
}
Operation = tuple[str, tuple[int, ...]]
MANY = settings(max_examples=max(500, settings().max_examples))

# Small, so that epochs and offsets meet; and the ends of what Java's int and long hold.
EPOCHS = mostly(st.integers(0, 9), st.sampled_from([-2, -1, 2**31 - 2, 2**31 - 1]))
OFFSETS = mostly(st.integers(0, 30), st.sampled_from([-2, -1, 2**63 - 2, 2**63 - 1]))
CHANGE = st.one_of(
    st.tuples(st.just("assign"), st.tuples(EPOCHS, OFFSETS)),
    st.tuples(st.sampled_from(["truncate_from_end", "truncate_from_start"]), st.tuples(OFFSETS)),
)
LOOKUP = st.one_of(
    st.tuples(st.just("end_offset_for"), st.tuples(EPOCHS, OFFSETS)),
    st.tuples(st.just("epoch_for_offset"), st.tuples(OFFSETS)),
    st.tuples(st.just("entries_in_range"), st.tuples(OFFSETS, OFFSETS)),
    st.just(("latest_epoch", ())),
)
OPERATIONS = mostly(st.one_of(CHANGE, LOOKUP), st.just(("clear", ())), one_in=20)
LINES = st.lists(st.tuples(EPOCHS.filter(lambda epoch: epoch >= 0), OFFSETS.filter(lambda offset: offset >= 0)), max_size=6)


def checkpoint(lines: Iterable[tuple[int, int]]) -> bytes:
    rows = [f"{epoch} {start}\n" for epoch, start in lines]
    return "".join(["0\n", f"{len(rows)}\n", *rows]).encode()


def apply_to_both(cache: EpochCache, entries: et.EpochTable, operation: Operation) -> et.EpochTable:
    name, args = operation
    if name in LOOKUPS:
        assert LOOKUPS[name](entries, *args) == getattr(cache, name)(*args), operation
        return entries
    try:
        changed = CHANGES[name](entries, *args)
    except ValueError:
        with pytest.raises(Refused):
            getattr(cache, name)(*args)
        changed = entries
    else:
        getattr(cache, name)(*args)
        # Written before the call returns; truncations are written later.
        if name == "clear" or (name == "assign" and changed != entries):
            assert [line[1:] for line in checkpoints.leader_epoch_lines(cache.file.read_bytes())] == list(changed)
    assert changed == cache.entries(), operation
    return changed


@MANY
@given(lines=LINES, operations=st.lists(OPERATIONS, min_size=1, max_size=12))
def test_sequences(kafka: Kafka, lines: list[tuple[int, int]], operations: list[Operation]) -> None:
    cache, entries = kafka.epoch_cache(checkpoint(lines)), et.load(lines)
    assert entries == cache.entries()
    for operation in operations:
        entries = apply_to_both(cache, entries, operation)


def tables(size: int) -> list[et.EpochTable]:
    """Every table of epochs and start offsets below `size`."""
    return [
        et.table(zip(epochs, starts, strict=True))
        for length in range(size + 1)
        for epochs, starts in product(combinations(range(size), length), combinations(range(size), length))
    ]


def test_every_lookup_in_every_small_table(kafka: Kafka) -> None:
    for entries in tables(5):
        cache = kafka.epoch_cache(checkpoint(entries))
        questions: list[Operation] = [("latest_epoch", ())]
        questions += [("end_offset_for", (epoch, end)) for epoch in range(-2, 7) for end in (0, 3, 7)]
        questions += [("epoch_for_offset", (offset,)) for offset in range(-2, 7)]
        questions += [("entries_in_range", (start, end)) for start, end in product(range(-1, 6), range(-1, 6))]
        for question in questions:
            apply_to_both(cache, entries, question)


def test_every_truncation_of_every_small_table(kafka: Kafka) -> None:
    for entries, name, offset in product(tables(4), ("truncate_from_end", "truncate_from_start"), range(-2, 6)):
        apply_to_both(kafka.epoch_cache(checkpoint(entries)), entries, (name, (offset,)))


def test_every_assignment_to_every_small_table(kafka: Kafka) -> None:
    # Loading assigns line by line, without the flush that makes a call slow.
    for entries, epoch, start_offset in product(tables(4), range(4), range(4)):
        content = checkpoint([*entries, (epoch, start_offset)])
        assert et.assign(entries, epoch, start_offset) == kafka.epoch_cache(content).entries(), (entries, epoch, start_offset)
