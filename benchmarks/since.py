"""Time `collect --since` of a log directory of which 1 % changed against the first collection of it, whole processes; prints ratios.

Segments are sparse: each batch has a header, and a record of zeros that takes no place on the disk. The first collection then reads as fast
as memory is, which makes it harder to be much faster than it. Files are made in a temporary directory and removed.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
import time
from pathlib import Path

import crc32c
from collect import JOB, META, run
from scan import Time as Taken
from scan import in_bytes, machine, shown

BATCH = 1 << 20
AT_REST_S = 2.5  # a segment that was written less than 2 s before it is read is read once more
NEWEST_BATCHES = 1


def main(arguments: list[str]) -> int:
    """Run the benchmark; the exit code, 1 if a goal is not reached."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="replica-audit-benchmark-", dir=options.directory) as folder:
        data, output = Path(folder) / "data-0", Path(folder) / "collected"
        sealed = write(data, options)
        size = sum(path.stat().st_size for path in data.rglob("*.log"))
        held = f"{shown(size)} in {len(sealed)} sealed segments of {shown(options.segment)}, {options.partitions} replicas"
        sys.stdout.write(f"{machine()}\n{held}\n")
        time.sleep(AT_REST_S)
        first = collected("first", data, output)
        changed = sealed[:: options.one_in]
        for path in changed:
            rewrite(path)
        time.sleep(AT_REST_S)
        sys.stdout.write(f"changed: {len(changed)} segment(s), {len(changed) / len(sealed):.2%}\n")
        second = collected("second", data, output)
        third = collected("nothing changed", data, output)
    for name, (taken, count) in {"second": second, "nothing changed": third}.items():
        times = f"time {taken.wall / first[0].wall:.2%}, processor {taken.cpu / first[0].cpu:.2%}"
        sys.stdout.write(f"{name} / first: bytes {count / first[1]:.2%}, {times}\n")
    return int(second[1] > 0.02 * first[1] or second[0].wall > 0.05 * first[0].wall)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="benchmarks/since.py", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--size", type=in_bytes, default="64GiB", help="of all segments")
    made.add_argument("--segment", type=in_bytes, default="64MiB", help="of each segment")
    made.add_argument("--partitions", type=int, default=16, help="replicas that share the segments")
    made.add_argument("--one-in", type=int, default=100, help="of so many segments one changes")
    made.add_argument("--directory", type=Path, help="where files are made, on a file system that knows holes")
    return made


def write(data: Path, options: argparse.Namespace) -> list[Path]:
    """Write the log directory; the segments that are sealed. Each replica's newest segment has one batch."""
    data.mkdir()
    (data / "meta.properties").write_text(META)
    sealed = []
    batches, each = options.segment // BATCH, max(1, options.size // options.segment // options.partitions)
    for partition in range(options.partitions):
        replica = data / f"orders-{partition}"
        replica.mkdir()
        for number in range(each):
            sealed.append(write_segment(replica, number * batches, batches))
        write_segment(replica, each * batches, NEWEST_BATCHES)
    return sealed


def write_segment(replica: Path, base_offset: int, batches: int) -> Path:
    """Write a segment of batches of BATCH bytes with one record each."""
    path = replica / f"{base_offset:020d}.log"
    with path.open("wb") as stream:
        stream.truncate(batches * BATCH)
        for number in range(batches):
            stream.seek(number * BATCH)
            stream.write(struct.pack(">qiib", base_offset + number, BATCH - 12, 0, 2) + CRC + HEAD)
    return path


def rewrite(path: Path) -> None:
    """Put another file with the same batches in the place of a segment, as the cleaner does."""
    made = write_segment(path.parent, int(path.stem) + 1, path.stat().st_size // BATCH)
    content = made.with_suffix(".cleaned")
    made.rename(content)
    with content.open("r+b") as stream:
        for number in range(path.stat().st_size // BATCH):
            stream.seek(number * BATCH)
            stream.write(struct.pack(">q", int(path.stem) + number))
    content.rename(path)


def collected(name: str, data: Path, output: Path) -> tuple[Taken, int]:
    """Collect; what it took, and the bytes that it says it read."""
    command = [sys.executable, str(JOB), "--log-dir", str(data), "--output", str(output), "--replace", "--since", str(output)]
    taken = run(command).taken
    manifest = json.loads((output / "broker-1" / "manifest.json").read_text())
    counts = manifest["counts"]
    sys.stdout.write(
        f"{name:<16}{taken.wall:>9.2f} s{taken.cpu:>9.2f} s cpu{counts['bytes_read'] / 1e6:>12.1f} MB read; "
        f"{counts['segments_taken_over']} segments taken over, read: {manifest['read_because']}\n"
    )
    sys.stdout.flush()
    return taken, counts["bytes_read"]


# a varint takes up to five bytes: the length of the record, and in it that of its value
def _varint(number: int) -> bytes:
    left, made = number << 1 ^ number >> 63, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*made, left))


_VALUE = BATCH - 61 - 4 - 7  # what the header of the batch, the record's length and its other fields leave
_FIELDS = b"\x00" + _varint(0) + _varint(0) + _varint(-1) + _varint(_VALUE)
_RECORD = _varint(len(_FIELDS) + _VALUE + 1) + _FIELDS
HEAD = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1) + _RECORD
CRC = struct.pack(">I", crc32c.crc32c(HEAD + bytes(BATCH - 21 - len(HEAD))))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
