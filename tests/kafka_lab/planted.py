"""Divergence planted into a copy: what a follower wrote in an epoch that its leader never had, or had elsewhere."""

from __future__ import annotations

import random
from collections.abc import Container
from pathlib import Path

from tests.kafka_lab.files import FileBatch, batches, checkpointed_epochs, replica_directories

_EPOCH_AT = 12  # in a batch's header, outside of its CRC
Key = tuple[str, int, int]


def plant(root: Path, leaders: dict[tuple[str, int], int], chance: random.Random, *, topics: Container[str]) -> Key | None:
    """Give a batch in the middle of what a follower and its leader share another epoch that the leader knows, in the follower's copy.

    A later batch of its segments is shared, too: else the copy of a leader that was elected later may only be older.

    Args:
        root: of the copies.
        leaders: broker ids by topic and partition.
        chance: draws one.
        topics: only in these, none of which is compacted.

    Returns:
        The topic, partition and broker; None if no follower shares three batches with a leader of two epochs.
    """
    found = replica_directories(root)
    candidates = [key for key in found if key[0] in topics and leaders.get(key[:2], -1) not in (-1, key[2])]
    chance.shuffle(candidates)
    for key in candidates:
        leads = found.get((*key[:2], leaders[key[:2]]))
        if leads is None:
            continue
        shared = sorted(set(batches(found[key])) & set(batches(leads)))
        epochs = {epoch for epoch, _start in checkpointed_epochs(leads)}
        followed = [batch for batch in shared[1:-1] if all(_is_followed(of, batch, shared) for of in (leads, found[key]))]
        if followed and len(epochs) >= 2:
            batch = chance.choice(followed)
            _restamp(found[key], batch, chance.choice(sorted(epochs - {batch.epoch})))
            return key
    return None


def plant_beyond(root: Path, ends: dict[Key, int], chance: random.Random) -> Key | None:
    """Give one of a follower's batches that lie beyond its leader's copy another epoch that its own table knows.

    Args:
        root: of the copies.
        ends: of followers, each with the end of its leader's copy.
        chance: draws one.

    Returns:
        Which follower; None if none is there as files, with a table of two epochs.
    """
    found = replica_directories(root)
    for key in chance.sample(sorted(ends.keys() & found.keys()), len(ends.keys() & found.keys())):
        beyond = [batch for batch in batches(found[key]) if batch.base >= ends[key]]
        epochs = {epoch for epoch, _start in checkpointed_epochs(found[key])}
        if beyond and len(epochs) >= 2:
            batch = chance.choice(beyond)
            _restamp(found[key], batch, chance.choice(sorted(epochs - {batch.epoch})))
            return key
    return None


def _is_followed(directory: Path, batch: FileBatch, others: list[FileBatch]) -> bool:
    """Whether one of several later batches lies in the segment of a batch."""
    starts = sorted(int(segment.stem) for segment in directory.glob("*.log"))
    end = next((start for start in starts if start > batch.base), None)
    return any(batch.last < other.base and (end is None or other.base < end) for other in others)


def _restamp(directory: Path, batch: FileBatch, epoch: int) -> None:
    for segment in directory.glob("*.log"):
        content = segment.read_bytes()
        at = content.find(batch.content)
        if at >= 0:
            segment.write_bytes(content[: at + _EPOCH_AT] + epoch.to_bytes(4, "big") + content[at + _EPOCH_AT + 4 :])
            return
    raise AssertionError(f"{directory} does not hold the batch at {batch.base}")
