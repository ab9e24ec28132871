"""What an operator does about a verdict: short, in the order of doing, and honest about what no one can get back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.advice import compaction_remedies, content_remedies, rejoin_remedies
from replica_audit.report.advice.cause_remedies import inconclusive
from replica_audit.report.advice.corrected_lines import corrected_lines
from replica_audit.report.advice.damage_remedies import damage_steps
from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.leader_words import caveat, has_no_leader, what_would_settle_it
from replica_audit.report.layout.paragraphs import listed
from replica_audit.rows.codes import Protocol

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
        again = compaction_remedies.write_again(verdict, _path(explanation), _refetch(explanation))
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
        yield from rejoin_remedies.hole_of_the_leader(explanation, hole, _if_it_led(explanation))
        return
    if not failing and hole is not None:
        yield rejoin_remedies.hole_of_the_follower(verdict, hole)
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
    if outcome.exchange.stuck and explanation.verdict.stuck is None and not point.ends_with_election:
        yield "In the copied files the exchange never ends, which proves nothing about running brokers: copy both again and audit again."
    elif outcome.exchange.stuck and explanation.verdict.stuck is None:
        yield f"With the tables as they are the exchange never ends; it ends once leader {explanation.verdict.leader_id} is elected again."
    elif outcome.exchange.stuck:
        yield f"The exchange never ends; follower {broker} stays out of the ISR until it is rebuilt: {_refetch(explanation)}."
    if outcome.exchange.stuck or not point.fetcher_fails:
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
    yield from rejoin_remedies.cannot_rejoin(explanation, _refetch(explanation))


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
    nothing = "Nothing: the follower fetches what it lacks." if fetches else "Nothing."
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
    Verdict.CONTENT_MISMATCH: lambda explanation: content_remedies.content_mismatch(explanation, _refetch(explanation)),
    Verdict.REBATCHED: lambda explanation: content_remedies.rebatched(_refetch(explanation)),
    Verdict.COMPACTION_DIFFERS: lambda one: compaction_remedies.steps(one.verdict, _path(one), _refetch(one)),
    Verdict.EPOCH_TABLE_ONLY: _epoch_table_only,
    Verdict.CONSISTENT: _clean,
    Verdict.LAGGING: _clean,
    Verdict.IDENTICAL: _clean,
}
