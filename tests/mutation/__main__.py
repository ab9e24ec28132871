"""The long run: `PYTHONPATH=lib .venv/bin/python -m tests.mutation --total 1000000 --seed 1`. Ends with 1 if anything was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.formats.segment_readers import native_code_for_tests
from tests.mutation.readers import readers
from tests.mutation.run import bounded_memory, run


def main() -> int:
    """Run it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--total", type=int, default=100_000, help="mutations over all readers, by their weights")
    arguments.add_argument("--seed", type=int, default=0, help="of the first mutation; the others count up")
    arguments.add_argument("--reader", action="append", help="only these")
    given = arguments.parse_args()
    native_code_for_tests()
    chosen = [(name, reader) for name, reader in readers() if not given.reader or name in given.reader]
    whole = sum(reader.weight for _name, reader in chosen)
    failed = total = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder, bounded_memory():  # noqa: S108
        for place, (name, reader) in enumerate(chosen):
            count = -(-given.total * reader.weight // whole)
            before = time.process_time()
            tally = run(reader, Path(folder) / str(place), range(given.seed, given.seed + count))
            seconds = time.process_time() - before
            total += tally.runs
            failed += sum(tally.kinds.values())
            found = f"{tally.runs:>8} mutations of {len(reader.samples):>3} files, {tally.told:>8} told, "
            found += f"{seconds:7.1f} s, slowest {tally.slowest:.2f} s"
            print(f"{name:<34}{found}, failures {sum(tally.kinds.values())} {dict(tally.kinds) or ''}", flush=True)  # noqa: T201
            for seed, wrong in tally.failures[:5]:
                print(f"    --reader '{name}' --seed {seed} --total 1: {wrong}", flush=True)  # noqa: T201
    print(f"{total} mutations, {failed} failures, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    return 1 if failed else 0


sys.exit(main())
