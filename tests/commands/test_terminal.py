"""What a person sees at a terminal, and what a pipe gets."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest
from rich.cells import cell_len

from replica_audit import cli
from replica_audit.commands import terminal
from replica_audit.commands.progress_file import ProgressLines
from replica_audit.progress import Progress, ProgressEvent, ProgressKind
from replica_audit.report.facts.run_report import Choice, Impact, ProblemKind, Report
from replica_audit.report.text import plain_text as text
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.runs import ReportedProblem
from replica_audit.rows.what_if import WhatIfLeader
from tests.page.runs import cluster, finding, with_columns
from tests.support.rows import sparse

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "evil\x1b]0;owned\x07\x1b[2J\u202egroup\n"
WIDE = "支払い-決済-集計-消費者グループ-" * 4
_STYLE = re.compile(r"\x1b\[[0-9;]*m")

FINDING = finding(
    cluster_id="c1",
    verdict="committed_loss",
    severity="critical",
    leader_id=2,
    follower_id=1,
    leader_source="cluster-metadata",
    removed_records=20,
    removed_committed=20,
    reason="because",
)
CLUSTER = cluster(
    cluster_id="c1",
    path="/backup/" + "long-folder-name/" * 9,
    label="backup",
    brokers=2,
    replicas=2,
    partitions=1,
    verdicts={"committed_loss": 1, "stale_tail": 1},
    input_errors=1,
    unclean_elections=1,
    affected_groups=1,
    affected_positions=1,
)
IMPACT = Impact(
    "c1",
    sparse(
        ConsumerImpact,
        group_id="billing",
        topic="orders",
        partition=0,
        committed_offset=30,
        committed_leader_epoch=0,
        validation_result="truncated",
        reset_offset=10,
        records_gone=20,
        records_reread=0,
        records_missed=0,
        reason="because",
    ),
)
CHOICE = Choice(
    "c1",
    sparse(
        WhatIfLeader,
        topic="orders",
        partition=0,
        candidate_id=1,
        rank=1,
        is_leader=False,
        lost_records=5,
        lost_bytes=99,
        lost_committed=5,
        reason="because",
    ),
)
PROBLEM = sparse(ReportedProblem, path="/backup/x.log", line=None, byte_offset=61, code="torn-batch", detail="bytes left", remedy="none")
REPORT = Report(
    run_id="r1",
    warehouse="/audits",
    exit_code=1,
    fail_on="error",
    seconds=1.5,
    clusters=(CLUSTER,),
    findings=(FINDING, with_columns(FINDING, severity="error", verdict="stale_tail", partition=1)),
    finding_count=2,
    impacts=(IMPACT, with_columns(IMPACT, group_id=WIDE), with_columns(IMPACT, group_id=HOSTILE)),
    candidates=(CHOICE, with_columns(CHOICE, candidate_id=2, rank=2, is_leader=True)),
    best_led_partitions=3,
    already_lost_partitions=0,
    problems=(PROBLEM,),
    problem_count=1,
    problem_kinds=(ProblemKind(PROBLEM, 1),),
    changes={"new": 2},
)


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def at_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    terminal.show_report(REPORT)
    return capsys.readouterr().out


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys)
    assert out == text.render(REPORT)
    assert out.isascii() and all(character.isprintable() or character == "\n" for character in out)
    assert all(len(line) <= 80 for line in out.splitlines() if CLUSTER.path not in line)
    assert r"evil\x1b]0;owned\x07" in out or r"evil\x1b" in out


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_tables_that_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    at_terminal(monkeypatch, columns)
    out = shown(capsys)
    assert "\x1b[1;31mcritical: committed_loss" in out and "\x1b[31merror: stale_tail" in out
    bare = _STYLE.sub("", out)
    assert max(map(cell_len, bare.splitlines())) <= columns
    assert all(character.isprintable() or character == "\n" for character in bare)
    plain = "".join(bare.split())
    for said in (
        "20records,20committed",
        r"evil\x1b]0;owned\x07",
        "/backup/x.logatbyte61",
    ):
        assert said in plain
    assert "Comparedwithearlierruns" not in plain, "all are new"
    assert plain.count("支") == plain.count("費") == 4, "a wide name is folded, not cut"
    assert "Exit code 1: there are findings at or above 'error'." in bare


@pytest.mark.parametrize("columns", [None, 80, 120])
def test_of_several_clusters_each_row_names_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    if columns:
        at_terminal(monkeypatch, columns)
    other = replace(CLUSTER, cluster_id="c2", path="/other", label="other")
    findings = (FINDING, with_columns(FINDING, cluster_id="c2", topic="a-topic-of-thirty-letters-name"))
    groups = (with_columns(IMPACT, group_id="g1"), with_columns(IMPACT, cluster_id="c2", group_id="g2"))
    choices = (*REPORT.candidates, *(one._replace(cluster_id="c2") for one in REPORT.candidates))
    terminal.show_report(replace(REPORT, clusters=(CLUSTER, other), findings=findings, impacts=groups, candidates=choices))
    bare = _STYLE.sub("", capsys.readouterr().out)
    assert [line for line in bare.splitlines() if line.startswith("Cluster")] == ["Cluster 1: c1", "Cluster 2: c2"]
    assert columns == 80 or "a-topic-of-thirty-letters-name-0" in bare.split(), "whole, to be copied; in a narrow terminal it is folded"
    rows = [line.split() for line in bare.splitlines()]
    assert [row[:3] for row in rows if len(row) > 4 and row[0] in "12" and re.match("orders-|a-|g[12]", row[1])] == [
        ["1", "orders-0", "2>1"],
        ["2", ANY, "2>1"],
        ["1", "g1", "orders-0"],
        ["2", "g2", "orders-0"],
        ["1", "orders-0", "2"],
        ["2", "orders-0", "2"],
    ]


@pytest.mark.parametrize(
    ("choices", "best_led", "said"),
    [
        pytest.param((), 3, "In 3 partitions with something to lose, no other replica would lose less.", id="the leaders are the best"),
        pytest.param((), 0, None, id="nothing is lost"),
        pytest.param((with_columns(CHOICE, rank=None, lost_records=None),), 0, "orders-0 - - 1 cannot be read", id="none can be read"),
        pytest.param((with_columns(CHOICE, lost_records=2),), 1, "orders-0 - - 1 2 (5 offsets committed)", id="a compacted log"),
    ],
)
def test_what_other_leaders_would_lose(
    capsys: pytest.CaptureFixture[str], choices: tuple[Choice, ...], best_led: int, said: str | None
) -> None:
    terminal.show_report(replace(REPORT, candidates=choices, best_led_partitions=best_led))
    out = " ".join(capsys.readouterr().out.split())
    assert ("If another replica led" in out) is (said is not None)
    assert said is None or said in out


def test_what_brokers_have_truncated_already(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_report(replace(REPORT, candidates=(), best_led_partitions=0, already_lost_partitions=2))
    out = " ".join(capsys.readouterr().out.split())
    assert "If another replica led" in out
    assert "In 2 partitions brokers have since truncated records that only their audited copies still hold." in out


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"removed_records": 16, "removed_committed": 18}, "16 records, 18 offsets committed"),
        ({"verdict": "log_matching_violation", "still_diverged": True}, "stays; 20 lost, 20 committed"),
        (
            {"verdict": "log_matching_violation", "still_diverged": True, "fetcher_fails": True},
            "fetch fails; 20 lost, 20 committed",
        ),
        ({"verdict": "log_matching_violation"}, "in the ISR; 20 lost, 20 committed"),
        ({"verdict": "truncated_otherwise", "reason": "server.log contradicts the rule: x"}, "broker truncated elsewhere"),
        ({"verdict": "log_matching_violation", "still_diverged": True, "removed_records": 0}, "stays diverged"),
        ({"verdict": "cannot_rejoin", "removed_records": 0}, "never catches up"),
        ({"verdict": "cannot_rejoin", "removed_committed": 0}, "stays out; 20 lost"),
        ({"already_truncated": True}, "already: 20 records, 20 committed"),
    ],
)
def test_what_a_finding_loses_in_a_few_words(capsys: pytest.CaptureFixture[str], changed: dict[str, object], said: str) -> None:
    terminal.show_report(replace(REPORT, findings=(with_columns(FINDING, **changed),)))
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("orders-0") and "2>1" in line)
    assert row.endswith(said)


def test_no_color_is_honoured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    at_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    out = shown(capsys)
    assert "─" in out, "tables stay"
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", out)


def test_a_dumb_terminal_gets_plain_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    at_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert shown(capsys) == text.render(REPORT)


def test_lines_alone_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress() as told:
        progress = Progress(told)
        progress.say("reading")
        progress.count(3, 8, "tasks")
    assert re.fullmatch(r"\[ +[0-9.]+ s\] reading\n", capsys.readouterr().err), "how much is done is told every ten seconds"


def test_how_much_is_done_is_a_line_every_ten_seconds() -> None:
    lines: list[str] = []
    take = ProgressLines(lines.append).take
    for seconds in (9, 10, 15, 19.9, 20):
        take(ProgressEvent(kind=ProgressKind.COUNTED, seconds=seconds, done=int(seconds), total=30, unit="tasks"))
    assert lines == ["[ 10.0 s] ... 10 of 30 tasks done", "[ 20.0 s] ... 20 of 30 tasks done"]


_PROGRAM = """
import sys, time
sys.path.insert(0, "lib")
from replica_audit import cli
from replica_audit.commands import terminal
from replica_audit.progress import Progress
with terminal.progress() as told:
    progress = Progress(told)
    progress.say("reading [bold]41[/bold] segments")
    progress.count(3, 8, "tasks")
    time.sleep(0.6)
"""


def test_a_terminal_gets_a_bar_below_the_lines() -> None:
    """In a child with a terminal of its own, as there is no other way to have one."""
    child, terminal_end = pty.fork()
    if child == 0:  # pragma: no cover - the other process
        environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-c", _PROGRAM], environment)
    seen, end = b"", time.monotonic() + 1200
    try:
        while time.monotonic() < end:
            if not select.select([terminal_end], [], [], 1)[0]:
                continue
            try:
                part = os.read(terminal_end, 4096)
            except OSError:  # how Linux says that the other side is closed
                break
            if not part:
                break
            seen += part
    finally:
        os.close(terminal_end)
        assert os.waitpid(child, 0)[1] == 0
    assert b"reading [bold]41[/bold] segments" in seen
    assert b"3/8" in _STYLE.sub("", seen.decode()).encode()


def test_leaders_that_cannot_be_read_are_told_apart_from_findings_about_followers() -> None:
    told = text.render(replace(REPORT, finding_count=3))
    assert "\nFindings\n" in told
    assert "\n1 leader cannot be read\n" in told
    assert "cannot be read" not in text.render(REPORT)


@pytest.mark.parametrize("columns", [None, 60])
def test_problems_of_one_kind_are_one_and_a_count(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    if columns:
        at_terminal(monkeypatch, columns)
    kind = ProblemKind(PROBLEM, 42, ("/backup/y.log", "/backup/z.log"))
    terminal.show_report(replace(REPORT, clusters=(replace(CLUSTER, path="/backup"),), problem_count=42, problem_kinds=(kind,)))
    out = " ".join(_STYLE.sub("", capsys.readouterr().out).split())
    assert "Input problems: 42, the first of each kind" in out
    assert out.count("Remedy:") == 1
    assert "and 41 more of this kind: y.log, z.log and 39 more" in out


def test_a_column_that_says_nothing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"divergence_offset": None, "truncation_offset": None, "restart_offset": None}
    silent = with_columns(FINDING, **nothing, severity="error", verdict="unreadable")
    terminal.show_report(replace(REPORT, findings=(silent,)))
    assert "DIVERGES" not in capsys.readouterr().out
    terminal.show_report(replace(REPORT, findings=(silent, FINDING)))
    assert "PARTITION  L>F  DIVERGES  TRUNCATES TO  LOSES" in capsys.readouterr().out


def test_problems_of_a_run_are_told_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    cut = Path(__file__).resolve().parents[1] / "data" / "cases" / "12-head"
    assert cli.main(["triage", "--input", str(cut)]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("is only a part") == 1
    assert "and 1 more of this kind: broker-2/dump.txt" in out
