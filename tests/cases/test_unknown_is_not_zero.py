"""What is not known is never printed as 0: of groups, of records, of offsets that were committed, of times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.consumers import ValidationResult, assess, known
from replica_audit.protocol.exchange.cuts import measure_removal
from replica_audit.report.facts.due_facts import DueFacts, DueGroups, KnownSum
from replica_audit.report.sections.decisions import decisions
from replica_audit.report.text.findings_text import loses
from replica_audit.rows.history import ConsumerImpact
from tests.page.runs import finding, with_columns
from tests.protocol.logs import commit, header, replica

TRIMMED = replica(1, [(7, 1000, 1999)], epochs=[(7, 1000)], start=1000)


def found(epoch: int, offset: int = 1500, leader: Any = TRIMMED) -> ConsumerImpact:
    committed = commit(offset, epoch, at_ms=-1)
    return assess(leader, [], committed, known(leader, (), committed, Context(simultaneous=True), leader_is_down=False))


def test_a_commit_in_an_epoch_that_retention_took_proves_no_truncation() -> None:
    """Retention moves the first entry of the table up: it does not tell where that epoch began."""
    impact = found(3)
    assert (impact.validation_result, impact.affected, impact.reset_offset) == (ValidationResult.TRUNCATED, None, 1000)
    assert (impact.records_gone, impact.records_reread, impact.records_missed) == (None, None, None)
    assert "goes back to 1000" in impact.reason and "1000..1499 again" in impact.reason


def test_a_commit_in_the_epoch_of_its_record_is_valid() -> None:
    impact = found(7)
    assert (impact.validation_result, impact.affected, impact.records_gone) == (ValidationResult.VALID, False, 0)


def test_a_log_that_still_begins_at_0_was_truncated() -> None:
    impact = found(3, 500, replica(1, [(7, 0, 999)], epochs=[(7, 0)]))
    assert (impact.validation_result, impact.affected, impact.records_gone, impact.records_reread) == (
        ValidationResult.TRUNCATED,
        True,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("reread", "missed", "said"),
    [
        (KnownSum(4), KnownSum(0), "it reads up to 4 records again and skips none."),
        (KnownSum(0), KnownSum(0), "Consumers of Kafka 2.3 and later go on where the leader's log leaves what they read"),
        (KnownSum(0, 1), KnownSum(0, 1), "it reads an unknown number of records again and skips an unknown number."),
        (KnownSum(4, 1), KnownSum(3), "it reads 4 records or more again and skips up to 3."),
    ],
)
def test_groups(reread: KnownSum, missed: KnownSum, said: str) -> None:
    groups = DueGroups(count=1, names=("g",), reread=reread, missed=missed)
    (one,) = decisions(DueFacts(groups=groups))
    assert said in one.text


FINDING = finding(divergence_offset=5, truncation_offset=5, removed_records=None, already_truncated=False)


def test_cells_and_columns() -> None:
    assert loses(FINDING) == "? records"
    assert loses(with_columns(FINDING, verdict="cannot_rejoin")) == "stays out; ? lost"
    assert FINDING.row.proven_committed is None, "nothing proves that it was, nor that it was not"
    assert replace(FINDING.row, removed_records=5).proven_committed is None
    assert replace(FINDING.row, removed_records=5, removed_committed=3).proven_committed == 3
    assert replace(FINDING.row, removed_records=5, lost_records=0).proven_committed == 0, "nothing is lost"


def test_no_time_is_no_time() -> None:
    """Messages of magic 0 have none, and are read as -1 (KAFKA-3918)."""
    batches = [header(-1, offset, offset)._replace(max_timestamp_ms=time) for offset, time in ((0, -1), (1, -1))]
    gone = measure_removal(batches, 0, 2)
    assert (gone.records, gone.first_timestamp_ms, gone.last_timestamp_ms) == (2, None, None)
    later = [*batches, header(2, 2, 2)._replace(max_timestamp_ms=1700)]
    assert measure_removal(later, 0, 3).first_timestamp_ms == 1700
