"""What an audit will read, from the inventory alone: no segment is opened."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.files.locations import located
from replica_audit.formats.collection.broker_folder import SOURCE
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from replica_audit.formats.values import Row
from replica_audit.model import BytesToRead


def bytes_to_read(rows: Iterable[Row]) -> BytesToRead:
    """Add up what the rows of an inventory name: of the audited topics, and of the consumers' offsets.

    Args:
        rows: of the shape INVENTORY.
    """
    replicas, compacted, partitions = [], set(), set()
    for row in rows:
        if row.get("metadata") and row["metadata"].get("compacted"):
            compacted.add(row["topic"])
        if row.get("replica"):
            replicas.append((row["topic"], row["replica"]))
            if row["is_audited"]:
                partitions.add((row["topic"], row["partition"]))
            if row["replica"].get("cleaner_offset") is not None or row["topic"] == GROUP_OFFSETS_TOPIC:
                compacted.add(row["topic"])
    files, raw, cleaned, text = 0, 0, 0, 0
    packed: dict[str, int] = {}
    scans: set[str] = set()
    for topic, replica in replicas:
        scans |= {replica["scans"]} - {None}
        for file in replica["segments"] or ():
            files += 1
            if file["source"] == "raw":
                raw += file["size_bytes"]
                cleaned += file["size_bytes"] if topic in compacted else 0
            elif file["source"] != SOURCE:
                packed[file["path"]] = file["unpacked_bytes"]
                text += 0 if file["unpacked_bytes"] else max(0, file["byte_end"] - file["byte_start"])
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
