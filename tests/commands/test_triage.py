"""`triage`: the answer of an audit, from this process alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import replica_audit
from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from tests.formats.rights import as_nobody, open_to_all
from tests.house.checkout import ROOT
from tests.support.warehouse import write_warehouse

SAMPLE = ROOT / "tests" / "data" / "sample"
LOSS = SAMPLE / "committed-loss"


def triaged(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    cli.main(["triage", *arguments, "--json", str(tmp_path / "triage.json")])
    document: dict[str, Any] = json.loads((tmp_path / "triage.json").read_text())
    return document


def test_a_folder_of_one_broker_alone_costs_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding about a partition that nobody else has: it is explained, and drawn, like any other."""
    root, page = tmp_path / "root", tmp_path / "page.html"
    shutil.copytree(LOSS, root)
    shutil.copytree(root / "broker-1" / "data-0" / "billing-0", root / "broker-1" / "data-0" / "alone-0")
    assert cli.main(["triage", "--input", str(root), "--html", str(page)]) == 1
    assert "alone-0" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["triage", "--input", str(root), "--partition", "alone-0"]) == 1
    assert "There is no follower to explain: only broker 1" in " ".join(capsys.readouterr().out.split())


def test_it_names_no_tables_as_places_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_warehouse(tmp_path / "w", LOSS, settings=Settings(what_if_leaders=True))
    kept = ["report", "--warehouse", str(tmp_path / "w")]
    assert cli.main([*kept, "--format", "text", "--output", str(tmp_path / "kept.txt")]) == 0
    assert cli.main([*kept, "--output", str(tmp_path / "kept.html")]) == 0
    capsys.readouterr()
    assert cli.main(["triage", "--input", str(LOSS), "--what-if-leaders", "--html", str(tmp_path / "here.html")]) == 1
    here = {"text": " ".join(capsys.readouterr().out.split()), "page": (tmp_path / "here.html").read_text(encoding="utf-8")}
    there = {"text": (tmp_path / "kept.txt").read_text(encoding="utf-8"), "page": (tmp_path / "kept.html").read_text(encoding="utf-8")}
    for place, unkept, known in (
        ("text", "unclean elections in the metadata log: 3 (--partition TOPIC-N lists those of a partition)", "(see table leader_epochs)"),
        ("text", "If another replica led (all choices: --partition TOPIC-N)", "(all choices: table what_if_leaders)"),
        ("page", "Not compared with an earlier run.", "Compared with earlier runs: "),
        ("page", "triage writes all with --json.", "All are in the table findings of the warehouse."),
        ("page", "<dd>none; audit writes them</dd>", "</code>, run "),
    ):
        assert unkept in here[place]
        assert known not in here[place]
        assert known in there[place]
        assert unkept not in there[place]


def test_the_summary_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_warehouse(tmp_path / "w", LOSS, settings=Settings())
    assert cli.main(["report", "--warehouse", str(tmp_path / "w"), "--format", "text"]) == 0
    kept = capsys.readouterr().out.split("\nNext: ")[0]
    monkeypatch.chdir(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    assert cli.main(["triage", "--input", str(LOSS)]) == 1
    told = capsys.readouterr()
    summary, ending = told.out.removeprefix("\n").split("\nNext: ")
    # the one place where a run without tables points elsewhere
    assert " ".join(summary.split()) == " ".join(kept.split()).replace(
        "see table leader_epochs", "--partition TOPIC-N lists those of a partition"
    )
    assert ending.endswith("\nExit code 1: there are findings at or above 'error'.\n")
    assert "comparing 18 replicas" in told.err
    assert sorted(path for path in tmp_path.rglob("*")) == before, "nothing is written"


def test_neither_spark_nor_java(tmp_path: Path) -> None:
    code = (
        "import sys; from replica_audit.cli import main; code = main(['triage', '--input', sys.argv[1], '--html', sys.argv[2]]); "
        "print(sorted(name for name in sys.modules if name in ('pyspark', 'delta', 'py4j', 'numba'))); sys.exit(code)"
    )
    environment = {"PATH": "", "JAVA_HOME": "/nowhere", "PYTHONPATH": str(ROOT / "lib")}
    command = [sys.executable, "-c", code, str(LOSS), str(tmp_path / "page.html")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "[]"), done.stderr
    assert "triage --input" in (tmp_path / "page.html").read_text(encoding="utf-8"), "the page names the command that explains"
    assert "explain --warehouse" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_partition_is_explained_as_explain_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path of a warehouse takes two lines
    write_warehouse(tmp_path / "w", LOSS)
    assert cli.main(["explain", "--warehouse", "w", "--partition", "billing-0"]) == 0
    explained = capsys.readouterr().out.splitlines()
    assert cli.main(["triage", "--input", str(LOSS), "--partition", "billing-0"]) == 1
    shown = capsys.readouterr().out.splitlines()
    about_the_run = re.compile(r"\s*(run |tables in )")
    assert [line for line in shown if not about_the_run.match(line)] == [line for line in explained if not about_the_run.match(line)]
    assert not any("tables in" in line for line in shown)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["clean-in-sync"], 0),
        (["committed-loss"], 1),
        (["committed-loss", "--fail-on", "critical"], 1),
        (["elr-election", "--fail-on", "critical"], 0),
        (["committed-loss", "--topics", "no-such-topic"], 2),
        (["alone"], 3),
    ],
)
def test_exit_codes(given: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # without its own log, which alone proves a loss
    shutil.copytree(LOSS / "broker-1", tmp_path / "alone" / "broker-1", ignore=shutil.ignore_patterns("server.log"))
    root = tmp_path if given[0] == "alone" else SAMPLE
    assert cli.main(["triage", "--input", str(root / given[0]), *given[1:]]) == code
    assert f"Exit code {code}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--input", "/no/such/place"], ("there is nothing to audit", "/no/such/place: does not exist; check the path given to --input")),
        (["--input", "{empty}"], ("there is nothing to audit", "the directory is empty")),
        (["--input", "{loss}", "--input", "{copy}"], ("both hold cluster",)),
        (["--input", "{loss}", "--partition", "billing"], ("--partition 'billing': not TOPIC-N",)),
        (["--input", "{loss}", "--partition", "biling-0"], ("--partition biling-0: not in run triage-", "did you mean billing-0?")),
        (["--input", "{loss}", "--html", "{empty}"], ("--html {empty}: not a file in an existing directory",)),
        (["--input", "{loss}", "--json", "/no/such/place/x.json"], ("--json /no/such/place/x.json: not a file",)),
        (["--input", "{loss}", "--cluster-metadata", "/none.json"], ("--cluster-metadata /none.json: no such file",)),
        (["--input", "{loss}", "--protocol", "newest"], ("protocol",)),
    ],
)
def test_what_cannot_work_is_one_line(
    arguments: list[str], words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"empty": tmp_path / "empty", "loss": LOSS, "copy": tmp_path / "copy"}
    places["empty"].mkdir()
    shutil.copytree(LOSS, places["copy"])
    assert cli.main(["triage", *(word.format(**places) for word in arguments)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    error = told.err[told.err.index("error: ") :]
    for part in words:
        assert part.format(**places) in error
    assert "Traceback" not in error


def test_what_may_not_be_read_is_reported_and_the_rest_compared() -> None:
    with open_to_all() as folder:
        shutil.copytree(LOSS, folder / "loss")
        (folder / "written").mkdir()
        (folder / "written").chmod(0o777)
        shut = folder / "loss" / "broker-1" / "data-0" / "billing-0"
        shut.chmod(0)
        document = as_nobody(lambda: triaged(folder / "written", "--input", str(folder / "loss")))
    assert [problem["path"] for problem in document["problems"] if problem["code"] == "cannot-read"] == [str(shut)]
    assert document["clusters"][0]["verdicts"]["committed_loss"] == 2, "of the three partitions the other two"


def test_a_number_that_fits_no_column_is_a_problem(tmp_path: Path) -> None:
    shutil.copytree(LOSS, tmp_path / "loss")
    log = next((tmp_path / "loss").rglob("server.log"))
    with log.open("a", encoding="utf-8") as stream:
        stream.write(
            "[2026-01-02 03:04:05,678] INFO [Partition billing-0 broker=1] Log loaded for partition billing-0 with initial high watermark "
            "30 (kafka.cluster.Partition)\n"
            "[2026-01-02 03:04:05,678] INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition billing-0 with "
            "TruncationState(offset=12, completed=true) due to leader epoch and offset EpochEndOffset(errorCode=0, partition=0, "
            f"leaderEpoch={1 << 40}, endOffset=12) (kafka.server.ReplicaFetcherThread)\n"
        )
    document = triaged(tmp_path, "--input", str(tmp_path / "loss"))
    assert [problem["path"] for problem in document["problems"]] == [str(log)]
    assert document["clusters"][0]["verdicts"]["committed_loss"] == 3


class TestInANotebook:
    def test_a_run_as_of_a_warehouse(self, tmp_path: Path) -> None:
        write_warehouse(tmp_path / "w", LOSS, settings=Settings(what_if_leaders=True))
        kept, here = replica_audit.open_warehouse(str(tmp_path / "w")).latest(), replica_audit.triage(LOSS)
        assert type(here) is type(kept)
        for name in ("verdicts", "truncation_points", "epochs", "what_if_leaders", "consumer_impacts", "roles", "replicas"):
            frames = [getattr(run, name)().drop(columns=["run_id", "run_date"], errors="ignore") for run in (kept, here)]
            assert frames[0].equals(frames[1]), name
        assert here.partitions().equals(kept.partitions())
        assert here.heatmap().to_dict()["layer"]
        explained = here.partition("billing-0")
        assert explained.lineage().to_dict()
        assert len(explained.side_by_side()) == len(kept.partition("billing-0").side_by_side())

    @pytest.mark.parametrize(("given", "words"), [((), "give a directory"), (("/no/such/place",), "does not exist")])
    def test_without_anything_to_audit(self, given: tuple[str, ...], words: str) -> None:
        with pytest.raises(UsageError, match=words):
            replica_audit.triage(*given)


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["triage", "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "exit codes" in told
    assert "./spark-submit.sh triage --input /backup/brokers --partition orders-0" in told


def test_the_launcher_starts_it_without_a_jvm(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "SPARK_SUBMIT_ARGS": ""}
    done = subprocess.run(
        [str(ROOT / "spark-submit.sh"), "--dry-run", "triage", "--input", "x"], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split()[-4:] == [f"{ROOT}/.venv/bin/python", f"{ROOT}/jobs/triage.py", "--input", "x"]
