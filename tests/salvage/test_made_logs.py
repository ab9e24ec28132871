"""Records of every format and codec, saved from made-up logs: with all that their batches say, and what the leader has of them."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.formats.salvage.saved_file import ConsoleRecord, parsed
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.salvage.made import FOLLOWER, LEADER, audited, lines, record_of_json, replica, rows, saved, with_epoch

COMMON = with_epoch(0, *(rf.batch(at, (b"common", b"%d" % at)) for at in range(10)))
AHEAD = with_epoch(2, *(rf.batch(at, (b"leader-%d" % at, b"x")) for at in range(10, 40)))
VALUE = b"first value, first value, first value"


def diverged(root: Path, *tail: bytes, topic: str = "orders", leaders: list[bytes] | None = None) -> Path:
    """A leader of epoch 2 and a follower whose tail of epoch 1 begins where that began."""
    replica(root, LEADER, topic, [(0, 0), (2, 10)], [*COMMON, *(AHEAD if leaders is None else leaders)])
    return replica(root, FOLLOWER, topic, [(0, 0), (1, 10)], [*COMMON, *with_epoch(1, *tail)])


@pytest.mark.parametrize("case", rf.KAFKA_BATCHES, ids="-".join)
def test_batches_that_kafka_wrote(tmp_path: Path, case: tuple[str, str, str]) -> None:
    """Whatever the leader has at these offsets: the follower of a topic without epochs is cut to its high watermark."""
    made, root = base64.b64decode(rf.KAFKA_BATCHES[case]), tmp_path / "in"
    magic = int(case[0])
    before = COMMON if magic == 2 else [kf.legacy(magic, [at]) for at in range(10)]
    leaders = [*before, *(AHEAD if magic == 2 else [kf.legacy(magic, range(10, 60))])]
    tail = with_epoch(1, made)[0]
    replica(root, LEADER, "orders", [(0, 0), (2, 10)] if magic == 2 else [], leaders)
    path = replica(root, FOLLOWER, "orders", [(0, 0), (1, 40)] if magic == 2 else [], [*before, tail])
    (path.parent / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 10)]))
    run = audited(root)
    (verdict,) = run.tables.arrow("replica_verdicts").to_pylist()  # type: ignore[union-attr]
    found = saved(run, tmp_path / "out")
    assert found.cuts[0].header_records == verdict["removed_records"]
    assert found.exit_code == 0
    of_tail = [row for row in rows(tmp_path / "out") if row["offset"] >= 40]
    times = {
        "NoTimestampType": ("none", (-1, -1, -1)),
        "CreateTime": ("create", (rf.TIMESTAMP, rf.TIMESTAMP - 3, rf.TIMESTAMP + 70)),
        "LogAppendTime": ("append", (5000, 5000, 5000)),
    }[case[2]]
    headers = [{"key": b"h", "value": b"\x01\x02"}, {"key": b"n", "value": None}] if magic == 2 else []
    assert [(row["offset"], row["key"], row["value"]) for row in of_tail] == [(40, b"k1", VALUE), (41, None, b""), (44, b"", None)]
    assert [(row["timestamp_type"], row["timestamp_ms"]) for row in of_tail] == [(times[0], one) for one in times[1]]
    assert [row["headers"] for row in of_tail] == [headers, [], []]
    assert {(row["magic"], row["leader_epoch"]) for row in of_tail} == {(magic, 1 if magic == 2 else -1)}


_FIELD = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "ignore"))
_HEADERS = st.lists(
    st.tuples(st.text(max_size=5).map(lambda t: t.encode("utf-8", "ignore").decode()), st.none() | st.binary(max_size=9)), max_size=3
)
_RECORD = st.tuples(_FIELD, _FIELD, _HEADERS)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.tuples(st.lists(_RECORD, min_size=1, max_size=5), st.sampled_from(rf.CODECS)), min_size=1, max_size=5))
def test_what_goes_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], rf.Codec]],
) -> None:
    folder, made, at = tmp_path_factory.mktemp("salvage"), [], 10
    expected = []
    for records, codec in batches:
        placed = [(at + n, n, key, value, headers) for n, (key, value, headers) in enumerate(records)]
        made.append(rf.records_batch(placed, codec=codec))
        expected += [(*one[:1], one[2], one[3], tuple((name.encode(), told) for name, told in one[4])) for one in placed]
        at += len(records)
    diverged(folder / "in", *made)
    found = saved(audited(folder / "in"), folder / "out")
    held = [
        (row["offset"], row["key"], row["value"], tuple((one["key"], one["value"]) for one in row["headers"]))
        for row in rows(folder / "out")
    ]
    assert held == expected
    assert (found.saved, found.exit_code) == (len(expected), 0)
    replayed = [parsed(line) for line in lines(folder / "out", "orders-0.console.txt")]
    replayed += [record_of_json(line) for line in lines(folder / "out", "orders-0.base64.jsonl")]
    assert replayed == [ConsoleRecord(*one[1:]) for one in expected]


def test_sequences_and_what_a_producer_sent_again(tmp_path: Path) -> None:
    """The producer of three records got no answer for two of them, and sent those again to the new leader."""
    tail = [kf.batch(10, 1, deltas=(0, 1, 2), producer=(77, 3, 40)), kf.batch(13, 1, producer=(88, 0, 0))]
    leaders = with_epoch(
        2, rf.batch(10, (b"other", b"x")), kf.batch(11, 2, deltas=(0, 1), producer=(77, 3, 41)), kf.batch(13, 2, producer=(88, 1, 0))
    )
    diverged(tmp_path / "in", *tail, leaders=leaders)
    found = saved(audited(tmp_path / "in"), tmp_path / "out", asked_for=("newer-on-leader",))
    held = [
        (row["offset"], row["producer_id"], row["producer_epoch"], row["sequence"], row["on_leader"], row["resent_offset"])
        for row in rows(tmp_path / "out")
    ]
    assert held == [
        (10, 77, 3, 40, "other", None),
        (11, 77, 3, 41, "resent", 11),
        (12, 77, 3, 42, "resent", 12),
        (13, 88, 0, 0, "other", None),
    ]
    assert (found.kept_back["on-leader"], found.replayed) == (2, 2)


def test_the_newest_sequence_is_followed_by_the_first(tmp_path: Path) -> None:
    diverged(tmp_path / "in", kf.batch(10, 1, deltas=(0, 1, 2), producer=(77, 3, 2**31 - 2)))
    saved(audited(tmp_path / "in"), tmp_path / "out")
    assert [row["sequence"] for row in rows(tmp_path / "out")] == [2**31 - 2, 2**31 - 1, 0]


def test_transactions_and_their_ends_are_told_and_markers_are_not_records(tmp_path: Path) -> None:
    begins = with_epoch(0, rf.batch(9, (b"c", b"begun below"), producer_id=5))
    common = [*COMMON[:9], *begins]
    tail = [
        rf.batch(10, (b"a", b"1"), (b"b", b"2"), producer_id=5),
        rf.batch(12, (b"d", b"3"), producer_id=6),
        rf.control_batch(13, rf.COMMIT, producer_id=5),
        rf.control_batch(14, rf.ABORT, producer_id=6),
        rf.batch(15, (b"e", b"4"), producer_id=5),
        rf.batch(16, (b"f", b"5")),
    ]
    replica(tmp_path / "in", LEADER, "orders", [(0, 0), (2, 10)], [*common, *AHEAD])
    replica(tmp_path / "in", FOLLOWER, "orders", [(0, 0), (1, 10)], [*common, *with_epoch(1, *tail[:3])], with_epoch(1, *tail[3:]))
    found = saved(audited(tmp_path / "in"), tmp_path / "out")
    held = [
        (row["offset"], row["transaction"], row["transaction_first_offset"], row["transaction_marker_offset"], row["kept_back"])
        for row in rows(tmp_path / "out")
    ]
    assert held == [
        (10, "committed", 9, 13, None),
        (11, "committed", 9, 13, None),
        (12, "aborted", 12, 14, "aborted"),
        (15, "open", 15, None, "open"),
        (16, "none", None, None, None),
    ]
    (cut,) = found.cuts
    assert (cut.record_count, cut.control_count, cut.header_records, cut.cut.record_count) == (5, 2, 7, 7)
    assert (cut.begun_below_cut, found.replayed, found.exit_code) == (2, 3, 0)
    assert "2 records belong to transactions of which a part lies below the cut" in (tmp_path / "out" / "SALVAGE.md").read_text()
    again = saved(audited(tmp_path / "in"), tmp_path / "again", asked_for=("open", "aborted"))
    assert again.replayed == 5


def test_values_that_the_leader_has_newer_ones_of_are_not_rolled_back(tmp_path: Path) -> None:
    leaders = with_epoch(
        2, rf.batch(10, (b"a", b"newer")), rf.batch(11, (b"b", b"aborted"), producer_id=4), rf.control_batch(12, rf.ABORT, producer_id=4)
    )
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1"), (b"b", b"2"), (None, b"no key"), (b"common", b"known before")), leaders=leaders)
    found = saved(audited(tmp_path / "in"), tmp_path / "out")
    held = [(row["key"], row["newer_offset"], row["newer_leader_epoch"], row["kept_back"]) for row in rows(tmp_path / "out")]
    assert held == [(b"a", 10, 2, "newer-on-leader"), (b"b", None, None, None), (None, None, None, None), (b"common", None, None, None)]
    assert found.replayed == 3
    assert "`newer-on-leader`, 1 record:" in (tmp_path / "out" / "SALVAGE.md").read_text()


def test_what_a_batch_that_is_cut_in_the_middle_has_of_the_leaders_is_not_replayed(tmp_path: Path) -> None:
    """The cut takes a whole batch, whose first record the leader has, too."""
    shared = with_epoch(1, rf.batch(10, (b"first", b"1")))
    replica(tmp_path / "in", LEADER, "orders", [(0, 0), (1, 10), (2, 11)], [*COMMON, *shared, *with_epoch(2, rf.batch(11, (b"z", b"x")))])
    replica(
        tmp_path / "in", FOLLOWER, "orders", [(0, 0), (1, 10)], [*COMMON, *with_epoch(1, rf.batch(10, (b"first", b"1"), (b"second", b"2")))]
    )
    found = saved(audited(tmp_path / "in"), tmp_path / "out")
    assert [(row["offset"], row["on_leader"], row["kept_back"]) for row in rows(tmp_path / "out")] == [
        (10, "same", "on-leader"),
        (11, "other", None),
    ]
    assert found.replayed == 1


def test_records_that_several_brokers_hold_are_replayed_once_in_the_order_of_their_epochs(tmp_path: Path) -> None:
    root = tmp_path / "in"
    diverged(root, rf.batch(10, (b"a", b"1"), (b"b", b"2")), rf.batch(12, (b"c", b"3")))
    replica(
        root,
        3,
        "orders",
        [(0, 0), (1, 10)],
        [*COMMON, *with_epoch(1, rf.batch(10, (b"a", b"1"), (b"b", b"2"))), *with_epoch(1, rf.batch(12, (b"other", b"4")))],
    )
    found = saved(audited(root), tmp_path / "out")
    assert [cut.record_count for cut in found.cuts] == [3, 3]
    assert found.partitions[0].duplicates == 2
    assert [parsed(line) for line in lines(tmp_path / "out", "orders-0.console.txt")] == [
        ConsoleRecord(key, value, ()) for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"other", b"4"))
    ]


def test_what_cannot_be_read_is_told_by_its_offsets_and_the_rest_is_saved(tmp_path: Path) -> None:
    bomb = rf.with_codec(rf.batch(11, (b"k", b"v")), "zstd", rf.compress(bytes(65 << 20), "zstd"))
    nonsense = rf.with_codec(rf.batch(12, (b"k", b"v")), "gzip", b"no gzip")
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")), bomb, nonsense, rf.batch(13, (b"b", b"2")))
    found = saved(audited(tmp_path / "in"), tmp_path / "out")
    assert [row["offset"] for row in rows(tmp_path / "out")] == [10, 13]
    assert [(lost.first_offset, lost.last_offset, lost.record_count, lost.code) for _cut, lost in found.unsaved] == [
        (11, 11, 1, "records-beyond-limit"),
        (12, 12, 1, "bad-records"),
    ]
    (cut,) = found.cuts
    assert cut.found_all
    assert found.exit_code == 3
    text = (tmp_path / "out" / "SALVAGE.md").read_text()
    assert "| 11..11 | 1 | " in text
    assert "| 12..12 | 1 | " in text


def test_a_header_whose_name_is_no_text_is_saved_and_not_replayed(tmp_path: Path) -> None:
    made = bytearray(rf.batch(10, (b"k", b"v"), headers=[("ab", b"1")]))
    at = made.index(b"ab")
    made[at] = 0xFF
    diverged(tmp_path / "in", kf.sealed(made))
    found = saved(audited(tmp_path / "in"), tmp_path / "out")
    assert [row["headers"] for row in rows(tmp_path / "out")] == [[{"key": b"\xffb", "value": b"1"}]]
    assert (found.replayed, found.partitions[0].unsendable) == (0, 1)


def test_keys_of_long_tails_are_found_whatever_the_order(tmp_path: Path) -> None:
    tail = [rf.batch(at, (b"key-%d" % (at * 7 % 500), struct.pack(">q", at))) for at in range(10, 610)]
    leaders = [rf.batch(at, (b"key-%d" % (at * 3 % 250), b"x")) for at in range(10, 400)]
    diverged(tmp_path / "in", *tail, leaders=with_epoch(2, *leaders))
    saved(audited(tmp_path / "in"), tmp_path / "out")
    newest = {b"key-%d" % (at * 3 % 250): at for at in range(10, 400)}
    held = rows(tmp_path / "out")
    assert {row["offset"]: row["newer_offset"] for row in held} == {row["offset"]: newest.get(row["key"]) for row in held}
    assert len(held) == 600
