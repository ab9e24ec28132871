"""What an audit is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from replica_audit.config import Settings
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What to audit. `inputs` are roots or folders of roots; `metadata` a cluster-metadata.json given apart.

    `take_over`: begin the run also if another process seems to make it.
    `acknowledged`: findings that somebody knows of, as of `run_date`.
    """

    inputs: tuple[str, ...]
    warehouse: str
    settings: Settings
    run_id: str
    run_date: date
    metadata: Path | None = None
    take_over: bool = False
    acknowledged: Acknowledgements = field(default_factory=Acknowledgements)
