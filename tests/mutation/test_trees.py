"""A few mutated trees, audited whole; the long run is `python -m tests.mutation.trees`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replica_audit.rows import OF_PARTITIONS
from tests.mutation.trees import judge, roots, wrong_rows
from tests.support.in_process import audit


@pytest.mark.parametrize("seed", range(12))
def test_a_mutated_tree_is_audited_to_the_end(tmp_path: Path, seed: int):
    assert judge(roots()[seed % len(roots())], tmp_path, 1000 + seed) is None


def test_rows_that_no_table_would_take_are_found():
    found: dict[str, list[dict[str, Any]]] = audit(roots()[1])
    assert wrong_rows(found) is None
    logs = found["replica_logs"]
    assert [table.name for table in OF_PARTITIONS if found[table.name]]
    for values in ({"partition": -1}, {"log_end_offset": 2**63}, {"log_dir": "\ud800"}, {"state": "gone"}):
        found["replica_logs"] = [*logs, {**logs[0], **values}]
        assert "replica_logs" in str(wrong_rows(found)), values
