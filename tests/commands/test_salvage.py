"""`salvage --local`, and `triage --salvage`: what a user types, gets, and is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.commands.salvage import REASONS
from replica_audit.formats.salvage.saved_file import SAVED
from replica_audit.protocol.salvage import ON_REQUEST, KeptBack
from replica_audit.report.salvage_report import WHY_KEPT_BACK
from tests.formats import record_files as rf
from tests.house.checkout import ROOT
from tests.salvage.made import lines, rows
from tests.salvage.test_made_logs import diverged
from tests.salvage.test_run import tree
from tests.support.before_spark import before_spark
from tests.support.warehouse import write_warehouse

LOSS, TRIMMED = (ROOT / "tests" / "data" / "sample" / name for name in ("committed-loss", "leader-trimmed"))
GUIDE = (ROOT / "docs" / "salvaging.md").read_text(encoding="utf-8")


def salvage(warehouse: Path, output: Path, *more: str) -> int:
    return cli.main(["salvage", "--local", "--warehouse", str(warehouse), "--output", str(output), *more])


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_warehouse(tmp_path_factory.mktemp("w"), LOSS)


def test_a_past_run_is_saved_and_saved_again_is_the_same(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert salvage(warehouse, tmp_path / "out") == 0
    told = capsys.readouterr()
    assert "Saved 42 records of 3 cuts in 3 partitions, 42 for a replay." in told.out
    assert "SALVAGE.md before you replay anything" in told.out
    assert "3 cuts of 42 records" in told.err
    before = tree(tmp_path / "out")
    assert salvage(warehouse, tmp_path / "out") == 0
    assert tree(tmp_path / "out") == before
    document = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert (document["complete"], document["exit_code"], document["records_saved"], document["records_to_replay"]) == (True, 0, 42, 42)
    assert document["made_for"]["run_id"] == "first"


def test_one_partition(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert salvage(warehouse, tmp_path / "out", "--partition", "billing-2", "--partition", "billing-0") == 0
    assert "Saved 26 records of 2 cuts" in capsys.readouterr().out
    assert {row["partition"] for row in rows(tmp_path / "out")} == {0, 2}


def test_triage_saves_what_salvage_does(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--input", str(LOSS), "--salvage", str(tmp_path / "at once")]) == 1
    assert "Saved 42 records of 3 cuts" in capsys.readouterr().out
    assert salvage(warehouse, tmp_path / "out") == 0
    assert rows(tmp_path / "at once") == rows(tmp_path / "out")
    assert tree(tmp_path / "at once" / "replay").keys() == tree(tmp_path / "out" / "replay").keys()
    for name in ("billing-0.console.txt", "billing-1.console.txt", "billing-2.console.txt"):
        assert lines(tmp_path / "at once", name) == lines(tmp_path / "out", name)
    assert cli.main(["triage", "--input", str(LOSS), "--partition", "billing-0", "--salvage", str(tmp_path / "one")]) == 1
    assert "Saved 20 records of 1 cut" in capsys.readouterr().out


def test_what_was_kept_back_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = write_warehouse(tmp_path / "w", TRIMMED)
    assert salvage(warehouse, tmp_path / "out") == 0
    told = capsys.readouterr().out
    kept = int(re.findall(r"(\d+) kept back: below-log-start", told)[0])
    assert kept == 46
    assert salvage(warehouse, tmp_path / "all", "--replay-also", "below-log-start") == 0
    assert "46 replayed, as asked for: below-log-start" in capsys.readouterr().out
    counts = [json.loads((tmp_path / name / "salvage.json").read_text())["records_to_replay"] for name in ("out", "all")]
    assert counts[1] - counts[0] == kept


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--run-id", "other"), "no such run"),
        (("--partition", "billing"), "not TOPIC-N"),
        (("--partition", "biling-0"), "did you mean billing-0?"),
        (("--partition", "billing-7"), "it has billing-0, billing-1, billing-2"),
        (("--cluster", "other"), "not in run first; it has tGgMi5ChQQaP400G_KG93g"),
        (("--cluster-metadata", "missing.json"), "no such file"),
        (("--input", "missing"), "there is nothing to audit"),
        (("--input", str(TRIMMED)), "is not in the inputs, which hold"),
    ],
)
def test_wrong_usage_is_one_line(
    warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str
) -> None:
    assert salvage(warehouse, tmp_path / "out", *more) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()


def test_neither_the_input_nor_the_warehouse_is_written_to(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(warehouse)
    for place in (warehouse / "saved", LOSS / "saved", LOSS / "broker-1"):
        assert salvage(warehouse, place) == 2
        assert "nothing may be written there" in capsys.readouterr().err
        assert before_spark(["salvage", "--warehouse", str(warehouse), "--output", str(place)]) == 2
    assert cli.main(["triage", "--input", str(LOSS), "--salvage", str(LOSS / "saved")]) == 2
    assert "found" not in capsys.readouterr().err  # before anything is read
    assert cli.main(["triage", "--input", str(LOSS), "--replay-also", "open"]) == 2
    assert tree(warehouse) == before
    assert not (LOSS / "saved").exists()


def test_several_clusters_are_saved_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = write_warehouse(tmp_path / "w", LOSS, TRIMMED)
    assert salvage(warehouse, tmp_path / "out") == 2
    assert "has cuts in 2 clusters; give one with --cluster: " in capsys.readouterr().err
    assert salvage(warehouse, tmp_path / "out", "--cluster", "tGgMi5ChQQaP400G_KG93g") == 0
    assert salvage(warehouse, tmp_path / "one", "--partition", "billing-0") == 0  # which is in one of them


def test_what_cannot_be_saved_is_in_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")), rf.with_codec(rf.batch(11, (b"k", b"v")), "gzip", b"no gzip"))
    assert salvage(write_warehouse(tmp_path / "w", tmp_path / "in"), tmp_path / "out") == 3
    told = capsys.readouterr().out
    assert "not saved: orders-0 broker 2, offsets 11..11: " in told
    assert "Saved 1 record of 1 cut" in told


def test_every_reason_is_an_option_and_in_the_guide() -> None:
    assert tuple(map(str, ON_REQUEST)) == REASONS
    assert set(WHY_KEPT_BACK) == set(KeptBack)
    assert not [reason for reason in KeptBack if f"`{reason}`" not in GUIDE]


def test_every_column_is_in_the_guide() -> None:
    told = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", GUIDE, re.MULTILINE)
    assert told == [(field.name, (field.metadata or {})[b"comment"].decode()) for field in SAVED]


def test_help_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["salvage", "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("--replay-also", "SALVAGE.md", "exit codes:", "examples:"))
