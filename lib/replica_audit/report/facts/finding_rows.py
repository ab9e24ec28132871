"""Rows of the table `findings` as values of the report, whichever engine read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from replica_audit.report.facts.run_report import Electable, OfflinePartition

OFFLINE_COLUMNS = OfflinePartition.__slots__


def offline_partition(row: Mapping[str, Any]) -> OfflinePartition:
    """A partition that nobody leads, of the columns OFFLINE_COLUMNS."""
    values = {name: row[name] for name in OFFLINE_COLUMNS}
    for name in ("isr", "elr"):
        values[name] = None if row[name] is None else tuple(row[name])
    moment = row["leaderless_since"]
    values["leaderless_since"] = None if moment is None else moment.astimezone(UTC)  # Spark gives local times without a zone
    found = row["candidates"]
    candidates = None if found is None else tuple(Electable(**{name: one[name] for name in Electable.__slots__}) for one in found)
    return OfflinePartition(**values | {"candidates": candidates})
