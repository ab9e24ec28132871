"""The command line: what is wrong with it is told in a sentence, before anything is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from replica_audit.cli import main
from replica_audit.errors import UsageError
from replica_audit.storage.cluster.connection import addresses

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--bootstrap-server", "broker-1"], "not HOST:PORT"),
        (["--bootstrap-server", "broker-1:99999"], "not HOST:PORT"),
        (["--bootstrap-server", ","], "at least one broker"),
        (["--bootstrap-server", "b:1", "--timeout", "0"], "--timeout"),
        (["--bootstrap-server", "b:1", "--timeout", "nan"], "--timeout"),
        (["--bootstrap-server", "b:1", "--output", "/no/such/folder/file.json"], "--output /no/such/folder/file.json"),
        (["--bootstrap-server", "b:1", "--command-config", "/no/such/client.properties"], "client.properties: No such file"),
        (["--bootstrap-server", "b:1", "--verify", "latest", "--warehouse", "/no/such/warehouse"], "/no/such/warehouse"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe_cluster", *arguments]) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out


@pytest.mark.parametrize("text", ["broker-1:9092", "10.0.0.1:1", "[::1]:9092", "a.b.example.com:65535"])
def test_addresses(text: str) -> None:
    assert addresses(f"{text}, x:2 ,{text}") == [text, "x:2"]


@pytest.mark.parametrize("text", ["", "a", ":9092", "a:", "a:0", "a:65536", "::1:9092", "a b:1", "SASL_SSL://a:1"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="--bootstrap-server"):
        addresses(text)


def test_the_job_has_help_that_names_every_exit_code() -> None:
    command = [sys.executable, str(ROOT / "jobs/describe_cluster.py"), "--help"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "lib")})
    for code in ("0 ", "1 ", "2 ", "3 ", "130 "):
        assert f"\n  {code}" in made.stdout
    assert "--command-config" in made.stdout
