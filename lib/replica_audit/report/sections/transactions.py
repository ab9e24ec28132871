"""The transactions that are open at the end of a leader's log: why each stays open, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.errors import visible
from replica_audit.protocol.transactions.open_transactions import HangsBecause
from replica_audit.recovery.commands import abort_arguments
from replica_audit.recovery.endings import committed_by, is_taken_for_committed
from replica_audit.report.document import Block, Exact, Heading, Sentence
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.paragraphs import CommandLine, listed, offsets, whole_in
from replica_audit.rows.records import TransactionElsewhere, TransactionFacts
from replica_audit.words import count

_MOST = 5
_WHY: dict[str, str] = {
    HangsBecause.MARKER_REMOVED: "its marker was written to another replica, and the leader's log does not have it",
    HangsBecause.COORDINATOR_WENT_ON: "its coordinator completed it and is in another epoch now, and the leader's log has no marker",
    HangsBecause.PAST_TIMEOUT: "its coordinator does not know it, and its producer's last write is older than any transaction may be",
}


def hanging(transactions: Sequence[TransactionFacts]) -> tuple[TransactionFacts, ...]:
    """Those that nobody will end."""
    return tuple(one for one in transactions if one.hangs_because)


def _whose(one: TransactionFacts) -> str:
    """The producer of a transaction, by its transactional id where it is known."""
    producer = f"producer {one.producer_id}, epoch {one.producer_epoch}"
    return producer if one.transactional_id is None else f"{visible(one.transactional_id)} ({producer})"


def _open_since(one: TransactionFacts) -> str:
    """When its first and last batch were written; empty if that is not known."""
    if one.began_at is None:
        return ""
    began = f"{one.began_at:%Y-%m-%d %H:%M:%S}"
    last = "" if one.last_written_at is None else f"{one.last_written_at:%Y-%m-%d %H:%M:%S}"
    return f"since {began} UTC{'' if last in ('', began) else f', last written {last}'}"


def _standing(one: TransactionFacts) -> str:
    """Whether it hangs, and why; or that somebody may end it."""
    if one.hangs_because is None:
        return "may still be ended, or nothing shows whether anybody will end it"
    return f"hangs: {_WHY.get(one.hangs_because, one.hangs_because)}"


def _coordinator(one: TransactionFacts) -> str:
    """What the coordinator says of its transactional id."""
    if one.coordinator_state is None:
        return "no __transaction_state in the input names its producer"
    timeout = "" if one.timeout_ms is None else f", timeout {one.timeout_ms} ms"
    other = one.coordinator_producer_id not in (None, one.producer_id)
    now = f" of producer {one.coordinator_producer_id}, another id for the same transactional id," if other else ","
    return f"its coordinator says {one.coordinator_state}{now} producer epoch {one.coordinator_epoch}{timeout}"


def _elsewhere(one: TransactionFacts) -> Iterator[str]:
    """What the log of each other replica shows of it, and that their markers contradict each other."""
    for other in one.elsewhere:
        yield f"broker {other.broker_id}: {_there(other)}"
    if len({other.outcome for other in one.elsewhere if other.outcome}) > 1:
        yield "the markers contradict each other, so consumers of these replicas have read different records"


def _there(other: TransactionElsewhere) -> str:
    if other.standing == "not-there":
        return "its log holds nothing of the transaction"
    if other.standing != "finished":
        return "open, too"
    marker = f"{other.outcome or 'ended'} by a marker" + ("" if other.marker_offset is None else f" at offset {other.marker_offset}")
    return f"{marker}, which it truncates, or has truncated, to follow the leader" if other.is_removed else marker


def _stops_consumers(transactions: Sequence[TransactionFacts]) -> str:
    """Where consumers stand still for the first open transaction, and which groups may."""
    first = transactions[0]
    said = [f"The last stable offset is {first.last_stable_offset}: consumers with read_committed do not get beyond it."]
    said += _groups(first)
    return " ".join(said)


def _groups(first: TransactionFacts) -> Iterator[str]:
    """Groups by their committed offset; which of them read with read_committed is not in the files."""
    if first.waiting_groups:
        several = len(first.waiting_groups) > 1
        yield f"{_group(first.waiting_groups)} {'have' if several else 'has'} committed there: with read_committed {_it(several)}."
    if first.approaching_groups:
        yield f"Below it: {_names(first.approaching_groups)}; with read_committed they will stop at it."
    if first.groups_beyond:
        yield f"Beyond it: {_names(first.groups_beyond)}; they read with read_uncommitted, or have read from an earlier leader."


def _it(several: bool) -> str:
    return "they are stuck" if several else "it is stuck"


def _group(names: Sequence[str]) -> str:
    return f"Group{'s' if len(names) > 1 else ''} {_names(names)}"


def _names(names: Sequence[str]) -> str:
    return listed(map(visible, names), _MOST)


def transaction_blocks(facts: PartitionFacts, most: int) -> Iterator[Block]:
    """Those that hang first."""
    if not facts.transactions:
        return
    yield Heading("Open transactions")
    yield Sentence(_stops_consumers(facts.transactions))
    found = hanging(facts.transactions)
    shown = [*found, *(one for one in facts.transactions if not one.hangs_because)][:most]
    for one in shown:
        begun = f", {since}" if (since := _open_since(one)) else ""
        yield Sentence(f"{_where(one)}: {_whose(one)}{begun}. It {_standing(one)}.", label="- ")
        about = f"{_coordinator(one)}; {'; '.join(_elsewhere(one)) or 'no other replica shows it'}"
        yield Sentence(f"{about[:1].upper()}{about[1:]}.", indent=4)
        if one.hangs_because and one.may_be_committed is not False:
            yield Sentence(_may_be_committed(one), indent=4)
    if len(facts.transactions) > most:
        left = count(len(facts.transactions) - most, "more transaction")
        yield Sentence(f"{left} {whole_in('the table open_transactions', facts.warehouse)}")
    commands = [_abort(one, facts.topic, facts.partition) for one in found[:most] if not is_taken_for_committed(one)]
    if commands:
        yield Sentence("What ends those that nobody takes for committed:")
        yield Exact(commands)


def _where(one: TransactionFacts) -> str:
    """Its offsets."""
    return offsets(one.first_offset, one.last_offset + 1).capitalize()


def _may_be_committed(one: TransactionFacts) -> str:
    if one.may_be_committed is None:
        return "Whether its records should have been committed is not known: once it is aborted read_committed consumers never see them."
    by = committed_by(one)
    return f"{by[:1].upper()}{by[1:]}: its producer takes it for committed, and once it is aborted read_committed consumers never see it."


def _abort(one: TransactionFacts, topic: str, partition: int) -> CommandLine:
    """The line of the plan that ends a transaction."""
    return CommandLine(f"kafka-transactions.sh --bootstrap-server BROKER:PORT abort {abort_arguments(one, topic, partition)}")


def in_short(found: Sequence[TransactionFacts], topic: str, partition: int) -> Iterator[str]:
    """Why transactions hang, and what ends the first that nobody takes for committed; `found` are the first that hang, at least one."""
    first = found[0]
    why = _WHY.get(first.hangs_because or "", first.hangs_because or "")
    yield " ".join([f"why{' the first' if len(found) > 1 else ''}: {why}.", *_groups(first)])
    if any(map(is_taken_for_committed, found)):
        yield "save first: a producer takes its records for committed (see `explain`); then the plan ends it."
    ending = next((one for one in found if not is_taken_for_committed(one)), None)
    if ending is not None:
        others = ", and the plan has the others" if len(found) > 1 else ""
        yield f"to end the one from offset {ending.first_offset}{others}:" if len(found) > 1 else "to end it:"
        yield _abort(ending, topic, partition)
