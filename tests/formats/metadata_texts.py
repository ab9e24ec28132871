"""The metadata log as its segments and as kafka-dump-log shows these with --cluster-metadata-decoder, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replica_audit.formats.replicas.replica_reader import read_segment
from replica_audit.model import BatchHeader, SegmentFile
from tests.formats import metadata_files as mf

Record = tuple[str, dict[str, Any]]


def shown(kind: str, values: dict[str, Any]) -> str:
    """As Kafka's converters print it."""
    return json.dumps({"type": kind, "version": 0, "data": values}, separators=(",", ":"))


def written(directory: Path, log: Sequence[Sequence[Record]], *, with_offsets: bool = True, decoded: bool = True) -> tuple[Path, str]:
    """The segment of a log, and the text of it."""
    directory.mkdir(parents=True)
    batches, base = [mf.control(0, 1, mf.LEADER_CHANGE)], 1
    for at, records in enumerate(log):
        batches.append(mf.batch(base, 1 + at // 4, *(mf.record(kind, **values) for kind, values in records), timestamp=mf.TIME + at))
        base += len(records)
    segment = directory / "00000000000000000000.log"
    segment.write_bytes(b"".join(batches))
    lines = [f"Dumping {segment}", "Log starting offset: 0"]
    headers = [item for item in read_segment(_file(segment)) if isinstance(item, BatchHeader)]
    for header, records in zip(headers, [[("", {})], *log], strict=True):
        lines.append(_batch_line(header))
        for place, (kind, values) in enumerate(records if decoded else ()):
            said = "" if header.is_control else f" payload: {shown(kind, values)}"
            found = f"| offset: {header.base_offset + place} CreateTime: {header.max_timestamp_ms} keySize: -1 valueSize: 9 sequence: -1"
            lines.append((f"{found} headerKeys: []" if with_offsets else "") + said)
    return segment, "\n".join(lines) + "\n"


def _file(segment: Path) -> SegmentFile:
    return SegmentFile(path=str(segment), source="raw", base_offset=0, size_bytes=segment.stat().st_size)


def _batch_line(header: BatchHeader) -> str:
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.last_offset - header.base_offset + 1} "
        f"baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: false isControl: {str(header.is_control).lower()} deleteHorizonMs: OptionalLong.empty "
        f"position: {header.position} CreateTime: {header.max_timestamp_ms} "
        f"size: {header.size_bytes} magic: 2 compresscodec: none crc: {header.crc} isvalid: true"
    )
