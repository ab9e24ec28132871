"""What the log directories of a cluster's brokers tell together: which of them are copies of each other, and whose are all there.

Source: MetaPropertiesEnsemble and KIP-858: a `directory.id` is of one directory, and a broker whose directories share one does not start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from replica_audit.model import LogDirectory

_FIRST_WITHOUT_ZOOKEEPER = (4, 0)
_FIRST_KRAFT = (3, 0)  # 2.8 had an early access that no cluster can be upgraded from
_SHARED = 0.5  # of the replicas that the smaller of two directories has
_SEVERAL = 2  # replicas: one in two directories of a broker may be left of a move


class OtherCopy(NamedTuple):
    """A log directory of a broker that is a copy of `judged`, another one in the input."""

    broker_id: int
    path: str
    judged: str
    has_same_id: bool


class SharedId(NamedTuple):
    """A `directory.id` that log directories of several brokers have, each with its broker."""

    directory_id: str
    directories: tuple[tuple[int, str], ...]


class WholeBroker(NamedTuple):
    """A broker of which the input has every replica.

    `log_dir`: where it makes a new one, of several one without replicas; `without_directory`: those that a checkpoint names and that have
    no directory.
    """

    log_dir: str
    without_directory: tuple[str, ...]


def other_copies(log_directories: Sequence[tuple[int, LogDirectory]]) -> tuple[OtherCopy, ...]:
    """The log directories that are copies of others.

    Of the copies of one directory that is judged whose checkpointed high watermarks reach farthest, of equal ones that with the shortest
    path. In one folder two directories without ids are copies only if they share several replicas: one may be left of a move, and then the
    broker refuses to start.
    """
    by_broker: defaultdict[int, list[LogDirectory]] = defaultdict(list)
    for broker, one in log_directories:
        by_broker[broker].append(one)
    found = (copy for broker, own in sorted(by_broker.items()) if len(own) > 1 for copy in _copies(broker, own))
    return tuple(found)


def _copies(broker: int, own: Sequence[LogDirectory]) -> Iterator[OtherCopy]:
    ordered = sorted(own, key=lambda one: (-one.reaches, len(one.path), one.path))
    taken: set[str] = set()
    for judged, other in combinations(ordered, 2):
        if not {judged.path, other.path} & taken and judged.path != other.path and _are_copies(judged, other):
            taken.add(other.path)
            yield OtherCopy(broker, other.path, judged.path, judged.directory_id is not None and judged.directory_id == other.directory_id)


def _are_copies(one: LogDirectory, other: LogDirectory) -> bool:
    if one.directory_id is not None and other.directory_id is not None:
        return one.directory_id == other.directory_id
    # of both the names with the smallest hashes are known: compared as far as both samples reach
    shared, fewest = len({*one.sample} & {*other.sample}), min(len(one.sample), len(other.sample))
    return fewest > 0 and shared >= _SHARED * fewest and (one.folder != other.folder or shared >= _SEVERAL)


def shared_ids(log_directories: Iterable[tuple[int, LogDirectory]]) -> tuple[SharedId, ...]:
    """The ids that directories of several brokers have; a controller does not let the second of these brokers register."""
    having: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for broker, one in log_directories:
        if one.directory_id is not None:
            having[one.directory_id].append((broker, one.path))
    several = ((shared, sorted(found)) for shared, found in sorted(having.items()) if len({broker for broker, _path in found}) > 1)
    return tuple(SharedId(shared, tuple(found)) for shared, found in several)


def kraft_brokers(
    log_directories: Iterable[tuple[int, LogDirectory]], *, is_known: bool, is_zookeeper: bool, version: tuple[int, int] | None
) -> tuple[int, ...]:
    """The brokers that run in KRaft mode, by what is known of the cluster, else by what formatted their directories.

    Args:
        log_directories: each with its broker.
        is_known: whether there is a metadata log, or a metadata.version, which only KRaft has.
        is_zookeeper: whether the metadata has an inter.broker.protocol.version, which KRaft has not.
        version: the release of the brokers; None if unknown.
    """
    if not is_known and (is_zookeeper or (version is not None and version < _FIRST_KRAFT)):
        return ()
    is_kraft = is_known or (version is not None and version >= _FIRST_WITHOUT_ZOOKEEPER)
    return tuple(sorted({broker for broker, one in log_directories if (is_kraft if one.is_kraft is None else one.is_kraft)}))


def whole_brokers(log_directories: Iterable[tuple[int, LogDirectory]], registered: Mapping[int, Collection[str]]) -> dict[int, WholeBroker]:
    """The brokers of which the input has every replica.

    Every directory of such a broker is whole, and none is missing: the ids that the broker registered with are all there, or a directory
    without any replica is, on a new disk. Where those ids are not known, such a directory tells it.

    Args:
        log_directories: each with its broker.
        registered: by broker the ids of its directories, as of the metadata log.
    """
    by_broker: defaultdict[int, list[LogDirectory]] = defaultdict(list)
    for broker, one in log_directories:
        by_broker[broker].append(one)
    return {
        broker: WholeBroker(
            log_dir=min(own, key=lambda one: (one.replicas, one.path)).path,
            without_directory=tuple(sorted({name for one in own for name in one.without_directory})),
        )
        for broker, own in sorted(by_broker.items())
        if all(one.is_whole for one in own) and _is_complete(own, registered.get(broker, ()))
    }


def _is_complete(own: Sequence[LogDirectory], registered: Collection[str]) -> bool:
    new = sum(one.replicas == 0 and one.directory_id not in registered for one in own)
    if registered:
        return len(set(registered) - {one.directory_id for one in own}) <= new
    return new > 0
