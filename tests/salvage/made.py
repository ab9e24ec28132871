"""Clusters of two brokers whose logs differ, made of batches of all kinds, and salvages of them in this process."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from replica_audit.config import Settings
from replica_audit.formats.salvage.saved_file import ConsoleRecord
from replica_audit.local_run import triage
from replica_audit.past.run import PastRun
from replica_audit.report.salvage_report import SavedRecords
from replica_audit.salvage.engines import salvage_here
from replica_audit.salvage.run import SalvageRequest
from tests.formats import kafka_files as kf

Row = dict[str, Any]
LEADER, FOLLOWER = 1, 2


def replica(root: Path, broker: int, topic: str, epochs: Sequence[tuple[int, int]], *segments: Sequence[bytes]) -> Path:
    """A broker with one replica of partition 0: its epoch table, and the batches of each segment, which is named for the first one."""
    folder = root / f"broker-{broker}" / "data"
    path = kf.replica(folder, f"{topic}-0", epochs=epochs, batches=segments[0])
    for batches in segments[1:]:
        kf.segment(path, int.from_bytes(batches[0][:8], "big"), *batches)
    (folder / "meta.properties").write_bytes(kf.meta_properties(broker))
    (folder / ".kafka_cleanshutdown").touch()
    return path


def with_epoch(epoch: int, *batches: bytes) -> list[bytes]:
    """Batches of magic 2 with a leader epoch; older ones as they are."""
    return [kf.with_field(one, ">i", 12, epoch) if one[16] == 2 else one for one in batches]


def audited(*inputs: Path) -> PastRun:
    """The run of a triage."""
    made = triage([str(one) for one in inputs], Settings(), tell=lambda _line: None)
    return PastRun(made.tables, made.run_id)


def saved(run: PastRun, output: Path, **wanted: Any) -> SavedRecords:
    """The salvage of a run in this process."""
    return salvage_here(run, SalvageRequest(output=output, **wanted), lambda _line: None)


def rows(output: Path) -> list[Row]:
    """The saved records, by broker and offset."""
    found = [row for path in sorted((output / "records").glob("*.parquet")) for row in pq.read_table(str(path)).to_pylist()]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["broker_id"], row["offset"]))


def lines(output: Path, name: str) -> list[str]:
    """The lines of a replay file; none if there is none."""
    path = output / "replay" / name
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def record_of_json(line: str) -> ConsoleRecord:
    """What a line of a file in base64 holds."""
    found = json.loads(line)
    headers = tuple((name.encode(), _decoded(value)) for name, value in found["headers"])
    return ConsoleRecord(_decoded(found["key"]), _decoded(found["value"]), headers)


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
