"""`triage --acknowledged`: counted and shown apart, no alarm of its own, and back when it expires or gets worse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli

LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
KNOWN = "topic: billing, verdict: committed_loss, severity: critical, at_most_records: 100, reason: known, who: ana"


def triage(folder: Path, capsys: pytest.CaptureFixture[str], entry: str) -> tuple[int, str, dict[str, Any], str]:
    (folder / "known.yaml").write_text(f"- {{{entry}}}\n", encoding="utf-8")
    files = ["--json", str(folder / "a.json"), "--html", str(folder / "a.html")]
    code = cli.main(["triage", "--input", str(LOSS), "--acknowledged", str(folder / "known.yaml"), *files])
    said = " ".join(capsys.readouterr().out.split())
    return code, said, json.loads((folder / "a.json").read_text()), " ".join((folder / "a.html").read_text().split())


def test_all_that_was_found_is_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, document, page = triage(tmp_path, capsys, f"{KNOWN}, until: 2999-12-31")
    assert code == 0
    assert "3 acknowledged findings, next expires 2999-12-31" in said
    assert "until 2999-12-31, ana: known (3 findings: committed loss; billing-0, billing-1, billing-2; line 1)" in said
    assert said.endswith("Exit code 0: nothing found at or above 'error', besides 3 acknowledged findings.")
    assert "DIVERGES" not in said
    assert "What to decide" not in said
    assert document["findings"] == []
    assert len(document["acknowledged"]) == 3
    assert document["acknowledged"][0]["acknowledgement"] == {
        "state": "acknowledged",
        "reason": "known",
        "who": "ana",
        "until": "2999-12-31",
        "severity": "critical",
        "at_most_records": 100,
        "line": 1,
    }
    assert (document["finding_count"], document["acknowledged_count"]) == (0, 3)
    assert "<h1>Nothing found except acknowledged findings" in page
    assert "3 acknowledged findings, next expires 2999-12-31" in page


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (f"{KNOWN}, until: 2020-01-01", "expired: until 2020-01-01, ana: known (3 findings"),
        (f"{KNOWN.replace('critical', 'error')}, until: 2999-12-31", "the finding is more severe than acknowledged: until 2999-12-31"),
        (
            f"{KNOWN.replace('100', '16')}, until: 2999-12-31",
            "more records are lost than acknowledged: until 2999-12-31, ana: known (1 find",
        ),
    ],
)
def test_it_is_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, why: str) -> None:
    code, said, document, page = triage(tmp_path, capsys, entry)
    assert code == 1
    assert f"No longer covered by an acknowledgement {why}" in said
    assert "billing-0 2>1" in said
    assert {row["topic"] for row in document["findings"]} == {"billing"}
    assert f"<b>Back:</b> {why[:20]}" in page


def test_what_is_not_acknowledged_is_as_loud_as_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, document, _page = triage(tmp_path, capsys, f"{KNOWN}, partition: [1, 2], until: 2999-12-31")
    assert code == 1
    assert "billing-0 2>1" in said
    assert "billing-1 2>1" not in said
    assert "2 acknowledged findings" in said
    assert said.endswith("Exit code 1: there are findings at or above 'error', besides 2 acknowledged findings.")
    assert [row["partition"] for row in document["findings"]] == [0]
    assert "1 partition are already truncated (billing-0)" in said, "decisions count without the other two"


def test_a_wrong_file_ends_it_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "known.yaml").write_text("- {who: ana}\n", encoding="utf-8")
    assert cli.main(["triage", "--input", str(LOSS), "--acknowledged", str(tmp_path / "known.yaml")]) == 2
    assert "known.yaml: line 1: key 'reason' is missing" in capsys.readouterr().err
