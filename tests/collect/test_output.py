"""Where a collection appears: whole or not at all, and never over anything else."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replica_audit.collect import CollectRequest, collect
from replica_audit.errors import OutputError, UsageError
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import Problem
from replica_audit.storage.inputs.sources import discover
from tests.collect.collections import quietly, small_files

ROOT = Path(__file__).resolve().parents[2]
LOG_DIR = ROOT / "tests" / "data" / "sample" / "committed-loss" / "broker-1" / "data-0"
JOB = [sys.executable, str(ROOT / "jobs" / "collect.py")]


def taken(output: Path, **options: object) -> Path:
    return collect(CollectRequest(output=output, log_dirs=(LOG_DIR,), **options), quietly).folder  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory without a metadata log, which would be read before all else."""
    made = tmp_path_factory.mktemp("source") / "data-0"
    shutil.copytree(LOG_DIR, made, ignore=shutil.ignore_patterns("__cluster_metadata-0"))
    return made


def start(source: Path, output: Path) -> subprocess.Popen[str]:
    """A collection so slow, of minutes, that it can be caught at work."""
    command = [*JOB, "--log-dir", str(source), "--output", str(output), "--rate-limit", "200"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT / "lib")})


def wait_until_at_work(output: Path) -> Path:
    unfinished = output / ".broker-1.collecting"
    until = time.monotonic() + 1200  # it lets every other process have the CPU first
    while time.monotonic() < until:
        if (unfinished / "data-0" / "__consumer_offsets-0").exists():
            return unfinished
        time.sleep(0.05)
    raise AssertionError("it does not begin")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_collection_is_whole(tmp_path: Path) -> None:
    folder = taken(tmp_path)
    assert folder == tmp_path / "broker-1"
    assert names(tmp_path) == ["broker-1"]
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["broker_id"], manifest["cluster_id"]) == (1, "tGgMi5ChQQaP400G_KG93g")
    (log_dir,) = manifest["log_dirs"]
    assert (log_dir["path"], log_dir["folder"], log_dir["directory_id"]) == (str(LOG_DIR), "data-0", "Iqjc6DlwvgL2qo6oBgVxbQ")
    assert manifest["started_at"] <= min(replica["captured_at"] for replica in log_dir["replicas"]) <= manifest["finished_at"]
    for name in log_dir["files"]:
        assert (folder / "data-0" / name).read_bytes() == (LOG_DIR / name).read_bytes()
    for replica in log_dir["replicas"]:
        assert (folder / "data-0" / replica["directory"]).exists() == replica["is_copied"]
        for name in replica["files"]:
            assert small_files(folder)[replica["directory"]][name] == (LOG_DIR / replica["directory"] / name).read_bytes()
    whole = {replica["directory"] for replica in log_dir["replicas"] if replica["is_copied"]}
    assert whole == {"__cluster_metadata-0", *(f"__consumer_offsets-{number}" for number in range(3))}
    for directory in whole:
        source = {path.name: path.read_bytes() for path in (LOG_DIR / directory).iterdir()}
        copied = {path.name: path.read_bytes() for path in (folder / "data-0" / directory).iterdir()}
        assert not copied.keys() & small_files(folder)[directory].keys()
        assert {**copied, **small_files(folder)[directory]} == source


class TestWhatIsThereAlready:
    """An output that is not empty."""

    def test_a_collection_stays_unless_it_is_to_be_replaced(self, tmp_path: Path) -> None:
        folder = taken(tmp_path)
        before = (folder / "manifest.json").stat()
        with pytest.raises(UsageError, match="--replace"):
            taken(tmp_path)
        assert (folder / "manifest.json").stat().st_ino == before.st_ino
        assert names(tmp_path) == ["broker-1"]
        taken(tmp_path, replace=True)
        assert (folder / "manifest.json").stat().st_ino != before.st_ino
        assert names(tmp_path) == ["broker-1"]

    @pytest.mark.parametrize("content", [None, b"", b"{}", b'{"format": "photos"}'])
    def test_anything_else_is_never_touched(self, tmp_path: Path, content: bytes | None) -> None:
        mine = tmp_path / "broker-1" / "mine"
        mine.mkdir(parents=True)
        if content is not None:
            (tmp_path / "broker-1" / "manifest.json").write_bytes(content)
        with pytest.raises(UsageError, match="is not a collection"):
            taken(tmp_path, replace=True)
        assert mine.exists()
        assert names(tmp_path) == ["broker-1"]

    def test_other_brokers_and_files_stay(self, tmp_path: Path) -> None:
        (tmp_path / "broker-2").mkdir()
        (tmp_path / "cluster-metadata.json").write_text("{}")
        taken(tmp_path)
        assert names(tmp_path) == ["broker-1", "broker-2", "cluster-metadata.json"]

    def test_a_replacement_that_was_killed_is_undone_or_done(self, tmp_path: Path) -> None:
        folder, aside = taken(tmp_path), tmp_path / ".broker-1.collecting.replaced"
        folder.rename(aside)  # killed between the two renames
        with pytest.raises(UsageError, match="--replace"):
            taken(tmp_path)
        assert names(tmp_path) == ["broker-1"]
        shutil.copytree(folder, aside)  # killed after them
        taken(tmp_path, replace=True)
        assert names(tmp_path) == ["broker-1"]

    def test_the_output_must_not_be_where_the_broker_would_find_it(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "data"
        shutil.copytree(LOG_DIR, log_dir)
        (tmp_path / "link").symlink_to(log_dir)
        before = names(log_dir)
        for output in (log_dir, log_dir / "deeper", tmp_path / "link"):
            with pytest.raises(UsageError, match="log directory"):
                collect(CollectRequest(output=output, log_dirs=(log_dir,)), quietly)
        assert names(log_dir) == before
        inside = tmp_path / "out" / "broker-1" / "data"
        shutil.copytree(LOG_DIR, inside)
        with pytest.raises(UsageError, match="lies in"):
            collect(CollectRequest(output=tmp_path / "out", log_dirs=(inside,), replace=True), quietly)
        assert inside.exists()


class TestRunsThatEndEarly:
    """Killed, interrupted, without room."""

    def test_a_killed_run_leaves_nothing_that_counts(self, source: Path, tmp_path: Path) -> None:
        with start(source, tmp_path) as process:
            unfinished = wait_until_at_work(tmp_path)
            process.kill()
        assert names(tmp_path) == [unfinished.name]
        found = discover([str(tmp_path)])
        assert not found.roots
        assert "incomplete-collection" in {problem.code for _cluster, problem in found.problems}
        renamed = tmp_path / "renamed" / "broker-1"  # even if somebody takes it for what it is not
        renamed.parent.mkdir()
        shutil.copytree(unfinished, renamed)
        codes = [one.code if isinstance(one, Problem) else type(one).__name__ for one in replicas_of(renamed)]
        assert codes == ["incomplete-collection"]
        shutil.rmtree(renamed.parent)
        taken(tmp_path)
        assert names(tmp_path) == ["broker-1"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_an_interrupted_run_takes_everything_away(self, source: Path, tmp_path: Path, number: signal.Signals) -> None:
        with start(source, tmp_path) as process:
            wait_until_at_work(tmp_path)
            process.send_signal(number)
            out, err = process.communicate(timeout=1200)
        assert process.returncode == 128 + number
        assert err.endswith("interrupted: nothing was collected\n")
        assert "Traceback" not in err
        assert out == ""
        assert names(tmp_path) == []

    def test_two_runs_do_not_write_to_one_place(self, source: Path, tmp_path: Path) -> None:
        with start(source, tmp_path) as process:
            unfinished = wait_until_at_work(tmp_path)
            with pytest.raises(UsageError, match="another collect"):
                taken(tmp_path, replace=True)
            assert process.poll() is None
            assert unfinished.exists()
            process.kill()

    @pytest.mark.parametrize("size", [0, 200, 2_000, 6_000])
    def test_a_full_disk_is_an_error_of_the_output(self, tmp_path: Path, size: int) -> None:
        """Not of the broker's files, and without a trace of what had been written."""
        process = subprocess.run(
            [*JOB, "--log-dir", str(LOG_DIR), "--output", str(tmp_path)],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(ROOT / "lib")},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
            timeout=1200,
            check=False,
        )
        assert process.returncode == 2
        assert "cannot be written" in process.stderr
        assert "Traceback" not in process.stderr
        assert names(tmp_path) == []

    def test_a_disk_that_the_broker_needs_is_not_filled(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.statvfs

        def almost_full(path: Path) -> os.statvfs_result:
            found = list(real(path))
            found[4] = 10  # f_bavail
            return os.statvfs_result(found)

        monkeypatch.setattr(os, "statvfs", almost_full)
        log_dir = tmp_path / "data"
        shutil.copytree(LOG_DIR, log_dir)
        with pytest.raises(OutputError, match="less than 1 GiB"):
            collect(CollectRequest(output=tmp_path / "out", log_dirs=(log_dir,)), quietly)
        assert names(tmp_path / "out") == []

    def test_an_output_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(OutputError, match="cannot be written"):
            taken(tmp_path / "file")
