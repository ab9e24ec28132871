"""`--progress`: JSON lines that can be followed while a command works, and that never stop it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.commands.progress_file import ProgressFile
from replica_audit.errors import UsageError
from replica_audit.program import VERSION
from replica_audit.progress import Progress, ProgressKind, Stage
from tests.house.checkout import ROOT

SAMPLE = ROOT / "tests" / "data" / "sample"
LOSS = SAMPLE / "committed-loss"
PAGE = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
Lines = list[dict[str, Any]]


def lines_of(text: str) -> Lines:
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def events(lines: Lines) -> list[tuple[str, str | None]]:
    return [(line["event"], line.get("stage")) for line in lines]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process can become larger: writing beyond fails as on a full disk, by the system itself."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def triaged(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    file = tmp_path_factory.mktemp("progress") / "progress.jsonl"
    file.write_text("of the run before\n" * 1000)
    before = datetime.now(UTC)
    assert cli.main(["triage", "--input", str(SAMPLE), "--progress", str(file)]) == 1
    found = lines_of(file.read_text())
    times = [datetime.fromisoformat(line["time"]) for line in found]
    assert before.replace(microsecond=0) <= times[0] and times == sorted(times) and times[-1] <= datetime.now(UTC)
    return found


def test_a_triage_from_its_beginning_to_its_exit_code(triaged: Lines) -> None:
    assert (triaged[0]["event"], triaged[0]["version"]) == ("run-begun", VERSION)
    assert (triaged[-1]["event"], triaged[-1]["exit_code"]) == ("run-ended", 1)
    assert {line["command"] for line in triaged} == {"triage"}
    (run_id,) = {line["run_id"] for line in triaged}
    assert run_id.startswith("triage-")
    clusters = [line["clusters"] for line in triaged if line["event"] == "stage-begun" and line["stage"] == "reading"]
    assert len(clusters) == len(list(SAMPLE.iterdir())), "one after the other"
    assert all(len(one) == 1 for one in clusters)


def test_each_stage_that_begins_ends_before_the_next(triaged: Lines) -> None:
    stages = [one for one in events(triaged) if one[0].startswith("stage-")]
    begun, ended = stages[::2], stages[1::2]
    assert {kind for kind, _stage in begun} == {"stage-begun"}
    assert [("stage-begun", stage) for _kind, stage in ended] == begun
    assert {stage for _kind, stage in begun} == {"listing", "reading", "comparing"}


def test_the_terminal_says_what_the_file_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "progress.jsonl"
    assert cli.main(["triage", "--input", str(LOSS), "--progress", str(file)]) == 1
    told = [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == [line["text"] for line in lines_of(file.read_text()) if "text" in line]
    assert len(told) == 3


def test_a_pipe_is_read_while_the_command_works(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    found: Lines = []
    os.mkfifo(pipe)

    def read() -> None:
        with pipe.open() as stream:
            found.extend(json.loads(line) for line in stream)

    reader = threading.Thread(target=read)
    reader.start()
    while cli.main(["triage", "--input", str(LOSS), "--progress", str(pipe)]) == 2:
        pass  # until the pipe has its reader
    reader.join()
    assert events(found)[0] == ("run-begun", None)
    assert found[-1]["exit_code"] == 1


def test_a_pipe_that_nobody_reads_is_named_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert cli.main(["triage", "--input", str(LOSS), "--progress", str(tmp_path / "pipe")]) == 2
    assert capsys.readouterr().err == (
        f"error: --progress {tmp_path}/pipe: a pipe that nobody reads; start its reader first, or give a file\n"
    )


@pytest.mark.parametrize("command", [["triage"], ["audit"], ["collect", "--log-dir", "nowhere", "--output", "nowhere"]])
@pytest.mark.parametrize(("place", "why"), [("nowhere/x", "not a file in an existing directory"), (".", "not a file")])
def test_a_file_that_cannot_be_written_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], place: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, "--progress", str(tmp_path / place)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: --progress {tmp_path}") and why in told
    assert list(tmp_path.iterdir()) == []


def test_an_error_ends_the_file_too(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    (tmp_path / "empty").mkdir()
    assert cli.main(["triage", "--input", str(tmp_path / "empty"), "--progress", str(file)]) == 2
    last = lines_of(file.read_text())[-1]
    assert (last["event"], last["exit_code"]) == ("run-ended", 2)
    assert str(tmp_path / "empty") in last["error"]


def test_a_device_that_is_full_is_warned_of_once_and_the_command_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--input", str(LOSS), "--progress", "/dev/full"]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert told == [
        "warning: --progress /dev/full: No space left on device; the work goes on, and this file lacks what could not be written"
    ]


def test_a_disk_that_is_full_for_a_while_leaves_whole_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "progress.jsonl"
    file = ProgressFile(path, "audit", "r")
    progress = Progress(file.take)
    progress.begin(Stage.READING, "first")
    with room_for(path.stat().st_size + 40):
        progress.say("lost, of which forty bytes fit")
        progress.say("lost, too")
    assert lines_of(path.read_text())[-1]["text"] == "first"
    progress.say("last")
    file.end(0)
    assert [line.get("text") for line in lines_of(path.read_text())] == [None, "first", "last", None]
    assert capsys.readouterr().err.count("warning") == 1


def test_a_reader_that_does_not_keep_up_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    file = ProgressFile(pipe, "audit", "r")
    progress = Progress(file.take)
    for number in range(3000):
        progress.count(number, 3000, "tasks")
    file.end(0)
    assert "its reader does not keep up" in capsys.readouterr().err
    parts = []
    while part := os.read(reader, 1 << 16):
        parts.append(part)
    os.close(reader)
    assert len(lines_of(b"".join(parts).decode())) > 100


def test_a_reader_that_went_away_does_not_end_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    file = ProgressFile(pipe, "audit", "r")
    os.close(reader)
    Progress(file.take).say("nobody hears it")
    file.end(0)
    assert "Broken pipe; the work goes on" in capsys.readouterr().err


def test_texts_and_clusters_of_any_kind_stay_lines_that_a_pipe_takes_whole(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    file = ProgressFile(path, "audit", "r")
    progress = Progress(file.take)
    hostile = '"}\n{"exit_code": 0\x1b[2J\u202e\udcff' * 500
    progress.begin(Stage.READING, hostile, clusters=[hostile])
    progress.begin(Stage.WRITING, "x", clusters=["a\nb"])
    file.end(1, hostile)
    text = path.read_text()
    assert max(map(len, text.splitlines())) < 4096
    first, second = (line for line in lines_of(text) if line["event"] == "stage-begun")
    assert (first["text"], "clusters" in first) == (hostile[:500], False)
    assert second["clusters"] == ["a\nb"]


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a file in an existing directory"):
        ProgressFile(tmp_path, "audit", None)


@pytest.mark.slow
def test_a_collection_is_followed_while_it_reads_and_ended(tmp_path: Path) -> None:
    """It reads so slowly that it is at work whenever this looks."""
    file = tmp_path / "progress.jsonl"
    data = LOSS / "broker-1" / "data-0"
    command = ["collect", "--log-dir", data, "--output", tmp_path / "out", "--rate-limit", "1000", "--progress", file]
    run = "import sys; from replica_audit.cli import run; run(sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", run, *map(str, command)], env={**os.environ, "PYTHONPATH": str(ROOT / "lib")})
    try:
        with file.open("w+") as follows:
            found: Lines = []
            while not any(line["event"] == "counted" for line in found):
                assert process.poll() is None
                time.sleep(0.05)
                found += [json.loads(line) for line in follows.readlines()]
        assert process.poll() is None, "it is at work"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    finally:
        process.kill()
        process.wait()
    (counted, *_more) = (line for line in found if line["event"] == "counted")
    assert (counted["stage"], counted["unit"]) == ("collecting", "replicas")
    assert 0 <= counted["done"] < counted["total"]
    assert counted["bytes_read"] > 0
    assert "run_id" not in counted
    last = lines_of(file.read_text())[-1]
    assert (last["event"], last["exit_code"], last["error"]) == ("run-ended", 143, "interrupted")


def test_nothing_is_written_to_a_log_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    shutil.copytree(LOSS / "broker-1" / "data-0", data)
    (tmp_path / "link").symlink_to(data)
    before = sorted(data.rglob("*"))
    for place in (data / "progress", tmp_path / "link" / "progress"):
        assert cli.main(["collect", "--log-dir", str(data), "--output", str(tmp_path / "out"), "--progress", str(place)]) == 2
        assert capsys.readouterr().err == f"error: --progress {place}: lies in the log directory {data}; give a file outside of it\n"
    assert (sorted(data.rglob("*")), (tmp_path / "out").exists()) == (before, False)


def test_what_did_not_change_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    file = ProgressFile(path, "audit", "r")
    progress = Progress(file.take)
    progress.begin(Stage.READING)
    for done in (1, 1, 2, 2, 1):
        progress.count(done, 8, "tasks")
    file.end(0)
    assert [line["done"] for line in lines_of(path.read_text()) if line["event"] == "counted"] == [1, 2, 1]


def test_the_page_names_every_event_and_stage(triaged: Lines) -> None:
    assert not [kind for kind in (*ProgressKind, "run-begun", "run-ended") if f"`{kind}`" not in PAGE]
    assert not [stage for stage in Stage if f"`{stage}`" not in PAGE]
    assert not [name for line in triaged for name in line if f"`{name}`" not in PAGE]
