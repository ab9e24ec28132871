"""A run and its findings in one sentence each, worst news first: for who is woken up and has ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.facts.assessment import VERDICTS_BY_LOSS
from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.facts.run_report import Report
from replica_audit.report.layout.leader_words import is_inferred, nobody
from replica_audit.report.layout.paragraphs import offsets
from replica_audit.report.page.page_data import PageData
from replica_audit.rows.codes import Severity


class Headline(NamedTuple):
    """The news: how bad (critical, error, warning, none), the sentence, and what else has to be said."""

    severity: str
    sentence: str
    more: tuple[str, ...]


MEANINGS: dict[str, str] = {
    Verdict.UNREADABLE: "the follower has files that a broker could not load",
    Verdict.STALE_TOPIC_ID: "the follower holds an earlier topic of the same name",
    Verdict.LOG_MATCHING_VIOLATION: "the follower conflicts with its leader and will stay diverged after it truncates",
    Verdict.COMMITTED_LOSS: "the follower will truncate committed records that the leader does not hold",
    Verdict.CANNOT_REJOIN: "the follower never catches up: its leader refuses what it fetches, again and again",
    Verdict.TRUNCATED_OTHERWISE: "according to its server.log the follower was truncated to another offset than the rule gives",
    Verdict.STALE_TAIL: "the follower will truncate records; whether they were committed is unknown",
    Verdict.CONTENT_MISMATCH: "the same offsets and epochs, but other bytes",
    Verdict.COMPACTION_DIFFERS: "the newest records of some keys differ from the leader's in a way that compaction does not allow",
    Verdict.INCONCLUSIVE: "the follower cannot be compared; never counted as clean",
    Verdict.REBATCHED: "the same records as the leader's, in other batches or compressed differently",
    Verdict.EPOCH_TABLE_ONLY: "the records are the leader's, but an epoch table contradicts the batches",
    Verdict.CONSISTENT: "the follower agrees with its leader as far as was compared; not compared is what was written later, or keys",
    Verdict.LAGGING: "the follower is a clean prefix of its leader",
    Verdict.IDENTICAL: "the follower holds the same as its leader",
}


def number(value: int) -> str:
    """A count, its thousands apart."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """A count and what it counts."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def verdict_counts(data: PageData) -> dict[str, int]:
    """Followers by verdict over all clusters, the most severe first."""
    ranked = sorted(Verdict, key=lambda verdict: (list(Severity).index(SEVERITIES[verdict]), VERDICTS_BY_LOSS.index(verdict)))
    totals = {str(verdict): sum(cluster.verdicts.get(verdict, 0) for cluster in data.report.clusters) for verdict in ranked}
    return {verdict: total for verdict, total in totals.items() if total}


def headline(data: PageData) -> Headline:
    """What the run found."""
    known = data.report.acknowledged_verdicts
    counts = {verdict: total - known.get(verdict, 0) for verdict, total in verdict_counts(data).items()}
    news = list(_news(data, counts))
    compared = sum(verdict_counts(data).values())
    if not news and (data.report.exit_code == 2 or not data.report.compared_followers):
        read = f"no follower {'could be compared' if compared else 'was in the input'}"
        read = read if data.report.exit_code != 2 else "no input could be read"
        return Headline(str(Severity.ERROR), f"Nothing is known: {read}.", tuple(_caveats(data, counts)))
    if not news:
        total = f"{counted(compared, 'replica')} compared with {'its leader' if compared == 1 else 'their leaders'}"
        untold = counts.get(Verdict.INCONCLUSIVE, 0)
        is_doubtful = (
            untold
            or data.report.doubts
            or any(
                cluster.inferred_leaders or cluster.records_unread or cluster.last_seen_run_id or cluster.missing_broker_ids
                for cluster in data.report.clusters
            )
        )
        severity = Severity.WARNING if is_doubtful else Severity.NONE
        what = "Nothing found except acknowledged findings" if data.report.acknowledged_count else "Nothing found"
        return Headline(str(severity), f"{what}: {total}, {number(untold)} inconclusive.", tuple(_caveats(data, counts)))
    found = {str(SEVERITIES[Verdict(verdict)]) for verdict, total in counts.items() if total} | {leader.severity for leader in data.leaders}
    found |= {one.severity for one in data.report.offline} | {one.severity for one in data.report.others}
    worst = next(severity for severity in Severity if severity in found)
    return Headline(str(worst), news[0], (*news[1:], *_caveats(data, counts)))


def _offline(report: Report) -> Iterator[str]:
    total = report.offline_count
    if total and report.offline and all(one.cluster_stopped for one in report.offline):  # those of clusters that run come first
        yield f"{counted(total, 'partition')} without a leader: the whole cluster was shut down cleanly."
    elif total:
        yield "1 partition has no leader." if total == 1 else f"{number(total)} partitions have no leader."


def _news(data: PageData, counts: dict[str, int]) -> Iterator[str]:
    """A sentence for each kind of finding: partitions that nobody leads, then the worst first."""
    yield from _offline(data.report)
    losses = data.losses
    groups = sum(cluster.affected_groups for cluster in data.report.clusters)
    if counts.get(Verdict.COMMITTED_LOSS):
        lost = counted(losses.offsets, "offset")
        much = f"{'at least ' if losses.at_least else ''}{lost} in {counted(losses.partitions, 'partition')}"
        hit = f", and {counted(groups, 'consumer group')} {'is' if groups == 1 else 'are'} affected" if groups else ""
        yield f"Committed records are missing from the leader: {much}{hit}."
    for verdict, text in _SENTENCES.items():
        if counts.get(verdict):
            yield text.format(n=counted(counts[verdict], "replica"), s="s" if counts[verdict] == 1 else "")
    unreadable = sum(one.code == Verdict.UNREADABLE for one in data.leaders)
    if unreadable:
        yield f"{counted(unreadable, 'leader')} cannot be read."
    for code, (one, several) in _OF_REPLICAS.items():
        total = data.report.partition_codes.get(code, 0)
        if total:
            yield one if total == 1 else several.format(n=number(total))


_OF_REPLICAS: dict[str, tuple[str, str]] = {
    PartitionCode.LEADER_EPOCH_MISSING: (
        "1 leader runs without its epoch in its leader-epoch-checkpoint.",
        "{n} leaders run without their epoch in their leader-epoch-checkpoint.",
    ),
    PartitionCode.IN_SYNC_OUTSIDE_ISR: (
        "1 follower equals its leader and is outside the ISR.",
        "{n} followers equal their leader and are outside the ISR.",
    ),
    PartitionCode.COMMITTED_RECORDS_GONE: (
        "1 partition had committed records that no replica holds any more.",
        "{n} partitions had committed records that no replica holds any more.",
    ),
    PartitionCode.ENDS_BELOW_HIGH_WATERMARK: (
        "1 replica ends below what it had reached: it lost its end, or its copy is short.",
        "{n} replicas end below what they had reached: they lost their ends, or their copies are short.",
    ),
    PartitionCode.TORN_AFTER_CLEAN_STOP: (
        "1 replica ends in bytes that are no batch, and its broker will not cut them off: do not start it as it is.",
        "{n} replicas end in bytes that are no batch, and their brokers will not cut them off: do not start them as they are.",
    ),
    PartitionCode.FETCH_FAILS_FOREVER: (
        "1 follower does not fetch again by itself: it has to be rebuilt, or its broker restarted, as the finding says.",
        "{n} followers do not fetch again by themselves: they have to be rebuilt, or their brokers restarted, as the findings say.",
    ),
    PartitionCode.SEQUENCE_GAP: (
        "1 partition lacks records in the middle of a producer's sequence: they were written, and no replica has them.",
        "{n} partitions lack records in the middle of a producer's sequence: they were written, and no replica has them.",
    ),
    PartitionCode.HANGING_TRANSACTION: (
        "1 partition has a transaction that nobody will end: read_committed consumers are stuck.",
        "{n} partitions have transactions that nobody will end: read_committed consumers are stuck.",
    ),
    PartitionCode.MARKER_MISSING: (
        "1 follower lacks the end of a transaction: once it leads, read_committed consumers are stuck.",
        "{n} followers lack the ends of transactions: once they lead, read_committed consumers are stuck.",
    ),
    PartitionCode.OFFSETS_MISSING: (
        "1 partition lacks offsets in the middle of its log: they were written, and no replica has them.",
        "{n} partitions lack offsets in the middle of their logs: they were written, and no replica has them.",
    ),
    PartitionCode.TOPIC_ID_CONFLICT: (
        "1 partition has its records under another topic id than the metadata or its leader: which one is right is unknown.",
        "{n} partitions have their records under other topic ids than the metadata or their leaders: which are right is unknown.",
    ),
    PartitionCode.WILL_BECOME_STRAY: (
        "1 broker will set a log aside when it starts, and go on without its records.",
        "{n} logs will be set aside when their brokers start, which go on without their records.",
    ),
    PartitionCode.STRAY_HOLDS_RECORDS: (
        "1 log that is set aside, or being moved or deleted, holds records that no current replica holds.",
        "{n} logs that are set aside, or being moved or deleted, hold records that no current replica holds.",
    ),
    PartitionCode.REMOVED_BELOW_HIGH_WATERMARK: (
        "1 broker has truncated below its high watermark, according to its server.log: committed records were lost then.",
        "{n} replicas have been truncated below their high watermark, according to server.log: committed records were lost then.",
    ),
    PartitionCode.TRUNCATION_REFUSED: (
        "1 broker exited rather than truncate, according to its server.log.",
        "{n} times a broker exited rather than truncate, according to its server.log.",
    ),
}
_SENTENCES: dict[str, str] = {
    Verdict.LOG_MATCHING_VIOLATION: "Silent divergence: {n} conflict{s} with the leader and will stay diverged.",
    Verdict.REBATCHED: "{n} hold{s} the leader's records in other batches than the leader does: nothing is lost.",
    Verdict.CONTENT_MISMATCH: "Silent divergence: {n} hold{s} other bytes than the leader at the same offsets and epochs.",
    Verdict.UNREADABLE: "{n} cannot be read the way a broker reads it.",
    Verdict.STALE_TOPIC_ID: "{n} hold{s} an earlier topic of the same name.",
    Verdict.CANNOT_REJOIN: "{n} cannot come back into the ISR: an epoch table is wrong, and the leader refuses the fetches.",
    Verdict.TRUNCATED_OTHERWISE: "{n} was truncated to another offset than the rule gives.",
    Verdict.COMPACTION_DIFFERS: "{n} hold{s} other newest records than the leader for some keys, and compaction does not explain it.",
    Verdict.STALE_TAIL: "{n} will truncate records; whether they were committed is unknown.",
    Verdict.EPOCH_TABLE_ONLY: "{n}: the epoch table contradicts the log; no record is lost now.",
    Verdict.INCONCLUSIVE: "Unknown: {n} could not be compared.",
}


def _caveats(data: PageData, counts: dict[str, int]) -> Iterator[str]:
    for cluster in data.report.clusters:
        if cluster.last_seen_run_id or cluster.missing_broker_ids:
            what = "" if cluster.last_seen_run_id else f"Broker {', '.join(map(str, cluster.missing_broker_ids))} of "
            yield f"{what or 'Cluster '}{cluster.label} is missing from the input, and an earlier run read it: nothing is known of it now."
    inferred = sum(cluster.inferred_leaders for cluster in data.report.clusters)
    if inferred:
        yield f"Of {counted(inferred, 'pair')} the leader is a guess: do not trust identical, consistent or lagging there."
    unread = sum(cluster.records_unread for cluster in data.report.clusters)
    if unread:
        yield f"Records of {counted(unread, 'replica')} were not compared, for the input does not hold them."
    if data.report.problem_count:
        yield f"{counted(data.report.problem_count, 'input problem')}: listed below."


_DIFFERS_IN = {
    Verdict.CONTENT_MISMATCH: "offsets and epochs agree, the bytes do not",
    Verdict.COMPACTION_DIFFERS: "for some keys one of the two lacks the newest record, and the reason says which",
}


def who_is_right(one: Explanation) -> str:
    """Which of the two replicas holds what counts."""
    verdict, follower, leader = one.verdict, f"broker {one.verdict.follower_id}", f"broker {one.verdict.leader_id}"
    leads = f"{leader}, if it leads" if is_inferred(verdict) else f"the leader, {leader}"
    match verdict.verdict:
        case Verdict.COMMITTED_LOSS:
            return (
                f"Kafka follows {leads}. But the committed records are on {follower} and not on the leader: for them {follower} is right."
            )
        case Verdict.LOG_MATCHING_VIOLATION:
            return (
                f"They hold different records at the same offsets, and Kafka will not repair that. Consumers read what {leads}, "
                f"has; {follower} must take the leader's version before it may lead."
            )
        case Verdict.STALE_TAIL:
            return (
                f"Kafka follows {leads}. Whether the records that {follower} will truncate were committed is unknown: no checkpointed high "
                "watermark "
                "proves it, and brokers write that checkpoint only every 5 s."
            )
        case Verdict.CONTENT_MISMATCH | Verdict.COMPACTION_DIFFERS:
            return (
                f"Neither by itself: {_DIFFERS_IN[Verdict(verdict.verdict)]}. Consumers read what {leads}, has; {follower} "
                "must not lead until somebody has compared both."
            )
        case Verdict.UNREADABLE | Verdict.STALE_TOPIC_ID:
            leads = nobody(verdict) if verdict.leader_id < 0 else leads
            return f"{leads[:1].upper()}{leads[1:]}; what {follower} holds cannot serve this topic."
        case Verdict.CANNOT_REJOIN:
            lead = f"{leads[:1].upper()}{leads[1:]}"
            return f"{lead}, has the records; a line of an epoch table is wrong, and keeps {follower} out of the ISR."
        case Verdict.TRUNCATED_OTHERWISE:
            return f"Undecided: server.log contradicts the rule. Keep the copies of both {leader} and {follower}."
        case Verdict.EPOCH_TABLE_ONLY:
            return f"Both: {follower} has the records of {leads}. Only an epoch table is wrong; the finding says whose."
        case Verdict.CONSISTENT | Verdict.LAGGING | Verdict.IDENTICAL | Verdict.REBATCHED:
            return f"Both: {follower} has the same as {leads}, as far as its log goes."
    return "Unknown: the input does not show which one is right."


def in_short(one: Explanation) -> str:
    """What happens to the follower."""
    verdict, outcome, state = one.verdict, one.outcome, one.follower.state
    name = f"Broker {verdict.follower_id}"
    physical = outcome.physical_offset if outcome else None
    if state is None or outcome is None or verdict.verdict in (Verdict.UNREADABLE, Verdict.STALE_TOPIC_ID):
        return f"{name}: {verdict.reason}."
    if physical is None or physical >= state.log_end_offset:
        return f"{name} truncates nothing: {verdict.reason}."
    much = "" if verdict.loses_records is None else f", {counted(verdict.loses_records, 'record')}"
    below = verdict.committed or 0
    committed = f" {number(below)} of these offsets were committed and are not on the leader." if below else ""
    is_done = bool(one.verdict.already_truncated)
    if verdict.restart_offset is not None:
        how = f"empties its log and starts again at {verdict.restart_offset}"
    elif is_done:
        how = f"has since truncated to {verdict.truncation_offset}, according to its server.log"
    else:
        how = f"truncates to {verdict.truncation_offset}"
    gone = offsets(physical, state.log_end_offset)
    if verdict.lost_offsets is not None and verdict.lost_offsets < state.log_end_offset - physical:
        removes, loses = ("has removed", "has lost") if is_done else ("removes", "loses")
        lost = f"{counted(verdict.lost_offsets, 'offset')}{much}" if verdict.lost_offsets else "nothing"
        sends = ", and sends them again" if verdict.restart_offset is None else ""  # what lies below its start it need not send
        return f"{name} {how}: it {removes} {gone}, and {loses} {lost}: the leader holds the others{sends}.{committed}"
    loses = "has lost" if is_done else "loses"
    return f"{name} {how}: it {loses} {offsets(physical, state.log_end_offset)}{much}.{committed}"
