"""What is said of a partition as a whole: a section is a function of the facts, and of how much of a long list it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from replica_audit.protocol.transactions.open_transactions import GapDoubt
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.report.document import Block, Heading, Rows, Sentence
from replica_audit.report.facts.partition_facts import PARTITION_TABLES, PartitionFacts
from replica_audit.report.layout.paragraphs import listed, whole_in
from replica_audit.report.sections.offline import leaderless
from replica_audit.report.sections.transactions import transaction_blocks
from replica_audit.rows.history import ConsumerImpact, LeaderEpoch
from replica_audit.rows.records import DamagedBatch, MissingSequences
from replica_audit.rows.replicas import FutureReplica, ReplicaRole
from replica_audit.rows.what_if import WhatIfLeader
from replica_audit.words import count

_DAMAGE = {
    "crc": "the batch does not match its CRC",
    "unframed": "the bytes there are not a batch, and reading stops",
    "base_offset": "the batch is at other offsets than those it was written at",
    "leader_epoch": "the batch has a leader epoch that cannot be right",
}


def _affected(one: DamagedBatch) -> str:
    """The offsets of a damaged batch."""
    if one.last_offset is None:
        return f"offsets from {one.first_offset} on"
    return f"offset {one.first_offset}" if one.last_offset == one.first_offset else f"offsets {one.first_offset}..{one.last_offset}"


def _what_is_wrong(one: DamagedBatch) -> str:
    """What is wrong with a batch, and where it lies."""
    crcs = ""
    if one.damage == "crc" and one.stored_crc is not None and one.computed_crc is not None:
        crcs = f" (stored {one.stored_crc:08x}, computed {one.computed_crc:08x})"
    at = "" if one.byte_offset is None else f" at byte {one.byte_offset}"
    wrong = ""
    if one.wrong_fields and one.recovery == "recoverable":
        wrong = f"; differs from the other replicas in: {', '.join(one.wrong_fields)}"
    return f"broker {one.broker_id}, {_affected(one)}: {_DAMAGE.get(one.damage, one.damage)}{crcs}, {one.path}{at}{wrong}"


def _good_copies(one: DamagedBatch) -> str:
    """What the other replicas' copies prove."""
    brokers = listed(one.good_broker_ids)
    match one.recovery:
        case "recoverable":
            others = [broker for broker in one.good_broker_ids if broker != one.recover_from_id]
            besides = f"; the same is on broker {listed(others)}" if others else ""
            return (
                f"recover {_affected(one)} from broker {one.recover_from_id}: its copy passes its CRC and is the batch as written{besides}"
            )
        case "unconfirmed":
            return f"only the copy of broker {brokers} passes its CRC, and nothing proves that it is the same batch"
        case "copies_disagree":
            return f"the copies of brokers {brokers} pass their CRCs and differ: compare them before you use one"
    return (
        "no other replica's copy of these offsets passes its CRC: the records cannot be recovered from this input. Keep every copy, and "
        "let consumers seek beyond them"
    )


def damage_blocks(facts: PartitionFacts, most: int) -> Iterator[Block]:
    """Every damaged batch: what is wrong with it, and what the other copies prove."""
    if not facts.damaged:
        return
    yield Heading("Damaged batches")
    for one in facts.damaged[:most]:
        cut = " The broker cuts it off when it starts." if one.cut_by_recovery else ""
        proof = _good_copies(one)
        yield Sentence(f"{_what_is_wrong(one)}. {proof[:1].upper()}{proof[1:]}.{cut}", label="- ")
    if len(facts.damaged) > most:
        yield Sentence(f"and {len(facts.damaged) - most} more {whole_in('the table damaged_batches', facts.warehouse)}")


ROLE_HEAD = ("broker", "role", "in", "fenced", "log\nend", "high\nwater-\nmark", "knows\nepoch", "led\nby", "a fetch is\nanswered")
_STANDINGS = {
    "zombie-leader": "considers itself the leader, in an epoch that has ended",
    "zombie-follower": "considers itself a follower, in an epoch that has ended",
    "ahead": "knows an epoch that the leader does not know yet",
    "behind": "its metadata is older: copied earlier, or a zombie",
    "down": "its broker does not run",
    "unknown": "no copy of the metadata log shows its role on its broker",
}


def role_blocks(facts: PartitionFacts, _most: int) -> Iterator[Block]:
    """One row for each replica, then what speaks against members of the ISR."""
    if not facts.roles:
        return
    leader, number = facts.roles[0].leader_id, facts.roles[0].leader_epoch
    leads = "nobody leads" if leader < 0 else f"broker {leader} leads"
    yield Heading(f"The replicas ({leads}{f' in epoch {number}' if number >= 0 else ''})")
    yield Rows(ROLE_HEAD, [role_row(role) for role in facts.roles])
    used = {role.standing for role in facts.roles}
    meanings = [f"{name}: {_STANDINGS[name]}" for name in _STANDINGS if name in used]
    if meanings:
        yield Sentence("; ".join(meanings))
    for role in facts.roles:
        if role.isr_objection:
            yield Sentence(f"Broker {role.broker_id} should not be in the ISR: {role.isr_objection}")


def role_row(role: ReplicaRole) -> tuple[str, ...]:
    """The cells below ROLE_HEAD."""
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


def future_blocks(facts: PartitionFacts, _most: int) -> Iterator[Block]:
    """Each move between log directories: from where to where, how far it is, and what truncation does to it."""
    if not facts.futures:
        return
    yield Heading("Moves between log directories (the broker's current replica leads)")
    for future in facts.futures:
        origin = "a log directory that is not in the input" if future.log_dir is None else future.log_dir
        said = f"{future.directory}, from {origin} to {future.future_log_dir}: {future.verdict} ({future.severity}): {future.reason}"
        yield Sentence("; ".join([said, *_progress(future)]), label=f"broker {future.broker_id}: ")


def _progress(future: FutureReplica) -> Iterator[str]:
    if future.lag_offsets and future.verdict != "lagging":
        yield f"{future.lag_offsets} offsets behind"
    if future.restart_offset is not None:
        yield f"empties its log and starts at {future.restart_offset} by {future.protocol}"
    elif future.truncation_offset is not None:
        yield f"truncates to {future.truncation_offset} by {future.protocol}"
    if future.removed_records:
        yield f"{future.removed_records} records of the future replica are truncated"


ELECTION_HEAD = ("epoch", "leader", "elected", "at (UTC)", "starts\nat", "lost in it")
_UNCLEAN = "unclean"
_MOST_ELECTIONS = 16
_FIRST, _LAST, _LAST_UNCLEAN = 3, 7, 5


def election_blocks(facts: PartitionFacts, _most: int) -> Iterator[Block]:
    """One row for each election; of a long history the beginning, the end, and the last unclean ones."""
    elections = facts.elections
    if not elections:
        return
    yield Heading("Elections in the metadata log")
    yield Rows(ELECTION_HEAD, election_rows(elections))
    unclean = sum(election.election == _UNCLEAN for election in elections)
    if unclean:
        yield Sentence(
            f"{count(unclean, 'unclean election')}. Lost in it: offsets of earlier epochs that a replica still holds and the elected one "
            "did not hold; what nobody holds any more is not counted."
        )


def election_rows(elections: Sequence[LeaderEpoch]) -> list[tuple[str, ...]]:
    """The cells below ELECTION_HEAD; of a long history the beginning, the end, and the last unclean ones."""
    shown = _shown_elections(elections)
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for place, election in enumerate(elections):
        if place not in shown:
            left_out += 1
            continue
        if left_out:
            rows.append(("...", "", f"{left_out} left out", "", "", ""))
            left_out = 0
        rows.append(_election_row(election))
    return rows


def _election_row(election: LeaderEpoch) -> tuple[str, ...]:
    return (
        str(election.leader_epoch),
        "nobody" if election.leader_id < 0 else str(election.leader_id),
        election.election,
        "-" if election.began_at is None else _time(election.began_at),
        "-" if election.start_offset is None else str(election.start_offset),
        _given_up(election),
    )


def _given_up(election: LeaderEpoch) -> str:
    if election.election != _UNCLEAN:
        return ""
    if election.given_up_offsets is None:
        return "not known"
    if not election.given_up_offsets:
        return "nothing held"
    return f"{election.given_up_offsets}, held by {listed(election.given_up_held_by or ())}"


def _time(at: datetime) -> str:
    utc = at if at.tzinfo is None else at.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _shown_elections(elections: Sequence[LeaderEpoch]) -> set[int]:
    places = range(len(elections))
    if len(elections) <= _MOST_ELECTIONS:
        return set(places)
    unclean = [place for place in places if elections[place].election == _UNCLEAN]
    return {*places[:_FIRST], *places[-_LAST:], *unclean[-_LAST_UNCLEAN:]}


_AFTERWARDS = (
    "Committed records that a truncation removed are gone from that replica: look for them in earlier copies and in what "
    "consumers have processed. Groups whose committed offset is above the truncation offset resume at other records."
)


def incident_blocks(facts: PartitionFacts, most: int) -> Iterator[Block]:
    """One item for each incident, the last ones of many."""
    if not facts.incidents:
        return
    yield Heading("According to the brokers' server.log")
    left_out = len(facts.incidents) - most
    if left_out > 0:
        yield Sentence(f"{count(left_out, 'earlier incident')} {whole_in('the table logged_incidents', facts.warehouse)}")
    for incident in facts.incidents[-most:]:
        yield Sentence(f"{incident.summary}.", label="- ")
    if any(incident.kind == "removed_below_high_watermark" for incident in facts.incidents):
        yield Sentence(_AFTERWARDS)


_WHY_NOT: dict[str, str] = {
    GapDoubt.FIRST_IN_LOG: "not certain: the producer has no earlier batch here, and its first ones may have been refused",
    GapDoubt.DAMAGED_BATCHES: "not certain: they may be in batches that do not match their CRC",
    GapDoubt.LOG_START_MOVED: "not certain: the log start has moved over what is before them",
    GapDoubt.STATE_EXPIRED: "not certain: the leader may have forgotten the producer (producer.id.expiration.ms)",
    GapDoubt.TIME_UNKNOWN: "not certain: when the next batch was appended is not known, and the leader may have forgotten the producer",
}
_AGAIN = (
    "Records that are certainly missing had been in the leader's log. Look for them in copies of that time, in what consumers have "
    "processed, and at the producer."
)


def gap_blocks(facts: PartitionFacts, most: int) -> Iterator[Block]:
    """One item for each gap, those that are certain first."""
    if not facts.gaps:
        return
    yield Heading("Records missing from producers' sequences")
    for gap in facts.gaps[:most]:
        yield Sentence(f"{_place(gap)}: {_certainty(gap)}.", label="- ")
    left_out = len(facts.gaps) - most
    if left_out > 0:
        yield Sentence(f"{count(left_out, 'more gap')} {whole_in('the table sequence_gaps', facts.warehouse)}")
    if any(gap.is_certain for gap in facts.gaps):
        yield Sentence(_AGAIN)


def _place(gap: MissingSequences) -> str:
    before = f"{gap.sequence_before} at offset {gap.last_offset_before}" if gap.sequence_before is not None else "none in this epoch"
    when = _written(gap, ", written between {} and {} UTC")
    return (
        f"{count(gap.missing_records, 'record')} of producer {gap.producer_id} (epoch {gap.producer_epoch}): last sequence {before}, next "
        f"{gap.sequence_after} at offset {gap.first_offset_after}{when}"
    )


def _written(gap: MissingSequences, form: str) -> str:
    """When the records were written; empty if that is not known."""
    if gap.written_after is None or gap.written_before is None:
        return ""
    return form.format(*(f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (gap.written_after, gap.written_before)))


def _certainty(gap: MissingSequences) -> str:
    if gap.held_by:
        return f"broker {', '.join(map(str, gap.held_by))} still has them, at least the first"
    return "certain, and no replica has them" if gap.doubt is None else _WHY_NOT.get(gap.doubt, gap.doubt)


GROUP_HEAD = ("group", "offset", "epoch", "result", "resumes\nat", "gone", "reread", "missed", "nearest")
_UNKNOWN = "unknown"


def group_blocks(facts: PartitionFacts, most: int) -> Iterator[Block]:
    """How many groups are affected, a row for each of the worst, and why."""
    if not facts.impacts:
        return
    hit = [impact for impact in facts.impacts if impact.affected]
    untold = [impact for impact in facts.impacts if impact.affected is None]
    spared = len(facts.impacts) - len(hit) - len(untold)
    counts = ((len(hit), "affected"), (len(untold), "unknown"), (spared, "not affected"))
    yield Heading("Consumer groups")
    said = ", ".join(f"{number} {what}" for number, what in counts if number)
    yield Sentence(f"{count(len(facts.impacts), 'group')} with a committed offset: {said}.")
    shown = [*hit, *untold][:most]
    if not shown:
        return
    yield Rows(GROUP_HEAD, [group_row(impact) for impact in shown])
    left_out = len(hit) + len(untold) - len(shown)
    if left_out:
        yield Sentence(f"and {left_out} more {whole_in('the table consumer_impacts', facts.warehouse)}")
    yield Sentence(
        "Offset, epoch: as committed. Gone: consumed offsets whose records no longer exist. Reread, missed: offsets of the leader's log "
        "that the group reads again, never reads. Policy: auto.offset.reset decides; reread is then with earliest, missed with latest. "
        "Nearest: where seekToNearest of KIP-320's draft would have moved it; same: to the same place."
    )
    reasons: dict[str, list[str]] = {}
    for impact in shown:
        reasons.setdefault(impact.reason, []).append(impact.group_id)
    for reason, groups in reasons.items():
        yield Sentence(f"{listed(groups)}: {reason}", label="- ")


def group_row(impact: ConsumerImpact) -> tuple[str, ...]:
    """The cells below GROUP_HEAD."""
    is_unknown = impact.validation_result == _UNKNOWN
    resumes = "?" if is_unknown else "policy" if impact.reset_offset is None else str(impact.reset_offset)
    counts = (impact.records_gone, impact.records_reread, impact.records_missed)
    return (
        impact.group_id,
        str(impact.committed_offset),
        "none" if impact.committed_leader_epoch < 0 else str(impact.committed_leader_epoch),
        f"{impact.validation_result}{', rewritten' if impact.history_rewritten else ''}",
        resumes,
        *("?" if number is None else str(number) for number in counts),
        "-" if impact.nearest_offset is None else "same" if impact.nearest_offset == impact.reset_offset else str(impact.nearest_offset),
    )


CHOICE_HEAD = ("rank", "broker", "now", "last\nepoch", "log\nend", "lost\nbytes", "followers", "cost")
_NOTHING = "nothing is lost"


def choice_blocks(facts: PartitionFacts, _most: int) -> Iterator[Block]:
    """One row for each replica; those that cannot lead come last, without a rank."""
    if not facts.choices:
        return
    yield Heading("Each replica as the leader, smallest loss first")
    if all(choice.rank is not None and choice.reason == _NOTHING for choice in facts.choices):
        yield Sentence("Nothing is lost, whichever leads.")
        return
    yield Rows(CHOICE_HEAD, [choice_row(choice) for choice in facts.choices])


def weighed(facts: PartitionFacts) -> str | None:
    """What each choice of a leader costs, in a sentence; None where it costs nothing or there is no choice."""
    able = [choice for choice in facts.choices if choice.rank is not None]
    if len(able) < 2 or all(choice.reason == _NOTHING for choice in able):
        return None
    costs = [f"broker {choice.candidate_id}{' (leads now)' if choice.is_leader else ''}: {choice.reason}" for choice in able]
    return f"Choose a leader: {'; '.join(costs)}."


def choice_row(choice: WhatIfLeader) -> tuple[str, ...]:
    """The cells below CHOICE_HEAD."""
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


Section = Callable[[PartitionFacts, int], Iterator[Block]]


def partition_head(facts: PartitionFacts) -> Iterator[Block]:
    """Whose facts they are; more than the name only where no follower told it before."""
    yield Sentence(f"{facts.name}: the partition", indent=0)
    if facts.alone is None:
        return
    # the metadata names every replica; the input alone may lack some
    why = f"only broker {facts.roles[0].broker_id} has a replica" if len(facts.roles) == 1 else facts.alone
    yield Sentence(f"There is no follower to explain: {why}.")
    yield Sentence(facts.run.cluster_id, label="cluster   ")
    yield Sentence(f"{facts.run.run_id} of {facts.run.run_date}", label="run       ")
    if facts.folder:
        yield Sentence(facts.folder, label="below     ")
    if facts.warehouse:
        yield Sentence(facts.warehouse, label="tables in ")


def leaderless_blocks(facts: PartitionFacts) -> Iterator[Block]:
    """That nobody leads the partition, and what each choice loses; nothing where somebody leads."""
    if facts.offline is not None:
        yield Heading(f"Nobody leads {facts.name}: {facts.offline.code} ({facts.offline.severity})")
        yield from map(Sentence, leaderless(facts.offline, facts.choices))


def finding_blocks(facts: PartitionFacts) -> Iterator[Block]:
    """What else was found of the partition besides its followers' verdicts."""
    for one in facts.findings:
        if one is not facts.offline:
            whose = f" of broker {one.broker_id}" if one.broker_id >= 0 else ""
            yield Sentence(f"{one.code} ({one.severity}){whose}: {one.summary}")
            if one.code == PartitionCode.REMOVED_BELOW_HIGH_WATERMARK:
                yield Sentence(_REMOVED)


_REMOVED = (
    "If the leader holds these offsets (see the pairs), the follower has fetched them again; else only a copy of before has them, or the "
    "application."
)


def _limits(facts: PartitionFacts, _most: int) -> Iterator[Block]:
    short = [name for name in facts.cut_short if name in PARTITION_TABLES or facts.alone is not None]
    if short:
        yield Sentence(f"Some rows of these tables were not read: {', '.join(short)}. This explanation may be incomplete.", indent=0)


PARTITION_SECTIONS: tuple[Section, ...] = (
    damage_blocks,
    transaction_blocks,
    role_blocks,
    election_blocks,
    incident_blocks,
    gap_blocks,
    group_blocks,
    choice_blocks,
    future_blocks,
    _limits,
)
