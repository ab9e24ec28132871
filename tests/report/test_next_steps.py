"""The commands that a summary ends with are run as they are printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.program import option
from tests.formats import record_files as rf
from tests.salvage.test_made_logs import diverged
from tests.support.warehouse import write_warehouse

DATA = Path(__file__).resolve().parents[1] / "data"
LOSS, CLEAN, OFFLINE = DATA / "sample" / "committed-loss", DATA / "sample" / "clean-in-sync", DATA / "offline" / "nobody-leads"


def lines_behind(text: str, title: str) -> list[str]:
    lines = text.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith(title))
    found = []
    for line in lines[begin + 1 :]:
        if not line.startswith("  "):
            break
        if not line.startswith("    "):  # what a command is for
            found.append(line.strip())
    return found


@pytest.mark.parametrize("roots", [(LOSS,), (LOSS, OFFLINE)], ids=["one cluster", "two clusters"])
def test_of_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, roots: tuple[Path, ...]) -> None:
    warehouse = tmp_path / "a warehouse"
    write_warehouse(warehouse, *roots, settings=Settings())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", "--warehouse", str(warehouse), "--format", "text"]) == 0
    commands = lines_behind(capsys.readouterr().out, "Next: ")
    assert [shlex.split(one)[1] for one in commands] == ["explain", "report", "plan"]
    for one in commands:
        script, *arguments = shlex.split(one)
        assert script == "./spark-submit.sh"
        assert cli.main(arguments) == 0, one
    explained = capsys.readouterr().out
    assert shlex.split(commands[0])[7] in explained
    assert ("committed_loss (critical)" in explained) == (OFFLINE not in roots)
    assert list(tmp_path.glob("report-*.html"))
    assert (tmp_path / "plan" / "PLAN.md").is_file()


def test_of_a_triage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["triage", "--input", str(LOSS)]
    assert cli.main(command) == 1
    options = lines_behind(capsys.readouterr().out, "Next: run the same command with")
    assert options == ["--partition billing-0", "--html FILE", "--plan DIR"]
    files = {"FILE": str(tmp_path / "page.html"), "DIR": str(tmp_path / "plan")}
    more = [files.get(word, word) for option in options for word in shlex.split(option)]
    assert cli.main([*command, *more]) == 1
    assert "committed_loss (critical)" in capsys.readouterr().out
    assert (tmp_path / "page.html").is_file()
    assert (tmp_path / "plan" / "PLAN.md").is_file()


def test_of_a_triage_of_several_clusters_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--input", str(LOSS), "--input", str(OFFLINE)]) == 1
    lines = lines_behind(capsys.readouterr().out, "Next: run the same command with")
    assert [shlex.split(line)[0] for line in lines] == ["--partition", "--html", "--plan"]
    assert max(map(len, lines)) + 2 <= 80


def test_names_that_begin_with_a_dash_are_no_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is a topic that Kafka allows, and ids of clusters may begin with a dash."""
    diverged(tmp_path / "input", rf.batch(10, (b"a", b"1")), topic="--help")
    command = ["triage", "--input", str(tmp_path / "input")]
    assert cli.main(command) == 1
    (first, *_others) = lines_behind(capsys.readouterr().out, "Next: run the same command with")
    assert first == "--partition=--help-0"
    assert cli.main([*command, *shlex.split(first)]) == 1
    assert "--help-0" in capsys.readouterr().out
    assert option("--topic", "orders") == ["--topic", "orders"]


def test_none_where_nothing_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--input", str(CLEAN)]) == 0
    assert "Next" not in capsys.readouterr().out


def test_what_was_given_is_not_named_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And where records are at stake, so are the options that save them and that weigh other leaders."""
    diverged(tmp_path / "input", rf.batch(10, (b"a", b"1")))
    command = ["triage", "--input", str(tmp_path / "input")]
    assert cli.main(command) == 1
    every = lines_behind(capsys.readouterr().out, "Next: run the same command with")
    assert every[1:] == ["--html FILE", "--what-if-leaders", "--salvage DIR", "--plan DIR"]
    given = ["--html", str(tmp_path / "page.html"), "--salvage", str(tmp_path / "saved"), "--what-if-leaders"]
    assert cli.main([*command, *given]) == 1
    assert lines_behind(capsys.readouterr().out, "Next: run the same command with")[1:] == ["--plan DIR"]
