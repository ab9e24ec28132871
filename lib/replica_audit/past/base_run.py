"""Which earlier run an audit may take rows over from, and when every file was last read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from hashlib import blake2b

from replica_audit.config import Settings
from replica_audit.program import VERSION, digest_of_code
from replica_audit.report.facts.explained_rows import ExplainedRun
from replica_audit.rows import AUDIT_RUNS
from replica_audit.storage.warehouse.arrow_tables import ArrowTables


class WhyAll(StrEnum):
    """Why an audit takes nothing over, and reads every file."""

    ASKED = "full"
    RECORDS = "records"
    FIRST = "first"
    OTHER_RULES = "other-rules"
    DUE = "due"


# What a run shows, how it goes about its work, and which partitions it looks at; all other settings are in the rows.
_NOT_IN_ROWS = frozenset(
    {"topics", "fail_on", "worst", "parallelism", "full_every_days", "webhook_on", "webhook_url_file", "webhook_timeout_s", "page_url"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedRun(ExplainedRun):
    """A row of `audit_runs`, with what it was made by. What an older version did not write is None."""

    basis: str | None = None
    full_run_id: str | None = None
    full_run_date: date | None = None
    replicas: int | None = None


def basis_of(settings: Settings) -> str:
    """A digest of what rows depend on besides the input: the product's code, and the settings that decide."""
    decide = {name: value for name, value in settings.model_dump().items() if name not in _NOT_IN_ROWS}
    said = json.dumps([VERSION, digest_of_code(), decide], sort_keys=True)
    return blake2b(said.encode(), digest_size=16).hexdigest()


def latest_runs(written: ArrowTables, run_id: str) -> dict[str, LookedRun]:
    """Of every cluster the latest run that counts, other than one of this id."""
    known = (run for run in written.rows(AUDIT_RUNS.name, LookedRun) if run.counts and run.run_id != run_id)
    return {run.cluster_id: run for run in sorted(known, key=lambda run: run.started_at)}


def base_of(latest: Mapping[str, LookedRun], clusters: Collection[str], settings: Settings, on: date) -> dict[str, LookedRun] | WhyAll:
    """The runs that rows may be taken over from, by cluster; or why everything is to be read.

    Args:
        latest: what `latest_runs` gives.
        clusters: those that are audited; each needs a run to take over from.
        settings: of this run.
        on: the day that it is for.
    """
    if settings.compare == "records":  # whether compaction may have removed a key depends on what time it is
        return WhyAll.RECORDS
    if not clusters or any(cluster not in latest for cluster in clusters):
        return WhyAll.FIRST
    found = {cluster: latest[cluster] for cluster in clusters}
    basis = basis_of(settings)
    if any(run.basis != basis or run.full_run_date is None for run in found.values()):
        return WhyAll.OTHER_RULES
    ages = [(on - run.full_run_date).days for run in found.values() if run.full_run_date is not None]
    return found if all(0 <= days < settings.full_every_days for days in ages) else WhyAll.DUE


def is_still_there(written: ArrowTables, base: Mapping[str, LookedRun]) -> bool:
    """Whether the runs still count: `maintain` says that a run counts no more before it removes the first of its rows."""
    now = {(run.cluster_id, run.run_id) for run in written.rows(AUDIT_RUNS.name, LookedRun) if run.counts}
    return all((cluster, run.run_id) in now for cluster, run in base.items())
