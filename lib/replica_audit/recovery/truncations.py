"""Who truncates where under each leader that a partition could have: a table of PLAN.md, and all of it as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replica_audit.recovery.commands import table_csv
from replica_audit.recovery.elections import best_choice, leaders_by_plan
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, cut_as_corrected, will_be_cut
from replica_audit.recovery.gone import brokers_shown, unknown_of_gone
from replica_audit.recovery.names import cell, partition_shown
from replica_audit.recovery.start_text import lost_text
from replica_audit.rows.findings import ElectionChoice
from replica_audit.rows.what_if import FollowerCut
from replica_audit.words import count

FILE = "truncations.csv"
_MOST = 20  # partitions in the table
_HEAD = ("topic", "partition", "leader", "planned", "broker", "truncates_to", "starts_at", "offsets", "records", "committed_offsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedTruncations:
    """A partition under one leader. `election` is clean, unclean, or None where it leads now; `lost_records`: those nobody then holds.

    `unknown_of`: brokers that are gone, and of which nobody knows what only they held. `log_ends`: where the logs of brokers end, said
    where nobody counted what they truncate. `is_stopped`: it leads by the metadata, and does not run.
    """

    key: PartitionKey
    leader_id: int
    is_planned: bool
    election: str | None
    cuts: tuple[FollowerCut, ...]
    lost_records: int | None
    lost_committed: int | None
    unknown_of: tuple[int, ...] = ()
    log_ends: Mapping[int, int | None] = field(default_factory=dict)
    is_stopped: bool = False


def truncations(facts: RecoveryFacts) -> list[LedTruncations]:
    """Partitions in which a replica truncates: those without a leader under each candidate, the others under the one that leads."""
    return [*_leaderless(facts, leaders_by_plan(facts)), *_led(facts)]


def truncations_csv(found: Sequence[LedTruncations]) -> str:
    """A line for each replica that is cut, under each leader."""
    rows: list[tuple[str | int, ...]] = [_HEAD]
    for one in found:
        for cut in one.cuts:
            offsets = (cut.truncation_offset, cut.restart_offset, cut.removed_offsets, cut.removed_records, cut.removed_committed)
            said = ("" if offset is None else offset for offset in offsets)
            rows.append((*one.key, one.leader_id, "yes" if one.is_planned else "no", cut.broker_id, *said))
    return table_csv(rows)


def truncations_text(found: Sequence[LedTruncations]) -> Iterator[str]:
    """Lines of Markdown; none where nothing is truncated under any leader."""
    if not found:
        return
    keys = list(dict.fromkeys(one.key for one in found))
    yield from ("## Who truncates what, by leader", "")
    yield "A follower truncates to what its leader holds. The planned leader is marked; the other lines show what it would cost"
    yield "if another replica led. The last column counts records that afterwards only copies hold."
    yield from ("", "| partition | leader | election | the others truncate | only copies hold then |", "|---|---|---|---|---|")
    for one in found:
        if one.key in keys[:_MOST]:
            leader = f"**broker {one.leader_id}, planned**" if one.is_planned else f"broker {one.leader_id}"
            if one.election is None:
                leader = f"broker {one.leader_id}, {'leads again as soon as it runs' if one.is_stopped else 'leads'}"
            yield f"| {cell(partition_shown(*one.key))} | {leader} | {one.election or '-'} | {_cuts(one)} | {_lost(one)} |"
    if len(keys) > _MOST:
        yield from ("", f"and {len(keys) - _MOST} more partitions. All are in `{FILE}`, if the plan has that file.")
    yield ""


def _leaderless(facts: RecoveryFacts, planned: Mapping[PartitionKey, ElectionChoice]) -> Iterator[LedTruncations]:
    for key, one in facts.leaderless.items():
        if best_choice(one) is None:
            continue
        choices = sorted((choice for choice in one.candidates or () if choice.rank is not None), key=lambda choice: choice.rank or 0)
        made = [_under(facts, key, choice, is_planned=planned.get(key) is choice) for choice in choices]
        is_lost = bool(facts.gone) and any(led.lost_records or led.unknown_of for led in made)  # with a disk, by no truncation
        if is_lost or any(cut_away(cut) for led in made for cut in led.cuts):
            yield from made


def _under(facts: RecoveryFacts, key: PartitionKey, choice: ElectionChoice, *, is_planned: bool) -> LedTruncations:
    return LedTruncations(
        key=key,
        leader_id=choice.candidate_id,
        is_planned=is_planned,
        election=choice.election,
        cuts=tuple(cut for cut in facts.cuts_under(*key, choice.candidate_id) if cut.broker_id not in facts.gone),
        lost_records=choice.lost_records,
        lost_committed=choice.lost_committed,
        unknown_of=tuple(unknown_of_gone(facts, key, choice.candidate_id)),
    )


def _cuts_once_corrected(facts: RecoveryFacts) -> list[tuple[PartitionKey, int, FollowerCut]]:
    """What replicas truncate once their leader-epoch-checkpoint is corrected, and for which leader; of partitions that somebody leads."""
    return [
        (replica[:2], one.leader_id, cut_as_corrected(one, facts.verdict_of.get(replica)))
        for replica, one in facts.cut_once_corrected.items()
    ]


def _led(facts: RecoveryFacts) -> Iterator[LedTruncations]:
    """Of partitions with a leader what their followers will truncate; those that a corrected file heals as they do with it."""
    found: dict[tuple[PartitionKey, int], list[FollowerCut]] = {}
    for key, leader, cut in _cuts_once_corrected(facts):
        found.setdefault((key, leader), []).append(cut)
    for verdict in facts.verdicts:
        if will_be_cut(verdict) and verdict.key not in facts.leaderless and (*verdict.key, verdict.follower_id) not in facts.settled:
            found.setdefault((verdict.key, verdict.leader_id), []).append(facts.cut_of_verdict(verdict))
    for (key, leader), cuts in sorted(found.items()):
        yield LedTruncations(
            key=key,
            leader_id=leader,
            is_planned=True,
            election=None,
            cuts=tuple(sorted(cuts, key=lambda cut: cut.broker_id)),
            lost_records=None,
            lost_committed=None,
            is_stopped=facts.is_stopped(leader) is True,
            log_ends={log.broker_id: log.log_end_offset for log in (facts.log_of(*key, cut.broker_id) for cut in cuts) if log is not None},
        )


def cut_away(cut: FollowerCut) -> bool:
    """Whether a replica truncates records, or whether it does is not known."""
    return (cut.truncation_offset is not None or cut.restart_offset is not None) and cut.removed_offsets != 0


def _cuts(one: LedTruncations) -> str:
    return "; ".join(f"broker {cut.broker_id} {_does(cut, one.log_ends.get(cut.broker_id))}" for cut in one.cuts) or "nothing, or not known"


def _does(cut: FollowerCut, log_end_offset: int | None) -> str:
    if cut.restart_offset is not None:
        return f"empties its log and starts at {cut.restart_offset}{_records(cut, log_end_offset)}"
    if cut.truncation_offset is not None and cut.removed_offsets != 0:
        return f"to {cut.truncation_offset}{_records(cut, log_end_offset)}"
    does = "nothing"
    if cut.still_diverged:
        does += ", but stays diverged"
    return does if cut.catches_up else f"{does}, and then cannot follow"


def _records(cut: FollowerCut, log_end_offset: int | None) -> str:
    if cut.removed_records is None:
        end = "" if log_end_offset is None else f" (its log ends at {log_end_offset})"
        return f", not known how many records{end}"
    split = cut.lost_by_transaction
    if split is not None and split.total == cut.removed_records and split.markers:  # else the leader holds a part
        return f": {lost_text(split.total, cut.removed_committed, split)}"
    proven = f", {cut.removed_committed} committed" if cut.removed_committed else ""
    return f" ({count(cut.removed_records, 'record')}{proven})"


def _lost(one: LedTruncations) -> str:
    if one.lost_records is None:
        return "what is truncated"
    proven = f", {one.lost_committed} committed" if one.lost_committed else ""
    known = f"{count(one.lost_records, 'record')}{proven}" if one.lost_records else "nothing"
    return f"{known} known, and what only {brokers_shown(one.unknown_of)} held" if one.unknown_of else known
