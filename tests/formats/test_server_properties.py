"""`server.properties`: which broker, and which directories, as java.util.Properties and KafkaConfig have it."""

from __future__ import annotations

import time

import pytest

from replica_audit.errors import MetadataError
from replica_audit.formats.log_dir.server_properties import ServerProperties, server_properties


def read(text: str) -> ServerProperties:
    return server_properties(text.encode())


@pytest.mark.parametrize(
    ("text", "log_dirs"),
    [
        ("log.dirs=/a", ["/a"]),
        ("log.dirs = /a , /b,/c\n", ["/a", "/b", "/c"]),
        ("log.dirs:/a", ["/a"]),
        ("log.dirs /a", ["/a"]),
        ("\tlog.dirs\t=\t/a", ["/a"]),
        ("log.dir=/one", ["/one"]),
        ("log.dir=/one\nlog.dirs=/a,/b", ["/a", "/b"]),
        ("log.dirs=/a\nlog.dirs=/b", ["/b"]),
        ("log.dirs=/a,\\\n     /b", ["/a", "/b"]),
        ("log.dirs=/a,\\\r\n     /b\r\nnode.id=1\r\n", ["/a", "/b"]),
        ("log.dirs=/a\\\\", ["/a\\"]),
        ("log.dirs=/with\\ blank,/\\u00e4", ["/with blank", "/ä"]),
        ("log.dirs=/a,,", ["/a"]),
        ("#log.dirs=/no\n!log.dirs=/no\nlog.dirs=/a", ["/a"]),
        ("#a comment that seems to go on \\\nlog.dirs=/a", ["/a"]),
        ("log.dirs=/a\nmetadata.log.dir=/m", ["/a", "/m"]),
        ("log.dirs=/a,/b\nmetadata.log.dir=/b", ["/a", "/b"]),
        ("log.dirs=/a,/a", ["/a"]),
        ("", ["/tmp/kafka-logs"]),  # noqa: S108
        ("log.dirs=/a=b:c", ["/a=b:c"]),
    ],
)
def test_directories(text: str, log_dirs: list[str]) -> None:
    assert read(text).log_dirs == tuple(log_dirs)


@pytest.mark.parametrize(
    ("text", "broker_id"),
    [("node.id=3", 3), ("broker.id=4", 4), ("broker.id=4\nnode.id=3", 3), ("", None), ("broker.id=-1", None), ("node.id = 0 ", 0)],
)
def test_the_broker(text: str, broker_id: int | None) -> None:
    assert read(text).broker_id == broker_id


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("\nnode.id=two", 2, "not the id of a broker"),
        ("broker.id=99999999999", 1, "not the id of a broker"),
        ("a=b\nlog.dirs=data/kafka", 2, "relative"),
        ("log.dirs=/a,${env:DATA}", 1, "filled in by the broker"),
        ("metadata.log.dir=m", 1, "relative"),
        ("a=1\nlog.dirs=/a\\u00", 2, "four digits"),
    ],
)
def test_what_cannot_be_used(text: str, line: int, says: str) -> None:
    with pytest.raises(MetadataError, match=says) as raised:
        read(text)
    assert raised.value.line == line


def test_escapes_of_characters() -> None:
    assert read("log.dirs=/\\u0061\\\\u00").log_dirs == ("/a\\u00",)


def test_a_value_of_a_great_many_lines_is_read_at_once() -> None:
    began = time.process_time()
    assert read("log.dirs=" + "/a,\\\n" * 150_000 + "/b").log_dirs == ("/a", "/b")
    assert time.process_time() - began < 5


def test_binary_content() -> None:
    with pytest.raises(MetadataError) as raised:
        server_properties(b"log.dirs=/a\xff")
    assert raised.value.byte_offset == 11
