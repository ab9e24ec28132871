"""One huge partition of a compacted topic, every key once: comparing its records takes no more memory than comparing a quarter of them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import crc32c
import numpy as np
import pytest

from tests.formats import kafka_files as kf
from tests.formats import metadata_files as mf

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]
IN_BATCH, DIGITS = 1_000, 8
RECORD = b"\x00\x00%s" + b"\x10" + b"k" * DIGITS + b"\x10" + b"value---" + b"\x00"
SMALL, LARGE = 1_000_000, 4_000_000
MOST_MORE = 60  # MiB; the rows of what is compared more are 280, of both replicas

_MEASURE = """
import json, re, sys
from pathlib import Path
from replica_audit import cli
status = cli.main(["triage", "--input", sys.argv[1], "--compare", "records", "--json", sys.argv[2]])
# not getrusage: what it tells begins with the process that this one was forked from
resident = int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) >> 10
print(json.dumps({"status": status, "resident": resident}), file=sys.stderr)
"""


def write(path: Path, records: int, *, without: int | None = None) -> None:
    """A segment of batches of IN_BATCH records, whose keys are their offsets in digits; one batch may be left out, by its number."""
    block = b"".join(_record(delta) for delta in range(IN_BATCH))
    starts = np.array([block.index(b"k" * DIGITS, at) for at in _begins()])
    places = starts[:, None] + np.arange(DIGITS)
    powers = 10 ** np.arange(DIGITS - 1, -1, -1)
    made = np.frombuffer(block, np.uint8).copy()
    with path.open("wb") as stream:
        for number in range(records // IN_BATCH):
            first = number * IN_BATCH
            made[places] = np.arange(first, first + IN_BATCH)[:, None] // powers % 10 + ord("0")
            covered = struct.pack(">hiqqqhii", 0, IN_BATCH - 1, 0, 0, -1, -1, -1, IN_BATCH) + made.tobytes()
            if number != without:
                stream.write(struct.pack(">qiibI", first, 49 + len(made), 0, 2, crc32c.crc32c(covered)) + covered)


def _record(delta: int) -> bytes:
    body = RECORD % mf.varint(delta << 1)
    return mf.varint(len(body) << 1) + body


def _begins() -> list[int]:
    ends = np.cumsum([len(_record(delta)) for delta in range(IN_BATCH)])
    return [0, *ends[:-1].tolist()]


def cluster(root: Path, records: int) -> Path:
    """Two brokers with one partition, which their cleaners have been through; the second lacks the batch in the middle."""
    for broker in (1, 2):
        data = root / f"broker-{broker}" / "data"
        replica = kf.log_dir(data, "state-0", broker_id=broker) / "state-0"
        write(replica / f"{0:020d}.log", records, without=records // IN_BATCH // 2 if broker == 2 else None)
        (replica / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
        (data / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("state", 0, records - IN_BATCH)]))
    return root


def measured(root: Path) -> tuple[int, list[dict[str, object]]]:
    """MiB resident at most, and the findings."""
    told = root.with_suffix(".json")
    command = [sys.executable, "-c", _MEASURE, str(root), str(told)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "lib")})
    process = json.loads(done.stderr.splitlines()[-1])
    assert process["status"] == 1
    return process["resident"], json.loads(told.read_text())["findings"]


def test_memory_does_not_grow_with_the_partition(tmp_path: Path) -> None:
    found = {}
    for records in (SMALL, LARGE):
        root = cluster(tmp_path / str(records), records)
        found[records], findings = measured(root)
        assert [one["verdict"] for one in findings] == ["compaction_differs"]
    assert found[LARGE] < found[SMALL] + MOST_MORE, found
