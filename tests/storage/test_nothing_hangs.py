"""A pipe or a socket in the place of any file of an input, also of one that is being read: it is told, and nothing waits for it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.errors import AuditError
from replica_audit.local_run import triage
from tests.collect.collections import collect_broker, collect_cluster
from tests.formats import kafka_files as kf
from tests.house.checkout import ROOT
from tests.mutation.generated import healthy
from tests.mutation.shapes import text_of

SAMPLE = ROOT / "tests" / "data" / "sample"
UNREAD = {("collected", "quorum-state")}  # no audit looks at it there
MOST_SECONDS = 60  # far more than any of this takes


class HangError(BaseException):
    """Something waits, perhaps for ever; no error of an input."""


@contextmanager
def ending() -> Iterator[None]:
    """An error in the place of waiting for ever."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def whole(folder: Path) -> dict[str, Path]:
    """Clusters that have every kind of file between them: of a stopped cluster, its texts, its collection, and a real one."""
    stopped = healthy(folder / "stopped", "stopped")
    (stopped / "broker-1" / "server.log").write_bytes(
        b"[2026-11-21 05:43:41,716] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
    )
    (stopped / "broker-1" / "data-0" / "orders-0" / f"{0:020d}.snapshot").write_bytes(b"\0\1")
    real = Path(shutil.copytree(SAMPLE / "committed-loss", folder / "real"))
    made = {"raw": stopped, "real": real}
    made["text"] = text_of(stopped, folder / "text")
    made["collected"] = collect_cluster(real, folder / "collected")
    return made


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return whole(tmp_path_factory.mktemp("clusters"))


def of_each_kind(root: Path) -> list[Path]:
    """One file of each kind: of names that differ in their numbers, and in the partition that they are of, one."""
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            kind = re.sub(r"\d+", "N", re.sub(r"/(?!__)[a-z]+-\d+/", "/T/", str(path.relative_to(root))))
            found.setdefault(kind, path)
    return list(found.values())


@contextmanager
def replaced(path: Path, kind: str) -> Iterator[None]:
    """Something else in the place of a file, for a while."""
    kept = path.rename(path.with_name(f"{path.name}.kept"))
    kept = kept.rename(path.parents[1] / f".{path.name}.kept") if path.parents[1].is_dir() else kept
    held = None
    try:
        if kind == "pipe":
            os.mkfifo(path)
        else:
            held = socket.socket(socket.AF_UNIX)
            place = os.open(path.parent, os.O_RDONLY)
            try:
                held.bind(f"/proc/self/fd/{place}/{path.name}")  # the name of a socket is short
            finally:
                os.close(place)
        yield
    finally:
        if held is not None:
            held.close()
        path.unlink(missing_ok=True)
        kept.rename(path)


def said(root: Path) -> tuple[int, str]:
    """The exit code of an audit, and all that it says besides verdicts of what is whole."""
    try:
        done = triage([str(root)], Settings(), tell=lambda _event: None)
    except AuditError as error:
        return error.exit_code, str(error)
    tables = [done.tables.dataset(name) for name in ("findings", "input_errors", "replica_verdicts")]
    rows = [row for table in tables if table is not None for row in table.to_table().to_pylist()]
    runs = done.tables.dataset("audit_runs")
    assert runs is not None
    return runs.to_table()["exit_code"][0].as_py(), repr(rows)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("cluster", ["raw", "real", "text", "collected"])
def test_each_kind_of_file(clusters: dict[str, Path], cluster: str, kind: str) -> None:
    root = clusters[cluster]
    files = of_each_kind(root)
    assert len(files) > 8
    for path in files:
        with replaced(path, kind), ending():
            _exit_code, rows = said(root)
        assert path.name in rows or path.parent.name in rows or (cluster, path.name) in UNREAD, path


def test_a_file_that_becomes_a_pipe_while_it_is_read(clusters: dict[str, Path]) -> None:
    """Swapped all the time by somebody else, each kind of file in turn."""
    root = clusters["raw"]
    for path in of_each_kind(root):
        pipe, kept = root.parent / "pipe", root.parent / "kept"
        os.mkfifo(pipe)
        shutil.copy(path, kept)
        is_over = threading.Event()

        def swap(path: Path = path, pipe: Path = pipe, kept: Path = kept, is_over: threading.Event = is_over) -> None:
            while not is_over.wait(0.0005):
                for other in (pipe, kept):
                    spare = other.with_suffix(".spare")
                    os.link(other, spare)
                    spare.rename(path)

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            with ending():
                said(root)
        finally:
            is_over.set()
            swapping.join()
            kept.unlink()  # `path` is it, or the file of before
            pipe.unlink()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_broker_that_is_collected(tmp_path: Path, clusters: dict[str, Path], kind: str) -> None:
    broker = clusters["raw"] / "broker-1"
    for number, path in enumerate(of_each_kind(broker / "data-0")):
        with replaced(path, kind), ending():
            exit_code = cli.main(
                ["collect", "--log-dir", str(broker / "data-0"), "--broker-id", "1", "--output", str(tmp_path / str(number))]
            )
        assert exit_code in (0, 3), path


def test_an_earlier_collection(tmp_path: Path, clusters: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    broker = clusters["raw"] / "broker-1"
    before = collect_broker(broker, tmp_path / "before").folder
    log_dirs = ["--log-dir", str(broker / "data-0")]
    for number, path in enumerate(of_each_kind(before)):
        with replaced(path, "pipe"), ending():
            exit_code = cli.main(["collect", *log_dirs, "--since", str(before), "--output", str(tmp_path / f"after-{number}")])
        assert exit_code in (0, 2, 3), path
        assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--json", "--html", "--progress", "--termination-message"])
def test_a_pipe_that_nobody_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str) -> None:
    kf.log_dir(tmp_path / "in" / "broker-1", "orders-0")
    os.mkfifo(tmp_path / "pipe")
    with ending():
        assert cli.main(["triage", "--input", str(tmp_path / "in"), flag, str(tmp_path / "pipe")]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {flag} {tmp_path}/pipe: a pipe")


@pytest.mark.parametrize("flag", ["--json", "--html"])
def test_a_pipe_that_somebody_reads(tmp_path: Path, flag: str) -> None:
    kf.log_dir(tmp_path / "in" / "broker-1", "orders-0")
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with ending():
        assert cli.main(["triage", "--input", str(tmp_path / "in"), flag, str(tmp_path / "pipe")]) in (0, 3)
        reader.join()
    (content,) = read
    assert content.startswith(b"{" if flag == "--json" else b"<!")
