"""Logs with thousands of epochs, which are legal: what an audit of them costs grows with their number, not with its square."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from replica_audit.formats.log_dir import names as log_dir
from tests.formats import kafka_files as kf
from tests.support.in_process import audit

MANY = 6000  # of a quadratic walk in Python they take a quarter of a minute, and sixteen times as many an hour


def write(root: Path, broker: int, epochs: list[int], value: bytes) -> None:
    """One replica with a batch of one record for every epoch."""
    data = root / f"broker-{broker}" / "data"
    one = kf.batch(0, 0, value=value)
    batches = []
    for offset, epoch in enumerate(epochs):
        made = bytearray(one)
        struct.pack_into(">q", made, 0, offset)
        struct.pack_into(">i", made, 12, epoch)
        batches.append(bytes(made))
    kf.segment(data / "orders-0", 0, *batches)
    (data / "orders-0" / log_dir.EPOCH_CHECKPOINT).write_bytes(kf.checkpoint([(epoch, offset) for offset, epoch in enumerate(epochs)]))
    (data / log_dir.META_PROPERTIES).write_text(f"version=1\nnode.id={broker}\ncluster.id={kf.CLUSTER_ID}\n", encoding="ascii")
    (data / log_dir.HIGH_WATERMARKS).write_bytes(f"0\n1\norders 0 {len(epochs) // 2}\n".encode())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["the same", "parting half way"])
def test_replicas_with_thousands_of_epochs(tmp_path: Path, kind: str):
    for broker in (1, 2):
        parts = broker if kind != "the same" else 0
        write(tmp_path, broker, [3 * n + (parts if n > MANY // 2 else 0) for n in range(MANY)], b"%d" % parts)
    began = time.process_time()
    found = audit(tmp_path)
    assert time.process_time() - began < 8
    (verdict,) = found["replica_verdicts"]
    assert verdict["verdict"] == ("identical" if kind == "the same" else "stale_tail")
    assert verdict["truncation_offset"] == (None if kind == "the same" else MANY // 2 + 1)
    assert len(found["epoch_start_offsets"]) == 2 * MANY
