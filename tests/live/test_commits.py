"""What is said to be committed, against the high watermarks and acknowledgements of brokers that lose their leaders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka_lab.commits import commits_one

PARTITIONS = 9


@pytest.mark.slow
@pytest.mark.nightly
def test_no_record_is_called_committed_that_never_was(tmp_path: Path) -> None:
    """Of the acknowledged records that are removed each is proven to have been committed, or said to be unknown."""
    result = commits_one("4.3", 7, PARTITIONS, keep=tmp_path)
    assert not result.wrong
    assert result.partitions == PARTITIONS
    assert result.acknowledged_proven > 0, f"nothing was proven: {result}"
    assert set(result.proven) <= {"checkpointed-high-watermark", "sole-in-sync-replica", "all-in-sync-replicas"}
