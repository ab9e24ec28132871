"""Brokers' own logs beside their directories: what they say they truncated is what the rule says, and nothing is cried about."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.rows.codes import Protocol
from replica_audit.storage.inputs.sources import discover
from tests.support import in_process
from tests.support.shares import by_day

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
SHARED = ROOT.parent / "shared" / "clusters"
AFTER_COPY = Settings(server_logs_after_copy=True, follow_links=True)
BEFORE_COPY = Settings(follow_links=True)
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
@pytest.mark.parametrize("logs", by_day(sorted(SHARED.glob("*/broker-logs"))), ids=lambda p: p.parent.name)
def test_real_brokers_did_as_the_rule_says_and_their_lines_of_committed_records_are_true(logs: Path, tmp_path: Path) -> None:
    before = in_process.audit(_with_logs(tmp_path / "before", logs.parent / "before", logs), settings=AFTER_COPY)
    cut = [row for row in before["replica_verdicts"] if row["truncation_offset"] is not None]
    assert [row["observed_truncation_offset"] for row in cut] == [row["truncation_offset"] for row in cut]
    after = in_process.audit(_with_logs(tmp_path / "after", logs.parent / "after", logs), settings=BEFORE_COPY)
    assert not [
        row["reason"] for row in (*before["replica_verdicts"], *after["replica_verdicts"]) if row["verdict"] == "truncated_otherwise"
    ]
    verdicts = {(row["topic"], row["partition"], row["follower_id"]): row for row in before["replica_verdicts"]}
    for row in before["logged_incidents"]:
        verdict = verdicts[row["topic"], row["partition"], row["broker_id"]]
        assert (row["kind"], verdict["verdict"]) == ("removed_below_high_watermark", "committed_loss")
        assert (row["truncation_offset"], row["severity"]) == (verdict["truncation_offset"], "none"), (
            "the verdict is about the same truncation"
        )
        assert row["truncation_offset"] < row["end_offset"]
        assert verdict["removed_below_high_watermark"] > 0
    keys = ("topic", "partition", "broker_id", "kind", "truncation_offset", "end_offset", "line")
    seen = [[[row[key] for key in keys] for row in tables["logged_incidents"]] for tables in (before, after)]
    assert seen[0] == seen[1]
    assert {row["severity"] for row in after["logged_incidents"]} <= {"error"}


@pytest.mark.clusters
def test_a_loss_of_the_past_is_a_finding_though_the_logs_agree(tmp_path: Path) -> None:
    """Of Kafka 2.8 to 4.1 this line is the only one that shows it."""
    root = tmp_path / "clean-in-sync"
    shutil.copytree(SAMPLE / "clean-in-sync", root)
    line = (
        "2026-01-02 03:04:05 WARN  [ReplicaFetcherThread-0-1] UnifiedLog:66 - [UnifiedLog partition=epochs-0, dir=/d] Non-monotonic update "
        "of high watermark from (offset=30, segment=[0:1420]) to (offset=10, segment=[0:363])\n"
    )
    (root / "broker-2" / "kubectl-output.txt").write_text("Preparing truststore\n" * 1000 + line, encoding="utf-8")
    tables = in_process.audit(root)
    (row,) = tables["logged_incidents"]
    assert (row["broker_id"], row["truncation_offset"], row["end_offset"], row["logged_at"]) == (2, 10, 30, "2026-01-02 03:04:05,000")
    assert (row["kind"], row["severity"], row["line"]) == ("removed_below_high_watermark", "error", 1001)
    for part in ("kubectl-output.txt, line 1001", "broker 2 truncated to 10", "high watermark 30", "offsets 10..29 had been committed"):
        assert part in row["summary"]
    assert {one["verdict"] for one in tables["replica_verdicts"] if one["topic"] != "compacted"} <= {"identical", "lagging"}
    compacted = [one for one in tables["replica_verdicts"] if one["topic"] == "compacted"]
    assert {(one["verdict"], one["severity"], one["truncation_offset"]) for one in compacted} == {("consistent", "none", None)}, (
        "only its keys"
    )
    assert not tables["problems"]


@pytest.mark.clusters
def test_the_last_of_a_brokers_incidents_is_the_finding_and_an_election_alone_is_none(tmp_path: Path) -> None:
    root = tmp_path / "clean-in-sync"
    shutil.copytree(SAMPLE / "clean-in-sync", root)
    refused = (
        "Exiting because log truncation is not allowed for partition epochs-0, current leader's latest offset {} is less than replica's"
    )
    lines = [f"[12:00:0{n},000] FATAL {refused.format(n)} latest offset 99 (kafka.server.ReplicaFetcherThread)" for n in range(3)]
    lines.append("[12:00:05,000] INFO [X id=1] UNCLEAN partition change for epochs-0 with topic ID x: leader: 1 -> 2 (kafka.x)")
    (root / "broker-2" / "console.txt").write_text("\n".join(lines), encoding="utf-8")
    rows = in_process.audit(root)["logged_incidents"]
    assert [(row["kind"], row["truncation_offset"], row["leader_id"], row["severity"]) for row in rows] == [
        ("truncation_refused", 0, None, "none"),
        ("truncation_refused", 1, None, "none"),
        ("truncation_refused", 2, None, "warning"),
        ("unclean_election", None, 2, "none"),
    ]
    assert {row["logged_at"] for row in rows} == {None}


@pytest.mark.clusters
def test_logs_beside_the_brokers_are_known_by_the_broker_that_their_lines_name(tmp_path: Path) -> None:
    root = tmp_path / "multi-round"
    shutil.copytree(SAMPLE / "multi-round", root)
    (root / "logs").mkdir()
    shutil.move(root / "broker-2" / "server.log", root / "logs" / "my-cluster-kafka-2.txt")
    shutil.move(root / "broker-3" / "server.log", root / "my-cluster-kafka-3.log") if (root / "broker-3" / "server.log").exists() else None
    (root / "notes.txt").write_text("broker 2 was slow at 10:30\n", encoding="utf-8")
    tables = in_process.audit(root, settings=AFTER_COPY)
    cut = [row for row in tables["replica_verdicts"] if row["truncation_offset"] is not None]
    assert cut
    assert [row["observed_truncation_offset"] for row in cut] == [row["truncation_offset"] for row in cut]
    assert not tables["problems"]


def test_a_log_beside_the_brokers_that_names_no_broker_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "multi-round"
    shutil.copytree(SAMPLE / "multi-round", root)
    (root / "kafka.log").write_text("[2026-01-02 03:04:05,000] INFO starting (kafka.server.KafkaServer)\n", encoding="utf-8")
    ((_cluster, problem),) = discover([str(root)]).problems
    assert (problem.kind, problem.code, problem.path) == ("server.log", "unknown-broker", str(root / "kafka.log"))


@pytest.mark.parametrize("name", ["[BrokerServer id=1] started", "[KafkaServer id=1] started", "[ReplicaManager broker=1] x"])
def test_a_log_that_names_another_broker_is_not_used_though_its_other_lines_name_none(tmp_path: Path, name: str) -> None:
    root = tmp_path / "multi-round"
    shutil.copytree(SAMPLE / "multi-round", root)
    log = root / "broker-2" / "server.log"
    others = [line for line in log.read_text(encoding="utf-8").splitlines() if "replicaId=" not in line and "broker=" not in line]
    others = [line for line in others if "Broker id=" not in line and "on broker" not in line and "id=2" not in line]
    log.write_text("\n".join([others[0], f"[2026-01-02 03:04:05,000] INFO {name} (x)", *others[1:]]), encoding="utf-8")
    tables = in_process.audit(root)
    assert [(problem["code"], problem["line"]) for problem in tables["problems"]] == [("server-log-of-another-broker", 2)]
    assert {row["observed_truncation_offset"] for row in tables["replica_verdicts"]} == {None}


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
