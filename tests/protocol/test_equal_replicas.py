"""What is passed over because replicas are the same gives what going through all of it gives: on equal, lagging and differing replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.frozen import once
from replica_audit.model import Segment, Window
from replica_audit.protocol.comparison.content import add_digest, compare_windows, merged, walk_windows, window
from replica_audit.protocol.comparison.pair import Comparison, still_diverged
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import epoch_for_offset, latest_epoch, table
from replica_audit.protocol.epochs.lineage import UNSTAMPED, Span, differences, walked_differences
from replica_audit.protocol.epochs.replica_log import LoadedLog, contradiction, load_log
from replica_audit.protocol.exchange.replay import RULES
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import judge
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import BROKERS, Partition, batches, partitions, tables
from tests.protocol.logs import Batch, compare, run, runs

_END = (None, None, -1, -2)


def _changed(draw: st.DrawFn, found: list[Batch]) -> list[Batch]:
    """One of the batches another, or fewer of them, or both."""
    how = draw(st.integers(0, 3))
    kept = found[draw(st.integers(0, 2)) : _END[draw(st.integers(0, 3))]] if how < 2 else found
    if kept and how:
        place = draw(st.integers(0, len(kept) - 1))
        epoch, base, last = kept[place]
        other = draw(st.sampled_from([(epoch + 1, base, last), (epoch, base, max(base, last - 1)), (-1, base, last)]))
        kept = [*kept[:place], other, *kept[place + 1 :]]
    return kept


@st.composite
def _twins(draw: st.DrawFn) -> tuple[list[Batch], list[Batch]]:
    """A log and another one that has most of it."""
    found = draw(batches(lowest_epoch=UNSTAMPED, count=10))
    is_changed = draw(st.integers(0, 3)) > 0
    return found, _changed(draw, found) if is_changed else list(found)


def _spans(found: Iterable[Batch]) -> tuple[Span, ...]:
    return tuple(Span(epoch, base, last + 1) for epoch, base, last in found)


START = st.one_of(st.just(0), st.integers(0, 30))
END = st.one_of(st.just(60), st.integers(0, 45))


@given(_twins(), START, END, st.booleans())
def test_the_first_difference_of_histories(found: tuple[list[Batch], list[Batch]], start: int, end: int, gaps_count: bool) -> None:
    left, right = map(_spans, found)
    for one, other in ((left, right), (right, left)):
        found_at_once = list(differences(one, other, start, end, gaps_count=gaps_count))
        assert found_at_once == list(walked_differences(one, other, start, end, gaps_count=gaps_count))


def test_one_other_epoch_behind_a_long_common_beginning_is_found() -> None:
    common = [(epoch, 10 * epoch, 10 * epoch + 9) for epoch in range(9)]
    left, right = _spans([*common, (9, 90, 99)]), _spans([*common, (8, 90, 99)])
    assert lineage.first_difference(left, left, 0, 100, gaps_count=True) is None
    assert lineage.first_difference(left, right, 0, 100, gaps_count=True) == lineage.Piece(90, 100, 9, 8)
    assert lineage.first_difference(left, left[:-1], 0, 90, gaps_count=True) is None
    assert lineage.first_difference(left, left[:-1], 0, 91, gaps_count=True) == lineage.Piece(90, 91, 9, None)
    inside = _spans([*common[:4], (7, 40, 49), *common[5:], (9, 90, 99)])
    assert lineage.first_difference(left, inside, 0, 100, gaps_count=True) == lineage.Piece(40, 50, 4, 7)


@st.composite
def _digested(draw: st.DrawFn) -> LoadedLog:
    """A log of some segments, each with the digests of its batches, or none of the last one."""
    return _loaded(draw, draw(batches(count=8)), width=draw(st.sampled_from([4, 8, 64])))


def _loaded(draw: st.DrawFn, found: list[Batch], width: int) -> LoadedLog:
    cut = draw(st.integers(0, len(found)))
    parts = [part for part in (found[:cut], found[cut:]) if part]
    lacks = draw(st.integers(0, 3)) == 1
    digested = parts[:-1] if lacks else parts
    end = found[-1][2] + 1 if found else 0
    compacted = draw(st.integers(0, 4)) == 1
    held = runs(found)
    return LoadedLog(
        log_start_offset=found[0][1] if found else 0,
        log_end_offset=end,
        first_segment_base=found[0][1] if found else 0,
        epochs=(),
        runs=tuple(one._replace(record_count=one.record_count - 1) for one in held) if compacted else held,
        windows=tuple(one for part in digested for one in _windows(part, width)),
        digested_until=parts[-1][0][1] if lacks and parts else end,
    )


def _windows(found: Iterable[Batch], width: int) -> tuple[Window, ...]:
    sums: dict[int, tuple[int, int]] = {}
    for epoch, base, last in found:
        add_digest(sums, base // width, hash((epoch, base, last)), 1)
    return tuple(window(number, width.bit_length() - 1, *both) for number, both in sorted(sums.items()))


@st.composite
def _digested_twins(draw: st.DrawFn) -> tuple[LoadedLog, LoadedLog]:
    found = draw(batches(count=8))
    width = draw(st.sampled_from([4, 8, 64]))
    leader = _loaded(draw, found, width)
    is_other = draw(st.booleans())
    if leader.windows and is_other:  # the same runs of other batches
        place = draw(st.integers(0, len(leader.windows) - 1))
        windows = list(leader.windows)
        windows[place] = windows[place]._replace(digest=windows[place].digest ^ 1)
        return leader, replace(leader, windows=tuple(windows))
    if draw(st.booleans()):
        return leader, leader
    return leader, _loaded(draw, _changed(draw, found), width)


@given(_digested_twins(), START)
def test_the_windows_of_logs(found: tuple[LoadedLog, LoadedLog], floor: int) -> None:
    for leader, follower in (found, found[::-1]):
        assert compare_windows(leader, follower, floor) == walk_windows(leader, follower, floor)


_HELD = runs([(0, 0, 5), (1, 6, 9)])
_WHOLE = LoadedLog(
    log_start_offset=0,
    log_end_offset=10,
    first_segment_base=0,
    epochs=(),
    runs=_HELD,
    windows=(Window(0, 8, 1, 2), Window(8, 16, 2, 1)),
    digested_until=10,
)


@pytest.mark.parametrize(
    ("changed", "floor", "open_", "other_formats"),
    [
        pytest.param({}, 0, (), (), id="the same"),
        pytest.param({}, 3, ((3, 8),), (), id="a window is cut by the floor"),
        pytest.param({"digested_until": 8}, 0, ((8, 10),), (), id="not digested to its end"),
        pytest.param({"runs": (_HELD[0], _HELD[1]._replace(magic=1))}, 0, ((0, 6),), ((6, 10),), id="another format"),
    ],
)
def test_what_else_than_digests_must_be_the_same(
    changed: dict[str, Any], floor: int, open_: tuple[Any, ...], other_formats: tuple[Any, ...]
) -> None:
    other = replace(_WHOLE, **changed)
    for leader, follower in ((_WHOLE, other), (other, _WHOLE)):
        found = compare_windows(leader, follower, floor)
        assert found == walk_windows(leader, follower, floor)
        assert (found.differing, found.open, found.other_formats) == ((), open_, other_formats)


@given(_digested(), st.sampled_from([0, 4, 8, 16]))
def test_windows_that_need_no_merging(log: LoadedLog, width: int) -> None:
    shift = max([width, *(one.window_end_offset - one.window_start_offset for one in log.windows), 1]) - 1
    sums: dict[int, tuple[int, int]] = {}
    for one in log.windows:
        add_digest(sums, one.window_start_offset >> shift.bit_length(), one.digest, one.batch_count)
    assert merged(log.windows, width) == tuple(window(number, shift.bit_length(), *both) for number, both in sorted(sums.items()))


def test_a_window_that_stands_askew_is_put_right() -> None:
    assert merged([Window(5, 9, 1, 1)]) == (Window(4, 8, 1, 1),)


@given(batches(lowest_epoch=-1), tables(), st.integers(0, 25), st.booleans())
def test_where_a_table_contradicts_batches(found: list[Batch], entries: list[tuple[int, int]], floor: int, apart: bool) -> None:
    epochs, held = table(entries), tuple(run(*batch) for batch in found)
    since = max((place + 1 for place, one in enumerate(held) if one.magic < 2), default=0)
    latest = max((one.leader_epoch for one in held), default=-1)
    cut = next((start for epoch, start in epochs if epoch > latest), 1 << 62) if apart else 1 << 62
    known = [place for place, one in enumerate(held) if not one.leader_epoch > latest_epoch(epochs) >= 0]
    looked_at = held[since : max(known, default=-1) + 1] if apart else held[since:]
    ends = ((one, max(one.first_offset, floor), min(one.last_offset, cut - 1)) for one in looked_at)
    wrong = (
        (one, offset, epoch_for_offset(epochs, offset))
        for one, first, last in ends
        for offset in (first, last)
        if first <= last and epoch_for_offset(epochs, offset) != one.leader_epoch
    )
    assert contradiction(epochs, held, floor, copied_apart=apart) == next(wrong, None)


def _all_pairs(found: Partition) -> list[tuple[Replica, Replica]]:
    made = {broker: found.replicas[broker].replica(broker, in_isr=broker in found.isr) for broker in BROKERS}
    return [(made[found.leader], made[broker]) for broker in found.followers]


def _judged(c: Comparison) -> tuple[Any, ...]:
    stays = [still_diverged(c.leader, c.follower, c.context, c.effect)]
    return c.difference, c.divergence_offset, c.surviving_difference, c.lost, judge(c), stays


@pytest.mark.parametrize("protocol", list(Protocol))
@given(found=partitions(retention=True))
def test_verdicts(found: Partition, protocol: Protocol) -> None:
    """All that is said of the followers of real histories, under every rule, with the histories compared at once and piece by piece."""
    for leader, follower in _all_pairs(found):
        quick = _judged(compare(leader, follower, protocol=protocol, leader_epoch=found.epoch))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lineage, "differences", walked_differences)
            assert _judged(compare(leader, follower, protocol=protocol, leader_epoch=found.epoch)) == quick


@given(st.lists(partitions(), min_size=1, max_size=3))
def test_kept_answers_are_those_of_the_rules(found: list[Partition]) -> None:
    for leader, follower in (pair for one in found for pair in (*_all_pairs(one), *_all_pairs(one))):
        for rule in RULES.values():
            bare = rule.__wrapped__  # type: ignore[attr-defined]
            assert rule(leader.as_leader(), follower.as_follower()) == bare(leader.as_leader(), follower.as_follower())


@given(st.lists(st.tuples(batches(), st.booleans(), st.integers(0, 9)), min_size=2, max_size=12))
def test_kept_logs_are_those_that_loading_gives(asked: list[tuple[list[Batch], bool, int]]) -> None:
    bare = load_log.__wrapped__  # type: ignore[attr-defined]
    for found, recovers, recovery_point in asked:
        segments = (Segment(base_offset=found[0][1] if found else 0, runs=runs(found)),)
        given_: dict[str, Any] = {"checkpoint": (), "log_start_checkpoint": None, "recovery_point": recovery_point, "recovers": recovers}
        assert load_log(segments, **given_) == bare(segments, **given_)


def test_a_question_is_asked_once_while_it_is_remembered() -> None:
    asked: list[int] = []

    @once
    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    assert [double(1), double(2), double(1)] == [2, 4, 2]
    assert asked == [1, 2]
    assert [double(number) for number in range(3, 20)] == [2 * number for number in range(3, 20)]
    assert double(1) == 2
    assert asked.count(1) == 2, "long forgotten"
