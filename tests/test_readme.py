"""What the README shows must be true."""

from __future__ import annotations

import json
import re
from pathlib import Path

from replica_audit import cli
from replica_audit.formats.metadata import cluster_metadata
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.rows import TABLES

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_cluster_metadata_shown_is_valid() -> None:
    shown = re.search(r"```json\n(.*?)```", README, re.DOTALL)
    assert shown
    head, document = cluster_metadata.parse(shown[1].encode())
    partition = next(cluster_metadata.partitions(document))
    assert json.loads(shown[1])["version"] == 1
    assert (head.broker_states, partition.topic, partition.leader, partition.isr) == ({1: "down", 2: "up"}, "billing", 2, (2,))


def test_every_option_table_and_verdict_is_named() -> None:
    audit = next(command for command in cli.COMMANDS if command.name == "audit")
    assert not [option.flag for option in audit.options if f"`{option.flag}" not in README]
    assert not [table.name for table in TABLES if f"`{table.name}`" not in README]
    assert not [verdict for verdict in Verdict if f"| `{verdict}` | {SEVERITIES[verdict]} |" not in README]
