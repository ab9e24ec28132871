"""Kafka's small text files: what it loads is loaded, what it refuses is refused, with the line.

Rules: CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataReadBuffer, MetaProperties and Uuid of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import CheckpointError, InputError, MetadataError
from replica_audit.formats.log_dir.checkpoints import (
    EpochLine,
    MetaProperties,
    OffsetLine,
    clean_shutdown_epoch,
    healed,
    leader_epoch_checkpoint,
    leader_epoch_lines,
    meta_properties,
    offset_lines,
    offset_notes,
    readable_epoch_lines,
    topic_id,
)
from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT, META_PROPERTIES, OFFSET_CHECKPOINTS, PARTITION_METADATA
from replica_audit.protocol.epochs.epoch_table import EpochTable, load, table
from tests.formats import kafka_files as kf

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
SHARED = Path(__file__).parents[3] / "shared" / "clusters"
INT32_LAST, INT64_LAST = 2**31 - 1, 2**63 - 1


def lines(content: bytes) -> list[tuple[int, int]]:
    return [(line.epoch, line.start_offset) for line in leader_epoch_lines(content)]


# --- leader-epoch-checkpoint ---


def test_entries_and_their_lines():
    assert leader_epoch_lines(b"0\n2\n0 0\n3 20\n") == [EpochLine(3, 0, 0), EpochLine(4, 3, 20)]


@pytest.mark.parametrize("content", [b"", b"0\n", b"0", b"0\n0\n", b"0\n0", b"-0\n+0\n", b"00\n000\n"])
def test_files_that_are_an_empty_table(content: bytes):
    assert leader_epoch_lines(content) == []
    assert offset_lines(content) == []


@pytest.mark.parametrize(
    "content",
    [
        b"0\n2\n0 0\n3 20",  # no final line end
        b"0\r\n2\r\n0 0\r\n3 20\r\n",  # what BufferedReader takes for lines
        b"0\r2\r0 0\r3 20\r",
        b"0\n2\r\n0 0\r3 20",
        b"0\n2\n0  0\n3\t20\n",
        b"0\n2\n0 \t 0\n3\x0b20\n",
        b"0\n2\n0\x0c0\n3 20\n",
        b"0\n2\n0 0 \n3 20 \t\x0b\x0c\n",  # Java's split drops trailing blanks
        b"+0\n+2\n+0 -0\n+3 +20\n",
        b"0\n2\n0000 0\n0000000003 0000000000000000020\n",
    ],
)
def test_spellings_that_kafka_accepts(content: bytes):
    assert lines(content) == [(0, 0), (3, 20)]


def test_the_largest_numbers():
    assert lines(f"0\n1\n{INT32_LAST} {INT64_LAST}\n".encode()) == [(INT32_LAST, INT64_LAST)]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1\n0\n", 1),
        (b"-1\n0\n", 1),
        (b"\n0\n", 1),
        (b"\n", 1),
        (b" 0\n0\n", 1),
        (b"0 \n0\n", 1),
        (b"zero\n0\n", 1),
        (b"\xef\xbb\xbf0\n0\n", 1),  # a byte order mark
        (b"4294967296\n0\n", 1),
        (b"0x0\n0\n", 1),
        (b"0.0\n0\n", 1),
        (b"0\n\n", 2),
        (b"0\n 1\n0 0\n", 2),
        (b"0\n1 \n0 0\n", 2),
        (b"0\none\n0 0\n", 2),
        (b"0\n99999999999\n0 0\n", 2),
        (b"0\n-1\n", 2),
        (b"0\n1\n", 2),
        (b"0\n0\n0 0\n", 2),
        (b"0\n1\n0 0\n1 5\n", 2),
        (b"0\n3\n0 0\n1 5\n", 2),
        (b"0\n1\n 0 0\n", 3),
        (b"0\n1\n0\n", 3),
        (b"0\n1\n0 0 0\n", 3),
        (b"0\n1\n\n", 3),
        (b"0\n1\n   \n", 3),
        (b"0\n2\n0 0\n\n3 20\n", 4),
        (b"0\n2\n0 0\n3 20\n\n", 5),
        (b"0\n2\n0 0\n3 twenty\n", 4),
        (b"0\n2\n0 0\nthree 20\n", 4),
        (b"0\n1\n0 1.0\n", 3),
        (b"0\n1\n0 0x1\n", 3),
        (b"0\n1\n0 1_0\n", 3),
        (b"0\n1\n0 - \n", 3),
        (b"0\n1\n--0 0\n", 3),
        (b"0\n1\n0,0\n", 3),
        (b"0\n1\n0\xc2\xa00\n", 3),  # a no-break space is no blank to Java
        (b"0\n1\n0\xe2\x80\x870\n", 3),
        (b"0\n1\n2147483648 0\n", 3),
        (b"0\n1\n-2147483649 0\n", 3),
        (b"0\n1\n0 9223372036854775808\n", 3),
        (b"0\n1\n0 " + b"9" * 10_000 + b"\n", 3),
        (b"0\n1\n" + b"9" * 10_000 + b" 0\n", 3),
        (b"0\n1\n-1 0\n", 3),  # refused by assign since 2.7
        (b"0\n1\n0 -1\n", 3),
        (b"0\n2\n0 0\n5 -9223372036854775808\n", 4),
        (b"0\n1\n0 0\x00\n", 3),
        (b"\x00" * 40, 1),  # what a file system leaves after a power cut
        (b"0\n1\n0 0\n" + b"\x00" * 8, 4),
    ],
)
def test_what_kafka_refuses_is_refused_at_its_line(content: bytes, line: int):
    with pytest.raises(CheckpointError) as caught:
        leader_epoch_lines(content)
    assert (caught.value.line, caught.value.byte_offset) == (line, None)
    assert caught.value.reason
    assert len(caught.value.reason) < 200


@pytest.mark.parametrize(
    ("content", "at"), [(b"\xff", 0), (b"0\n1\n0 \x80\n", 6), (b"0\n\xc3", 2), (b"\x7fELF\x02\x01\x01\x00\xf0\x9f", 8)]
)
def test_bytes_that_are_no_text_are_refused_at_their_byte(content: bytes, at: int):
    for parser in (leader_epoch_lines, offset_lines):
        with pytest.raises(CheckpointError, match="binary") as caught:
            parser(content)
        assert (caught.value.line, caught.value.byte_offset) == (None, at)


@given(st.lists(st.tuples(st.integers(0, INT32_LAST), st.integers(0, INT64_LAST)), max_size=30))
def test_what_is_written_is_read_back(entries: list[tuple[int, int]]):
    content = kf.checkpoint(entries)
    assert leader_epoch_lines(content) == [EpochLine(i, *entry) for i, entry in enumerate(entries, start=3)]


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, INT32_LAST), st.integers(-1, INT64_LAST)),
        max_size=20,
    )
)
def test_offsets_that_are_written_are_read_back(entries: list[tuple[str, int, int]]):
    assert offset_lines(kf.checkpoint(entries)) == [OffsetLine(i, *entry) for i, entry in enumerate(entries, start=3)]


def java_reads(content: bytes, width: int) -> bool:
    """Whether CheckpointFile.read and its formatter get through, said again in another way: only for plain ASCII without NUL."""
    rows = content.decode("ascii").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if rows[-1] == "":
        rows.pop()
    try:
        if not rows:
            return True
        if java_int(rows[0], 31) != 0:
            return False
        if len(rows) == 1:
            return True
        count = java_int(rows[1], 31)
        for row in rows[2:]:
            tokens = row.split(" ")  # the alphabet below has no other blank
            tokens = [token for i, token in enumerate(tokens) if token or i == 0]  # a run of blanks is one separator
            if len(tokens) != width:
                return False
            numbers = [java_int(tokens[-2], 31), java_int(tokens[-1], 63)]
            if width == 2 and min(numbers) < 0:
                return False
        return len(rows) - 2 == count
    except ValueError:
        return False


def java_int(text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or set(digits) - set("0123456789") or not -(2**bits) <= int(text) < 2**bits:
        raise ValueError(text)
    return int(text)


PLAUSIBLE = st.lists(
    st.sampled_from(["0", "1", "2", "12", " ", "  ", "\n", "\n", "\r\n", "\r", "-", "+", "0\n", "1\n0 0\n", "t 0 5"]), max_size=14
)


@given(PLAUSIBLE.map(lambda parts: "0\n" + "".join(parts)) | PLAUSIBLE.map("".join), st.sampled_from([2, 3]))
def test_refused_if_and_only_if_kafka_refuses(text: str, width: int):
    parser: Callable[[bytes], object] = leader_epoch_lines if width == 2 else offset_lines
    try:
        parser(text.encode())
        read = True
    except CheckpointError as error:
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
        read = False
    assert read == java_reads(text.encode(), width)


def test_real_checkpoints_are_loaded():
    counts = dict.fromkeys((EPOCH_CHECKPOINT, *OFFSET_CHECKPOINTS, META_PROPERTIES, PARTITION_METADATA), 0)
    for path in (found for name in counts for found in SAMPLE.rglob(name)):
        content = path.read_bytes()
        if path.name == EPOCH_CHECKPOINT:
            table = healed(leader_epoch_lines(content))
            assert table.notes == (), path
        elif path.name in OFFSET_CHECKPOINTS:
            assert all(line.offset >= 0 for line in offset_lines(content))
        elif path.name == META_PROPERTIES:
            said = meta_properties(content)
            assert f"broker-{said.broker_id}" == path.parent.parent.name
            assert said.cluster_id or "kafka-1.1.1" in str(path)
        else:
            assert len(topic_id(content)) == 22
        counts[path.name] += 1
    assert all(counts.values()), counts


# --- healing ---


def heal(*entries: tuple[int, int]) -> tuple[EpochTable, list[int]]:
    found = healed([EpochLine(i, *entry) for i, entry in enumerate(entries, start=3)])
    assert all("out of order" in note for _line, note in found.notes)
    return found.epochs, [line for line, _note in found.notes]


@pytest.mark.parametrize(
    ("entries", "table", "noted"),
    [
        ([], [], []),
        ([(0, 0)], [(0, 0)], []),
        ([(0, 0), (1, 5), (7, 6)], [(0, 0), (1, 5), (7, 6)], []),
        ([(2, 11), (0, 0), (3, 20)], [(0, 0), (3, 20)], [4]),  # descending: the later line wins
        ([(0, 0), (3, 20), (2, 11)], [(0, 0), (2, 11)], [5]),
        ([(2, 9), (3, 9)], [(3, 9)], []),  # two epochs with one start: 0.11 to 1.1 write that
        ([(1, 5), (2, 6), (1, 7)], [(1, 7)], [5]),
        ([(1, 0), (2, 5), (3, 9), (5, 4)], [(1, 0), (5, 4)], [6]),
        ([(0, 10), (1, 5)], [(1, 5)], [4]),  # offsets decrease
        ([(4, 10), (4, 3)], [(4, 3)], [4]),  # the same epoch earlier
        ([(4, 10), (4, 12)], [(4, 10)], [4]),  # the same epoch later: ignored
        ([(4, 10), (4, 10)], [(4, 10)], [4]),
    ],
)
def test_a_table_is_loaded_as_brokers_of_2_7_and_later_load_it(
    entries: list[tuple[int, int]], table: list[tuple[int, int]], noted: list[int]
):
    assert heal(*entries) == (tuple(table), noted)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=12))
def test_healing_is_assign_line_by_line_and_notes_every_line_that_contradicts(entries: list[tuple[int, int]]):
    table, noted = heal(*entries)
    assert table == load(entries)
    ascending = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    assert bool(noted) == (not ascending)
    assert (table == tuple(entries)) == ascending


# --- the four offset checkpoints ---


def test_offset_entries_and_their_lines():
    content = kf.checkpoint([("topic-a", 0, 1234), ("a.b_c-d", 17, 0), ("__consumer_offsets", 49, INT64_LAST)])
    assert offset_lines(content) == [
        OffsetLine(3, "topic-a", 0, 1234),
        OffsetLine(4, "a.b_c-d", 17, 0),
        OffsetLine(5, "__consumer_offsets", 49, INT64_LAST),
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1\n0\n", 1),
        (b"0\n2\na 0 1\n", 2),
        (b"0\n1\na 0\n", 3),
        (b"0\n1\na 0 1 2\n", 3),
        (b"0\n1\nmy topic 0 1\n", 3),
        (b"0\n1\n a 0 1\n", 3),
        (b"0\n1\na zero 1\n", 3),
        (b"0\n1\na 0 one\n", 3),
        (b"0\n1\na 2147483648 1\n", 3),
        (b"0\n1\na 0 9223372036854775808\n", 3),
        (b"0\n2\na 0 1\n\nb 0 1\n", 4),
        (b"0\n1\n0 0\n", 3),  # an epoch checkpoint under the wrong name
    ],
)
def test_offset_checkpoints_that_kafka_refuses(content: bytes, line: int):
    with pytest.raises(CheckpointError) as caught:
        offset_lines(content)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        (b"", []),
        (b"0\n", [(1, "ends before the number")]),
        (b"0\n0\n", []),
        (b"0\n2\na 0 1\nb 0 0\n", []),
        (b"0\n1\na 0 -1\n", [(3, "a-0 has the offset -1")]),
        (b"0\n3\na 0 1\na 1 1\na 0 1\n", [(5, "a-0 stands in line 3 already")]),
        (b"0\n3\na 0 1\na 0 2\na 0 3\n", [(4, "line 3 already"), (5, "line 3 already")]),
    ],
)
def test_what_kafka_loads_and_no_broker_writes(content: bytes, notes: list[tuple[int, str]]):
    found = offset_notes(content, offset_lines(content))
    assert [line for line, _what in found] == [line for line, _what in notes]
    assert all(what in note for (_line, note), (_also, what) in zip(found, notes, strict=True))


def test_an_offset_checkpoint_under_the_name_of_the_epoch_checkpoint():
    with pytest.raises(CheckpointError, match="2 fields") as caught:
        leader_epoch_lines(kf.checkpoint([("orders", 0, 7)]))
    assert caught.value.line == 3


def test_a_long_line_is_shown_in_part():
    with pytest.raises(CheckpointError) as caught:
        offset_lines(b"0\n1\n" + b"x" * 5_000_000)
    assert len(caught.value.reason) < 200


# --- meta.properties ---


def test_meta_properties_of_kraft():
    content = (
        b"#\n#Sat Nov 21 05:43:41 UTC 2026\ncluster.id=E_J-ecJCQVWFCFPOsnJhsA\nversion=1\ndirectory.id=9cFv8v7VRd6AXPYlnwxoJg\nnode.id=3\n"
    )
    assert meta_properties(content) == MetaProperties(3, "E_J-ecJCQVWFCFPOsnJhsA", "9cFv8v7VRd6AXPYlnwxoJg", is_kraft=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version=0\nbroker.id=7\ncluster.id=abc\n", MetaProperties(7, "abc", None, is_kraft=False)),
        (b"version=0\nbroker.id=7\n", MetaProperties(7, None, None, is_kraft=False)),  # before cluster ids (0.10.0)
        (b"version=0\ncluster.id=abc\n", MetaProperties(None, "abc", None, is_kraft=False)),
        (b"", MetaProperties(None, None, None, is_kraft=None)),
        (b"# nothing but a comment\n! and another\n\n   \n", MetaProperties(None, None, None, is_kraft=None)),
        (b"#node.id=1\nnode.id=2\n", MetaProperties(2, None, None, is_kraft=None)),
        (b"  # node.id=1\nnode.id=2", MetaProperties(2, None, None, is_kraft=None)),
        (b"node.id:3\ncluster.id:abc\n", MetaProperties(3, "abc", None, is_kraft=None)),
        (b"node.id = 3\ncluster.id =\tabc\n", MetaProperties(3, "abc", None, is_kraft=None)),
        (b"   node.id=3\r\n\tcluster.id=abc\r\n", MetaProperties(3, "abc", None, is_kraft=None)),
        (b"node.id=1\nnode.id=2\n", MetaProperties(2, None, None, is_kraft=None)),  # the last of two counts
        (b"node.id=3\ncluster.id=a\\:b\\=c\n", MetaProperties(3, "a:b=c", None, is_kraft=None)),
        (b"node.id=3\ncluster.id=a=b:c\n", MetaProperties(3, "a=b:c", None, is_kraft=None)),
        (b"node.id=\ncluster.id=\n", MetaProperties(None, None, None, is_kraft=None)),
        (b"broker.id=0\n", MetaProperties(0, None, None, is_kraft=None)),
        (b"node.id=2147483647\n", MetaProperties(INT32_LAST, None, None, is_kraft=None)),
        (b"version=1\nnode.id=3\n", MetaProperties(3, None, None, is_kraft=True)),
        (b"version=2\nnode.id=3\n", MetaProperties(3, None, None, is_kraft=None)),  # no Kafka wrote that
        (b"a line without a value\nnode.id=3\n", MetaProperties(3, None, None, is_kraft=None)),
    ],
)
def test_meta_properties_as_java_reads_it(content: bytes, said: MetaProperties):
    assert meta_properties(content)._replace(refused=None) == said


_DIRECTORY = b"directory.id=9cFv8v7VRd6AXPYlnwxoJg\n"


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (b"version=1\nnode.id=3\ncluster.id=abc\n" + _DIRECTORY, None),
        (b"version=1\nnode.id=3\ncluster.id=abc\n", None),  # before 3.7
        (b"version=0\nbroker.id=3\n", None),
        (b"broker.id=3\ncluster.id=abc\n", None),
        (b"", "it names no broker"),
        (b"version=0\ncluster.id=abc\n", "it names no broker"),
        (b"version=1\ncluster.id=abc\n", "it has no node.id"),
        (b"version=1\nbroker.id=3\ncluster.id=abc\n", "it has no node.id"),
        (b"version=1\nnode.id=3\n" + _DIRECTORY, "it has no cluster.id"),
        (b"node.id=3\ncluster.id=abc\n", "it has a node.id, which brokers read with version=1 only"),
        (b"version=9\nnode.id=3\ncluster.id=abc\n", "version '9' is not known"),
        (b"version=1\nnode.id=3\ncluster.id=abc\ndirectory.id=9cFv\n", "directory.id '...' (4 bytes) cannot be read as one"),
    ],
)
def test_what_no_broker_starts_with(content: bytes, refused: str | None):
    assert meta_properties(content).refused == refused


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("three", 2),
        ("3a", 2),
        ("1.0", 2),
        ("0x3", 2),
        ("--3", 2),
        ("3-", 2),
        ("\N{SUPERSCRIPT TWO}", 2),
        ("99999999999", 2),
        ("9" * 5000, 2),
    ],
)
@pytest.mark.parametrize("key", ["node.id", "broker.id"])
def test_a_broker_id_that_is_no_number_is_refused_at_its_line(key: str, value: str, line: int):
    with pytest.raises(MetadataError) as caught:
        meta_properties(f"version=1\n{key}={value}\n".encode())
    assert caught.value.line == line
    assert len(caught.value.reason) < 200


@pytest.mark.parametrize("value", ["-1", "-7"])
def test_a_negative_broker_id_is_no_id(value: str):
    # -1 means "to be generated" in a broker's configuration; no table takes it
    with suppress(MetadataError):
        assert meta_properties(f"version=0\nbroker.id={value}\n".encode()).broker_id is None


# --- partition.metadata ---


@pytest.mark.parametrize(
    "content",
    [
        b"version: 0\ntopic_id: Qp6JWkXMQF-e2A5xW3-mBQ",
        b"version: 0\ntopic_id: Qp6JWkXMQF-e2A5xW3-mBQ\n",
        b"version: 0\r\ntopic_id: Qp6JWkXMQF-e2A5xW3-mBQ\r\n",
        b"version:  0\ntopic_id: \tQp6JWkXMQF-e2A5xW3-mBQ\n",
    ],
)
def test_a_topic_id(content: bytes):
    assert topic_id(content) == "Qp6JWkXMQF-e2A5xW3-mBQ"


def test_a_later_version_is_read_as_kafka_reads_it():
    # PartitionMetadataReadBuffer takes any version from 0 on, for downgrades
    assert topic_id(b"version: 1\ntopic_id: Qp6JWkXMQF-e2A5xW3-mBQ") == "Qp6JWkXMQF-e2A5xW3-mBQ"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"\n", 1),
        (b"version: x\ntopic_id: Qp6JWkXMQF-e2A5xW3-mBQ", 1),
        (b"version: -1\ntopic_id: Qp6JWkXMQF-e2A5xW3-mBQ", 1),
        (b"topic_id: Qp6JWkXMQF-e2A5xW3-mBQ", 1),
        (b"version: 0", 2),
        (b"version: 0\n", 2),
        (b"version: 0\ntopic_id:", 2),
        (b"version: 0\ntopic_id: ", 2),
        (b"version: 0\ntopic: Qp6JWkXMQF-e2A5xW3-mBQ", 2),
    ],
)
def test_partition_metadata_without_a_topic_id(content: bytes, line: int):
    with pytest.raises(MetadataError) as caught:
        topic_id(content)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "value",
    [
        "Qp6J",  # torn
        "Qp6JWkXMQF-e2A5xW3-mB",
        "Qp6JWkXMQF-e2A5xW3-mBQQQQ",
        "Qp6JWkXMQF/e2A5xW3+mBQ",  # base64, but not that of URLs
        "00000000-0000-0000-0000",
        "unknown",
        "AAAAAAAAAAAAAAAAAAAAAA",  # the id that means none
        "Qp6JWkXMQF-e2\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ],
)
def test_a_topic_id_that_kafka_refuses_is_not_taken_for_another_topic(value: str):
    """Taken as it stands, a torn id makes a replica look like one of a topic that was deleted and created again."""
    with pytest.raises(MetadataError) as caught:
        topic_id(f"version: 0\ntopic_id: {value}".encode())
    assert caught.value.line == 2


# --- a file that Kafka refuses, and one written as Kafka writes it ---


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"0\n1\n0 0\n3 20\n", [(3, 0, 0), (4, 3, 20)], id="count 1 over two entries"),
        pytest.param(b"0\r\n2\r\n0 0\r\n\r\n3 20\r\n", [(3, 0, 0), (5, 3, 20)], id="a blank line"),
        pytest.param(b"0\n2\n 0 0\n3 2O\n4 -1\n5 30", [(3, 0, 0), (6, 5, 30)], id="a leading blank, a letter, a negative offset"),
        pytest.param(b"0 0\n3 20\n", [(1, 0, 0), (2, 3, 20)], id="version and count are gone"),
        pytest.param(b"1\n1\n0 0\n", [(3, 0, 0)], id="another version"),
        pytest.param(b"0\n2\n0 0\n\xff\xff\n3 20\n", [(3, 0, 0), (5, 3, 20)], id="bytes that are no text"),
        pytest.param(b"\x00" * 40, [], id="zeros"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"0\n", [], id="the version alone"),
    ],
)
def test_lines_that_can_be_read_of_a_malformed_file(content: bytes, expected: list[tuple[int, int, int]]):
    assert readable_epoch_lines(content) == [EpochLine(*line) for line in expected]


def test_a_table_is_written_byte_for_byte_as_brokers_write_it():
    seen = 0
    for path in sorted([*SAMPLE.rglob(EPOCH_CHECKPOINT), *SHARED.rglob(EPOCH_CHECKPOINT)]):
        content = path.read_bytes()
        with suppress(CheckpointError):
            found = leader_epoch_lines(content)
            if found and not healed(found).notes:
                assert leader_epoch_checkpoint(table((line.epoch, line.start_offset) for line in found)) == content, path
                seen += 1
    assert seen > 20
    assert leader_epoch_checkpoint(()) == b"0\n0\n"


_SPELT = st.tuples(
    st.integers(0, 2**33), st.integers(0, 2**65), st.sampled_from(["{} {}", "{}  {}", "+{} {}", "0{} {}", "{}\t{}", "{} -{}", "{} {} "])
)


@given(st.lists(_SPELT, max_size=5), st.integers(-1, 1), st.sampled_from(["\n", "\n\n", ""]))
def test_a_file_as_brokers_write_it_is_read_as_any_other(entries: list[tuple[int, int, str]], off: int, end: str) -> None:
    """Such files are read at once, all others line by line: those with another end of lines are, and mean the same."""
    shown = [spelt.format(epoch, start) for epoch, start, spelt in entries]
    plain = "\n".join(["0", str(len(shown) + off), *shown]) + end
    for parser, of_file in ((leader_epoch_lines, plain), (offset_lines, plain.replace(" ", " 7 "))):
        found = [_outcome(parser, text.encode()) for text in (of_file, of_file.replace("\n", "\r\n"))]
        assert found[0] == found[1]


def _outcome(parser: Callable[[bytes], object], content: bytes) -> object:
    try:
        return parser(content)
    except CheckpointError as error:
        return error.reason, error.line


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8))
def test_a_table_in_order_is_loaded_as_it_stands_and_any_other_healed(entries: list[tuple[int, int]]) -> None:
    found = healed([EpochLine(number, *entry) for number, entry in enumerate(entries, start=3)])
    assert found.epochs == load(entries)
    in_order = all(a < c and b <= d for (a, b), (c, d) in pairwise(entries))
    assert bool(found.notes) == (not in_order)


def test_topic_ids_are_told_apart_and_refused_each_time() -> None:
    first, second = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"
    for _time in range(2):
        assert [topic_id(first), topic_id(second), topic_id(first + b"\n" + b"#" * 300)] == [
            "AAAAAAAAAAAAAAAAAAAAAQ",
            "AAAAAAAAAAAAAAAAAAAAAg",
            "AAAAAAAAAAAAAAAAAAAAAQ",
        ]
        with pytest.raises(MetadataError):
            topic_id(b"version: 0\ntopic_id: ?")


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":383}', 383),  # as 4.3.1 writes it
        (b"", None),  # before 3.7
        (b'{"version":0}', None),
        (b'{"version":0,"brokerEpoch":"383"}', None),
        (b'{"version":0,"brokerEpoch":true}', None),
        (b'{"version":0,"brokerEpoch":-1}', None),
        (b"[383]", None),
        (b'{"version":0,"brokerEp', None),
        (b"\xff\xfe", None),
    ],
)
def test_the_broker_epoch_of_a_clean_shutdown(content: bytes, epoch: int | None) -> None:
    assert clean_shutdown_epoch(content) == epoch


# --- what an error quotes ---


@pytest.mark.parametrize(
    "line", ["root:x:0:0:root:/root:/bin/bash", "5 hunter2", "hunter2", "1 2 hunter2", "-----BEGIN OPENSSH PRIVATE KEY-----"]
)
@pytest.mark.parametrize(
    ("parse", "begins"),
    [
        (leader_epoch_lines, ""),
        (leader_epoch_lines, "0\n1\n"),
        (offset_lines, "0\n1\n"),
        (meta_properties, "version=1\nnode.id="),
        (topic_id, "version: 0\ntopic_id: "),
        (topic_id, "version: "),
    ],
)
def test_an_error_quotes_nothing_that_such_a_file_cannot_hold(parse: Callable[[bytes], object], begins: str, line: str) -> None:
    """Somebody may have put any file in its place."""
    with pytest.raises(InputError) as caught:
        parse(f"{begins}{line}\n".encode())
    said = str(caught.value)
    assert not any(word in said for word in ("root", "hunter", "PRIVATE"))
    assert "bytes)" in said


def test_a_note_on_an_offset_names_topics_only() -> None:
    content = b"0\n2\norders 1 -5\nroot:x:0 1 -7\n"
    notes = [note for _line, note in offset_notes(content, offset_lines(content))]
    assert notes == ["orders-1 has the offset -5: none is negative", "'...' (8 bytes)-1 has the offset -7: none is negative"]


def test_an_error_quotes_numbers_and_ids() -> None:
    with pytest.raises(CheckpointError, match="'0 7 9' is not an entry of 2 fields"):
        leader_epoch_lines(b"0\n1\n0 7 9\n")
    with pytest.raises(MetadataError, match="'AAAAAAAAAAAAAAAAAAAAAA' is not a topic id"):
        topic_id(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
