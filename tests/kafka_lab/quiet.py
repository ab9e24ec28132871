"""`quiet`: a healthy, busy cluster is copied broker after broker, and no audit of the copies may find anything but what is planted.

A stale tail is held against the broker itself: one that was being restarted may have it, and then logs that it cut it.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

from replica_audit.collect import CollectRequest, collect
from replica_audit.config import Settings
from replica_audit.protocol.comparison.observed import EventKind
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.starts import StartOutcome
from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.console import say
from tests.kafka_lab.found import Tables, by_follower, not_found
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.load import delete_topics
from tests.kafka_lab.node import Node, State
from tests.kafka_lab.planted import plant, plant_beyond
from tests.kafka_lab.planted_records import Kind, Planted
from tests.kafka_lab.planted_records import plant as plant_records
from tests.kafka_lab.predicted import lines_of
from tests.kafka_lab.quiet_sums import Quiet
from tests.kafka_lab.snapshot import copy_node
from tests.kafka_lab.workload import COMPACTED, TOPICS, Mover, Workload
from tests.support import in_process

Row = dict[str, Any]
_SERIOUS = {"error", "critical"}
_AT_ONCE = "collections at once"
_WAYS = ("copies", "collections", "copies and collections", _AT_ONCE)
_PLANT_EVERY = 5
PAUSE_S = 0.3
_PAUSES_S = (0.0, 0.02, 0.08)  # before each file of a broker, on average: there are about 200
_IN_A_RESTART = 0.3  # how often the files of a broker are copied while it restarts
_STARTS = re.compile(r"UnifiedLog partition=(\S+)-(\d+), .*Incremented log start offset to (\d+) ")
_SOUND = ("identical", "lagging")
_AUDIT_MS = 30_000  # within which what is planted is audited, or it does not count: what may be gone by then depends on it
_NOT_WHOLE = "not all batches could be compared"  # of two logs that do not reach equally far only so many are
_ROLLS = {"log.roll.ms": 15_000}  # of internal topics, too: what is compacted stays small, and the last audit takes as long as the first
Mode = Literal["content", "records"]


def quiet(line: str, *, audits: int, seed: int, keep: Path | None, mode: Mode, pause_s: float) -> Quiet:
    """Audits of a cluster at work, in a laboratory of its own; every alarm and the sums are printed."""
    with Lab(line, overrides=_ROLLS) as lab:
        result = quiet_in(lab, audits=audits, seed=seed, keep=keep, mode=mode, pause_s=pause_s)
    say(f"Kafka {VERSIONS[line]}, seed {seed}: {result}")
    return result


def quiet_in(
    lab: Lab,
    *,
    audits: int,
    seed: int,
    keep: Path | None = None,
    warm_up_s: float = 10.0,
    mode: Mode = "records",
    pause_s: float = PAUSE_S,
) -> Quiet:
    """Audits of a laboratory at work, whose brokers all run; `pause_s` passes between two moves of leaders, replicas or brokers."""
    result, mover = Quiet(), Mover(lab, seed)
    with Workload(lab, seed) as load, ThreadPoolExecutor(1) as auditor:
        time.sleep(warm_up_s)
        stopped = threading.Event()
        auditing = auditor.submit(_audits, lab, mover, result, audits, random.Random(seed), mode, keep, stopped)  # noqa: S311
        auditing.add_done_callback(lambda _audits: stopped.set())
        try:
            while not auditing.done():  # brokers end with the thread that starts them, so that has to be this one
                mover.move()
                _rest(mover, stopped, pause_s)
        except KeyboardInterrupt:
            say("it ends with the audit that is under way")
        finally:
            stopped.set()
        auditing.result()
    _settle(lab, result)
    delete_topics(lab, *TOPICS)
    ended = ", ".join(f"{count} {end}" for end, count in load.transactions.most_common())
    say(
        f"{load.records} records; transactions of Kafka's own client: {ended}; moves: {mover.done}; "
        f"client errors that were tried again: {len(load.errors)}"
    )
    return result


def _audits(
    lab: Lab, mover: Mover, result: Quiet, audits: int, chance: random.Random, mode: Mode, keep: Path | None, stopped: threading.Event
) -> None:
    for number in range(audits):
        if stopped.is_set():
            return
        root = Path(tempfile.mkdtemp(prefix="copy-", dir=lab.root))
        way = chance.choice(_WAYS)
        _copy(lab, mover, root, way, chance)
        tables = _audit(root, result, number, way, keep, mode)
        say(f"audit {number + 1} of {audits}: {dict(result.verdicts)}")
        if number % _PLANT_EVERY == 0 and way == "copies":
            _plant(root, result, chance)
        elif mode == "records" and way == "copies":
            _plant_records(root, tables, result, chance, keep)
        elif way == "copies and collections":
            _plant_beyond(root, tables, result, chance, mode)
        shutil.rmtree(root)


def _copy(lab: Lab, mover: Mover, root: Path, way: str, chance: random.Random) -> None:
    """Broker after broker with pauses, each as a copy of its files or by `collect`; or all at once."""
    brokers = list(lab.brokers.values())
    if way == _AT_ONCE:  # as timers on all of them do
        with ThreadPoolExecutor(len(brokers)) as pool:
            list(pool.map(partial(_collect, root=root), brokers))
        return
    for broker in chance.sample(brokers, len(brokers)):
        raw = chance.random() < 0.5 if way == "copies and collections" else way == "copies"
        if raw:
            if chance.random() < _IN_A_RESTART:
                mover.next_restart = broker.node_id
                _wait_for_its_end(broker)
            copy_node(broker, root, partial(_copy_file, pause_s=chance.choice(_PAUSES_S), chance=chance))
        else:
            _collect(broker, root)
        time.sleep(chance.uniform(0.2, 2.5))


def _rest(mover: Mover, stopped: threading.Event, pause_s: float) -> None:
    """Until the next move: a while, or until a broker is to be restarted."""
    ends = time.monotonic() + pause_s
    while mover.next_restart is None and not stopped.wait(min(0.3, pause_s)) and time.monotonic() < ends:
        pass


def _wait_for_its_end(broker: Node) -> None:
    """Until a broker has stopped, as somebody sees it who copies it in its restart; in vain where the cluster never gets in sync."""
    ends = time.monotonic() + 30
    while broker.state is not State.DOWN and time.monotonic() < ends:
        time.sleep(0.01)


def _copy_file(source: str, target: str, *, pause_s: float, chance: random.Random) -> None:
    """Copy a file after a pause, so that the files of one broker are of as many times as those of a large one are."""
    time.sleep(chance.uniform(0, 2 * pause_s))
    shutil.copy2(source, target)


def _collect(broker: Node, root: Path) -> None:
    collect(CollectRequest(output=root, log_dirs=tuple(broker.log_dirs)), lambda _line: None)


def _audit(root: Path, result: Quiet, number: int, way: str, keep: Path | None, mode: Mode) -> Tables:
    name = f"audit {number}, {way}"
    tables = in_process.audit(root, settings=Settings(compare=mode))
    rows = [row for row in tables["replica_verdicts"] if row["topic"] in TOPICS or row["topic"].startswith("__")]
    ends = {(row["topic"], row["partition"], row["broker_id"]): row["log_end_offset"] for row in tables["replica_logs"]}
    serious = [row for row in rows if row["severity"] in _SERIOUS]
    alarms = [_said(name, row) for row in serious if row["verdict"] != "stale_tail"]
    result.suspects += [
        (
            (row["topic"], row["partition"], row["follower_id"]),
            row["truncation_offset"],
            ends[row["topic"], row["partition"], row["follower_id"]],
            _said(name, row),
        )
        for row in serious
        if row["verdict"] == "stale_tail"
    ]
    alarms += [
        f"{name}: group {row['group_id']} at {row['topic']}-{row['partition']}, offset {row['committed_offset']}: {row['reason']}"
        for row in tables["consumer_impacts"]
        if row["affected"] and row["topic"] in TOPICS
    ]
    alarms += _others(name, tables, {(row["topic"], row["partition"], row["follower_id"]) for row in serious})
    result.audits += 1
    result.by_way[way].update(row["verdict"] for row in rows)
    result.bounds.update(row["bounded_by"] for row in rows if row["bounded_by"])
    result.inconclusive.update(_without_numbers(row["reason"]) for row in rows if row["verdict"] == "inconclusive")
    result.problems.update(problem["code"] for problem in (*tables["input_errors"], *tables["problems"]))
    result.alarms += alarms
    warnings = [_said(name, row) for row in rows if row["severity"] == "warning" and row["verdict"] != "inconclusive"]
    for told in (*alarms, *warnings):
        say(told)
    if (serious or alarms or warnings) and keep:
        shutil.copytree(root, keep / f"quiet-audit-{number}-{root.name}")
    return tables


def _others(name: str, tables: Tables, told: set[tuple[str, int, int]]) -> list[str]:
    """What is wrong besides verdicts: other findings, and starts that cost something; not of replicas that are told already."""
    codes = set(map(str, Verdict))
    of_partitions = [row for row in tables["found"] if row["severity"] in _SERIOUS and row["code"] not in codes]
    said = [
        f"{name}: {row['topic']}-{row['partition']} on broker {row['broker_id']}: {row['code']}: {row['summary']}" for row in of_partitions
    ]
    harmless = (StartOutcome.SAFE, StartOutcome.UNKNOWN)
    costs = [row for row in tables["replica_starts"] if row["outcome"] not in harmless]
    said += [
        f"{name}: {row['topic']}-{row['partition']} on broker {row['broker_id']}: to start is {row['outcome']}: {', '.join(row['because'])}"
        for row in costs
        if (row["topic"], row["partition"], row["broker_id"]) not in told
    ]
    known = (*TOPICS, "__")
    return [one for one in said if one.removeprefix(f"{name}: ").startswith(known)]


def _said(name: str, row: Row) -> str:
    where = f"{row['topic']}-{row['partition']} on broker {row['follower_id']}"
    return f"{name}: {where}: {row['verdict']}: {row['reason']} [{row['evidence']}]"


def _settle(lab: Lab, result: Quiet) -> None:
    """Hold each stale tail against what the broker's log says that it dropped: one that was not dropped was no tail.

    It is cut where the audit said; or, where retention has taken more from the leader by then, the whole log is dropped, from the end
    that the audit saw. Where the leader's log then starts inside of the tail the follower is not asked to cut anything.
    """
    lab.wait_in_sync()
    dropped = {
        (
            event.topic,
            event.partition,
            broker.node_id,
            event.kind,
            event.offset if event.kind is EventKind.LOG_TRUNCATION else event.log_end_offset,
        )
        for broker in lab.brokers.values()
        for event in lines_of(broker.log, broker.node_id, 0)
        if event.kind in (EventKind.LOG_TRUNCATION, EventKind.FULL_TRUNCATION)
    }
    started = {
        (topic, int(partition), int(offset))
        for broker in lab.brokers.values()
        for topic, partition, offset in _STARTS.findall(broker.said(0))
    }
    for key, cut, end, text in result.suspects:
        is_true = bool({(*key, EventKind.LOG_TRUNCATION, cut), (*key, EventKind.FULL_TRUNCATION, end)} & dropped)
        is_true = is_true or any((*key[:2], offset) in started for offset in range(cut + 1, end + 1))
        result.tails += is_true
        if not is_true:
            result.alarms.append(text)
        say(f"{'true, the broker then dropped it' if is_true else 'false'}: {text}")


def _plant(root: Path, result: Quiet, chance: random.Random) -> None:
    roles = in_process.audit(root)["replica_verdicts"]
    leaders = {(row["topic"], row["partition"]): row["leader_id"] for row in roles if row["severity"] == "none"}
    key = plant(root, leaders, chance, topics=("plain", "payments"))
    if key:
        result.planted += 1
        rows = {(row["topic"], row["partition"], row["follower_id"]): row for row in in_process.audit(root)["replica_verdicts"]}
        is_found = rows[key]["severity"] in _SERIOUS
        result.found += is_found
        if not is_found:
            say(f"not found: a batch of another epoch in {key}: {rows[key]['verdict']}: {rows[key]['reason']}")
        _hold_not_clean(rows[key], result)


def _plant_beyond(root: Path, before: Tables, result: Quiet, chance: random.Random, mode: Mode) -> None:
    """An epoch beyond the leader's copy, in a follower that is clean: it cannot be compared there, so it must not stay clean."""
    ends = {(row["topic"], row["partition"], row["broker_id"]): row["log_end_offset"] for row in before["replica_logs"]}
    consistent = {key: row["leader_id"] for key, row in by_follower(before).items() if row["verdict"] == "consistent" and key[0] in TOPICS}
    key = plant_beyond(root, {key: ends[*key[:2], leader] for key, leader in consistent.items()}, chance)
    if key:
        result.planted_beyond += 1
        _hold_not_clean(by_follower(in_process.audit(root, settings=Settings(compare=mode)))[key], result)


def _hold_not_clean(row: Row, result: Quiet) -> None:
    if row["severity"] == "none":
        result.clean_over_planted.append(_said("planted", row))
        say(f"clean over what was planted: {result.clean_over_planted[-1]}")


def _plant_records(root: Path, before: Tables, result: Quiet, chance: random.Random, keep: Path | None) -> None:
    """One difference of every kind, each in a partition of its own."""
    copied_ms, made = int(time.time() * 1000), list[Planted]()
    pairs = {
        key: row["leader_id"]
        for key, row in by_follower(before).items()
        if row["verdict"] in _SOUND and key[0] in TOPICS and _NOT_WHOLE not in row["reason"]
    }
    retention = {topic: int(str(TOPICS[topic][2]["delete_retention_ms"])) for topic in COMPACTED}
    for kind in chance.sample(list(Kind), len(Kind)):
        left = {key: leader for key, leader in pairs.items() if key[:2] not in {one.at[:2] for one in made}}
        if one := plant_records(root, left, chance, kind, retention_ms=retention, copied_ms=copied_ms, audited_ms=copied_ms + _AUDIT_MS):
            made.append(one)
    after = in_process.audit(root, settings=Settings(compare="records"))
    if time.time() * 1000 > copied_ms + _AUDIT_MS:
        say(f"what was planted does not count: it was not audited within {_AUDIT_MS / 1000:.0f} s")
        return
    missed = list(not_found(made, before, after))
    result.planted_records.update(one.kind for one in made)
    result.missed += missed
    for text in missed:
        say(f"not as planted: {text}")
    if missed and keep:
        shutil.copytree(root, keep / f"planted-{root.name}")
        (keep / f"planted-{root.name}.txt").write_text("\n".join([*missed, *map(str, made)]))


def _without_numbers(reason: str) -> str:
    return re.sub(r"\d+", "N", reason)
