"""Who is what: each replica's standing and what its broker knows, and the replicas that a broker moves between its log directories."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.rows.replicas import FutureReplica, ReplicaRole

HEAD = ("broker", "role", "in", "fenced", "log\nend", "high\nwater-\nmark", "knows\nepoch", "led\nby", "a fetch is\nanswered")
_STANDINGS = {
    "zombie-leader": "considers itself the leader, in an epoch that has ended",
    "zombie-follower": "considers itself a follower, in an epoch that has ended",
    "ahead": "knows an epoch that the leader does not know yet",
    "behind": "its metadata is older: copied earlier, or a zombie",
    "down": "its broker does not run",
    "unknown": "no copy of the metadata log shows its role on its broker",
}


def role_lines(facts: PartitionFacts) -> Iterator[str]:
    """One row for each replica, then what speaks against members of the ISR."""
    if not facts.roles:
        return
    leader, number = facts.roles[0].leader_id, facts.roles[0].leader_epoch
    leads = "nobody leads" if leader < 0 else f"broker {leader} leads"
    yield f"The replicas ({leads}{f' in epoch {number}' if number >= 0 else ''})"
    yield from fitted(HEAD, [role_row(role) for role in facts.roles])
    used = {role.standing for role in facts.roles}
    meanings = [f"{name}: {_STANDINGS[name]}" for name in _STANDINGS if name in used]
    if meanings:
        yield from paragraph("; ".join(meanings))
    for role in facts.roles:
        if role.isr_objection:
            yield from paragraph(f"Broker {role.broker_id} should not be in the ISR: {role.isr_objection}")


def role_row(role: ReplicaRole) -> tuple[str, ...]:
    """The cells below HEAD."""
    known_leader = role.known_leader_id
    return (
        str(role.broker_id),
        role.standing,
        "ISR" if role.in_isr else "ELR" if role.in_elr else "",
        "" if role.fenced is None else "yes" if role.fenced else "no",
        "-" if role.log_end_offset is None else str(role.log_end_offset),
        "-" if role.high_watermark is None else str(role.high_watermark),
        "" if role.known_leader_epoch is None else "none" if role.known_leader_epoch < 0 else str(role.known_leader_epoch),
        "" if known_leader is None else "nobody" if known_leader < 0 else str(known_leader),
        role.fetch_error or "",
    )


def future_lines(facts: PartitionFacts) -> Iterator[str]:
    """Each move between log directories: from where to where, how far it is, and what truncation does to it."""
    if not facts.futures:
        return
    yield "Moves between log directories (the broker's current replica leads)"
    for future in facts.futures:
        origin = "a log directory that is not in the input" if future.log_dir is None else future.log_dir
        said = f"{future.directory}, from {origin} to {future.future_log_dir}: {future.verdict} ({future.severity}): {future.reason}"
        yield from paragraph("; ".join([said, *_progress(future)]), first=f"broker {future.broker_id}: ")


def _progress(future: FutureReplica) -> Iterator[str]:
    if future.lag_offsets and future.verdict != "lagging":
        yield f"{future.lag_offsets} offsets behind"
    if future.restart_offset is not None:
        yield f"empties its log and starts at {future.restart_offset} by {future.protocol}"
    elif future.truncation_offset is not None:
        yield f"truncates to {future.truncation_offset} by {future.protocol}"
    if future.removed_records:
        yield f"{future.removed_records} records of the future replica are truncated"
