"""What people read of findings over runs, of partitions without a leader, and of leaders that are only inferred; every finding as JSON."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from replica_audit import cli
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text import plain_text as text
from replica_audit.rows import FINDINGS
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import STARTED, forget_rows_of_tables, write_rows, write_warehouse

DATA = Path(__file__).resolve().parents[1] / "data"
OFFLINE, LOSS = DATA / "offline" / "nobody-leads", DATA / "sample" / "committed-loss"
KEY = "committed_loss:billing-0:1"


def shown(warehouse: Path) -> Report:
    return report_of(PastRun(WarehouseTables(str(warehouse)), None))


def as_json(warehouse: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.main(["report", "--warehouse", str(warehouse), "--format", "json", *arguments]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_warehouse(tmp_path_factory.mktemp("offline"), OFFLINE)


class TestNobodyLeads:
    def test_it_comes_first(self, offline: Path) -> None:
        """First the brokers and what to decide, then the partitions."""
        brokers, _, rest = text.render(shown(offline)).partition("\n\n")
        assert brokers.startswith("Brokers\n  2  stopped  safe; it is to be elected, uncleanly")
        lines = rest.splitlines()
        assert lines[0] == "What to decide, worst first"
        assert "jb-1" in " ".join(lines[1 : lines.index("")])
        first = lines.index("") + 1
        assert lines[first] == "2 partitions without a leader"
        assert lines[first + 1] == "  error: jb-1: ISR none, ELR 2, last leader 2"
        said = " ".join(" ".join(lines).split())
        assert "elect 2: loses nothing (an unclean election, once broker 2 runs)" in said, "it crashed: its place in the ELR is lost"
        assert "elect 3: loses nothing (an unclean election, once broker 3 runs)" in said
        assert "Exit code 1" in said, "every pair is identical, and the outage is an error"
        assert shown(offline).clusters[0].offline_partitions == 2

    @pytest.mark.parametrize("follower", [[], ["--follower", "3"]])
    def test_nobody_is_called_its_leader(self, offline: Path, capsys: pytest.CaptureFixture[str], follower: list[str]) -> None:
        assert cli.main(["explain", "--warehouse", str(offline), "--partition", "jb-1", *follower]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith("What to do step 1 Start broker 2; elect broker 2, uncleanly.")
        assert "When a broker starts broker 2: " in said
        assert "Nobody leads jb-1: offline_partition (error) ISR none, ELR 2, last leader 2" in said
        assert "elect 2: loses nothing" in said
        assert "leader none, according to the metadata; compared as if broker 2 led" in said
        assert "leader 2" not in said.replace("last leader 2", "").replace("ELR 2", "")
        assert "leader broker 2" not in said
        assert "cluster-metadata.json" not in said, "it was given"

    def test_the_page(self, offline: Path, tmp_path: Path) -> None:
        assert cli.main(["report", "--warehouse", str(offline), "--output", str(tmp_path / "page.html")]) == 0
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<h1>2 partitions have no leader.</h1>" in page
        assert page.index('id="offline"') < page.index('id="counts-title"') < page.index('id="findings"')
        assert "Broker 2, as if it led" in page
        assert "the leader, broker 2" not in page
        assert "Broker 2, the leader" not in page
        assert "audit with a cluster-metadata.json" not in page

    def test_json(self, offline: Path, capsys: pytest.CaptureFixture[str]) -> None:
        document = as_json(offline, capsys)
        first = document["findings"][0]
        assert (first["code"], first["topic"], first["partition"], first["status"]) == ("offline_partition", "jb", 1, "new")
        assert (first["isr"], first["elr"], first["last_leader_id"]) == ([], [2], 2)
        assert [(c["candidate_id"], c["lost_records"], c["election"]) for c in first["candidates"]] == [
            (2, 0, "unclean"),
            (3, 0, "unclean"),
        ]
        assert (first["verdict"], first["follower_id"]) == (None, None)
        assert document["partition_codes"] == {"offline_partition": 2}


@pytest.mark.parametrize("named", [True, False], ids=["metadata outdated", "no metadata"])
def test_what_settles_who_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, named: bool) -> None:
    """Metadata that was given and is too old needs other advice than none at all."""
    root = tmp_path / "root"
    shutil.copytree(LOSS, root)
    path = root / "cluster-metadata.json"
    if named:
        document = json.loads(path.read_text(encoding="utf-8"))
        for partition in (one for topic in document["topics"] for one in topic["partitions"]):
            partition["leader_epoch"] = 0
        path.write_text(json.dumps(document), encoding="utf-8")
    else:
        path.unlink()
    for log in root.glob("*/*/__cluster_metadata-0"):
        shutil.rmtree(log)
    warehouse = write_warehouse(tmp_path / "warehouse", root)
    assert cli.main(["explain", "--warehouse", str(warehouse), "--partition", "billing-0", "--follower", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Give `cluster-metadata.json` (command `describe-cluster`)" in said
    assert ("made after the last election" in said) is named
    assert "follower 1 of inferred leader 2" in said
    assert "2?>1" in text.render(shown(warehouse))


class TestOverRuns:
    """A run with three committed losses, then a run of a changed copy."""

    @pytest.fixture
    def roots(self, tmp_path: Path) -> tuple[Path, Path]:
        """A warehouse with the first run, and a copy of its input."""
        write_warehouse(tmp_path / "warehouse", LOSS, run_id="one")
        shutil.copytree(LOSS, tmp_path / "copy")
        return tmp_path / "warehouse", tmp_path / "copy"

    def again(self, warehouse: Path, root: Path, day: int = 1) -> dict[str, str]:
        write_warehouse(warehouse, root, run_id=f"run-{day}", started_at=STARTED + timedelta(days=day))
        return self.statuses(warehouse, f"run-{day}")

    def statuses(self, warehouse: Path, run_id: str) -> dict[str, str]:
        rows = DeltaTable(str(warehouse / "findings")).to_pyarrow_table().to_pylist()
        return {row["finding_key"]: row["status"] for row in rows if row["run_id"] == run_id}

    def heal(self, root: Path) -> None:
        shutil.rmtree(root / "broker-1" / "data-0" / "billing-0", ignore_errors=True)
        shutil.copytree(root / "broker-2" / "data-0" / "billing-0", root / "broker-1" / "data-0" / "billing-0")

    @pytest.mark.parametrize("how", ["not collected", "unreadable", "leader gone", "no metadata"])
    def test_what_cannot_be_compared_stays_open(self, roots: tuple[Path, Path], how: str) -> None:
        warehouse, root = roots
        replica, leader = (root / f"broker-{broker}" / "data-0" / "billing-0" for broker in (1, 2))
        if how == "not collected":
            shutil.rmtree(replica)
        elif how == "unreadable":
            (replica / "leader-epoch-checkpoint").write_bytes(b"garbled\n")
        elif how == "leader gone":
            shutil.rmtree(leader)
        else:  # the partition is clean now, but who leads is a guess
            self.heal(root)
            (root / "cluster-metadata.json").unlink()
            for log in root.glob("*/*/__cluster_metadata-0"):
                shutil.rmtree(log)
        assert self.again(warehouse, root)[KEY] == "unconfirmed"
        said = text.render(shown(warehouse))
        assert "1 unconfirmed" in said
        assert "not confirmed: critical: committed loss of billing-0, broker 1" in said
        assert "They stay open." in " ".join(said.split())

    def test_it_stays_open_over_runs_until_it_is_seen_again_or_found_clean(self, roots: tuple[Path, Path]) -> None:
        warehouse, root = roots
        replica = root / "broker-1" / "data-0" / "billing-0"
        shutil.rmtree(replica)
        assert [self.again(warehouse, root, day)[KEY] for day in (1, 2)] == ["unconfirmed"] * 2
        rows = [row for row in DeltaTable(str(warehouse / "findings")).to_pyarrow_table().to_pylist() if row["finding_key"] == KEY]
        last = max(rows, key=lambda row: row["run_id"])
        assert (last["run_id"], last["first_seen_run_id"], last["last_seen_run_id"]) == ("run-2", "one", "one")
        shutil.copytree(LOSS / "broker-1" / "data-0" / "billing-0", replica)
        assert self.again(warehouse, root, 3)[KEY] == "persisting"
        shutil.rmtree(replica)
        assert self.again(warehouse, root, 4)[KEY] == "unconfirmed"
        self.heal(root)
        assert self.again(warehouse, root, 5)[KEY] == "resolved"
        assert KEY not in self.again(warehouse, root, 6)

    def test_the_page_and_json_list_them(self, roots: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        warehouse, root = roots
        shutil.rmtree(root / "broker-1" / "data-0" / "billing-0")
        self.again(warehouse, root)
        document = as_json(warehouse, capsys)
        assert [(row["finding_key"], row["last_seen_run_id"], row["removed_records"]) for row in document["unconfirmed"]] == [
            (KEY, "one", 20)
        ]
        assert KEY not in {row["finding_key"] for row in document["findings"]}
        assert cli.main(["report", "--warehouse", str(warehouse), "--output", str(tmp_path / "page.html")]) == 0
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "Not confirmed, still open" in page

    def test_a_partition_that_is_led_again(self, tmp_path: Path) -> None:
        root, warehouse = tmp_path / "root", tmp_path / "warehouse"
        shutil.copytree(OFFLINE, root)
        path = root / "cluster-metadata.json"
        given = path.read_text(encoding="utf-8")
        key = "offline_partition:jb-1"
        assert self.again(warehouse, root, 1)[key] == "new"
        path.unlink()
        assert self.again(warehouse, root, 2)[key] == "unconfirmed", "nobody says who leads"
        document = json.loads(given)
        document["topics"][0]["partitions"][0] |= {"leader": 3, "leader_epoch": 2, "isr": [3], "elr": []}
        path.write_text(json.dumps(document), encoding="utf-8")
        found = self.again(warehouse, root, 3)
        assert (found[key], found["offline_partition:jb-4"]) == ("resolved", "persisting")


class TestEveryFinding:
    @pytest.mark.slow
    def test_not_the_worst_few(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Many findings: every one is there, each once, the worst first."""
        write_warehouse(tmp_path, LOSS)
        kept = DeltaTable(str(tmp_path / "findings")).to_pyarrow_table().to_pylist()
        worst = next(row for row in kept if row["code"] == "committed_loss")
        number = 20_000
        copies = [{**worst, "finding_key": f"committed_loss:many-{n}:1", "topic": "many", "partition": n} for n in range(number)]
        write_rows(tmp_path, {"findings": copies})
        forget_rows_of_tables(tmp_path)
        document = as_json(tmp_path, capsys)
        assert document["changes"] == {"new": number + len(kept)}
        keys = Counter(row["finding_key"] for row in document["findings"])
        assert len(keys) == number + len(kept)
        assert set(keys.values()) == {1}
        severities = [row["severity"] for row in document["findings"]]
        assert severities == sorted(severities, key=["critical", "error", "warning"].index)
        assert len(as_json(tmp_path, capsys, "--top", "10")["findings"]) == 10

    def test_the_facts_of_each(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_warehouse(tmp_path, LOSS)
        worst = as_json(tmp_path, capsys)["findings"][0]
        expected = {"verdict": "committed_loss", "severity": "critical", "topic": "billing", "partition": 0, "leader_id": 2}
        expected |= {"follower_id": 1, "truncation_offset": 10, "removed_records": 20, "removed_below_high_watermark": 20}
        assert {name: worst[name] for name in expected} == expected
        assert worst["reason"] == worst["summary"]
        assert worst["evidence"].count("00000000000000000000.log") == 2
        assert worst["restart_offset"] is None

    def test_a_run_of_an_older_version_has_the_facts_of_its_verdicts(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_warehouse(tmp_path, LOSS)
        now = as_json(tmp_path, capsys)["findings"]
        rows = DeltaTable(str(tmp_path / "findings")).to_pyarrow_table()
        shutil.rmtree(tmp_path / "findings")
        known = [name for name in FINDINGS.names if name not in ("run_date", "severity_rank")][:12]
        write_deltalake(str(tmp_path / "findings"), rows.select(known))
        before = as_json(tmp_path, capsys)["findings"]
        names = ("finding_key", "verdict", "leader_id", "follower_id", "truncation_offset", "removed_records", "evidence", "reason")
        assert [{name: row[name] for name in names} for row in before] == [{name: row[name] for name in names} for row in now]
