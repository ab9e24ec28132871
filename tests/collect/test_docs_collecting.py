"""What docs/collecting.md shows is run, in the order in which it stands there, on a broker's files; Spark's command is only parsed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from replica_audit import cli
from tests.formats import kafka_files as kf

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "docs" / "collecting.md").read_text(encoding="utf-8")
LAUNCHER = "./spark-submit.sh"
LOG_DIRS = ("var/lib/kafka/data", "data/1", "data/2", "mnt/snapshot/data")


def commands() -> list[list[str]]:
    """Those of the blocks that are marked as shell."""
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A broker's machine: the paths of the page, below a folder of the test."""
    for number, name in enumerate(LOG_DIRS):
        kf.log_dir(tmp_path / name, f"orders-{number}", f"payments-{number}", f"others-{number}")
    (tmp_path / "etc/kafka").mkdir(parents=True)
    text = f"node.id=1\nlog.dirs={tmp_path}/data/1,{tmp_path}/data/2\n"
    (tmp_path / "etc/kafka/server.properties").write_text(text)
    return tmp_path


def moved(argument: str, machine: Path) -> str:
    return f"{machine}{argument.removeprefix('~')}" if argument.startswith(("/", "~/")) else argument


def test_every_command(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = commands()
    assert [command[1] for command in shown].count("collect") == 7
    for launcher, job, *arguments in shown:
        assert launcher == LAUNCHER
        given = [moved(argument, machine) for argument in arguments]
        if job == "audit":
            cli.parser(next(command for command in cli.COMMANDS if command.name == job)).parse_args(given)
            continue
        output = Path(given[given.index("--output") + 1])
        if "--replace" not in given:
            shutil.rmtree(output, ignore_errors=True)
        assert cli.main([job, *given]) == 0
        assert capsys.readouterr().out == f"{output / 'broker-1'}\n"
        assert (output / "broker-1" / "manifest.json").exists()


def test_the_files_it_lists_are_those_that_there_are(machine: Path) -> None:
    log_dir, output = machine / "var/lib/kafka/data", machine / "out"
    for name in ("__cluster_metadata-0", "__consumer_offsets-0"):
        kf.replica(log_dir, name)
    assert cli.main(["collect", "--log-dir", str(log_dir), "--output", str(output)]) == 0
    found = {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}
    for pattern in re.findall(r"^\| `(broker-1/.*?)`", TEXT, re.MULTILINE):
        start = pattern.partition("*")[0].removesuffix("-N")
        assert any(name.startswith(start) for name in found), pattern


def test_no_record_leaves_the_broker(machine: Path) -> None:
    secret = b"a value that nobody else may see"
    log_dir, output = machine / "secret", machine / "out"
    kf.log_dir(log_dir, "orders-0")
    kf.segment(log_dir / "orders-0", 2, *(kf.batch(i, 0, value=secret) for i in range(2, 50)))
    assert cli.main(["collect", "--log-dir", str(log_dir), "--output", str(output)]) == 0
    assert not [path for path in output.rglob("*") if path.is_file() and secret in path.read_bytes()]
