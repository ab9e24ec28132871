"""Our reading of checkpoint files against Kafka's: what is refused, and what is made of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.errors import CheckpointError
from replica_audit.formats.log_dir import checkpoints
from replica_audit.protocol.epochs import epoch_table as et
from replica_audit.protocol.epochs.checkpoint_repair import Undetermined, as_table, corrected
from tests.oracle.kafka_classes import Kafka, Refused
from tests.oracle.strategies import mostly
from tests.protocol.lineages import Partition, partitions, tables

pytestmark = pytest.mark.oracle

REFUSED = "refused"
# An example costs a millisecond.
MANY = settings(max_examples=max(1000, settings().max_examples))

# What Java takes for an integer is neither what Python does nor what a regular expression for digits says.
ARABIC_INDIC, FULLWIDTH_ONE, MATHEMATICAL_ONE = "\u0663\u0664", "\uff11", "\U0001d7cf"
INTEGERS = [
    *("0", "1", "2", "3", "7", "10", "-0", "+0", "+1", "00", "007", "-1", "0" * 30 + "1", "-" + "0" * 30, "99999999999999999999"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *("", "+", "-", "+-1", "--1", "1.0", "1e3", "0x1", "1_0", "1L", "x", "\ufeff0", "\u00b2", "\u00bd"),
    *(ARABIC_INDIC, FULLWIDTH_ONE, MATHEMATICAL_ONE),
]
BLANKS = ["  ", "\t", "\x0b", "\f", "\x1c", "\x85", "\xa0", "\u2003", "\u2028", ","]
LINE_ENDS = ["\r\n", "\r", "\n\n", "\n\r", "\x0b", "\x85", "\u2028", ""]
TOPICS = ["t", "a.b_c-d", "-", "t-1", "\xfc", "", "#", "\u2028", "t\x00"]

CASES = [
    *(b"", b"\n", b"\r", b"\r\n", b" ", b"0", b"0\n", b"0\r\n", b"0\n\n", b"0\n0", b"0\n0\n", b"0\n0\n\n"),
    *(b"\n0\n0\n", b" 0\n0\n", b"0 \n0\n", b"1\n0\n", b"x\n0\n", b"-0\n0\n", b"+0\n+0\n", b"0\n-0\n", b"0\n-1\n"),
    *(b"0\n1\n", b"0\n20000000\n", b"0\n2147483647\n", b"0\n2147483648\n", b"0\x00\n0\n", b"\xef\xbb\xbf0\n0\n"),
    *(b"\xff", b"0\n0\n\xff", b"0\n1\n\xc0\x80 0\n", b"0\n1\n\xed\xa0\x80 0\n", b"0\n0\n\xf0\x9f"),
    *(b"0" * 5000 + b"\n0\n", b"0\n" + b"0" * 5000 + b"\n", b"0\n" + b"9" * 5000 + b"\n", b"0\n0\n" + b" " * 9000),
]
EPOCH_CASES = [
    *(b"0\n1\n0 0", b"0\n1\n0 0\n", b"0\r\n1\r\n0 0\r\n", b"0\r1\r0 0\r", b"0\n1\n0 0\n\n", b"0\n2\n0 0\n\n1 1\n"),
    *(b"0\n1\n 0 0\n", b"0\n1\n0 0 \n", b"0\n1\n0  0\n", b"0\n1\n0\t \x0b\f0\t\n", b"0\n1\n0\xc2\xa00\n", b"0\n1\n0\x1c0\n"),
    *(b"0\n1\n0\n", b"0\n1\n0 0 0\n", b"0\n2\n0 0\n", b"0\n1\n0 0\n1 1\n", b"0\n3\n5 5\n3 9\n4 2\n", b"0\n2\n1 7\n1 3\n"),
    *(b"0\n1\n-1 0\n", b"0\n1\n0 -1\n", b"0\n1\n-0 -0\n", b"0\n1\n2147483647 9223372036854775807\n"),
    *(b"0\n1\n2147483648 0\n", b"0\n1\n0 9223372036854775808\n", b"0\n1\n" + b"0" * 5000 + b"1 0\n"),
    *(f"0\n1\n{digits} 0\n".encode() for digits in (ARABIC_INDIC, FULLWIDTH_ONE, MATHEMATICAL_ONE)),
]
OFFSET_CASES = [
    *(b"0\n1\nt 0 5", b"0\n1\nt 0 5\n", b"0\n1\n 0 5\n", b"0\n1\nt -1 -5\n", b"0\n1\nt\t0\x0b5\f\n", b"0\n1\nt\x00 0 5\n"),
    *(b"0\n2\nt 0 5\nt 0 3\n", b"0\n2\nt 0 5\nt 00 3\n", b"0\n1\nt 0\n", b"0\n1\nt 0 5 6\n", b"0\n1\nt x 5\n", b"0\n1\nt 0 x\n"),
    *(b"0\n1\nt 2147483648 5\n", b"0\n1\nt 0 9223372036854775808\n", b"0\n1\n\xc3\xbc 0 5\n", b"0\n1\nt\xc2\xa0u 0 5\n"),
    f"0\n1\nt {ARABIC_INDIC} {ARABIC_INDIC}\n".encode(),
]


@st.composite
def texts(draw: st.DrawFn, fields: tuple[st.SearchStrategy[str], ...]) -> bytes:
    """A checkpoint; one part of its form may be odd, for two faults hide each other."""
    rows = draw(st.lists(st.tuples(*fields), max_size=5))
    count = len(rows)
    odd = draw(st.sampled_from(["nothing", "version", "count", "blanks", "edges", "line ends"]))
    version = draw(st.sampled_from(["00", "-0", "+0", "0 ", "1", "-1", "", *INTEGERS])) if odd == "version" else "0"
    wrong = [f"+{count}", f"00{count}", f"{count} ", str(count + 1), str(count - 1), *INTEGERS]
    announced = draw(st.sampled_from(wrong)) if odd == "count" else str(count)
    between = mostly(st.just(" "), st.sampled_from(BLANKS), one_in=3) if odd == "blanks" else st.just(" ")
    edge = mostly(st.just(""), st.sampled_from(BLANKS), one_in=4) if odd == "edges" else st.just("")
    line_end = mostly(st.just("\n"), st.sampled_from(LINE_ENDS), one_in=4) if odd == "line ends" else st.just("\n")
    lines = [version, announced, *[draw(edge) + draw(between).join(row) + draw(edge) for row in rows]]
    text = "".join(line + draw(line_end) for line in lines)
    return (text.rstrip("\n") if draw(st.booleans()) else text).encode()


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of the given kind after a few were changed, put in or left out."""
    content = bytearray(draw(whole))
    replacements = st.one_of(st.binary(max_size=2), st.sampled_from([b"\n", b" ", b"\r", b"-", b"1"]))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        content[at : at + draw(st.integers(0, 2))] = draw(replacements)
    return bytes(content)


def contents(*fields: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    whole = texts(fields)
    soup = st.text(alphabet="0012 \t\r\n\n-+.x\x0b\f\x1c\x85\u2028\xe9\u0663\x00", max_size=14).map(str.encode)
    return mostly(whole, st.one_of(damaged(whole), soup, soup.map(lambda end: b"0\n1\n" + end), st.binary(max_size=12)), one_in=3)


SMALL = st.integers(0, 12).map(str)
NUMBERS = mostly(SMALL, st.sampled_from(INTEGERS), one_in=16)


def our_epochs(content: bytes) -> object:
    """What we make of a `leader-epoch-checkpoint`: the entries in file order, and the table that a broker has then."""
    try:
        lines = checkpoints.leader_epoch_lines(content)
    except CheckpointError:
        return REFUSED
    entries = et.table((line.epoch, line.start_offset) for line in lines)
    assert checkpoints.healed(lines).epochs == et.load(entries)
    return entries, et.load(entries)


def kafkas_epochs(kafka: Kafka, content: bytes) -> object:
    """What Kafka makes of a `leader-epoch-checkpoint`, in the same form."""
    try:
        # In this order: only loading refuses negative numbers.
        loaded = kafka.epoch_cache(content).entries()
        return kafka.epoch_lines(content), loaded
    except Refused:
        return REFUSED


def our_offsets(content: bytes) -> object:
    """What we make of an offset checkpoint: a line that repeats a partition replaces the earlier one."""
    try:
        return {(line.topic, line.partition): line.offset for line in checkpoints.offset_lines(content)}
    except CheckpointError:
        return REFUSED


def kafkas_offsets(kafka: Kafka, content: bytes) -> object:
    """What Kafka makes of an offset checkpoint."""
    try:
        return kafka.offsets(content)
    except Refused:
        return REFUSED


@pytest.mark.parametrize("content", [*CASES, *EPOCH_CASES], ids=lambda content: repr(content[:40]))
def test_leader_epoch_checkpoint(kafka: Kafka, content: bytes) -> None:
    assert our_epochs(content) == kafkas_epochs(kafka, content), content


@pytest.mark.parametrize("content", [*CASES, *OFFSET_CASES], ids=lambda content: repr(content[:40]))
def test_offset_checkpoint(kafka: Kafka, content: bytes) -> None:
    assert our_offsets(content) == kafkas_offsets(kafka, content), content


@MANY
@given(content=contents(NUMBERS, NUMBERS))
def test_any_leader_epoch_checkpoint(kafka: Kafka, content: bytes) -> None:
    assert our_epochs(content) == kafkas_epochs(kafka, content), content


@MANY
@given(content=contents(st.sampled_from(TOPICS), NUMBERS, NUMBERS))
def test_any_offset_checkpoint(kafka: Kafka, content: bytes) -> None:
    assert our_offsets(content) == kafkas_offsets(kafka, content), content


@MANY
@given(epochs=tables())
def test_what_is_written_is_byte_for_byte_what_kafka_writes(kafka: Kafka, epochs: list[tuple[int, int]]) -> None:
    cache = kafka.epoch_cache()
    for epoch, start_offset in epochs:
        cache.assign(epoch, start_offset)
    written = checkpoints.leader_epoch_checkpoint(et.table(epochs))
    if epochs:  # Kafka writes the file with the first entry
        assert cache.file.read_bytes() == written
    assert kafka.epoch_cache(written).entries() == et.table(epochs)


@MANY
@given(partition=partitions(retention=True), damaged=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=8))
def test_kafkas_cache_of_a_corrected_file_answers_as_the_one_that_was_damaged(
    kafka: Kafka, partition: Partition, damaged: list[tuple[int, int]]
) -> None:
    """LeaderEpochFileCache, loaded from what is written for a leader whose file holds anything, knows every epoch of its batches."""
    right = partition.replicas[partition.leader]
    leader = right.replica(partition.leader)
    made = corrected(damaged, leader.log)
    assert not isinstance(made, Undetermined)
    cache = kafka.epoch_cache(checkpoints.leader_epoch_checkpoint(as_table(made)))
    for epoch, base, last in right.batches:
        if last >= right.start:
            assert cache.epoch_for_offset(max(base, right.start)) == cache.epoch_for_offset(last) == epoch
            assert cache.end_offset_for(epoch, right.end).epoch == epoch
