"""A warehouse in a store that speaks S3 is read without Spark, by delta-rs."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit import cli
from tests.house.checkout import ROOT
from tests.s3.store import Store
from tests.support.warehouse import write_warehouse

pytestmark = pytest.mark.slow
LOSS = ROOT / "tests" / "data" / "sample" / "committed-loss"
IN_COLUMNS = ("--format", "text")


def told(warehouse: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What report and explain say without Spark, wherever the warehouse is and a line ends."""

    def said() -> str:
        return " ".join(capsys.readouterr().out.split()).replace(warehouse, "WAREHOUSE")

    capsys.readouterr()
    assert cli.main(["report", "--warehouse", warehouse, *IN_COLUMNS]) == 0
    report = said()
    assert cli.main(["explain", "--warehouse", warehouse, "--partition", "billing-0"]) == 0
    return report, said()


def test_what_lies_there_is_read_as_on_a_disk(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_warehouse(tmp_path / "here", LOSS, run_id="one")
    store.upload(tmp_path / "here", "copied", "nightly/")
    assert told("s3a://copied/nightly", capsys) == told(str(tmp_path / "here"), capsys)
    assert cli.main(["report", "--warehouse", "s3a://copied/nowhere", *IN_COLUMNS]) == 2
    assert "s3a://copied/nowhere" in capsys.readouterr().err
