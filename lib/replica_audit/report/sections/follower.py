"""What is said of one follower: a section is a function of its explanation; one without blocks is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from replica_audit.protocol.comparison.record_cursor import RecordPart
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.start_text import of_transactions
from replica_audit.report.document import Block, Exact, Heading, Rows, Sentence
from replica_audit.report.facts.explanation import Explained, ExplainedReplica, Explanation, Outcome, clipped
from replica_audit.report.layout.leader_words import has_no_leader, is_inferred, known_from, leader_name
from replica_audit.report.layout.paragraphs import epoch, listed, moment, offsets, span_of_time, whole_in
from replica_audit.report.sections.brokers import replica_start
from replica_audit.report.sections.drawn_logs import drawing_blocks
from replica_audit.report.sections.exchange import document_step_blocks, exchange_blocks, observed_blocks, rule_blocks
from replica_audit.rows.pairs import BatchFacts, BatchMismatch, DifferingOffsets, DifferingRecordCounted, RecordSizes, TruncationPoint
from replica_audit.rows.pairs import ReplicaVerdict as VerdictRow
from replica_audit.rows.records import Difference, HeldRecord
from replica_audit.rows.replicas import EpochStartOffset
from replica_audit.words import count

_KINDS = {
    "other_records": "The records are not the same.",
    "other_batching": "The same records are in other batches.",
    "other_encoding": "The same records are in the same batches, compressed differently.",
    "not_read": "Whether the records are the same is not known.",
}
_NO_VALUE = "-"


def mismatch_blocks(explanation: Explanation) -> Iterator[Block]:
    """The section of an explanation; nothing where no batch is known to differ."""
    found = explanation.verdict.mismatch
    if found is None:
        return
    yield Heading("Where the batches first differ")
    yield from map(Sentence, mismatch_sentences(found))
    yield Rows(mismatch_head(explanation), list(mismatch_rows(found)))


def mismatch_sentences(found: BatchMismatch) -> Iterator[str]:
    """What kind of difference it is, and how far was compared."""
    yield _KINDS.get(found.kind, f"{found.kind}.")
    if found.unread is not None:
        until = "" if found.compared_end_offset is None else f" Up to offset {found.compared_end_offset} they are."
        yield f"They were not compared: {found.unread}.{until}"
    if found.record is not None:
        yield f"The first such record is at offset {found.record.offset}. Not the same: {', '.join(found.record.parts)}."


def mismatch_head(explanation: Explanation) -> tuple[str, ...]:
    """The heads of the columns."""
    return "", leader_name(explanation.verdict), f"follower {explanation.verdict.follower_id}"


def mismatch_rows(found: BatchMismatch) -> Iterator[tuple[str, ...]]:
    """A row for each field: its name, the leader's, the follower's."""
    sides = [_batch(side) for side in (found.leader, found.follower)]
    for name in next((side for side in sides if side), {}):
        yield name, *(side.get(name, _NO_VALUE) for side in sides)
    if found.record is not None:
        records = [_record(side) for side in (found.record.leader, found.record.follower)]
        for name in next((side for side in records if side), {}):
            yield f"record {found.record.offset}: {name}", *(side.get(name, _NO_VALUE) for side in records)


def _batch(side: BatchFacts | None) -> dict[str, str]:
    if side is None:
        return {}
    producer = "none" if side.producer_id < 0 else f"{side.producer_id} epoch {side.producer_epoch}, sequence {side.base_sequence}"
    return {
        "offsets": f"{side.first_offset}..{side.last_offset}",
        "leader epoch": epoch(side.leader_epoch).removeprefix("epoch "),
        "CRC": f"{side.crc:08x}",
        "producer": producer,
        "records": _NO_VALUE if side.record_count is None else str(side.record_count),
        "newest (UTC)": moment(side.max_timestamp_ms) if side.max_timestamp_ms >= 0 else "none",
        "bytes": str(side.size_bytes),
        "codec": side.codec,
        "file": side.path,
        "at byte": _NO_VALUE if side.byte_offset is None else str(side.byte_offset),
    }


def _record(side: RecordSizes | None) -> dict[str, str]:
    if side is None:
        return {}
    return {
        "time (UTC)": moment(side.timestamp_ms) if side.timestamp_ms >= 0 else "none",
        "key": "none" if side.key_bytes is None else f"{side.key_bytes} bytes",
        "value": "none" if side.value_bytes is None else f"{side.value_bytes} bytes",
    }


_SHOWN_RECORDS = 20
_PART_MEANINGS = {
    RecordPart.PRESENCE: "missing",
    RecordPart.KEY: "with another key",
    RecordPart.VALUE: "with another value",
    RecordPart.HEADERS: "with the same key and value, and other headers",
    RecordPart.TIMESTAMP: "with another timestamp only",
    RecordPart.PRODUCER: "by another producer, or with another sequence number, and otherwise the same",
}


def record_blocks(explanation: Explanation) -> Iterator[Block]:
    """Which records differ; nothing where they were not compared, or none do."""
    counted = explanation.verdict.differing_records
    if not counted:
        return
    yield Heading("Records that differ")
    for one in counted:
        yield Sentence(_counted(one), label="- ")
    if explanation.verdict.records_unread is not None:
        yield Sentence(f"Not all records could be compared: {explanation.verdict.records_unread}.")
    for record in explanation.records[:_SHOWN_RECORDS]:
        yield Sentence(_record_line(record), indent=4, label="- ")
    left_out = sum(one.records for one in counted) - len(explanation.records[:_SHOWN_RECORDS])
    if left_out > 0:
        yield Sentence(f"and {left_out} more {whole_in('the table differences', explanation.warehouse)}", indent=4)


def _counted(one: DifferingRecordCounted) -> str:
    meaning = _PART_MEANINGS.get(RecordPart(one.part), one.part)
    where = "" if one.lacking_id is None else f" on broker {one.lacking_id}"
    return f"{count(one.records, 'record')} {meaning}{where}"


def _record_line(record: Difference) -> str:
    held = "; ".join(f"{role} {_held_record(side)}" for role, side in (("leader", record.leader), ("follower", record.follower)))
    return f"offset {record.offset}, not the same: {', '.join(record.parts or ())}; {held}"


def _held_record(side: HeldRecord | None) -> str:
    if side is None:
        return "none"
    name = "no key" if side.key_bytes is None else f"key {side.key if side.key is not None else (side.key_hash or '')[:16]}"
    value = "no value" if side.value_bytes is None else f"a value of {side.value_bytes} bytes"
    return f"{name}, {value}, {moment(side.timestamp_ms) if side.timestamp_ms >= 0 else 'no time'}"


_SHOWN_KEYS = 20


def key_blocks(explanation: Explanation) -> Iterator[Block]:
    """What is different, key by key; nothing where nothing is."""
    counted = explanation.verdict.differing_keys
    if not counted:
        return
    yield Heading(
        f"Keys whose newest records differ{'' if any(one.key is not None for one in explanation.records) else ' (by their hashes)'}"
    )
    for one in explanation.records[:_SHOWN_KEYS]:
        yield Sentence(_key_line(one), label="- ")
    left_out = sum(one.keys for one in counted) - len(explanation.records[:_SHOWN_KEYS])
    if left_out > 0:
        yield Sentence(f"and {left_out} more {whole_in('the table differences', explanation.warehouse)}")


def _key_line(key: Difference) -> str:
    held = ", ".join(f"{role} {_held_key(record)}" for role, record in (("leader", key.leader), ("follower", key.follower)))
    name = key.key_hash if key.key is None else f"{key.key} ({key.key_hash})"
    return f"{name}: {key.cause} on broker {key.broker_id}; {held}"


def _held_key(record: HeldRecord | None) -> str:
    if record is None:
        return "none"
    return f"{'a tombstone' if record.is_tombstone else 'a value'} at {record.offset}"


_MOST = 16
_AROUND = 5
_WITHOUT_FILE = ("not-collected", "not-used", "unreadable")
_MEANINGS = {
    "trivial-epoch": "elected at the log end, nothing written yet",
    "legal-lag": "a crash may leave the file behind, or ahead of, the log",
    "log-start": "the log start has moved",
    "compaction": "the cleaner removed the batches, and leaves the table as it is",
    "refetched-compacted-range": "fetched after the leader was cleaned",
    "corrupt": "file and batches contradict each other",
}


def epoch_table_blocks(explanation: Explanation) -> Iterator[Block]:
    """One line per epoch that either side knows; the middle of long tables is left out, but not what lies around the divergence."""
    sides = (explanation.leader, explanation.follower)
    entries = [{entry.leader_epoch: entry for entry in side.epochs} for side in sides]
    epochs = sorted({*entries[0], *entries[1]})
    if not epochs:
        return
    yield Heading("Epoch tables")
    leads = f"broker {sides[0].broker_id}" if is_inferred(explanation.verdict) else f"leader {sides[0].broker_id}"
    head = ("epoch", *(f"{name}: starts at" for name in (leads, f"follower {sides[1].broker_id}")))
    shown = _shown(epochs, entries, explanation)
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for number in epochs:
        if number not in shown:
            left_out += 1
            continue
        if left_out:
            rows.append(("...", f"{left_out} left out", ""))
            left_out = 0
        rows.append((str(number), *(_cell(known.get(number), side) for known, side in zip(entries, sides, strict=True))))
    yield Rows(head, rows)
    has_file = [side.log is None or side.log.checkpoint_state not in _WITHOUT_FILE for side in sides]
    told = [known for known, is_there in zip(entries, has_file, strict=True) if is_there]
    used = {entry.difference for known in told for number, entry in known.items() if number in shown and entry.difference}
    meanings = [f"{name}: {_MEANINGS[name]}" for name in _MEANINGS if name in used]
    if meanings:
        yield Sentence("; ".join(meanings))


def _cell(entry: EpochStartOffset | None, side: ExplainedReplica) -> str:
    if entry is None:
        return "-"
    if entry.difference is None and entry.in_effect:
        return str(entry.start_offset)
    if side.log is not None and side.log.checkpoint_state in _WITHOUT_FILE:
        return f"{entry.start_offset} (by batches)"
    start = str(entry.start_offset) if entry.in_effect else "not in effect"
    if entry.difference is None:
        # of a replica that cannot be read no entry is in effect
        return str(entry.start_offset) if side.log is not None and side.log.unreadable_reason is not None else start
    checkpoint, batches = ("-" if s is None else str(s) for s in (entry.checkpoint_start_offset, entry.segment_start_offset))
    return f"{start} (checkpoint {checkpoint}, batches {batches}: {entry.difference})"


def _shown(epochs: Sequence[int], entries: Sequence[dict[int, EpochStartOffset]], explanation: Explanation) -> set[int]:
    """The first two epochs, the last two, and those around the first that the sides do not start alike from the divergence on."""
    if len(epochs) <= _MOST:
        return set(epochs)
    parts = explanation.verdict.divergence_offset
    centre = len(epochs) - 1
    if parts is not None:
        starts = (max(known[epoch].start_offset for known in entries if epoch in known) for epoch in epochs)
        centre = next((place for place, start in enumerate(starts) if start >= parts), centre)
    return {*epochs[:2], *epochs[-2:], *epochs[max(centre - _AROUND, 0) : centre + _AROUND + 1]}


Section = Callable[[Explanation], Iterator[Block]]
_SHOWN = 5
_MOST_LINES = 60  # of a corrected checkpoint


def start_blocks(explained: Explained) -> Iterator[Block]:
    """What happens to each replica when its broker starts, in one line each."""
    for place, one in enumerate(explained.starts):
        if not place:
            yield Heading("When a broker starts")
        yield Sentence(replica_start(one), label=f"broker {one.broker_id}: ")


def head_blocks(explanation: Explanation) -> Iterator[Block]:
    """Whose explanation it is, its verdict, and what the verdict rests on: leader, protocol, run."""
    verdict, run = explanation.verdict, explanation.run
    leader = (
        f" of {leader_name(verdict)}" if verdict.leader_id >= 0 else ", no leader" if has_no_leader(verdict) else " of an unknown leader"
    )
    yield Sentence(f"{explanation.name}: follower {verdict.follower_id}{leader}", indent=0)
    yield Sentence(f"{verdict.verdict} ({verdict.severity}): {verdict.reason}")
    yield Sentence(explanation.run.cluster_id, label="cluster   ")
    yield Sentence(known_from(verdict), label="leader    ")
    yield Sentence(f"{verdict.protocol}: {run.protocol_reason or 'reason not recorded'}", label="protocol  ")
    yield Sentence(f"{run.run_id} of {run.run_date}", label="run       ")


def _what_goes(explanation: Explanation) -> Iterator[Block]:
    verdict, outcome, point = explanation.verdict, explanation.outcome, explanation.applied
    yield Heading("What is truncated")
    if outcome is None or point is None or explanation.follower.state is None:
        yield Sentence("Unknown: the two logs could not be compared.")
        return
    physical, end = outcome.physical_offset, explanation.follower.state.log_end_offset
    if physical is None or physical >= end:
        yield Sentence("Nothing is truncated." if verdict.restart_offset is None else f"Nothing: the log is empty ({end}).")
    else:
        yield from _removed(explanation, physical, end)
    yield from _what_stays(explanation, outcome, point)


def _removed(explanation: Explanation, physical: int, end: int) -> Iterator[Block]:
    verdict = explanation.verdict
    measures = ((verdict.removed_records, "record"), (verdict.removed_bytes, "byte"))
    size = [count(end - physical, "offset"), *(count(number, noun) for number, noun in measures if number is not None)]
    yield Sentence(f"{offsets(physical, end).capitalize()} of follower {verdict.follower_id}: {', '.join(size)}.")
    cut = verdict.truncation_offset
    if cut is not None and physical < cut and verdict.restart_offset is None:
        between = offsets(physical, cut)
        yield Sentence(
            f"Offset {cut} lies inside a batch, which is removed whole: the file is truncated at {physical}, but the next fetch starts at "
            f"{cut}: {between} {'is' if cut == physical + 1 else 'are'} not fetched again (LocalLog.truncateTo)."
        )
    if verdict.first_removed_timestamp_ms is not None and verdict.last_removed_timestamp_ms is not None:
        yield Sentence(f"Batches written {span_of_time(verdict.first_removed_timestamp_ms, verdict.last_removed_timestamp_ms)} UTC.")
    if verdict.lost_offsets is not None and verdict.lost_offsets < end - physical:
        yield Sentence(_lost(verdict))
        if not verdict.lost_offsets:
            return
    by_transaction = of_transactions(verdict)
    if by_transaction is not None:
        yield Sentence(f"Lost by transaction: {by_transaction}.")
    below = verdict.committed
    if below:
        yield Sentence(
            f"Committed and lost: {count(below, 'offset')} that the leader does not have{_proven_by(verdict.removed_committed_offsets)}."
        )
    elif verdict.verdict == Verdict.INCONCLUSIVE:
        yield Sentence("Unknown: whether any of it was committed and is lost.")
    else:
        yield Sentence("Unknown: whether any of it that the leader does not have was committed.")
    if verdict.open_transactions:
        yield Sentence(f"Left open because their end marker is truncated: transactions of producer {listed(verdict.open_transactions)}.")


def _lost(verdict: VerdictRow) -> str:
    """How much of what is truncated the leader does not hold."""
    sends = "" if verdict.restart_offset is not None else ", and sends them again"  # what lies below its start it need not send
    again = f"leader {verdict.leader_id} holds the others, too{sends}."
    if not verdict.lost_offsets:
        return f"Lost: nothing. {again.replace('the others', 'them', 1).capitalize()}"
    measures = ((verdict.lost_offsets, "offset"), (verdict.lost_records, "record"), (verdict.lost_bytes, "byte"))
    return f"Lost: {', '.join(count(number, noun) for number, noun in measures if number is not None)}; {again}"


def _proven_by(counts: Mapping[str, int] | None) -> str:
    """The evidence of committed offsets, with the number that each proves where there are several kinds."""
    if not counts:
        return ""
    found = (f"{evidence} ({number})" if len(counts) > 1 else evidence for evidence, number in counts.items())
    return f": proven by {' and '.join(found)}"


def _what_stays(explanation: Explanation, outcome: Outcome, point: TruncationPoint) -> Iterator[Block]:
    leader, follower = explanation.leader.state, explanation.follower.state
    if leader is None or follower is None:
        return
    conflicts = explanation.verdict.conflicts or ()
    if conflicts:
        yield Sentence("Afterwards the logs still differ:")
        for piece in conflicts[:_SHOWN]:
            yield Sentence(f"{offsets(piece.first_offset, piece.end_offset)}: {_who_has(explanation, piece)}", indent=4)
        if len(conflicts) > _SHOWN:
            yield Sentence(f"and {len(conflicts) - _SHOWN} more such ranges", indent=4)
        return
    stays_to = follower.log_end_offset if outcome.physical_offset is None else outcome.physical_offset
    if point.still_diverged:
        yield Sentence("What stays on the follower conflicts with the leader's log.")
    elif not clipped(explanation.follower.history, 0, stays_to):
        yield Sentence("Nothing stays.")
    elif follower.log_start_offset < leader.log_start_offset:
        below = offsets(follower.log_start_offset, min(stays_to, leader.log_start_offset))
        yield Sentence(f"Kept but not comparable, because the leader's log starts at {leader.log_start_offset}: {below}.")
    elif outcome.physical_offset is not None:
        yield Sentence("What stays on the follower agrees with the leader's log.")


def _who_has(explanation: Explanation, piece: DifferingOffsets) -> str:
    leader, follower = f"leader {explanation.leader.broker_id}", f"follower {explanation.follower.broker_id}"
    if piece.leader_epoch is None:
        return f"a hole in the log of {leader}, {follower} has {epoch(piece.follower_epoch)}"
    if piece.follower_epoch is None:
        return f"a hole in the log of {follower}, {leader} has {epoch(piece.leader_epoch)}"
    return f"the leader has {epoch(piece.leader_epoch)}, the follower {epoch(piece.follower_epoch)}"


def _evidence(explanation: Explanation) -> Iterator[Block]:
    yield Heading("Evidence")
    leader = leader_name(explanation.verdict) if explanation.leader.broker_id >= 0 else "leader"
    for name, side in ((leader, explanation.leader), (f"follower {explanation.follower.broker_id}", explanation.follower)):
        yield Sentence(described(explanation, side), label=f"{name}: ")
    for fact in facts(explanation.verdict):
        yield Sentence(fact, label="- ")
    if explanation.folder:
        yield Sentence(explanation.folder, label="all below ")
    if explanation.warehouse:
        yield Sentence(explanation.warehouse, label="tables in ")


def facts(verdict: VerdictRow) -> tuple[str, ...]:
    """What the verdict rests on, fact by fact; of a run of an older version, which has one text, that text."""
    if verdict.rests_on is not None:
        return tuple(fact.text for fact in verdict.rests_on)
    return (verdict.evidence,) if verdict.evidence else ()


def described(explanation: Explanation, side: ExplainedReplica) -> str:
    """A replica: its directory, and what is known of its log."""
    log = side.log
    if log is None or side.path is None:
        return "not in the input" if side.broker_id >= 0 else "unknown"
    said = [side.path]
    if log.log_start_offset is not None and log.log_end_offset is not None:
        said.append(f"log start {log.log_start_offset}, log end {log.log_end_offset}")
    said.append(f"high watermark {'not known' if log.high_watermark is None else log.high_watermark}")
    if log.cleaner_offset is not None:
        said.append(f"cleaned up to {log.cleaner_offset}")
    said.append(f"leader-epoch-checkpoint {log.checkpoint_state}")
    if log.recovery_cut_offset is not None:
        said.append(f"log recovery truncates it at {log.recovery_cut_offset}")
    is_the_reason = side is explanation.follower and explanation.verdict.verdict == Verdict.UNREADABLE
    if log.unreadable_reason is not None and not is_the_reason:
        said.append(log.unreadable_reason)
    return ", ".join(said)


def _input_errors(explanation: Explanation) -> Iterator[Block]:
    if not explanation.input_errors:
        return
    yield Heading("Problems of these files")
    for error in explanation.input_errors[:_SHOWN]:
        at = f":{error.line}" if error.line is not None else "" if error.byte_offset is None else f" at byte {error.byte_offset}"
        yield Sentence(f"{error.path}{at}: {error.detail}. Remedy: {error.remedy}", label="- ")
    left_out = len(explanation.input_errors) - _SHOWN
    if left_out > 0:
        yield Sentence(f"and {left_out} more {whole_in('the table input_errors', explanation.warehouse)}")


def _corrected_checkpoints(explanation: Explanation) -> Iterator[Block]:
    """The lines that a wrong leader-epoch-checkpoint should have, one below the other as in the file."""
    for side in (explanation.leader, explanation.follower):
        lines = ((side.log and side.log.corrected_checkpoint) or "").splitlines()
        if not lines:
            continue
        yield Heading(f"Corrected leader-epoch-checkpoint of broker {side.broker_id}")
        yield Exact(lines[:_MOST_LINES], indent=2)
        if len(lines) > _MOST_LINES:
            whole = whole_in("replica_logs.corrected_checkpoint", explanation.warehouse)
            yield Sentence(f"and {len(lines) - _MOST_LINES} more lines {whole}")


def _limits(explanation: Explanation) -> Iterator[Block]:
    """What was too long to be read whole: then the explanation may lack something."""
    if explanation.cut_short:
        yield Sentence(
            f"Some rows of these tables were not read: {', '.join(explanation.cut_short)}. This explanation may be incomplete.", indent=0
        )


SECTIONS: tuple[Section, ...] = (
    head_blocks,
    drawing_blocks,
    mismatch_blocks,
    exchange_blocks,
    document_step_blocks,
    _what_goes,
    rule_blocks,
    observed_blocks,
    key_blocks,
    record_blocks,
    _evidence,
    epoch_table_blocks,
    _input_errors,
    _corrected_checkpoints,
    _limits,
)
OF_PROTOCOLS: tuple[Section, ...] = (document_step_blocks, rule_blocks)
