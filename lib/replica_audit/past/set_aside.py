"""Which findings of a run say that a broker sets a log aside when it starts, though records are at stake."""

from __future__ import annotations

import pyarrow.dataset as ds

from replica_audit.protocol.verdict.confirmation import FOUND_NOW
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity

SET_ASIDE_COLUMNS = ("topic", "partition", "broker_id")


def is_set_aside(own: ds.Expression) -> ds.Expression:
    """Those findings among the rows that `own` chooses."""
    is_found = own & ds.field("status").isin(FOUND_NOW)
    return is_found & (ds.field("code") == str(PartitionCode.WILL_BECOME_STRAY)) & (ds.field("severity") == str(Severity.ERROR))
