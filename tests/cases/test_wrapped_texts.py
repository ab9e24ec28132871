"""Exports of log collectors that wrap the lines of a tool: what cannot be read as what it is has a row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.storage.inputs.sources import discover
from tests.support import in_process

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"
DUMP = (CASES / "dump-trailing-space" / "broker-1" / "payments-0" / "00000000000000000000.txt").read_text(encoding="utf-8")
DESCRIBE = (CASES / "19c-describe-text" / "topics.txt").read_text(encoding="utf-8")


def cloudwatch(text: str) -> str:
    """As the console exports it: pretty."""
    events = [{"timestamp": 1700000000000 + at, "message": line} for at, line in enumerate(text.splitlines())]
    return json.dumps({"events": events}, indent=4)


def elasticsearch(text: str) -> str:
    hits = [{"_index": "logs", "_source": {"@timestamp": "2026-11-27T10:00:00Z", "message": line}} for line in text.splitlines()]
    return json.dumps({"hits": {"hits": hits}}, indent=2)


def journald(text: str) -> str:
    """A message with a tab or an escape in it is an array of bytes."""
    return "".join(
        json.dumps({"__REALTIME_TIMESTAMP": "1700000000000000", "MESSAGE": list(line.encode())}) + "\n" for line in text.splitlines()
    )


def json_lines(text: str) -> str:
    return "".join(json.dumps({"log": line + "\n", "stream": "stdout"}) + "\n" for line in text.splitlines())


EXPORTS = [cloudwatch, elasticsearch, journald, json_lines]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(CASES / "19c-describe-text", tmp_path / "root")
    for name in ("topics.txt", "log-dirs.json", "offsets.txt"):
        (tmp_path / "root" / name).unlink()
    return tmp_path / "root"


def _codes(root: Path) -> list[str]:
    tables = in_process.audit(root, anew=True)
    found = [problem.code for _cluster, problem in discover([str(root)]).problems]
    return [*found, *(row["code"] for row in (*tables["input_errors"], *tables["problems"]))]


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize(("text", "code"), [(DUMP, "unusable-dump"), (DESCRIBE, "malformed")])
@pytest.mark.parametrize("place", ["export.json", "broker-1/export.json", "broker-2/foo-0/export"])
def test_what_is_wrapped_is_named(root: Path, export: Callable[[str], str], text: str, code: str, place: str) -> None:
    (root / place).write_text(export(text), encoding="utf-8")
    assert _codes(root) == [code]
    assert cli.main(["triage", "--input", str(root)]) == 3


@pytest.mark.parametrize("text", ['{"a": {"b": [1, 2, 3]}}', '[{"message": "hello"}]', '{"dashboard": {"title": "Kafka"}}'])
def test_other_documents_are_none(root: Path, text: str) -> None:
    (root / "other.json").write_text(text)
    assert _codes(root) == []
