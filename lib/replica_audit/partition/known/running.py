"""Whether a broker ran while its files were copied, and whether they may be of different times.

Sources: LogManager and CleanShutdownFileHandler, 3.7 to 4.3: the marker of a clean shutdown is written last when a broker stops, with the
epoch of its registration, and deleted when it starts; every start registers again, in a higher epoch.
"""

from __future__ import annotations

from replica_audit.model import ReplicaFiles
from replica_audit.partition.known.cluster_facts import ClusterFacts

_ALIVE = {"up": True, "paused": True, "down": False}


def is_alive(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool | None:
    """Whether the broker of a replica ran when its files were copied, None if unknown.

    A marker of a clean shutdown lies there only while it does not. One that started again since may have done so between the copies of the
    marker and of the replica.
    """
    if files.in_use:
        return True
    state = cluster.broker_states.get(broker_id, "")
    if state == "stopped" and files.has_lock and not files.clean_shutdown:
        return True  # a controlled shutdown ends with the marker, which would have been copied: the copy is of before
    if _has_started_since(broker_id, files, cluster):
        return True
    return False if files.clean_shutdown else _ALIVE.get(state)


def may_have_run(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool:
    """Whether a broker ran while its files were copied, or may have: the metadata log has it as stopped, and its files do not say when.

    Its copy may have neither the marker nor `.lock` because it began while the broker was down, when newer releases have no `.lock`, and
    the broker had started before the marker was to be copied. Or nobody copied hidden files.
    """
    alive = is_alive(broker_id, files, cluster)
    return alive is True or (alive is None and cluster.broker_states.get(broker_id) == "stopped")


def may_be_of_different_times(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool:
    """Whether a broker may have gone on, or started, while its files were copied one by one; `collect` sees to that itself."""
    state = cluster.broker_states.get(broker_id)
    is_stopped = state == "down" or (state != "up" and is_alive(broker_id, files, cluster) is False)
    is_at_rest = state == "paused" or (is_stopped and not files.in_use)
    return not is_at_rest and not cluster.simultaneous and files.captured_at_ms is None


def _has_started_since(broker_id: int, files: ReplicaFiles, cluster: ClusterFacts) -> bool:
    """Whether a broker registered again after the stop of which the copy has the marker."""
    epoch = files.clean_shutdown_epoch
    is_copied_apart = not cluster.simultaneous and files.captured_at_ms is None
    return epoch is not None and is_copied_apart and cluster.broker_epochs.get(broker_id, -1) > epoch
