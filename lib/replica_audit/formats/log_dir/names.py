"""The names of files and directories in a broker's log directory, and what each is.

Sources: LocalLog.parseTopicPartitionName and its DELETE, FUTURE and STRAY patterns, LogFileUtils, LogManager (4.2.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from replica_audit.own_folder import MARKER

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
SERVER_LOG = "server.log"  # the kind of a problem of a broker's own log
HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
CLUSTER_METADATA = "cluster-metadata.json"
METADATA_TOPIC = "__cluster_metadata"
GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"

_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1
_MANY_DIGITS = 11  # there is no partition with so many
_SUFFIXED = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)")
_STATES = {"delete": "deleted", "future": "future", "stray": "stray"}
_ENDS = tuple(f"-{end}" for end in _STATES)
_SEGMENT = re.compile(r"([0-9]{20})\.log(\.swap|\.cleaned|\.deleted)?")
_SERVER_LOG = re.compile(r"(?:(.+)[.-])?server\.log(?:[.-].*)?")
_BESIDE_A_SEGMENT = re.compile(
    r"\d{20}\.(index|timeindex|txnindex|snapshot)(\.swap|\.cleaned|\.deleted)?|\d{20}-\d{10}\.checkpoint(\.part|\.deleted)?"
)
SNAPSHOT, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX = ".snapshot", ".index", ".timeindex", ".txnindex"
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
_OF_PRODUCERS = re.compile(r"[0-9]{20}(\.snapshot|\.txnindex)")
_SNAPSHOTS = 3  # a broker keeps one for each segment, and loads the newest
_KEPT = re.compile(r"\.broker-[0-9]{1,10}\.kept")
_UNFINISHED = re.compile(r"\.broker-[0-9]{1,10}\.collecting(\.replaced)?")
_KNOWN = frozenset(
    {META_PROPERTIES, PARTITION_METADATA, EPOCH_CHECKPOINT, *OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN, CLUSTER_METADATA}
    | {".lock", "bootstrap.checkpoint", "quorum-state", MARKER}
)


class ReplicaDirectory(NamedTuple):
    """What a replica directory's name says. `state` is current, deleted, future or stray."""

    topic: str
    partition: int
    state: str


class SegmentName(NamedTuple):
    """What a segment file's name says. `suffix` is empty, `.swap`, `.cleaned` or `.deleted`."""

    base_offset: int
    suffix: str


@lru_cache(maxsize=1 << 16)  # asked of each several times, and the brokers of a cluster have the same ones
def replica_directory(name: str) -> ReplicaDirectory | None:
    """Parse `TOPIC-PARTITION`, or that with `.<uuid>-delete`, `-future` or `-stray`; None if the name is none of these."""
    state = "current"
    suffixed = _SUFFIXED.fullmatch(name) if name.endswith(_ENDS) else None  # few do, and there may be a hundred thousand
    if suffixed:
        state = _STATES[suffixed[4]]
        name = f"{suffixed[1]}-{suffixed[2]}"
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    number = int(partition if len(partition) < _MANY_DIGITS else partition.lstrip("0")[:_MANY_DIGITS] or "0")
    return ReplicaDirectory(topic, number, state) if number <= _INT32_MAX else None


def segment_name(name: str) -> SegmentName | None:
    """Parse `%020d.log` with or without a suffix; None for any other name."""
    match = _SEGMENT.fullmatch(name)
    return SegmentName(int(match[1]), match[2] or "") if match and int(match[1]) <= _INT64_MAX else None


def is_cleaned(name: str) -> int | None:
    """The base offset of any `.cleaned` file, whose presence voids `.swap` files at or above it (KAFKA-6264); None for others."""
    digits = name[:20]
    return int(digits) if name.endswith(".cleaned") and digits.isascii() and digits.isdigit() else None


def counted_segments(names: Collection[str], beside: Collection[str] | None = None) -> Iterator[tuple[str, SegmentName]]:
    """The segment files that make up a log: `.deleted` and `.cleaned` never, `.swap` unless a `.cleaned` file voids it.

    Args:
        names: of everything in a replica directory.
        beside: those of ordinary files, if not all are: only they can void.
    """
    cleaned = min((base for name in (names if beside is None else beside) if (base := is_cleaned(name)) is not None), default=None)
    for name in names:
        found = segment_name(name)
        if found is None or found.suffix in (".deleted", ".cleaned"):
            continue
        if found.suffix != ".swap" or cleaned is None or found.base_offset < cleaned:
            yield name, found


def is_known(name: str) -> bool:
    """Whether a file of this name belongs in a log directory, whether or not the audit reads it."""
    return (
        name in _KNOWN
        or _SEGMENT.fullmatch(name) is not None
        or _BESIDE_A_SEGMENT.fullmatch(name) is not None
        or (name.endswith(".tmp") and name.removesuffix(".tmp") in _KNOWN)
    )


def is_opened(name: str) -> bool:
    """Whether a file of this name is opened when its folder is looked at: small files; segments and unknown ones, which may be text."""
    is_small = name in (META_PROPERTIES, CLEAN_SHUTDOWN, EPOCH_CHECKPOINT, PARTITION_METADATA, *OFFSET_CHECKPOINTS)
    return is_small or segment_name(name) is not None or not is_known(name)


def is_beside_a_segment(name: str) -> bool:
    """Whether a file is an index, a producer snapshot or the like: what a replica directory holds beside its segments."""
    return _BESIDE_A_SEGMENT.fullmatch(name) is not None


def producer_files(names: Collection[str]) -> tuple[str, ...]:
    """Of the files of a replica directory those that say what a broker knew of producers: snapshots, the newest ones, and indexes."""
    found = sorted(match[0] for name in names if (match := _OF_PRODUCERS.fullmatch(name)))
    snapshots = [name for name in found if name.endswith(SNAPSHOT)]
    return (*snapshots[-_SNAPSHOTS:], *(name for name in found if name.endswith(TRANSACTION_INDEX)))


def is_server_log(name: str) -> bool:
    """Whether a file is a broker's own log, perhaps rolled or packed: `server.log`, `server.log.2026-01-02`, `broker-3.server.log.gz`."""
    return _SERVER_LOG.fullmatch(name) is not None


def server_log_of(name: str) -> int | None:
    """The broker id in the name of a server log (`broker-3.server.log`); None for other names and for logs that name no broker."""
    match = _SERVER_LOG.fullmatch(name)
    return is_broker_folder(match[1]) if match and match[1] else None


def is_broker_folder(name: str) -> int | None:
    """The broker id in a folder's name: `broker-3`, `broker=3`, `broker_3`, `broker3` or `3`; None for other names."""
    match = re.fullmatch(r"(?:broker[-=_]?)?([0-9]{1,10})", name)
    return int(match[1]) if match and int(match[1]) <= _INT32_MAX else None


def unfinished_name(broker_id: int) -> str:
    """The name of the folder that `collect` writes to until it is done."""
    return f".broker-{broker_id}.collecting"


def kept_name(broker_id: int) -> str:
    """The name of the folder in which `collect --replace` keeps an earlier collection that has what a newer one could not read."""
    return f".broker-{broker_id}.kept"


def is_kept(name: str) -> bool:
    """Whether a folder is such a one."""
    return _KEPT.fullmatch(name) is not None


def is_unfinished(name: str) -> bool:
    """Whether a folder is what a run of `collect` has not finished, or was about to replace."""
    return _UNFINISHED.fullmatch(name) is not None


def topic_filter(topics: str) -> Callable[[str], bool]:
    """A test of a topic's name: its whole must match the regular expression `topics` (Python's syntax); every name passes an empty one."""
    if not topics:
        return lambda name: True
    pattern = re.compile(topics, re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None
