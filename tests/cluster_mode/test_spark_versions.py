"""Audits on other releases of Spark, classic and through Spark Connect, give the rows of `triage`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.checkout import ROOT
from tools.spark_versions import RELEASES

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.nightly]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("release", RELEASES)
def test_every_row_is_equal(release: str) -> None:
    done = subprocess.run([sys.executable, "tools/spark_versions.py", release], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    *_head, row = done.stdout.splitlines()
    spark, _delta, _session, _python, rows, different, _seconds = (cell.strip() for cell in row.strip("|").split("|"))
    assert release.startswith(f"{spark}=")
    assert int(rows.replace(",", "")) > 0
    assert different == "0"
