"""What a webhook is told: numbers equal to the tables, the worst findings as facts, and nothing of a record."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from replica_audit.commands.audit import is_wanted
from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.findings import ListedRows
from replica_audit.past.metrics import run_metrics
from replica_audit.past.run import PastRun
from replica_audit.report.text.webhook_json import WORST, AboutRun, failure_document, run_document
from tests.formats import record_files as rf
from tests.house.checkout import ROOT
from tests.stages.test_records import BASE, compacted, replica

SAMPLE = ROOT / "tests" / "data" / "sample"
OFFLINE = ROOT / "tests" / "data" / "offline" / "nobody-leads"
PAGE = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
ABOUT = AboutRun(
    run_id="nightly", run_date=date(2026, 1, 2), inputs=["/backup"], warehouse="/audits", page_url="https://x.example/a", html="/a.html"
)


def audited(*inputs: Path, **settings: Any) -> PastRun:
    done = triage([str(one) for one in inputs], Settings(**settings), tell=lambda _event: None)
    return PastRun(done.tables, done.run_id)


def document_of(run: PastRun, exit_code: int = 1) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(run_document(ABOUT, exit_code, run_metrics(run), ListedRows(run)))
    return made


@pytest.fixture(scope="module")
def run() -> PastRun:
    return audited(SAMPLE, OFFLINE)


@pytest.fixture(scope="module")
def document(run: PastRun) -> dict[str, Any]:
    return document_of(run)


def rows(run: PastRun, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in run.tables.arrow(table).to_pylist()]  # type: ignore[union-attr]


def test_numbers_are_those_of_the_tables(run: PastRun, document: dict[str, Any]) -> None:
    found = rows(run, "findings")
    severities = Counter(row["severity"] for row in found)
    assert document["findings"] == {
        "count": len(found),
        "by_severity": {severity: severities[severity] for severity in ("critical", "error", "warning")},
        **{"new": len(found), "persisting": 0, "resolved": 0, "unconfirmed": 0, "acknowledged": 0},
    }
    assert document["offline_partitions"] == sum(row["code"] == "offline_partition" for row in found) > 0
    verdicts = Counter((row["cluster_id"], row["verdict"]) for row in rows(run, "replica_verdicts"))
    assert {(one["cluster_id"], verdict): n for one in document["clusters"] for verdict, n in one["verdicts"].items()} == verdicts
    assert len(document["clusters"]) == len(rows(run, "audit_runs"))
    said = f"{severities['critical']} critical, {severities['error']} error, {severities['warning']} warning), {len(found)} new"
    assert document["text"].startswith(f"Kafka replica audit nightly: findings, exit code 1; {len(found)} findings ({said}, ")


def test_the_worst_findings_are_rows_of_the_table(run: PastRun, document: dict[str, Any]) -> None:
    by_key = {(row["cluster_id"], row["finding_key"]): row for row in rows(run, "findings")}
    assert len(document["worst"]) == WORST < len(by_key)
    for one in document["worst"]:
        row = by_key[one["cluster_id"], one["finding_key"]]
        assert one == {name: row[name] for name in one}
    assert document["worst"][0]["code"] == "offline_partition"
    assert {"committed_loss"} <= {one["code"] for one in document["worst"]}


def test_of_a_run_without_findings() -> None:
    found = document_of(audited(SAMPLE / "clean-in-sync"), 0)
    assert (found["outcome"], found["findings"]["count"], found["worst"]) == ("clean", 0, [])
    assert found["text"] == "Kafka replica audit nightly: clean, exit code 0; 0 findings, 0 partitions offline"


def test_no_key_and_no_value_is_posted(tmp_path: Path) -> None:
    """Of a run whose tables do show them, as was asked for."""
    key, value = b"key-of-ana@example.com", b"value-4711"
    newer = rf.batch(BASE, (b"key-3", b"newer"))
    records = [(at, key, value) if name == b"key-7" else (at, name, content) for at, name, content in compacted()]
    replica(tmp_path, 1, records, [newer])
    replica(tmp_path, 2, [one for one in records if one[1] not in (b"key-3", key)], [newer])
    run = audited(tmp_path, compare="records", show_keys=True)
    assert "key-of-ana" in json.dumps(rows(run, "differences"), default=str)
    text = run_document(ABOUT, 1, run_metrics(run), ListedRows(run)).decode()
    assert "compaction_differs" in text
    assert "key-of-ana" not in text and "value-4711" not in text


def test_hostile_names_are_plain_strings_and_not_in_what_chats_show(run: PastRun) -> None:
    name = '<!channel> <https://evil.example|click>"}\n\x1b[2J\u202e@everyone'

    class Hostile(ListedRows):
        def findings(self, statuses: tuple[str, ...], *, acknowledged: bool = False) -> Any:
            return ({**row, "topic": name, "cluster_id": name} for row in super().findings(statuses, acknowledged=acknowledged))

    clusters = [replace(one, cluster_id=name) for one in run_metrics(run)]
    text = run_document(ABOUT, 1, clusters, Hostile(run)).decode()
    assert text.isascii() and text.isprintable()
    found = json.loads(text)
    assert {one["topic"] for one in found["worst"]} == {one["cluster_id"] for one in found["clusters"]} == {name}
    assert not set("<>@\n\x1b") & set(found["text"])


def test_a_run_that_failed() -> None:
    found = json.loads(failure_document(replace(ABOUT, run_id=None, run_date=None), 2, "warehouse /audits: No space left on device"))
    assert found["outcome"] == "failed"
    assert found["error"] == "warehouse /audits: No space left on device"
    assert found["text"] == "Kafka replica audit (not begun): failed, exit code 2; it did not come to its end"
    assert (found["run_id"], found["run_date"], "findings" in found) == (None, None, False)
    for code in (130, 143, 129):
        assert json.loads(failure_document(ABOUT, code, "interrupted"))["outcome"] == "interrupted"


@pytest.mark.parametrize(
    ("when", "wanted"),
    [("findings", {1}), ("failure", {2, 70, 130}), ("problems", {1, 2, 3, 70, 130}), ("always", {0, 1, 2, 3, 70, 130})],
)
def test_which_runs_are_posted(when: str, wanted: set[int]) -> None:
    assert {code for code in (0, 1, 2, 3, 70, 130) if is_wanted(when, code)} == wanted


def test_the_page_names_every_key(document: dict[str, Any]) -> None:
    failed = json.loads(failure_document(ABOUT, 2, "x"))
    names = {*document, *failed, *document["findings"], *document["clusters"][0], *document["worst"][0]}
    assert not [name for name in names if f"`{name}`" not in PAGE]
    assert datetime.fromisoformat(document["finished_at"]).tzinfo == UTC
