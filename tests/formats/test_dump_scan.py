"""The scan of a text is the fold of the batches that its lines tell one by one, whatever part of it is read as columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import DumpLogError
from replica_audit.formats.dump import dump_log
from replica_audit.formats.dump.dump_batches import LineForm
from replica_audit.formats.dump.dump_log import batches, scan_section, sections
from replica_audit.formats.segment.segment_fold import BatchColumns, Scan
from replica_audit.formats.segment.segment_scan import scan
from tests.formats.test_dump_log import FOUND, RECORD, SAMPLES, START, ZEROS, line, outputs

MANY = b"".join(line(3 * i, 3 * i + 2, 100 * i, partitionLeaderEpoch=i // 40, crc=i * 7919 % 2**32) for i in range(200))


@contextmanager
def at_any_price(counted: list[int], chunk: int = 1 << 19) -> Iterator[None]:
    """Columns from the first batch line on, of so much text at once; the lines that each call takes are counted."""
    batches_of = LineForm.batches

    def taken(form: LineForm, text: bytes, position: int, next_offset: int) -> BatchColumns | None:
        found = batches_of(form, text, position, next_offset)
        counted.append(0 if found is None else len(found))
        return found

    with (
        mock.patch.object(LineForm, "batches", taken),
        mock.patch.object(dump_log, "_WORTH_IT", 1),
        mock.patch.object(dump_log, "_MOST", chunk),
    ):
        yield


def one_by_one(text: bytes) -> list[Scan | str]:
    """What the batches of every section come to, or why there are none."""
    found: list[Scan | str] = []
    for section in sections(io.BytesIO(text)):
        try:
            found.append(scan(batches(io.BytesIO(text), section)))
        except DumpLogError as error:
            found.append(f"{error.line}: {error.reason}")
    return found


def at_once(text: bytes, chunk: int = 1 << 19) -> tuple[list[Scan | str], int]:
    """The same by scans, and how many lines were taken as columns."""
    found: list[Scan | str] = []
    counted: list[int] = []
    with at_any_price(counted, chunk):
        for section in sections(io.BytesIO(text)):
            try:
                found.append(scan_section(io.BytesIO(text), section))
            except DumpLogError as error:
                found.append(f"{error.line}: {error.reason}")
    return found, sum(counted)


def assert_same(text: bytes, chunk: int = 1 << 19) -> int:
    """Returns how many lines were taken as columns."""
    found, taken = at_once(text, chunk)
    assert found == one_by_one(text)
    return taken


@pytest.mark.parametrize(("row", "folder", "version", "mode", "name"), outputs())
def test_every_output_of_real_tools(row, folder, version, mode, name):
    text = (folder / ("" if folder == SAMPLES else "dump-samples") / name).read_bytes()
    for chunk in (1 << 19, 700):
        assert_same(text, chunk)


def test_lines_of_one_form_are_taken_at_once():
    assert assert_same(START + MANY) == 199
    assert assert_same(START + MANY.replace(b"\n", b"\r\n")) == 199
    assert assert_same(START + MANY.replace(b" isvalid: true", b"").replace(b" size:", b" isvalid: true size:")) == 199
    assert assert_same(START + MANY.replace(b"count:", b"lastSequence:", 1)) > 100  # the form of the first line is not that of the others


def test_lines_without_a_count_as_before_2_0():
    text = START + b"".join(line(3 * i, 3 * i + 2, 100 * i, count=None) for i in range(200))
    assert assert_same(text) == 199
    (found,), _taken = at_once(text)
    assert isinstance(found, Scan)
    assert found.runs[0].record_count == 600


def test_record_lines_between_are_counted():
    """They are judged one by one; what is between them is not."""
    text = START + b"".join(line(3 * i, 3 * i + 2, 100 * i) + RECORD * 3 for i in range(200))
    assert assert_same(text) == 0
    missing = text[: -len(RECORD)]
    assert_same(missing)
    (found,), _taken = at_once(missing)
    assert isinstance(found, Scan)
    assert found.damage is not None
    assert found.damage.code == "dump-truncated"
    assert assert_same(START + MANY[:30_000] + RECORD * 3 + MANY[30_000:]) > 50


@pytest.mark.parametrize("chunk", [1, 2, 100, 331, 700, 5000])
def test_wherever_a_chunk_ends(chunk):
    assert_same(START + MANY[:20_000] + RECORD + b"contents\n" + RECORD + FOUND, chunk)
    assert_same(START + line(0, 2, 0) + b"x" * 70_000 + b"\n" + line(3, 3, 100) + b"| " + b"y" * 140_000 + b"\n" + line(4, 4, 200), chunk)


def test_forms_that_change_are_looked_for_less_and_less():
    text = START + b"".join(line(i, i, 100 * i, compresscodec=("none", "lz4")[i % 2]) for i in range(300))
    counted: list[int] = []
    with at_any_price(counted):
        (section,) = sections(io.BytesIO(text))
        scan_section(io.BytesIO(text), section)
    assert len(counted) < 20
    assert_same(text + line(300, 300, 30_000) * 1 + b"".join(line(i, i, 100 * i) for i in range(301, 900)))


def test_batches_with_a_wrong_crc():
    text = START + b"".join(line(i, i, 100 * i, isvalid=("false", "true")[50 < i < 100 or i < 20]) for i in range(300))
    assert assert_same(text) > 200
    (found,), _taken = at_once(text)
    assert isinstance(found, Scan)
    assert (found.first_bad_crc, len(found.runs)) == (2000, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": 10_001},
        {"position": -100},
        {"baseOffset": 299},
        {"lastOffset": 298},
        {"lastOffset": 1 << 40},
        {"lastOffset": (1 << 63) - 1},
        {"lastOffset": 1 << 63},
        {"baseOffset": "+300"},
        {"baseOffset": "3_00"},
        {"baseOffset": "0000000000000000000000300"},
        {"count": -2},
        {"count": -1},
        {"count": 1 << 31},
        {"count": "null"},
        {"size": 60},
        {"size": 1 << 31},
        {"size": -100},
        {"magic": 1},
        {"magic": 22},
        {"partitionLeaderEpoch": 1 << 31},
        {"partitionLeaderEpoch": -1},
        {"partitionLeaderEpoch": "5 6"},
        {"crc": -5},
        {"crc": 1 << 32},
        {"crc": "x"},
        {"crc": ""},
        {"producerId": 1 << 64},
        {"producerEpoch": 40_000},
        {"baseSequence": "--1"},
        {"isvalid": "perhaps"},
        {"isvalid": "truetrue"},
        {"isControl": "true"},
        {"deleteHorizonMs": "OptionalLong[5]"},
        {"deleteHorizonMs": "Optional Long"},
        {"deleteHorizonMs": "\u00e9"},
        {"deleteHorizonMs": ""},
        {"CreateTime": -(1 << 63)},
        {"lastSequence": None},
        {"more": "yes"},
        {"baseOffset": "0x12c"},
        {"crc": "0X7"},
        {"baseOffset": "300\t"},
        {"crc": "7\v"},
        {"deleteHorizonMs": "a\tb"},
        {"isvalid": "true\r"},
        {"lastSequence": "5\r"},
        {"lastSequence": "\0"},
        {"lastSequence": '"5'},
        {"producerId": " 5"},
    ],
    ids=str,
)
def test_a_line_that_differs(changes):
    """In the middle of many that do not, with and without records: what is wrong with it is for the reader of lines to say."""
    odd = line(300, 302, 10_000)
    for key, value in changes.items():
        told = next((word for word in odd.split(f"{key}: ".encode())[1:]), b"").split()[:1]
        if value is None:
            odd = odd.replace(f" {key}: ".encode() + told[0], b"")
        elif told:
            odd = odd.replace(f"{key}: ".encode() + told[0], f"{key}: {value}".encode())
        else:
            odd = odd.replace(b" isvalid:", f" {key}: {value} isvalid:".encode())
    before = b"".join(line(3 * i, 3 * i + 2, 100 * i) for i in range(100))
    behind = b"".join(line(3 * i, 3 * i + 2, 100 * i) for i in range(100 if "baseOffset" in changes else 101, 200))
    assert assert_same(START + before + odd + behind) >= 50
    assert assert_same(START + before + RECORD * 3 + odd + RECORD * 3 + behind) >= 50
    assert assert_same(START + before + odd) >= 50
    assert assert_same(START + before + odd[:-1]) >= 50


def test_what_has_no_form():
    sound = line(0, 2, 0)
    assert LineForm(sound).batches(sound, 0, 0) is not None
    for odd in (
        sound.replace(b" count: 3", b"  count: 3"),
        sound.rstrip(),
        sound.replace(b"crc:", b"size:"),
        sound.replace(b" crc: 4294967295", b""),
        sound.replace(b" crc:", b" keysize:"),
        b"offset: 3 position: 100 CreateTime: 5 isvalid: true payloadsize: 2 magic: 1 compresscodec: NONE crc: 1\n",
    ):
        with pytest.raises(ValueError, match=r"not"):
            LineForm(odd)


PARTS = [
    *(START, RECORD, FOUND, ZEROS, MANY[:2000], MANY[2000:20_000], b"offset: ", b"\n", b"| x", b"Dumping a.log", b" ", b"\r\n"),
    *(line(0, 2, 0), line(3, 3, 100), line(4, 9, 200, compresscodec="zstd"), line(4, 9, 200, isvalid="false"), line(9, 9, 700)),
]


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.sampled_from([100, 1 << 19]))
def test_parts_in_any_order(parts, chunk):
    text = b"".join(parts)
    try:
        assert_same(text, chunk)
    except DumpLogError as error:
        assert error.line  # the text ends inside a 'Dumping' line


@given(
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=20), st.integers(0, 400)), min_size=1, max_size=4),
    st.sampled_from(["v2/kafka-4.2.0.deep.txt", "v2/kafka-2.8.2.print-data-log.txt", "v1/kafka-0.10.2.2.shallow.txt", ""]),
    st.sampled_from([100, 1 << 19]),
)
def test_damaged_texts(edits, name, chunk):
    text = (SAMPLES / name).read_bytes() if name else START + MANY
    for place, noise, removed in edits:
        at = int(place * len(text))
        text = text[:at] + noise + text[at + removed :]
    try:
        assert_same(text, chunk)
    except DumpLogError as error:
        assert error.line


def test_columns_cost_more_than_a_short_text():
    with mock.patch.object(LineForm, "batches", side_effect=AssertionError):
        (section,) = sections(io.BytesIO(START + MANY[:15_000]))
        found = scan_section(io.BytesIO(START + MANY[:15_000]), section)
    assert found.runs[-1].last_offset > 100


ODD = [b"0x", b"\t", b"\r", b"\n\r", b"\xef\xbb\xbf", b'"', b"\\", b"  ", b"-", b"\v", b"\0", b"\n", b","]
NOISE = st.one_of(st.sampled_from(ODD), st.binary(max_size=9))


@given(st.lists(st.tuples(st.integers(0, 400), NOISE, st.integers(0, 3)), min_size=1, max_size=2), st.booleans())
def test_any_byte_of_a_line(edits, has_returns):
    """Near the beginning of many lines, all of which go through columns."""
    text = MANY[: 1 << 13].replace(b"\n", b"\r\n") if has_returns else MANY[: 1 << 13]
    for at, noise, removed in edits:
        text = text[:at] + noise + text[at + removed :]
    assert_same(START + line(0, 2, 0) + text)
    assert_same(START + MANY[: MANY.index(b"\n") + 1] + text[MANY.index(b"\n") + 1 :])
