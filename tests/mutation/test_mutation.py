"""A bounded part of the long run, and that it finds what it is there to find."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.mutation.mutators import ANY, common
from tests.mutation.readers import readers
from tests.mutation.reading import Outcome, Reader
from tests.mutation.run import HUNG, bounded_memory, judge, run

READERS = dict(readers())
OF_WEIGHT_ONE = 60


@pytest.mark.parametrize("name", READERS)
def test_every_reader(name: str, tmp_path: Path):
    reader = READERS[name]
    with bounded_memory():
        tally = run(reader, tmp_path, range(OF_WEIGHT_ONE * reader.weight))
    assert tally.runs == OF_WEIGHT_ONE * reader.weight
    assert not tally.failures


def test_the_samples_are_real_and_read_whole():
    assert len(READERS) >= 25
    assert all(reader.samples for reader in READERS.values())


def lines(_path: Path, content: bytes) -> Outcome:
    return Outcome(content.splitlines(keepends=True), False)


def forgetful(_path: Path, content: bytes) -> Outcome:
    """Nothing of a text that has a zero in it, and no word about it."""
    return Outcome([] if b"\0" in content else content.splitlines(keepends=True), False)


def raising(_path: Path, content: bytes) -> Outcome:
    return Outcome([int(content.split()[0])], False)


def endless(_path: Path, content: bytes) -> Outcome:
    while b"\0" in content:
        time.process_time()
    return Outcome([], False)


SAMPLES = [b"12 a\n34 b\n56 c\n" * 4]


def found(reader: Reader, folder: Path, count: int) -> list[str]:
    return [wrong for seed in range(count) if (wrong := judge(reader, folder, seed)[0])]


def test_what_is_lost_without_a_word_is_found(tmp_path: Path):
    assert found(Reader(read=lines, samples=SAMPLES), tmp_path, 200) == []
    assert any("without a word" in wrong for wrong in found(Reader(read=forgetful, samples=SAMPLES), tmp_path, 200))


def test_an_error_that_is_not_documented_is_found(tmp_path: Path):
    assert any(wrong.startswith("ValueError: ") for wrong in found(Reader(read=raising, samples=SAMPLES), tmp_path, 200))


def test_a_hang_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.mutation.run.HUNG", 0.2)
    seeds = range(200)
    hung = next(wrong for seed in seeds if (wrong := judge(Reader(read=endless, samples=SAMPLES, mutators=ANY), tmp_path, seed)[0]))
    assert hung.startswith("HangError: ")
    assert HUNG > 1


def test_up_to_where_contents_are_the_same():
    assert [common(b"abcd", other) for other in (b"abcd", b"abxd", b"", b"abcde", b"xbcd")] == [4, 2, 0, 4, 0]
