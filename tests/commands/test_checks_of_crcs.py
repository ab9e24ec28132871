"""What an audit of collections says of when they were made, and when their CRCs were last verified."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from replica_audit.cli import main
from replica_audit.formats.collection.manifest import MANIFEST
from tests.collect.collections import resealed
from tests.house.checkout import ROOT

SAMPLE = ROOT / "tests/data/sample/committed-loss"
_LINE = "CRCs of collected segments: "
_AGE = "collections: the oldest is of "


def _told(capsys: pytest.CaptureFixture[str], path: Path, output: Path) -> str:
    main(["triage", "--input", str(path), "--json", str(output), "--html", str(output.with_suffix(".html"))])
    return " ".join(capsys.readouterr().out.split())


def _collected(root: Path, *options: str) -> Path:
    for broker in sorted(SAMPLE.glob("broker-*")):
        dirs = [option for log_dir in sorted(broker.glob("data-*")) for option in ("--log-dir", str(log_dir))]
        assert main(["collect", *dirs, "--output", str(root), *options]) == 0
    return root


def test_the_oldest_check_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _told(capsys, _collected(tmp_path / "collected"), tmp_path / "a.json")
    assert re.search(rf"{_LINE}the oldest check is of \d{{4}}-\d\d-\d\d \d\d:\d\d UTC", told)
    assert "not all segments" not in told
    (cluster,) = json.loads((tmp_path / "a.json").read_text())["clusters"]
    assert cluster["oldest_check"].endswith("+00:00")
    assert cluster["never_checked"] == 0


def test_what_was_never_verified_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _told(capsys, _collected(tmp_path / "collected", "--no-verify-crc"), tmp_path / "a.json")
    (cluster,) = json.loads((tmp_path / "a.json").read_text())["clusters"]
    assert (cluster["oldest_check"], cluster["never_checked"]) == (None, cluster["replicas"])
    assert f"{_LINE}of {cluster['replicas']} replicas not all segments were ever verified" in told


def test_an_audit_of_log_directories_says_nothing_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _told(capsys, SAMPLE, tmp_path / "a.json")
    assert _LINE not in told
    assert _AGE not in told
    (cluster,) = json.loads((tmp_path / "a.json").read_text())["clusters"]
    assert cluster["oldest_capture"] is None


def test_a_collection_of_today_is_no_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _told(capsys, _collected(tmp_path / "collected"), tmp_path / "a.json")
    assert re.search(rf"{_AGE}\d{{4}}-\d\d-\d\d \d\d:\d\d UTC \(broker \d\)", told)
    assert "does its collector still run" not in told


def test_a_collector_that_stopped_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = _collected(tmp_path / "collected")
    manifest = root / "broker-2" / MANIFEST
    then = datetime.now(UTC) - timedelta(days=31, hours=1)
    changed = re.sub(r"(_at\": ?\")20[^\"]*", rf"\g<1>{then:%Y-%m-%dT%H:%M:%S.000Z}", manifest.read_text())
    manifest.write_bytes(resealed(json.loads(changed)))
    told = _told(capsys, root, tmp_path / "a.json")
    assert f"{_AGE}{then:%Y-%m-%d %H:%M} UTC (broker 2), 31 days before this run: does its collector still run?" in told
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert f"{_AGE}{then:%Y-%m-%d %H:%M} UTC (broker 2), 31 days before this run: does its collector still run?" in page
    assert _LINE in page
    (cluster,) = json.loads((tmp_path / "a.json").read_text())["clusters"]
    assert cluster["oldest_capture"] == {"broker_id": 2, "captured_at": then.replace(microsecond=0).isoformat(), "days_before": 31}
