"""The few settings of a broker's `server.properties` that say which broker it is and where its log directories are.

Source: KafkaConfig and KRaftConfigs (4.2.0): `log.dirs` before `log.dir`, which is /tmp/kafka-logs unless set; `node.id` before
`broker.id`; `metadata.log.dir` may name one more directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from replica_audit.errors import MetadataError
from replica_audit.formats.log_dir.java_properties import properties

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
