"""The job explain: what it prints of a real audit, word for word, and how it ends where there is nothing to explain."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.past.explained import Explainer
from replica_audit.report.facts.explanation import Explained
from replica_audit.report.facts.question import Question, parse_partition
from replica_audit.report.text.explanation_text import render
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import keep_triage

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLE, GOLDEN = DATA / "sample", DATA / "expected" / "explain"
ROOTS = ("committed-loss", "elr-election", "kafka-1.1.1-kip279-scenario-1-all", "leader-trimmed", "multi-round")
TOPICS = "billing|vault|orders|audit|ledger|epochs|c-none"

# name of the golden text → cluster, partition, follower (None: all)
EXPLAINED: dict[str, tuple[str, str, int | None]] = {
    "committed-loss": ("committed-loss", "billing-0", None),
    "multi-round": ("multi-round", "ledger-0", None),
    "kip-101-fetcher-fails": ("kafka-1.1.1-kip279-scenario-1-all", "orders-0", None),
    "kip-101-silent-divergence": ("kafka-1.1.1-kip279-scenario-1-all", "orders-1", None),
    "kip-101-hole": ("kafka-1.1.1-kip279-scenario-1-all", "orders-2", None),
    "leader-trimmed-fetcher-fails": ("leader-trimmed", "audit-1", None),
    "leader-trimmed-cut-and-restart": ("leader-trimmed", "audit-2", None),
    "leader-trimmed-no-common-range": ("leader-trimmed", "audit-0", None),
    "stale-tail-and-lagging": ("elr-election", "vault-1", None),
    "unreadable-and-not-collected": ("incomplete", "epochs-0", None),
    "identical": ("incomplete", "c-none-1", 1),
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One audit of sample clusters, and of one that lacks a broker and has a broken checkpoint; `test_audit.py` has Spark do it."""
    incomplete = tmp_path_factory.mktemp("input") / "incomplete"
    shutil.copytree(SAMPLE / "clean-in-sync", incomplete)
    shutil.rmtree(incomplete / "broker-3")
    (incomplete / "broker-2" / "data-0" / "epochs-0" / "leader-epoch-checkpoint").write_text("0\n6\n0 0\n1 3\n", encoding="utf-8")
    roots = (*(SAMPLE / root for root in ROOTS), incomplete)
    return keep_triage(tmp_path_factory.mktemp("warehouse"), roots, Settings(topics=TOPICS, what_if_leaders=True))


def cluster_id(root: str) -> str:
    """The cluster's id, by its metadata."""
    name = "clean-in-sync" if root == "incomplete" else root
    found: str = json.loads((SAMPLE / name / "cluster-metadata.json").read_text(encoding="utf-8"))["cluster_id"]
    return found


def explained(warehouse: Path, root: str, partition: str, follower: int | None = None) -> Explained:
    topic, number = parse_partition(partition)
    asked = Question(topic=topic, partition=number, cluster_id=cluster_id(root), follower_id=follower)
    return Explainer(WarehouseTables(str(warehouse))).explain(asked)


class TestOfARealAudit:
    """The sample clusters."""

    @pytest.mark.parametrize("name", EXPLAINED)
    def test_the_text_is_the_golden_one(self, warehouse: Path, tmp_path: Path, name: str) -> None:
        found = explained(warehouse, *EXPLAINED[name])
        # where the files and tables lie is the machine's affair
        followers = [dataclasses.replace(one, folder=f"/brokers/{EXPLAINED[name][0]}", warehouse="warehouse") for one in found.followers]
        text = render(dataclasses.replace(found, followers=tuple(followers)))
        assert all(len(line) <= 80 and line == line.rstrip() and line.isascii() for line in text.splitlines())
        golden = GOLDEN / f"{name}.txt"
        expected = golden.read_text(encoding="utf-8") if golden.is_file() else ""
        if text != expected:
            actual = tmp_path / golden.name
            actual.write_text(text, encoding="utf-8")
            difference = "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), str(golden), str(actual), lineterm=""))
            pytest.fail(f"explained otherwise, see {actual}\n{difference}")

    @pytest.mark.parametrize("root", ROOTS)
    def test_it_tells_what_the_brokers_did(self, warehouse: Path, root: str) -> None:
        """Every truncation that real brokers logged, in order, with the leader's answer; every restart; every fetcher that failed."""
        seen = 0
        document = json.loads((DATA / "expected" / f"{root}.json").read_text(encoding="utf-8"))
        for replica in document["replicas"]:
            if not re.fullmatch(TOPICS, replica["topic"]) or replica["replica"] == replica["leader_before"]:
                continue
            found = explained(warehouse, root, f"{replica['topic']}-{replica['partition']}", replica["replica"])
            said = " ".join(render(found).split(": the partition")[0].split())
            place = 0
            for cut in replica["fetcher_truncations"]:
                answer = dict(re.findall(r"(leaderEpoch|endOffset)=(\d+)", cut["leader_answer"]))
                ends = f"epoch {answer['leaderEpoch']} ends at {answer['endOffset']}" if "leaderEpoch" in answer else answer["endOffset"]
                does = f"truncates nothing, its log ends at {cut['offset']}" if cut.get("no_effect") else f"truncates to {cut['offset']}"
                told = re.compile(rf"{re.escape(ends)}\b.*?{does}\b{'' if cut['completed'] else ', asks again'}").search(said, place)
                assert told, (replica["topic"], replica["partition"], cut)
                place, seen = told.end(), seen + 1
            done = [cut["offset"] for cut in replica["fetcher_truncations"] if not cut.get("no_effect")]
            assert (
                (f"according to its server.log It truncated to {done[-1]}, as " in said)
                if done
                else ("according to its server.log" not in said)
            )
            for restart in replica["full_truncations"]:
                assert f"ends at {restart['from_offset']}: empties its log and starts again at {restart['start_at']}" in said
            assert replica["fetcher_failed"] == bool(re.search(r"The fetch from \d+ fails", said))
            if not replica["fetcher_truncations"] and not replica["full_truncations"]:
                assert "truncates to" not in said.split("What is truncated")[0]
        assert seen

    def test_the_command_prints_it(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        asked = ["explain", "--warehouse", str(warehouse), "--partition", "billing-0"]
        assert cli.main(asked) == 0
        assert capsys.readouterr().out == render(explained(warehouse, "committed-loss", "billing-0"))
        assert cli.main([*asked, "--run-id", "first", "--follower", "1", "--cluster", cluster_id("committed-loss")]) == 0

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--partition", "billing-0", "--follower", "2"], "leads billing-0"),
            (["--partition", "billing-0", "--run-id", "second"], "the latest complete runs are: first"),
            (["--partition", "biling-0"], "did you mean billing-0"),
            (["--partition", "billing"], "such as orders-0"),
        ],
    )
    def test_what_is_not_there_is_2_with_a_sentence(
        self, warehouse: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
    ) -> None:
        assert cli.main(["explain", "--warehouse", str(warehouse), *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        assert said in captured.err

    def test_the_job_needs_no_jvm_and_bears_a_closed_pipe(self, warehouse: Path, tmp_path: Path) -> None:
        command = [sys.executable, str(DATA.parents[1] / "jobs" / "explain.py"), "--warehouse", str(warehouse), "--partition", "ledger-0"]
        environment = {"PATH": str(tmp_path), "PYTHONPATH": str(DATA.parents[1] / "lib"), "LC_ALL": "C", "PYTHONWARNINGS": "ignore"}
        whole = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=1200)
        assert (whole.returncode, whole.stderr) == (0, "")
        assert whole.stdout.startswith("What to do\n")
        assert "\n\nledger-0: follower 2 of leader 1\n" in whole.stdout
        read_end, write_end = os.pipe()
        os.close(read_end)
        closed = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path, timeout=1200)
        os.close(write_end)
        assert (closed.returncode, closed.stderr) == (0, "")


def test_every_golden_text_is_compared() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.txt" for name in EXPLAINED}


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["explain", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "./spark-submit.sh explain --partition orders-0 --follower 2" in shown
    assert all(option in shown for option in ("--warehouse", "--run-id", "--cluster"))


@pytest.mark.parametrize("arguments", [[], ["--partition", "orders-0", "--follower", "two"], ["--part", "orders-0"]])
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["explain", *arguments])
    assert ended.value.code == 2
    assert "usage: spark-submit.sh explain" in capsys.readouterr().err


def test_a_warehouse_that_is_none_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--warehouse", str(tmp_path / "missing"), "--partition", "orders-0"]) == 2
    assert "no such directory; give the directory that an audit wrote its tables to (its --warehouse)" in capsys.readouterr().err
    assert not (tmp_path / "missing").exists()
    assert cli.main(["explain", "--warehouse", str(tmp_path), "--partition", "orders-0"]) == 2
    assert "not a warehouse" in capsys.readouterr().err
