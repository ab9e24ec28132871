"""An audit that is watched: what its webhook is told, what its progress and its log say, and that none of it changes how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from replica_audit import cli
from replica_audit.program import VERSION
from replica_audit.webhook import posting
from replica_audit.webhook.posting import VARIABLE
from tests.house.checkout import ROOT
from tests.support.before_spark import before_spark
from tests.webhook.service import SECRET, Service, answer, service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = ROOT / "tests" / "data" / "sample"
CLUSTER = SAMPLE / "multi-round"
ON = "REPLICA_AUDIT__WEBHOOK_ON"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "_PAUSE_S", 0.0)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A webhook that is told of every run."""
    with service() as one:
        monkeypatch.setenv(VARIABLE, one.url)
        monkeypatch.setenv(ON, "always")
        yield one


@pytest.fixture(scope="module")
def warehouse(empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("watched") / "warehouse"
    shutil.copytree(empty_warehouse, made)
    return made


def holds_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.spark
class TestWatched:
    """In one warehouse, run by run."""

    def test_a_run_is_posted_followed_and_named(
        self, spark: SparkSession, warehouse: Path, hook: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert spark.version
        progress, page = tmp_path / "progress.jsonl", tmp_path / "page.html"
        options = ["--run-id", "first", "--progress", str(progress), "--html", str(page)]
        assert cli.main(["audit", "--input", str(CLUSTER), "--warehouse", str(warehouse), *options]) == 1
        (document,) = hook.documents
        (row,) = DeltaTable(str(warehouse / "audit_runs")).to_pyarrow_table().to_pylist()
        assert (document["run_id"], document["exit_code"], document["html"]) == ("first", 1, str(page))
        assert document["clusters"][0]["verdicts"] == dict(row["verdict_counts"])
        assert document["findings"]["count"] == document["findings"]["new"] == len(document["worst"])
        assert json.loads(row["config"])["webhook_on"] == "always"
        said = capsys.readouterr()
        assert not holds_secret(tmp_path) + holds_secret(warehouse)
        assert SECRET not in said.out + said.err
        assert said.err.startswith(f"[first] run first of audit {VERSION}\n")
        assert not [line for line in said.err.splitlines() if not line.startswith("[first] ")]
        lines = [json.loads(line) for line in progress.read_text().splitlines()]
        stages = [line["stage"] for line in lines if line["event"] == "stage-begun"]
        assert stages == [line["stage"] for line in lines if line["event"] == "stage-ended"]
        assert stages == ["preparing", "listing", "reading", "writing"]
        assert {line["run_id"] for line in lines} == {"first"}
        assert {tuple(line["clusters"]) for line in lines if "stage" in line} == {(row["cluster_id"],)}
        assert (lines[-1]["event"], lines[-1]["exit_code"]) == ("run-ended", 1)
        reading = next(line for line in lines if line.get("stage") == "reading")
        assert (reading["replicas"], reading["segments"] > 0, reading["bytes"] > 0) == (row["replicas"], True, True)

    def test_spark_itself_logs_lines_that_name_the_run(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
        layout = context.getConfiguration().getAppender("console").getLayout()
        message = jvm.org.apache.logging.log4j.message.SimpleMessage("something is wrong")
        event = jvm.org.apache.logging.log4j.core.impl.Log4jLogEvent.newBuilder().setMessage(message).setLoggerName("o.Some").build()
        assert layout.toSerializable(event).startswith("[first] 2")
        jvm.System.clearProperty("replica_audit.run")
        assert layout.toSerializable(event).startswith("2")

    @pytest.mark.nightly
    def test_a_person_at_a_terminal_sees_the_id_once_and_nobody_is_told_of_what_they_did_not_ask_for(
        self, spark: SparkSession, warehouse: Path, hook: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert spark.version
        monkeypatch.setenv(ON, "findings")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setenv("TERM", "dumb")  # no bar, which would be drawn elsewhere
        assert cli.main(["audit", "--input", str(SAMPLE / "clean-in-sync"), "--warehouse", str(warehouse), "--run-id", "second"]) == 0
        first, *others = capsys.readouterr().err.splitlines()
        assert first == f"run second of audit {VERSION}"
        assert others and all(line.startswith("[ ") for line in others)
        assert hook.documents == []

    @pytest.mark.nightly
    def test_a_webhook_that_fails_is_a_warning_of_its_host(
        self, spark: SparkSession, warehouse: Path, hook: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert spark.version
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # and does not listen
            monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{held.getsockname()[1]}/{SECRET}")
            assert cli.main(["audit", "--input", str(CLUSTER), "--warehouse", str(warehouse), "--run-id", "third"]) == 1
        said = capsys.readouterr().err
        assert said.splitlines()[-1] == (
            "[third] warning: webhook at 127.0.0.1: cannot be connected to (Connection refused), 3 times; the exit code stays 1"
        )
        assert hook.documents == []

    def test_what_persists_and_what_is_written_in_vain(self, spark: SparkSession, warehouse: Path, hook: Service) -> None:
        """The run counts though a file cannot be written, and that the command failed is told, too."""
        assert spark.version
        options = ["--run-id", "fourth", "--json", "/dev/full"]
        assert cli.main(["audit", "--input", str(CLUSTER), "--warehouse", str(warehouse), *options]) == 2
        complete, failed = hook.documents
        assert (complete["outcome"], complete["exit_code"], complete["findings"]["new"]) == ("findings", 1, 0)
        assert complete["findings"]["persisting"] == complete["findings"]["count"] > 0
        assert (failed["outcome"], failed["exit_code"], failed["run_id"]) == ("failed", 2, "fourth")
        assert failed["error"] == "--json /dev/full: No space left on device; give a file that can be written"


@pytest.mark.parametrize("enter", [before_spark, cli.main])
@pytest.mark.parametrize(("when", "posts"), [("failure", 1), ("problems", 1), ("findings", 0)])
def test_an_input_that_is_not_there_is_posted_once(
    hook: Service, monkeypatch: pytest.MonkeyPatch, enter: Any, when: str, posts: int
) -> None:
    """Before Spark starts, and by the command itself."""
    monkeypatch.setenv(ON, when)
    assert enter(["audit", "--input", "/nowhere"]) == 2
    assert [one["outcome"] for one in hook.documents] == ["failed"] * posts
    assert all("/nowhere: does not exist" in one["error"] for one in hook.documents)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({VARIABLE: f"nonsense {SECRET}"}, f"{VARIABLE}: must hold one address"),
        ({"REPLICA_AUDIT__WEBHOOK_URL_FILE": "/nowhere/file"}, "webhook_url_file /nowhere/file: No such file or directory"),
        ({ON: "never"}, "key 'webhook_on'"),
    ],
)
def test_a_wrong_webhook_ends_the_command_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["audit", "--input", str(CLUSTER), "--warehouse", str(tmp_path / "w")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and said in told and SECRET not in told
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_would_cost_is_posted_to_nobody(hook: Service) -> None:
    assert cli.main(["audit", "--input", str(CLUSTER), "--cost"]) == 0
    assert cli.main(["audit", "--input", "/nowhere", "--cost"]) == 2
    assert hook.documents == []


def test_help_shows_no_address(hook: Service, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["audit", "--help"])
    assert SECRET not in capsys.readouterr().out
    assert hook.documents == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("sent", "exit_code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly), (signal.SIGTERM, 143)])
def test_an_interrupted_run_is_posted_and_no_process_shows_the_address(tmp_path: Path, sent: signal.Signals, exit_code: int) -> None:
    """Once it says that it has begun."""
    pipe = tmp_path / "progress"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)  # the pipe has a reader from the beginning
    lines: list[dict[str, Any]] = []
    listed: list[str] = []

    def follow(group: int) -> None:
        with pipe.open() as stream:
            for line in stream:
                lines.append(json.loads(line))
                if lines[-1]["event"] == "stage-begun" and lines[-1]["stage"] == "preparing":
                    listed.extend(command_lines(group))
                    os.killpg(group, sent)
                if lines[-1]["event"] == "run-ended":
                    return

    with service(answer(500), answer(200)) as one:
        options = ["--input", CLUSTER, "--warehouse", tmp_path / "w", "--run-id", "r", "--progress", pipe]
        process = subprocess.Popen(
            [ROOT / "spark-submit.sh", "audit", *map(str, options)],
            env={**os.environ, VARIABLE: one.url, ON: "failure", "SPARK_MASTER": "local[1]"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            follower = threading.Thread(target=follow, args=(process.pid,), daemon=True)
            follower.start()
            out, err = process.communicate()
        finally:
            os.close(held)  # so that who follows comes to an end, whatever was written
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        follower.join()
    assert process.returncode == exit_code, err
    assert "Traceback" not in err
    assert "[r] interrupted: the run is not complete, its rows do not count" in err.splitlines()
    assert Counter(one_document["outcome"] for one_document in one.documents) == {"interrupted": 2}, "the second try was taken"
    assert (lines[-1]["exit_code"], lines[-1]["error"]) == (exit_code, "interrupted")
    assert len(listed) >= 2, "the command and the JVM"
    assert SECRET not in out + err + "".join(listed)
    assert not holds_secret(tmp_path)


def command_lines(session: int) -> list[str]:
    """What a listing of processes shows of those of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == session:
                found.append((path / "cmdline").read_text(errors="replace"))
    return found
