"""The partition as a whole as text, after its followers. A section is a function of the facts; one without lines is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replica_audit.report.facts.partition_facts import PARTITION_TABLES, PartitionFacts
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.report.text.choices_text import choice_lines
from replica_audit.report.text.damage_text import damage_lines
from replica_audit.report.text.elections_text import election_lines
from replica_audit.report.text.gaps_text import gap_lines
from replica_audit.report.text.groups_text import group_lines
from replica_audit.report.text.incidents_text import incident_lines
from replica_audit.report.text.offline_text import elections, in_sync, since
from replica_audit.report.text.roles_text import future_lines, role_lines
from replica_audit.report.text.transactions_text import transaction_lines

Section = Callable[[PartitionFacts], Iterator[str]]


def partition_head(facts: PartitionFacts) -> Iterator[str]:
    """Whose facts they are; more than the name only where no follower told it before."""
    yield from paragraph(f"{facts.name}: the partition", 0)
    if facts.alone is None:
        return
    # the metadata names every replica; the input alone may lack some
    why = f"only broker {facts.roles[0].broker_id} has a replica" if len(facts.roles) == 1 else facts.alone
    yield from paragraph(f"There is no follower to explain: {why}.")
    yield from paragraph(facts.run.cluster_id, first="cluster   ")
    yield from paragraph(f"{facts.run.run_id} of {facts.run.run_date}", first="run       ")
    if facts.folder:
        yield from paragraph(facts.folder, first="below     ")
    if facts.warehouse:
        yield from paragraph(facts.warehouse, first="tables in ")


def finding_lines(facts: PartitionFacts) -> Iterator[str]:
    """What was found of the partition besides its followers' verdicts: first that nobody leads it, and what each choice loses."""
    for one in facts.findings:
        if one is not facts.offline:
            whose = f" of broker {one.broker_id}" if one.broker_id >= 0 else ""
            yield from paragraph(f"{one.code} ({one.severity}){whose}: {one.summary}")
            continue
        yield f"Nobody leads {facts.name}: {one.code} ({one.severity})"
        yield from paragraph(f"{in_sync(one.isr, one.elr, one.last_leader_id)}{since(one.leaderless_since)}.")
        if one.cluster_stopped:
            yield from paragraph("The whole cluster was shut down cleanly; starting it elects a leader cleanly.")
        for line in elections(facts.choices):
            yield from paragraph(line)


def _limits(facts: PartitionFacts) -> Iterator[str]:
    short = [name for name in facts.cut_short if name in PARTITION_TABLES or facts.alone is not None]
    if short:
        yield from paragraph(f"Some rows of these tables were not read: {', '.join(short)}. This explanation may be incomplete.", 0)


PARTITION_SECTIONS: tuple[Section, ...] = (
    damage_lines,
    transaction_lines,
    role_lines,
    election_lines,
    incident_lines,
    gap_lines,
    group_lines,
    choice_lines,
    future_lines,
    _limits,
)
