"""What a broker's own log proves is found as an error, though all logs agree again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.ran import ran
from tests.partition.test_what_if import COMMON, _metadata, _write

LOSS = (
    "[2026-06-01 10:00:06,000] WARN [UnifiedLog partition=t-0, dir=/data] Truncating t-0 to offset 5 below high watermark 9 "
    "(kafka.log.UnifiedLog)\n"
)
REFUSED = (
    "[2026-06-01 10:00:06,000] FATAL [ReplicaFetcherThread-0-1], Exiting because log truncation is not allowed for partition t-0, "
    "Current leader 1's latest offset 5 is less than replica 2's latest offset 9 (kafka.server.ReplicaFetcherThread)\n"
)
ABOVE = "[2026-06-01 10:00:06,000] INFO [UnifiedLog partition=t-0, dir=/data] Truncating to offset 5 (kafka.log.UnifiedLog)\n"


@pytest.mark.parametrize(
    ("line", "severities", "code"),
    [
        pytest.param(LOSS, ["error"], 1, id="committed records removed"),
        pytest.param(REFUSED, ["warning"], 0, id="a truncation refused removes nothing"),
        pytest.param(ABOVE, [], 0, id="a truncation above the high watermark"),
    ],
)
@pytest.mark.parametrize("logs_on", [1, 2])
def test_lines_about_truncations(tmp_path: Path, line: str, severities: list[str], code: int, logs_on: int) -> None:
    root = _metadata(_write(tmp_path, {1: COMMON, 2: COMMON}), 1, epoch=0, brokers=[1, 2], isr=[1, 2], state="up")
    (root / f"broker-{logs_on}" / "server.log").write_text(line, encoding="utf-8")
    found = ran(root)
    assert set(found.verdicts.values()) == {"identical"}
    assert [severity for _code, severity, _broker in found.findings] == severities
    assert found.exit_code == code
    assert not found.problem_codes
