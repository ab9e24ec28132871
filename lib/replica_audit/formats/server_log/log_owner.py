"""Which broker wrote a log, by the names that a broker's parts give themselves in its lines."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from replica_audit.files.packed_text import open_text
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.server_log.json_records import is_json, records
from replica_audit.formats.server_log.line_source import HEADING, number_of, prefix_of
from replica_audit.formats.server_log.log_layouts import looks_like_server_log, quotes_a_server_log

_BLOCK = 1 << 18
_LONGEST = 300  # bytes of a match, and more
_SNIFFED = 1 << 16
_LOOKED_INTO = 1 << 23  # bytes of a log beside the brokers' folders; a broker names itself when it starts, and whenever it fetches
NAMED = re.compile(
    rb"\[(?:KafkaServer|BrokerServer|BrokerLifecycleManager|Broker) id=(\d{1,9})\]|\[ReplicaManager broker=(\d{1,9})\]"
    rb"|\[ReplicaFetcher replicaId=(\d{1,9}),|\[Partition [A-Za-z0-9._-]{1,256} broker=(\d{1,9})\]"
    rb"|\[ReplicaFetcherManager on broker (\d{1,9})\]"
)


class Owner(NamedTuple):
    """The broker that a log names first, and the line that does, counted from 1."""

    broker_id: int
    line: int


def owner(stream: BinaryIO, most_bytes: int | None = None) -> Owner | None:
    """The broker that wrote a log; None if no line names it.

    Args:
        stream: the uncompressed text, at its beginning; read to the first line that names a broker, in bounded memory.
        most_bytes: how much to read at most; None for all.

    Raises:
        OSError: the stream cannot be read. Nothing else is raised.
    """
    before, lines, read = b"", 1, 0
    while (most_bytes is None or read < most_bytes) and (chunk := stream.read(_BLOCK)):
        block = before + chunk
        if found := NAMED.search(block):
            return Owner(int(found[found.lastindex or 1]), lines + block.count(b"\n", 0, found.start()))
        before = block[-_LONGEST:]
        lines += block.count(b"\n") - before.count(b"\n")
        read += len(chunk)
    return None


def is_unusable(path: Path) -> bool:
    """Whether a file that is no broker's log has lines of one in it, in a shape that is not read.

    Raises:
        OSError: the file cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return False
    with open_text(path) as stream:
        return quotes_a_server_log(stream.read(_SNIFFED))


def is_named_for_a_broker(path: Path) -> bool:
    """Whether the name of a log beside the brokers' folders, or of the folder that it lies in, names a broker."""
    folder = path.parent.name
    return any(one is not None for one in (log_dir.server_log_of(path.name), log_dir.is_broker_folder(folder), number_of(folder.encode())))


def written_by(path: Path) -> tuple[bool, int | None]:
    """Whether a file is a broker's log, and of which broker, as far as its beginning shows.

    Raises:
        OSError: the file cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return False, None
    with open_text(path) as stream:
        head = stream.read(_SNIFFED)
        if not looks_like_server_log(head):
            return False, None
        stream.seek(0)
        found = owner(stream, _LOOKED_INTO)
    return True, found.broker_id if found else _numbered(head)


def _prefixes(head: bytes) -> Iterator[bytes]:
    yield from map(prefix_of, head.splitlines())
    yield from HEADING.findall(head)


def _numbered(head: bytes) -> int | None:
    """The number of the first source that has one, of lines or of records."""
    sources = (one.source for one in records(BytesIO(head))) if is_json(head) else _prefixes(head)
    return next((number for source in sources if (number := number_of(source)) is not None), None)
