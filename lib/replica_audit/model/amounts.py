"""How much there is to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesToRead:
    """How much there is of everything. `text_bytes` are as unpacked, `collected_bytes` those of the Parquet files that stand for segments.

    `compacted_bytes` are those of raw segments of compacted topics, `raw_bytes` those of all.
    """

    partitions: int
    replicas: int
    files: int
    raw_bytes: int
    compacted_bytes: int
    text_bytes: int
    collected_bytes: int
