"""What a broker's server.log tells of versions: the release of its jars, and the inter-broker protocol that it was configured with.

Sources: AppInfoParser (`Kafka version: 2.4.1`, until 1.1 with a blank before the colon), AbstractConfig.logAll (a line for each setting).
"""

from __future__ import annotations

import re
from typing import BinaryIO

from replica_audit.model import LoggedVersions

_BLOCK = 1 << 18
_LONGEST = 200  # bytes of a match, and more
_RELEASE = re.compile(rb"Kafka version ?: (\d{1,3}\.\d[\w.+-]{0,80})")  # a vendor's with its suffix
_PROTOCOL = re.compile(rb"inter\.broker\.protocol\.version = (\d{1,3}(?:\.\d{1,3}){1,3}(?:-IV\d{1,2})?)(?![\w.-])")


def logged_versions(stream: BinaryIO, *, newest_first: bool = False) -> LoggedVersions:
    """The versions that a server.log tells last: the broker may have been upgraded while it was written.

    Args:
        stream: the uncompressed text, at its beginning; read once and in bounded memory.
        newest_first: the file has its newest line first: then the first ones count.

    Raises:
        OSError: the stream cannot be read. Nothing else is raised.
    """
    found: list[str | None] = [None, None]
    before = b""
    while chunk := stream.read(_BLOCK):
        block = before + chunk
        for place, (words, pattern) in enumerate(((b"Kafka version", _RELEASE), (b"inter.broker.protocol.version", _PROTOCOL))):
            if not newest_first or found[place] is None:
                found[place] = _told(block, words, pattern, newest_first=newest_first) or found[place]
        before = block[-_LONGEST:]
    return LoggedVersions(*found)


def _told(block: bytes, words: bytes, pattern: re.Pattern[bytes], *, newest_first: bool) -> str | None:
    at = block.find(words) if newest_first else block.rfind(words)
    while at >= 0:
        if match := pattern.match(block, at):
            return match[1].decode()
        at = block.find(words, at + 1) if newest_first else block.rfind(words, 0, at)
    return None
