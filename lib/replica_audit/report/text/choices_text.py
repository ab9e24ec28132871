"""What it would cost had another replica led: each replica as the leader, the least loss first."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.rows.what_if import WhatIfLeader

HEAD = ("rank", "broker", "now", "last\nepoch", "log\nend", "lost\nbytes", "followers", "cost")
_NOTHING = "nothing is lost"


def choice_lines(facts: PartitionFacts) -> Iterator[str]:
    """One row for each replica; those that cannot lead come last, without a rank."""
    if not facts.choices:
        return
    yield "Each replica as the leader, smallest loss first"
    if all(choice.rank is not None and choice.reason == _NOTHING for choice in facts.choices):
        yield from paragraph("Nothing is lost, whichever leads.")
        return
    yield from fitted(HEAD, [choice_row(choice) for choice in facts.choices])


def weighed(facts: PartitionFacts) -> str | None:
    """What each choice of a leader costs, in a sentence; None where it costs nothing or there is no choice."""
    able = [choice for choice in facts.choices if choice.rank is not None]
    if len(able) < 2 or all(choice.reason == _NOTHING for choice in able):
        return None
    costs = [f"broker {choice.candidate_id}{' (leads now)' if choice.is_leader else ''}: {choice.reason}" for choice in able]
    return f"Choose a leader: {'; '.join(costs)}."


def choice_row(choice: WhatIfLeader) -> tuple[str, ...]:
    """The cells below HEAD."""
    can_lead = choice.rank is not None
    return (
        str(choice.rank) if can_lead else "-",
        str(choice.candidate_id),
        "leads" if choice.is_leader else "ISR" if choice.in_isr else "",
        "-" if choice.last_epoch is None or choice.last_epoch < 0 else str(choice.last_epoch),
        "-" if choice.log_end_offset is None else str(choice.log_end_offset),
        "-" if choice.lost_bytes is None or not can_lead else str(choice.lost_bytes),
        _followers(choice) if can_lead else "-",
        choice.reason,
    )


def _followers(choice: WhatIfLeader) -> str:
    done = ((choice.followers_cut, "cut"), (choice.followers_restarted, "restarted"))
    return ", ".join(f"{number} {what}" for number, what in done if number) or "none cut"
