"""Replicas of which a broker's log directories have nothing, where all of these are in the input: it makes an empty log when it starts.

Source: LogManager.getOrCreateLog, called for every partition that the metadata assigns to the broker (ReplicaManager.applyDelta).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from replica_audit.model import PartitionMetadata, Producers, ProducerState, ReplicaFiles, ScannedSegment, Segment, SegmentFile
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.replicas.loading import Loaded, load

MADE_EMPTY = "none of the broker's log directories, which are all in the input, has this replica: it makes an empty one when it starts"


def known_empty(
    metadata: PartitionMetadata,
    held: Collection[int],
    cluster: ClusterFacts,
    alive: Callable[[int, ReplicaFiles], bool | None],
) -> Iterator[Loaded]:
    """An empty log for each replica that the metadata assigns and that its broker is known not to have.

    Not of a broker that runs, which has a directory for each of its replicas: the copy is older than the assignment, or lacks it.

    Args:
        metadata: of the partition.
        held: brokers of which the input has a current directory.
        cluster: whose log directories are all there.
        alive: whether a broker runs, by what was copied of it.
    """
    name = f"{metadata.topic}-{metadata.partition}"
    for broker in sorted({*metadata.replicas} - {*held} & cluster.whole_brokers.keys()):
        whole = cluster.whole_brokers[broker]
        files = _files(metadata, name, whole.log_dir)
        if name not in whole.without_directory and not alive(broker, files):
            made = load(broker, files, [_no_batches(files)], _nothing, _nothing, _no_states, alive=False, compacted=False)
            yield replace(made, scanned={}, is_known_empty=True)


def _nothing(*_of: object) -> Iterator[Any]:
    """What is read again of an empty log."""
    return iter(())


def _no_states(*_of: object) -> tuple[ProducerState, ...]:
    return ()


def _files(metadata: PartitionMetadata, name: str, log_dir: str) -> ReplicaFiles:
    return ReplicaFiles(
        log_dir=log_dir,
        directory=name,
        topic=metadata.topic,
        partition=metadata.partition,
        state="current",
        topic_id=metadata.topic_id,
        segments=(),
        checkpoint_state="empty",
        checkpoint=(),
        epochs=(),
        high_watermark=None,
        high_watermarks_collected=True,
        recovery_point=None,
        log_start_offset=None,
        cleaner_offset=None,
        clean_shutdown=False,
        offline_reason=None,
        problems=(),
    )


def _no_batches(files: ReplicaFiles) -> ScannedSegment:
    """The segment that the broker makes."""
    file = SegmentFile(path=files.inside(f"{0:020d}.log"), source="raw", base_offset=0, size_bytes=0)
    segment = Segment(base_offset=0, runs=(), producers=Producers((), (), 0))
    return ScannedSegment(log_dir=files.log_dir, directory=files.directory, file=file, segment=segment, failed=False, problems=())
