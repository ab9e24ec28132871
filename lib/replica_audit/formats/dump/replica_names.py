"""Which TOPIC-PARTITION the name of a folder or a file says that a text, or bare segments, are of. A wrong guess is worse than none.

Kafka's own directories are known by what is in them and by the log directory's checkpoints. Here are names that people give, where nothing
else says more: those of brokers, machines, disks and copies have the same form (`broker-1`, `kafka-0`, `data-0`, `node-3`, `dump-2`).
"""

from __future__ import annotations

import re

from replica_audit.formats.log_dir import names as log_dir

_MOST_PARTITIONS = 1_000_000  # of a topic: what is above is a date or a number of something else
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_DATE = re.compile(r"(19|20)\d\d[-._]?(\d\d)?")
_ENDINGS = re.compile(r"(\.(txt|text|log|dump|dumps|out|output|gz|md|utf8|utf-8|utf16|utf-16))+$", re.IGNORECASE)
_SEGMENT = re.compile(r"[-_.]?\d{20}$")
# fmt: off
_MACHINES = {
    "kafka", "kraft", "broker", "controller", "node", "host", "server", "machine", "instance", "pod", "container", "vm", "peer",
    "member", "role", "replica",
}
# fmt: on
# fmt: off
_PLACES = {
    "data", "disk", "drive", "volume", "vol", "pv", "pvc", "mnt", "mount", "ssd", "hdd", "nvme", "jbod", "raid", "storage", "store",
    "dir", "directory", "folder", "path", "log", "logdir", "tmp", "srv", "zone", "az", "rack", "region", "site", "cluster", "backup",
    "bak", "copy", "copie", "snapshot", "snap", "dump", "text", "txt", "file", "output", "out", "result", "segment", "seg", "index",
    "part", "partition", "p", "leader", "follower", "before", "after", "run",
}
# fmt: on
_FIRST = {"kafka", "broker", "ip", "pvc"}  # kafka-logs-1, broker-a-1, ip-10-0-0-12, pvc-...


def of_folder(name: str) -> log_dir.ReplicaDirectory | None:
    """What a folder's name says, where there is nothing else to go by; None if it is no TOPIC-PARTITION's, or as well another thing's."""
    told = log_dir.replica_directory(name)
    if told is None or told.partition >= _MOST_PARTITIONS or not _TOPIC.fullmatch(told.topic):
        return None
    return None if _DATE.fullmatch(told.topic) or _is_of_something_else(told.topic) else told


def _is_of_something_else(topic: str) -> bool:
    words = [re.sub(r"\d+$", "", word).removesuffix("s") for word in re.split("[-_.]", topic.lower())]
    return words[-1] in _MACHINES or words[0] in _FIRST or (len(words) == 1 and words[0] in _PLACES)


def of_file(name: str) -> str | None:
    """The replica directory that a file's name names, as `orders-0.txt` and `orders-0-00000000000000000000.log.gz`; None if none."""
    stem = _SEGMENT.sub("", _ENDINGS.sub("", name))
    return stem if of_folder(stem) else None


def segment_of_file(name: str) -> int | None:
    """The base offset that a file's name has at its end, before its endings; None if none."""
    found = re.search(r"(?:^|[-_.])(\d{20})$", _ENDINGS.sub("", name))
    return int(found[1]) if found and int(found[1]) < 1 << 63 else None
