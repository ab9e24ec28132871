"""Texts of kafka-dump-log with many sections, in forms that must be read from their beginning, and how much of them is unpacked."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from replica_audit.files import text_files
from tests.formats.test_dump_log import FOUND, line

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "utf-16": lambda text: "\ufeff".encode("utf-16-le") + text.decode().encode("utf-16-le"),
}
BATCHES = 400  # of a section: some 130 KB, more than is read of a file at once


def section(number: int, partition: int = 0) -> bytes:
    """What tells one segment; of every tenth it is damaged, of another tenth it does not tell batches."""
    base = 3 * BATCHES * number
    lines = [line(base + 3 * i, base + 3 * i + 2, 100 * i, partitionLeaderEpoch=number // 4) for i in range(BATCHES)]
    if number % 10 == 7:
        lines[BATCHES // 2] = line(base, base + 2, 50)
    elif number % 10 == 8:
        lines[3] = b"offset: 9 position: 300 CreateTime: 1 isvalid: true keysize: 1 valuesize: 1 magic: 2\n"
    end = FOUND.replace(b"0" * 20, b"%020d" % base) if number % 10 == 9 else b""
    return b"Dumping /data/orders-%d/%020d.log\nLog starting offset: %d\n" % (partition, base, base) + b"".join(lines) + end


def text(numbers: Iterable[int], partition: int = 0) -> bytes:
    """The sections of one partition's segments, in this order."""
    return b"".join(section(number, partition) for number in numbers)


@contextmanager
def unpacked() -> Iterator[list[int]]:
    """The bytes that were unpacked or converted: one number for each time that this began at the beginning of a text."""
    sizes: list[int] = []
    convert = text_files._in_utf8

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        sizes.append(0)
        place = len(sizes) - 1
        for chunk in convert(chunks):
            sizes[place] += len(chunk)
            yield chunk

    with mock.patch.object(text_files, "_in_utf8", counted):
        yield sizes


def write(folder: Path, name: str, content: bytes) -> Path:
    """A file of a broker's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder
