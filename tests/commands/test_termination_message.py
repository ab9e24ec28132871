"""`--termination-message`: one line that says how a command ended, in place, whatever the end; `report --exit-code`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.commands.running import MOST_BYTES
from tests.formats.rights import as_nobody, open_to_all
from tests.house.checkout import ROOT
from tests.support.before_spark import before_spark
from tests.support.warehouse import write_warehouse

SAMPLE = ROOT / "tests" / "data" / "sample"
LOSS = SAMPLE / "committed-loss"


def line_of(path: Path) -> dict[str, Any]:
    """The one object in the file."""
    content = path.read_bytes()
    assert content.endswith(b"\n") and content.count(b"\n") == 1 and len(content) <= MOST_BYTES
    document: dict[str, Any] = json.loads(content)
    return document


def ended(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = cli.main([*arguments, "--termination-message", str(tmp_path / "log")])
    return code, line_of(tmp_path / "log")


def test_a_run_says_what_its_summary_says(tmp_path: Path) -> None:
    code, line = ended(tmp_path, "triage", "--json", str(tmp_path / "run.json"))
    run = json.loads((tmp_path / "run.json").read_text())
    assert (code, line["command"], line["exit_code"]) == (1, "triage", 1)
    assert line["message"] == "there are findings at or above 'error'"
    assert (line["run_id"], line["findings"]) == (run["run_id"], len(run["findings"]))
    by_code: dict[str, int] = {}
    for finding in run["findings"]:
        by_code[finding["code"]] = by_code.get(finding["code"], 0) + 1
    assert line["codes"] == by_code


def test_what_is_acknowledged_is_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "known.yaml").write_text(
        "- {topic: .*, verdict: .*, severity: critical, at_most_records: 100000, reason: known, who: ana, until: 2999-01-01}\n"
    )
    code, line = ended(tmp_path, "triage", "--input", str(LOSS), "--acknowledged", str(tmp_path / "known.yaml"))
    assert (code, line["exit_code"], line["findings"], line["codes"]) == (0, 0, 0, {})
    assert line["acknowledged"] == 3
    assert "besides 3 acknowledged findings" in line["message"]


def test_an_error_is_there_as_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = ended(tmp_path, "triage", "--input", str(tmp_path / "nowhere"))
    assert (code, line) == (2, {"command": "triage", "exit_code": 2, "message": line["message"]})
    assert f"error: {line['message']}\n" in capsys.readouterr().err


def test_what_the_launcher_refuses_before_spark_is_there_too(tmp_path: Path) -> None:
    given = ["audit", "--input", str(tmp_path / "nowhere"), "--termination-message", str(tmp_path / "log")]
    assert before_spark(given) == 2
    assert "nowhere: does not exist" in line_of(tmp_path / "log")["message"]


def test_a_defect_is_there_and_is_not_taken_for_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.commands.outputs.check", lambda _flag, _path: 1 // 0)
    code, line = ended(tmp_path, "triage")
    assert (code, line["exit_code"]) == (70, 70)
    assert "ZeroDivisionError" in line["message"]


def test_a_collection_says_what_was_collected(tmp_path: Path) -> None:
    code, line = ended(tmp_path, "collect", "--log-dir", str(LOSS / "broker-1" / "data-0"), "--output", str(tmp_path / "out"))
    assert (code, line["exit_code"], line["counts"]["segments"]) == (0, 0, 7)
    assert line["message"].startswith("collected 7 segments of ")


@pytest.mark.parametrize("letter", ["x", "é", "😀", '"'])
def test_it_is_cut_to_what_kubernetes_keeps(tmp_path: Path, letter: str) -> None:
    deep = "/".join([letter * 60] * 14)
    inputs = [f"--input={tmp_path}/{number}/{deep}" for number in range(200)]
    code, line = ended(tmp_path, "triage", *inputs)
    assert code == 2
    assert line["message"].endswith(" ...")
    assert len((tmp_path / "log").read_bytes()) > MOST_BYTES - 30, "cut no more than it must be"


def test_the_file_is_written_in_place_in_a_folder_that_cannot_be_written() -> None:
    """As a container has it: a mounted file that its user may write, below /dev, which it may not."""
    with open_to_all() as place:
        log = place / "termination-log"
        log.touch()
        log.chmod(0o666)
        place.chmod(0o555)
        before = log.stat().st_ino
        assert as_nobody(lambda: ended_quietly(log)) == 2
        assert log.stat().st_ino == before
        assert line_of(log)["exit_code"] == 2


def ended_quietly(log: Path) -> int:
    return cli.main(["triage", "--input", "nowhere", "--termination-message", str(log)])


def test_what_an_earlier_run_left_does_not_stay(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"exit_code": 0}\n')
    assert cli.main(["triage", "--cost", "--input", str(LOSS), "--termination-message", str(log)]) == 0
    assert log.read_bytes() == b""  # --cost is no run


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--termination-message", str(tmp_path / "nowhere" / "log")]) == 2
    assert f"error: --termination-message {tmp_path}/nowhere/log: No such file or directory" in capsys.readouterr().err


def test_a_file_that_is_gone_at_the_end_does_not_change_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    def removed(_flag: str, _path: Path | None) -> None:
        if folder.exists():  # it goes after the file was emptied, and before the end
            (folder / "log").unlink()
            folder.rmdir()

    monkeypatch.setattr("replica_audit.commands.outputs.check", removed)
    assert cli.main(["triage", "--input", str(LOSS), "--termination-message", str(folder / "log")]) == 1
    assert "log: No such file or directory; the exit code is 1" in capsys.readouterr().err


def test_a_report_ends_as_the_audit_did_if_asked(tmp_path: Path) -> None:
    write_warehouse(tmp_path / "w", LOSS)
    for form in ("text", "json", "html"):
        shown = ["report", "--warehouse", str(tmp_path / "w"), "--format", form, "--output", str(tmp_path / form)]
        assert cli.main([*shown, "--exit-code"]) == 1
        assert (tmp_path / form).stat().st_size
    assert cli.main(shown) == 0
