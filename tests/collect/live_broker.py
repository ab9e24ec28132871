"""A process that does to a log directory what a broker at work does, fast: `python -m tests.collect.live_broker DIRECTORY SEED`.

It holds the directory's lock, and does in Kafka's order: epochs are written before batches of them; a truncation takes segments from the
end, then cuts the last one, then the table; cleaned segments come as `.cleaned`, `.swap`, and then in the place of others. Nothing below a
high watermark is ever truncated. Prints a line when it is at work, and goes on until it is killed.
"""

from __future__ import annotations

import fcntl
import random
import shutil
import struct
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

from tests.formats import kafka_files as kf

SEGMENT_BYTES = 4_000
_TEMPLATE = kf.batch(0, 0, deltas=(0, 1, 2), value=b"v" * 60)
_RECORDS = 3


def stamped(base: int, epoch: int) -> bytes:
    """A batch of three records; the CRC covers neither of the two."""
    made = bytearray(_TEMPLATE)
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">i", made, 12, epoch)
    return bytes(made)


class Replica:
    """One replica directory."""

    def __init__(self, log_dir: Path, name: str, chance: random.Random, *, compacts: bool, preallocates: bool) -> None:
        self.log_dir, self.name, self.chance = log_dir, name, chance
        self.compacts, self.preallocates = compacts, preallocates
        self.create()

    def create(self) -> None:
        """Begin with an empty log."""
        self.path = self.log_dir / self.name
        self.path.mkdir()
        self.segments: list[list[tuple[int, int]]] = [[]]  # (base offset, epoch) of the batches
        self.bases = [0]
        self.sizes = [0]
        self.epoch, self.epochs = 0, [(0, 0)]
        self.high_watermark = 0
        (self.path / "partition.metadata").write_text(f"version: 0\ntopic_id: {kf.TOPIC_ID}")
        self.write_epochs()
        self.open_segment()

    @property
    def end(self) -> int:
        """The log end offset."""
        filled = [segment for segment in self.segments if segment]
        return max(filled[-1][-1][0] + _RECORDS if filled else 0, self.bases[-1])

    def file(self, number: int, suffix: str = "") -> Path:
        """A segment's file."""
        return self.path / f"{self.bases[number]:020d}.log{suffix}"

    def open_segment(self) -> None:
        """Make the newest segment's file."""
        with self.file(-1).open("wb") as stream:
            if self.preallocates:
                stream.truncate(3 * SEGMENT_BYTES)

    def write_epochs(self) -> None:
        """As LeaderEpochCheckpointFile does."""
        temporary = self.path / "leader-epoch-checkpoint.tmp"
        temporary.write_text("\n".join(["0", str(len(self.epochs)), *(f"{epoch} {start}" for epoch, start in self.epochs), ""]))
        temporary.rename(self.path / "leader-epoch-checkpoint")

    def append(self) -> None:
        """A batch, now and then in two writes."""
        if self.sizes[-1] >= SEGMENT_BYTES:
            self.roll()
        base = self.end
        made = stamped(base, self.epoch)
        with self.file(-1).open("r+b") as stream:
            stream.seek(self.sizes[-1])
            if self.chance.random() < 0.3:
                stream.write(made[:70])
                stream.flush()
                time.sleep(0.001)
                stream.write(made[70:])
            else:
                stream.write(made)
        self.segments[-1].append((base, self.epoch))
        self.sizes[-1] += len(made)
        self.high_watermark = max(self.high_watermark, self.end - 30)

    def roll(self) -> None:
        """Cut off what was made in advance, and begin a segment."""
        with self.file(-1).open("r+b") as stream:
            stream.truncate(self.sizes[-1])
        end = self.end
        self.segments.append([])
        self.bases.append(end)
        self.sizes.append(0)
        self.open_segment()

    def elect(self) -> None:
        """A new epoch begins at the log end."""
        self.epoch += 1
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end] + [(self.epoch, self.end)]
        self.write_epochs()

    def delete_oldest(self) -> None:
        """Retention."""
        if len(self.segments) < 4:
            return
        self.file(0).rename(self.file(0, ".deleted"))
        self.file(0, ".deleted").unlink()
        del self.segments[0], self.bases[0], self.sizes[0]
        start = self.bases[0]
        below = [entry for entry in self.epochs if entry[1] <= start]
        self.epochs = [(below[-1][0], start)] * bool(below) + [entry for entry in self.epochs if entry[1] > start]
        self.write_epochs()

    def truncate(self) -> None:
        """To a batch between the high watermark and the log end; then another epoch."""
        batches = [base for segment in self.segments for base, _epoch in segment if base > self.high_watermark]
        if not batches:
            return
        to = self.chance.choice(batches)
        while self.bases[-1] >= to and len(self.bases) > 1:
            self.file(-1).rename(self.file(-1, ".deleted"))
            self.file(-1, ".deleted").unlink()
            del self.segments[-1], self.bases[-1], self.sizes[-1]
        self.segments[-1] = [batch for batch in self.segments[-1] if batch[0] < to]
        self.sizes[-1] = len(_TEMPLATE) * len(self.segments[-1])
        with self.file(-1).open("r+b") as stream:
            stream.truncate(self.sizes[-1])
        self.epochs = [entry for entry in self.epochs if entry[1] < to]
        self.write_epochs()
        self.elect()

    def clean(self) -> None:
        """Two segments become one, without some of their batches."""
        if not self.compacts or len(self.segments) < 4:
            return
        kept = [batch for segment in self.segments[:2] for batch in segment if self.chance.random() < 0.8] or self.segments[1][-1:]
        self.file(0, ".cleaned").write_bytes(b"".join(stamped(*batch) for batch in kept))
        self.file(0, ".cleaned").rename(self.file(0, ".swap"))
        for number in (1, 0):
            self.file(number).rename(self.file(number, ".deleted"))
        self.file(0, ".swap").rename(self.file(0))
        for number in (1, 0):
            self.file(number, ".deleted").unlink()
        self.segments[0] = kept
        self.sizes[0] = len(_TEMPLATE) * len(kept)
        del self.segments[1], self.bases[1], self.sizes[1]

    def delete(self) -> None:
        """The topic is deleted and created again."""
        gone = self.log_dir / f"{self.name}.{uuid.uuid4().hex}-delete"
        self.path.rename(gone)
        self.create()
        time.sleep(0.005)
        shutil.rmtree(gone)


def write_offsets(log_dir: Path, name: str, offsets: dict[str, int]) -> None:
    """An offset checkpoint as OffsetCheckpointFile writes it."""
    lines = [f"{replica.rpartition('-')[0]} {replica.rpartition('-')[2]} {offset}" for replica, offset in offsets.items()]
    temporary = log_dir / f"{name}.tmp"
    temporary.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    temporary.rename(log_dir / name)


def main(log_dir: Path, seed: int) -> None:
    """Work."""
    chance = random.Random(seed)  # noqa: S311
    (log_dir / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={kf.CLUSTER_ID}\n")
    lock = (log_dir / ".lock").open("w")
    fcntl.lockf(lock, fcntl.LOCK_EX)
    kinds = {"plain-0": {}, "plain-1": {"preallocates": True}, "cleaned-0": {"compacts": True}, "made-again-0": {}}
    replicas = [Replica(log_dir, name, chance, **{"compacts": False, "preallocates": False, **kind}) for name, kind in kinds.items()]
    write_offsets(log_dir, "cleaner-offset-checkpoint", {"cleaned-0": 0})
    said = False
    for step in range(1 << 60):
        begin = time.monotonic()
        replica = chance.choice(replicas)
        for _batch in range(chance.randrange(1, 8)):
            replica.append()
        while len(replica.segments) > 12:
            replica.delete_oldest()
        if step % 7 == 0:
            chance.choice([replica.delete_oldest, replica.delete_oldest, replica.elect, replica.clean, replica.clean])()
        if step % 40 == 0:
            replica.truncate()
        if step % 150 == 149:
            replicas[-1].delete()
        if step % 20 == 0:
            write_offsets(log_dir, "replication-offset-checkpoint", {one.name: one.high_watermark for one in replicas})
            cleaned = next(one for one in replicas if one.compacts)
            write_offsets(log_dir, "cleaner-offset-checkpoint", {cleaned.name: cleaned.bases[-1]})
        if step > 300 and not said:
            print("at work", flush=True)  # noqa: T201
            said = True
        if said:
            # on a machine that has much to do, a broker is slow like everything else
            time.sleep(max(0.004, 2 * (time.monotonic() - begin)))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]), int(sys.argv[2]))
