"""Brokers' own logs beside their directories: what they say they truncated is what the rule says, and nothing is cried about."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.protocol.exchange import Protocol
from tests.support import in_process

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
SHARED = ROOT.parent / "shared" / "clusters"
AFTER_COPY = Settings(server_logs_after_copy=True)
Row = dict[str, Any]


def _with_logs(root: Path, snapshot: Path, logs: Path) -> Path:
    """A root of links to the brokers' folders, with the logs in a folder beside them."""
    root.mkdir()
    for entry in snapshot.iterdir():
        (root / entry.name).symlink_to(entry)
    (root / "broker-logs").symlink_to(logs)
    return root


@pytest.mark.clusters
@pytest.mark.parametrize(
    "root", [path for path in sorted(SAMPLE.iterdir()) if list(path.glob("broker-*/server.log"))], ids=lambda p: p.name
)
def test_the_sample_did_as_the_rule_says(root: Path) -> None:
    tables = in_process.audit(root, settings=AFTER_COPY)
    cut = [row for row in tables["replica_verdicts"] if row["truncation_offset"] is not None]
    assert [row["observed_truncation_offset"] for row in cut] == [row["truncation_offset"] for row in cut]
    assert not [row["reason"] for row in tables["replica_verdicts"] if row["verdict"] == "truncated_otherwise"]


@pytest.mark.clusters
@pytest.mark.parametrize("logs", sorted(SHARED.glob("*/broker-logs")), ids=lambda p: p.parent.name)
def test_real_brokers_did_as_the_rule_says(logs: Path, tmp_path: Path) -> None:
    before = in_process.audit(_with_logs(tmp_path / "before", logs.parent / "before", logs), settings=AFTER_COPY)
    cut = [row for row in before["replica_verdicts"] if row["truncation_offset"] is not None]
    assert [row["observed_truncation_offset"] for row in cut] == [row["truncation_offset"] for row in cut]
    after = in_process.audit(_with_logs(tmp_path / "after", logs.parent / "after", logs))
    assert not [
        row["reason"] for row in (*before["replica_verdicts"], *after["replica_verdicts"]) if row["verdict"] == "truncated_otherwise"
    ]


@pytest.mark.clusters
def test_without_metadata_the_logs_tell_the_version_and_so_the_rule(tmp_path: Path) -> None:
    root = tmp_path / "cluster"
    shutil.copytree(SAMPLE / "kafka-1.1.1-kip279-scenario-1-all", root)
    (root / "cluster-metadata.json").unlink()
    tables, facts = in_process.audit_cluster(root)
    assert facts.generation == (Protocol.KIP_101, "broker version 1.1.1 (server.log)")
    assert {row["protocol"] for row in tables["replica_verdicts"]} == {"kip-101"}
    for log in list(root.rglob("server.log")):
        log.unlink()
    assert in_process.audit_cluster(root)[1].generation.reason.startswith("no version known")


def _changed(tmp_path: Path, scenario: str, broker: int, old: str, new: str, *, packed: bool = False) -> dict[str, list[Row]]:
    root = tmp_path / scenario
    shutil.copytree(SAMPLE / scenario, root)
    log = root / f"broker-{broker}" / "server.log"
    text = log.read_text(encoding="utf-8")
    assert old in text
    log.unlink()
    changed = text.replace(old, new).encode()
    (log.with_name("server.log.2026-01-02.gz") if packed else log).write_bytes(gzip.compress(changed) if packed else changed)
    return in_process.audit(root, settings=AFTER_COPY)


def _verdict(tables: dict[str, list[Row]], topic: str, partition: int, follower: int) -> Row:
    (row,) = [
        row for row in tables["replica_verdicts"] if (row["topic"], row["partition"], row["follower_id"]) == (topic, partition, follower)
    ]
    return row


def test_a_broker_that_cut_elsewhere_is_reported_with_its_line(tmp_path: Path) -> None:
    first = "Truncating partition vault-1 with TruncationState(offset="
    log = (SAMPLE / "elr-election" / "broker-1" / "server.log").read_text(encoding="utf-8")
    offset = int(log.split(first)[1].split(",")[0])
    tables = _changed(tmp_path, "elr-election", 1, f"{first}{offset},", f"{first}{offset - 1},", packed=True)
    row = _verdict(tables, "vault", 1, 1)
    assert (row["verdict"], row["severity"]) == ("truncated_otherwise", "error")
    assert f"truncated to {offset - 1}" in row["reason"]
    assert "server.log.2026-01-02.gz" in row["reason"]
    assert _verdict(tables, "vault", 0, 1)["verdict"] == "stale_tail"


def test_a_loss_is_reported_before_a_cut_elsewhere_and_names_it(tmp_path: Path) -> None:
    first = "Truncating partition ledger-1 with TruncationState(offset="
    log = (SAMPLE / "multi-round" / "broker-2" / "server.log").read_text(encoding="utf-8")
    offset = int(log.split(first)[1].split(",")[0])
    row = _verdict(_changed(tmp_path, "multi-round", 2, f"{first}{offset},", f"{first}{offset - 1},"), "ledger", 1, 2)
    assert row["verdict"] == "committed_loss"
    assert f"truncated to {offset - 1}" in row["reason"]


def test_a_log_in_the_folder_of_another_broker_is_reported_and_not_used(tmp_path: Path) -> None:
    root = tmp_path / "multi-round"
    shutil.copytree(SAMPLE / "multi-round", root)
    shutil.move(root / "broker-2" / "server.log", root / "broker-1" / "server.log")
    tables = in_process.audit(root)
    assert [problem["code"] for problem in tables["problems"]] == ["server-log-of-another-broker"]
    assert {row["observed_truncation_offset"] for row in tables["replica_verdicts"]} == {None}


def test_a_packed_log_that_ends_early_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "multi-round"
    shutil.copytree(SAMPLE / "multi-round", root)
    log = root / "broker-2" / "server.log"
    packed = gzip.compress(log.read_bytes())
    log.unlink()
    (root / "broker-2" / "server.log.gz").write_bytes(packed[: len(packed) // 2])
    tables = in_process.audit(root)
    assert [(problem["kind"], problem["code"]) for problem in tables["problems"]] == [("server.log", "cannot-read")]
