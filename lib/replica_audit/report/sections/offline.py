"""A partition that nobody leads, and what electing each of its replicas loses, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.rows.what_if import WhatIfLeader
from replica_audit.words import count

Electable = ElectionChoice | WhatIfLeader


def in_sync(one: RunFinding) -> str:
    """ISR, ELR and last leader of a partition without a leader, and since when it has none, where that is known."""
    isr, elr = (", ".join(map(str, brokers or ())) or "none" for brokers in (one.isr, one.elr))
    last = "not known" if one.last_leader_id is None else str(one.last_leader_id)
    since = one.leaderless_since
    if since is not None and since.tzinfo is not None:
        since = since.astimezone(UTC)
    told = "" if since is None else f", without a leader since {since:%Y-%m-%d %H:%M:%S} UTC"
    return f"ISR {isr}, ELR {elr}, last leader {last}{told}"


def leaderless(one: RunFinding, choices: Sequence[Electable]) -> Iterator[str]:
    """Who was in sync with a partition's leader, and what electing each replica loses, in sentences."""
    yield f"{in_sync(one)}."
    if one.cluster_stopped:
        yield "The whole cluster was shut down cleanly; starting it elects a leader cleanly."
    yield from elections(choices)


def elect(choice: Electable) -> str:
    """What electing a replica loses, and what kind of election that is."""
    if choice.rank is None:
        return f"elect {choice.candidate_id}: {choice.reason}{_how(choice)}"
    return f"elect {choice.candidate_id}: {'; '.join(_cost(choice))}{_how(choice)}"


def elections(choices: Sequence[Electable] | None) -> Iterator[str]:
    """A line for each replica, the least loss first."""
    yield from map(elect, choices or ())


def _cost(choice: Electable) -> Iterator[str]:
    if choice.lost_offsets:
        committed = choice.lost_committed or 0
        known = f"{committed} of their offsets were committed" if committed else "whether they were committed is unknown"
        yield f"loses {choice.lost_records} records, {known}"
    else:
        yield "loses nothing"
    if choice.followers_diverged:
        yield f"{count(choice.followers_diverged, 'replica')} would stay diverged, unnoticed"
    if choice.followers_failing:
        yield f"{count(choice.followers_failing, 'replica')} would fail to fetch"
    if choice.unread_replicas:
        yield f"{count(choice.unread_replicas, 'other replica')} could not be read and may hold more"


def _how(choice: Electable) -> str:
    """The kind of election; a controller with ELR takes a broker that crashed out of ISR and ELR when it registers again."""
    if choice.election is None:
        return ""
    down = "" if choice.broker_up is None or choice.broker_up else f", once broker {choice.candidate_id} runs"
    if choice.election == ElectionType.UNCLEAN:
        return f" (an unclean election{down})"
    crashed = not choice.in_isr and choice.broker_up is False and choice.stopped_cleanly is False
    unless = "; if it crashed, the controller removes it from the ELR first" if crashed else ""
    return f" (clean: in the {'ISR' if choice.in_isr else 'ELR'}{down}{unless})"
