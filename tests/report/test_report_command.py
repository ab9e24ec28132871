"""The command report: what it writes, where, and how it ends where there is nothing to show."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.text import plain_text as text
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import STARTED, forget_rows_of_tables, write_warehouse

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of three runs, of which the last one is not complete."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = Settings(what_if_leaders=True, worst=2)
    write_warehouse(warehouse, SAMPLE / "committed-loss", run_id="first", settings=settings)
    roots = (SAMPLE / "committed-loss", SAMPLE / "multi-round")
    write_warehouse(warehouse, *roots, run_id="second", started_at=STARTED + timedelta(hours=1), settings=settings)
    write_warehouse(warehouse, SAMPLE / "multi-round", run_id="third", started_at=STARTED + timedelta(hours=2), status="running")
    return warehouse


@pytest.fixture
def warehouse(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, below the directory that the command runs in."""
    shutil.copytree(made, tmp_path / "warehouse")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "warehouse"


def anchors(page: str) -> list[str]:
    return re.findall(r'<article class="partition [a-z]+" id="([^"]*)"', page)


class TestWhatItWrites:
    def test_a_page_of_the_latest_complete_run(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["report"]) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == "report of run second: report-second.html\n"
        page = Path("report-second.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>\n")
        assert (
            "<h1>Committed records are missing from the leader: 85 offsets in 6 partitions, and 4 consumer groups are affected.</h1>"
            in page
        )
        assert anchors(page) == ["ledger-1", "billing-0", "billing-1", "ledger-2", "ledger-0", "billing-2"]
        assert {path.name for path in Path().iterdir()} == {"warehouse", "report-second.html"}

    def test_of_the_run_that_is_asked_for(self, warehouse: Path) -> None:
        assert cli.main(["report", "--run-id", "first", "--output", "first.html"]) == 0
        assert anchors(Path("first.html").read_text(encoding="utf-8")) == ["billing-0", "billing-1", "billing-2"]

    def test_text_and_json_are_the_report(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        report = report_of(PastRun(WarehouseTables("warehouse"), "second"))
        assert cli.main(["report", "--format", "text"]) == 0
        assert capsys.readouterr().out == text.render(report)
        assert cli.main(["report", "--format", "json"]) == 0
        written, head = json.loads(capsys.readouterr().out), json.loads(json.dumps(report.as_json()))
        assert {name: written[name] for name in head} == head
        assert written.keys() - head.keys() == {"findings", "acknowledged", "unconfirmed", "resolved", "open_transactions", "sequence_gaps"}
        names = ("verdict", "severity", "topic", "partition", "leader_id", "follower_id", "truncation_offset", "removed_records", "reason")
        worst = {name: getattr(report.findings[0].row, name) for name in names}
        assert {name: written["findings"][0][name] for name in worst} == worst, "they are in the order of the report"
        assert cli.main(["report", "--format", "text", "--output", "report.txt"]) == 0
        assert Path("report.txt").read_text(encoding="utf-8") == text.render(report)
        assert capsys.readouterr().err == "report of run second: report.txt\n"

    def test_as_many_as_the_audit_showed_or_as_are_asked_for(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for arguments, count in (([], 6), (["--top", "4"], 4), (["--top", "0"], 0), (["--top", "100"], 6)):
            assert cli.main(["report", "--format", "json", *arguments]) == 0
            shown = json.loads(capsys.readouterr().out)
            assert len(shown["findings"]) == count
            assert shown["finding_count"] == 6
        assert cli.main(["report", "--top", "1"]) == 0
        page = Path("report-second.html").read_text(encoding="utf-8")
        assert anchors(page) == ["ledger-1"]
        assert "the worst 1 of 6" in page

    def test_the_file_is_replaced_as_a_whole(self, warehouse: Path) -> None:
        page = Path("page.html")
        page.write_text("old", encoding="utf-8")
        before = page.stat().st_ino
        with page.open(encoding="utf-8") as reading:
            assert cli.main(["report", "--output", "page.html"]) == 0
            assert reading.read() == "old"
        assert page.stat().st_ino != before
        assert page.read_text(encoding="utf-8").endswith("</html>")

    def test_the_run_s_own_facts(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["report", "--format", "json", "--top", "100"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["exit_code"], shown["fail_on"], shown["seconds"]) == (1, "error", 5.0)
        assert shown["changes"] == {"new": 3, "persisting": 3}
        clusters = [(c["label"], c["path"], c["brokers"], c["verdicts"]) for c in shown["clusters"]]
        assert clusters == [
            ("committed-loss", str(SAMPLE / "committed-loss"), 3, {"committed_loss": 3, "lagging": 1, "identical": 5}),
            ("multi-round", str(SAMPLE / "multi-round"), 3, {"committed_loss": 3}),
        ]
        worst = shown["findings"][0]
        assert (worst["verdict"], worst["topic"], worst["partition"], worst["removed_records"]) == ("committed_loss", "ledger", 1, 20)
        gone = [(impact["group_id"], impact["records_gone"]) for impact in shown["impacts"][:3]]
        assert gone == [("bill-classic", 20), ("bill-kip848", 20), ("bill-noepoch", 20)]
        first = [(c["topic"], c["partition"], c["candidate_id"], c["rank"], c["is_leader"]) for c in shown["candidates"][:2]]
        assert first == [], "by their own logs the followers have truncated: to elect them brings nothing back"
        assert (shown["best_led_partitions"], shown["already_lost_partitions"]) == (0, 6)
        assert [finding["already_truncated"] for finding in shown["findings"]] == [True] * 6

    def test_another_leader_that_would_lose_less(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Of the copies alone: no log tells that anything was cut since."""
        shutil.copytree(SAMPLE / "committed-loss", tmp_path / "copy", ignore=shutil.ignore_patterns("server.log"))
        write_warehouse(tmp_path / "other", tmp_path / "copy", run_id="now", settings=Settings(what_if_leaders=True))
        assert cli.main(["report", "--warehouse", str(tmp_path / "other"), "--format", "json", "--top", "100"]) == 0
        shown = json.loads(capsys.readouterr().out)
        choices = [(c["topic"], c["partition"], c["candidate_id"], c["rank"], c["is_leader"]) for c in shown["candidates"]]
        assert choices == [("billing", p, b, r, b == 2) for p, ranked in ((0, (1, 2)), (2, (1, 2))) for r, b in enumerate(ranked, 1)]
        # billing-1 loses 16 records under its leader, all others nothing: the lagging ones only if another led
        assert (shown["best_led_partitions"], shown["already_lost_partitions"]) == (1, 0)


class TestWhatAWarehouseMayLack:
    def test_tables_of_which_nothing_was_written(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for table in ("leader_epochs", "consumer_impacts", "what_if_leaders", "replica_roles", "input_errors", "findings"):
            shutil.rmtree(warehouse / table)
        forget_rows_of_tables(warehouse)
        assert cli.main(["report", "--output", "page.html"]) == 0
        page = Path("page.html").read_text(encoding="utf-8")
        assert "Committed records are missing from the leader: 85 offsets in 6 partitions." in page
        assert anchors(page)[0] == "ledger-1"
        capsys.readouterr()
        assert cli.main(["report", "--format", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["candidates"], shown["impacts"], shown["problem_count"], shown["changes"]) == ([], [], 0, {})

    def test_columns_of_a_later_version(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = DeltaTable(str(warehouse / "audit_runs")).to_pyarrow_table()
        kept = ["run_id", "cluster_id", "started_at", "finished_at", "status", "exit_code", "run_date", "inputs", "replicas", "partitions"]
        shutil.rmtree(warehouse / "audit_runs")
        write_deltalake(str(warehouse / "audit_runs"), rows.select(kept))
        assert cli.main(["report", "--format", "json"]) == 0
        clusters = json.loads(capsys.readouterr().out)["clusters"]
        # brokers of which the input holds a replica
        assert [cluster["brokers"] for cluster in clusters] == [3, 3]
        assert {cluster["protocol"] for cluster in clusters} == {"unknown"}
        assert cli.main(["report", "--output", "page.html"]) == 0

    def test_a_run_without_input(self, warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = DeltaTable(str(warehouse / "audit_runs")).to_pyarrow_table()
        one = rows.slice(0, 1).to_pylist()[0] | {"cluster_id": "none", "run_id": "empty", "status": "complete", "exit_code": 2}
        one["table_rows"] = None
        write_deltalake(str(tmp_path / "empty" / "audit_runs"), pa.Table.from_pylist([one], schema=rows.schema))
        assert cli.main(["report", "--warehouse", "empty"]) == 2
        assert "there is no complete run" in capsys.readouterr().err, "it is not the latest"
        assert cli.main(["report", "--warehouse", "empty", "--run-id", "empty", "--output", "page.html"]) == 0
        page = Path("page.html").read_text(encoding="utf-8")
        assert "<h1>Nothing is known: no input could be read.</h1>" in page
        assert "No cluster was found in the input." in page


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--run-id", "fourth"], "--run-id fourth: no such run; the latest complete runs are: second, first"),
            (["--run-id", "third"], "not complete, so its rows do not count"),
            (["--warehouse", "missing"], "--warehouse missing: no such directory"),
            (["--warehouse", "."], "not a warehouse"),
            (["--output", "missing/page.html"], "--output missing/page.html: not a file in an existing directory"),
            (["--output", "warehouse"], "--output warehouse: not a file in an existing directory"),
            (["--output", "n" * 300], "File name too long; give a file that can be written"),
            (["--top", "-1"], "--top -1: give 0 or more"),
        ],
    )
    def test_in_one_sentence(self, warehouse: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
        assert cli.main(["report", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        assert said in captured.err
        assert [path.name for path in Path().iterdir()] == ["warehouse"]

    @pytest.mark.parametrize("form", ["html", "text", "json"])
    def test_a_verdict_of_a_later_version(self, warehouse: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
        table = DeltaTable(warehouse / "replica_verdicts")
        table.update(new_values={"verdict": "of_another_kind"}, predicate="run_id = 'second' AND verdict = 'committed_loss'")
        assert cli.main(["report", "--format", form]) == 2
        assert capsys.readouterr() == (
            "",
            "error: run second: this version knows no verdict of_another_kind; show it with the version that wrote it\n",
        )

    def test_a_table_that_is_damaged(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for path in (warehouse / "replica_verdicts").glob("*.parquet"):
            path.write_bytes(path.read_bytes()[:100])
        assert cli.main(["report"]) == 2
        assert "table replica_verdicts cannot be read" in capsys.readouterr().err
        assert not Path("report-second.html").exists()

    @pytest.mark.parametrize("arguments", [["--format", "pdf"], ["--top", "few"], ["--out", "page.html"], ["page.html"]])
    def test_wrong_usage(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            cli.main(["report", *arguments])
        assert ended.value.code == 2
        assert "usage: spark-submit.sh report" in capsys.readouterr().err

    def test_help_teaches(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            cli.main(["report", "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert "./spark-submit.sh report --warehouse /audits --output /srv/www/audit.html" in shown
        assert all(option in shown for option in ("--warehouse", "--run-id", "--format", "--output", "--top", "exit codes:"))


def test_the_job_needs_no_jvm_and_bears_a_closed_pipe(warehouse: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "jobs" / "report.py"), "--format", "text"]
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "lib"), "LC_ALL": "C", "PYTHONWARNINGS": "ignore"}
    whole = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=1200)
    assert (whole.returncode, whole.stderr) == (0, "")
    assert "\n\n3 new findings since the run before\n" in whole.stdout
    assert "\n\nWhat to decide, worst first\n" in whole.stdout
    read_end, write_end = os.pipe()
    os.close(read_end)
    closed = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path, timeout=1200)
    os.close(write_end)
    assert (closed.returncode, closed.stderr) == (0, "")
