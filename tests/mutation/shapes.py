"""The same logs in the shapes in which people have them: segments, text of kafka-dump-log, a collection."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import crc32c

from tests.collect.collections import collect_cluster

RAW, TEXT, COLLECTED = "raw", "text", "collected"
_SEGMENT = re.compile(r"\d{20}\.log")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")


def as_text(path: str, content: bytes) -> str:
    """What DumpLogSegments of 4.2 prints of a segment: a line for each batch, and how much behind the last one is none.

    Source: DumpLogSegments.dumpLog and printBatchLevel.
    """
    lines = [f"Dumping {path}", f"Log starting offset: {int(path[-24:-4])}"]
    at = 0
    while at + 61 <= len(content):
        base, length, epoch, magic, crc, attributes, delta = struct.unpack_from(">qiibIhi", content, at)
        end = at + 12 + length
        if length < 49 or end > len(content) or magic != 2:
            break
        latest, producer, producer_epoch, sequence, count = struct.unpack_from(">qqhii", content, at + 35)
        last_sequence = sequence if sequence < 0 else sequence + delta
        flags = f"isTransactional: {_java(attributes & 16)} isControl: {_java(attributes & 32)} deleteHorizonMs: OptionalLong.empty"
        lines.append(
            f"baseOffset: {base} lastOffset: {base + delta} count: {count} baseSequence: {sequence} lastSequence: {last_sequence} "
            f"producerId: {producer} producerEpoch: {producer_epoch} partitionLeaderEpoch: {epoch} {flags} position: {at} "
            f"{'LogAppendTime' if attributes & 8 else 'CreateTime'}: {latest} size: {end - at} magic: 2 "
            f"compresscodec: {_CODECS[attributes & 7]} crc: {crc} isvalid: {_java(crc32c.crc32c(content[at + 21 : end]) == crc)}"
        )
        at = end
    if at < len(content):
        lines.append(f"Found {len(content) - at} invalid bytes at the end of {path.rpartition('/')[2]}")
    return "".join(f"{line}\n" for line in lines)


def _java(value: object) -> str:
    return "true" if value else "false"


def text_of(root: Path, to: Path) -> Path:
    """Copy a tree, every segment of format v2 as text; the metadata log and what has other formats stay segments."""
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        target = to / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if _SEGMENT.fullmatch(path.name) and "__cluster_metadata" not in path.parent.name:
            target.with_suffix(".txt").write_text(as_text(f"/data/{path.parent.name}/{path.name}", path.read_bytes()))
        else:
            shutil.copy(path, target)
    return to


def in_shape(shape: str, root: Path, to: Path) -> Path:
    """The tree in a shape; `to` is made anew."""
    if shape == RAW:
        return root
    shutil.rmtree(to, ignore_errors=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    return text_of(root, to) if shape == TEXT else collect_cluster(root, to)
