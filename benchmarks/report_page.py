"""Times `report` on the warehouse of a large run: benchmarks/report_page.py --help.

The tables are made here, with the shapes of an audit's: of every partition three replicas with three epochs each, of some a follower that
has to truncate. Nothing of an audit is needed to make them, so Spark is not.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from replica_audit.rows import TABLES, Table
from replica_audit.rows.arrow import schema_of

ROOT = Path(__file__).resolve().parents[1]
RUN, CLUSTER = "20260102T030405Z-000000", "large"
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BROKERS, REPLICAS, CUT, END = 9, 3, 800, 840
_FILE_ROWS = 250_000
Columns = dict[str, Any]


class LargeRun:
    """The rows of a run of so many partitions, of which the first so many have a finding each; tables as columns."""

    def __init__(self, partitions: int, findings: int) -> None:
        self.partitions, self.findings = partitions, findings
        number = np.arange(partitions)
        self.topic, self.partition, self.leader = _names(number // 50), number % 50, number % BROKERS + 1
        self.is_bad = number < findings
        # logs begin anywhere: columns of equal values would cost nothing to read
        self.base = np.random.default_rng(partitions).integers(0, 10**9, partitions)

    def rows(self, table: str) -> Columns | None:
        """The columns of a table but for the run's keys; None of one that stays empty."""
        made: Callable[[], Columns] | None = getattr(self, f"_of_{table}", None)
        return made() if made else None

    def _each(self, times: int) -> Columns:
        """The keys of every partition, so many times each."""
        return {"topic": np.repeat(self.topic, times), "partition": np.repeat(self.partition, times)}

    def _at(self, times: int, offset: Any) -> Any:
        """An offset above each partition's first one."""
        return np.repeat(self.base, times) + offset

    def _brokers(self, first: int) -> Any:
        """The replicas of every partition from the first to the last: 0 is the leader."""
        return (np.repeat(self.leader, REPLICAS - first) - 1 + np.tile(np.arange(first, REPLICAS), self.partitions)) % BROKERS + 1

    def _cut(self) -> Any:
        """Of each pair, whether the follower is cut: one of each partition with a finding."""
        return np.repeat(self.is_bad, 2) & (np.arange(2 * self.partitions) % 2 == 0)

    def _of_replica_logs(self) -> Columns:
        size = REPLICAS * self.partitions
        broker = self._brokers(0)
        names = np.char.add(np.char.add(np.repeat(self.topic, REPLICAS).astype(str), "-"), np.repeat(self.partition, REPLICAS).astype(str))
        return self._each(REPLICAS) | {
            "broker_id": broker,
            "log_dir": np.char.add(np.char.add("/brokers/broker-", broker.astype(str)), "/data-0"),
            "directory": names,
            "state": _same("current", size),
            "log_start_offset": self._at(REPLICAS, 0),
            "log_end_offset": self._at(REPLICAS, END),
            "high_watermark": self._at(REPLICAS, CUT),
            "batch_count": np.full(size, 100),
            "record_count": np.full(size, END),
            "size_bytes": np.full(size, 100_000),
            "checkpoint_state": _same("ok", size),
        }

    def _of_segment_epochs(self) -> Columns:
        broker = np.repeat(self._brokers(0), 3)
        size = len(broker)
        first = self._at(9, np.tile([0, 400, CUT], size // 3))
        # of a follower that is cut the last run has another epoch than the leader's
        is_cut = np.zeros(size, bool)
        is_cut[5::9] = self.is_bad
        return self._each(3 * REPLICAS) | {
            "broker_id": broker,
            "log_dir": np.char.add(np.char.add("/brokers/broker-", broker.astype(str)), "/data-0"),
            "segment_base_offset": self._at(9, 0),
            "leader_epoch": np.where(is_cut, 3, np.tile([0, 1, 4], size // 3)),
            "first_offset": first,
            "last_offset": self._at(9, np.tile([399, CUT - 1, END - 1], size // 3)),
            "batch_count": np.full(size, 30),
            "record_count": np.full(size, 300),
            "size_bytes": np.full(size, 30_000),
            "min_timestamp_ms": 1_700_000_000_000 + first,
            "max_timestamp_ms": 1_700_000_000_100 + first,
            "source": _same("raw", size),
        }

    def _of_epoch_start_offsets(self) -> Columns:
        runs = self._of_segment_epochs()
        size = len(runs["broker_id"])
        names = ("topic", "partition", "broker_id", "leader_epoch")
        return {name: runs[name] for name in names} | {
            "start_offset": runs["first_offset"],
            "end_offset": runs["last_offset"] + 1,
            "checkpoint_start_offset": runs["first_offset"],
            "segment_start_offset": runs["first_offset"],
            "source": _same("both", size),
            "agrees": np.ones(size, bool),
            "in_effect": np.ones(size, bool),
        }

    def _pairs(self, times: int = 1) -> Columns:
        pair = {
            "leader_id": np.repeat(self.leader, 2),
            "follower_id": self._brokers(1),
            "leader_source": _same("metadata-log", 2 * self.partitions),
        }
        return self._each(2 * times) | {name: np.repeat(values, times) for name, values in pair.items()}

    def _of_replica_verdicts(self) -> Columns:
        is_cut, number = self._cut(), np.arange(2 * self.partitions)
        is_lost = is_cut & (number % 10 == 0)
        base = np.repeat(self.base, 2).tolist()
        reason = [
            f"{n % 40 + 1} of the removed offsets were committed (below a persisted high watermark), and the leader does not hold them"
            if lost
            else f"truncates to {base[n] + CUT}: offsets {base[n] + CUT}..{base[n] + END - 1} are not known to have been committed"
            if cut
            else "the logs are the same"
            for n, (cut, lost) in enumerate(zip(is_cut.tolist(), is_lost.tolist(), strict=True))
        ]
        evidence = np.full(len(is_cut), "/brokers/broker-1/data-0/replication-offset-checkpoint: 840; follower has epoch 3 at 800", object)
        evidence[~is_cut] = None
        return self._pairs() | {
            "verdict": np.select([is_lost, is_cut], ["committed_loss", "stale_tail"], "identical"),
            "severity": np.select([is_lost, is_cut], ["critical", "error"], "none"),
            "common_prefix_end_offset": self._at(2, np.where(is_cut, CUT, END)),
            "divergence_offset": _where(is_cut, self._at(2, CUT)),
            "truncation_offset": _where(is_cut, self._at(2, CUT)),
            "protocol": _same("truncate-on-fetch", len(is_cut)),
            "removed_offsets": np.where(is_cut, END - CUT, 0),
            "removed_records": np.where(is_cut, END - CUT, 0),
            "removed_bytes": np.where(is_cut, 4000, 0),
            "removed_below_high_watermark": np.where(is_lost, number % 40 + 1, 0),
            "evidence": evidence,
            "reason": reason,
        }

    def _of_truncation_points(self) -> Columns:
        is_cut = np.repeat(self._cut(), 4)
        size = len(is_cut)
        one = {"requested_epoch": 4, "answered_epoch": None, "answered_end_offset": None, "truncate_to": None, "complete": True}
        diverging = {"requested_epoch": 3, "answered_epoch": 1, "complete": True}
        cuts = self._at(8, CUT).tolist()
        rounds = [
            [diverging | {"answered_end_offset": at, "truncate_to": at}, one] if cut else [one]
            for cut, at in zip(is_cut.tolist(), cuts, strict=True)
        ]
        columns = self._pairs(4) | {
            "protocol": np.tile(["high-watermark", "kip-101", "kip-279", "truncate-on-fetch"], size // 4),
            "applies": np.arange(size) % 4 == 3,
            "truncation_offset": _where(is_cut, self._at(8, CUT)),
            "fetcher_fails": np.zeros(size, bool),
            "round_trips": np.ones(size, np.int32),
            "rounds": rounds,
            "falls_back_to_high_watermark": np.arange(size) % 4 == 0,
            "removed_offsets": np.where(is_cut, END - CUT, 0),
            "still_diverged": np.zeros(size, bool),
        }
        return self._not_healthy(columns, 8)

    def _of_epoch_end_offsets(self) -> Columns:
        size = 6 * self.partitions
        ends = self._at(6, np.tile([400, CUT, END], size // 3))
        pairs = {name: values for name, values in self._pairs(3).items() if name != "leader_source"}
        epochs = np.tile([0, 1, 4], size // 3)
        columns = pairs | {"requested_epoch": epochs, "answered_epoch": epochs, "end_offset": ends, "kip101_end_offset": ends}
        return self._not_healthy(columns, 6)

    def _not_healthy(self, columns: Columns, times: int) -> Columns:
        """The rows, so many for each partition, without those of partitions that an audit proves healthy, which it does not store."""
        kept = pa.array(np.repeat(self.is_bad, times))
        return {name: pa.array(values).filter(kept) for name, values in columns.items()}

    def _of_replica_roles(self) -> Columns:
        size = REPLICAS * self.partitions
        leads = np.arange(size) % REPLICAS == 0
        return self._each(REPLICAS) | {
            "broker_id": self._brokers(0),
            "leader_id": np.repeat(self.leader, REPLICAS),
            "leader_epoch": np.full(size, 4),
            "standing": np.where(leads, "leader", "follower"),
            "in_isr": np.ones(size, bool),
            "in_elr": np.zeros(size, bool),
            "log_end_offset": self._at(REPLICAS, END),
            "high_watermark": self._at(REPLICAS, CUT),
        }

    def _of_leader_epochs(self) -> Columns:
        size = 4 * self.partitions
        return self._each(4) | {
            "leader_epoch": np.tile([0, 1, 2, 4], size // 4),
            "leader_id": np.repeat(self.leader, 4),
            "election": np.where(np.repeat(self.is_bad, 4) & (np.arange(size) % 4 == 3), "unclean", "clean"),
            "metadata_offset": np.arange(size),
            "metadata_epoch": np.ones(size, np.int32),
            "start_offset": self._at(4, np.tile([0, 400, 500, CUT], size // 4)),
        }

    def _of_consumer_impacts(self) -> Columns:
        size = 2 * self.partitions
        affected = np.repeat(self.is_bad, 2) & (np.arange(size) % 8 == 0)
        return (
            {"group_id": np.char.add("group-", (np.arange(size) % 300).astype(str))}
            | self._each(2)
            | {
                "committed_offset": self._at(2, END),
                "committed_leader_epoch": np.full(size, 3),
                "validation_result": np.where(affected, "truncated", "valid"),
                "reset_offset": self._at(2, np.where(affected, CUT, END)),
                "records_gone": np.where(affected, END - CUT, 0),
                "records_reread": np.zeros(size, np.int64),
                "records_missed": np.zeros(size, np.int64),
                "history_rewritten": np.zeros(size, bool),
                "affected": affected,
                "reason": np.where(affected, "truncated: the leader's epoch 1 ends at 800, below the committed offset", "nothing changes"),
                "evidence": _same("__consumer_offsets-0/00000000000000000000.log at 17", size),
            }
        )

    def _of_findings(self) -> Columns:
        verdicts, is_cut = self._of_replica_verdicts(), self._cut()
        code, topic, partition, broker = (verdicts[name][is_cut] for name in ("verdict", "topic", "partition", "follower_id"))
        key = [f"{c}:{t}-{p}:{b}" for c, t, p, b in zip(code, topic, partition, broker, strict=True)]
        return {
            "finding_key": key,
            "code": code,
            "severity": verdicts["severity"][is_cut],
            "topic": topic,
            "partition": partition,
            "broker_id": broker,
            "summary": np.array(verdicts["reason"])[is_cut],
            "first_seen_run_id": _same(RUN, len(key)),
            "last_seen_run_id": _same(RUN, len(key)),
            "status": np.where(np.arange(len(key)) % 3 == 0, "new", "persisting"),
        }

    def _of_input_errors(self) -> Columns:
        size = self.partitions // 20
        path = [f"/brokers/broker-{n % BROKERS + 1}/data-0/topic-{n}/00000000000000000000.log" for n in range(size)]
        return {
            "broker_id": np.arange(size) % BROKERS + 1,
            "path": path,
            "kind": _same("segment", size),
            "byte_offset": np.arange(size),
            "code": _same("torn-batch", size),
            "detail": _same("the last batch is cut short", size),
            "remedy": _same("none, if the broker was running", size),
        }

    def _of_audit_runs(self) -> Columns:
        return {
            "started_at": [STARTED],
            "finished_at": [STARTED + timedelta(minutes=9)],
            "status": ["complete"],
            "exit_code": [1],
            "run_date": [date(2026, 1, 2)],
            "inputs": [["/brokers"]],
            "config": ['{"fail_on": "error", "worst": 20}'],
            "protocol": ["truncate-on-fetch"],
            "protocol_reason": ["metadata.version level 29 (KRaft)"],
            "replicas": [REPLICAS * self.partitions],
            "partitions": [self.partitions],
            "proven_healthy": [2 * (self.partitions - self.findings)],
            "input_errors": [self.partitions // 20],
            "path": ["/brokers"],
            "brokers": [BROKERS],
        }


def _names(numbers: Any) -> Any:
    return np.char.add("topic-", numbers.astype(str))


def _same(value: str, size: int) -> Any:
    return np.full(size, value)


def _where(condition: Any, values: Any) -> Any:
    """The values where the condition holds, else null."""
    return pa.array(values, pa.int64(), mask=~condition)


def _typed(values: Any, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def write(warehouse: Path, table: Table, columns: Columns) -> int:
    """Write a table, a quarter of a million rows to a file; returns its rows."""
    size = len(next(iter(columns.values())))
    columns = {"run_id": _same(RUN, size), "cluster_id": _same(CLUSTER, size)} | columns
    arrays = [
        _typed(columns[field.name], field.type) if field.name in columns else pa.nulls(size, field.type) for field in schema_of(table)
    ]
    rows = pa.Table.from_arrays(arrays, schema=schema_of(table))
    for first in range(0, max(size, 1), _FILE_ROWS):
        write_deltalake(str(warehouse / table.name), rows.slice(first, _FILE_ROWS), mode="append")
    return size


def make(warehouse: Path, partitions: int, findings: int) -> int:
    """Make the tables; returns their rows."""
    run = LargeRun(partitions, findings)
    return sum(write(warehouse, table, columns) for table in TABLES if (columns := run.rows(table.name)) is not None)


def main() -> int:
    """Make a warehouse and time the page of its run."""
    parser = argparse.ArgumentParser(description="Time the page of a large run, as a process of its own.")
    parser.add_argument("--partitions", type=int, default=100_000, help="with three replicas each (default: %(default)s)")
    parser.add_argument(
        "--findings", type=int, default=10_000, help="partitions with a follower that has to truncate (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often (default: %(default)s)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="report-page-"))
    try:
        began = time.monotonic()
        rows = make(folder / "warehouse", given.partitions, given.findings)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{rows:,} rows, {size / 1e6:,.0f} MB, made in {time.monotonic() - began:.0f} s")  # noqa: T201 - the result is printed
        for kind in ("html", "text"):
            for number in range(1, given.rounds + 1):
                print(f"{kind} {number}: {timed(folder, kind)}")  # noqa: T201 - the result is printed
        print(f"page: {(folder / 'page.html').stat().st_size / 1e6:.2f} MB")  # noqa: T201 - the result is printed
    finally:
        shutil.rmtree(folder)
    return 0


def timed(folder: Path, kind: str) -> str:
    """Run the command once: time by the clock, time of the processors, and the largest memory of any so far."""
    command = [sys.executable, str(ROOT / "jobs" / "report.py"), "--warehouse", str(folder / "warehouse"), "--format", kind]
    command += ["--output", str(folder / f"page.{kind}")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)  # noqa: S603 - this project's own command
    passed, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{passed:.1f} s ({worked:.1f} s of the processors), {after.ru_maxrss / 1024:,.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
