"""The command: what it says, where, and what it ends with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.commands import collect as command
from tests.formats import kafka_files as kf

ROOT = Path(__file__).resolve().parents[2]
BROKER = ROOT / "tests" / "data" / "sample" / "committed-loss" / "broker-1"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests keeps its priority."""
    monkeypatch.setattr("replica_audit.collect.pace.lower_priority", lambda: None)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BROKER / "data-0", tmp_path / "data"))


def run(tmp_path: Path, *arguments: object) -> int:
    return cli.main(["collect", "--output", str(tmp_path / "out"), *map(str, arguments)])


def test_what_a_user_sees(tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--log-dir", log_dir) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path}/out/broker-1\n"
    assert re.search(r"^\[ +\d+\.\d s\] broker 1: 1 log directory\n", captured.err)
    assert re.search(r"^collected 7 segments of 7 replicas, 0\.0 MB read$", captured.err, re.MULTILINE)


def test_what_could_not_be_read_is_told_and_is_3(tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = log_dir / "billing-0" / "00000000000000000000.log"
    segment.unlink()
    segment.mkdir()
    assert run(tmp_path, "--log-dir", log_dir) == 3
    assert f"not read: {segment}: is not a regular file\n" in capsys.readouterr().err


def test_a_folder_of_log_directories_is_no_log_directory(tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--log-dir", log_dir.parent, "--broker-id", "1") == 2
    told = f"error: --log-dir {log_dir.parent}: is not a log directory, but holds one; give --log-dir {log_dir}\n"
    assert capsys.readouterr().err == told
    assert not (tmp_path / "out" / "broker-1").exists()


def test_server_properties_and_several_log_directories(tmp_path: Path, log_dir: Path) -> None:
    (tmp_path / "other" / "data").mkdir(parents=True)
    (tmp_path / "other" / "data" / "meta.properties").write_bytes((log_dir / "meta.properties").read_bytes())
    properties = tmp_path / "server.properties"
    properties.write_text(f"node.id=1\nlog.dirs={log_dir},{tmp_path}/other/data\n")
    assert run(tmp_path, "--server-properties", properties) == 0
    document = json.loads((tmp_path / "out" / "broker-1" / "manifest.json").read_text())
    assert [(one["folder"], one["path"]) for one in document["log_dirs"]] == [
        ("data", str(log_dir)),
        ("data.2", str(tmp_path / "other" / "data")),
    ]


def test_options_reach_the_collection(tmp_path: Path, log_dir: Path) -> None:
    options = ["--topics", "billing", "--no-batch-index", "--no-verify-crc", "--rate-limit", "1.5M", "--group-offsets-limit", "0"]
    assert run(tmp_path, "--log-dir", log_dir, *options) == 0
    folder = tmp_path / "out" / "broker-1"
    document = json.loads((folder / "manifest.json").read_text())
    assert document["options"] == {
        "verify_crc": False,
        "batch_index": False,
        "rate_limit": 1_572_864,
        "topics": "billing",
        "group_offsets_limit": 0,
        "since": None,
        "verify_within_s": None,
        "time_limit_s": None,
    }
    assert not (folder / "data" / "batches").exists()
    replicas = {replica["directory"]: replica["is_copied"] for replica in document["log_dirs"][0]["replicas"]}
    assert replicas["__cluster_metadata-0"] is True
    assert replicas["__consumer_offsets-0"] is False
    assert not [name for name in replicas if not re.match("billing-|__", name)]


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("7", 7), ("1K", 1024), ("1k", 1024), ("2M", 2 << 20), ("1.5G", 3 << 29), ("3MB", 3 << 20), ("3MiB", 3 << 20), (" 5 ", 5)],
)
def test_sizes(text: str, size: int) -> None:
    assert command._size(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("90m", 5400), ("1.5h", 5400), ("30d", 2_592_000), (" 2D ", 172_800)])
def test_durations(text: str, seconds: int) -> None:
    assert command._duration(text) == seconds


class TestWrongUsage:
    """Exit code 2 and a message that says what to do; nothing is written."""

    def refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
        before = sorted(tmp_path.rglob("*"))
        try:
            assert run(tmp_path, *arguments) == 2
        except SystemExit as ended:
            assert ended.code == 2
        assert [path for path in sorted(tmp_path.rglob("*")) if path not in before and path.name != "out"] == []
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert captured.out == ""
        return captured.err

    def test_neither_or_both(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "either every --log-dir" in self.refused(tmp_path, capsys)
        both = ["--log-dir", log_dir, "--server-properties", tmp_path / "x"]
        assert "either every --log-dir" in self.refused(tmp_path, capsys, *both)

    def test_no_output(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            cli.main(["collect", "--log-dir", str(BROKER)])
        assert ended.value.code == 2
        assert "--output" in capsys.readouterr().err

    @pytest.mark.parametrize("size", ["", "fast", "-1", "1T", "1.5.5M", "0x10"])
    def test_sizes_that_are_none(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str], size: str) -> None:
        assert "is not a size" in self.refused(tmp_path, capsys, "--log-dir", log_dir, f"--rate-limit={size}")

    @pytest.mark.parametrize("text", ["", "30", "0s", "0.5s", "-1d", "1w", "99999999d", "٣d"])
    def test_durations_that_are_none(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
        assert "is not a duration" in self.refused(tmp_path, capsys, "--log-dir", log_dir, f"--verify-within={text}")

    def test_verifying_of_nothing(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "this is for what --since reuses" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--verify-within", "30d")
        assert "it limits --verify-within" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--time-limit", "2h")

    def test_a_rate_of_nothing(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "at least one byte" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--rate-limit", "0")

    def test_a_bad_expression(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "not a regular expression" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--topics", "(")

    def test_a_directory_that_is_none(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        missing, file = tmp_path / "missing", log_dir / "meta.properties"
        assert f"{missing}: no such directory" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--log-dir", missing)
        assert f"{file}: is not a directory" in self.refused(tmp_path, capsys, "--log-dir", file)

    def test_a_directory_that_is_no_brokers(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        empty = tmp_path / "photos"
        empty.mkdir()
        (empty / "cat.jpg").write_bytes(b"\xff\xd8")
        assert "which broker is it" in self.refused(tmp_path, capsys, "--log-dir", empty)
        assert "no log directory of a broker" in self.refused(tmp_path, capsys, "--log-dir", empty, "--broker-id", "1")

    @pytest.mark.parametrize("broker_id", ["one", "-1", "2147483648", "٣"])
    def test_an_id_that_is_none(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str], broker_id: str) -> None:
        assert "not the id" in self.refused(tmp_path, capsys, "--log-dir", log_dir, f"--broker-id={broker_id}")

    def test_one_directory_twice(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        link = tmp_path / "link"
        link.symlink_to(log_dir)
        assert "are one directory" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--log-dir", link)

    def test_several_brokers_or_clusters(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = BROKER.with_name("broker-2") / "data-0"
        assert "says broker 1 and" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--log-dir", other)
        assert "--broker-id says broker 7" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--broker-id", "7")
        third = tmp_path / "third"
        third.mkdir()
        (third / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={kf.CLUSTER_ID}\n")
        assert f"says cluster {kf.CLUSTER_ID}" in self.refused(tmp_path, capsys, "--log-dir", log_dir, "--log-dir", third)

    @pytest.mark.parametrize(
        ("content", "says"), [(b"log.dirs=data", "relative"), (b"node.id=x", "line 1"), (b"\xff", "not text"), (None, "No such file")]
    )
    def test_server_properties(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, says: str) -> None:
        file = tmp_path / "server.properties"
        if content is not None:
            file.write_bytes(content)
        error = self.refused(tmp_path, capsys, "--server-properties", file)
        assert says in error
        assert str(file) in error

    def test_an_output_in_a_log_directory(self, tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["collect", "--log-dir", str(log_dir), "--output", str(log_dir)]) == 2
        assert "lies in the log directory" in capsys.readouterr().err


def test_help_has_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["collect", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(option.flag in shown for option in command.COMMAND.options)
    lines = shown.replace("\\\n", "").splitlines()
    examples = [line.split()[2:] for line in lines if line.startswith("  ./spark-submit.sh collect ")]
    assert len(examples) == 4
    for example in examples:
        cli.parser(command.COMMAND).parse_args([part.strip("'") for part in example])


def test_neither_spark_nor_what_it_needs_is_imported(tmp_path: Path, log_dir: Path) -> None:
    """A broker's memory and seconds are not ours."""
    script = (
        "import sys; from replica_audit.cli import main; code = main(sys.argv[1:]); "
        "print([name for name in ('pyspark', 'py4j', 'pandas', 'delta', 'pydantic', 'numba', 'kafka', 'jinja2') if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, "collect", "--log-dir", str(log_dir), "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "lib")},
    )
    assert process.stdout.splitlines()[-1] == "[]"
