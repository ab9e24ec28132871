"""What an audit will read, from the inventory alone: no segment is opened."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.files.locations import located
from replica_audit.formats.collection.broker_folder import SOURCE
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from replica_audit.model import BytesToRead, PartitionMetadata, ReplicaFiles
from replica_audit.stages.inventory import Item


def bytes_to_read(items: Iterable[Item]) -> BytesToRead:
    """Add up what an inventory names: of the audited topics, and of the consumers' offsets."""
    compacted, partitions = set(), set()
    replicas: list[ReplicaFiles] = []
    for _broker, value, is_audited in items:
        if isinstance(value, PartitionMetadata) and value.compacted:
            compacted.add(value.topic)
        if isinstance(value, ReplicaFiles):
            replicas.append(value)
            if is_audited:
                partitions.add((value.topic, value.partition))
            if value.cleaner_offset is not None or value.topic == GROUP_OFFSETS_TOPIC:
                compacted.add(value.topic)
    files, raw, cleaned, text = 0, 0, 0, 0
    packed: dict[str, int] = {}
    scans = {one.scans for one in replicas if one.scans is not None}
    for replica in replicas:
        for file in replica.segments:
            files += 1
            if file.source == "raw":
                raw += file.size_bytes
                cleaned += file.size_bytes if replica.topic in compacted else 0
            elif file.source != SOURCE:
                packed[file.path] = file.unpacked_bytes
                text += 0 if file.unpacked_bytes else max(0, file.byte_end - file.byte_start)
    return BytesToRead(
        partitions=len(partitions),
        replicas=len(replicas),
        files=files,
        raw_bytes=raw,
        compacted_bytes=cleaned,
        text_bytes=text + sum(packed.values()),
        collected_bytes=sum(map(_size, scans)),
    )


def _size(path: str) -> int:
    try:
        return located(path).stat().st_size
    except OSError:
        return 0  # told when it is read
