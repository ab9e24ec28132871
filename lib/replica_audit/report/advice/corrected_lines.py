"""What to do about a leader-epoch-checkpoint that is malformed or contradicts the batches."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.explanation import ExplainedReplica, Explanation
from replica_audit.report.layout.leader_words import leader_name
from replica_audit.report.layout.rejoin_words import once_corrected
from replica_audit.rows.replicas import FollowerOnceCorrected


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
