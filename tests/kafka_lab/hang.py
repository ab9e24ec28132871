"""`hanging`: transactions are made to hang, and the audit's table is held against the brokers and their tools; then its lines end them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kafka.errors import KafkaError

from replica_audit.collect import CollectRequest, collect
from tests.kafka_lab.cluster import Lab, LabError, wait_until
from tests.kafka_lab.console import say
from tests.kafka_lab.hanging import Led, Living, led, living, open_on
from tests.kafka_lab.history import History, draw
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.late import write_late
from tests.kafka_lab.open_rows import Compared, commands, compare
from tests.kafka_lab.perform import come_back, perform
from tests.kafka_lab.snapshot import copy_all
from tests.support import in_process

# as brokers before 3.6: a batch that comes late, when its transaction is complete, begins another one that nobody ends (KAFKA-14402)
_OVERRIDES = {"transaction.partition.verification.enable": "false"}
_AGE_MS = 3_600_000  # of the records of every other producer, so that find-hanging tells them by itself
_SETTLED_S = 11.0  # what a coordinator wrote less than 10 s before a copy may be newer than it: clocks differ
_ROUNDS = 8  # of a partition where several hang one line is printed


@dataclass(slots=True)
class Hung:
    """Sums; `moments` are the states in which everything was asked and audited, each by copies and by collections."""

    runs: int = 0
    failed: int = 0
    moments: int = 0
    late: int = 0
    aborted: int = 0
    moved: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, one: Compared) -> None:
        """Count a comparison."""
        self.counts += one.counts
        self.wrong += one.wrong

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return (
            f"{self.runs} runs ({self.failed} more could not be performed), {self.moments} audits: {len(self.wrong)} differences; "
            f"{self.late} batches written late; {counts}; {self.aborted} ended by the lines that were printed, "
            f"{self.moved} last stable offsets moved on"
        )


def hanging(line: str, *, seed: int, runs: int, partitions: int, keep: Path | None) -> Hung:
    """Several histories, each in a laboratory of its own; every difference and a line a run are printed."""
    total = Hung()
    for number in range(seed, seed + runs):
        began, history, before = time.monotonic(), draw(number, partitions), len(total.wrong)
        try:
            with Lab(line, overrides=_OVERRIDES) as lab, JavaClient(lab) as java:
                hang_in(lab, java, history, total, keep and keep / f"kafka-{line}-hanging-{number}")
        except (LabError, KafkaError, OSError) as error:
            total.failed += 1
            say(f"{history} - could not be performed: {error}")
            continue
        total.runs += 1
        say(f"{history} - {len(total.wrong) - before} differences, {time.monotonic() - began:.0f} s")
        for text in total.wrong[before:]:
            say(f"  {text}")
    say(f"Kafka {VERSIONS[line]}, seeds {seed} to {seed + runs - 1}: {total}")
    return total


def hang_in(lab: Lab, java: JavaClient, history: History, total: Hung, keep: Path | None = None) -> None:
    """One history in a laboratory whose brokers all run: while one broker leads alone, when all are back, and when what hung is ended."""
    transacting = perform(lab, java, history, age_ms=_AGE_MS)
    total.counts += transacting.done
    _checked(lab, java, total, "alone", keep)
    known = lab.partitions(*(topic.name for topic in history.topics))
    for broker in lab.brokers.values():
        come_back(lab, broker)
    lab.wait_back_in_sync(history.steps[-1].alone, known)
    total.late += len(write_late(lab, java, _AGE_MS))
    said, lines = _checked(lab, java, total, "in sync", keep)
    for number in range(_ROUNDS):
        if not lines:
            break
        _end(lab, java, total, said, lines)
        said, lines = _checked(lab, java, total, f"ended {number}", keep)
    if lines:
        total.wrong.append(f"there are still lines to run: {lines}")


def _checked(lab: Lab, java: JavaClient, total: Hung, moment: str, keep: Path | None) -> tuple[Living, list[list[str]]]:
    """Compare, by copies and by collections. Returns what the brokers said, and the lines that end what hangs."""
    root = Path(tempfile.mkdtemp(prefix="hang-", dir=lab.root))
    copies, collections = root / "copies", root / "collections"

    def copy() -> None:
        for folder in (copies, collections):
            shutil.rmtree(folder, ignore_errors=True)
        copy_all(lab, copies)
        for node in lab.brokers.values():
            collect(CollectRequest(output=collections, log_dirs=tuple(node.log_dirs)), lambda _line: None)

    time.sleep(_SETTLED_S)
    said = living(lab, java, copy)
    found = Compared()
    for folder, tells_time in ((copies, False), (collections, True)):
        tables = in_process.audit(folder)
        one = compare(tables, said, tells_time=tells_time)
        found += Compared(
            Counter({f"{folder.name}: {what}": count for what, count in one.counts.items()}),
            [f"{moment}, {folder.name}: {text}" for text in one.wrong],
        )
        total.moments += 1
    if keep and found.wrong:
        shutil.rmtree(keep / moment, ignore_errors=True)
        shutil.copytree(root, keep / moment)
        said.write(keep / moment / "transactions.json")
        (keep / moment / "differences.txt").write_text("\n".join([*found.wrong, ""]))
    total.add(found)
    return said, commands(_report(collections)) if moment != "alone" else []


def _report(root: Path) -> str:
    """What the command prints."""
    command = [sys.executable, "-c", "import sys; from replica_audit.cli import main; sys.exit(main(sys.argv[1:]))"]
    return subprocess.run([*command, "triage", "--input", str(root)], capture_output=True, text=True, check=False).stdout


def _end(lab: Lab, java: JavaClient, total: Hung, said: Living, lines: list[list[str]]) -> None:
    """Run each line as it was printed. The transaction is not open any more then, and consumers get to the next one, or to the end."""
    for words in lines:
        place, offset = (words[2], int(words[4])), int(words[6])
        (leads,) = [one for one in said.led if (one.topic, one.partition) == place]
        java.transactions_tool(lab.brokers[leads.leader_id], *words)

        left = wait_until(f"what hung in {place} from {offset} on is ended", partial(_others, lab, leads, offset))[0]
        (now,) = [one for one in led(lab) if (one.topic, one.partition) == place]
        total.aborted += 1
        total.moved += now.last_stable_offset > leads.last_stable_offset
        if max(now.start_offset, now.last_stable_offset) != max(now.start_offset, min(left, default=now.end_offset)):
            total.wrong.append(f"{' '.join(words)}: consumers get to {now.last_stable_offset} of {now.end_offset}, open are {sorted(left)}")


def _others(lab: Lab, leads: Led, offset: int) -> tuple[set[int]] | None:
    """The first offsets of what is open in a partition beside that of an offset; None if that is still open."""
    at = (leads.topic, leads.partition, leads.leader_id)
    found = {one.open.start_offset for one in open_on(lab) if (*one.open[:2], one.broker_id) == at}
    return None if offset in found else (found,)
