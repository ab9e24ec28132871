"""Which groups stand still at the last stable offset, if they read with read_committed: nothing in the files says whether they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replica_audit.model import CommittedOffset
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.replicas.loading import Loaded

_NEAR = 1000  # offsets below it in which control batches are looked for: one for each transaction that ended there


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAtStableOffset:
    """Groups by name: those that have read all below it, those that have not yet, and those that have committed beyond it."""

    waiting: tuple[str, ...]
    approaching: tuple[str, ...]
    beyond: tuple[str, ...]


def groups_at(stable_offset: int, leader: Loaded, commits: Sequence[CommittedOffset]) -> GroupsAtStableOffset:
    """Where groups stand that committed an offset inside the leader's log.

    A consumer passes over control batches without committing: a group whose committed offset is followed by nothing else up to the last
    stable offset has read all that it gets.

    Args:
        stable_offset: of the leader.
        leader: with a log.
        commits: of the groups; those of an earlier topic of the same name are left out.
    """
    if leader.log is None:
        return GroupsAtStableOffset(waiting=(), approaching=(), beyond=())
    start, end = leader.log.log_start_offset, leader.log.log_end_offset
    own = [one for one in commits if start <= one.offset <= end and not _of_another_topic(one, leader.files.topic_id)]
    near = [one.offset for one in own if stable_offset - _NEAR <= one.offset < stable_offset]
    data_end = _data_end(leader, min(near), stable_offset) if near else stable_offset
    return GroupsAtStableOffset(
        waiting=_names(one for one in own if data_end <= one.offset <= stable_offset),
        approaching=_names(one for one in own if one.offset < data_end),
        beyond=_names(one for one in own if one.offset > stable_offset),
    )


def _of_another_topic(commit: CommittedOffset, topic_id: str | None) -> bool:
    return bool(commit.topic_id and topic_id and commit.topic_id != topic_id)


def _names(commits: Iterable[CommittedOffset]) -> tuple[str, ...]:
    return tuple(sorted({commit.group_id for commit in commits}))


def _data_end(leader: Loaded, first: int, stable_offset: int) -> int:
    """The offset behind the last record from `first` on and below the last stable offset; that itself where it cannot be read again."""
    end = first
    try:
        for batch in leader.batches_from(first):
            if batch.base_offset >= stable_offset:
                return end
            if not batch.is_control and batch.last_offset >= first:
                end = batch.last_offset + 1
    except UnreadBatchesError:
        pass
    return stable_offset
