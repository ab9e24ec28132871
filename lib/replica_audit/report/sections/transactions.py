"""What an operator does about what was found of a partition: damaged batches, open transactions, and what is no verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import join

from replica_audit.errors import visible
from replica_audit.program import option
from replica_audit.protocol.transactions.open_transactions import HangsBecause
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.recovery.commands import abort_arguments, abort_by_producer
from replica_audit.recovery.endings import committed_by, is_taken_for_committed
from replica_audit.report.layout.paragraphs import CommandLine, listed, offsets
from replica_audit.rows.records import DamagedBatch, TransactionElsewhere, TransactionFacts
from replica_audit.words import count

_DAMAGE = {
    "crc": "the batch does not match its CRC",
    "unframed": "the bytes there are not a batch, and reading stops",
    "base_offset": "the batch is at other offsets than those it was written at",
    "leader_epoch": "the batch has a leader epoch that cannot be right",
}
_MOST = 5


def affected(one: DamagedBatch) -> str:
    """The offsets of a damaged batch."""
    if one.last_offset is None:
        return f"offsets from {one.first_offset} on"
    return f"offset {one.first_offset}" if one.last_offset == one.first_offset else f"offsets {one.first_offset}..{one.last_offset}"


def what_is_wrong(one: DamagedBatch) -> str:
    """What is wrong with a batch, and where it lies."""
    crcs = ""
    if one.damage == "crc" and one.stored_crc is not None and one.computed_crc is not None:
        crcs = f" (stored {one.stored_crc:08x}, computed {one.computed_crc:08x})"
    at = "" if one.byte_offset is None else f" at byte {one.byte_offset}"
    wrong = ""
    if one.wrong_fields and one.recovery == "recoverable":
        wrong = f"; differs from the other replicas in: {', '.join(one.wrong_fields)}"
    return f"broker {one.broker_id}, {affected(one)}: {_DAMAGE.get(one.damage, one.damage)}{crcs}, {one.path}{at}{wrong}"


def good_copies(one: DamagedBatch) -> str:
    """What the other replicas' copies prove."""
    brokers = listed(one.good_broker_ids)
    match one.recovery:
        case "recoverable":
            others = [broker for broker in one.good_broker_ids if broker != one.recover_from_id]
            besides = f"; the same is on broker {listed(others)}" if others else ""
            return (
                f"recover {affected(one)} from broker {one.recover_from_id}: its copy passes its CRC and is the batch as written{besides}"
            )
        case "unconfirmed":
            return f"only the copy of broker {brokers} passes its CRC, and nothing proves that it is the same batch"
        case "copies_disagree":
            return f"the copies of brokers {brokers} pass their CRCs and differ: compare them before you use one"
    return (
        "no other replica's copy of these offsets passes its CRC: the records cannot be recovered from this input. Keep every copy, and "
        "let consumers seek beyond them"
    )


def damage_steps(damaged: Sequence[DamagedBatch]) -> Iterator[str]:
    """A step for each damaged batch, the first few of them."""
    for one in damaged[:_MOST]:
        wrong, copies = what_is_wrong(one), good_copies(one)
        if one.cut_by_recovery:
            cut = "The broker cuts it off when it starts, with all that is behind it: copy its directory first"
            yield f"{_begun(wrong)}. {cut}. {_begun(copies)}."
            continue
        yield f"{_begun(copies)} ({wrong})."
        if one.damage == "unframed" and one.last_offset is None:
            yield (
                f"Do not start broker {one.broker_id} with it: after a clean stop nothing cuts it off, and the broker appends what it "
                "fetches behind it."
            )
    if len(damaged) > _MOST:
        yield f"And {len(damaged) - _MOST} more damaged batches: table damaged_batches."


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


TOOL = "kafka-transactions.sh --bootstrap-server BROKER:PORT"
_START_OFFSET, _BY_PRODUCER = "start-offset", "producer-id"  # open_transactions.abort_form
_WHY: dict[str, str] = {
    HangsBecause.MARKER_REMOVED: "its marker was written to another replica, and the leader's log does not have it",
    HangsBecause.COORDINATOR_WENT_ON: "its coordinator completed it and is in another epoch now, and the leader's log has no marker",
    HangsBecause.PAST_TIMEOUT: "its coordinator does not know it, and its producer's last write is older than any transaction may be",
}


def hanging(transactions: Sequence[TransactionFacts]) -> tuple[TransactionFacts, ...]:
    """Those that nobody will end."""
    return tuple(one for one in transactions if one.hangs_because)


def whose(one: TransactionFacts) -> str:
    """The producer of a transaction, by its transactional id where it is known."""
    producer = f"producer {one.producer_id}, epoch {one.producer_epoch}"
    return producer if one.transactional_id is None else f"{visible(one.transactional_id)} ({producer})"


def open_since(one: TransactionFacts) -> str:
    """When its first and last batch were written; empty if that is not known."""
    if one.began_at is None:
        return ""
    began = f"{one.began_at:%Y-%m-%d %H:%M:%S}"
    last = "" if one.last_written_at is None else f"{one.last_written_at:%Y-%m-%d %H:%M:%S}"
    return f"since {began} UTC{'' if last in ('', began) else f', last written {last}'}"


def standing(one: TransactionFacts) -> str:
    """Whether it hangs, and why; or that somebody may end it."""
    if one.hangs_because is None:
        return "may still be ended, or nothing shows whether anybody will end it"
    return f"hangs: {_WHY.get(one.hangs_because, one.hangs_because)}"


def coordinator(one: TransactionFacts) -> str:
    """What the coordinator says of its transactional id."""
    if one.coordinator_state is None:
        return "no __transaction_state in the input names its producer"
    timeout = "" if one.timeout_ms is None else f", timeout {one.timeout_ms} ms"
    other = one.coordinator_producer_id not in (None, one.producer_id)
    now = f" of producer {one.coordinator_producer_id}, another id for the same transactional id," if other else ","
    return f"its coordinator says {one.coordinator_state}{now} producer epoch {one.coordinator_epoch}{timeout}"


def elsewhere(one: TransactionFacts) -> Iterator[str]:
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


def stops_consumers(transactions: Sequence[TransactionFacts]) -> str:
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


def abort_command(one: TransactionFacts, topic: str, partition: int) -> tuple[str, str]:
    """The line that ends a transaction, in two parts: the tool, and what it ends."""
    return f"{TOOL} abort", abort_arguments(one, topic, partition)


def about_the_tool(found: Sequence[TransactionFacts]) -> str:
    """What the commands need besides: the version of the tool, or other arguments for older brokers; empty if nothing."""
    first = found[0]
    epoch = ""
    if first.abort_form != _START_OFFSET and any(one.marker_coordinator_epoch is None for one in found):
        epoch = " EPOCH is the leader epoch of the __transaction_state partition that holds the transactional id."
    if first.abort_form == _BY_PRODUCER:
        return f"These brokers are older than the tool, which came with Kafka 3.0: use that of a later release.{epoch}"
    if first.abort_form is None:
        return f"Brokers before 3.0 need {abort_by_producer(first)} in place of --start-offset, and the tool of a later release.{epoch}"
    return ""


_OF_FINDINGS: Mapping[str, str] = {
    PartitionCode.MARKER_MISSING: "Before this replica may lead, rebuild it from the leader: the plan (--plan DIR) has the steps.",
    PartitionCode.WILL_BECOME_STRAY: (
        "Do not start this broker before the directory was copied. If the broker has a partition.metadata there, copy that, too, and audit "
        "again: then the log is read as it is."
    ),
    PartitionCode.STRAY_HOLDS_RECORDS: "Copy the directory before anybody deletes it: --salvage saves its records.",
    PartitionCode.REMOVED_BELOW_HIGH_WATERMARK: (
        "If the leader holds these offsets (see the pairs), the follower has fetched them again; else only a copy of before has them, or "
        "the application."
    ),
}


def finding_step(code: str) -> str | None:
    """What to do about a finding of a partition; None where its own section says that, or the plan alone."""
    return _OF_FINDINGS.get(code)


def save_first(one: TransactionFacts, topic: str, partition: int) -> str | None:
    """What to save before a transaction is aborted, or to look at; None if nobody takes it for committed."""
    if one.may_be_committed is False:
        return None
    records = f"the records of {offsets(one.first_offset, one.last_offset + 1)}, {whose(one)}"
    read = (
        f"kafka-console-consumer.sh --bootstrap-server BROKER:PORT --isolation-level read_uncommitted "
        f"{join(option('--topic', topic))} --partition {partition} --offset {one.first_offset} "
        "reads them, and what others wrote between them."
    )
    if one.may_be_committed is None:
        hidden = "once it is aborted read_committed consumers never see them"
        return f"First look at {records}: whether they should have been committed is not known, and {hidden}. {read}"
    return (
        f"First save {records}: {committed_by(one)}, so its producer considers them committed, and once it is aborted read_committed "
        f"consumers never see them. {read}"
    )


def to_be_saved(found: Sequence[TransactionFacts], topic: str, partition: int) -> Iterator[str]:
    """A step for each transaction that may count as committed, the first few of them."""
    steps = [step for one in found if (step := save_first(one, topic, partition))]
    yield from steps[:_MOST]
    if len(steps) > _MOST:
        yield (
            f"The same applies to {count(len(steps) - _MOST, 'more transaction')}: see column may_be_committed of the table "
            "open_transactions."
        )


def in_short(found: Sequence[TransactionFacts], topic: str, partition: int) -> Iterator[str]:
    """Why transactions hang and how they are ended, in few lines for a list of findings; `found` are the first that hang, at least one."""
    first, several = found[0], len(found) > 1
    why = _WHY.get(first.hangs_because or "", first.hangs_because or "")
    yield " ".join([f"why{' the first' if several else ''}: {why}.", *_groups(first)])
    committed = [one for one in found if is_taken_for_committed(one)]
    if committed:
        where = ", ".join(f"{one.first_offset} ({visible(one.transactional_id or f'producer {one.producer_id}')})" for one in committed)
        by = committed_by(committed[0])
        which = "one" if len(committed) == 1 else "ones"
        hidden = "once aborted, read_committed consumers never see them"
        yield f"save first: the records of the {which} from offset {where}. {by[:1].upper()}{by[1:]}; {hidden}."
    ending = [one for one in found if one not in committed]
    if ending:
        others = ", and others that are not committed in the same way" if len(ending) > 1 else ""
        yield f"to end the one from offset {ending[0].first_offset}{others}:" if several else "to end it:"
        yield CommandLine(" ".join(abort_command(ending[0], topic, partition)))
    else:
        yield "how to end them then is in `explain`."
    if about_the_tool(found):
        yield about_the_tool(found)
