"""The names of runs."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from replica_audit.errors import UsageError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def new_run_id() -> str:
    """The name of a run that nobody has named: the time, and a random part."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def refuse_run_id(run_id: str) -> None:
    """Refuse a name that no run may have.

    Raises:
        UsageError: it is one.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"--run-id {run_id!r}: letters, digits, '.', '_' and '-' only, 128 at most")
