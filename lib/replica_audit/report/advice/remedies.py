"""What an operator does about a verdict: short, in the order of doing, and honest about what no one can get back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from replica_audit.protocol.comparison.compaction import CompactionCause
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.advice.partition_remedies import damage_steps
from replica_audit.report.facts.explanation import ExplainedReplica, Explanation
from replica_audit.report.layout.leader_words import caveat, has_no_leader, leader_name, once_corrected, what_would_settle_it
from replica_audit.report.layout.paragraphs import listed, offsets
from replica_audit.rows.codes import Cause, Protocol
from replica_audit.rows.pairs import MissingOffsets, ReplicaVerdict, WrongCheckpointLine
from replica_audit.rows.replicas import EpochStartOffset, FollowerOnceCorrected


def corrected_lines(explanation: Explanation) -> Iterator[str]:
    """The steps, one or two sentences each. Of a file that keeps the follower out the verdict tells every line: it has no step here."""
    told = explanation.verdict.wrong_lines_broker_id
    sides = [one for one in (explanation.follower, explanation.leader) if one.broker_id != told and _is_corrected(one)]
    rejoin = next((found for side in sides if (found := _rejoin(explanation, side)) is not None), None)
    if rejoin is not None and rejoin.still_diverged and explanation.follower in sides:
        yield (
            f"The leader-epoch-checkpoint of broker {rejoin.follower_id} is wrong, but do not correct it yet, and delete neither replica: "
            f"replayed with the corrected file, follower {rejoin.follower_id} {once_corrected(rejoin)}, and keeps batches that are not "
            f"those of {leader_name(explanation.verdict)}. Copy both directories away, and find out which of the two is right: compare "
            "their records (kafka-dump-log.sh --print-data-log)."
        )
        return
    if rejoin is not None and rejoin.is_cut and explanation.applied is None:
        state = explanation.follower.log
        end = "" if state is None or state.log_end_offset is None else f", and its log ends at {state.log_end_offset}"
        yield (
            f"First copy {explanation.follower.path or 'its directory'} away: once the file is corrected, follower {rejoin.follower_id} "
            f"{once_corrected(rejoin)}{end}. What it removes may be in no other replica."
        )
    for side in sides:
        yield (
            f"The leader-epoch-checkpoint of broker {side.broker_id} is wrong. Copy the file again; if the broker has the same file, stop "
            f"the broker and put the corrected one, which the plan writes (--plan DIR), into {side.path}. "
            "Do not delete or rename the file: after a clean stop a broker does not rebuild it from the log."
        )


def _is_corrected(side: ExplainedReplica) -> bool:
    return side.log is not None and side.log.corrected_checkpoint is not None


def _rejoin(explanation: Explanation, side: ExplainedReplica) -> FollowerOnceCorrected | None:
    """What this follower does once every corrected file of the partition is in place."""
    rejoins = () if side.log is None else side.log.rejoins_once_corrected or ()
    return next((one for one in rejoins if one.follower_id == explanation.verdict.follower_id), None)


def rebatched(refetch: str) -> Iterator[str]:
    """Logs with the same records in other batches; `refetch`: how the follower fetches again."""
    yield (
        "The records need no repair: they are the same on both, and consumers see no difference whichever replica leads. "
        "But replication never rewrites batches."
    )
    yield (
        "Find out what did: files that were restored from elsewhere or by a tool, or an unnoticed truncation, after which the "
        "producer sent the same records again."
    )
    yield f"To get the same bytes on both: {refetch}."


def content_mismatch(explanation: Explanation, refetch: str) -> Iterator[str]:
    """Logs of equal offsets and epochs with other bytes."""
    yield (
        "No truncation removes this: offsets and epochs agree, and the broker that wrote other bytes will serve them as soon as it leads. "
        "Neither copy is the right one by itself; the leader's is what consumers read now."
    )
    yield f"Read both batches{_places(explanation)} and copy both directories away before you change anything."
    yield f"Then let the follower take the leader's version, or the reverse: {refetch}."
    yield (
        "Find the cause: truncation by high watermark (inter.broker.protocol.version below 0.11), a leader that lost its tail and came "
        "back without an election, or files that were changed by hand or restored from a backup."
    )


def _places(explanation: Explanation) -> str:
    """How to print what differs: the files and where in them."""
    found = explanation.verdict.mismatch
    sides = [side for side in (found.leader, found.follower) if side is not None and side.byte_offset is not None] if found else []
    if not sides:
        return " (kafka-dump-log.sh --print-data-log)"
    files = " and ".join(f"--files {side.path}, position {side.byte_offset}" for side in sides)
    return f" (kafka-dump-log.sh --print-data-log {files})"


def compaction_steps(verdict: ReplicaVerdict, path: str, refetch: str) -> Iterator[str]:
    """The compaction_steps; `path` is the follower's directory, `refetch` says how it fetches all again."""
    yield (
        "Kafka does not notice: ISR and lag stay healthy, and the next leader serves what it has. Until this is done, run no preferred "
        "election and do not restart the leader."
    )
    yield write_again(verdict, path, refetch)
    yield (
        "Find the cause: a cleaner that had compacted a log beyond a later truncation, a replica restored from a backup, or a defect of "
        "the broker's cleaner (compare its version with Kafka's issues)."
    )


def write_again(verdict: ReplicaVerdict, path: str, refetch: str) -> str:
    """How both come to hold the same keys again; by which replica is wrong."""
    if any(one.cause == CompactionCause.KEY_MISSING_OR_DELETED for one in verdict.differing_keys or ()):
        return (
            f"Copy {path} away. Table compaction_differences lists the keys that only one replica has, with the cause "
            f"{CompactionCause.KEY_MISSING_OR_DELETED}: ask their owner whether they were deleted. Have them written or deleted "
            f"again, then rebuild follower {verdict.follower_id} from the leader."
        )
    if not any(one.broker_id == verdict.leader_id for one in verdict.differing_keys or ()):
        return f"Rebuild the follower from the leader: {refetch}."
    return (
        f"Copy {path} away: it has the right values of the keys that leader {verdict.leader_id} has wrong (table "
        f"compaction_differences). Have their owner write these keys again, then rebuild follower {verdict.follower_id} from the leader."
    )


def inconclusive(verdict: ReplicaVerdict, save: str) -> Iterator[str]:  # noqa: C901 - one case for each cause
    """The steps, by the cause; `save` says how to keep the follower's files."""
    match verdict.cause:
        case Cause.NOT_COLLECTED:
            yield f"Copy the log directories of broker {verdict.follower_id}, too, and audit again."
        case Cause.LEADER_COPIED_EARLIER | Cause.FOLLOWER_COPIED_EARLIER:
            yield (
                "Copy both brokers again: from a storage snapshot of one instant (then set simultaneous_copies: true), or else the "
                "leader after the follower. Then audit again."
            )
        case Cause.NO_COMMON_RANGE:
            yield (
                f"Follower {verdict.follower_id} will empty its log and start at the leader's log start. Whether it holds what the "
                "leader once held can no longer be determined."
            )
            yield f"If its records matter, {save}: perhaps no other replica has them."
        case Cause.NO_EPOCHS:
            yield (
                "Records of the formats before v2 (message.format.version below 0.11) carry no epoch: compare the records themselves "
                "(kafka-dump-log.sh --print-data-log) if it matters."
            )
        case Cause.TEXT_NOT_WHOLE:
            yield "Dump again the segment that the reason names and keep the whole text, or copy the segment itself. Then audit again."
        case Cause.LEADER_UNKNOWN:
            yield (
                "Copy the leader's log directories too, or copy them again. If its own files cannot be read, keep every other replica as "
                "it is "
                "until you have chosen the one that leads: the first fetch from a leader that lost its log truncates them."
            )
        case Cause.RECORDS_NOT_COMPARED:
            yield (
                "The epochs agree. To compare the records, audit the segments themselves: texts of kafka-dump-log and collections have no "
                "records. Copy again what the reason names as unreadable."
            )
        case Cause.DELETED_WHILE_COPIED:
            yield (
                "Retention, DeleteRecords or the cleaner removed segments between the listing and the copy. Copy the directory again, with "
                "replica-audit collect, which retries by itself, or while the broker is stopped, with the hidden files of its log "
                "directory (.kafka_cleanshutdown shows that it is stopped). Then audit again. If it still has no "
                "segment, somebody removed the files of a running broker: move its leaderships to other brokers before you restart it."
            )
        case Cause.SEGMENTS_NOT_COPIED:
            yield (
                "Copy the directory again, with its .log files, and audit again; until then nothing is known about this replica, and "
                "nothing has to be rebuilt. If the broker has no .log files either, do not start it: it would begin with an empty log, and "
                "followers of an empty leader truncate all that they hold."
            )
        case Cause.TOPIC_ID_IN_DOUBT | Cause.UNKNOWN_BROKER:
            yield from _whose_it_is(verdict)
        case None:  # a run of an older version has it in its reason only
            yield "Fix what the reason names and audit again; until then nothing is known about this follower."
        case _ as never:
            assert_never(never)


def _whose_it_is(verdict: ReplicaVerdict) -> Iterator[str]:
    """What to find out where it is not known of which topic, or broker, a directory is."""
    if verdict.cause == Cause.UNKNOWN_BROKER:
        yield (
            f"Find out which broker the folder of broker {verdict.follower_id} is of: meta.properties of its log directories says it; copy "
            "that file, too. If the broker was taken out of the cluster, keep its directories until nobody needs their records."
        )
        return
    yield (
        "Move no directory away, and delete none: the logs with the other topic id may be all that is left of the records. Copy them, and "
        "keep KRaft brokers that hold them stopped: they set a log aside whose id the metadata does not know."
    )
    yield (
        "Ask the cluster for the topic id (kafka-topics.sh --describe), and find out whether the topic was deleted and made again. If not, "
        "the id of the metadata, or of the empty log, is the wrong one."
    )


def cannot_rejoin(explanation: Explanation, refetch: str) -> Iterator[str]:
    """How to put the wrong lines right; `refetch` says how the follower fetches again, which helps only where its own file is wrong."""
    verdict = explanation.verdict
    lines = verdict.wrong_lines or ()
    side = explanation.leader if verdict.wrong_lines_broker_id == verdict.leader_id else explanation.follower
    if not lines:
        yield (
            f"Leader {verdict.leader_id} knows no epoch as high as the follower's, and no wrong line of a file is known: let another "
            "replica lead, or restart the leader: the elected leader enters a new epoch. Then audit again."
        )
        return
    if side is explanation.follower:
        yield f"Rebuild the follower from the leader: {refetch}. The leader's table is sound."
        return
    if verdict.stuck is not None and verdict.stuck.fresh_replica_too:
        yield (
            f"Do not move the directory of follower {verdict.follower_id} away: the leader refuses an empty replica at the same epoch, "
            "too. "
            f"The wrong file is that of broker {verdict.leader_id}."
        )
    file = "leader-epoch-checkpoint" if side.path is None else f"{side.path}/leader-epoch-checkpoint"
    told = [entry for entry in side.epochs if entry.checkpoint_start_offset is not None]
    total = len(told) + sum(line.found_offset is None for line in lines) - sum(line.start_offset is None for line in lines)
    yield (
        f"Stop broker {verdict.leader_id} cleanly if it runs (SIGTERM; if it is alone in the ISR the partition is offline meanwhile). "
        f"In {file} {'; '.join(_edit(line, told) for line in lines)}. Line 1 stays 0, the version; line 2 becomes {total}, the number of "
        "entries; then one `EPOCH START` per line, ascending, each ended by a line feed. Start the broker: the follower catches up by "
        "itself."
    )
    yield (
        "Or let another member of the ISR lead whose own leader-epoch-checkpoint has the right lines (kafka-leader-election.sh, or a "
        f"reassignment), then rebuild broker {verdict.leader_id}'s replica: its file stays wrong until then."
    )


def _edit(line: WrongCheckpointLine, told: Sequence[EpochStartOffset]) -> str:
    """What to do to one line."""
    if line.start_offset is None:
        return f"remove the line `{line.epoch} {line.found_offset}`"
    if line.found_offset is not None:
        return f"change the line `{line.epoch} {line.found_offset}` to `{line.epoch} {line.start_offset}`"
    before = max((entry for entry in told if entry.leader_epoch < line.epoch), key=lambda entry: entry.leader_epoch, default=None)
    where = "as the first entry" if before is None else f"after `{before.leader_epoch} {before.checkpoint_start_offset}`"
    return f"add the line `{line.epoch} {line.start_offset}` {where}"


def hole_of_the_follower(verdict: ReplicaVerdict, hole: MissingOffsets) -> str:
    """What comes of a hole in a follower's log."""
    return (
        f"Kafka will not notice: follower {verdict.follower_id} joins the ISR with the hole, and consumers skip "
        f"{offsets(hole.first_offset, hole.end_offset)} as soon as it leads. Do not let it lead: run no preferred election and do not "
        "restart the "
        "leader until this is done."
    )


def hole_of_the_leader(explanation: Explanation, hole: MissingOffsets, if_it_led: str) -> Iterator[str]:
    """Where the leader misses what the follower holds: fetching again would take the last copy."""
    verdict = explanation.verdict
    follower = f"follower {verdict.follower_id}"
    yield f"Copy both directories away: {follower} may hold the only copy of {offsets(hole.first_offset, hole.end_offset)}."
    yield (
        f"Consumers skip these offsets now, because broker {verdict.leader_id} leads. Do not rebuild {follower}: it would lose "
        f"them too. {if_it_led}"
    )
    yield (
        f"If the offsets matter, let {follower} lead and then rebuild broker {verdict.leader_id}'s replica; else keep the copy and let "
        f"{follower} take the leader's version."
    )


_REFETCH = (
    "stop broker {broker}, move {path} out of the log directory (do not delete it), start the broker: it fetches the whole partition "
    "from leader {leader}"
)


def steps(explanation: Explanation) -> Iterator[str]:
    """The steps, one sentence or two each."""
    yield from corrected_lines(explanation)
    yield from damage_steps(explanation.damaged)
    verdict = explanation.verdict
    if has_no_leader(verdict) and verdict.leader_id >= 0:
        yield (
            f"{caveat(verdict)} Choose a leader first: what each choice loses is listed with the partition. What follows holds if broker "
            f"{verdict.leader_id} is elected."
        )
    yield from BY_VERDICT.get(verdict.verdict, _unknown)(explanation)
    unsettled = what_would_settle_it(verdict)
    if unsettled:
        yield unsettled
    if verdict.cleaned_beyond_cut and verdict.differing_keys is None:
        cleaned = explanation.follower.log.cleaner_offset if explanation.follower.log else None
        yield (
            f"The cleaner had compacted this replica up to {cleaned}, beyond the cut: once it has caught up it may lack keys that the "
            f"leader has, and no broker notices. Rebuild it from the leader: {_refetch(explanation)}. --compare records shows which keys."
        )
    elif verdict.differing_keys and verdict.verdict != Verdict.COMPACTION_DIFFERS:
        again = write_again(verdict, _path(explanation), _refetch(explanation))
        yield f"Truncating and fetching again does not bring back keys that were compacted away. {again}"
    if verdict.open_transactions and explanation.outcome and explanation.outcome.physical_offset is not None:
        yield (
            f"After the truncation, transactions of producer {listed(verdict.open_transactions)} stay open on this replica until it has "
            "fetched the leader's log. Those that are open on the leader too are listed with the partition, with the command that ends "
            "them."
        )


def _path(explanation: Explanation) -> str:
    path = explanation.follower.path
    return "the replica's directory" if path is None else path


def _refetch(explanation: Explanation) -> str:
    verdict = explanation.verdict
    return _REFETCH.format(broker=verdict.follower_id, leader=verdict.leader_id, path=_path(explanation))


def _save(explanation: Explanation) -> str:
    return f"copy {_path(explanation)} away before broker {explanation.verdict.follower_id} runs again"


def is_cut_already(explanation: Explanation) -> bool:
    """Whether the follower has been cut since its files were copied, and to where the rule has it, according to its server.log."""
    return bool(explanation.verdict.already_truncated)


def _committed_loss(explanation: Explanation) -> Iterator[str]:
    if is_cut_already(explanation):
        yield (
            f"According to its server.log the follower has truncated since: keep the audited copy of {_path(explanation)}, which may be "
            "the last one with the lost records."
        )
        yield "Read them from it (kafka-dump-log.sh --print-data-log), and have the application write them again."
    else:
        yield (f"First {_save(explanation)}: its first fetch deletes the records, and the leader does not have them.")
        yield (
            "Decide which replica's records to keep. If you keep the leader: save the lost records (command salvage, or triage --salvage), "
            f"and send them again; consumers may have processed them already. {_if_it_led(explanation)}"
        )
    yield (
        "Check consumer groups whose committed offset is above the truncation offset: they resume at other records than those they "
        "stopped at."
    )
    yield (
        "Find out how a replica without these records became the leader: unclean.leader.election.enable, min.insync.replicas=1, or a disk "
        "that lost acknowledged records."
    )
    yield from _failing(explanation)


def _if_it_led(explanation: Explanation) -> str:
    """What it costs if the follower leads instead, as every replica was tried; else what becomes of the leader's own records."""
    follower = explanation.verdict.follower_id
    instead = f"If you make broker {follower} the leader instead (an unclean election)"
    choice = next((one for one in explanation.choices if one.candidate_id == follower), None)
    if choice is not None:
        return f"{instead}: {choice.reason}."
    return f"{instead}: they stay, and {_of_the_leader(explanation)} (--what-if-leaders tries every replica)."


def _of_the_leader(explanation: Explanation) -> str:
    """What becomes of the leader's own records if the follower leads."""
    verdict, leader = explanation.verdict, explanation.leader.state
    if leader is not None and verdict.divergence_offset is not None and verdict.leader_diverged_end_offset is None:
        return f"broker {verdict.leader_id} truncates nothing; its log ends at {leader.log_end_offset}"
    return f"broker {verdict.leader_id} is truncated where the logs diverge"


def _log_matching_violation(explanation: Explanation) -> Iterator[str]:
    verdict, point = explanation.verdict, explanation.applied
    failing = list(_failing(explanation))
    if point is not None and not point.still_diverged:
        yield from _diverged_in_the_isr(explanation)
        return
    hole = verdict.hole
    if hole is not None and hole.broker_id == verdict.leader_id:
        yield from hole_of_the_leader(explanation, hole, _if_it_led(explanation))
        return
    if not failing and hole is not None:
        yield hole_of_the_follower(verdict, hole)
    elif not failing:
        yield (
            f"Kafka will not notice: follower {verdict.follower_id} joins the ISR as it is, and consumers read other records as soon as "
            "it leads. Do not let it lead: run no preferred election and do not restart the leader until this is done."
        )
    yield "Copy both directories away: each may hold the only version of some records. The leader's is what consumers read now."
    yield from failing or [f"Then let the follower take the leader's version: {_refetch(explanation)}."]
    if verdict.protocol in (Protocol.HIGH_WATERMARK, Protocol.KIP_101):
        yield (
            f"The rule {verdict.protocol} lets this happen again. An inter.broker.protocol.version of 2.0 or later brings KIP-279, which "
            "finds such divergence as long as the logs are not mixed yet."
        )


def _diverged_in_the_isr(explanation: Explanation) -> Iterator[str]:
    """A member of the ISR whose divergence its next exchange with the leader would end."""
    verdict = explanation.verdict
    yield (
        f"Follower {verdict.follower_id} is in the ISR with records that are not the leader's. Do not let it lead: run no preferred "
        "election "
        "and do not restart the leader until this is done."
    )
    yield "Copy both directories away: each may hold the only version of some records. The leader's is what consumers read now."
    cut = f"truncates to {verdict.truncation_offset}" if verdict.truncation_offset is not None else "asks the leader where its epochs end"
    yield f"Then restart broker {verdict.follower_id}: it {cut} and fetches the rest. Audit again."


def _failing(explanation: Explanation) -> Iterator[str]:
    """What to do where the follower will not get to fetch: its fetcher fails, or the exchange has no end."""
    point, outcome, broker = explanation.applied, explanation.outcome, explanation.verdict.follower_id
    if point is None or outcome is None:
        return
    if point.stuck and explanation.verdict.stuck is None and not point.ends_with_election:
        yield "In the copied files the exchange never ends, which proves nothing about running brokers: copy both again and audit again."
    elif point.stuck and explanation.verdict.stuck is None:
        yield f"With the tables as they are the exchange never ends; it ends once leader {explanation.verdict.leader_id} is elected again."
    elif point.stuck:
        yield f"The exchange never ends; follower {broker} stays out of the ISR until it is rebuilt: {_refetch(explanation)}."
    if point.stuck or not point.fetcher_fails:
        return
    leader, physical = explanation.leader.state, outcome.physical_offset
    if point.restarts_once_failed and leader is not None:
        yield (
            f"After the failed fetch, restart broker {broker}: its log then ends at {physical}, below the leader's log start "
            f"{leader.log_start_offset}, so it starts again with an empty log and catches up."
        )
        return
    yield f"The fetcher fails again and again; follower {broker} stays out of the ISR until it is rebuilt: {_refetch(explanation)}."


def _cannot_rejoin(explanation: Explanation) -> Iterator[str]:
    if explanation.verdict.truncation_offset is not None and not is_cut_already(explanation):
        yield f"First {_save(explanation)}: it truncates before it gets stuck."
    yield from cannot_rejoin(explanation, _refetch(explanation))


def _stale_tail(explanation: Explanation) -> Iterator[str]:
    if not is_cut_already(explanation):
        yield f"First {_save(explanation)}: the truncation removes its records from {explanation.verdict.truncation_offset} on."
    yield (
        "Decide whether these records matter; the follower truncates them by itself. No file proves that they were committed. Producers "
        "with acks=1 may have received an acknowledgement for them; after an unclean election, also those with acks=all."
    )
    if is_cut_already(explanation):
        kept = f"the audited copy of {_path(explanation)} still has these records"
        yield f"According to its server.log the follower has truncated since: {kept}."
    yield from _failing(explanation)


def _unreadable(explanation: Explanation) -> Iterator[str]:
    log = explanation.follower.log
    if log is not None and log.checkpoint_state == "unreadable" and log.corrected_checkpoint is not None:
        return
    yield "Rule out the copy first: copy the replica again and audit the copy."
    yield (
        "If the broker's own files are the same, check its disk and its server.log. A running broker may not have noticed; at the "
        "next start it takes the log directory offline or recovers less than was written."
    )
    leads = explanation.leader.log
    if leads is not None and leads.unreadable_reason is not None:
        yield (
            f"Do not fetch it again from leader {explanation.verdict.leader_id}, whose log cannot be read, either "
            f"({leads.unreadable_reason}): keep every replica."
        )
        return
    yield f"With a healthy leader: {_refetch(explanation)}. Keep what was moved: it may hold records that no other replica has."


def _stale_topic_id(explanation: Explanation) -> Iterator[str]:
    yield (
        "The directory belongs to an earlier topic of this name: its topic id is not the leader's, which holds the records of the current "
        "one. A KRaft broker renames it to -stray when it starts, and keeps it (until 3.6 it deletes it); a ZooKeeper broker leaves it "
        "where it is, and does not replicate the partition."
    )
    yield f"If nobody needs the old topic's records: {_refetch(explanation)}."


def _epoch_table_only(explanation: Explanation) -> Iterator[str]:
    verdict = explanation.verdict
    yield (
        "The records are the leader's, but the leader-epoch-checkpoint is wrong: nothing is lost now, but an exchange that uses this table "
        "may truncate too much, too little or nothing."
    )
    if list(corrected_lines(explanation)):
        yield (
            "If the corrected lines cannot be written, rebuild that replica from its leader; if it is the leader, let another replica "
            "lead first."
        )
    elif verdict.wrong_epoch is None:  # a run of an older version has it in its reason only
        yield "Rebuild the replica whose table the reason names from its leader; if it is the leader, let another replica lead first."
    elif verdict.wrong_epoch.broker_id == verdict.leader_id:
        yield f"Let another replica lead (kafka-leader-election.sh, or a reassignment), then rebuild broker {verdict.leader_id}'s replica."
    else:
        yield f"Rebuild the follower from the leader: {_refetch(explanation)}."
    if not list(corrected_lines(explanation)):
        yield "Do not delete the checkpoint: after a clean stop a broker does not rebuild it from the log."
    yield from _failing(explanation)


def _truncated_otherwise(explanation: Explanation) -> Iterator[str]:
    verdict, run = explanation.verdict, explanation.run
    yield f"Check that broker {verdict.follower_id}'s server.log and log directories were copied from the same broker at the same time."
    yield (
        f"Check the rule: whether the cluster ran {verdict.protocol} ({run.protocol_reason or 'reason not recorded'}) when the broker "
        "truncated. If not, audit again with --protocol."
    )
    yield "If both are right, trust server.log, keep the copies, and report it: the rule is then wrong for this case."


def _clean(explanation: Explanation) -> Iterator[str]:
    fetches = explanation.verdict.verdict == Verdict.LAGGING
    nothing = "Nothing for this pair: the follower fetches what it lacks." if fetches else "Nothing for this pair."
    yield from list(_failing(explanation)) or ([nothing] if not explanation.damaged else [])


def _unknown(explanation: Explanation) -> Iterator[str]:
    yield f"This version knows no remedy for {explanation.verdict.verdict}; see the reason and the evidence."


BY_VERDICT: dict[str, Callable[[Explanation], Iterator[str]]] = {
    Verdict.UNREADABLE: _unreadable,
    Verdict.STALE_TOPIC_ID: _stale_topic_id,
    Verdict.INCONCLUSIVE: lambda explanation: inconclusive(explanation.verdict, _save(explanation)),
    Verdict.LOG_MATCHING_VIOLATION: _log_matching_violation,
    Verdict.COMMITTED_LOSS: _committed_loss,
    Verdict.CANNOT_REJOIN: _cannot_rejoin,
    Verdict.TRUNCATED_OTHERWISE: _truncated_otherwise,
    Verdict.STALE_TAIL: _stale_tail,
    Verdict.CONTENT_MISMATCH: lambda explanation: content_mismatch(explanation, _refetch(explanation)),
    Verdict.REBATCHED: lambda explanation: rebatched(_refetch(explanation)),
    Verdict.COMPACTION_DIFFERS: lambda one: compaction_steps(one.verdict, _path(one), _refetch(one)),
    Verdict.EPOCH_TABLE_ONLY: _epoch_table_only,
    Verdict.CONSISTENT: _clean,
    Verdict.LAGGING: _clean,
    Verdict.IDENTICAL: _clean,
}
