"""Small healthy clusters, written here: what real ones in tests/data do not have, and small enough to be audited in milliseconds.

Three brokers of Kafka 4.2, cluster-metadata.json without a metadata log, so that nothing but what is mutated says who leads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.formats import kafka_files as kf

STATES = ("up", "paused", "stopped", "killed")
BROKERS = (1, 2, 3)
_TIME = 1_795_000_000_000
# topic: cleanup policy, first offset, batches of (epoch, records), segments begin at these batches
_TOPICS: dict[str, tuple[str, int, Sequence[tuple[int, int]], Sequence[int]]] = {
    "orders": ("delete", 0, [(0, 3), (0, 1), (0, 4), (2, 2), (2, 2), (2, 5), (3, 1), (3, 3), (5, 2)], (0, 3, 6)),
    "events": ("delete", 0, [(0, 5), (1, 2), (1, 3)], (0,)),
    "trimmed": ("delete", 40, [(1, 5), (1, 2), (4, 3), (4, 4)], (0, 2)),
    "keys": ("compact", 0, [(0, 2), (0, 3), (1, 1), (1, 2)], (0, 2)),
}


def _id(number: int) -> str:
    return ["zZpqJWkXMQF-e2A5xW3-mA", "yAcMOC6JRzqjDS0sVf9qPQ", "U6fFNNC8Q76sUjd1BPVoog", "nsJ_-6TtSRCaCj3LynC9dg"][number]


def healthy(root: Path, state: str, cluster_id: str = kf.CLUSTER_ID) -> Path:
    """Write a cluster whose brokers are all in this state; every follower has its leader's log. Others of another id have equal topics."""
    topics: list[dict[str, object]] = []
    document = {
        "version": 1,
        "cluster_id": cluster_id,
        "captured_at": "2026-11-21T05:43:41.716Z",
        "kafka_version": "4.2.0",
        "features": {"metadata.version": 29},
        "brokers": [{"id": broker, "state": {"stopped": "down", "killed": "down"}.get(state, state)} for broker in BROKERS],
        "topics": topics,
    }
    offsets: dict[int, dict[str, list[tuple[str, int, int]]]] = {broker: {"hw": [], "rp": [], "start": []} for broker in BROKERS}
    for place, (topic, (policy, first, batches, rolls)) in enumerate(_TOPICS.items()):
        partitions = []
        for number in range(2):
            leader = BROKERS[(place + number) % 3]
            for broker in BROKERS:
                end = _replica(root / f"broker-{broker}" / "data-0" / f"{topic}-{number}", _id(place), first, batches, rolls, number)
                offsets[broker]["hw"].append((topic, number, end))
                offsets[broker]["rp"].append((topic, number, end if state == "stopped" else first))
                if first:
                    offsets[broker]["start"].append((topic, number, first))
            partitions.append(
                {
                    "partition": number,
                    "leader": leader,
                    "leader_epoch": batches[-1][0],
                    "replicas": list(BROKERS),
                    "isr": list(BROKERS),
                    "elr": [],
                }
            )
        topics.append(
            {"topic": topic, "topic_id": _id(place), "internal": False, "configs": {"cleanup.policy": policy}, "partitions": partitions}
        )
    for broker in BROKERS:
        home = root / f"broker-{broker}" / "data-0"
        own = offsets[broker]
        (home / "replication-offset-checkpoint").write_bytes(kf.checkpoint(own["hw"]))
        (home / "recovery-point-offset-checkpoint").write_bytes(kf.checkpoint(own["rp"]))
        (home / "log-start-offset-checkpoint").write_bytes(kf.checkpoint(own["start"]))
        (home / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([]))
        directory = f"directory.id=v-qBnTXCsUTLfj59zsS6V{'ABC'[broker - 1]}\n".encode()
        (home / "meta.properties").write_bytes(kf.meta_properties(broker, cluster_id) + directory)
        if state == "stopped":
            (home / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    (root / "cluster-metadata.json").write_text(json.dumps(document, indent=1))
    return root


def _replica(home: Path, topic_id: str, first: int, batches: Sequence[tuple[int, int]], rolls: Sequence[int], number: int) -> int:
    at, made = first, []
    epochs: dict[int, int] = {}
    for place, (epoch, records) in enumerate(batches):
        epochs.setdefault(epoch, at)
        value = f"value {number} {place}".encode()
        made.append((at, kf.batch(at, epoch, deltas=range(records), value=value, timestamp=_TIME + at)))
        at += records
    for begin, end in zip(rolls, [*rolls[1:], len(made)], strict=True):
        kf.segment(home, made[begin][0], *(content for _base, content in made[begin:end]))
    (home / "leader-epoch-checkpoint").write_bytes(kf.checkpoint(sorted(epochs.items())))
    (home / "partition.metadata").write_bytes(kf.partition_metadata(topic_id))
    return at
