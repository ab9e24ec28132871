"""One mutation of one reader, judged; and many of them."""

from __future__ import annotations

import random
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.mutation.mutators import mutated
from tests.mutation.reading import Outcome, Reader

SLOW = 2.0  # seconds of computing that no input of this size may take
HUNG = 20  # seconds of computing after which a reader is interrupted
MORE_MEMORY = 1 << 30  # bytes than the process has at its beginning


class HangError(Exception):
    """A reader did not end."""


@dataclass(slots=True)
class Tally:
    """What came of a reader's mutations. `failures` are (seed, what happened)."""

    runs: int = 0
    told: int = 0
    whole: int = 0
    slowest: float = 0.0
    failures: list[tuple[int, str]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def judge(reader: Reader, folder: Path, seed: int) -> tuple[str | None, bool, float]:
    """One mutation.

    Returns:
        What is wrong, None if nothing; whether a problem was told; seconds of computing.
    """
    rng = random.Random(seed)  # noqa: S311 - to be repeated
    number = rng.randrange(len(reader.samples))
    clean = reader.samples[number]
    content, sound = mutated(rng, clean, reader.samples, reader.mutators)
    began = time.process_time()
    try:
        found = _read(reader, folder, content)
        seconds = time.process_time() - began
        expected = _expected(reader, folder, number, sound)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {error} at {_place(error)}"[:400], False, time.process_time() - began
    if seconds > SLOW:
        return f"took {seconds:.1f} s for {len(content)} bytes", found.told, seconds
    if not found.told and not reader.covers(found.items, expected):
        return f"lost what stands before byte {sound}, of {len(clean)}, without a word", False, seconds
    return None, found.told, seconds


def _read(reader: Reader, folder: Path, content: bytes) -> Outcome:
    path = folder / reader.name
    path.write_bytes(content)
    with interrupted():
        return reader.read(path, content)


def _expected(reader: Reader, folder: Path, number: int, sound: int) -> list[object]:
    """What is there before the damage: what the whole file gives, as far as its sound beginning alone gives it, too."""
    if "clean" not in reader.known:
        reader.known["clean"] = {}
    clean = reader.known["clean"].setdefault(number, None)
    if clean is None:
        clean = reader.known["clean"][number] = _read(reader, folder, reader.samples[number])
    if reader.ends is not None:
        ends = reader.ends(reader.samples[number], clean.items) if clean.items else []
        return [item for item, end in zip(clean.items, ends, strict=True) if end <= sound]
    before = reader.samples[number][:sound]
    beginning = _read(reader, folder, before[: before.rfind(b"\n") + 1] if reader.by_lines else before).items
    if clean.told and not clean.items:
        return []
    return [one for one, other in zip(beginning, clean.items, strict=False) if one == other]


def _place(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "replica_audit" in frame.filename]
    frame = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


@contextmanager
def interrupted() -> Iterator[None]:
    """An end for what does not end."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise HangError(f"no end after {HUNG} s of computing")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HUNG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """No more than MORE_MEMORY beyond what there is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(reader: Reader, folder: Path, seeds: range) -> Tally:
    """Many mutations of one reader."""
    tally = Tally()
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(Exception):  # what is compiled at its first use takes seconds, once
        _read(reader, folder, reader.samples[0])
    for seed in seeds:
        wrong, told, seconds = judge(reader, folder, seed)
        tally.runs += 1
        tally.told += told
        tally.slowest = max(tally.slowest, seconds)
        if wrong is not None:
            tally.kinds[wrong.partition(":")[0] if " at " not in wrong else wrong.rpartition(" at ")[2]] += 1
            if len(tally.failures) < 20:
                tally.failures.append((seed, wrong))
    return tally
