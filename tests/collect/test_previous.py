"""What `--since` names may be anything: a folder of another broker is refused; what is damaged is read again, and never believed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica_audit import cli
from replica_audit.collect import CollectRequest, CollectResult, collect
from replica_audit.collect.file_identity import ReadCause
from replica_audit.collect.previous import ROOMS, reading_code
from replica_audit.errors import UsageError
from replica_audit.formats.collection.collected_rows import ROWS
from replica_audit.formats.collection.manifest import MANIFEST, SEGMENTS_FILE, SMALL_FILES_FILE
from tests.collect.collections import resealed
from tests.collect.nights import Broker, at_rest, held, taken
from tests.formats import kafka_files as kf
from tests.formats.rights import as_nobody, open_to_all

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _at_rest() -> Iterator[None]:
    with at_rest():
        yield


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "data", segments=3)


def since(broker: Broker, previous: Path, output: Path) -> tuple[CollectResult, list[str]]:
    """A collection since an earlier one, and what it said."""
    lines: list[str] = []
    return collect(CollectRequest(output=output, log_dirs=(broker.path,), since=previous), lambda event: lines.append(event.text)), lines


def change_manifest(folder: Path, **values: Any) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_bytes(resealed({**document, **values}))


class TestNotUsed:
    """A nightly job goes on: every segment is read, and one line says why."""

    def all_read(self, broker: Broker, previous: Path, tmp_path: Path, says: str) -> None:
        result, lines = since(broker, previous, tmp_path / "second")
        assert result.manifest.read_because[ReadCause.NO_PREVIOUS] == len(broker.sealed())
        assert result.manifest.counts["segments_taken_over"] == 0
        (line,) = [line for line in lines if "every segment is read" in line]
        assert says in line
        assert held(result) == held(taken(broker.path, tmp_path / "full"))

    @pytest.mark.parametrize("makes", [lambda _path: None, lambda path: path.mkdir(), lambda path: (path / "broker-7").mkdir(parents=True)])
    def test_none_yet(self, broker: Broker, tmp_path: Path, makes: Callable[[Path], None]) -> None:
        makes(tmp_path / "nightly")
        self.all_read(broker, tmp_path / "nightly", tmp_path, "no collection of broker 1 yet")

    def test_no_manifest(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        (first / MANIFEST).unlink()
        self.all_read(broker, tmp_path / "first", tmp_path, f"{first / MANIFEST}: there is none")

    @pytest.mark.parametrize(("content", "says"), [(b"", "not JSON"), (b"{}", "not a manifest"), (b"\xff", "not JSON")])
    def test_a_torn_manifest(self, broker: Broker, tmp_path: Path, content: bytes, says: str) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        (first / MANIFEST).write_bytes(content)
        self.all_read(broker, first, tmp_path, says)

    def test_a_newer_format(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        change_manifest(first, version=3)
        self.all_read(broker, first, tmp_path, "a later one may have made it")

    @pytest.mark.parametrize("code", [None, "0" * 32])
    def test_other_code(self, broker: Broker, tmp_path: Path, code: str | None) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        change_manifest(first, reading_code=code)
        self.all_read(broker, first, tmp_path, "another release")

    def test_another_log_directory(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        broker.path.rename(tmp_path / "moved")
        broker.path = tmp_path / "moved"
        for replica in broker.replicas:
            replica.path = broker.path / replica.name
        self.all_read(broker, first, tmp_path, f"it has no log directory {broker.path}")

    @pytest.mark.parametrize("change", [lambda rows: rows[:-9], lambda rows: rows[:99] + b"x" + rows[100:], lambda _rows: b""])
    def test_torn_rows(self, broker: Broker, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        rows = first / "data" / SEGMENTS_FILE
        rows.write_bytes(change(rows.read_bytes()))
        self.all_read(broker, first, tmp_path, f"{rows}: not what collect wrote")


def test_damaged_small_files_do_not_count(broker: Broker, tmp_path: Path) -> None:
    """They are read again in any case."""
    first = taken(broker.path, tmp_path / "first").folder
    (first / "data" / SMALL_FILES_FILE).write_bytes(b"torn")
    assert taken(broker.path, tmp_path / "second", since=first).manifest.counts["segments_taken_over"] == 4


def test_a_log_directory_that_was_mounted_elsewhere_is_known_by_its_id(broker: Broker, tmp_path: Path) -> None:
    meta = broker.path / "meta.properties"
    meta.write_bytes(meta.read_bytes() + b"directory.id=Iqjc6DlwvgL2qo6oBgVxbQ\n")
    first = taken(broker.path, tmp_path / "first").folder
    broker.path.rename(tmp_path / "moved")
    result = taken(tmp_path / "moved", tmp_path / "second", since=first)
    assert result.manifest.counts["segments_taken_over"] == 4


class TestRefused:
    """What an operator got wrong: exit code 2, and what to give."""

    def refused(self, broker: Broker, previous: Path, tmp_path: Path) -> str:
        with pytest.raises(UsageError) as raised:
            since(broker, previous, tmp_path / "second")
        assert raised.value.exit_code == 2
        assert list((tmp_path / "second").iterdir()) == []
        return str(raised.value)

    def test_another_broker(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        change_manifest(first, broker_id=7)
        assert "is of broker 7, and broker 1 is collected; give one of that broker" in self.refused(broker, first, tmp_path)

    def test_another_cluster(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        change_manifest(first, cluster_id="another")
        assert f"cluster another, and that of cluster {kf.CLUSTER_ID} is collected" in self.refused(broker, first, tmp_path)

    def test_a_file(self, broker: Broker, tmp_path: Path) -> None:
        first = taken(broker.path, tmp_path / "first").folder
        assert "is not a directory" in self.refused(broker, first / MANIFEST, tmp_path)


def files_of(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 12))])
def test_garbage_in_every_file(tmp_path: Path, seed: int) -> None:
    """Never a crash, never a row that a full collection would not have."""
    chance = random.Random(f"garbage {seed}")  # noqa: S311
    broker = Broker(tmp_path / "data", seed, segments=3)
    kf.replica(broker.path, "__consumer_offsets-0")
    kf.segment(broker.path / "__consumer_offsets-0", 2, kf.batch(2, 0))
    first = taken(broker.path, tmp_path / "first").folder
    full = held(taken(broker.path, tmp_path / "full"))
    whole = {path: path.read_bytes() for path in files_of(first)}
    for path, content in whole.items():
        for garbage in mutations(content, chance):
            path.unlink(missing_ok=True)
            if garbage is not None:
                path.write_bytes(garbage)
            try:
                found, _lines = since(broker, first, tmp_path / "second")
            except UsageError as error:
                assert path.name == MANIFEST, error
                continue
            assert held(found) == full
            shutil.rmtree(tmp_path / "second")
        path.write_bytes(content)


def mutations(content: bytes, chance: random.Random) -> Iterator[bytes | None]:
    yield None
    yield b""
    yield content[: chance.randrange(len(content) + 1)]
    for _flip in range(8 if content.startswith(b"{") else 2):
        flipped = bytearray(content)
        if flipped:
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        yield bytes(flipped)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(batch_count=row["batch_count"] + 1),
        lambda row: row.update(runs=None),
        lambda row: row.update(topic="another"),
        lambda row: row.update(windows=[None]),
        lambda row: row.update(name="../../../etc/passwd"),
        lambda row: row.update(identity={**(row["identity"] or {}), "inode": None}),
        lambda row: row.update(kept_crc32c=-1),
        lambda row: row.update(index_bytes=1),
        lambda row: row.update(damaged=None),
        lambda row: row.update(size_bytes=None),
    ],
)
def test_rows_that_somebody_made_up(broker: Broker, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """With the size and the CRC that the manifest has."""
    first = taken(broker.path, tmp_path / "first").folder
    store = first / "data" / SEGMENTS_FILE
    rows = pq.read_table(store).to_pylist()
    for row in rows:
        change(row)
    pq.write_table(pa.Table.from_pylist(rows, schema=ROWS), store)
    document = json.loads((first / MANIFEST).read_text())
    content = store.read_bytes()
    document["log_dirs"][0] |= {"segments_bytes": len(content), "segments_crc32c": crc32c.crc32c(content)}
    (first / MANIFEST).write_bytes(resealed(document))
    result, _lines = since(broker, first, tmp_path / "second")
    assert result.manifest.counts["segments_taken_over"] == 0
    assert held(result) == held(taken(broker.path, tmp_path / "full"))


def test_an_index_that_is_a_link_is_not_taken_over(broker: Broker, tmp_path: Path) -> None:
    first = taken(broker.path, tmp_path / "first").folder
    index = next(first.rglob("batches/*/*.parquet"))
    index.rename(tmp_path / "index")
    index.symlink_to(tmp_path / "index")
    result, _lines = since(broker, first, tmp_path / "second")
    assert result.manifest.read_because[ReadCause.DAMAGED] == 1
    assert not [path for path in files_of(result.folder) if path.is_symlink()]


def open_up(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)


def test_without_the_right_to_read_it() -> None:
    with open_to_all() as parent:
        broker = Broker(parent / "data", segments=3)
        open_up(parent)
        first = taken(broker.path, parent / "first").folder
        open_up(parent / "first")
        (first / MANIFEST).chmod(0)
        result, lines = as_nobody(lambda: since(broker, first, parent / "second"))
        assert [line for line in lines if "Permission denied; every segment is read" in line]
        assert result.manifest.counts["segments_taken_over"] == 0
        (first / MANIFEST).chmod(0o644)
        shutil.rmtree(result.folder)
        result, _lines = as_nobody(lambda: since(broker, first, parent / "second"))
        assert result.manifest.counts["segments_taken_over"] == len(broker.sealed())


def test_the_command(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.collect.pace.lower_priority", lambda: None)
    command = ["collect", "--log-dir", str(broker.path), "--output", str(tmp_path / "out"), "--replace", "--since", str(tmp_path / "out")]
    assert cli.main(command) == 0
    first = capsys.readouterr().err
    assert f"--since {tmp_path}/out: no collection of broker 1 yet; every segment is read\n" in first
    assert "reused: 0 segments; read: 6 (4 no usable earlier collection, 2 newest of a replica)\n" in first
    assert "\noldest CRC check: 20" in first
    assert cli.main(command) == 0
    assert "reused: 4 segments; read: 2 (2 newest of a replica)\n" in capsys.readouterr().err


def test_pandas_is_not_imported(broker: Broker, tmp_path: Path) -> None:
    arguments = ["collect", "--log-dir", str(broker.path), "--output", str(tmp_path), "--replace", "--since", str(tmp_path)]
    script = "import sys; from replica_audit.cli import main; main(sys.argv[1:]); print('pandas' in sys.modules)"
    for _night in range(2):
        process = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "lib")}
        )
        assert process.stdout.splitlines()[-1] == "False"


def test_the_digest_covers_all_that_reading_imports() -> None:
    script = (
        "import sys, replica_audit.collect.segment_rows; print(*sorted(name for name in sys.modules if name.startswith('replica_audit.')))"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "lib")}
    )
    rooms = {name.split(".")[1] for name in process.stdout.split()}
    # how the program was started, and what it says meanwhile
    left_out = {"program", "progress"}
    assert rooms - set(ROOMS) == left_out
    assert len(reading_code()) == 32
    assert all(os.path.lexists(ROOT / "lib/replica_audit" / room) or (ROOT / f"lib/replica_audit/{room}.py").exists() for room in ROOMS)
