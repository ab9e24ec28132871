"""Logs as people export them: whose line it is, in which order the lines were written, and what of them was not read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process

CASE = Path(__file__).resolve().parents[1] / "data" / "cases" / "three-alike"
LOG = "[UnifiedLog partition=pay-0, dir=/var/lib/kafka/data] "
CUT = LOG + "Truncating pay-0 to offset {} below high watermark {}"
Row = dict[str, Any]
Said = tuple[int | None, int, int]  # broker, truncated to, high watermark


def _line(second: int, message: str) -> str:
    return f"[2026-06-01 10:00:{second:02d},000] INFO {message} (kafka.log.UnifiedLog)"


STARTED = [(broker, _line(broker, f"[KafkaServer id={broker}] started")) for broker in (1, 2, 3)]
WRITTEN = [*STARTED, (3, _line(6, CUT.format(80, 100))), (1, _line(7, "[Partition pay-0 broker=1] Expanding ISR from 1,2 to 1,2,3"))]
UNNAMED = [(2, _line(4, "Loading logs.")), (3, _line(6, CUT.format(80, 100)))]
LAYOUTS = {
    "compose": "kafka-{}  | {}",
    "compose, coloured": "\x1b[36mkafka-{}    | \x1b[0m{}",
    "compose, two numbers": "kafka-{}-1  | {}",
    "compose, an underscore": "app_kafka{}_1  | {}",
    "swarm": "stack_kafka-{}.1.x7a@node    | {}",
    "compose with times": "kafka-{}  | 2026-06-01T08:00:00.123456789Z {}",
    "kubectl --prefix": "[pod/my-kafka-{}/kafka] {}",
    "kubectl --prefix --timestamps": "[pod/kafka-{}/kafka] 2026-06-01T08:00:00.123Z {}",
    "stern": "kafka-{} kafka {}",
    "stern of all namespaces": "prod my-cluster-kafka-{} kafka {}",
    "kubetail": "[broker-{}] {}",
    "kail": "prod/kafka-{}[kafka]: {}",
    "journald": "Jun 01 10:00:00 kafka{} kafka[771]: {}",
    "journald, ISO": "2026-06-01T10:00:00+0200 broker{} kafka[771]: {}",
    "syslog": "<14>1 2026-06-01T10:00:00.100Z broker-{} kafka 771 - - {}",
    "docker's syslog": "<30>Jun  1 10:00:00 docker/kafka-{}[88]: {}",
    "journald without times": "kafka-{} kafka[88]: {}",
    "tail of several files": "==> /var/log/broker-{}/server.log <==\n{}\n",
    "grep": "broker-{}/server.log:{}",
    "grep -n": "logs/kafka-{}.log:17:{}",
    "ansible": "kafka{}: {}",
    "JSON lines": '{{"pod_name": "kafka-{}", "log": {}}}',
    "JSON behind a name": 'kafka-{} | {{"log": {}}}',
}


def _laid_out(layout: str, written: Sequence[tuple[int, str]]) -> str:
    is_json = "JSON" in layout
    return "".join(LAYOUTS[layout].format(broker, json.dumps(line) if is_json else line) + "\n" for broker, line in written)


def _audited(root: Path, files: dict[str, str]) -> dict[str, list[Row]]:
    shutil.copytree(CASE, root)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return in_process.audit(root)


def _said(tables: dict[str, list[Row]]) -> list[Said]:
    return [(row["broker_id"], row["truncation_offset"], row["end_offset"]) for row in tables["logged_incidents"]]


def _codes(tables: dict[str, list[Row]]) -> list[tuple[str, str]]:
    return [(row["kind"], row["code"]) for row in tables["problems"]]


@pytest.mark.parametrize("place", ["all.log", "logs/all.txt", "broker-2/all.log"])
@pytest.mark.parametrize("written", [WRITTEN, UNNAMED], ids=["lines that name their broker", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_is_of_the_broker_before_it(tmp_path: Path, layout: str, written: list[tuple[int, str]], place: str) -> None:
    tables = _audited(tmp_path / "cluster", {place: _laid_out(layout, written)})
    assert _said(tables) == [(3, 80, 100)]
    assert not _codes(tables)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_count_from_where_lines_say(tmp_path: Path, layout: str) -> None:
    """Container kafka-0 is broker 1 and so on: what a line says of itself counts more than the number of a name."""
    named = [(broker - 1, line) for broker, line in WRITTEN]
    tables = _audited(tmp_path / "cluster", {"all.log": _laid_out(layout, named)})
    assert _said(tables) == [(3, 80, 100)]
    tables = _audited(tmp_path / "other", {"all.log": _laid_out(layout, [*named, (4, _line(8, CUT.format(70, 90)))])})
    assert _said(tables) == [(3, 80, 100)], "of kafka-4 no line tells which broker it is"
    assert _codes(tables) == [("server.log", "unknown-broker")]


def test_lines_of_several_brokers_without_any_names_are_told_of_nobody(tmp_path: Path) -> None:
    tables = _audited(tmp_path / "cluster", {"all.log": "\n".join(line for _, line in WRITTEN)})
    assert _said(tables) == []
    assert _codes(tables) == [("server.log", "unknown-broker")]
    assert tables["problems"][0]["line"] == 4


@pytest.mark.parametrize("layout", ["Jun 01 10:00:00 {} kafka[7]: {}", "{} | {}", '{{"host": "{}", "log": {}}}'])
def test_hosts_without_numbers_are_known_by_their_lines_alone(tmp_path: Path, layout: str) -> None:
    hosts = {1: "alpha", 2: "beta", 3: "gamma"}
    for name, written, expected in (("all", WRITTEN, [(3, 80, 100)]), ("one is not named", WRITTEN[:2] + WRITTEN[3:], [])):
        text = "".join(layout.format(hosts[broker], json.dumps(line) if "log" in layout else line) + "\n" for broker, line in written)
        tables = _audited(tmp_path / name, {"all.log": text})
        assert _said(tables) == expected
        assert _codes(tables) == ([] if expected else [("server.log", "unknown-broker")])


def test_a_name_that_the_folder_contradicts_is_told_of_nobody(tmp_path: Path) -> None:
    tables = _audited(tmp_path / "cluster", {"broker-2/console.log": _laid_out("compose", UNNAMED[1:])})
    assert _said(tables) == []
    assert _codes(tables) == [("server.log", "unknown-broker")]


@pytest.mark.parametrize(
    "before", ["", "kafka | ", "app-7d9f [pod/x/y] ", "Jun 01 10:00:00 ip-10-0-0-7 kafka[9]: ", "2026-06-01T08:00:00.1Z stdout F "]
)
@pytest.mark.parametrize("named", [True, False])
def test_a_log_of_one_broker_is_its_folders(tmp_path: Path, before: str, named: bool) -> None:
    lines = [line for broker, line in WRITTEN if broker == 3 and (named or "KafkaServer" not in line)]
    tables = _audited(tmp_path / "cluster", {"broker-3/console.log": "\n".join(before + line for line in lines)})
    assert _said(tables) == [(3, 80, 100)]
    assert not _codes(tables)


@pytest.mark.parametrize(
    "path",
    [
        "logs/broker-3/server.log",
        "logs/3/server.log",
        "logs/kafka-3/server.log",
        "var/log/broker-3/console.txt",
        "logs/broker-3.server.log",
    ],
)
def test_logs_beside_the_data_belong_to_the_broker_that_their_folder_names(tmp_path: Path, path: str) -> None:
    text = f"{_line(5, 'starting')}\n{_line(6, CUT.format(80, 100))}\n"
    tables = _audited(tmp_path / "cluster", {path: text, "logs/broker-1/server.log": _line(7, LOG + "Truncating to offset 9")})
    assert _said(tables) == [(3, 80, 100)]
    assert not _codes(tables)


def test_a_log_that_another_broker_wrote_is_not_read_for_its_folder(tmp_path: Path) -> None:
    text = "\n".join(line for broker, line in WRITTEN if broker == 3)
    tables = _audited(tmp_path / "cluster", {"logs/broker-2/server.log": text})
    assert _said(tables) == []
    assert _codes(tables) == [("server.log", "server-log-of-another-broker")]


@pytest.mark.parametrize("pod", ["kafka-549545757c-2lmxv", "kafka-5ff8667569-jbfmv", "kafka-7d", "mykafka"])
def test_a_hash_in_a_name_is_no_number(tmp_path: Path, pod: str) -> None:
    text = "\n".join(f"[pod/{pod}/kafka] {line}" for broker, line in UNNAMED if broker == 3)
    assert _said(_audited(tmp_path / "cluster", {"broker-3/console.log": text})) == [(3, 80, 100)]
    text = "\n".join(json.dumps({"kubernetes": {"pod_name": pod}, "log": line}) for broker, line in UNNAMED if broker == 3)
    assert _said(_audited(tmp_path / "json", {"broker-3/console.log": text})) == [(3, 80, 100)]


@pytest.mark.parametrize("key", ["pod_name", "kubernetes.pod_name", "k8s.pod.name", "host.name", "container_name"])
def test_names_of_fields_with_dots(tmp_path: Path, key: str) -> None:
    text = "\n".join(json.dumps({"timeUnixNano": 1, "body": line, key: f"kafka-{broker}"}) for broker, line in UNNAMED)
    assert _said(_audited(tmp_path / "cluster", {"all.jsonl": text})) == [(3, 80, 100)]


@pytest.mark.parametrize("mark", [b"\xfd7zXZ\0abc", b"BZh91AY&SY", b"\x28\xb5\x2f\xfdabc", b"PK\x03\x04abcd"])
def test_a_packed_log_that_is_not_read_is_told(tmp_path: Path, mark: bytes) -> None:
    shutil.copytree(CASE, tmp_path / "cluster")
    (tmp_path / "cluster" / "broker-3" / "server.log.packed").write_bytes(mark)
    assert _codes(in_process.audit(tmp_path / "cluster")) == [("server.log", "unusable-log")]


def test_an_unclean_election_is_told_whoever_logged_it(tmp_path: Path) -> None:
    line = "[QuorumController id=3000] UNCLEAN partition change for pay-0 with topic ID x: leader: 1 -> 2, leaderEpoch: 3 -> 4"
    tables = _audited(tmp_path / "cluster", {"all.log": _laid_out("compose", WRITTEN) + f"controller-0 | {_line(9, line)}\n"})
    told = [(row["kind"], row["broker_id"], row["leader_id"]) for row in tables["logged_incidents"]]
    assert told == [("removed_below_high_watermark", 3, None), ("unclean_election", None, 2)]
    assert not _codes(tables)


# ------------------------------------------------------------------------------------------------------------------------------ order

HISTORY = [
    _line(10, "[KafkaServer id=3] started"),
    _line(11, CUT.format(50, 60)),
    _line(11, LOG + "Truncating to offset 50"),
    _line(20, CUT.format(80, 100)),
    _line(20, LOG + "Truncating to offset 80"),
    _line(30, "[KafkaServer id=3] shutting down"),
]


def _of(lines: Sequence[str], tmp_path: Path, name: str) -> list[tuple[int, str]]:
    tables = _audited(tmp_path / name, {"broker-3/export.log": "\n".join(lines)})
    assert not _codes(tables)
    return [(row["truncation_offset"], row["severity"]) for row in tables["logged_incidents"]]


ORDERS = {
    "newest first": HISTORY[::-1],
    "the second file first": [*HISTORY[3:], *HISTORY[:3]],
    "mixed": [HISTORY[place] for place in (3, 1, 5, 2, 0, 4)],
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_last_by_the_lines_own_times_counts(tmp_path: Path, order: str) -> None:
    expected = [(50, "none"), (80, "error")]
    assert _of(HISTORY, tmp_path, "as written") == expected
    assert _of(ORDERS[order], tmp_path, "other") == expected


@pytest.mark.parametrize("zone", ["", "Z"])
def test_equal_times_keep_the_order_of_the_file(tmp_path: Path, zone: str) -> None:
    lines = [_line(10, "[KafkaServer id=3] started"), *(_line(11, CUT.format(n, n + 5)) for n in (60, 40, 50)), _line(12, "Loaded")]
    lines = [f"2026-06-01T08:00:00{zone} {line}" for line in lines] if zone else lines
    for name, order in (("oldest first", lines), ("newest first", lines[::-1])):
        assert _of(order, tmp_path, name) == [(60, "none"), (40, "none"), (50, "error")]


@pytest.mark.parametrize("clock", ["[10:00:{:02d},000]", "Jun 01 10:00:{:02d} host3 kafka[1]:"])
def test_lines_without_a_year_keep_the_order_of_the_file(tmp_path: Path, clock: str) -> None:
    messages = [
        "[KafkaServer id=3] started (kafka.x)",
        CUT.format(50, 60),
        "[KafkaServer id=3] x",
        CUT.format(80, 90),
        "[KafkaServer id=3] y",
    ]
    lines = [f"{clock.format(place)} INFO {message}" for place, message in enumerate(messages)]
    assert _of(lines, tmp_path, "oldest first") == [(50, "none"), (80, "error")]
    assert _of(lines[::-1], tmp_path, "newest first") == [(50, "none"), (80, "error")]


def test_rolled_files_are_one_log(tmp_path: Path) -> None:
    names = ("server.log", "server.log.1")
    for name, parts in (("rolled", (HISTORY[3:], HISTORY[:3])), ("interleaved", (HISTORY[::2], HISTORY[1::2]))):
        files = {f"broker-3/{file}": "\n".join(part) for file, part in zip(names, parts, strict=True)}
        tables = _audited(tmp_path / name, files)
        assert [(row["truncation_offset"], row["severity"]) for row in tables["logged_incidents"]] == [(50, "none"), (80, "error")]
