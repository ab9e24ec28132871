"""Two requests of Kafka's protocol, by hand.

The high watermarks of a leader, in one round trip and as they are in its memory: ListOffsets gives none while it lies below the leader's
epoch (KIP-207). And a batch that is written as it is, which no client would send. Source: Fetch version 4 and Produce version 3 (the oldest
that 4.x answers).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from itertools import groupby

_FETCH, _FETCH_VERSION, _ANY_REPLICA = 1, 4, -1
_PRODUCE, _PRODUCE_VERSION, _ALL, _WITHIN_MS = 0, 3, -1, 10_000


class _Answer:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f">{form}", self.content, self.at)
        self.at += struct.calcsize(f">{form}")
        return found

    def skip(self, count: int) -> bytes:
        self.at += max(0, count)
        return self.content[self.at - max(0, count) : self.at]


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _asked(port: int, api: int, version: int, body: bytes) -> _Answer:
    request = struct.pack(">hhi", api, version, 7) + _text("laboratory") + body
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stream, stream.makefile("rb") as answers:
        stream.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", answers.read(4))
        return _Answer(answers.read(size))


def written(port: int, topic: str, partition: int, transactional_id: str, batch: bytes) -> int:
    """Have the leader at a port on loopback append a batch of a transaction. Returns its base offset.

    Raises:
        OSError: there is no answer, or the leader refuses it.
    """
    body = _text(transactional_id) + struct.pack(">hii", _ALL, _WITHIN_MS, 1) + _text(topic)
    answer = _asked(port, _PRODUCE, _PRODUCE_VERSION, body + struct.pack(">iii", 1, partition, len(batch)) + batch)
    answer.take("ii")  # correlation, topics
    answer.skip(answer.take("h")[0])
    _partitions, _partition, error, base = answer.take("iihq")
    if error:
        raise OSError(f"{topic}-{partition}: error {error}")
    return base


def high_watermarks(port: int, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """What the broker at a port on loopback gives as the high watermark of partitions that it leads.

    Raises:
        OSError: there is no answer, or one of the partitions has none.
    """
    asked = [(topic, [partition for _, partition in found]) for topic, found in groupby(sorted(places), key=lambda place: place[0])]
    body = struct.pack(">iiiibi", _ANY_REPLICA, 0, 0, 1 << 20, 0, len(asked))
    for topic, partitions in asked:
        body += _text(topic) + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">iqi", partition, 0, 1) for partition in partitions)
    answer, found = _asked(port, _FETCH, _FETCH_VERSION, body), {}
    _correlation, _throttle, topics = answer.take("iii")
    for _ in range(topics):
        topic = answer.skip(answer.take("h")[0]).decode()
        for _ in range(answer.take("i")[0]):
            partition, error, high_watermark, _last_stable, aborted = answer.take("ihqqi")
            answer.skip(16 * aborted)
            answer.skip(answer.take("i")[0])
            if error:
                raise OSError(f"{topic}-{partition}: error {error}")
            found[topic, partition] = high_watermark
    return found
