"""What may stay silent, each with its reason: nobody could know from the files, or it is accepted. Listed in docs/limits.md.

`KNOWN` is what could be known and is not told yet: defects that are open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.mutation.broker_view import CHECKPOINTS, checkpoint, framed, properties
from tests.mutation.shapes import TEXT

if TYPE_CHECKING:
    from tests.mutation.damage.tree import Judged as Place
    from tests.mutation.damage.tree import Mutation

_RESEALED = ("attributes", "timestamp", "producer", "record count", "payload")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A kind of mutation that may stay silent. `limit` is the words of docs/limits.md that say so."""

    name: str
    limit: str
    holds: Callable[[Mutation, Place], bool]


def _is_of(*kinds: str) -> Callable[[Mutation, Place], bool]:
    return lambda mutation, _place: mutation.kind in kinds


def _offsets(mutation: Mutation, which: str) -> list[int]:
    return [int(line.split()[-1]) for lines in mutation.facts.get(which, {}).values() for line in lines]


def _is_line_of(mutation: Mutation, name: str) -> bool:
    """Whether it is of a line, of which there is still one at most."""
    return mutation.kind.startswith(name) and mutation.partition is not None and max(map(len, mutation.facts["after"].values())) < 2


def _ends(mutation: Mutation, place: Place) -> list[int]:
    return [place.tree.end(home) for home in place.tree.homes[mutation.partition or ""]]


def _is_emptied(mutation: Mutation, name: str) -> bool:
    """Whether every line of it is gone, as in the file that a new broker makes."""
    return mutation.kind == f"{name} cut" and set(mutation.changes.values()) == {b""}


def _lower_high_watermark(mutation: Mutation, _place: Place) -> bool:
    if _is_emptied(mutation, "replication-offset-checkpoint"):
        return True
    if not _is_line_of(mutation, "replication-offset-checkpoint"):
        return False
    after = _offsets(mutation, "after")
    return not after or 0 <= max(after) <= max(_offsets(mutation, "before"), default=0)


def _recovery_point(mutation: Mutation, _place: Place) -> bool:
    if _is_emptied(mutation, "recovery-point-offset-checkpoint"):
        return True
    return _is_line_of(mutation, "recovery-point-offset-checkpoint") and min(_offsets(mutation, "after"), default=0) >= 0


def _cleaner_offset(mutation: Mutation, _place: Place) -> bool:
    return _is_line_of(mutation, "cleaner-offset-checkpoint") and min(_offsets(mutation, "after"), default=0) >= 0


def _log_start(mutation: Mutation, place: Place) -> bool:
    if not _is_line_of(mutation, "log-start-offset-checkpoint"):
        return False
    after = _offsets(mutation, "after")
    return not after or (min(after) >= 0 and (place.tree.is_alive or max(after) <= min(_ends(mutation, place))))


def _compacted_content(mutation: Mutation, place: Place) -> bool:
    what = mutation.kind.removeprefix("batch ").removesuffix(" resealed")
    return mutation.kind.endswith(" resealed") and what in _RESEALED and place.tree.is_compacted(mutation.partition or "")


_HOLES = (
    "batch dropped",
    "batch behind the end",
    "batch last offset delta resealed",
    "batch base offset",
    "batch swapped",
    "text line dropped",
)
_CUTS = ("segment cut between batches", "segment emptied", "segment deleted", "segment marked deleted", "text lines cut off")


def _compacted_hole(mutation: Mutation, place: Place) -> bool:
    return mutation.kind in (*_HOLES, *_CUTS, "segment swapped", "segment renamed", "segment another's") and place.tree.is_compacted(
        mutation.partition or ""
    )


def _end_of_a_running_copy(mutation: Mutation, place: Place) -> bool:
    """Brokers ran: copies and their checkpoints are of different moments."""
    if not place.tree.is_running or mutation.partition is None:
        return False
    if mutation.kind.startswith("replication-offset-checkpoint offset"):
        return _is_line_of(mutation, "replication-offset-checkpoint") and min(_offsets(mutation, "after"), default=0) >= 0
    of_end = (
        mutation.kind == "text lines cut off"
        or mutation.facts.get("which") in ("last", "only")
        or str(mutation.facts.get("which")).endswith(("of last segment", "of only segment"))
    )
    return of_end and mutation.kind in (*_CUTS, "batch dropped", "text line dropped")


def _same_on_all(mutation: Mutation, _place: Place) -> bool:
    if mutation.facts.get("whose") != "all":
        return False
    what = mutation.kind.removeprefix("batch ").removesuffix(" resealed")
    is_sealed = mutation.kind.endswith(" resealed") and what in _RESEALED
    return is_sealed or mutation.kind in ("batch written again later", "segment another's")


def _newer_leader(mutation: Mutation, _place: Place) -> bool:
    # "a replica": nobody leads, so that whoever holds more may have led
    return mutation.kind == "batch written again later" and mutation.facts.get("whose") in ("leader", "a replica")


def _beyond_running_leader(mutation: Mutation, place: Place) -> bool:
    of_follower = mutation.facts.get("whose") == "follower" and place.tree.is_running
    return of_follower and mutation.kind in ("batch written again later", "batch behind the end")


def _below_log_start(mutation: Mutation, place: Place) -> bool:
    start = place.tree.log_start(mutation.partition or "")
    if not start or not mutation.kind.startswith(("batch", "segment")):
        return False
    for path, content in mutation.changes.items():
        before = place.tree.files.get(path)
        if before is None:
            return False
        after = content or b""
        same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), min(len(before), len(after)))
        kept = [one for one in framed(before) if one.last >= start]
        if any(one.end > same and before[one.at : one.end] not in after for one in kept):
            return False
    return True


def _oldest_deleted(mutation: Mutation, _place: Place) -> bool:
    return mutation.kind in ("segment deleted", "segment marked deleted") and mutation.facts.get("which") == "first"


def _oldest_named_lower(mutation: Mutation, place: Place) -> bool:
    """A broker leaves such a segment itself, and begins at its checkpointed log start."""
    if (
        mutation.kind != "segment renamed"
        or mutation.facts.get("which") not in ("first", "only")
        or not place.tree.log_start(mutation.partition or "")
    ):
        return False
    before, after = (min(path for path, content in mutation.changes.items() if (content is None) is gone) for gone in (True, False))
    return after.rpartition("/")[2] < before.rpartition("/")[2]


def _table_of_a_running_broker(mutation: Mutation, place: Place) -> bool:
    kinds = ("line added", "line dropped", "offset changed", "offset extreme", "first number changed", "deleted", "emptied")
    return place.tree.is_alive and mutation.kind in {f"leader-epoch-checkpoint {kind}" for kind in kinds}


def _table_made_again(mutation: Mutation, place: Place) -> bool:
    return mutation.kind.startswith("leader-epoch-checkpoint") and place.tree.is_killed


def _table_without_batches(mutation: Mutation, place: Place) -> bool:
    of_table = mutation.kind.startswith("leader-epoch-checkpoint")
    return of_table and not any(framed_batches(place, home) for home in place.tree.homes[mutation.partition or ""])


def framed_batches(place: Place, home: str) -> bool:
    """Whether a replica holds any batch."""
    return any(True for path in place.tree.segments(home) for _one in framed(place.tree.files[path]))


def _table_below_log_start(mutation: Mutation, _place: Place) -> bool:
    if not mutation.kind.startswith("leader-epoch-checkpoint offset") or mutation.facts.get("which") not in ("first", "only"):
        return False
    return 0 <= int(mutation.facts["to"][0].split()[1]) < int(mutation.facts["line"].split()[1])


def _table_below_cleaner(mutation: Mutation, place: Place) -> bool:
    if not mutation.kind.startswith("leader-epoch-checkpoint"):
        return False
    for path, content in mutation.changes.items():
        cleaned = _cleaned_to(path.rpartition("/")[0], place)
        before, after = (checkpoint(table, 2) for table in (place.tree.files[path], content or b""))
        if cleaned <= 0 or isinstance(before, str) or isinstance(after, str) or _from(before, cleaned) != _from(after, cleaned):
            return False
    return True


def _cleaned_to(home: str, place: Place) -> int:
    """The cleaner checkpoint of a replica; 0 without one."""
    log_dir, _slash, partition = home.rpartition("/")
    entries = checkpoint(place.tree.files.get(f"{log_dir}/cleaner-offset-checkpoint", b""), 3)
    found = [] if isinstance(entries, str) else [int(offset) for topic, number, offset in entries if f"{topic}-{number}" == partition]
    return found[0] if found else 0


def _from(table: list[list[str]], offset: int) -> list[tuple[int, int]]:
    """What a table says from an offset on: the epoch there, and the entries above."""
    entries = sorted((int(start), int(epoch)) for epoch, start in table)
    below = [epoch for start, epoch in entries if start <= offset]
    return [(offset, below[-1] if below else -1), *((start, epoch) for start, epoch in entries if start > offset)]


def _batch_index(mutation: Mutation, _place: Place) -> bool:
    return mutation.kind in ("collection batch index flipped", "collection batch index another's")


def _directory_id(mutation: Mutation, place: Place) -> bool:
    """Whether of a meta.properties all that broker_view knows but the id of the directory is as it was."""
    if mutation.kind != "meta.properties garbled":
        return False
    (path, content), *_others = mutation.changes.items()
    told = properties(place.tree.files[path])
    after = properties(content or b"")
    return all(after.get(name) == value for name, value in told.items() if name != "directory.id")


_AT_THE_END = ("last", "only")


def _epoch_of_the_end(mutation: Mutation, place: Place) -> bool:
    """The table of a running broker is of another moment: its last entries may be of what the log had later, or not yet."""
    is_last = str(mutation.facts.get("which")) in [f"{batch} of {segment} segment" for batch in _AT_THE_END for segment in _AT_THE_END]
    return mutation.kind == "batch epoch" and mutation.facts.get("whose") == "all" and place.tree.is_alive and is_last


def _text_says_twice(mutation: Mutation, _place: Place) -> bool:
    return mutation.kind == "text number" and set(mutation.facts["fields"]) <= {"position", "size", "count", "baseSequence", "producerId"}


def _without_topic_id_beside_text(mutation: Mutation, place: Place) -> bool:
    return mutation.kind == "partition.metadata deleted" and place.shape == TEXT


_METADATA_SAYS = (
    *("leader", "leader epoch", "follower out of the isr", "isr null", "cleanup policy", "topic id"),
    *(
        "broker state",
        "broker left out",
        "kafka version",
        "no kafka version",
        "features",
        "cleanup policy unknown",
        "leader epoch negative",
    ),
)


def _not_assigned(mutation: Mutation, place: Place) -> bool:
    return mutation.kind == "metadata follower left out" and place.tree.is_alive


def _beside_a_metadata_log(mutation: Mutation, _place: Place) -> bool:
    return mutation.kind.startswith("metadata ") and bool(mutation.facts.get("has log"))


ACCEPTED = (
    Accepted("HIGH_WATERMARK_LOWER", "a high watermark that is lower than it was, or not there", _lower_high_watermark),
    Accepted("RECOVERY_POINT", "a recovery point", _recovery_point),
    Accepted("CLEANER_OFFSET", "how far the cleaner went", _cleaner_offset),
    Accepted("LOG_START_WITHIN", "a log start that moved within the log", _log_start),
    Accepted("COMPACTED_CONTENT", "records of compacted topics", _compacted_content),
    Accepted("COMPACTED_HOLE", "batches that are missing in compacted topics", _compacted_hole),
    Accepted("END_OF_A_RUNNING_COPY", "the end of the copy of a broker that runs", _end_of_a_running_copy),
    Accepted("SAME_ON_ALL", "the same change on every replica under a right CRC", _same_on_all),
    Accepted("LEADER_WENT_ON", "more that a leader appended", _newer_leader),
    Accepted("BEYOND_RUNNING_LEADER", "what a follower holds beyond the copy of a leader that runs", _beyond_running_leader),
    Accepted("BELOW_LOG_START", "damage below the log start", _below_log_start),
    Accepted("OLDEST_DELETED", "an oldest segment that is not there", _oldest_deleted),
    Accepted("OLDEST_NAMED_LOWER", "an oldest segment that is named for a lower offset than its first batch has", _oldest_named_lower),
    Accepted("TABLE_OF_A_RUNNING_BROKER", "an epoch table that was copied before or after the batches", _table_of_a_running_broker),
    Accepted("EPOCH_OF_A_RUNNING_END", "another epoch of the last batch of every replica of brokers that run", _epoch_of_the_end),
    Accepted("TABLE_MADE_AGAIN", "an epoch table that a broker makes again", _table_made_again),
    Accepted("TABLE_WITHOUT_BATCHES", "an epoch without batches", _table_without_batches),
    Accepted("TABLE_BELOW_LOG_START", "a first epoch that starts below the log start", _table_below_log_start),
    Accepted("TABLE_BELOW_CLEANER", "an entry of an epoch table that begins below the cleaner checkpoint", _table_below_cleaner),
    Accepted(
        "CHECKPOINT_NOT_COPIED", "a checkpoint of offsets that is not in the copy", _is_of(*(f"{name} deleted" for name in CHECKPOINTS))
    ),
    Accepted("DIRECTORY_ID", "the directory.id of a log directory", _directory_id),
    Accepted("REPLICAS_ALONE", "replicas copied without any file of their log directory", _is_of("broker folder without small files")),
    Accepted("METADATA_ALONE", "what only the metadata says", _is_of(*(f"metadata {what}" for what in _METADATA_SAYS))),
    Accepted("NOT_ASSIGNED_AND_RUNS", "a follower that is not assigned, of a broker that runs", _not_assigned),
    Accepted("BESIDE_A_METADATA_LOG", "cluster-metadata.json beside a metadata log that decides", _beside_a_metadata_log),
    Accepted("BATCH_INDEX_UNREAD", "a batch index of a collection, which is opened only where a truncation cuts", _batch_index),
    Accepted("TEXT_POSITION", "positions, sizes, counts and producers in a text", _text_says_twice),
    Accepted("TEXT_ALONE", "a partition.metadata that is not beside a text", _without_topic_id_beside_text),
    Accepted("CLEAN_STOP", "whether a broker was stopped cleanly", _is_of("clean shutdown mark added", "clean shutdown mark removed")),
)
KNOWN: tuple[Accepted, ...] = ()


def why_silent(mutation: Mutation, place: Place) -> str | None:
    """The name of the exception that covers a mutation."""
    return next((one.name for one in (*ACCEPTED, *KNOWN) if one.holds(mutation, place)), None)
