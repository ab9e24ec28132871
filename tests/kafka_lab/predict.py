"""`predict`: random histories, audited while the replicas are diverged, then performed by the brokers."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError

from replica_audit.config import Settings
from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.console import say
from tests.kafka_lab.files import replica_directories
from tests.kafka_lab.hanging import copy_and_ask
from tests.kafka_lab.history import History, draw
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.keys import newest
from tests.kafka_lab.node import Node
from tests.kafka_lab.perform import come_back, perform
from tests.kafka_lab.predicted import Comparison, Key, compare, lines_of, performed
from tests.kafka_lab.records import batches_of
from tests.support import in_process

Tables = dict[str, list[dict[str, Any]]]
# A broker that was killed before it wrote down its log start has a table that begins above it, for good: a warning, and true.
_SOUND = {"identical", "lagging", "epoch_table_only"}


@dataclass(slots=True)
class Totals:
    """Sums over runs."""

    runs: int = 0
    failed: int = 0
    partitions: int = 0
    followers: int = 0
    differences: int = 0
    cuts: Counter[int] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)

    def add(self, one: Comparison) -> None:
        """Count a run."""
        self.runs += 1
        self.partitions += len(one.partitions)
        self.followers += one.followers
        self.differences += len(one.differences)
        self.cuts += one.cuts
        self.verdicts += one.verdicts
        self.transactions += one.transactions

    def __str__(self) -> str:
        rounds = ", ".join(f"{count} in {rounds} rounds" for rounds, count in sorted(self.cuts.items()) if rounds)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.most_common())
        transactions = ", ".join(f"{count} {what}" for what, count in self.transactions.most_common())
        return (
            f"{self.runs} runs ({self.failed} more could not be performed), {self.partitions} partitions, {self.followers} followers: "
            f"{self.differences} differences "
            f"({sum(self.cuts.values()) - self.cuts[0]} truncated: {rounds or 'none'}; {verdicts}); transactions: {transactions}"
        )


def predict_one(line: str, seed: int, partitions: int, *, keep: Path | None = None) -> Comparison:
    """One history in a laboratory of its own; with `keep`, what differed is kept below that folder."""
    history = draw(seed, partitions)
    with Lab(line) as lab:
        return predict_in(lab, history, keep=keep)


def predict_in(lab: Lab, history: History, *, keep: Path | None = None) -> Comparison:
    """One history in a laboratory where all brokers run and none of its topics exists."""
    with JavaClient(lab) as java:
        return _predict_in(lab, java, history, keep)


def _predict_in(lab: Lab, java: JavaClient, history: History, keep: Path | None) -> Comparison:
    work = Path(tempfile.mkdtemp(prefix="predict-", dir=lab.root))
    transacting = perform(lab, java, history)
    leader = history.steps[-1].alone
    before_root, after_root = work / "before", work / "after"
    said = copy_and_ask(lab, java, before_root)
    logs = {broker.node_id: broker.log.stat().st_size for broker in lab.brokers.values()}
    before = in_process.audit(before_root, settings=Settings(detail="all"))  # also of pairs that are proven healthy
    known = lab.partitions(*(topic.name for topic in history.topics))
    for broker in lab.brokers.values():
        come_back(lab, broker)
    fails = {
        (row["topic"], row["partition"], row["follower_id"])
        for row in before["truncation_points"]
        if row["applies"] and row["fetcher_fails"]
    }
    try:
        lab.wait_back_in_sync(leader, known, fails)
    except LabError as error:  # a fetcher that fails where none was to: told with the rest
        late = [f"{error}: {lab.partitions(*(topic.name for topic in history.topics))}"]
    else:
        late = []
    time.sleep(1.5)  # what brokers write late: checkpoints, and the files of the last fetch
    copy_and_ask(lab, java, after_root)
    did = performed(event for broker in lab.brokers.values() for event in lines_of(broker.log, broker.node_id, logs[broker.node_id]))
    compacted = [topic.name for topic in history.topics if topic.is_compacted]
    result = compare(before, did, (before_root, after_root), leader, compacted)
    result.transactions += transacting.done + said.counts()
    result.differences += late
    result.differences += _not_clean(in_process.audit(after_root), before, fails, (before_root, after_root))
    result.differences += [f"an event of the leader: {key}" for key, what in did.items() if key[2] == leader and what.cuts]
    if result.differences and keep:
        _keep(lab, work, keep / f"kafka-{lab.line}-seed-{history.seed}", result, history)
    return result


def _not_clean(after: Tables, before: Tables, fails: set[Key], roots: tuple[Path, Path]) -> list[str]:
    """What the audit finds afterwards, but for what has to stay.

    That is what it foretold (a hole that a cut into a batch leaves, other batches below), and keys whose newest record a cut removed after
    the cleaner had removed the older one.
    """
    was, became = map(replica_directories, roots)
    cuts = {_key(row): row["truncation_offset"] for row in before["truncation_points"] if row["applies"]}
    stays = {key: _surviving(row) for key, row in _by_follower(before).items() if row["verdict"] == "log_matching_violation"}
    return [
        f"{row['topic']}-{row['partition']} on broker {row['follower_id']}: afterwards the audit says {row['verdict']}: {row['reason']}"
        for key, row in _by_follower(after).items()
        for leads in [(*key[:2], row["leader_id"])]
        if row["verdict"] not in _SOUND
        and key not in fails
        and not (row["verdict"] == "log_matching_violation" and any(_surviving(row)) and _surviving(row) == stays.get(key))
        and not (
            row["verdict"] == "compaction_differs" and _keys(row) == _keys_of_a_cut(was[key], cuts.get(key), became[key], became[leads])
        )
    ]


def _keys_of_a_cut(was: Path, cut: int | None, became: Path, leads: Path) -> int:
    """How many keys a follower lacks that its leader has; 0 unless newer records of all of them were in the tail that it cut off."""
    if cut is None:
        return 0
    held = newest(batches_of(became))
    missing = {key for key, one in newest(batches_of(leads)).items() if one.value is not None and key not in held}
    tail = {record.key for batch in batches_of(was) for record in batch.records if batch.base + record.delta >= cut}
    return len(missing) if missing <= tail else 0


def _keys(row: dict[str, Any]) -> int:
    return sum(one["keys"] for one in row["differing_keys"])


def _by_follower(tables: Tables) -> dict[Key, dict[str, Any]]:
    return {_key(row): row for row in tables["replica_verdicts"]}


def _key(row: dict[str, Any]) -> Key:
    return row["topic"], row["partition"], row["follower_id"]


def _surviving(row: dict[str, Any]) -> tuple[tuple[int, int] | None, list[dict[str, Any]]]:
    hole = row["hole"]
    return (hole["first_offset"], hole["end_offset"]) if hole else None, row["conflicts"]


def _keep(lab: Lab, work: Path, folder: Path, result: Comparison, history: History) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work, folder)
    nodes: list[Node] = [lab.controller, *lab.brokers.values()]
    for node in nodes:
        shutil.copy(node.log, folder / f"{node.folder.name}.server.log")
    (folder / "differences.txt").write_text("\n".join([str(history), *result.differences, ""]))


def predict(line: str, *, seed: int, runs: int, partitions: int, keep: Path | None) -> Totals:
    """Several histories, each in a laboratory of its own; every difference and a line a run are printed."""
    totals = Totals()
    for number in range(seed, seed + runs):
        began = time.monotonic()
        try:
            result = predict_one(line, number, partitions, keep=keep)
        except (LabError, KafkaError) as error:
            totals.failed += 1
            say(f"{draw(number, partitions)} - could not be performed: {error}")
            continue
        totals.add(result)
        say(f"{draw(number, partitions)} - {len(result.differences)} differences, {time.monotonic() - began:.0f} s")
        for difference in result.differences:
            say(f"  {difference}")
    say(f"Kafka {VERSIONS[line]}, seeds {seed} to {seed + runs - 1}: {totals}")
    return totals
