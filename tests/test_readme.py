"""What the README and the pages of inputs and commands show must be true."""

from __future__ import annotations

import json
import re
from pathlib import Path

from replica_audit import cli
from replica_audit.formats.metadata import cluster_metadata
from replica_audit.rows import TABLES

ROOT = Path(__file__).resolve().parents[1]
INPUTS, COMMANDS, TABLE_PAGE = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("inputs.md", "commands.md", "tables.md"))


def test_the_cluster_metadata_shown_is_valid() -> None:
    shown = re.search(r"```json\n(.*?)```", INPUTS, re.DOTALL)
    assert shown
    head, document = cluster_metadata.parse(shown[1].encode())
    partition = next(cluster_metadata.partitions(document))
    assert json.loads(shown[1])["version"] == 1
    assert (head.broker_states, partition.topic, partition.leader, partition.isr) == ({1: "down", 2: "up"}, "billing", 2, (2,))


def test_every_command_option_and_table_is_named() -> None:
    audit = next(command for command in cli.COMMANDS if command.name == "audit")
    assert not [option.flag for option in audit.options if f"| `{option.flag}" not in COMMANDS]
    assert not [command.name for command in cli.COMMANDS if not re.search(rf"^\| .*`{command.name}`.* \|", COMMANDS, re.MULTILINE)]
    assert not [table.name for table in TABLES if f"| [`{table.name}`](#{table.name}) |" not in TABLE_PAGE]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
