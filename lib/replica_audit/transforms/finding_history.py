"""What a finding is against the run before: new, persisting, resolved or unconfirmed."""

from __future__ import annotations

from typing import Any

from replica_audit.protocol.confirmation import Check, Open, Status, is_resolved
from replica_audit.transforms.rows import Row

_OF_OPEN = ("code", "about", "broker_id", "leader_id", "leader_source")
OF_CHECK = ("leader_id", "leader_source", "leader_has_epoch", "isr", "clean", "same_batches")


def history_row(found: Row | None, earlier: Row | None, check: Row | None, run_id: str) -> Row:
    """A row of `findings`.

    Args:
        found: the finding as this run has it, with its cluster_id; None if it does not.
        earlier: the row of the run before, open then; None if it has none. One of the two is there.
        check: what this run found in order in the partition, a row of the shape CHECKED; None if it did not see it.
        run_id: of this run.

    Returns:
        What this run found as new or persisting; else the earlier row, as resolved if this run compared the same and found it clean, as
        unconfirmed if not: it then stays open.
    """
    if found is not None:
        first = run_id if earlier is None else earlier["first_seen_run_id"]
        status = Status.NEW if earlier is None else Status.PERSISTING
        return {**found, "run_id": run_id, "first_seen_run_id": first, "last_seen_run_id": run_id, "status": str(status)}
    if earlier is None:
        raise ValueError("neither this run nor the one before has the finding")
    known: dict[str, Any] = {name: earlier.get(name) for name in _OF_OPEN}
    is_over = check is not None and is_resolved(Open(**known), Check(**{name: check[name] for name in OF_CHECK}))
    return {**earlier, "run_id": run_id, "status": str(Status.RESOLVED if is_over else Status.UNCONFIRMED)}
