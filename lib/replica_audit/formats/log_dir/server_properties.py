"""Which broker a log directory belongs to by its `server.properties`, and whether that broker runs.

Source: KafkaConfig and KRaftConfigs (4.2.0): `log.dirs` before `log.dir`, which is /tmp/kafka-logs unless set; `node.id` before
`broker.id`; `metadata.log.dir` may name one more directory.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import MetadataError
from replica_audit.files.opened import open_descriptor

# Java properties as java.util.Properties.load reads them, but in UTF-8: the form of all of Kafka's configuration files.
# Values are trimmed, as ConfigDef.parseType does. No error names a value: it may be a password.

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


def properties(content: bytes) -> dict[str, tuple[int, str]]:
    """Keys to (line, value); of a key that is given twice the last counts.

    Raises:
        MetadataError: not text, or a value is none once its escapes are read.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetadataError("not text: binary content", byte_offset=error.start) from None
    found: dict[str, tuple[int, str]] = {}
    parts: list[str] = []
    began = 0
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        stripped = line.lstrip(_BLANKS)
        if not began and (not stripped or stripped[0] in "#!"):
            continue
        began = began or number
        if (len(stripped) - len(stripped.rstrip("\\"))) % 2:  # the line goes on in the next
            parts.append(stripped[:-1])
            continue
        _put(found, began, "".join((*parts, stripped)))
        parts, began = [], 0
    if any(parts):
        _put(found, began, "".join(parts))
    return found


def _put(found: dict[str, tuple[int, str]], number: int, line: str) -> None:
    match = _KEY.match(line)
    if match:
        found[_unescaped(match[1], number)] = (number, _unescaped(line[match.end() :], number).strip())


def _unescaped(text: str, number: int) -> str:
    def meant(match: re.Match[str]) -> str:
        if match[1] == "u":  # IllegalArgumentException: no broker starts with it
            raise MetadataError("an escape \\u without four digits", line=number)
        return chr(int(match[1][1:], 16)) if len(match[1]) == 5 else _ESCAPES.get(match[1], match[1])

    plain = _ESCAPED.sub(meant, text)
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")  # Java escapes a character beyond U+FFFF as two
    except UnicodeDecodeError:
        raise MetadataError("an escape sequence for half of a character", line=number) from None


_DEFAULT_LOG_DIR = "/tmp/kafka-logs"  # noqa: S108 - Kafka's own default
_INTEGER = re.compile(r"[0-9]{1,10}")
_INT32 = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProperties:
    """`broker_id` is None where the broker gets its id by itself (ZooKeeper) or the file does not say. `log_dirs` in the file's order."""

    broker_id: int | None
    log_dirs: tuple[str, ...]


def server_properties(content: bytes) -> ServerProperties:
    """Read a `server.properties`.

    Raises:
        MetadataError: not text, an id that is none, or a directory that only the broker itself can tell: a relative path, a variable.
    """
    values = properties(content)
    line, broker = next((values[key] for key in ("node.id", "broker.id") if key in values), (0, "-1"))
    if broker != "-1" and not (_INTEGER.fullmatch(broker) and int(broker) < _INT32):
        raise MetadataError(f"{broker!r} is not the id of a broker", line=line)
    line, listed = next((values[key] for key in ("log.dirs", "log.dir") if key in values), (0, _DEFAULT_LOG_DIR))
    named = [(line, path.strip()) for path in listed.split(",") if path.strip()]
    line, metadata = values.get("metadata.log.dir", (0, ""))
    if metadata:
        named.append((line, metadata))
    for number, path in named:
        if "${" in path:
            raise MetadataError(f"{path!r} is filled in by the broker when it starts; name the directory", line=number)
        if not path.startswith("/"):
            raise MetadataError(f"{path!r} is relative to the folder in which the broker was started; name the directory", line=number)
    return ServerProperties(
        broker_id=None if broker == "-1" else int(broker),
        log_dirs=tuple(dict.fromkeys(path for _line, path in named)),
    )


# Whether a broker is at work in a log directory: it holds `.lock` in it locked (LogManager.lockLogDirs).

LOCK = ".lock"
_FLOCK = struct.Struct("hhqqi")  # struct flock of 64-bit Linux


def is_locked(path: Path) -> bool | None:
    """Whether a process holds a file locked; None if it cannot be told."""
    try:
        fd = open_descriptor(path)
    except OSError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = _FLOCK.unpack_from(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        return bool(kind != fcntl.F_UNLCK)
    except OSError:
        return None
    finally:
        os.close(fd)
