"""What one record of `__transaction_state` says of a transactional id, wherever it was read."""

from __future__ import annotations

from typing import NamedTuple

from replica_audit.errors import visible

_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")


class WrittenState(NamedTuple):
    """The value of one record; times are in milliseconds, -1 where a text does not show them, and so are the other producer ids."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1


def state_of(status: int) -> str | None:
    """Kafka's name of the state that a record stores as a number; None where there is no such state (TransactionState.fromId)."""
    return _STATES[status] if 0 <= status < len(_STATES) else None


def is_state(name: str) -> bool:
    """Whether Kafka has a state of this name."""
    return name in _STATES


def unknown_version(what: str, version: object, known: range) -> str:
    """What is to be reported of a key or value of a version that is not among the `known`."""
    versions = str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"version {visible(str(version)[:20])} of {what} is not known, only {versions} {'is' if len(known) == 1 else 'are'}"
