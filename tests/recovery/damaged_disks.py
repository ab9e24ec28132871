"""Disks of stopped brokers, damaged at random: what a start removes and nobody else holds is copied first, and no such start is safe.

`python -m tests.recovery.damaged_disks --total N --first K CLUSTER...`; a cluster is a folder with one folder for each real broker.

What is lost is counted here, by the bytes before and after the damage: a batch whose bytes are as they were is still on the disk, also
where no reader gets there. A broker that crashed ends its log at the first batch that is not (LogSegment.recover), from the segment that
holds the recovery point on; then it keeps what begins its leader's log.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.recovery import recovery_facts
from replica_audit.past.run import PastRun
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import Copy, GroupPolicy, StartBroker
from replica_audit.rows.starts import BrokerStart
from tests.kafka_lab.files import replica_directories
from tests.mutation.broker_view import Framed, framed
from tests.recovery.seeds import count_broken, parser_of_seeds

Place = tuple[str, int, int]  # topic, partition, broker
Record = tuple[int, int]  # epoch, offset


class LostError(AssertionError):
    """A start removes what nobody else holds, and nobody copied it, or it was called safe."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in a segment file, and whether a damage has touched it."""

    segment: Path
    framed: Framed
    is_touched: bool = False

    @property
    def records(self) -> set[Record]:
        """Its records, one for each offset."""
        return {(self.framed.epoch, offset) for offset in range(self.framed.base, self.framed.last + 1)}


# Each takes the batch and returns its new bytes; a file may become longer or shorter by it.
DAMAGES: Mapping[str, Callable[[Random, bytes], bytes]] = {
    "flip": lambda random, batch: _put(batch, random.randrange(61, len(batch)), lambda byte: byte ^ 1) if len(batch) > 61 else batch[:-1],
    "length": lambda random, batch: batch[:8] + struct.pack(">i", random.choice((0, -1, 1, 99, 10**6))) + batch[12:],
    "magic": lambda random, batch: _put(batch, 16, lambda _byte: random.choice((3, 9, 127))),
    "count": lambda _random, batch: batch[:57] + struct.pack(">i", 10**6) + batch[61:],
    "zeros": lambda _random, batch: bytes(len(batch)),
    "text": lambda _random, batch: (b"<html>" * len(batch))[: len(batch)],
    "gone": lambda _random, _batch: b"",
}


def _put(batch: bytes, at: int, change: Callable[[int], int]) -> bytes:
    return batch[:at] + bytes([change(batch[at])]) + batch[at + 1 :]


def _batches(directory: Path) -> list[Batch]:
    return [Batch(segment, one) for segment in sorted(directory.glob("*.log")) for one in framed(segment.read_bytes())]


def _damaged(random: Random, batches: Sequence[Batch]) -> tuple[str, list[Batch]]:
    """Damage one batch of a replica on the disk; the batches, of which one is touched."""
    place = random.randrange(len(batches))
    kind, one = random.choice([*DAMAGES]), batches[place]
    content = one.segment.read_bytes()
    made = DAMAGES[kind](random, content[one.framed.at : one.framed.end])
    one.segment.write_bytes(content[: one.framed.at] + made + content[one.framed.end :])
    return kind, [*batches[:place], Batch(one.segment, one.framed, is_touched=True), *batches[place + 1 :]]


def _spoil_files(random: Random, root: Path, log_dir: Path) -> list[str]:
    """Take away what would tell more: a high watermark, a recovery point, the metadata log."""
    done = []
    for name, odds in (("replication-offset-checkpoint", 0.3), ("recovery-point-offset-checkpoint", 0.3)):
        if random.random() < odds and (log_dir / name).exists():
            text = (log_dir / name).read_text()
            (log_dir / name).write_text(re.sub(r"(?m)^(\S+ \d+) \d+$", r"\1 0", text))
            done.append(f"0 in {name}")
    if random.random() < 0.5:
        for metadata_log in root.glob("broker-*/data-*/__cluster_metadata-0"):
            shutil.rmtree(metadata_log)
        done.append("no metadata log")
    return done


def _kept(batches: Sequence[Batch], recovery_point: int, leader: set[Record]) -> set[Record]:
    """What a crashed replica holds once it has recovered and follows."""
    bases = sorted({int(one.segment.stem) for one in batches})
    recovers_from = max((base for base in bases if base <= recovery_point), default=bases[0])
    kept: set[Record] = set()
    for one in batches:
        if (one.is_touched and int(one.segment.stem) >= recovers_from) or not one.records <= leader:
            break
        kept |= one.records
    return kept


def _recovery_point(log_dir: Path, key: tuple[str, int]) -> int:
    file = log_dir / "recovery-point-offset-checkpoint"
    found = re.search(rf"(?m)^{re.escape(key[0])} {key[1]} (\d+)$", file.read_text()) if file.exists() else None
    return int(found[1]) if found else 0


def tried(seed: int, source: Path, folder: Path) -> str:
    """Damage a cluster, and hold its plan against what is lost. Returns what was done.

    Raises:
        LostError: a start removes what nobody else holds.
        PlanDefectError: the product says so itself.
    """
    random = Random(f"disks {seed}")  # noqa: S311
    root = shutil.copytree(source, folder / str(seed))
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    for log in root.rglob("*server.log"):
        log.unlink()  # what the brokers did since
    document = json.loads((root / "cluster-metadata.json").read_text())
    crashed = [one["id"] for one in document["brokers"] if one["state"] == "down" and _has_crashed(root, one["id"])]
    leaders = {(topic["topic"], one["partition"]): one["leader"] for topic in document["topics"] for one in topic["partitions"]}
    directories = replica_directories(root)
    whole = {place: _batches(directory) for place, directory in directories.items() if not place[0].startswith("__")}
    followers = [place for place in whole if place[2] in crashed and leaders.get(place[:2], -1) not in (-1, place[2]) and whole[place]]
    place = random.choice(sorted(followers))
    directory = directories[place]
    kind, batches = _damaged(random, whole[place])
    done = [f"{kind} in {directory.name} of broker {place[2]}", *_spoil_files(random, root, directory.parent)]
    leader = _records(whole.get((*place[:2], leaders[place[:2]]), []))
    others = {record for other, held in whole.items() if other[:2] == place[:2] and other != place for record in _records(held)}
    on_disk = {record for one in batches if not one.is_touched for record in one.records}
    lost = on_disk - others - _kept(batches, _recovery_point(directory.parent, place[:2]), leader)
    tables = triage([str(root)], Settings(), tell=lambda _event: None, run_id="now").tables
    shutil.rmtree(root)
    outcome = next(one.outcome for one in tables.rows("broker_starts", BrokerStart) if one.broker_id == place[2])
    actions = [
        action
        for facts in recovery_facts(PastRun(tables, "now"))
        for step in plan_of(facts, GroupPolicy.RE_READ).steps
        for action in step.actions
    ]
    is_copied = any(place in action.replicas for action in actions if isinstance(action, Copy))
    is_started = any(action.broker == place[2] for action in actions if isinstance(action, StartBroker))
    if lost and (outcome == "safe" or (is_started and not is_copied)):
        raise LostError(f"{source}: {'; '.join(done)}: {outcome}, copied: {is_copied}, {len(lost)} records lost: {sorted(lost)[:4]}")
    return f"{kind}{', lost' if lost else ''}"


def _records(batches: Sequence[Batch]) -> set[Record]:
    return {record for one in batches for record in one.records}


def _has_crashed(root: Path, broker: int) -> bool:
    log_dirs = list(root.glob(f"broker-{broker}/data-*"))
    return bool(log_dirs) and not any((log_dir / ".kafka_cleanshutdown").exists() for log_dir in log_dirs)


def main() -> int:
    """Try as many as are asked for, of the clusters in turn."""
    parser = parser_of_seeds(__doc__, total=100)
    parser.add_argument("clusters", type=Path, nargs="+", metavar="CLUSTER")
    given = parser.parse_args()

    def of_a_cluster(seed: int, folder: Path) -> str:
        return tried(seed, given.clusters[seed % len(given.clusters)], folder)

    broken = count_broken(given, of_a_cluster, LostError)
    sys.stdout.write(f"{given.total} disks, {broken or 'no'} loss{'es'[: 2 * (broken > 1)]} untold\n")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
