"""What to do about a follower that cannot come back, and about a hole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.paragraphs import offsets
from replica_audit.rows.pair_structs import MissingOffsets, WrongCheckpointLine
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import EpochStartOffset


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
