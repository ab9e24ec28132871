"""`manifest.json`: what is written is read again, and what is no manifest is refused with a reason."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from replica_audit.errors import MetadataError
from replica_audit.formats.collection.manifest import (
    CapturedLogDir,
    CapturedReplica,
    Manifest,
    Unread,
    content,
    file_digest,
    identity,
    parse,
)
from tests.collect.collections import resealed, without_digests

UNREAD = Unread(path="/data/a/x-0", kind="directory", reason="Permission denied")
REPLICA = CapturedReplica(
    directory="orders-0",
    capture=3,
    captured_at_ms=1_790_000_000_123,
    segments=2,
    batches=10,
    size_bytes=4096,
    files=("leader-epoch-checkpoint",),
    is_copied=True,
    later={"high_watermark": 12},
    taken_over=1,
    verified_at_ms=1_789_000_000_123,
)
LOG_DIR = CapturedLogDir(
    path="/data/a",
    folder="a",
    directory_id="Iqjc6DlwvgL2qo6oBgVxbQ",
    in_use=True,
    segments_bytes=100,
    segments_crc32c=2**32 - 1,
    files=("meta.properties",),
    replicas=(REPLICA,),
    vanished=("gone-0",),
    unread=(UNREAD,),
    small_files_bytes=70,
    small_files_crc32c=7,
    file_digests={"meta.properties": file_digest(b"version=1")},
)
MANIFEST = Manifest(
    broker_id=1,
    cluster_id=None,
    host="broker-1.example",
    started_at_ms=1_790_000_000_000,
    finished_at_ms=1_790_000_001_999,
    log_dirs=(LOG_DIR,),
    unread=(UNREAD,),
    counts={"replicas": 1},
    options={"verify_crc": True, "rate_limit": None},
    versions={"python": "3.11"},
    read_because={"new": 1},
    reading_code="00ff",
)


def test_what_is_written_is_read() -> None:
    assert parse(content(MANIFEST)) == MANIFEST


def test_people_read_it() -> None:
    document = json.loads(content(MANIFEST))
    assert document["started_at"] == "2026-09-21T14:13:20.000Z"
    assert document["log_dirs"][0]["replicas"][0]["captured_at"] == "2026-09-21T14:13:20.123Z"
    assert list(document)[-2:] == ["log_dirs", "digest"], "the long part comes last"


def test_an_earlier_release_had_small_files_in_folders() -> None:
    document = json.loads(changed("version", to=1))
    for name in ("small_files_bytes", "small_files_crc32c"):
        del document["log_dirs"][0][name]
    (found,) = parse(json.dumps(without_digests(document)).encode()).log_dirs
    assert found == replace(LOG_DIR, small_files_bytes=None, small_files_crc32c=None, file_digests=None)


def changed(*path: str | int, to: Any) -> bytes:
    document = json.loads(content(MANIFEST))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return resealed(document)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "not a manifest"),
        (b"{}", "not a manifest"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (changed("format", to="photos"), "not a manifest"),
        (changed("version", to=3), "a later one may have made it"),
        (changed("broker_id", to=-1), "broker_id"),
        (changed("broker_id", to=True), "broker_id"),
        (changed("broker_id", to=2**31), "broker_id"),
        (changed("host", to=None), "host"),
        (changed("host", to="\ud800"), "host"),
        (changed("started_at", to="yesterday"), "started_at"),
        (changed("log_dirs", to={}), "log_dirs"),
        (changed("log_dirs", to=[1]), "log_dirs"),
        (changed("counts", to=[1]), "counts"),
        (changed("read_because", to=[1]), "read_because"),
        (changed("reading_code", to=1), "reading_code"),
        (changed("log_dirs", 0, "replicas", 0, "taken_over", to=-1), "taken_over"),
        (changed("log_dirs", 0, "replicas", 0, "verified_at", to="never"), "verified_at"),
        (changed("log_dirs", 0, "folder", to="../../etc"), "folder"),
        (changed("log_dirs", 0, "folder", to=".."), "folder"),
        (changed("log_dirs", 0, "files", to=["a/b"]), "files"),
        (changed("log_dirs", 0, "segments_crc32c", to=2**32), "segments_crc32c"),
        (changed("log_dirs", 0, "small_files_bytes", to=None), "small_files_bytes"),
        (changed("log_dirs", 0, "small_files_crc32c", to=-1), "small_files_crc32c"),
        (changed("log_dirs", 0, "replicas", 0, "directory", to="orders"), "directory of a replica"),
        (changed("log_dirs", 0, "replicas", 0, "directory", to="/orders-0"), "directory"),
        (changed("log_dirs", 0, "replicas", 0, "later", to={"high_watermark": "x"}), "high_watermark"),
        (changed("log_dirs", 0, "replicas", 0, "captured_at", to="9999999-01-01"), "captured_at"),
    ],
)
def test_what_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(MetadataError, match=says):
        parse(text)


def test_no_byte_of_it_can_change_unnoticed() -> None:
    written = content(MANIFEST)
    for at in range(len(written)):
        changed_byte = written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :]
        with pytest.raises(MetadataError):
            parse(changed_byte)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(content(MANIFEST).replace(b'"high_watermark": 12', b'"high_watermark": 1'), id="a digit is gone"),
        pytest.param(json.dumps(json.loads(content(MANIFEST))).encode(), id="formatted again"),
        pytest.param(re.sub(rb',\n "digest": "[^"]*"', b"", content(MANIFEST)), id="the digest is gone"),
        pytest.param(re.sub(rb"[0-9a-f]{32}\"\n}", b'"\n}', content(MANIFEST)), id="the digest is empty"),
    ],
)
def test_one_that_was_changed_says_so(text: bytes) -> None:
    with pytest.raises(MetadataError, match="not what collect wrote: it was changed since"):
        parse(text)


def test_an_earlier_release_wrote_no_digests() -> None:
    found = parse(json.dumps(without_digests(json.loads(content(MANIFEST))), indent=1).encode())
    assert found == replace(MANIFEST, log_dirs=(replace(LOG_DIR, file_digests=None),))
    assert (found.is_sealed, MANIFEST.is_sealed) == (False, True)


def test_its_beginning_names_the_broker() -> None:
    assert identity(content(MANIFEST)[:200]) == (1, None)
    assert identity(content(replace(MANIFEST, cluster_id="c"))[:200]) == (1, "c")
    for text in (b"", b"[1]", b'{"broker_id": "x",\n "host"', content(MANIFEST)[:40]):
        assert identity(text) is None
