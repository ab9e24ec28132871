"""Copies of a busy, healthy cluster, taken broker after broker: nothing is found that is not there, and what is planted is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.quiet import quiet_in

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.nightly]
_AUDITS = {"4.3": 3, "3.9": 2}


def test_a_busy_cluster_gives_no_alarm(lab: Lab, tmp_path: Path) -> None:
    result = quiet_in(lab, audits=_AUDITS[lab.line], seed=7, keep=tmp_path, warm_up_s=5)
    assert not result.alarms
    assert result.audits == _AUDITS[lab.line]
    assert result.verdicts.total() > 50
    assert result.found == result.planted
    assert not result.clean_over_planted
