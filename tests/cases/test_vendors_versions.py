"""A cluster of a vendor's Kafka: its version, in metadata or a log, chooses the truncation rule of the release that it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from replica_audit.rows.codes import Protocol
from tests.support import in_process

CASE = Path(__file__).resolve().parents[1] / "data" / "cases" / "vendors-version"
VERSIONS = [
    ("5.5.1-ccs", Protocol.KIP_279, "which is Kafka 2.5"),
    ("5.0.1-ccs", Protocol.KIP_279, "which is Kafka 2.0"),
    ("4.1.2-ccs", Protocol.KIP_101, "which is Kafka 1.1"),
    ("3.2.4-ce", Protocol.HIGH_WATERMARK, "which is Kafka 0.10"),
    ("6.1.1-ce", Protocol.KIP_279, "which is Kafka 2.7"),
    ("7.4.0-ccs", Protocol.TRUNCATE_ON_FETCH, "which is Kafka 3.4"),
    ("2.0.0.3.1.0.0-78", Protocol.KIP_279, "2.0.0.3.1.0.0-78"),
    ("1.0.1-kafka-3.1.0", Protocol.KIP_101, "1.0.1-kafka-3.1.0"),
    ("2.4.1", Protocol.KIP_279, "broker version 2.4.1"),
    ("4.1.2", Protocol.TRUNCATE_ON_FETCH, "broker version 4.1.2"),
    ("25.1.1", Protocol.TRUNCATE_ON_FETCH, "no version known (broker version 25.1.1 is none of Apache Kafka's)"),
]


def _cluster(root: Path, version: str | None) -> Path:
    shutil.copytree(CASE, root)
    path = root / "cluster-metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kafka_version": version}))
    return root


@pytest.mark.parametrize(("version", "protocol", "said"), VERSIONS)
def test_of_the_metadata(tmp_path: Path, version: str, protocol: Protocol, said: str) -> None:
    tables, facts = in_process.audit_cluster(_cluster(tmp_path / "cluster", version))
    assert facts.applies is protocol
    assert said in facts.generation.reason
    assert {row["protocol"] for row in tables["replica_verdicts"]} == {str(protocol)}


@pytest.mark.parametrize("told", [None, "25.2"])
@pytest.mark.parametrize(
    "line", ["[2026-06-01 10:00:00,000] INFO Kafka version{} {} (x.AppInfoParser)", '{{"message":"Kafka version{} {}"}}']
)
@pytest.mark.parametrize(("version", "protocol", "said"), VERSIONS)
def test_of_a_log(tmp_path: Path, version: str, protocol: Protocol, said: str, line: str, told: str | None) -> None:
    root = _cluster(tmp_path / "cluster", told)
    colon = " :" if protocol in (Protocol.KIP_101, Protocol.HIGH_WATERMARK) else ":"
    (root / "broker-1" / "server.log").write_text(line.format(colon, version) + "\n")
    generation = in_process.audit_cluster(root)[1].generation
    assert generation.protocol is protocol
    assert (told and "25.2 is none of" in generation.reason) or said.removeprefix("broker version ") in generation.reason


def test_without_any_version_nothing_is_said_of_one(tmp_path: Path) -> None:
    assert in_process.audit_cluster(_cluster(tmp_path / "cluster", None))[1].generation.reason.startswith("no version known: ")
